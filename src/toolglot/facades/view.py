"""A base tool under a model's own name for it: the table form of a facade.

A view says what the model sees (name, parameters, description) and how its words and ours correspond, both ways. Most of it is
data: a row a parameter. What no row can say is a small named function. A view names its base tool and never imports it.
"""

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from toolglot.errors import ToolError, ToolErrorKind
from toolglot.losses import Loss
from toolglot.request import Schema, ToolDefinition

__all__ = ["Case", "Facade", "Field", "Said", "View", "Words", "boolean", "integer", "number", "shape", "text"]

Arguments = dict[str, Any]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One native parameter, and the base parameter that it is. `into`, `back`: where their values differ.

    A function that gives UNSET leaves the parameter out. `whole`: the functions get all arguments of their side, not one value.
    """

    native: str
    base: str
    into: Callable[[Any], Any] | None = None
    back: Callable[[Any], Any] | None = None
    whole: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a text for the model is made from: the call in both words, and what came of it."""

    native: Arguments
    base: Arguments
    text: str
    """As the base tool says it."""
    data: Any = None
    """As the base tool gives it: see its result's struct. None where it failed."""
    kind: ToolErrorKind | None = None
    """Why it failed."""
    details: Any = None


Words = Callable[[Said], str]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a call means: a base tool, and how parameters correspond. A native tool with commands has one case for each."""

    base: str
    fields: tuple[Field | str, ...] = ()
    """A text: a parameter of the same name and meaning on both sides."""
    fixed: Arguments = {}
    """Base parameters that are always so."""
    into: Callable[[Arguments], Arguments] | None = None
    """Native arguments -> base arguments, in the place of the fields."""
    back: Callable[[Arguments], Arguments | None] | None = None
    """Base arguments -> native arguments; None where they cannot be said."""
    result: Words | None = None
    """How a good result reads; None: as the base tool says it."""
    failure: Words | None = None
    """How a failure reads; None: as the facade says failures."""
    fails: Callable[[Said], bool] | None = None
    """Whether this harness calls a good result an error: a command with an exit code."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One native tool.

    `parameters` is exactly what the model is shown. `accepts`: parameters that are taken and not shown (older and gated ones).
    `ignored`: parameters that are taken and mean nothing here. `aliases`: other names that calls may have. `cases`: by the
    value of the parameter `by`, or by what `pick` makes of the arguments; a view without commands has one case under "".
    """

    name: str
    description: str
    parameters: Schema | None
    cases: dict[str, Case]
    by: str = ""
    pick: Callable[[Arguments], str] | None = None
    accepts: Schema = {}
    ignored: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    kind: Literal["function", "freeform"] = "function"
    grammar: dict[str, Any] | None = None
    namespace: str = ""
    models: str = ""
    """A pattern: only models whose names match see it."""

    @property
    def bases(self) -> frozenset[str]:
        """The base tools that it stands for."""
        return frozenset(case.base for case in self.cases.values())

    @property
    def title(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def definition(self) -> ToolDefinition:
        """What the model sees."""
        return ToolDefinition(
            self.name, self.description, self.parameters, self.kind, grammar=self.grammar, namespace=self.namespace
        )

    @property
    def taken(self) -> Schema:
        """The schema that calls are checked against: what is shown, and what is taken beside it."""
        free = self.kind == "freeform"  # as it is called where there are functions only
        shown = dict(self.parameters or (shape("input", input=text()) if free else shape()))
        properties = {**cast(Schema, shown.get("properties", {})), **self.accepts}
        shown["properties"] = {**properties, **{name: {} for name in self.ignored}}
        shown.pop("additionalProperties", None)
        return shown

    # ---- the way in

    def case(self, native: Arguments) -> Case:
        """What a call means. Raises ToolError."""
        if not self.by:
            return self.cases["" if self.pick is None else self.pick(native)]
        found = self.cases.get(str(native.get(self.by)))
        if found is None:
            known = ", ".join(self.cases)
            raise ToolError(f"{self.name}: {self.by} must be one of {known}, not {native.get(self.by)!r}", kind="validation")
        return found

    def to_base(self, native: Arguments) -> tuple[str, Arguments]:
        """The base tool and its arguments. Raises ToolError, in the model's own words."""
        case = self.case(native)
        if case.into is not None:
            return case.base, {**case.fixed, **case.into(native)}
        return case.base, {**case.fixed, **_carried(case.fields, native, into=True)}

    # ---- the way back

    def from_base(self, base: str, arguments: Arguments) -> tuple[Arguments, tuple[Loss, ...]] | None:
        """A call of a base tool as the model would have made it, and what cannot be said; None: it cannot be said at all."""
        sayings = [
            (native, *self._missed(arguments, native))
            for value, case in self.cases.items()
            if case.base == base and (native := self._native(value, case, arguments)) is not None
        ]
        if not sayings:
            return None
        native, missing, _ = min(sayings, key=lambda saying: (len(saying[1]), saying[2]))
        return native, tuple(
            Loss(f"parameter {name!r}", self.name, "this model's tool has no way to say it") for name in missing
        )

    def _native(self, value: str, case: Case, arguments: Arguments) -> Arguments | None:
        native = case.back(arguments) if case.back is not None else _carried(case.fields, arguments, into=False)
        return {self.by: value, **native} if native is not None and self.by else native

    def _missed(self, arguments: Arguments, native: Arguments) -> tuple[list[str], int]:
        """Which base parameters a native call does not bring again, and how many it says that nobody has said."""
        try:
            again = self.to_base(native)[1]
        except Exception:  # what cannot be read again was not said
            again = {}
        missing = [name for name, value in arguments.items() if name not in again or again[name] != value]
        return missing, sum(name not in arguments for name in again)


class Facade(msgspec.Struct, frozen=True, kw_only=True):
    """All native tools of a harness. Base tools without a view that it does not show either are not seen by the model."""

    id: str
    title: str
    views: tuple[View, ...]
    failure: Words | None = None
    """How a failure reads where a case does not say."""
    note: str = ""
    """For the instructions: how to work with the tools, by the names that the model sees."""
    shows: frozenset[str] = frozenset()
    """Base tools that are shown under their own names beside the views."""


# ---- helpers for tables


def _carried(fields: tuple[Field | str, ...], given: Arguments, *, into: bool) -> Arguments:
    found: Arguments = {}
    for field in fields:
        one = Field(native=field, base=field) if isinstance(field, str) else field
        source, target = (one.native, one.base) if into else (one.base, one.native)
        change = one.into if into else one.back
        if one.whole and change is not None:
            value = change(given)
        elif source in given:
            value = given[source] if change is None else change(given[source])
        else:
            continue
        if value is not msgspec.UNSET:
            found[target] = value
    return found


def shape(required: str = "", **properties: Any) -> Schema:
    """A native schema: `shape("file_path", file_path=text(), limit=number())`."""
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = required.split()
    return found


def text(**more: Any) -> Schema:
    """A parameter that is a text."""
    return {"type": "string", **more}


def number(**more: Any) -> Schema:
    """A parameter that is a number."""
    return {"type": "number", **more}


def integer(**more: Any) -> Schema:
    """A parameter that is a whole number."""
    return {"type": "integer", **more}


def boolean(**more: Any) -> Schema:
    """A parameter that is true or false."""
    return {"type": "boolean", **more}
