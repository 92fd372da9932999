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

from toolglot.builtin.beneath import open_beneath
from toolglot.builtin.workspace import PROTECTED, Root, read_all, write_all

__all__ = ["Settled", "Stock", "protected_names", "settle", "take_stock"]

_MOST_ENTRIES, _LARGEST, _MOST_BYTES = 5000, 256 * 1024, 8 * 1024 * 1024
_OF_GIT = frozenset({"hooks", "config", "config.worktree", "info"})  # what git runs or obeys; the rest is many and harmless
_NAMES = frozenset(name.casefold() for name in PROTECTED)


class _Mark(msgspec.Struct, frozen=True):
    """What something was; two that are alike were not changed in between."""

    numbers: tuple[int, ...]
    mode: int
    data: bytes | None = None
    """Of a small file that may have to be put back."""


class Stock(msgspec.Struct, frozen=True):
    """What there was in one root before a command, by its path below the root."""

    root: Path
    folders: tuple[str, ...]
    names: frozenset[str]
    """Those that are protected."""
    marks: dict[str, _Mark]


class Settled(msgspec.Struct, frozen=True):
    """What a command did to protected names, and what became of it."""

    removed: tuple[tuple[Path, Path], ...] = ()
    """What it made, and where that is now."""
    restored: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()


def guarded_folders(root: Path, cwd: Path) -> tuple[str, ...]:
    """Where protected names are looked for, below a root: in itself, and in the folders on the way to where a command runs."""
    parts = cwd.relative_to(root).parts if cwd.is_relative_to(root) else ()
    return ("", *("/".join(parts[: size + 1]) for size in range(len(parts))))


def protected_names(root: Path, cwd: Path, names: frozenset[str] = _NAMES) -> list[str]:
    """Those that are there, as paths below a root."""
    return _named(root, guarded_folders(root, cwd), names)


def _named(root: Path, folders: Iterable[str], names: frozenset[str]) -> list[str]:
    found: list[str] = []
    for folder in folders:
        found += [f"{folder}/{name}".lstrip("/") for name in _names_in(root / folder) if name.casefold() in names]
    return found


def take_stock(roots: Iterable[Root], cwd: Path, names: frozenset[str] = _NAMES, *, closely: bool) -> tuple[Stock, ...]:
    """What there is. `closely`: also inside of protected folders, where nothing keeps a command from changing them."""
    found: list[Stock] = []
    for root in roots:
        if root.writable:
            folders = guarded_folders(root.path, cwd)
            marks = _marks(root.path, folders, names, closely=closely, keep=closely)
            found.append(Stock(root.path, folders, names, marks))
    return tuple(found)


def settle(before: Iterable[Stock], away: Path, *, closely: bool, may_undo: bool, new_only: bool = False) -> Settled:
    """What a command made goes away, what it changed is put back (`may_undo`), and whatever cannot be is told."""
    removed: list[tuple[Path, Path]] = []
    restored: list[Path] = []
    changed: list[Path] = []
    for stock in before:
        now = _marks(stock.root, stock.folders, stock.names, closely=closely, keep=False)
        known = stock.marks if not new_only else {name: now.get(name, mark) for name, mark in stock.marks.items()}
        gone = ""
        for name in sorted({*now, *known}):
            path, old = stock.root / name, known.get(name)
            if _alike(now.get(name), old) or (gone and name.startswith(f"{gone}/")) or (new_only and name not in now):
                continue
            if old is None and (target := _taken_away(stock.root, name, away)):
                removed.append((path, target))
                gone = name
            elif old is not None and may_undo and _put_back(stock.root, name, old, away):
                restored.append(path)
            else:
                changed.append(path)
    return Settled(tuple(removed), tuple(restored), tuple(changed))


def _alike(one: _Mark | None, other: _Mark | None) -> bool:
    return one is not None and other is not None and (one.numbers, one.mode) == (other.numbers, other.mode)


def _marks(root: Path, folders: Iterable[str], names: frozenset[str], *, closely: bool, keep: bool) -> dict[str, _Mark]:
    found: dict[str, _Mark] = {}
    room = _MOST_BYTES if keep else 0
    left = _named(root, folders, names)
    while left and len(found) < _MOST_ENTRIES:
        name = left.pop()
        try:
            status = os.lstat(root / name)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            found[name] = _Mark((status.st_dev, status.st_ino), status.st_mode)
            left += [f"{name}/{one}" for one in _names_in(root / name) if closely and not _is_harmless(name, one)]
            continue
        data = _data(root, name) if stat.S_ISREG(status.st_mode) and status.st_size <= min(room, _LARGEST) else None
        room -= len(data or b"")
        numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found[name] = _Mark(numbers, status.st_mode, data)
    return found


def _is_harmless(folder: str, name: str) -> bool:
    return folder.rpartition("/")[2].casefold() == ".git" and name not in _OF_GIT


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


# ---- by descriptors, as a command may have left links behind


def _folder_of(root: Path, name: str) -> int:
    """The folder of a name, below the root whatever links say. Raises OSError."""
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(top, name.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(top)


def _data(root: Path, name: str) -> bytes | None:
    try:
        folder = _folder_of(root, name)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(name.rpartition("/")[2], flags, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        return None
    try:
        return read_all(handle, _LARGEST + 1)
    finally:
        os.close(handle)


def _taken_away(root: Path, name: str, away: Path) -> Path | None:
    last = name.rpartition("/")[2]
    target = away / f"{last}.{secrets.token_hex(4)}"
    try:
        away.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _folder_of(root, name)
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


def _put_back(root: Path, name: str, old: _Mark, away: Path) -> bool:
    """A small file as it was; whatever is in its place goes away."""
    if old.data is None or (os.path.lexists(root / name) and _taken_away(root, name, away) is None):
        return False
    try:
        folder = _folder_of(root, name)
    except OSError:
        return False
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name.rpartition("/")[2], flags, 0o600, dir_fd=folder)
        try:
            write_all(handle, old.data)
            os.fchmod(handle, stat.S_IMODE(old.mode))
        finally:
            os.close(handle)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
