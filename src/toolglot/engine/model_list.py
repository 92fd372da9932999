"""Which models a provider says it has: one GET. For those who misspell a name, and for those who look around."""

import asyncio
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, cast

from toolglot.engine.engine import Engine, join_url, redact_error
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import MalformedReply, NotFound, ToolglotError
from toolglot.jsontext import loads
from toolglot.wire.reader import error_from_response

__all__ = ["describe_error", "find_similar_models", "list_models"]

_HINT_TIMEOUT = 5.0  # seconds for a hint
_MAX_LIST_BYTES = 4_000_000  # bytes of a list


async def list_models(engine: Engine) -> tuple[str, ...]:
    """The names of a provider's models; () where it has no list. Raises ProviderError, TransportError, MalformedReply."""
    profile = engine.profile
    if not profile.models_path or engine.name.startswith("simulator"):
        return ()
    head = engine.build_http_request(profile, b"", await engine.keys.headers(), stream=False).headers
    url = join_url(engine.keys.base_url or profile.base_url, profile.models_path)
    answer = await engine.transport.send(HttpRequest(url, head, b"", method="GET"))
    try:
        body = await _read_body(answer)
    finally:
        await answer.close()
    if answer.status >= 300:
        error = error_from_response(answer.status, body)
        redact_error(error, engine)
        raise error
    return _parse_names(body)


async def find_similar_models(engine: Engine) -> tuple[str, ...]:
    """Models whose names are like the one that the provider does not know; () where it does not say in time."""
    with suppress(ToolglotError, TimeoutError):
        async with asyncio.timeout(_HINT_TIMEOUT):
            names = await list_models(engine)
            return tuple(get_close_matches(engine.model, names, n=3, cutoff=0.4))
    return ()


async def _read_body(response: HttpResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    while (data := await response.read()) and size < _MAX_LIST_BYTES:
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def _parse_names(body: bytes) -> tuple[str, ...]:
    """OpenAI and its kin: data[].id · Gemini and Ollama: models[].name."""
    try:
        said: Any = loads(body)
        rows: Any = said.get("data") or said.get("models") or []
        found = [cast(str, row.get("id") or row.get("name")) for row in rows]
        return tuple(sorted(name.removeprefix("models/") for name in found))
    except (ValueError, AttributeError, TypeError):
        raise MalformedReply("the provider's list of models has an unexpected shape") from None


async def describe_error(error: ToolglotError, engine: Engine) -> str:
    """What an error says, with the nearest names where the model is not known."""
    near = await find_similar_models(engine) if isinstance(error, NotFound) else ()
    return f"{error}; did you mean {' or '.join(map(repr, near))}?" if near else str(error)
