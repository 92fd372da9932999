"""Names that other programs obey (`.git`, `.envrc` …), anywhere below a root: where they are, and what a
command did to them.

Where the kernel can enforce it, existing protected files are read-only. What a command creates under a
protected name is moved out of the workspace before any other program can obey it. Where the kernel cannot
keep a command from changing existing files, they are restored, or the change is reported. Of a git directory
only those parts are protected that git runs or obeys, and a new one stays as long as there is nothing in it
that git would run.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from toolglot.builtin.files.closed_paths import ClosedPaths
from toolglot.builtin.files.workspace import PROTECTED_NAMES
from toolglot.builtin.shell.git_directories import GIT_NESTED, GIT_SENSITIVE, is_harmless
from toolglot.builtin.shell.quarantine import move_away, open_parent, read_beneath
from toolglot.confine.private_dirs import make_accessible, prune_directory

__all__ = [
    "ProtectedScanner",
    "ProtectedSnapshot",
    "ProtectionReport",
    "Sites",
    "revert_changes",
    "take_snapshot",
]

# Directories that are looked at before a command, and after one; the second is more, as a command may create
# them to hide.
_MAX_DIRECTORIES, _MAX_DIRECTORIES_AFTER = 20_000, 200_000
# Entries of protected directories that are recorded; content that is kept for restoring, per file and in
# total.
_MAX_ENTRIES, _MAX_FILE_SIZE, _MAX_TOTAL_BYTES = 5000, 256 * 1024, 8 * 1024 * 1024
_MAX_ENTRIES_AFTER = 200_000
# Protected files in protected directories: so often what is new is searched.
_MAX_PASSES = 50
_GIT_MARKS = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
# A directory that changed this recently may change again without a new time stamp, as file systems round the
# time.
_SETTLED_NS = 100_000_000


class _Listing(NamedTuple):
    """What is of interest in a directory; names are relative to the root."""

    stamp: tuple[int, int, int, int]
    sites: tuple[str, ...]
    subdirectories: tuple[str, ...]


class Sites(msgspec.Struct, frozen=True):
    """The protected files and directories below a root, by their path below it."""

    parents: dict[str, tuple[int, int]]
    """Each one -> device and inode of the directory that it is in; zeros for what a link of a protected name
    leads to."""
    is_complete: bool = True
    """False: there are more directories than are looked at."""

    def is_git_directory(self, name: str) -> bool:
        return name.rpartition("/")[2] == ".git" and any(
            f"{name}/{part}" in self.parents for part in GIT_SENSITIVE
        )

    def add_link_targets(self, root: Path) -> "Sites":
        """Return these and what links among them lead to, if that is below the root."""
        targets: set[Path] = set()
        for path in (root / name for name in self.parents):
            with suppress(OSError):  # a command exchanges it at the moment
                if os.path.islink(path):
                    targets.add(Path(os.path.realpath(path)))
        inside = [path for path in targets if path != root and path.is_relative_to(root) and path.exists()]
        names = [str(path.relative_to(root)) for path in inside]
        return Sites({**dict.fromkeys(names, (0, 0)), **self.parents}, self.is_complete)


class ProtectedScanner:
    """Finds protected files. It remembers directories, so that only those are read that have changed."""

    def __init__(self, names: Iterable[str] = PROTECTED_NAMES, closed: ClosedPaths | None = None) -> None:
        self._names = frozenset(name.casefold() for name in names)
        self._closed = closed
        self._listings: dict[str, dict[str, _Listing]] = {}

    def find_sites(self, root: Path, limit: int = _MAX_DIRECTORIES, *, unlock: bool = False) -> Sites:
        """Search a root, the directories closest to it first.

        `unlock`: make unreadable directories readable.
        """
        base = str(root)
        # What commands cannot write is not searched: it may be a large virtual environment.
        closed = (
            {str(path) for path in self._closed.list_read_only()} if self._closed is not None else set[str]()
        )
        known, seen = self._listings.get(base, {}), dict[str, _Listing]()
        parents: dict[str, tuple[int, int]] = {}
        pending = deque([""])
        while pending and len(seen) < limit:
            directory = pending.popleft()
            if (listing := self._list(base, directory, known.get(directory), unlock=unlock)) is not None:
                seen[directory] = listing
                if listing.sites:
                    parents |= {
                        name: listing.stamp[:2] for name in listing.sites if f"{base}/{name}" not in closed
                    }
                if listing.subdirectories:
                    pending += [name for name in listing.subdirectories if f"{base}/{name}" not in closed]
        self._listings[base] = seen
        return Sites(parents, not pending)

    def _list(self, base: str, directory: str, known: _Listing | None, *, unlock: bool) -> _Listing | None:
        """Return what is of interest in a directory, as it is known if it has not changed; None if it has
        gone.
        """
        path, entries = f"{base}/{directory}", dict[str, bool]()
        try:
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                return None
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            if known is not None and known.stamp == stamp:
                return known
            if time.time_ns() - status.st_ctime_ns < _SETTLED_NS:
                stamp = (status.st_dev, status.st_ino, 0, 0)
            if unlock and status.st_mode & 0o500 != 0o500:
                make_accessible(-1, path)
            with suppress(PermissionError), os.scandir(path) as iterator:
                entries = {entry.name: entry.is_dir(follow_symlinks=False) for entry in iterator}
        except OSError:
            return None
        directories = [name for name, is_directory in entries.items() if is_directory]
        sites, subdirectories = self._select(path, entries.keys(), directories)
        prefix = f"{directory}/" if directory else ""
        return _Listing(
            stamp, tuple(prefix + name for name in sites), tuple(prefix + name for name in subdirectories)
        )

    def _select(self, path: str, names: Set[str], directories: list[str]) -> tuple[Set[str], list[str]]:
        """Return which names in a directory are protected, and which directories in it are searched."""
        if ".git" in self._names and _is_git_directory(path, names):
            return names & GIT_SENSITIVE, [name for name in directories if name in GIT_NESTED]
        sites = {name for name in names if name.casefold() in self._names}  # some file systems obey .GIT, too
        # Of protected directories only .git is searched; where it is not protected, it is not searched,
        # either.
        return sites, [name for name in directories if (name in sites) == (name == ".git")]


def _is_git_directory(path: str, names: Set[str]) -> bool:
    """Whether a directory is one of git's: also a bare repository, and that of a worktree."""
    return path.endswith("/.git") or any(mark <= names for mark in _GIT_MARKS)


# ---- before a command


class _FileState(msgspec.Struct, frozen=True):
    """What a file was. Equal identity and mode: it was not changed in between."""

    identity: tuple[int, ...]
    mode: int
    data: bytes | None = None
    """The content of a small file that may have to be restored."""
    links: int = 1
    """Its names: by a new one, a later command could change it where the kernel protects the old one."""

    def is_same(self, other: "_FileState | None") -> bool:
        return other is not None and (self.identity, self.mode) == (other.identity, other.mode)


class ProtectedSnapshot(msgspec.Struct, frozen=True):
    """The protected files of one root before a command."""

    root: Path
    sites: Sites
    read_only: frozenset[str]
    """Sites that the kernel protects: a change is not the command's."""
    pinned: frozenset[str]
    """Directories that the kernel keeps from being replaced: a new one in the same place is the user's."""
    states: dict[str, _FileState]
    partial_since: int | None = None
    """Set if there are more files than states: those that have not changed since this time are not new."""

    def without_mounts(self, paths: Iterable[Path]) -> "ProtectedSnapshot":
        """Return this for a command that the kernel does not keep from these paths."""
        names = {str(path.relative_to(self.root)) for path in paths if path.is_relative_to(self.root)}
        return replace(self, read_only=self.read_only - names, pinned=self.pinned - names)


def _find_site(name: str, sites: Collection[str]) -> str | None:
    """Return the innermost of these that a name is, or is in."""
    while name and name not in sites:
        name = name.rpartition("/")[0]
    return name or None


def take_snapshot(
    root: Path,
    sites: Sites,
    read_only: Collection[str] = (),
    pinned: Collection[str] = (),
    previous: Mapping[str, _FileState] | None = None,
) -> ProtectedSnapshot:
    """Record the protected files of a root. `previous`: states whose content need not be read again."""
    now = time.time_ns()
    states = _read_states(root, sites, read_only, previous or {})
    partial_since = None if len(states) < len(sites.parents) + _MAX_ENTRIES else now - _SETTLED_NS
    return ProtectedSnapshot(root, sites, frozenset(read_only), frozenset(pinned), states, partial_since)


def _read_states(
    root: Path, sites: Sites, closed: Collection[str], previous: Mapping[str, _FileState] | None = None
) -> dict[str, _FileState]:
    """Return the states of sites, and of what is in them unless they are `closed`; with content if there is a
    `previous`.
    """
    states: dict[str, _FileState] = {}
    remaining, max_entries = (0, _MAX_ENTRIES_AFTER) if previous is None else (_MAX_TOTAL_BYTES, _MAX_ENTRIES)
    limit = len(sites.parents) + max_entries
    pending = deque(sorted(sites.parents))  # first the sites, then what is in them
    while pending and len(states) < limit:
        name = pending.popleft()
        try:
            status = os.lstat(root / name)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            states[name] = _FileState((status.st_dev, status.st_ino), status.st_mode)
            if name not in closed and not sites.is_git_directory(name):
                pending += _list_protected(root, name, sites)
            continue
        # The ctime is in it because a command can set the mtime back, but not the ctime.
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        state = _FileState(identity, status.st_mode, links=status.st_nlink)
        known = previous.get(name) if previous is not None else None
        if known is not None and known.data is not None and state.is_same(known):
            state = known
        elif (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= min(remaining, _MAX_FILE_SIZE)
            and name not in closed
        ):
            state = replace(state, data=read_beneath(root, name, _MAX_FILE_SIZE))
        states[name] = state
        remaining -= len(state.data or b"")
    return states


def _list_protected(root: Path, directory: str, sites: Sites) -> list[str]:
    """Return what is in a protected directory, without the many samples of hooks, which git does not run."""
    try:
        names = sorted(os.listdir(root / directory))
    except OSError:
        return []
    if directory in sites.parents and directory.rpartition("/")[2] == "hooks":
        names = [name for name in names if not name.endswith(".sample")]
    return [f"{directory}/{name}" for name in names]


# ---- after a command


class ProtectionReport(msgspec.Struct):
    """What a command did to protected files, and what became of it."""

    removed: list[tuple[Path, Path]] = []
    """Files that it created, and where they are now."""
    restored: list[tuple[Path, Path | None]] = []
    """Files that are as they were, and where the changed ones are now; None: they were deleted or renamed."""
    changed: list[Path] = []
    """Changes that could not be undone."""
    is_complete: bool = True
    """False: the command created more directories than can be looked at."""

    def describe(self) -> list[str]:
        """Return a line about each file."""
        lines = [
            f"{old} is protected: while a command was running it was moved to {new}"
            for old, new in self.removed
        ]
        for old, new in self.restored:
            kept = f"; the changed file is {new}" if new else ""
            lines.append(
                f"{old} is protected: it was changed while a command was running, and is as before{kept}"
            )
        return lines + [
            f"{path} is protected: it was changed while a command was running" for path in self.changed
        ]

    def merge(self, other: "ProtectionReport") -> "ProtectionReport":
        lists = (self.removed + other.removed, self.restored + other.restored, self.changed + other.changed)
        return ProtectionReport(*lists, self.is_complete and other.is_complete)


def revert_changes(
    scanner: ProtectedScanner,
    snapshots: Iterable[ProtectedSnapshot],
    quarantine: Path,
    *,
    new_only: bool = False,
) -> ProtectionReport:
    """Move new protected files to the quarantine, restore changed ones, and report the rest.

    `new_only`: leave changed ones.
    """
    report = ProtectionReport()
    for snapshot in snapshots:
        _Reversal(scanner, snapshot, quarantine, report).run(new_only=new_only)
    if report.removed or report.restored:
        prune_directory(quarantine)
    return report


def _find_new(old_names: Mapping[str, str | None]) -> set[str]:
    """Return the sites that have no name before the command."""
    return {name for name, old in old_names.items() if old is None}


def _identify(name: str, parent: tuple[int, int], state: _FileState) -> object:
    """Return what stays the same of a site while the directories around it are renamed."""
    return parent, state.identity[:2], name.rpartition("/")[2]


class _Reversal:
    """Finds out what happened to the protected files of one root, and undoes it."""

    def __init__(
        self,
        scanner: ProtectedScanner,
        snapshot: ProtectedSnapshot,
        quarantine: Path,
        report: ProtectionReport,
    ) -> None:
        self._scanner, self._snapshot, self._quarantine, self._report = scanner, snapshot, quarantine, report
        self._root, self._before = snapshot.root, snapshot.sites
        self._exempt: set[str] = set()
        """What only the user can have changed, and new git directories that do no harm."""

    def run(self, *, new_only: bool) -> None:
        limit = _MAX_DIRECTORIES_AFTER if self._before.is_complete else _MAX_DIRECTORIES
        sites = self._find_sites(limit)
        if self._before.is_complete and not sites.is_complete:
            self._report.is_complete = False
        old_names = self._match_old_names(sites)
        # First directories that were renamed to make place for others, then what is new, then what has
        # changed.
        replaced = _find_new(old_names) & self._before.parents.keys()
        has_removed = self._remove(replaced)
        has_moved_back = self._move_back(sites.parents.keys() - replaced)
        if has_removed or has_moved_back:
            sites = self._find_sites(limit)
            old_names = self._match_old_names(sites)
        for _ in range(_MAX_PASSES):  # what could not leave the workspace may have others in it
            new = _find_new(old_names)
            self._exempt |= {
                name for name in new - self._before.parents.keys() if is_harmless(self._root, name)
            }
            if not self._remove(new):
                break
            sites = self._find_sites(limit)
            old_names = self._match_old_names(sites)
        else:
            self._report.is_complete = False
        if not new_only:
            self._restore_changed(sites, {new: old for new, old in old_names.items() if old is not None})

    def _find_sites(self, limit: int) -> Sites:
        targets = {name: parent for name, parent in self._before.parents.items() if parent == (0, 0)}
        sites = self._scanner.find_sites(self._root, limit, unlock=True)
        return Sites({**targets, **sites.parents}, sites.is_complete)

    def _match_old_names(self, sites: Sites) -> dict[str, str | None]:
        """Return each site with its name before the command: another one if the directory that it is in was
        moved.
        """
        states = _read_states(self._root, sites, sites.parents)  # of the sites alone
        still_there = self._find_unmoved(states)
        gone: dict[object, str] = {}
        for name, parent in self._before.parents.items():
            old = self._snapshot.states.get(name)
            if old is not None and name not in still_there:
                gone[_identify(name, parent, old)] = name
        old_names: dict[str, str | None] = {}
        for name, state in states.items():
            key = _identify(name, sites.parents[name], state)
            old_names[name] = name if name in still_there else gone.get(key)
        return old_names

    def _find_unmoved(self, states: Mapping[str, _FileState]) -> set[str]:
        """Return the sites that are what and where they were.

        Exempt those that only the user can have changed.
        """
        snapshot = self._snapshot
        unmoved: set[str] = set()
        for name, parent in self._before.parents.items():
            old, state = snapshot.states.get(name), states.get(name)
            if old is None:
                continue
            is_replaced = state is None or (stat.S_ISDIR(old.mode) and state.identity != old.identity)
            is_in_place = self._is_in_place(name)
            is_held = name in snapshot.read_only or (is_replaced and name in snapshot.pinned)
            if is_in_place and is_held:  # the kernel keeps the command from it
                self._exempt.add(name)
            is_link_target = parent == (0, 0)
            if not is_replaced and (is_in_place or is_link_target):
                unmoved.add(name)
        return unmoved

    def _is_in_place(self, name: str) -> bool:
        """Return whether the directory that a site was in is still where it was."""
        with suppress(OSError):
            status = os.lstat((self._root / name).parent)
            return (status.st_dev, status.st_ino) == self._before.parents[name]
        return False

    def _remove(self, names: Iterable[str]) -> bool:
        """Move files away; return whether there were any."""
        moved: set[str] = set()
        for name in sorted(names):
            went_along = _find_site(name, moved) is not None  # with the directory that it is in
            if went_along or self._is_exempt(name):
                continue
            if self._move_away(name):
                moved.add(name)
        return bool(moved)

    def _is_exempt(self, name: str) -> bool:
        return _find_site(name, self._exempt) is not None

    def _move_away(self, name: str) -> bool:
        try:
            self._report.removed.append((self._root / name, move_away(self._root, name, self._quarantine)))
            return True
        except OSError:
            if self._root / name not in self._report.changed:
                self._report.changed.append(self._root / name)
            return False

    def _move_back(self, present: Collection[str]) -> bool:
        """Give directories their names back that have other ones now, beside them; return whether there were
        any.
        """
        restored: list[tuple[Path, Path | None]] = []
        for name in self._before.parents.keys() - present:
            state = self._snapshot.states.get(name)
            if state is None or not stat.S_ISDIR(state.mode) or self._is_exempt(name):
                continue
            with suppress(OSError), open_parent(self._root, name) as parent:
                for other in os.listdir(parent):
                    status = os.stat(other, dir_fd=parent, follow_symlinks=False)
                    if (status.st_dev, status.st_ino) == state.identity:
                        os.rename(other, name.rpartition("/")[2], src_dir_fd=parent, dst_dir_fd=parent)
                        restored.append((self._root / name, None))
        self._report.restored += restored
        return bool(restored)

    def _restore_changed(self, sites: Sites, old_names: Mapping[str, str]) -> None:
        watched = {new: old for new, old in old_names.items() if not self._is_exempt(new)}
        closed = sites.parents.keys() - watched.keys()
        states = _read_states(self._root, sites, closed)
        now = {name: state for name, state in states.items() if name not in closed}
        before = {**self._move_states(watched), **self._find_removed(old_names.values())}
        moved: set[str] = set()
        for name in sorted({*now, *before}):  # a directory comes before what is in it
            old, state = before.get(name), now.get(name)
            is_untouched = state is not None and state.is_same(old)
            if is_untouched or _find_site(name, moved) is not None:
                continue
            if old is None:
                if not self._was_unrecorded(name) and self._move_away(name):
                    moved.add(name)
            elif not self._has_old_content(name, old, state):
                self._restore(name, old)

    def _move_states(self, watched: Mapping[str, str]) -> dict[str, _FileState]:
        """Return the states before the command, by the names that these sites (new -> old name) have given
        them.
        """
        new_names = {old: new for new, old in watched.items()}
        states: dict[str, _FileState] = {}
        for name, state in self._snapshot.states.items():
            site = _find_site(name, self._before.parents)
            if site in new_names:
                states[new_names[site] + name[len(site) :]] = state
        return states

    def _find_removed(self, old_names: Iterable[str]) -> dict[str, _FileState]:
        """Return the states of sites that were removed, but not with the directory that they were in."""
        recorded = self._snapshot.states
        removed: dict[str, _FileState] = {}
        for name in self._before.parents.keys() - old_names:
            if name not in recorded or self._is_exempt(name):
                continue
            if self._is_in_place(name):
                removed[name] = recorded[name]
        return removed

    def _was_unrecorded(self, name: str) -> bool:
        """Whether a file was there before the command, but there were too many to record it."""
        with suppress(OSError):
            return os.lstat(self._root / name).st_ctime_ns < (self._snapshot.partial_since or 0)
        return False

    def _has_old_content(self, name: str, old: _FileState, state: _FileState | None) -> bool:
        """Whether a file that was written or replaced is as it was, without a new name by which it could be
        changed later.
        """
        if state is None or old.data is None:
            return False
        if state.mode != old.mode or state.links > old.links:
            return False
        return read_beneath(self._root, name, _MAX_FILE_SIZE) == old.data

    def _restore(self, name: str, old: _FileState) -> None:
        """Write a changed file as it was, or else report that it was changed."""
        path = self._root / name
        if old.data is not None:
            with suppress(OSError):
                self._report.restored.append((path, self._write_back(name, old.data, old.mode)))
                return
        self._report.changed.append(path)

    def _write_back(self, name: str, data: bytes, mode: int) -> Path | None:
        """Write a small file as it was; return where the one is now that was in its place. Raises OSError."""
        is_there = os.path.lexists(self._root / name)
        kept = move_away(self._root, name, self._quarantine) if is_there else None
        # O_EXCL: whatever appears there meanwhile is not overwritten, and no link is followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            open_parent(self._root, name) as parent,
            os.fdopen(os.open(name.rpartition("/")[2], flags, 0o600, dir_fd=parent), "wb") as file,
        ):
            file.write(data)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
        return kept
