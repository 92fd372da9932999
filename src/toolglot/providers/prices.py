"""DATA: US dollars per million tokens, by vendor and model: input, cached input, output, and the month of the source.

From the vendors' price lists, since 2026 by way of models.dev and genai-prices. These are the prices of short prompts: some
vendors charge more for long ones. The first pattern that matches the model's name counts.
"""

import re

from toolglot.providers.profile import Price
from toolglot.providers.windows import find_vendor

__all__ = ["PRICES", "find_price"]

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
        (r"^gemini-3\.8-flash$", Price(0.75, 0.075, 3.75, "2026-09")),  # until the end of 2026; then 1.50, 0.15, 7.50
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


def find_price(profile_id: str, model: str) -> Price | None:
    """Return the price of a model at an endpoint, if it is known."""
    rows = PRICES.get(find_vendor(profile_id), ())
    return next((price for pattern, price in rows if re.search(pattern, model)), None)
