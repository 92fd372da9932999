"""A plugin for pytest: the fixture `recorded_transport` replays what a provider once answered.

pytest                     replays; needs no key and no network
pytest --toolglot-record   asks the providers, and writes the recordings of the tests that pass
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

if TYPE_CHECKING:  # pytest loads this module in every project: the rest is imported when it is used
    from toolglot.engine.transport import Transport

_OPTION = "--toolglot-record"
_MAX_NAME_LENGTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records."""
    parser.getgroup("toolglot").addoption(
        _OPTION, action="store_true", help="Record the tests that use recorded_transport."
    )


@pytest.fixture
def recorded_transport(request: pytest.FixtureRequest) -> "Iterator[Transport]":
    """A transport for this test, whose recording is in `recordings/MODULE/TEST.jsonl` beside the test."""
    from toolglot.engine.factory import default_transport
    from toolglot.engine.recording import RecordingTransport, ReplayTransport

    path = _recording_path(request)
    if request.config.getoption(_OPTION):
        directories: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        new, failures = directories.mktemp("toolglot") / "recording.jsonl", request.session.testsfailed
        transport = RecordingTransport(default_transport(), new)
        yield transport
        if failure := transport._file.failure:  # pyright: ignore[reportPrivateUsage]
            pytest.fail(f"{failure}; {str(path)!r} was left as it was", pytrace=False)
        if request.session.testsfailed == failures:  # a failed test keeps the recording that it had
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(new.read_bytes())
    elif path.exists():
        yield ReplayTransport(path)
    else:
        pytest.fail(f"there is no recording {str(path)!r}: run pytest {_OPTION} to make it", pytrace=False)


def _recording_path(request: pytest.FixtureRequest) -> Path:
    """A file of its own for every test. Not named by its id, which pytest-xdist changes."""
    test: Path = request.path
    function, _, parameters = request.node.name.partition("[")
    name = re.sub(r"[^\w.-]+", "-", parameters.removesuffix("]")).strip("-")
    # two tests may be equal but for this
    if parameters and (name + "]" != parameters or len(name) > _MAX_NAME_LENGTH):
        name = f"{name[:_MAX_NAME_LENGTH]}-{crc32(parameters.encode()):08x}"
    group: type | None = getattr(request, "cls", None)  # pytest does not say of which type it is
    parts = (group.__qualname__ if group else "", function, name)
    return test.parent / "recordings" / test.stem / f"{'-'.join(filter(None, parts))}.jsonl"
