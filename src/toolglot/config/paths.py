"""Where toolglot keeps its files: the user's configuration, data that must not be lost, and state that may be.

Asking for a path creates nothing. A directory is created, readable by its owner only, when something is written to it.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolglot.errors import UsageError
from toolglot.user_dirs import user_directory

__all__ = ["config_file", "data_directory", "ensure_private_directory", "home_directory", "state_directory", "write_private"]

Environ = Mapping[str, str]


def config_file(environ: Environ | None = None) -> Path:
    """The user's configuration file; TOOLGLOT_CONFIG overrides it."""
    return _path_from_variable("TOOLGLOT_CONFIG", environ) or user_directory("config") / "config.toml"


def data_directory(environ: Environ | None = None) -> Path:
    """For what must not be lost, such as the list of trusted directories; TOOLGLOT_STATE overrides it."""
    return _path_from_variable("TOOLGLOT_STATE", environ) or user_directory("data")


def state_directory(environ: Environ | None = None) -> Path:
    """For what may be lost, such as histories and the audit log; TOOLGLOT_STATE overrides it."""
    return _path_from_variable("TOOLGLOT_STATE", environ) or user_directory("state")


def home_directory() -> Path:
    """The user's home directory, whether it exists or not."""
    return Path(os.path.expanduser("~"))


def _path_from_variable(variable: str, environ: Environ | None) -> Path | None:
    text = (os.environ if environ is None else environ).get(variable, "").strip()
    return Path(os.path.abspath(os.path.expanduser(text))) if text else None


def ensure_private_directory(directory: Path) -> Path:
    """Create the directory, for its owner only, unless it exists. Raises UsageError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"cannot create the directory {str(directory)!r}: {e.strerror}; set TOOLGLOT_STATE to use another one"
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
