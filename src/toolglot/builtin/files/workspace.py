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

from toolglot.builtin.files.change_log import (
    ChangeLog,
    FileVersion,
    LogEntry,
    OutcomeMark,
    list_change_logs,
    open_abandoned_log,
    remove_leftovers,
    restore_file,
)
from toolglot.builtin.files.confined_open import PATH_ONLY, close_quietly, open_beneath
from toolglot.builtin.files.descriptors import check_regular_file, read_all, stat_at, tool_error, translate_os_errors, write_all
from toolglot.builtin.files.staging import (
    Change,
    ChangeResult,
    CreatedDirectories,
    StagedChange,
    commit_changes,
    create_directory,
    remove_created,
)
from toolglot.errors import ToolError, UsageError

__all__ = [
    "PROTECTED_NAMES",
    "Change",
    "ChangeResult",
    "FileVersion",
    "Location",
    "Root",
    "Workspace",
    "WorkspaceEntry",
    "read_all",
    "write_all",
]

# What programs obey when they start next: names of files and folders, anywhere in a root.
PROTECTED_NAMES = frozenset(
    {
        *(".git", ".hg", ".svn", ".husky", ".githooks", ".mcp.json", "toolglot.toml", ".toolglot"),
        *(".vscode", ".idea", ".cursor", ".claude", ".gemini", ".codex", ".qwen", ".windsurf", ".devcontainer", ".envrc"),
        *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".ssh", ".gnupg"),
    }
)
_MAX_PATH_BYTES, _MAX_NAME_BYTES = 4096, 255
_DELETED_SUFFIX = " (deleted)"
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY


class Root(msgspec.Struct, frozen=True):
    """A folder that may be read, and written to where it is writable."""

    path: Path
    writable: bool = True


class Location(msgspec.Struct, frozen=True):
    """A path as it was given, and what it means: a root, and a path below it."""

    raw_path: str
    root: "_HeldRoot"
    relative: str


class WorkspaceEntry(msgspec.Struct, frozen=True):
    """A descriptor, and what it is: its status, and its real path below the root that it is in."""

    fd: int
    status: os.stat_result
    relative_path: str
    """Below its root, links resolved."""
    absolute_path: str

    @property
    def path(self) -> Path:
        """The whole real path: for people, for the audit log."""
        return Path(self.absolute_path)

    @property
    def version(self) -> FileVersion:
        return FileVersion.from_status(self.status)


class _HeldRoot:
    """A root that is held open: what it was when it was opened is what it stays, whatever happens to its name."""

    def __init__(self, root: Root) -> None:
        try:
            self.configured_path = os.path.abspath(root.path)
        except FileNotFoundError:
            raise UsageError("the current folder is not there any more: change to another one") from None
        try:
            self.fd = os.open(root.path, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: {e.strerror}") from None
        self._finalizer = weakref.finalize(self, close_quietly, self.fd)  # also where nobody closes it
        self.writable = root.writable
        self._original_path = _fd_path(self.fd)
        if not self._original_path:
            self.close()
            raise UsageError(f"the folder {str(root.path)!r} cannot be a workspace: mount /proc, which tells where a file is")

    @property
    def real_path(self) -> str:
        """Where it is now: somebody may have renamed it."""
        return _fd_path(self.fd) or self._original_path

    def close(self) -> None:
        self.fd = -1
        self._finalizer()

    def relative_path(self, path: str) -> str | None:
        """An absolute path as one below this root, compared name by name; None where it is not."""
        for prefix in dict.fromkeys((self.real_path, self.configured_path)):
            if (found := _relative_to(path, prefix)) is not None:
                return found
        return None


def _relative_to(path: str, directory: str) -> str | None:
    parts, above = ([name for name in one.split("/") if name not in ("", ".")] for one in (path, directory))
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
        other_roots: Iterable[Root] = (),
        writable: bool = True,
        protected_names: Iterable[str] = PROTECTED_NAMES,
        backup_dir: Path | None = None,
    ) -> None:
        if os.name != "posix":
            raise UsageError("the built-in file tools need Linux or macOS: elsewhere a folder cannot be held open safely")
        self._roots: list[_HeldRoot] = []
        try:
            for one in (Root(Path(root), writable), *other_roots):
                self._roots.append(_HeldRoot(one))
        except UsageError:
            self.close()
            raise
        self._protected_names = frozenset(_fold_name(name) for name in protected_names) - {""}
        self._short_names = frozenset(name.lstrip(".").partition(".")[0][:6] for name in self._protected_names)
        self._backup_dir = backup_dir
        self._lock = threading.Lock()
        if backup_dir is not None:
            self._recover_changes(backup_dir)

    @property
    def root(self) -> Path:
        """The folder that relative paths are of."""
        return Path(self._roots[0].real_path)

    @property
    def roots(self) -> tuple[Root, ...]:
        """All of them, by their real paths."""
        return tuple(Root(Path(held.real_path), held.writable) for held in self._roots)

    @property
    def protected_names(self) -> frozenset[str]:
        """Names that are not changed, as the most careless file system reads them."""
        return self._protected_names

    def close(self) -> None:
        """Gives the handles back."""
        for held in self._roots:
            held.close()

    # ---- where

    def locate(self, path: str) -> Location:
        """What a path means. Nothing is looked at yet. Raises ToolError."""
        if not path or "\0" in path:
            raise ToolError(f"{path[:80]!r} is not a path", kind="validation")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"{path[:80]!r} is not a path: it holds half a character", kind="validation") from None
        if size > _MAX_NAME_BYTES and (
            size >= _MAX_PATH_BYTES or any(len(os.fsencode(name)) > _MAX_NAME_BYTES for name in path.split("/"))
        ):
            raise ToolError(f"the path {path[:80]!r}… is too long", kind="validation")
        if not path.startswith("/"):
            return Location(path, self._roots[0], path)
        for held in self._roots:
            if (relative := held.relative_path(path)) is not None:
                return Location(path, held, relative)
        raise self._outside_error(path)

    def _outside_error(self, path: str) -> ToolError:
        return ToolError(f"{path!r} is outside of the workspace {str(self.root)!r}", kind="not_allowed")

    def _open_location(self, location: Location, flags: int) -> int:
        """A descriptor. A link with an absolute path that leads back into a root is followed too. Raises ToolError, OSError."""
        held, relative = location.root, location.relative
        try:
            return open_beneath(held.fd, relative, flags)
        except OSError as e:
            if e.errno != errno.EXDEV:
                raise
        again = os.path.realpath(os.path.join(held.real_path, relative))
        for other in self._roots:
            if (inside := _relative_to(again, other.real_path)) is not None:
                try:
                    return open_beneath(other.fd, inside, flags)
                except OSError as e:
                    if e.errno != errno.EXDEV:
                        raise
        raise self._outside_error(location.raw_path)

    def _find_real_path(self, fd: int, location: Location) -> tuple[_HeldRoot, str, str]:
        """Where a descriptor really is: its root (the nearest above, where one is in another), the path below it, and whole."""
        path, nearest, below = _fd_path(fd), None, ""
        for held in self._roots:
            real = held.real_path
            inside = path[len(real) + (real != "/") :] if path == real or path.startswith(real.rstrip("/") + "/") else None
            if path and inside is not None and (nearest is None or len(inside) < len(below)):
                nearest, below = held, inside
        if nearest is None:
            raise self._outside_error(location.raw_path)
        return nearest, below, path

    # ---- looking

    @contextmanager
    def open_file(self, path: str) -> Generator[WorkspaceEntry]:
        """A regular file, open for reading. Raises ToolError."""
        place = self.locate(path)
        try:
            named = self._open_location(place, PATH_ONLY)  # opening a device or a pipe for reading would already be felt
            try:
                check_regular_file(os.fstat(named), path)
            finally:
                close_quietly(named)
            handle = self._open_location(place, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as e:
            raise tool_error(e, place.raw_path) from None
        try:
            opened = self._build_entry(handle, place, handle)
            check_regular_file(opened.status, path)
            yield opened
        finally:
            close_quietly(handle)

    @contextmanager
    def open_directory(self, path: str) -> Generator[WorkspaceEntry]:
        """A folder, open for listing (`os.scandir(opened.handle)`). Raises ToolError."""
        place = self.locate(path)
        with translate_os_errors(place.raw_path):
            handle = self._open_location(place, _DIRECTORY_FLAGS)
        try:
            yield self._build_entry(handle, place, handle)
        finally:
            close_quietly(handle)

    def _build_entry(self, fd: int, location: Location, exposed_fd: int) -> WorkspaceEntry:
        try:
            _, below, whole = self._find_real_path(fd, location)
            return WorkspaceEntry(exposed_fd, os.fstat(fd), below, whole)
        except OSError as e:
            raise tool_error(e, location.raw_path) from None

    def inspect(self, path: str) -> WorkspaceEntry | None:
        """What is at a path, without a descriptor of it; None where nothing is. Raises ToolError."""
        place = self.locate(path)
        try:
            handle = self._open_location(place, PATH_ONLY)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise tool_error(e, place.raw_path) from None
        try:
            return self._build_entry(handle, place, -1)
        finally:
            close_quietly(handle)

    def read(self, path: str, limit: int) -> tuple[bytes, WorkspaceEntry]:
        """The bytes of a file, at most so many and one more. Raises ToolError."""
        with self.open_file(path) as opened, translate_os_errors(path):
            return read_all(opened.fd, limit + 1), opened

    # ---- changing

    def write(
        self, path: str, data: bytes, *, expected: "FileVersion | str | None" = None, mode: int | None = None
    ) -> ChangeResult:
        """Replaces or makes a file, whole or not at all; folders on the way are made. Raises ToolError."""
        return self.apply_changes([Change(path, data, expected, mode)])[0]

    def remove(self, path: str, *, expected: FileVersion | None = None) -> ChangeResult:
        """Removes a file. Raises ToolError."""
        return self.apply_changes([Change(path, None, expected)])[0]

    def apply_changes(self, changes: Iterable[Change]) -> list[ChangeResult]:
        """All of the changes, or none of them. Raises ToolError; then every file is as it was."""
        with self._lock:
            steps: list[StagedChange] = []
            journal = ChangeLog(self._backup_dir)
            try:
                for change in changes:
                    self._stage_change(change, steps, journal)
                for step in steps:
                    with translate_os_errors(step.raw_path):
                        step.check_expected()
                return commit_changes(steps, journal)
            finally:
                left = [step for step in reversed(steps) if not step.clean_up()]
                journal.close(keep=bool(left))

    def _stage_change(self, change: Change, steps: list[StagedChange], change_log: ChangeLog) -> None:
        """One more step, staged."""
        place = self.locate(change.path)
        with translate_os_errors(place.raw_path):
            step = StagedChange(change, place.raw_path, *self._open_parent(place, create=change.data is not None))
            steps.append(step)
            step.path = self._check_changeable(step.dir_fd, place, [step.name]) / step.name
            if any(one.path == step.path for one in steps[:-1]):
                raise ToolError(f"{place.raw_path!r} is to be changed twice at once", kind="validation")
            step.stage(self._backup_dir, change_log)

    def _open_parent(self, location: Location, *, create: bool) -> tuple[int, str, CreatedDirectories]:
        """The folder of a file, its name there, and folders that had to be made. A link at the end is followed."""
        above, _, name = location.relative.rpartition("/")
        if name in ("", ".", ".."):
            raise ToolError(f"{location.raw_path!r} is not the path of a file", kind="validation")
        try:
            folder = self._open_location(Location(location.raw_path, location.root, above), _DIRECTORY_FLAGS)
        except OSError as e:
            if e.errno != errno.ENOENT or not create:
                raise
            made: CreatedDirectories = []
            return self._create_directories(location, above, made), name, made
        if not _is_link(folder, name):
            return folder, name, []
        close_quietly(folder)
        return self._open_link_target(location)

    def _open_link_target(self, location: Location) -> tuple[int, str, CreatedDirectories]:
        """The folder and name of the file that a link leads to; one that leads to nothing is refused."""
        try:
            handle = self._open_location(location, PATH_ONLY)
        except OSError as e:
            if e.errno == errno.ENOENT:
                raise ToolError(f"{location.raw_path!r} is a link to a file that does not exist", kind="not_allowed") from None
            raise
        try:
            held, below, _ = self._find_real_path(handle, location)
        finally:
            close_quietly(handle)
        above, _, name = below.rpartition("/")
        return self._open_location(Location(location.raw_path, held, above), _DIRECTORY_FLAGS), name or ".", []

    def _create_directories(self, location: Location, path: str, created: CreatedDirectories) -> int:
        """Makes the folders of a path that are missing, one below the other, each by the handle of the one above."""
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            raise ToolError(f"{location.raw_path!r}: folders are not made along '..'", kind="validation")
        handle, there = self._open_deepest(location, names)
        try:
            self._check_changeable(handle, location, names[there:])
            for name in names[there:]:
                create_directory(handle, name, created)
                lower = os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                close_quietly(handle)
                handle = lower
        except BaseException:
            close_quietly(handle)
            remove_created(created)
            raise
        return handle

    def _open_deepest(self, location: Location, names: list[str]) -> tuple[int, int]:
        """A handle of the last folder of these that exists, and how many of them do."""
        for count in range(len(names) - 1, 0, -1):
            with suppress(FileNotFoundError):
                return self._open_location(
                    Location(location.raw_path, location.root, "/".join(names[:count])), _DIRECTORY_FLAGS
                ), count
        return self._open_location(Location(location.raw_path, location.root, ""), _DIRECTORY_FLAGS), 0

    def _check_changeable(self, dir_fd: int, location: Location, names: list[str]) -> Path:
        """The real path of a folder in which these names, each in the one before, may be made or changed. Raises ToolError."""
        held, below, path = self._find_real_path(dir_fd, location)
        whole = Path(path)
        if not held.writable:
            raise ToolError(f"{location.raw_path!r} is in a folder that may only be read", kind="not_allowed")
        for name in (*below.split("/"), *names):
            if self._is_protected(name):
                raise ToolError(f"{location.raw_path!r} may not be changed: {name!r} is protected", kind="not_allowed")
        if self._backup_dir is not None and whole.joinpath(*names).is_relative_to(os.path.realpath(self._backup_dir)):
            raise ToolError(f"{location.raw_path!r} may not be changed: backups are kept there", kind="not_allowed")
        return whole

    def _is_protected(self, name: str) -> bool:
        plain = _fold_name(name)
        short, _, number = plain.partition("~")  # as old file systems say it: git~1
        return plain in self._protected_names or (number[:1].isdigit() and short in self._short_names)

    # ---- after a crash

    def _recover_changes(self, backup_dir: Path) -> None:
        """What was under way when another process was killed is taken back; what it left beside the files is removed."""
        for path in list_change_logs(backup_dir):
            with suppress(OSError, ToolError), open_abandoned_log(path) as lines, ExitStack() as handles:
                files = {line.old: line for line in lines if isinstance(line, LogEntry)}.values()
                folders = [self._open_logged_directory(file, handles) for file in files]
                is_done = lines[-1:] == [OutcomeMark(True)]
                for file, folder in zip(files, folders, strict=True):
                    if folder is not None:
                        remove_leftovers(folder, file) if is_done else restore_file(folder, file)
                    with suppress(FileNotFoundError):
                        os.unlink(backup_dir / os.fsdecode(file.copy))
                os.unlink(path)

    def _open_logged_directory(self, entry: LogEntry, stack: ExitStack) -> int | None:
        """A handle of the folder that a journal names; None: it is gone. Raises ToolError where it may not be changed."""
        place = self.locate(os.fsdecode(entry.folder))
        if b"/" in b"".join((entry.name, entry.new, entry.old, entry.copy)):
            raise self._outside_error(place.raw_path)
        try:
            folder = self._open_location(place, _DIRECTORY_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        stack.callback(close_quietly, folder)
        self._check_changeable(folder, place, [os.fsdecode(entry.name)])
        return folder


def _fd_path(fd: int) -> str:
    """The real path of a descriptor, as the kernel knows it; "" where it does not say."""
    with suppress(OSError):
        return _strip_deleted_suffix(os.readlink(f"/proc/self/fd/{fd}"))
    try:
        import fcntl

        found = fcntl.fcntl(fd, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024)  # macOS
        return os.fsdecode(found.rstrip(b"\0"))
    except (OSError, ValueError, ImportError):
        return ""


def _strip_deleted_suffix(path: str) -> str:
    """Linux notes behind a path that its file is gone; a file may also be called so."""
    return path if not path.endswith(_DELETED_SUFFIX) or os.path.lexists(path) else path.removesuffix(_DELETED_SUFFIX)


def _fold_name(name: str) -> str:
    """A name as the most careless file system reads it: any case, any composition, trailing dots, streams."""
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    return "".join(one for one in plain if unicodedata.category(one) != "Cf").partition(":")[0].rstrip(". ")


def _is_link(dir_fd: int, name: str) -> bool:
    with suppress(OSError):
        return (found := stat_at(dir_fd, name)) is not None and stat.S_ISLNK(found.st_mode)
    return False
