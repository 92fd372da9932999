"""From "PROVIDER:MODEL" to an Engine: the catalog row, its URLs, and the transport."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType
from typing import Any, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolglot.common.option_signatures import show_options
from toolglot.common.redact import redact
from toolglot.common.value_checks import check_arguments
from toolglot.engine.auth import Key
from toolglot.engine.engine import DEFAULT_RETRY, Engine
from toolglot.engine.signin.tokens import SignIn
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.providers.catalog import resolve_profile, split_model, suggest_model
from toolglot.providers.profile import Profile
from toolglot.tools.config import RetryConfig

__all__ = ["SIMULATED_MODELS", "EngineOptions", "create_engine", "default_transport"]

# The model that is simulated if none is named, by profile.
SIMULATED_MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}
_DEFAULT_URL_PARAMETERS = {"location": "global"}
# Vertex: multi-region locations have hosts that do not follow the pattern (google-genai 3.1.0).
_VERTEX_HOSTS = {
    "https://global-aiplatform.googleapis.com": "https://aiplatform.googleapis.com",
    "https://us-aiplatform.googleapis.com": "https://aiplatform.us.rep.googleapis.com",
    "https://eu-aiplatform.googleapis.com": "https://aiplatform.eu.rep.googleapis.com",
}


# The types of an engine's arguments, and how error messages describe them.
_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "model": (str, "PROVIDER:MODEL, such as 'anthropic:claude-sonnet-5'"),
    "base_url": ((str, NoneType), "a URL as text"),
    "key": ((str, Callable, SignIn, NoneType), "a key as text, or a function that returns it"),
    "transport": ((Transport, NoneType), "an object with the method `send`"),
    "retry": (RetryConfig, "a RetryConfig"),
    "headers": ((Mapping, NoneType), "a dict of texts"),
    "heal": (bool, "True or False"),
    "strict": (bool, "True or False"),
    "text_calls": ((bool, NoneType), "True, False or None"),
}


class UrlParameters(TypedDict, total=False):
    """The placeholders in the URLs of Azure and Vertex."""

    resource: str
    version: str
    project: str
    location: str


class EngineOptions(UrlParameters, total=False):
    """The options of `create_engine`."""

    base_url: str | None
    """The address of the API, if it is not the provider's usual one."""
    key: Key | None
    """The API key, or a function that returns it; by default, it is read from the provider's environment
    variables."""
    transport: Transport | None
    """Sends requests; by default, one that all engines of the process share."""
    retry: RetryConfig
    """How often, and after how long, a failed request is repeated."""
    headers: Mapping[str, str] | None
    """Further HTTP headers for every request."""
    heal: bool
    """Repair a request that the provider refuses, if its answer says how, and remember that for later
    requests."""
    strict: bool
    """Raise an error instead of sending a request that loses something."""
    text_calls: bool | None
    """Parse calls that the server leaves in the text; None: the provider's default."""


@cache
def default_transport() -> Transport:
    """Return the transport that all engines in a process share, so that connections are reused."""
    from toolglot.engine.http import SharedTransport

    return SharedTransport()


@show_options(UrlParameters)
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
    text_calls: bool | None = None,
    **url_parameters: Unpack[UrlParameters],
) -> Engine:
    """Create an engine for "PROVIDER:MODEL", or "simulator", "simulator:PROVIDER",
    "simulator:PROVIDER/MODEL".

    `text_calls`: parse calls that the server leaves in the text; None: the provider's default.
    `url_parameters`: values for the placeholders in the provider's URL (resource, version, project,
    location).
    Raises UnknownName, UsageError.
    """
    check_arguments(locals(), _ARGUMENTS)
    for header, value in (headers or {}).items():
        check_arguments({header: value}, {header: (str, "the value of a header as text")})
    provider, name = split_model(model)
    engine_name = ""
    if provider == "simulator":
        from toolglot.engine.simulated import SimulatedTransport

        provider, _, name = name.partition("/")
        profile = resolve_profile(provider or "anthropic", name)
        name = name or SIMULATED_MODELS.get(profile.id, "simulated")
        profile = resolve_profile(profile.id, name)
        _check_options(url_parameters, profile)
        # Override what was passed for the real provider: the simulator has one address, and accepts any key.
        # A longer key would be redacted in texts, such as "simulated" in the name of the model.
        base_url = f"http://simulator/@{profile.id}"
        key = "any"
        engine_name = f"simulator:{profile.id}/{name}"
        url_parameters = cast(UrlParameters, dict.fromkeys(profile.url_parameter_env, "simulated"))
        transport = transport or SimulatedTransport()
    else:
        if not name:
            usage = "use PROVIDER:MODEL, such as anthropic:claude-sonnet-5, or simulator"
            raise UsageError(f"{model!r} names no model: {usage}{suggest_model(provider)}")
        if ".." in name.split("/"):  # it would escape from the provider's path
            raise UsageError(f"{name!r} is not the name of a model")
        profile = resolve_profile(provider, name)
        _check_options(url_parameters, profile)
    if text_calls is not None:
        profile = replace(profile, text_calls=text_calls)
    return Engine(
        _fill_urls(profile, base_url, cast(Mapping[str, str], url_parameters)),
        transport=transport or default_transport(),
        key=key,
        retry=retry,
        headers=headers,
        heal=heal,
        strict=strict,
        name=engine_name,
    )


def _check_options(options: Mapping[str, object], profile: Profile) -> None:
    if unknown := set(options) - set(profile.url_parameter_env):
        known = (
            "base_url",
            "key",
            "transport",
            "retry",
            "headers",
            "heal",
            "strict",
            "text_calls",
            *profile.url_parameter_env,
        )
        raise UnknownName(f"engine option for {profile.title}", min(unknown), known)


def _fill_urls(profile: Profile, base_url: str | None, url_parameters: Mapping[str, str]) -> Profile:
    """Return the profile with every placeholder in its URLs filled in, except the model."""
    # The caller's URL takes precedence over the environment's, which takes precedence over the catalog's.
    base: str = base_url or _read_variable(profile.base_env) or profile.base_url
    if not base:
        variables = " or ".join(profile.base_env)
        raise UsageError(
            f"{profile.title} needs a base URL: pass --base-url or set {variables} (in Python: base_url=…)"
        )
    if "://" not in base and not base_url:
        # OLLAMA_HOST may be a bare host, with or without a port, as Ollama's own client accepts it.
        base = f"http://{base}"
        port = urlsplit(profile.base_url).port
        if port and urlsplit(base).port is None:
            base = urlsplit(base)._replace(netloc=f"{urlsplit(base).netloc}:{port}").geturl()
    if not _is_http_url(base):
        shown = redact(base.rpartition("@")[2], by_name=True)  # without a user and a password
        raise UsageError(f"the base URL {shown!r} must start with http:// or https:// and name a host")
    urls: dict[str, str] = {"base_url": base, "path": profile.path, "stream_path": profile.stream_path}
    for parameter, names in profile.url_parameter_env.items():
        if not any("{" + parameter + "}" in text for text in urls.values()):
            continue
        value = (
            url_parameters.get(parameter) or _read_variable(names) or _DEFAULT_URL_PARAMETERS.get(parameter)
        )
        if not value:
            variables = " or ".join((*names, *profile.base_env))
            raise UsageError(
                f"{profile.title} needs {parameter!r}: set {variables} or pass --base-url (in Python: "
                f"{parameter}=…)"
            )
        urls = {key: text.replace("{" + parameter + "}", value) for key, text in urls.items()}
    urls["base_url"] = _VERTEX_HOSTS.get(urls["base_url"], urls["base_url"])
    # Another server may be stricter than the vendor's own.
    return replace(profile, raw_arguments=profile.raw_arguments and base == profile.base_url, **urls)


def _read_variable(names: Iterable[str]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")


def _is_http_url(base: str) -> bool:
    try:
        parts = urlsplit(base)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not re.search(r"[\s<>]", parts.netloc)
        )
    except ValueError:  # brackets without an address in them
        return False
