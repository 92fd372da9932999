"""What each fault puts on the wire, and how it is requested. How a run ends is in `handover/test_faults`."""

import pytest

from toolglot import errors
from toolglot.common.jsontext import dumps
from toolglot.errors import ToolglotError, UnknownName
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import SimulatedResponse, Simulator
from toolglot.simulator.faults import FAULTS
from toolglot.values.messages import Conversation, Reply, Text, ToolResult, tool_results, user
from toolglot.wire.reader import error_from_response

from .client import ADD, WEATHER, WIRE_PROFILES, ask, encode_body, error_text, pick_model, post, read_reply

PROMPT = "weather in Paris and in Rome"
STREAMED = (False, True)
# fault -> (error of each wire, status); "" for all others
REFUSED: dict[str, dict[str, tuple[type[ToolglotError], int]]] = {
    "rate-limit": {"": (errors.RateLimited, 429)},
    "rate-limit-date": {"": (errors.RateLimited, 429)},
    "quota": {
        "openai-chat": (errors.QuotaExceeded, 429),
        "openai-responses": (errors.QuotaExceeded, 429),
        "anthropic": (errors.QuotaExceeded, 402),
        "": (errors.RateLimited, 429),  # Google and Ollama do not tell the two apart
    },
    "server-error": {"": (errors.ServerFailed, 500)},
    "overloaded": {"anthropic": (errors.Overloaded, 529), "": (errors.Overloaded, 503)},
    "unauthorized": {"gemini": (errors.AuthenticationFailed, 400), "": (errors.AuthenticationFailed, 401)},
    "context-too-long": {"": (errors.ContextTooLong, 400)},
    "html": {"": (errors.ServerFailed, 502)},
}


def get_response(profile: str, fault: str, *, stream: bool, prompt: str = PROMPT) -> SimulatedResponse:
    target = resolve_profile(profile, pick_model(profile))
    body = encode_body(target, [user(prompt)], stream=stream, tools=(WEATHER, ADD))
    return post(Simulator(faults=[fault]), target, body, stream=stream)


def reply_of(profile: str, fault: str, *, stream: bool) -> Reply:
    return read_reply(
        resolve_profile(profile, pick_model(profile)),
        get_response(profile, fault, stream=stream),
        stream=stream,
    )


@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize("fault", REFUSED)
def test_refusals(fault: str, profile: str) -> None:
    answer = get_response(profile, fault, stream=True)
    kind, status = REFUSED[fault].get(profile) or REFUSED[fault][""]
    error = error_from_response(answer.status, answer.body)
    assert (type(error), answer.status) == (kind, status)
    assert (answer.headers["content-type"] == "application/json") is (fault != "html")


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_retry_after_in_the_providers_form(profile: str) -> None:
    answer = get_response(profile, "rate-limit:0.01", stream=False)
    delay = (
        str(error_from_response(429, answer.body).retry_after)
        if profile == "gemini"
        else answer.headers["retry-after"]
    )
    assert delay == "0.01"
    assert get_response(profile, "rate-limit-date", stream=False).headers["retry-after"].endswith("GMT")


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_a_text_is_truncated_by_length(profile: str) -> None:
    target = resolve_profile(profile, pick_model(profile))
    answer = get_response(profile, "length", stream=False, prompt="hello")
    assert (read_reply(target, answer).text, read_reply(target, answer).stop) == ("You sai", "length")


@pytest.mark.parametrize("stream", STREAMED)
@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize("prompt", [PROMPT, "weather in Paris", "hello"])
def test_duplicate_ids_are_on_the_wire(profile: str, stream: bool, prompt: str) -> None:
    body = get_response(profile, "duplicate-ids", stream=stream, prompt=prompt).body
    id = {"anthropic": b"toolu_000002", "gemini": b"fc_000002"}.get(profile, b"call_000002")
    assert body.count(b'"' + id + b'"') >= 2


def test_wrong_index_is_tolerated() -> None:
    answer = get_response("openai-chat", "wrong-index", stream=True)
    assert b'"index":1' not in answer.body
    assert len(reply_of("openai-chat", "wrong-index", stream=True).calls) == 2
    assert len(reply_of("anthropic", "wrong-index", stream=True).calls) == 2


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_fault_directives_count_down(profile: str) -> None:
    simulator, target = Simulator(), resolve_profile(profile, pick_model(profile))
    body = encode_body(target, [user(f"fault overloaded 2\nfault rate-limit\n{PROMPT}")], tools=(WEATHER,))
    statuses = [post(simulator, target, body).status for _ in range(4)]
    assert statuses == [529 if profile == "anthropic" else 503] * 2 + [429, 200]


def test_faults_of_a_later_turn() -> None:
    simulator = Simulator()
    conversation = Conversation([user('call add {"a": 1, "b": 2}\nthen fault overloaded\nsay Done.')])
    first = ask(simulator, "openai-chat", conversation, tools=(ADD,))
    conversation.append(first.message, tool_results(ToolResult(first.calls[0].id, (Text("3"),))))
    target = resolve_profile("openai-chat", "gpt-4o")
    assert post(simulator, target, encode_body(target, conversation)).status == 503
    assert ask(simulator, "openai-chat", conversation).text == "Done."


def test_faults_by_header_and_list() -> None:
    simulator, target = Simulator(faults=["", "server-error"]), resolve_profile("openai-chat", "gpt-4o")
    body = encode_body(target, [user("hi")])
    assert post(simulator, target, body, headers={"X-Simulate": "overloaded"}).status == 503
    assert [post(simulator, target, body).status for _ in range(3)] == [200, 500, 200]


def test_a_fault_never_hides_a_bad_request() -> None:
    simulator, target = Simulator(faults=["server-error"]), resolve_profile("openai-chat", "gpt-4o")
    assert post(simulator, target, {"model": "gpt-4o", "messages": []}).status == 400
    assert post(simulator, target, encode_body(target, [user("hi")])).status == 500


def test_unknown_faults_are_named() -> None:
    with pytest.raises(UnknownName, match="rate-limit"):
        Simulator(faults=["ratelimit"])
    target = resolve_profile("openai-chat", "gpt-4o")
    answer = post(Simulator(), target, encode_body(target, [user("fault explode")]))
    assert answer.status == 400
    assert "unknown fault 'explode'" in error_text(answer)


def test_every_fault_on_every_profile() -> None:
    for fault in FAULTS:
        for profile in (
            *WIRE_PROFILES,
            "azure-chat",
            "mistral",
            "xai",
            "openrouter",
            "deepseek",
            "copilot",
            "vertex",
        ):
            assert get_response(profile, fault, stream=True).parts


def test_gemini_streams_an_array_without_alt_sse() -> None:
    target = resolve_profile("gemini", "gemini-3-pro-preview")
    body = encode_body(target, [user(PROMPT)], tools=(WEATHER,))
    for fault, whole in (("", True), ("truncated", False), ("error-in-200", True)):
        answer = Simulator(faults=[fault]).handle(
            "POST",
            "/v1/models/gemini-3-pro-preview:streamGenerateContent",
            {"x-goog-api-key": "k"},
            dumps(body),
        )
        assert answer.headers["content-type"] == "application/json"
        assert answer.body.startswith(b"[{")
        assert answer.body.endswith(b"]") is whole
    assert len(ask(Simulator(), "gemini", [user(PROMPT)], stream=True, tools=(WEATHER,)).calls) == 2
