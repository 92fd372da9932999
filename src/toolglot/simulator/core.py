"""The simulator: a request in, an answer out. Pure: no I/O, no clock, no randomness; ids come from a counter.

One exchange: route -> rules (refusals) -> model -> faults -> the wire's own bytes.
"""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module

import msgspec
from msgspec.structs import replace

from toolglot.errors import UnknownName
from toolglot.events import ReplyDone, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady
from toolglot.jsontext import dumps
from toolglot.messages import Origin, Reply
from toolglot.providers.catalog import PROFILES, resolve
from toolglot.providers.profile import Profile
from toolglot.simulator import faults as on_demand
from toolglot.simulator.faults import Part, Reset, Stall
from toolglot.simulator.model import Script, Situation, respond, usage_of, with_thought
from toolglot.simulator.refusals import Refusal, error_body, error_frame, status_of
from toolglot.simulator.routes import find_route
from toolglot.simulator.rules import Asked, check
from toolglot.simulator.thoughts import dress, thinks
from toolglot.wire.answer import Answer, events_of
from toolglot.wire.codec import WIRES
from toolglot.wire.framing import json_array

__all__ = ["Part", "Reset", "Script", "SimulatedAnswer", "Simulator", "Stall"]

_CREATED = 1_700_000_000
_NUMBERS = re.compile(rb"resp_(\d{6})")  # in ids of items
_ANSWERS = {
    "openai-chat": ("openai_chat", "ChatAnswer"),
    "openai-responses": ("openai_responses", "ResponsesAnswer"),
    "anthropic-messages": ("anthropic", "AnthropicAnswer"),
    "gemini": ("gemini", "GeminiAnswer"),
    "ollama-chat": ("ollama", "OllamaAnswer"),
}
_IDS = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic-messages": "msg_"}
_SAYS = (TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady)
# What some vendors send before an answer, streamed.
_BEFORE = {
    "openrouter": b": OPENROUTER PROCESSING\n\n",
    "deepseek": b": keep-alive\n\n",
    **dict.fromkeys(
        ("azure-chat", "azure-dated-chat"),
        b'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}\n\n',
    ),
}


class SimulatedAnswer(msgspec.Struct):
    """An answer to be sent. Where the first part is a Reset or a Stall, not even the head is."""

    status: int
    headers: dict[str, str]
    parts: list[Part]

    @property
    def body(self) -> bytes:
        """All bytes of it."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))


class Simulator:
    """Stands in for every provider. One of them serves any number of conversations.

    script: what the model says, by turn. faults: one for each request, in order. models: the only names that exist.
    """

    def __init__(
        self, script: Script | None = None, *, faults: Iterable[str] = (), models: Collection[str] | None = None
    ) -> None:
        self._script = script
        self._faults = deque(faults)
        self._models = None if models is None else frozenset(models)
        self._fired: Counter[tuple[str, int, str]] = Counter()
        self._next = 1
        for fault in filter(None, self._faults):
            on_demand.named_fault(fault)  # raises UnknownName

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimulatedAnswer:
        """The answer to one request. `path` holds the query too; names of headers may be in any case."""
        if method == "GET" and path.partition("?")[0] in ("", "/"):
            return _json(
                200, {"simulator": "toolglot", "wires": WIRES, "profiles": sorted(PROFILES), "faults": on_demand.FAULTS}
            )
        route = find_route(path)
        profile = resolve(route.profile, route.model)
        try:
            asked = check(method, route, {name.lower(): value for name, value in headers.items()}, body, self._models)
            profile = asked.profile
            if profile.wire == "openai-responses":  # items are known by their ids, also those of another simulator
                self._next = max(self._next, *(int(one) + 1 for one in _NUMBERS.findall(body)), 1)
            situation = Situation.of(asked.request)
            fault, value = self._fault(asked, situation)
            return self._answer(asked, situation, fault, value)
        except Refusal as refusal:
            return self._refused(refusal, profile)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _fault(self, asked: Asked, situation: Situation) -> tuple[str, str]:
        """The fault of this request, if any."""
        try:
            if text := asked.headers.get("x-simulate"):
                return on_demand.named_fault(text)
            for name, times in situation.current.faults if situation.current else ():
                found = on_demand.named_fault(name)
                key = (situation.words, situation.turn, name)
                if self._fired[key] < times:
                    self._fired[key] += 1
                    return found
        except UnknownName as e:
            raise Refusal(str(e)) from None
        text = self._faults.popleft() if self._faults else ""
        return on_demand.named_fault(text) if text else ("", "")

    def _answer(self, asked: Asked, situation: Situation, fault: str, value: str) -> SimulatedAnswer:
        profile = asked.profile
        if fault == "html":
            return SimulatedAnswer(502, {"content-type": "text/html"}, [on_demand.HTML.encode()])
        if refusal := on_demand.refusal_for(fault, value, profile):
            return self._refused(refusal, profile)
        reply = self._reply(asked, situation, fault)
        broken = on_demand.refusal_for("overloaded" if profile.wire == "anthropic-messages" else "server-error", "", profile)
        assert broken is not None
        answer = _answer_class(profile.wire)(profile.model, created=_CREATED, origin=reply.origin)
        if not asked.stream:
            whole = [dumps(answer.body(reply))]
            return self._head(asked, on_demand.change_parts(fault, whole, 1, 1, lambda: dumps(error_body(broken, profile))))
        frames, first, last = _frames(answer, reply, asked)
        parts = on_demand.change_parts(fault, frames, first, last, lambda: error_frame(broken, profile))
        return self._head(asked, parts if asked.sse else _as_array(parts, whole=fault not in on_demand.CUT))

    def _reply(self, asked: Asked, situation: Situation, fault: str) -> Reply:
        """What the model says, with ids, state and counts."""
        reply = respond(asked.request, situation, self._script)
        profile = asked.profile
        thought = thinks(asked.request, profile)
        if thought:
            reply = with_thought(reply, situation)
        reply = on_demand.change_reply(fault, reply, profile, streamed=asked.stream)
        number = self._number()
        usage = usage_of(reply, asked.size)
        # an item of Responses that came after reasoning is known by its id: see `history`
        id = f"{_IDS.get(profile.wire, 'sim-')}{number:06d}{'r' * (thought and profile.wire == 'openai-responses')}"
        blocks = dress(reply.blocks, profile, self._number)
        if fault == "duplicate-ids":
            blocks = on_demand.same_ids(blocks)
        return replace(reply, blocks=blocks, usage=usage, id=reply.id or id, origin=Origin(profile.wire, "", profile.model))

    def _head(self, asked: Asked, parts: list[Part]) -> SimulatedAnswer:
        kind = "application/json"
        if asked.stream:
            lines = asked.profile.wire == "ollama-chat"
            kind = "application/x-ndjson" if lines else "text/event-stream" if asked.sse else kind
        return SimulatedAnswer(200, {"content-type": kind, "x-request-id": f"req_{self._number():06d}"}, parts)

    def _refused(self, refusal: Refusal, profile: Profile) -> SimulatedAnswer:
        answer = _json(status_of(refusal, profile), error_body(refusal, profile))
        if refusal.bare:
            answer = SimulatedAnswer(answer.status, {"content-type": "text/plain"}, [refusal.message.encode()])
        if refusal.wait is not None and (profile.wire != "gemini" or "GMT" in refusal.wait):
            answer.headers["retry-after"] = refusal.wait
        return answer


def _json(status: int, value: object) -> SimulatedAnswer:
    return SimulatedAnswer(status, {"content-type": "application/json"}, [dumps(value)])


@cache
def _answer_class(wire: str) -> type[Answer]:
    package, name = _ANSWERS[wire]
    return getattr(import_module(f"toolglot.wire.{package}.answer"), name)


def _frames(answer: Answer, reply: Reply, asked: Asked) -> tuple[list[bytes], int, int]:
    """The frames of a stream, how many it takes until something is said, and where the terminal begins."""
    end = b"\n" if asked.profile.wire == "ollama-chat" else b"\n\n"
    frames = [before] if (before := _BEFORE.get(asked.profile.id)) else []
    first = last = 0
    for event in events_of(reply):
        if isinstance(event, ReplyDone):
            last = len(frames)
        frames += [frame + end for frame in answer.feed(event).split(end) if frame]
        if not first and isinstance(event, _SAYS):
            first = len(frames)
    if not asked.usage:
        frames = [frame for frame in frames if b'"choices":[],"usage"' not in frame]
    return frames, first or 1, last


def _as_array(parts: list[Part], *, whole: bool) -> list[Part]:
    """Gemini without `alt=sse`: the frames are the items of one JSON array, which ends where the stream is whole."""
    said = [part.removeprefix(b"data: ").rstrip() for part in parts if isinstance(part, bytes)]
    pieces = list(json_array(said))
    return [*(pieces if whole else pieces[:-1]), *(part for part in parts if not isinstance(part, bytes))]
