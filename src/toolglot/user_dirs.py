"""The per-user directories of each platform, as `platformdirs` names them. Nothing is created here."""

import os
import sys
from pathlib import Path
from typing import Literal

__all__ = ["user_directory"]

# XDG Base Directory Specification 0.8: the variable, and its default below the home directory.
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def user_directory(kind: Literal["config", "data", "state"]) -> Path:
    """Return toolglot's own directory for configuration, data or state."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "toolglot")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "toolglot"
    variable, default = _XDG[kind]
    return Path(os.environ.get(variable, "").strip() or home / default, "toolglot")
