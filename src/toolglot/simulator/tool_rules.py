"""Tools, the choice among them and options, judged by the data of the profile."""

import re

from toolglot.providers.profile import Profile
from toolglot.request import Options, Request, ToolDefinition
from toolglot.simulator.history_rules import requires_reasoning
from toolglot.simulator.refusals import Refusal
from toolglot.wire import spec
from toolglot.wire.json_values import Doc, as_dict, as_list

__all__ = ["check_options", "check_tools"]

_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
_CLAUDE_TOOL_TYPES = ("text_editor_20250728", "bash_20250124", "memory_20250818")
_ROOT_KEYWORDS = ("oneOf", "anyOf", "allOf", "enum", "not")


def check_tools(request: Request, doc: Doc, profile: Profile) -> None:
    """Names, number and schemas of tools, and what is said about choosing them."""
    most, wire = profile.limits.tools, profile.wire
    if most and len(request.tools) > most:
        text = f"Invalid 'tools': array too long. Expected an array with maximum length {most}, but got an array with length "
        raise Refusal(f"{text}{len(request.tools)} instead.", code="array_above_max_length", param="tools")
    for tool in request.tools:
        _check_native_type(str((tool.opaque or {}).get("type", "")), profile)
    seen: set[str] = set()
    for at, tool in enumerate(tool for tool in request.tools if tool.kind != "hosted"):
        if not re.fullmatch(profile.limits.name, tool.name):
            raise _bad_tool_name(at, profile)
        if tool.name in seen and wire in (spec.ANTHROPIC_MESSAGES, spec.GEMINI):
            raise Refusal(
                "tools: Tool names must be unique."
                if wire != spec.GEMINI
                else f"Duplicate function declaration found: {tool.name}"
            )
        seen.add(tool.name)
        _check_schema(at, tool, profile)
    _check_choice(request, doc, profile)


def _check_native_type(kind: str, profile: Profile) -> None:
    """Tools that models know by themselves: older ones do not."""
    known = profile.features.typed
    if kind in ("shell", "apply_patch") and profile.wire == spec.OPENAI_RESPONSES and kind not in known:
        raise Refusal(f"Hosted tool '{kind}' is not supported with {profile.model}.", param="tools")
    if kind in _CLAUDE_TOOL_TYPES and profile.wire == spec.ANTHROPIC_MESSAGES and kind not in known:
        meant = f" Did you mean one of {', '.join(sorted(known))}?" if known else ""
        raise Refusal(f"'{profile.model}' does not support tool types: {kind}.{meant}")


def _bad_tool_name(index: int, profile: Profile) -> Refusal:
    pattern = profile.limits.name
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return Refusal(f"tools.{index}.custom.name: String should match pattern '^{pattern}$'")
        case spec.GEMINI:
            return Refusal(
                f"tools[0].function_declarations[{index}].name: [FIELD_INVALID] Invalid function name. Must start with a letter "  # noqa: E501
                "or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), "
                "with a maximum length of 64."
            )
        case wire:
            place = f"tools[{index}].function.name" if wire == spec.OPENAI_CHAT else f"tools[{index}].name"
            text = (
                f"Invalid '{place}': string does not match pattern. Expected a string that matches the pattern '^{pattern}$'."
            )
            return Refusal(text, code="invalid_value", param=place)


def _check_schema(index: int, tool: ToolDefinition, profile: Profile) -> None:
    schema, wire = tool.parameters, profile.wire
    if schema is None and wire == spec.ANTHROPIC_MESSAGES and tool.kind == "function":
        raise Refusal(f"tools.{index}.custom.input_schema: Field required")
    if schema is None or wire == spec.OLLAMA_CHAT:
        return
    bad = next((word for word in _ROOT_KEYWORDS if word in schema), None)
    typed = schema.get("type") == "object"
    if wire == spec.ANTHROPIC_MESSAGES:
        if not typed:
            raise Refusal(f"tools.{index}.custom.input_schema.type: Field required")
        if bad in ("oneOf", "anyOf", "allOf"):
            raise Refusal(
                f"tools.{index}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
        for key in as_dict(schema.get("properties")):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                raise Refusal(
                    f"tools.{index}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"  # noqa: E501
                )
    elif wire == spec.GEMINI:
        if not typed:
            raise Refusal(f"* GenerateContentRequest.tools[0].function_declarations[{index}].parameters.type: must be OBJECT")
    elif (bad or not typed) and profile.dialect == "OPENAI":
        raise Refusal(
            f"Invalid schema for function '{tool.name}': schema must have type 'object' and not have "
            "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
            code="invalid_function_parameters",
            param=f"tools[{index}].function.parameters",
        )
    elif profile.dialect == "OPENAI":
        _check_subschemas(tool, schema, ())


def _check_subschemas(tool: ToolDefinition, schema: Doc, path: tuple[str, ...]) -> None:
    """OpenAI: arrays say what they hold; a strict object is closed, and requires everything."""
    properties = as_dict(schema.get("properties"))
    head = f"Invalid schema for function '{tool.name}': In context={path}, "
    if schema.get("type") == "array" and "items" not in schema:
        raise Refusal(f"{head}array schema missing items.", code="invalid_function_parameters")
    if tool.strict and (word := next((word for word in ("allOf", "oneOf", "not") if word in schema), None)):
        raise Refusal(f"{head}'{word}' is not permitted.", code="invalid_function_parameters")
    if tool.strict and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise Refusal(
                f"{head}'additionalProperties' is required to be supplied and to be false.", code="invalid_function_parameters"
            )
        if missing := [name for name in properties if name not in as_list(schema.get("required"))]:
            raise Refusal(
                f"{head}'required' is required to be supplied and to be an array including every key in properties. "
                f"Missing '{missing[0]}'.",
                code="invalid_function_parameters",
            )
    parts = [(("properties", name), part) for name, part in properties.items()]
    parts += [(("$defs", name), part) for name, part in as_dict(schema.get("$defs")).items()]
    parts += [(("anyOf", str(at)), part) for at, part in enumerate(as_list(schema.get("anyOf")))]
    parts += [(("items",), schema["items"])] if "items" in schema else []
    for step, part in parts:
        _check_subschemas(tool, as_dict(part), (*path, *step))


def _check_choice(request: Request, doc: Doc, profile: Profile) -> None:
    choice, choices = request.tool_choice, profile.features.choices
    if choice is None:
        return
    names = {tool.name for tool in request.tools}
    if unknown := next((name for name in choice.names if name not in names), None):
        words = (
            "Tool '{}' not found in provided tools"
            if profile.wire == spec.ANTHROPIC_MESSAGES
            else "Tool choice '{}' not found in 'tools' parameter."
        )
        raise Refusal(words.format(unknown), param="tool_choice")
    kinds = {"required"} if choice.mode == "required" else set[str]()
    if choice.names:
        kinds = {"named" if len(choice.names) == 1 and choice.mode == "required" else "subset"}
    if profile.reasoning_echo == "required":
        if kinds - choices and requires_reasoning(doc, profile):
            raise Refusal("Thinking mode does not support this tool_choice")
    elif kinds - choices:
        raise Refusal(
            f"tool_choice: this choice is not supported by {profile.model or profile.title}; use 'auto'", param="tool_choice"
        )


def check_options(options: Options, profile: Profile) -> None:
    """Sampling and stop sequences."""
    openai = profile.wire in (spec.OPENAI_CHAT, spec.OPENAI_RESPONSES)
    given = {name: getattr(options, name) for name in _SAMPLING if getattr(options, name) is not None}
    for name, value in given.items():
        if name not in profile.options:
            raise Refusal(f"Argument not supported: {name}", param=name)
        if profile.sampling == "none" and not (openai and value == _DEFAULTS.get(name)):
            text = (
                f"Unsupported parameter: '{name}' is not supported with this model."
                if openai
                else f"`{name}` is deprecated for this model."
            )
            raise Refusal(text, code="unsupported_parameter", param=name)
    if profile.sampling == "one" and {"temperature", "top_p"} <= given.keys():
        raise Refusal("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if not 0 <= given.get("temperature", 0) <= profile.max_temperature:
        raise _bad_temperature(given["temperature"], profile)
    if options.stop and "stop" not in profile.options:
        raise Refusal("Argument not supported: stop", param="stop")
    if profile.limits.stops and len(options.stop) > profile.limits.stops:
        raise Refusal(
            f"Invalid 'stop': array too long. Expected an array with maximum length {profile.limits.stops}.",
            code="array_above_max_length",
            param="stop",
        )


_DEFAULTS = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}


def _bad_temperature(value: float, profile: Profile) -> Refusal:
    most = profile.max_temperature
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return Refusal(f"temperature: range: 0..{most:g}")
        case spec.GEMINI:
            return Refusal(
                f"* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, {most}]."
            )
        case _:
            text = f"Invalid 'temperature': decimal above maximum value. Expected a value <= {most:g}, but got {value} instead."
            return Refusal(text, code="decimal_above_max_value", param="temperature")
