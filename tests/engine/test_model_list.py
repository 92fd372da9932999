"""Models that a provider does not know, and the names that it has instead."""

import asyncio
import json
import traceback
from typing import Any

import pytest

from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.model_list import describe_error, list_models
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import AuthenticationFailed, ConnectFailed, MalformedReply, NotFound, ProviderError


class _Answer:
    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.headers, self._body = status, dict[str, str](), body

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    async def close(self) -> None:
        pass


class _Provider:
    """Answers one thing; remembers what it was asked."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        self.asked: list[HttpRequest] = []
        self._answer, self._status = answer, status

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        body = self._answer if isinstance(self._answer, bytes) else json.dumps(self._answer).encode()
        return _Answer(self._status, body)


def engine(model: str, provider: _Provider) -> Engine:
    return create_engine(model, transport=provider, key="k-123456")


OPENAI = {"data": [{"id": "gpt-4o"}, {"id": "gpt-4o-mini"}, {"id": "o3"}]}
GEMINI = {"models": [{"name": "models/gemini-2.5-pro"}, {"name": "models/gemini-2.5-flash"}]}
OLLAMA = {"models": [{"name": "qwen3:8b"}]}


@pytest.mark.parametrize(("model", "said", "url", "names"), [
    ("openai-chat:gpt-4", OPENAI, "https://api.openai.com/v1/models", ("gpt-4o", "gpt-4o-mini", "o3")),
    ("anthropic:x", {"data": []}, "https://api.anthropic.com/v1/models", ()),
    ("gemini:x", GEMINI, "https://generativelanguage.googleapis.com/v1beta/models", ("gemini-2.5-flash", "gemini-2.5-pro")),
    ("ollama:x", OLLAMA, "http://127.0.0.1:11434/api/tags", ("qwen3:8b",)),
])  # fmt: skip
def test_names_are_read_from_the_providers_own_list(model: str, said: Any, url: str, names: tuple[str, ...]) -> None:
    provider = _Provider(said)
    assert asyncio.run(list_models(engine(model, provider))) == names
    assert (provider.asked[0].method, provider.asked[0].url) == ("GET", url)


def test_a_list_that_is_none_is_an_error() -> None:
    for body in (b"<html>", b"[]", b'{"data": [1]}'):
        with pytest.raises(MalformedReply):
            asyncio.run(list_models(engine("openai-chat:x", _Provider(body))))
    with pytest.raises(AuthenticationFailed):
        asyncio.run(list_models(engine("openai-chat:x", _Provider({"error": {"message": "no"}}, 401))))


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize("model", ["openai-chat:x", "anthropic:x", "gemini:x"])
def test_a_provider_that_repeats_the_key_does_not_make_us_tell_it(model: str, status: int) -> None:
    said = {"error": {"message": "Incorrect API key provided: k-123456.", "headers": {"key": "k-123456"}}}
    with pytest.raises(ProviderError) as caught:
        asyncio.run(list_models(engine(model, _Provider(said, status))))
    error = caught.value
    assert "Incorrect API key provided" in str(error)
    told = "".join(traceback.format_exception(error)) + repr(error) + str(error.body)
    assert "k-123456" not in told


def test_who_has_no_list_is_not_asked() -> None:
    assert asyncio.run(list_models(create_engine("simulator:openai-chat"))) == ()


@pytest.mark.parametrize(("answer", "hint"), [
    (OPENAI, "; did you mean 'gpt-4o' or 'gpt-4o-mini'?"),
    (ConnectFailed("gone"), ""),
    (b"<html>", ""),
    (GEMINI, ""),
])  # fmt: skip
def test_similar_names_of_an_unknown_model(answer: Any, hint: str) -> None:
    error = NotFound("the model gpt-40 does not exist")
    assert asyncio.run(describe_error(error, engine("openai-chat:gpt-40", _Provider(answer)))) == f"{error}{hint}"


def test_other_errors_need_no_request() -> None:
    provider = _Provider(OPENAI)
    assert asyncio.run(describe_error(AuthenticationFailed("no"), engine("openai-chat:gpt-40", provider))) == "no"
    assert asyncio.run(describe_error(ConnectFailed("gone"), engine("openai-chat:gpt-40", provider))) == "gone"
    hint = "gone: is Ollama running? Set --base-url if it runs elsewhere"
    assert asyncio.run(describe_error(ConnectFailed("gone"), engine("ollama:qwen3", provider))) == hint
    assert provider.asked == []
