"""The directories that the user trusts: their project files may do anything. A refusal is remembered too, so that we ask once.

The nearest decision counts, for the directory itself or for one above it. An unreadable file is an error: nothing is trusted by
accident. Directories are compared by their real path.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolglot.errors import MalformedData, UsageError
from toolglot.user_dirs import data_directory, write_private

__all__ = [
    "has_decision",
    "is_trusted",
    "list_trusted_directories",
    "refuse_trust",
    "revoke_trust",
    "trust_directory",
    "trust_file",
]

Environ = Mapping[str, str]


class _TrustList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's decisions."""

    trusted: tuple[str, ...]
    refused: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        for ancestor in (path, *map(str, Path(path).parents)):
            if ancestor in self.refused:
                return False
            if ancestor in self.trusted:
                return True
        return False


def trust_file(environ: Environ | None = None) -> Path:
    """Where the decisions are stored."""
    return data_directory(environ) / "trust.json"


def is_trusted(directory: Path, environ: Environ | None = None) -> bool:
    """Whether the user trusts the directory, or one above it. Raises MalformedData, UsageError."""
    return _load_trust_list(environ).covers(_real_path(directory))


def has_decision(directory: Path) -> bool:
    """Whether the user has decided already."""
    trust_list, path = _load_trust_list(), _real_path(directory)
    return path in trust_list.refused or trust_list.covers(path)


def list_trusted_directories() -> tuple[Path, ...]:
    """All trusted directories, sorted."""
    return tuple(sorted(map(Path, _load_trust_list().trusted)))


def trust_directory(directory: Path) -> None:
    """Trust a directory. Raises UsageError."""
    if not directory.is_dir():
        raise UsageError(f"there is no directory {str(directory)!r} to trust")
    _update(directory, is_trusted=True, is_refused=False)


def refuse_trust(directory: Path) -> None:
    """Remember that the user does not trust a directory."""
    _update(directory, is_trusted=False, is_refused=True)


def revoke_trust(directory: Path) -> None:
    """Forget that a directory is trusted; below a trusted one, refuse it."""
    path = _real_path(directory)
    _update(directory, is_trusted=False, is_refused=path in _load_trust_list().refused)
    if is_trusted(directory):
        refuse_trust(directory)


def _update(directory: Path, *, is_trusted: bool, is_refused: bool) -> None:
    trust_list, path = _load_trust_list(), _real_path(directory)
    trusted, refused = (tuple(other for other in paths if other != path) for paths in (trust_list.trusted, trust_list.refused))
    updated = _TrustList((*trusted, path) if is_trusted else trusted, (*refused, path) if is_refused else refused)
    write_private(trust_file(), msgspec.json.format(msgspec.json.encode(updated), indent=2) + b"\n")


def _real_path(directory: Path) -> str:
    return os.path.normcase(os.path.realpath(directory))


def _load_trust_list(environ: Environ | None = None) -> _TrustList:
    file = trust_file(environ)
    try:
        return msgspec.json.decode(file.read_bytes(), type=_TrustList)
    except (FileNotFoundError, NotADirectoryError):
        return _TrustList(())
    except OSError as e:
        raise UsageError(f"cannot read the list of trusted directories {str(file)!r}: {e.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as e:
        raise MalformedData(f"the list of trusted directories {str(file)!r} is damaged ({e}): repair or delete it") from None
