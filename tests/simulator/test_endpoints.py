"""What providers serve beside replies. `tests/sdk/test_loops.py` reads it with their own clients."""

from typing import Any

import pytest

from toolglot.common.jsontext import dumps, loads_object
from toolglot.simulator.core import Simulator

from .client import KEYS


@pytest.mark.parametrize(("method", "path"), [
    ("HEAD", "/api/hello"),
    ("GET", "/api/hello"),
    ("POST", "/v1/metrics"),
    ("GET", "/@groq/openai/v1/models"),
    ("GET", "/@anthropic/v1/models"),
    ("GET", "/openai/v1/models"),
])  # fmt: skip
def test_probes(method: str, path: str) -> None:
    assert Simulator().handle(method, path, {}, b"").status == 200


@pytest.mark.parametrize(("path", "body", "expected"), [
    ("/v1/messages/count_tokens", {"model": "claude-opus-5"}, "messages"),
    ("/v1/responses/compact", {"input": "hi"}, "model"),
    ("/v1beta/models/gemini-2.5-flash:countTokens", {}, "contents"),
    ("/api/show", {}, "model is required"),
    ("/v1/responses", {"model": "gpt-5.1", "input": [{"type": "compaction", "encrypted_content": "made up"}]}, "verified"),
])  # fmt: skip
def test_refusals(path: str, body: dict[str, Any], expected: str) -> None:
    answer = Simulator().handle("POST", path, KEYS, dumps(body))
    assert (answer.status, expected in answer.body.decode()) == (400, True)


@pytest.mark.parametrize(("path", "headers", "expected"), [
    ("/v1/models/none", {"anthropic-version": "2023-06-01"}, '"type":"not_found_error"'),
    ("/v1/models/none", {}, '"code":"model_not_found"'),
    ("/v1beta/models/none", {}, '"status":"NOT_FOUND"'),
])  # fmt: skip
def test_an_unknown_model_is_refused_in_the_form_of_its_provider(
    path: str, headers: dict[str, str], expected: str
) -> None:
    answer = Simulator().handle("GET", path, headers, b"")
    assert (answer.status, expected in answer.body.decode()) == (404, True), answer.body


def test_a_count_may_be_wrapped() -> None:
    """As google-genai's JavaScript client sends it."""
    request = {"model": "models/gemini-2.5-flash", "contents": [{"parts": [{"text": "hi"}]}]}
    path = "/v1beta/models/gemini-2.5-flash:countTokens"
    bodies = [{"generateContentRequest": request}, {"contents": request["contents"]}]
    counts = [
        loads_object(Simulator().handle("POST", path, KEYS, dumps(body)).body)["totalTokens"]
        for body in bodies
    ]
    assert counts[0] == counts[1] > 0
