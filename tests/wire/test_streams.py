"""The streams of this repository: recorded from the simulator, and written by hand for each oddity of a real
server.

`expected.json` has the complete reply, or the error, for each of them.
"""

import runpy
from pathlib import Path
from typing import Any

import pytest

from toolglot.common.jsontext import dumps, loads_object
from toolglot.errors import ToolglotError
from toolglot.wire.codec import create_reader
from toolglot.wire.spec import WIRES

RECORD = runpy.run_path(str(Path(__file__).parent / "streams" / "record.py"))


def describe(wire: str, data: bytes) -> dict[str, Any]:
    """Return everything that is read from a stream, in the form of expected.json."""
    reader = create_reader(wire)
    try:
        reader.feed(data)
        reader.close()
    except ToolglotError as error:
        return {"error": error.type, "message": str(error)}
    fields = loads_object(dumps(reader.reply))
    losses = [str(loss) for loss in reader.losses]
    return {"calls": len(reader.reply.calls), **fields, **({"losses": losses} if losses else {})}


def test_every_stream_is_read_as_expected(streamed: dict[str, Any]) -> None:
    if "expected" in streamed:  # the others are recordings
        assert describe(streamed["api"], streamed["bytes"]) == streamed["expected"]


@pytest.mark.parametrize("wire", WIRES)
def test_no_stream_is_forgotten(wire: str) -> None:
    folder = Path(__file__).parent / "streams" / wire
    names = {file.name for file in folder.iterdir()} - {"expected.json"}
    assert names == loads_object((folder / "expected.json").read_bytes()).keys()


@pytest.mark.parametrize("name", RECORD["PROMPTS"])
@pytest.mark.parametrize("wire", WIRES)
def test_the_simulator_still_sends_what_was_recorded(wire: str, name: str) -> None:
    assert RECORD["simulate"](wire, RECORD["PROMPTS"][name]) == RECORD["stream_path"](wire, name).read_bytes()
