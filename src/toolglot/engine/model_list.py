"""The models that a provider says it has: one GET request. Used for `toolglot models` and for hints about misspelt names."""

import asyncio
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, cast

from toolglot.engine.engine import Engine, join_url, redact_error
from toolglot.engine.transport import HttpRequest, read_body
from toolglot.errors import MalformedReply, NotFound, ToolglotError
from toolglot.jsontext import loads
from toolglot.wire.reader import error_from_response

__all__ = ["describe_error", "find_similar_models", "list_models"]

_HINT_TIMEOUT = 5.0  # seconds: a hint must not delay an error for long
_MAX_LIST_BYTES = 4_000_000


async def list_models(engine: Engine) -> tuple[str, ...]:
    """The names of a provider's models; () if it has no list. Raises ProviderError, TransportError, MalformedReply."""
    profile = engine.profile
    if not profile.models_path or engine.name.startswith("simulator"):
        return ()
    headers = engine.build_http_request(profile, b"", await engine.keys.headers(), stream=False).headers
    url = join_url(engine.keys.base_url or profile.base_url, profile.models_path)
    response = await engine.transport.send(HttpRequest(url, headers, b"", method="GET"))
    try:
        body = await read_body(response, _MAX_LIST_BYTES)
    finally:
        await response.close()
    if response.status >= 300:
        error = error_from_response(response.status, body)
        redact_error(error, engine)
        raise error
    try:
        document: Any = loads(body)
        # OpenAI and those like it: data[].id. Gemini and Ollama: models[].name; Gemini's start with "models/".
        rows: Any = document.get("data") or document.get("models") or []
        names = [cast(str, row.get("id") or row.get("name")) for row in rows]
        return tuple(sorted(name.removeprefix("models/") for name in names))
    except (ValueError, AttributeError, TypeError):
        raise MalformedReply("the provider's list of models has an unexpected shape") from None


async def find_similar_models(engine: Engine) -> tuple[str, ...]:
    """Models with names similar to the engine's; () if the provider does not answer in time."""
    with suppress(ToolglotError, TimeoutError):
        async with asyncio.timeout(_HINT_TIMEOUT):
            return tuple(get_close_matches(engine.model, await list_models(engine), n=3, cutoff=0.4))
    return ()


async def describe_error(error: ToolglotError, engine: Engine) -> str:
    """The message of an error, with the most similar names if the model is unknown."""
    similar = await find_similar_models(engine) if isinstance(error, NotFound) else ()
    return f"{error}; did you mean {' or '.join(map(repr, similar))}?" if similar else str(error)
