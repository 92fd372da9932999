"""Finds the programs that we start outside a sandbox. None of them is one that a tool could have written or exchanged.

Invariants: what lies below a writable root of the workspace, or is reached through a link there, is passed over: PATH often has
a directory of the project in it (an activated virtual environment), and commands may write there. Our own Python cannot be
passed over: where it lies inside a root, `own_program_paths` is read-only for every tool.
"""

import os
import shutil
import site
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from toolglot.builtin.files.roots import Root

__all__ = [
    "SYSTEM_DIRECTORIES",
    "find_package",
    "find_program",
    "find_programs",
    "is_outside",
    "own_program_paths",
    "own_python",
    "safe_search_path",
]

SYSTEM_DIRECTORIES = ("/usr/bin", "/bin", "/usr/local/bin")
_MAX_LINKS = 40


def find_program(name: str, roots: Iterable[Root] = (), directories: Sequence[str] | None = None) -> str:
    """Return the path of a program outside the roots; "" if there is none."""
    return next(find_programs(name, roots, directories), "")


def find_programs(name: str, roots: Iterable[Root] = (), directories: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the paths of a program outside the roots, best first: in these directories, or in those of PATH and the system."""
    roots = tuple(roots)
    for directory in dict.fromkeys(directories or (*_search_path(), *SYSTEM_DIRECTORIES)):
        # Relative directories are not searched: they may be anywhere.
        path = shutil.which(name, path=directory) if os.path.isabs(directory) else None
        if path and is_outside(path, roots):
            yield path


def safe_search_path(roots: Iterable[Root]) -> str:
    """Return PATH without what is inside the roots, for programs that start others by their names."""
    roots = tuple(roots)
    directories = [path for path in _search_path() if os.path.isabs(path) and is_outside(path, roots)]
    return os.pathsep.join(directories or SYSTEM_DIRECTORIES)


def _search_path() -> list[str]:
    return os.environ.get("PATH", os.defpath).split(os.pathsep)


def is_outside(path: str, roots: Iterable[Root]) -> bool:
    """Whether a path, every link on the way and what it leads to are outside the writable roots."""
    directories = [os.path.realpath(root.path) for root in roots if root.writable]
    current, names, links = "/", path.split("/")[::-1], 0
    while names:  # `current` has no links in it any more
        step = os.path.normpath(os.path.join(current, names.pop()))
        if any(step == directory or step.startswith(f"{directory.rstrip('/')}/") for directory in directories):
            return False
        if not os.path.islink(step):
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return False
        target = os.readlink(step)
        current = "/" if target.startswith("/") else current
        names += target.split("/")[::-1]
    return True


# ---- our own Python


def own_python() -> str:
    """Return the Python for our workers (with -I -S): the one behind a virtual environment, which may be in a project."""
    # sys.executable may be empty (embedded Python), or not executable for this user.
    candidates = (getattr(sys, "_base_executable", ""), sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    return next((path for path in candidates if path and os.access(path, os.X_OK)), "")


def find_package(name: str, roots: Iterable[Root]) -> str:
    """Return the directory that has an optional package, among ours or outside the roots; "" if there is none."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return ""
    directory = Path(os.path.realpath(spec.origin)).parents[1]
    is_ours = any(directory.is_relative_to(path) for path in own_program_paths())
    return str(directory) if is_ours or is_outside(os.path.abspath(spec.origin), roots) else ""


@cache
def own_program_paths() -> tuple[Path, ...]:
    """Return where our own code is: the package, the Python that runs it, and the packages that it may import."""
    own_package, dependencies = Path(__file__).parents[1], Path(msgspec.__file__).parents[1]
    user_packages = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    places = (own_package, dependencies, *prefixes, own_python(), user_packages)
    return tuple(sorted({Path(os.path.realpath(place)) for place in places if place}))
