"""Settings from the environment: TOOLGLOT_ and the key in capitals, with `_` for dots."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from toolglot.config.setting_schema import SettingField, SettingPath, parse_text, setting_fields
from toolglot.errors import UsageError

__all__ = ["read_environment", "setting_variables"]


@cache
def setting_variables() -> dict[str, SettingField]:
    """The variables of all settings that have one."""
    return {field.variable: field for field in setting_fields() if field.variable}


def read_environment(environ: Mapping[str, str]) -> dict[SettingPath, tuple[Any, str]]:
    """What is set: path -> value and variable. An empty variable is not set. Raises UsageError."""
    known = setting_variables()
    for name in environ:
        if name.startswith("TOOLGLOT_") and name not in known:
            # Only for an obvious misspelling: other programs may use variables that start like ours.
            if similar := get_close_matches(name, known, n=1, cutoff=0.92):
                raise UsageError(f"the variable {name} is not a setting; did you mean {similar[0]}?")
    layer: dict[SettingPath, tuple[Any, str]] = {}
    for name, field in known.items():
        if (text := environ.get(name, "")).strip():
            try:
                layer[field.key] = parse_text(field, text), name
            except ValueError as e:
                raise UsageError(f"the variable {name} {e}") from None
    return layer
