"""The folder that tools work in. Every operation is (root, path) -> descriptor; the checks are made on what was opened.

Laws: nothing outside of the roots is opened, made, changed or removed, whatever a path says and whoever swaps folders
meanwhile. A file is replaced whole or not at all. What a later start of some program would obey (protected names) is not
changed. A file that has changed since it was read is not overwritten. After a check only descriptors are used.

When the process is killed: each file is the old one or the new one, whole. Several files that change at once are all old or
all new only with a folder for backups: a journal there says what was under way, and the next workspace takes it back and
removes what lies beside the files. Without one, some files may be new, and `.NAME.HEX.new` and `.old` may be left.
"""

import errno
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from toolglot.builtin.beneath import PATH_ONLY, give_back, open_beneath
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
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
_LARGEST_BACKUP = 256 << 20
_GONE = " (deleted)"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # a file system, or its rules
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # folders, on some file systems


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
    whole: str

    @property
    def path(self) -> Path:
        """The whole real path: for people, for the audit log."""
        return Path(self.whole)

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
        self._opened_at = _path_of(self.handle)
        if not self._opened_at:
            self.close()
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: mount /proc, which tells where a file is")

    @property
    def real(self) -> str:
        """Where it is now: somebody may have renamed it."""
        return _path_of(self.handle) or self._opened_at

    def close(self) -> None:
        handle, self.handle = self.handle, -1
        give_back(handle)

    def below(self, path: str) -> str | None:
        """An absolute path as one below this root, compared name by name; None where it is not."""
        for prefix in dict.fromkeys((self.real, self.given)):
            if (found := _below(path, prefix)) is not None:
                return found
        return None


def _below(path: str, folder: str) -> str | None:
    parts, above = ([name for name in one.split("/") if name not in ("", ".")] for one in (path, folder))
    if parts[: len(above)] != above:
        return None
    rest = "/".join(parts[len(above) :])
    return f"{rest}/" if rest and path.endswith(("/", "/.")) else rest


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
        self._roots: list[_Held] = []
        try:
            for one in (Root(Path(root), writable), *others):
                self._roots.append(_Held(one))
        except UsageError:
            self.close()
            raise
        self._protected = frozenset(_plain_name(name) for name in protected) - {""}
        self._short = frozenset(name.lstrip(".").partition(".")[0][:6] for name in self._protected)
        self._backups = backups
        self._lock = threading.Lock()
        if backups is not None:
            self._recover(backups)

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
            held.close()

    # ---- where

    def place(self, path: str) -> Place:
        """What a path means. Nothing is looked at yet. Raises ToolError."""
        if not path or "\0" in path:
            raise ToolError(f"{path[:80]!r} is not a path", kind="validation")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"{path[:80]!r} is not a path: it holds half a character", kind="validation") from None
        if size > _LONGEST_NAME and (
            size >= _LONGEST_PATH or any(len(os.fsencode(name)) > _LONGEST_NAME for name in path.split("/"))
        ):
            raise ToolError(f"the path {path[:80]!r}… is too long", kind="validation")
        if not path.startswith("/"):
            return Place(path, self._roots[0], path)
        for held in self._roots:
            if (relative := held.below(path)) is not None:
                return Place(path, held, relative)
        raise self._outside(path)

    def _outside(self, path: str) -> ToolError:
        return ToolError(f"{path!r} is outside of the workspace {str(self.root)!r}", kind="not_allowed")

    def _open(self, place: Place, flags: int) -> int:
        """A descriptor. A link with an absolute path that leads back into a root is followed too. Raises ToolError, OSError."""
        held, relative = place.root, place.relative
        try:
            return open_beneath(held.handle, relative, flags)
        except OSError as e:
            if e.errno != errno.EXDEV:
                raise
        again = os.path.realpath(os.path.join(held.real, relative))
        for other in self._roots:
            if (inside := _below(again, other.real)) is not None:
                try:
                    return open_beneath(other.handle, inside, flags)
                except OSError as e:
                    if e.errno != errno.EXDEV:
                        raise
        raise self._outside(place.given)

    def _whereabouts(self, handle: int, place: Place) -> tuple[_Held, str, str]:
        """Where a descriptor really is: its root (the nearest above, where one is in another), the path below it, and whole."""
        path, nearest, below = _path_of(handle), None, ""
        for held in self._roots:
            real = held.real
            inside = path[len(real) + (real != "/") :] if path == real or path.startswith(real.rstrip("/") + "/") else None
            if path and inside is not None and (nearest is None or len(inside) < len(below)):
                nearest, below = held, inside
        if nearest is None:
            raise self._outside(place.given)
        return nearest, below, path

    # ---- looking

    @contextmanager
    def reading(self, path: str) -> Generator[Opened]:
        """A regular file, open for reading. Raises ToolError."""
        place = self.place(path)
        try:
            named = self._open(place, PATH_ONLY)  # opening a device or a pipe for reading would already be felt
            try:
                _check_regular(os.fstat(named), path)
            finally:
                give_back(named)
            handle = self._open(place, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as e:
            raise _failure(e, place.given) from None
        try:
            opened = self._seen(handle, place, handle)
            _check_regular(opened.status, path)
            yield opened
        finally:
            give_back(handle)

    @contextmanager
    def listing(self, path: str) -> Generator[Opened]:
        """A folder, open for listing (`os.scandir(opened.handle)`). Raises ToolError."""
        with self._opened(path, _FOLDER) as opened:
            yield opened

    @contextmanager
    def _opened(self, path: str, flags: int) -> Generator[Opened]:
        place = self.place(path)
        with _explained(place.given):
            handle = self._open(place, flags)
        try:
            yield self._seen(handle, place, handle)
        finally:
            give_back(handle)

    def _seen(self, handle: int, place: Place, shown: int) -> Opened:
        try:
            _, below, whole = self._whereabouts(handle, place)
            return Opened(shown, os.fstat(handle), below, whole)
        except OSError as e:
            raise _failure(e, place.given) from None

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
            return self._seen(handle, place, -1)
        finally:
            give_back(handle)

    def read(self, path: str, most: int) -> tuple[bytes, Opened]:
        """The bytes of a file, at most so many and one more. Raises ToolError."""
        with self.reading(path) as opened, _explained(path):
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
            journal = _Journal(self._backups)
            try:
                for change in changes:
                    self._prepare(change, steps, journal)
                for step in steps:
                    with _explained(step.given):
                        step.check()
                return _carried_out(steps, journal)
            finally:
                left = [step for step in reversed(steps) if not step.clean()]
                journal.close(keep=bool(left))

    def _prepare(self, change: Change, steps: "list[_Step]", journal: "_Journal") -> None:
        """One more step, staged."""
        place = self.place(change.path)
        with _explained(place.given):
            step = _Step(change, place.given, *self._parent(place, make=change.data is not None))
            steps.append(step)
            step.path = self._changeable(step.folder, place, [step.name]) / step.name
            if any(one.path == step.path for one in steps[:-1]):
                raise ToolError(f"{place.given!r} is to be changed twice at once", kind="validation")
            step.stage(self._backups, journal)

    def _parent(self, place: Place, *, make: bool) -> "tuple[int, str, _Made]":
        """The folder of a file, its name there, and folders that had to be made. A link at the end is followed."""
        above, _, name = place.relative.rpartition("/")
        if name in ("", ".", ".."):
            raise ToolError(f"{place.given!r} is not the path of a file", kind="validation")
        try:
            folder = self._open(Place(place.given, place.root, above), _FOLDER)
        except OSError as e:
            if e.errno != errno.ENOENT or not make:
                raise
            made: _Made = []
            return self._made_folders(place, above, made), name, made
        if not _is_link(folder, name):
            return folder, name, []
        give_back(folder)
        return self._behind_link(place)

    def _behind_link(self, place: Place) -> "tuple[int, str, _Made]":
        """The folder and name of the file that a link leads to; one that leads to nothing is refused."""
        try:
            handle = self._open(place, PATH_ONLY)
        except OSError as e:
            if e.errno == errno.ENOENT:
                raise ToolError(f"{place.given!r} is a link to a file that does not exist", kind="not_allowed") from None
            raise
        try:
            held, below, _ = self._whereabouts(handle, place)
        finally:
            give_back(handle)
        above, _, name = below.rpartition("/")
        return self._open(Place(place.given, held, above), _FOLDER), name or ".", []

    def _made_folders(self, place: Place, path: str, made: "_Made") -> int:
        """Makes the folders of a path that are missing, one below the other, each by the handle of the one above."""
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            raise ToolError(f"{place.given!r}: folders are not made along '..'", kind="validation")
        handle, there = self._deepest(place, names)
        try:
            self._changeable(handle, place, names[there:])
            for name in names[there:]:
                _make_folder(handle, name, made)
                lower = os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                give_back(handle)
                handle = lower
        except BaseException:
            give_back(handle)
            _unmake(made)
            raise
        return handle

    def _deepest(self, place: Place, names: list[str]) -> tuple[int, int]:
        """A handle of the last folder of these that exists, and how many of them do."""
        for count in range(len(names) - 1, 0, -1):
            with suppress(FileNotFoundError):
                return self._open(Place(place.given, place.root, "/".join(names[:count])), _FOLDER), count
        return self._open(Place(place.given, place.root, ""), _FOLDER), 0

    def _changeable(self, folder: int, place: Place, names: list[str]) -> Path:
        """The real path of a folder in which these names, each in the one before, may be made or changed. Raises ToolError."""
        held, below, path = self._whereabouts(folder, place)
        whole = Path(path)
        if not held.writable:
            raise ToolError(f"{place.given!r} is in a folder that may only be read", kind="not_allowed")
        for name in (*below.split("/"), *names):
            if self._is_protected(name):
                raise ToolError(f"{place.given!r} may not be changed: {name!r} is protected", kind="not_allowed")
        if self._backups is not None and whole.joinpath(*names).is_relative_to(os.path.realpath(self._backups)):
            raise ToolError(f"{place.given!r} may not be changed: backups are kept there", kind="not_allowed")
        return whole

    def _is_protected(self, name: str) -> bool:
        plain = _plain_name(name)
        short, _, number = plain.partition("~")  # as old file systems say it: git~1
        return plain in self._protected or (number[:1].isdigit() and short in self._short)

    # ---- after a crash

    def _recover(self, backups: Path) -> None:
        """What was under way when another process was killed is taken back; what it left beside the files is removed.

        Only what a journal of ours names is touched, and a file only where it still is exactly what was put there.
        """
        for path in _own_journals(backups):
            with suppress(OSError, ToolError), _taken_over(path) as lines, ExitStack() as handles:
                files = {line.old: line for line in lines if isinstance(line, _Entry)}.values()
                folders = [self._folder_of(file, handles) for file in files]
                is_done = lines[-1:] == [_Mark(True)]
                for file, folder in zip(files, folders, strict=True):
                    if folder is not None:
                        _sweep(folder, file) if is_done else _put_back(folder, file)
                    with suppress(FileNotFoundError):
                        os.unlink(backups / os.fsdecode(file.copy))
                os.unlink(path)

    def _folder_of(self, file: "_Entry", handles: ExitStack) -> int | None:
        """A handle of the folder that a journal names; None: it is gone. Raises ToolError where it may not be changed."""
        place = self.place(os.fsdecode(file.folder))
        if b"/" in b"".join((file.name, file.new, file.old, file.copy)):
            raise self._outside(place.given)
        try:
            folder = self._open(place, _FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return None
        handles.callback(give_back, folder)
        self._changeable(folder, place, [os.fsdecode(file.name)])
        return folder


def _carried_out(steps: "list[_Step]", journal: "_Journal") -> list[Written]:
    given = steps[0].given if steps else ""
    try:
        journal.write([step.entry() for step in steps], sync=len(steps) > 1)
        for step in steps:
            given = step.given
            step.carry_out()
        for step in steps:
            given = step.given
            step.settle()
        journal.write([_Mark(True)], sync=len(steps) > 1)
    except BaseException as e:
        with suppress(OSError):
            journal.write([_Mark(False)])
        stuck = [step for step in reversed(steps) if not step.take_back()]
        failure = _failure(e, given) if isinstance(e, OSError) else e
        if stuck and isinstance(failure, ToolError):
            left = " and ".join(f"{step.given!r} in {step.old!r}" for step in stuck)
            raise ToolError(f"{failure}; not everything could be put back: what it was is {left}", kind="execution") from None
        raise failure from None
    return [step.finish() for step in steps]


_Made = list[tuple[int, str]]
"""Folders that were made: the handle of the one above, and the name."""


class _Entry(msgspec.Struct, frozen=True, tag="file"):
    """A line of a journal: one file on its way. Names are bytes, as file systems have them."""

    folder: bytes
    name: bytes
    new: bytes
    old: bytes
    existed: bool
    copy: bytes
    """A backup on its way, in the private folder."""
    made: Version | None = None
    """What is put under the name; None: nothing yet, or it is removed."""


class _Mark(msgspec.Struct, frozen=True, tag="mark"):
    """A line of a journal: whether everything is in place. The last line counts."""

    done: bool


class _Journal:
    """What is under way, in the private folder. The process that writes it holds a lock on it: without the lock, it is dead."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._path, self._handle = folder, Path(), -1

    def write(self, lines: "list[_Entry] | list[_Mark]", *, sync: bool = False) -> None:
        if self._folder is None:
            return
        if self._handle < 0:
            self._start(self._folder)
        write_all(self._handle, b"".join(b"\n" + msgspec.json.encode(line) for line in lines) + b"\n")
        if sync:
            os.fsync(self._handle)

    def _start(self, folder: Path) -> None:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / secrets.token_hex(8)
        self._handle = os.open(path, _CREATE, 0o600)
        self._path = path
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        os.rename(path, path.with_suffix(".journal"))  # only now it is looked at by others
        self._path = path.with_suffix(".journal")

    def close(self, *, keep: bool) -> None:
        """It has done its work; where something could not be cleaned up, it stays for the next start."""
        if self._handle >= 0 and not keep:
            with suppress(OSError):
                os.unlink(self._path)
        give_back(self._handle)


def _own_journals(folder: Path) -> list[Path]:
    """The journals in a folder that nobody else could have written to."""
    try:
        status = os.stat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        return sorted(path for path in folder.iterdir() if path.suffix == ".journal")
    except OSError:
        return []


@contextmanager
def _taken_over(path: Path) -> "Generator[list[_Entry | _Mark]]":
    """The lines of a journal whose writer is dead. Raises OSError where he lives. A line that was cut off was not written."""
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield [line for text in read_all(handle, _LARGEST_BACKUP).split(b"\n") if (line := _line(text)) is not None]
    finally:
        give_back(handle)


def _line(text: bytes) -> _Entry | _Mark | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=_Entry | _Mark)
    return None


def _put_back(folder: int, entry: _Entry) -> None:
    """The old file is under its name, or none where none was, and nothing beside it. It may be done again. Raises OSError."""
    now, old = _status(folder, entry.name), _status(folder, entry.old)
    is_ours = now is not None and entry.made is not None and Version.of(now) == entry.made
    if old is not None and (now is None or is_ours):
        os.rename(entry.old, entry.name, src_dir_fd=folder, dst_dir_fd=folder)
    elif is_ours and not entry.existed:
        os.unlink(entry.name, dir_fd=folder)
    _sweep(folder, entry)


def _sweep(folder: int, entry: _Entry) -> None:
    """Nothing is left beside the file. Raises OSError."""
    for name in (entry.new, entry.old):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


class _Step:
    """One change on its way: staged beside its file, then put in place by one rename. The old file is there until `finish`."""

    def __init__(self, change: Change, given: str, folder: int, name: str, made: _Made) -> None:
        self.change, self.given = change, given
        self.path = Path()
        self.folder, self.name, self._made = folder, name, made
        stem = f".{_cut(name)}.{secrets.token_hex(8)}"
        self._new, self.old, self._copy = f"{stem}.new", f"{stem}.old", f"{stem[1:]}.part"
        self._before: os.stat_result | None = None
        self._version: Version | None = None
        self._backup: Path | None = None
        self._is_staged = self._is_finished = False
        self._is_clean = True

    def entry(self) -> _Entry:
        """It as a line of the journal."""
        folder, *names = map(os.fsencode, (self.path.parent, self.name, self._new, self.old))
        return _Entry(folder, *names, existed=self._before is not None, copy=os.fsencode(self._copy), made=self._version)

    def stage(self, backups: Path | None, journal: _Journal) -> None:
        """Looks at the old file, keeps a copy of it, and writes the new one next to it."""
        self._before = self._look()
        self.check()
        journal.write([self.entry()])
        self._is_staged = True
        if self._before is not None and backups is not None:
            self._backup = backups / self._copy
            self._keep(self._backup, self._before)
            self._backup = self._backup.rename(self._backup.with_suffix(""))
        if self.change.data is not None:
            self._write_new(self.change.data, self._before)

    def _write_new(self, data: bytes, before: os.stat_result | None) -> None:
        """What is written never runs with the rights of another: a set-user-id bit is lost, as in an ordinary write."""
        mode = self.change.mode if self.change.mode is not None else stat.S_IMODE(before.st_mode) if before else 0o666
        handle = os.open(self._new, _CREATE, mode & 0o777, dir_fd=self.folder)
        try:
            write_all(handle, data)
            if before is not None:
                with suppress(OSError):  # somebody else's, who may be written for but not be
                    os.fchown(handle, before.st_uid, before.st_gid)
            if before is not None or self.change.mode is not None:
                os.fchmod(handle, mode & 0o777)
            os.fsync(handle)
            self._version = Version.of(os.fstat(handle))
        finally:
            os.close(handle)

    def _keep(self, kept: Path, before: os.stat_result) -> None:
        """A copy of the old file in the private folder for backups."""
        if before.st_size > _LARGEST_BACKUP:
            raise ToolError(f"{self.given!r} is too large to keep a copy of it: change it with a command", kind="limit")
        source = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            if Version.of(os.fstat(source)) != Version.of(before):
                raise self._disturbed()
            target = os.open(kept, _CREATE, 0o600)
            try:
                size = 0
                while size < before.st_size and (data := os.read(source, min(1 << 20, before.st_size - size))):
                    write_all(target, data)
                    size += len(data)
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            give_back(source)

    def _look(self) -> os.stat_result | None:
        found = _status(self.folder, self.name)
        if found is not None:
            _check_regular(found, self.given)
        return found

    def _disturbed(self) -> ToolError:
        return ToolError(f"{self.given!r} is being changed by somebody else: try again", kind="execution")

    def check(self) -> None:
        """Whether the file still is what it was when it was read. Raises ToolError, OSError."""
        now, seen = self._look(), self.change.seen
        if now is None:
            if self.change.data is None or isinstance(seen, Version):
                raise ToolError(f"there is no file {self.given!r}", kind="execution")
            if self._before is not None:
                raise self._disturbed()
            return
        if seen == "absent":
            raise ToolError(f"{self.given!r} exists already", kind="execution")
        if isinstance(seen, Version) and Version.of(now) != seen:
            raise ToolError(f"{self.given!r} has changed since it was read: read it again", kind="execution")
        if self._before is None or Version.of(now) != Version.of(self._before):
            raise self._disturbed()
        if self.change.data is not None and not _may_write(self.folder, self.name):
            raise ToolError(f"{self.given!r} may not be changed: it is read-only", kind="not_allowed")

    def carry_out(self) -> None:
        """Changes names, so that it can be taken back. Where no file was, none is replaced. Raises ToolError, OSError."""
        folder, is_new = self.folder, self.change.data is not None
        if self._before is not None:
            if not _linked(folder, self.name, self.old):
                os.rename(self.name, self.old, src_dir_fd=folder, dst_dir_fd=folder)
            elif not is_new:
                os.unlink(self.name, dir_fd=folder)
            if is_new:
                os.rename(self._new, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        elif not _linked(folder, self._new, self.name):
            self.check()
            os.rename(self._new, self.name, src_dir_fd=folder, dst_dir_fd=folder)

    def settle(self) -> None:
        """It is on disk, and what it replaced is what was looked at. Raises ToolError, OSError."""
        if self._before is not None:
            old = _status(self.folder, self.old)
            if old is None or Version.of(old) != Version.of(self._before):
                raise self._disturbed()
        for handle in (self.folder, *(above for above, _ in self._made)):
            try:
                os.fsync(handle)
            except OSError as e:
                if e.errno not in _NO_SYNC:
                    raise

    def take_back(self) -> bool:
        """The old file is back under its name; a new one is gone. Whether that could be done."""
        try:
            _put_back(self.folder, self.entry())
        except OSError:
            self._is_clean = False
        return self._is_clean

    def finish(self) -> Written:
        """It is done: from here on it is not taken back."""
        self._is_finished = True
        with suppress(OSError):
            _sweep(self.folder, self.entry())
        return Written(self.path, self._before is None, self._version, self._backup)

    def clean(self) -> bool:
        """Nothing is left beside the file; of a change that did not come about, no copy and no folder. Whether it is so.

        What could not be put back stays where it is.
        """
        if self._is_staged and self._is_clean:
            try:
                _sweep(self.folder, self.entry())
            except OSError:
                self._is_clean = False
        if self._is_finished or not self._is_clean:
            for handle, _ in self._made:
                give_back(handle)
        else:
            if self._backup is not None:
                with suppress(OSError):
                    os.unlink(self._backup)
            _unmake(self._made)
        give_back(self.folder)
        return self._is_clean


def _linked(folder: int, name: str, other: str) -> bool:
    """Gives a file another name too; False where that cannot be done here. Raises OSError."""
    try:
        os.link(name, other, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as e:
        if e.errno in _NO_LINKS:
            return False
        raise
    return True


def _status(folder: int, name: str | bytes) -> os.stat_result | None:
    """What is under a name; None: nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_link(folder: int, name: str) -> bool:
    with suppress(OSError):
        return (found := _status(folder, name)) is not None and stat.S_ISLNK(found.st_mode)
    return False


def _check_regular(status: os.stat_result, given: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ToolError(f"{given!r} is {what}", kind="execution")


def _may_write(folder: int, name: str) -> bool:
    return os.access(name, os.W_OK, dir_fd=folder, effective_ids=os.access in os.supports_effective_ids)


def _make_folder(above: int, name: str, made: _Made) -> None:
    """A folder, unless somebody else has made it just now."""
    handle = os.dup(above)
    try:
        os.mkdir(name, 0o777, dir_fd=above)
    except BaseException as e:
        give_back(handle)
        if not isinstance(e, FileExistsError):
            raise
    else:
        made.append((handle, name))


def _unmake(made: _Made) -> None:
    """Folders that were made for nothing."""
    for handle, name in reversed(made):
        with suppress(OSError):
            os.rmdir(name, dir_fd=handle)
        give_back(handle)


def _cut(name: str) -> str:
    """The start of a name, short enough for more to follow it."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")


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
    with suppress(OSError):
        return _without_note(os.readlink(f"/proc/self/fd/{handle}"))
    try:
        import fcntl

        found = fcntl.fcntl(handle, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024)  # macOS
        return os.fsdecode(found.rstrip(b"\0"))
    except (OSError, ValueError, ImportError):
        return ""


def _without_note(path: str) -> str:
    """Linux notes behind a path that its file is gone; a file may also be called so."""
    return path if not path.endswith(_GONE) or os.path.lexists(path) else path.removesuffix(_GONE)


def _plain_name(name: str) -> str:
    """A name as the most careless file system reads it: any case, any composition, trailing dots, streams."""
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    return "".join(one for one in plain if unicodedata.category(one) != "Cf").partition(":")[0].rstrip(". ")


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
