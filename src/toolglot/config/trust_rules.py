"""What the file of an untrusted project may do: the rule of each setting, applied to one value at a time. Pure.

The result never allows more than the layers below it.
"""

from math import inf
from typing import Any

from toolglot.config.setting_schema import SettingField

__all__ = ["apply_rule"]


def apply_rule(field: SettingField, value: Any, current: Any) -> tuple[Any, str]:
    """Return what applies instead of an untrusted value, and why it is not that value ("" if it is).

    `current`: what applies without it; UNSET if nothing does.
    """
    if field.trust == "free" or value == current:
        return value, ""
    match field.trust:
        case "superset":
            # Unset, built-in tools ask before everything except reading: any list could only name fewer effects.
            if current is None:
                return current, "only a trusted directory may set which effects need approval"
            return (*current, *(name for name in value if name not in current)), ""
        case "subset":
            added = [] if current is None else [name for name in value if name not in current]
            return (current, f"{added[0]!r} is not in the list that applies now") if added else (value, "")
        case "enable":
            return (value, "") if value else (current, "it would allow losses that are an error now")
        case "lower":
            allowed = [
                limit if isinstance(limit, int | float) and not (field.declared.zero_is_unlimited and limit == 0) else inf
                for limit in (value, current)
            ]
            return (value, "") if allowed[0] <= allowed[1] else (current, f"it would allow more than the current {current}")
        case _:
            return current, "only a trusted directory may set it"
