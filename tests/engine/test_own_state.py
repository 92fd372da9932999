"""A model gets its own opaque state back, under whatever name its provider answers."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from scripted_transport import WEATHER, ScriptedReply, ScriptedTransport, chat_engine, text_request

from toolglot.common.jsontext import dumps
from toolglot.errors import ToolglotError
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import Conversation, Text, ToolResult, load, save, tool_results, user
from toolglot.values.request import Options, Request
from toolglot.wire.codec import create_reader
from toolglot.wire.writer import Writer

ANTHROPIC = {
    "type": "message", "role": "assistant", "model": "claude-sonnet-4-20250514", "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed-by-model"},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}},
    ],
}  # fmt: skip
GEMINI_CALL = {
    "functionCall": {"name": "get_weather", "args": {"city": "Rome"}},
    "thoughtSignature": "signed-by-model",
}
GEMINI = {
    "modelVersion": "gemini-3.6-flash",
    "candidates": [{"content": {"role": "model", "parts": [GEMINI_CALL]}, "finishReason": "STOP"}],
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "signed-by-model", "index": 0}]
ROUTED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [CALL],
    "reasoning": "Hm.",
    "reasoning_details": DETAILS,
}
OPENROUTER = {
    "model": "anthropic/claude-4.5-haiku-20251001",
    "choices": [{"index": 0, "message": ROUTED, "finish_reason": "tool_calls"}],
}
ALIASES = {
    "anthropic:claude-sonnet-4-0": ANTHROPIC,
    "gemini:gemini-flash-latest": GEMINI,
    "openrouter:anthropic/claude-haiku-4.5": OPENROUTER,
    "openrouter:openrouter/auto": OPENROUTER,
}


def ask_twice(
    model: str, next_model: str, reply: dict[str, Any], *, saved: bool = False
) -> tuple[dict[str, Any], Any]:
    """The second request of a tool loop, and what was lost in it."""
    transport = ScriptedTransport(*[ScriptedReply((dumps(reply),))] * 2)
    options = Options(max_tokens=4000, thinking_budget=2000)

    async def main() -> Any:
        history = Conversation([user("Weather in Rome?")])
        first = await chat_engine(transport, model).ask(
            text_request(messages=history, tools=(WEATHER,), options=options)
        )
        history.append(first.reply.message)
        history.append(
            tool_results(*(ToolResult(call.id, (Text("Sunny."),), call.name) for call in first.reply.calls))
        )
        if saved:
            history, _ = load(save(history))
        request: Request = text_request(messages=history, tools=(WEATHER,), options=options)
        return await chat_engine(transport, next_model).ask(request)

    result = asyncio.run(main())
    return transport.bodies[1], result


@pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])
@pytest.mark.parametrize("model", ALIASES)
def test_state_survives_an_alias(model: str, saved: bool) -> None:
    body, result = ask_twice(model, model, ALIASES[model], saved=saved)
    assert "signed-by-model" in json.dumps(body)
    assert "thinking" in body or not model.startswith("anthropic")
    assert not [loss for loss in (*result.losses, *result.repairs) if loss.where.startswith("messages")]


def test_the_model_that_answered_may_be_asked_by_its_own_name() -> None:
    body, _ = ask_twice("gemini:gemini-flash-latest", "gemini:gemini-3.6-flash", GEMINI)
    assert "signed-by-model" in json.dumps(body)


def test_another_model_does_not_get_the_state() -> None:
    body, result = ask_twice("anthropic:claude-sonnet-4-0", "anthropic:claude-opus-4-1", ANTHROPIC)
    assert "signed-by-model" not in json.dumps(body)
    assert result.losses


@pytest.mark.parametrize(("wire", "provider", "profile_id"), [
    ("anthropic-messages", "anthropic", "anthropic"),
    ("gemini", "google", "gemini"),
    ("openai-chat", "openrouter", "openrouter"),
])  # fmt: skip
def test_every_recorded_model_owns_what_it_said(
    wire: str, provider: str, profile_id: str, recordings: Callable[[str], list[dict[str, Any]]]
) -> None:
    renamed = 0
    for record in recordings(wire):
        if record["status"] != 200 or record["provider"] != provider or not record["request"]:
            continue
        model: str = (
            record["request"].get("model") or record["url_path"].partition("/models/")[2].partition(":")[0]
        )
        profile = resolve_profile(profile_id, model)
        reader = create_reader(wire, streaming=record["streaming"], profile=profile.id, model=model)
        try:
            reader.feed(record["bytes"])
            reader.close()
        except ToolglotError:  # a recorded failure
            continue
        assert Writer(profile, model).owns_state(reader.reply.origin), record["id"]
        renamed += bool(reader.reply.origin and reader.reply.origin.requested)
    assert renamed
