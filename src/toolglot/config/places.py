"""Where toolglot keeps things: the user's file, what it must not lose (data), what it may (state).

Looking creates nothing; a folder is made, for its owner only, when something is written to it.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolglot.errors import UsageError

__all__ = ["config_file", "data_folder", "home_folder", "private_folder", "state_folder", "write_private"]

Environ = Mapping[str, str]


def config_file(environ: Environ | None = None) -> Path:
    """The user's file; TOOLGLOT_CONFIG names another one."""
    import platformdirs

    named = _named("TOOLGLOT_CONFIG", environ)
    return named or Path(platformdirs.user_config_dir("toolglot", appauthor=False), "config.toml")


def data_folder(environ: Environ | None = None) -> Path:
    """For what must not be lost: which folders are trusted. TOOLGLOT_STATE names another one."""
    import platformdirs

    return _named("TOOLGLOT_STATE", environ) or Path(platformdirs.user_data_dir("toolglot", appauthor=False))


def state_folder(environ: Environ | None = None) -> Path:
    """For what may be lost: histories, the audit log. TOOLGLOT_STATE names another one."""
    import platformdirs

    return _named("TOOLGLOT_STATE", environ) or Path(platformdirs.user_state_dir("toolglot", appauthor=False))


def home_folder() -> Path:
    """The user's home, whether it exists or not."""
    return Path(os.path.expanduser("~"))


def _named(variable: str, environ: Environ | None) -> Path | None:
    text = (os.environ if environ is None else environ).get(variable, "").strip()
    return Path(os.path.abspath(os.path.expanduser(text))) if text else None


def private_folder(folder: Path) -> Path:
    """The folder, made for its owner only where it was absent. Raises UsageError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise UsageError(f"the folder {str(folder)!r} cannot be made: {e.strerror}; TOOLGLOT_STATE names another one") from None
    return folder


def write_private(file: Path, data: bytes) -> None:
    """Replaces the file at once, readable for its owner only. Raises UsageError."""
    folder = private_folder(file.parent)
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
