"""The parts of the shell by themselves: the filter of system calls, variables, output, protected names."""

import errno
import struct
import subprocess
from pathlib import Path

import pytest

from toolglot.builtin.files.workspace import Root
from toolglot.builtin.shell.environment import safe_environment, validate_environment
from toolglot.builtin.shell.output import KEEP_BYTES, OutputBuffer, OutputLimit, make_excerpt, to_plain_text
from toolglot.builtin.shell.protected_paths import revert_changes, take_snapshots
from toolglot.builtin.shell.seccomp import AF_INET, MACHINES, build_seccomp_filter
from toolglot.errors import ToolError

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
REFUSED, ABSENT = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def judged(program: bytes, number: int, architecture: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel would say of a call: the program, run by hand."""
    seen = struct.pack("=iIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        match code:
            case 0x20:
                value = struct.unpack_from("=I", seen, k)[0]
            case 0x54:
                value &= k
            case 0x15:
                at += yes if value == k else no
            case 0x35:
                at += yes if value >= k else no
            case 0x45:
                at += yes if value & k else no
            case 0x06:
                return k
            case _:
                raise AssertionError(f"step {code:#x}")


NEW_USER, HIGH = 0x10000000, 1 << 40
CALLS = [
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
]


@pytest.mark.parametrize("machine", MACHINES)
class TestTheFilter:
    @pytest.mark.parametrize(("name", "arguments", "verdict"), CALLS)
    def test_judges_calls(self, machine: str, name: str, arguments: tuple[int, ...], verdict: int) -> None:
        architecture, numbers = MACHINES[machine]
        assert judged(build_seccomp_filter(machine, [AF_INET]), numbers[name], architecture, arguments) == verdict

    def test_ends_calls_of_other_architectures(self, machine: str) -> None:
        program = build_seccomp_filter(machine, [AF_INET])
        assert judged(program, 1, 0x40000003) == KILLED
        if machine == "x86_64":
            assert judged(program, 0x40000000 | 39, MACHINES[machine][0]) == KILLED

    def test_allows_what_it_does_not_name(self, machine: str) -> None:
        architecture, numbers = MACHINES[machine]
        others = set(range(460)) - set(numbers.values())
        program = build_seccomp_filter(machine, [])
        assert {judged(program, number, architecture) for number in others} == {ALLOWED}

    def test_forbids_truncation_by_path_where_landlock_does_not_know_it(self, machine: str) -> None:
        architecture, numbers = MACHINES[machine]
        program = build_seccomp_filter(machine, [], may_truncate=False)
        assert judged(program, numbers["truncate"], architecture) == REFUSED

    def test_is_short_enough_for_the_kernel(self, machine: str) -> None:
        assert len(build_seccomp_filter(machine, range(40))) // 8 < 4096


class TestVariables:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
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
        ],
    )
    def test_what_is_or_may_be_secret_is_left_out(self, name: str, value: str) -> None:
        assert name not in safe_environment({name: value})

    @pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV"])
    def test_what_says_where_things_are_stays(self, name: str) -> None:
        assert safe_environment({name: "/some/place"})[name] == "/some/place"

    def test_programs_are_told_that_nobody_looks(self) -> None:
        assert safe_environment({"TERM": "xterm"})["TERM"] == "dumb"

    @pytest.mark.parametrize(
        "given",
        [{"": "x"}, {"A=B": "x"}, {"A B": "x"}, {"1A": "x"}, {"Ä": "x"}, {"A": "\0"}, {"A": "x" * 40_000}, {"A": "\ud800"}],
    )
    def test_what_is_no_variable_is_refused(self, given: dict[str, str]) -> None:
        with pytest.raises(ToolError, match="env") as caught:
            validate_environment(given)
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
    def test_bytes_of_any_kind_are_text_for_a_model(self, data: bytes, text: str) -> None:
        assert to_plain_text(data) == text

    @pytest.mark.parametrize("unit", [b"\x1b[", b"\x1b]", b"\r", b"\x08", b"a\x08", b"\x1b[0;", b"\x1bP", b"\xc2\x9b"])
    def test_hostile_output_is_cleaned_in_time(self, unit: bytes) -> None:
        assert "\x1b" not in to_plain_text(unit * 100_000)

    def test_the_beginning_and_the_end_are_shown(self) -> None:
        found = make_excerpt(b"a" * 500 + b"z" * 500, 0, b"", OutputLimit(100))
        assert (found.head, found.tail, found.omitted) == ("a" * 33, "z" * 67, 900)
        assert "900 characters left out" in found.text

    @pytest.mark.parametrize(("share", "head", "tail"), [(0, 0, 100), (0.2, 20, 80), (1, 100, 0)])
    @pytest.mark.parametrize("gap", [0, 7])
    def test_which_share_is_from_the_beginning_is_ones_choice(self, share: float, head: int, tail: int, gap: int) -> None:
        found = make_excerpt(b"a" * 500, gap, b"z" * 500, OutputLimit(100, share))
        assert (found.head, found.tail, found.omitted) == ("a" * head, "z" * tail, 900 + gap)

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

    def test_what_is_new_is_read_from_where_one_was(self) -> None:
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

    def test_the_file_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("toolglot.builtin.shell.output.MAX_SPILL_BYTES", 5000)
        output = OutputBuffer(tmp_path, 10)
        for _ in range(10):
            output.add(b"x" * 1000)
        assert output.spill_path is not None
        assert (output.spill_path.stat().st_size, output.is_spill_complete) == (5000, False)
        output.delete_spill()
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_gone_does_no_harm(self, tmp_path: Path) -> None:
        output = OutputBuffer(tmp_path / "gone", 1)
        output.add(b"some text")
        assert output.read_from(0)[0] == b"some text"
        assert output.is_spill_complete is False


class TestProtectedNames:
    def work(self, base: Path) -> tuple[Path, Path]:
        for name in ("work/.git/hooks", "work/.git/objects", "outside"):
            (base / name).mkdir(parents=True)
        (base / "work/.git/config").write_text("as it was")
        (base / "work/.envrc").write_text("as it was")
        (base / "outside/file").write_text("as it was")
        return base / "work", base / "away"

    def settled(self, base: Path, act: str, **options: bool) -> tuple[set[str], set[str], set[str]]:
        work, away = self.work(base)
        stock = take_snapshots([Root(work)], work, recursive=True)
        subprocess.run(["/bin/sh", "-c", act], cwd=work, check=True)
        found = revert_changes(stock, away, recursive=True, **{"may_restore": True, **options})
        parts = ([old for old, _ in found.removed], found.restored, found.changed)
        made, put_back, changed = ({str(path.relative_to(work)) for path in paths} for paths in parts)
        return made, put_back, changed

    @pytest.mark.parametrize(
        ("act", "made", "put_back"),
        [
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
        ],
    )
    def test_what_is_new_goes_and_what_changed_is_put_back(
        self, tmp_path: Path, act: str, made: set[str], put_back: set[str]
    ) -> None:
        assert self.settled(tmp_path, act) == (made, put_back, set[str]())
        assert (tmp_path / "work/.envrc").read_text() == (tmp_path / "work/.git/config").read_text() == "as it was"
        assert (tmp_path / "outside/file").read_text() == "as it was"

    def test_links_do_not_lead_the_repair_out(self, tmp_path: Path) -> None:
        act = "mv .git/hooks aside; ln -s ../../outside .git/hooks; rm .git/config; rm -r .git/objects"
        assert self.settled(tmp_path, act)[2] == {".git/hooks"}
        assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]

    def test_what_the_user_may_have_changed_meanwhile_is_only_told(self, tmp_path: Path) -> None:
        assert self.settled(tmp_path, "echo x > .envrc", may_restore=False) == (set[str](), set[str](), {".envrc"})
        assert (tmp_path / "work/.envrc").read_text() == "x\n"

    def test_what_is_taken_away_is_kept(self, tmp_path: Path) -> None:
        self.settled(tmp_path, "echo mine > .mcp.json")
        assert [path.read_text() for path in (tmp_path / "away").iterdir()] == ["mine\n"]
