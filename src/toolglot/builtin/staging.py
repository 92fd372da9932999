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

from toolglot.builtin.beneath import give_back
from toolglot.builtin.handles import CREATE, LARGEST_COPY, READ, check_regular, failure, status_in, write_all
from toolglot.builtin.journal import Entry, Journal, Mark, Version, put_back, sweep
from toolglot.errors import ToolError

__all__ = ["Change", "Made", "Step", "Written", "carried_out", "make_folder", "unmake"]

_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # a file system, or its rules
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # folders, on some file systems
Made = list[tuple[int, str]]
"""Folders that were made: the handle of the one above, and the name."""


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


def carried_out(steps: "list[Step]", journal: Journal) -> list[Written]:
    """Changes all names, or takes everything back. Raises ToolError."""
    given = steps[0].given if steps else ""
    try:
        journal.write([step.entry() for step in steps], sync=len(steps) > 1)
        for step in steps:
            given = step.given
            step.carry_out()
        for step in steps:
            given = step.given
            step.settle()
        journal.write([Mark(True)], sync=len(steps) > 1)
    except BaseException as e:
        with suppress(OSError):
            journal.write([Mark(False)])
        stuck = [step for step in reversed(steps) if not step.take_back()]
        why = failure(e, given) if isinstance(e, OSError) else e
        if stuck and isinstance(why, ToolError):
            left = " and ".join(f"{step.given!r} in {step.old!r}" for step in stuck)
            raise ToolError(f"{why}; not everything could be put back: what it was is {left}", kind="execution") from None
        raise why from None
    return [step.finish() for step in steps]


class Step:
    """One change on its way: staged beside its file, then put in place by one rename. The old file is there until `finish`."""

    def __init__(self, change: Change, given: str, folder: int, name: str, made: Made) -> None:
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

    def entry(self) -> Entry:
        """It as a line of the journal."""
        folder, *names = map(os.fsencode, (self.path.parent, self.name, self._new, self.old))
        return Entry(folder, *names, existed=self._before is not None, copy=os.fsencode(self._copy), made=self._version)

    def stage(self, backups: Path | None, journal: Journal) -> None:
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
        handle = os.open(self._new, CREATE, mode & 0o777, dir_fd=self.folder)
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
        if before.st_size > LARGEST_COPY:
            raise ToolError(f"{self.given!r} is too large to keep a copy of it: change it with a command", kind="limit")
        source = os.open(self.name, READ, dir_fd=self.folder)
        try:
            if Version.of(os.fstat(source)) != Version.of(before):
                raise self._disturbed()
            target = os.open(kept, CREATE, 0o600)
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
        found = status_in(self.folder, self.name)
        if found is not None:
            check_regular(found, self.given)
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
            old = status_in(self.folder, self.old)
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
            put_back(self.folder, self.entry())
        except OSError:
            self._is_clean = False
        return self._is_clean

    def finish(self) -> Written:
        """It is done: from here on it is not taken back."""
        self._is_finished = True
        with suppress(OSError):
            sweep(self.folder, self.entry())
        return Written(self.path, self._before is None, self._version, self._backup)

    def clean(self) -> bool:
        """Nothing is left beside the file; of a change that did not come about, no copy and no folder. Whether it is so.

        What could not be put back stays where it is.
        """
        if self._is_staged and self._is_clean:
            try:
                sweep(self.folder, self.entry())
            except OSError:
                self._is_clean = False
        if self._is_finished or not self._is_clean:
            for handle, _ in self._made:
                give_back(handle)
        else:
            if self._backup is not None:
                with suppress(OSError):
                    os.unlink(self._backup)
            unmake(self._made)
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


def _may_write(folder: int, name: str) -> bool:
    return os.access(name, os.W_OK, dir_fd=folder, effective_ids=os.access in os.supports_effective_ids)


def make_folder(above: int, name: str, made: Made) -> None:
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


def unmake(made: Made) -> None:
    """Folders that were made for nothing."""
    for handle, name in reversed(made):
        with suppress(OSError):
            os.rmdir(name, dir_fd=handle)
        give_back(handle)


def _cut(name: str) -> str:
    """The start of a name, short enough for more to follow it."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")
