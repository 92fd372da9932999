"""The rules of each wire, in a module named after the wire's package: `Rules`, which refuses what its provider refuses."""

from functools import cache
from importlib import import_module

from toolglot.simulator.wires.base import WireRules
from toolglot.wire.spec import SPECS

__all__ = ["WireRules", "load_rules"]


@cache
def load_rules(wire: str) -> type[WireRules]:
    """Return the rules of a wire; the shared ones for a wire without a module here."""
    try:
        return import_module(f"{__name__}.{SPECS[wire].package.rpartition('.')[2]}").Rules
    except ModuleNotFoundError:
        return WireRules
