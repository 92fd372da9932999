"""Gemini generateContent: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

from collections.abc import Iterator
from typing import Any, cast

from toolglot.providers.profile import Profile
from toolglot.schema.openapi import from_openapi
from toolglot.values.messages import Block, Foreign, Media, Message, Origin, ResultBlock, Text, ToolResult
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.gemini.reply_decode import GeminiReplyDecoder, decode_media
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_list,
    as_text,
    iter_dicts,
    snake_to_camel,
    to_text,
    unknown_fields,
)
from toolglot.wire.request_decoding import OpenCalls, decode_options, define_tool, wrap_extras
from toolglot.wire.spec import GEMINI, SPECS
from toolglot.wire.tracker import ToolCallTracker

_NEUTRAL_FIELDS = ("model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")


def decode(body: Doc, profile: Profile) -> Request:
    """Decode a request body."""
    body = _camel_keys(body)
    # The URL names the model, some clients also the body.
    model = profile.model or as_text(body.get("model")).removeprefix("models/")
    origin = Origin(GEMINI, profile.id, model)
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    config = _camel_keys(as_dict(body.get("toolConfig")))
    choice, calling = decode_choice(_camel_keys(as_dict(config.get("functionCallingConfig"))))
    if extra := {**(unknown_fields(config, ("functionCallingConfig",)) or {}), **calling}:
        extras["toolConfig"] = extra
    options, output, generation = decode_generation(_camel_keys(as_dict(body.get("generationConfig"))))
    if generation:
        extras["generationConfig"] = generation
    return Request(
        model=model,
        messages=[
            *decode_system(body.get("systemInstruction"), origin),
            *decode_contents(body.get("contents"), origin),
        ],
        tools=tuple(decode_tools(body.get("tools"))),
        tool_choice=choice,
        options=options,
        output=output,
        extras=wrap_extras(extras, GEMINI),
    )


def _camel_keys(doc: Doc) -> Doc:
    """Convert keys to camelCase: Google's JSON accepts snake_case, too."""
    return {snake_to_camel(key): value for key, value in doc.items()}


def _iter_camel(value: Any) -> Iterator[Doc]:
    """Iterate over a repeated field, which may also be one bare value."""
    items = as_list(value) if isinstance(value, list) else [value]
    return map(_camel_keys, iter_dicts(items))


def decode_system(system: Any, origin: Origin) -> Iterator[Message]:
    """Decode systemInstruction, which may be a bare string."""
    parts = [{"text": system}] if isinstance(system, str) else _iter_camel(as_dict(system).get("parts"))
    if blocks := tuple(map(decode_part, parts)):
        yield Message("system", blocks, origin)


def decode_contents(contents: Any, origin: Origin) -> Iterator[Message]:
    """Decode the history. Results find their calls by id, else by name."""
    open_calls = OpenCalls()
    for number, content in enumerate(_iter_camel(contents)):
        parts = list(_iter_camel(content.get("parts")))
        if content.get("role") == "model":
            message = decode_model(parts, origin, number)
            open_calls.add(message)
            yield message
            continue
        results = tuple(
            decode_result(_camel_keys(p["functionResponse"]), open_calls)
            for p in parts
            if p.get("functionResponse")
        )
        if results:
            yield Message("tool", results, origin)
        if blocks := tuple(decode_part(part) for part in parts if not part.get("functionResponse")):
            message = Message("user", blocks, origin)
            open_calls.add(message)
            yield message


def decode_model(parts: list[Doc], origin: Origin, number: int) -> Message:
    """Decode a model's content of the history, as a reply is decoded."""
    tracker = ToolCallTracker(origin)
    # a seed for ids: calls of different turns must not get the same one
    tracker.begin(f"contents[{number}]", origin.model)
    decoder = GeminiReplyDecoder(tracker)
    for part in parts:
        if "functionCall" in part:
            part = {**part, "functionCall": _camel_keys(as_dict(part["functionCall"]))}
            if part.get("thought") is False:
                del part["thought"]  # clients write defaults out
        decoder.read_part(part)
    return decoder.to_message()


def decode_part(part: Doc) -> Block:
    """Decode one part of a user content."""
    if isinstance(part.get("text"), str):
        return Text(part["text"], unknown_fields(part, ("text", "thought")))
    if media := part.get("inlineData") or part.get("fileData"):
        return decode_media(
            _camel_keys(as_dict(media)), unknown_fields(part, ("inlineData", "fileData", "thought"))
        )
    return Foreign(GEMINI, part)


def decode_result(answer: Doc, open_calls: OpenCalls) -> ToolResult:
    """Decode a functionResponse."""
    id = as_text(answer.get("id"))
    name = as_text(answer.get("name"))
    call = open_calls.take(id, name) or open_calls.take("", name)
    call_id = call.id if call else id or name
    response = answer.get("response")
    is_error = as_dict(response).keys() == {"error"}
    opaque = unknown_fields(answer, ("name", "response"))
    content: list[ResultBlock] = [Text(_response_text(response))]
    for part in _iter_camel(answer.get("parts")):
        block = decode_part(part)
        if isinstance(block, Media | Foreign):
            content.append(block)
    return ToolResult(call_id, tuple(content), name, response, is_error=is_error, opaque=opaque)


def _response_text(response: Any) -> str:
    """Return the text of a response: the value of a lone `output`, `error` or `result`, else all of it."""
    if isinstance(response, dict) and len(cast(Doc, response)) == 1:
        key, value = next(iter(cast(Doc, response).items()))
        if key in ("output", "error", "result"):
            response = value
    return "" if response == {} else to_text(response)


def decode_tools(tools: Any) -> Iterator[ToolDefinition]:
    """Decode functions and hosted tools."""
    for tool in _iter_camel(tools):
        for declared in _iter_camel(tool.get("functionDeclarations") or []):
            schema = declared.get("parametersJsonSchema")
            if schema is None and declared.get("parameters") is not None:  # the older, OpenAPI form
                schema = from_openapi(as_dict(declared["parameters"]))
            opaque = unknown_fields(declared, ("name", "description", "parameters", "parametersJsonSchema"))
            yield define_tool({**declared, "parameters": schema}, GEMINI, opaque)
        for key, value in tool.items():
            if key != "functionDeclarations":
                yield ToolDefinition(key, kind="hosted", wire=GEMINI, opaque={key: value})


def decode_choice(calling: Doc) -> tuple[ToolChoice | None, Doc]:
    """Decode the choice. Also return what of functionCallingConfig it does not express."""
    names = tuple(as_text(name) for name in as_list(calling.get("allowedFunctionNames")))
    match as_text(calling.get("mode")).upper():
        case "ANY":
            choice = ToolChoice("required", names)
        case "NONE":
            choice = ToolChoice("none")
        case "AUTO":
            choice = ToolChoice("auto")
        case "VALIDATED" if names:  # AUTO limited to some tools
            choice = ToolChoice("auto", names)
        case _:
            choice = None
    known = ("mode", "allowedFunctionNames") if choice else ()
    extra = unknown_fields(calling, known)
    if not extra:
        return choice, {}
    return choice, {"functionCallingConfig": extra}


def decode_generation(config: Doc) -> tuple[Options, Output | None, Doc]:
    """Decode generationConfig. Also return what has no neutral form."""
    neutral = decode_options(config, GEMINI)
    left = unknown_fields(config, SPECS[GEMINI].options.values()) or {}
    thinking = _camel_keys(as_dict(left.pop("thinkingConfig", None)))
    neutral["thinking_budget"] = thinking.pop("thinkingBudget", None)
    if as_text(thinking.get("thinkingLevel")).lower() in ("minimal", "low", "medium", "high"):
        neutral["effort"] = thinking.pop("thinkingLevel").lower()
    if thinking:
        left["thinkingConfig"] = thinking
    output = None
    if left.get("responseMimeType") == "application/json":
        del left["responseMimeType"]
        schema = left.pop("responseJsonSchema", None)
        if (openapi := left.pop("responseSchema", None)) and schema is None:
            schema = from_openapi(as_dict(openapi))
        output = Output(schema)
    return Options(**neutral), output, left
