"""What the rules of all wires share.

The messages are OpenAI's, which most servers imitate; other wires override them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

from toolglot.common.jsontext import json_type_name
from toolglot.providers.profile import Profile
from toolglot.schema.json_schema import has_type, iter_nodes
from toolglot.values.request import ToolDefinition
from toolglot.wire.framing import encode_sse
from toolglot.wire.json_values import Doc, as_dict, as_list
from toolglot.wire.spec import SPECS

__all__ = [
    "ErrorTable",
    "Refusal",
    "RefusalKind",
    "VendorErrors",
    "WireRules",
    "declare_fields",
    "load_rules",
]

RefusalKind = Literal[
    "invalid",
    "no_key",
    "auth",
    "missing",
    "method",
    "large",
    "too_long",
    "rate",
    "quota",
    "server",
    "overloaded",
]


@dataclass(eq=False)
class Refusal(Exception):
    """A request is refused, or an error was asked for."""

    message: str
    kind: RefusalKind = "invalid"
    _: KW_ONLY
    code: str = ""
    param: str | None = None
    retry_after: str | None = None
    """The `Retry-After` that the client is told: seconds or a date."""
    is_plain_text: bool = False
    """The body is the message itself, not JSON."""
    unknown_field: str = ""
    """The field that the vendor does not know; some report it in a form of its own."""


ErrorTable = Mapping[RefusalKind, tuple[int, str, str]]
VendorErrors = Mapping[tuple[str, str], tuple[int, str, str]]


def declare_fields(**names_by_type: str) -> dict[str, str]:
    """Return field -> type from `type="names"`; `string_or_array` is "string or array"."""
    return {
        name: types.replace("_or_", " or ")
        for types, names in names_by_type.items()
        for name in names.split()
    }


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
    error_event: ClassVar[str] = ""
    """The name of the event that carries it."""
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
    wordings: ClassVar[Mapping[str, str]] = {
        "fault rate": "Rate limit reached for requests. Please try again later.",
        "fault quota": "You exceeded your current quota, please check your plan and billing details.",
        "fault server": "The server had an error while processing your request.",
        "fault overloaded": "The engine is currently overloaded, please try again later.",
        "fault auth": "Incorrect API key provided.",
        "fault too_long": "This model's maximum context length is 128000 tokens. However, your messages "
        "resulted in "
        "150000 tokens.",
        "unknown field": "Unrecognized request argument supplied: {name}",
        "wrong type": "Invalid type for '{name}': expected {expected}, but got {got} instead.",
        "missing field": "Missing required parameter: '{name}'.",
        "missing field of model": "you must provide a model parameter",
        "empty array": "Invalid '{name}': empty array. Expected an array with minimum length 1.",
        "long array": "Invalid '{name}': array too long. Expected an array with maximum length {limit}, but "
        "got an array with "
        "length {length} instead.",
        "unknown value": "Invalid value: '{value}'. Supported values are: {supported}.",
        "bad call id": "Invalid '{name}': string too long. Expected a string with maximum length {limit}, "
        "but got a string "
        "with length {length} instead.",
        "bad tool name": "Invalid 'tools[{name}].name': string does not match pattern. Expected a string "
        "that matches the "
        "pattern '^{profile.limits.name}$'.",
        "bad root": "Invalid schema for function '{name}': schema must have type 'object' and not have "
        "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        "unknown choice": "Tool choice '{name}' not found in 'tools' parameter.",
        "unsupported option": "`{name}` is deprecated for this model.",
        "bad temperature": "Invalid 'temperature': decimal above maximum value. Expected a value <= "
        "{profile.max_temperature:g}"
        ", but got {value} instead.",
    }
    """Rule -> text; also "rule of FIELD" and "rule at PROFILE", which win; and "fault KIND"."""
    codes: ClassVar[Mapping[str, str]] = {
        "wrong type": "invalid_type",
        "missing field": "missing_required_parameter",
        "empty array": "empty_array",
        "long array": "array_above_max_length",
        "bad call id": "string_above_max_length",
        "bad tool name": "invalid_value",
        "bad root": "invalid_function_parameters",
        "unsupported option": "unsupported_parameter",
        "bad temperature": "decimal_above_max_value",
    }

    def __init__(self, doc: Doc, profile: Profile, headers: Mapping[str, str]) -> None:
        self.doc, self.profile, self.headers = doc, profile, headers

    # -- checks

    def vendor_fields(self) -> set[str]:
        """Return fields that this vendor knows besides the wire's; `-name` for one that it does not know."""
        return set()

    def check_fields(self, *, has_model: bool) -> None:
        """Check names, types and presence of the body's fields."""
        if self.fields and self.refuses_unknown_fields:
            self._check_names()
        self._check_types()
        names_model = has_model or self.doc.get("prompt")  # the path, or a stored prompt, names it
        for name in self.required:
            value = self.doc.get(name)
            is_missing = not value and value != 0
            if is_missing and not (name == "model" and names_model):
                raise self.refuse("missing field", name, param=name)

    def _check_names(self) -> None:
        vendor = self.vendor_fields()
        allowed = {*self.fields, *vendor} - {name[1:] for name in vendor if name.startswith("-")}
        for name in self.doc:
            if name not in allowed:
                raise self.refuse("unknown field", name, param=name)

    def _check_types(self) -> None:
        for name, value in self.doc.items():
            types = self.fields.get(name)
            if types is not None and value is not None and not has_type(value, types.split(" or ")):
                raise self.refuse_type(name, types, value)

    def check_body(self) -> None:
        """Check fields that need or exclude each other, and values by model."""

    def iter_marks(self) -> Iterator[tuple[str, Any]]:
        """Yield (path, value) of every mark for the prompt cache. Arguments of calls are not looked into."""
        field = self.profile.cache_field
        pending = [
            (key, self.doc[key]) for key in ("tools", "system", "messages", "input", field) if key in self.doc
        ]
        while pending:
            path, value = pending.pop()
            is_mark = path.rpartition(".")[2] == field
            if is_mark and value is not None:
                yield path, value
            if is_mark:
                continue
            if isinstance(value, list):
                pending += [(f"{path}.{index}", item) for index, item in enumerate(as_list(value))]
                continue
            doc = as_dict(value)
            pending += [(f"{path}.{key}", doc[key]) for key in ("content", "output", field) if key in doc]

    def check_history(self) -> None:
        """Check that calls are answered, results are in place, and opaque state is unchanged."""

    def check_schema(self, index: int, tool: ToolDefinition) -> None:
        """Check a tool's parameters."""
        schema = tool.parameters
        if schema is None or self.profile.dialect != "OPENAI":
            return
        if schema.get("type") != "object" or any(
            key in schema for key in ("oneOf", "anyOf", "allOf", "enum", "not")
        ):
            raise self.refuse("bad root", tool.name, param=f"tools[{index}].function.parameters")
        for at in iter_nodes(schema):
            if problem := self.find_problem(at.node, is_strict=bool(tool.strict)):
                context = tuple(at.pointer.split("/")[1:])
                text = f"Invalid schema for function '{tool.name}': In context={context}, {problem}"
                raise Refusal(text, code="invalid_function_parameters")

    def find_problem(self, schema: Doc, *, is_strict: bool) -> str:
        """OpenAI: arrays declare their items; a strict object is closed and requires everything."""
        if schema.get("type") == "array" and "items" not in schema:
            return "array schema missing items."
        if not is_strict:
            return ""
        for keyword in ("allOf", "oneOf", "not"):
            if keyword in schema:
                return f"'{keyword}' is not permitted."
        if schema.get("type") != "object":
            return ""
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        required = as_list(schema.get("required"))
        rule = "'required' is required to be supplied and to be an array including every key in properties."
        for name in as_dict(schema.get("properties")):
            if name not in required:
                return f"{rule} Missing '{name}'."
        return ""

    def check_option(self, name: str, value: Any) -> None:
        """Check a sampling parameter of a model that accepts none."""
        raise self.refuse("unsupported option", name, param=name)

    def check_call_id(self, id: str, path: str) -> None:
        """Check that a call's id has the provider's form."""
        limits = self.profile.limits
        if not re.fullmatch(limits.call_id, id):
            raise self.refuse(
                "bad call id", path, param=path, id=id, limit=limits.call_id_length, length=len(id)
            )

    def check_native_type(self, name: str) -> None:
        """Check a tool that models know by its type: older models do not."""

    def refuse(self, rule: str, name: str = "", *, param: str | None = None, **values: Any) -> Refusal:
        """Return the refusal that a rule asks for, in the provider's words."""
        keys = (f"{rule} of {name}", f"{rule} at {self.profile.id}", rule)
        text = next(self.wordings[key] for key in keys if key in self.wordings)
        text = text.format(name=name, profile=self.profile, **values)
        unknown_field = name if rule == "unknown field" else ""
        return Refusal(text, code=self.codes.get(rule, ""), param=param, unknown_field=unknown_field)

    def refuse_type(self, name: str, expected: str, value: Any) -> Refusal:
        """Return the refusal of a value that has a wrong type."""
        got = json_type_name(value)
        return self.refuse("wrong type", name, param=name, expected=expected, got=got, noun=got.split()[-1])

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
        return {
            "error": {"message": refusal.message, "type": type, "param": refusal.param, "code": code or None}
        }

    @classmethod
    def error_frame(cls, refusal: Refusal, profile: Profile) -> bytes:
        """Return the same inside a stream that began with status 200."""
        return encode_sse(cls.error_body(refusal, profile), cls.error_event)


@cache
def load_rules(wire: str) -> type[WireRules]:
    """Return the rules of a wire, from the module named after its package; the shared ones if there is none."""
    try:
        return import_module(f"toolglot.simulator.wires.{SPECS[wire].package.rpartition('.')[2]}").Rules
    except ModuleNotFoundError:
        return WireRules
