"""Requests that a provider answered with 200 are accepted, except for state that only the provider can make."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.wire.spec import SPECS, WIRES

from .client import error_text, post

# providers of the recordings -> profile, beside those that have a profile of their name
OWN = {
    "openai": {"openai-chat", "openai-responses"},
    "anthropic": {"anthropic"},
    "google": {"gemini"},
    "ollama": {"ollama"},
}
# What the simulator refuses all the same, and why.
EXPECTED = (
    "Invalid `signature` in `thinking` block",  # made by the provider
    "Thought signature is not valid",
    "encrypted content for item",
    "missing a thought_signature",
    "Previous response with id",  # nothing is stored here
    "Tool call id was call_REDACTED",  # changed when it was recorded
    "Unexpected role 'user' after role 'tool'",  # some models of Mistral take it
    "unexpected `tool_use_id` found",  # two bodies that were cut when they were recorded
    "string too long. Expected a string with maximum length 40",  # OpenRouter: some of its models take it
)


@pytest.mark.parametrize("wire", WIRES)
def test_recorded_requests_are_accepted(wire: str, recordings: Callable[[str], list[dict[str, Any]]]) -> None:
    refused: list[str] = []
    taken = 0
    for record in recordings(wire):
        body, provider = record["request"], record["provider"]
        profile = provider if provider in PROFILES else SPECS[wire].default_profile
        if record["status"] != 200 or PROFILES[profile].wire != wire or not isinstance(body, dict):
            continue
        if profile != provider and SPECS[wire].default_profile not in OWN.get(provider, ()):
            continue
        named = re.search(r"models/([^:/]+)", record["url_path"])
        model = named[1] if named else body.get("model", "")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        answer = post(Simulator(), resolve_profile(profile, model), body, headers={"anthropic-beta": "any"})  # pyright: ignore[reportUnknownArgumentType]
        taken += answer.status == 200
        if answer.status != 200 and not any(words in error_text(answer) for words in EXPECTED):
            refused.append(f"{record['id']}: {error_text(answer)[:200]}")
    assert refused == []
    assert taken > 30
