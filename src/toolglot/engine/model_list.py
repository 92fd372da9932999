"""The models that a provider says it has: one GET request.

Used for `toolglot models` and for hints about misspelt names.
"""

import asyncio
from contextlib import suppress
from typing import Any, cast

from toolglot.common.jsontext import loads
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.engine.engine import Engine
from toolglot.engine.transport import HttpRequest, fetch, join_url
from toolglot.errors import MalformedReply, NotFound, ToolglotError

__all__ = ["complete_hint", "list_models"]

_HINT_TIMEOUT = 5.0  # seconds: a hint must not delay an error for long


async def list_models(engine: Engine) -> tuple[str, ...]:
    """The names of a provider's models; () if it has no list.

    Raises ProviderError, TransportError, MalformedReply.
    """
    profile = engine.profile
    if not profile.models_path or engine.is_simulated:
        return ()
    headers = engine.build_http_request(profile, b"", await engine.keys.headers(), stream=False).headers
    url = join_url(engine.keys.base_url or profile.base_url, profile.models_path)
    body = await fetch(engine.transport, HttpRequest(url, headers, b"", method="GET"), engine.secrets)
    try:
        document: Any = loads(body)
        # OpenAI and those like it: data[].id. Gemini and Ollama: models[].name; Gemini's start with
        # "models/".
        rows: Any = document.get("data") or document.get("models") or []
        names = [cast(str, row.get("id") or row.get("name")) for row in rows]
        return tuple(sorted(name.removeprefix("models/") for name in names))
    except (ValueError, AttributeError, TypeError):
        raise MalformedReply("the provider's list of models has an unexpected shape") from None


async def complete_hint(error: NotFound, engine: Engine) -> None:
    """Let an error for an unknown model suggest one, if the provider lists its models in time.

    A model that is listed is not what is missing.
    """
    with suppress(ToolglotError, TimeoutError):
        async with asyncio.timeout(_HINT_TIMEOUT):
            names = await list_models(engine)
            if engine.model in names:
                error.hint = "the server has this model: check the base URL"
            else:
                error.hint = did_you_mean(suggest(engine.model, names, cutoff=0.4)) or error.hint
