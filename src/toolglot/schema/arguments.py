"""Checks and repairs the arguments of a call against the tool's original schema.

Providers enforce only part of a schema, and only some of them: here all of it is enforced. What is wrong is
explained to the
model: what came, what was expected, the parameters in short, and an example. jsonschema-rs is imported with
the first check.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec

from toolglot.common.jsontext import dumps, dumps_text, json_type_name, loads
from toolglot.common.textutil import did_you_mean, suggest, truncate
from toolglot.errors import UsageError
from toolglot.schema.coerce import coerce, rename_arguments
from toolglot.schema.defaults import fill_defaults
from toolglot.schema.json_schema import Schema, SchemaDocument, allowed_types, iter_nodes
from toolglot.schema.tolerant_json import tolerant_loads
from toolglot.values.losses import Repair
from toolglot.values.messages import ToolCall
from toolglot.values.request import ToolDefinition

# An explanation is read by a model, and paid for: it must not be longer than the call.
MAX_ISSUES = 12
MAX_ISSUE_LENGTH = 200
MAX_DEPTH = 6  # of examples and summaries
_MAX_CHOICES = 20  # of an enum that are shown
_NO_VALUE = object()
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
    """One problem with a call's arguments: its path (`$.a[0]`), and a message for the model."""

    path: str
    message: str
    keyword: str = ""
    """The keyword of the schema that was violated; "" if no schema was."""
    expected: Any = None
    """What the keyword asks for: types, choices, a limit, names."""
    received: Any = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidArguments(ValueError):
    """Arguments that are not a JSON object, or that a tool cannot accept."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__("; ".join(map(str, issues)))
        self.issues = issues


# ---- binders


class ArgumentBinder(Protocol):
    """Validates arguments and turns them into the values that a tool's function takes."""

    schema: Schema
    parameter_names: frozenset[str]
    allows_extra: bool
    """Whether the binder judges names that are not in `parameter_names`; otherwise they are dropped."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the values, or None if the arguments are invalid."""
        ...

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Explain why arguments are invalid."""
        ...


class SchemaBinder:
    """The binder of a tool that was defined by a JSON Schema: the values are the arguments themselves.

    `fills_defaults`: with the defaults of the schema for what is missing.
    """

    __slots__ = ("_fills_defaults", "_validator", "allows_extra", "parameter_names", "schema")

    def __init__(self, schema: Schema, *, fills_defaults: bool = False) -> None:
        properties = schema.get("properties")
        self.schema = schema
        self.allows_extra = True
        self.parameter_names = (
            frozenset(cast(Schema, properties)) if isinstance(properties, dict) else frozenset[str]()
        )
        self._validator: Any = None
        self._fills_defaults = fills_defaults

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments, or None if the schema does not allow them."""
        try:
            if self._validator is None:
                text = dumps(self.schema)
                self._validator = _compile_validator(text)
                self._fills_defaults = self._fills_defaults and b'"default"' in text
            if not self._validator.is_valid(arguments):
                return None
            return fill_defaults(arguments, self.schema) if self._fills_defaults else arguments
        except (ValueError, RecursionError, UsageError):  # `find_issues` reports it
            return None

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Explain why the schema does not allow them. Raises UsageError for a broken schema."""
        return find_issues(arguments, self.schema)


def find_issues(arguments: Any, schema: Mapping[str, Any] | None) -> list[Issue]:
    """Return what a schema finds wrong with arguments. Raises UsageError for a broken schema."""
    if not schema:
        return []
    validator = _compile_validator(dumps(schema))
    try:
        errors = list(validator.iter_errors(arguments))
    except ValueError as e:  # nested too deeply, or a number too large
        return [Issue("$", str(e).partition("\n")[0])]
    issues: list[Issue] = []
    for error in errors:
        message = error.message
        steps = list(error.instance_path)
        # the parameter to blame, not the object that lacks it
        missing = getattr(error.kind, "property", None)
        if missing is not None:
            message = "is missing"
            steps.append(missing)
        path = "$"
        for step in steps:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        issues.append(Issue(path, message, error.kind.name, error.kind.value, error.instance))
    return issues


# Keyed by the schema's bytes: equal schemas of many conversations share one validator.
@lru_cache(maxsize=256)
def _compile_validator(schema: bytes) -> Any:
    import jsonschema_rs

    def refuse_remote(uri: str) -> Any:  # a schema must not make us fetch anything
        raise ValueError(f"{uri} is not in the schema")

    try:
        return jsonschema_rs.validator_for(loads(schema), validate_formats=True, retriever=refuse_remote)
    except ValueError as e:
        path = ".".join(map(str, getattr(e, "instance_path", ())))
        problem = str(e).partition("\n")[0]
        if path.endswith(".type"):
            problem = f"there is no type {getattr(e, 'instance', '')!r}"
        place = f"{path}: " if path else ""
        raise UsageError(f"not a JSON Schema: {place}{problem}") from None


_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_REFERENCES = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')
_FEW_REFERENCES = 20
_MAX_STEPS = 100_000


def check_schema(schema: Schema) -> None:
    """Raise UsageError for a schema that is broken, or that could make us check a value for ever.

    Nothing is checked to find that out. Thirty references, two in each definition to the next one, are a
    billion steps.
    """
    text = dumps(schema)
    _compile_validator(text)
    if sum(map(text.count, _REFERENCES)) <= _FEW_REFERENCES:
        return
    # Such references mean something else than their text says: the steps cannot be counted.
    if text.count(b'"$id"') > ("$id" in schema) or any(map(text.count, _REFERENCES[1:])):
        raise UsageError(
            f"the schema has more than {_FEW_REFERENCES} references and a nested $id, or dynamic references"
        )
    counter = _StepCounter(SchemaDocument(schema))
    if any(counter.count(at.node) > _MAX_STEPS for at in iter_nodes(schema)):
        raise UsageError(f"the references of the schema need more than {_MAX_STEPS} steps to check one value")


class _StepCounter:
    """Counts how many schemas are applied to one value; those of its items and properties are counted on
    their own.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._steps: dict[int, float] = {}  # by the identity of the node

    def count(self, node: Any) -> float:
        if not isinstance(node, dict):
            return 1
        key = id(cast(Schema, node))
        if key not in self._steps:
            self._steps[key] = float("inf")  # if it refers to itself
            self._steps[key] = 1 + sum(map(self.count, self._list_parts(cast(Schema, node))))
        return self._steps[key]

    def _list_parts(self, node: Schema) -> Iterator[Any]:
        """Yield the schemas that are applied to the same value as the node."""
        ref = node.get("$ref")
        target = self._document.resolve(ref) if isinstance(ref, str) else None
        if target is not None:
            yield target.node
        for key in _IN_PLACE:
            if key not in node:
                continue
            value = node[key]
            if isinstance(value, list):
                yield from cast(list[Any], value)
            elif isinstance(value, dict) and key.startswith("depend"):
                yield from cast(Schema, value).values()
            else:
                yield value


_CONTAINERS = (dict, list)


def deep_copy(value: Any) -> Any:
    """Copy JSON data, so that what a function does with its arguments does not change the conversation."""
    try:
        return _copy(value)
    except RecursionError:
        return value


def _copy(value: Any) -> Any:  # several times faster than copy.deepcopy, which keeps a memo
    if type(value) is dict:
        fields = cast(Schema, value)
        return {name: _copy(item) if type(item) in _CONTAINERS else item for name, item in fields.items()}
    return [_copy(item) for item in cast(list[Any], value)] if type(value) is list else value


# ---- what a model sent


def read_arguments(call: ToolCall) -> tuple[dict[str, Any], tuple[Repair, ...]]:
    """Return a call's arguments as an object, and the repairs of their text. Raises InvalidArguments."""
    if call.arguments is not None:
        return call.arguments, ()
    text = call.raw
    if text is None or not text.strip():  # providers send "" for a call without arguments
        return {}, ()
    try:
        value, repairs = tolerant_loads(text)
    except ValueError as e:
        raise InvalidArguments([Issue("$", f"not valid JSON: {e}")]) from None
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        raise InvalidArguments([Issue("$", f"expected a JSON object, got {json_type_name(value)}")])
    return cast(dict[str, Any], value), tuple(Repair("arguments", call.name, repair) for repair in repairs)


def repair_arguments(
    arguments: dict[str, Any], binder: ArgumentBinder, tool_name: str
) -> tuple[dict[str, Any], dict[str, Any], tuple[Repair, ...]]:
    """Repair arguments that the binder refused: (arguments, values, repairs).

    Raises InvalidArguments if that fails.

    Names come first: those that differ only in case are corrected, unknown ones dropped unless the tool
    judges them itself. Values are converted only if that was not enough.
    """
    renamed, notes = rename_arguments(arguments, binder.schema)
    unknown: list[str] = []
    if not binder.allows_extra:
        unknown = [key for key in renamed if key not in binder.parameter_names]
        notes += tuple(f"$.{key}: not a parameter; dropped" for key in unknown)
        renamed = {key: value for key, value in renamed.items() if key in binder.parameter_names}
    values: dict[str, Any] | None = None
    repaired = renamed
    if notes:  # without a rename nothing has changed: the caller has already tried these arguments
        values = binder.bind(renamed)
    if values is None:
        repaired, conversions = coerce(renamed, binder.schema)
        notes += conversions
        if conversions:
            values = binder.bind(repaired)
    if values is not None:
        return repaired, values, tuple(Repair("arguments", tool_name, note) for note in notes)
    # Report the arguments as the model wrote them; a converted value would confuse it.
    issues = binder.find_issues(renamed) or binder.find_issues(repaired) or [Issue("$", "invalid arguments")]
    for key in unknown:
        guess = did_you_mean(suggest(key, binder.parameter_names - renamed.keys(), limit=1))
        hint = f"; {guess}" if guess else ""
        issues.append(Issue(f"$.{key}", f"is not a parameter{hint}"))
    raise InvalidArguments(issues)


# ---- explanations for the model


def explain_issues(definition: ToolDefinition, issues: Iterable[Issue]) -> str:
    """Explain what was wrong with a call, what the tool expects, and give a valid example."""
    schema = definition.parameters or {}
    texts = [truncate(str(issue), MAX_ISSUE_LENGTH) for issue in issues]
    lines = [f"The call to {definition.name} was not run because its arguments are invalid:"]
    lines += [
        f"- {text.removeprefix('$').removeprefix('.').removeprefix(': ')}" for text in texts[:MAX_ISSUES]
    ]
    if len(texts) > MAX_ISSUES:
        lines.append(f"- and {len(texts) - MAX_ISSUES} more")
    lines.append(f"Parameters: {summarize_parameters(schema) or 'none'}")
    example = definition.examples[0].input if definition.examples else make_example(schema)
    lines.append(f"Example: {dumps_text(example)}")
    return "\n".join(lines)


def summarize_parameters(schema: Schema) -> str:
    """Return the parameters in one line: `city (string, required), days (integer, default 3)`."""
    document = SchemaDocument(schema)
    required = schema.get("required", ())
    parts: list[str] = []
    for name, sub in schema.get("properties", {}).items():
        text = _describe_type(sub, document, 0)
        if name in required:
            text += ", required"
        elif isinstance(sub, dict) and "default" in sub:
            text += f", default {truncate(dumps_text(cast(Schema, sub)['default']), 40)}"
        parts.append(f"{name} ({text})")
    return ", ".join(parts)


def _describe_type(node: Any, document: SchemaDocument, depth: int) -> str:
    node = document.follow(node)
    if depth > MAX_DEPTH or not node:
        return "any"
    if "enum" in node:
        return _describe_choices(node["enum"])
    if "const" in node:
        return _describe_choices([node["const"]])
    branches = node.get("anyOf") or node.get("oneOf")
    if branches:
        forms = [_describe_type(branch, document, depth + 1) for branch in branches]
        return " or ".join(dict.fromkeys(forms))
    types = allowed_types(node)
    if types == ["array"] and node.get("items"):
        return f"array of {_describe_type(node['items'], document, depth + 1)}"
    if types == ["object"] and node.get("properties"):
        members = [
            f"{name}: {_describe_type(sub, document, depth + 1)}" for name, sub in node["properties"].items()
        ]
        return truncate("object {" + ", ".join(members) + "}", MAX_ISSUE_LENGTH)
    text = " or ".join(types)
    if isinstance(node.get("format"), str):
        text += f" ({node['format']})"
    return text or "any"


def _describe_choices(choices: list[Any]) -> str:
    text = "one of " + ", ".join(map(dumps_text, choices[:_MAX_CHOICES]))
    return f"{text} …" if len(choices) > _MAX_CHOICES else text


def make_example(node: Any, document: SchemaDocument | None = None, depth: int = 0) -> Any:
    """Return a value that a schema allows, as far as that is easy to see: required parameters only."""
    document = document or SchemaDocument(node)
    node = document.follow(node)
    # The author's own values are better examples than anything derived from types.
    for key in ("default", "const"):
        if key in node:
            return node[key]
    value = _first_item(node, ("examples", "enum"))
    if value is not _NO_VALUE:
        return value
    branch = _first_item(node, ("anyOf", "oneOf", "allOf"))
    if branch is not _NO_VALUE:
        return make_example(branch, document, depth + 1) if depth < MAX_DEPTH else None
    types = allowed_types(node)
    if types:
        return _make_value(types[0], node, document, depth)
    type_name = "string" if depth else "object"
    return _make_value(type_name, node, document, depth)


def _first_item(node: Schema, keys: tuple[str, ...]) -> Any:
    """Return the first item of the first of these keywords that has any; `_NO_VALUE` if none has."""
    for key in keys:
        items = node.get(key)
        if isinstance(items, list) and items:
            return cast(list[Any], items)[0]
    return _NO_VALUE


def _make_value(type_name: str, node: Schema, document: SchemaDocument, depth: int) -> Any:
    match type_name:
        case "object":
            return _make_object(node, document, depth)
        case "array":
            return _make_array(node, document, depth)
        case "integer" | "number":
            return _make_number(node)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _FORMAT_EXAMPLES.get(node.get("format", ""), "text")


def _make_object(node: Schema, document: SchemaDocument, depth: int) -> dict[str, Any]:
    if depth >= MAX_DEPTH:
        return {}
    properties = node.get("properties", {})
    return {
        name: make_example(properties.get(name), document, depth + 1) for name in node.get("required", ())
    }


def _make_array(node: Schema, document: SchemaDocument, depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        return []
    prefix = [*node.get("prefixItems", ())]
    count = max(1, min(int(node.get("minItems", 1)), 3))
    forms = [*prefix, *[node.get("items")] * (count - len(prefix))]
    return [make_example(form, document, depth + 1) for form in forms]


def _make_number(node: Schema) -> Any:
    if "minimum" in node:
        return node["minimum"]
    if "exclusiveMinimum" in node:
        return node["exclusiveMinimum"] + 1
    if "maximum" in node:
        return min(1, node["maximum"])
    return min(1, node["exclusiveMaximum"] - 1) if "exclusiveMaximum" in node else 1
