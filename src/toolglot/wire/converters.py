"""Converts tools alone and results alone, for programs that send requests themselves."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec.structs import replace

from toolglot.errors import UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.losses import Repair
from toolglot.values.messages import Message, ToolCall, ToolResult, tool_results
from toolglot.values.request import Request, ToolChoice, ToolDefinition, parse_tool_choice
from toolglot.wire import spec
from toolglot.wire.codec import decode_request, encode_messages, encode_request, load_request_encoder
from toolglot.wire.history import filter_visible
from toolglot.wire.json_values import Doc
from toolglot.wire.pairing import match_results
from toolglot.wire.writer import EncodedRequest, Encoding, Writer

__all__ = ["EncodedResults", "decode_tools", "encode_results", "encode_tools"]


class EncodedResults(Encoding, frozen=True, kw_only=True):
    """Tool results as the messages (or items, or contents) of a wire."""

    messages: list[Doc]
    """The messages, in the format of the wire."""


def encode_tools(
    tools: Iterable[ToolDefinition],
    target: Profile | str,
    *,
    tool_choice: ToolChoice | str | None = None,
    parallel: bool | None = None,
) -> EncodedRequest:
    """Encode tools for a profile or a provider's name (`gemini`, `anthropic:claude-opus-5`).

    `body` holds the fields of a request that they make: `tools`, `tool_choice` …
    """
    profile = _find_profile(target)
    request = Request(profile.model, (), tuple(tools), parse_tool_choice(tool_choice), parallel)
    encoded = encode_request(request, profile)
    # What a request has without any tools is not theirs.
    bare = encode_request(replace(request, tools=(), tool_choice=None, parallel=None), profile)
    body = {key: value for key, value in encoded.body.items() if bare.body.get(key) != value}
    body.pop(spec.SPECS[profile.wire].history_field, None)
    losses = tuple(loss for loss in encoded.losses if loss not in bare.losses)
    repairs = tuple(repair for repair in encoded.repairs if repair not in bare.repairs)
    return replace(encoded, losses=losses, repairs=repairs, body=body)


def encode_results(
    results: Iterable[ToolResult], target: Profile | str, *, calls: Iterable[ToolCall] = ()
) -> EncodedResults:
    """Encode the results of one turn for a profile or a provider's name, as the messages that follow the
    calls.

    `calls`: the calls that they answer. Without them, a call is assumed to have the result's id and name.
    """
    profile = _find_profile(target)
    encoder = load_request_encoder(profile.wire)
    writer = Writer(profile)
    answered, results = _pair(list(calls), list(results), writer)
    writer.calls |= {call.id: call for call in answered}
    writer.enter("calls")
    # a result's id and name follow its call
    encoder.encode_message(Message("assistant", tuple(answered)), writer)
    writer.losses.clear()
    messages: list[Any] = []
    if results:
        visible = filter_visible([tool_results(*results)], writer, 0)
        messages = encode_messages(visible, encoder, writer, 0)
    losses = tuple(replace(loss, where="results") for loss in writer.losses)
    repairs: list[Repair] = []
    for repair in writer.repairs:
        if repair.where != "calls":
            repair = replace(repair, where="results")
        repairs.append(repair)
    return EncodedResults(losses, tuple(repairs), writer.names, messages=messages)


def _pair(
    calls: list[ToolCall], results: list[ToolResult], writer: Writer
) -> tuple[list[ToolCall], list[ToolResult]]:
    """Return the calls that have results, and the results, each with an id of its own in here; on the wire
    ids may repeat.
    """
    known = {call.id for call in calls}
    calls = list(calls)
    for result in results:
        if result.name and result.call_id not in known:
            calls.append(ToolCall(result.call_id, result.name, {}))
    owners = match_results([Message("assistant", tuple(calls)), Message("tool", tuple(results))])
    answered: dict[str, ToolCall] = {}
    paired: list[ToolResult] = []
    for number, result in enumerate(results):
        position = owners.get((1, number))
        if position is None:
            paired.append(result)
            continue
        call = calls[position[1]]
        id = call.id
        if answered.get(id, call) is not call:  # another call has it
            id = f"{call.id}\0{position[1]}"
            writer.share_call_id(id, call.id)
            call = replace(call, id=id)
        answered[id] = call
        paired.append(replace(result, call_id=id))
    return list(answered.values()), paired


def _find_profile(target: Profile | str) -> Profile:
    if isinstance(target, Profile):
        return target
    provider, _, model = target.partition(":")
    return resolve_profile(provider, model)


def decode_tools(value: Any) -> list[ToolDefinition]:
    """Decode a provider's or MCP's tools: one, a list of them, or a whole request. Raises UsageError."""
    return list(_decode_tools(value))


def _decode_tools(value: Any) -> Iterator[ToolDefinition]:
    match value:
        case {"tools": tools, **others} if "type" not in others:
            yield from _decode_tools(tools)
        case dict():
            yield from _decode_tool(cast(dict[str, Any], value))
        case list():
            for item in cast(list[Any], value):
                yield from _decode_tools(item)
        case _:
            raise UsageError(f"not a tool: {value!r:.80}")


def _decode_tool(fields: dict[str, Any]) -> Iterable[ToolDefinition]:
    """Decode one JSON tool; its keys tell which API format it is written in."""
    match fields:
        case {"inputSchema": schema}:  # MCP
            return [ToolDefinition(str(fields.get("name", "")), str(fields.get("description") or ""), schema)]
        case {"functionDeclarations": _} | {"function_declarations": _}:
            wire = spec.GEMINI
        case {"function": _} | {"custom": _}:
            wire = spec.OPENAI_CHAT
        case {"input_schema": _}:
            wire = spec.ANTHROPIC_MESSAGES
        case {"name": _} | {"type": _}:
            wire = spec.OPENAI_RESPONSES
        case _:
            keys = ", ".join(map(repr, fields)) or "none"
            raise UsageError(f"not a tool: an object without a name (its keys: {keys})")
    return decode_request(wire, {"tools": [fields]}).tools
