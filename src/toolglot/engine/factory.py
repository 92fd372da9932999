"""From "PROVIDER:MODEL" to an Engine: which row of the catalog counts, where it is, and what carries the bytes."""

import os
import re
from collections.abc import Mapping
from functools import cache
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolglot.engine.auth import Key
from toolglot.engine.engine import DEFAULT_RETRY, Engine
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.redact import redact
from toolglot.tools.config import RetryConfig

__all__ = ["SIMULATED_MODELS", "create_engine", "default_transport"]

# What the simulator plays where no model is named.
SIMULATED_MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}


@cache
def default_transport() -> Transport:
    """The transport that all engines of a process share, so that connections are used again."""
    from toolglot.engine.http import HttpTransport

    return HttpTransport()


def create_engine(
    model: str,
    *,
    base_url: str | None = None,
    key: Key | None = None,
    transport: Transport | None = None,
    retry: RetryConfig = DEFAULT_RETRY,
    headers: Mapping[str, str] | None = None,
    heal: bool = True,
    strict: bool = False,
    **url_parameters: str,
) -> Engine:
    """An engine for "PROVIDER:MODEL", or for the simulator ("simulator", "simulator:PROVIDER", "simulator:PROVIDER/MODEL").

    `places`: what stands in braces in the provider's URL (resource, version, project, location).
    Raises UnknownName, UsageError.
    """
    provider, _, name = model.partition(":")
    if provider == "simulator":
        return _create_simulated(name, transport=transport, retry=retry, headers=headers, heal=heal, strict=strict)
    if not name:
        raise UsageError(f"{model!r} names no model: say PROVIDER:MODEL, for example anthropic:claude-sonnet-4-5 or simulator")
    if ".." in name.split("/"):  # it would lead out of the provider's path
        raise UsageError(f"{name!r} is not the name of a model")
    profile = resolve_profile(provider, name)
    if strangers := set(url_parameters) - set(profile.place_env):
        known = ("base_url", "key", "transport", "retry", "headers", "heal", "strict", *profile.place_env)
        raise UnknownName(f"option of an engine for {profile.title}", min(strangers), known)
    profile = replace(profile, **_fill_urls(profile, base_url, url_parameters))
    return Engine(
        profile,
        transport=transport or default_transport(),
        key=key,
        retry=retry,
        headers=headers,
        heal=heal,
        strict=strict,
    )


def _create_simulated(
    name: str,
    *,
    transport: Transport | None,
    retry: RetryConfig,
    headers: Mapping[str, str] | None,
    heal: bool,
    strict: bool,
) -> Engine:
    from toolglot.engine.simulated import SimulatedTransport

    provider, _, model = name.partition("/")
    profile = resolve_profile(provider or "anthropic", model)
    model = model or SIMULATED_MODELS.get(profile.id, "simulated")
    profile = resolve_profile(profile.id, model)
    places = dict.fromkeys(profile.place_env, "simulated")
    profile = replace(profile, **_fill_urls(profile, f"http://simulator/@{profile.id}", places))
    return Engine(
        profile,
        transport=transport or SimulatedTransport(),
        key="simulated",
        retry=retry,
        headers=headers,
        heal=heal,
        strict=strict,
        name=f"simulator:{profile.id}/{model}",
    )


def _fill_urls(profile: Profile, base_url: str | None, url_parameters: Mapping[str, str]) -> dict[str, str]:
    """The base URL and the paths with everything filled in but the model."""
    base = base_url or next((found for name in profile.base_env if (found := os.environ.get(name))), "") or profile.base_url
    if not base:
        raise UsageError(f"{profile.title} needs a base URL: set {' or '.join(profile.base_env)}, or in Python base_url=…")
    if "://" not in base:  # OLLAMA_HOST may be a host, with or without a port
        base = f"http://{base}"
        port = urlsplit(profile.base_url).port
        if port and urlsplit(base).port is None:
            base = urlsplit(base)._replace(netloc=f"{urlsplit(base).netloc}:{port}").geturl()
    if not _is_http_url(base):
        raise UsageError(f"the base URL {redact(base, by_name=True)!r} is not http or https with a host")
    found = {"base_url": base, "path": profile.path, "stream_path": profile.stream_path}
    for place, names in profile.place_env.items():
        if not any("{" + place + "}" in text for text in found.values()):
            continue
        value = url_parameters.get(place) or next((text for name in names if (text := os.environ.get(name))), "")
        value = value or _DEFAULT_URL_PARAMETERS.get(place, "")
        if not value:
            wanted = " or ".join((*names, *profile.base_env))
            raise UsageError(f"{profile.title} needs {place!r}: set {wanted}, or in Python {place}=…")
        found = {key: text.replace("{" + place + "}", value) for key, text in found.items()}
    found["base_url"] = _VERTEX_HOSTS.get(found["base_url"], found["base_url"])
    return found


def _is_http_url(base: str) -> bool:
    try:
        parts = urlsplit(base)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"[\s<>]", parts.netloc)
    except ValueError:  # brackets without an address in them
        return False


_DEFAULT_URL_PARAMETERS = {"location": "global"}
# Multi-region locations have hosts of their own (google-genai 3.1.0).
_VERTEX_HOSTS = {
    "https://global-aiplatform.googleapis.com": "https://aiplatform.googleapis.com",
    "https://us-aiplatform.googleapis.com": "https://aiplatform.us.rep.googleapis.com",
    "https://eu-aiplatform.googleapis.com": "https://aiplatform.eu.rep.googleapis.com",
}
