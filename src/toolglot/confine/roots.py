"""The directories that a workspace consists of: what a path means, and descriptors of what is below them.

Invariants: a root is held open. It stays the directory that it was when it was opened, whatever happens to
its name.
"""

import errno
import os
import re
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from toolglot.common.value_checks import check_values
from toolglot.confine.confined_open import PATH_ONLY, close_quietly, open_beneath
from toolglot.errors import ToolError, UsageError

__all__ = ["HeldRoot", "Location", "Root", "RootSet", "decode_escaped_bytes"]

_MAX_PATH_BYTES, _MAX_NAME_BYTES = 4096, 255
_DELETED_SUFFIX = " (deleted)"
_ESCAPED_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")


class Root(msgspec.Struct, frozen=True):
    """A directory that may be read, and written to if it is writable."""

    path: Path
    """The directory."""
    writable: bool = True
    """Whether files in it may be changed."""
    alias: str = ""
    """Another absolute path by which the model knows it."""

    def __post_init__(self) -> None:
        if isinstance(self.path, str):
            msgspec.structs.force_setattr(self, "path", Path(self.path))
        check_values(self)


class Location(msgspec.Struct, frozen=True):
    """A path as the model wrote it, and what it means: a root, and a path below it."""

    raw_path: str
    root: "HeldRoot"
    relative: str


class HeldRoot:
    """A root with its descriptor."""

    def __init__(self, root: Root) -> None:
        try:
            self._configured_path = root.alias or os.path.abspath(root.path)
        except FileNotFoundError:
            raise UsageError("the current directory no longer exists: change to another one") from None
        try:
            self.fd = os.open(root.path, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise UsageError(
                f"the directory {str(root.path)!r} cannot be a workspace: {e.strerror}"
            ) from None
        self._finalizer = weakref.finalize(self, close_quietly, self.fd)  # also if nobody closes it
        self.writable = root.writable
        self._original_path = fd_path(self.fd)
        if not self._original_path:
            self.close()
            raise UsageError(f"the directory {str(root.path)!r} cannot be a workspace: /proc is not mounted")

    @property
    def real_path(self) -> str:
        """Where it is now: somebody may have renamed it."""
        return fd_path(self.fd) or self._original_path

    def close(self) -> None:
        self.fd = -1
        self._finalizer()

    def relative_path(self, path: str) -> str | None:
        """Return an absolute path relative to this root, compared component by component; None if it is
        outside.
        """
        candidates = (_relative_to(path, prefix) for prefix in (self.real_path, self._configured_path))
        return next((relative for relative in candidates if relative is not None), None)


def _relative_to(path: str, directory: str) -> str | None:
    parts, parents = (
        [name for name in text.split("/") if name not in ("", ".")] for text in (path, directory)
    )
    if parts[: len(parents)] != parents:
        return None
    relative = "/".join(parts[len(parents) :])
    # A trailing slash demands a directory, so it is kept.
    return f"{relative}/" if relative and path.endswith(("/", "/.")) else relative


class RootSet:
    """All roots of a workspace; relative paths are relative to the first."""

    def __init__(self, roots: Iterable[Root]) -> None:
        self.held = [HeldRoot(root) for root in roots]

    def close(self) -> None:
        for root in self.held:
            root.close()

    def locate(self, path: str) -> Location:
        """Return what a path means, without opening any file. Raises ToolError."""
        decoded = decode_escaped_bytes(path)
        if decoded is not path and not os.path.lexists(os.path.join(self.held[0].real_path, path)):
            path = decoded
        if problem := _find_path_problem(path):
            raise ToolError(problem, kind="validation", code="invalid_path")
        if not path.startswith("/"):
            return Location(path, self.held[0], path)
        for root in self.held:
            if (relative := root.relative_path(path)) is not None:
                return Location(path, root, relative)
        raise self.outside_error(path)

    def outside_error(self, path: str) -> ToolError:
        message = f"{path!r} is outside the workspace {self.held[0].real_path!r}"
        return ToolError(message, kind="not_allowed", code="path_not_allowed")

    def open(self, location: Location, flags: int) -> int:
        """Open a location.

        An absolute link that leads back into a root is followed too. Raises ToolError, OSError.
        """
        root, relative = location.root, location.relative
        try:
            return open_beneath(root.fd, relative, flags)
        except OSError as e:
            if e.errno != errno.EXDEV:
                raise
        target = os.path.realpath(os.path.join(root.real_path, relative))
        for other in self.held:
            inside = _relative_to(target, other.real_path)
            if inside is None:
                continue
            try:
                return open_beneath(other.fd, inside, flags)
            except OSError as e:
                if e.errno != errno.EXDEV:
                    raise
        raise self.outside_error(location.raw_path)

    def find_real_path(self, fd: int, location: Location) -> tuple[HeldRoot, str, str]:
        """Return where a descriptor really is: its root (the innermost one), the path below it, and the
        absolute path.
        """
        path = fd_path(fd)
        innermost, shortest = None, ""
        for root in self.held:
            real = root.real_path
            if not path or not f"{path}/".startswith(f"{real.rstrip('/')}/"):
                continue
            relative = path[len(real) + (real != "/") :]
            if innermost is None or len(relative) < len(shortest):
                innermost, shortest = root, relative
        if innermost is None:
            raise self.outside_error(location.raw_path)
        return innermost, shortest, path


def _find_path_problem(path: str) -> str:
    """Return why a text cannot be a path; "" if it can."""
    if not path or "\0" in path:
        return f"{path[:80]!r} is not a path"
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return f"{path[:80]!r} is not a path: it contains an unpaired surrogate (invalid Unicode)"
    if len(encoded) <= _MAX_NAME_BYTES:
        return ""
    if len(encoded) >= _MAX_PATH_BYTES or max(map(len, encoded.split(b"/"))) > _MAX_NAME_BYTES:
        return f"the path {path[:80]!r}… is too long"
    return ""


def decode_escaped_bytes(path: str) -> str:
    r"""Return a path with the bytes that results show as `\udcff`: bytes of a name that are not UTF-8.

    Bytes that are text in UTF-8 stay escaped: a file has one name, by which rules know it.
    """
    if r"\udc" not in path:
        return path
    decoded = _ESCAPED_BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), path)
    try:
        is_only_name = os.fsdecode(os.fsencode(decoded)) == decoded
    except UnicodeEncodeError:
        return path
    return decoded if is_only_name else path


def fd_path(fd: int) -> str:
    """Return the real path of a descriptor as the kernel knows it; "" if it does not say."""
    with suppress(OSError):
        path = os.readlink(f"/proc/self/fd/{fd}")
        # Linux marks the path of a deleted file; a file may also really be named like that.
        return (
            path
            if not path.endswith(_DELETED_SUFFIX) or os.path.lexists(path)
            else path.removesuffix(_DELETED_SUFFIX)
        )
    try:
        import fcntl

        path = fcntl.fcntl(fd, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024)  # macOS
        return os.fsdecode(path.rstrip(b"\0"))
    except (OSError, ValueError, ImportError):
        return ""
