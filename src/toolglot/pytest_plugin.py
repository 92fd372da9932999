"""A plugin for pytest: the fixture `recorded_transport` replays what a provider once answered.

pytest                     replays; needs no key and no network
pytest --toolglot-record   asks the providers, and writes the recordings of the tests that run
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this module in every project: the rest is imported when it is used
    from toolglot.engine.transport import Transport

_OPTION = "--toolglot-record"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records."""
    parser.getgroup("toolglot").addoption(_OPTION, action="store_true", help="Record the tests that use recorded_transport.")


@pytest.fixture
def recorded_transport(request: pytest.FixtureRequest) -> "Transport":
    """A transport for this test, whose recording is in `recordings/MODULE/TEST.jsonl` beside the test."""
    from toolglot.engine.factory import default_transport
    from toolglot.engine.recording import RecordingTransport, ReplayTransport

    test: Path = request.path
    name = re.sub(r"[^\w.-]+", "-", request.node.nodeid.partition("::")[2]).strip("-")
    path = test.parent / "recordings" / test.stem / f"{name}.jsonl"
    if request.config.getoption(_OPTION):
        path.parent.mkdir(parents=True, exist_ok=True)
        return RecordingTransport(default_transport(), path)
    if not path.exists():
        pytest.fail(f"there is no recording {str(path)!r}: run pytest {_OPTION} to make it", pytrace=False)
    return ReplayTransport(path)
