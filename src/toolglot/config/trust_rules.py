"""What a project's file may do before its folder is trusted: the laws of `settings.LAWS`, applied to one value at a time.

Pure. What counts is never more than what the layers below allow.
"""

from math import inf
from typing import Any

import msgspec

from toolglot.config.setting_schema import SettingField
from toolglot.config.settings import TRUST_RULES, TrustRule

__all__ = ["apply_rule", "trust_rule_of"]

_NEEDS_TRUST = "only a trusted folder may set it"


def trust_rule_of(field: SettingField) -> TrustRule:
    """The law of the leaf, or of the section that it is in."""
    named = (".".join(field.key[:length]) for length in range(len(field.key), 0, -1))
    for key in named:
        if key in TRUST_RULES:
            return TRUST_RULES[key]
    return "trusted"


def apply_rule(field: SettingField, value: Any, current: Any) -> tuple[Any, str]:
    """What counts of an untrusted value, and why it is not what was asked for ("" where it is).

    `lower`: what counts without it; UNSET where nothing does.
    """
    law = trust_rule_of(field)
    if law == "free" or value == current:
        return value, ""
    if law == "trusted":
        return current, _NEEDS_TRUST
    return _apply_tighter_rule(field, value, current)


def _apply_tighter_rule(field: SettingField, value: Any, current: Any) -> tuple[Any, str]:
    match field.name:
        case "deny" | "ask":
            if current is None:  # the built-in tools ask before whatever is not reading: a list could only name less
                return current, "only a trusted folder may say which effects need an approval"
            return (*current, *(one for one in value if one not in current)), ""
        case "allow":
            beyond = [] if current is None else [one for one in value if one not in current]
            return (current, f"{beyond[0]!r} is not in the list that counts now") if beyond else (value, "")
        case "strict":
            return (value, "") if value else (current, "it would allow losses that are an error now")
        case _:
            less = _allowed_amount(field, value) <= _allowed_amount(field, current)
            return (value, "") if less else (current, f"it would allow more than the {current} that counts now")


def _allowed_amount(field: SettingField, limit: float | str | msgspec.UnsetType | None) -> float:
    """How much a limit allows."""
    if not isinstance(limit, int | float) or (field.name == "repeats" and limit == 0):
        return inf
    return limit
