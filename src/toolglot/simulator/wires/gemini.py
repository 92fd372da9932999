"""Gemini's generateContent, on the Developer API and on Vertex."""

from collections.abc import Mapping
from typing import Any, ClassVar

from toolglot.providers.profile import Profile
from toolglot.simulator.opaque_state import sign_state
from toolglot.simulator.wires.base import ErrorTable, Refusal, VendorErrors, WireRules, declare_fields
from toolglot.values.request import ToolDefinition
from toolglot.wire.gemini.request_encode import DUMMY_SIGNATURE
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, snake_to_camel

__all__ = ["Rules"]

_GENERATION_FIELDS = {
    *(
        "maxOutputTokens",
        "temperature",
        "topP",
        "topK",
        "stopSequences",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
    ),
    *(
        "candidateCount",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "responseFormat",
    ),
    *(
        "thinkingConfig",
        "speechConfig",
        "mediaResolution",
        "imageConfig",
        "logprobs",
        "responseLogprobs",
        "audioTimestamp",
    ),
    *(
        "routingConfig",
        "modelSelectionConfig",
        "enableEnhancedCivicAnswers",
        "enableAffectiveDialog",
        "translationConfig",
    ),
    "audioTranscriptionConfig",
}
_SCHEMA_FIELDS = {
    *(
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "minItems",
        "maxItems",
        "properties",
        "required",
    ),
    *(
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
        "example",
        "anyOf",
    ),
    *("propertyOrdering", "default", "additionalProperties", "defs", "ref"),
}


def _camel_keys(doc: Any) -> Doc:
    """Rename keys: Google's JSON parser accepts snake_case too."""
    return {snake_to_camel(key): value for key, value in as_dict(doc).items()}


def _unknown_name(names: set[str], path: str) -> Refusal:
    return Refusal(
        f"Invalid JSON payload received. Unknown name \"{min(names)}\" at '{path}': Cannot find field."
    )


class Rules(WireRules):
    """What generateContent refuses."""

    fields = declare_fields(
        string="model cachedContent serviceTier continuationToken",
        array="safetySettings",
        boolean="store",
        object="toolConfig generationConfig labels modelArmorConfig",
        array_or_object="contents tools",
        object_or_string="systemInstruction",
    )
    required = ("contents",)
    missing_key = (
        "Method doesn't allow unregistered callers. Please use API Key or other form of API "
        "consumer identity."
    )
    errors: ClassVar[ErrorTable] = {
        "invalid": (400, "INVALID_ARGUMENT", ""),
        "no_key": (403, "PERMISSION_DENIED", ""),
        "auth": (400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
        "missing": (404, "NOT_FOUND", ""),
        "method": (405, "INVALID_ARGUMENT", ""),
        "large": (413, "INVALID_ARGUMENT", ""),
        "too_long": (400, "INVALID_ARGUMENT", ""),
        "rate": (429, "RESOURCE_EXHAUSTED", ""),
        "quota": (429, "RESOURCE_EXHAUSTED", "QUOTA"),
        "server": (500, "INTERNAL", ""),
        "overloaded": (503, "UNAVAILABLE", ""),
    }
    vendor_errors: ClassVar[VendorErrors] = {
        ("vertex", "no_key"): (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING"),
        ("vertex", "auth"): (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING"),
    }
    wordings: ClassVar[Mapping[str, str]] = {
        **WireRules.wordings,
        "fault overloaded": "The model is overloaded. Please try again later.",
        "fault auth": "API key not valid. Please pass a valid API key.",
        "fault too_long": "The input token count (1200000) exceeds the maximum number of tokens allowed "
        "(1048576).",
        "unknown field": 'Invalid JSON payload received. Unknown name "{name}": Cannot find field.',
        "wrong type": "Invalid value at '{name}': expected {expected}, got {got}",
        "missing field": "* GenerateContentRequest.{name}: {name} is not specified",
        "bad tool name": "tools[0].function_declarations[{name}].name: [FIELD_INVALID] Invalid function "
        "name. Must start with "
        "a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), "
        "or dashes (-), "
        "with a maximum length of 64.",
        "wrong number of results": "Please ensure that the number of function response parts is equal to the "
        "number of "
        "function call parts of the function call turn.",
        "missing signature": "Function call is missing a thought_signature in functionCall parts. This is "
        "required for tools "
        "to work correctly. Function call `default_api:{name}`, position {position}.",
        "duplicate tool": "Duplicate function declaration found: {name}",
        "bad temperature": "* GenerateContentRequest.generation_config.temperature: temperature must be in "
        "the range [0.0, "
        "{profile.max_temperature}].",
    }
    codes: ClassVar[Mapping[str, str]] = {}

    def __init__(self, doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
        super().__init__(_camel_keys(doc), profile, headers)

    def check_body(self) -> None:
        config = _camel_keys(self.doc.get("generationConfig"))
        if unknown := config.keys() - _GENERATION_FIELDS:
            raise _unknown_name(unknown, "generation_config")
        declared = 0
        for index, tool in enumerate(map(_camel_keys, as_list(self.doc.get("tools")))):
            if "functionDeclaration" in tool:
                raise _unknown_name({"functionDeclaration"}, f"tools[{index}]")
            for number, function in enumerate(map(_camel_keys, as_list(tool.get("functionDeclarations")))):
                declared += 1
                path = f"tools[{index}].function_declarations[{number}]"
                if "parameters" in function and "parametersJsonSchema" in function:
                    text = "parameters and parameters_json_schema exclude each other."
                    raise Refusal(f"* GenerateContentRequest.{path}: {text}")
                self.check_openapi(as_dict(function.get("parameters")), f"{path}.parameters")
        calling = _camel_keys(_camel_keys(self.doc.get("toolConfig")).get("functionCallingConfig"))
        if calling and not declared:
            raise Refusal("Function calling config is set without function_declarations.")
        if calling.get("allowedFunctionNames") and calling.get("mode") not in ("ANY", "VALIDATED"):
            raise Refusal(
                "Allowed function names should be set only when function calling mode is ANY or VALIDATED."
            )
        thinking = _camel_keys(config.get("thinkingConfig"))
        if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
            raise Refusal("You can only set only one of thinking budget and thinking level.")
        has_schema = "responseSchema" in config or "responseJsonSchema" in config
        if has_schema and config.get("responseMimeType") != "application/json":
            text = "only allowed when mime_type is 'application/json'"
            raise Refusal(f"* GenerateContentRequest.generation_config.response_schema: {text}")

    def check_openapi(self, schema: Doc, path: str) -> None:
        """`parameters` are in Google's own schema language."""
        fields = _camel_keys(schema)
        if unknown := fields.keys() - _SCHEMA_FIELDS:
            raise _unknown_name(unknown, path)
        if as_text(fields.get("type")).upper() == "ARRAY" and "items" not in fields:
            raise Refusal(f"* GenerateContentRequest.{path}.items: missing field.")
        if any(not isinstance(value, str) for value in as_list(fields.get("enum"))):
            raise Refusal(f"Invalid value at '{path}.enum[0]' (TYPE_STRING)")
        for name, part in as_dict(fields.get("properties")).items():
            self.check_openapi(as_dict(part), f"{path}.properties[{name}]")
        if "items" in fields:
            self.check_openapi(as_dict(fields["items"]), f"{path}.items")

    def check_schema(self, index: int, tool: ToolDefinition) -> None:
        if tool.parameters is not None and tool.parameters.get("type") != "object":
            path = f"tools[0].function_declarations[{index}].parameters.type"
            raise Refusal(f"* GenerateContentRequest.{path}: must be OBJECT")

    # -- history: as many responses as calls, right after them; Gemini 3 also wants a signature on a turn's
    # first call

    def check_history(self) -> None:
        raw = self.doc.get("contents")
        contents = as_list(raw) if isinstance(raw, list) else [raw]
        turns = self.group_turns([_camel_keys(content) for content in contents])
        pending: list[Doc] = []
        previous = ""
        for role, parts in turns:
            calls = [_camel_keys(part["functionCall"]) for part in parts if "functionCall" in part]
            results = [_camel_keys(part["functionResponse"]) for part in parts if "functionResponse" in part]
            if pending or results:
                self.check_function_responses(pending, results)
            is_model_turn = role == "model" and previous in ("user", "results")
            if calls and not is_model_turn:
                text = (
                    "function call turn comes immediately after a user turn or after a function response "
                    "turn."
                )
                raise Refusal(f"Please ensure that {text}")
            pending = calls
            if results:
                previous = "results"
            elif calls:
                previous = "calls"
            else:
                previous = role
        if pending:
            self.check_function_responses(pending, [])
        if self.profile.signatures:
            self.check_signatures(turns)

    def group_turns(self, contents: list[Doc]) -> list[tuple[str, list[Doc]]]:
        """Merge neighbouring contents of one role."""
        turns: list[tuple[str, list[Doc]]] = []
        if not any(contents):
            raise self.refuse("missing field", "contents")
        for index, content in enumerate(contents):
            role = as_text(content.get("role")) or "user"
            if role not in ("user", "model", "function"):
                raise Refusal("Please use a valid role: user, model.")
            if role == "function":
                role = "user"
            parts = self.check_parts(content, index)
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(parts)
            else:
                turns.append((role, parts))
        return turns

    def check_parts(self, content: Doc, index: int) -> list[Doc]:
        raw = content.get("parts")
        path = f"contents[{index}]"
        if unknown := content.keys() - {"role", "parts"}:
            raise _unknown_name(unknown, path)
        if raw in (None, []):
            raise Refusal(f"* GenerateContentRequest.{path}.parts: contents.parts must not be empty.")
        items = as_list(raw) if isinstance(raw, list) else [raw]
        parts = [_camel_keys(part) for part in items]
        for number, part in enumerate(parts):
            if not part.keys() - {"thought", "videoMetadata", "partMetadata"}:
                text = "required oneof field 'data' must have one initialized field"
                raise Refusal(f"* GenerateContentRequest.{path}.parts[{number}].data: {text}")
        return parts

    def check_function_responses(self, calls: list[Doc], results: list[Doc]) -> None:
        if results and not calls:
            raise Refusal(
                "Please ensure that function response turn comes immediately after a function call turn."
            )
        if len(calls) != len(results):
            raise self.refuse("wrong number of results")
        path = "contents.parts.function_response"
        for result in results:
            if not result.get("name"):
                raise Refusal(f"* GenerateContentRequest.{path}.name: Name cannot be empty.")
            if not isinstance(result.get("response"), dict):
                raise Refusal(
                    f"Invalid value at '{path}.response' (type.googleapis.com/google.protobuf.Struct)"
                )
        call_ids = {call.get("id") for call in calls}
        for result in results:
            id = result.get("id")
            if id and id not in call_ids:
                raise Refusal(
                    f"Function response id '{id}' does not match any function call of the function call turn."
                )

    def check_signatures(self, turns: list[tuple[str, list[Doc]]]) -> None:
        """Only the turns since the user's last real message are checked."""
        start = 0
        for index, (role, parts) in enumerate(turns):
            has_words = any("functionResponse" not in part for part in parts)
            if role == "user" and has_words:
                start = index
        for index, (_, parts) in enumerate(turns[start:], start):
            first = next((part for part in parts if "functionCall" in part), None)
            if first is None:
                continue
            name = as_text(_camel_keys(first["functionCall"]).get("name"))
            # Either base64 alphabet: google-genai writes the URL-safe one.
            signature = as_text(first.get("thoughtSignature")).replace("-", "+").replace("_", "/")
            if not signature:
                raise self.refuse("missing signature", name, position=index + 1)
            if signature not in (DUMMY_SIGNATURE, sign_state(self.profile, name)):
                raise Refusal("Thought signature is not valid.")

    @classmethod
    def error_body(cls, refusal: Refusal, profile: Profile) -> Doc:
        status, type, code = cls.error_fields(refusal, profile)
        prefix, details = "type.googleapis.com/google.rpc.", list[Doc]()
        if refusal.retry_after is not None and "GMT" not in refusal.retry_after:
            details.append({"@type": f"{prefix}RetryInfo", "retryDelay": f"{refusal.retry_after}s"})
        if code == "QUOTA":
            details.append({"@type": f"{prefix}QuotaFailure", "violations": []})
        elif code:
            details.append({"@type": f"{prefix}ErrorInfo", "reason": code, "domain": "googleapis.com"})
        error: Doc = {"code": status, "message": refusal.message, "status": type}
        return {"error": {**error, **({"details": details} if details else {})}}
