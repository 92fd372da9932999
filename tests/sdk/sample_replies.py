"""Replies to be read by the official clients: a table of our own, and every recorded reply where the
recordings are present.
"""

import base64
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest

from toolglot.common.jsontext import dumps, loads
from toolglot.errors import ToolglotError
from toolglot.providers.catalog import resolve_profile
from toolglot.values.events import Event
from toolglot.values.messages import Media, Origin, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.codec import create_reader
from toolglot.wire.reply_encoding import ReplyEncoder, split_reply
from toolglot.wire.spec import WIRES

RECORDINGS = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "recordings"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
DOT = "R0lGODlhAQABAAAAACwAAAAAAQABAAA="

_LONG = {
    "path": 'C:\\temp\\new "file".txt',
    "body": "line 1\n\tline 2\r\n" * 40 + "\u0000\u001f </script> \\u0041 ☃ 🀄",
    "numbers": [0, -1, 1.5, 1e21, 12345678901234567890],
    "nested": {"empty": {}, "list": [], "none": None, "flags": [True, False], "ключ": {"a": [{"b": "c"}]}},
}


def call(id: str, name: str, arguments: dict[str, Any]) -> ToolCall:
    """A call with its arguments as text, as most wires stream it."""
    return ToolCall(id, name, arguments, dumps(arguments).decode())


REPLIES = {
    "text": Reply((Text("Good morning."),), usage=Usage(12, 4)),
    "unicode": Reply((Text('Grüße aus 東京 — 👩‍👩‍👧 🏳️‍🌈 \u202eabc\u202c \u0000 \t \\ " naïve e\u0301'),)),
    "line-separators": Reply((Text("one\u2028two\u2029three\u0085four"),)),
    "pieces": Reply((Text("The quick brown fox jumps over the lazy dog. " * 20),)),
    "thinking": Reply(
        (Thinking("First I add.\n\nThen I stop."), Text("42")), usage=Usage(9, 30, reasoning=25)
    ),
    "call": Reply((call("call_1", "get_weather", {"city": "Bergen"}),), "tools", Usage(50, 12)),
    "call-object": Reply((ToolCall("call_1", "get_weather", {"city": "Bergen", "days": 3}),), "tools"),
    "no-arguments": Reply((ToolCall("call_1", "list_files", {}),), "tools"),
    "empty-arguments": Reply((ToolCall("call_1", "list_files", {}, ""),), "tools"),
    "null-arguments": Reply((ToolCall("call_1", "list_files", {}, "null"),), "tools"),
    "parallel": Reply(
        (call("call_a", "add", {"x": 1}), call("call_b", "add", {"x": 2}), ToolCall("call_c", "done", {})),
        "tools",
    ),
    "text-then-call": Reply((Text("Let me look."), call("call_1", "read", {"path": "a.txt"})), "tools"),
    "thinking-text-calls": Reply(
        (
            Thinking("Two files."),
            Text("Reading both."),
            call("c-1", "read", {"p": "a"}),
            call("c-2", "read", {"p": "b"}),
        ),
        "tools",
        Usage(100, 60, reasoning=20),
    ),
    "long-arguments": Reply((call("call_1", "write", _LONG),), "tools"),
    "refusal": Reply((Text("I cannot help with that.", {"refusal": True}),), "refusal"),
    "length": Reply((Text("Once upon a"),), "length", Usage(7, 3)),
    "filtered": Reply((Text("Well"),), "filtered"),
    "freeform": Reply(
        (ToolCall("call_1", "patch", None, '*** Begin "Patch"\n+ a\n', freeform=True),), "tools"
    ),
    "cut-arguments": Reply((ToolCall("call_1", "add", None, '{"x": 17, "y'),), "length"),
    "broken-arguments": Reply((ToolCall("call_1", "add", None, "add(17, 25)"),), "tools"),
    "usage": Reply((Text("ok"),), usage=Usage(1000, 200, cached=600, cache_write=100, reasoning=150)),
    "empty": Reply(()),
}


class Seen(msgspec.Struct):
    """What a client read, in the words of its wire."""

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    stop: str
    usage: Usage
    media: list[str] = []


def to_seen(reply: Reply, stops: dict[StopReason, str]) -> Seen:
    """What a client should read of a reply. `stops`: the stop reasons that its wire has a word for."""
    return Seen(
        text=reply.text,
        thinking="".join(block.text for block in reply.blocks if isinstance(block, Thinking)),
        calls=[
            (call.id, flat_name(call), call.raw if call.arguments is None else call.arguments)
            for call in reply.calls
        ],
        stop=stops.get(reply.stop, ""),
        usage=reply.usage,
        media=[block.data for block in reply.blocks if isinstance(block, Media) and block.data],
    )


def as_objects(reply: Reply, seen: Seen) -> Seen:
    """Calls where a wire holds arguments as objects: text that is none stands in one."""
    for at, call in enumerate(reply.calls):
        if call.arguments is None:
            id, name, text = seen.calls[at]
            seen.calls[at] = id, name, {"input" if call.freeform else "invalid_arguments": text}
    return seen


def is_marked(reply: Reply) -> bool:
    """Whether a text of the reply is itself the refusal, as the OpenAI wires have it."""
    return any(isinstance(block, Text) and (block.opaque or {}).get("refusal") for block in reply.blocks)


def parse_arguments(text: str) -> Any:
    """Arguments as a client parses them; text that is no object stays text.

    Nothing and null mean no arguments.
    """
    try:
        value: Any = loads(text or "null")
    except ValueError:
        return text
    if value is None:
        return {}
    return cast(Any, value) if isinstance(value, dict) else text


def flat_name(call: ToolCall) -> str:
    """A call's name where a wire has no namespaces."""
    return f"{call.namespace}__{call.name}" if call.namespace else call.name


def agree(seen: Seen, expected: Seen, provider: str) -> None:
    """The client read what was said.

    An id or a name that the provider refuses may have become another, legal one;
    arguments that are `...` may be anything.
    """
    limits = resolve_profile(provider).limits
    if len(seen.calls) == len(expected.calls):
        assert len({id for id, _, _ in seen.calls}) == len({id for id, _, _ in expected.calls}), (
            f"ids of {seen.calls}"
        )
        for at, ((id, name, value), mine) in enumerate(zip(expected.calls, seen.calls, strict=True)):
            if id and not re.fullmatch(limits.call_id, id):
                assert re.fullmatch(limits.call_id, mine[0]), f"id {mine[0]!r}"
                id = mine[0]
            if not re.fullmatch(limits.name, name):
                assert re.fullmatch(limits.name, mine[1]), f"name {mine[1]!r}"
                name = mine[1]
            expected.calls[at] = id, name, mine[2] if value is ... else value
    if not expected.stop:  # the wire has no word for it
        seen.stop = ""
    for field in Seen.__struct_fields__:
        mine, theirs = getattr(seen, field), getattr(expected, field)
        assert mine == theirs, f"{field}: read {mine!r:.300}, said {theirs!r:.300}"


def stream(answer: ReplyEncoder, events: Iterable[Event]) -> bytes:
    """A whole stream."""
    return b"".join(answer.feed(event) for event in events)


def sse_data(data: bytes) -> Iterator[bytes]:
    """The data of each event of a stream that we wrote: one line each."""
    for event in data.split(b"\n\n"):
        if event and not event.endswith(b"data: [DONE]"):
            yield event.partition(b"data: ")[2]


def types_by_name(union: Any) -> dict[str, Any]:
    """The models of a client's union by the literal in their `type`."""
    return {
        get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(union)[0])
    }


def check_document(model: Any, document: Any, inner: Iterable[Any], ours: Container[str]) -> Any:
    """A document as the client reads it.

    The client checks nothing; we do, but for content that only other servers make.
    """
    if all(item["type"] in ours for item in inner):
        model.model_validate(document)
    return model.construct(**document)


class Recorded(msgspec.Struct):
    """One recorded reply, and the events that its bytes became."""

    id: str
    reply: Reply
    events: list[Event]


@cache
def recorded_replies() -> list[Recorded]:
    """Every recorded reply that can be decoded."""
    recordings: list[Recorded] = []
    for wire in WIRES:
        for line in (RECORDINGS / f"{wire}.jsonl").read_bytes().splitlines():
            record = json.loads(line)
            if record["status"] != 200:
                continue
            body = record["response_body"]
            is_binary = record.get("response_body_encoding") == "base64"
            data = base64.b64decode(body) if is_binary else body.encode("utf-8", "surrogatepass")
            reading = create_reader(
                wire, streaming=record["streaming"], content_type=record["response_content_type"] or ""
            )
            try:
                events = [*reading.feed(data), *reading.close()]
            except ToolglotError:
                continue
            recordings.append(Recorded(record["id"], reading.reply, events))
    return recordings


def each_recorded(check: Callable[[Recorded], None], every: int = 1) -> None:
    """Checks every n-th recorded reply and shows all that fail; skips the test where the recordings are
    absent.
    """
    if not RECORDINGS.is_dir():
        pytest.skip(f"no recordings at {RECORDINGS}")
    failed: list[str] = []
    for record in recorded_replies()[::every]:
        try:
            check(record)
        except Exception as e:
            failed.append(f"{record.id}: {type(e).__name__} {e!s:.400}")
    assert not failed, f"{len(failed)} of {len(recorded_replies()[::every])}:\n" + "\n".join(failed[:8])


TABLE = [Recorded(name, reply, list(split_reply(reply))) for name, reply in REPLIES.items()]
NAMES = list(REPLIES)


class Client(msgspec.Struct):
    """An official client: `body` and `stream` are what it reads of an answer, `said` what it should."""

    provider: str
    model: str
    answer: type[ReplyEncoder]
    expect: Callable[[Reply], Seen]
    body: Callable[[bytes], Seen]
    stream: Callable[[bytes], Seen]
    expect_streamed: Callable[[Reply], Seen] | None = None

    def answering(self, reply: Reply) -> ReplyEncoder:
        """An answer under the reply's own model where the wire is its own, so that its opaque state goes with
        it.
        """
        origin = reply.origin or Origin("")
        is_own = origin.wire == resolve_profile(self.provider).wire
        return self.answer(origin.model if is_own else self.model, origin=reply.origin)

    def reads_body(self, record: Recorded) -> None:
        """The reply as a body."""
        body = dumps(self.answering(record.reply).encode_reply(record.reply))
        agree(self.body(body), self.expect(record.reply), self.provider)

    def reads_stream(self, record: Recorded) -> None:
        """The reply as a stream."""
        self._reads(record, split_reply(record.reply, 400))

    def reads_events(self, record: Recorded) -> None:
        """The events that the recorded bytes became, written anew one by one."""
        self._reads(record, record.events)

    def _reads(self, record: Recorded, events: Iterable[Event]) -> None:
        data = stream(self.answering(record.reply), events)
        agree(self.stream(data), (self.expect_streamed or self.expect)(record.reply), self.provider)
