"""The simulator: a request in, an answer out. Pure: no I/O, no clock, no randomness; ids come from a counter.

One exchange: route -> rules (refusals) -> model -> faults -> the wire's own bytes.
"""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from toolglot.errors import UnknownName
from toolglot.events import ReplyDone, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady
from toolglot.jsontext import dumps
from toolglot.messages import Origin, Reply
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.simulator import faults as on_demand
from toolglot.simulator.faults import Part, Reset, Stall
from toolglot.simulator.model import Script, Situation, add_thought, estimate_usage, respond
from toolglot.simulator.opaque_state import add_state, shows_thinking
from toolglot.simulator.refusals import Refusal, error_body, error_frame, http_status
from toolglot.simulator.request_rules import AcceptedRequest, check_request
from toolglot.simulator.routes import find_route
from toolglot.wire import spec
from toolglot.wire.codec import load_reply_encoder
from toolglot.wire.framing import encode_json_array
from toolglot.wire.reply_encoding import ReplyEncoder, split_reply

__all__ = ["Part", "Reset", "Script", "SimulatedResponse", "Simulator", "Stall"]

_CREATED = 1_700_000_000
_ITEM_NUMBER = re.compile(rb"resp_(\d{6})")  # in ids of items
_CONTENT_EVENTS = (TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady)
# What some vendors send before an answer, streamed.
_PREAMBLES = {
    "openrouter": b": OPENROUTER PROCESSING\n\n",
    "deepseek": b": keep-alive\n\n",
    **dict.fromkeys(
        ("azure-chat", "azure-dated-chat"),
        b'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}\n\n',
    ),
}


class SimulatedResponse(msgspec.Struct):
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
            on_demand.parse_fault(fault)  # raises UnknownName

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimulatedResponse:
        """The answer to one request. `path` holds the query too; names of headers may be in any case."""
        if method == "GET" and path.partition("?")[0] in ("", "/"):
            return _json_response(
                200, {"simulator": "toolglot", "wires": spec.WIRES, "profiles": sorted(PROFILES), "faults": on_demand.FAULTS}
            )
        route = find_route(path)
        profile = resolve_profile(route.profile, route.model)
        try:
            asked = check_request(method, route, {name.lower(): value for name, value in headers.items()}, body, self._models)
            profile = asked.profile
            if profile.wire == spec.OPENAI_RESPONSES:  # items are known by their ids, also those of another simulator
                self._next = max(self._next, *(int(one) + 1 for one in _ITEM_NUMBER.findall(body)), 1)
            situation = Situation.from_request(asked.request)
            fault, value = self._choose_fault(asked, situation)
            return self._respond(asked, situation, fault, value)
        except Refusal as refusal:
            return self._refuse(refusal, profile)

    def _next_number(self) -> int:
        self._next += 1
        return self._next - 1

    def _choose_fault(self, accepted: AcceptedRequest, situation: Situation) -> tuple[str, str]:
        """The fault of this request, if any."""
        try:
            if text := accepted.headers.get("x-simulate"):
                return on_demand.parse_fault(text)
            for name, times in situation.current_turn.faults if situation.current_turn else ():
                found = on_demand.parse_fault(name)
                key = (situation.user_text, situation.turn_index, name)
                if self._fired[key] < times:
                    self._fired[key] += 1
                    return found
        except UnknownName as e:
            raise Refusal(str(e)) from None
        text = self._faults.popleft() if self._faults else ""
        return on_demand.parse_fault(text) if text else ("", "")

    def _respond(self, accepted: AcceptedRequest, situation: Situation, fault: str, value: str) -> SimulatedResponse:
        profile = accepted.profile
        if fault == "html":
            return SimulatedResponse(502, {"content-type": "text/html"}, [on_demand.HTML_PAGE.encode()])
        if refusal := on_demand.make_refusal(fault, value, profile):
            return self._refuse(refusal, profile)
        reply = self._make_reply(accepted, situation, fault)
        broken = on_demand.make_refusal(
            "overloaded" if profile.wire == spec.ANTHROPIC_MESSAGES else "server-error", "", profile
        )
        assert broken is not None
        answer = load_reply_encoder(profile.wire)(profile.model, created=_CREATED, origin=reply.origin)
        if not accepted.stream:
            whole = [dumps(answer.encode_reply(reply))]
            return self._make_response(
                accepted, on_demand.apply_to_frames(fault, whole, 1, 1, lambda: dumps(error_body(broken, profile)))
            )
        frames, first, last = _encode_frames(answer, reply, accepted)
        parts = on_demand.apply_to_frames(fault, frames, first, last, lambda: error_frame(broken, profile))
        return self._make_response(
            accepted,
            parts if accepted.uses_sse else _join_as_array(parts, is_complete=fault not in on_demand.TRUNCATING_FAULTS),
        )

    def _make_reply(self, accepted: AcceptedRequest, situation: Situation, fault: str) -> Reply:
        """What the model says, with ids, state and counts."""
        reply = respond(accepted.request, situation, self._script)
        profile = accepted.profile
        thought = shows_thinking(accepted.request, profile)
        if thought:
            reply = add_thought(reply, situation)
        reply = on_demand.apply_to_reply(fault, reply, profile, streamed=accepted.stream)
        number = self._next_number()
        usage = estimate_usage(reply, accepted.size)
        # an item of Responses that came after reasoning is known by its id: see `history`
        id = (
            f"{spec.SPECS[profile.wire].reply_id_prefix}{number:06d}{'r' * (thought and profile.wire == spec.OPENAI_RESPONSES)}"
        )
        blocks = add_state(reply.blocks, profile, self._next_number)
        if fault == "duplicate-ids":
            blocks = on_demand.duplicate_ids(blocks)
        return replace(reply, blocks=blocks, usage=usage, id=reply.id or id, origin=Origin(profile.wire, "", profile.model))

    def _make_response(self, accepted: AcceptedRequest, parts: list[Part]) -> SimulatedResponse:
        kind = "application/json"
        if accepted.stream:
            kind = spec.SPECS[accepted.profile.wire].stream_type if accepted.uses_sse else kind
        return SimulatedResponse(200, {"content-type": kind, "x-request-id": f"req_{self._next_number():06d}"}, parts)

    def _refuse(self, refusal: Refusal, profile: Profile) -> SimulatedResponse:
        answer = _json_response(http_status(refusal, profile), error_body(refusal, profile))
        if refusal.is_plain_text:
            answer = SimulatedResponse(answer.status, {"content-type": "text/plain"}, [refusal.message.encode()])
        if refusal.retry_after is not None and (profile.wire != spec.GEMINI or "GMT" in refusal.retry_after):
            answer.headers["retry-after"] = refusal.retry_after
        return answer


def _json_response(status: int, value: object) -> SimulatedResponse:
    return SimulatedResponse(status, {"content-type": "application/json"}, [dumps(value)])


def _encode_frames(encoder: ReplyEncoder, reply: Reply, accepted: AcceptedRequest) -> tuple[list[bytes], int, int]:
    """The frames of a stream, how many it takes until something is said, and where the terminal begins."""
    end = spec.SPECS[accepted.profile.wire].frame_end
    frames = [before] if (before := _PREAMBLES.get(accepted.profile.id)) else []
    first = last = 0
    for event in split_reply(reply):
        if isinstance(event, ReplyDone):
            last = len(frames)
        frames += [frame + end for frame in encoder.feed(event).split(end) if frame]
        if not first and isinstance(event, _CONTENT_EVENTS):
            first = len(frames)
    if not accepted.reports_usage:
        frames = [frame for frame in frames if b'"choices":[],"usage"' not in frame]
    return frames, first or 1, last


def _join_as_array(parts: list[Part], *, is_complete: bool) -> list[Part]:
    """Gemini without `alt=sse`: the frames are the items of one JSON array, which ends where the stream is whole."""
    said = [part.removeprefix(b"data: ").rstrip() for part in parts if isinstance(part, bytes)]
    pieces = list(encode_json_array(said))
    return [*(pieces if is_complete else pieces[:-1]), *(part for part in parts if not isinstance(part, bytes))]
