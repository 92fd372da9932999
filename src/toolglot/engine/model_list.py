"""The models that a provider says it has: one GET request. Used for `toolglot models` and for hints about misspelt names."""

import asyncio
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

from toolglot.common.jsontext import loads
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.engine.engine import Engine
from toolglot.engine.transport import HttpRequest, fetch, join_url
from toolglot.errors import ConnectFailed, MalformedReply, NotFound, ProviderError, ToolglotError

__all__ = ["describe_error", "list_models"]

_HINT_TIMEOUT = 5.0  # seconds: a hint must not delay an error for long


async def list_models(engine: Engine) -> tuple[str, ...]:
    """The names of a provider's models; () if it has no list. Raises ProviderError, TransportError, MalformedReply."""
    profile = engine.profile
    if not profile.models_path or engine.name.startswith("simulator"):
        return ()
    headers = engine.build_http_request(profile, b"", await engine.keys.headers(), stream=False).headers
    url = join_url(engine.keys.base_url or profile.base_url, profile.models_path)
    body = await fetch(engine.transport, HttpRequest(url, headers, b"", method="GET"), engine.secrets)
    try:
        document: Any = loads(body)
        # OpenAI and those like it: data[].id. Gemini and Ollama: models[].name; Gemini's start with "models/".
        rows: Any = document.get("data") or document.get("models") or []
        names = [cast(str, row.get("id") or row.get("name")) for row in rows]
        return tuple(sorted(name.removeprefix("models/") for name in names))
    except (ValueError, AttributeError, TypeError):
        raise MalformedReply("the provider's list of models has an unexpected shape") from None


async def describe_error(error: ToolglotError, engine: Engine) -> str:
    """The message of an error, with a hint if the model is unknown or the server of this machine does not run."""
    profile = engine.profile
    if isinstance(error, ConnectFailed) and urlsplit(profile.base_url).hostname in ("localhost", "127.0.0.1", "::1"):
        # Not that of a vendor, but one in its place; and a kind of servers is not the name of one.
        server = profile.title if profile.auth == "optional" and profile.id != "compatible" else "a server"
        return f"{error}: is {server} running? Set --base-url if it runs elsewhere"
    if isinstance(error, NotFound):
        # If the provider does not answer in time, there is no hint.
        with suppress(ToolglotError, TimeoutError):
            async with asyncio.timeout(_HINT_TIMEOUT):
                hint = did_you_mean(suggest(engine.model, await list_models(engine), cutoff=0.4))
            if hint:
                return f"{error}; {hint}"
    if isinstance(error, ProviderError) and error.status in (404, 405, 501) and not isinstance(error.body, dict):
        url = (engine.keys.base_url or profile.base_url) + profile.path
        return f"{error} (status {error.status} from {url}): check the base URL"
    return str(error)
