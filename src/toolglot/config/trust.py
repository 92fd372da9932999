"""The directories that the user trusts: their project files may do anything.

Refusals are stored too, so that we ask once.

The nearest decision applies, for the directory itself or for a parent. An unreadable file is an error, so
that nothing is trusted by accident. Directories are compared by their real path.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolglot.common.regular_files import read_regular_file
from toolglot.common.user_dirs import data_directory, write_private
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


class _TrustFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trusted: tuple[str, ...]
    refused: tuple[str, ...] = ()


def trust_file(environ: Environ | None = None) -> Path:
    """Return where the decisions are stored."""
    return data_directory(environ) / "trust.json"


def is_trusted(directory: Path, environ: Environ | None = None) -> bool:
    """Whether the user trusts the directory or one of its parents. Raises MalformedData, UsageError."""
    decisions = _load_decisions(environ)
    path = Path(_real_path(directory))
    for candidate in (path, *path.parents):
        if str(candidate) in decisions:
            return decisions[str(candidate)]
    return False


def has_decision(directory: Path) -> bool:
    """Whether the user has decided already."""
    return _real_path(directory) in _load_decisions() or is_trusted(directory)


def list_trusted_directories() -> tuple[Path, ...]:
    """Return all trusted directories, sorted."""
    return tuple(sorted(Path(path) for path, trusted in _load_decisions().items() if trusted))


def trust_directory(directory: Path) -> None:
    """Trust a directory. Raises UsageError."""
    if not directory.is_dir():
        raise UsageError(f"there is no directory {str(directory)!r} to trust")
    _save_decisions({**_load_decisions(), _real_path(directory): True})


def refuse_trust(directory: Path) -> None:
    """Remember that the user does not trust a directory."""
    _save_decisions({**_load_decisions(), _real_path(directory): False})


def revoke_trust(directory: Path) -> None:
    """Remove a directory from the trusted ones; if a parent is trusted, refuse it explicitly."""
    decisions, path = _load_decisions(), _real_path(directory)
    if decisions.get(path):
        del decisions[path]
    _save_decisions(decisions)
    if is_trusted(directory):
        refuse_trust(directory)


def _real_path(directory: Path) -> str:
    return os.path.normcase(os.path.realpath(directory))


def _load_decisions(environ: Environ | None = None) -> dict[str, bool]:
    file = trust_file(environ)
    try:
        stored = msgspec.json.decode(read_regular_file(file), type=_TrustFile)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        raise UsageError(f"cannot read the list of trusted directories {str(file)!r}: {e.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as e:
        raise MalformedData(
            f"the list of trusted directories {str(file)!r} is damaged ({e}): repair or delete it"
        ) from None
    return {**dict.fromkeys(stored.trusted, True), **dict.fromkeys(stored.refused, False)}


def _save_decisions(decisions: dict[str, bool]) -> None:
    trusted = tuple(path for path, is_trusted in decisions.items() if is_trusted)
    refused = tuple(path for path, is_trusted in decisions.items() if not is_trusted)
    write_private(
        trust_file(), msgspec.json.format(msgspec.json.encode(_TrustFile(trusted, refused)), indent=2) + b"\n"
    )
