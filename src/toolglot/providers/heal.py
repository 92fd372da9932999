"""DATA: refusals that a change of the profile can fix.

The change stays, so later requests are right the first time.

Each pattern matches an error text that providers really send. A request is healed at most once, and that is
reported.
"""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile

__all__ = ["HealRule", "HealedProfile", "heal_profile"]


class HealRule(msgspec.Struct, frozen=True):
    """A refusal whose text matches is fixed by these changes (see `Profile.apply`).

    No `wires`: all of them.
    """

    pattern: str
    changes: dict[str, Any]
    reason: str
    wires: tuple[str, ...] = ()


class HealedProfile(msgspec.Struct, frozen=True):
    """The profile to retry with, and what is different in it."""

    profile: Profile
    changed_fields: str
    reason: str


_RESPONSES_ROWS = {
    "openai-chat": "openai-responses",
    "azure-chat": "azure-responses",
    "azure-dated-chat": "azure-dated-responses",
}
_UNKNOWN_FIELD = r"(unknown|unrecognized|unsupported|extra|unexpected)"
_USE_RESPONSES = {"surface": "responses"}
_UNFORCED_CHOICES = frozenset({"auto", "none"})

HEAL_RULES = (
    HealRule(
        r"to use function tools, use /v1/responses",
        _USE_RESPONSES,
        "the model supports tools only on Responses",
    ),
    HealRule(
        r"(temperature|top_p|top_k)\b.*(extra inputs are not permitted|not supported|unsupported|deprecated)"
        r"|unsupported (parameter|value): '(temperature|top_p)",
        {"sampling": "none"},
        "the model accepts no sampling parameters",
    ),
    HealRule(
        r"bound to a different conversation|invalid `?signature`? in `?thinking`?|thinking.*blocks?.*cannot "
        r"be modified"
        r"|reasoning.*(without its required following item|encrypted content.*could not)|required "
        r"'reasoning' item"
        r"|item with id 'rs_.*not found",  # of another server, or of another account
        {"reasoning_echo": "no"},
        "earlier reasoning is no longer accepted; it is left out",
        ("anthropic-messages", "openai-responses"),
    ),
    HealRule(
        r"missing a `?thought_signature",
        {"signatures": True},
        "calls get a placeholder signature that skips the check",
        ("gemini",),
    ),
    HealRule(
        r"reasoning_content.*must be passed back",
        {"reasoning_echo": "required"},
        "every turn must include its reasoning",
    ),
    HealRule(
        r"(does not support this tool_choice|tool_choice.*(not supported|forces tool use|may not be|not "
        r"allowed|unsupported))",
        {"features.choices": _UNFORCED_CHOICES},
        "the model cannot be forced to call a tool; the prompt asks for it",
    ),
    HealRule(
        r"(schema|grammar).*(too complex|too large|compil)|too many (strict|optional)",
        {"features.strict": False},
        "the schemas are too complex for strict mode",
    ),
    HealRule(
        r"input_examples",
        {"features.examples": False},
        "examples of calls have no field of their own",
        ("anthropic-messages",),
    ),
    HealRule(
        r"use 'max_completion_tokens'", {"max_tokens": "max_completion_tokens"}, "the limit has another name"
    ),
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
    """Return what to change after a refusal; None if nothing helps, or it was done already.

    The first matching rule counts.
    """
    for rule in HEAL_RULES:
        if rule.wires and profile.wire not in rule.wires:
            continue
        if not re.search(rule.pattern, message, re.IGNORECASE | re.DOTALL):
            continue
        if rule.changes != _USE_RESPONSES:
            healed = profile.apply(rule.changes)
        elif profile.id in _RESPONSES_ROWS:
            healed = _use_responses(profile)
        else:
            return None
        if healed == profile:
            return None
        fields = ", ".join(key.rpartition(".")[2] for key in rule.changes)
        return HealedProfile(healed, fields, rule.reason)
    return None


def _use_responses(profile: Profile) -> Profile:
    """Return the profile for the other API of its provider, with a custom base URL, and Azure's
    `?api-version=`.
    """
    other = resolve_profile(_RESPONSES_ROWS[profile.id], profile.model)
    _, mark, query = profile.path.partition("?")
    path = other.path.partition("?")[0]
    return replace(other, base_url=profile.base_url, path=path + mark + query)
