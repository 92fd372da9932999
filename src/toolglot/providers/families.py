"""DATA: the family of a model by its name, and the coding tools that its own harness shows it (a facade).

A model was trained on the tools of its maker's harness: it uses tools of those names and shapes best, wherever it is served.
"""

import re

__all__ = ["FACADES", "NEUTRAL", "facade_of", "facade_rule"]

NEUTRAL = "neutral"
# A name begins at the start, or after a router's slash, a region's dot or a provider's colon: `us.anthropic.claude-…`.
_START = r"(?:^|[/:.~])"
FACADES: tuple[tuple[str, str], ...] = (
    (r"claude", "claude_code"),
    (r"gemini", "gemini_cli"),
    (r"(?:chatgpt|gpt|codex)(?:-|$)", "codex"),
    (r"o\d+(?:-|$)", "codex"),
    (r"qwen", "qwen_code"),
    (r"kimi", "kimi"),
)
# Providers that serve one family only.
_ONE_FAMILY = {
    "anthropic": "claude_code",
    "gemini": "gemini_cli",
    "vertex": "gemini_cli",
    "openai-chat": "codex",
    "openai-responses": "codex",
}


def facade_of(model: str) -> str:
    """The facade of a model, also behind a router (`anthropic/claude-…`)."""
    name = model.lower()
    return next((facade for pattern, facade in FACADES if re.search(_START + pattern, name)), NEUTRAL)


def facade_rule(provider: str) -> str:
    """The facade that all models of a provider have; "by model" where that depends."""
    return _ONE_FAMILY.get(provider, "by model")
