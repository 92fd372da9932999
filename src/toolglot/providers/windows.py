"""DATA: context windows (prompt and answer together) and output limits, in tokens, by vendor and model.

Every row has a source and a month. A model without a row has no known window: a guess would truncate a conversation too early
or too late. Local servers have none (whoever starts them decides), nor has Copilot, whose windows are its own.
"""

import re
from functools import lru_cache

import msgspec

__all__ = ["WINDOWS", "Window", "find_vendor", "find_window"]


class Window(msgspec.Struct, frozen=True):
    """What a model accepts. The first row whose pattern matches the name counts."""

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
        *_windows_from("genai-prices", (r"^(gpt-4o-audio|gpt-4o-mini-search)-preview", 128_000, None, "2025-07")),
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
            "models.dev", (r"^grok-4\.20-0309", 2_000_000, 30_000, "2026-03"), (r"^grok-4\.[67]", 500_000, None, "2026-08")
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
        *_windows_from("Lobe Chat 1.143", (r"^llama-3\.(3-70b-versatile|1-8b-instant)$", 131_072, None, "2025-11")),
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
        vendor, name = _ROUTER_VENDORS.get(maker.removeprefix("~"), ""), name.partition(":")[0]
    else:
        vendor, name = find_vendor(profile_id), name.removeprefix("ft:").partition(":")[0]  # fine-tuned: ft:MODEL:ORG
    return next((row for row in WINDOWS.get(vendor, ()) if re.search(row.model, name)), None)
