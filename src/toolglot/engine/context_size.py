"""How many tokens a local server gives a model: whoever starts it decides, so only the server knows."""

import asyncio
import re
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps, loads
from toolglot.engine.engine import Engine
from toolglot.engine.transport import HttpRequest, fetch
from toolglot.errors import ToolglotError
from toolglot.wire.json_values import as_dict, as_int, as_text, iter_dicts

__all__ = ["OLLAMA_DEFAULT", "fetch_context_size", "set_context_size"]

OLLAMA_DEFAULT = 4096
"""With less than 24 GB of video memory (Ollama's docs/context-length.mdx, 2026). What exceeds it is cut off
without a word."""
_TIMEOUT = 2.0  # seconds: a server that does not answer must not delay the first prompt for long


def set_context_size(engine: Engine, size: int) -> None:
    """Let an engine know what its server said, so that conversations are shortened in time."""
    engine.profile = replace(engine.profile, limits=replace(engine.profile.limits, context=size))


async def fetch_context_size(engine: Engine, num_ctx: int | None = None) -> int | None:
    """Return the tokens of a model's context at llama.cpp or Ollama; None for others, or if the server does
    not answer.

    `num_ctx`: what requests will ask Ollama for.
    """
    ask = {"llama.cpp": _ask_llama_cpp, "ollama": _ask_ollama}.get(engine.profile.id)
    if ask is None or engine.is_simulated:
        return None
    if num_ctx is not None and engine.profile.id == "ollama":
        return num_ctx
    with suppress(ToolglotError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT):
            return await ask(engine)
    return None


async def _ask_llama_cpp(engine: Engine) -> int | None:
    """Return the context of one slot: a server for several clients divides its own."""
    settings = as_dict((await _fetch(engine, "/props")).get("default_generation_settings"))
    return as_int(settings.get("n_ctx")) or None


async def _ask_ollama(engine: Engine) -> int | None:
    """Return the context of the model as it is loaded, as its Modelfile says, or as Ollama does by default."""
    running = await _fetch(engine, "/api/ps")
    for model in iter_dicts(running.get("models")):
        if _is_same_model(as_text(model.get("name")), engine.model) and (
            size := as_int(model.get("context_length"))
        ):
            return size
    shown = await _fetch(engine, "/api/show", {"model": engine.model})
    if match := re.search(r"(?m)^num_ctx\s+(\d+)", as_text(shown.get("parameters"))):
        return int(match[1])
    return OLLAMA_DEFAULT


def _is_same_model(name: str, model: str) -> bool:
    """Return whether a loaded model is the one of the engine, whose tag may be left out: qwen3 is
    qwen3:latest.
    """
    return name in (model, f"{model}:latest")


async def _fetch(engine: Engine, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the server's answer. Raises ToolglotError."""
    root = (engine.keys.base_url or engine.profile.base_url).rstrip("/").removesuffix("/v1")
    headers = engine.build_http_request(
        engine.profile, b"", await engine.keys.headers(), stream=False
    ).headers
    method, data = ("GET", b"") if body is None else ("POST", dumps(body))
    answer = await fetch(
        engine.transport, HttpRequest(root + path, headers, data, method=method), engine.secrets
    )
    with suppress(ValueError):
        return as_dict(loads(answer))
    return {}
