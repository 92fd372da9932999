"""Finds and starts programs outside a sandbox.

None of them is one that a tool, or a project's files, could have placed.

Invariants: what lies below a writable root of the workspace, or is reached through a link there, is passed
over: PATH often has a directory of the project in it (an activated virtual environment), and commands may
write there. Our own Python, with the programs installed beside it, is the exception: where it lies inside a
root, `own_program_paths` is read-only for every tool. Whatever starts a program calls `start_program` or
`run_program`; `tests/confine/test_programs.py` knows the few places that cannot.
"""

import errno
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import msgspec

__all__ = [
    "SYSTEM_DIRECTORIES",
    "ProgramRoot",
    "WorkspaceDirectory",
    "current_workspace",
    "find_package",
    "find_program",
    "find_programs",
    "is_outside",
    "is_startable",
    "own_program_paths",
    "own_python",
    "run_program",
    "safe_programs",
    "safe_search_path",
    "safe_variables",
    "start_program",
]

SYSTEM_DIRECTORIES = ("/usr/bin", "/bin", "/usr/local/bin")
# Lists of directories from which a program starts others, or loads code.
_PATH_VARIABLES = (
    *(
        "PATH",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "DYLD_FALLBACK_LIBRARY_PATH",
        "PYTHONPATH",
        "NODE_PATH",
    ),
    *("PERL5LIB", "RUBYLIB"),
)
_MAX_LINKS = 40


class ProgramRoot(Protocol):
    """A directory of the workspace: nothing in it is started if it is writable."""

    @property
    def path(self) -> Path: ...
    @property
    def writable(self) -> bool: ...


class WorkspaceDirectory(NamedTuple):
    """A directory whose files are the project's, or which tools may write to."""

    path: Path
    writable: bool = True


def current_workspace() -> tuple[WorkspaceDirectory, ...]:
    """Return the workspace where nobody has named one: the current directory, and the repository that it
    belongs to.
    """
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return ()
    home = Path(os.path.realpath(os.path.expanduser("~")))
    # Whoever keeps a home directory in a repository has written it.
    above = (
        path for path in here.parents if os.path.lexists(path / ".git") and not home.is_relative_to(path)
    )
    # Services run in the root directory: that is nobody's project, and all programs are below it.
    return tuple(WorkspaceDirectory(path) for path in (here, *above) if path != path.parent)


# ---- starting


def start_program(
    argv: Sequence[str],
    *,
    roots: Iterable[ProgramRoot],
    env: Mapping[str, str],
    cwd: str = "/",
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a program outside the roots, with these variables and no others. Raises OSError."""
    _check_program(argv[0], roots)
    popen: Any = subprocess.Popen  # its type depends on options for text, which nobody uses here
    return popen(argv, env=env, cwd=cwd, **options)


def run_program(
    argv: Sequence[str],
    *,
    roots: Iterable[ProgramRoot],
    env: Mapping[str, str],
    cwd: str = "/",
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program outside the roots to its end, with these variables and no others.

    Raises OSError, SubprocessError.
    """
    _check_program(argv[0], roots)
    run: Any = subprocess.run
    return run(argv, env=env, cwd=cwd, check=False, **options)


@contextmanager
def safe_programs() -> Generator[None]:
    """While this lasts, packages that start programs by their names (`az`, `gcloud`) find none of the current
    workspace.

    A command that starts meanwhile gets the same PATH: it may lack the project's programs for a moment.
    """
    _environment.begin()
    try:
        yield
    finally:
        _environment.end()


class _SafeEnvironment:
    """Our environment while several threads want it without the workspace: the first changes it, and the last
    restores it.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        # of each variable: its value before, and now
        self._changes: dict[str, tuple[str | None, str | None]] = {}

    def begin(self) -> None:
        with self._lock:
            if self._users == 0:
                safe = safe_variables(current_workspace())
                values = {name: (os.environ.get(name), safe.get(name)) for name in _PATH_VARIABLES}
                self._changes = {name: pair for name, pair in values.items() if pair[0] != pair[1]}
                for name, (_, value) in self._changes.items():
                    _set_variable(name, value)
            self._users += 1

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            for name, (before, now) in self._changes.items():
                if os.environ.get(name) == now:  # otherwise somebody else has changed it
                    _set_variable(name, before)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


_environment = _SafeEnvironment()


def _check_program(path: str, roots: Iterable[ProgramRoot]) -> None:
    if not os.path.isabs(path):  # the system would look for it in PATH, or in the current directory
        raise FileNotFoundError(errno.ENOENT, "it was not found outside the workspace", path)
    if not is_startable(path, roots):
        raise PermissionError(
            errno.EACCES, "it is inside the workspace, where a command can replace it", path
        )


# ---- finding


def find_program(
    name: str, roots: Iterable[ProgramRoot] = (), directories: Sequence[str] | None = None
) -> str:
    """Return the path of a program outside the roots; "" if there is none."""
    return next(find_programs(name, roots, directories), "")


def find_programs(
    name: str, roots: Iterable[ProgramRoot] = (), directories: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield the paths of a program outside the roots, best first: in these directories, or in those of PATH
    and the system.
    """
    roots = tuple(roots)
    if os.path.dirname(name):  # `shutil.which` would look relative to the current directory
        return
    for directory in dict.fromkeys(directories or (*_search_path(), *SYSTEM_DIRECTORIES)):
        if not os.path.isabs(directory):  # it may be anywhere
            continue
        path = shutil.which(name, path=directory)
        if path and is_startable(path, roots):
            yield path


def safe_search_path(roots: Iterable[ProgramRoot], search_path: str | None = None) -> str:
    """Return PATH, or this one, without what is inside the roots, for programs that start others by their
    names.
    """
    directories = _search_path() if search_path is None else search_path.split(os.pathsep)
    return os.pathsep.join(_keep_safe_directories(directories, tuple(roots)) or SYSTEM_DIRECTORIES)


def safe_variables(roots: Iterable[ProgramRoot]) -> dict[str, str]:
    """Return our environment, with lists of directories (PATH, LD_LIBRARY_PATH …) without what is inside the
    roots.
    """
    roots, variables = tuple(roots), dict(os.environ)
    for name in _PATH_VARIABLES:
        if name not in variables:
            continue
        directories = _keep_safe_directories(variables.pop(name).split(os.pathsep), roots)
        if directories:  # some programs take an empty list for the current directory
            variables[name] = os.pathsep.join(directories)
    return {"PATH": os.pathsep.join(SYSTEM_DIRECTORIES), **variables}


def _keep_safe_directories(directories: Iterable[str], roots: Sequence[ProgramRoot]) -> list[str]:
    """Return the directories without relative ones, which may be anywhere, and those inside the roots."""
    return [path for path in directories if os.path.isabs(path) and is_startable(path, roots)]


def _search_path() -> list[str]:
    return os.environ.get("PATH", os.defpath).split(os.pathsep)


def is_outside(path: str, roots: Iterable[ProgramRoot]) -> bool:
    """Whether a path, every link on the way and what it leads to are outside the writable roots."""
    return _is_safe_way(path, roots, ())


def is_startable(path: str, roots: Iterable[ProgramRoot]) -> bool:
    """Whether a program is outside the writable roots, or in a place there that is closed to every tool and
    to projects.

    Closed are our own Python, and in a home directory that is in a root, what begins with a dot
    (`~/.local/bin`).
    """
    home = os.path.realpath(os.path.expanduser("~"))
    return _is_safe_way(path, roots, (*map(str, own_program_paths()), os.path.join(home, ".")))


def _is_safe_way(path: str, roots: Iterable[ProgramRoot], closed: Sequence[str]) -> bool:
    directories = [os.path.realpath(root.path) for root in roots if root.writable]

    def is_open(step: str) -> bool:
        return any(_is_open(step, directory, closed) for directory in directories)

    if os.name == "nt":  # no tool works there that could make links
        return not is_open(os.path.abspath(path)) and not is_open(os.path.realpath(path))
    current, names, links = "/", path.split("/")[::-1], 0
    while names:  # `current` has no links in it any more
        step = os.path.normpath(os.path.join(current, names.pop()))
        is_link = os.path.islink(step)
        # A directory that has something closed in it can be neither renamed nor replaced.
        is_passage = bool(names) and not is_link and any(place.startswith(f"{step}/") for place in closed)
        if not is_passage and is_open(step):
            return False
        if not is_link:
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return False
        target = os.readlink(step)
        if target.startswith("/"):
            current = "/"
        names += target.split("/")[::-1]
    return True


def _is_open(path: str, directory: str, closed: Sequence[str]) -> bool:
    """Whether a path is in this root, and not in one of the closed places there; a root as a whole is never
    closed.
    """
    if not _is_below(path, directory):
        return False
    inner_places = [place for place in closed if place != directory and _is_below(place, directory)]
    return not any(_is_in_place(path, place) for place in inner_places)


def _is_in_place(path: str, place: str) -> bool:
    """Whether a path is in a closed place; one that ends with a dot stands for all names that begin with it."""
    if place.endswith(f"{os.sep}."):
        return path.startswith(place)
    return _is_below(path, place)


def _is_below(path: str, directory: str) -> bool:
    path, directory = os.path.normcase(path), os.path.normcase(directory)
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


# ---- our own Python


def own_python() -> str:
    """Return the Python for our workers (with -I -S): the one behind a virtual environment, which may be in a
    project.
    """
    # sys.executable may be empty (embedded Python), or not executable for this user.
    candidates = (
        getattr(sys, "_base_executable", ""),
        sys.executable,
        "/usr/bin/python3",
        "/usr/local/bin/python3",
    )
    return next((path for path in candidates if path and os.access(path, os.X_OK)), "")


def find_package(name: str, roots: Iterable[ProgramRoot]) -> str:
    """Return the directory that has an optional package, among ours or outside the roots; "" if there is
    none.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return ""
    directory = Path(os.path.realpath(spec.origin)).parents[1]
    is_ours = any(directory.is_relative_to(path) for path in own_program_paths())
    return str(directory) if is_ours or is_outside(os.path.abspath(spec.origin), roots) else ""


@cache
def own_program_paths() -> tuple[Path, ...]:
    """Return where our own code is: the package, the Python that runs it, and the packages that it may
    import.
    """
    own_package, dependencies = Path(__file__).parents[1], Path(msgspec.__file__).parents[1]
    user_packages = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    places = (own_package, dependencies, *prefixes, own_python(), user_packages)
    return tuple(sorted({Path(os.path.realpath(place)) for place in places if place}))
