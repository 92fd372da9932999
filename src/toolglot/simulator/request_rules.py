"""Reads a request as its provider would, or refuses it in words close to the provider's own: clients look for
some of them.

Order: path, method, key, size, JSON, fields and their types, the wire's own rules, history, tools, options.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from toolglot.common.jsontext import json_type_name, loads
from toolglot.errors import MalformedRequest
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.simulator.routes import Route
from toolglot.simulator.wires.base import Refusal, WireRules, load_rules
from toolglot.simulator.wires.openai_chat import OPENAI_ROWS
from toolglot.values.request import Options, Request, ToolChoice, effective_tools
from toolglot.wire import spec
from toolglot.wire.codec import decode_request
from toolglot.wire.json_values import Doc, as_dict, as_text

__all__ = ["AcceptedRequest", "check_request"]

# Headers that may carry the key, by the profile's kind of authentication. Not listed: no key is needed.
_KEY_HEADERS = {
    "bearer": ("authorization",),
    "api-key": ("api-key", "authorization"),
    "x-api-key": ("x-api-key", "authorization"),
    "x-goog-api-key": ("x-goog-api-key", "authorization"),
}
# OpenAI's models that can be told to call a tool of `additional_tools`; older ones look for it in `tools`.
_LATER_CHOICE = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9])")
_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")


class AcceptedRequest(msgspec.Struct):
    """A request that its provider accepts."""

    profile: Profile
    request: Request
    headers: dict[str, str]
    body: Doc
    stream: bool
    uses_sse: bool = True
    """Gemini without `alt=sse` streams one JSON array."""
    reports_usage: bool = True
    """Whether a stream ends with token counts."""


def check_request(method: str, route: Route, headers: dict[str, str], body: bytes) -> AcceptedRequest:
    """Return the decoded request. Raises Refusal."""
    if not route.is_served:
        raise Refusal("Invalid URL: nothing is served at this path.", "missing", code="unknown_url")
    if method != "POST":
        raise Refusal(f"Not allowed to {method} on this path. (HINT: use POST)", "method")
    profile = resolve_profile(route.profile, route.model)
    _check_key(profile, route, headers)
    limit = profile.limits.request_bytes
    if limit is not None and len(body) > limit:
        raise Refusal("Request exceeds the maximum size", "large")
    try:
        parsed: Any = loads(body)
    except ValueError:
        raise Refusal("We could not parse the JSON body of your request: it is not valid JSON.") from None
    if not isinstance(parsed, dict):
        raise Refusal(f"The request body must be a JSON object, not {json_type_name(parsed)}.")
    doc = as_dict(parsed)
    if route.action == "/count_tokens":  # without a limit for an answer that is not given
        doc = {"max_tokens": 1_000_000_000, **doc}
    if route.action == "countTokens":
        doc = as_dict(doc.get("generateContentRequest")) or doc
    model = route.model or as_text(doc.get("model"))
    profile = resolve_profile(route.profile, model)
    rules = load_rules(profile.wire)(doc, profile, headers)
    rules.check_fields(has_model=bool(route.model))
    rules.check_body()
    rules.check_history()
    try:
        request = decode_request(profile.wire, rules.doc, profile=profile.id, model=model)
    except MalformedRequest as e:
        raise Refusal(str(e)) from None
    _check_tools(request, rules)
    _check_options(request.options, rules)
    stream = request.stream if route.stream is None else route.stream
    if stream is None:
        stream = spec.SPECS[profile.wire].streams_by_default
    uses_sse = profile.wire != spec.GEMINI or route.query.get("alt") == "sse"
    reports_usage = True
    if profile.id in OPENAI_ROWS:
        reports_usage = bool(as_dict(rules.doc.get("stream_options")).get("include_usage"))
    return AcceptedRequest(
        profile, request, headers, rules.doc, stream, uses_sse=uses_sse, reports_usage=reports_usage
    )


def _check_key(profile: Profile, route: Route, headers: Mapping[str, str]) -> None:
    if profile.auth in _KEY_HEADERS and not _has_key(profile, route, headers):
        raise Refusal(load_rules(profile.wire).missing_key, "no_key")
    if "{version}" in profile.path and not route.query.get("api-version"):
        raise Refusal("Resource not found: api-version query parameter is required", "missing", code="404")


def _has_key(profile: Profile, route: Route, headers: Mapping[str, str]) -> bool:
    """Whether a request has a key, whatever it is: in a header that its provider reads, or in the query for
    Gemini.
    """
    if profile.wire == spec.GEMINI and route.query.get("key"):
        return True
    values = {name: headers.get(name, "").strip() for name in _KEY_HEADERS[profile.auth]}
    bearer = values.pop("authorization", "")
    return re.fullmatch(r"(?i)bearer\s+\S.*", bearer) is not None or any(values.values())


def _check_tools(request: Request, rules: WireRules) -> None:
    """Check names, number and schemas of the tools, and the choice among them."""
    limits = rules.profile.limits
    count = sum(not tool.deferred for tool in request.tools)  # there may be any number of others
    if limits.tools and count > limits.tools:
        raise rules.refuse("long array", "tools", param="tools", limit=limits.tools, length=count)
    for tool in request.tools:
        rules.check_native_type(str((tool.opaque or {}).get("type", "")))
    refuses_duplicates = "duplicate tool" in rules.wordings
    seen: set[str] = set()
    own_tools = [tool for tool in request.tools if tool.kind != "hosted"]
    for index, tool in enumerate(own_tools):
        if not re.fullmatch(limits.name, tool.name):
            raise rules.refuse("bad tool name", str(index))
        if refuses_duplicates and tool.name in seen:
            raise rules.refuse("duplicate tool", tool.name)
        seen.add(tool.name)
        rules.check_schema(index, tool)
    _check_choice(request, rules)


def _check_choice(request: Request, rules: WireRules) -> None:
    choice = request.tool_choice
    profile = rules.profile
    if choice is None:
        return
    names = {tool.qualified_name for tool in request.tools}
    if profile.wire != spec.OPENAI_RESPONSES or _LATER_CHOICE.search(profile.model):
        names |= {tool.qualified_name for tool in effective_tools(request).declared}
    for name in choice.names:
        if name not in names:
            raise rules.refuse("unknown choice", name, param="tool_choice")
    kind = _classify_choice(choice)
    if kind is None or kind in profile.features.choices:
        return
    if profile.reasoning_echo == "required":  # DeepSeek refuses it only while thinking is on
        if rules.requires_reasoning:
            raise Refusal("Thinking mode does not support this tool_choice")
        return
    model = profile.model or profile.title
    raise Refusal(f"tool_choice: this choice is not supported by {model}; use 'auto'", param="tool_choice")


def _classify_choice(choice: ToolChoice) -> str | None:
    """Return which feature of a provider a choice needs; None: every provider has it."""
    is_required = choice.mode == "required"
    if choice.names:
        return "named" if is_required and len(choice.names) == 1 else "subset"
    return "required" if is_required else None


def _check_options(options: Options, rules: WireRules) -> None:
    """Check sampling parameters and stop sequences."""
    profile = rules.profile
    values = {name: getattr(options, name) for name in _SAMPLING}
    values = {name: value for name, value in values.items() if value is not None}
    for name, value in values.items():
        if name not in profile.options:
            raise Refusal(f"Argument not supported: {name}", param=name)
        if profile.sampling == "none":
            rules.check_option(name, value)
    if profile.sampling == "one" and {"temperature", "top_p"} <= values.keys():
        raise Refusal(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )
    temperature = values.get("temperature", 0)
    if not 0 <= temperature <= profile.max_temperature:
        raise rules.refuse("bad temperature", param="temperature", value=temperature)
    if options.stop and "stop" not in profile.options:
        raise Refusal("Argument not supported: stop", param="stop")
    limit = profile.limits.stops
    if limit and len(options.stop) > limit:
        raise rules.refuse("long array", "stop", param="stop", limit=limit, length=len(options.stop))
