"""The directories that tools work in.

Every operation turns (root, path) into a descriptor and checks what was opened.

Invariants: nothing outside the roots is opened, created, changed or removed, whatever a path says and whoever
swaps directories meanwhile. A file is replaced whole or not at all. Names that control how some program
starts next (protected names) are not changed. A file that has changed since it was read is not overwritten.
After a check only descriptors are used.

When the process is killed, each file is the old one or the new one, whole. Several files that change together
are all old or all new only with a backup directory: a change log there records what was in progress, and the
next workspace undoes it and removes the temporary files. Without one, some files may be new, and
`.NAME.HEX.new` and `.old` may be left behind.
"""

import errno
import os
import posixpath
import stat
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from toolglot.builtin.files.closed_paths import find_closed_paths, fold_name
from toolglot.builtin.files.descriptors import (
    check_regular_file,
    read_all,
    stat_at,
    tool_error,
    translate_os_errors,
)
from toolglot.builtin.files.staging import (
    Change,
    ChangeLog,
    ChangeResult,
    CreatedDirectories,
    FileVersion,
    LogEntry,
    StagedChange,
    commit_changes,
    create_directory,
    recover_changes,
    remove_created,
)
from toolglot.confine.confined_open import NOT_SUPPORTED, PATH_ONLY, close_quietly, combine_flags
from toolglot.confine.roots import Location, Root, RootSet
from toolglot.errors import ToolError, UsageError

__all__ = ["PROTECTED_NAMES", "Change", "ChangeResult", "FileVersion", "Root", "Workspace", "WorkspaceEntry"]

# Files and directories that programs obey when they start next, anywhere in a root.
PROTECTED_NAMES = frozenset(
    {
        *(
            ".git",
            ".hg",
            ".svn",
            ".jj",
            ".gitconfig",
            ".husky",
            ".githooks",
            ".pre-commit-config.yaml",
            ".mcp.json",
        ),
        *(
            "toolglot.toml",
            ".toolglot",
            ".vscode",
            ".idea",
            ".zed",
            ".cursor",
            ".windsurf",
            ".devcontainer",
            ".envrc",
        ),
        *(
            ".agents",
            ".claude",
            ".gemini",
            ".codex",
            ".qwen",
            ".kimi",
            ".opencode",
            ".ssh",
            ".gnupg",
            ".profile",
            ".bashrc",
        ),
        *(
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
        ),
    }
)
_DIRECTORY_FLAGS = combine_flags("O_RDONLY", "O_DIRECTORY")


class WorkspaceEntry(msgspec.Struct, frozen=True):
    """A file or directory in the workspace: its descriptor (-1 without one), status and real path."""

    fd: int
    status: os.stat_result
    relative_path: str
    """Below its root, links resolved."""
    absolute_path: str

    @property
    def path(self) -> Path:
        """The real absolute path."""
        return Path(self.absolute_path)

    @property
    def version(self) -> FileVersion:
        return FileVersion.from_status(self.status)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


class Workspace(RootSet):
    """A main root that relative paths refer to, and others beside it. Thread-safe.

    `alias`: an absolute path by which the model knows the main root. `protected_names`: names that are never
    changed, except `unprotected` ones. `backup_dir`: a private directory that keeps a copy of everything that
    is overwritten or removed, in a directory `backup_name` if there is one. `private`: other directories of
    ours, which are never changed.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        other_roots: Iterable[Root] = (),
        writable: bool = True,
        alias: str = "",
        protected_names: Iterable[str] = PROTECTED_NAMES,
        unprotected: Iterable[str] = (),
        backup_dir: Path | None = None,
        backup_name: str = "",
        private: Iterable[Path] = (),
    ) -> None:
        if NOT_SUPPORTED:
            raise UsageError(NOT_SUPPORTED)
        super().__init__((Root(Path(root), writable, alias), *other_roots))
        unprotected = frozenset(map(fold_name, unprotected))
        self.protected_names = frozenset(map(fold_name, protected_names)) - unprotected - {""}
        """Names that are not changed, folded as the most lenient file system compares them."""
        self._short_names = frozenset(name.lstrip(".").partition(".")[0][:6] for name in self.protected_names)
        self._backup_dir = backup_dir / backup_name if backup_dir is not None else None
        if backup_dir is not None:
            private = (*private, backup_dir)
        self.closed_paths = find_closed_paths((root.path for root in self.roots), private, unprotected)
        """What is not the model's in the roots."""
        self._lock = threading.Lock()
        if backup_dir is not None:
            recover_changes(backup_dir, self._open_logged_directory)

    @property
    def root(self) -> Path:
        """The directory that relative paths refer to."""
        return Path(self.held[0].real_path)

    @property
    def roots(self) -> tuple[Root, ...]:
        """All roots by their real paths."""
        return tuple(Root(Path(held.real_path), held.writable) for held in self.held)

    # ---- reading

    @contextmanager
    def open_file(self, path: str) -> Generator[WorkspaceEntry]:
        """Open a regular file for reading. Raises ToolError."""
        location = self.locate(path)
        with translate_os_errors(location.raw_path):
            # Checked by a descriptor that only names it: opening a device or a pipe for reading already has
            # effects.
            path_fd = self.open(location, PATH_ONLY)
            try:
                check_regular_file(os.fstat(path_fd), path)
            finally:
                close_quietly(path_fd)
            fd = self.open(location, os.O_RDONLY | os.O_NONBLOCK)
        try:
            entry = self._build_entry(fd, location, fd)
            check_regular_file(entry.status, path)
            yield entry
        finally:
            close_quietly(fd)

    @contextmanager
    def open_directory(self, path: str) -> Generator[WorkspaceEntry]:
        """Open a directory for listing (`os.scandir(entry.fd)`). Raises ToolError."""
        location = self.locate(path)
        with translate_os_errors(location.raw_path):
            fd = self.open(location, _DIRECTORY_FLAGS)
        try:
            yield self._build_entry(fd, location, fd)
        finally:
            close_quietly(fd)

    def inspect(self, path: str) -> WorkspaceEntry | None:
        """Return what is at a path, without a descriptor; None if nothing is there. Raises ToolError."""
        location = self.locate(path)
        try:
            fd = self.open(location, PATH_ONLY)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise tool_error(e, location.raw_path) from None
        try:
            return self._build_entry(fd, location, -1)
        finally:
            close_quietly(fd)

    def resolve(self, path: str) -> Path:
        """Return the real path of what is at a path, or of what would be created there. Raises ToolError."""
        missing: list[str] = []
        parent = path
        while (entry := self.inspect(parent)) is None:
            parent, name = posixpath.split(parent.rstrip("/"))
            if name == "..":
                message = f"{path!r}: missing directories are not created along '..'"
                raise ToolError(message, kind="validation", code="invalid_path")
            missing.insert(0, name)
            parent = parent or "."
        return entry.path.joinpath(*missing)

    def _build_entry(self, fd: int, location: Location, exposed_fd: int) -> WorkspaceEntry:
        with translate_os_errors(location.raw_path):
            _, relative, absolute = self.find_real_path(fd, location)
            if reason := self.closed_paths.find_reason(absolute, reading=True):
                message = f"{location.raw_path!r} may not be read: {reason}"
                raise ToolError(message, kind="not_allowed", code="path_not_allowed")
            return WorkspaceEntry(exposed_fd, os.fstat(fd), relative, absolute)

    def read(self, path: str, limit: int) -> tuple[bytes, WorkspaceEntry]:
        """Return the content of a file, at most `limit + 1` bytes, so that the caller sees whether there is
        more.
        """
        with self.open_file(path) as entry, translate_os_errors(path):
            return read_all(entry.fd, limit + 1), entry

    # ---- changing

    def write(
        self, path: str, data: bytes, *, expected: "FileVersion | str | None" = None, mode: int | None = None
    ) -> ChangeResult:
        """Create or replace a file, whole or not at all, with its missing parent directories.

        Raises ToolError.
        """
        return self.apply_changes([Change(path, data, expected, mode)])[0]

    def remove(self, path: str, *, expected: FileVersion | None = None) -> ChangeResult:
        """Remove a file. Raises ToolError."""
        return self.apply_changes([Change(path, None, expected)])[0]

    def apply_changes(self, changes: Iterable[Change]) -> list[ChangeResult]:
        """Make all of the changes, or none of them. Raises ToolError; then every file is as it was."""
        with self._lock:
            steps: list[StagedChange] = []
            change_log = ChangeLog(self._backup_dir)
            try:
                for change in changes:
                    location = self.locate(change.path)
                    raw_path = location.raw_path
                    with translate_os_errors(raw_path):
                        step = StagedChange(
                            change, raw_path, *self._open_parent(location, create=change.data is not None)
                        )
                        steps.append(step)
                        step.path = self._check_changeable(step.dir_fd, location, [step.name]) / step.name
                        if any(other.path == step.path for other in steps[:-1]):
                            message = f"{raw_path!r} would be changed twice at once"
                            raise ToolError(message, kind="validation", code="concurrent_change")
                        step.stage(self._backup_dir, change_log)
                for step in steps:
                    with translate_os_errors(step.raw_path):
                        step.check_expected()
                with translate_os_errors(steps[0].raw_path if steps else ""):
                    return commit_changes(steps, change_log)
            finally:
                dirty = [step for step in reversed(steps) if not step.clean_up()]
                change_log.close(keep=bool(dirty))

    def _open_parent(self, location: Location, *, create: bool) -> tuple[int, str, CreatedDirectories]:
        """Open the directory of a file, following a link at the end; return its name there and the
        directories created.
        """
        parent, _, name = location.relative.rpartition("/")
        if name in ("", ".", ".."):
            raise ToolError(
                f"{location.raw_path!r} is not the path of a file", kind="validation", code="is_directory"
            )
        try:
            dir_fd = self.open(replace(location, relative=parent), _DIRECTORY_FLAGS)
        except OSError as e:
            if e.errno != errno.ENOENT or not create:
                raise
            created: CreatedDirectories = []
            return self._create_directories(location, parent, created), name, created
        is_link = False
        with suppress(OSError):  # staging reports what is wrong with the entry
            is_link = (status := stat_at(dir_fd, name)) is not None and stat.S_ISLNK(status.st_mode)
        if not is_link:
            return dir_fd, name, []
        close_quietly(dir_fd)
        try:
            fd = self.open(location, PATH_ONLY)
        except FileNotFoundError:
            message = f"{location.raw_path!r} is a link to a file that does not exist"
            raise ToolError(message, kind="not_allowed", code="path_not_allowed") from None
        try:
            root, relative, _ = self.find_real_path(fd, location)
        finally:
            close_quietly(fd)
        parent, _, name = relative.rpartition("/")
        return self.open(Location(location.raw_path, root, parent), _DIRECTORY_FLAGS), name or ".", []

    def _create_directories(self, location: Location, path: str, created: CreatedDirectories) -> int:
        """Create the missing directories of a path, each through the descriptor of its parent; return the
        last one.
        """
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            message = f"{location.raw_path!r}: missing directories are not created along '..'"
            raise ToolError(message, kind="validation", code="invalid_path")
        for existing in range(len(names) - 1, -1, -1):
            with suppress(FileNotFoundError):
                fd = self.open(replace(location, relative="/".join(names[:existing])), _DIRECTORY_FLAGS)
                break
        else:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location.raw_path)
        try:
            self._check_changeable(fd, location, names[existing:])
            for name in names[existing:]:
                create_directory(fd, name, created)
                child = os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                close_quietly(fd)
                fd = child
        except BaseException:
            close_quietly(fd)
            remove_created(created)
            raise
        return fd

    def check_changeable(self, path: str) -> None:
        """Check that the rules let the file at a path be changed or created. Raises ToolError if not."""
        directory = self.resolve(path)
        names = [directory.name]
        while self.inspect(str(directory := directory.parent)) is None:
            names.insert(0, directory.name)
        with self.open_directory(str(directory)) as entry:
            self._check_changeable(entry.fd, self.locate(path), names)

    def _check_changeable(self, dir_fd: int, location: Location, names: list[str]) -> Path:
        """Check that these names, each inside the one before, may be changed; return the directory's real
        path.
        """
        root, relative, absolute = self.find_real_path(dir_fd, location)
        directory = Path(absolute)
        problem = "" if root.writable else "is in a directory that is read-only"
        for name in (*relative.split("/"), *names):
            folded = fold_name(name)
            short, _, number = folded.partition("~")  # the short name that FAT gives to a long one: git~1
            if folded in self.protected_names or (number[:1].isdigit() and short in self._short_names):
                problem = problem or f"may not be changed: {name!r} is protected"
        if not problem and (reason := self.closed_paths.find_reason(os.path.join(absolute, *names))):
            problem = f"may not be changed: {reason}"
        if problem:
            raise ToolError(f"{location.raw_path!r} {problem}", kind="not_allowed", code="path_not_allowed")
        return directory

    @property
    def protects_all(self) -> bool:
        """Whether everything that is protected by default is: the user has opened none of it."""
        return not self.closed_paths.unprotected

    # ---- after a crash

    def _open_logged_directory(self, entry: LogEntry, stack: ExitStack) -> int | None:
        """Open the directory that a log names; None if it no longer exists.

        Raises ToolError if it may not be changed.
        """
        location = self.locate(os.fsdecode(entry.directory))
        if b"/" in b"".join((entry.name, entry.new, entry.old, entry.copy)):
            raise self.outside_error(location.raw_path)
        try:
            dir_fd = self.open(location, _DIRECTORY_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        stack.callback(close_quietly, dir_fd)
        self._check_changeable(dir_fd, location, [os.fsdecode(entry.name)])
        return dir_fd
