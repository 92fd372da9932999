"""A Python function as a JSON Schema, and a binder that turns a model's arguments into the function's own values.

Laws: the only importer of pydantic, which is loaded when a definition is first needed. All reflection happens here, once;
binding a call runs one prebuilt validator. A function that cannot be a tool is NotATool, and the message says what to do.

The parameters become a TypedDict: names that pydantic models reserve are free there, and a parameter that was not given stays
absent, so that the function's own default holds.
"""

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from types import GenericAlias, SimpleNamespace, UnionType
from typing import Annotated, Any, NamedTuple, Union, Unpack, cast, get_args, get_origin, get_type_hints

from toolglot.errors import InvalidTool
from toolglot.jsontext import dumps_text
from toolglot.schema.arguments import Issue, deep_copy
from toolglot.schema.docstrings import parse_docstring
from toolglot.schema.json_schema import LIST_KEYWORDS, MAP_KEYWORDS, SUBSCHEMA_KEYWORDS, Schema, iter_nodes

__all__ = ["FunctionSchema", "derive", "function_doc", "function_name", "list_parameters", "strip_titles"]

Function = Callable[..., Any]
Validate = Callable[[Any], dict[str, Any]]

_TYPE_ADVICE = "give it a type with a JSON form (str, int, list, a dataclass, a TypedDict, a pydantic model …)"
# Values that are read once and not held: a model cannot send them.
_STREAM_TYPES = frozenset(
    {"Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "AsyncIterable", "Awaitable", "Coroutine", "type"}
)
_EMPTY = inspect.Parameter.empty
_ABSENT = object()


class _Parameter(NamedTuple):
    name: str
    annotation: Any
    default: Any
    description: str = ""

    @property
    def is_required(self) -> bool:
        return self.default is _EMPTY


class FunctionSchema:
    """What was found out about a function.

    `context` is its hidden parameter, `positional` are the names that must be given by place, `extra` tells whether it takes
    any name, `extras` checks these. `defaults` are what Python itself would not fill in. `fills`: pydantic fills in some.
    `loose`: some values are any JSON, which pydantic hands on as it is.
    """

    __slots__ = (
        "context",
        "defaults",
        "description",
        "extra",
        "extras",
        "fills",
        "known",
        "loose",
        "positional",
        "schema",
        "validate",
    )

    def __init__(self, description: str, schema: Schema, validate: Validate) -> None:
        self.description, self.schema, self.validate = description, schema, validate
        self.known = frozenset(schema["properties"])
        self.context: str | None = None
        self.positional: tuple[str, ...] = ()
        self.extra = self.fills = False
        self.loose = any(not at.node or at.node.get("additionalProperties") is True for at in iter_nodes(schema))
        self.extras: Validate | None = None
        self.defaults: dict[str, Any] = {}

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The function's keyword arguments; None where the arguments are not as they should be."""
        try:
            if self.loose:
                arguments = deep_copy(arguments)
            values = self.validate(arguments)
            if (self.fills or len(values) != len(arguments)) and not arguments.keys() <= self.known:
                if not self.extra:
                    return None
                more = {name: value for name, value in arguments.items() if name not in self.known}
                values |= self.extras(more) if self.extras else more
        except Exception:  # a caller's own validators may raise anything; `wrongs` tells what
            return None
        return self.defaults | values if self.defaults else values

    def find_issues(self, arguments: dict[str, Any]) -> list[Issue]:
        """Why arguments do not fit."""
        from pydantic import ValidationError

        found: list[Issue] = []
        more = {name: value for name, value in arguments.items() if name not in self.known}
        for validate, values in ((self.validate, arguments), (self.extras, more)):
            try:
                _ = validate(values) if validate else None
            except ValidationError as e:
                found += _group_issues(e.errors(include_url=False, include_context=False), values)
            except Exception as e:
                found.append(Issue("$", f"{type(e).__name__}: {e}"))
        return found


def derive(
    function: Function, *, context_type: type | None = None, namespace: Mapping[str, Any] | None = None
) -> FunctionSchema:
    """The schema and the binder of a function.

    A parameter annotated with `hidden` is not shown. `namespace` helps to resolve annotations that are text.
    """
    target, where = _unwrap_function(function), function_name(function)
    described, notes = parse_docstring(function_doc(function))
    found, extra = list_parameters(function)
    hints = _resolve_annotations(found, extra, target, where, context_type, namespace or {})
    context = next((p.name for p in found if context_type and _accepts_type(hints[p.name], context_type)), None)
    shown = [_make_parameter(p, hints[p.name], notes, where) for p in found if p.name != context]
    unpacked = _unpack_parameters(hints[extra.name], notes) if extra else []
    made = _build_schema(described, [*shown, *unpacked], where)
    made.context = context
    made.positional = tuple(p.name for p in found if p.kind is p.POSITIONAL_ONLY)
    made.defaults = {p.name: p.default for p in found if p.name in made.positional and p.default is not _EMPTY}
    made.fills = any(hasattr(p.default, "get_default") for p in shown)
    if extra and not unpacked:
        _add_extra_parameters(made, hints[extra.name], where)
    return made


# ---- the signature


def function_name(function: Function) -> str:
    """The name under which people know a function."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def _unwrap_function(function: Any) -> Any:
    """The plain function that holds annotations, globals and the docstring."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if inspect.isclass(function):
        return function.__init__
    if not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def function_doc(function: Any) -> str | None:
    """The docstring that tells what calling does."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if inspect.isclass(function) or inspect.isroutine(function):
        return function.__doc__
    return _unwrap_function(function).__doc__ or type(function).__doc__


def list_parameters(function: Function) -> tuple[list[inspect.Parameter], inspect.Parameter | None]:
    """The parameters that can be given by a model, and the one that takes any other name. What a partial fixed is neither."""
    where = function_name(function)
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InvalidTool(f"{where} cannot be a tool: Python cannot tell its parameters; wrap it in a function") from None
    if found and found[0].name in ("self", "cls"):
        found = found[1:]
    fixed = cast("partial[Any]", function).keywords if isinstance(function, partial) else {}
    found = [p for p in found if p.name not in fixed]
    for p in found:
        if p.kind is p.VAR_POSITIONAL:
            why = "a model gives arguments by name; use a list parameter instead"
            raise InvalidTool(f"{where} cannot be a tool: it takes *{p.name}, and {why}")
    extra = next((p for p in found if p.kind is p.VAR_KEYWORD), None)
    return [p for p in found if p is not extra], extra


def _resolve_annotations(
    parameters: list[inspect.Parameter],
    extra_parameter: inspect.Parameter | None,
    target: Any,
    label: str,
    context_type: type | None,
    namespace: Mapping[str, Any],
) -> dict[str, Any]:
    """The annotations as types, also where they are text. No annotation: any JSON value."""
    said = {
        p.name: p.annotation
        for p in (*parameters, *([extra_parameter] if extra_parameter else ()))
        if p.annotation is not _EMPTY
    }
    known = getattr(target, "__globals__", {})
    local = ChainMap(dict(namespace), _closure_names(target))
    every = dict.fromkeys((*(p.name for p in parameters), *([extra_parameter.name] if extra_parameter else ())), Any)
    try:
        return every | _evaluate_annotations(said, known, local)
    except Exception:
        if context_type:
            known = {context_type.__name__: context_type} | known
        return every | {name: _evaluate_annotation(name, said[name], known, local, label) for name in said}


def _evaluate_annotations(annotations: dict[str, Any], global_names: dict[str, Any], local_names: Any) -> dict[str, Any]:
    return get_type_hints(SimpleNamespace(__annotations__=annotations), global_names, local_names, include_extras=True)


def _evaluate_annotation(name: str, annotation: Any, global_names: dict[str, Any], local_names: Any, label: str) -> Any:
    try:
        return _evaluate_annotations({name: annotation}, global_names, local_names)[name]
    except Exception as e:
        why = f"its type {annotation!r} cannot be resolved ({e})"
        raise InvalidTool(f"parameter {name!r} of {label}: {why}; define or import it at the top of the module") from None


def _closure_names(target: Any) -> dict[str, Any]:
    names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    found = {param.__name__: param for param in getattr(target, "__type_params__", ())}
    for name, cell in zip(names, getattr(target, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet filled
            continue
    return found


def _accepts_type(annotation: Any, context_type: type) -> bool:
    """Whether a parameter is for the hidden value: its type, or a union with it."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(_accepts_type(part, context_type) for part in get_args(annotation))
    return inspect.isclass(annotation) and issubclass(annotation, context_type)


def _make_parameter(parameter: inspect.Parameter, hint: Any, descriptions: dict[str, str], label: str) -> _Parameter:
    """A parameter with its type made fit for pydantic, its default and its description."""
    from pydantic.fields import FieldInfo

    default: Any = parameter.default
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    fields = [mark for mark in (*metadata, default) if isinstance(mark, FieldInfo)]
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], _EMPTY
    for field in fields:
        if default is _EMPTY and not field.is_required():
            default = field
    hint = _replace_iterable(hint, parameter.name, label)
    hint = _make_optional(hint) if default is None else hint
    said = next((text for mark in metadata if (text := _annotation_text(mark))), "")
    return _Parameter(parameter.name, hint, default, said or descriptions.get(parameter.name, ""))


def _unpack_parameters(hint: Any, descriptions: dict[str, str]) -> list[_Parameter]:
    """The parameters of `**options: Unpack[Options]`."""
    shape = get_args(hint)[0] if getattr(get_origin(hint), "__name__", "") == "Unpack" or get_origin(hint) is Unpack else None
    fields: dict[str, Any] = get_type_hints(shape, include_extras=True) if shape else {}
    needed = getattr(shape, "__required_keys__", ())
    return [_Parameter(n, t, _EMPTY if n in needed else _ABSENT, descriptions.get(n, "")) for n, t in fields.items()]


def _make_optional(hint: Any) -> Any:
    """A type that takes None, as a default of None asks for."""
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return Annotated[_make_optional(base), *marks]
    takes = hint in (Any, object, None, type(None)) or type(None) in get_args(hint)
    return hint if takes else Union[hint, None]  # noqa: UP007  # not every form of a type has a `|`


def _annotation_text(mark: Any) -> str:
    """A description beside a type: `Annotated[int, "how many"]`, `Annotated[int, Doc("how many")]`."""
    said = mark if isinstance(mark, str) else getattr(mark, "documentation", "")
    return said if isinstance(said, str) else ""


def _replace_iterable(hint: Any, name: str, label: str) -> Any:
    """Iterable as a list; what flows cannot be sent at all."""
    origin = get_origin(hint)
    kind = getattr(origin or hint, "__name__", "")
    if kind in _STREAM_TYPES and getattr(origin or hint, "__module__", "") in ("collections.abc", "typing", "builtins"):
        raise InvalidTool(f"parameter {name!r} of {label}: {_format_type(hint)} has no JSON form; {_TYPE_ADVICE}")
    if kind == "Iterable":
        return list[get_args(hint)[0]] if get_args(hint) else list[Any]
    return hint


def _format_type(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


# ---- schema and validator, by pydantic


def _make_adapter(fields: dict[str, Any]) -> Any:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    shape: Any = TypedDict("Arguments", fields)  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportGeneralTypeIssues]
    shape.__pydantic_config__ = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    return TypeAdapter(shape)


def _build_schema(description: str, parameters: list[_Parameter], label: str) -> FunctionSchema:
    from typing import NotRequired

    fields = {p.name: p.annotation if p.is_required else NotRequired[p.annotation] for p in parameters}
    try:
        adapter = _make_adapter(fields)
        schema = adapter.json_schema()
    except Exception as e:
        raise _explain_refusal(parameters, label, e) from None
    schema = strip_titles(schema)
    schema.pop("description", None)
    properties = {"properties": schema.get("properties", {})}
    if len(properties["properties"]) != len(parameters):
        raise InvalidTool(f"{label} cannot be a tool: two of its parameters have one name; choose other aliases")
    for p, node in zip(parameters, properties["properties"].values(), strict=True):
        _annotate_property(p, node)
    return FunctionSchema(
        description,
        {"type": "object"} | properties | schema | {"additionalProperties": False},
        adapter.validator.validate_python,
    )


def _explain_refusal(parameters: list[_Parameter], label: str, error: Exception) -> InvalidTool:
    """Which parameter it was that pydantic did not take."""
    for p in parameters:
        try:
            _make_adapter({p.name: p.annotation}).json_schema()
        except Exception as e:
            why = str(e).partition("\n")[0].partition(" Set `arbitrary")[0].rstrip(".")
            return InvalidTool(
                f"parameter {p.name!r} of {label}: {_format_type(p.annotation)} has no JSON form ({why}); {_TYPE_ADVICE}"
            )
    return InvalidTool(f"{label} cannot be a tool: {str(error).partition(chr(10))[0]}")


def strip_titles(node: Any) -> Any:
    """A schema without the titles that pydantic makes up."""
    if not isinstance(node, dict):
        return node
    out: Schema = {}
    for key, value in cast(Schema, node).items():
        if key in MAP_KEYWORDS:
            out[key] = {name: strip_titles(sub) for name, sub in value.items()}
        elif key in LIST_KEYWORDS:
            out[key] = [strip_titles(sub) for sub in value]
        elif key != "title":
            out[key] = strip_titles(value) if key in SUBSCHEMA_KEYWORDS else value
    return out


def _annotate_property(parameter: _Parameter, node: Schema) -> None:
    """The description and the default of a parameter, where its type does not tell them."""
    from pydantic_core import to_jsonable_python

    if parameter.description:
        node.setdefault("description", parameter.description)
    if parameter.is_required or "default" in node or hasattr(parameter.default, "is_required"):
        return
    if isinstance(parameter.default, float) and not isfinite(parameter.default):
        return
    try:
        node["default"] = to_jsonable_python(parameter.default, bytes_mode="base64")
    except ValueError:
        return  # a default that JSON cannot say is the function's own business


def _add_extra_parameters(derived: FunctionSchema, hint: Any, label: str) -> None:
    """`**kwargs`: any other name, with values of its type."""
    from pydantic import TypeAdapter

    derived.extra = derived.loose = True
    if hint is Any:
        derived.schema["additionalProperties"] = True
        return
    try:
        shape: Any = GenericAlias(dict, (str, hint))
        adapter: Any = TypeAdapter(shape)
        schema = strip_titles(adapter.json_schema())
    except Exception as e:
        raise InvalidTool(
            f"the type of the ** parameter of {label} has no JSON form ({str(e).partition(chr(10))[0]})"
        ) from None
    derived.schema["additionalProperties"] = schema.get("additionalProperties", True)
    if "$defs" in schema:
        derived.schema["$defs"] = schema["$defs"] | derived.schema.get("$defs", {})
    derived.extras = adapter.validator.validate_python


# ---- what pydantic found wrong, in words for the model


def _group_issues(errors: list[Any], arguments: Any) -> list[Issue]:
    """One Wrong for each place: a union complains once for each of its branches."""
    places: dict[str, list[str]] = {}
    for error in errors:
        path = _format_location(error["loc"], arguments)
        what = "is missing" if error["type"] == "missing" else _describe_error(error)
        if what not in places.setdefault(path, []):
            places[path].append(what)
    return [Issue(path, "; or ".join(whats)) for path, whats in places.items()]


def _describe_error(error: Any) -> str:
    try:
        text = dumps_text(error["input"])
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = repr(error["input"])
    return f"got {text if len(text) <= 60 else text[:57] + '…'}: {error['msg'].removeprefix('Value error, ')}"


def _format_location(steps: tuple[int | str, ...], value: Any) -> str:
    """The path of an error in the arguments; names of union branches are not part of it."""
    path = "$"
    for number, step in enumerate(steps):
        if isinstance(step, int) and isinstance(value, list) and step < len(cast(list[Any], value)):
            path, value = f"{path}[{step}]", cast(list[Any], value)[step]
        elif isinstance(step, str) and isinstance(value, dict):
            inside = cast(Schema, value)
            if step not in inside and number < len(steps) - 1:
                continue
            path, value = f"{path}.{step}", inside.get(step)
    return path
