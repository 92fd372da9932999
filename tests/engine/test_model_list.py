"""Models that a provider does not know, and the names that it has instead."""

import asyncio
import traceback
from typing import Any

import pytest
from scripted_transport import ScriptedReply, ScriptedTransport

from toolglot.common.jsontext import dumps
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.model_list import complete_hint, list_models
from toolglot.errors import (
    AuthenticationFailed,
    ConnectFailed,
    MalformedReply,
    NotFound,
    ProviderError,
    ToolglotError,
)


def provider(answer: Any, status: int = 200) -> ScriptedTransport:
    """A provider that answers one request."""
    if isinstance(answer, ToolglotError):
        return ScriptedTransport(answer)
    return ScriptedTransport(ScriptedReply((answer if isinstance(answer, bytes) else dumps(answer),), status))


def engine(model: str, transport: ScriptedTransport) -> Engine:
    return create_engine(model, transport=transport, key="k-123456")


OPENAI = {"data": [{"id": "gpt-4o"}, {"id": "gpt-4o-mini"}, {"id": "o3"}]}
GEMINI = {"models": [{"name": "models/gemini-2.5-pro"}, {"name": "models/gemini-2.5-flash"}]}
OLLAMA = {"models": [{"name": "qwen3:8b"}]}


@pytest.mark.parametrize(("model", "answer", "url", "names"), [
    ("openai-chat:gpt-4", OPENAI, "https://api.openai.com/v1/models", ("gpt-4o", "gpt-4o-mini", "o3")),
    ("anthropic:x", {"data": []}, "https://api.anthropic.com/v1/models", ()),
    ("gemini:x", GEMINI, "https://generativelanguage.googleapis.com/v1beta/models", ("gemini-2.5-flash", "gemini-2.5-pro")),
    ("ollama:x", OLLAMA, "http://127.0.0.1:11434/api/tags", ("qwen3:8b",)),
])  # fmt: skip
def test_names_are_read_from_the_providers_own_list(
    model: str, answer: Any, url: str, names: tuple[str, ...]
) -> None:
    transport = provider(answer)
    assert asyncio.run(list_models(engine(model, transport))) == names
    assert (transport.requests[0].method, transport.requests[0].url) == ("GET", url)


def test_an_invalid_list_is_an_error() -> None:
    for body in (b"<html>", b"[]", b'{"data": [1]}'):
        with pytest.raises(MalformedReply):
            asyncio.run(list_models(engine("openai-chat:x", provider(body))))
    with pytest.raises(AuthenticationFailed):
        asyncio.run(list_models(engine("openai-chat:x", provider({"error": {"message": "no"}}, 401))))


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize("model", ["openai-chat:x", "anthropic:x", "gemini:x"])
def test_errors_show_no_key(model: str, status: int) -> None:
    answer = {"error": {"message": "Incorrect API key provided: k-123456.", "headers": {"key": "k-123456"}}}
    with pytest.raises(ProviderError) as caught:
        asyncio.run(list_models(engine(model, provider(answer, status))))
    error = caught.value
    assert "Incorrect API key provided" in str(error)
    output = "".join(traceback.format_exception(error)) + repr(error) + str(error.body)
    assert "k-123456" not in output


def test_the_simulator_has_no_list() -> None:
    assert asyncio.run(list_models(create_engine("simulator:openai-chat"))) == ()


@pytest.mark.parametrize(("answer", "hint"), [
    (OPENAI, "did you mean 'gpt-4o' or 'gpt-4o-mini'?"),
    (ConnectFailed("gone"), "as before"),
    (b"<html>", "as before"),
    (GEMINI, "as before"),
])  # fmt: skip
def test_similar_names_of_an_unknown_model(answer: Any, hint: str) -> None:
    error = NotFound("the model gpt-40 does not exist")
    error.hint = "as before"
    asyncio.run(complete_hint(error, engine("openai-chat:gpt-40", provider(answer))))
    assert error.hint == hint


def test_a_model_that_is_listed_is_not_what_is_missing() -> None:
    error = NotFound("Invalid URL")
    error.hint = "as before"
    asyncio.run(complete_hint(error, engine("openai-chat:gpt-4o", provider(OPENAI))))
    assert error.hint == "the server has this model: check the base URL"
