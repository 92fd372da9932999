"""Names that other programs obey (`.git`, `.envrc` …): what a command may do to them, and what it did.

Laws: what is there is read-only where the kernel can say so. What a command made new is taken out of the workspace into a
private folder before anybody else obeys it. Where the kernel cannot keep a command from changing what is there, it is put back
as it was, or told. Nothing is left behind in a workspace for this, and nothing outside of it is touched.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolglot.builtin.files.confined_open import open_beneath
from toolglot.builtin.files.workspace import PROTECTED_NAMES, Root, read_all, write_all

__all__ = ["ProtectedSnapshot", "ProtectionReport", "find_protected", "revert_changes", "take_snapshots"]

_MAX_ENTRIES, _MAX_FILE_SIZE, _MAX_TOTAL_BYTES = 5000, 256 * 1024, 8 * 1024 * 1024
_GIT_SENSITIVE = frozenset(
    {"hooks", "config", "config.worktree", "info"}
)  # what git runs or obeys; the rest is many and harmless
_PROTECTED_NAMES = frozenset(name.casefold() for name in PROTECTED_NAMES)


class _FileState(msgspec.Struct, frozen=True):
    """What something was; two that are alike were not changed in between."""

    identity: tuple[int, ...]
    mode: int
    data: bytes | None = None
    """Of a small file that may have to be put back."""


class ProtectedSnapshot(msgspec.Struct, frozen=True):
    """What there was in one root before a command, by its path below the root."""

    root: Path
    directories: tuple[str, ...]
    names: frozenset[str]
    """Those that are protected."""
    states: dict[str, _FileState]


class ProtectionReport(msgspec.Struct, frozen=True):
    """What a command did to protected names, and what became of it."""

    removed: tuple[tuple[Path, Path], ...] = ()
    """What it made, and where that is now."""
    restored: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()


def list_guarded_directories(root: Path, cwd: Path) -> tuple[str, ...]:
    """Where protected names are looked for, below a root: in itself, and in the folders on the way to where a command runs."""
    parts = cwd.relative_to(root).parts if cwd.is_relative_to(root) else ()
    return ("", *("/".join(parts[: size + 1]) for size in range(len(parts))))


def find_protected(root: Path, cwd: Path, names: frozenset[str] = _PROTECTED_NAMES) -> list[str]:
    """Those that are there, as paths below a root."""
    return _find_named(root, list_guarded_directories(root, cwd), names)


def _find_named(root: Path, directories: Iterable[str], names: frozenset[str]) -> list[str]:
    found: list[str] = []
    for folder in directories:
        found += [f"{folder}/{name}".lstrip("/") for name in _list_names(root / folder) if name.casefold() in names]
    return found


def take_snapshots(
    roots: Iterable[Root], cwd: Path, names: frozenset[str] = _PROTECTED_NAMES, *, recursive: bool
) -> tuple[ProtectedSnapshot, ...]:
    """What there is. `closely`: also inside of protected folders, where nothing keeps a command from changing them."""
    found: list[ProtectedSnapshot] = []
    for root in roots:
        if root.writable:
            folders = list_guarded_directories(root.path, cwd)
            marks = _scan_states(root.path, folders, names, recursive=recursive, keep_data=recursive)
            found.append(ProtectedSnapshot(root.path, folders, names, marks))
    return tuple(found)


def revert_changes(
    snapshots: Iterable[ProtectedSnapshot], quarantine: Path, *, recursive: bool, may_restore: bool, new_only: bool = False
) -> ProtectionReport:
    """What a command made goes away, what it changed is put back (`may_undo`), and whatever cannot be is told."""
    removed: list[tuple[Path, Path]] = []
    restored: list[Path] = []
    changed: list[Path] = []
    for stock in snapshots:
        now = _scan_states(stock.root, stock.directories, stock.names, recursive=recursive, keep_data=False)
        known = stock.states if not new_only else {name: now.get(name, mark) for name, mark in stock.states.items()}
        gone = ""
        for name in sorted({*now, *known}):
            path, old = stock.root / name, known.get(name)
            if _is_same(now.get(name), old) or (gone and name.startswith(f"{gone}/")) or (new_only and name not in now):
                continue
            if old is None and (target := _move_away(stock.root, name, quarantine)):
                removed.append((path, target))
                gone = name
            elif old is not None and may_restore and _restore_file(stock.root, name, old, quarantine):
                restored.append(path)
            else:
                changed.append(path)
    return ProtectionReport(tuple(removed), tuple(restored), tuple(changed))


def _is_same(before: _FileState | None, after: _FileState | None) -> bool:
    return before is not None and after is not None and (before.identity, before.mode) == (after.identity, after.mode)


def _scan_states(
    root: Path, directories: Iterable[str], names: frozenset[str], *, recursive: bool, keep_data: bool
) -> dict[str, _FileState]:
    found: dict[str, _FileState] = {}
    room = _MAX_TOTAL_BYTES if keep_data else 0
    left = _find_named(root, directories, names)
    while left and len(found) < _MAX_ENTRIES:
        name = left.pop()
        try:
            status = os.lstat(root / name)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            found[name] = _FileState((status.st_dev, status.st_ino), status.st_mode)
            left += [f"{name}/{one}" for one in _list_names(root / name) if recursive and not _is_harmless(name, one)]
            continue
        data = _read_data(root, name) if stat.S_ISREG(status.st_mode) and status.st_size <= min(room, _MAX_FILE_SIZE) else None
        room -= len(data or b"")
        numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found[name] = _FileState(numbers, status.st_mode, data)
    return found


def _is_harmless(directory: str, name: str) -> bool:
    return directory.rpartition("/")[2].casefold() == ".git" and name not in _GIT_SENSITIVE


def _list_names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


# ---- by descriptors, as a command may have left links behind


def _open_parent(root: Path, name: str) -> int:
    """The folder of a name, below the root whatever links say. Raises OSError."""
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(top, name.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(top)


def _read_data(root: Path, name: str) -> bytes | None:
    try:
        folder = _open_parent(root, name)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(name.rpartition("/")[2], flags, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        return None
    try:
        return read_all(handle, _MAX_FILE_SIZE + 1)
    finally:
        os.close(handle)


def _move_away(root: Path, name: str, quarantine: Path) -> Path | None:
    last = name.rpartition("/")[2]
    target = quarantine / f"{last}.{secrets.token_hex(4)}"
    try:
        quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _open_parent(root, name)
    except OSError:
        return None
    try:
        os.rename(last, target, src_dir_fd=folder)
    except OSError:  # another file system
        try:
            shutil.move(f"/proc/self/fd/{folder}/{last}", target)
        except (OSError, shutil.Error):
            return None
    finally:
        os.close(folder)
    return target


def _restore_file(root: Path, name: str, old_state: _FileState, quarantine: Path) -> bool:
    """A small file as it was; whatever is in its place goes away."""
    if old_state.data is None or (os.path.lexists(root / name) and _move_away(root, name, quarantine) is None):
        return False
    try:
        folder = _open_parent(root, name)
    except OSError:
        return False
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name.rpartition("/")[2], flags, 0o600, dir_fd=folder)
        try:
            write_all(handle, old_state.data)
            os.fchmod(handle, stat.S_IMODE(old_state.mode))
        finally:
            os.close(handle)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
