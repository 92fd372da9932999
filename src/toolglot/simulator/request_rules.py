"""What a provider refuses, and in which words. `check` reads a request as its provider would, or raises Refusal.

Order: the path, the key, the JSON, the fields and their types, what only the wire asks (`wires`), the history (`history`), then
tools and options by the profile's own data (`offers`). Words are close to the providers' own: clients look for some of them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolglot.errors import MalformedRequest
from toolglot.jsontext import json_type_name, loads
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.request import Request
from toolglot.simulator.history_rules import HISTORY_CHECKS, camel_keys
from toolglot.simulator.refusals import Refusal
from toolglot.simulator.request_fields import BETA_FIELDS, REQUEST_FIELDS, REQUIRED_FIELDS, STRICT_VENDORS, VENDOR_FIELDS
from toolglot.simulator.routes import Route
from toolglot.simulator.tool_rules import check_options, check_tools
from toolglot.simulator.wire_rules import OPENAI_CHAT_ROWS, WIRE_RULES
from toolglot.wire import spec
from toolglot.wire.codec import decode_request
from toolglot.wire.json_values import Doc, as_dict, as_text

__all__ = ["AcceptedRequest", "check_request"]

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
# how a key may be sent: the profile's own way, and what its endpoint takes beside it
_KEY_HEADERS = {
    "bearer": ("authorization",),
    "api-key": ("api-key", "authorization"),
    "x-api-key": ("x-api-key", "authorization"),
    "x-goog-api-key": ("x-goog-api-key", "authorization"),
}
_MISSING_KEY_MESSAGES = {
    spec.OPENAI_CHAT: "You didn't provide an API key. You need to provide it in an Authorization header using Bearer auth.",
    spec.ANTHROPIC_MESSAGES: "x-api-key header is required",
    spec.GEMINI: "Method doesn't allow unregistered callers. Please use API Key or other form of API consumer identity.",
}


class AcceptedRequest(msgspec.Struct):
    """A request that its provider takes."""

    profile: Profile
    request: Request
    headers: dict[str, str]
    size: int
    stream: bool
    uses_sse: bool = True
    """Gemini without `alt=sse` streams one JSON array."""
    reports_usage: bool = True
    """Whether a stream ends with counts."""


def check_request(
    method: str, route: Route, headers: dict[str, str], body: bytes, models: frozenset[str] | None = None
) -> AcceptedRequest:
    """The request, read. Raises Refusal."""
    if not route.is_served:
        raise Refusal("Invalid URL: nothing is served at this path.", "missing", code="unknown_url")
    if method != "POST":
        raise Refusal(f"Not allowed to {method} on this path. (HINT: use POST)", "method")
    profile = resolve_profile(route.profile, route.model)
    _check_key(profile, route, headers)
    most = profile.limits.request_bytes
    if most is not None and len(body) > most:
        raise Refusal("Request exceeds the maximum size", "large")
    doc = _parse_body(body)
    model = route.model or as_text(doc.get("model"))
    profile = resolve_profile(route.profile, model)
    if profile.wire == spec.GEMINI:
        doc = camel_keys(doc)
    _check_fields(doc, profile, headers, has_model=bool(route.model))
    if models is not None and model not in models:
        raise Refusal(f"The model `{model}` does not exist or you do not have access to it.", "missing")
    if profile.wire in WIRE_RULES:  # a wire may come without rules of its own
        WIRE_RULES[profile.wire](doc, profile, headers)
    if profile.wire in HISTORY_CHECKS:
        HISTORY_CHECKS[profile.wire](doc, profile)
    try:
        request = decode_request(profile.wire, doc, profile=profile.id, model=model)
    except MalformedRequest as e:
        raise Refusal(str(e)) from None
    check_tools(request, doc, profile)
    check_options(request.options, profile)
    stream = request.stream if route.stream is None else route.stream
    usage = profile.id not in OPENAI_CHAT_ROWS or bool(as_dict(doc.get("stream_options")).get("include_usage"))
    streamed = stream if stream is not None else spec.SPECS[profile.wire].streams_by_default
    sse = profile.wire != spec.GEMINI or route.query.get("alt") == "sse"
    return AcceptedRequest(profile, request, headers, len(body), streamed, sse, usage)


def _check_key(profile: Profile, route: Route, headers: Mapping[str, str]) -> None:
    if profile.auth not in _KEY_HEADERS:  # a key may be sent, and need not
        return
    in_query = profile.wire == spec.GEMINI and bool(route.query.get("key"))
    if not in_query and not any(_is_key(name, headers.get(name, "")) for name in _KEY_HEADERS[profile.auth]):
        raise Refusal(_MISSING_KEY_MESSAGES.get(profile.wire, _MISSING_KEY_MESSAGES[spec.OPENAI_CHAT]), "no_key")
    if "{version}" in profile.path and not route.query.get("api-version"):
        raise Refusal("Resource not found: api-version query parameter is required", "missing", code="404")


def _is_key(name: str, value: str) -> bool:
    scheme, _, key = value.strip().partition(" ")
    return scheme.lower() == "bearer" and bool(key.strip()) if name == "authorization" else bool(scheme)


def _parse_body(body: bytes) -> Doc:
    try:
        doc: Any = loads(body)
    except ValueError:
        raise Refusal("We could not parse the JSON body of your request: it is not valid JSON.") from None
    if not isinstance(doc, dict):
        raise Refusal(f"The request body must be a JSON object, not {json_type_name(doc)}.")
    return as_dict(doc)


# ---- fields


def _check_fields(doc: Doc, profile: Profile, headers: Mapping[str, str], *, has_model: bool) -> None:
    known, vendor = REQUEST_FIELDS.get(profile.wire, {}), VENDOR_FIELDS.get(profile.id, set())
    if profile.id == "copilot" and "max_tokens" in doc:
        raise Refusal("Bad Request", is_plain_text=True)
    if profile.wire == spec.ANTHROPIC_MESSAGES:
        if not headers.get("anthropic-version"):
            raise Refusal("anthropic-version: header is required")
        if headers.get("anthropic-beta"):
            vendor = vendor | BETA_FIELDS
    allowed = {*known, *vendor} - {name[1:] for name in vendor if name.startswith("-")}
    for name, value in doc.items():
        if name not in allowed and profile.id in STRICT_VENDORS:
            raise _unknown_field(name, profile)
        types = [type for word in known.get(name, "").split(" or ") for type in _JSON_TYPES.get(word, ())]
        wrong = isinstance(value, bool) and bool not in types
        if types and value is not None and (wrong or not isinstance(value, tuple(types))):
            raise _wrong_type(name, known[name], value, profile)
    for name in REQUIRED_FIELDS.get(profile.wire, ()):
        named = name == "model" and (has_model or doc.get("prompt"))  # a stored prompt names its model
        if not doc.get(name) and doc.get(name) != 0 and not named:
            raise _missing_field(name, profile)


def _unknown_field(name: str, profile: Profile) -> Refusal:
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return Refusal(f"{name}: Extra inputs are not permitted")
        case spec.GEMINI:
            return Refusal(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
        case spec.OPENAI_RESPONSES if name == "messages":
            return Refusal("Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'.")
        case spec.OPENAI_RESPONSES:
            return Refusal(f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
        case _ if profile.id == "mistral":
            return Refusal("Extra inputs are not permitted", unknown_field=name)
        case _ if profile.id == "groq":
            return Refusal(f"property '{name}' is unsupported")
        case _:
            return Refusal(f"Unrecognized request argument supplied: {name}")


def _wrong_type(name: str, expected: str, value: Any, profile: Profile) -> Refusal:
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return Refusal(f"{name}: Input should be a valid {expected}")
        case spec.GEMINI:
            return Refusal(f"Invalid value at '{name}': expected {expected}, got {json_type_name(value)}")
        case spec.OLLAMA_CHAT:
            got = json_type_name(value).split()[-1]
            return Refusal(f"json: cannot unmarshal {got} into Go struct field ChatRequest.{name} of type {expected}")
        case _:
            text = f"Invalid type for '{name}': expected {expected}, but got {json_type_name(value)} instead."
            return Refusal(text, code="invalid_type", param=name)


def _missing_field(name: str, profile: Profile) -> Refusal:
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return Refusal(f"{name}: Field required" if name != "messages" else "messages: at least one message is required")
        case spec.GEMINI:
            return Refusal(f"* GenerateContentRequest.{name}: {name} is not specified")
        case spec.OLLAMA_CHAT:
            return Refusal(f"{name} is required")
        case _ if name == "model":
            return Refusal("you must provide a model parameter")
        case _:
            return Refusal(f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name)
