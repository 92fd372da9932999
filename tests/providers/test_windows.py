"""Windows and prices: what is known has a source and a day, and what is not known is not guessed."""

import re

import pytest

from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.prices import PRICES
from toolglot.providers.windows import WINDOWS, Window, find_vendor, find_window

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


@pytest.mark.parametrize(("provider", "model", "context", "answer"), [
    ("openai", "gpt-3.5-turbo", 16_385, 4_096),
    ("openai", "gpt-3.5-turbo-instruct", None, None),
    ("openai", "gpt-4", 8_192, 8_192),
    ("openai", "gpt-4-32k", None, None),
    ("openai", "gpt-4-turbo-2024-04-09", 128_000, 4_096),
    ("openai", "gpt-4o", 128_000, 16_384),
    ("openai", "gpt-4o-2024-05-13", 128_000, 4_096),
    ("openai", "gpt-4o-2024-08-06", 128_000, 16_384),
    ("openai", "gpt-4o-mini", 128_000, 16_384),
    ("openai", "gpt-4o-transcribe", None, None),
    ("openai", "ft:gpt-4o-mini-2024-07-18:org::abc", 128_000, 16_384),
    ("openai", "gpt-4.1-nano", 1_047_576, 32_768),
    ("openai", "o1-mini", 128_000, 65_536),
    ("openai", "o3", 200_000, 100_000),
    ("openai", "o3-deep-research", None, None),
    ("openai", "o4-mini-2025-04-16", 200_000, 100_000),
    ("openai", "gpt-5", 400_000, 128_000),
    ("openai", "gpt-5-mini-2025-08-07", 400_000, 128_000),
    ("openai", "gpt-5-pro", 400_000, 272_000),
    ("openai", "gpt-5-image", None, None),
    ("openai", "gpt-5.1-chat-latest", 128_000, None),
    ("openai", "gpt-5.1-codex", 400_000, 128_000),
    ("openai", "gpt-5.2", 400_000, 128_000),
    ("openai", "gpt-5.3-codex-spark", 128_000, 32_000),
    ("openai", "gpt-5.4", 1_050_000, 128_000),
    ("openai", "gpt-5.4-mini", None, None),
    ("openai", "gpt-5.6", 1_050_000, 128_000),
    ("openai", "gpt-6-astra", 1_050_000, 128_000),
    ("openai", "gpt-7", None, None),
    ("azure", "gpt-5", 400_000, 128_000),
    ("azure", "my-deployment", None, None),
    ("anthropic", "claude-3-haiku-20240307", 200_000, 4_096),
    ("anthropic", "claude-3-5-sonnet-latest", 200_000, 8_192),
    ("anthropic", "claude-3-7-sonnet-20250219", 200_000, 64_000),
    ("anthropic", "claude-opus-4-20250514", 200_000, 32_000),
    ("anthropic", "claude-opus-4-1-20250805", 200_000, 32_000),
    ("anthropic", "claude-sonnet-4-20250514", 200_000, 64_000),
    ("anthropic", "claude-sonnet-4-5", 200_000, 64_000),
    ("anthropic", "claude-opus-4-5-20251101", 200_000, 64_000),
    ("anthropic", "claude-sonnet-4-6", 1_000_000, 64_000),
    ("anthropic", "claude-opus-4-7", 1_000_000, 128_000),
    ("anthropic", "claude-opus-5", 1_000_000, 128_000),
    ("anthropic", "claude-haiku-5-5", 1_000_000, 128_000),
    ("anthropic", "claude-opus-5-5", 1_000_000, 128_000),
    ("anthropic", "claude-opus-5-7", None, None),
    ("gemini", "gemini-1.5-flash", 1_048_576, 8_192),
    ("gemini", "gemini-2.0-flash-lite", 1_048_576, 8_192),
    ("gemini", "models/gemini-2.5-pro", 1_048_576, 65_536),
    ("gemini", "gemini-2.5-flash-image", None, None),
    ("gemini", "gemini-3-pro-preview", 1_048_576, 65_536),
    ("gemini", "gemini-3-pro-image-preview", None, None),
    ("vertex", "gemini-3.8-flash", 1_048_576, 65_536),
    ("xai", "grok-3-mini", 131_072, None),
    ("xai", "grok-4", 256_000, None),
    ("xai", "grok-4-1-fast-reasoning", 2_000_000, None),
    ("xai", "grok-4.7", 500_000, None),
    ("deepseek", "deepseek-chat", 1_000_000, 384_000),
    ("deepseek", "deepseek-v4.1-flash", 1_000_000, 384_000),
    ("mistral", "mistral-large-latest", 262_144, None),
    ("mistral", "mistral-large-2411", 131_072, None),
    ("groq", "openai/gpt-oss-120b", 131_072, 65_536),
    ("groq", "llama-3.3-70b-versatile", 131_072, None),
    ("groq", "llama-4", None, None),
    ("openrouter", "anthropic/claude-sonnet-4.5", 200_000, 64_000),
    ("openrouter", "~anthropic/claude-opus-4.6:thinking", 1_000_000, 128_000),
    ("openrouter", "google/gemini-2.5-flash", 1_048_576, 65_536),
    ("openrouter", "x-ai/grok-4", 256_000, None),
    ("openrouter", "openai/gpt-oss-120b", None, None),
    ("openrouter", "qwen/qwen3-32b", None, None),
    ("openrouter", "gpt-5", None, None),
])  # fmt: skip
def test_windows_set_the_limits(provider: str, model: str, context: int | None, answer: int | None) -> None:
    limits = resolve_profile(provider, model).limits
    assert (limits.context, limits.answer) == (context, answer)


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
def test_prices_are_those_of_the_serving_vendor(provider: str, model: str, dollars: tuple[float, ...] | None) -> None:
    price = resolve_profile(provider, model).price
    assert (price and (price.input, price.cached, price.output)) == dollars


def test_prices_have_a_month() -> None:
    assert all(re.fullmatch(r"20\d\d-\d\d", price.as_of) for rows in PRICES.values() for _, price in rows)
