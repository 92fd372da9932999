"""What a tool needs as the data of its Context, and which values are certainly not that."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict, TypeVar, runtime_checkable
from unittest.mock import MagicMock, Mock

import pytest

from toolglot.tools.context import Context
from toolglot.tools.needs import fits
from toolglot.tools.tool import tool, tool_from_schema


class Shop:
    name = "corner"


class BigShop(Shop): ...


class HasName(Protocol):
    name: str


@runtime_checkable
class CanSell(Protocol):
    def sell(self) -> None: ...


class Row(TypedDict):
    id: int


UserId = NewType("UserId", int)
T = TypeVar("T")


def needs_shop(context: Context[Shop], n: int = 0) -> None: ...
def needs_text(n: int, context: "Context[Shop | None]") -> None: ...
def needs_keyword(*, c: Context[Shop] | None = None) -> None: ...
def needs_anything(context: Context) -> None: ...
def needs_nothing(n: int) -> None: ...
def needs_what_is_missing(
    context: "Context[Missing]",  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
) -> None: ...


class Desk:
    @tool
    def serve(self, context: Context[Shop]) -> None: ...


FUNCTIONS: list[tuple[Callable[..., Any], Any]] = [
    (needs_shop, Shop),
    (needs_text, Shop | None),
    (needs_keyword, Shop),
    (needs_anything, Any),
    (needs_nothing, Any),
    (needs_what_is_missing, Any),
    (partial(needs_shop, n=3), Shop),
    (len, Any),
]  # fmt: skip


@pytest.mark.parametrize(("function", "needs"), FUNCTIONS)
def test_a_tool_needs_what_its_context_says(function: Callable[..., Any], needs: Any) -> None:
    assert tool(function, name="f").needs == needs
    assert tool_from_schema("f", "", {"type": "object"}, function).needs == needs


def test_a_method_needs_what_its_context_says() -> None:
    assert Desk().serve.needs is Desk.serve.needs is Shop


FITTING: list[tuple[Any, Any]] = [
    (Shop(), Shop), (BigShop(), Shop), (3, Any), (3, object), (None, None), (None, Shop | None), (Shop(), Shop | None),
    (Shop(), Annotated[Shop, "the shop"]), ({}, dict[str, int]), (3, float), (3, complex), (True, int),
    (len, Callable[[str], int]),
    # What isinstance cannot tell
    (3, HasName), (3, Row), (3, UserId), (3, T), ("c", Literal["a", "b"]),
    # A mock is of any type to type checkers, too
    (Mock(), Shop), (MagicMock(), int),
]  # fmt: skip
UNFIT: list[tuple[Any, Any]] = [
    (3, Shop), (Shop(), BigShop), (None, Shop), (3, Shop | None), (3, None), (3, Annotated[Shop, "the shop"]),
    ([], dict[str, int]),
    (3.5, int), ("3", float), (Shop(), CanSell), (Shop, Shop),
]  # fmt: skip


@pytest.mark.parametrize(("data", "needs"), FITTING)
def test_data_that_fits(data: Any, needs: Any) -> None:
    assert fits(data, needs)


@pytest.mark.parametrize(("data", "needs"), UNFIT)
def test_data_that_does_not_fit(data: Any, needs: Any) -> None:
    assert not fits(data, needs)
