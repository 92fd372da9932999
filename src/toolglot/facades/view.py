"""A base tool under a model's own name for it: the table form of a facade.

A view says what the model sees (name, parameters, description) and how its words and ours correspond, both ways. Most of it is
data: a row a parameter. What no row can say is a small named function. A view names its base tool and never imports it.
"""

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from toolglot.errors import ToolError, ToolErrorKind
from toolglot.facades.equivalence import Arguments, canonical_call
from toolglot.losses import Loss
from toolglot.messages import Opaque
from toolglot.request import Schema, ToolDefinition

__all__ = [
    "Arguments",
    "Case",
    "Facade",
    "Field",
    "RenderContext",
    "Renderer",
    "View",
    "boolean",
    "closed_schema",
    "integer",
    "number",
    "object_schema",
    "omit",
    "string",
    "string_list",
]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One native parameter, and the base parameter that it is. `into`, `back`: where their values differ.

    A function that gives UNSET leaves the parameter out. `whole`: the functions get all arguments of their side, not one value.
    """

    native: str
    base: str
    to_base: Callable[[Any], Any] | None = None
    from_base: Callable[[Any], Any] | None = None
    needs_all_arguments: bool = False


class RenderContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a text for the model is made from: the call in both words, and what came of it."""

    native: Arguments
    base: Arguments
    text: str
    """As the base tool says it."""
    data: Any = None
    """As the base tool gives it: see its result's struct. None where it failed."""
    kind: ToolErrorKind | None = None
    """Why it failed."""
    code: str = ""
    """The stable code of the failure, as the base tool raised it."""
    details: Any = None
    """The typed details of the failure."""

    def data_list(self, name: str) -> list[Arguments]:
        """A list in the data; [] where there is none."""
        data = self.data
        return cast(Arguments, data).get(name, []) if isinstance(data, dict) else []


Renderer = Callable[[RenderContext], str]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a call means: a base tool, and how parameters correspond. A native tool with commands has one case for each."""

    base: str
    fields: tuple[Field | str, ...] = ()
    """A text: a parameter of the same name and meaning on both sides."""
    fixed: Arguments = {}
    """Base parameters that are always so."""
    to_base: Callable[[Arguments], Arguments] | None = None
    """Native arguments -> base arguments, in the place of the fields."""
    from_base: Callable[[Arguments], Arguments | None] | None = None
    """Base arguments -> native arguments; None where they cannot be said."""
    can_express: Callable[[Arguments], object] | None = None
    """Whether base arguments can be said at all, where the fields are the way back."""
    result: Renderer | None = None
    """How a good result reads; None: as the base tool says it."""
    failure: Renderer | None = None
    """How a failure reads; None: as the facade says failures."""
    is_failure: Callable[[RenderContext], bool] | None = None
    """Whether this harness calls a good result an error: a command with an exit code."""
    native_data: Callable[[RenderContext], Any] | None = None
    """What a vendor wants beside the text, for a tool that is `typed`."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One native tool.

    `parameters` is exactly what the model is shown. `accepts`: parameters that are taken and not shown (older and gated ones),
    or taken in more forms than are shown. `ignored`: parameters that are taken and mean nothing here. `instead`: what is
    required -> the other names that do for it. `demands`: what a call must have, as parts of a schema, in the place of
    `required`. `aliases`: other names that calls may have. `cases`: by the value of the parameter `by`, or by what `pick` makes
    of the arguments; a view without commands has one case under "". `stands_for`: its base tools, where they are not those of
    all its cases.
    """

    name: str
    description: str
    parameters: Schema | None
    cases: dict[str, Case]
    case_parameter: str = ""
    select_case: Callable[[Arguments], str] | None = None
    accepts: Schema = {}
    ignored: frozenset[str] = frozenset()
    aliases_for: dict[str, tuple[str, ...]] = {}
    required_schema: Schema | None = None
    aliases: tuple[str, ...] = ()
    represents: frozenset[str] = frozenset()
    kind: Literal["function", "freeform"] = "function"
    grammar: dict[str, Any] | None = None
    namespace: str = ""
    typed: dict[str, Opaque] = {}
    """What stands for the tool on a wire whose models know it by themselves."""
    models: str = ""
    """A pattern: only models whose names match see it."""
    hidden: bool = False
    """It is understood when it is called, and never shown: a tool that the models of a harness remember."""

    @property
    def base_tools(self) -> frozenset[str]:
        """The base tools that it stands for."""
        return self.represents or frozenset(case.base for case in self.cases.values())

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
        """The schema that calls are checked against: what is shown, and what is taken beside it.

        Names that an object inside does not know are let through, and mean nothing.
        """
        free = self.kind == "freeform"  # as it is called where there are functions only
        shown = self.parameters or (object_schema("input", input=string()) if free else object_schema())
        found = cast(Schema, _allow_unknown_keys({**shown, "properties": {**shown.get("properties", {}), **self.accepts}}))
        found["properties"].update({name: {} for name in self.ignored})
        needed = cast(list[str], found.pop("required", []))
        if self.required_schema is not None:
            return {**found, **self.required_schema}
        rules = [
            {"if": {"anyOf": [{"required": [name]} for name in others]}, "else": {"required": [wanted]}}
            for wanted, others in self.aliases_for.items()
        ]
        needed = [name for name in needed if name not in self.aliases_for]
        return {**found, **({"required": needed} if needed else {}), **({"allOf": rules} if rules else {})}

    # ---- the way in

    def find_case(self, native: Arguments) -> Case:
        """What a call means. Raises ToolError."""
        if not self.case_parameter:
            return self.cases["" if self.select_case is None else self.select_case(native)]
        found = self.cases.get(str(native.get(self.case_parameter)))
        if found is None:
            known = ", ".join(self.cases)
            raise ToolError(
                f"{self.name}: {self.case_parameter} must be one of {known}, not {native.get(self.case_parameter)!r}",
                kind="validation",
            )
        return found

    def to_base(self, native: Arguments) -> tuple[str, Arguments]:
        """The base tool and its arguments. Raises ToolError, in the model's own words."""
        case = self.find_case(native)
        if case.to_base is not None:
            return case.base, {**case.fixed, **case.to_base(native)}
        return case.base, {**case.fixed, **_map_fields(case.fields, native, to_base=True)}

    # ---- the way back

    def from_base(self, base: str, arguments: Arguments) -> tuple[Arguments, tuple[Loss, ...]] | None:
        """A call of a base tool as the model would have made it, and what cannot be said; None: it cannot be said at all."""
        given = {name: value for name, value in arguments.items() if value is not None}
        sayings = [
            (native, *self._compare_round_trip(base, given, native))
            for value, case in self.cases.items()
            if case.base == base and (native := self._to_native(value, case, given)) is not None
        ]
        if not sayings:
            return None
        native, missing, _ = min(sayings, key=lambda saying: (len(saying[1]), saying[2]))
        return native, tuple(
            Loss(f"parameter {name!r}", self.name, "this model's tool has no way to say it") for name in missing
        )

    def _to_native(self, case_key: str, case: Case, arguments: Arguments) -> Arguments | None:
        if case.can_express is not None and not case.can_express(arguments):
            return None
        native = case.from_base(arguments) if case.from_base is not None else _map_fields(case.fields, arguments, to_base=False)
        return {self.case_parameter: case_key, **native} if native is not None and self.case_parameter else native

    def _compare_round_trip(self, base: str, arguments: Arguments, native: Arguments) -> tuple[list[str], int]:
        """Which base parameters a native call does not bring again, and how many it says that nobody has said."""
        try:
            again = canonical_call(*self.to_base(native))
        except Exception:  # what cannot be read again was not said
            again = {}
        meant = canonical_call(base, arguments)
        missing = [name for name, value in meant.items() if name not in again or again[name] != value]
        return missing, sum(name not in meant for name in again)


class Facade(msgspec.Struct, frozen=True, kw_only=True):
    """All native tools of a harness. Base tools without a view that it does not show either are not seen by the model."""

    id: str
    title: str
    views: tuple[View, ...]
    failure: Renderer | None = None
    """How a failure reads where a case does not say."""
    note: str = ""
    """For the instructions: how to work with the tools, by the names that the model sees."""
    shows: frozenset[str] = frozenset()
    """Base tools that are shown under their own names beside the views."""


# ---- helpers for tables


def _map_fields(fields: tuple[Field | str, ...], arguments: Arguments, *, to_base: bool) -> Arguments:
    found: Arguments = {}
    for field in fields:
        one = Field(native=field, base=field) if isinstance(field, str) else field
        source, target = (one.native, one.base) if to_base else (one.base, one.native)
        change = one.to_base if to_base else one.from_base
        if one.needs_all_arguments and change is not None:
            value = change(arguments)
        elif source in arguments:
            value = arguments[source] if change is None else change(arguments[source])
        else:
            continue
        if value is not msgspec.UNSET:
            found[target] = value
    return found


def _allow_unknown_keys(node: Any) -> Any:
    """A schema whose objects let any name through."""
    if isinstance(node, dict):
        return {key: _allow_unknown_keys(value) for key, value in cast(Schema, node).items() if key != "additionalProperties"}
    return [_allow_unknown_keys(item) for item in cast(list[Any], node)] if isinstance(node, list) else node


def object_schema(required: str = "", **properties: Any) -> Schema:
    """A native schema: `shape("file_path", file_path=text(), limit=number())`."""
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = required.split()
    return found


def closed_schema(required: str = "", **properties: Any) -> Schema:
    """A native schema that names all there is."""
    return {**object_schema(required, **properties), "additionalProperties": False}


def string(**keywords: Any) -> Schema:
    """A parameter that is a text."""
    return {"type": "string", **keywords}


def string_list(**keywords: Any) -> Schema:
    """A parameter that is a list of texts."""
    return {"type": "array", "items": string(), **keywords}


def number(**keywords: Any) -> Schema:
    """A parameter that is a number."""
    return {"type": "number", **keywords}


def integer(**keywords: Any) -> Schema:
    """A parameter that is a whole number."""
    return {"type": "integer", **keywords}


def omit(_: Any) -> Any:
    """The way back of a parameter that is taken and never said."""
    return msgspec.UNSET


def boolean(**keywords: Any) -> Schema:
    """A parameter that is true or false."""
    return {"type": "boolean", **keywords}
