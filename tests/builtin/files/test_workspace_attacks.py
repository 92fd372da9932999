"""Ways out of a workspace, each tried with every operation: by openat2 and by the walk, as root and as an
ordinary user.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
import traceback
import unicodedata
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from file_kit import fork

from toolglot.builtin.files.workspace import PROTECTED_NAMES, Change, FileVersion, Root, Workspace
from toolglot.errors import ToolError

NOBODY = 65534
SECRET = b"THE SECRET"
TRIES = 2000
EXCHANGE = 2
AT_HERE = -100


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that an ordinary user can reach, in memory where there is such a place."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=fast))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def world(top: Path) -> Path:
    """A workspace, its neighbours, and every kind of thing in it that could lead to them."""
    root, outside = top / "work", top / "outside"
    (root / "sub" / "deep").mkdir(parents=True)
    (outside / "dir").mkdir(parents=True)
    (top / "work_evil").mkdir()
    for path in (outside / "secret.txt", outside / "dir" / "secret.txt", top / "work_evil" / "secret.txt"):
        path.write_bytes(SECRET)
    (root / "ok.txt").write_bytes(b"inside")
    (root / "sub" / "ok.txt").write_bytes(b"inside")
    links = {
        "to_file": "../outside/secret.txt",
        "to_file_absolute": f"{outside}/secret.txt",
        "to_dir": "../outside",
        "to_dir_absolute": str(outside),
        "sub/to_dir": "../../outside",
        "to_top": "/",
        "chain": "chain2",
        "chain2": "sub/to_dir",
        "dangling": "../outside/new.txt",
        "dangling_absolute": f"{outside}/new.txt",
        "dangling_dir": "../outside/nowhere",
        "dangling_inside": "nothing.txt",
        "loop": "loop2",
        "loop2": "loop",
        "itself": "itself",
        "proc_root": f"/proc/self/root{outside}",
        "proc_cwd": "/proc/self/cwd",
        "proc_fd": "/proc/self/fd",
        "proc_me": "/proc/self/environ",
        "prefix": "../work_evil",
        "inside_and_out": "sub/../../outside/secret.txt",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.link(outside / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)
        server.bind("socket")
        os.chdir(here)
    if os.geteuid() == 0:
        os.mknod(root / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(root / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    return root


THROUGH_FOLDERS = (
    *("to_dir", "to_dir_absolute", "sub/to_dir", "chain", "chain2", "proc_root", "prefix", "sub/../to_dir"),
    *("to_dir/.", "to_dir/dir/..", "to_dir/dir"),
)


def ways_out(root: Path) -> list[str]:
    """Paths that mean something outside, or nothing that may be opened."""
    outside = root.parent / "outside"
    paths = [
        *(
            "..",
            "../",
            "../outside",
            "../outside/secret.txt",
            "sub/../../outside/secret.txt",
            "./../outside/secret.txt",
        ),
        *("sub/deep/../../../outside/secret.txt", "../work_evil/secret.txt", "../work/../outside/secret.txt"),
        *("/etc/passwd", "/", "//etc/passwd", f"{outside}/secret.txt", f"{root}_evil/secret.txt"),
        f"{root}/../outside/secret.txt",
        *(
            f"{root}/../work_evil/secret.txt",
            f"/proc/self/root{outside}/secret.txt",
            f"{root}/to_dir/secret.txt",
        ),
        *(
            f"file://{outside}/secret.txt",
            "%2e%2e/outside/secret.txt",
            "..%2foutside%2fsecret.txt",
            "..\\outside\\secret.txt",
        ),
        *(
            "\uff0e\uff0e/outside/secret.txt",
            "\u2025/outside/secret.txt",
            "..\u200b/outside/secret.txt",
            "~/secret",
            "~root/x",
        ),
        *(
            "$HOME/x",
            "ok.txt\0/../../outside/secret.txt",
            "\0",
            "",
            "\ud800",
            "\udcff/\udcfe",
            "n" * 256,
            "a/" * 2040,
        ),
        "d/" * 2100,
        *(
            "to_file",
            "to_file_absolute",
            "inside_and_out",
            "loop",
            "loop2",
            "itself",
            "itself/x",
            "proc_fd/0",
            "proc_me",
        ),
        *(
            "proc_cwd/secret.txt",
            f"to_top{outside}/secret.txt",
            "to_top/etc/passwd",
            "fifo",
            "socket",
            "null",
            "zero",
        ),
        *("fifo/x", "ok.txt/..", "ok.txt/../../outside/secret.txt", "ok.txt/", "ok.txt/."),
        *("dangling", "dangling_absolute", "dangling_dir/x.txt", "dangling_inside", "dangling_dir"),
    ]
    for folder in THROUGH_FOLDERS:
        paths += [folder, f"{folder}/secret.txt", f"{folder}/new.txt", f"{folder}/new/x.txt"]
    return paths


def state(folder: Path) -> dict[str, object]:
    """Everything that an attack could change."""
    tree: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        tree[str(path)] = (status.st_ino, status.st_mode, data)
    return tree


def escapes(root: Path) -> list[str]:
    """What got out, or failed in another way than by a sentence."""
    top = root.parent
    outside = {folder: state(top / folder) for folder in ("outside", "work_evil")}
    foreign = {path.lstat().st_ino for folder in outside for path in (top / folder).rglob("*")}
    names = {path.name for folder in outside for path in (top / folder).rglob("*")}
    workspace, leaks = Workspace(root), list[str]()

    def look(path: str) -> None:
        if (seen := workspace.inspect(path)) is not None and (
            seen.status.st_ino in foreign or not seen.path.is_relative_to(root)
        ):
            leaks.append(f"look {path!r}")

    def read(path: str) -> None:
        if SECRET in workspace.read(path, 99)[0]:
            leaks.append(f"read {path!r}")

    def listing(path: str) -> None:
        with workspace.open_directory(path) as opened:
            if names & set(os.listdir(opened.fd)):
                leaks.append(f"listing {path!r}")

    tries: dict[str, Callable[[str], object]] = {
        "look": look,
        "read": read,
        "listing": listing,
        "remove": workspace.remove,
        "write": lambda path: workspace.write(path, b"by the model"),
        "write new": lambda path: workspace.write(path, b"by the model", expected="absent"),
        "change": lambda path: workspace.apply_changes(
            [Change("ok.txt", b"inside"), Change(path, b"by the model", mode=0o777)]
        ),
    }
    for path in ways_out(root):
        for name, act in tries.items():
            try:
                act(path)
            except ToolError:
                pass
            except BaseException:
                leaks.append(f"{name} {path[:60]!r}: {traceback.format_exc(limit=-2)}")
            if not all(state(top / folder) == before for folder, before in outside.items()):
                leaks.append(f"{name} {path[:60]!r} changed something outside")
                return leaks
    workspace.close()
    return leaks


def as_user(act: Callable[[], Any]) -> Any:
    """What it returns in a process without rights."""
    reader, writer = os.pipe()
    child = fork()
    if not child:
        try:
            signal.alarm(60)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(writer, json.dumps(act()).encode())
            os._exit(0)
        except BaseException:
            os.write(writer, json.dumps([traceback.format_exc()]).encode())
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read()
    assert os.waitpid(child, 0)[1] == 0, answer
    return json.loads(answer)


def give_away(top: Path) -> None:
    """Everything is the user's: what holds him back is not the rights of the files."""
    if os.geteuid() == 0:
        for path in (top, *top.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


class TestNoPathLeadsOut:
    def test_for_root(self, top: Path, way: str) -> None:
        assert escapes(world(top)) == []

    def test_for_an_ordinary_user(self, top: Path, way: str) -> None:
        root = world(top)
        give_away(top)
        assert as_user(lambda: escapes(root)) == []

    @pytest.mark.parametrize("path", ["fifo", "socket", "null", "zero"])
    def test_and_what_is_no_file_is_refused_at_once(self, top: Path, way: str, path: str) -> None:
        root = world(top)
        if not (root / path).exists():
            pytest.skip("only root can make a device")
        workspace = Workspace(root)
        for act in (
            lambda: workspace.read(path, 9),
            lambda: workspace.write(path, b"x"),
            lambda: workspace.remove(path),
        ):
            with pytest.raises(ToolError, match="not a regular file"):
                act()
        with pytest.raises(ToolError, match="not a directory"), workspace.open_directory(path):
            pass

    def test_and_nobody_who_waits_at_a_pipe_feels_it(self, top: Path, way: str) -> None:
        """Opening it for reading would let a writer go on, and then break his pipe."""
        root = world(top)
        child = fork()
        if not child:
            with suppress(BaseException):
                os.close(os.open(root / "fifo", os.O_WRONLY))
            os._exit(0)
        workspace = Workspace(root)
        try:
            with pytest.raises(ToolError):
                workspace.read("fifo", 9)
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def test_and_a_second_name_of_a_file_outside_is_read_but_not_written_through(
        self, top: Path, way: str
    ) -> None:
        root = world(top)
        workspace = Workspace(root)
        assert workspace.read("hard.txt", 99)[0] == SECRET
        workspace.write("hard.txt", b"by the model")
        assert (root / "hard.txt").read_bytes() == b"by the model"
        assert (top / "outside" / "secret.txt").read_bytes() == SECRET
        workspace.remove("hard.txt")
        assert (top / "outside" / "secret.txt").read_bytes() == SECRET

    def test_and_a_huge_file_costs_what_is_read_of_it(self, top: Path, way: str) -> None:
        root = world(top)
        with open(root / "huge", "wb") as file:
            os.truncate(file.fileno(), 1 << 40)
        workspace = Workspace(root, backup_dir=top / "backups")
        assert len(workspace.read("huge", 1000)[0]) == 1001
        for act in (lambda: workspace.write("huge", b"x"), lambda: workspace.remove("huge")):
            with pytest.raises(ToolError, match="too large to back up") as raised:
                act()
            assert raised.value.kind == "limit"
        assert (root / "huge").stat().st_size == 1 << 40
        assert not list((top / "backups").iterdir())


DISGUISES: tuple[Callable[[str], str], ...] = (
    *(str, str.upper, str.title, str.swapcase, "{}.".format, "{}...".format, "{} ".format, "{} . .".format),
    *(
        "{}::$INDEX_ALLOCATION".format,
        "{}:stream".format,
        "{}\u200c".format,
        "\ufeff{}".format,
        "{}\u202e".format,
    ),
    lambda name: name[:2] + "\u200d" + name[2:],
    lambda name: name.replace("k", "\u212a").replace("s", "\u017f"),
    lambda name: unicodedata.normalize("NFD", name),
    lambda name: f"{name.lstrip('.').partition('.')[0][:6]}~1",
    lambda name: f"{name.lstrip('.').partition('.')[0][:6].upper()}~2.x",
)


class TestProtectedNames:
    @pytest.mark.parametrize("name", sorted(PROTECTED_NAMES))
    def test_cannot_be_made_or_changed_in_any_disguise(self, tmp_path: Path, name: str) -> None:
        workspace = Workspace(tmp_path)
        for disguise in DISGUISES:
            disguised = disguise(name)
            for path in (
                disguised,
                f"{disguised}/x",
                f"{disguised}/hooks/pre-commit",
                f"a/{disguised}",
                f"a/b/{disguised}/x",
                f"{tmp_path}/{disguised}",
            ):
                with pytest.raises(ToolError, match="protected") as raised:
                    workspace.write(path, b"x")
                assert raised.value.kind == "not_allowed"
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "path",
        [".github/x", ".gitignore", "git", "a.git", "gitx~1", ".git2", "...", ".gitattributes", "x.~1~"],
    )
    def test_do_not_catch_others(self, tmp_path: Path, path: str) -> None:
        workspace = Workspace(tmp_path)
        workspace.write(path, b"x")

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        (tmp_path / ".git" / "hooks").mkdir(parents=True)
        (tmp_path / ".git" / "config").write_bytes(b"[core]")
        (tmp_path / "worktree").mkdir()
        (tmp_path / "worktree" / ".git").write_bytes(b"gitdir: ../.git/worktrees/x")
        (tmp_path / "sub").mkdir()
        for name, target in {
            "alias": ".git",
            "absolute": str(tmp_path / ".git"),
            "hooks": ".git/hooks",
            "config": ".git/config",
            "chain": "alias",
            "sub/up": "../.git/hooks",
            "rc": ".bashrc",
        }.items():
            (tmp_path / name).symlink_to(target)
        os.link(tmp_path / ".git" / "config", tmp_path / "second")
        return tmp_path

    @pytest.mark.parametrize(
        "path",
        [
            *(".git/config", "alias/config", "absolute/config", "config", "chain/config", "worktree/.git"),
            *(
                "alias/new",
                "absolute/new",
                "hooks/pre-commit",
                "sub/up/pre-commit",
                "alias/a/b/c",
                "hooks/x/y",
                "rc",
            ),
            *("sub/../.git/config", "sub/../alias/hooks/x", "./alias/x/y", "absolute/info/exclude"),
        ],
    )
    def test_are_those_of_what_is_opened(self, repository: Path, way: str, path: str) -> None:
        workspace, before = Workspace(repository), state(repository)
        changes = [Change("sub/fine.txt", b"x"), Change(path, b"x")]
        for act in (
            lambda: workspace.write(path, b"x"),
            lambda: workspace.apply_changes(changes),
            lambda: workspace.remove(path),
        ):
            with pytest.raises(ToolError):
                act()
        assert state(repository) == before

    def test_can_be_read(self, repository: Path, way: str) -> None:
        workspace = Workspace(repository)
        assert workspace.read("alias/config", 99)[0] == b"[core]"

    def test_a_second_name_is_not_written_through(self, repository: Path, way: str) -> None:
        workspace = Workspace(repository)
        workspace.write("second", b"x")
        assert (repository / ".git" / "config").read_bytes() == b"[core]"

    def test_are_the_callers_own_too(self, tmp_path: Path) -> None:
        workspace = Workspace(tmp_path, protected_names=["", "Geheim\u00fc.txt"])
        with pytest.raises(ToolError, match="protected"):
            workspace.write("GEHEIMU\u0308.TXT", b"x")
        workspace.write(".git/x", b"x")

    def test_the_directory_for_backups_is_one(self, tmp_path: Path) -> None:
        workspace = Workspace(tmp_path, backup_dir=tmp_path / "state" / "backups")
        (tmp_path / "way").symlink_to("state")
        for path in (
            "state/backups/forged.journal",
            "state/backups/a/b",
            "way/backups/x",
            "STATE/../state/backups/x",
        ):
            with pytest.raises(ToolError):
                workspace.write(path, b"x")
        assert not (tmp_path / "state").exists()


class TestRoots:
    def test_one_that_is_a_link_stays_what_it_was(self, tmp_path: Path, way: str) -> None:
        for name in ("real", "other"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "x").write_bytes(name.encode())
        (tmp_path / "link").symlink_to("real")
        workspace = Workspace(tmp_path / "link")
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("other")
        for path in ("x", f"{tmp_path}/link/x", f"{tmp_path}/real/x", f"{tmp_path}/real//./x"):
            assert workspace.read(path, 9)[0] == b"real"
        workspace.write(f"{tmp_path}/link/x", b"new")
        assert (tmp_path / "real" / "x").read_bytes() == b"new"
        assert (tmp_path / "other" / "x").read_bytes() == b"other"
        assert workspace.root == tmp_path / "real"

    def test_one_that_is_renamed_and_replaced_stays_what_it_was(self, tmp_path: Path, way: str) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "x").write_bytes(b"ours")
        workspace = Workspace(tmp_path / "work")
        (tmp_path / "work").rename(tmp_path / "moved")
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "x").write_bytes(b"theirs")
        assert workspace.read("x", 9)[0] == b"ours"
        assert workspace.read(f"{tmp_path}/work/x", 9)[0] == b"ours"
        written = workspace.write("new/y", b"y")
        assert written.path == tmp_path / "moved" / "new" / "y"
        assert state(tmp_path / "work").keys() == {str(tmp_path / "work" / "x")}

    def test_one_that_is_removed_holds_nothing(self, tmp_path: Path, way: str) -> None:
        (tmp_path / "work").mkdir()
        workspace = Workspace(tmp_path / "work")
        (tmp_path / "work").rmdir()
        assert workspace.inspect("x") is None
        writes = (lambda: workspace.write("x", b"x"), lambda: workspace.write("a/b", b""))
        for act in (*writes, lambda: workspace.read("x", 9), lambda: workspace.remove("x")):
            with pytest.raises(ToolError):
                act()
        (tmp_path / "work").mkdir()
        with pytest.raises(ToolError):
            workspace.write(f"{tmp_path}/work/x", b"x")
        assert not list((tmp_path / "work").iterdir())

    def test_others_that_are_read_only_are(self, tmp_path: Path, way: str) -> None:
        for name in ("work", "library"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "x").write_bytes(name.encode())
        library = tmp_path / "library"
        (tmp_path / "work" / "link").symlink_to(library)
        (tmp_path / "work" / "relative").symlink_to("../library/x")
        workspace = Workspace(tmp_path / "work", other_roots=[Root(library, writable=False)])
        before = state(library)
        for path in (f"{library}/x", "link/x", "relative"):
            assert workspace.read(path, 9)[0] == b"library"
            for act in (
                lambda path=path: workspace.write(path, b"x"),
                lambda path=path: workspace.remove(path),
            ):
                with pytest.raises(ToolError, match="is read-only"):
                    act()
        for path in (f"{library}/new", f"{library}/a/b", "link/new", "link/a/b"):
            with pytest.raises(ToolError, match="is read-only"):
                workspace.write(path, b"x")
        assert state(library) == before

    @pytest.mark.parametrize("is_writable", [True, False])
    def test_the_nearest_one_counts(self, tmp_path: Path, way: str, is_writable: bool) -> None:
        (tmp_path / "inner").mkdir()
        workspace = Workspace(
            tmp_path, writable=not is_writable, other_roots=[Root(tmp_path / "inner", is_writable)]
        )
        can, cannot = ("inner/x", "x") if is_writable else ("x", "inner/x")
        workspace.write(can, b"x")
        for path in (cannot, f"{tmp_path}/{cannot}"):
            with pytest.raises(ToolError, match="is read-only"):
                workspace.write(path, b"x")

    def test_arguments_cannot_widen_them(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        workspace = Workspace(tmp_path / "work")
        here = os.getcwd()
        os.chdir(tmp_path)
        try:
            with pytest.raises(ToolError):
                workspace.write("../x", b"x")
            workspace.write("x", b"x")
        finally:
            os.chdir(here)
        assert [path.name for path in tmp_path.iterdir()] == ["work"]


class TestStaleness:
    def test_a_file_that_became_something_else_is_not_overwritten(self, tmp_path: Path, way: str) -> None:
        outside = tmp_path / "outside"
        outside.write_bytes(SECRET)
        root = tmp_path / "work"
        root.mkdir()
        workspace = Workspace(root)

        def seen() -> FileVersion:
            (root / "x").write_bytes(b"old")
            entry = workspace.inspect("x")
            assert entry is not None
            (root / "x").unlink()
            return entry.version

        for become in (
            lambda: (root / "x").symlink_to(outside),
            lambda: (root / "x").mkdir(),
            lambda: os.mkfifo(root / "x"),
            lambda: os.link(outside, root / "x"),
            lambda: (root / "x").write_bytes(b"new"),
            lambda: None,
        ):
            version = seen()
            become()
            with pytest.raises(ToolError):
                workspace.write("x", b"model", expected=version)
            with pytest.raises(ToolError):
                workspace.remove("x", expected=version)
            assert outside.read_bytes() == SECRET
            for left in root.iterdir():
                left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()


def exchange(first: Path, other: Path) -> None:
    if ctypes.CDLL(None).renameat2(AT_HERE, os.fsencode(first), AT_HERE, os.fsencode(other), EXCHANGE):
        raise OSError("this file system cannot exchange names")


@pytest.fixture
def field(top: Path) -> Path:
    """A folder in which names can be exchanged."""
    first, other = top / "one", top / "other"
    first.mkdir()
    other.mkdir()
    try:
        exchange(first, other)
    except (OSError, AttributeError):
        pytest.skip("names cannot be exchanged here")
    return top


@contextmanager
def swapping(*pairs: tuple[Path, Path]) -> Generator[None]:
    """Another process exchanges these names as fast as it can."""
    parent, child = os.getpid(), fork()
    if not child:
        call = ctypes.CDLL(None).renameat2
        names = [(os.fsencode(first), os.fsencode(other)) for first, other in pairs]
        while os.getppid() == parent:
            for _ in range(500):
                for first, other in names:
                    call(AT_HERE, first, AT_HERE, other, EXCHANGE)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class Arena:
    """A folder `flip` and a file `target` that are links to the outside half of the time."""

    def __init__(self, top: Path) -> None:
        self.root, self.outside = top / "work", top / "outside"
        for folder in (self.root / "flip" / "sub", self.outside / "sub"):
            folder.mkdir(parents=True)
        for name in ("f.txt", "sub/f.txt", "only_outside.txt"):
            (self.outside / name).write_bytes(SECRET)
        for name in ("flip/f.txt", "flip/sub/f.txt", "target"):
            (self.root / name).write_bytes(b"inside")
        (self.root / "flip_link").symlink_to("../outside")
        (self.root / "target_link").symlink_to("../outside/f.txt")
        self.pairs = [(self.root / name, self.root / f"{name}_link") for name in ("flip", "target")]
        self.workspace = Workspace(self.root)
        self.number = 0
        self.before = state(self.outside)
        self.foreign = {path.lstat().st_ino for path in self.outside.rglob("*")}
        self.operations: dict[str, Callable[[str], object]] = {
            "look": self.look,
            "read": self.read,
            "listing": self.listing,
            "write": lambda path: self.workspace.write(path, b"by the model"),
            "create": self.create,
            "remove": self.remove,
            "change": lambda path: self.workspace.apply_changes(
                [Change("side.txt", b"x"), Change(path, b"by the model")]
            ),
        }

    def look(self, path: str) -> None:
        entry = self.workspace.inspect(path)
        assert entry is None or entry.status.st_ino not in self.foreign, "looked outside"

    def read(self, path: str) -> None:
        assert self.workspace.read(path, 99)[0] != SECRET, "read outside"

    def listing(self, path: str) -> None:
        with self.workspace.open_directory(os.path.dirname(path) or ".") as opened:
            assert "only_outside.txt" not in os.listdir(opened.fd), "listed outside"

    def create(self, path: str) -> None:
        self.number += 1
        self.workspace.write(
            f"{os.path.dirname(path) or 'flip'}/new{self.number % 7}/x{self.number}.txt", b"by the model"
        )

    def remove(self, path: str) -> None:
        with suppress(ToolError):
            self.workspace.write(path, b"by the model")
        self.workspace.remove(path)

    def run(self, name: str, tries: int, both: int = 10) -> tuple[int, int]:
        """How often it was done, and how often refused: at least so many tries, and some of both."""
        done = refused = 0
        act = self.operations[name]
        with swapping(*self.pairs):
            while done + refused < tries or (min(done, refused) < both and done + refused < 100 * tries):
                try:
                    act(("flip/f.txt", "flip/sub/f.txt", "target")[(done + refused) % 3])
                    done += 1
                except ToolError:
                    refused += 1
        return done, refused

    def check(self) -> None:
        assert state(self.outside) == self.before, "something outside has changed"
        left = [path for path in self.root.rglob(".*") if path.suffix in (".new", ".old")]
        assert not left, "something is left beside the files"


class TestRaces:
    @pytest.mark.untraced
    @pytest.mark.parametrize("name", ["look", "read", "listing", "write", "create", "remove", "change"])
    def test_are_lost_by_whoever_swaps_directories(self, field: Path, way: str, name: str) -> None:
        arena = Arena(field)
        done, refused = arena.run(name, TRIES // (1 if name in ("look", "read", "listing") else 4))
        arena.check()
        assert min(done, refused) >= 10
        arena.workspace.close()

    @pytest.mark.untraced
    def test_are_lost_against_an_ordinary_user_too(self, field: Path, way: str) -> None:
        arenas = {name: Arena(field / name) for name in Arena(field / "first").operations}
        give_away(field)

        def attack() -> list[int]:
            counts: list[int] = []
            for name, arena in arenas.items():
                counts.append(min(arena.run(name, 100)))
                arena.check()
            return counts

        assert min(as_user(attack)) >= 10
        for arena in arenas.values():
            arena.workspace.close()
