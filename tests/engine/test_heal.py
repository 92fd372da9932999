"""Refusals that a request is mended for: each row on the words of a real provider, and what is different in the next body."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from scripted_transport import Doc, ScriptedReply, ScriptedTransport, chat_engine, error_reply, whole_reply

from toolglot.errors import ToolglotError
from toolglot.jsontext import dumps
from toolglot.messages import Message, Origin, Text, Thinking, ToolCall, ToolResult, assistant, tool_results, user
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.heal import HEAL_RULES, heal_profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition

TOOL = ToolDefinition(
    "get",
    "Gets.",
    {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False},
    strict=True,
)
CALL = ToolCall("toolu_01", "get", {"x": "1"})
RESULT = tool_results(ToolResult("toolu_01", (Text("one"),), "get"))


def thought(wire: str, profile: str, model: str, block: Thinking, call: ToolCall = CALL) -> list[Message]:
    return [user("Hi"), Message("assistant", (block, call), Origin(wire, profile, model)), RESULT]


CLAUDE = thought(
    "anthropic-messages", "anthropic", "claude-sonnet-4-5", Thinking("hm", {"signature": "c2ln", "type": "thinking"})
)
REASONED = thought(
    "openai-responses",
    "openai-responses",
    "gpt-5",
    Thinking("hm", {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []}),
)
PLAIN = [user("Hi"), assistant(["So:", CALL]), RESULT]
HI = [user("Hi")]

ANTHROPIC = ScriptedReply(
    (
        dumps(
            {
                "id": "m",
                "model": "c",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "ok"}],
                "stop_reason": "end_turn",
            }
        ),
    )
)
RESPONSES = ScriptedReply((dumps({"id": "r", "model": "m", "status": "completed", "output": []}),))
GEMINI = ScriptedReply(
    (dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}),)
)
FINE = {"anthropic-messages": ANTHROPIC, "openai-responses": RESPONSES, "gemini": GEMINI, "openai-chat": whole_reply()}


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


def forced(body: Doc) -> bool:
    return body.get("tool_choice") not in (None, "auto", {"type": "auto"})


def free(body: Doc) -> bool:
    return not forced(body) and bool(body["tools"])


REQUIRED: Doc = {"tools": (TOOL,), "tool_choice": ToolChoice("required")}
WARM: Doc = {"options": Options(temperature=0.2)}
LIMITED: Doc = {"options": Options(max_tokens=7)}
CASES = {
    "responses": Case(
        "openai-chat:gpt-5.4",
        "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        holds("messages"),
        holds("input"),
        PLAIN,
        {"tools": (TOOL,)},
    ),
    "sampling, anthropic": Case(
        "anthropic:claude-next",
        "temperature: Extra inputs are not permitted",
        holds("temperature"),
        lacks("temperature"),
        fields=WARM,
    ),
    "sampling, deprecated": Case(
        "anthropic:claude-next",
        "`temperature` is deprecated for this model.",
        holds("temperature"),
        lacks("temperature"),
        fields=WARM,
    ),
    "sampling, value": Case(
        "openai-chat:next",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        holds("temperature"),
        lacks("temperature"),
        fields=WARM,
        code="unsupported_value",
    ),
    "sampling, parameter": Case(
        "openai-responses:next",
        "Unsupported parameter: 'top_p' is not supported with this model.",
        holds("top_p"),
        lacks("top_p"),
        fields={"options": Options(top_p=0.5)},
    ),
    "thinking, bound": Case(
        "anthropic:claude-sonnet-4-5",
        "messages.1.content.0: This thinking block is bound to a different conversation prefix.",
        says("c2ln"),
        silent("c2ln"),
        CLAUDE,
        {"tools": (TOOL,)},
    ),
    "thinking, signature": Case(
        "anthropic:claude-sonnet-4-5",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        says("c2ln"),
        silent("c2ln"),
        CLAUDE,
        {"tools": (TOOL,)},
    ),
    "thinking, modified": Case(
        "anthropic:claude-sonnet-4-5",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response.",
        says("c2ln"),
        silent("c2ln"),
        CLAUDE,
        {"tools": (TOOL,)},
    ),
    "reasoning, following": Case(
        "openai-responses:gpt-5",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        says("gAAA"),
        silent("gAAA"),
        REASONED,
        {"tools": (TOOL,)},
    ),
    "reasoning, required": Case(
        "openai-responses:gpt-5",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        says("gAAA"),
        silent("gAAA"),
        REASONED,
        {"tools": (TOOL,)},
    ),
    "reasoning, encrypted": Case(
        "openai-responses:gpt-5",
        "The reasoning item's encrypted content for item rs_1 could not be verified.",
        says("gAAA"),
        silent("gAAA"),
        REASONED,
        {"tools": (TOOL,)},
    ),
    "signature": Case(
        "gemini:gemini-next",
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.",
        silent("thoughtSignature"),
        says("thoughtSignature"),
        PLAIN,
        {"tools": (TOOL,)},
    ),
    "reasoning content": Case(
        "compatible:deepseek-like",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        silent("reasoning_content"),
        says("reasoning_content"),
        PLAIN,
        {"tools": (TOOL,)},
    ),
    "choice, deepseek": Case("groq:m", "deepseek-reasoner does not support this tool_choice", forced, free, fields=REQUIRED),
    "choice, thinking": Case(
        "anthropic:claude-sonnet-4-5",
        "Thinking may not be enabled when tool_choice forces tool use.",
        forced,
        free,
        fields=REQUIRED,
    ),
    "choice, value": Case(
        "compatible:m", "tool_choice 'required' is not supported by this server", forced, free, fields=REQUIRED
    ),
    "strict, grammar": Case(
        "anthropic:claude-sonnet-4-5",
        "The compiled grammar is too large, which would cause performance issues. "
        "Simplify your tool schemas or reduce the number of strict tools.",
        says('"strict":true'),
        silent('"strict":true'),
        fields={"tools": (TOOL,)},
    ),
    "strict, optional": Case(
        "anthropic:claude-sonnet-4-5",
        "Too many optional parameters in tool schemas (30). Limit: 24.",
        says('"strict":true'),
        silent('"strict":true'),
        fields={"tools": (TOOL,)},
    ),
    "strict, many": Case(
        "anthropic:claude-sonnet-4-5",
        "Too many strict tools (25). Maximum: 20.",
        says('"strict":true'),
        silent('"strict":true'),
        fields={"tools": (TOOL,)},
    ),
    "limit, new name": Case(
        "compatible:m",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        holds("max_tokens"),
        holds("max_completion_tokens"),
        fields=LIMITED,
        code="unsupported_parameter",
    ),
    "limit, old name": Case(
        "groq:m",
        "body -> Unrecognized request argument supplied: max_completion_tokens",
        holds("max_completion_tokens"),
        holds("max_tokens"),
        fields=LIMITED,
    ),
    "stream options": Case(
        "compatible:m",
        "Unrecognized request argument supplied: stream_options",
        holds("stream_options"),
        lacks("stream_options"),
        stream=True,
    ),
    "stream options, pydantic": Case(
        "compatible:m",
        "body.stream_options: Extra inputs are not permitted",
        holds("stream_options"),
        lacks("stream_options"),
        stream=True,
    ),
}


def more_of(model: str) -> dict[str, str]:
    return {"base_url": "http://host/v1"} if model.startswith("compatible") else {}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_cured_once_and_for_later(case: Case) -> None:
    """The refused body had what was refused, the next one has not; the same words again are final; later requests are right."""
    refused = error_reply(400, case.words, code=case.code)

    def fine(request: Any) -> ScriptedReply:
        return FINE["openai-responses" if request.url.endswith("/responses") else engine.profile.wire]

    request = Request("", case.messages, stream=False, **case.fields)
    if case.stream:
        request = Request("", case.messages, stream=True, **case.fields)

    transport = ScriptedTransport(refused, fine, fine)
    engine = chat_engine(transport, case.model, **more_of(case.model))
    before = engine.profile
    session = engine.new_state()
    async for _ in session.stream_batches(request):
        pass
    answered = session.result
    assert answered is not None
    assert answered.retries == 0
    healed = [repair for repair in answered.repairs if repair in engine.applied_heals]
    assert len(healed) == len(engine.applied_heals) == 1
    assert healed[0].reason.endswith("retried")
    await session.ask(request) if not case.stream else [batch async for batch in session.stream_batches(request)]
    assert session.result is not None
    assert not [repair for repair in session.result.repairs if repair in engine.applied_heals]
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
async def test_words_that_come_again_are_final(case: Case) -> None:
    """Also for later requests: a cure is never taken back by the words it was made for."""
    refused = error_reply(400, case.words, code=case.code)
    transport = ScriptedTransport(*[refused] * 6)
    engine = chat_engine(transport, case.model, **more_of(case.model))
    request = Request("", case.messages, stream=case.stream, **case.fields)
    for asked in (2, 3, 4):
        with pytest.raises(ToolglotError):
            async for _ in engine.new_state().stream_batches(request):
                pass
        assert len(transport.requests) == asked
    assert len(engine.applied_heals) == 1
    assert transport.bodies[1] == transport.bodies[2] == transport.bodies[3]


def test_every_row_has_a_case() -> None:
    def rows(case: Case) -> list[int]:
        provider, _, model = case.model.partition(":")
        profile = resolve_profile(provider, model)
        found = heal_profile(case.words, profile)
        return [number for number, heal in enumerate(HEAL_RULES) if found and heal.reason == found.reason]

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


# ---- what is not cured


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
    answered = asyncio.run(engine.ask(Request("", HI, **LIMITED)))
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


def test_the_other_surface_has_its_own_defaults() -> None:
    transport = ScriptedTransport(error_reply(400, CASES["responses"].words), RESPONSES)
    engine = chat_engine(transport, "openai-chat:gpt-5.4")
    asyncio.run(engine.ask(Request("", HI, (TOOL,))))
    assert transport.bodies[1]["store"] is False
    assert (engine.profile.id, engine.name) == ("openai-responses", "openai-responses:gpt-5.4")


def test_the_users_headers_stay() -> None:
    transport = ScriptedTransport(error_reply(400, CASES["responses"].words), RESPONSES)
    engine = chat_engine(transport, "openai-chat:gpt-5.4", headers={"openai-organization": "org"})
    asyncio.run(engine.ask(Request("", HI, (TOOL,))))
    assert [request.headers["openai-organization"] for request in transport.requests] == ["org", "org"]
