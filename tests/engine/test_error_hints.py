"""An error of a request says which model was asked, where, and what to do."""

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from scripted_transport import KEY, QUICK, Entry, ScriptedReply, ScriptedTransport

from toolglot import coding_tools
from toolglot.common.jsontext import dumps
from toolglot.engine.auth import KeyVariable, Token
from toolglot.engine.factory import create_engine
from toolglot.errors import ConnectFailed, MalformedReply, ProviderError, TimedOut, TransportError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.format_call import describe_error
from toolglot.values.messages import user
from toolglot.values.request import Request

OPENAI_URL = "https://api.openai.com/v1/chat/completions"


def refusal(status: int, message: str, **fields: Any) -> ScriptedReply:
    return ScriptedReply((dumps({"error": {"message": message, **fields}}),), status)


RequestError = ProviderError | TransportError | MalformedReply


def fail(*script: Entry, model: str = "openai-chat:gpt-x", **options: Any) -> RequestError:
    """Return the error of a request."""
    arguments: dict[str, Any] = {"key": KEY, **options}
    engine = create_engine(model, transport=ScriptedTransport(*script), retry=QUICK, **arguments)
    with pytest.raises((ProviderError, TransportError, MalformedReply)) as caught:
        asyncio.run(engine.ask(Request("", [user("hi")])))
    return caught.value


@pytest.mark.parametrize(("answer", "message"), [
    (
        refusal(401, "Incorrect API key provided."),
        f"openai-chat:gpt-x: Incorrect API key provided (401 from {OPENAI_URL}); check the key passed as "
        "key=",
    ),
    (
        refusal(403, "no access"),
        f"openai-chat:gpt-x: no access (403 from {OPENAI_URL}); "
        "the key passed as key= does not allow it: use another",
    ),
    (
        refusal(404, "The model `gpt-x` does not exist"),
        f"openai-chat:gpt-x: The model `gpt-x` does not exist (404 from {OPENAI_URL}); "
        "toolglot models openai-chat lists the models",
    ),
    (
        ScriptedReply((b"<html><title>404 Not Found</title></html>",), 404),
        f"openai-chat:gpt-x: 404 Not Found (404 from {OPENAI_URL}); check the base URL",
    ),
    (
        refusal(429, "You exceeded your current quota", code="insufficient_quota"),
        f"openai-chat:gpt-x: You exceeded your current quota (429 from {OPENAI_URL}); "
        "add credit to the account, or use another key",
    ),
    (
        refusal(400, "This model's maximum context length is 10 tokens.", code="context_length_exceeded"),
        f"openai-chat:gpt-x: This model's maximum context length is 10 tokens (400 from {OPENAI_URL}); "
        "shorten the conversation, or offer fewer tools",
    ),
    (refusal(400, "Invalid 'top_p'"), f"openai-chat:gpt-x: Invalid 'top_p' (400 from {OPENAI_URL})"),
])  # fmt: skip
def test_a_refusal_names_the_model_the_address_and_what_to_do(answer: ScriptedReply, message: str) -> None:
    error = fail(answer)
    assert isinstance(error, ProviderError)
    assert str(error) == message
    assert (error.provider, error.model, error.url) == ("openai-chat", "gpt-x", OPENAI_URL)
    assert error.message.rstrip(".") in message
    assert KEY not in repr(error) + str(vars(error))


class SignIn:
    async def token(self, *, fresh: bool) -> Token:
        return Token("token-of-the-sign-in")


@pytest.mark.parametrize(("options", "key"), [
    ({"key": None}, "the key in OPENAI_API_KEY"),
    ({"key": KeyVariable("MY_KEY")}, "the key in MY_KEY"),
    ({"key": lambda: "a-key-from-a-function"}, "the key passed as key="),
    ({"key": SignIn()}, "the sign-in"),
])  # fmt: skip
def test_which_key_was_refused(options: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-from-the-environment")
    monkeypatch.setenv("MY_KEY", "a-key-from-a-variable")
    error = fail(refusal(401, "no"), refusal(401, "no"), **options)
    assert str(error).endswith(f"(401 from {OPENAI_URL}); check {key}")


def test_a_missing_key_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    error = fail(key=None)
    assert (
        str(error)
        == "openai-chat:gpt-x: no key for OpenAI Chat Completions: set OPENAI_API_KEY or pass key=…"
    )


LOCAL = "http://127.0.0.1:1"


@pytest.mark.parametrize(("model", "options", "hint"), [
    ("openai-chat:x", {}, "check the network, the proxy settings and the base URL"),
    ("ollama:qwen3", {}, "is Ollama running? Set the base URL if it runs elsewhere"),
    ("anthropic:x", {"base_url": LOCAL}, "is a server running? Set the base URL if it runs elsewhere"),
    ("compatible:x", {"base_url": LOCAL}, "is a server running? Set the base URL if it runs elsewhere"),
])  # fmt: skip
def test_a_server_that_cannot_be_reached(model: str, options: dict[str, Any], hint: str) -> None:
    error = fail(*[ConnectFailed("connection refused")] * 3, model=model, **options)
    assert isinstance(error, TransportError)
    assert (error.message, error.hint) == ("connection refused", hint)
    assert str(error).startswith(f"{model}: connection refused")


@pytest.mark.parametrize(("base_url", "hint"), [
    (None, "toolglot models openai-chat lists the models"),
    (
        "https://gateway.example/v1/chat/completions",
        "check the base URL and the model: toolglot models openai-chat lists the models",
    ),
])  # fmt: skip
def test_not_found_may_be_the_fault_of_a_base_url(base_url: str | None, hint: str) -> None:
    assert fail(refusal(404, "Invalid URL"), base_url=base_url).hint == hint


@pytest.mark.parametrize(("base_url", "hint"), [
    (None, "try again later, or set fallbacks"),
    (LOCAL, "see the server's log; a model that cannot call tools may fail like this: try it without them"),
])  # fmt: skip
def test_a_server_of_ones_own_that_fails(base_url: str | None, hint: str) -> None:
    assert fail(*[refusal(500, "cannot parse the call")] * 3, base_url=base_url).hint == hint


def test_the_command_line_names_its_flag(tmp_path: Path) -> None:
    engine = create_engine("openai-chat:gpt-x", key=KEY)
    for tools, advice in (((), "try it without them"), (coding_tools(tmp_path), "try --no-builtin")):
        error = fail(*[refusal(500, "cannot parse the call")] * 3, base_url=LOCAL)
        assert asyncio.run(describe_error(error, engine, tools)).endswith(advice)


def test_an_address_is_named_without_what_may_be_secret() -> None:
    error = fail(
        refusal(500, "oops"), *[refusal(500, "oops")] * 2, base_url="https://user:secret@proxy.example/v1"
    )
    assert str(error) == (
        "openai-chat:gpt-x: oops (500 from https://proxy.example/v1/chat/completions); try again later, or "
        "set fallbacks"
    )


@pytest.mark.parametrize("answer", [ScriptedReply((b"[]",)), ScriptedReply((b"",))])
def test_a_reply_that_cannot_be_read_names_the_model(answer: ScriptedReply) -> None:
    error = fail(*[answer] * 3)
    assert isinstance(error, MalformedReply)
    assert str(error).startswith("openai-chat:gpt-x: ")
    assert str(error).endswith(f"(from {OPENAI_URL})")


def test_a_timeout_says_what_to_raise() -> None:
    error = fail(*[TimedOut("no answer within 5 s", "first byte")] * 3)
    assert str(error).endswith("raise the timeouts, or try again later")


def test_what_was_simulated_has_no_address_and_no_key() -> None:
    agent = Agent("simulator:anthropic", retry=QUICK)
    with pytest.raises(ProviderError) as caught:
        agent.run_sync("fault unauthorized")
    error = caught.value
    assert str(error).startswith("simulator:anthropic/")
    assert str(error).endswith(" (401)")
    assert (error.url, error.hint, error.status) == ("", "", 401)


def test_an_error_can_be_copied_and_sent_to_another_process() -> None:
    error = fail(refusal(401, "no"))
    assert isinstance(error, ProviderError)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(other) == str(error)
        assert (other.provider, other.model, other.status) == ("openai-chat", "gpt-x", 401)


def test_an_error_of_a_decoder_is_what_the_provider_says() -> None:
    assert str(ProviderError("no", status=401)) == "no"
