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
import stat
import threading
import unicodedata
import weakref
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from toolglot.builtin.beneath import PATH_ONLY, give_back, open_beneath
from toolglot.builtin.handles import check_regular, explained, failure, read_all, status_in, write_all
from toolglot.builtin.journal import Entry, Journal, Mark, Version, own_journals, put_back, sweep, taken_over
from toolglot.builtin.staging import Change, Made, Step, Written, carried_out, make_folder, unmake
from toolglot.errors import ToolError, UsageError

__all__ = ["PROTECTED", "Change", "Opened", "Place", "Root", "Version", "Workspace", "Written", "read_all", "write_all"]

# What programs obey when they start next: names of files and folders, anywhere in a root.
PROTECTED = frozenset(
    {
        *(".git", ".hg", ".svn", ".husky", ".githooks", ".mcp.json", "toolglot.toml", ".toolglot"),
        *(".vscode", ".idea", ".cursor", ".claude", ".gemini", ".codex", ".qwen", ".windsurf", ".devcontainer", ".envrc"),
        *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".ssh", ".gnupg"),
    }
)
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
_GONE = " (deleted)"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class Root(msgspec.Struct, frozen=True):
    """A folder that may be read, and written to where it is writable."""

    path: Path
    writable: bool = True


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


class _Held:
    """A root that is held open: what it was when it was opened is what it stays, whatever happens to its name."""

    def __init__(self, root: Root) -> None:
        try:
            self.given = os.path.abspath(root.path)
        except FileNotFoundError:
            raise UsageError("the current folder is not there any more: change to another one") from None
        try:
            self.handle = os.open(root.path, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: {e.strerror}") from None
        self._let_go = weakref.finalize(self, give_back, self.handle)  # also where nobody closes it
        self.writable = root.writable
        self._opened_at = _path_of(self.handle)
        if not self._opened_at:
            self.close()
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: mount /proc, which tells where a file is")

    @property
    def real(self) -> str:
        """Where it is now: somebody may have renamed it."""
        return _path_of(self.handle) or self._opened_at

    def close(self) -> None:
        self.handle = -1
        self._let_go()

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

    @property
    def protected(self) -> frozenset[str]:
        """Names that are not changed, as the most careless file system reads them."""
        return self._protected

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
                check_regular(os.fstat(named), path)
            finally:
                give_back(named)
            handle = self._open(place, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as e:
            raise failure(e, place.given) from None
        try:
            opened = self._seen(handle, place, handle)
            check_regular(opened.status, path)
            yield opened
        finally:
            give_back(handle)

    @contextmanager
    def listing(self, path: str) -> Generator[Opened]:
        """A folder, open for listing (`os.scandir(opened.handle)`). Raises ToolError."""
        place = self.place(path)
        with explained(place.given):
            handle = self._open(place, _FOLDER)
        try:
            yield self._seen(handle, place, handle)
        finally:
            give_back(handle)

    def _seen(self, handle: int, place: Place, shown: int) -> Opened:
        try:
            _, below, whole = self._whereabouts(handle, place)
            return Opened(shown, os.fstat(handle), below, whole)
        except OSError as e:
            raise failure(e, place.given) from None

    def look(self, path: str) -> Opened | None:
        """What is at a path, without a descriptor of it; None where nothing is. Raises ToolError."""
        place = self.place(path)
        try:
            handle = self._open(place, PATH_ONLY)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise failure(e, place.given) from None
        try:
            return self._seen(handle, place, -1)
        finally:
            give_back(handle)

    def read(self, path: str, most: int) -> tuple[bytes, Opened]:
        """The bytes of a file, at most so many and one more. Raises ToolError."""
        with self.reading(path) as opened, explained(path):
            return read_all(opened.handle, most + 1), opened

    # ---- changing

    def write(self, path: str, data: bytes, *, seen: "Version | str | None" = None, mode: int | None = None) -> Written:
        """Replaces or makes a file, whole or not at all; folders on the way are made. Raises ToolError."""
        return self.change([Change(path, data, seen, mode)])[0]

    def remove(self, path: str, *, seen: Version | None = None) -> Written:
        """Removes a file. Raises ToolError."""
        return self.change([Change(path, None, seen)])[0]

    def change(self, changes: Iterable[Change]) -> list[Written]:
        """All of the changes, or none of them. Raises ToolError; then every file is as it was."""
        with self._lock:
            steps: list[Step] = []
            journal = Journal(self._backups)
            try:
                for change in changes:
                    self._prepare(change, steps, journal)
                for step in steps:
                    with explained(step.given):
                        step.check()
                return carried_out(steps, journal)
            finally:
                left = [step for step in reversed(steps) if not step.clean()]
                journal.close(keep=bool(left))

    def _prepare(self, change: Change, steps: list[Step], journal: Journal) -> None:
        """One more step, staged."""
        place = self.place(change.path)
        with explained(place.given):
            step = Step(change, place.given, *self._parent(place, make=change.data is not None))
            steps.append(step)
            step.path = self._changeable(step.folder, place, [step.name]) / step.name
            if any(one.path == step.path for one in steps[:-1]):
                raise ToolError(f"{place.given!r} is to be changed twice at once", kind="validation")
            step.stage(self._backups, journal)

    def _parent(self, place: Place, *, make: bool) -> tuple[int, str, Made]:
        """The folder of a file, its name there, and folders that had to be made. A link at the end is followed."""
        above, _, name = place.relative.rpartition("/")
        if name in ("", ".", ".."):
            raise ToolError(f"{place.given!r} is not the path of a file", kind="validation")
        try:
            folder = self._open(Place(place.given, place.root, above), _FOLDER)
        except OSError as e:
            if e.errno != errno.ENOENT or not make:
                raise
            made: Made = []
            return self._made_folders(place, above, made), name, made
        if not _is_link(folder, name):
            return folder, name, []
        give_back(folder)
        return self._behind_link(place)

    def _behind_link(self, place: Place) -> tuple[int, str, Made]:
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

    def _made_folders(self, place: Place, path: str, made: Made) -> int:
        """Makes the folders of a path that are missing, one below the other, each by the handle of the one above."""
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            raise ToolError(f"{place.given!r}: folders are not made along '..'", kind="validation")
        handle, there = self._deepest(place, names)
        try:
            self._changeable(handle, place, names[there:])
            for name in names[there:]:
                make_folder(handle, name, made)
                lower = os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                give_back(handle)
                handle = lower
        except BaseException:
            give_back(handle)
            unmake(made)
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
        """What was under way when another process was killed is taken back; what it left beside the files is removed."""
        for path in own_journals(backups):
            with suppress(OSError, ToolError), taken_over(path) as lines, ExitStack() as handles:
                files = {line.old: line for line in lines if isinstance(line, Entry)}.values()
                folders = [self._folder_of(file, handles) for file in files]
                is_done = lines[-1:] == [Mark(True)]
                for file, folder in zip(files, folders, strict=True):
                    if folder is not None:
                        sweep(folder, file) if is_done else put_back(folder, file)
                    with suppress(FileNotFoundError):
                        os.unlink(backups / os.fsdecode(file.copy))
                os.unlink(path)

    def _folder_of(self, file: Entry, handles: ExitStack) -> int | None:
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


def _is_link(folder: int, name: str) -> bool:
    with suppress(OSError):
        return (found := status_in(folder, name)) is not None and stat.S_ISLNK(found.st_mode)
    return False
