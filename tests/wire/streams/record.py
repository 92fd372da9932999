"""Records the `simulated-*` streams anew: python tests/wire/streams/record.py.

The other streams are written by hand.

Each hand-written stream shows one oddity of a real server; `expected.json` says what must be read from it.
"""

from pathlib import Path

from toolglot.common.jsontext import dumps
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.values.messages import user
from toolglot.values.request import Options, Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS, WIRES

ADD = ToolDefinition(
    "add", "Adds.", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
)
PROMPTS = {
    "text": "think Hm.\nsay Grüße \u2028 und \U0001f44b",
    "thinking": "think First I count.\nsay Two.",
    "calls": 'think Twice.\nsay Both.\ncall add {"x": 1} call add {"x": 2}',
    "length": "think Hm.\nsay Once upon a\nstop length",
}
MODELS = {"openai-chat": "gpt-4.1", "openai-responses": "gpt-5.1", "anthropic-messages": "claude-sonnet-4-5"}
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse",
    "ollama-chat": "/api/chat",
}
HEADERS = {
    "authorization": "Bearer x",
    "x-api-key": "x",
    "x-goog-api-key": "x",
    "anthropic-version": "2023-06-01",
}


def simulate(wire: str, prompt: str) -> bytes:
    """Return the stream that the simulator sends for a prompt."""
    model = MODELS.get(wire, "gemini-3-pro-preview")
    options = Options(max_tokens=4000)
    stream = None if wire == "gemini" else True
    request = Request(model, [user(prompt)], (ADD,), options=options, stream=stream)
    body = encode_request(request, resolve_profile(SPECS[wire].default_profile, model)).body
    if wire == "openai-chat":
        body["stream_options"] = {"include_usage": True}
    response = Simulator().handle("POST", PATHS[wire], HEADERS, dumps(body))
    assert response.status == 200, response.body
    return response.body


def stream_path(wire: str, name: str) -> Path:
    """Return the file of a simulated stream."""
    return Path(__file__).parent / wire / f"simulated-{name}.{'ndjson' if wire == 'ollama-chat' else 'sse'}"


if __name__ == "__main__":
    for wire in WIRES:
        for name, prompt in PROMPTS.items():
            stream_path(wire, name).write_bytes(simulate(wire, prompt))
