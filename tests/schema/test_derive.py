"""Functions of every kind become schemas, and arguments become their values."""

import socket
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypeVar
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, BeforeValidator, Field, field_validator
from typing_extensions import TypedDict

from toolglot.errors import InvalidTool
from toolglot.schema.arguments import find_issues, make_example
from toolglot.schema.derive import Internal, derive
from toolglot.schema.docstrings import parse_docstring

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


class Shape(TypedDict):
    name: str
    sides: NotRequired[int]


class Pair(NamedTuple):
    a: int
    b: str = "b"


class Query(BaseModel):
    """A question."""

    text: str = Field(description="What to look for.")
    limit: int = 10
    child: "Query | None" = None

    @field_validator("limit")
    @classmethod
    def not_zero(cls, value: int) -> int:
        if value == 0:
            raise ValueError("limit may not be 0")
        return value


class Box(BaseModel, Generic[T]):
    item: T


class Hidden:
    """What a tool may get besides."""


def schema(function: Any) -> dict[str, Any]:
    return derive(function, context_type=Hidden).schema


def of(annotation: Any, **default: Any) -> Any:
    """A function with one parameter `x` of a type."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    if default:
        f.__defaults__ = (default["default"],)
    return f


TYPES: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (str, {"type": "string"}, "a", "a"),
    (int, {"type": "integer"}, 1, 1),
    (float, {"type": "number"}, 1.5, 1.5),
    (bool, {"type": "boolean"}, True, True),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (None, {"type": "null"}, None, None),
    (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}, "a", "a"),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2, 2),  # noqa: UP045
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "10", "10"),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (Iterable[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 2], {1, 2}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (Path, {"type": "string", "format": "path"}, "a/b", Path("a/b")),
    (date, {"type": "string", "format": "date"}, "2025-01-31", date(2025, 1, 31)),
    (datetime, {"type": "string", "format": "date-time"}, "2025-01-31T10:00:00", datetime(2025, 1, 31, 10)),
    (time, {"type": "string", "format": "time"}, "10:00:00", time(10)),
    (timedelta, {"type": "string", "format": "duration"}, "PT5S", timedelta(seconds=5)),
    (bytes, {"type": "string", "format": "base64url"}, "aGk+aGk/", b"hi>hi?"),
    (list[bytes], {"type": "array", "items": {"type": "string", "format": "base64url"}}, ["aGk="], [b"hi"]),
    (
        UUID,
        {"type": "string", "format": "uuid"},
        "123e4567-e89b-12d3-a456-426614174000",
        UUID(int=0x123E4567E89B12D3A456426614174000),
    ),
    (AnyUrl, {"type": "string", "format": "uri", "minLength": 1}, "https://a.b/", AnyUrl("https://a.b/")),
    (
        Annotated[int, Field(ge=1, description="n")],
        {"type": "integer", "minimum": 1, "description": "n"},
        1,
        1,
    ),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}, 1, 1),
]


@pytest.mark.parametrize(
    ("annotation", "expected", "sent", "value"), TYPES, ids=[str(row[0]) for row in TYPES]
)
def test_types(annotation: Any, expected: dict[str, Any], sent: Any, value: Any) -> None:
    derived = derive(of(annotation))
    assert derived.schema == {
        "type": "object",
        "properties": {"x": expected},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert derived.bind({"x": sent}) == {"x": value}
    assert (find_issues({"x": sent}, derived.schema) == []) == (annotation not in (time, datetime)), (
        "times without a zone are taken all the same"
    )


NESTED: list[tuple[Any, Any, Any]] = [
    (Color, "red", Color.RED),
    (Level, 2, Level.HIGH),
    (Point, {"x": 1, "tags": ["a"]}, Point(1, 0, ["a"])),
    (Shape, {"name": "n"}, {"name": "n"}),
    (Pair, [1, "c"], Pair(1, "c")),
    (Query, {"text": "t", "child": {"text": "u"}}, Query(text="t", child=Query(text="u"))),
    (Box[int], {"item": 3}, Box[int](item=3)),
    (list[Point | Shape], [{"x": 1}, {"name": "n"}], [Point(1), {"name": "n"}]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (Decimal, "1.50", Decimal("1.50")),
]


@pytest.mark.parametrize(("annotation", "sent", "value"), NESTED, ids=[str(row[0]) for row in NESTED])
def test_structured_values(annotation: Any, sent: Any, value: Any) -> None:
    derived = derive(of(annotation))
    assert derived.bind({"x": sent}) == {"x": value}
    assert find_issues({"x": sent}, derived.schema) == []
    assert derived.bind(make_example(derived.schema)) is not None, (
        "the example that a model is shown is a right one"
    )
    assert "'title'" not in str(derived.schema)


def test_a_property_called_title_stays() -> None:
    class Book(BaseModel):
        title: str

    derived = schema(of(Book))
    assert derived["$defs"]["Book"]["properties"] == {"title": {"type": "string"}}

    def f(
        title: str, description: str, schema: int, model_config: int, _private: int, copy: int, self_: int
    ) -> None: ...

    names = ["title", "description", "schema", "model_config", "_private", "copy", "self_"]
    assert list(schema(f)["properties"]) == names
    arguments = dict.fromkeys(names[:2], "a") | dict.fromkeys(names[2:], 1)
    assert derive(f).bind(arguments) == arguments


@pytest.mark.parametrize(("annotation", "default", "expected"), [
    (int, 3, {"type": "integer", "default": 3}),
    (int, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    (Any, None, {"default": None}),
    (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    (Annotated[int | None, Field(description="n")], None,
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "n"}),
    (Annotated[int, Field(ge=1)], None, {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}),
    (Path, Path("a"), {"type": "string", "format": "path", "default": "a"}),
    (float, float("inf"), {"type": "number"}),
    (Any, object(), {}),
    (int, Field(4, description="n"), {"type": "integer", "default": 4, "description": "n"}),
    (list[int], Field(default_factory=list), {"type": "array", "items": {"type": "integer"}}),
    (Annotated[int, Field(default=5)], ..., {"type": "integer", "default": 5}),
])  # fmt: skip
def test_defaults(annotation: Any, default: Any, expected: dict[str, Any]) -> None:
    function = of(annotation) if default is ... else of(annotation, default=default)
    derived = schema(function)
    assert derived["properties"]["x"] == expected
    assert "required" not in derived


def test_function_defaults_apply_and_field_defaults_are_added() -> None:
    assert derive(of(list[int], default=[1])).bind({}) == {}
    derived = derive(of(list[int], default=Field(default_factory=list)))
    assert derived.bind({}) == {"x": []}
    assert derived.bind({"x": [1]}) == {"x": [1]}
    assert derived.bind({"y": [1]}) is None, "an unknown name is no default"


def test_keyword_only_positional_only_and_aliases() -> None:
    def f(a: int, /, b: int = 2, *, c: Annotated[str, Field(alias="from")] = "x") -> None: ...

    derived = derive(f)
    assert list(derived.schema["properties"]) == ["a", "b", "from"]
    assert derived.positional_names == ("a",)
    assert derived.bind({"a": 1, "from": "y"}) == {"a": 1, "c": "y"}

    def g(a: int = 7, /) -> None: ...

    assert derive(g).bind({}) == {"a": 7}


def test_unannotated_is_any() -> None:
    def f(a: Any, b: Any = 1) -> None: ...

    f.__annotations__.clear()
    assert schema(f)["properties"] == {"a": {}, "b": {"default": 1}}
    assert derive(f).bind({"a": [None]}) == {"a": [None]}


def test_extra_names() -> None:
    def f(a: int, **options: int) -> None: ...
    def g(a: int, **options: Any) -> None: ...

    assert schema(f)["additionalProperties"] == {"type": "integer"}
    assert derive(f).bind({"a": 1, "b": "2"}) == {"a": 1, "b": 2}
    assert derive(f).bind({"a": 1, "b": "x"}) is None
    assert [wrong.path for wrong in derive(f).find_issues({"a": 1, "b": "x"})] == ["$.b"]
    assert schema(g)["additionalProperties"] is True
    assert derive(g).bind({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    "annotation", [Hidden, Hidden | None, "Hidden", "Hidden | None", Annotated[Hidden, "x"]]
)
def test_the_context_parameter(annotation: Any) -> None:
    def f(a: int, anything: Any = None) -> None: ...

    f.__annotations__["anything"] = annotation
    derived = derive(f, context_type=Hidden)
    assert list(derived.schema["properties"]) == ["a"]
    assert derived.context_parameter == "anything"


def test_the_context_parameter_under_type_checking_only() -> None:
    names: dict[str, Any] = {}
    exec("def f(a: int, c: 'Hidden'): ...", names)
    assert derive(names["f"], context_type=Hidden).context_parameter == "c"


def test_internal_parameters_are_bound_but_not_shown() -> None:
    def f(
        path: str,
        mode: Annotated[Color, Internal] = Color.RED,
        near: Annotated[Point | None, Internal] = None,
    ) -> None: ...

    derived = derive(f)
    assert derived.schema == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    assert derived.parameter_names == {"path", "mode", "near"}
    sent = {"path": "a", "mode": "blue", "near": {"x": 1, "y": 2}}
    assert derived.bind(sent) == {"path": "a", "mode": Color.BLUE, "near": Point(1, 2)}
    assert derived.bind({"path": "a", "mode": "none of them"}) is None
    assert derived.bind({"path": "a"}) == {"path": "a"}


def test_definitions_used_by_shown_parameters_stay() -> None:
    def f(box: Box[Point], hidden: Annotated[Query | Point | None, Internal] = None) -> None: ...

    assert sorted(derive(f).schema["$defs"]) == ["Box_Point_", "Point"]


def test_an_internal_parameter_needs_a_default() -> None:
    def f(mode: Annotated[str, Internal]) -> None: ...

    with pytest.raises(InvalidTool, match="parameter 'mode' of f is internal: give it a default"):
        derive(f)


def test_string_annotations() -> None:
    def f(point: "Point", local: "Any") -> None: ...

    f.__annotations__ |= {"local": "Local", "return": "Nobody"}

    class Local(BaseModel):
        a: int

    assert derive(f, namespace={"Local": Local}).bind({"point": {"x": 1}, "local": {"a": 1}}) == {
        "point": Point(1),
        "local": Local(a=1),
    }
    with pytest.raises(InvalidTool, match=r"parameter 'local' of f: its type .*Local.* cannot be resolved"):
        derive(f)


def test_a_class_in_a_closure() -> None:
    class Local(BaseModel):
        a: int

    def f(local: "Local") -> Any:
        return Local(a=1)

    assert derive(f).bind({"local": {"a": 1}}) == {"local": Local(a=1)}


def test_partials_wrappers_callables_and_classes() -> None:
    def f(key: str, city: str, days: int = 1) -> None:
        """Looks.

        Args:
            city: Where.
        """

    @wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    class Looker:
        def __call__(self, city: str) -> None:
            """Looks again."""

    fixed = derive(partial(f, key="secret"))
    assert list(fixed.schema["properties"]) == ["city", "days"], "what a partial fixed is not shown"
    assert fixed.description == "Looks."
    assert list(derive(partial(f, "secret")).schema["properties"]) == ["city", "days"]
    assert derive(wrapper).schema["properties"]["city"] == {"type": "string", "description": "Where."}
    assert derive(Looker()).schema["properties"] == {"city": {"type": "string"}}
    assert derive(Looker()).description == "Looks again."
    assert list(derive(Point).schema["properties"]) == ["x", "y", "tags"]


def many(*values: int) -> None: ...


def odd(**options: socket.socket) -> None: ...


@pytest.mark.parametrize(("function", "words"), [
    (many, r"many cannot be a tool: it takes \*values"),
    (odd, r"the \*\* parameter of odd: socket has no JSON form"),
    (min, "min cannot be a tool: Python cannot inspect its parameters; wrap it in a function"),
    (of(socket.socket), r"parameter 'x' of f: socket has no JSON form .*; use a type with a JSON form"),
    (of(Callable[[int], int]), "parameter 'x' of f: .*Callable.* has no JSON form"),
    (of(Iterator[int]), "parameter 'x' of f: .*Iterator.* has no JSON form"),
    (of(type[int]), r"parameter 'x' of f: .*type\[int\].* has no JSON form"),
    (of("Nobody"), "parameter 'x' of f: its type 'Nobody' cannot be resolved"),
    (of("List["), "parameter 'x' of f: its type .* cannot be resolved"),
])  # fmt: skip
def test_functions_that_cannot_be_tools(function: Any, words: str) -> None:
    with pytest.raises(InvalidTool, match=words):
        derive(function)


def test_duplicate_aliases() -> None:
    def f(a: int, b: Annotated[int, Field(alias="a")]) -> None: ...

    with pytest.raises(InvalidTool, match="two of its parameters have the same name"):
        derive(f)


def explode(value: Any) -> Any:
    raise KeyError("oops")


@pytest.mark.parametrize(("annotation", "sent", "path", "words"), [
    (int, "ten", "$.x", 'got "ten": Input should be a valid integer'),
    (int, None, "$.x", "got null"),
    (list[int], [1, "a"], "$.x[1]", 'got "a"'),
    (Query, {"text": "t", "limit": 0}, "$.x.limit", "got 0: limit may not be 0"),
    (Query, {}, "$.x.text", "is missing"),
    (Point | Shape, {"y": 1}, "$.x.x", "is missing"),
    (int | bool, "z", "$.x", "; or "),
    (Annotated[int, BeforeValidator(explode)], 1, "$", "KeyError"),
])  # fmt: skip
def test_issues_name_the_path(annotation: Any, sent: Any, path: str, words: str) -> None:
    derived = derive(of(annotation))
    assert derived.bind({"x": sent}) is None
    wrong = next(wrong for wrong in derived.find_issues({"x": sent}) if wrong.path == path)
    assert words in wrong.message


GOOGLE = """Looks up.

More text: here.

Args:
    city: Where: the city,
        or its code.
    days (int): How many.

Returns:
    The weather.

Raises:
    ValueError: Never.

Note:
    Slow.
"""
NUMPY = """Looks up.

More text: here.

Parameters
----------
city : str
    Where: the city,
    or its code.
days
    How many.

Returns
-------
dict
    The weather.
"""
SPHINX = """Looks up.

More text: here.

:param city: Where: the city,
    or its code.
:param int days: How many.
:returns: The weather.
"""


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX])
def test_docstrings(doc: str) -> None:
    def f(city: str, days: int) -> None: ...

    f.__doc__ = doc
    derived = derive(f)
    assert derived.description.startswith("Looks up.\n\nMore text: here.\n\nReturns: The weather.")
    assert derived.schema["properties"]["city"]["description"] == "Where: the city, or its code."
    assert derived.schema["properties"]["days"]["description"] == "How many."
    assert ("Note: Slow." in derived.description) == (doc is GOOGLE)
    assert "ValueError" not in derived.description


@pytest.mark.parametrize(("doc", "description", "parameters"), [
    ("Do.\n\nArgs:\n    a (dict[str, tuple[int, (int)]]): Nested.\n    **b: Rest.", "Do.", {"a": "Nested.", "b": "Rest."}),
    ("Do.\n\nArgs:\n    a: First\n        line.\n\n        Second.", "Do.", {"a": "First line.\n\nSecond."}),
    ("Do.\n\nargs:\n  a: x\n\nUsage:\n\n  do()", "Do.\n\nUsage:\n\n  do()", {"a": "x"}),
    ("Do.\n\nReturns:\n    dict[str, int] | None: The counts.", "Do.\n\nReturns: The counts.", {}),
    ("Do.\n\nReturns:\n    The counts: one per name.", "Do.\n\nReturns: The counts: one per name.", {}),
    ("Parameters\n----------\na, b : int\n    Both.\n*c\n    Rest.", "", {"a": "Both.", "b": "Both.", "c": "Rest."}),
    ("Notes\n-----\nSlow.\n\nParameters\n----------\na\n    x", "Notes: Slow.", {"a": "x"}),
    (":param a: x\ny\n:type a: int\n\nAfter.\n\n:raises ValueError: z", "After.", {"a": "x y"}),
    (":param \\*a: x\n.. versionadded:: 2", ".. versionadded:: 2", {"a": "x"}),
])  # fmt: skip
def test_parts_of_docstrings(doc: str, description: str, parameters: dict[str, str]) -> None:
    assert parse_docstring(doc) == (description, parameters)


@pytest.mark.parametrize(
    "doc",
    [
        "",
        "One line.",
        "Two.\n\nParagraphs: no sections.",
        "Odd:\n  thing",
        "Args:",
        "::\n---\n:param",
        "Args:\n\n\n:param x",
    ],
)
def test_plain_docstrings_are_kept(doc: str) -> None:
    def f(city: str) -> None: ...

    f.__doc__ = doc
    assert "".join(derive(f).description.split()) == "".join(doc.split())


def test_postponed_annotations() -> None:
    code = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import Annotated, Literal, TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from nowhere import Hidden\n"
        "@dataclass\nclass Spot:\n    x: int\n    next: Spot | None = None\n"
        "def f(spot: Spot, kind: Literal['a'], n: Annotated[int, 'how many'] = 1,\n"
        "      hidden: Hidden | None = None) -> Nobody: ...\n"
    )
    names: dict[str, Any] = {"__name__": __name__}
    exec(code, names)
    derived = derive(names["f"], context_type=Hidden)
    assert derived.context_parameter == "hidden"
    assert derived.schema["properties"]["n"]["description"] == "how many"
    fitted = derived.bind({"spot": {"x": 1, "next": {"x": 2}}, "kind": "a"})
    assert fitted
    assert fitted["spot"].next.x == 2


def test_examples_in_a_docstring_stay() -> None:
    def f(city: str) -> None: ...

    f.__doc__ = "Looks.\n\nParameters\n----------\ncity\n    Where.\n\nExamples\n--------\n>>> f('a')\n1\n"
    assert derive(f).description == "Looks.\n\nExamples:\n>>> f('a')\n1"


class Place(typing.TypedDict):
    """A place.

    Attributes:
        city: Its name.
    """

    city: str
    zip: NotRequired[int]


class Route(typing.TypedDict, total=False):
    stops: "list[Place]"
    detour: "Route | None"
    at: Annotated[Place, "mark"]


def test_typed_dicts_of_the_standard_library() -> None:
    def travel(
        start: Place,
        routes: list[Route] | None = None,
        by: dict[str, Place] = {},  # noqa: B006
        **others: Place,
    ) -> None: ...

    derived = derive(travel)
    definitions = derived.schema["$defs"]
    assert definitions["Place"]["required"] == ["city"]
    assert definitions["Place"]["description"] == "A place."
    assert definitions["Place"]["properties"]["city"] == {"type": "string", "description": "Its name."}
    assert "required" not in definitions["Route"]
    assert definitions["Route"]["properties"]["detour"]["anyOf"][0] == {"$ref": "#/$defs/Route"}
    start: dict[str, Any] = {"city": "Rome"}
    route: dict[str, Any] = {"stops": [{"city": "Bari", "zip": 70121}], "detour": {}}
    arguments: dict[str, Any] = {"start": start, "routes": [route], "by": {"a": start}, "end": start}
    assert derived.bind(arguments) == arguments
    assert derived.bind({"start": {"zip": 1}}) is None
