"""DATA: what differs between the models of an endpoint.

A new fact is one row here, with its source, and nothing else.

Facts are applied in order, so later ones win. `changes` names fields of the Profile, with a dot for those of
its parts.
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


def _facts_about(profiles: tuple[str, ...], *rows: tuple[str, dict[str, Any], str]) -> list[Fact]:
    return [Fact(profiles, *row) for row in rows]


_CHAT = ("openai-chat", "azure-chat", "azure-dated-chat")
_RESPONSES = ("openai-responses", "azure-responses", "azure-dated-responses")
_LOW_TO_HIGH = ("low", "medium", "high")
_CLAUDE = "(opus|sonnet|haiku|fable|mythos)"
_LIVE_TESTS = "pydantic-ai 2.66, live-tested 2026"
_TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01,inline-tools-2026-09-15"
_ANTHROPIC_SDK = "anthropic SDK 2.8.0"

FACTS = (
    *_facts_about(
        (*_CHAT, *_RESPONSES),
        # Reasoning models refuse sampling parameters.
        (
            r"^(o[134](-|$)|gpt-5(?!.*chat)|gpt-[6-9])",
            {"sampling": "none", "efforts": ("none", "minimal", *_LOW_TO_HIGH, "xhigh")},
            "OpenAI's API reference",
        ),
        (r"^gpt-5\.4-(mini|nano)", {"sampling": "all"}, "recorded 200"),
        (r"^gpt-(6-astra|6\.1-sol)", {"efforts": (*_LOW_TO_HIGH, "xhigh")}, _LIVE_TESTS),
        (r"^o[134](-|$)", {"efforts": _LOW_TO_HIGH}, "OpenAI's API reference"),
    ),
    *_facts_about(
        ("openai-responses",),
        (
            r"^gpt-(5\.[1-9]|[6-9])",
            {"features.typed": frozenset({"shell", "apply_patch"})},
            "OpenAI's guides to the shell and apply_patch tools: GPT-5.1 and newer, Responses only",
        ),
        (
            r"^codex-mini",
            {"features.typed": frozenset({"local_shell"})},
            "OpenAI's guide to the local shell tool: codex-mini-latest, Responses only",
        ),
        (
            r"^gpt-(5\.[4-9]|[6-9])",
            {"features.tool_search": True},
            "OpenAI's guide to tool search: GPT-5.4 and newer",
        ),
        (
            r"^gpt-(5\.[6-9]|[6-9])",
            {"cache_field": "prompt_cache_breakpoint", "cache_ttls": ("30m", "12h")},
            "openai SDK 3.49: GPT-5.6 and newer",
        ),
    ),
    *_facts_about(
        _CHAT,
        (r"^o1-mini", {"system_role": "user"}, "recorded 400"),
        (
            r"^gpt-(5\.[6-9]|[6-9])",
            {"cache_field": "prompt_cache_breakpoint", "cache_ttls": ("30m",)},
            "openai SDK 3.49: GPT-5.6 and newer; 12h is refused on Chat (live-tested 2026)",
        ),
        (r"audio", {"media": frozenset({"image", "file", "audio"})}, "recorded 400"),
    ),
    *_facts_about(
        ("anthropic",),
        (r"claude-(opus-4-1|opus-4-5|sonnet-4-5|haiku-4-5)", {"sampling": "one"}, "recorded 400"),
        (
            rf"claude-(opus-4-[7-9]|{_CLAUDE}-[5-9])",
            {"sampling": "none", "thinking_budget": False},
            f"{_ANTHROPIC_SDK}, migration notes of Claude 4.7 and 5",
        ),
        (
            rf"claude-(opus|sonnet)-4-[6-9]|claude-{_CLAUDE}-[5-9]",
            {"history.ends_with_user": True},
            _ANTHROPIC_SDK,
        ),
        (r"claude-(opus-4-5|(opus|sonnet)-4-6)", {"efforts": _LOW_TO_HIGH}, _ANTHROPIC_SDK),
        (
            rf"claude-(opus-4-[7-9]|{_CLAUDE}-[5-9])",
            {"efforts": (*_LOW_TO_HIGH, "xhigh", "max")},
            _ANTHROPIC_SDK,
        ),
        (
            r"claude-((opus|sonnet)-5-5|(fable|mythos)-5)",
            {"features.choices": frozenset({"auto", "none"})},
            _LIVE_TESTS,
        ),
        (rf"claude-{_CLAUDE}-[4-9]", {"default_max_tokens": 16_384}, "our choice"),
        (
            rf"claude-(opus|sonnet|haiku)-4-[5-9]|claude-{_CLAUDE}-[5-9]",
            {"features.tool_search": True},
            _LIVE_TESTS,
        ),
        (
            r"claude-(opus-4-[89]|(opus|fable|mythos)-5|(sonnet|haiku)-5-5)",
            {
                "features.tool_changes": True,
                "headers": {"anthropic-version": "2023-06-01", "anthropic-beta": _TOOL_CHANGES},
            },
            "Anthropic's page on system messages in the middle of a conversation; recorded 200",
        ),
        (
            r"claude-3-7",
            {"features.typed": frozenset({"bash_20250124"})},
            "Anthropic's page on its bash tool",
        ),
        (
            rf"claude-{_CLAUDE}-[4-9]",
            {"features.typed": frozenset({"text_editor_20250728", "bash_20250124", "memory_20250818"})},
            f"{_ANTHROPIC_SDK}, Anthropic's pages on its text editor, bash and memory tools",
        ),
    ),
    *_facts_about(
        ("gemini", "vertex"),
        (
            r"gemini-([3-9]|flash-latest|pro-latest)",
            {
                "signatures": True,
                "call_ids": True,
                "efforts": ("low", "high"),
                "features.result_media": frozenset({"image", "file"}),
            },
            "Gemini 3 documentation, refusals on record",
        ),
    ),
    # Behind a router the model's family decides
    *_facts_about(
        ("openrouter",),
        (
            r"^~?anthropic/",
            {"limits.cache_marks": 4, "cache_field": "cache_control", "cache_ttls": ("5m", "1h")},
            "OpenRouter's documentation: cache_control passes through",
        ),
        (r"^~?google/", {"dialect": "GEMINI_OPENAPI"}, _LIVE_TESTS),
    ),
    *_facts_about(
        ("xai",),
        (r"grok-4\.[5-9]", {"efforts": _LOW_TO_HIGH}, _LIVE_TESTS),
        (r"grok-4\.7", {"efforts": (*_LOW_TO_HIGH, "xhigh")}, _LIVE_TESTS),
    ),
)
