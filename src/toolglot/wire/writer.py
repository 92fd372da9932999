"""The state of one encoding: the target's profile, the names and ids it accepts, and what was lost or
repaired.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolglot.providers.profile import Profile
from toolglot.schema.lowering_result import LoweredSchema
from toolglot.values.definitions import Schema, ToolDefinition
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Block, Media, Message, Opaque, Origin, Text, ToolCall, ToolResult
from toolglot.values.request import ToolChoice
from toolglot.wire.ids import hash_id, name_suffix
from toolglot.wire.media import extract_file_text

# Opaque fields that mean nothing to a model: dropping them for another target is not a Loss.
_SILENT_KEYS = frozenset(
    {
        *(
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
        ),
        *("signature", "thoughtSignature", "encrypted_content", "redacted", "summary", "content", "thought"),
        *(
            "annotations",
            "logprobs",
            "cache_control",
            "prompt_cache_breakpoint",
            "refusal",
            "namespace",
            "tool",
            "signed_name",
        ),
    }
)
# What grows while messages are encoded. Everything else is settled with the head and shared between copies.
_COPIED_FIELDS = (
    *("losses", "repairs", "names", "_wire_names", "_ids", "_wire_ids"),
    *(
        "calls",
        "wire_call_ids",
        "native_item_types",
        "item_ids",
        "lowerings",
        "freeform",
        "native_types",
        "held_items",
    ),
)
# An alias and its dated snapshot are one model: "-latest", "-2025-09-29", "-0613", "@20250929", ":free".
_SNAPSHOT_SUFFIX = re.compile(r"(-(latest|\d{4}-\d{2}-\d{2}|\d{3,8})|[@:].*)$")


REFERENCE_LENGTH = 64  # characters of a `tool_reference` (anthropics/claude-code#19882); a name may have 128


class Encoding(msgspec.Struct, frozen=True, gc=False):
    """What is known of an encoded request.

    `names` maps a tool's name on the wire to the caller's (namespace, name).
    """

    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    names: dict[str, tuple[str, str]] = {}
    lowerings: dict[str, LoweredSchema] = {}
    freeform: frozenset[str] = frozenset()

    @property
    def changes_calls(self) -> bool:
        """Whether a call may look different on the wire. In most requests, none does."""
        if self.freeform:
            return True
        if any(lowered.restorations for lowered in self.lowerings.values()):
            return True
        return any(wire != name for wire, (_, name) in self.names.items())

    def offered_schemas(self) -> dict[str, Schema]:
        """Return the functions that the request offers: name on the wire -> schema."""
        schemas: dict[str, Schema] = {name: lowered.schema for name, lowered in self.lowerings.items()}
        return schemas | {name: {} for name in self.freeform}


class EncodedRequest(Encoding, frozen=True, kw_only=True):
    """A request as a wire's body."""

    body: dict[str, Any]
    """The body, before it is written as JSON."""


Place = Literal["start", "system", "user", "assistant", "tool"]
"""Where something stands: instructions that are sent outside of the history are the "start"; else the role of
a message."""


def is_blank(block: Block) -> bool:
    """Return whether a block is text that shows nothing."""
    return isinstance(block, Text) and not block.text.strip()


class ToolPlan(msgspec.Struct, frozen=True):
    """What a request does with tools that change over time. Names are qualified."""

    head: tuple[ToolDefinition, ...] = ()
    """Declared in the head; `deferred` as it is sent."""
    inline: dict[str, ToolDefinition] = {}
    """The history itself brings these, natively."""
    known: dict[str, ToolDefinition] = {}
    """Every tool that the request knows."""
    removed: frozenset[str] = frozenset()
    """Left out wherever the history brings them."""
    referable: frozenset[str] = frozenset()
    """Tools of the head that the history may refer to: those that the choice leaves in it."""
    hints: tuple[str, ...] = ()
    """What the prompt says about tools."""
    referred: frozenset[str] = frozenset()
    """Tools with long names that references of the request or its history need."""

    def head_key(self, choice: ToolChoice | None) -> object:
        """Return what the head of the request, and what was sent before, depends on."""
        chosen: tuple[str, ...] = ()
        if choice and choice.names:
            chosen = tuple(name for name, tool in self.inline.items() if choice.includes(tool))
        return self.head, self.removed, self.hints, self.referred, bool(self.inline), chosen


class Writer:
    """Collects one encoding. Legal names and ids stay as they are; others are mapped without collisions."""

    def __init__(self, profile: Profile, model: str = "") -> None:
        self.profile = profile
        self.model = model or profile.model
        self.where = "tools"  # the place in the request of what is being encoded
        self.origin: Origin | None = None  # the origin of the message that is being encoded
        self.losses: list[Loss] = []
        self.repairs: list[Repair] = []
        self.names: dict[str, tuple[str, str]] = {}
        self.lowerings: dict[str, LoweredSchema] = {}
        self._wire_names: dict[tuple[str, str], str] = {}
        self._name_pattern = re.compile(profile.limits.name)
        # tools whose names must fit into references; from the plan
        self.referred: frozenset[str] = frozenset()
        self._call_id_pattern = re.compile(profile.limits.call_id)
        # with the schema that was lowered
        self.lowering_cache: dict[tuple[str, str, str], tuple[Any, LoweredSchema]] = {}
        self._ids: dict[str, str] = {}
        self._wire_ids: set[str] = set()
        self.calls: dict[str, ToolCall] = {}  # of the history, by id: a result's encoding depends on its call
        self.wire_call_ids: dict[str, str] = {}  # Gemini: call -> the id it was sent with, "" for none
        # Responses: call -> type of its item, if it is not a function call
        self.native_item_types: dict[str, str] = {}
        self.item_ids: set[str] = set()  # Responses: ids of items that were sent
        self.native_types: dict[str, str] = {}  # tools that the target's models are trained on: name -> type
        self.mark_count = 0  # marks for the prompt cache
        self.plan = ToolPlan()
        # As of the message that is being encoded. Never changed in place: copies share them.
        # by qualified name, with the definitions that count now
        self.known_tools: Mapping[str, ToolDefinition] = {}
        self.inline_names: frozenset[str] = frozenset()  # Responses: tools that items have brought so far
        self.place: Place = "start"
        self.leading_count = 0  # messages that are sent outside of the history
        # Anthropic: blocks that must stand right before the next assistant message
        self.held_items: list[dict[str, Any]] = []
        self.prompt_hints: list[str] = []  # instructions that replace fields the target does not have
        self.freeform: set[str] = set()  # wire names of freeform tools that are sent as functions
        self.code_caller = ""  # what the target calls code that it runs and that calls tools
        self.non_strict: dict[str, str] = {}  # tools that cannot be strict in this request -> reason

    def copy(self) -> "Writer":
        """Return a writer that continues from here."""
        other = Writer.__new__(Writer)
        vars(other).update(vars(self))  # much faster than building the patterns again
        for name in _COPIED_FIELDS:
            setattr(other, name, getattr(self, name).copy())
        return other

    def finish(self, body: dict[str, Any]) -> EncodedRequest:
        """Return the finished encoding."""
        losses = tuple(self.losses)
        repairs = tuple(self.repairs)
        return EncodedRequest(
            losses, repairs, self.names, self.lowerings, frozenset(self.freeform), body=body
        )

    def enter(self, where: str, origin: Origin | None = None) -> None:
        """Set the place and the origin of what is encoded next."""
        self.where = where
        self.origin = origin

    def record_loss(self, subject: str, reason: str, *, at: str = "") -> None:
        """Record something that the target cannot express, here or `at` another place."""
        self.losses.append(Loss(subject, at or self.where, reason))

    def record_repair(self, subject: str, reason: str, *, at: str = "") -> None:
        """Record something that was changed or added for the target, here or `at` another place."""
        self.repairs.append(Repair(subject, at or self.where, reason))

    # ---- opaque state

    def owns_state(self, origin: Origin | None) -> bool:
        """Return whether opaque state of this origin may be sent to the target."""
        if origin is None or origin.wire != self.profile.wire:
            return False
        # Signatures and ciphertext are bound to an endpoint: Azure refuses OpenAI's, Vertex those of the
        # Gemini API.
        if origin.profile and origin.profile != self.profile.id:
            return False
        return self.profile.state == "profile" or is_made_by(origin, self.model)

    @property
    def is_own(self) -> bool:
        """Whether the target made the message that is being encoded."""
        return self.owns_state(self.origin)

    @property
    def takes_raw_arguments(self) -> bool:
        """Whether arguments that are no JSON object may go back: only to their own endpoint, if that takes
        them.
        """
        return self.is_own and self.profile.raw_arguments

    @property
    def is_same_vendor(self) -> bool:
        """Whether the message that is being encoded is not known to be of another vendor."""
        return self.origin is None or self.origin.profile in ("", self.profile.id)

    def echo_opaque(self, opaque: Opaque | None) -> Opaque:
        """Return the state to send back. Elsewhere it is dropped: a Loss if the model would have read it."""
        if not opaque:
            return {}
        if self.is_own:
            return opaque
        owner = self.origin.wire if self.origin else "its origin"
        for key, value in opaque.items():
            # the model itself called it
            if key not in _SILENT_KEYS and value not in (None, [], {}, "", {"type": "direct"}):
                self.record_loss(key, f"only {owner} understands it")
        return {}

    # ---- names and ids

    def map_tool_name(self, name: str, namespace: str = "") -> str:
        """Return the name of a tool on the wire."""
        key = (namespace, name)
        if key in self._wire_names:
            return self._wire_names[key]
        flat = qualified_name = name
        prefix = ""
        if namespace:
            qualified_name = f"{namespace}.{name}"
            if self.profile.features.namespaces:
                prefix = f"{namespace}."  # two namespaces may contain the same name
            else:
                flat = f"{namespace}__{name}"
        limit = self.profile.limits.name_length
        if qualified_name in self.referred:
            limit = min(limit, REFERENCE_LENGTH)
        is_legal = len(flat) <= limit and self._name_pattern.fullmatch(flat)
        wire = flat if is_legal else self._make_legal_name(flat, limit)
        attempt = 1
        while self.names.get(prefix + wire, key) != key:  # another tool may already have the mapped name
            attempt += 1
            wire = self._make_legal_name(f"{flat}\0{attempt}", limit)
        if wire != flat:
            self.record_repair(f"tool name {name!r}", f"not valid for {self.profile.title}; sent as {wire!r}")
        self.names[prefix + wire] = key
        self._wire_names[key] = wire
        return wire

    def _make_legal_name(self, name: str, limit: int) -> str:
        """Return a readable, legal name; the hash keeps names apart that differ only in illegal characters."""
        suffix = name_suffix(name)
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", name.partition("\0")[0])
        if not re.match(r"[a-zA-Z_]", base):  # Gemini: the first character is no digit
            base = "_" + base
        return base[: limit - len(suffix)] + suffix

    def map_call_id(self, id: str) -> str:
        """Return the id of a call on the wire."""
        if id in self._ids:
            return self._ids[id]
        wire = seed = id
        attempt = 0
        # a mapped id may collide with a legal one
        while not self._call_id_pattern.fullmatch(wire) or wire in self._wire_ids:
            wire = hash_id(seed, min(20, self.profile.limits.call_id_length))
            attempt += 1
            seed = f"{id}\0{attempt}"
        if wire != id:
            self.record_repair(f"call id {id!r}", f"not valid for {self.profile.title}; sent as {wire!r}")
        self._ids[id] = wire
        self._wire_ids.add(wire)
        return wire

    def keep_call_id(self, id: str, wire: str) -> str:
        """Return the id that the provider gave to a call, unless another call has it."""
        if wire in self._wire_ids:
            return self.map_call_id(id)
        self._ids[id] = wire
        self._wire_ids.add(wire)
        return wire

    def share_call_id(self, id: str, other: str) -> None:
        """Send a call under the same id as another one: the caller's messages have both under it."""
        self._ids[id] = self.map_call_id(other)

    # ---- calls and results

    def result_tool_name(self, result: ToolResult) -> str:
        """Return the wire name of the tool that a result comes from, "" if it is unknown."""
        call = self.calls.get(result.call_id)
        if call:
            return self.map_tool_name(call.name, call.namespace)
        if not result.name:
            return ""
        return self.map_tool_name(result.name)

    def replace_media(self, media: Media, reason: str = "") -> str:
        """Return text instead of media that the target does not accept: of a text file, else a placeholder
        and a Loss.
        """
        if (text := extract_file_text(media)) is not None:
            return text
        self.record_loss(media.kind, reason or f"{self.profile.title} does not accept it")
        name = media.name or media.url or media.media_type or media.kind
        return f"[{media.kind} not shown: {name[:200]}]"

    def detach_media(self, message: Message) -> list[Block]:
        """Return the media of all results with captions, to be sent in a user message because a result is
        only text.
        """
        detached: list[Block] = []
        for result in message.results:
            if media := [block for block in result.content if isinstance(block, Media)]:
                detached += [Text(f"[media of the result of {result.name or result.call_id}]"), *media]
        if detached:
            reason = f"{self.profile.title} accepts only text there; sent in a user message"
            self.record_repair("media of a tool result", reason)
        return detached

    def to_arguments_object(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments for a wire that requires an object.

        Text that is not an object is wrapped in one.
        """
        if call.arguments is not None:
            return call.arguments
        if call.freeform:
            return {"input": call.raw or ""}
        self.record_repair(
            f"arguments of {call.name!r}", "not a JSON object; sent as text under 'invalid_arguments'"
        )
        return {"invalid_arguments": call.raw or ""}


def is_same_model(first: str, second: str) -> bool:
    """Return whether two names denote one model, through a router or not, alias or snapshot.

    "" matches any.
    """
    first, second = (_SNAPSHOT_SUFFIX.sub("", name.rpartition("/")[2]) for name in (first, second))
    return not first or not second or first == second


def is_made_by(origin: Origin, model: str) -> bool:
    """Return whether a model made a message: the one that the reply names, or the one that was requested."""
    # Providers resolve aliases (claude-sonnet-4-0, gemini-flash-latest) and routers choose (openrouter/auto).
    # Whoever is asked under the same name again must get its own signatures back, even in the middle of a
    # tool loop.
    names = (origin.model, origin.requested) if origin.requested else (origin.model,)
    return any(is_same_model(name, model) for name in names)


def format_result_text(result: ToolResult) -> str:
    """Format a result for a wire that has only text, and no flag for errors."""
    text = result.text
    if (
        result.is_error
        and not result.is_rendered
        and not text[:8].lower().startswith(("error", "[error", '{"error'))
    ):
        return f"Error: {text}"
    return text


def join_plain(parts: list[dict[str, Any]]) -> Any:
    """Return content as a client would send it: one text without state is a string, anything else a list of
    parts.
    """
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts
