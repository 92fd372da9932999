"""Windows and prices: what is known has a source and a month; what is unknown is not guessed."""

import re

import pytest

from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.model_data import PRICES, WINDOWS, Window, find_vendor, find_window

ROWS = [(vendor, row) for vendor, rows in WINDOWS.items() for row in rows]


# ---- windows


@pytest.mark.parametrize(("vendor", "row"), ROWS, ids=[f"{vendor} {row.model}" for vendor, row in ROWS])
def test_rows_have_a_source_and_a_month(vendor: str, row: Window) -> None:
    assert row.source
    assert re.fullmatch(r"20\d\d-\d\d", row.as_of)
    assert row.model.startswith("^")
    re.compile(row.model)
    assert 4_000 < row.context <= 2_000_000
    assert row.answer is None or 1_000 < row.answer <= row.context
    assert vendor in {find_vendor(id) for id in PROFILES}


LIMITS: dict[str, dict[tuple[int | None, int | None], str]] = {
    "openai": {
        (16_385, 4_096): "gpt-3.5-turbo",
        (
            None,
            None,
        ): "gpt-3.5-turbo-instruct gpt-4-32k gpt-4o-transcribe o3-deep-research gpt-5-image gpt-5.4-mini "
        "gpt-7",
        (8_192, 8_192): "gpt-4",
        (128_000, 4_096): "gpt-4-turbo-2024-04-09 gpt-4o-2024-05-13",
        (128_000, 16_384): "gpt-4o gpt-4o-2024-08-06 gpt-4o-mini ft:gpt-4o-mini-2024-07-18:org::abc",
        (1_047_576, 32_768): "gpt-4.1-nano",
        (128_000, 65_536): "o1-mini",
        (200_000, 100_000): "o3 o4-mini-2025-04-16",
        (400_000, 128_000): "gpt-5 gpt-5-mini-2025-08-07 gpt-5.1-codex gpt-5.2",
        (400_000, 272_000): "gpt-5-pro",
        (128_000, None): "gpt-5.1-chat-latest",
        (128_000, 32_000): "gpt-5.3-codex-spark",
        (1_050_000, 128_000): "gpt-5.4 gpt-5.6 gpt-6-astra",
    },
    "azure": {(400_000, 128_000): "gpt-5", (None, None): "my-deployment"},
    "anthropic": {
        (200_000, 4_096): "claude-3-haiku-20240307",
        (200_000, 8_192): "claude-3-5-sonnet-latest",
        (
            200_000,
            64_000,
        ): "claude-3-7-sonnet-20250219 claude-sonnet-4-20250514 claude-sonnet-4-5 claude-opus-4-5-20251101",
        (200_000, 32_000): "claude-opus-4-20250514 claude-opus-4-1-20250805",
        (1_000_000, 64_000): "claude-sonnet-4-6",
        (1_000_000, 128_000): "claude-opus-4-7 claude-opus-5 claude-haiku-5-5 claude-opus-5-5",
        (None, None): "claude-opus-5-7",
    },
    "gemini": {
        (1_048_576, 8_192): "gemini-1.5-flash gemini-2.0-flash-lite",
        (1_048_576, 65_536): "models/gemini-2.5-pro gemini-3-pro-preview",
        (None, None): "gemini-2.5-flash-image gemini-3-pro-image-preview",
    },
    "vertex": {(1_048_576, 65_536): "gemini-3.8-flash"},
    "xai": {
        (131_072, None): "grok-3-mini",
        (256_000, None): "grok-4",
        (2_000_000, None): "grok-4-1-fast-reasoning",
        (500_000, None): "grok-4.7",
    },
    "deepseek": {(1_000_000, 384_000): "deepseek-chat deepseek-v4.1-flash"},
    "mistral": {(262_144, None): "mistral-large-latest", (131_072, None): "mistral-large-2411"},
    "groq": {
        (131_072, 65_536): "openai/gpt-oss-120b",
        (131_072, None): "llama-3.3-70b-versatile",
        (None, None): "llama-4",
    },
    "openrouter": {
        (200_000, 64_000): "anthropic/claude-sonnet-4.5",
        (1_000_000, 128_000): "~anthropic/claude-opus-4.6:thinking",
        (1_048_576, 65_536): "google/gemini-2.5-flash",
        (256_000, None): "x-ai/grok-4",
        (None, None): "openai/gpt-oss-120b qwen/qwen3-32b gpt-5",
    },
}
LIMIT_ROWS = [
    (provider, model, limits)
    for provider, rows in LIMITS.items()
    for limits, names in rows.items()
    for model in names.split()
]


@pytest.mark.parametrize(("provider", "model", "limits"), LIMIT_ROWS)
def test_windows_set_the_limits(provider: str, model: str, limits: tuple[int | None, int | None]) -> None:
    window = resolve_profile(provider, model).limits
    assert (window.context, window.answer) == limits


@pytest.mark.parametrize("provider", ["ollama", "llama.cpp", "lmstudio", "vllm", "compatible", "copilot"])
@pytest.mark.parametrize("model", ["gpt-4o", "claude-opus-5", "openai/gpt-5", "qwen3", ""])
def test_local_servers_and_copilot_have_no_known_window(provider: str, model: str) -> None:
    assert resolve_profile(provider, model).limits.context is None
    assert find_window(provider, model) is None


def test_no_model_no_window() -> None:
    assert all(resolve_profile(id).limits.context is None for id in PROFILES)


def test_other_limits_are_unchanged() -> None:
    assert resolve_profile("openai-chat", "gpt-4o").limits.tools == PROFILES["openai-chat"].limits.tools
    assert resolve_profile("openrouter", "anthropic/claude-sonnet-4.5").limits.cache_marks == 4


# ---- prices


@pytest.mark.parametrize(("provider", "model", "dollars"), [
    ("openai", "gpt-5.4", (2.5, 0.25, 15.0)),
    ("openai", "gpt-5.4-mini", None),
    ("openai", "gpt-5.1-codex", (1.25, 0.125, 10.0)),
    ("openai", "gpt-5.1-codex-mini", (0.25, 0.025, 2.0)),
    ("openai", "gpt-4o-2024-05-13", (5.0, 5.0, 15.0)),
    ("openai", "o3", (2.0, 0.5, 8.0)),
    ("openai", "o3-pro", None),
    ("anthropic", "claude-opus-4-20250514", (15.0, 1.5, 75.0)),
    ("anthropic", "claude-opus-4-6", (5.0, 0.5, 25.0)),
    ("anthropic", "claude-opus-5", (5.0, 0.5, 25.0)),
    ("anthropic", "claude-opus-5-5", (4.0, 0.2, 20.0)),
    ("anthropic", "claude-haiku-5-5", None),
    ("gemini", "gemini-3.1-pro-preview", (2.0, 0.2, 12.0)),
    ("gemini", "gemini-2.5-flash-image", None),
    ("xai", "grok-4.6", (2.0, 0.5, 6.0)),
    ("deepseek", "deepseek-v4-pro", (0.435, 0.003625, 0.87)),
    ("mistral", "mistral-large-2512", (0.5, 0.05, 1.5)),
    ("groq", "openai/gpt-oss-120b", (0.15, 0.075, 0.6)),
    ("groq", "deepseek-v4-pro", None),
    ("openrouter", "openai/gpt-5", None),
    ("compatible", "grok-4", None),
])  # fmt: skip
def test_prices_are_those_of_the_serving_vendor(
    provider: str, model: str, dollars: tuple[float, ...] | None
) -> None:
    price = resolve_profile(provider, model).price
    assert (price and (price.input, price.cached, price.output)) == dollars


def test_prices_have_a_month() -> None:
    assert all(re.fullmatch(r"20\d\d-\d\d", price.as_of) for rows in PRICES.values() for _, price in rows)
