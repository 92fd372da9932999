"""Which folders the user trusts: their project files may do anything. A no is remembered too, so that it is asked once.

Laws: the nearest word counts, of the folder or of one above it. A file that cannot be read is an error: nobody is trusted by
accident. Folders are known by their real path.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from toolglot.config.paths import data_directory, write_private
from toolglot.errors import MalformedData, UsageError

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
    """What the user said."""

    trusted: tuple[str, ...]
    refused: tuple[str, ...] = ()


def trust_file(environ: Environ | None = None) -> Path:
    """Where it is written down."""
    return data_directory(environ) / "trust.json"


def is_trusted(directory: Path, environ: Environ | None = None) -> bool:
    """Whether the user trusts the folder, or one above it. Raises MalformedData, UsageError."""
    return _is_covered(_load_trust_list(environ), _real_path(directory))


def has_decision(directory: Path) -> bool:
    """Whether the user has said yes or no already."""
    words, real = _load_trust_list(), _real_path(directory)
    return real in words.refused or _is_covered(words, real)


def list_trusted_directories() -> tuple[Path, ...]:
    """All folders that were trusted, by their names."""
    return tuple(sorted(map(Path, _load_trust_list().trusted)))


def trust_directory(directory: Path) -> None:
    """The user said yes. Raises UsageError."""
    if not directory.is_dir():
        raise UsageError(f"there is no folder {str(directory)!r} to trust")
    _update(directory, lambda words, real: _TrustList((*_exclude(words.trusted, real), real), _exclude(words.refused, real)))


def refuse_trust(directory: Path) -> None:
    """The user said no."""
    _update(directory, lambda words, real: _TrustList(_exclude(words.trusted, real), (*_exclude(words.refused, real), real)))


def revoke_trust(directory: Path) -> None:
    """Takes a yes back; where a folder above is trusted, this one is not any more."""
    _update(directory, lambda words, real: _TrustList(_exclude(words.trusted, real), words.refused))
    if is_trusted(directory):
        refuse_trust(directory)


def _is_covered(trust_list: _TrustList, real: str) -> bool:
    for place in (real, *map(str, Path(real).parents)):
        if place in trust_list.refused:
            return False
        if place in trust_list.trusted:
            return True
    return False


def _exclude(directories: tuple[str, ...], real: str) -> tuple[str, ...]:
    return tuple(one for one in directories if one != real)


def _real_path(directory: Path) -> str:
    return os.path.normcase(os.path.realpath(directory))


def _update(directory: Path, update: Callable[[_TrustList, str], _TrustList]) -> None:
    words = update(_load_trust_list(), _real_path(directory))
    write_private(trust_file(), msgspec.json.format(msgspec.json.encode(words), indent=2) + b"\n")


def _load_trust_list(environ: Environ | None = None) -> _TrustList:
    file = trust_file(environ)
    try:
        return msgspec.json.decode(file.read_bytes(), type=_TrustList)
    except (FileNotFoundError, NotADirectoryError):
        return _TrustList(())
    except OSError as e:
        raise UsageError(f"the list of trusted folders {str(file)!r} cannot be read: {e.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as e:
        raise MalformedData(f"the list of trusted folders {str(file)!r} is damaged ({e}): mend it or delete it") from None
