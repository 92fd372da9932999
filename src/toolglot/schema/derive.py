"""Derives a JSON Schema from a Python function, with a binder that turns a model's arguments into the
function's values.

All reflection happens once, in `derive`; binding a call only runs a prebuilt pydantic validator. pydantic is
imported with the first derived tool. A function that cannot become a tool raises InvalidTool, whose message
says what to do.

The parameters become a TypedDict rather than a model: names that pydantic models reserve (`copy`, `schema`)
are free there, and a parameter that was not passed stays absent, so that the function's own default applies.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Union, cast, get_args, get_origin

from toolglot.errors import InvalidTool
from toolglot.schema.arguments import Issue, deep_copy
from toolglot.schema.coerce import preview_value
from toolglot.schema.docstrings import parse_docstring
from toolglot.schema.json_schema import Schema, drop_keywords, iter_nodes, map_children
from toolglot.schema.signatures import (
    Function,
    evaluate_annotations,
    function_doc,
    function_name,
    list_parameters,
)
from toolglot.schema.typed_dicts import replace_typed_dicts

__all__ = ["FunctionSchema", "Internal", "derive", "strip_titles"]

Validate = Callable[[Any], dict[str, Any]]

_TYPE_ADVICE = "use a type with a JSON form (str, int, list, a dataclass, a TypedDict, a pydantic model …)"
# Values that are consumed as they are read: a model cannot send one.
_STREAM_TYPES = frozenset(
    {
        "Iterator",
        "Generator",
        "AsyncIterator",
        "AsyncGenerator",
        "AsyncIterable",
        "Awaitable",
        "Coroutine",
        "type",
    }
)
_EMPTY = inspect.Parameter.empty


class Internal:
    """Marks a parameter that models are not shown: `Annotated[int, Internal]`.

    The value is validated and bound when a caller (a facade, a program) passes it. It needs a default.
    """


@dataclass(slots=True, eq=False)
class FunctionSchema:
    """The JSON Schema of a function, and the binder of its arguments."""

    description: str
    schema: Schema
    validate: Validate
    parameter_names: frozenset[str]
    """All names that can be bound: those in the schema and the internal ones."""
    context_parameter: str | None = None
    """The parameter that receives the call's context."""
    positional_names: tuple[str, ...] = ()
    """Positional-only parameters."""
    positional_defaults: dict[str, Any] = field(default_factory=dict[str, Any])
    """Their defaults: a later one can only be passed if all before it are."""
    has_untyped: bool = False
    """Some values are any JSON, which pydantic passes on without copying."""
    allows_extra: bool = False
    """The function has a `**` parameter."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the function's keyword arguments, or None if the arguments are invalid."""
        try:
            # The function may change its arguments; the conversation must keep what the model sent.
            values = self.validate(deep_copy(arguments) if self.has_untyped else arguments)
        except Exception:  # a caller's own validators may raise anything; `find_issues` reports it
            return None
        return self.positional_defaults | values if self.positional_defaults else values

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Explain why arguments are invalid."""
        from pydantic import ValidationError

        try:
            self.validate(arguments)
        except ValidationError as e:
            return _group_issues(e.errors(include_url=False, include_context=False), arguments)
        except Exception as e:
            return [Issue("$", f"{type(e).__name__}: {e}")]
        return []


class _Parameter(NamedTuple):
    """A parameter with its type prepared for pydantic."""

    name: str
    annotation: Any
    default: Any
    description: str = ""
    is_internal: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is _EMPTY

    @classmethod
    def from_signature(
        cls, parameter: inspect.Parameter, hint: Any, description: str, label: str
    ) -> "_Parameter":
        from pydantic.fields import FieldInfo
        from pydantic.json_schema import SkipJsonSchema

        default: Any = parameter.default
        metadata = list(get_args(hint)[1:]) if get_origin(hint) is Annotated else []
        fields = [mark for mark in metadata if isinstance(mark, FieldInfo)]
        if isinstance(default, FieldInfo):  # `x: int = Field(…)`
            fields.append(default)
            hint = Annotated[hint, default]
            default = _EMPTY
        if default is _EMPTY:
            with_default = [field for field in fields if not field.is_required()]
            default = with_default[-1] if with_default else _EMPTY
        is_internal = any(mark is Internal or isinstance(mark, Internal) for mark in metadata)
        if is_internal and default is _EMPTY:
            raise InvalidTool(f"parameter {parameter.name!r} of {label} is internal: give it a default")
        hint = _replace_iterable(hint, parameter.name, label)
        if default is None:
            hint = _make_optional(hint)
        if is_internal:
            hint = Annotated[hint, SkipJsonSchema()]  # pyright: ignore[reportCallIssue]
        return cls(parameter.name, hint, default, _find_description(metadata) or description, is_internal)

    def annotate(self, node: Schema) -> None:
        """Add the description and the default to the schema, where the type does not state them."""
        from pydantic_core import to_jsonable_python

        if self.description:
            node.setdefault("description", self.description)
        if self.is_required or "default" in node or hasattr(self.default, "is_required"):
            return
        if isinstance(self.default, float) and not isfinite(self.default):
            return
        try:
            node["default"] = to_jsonable_python(self.default, bytes_mode="base64")
        except ValueError:
            return  # a sentinel or another default without a JSON form


def _find_description(metadata: list[Any]) -> str:
    """Return the text of `Annotated[int, "how many"]` or `Annotated[int, Doc("how many")]`."""
    for mark in metadata:
        text = mark if isinstance(mark, str) else getattr(mark, "documentation", "")
        if isinstance(text, str) and text:
            return text
    return ""


def derive(
    function: Function, *, context_type: type | None = None, namespace: Mapping[str, Any] | None = None
) -> FunctionSchema:
    """Return the schema and the binder of a function.

    Args:
        function: Any callable.
        context_type: The parameter annotated with this type receives the call's context and is not shown.
        namespace: More names for evaluating string annotations.
    """
    label = function_name(function)
    description, descriptions = parse_docstring(function_doc(function))
    signature, extra = list_parameters(function)
    annotated = [*signature, extra] if extra else signature
    hints = evaluate_annotations(function, annotated, context_type, namespace or {})
    context: str | None = None
    if context_type:
        contexts = [p.name for p in signature if _accepts_type(hints[p.name], context_type)]
        context = contexts[0] if contexts else None
    parameters: list[_Parameter] = []
    for parameter in signature:
        name = parameter.name
        if name == context:
            continue
        shown_text = descriptions.get(name, "")
        parameters.append(_Parameter.from_signature(parameter, hints[name], shown_text, label))
    extra_type: Any = hints[extra.name] if extra else _EMPTY
    derived = _build_schema(description, parameters, extra_type, label)
    derived.context_parameter = context
    positional = [p for p in signature if p.kind is p.POSITIONAL_ONLY]
    derived.positional_names = tuple(p.name for p in positional)
    derived.positional_defaults = {p.name: p.default for p in positional if p.default is not _EMPTY}
    return derived


# ---- types


def _accepts_type(annotation: Any, context_type: type) -> bool:
    """Whether an annotation is the context's type, or a union with it."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(_accepts_type(part, context_type) for part in get_args(annotation))
    kind = get_origin(annotation) or annotation  # Context[Data]
    return inspect.isclass(kind) and issubclass(kind, context_type)


def _allows_anything(hint: Any) -> bool:
    """Whether values of a type may hold any JSON."""
    return hint in (Any, object, dict, list) or any(map(_allows_anything, get_args(hint)))


def _make_optional(hint: Any) -> Any:
    """Add None to a type: `x: int = None` means that None is allowed."""
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return Annotated[_make_optional(base), *marks]
    allows_none = hint in (Any, object, None, type(None)) or type(None) in get_args(hint)
    return hint if allows_none else Union[hint, None]  # noqa: UP007  # string and special forms have no `|`


def _replace_iterable(hint: Any, name: str, label: str) -> Any:
    """Turn Iterable into list: pydantic would validate it lazily, while the function runs. Refuse streams."""
    origin = get_origin(hint)
    type_name = getattr(origin or hint, "__name__", "")
    module = getattr(origin or hint, "__module__", "")
    if type_name in _STREAM_TYPES and module in ("collections.abc", "typing", "builtins"):
        raise InvalidTool(
            f"parameter {name!r} of {label}: {_format_type(hint)} has no JSON form; {_TYPE_ADVICE}"
        )
    if type_name != "Iterable":
        return hint
    arguments = get_args(hint)
    return list[arguments[0]] if arguments else list[Any]


def _format_type(hint: Any) -> str:
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


# ---- the schema and the validator


def _make_adapter(fields: dict[str, Any], extra_type: Any) -> Any:
    """Return pydantic's adapter of the parameters as a TypedDict.

    Other names have `extra_type`, or are refused (PEP 728).
    """
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict  # before Python 3.12 pydantic refuses the one of `typing`

    options: dict[str, Any] = {"closed": True}
    if extra_type is not _EMPTY:
        options = {"extra_items": replace_typed_dicts(extra_type)}
    fields = {name: replace_typed_dicts(hint) for name, hint in fields.items()}
    shape: Any = TypedDict("Arguments", fields, **options)  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportGeneralTypeIssues]
    shape.__pydantic_config__ = ConfigDict(
        val_json_bytes="base64", ser_json_bytes="base64", allow_inf_nan=False
    )
    return TypeAdapter(shape)


def _build_schema(
    description: str, parameters: list[_Parameter], extra_type: Any, label: str
) -> FunctionSchema:
    fields: dict[str, Any] = {}
    for p in parameters:
        fields[p.name] = p.annotation if p.is_required else NotRequired[p.annotation]
    try:
        adapter = _make_adapter(fields, extra_type)
        schema = strip_titles(adapter.json_schema())
    except Exception as error:
        _blame_type(parameters, extra_type, label)
        raise InvalidTool(f"{label} cannot be a tool: {str(error).partition(chr(10))[0]}") from None
    shown = [p for p in parameters if not p.is_internal]
    properties: Schema = schema.get("properties", {})
    if len(properties) != len(shown):
        raise InvalidTool(
            f"{label} cannot be a tool: two of its parameters have the same name; choose other aliases"
        )
    has_untyped = any(not at.node or at.node.get("additionalProperties") is True for at in iter_nodes(schema))
    extra = schema["additionalProperties"]
    # the description is that of the TypedDict
    others = drop_keywords(schema, "description", "additionalProperties")
    schema = {"type": "object", "properties": properties, **others, "additionalProperties": extra}
    for p, node in zip(shown, properties.values(), strict=True):
        p.annotate(node)
    names = {*properties}
    for p in parameters:
        if p.is_internal:  # its type is not in the schema
            names.add(p.name)
            has_untyped = has_untyped or _allows_anything(p.annotation)
    allows_extra = extra_type is not _EMPTY
    validate = adapter.validator.validate_python
    return FunctionSchema(
        description, schema, validate, frozenset(names), has_untyped=has_untyped, allows_extra=allows_extra
    )


def _blame_type(parameters: list[_Parameter], extra_type: Any, label: str) -> None:
    """Raise InvalidTool for the first type that pydantic refuses."""
    types = {f"parameter {p.name!r}": p.annotation for p in parameters}
    if extra_type is not _EMPTY:
        types["the ** parameter"] = extra_type
    for owner, annotation in types.items():
        try:
            _make_adapter({"x": annotation}, _EMPTY).json_schema()
        except Exception as e:
            reason = str(e).partition("\n")[0].partition(" Set `arbitrary")[0].rstrip(".")
            type_name = _format_type(annotation)
            raise InvalidTool(
                f"{owner} of {label}: {type_name} has no JSON form ({reason}); {_TYPE_ADVICE}"
            ) from None


def strip_titles(node: Any) -> Any:
    """Remove the titles that pydantic generates from names, and describe attributes where the model looks for
    it.

    Titles tell a model nothing; the docstring of a class may describe its attributes.
    """
    if not isinstance(node, dict):
        return node
    out = drop_keywords(map_children(cast(Schema, node), lambda sub, key, name: strip_titles(sub)), "title")
    if "properties" in out and "description" in out:
        out["description"], descriptions = parse_docstring(out["description"])
        for name in descriptions.keys() & out["properties"].keys():
            out["properties"][name].setdefault("description", descriptions[name])
    return out


# ---- pydantic's errors, for the model


def _group_issues(errors: list[Any], arguments: Any) -> list[Issue]:
    """Return one Issue per path: pydantic reports one error for each branch of a union."""
    messages: dict[str, list[str]] = {}
    for error in errors:
        path = _format_location(error["loc"], arguments)
        message = "is missing"
        if error["type"] != "missing":
            message = f"got {preview_value(error['input'], 60)}: {error['msg'].removeprefix('Value error, ')}"
        if message not in messages.setdefault(path, []):
            messages[path].append(message)
    return [Issue(path, "; or ".join(texts)) for path, texts in messages.items()]


def _format_location(steps: tuple[int | str, ...], value: Any) -> str:
    """Return the path of an error in the arguments. pydantic's locations also hold the names of union
    branches: skip them.
    """
    path = "$"
    last = len(steps) - 1
    for number, step in enumerate(steps):
        if isinstance(step, int) and isinstance(value, list):
            items = cast(list[Any], value)
            if step < len(items):
                path = f"{path}[{step}]"
                value = items[step]
        elif isinstance(step, str) and isinstance(value, dict):
            members = cast(Schema, value)
            if step in members or number == last:
                path = f"{path}.{step}"
                value = members.get(step)
    return path
