"""Shared fixtures: the recordings next to the project, where they are present."""

import asyncio
import base64
import importlib
import inspect
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import toolglot
from toolglot.cli.logging_setup import THIRD_PARTY_LOGGERS
from toolglot.common.jsontext import loads_object
from toolglot.engine.signin import environment
from toolglot.engine.signin.environment import ENTRA_SECRETS
from toolglot.providers.catalog import PROFILES
from toolglot.wire.spec import WIRES

# A run in the background has Ctrl-C ignored, and what it starts inherits that: the tests that send it need it
# back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, however busy the machine is. `make test-all` looks for others.
settings.register_profile("toolglot", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, derandomize=False, database=None, print_blob=True)
settings.load_profile("toolglot")

# Nobody's own configuration, keys or files.
_HOME = tempfile.TemporaryDirectory(prefix="toolglot-tests-")
Path(_HOME.name, "config.toml").touch()
os.environ |= {
    "TOOLGLOT_STATE": f"{_HOME.name}/state",
    "TOOLGLOT_CONFIG": f"{_HOME.name}/config.toml",
    "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    "AZURE_TOKEN_CREDENTIALS": "environmentcredential",
    "NO_GCE_CHECK": "true",
    "CLOUDSDK_CONFIG": f"{_HOME.name}/gcloud",
}
_NAMED = {name for row in PROFILES.values() for name in (*row.key_env, *row.token_env, *row.base_env)}
for _name in (
    set[str]()
    if os.environ.get("TOOLGLOT_LIVE_MODELS")
    else _NAMED | {*ENTRA_SECRETS, "TOOLGLOT_MODEL", "GOOGLE_APPLICATION_CREDENTIALS"}
):
    os.environ.pop(_name, None)

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
SHARED = Path(__file__).parent.parent.parent / "shared"
ABSENT = f"needs the recorded exchanges, and {SHARED} is absent"

Recording = dict[str, Any]


ASYNC_TIMEOUT = 60
MAX_IDLE_CASES = 4
_idle_cases: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests, each on an event loop of its own; one that hangs fails."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def run() -> None:  # in one task, so that a test can say that no other is left
        async with asyncio.timeout(ASYNC_TIMEOUT):
            await pyfuncitem.obj(**arguments)

    asyncio.run(run())
    return True


@cache
def _load_everything() -> None:
    """So that no module is met for the first time by a test that coverage does not watch."""
    for module in pkgutil.walk_packages(toolglot.__path__, "toolglot."):
        importlib.import_module(module.name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Coverage does not watch how tests are found."""
    tracer = sys.gettrace()
    # else the workers find them
    if tracer is not None and not session.config.getoption("numprocesses", None):
        _load_everything()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def _count_lines() -> int | None:
    """Return how much coverage has seen in this process; None where it does not watch."""
    coverage: Any = sys.modules.get("coverage")
    current = coverage and coverage.Coverage.current()
    return sum(map(len, current._collector.data.values())) if current else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage doubles the time of what it watches.

    It does not watch a test that is marked `untraced`, nor the cases of a test
    after some that reached no new line. Programs that tests start are watched where they are what is
    tested."""
    before = _count_lines()
    if before is None:
        return (yield)
    tracer, test, coverage_config = sys.gettrace(), item.nodeid.partition("[")[0], None
    is_watched = item.get_closest_marker("untraced") is None and _idle_cases[test] < MAX_IDLE_CASES
    if not is_watched or not item.path.is_relative_to(TESTS / "builtin"):
        coverage_config = os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    sys.settrace(tracer if is_watched else None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        if is_watched:
            _idle_cases[test] = 0 if _count_lines() != before else _idle_cases[test] + 1
        if coverage_config is not None:
            os.environ["COVERAGE_PROCESS_CONFIG"] = coverage_config


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests counted: `record_property("summary", …)`."""
    reports = [report for group in ("passed", "failed") for report in terminalreporter.stats.get(group, [])]
    for line in sorted(
        {str(value) for report in reports for key, value in report.user_properties if key == "summary"}
    ):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _nothing_stays_hidden() -> Iterator[None]:
    """A command that is run in this process hides keys and sets up logging: the next test has its own."""
    loggers = [logging.getLogger(name) for name in ("toolglot", *THIRD_PARTY_LOGGERS)]
    before = [(logger, logger.level, [*logger.handlers]) for logger in loggers]
    yield
    environment._hidden_keys.clear()  # pyright: ignore[reportPrivateUsage]
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def isolated_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, and a home without any key or setting of the real user.

    Logging and modules are restored.
    """
    original, modules, logger = dict(os.environ), set(sys.modules), logging.getLogger("toolglot")
    level, handlers = logger.level, list(logger.handlers)
    for name in original:
        if name.startswith(("TOOLGLOT_", "XDG_")) or name in environment.KEY_VARIABLES:
            del os.environ[name]
    (home := tmp_path.with_name(f"{tmp_path.name}-home")).mkdir()  # not in the workspace
    os.environ["HOME"] = os.environ["USERPROFILE"] = str(home)
    user_file = tmp_path / "user" / "config.toml"
    user_file.parent.mkdir()
    user_file.touch()
    os.environ["TOOLGLOT_CONFIG"] = str(user_file)
    os.environ["TOOLGLOT_STATE"] = str(tmp_path / "state")
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "_hidden_keys", {})
    monkeypatch.setattr(environment, "_extra_names", set[str]())
    yield tmp_path
    os.environ.clear()
    os.environ.update(original)
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)
    for name in set(sys.modules) - modules:  # tools of one test must not be found by the next
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@cache
def _recordings(wire: str) -> list[Recording]:
    lines = (SHARED / "corpus" / "recordings" / f"{wire}.jsonl").read_bytes().splitlines()
    records = [loads_object(line) for line in lines]
    for record in records:
        body: str = record["response_body"]
        record["bytes"] = (
            base64.b64decode(body) if record.get("response_body_encoding") == "base64" else body.encode()
        )
    return records


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED


@pytest.fixture(scope="session")
def recordings(shared: Path) -> Callable[[str], list[Recording]]:
    """The recorded exchanges of a wire; `bytes` is the response's body."""
    return _recordings


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source distribution of this checkout."""
    for package in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(package, reason=f"builds the package, and {package} is not installed")
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", directory],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return directory


@pytest.fixture(scope="session")
def wheel_environment(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the built wheel; the packages that it needs are those that the tests run with."""
    directory = tmp_path_factory.mktemp("installed")
    venv.create(directory, symlinks=True)
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        directory / "bin/python",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*install, *distributions.glob("*.whl")], check=True)
    paths = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
    (next(directory.glob("lib/python*/site-packages")) / "base.pth").write_text(
        "\n".join(paths), encoding="utf-8"
    )
    return directory


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `streamed` runs once for every stream of this repository and every streamed
    recording.
    """
    if "streamed" not in metafunc.fixturenames:
        return
    records = _own_streams()
    if SHARED.is_dir():
        every = (record for wire in WIRES for record in _recordings(wire))
        records = [*records, *(record for record in every if record["streaming"] and record["status"] == 200)]
    metafunc.parametrize("streamed", records, ids=[record["id"] for record in records])


@cache
def _own_streams() -> list[Recording]:
    """The streams of this repository, in the form of recordings: a fresh clone checks the laws on them."""
    records: list[Recording] = []
    for folder in sorted((Path(__file__).parent / "wire" / "streams").iterdir()):
        if not (folder / "expected.json").is_file():
            continue
        for name, expected in loads_object((folder / "expected.json").read_bytes()).items():
            record = {"id": f"{folder.name}/{name}", "api": folder.name, "response_content_type": ""}
            calls = expected.get("calls", 0)
            records.append(
                {**record, "bytes": (folder / name).read_bytes(), "n_tool_calls": calls, "expected": expected}
            )
    return records
