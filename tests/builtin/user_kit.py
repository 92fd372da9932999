"""Run a Python with toolglot as root or as an ordinary user, in a child process."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import toolglot

NOBODY = 65534
USERS = ("root", "user")


def user_id(name: str) -> int:
    """Return the id of `root`, or of a user who is not; skips if we cannot be it."""
    if os.getuid() != 0 and name == "root":
        pytest.skip("this needs root")
    return (0 if name == "root" else NOBODY) if os.getuid() == 0 else os.getuid()


def become(user: int) -> dict[str, Any]:
    """Return the options with which `subprocess` starts a program as this user."""
    return {"user": user, "group": user, "extra_groups": []} if user != os.getuid() else {}


@cache
def find_python(user: int) -> tuple[str, dict[str, str]]:
    """Return a Python that this user can start, and the variables with which it finds toolglot; skips if
    there is none.
    """
    # Ours may be in a home directory that others cannot enter; the system's may be of the same version.
    system = shutil.which(
        f"python{sys.version_info[0]}.{sys.version_info[1]}", path="/usr/bin:/usr/local/bin"
    )
    packages = [
        str(Path(toolglot.__file__).parents[1]),
        *(path for path in sys.path if path.endswith("-packages")),
    ]
    for program, variables in ((sys.executable, {}), (system, {"PYTHONPATH": os.pathsep.join(packages)})):
        argv = [program or "", "-c", "import toolglot, msgspec, fractions"]
        with suppress(OSError):
            if not subprocess.call(argv, env=variables, cwd="/", stderr=subprocess.DEVNULL, **become(user)):
                return argv[0], variables
    pytest.skip("there is no Python that an ordinary user can start here")
