"""Loads the payloads of the design documents, and notes which test loaded which."""

import json
import os
from pathlib import Path
from typing import Any

from tests.handover.harness import RecordingTransport, make_engine, make_transport

from toolglot.loop.agent.agent import Orchestrator
from toolglot.simulator.core import Script
from toolglot.values.messages import Message, Reply, Text, ToolCall, ToolResult

PAYLOADS = Path(__file__).parent / "payloads"
LOADED_LOG = "SEED_PAYLOADS_LOADED"
"""The environment variable that names a file for the note: `test id<tab>payload`, one per line."""
# The names that the documents have for providers -> a model of each. "openai" is the chat format there.
MODELS = {
    "openai": "openai-chat/gpt-4o",
    "openai-chat": "openai-chat/gpt-4o",
    "openai-responses": "openai-responses/gpt-5.1",
    "claude": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-pro",
    "ollama": "ollama/qwen3",
    "grok": "xai/grok-4",
    "deepseek": "deepseek/deepseek-chat",
    "azure": "azure/gpt-4o",
    "openrouter": "openrouter/openai/gpt-4o",
    "copilot": "copilot/gpt-4o",
}
FIVE_WIRES = ("openai-chat", "openai-responses", "claude", "gemini", "ollama")


def load_payload(name: str) -> Any:
    """Return a payload; `name` is that of its file without the suffix."""
    if log := os.environ.get(LOADED_LOG):
        test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0].partition("[")[0]
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{test}\t{name}\n")
    return json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))


def call(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def name_fields(names: list[str], *values: Any) -> dict[str, Any]:
    """Return the values under the names that a document has for them."""
    return dict(zip(names, values, strict=True))


Agent = Orchestrator[Any, Any]


def make_agent(
    provider: str, *calls: ToolCall, answer: str = "done", **options: Any
) -> tuple[Agent, RecordingTransport]:
    """Return an agent whose model makes these calls in one reply and then answers; and what carries its
    requests.
    """
    profile, _, model = MODELS[provider].partition("/")
    replies = [Reply(calls, "tools"), Reply((Text(answer),))] if calls else [Reply((Text(answer),))]
    transport = make_transport(Script(replies))
    return Orchestrator(make_engine(profile, transport, model=model), **options), transport


def find_results(conversation: Any) -> list[ToolResult]:
    messages: list[Message] = list(conversation)
    return [result for message in messages for result in message.results]
