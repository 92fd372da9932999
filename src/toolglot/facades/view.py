"""A base tool under a model's own name: the table form of a facade.

A view says what the model sees (name, parameters, description) and how native and base arguments correspond,
both ways. Most of it is data, one row per parameter; what no row can express is a small named function. A
view names its base tool and never imports it.
"""

from collections.abc import Callable, Collection, Sequence
from operator import ge, gt, le
from typing import Any, Literal, cast

import msgspec

from toolglot.common.value_checks import check_values
from toolglot.errors import ToolError, ToolErrorKind
from toolglot.facades.equivalence import Arguments, canonical_call, simplify_call
from toolglot.schema.arguments import explain_issues, find_issues
from toolglot.values.losses import Loss
from toolglot.values.messages import Opaque
from toolglot.values.request import Schema, ToolDefinition

__all__ = ["Arguments", "Case", "Facade", "Field", "RenderContext", "Renderer", "View", "omit"]


def omit(_: Any) -> Any:
    """Return UNSET: a `Field.from_base` for a parameter that calls may have and history never uses."""
    return msgspec.UNSET


class Field(msgspec.Struct, frozen=True):
    """One native parameter and the base parameter it corresponds to.

    `to_base` and `from_base` convert the value where the two sides differ; UNSET omits the parameter. With
    `needs_all_arguments` they get all arguments of their side instead of one value. `default` is what a call
    means that omits the native parameter; `base_default` what history says where the base parameter is
    absent.
    """

    native: str
    """The native parameter; "" if there is none."""
    base: str
    """The base parameter; "" if there is none."""
    to_base: Callable[[Any], Any] | None = None
    """Native value -> base value."""
    from_base: Callable[[Any], Any] | None = None
    """Base value -> native value."""
    needs_all_arguments: bool = False
    """The two functions take all arguments of their side."""
    default: Any = msgspec.UNSET
    """What a call means that omits the native parameter."""
    base_default: Any = msgspec.UNSET
    """What history says where the base parameter is absent."""


class RenderContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a result for the model is rendered from: the call on both sides, and its outcome."""

    tool: str = ""
    """The name that the model called."""
    visible_names: tuple[str, ...] = ()
    """All names of tools that the model sees."""
    native: Arguments
    """The arguments of the call, as the model sent them."""
    base: Arguments
    """The arguments of the base tool."""
    text: str
    """The base tool's own text; an invalid argument is called by its native name."""
    data: Any = None
    """The base tool's data: see its result struct. None if it failed without any."""
    kind: ToolErrorKind | None = None
    """Why it failed; None for a success."""
    code: str = ""
    """The stable code of the failure, as the base tool raised it."""
    details: Any = None
    """The typed details of the failure: see toolglot.values.failures."""

    def data_list(self, name: str) -> list[Arguments]:
        """Return a list in the data; empty if there is none."""
        data = self.data
        return cast(Arguments, data).get(name, []) if isinstance(data, dict) else []


Renderer = Callable[[RenderContext], str]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A base tool and how its parameters correspond.

    A native tool with several commands has one case for each.
    """

    base: str
    """The name of the base tool."""
    fields: Sequence[Field | str] = ()
    """A string is a parameter with the same name and meaning on both sides. Later fields override earlier
    ones."""
    fixed: Arguments = {}
    """Base parameters that always have this value."""
    to_base: Callable[[Arguments], Arguments] | None = None
    """Native arguments -> base arguments, instead of the fields."""
    from_base: Callable[[Arguments], Arguments | None] | None = None
    """Base arguments -> native arguments, instead of the fields; None if they cannot be expressed."""
    result: Renderer | None = None
    """Renders a success; None keeps the base tool's text."""
    failure: Renderer | None = None
    """Renders a failure; None leaves it to the facade."""
    is_failure: Callable[[RenderContext], bool] | None = None
    """Whether this harness reports a success as an error: a command with an exit code."""
    successes: Collection[str] = frozenset()
    """Codes of failures that this harness reports as a success, such as a binary file; `result` renders
    them."""
    native_data: Callable[[RenderContext], Any] | None = None
    """Data that the vendor wants beside the text, for a tool that is `typed`."""
    script_value: Callable[[RenderContext], Any] | None = None
    """What code that calls the tool gets; None: the text."""

    def __post_init__(self) -> None:
        check_values(self)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One native tool."""

    name: str
    """The name that the model calls."""
    description: str
    """What the model reads about it."""
    parameters: Schema | None
    """Exactly what the model is shown; history uses no other parameters."""
    cases: dict[str, Case]
    """By what `select_case` returns; "" is the form that the model is shown."""
    select_case: Callable[[Arguments], str] | None = None
    """Returns the key of the case that a call's arguments belong to; None: always ""."""
    accepts: Schema = {}
    """Parameters that calls may also have (older or gated ones), or that are accepted in more forms than are
    shown."""
    ignored: Collection[str] = frozenset()
    """Parameters that are accepted and have no effect."""
    aliases_for: dict[str, Sequence[str]] = {}
    """Required parameter -> others that may be given instead."""
    required_schema: Schema | None = None
    """What a call must have, as schema keywords, instead of `required`."""
    aliases: Sequence[str] = ()
    """Other names that calls may use."""
    represents: Collection[str] = frozenset()
    """The base tools it stands for, if not that of the case "" (else those of all cases)."""
    kind: Literal["function", "freeform"] = "function"
    """Whether it takes JSON or plain text."""
    grammar: dict[str, Any] | None = None
    """Constrains the plain text, in the format of OpenAI's API."""
    namespace: str = ""
    """The namespace in which the model sees it."""
    typed: dict[str, Opaque] = {}
    """Wire -> the declaration of a tool whose schema is built into the vendor's models."""
    models: str = ""
    """Regular expression: only models whose names match see it."""
    hidden: bool = False
    """Calls are understood, but the model is not shown the tool: it was part of earlier versions of the
    harness."""
    direct: bool = False
    """Where the model calls its tools from code, it still calls this one itself."""
    output_schema: Schema | None = None
    """What code that calls the tool gets, if it is not text."""

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def base_tools(self) -> frozenset[str]:
        """The base tools it stands for."""
        if self.represents:
            return frozenset(self.represents)
        if "" in self.cases:
            return frozenset({self.cases[""].base})
        return frozenset(case.base for case in self.cases.values())

    @property
    def qualified_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def definition(self) -> ToolDefinition:
        """What the model sees."""
        return ToolDefinition(
            self.name,
            self.description,
            self.parameters,
            self.kind,
            grammar=self.grammar,
            namespace=self.namespace,
            typed=self.typed,
        )

    @property
    def accepted_schema(self) -> Schema:
        """The schema that calls are validated against: what is shown, and what is accepted beside it.

        Unknown keys of nested objects are allowed and have no effect.
        """
        shown: Schema = self.parameters or {"type": "object", "properties": {}}
        # how it is called on wires that have only functions
        if self.kind == "freeform" and self.parameters is None:
            shown = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        properties = {**shown.get("properties", {}), **self.accepts}
        schema = cast(Schema, _allow_unknown_keys({**shown, "properties": properties}))
        schema["properties"].update({name: {} for name in self.ignored})
        required = cast(list[str], schema.pop("required", []))
        if self.required_schema is not None:
            return {**schema, **self.required_schema}
        required = [name for name in required if name not in self.aliases_for]
        if required:
            schema["required"] = required
        if self.aliases_for:
            schema["allOf"] = [
                {
                    "if": {"anyOf": [{"required": [name]} for name in others]},
                    "else": {"required": [parameter]},
                }
                for parameter, others in self.aliases_for.items()
            ]
        return schema

    def native_name(self, case: Case, parameter: str) -> str:
        """Return what the model calls a base parameter: the last field for it that is shown; the base name if
        there is none.
        """
        shown = (self.parameters or {}).get("properties", {})
        for field in reversed(case.fields):
            if isinstance(field, Field) and field.base == parameter and field.native in shown:
                return field.native
        return parameter

    # ---- native -> base

    def find_case(self, native: Arguments) -> Case:
        """Return the case of a call. Raises ToolError."""
        return self.cases["" if self.select_case is None else self.select_case(native)]

    def to_base(self, native: Arguments) -> tuple[str, Arguments]:
        """Return the base tool and its arguments.

        Raises ToolError, which names the tool and the native parameter.
        """
        if issues := find_issues(native, self.accepted_schema):
            message = explain_issues(self.definition, issues)
            raise ToolError(
                message, kind="validation", code="invalid_arguments", tool=self.name, details=issues
            )
        try:
            return self.map_call(native)
        except ToolError as e:
            raise ToolError(
                f"{self.name}: {e}", kind=e.kind, code=e.code, tool=self.name, details=e.details
            ) from None
        except Exception as e:  # a table's function met what no schema rules out
            raise self.unreadable_call() from e

    def unreadable_call(self) -> ToolError:
        """Return the error for a call that the schema allows and a function of the table cannot convert."""
        return ToolError(
            f"{self.name} did not run: its arguments cannot be interpreted.",
            kind="validation",
            tool=self.name,
        )

    def map_call(self, native: Arguments) -> tuple[str, Arguments]:
        """Return the base tool and its arguments for a call that was validated. Raises ToolError."""
        case = self.find_case(native)
        arguments = (
            case.to_base(native)
            if case.to_base is not None
            else _map_fields(case.fields, native, to_base=True)
        )
        return case.base, {**case.fixed, **arguments}

    # ---- base -> native

    def from_base(self, base: str, arguments: Arguments) -> tuple[Arguments, tuple[Loss, ...]] | None:
        """Return a base call as the model would have made it, and what that loses; None if it cannot be
        expressed at all.
        """
        simple = simplify_call(base, arguments)
        candidates: list[tuple[Arguments, list[str], int]] = []
        for case in self.cases.values():
            native = self._to_native(case, simple) if case.base == base else None
            if native is not None:
                candidates.append((native, *self._compare_round_trip(base, simple, native)))
        if not candidates:
            return None
        native, lost, _ = min(candidates, key=lambda candidate: (len(candidate[1]), candidate[2]))
        return native, tuple(
            Loss(f"parameter {name!r}", self.name, "this model's tool cannot express it") for name in lost
        )

    def _to_native(self, case: Case, arguments: Arguments) -> Arguments | None:
        if case.from_base is not None:
            native = case.from_base(arguments)
        else:
            native = _map_fields(case.fields, arguments, to_base=False)
        if native is None:
            return None
        if self.parameters is None:
            return dict(native)
        # A value that the model could not have given is omitted; without a required one there is no such
        # call.
        shown = self.parameters.get("properties", {})
        possible: Arguments = {}
        for name, value in native.items():
            if name in shown and _fits(value, shown[name]):
                possible[name] = value
        required = self.parameters.get("required", ())
        return possible if possible.keys() >= {*required} else None

    def _compare_round_trip(
        self, base: str, arguments: Arguments, native: Arguments
    ) -> tuple[list[str], int]:
        """Return which base parameters a native call does not bring back, and how many it adds."""
        try:
            restored = canonical_call(*self.map_call(native))
        except Exception:  # a call that cannot be read back expresses nothing
            restored = {}
        original = canonical_call(base, arguments)
        lost = [name for name, value in original.items() if name not in restored or restored[name] != value]
        return lost, sum(name not in original for name in restored)


class Facade(msgspec.Struct, frozen=True, kw_only=True):
    """All native tools of a harness.

    A base tool without a view is shown under its own name, unless it is hidden.
    """

    id: str
    """The name by which the facade is chosen."""
    title: str
    """Its name for people."""
    views: Sequence[View]
    """The native tools."""
    provider: str = ""
    """Whose models it is for; "" for those of any provider."""
    failure: Renderer | None = None
    """Renders failures if a case does not: also calls of unknown tools, and arguments that fit no case."""
    refuses_unknown_parameters: bool = False
    """Whether the harness refuses a call with a parameter that it does not know; otherwise that is
    ignored."""
    flags_errors: bool = True
    """Whether the harness marks failed calls as such; otherwise their text alone says so."""
    note: str = ""
    """For the instructions: how to work with the tools, by the names that the model sees."""
    hides: Collection[str] = frozenset()
    """Base tools that the model does not need: other tools do their work."""
    differences: dict[str, str] = {}
    """Native tool -> how its results differ from those of the harness, and why."""
    defers: Collection[str] = frozenset()
    """Native tools that the model gets only when it finds them, in an agent that defers tools."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The native tools as a model sees them."""
        return tuple(view.definition for view in self.views if not view.hidden)

    @property
    def deferred_base_tools(self) -> frozenset[str]:
        """The base tools that the model sees only under names that are deferred."""
        deferred = set[str]()
        shown_at_once = set[str]()
        for view in self.views:
            if view.hidden:
                continue
            if view.name in self.defers:
                deferred |= view.base_tools
            else:
                shown_at_once |= view.base_tools
        return frozenset(deferred - shown_at_once)

    @property
    def base_tools(self) -> frozenset[str]:
        """The base tools that its views call."""
        return frozenset(case.base for view in self.views for case in view.cases.values())

    def __post_init__(self) -> None:
        check_values(self)


def _map_fields(fields: Sequence[Field | str], arguments: Arguments, *, to_base: bool) -> Arguments:
    mapped: Arguments = {}
    for row in fields:
        field = Field(row, row) if isinstance(row, str) else row
        if to_base:
            source, target = field.native, field.base
            convert = field.to_base
            default = field.default
        else:
            source, target = field.base, field.native
            convert = field.from_base
            default = field.base_default
        if field.needs_all_arguments and convert is not None:
            value: Any = arguments
        else:
            value = arguments.get(source, default)
        if value is None and default is not msgspec.UNSET:
            value = default
        if convert is not None and value is not msgspec.UNSET:
            value = convert(value)
        if value is not msgspec.UNSET:
            mapped[target] = value
    return mapped


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "array": list,
    "integer": int,
    "number": (int, float),
}
_LIMITS = {
    "minimum": ge,
    "maximum": le,
    "exclusiveMinimum": gt,
    "minLength": ge,
    "minItems": ge,
    "maxItems": le,
}


def _fits(value: Any, schema: Schema) -> bool:
    """Whether a value fits the types, choices and limits of a schema, and so do its parts."""
    if not isinstance(value, _TYPES.get(schema.get("type", ""), object)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    measure: Any = value
    if isinstance(value, str | list):
        measure = len(cast(list[Any], value))
    for key, compare in _LIMITS.items():
        if key in schema and not compare(measure, schema[key]):
            return False
    if isinstance(value, list):
        item_schema = schema.get("items", {})
        return all(_fits(item, item_schema) for item in cast(list[Any], value))
    if isinstance(value, dict):
        parts = cast(Arguments, value)
        properties: Schema = schema.get("properties", {})
        return all(_fits(parts[name], properties[name]) for name in properties if name in parts)
    return True


def _allow_unknown_keys(node: Any) -> Any:
    """Return a schema without `additionalProperties`, at any depth."""
    if isinstance(node, list):
        return [_allow_unknown_keys(item) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    allowed = {key: _allow_unknown_keys(value) for key, value in cast(Schema, node).items()}
    allowed.pop("additionalProperties", None)
    return allowed
