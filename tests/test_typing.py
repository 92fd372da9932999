"""A user's program (`typed_consumer.py`) passes strict type checkers against the package as it is installed."""

import inspect
import json
import pydoc
import shutil
import subprocess
import sys
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

import pytest

import toolglot
from toolglot.engine.factory import EngineOptions, UrlParameters, create_engine
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import AgentConfig, AgentOptions
from toolglot.loop.conversation_state import RunOptions
from toolglot.providers.catalog import PROFILES
from toolglot.tools.options import ToolOptions

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the program, and nothing of this project."""
    directory = tmp_path_factory.mktemp("consumer")
    shutil.copy(ROOT / "tests" / "typed_consumer.py", directory)
    return directory


def check(project: Path, *command: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_strict(project: Path, wheel_environment: Path) -> None:
    settings = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "include": ["typed_consumer.py"],
    }
    (project / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    check(project, "pyright", "--warnings", "--pythonpath", wheel_environment / "bin/python")


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_strict(project: Path, wheel_environment: Path) -> None:
    cache = ("--cache-dir", project / "cache")
    check(
        project,
        "mypy",
        "--strict",
        *cache,
        "--python-executable",
        wheel_environment / "bin/python",
        "typed_consumer.py",
    )


def test_the_program_runs(project: Path, wheel_environment: Path) -> None:
    code = (
        "import runpy, toolglot; runpy.run_path('typed_consumer.py', run_name='__main__'); "
        "print(toolglot.__file__)"
    )
    command = [wheel_environment / "bin/python", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(str(wheel_environment))


def test_options_that_are_passed_on_are_those_of_the_functions() -> None:
    parameters = {name for profile in PROFILES.values() for name in profile.url_parameter_env}
    assert set(UrlParameters.__annotations__) == parameters
    engine = set(create_engine.__annotations__) - {"model", "url_parameters", "return"}
    assert set(EngineOptions.__annotations__) == engine | parameters
    agent = {*AgentConfig.__struct_fields__, "conversation", "fallbacks", "approval_mode"}
    assert set(AgentOptions.__annotations__) == agent | set(EngineOptions.__annotations__)
    for method in (Agent.run, Agent.run_sync, Agent.stream, Agent.stream_sync):
        assert set(signature(method).parameters) == {
            "self",
            "prompt",
            "output_type",
            *RunOptions.__annotations__,
        }


def test_help_names_every_option() -> None:
    agent = toolglot.Agent
    for function, options in (
        (toolglot.tool, ToolOptions), (toolglot.tool_from_definition, ToolOptions), (toolglot.Tool, ToolOptions),
        (toolglot.create_engine, EngineOptions), (agent.switch, EngineOptions),
        (agent, AgentOptions), (agent.load, AgentOptions), (toolglot.from_config, AgentOptions),
    ):  # fmt: skip
        parameters = inspect.signature(function).parameters
        assert {*options.__annotations__} <= {*parameters}, function
        assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()), function
    assert "timeout: float | None = …" in pydoc.plain(pydoc.render_doc(toolglot.tool))
