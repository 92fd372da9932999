"""Settings in the environment: TOOLGLOT_ and the key in capitals, `_` for dots. Keys with a free name have none."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from toolglot.config.shape import FREE, Leaf, Path, from_text, leaves
from toolglot.errors import UsageError

__all__ = ["environment_layer", "variable_of", "variables"]


def variable_of(leaf: Leaf) -> str:
    """The variable of a leaf; "" where it has none."""
    return "" if FREE in leaf.key else "TOOLGLOT_" + "_".join(leaf.key).upper()


@cache
def variables() -> dict[str, Leaf]:
    """All of them."""
    return {name: leaf for leaf in leaves() if (name := variable_of(leaf))}


def _nearly(name: str) -> str:
    """The variable that was meant, where it is clear; others may have variables that begin alike."""
    return next(iter(get_close_matches(name, variables(), n=1, cutoff=0.92)), "")


def environment_layer(environ: Mapping[str, str]) -> dict[Path, tuple[Any, str]]:
    """What is set: path -> value and variable. An empty variable is not set. Raises UsageError."""
    layer: dict[Path, tuple[Any, str]] = {}
    for name in environ:
        if name.startswith("TOOLGLOT_") and name not in variables() and (near := _nearly(name)):
            raise UsageError(f"the variable {name} is no setting; did you mean {near}?")
    for name, leaf in variables().items():
        if not (text := environ.get(name, "")).strip():
            continue
        try:
            layer[leaf.key] = from_text(leaf, text), name
        except ValueError as e:
            raise UsageError(f"the variable {name} {e}") from None
    return layer
