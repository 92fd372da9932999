"""Killed at every step, and refused at every step: each file is the old one or the new one, and nothing of
ours is left.
"""

import errno
import fcntl
import gc
import itertools
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from file_kit import fork, read_tree

from toolglot.builtin.files import staging
from toolglot.builtin.files.workspace import Change, Workspace
from toolglot.errors import ToolError

# What the workspace asks the system for; `os` is patched, so that every module of ours meets the fault.
CALLS = (
    *(
        "open",
        "close",
        "dup",
        "read",
        "write",
        "fsync",
        "rename",
        "link",
        "unlink",
        "mkdir",
        "rmdir",
        "stat",
        "fstat",
    ),
    *("fchmod", "fchown", "readlink", "access"),
)
CHANGING = (
    "open",
    "write",
    "fsync",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "fchmod",
    "fchown",
    "close",
)
OURS = re.compile(r"\..*\.[0-9a-f]{16}\.(new|old)")
ALIKE = ".a.txt.0123456789abcdef.old"
OLD = {"a.txt": b"old a" * 999, "b.txt": b"old b", "gone.txt": b"old gone", "sub/c.txt": b"old c"}
NEW_A, NEW_C, FRESH = b"new a" * 777, b"new c" * 3, b"fresh"

Tree = dict[str, bytes]
Scenario = tuple[list[Change], Tree]
SCENARIOS: dict[str, Scenario] = {
    "one file": ([Change("a.txt", NEW_A)], {**OLD, "a.txt": NEW_A}),
    "a new file in new folders": ([Change("x/y/z.txt", FRESH)], {**OLD, "x/y/z.txt": FRESH}),
    "a removal": (
        [Change("gone.txt", None)],
        {name: data for name, data in OLD.items() if name != "gone.txt"},
    ),
    "several files": (
        [
            Change("a.txt", NEW_A),
            Change("n/new.txt", FRESH),
            Change("gone.txt", None),
            Change("sub/c.txt", NEW_C),
        ],
        {"a.txt": NEW_A, "b.txt": OLD["b.txt"], "sub/c.txt": NEW_C, "n/new.txt": FRESH},
    ),
}


@pytest.fixture
def top() -> Iterator[Path]:
    """In memory where there is such a place: thousands of files are synced."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        yield Path(folder)


def fill(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for name, data in OLD.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


def without_ours(tree: Tree) -> Tree:
    return {name: data for name, data in tree.items() if not OURS.fullmatch(Path(name).name)}


def count_calls(
    names: tuple[str, ...], at: Callable[[int, str, tuple[Any, ...]], None]
) -> Callable[[pytest.MonkeyPatch], None]:
    """Patches functions of `os`: before the call with a number, `at` is called with it."""
    numbers = itertools.count(1)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in names:
            real = getattr(os, name)

            def stand_in(*args: Any, _real: Any = real, _name: str = name, **options: Any) -> Any:
                at(next(numbers), _name, args)
                return _real(*args, **options)

            monkeypatch.setattr(os, name, stand_in)

    return patch


def is_killed_at(number: int, act: Callable[[], object], *, torn: bool = False) -> bool:
    """Whether a child process was killed before its call with this number; a torn write is half done first."""

    def at(now: int, name: str, args: tuple[Any, ...]) -> None:
        if now == number:
            if torn and name == "write":
                real_write(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    real_write = os.write
    child = fork()
    if not child:
        try:
            count_calls(CHANGING, at)(pytest.MonkeyPatch())
            act()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "the child failed of itself"
    return os.WIFSIGNALED(status)


class TestAProcessThatIsKilled:
    @pytest.mark.untraced
    @pytest.mark.parametrize(
        ("scenario", "torn"), [*((name, False) for name in SCENARIOS), ("one file", True)]
    )
    def test_leaves_all_old_or_all_new_after_the_next_start(
        self, top: Path, scenario: str, torn: bool
    ) -> None:
        changes, new = SCENARIOS[scenario]
        root, backups = top / "work", top / "backups"
        outcomes: list[Tree] = []
        for number in itertools.count(1):
            fill(root)
            shutil.rmtree(backups, ignore_errors=True)
            workspace = Workspace(root, backup_dir=backups)
            was_killed = is_killed_at(
                number, lambda workspace=workspace: workspace.apply_changes(changes), torn=torn
            )
            workspace.close()
            self.check_each_file(root, new)
            self.check_backups(backups)
            Workspace(root, backup_dir=backups).close()
            outcomes.append(read_tree(root))
            assert outcomes[-1] in (OLD, new), f"a mixture after call {number}"
            assert not [path for path in backups.glob("*") if path.suffix in (".journal", ".part")]
            if not was_killed:
                break
        assert len(outcomes) > 10
        assert outcomes[0] == OLD
        assert outcomes[-1] == new

    @pytest.mark.untraced
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_leaves_whole_files_without_a_directory_for_backups_too(self, top: Path, scenario: str) -> None:
        changes, new = SCENARIOS[scenario]
        root = top / "work"
        fill(root)
        number = 0
        for number in itertools.count(1):
            workspace = Workspace(root)
            was_killed = is_killed_at(number, lambda workspace=workspace: workspace.apply_changes(changes))
            workspace.close()
            self.check_each_file(root, new)
            fill(root)
            if not was_killed:
                break
        assert number > 5

    def check_each_file(self, root: Path, new: Tree) -> None:
        tree = without_ours(read_tree(root))
        for name in {*OLD, *new}:
            assert tree.get(name) in (OLD.get(name), new.get(name)), name
        assert not set(tree) - {*OLD, *new}

    def check_backups(self, backups: Path) -> None:
        for path in backups.glob("*"):
            if path.suffix != ".part" and re.fullmatch(r".*\.[0-9a-f]{16}", path.name):
                assert path.read_bytes() in (*OLD.values(), b"")


class TestRecovery:
    def halfway(self, root: Path, backups: Path) -> None:
        """As after a crash: `a.txt` is new already, `b.txt` is not."""
        fill(root)
        backups.mkdir(mode=0o700)
        child = fork()
        if not child:
            real = os.rename

            def rename(source: Any, target: Any, **options: Any) -> None:
                real(source, target, **options)
                if target == "a.txt":
                    os.kill(os.getpid(), signal.SIGKILL)

            os.rename = rename
            Workspace(root, backup_dir=backups).apply_changes(
                [Change("a.txt", NEW_A), Change("b.txt", b"new b")]
            )
            os._exit(0)
        os.waitpid(child, 0)
        assert without_ours(read_tree(root)) == {**OLD, "a.txt": NEW_A}

    def journal(self, backups: Path) -> Path:
        (file,) = backups.glob("*.journal")
        return file

    def test_takes_back_what_was_half_done(self, top: Path) -> None:
        self.halfway(top / "work", top / "backups")
        Workspace(top / "work", backup_dir=top / "backups").close()
        kept = sorted(path.read_bytes() for path in (top / "backups").iterdir())
        assert kept == sorted([OLD["a.txt"], OLD["b.txt"]])

    @pytest.mark.parametrize(
        ("name", "data", "after"),
        [
            ("work/untouched", b"", {**OLD, "untouched": b""}),
            ("work/a.txt", b"by hand", {**OLD, "a.txt": b"by hand"}),  # somebody has written since
            (f"work/{ALIKE}", b"a user's", {**OLD, ALIKE: b"a user's"}),  # it only looks like ours
            # a line that was cut off, and one that is none
            ("journal", b'\nnonsense\n{"type":"mark","do', OLD),
            # everything was in place
            ("journal", b'\n{"type":"mark","is_complete":true}\n', {**OLD, "a.txt": NEW_A}),
        ],
    )
    def test_keeps_what_is_not_its_own(self, top: Path, name: str, data: bytes, after: Tree) -> None:
        self.halfway(top / "work", top / "backups")
        path = self.journal(top / "backups") if name == "journal" else top / name
        with path.open("ab" if name == "journal" else "wb") as file:
            file.write(data)
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert read_tree(top / "work") == after

    def test_that_is_killed_itself_is_done_again(self, top: Path) -> None:
        root, backups = top / "work", top / "backups"
        number = 0
        for number in itertools.count(1):
            shutil.rmtree(backups, ignore_errors=True)
            self.halfway(root, backups)
            was_killed = is_killed_at(number, lambda: Workspace(root, backup_dir=backups).close())
            assert without_ours(read_tree(root)) in (OLD, {**OLD, "a.txt": NEW_A})
            Workspace(root, backup_dir=backups).close()
            assert read_tree(root) == OLD
            if not was_killed:
                break
        assert number > 4

    def test_leaves_the_work_of_a_living_process(self, top: Path) -> None:
        self.halfway(top / "work", top / "backups")
        before = read_tree(top)
        with self.journal(top / "backups").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            Workspace(top / "work", backup_dir=top / "backups").close()
        assert read_tree(top) == before

    def test_leaves_the_journal_of_another_workspace(self, top: Path) -> None:
        self.halfway(top / "work", top / "backups")
        (top / "other").mkdir()
        before = read_tree(top)
        Workspace(top / "other", backup_dir=top / "backups").close()
        Workspace(top / "work", writable=False, backup_dir=top / "backups").close()
        assert read_tree(top) == before

    @pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
    def test_believes_no_directory_that_others_can_write_to(self, top: Path, mode: int) -> None:
        self.halfway(top / "work", top / "backups")
        (top / "backups").chmod(mode)
        before = read_tree(top)
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert read_tree(top) == before

    @pytest.mark.parametrize("field", ["name", "new", "old", "copy"])
    def test_touches_nothing_that_a_forged_journal_names_elsewhere(self, top: Path, field: str) -> None:
        self.halfway(top / "work", top / "backups")
        (top / "victim").write_bytes(b"precious")
        path = self.journal(top / "backups")
        lines = [json.loads(line) for line in path.read_text().splitlines() if line]
        for line in lines:
            line[field] = "Li4vdmljdGlt"  # ../victim
        path.write_text("\n".join(map(json.dumps, lines)) + "\n")
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert (top / "victim").read_bytes() == b"precious"

    def test_forgets_a_directory_that_is_gone(self, top: Path) -> None:
        self.halfway(top / "work", top / "backups")
        shutil.rmtree(top / "work")
        (top / "work").mkdir()
        Workspace(top / "work", backup_dir=top / "backups")
        assert not list((top / "backups").glob("*.journal"))

    def test_forgets_a_directory_below_that_is_gone(self, top: Path) -> None:
        fill(top / "work")
        workspace = Workspace(top / "work", backup_dir=top / "backups")
        for number in range(1, 30):
            is_killed_at(number, lambda: workspace.write("sub/c.txt", NEW_C))
        workspace.close()
        assert list((top / "backups").glob("*.journal"))
        shutil.rmtree(top / "work" / "sub")
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert not list((top / "backups").glob("*.journal"))


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """Handles are counted: those of workspaces that were forgotten elsewhere are not given back meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
class TestARefusalAtEveryCall:
    # in turn: each call is refused for one of them
    OTHERS = (errno.EIO, errno.EACCES, errno.EINTR, errno.EPERM)

    @pytest.mark.parametrize(
        "numbers",
        [(errno.ENOSPC,), pytest.param(OTHERS, marks=pytest.mark.untraced)],
        ids=["full", "in turn"],
    )
    @pytest.mark.parametrize("with_backups", [True, False], ids=["backups", "no backups"])
    def test_changes_everything_or_nothing(
        self, top: Path, way: str, numbers: tuple[int, ...], with_backups: bool
    ) -> None:
        changes, new = SCENARIOS["several files"]
        root, backups = top / "work", top / "backups"
        fill(root)
        backups.mkdir(mode=0o700)
        outcomes = set[bool]()
        for call in itertools.count(1):
            workspace = Workspace(root, backup_dir=backups if with_backups else None)
            handles = len(os.listdir("/proc/self/fd"))
            failed, was_met = self.attempt(workspace, changes, call, numbers[call % len(numbers)])
            assert len(os.listdir("/proc/self/fd")) == handles, f"a handle is left after call {call}"
            workspace.close()
            outcomes.add(failed)
            if failed:
                assert read_tree(root) == OLD, f"call {call}"
                assert folders(root) == {"sub"}
                assert not list(backups.iterdir())
            else:
                assert read_tree(root) == new, f"call {call}"
                shutil.rmtree(backups)
                backups.mkdir(mode=0o700)
                fill(root)
            if not was_met:
                break
        assert outcomes == {True, False}

    def attempt(
        self, workspace: Workspace, changes: list[Change], call: int, number: int
    ) -> tuple[bool, bool]:
        met: list[str] = []

        def at(now: int, name: str, args: tuple[Any, ...]) -> None:
            if now == call:
                met.append(name)
                if name == "close":
                    real_close(args[0])  # Linux gives the handle back, whatever it says
                raise OSError(number, os.strerror(number))

        real_close = os.close
        with pytest.MonkeyPatch.context() as monkeypatch:
            count_calls(CALLS, at)(monkeypatch)
            try:
                workspace.apply_changes(changes)
            except ToolError:
                return True, True
        return False, bool(met)

    @pytest.mark.parametrize("act", ["read", "look", "listing"])
    def test_of_looking_is_one_sentence(self, top: Path, way: str, act: str) -> None:
        fill(top / "work")
        workspace = Workspace(top / "work")

        def looking() -> None:
            if act == "listing":
                with workspace.open_directory("sub"):
                    return
            workspace.read("sub/c.txt", 99) if act == "read" else workspace.inspect("sub/c.txt")

        handles = len(os.listdir("/proc/self/fd"))
        for call in itertools.count(1):
            met = False

            def at(now: int, name: str, args: tuple[Any, ...], call: int = call) -> None:
                nonlocal met
                if now == call and name != "close":
                    met = True
                    raise OSError(errno.EIO, "of the test")
                met = met or now == call

            with pytest.MonkeyPatch.context() as monkeypatch:
                count_calls(CALLS, at)(monkeypatch)
                with suppress(ToolError):
                    looking()
            assert len(os.listdir("/proc/self/fd")) == handles
            if not met:
                break

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
    def test_an_interruption_takes_back_too(self, top: Path, error: type[BaseException]) -> None:
        changes, _ = SCENARIOS["several files"]
        fill(top / "work")
        workspace = Workspace(top / "work", backup_dir=top / "backups")
        for call in range(1, 4):
            renames = itertools.count(1)
            with pytest.MonkeyPatch.context() as monkeypatch:
                real = os.link

                def link(
                    *args: Any, real: Any = real, renames: Any = renames, call: int = call, **options: Any
                ) -> None:
                    real(*args, **options)
                    if next(renames) == call:
                        raise error

                monkeypatch.setattr(os, "link", link)
                with pytest.raises(error):
                    workspace.apply_changes(changes)
            assert read_tree(top / "work") == OLD
            assert not list((top / "backups").iterdir())

    def test_that_stays_keeps_the_old_file_and_says_where(self, top: Path) -> None:
        fill(top / "work")
        workspace = Workspace(top / "work", backup_dir=top / "backups")
        with pytest.MonkeyPatch.context() as monkeypatch:
            real, is_broken = os.rename, False

            def rename(source: Any, target: Any, **options: Any) -> None:
                nonlocal is_broken
                if is_broken or target == "b.txt":
                    is_broken = True
                    raise OSError(errno.EIO, "of the disk")
                real(source, target, **options)

            monkeypatch.setattr(os, "rename", rename)
            with pytest.raises(
                ToolError,
                match=r"not everything could be restored, the old content is kept: 'a.txt' in '\.a\.txt\.",
            ):
                workspace.apply_changes([Change("a.txt", NEW_A), Change("b.txt", b"new b")])
        workspace.close()
        assert without_ours(read_tree(top / "work")) == {**OLD, "a.txt": NEW_A}
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert read_tree(top / "work") == OLD
        assert not list((top / "backups").glob("*.journal"))

    def test_of_cleaning_up_alone_is_made_good_at_the_next_start(self, top: Path) -> None:
        fill(top / "work")
        workspace = Workspace(top / "work", backup_dir=top / "backups")
        with pytest.MonkeyPatch.context() as monkeypatch:

            def unlink(*args: Any, **options: Any) -> None:
                raise OSError(errno.EIO, "of the disk")

            monkeypatch.setattr(os, "unlink", unlink)
            assert workspace.write("a.txt", NEW_A).created is False
        workspace.close()
        assert [name for name in read_tree(top / "work") if OURS.fullmatch(name)]
        Workspace(top / "work", backup_dir=top / "backups").close()
        assert read_tree(top / "work") == {**OLD, "a.txt": NEW_A}

    @pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
    def test_of_second_names_is_lived_with(
        self, top: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        """Not every file system has them."""
        changes, new = SCENARIOS["several files"]
        fill(top / "work")
        workspace = Workspace(top / "work")

        def link(*args: Any, **options: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", link)
        workspace.apply_changes(changes)
        assert read_tree(top / "work") == new

    def test_of_syncing_directories_is_lived_with_only_if_the_file_system_cannot(
        self, top: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changes, new = SCENARIOS["several files"]

        def fsync(handle: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{handle}"):
                raise OSError(errno.EINVAL, "no")

        monkeypatch.setattr(os, "fsync", fsync)
        fill(top / "work")
        Workspace(top / "work").apply_changes(changes)
        assert read_tree(top / "work") == new
        monkeypatch.setattr(staging, "_NO_SYNC", ())
        fill(top / "work")
        with pytest.raises(ToolError):
            Workspace(top / "work").apply_changes(changes)
        assert read_tree(top / "work") == OLD
