"""From "PROVIDER:MODEL" to an engine: which row, which URL, which headers."""

import asyncio
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pytest
from scripted_transport import HELLO_WORLD, KEY, ScriptedTransport, text_request, whole_reply

from toolglot.engine.factory import SIMULATED_MODELS, create_engine, default_transport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest
from toolglot.errors import ToolglotError, UnknownName, UsageError
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES, resolve_profile, select_row
from toolglot.providers.model_data import PRICES
from toolglot.providers.profile import Price
from toolglot.tools.config import RetryConfig
from toolglot.values.messages import Usage

ONCE = RetryConfig(max_retries=0)
URL_PARAMETERS = {
    "resource": "res",
    "version": "2025-04-01-preview",
    "project": "proj",
    "location": "europe-west1",
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROFILES.values():
        for name in (
            *row.key_env,
            *row.base_env,
            *(name for names in row.url_parameter_env.values() for name in names),
        ):
            monkeypatch.delenv(name, raising=False)


def request_of(model: str, *, stream: bool = False, **overrides: Any) -> HttpRequest:
    """What an engine sends."""
    transport = ScriptedTransport(HELLO_WORLD if stream else whole_reply())
    options: dict[str, Any] = {"key": KEY, "retry": ONCE, **overrides}
    engine = create_engine(model, transport=transport, **options)

    async def main() -> None:
        try:
            if stream:
                async for _ in engine.new_state().stream_batches(text_request(stream=True)):
                    pass
            else:
                await engine.ask(text_request())
        except (ToolglotError, AssertionError):
            pass  # only one wire understands the script: what was sent is what counts

    asyncio.run(main())
    return transport.requests[0]


def url(model: str, **options: Any) -> str:
    return request_of(model, **options).url


# ---- every row: URL

CHAT = "/chat/completions"
GOOGLE = "/v1/projects/proj/locations/europe-west1/publishers/google/models/m"
URLS = {
    **{
        row.id: row.base_url + row.path
        for row in PROFILES.values()
        if row.base_url and "{" not in row.base_url + row.path
    },
    "openai-chat": f"https://api.openai.com/v1{CHAT}",
    "openai-responses": "https://api.openai.com/v1/responses",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
    "ollama": "http://127.0.0.1:11434/api/chat",
    "openrouter": f"https://openrouter.ai/api/v1{CHAT}",
    "copilot": f"https://api.githubcopilot.com{CHAT}",
    "xai": f"https://api.x.ai/v1{CHAT}",
    "deepseek": f"https://api.deepseek.com{CHAT}",
    "mistral": f"https://api.mistral.ai/v1{CHAT}",
    "groq": f"https://api.groq.com/openai/v1{CHAT}",
    "azure-chat": f"https://res.openai.azure.com/openai/v1{CHAT}",
    "azure-responses": "https://res.openai.azure.com/openai/v1/responses",
    "azure-dated-chat": f"https://res.openai.azure.com/openai/deployments/m{CHAT}?api-version=2025-04-01-preview",
    "azure-dated-responses": "https://res.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
    "vertex": f"https://europe-west1-aiplatform.googleapis.com{GOOGLE}:generateContent",
    "llama.cpp": f"http://localhost:8080/v1{CHAT}",
    "lmstudio": f"http://localhost:1234/v1{CHAT}",
    "vllm": f"http://localhost:8000/v1{CHAT}",
}
STREAMS = {
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
    "vertex": f"https://europe-west1-aiplatform.googleapis.com{GOOGLE}:streamGenerateContent?alt=sse",
}


def parameters_of(provider: str) -> dict[str, str]:
    return {name: URL_PARAMETERS[name] for name in PROFILES[provider].url_parameter_env}


def test_every_row_has_a_url_here() -> None:
    assert {*URLS, "compatible"} == {*PROFILES}, "add the URL of a row with parameters to URLS"


@pytest.mark.parametrize("provider", URLS)
def test_urls(provider: str) -> None:
    assert url(f"{provider}:m", **parameters_of(provider)) == URLS[provider]
    assert url(f"{provider}:m", stream=True, **parameters_of(provider)) == STREAMS.get(
        provider, URLS[provider]
    )


@pytest.mark.parametrize("end", ["", "/", "//"])
@pytest.mark.parametrize("provider", PROFILES)
def test_another_base_url(provider: str, end: str) -> None:
    """The path stays, a slash at the end does not matter."""
    path = "/chat/completions" if provider == "compatible" else PROFILES[provider].path
    for name, value in {**URL_PARAMETERS, "model": "m"}.items():
        path = path.replace("{" + name + "}", value)
    assert (
        url(f"{provider}:m", base_url=f"https://proxy.example:8443/llm{end}", **parameters_of(provider))
        == f"https://proxy.example:8443/llm{path}"
    )


@pytest.mark.parametrize(("model", "base", "expected"), [
    ("anthropic:m", "https://h/v1", "https://h/v1/messages"),
    ("anthropic:m", "https://h/v1/", "https://h/v1/messages"),
    ("anthropic:m", "https://h/anthropic", "https://h/anthropic/v1/messages"),
    ("openai-chat:m", "https://h/v1", f"https://h/v1{CHAT}"),
    ("openai-chat:m", "https://h/api/v1/", f"https://h/api/v1{CHAT}"),
    ("compatible:m", "http://h:1/v1/", f"http://h:1/v1{CHAT}"),
    ("gemini:m", "https://h/v1beta", "https://h/v1beta/models/m:generateContent"),
    ("gemini:m", "https://h/v1beta/models/", "https://h/v1beta/models/m:generateContent"),
    ("ollama:m", "http://h:11434/api", "http://h:11434/api/chat"),
    ("azure-chat:m", "https://r.openai.azure.com/openai/v1/", f"https://r.openai.azure.com/openai/v1{CHAT}"),
    ("azure-chat:m", "https://r.openai.azure.com/", f"https://r.openai.azure.com/openai/v1{CHAT}"),
    ("azure-chat:m", "https://r.openai.azure.com/openai", f"https://r.openai.azure.com/openai/v1{CHAT}"),
    ("groq:m", "https://myv1", f"https://myv1{CHAT}"),
    ("anthropic:m", "https://notv1", "https://notv1/v1/messages"),
])  # fmt: skip
def test_a_base_url_that_holds_a_part_of_the_path(model: str, base: str, expected: str) -> None:
    assert url(model, base_url=base) == expected


@pytest.mark.parametrize(
    ("provider", "name"), [(row.id, name) for row in PROFILES.values() for name in row.base_env]
)
def test_base_url_from_the_environment(provider: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = parameters_of(provider)
    monkeypatch.setenv(name, "https://proxy.example/llm")
    assert url(f"{provider}:m", **parameters).startswith("https://proxy.example/llm/")
    assert url(f"{provider}:m", base_url="https://other.example", **parameters).startswith(
        "https://other.example/"
    )
    monkeypatch.setenv(name, "")
    if provider != "compatible":
        assert url(f"{provider}:m", **parameters) == URLS[provider]


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost:1234",
            "localhost",
            "192.168.0.7",
            "192.168.0.7:80",
            "http://h",
            "https://h",
            "http://h:5/p/",
            "h/path",
        ),
        *("[::1]:1", "[::1]"),
    ],
)
def test_ollama_host_means_what_ollamas_own_client_reads(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ollama._client import _parse_host  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setenv("OLLAMA_HOST", host)
    parsed, expected = urlsplit(url("ollama:m")), urlsplit(_parse_host(host) + "/api/chat")
    ports = {"http": 80, "https": 443}
    assert (parsed.scheme, parsed.hostname, parsed.path) == (
        expected.scheme,
        expected.hostname,
        expected.path,
    )
    assert (parsed.port or ports[parsed.scheme]) == expected.port


# ---- URL parameters


@pytest.mark.parametrize(("location", "host"), [
    ("global", "aiplatform.googleapis.com"),
    ("us", "aiplatform.us.rep.googleapis.com"),
    ("eu", "aiplatform.eu.rep.googleapis.com"),
    ("europe-west1", "europe-west1-aiplatform.googleapis.com"),
    ("us-central1", "us-central1-aiplatform.googleapis.com"),
])  # fmt: skip
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_vertex_locations(location: str, host: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "proj")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location if way == "environment" else "elsewhere")
    arguments: dict[str, Any] = {"location": location} if way == "argument" else {}
    path = f"/v1/projects/proj/locations/{location}/publishers/google/models/gemini-3-pro:generateContent"
    assert url("vertex:gemini-3-pro", **arguments) == f"https://{host}{path}"


def test_vertex_without_a_location_is_global() -> None:
    assert url("vertex:m", project="proj").startswith(
        "https://aiplatform.googleapis.com/v1/projects/proj/locations/global/"
    )


def test_url_parameters_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE", "res")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert url("azure-dated-chat:dep").endswith(
        "/openai/deployments/dep/chat/completions?api-version=2024-10-21"
    )
    assert url("azure-dated-chat:dep", version="2025-01-01").endswith("api-version=2025-01-01")


def test_an_azure_endpoint_needs_no_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
    assert url("azure:gpt-4o") == f"https://r.openai.azure.com/openai/v1{CHAT}"
    assert url("azure:gpt-5") == "https://r.openai.azure.com/openai/v1/responses"


# ---- models

ODD = ["a/b", "a:b", "a b", "a?b=c", "a#b", "a%2Fb", "ä", "a@001", "{project}", "a&b", "a+b", "a\\b", 'a"b']


@pytest.mark.parametrize("model", ODD)
@pytest.mark.parametrize("provider", ["gemini", "vertex", "azure-dated-chat"])
def test_odd_names_in_a_url(provider: str, model: str) -> None:
    """The name arrives as it is, and nothing but the name."""
    plain = urlsplit(url(f"{provider}:MODEL", **parameters_of(provider)))
    parsed = urlsplit(url(f"{provider}:{model}", **parameters_of(provider)))
    assert (parsed.netloc, parsed.query, parsed.fragment) == (plain.netloc, plain.query, "")
    assert unquote(parsed.path) == plain.path.replace("MODEL", model)
    assert parsed.path.isascii()
    assert " " not in parsed.path


@pytest.mark.parametrize(
    "model", ["anthropic/claude-sonnet-4.5:free", "~google/gemini-pro", "qwen3:32b", "a:b:c"]
)
def test_the_model_is_what_follows_the_first_colon(model: str) -> None:
    assert create_engine(f"openrouter:{model}", key=KEY, transport=ScriptedTransport()).model == model


@pytest.mark.parametrize(("model", "options", "words"), [
    *(
        ("compatible:m", {"base_url": base}, ["base URL", "http:// or https://"])
        for base in ("ftp://h", "file:///etc/passwd", "ws://h", "http://", "https:///v1", "localhost:1")
    ),
    ("compatible:m", {}, ["--base-url", "TOOLGLOT_BASE_URL", "base_url="]),
    ("vertex:m", {}, ["'project'", "project=", "GOOGLE_CLOUD_PROJECT"]),
    ("azure:gpt-4o", {}, ["'resource'", "AZURE_OPENAI_RESOURCE"]),
    ("azure-dated-chat:m", {"resource": "r"}, ["'version'", "OPENAI_API_VERSION"]),
        # `api_key="…"` must not be ignored silently.
    ("anthropic:m", {"api_key": "x"}, ["api_key"]),
    ("vertex:m", {"project": "p", "projekt": "x"}, ["projekt"]),
    ("gemini:../../v1/evil", {}, ["not the name of a model"]),
    *((model, {}, ["PROVIDER:MODEL"]) for model in ("", "anthropic", "anthropic:", "llama3.1")),
    ("simulatr", {}, ["did you mean 'simulator'?"]),
    ("anthropc", {}, ["did you mean 'anthropic:claude-"]),
    ("gtp-4o", {}, ["did you mean 'openai:gpt-4o'?"]),
    ("antropic:m", {}, ["unknown provider", "'anthropic'"]),
    ("opnai:m", {}, ["unknown provider", "'openai'"]),
    ("gemeni:m", {}, ["unknown provider", "'gemini'"]),
    ("azur:m", {}, ["unknown provider", "'azure'"]),
    ("olama:m", {}, ["unknown provider", "'ollama'"]),
    ("simulator:antropic", {}, ["unknown provider", "'anthropic'"]),
])  # fmt: skip
def test_mistakes_are_named(model: str, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        create_engine(model, key=KEY, transport=ScriptedTransport(), **options)
    assert [word for word in words if word not in str(caught.value)] == []


# ---- surfaces


CHAT_MODELS = (
    *("gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest", "gpt-4o-audio-preview", "gpt-audio"),
    *("gpt-4o-search-preview", "gpt-5-search-preview"),
)
RESPONSES_MODELS = ("gpt-5", "gpt-5.4-mini", "gpt-6.1-sol", "o3", "o4-mini", "codex-mini-latest", "")


@pytest.mark.parametrize(("surface", "models"), [("chat", CHAT_MODELS), ("responses", RESPONSES_MODELS)])
@pytest.mark.parametrize("provider", ["openai", "azure"])
def test_the_model_chooses_the_surface(provider: str, surface: str, models: tuple[str, ...]) -> None:
    for model in models:
        assert select_row(provider, model) == resolve_profile(provider, model).id == f"{provider}-{surface}"


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
@pytest.mark.parametrize("row", ["openai-chat", "openai-responses", "azure-chat", "azure-responses"])
def test_a_surface_can_be_forced(row: str, model: str) -> None:
    engine = create_engine(f"{row}:{model}", key=KEY, transport=ScriptedTransport(), **parameters_of(row))  # pyright: ignore[reportArgumentType]
    assert engine.profile.id == row


def test_names_of_providers_do_not_collide() -> None:
    assert not {*SURFACES} & {*PROFILES}
    assert not {*ALIASES} & {*PROFILES}
    assert not {*ALIASES} & {*SURFACES}
    assert {*SIMULATED_MODELS} <= {*PROFILES}
    for patterns in SURFACES.values():
        assert patterns[-1][0] == "", "the last pattern fits every model"
        assert {row for _, row in patterns} <= {*PROFILES}


# ---- prices


GPT_PRICES = {
    "gpt-4o": 2.5,
    "gpt-4o-2024-08-06": 2.5,
    "gpt-4o-mini": 0.15,
    "gpt-4.1": 2.0,
    "gpt-4o-audio-preview": None,
}
GPT_5_PRICES = {
    "gpt-5": 1.25,
    "gpt-5-2025-08-07": 1.25,
    "gpt-5-mini": 0.25,
    "gpt-5.1": 1.25,
    "gpt-5-pro": 15.0,
    "gpt-5.4": 2.5,
}
INPUT_PRICES: dict[str, dict[str, float | None]] = {
    "openai": {**GPT_PRICES, **GPT_5_PRICES},
    "anthropic": {
        "claude-sonnet-4-5-20250929": 3.0,
        "claude-opus-4-5": 5.0,
        "claude-haiku-4-5": 1.0,
        "claude-opus-5": 5.0,
    },
    "gemini": {"gemini-2.5-flash": 0.3, "gemini-2.5-flash-lite": 0.1, "gemini-3-pro": None},
    "groq": {"llama-4": None},
    **{
        server: {"gpt-4o": None, "qwen3": None}
        for server in ("ollama", "llama.cpp", "vllm", "lmstudio", "copilot")
    },
}


@pytest.mark.parametrize("provider", INPUT_PRICES)
def test_prices(provider: str) -> None:
    prices = {model: resolve_profile(provider, model).price for model in INPUT_PRICES[provider]}
    assert {model: price and price.input for model, price in prices.items()} == INPUT_PRICES[provider]


def test_every_price_is_dated() -> None:
    assert all(
        price.as_of and price.cached <= price.input <= price.output
        for rows in PRICES.values()
        for _, price in rows
    )


def test_cost() -> None:
    price = Price(2.0, 0.5, 10.0)
    assert price.cost(Usage(input=1_000_000, output=100_000)) == pytest.approx(3.0)
    assert price.cost(Usage(input=1_000_000, cached=1_000_000)) == pytest.approx(0.5)
    assert price.cost(Usage(input=5, cached=10)) == pytest.approx(0.000005)
    assert price.cost(Usage()) == 0.0
    # no other price is known
    assert price.cost(Usage(input=1_000_000, cache_write=400_000)) == pytest.approx(2.0)
    claude = create_engine("anthropic:claude-sonnet-4-5").profile.price
    assert claude is not None
    usage = Usage(input=1_000_000, cached=500_000, cache_write=400_000)
    assert claude.cost(usage) == pytest.approx(0.1 * 3.00 + 0.5 * 0.30 + 0.4 * 3.75)


# ---- headers


@pytest.mark.parametrize("provider", PROFILES)
def test_headers(provider: str) -> None:
    arguments: dict[str, Any] = (
        {"base_url": "http://h"} if provider == "compatible" else {**parameters_of(provider)}
    )
    headers = request_of(f"{provider}:m", **arguments).headers
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("toolglot")
    assert (headers.get("anthropic-version") == "2023-06-01") == (provider == "anthropic")
    for name, value in PROFILES[provider].headers.items():
        assert headers[name.lower()] == value
    assert sum(KEY in value for value in headers.values()) == 1


def test_no_key_in_any_url() -> None:
    for provider in URLS:
        for stream in (False, True):
            assert KEY not in url(f"{provider}:m", stream=stream, **parameters_of(provider))


@pytest.mark.parametrize(("name", "value"), [
    ("anthropic-version", "2099-01-01"),
    ("Anthropic-Version", "2099-01-01"),
    ("x-api-key", "other"),
    ("X-API-Key", "other"),
    ("User-Agent", "mine"),
    ("Content-Type", "application/json; charset=utf-8"),
    ("anthropic-beta", "x"),
])  # fmt: skip
def test_headers_of_the_caller_override_ours(name: str, value: str) -> None:
    """Names of headers are case-insensitive: there is one of each, the caller's."""
    headers = request_of("anthropic:m", headers={name: value}).headers
    assert [header for key, header in headers.items() if key.lower() == name.lower()] == [value]


def test_betas_of_the_caller_are_added_to_ours() -> None:
    request = request_of("anthropic:claude-opus-4-8", headers={"Anthropic-Beta": "context-1m-2025-08-07"})
    ours = resolve_profile("anthropic", "claude-opus-4-8").headers["anthropic-beta"]
    assert request.headers["anthropic-beta"] == f"{ours},context-1m-2025-08-07"


def test_headers_are_copied() -> None:
    headers = {"x-mine": "1"}
    engine = create_engine("anthropic:m", key=KEY, transport=ScriptedTransport(), headers=headers)
    headers["x-mine"] = "2"
    assert engine.build_http_request(engine.profile, b"", {}, stream=False).headers["x-mine"] == "1"


# ---- transports and the simulator


def test_engines_share_one_transport_and_have_their_own_options() -> None:
    retry = RetryConfig(max_retries=9)
    first, other = create_engine("anthropic:m", key=KEY), create_engine("openai:m", key=KEY, retry=retry)
    assert first.transport is other.transport is default_transport() is default_transport()
    assert other.retry is retry


@pytest.mark.parametrize(("name", "profile", "model"), [
    ("simulator", "anthropic", "claude-sonnet-4-5"),
    ("simulator:", "anthropic", "claude-sonnet-4-5"),
    ("simulator:gemini", "gemini", "gemini-3-pro-preview"),
    ("simulator:google", "gemini", "gemini-3-pro-preview"),
    ("simulator:openai", "openai-responses", "gpt-5.1"),
    ("simulator:openai/gpt-4o", "openai-chat", "gpt-4o"),
    ("simulator:openrouter/anthropic/claude-sonnet-4.5", "openrouter", "anthropic/claude-sonnet-4.5"),
    ("simulator:groq", "groq", "simulated"),
    ("simulator:ollama/qwen3:32b", "ollama", "qwen3:32b"),
])  # fmt: skip
def test_simulated(name: str, profile: str, model: str) -> None:
    engine = create_engine(name)
    assert (engine.profile.id, engine.model) == (profile, model)
    assert isinstance(engine.transport, SimulatedTransport)


@pytest.mark.parametrize("provider", PROFILES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_every_row_can_be_simulated(provider: str, stream: bool) -> None:
    session = create_engine(f"simulator:{provider}").new_state()
    async for _ in session.stream_batches(text_request("say Hello", stream=stream)):
        pass
    assert session.result
    assert session.result.reply.text == "Hello"


def test_a_simulated_engine_sends_the_users_headers() -> None:
    """The simulator's own `x-simulate` is one of them."""
    engine = create_engine("simulator:anthropic", headers={"x-simulate": "unauthorized"})
    with pytest.raises(ToolglotError, match="x-api-key"):
        asyncio.run(engine.ask(text_request()))


@pytest.mark.parametrize("model", ["simulator", "simulator:gemini", "openai:gpt-4o"])
@pytest.mark.parametrize("option", ["tool", "instructions", "timeout"])
def test_an_unknown_option_is_an_error(model: str, option: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown engine option for .*{option}"):
        create_engine(model, **cast(Any, {option: "x"}))
