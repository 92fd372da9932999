"""Protected files where there are many of them: near the command they are mounted, further inside they are
restored.
"""

import resource
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent))

from shell_kit import Kit, unavailable_reason

from toolglot.builtin.files.closed_paths import MAX_CHILDREN
from toolglot.builtin.shell import protected_paths
from toolglot.builtin.shell.manager import ShellManager
from toolglot.builtin.shell.protected_paths import ProtectedScanner, revert_changes, take_snapshot
from toolglot.confine import sandbox
from toolglot.confine.roots import Root
from toolglot.confine.sandbox import Confinement, SandboxLevel

needs_bubblewrap = pytest.mark.skipif(
    bool(unavailable_reason(SandboxLevel.BUBBLEWRAP)), reason="bubblewrap does not work here"
)
needs_landlock = pytest.mark.skipif(
    bool(unavailable_reason(SandboxLevel.LANDLOCK)), reason="Landlock does not work here"
)


def make_repository(path: Path) -> None:
    for part in ("hooks", "info", "objects", "refs"):
        (path / ".git" / part).mkdir(parents=True)
    (path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (path / ".git/config").write_text("[core]\n")


@pytest.fixture
def few_descriptors() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_bubblewrap
@pytest.mark.usefixtures("few_descriptors")
@pytest.mark.parametrize("is_background", [False, True])
async def test_commands_run_among_hundreds_of_repositories(tmp_path: Path, is_background: bool) -> None:
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    make_repository(kit.work)
    for number in range(300):
        make_repository(kit.work / f"repository{number}")
    command = "for d in . repository7; do echo evil >> $d/.git/config; done; mount | grep -c '/work/.*[.]git'"
    data = await kit.shell(command=command, background=is_background)
    if is_background:
        data = await kit.data("shell_output", handle=data["handle"], timeout=60)
    *_, mounts = data["output"].split()
    assert "./.git/config: Read-only file system" in data["output"]
    assert int(mounts) == 4 if not is_background else 60 < int(mounts) < 100
    assert (kit.work / "repository7/.git/config").read_text() == "[core]\n"
    kit.close()


@needs_bubblewrap
async def test_what_was_mounted_for_one_command_is_restored_after_the_next(tmp_path: Path) -> None:
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    make_repository(kit.work / "part")
    data = await kit.shell(command="echo evil >> .git/config", cwd="part")
    assert "Read-only file system" in data["output"]
    data = await kit.shell(command="echo evil >> part/.git/config; rm -r part/.git/info", cwd=".")
    assert "part/.git/config" in data["protected"]
    assert (kit.work / "part/.git/config").read_text() == "[core]\n"
    kit.close()


@needs_bubblewrap
async def test_a_link_of_a_protected_name_cannot_be_replaced(tmp_path: Path) -> None:
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    (kit.work / "settings").mkdir()
    (kit.work / ".vscode").symlink_to("settings")
    data = await kit.shell(command="rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json")
    assert data["protected"]
    assert not (kit.work / ".vscode/tasks.json").exists()
    kit.close()


def test_what_was_too_much_to_record_is_not_taken_for_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, scanner = tmp_path / "work", ProtectedScanner()
    (work / ".hg").mkdir(parents=True)
    for number in range(10, 30):
        (work / f".hg/{number}").write_text("as it was\n")
    monkeypatch.setattr(protected_paths, "_MAX_ENTRIES", 9)
    monkeypatch.setattr(protected_paths, "_SETTLED_NS", -1_000_000_000)  # as if the files were older
    snapshot = take_snapshot(work, scanner.find_sites(work))
    monkeypatch.setattr(protected_paths, "_SETTLED_NS", 100_000_000)
    (work / ".hg/10").unlink()
    (work / ".hg/11").write_text("evil\n")
    report = revert_changes(scanner, [snapshot], tmp_path / "removed")
    assert report.removed == []
    assert {path.read_text() for path in (work / ".hg").iterdir()} == {"as it was\n"}
    assert len(list((work / ".hg").iterdir())) == 20
    (work / ".hg/hgrc").write_text("evil\n")
    snapshot = replace(snapshot, partial_since=(work / ".hg/hgrc").stat().st_ctime_ns)
    report = revert_changes(scanner, [snapshot], tmp_path / "removed")
    assert work / ".hg/hgrc" in [old for old, _ in report.removed]


def test_a_mount_that_cannot_be_prepared_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work/.vscode").mkdir(parents=True)
    roots, paths = (Root(tmp_path / "work"),), (tmp_path / "work/.vscode", tmp_path / "work/.gone")
    confinement = Confinement(
        level=SandboxLevel.BUBBLEWRAP, roots=roots, scratch=tmp_path, protected_paths=paths
    )
    with ExitStack() as stack:
        options, handles, unmounted = confinement.mount_options(stack)
        assert len(handles) == options.count("--ro-bind-fd") == 1
        assert unmounted == [tmp_path / "work/.gone"]

    def fail(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(sandbox, "open_beneath", fail)
    with ExitStack() as stack, pytest.raises(OSError, match="Too many open files"):
        confinement.mount_options(stack)


@needs_bubblewrap
async def test_what_could_not_be_mounted_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has gone when the command starts, so that the command can create it."""
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    (kit.work / ".envrc").write_text("as it was\n")

    def remove(*_: object) -> int:
        (kit.work / ".envrc").unlink(missing_ok=True)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(sandbox, "open_beneath", remove)
    data = await kit.shell(command="echo evil > .envrc")
    assert data["protected"] == [".envrc"]
    kit.close()


@needs_landlock
async def test_at_landlock_only_commands_in_the_background_are_narrowed(tmp_path: Path) -> None:
    kit = Kit(tmp_path, SandboxLevel.LANDLOCK)
    make_repository(kit.work)
    data = await kit.shell(
        command="echo > new && echo > .git/index.lock && echo evil >> .git/config", yield_after=30
    )
    assert (data["exit_code"], data["protected"]) == (0, [".git/config"])
    assert (kit.work / "new").exists()
    assert (kit.work / ".git/config").read_text() == "[core]\n"
    handle = (await kit.shell(command="sleep 0.1; echo > other", background=True))["handle"]
    data = await kit.data("shell_output", handle=handle, timeout=30)
    assert "Permission denied" in data["output"]
    assert (
        "in the background nothing can be created directly in ., .git; in the foreground it may be"
        in data["notes"]
    )
    kit.close()


@needs_landlock
async def test_a_directory_with_too_many_entries_beside_a_closed_one_is_explained(tmp_path: Path) -> None:
    kit = Kit(tmp_path, SandboxLevel.LANDLOCK, hidden=(tmp_path / "work/secret",))
    (kit.work / "secret").mkdir()
    for number in range(MAX_CHILDREN):
        (kit.work / f"part{number:04}").touch()
    (kit.work / "zoo").touch()
    assert (await kit.shell(command="echo > part0007"))["exit_code"] == 0
    data = await kit.shell(command="echo > zoo")
    assert data["exit_code"] == 1
    assert "only 500 entries of . can be writable here" in data["notes"]
    kit.close()


async def test_results_are_built_outside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for protected files may take long."""
    kit = Kit(tmp_path, SandboxLevel.NONE)
    threads: list[threading.Thread] = []
    build = ShellManager.build_result

    def build_result(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return build(*arguments)

    monkeypatch.setattr(ShellManager, "build_result", build_result)
    handle = (await kit.shell(command="sleep 60", background=True))["handle"]
    await kit.data("shell_output", handle=handle)
    await kit.data("shell_kill", handle=handle)
    assert len(threads) == 3
    assert threading.main_thread() not in threads
    kit.close()
