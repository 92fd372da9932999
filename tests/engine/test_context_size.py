"""How many tokens llama.cpp and Ollama give a model, as their servers say."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest
from scripted_transport import ScriptedReply, ScriptedTransport

from toolglot.common.jsontext import dumps, loads
from toolglot.engine.context_size import OLLAMA_DEFAULT, fetch_context_size, set_context_size
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ConnectFailed


class Server:
    """Answers by path; what is not there is a 404."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.requests = answers, list[tuple[str, str, Any]]()

    async def send(self, request: HttpRequest) -> HttpResponse:
        path = urlsplit(request.url).path
        self.requests.append((request.method, path, loads(request.body) if request.body else None))
        answer = self.answers.get(path)
        status = 404 if answer is None else 200
        data = answer if isinstance(answer, bytes) else dumps(answer)
        return await ScriptedTransport(ScriptedReply((data,), status)).send(request)


def ask(
    model: str, answers: dict[str, Any], num_ctx: int | None = None, **options: Any
) -> tuple[int | None, Server]:
    server = Server(answers)
    engine = create_engine(model, transport=server, **options)
    return asyncio.run(fetch_context_size(engine, num_ctx)), server


LLAMA_CPP: dict[str, Any] = {
    "/props": {"default_generation_settings": {"n_ctx": 4096, "params": {}}, "total_slots": 1}
}


@pytest.mark.parametrize("base_url", [None, "http://box:1", "http://box:1/v1", "http://box:1/v1/"])
def test_llama_cpp_says_what_a_slot_has(base_url: str | None) -> None:
    size, server = ask("llama.cpp:m", LLAMA_CPP, base_url=base_url)
    assert (size, server.requests) == (4096, [("GET", "/props", None)])


def loaded(name: str, size: int) -> dict[str, Any]:
    return {
        "/api/ps": {
            "models": [{"name": "other:latest", "context_length": 1}, {"name": name, "context_length": size}]
        }
    }


@pytest.mark.parametrize(("answers", "size"), [
    (loaded("qwen3:latest", 32768), 32768),
    (loaded("qwen3:8b", 32768) | {"/api/show": {"parameters": "stop  \"a\"\nnum_ctx    8192\ntop_k "
                                                              "20"}}, 8192),
    ({"/api/ps": {"models": []}, "/api/show": {"parameters": "temperature 1"}}, OLLAMA_DEFAULT),
    ({"/api/ps": {"models": []}, "/api/show": {"model_info": {"qwen3.context_length": 40960}}}, OLLAMA_DEFAULT),
])  # fmt: skip
def test_ollama_says_what_is_loaded_else_what_the_model_asks_for(answers: dict[str, Any], size: int) -> None:
    assert ask("ollama:qwen3", answers)[0] == size


def test_what_requests_ask_ollama_for_needs_no_question() -> None:
    size, server = ask("ollama:qwen3", {}, num_ctx=16384)
    assert (size, server.requests) == (16384, [])
    assert ask("llama.cpp:m", LLAMA_CPP, num_ctx=16384)[0] == 4096  # it cannot be asked for


@pytest.mark.parametrize(
    "answers", [{}, {"/props": b"<html>"}, {"/props": []}, {"/props": {"default_generation_settings": 1}}]
)
def test_a_server_that_does_not_say_is_not_asked_again(answers: dict[str, Any]) -> None:
    size, server = ask("llama.cpp:m", answers)
    assert (size, len(server.requests)) == (None, 1)


def test_a_server_that_is_not_there() -> None:
    engine = create_engine("ollama:qwen3", transport=ScriptedTransport(ConnectFailed("refused")))
    assert asyncio.run(fetch_context_size(engine)) is None


@pytest.mark.parametrize("model", ["openai-chat:gpt-4o", "simulator:ollama", "simulator:llama.cpp"])
def test_nobody_else_is_asked(model: str) -> None:
    engine: Engine = create_engine(model, key="k-123456")
    assert asyncio.run(fetch_context_size(engine)) is None


def test_an_engine_knows_what_its_server_said() -> None:
    engine = create_engine("llama.cpp:m")
    set_context_size(engine, 4096)
    assert engine.profile.limits.context == 4096
