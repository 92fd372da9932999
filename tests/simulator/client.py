"""Ways to ask the simulator, as a provider's client would."""

from collections.abc import Sequence
from typing import Any

from toolglot.common.jsontext import dumps, loads
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.simulator.core import SimulatedResponse, Simulator
from toolglot.values.messages import Message, Reply
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import create_reader, encode_request

Doc = dict[str, Any]

KEYS = {
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2023-06-01",
}
# one model for each profile; those that are not named here take any
MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "vertex": "gemini-3-pro-preview",
    "ollama": "qwen3",
    "azure-chat": "gpt-4.1",
    "azure-dated-chat": "gpt-4.1",
    "azure-responses": "gpt-5",
    "azure-dated-responses": "gpt-5",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "deepseek": "deepseek-v4-flash",
    "xai": "grok-4.6",
}
WIRE_PROFILES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
WEATHER = ToolDefinition(
    "get_weather",
    "The weather of a city.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)
ADD = ToolDefinition(
    "add",
    "Adds two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)


def pick_model(profile: str) -> str:
    return MODELS.get(profile, "some-model")


def request_path(profile: Profile, *, stream: bool = False) -> str:
    path = profile.stream_path if stream and profile.stream_path else profile.path
    places = {
        "model": profile.model,
        "version": "2025-04-01",
        "project": "p",
        "location": "l",
        "deployment": profile.model,
    }
    return f"/@{profile.id}{path.format(**places)}"


def post(
    simulator: Simulator,
    profile: Profile,
    body: Any,
    *,
    stream: bool = False,
    headers: dict[str, str] | None = None,
) -> SimulatedResponse:
    data = body if isinstance(body, bytes) else dumps(body)
    return simulator.handle("POST", request_path(profile, stream=stream), {**KEYS, **(headers or {})}, data)


def encode_body(profile: Profile, messages: Sequence[Message], *, stream: bool = False, **fields: Any) -> Doc:
    asked = None if profile.wire == "gemini" else stream
    return encode_request(Request(profile.model, messages, stream=asked, **fields), profile).body


def read_reply(profile: Profile, answer: SimulatedResponse, *, stream: bool = False) -> Reply:
    """The reply in an answer, read by our own reader. Raises what the reader raises."""
    assert answer.status == 200, answer.body
    reading = create_reader(
        profile.wire,
        streaming=stream,
        content_type=answer.headers["content-type"],
        profile=profile.id,
        model=profile.model,
    )
    for part in answer.parts:
        assert isinstance(part, bytes)
        reading.feed(part)
    reading.close()
    return reading.reply


def ask(
    simulator: Simulator, profile: str, messages: Sequence[Message], *, stream: bool = False, **fields: Any
) -> Reply:
    target = resolve_profile(profile, fields.pop("model", "") or pick_model(profile))
    body = encode_body(target, messages, stream=stream, **fields)
    return read_reply(target, post(simulator, target, body, stream=stream), stream=stream)


def error_text(answer: SimulatedResponse) -> str:
    """All words of an error body."""
    body = answer.body.decode()
    return body if not body.startswith("{") else str(loads(body)).replace("\\'", "'")
