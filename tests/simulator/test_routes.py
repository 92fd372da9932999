"""Paths: every way that a client may write them, and what is not served."""

import pytest

from toolglot.common.jsontext import loads_object
from toolglot.providers.catalog import PROFILES
from toolglot.simulator.core import Simulator
from toolglot.simulator.routes import find_route

from .client import KEYS

PATHS = {
    "/v1/chat/completions": ("openai-chat", ""),
    "/chat/completions": ("openai-chat", ""),
    "/api/v1/chat/completions": ("openai-chat", ""),
    "/openai/deployments/my%20model/chat/completions?api-version=2025-04-01": (
        "azure-dated-chat",
        "my model",
    ),
    "/openai/v1/chat/completions": ("azure-chat", ""),
    "/openai/v1/responses": ("azure-responses", ""),
    "/openai/responses?api-version=2025-04-01": ("azure-dated-responses", ""),
    "/v1/responses": ("openai-responses", ""),
    "/responses": ("openai-responses", ""),
    "/v1/messages": ("anthropic", ""),
    "/v1beta/models/gemini-3-pro:generateContent": ("gemini", "gemini-3-pro"),
    "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse": ("gemini", "gemini-3-pro"),
    "/models/gemini-3-pro:generateContent": ("gemini", "gemini-3-pro"),
    "/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent": ("vertex", "m"),
    "/v1/publishers/google/models/m:generateContent": ("vertex", "m"),
    "/api/chat": ("ollama", ""),
    "/@deepseek/chat/completions": ("deepseek", ""),
    "/@groq/openai/v1/chat/completions": ("groq", ""),
    "/@openai/v1/responses": ("openai-responses", ""),
    "/@llama.cpp/v1/chat/completions": ("llama.cpp", ""),
    "/@vertex/models/m:generateContent": ("vertex", "m"),
}
NOWHERE = {
    "/v1/v1/chat/completions": "error",
    "/v1/chat/completions/": "error",
    "/v1/messages/batches": "type",
    "/v1beta/models/m:embedContent": "error",
    "/api/tags": "error",
    "/@nobody/v1/messages": "type",
    "/@gemini/v1/messages": "error",
    "/@anthropic/nowhere": "type",
}


@pytest.mark.parametrize("path", PATHS)
def test_served(path: str) -> None:
    route = find_route(path)
    assert (route.profile, route.model, route.is_served) == (*PATHS[path], True)
    assert route.wire == PROFILES[route.profile].wire


@pytest.mark.parametrize("path", NOWHERE)
def test_not_served(path: str) -> None:
    answer = Simulator().handle("POST", path, KEYS, b"{}")
    assert (answer.status, next(iter(loads_object(answer.body)))) == (404, NOWHERE[path])


def test_wrong_method_and_missing_version() -> None:
    assert Simulator().handle("GET", "/v1/messages", KEYS, b"").status == 405
    assert Simulator().handle("POST", "/openai/responses", KEYS, b"{}").status == 404


def test_about() -> None:
    answer = Simulator().handle("GET", "/", {}, b"")
    assert (answer.status, loads_object(answer.body)["simulator"]) == (200, "toolglot")


def test_responses_are_deterministic() -> None:
    body = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "stream": true}'
    first, second = (Simulator().handle("POST", "/v1/chat/completions", KEYS, body) for _ in range(2))
    assert first == second


def test_usage_on_request() -> None:
    body = '{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "stream": true%s}'
    for path, sent in (("/v1/chat/completions", False), ("/@mistral/v1/chat/completions", True)):
        assert (b'"usage"' in Simulator().handle("POST", path, KEYS, (body % "").encode()).body) is sent
    asked = (body % ', "stream_options": {"include_usage": true}').encode()
    assert b'"usage"' in Simulator().handle("POST", "/v1/chat/completions", KEYS, asked).body
