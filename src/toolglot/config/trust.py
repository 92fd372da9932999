"""Which folders the user trusts: their project files may do anything. A no is remembered too, so that it is asked once.

Laws: the nearest word counts, of the folder or of one above it. A file that cannot be read is an error: nobody is trusted by
accident. Folders are known by their real path.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from toolglot.config.places import data_folder, write_private
from toolglot.errors import MalformedData, UsageError

__all__ = ["distrust", "is_trusted", "refuse", "trust", "trust_file", "trusted_folders", "was_asked"]

Environ = Mapping[str, str]


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user said."""

    trusted: tuple[str, ...]
    refused: tuple[str, ...] = ()


def trust_file(environ: Environ | None = None) -> Path:
    """Where it is written down."""
    return data_folder(environ) / "trust.json"


def is_trusted(folder: Path, environ: Environ | None = None) -> bool:
    """Whether the user trusts the folder, or one above it. Raises MalformedData, UsageError."""
    return _covered(_words(environ), _real(folder))


def was_asked(folder: Path) -> bool:
    """Whether the user has said yes or no already."""
    words, real = _words(), _real(folder)
    return real in words.refused or _covered(words, real)


def trusted_folders() -> tuple[Path, ...]:
    """All folders that were trusted, by their names."""
    return tuple(sorted(map(Path, _words().trusted)))


def trust(folder: Path) -> None:
    """The user said yes. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r} to trust")
    _change(folder, lambda words, real: _Words((*_without(words.trusted, real), real), _without(words.refused, real)))


def refuse(folder: Path) -> None:
    """The user said no."""
    _change(folder, lambda words, real: _Words(_without(words.trusted, real), (*_without(words.refused, real), real)))


def distrust(folder: Path) -> None:
    """Takes a yes back; where a folder above is trusted, this one is not any more."""
    _change(folder, lambda words, real: _Words(_without(words.trusted, real), words.refused))
    if is_trusted(folder):
        refuse(folder)


def _covered(words: _Words, real: str) -> bool:
    for place in (real, *map(str, Path(real).parents)):
        if place in words.refused:
            return False
        if place in words.trusted:
            return True
    return False


def _without(folders: tuple[str, ...], real: str) -> tuple[str, ...]:
    return tuple(one for one in folders if one != real)


def _real(folder: Path) -> str:
    return os.path.normcase(os.path.realpath(folder))


def _change(folder: Path, changed: Callable[[_Words, str], _Words]) -> None:
    words = changed(_words(), _real(folder))
    write_private(trust_file(), msgspec.json.format(msgspec.json.encode(words), indent=2) + b"\n")


def _words(environ: Environ | None = None) -> _Words:
    file = trust_file(environ)
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Words)
    except (FileNotFoundError, NotADirectoryError):
        return _Words(())
    except OSError as e:
        raise UsageError(f"the list of trusted folders {str(file)!r} cannot be read: {e.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as e:
        raise MalformedData(f"the list of trusted folders {str(file)!r} is damaged ({e}): mend it or delete it") from None
