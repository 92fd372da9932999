"""What the rules of all wires share. The messages are OpenAI's, which most servers imitate; other wires override them."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from toolglot.jsontext import json_type_name
from toolglot.providers.profile import Profile
from toolglot.request import ToolDefinition
from toolglot.simulator.refusals import Refusal, RefusalKind
from toolglot.wire.framing import encode_sse
from toolglot.wire.json_values import Doc, as_dict, as_list

__all__ = ["ErrorTable", "VendorErrors", "WireRules", "declare_fields", "matches_call_id"]

ErrorTable = Mapping[RefusalKind, tuple[int, str, str]]
VendorErrors = Mapping[tuple[str, str], tuple[int, str, str]]

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def declare_fields(**names_by_type: str) -> dict[str, str]:
    """Return field -> type from `type="names"`; `string_or_array` is "string or array"."""
    return {name: types.replace("_or_", " or ") for types, names in names_by_type.items() for name in names.split()}


class WireRules:
    """One request's body, judged as the wire's provider would. Every `check_…` raises Refusal."""

    fields: ClassVar[Mapping[str, str]] = {}
    """The known fields of a body, with their types."""
    required: ClassVar[tuple[str, ...]] = ()
    refuses_unknown_fields = True
    requires_reasoning = False
    """Turns that called tools must come back with their reasoning."""
    missing_key: ClassVar[str] = (
        "You didn't provide an API key. You need to provide it in an Authorization header using Bearer auth."
    )
    stream_fault: ClassVar[RefusalKind] = "server"
    """The error that breaks a stream which began with status 200."""
    errors: ClassVar[ErrorTable] = {
        "invalid": (400, "invalid_request_error", ""),
        "no_key": (401, "invalid_request_error", ""),
        "auth": (401, "invalid_request_error", "invalid_api_key"),
        "missing": (404, "invalid_request_error", "model_not_found"),
        "method": (405, "invalid_request_error", "method_not_supported"),
        "large": (413, "invalid_request_error", "request_too_large"),
        "too_long": (400, "invalid_request_error", "context_length_exceeded"),
        "rate": (429, "requests", "rate_limit_exceeded"),
        "quota": (429, "insufficient_quota", "insufficient_quota"),
        "server": (500, "server_error", "server_error"),
        "overloaded": (503, "server_error", "server_is_overloaded"),
    }
    """Kind -> (status, type, code)."""
    vendor_errors: ClassVar[VendorErrors] = {}
    """(profile, kind) -> the same, where a vendor differs from the rest of its wire."""

    def __init__(self, doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
        self.doc, self.profile, self.headers = doc, profile, headers

    # -- checks

    def vendor_fields(self) -> set[str]:
        """Return fields that this vendor knows besides the wire's; `-name` for one that it does not know."""
        return set()

    def check_fields(self, *, has_model: bool) -> None:
        """Check names, types and presence of the body's fields."""
        vendor = self.vendor_fields()
        allowed = {*self.fields, *vendor} - {name[1:] for name in vendor if name.startswith("-")}
        for name, value in self.doc.items():
            if self.fields and name not in allowed and self.refuses_unknown_fields:
                raise self.unknown_field(name)
            types = [type for word in self.fields.get(name, "").split(" or ") for type in _JSON_TYPES.get(word, ())]
            is_wrong_bool = isinstance(value, bool) and bool not in types  # True is an int in Python, not in JSON
            if types and value is not None and (is_wrong_bool or not isinstance(value, tuple(types))):
                raise self.wrong_type(name, self.fields[name], value)
        for name in self.required:
            is_elsewhere = name == "model" and (has_model or self.doc.get("prompt"))  # a stored prompt names its model
            if not self.doc.get(name) and self.doc.get(name) != 0 and not is_elsewhere:
                raise self.missing_field(name)

    def check_body(self) -> None:
        """Check fields that need or exclude each other, and values by model."""

    def check_history(self) -> None:
        """Check that calls are answered, results are in place, and opaque state is unchanged."""

    def check_schema(self, index: int, tool: ToolDefinition) -> None:
        """Check a tool's parameters."""
        schema = tool.parameters
        if schema is None or self.profile.dialect != "OPENAI":
            return
        if schema.get("type") != "object" or any(key in schema for key in ("oneOf", "anyOf", "allOf", "enum", "not")):
            raise Refusal(
                f"Invalid schema for function '{tool.name}': schema must have type 'object' and not have "
                "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
                code="invalid_function_parameters",
                param=f"tools[{index}].function.parameters",
            )
        self.check_subschema(tool, schema, ())

    def check_subschema(self, tool: ToolDefinition, schema: Doc, path: tuple[str, ...]) -> None:
        """OpenAI: arrays declare their items; a strict object is closed and requires everything."""
        properties, problem = as_dict(schema.get("properties")), ""
        if schema.get("type") == "array" and "items" not in schema:
            problem = "array schema missing items."
        elif tool.strict and (word := next((word for word in ("allOf", "oneOf", "not") if word in schema), None)):
            problem = f"'{word}' is not permitted."
        elif tool.strict and schema.get("type") == "object":
            missing = [name for name in properties if name not in as_list(schema.get("required"))]
            if schema.get("additionalProperties") is not False:
                problem = "'additionalProperties' is required to be supplied and to be false."
            elif missing:
                problem = (
                    "'required' is required to be supplied and to be an array including every key in properties. "
                    f"Missing '{missing[0]}'."
                )
        if problem:
            text = f"Invalid schema for function '{tool.name}': In context={path}, {problem}"
            raise Refusal(text, code="invalid_function_parameters")
        parts = [(("properties", name), part) for name, part in properties.items()]
        parts += [(("$defs", name), part) for name, part in as_dict(schema.get("$defs")).items()]
        parts += [(("anyOf", str(i)), part) for i, part in enumerate(as_list(schema.get("anyOf")))]
        parts += [(("items",), schema["items"])] if "items" in schema else []
        for step, part in parts:
            self.check_subschema(tool, as_dict(part), (*path, *step))

    def check_native_type(self, name: str) -> None:
        """Check a tool that models know by its type: older models do not."""

    # -- refusals in the provider's words

    def unknown_field(self, name: str) -> Refusal:
        return Refusal(f"Unrecognized request argument supplied: {name}")

    def wrong_type(self, name: str, expected: str, value: Any) -> Refusal:
        text = f"Invalid type for '{name}': expected {expected}, but got {json_type_name(value)} instead."
        return Refusal(text, code="invalid_type", param=name)

    def missing_field(self, name: str) -> Refusal:
        if name == "model":
            return Refusal("you must provide a model parameter")
        return Refusal(f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name)

    def bad_call_id(self, path: str, id: str) -> Refusal:
        length = f"maximum length {self.profile.limits.call_id_length}, but got a string with length {len(id)} instead."
        text = f"string too long. Expected a string with {length}" if id else "empty string."
        return Refusal(f"Invalid '{path}': {text}", code="string_above_max_length", param=path)

    def bad_tool_name(self, index: int) -> Refusal:
        path = f"tools[{index}].name"
        text = f"string does not match pattern. Expected a string that matches the pattern '^{self.profile.limits.name}$'."
        return Refusal(f"Invalid '{path}': {text}", code="invalid_value", param=path)

    def duplicate_tool(self, name: str) -> Refusal | None:
        return None

    def unknown_choice(self, name: str) -> Refusal:
        return Refusal(f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice")

    def unsupported_option(self, name: str, value: Any) -> Refusal | None:
        return Refusal(f"`{name}` is deprecated for this model.", code="unsupported_parameter", param=name)

    def bad_temperature(self, value: float) -> Refusal:
        limit = f"Expected a value <= {self.profile.max_temperature:g}, but got {value} instead."
        text = f"Invalid 'temperature': decimal above maximum value. {limit}"
        return Refusal(text, code="decimal_above_max_value", param="temperature")

    # -- error bodies

    @classmethod
    def error_fields(cls, refusal: Refusal, profile: Profile) -> tuple[int, str, str]:
        """Return the status, type and code of a refusal."""
        status, type, code = cls.vendor_errors.get((profile.id, refusal.kind)) or cls.errors[refusal.kind]
        return status, type, refusal.code or code

    @classmethod
    def error_body(cls, refusal: Refusal, profile: Profile) -> Doc:
        """Return the body that the provider sends with a refusal."""
        _, type, code = cls.error_fields(refusal, profile)
        return {"error": {"message": refusal.message, "type": type, "param": refusal.param, "code": code or None}}

    @classmethod
    def error_frame(cls, refusal: Refusal, profile: Profile) -> bytes:
        """Return the same inside a stream that began with status 200."""
        return encode_sse(cls.error_body(refusal, profile))


def matches_call_id(profile: Profile, id: str) -> bool:
    """Whether a call's id has the provider's form."""
    return re.fullmatch(profile.limits.call_id, id) is not None
