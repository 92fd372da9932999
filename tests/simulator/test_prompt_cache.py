"""Cached tokens are real prefixes: what was sent before, by the rules of each provider."""

from typing import Any

import pytest

from toolglot import Agent, Options, SimulatedTransport, tool
from toolglot.common.jsontext import loads_object
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Simulator

from .client import Doc, post

LONG = "All work and no play makes Jack a dull boy. " * 150  # about 1,650 tokens
MARK = {"type": "ephemeral"}
OBJECT: Doc = {"type": "object", "properties": {}}


def usage_of(simulator: Simulator, profile: str, model: str, body: Doc) -> Doc:
    answer = post(
        simulator, resolve_profile(profile, model), {"model": model, **body} if profile != "gemini" else body
    )
    assert answer.status == 200, answer.body
    reply = loads_object(answer.body)
    return reply.get("usage") or reply["usageMetadata"]


def claude(
    simulator: Simulator, texts: list[Doc], model: str = "claude-sonnet-4-5", **fields: Any
) -> tuple[int, int, int]:
    """Tokens that were read from the cache, written to it, and neither."""
    body = {"max_tokens": 100, "messages": [{"role": "user", "content": texts}], **fields}
    usage = usage_of(simulator, "anthropic", model, body)
    return usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"], usage["input_tokens"]


def text(value: str, mark: Doc | None = None) -> Doc:
    return {"type": "text", "text": value, **({"cache_control": mark} if mark else {})}


def test_anthropic_caches_up_to_a_mark() -> None:
    simulator = Simulator()
    read, written, plain = claude(simulator, [text(LONG, MARK), text("hi")])
    assert (read, written > 1600, 0 < plain < 40) == (0, True, True)
    assert claude(simulator, [text(LONG, MARK), text("yo")]) == (written, 0, plain)
    assert claude(simulator, [text(LONG), text("hi")])[:2] == (0, 0)  # nobody asks for it
    assert claude(simulator, [text("No. " + LONG, MARK)])[0] == 0
    assert claude(simulator, [text(LONG, MARK)], model="claude-opus-4-8")[:2] == (0, 0)  # it starts at 4,096
    assert claude(simulator, [text("short", MARK)])[:2] == (0, 0)
    # they come first
    assert claude(simulator, [text(LONG, MARK)], tools=[{"name": "f", "input_schema": OBJECT}])[0] == 0


def test_a_longer_conversation_finds_the_prefix_before_its_mark() -> None:
    """At most 20 parts before it; a mark on the whole request stands on the last part."""
    simulator = Simulator()
    _, written, _ = claude(simulator, [text(LONG)], cache_control=MARK)
    assert (
        claude(simulator, [text(LONG), *(text("more") for _ in range(20))], cache_control=MARK)[0] == written
    )
    simulator = Simulator()
    claude(simulator, [text(LONG)], cache_control=MARK)
    assert claude(simulator, [text(LONG), *(text("more") for _ in range(21))], cache_control=MARK)[0] == 0


def test_deferred_tools_are_no_part_of_the_prefix() -> None:
    simulator = Simulator()
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    system = [text(LONG, MARK)]

    def ask(*tools: Doc) -> tuple[int, int, int]:
        return claude(simulator, [text("hi")], system=system, tools=[search, *tools])

    later = {"name": "later", "input_schema": OBJECT, "defer_loading": True}
    _, written, _ = ask(later)
    assert ask(later, {**later, "name": "another"})[:2] == (written, 0)
    assert ask(later, {"name": "now", "input_schema": OBJECT})[0] == 0


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_prefixes_expire_and_are_renewed_by_reading(ttl: str, seconds: int) -> None:
    now = [0.0]
    simulator, marked = Simulator(clock=lambda: now[0]), [text(LONG, {**MARK, "ttl": ttl})]
    _, written, _ = claude(simulator, marked)
    for _ in range(2):
        now[0] += seconds - 1
        assert claude(simulator, marked)[:2] == (written, 0)
    now[0] += seconds + 1
    assert claude(simulator, marked)[:2] == (0, written)


def gpt(simulator: Simulator, content: Any, model: str = "gpt-5.1", **fields: Any) -> tuple[int, int]:
    usage = usage_of(
        simulator, "openai-responses", model, {"input": [{"role": "user", "content": content}], **fields}
    )
    details = usage["input_tokens_details"]
    return details["cached_tokens"], details["cache_write_tokens"]


def test_openai_caches_by_itself_in_steps() -> None:
    simulator = Simulator()
    assert gpt(simulator, LONG) == (0, 0)
    cached, _ = gpt(simulator, LONG + " And then?")
    assert (cached % 128, 1024 <= cached <= 1700) == (0, True)
    assert gpt(simulator, "hi") == (0, 0)
    assert gpt(simulator, LONG, "gpt-5")[0] == 0  # every model has its own
    assert (
        gpt(
            simulator, LONG, tools=[{"type": "function", "name": "f", "parameters": OBJECT, "strict": False}]
        )[0]
        == 0
    )


def test_openai_obeys_breakpoints() -> None:
    simulator, explicit = Simulator(), {"prompt_cache_options": {"mode": "explicit"}}
    part: Doc = {"type": "input_text", "text": LONG}
    assert gpt(simulator, [part], "gpt-5.6-sol", **explicit) == (0, 0)
    marked = [{**part, "prompt_cache_breakpoint": {"mode": "explicit"}}, {"type": "input_text", "text": "hi"}]
    _, written = gpt(simulator, marked, "gpt-5.6-sol", **explicit)
    assert written >= 1024
    assert gpt(simulator, marked, "gpt-5.6-sol", **explicit) == (written, 0)


def test_gemini_caches_by_itself() -> None:
    simulator = Simulator()

    def ask(model: str, *contents: Doc) -> int:
        return usage_of(simulator, "gemini", model, {"contents": [*contents]})["cachedContentTokenCount"]

    first = {"role": "user", "parts": [{"text": LONG * 2}]}
    assert [ask("gemini-2.5-flash", first) > 0 for _ in range(2)] == [False, True]
    assert [ask("gemini-3-pro-preview", first) for _ in range(2)] == [0, 0]  # it starts at 4,096


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: {LONG}"


@pytest.mark.parametrize(
    "profile",
    [
        "anthropic",
        "openai-chat/gpt-4o",
        "openai-responses/gpt-5.6-sol",
        "gemini/gemini-2.5-flash",
        "deepseek",
    ],
)
def test_an_agent_hits_the_cache_with_every_turn(profile: str) -> None:
    """Marks are written where a provider needs them."""
    transport, options = SimulatedTransport(Simulator()), Options(cache=True)
    agent = Agent(f"simulator:{profile}", tools=[look_up], transport=transport, system=LONG, options=options)
    first = agent.run_sync('call look_up {"word": "a"} then call look_up {"word": "b"}')
    second = agent.run_sync("say Thanks.")
    assert first.usage.cached > 1500  # the second request repeats the first one
    assert second.usage.cached > 0.9 * second.usage.input - 200
