"""Which wire, which vendor and which model a path means.

Law: a first segment `@ID` names the profile whose rules count; without it the path decides (Azure, Vertex), else the wire.
"""

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.wire.spec import OPENAI_CHAT, SPECS

__all__ = ["Route", "find_route"]

_ROUTES = [(re.compile(pattern), wire, profile) for wire, spec in SPECS.items() for pattern, profile in spec.paths]
_GEMINI_VERBS = {"generateContent": False, "streamGenerateContent": True}


class Route(msgspec.Struct, frozen=True):
    """Where a request goes. `found`: whether anything is served there."""

    wire: str
    profile: str
    model: str = ""
    """Where the path names it."""
    stream: bool | None = None
    """Where the path says it (Gemini); else the body does."""
    query: dict[str, str] = {}
    is_served: bool = True


def _sibling_row(row_id: str, wire: str) -> str:
    """The row of the same provider for another of its wires: a model that takes tools only there is asked there."""
    for rows in SURFACES.values():
        found = [row for _, row in rows]
        if row_id in found:
            return next((row for row in found if PROFILES[row].wire == wire), row_id)
    return row_id


def find_route(path: str) -> Route:
    """The route of a path with its query."""
    place, _, query = path.partition("?")
    fields = dict(parse_qsl(query, keep_blank_values=True))
    named = ""
    if place.startswith("/@"):
        named, slash, rest = place[2:].partition("/")
        named, place = ALIASES.get(named, named), slash + rest
    for pattern, wire, vendor in _ROUTES:
        if not (match := pattern.fullmatch(place)):
            continue
        if named and named not in PROFILES:  # `openai` and `azure` have a profile for each of their wires
            named = f"{named}-{wire.removeprefix('openai-')}"
        named = _sibling_row(named, wire)
        parts = match.groupdict()
        verb = parts.get("verb")
        served = (not named or (named in PROFILES and PROFILES[named].wire == wire)) and (verb is None or verb in _GEMINI_VERBS)
        profile = named if named in PROFILES else vendor or SPECS[wire].default_profile
        return Route(wire, profile, unquote(parts.get("model") or ""), _GEMINI_VERBS.get(verb or ""), fields, served)
    wire = next((wire for wire, spec in SPECS.items() if spec.path_hint and spec.path_hint in place), OPENAI_CHAT)
    if named in PROFILES:
        wire = PROFILES[named].wire
    return Route(wire, named if named in PROFILES else SPECS[wire].default_profile, query=fields, is_served=False)
