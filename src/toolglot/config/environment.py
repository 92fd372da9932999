"""Settings in the environment: TOOLGLOT_ and the key in capitals, `_` for dots. Keys with a free name have none."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from toolglot.config.setting_schema import WILDCARD, SettingField, SettingPath, parse_text, setting_fields
from toolglot.errors import UsageError

__all__ = ["read_environment", "setting_variables", "variable_name"]


def variable_name(field: SettingField) -> str:
    """The variable of a leaf; "" where it has none."""
    return "" if WILDCARD in field.key else "TOOLGLOT_" + "_".join(field.key).upper()


@cache
def setting_variables() -> dict[str, SettingField]:
    """All of them."""
    return {name: leaf for leaf in setting_fields() if (name := variable_name(leaf))}


def _find_similar_variable(name: str) -> str:
    """The variable that was meant, where it is clear; others may have variables that begin alike."""
    return next(iter(get_close_matches(name, setting_variables(), n=1, cutoff=0.92)), "")


def read_environment(environ: Mapping[str, str]) -> dict[SettingPath, tuple[Any, str]]:
    """What is set: path -> value and variable. An empty variable is not set. Raises UsageError."""
    layer: dict[SettingPath, tuple[Any, str]] = {}
    for name in environ:
        if name.startswith("TOOLGLOT_") and name not in setting_variables() and (near := _find_similar_variable(name)):
            raise UsageError(f"the variable {name} is no setting; did you mean {near}?")
    for name, leaf in setting_variables().items():
        if not (text := environ.get(name, "")).strip():
            continue
        try:
            layer[leaf.key] = parse_text(leaf, text), name
        except ValueError as e:
            raise UsageError(f"the variable {name} {e}") from None
    return layer
