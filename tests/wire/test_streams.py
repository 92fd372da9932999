"""The streams of this repository: recorded from the simulator, and written by hand for each oddity of a real server."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from toolglot.errors import ToolglotError
from toolglot.jsontext import loads_object
from toolglot.messages import Foreign, Media, Thinking
from toolglot.wire.codec import create_reader
from toolglot.wire.json_values import as_dict
from toolglot.wire.spec import WIRES

RECORD = runpy.run_path(str(Path(__file__).parent / "streams" / "record.py"))


def describe(wire: str, data: bytes) -> dict[str, Any]:
    """Return what is read from a stream, in the form of expected.json."""
    reader = create_reader(wire)
    try:
        reader.feed(data)
        reader.close()
    except ToolglotError as error:
        return {"error": error.type}
    reply = reader.reply
    assert reply is not None
    usage = reply.usage
    state = {key for block in reply.blocks if not isinstance(block, Foreign) for key in block.opaque or {}}
    fields = {
        "text": reply.text,
        "thinking": "".join(block.text for block in reply.blocks if isinstance(block, Thinking)),
        "calls": [[call.name, call.raw if call.arguments is None else call.arguments] for call in reply.calls],
        "other": [
            block.kind if isinstance(block, Media) else as_dict(block.item).get("type") or next(iter(block.item))
            for block in reply.blocks
            if isinstance(block, Media | Foreign)
        ],
        "state": sorted({*state, *(reply.opaque or {})}),
        "usage": [usage.input, usage.output, usage.cached, usage.reasoning] if usage.input else [],
        "losses": [loss.subject for loss in reader.losses],
    }
    return {"stop": reply.stop, **{key: value for key, value in fields.items() if value}}


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
