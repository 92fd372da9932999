"""Finds the wire, the vendor and the model that a path means.

A first segment `@ID` names the profile whose rules apply; without it the path decides (Azure, Vertex), else
the wire.
"""

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.wire.spec import OPENAI_CHAT, SPECS, WIRES

__all__ = ["Route", "find_route"]

_ROUTES = [
    (re.compile(pattern), wire, profile) for wire, spec in SPECS.items() for pattern, profile in spec.paths
]
_GEMINI_VERBS = {"generateContent": False, "streamGenerateContent": True, "countTokens": None}


class Route(msgspec.Struct, frozen=True):
    """Where a request goes. `is_served`: whether anything is there."""

    wire: str
    profile: str
    model: str = ""
    """If the path names it."""
    stream: bool | None = None
    """If the path decides it (Gemini); else the body does."""
    query: dict[str, str] = {}
    is_served: bool = True
    action: str = ""
    """What is done with the request instead of answering it: `/count_tokens`, `/compact` …"""


def find_route(path: str) -> Route:
    """Return the route of a path with its query."""
    path, _, query = path.partition("?")
    fields = dict(parse_qsl(query, keep_blank_values=True))
    row = ""
    if path.startswith("/@"):
        row, slash, remainder = path[2:].partition("/")
        row = ALIASES.get(row, row)
        path = slash + remainder
    named_wire = PROFILES[row].wire if row in PROFILES else None
    routes = _ROUTES
    if named_wire is not None and named_wire not in WIRES:  # of a plug-in
        routes = [(re.compile(pattern), named_wire, vendor) for pattern, vendor in SPECS[named_wire].paths]
    for pattern, wire, vendor in routes:
        if match := pattern.fullmatch(path):
            parts = {name: text or "" for name, text in match.groupdict().items()}
            return _make_route(wire, _find_row(row, wire), vendor, parts, fields)
    if named_wire is not None:
        return Route(named_wire, row, query=fields, is_served=False)
    wire = _guess_wire(path)
    return Route(wire, SPECS[wire].default_profile, query=fields, is_served=False)


def _guess_wire(path: str) -> str:
    """Return the wire that an unknown path resembles: its refusal has the form of that wire."""
    for wire, spec in SPECS.items():
        if spec.path_hint and spec.path_hint in path:
            return wire
    return OPENAI_CHAT


def _find_row(row: str, wire: str) -> str:
    """Return the profile that a path names, for the wire that the path has."""
    if row and row not in PROFILES:  # `openai` and `azure` have a profile for each of their wires
        row = f"{row}-{wire.removeprefix('openai-')}"
    # A model that supports tools only on Responses is asked there, though Chat was named.
    for surfaces in SURFACES.values():
        siblings = [id for _, id in surfaces]
        if row in siblings:
            return next((id for id in siblings if PROFILES[id].wire == wire), row)
    return row


def _make_route(wire: str, row: str, vendor: str, parts: dict[str, str], query: dict[str, str]) -> Route:
    """Return the route of a path that a wire serves. `parts`: what its pattern has matched."""
    verb = parts.get("verb", "")
    action = parts.get("action", "")
    if not action and verb == "countTokens":
        action = verb
    is_served = not verb or verb in _GEMINI_VERBS
    profile = vendor or SPECS[wire].default_profile
    if row in PROFILES:
        profile = row
        is_served = is_served and PROFILES[row].wire == wire
    elif row:
        is_served = False
    return Route(
        wire, profile, unquote(parts.get("model", "")), _GEMINI_VERBS.get(verb), query, is_served, action
    )
