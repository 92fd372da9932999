"""Refusals that a request is healed for: each rule with the words of a real provider, and what differs in the
next body.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from scripted_transport import Doc, ScriptedReply, ScriptedTransport, chat_engine, error_reply, whole_reply

from toolglot.common.jsontext import dumps
from toolglot.engine.engine import EngineResult, EngineState
from toolglot.errors import ToolglotError
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.heal import HEAL_RULES, heal_profile
from toolglot.values.messages import (
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition, ToolExample

PARAMETERS: Doc = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}
TOOL = ToolDefinition("get", "Gets.", PARAMETERS, strict=True)
CALL = ToolCall("toolu_01", "get", {"x": "1"})
RESULT = tool_results(ToolResult("toolu_01", (Text("one"),), "get"))


def thought(wire: str, profile: str, model: str, opaque: Doc) -> list[Message]:
    return [
        user("Hi"),
        Message("assistant", (Thinking("hm", opaque), CALL), Origin(wire, profile, model)),
        RESULT,
    ]


SIGNATURE = {"signature": "c2ln", "type": "thinking"}
CLAUDE = thought("anthropic-messages", "anthropic", "claude-sonnet-4-5", SIGNATURE)
ENCRYPTED: Doc = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []}
REASONED = thought("openai-responses", "openai-responses", "gpt-5", ENCRYPTED)
PLAIN = [user("Hi"), assistant(["So:", CALL]), RESULT]
HI = [user("Hi")]
OK = {"text": "ok"}
RESPONSES = ScriptedReply((dumps({"id": "r", "model": "m", "status": "completed", "output": []}),))
FINE = {
    "anthropic-messages": ScriptedReply(
        (
            dumps(
                {"id": "m", "type": "message", "content": [{"type": "text", **OK}], "stop_reason": "end_turn"}
            ),
        )
    ),
    "openai-responses": RESPONSES,
    "gemini": ScriptedReply(
        (dumps({"candidates": [{"content": {"role": "model", "parts": [OK]}, "finishReason": "STOP"}]}),)
    ),
    "openai-chat": whole_reply(),
}


class Case(NamedTuple):
    """A refusal, the request that gets it, and what must be so in the bodies before and after."""

    model: str
    words: str
    before: Callable[[Doc], object]
    after: Callable[[Doc], object]
    messages: Sequence[Message] = HI
    fields: Mapping[str, Any] = MappingProxyType({})
    stream: bool = False
    code: str = ""


def holds(*path: Any) -> Callable[[Doc], bool]:
    def check(body: Any) -> bool:
        for step in path:
            try:
                body = body[step]
            except (KeyError, IndexError):
                return False
        return True

    return check


def lacks(*path: Any) -> Callable[[Doc], bool]:
    return lambda body: not holds(*path)(body)


def says(text: str) -> Callable[[Doc], bool]:
    return lambda body: text in dumps(body).decode()


def silent(text: str) -> Callable[[Doc], bool]:
    return lambda body: text not in dumps(body).decode()


def is_forced(body: Doc) -> bool:
    return body.get("tool_choice") not in (None, "auto", {"type": "auto"})


def free(body: Doc) -> bool:
    return not is_forced(body) and bool(body["tools"])


TOOLS: Doc = {"tools": (TOOL,)}
SONNET, GPT = "anthropic:claude-sonnet-4-5", "openai-responses:gpt-5"


def sampling(name: str, model: str, words: str, code: str = "") -> Case:
    options = Options(temperature=0.2) if name == "temperature" else Options(top_p=0.5)
    return Case(model, words, holds(name), lacks(name), fields={"options": options}, code=code)


def limit(model: str, words: str, before: str, after: str, code: str = "") -> Case:
    return Case(
        model, words, holds(before), holds(after), fields={"options": Options(max_tokens=7)}, code=code
    )


def choice(model: str, words: str) -> Case:
    return Case(model, words, is_forced, free, fields={**TOOLS, "tool_choice": ToolChoice("required")})


def opaque(model: str, words: str, text: str, messages: Sequence[Message]) -> Case:
    return Case(model, words, says(text), silent(text), messages, TOOLS)


def strict(words: str) -> Case:
    return Case(SONNET, words, says('"strict":true'), silent('"strict":true'), fields=TOOLS)


def stream_options(words: str) -> Case:
    return Case("compatible:m", words, holds("stream_options"), lacks("stream_options"), stream=True)


BLOCK = "messages.1.content.0: "
CASES = {
    "responses": Case(
        "openai-chat:gpt-5.4",
        "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        holds("messages"),
        holds("input"),
        PLAIN,
        TOOLS,
    ),
    "sampling, anthropic": sampling(
        "temperature", "anthropic:next", "temperature: Extra inputs are not permitted"
    ),
    "sampling, deprecated": sampling(
        "temperature", "anthropic:next", "`temperature` is deprecated for this model."
    ),
    "sampling, value": sampling(
        "temperature",
        "openai-chat:next",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value "
        "is supported.",
        "unsupported_value",
    ),
    "sampling, parameter": sampling(
        "top_p", "openai-responses:next", "Unsupported parameter: 'top_p' is not supported with this model."
    ),
    "thinking, bound": opaque(
        SONNET, f"{BLOCK}This thinking block is bound to a different conversation prefix.", "c2ln", CLAUDE
    ),
    "thinking, signature": opaque(SONNET, f"{BLOCK}Invalid `signature` in `thinking` block", "c2ln", CLAUDE),
    "thinking, modified": opaque(
        SONNET,
        f"{BLOCK}`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. "
        "These blocks must remain as they were in the original response.",
        "c2ln",
        CLAUDE,
    ),
    "reasoning, following": opaque(
        GPT,
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "gAAA",
        REASONED,
    ),
    "reasoning, required": opaque(
        GPT,
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "gAAA",
        REASONED,
    ),
    "reasoning, elsewhere": opaque(
        GPT,
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with "
        "`store` set to "
        "true, or remove this item from your input.",
        "gAAA",
        REASONED,
    ),
    "reasoning, encrypted": opaque(
        GPT, "The reasoning item's encrypted content for item rs_1 could not be verified.", "gAAA", REASONED
    ),
    "examples": Case(
        "anthropic:next",
        "tools.0.custom.input_examples: Extra inputs are not permitted",
        holds("tools", 0, "input_examples"),
        holds("tools", 0, "description"),
        PLAIN,
        {"tools": (ToolDefinition("get", parameters={"type": "object"}, examples=(ToolExample({"a": 1}),)),)},
    ),
    "signature": Case(
        "gemini:gemini-next",
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
        "work correctly.",
        silent("thoughtSignature"),
        says("thoughtSignature"),
        PLAIN,
        TOOLS,
    ),
    "reasoning content": Case(
        "compatible:deepseek-like",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        silent("reasoning_content"),
        says("reasoning_content"),
        PLAIN,
        TOOLS,
    ),
    "choice, deepseek": choice("groq:m", "deepseek-reasoner does not support this tool_choice"),
    "choice, thinking": choice(SONNET, "Thinking may not be enabled when tool_choice forces tool use."),
    "choice, value": choice("compatible:m", "tool_choice 'required' is not supported by this server"),
    "strict, grammar": strict(
        "The compiled grammar is too large, which would cause performance issues. "
        "Simplify your tool schemas or reduce the number of strict tools."
    ),
    "strict, optional": strict("Too many optional parameters in tool schemas (30). Limit: 24."),
    "strict, many": strict("Too many strict tools (25). Maximum: 20."),
    "limit, new name": limit(
        "compatible:m",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
        "instead.",
        "max_tokens",
        "max_completion_tokens",
        "unsupported_parameter",
    ),
    "limit, old name": limit(
        "groq:m",
        "body -> Unrecognized request argument supplied: max_completion_tokens",
        "max_completion_tokens",
        "max_tokens",
    ),
    "stream options": stream_options("Unrecognized request argument supplied: stream_options"),
    "stream options, pydantic": stream_options("body.stream_options: Extra inputs are not permitted"),
}


def more_of(model: str) -> dict[str, str]:
    return {"base_url": "http://host/v1"} if model.startswith("compatible") else {}


async def ask(session: EngineState, request: Request) -> EngineResult:
    async for _ in session.stream_batches(request):
        pass
    assert session.result is not None
    return session.result


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_refusal_is_healed_once_and_for_all(case: Case) -> None:
    """The refused body had what was refused, the next one has not; the same words again are final; later
    requests are right.
    """
    refused = error_reply(400, case.words, code=case.code)

    def fine(request: Any) -> ScriptedReply:
        return FINE["openai-responses" if request.url.endswith("/responses") else engine.profile.wire]

    request = Request("", case.messages, stream=case.stream, **case.fields)
    transport = ScriptedTransport(refused, fine, fine)
    engine = chat_engine(transport, case.model, **more_of(case.model))
    before = engine.profile
    session = engine.new_state()
    answered = await ask(session, request)
    assert answered.retries == 0
    healed = [repair for repair in answered.repairs if repair in engine.applied_heals]
    assert len(healed) == len(engine.applied_heals) == 1
    assert healed[0].reason.endswith("retried")
    later = await ask(session, request)
    assert not [repair for repair in later.repairs if repair in engine.applied_heals]
    assert len(engine.applied_heals) == 1
    first, second, third = transport.bodies
    assert case.before(first), first
    assert not case.after(first)
    assert case.after(second), second
    assert not case.before(second)
    assert second == third
    assert engine.profile != before
    assert (engine.profile.model, engine.profile.base_url) == (before.model, before.base_url)
    assert transport.all_closed


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_same_refusal_again_is_final(case: Case) -> None:
    """Also for later requests: a heal is never undone by the words it was made for."""
    refused = error_reply(400, case.words, code=case.code)
    transport = ScriptedTransport(*[refused] * 6)
    engine = chat_engine(transport, case.model, **more_of(case.model))
    request = Request("", case.messages, stream=case.stream, **case.fields)
    for asked in (2, 3, 4):
        with pytest.raises(ToolglotError):
            await ask(engine.new_state(), request)
        assert len(transport.requests) == asked
    assert len(engine.applied_heals) == 1
    assert transport.bodies[1] == transport.bodies[2] == transport.bodies[3]


def test_every_row_has_a_case() -> None:
    def rows(case: Case) -> list[int]:
        provider, _, model = case.model.partition(":")
        profile = resolve_profile(provider, model)
        healed = heal_profile(case.words, profile)
        return [number for number, heal in enumerate(HEAL_RULES) if healed and heal.reason == healed.reason]

    reasons = {HEAL_RULES[row].reason for case in CASES.values() for row in rows(case)}
    assert reasons == {heal.reason for heal in HEAL_RULES}


def test_rows_name_fields_and_wires_that_exist() -> None:
    wires = {row.wire for row in PROFILES.values()}
    for heal in HEAL_RULES:
        assert {*heal.wires} <= wires
        assert heal.reason
        for key in heal.changes:
            holder: Any = PROFILES["openai-chat"]
            *inner, name = key.split(".")
            for step in inner:
                holder = getattr(holder, step)
            assert name == "surface" or hasattr(holder, name)


# ---- what is not healed


@pytest.mark.parametrize(("model", "words"), [
    ("openai-chat:m", "Invalid value for 'messages[0].content'."),
    ("openai-chat:m", "The model `gpt-9` does not exist or you do not have access to it."),
    ("openai-chat:m", "Incorrect API key provided."),
    ("openai-chat:m", ""),
    ("openai-chat:m", "Invalid `signature` in `thinking` block"),
    ("openai-chat:m", "Function call is missing a thought_signature"),
    ("anthropic:m", "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"),
    ("anthropic:m", "tools.0.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"),
    ("anthropic:m", "To use function tools, use /v1/responses"),
    ("groq:m", "To use function tools, use /v1/responses"),
    ("anthropic:m", "prompt is too long: 210000 tokens > 200000 maximum"),
    ("compatible:m", "temperature must be between 0 and 2"),
])  # fmt: skip
def test_other_refusals_are_left_alone(model: str, words: str) -> None:
    provider, _, name = model.partition(":")
    assert heal_profile(words, resolve_profile(provider, name)) is None


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_failures_are_not_refusals(status: int) -> None:
    """A busy server that happens to use such words is asked again as it is."""
    transport = ScriptedTransport(error_reply(status, CASES["limit, new name"].words), whole_reply())
    engine = chat_engine(transport, "compatible:m", base_url="http://host/v1")
    answered = asyncio.run(engine.ask(Request("", HI, options=Options(max_tokens=7))))
    assert (answered.retries, engine.applied_heals) == (1, ())
    assert transport.bodies[0] == transport.bodies[1]


# ---- from Chat to Responses


@pytest.mark.parametrize(("model", "places", "url"), [
    ("openai-chat:gpt-5.4", {}, "https://api.openai.com/v1/responses"),
    ("openai-chat:gpt-5.4", {"base_url": "https://proxy.example/v1/"}, "https://proxy.example/v1/responses"),
    ("azure-chat:gpt-5.4", {"resource": "res"}, "https://res.openai.azure.com/openai/v1/responses"),
    ("azure-chat:gpt-5.4", {"base_url": "https://r.example/openai/v1"}, "https://r.example/openai/v1/responses"),
    ("azure-dated-chat:gpt-5.4", {"resource": "res", "version": "2025-04-01-preview"},
        "https://res.openai.azure.com/openai/responses?api-version=2025-04-01-preview"),
])  # fmt: skip
def test_the_other_surface_is_at_the_same_place(model: str, places: dict[str, str], url: str) -> None:
    transport = ScriptedTransport(error_reply(400, CASES["responses"].words), RESPONSES)
    asyncio.run(chat_engine(transport, model, **places).ask(Request("", HI, (TOOL,))))
    assert transport.requests[1].url == url
    assert transport.requests[0].headers == transport.requests[1].headers


def test_the_other_surface_has_its_own_defaults_and_the_users_headers() -> None:
    transport = ScriptedTransport(error_reply(400, CASES["responses"].words), RESPONSES)
    engine = chat_engine(transport, "openai-chat:gpt-5.4", headers={"openai-organization": "org"})
    asyncio.run(engine.ask(Request("", HI, (TOOL,))))
    assert transport.bodies[1]["store"] is False
    assert (engine.profile.id, engine.name) == ("openai-responses", "openai-responses:gpt-5.4")
    assert [request.headers["openai-organization"] for request in transport.requests] == ["org", "org"]
