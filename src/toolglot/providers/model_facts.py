"""DATA: what differs between the models of an endpoint. A new fact is one `Fact` here, with its source, and nothing else.

Facts are applied in order, so later ones win. `changes` names fields of the Profile, with a dot for those of its parts.
"""

from typing import Any

import msgspec

__all__ = ["FACTS", "Fact"]


class Fact(msgspec.Struct, frozen=True):
    """What is different for models whose name matches the pattern `model`, on these profiles."""

    profiles: tuple[str, ...]
    model: str
    changes: dict[str, Any]
    source: str = ""


_CHAT = ("openai-chat", "azure-chat", "azure-dated-chat")
_OPENAI = (*_CHAT, "openai-responses", "azure-responses", "azure-dated-responses")
_GOOGLE = ("gemini", "vertex")

FACTS = (
    # OpenAI: reasoning models refuse sampling parameters
    Fact(
        _OPENAI,
        r"^(o[134](-|$)|gpt-5(?!.*chat)|gpt-[6-9])",
        {"sampling": "none", "efforts": ("none", "minimal", "low", "medium", "high", "xhigh")},
        "OpenAI's API reference",
    ),
    Fact(_OPENAI, r"^gpt-5\.4-(mini|nano)", {"sampling": "all"}, "recorded 200"),
    Fact(
        _OPENAI,
        r"^gpt-(6-astra|6\.1-sol)",
        {"efforts": ("low", "medium", "high", "xhigh")},
        "pydantic-ai 2.66, live-tested 2026",
    ),
    Fact(_OPENAI, r"^o[134](-|$)", {"efforts": ("low", "medium", "high")}, "OpenAI's API reference"),
    Fact(
        ("openai-responses",),
        r"^gpt-(5\.[1-9]|[6-9])",
        {"features.typed": frozenset({"shell", "apply_patch"})},
        "OpenAI's guides to the shell and apply_patch tools: GPT-5.1 and newer, Responses only",
    ),
    Fact(_CHAT, r"^o1-mini", {"system_role": "user"}, "recorded 400"),
    Fact(_CHAT, r"audio", {"media": frozenset({"image", "file", "audio"})}, "recorded 400"),
    # Claude
    Fact(("anthropic",), r"claude-(opus-4-1|opus-4-5|sonnet-4-5|haiku-4-5)", {"sampling": "one"}, "recorded 400"),
    Fact(
        ("anthropic",),
        r"claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])",
        {"sampling": "none", "thinking_budget": False},
        "anthropic SDK 2.8.0, migration notes of Claude 4.7 and 5",
    ),
    Fact(
        ("anthropic",),
        r"claude-(opus|sonnet)-4-[6-9]|claude-(opus|sonnet|haiku|fable|mythos)-[5-9]",
        {"history.ends_with_user": True},
        "anthropic SDK 2.8.0",
    ),
    Fact(("anthropic",), r"claude-(opus-4-5|(opus|sonnet)-4-6)", {"efforts": ("low", "medium", "high")}, "anthropic SDK 2.8.0"),
    Fact(
        ("anthropic",),
        r"claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])",
        {"efforts": ("low", "medium", "high", "xhigh", "max")},
        "anthropic SDK 2.8.0",
    ),
    Fact(
        ("anthropic",),
        r"claude-((opus|sonnet)-5-5|(fable|mythos)-5)",
        {"features.choices": frozenset({"auto", "none"})},
        "pydantic-ai 2.66, live-tested 2026",
    ),
    Fact(("anthropic",), r"claude-(opus|sonnet|haiku|fable|mythos)-[4-9]", {"default_max_tokens": 16_384}, "our choice"),
    Fact(("anthropic",), r"claude-3-7", {"features.typed": frozenset({"bash_20250124"})}, "Anthropic's page on its bash tool"),
    Fact(
        ("anthropic",),
        r"claude-(opus|sonnet|haiku|fable|mythos)-[4-9]",
        {"features.typed": frozenset({"text_editor_20250728", "bash_20250124", "memory_20250818"})},
        "anthropic SDK 2.8.0, Anthropic's pages on its text editor, bash and memory tools",
    ),
    # Gemini
    Fact(
        _GOOGLE,
        r"gemini-([3-9]|flash-latest|pro-latest)",
        {
            "signatures": True,
            "call_ids": True,
            "efforts": ("low", "high"),
            "features.result_media": frozenset({"image", "file"}),
        },
        "Gemini 3 documentation, refusals on record",
    ),
    # Behind a router the model's family decides
    Fact(
        ("openrouter",), r"^~?anthropic/", {"limits.cache_marks": 4}, "OpenRouter's documentation: cache_control passes through"
    ),
    Fact(("openrouter",), r"^~?google/", {"dialect": "GEMINI_OPENAPI"}, "pydantic-ai 2.66, live-tested 2026"),
    # Grok
    Fact(("xai",), r"grok-4\.[5-9]", {"efforts": ("low", "medium", "high")}, "pydantic-ai 2.66, live-tested 2026"),
    Fact(("xai",), r"grok-4\.7", {"efforts": ("low", "medium", "high", "xhigh")}, "pydantic-ai 2.66, live-tested 2026"),
)
