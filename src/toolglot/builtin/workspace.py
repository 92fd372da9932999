"""The folder that tools work in. Every operation is (root, path) -> descriptor; the checks are made on what was opened.

Laws: nothing outside of the roots is opened, made, changed or removed, whatever a path says and whoever swaps folders
meanwhile. A file is replaced whole or not at all. What a later start of some program would obey (protected names) is not
changed. A file that has changed since it was read is not overwritten. After a check only descriptors are used.
"""

import errno
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolglot.builtin.beneath import PATH_ONLY, open_beneath
from toolglot.errors import ToolError, UsageError

__all__ = ["PROTECTED", "Change", "Opened", "Place", "Root", "Version", "Workspace", "Written"]

# What programs obey when they start next: names of files and folders, anywhere in a root.
PROTECTED = frozenset(
    {
        *(".git", ".hg", ".svn", ".husky", ".githooks", ".mcp.json", "toolglot.toml", ".toolglot"),
        *(".vscode", ".idea", ".cursor", ".claude", ".gemini", ".codex", ".qwen", ".windsurf", ".devcontainer", ".envrc"),
        *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".ssh", ".gnupg"),
    }
)
_SHORT_NAMES = {"git~1": ".git"}  # as old Windows file systems say it
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(msgspec.Struct, frozen=True):
    """A folder that may be read, and written to where it is writable."""

    path: Path
    writable: bool = True


class Version(msgspec.Struct, frozen=True):
    """What a file was when it was looked at: another version has other numbers."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Place(msgspec.Struct, frozen=True):
    """A path as it was given, and what it means: a root, and a path below it."""

    given: str
    root: "_Held"
    relative: str


class Opened(msgspec.Struct, frozen=True):
    """A descriptor, and what it is: its status, and its real path below the root that it is in."""

    handle: int
    status: os.stat_result
    real: str
    """Below its root, links resolved."""
    path: Path
    """The whole real path: for people, for the audit log."""

    @property
    def version(self) -> Version:
        return Version.of(self.status)


class Change(msgspec.Struct, frozen=True):
    """One file as it is to be; no data: it is removed. `seen`: the version that it must still have, or "absent"."""

    path: str
    data: bytes | None
    seen: "Version | str | None" = None
    mode: int | None = None


class Written(msgspec.Struct, frozen=True):
    """What was done to one file."""

    path: Path
    created: bool
    version: Version | None
    """None: it was removed."""
    backup: Path | None = None


class _Held:
    """A root that is held open: what it was when it was opened is what it stays, whatever happens to its name."""

    def __init__(self, root: Root) -> None:
        try:
            self.handle = os.open(root.path, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: {e.strerror}") from None
        self.writable = root.writable
        self.given = os.path.abspath(root.path)
        self.real = os.path.realpath(root.path)

    def below(self, path: str) -> str | None:
        """An absolute path as one below this root, compared name by name; None where it is not."""
        for prefix in (self.given, self.real):
            parts, of = path.split("/"), prefix.rstrip("/").split("/")
            if parts[: len(of)] == of:
                return "/".join(parts[len(of) :])
        return None


class Workspace:
    """One writable root that relative paths are of, and others beside it. Safe under threads.

    `backups`: a private folder; what is overwritten or removed is kept there first. `protected`: names that are not changed.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        others: Iterable[Root] = (),
        writable: bool = True,
        protected: Iterable[str] = PROTECTED,
        backups: Path | None = None,
    ) -> None:
        if os.name != "posix":
            raise UsageError("the built-in file tools need Linux or macOS: elsewhere a folder cannot be held open safely")
        self._roots = [_Held(Root(Path(root), writable)), *map(_Held, others)]
        self._protected = frozenset(_plain_name(name) for name in protected)
        self._backups = backups
        self._lock = threading.Lock()

    @property
    def root(self) -> Path:
        """The folder that relative paths are of."""
        return Path(self._roots[0].real)

    @property
    def roots(self) -> tuple[Root, ...]:
        """All of them, by their real paths."""
        return tuple(Root(Path(held.real), held.writable) for held in self._roots)

    def close(self) -> None:
        """Gives the handles back."""
        for held in self._roots:
            with suppress(OSError):
                os.close(held.handle)

    # ---- where

    def place(self, path: str) -> Place:
        """What a path means. Nothing is looked at yet. Raises ToolError."""
        if not path or "\0" in path:
            raise ToolError(f"{path[:80]!r} is not a path", kind="validation")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"{path[:80]!r} is not a path: it holds half a character", kind="validation") from None
        if size > _LONGEST_PATH or any(len(os.fsencode(name)) > _LONGEST_NAME for name in path.split("/")):
            raise ToolError(f"the path {path[:80]!r}… is too long", kind="validation")
        if not path.startswith("/"):
            return Place(path, self._roots[0], path)
        for held in self._roots:
            if (relative := held.below(path)) is not None:
                return Place(path, held, relative)
        raise self._outside(path)

    def _outside(self, path: str) -> ToolError:
        return ToolError(f"{path!r} is outside of the workspace {str(self.root)!r}", kind="not_allowed")

    def _open(self, place: Place, flags: int, mode: int = 0o600) -> int:
        """A descriptor. A link with an absolute path that leads back into a root is followed too. Raises ToolError, OSError."""
        held, relative = place.root, place.relative
        try:
            return open_beneath(held.handle, relative, flags, mode)
        except OSError as e:
            if e.errno != errno.EXDEV:
                raise
        again = os.path.realpath(os.path.join(held.real, relative))
        for other in self._roots:
            if (inside := other.below(again)) is not None:
                with suppress(OSError):
                    return open_beneath(other.handle, inside, flags, mode)
        raise self._outside(place.given)

    def _real(self, handle: int, place: Place) -> tuple[str, Path]:
        """Where a descriptor really is: below its root, and whole."""
        path = _path_of(handle) or os.path.realpath(os.path.join(place.root.real, place.relative))
        for held in self._roots:
            if (below := held.below(path)) is not None:
                return below, Path(path)
        raise self._outside(place.given)

    # ---- looking

    @contextmanager
    def reading(self, path: str) -> Generator[Opened]:
        """A regular file, open for reading. Raises ToolError."""
        with self._opened(path, os.O_RDONLY | os.O_NONBLOCK) as opened:
            if not stat.S_ISREG(opened.status.st_mode):
                what = "a folder" if stat.S_ISDIR(opened.status.st_mode) else "not a regular file"
                raise ToolError(f"{path!r} is {what}", kind="execution")
            yield opened

    @contextmanager
    def listing(self, path: str) -> Generator[Opened]:
        """A folder, open for listing (`os.scandir(opened.handle)`). Raises ToolError."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as opened:
            yield opened

    @contextmanager
    def _opened(self, path: str, flags: int) -> Generator[Opened]:
        place = self.place(path)
        with _explained(place.given):
            handle = self._open(place, flags)
        try:
            below, whole = self._real(handle, place)
            yield Opened(handle, os.fstat(handle), below, whole)
        finally:
            os.close(handle)

    def look(self, path: str) -> Opened | None:
        """What is at a path, without a descriptor of it; None where nothing is. Raises ToolError."""
        place = self.place(path)
        try:
            handle = self._open(place, PATH_ONLY)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise _failure(e, place.given) from None
        try:
            below, whole = self._real(handle, place)
            return Opened(-1, os.fstat(handle), below, whole)
        finally:
            os.close(handle)

    def read(self, path: str, most: int) -> tuple[bytes, Opened]:
        """The bytes of a file, at most so many and one more. Raises ToolError."""
        with self.reading(path) as opened:
            return read_all(opened.handle, most + 1), opened

    # ---- changing

    def write(self, path: str, data: bytes, *, seen: "Version | str | None" = None, mode: int | None = None) -> Written:
        """Replaces or makes a file, whole or not at all; folders on the way are made. Raises ToolError."""
        return self.change([Change(path, data, seen, mode)])[0]

    def remove(self, path: str, *, seen: Version | None = None) -> Written:
        """Removes a file. Raises ToolError."""
        return self.change([Change(path, None, seen)])[0]

    def change(self, changes: Iterable[Change]) -> list[Written]:
        """All of the changes, or none of them. Raises ToolError; then every file is as it was.

        Everything that can fail is done first, beside the files: checks, backups, the new contents on disk. Then names change.
        """
        with self._lock:
            steps: list[_Step] = []
            try:
                for change in changes:
                    steps.append(self._prepared(change, steps))
                for step in steps:
                    step.check()
                return self._carried_out(steps)
            finally:
                for step in reversed(steps):
                    step.clean()

    def _prepared(self, change: Change, before: "list[_Step]") -> "_Step":
        place = self.place(change.path)
        with _explained(place.given):
            folder, name, made = self._parent(place, make=change.data is not None)
        step = _Step(change, place.given, folder, name, made)
        try:
            below, whole = self._real(folder, place)
            step.path = whole / name
            held = next(one for one in self._roots if one.below(str(whole)) is not None)
            if not held.writable:
                raise ToolError(f"{place.given!r} is in a folder that may only be read", kind="not_allowed")
            self._check_names(place.given, (*below.split("/"), name))
            if any(one.path == step.path for one in before):
                raise ToolError(f"{place.given!r} is to be changed twice at once", kind="validation")
            with _explained(place.given):
                step.stage(self._backups)
        except BaseException:
            step.clean()
            raise
        return step

    def _parent(self, place: Place, *, make: bool) -> tuple[int, str, list[tuple[int, str]]]:
        """The folder of a file, its name there, and folders that had to be made. A link at the end is followed."""
        relative = place.relative.rstrip("/")
        if not relative or relative.split("/")[-1] in ("", ".", "..") or place.relative.endswith("/"):
            raise ToolError(f"{place.given!r} is not the path of a file", kind="validation")
        above, _, name = relative.rpartition("/")
        if _is_link(place.root.handle, relative):
            return self._behind_link(place)
        made: list[tuple[int, str]] = []
        try:
            return self._open(Place(place.given, place.root, above), os.O_RDONLY | os.O_DIRECTORY), name, made
        except OSError as e:
            if e.errno != errno.ENOENT or not make:
                raise
        return self._made_folders(place, above, made), name, made

    def _behind_link(self, place: Place) -> tuple[int, str, list[tuple[int, str]]]:
        """The folder and name of the file that a link leads to; one that leads to nothing is refused."""
        try:
            handle = self._open(place, PATH_ONLY)
        except OSError as e:
            if e.errno == errno.ENOENT:
                raise ToolError(f"{place.given!r} is a link to a file that does not exist", kind="not_allowed") from None
            raise
        try:
            _, whole = self._real(handle, place)
        finally:
            os.close(handle)
        target = self.place(str(whole))
        above, _, name = target.relative.rpartition("/")
        return self._open(Place(place.given, target.root, above), os.O_RDONLY | os.O_DIRECTORY), name, []

    def _made_folders(self, place: Place, path: str, made: list[tuple[int, str]]) -> int:
        """Makes the folders of a path that are missing, one below the other, each by the handle of the one above."""
        handle = self._open(Place(place.given, place.root, ""), os.O_RDONLY | os.O_DIRECTORY)
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            os.close(handle)
            raise ToolError(f"{place.given!r}: folders are not made along '..'", kind="validation")
        try:
            so_far = ""
            for name in names:
                so_far = f"{so_far}/{name}" if so_far else name
                self._check_names(place.given, so_far.split("/"))
                try:
                    lower = self._open(Place(place.given, place.root, so_far), os.O_RDONLY | os.O_DIRECTORY)
                except OSError as e:
                    if e.errno != errno.ENOENT:
                        raise
                    if not place.root.writable:
                        raise ToolError(f"{place.given!r} is in a folder that may only be read", kind="not_allowed") from None
                    os.mkdir(name, 0o777, dir_fd=handle)
                    made.append((os.dup(handle), name))
                    lower = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                os.close(handle)
                handle = lower
        except BaseException:
            os.close(handle)
            _unmake(made)
            raise
        return handle

    def _check_names(self, given: str, names: Iterable[str]) -> None:
        for name in names:
            if _plain_name(name) in self._protected:
                raise ToolError(f"{given!r} may not be changed: {name!r} is protected", kind="not_allowed")

    def _carried_out(self, steps: "list[_Step]") -> list[Written]:
        done: list[_Step] = []
        try:
            for step in steps:
                done.append(step)
                step.carry_out()
        except OSError as e:
            for step in reversed(done):
                with suppress(OSError):
                    step.take_back()
            raise _failure(e, done[-1].given) from None
        return [step.finish() for step in steps]


class _Step:
    """One change on its way: staged beside its file, then put in place by one rename. The old file is there until `finish`."""

    def __init__(self, change: Change, given: str, folder: int, name: str, made: list[tuple[int, str]]) -> None:
        self.change, self.given = change, given
        self.path = Path()
        self._folder, self._name, self._made = folder, name, made
        self._new = self._old = ""
        self._before: os.stat_result | None = None
        self._backup: Path | None = None
        self._placed = self._finished = False

    def stage(self, backups: Path | None) -> None:
        """Looks at the old file, keeps a copy of it, and writes the new one next to it."""
        self._before = self._look()
        self.check()
        data = self.change.data
        if self._before is not None and backups is not None:
            self._backup = _kept(self._folder, self._name, self.path, backups)
        if data is None:
            return
        self._new = f".{self._name[:100]}.{secrets.token_hex(8)}.new"
        mode = (
            self.change.mode if self.change.mode is not None else stat.S_IMODE(self._before.st_mode) if self._before else 0o666
        )
        handle = os.open(
            self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self._folder
        )
        try:
            write_all(handle, data)
            if self._before is not None or self.change.mode is not None:
                os.fchmod(handle, mode & 0o7777)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _look(self) -> os.stat_result | None:
        try:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise ToolError(f"{self.given!r} is {what}", kind="execution")
        return found

    def check(self) -> None:
        """Whether the file still is what it was when it was read. Raises ToolError."""
        now, seen = self._look(), self.change.seen
        if now is None:
            if self.change.data is None or isinstance(seen, Version):
                raise ToolError(f"there is no file {self.given!r}", kind="execution")
            return
        if seen == "absent":
            raise ToolError(f"{self.given!r} exists already", kind="execution")
        if isinstance(seen, Version) and Version.of(now) != seen:
            raise ToolError(f"{self.given!r} has changed since it was read: read it again", kind="execution")
        if self._before is not None and Version.of(now) != Version.of(self._before):
            raise ToolError(f"{self.given!r} is being changed by somebody else: try again", kind="execution")

    def carry_out(self) -> None:
        """Changes names, so that it can be taken back."""
        if self._before is not None:
            self._old = f".{self._name[:100]}.{secrets.token_hex(8)}.old"
            os.link(self._name, self._old, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        if self._new:
            os.rename(self._new, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._new = ""
        else:
            os.unlink(self._name, dir_fd=self._folder)
        self._placed = True

    def take_back(self) -> None:
        """The old file is back under its name; a new one is gone."""
        if self._placed and self._old:
            os.rename(self._old, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._old = ""
        elif self._placed:
            os.unlink(self._name, dir_fd=self._folder)
        self._placed = False

    def finish(self) -> Written:
        """It is done, and on disk."""
        self._finished = True
        if self._old:
            os.unlink(self._old, dir_fd=self._folder)
            self._old = ""
        os.fsync(self._folder)
        version = None
        if self.change.data is not None:
            version = Version.of(os.stat(self._name, dir_fd=self._folder, follow_symlinks=False))
        return Written(self.path, self._before is None, version, self._backup)

    def clean(self) -> None:
        """Nothing is left beside the file."""
        for name in (self._new, self._old):
            if name:
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)
        if self._finished:
            for handle, _ in self._made:
                os.close(handle)
        else:
            _unmake(self._made)
        self._made = []
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def _unmake(made: list[tuple[int, str]]) -> None:
    """Folders that were made for nothing."""
    for handle, name in reversed(made):
        with suppress(OSError):
            os.rmdir(name, dir_fd=handle)
        os.close(handle)


def _kept(folder: int, name: str, path: Path, backups: Path) -> Path:
    """A copy of a file in the private folder for backups."""
    backups.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = backups / f"{path.name[:100]}.{secrets.token_hex(6)}"
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        target = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while data := os.read(source, 1 << 20):
                write_all(target, data)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
    return kept


def read_all(handle: int, most: int) -> bytes:
    """What a descriptor holds, at most so many bytes."""
    parts: list[bytes] = []
    size = 0
    while size < most and (data := os.read(handle, min(1 << 20, most - size))):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def write_all(handle: int, data: bytes) -> None:
    """All of the bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _path_of(handle: int) -> str:
    """The real path of a descriptor, as the kernel knows it; "" where it does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        pass
    try:
        import fcntl

        found = fcntl.fcntl(handle, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024)  # macOS
        return found.rstrip(b"\0").decode()
    except (OSError, ValueError, ImportError):
        return ""


def _is_link(root: int, path: str) -> bool:
    """Whether a path ends in a link."""
    above, _, name = path.rpartition("/")
    try:
        folder = open_beneath(root, above, PATH_ONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
    finally:
        os.close(folder)


def _plain_name(name: str) -> str:
    """A name as the most careless file system reads it: any case, any composition, trailing dots, streams."""
    plain = unicodedata.normalize("NFC", name).casefold()
    plain = "".join(one for one in plain if unicodedata.category(one) != "Cf").partition(":")[0].rstrip(". ")
    return _SHORT_NAMES.get(plain, plain)


@contextmanager
def _explained(given: str) -> Generator[None]:
    try:
        yield
    except OSError as e:
        raise _failure(e, given) from None


_SAYINGS = {
    errno.ENOENT: "there is no {!r}",
    errno.ENOTDIR: "{!r}: a part of the path is not a folder",
    errno.EISDIR: "{!r} is a folder",
    errno.ELOOP: "{!r} leads through too many links",
    errno.EXDEV: "{!r} leads out of the workspace",
    errno.ENXIO: "{!r} is not a regular file",
    errno.EACCES: "{!r} may not be opened",
    errno.EPERM: "{!r} may not be changed",
    errno.ENAMETOOLONG: "the path {!r} is too long",
    errno.ENOSPC: "{!r} cannot be written: the disk is full",
    errno.EROFS: "{!r} cannot be written: the file system is read-only",
}


def _failure(error: OSError, given: str) -> ToolError:
    said = _SAYINGS.get(error.errno or 0)
    kind = "not_allowed" if error.errno in (errno.EXDEV, errno.EACCES, errno.EPERM) else "execution"
    return ToolError(said.format(given) if said else f"{given!r}: {error.strerror}", kind=kind)
