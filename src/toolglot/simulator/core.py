"""The simulator: a request in, a response out.

Pure: no I/O, no clock, no randomness; ids come from a counter.

One exchange: route -> rules (refusals) -> model -> faults -> the wire's own bytes.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps
from toolglot.common.value_checks import as_items, check_arguments
from toolglot.errors import UnknownName, UsageError
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.simulator import faults as on_demand
from toolglot.simulator.endpoints import answer_action, answer_probe, find_listing, list_models
from toolglot.simulator.faults import Part, Reset, Stall
from toolglot.simulator.model import Script, Situation, add_thought, estimate_usage, play_script, respond
from toolglot.simulator.opaque_state import add_searches, add_state, shows_thinking
from toolglot.simulator.prompt_cache import PromptCache
from toolglot.simulator.request_rules import AcceptedRequest, check_request
from toolglot.simulator.routes import find_route
from toolglot.simulator.wires.base import Refusal, load_rules
from toolglot.values.events import ReplyDone, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady
from toolglot.values.messages import Origin, Reply
from toolglot.wire import spec
from toolglot.wire.codec import load_reply_encoder
from toolglot.wire.framing import encode_json_array
from toolglot.wire.json_values import as_dict
from toolglot.wire.reply_encoding import ReplyEncoder, split_reply

__all__ = ["Part", "Reset", "Script", "SimulatedResponse", "Simulator", "Stall"]

_Fired = Counter[tuple[str, int, str]]
_CREATED = 1_700_000_000
_ITEM_NUMBER = re.compile(rb"resp_(\d{6})")  # in the ids of items
_CONTENT_EVENTS = (TextDelta, ThinkingDelta, ToolCallDelta, ToolCallReady)
# What some vendors stream before a reply.
_PREAMBLES = {
    "openrouter": b": OPENROUTER PROCESSING\n\n",
    "deepseek": b": keep-alive\n\n",
    **dict.fromkeys(
        ("azure-chat", "azure-dated-chat"),
        b'data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}\n\n',
    ),
}


class SimulatedResponse(msgspec.Struct):
    """A response to send. If the first part is a Reset or a Stall, not even the head is sent."""

    status: int
    headers: dict[str, str]
    parts: list[Part]

    @property
    def body(self) -> bytes:
        """All bytes of the body."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))


class Simulator:
    """Simulates every provider, for any number of conversations.

    Args:
        script: What the model says, turn by turn.
        faults: One per request, in order; "" lets a request pass.
        clock: Returns seconds, such as `time.monotonic`, for the expiry of prompt caches. Without a clock,
            they never expire.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        faults: Iterable[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        words = "a Script, as in Simulator(Script(['say hi']))"
        check_arguments({"script": script}, {"script": ((Script, NoneType), words)})
        self._script, self._all_faults, self._clock = script, as_items(faults), clock
        self._next = 1
        for fault in filter(None, self._all_faults):
            on_demand.parse_fault(fault)  # raises UnknownName
        self.reset()

    def reset(self) -> None:
        """Forget which faults have happened, and all prompt caches."""
        self._faults = deque(self._all_faults)
        self._fired: _Fired = Counter()
        self._fired_by_connection: WeakKeyDictionary[object, _Fired] = WeakKeyDictionary()
        self._prompt_cache = PromptCache(self._clock)

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, connection: object = None
    ) -> SimulatedResponse:
        """Return the response to one request. `path` includes the query; header names may be in any case.

        Faults that prompts request are counted for each `connection`, so that another program gets them, too.
        """
        if method == "POST" and path.partition("?")[0] == "/reset":
            self.reset()
            return SimulatedResponse(204, {}, [b""])
        if method in ("GET", "HEAD") and path.partition("?")[0] in ("", "/"):
            about = {
                "simulator": "toolglot",
                "wires": spec.WIRES,
                "profiles": sorted(PROFILES),
                "faults": on_demand.FAULTS,
            }
            return SimulatedResponse(200, {"content-type": "application/json"}, [dumps(about)])
        route = find_route(path)
        profile = resolve_profile(route.profile, route.model)
        try:
            lower_headers = {name.lower(): value for name, value in headers.items()}
            answer = answer_probe(method, path, body)
            if listing := find_listing(method, path, lower_headers):
                profile = resolve_profile(*listing)  # which a refusal follows
                answer = list_models(*listing)
            if answer is not None:
                return SimulatedResponse(200, {"content-type": "application/json"}, [dumps(answer)])
            accepted = check_request(method, route, lower_headers, body)
            profile = accepted.profile
            if route.action:
                answer = answer_action(route.action, accepted, self._next_number(), _CREATED)
                return SimulatedResponse(200, {"content-type": "application/json"}, [dumps(answer)])
            # item ids must be new, also after a conversation with another simulator
            if profile.wire == spec.OPENAI_RESPONSES:
                self._next = max(self._next, *(int(number) + 1 for number in _ITEM_NUMBER.findall(body)), 1)
            try:
                situation = Situation.from_request(accepted.request)
            except UsageError as e:
                raise Refusal(f"Simulator: {e}") from None
            fault, value = self._choose_fault(accepted, situation, connection)
            if fault == "html":
                return SimulatedResponse(502, {"content-type": "text/html"}, [on_demand.HTML_PAGE.encode()])
            if refusal := on_demand.make_refusal(fault, value, profile):
                raise refusal
            return self._respond(accepted, situation, fault)
        except Refusal as refusal:
            return self._refuse(refusal, profile)

    def _next_number(self) -> int:
        self._next += 1
        return self._next - 1

    def _choose_fault(
        self, accepted: AcceptedRequest, situation: Situation, connection: object
    ) -> tuple[str, str]:
        """Return the fault of this request and its value, or two empty strings."""
        try:
            if text := accepted.headers.get("x-simulate"):
                return on_demand.parse_fault(text)
            if fault := self._choose_prompted_fault(situation, connection):
                return fault
        except UnknownName as e:
            raise Refusal(str(e)) from None
        text = self._faults.popleft() if self._faults else ""
        return on_demand.parse_fault(text) if text else ("", "")

    def _choose_prompted_fault(self, situation: Situation, connection: object) -> tuple[str, str] | None:
        """Return the next fault that the prompt requests. Raises UnknownName."""
        on_this = (
            self._fired if connection is None else self._fired_by_connection.setdefault(connection, Counter())
        )
        for name, times in situation.current_turn.faults if situation.current_turn else ():
            fault = on_demand.parse_fault(name)
            key = (situation.user_text, situation.turn_index, name)
            fired = self._fired if fault[0] in on_demand.RETRIED_FAULTS else on_this
            if fired[key] < times:
                fired[key] += 1
                return fault
        # this reply is complete: the next program gets the faults that it retries again
        if connection is not None:
            for key in [key for key in self._fired if key[:2] == (situation.user_text, situation.turn_index)]:
                del self._fired[key]
        return None

    def _respond(self, accepted: AcceptedRequest, situation: Situation, fault: str) -> SimulatedResponse:
        profile, rules = accepted.profile, load_rules(accepted.profile.wire)
        wire = spec.SPECS[profile.wire]
        reply = self._make_reply(accepted, situation, fault)
        encoder = load_reply_encoder(profile.wire)(profile.model, created=_CREATED, origin=reply.origin)
        encoder.request_body = accepted.body
        broken = Refusal(rules.wordings[f"fault {rules.stream_fault}"], rules.stream_fault)
        content_type = "application/json"
        if not accepted.stream:
            body = [dumps(encoder.encode_reply(reply))]
            parts = on_demand.apply_to_frames(
                fault, body, 1, 1, lambda: dumps(rules.error_body(broken, profile))
            )
        else:
            frames, first, last = _encode_frames(encoder, reply, accepted)
            parts = on_demand.apply_to_frames(
                fault, frames, first, last, lambda: rules.error_frame(broken, profile)
            )
            if accepted.uses_sse:
                content_type = wire.stream_type
            else:
                # The frames are the items of one JSON array, closed only if the stream is complete.
                documents = [
                    part.removeprefix(b"data: ").rstrip() for part in parts if isinstance(part, bytes)
                ]
                pieces = list(encode_json_array(documents))
                if fault in on_demand.TRUNCATING_FAULTS:
                    pieces = pieces[:-1]
                ends = [part for part in parts if not isinstance(part, bytes)]
                parts = [*pieces, *ends]
        return SimulatedResponse(
            200, {"content-type": content_type, "x-request-id": f"req_{self._next_number():06d}"}, parts
        )

    def _make_reply(self, accepted: AcceptedRequest, situation: Situation, fault: str) -> Reply:
        """Return what the model says, with ids, opaque state and usage."""
        profile = accepted.profile
        has_objects = on_demand.has_object_arguments(profile, streamed=accepted.stream)
        reply = play_script(self._script, accepted.request) if self._script else None
        reply = reply or respond(accepted.request, situation, object_arguments=has_objects)
        thinks = shows_thinking(accepted.request, profile)
        if thinks:
            # OpenAI shows a summary of the reasoning only if the request asks for one; Anthropic leaves it
            # out on request.
            is_hidden = profile.wire == spec.OPENAI_RESPONSES and not as_dict(
                accepted.body.get("reasoning")
            ).get("summary")
            is_omitted = as_dict(accepted.body.get("thinking")).get("display") == "omitted"
            reply = add_thought(reply, situation, is_hidden=is_hidden or is_omitted)
        reply = on_demand.apply_to_reply(fault, reply, profile, streamed=accepted.stream)
        # The `r` marks items that came after reasoning: see `wires.openai_responses`.
        mark = "r" if thinks and profile.wire == spec.OPENAI_RESPONSES else ""
        id = f"{spec.SPECS[profile.wire].reply_id_prefix}{self._next_number():06d}{mark}"
        usage = estimate_usage(reply, self._prompt_cache.use(profile, accepted.body))
        blocks = add_state(reply.blocks, profile, self._next_number)
        blocks = add_searches(blocks, profile.wire, accepted.body, self._next_number)
        if fault == "duplicate-ids":
            blocks = on_demand.duplicate_ids(blocks)
        return replace(
            reply,
            blocks=blocks,
            usage=usage,
            id=reply.id or id,
            origin=Origin(profile.wire, "", profile.model),
        )

    def _refuse(self, refusal: Refusal, profile: Profile) -> SimulatedResponse:
        rules = load_rules(profile.wire)
        headers, body = {"content-type": "application/json"}, dumps(rules.error_body(refusal, profile))
        if refusal.is_plain_text:
            headers, body = {"content-type": "text/plain"}, refusal.message.encode()
        # Gemini has no such header: seconds are in the body's RetryInfo.
        if refusal.retry_after is not None and (profile.wire != spec.GEMINI or "GMT" in refusal.retry_after):
            headers["retry-after"] = refusal.retry_after
        return SimulatedResponse(rules.error_fields(refusal, profile)[0], headers, [body])


def _encode_frames(
    encoder: ReplyEncoder, reply: Reply, accepted: AcceptedRequest
) -> tuple[list[bytes], int, int]:
    """Return the frames of a stream, how many come before any content is complete, and where the terminal
    begins.
    """
    end = spec.SPECS[accepted.profile.wire].frame_end
    frames: list[bytes] = []
    if preamble := _PREAMBLES.get(accepted.profile.id):
        frames.append(preamble)
    first = 0
    last = 0
    for event in split_reply(reply):
        if isinstance(event, ReplyDone):
            last = len(frames)
        encoded = encoder.feed(event).split(end)
        frames += [frame + end for frame in encoded if frame]
        if not first and isinstance(event, _CONTENT_EVENTS):
            first = len(frames)
    if not accepted.reports_usage:
        frames = [frame for frame in frames if b'"choices":[],"usage"' not in frame]
    return frames, first or 1, last
