"""Requests and their options."""

from math import nan
from typing import Any

import pytest

from toolglot.errors import UnknownName, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import user
from toolglot.values.request import Options, Output, Request
from toolglot.wire.codec import encode_request

WIRES = {
    "openai-chat": ("openai-chat", "gpt-4o"),
    "openai-responses": ("openai-responses", "gpt-4o"),
    "anthropic-messages": ("anthropic", "claude-sonnet-4-5"),
    "gemini": ("gemini", "gemini-2.5-pro"),
    "ollama-chat": ("ollama", "qwen3"),
}
FIELDS = {"some_field": {"a": [1, None, "b"]}}


def encode(wire: str, request: Request) -> tuple[dict[str, Any], list[str]]:
    encoded = encode_request(request, resolve_profile(*WIRES[wire]))
    return encoded.body, [loss.subject for loss in encoded.losses]


@pytest.mark.parametrize("wire", WIRES)
def test_a_providers_own_parameters_are_sent_on_its_wire_and_lost_on_the_others(wire: str) -> None:
    for target in WIRES:
        body, losses = encode(target, Request("", [user("hi")], options=Options(extras={wire: FIELDS})))
        if target == wire:
            assert (body["some_field"], losses) == (FIELDS["some_field"], [])
        else:
            assert ("some_field" in body, losses) == (False, ["some_field"])


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
def test_a_family_stands_for_its_wires(wire: str) -> None:
    body, losses = encode(
        wire, Request("", [user("hi")], options=Options(extras={"openai": {"service_tier": "flex"}}))
    )
    assert (body["service_tier"], losses) == ("flex", [])


def test_what_a_request_says_itself_takes_precedence() -> None:
    options = Options(extras={"gemini": {"a": 1, "b": 1}, "openai-chat": {"c": 1}})
    request = Request("", [user("hi")], options=options, extras={"gemini": {"b": 2}, "ollama-chat": {"d": 2}})
    assert request.extras == {
        "gemini": {"a": 1, "b": 2},
        "openai-chat": {"c": 1},
        "ollama-chat": {"d": 2},
    }
    assert (encode("gemini", request)[0]["a"], encode("gemini", request)[0]["b"]) == (1, 2)


def test_objects_are_merged_with_ours() -> None:
    output = Output({"type": "object", "properties": {}, "additionalProperties": False})
    options = Options(extras={"openai-responses": {"text": {"verbosity": "low"}}}, effort="low")
    body, _ = encode("openai-responses", Request("", [user("hi")], options=options, output=output))
    assert (body["text"]["verbosity"], body["text"]["format"]["type"]) == ("low", "json_schema")
    options = Options(extras={"ollama-chat": {"options": {"num_ctx": 8192}}}, temperature=0.5)
    body, _ = encode("ollama-chat", Request("", [user("hi")], options=options))
    assert body["options"] == {"num_ctx": 8192, "temperature": 0.5}


@pytest.mark.parametrize(("extras", "message"), [
    ({"openai": {"a": nan}}, r"extras of Options: \$\.openai\.a: JSON has no nan"),
    ({"openai": {"a": {1, 2}}}, r"extras of Options: \$\.openai\.a: JSON has no set"),
    ({"openai": {"a": {1: 2}}}, r"extras of Options: \$\.openai\.a: a key is 1, and JSON has only strings as "
                                r"keys"),
    ({"openai": 1}, "extras of Options: expected "),
    ([], "extras of Options: expected "),
])  # fmt: skip
def test_what_is_not_json_is_refused_when_it_is_made(extras: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Options(extras=extras)


def test_an_agent_refuses_a_wire_that_there_is_not() -> None:
    with pytest.raises(
        UnknownName, match="unknown wire in extras 'anthropic'; did you mean 'anthropic-messages'"
    ):
        Agent("simulator", options=Options(extras={"anthropic": {"metadata": {}}}))
