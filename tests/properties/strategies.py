"""Conversations and requests for the laws: mostly broken, each text, argument, result and opaque field with a
mark of its own.

Marks are eight letters and digits (legal base64 too): `tx…` visible text, `ar…` arguments, `rs…` results,
`th…` thinking, `op…` opaque state. A law counts them in a body.
"""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Opaque,
    Origin,
    ResultBlock,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition

Doc = dict[str, Any]
# The models that make a difference, and every other profile of the catalog.
_MODELS = (
    ("openai-chat", "gpt-4o"),
    ("openai-chat", "o1-mini"),
    ("openai-responses", "gpt-5"),
    ("openai-responses", "gpt-5.6"),
    ("azure-chat", "gpt-4.1"),
    ("azure-responses", "gpt-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-opus-4-8"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("gemini", "gemini-2.5-flash"),
    ("gemini", "gemini-3-pro-preview"),
    ("vertex", "gemini-3-pro-preview"),
    ("ollama", "qwen3"),
    ("openrouter", "google/gemini-2.5-pro"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("copilot", "gpt-4.1"),
    ("xai", "grok-4.6"),
    ("deepseek", "deepseek-v4-flash"),
    ("mistral", "mistral-large"),
    ("groq", "llama-3.3-70b"),
    ("compatible", "qwen3-coder"),
)
TARGETS = (*_MODELS, *((provider, "some-model") for provider in PROFILES if provider not in dict(_MODELS)))
ORIGINS = tuple(Origin(resolve_profile(provider).wire, provider, model) for provider, model in TARGETS)
IDS = ("a", "b", "a_2", "", "call|1:x", "abcdefghi", "c" * 50, "d" * 90, "ü 1")
TOOLS = (
    ToolDefinition(
        "get", "Gets.", {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    ),
    ToolDefinition("9lives", "", {"type": "object", "properties": {}}),
    ToolDefinition("a.b/c", "Dots.", None),
    ToolDefinition(
        "a_b_c", "", {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}, strict=True
    ),
    ToolDefinition("long" * 20 + ".one", "", {"type": "object"}, strict=False),
    ToolDefinition("long" * 20 + ".two", "", {"type": "object"}),
    ToolDefinition("get", "In a namespace.", {"type": "object"}, namespace="crm"),
    ToolDefinition("sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: /.+/"}),
)
LATE = ToolDefinition(
    "late", "Comes later.", {"type": "object", "properties": {"x": {"type": "string"}}}, strict=True
)
# Tools that are found in the course of a conversation, and what finds them.
DEFERRED = (
    ToolDefinition(
        "deferred", "Is found.", {"type": "object", "properties": {"x": {"type": "string"}}}, deferred=True
    ),
    ToolDefinition("long" * 20, "Is found.", {"type": "object", "properties": {}}, deferred=True),
)
SEARCHES = (
    ToolDefinition("search_tools", "Finds.", {"type": "object", "properties": {}}, finds_tools=True),
    ToolDefinition(
        "tool_search",
        kind="hosted",
        wire="openai-responses",
        opaque={"type": "tool_search"},
        finds_tools=True,
    ),
)
PNG, PDF = "iVBORw0KGgo=", "JVBERi0xLjQ="


def targets(*wires: str) -> st.SearchStrategy[Profile]:
    return st.sampled_from(
        [
            resolve_profile(*target)
            for target in TARGETS
            if not wires or resolve_profile(*target).wire in wires
        ]
    )


class Maker:
    """Draws blocks and numbers their marks."""

    def __init__(self, draw: st.DrawFn, *, opaque: bool) -> None:
        self._draw, self._with_opaque, self._count = draw, opaque, 0

    def one(self, of: Iterable[Any]) -> Any:
        return self._draw(st.sampled_from(tuple(of)))

    def mark(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count:06d}"

    def text(self, origin: Origin | None) -> Text:
        words = self.one(("{}", "{}", "{} ", "", "  "))
        return Text(words.format(self.mark("tx")) if "{" in words else words, self.opaque("text", origin))

    def opaque(self, kind: str, origin: Origin | None, id: str = "") -> Opaque | None:
        """State as the wire of the origin has it."""
        if not self._with_opaque or origin is None:
            return None
        if not self._draw(st.booleans()) and (origin.wire, kind) != ("openai-responses", "text"):
            return None  # but an item of Responses always has its id
        mark = self.mark("op")
        match origin.wire, kind:
            case "openai-responses", "text":
                return {"id": f"msg_{mark}", "status": "completed"}
            case "openai-responses", "call":
                return {"id": f"fc_{mark}", "status": "completed"}
            case "openai-responses", "freeform":
                return {"id": f"ctc_{mark}", "status": "completed"}
            case "openai-responses", "result":
                return {"id": f"fco_{mark}", "status": "completed"}
            case "openai-chat", "assistant":
                details = [{"type": "reasoning.text", "text": mark, "index": 0}]
                return {"reasoning_details": details} if origin.profile == "openrouter" else None
            case "gemini", "text":
                return {"thoughtSignature": mark}
            case "gemini", "call":
                return {"thoughtSignature": mark, **({"id": id} if id else {})}
            case _:
                return None

    def thinking(self, origin: Origin | None) -> Thinking:
        text, mark = self.mark("th"), self.mark("op")
        match origin and origin.wire:
            case "openai-responses":
                summary = [{"type": "summary_text", "text": text}]
                return Thinking(text, {"id": f"rs_{mark}", "summary": summary, "encrypted_content": mark})
            case "anthropic-messages":
                return Thinking(text, self.one(({"signature": mark}, {"redacted": mark})))
            case "gemini":
                return Thinking(text, {"thoughtSignature": mark})
            case "openai-chat":
                return Thinking(text, {"field": "reasoning_content"})
            case _:
                return Thinking(text)

    def call(self, origin: Origin | None) -> ToolCall:
        tool: ToolDefinition = self.one(TOOLS)
        id, value = self.one(IDS), self.mark("ar")
        if tool.kind == "freeform":
            return ToolCall(id, tool.name, None, value, True, opaque=self.opaque("freeform", origin))
        arguments, raw = self.one(
            (
                ({"x": value}, None),
                ({"x": value}, f'{{"x": "{value}"}}'),
                (None, f'{{"x": "{value}'),
                (None, f'["{value}"]'),
            )
        )
        return ToolCall(id, tool.name, arguments, raw, False, tool.namespace, self.opaque("call", origin, id))

    def result(self, origin: Origin | None, open_ids: list[str]) -> ToolResult:
        id = self.one([*open_ids, *open_ids, *IDS])
        content: list[ResultBlock] = [Text(self.mark("rs")) for _ in range(self.one((1, 1, 1, 2, 0)))]
        content += self.one(((), (), (), (self.media(),), (self.change(),)))
        opaque = self.opaque("result", origin)
        return ToolResult(
            id, tuple(content), self.one(("", "get")), is_error=self.one((False, False, True)), opaque=opaque
        )

    def change(self) -> ToolsChanged:
        return self.one(
            (
                ToolsChanged((LATE,)),
                ToolsChanged(
                    (replace(LATE, namespace="crm"), replace(LATE, name="later", deferred=True)),
                    removed=("get",),
                ),
                ToolsChanged(loaded=("deferred", "crm.get")),
                ToolsChanged(loaded=("nobody knows",), removed=("late", "a.b/c")),
            )
        )

    def media(self) -> Media:
        return self.one(
            (
                Media("image", "image/png", PNG),
                Media("image", url="https://example.com/cat.png"),
                Media("file", "application/pdf", PDF, name="a.pdf"),
                Media("audio", "audio/wav", "UklGRg=="),
                Media("file", file_id="file-1"),
            )
        )

    def foreign(self, origin: Origin | None) -> Foreign | Text:
        code = Foreign("gemini", {"executableCode": {"language": "PYTHON", "code": self.mark("tx")}})
        refusal = Foreign("openai-chat", {"type": "refusal", "refusal": self.mark("tx")})
        match origin and origin.wire:
            case "gemini":
                return code
            case "openai-chat":
                return refusal
            case None:
                return self.one((code, refusal))
            case _:
                return self.text(origin)

    def block(self, role: Role, origin: Origin | None, open_ids: list[str]) -> Block:
        kinds = {
            "system": ("text", "text", "change"),
            "user": ("text", "text", "text", "media", "result"),
            "assistant": ("text", "text", "call", "call", "call", "thinking", "foreign", "result"),
            "tool": ("result",),
        }[role]
        match self.one(kinds):
            case "text":
                return self.text(origin if role == "assistant" else None)
            case "media":
                return self.media()
            case "thinking":
                return self.thinking(origin)
            case "foreign":
                return self.foreign(origin)
            case "change":
                return self.change()
            case "call":
                call = self.call(origin)
                open_ids.append(call.id)
                return call
            case _:
                return self.result(origin, open_ids)

    def message(self, open_ids: list[str]) -> Message:
        role: Role = self.one(
            ("user", "user", "assistant", "assistant", "assistant", "tool", "tool", "tool", "system")
        )
        origin = self.one((None, *ORIGINS))
        limit = 4 if role in ("assistant", "tool") else 2
        count = self._draw(st.integers(0 if role in ("assistant", "user") else 1, limit))
        blocks = tuple(self.block(role, origin, open_ids) for _ in range(count))
        return Message(role, blocks, origin, self.opaque(role, origin))


@st.composite
def conversations(draw: st.DrawFn, *, max_size: int = 8, opaque: bool = True) -> list[Message]:
    """Anything that a program may hold: calls without results, results without calls, one id many times,
    nothing at all.
    """
    maker, open_ids = Maker(draw, opaque=opaque), list[str]()
    return [maker.message(open_ids) for _ in range(draw(st.integers(0, max_size)))]


@st.composite
def legal_conversations(draw: st.DrawFn, *, max_size: int = 4) -> list[Message]:
    """What every target takes as it is: the user speaks, the assistant calls, results come in order, the user
    speaks last.
    """
    maker, out, count = Maker(draw, opaque=False), list[Message](), 0
    for _ in range(draw(st.integers(0, max_size))):
        out.append(Message("user", (Text(maker.mark("tx")),)))
        for _ in range(draw(st.integers(0, 2))):
            calls: list[ToolCall] = []
            for _ in range(draw(st.integers(1, 3))):
                count += 1
                calls.append(
                    ToolCall(f"call{count:05d}", maker.one(("get", "put_it")), {"x": maker.mark("ar")})
                )
            text = (Text(maker.mark("tx")),) if draw(st.booleans()) else ()
            out.append(Message("assistant", (*text, *calls)))
            out.append(
                Message("tool", tuple(ToolResult(c.id, (Text(maker.mark("rs")),), c.name) for c in calls))
            )
        out.append(Message("assistant", (Text(maker.mark("tx")),)))
    return [*out, Message("user", (Text(maker.mark("tx")),))]


def options() -> st.SearchStrategy[Options]:
    none = st.none()
    return st.builds(
        Options,
        max_tokens=none | st.sampled_from([1, 16, 2000, 9000]),
        temperature=none | st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]),
        top_p=none | st.just(0.9),
        top_k=none | st.just(40),
        stop=st.sampled_from([(), ("END",), ("1", "2", "3", "4", "5", "6")]),
        seed=none | st.just(7),
        presence_penalty=none | st.just(0.5),
        frequency_penalty=none | st.just(0.5),
        effort=none | st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        thinking_budget=none | st.sampled_from([0, 100, 2000, 20_000]),
    )


def choices() -> st.SearchStrategy[ToolChoice | None]:
    names = st.sampled_from([(), ("get",), ("9lives",), ("9lives", "a.b/c"), ("sql",), ("nobody",)])
    return (
        st.none()
        | st.just(ToolChoice("none"))
        | st.builds(ToolChoice, st.sampled_from(["auto", "required"]), names)
    )


@st.composite
def requests(
    draw: st.DrawFn, profile: Profile, messages: st.SearchStrategy[list[Message]], *, plain: bool = False
) -> Request:
    """A request for a target. `plain`: only tools and messages."""
    tools = draw(
        st.lists(st.sampled_from(TOOLS), max_size=5, unique_by=lambda tool: (tool.namespace, tool.name))
    )
    tools += draw(st.sampled_from([(), (), (), DEFERRED, *((*DEFERRED, search) for search in SEARCHES)]))
    history = draw(messages)
    if plain:
        return Request(profile.model, history, tuple(tools))
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    return Request(
        profile.model,
        history,
        tuple(tools),
        draw(choices()),
        draw(st.sampled_from([None, True, False])),
        draw(options()),
        draw(st.sampled_from([None, None, Output(), Output(schema), Output(schema, "n", "A number.", True)])),
        draw(st.sampled_from([None, True, False])),
    )
