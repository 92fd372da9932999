"""Names that other programs obey (`.git`, `.envrc` …): what a command may do to them, and what it did.

Existing protected files are read-only where the kernel can enforce that. What a command creates under a protected name is moved
out of the workspace into a private directory before any other program can obey it. Where the kernel cannot keep a command from
changing existing files, they are restored, or the change is reported.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolglot.builtin.files.confined_open import open_beneath
from toolglot.builtin.files.workspace import PROTECTED_NAMES, Root

__all__ = ["ProtectedSnapshot", "ProtectionReport", "find_protected", "revert_changes", "take_snapshots"]

# Entries that are checked; content that is kept for restoring, per file and in total.
_MAX_ENTRIES, _MAX_FILE_SIZE, _MAX_TOTAL_BYTES = 5000, 256 * 1024, 8 * 1024 * 1024
# What git runs or obeys. The rest of `.git` is large, and every git command changes it.
_GIT_SENSITIVE = frozenset({"hooks", "config", "config.worktree", "info"})
_PROTECTED_NAMES = frozenset(name.casefold() for name in PROTECTED_NAMES)


class _FileState(msgspec.Struct, frozen=True):
    """What a file was. Equal identity and mode: it was not changed in between."""

    identity: tuple[int, ...]
    mode: int
    data: bytes | None = None
    """The content of a small file that may have to be restored."""

    def is_same(self, other: "_FileState | None") -> bool:
        return other is not None and (self.identity, self.mode) == (other.identity, other.mode)


class ProtectedSnapshot(msgspec.Struct, frozen=True):
    """The protected files of one root before a command, by their path below the root."""

    root: Path
    directories: tuple[str, ...]
    names: frozenset[str]
    states: dict[str, _FileState]


class ProtectionReport(msgspec.Struct, frozen=True):
    """What a command did to protected files, and what became of it."""

    removed: tuple[tuple[Path, Path], ...] = ()
    """Files that it created, and where they are now."""
    restored: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()
    """Changes that could not be undone."""


def find_protected(root: Path, cwd: Path, names: frozenset[str] = _PROTECTED_NAMES) -> list[str]:
    """Return the paths of existing protected files below a root."""
    return _find_named(root, _list_guarded_directories(root, cwd), names)


def _list_guarded_directories(root: Path, cwd: Path) -> tuple[str, ...]:
    """Return the directories that are checked: the root, and those on the way to where the command runs."""
    parts = cwd.relative_to(root).parts if cwd.is_relative_to(root) else ()
    return ("", *("/".join(parts[: size + 1]) for size in range(len(parts))))


def _find_named(root: Path, directories: Iterable[str], names: frozenset[str]) -> list[str]:
    return [
        f"{directory}/{name}".lstrip("/")
        for directory in directories
        for name in _list_names(root / directory)
        if name.casefold() in names  # a case-insensitive file system obeys .GIT, too
    ]


def _list_names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def take_snapshots(
    roots: Iterable[Root], cwd: Path, names: frozenset[str] = _PROTECTED_NAMES, *, recursive: bool
) -> tuple[ProtectedSnapshot, ...]:
    """Record the protected files of all writable roots. `recursive`: with their content, where nothing else protects it."""
    snapshots: list[ProtectedSnapshot] = []
    for root in roots:
        if root.writable:
            directories = _list_guarded_directories(root.path, cwd)
            states = _scan_states(root.path, directories, names, recursive=recursive, keep_data=recursive)
            snapshots.append(ProtectedSnapshot(root.path, directories, names, states))
    return tuple(snapshots)


def revert_changes(
    snapshots: Iterable[ProtectedSnapshot], quarantine: Path, *, recursive: bool, may_restore: bool, new_only: bool = False
) -> ProtectionReport:
    """Move new protected files to the quarantine, restore changed ones (if allowed), and report the rest."""
    removed: list[tuple[Path, Path]] = []
    restored: list[Path] = []
    changed: list[Path] = []
    for snapshot in snapshots:
        now = _scan_states(snapshot.root, snapshot.directories, snapshot.names, recursive=recursive, keep_data=False)
        before = snapshot.states
        if new_only:  # what existed counts as unchanged
            before = {name: now.get(name, state) for name, state in before.items()}
        moved = ""
        for name in sorted({*now, *before}):  # a directory comes before what is in it
            path, old_state, state = snapshot.root / name, before.get(name), now.get(name)
            if state is not None and state.is_same(old_state):
                continue
            if (moved and name.startswith(f"{moved}/")) or (new_only and state is None):
                continue
            if old_state is None and (target := _move_away(snapshot.root, name, quarantine)):
                removed.append((path, target))
                moved = name  # everything below it went with it
            elif old_state is not None and may_restore and _restore_file(snapshot.root, name, old_state, quarantine):
                restored.append(path)
            else:
                changed.append(path)
    return ProtectionReport(tuple(removed), tuple(restored), tuple(changed))


def _scan_states(
    root: Path, directories: Iterable[str], names: frozenset[str], *, recursive: bool, keep_data: bool
) -> dict[str, _FileState]:
    states: dict[str, _FileState] = {}
    remaining = _MAX_TOTAL_BYTES if keep_data else 0
    pending = _find_named(root, directories, names)
    while pending and len(states) < _MAX_ENTRIES:
        name = pending.pop()
        try:
            status = os.lstat(root / name)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            states[name] = _FileState((status.st_dev, status.st_ino), status.st_mode)
            is_git = name.rpartition("/")[2].casefold() == ".git"
            if recursive:
                children = _list_names(root / name)
                pending += [f"{name}/{child}" for child in children if not is_git or child in _GIT_SENSITIVE]
            continue
        is_small = stat.S_ISREG(status.st_mode) and status.st_size <= min(remaining, _MAX_FILE_SIZE)
        data = _read_data(root, name) if is_small else None
        remaining -= len(data or b"")
        # The ctime is in it because a command can set the mtime back, but not the ctime.
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        states[name] = _FileState(identity, status.st_mode, data)
    return states


# ---- by descriptor, as a command may have left links behind


@contextmanager
def _open_parent(root: Path, name: str) -> Generator[int]:
    """Open the directory of a name; it is below the root, whatever links say. Raises OSError."""
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parent = open_beneath(root_fd, name.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root_fd)
    try:
        yield parent
    finally:
        os.close(parent)


def _read_data(root: Path, name: str) -> bytes | None:
    with suppress(OSError), _open_parent(root, name) as parent:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe of this name must not block us
        with os.fdopen(os.open(name.rpartition("/")[2], flags, dir_fd=parent), "rb") as file:
            return file.read(_MAX_FILE_SIZE + 1)
    return None


def _move_away(root: Path, name: str, quarantine: Path) -> Path | None:
    """Move a file out of the workspace; return where it is now, None if that failed."""
    last = name.rpartition("/")[2]
    target = quarantine / f"{last}.{secrets.token_hex(4)}"
    with suppress(OSError, shutil.Error):
        quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_parent(root, name) as parent:
            try:
                os.rename(last, target, src_dir_fd=parent)
            except OSError:  # another file system: copy and delete
                shutil.move(f"/proc/self/fd/{parent}/{last}", target)
        return target
    return None


def _restore_file(root: Path, name: str, old_state: _FileState, quarantine: Path) -> bool:
    """Write a small file as it was; what is in its place now goes to the quarantine."""
    if old_state.data is None or (os.path.lexists(root / name) and _move_away(root, name, quarantine) is None):
        return False
    with suppress(OSError), _open_parent(root, name) as parent:
        # O_EXCL: whatever appears there meanwhile is not overwritten, and no link is followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name.rpartition("/")[2], flags, 0o600, dir_fd=parent), "wb") as file:
            file.write(old_state.data)
            os.fchmod(file.fileno(), stat.S_IMODE(old_state.mode))
        return True
    return False
