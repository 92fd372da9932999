"""A user's program (`typed_consumer.py`) passes strict type checkers against the package as it is installed."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from toolglot.engine.factory import EngineOptions, UrlParameters, create_engine
from toolglot.loop.agent_core import AgentCore, AgentOptions
from toolglot.providers.catalog import PROFILES

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program beside an environment with toolglot's files, as a wheel has them, and the packages it needs."""
    directory = tmp_path_factory.mktemp("consumer")
    venv.create(directory / "env", with_pip=False, symlinks=True)
    packages = next((directory / "env").glob("lib/python*/site-packages"))
    shutil.copytree(ROOT / "src" / "toolglot", packages / "toolglot", ignore=shutil.ignore_patterns("__pycache__"))
    paths = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
    (packages / "base.pth").write_text("\n".join(paths), encoding="utf-8")
    shutil.copy(ROOT / "tests" / "typed_consumer.py", directory)
    return directory


def check(project: Path, *command: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_strict(project: Path) -> None:
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "include": ["typed_consumer.py"]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    check(project, "pyright", "--warnings", "--pythonpath", project / "env/bin/python")


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_strict(project: Path) -> None:
    check(project, "mypy", "--strict", "--python-executable", project / "env/bin/python", "typed_consumer.py")


def test_the_program_runs(project: Path) -> None:
    code = "import asyncio, typed_consumer as c; c.check_tools(); asyncio.run(c.main())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=project, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_options_that_are_passed_on_are_those_of_the_functions() -> None:
    parameters = {name for profile in PROFILES.values() for name in profile.url_parameter_env}
    assert set(UrlParameters.__annotations__) == parameters
    engine = set(create_engine.__annotations__) - {"model", "url_parameters", "return"}
    assert set(EngineOptions.__annotations__) == engine | parameters
    agent = set(AgentCore.__init__.__annotations__) - {"model", "engine", "return"}
    assert set(AgentOptions.__annotations__) == agent | set(EngineOptions.__annotations__)
