"""What every encoder shares: the target's profile, the names and ids it accepts, and the list of what was lost or mended."""

import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text
from toolglot.losses import Loss, Repair
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Text, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.schema import dialects
from toolglot.schema.lower import JsonText, Lowered, Omit, Pairs, Rename, lower, strict_problems
from toolglot.wire.ids import hashed

__all__ = ["Encoded", "Function", "Writer", "media_beside", "placeholder", "result_text", "same_model"]

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Opaque fields that only make sense where they were made: dropping them elsewhere changes nothing the model sees.
_PLUMBING = frozenset(
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


class Encoded(msgspec.Struct, frozen=True):
    """A request as a wire's body. `names`: tool names on the wire -> (namespace, name) here."""

    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    names: dict[str, tuple[str, str]] = {}
    lowered: dict[str, Lowered] = {}
    freeform: frozenset[str] = frozenset()


class Function(msgspec.Struct, frozen=True):
    """A tool in the words of the target: name, description, schema, whether it binds, and fields for its own wire."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool
    own: dict[str, Any]


# The one parameter of a freeform tool where a wire has functions only.
_TEXT_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input as plain text."}},
    "required": ["input"],
}


class Writer:
    """Collects one encoding. Maps names and ids that the target refuses: legal ones stay, others get a name of their own."""

    def __init__(self, profile: Profile, model: str = "") -> None:
        self.profile = profile
        self.model = model or profile.model
        self.losses: list[Loss] = []
        self.repairs: list[Repair] = []
        self.names: dict[str, tuple[str, str]] = {}
        self.lowered: dict[str, Lowered] = {}
        self._wire_names: dict[tuple[str, str], str] = {}
        self._name = re.compile(profile.limits.name)
        self._call_id = re.compile(profile.limits.call_id)
        self._lowered: dict[tuple[str, str, str], Lowered] = {}
        self._ids: dict[str, str] = {}
        self._wire_ids: set[str] = set()
        self.calls: dict[str, ToolCall] = {}  # of the history, by id: results are written by what they answer
        self.sent: dict[str, str] = {}  # calls -> the id they were sent with, "" for none (Gemini)
        self.built_in: dict[str, str] = {}  # calls of built-ins that the client runs (Responses): id -> type of item
        self.nudges: list[str] = []  # what the model must be told, because the target has no field for it
        self.freeform: set[str] = set()  # names of freeform tools that are sent as functions
        self.loose: dict[str, str] = {}  # tools that cannot be strict in this request, and why

    def copy(self) -> "Writer":
        """A writer that goes on from here."""
        other = Writer(self.profile, self.model)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, list | dict | set) else value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return other

    def claim(self, tools: Iterable[ToolDefinition]) -> None:
        """Tools have the first choice of names, before calls of the history; too many strict ones are found out."""
        strict: dict[str, dict[str, Any]] = {}
        for tool in tools:
            if tool.kind != "hosted":
                name = self.tool_name(tool.name, tool.namespace)
                if tool.strict and self.profile.strict_dialect:
                    with suppress(UsageError):  # a broken schema is left out later, with its reason
                        strict[name] = self._lower(tool, self.profile.strict_dialect).schema
        if strict:
            self.loose = strict_problems(strict, getattr(dialects, self.profile.strict_dialect))

    # ---- what is said about the encoding

    def lose(self, what: str, where: str, why: str) -> None:
        """Something has no place on the target."""
        self.losses.append(Loss(what, where, why))

    def mend(self, what: str, where: str, why: str) -> None:
        """Something was changed or made up."""
        self.repairs.append(Repair(what, where, why))

    # ---- opaque state

    def owns(self, origin: Origin | None) -> bool:
        """Whether opaque state of this origin may go to the target."""
        if origin is None or origin.wire != self.profile.wire:
            return False
        if origin.profile and origin.profile != self.profile.id:
            return False
        return self.profile.state == "profile" or same_model(origin.model, self.model)

    def understands(self, foreign: Foreign, origin: Origin | None) -> bool:
        """Whether content of one wire means anything to the target: its own wire, and no other vendor's."""
        return foreign.wire == self.profile.wire and (origin is None or origin.profile in ("", self.profile.id))

    def opaque(self, opaque: Opaque | None, origin: Origin | None, where: str) -> Opaque:
        """The state of a block, where it may go back; a Loss where it would have told the model something."""
        if not opaque:
            return {}
        if self.owns(origin):
            return opaque
        for key, value in opaque.items():
            if key not in _PLUMBING and value not in (None, [], {}, ""):
                self.lose(key, where, f"only {origin.wire if origin else 'its origin'} understands it")
        return {}

    # ---- names and ids

    def tool_name(self, name: str, namespace: str = "", where: str = "tools") -> str:
        """The name of a tool on the wire."""
        key = (namespace, name)
        if key in self._wire_names:
            return self._wire_names[key]
        native = self.profile.features.namespaces
        flat = f"{namespace}__{name}" if namespace and not native else name
        place = f"{namespace}." if native and namespace else ""  # one name may stand in two namespaces
        wire = flat if self._name.fullmatch(flat) else self._legal_name(flat)
        turn = 1
        while self.names.get(place + wire, key) != key:
            turn += 1
            wire = self._legal_name(f"{flat}\0{turn}")
        if wire != flat:
            self.mend(f"tool name {name!r}", where, f"{self.profile.title} refuses it; sent as {wire!r}")
        self.names[place + wire], self._wire_names[key] = key, wire
        return wire

    def _legal_name(self, name: str) -> str:
        """Close to the name, with a mark that makes it its own."""
        mark = "_" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", name.partition("\0")[0])
        base = base if re.match(r"[a-zA-Z_]", base) else "_" + base
        return base[: self.profile.limits.name_length - len(mark)] + mark

    def call_id(self, id: str, where: str = "messages") -> str:
        """The id of a call on the wire."""
        if id in self._ids:
            return self._ids[id]
        wire, turn = id, 0
        while not self._call_id.fullmatch(wire) or wire in self._wire_ids:
            wire = hashed(f"{id}\0{turn}" if turn else id, min(20, self.profile.limits.call_id_length))
            turn += 1
        if wire != id:
            self.mend(f"call id {id!r}", where, f"{self.profile.title} refuses it; sent as {wire!r}")
        self._ids[id] = wire
        self._wire_ids.add(wire)
        return wire

    # ---- options

    def sampling(self, options: Options) -> dict[str, Any]:
        """The sampling options that the target takes, under their neutral names; the rest are losses."""
        profile, sent = self.profile, dict[str, Any]()
        for name in ("temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"):
            value = getattr(options, name)
            if value is None or value == ():
                continue
            if name not in profile.options:
                self.lose(name, "options", f"{profile.title} has no such option")
            elif profile.sampling == "none" and name not in ("stop", "seed"):
                self.lose(name, "options", f"{self.model or profile.title} takes no sampling parameters")
            elif profile.sampling == "one" and name == "top_p" and "temperature" in sent:
                self.lose(name, "options", f"{self.model} takes temperature or top_p, not both")
            elif name == "temperature" and value > profile.max_temperature:
                self.lose(
                    name,
                    "options",
                    f"{value} is over the most that {profile.title} takes; sent as {profile.max_temperature}",
                )
                sent[name] = profile.max_temperature
            elif name == "stop":
                sent[name] = self._stops(value)
            else:
                sent[name] = value
        return sent

    def _stops(self, stops: tuple[str, ...]) -> list[str]:
        most = self.profile.limits.stops
        if most and len(stops) > most:
            self.lose("stop", "options", f"{self.profile.title} takes {most} at most; the rest are left out")
        return list(stops[:most])

    def effort(self, options: Options) -> str | None:
        """The reasoning effort, moved to the nearest level that the target knows."""
        effort, levels = options.effort, self.profile.efforts
        if effort is None or effort in levels:
            return effort
        if not levels or effort not in _EFFORTS:
            self.lose("effort", "options", f"{self.model or self.profile.title} has no levels of effort")
            return None
        wanted, high = _EFFORTS.index(effort), _EFFORTS.index("high")
        places = sorted((_EFFORTS.index(level) for level in levels), key=lambda place: (abs(place - wanted), abs(place - high)))
        nearest = _EFFORTS[places[0]]  # of two as near, the one that is nearer to high: DeepSeek's own rule
        self.lose("effort", "options", f"{self.model or self.profile.title} has no {effort!r}; sent as {nearest!r}")
        return nearest

    def extras(self, request: Request, *families: str) -> dict[str, Any]:
        """The extras for the target's wire; all others are losses."""
        sent: dict[str, Any] = {}
        for family, fields in request.extras.items():
            if family == self.profile.wire or family in families:
                sent.update(fields)
                continue
            for field, value in fields.items():
                if value is not None:
                    self.lose(field, "request", f"only {family} understands it")
        return sent

    # ---- tools

    def offered(self, request: Request) -> tuple[list[ToolDefinition], ToolChoice | None]:
        """The tools and the choice as the target can say them. What it cannot say is emulated: tools are left out, and the
        model is told (`nudges`).
        """
        tools = [tool for tool in self._unique(request.tools) if self._is_usable(tool)]
        most = self.profile.limits.tools
        if most and len(tools) > most:
            self._leave_out(tools[most:], f"{self.profile.title} takes {most} at most")
            tools = tools[:most]
        choice = request.tool_choice
        if choice is None or not tools:
            if choice and choice.mode == "required":
                self.lose("tool_choice", "tool_choice", "there are no tools to choose from")
            return tools, None
        names = tuple(tool.name for tool in tools if tool.name in choice.names)
        if choice.names and not names:
            self.lose("tool_choice", "tool_choice", f"there is no tool {' or '.join(map(repr, choice.names))}")
            return tools, None
        return self._choosable(tools, choice.mode, names)

    def _choosable(
        self, tools: list[ToolDefinition], mode: str, names: tuple[str, ...]
    ) -> tuple[list[ToolDefinition], ToolChoice | None]:
        choices, who = self.profile.features.choices, self.model or self.profile.title
        if mode == "none" and "none" not in choices:
            self._leave_out(tools, f"{who} cannot be told to call none")
            return [], None
        single = len(names) == 1 and mode == "required"
        if names and ("named" if single else "subset") not in choices:
            self._leave_out([tool for tool in tools if tool.name not in names], f"{who} has no such choice")
            tools, names = [tool for tool in tools if tool.name in names], ()
        if mode == "required" and "required" not in choices:
            self.lose("tool_choice", "tool_choice", f"{who} cannot be forced to call a tool; it is asked to")
            wanted = " or ".join(self.tool_name(tool.name, tool.namespace) for tool in tools if not names or tool.name in names)
            self.nudges.append(f"Answer with a call to {wanted}." if len(tools) <= 3 else "Answer with a call to a tool.")
            mode, names = "auto", ()
        return tools, None if mode == "auto" and "required" not in choices else ToolChoice(mode, names)  # pyright: ignore[reportArgumentType]

    def _leave_out(self, tools: list[ToolDefinition], why: str) -> None:
        names = [self.tool_name(tool.name, tool.namespace) for tool in tools]
        for name in names:
            self.lose(f"tool {name!r}", "tools", f"left out of this request: {why}")
        if names:
            self.nudges.append(f"These tools cannot be called now: {', '.join(names)}.")

    def chosen(self, choice: ToolChoice, tools: Iterable[ToolDefinition]) -> list[tuple[ToolDefinition, str]]:
        """The tools that a choice names, with their names on the wire."""
        return [(tool, self.tool_name(tool.name, tool.namespace)) for tool in tools if tool.name in choice.names]

    def _unique(self, tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Two tools of one name are refused: the first counts."""
        kept: list[ToolDefinition] = []
        seen: dict[tuple[str, str], ToolDefinition] = {}
        for tool in tools:
            first = seen.get((tool.namespace, tool.name))
            if first is None or tool.kind == "hosted":
                seen[(tool.namespace, tool.name)] = tool
                kept.append(tool)
            elif first != tool:
                self.lose(f"tool {tool.name!r}", "tools", "a second tool of the same name; the first is kept")
        return tuple(kept)

    def hosted(self, tool: ToolDefinition) -> dict[str, Any] | None:
        """A tool that a provider runs: its definition there, or None and a Loss."""
        if tool.wire == self.profile.wire and tool.opaque is not None:
            return tool.opaque
        why = f"only {tool.wire} runs it" if tool.wire != self.profile.wire else "it has no definition"
        self.lose(f"hosted tool {tool.name!r}", "tools", why)
        return None

    def function(self, tool: ToolDefinition) -> Function:
        """A tool as a function. A freeform one becomes a function with one text parameter."""
        name = self.tool_name(tool.name, tool.namespace)
        if tool.kind == "freeform":
            self.lose("freeform", f"tool {tool.name!r}", "sent as a function with one text parameter")
            self.freeform.add(name)
            return Function(name, _described(tool), _TEXT_INPUT, False, {})
        own = (tool.opaque or {}) if tool.wire == self.profile.wire else {}
        strict = self._is_strict(tool, name)
        lowered = self.lowered[name] = self._lower(tool, self.profile.strict_dialect if strict else self.profile.dialect)
        self.losses.extend(lowered.losses)
        self._tell(tool, lowered)
        return Function(name, _described(tool, lowered.note), lowered.schema, strict, own)

    def _tell(self, tool: ToolDefinition, lowered: Lowered) -> None:
        """What is said in another shape, and turned back when the call comes (`wire/back`)."""
        for way in lowered.ways_back:
            where = f"tool {tool.name!r} at {way.at}"
            match way:
                case Pairs():
                    self.lose("map", where, "sent as a list of keys and values; turned back in the call")
                case JsonText():
                    self.lose("free value", where, "asked for as JSON text; turned back in the call")
                case Rename(names=names):
                    self.mend(f"parameters {', '.join(names.values())}", where, "refused names are mapped, and back")
                case Omit(names=names):
                    self.mend(f"parameters {', '.join(names)}", where, "null stands for left out, and is taken out again")

    def _lower(self, tool: ToolDefinition, dialect: str) -> Lowered:
        key = (tool.namespace, tool.name, dialect)
        if key not in self._lowered:
            self._lowered[key] = lower(tool.parameters, getattr(dialects, dialect), tool=tool.name)
        return self._lowered[key]

    def _is_usable(self, tool: ToolDefinition) -> bool:
        """One tool with a broken schema must not cost the whole request: it is left out."""
        if tool.kind == "hosted":
            return self.hosted(tool) is not None
        try:
            self._lower(tool, self.profile.dialect)
        except UsageError as e:
            self.lose(f"tool {tool.name!r}", "tools", f"left out: {e}")
            return False
        return True

    def _is_strict(self, tool: ToolDefinition, name: str) -> bool:
        if not tool.strict:
            return False
        if not (self.profile.features.strict and self.profile.strict_dialect):
            self.lose("strict", f"tool {tool.name!r}", f"{self.profile.title} has no strict mode")
            return False
        if why := self.loose.get(name):
            self.lose("strict", f"tool {tool.name!r}", why)
            return False
        return True

    # ---- calls and results

    def result_name(self, result: ToolResult) -> str:
        """The wire's name of the tool that a result comes from; "" where it is not known."""
        call = self.calls.get(result.call_id)
        if call:
            return self.tool_name(call.name, call.namespace)
        return self.tool_name(result.name) if result.name else ""

    def arguments_object(self, call: ToolCall, where: str) -> dict[str, Any]:
        """The arguments for a wire that wants an object: text that is none is wrapped, and said so."""
        if call.arguments is not None:
            return call.arguments
        if call.freeform:
            return {"input": call.raw or ""}
        self.mend(f"arguments of {call.name!r}", where, "not a JSON object; sent as text under 'invalid_arguments'")
        return {"invalid_arguments": call.raw or ""}


def _described(tool: ToolDefinition, note: str = "") -> str:
    """The description; what the target has no field for is said in it."""
    lines = [line for line in (tool.description, note) if line]
    for example in tool.examples:
        note = f" ({example.description})" if example.description else ""
        lines.append(f"Example{note}: {dumps_text(example.input)}")
    if tool.kind == "freeform" and tool.grammar:
        lines.append(f"The input must follow this grammar: {dumps_text(tool.grammar)}")
    return "\n".join(lines)


_SNAPSHOT = re.compile(r"(-(latest|\d{4}-\d{2}-\d{2}|\d{3,8})|[@:].*)$")


def same_model(one: str, other: str) -> bool:
    """Whether two names are one model: behind a router or not, an alias or its dated snapshot. Unknown fits any."""
    one, other = (_SNAPSHOT.sub("", name.rpartition("/")[2]) for name in (one, other))
    return not one or not other or one == other


def result_text(result: ToolResult) -> str:
    """A result for a wire that has text only, and no flag for errors."""
    text = result.text
    if result.is_error and not text[:8].lower().startswith(("error", "[error", '{"error')):
        return f"Error: {text}"
    return text


def media_beside(result: ToolResult) -> list[Block]:
    """A result's media for a wire that has no place for them there, with words that say whose they are."""
    media = [block for block in result.content if isinstance(block, Media)]
    return [Text(f"[media of the result of {result.name or result.call_id}]"), *media] if media else []


def placeholder(media: Media) -> Text:
    """What is said in place of media that the target cannot see."""
    name = media.name or media.url or media.media_type or media.kind
    return Text(f"[{media.kind} not shown: {name[:200]}]")
