"""What every encoder shares: the target's profile, the names and ids it accepts, and the list of what was lost or mended."""

import re
from hashlib import sha256
from typing import Any

import msgspec

from toolglot.losses import Loss, Repair
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Text, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.schema.lowering_result import LoweredSchema
from toolglot.wire.ids import hash_id

__all__ = ["EncodedRequest", "Writer", "detach_media", "format_result_text", "is_same_model", "media_placeholder"]

# Opaque fields that only make sense where they were made: dropping them elsewhere changes nothing the model sees.
_SILENT_KEYS = frozenset(
    {
        "id",
        "status",
        "index",
        "object",
        "type",
        "role",
        "field",
        "part",
        "source",
        "legacy",
        "item",
        "prefix",
        "phase",
        "caller",
    }
    | {"signature", "thoughtSignature", "encrypted_content", "redacted", "summary", "content", "thought"}
    | {"annotations", "logprobs", "cache_control", "refusal"}
)


# What an encoding adds to after its head is made; the rest is shared by all that go on from there.
_COPIED_FIELDS = ("losses", "repairs", "names", "_wire_names", "_ids", "_wire_ids", "calls", "sent", "built_in")


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request as a wire's body. `names`: tool names on the wire -> (namespace, name) here."""

    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    names: dict[str, tuple[str, str]] = {}
    lowerings: dict[str, LoweredSchema] = {}
    freeform: frozenset[str] = frozenset()


class Writer:
    """Collects one encoding. Maps names and ids that the target refuses: legal ones stay, others get a name of their own."""

    def __init__(self, profile: Profile, model: str = "") -> None:
        self.profile = profile
        self.model = model or profile.model
        self.losses: list[Loss] = []
        self.repairs: list[Repair] = []
        self.names: dict[str, tuple[str, str]] = {}
        self.lowerings: dict[str, LoweredSchema] = {}
        self._wire_names: dict[tuple[str, str], str] = {}
        self._name_pattern = re.compile(profile.limits.name)
        self._call_id_pattern = re.compile(profile.limits.call_id)
        self.lowering_cache: dict[tuple[str, str, str], LoweredSchema] = {}
        self._ids: dict[str, str] = {}
        self._wire_ids: set[str] = set()
        self.calls: dict[str, ToolCall] = {}  # of the history, by id: results are written by what they answer
        self.sent: dict[str, str] = {}  # calls -> the id they were sent with, "" for none (Gemini)
        self.built_in: dict[str, str] = {}  # calls of built-ins that the client runs (Responses): id -> type of item
        self.native_types: dict[str, str] = {}  # tools that the target knows by themselves: name -> type
        self.prompt_hints: list[str] = []  # what the model must be told, because the target has no field for it
        self.freeform: set[str] = set()  # names of freeform tools that are sent as functions
        self.non_strict: dict[str, str] = {}  # tools that cannot be strict in this request, and why

    def copy(self) -> "Writer":
        """A writer that goes on from here."""
        other = Writer.__new__(Writer)
        vars(other).update(vars(self))
        for name in _COPIED_FIELDS:
            setattr(other, name, getattr(self, name).copy())
        return other

    def finish(self, body: dict[str, Any]) -> EncodedRequest:
        """Return the finished encoding."""
        losses, repairs = tuple(self.losses), tuple(self.repairs)
        return EncodedRequest(body, losses, repairs, self.names, self.lowerings, frozenset(self.freeform))

    # ---- what is said about the encoding

    def record_loss(self, subject: str, where: str, reason: str) -> None:
        """Something has no place on the target."""
        self.losses.append(Loss(subject, where, reason))

    def record_repair(self, subject: str, where: str, reason: str) -> None:
        """Something was changed or made up."""
        self.repairs.append(Repair(subject, where, reason))

    # ---- opaque state

    def owns_state(self, origin: Origin | None) -> bool:
        """Whether opaque state of this origin may go to the target."""
        if origin is None or origin.wire != self.profile.wire:
            return False
        if origin.profile and origin.profile != self.profile.id:
            return False
        return self.profile.state == "profile" or is_same_model(origin.model, self.model)

    def accepts_foreign(self, foreign: Foreign, origin: Origin | None) -> bool:
        """Whether content of one wire means anything to the target: its own wire, and no other vendor's."""
        return foreign.wire == self.profile.wire and (origin is None or origin.profile in ("", self.profile.id))

    def echo_opaque(self, opaque: Opaque | None, origin: Origin | None, where: str) -> Opaque:
        """The state of a block, where it may go back; a Loss where it would have told the model something."""
        if not opaque:
            return {}
        if self.owns_state(origin):
            return opaque
        for key, value in opaque.items():
            if key not in _SILENT_KEYS and value not in (None, [], {}, ""):
                self.record_loss(key, where, f"only {origin.wire if origin else 'its origin'} understands it")
        return {}

    # ---- names and ids

    def map_tool_name(self, name: str, namespace: str = "", where: str = "tools") -> str:
        """The name of a tool on the wire."""
        key = (namespace, name)
        if key in self._wire_names:
            return self._wire_names[key]
        native = self.profile.features.namespaces
        flat = f"{namespace}__{name}" if namespace and not native else name
        place = f"{namespace}." if native and namespace else ""  # one name may stand in two namespaces
        wire = flat if self._name_pattern.fullmatch(flat) else self._make_legal_name(flat)
        turn = 1
        while self.names.get(place + wire, key) != key:
            turn += 1
            wire = self._make_legal_name(f"{flat}\0{turn}")
        if wire != flat:
            self.record_repair(f"tool name {name!r}", where, f"{self.profile.title} refuses it; sent as {wire!r}")
        self.names[place + wire], self._wire_names[key] = key, wire
        return wire

    def _make_legal_name(self, name: str) -> str:
        """Close to the name, with a mark that makes it its own."""
        mark = "_" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", name.partition("\0")[0])
        base = base if re.match(r"[a-zA-Z_]", base) else "_" + base
        return base[: self.profile.limits.name_length - len(mark)] + mark

    def map_call_id(self, id: str, where: str = "messages") -> str:
        """The id of a call on the wire."""
        if id in self._ids:
            return self._ids[id]
        wire, turn = id, 0
        while not self._call_id_pattern.fullmatch(wire) or wire in self._wire_ids:
            wire = hash_id(f"{id}\0{turn}" if turn else id, min(20, self.profile.limits.call_id_length))
            turn += 1
        if wire != id:
            self.record_repair(f"call id {id!r}", where, f"{self.profile.title} refuses it; sent as {wire!r}")
        self._ids[id] = wire
        self._wire_ids.add(wire)
        return wire

    # ---- calls and results

    def result_tool_name(self, result: ToolResult) -> str:
        """The wire's name of the tool that a result comes from; "" where it is not known."""
        call = self.calls.get(result.call_id)
        if call:
            return self.map_tool_name(call.name, call.namespace)
        return self.map_tool_name(result.name) if result.name else ""

    def to_arguments_object(self, call: ToolCall, where: str) -> dict[str, Any]:
        """The arguments for a wire that wants an object: text that is none is wrapped, and said so."""
        if call.arguments is not None:
            return call.arguments
        if call.freeform:
            return {"input": call.raw or ""}
        self.record_repair(f"arguments of {call.name!r}", where, "not a JSON object; sent as text under 'invalid_arguments'")
        return {"invalid_arguments": call.raw or ""}


_SNAPSHOT_SUFFIX = re.compile(r"(-(latest|\d{4}-\d{2}-\d{2}|\d{3,8})|[@:].*)$")


def is_same_model(first: str, second: str) -> bool:
    """Whether two names are one model: behind a router or not, an alias or its dated snapshot. Unknown fits any."""
    first, second = (_SNAPSHOT_SUFFIX.sub("", name.rpartition("/")[2]) for name in (first, second))
    return not first or not second or first == second


def format_result_text(result: ToolResult) -> str:
    """A result for a wire that has text only, and no flag for errors."""
    text = result.text
    if result.is_error and not result.is_rendered and not text[:8].lower().startswith(("error", "[error", '{"error')):
        return f"Error: {text}"
    return text


def detach_media(result: ToolResult) -> list[Block]:
    """A result's media for a wire that has no place for them there, with words that say whose they are."""
    media = [block for block in result.content if isinstance(block, Media)]
    return [Text(f"[media of the result of {result.name or result.call_id}]"), *media] if media else []


def media_placeholder(media: Media) -> Text:
    """What is said in place of media that the target cannot see."""
    name = media.name or media.url or media.media_type or media.kind
    return Text(f"[{media.kind} not shown: {name[:200]}]")
