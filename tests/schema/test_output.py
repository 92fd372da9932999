"""Python types as structured output: their schemas, and answers converted to their values."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from toolglot.errors import UsageError
from toolglot.schema.output import OutputType


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A point."""

    x: int
    y: int = 0


@dataclass
class Size:
    width: float
    title: str = "none"


class Entry(TypedDict):
    title: str
    done: bool


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


class Bounded(BaseModel):
    n: Annotated[int, Field(ge=1, le=3)]
    color: Color
    when: date | None = None
    kind: Literal["a", "b"] = "a"


class Flagged(BaseModel):
    on: bool
    level: int


GOOD: list[tuple[Any, Any, Any]] = [
    (Point, {"x": 1}, Point(x=1, y=0)),
    (Size, {"width": 2}, Size(2.0)),
    (Entry, {"title": "t", "done": True}, {"title": "t", "done": True}),
    (list[int], [1, 2, 3], [1, 2, 3]),
    (int, 5, 5),
    (Literal["a", "b"], "a", "a"),
    (Color, "red", Color.RED),
    (date, "2024-02-29", date(2024, 2, 29)),
    (Point | Size, {"width": 1}, Size(1.0)),
    (int | None, None, None),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree(name="a", children=[Tree(name="b")])),
    (Bounded, {"n": 3, "color": "blue"}, Bounded(n=3, color=Color.BLUE)),
    # What can be read without a doubt is, also beside a boolean.
    (bool, True, True),
    (int | bool, True, True),
    (Flagged | None, {"on": True, "level": "5"}, Flagged(on=True, level=5)),
    (Flagged, {"on": 1, "level": 5}, Flagged(on=True, level=5)),
    (list[Any], [True, 1], [True, 1]),
]


@pytest.mark.parametrize(("shape", "answer", "value"), GOOD)
def test_a_valid_answer_becomes_a_value(shape: Any, answer: Any, value: Any) -> None:
    validated = OutputType(shape).validate(answer)
    assert validated == value
    assert type(validated) is type(value)


BAD: list[tuple[Any, Any, str]] = [
    (Point, {}, "x: "),
    (Point, {"x": "one"}, "x: "),
    (Point, "words", "the answer"),
    (Entry, {"title": "t"}, "done: "),
    (list[int], [1, "x"], "1: "),
    (Bounded, {"n": 9, "color": "red"}, "n: "),
    (Tree, {"name": "a", "children": [{"name": 1}]}, "children.0.name: "),
    # pydantic alone reads true as 1
    (Point, {"x": True}, "$.x: true is not"),
    (int, False, "$: false is not"),
    (list[float], [1.5, True], "$[1]: true is not"),
    (Point | None, {"x": 1, "y": True}, "$: "),
    (dict[str, Point], {"a": {"x": True}}, "$.a.x: true is not"),
    (Literal[1, 2], True, "true"),
]


@pytest.mark.parametrize(("shape", "answer", "where"), BAD)
def test_errors_name_the_path(shape: Any, answer: Any, where: str) -> None:
    with pytest.raises(ValueError, match=r": ") as caught:
        OutputType(shape).validate(answer)
    assert where in str(caught.value)
    assert "pydantic" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_errors_are_summarized() -> None:
    with pytest.raises(ValueError, match="0: ") as caught:
        OutputType(list[int]).validate(["x"] * 1000)
    assert len(str(caught.value)) < 1000


def test_properties_called_title_stay() -> None:
    class Page(BaseModel):
        title: Literal["title", "x"] = "title"
        labels: dict[str, str] = {"title": "kept"}

    schema = OutputType(Page).schema
    assert "title" not in schema
    assert set(schema["properties"]) == {"title", "labels"}
    assert schema["properties"]["title"]["default"] == "title"
    assert schema["properties"]["title"]["enum"] == ["title", "x"]
    assert schema["properties"]["labels"]["default"] == {"title": "kept"}


def test_a_definition_that_is_called_title_stays() -> None:
    class title(BaseModel):  # noqa: N801
        x: int

    class Holder(BaseModel):
        one: title
        many: list[title]

    schema = OutputType(Holder).schema
    assert schema["$defs"]["title"]["properties"]["x"] == {"type": "integer"}


class Odd:
    """Nothing that pydantic knows."""


@pytest.mark.parametrize("shape", [Odd, "NoSuchType", 5, Callable[[int], int]])
def test_unsupported_types_are_named(shape: Any) -> None:
    with pytest.raises(UsageError, match="cannot be an output type") as caught:
        OutputType(shape)
    assert "\n" not in str(caught.value)
