"""Where toolglot keeps things: the user's file, what it must not lose (data), what it may (state).

Looking creates nothing; a folder is made, for its owner only, when something is written to it.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolglot.errors import UsageError

__all__ = ["config_file", "data_directory", "ensure_private_directory", "home_directory", "state_directory", "write_private"]

Environ = Mapping[str, str]


def config_file(environ: Environ | None = None) -> Path:
    """The user's file; TOOLGLOT_CONFIG names another one."""
    import platformdirs

    named = _path_from_variable("TOOLGLOT_CONFIG", environ)
    return named or Path(platformdirs.user_config_dir("toolglot", appauthor=False), "config.toml")


def data_directory(environ: Environ | None = None) -> Path:
    """For what must not be lost: which folders are trusted. TOOLGLOT_STATE names another one."""
    import platformdirs

    return _path_from_variable("TOOLGLOT_STATE", environ) or Path(platformdirs.user_data_dir("toolglot", appauthor=False))


def state_directory(environ: Environ | None = None) -> Path:
    """For what may be lost: histories, the audit log. TOOLGLOT_STATE names another one."""
    import platformdirs

    return _path_from_variable("TOOLGLOT_STATE", environ) or Path(platformdirs.user_state_dir("toolglot", appauthor=False))


def home_directory() -> Path:
    """The user's home, whether it exists or not."""
    return Path(os.path.expanduser("~"))


def _path_from_variable(variable: str, environ: Environ | None) -> Path | None:
    text = (os.environ if environ is None else environ).get(variable, "").strip()
    return Path(os.path.abspath(os.path.expanduser(text))) if text else None


def ensure_private_directory(directory: Path) -> Path:
    """The folder, made for its owner only where it was absent. Raises UsageError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"the folder {str(directory)!r} cannot be made: {e.strerror}; TOOLGLOT_STATE names another one"
        ) from None
    return directory


def write_private(file: Path, data: bytes) -> None:
    """Replaces the file at once, readable for its owner only. Raises UsageError."""
    folder = ensure_private_directory(file.parent)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=folder)
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(data)
                new.flush()
                os.fsync(new.fileno())
            os.replace(name, file)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as e:
        raise UsageError(f"{str(file)!r} cannot be written: {e.strerror}") from None
