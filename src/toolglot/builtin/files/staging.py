"""Changes of files on their way: all of them, or none.

Laws: everything that can fail is done first, beside the files: checks, backups, the new contents on disk. Then names
change, each by one rename that can be taken back. The old file is there until all are done.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from toolglot.builtin.files.change_log import ChangeLog, FileVersion, LogEntry, OutcomeMark, remove_leftovers, restore_file
from toolglot.builtin.files.confined_open import close_quietly
from toolglot.builtin.files.descriptors import (
    CREATE_FLAGS,
    MAX_COPY_BYTES,
    READ_FLAGS,
    check_regular_file,
    stat_at,
    tool_error,
    write_all,
)
from toolglot.errors import ToolError

__all__ = [
    "Change",
    "ChangeResult",
    "CreatedDirectories",
    "StagedChange",
    "commit_changes",
    "create_directory",
    "remove_created",
]

_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # a file system, or its rules
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # folders, on some file systems
CreatedDirectories = list[tuple[int, str]]
"""Folders that were made: the handle of the one above, and the name."""


class Change(msgspec.Struct, frozen=True):
    """One file as it is to be; no data: it is removed. `seen`: the version that it must still have, or "absent"."""

    path: str
    data: bytes | None
    expected: "FileVersion | str | None" = None
    mode: int | None = None


class ChangeResult(msgspec.Struct, frozen=True):
    """What was done to one file."""

    path: Path
    created: bool
    version: FileVersion | None
    """None: it was removed."""
    backup: Path | None = None


def commit_changes(steps: "list[StagedChange]", change_log: ChangeLog) -> list[ChangeResult]:
    """Changes all names, or takes everything back. Raises ToolError."""
    given = steps[0].raw_path if steps else ""
    try:
        change_log.write([step.to_entry() for step in steps], sync=len(steps) > 1)
        for step in steps:
            given = step.raw_path
            step.rename_into_place()
        for step in steps:
            given = step.raw_path
            step.verify_and_sync()
        change_log.write([OutcomeMark(True)], sync=len(steps) > 1)
    except BaseException as e:
        with suppress(OSError):
            change_log.write([OutcomeMark(False)])
        stuck = [step for step in reversed(steps) if not step.roll_back()]
        why = tool_error(e, given) if isinstance(e, OSError) else e
        if stuck and isinstance(why, ToolError):
            left = " and ".join(f"{step.raw_path!r} in {step.old_name!r}" for step in stuck)
            raise ToolError(f"{why}; not everything could be put back: what it was is {left}", kind="execution") from None
        raise why from None
    return [step.finish() for step in steps]


class StagedChange:
    """One change on its way: staged beside its file, then put in place by one rename. The old file is there until `finish`."""

    def __init__(self, change: Change, raw_path: str, dir_fd: int, name: str, created: CreatedDirectories) -> None:
        self.change, self.raw_path = change, raw_path
        self.path = Path()
        self.dir_fd, self.name, self._created = dir_fd, name, created
        stem = f".{_shorten_name(name)}.{secrets.token_hex(8)}"
        self._new_name, self.old_name, self._copy_name = f"{stem}.new", f"{stem}.old", f"{stem[1:]}.part"
        self._old_status: os.stat_result | None = None
        self._new_version: FileVersion | None = None
        self._backup_path: Path | None = None
        self._is_staged = self._is_finished = False
        self._is_clean = True

    def to_entry(self) -> LogEntry:
        """It as a line of the journal."""
        folder, *names = map(os.fsencode, (self.path.parent, self.name, self._new_name, self.old_name))
        return LogEntry(
            folder, *names, existed=self._old_status is not None, copy=os.fsencode(self._copy_name), made=self._new_version
        )

    def stage(self, backup_dir: Path | None, change_log: ChangeLog) -> None:
        """Looks at the old file, keeps a copy of it, and writes the new one next to it."""
        self._old_status = self._stat_current()
        self.check_expected()
        change_log.write([self.to_entry()])
        self._is_staged = True
        if self._old_status is not None and backup_dir is not None:
            self._backup_path = backup_dir / self._copy_name
            self._back_up(self._backup_path, self._old_status)
            self._backup_path = self._backup_path.rename(self._backup_path.with_suffix(""))
        if self.change.data is not None:
            self._write_new(self.change.data, self._old_status)

    def _write_new(self, data: bytes, old_status: os.stat_result | None) -> None:
        """What is written never runs with the rights of another: a set-user-id bit is lost, as in an ordinary write."""
        mode = self.change.mode if self.change.mode is not None else stat.S_IMODE(old_status.st_mode) if old_status else 0o666
        handle = os.open(self._new_name, CREATE_FLAGS, mode & 0o777, dir_fd=self.dir_fd)
        try:
            write_all(handle, data)
            if old_status is not None:
                with suppress(OSError):  # somebody else's, who may be written for but not be
                    os.fchown(handle, old_status.st_uid, old_status.st_gid)
            if old_status is not None or self.change.mode is not None:
                os.fchmod(handle, mode & 0o777)
            os.fsync(handle)
            self._new_version = FileVersion.from_status(os.fstat(handle))
        finally:
            os.close(handle)

    def _back_up(self, backup_path: Path, old_status: os.stat_result) -> None:
        """A copy of the old file in the private folder for backups."""
        if old_status.st_size > MAX_COPY_BYTES:
            raise ToolError(f"{self.raw_path!r} is too large to keep a copy of it: change it with a command", kind="limit")
        source = os.open(self.name, READ_FLAGS, dir_fd=self.dir_fd)
        try:
            if FileVersion.from_status(os.fstat(source)) != FileVersion.from_status(old_status):
                raise self._conflict_error()
            target = os.open(backup_path, CREATE_FLAGS, 0o600)
            try:
                size = 0
                while size < old_status.st_size and (data := os.read(source, min(1 << 20, old_status.st_size - size))):
                    write_all(target, data)
                    size += len(data)
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            close_quietly(source)

    def _stat_current(self) -> os.stat_result | None:
        found = stat_at(self.dir_fd, self.name)
        if found is not None:
            check_regular_file(found, self.raw_path)
        return found

    def _conflict_error(self) -> ToolError:
        return ToolError(f"{self.raw_path!r} is being changed by somebody else: try again", kind="execution")

    def check_expected(self) -> None:
        """Whether the file still is what it was when it was read. Raises ToolError, OSError."""
        now, seen = self._stat_current(), self.change.expected
        if now is None:
            if self.change.data is None or isinstance(seen, FileVersion):
                raise ToolError(f"there is no file {self.raw_path!r}", kind="execution")
            if self._old_status is not None:
                raise self._conflict_error()
            return
        if seen == "absent":
            raise ToolError(f"{self.raw_path!r} exists already", kind="execution")
        if isinstance(seen, FileVersion) and FileVersion.from_status(now) != seen:
            raise ToolError(f"{self.raw_path!r} has changed since it was read: read it again", kind="execution")
        if self._old_status is None or FileVersion.from_status(now) != FileVersion.from_status(self._old_status):
            raise self._conflict_error()
        if self.change.data is not None and not _is_writable(self.dir_fd, self.name):
            raise ToolError(f"{self.raw_path!r} may not be changed: it is read-only", kind="not_allowed")

    def rename_into_place(self) -> None:
        """Changes names, so that it can be taken back. Where no file was, none is replaced. Raises ToolError, OSError."""
        folder, is_new = self.dir_fd, self.change.data is not None
        if self._old_status is not None:
            if not _try_link(folder, self.name, self.old_name):
                os.rename(self.name, self.old_name, src_dir_fd=folder, dst_dir_fd=folder)
            elif not is_new:
                os.unlink(self.name, dir_fd=folder)
            if is_new:
                os.rename(self._new_name, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        elif not _try_link(folder, self._new_name, self.name):
            self.check_expected()
            os.rename(self._new_name, self.name, src_dir_fd=folder, dst_dir_fd=folder)

    def verify_and_sync(self) -> None:
        """It is on disk, and what it replaced is what was looked at. Raises ToolError, OSError."""
        if self._old_status is not None:
            old = stat_at(self.dir_fd, self.old_name)
            if old is None or FileVersion.from_status(old) != FileVersion.from_status(self._old_status):
                raise self._conflict_error()
        for handle in (self.dir_fd, *(above for above, _ in self._created)):
            try:
                os.fsync(handle)
            except OSError as e:
                if e.errno not in _NO_SYNC:
                    raise

    def roll_back(self) -> bool:
        """The old file is back under its name; a new one is gone. Whether that could be done."""
        try:
            restore_file(self.dir_fd, self.to_entry())
        except OSError:
            self._is_clean = False
        return self._is_clean

    def finish(self) -> ChangeResult:
        """It is done: from here on it is not taken back."""
        self._is_finished = True
        with suppress(OSError):
            remove_leftovers(self.dir_fd, self.to_entry())
        return ChangeResult(self.path, self._old_status is None, self._new_version, self._backup_path)

    def clean_up(self) -> bool:
        """Nothing is left beside the file; of a change that did not come about, no copy and no folder. Whether it is so.

        What could not be put back stays where it is.
        """
        if self._is_staged and self._is_clean:
            try:
                remove_leftovers(self.dir_fd, self.to_entry())
            except OSError:
                self._is_clean = False
        if self._is_finished or not self._is_clean:
            for handle, _ in self._created:
                close_quietly(handle)
        else:
            if self._backup_path is not None:
                with suppress(OSError):
                    os.unlink(self._backup_path)
            remove_created(self._created)
        close_quietly(self.dir_fd)
        return self._is_clean


def _try_link(dir_fd: int, name: str, new_name: str) -> bool:
    """Gives a file another name too; False where that cannot be done here. Raises OSError."""
    try:
        os.link(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except OSError as e:
        if e.errno in _NO_LINKS:
            return False
        raise
    return True


def _is_writable(dir_fd: int, name: str) -> bool:
    return os.access(name, os.W_OK, dir_fd=dir_fd, effective_ids=os.access in os.supports_effective_ids)


def create_directory(parent_fd: int, name: str, created: CreatedDirectories) -> None:
    """A folder, unless somebody else has made it just now."""
    handle = os.dup(parent_fd)
    try:
        os.mkdir(name, 0o777, dir_fd=parent_fd)
    except BaseException as e:
        close_quietly(handle)
        if not isinstance(e, FileExistsError):
            raise
    else:
        created.append((handle, name))


def remove_created(created: CreatedDirectories) -> None:
    """Folders that were made for nothing."""
    for handle, name in reversed(created):
        with suppress(OSError):
            os.rmdir(name, dir_fd=handle)
        close_quietly(handle)


def _shorten_name(name: str) -> str:
    """The start of a name, short enough for more to follow it."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")
