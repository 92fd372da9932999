"""DATA: context windows (prompt and answer together), output limits and prices, by vendor and model.

Every row has a source and a month; the first pattern that matches the model's name counts. A model without a
row has no known
window: a guess would truncate a conversation too early or too late. Local servers have none (whoever starts
them decides), nor has Copilot, whose windows are its own.
"""

import re
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from toolglot.providers.profile import Price

__all__ = ["PRICES", "WINDOWS", "Window", "find_price", "find_vendor", "find_window", "known_models"]


class Window(msgspec.Struct, frozen=True):
    """What a model accepts."""

    model: str
    """A pattern of the name, without the vendor before a slash."""
    context: int
    answer: int | None
    """None: no separate limit is known."""
    source: str
    as_of: str
    """The month that the source states; for several models the oldest."""


def _windows_from(source: str, *rows: tuple[str, int, int | None, str]) -> tuple[Window, ...]:
    return tuple(Window(pattern, context, answer, source, as_of) for pattern, context, answer, as_of in rows)


# A router writes `claude-opus-4.5` for `claude-opus-4-5`.
_DATE_SUFFIX = r"(-20\d{6}|-latest|$)"
WINDOWS: dict[str, tuple[Window, ...]] = {
    "openai": (
        *_windows_from(
            "models.dev",
            (r"^gpt-3\.?5-turbo(?!-instruct)", 16_385, 4_096, "2023-11"),
            (r"^gpt-4(-0314|-0613)?$", 8_192, 8_192, "2024-04"),
            (r"^gpt-4-(turbo|1106|0125|vision)", 128_000, 4_096, "2024-04"),
            (r"^gpt-4o-2024-05-13", 128_000, 4_096, "2024-05"),
            (r"^gpt-4o(-mini)?(-20\d\d|$)", 128_000, 16_384, "2024-07"),
            (r"^gpt-4\.1(-mini|-nano)?(-20\d\d|$)", 1_047_576, 32_768, "2025-04"),
            (r"^o1-mini", 128_000, 65_536, "2024-09"),
            (r"^(o1|o1-pro|o3|o3-mini|o3-pro|o4-mini)(-20\d\d|$)", 200_000, 100_000, "2024-12"),
            (r"^gpt-5-pro(-20\d\d|$)", 400_000, 272_000, "2025-10"),
            (r"^gpt-5(-mini|-nano|-codex)?(-20\d\d|$)", 400_000, 128_000, "2025-08"),
            (r"^gpt-5\.1-chat", 128_000, None, "2025-11"),
            (r"^gpt-5\.1(-codex|-codex-mini)?(-20\d\d|$)", 400_000, 128_000, "2025-11"),
            (r"^gpt-5\.2(-codex|-pro)?(-20\d\d|$)", 400_000, 128_000, "2025-12"),
            (r"^gpt-5\.3-codex-spark", 128_000, 32_000, "2026-02"),
            (r"^gpt-5\.3-codex(-20\d\d|$)", 400_000, 128_000, "2026-02"),
            (r"^gpt-5\.4(-pro)?(-20\d\d|$)", 1_050_000, 128_000, "2026-03"),
            (r"^gpt-5\.5(-20\d\d|$)", 1_050_000, 128_000, "2026-04"),
            (r"^gpt-5\.6(-sol|-luna|-terra)?(-20\d\d|$)", 1_050_000, 128_000, "2026-07"),
            (r"^gpt-6-(astra|sol|luna)(-20\d\d|$)", 1_050_000, 128_000, "2026-09"),
        ),
        *_windows_from(
            "genai-prices", (r"^(gpt-4o-audio|gpt-4o-mini-search)-preview", 128_000, None, "2025-07")
        ),
    ),
    "anthropic": (
        *_windows_from(
            "models.dev",
            (r"^claude-3-(opus|haiku)", 200_000, 4_096, "2024-02"),
            (r"^claude-3[-.]5-(sonnet|haiku)", 200_000, 8_192, "2024-10"),
            (r"^claude-3[-.]7-sonnet", 200_000, 64_000, "2025-02"),
            (rf"^claude-opus-4([-.][01])?{_DATE_SUFFIX}", 200_000, 32_000, "2025-05"),
            (rf"^claude-sonnet-4([-.][05])?{_DATE_SUFFIX}", 200_000, 64_000, "2025-05"),
            (rf"^claude-(opus|haiku)-4[-.]5{_DATE_SUFFIX}", 200_000, 64_000, "2025-10"),
            (rf"^claude-sonnet-4[-.]6{_DATE_SUFFIX}", 1_000_000, 64_000, "2026-03"),
            (rf"^claude-opus-4[-.][678]{_DATE_SUFFIX}", 1_000_000, 128_000, "2026-03"),
            (rf"^claude-(opus|sonnet|fable|mythos)-5{_DATE_SUFFIX}", 1_000_000, 128_000, "2026-06"),
        ),
        *_windows_from("genai-prices", (r"^claude-3-sonnet", 200_000, None, "2025-06")),
        *_windows_from(
            "Anthropic's overview of models",
            (rf"^claude-(opus|sonnet|haiku)-5[-.]5{_DATE_SUFFIX}", 1_000_000, 128_000, "2026-10"),
            (rf"^claude-fable-5[-.]1{_DATE_SUFFIX}", 1_000_000, 128_000, "2026-10"),
        ),
    ),
    # Gemini's window is the prompt alone; the answer comes on top of it.
    "google": (
        *_windows_from(
            "Google's pages of models",
            (r"^gemini-1\.5-flash(-002|-001|-latest|$)", 1_048_576, 8_192, "2024-09"),
            (r"^gemini-1\.5-pro(-002|-001|-latest|$)", 2_000_000, None, "2024-09"),
            (r"^gemini-2\.0-flash(-lite)?(-001|$)", 1_048_576, 8_192, "2025-02"),
        ),
        *_windows_from(
            "models.dev",
            (r"^gemini-2\.5-(pro|flash|flash-lite)$", 1_048_576, 65_536, "2025-06"),
            (r"^gemini-3-(pro|flash)-preview$", 1_048_576, 65_536, "2025-11"),
            (r"^gemini-3\.1-pro-preview(-customtools)?$", 1_048_576, 65_536, "2026-02"),
            (r"^gemini-3\.1-flash-lite(-preview)?$", 1_048_576, 65_536, "2026-03"),
            (r"^gemini-3\.5-flash$", 1_048_576, 65_536, "2026-05"),
            (r"^gemini-3\.8-flash$", 1_048_576, 65_536, "2026-09"),
            (r"^gemini-pro-latest$", 1_048_576, 65_536, "2026-02"),
        ),
    ),
    "xai": (
        *_windows_from(
            "genai-prices, from xAI's page of models",
            (r"^grok-2", 32_768, None, "2025-07"),
            (r"^grok-3", 131_072, None, "2025-07"),
            (r"^grok-4(-0709|-latest)?$", 256_000, None, "2025-07"),
            (r"^grok-4(-1)?-fast", 2_000_000, None, "2026-01"),
            (r"^grok-4\.3", 1_000_000, None, "2026-05"),
            (r"^grok-(4\.5|latest$)", 500_000, None, "2026-07"),
            (r"^grok-code-fast", 256_000, None, "2026-01"),
        ),
        *_windows_from(
            "models.dev",
            (r"^grok-4\.20-0309", 2_000_000, 30_000, "2026-03"),
            (r"^grok-4\.[67]", 500_000, None, "2026-08"),
        ),
    ),
    "deepseek": _windows_from(
        "models.dev",
        (r"^deepseek-(chat|reasoner)$", 1_000_000, 384_000, "2026-02"),
        (r"^deepseek-v4-(pro|flash)$", 1_000_000, 384_000, "2026-04"),
        (r"^deepseek-v4\.1-flash$", 1_000_000, 384_000, "2026-09"),
    ),
    "mistral": _windows_from(
        "models.dev",
        (r"^mistral-large-2411", 131_072, None, "2024-11"),
        (r"^mistral-large-(2512|latest)", 262_144, None, "2025-12"),
        (r"^mistral-medium-(2508|latest)", 262_144, None, "2025-08"),
        (r"^mistral-medium-2604", 262_144, None, "2026-04"),
        (r"^mistral-medium-3\.5", 256_000, None, "2026-04"),
        (r"^mistral-small-(2603|latest)", 256_000, None, "2026-03"),
        (r"^devstral-2512", 262_144, None, "2025-12"),
        (r"^codestral-latest", 256_000, None, "2025-01"),
        (r"^magistral-medium-2509", 128_000, None, "2025-09"),
    ),
    "groq": (
        *_windows_from(
            "models.dev",
            (r"^gpt-oss-(120b|20b)$", 131_072, 65_536, "2026-05"),
            (r"^qwen3-32b$", 131_072, 40_960, "2024-12"),
            (r"^qwen3\.8-27b$", 131_042, 16_384, "2026-08"),
            (r"^kimi-k2-instruct$", 131_072, None, "2025-07"),
        ),
        *_windows_from(
            "Lobe Chat 1.143", (r"^llama-3\.(3-70b-versatile|1-8b-instant)$", 131_072, None, "2025-11")
        ),
    ),
}
# US dollars per million tokens: input, cached input, output. From the vendors' price lists, since 2026 by way
# of models.dev and genai-prices. These are the prices of short prompts: some vendors charge more for long
# ones.
PRICES: dict[str, tuple[tuple[str, Price], ...]] = {
    "openai": (
        (r"^gpt-3\.5-turbo(-0125|$)", Price(0.50, 0.50, 1.50, "2025-07")),
        (r"^gpt-4-turbo(-20\d\d|$)", Price(10.0, 10.0, 30.0, "2025-07")),
        (r"^gpt-4(-0613|$)", Price(30.0, 30.0, 60.0, "2025-07")),
        (r"^gpt-4o-mini", Price(0.15, 0.075, 0.60, "2025-12")),
        (r"^gpt-4o-2024-05-13", Price(5.00, 5.00, 15.0, "2024-05")),
        (r"^gpt-4o(-\d|$)", Price(2.50, 1.25, 10.0, "2025-12")),
        (r"^gpt-4\.1-nano", Price(0.10, 0.025, 0.40, "2025-12")),
        (r"^gpt-4\.1-mini", Price(0.40, 0.10, 1.60, "2025-12")),
        (r"^gpt-4\.1(-\d|$)", Price(2.00, 0.50, 8.00, "2025-12")),
        (r"^o1(-20\d\d|$)", Price(15.0, 7.50, 60.0, "2024-12")),
        (r"^o1-pro", Price(150.0, 150.0, 600.0, "2025-03")),
        (r"^o3(-20\d\d|$)", Price(2.00, 0.50, 8.00, "2025-04")),
        (r"^o3-mini", Price(1.10, 0.55, 4.40, "2025-01")),
        (r"^o4-mini(-20\d\d|$)", Price(1.10, 0.275, 4.40, "2025-04")),
        (r"^gpt-5-nano", Price(0.05, 0.005, 0.40, "2025-12")),
        (r"^gpt-5-mini", Price(0.25, 0.025, 2.00, "2025-12")),
        (r"^gpt-5-pro", Price(15.0, 15.0, 120.0, "2025-11")),
        (r"^gpt-5\.1-codex-mini", Price(0.25, 0.025, 2.00, "2025-11")),
        (r"^gpt-5(\.1)?(-\d|$)", Price(1.25, 0.125, 10.0, "2025-12")),
        (r"^gpt-5(\.1)?-(chat|codex)", Price(1.25, 0.125, 10.0, "2025-11")),
        (r"^gpt-5\.2-pro", Price(21.0, 21.0, 168.0, "2025-12")),
        (r"^gpt-5\.2(-20\d\d|$)", Price(1.75, 0.175, 14.0, "2025-12")),
        (r"^gpt-5\.3-codex$", Price(1.75, 0.175, 14.0, "2026-02")),
        (r"^gpt-5\.4-pro", Price(30.0, 30.0, 180.0, "2026-03")),
        (r"^gpt-5\.4(-20\d\d|$)", Price(2.50, 0.25, 15.0, "2026-03")),
        (r"^gpt-5\.5(-20\d\d|$)", Price(5.00, 0.50, 30.0, "2026-04")),
        (r"^gpt-5\.6(-sol)?(-20\d\d|$)", Price(2.00, 0.20, 10.0, "2026-07")),
        (r"^gpt-6-astra", Price(10.0, 1.00, 50.0, "2026-09")),
    ),
    "anthropic": (
        (r"^claude-3-haiku", Price(0.25, 0.03, 1.25, "2025-06")),
        (r"^claude-3-opus", Price(15.0, 1.50, 75.0, "2025-06")),
        (r"^claude-3-5-haiku", Price(0.80, 0.08, 4.00, "2025-06")),
        (r"^claude-3(-[57])?-sonnet", Price(3.00, 0.30, 15.0, "2025-06")),
        (r"^claude-opus-4(-0)?(-20\d\d|$)", Price(15.0, 1.50, 75.0, "2025-05")),
        (r"^claude-opus-4-1", Price(15.0, 1.50, 75.0, "2025-12")),
        (r"^claude-opus-4-5", Price(5.00, 0.50, 25.0, "2025-12")),
        (r"^claude-opus-4-[678]", Price(5.00, 0.50, 25.0, "2026-03")),
        (r"^claude-sonnet-4-6", Price(3.00, 0.30, 15.0, "2026-03")),
        (r"^claude-sonnet-4", Price(3.00, 0.30, 15.0, "2025-12")),
        (r"^claude-haiku-4-5", Price(1.00, 0.10, 5.00, "2025-12")),
        (r"^claude-opus-5(-20\d\d|$)", Price(5.00, 0.50, 25.0, "2026-07")),
        (r"^claude-sonnet-5(-20\d\d|$)", Price(2.00, 0.20, 10.0, "2026-06")),
        (r"^claude-fable-5(-20\d\d|$)", Price(10.0, 1.00, 50.0, "2026-06")),
        (r"^claude-opus-5-5", Price(4.00, 0.20, 20.0, "2026-10")),
        (r"^claude-sonnet-5-5", Price(2.00, 0.10, 10.0, "2026-10")),
    ),
    "google": (
        (r"^gemini-2\.0-flash(-001|$)", Price(0.10, 0.025, 0.40, "2024-12")),
        (r"^gemini-2\.5-flash-lite", Price(0.10, 0.01, 0.40, "2025-12")),
        (r"^gemini-2\.5-flash(?!-(image|native|live))", Price(0.30, 0.03, 2.50, "2025-12")),
        (r"^gemini-2\.5-pro", Price(1.25, 0.125, 10.0, "2025-12")),
        (r"^gemini-3-pro-preview", Price(2.00, 0.20, 12.0, "2025-11")),
        (r"^gemini-3-flash-preview", Price(0.50, 0.05, 3.00, "2025-12")),
        (r"^gemini-3\.1-pro-preview", Price(2.00, 0.20, 12.0, "2026-02")),
        (r"^gemini-3\.1-flash-lite", Price(0.25, 0.025, 1.50, "2026-05")),
        (r"^gemini-3\.5-flash$", Price(1.50, 0.15, 9.00, "2026-05")),
        # until the end of 2026; then 1.50, 0.15, 7.50
        (r"^gemini-3\.8-flash$", Price(0.75, 0.075, 3.75, "2026-09")),
    ),
    "xai": (
        (r"^grok-3-mini(-beta|-latest|$)", Price(0.30, 0.075, 0.50, "2025-07")),
        (r"^grok-3(-beta|-latest|$)", Price(3.00, 0.75, 15.0, "2025-07")),
        (r"^grok-4(-0709|-latest|$)", Price(3.00, 0.75, 15.0, "2025-07")),
        (r"^grok-4(-1)?-fast", Price(0.20, 0.05, 0.50, "2026-01")),
        (r"^grok-4\.20$", Price(1.25, 0.20, 2.50, "2026-06")),
        (r"^grok-4\.3", Price(1.25, 0.20, 2.50, "2026-05")),
        (r"^grok-4\.5", Price(2.00, 0.50, 6.00, "2026-07")),
        (r"^grok-4\.[67]", Price(2.00, 0.50, 6.00, "2026-08")),
        (r"^grok-code-fast", Price(0.20, 0.02, 1.50, "2026-01")),
    ),
    "deepseek": (
        (r"^deepseek-v4-flash$", Price(0.14, 0.0028, 0.28, "2026-05")),
        (r"^deepseek-v4-pro$", Price(0.435, 0.003625, 0.87, "2026-06")),
    ),
    "mistral": (
        (r"^mistral-large-2512", Price(0.50, 0.05, 1.50, "2026-06")),
        (r"^mistral-medium-(2505|2508)", Price(0.40, 0.04, 2.00, "2026-08")),
        (r"^mistral-medium-3[-.]5", Price(1.50, 0.15, 7.50, "2026-08")),
        (r"^mistral-small-2603", Price(0.15, 0.015, 0.60, "2026-06")),
        (r"^devstral-2512", Price(0.40, 0.04, 2.00, "2026-06")),
        (r"^codestral-2508", Price(0.30, 0.03, 0.90, "2026-06")),
    ),
    "groq": (
        (r"^openai/gpt-oss-120b$", Price(0.15, 0.075, 0.60, "2026-05")),
        (r"^openai/gpt-oss-20b$", Price(0.075, 0.0375, 0.30, "2026-05")),
        (r"^qwen/qwen3\.8-27b$", Price(0.80, 0.40, 4.00, "2026-08")),
    ),
}
# The vendor of a profile by the first word of its id, where they differ.
_VENDORS = {"azure": "openai", "openai": "openai", "gemini": "google", "vertex": "google"}
# The vendor of a model behind a router. Open weights are left out: every host chooses its own window.
_ROUTER_VENDORS = {"openai": "openai", "anthropic": "anthropic", "google": "google", "x-ai": "xai"}


def find_vendor(profile_id: str) -> str:
    """Return the vendor whose windows and prices apply at an endpoint."""
    return _VENDORS.get(profile_id.partition("-")[0], profile_id)


@lru_cache(maxsize=512)
def find_window(profile_id: str, model: str) -> Window | None:
    """Return the window of a model at an endpoint, if it is known."""
    maker, _, name = model.rpartition("/")
    if profile_id == "openrouter":
        vendor = _ROUTER_VENDORS.get(maker.removeprefix("~"), "")
    else:
        vendor = find_vendor(profile_id)
        name = name.removeprefix("ft:")  # fine-tuned: ft:MODEL:ORG
    name = name.partition(":")[0]
    for row in WINDOWS.get(vendor, ()):
        if re.search(row.model, name):
            return row
    return None


# Of the price of input. Anthropic: for 5 minutes, the lifetime of the marks that we set (its page on prompt
# caching).
_CACHE_WRITE_FACTORS = {"anthropic": 1.25}


def find_price(profile_id: str, model: str) -> Price | None:
    """Return the price of a model at an endpoint, if it is known."""
    vendor = find_vendor(profile_id)
    factor = _CACHE_WRITE_FACTORS.get(vendor)
    for pattern, price in PRICES.get(vendor, ()):
        if not re.search(pattern, model):
            continue
        if factor is None:
            return price
        return replace(price, cache_write=price.input * factor)
    return None


_ALTERNATIVES = re.compile(r"\(([^()]*)\)(\??)")


def known_models(profile_id: str) -> list[str]:
    """Return the models at an endpoint whose window or price is known; `*` stands for any end of a name,
    dates are left out.
    """
    vendor = find_vendor(profile_id)
    names: list[str] = []
    for row in WINDOWS.get(vendor, ()):
        names += _expand_pattern(row.model)
    for pattern, _ in PRICES.get(vendor, ()):
        for name in _expand_pattern(pattern):
            # A window that fits the name has listed the model already.
            if "/" in name or find_window(profile_id, name.rstrip("*")) is None:
                names.append(name)
    return [name for name in dict.fromkeys(names) if not _is_without_maker(name, names)]


def _is_without_maker(name: str, names: list[str]) -> bool:
    """Whether a name is another one without its maker, as `gpt-oss-120b` is `openai/gpt-oss-120b`."""
    return any(other.endswith(f"/{name}") for other in names)


def _expand_pattern(pattern: str) -> list[str]:
    """Return the names that a pattern of this module lists."""
    text = (
        re.sub(r"\(\?!(?:[^()]|\([^()]*\))*\)|[\^$]", "", pattern).replace(r"\.?", r"\.").replace("[-.]", "-")
    )
    pending = [re.sub(r"\[(\d+)\]", lambda match: f"({'|'.join(match[1])})", text)]
    names: list[str] = []
    while pending:
        text = pending.pop(0)
        match = _ALTERNATIVES.search(text)
        if match is None:
            name = text.replace("\\", "")
            allows_more = re.search(pattern, f"{name}-other")
            names.append(f"{name}*" if allows_more else name)
            continue
        is_date = r"\d" in match[1]
        choices = [""] if is_date else match[1].split("|")
        if match[2]:  # it may be left out
            choices = ["", *choices]
        pending[:0] = [text[: match.start()] + choice + text[match.end() :] for choice in choices]
    return names
