"""`@tool` on everything that can be called, and calls bound to it."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from copy import copy
from datetime import datetime
from functools import partial
from threading import Event
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, assert_type, get_args

import pytest
from pydantic import FilePath

from toolglot.errors import InvalidTool, ToolError
from toolglot.tools import hooks
from toolglot.tools.config import Rate
from toolglot.tools.context import Context
from toolglot.tools.options import ToolOptions, find_advice
from toolglot.tools.tool import BoundArguments, Tool, tool, tool_from_definition, tool_from_schema, tools_of
from toolglot.values.definitions import MCP_TAG
from toolglot.values.messages import Media, ToolCall
from toolglot.values.request import ToolDefinition, ToolExample


@tool
def get_weather(
    location: str, days: int = 3, units: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, Any]:
    """Get current weather for a location.

    Args:
        location: City name or coordinates.
    """
    return {"location": location, "days": days, "units": units}


@tool(
    name="add",
    tags=["math"],
    version="2",
    effects="read",
    inline=True,
    idempotent=True,
    timeout=1.5,
    max_uses=3,
)
async def plus(a: int, b: int) -> int:
    """Adds."""
    return a + b


WRONG: Any = ["destroy"]


def by_keywords(**given: Any) -> Any:
    return given


def as_dict(given: dict[str, Any]) -> Any:
    return given


def by_place(given: dict[str, Any], /) -> Any:
    return given


def context_first(here: Context, /, a: int, b: str) -> Any:
    return a, b


def by_name(a: int, b: str = "") -> Any:
    return a, b


def as_one(arguments: dict[str, Any], context: Context) -> Any:
    return arguments, context.data


def apply_patch(patch: str) -> str:
    return f"<{patch}>"


def call(arguments: dict[str, Any] | None = None, raw: str | None = None, **options: Any) -> ToolCall:
    return ToolCall("c1", "t", arguments, raw, **options)


def run(tool: Tool, arguments: dict[str, Any], **context: Any) -> Any:
    """Binds and runs a call."""
    tool_call = call(arguments)
    return asyncio.run(tool.invoke(tool.bind(tool_call).values, Context(tool_call, **context)))


# ---- definitions


def test_a_function_is_a_tool_and_stays_a_function() -> None:
    assert get_weather.name == "get_weather"
    assert get_weather.description == "Get current weather for a location."
    assert get_weather.definition is get_weather.definition, "made once"
    assert get_weather.definition.parameters == {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City name or coordinates."},
            "days": {"type": "integer", "default": 3},
            "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["location"],
        "additionalProperties": False,
    }
    assert get_weather("Rome")["location"] == "Rome"
    assert get_weather.__doc__
    assert get_weather.__doc__.startswith("Get current")
    assert tool(lambda: None, name="bare").__doc__ is None, "and not that of the class"
    assert get_weather.effects == {"read", "write", "execute", "network"}, (
        "a tool that does not say may do anything"
    )
    assert repr(get_weather).startswith("<Tool 'get_weather': ")
    assert not get_weather.is_async


def test_options() -> None:
    assert (plus.name, plus.is_async, plus.inline, plus.idempotent, plus.timeout, plus.max_uses) == (
        "add",
        True,
        True,
        True,
        1.5,
        3,
    )
    assert plus.effects == {"read"}
    assert (plus.definition.tags, plus.definition.version) == ({"math"}, "2")
    assert run(plus, {"a": 1, "b": 2}) == 3
    limited = tool(name="f", rate=Rate(3, 60), approval=True, target=str, max_result=10)(len)
    assert (limited.rate, limited.approval, limited.target, limited.max_result) == (
        Rate(3, 60.0),
        True,
        str,
        10,
    )


@pytest.mark.parametrize(
    "example", [ToolExample({"a": 1, "b": 2}), {"a": 1, "b": 2}, {"input": {"a": 1, "b": 2}}]
)
def test_examples(example: Any) -> None:
    example_tool = plus.replace(examples=[example])
    assert example_tool.definition.examples == (ToolExample({"a": 1, "b": 2}),)
    with pytest.raises(ToolError, match=r'Example: {"a":1,"b":2}'):
        example_tool.bind(call({}))


def test_a_given_schema_and_description_win() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}}

    @tool(parameters=schema, description="Other words.")
    def f(a: int = 0) -> int:
        """Words."""
        return a

    assert f.definition == ToolDefinition("f", "Other words.", schema)
    assert run(f, {"a": 2}) == 2
    with pytest.raises(ToolError, match="greater than the maximum"):
        f.bind(call({"a": 5}))


class Forecast(TypedDict):
    city: str
    days: list[float]


def forecasts(city: str) -> "list[Forecast]":
    return []


async def count() -> int | None:
    return 1


def picture() -> Media:
    return Media("image")


@pytest.mark.parametrize(("function", "schema"), [
    (forecasts, {"type": "array", "items": {"$ref": "#/$defs/Forecast"}}),
    (count, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (picture, None), (lambda: 1, None),
])  # fmt: skip
def test_the_type_of_the_output_is_known(function: Any, schema: Any) -> None:
    derived = tool(function, name="t")
    output = derived.output_schema
    assert {key: value for key, value in (output or {}).items() if key != "$defs"} == (schema or {})
    assert (output is None) is (schema is None)
    assert derived.output_schema is output  # derived once


def test_replace_keeps_the_rest() -> None:
    other = plus.replace(name="sum", timeout=9)
    assert (other.name, other.timeout, other.max_uses, other.effects) == ("sum", 9, 3, {"read"})
    assert plus.name == "add"


GIVEN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def with_a_schema() -> Tool:
    return tool_from_schema("t", "T.", GIVEN, by_keywords)


@pytest.mark.parametrize(
    "tags", [["x"], ("x",), {"x"}, frozenset({"x"}), iter(["x"])], ids=lambda tags: type(tags).__name__
)
def test_replaced_tags_of_a_given_schema_are_tags(tags: Any) -> None:
    tagged = with_a_schema().replace(tags=tags)
    assert tagged.definition.tags == tagged.tags == frozenset({"x"})


@pytest.mark.parametrize("example", [ToolExample({"a": 1}), {"a": 1}, {"input": {"a": 1}}])
def test_replaced_examples_of_a_given_schema_are_examples(example: Any) -> None:
    assert with_a_schema().replace(examples=[example]).definition.examples == (ToolExample({"a": 1}),)


@pytest.mark.parametrize(("changes", "words"), [
    ({"name": "a\nb"}, r"'a\\nb' .* cannot be the name of a tool \(it must be visible text on one line\)"),
    ({"name": ""}, "cannot be the name of a tool"),
    ({"name": " "}, "cannot be the name of a tool"),
    ({"name": "x" * 1001}, "over 1000 characters"),
    ({"examples": [5]}, "an example is"),
])  # fmt: skip
def test_replace_checks_what_it_puts_into_a_given_schema(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTool, match=words):
        with_a_schema().replace(**changes)


def test_a_tool_is_ordered_if_it_says_so() -> None:
    @tool(ordered=True)
    def first() -> None: ...

    assert (first.ordered, plus.ordered, with_a_schema().ordered) == (True, False, False)
    assert first.replace(name="other").ordered
    assert not first.replace(ordered=False).ordered
    assert with_a_schema().replace(ordered=True).ordered


@pytest.mark.parametrize(("make", "words"), [
    (lambda: tool(WRONG), "cannot be a tool: it cannot be called"),
    (lambda: tool(lambda: 1), "'<lambda>' .* cannot be the name of a tool .*name="),
    (lambda: tool(name="a\tb")(print), r"'a\\tb' .* cannot be the name"),
    (lambda: tool(name="x" * 1001)(print), "over 1000 characters"),
    (lambda: tool(effects=WRONG)(len), "unknown effect 'destroy'; known: read, write"),
    (lambda: tool(many), r"it takes \*args"),
    (lambda: tool(examples=WRONG)(len).definition, "an example is"),
    (lambda: tool_from_definition(ToolDefinition("p", kind="freeform"), lambda: 1).bind(call()), "no parameter for the text"),
])  # fmt: skip
def test_what_cannot_be_a_tool(make: Any, words: str) -> None:
    with pytest.raises(InvalidTool, match=words):
        make()


WRONG_OPTIONS: list[tuple[str, Any, str]] = [
    ("target", "order_id", "a function that takes the arguments as a dict and returns a text"),
    ("preview", 3, "a function that takes the arguments as a dict and returns a text"),
    ("always_ask", True, "a function that takes the arguments as a dict and returns a text"),
    ("scope", [], "a function that takes the arguments as a dict and returns Subjects"),
    ("quiet", "yes", "True, False, or a function that takes the arguments as a dict and returns one of them"),
    ("timeout", -1, "a number of seconds greater than 0, or None"),
    ("timeout", 0, "a number of seconds greater than 0, or None"),
    ("timeout", float("nan"), "a number of seconds greater than 0, or None"),
    ("timeout", True, "a number of seconds greater than 0, or None"),
    ("max_uses", -1, "a whole number from 0 on, or None"),
    ("max_uses", 1.5, "a whole number from 0 on, or None"),
    ("max_result", 0, "a whole number from 1 on, or None"),
    ("inline", 1, "True or False"),
    ("ordered", "no", "True or False"),
    ("approval", "always", "True, False or None"),
    ("rate", 3, "a Rate, such as Rate(10, 60), or None"),
    ("action", "run", "one of 'read', 'edit', 'search', 'execute', 'fetch', 'think', 'other'"),
    ("tags", [3], "a list of texts"),
    ("effects", [["read"]], "'read', 'write', 'execute', 'network', or a list of them"),
    ("examples", 3, "a list of dicts or ToolExamples"),
    ("namespace", None, "a text"),
    ("parameters", "{}", "a JSON Schema as a dict, or None"),
]


@pytest.mark.parametrize(("option", "value", "advice"), WRONG_OPTIONS)
def test_wrong_types_of_options_are_refused_at_once(option: str, value: Any, advice: str) -> None:
    def look(a: int) -> int:
        return a

    message = f"tool 'look': {option}: pass {advice}, not {value!r}"
    with pytest.raises(InvalidTool, match=f"^{re.escape(message)}$"):
        tool(look, **{option: value})


@pytest.mark.parametrize("options", [
    {"target": str, "preview": None, "scope": None, "always_ask": repr, "quiet": bool},
    {"quiet": True, "timeout": 0.5, "max_uses": 0, "max_result": 1, "rate": None, "approval": False, "action": "edit"},
    {"timeout": float("inf"), "max_uses": None, "tags": iter(["a"]), "effects": "read", "callers": {"code"}, "strict": None},
])  # fmt: skip
def test_options_take_what_their_types_say(options: dict[str, Any]) -> None:
    assert tool(name="size", **options)(len).name == "size"


def test_every_option_is_checked() -> None:
    for option in ToolOptions.__annotations__:
        assert find_advice(option, object()), option


def test_the_type_of_a_tool_may_leave_out_what_its_context_needs() -> None:
    assert get_args(Tool[..., int]) == (..., int, Any)
    assert get_args(Tool[..., int, bool]) == (..., int, bool)


def test_iterators_are_read_once() -> None:
    made = tool(plus.function, name="sum", tags=iter(["x"]), examples=iter([{"a": 1, "b": 2}]))
    assert (
        made.definition.examples
        == made.replace(version="2").definition.examples
        == (ToolExample({"a": 1, "b": 2}),)
    )
    assert made.replace(version="2").tags == {"x"}


STRICT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(("example", "reason"), [
    ({"b": 1}, r"Additional properties are not allowed \('b' was unexpected\); \$\.a: is missing"),
    ({"a": 1, "b": 2}, "'b' was unexpected"),
    ({}, r"\$\.a: is missing"),
    ({"a": "x"}, r'\$\.a: "x" is not of type "integer"'),
])  # fmt: skip
def test_examples_fit_the_parameters(example: dict[str, Any], reason: str) -> None:
    def look(a: int) -> int:
        return a

    derived = tool(look, examples=[{"a": 1}, example])
    with pytest.raises(
        InvalidTool, match=rf"tool 'look': the example .* does not fit its parameters \(.*{reason}"
    ):
        _ = derived.definition
    with pytest.raises(InvalidTool, match=reason):  # a schema is known, so that nothing needs to be built
        tool(look, parameters=STRICT, examples=[example])
    with pytest.raises(InvalidTool, match=reason):
        tool_from_definition(ToolDefinition("look", "", STRICT, examples=(ToolExample(example),)), look)
    with pytest.raises(InvalidTool, match=reason):
        tool_from_schema("look", "", STRICT, look).replace(examples=[example])
    hosted_elsewhere = ToolDefinition("look", "", STRICT, examples=(ToolExample(example),), tags={MCP_TAG})
    assert tool_from_definition(hosted_elsewhere, look).definition.examples, (
        "nobody here can correct an MCP server's"
    )


def test_an_example_may_be_what_only_a_validator_refuses() -> None:
    @tool(examples=[{"path": "/no/such/file", "when": "2025-01-31T12:00:00"}])
    def read(path: FilePath, when: datetime) -> None: ...

    assert len(read.definition.examples) == 1


def many(*values: int) -> None: ...


# ---- calls


@pytest.mark.parametrize(("tool_call", "values"), [
    (call({"location": "Rome", "days": 1}), {"location": "Rome", "days": 1}),
    (call(None, '{"location": "Rome"}'), {"location": "Rome"}),
    (call(None, "```json\n{'location': 'Rome',}\n```"), {"location": "Rome"}),
    (call({"location": "Rome", "days": "2"}), {"location": "Rome", "days": 2}),
    (call({"location": 7}), {"location": "7"}),
    (call({"Location": "Rome", "UNITS": "Celsius"}), {"location": "Rome", "units": "celsius"}),
    (call({"location": "Rome", "days": None}), {"location": "Rome"}),
    (call({"location": "Rome", "zip": 1}), {"location": "Rome"}),
])  # fmt: skip
def test_bind(tool_call: ToolCall, values: dict[str, Any]) -> None:
    assert get_weather.bind(tool_call).values == values


def test_bind_names_what_it_repaired() -> None:
    bound = get_weather.bind(call(None, '{location: \'Rome\', "zip": 1, "Days": [2]}'.replace("[2]", '"2"')))
    assert [repair.reason for repair in bound.repairs] == [
        "unquoted key",
        "' for a quote",
        "$.Days: renamed to days",
        "$.zip: not a parameter; dropped",
    ]
    assert bound.arguments == {"location": "Rome", "days": "2"}
    assert bound.values == {"location": "Rome", "days": 2}
    good = {"location": "Rome"}
    assert get_weather.bind(call(good)) == BoundArguments(good, {"location": "Rome"}, ())


@pytest.mark.parametrize(("arguments", "is_reported"), [
    ({"location": "Rome", "days": "2"}, False),
    ({"location": "Rome", "days": 2.0}, False),
    ({"location": "Rome", "Days": 2}, True),
    ({"location": 7}, True),
    ({"location": "Rome", "zip": 1}, True),
])  # fmt: skip
def test_only_a_conversion_that_loses_nothing_is_not_reported(
    arguments: dict[str, Any], is_reported: bool
) -> None:
    assert bool(get_weather.bind(call(arguments)).repairs) == is_reported


def test_a_misspelt_parameter_is_named_with_what_was_meant() -> None:
    with pytest.raises(ToolError) as e:
        get_weather.bind(call({"locaton": "Rome", "zip": 1}))
    lines = str(e.value).splitlines()
    assert lines[1:4] == [
        "- location: is missing",
        "- locaton: is not a parameter; did you mean 'location'?",
        "- zip: is not a parameter",
    ]


def test_the_callers_own_validators_see_what_was_sent() -> None:
    """A value that the tool itself can read is not bent before."""
    from pydantic import BeforeValidator

    def split(value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value

    @tool
    def f(names: Annotated[list[str], BeforeValidator(split)]) -> list[str]:
        return names

    assert f.bind(call({"names": "a,b", "more": 1})).values == {"names": ["a", "b"]}


@pytest.mark.parametrize("tool_call", [call(), call(None, ""), call(None, "null"), call({})])
def test_no_arguments_are_an_empty_object(tool_call: ToolCall) -> None:
    @tool
    def now() -> str:
        return "now"

    assert now.bind(tool_call) == BoundArguments({}, {}, ())


def test_the_error_is_written_for_the_model() -> None:
    with pytest.raises(ToolError) as e:
        get_weather.bind(call({"days": "ten", "units": "kelvin"}))
    assert (e.value.kind, e.value.tool, e.value.call_id) == ("validation", "get_weather", "c1")
    assert {wrong.path for wrong in e.value.details} == {"$.location", "$.days", "$.units"}
    assert str(e.value) == (
        "The call to get_weather was not run because its arguments are invalid:\n"
        "- location: is missing\n"
        '- days: got "ten": Input should be a valid integer, unable to parse string as an integer\n'
        "- units: got \"kelvin\": Input should be 'celsius' or 'fahrenheit'\n"
        "Parameters: location (string, required), days (integer, default 3), "
        'units (one of "celsius", "fahrenheit", default "celsius")\n'
        'Example: {"location":"text"}'
    )


@pytest.mark.parametrize("raw", ['{"location": "Ro', "[1]", "Rome", '{"location": {"a": 1}}'])
def test_what_cannot_be_repaired(raw: str) -> None:
    with pytest.raises(ToolError, match="invalid") as e:
        get_weather.bind(call(None, raw))
    assert e.value.kind == "validation"


def test_the_context_is_filled_in_under_any_name() -> None:
    @tool
    def f(a: int, here: Context, *, b: int = 0) -> Any:
        return a, b, here.data, here.attempt

    @tool
    def g(here: Context, /, a: int = 1) -> Any:
        return a, here.data

    assert list((f.definition.parameters or {})["properties"]) == ["a", "b"]
    assert run(f, {"a": 1, "b": 2}, data="mine", attempt=2) == (1, 2, "mine", 2)
    assert run(g, {}, data="mine") == (1, "mine")


def test_positional_only_and_any_name() -> None:
    @tool
    def f(a: int, b: int = 2, /, c: int = 3, **options: int) -> Any:
        return a, b, c, options

    assert run(f, {"a": 1}) == (1, 2, 3, {})
    assert run(f, {"a": 1, "c": 5, "z": "6"}) == (1, 2, 5, {"z": 6})


def test_a_tool_of_a_tool_is_the_tool_with_other_options() -> None:
    assert tool(name="other")(plus).max_uses == 3
    assert tool(plus).name == "add"


def test_partials_and_callables() -> None:
    class Looker:
        async def __call__(self, city: str) -> str:
            """Looks."""
            return city

    fixed = tool(partial(get_weather.function, days=9))
    assert fixed.name == "get_weather"
    assert "days" not in (fixed.definition.parameters or {})["properties"]
    assert run(fixed, {"location": "Rome"})["days"] == 9
    looker = tool(Looker())
    assert (looker.name, looker.is_async, looker.description) == ("Looker", True, "Looks.")
    assert run(looker, {"city": "Rome"}) == "Rome"


def test_generators_are_read_to_their_end() -> None:
    @tool
    def words(n: int) -> Iterator[str]:
        for i in range(n):
            yield f"{i} "

    @tool
    async def async_words(n: int) -> AsyncIterator[Any]:
        for i in range(n):
            yield i

    assert run(words, {"n": 3}) == "0 1 2 "
    assert run(tool(name="f")(lambda: words.function(2)), {}) == "0 1 ", (
        "where it runs, not where the result is made"
    )
    assert async_words.is_async
    assert run(async_words, {"n": 3}) == [0, 1, 2]


# ---- methods


class Box:
    """A class with tools of every kind."""

    Kind = Literal["a", "b"]

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.attribute = print

    @tool(effects="read")
    def measure(self, factor: int = 1) -> int:
        """Measures."""
        return self.size * factor

    @tool
    @classmethod
    def create(cls, size: int) -> "Box":
        """Creates."""
        return cls(size)

    @tool
    @staticmethod
    def twice(n: int) -> int:
        """Doubles."""
        return 2 * n

    @staticmethod
    @tool
    def thrice(n: int) -> int:
        """Triples."""
        return 3 * n

    def plain(self, kind: "Kind") -> str:
        """Plain."""
        return f"{kind}{self.size}"

    @property
    def never(self) -> int:
        raise AssertionError("properties are not touched")

    def _private(self) -> None: ...


def test_methods() -> None:
    first, two = Box(1), Box(2)
    assert run(first.measure, {"factor": 5}) == 5
    assert run(two.measure, {"factor": 5}) == 10
    assert first.measure is not two.measure
    held = first.measure
    assert first.measure is held, "one tool for one object, while somebody holds it"
    assert copy(first).measure.function is not held.function
    assert held.definition is two.measure.definition, "the schema is made once for all objects"
    assert held.effects == {"read"}
    assert first.measure(3) == 3
    assert list((held.definition.parameters or {})["properties"]) == ["factor"]
    assert Box.measure.is_unbound
    assert not held.is_unbound
    assert run(Box.create, {"size": 3}).size == 3
    assert run(first.create, {"size": 3}).size == 3
    assert run(first.twice, {"n": 2}) == run(Box.twice, {"n": 2}) == 4
    assert run(first.thrice, {"n": 2}) == run(Box.thrice, {"n": 2}) == 6


def test_a_tool_in_a_class_that_is_no_method_of_it() -> None:
    class Holder:
        weather = get_weather

    assert Holder().weather is get_weather


def test_tools_of() -> None:
    by_name = {item.name: item for item in tools_of(Box(2))}
    assert list(by_name) == ["measure", "create", "twice", "thrice", "plain"]
    assert by_name["measure"].effects == {"read"}
    assert by_name["plain"].description == "Plain."
    assert run(by_name["plain"], {"kind": "b"}) == "b2"
    assert run(by_name["measure"], {"factor": 2}) == 4
    first, *others = tools_of(Box(4), prefix="box_")
    assert (first.name, first.effects, run(first, {})) == ("box_measure", {"read"}, 4)
    assert [item.name for item in others] == ["box_create", "box_twice", "box_thrice", "box_plain"]


def test_tools_of_classes_and_modules() -> None:
    assert [item.name for item in tools_of(Box)] == ["create", "twice", "thrice"]
    assert [item.name for item in tools_of(hooks)] == ["apply_hooks"], (
        "only the functions of the module itself"
    )


def test_local_types_as_text() -> None:
    from pydantic import BaseModel

    class Local(BaseModel):
        a: int

    class Holder:
        class Inner(BaseModel):
            b: int

        @tool
        def method(self, inner: "Inner", local: "Local") -> int:
            return inner.b + local.a

    @tool
    def f(local: "Local") -> int:
        return local.a

    assert run(f, {"local": {"a": 1}}) == 1
    assert run(Holder().method, {"inner": {"b": 1}, "local": {"a": 2}}) == 3


# ---- tools whose definition is given

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}


@pytest.mark.parametrize(("function", "expected"), [
    (by_keywords, {"a": 1, "b": "x"}),
    (by_name, (1, "x")),
    (as_dict, {"a": 1, "b": "x"}),
    (as_one, ({"a": 1, "b": "x"}, "mine")),
    (by_place, {"a": 1, "b": "x"}),
    (context_first, (1, "x")),
])  # fmt: skip
def test_a_tool_from_a_schema(function: Any, expected: Any) -> None:
    created = tool_from_schema("t", "T.", SCHEMA, function, tags=["x"], effects="write")
    assert created.definition == ToolDefinition("t", "T.", SCHEMA, tags=frozenset({"x"}))
    assert created.effects == {"write"}
    assert run(created, {"a": "1", "b": "x"}, data="mine") == expected
    with pytest.raises(ToolError, match="a: is missing"):
        created.bind(call({}))


UNITS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {"type": "string"},
        "units": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
    },
    "required": ["place"],
}


def report(place: str, units: str) -> str:
    return f"{place} in {units}"


def report_all(arguments: dict[str, Any]) -> str:
    return f"{arguments['place']} in {arguments['units']}"


def report_kelvin(place: str, units: str = "kelvin") -> str:
    return f"{place} in {units}"


@pytest.mark.parametrize("function", [report, report_all, report_kelvin])
def test_defaults_of_a_given_schema_are_applied(function: Any) -> None:
    definition = ToolDefinition("t", "T.", UNITS)
    for reporter in (tool_from_schema("t", "T.", UNITS, function), tool_from_definition(definition, function),
                 tool(function, name="t", parameters=UNITS)):  # fmt: skip
        assert run(reporter, {"place": "Paris"}) == "Paris in celsius"
        assert run(reporter, {"place": "Paris", "units": "fahrenheit"}) == "Paris in fahrenheit"
        assert reporter.bind(call({"place": "Paris"})).arguments == {"place": "Paris"}, (
            "the model's own arguments are kept"
        )
        assert run(reporter, {"Place": "Paris"}) == "Paris in celsius", "also after a repair"


def test_the_default_is_not_shared_between_calls() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"items": {"type": "array", "default": []}}}

    def add(items: list[int]) -> int:
        items.append(1)
        return len(items)

    adder = tool_from_schema("add", "", schema, add)
    assert [run(adder, {}), run(adder, {})] == [1, 1]


def test_a_tool_of_a_server_gets_what_the_model_wrote() -> None:
    definition = ToolDefinition("t", "T.", UNITS, tags=frozenset({MCP_TAG}))
    assert tool_from_definition(definition, report).bind(call({"place": "Paris"})).values == {
        "place": "Paris"
    }


def test_a_broken_schema_is_named() -> None:
    with pytest.raises(ToolError, match="The tool t cannot be called: not a JSON Schema") as e:
        tool_from_schema("t", "", {"type": "nonsense"}, by_keywords).bind(call({}))
    assert e.value.kind == "execution"


@pytest.mark.parametrize(
    "tool_call",
    [call(None, "*** x", freeform=True), call({"input": "*** x"}, '{"input": "*** x"}'), call(None, "*** x")],
)
def test_a_freeform_tool_gets_its_text(tool_call: ToolCall) -> None:
    definition = ToolDefinition("patch", "Patches.", kind="freeform")
    patcher = tool_from_definition(definition, apply_patch)
    bound = patcher.bind(tool_call)
    assert bound.arguments == {"patch": "*** x"}
    assert patcher.call(bound.values, Context(tool_call)) == "<*** x>"
    assert patcher.bind(call(None, "", freeform=True)).values == {"patch": ""}


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys\n"
        "from toolglot.tools.tool import tool, tool_from_schema\n"
        "from toolglot.tools.context import Context\n"
        "from toolglot.values.messages import ToolCall\n"
        "@tool\n"
        "def f(a: int) -> int: ...\n"
        "heavy = {'pydantic', 'jsonschema_rs', 'asyncio'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "raw = tool_from_schema('t', '', {'type': 'object'}, lambda **k: k)\n"
        "assert raw.call(raw.bind(ToolCall('1', 't', {'a': 1})).values, Context(ToolCall('1', 't'))) == "
        "{'a': 1}\n"
        "assert 'pydantic' not in sys.modules\n"
        "f.definition\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_context() -> None:
    reports: list[str] = []
    flag = Event()
    context = Context(call(), report=reports.append, cancel_flag=flag, model="m")
    context.report("half")
    assert reports == ["half"]
    assert not context.is_cancelled
    flag.set()
    assert context.is_cancelled
    assert not Context(call()).is_cancelled
    Context(call()).report("nobody listens")
    assert repr(context) == "Context(call='t', attempt=1)"


class Counter:
    @tool
    async def increase(self, by: int) -> int:
        """Counts."""
        return by


async def test_a_tool_is_its_function_to_type_checkers_and_to_inspect() -> None:
    assert_type(get_weather("Oslo", days=1), dict[str, Any])
    assert_type(await plus(1, 2), int)
    assert_type(await Counter().increase(3), int)
    for function, is_async in (
        (get_weather, False),
        (plus, True),
        (Counter().increase, True),
        (tool(copy), False),
    ):
        assert inspect.iscoroutinefunction(function) is is_async
    assert str(inspect.signature(plus)) == "(a: int, b: int) -> int"
    assert str(inspect.signature(Counter().increase)) == "(by: int) -> int"


class User(NamedTuple):
    name: str


def greet(here: Context[User]) -> str:
    return f"Hello {here.data.name}"


def greet_by_schema(here: "Context[User] | None", word: str) -> str:
    return f"{word} {here.data.name}" if here else word


def test_a_context_can_name_the_type_of_its_data() -> None:
    context = Context(ToolCall("1", "greet"), data=User("Ada"))
    assert_type(context.data, User)
    by_schema = tool_from_schema("g", "", {"properties": {"word": {"type": "string"}}}, greet_by_schema)
    assert (tool(greet).call({}, context), by_schema.call({"word": "Hi"}, context)) == ("Hello Ada", "Hi Ada")
    assert tool(greet).definition.parameters == tool(lambda: None, name="none").definition.parameters
