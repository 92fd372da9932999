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

from toolglot.errors import NotATool
from toolglot.jsontext import dumps_text
from toolglot.schema.arguments import Wrong, owned
from toolglot.schema.docstring import read_docstring
from toolglot.schema.plain import LISTS, MAPS, NODES, Schema, walk

__all__ = ["Derived", "derive", "doc_of", "name_of", "parameters_of", "untitled"]

Function = Callable[..., Any]
Validate = Callable[[Any], dict[str, Any]]

_ADVICE = "give it a type with a JSON form (str, int, list, a dataclass, a TypedDict, a pydantic model …)"
# Values that are read once and not held: a model cannot send them.
_FLOWS = frozenset(
    {"Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "AsyncIterable", "Awaitable", "Coroutine", "type"}
)
_EMPTY = inspect.Parameter.empty
_ABSENT = object()


class _Parameter(NamedTuple):
    name: str
    annotation: Any
    default: Any
    notes: str = ""

    @property
    def required(self) -> bool:
        return self.default is _EMPTY


class Derived:
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
        self.loose = any(not at.node or at.node.get("additionalProperties") is True for at in walk(schema))
        self.extras: Validate | None = None
        self.defaults: dict[str, Any] = {}

    def fit(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The function's keyword arguments; None where the arguments are not as they should be."""
        try:
            if self.loose:
                arguments = owned(arguments)
            values = self.validate(arguments)
            if (self.fills or len(values) != len(arguments)) and not arguments.keys() <= self.known:
                if not self.extra:
                    return None
                more = {name: value for name, value in arguments.items() if name not in self.known}
                values |= self.extras(more) if self.extras else more
        except Exception:  # a caller's own validators may raise anything; `wrongs` tells what
            return None
        return self.defaults | values if self.defaults else values

    def wrongs(self, arguments: dict[str, Any]) -> list[Wrong]:
        """Why arguments do not fit."""
        from pydantic import ValidationError

        found: list[Wrong] = []
        more = {name: value for name, value in arguments.items() if name not in self.known}
        for validate, values in ((self.validate, arguments), (self.extras, more)):
            try:
                _ = validate(values) if validate else None
            except ValidationError as e:
                found += _wrongs(e.errors(include_url=False, include_context=False), values)
            except Exception as e:
                found.append(Wrong("$", f"{type(e).__name__}: {e}"))
        return found


def derive(function: Function, *, hidden: type | None = None, namespace: Mapping[str, Any] | None = None) -> Derived:
    """The schema and the binder of a function.

    A parameter annotated with `hidden` is not shown. `namespace` helps to resolve annotations that are text.
    """
    target, where = _target(function), name_of(function)
    described, notes = read_docstring(doc_of(function))
    found, extra = parameters_of(function)
    hints = _resolved(found, extra, target, where, hidden, namespace or {})
    context = next((p.name for p in found if hidden and _is(hints[p.name], hidden)), None)
    shown = [_parameter(p, hints[p.name], notes, where) for p in found if p.name != context]
    unpacked = _unpacked(hints[extra.name], notes) if extra else []
    made = _built(described, [*shown, *unpacked], where)
    made.context = context
    made.positional = tuple(p.name for p in found if p.kind is p.POSITIONAL_ONLY)
    made.defaults = {p.name: p.default for p in found if p.name in made.positional and p.default is not _EMPTY}
    made.fills = any(hasattr(p.default, "get_default") for p in shown)
    if extra and not unpacked:
        _add_extras(made, hints[extra.name], where)
    return made


# ---- the signature


def name_of(function: Function) -> str:
    """The name under which people know a function."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def _target(function: Any) -> Any:
    """The plain function that holds annotations, globals and the docstring."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if inspect.isclass(function):
        return function.__init__
    if not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def doc_of(function: Any) -> str | None:
    """The docstring that tells what calling does."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if inspect.isclass(function) or inspect.isroutine(function):
        return function.__doc__
    return _target(function).__doc__ or type(function).__doc__


def parameters_of(function: Function) -> tuple[list[inspect.Parameter], inspect.Parameter | None]:
    """The parameters that can be given by a model, and the one that takes any other name. What a partial fixed is neither."""
    where = name_of(function)
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise NotATool(f"{where} cannot be a tool: Python cannot tell its parameters; wrap it in a function") from None
    if found and found[0].name in ("self", "cls"):
        found = found[1:]
    fixed = cast("partial[Any]", function).keywords if isinstance(function, partial) else {}
    found = [p for p in found if p.name not in fixed]
    for p in found:
        if p.kind is p.VAR_POSITIONAL:
            why = "a model gives arguments by name; use a list parameter instead"
            raise NotATool(f"{where} cannot be a tool: it takes *{p.name}, and {why}")
    extra = next((p for p in found if p.kind is p.VAR_KEYWORD), None)
    return [p for p in found if p is not extra], extra


def _resolved(
    found: list[inspect.Parameter],
    extra: inspect.Parameter | None,
    target: Any,
    where: str,
    hidden: type | None,
    namespace: Mapping[str, Any],
) -> dict[str, Any]:
    """The annotations as types, also where they are text. No annotation: any JSON value."""
    said = {p.name: p.annotation for p in (*found, *([extra] if extra else ())) if p.annotation is not _EMPTY}
    known = getattr(target, "__globals__", {})
    local = ChainMap(dict(namespace), _closure(target))
    every = dict.fromkeys((*(p.name for p in found), *([extra.name] if extra else ())), Any)
    try:
        return every | _hints(said, known, local)
    except Exception:
        if hidden:
            known = {hidden.__name__: hidden} | known
        return every | {name: _hint(name, said[name], known, local, where) for name in said}


def _hints(said: dict[str, Any], known: dict[str, Any], local: Any) -> dict[str, Any]:
    return get_type_hints(SimpleNamespace(__annotations__=said), known, local, include_extras=True)


def _hint(name: str, said: Any, known: dict[str, Any], local: Any, where: str) -> Any:
    try:
        return _hints({name: said}, known, local)[name]
    except Exception as e:
        why = f"its type {said!r} cannot be resolved ({e})"
        raise NotATool(f"parameter {name!r} of {where}: {why}; define or import it at the top of the module") from None


def _closure(target: Any) -> dict[str, Any]:
    names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    found = {param.__name__: param for param in getattr(target, "__type_params__", ())}
    for name, cell in zip(names, getattr(target, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet filled
            continue
    return found


def _is(annotation: Any, hidden: type) -> bool:
    """Whether a parameter is for the hidden value: its type, or a union with it."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(_is(part, hidden) for part in get_args(annotation))
    return inspect.isclass(annotation) and issubclass(annotation, hidden)


def _parameter(found: inspect.Parameter, hint: Any, notes: dict[str, str], where: str) -> _Parameter:
    """A parameter with its type made fit for pydantic, its default and its description."""
    from pydantic.fields import FieldInfo

    default: Any = found.default
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    fields = [mark for mark in (*metadata, default) if isinstance(mark, FieldInfo)]
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], _EMPTY
    for field in fields:
        if default is _EMPTY and not field.is_required():
            default = field
    hint = _listed(hint, found.name, where)
    hint = _or_none(hint) if default is None else hint
    said = next((text for mark in metadata if (text := _text(mark))), "")
    return _Parameter(found.name, hint, default, said or notes.get(found.name, ""))


def _unpacked(hint: Any, notes: dict[str, str]) -> list[_Parameter]:
    """The parameters of `**options: Unpack[Options]`."""
    shape = get_args(hint)[0] if getattr(get_origin(hint), "__name__", "") == "Unpack" or get_origin(hint) is Unpack else None
    fields: dict[str, Any] = get_type_hints(shape, include_extras=True) if shape else {}
    needed = getattr(shape, "__required_keys__", ())
    return [_Parameter(n, t, _EMPTY if n in needed else _ABSENT, notes.get(n, "")) for n, t in fields.items()]


def _or_none(hint: Any) -> Any:
    """A type that takes None, as a default of None asks for."""
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return Annotated[_or_none(base), *marks]
    takes = hint in (Any, object, None, type(None)) or type(None) in get_args(hint)
    return hint if takes else Union[hint, None]  # noqa: UP007  # not every form of a type has a `|`


def _text(mark: Any) -> str:
    """A description beside a type: `Annotated[int, "how many"]`, `Annotated[int, Doc("how many")]`."""
    said = mark if isinstance(mark, str) else getattr(mark, "documentation", "")
    return said if isinstance(said, str) else ""


def _listed(hint: Any, name: str, where: str) -> Any:
    """Iterable as a list; what flows cannot be sent at all."""
    origin = get_origin(hint)
    kind = getattr(origin or hint, "__name__", "")
    if kind in _FLOWS and getattr(origin or hint, "__module__", "") in ("collections.abc", "typing", "builtins"):
        raise NotATool(f"parameter {name!r} of {where}: {_words(hint)} has no JSON form; {_ADVICE}")
    if kind == "Iterable":
        return list[get_args(hint)[0]] if get_args(hint) else list[Any]
    return hint


def _words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


# ---- schema and validator, by pydantic


def _adapter(fields: dict[str, Any]) -> Any:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    shape: Any = TypedDict("Arguments", fields)  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportGeneralTypeIssues]
    shape.__pydantic_config__ = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    return TypeAdapter(shape)


def _built(description: str, shown: list[_Parameter], where: str) -> Derived:
    from typing import NotRequired

    fields = {p.name: p.annotation if p.required else NotRequired[p.annotation] for p in shown}
    try:
        adapter = _adapter(fields)
        schema = adapter.json_schema()
    except Exception as e:
        raise _refused(shown, where, e) from None
    schema = untitled(schema)
    schema.pop("description", None)
    properties = {"properties": schema.get("properties", {})}
    if len(properties["properties"]) != len(shown):
        raise NotATool(f"{where} cannot be a tool: two of its parameters have one name; choose other aliases")
    for p, node in zip(shown, properties["properties"].values(), strict=True):
        _note(p, node)
    return Derived(
        description,
        {"type": "object"} | properties | schema | {"additionalProperties": False},
        adapter.validator.validate_python,
    )


def _refused(shown: list[_Parameter], where: str, error: Exception) -> NotATool:
    """Which parameter it was that pydantic did not take."""
    for p in shown:
        try:
            _adapter({p.name: p.annotation}).json_schema()
        except Exception as e:
            why = str(e).partition("\n")[0].partition(" Set `arbitrary")[0].rstrip(".")
            return NotATool(f"parameter {p.name!r} of {where}: {_words(p.annotation)} has no JSON form ({why}); {_ADVICE}")
    return NotATool(f"{where} cannot be a tool: {str(error).partition(chr(10))[0]}")


def untitled(node: Any) -> Any:
    """A schema without the titles that pydantic makes up."""
    if not isinstance(node, dict):
        return node
    out: Schema = {}
    for key, value in cast(Schema, node).items():
        if key in MAPS:
            out[key] = {name: untitled(sub) for name, sub in value.items()}
        elif key in LISTS:
            out[key] = [untitled(sub) for sub in value]
        elif key != "title":
            out[key] = untitled(value) if key in NODES else value
    return out


def _note(p: _Parameter, node: Schema) -> None:
    """The description and the default of a parameter, where its type does not tell them."""
    from pydantic_core import to_jsonable_python

    if p.notes:
        node.setdefault("description", p.notes)
    if p.required or "default" in node or hasattr(p.default, "is_required"):
        return
    if isinstance(p.default, float) and not isfinite(p.default):
        return
    try:
        node["default"] = to_jsonable_python(p.default, bytes_mode="base64")
    except ValueError:
        return  # a default that JSON cannot say is the function's own business


def _add_extras(made: Derived, hint: Any, where: str) -> None:
    """`**kwargs`: any other name, with values of its type."""
    from pydantic import TypeAdapter

    made.extra = made.loose = True
    if hint is Any:
        made.schema["additionalProperties"] = True
        return
    try:
        shape: Any = GenericAlias(dict, (str, hint))
        adapter: Any = TypeAdapter(shape)
        schema = untitled(adapter.json_schema())
    except Exception as e:
        raise NotATool(f"the type of the ** parameter of {where} has no JSON form ({str(e).partition(chr(10))[0]})") from None
    made.schema["additionalProperties"] = schema.get("additionalProperties", True)
    if "$defs" in schema:
        made.schema["$defs"] = schema["$defs"] | made.schema.get("$defs", {})
    made.extras = adapter.validator.validate_python


# ---- what pydantic found wrong, in words for the model


def _wrongs(errors: list[Any], arguments: Any) -> list[Wrong]:
    """One Wrong for each place: a union complains once for each of its branches."""
    places: dict[str, list[str]] = {}
    for error in errors:
        path = _place(error["loc"], arguments)
        what = "is missing" if error["type"] == "missing" else _said(error)
        if what not in places.setdefault(path, []):
            places[path].append(what)
    return [Wrong(path, "; or ".join(whats)) for path, whats in places.items()]


def _said(error: Any) -> str:
    try:
        text = dumps_text(error["input"])
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = repr(error["input"])
    return f"got {text if len(text) <= 60 else text[:57] + '…'}: {error['msg'].removeprefix('Value error, ')}"


def _place(steps: tuple[int | str, ...], value: Any) -> str:
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
