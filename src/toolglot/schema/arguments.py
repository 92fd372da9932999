"""Arguments against the schema as it was defined: what a provider was not told, or does not enforce, is enforced here.

The only importer of jsonschema-rs, which is loaded with the first check. What is wrong is told in words for the model:
what came, what is expected, the parameters in short, one example.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps, dumps_text, json_type_name, loads
from toolglot.losses import Repair
from toolglot.messages import ToolCall
from toolglot.request import ToolDefinition
from toolglot.schema.coerce import coerce, rename_arguments
from toolglot.schema.json_schema import Schema, SchemaDocument, allowed_types
from toolglot.schema.tolerant_json import tolerant_loads

__all__ = [
    "ArgumentBinder",
    "InvalidArguments",
    "Issue",
    "SchemaBinder",
    "deep_copy",
    "explain_issues",
    "find_issues",
    "make_example",
    "read_arguments",
    "repair_arguments",
    "summarize_parameters",
]

MAX_ISSUES = 12
MAX_ISSUE_LENGTH = 200
MAX_DEPTH = 6
_FORMAT_EXAMPLES = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "uri": "https://example.com/",
    "email": "name@example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "base64url": "aGVsbG8=",
    "path": "notes.txt",
    "ipv4": "192.0.2.1",
}


class Issue(msgspec.Struct, frozen=True):
    """One thing that is wrong with a call's arguments: where (`$.a[0]`), and what, in words for the model."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidArguments(ValueError):
    """Arguments that are no JSON object, or that a tool cannot take; `wrongs` tells why."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__("; ".join(map(str, issues)))
        self.issues = issues


# ---- by a schema that was given as data


def find_issues(arguments: Any, schema: Mapping[str, Any] | None) -> list[Issue]:
    """What is wrong with arguments by a tool's own schema, nothing where there is none. Raises UsageError for a broken one."""
    if not schema:
        return []
    return _collect_issues(arguments, _compile_validator(dumps(schema)))


def _collect_issues(arguments: Any, validator: Any) -> list[Issue]:
    try:
        return [Issue(_format_path(error.instance_path), error.message) for error in validator.iter_errors(arguments)]
    except ValueError as e:  # nested too deeply, a number too large
        return [Issue("$", str(e).partition("\n")[0])]


@lru_cache(maxsize=256)
def _compile_validator(schema: bytes) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(loads(schema), validate_formats=True, retriever=_refuse_remote_reference)
    except ValueError as e:
        raise UsageError(f"not a JSON Schema: {str(e).partition(chr(10))[0]}") from None


def _refuse_remote_reference(uri: str) -> Any:
    """A schema is what it says itself: nothing is fetched."""
    raise ValueError(f"{uri} is not in the schema")


def _format_path(steps: list[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


class ArgumentBinder(Protocol):
    """Knows which arguments fit a tool, and as which values its function takes them."""

    schema: Schema
    parameter_names: frozenset[str]

    @property
    def allows_extra(self) -> bool:
        """Whether names that the schema does not list are for the binder to judge; otherwise they are dropped."""
        ...

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The values; None where something is not as it should be."""
        ...

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Why arguments do not fit."""
        ...


def deep_copy(value: Any) -> Any:
    """A copy of JSON data: what a function does with it does not change the conversation."""
    try:
        return _copy(value)
    except RecursionError:  # nested too deeply to be copied
        return value


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copy(item) for name, item in cast(Schema, value).items()}
    return [_copy(item) for item in cast(list[Any], value)] if type(value) is list else value


class SchemaBinder:
    """The binder of a schema that was given as data: values are the arguments themselves."""

    __slots__ = ("_validator", "allows_extra", "parameter_names", "schema")

    def __init__(self, schema: Schema) -> None:
        properties = schema.get("properties")
        self.schema, self.allows_extra = schema, True
        self.parameter_names = frozenset(cast(Schema, properties)) if isinstance(properties, dict) else frozenset[str]()
        self._validator: Any = None

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments, where the schema allows them."""
        try:
            if self._validator is None:
                self._validator = _compile_validator(dumps(self.schema))
            return arguments if self._validator.is_valid(arguments) else None
        except (ValueError, RecursionError, UsageError):  # `wrongs` tells
            return None

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Why the schema does not allow them. Raises UsageError for a broken one."""
        return _collect_issues(arguments, _compile_validator(dumps(self.schema)))


# ---- what a model sent


def read_arguments(call: ToolCall) -> tuple[dict[str, Any], tuple[Repair, ...]]:
    """The arguments of a call as an object, and what was mended in their text. Raises Misfit."""
    if call.arguments is not None:
        return call.arguments, ()
    text = call.raw
    if text is None or not text.strip():
        return {}, ()
    try:
        value, mends = tolerant_loads(text)
    except ValueError as e:
        raise InvalidArguments([Issue("$", f"not valid JSON: {e}")]) from None
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        raise InvalidArguments([Issue("$", f"expected a JSON object, got {json_type_name(value)}")])
    return cast(dict[str, Any], value), tuple(Repair("arguments", call.name, mend) for mend in mends)


def repair_arguments(
    arguments: dict[str, Any], binder: ArgumentBinder, tool_name: str
) -> tuple[dict[str, Any], dict[str, Any], tuple[Repair, ...]]:
    """Arguments that did not fit, as they do: (arguments, values, repairs). Raises Misfit where they cannot.

    First the names: those that differ in case only are right ones, unknown ones are dropped where the tool does not judge
    them itself. Only then the values.
    """
    trimmed, notes = rename_arguments(arguments, binder.schema)
    if not binder.allows_extra:
        notes += tuple(f"$.{key}: not a parameter; dropped" for key in trimmed if key not in binder.parameter_names)
        trimmed = {key: value for key, value in trimmed.items() if key in binder.parameter_names}
    values = binder.bind(trimmed) if notes else None
    right = trimmed
    if values is None:
        right, more = coerce(trimmed, binder.schema)
        notes += more
        values = binder.bind(right) if more else None
    if values is None:
        raise InvalidArguments(
            binder.find_issues(trimmed) or binder.find_issues(right) or [Issue("$", "these arguments do not fit")]
        )
    return right, values, tuple(Repair("arguments", tool_name, note) for note in notes)


# ---- words for the model


def explain_issues(definition: ToolDefinition, issues: Iterable[Issue]) -> str:
    """What was wrong with a call, what the tool expects, and one right call."""
    schema, found = definition.parameters or {}, [_truncate(str(item), MAX_ISSUE_LENGTH) for item in issues]
    lines = [f"The call of {definition.name} was not run, because its arguments are not valid:"]
    lines += [f"- {item.removeprefix('$').removeprefix('.').removeprefix(': ')}" for item in found[:MAX_ISSUES]]
    if len(found) > MAX_ISSUES:
        lines.append(f"- and {len(found) - MAX_ISSUES} more")
    lines.append(f"Parameters: {summarize_parameters(schema) or 'none'}")
    example = definition.examples[0].input if definition.examples else make_example(schema)
    lines.append(f"Example: {dumps_text(example)}")
    return "\n".join(lines)


def summarize_parameters(schema: Schema) -> str:
    """The parameters in one line: `city (string, required), days (integer, default 3)`."""
    document, needed = SchemaDocument(schema), schema.get("required", ())
    parts: list[str] = []
    for name, sub in schema.get("properties", {}).items():
        word = _describe_type(sub, document, 0)
        if name in needed:
            word += ", required"
        elif isinstance(sub, dict) and "default" in sub:
            word += f", default {_truncate(dumps_text(cast(Schema, sub)['default']), 40)}"
        parts.append(f"{name} ({word})")
    return ", ".join(parts)


def _describe_type(node: Any, document: SchemaDocument, depth: int) -> str:
    node = _resolve_refs(node, document)
    if depth > MAX_DEPTH or not node:
        return "any"
    if "const" in node or "enum" in node:
        choices = [dumps_text(choice) for choice in node.get("enum", [node.get("const")])]
        return "one of " + ", ".join(choices[:20]) + (" …" if len(choices) > 20 else "")
    if branches := node.get("anyOf") or node.get("oneOf"):
        return " or ".join(dict.fromkeys(_describe_type(branch, document, depth + 1) for branch in branches))
    kinds = allowed_types(node)
    if kinds == ["array"] and node.get("items"):
        return f"array of {_describe_type(node['items'], document, depth + 1)}"
    if kinds == ["object"] and node.get("properties"):
        inside = (f"{name}: {_describe_type(sub, document, depth + 1)}" for name, sub in node["properties"].items())
        return _truncate("object {" + ", ".join(inside) + "}", MAX_ISSUE_LENGTH)
    return " or ".join(kinds) + (f" ({node['format']})" if isinstance(node.get("format"), str) else "") or "any"


def make_example(schema: Schema) -> Any:
    """A value that a schema allows, as far as that is easy to see: required parameters only."""
    return _make_example(schema, SchemaDocument(schema), 0)


def _make_example(node: Any, document: SchemaDocument, depth: int) -> Any:
    node = _resolve_refs(node, document)
    for key in ("default", "const"):
        if key in node:
            return node[key]
    for key in ("examples", "enum", "anyOf", "oneOf", "allOf"):
        if isinstance(node.get(key), list) and node[key]:
            first = node[key][0]
            return (
                first
                if key in ("examples", "enum")
                else _make_example(first, document, depth + 1)
                if depth < MAX_DEPTH
                else None
            )
    match allowed_types(node)[:1] or ["object" if depth == 0 else "string"]:
        case ["object"]:
            needed = node.get("required", ()) if depth < MAX_DEPTH else ()
            return {name: _make_example(node.get("properties", {}).get(name), document, depth + 1) for name in needed}
        case ["array"]:
            count = max(1, min(int(node.get("minItems", 1)), 3)) if depth < MAX_DEPTH else 0
            items = [*node.get("prefixItems", ()), *[node.get("items")] * count]
            return [_make_example(item, document, depth + 1) for item in items[: max(count, len(node.get("prefixItems", ())))]]
        case ["integer" | "number"]:
            return _example_number(node)
        case ["boolean"]:
            return True
        case ["null"]:
            return None
        case _:
            return _FORMAT_EXAMPLES.get(node.get("format", ""), "text")


def _example_number(node: Schema) -> int | float:
    low = node.get("minimum", node.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in node else None)
    if low is not None:
        return low
    high = node.get("maximum", node.get("exclusiveMaximum", 2) - 1)
    return min(1, high)


def _resolve_refs(node: Any, document: SchemaDocument) -> Schema:
    for _ in range(MAX_DEPTH):
        if not isinstance(node, dict) or not isinstance(ref := cast(Schema, node).get("$ref"), str):
            break
        found = document.resolve(ref)
        node = found.node if found else {}
    return cast(Schema, node) if isinstance(node, dict) else {}


def _truncate(text: str, limit: int) -> str:
    """A text that is not longer than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
