"""The parts of the shell on their own: the seccomp filter, variables, output, protected files."""

import errno
import os
import shutil
import struct
import subprocess
from collections.abc import Generator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolglot.builtin.shell.arguments import CommandOptions
from toolglot.builtin.shell.output import KEEP_BYTES, OutputBuffer, OutputLimit, make_excerpt, to_plain_text
from toolglot.builtin.shell.protected_paths import (
    ProtectedScanner,
    ProtectionReport,
    revert_changes,
    take_snapshot,
)
from toolglot.builtin.shell.session import ShellSession
from toolglot.confine import limits
from toolglot.confine.environment import safe_environment, validate_environment
from toolglot.confine.limits import CommandLimits
from toolglot.confine.sandbox import Confinement, Launch, SandboxLevel
from toolglot.confine.seccomp import AF_INET, MACHINES, build_seccomp_filter
from toolglot.errors import ToolError

ALLOWED, KILLED, PASSED_ON = 0x7FFF0000, 0x80000000, 0x7FC00000
REFUSED, ABSENT = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def evaluate(program: bytes, number: int, architecture: int, arguments: tuple[int, ...] = ()) -> int:
    """Return what the kernel would decide about a call, by running the program."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    instructions = list(struct.iter_unpack("=HBBI", program))
    index = value = 0
    while True:
        code, yes, no, k = instructions[index]
        index += 1
        match code:
            case 0x20:
                value = struct.unpack_from("=I", data, k)[0]
            case 0x54:
                value &= k
            case 0x15:
                index += yes if value == k else no
            case 0x35:
                index += yes if value >= k else no
            case 0x45:
                index += yes if value & k else no
            case 0x06:
                return k
            case _:
                raise AssertionError(f"opcode {code:#x}")


NEW_USER, HIGH = 0x10000000, 1 << 40
Call = tuple[str, tuple[int, ...]]
CALLS: list[tuple[str, tuple[int, ...], int]] = [
    ("ptrace", (), REFUSED),
    ("mount", (), REFUSED),
    ("keyctl", (), REFUSED),
    ("bpf", (), REFUSED),
    ("setns", (), REFUSED),
    ("move_mount", (), REFUSED),
    ("pidfd_getfd", (), REFUSED),
    ("clone3", (), ABSENT),
    ("io_uring_setup", (), ABSENT),
    ("socket", (AF_INET,), ALLOWED),
    ("socket", (1,), REFUSED),
    ("socket", (1 | HIGH,), REFUSED),
    ("socket", (40,), REFUSED),
    ("socketpair", (1, 1), ALLOWED),
    ("socketpair", (1, 1 | 0o2000000), ALLOWED),
    ("socketpair", (1, 2), REFUSED),
    ("socketpair", (1, 2 | 0o4000), REFUSED),
    ("socketpair", (1, 3), REFUSED),
    ("clone", (17,), ALLOWED),
    ("clone", (NEW_USER | 17,), REFUSED),
    ("unshare", (0x400,), ALLOWED),
    ("unshare", (NEW_USER,), REFUSED),
    ("unshare", (0x80,), REFUSED),
    ("ioctl", (0, 0x5401), ALLOWED),
    ("ioctl", (0, 0x5412), REFUSED),
    ("ioctl", (0, 0x5412 | HIGH), REFUSED),
    ("ioctl", (0, 0x541C), REFUSED),
    ("truncate", (), ALLOWED),
    ("openat2", (), ABSENT),
    ("chmod", (0, 0o4755), REFUSED),
    ("fchmod", (3, 0o2755 | HIGH), REFUSED),
    ("fchmodat", (0o6000, 0o6000, 0o2000), REFUSED),
    ("fchmodat2", (3, 0, 0o4000), REFUSED),
    ("creat", (0, 0o4644), REFUSED),
    ("open", (0, 0, 0o4000), ALLOWED),
    ("open", (0, 0o101, 0o644), ALLOWED),
    ("open", (0, 0o101, 0o4644), REFUSED),
    ("openat", (0, 0, 0o2000000, 0o4644), ALLOWED),
    ("openat", (0, 0, 0o101, 0o4644), REFUSED),
    ("openat", (0, 0, 0o20200002, 0o2644), REFUSED),
    ("mknod", (0, 0o104644), REFUSED),
    ("mknodat", (0, 0, 0o10644), ALLOWED),
    ("mknodat", (0, 0, 0o106644), REFUSED),
]
SHARED_CALLS: list[Call] = [  # refused only to commands that share the host's processes
    ("prlimit64", (1,)),
    ("prlimit64", (0xFFFFFFFF,)),
    ("sched_setparam", (7,)),
    ("sched_setscheduler", (7,)),
    ("sched_setaffinity", (7,)),
    ("sched_setattr", (7,)),
    ("setpriority", (0, 7)),
    ("setpriority", (2, 0)),
    ("ioprio_set", (1, 7)),
    ("ioprio_set", (3, 0)),
    ("shmget", ()),
    ("shmat", ()),
    ("semop", ()),
    ("msgrcv", ()),
    ("mq_open", ()),
    ("ioctl", (3, 0x40086602)),
]
METADATA_CALLS: list[Call] = [  # passed to the supervisor for commands that share the host's files
    ("chmod", (0, 0o755)),
    ("fchmod", (0, 0o1777)),
    ("fchmodat", (3, 0, 0o755)),
    ("lchown", (0, 1, 1)),
    ("fchownat", (0, 0, 1, 1)),
    ("utimensat", ()),
    ("utime", ()),
]
OWN_CALLS: list[Call] = [
    ("prlimit64", (0, 7)),
    ("sched_setaffinity", (0, 128)),
    ("setpriority", (0, 0, 5)),
    ("ioprio_set", (1, 0, 3)),
]


@pytest.mark.parametrize("machine", MACHINES)
class TestSeccomp:
    @pytest.mark.parametrize("private", [True, False])
    def test_calls(self, machine: str, private: bool) -> None:
        architecture, numbers = MACHINES[machine]
        program = build_seccomp_filter(machine, [AF_INET], private=private)
        shared, metadata = (ALLOWED, ALLOWED) if private else (REFUSED, PASSED_ON)
        calls = [
            *CALLS,
            *((*call, shared) for call in SHARED_CALLS),
            *((*call, ALLOWED) for call in OWN_CALLS),
        ]
        calls += [(*call, metadata) for call in METADATA_CALLS]
        expected = {call: call[2] for call in calls if call[0] in numbers}
        assert {
            call: evaluate(program, numbers[call[0]], architecture, call[1]) for call in expected
        } == expected

    def test_other_architectures_are_killed(self, machine: str) -> None:
        program = build_seccomp_filter(machine, [AF_INET], private=False)
        assert evaluate(program, 1, 0x40000003) == KILLED
        if machine == "x86_64":
            assert evaluate(program, 0x40000000 | 39, MACHINES[machine][0]) == KILLED

    def test_other_calls_are_allowed(self, machine: str) -> None:
        architecture, numbers = MACHINES[machine]
        others = set(range(460)) - set(numbers.values())
        program = build_seccomp_filter(machine, [], private=False)
        assert {evaluate(program, number, architecture) for number in others} == {ALLOWED}

    def test_truncate_is_refused_where_landlock_does_not_check_it(self, machine: str) -> None:
        architecture, numbers = MACHINES[machine]
        program = build_seccomp_filter(machine, [], private=False, may_truncate=False)
        assert evaluate(program, numbers["truncate"], architecture) == REFUSED

    def test_it_is_short_enough_for_the_kernel(self, machine: str) -> None:
        assert len(build_seccomp_filter(machine, range(40), private=False)) // 8 < 4096


class TestLimits:
    """cgroups of both versions, in directories that look like them."""

    @pytest.fixture(autouse=True)
    def groups(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(limits, "_CGROUPS", tmp_path)
        monkeypatch.setattr(limits, "_OWN_CGROUPS", tmp_path / "self")
        limits._parent_groups.cache_clear()  # pyright: ignore[reportPrivateUsage]
        return tmp_path

    @pytest.fixture(autouse=True)
    def forget(self) -> Generator[None]:
        yield
        limits._parent_groups.cache_clear()  # pyright: ignore[reportPrivateUsage]

    def _delegate(self, monkeypatch: pytest.MonkeyPatch, *parents: Path) -> None:
        """Make new directories in these have the files of a group, as the kernel does."""
        mkdir = Path.mkdir

        def make(path: Path, *arguments: Any, **options: Any) -> None:
            mkdir(path, *arguments, **options)
            if path.parent in parents:
                names = ("pids.max", "memory.max", "memory.swap.max", "cgroup.procs")
                for name in names if path.parent.name == "app.slice" else ("cgroup.procs",):
                    (path / name).write_text("max")

        def remove(paths: Iterable[Path]) -> None:
            for path in paths:
                shutil.rmtree(path)

        monkeypatch.setattr(Path, "mkdir", make)
        monkeypatch.setattr(limits, "remove_cgroups", remove)

    def test_groups_of_version_2_are_made_beside_our_own(
        self, groups: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scope = groups / "user.slice/app.slice/own.scope"
        scope.mkdir(parents=True)
        (groups / "self").write_text("0::/user.slice/app.slice/own.scope\n")
        self._delegate(monkeypatch, scope, scope.parent)
        assert limits.describe_limits() == {"processes": "cgroup", "memory": "cgroup"}
        (group,) = limits.create_cgroups(CommandLimits(64, 5_000_000))
        assert group.parent == scope.parent
        assert [(group / name).read_text() for name in ("pids.max", "memory.max", "memory.swap.max")] == [
            "64",
            "5000000",
            "0",
        ]
        assert limits.was_out_of_memory([group]) is False
        (group / "memory.events").write_text("oom 1\noom_kill 2\n")
        assert limits.was_out_of_memory([group]) is True

    @pytest.mark.parametrize("lines", ["0::/\n", "0::/gone\n", "5:memory:/x\n4:cpu,cpuacct:/\n", ""])
    def test_without_groups_each_process_is_limited(self, groups: Path, lines: str) -> None:
        (groups / "self").write_text(lines)
        assert limits.create_cgroups(CommandLimits()) == ()
        assert limits.describe_limits()["memory"] == "rlimit of each process"
        prelude = limits.ulimit_prelude("/bin/bash", CommandLimits(memory=2048_000), [groups])
        assert "ulimit -d 2000 " in prelude
        assert "ulimit -c 0 " in prelude
        assert "ulimit -f " in prelude

    @pytest.mark.parametrize(("lines", "files", "limit"), [
        ("0::/pod/own\n", {"pod/own/memory.max": "max", "pod/memory.max": "2000000"}, 2_000_000),
        ("0::/not/seen/here\n", {"memory.max": "2000000"}, 2_000_000),
        ("5:memory:/docker/x\n0::/\n", {"memory/memory.limit_in_bytes": "2000000"}, 2_000_000),
        ("5:cpu,memory:/own\n", {"memory/own/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/own\n", {"own/memory.max": "max"}, None),
    ])  # fmt: skip
    def test_the_memory_is_that_of_the_container(
        self, groups: Path, lines: str, files: dict[str, str], limit: int | None
    ) -> None:
        (groups / "self").write_text(lines)
        for name, text in files.items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(f"{text}\n")
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert CommandLimits().memory_bytes == (limit or machine) * 3 // 4

    def test_a_small_disk_does_not_limit_files_on_a_large_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes = {Path("/tmp"): 1024**2, Path("/work"): 1024**4}

        def measure(path: Path) -> SimpleNamespace:
            return SimpleNamespace(f_blocks=sizes[path], f_frsize=1)

        monkeypatch.setattr(os, "statvfs", measure)
        assert f"ulimit -f {1024**4 // 2048} " in limits.ulimit_prelude("/bin/bash", CommandLimits(), sizes)

    def test_a_disk_that_is_nearly_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = {Path("/a"): 100 * 1024**3, Path("/b"): 1000}
        monkeypatch.setattr(limits, "_free_disk", free.__getitem__)
        watch = limits.DiskWatch(free)
        assert watch.is_full() is False
        free[Path("/b")] = 600
        assert watch.is_full() is False
        free[Path("/a")] = 1024**3
        assert watch.is_full() is True
        free |= {Path("/a"): 100 * 1024**3, Path("/b"): 400}
        assert watch.is_full() is True


class TestEnvironment:
    @pytest.mark.parametrize(("name", "value"), [
        ("OPENAI_API_KEY", "x"),
        ("MY_TOKEN", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("PASSWORD", "x"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("LD_PRELOAD", "/tmp/evil.so"),
        ("BASH_ENV", "/tmp/evil"),
        ("PYTHONPATH", "/tmp"),
        ("DATABASE_URL", "postgres://u:p@host"),
        ("GIT_SSH_COMMAND", "x"),
        ("LANG", "sk-abcdefghij0123456789abcd"),
        ("LC_TOKEN", "x"),
        ("HOSTNAME", "https://user:hunter2@host"),
    ])  # fmt: skip
    def test_possible_secrets_are_left_out(self, name: str, value: str) -> None:
        assert name not in safe_environment({name: value})

    @pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV"])
    def test_safe_variables_are_kept(self, name: str) -> None:
        assert safe_environment({name: "/some/place"})[name] == "/some/place"

    def test_programs_do_not_expect_a_terminal(self) -> None:
        assert safe_environment({"TERM": "xterm"})["TERM"] == "dumb"

    @pytest.mark.parametrize(
        "variables",
        [
            {"": "x"},
            {"A=B": "x"},
            {"A B": "x"},
            {"1A": "x"},
            {"Ä": "x"},
            {"A": "\0"},
            {"A": "x" * 40_000},
            {"A": "\ud800"},
        ],
    )
    def test_invalid_variables_are_refused(self, variables: dict[str, str]) -> None:
        with pytest.raises(ToolError, match="env") as caught:
            validate_environment(variables)
        assert caught.value.kind == "validation"

    def test_too_many_are_refused(self) -> None:
        with pytest.raises(ToolError, match="at most"):
            validate_environment({f"A{number}": "" for number in range(300)})


TEXTS = [
    (b"plain\n", "plain\n"),
    (b"\x1b[31mred\x1b[0m", "red"),
    (b"\x1b]0;title\x07after", "after"),
    (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    (b"\x1b[2J\x1b[1;1Hhome", "home"),
    (b"\x1bPdevice\x1b\\x", "x"),
    (b"\xc2\x9b31mred", "red"),
    (b"10%\r20%\r100%\n", "100%\n"),
    (b"windows\r\nlines\r\n", "windows\nlines\n"),
    (b"ab\x08c", "ac"),
    (b"nul\x00byte", "nul\ufffdbyte"),
    (b"\xff\xfe", "\ufffd\ufffd"),
    (b"tab\tstays", "tab\tstays"),
    ("Grüße 世界 🎉\n".encode(), "Grüße 世界 🎉\n"),
    ("a\u202eb".encode(), "a\ufffdb"),
    (b"\x1b", ""),
    (b"\x1b[", ""),
]


class TestOutput:
    @pytest.mark.parametrize(("data", "text"), TEXTS)
    def test_plain_text(self, data: bytes, text: str) -> None:
        assert to_plain_text(data) == text

    @pytest.mark.parametrize(
        "unit", [b"\x1b[", b"\x1b]", b"\r", b"\x08", b"a\x08", b"\x1b[0;", b"\x1bP", b"\xc2\x9b"]
    )
    def test_hostile_output_is_cleaned(self, unit: bytes) -> None:
        assert "\x1b" not in to_plain_text(unit * 100_000)

    def test_the_start_and_the_end_are_shown(self) -> None:
        excerpt = make_excerpt(b"a" * 500 + b"z" * 500, 0, b"", OutputLimit(100))
        assert (excerpt.head, excerpt.tail, excerpt.omitted) == ("a" * 33, "z" * 67, 900)
        assert "900 characters omitted" in excerpt.text

    @pytest.mark.parametrize(("share", "head", "tail"), [(0, 0, 100), (0.2, 20, 80), (1, 100, 0)])
    @pytest.mark.parametrize("gap", [0, 7])
    def test_the_fraction_of_the_head(self, share: float, head: int, tail: int, gap: int) -> None:
        excerpt = make_excerpt(b"a" * 500, gap, b"z" * 500, OutputLimit(100, share))
        assert (excerpt.head, excerpt.tail, excerpt.omitted) == ("a" * head, "z" * tail, 900 + gap)

    def test_memory_does_not_grow_with_output(self, tmp_path: Path) -> None:
        output = OutputBuffer(tmp_path, 1000)
        for number in range(400):
            output.add(bytes([number % 256]) * 65_536)
        head, gap, tail = output.read_from(0)
        assert (len(head), output.total_bytes) == (KEEP_BYTES, 400 * 65_536)
        assert KEEP_BYTES <= len(tail) <= 2 * KEEP_BYTES
        assert len(head) + gap + len(tail) == output.total_bytes
        output.close()
        assert output.spill_path is not None
        assert output.spill_path.stat().st_size == output.total_bytes
        assert output.spill_path.stat().st_mode & 0o777 == 0o600

    def test_new_output_is_read_from_an_offset(self) -> None:
        output = OutputBuffer(None)
        output.add(b"one")
        at = output.total_bytes
        output.add(b"two")
        assert output.read_from(at) == (b"two", 0, b"")
        output.add(b"x" * KEEP_BYTES)
        head, gap, tail = output.read_from(at)
        assert head + tail == b"two" + b"x" * KEEP_BYTES
        assert gap == 0
        assert output.read_from(output.total_bytes) == (b"", 0, b"")

    def test_output_that_arrives_while_a_result_is_built_is_shown_next(self, tmp_path: Path) -> None:
        confinement = Confinement(level=SandboxLevel.NONE, roots=(), scratch=tmp_path)
        session = ShellSession("1", "true", confinement=confinement, cwd=tmp_path, options=CommandOptions())
        for chunk in (b"one", b"x" * 3 * KEEP_BYTES, b"two"):
            session.output.add(chunk)
            head, gap, tail = session.take_output(session.shown_bytes)
            assert len(head) + gap + len(tail) == len(chunk)
            session.output.add(b"late")
            assert session.take_output(session.shown_bytes) in [(b"late", 0, b""), (b"", 0, b"late")]

    def test_the_spill_file_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("toolglot.builtin.shell.output.MAX_SPILL_BYTES", 5000)
        output = OutputBuffer(tmp_path, 10)
        for _ in range(10):
            output.add(b"x" * 1000)
        assert output.spill_path is not None
        assert (output.spill_path.stat().st_size, output.is_spill_complete) == (5000, False)
        output.delete_spill()
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_directory_does_no_harm(self, tmp_path: Path) -> None:
        output = OutputBuffer(tmp_path / "gone", 1)
        output.add(b"some text")
        assert output.read_from(0)[0] == b"some text"
        assert output.is_spill_complete is False


class TestProtectedPaths:
    def work(self, base: Path) -> tuple[Path, Path]:
        for name in ("work/.git/hooks", "work/.git/objects", "outside"):
            (base / name).mkdir(parents=True)
        (base / "work/.git/config").write_text("as it was")
        (base / "work/.envrc").write_text("as it was")
        (base / "outside/file").write_text("as it was")
        return base / "work", base / "quarantine"

    def revert(self, base: Path, act: str, **options: bool) -> tuple[set[str], set[str], set[str]]:
        work, quarantine = self.work(base)
        scanner = ProtectedScanner()
        snapshot = take_snapshot(work, scanner.find_sites(work).add_link_targets(work))
        subprocess.run(["/bin/sh", "-c", act], cwd=work, check=True)
        report = revert_changes(scanner, [snapshot], quarantine, **options)
        parts = ([old for old, _ in report.removed], [old for old, _ in report.restored], report.changed)
        removed, restored, changed = ({str(path.relative_to(work)) for path in paths} for paths in parts)
        return removed, restored, changed

    @pytest.mark.parametrize(("act", "removed", "restored"), [
        ("true", set[str](), set[str]()),
        ("touch src.py; mkdir sub", set[str](), set[str]()),
        ("touch .mcp.json", {".mcp.json"}, set[str]()),
        ("mkdir .VSCode; touch .VSCode/x", {".VSCode"}, set[str]()),
        ("ln -s /etc .claude", {".claude"}, set[str]()),
        ("echo x > .git/hooks/pre-commit", {".git/hooks/pre-commit"}, set[str]()),
        ("touch .git/objects/x .git/index", set[str](), set[str]()),
        ("echo x >> .git/config", set[str](), {".git/config"}),
        ("rm .envrc", set[str](), {".envrc"}),
        ("rm .envrc; ln -s ../outside/file .envrc", set[str](), {".envrc"}),
        ("chmod 777 .envrc", set[str](), {".envrc"}),
        ("ln .envrc other; ln .git/config .git/objects/other", set[str](), {".envrc", ".git/config"}),
    ])  # fmt: skip
    def test_new_files_are_removed_and_changed_ones_restored(
        self, tmp_path: Path, act: str, removed: set[str], restored: set[str]
    ) -> None:
        assert self.revert(tmp_path, act) == (removed, restored, set[str]())
        assert (
            (tmp_path / "work/.envrc").read_text()
            == (tmp_path / "work/.git/config").read_text()
            == "as it was"
        )
        assert (
            (tmp_path / "work/.envrc").stat().st_nlink == (tmp_path / "work/.git/config").stat().st_nlink == 1
        )
        assert (tmp_path / "outside/file").read_text() == "as it was"

    def test_links_do_not_lead_out(self, tmp_path: Path) -> None:
        act = "mv .git/hooks aside; ln -s ../../outside .git/hooks; rm .git/config; rm -r .git/objects"
        assert self.revert(tmp_path, act)[2] == {".git/hooks"}
        assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]

    def test_a_link_that_is_exchanged_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Python's realpath fails if a link becomes a directory while it looks."""
        work, _ = self.work(tmp_path)
        (work / ".vscode").symlink_to(work / ".git")
        sites, read_link = ProtectedScanner().find_sites(work), os.readlink

        def exchange(path: Any, **options: Any) -> Any:
            (work / ".vscode").unlink()
            (work / ".vscode").mkdir()
            return read_link(path, **options)

        monkeypatch.setattr(os, "readlink", exchange)
        assert sites.add_link_targets(work).parents == sites.parents

    def test_what_only_the_user_can_have_changed_is_left_alone(self, tmp_path: Path) -> None:
        """The kernel kept the command from it."""
        work, quarantine = self.work(tmp_path)
        scanner = ProtectedScanner()
        sites = scanner.find_sites(work)
        snapshot = take_snapshot(work, sites, sites.parents.keys() - {".git"}, [".git"])
        act = (
            "mkdir -p new/hooks new/info; rm -r .git; mv new .git; echo mine > .git/config; echo mine > "
            ".envrc"
        )
        subprocess.run(["/bin/sh", "-c", act], cwd=work, check=True)
        assert revert_changes(scanner, [snapshot], quarantine) == ProtectionReport()
        assert (work / ".git/config").read_text() == (work / ".envrc").read_text() == "mine\n"

    def test_while_it_runs_only_new_files_are_undone(self, tmp_path: Path) -> None:
        act = "echo x > .envrc; echo x > .mcp.json"
        assert self.revert(tmp_path, act, new_only=True) == ({".mcp.json"}, set[str](), set[str]())
        assert (tmp_path / "work/.envrc").read_text() == "x\n"

    def test_removed_files_are_kept(self, tmp_path: Path) -> None:
        self.revert(tmp_path, "echo mine > .mcp.json")
        assert [path.read_text() for path in (tmp_path / "quarantine").iterdir()] == ["mine\n"]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd")
def test_a_sandbox_is_over_when_its_last_process_is(tmp_path: Path) -> None:
    """However long that takes on a busy machine: it could still write to protected files."""
    with subprocess.Popen(["sleep", "0.8"]) as last:
        reader, writer = os.pipe()
        os.write(writer, f'{{ "child-pid": {last.pid} }}\n{{ "exit-code": 0 }}\n'.encode())
        assert Launch(argv=[], pass_fds=(), info_fd=reader).wait_for_namespace()
        assert last.poll() == 0
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("moment", ["mkdir -p sub/.git", "mkdir -p sub/.git; : > sub/.git/config"])
def test_what_a_killed_command_has_left_half_done_does_no_harm(tmp_path: Path, moment: str) -> None:
    """It wanted to write settings that run a program: git finds none, so the directory may stay."""
    scanner = ProtectedScanner()
    snapshot = take_snapshot(tmp_path, scanner.find_sites(tmp_path))
    subprocess.run(["bash", "-c", moment], cwd=tmp_path, check=True)
    report = revert_changes(scanner, [snapshot], tmp_path.parent / "removed")
    assert (report.removed, (tmp_path / "sub/.git").exists()) == ([], True)
    (tmp_path / "sub/.git/config").write_text("[core]\n\tfsmonitor = touch evil\n")
    report = revert_changes(scanner, [snapshot], tmp_path.parent / "removed")
    assert [old for old, _ in report.removed] == [tmp_path / "sub/.git"]
