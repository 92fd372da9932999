"""Finds the wire, the vendor and the model that a path means.

A first segment `@ID` names the profile whose rules apply; without it the path decides (Azure, Vertex), else the wire.
"""

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.wire.spec import OPENAI_CHAT, SPECS, WIRES

__all__ = ["Route", "find_route"]

_ROUTES = [(re.compile(pattern), wire, profile) for wire, spec in SPECS.items() for pattern, profile in spec.paths]
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
        row, path = ALIASES.get(row, row), slash + remainder
    routes = _ROUTES
    if row in PROFILES and (wire := PROFILES[row].wire) not in WIRES:  # of a plug-in
        routes = [(re.compile(pattern), wire, vendor) for pattern, vendor in SPECS[wire].paths]
    for pattern, wire, vendor in routes:
        if not (match := pattern.fullmatch(path)):
            continue
        if row and row not in PROFILES:  # `openai` and `azure` have a profile for each of their wires
            row = f"{row}-{wire.removeprefix('openai-')}"
        # A model that supports tools only on Responses is asked there, though Chat was named.
        rows = [[id for _, id in surfaces] for surfaces in SURFACES.values()]
        siblings = next((ids for ids in rows if row in ids), list[str]())
        row = next((id for id in siblings if PROFILES[id].wire == wire), row)
        parts = match.groupdict()
        verb = parts.get("verb")
        is_known = not row or (row in PROFILES and PROFILES[row].wire == wire)
        is_served = is_known and (verb is None or verb in _GEMINI_VERBS)
        profile = row if row in PROFILES else vendor or SPECS[wire].default_profile
        action = parts.get("action") or (verb if verb == "countTokens" else "") or ""
        model = unquote(parts.get("model") or "")
        return Route(wire, profile, model, _GEMINI_VERBS.get(verb or ""), fields, is_served, action)
    # Nothing is served there: answer in the form of the wire that the path resembles.
    wire = next((wire for wire, spec in SPECS.items() if spec.path_hint and spec.path_hint in path), OPENAI_CHAT)
    if row in PROFILES:
        wire = PROFILES[row].wire
    return Route(wire, row if row in PROFILES else SPECS[wire].default_profile, query=fields, is_served=False)
