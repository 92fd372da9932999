"""What a project's file may do before its folder is trusted: the laws of `settings.LAWS`, applied to one value at a time.

Pure. What counts is never more than what the layers below allow.
"""

from math import inf
from typing import Any

import msgspec

from toolglot.config.settings import LAWS, Law
from toolglot.config.shape import Leaf

__all__ = ["judged", "law_of"]

_NEEDS_TRUST = "only a trusted folder may set it"


def law_of(leaf: Leaf) -> Law:
    """The law of the leaf, or of the section that it is in."""
    named = (".".join(leaf.key[:length]) for length in range(len(leaf.key), 0, -1))
    for key in named:
        if key in LAWS:
            return LAWS[key]
    return "trusted"


def judged(leaf: Leaf, value: Any, lower: Any) -> tuple[Any, str]:
    """What counts of an untrusted value, and why it is not what was asked for ("" where it is).

    `lower`: what counts without it; UNSET where nothing does.
    """
    law = law_of(leaf)
    if law == "free" or value == lower:
        return value, ""
    if law == "trusted":
        return lower, _NEEDS_TRUST
    return _tighter(leaf, value, lower)


def _tighter(leaf: Leaf, value: Any, lower: Any) -> tuple[Any, str]:
    match leaf.name:
        case "deny" | "ask":
            if lower is None:  # the built-in tools ask before whatever is not reading: a list could only name less
                return lower, "only a trusted folder may say which effects need an approval"
            return (*lower, *(one for one in value if one not in lower)), ""
        case "allow":
            beyond = [] if lower is None else [one for one in value if one not in lower]
            return (lower, f"{beyond[0]!r} is not in the list that counts now") if beyond else (value, "")
        case "strict":
            return (value, "") if value else (lower, "it would allow losses that are an error now")
        case _:
            less = _size(leaf, value) <= _size(leaf, lower)
            return (value, "") if less else (lower, f"it would allow more than the {lower} that counts now")


def _size(leaf: Leaf, limit: float | str | msgspec.UnsetType | None) -> float:
    """How much a limit allows."""
    if not isinstance(limit, int | float) or (leaf.name == "repeats" and limit == 0):
        return inf
    return limit
