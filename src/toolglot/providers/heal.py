"""DATA: refusals that a request can be mended for. A cure is a change of the profile, so the next request is right at once.

Each pattern is a text that providers really answer with; a request is healed at most once, and the caller is told.
"""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile

__all__ = ["HealRule", "HealedProfile", "heal_profile"]


class HealRule(msgspec.Struct, frozen=True):
    """A refusal whose text matches is cured by these changes. `wires`: "" in it means all."""

    pattern: str
    changes: dict[str, Any]
    reason: str
    wires: tuple[str, ...] = ()


class HealedProfile(msgspec.Struct, frozen=True):
    """The profile to ask again with, and what is different in it."""

    profile: Profile
    changed_fields: str
    reason: str


_RESPONSES_ROWS = {
    "openai-chat": "openai-responses",
    "azure-chat": "azure-responses",
    "azure-dated-chat": "azure-dated-responses",
}
_UNKNOWN_FIELD = r"(unknown|unrecognized|unsupported|extra|unexpected)"
_UNFORCED_CHOICES = frozenset({"auto", "none"})

HEAL_RULES = (
    HealRule(r"to use function tools, use /v1/responses", {"surface": "responses"}, "the model takes tools only on Responses"),
    HealRule(
        r"(temperature|top_p|top_k)\b.*(extra inputs are not permitted|not supported|unsupported|deprecated)"
        r"|unsupported (parameter|value): '(temperature|top_p)",
        {"sampling": "none"},
        "the model takes no sampling parameters",
    ),
    HealRule(
        r"bound to a different conversation|invalid `?signature`? in `?thinking`?|thinking.*blocks?.*cannot be modified",
        {"reasoning_echo": "no"},
        "earlier thinking is no longer accepted, and left out",
        ("anthropic-messages",),
    ),
    HealRule(
        r"reasoning.*(without its required following item|encrypted content.*could not)|required 'reasoning' item",
        {"reasoning_echo": "no"},
        "earlier reasoning is no longer accepted, and left out",
        ("openai-responses",),
    ),
    HealRule(
        r"missing a `?thought_signature", {"signatures": True}, "calls carry a signature that skips the check", ("gemini",)
    ),
    HealRule(
        r"reasoning_content.*must be passed back", {"reasoning_echo": "required"}, "every turn is sent with its reasoning"
    ),
    HealRule(
        r"(does not support this tool_choice|tool_choice.*(not supported|forces tool use|may not be|not allowed|unsupported))",
        {"features.choices": _UNFORCED_CHOICES},
        "the model cannot be forced to call a tool; it is asked to",
    ),
    HealRule(
        r"(schema|grammar).*(too complex|too large|compil)|too many (strict|optional)",
        {"features.strict": False},
        "the schemas are too complex for strict mode",
    ),
    HealRule(r"use 'max_completion_tokens'", {"max_tokens": "max_completion_tokens"}, "the limit has another name"),
    HealRule(
        rf"{_UNKNOWN_FIELD}.*max_completion_tokens",
        {"max_tokens": "max_tokens"},
        "the limit has another name",
    ),
    HealRule(
        rf"{_UNKNOWN_FIELD}.*stream_options|stream_options.*(not permitted|not supported)",
        {"stream_defaults": {}},
        "the server does not count tokens in a stream",
    ),
)


def heal_profile(message: str, profile: Profile) -> HealedProfile | None:
    """What to do about a refusal, where there is something that was not done yet. The first pattern that fits counts."""
    for heal in HEAL_RULES:
        if (not heal.wires or profile.wire in heal.wires) and re.search(heal.pattern, message, re.IGNORECASE | re.DOTALL):
            changed = _apply_changes(profile, heal.changes)
            what = ", ".join(key.rpartition(".")[2] for key in heal.changes)
            return HealedProfile(changed, what, heal.reason) if changed != profile else None
    return None


def _apply_changes(profile: Profile, changes: dict[str, Any]) -> Profile:
    if changes.get("surface") == "responses":
        row = _RESPONSES_ROWS.get(profile.id)
        if row is None:
            return profile
        other, (_, mark, query) = resolve_profile(row, profile.model), profile.path.partition("?")
        return replace(other, base_url=profile.base_url, path=other.path.partition("?")[0] + mark + query)
    flat = {key: value for key, value in changes.items() if "." not in key}
    for key, value in changes.items():
        part, _, name = key.rpartition(".")
        if part:
            flat[part] = replace(getattr(profile, part), **{name: value})
    return replace(profile, **flat)
