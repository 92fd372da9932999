"""Where toolglot keeps its files: in the per-user directories of each platform, as `platformdirs` names them.

Asking for a path creates nothing. A directory is created, readable by its owner only, when something is
written to it.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from toolglot.errors import UsageError

__all__ = [
    "config_file",
    "create_own_path",
    "data_directory",
    "ensure_private_directory",
    "is_writable",
    "own_paths",
    "state_directory",
    "write_private",
]

Environ = Mapping[str, str]
# XDG Base Directory Specification 0.8: the variable, and its default below the home directory.
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def config_file(environ: Environ | None = None) -> Path:
    """The user's configuration file; TOOLGLOT_CONFIG overrides it."""
    return _path_from_variable("TOOLGLOT_CONFIG", environ) or _user_directory("config") / "config.toml"


def data_directory(environ: Environ | None = None) -> Path:
    """The directory for data that must not be lost, such as the list of trusted directories.

    TOOLGLOT_STATE overrides both this one and the state directory.
    """
    return _path_from_variable("TOOLGLOT_STATE", environ) or _user_directory("data")


def state_directory(environ: Environ | None = None) -> Path:
    """The directory for data that belongs to this machine, such as histories, backups and the audit log."""
    return _path_from_variable("TOOLGLOT_STATE", environ) or _user_directory("state")


def own_paths() -> tuple[Path, ...]:
    """Return everything that toolglot keeps for the user, whether it exists or not, as real paths.

    The usual places are among them even if variables name others: the next start may be without these
    variables.
    """
    usual = (_user_directory("config"), _user_directory("data"), _user_directory("state"))
    return tuple(
        {
            Path(os.path.realpath(path))
            for path in (*usual, config_file(), data_directory(), state_directory())
        }
    )


def create_own_path(path: Path) -> None:
    """Create one of our own paths, empty, so that it can be hidden from commands. Raises UsageError."""
    if path == Path(os.path.realpath(config_file())):
        write_private(path, b"")
    else:
        ensure_private_directory(path)


def _path_from_variable(variable: str, environ: Environ | None) -> Path | None:
    variables = os.environ if environ is None else environ
    text = variables.get(variable, "").strip()
    if not text:
        return None
    return Path(os.path.abspath(os.path.expanduser(text)))


def _user_directory(kind: Literal["config", "data", "state"]) -> Path:
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "toolglot")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "toolglot"
    variable, default = _XDG[kind]
    return Path(os.environ.get(variable, "").strip() or home / default, "toolglot")


def is_writable(directory: Path) -> bool:
    """Return whether files can be created in the directory, which may have to be created itself."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir():
        return False
    return os.access(existing, os.W_OK | os.X_OK)


def ensure_private_directory(directory: Path) -> Path:
    """Create the directory and those above it that are missing, for their owner only. Raises UsageError."""
    try:
        # mkdir(parents=True) would create the upper ones for everybody
        for path in reversed((directory, *directory.parents)):
            if not path.is_dir():
                path.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"cannot create the directory {str(directory)!r}: {e.strerror}; set TOOLGLOT_STATE to use "
            "another one"
        ) from None
    return directory


def write_private(file: Path, data: bytes) -> None:
    """Replace the file atomically, readable by its owner only. Raises UsageError."""
    directory = ensure_private_directory(file.parent)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=directory)
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(data)
                new.flush()
                os.fsync(new.fileno())  # otherwise a crash after the rename can leave an empty file
            os.replace(name, file)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as e:
        raise UsageError(f"cannot write {str(file)!r}: {e.strerror}") from None
