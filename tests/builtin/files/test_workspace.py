"""The workspace: what it reads and writes, what it says, and that it agrees with the kernel about every path."""

import asyncio
import ctypes
import errno
import gc
import itertools
import os
import shutil
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from file_kit import read_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.builtin.edit.patch_tool import patch_tools
from toolglot.builtin.files.workspace import Change, FileVersion, Root, Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.confine import confined_open, roots
from toolglot.confine.confined_open import PATH_ONLY, has_openat2, open_beneath
from toolglot.errors import ToolError, UsageError
from toolglot.tools.context import Context
from toolglot.values.messages import ToolCall


@pytest.fixture
def top() -> Iterator[Path]:
    """In memory where there is such a place: every file is synced."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        yield Path(folder)


@pytest.fixture
def root(top: Path) -> Path:
    folder = top / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a")
    (folder / "sub" / "b.txt").write_bytes(b"b")
    return folder


@pytest.fixture
def box(root: Path) -> Iterator[Workspace]:
    workspace = Workspace(root)
    yield workspace
    workspace.close()


def refusal_of(act: Callable[..., object], *args: Any, **options: Any) -> ToolError:
    with pytest.raises(ToolError) as raised:
        act(*args, **options)
    assert "\n" not in str(raised.value)
    return raised.value


class TestLooking:
    def test_reads_at_most_so_much_and_one_more(self, box: Workspace, root: Path, way: str) -> None:
        (root / "long").write_bytes(b"0123456789")
        assert box.read("long", 3)[0] == b"0123"
        assert box.read("long", 10)[0] == b"0123456789"
        assert box.read("long", 0)[0] == b"0"

    @pytest.mark.parametrize(
        "path", ["a.txt", "./a.txt", "sub/../a.txt", "sub//..//a.txt", "{root}/a.txt", "{root}//./a.txt"]
    )
    def test_knows_the_real_path(self, box: Workspace, root: Path, way: str, path: str) -> None:
        data, opened = box.read(path.format(root=root), 9)
        assert (data, opened.relative_path, opened.path) == (b"a", "a.txt", root / "a.txt")

    @pytest.mark.parametrize(
        "target", ["sub", "{root}/sub", "../work/sub", "{root}/../work/sub", "sub/", "./sub/."]
    )
    def test_follows_links_that_stay_inside(self, box: Workspace, root: Path, way: str, target: str) -> None:
        (root / "link").symlink_to(target.format(root=root))
        data, opened = box.read("link/b.txt", 9)
        assert (data, opened.relative_path) == (b"b", "sub/b.txt")
        with box.open_directory("link") as directory:
            assert os.listdir(directory.fd) == ["b.txt"]
        assert box.inspect("link/nothing") is None

    def test_looks_without_a_handle(self, box: Workspace, root: Path, way: str) -> None:
        entry = box.inspect("sub")
        assert entry is not None
        assert stat.S_ISDIR(entry.status.st_mode)
        assert entry.fd == -1
        for missing in ("nothing", "a.txt/x", "nothing/x", "a.txt/"):
            assert box.inspect(missing) is None

    @pytest.mark.parametrize(
        ("path", "kind", "message"),
        [
            ("", "validation", "is not a path"),
            ("a\0b", "validation", "is not a path"),
            ("\ud800", "validation", "unpaired surrogate"),
            ("x" * 256, "validation", "too long"),
            ("ü" * 128, "validation", "too long"),
            ("d/" * 2048, "validation", "too long"),
            ("nothing", "execution", "no such file or directory: 'nothing'"),
            ("a.txt/x", "execution", "not a directory"),
            ("a.txt/", "execution", "not a directory"),
            ("sub", "execution", "is a directory"),
            (".", "execution", "is a directory"),
            ("..", "not_allowed", "outside"),
            ("/etc/passwd", "not_allowed", "outside"),
            ("{root}x/a.txt", "not_allowed", "outside"),
            ("loop", "execution", "too many symbolic links"),
        ],
    )
    def test_says_what_is_wrong(
        self, box: Workspace, root: Path, way: str, path: str, kind: str, message: str
    ) -> None:
        (root / "loop").symlink_to("loop")
        error = refusal_of(box.read, path.format(root=root), 9)
        assert error.kind == kind
        assert message in str(error)

    def test_deep_paths_and_long_and_odd_names(self, box: Workspace, root: Path, way: str) -> None:
        odd = ["n" * 255, "ü" * 127, "\U0001f600" * 63, os.fsdecode(b"\xff\xfe"), "a (deleted)"]
        odd += ["new\nline", "tab\t", " ", "-rf", "*"]
        for name in odd:
            assert box.write(name, name.encode("utf-8", "surrogateescape"), expected="absent").created
            assert box.write(name, b"again").created is False
            data, opened = box.read(name, 999)
            assert (data, opened.relative_path) == (b"again", name)
        deep = "/".join(["d"] * 300)
        box.write(f"{deep}/x.txt", b"deep")
        assert box.read(f"{deep}/x.txt", 9)[1].relative_path == f"{deep}/x.txt"
        assert set(os.listdir(root)) == {*odd, "a.txt", "sub", "d"}

    def test_a_file_that_is_gone_has_its_old_path(self, box: Workspace, root: Path, way: str) -> None:
        (root / "a (deleted)").write_bytes(b"")
        with box.open_file("a.txt") as opened:
            (root / "a.txt").unlink()
            assert os.readlink(f"/proc/self/fd/{opened.fd}").endswith(" (deleted)")
            assert roots.fd_path(opened.fd) == str(root / "a.txt")

    def test_that_are_forgotten_are_closed(self, root: Path) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            Workspace(root)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before

    @pytest.mark.parametrize("path", ["", "/somewhere/else/a.txt"], ids=["untold", "moved away"])
    def test_what_was_opened_must_be_reported_to_be_inside(
        self, box: Workspace, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        def path_of(handle: int, real: Callable[[int], str] = roots.fd_path) -> str:
            target = real(handle)
            return path if target.endswith("a.txt") else target

        monkeypatch.setattr(roots, "fd_path", path_of)
        assert refusal_of(box.inspect, "a.txt").kind == "not_allowed"


class TestRoots:
    def test_that_cannot_be_opened_are_one_sentence(self, tmp_path: Path) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for bad in ("missing", "file"):
            (tmp_path / "file").write_bytes(b"")
            with pytest.raises(UsageError, match="cannot be a workspace"):
                Workspace(tmp_path / bad)
            with pytest.raises(UsageError, match="cannot be a workspace"):
                Workspace(tmp_path, other_roots=[Root(tmp_path / bad)])
        assert len(os.listdir("/proc/self/fd")) <= before

    def test_are_reported_by_their_real_paths(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(".")
        box = Workspace(tmp_path / "link", other_roots=[Root(Path("/"), writable=False)])
        assert box.roots == (Root(tmp_path), Root(Path("/"), writable=False))
        assert box.read("/etc/passwd", 9)[1].relative_path == "etc/passwd"

    def test_that_are_closed_are_closed_once(self, root: Path, way: str) -> None:
        box = Workspace(root)
        box.close()
        other = os.open("/", os.O_RDONLY)
        box.close()
        os.close(other)
        refusal_of(box.read, "a.txt", 9)
        refusal_of(box.write, "a.txt", b"")

    def test_need_a_system_that_tells_where_they_are(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def readlink(*args: Any, **options: Any) -> str:
            raise FileNotFoundError

        monkeypatch.setattr(os, "readlink", readlink)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(UsageError, match="/proc is not mounted"):
            Workspace(root)
        assert len(os.listdir("/proc/self/fd")) <= before
        monkeypatch.setattr("fcntl.fcntl", lambda *args: os.fsencode(root) + b"\0" * 9)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        box = Workspace(root)
        assert box.root == root


class TestChanging:
    def test_makes_replaces_and_removes(self, box: Workspace, root: Path, way: str) -> None:
        written = box.write("x/y/z.txt", b"new")
        assert (written.path, written.created, written.backup) == (root / "x" / "y" / "z.txt", True, None)
        again = box.write("x/y/z.txt", b"newer", expected=written.version)
        assert again.created is False
        entry = box.inspect("x/y/z.txt")
        assert entry is not None
        assert entry.version == again.version
        assert box.remove("x/y/z.txt", expected=again.version).version is None
        assert read_tree(root) == {"a.txt": b"a", "sub/b.txt": b"b"}

    def test_writes_to_what_a_link_leads_to(self, box: Workspace, root: Path, way: str) -> None:
        (root / "near").symlink_to("sub/b.txt")
        (root / "far").symlink_to(root / "sub" / "b.txt")
        (root / "sub" / "dir").symlink_to(root / "sub")
        for number, path in enumerate(
            ("near", "far", "sub/dir/b.txt", "sub/dir/dir/b.txt", "sub/dir/new.txt")
        ):
            written = box.write(path, b"%d" % number)
            assert written.path.read_bytes() == b"%d" % number
            assert written.path.parent == root / "sub"
        assert (root / "near").is_symlink()

    @pytest.mark.parametrize(
        "path", [".", "sub", "sub/", "sub/.", "sub/..", "link", "home", "a.txt/", "new/", "a.txt/x", "x/../y"]
    )
    def test_refuses_what_is_no_file(self, box: Workspace, root: Path, way: str, path: str) -> None:
        (root / "link").symlink_to("sub")
        (root / "home").symlink_to(".")
        before = read_tree(root)
        refusal_of(box.write, path, b"x")
        refusal_of(box.remove, path)
        assert read_tree(root) == before
        assert sorted(os.listdir(root)) == ["a.txt", "home", "link", "sub"]

    def test_keeps_the_rights_of_a_file_but_not_those_to_be_another(
        self, box: Workspace, root: Path, way: str
    ) -> None:
        (root / "a.txt").chmod(0o4751)
        box.write("a.txt", b"x")
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o751
        box.write("a.txt", b"x", mode=0o6640)
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640
        box.write("script", b"x", mode=0o755)
        assert stat.S_IMODE((root / "script").stat().st_mode) == 0o755

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_keeps_the_owner_of_a_file(self, box: Workspace, root: Path) -> None:
        os.chown(root / "a.txt", 1234, 4321)
        box.write("a.txt", b"x")
        status = (root / "a.txt").stat()
        assert (status.st_uid, status.st_gid) == (1234, 4321)

    def test_does_not_write_to_what_is_read_only(
        self, box: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *args, **options: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        monkeypatch.setattr(os, "supports_effective_ids", {os.access})
        assert "read-only" in str(refusal_of(box.write, "a.txt", b"x"))
        box.remove("a.txt")

    def test_keeps_what_it_replaces(self, root: Path, top: Path, way: str) -> None:
        backups = top / "state" / "backups"
        box = Workspace(root, backup_dir=backups)
        names = ["a.txt", "\U0001f600" * 60]
        box.write(names[1], b"a")
        for written in (box.write(names[0], b"new"), box.write(names[1], b"new"), box.remove("sub/b.txt")):
            assert written.backup is not None
            assert written.backup.read_bytes() in (b"a", b"b")
            assert stat.S_IMODE(written.backup.stat().st_mode) == 0o600
        assert stat.S_IMODE(backups.stat().st_mode) == 0o700
        assert len(os.listdir(backups)) == 3
        assert box.write("new.txt", b"x").backup is None

    def test_everything_or_nothing(self, box: Workspace, root: Path, way: str) -> None:
        before = read_tree(root)
        good = [Change("a.txt", b"1"), Change("new/x", b"2"), Change("sub/b.txt", None)]
        for bad in (
            *(Change("nothing", None), Change("./a.txt", None), Change("../x", b""), Change(".git/x", b"")),
            Change("a.txt", b""),
            *(
                Change("new", b""),
                Change("sub/b.txt/x", b""),
                Change("sub", b""),
                Change("", b""),
                Change("new/x/y", b""),
            ),
        ):
            for index in range(4):
                refusal_of(box.apply_changes, [*good[:index], bad, *good[index:]])
                assert read_tree(root) == before
                assert sorted(os.listdir(root)) == ["a.txt", "sub"]
        assert [change.created for change in box.apply_changes(good)] == [False, True, False]
        assert read_tree(root) == {"a.txt": b"1", "new/x": b"2"}
        assert box.apply_changes([]) == []

    def test_minds_what_was_seen(self, box: Workspace, root: Path, way: str) -> None:
        entry = box.inspect("a.txt")
        assert entry is not None
        assert "already exists" in str(refusal_of(box.write, "a.txt", b"x", expected="absent"))
        (root / "a.txt").write_bytes(b"by hand")
        assert "read it again" in str(refusal_of(box.write, "a.txt", b"x", expected=entry.version))
        (root / "a.txt").unlink()
        assert "no such file" in str(refusal_of(box.write, "a.txt", b"x", expected=entry.version))
        assert box.write("a.txt", b"x", expected="absent").created

    @pytest.mark.parametrize("when", ["fsync", "link"])
    @pytest.mark.parametrize("is_replaced", [True, False])
    @pytest.mark.parametrize("name", ["a.txt", "fresh.txt"])
    def test_somebody_else_who_writes_meanwhile_wins(
        self, box: Workspace, root: Path, name: str, when: str, is_replaced: bool
    ) -> None:
        calls = itertools.count()
        with pytest.MonkeyPatch.context() as monkeypatch:
            real = getattr(os, when)

            def stand_in(*args: Any, **options: Any) -> Any:
                if next(calls) == 0:
                    theirs = root / "theirs" if is_replaced else root / name
                    theirs.write_bytes(b"theirs")
                    theirs.rename(root / name)
                return real(*args, **options)

            monkeypatch.setattr(os, when, stand_in)
            refusal_of(box.apply_changes, [Change(name, b"ours"), Change("sub/b.txt", b"x")])
        assert read_tree(root) == {"a.txt": b"a", "sub/b.txt": b"b"} | {name: b"theirs"}

    def test_somebody_else_who_removes_meanwhile_wins(self, box: Workspace, root: Path) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            real = os.fsync

            def fsync(handle: int) -> None:
                (root / "a.txt").unlink(missing_ok=True)
                real(handle)

            monkeypatch.setattr(os, "fsync", fsync)
            assert "another program" in str(refusal_of(box.write, "a.txt", b"x"))
        assert read_tree(root) == {"sub/b.txt": b"b"}

    def test_a_copy_is_of_what_was_looked_at(self, root: Path, top: Path) -> None:
        box = Workspace(root, backup_dir=top / "backups")
        with pytest.MonkeyPatch.context() as monkeypatch:
            real = os.access

            def access(*args: Any, **options: Any) -> bool:
                (root / "a.txt").write_bytes(b"theirs")
                return real(*args, **options)

            monkeypatch.setattr(os, "access", access)
            monkeypatch.setattr(os, "supports_effective_ids", set[Any]())
            assert "another program" in str(refusal_of(box.write, "a.txt", b"x"))
        assert os.listdir(top / "backups") == []

    def test_a_directory_that_somebody_makes_meanwhile_is_used(self, box: Workspace, root: Path) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            real = os.mkdir

            def mkdir(name: str, *args: Any, **options: Any) -> None:
                real(name, *args, **options)
                if name == "x":
                    real(name, *args, **options)

            monkeypatch.setattr(os, "mkdir", mkdir)
            box.write("x/y/z", b"z")
        assert (root / "x" / "y" / "z").read_bytes() == b"z"

    def test_directories_are_not_made_behind_a_link_to_nothing(
        self, box: Workspace, root: Path, way: str
    ) -> None:
        (root / "link").symlink_to("nothing")
        refusal_of(box.write, "link/x", b"")
        refusal_of(box.write, "link", b"")
        assert not (root / "nothing").exists()

    def test_a_file_that_is_gone_behind_a_link_is_said(
        self, box: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "loop").symlink_to("loop")
        assert "too many symbolic links" in str(refusal_of(box.write, "loop", b""))

    def test_threads_do_not_disturb_each_other(self, root: Path, top: Path) -> None:
        box = Workspace(root, backup_dir=top / "backups")
        begin = threading.Barrier(16)

        def work(number: int) -> None:
            begin.wait()
            for turn in range(3):
                box.write(f"own/{number}/{turn}.txt", b"%d" % number)
                box.write("same.txt", b"%d" % number * 5000)
                data, _ = box.read("same.txt", 99999)
                assert len(set(data.decode())) <= 2
                box.apply_changes([Change("one.txt", b"%d" % number), Change("two.txt", b"%d" % number)])

        handles = len(os.listdir("/proc/self/fd"))
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert len(os.listdir("/proc/self/fd")) <= handles
        tree = read_tree(root)
        assert tree["one.txt"] == tree["two.txt"]
        assert len(tree) == 2 + 16 * 3 + 3
        assert not [name for name in os.listdir(top / "backups") if not name.rpartition(".")[2].isalnum()]


class TestAttributes:
    """Rights that are not in the mode: replacing a file neither takes nor gives any."""

    OWNER, USER, GROUP, MASK, OTHER, NOBODY = 1, 2, 4, 16, 32, 65534

    def set_list(self, path: Path, name: str, **rights: int) -> bytes:
        """Let the user "nobody" do something; skip the test where there are no access control lists."""
        data = struct.pack("<I", 2)
        for entry in ("OWNER", "USER", "GROUP", "MASK", "OTHER"):
            data += struct.pack(
                "<HHI", getattr(self, entry), rights[entry], self.NOBODY if entry == "USER" else 0xFFFFFFFF
            )
        try:
            os.setxattr(path, f"system.posix_acl_{name}", data)
        except (OSError, AttributeError):
            pytest.skip("this file system has no access control lists")
        return data

    def test_they_survive_a_change(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_text("old")
        acl = self.set_list(file, "access", OWNER=6, USER=6, GROUP=0, MASK=6, OTHER=0)
        os.setxattr(file, "user.tag", b"mine")
        workspace = Workspace(tmp_path)
        workspace.write("a", b"new")
        assert os.getxattr(file, "system.posix_acl_access") == acl
        assert os.getxattr(file, "user.tag") == b"mine"
        workspace.close()

    def test_the_list_of_a_directory_gives_nobody_rights_to_an_old_file(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_text("old")
        file.chmod(0o640)
        self.set_list(tmp_path, "default", OWNER=7, USER=6, GROUP=7, MASK=7, OTHER=0)
        workspace = Workspace(tmp_path)
        workspace.write("a", b"new")
        assert "system.posix_acl_access" not in os.listxattr(file)
        assert file.stat().st_mode & 0o777 == 0o640
        workspace.close()

    @pytest.mark.parametrize("has_lists", [True, False])
    def test_a_group_gets_no_rights_that_a_list_withholds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_lists: bool
    ) -> None:
        """Neither where a list cannot be copied, nor when a patch moves the file."""
        file = tmp_path / "a"
        file.write_text("old\n")
        self.set_list(file, "access", OWNER=6, USER=6, GROUP=0, MASK=6, OTHER=0)
        state = ToolState(Workspace(tmp_path), require_read=None)
        if has_lists:
            (patch,) = patch_tools(state)
            text = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-old\n+new\n*** End Patch\n"
            call = ToolCall("1", patch.name, {"text": text})
            asyncio.run(patch.invoke(patch.bind(call).values, Context(call)))
        else:
            monkeypatch.delattr(os, "setxattr")
            state.workspace.write("a", b"new\n")
        assert (tmp_path / ("b" if has_lists else "a")).stat().st_mode & 0o777 == 0o600
        state.workspace.close()


class TestOpeningBeneath:
    def test_both_ways_are_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(has_openat2(), bool)
        uncached = has_openat2.__wrapped__
        with monkeypatch.context() as patched:
            patched.setattr(sys, "platform", "darwin")
            assert uncached() is False
        for name in ("_openat2", "os.open"):
            with monkeypatch.context() as patched:

                def fail(*args: Any, **options: Any) -> int:
                    raise OSError(errno.ENOSYS, "no")

                patched.setattr(os, "open", fail) if name == "os.open" else patched.setattr(
                    confined_open, name, fail
                )
                assert uncached() is False

    @pytest.mark.skipif(not has_openat2(), reason="this kernel has no openat2")
    def test_a_tree_that_never_rests_is_an_error_in_the_end(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def busy(*args: Any) -> int:
            ctypes.set_errno(errno.EAGAIN)
            return -1

        monkeypatch.setattr(confined_open, "_syscall", lambda: busy)
        handle = os.open(root, os.O_RDONLY)
        with pytest.raises(OSError, match="unavailable"):
            open_beneath(handle, "a.txt", os.O_RDONLY)
        os.close(handle)

    def test_what_becomes_a_link_while_it_is_looked_at_is_not_opened(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confined_open, "has_openat2", lambda: False)
        monkeypatch.setattr(confined_open, "_read_link", lambda folder, name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        (root / "link").symlink_to("a.txt")
        handle = os.open(root, os.O_RDONLY)
        for flags in (PATH_ONLY, os.O_RDONLY):
            with pytest.raises(OSError, match="symbolic links") as raised:
                open_beneath(handle, "link", flags)
            assert raised.value.errno == errno.ELOOP
        os.close(open_beneath(handle, "link", PATH_ONLY | os.O_NOFOLLOW))
        os.close(handle)

    def test_links_may_be_followed_forty_times(self, root: Path, way: str) -> None:
        (root / "l0").symlink_to("a.txt")
        for number in range(1, 41):
            (root / f"l{number}").symlink_to(f"l{number - 1}")
        handle = os.open(root, os.O_RDONLY)
        os.close(open_beneath(handle, "l39", os.O_RDONLY))
        with pytest.raises(OSError, match="symbolic links"):
            open_beneath(handle, "l40", os.O_RDONLY)
        os.close(handle)


NAMES = st.sampled_from(["a", "b", "c"])
PARTS = st.sampled_from(["a", "b", "c", "..", ".", ""])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join).map(lambda path: path.lstrip("/") or ".")
TARGETS = st.one_of(
    PATHS, st.tuples(st.sampled_from(["{top}/work/", "{top}/", "../", "{top}/work/../"]), PATHS).map("".join)
)
THINGS = st.lists(
    st.tuples(
        st.lists(NAMES, min_size=1, max_size=3), st.one_of(st.just("folder"), st.just("file"), TARGETS)
    ),
    max_size=9,
)


class Forest:
    """A tree of folders, files and links below `work`, and a file and a folder outside."""

    def __init__(self, things: list[tuple[list[str], str]]) -> None:
        fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.top = Path(os.path.realpath(tempfile.mkdtemp(dir=fast)))
        self.root = self.top / "work"
        for folder in (self.root, self.top / "a"):
            folder.mkdir()
        for name in ("b", "a/b", "a/c"):
            (self.top / name).write_bytes(b"OUTSIDE")
        for names, kind in things:
            self.add(self.root.joinpath(*names), kind)

    def add(self, path: Path, kind: str) -> None:
        try:
            if not os.path.realpath(path.parent).startswith(str(self.root)):
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                path.mkdir()
            elif kind == "file":
                with path.open("xb") as file:
                    file.write(str(path).encode())
            else:
                path.symlink_to(kind.format(top=self.top))
        except OSError:
            return

    def truth(self, path: str) -> tuple[str, os.stat_result] | None:
        """What the kernel opens in a quiet tree."""
        try:
            handle = os.open(f"{self.root}/{path}", PATH_ONLY)
        except OSError:
            return None
        try:
            return os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle)
        finally:
            os.close(handle)


class TestAgreement:
    @settings(max_examples=80)
    @given(things=THINGS, paths=st.lists(PATHS, min_size=1, max_size=8))
    def test_with_the_kernel_in_a_quiet_tree(
        self, things: list[tuple[list[str], str]], paths: list[str]
    ) -> None:
        forest = Forest(things)
        box = Workspace(forest.root)
        try:
            for path, is_kernel in itertools.product(paths, {False, has_openat2()}):
                with pytest.MonkeyPatch.context() as monkeypatch:
                    monkeypatch.setattr(confined_open, "has_openat2", lambda is_kernel=is_kernel: is_kernel)
                    self.compare(forest, box, path)
        finally:
            box.close()
            shutil.rmtree(forest.top)

    def compare(self, forest: Forest, box: Workspace, path: str) -> None:
        truth = forest.truth(path)
        try:
            entry = box.inspect(path)
        except ToolError:
            assert truth is None or not f"{truth[0]}/".startswith(f"{forest.root}/")
            return
        if entry is None or truth is None:
            assert truth is None
            # a file before `..`: names alone were compared
            assert entry is None or entry.path.is_relative_to(forest.root)
            return
        assert (str(entry.path), entry.version) == (truth[0], FileVersion.from_status(truth[1]))
        assert entry.path.is_relative_to(forest.root)
        if stat.S_ISREG(truth[1].st_mode):
            assert box.read(path, 999)[0] == truth[0].encode()

    @pytest.mark.skipif(not has_openat2(), reason="this kernel has no openat2")
    @settings(max_examples=80)
    @given(things=THINGS, paths=st.lists(PATHS, min_size=1, max_size=8), is_last=st.booleans())
    def test_of_both_ways_of_opening(
        self, things: list[tuple[list[str], str]], paths: list[str], is_last: bool
    ) -> None:
        forest = Forest(things)
        handle = os.open(forest.root, os.O_RDONLY)
        flags = PATH_ONLY | (os.O_NOFOLLOW if is_last else 0)
        try:
            for path in paths:
                assert self.outcome(handle, path, flags, True) == self.outcome(handle, path, flags, False), (
                    path
                )
        finally:
            os.close(handle)
            shutil.rmtree(forest.top)

    def outcome(self, folder: int, path: str, flags: int, is_kernel: bool) -> object:
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(confined_open, "has_openat2", lambda: is_kernel)
            try:
                handle = open_beneath(folder, path, flags)
            except OSError as e:
                return e.errno
        try:
            return os.fstat(handle).st_ino
        finally:
            os.close(handle)
