"""Changes several files: all of them, or none, also if the process is killed.

Invariants: everything that can fail happens first, beside the files: checks, backups, the new contents on
disk. Then names change, each by one rename that can be undone. The old file exists until all are done.

A change is recorded in a log while it is made, so that the next start can undo it. The process that writes a
log holds a lock on it; an unlocked log belongs to a dead process. Recovery touches only what a log names, and
a file only if it is still exactly what the dead process put there.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from shutil import copyfileobj

import msgspec

from toolglot.builtin.files.descriptors import (
    ACCESS_LIST,
    CREATE_FLAGS,
    MAX_COPY_BYTES,
    READ_FLAGS,
    check_regular_file,
    read_all,
    read_attributes,
    stat_at,
    translate_os_errors,
    write_all,
)
from toolglot.confine.confined_open import close_quietly
from toolglot.errors import ToolError
from toolglot.values.failures import MissingPath

__all__ = [
    "Change",
    "ChangeLog",
    "ChangeResult",
    "CreatedDirectories",
    "FileVersion",
    "LogEntry",
    "StagedChange",
    "commit_changes",
    "create_directory",
    "recover_changes",
    "remove_created",
]

# Errors of file systems, or of their mount options, that have no hard links.
_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # directories, on some file systems
_BACKUP_NAME = re.compile(r"\.[0-9a-f]{16}$")
_MAX_BACKUP_AGE, _MAX_BACKUP_BYTES = 30 * 24 * 3600.0, 1 << 30
CreatedDirectories = list[tuple[int, str]]
"""Directories that were created: the descriptor of the parent, and the name."""


# ---- the log


class FileVersion(msgspec.Struct, frozen=True):
    """Identifies the content of a file at one moment without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "FileVersion":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LogEntry(msgspec.Struct, frozen=True, tag="file"):
    """A log line: one file that is being changed. Names are bytes, as file systems have them."""

    directory: bytes
    name: bytes
    new: bytes
    old: bytes
    existed: bool
    copy: bytes
    """The backup while it is written, in the private directory."""
    new_version: FileVersion | None = None
    """What is put under the name; None while nothing is staged, and for a removal."""


class OutcomeMark(msgspec.Struct, frozen=True, tag="mark"):
    """A log line: whether every file is in place. The last mark counts."""

    is_complete: bool


class ChangeLog:
    """The log of one change. It is created with its first line; without a directory, nothing is recorded."""

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._path, self._fd = directory, Path(), -1

    def write(self, lines: list[LogEntry] | list[OutcomeMark], *, sync: bool = False) -> None:
        if self._directory is None:
            return
        if self._fd < 0:
            import fcntl

            self._directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._directory.mkdir(exist_ok=True, mode=0o700)
            path = self._path = self._directory / secrets.token_hex(8)
            self._fd = os.open(path, CREATE_FLAGS, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # Other processes look only at *.journal, so they never see it unlocked.
            self._path = path.rename(path.with_suffix(".journal"))
        # A newline first: a line that an earlier crash truncated must not swallow this one.
        write_all(self._fd, b"".join(b"\n" + msgspec.json.encode(line) for line in lines) + b"\n")
        if sync:
            os.fsync(self._fd)

    def close(self, *, keep: bool) -> None:
        """Remove the log, or keep it for the next start if something could not be cleaned up."""
        if self._fd >= 0 and not keep:
            with suppress(OSError):
                os.unlink(self._path)
        close_quietly(self._fd)


def version_at(dir_fd: int, name: str | bytes) -> FileVersion | None:
    """Return the version of a directory entry without following links; None if there is none.

    Raises OSError.
    """
    status = stat_at(dir_fd, name)
    return FileVersion.from_status(status) if status is not None else None


def recover_changes(backup_dir: Path, open_directory: Callable[[LogEntry, ExitStack], int | None]) -> None:
    """Undo what was in progress when another process was killed, and remove its temporary files and old
    backups.

    `open_directory` returns a descriptor of an entry's directory, None if that no longer exists, or raises
    ToolError.
    """
    for directory in (backup_dir, *_list_subdirectories(backup_dir)):
        with suppress(OSError):
            status = os.stat(directory)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return  # somebody else could have written the logs
            _remove_old_backups(str(backup_dir))
            for path in sorted(path for path in directory.iterdir() if path.suffix == ".journal"):
                with suppress(OSError, ToolError), ExitStack() as stack:
                    lines = _read_abandoned_log(path, stack)
                    entries = {line.old: line for line in lines if isinstance(line, LogEntry)}.values()
                    # All directories first: one that may not be changed leaves the whole log alone.
                    directories = [open_directory(entry, stack) for entry in entries]
                    is_complete = lines[-1:] == [OutcomeMark(True)]
                    for entry, dir_fd in zip(entries, directories, strict=True):
                        if dir_fd is not None:
                            remove_leftovers(dir_fd, entry) if is_complete else restore_file(dir_fd, entry)
                        with suppress(FileNotFoundError):
                            os.unlink(directory / os.fsdecode(entry.copy))
                    os.unlink(path)


def _list_subdirectories(directory: Path) -> list[Path]:
    with suppress(OSError), os.scandir(directory) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


@cache  # once in a process: a server may create tools for every request
def _remove_old_backups(backup_dir: str) -> None:
    directories = [Path(backup_dir), *_list_subdirectories(Path(backup_dir))]
    copies: list[tuple[float, int, str]] = []
    for entry in (
        entry
        for directory in directories
        for entry in os.scandir(directory)
        if _BACKUP_NAME.search(entry.name)
    ):
        with suppress(OSError):
            if not stat.S_ISDIR((status := entry.stat(follow_symlinks=False)).st_mode):
                copies.append((status.st_mtime, status.st_size, entry.path))
    total, oldest = sum(size for _, size, _ in copies), time.time() - _MAX_BACKUP_AGE
    for modified, size, path in sorted(copies):
        if modified < oldest or total > _MAX_BACKUP_BYTES:
            with suppress(OSError):
                os.unlink(path)
                total -= size
    for directory in directories[1:]:
        with suppress(OSError):  # one that is not empty
            if directory.stat().st_mtime < time.time() - 3600:  # otherwise somebody may be about to use it
                os.rmdir(directory)


def _read_abandoned_log(path: Path, stack: ExitStack) -> list[LogEntry | OutcomeMark]:
    """Lock the log of a dead process and return its lines. Raises OSError if the process is alive."""
    import fcntl

    fd = os.open(path, READ_FLAGS)
    stack.callback(close_quietly, fd)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lines: list[LogEntry | OutcomeMark] = []
    for line in read_all(fd, MAX_COPY_BYTES).split(b"\n"):
        with suppress(msgspec.DecodeError):  # a truncated line counts as never written
            lines.append(msgspec.json.decode(line, type=LogEntry | OutcomeMark))
    return lines


def restore_file(dir_fd: int, entry: LogEntry) -> None:
    """Put the old file back under its name, or remove a new one. Safe to repeat. Raises OSError."""
    current = version_at(dir_fd, entry.name)
    is_ours = current is not None and current == entry.new_version
    if stat_at(dir_fd, entry.old) is not None and (current is None or is_ours):
        os.rename(entry.old, entry.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    elif is_ours and not entry.existed:
        os.unlink(entry.name, dir_fd=dir_fd)
    remove_leftovers(dir_fd, entry)


def remove_leftovers(dir_fd: int, entry: LogEntry) -> None:
    """Remove the temporary files beside a changed file. Raises OSError."""
    for name in (entry.new, entry.old):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)


# ---- the changes


class Change(msgspec.Struct, frozen=True):
    """The new content of one file; without data it is removed.

    `expected`: the version it must still have, or "absent".
    """

    path: str
    data: bytes | None
    expected: "FileVersion | str | None" = None
    mode: int | None = None


class ChangeResult(msgspec.Struct, frozen=True):
    """What was done to one file. No version: it was removed."""

    path: Path
    created: bool
    version: FileVersion | None
    backup: Path | None = None


def commit_changes(steps: "list[StagedChange]", change_log: ChangeLog) -> list[ChangeResult]:
    """Rename every staged file into place, or roll everything back. Raises ToolError, OSError."""
    try:
        change_log.write([step.to_entry() for step in steps], sync=len(steps) > 1)
        for act in (StagedChange.rename_into_place, StagedChange.verify_and_sync):
            for step in steps:
                with translate_os_errors(step.raw_path):
                    act(step)
        change_log.write([OutcomeMark(True)], sync=len(steps) > 1)
    except BaseException as e:
        with suppress(OSError):
            change_log.write([OutcomeMark(False)])
        stuck = [step for step in reversed(steps) if not step.roll_back()]
        if stuck and isinstance(e, ToolError):
            copies = " and ".join(f"{step.raw_path!r} in {step.old_name!r}" for step in stuck)
            message = f"{e}; not everything could be restored, the old content is kept: {copies}"
            raise ToolError(message, code="io_error") from None
        raise
    return [step.finish() for step in steps]


class StagedChange:
    """One change: staged beside its file, then moved into place by one rename.

    The old file exists until `finish`.
    """

    def __init__(
        self, change: Change, raw_path: str, dir_fd: int, name: str, created: CreatedDirectories
    ) -> None:
        self.change, self.raw_path = change, raw_path
        self.path = Path()
        self.dir_fd, self.name, self._created = dir_fd, name, created
        # At most 100 bytes of the name, so that the suffixes fit into the 255 of a file name.
        stem = f".{os.fsencode(name)[:100].decode('utf-8', 'ignore')}.{secrets.token_hex(8)}"
        self._new_name, self.old_name, self._copy_name = f"{stem}.new", f"{stem}.old", f"{stem[1:]}.part"
        self._old_status: os.stat_result | None = None
        self._old_version: FileVersion | None = None
        self._new_version: FileVersion | None = None
        self._backup_path: Path | None = None
        self._is_staged = self._is_finished = False
        self._is_clean = True

    def to_entry(self) -> LogEntry:
        """Return the change as a line of the change log."""
        directory, *names = map(os.fsencode, (self.path.parent, self.name, self._new_name, self.old_name))
        existed, copy = self._old_status is not None, os.fsencode(self._copy_name)
        return LogEntry(directory, *names, existed=existed, copy=copy, new_version=self._new_version)

    def stage(self, backup_dir: Path | None, change_log: ChangeLog) -> None:
        """Check the old file, back it up, and write the new content beside it."""
        self._old_status = self._stat_current()
        self._old_version = (
            FileVersion.from_status(self._old_status) if self._old_status is not None else None
        )
        self.check_expected()
        change_log.write([self.to_entry()])
        self._is_staged = True
        if self._old_status is not None and backup_dir is not None:
            self._backup_path = backup_dir / self._copy_name
            self._back_up(self._backup_path, self._old_status.st_size)
            self._backup_path = self._backup_path.rename(self._backup_path.with_suffix(""))
        if self.change.data is not None:
            self._write_new(self.change.data, self._old_status)

    def _write_new(self, data: bytes, old_status: os.stat_result | None) -> None:
        # Masked to 0o777: like an ordinary write, this drops set-user-id bits.
        mode = 0o666
        if self.change.mode is not None:
            mode = self.change.mode
        elif old_status is not None:
            mode = stat.S_IMODE(old_status.st_mode)
        # nobody else may read it until it is as the old file
        first_mode = mode & 0o777 if old_status is None else 0o600
        fd = os.open(self._new_name, CREATE_FLAGS, first_mode, dir_fd=self.dir_fd)
        try:
            write_all(fd, data)
            attributes: dict[str, bytes] = {}
            if old_status is not None:
                attributes = read_attributes(f"/proc/self/fd/{self.dir_fd}/{self.name}")
                with suppress(OSError):  # a file of another owner that we may write to, but not give away
                    os.fchown(fd, old_status.st_uid, old_status.st_gid)
                # a list of the directory, which the old file did not have
                with suppress(OSError, AttributeError):
                    os.removexattr(fd, ACCESS_LIST)
            if old_status is not None or self.change.mode is not None:
                # With an access list, the bits of the group are the most that anybody in the list may do.
                mask = 0o707 if ACCESS_LIST in attributes else 0o777
                os.fchmod(fd, mode & mask)
            for name, value in attributes.items():
                with suppress(OSError, AttributeError):
                    os.setxattr(fd, name, value)
            os.fsync(fd)
            self._new_version = FileVersion.from_status(os.fstat(fd))
        finally:
            os.close(fd)

    def _back_up(self, backup_path: Path, size: int) -> None:
        if size > MAX_COPY_BYTES:
            message = f"{self.raw_path!r} is too large to back up: change it with a shell command"
            raise ToolError(message, kind="limit", code="file_too_large")
        with (
            open(os.open(self.name, READ_FLAGS, dir_fd=self.dir_fd), "rb") as source,
            open(os.open(backup_path, CREATE_FLAGS, 0o600), "wb") as target,
        ):
            if FileVersion.from_status(os.fstat(source.fileno())) != self._old_version:
                raise self._conflict_error()
            copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())

    def _stat_current(self) -> os.stat_result | None:
        status = stat_at(self.dir_fd, self.name)
        if status is not None:
            check_regular_file(status, self.raw_path)
        return status

    def _conflict_error(self) -> ToolError:
        return ToolError(
            f"{self.raw_path!r} is being changed by another program: try again", code="concurrent_change"
        )

    def check_expected(self) -> None:
        """Check that the file still is what the caller expects. Raises ToolError, OSError."""
        status = self._stat_current()
        expected = self.change.expected
        has_content = self.change.data is not None
        current = FileVersion.from_status(status) if status is not None else None
        if current is None and (not has_content or isinstance(expected, FileVersion)):
            details = MissingPath(self.raw_path)
            raise ToolError(f"no such file: {self.raw_path!r}", code="path_not_found", details=details)
        if current is not None and expected == "absent":
            raise ToolError(f"{self.raw_path!r} already exists", code="file_exists")
        if isinstance(expected, FileVersion) and current != expected:
            raise ToolError(
                f"{self.raw_path!r} has changed since it was read: read it again", code="changed_since_read"
            )
        if current != self._old_version:
            raise self._conflict_error()
        if current is not None and has_content:
            effective = os.access in os.supports_effective_ids
            if not os.access(self.name, os.W_OK, dir_fd=self.dir_fd, effective_ids=effective):
                raise ToolError(
                    f"{self.raw_path!r} is read-only", kind="not_allowed", code="path_not_allowed"
                )

    def rename_into_place(self) -> None:
        """Change the names so that it can be undone; a file that appeared meanwhile is kept.

        Raises ToolError, OSError.
        """
        dir_fd, has_content = self.dir_fd, self.change.data is not None
        if self._old_status is not None:
            if not _try_link(dir_fd, self.name, self.old_name):
                os.rename(self.name, self.old_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            elif not has_content:
                os.unlink(self.name, dir_fd=dir_fd)
            if has_content:
                os.rename(self._new_name, self.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        elif not _try_link(dir_fd, self._new_name, self.name):
            self.check_expected()
            os.rename(self._new_name, self.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def verify_and_sync(self) -> None:
        """Check that what was replaced is what was checked before, and sync the directories.

        Raises ToolError, OSError.
        """
        if self._old_version is not None and version_at(self.dir_fd, self.old_name) != self._old_version:
            raise self._conflict_error()
        for fd in (self.dir_fd, *(parent for parent, _ in self._created)):
            try:
                os.fsync(fd)
            except OSError as e:
                if e.errno not in _NO_SYNC:
                    raise

    def roll_back(self) -> bool:
        """Restore the old file, or remove the new one. Return whether that worked."""
        try:
            restore_file(self.dir_fd, self.to_entry())
        except OSError:
            self._is_clean = False
        return self._is_clean

    def finish(self) -> ChangeResult:
        """Accept the change: from here on it is not rolled back."""
        self._is_finished = True
        with suppress(OSError):
            remove_leftovers(self.dir_fd, self.to_entry())
        return ChangeResult(self.path, self._old_status is None, self._new_version, self._backup_path)

    def clean_up(self) -> bool:
        """Remove temporary files, and the backup and new directories of a change that failed.

        Return whether that worked.

        What could not be restored stays where it is.
        """
        if self._is_staged and self._is_clean:
            try:
                remove_leftovers(self.dir_fd, self.to_entry())
            except OSError:
                self._is_clean = False
        if self._is_finished or not self._is_clean:
            for fd, _ in self._created:
                close_quietly(fd)
        else:
            if self._backup_path is not None:
                with suppress(OSError):
                    os.unlink(self._backup_path)
            remove_created(self._created)
        close_quietly(self.dir_fd)
        return self._is_clean


def _try_link(dir_fd: int, name: str, new_name: str) -> bool:
    """Create a hard link; False if the file system has none. Raises OSError."""
    try:
        os.link(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except OSError as e:
        if e.errno in _NO_LINKS:
            return False
        raise
    return True


def create_directory(parent_fd: int, name: str, created: CreatedDirectories) -> None:
    """Create a directory and record it, unless somebody else created it just now."""
    fd = os.dup(parent_fd)
    try:
        os.mkdir(name, 0o777, dir_fd=parent_fd)
    except BaseException as e:
        close_quietly(fd)
        if not isinstance(e, FileExistsError):
            raise
    else:
        created.append((fd, name))


def remove_created(created: CreatedDirectories) -> None:
    """Remove directories that a failed change created."""
    for fd, name in reversed(created):
        with suppress(OSError):
            os.rmdir(name, dir_fd=fd)
        close_quietly(fd)
