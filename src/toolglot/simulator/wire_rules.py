"""What only one wire asks of a request, beside its history: fields that need or exclude each other, and values by model."""

import re
from collections.abc import Mapping

from toolglot.jsontext import json_type_name
from toolglot.providers.profile import Profile
from toolglot.simulator.history_rules import camel_keys
from toolglot.simulator.refusals import Refusal
from toolglot.simulator.request_fields import GENERATION_FIELDS, STRICT_VENDORS
from toolglot.wire import spec
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["OPENAI_CHAT_ROWS", "WIRE_RULES"]

# OpenAI's models that take function tools on Responses only: where effort is asked for, and always (they reason by default).
_NOT_ON_CHAT = re.compile(r"^gpt-(5\.([4-9]|\d\d)|[6-9])")
_NEVER_ON_CHAT = re.compile(r"^gpt-(5\.([5-9]|\d\d)|[6-9])")
OPENAI_CHAT_ROWS = ("openai-chat", "azure-chat", "azure-dated-chat")
_NO_SAMPLING_VERSION = "2026-10-21"


def _check_chat(doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
    openai = profile.id in OPENAI_CHAT_ROWS
    effort, tools = doc.get("reasoning_effort"), list(iter_dicts(doc.get("tools")))
    _check_dependent_fields(doc, tools, profile)
    if openai and "max_tokens" in doc and "max_completion_tokens" in doc:
        raise Refusal("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    if openai and profile.sampling == "none" and "max_tokens" in doc:
        raise Refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            code="unsupported_parameter",
            param="max_tokens",
        )
    functions = any(tool.get("type") == "function" for tool in tools)
    reasons = _NEVER_ON_CHAT.search(profile.model) or effort is not None
    if openai and functions and effort != "none" and _NOT_ON_CHAT.search(profile.model) and reasons:
        raise Refusal(
            f"Function tools with reasoning_effort are not supported for {profile.model} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
    if effort is not None and effort not in profile.efforts and (openai or profile.id in ("xai", "groq")):
        raise _unsupported_value("reasoning_effort", effort, profile.efforts)
    form = as_dict(doc.get("response_format")).get("type")
    if form == "json_schema" and profile.json_output == "object":
        raise Refusal("This response_format type is unavailable now")
    if openai and form == "json_object":
        _require_json_word(doc, "messages", "response_format")


def _check_responses(doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
    _check_dependent_fields(doc, list(iter_dicts(doc.get("tools"))), profile)
    if as_text(doc.get("previous_response_id")):
        id = doc["previous_response_id"]
        raise Refusal(f"Previous response with id '{id}' not found.", code="previous_response_not_found")
    if not doc.get("input") and not doc.get("prompt") and not doc.get("conversation"):
        raise Refusal("One of 'input' or 'previous_response_id' or 'prompt' or 'conversation' must be provided.")
    most = doc.get("max_output_tokens")
    if most is not None and most < 16:
        raise Refusal(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} instead.",
            code="integer_below_min_value",
        )
    effort = as_dict(doc.get("reasoning")).get("effort")
    if effort is not None and effort not in profile.efforts:
        raise _unsupported_value("reasoning.effort", effort, profile.efforts)
    if as_dict(as_dict(doc.get("text")).get("format")).get("type") == "json_object":
        _require_json_word({key: doc.get(key) for key in ("input", "instructions")}, "input", "text.format")


def _unsupported_value(param: str, value: object, supported: tuple[str, ...]) -> Refusal:
    if not supported:
        return Refusal(f"Unsupported parameter: '{param}' is not supported with this model.", code="unsupported_parameter")
    listed = ", ".join(map(repr, supported))
    return Refusal(f"Unsupported value: '{param}' does not support '{value}'. Supported values are: {listed}.", param=param)


def _check_dependent_fields(doc: Doc, tools: list[Doc], profile: Profile) -> None:
    """Fields that need another one."""
    if doc.get("stream_options") and not doc.get("stream"):
        raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")
    if tools or profile.id not in STRICT_VENDORS:
        return
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in doc and doc[name] is not None and doc[name] not in ("none", "auto"):
            raise Refusal(f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", param=name)
    if doc.get("tools") == [] and profile.wire == spec.OPENAI_CHAT:
        raise Refusal(
            "Invalid 'tools': empty array. Expected an array with minimum length 1.", code="empty_array", param="tools"
        )


def _require_json_word(doc: Doc, field: str, param: str) -> None:
    if "json" not in str({key: value for key, value in doc.items() if key in ("messages", "input", "instructions")}).lower():
        raise Refusal(f"'{field}' must contain the word 'json' in some form, to use '{param}' of type 'json_object'.")


def _check_anthropic(doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
    thinking, choice = as_dict(doc.get("thinking")), as_dict(doc.get("tool_choice"))
    if doc.get("thread"):  # nothing is stored here: clients go on without
        raise Refusal("This request cannot be threaded.", code="thread_unsupported_request")
    sampling = [name for name in ("temperature", "top_p", "top_k") if doc.get(name) is not None]
    if sampling and headers["anthropic-version"] >= _NO_SAMPLING_VERSION:
        raise Refusal(f"{sampling[0]}: Extra inputs are not permitted")
    if doc["max_tokens"] < 1:
        raise Refusal("max_tokens: Input should be greater than or equal to 1")
    if choice and not doc.get("tools"):
        raise Refusal("tool_choice may only be specified while providing tools")
    if thinking.get("type") == "enabled":
        _check_thinking(doc, thinking, choice, profile)
    effort = as_dict(doc.get("output_config")).get("effort")
    if effort is not None and effort not in profile.efforts:
        raise Refusal(f"This model does not support effort level '{effort}'. Supported levels: {', '.join(profile.efforts)}.")
    marks = str(doc).count("'cache_control': {")
    if profile.limits.cache_marks is not None and marks > profile.limits.cache_marks:
        raise Refusal(f"A maximum of {profile.limits.cache_marks} blocks with cache_control may be provided. Found {marks}.")


def _check_thinking(doc: Doc, thinking: Doc, choice: Doc, profile: Profile) -> None:
    budget = thinking.get("budget_tokens")
    if not profile.thinking_budget:
        raise Refusal('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".')
    if not isinstance(budget, int) or budget < 1024:
        raise Refusal("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= doc["max_tokens"]:
        raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if choice.get("type") in ("any", "tool"):
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")
    if doc.get("temperature", 1) != 1:
        raise Refusal("`temperature` may only be set to 1 when thinking is enabled.")


def _check_gemini(doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
    config = camel_keys(doc.get("generationConfig"))
    if unknown := config.keys() - GENERATION_FIELDS:
        raise Refusal(
            f"Invalid JSON payload received. Unknown name \"{min(unknown)}\" at 'generation_config': Cannot find field."
        )
    declared = 0
    for at, tool in enumerate(camel_keys(one) for one in as_list(doc.get("tools"))):
        if "functionDeclaration" in tool:
            raise Refusal(
                f"Invalid JSON payload received. Unknown name \"functionDeclaration\" at 'tools[{at}]': Cannot find field."
            )
        for number, function in enumerate(camel_keys(one) for one in as_list(tool.get("functionDeclarations"))):
            declared += 1
            place = f"tools[{at}].function_declarations[{number}]"
            if "parameters" in function and "parametersJsonSchema" in function:
                raise Refusal(f"* GenerateContentRequest.{place}: parameters and parameters_json_schema exclude each other.")
            _check_openapi(as_dict(function.get("parameters")), f"{place}.parameters")
    calling = camel_keys(camel_keys(doc.get("toolConfig")).get("functionCallingConfig"))
    if calling and not declared:
        raise Refusal("Function calling config is set without function_declarations.")
    if calling.get("allowedFunctionNames") and calling.get("mode") not in ("ANY", "VALIDATED"):
        raise Refusal("Allowed function names should be set only when function calling mode is ANY or VALIDATED.")
    thinking = camel_keys(config.get("thinkingConfig"))
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        raise Refusal("You can only set only one of thinking budget and thinking level.")
    if ("responseSchema" in config or "responseJsonSchema" in config) and config.get("responseMimeType") != "application/json":
        raise Refusal(
            "* GenerateContentRequest.generation_config.response_schema: only allowed when mime_type is 'application/json'"
        )


_OPENAPI = {
    *("type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required"),
    *("minProperties", "maxProperties", "minLength", "maxLength", "minimum", "maximum", "pattern", "example", "anyOf"),
    *("propertyOrdering", "default", "additionalProperties", "defs", "ref"),
}


def _check_openapi(schema: Doc, path: str) -> None:
    """`parameters` are of Google's own schema language."""
    fields = camel_keys(schema)
    if unknown := fields.keys() - _OPENAPI:
        raise Refusal(f"Invalid JSON payload received. Unknown name \"{min(unknown)}\" at '{path}': Cannot find field.")
    if as_text(fields.get("type")).upper() == "ARRAY" and "items" not in fields:
        raise Refusal(f"* GenerateContentRequest.{path}.items: missing field.")
    if any(not isinstance(one, str) for one in as_list(fields.get("enum"))):
        raise Refusal(f"Invalid value at '{path}.enum[0]' (TYPE_STRING)")
    for name, part in as_dict(fields.get("properties")).items():
        _check_openapi(as_dict(part), f"{path}.properties[{name}]")
    if "items" in fields:
        _check_openapi(as_dict(fields["items"]), f"{path}.items")


def _check_ollama(doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
    think, form = doc.get("think"), doc.get("format")
    if isinstance(think, str) and think not in ("high", "medium", "low", "max"):
        raise Refusal(f'invalid think value: "{think}" (must be "high", "medium", "low", "max", true, or false)')
    if isinstance(form, str) and form not in ("", "json"):
        raise Refusal(f'invalid format: "{form}"; expected "json" or a valid JSON Schema object')
    for tool in iter_dicts(doc.get("tools")):
        properties = as_dict(as_dict(tool.get("function")).get("parameters")).get("properties", {})
        if not isinstance(properties, dict):
            got = json_type_name(properties).split()[-1]
            raise Refusal(
                f"json: cannot unmarshal {got} into Go struct field .tools.function.parameters.properties of type map"
            )
    for name in ("temperature", "top_p", "num_predict", "top_k", "seed"):
        value = as_dict(doc.get("options")).get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Refusal(f'option "{name}" must be of type {"float32" if name in ("temperature", "top_p") else "integer"}')


WIRE_RULES = {
    spec.OPENAI_CHAT: _check_chat,
    spec.OPENAI_RESPONSES: _check_responses,
    spec.ANTHROPIC_MESSAGES: _check_anthropic,
    spec.GEMINI: _check_gemini,
    spec.OLLAMA_CHAT: _check_ollama,
}
