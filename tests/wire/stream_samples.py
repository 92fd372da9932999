"""Documents of the streams of this repository, to be mutated, and the frames of large streams."""

import json
from pathlib import Path
from typing import Any

from reply_reading import Doc, lines_of, sse_of

from aws_events import encode_aws_event
from toolglot.wire.spec import WIRES


def chunk(delta: Any, reason: Any = None, **top: Any) -> Doc:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        **top,
    }


def tool(index: int, arguments: Any, **fields: Any) -> Doc:
    return chunk(
        {
            "tool_calls": [
                {
                    "index": index,
                    "function": {"arguments": arguments, **fields},
                    "id": fields and f"id{index}",
                }
            ]
        }
    )


def item(index: int, step: str, **fields: Any) -> Doc:
    return {
        "type": f"response.output_item.{step}",
        "output_index": index,
        "item": {"id": f"i{index}", **fields},
    }


def delta(kind: str, index: int, **fields: Any) -> Doc:
    return {
        "type": f"response.{kind}.delta",
        "output_index": index,
        "content_index": 0,
        "delta": "x",
        **fields,
    }


def block(step: str, index: int, **fields: Any) -> Doc:
    return {"type": f"content_block_{step}", "index": index, **fields}


def part(*parts: Doc, **candidate: Any) -> Doc:
    content = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}
    return {
        "candidates": [content],
        "modelVersion": "m",
        "responseId": "r",
        "usageMetadata": {"promptTokenCount": 3},
    }


def line(done: bool = False, **message: Any) -> Doc:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": "x", **message},
        "done": done,
        "done_reason": "stop",
    }


CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a":1}'}


def _documents(path: Path) -> list[Doc]:
    """The documents of a stream that has one line of data per event."""
    lines = (line.removeprefix(b"data: ") for line in path.read_bytes().splitlines())
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def _good_streams(wire: str) -> list[list[Doc]]:
    folder = Path(__file__).parent / "streams" / wire
    expected = json.loads((folder / "expected.json").read_bytes())
    # What is odd about these is not in their documents.
    odd = {
        "crlf-bom-and-split-data.sse",
        "lone-surrogate.sse",
        "done-without-finish-reason.sse",
        "empty-finish-reason.sse",
    }
    names = [name for name in expected if "error" not in expected[name] and name not in odd]
    return [_documents(folder / name) for name in names if not name.endswith(".json")]


STREAMS: dict[str, list[list[Doc]]] = {wire: _good_streams(wire) for wire in WIRES}


def frames_of(wire: str, *docs: Doc) -> bytes:
    return lines_of(*docs) if wire == "ollama-chat" else sse_of(*docs)


def in_aws(wire: str, doc: Doc) -> bytes:
    return encode_aws_event(json.dumps(doc).encode())
