"""JSON text and values: what msgspec refuses and providers send is read; anything else is a ValueError."""

import contextlib
import enum
import json
import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.common.jsontext import dumps, dumps_text, json_type_name, loads, loads_object, to_plain
from toolglot.values.messages import Text

BIG = 123456789012345678901234567890


@pytest.mark.parametrize(("text", "value"), [
    ('{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
    ("7", 7),
    (' "é" \n', "é"),
    ("\ufeff{}", {}),
    ('"\\ud800"', "\ud800"),
    ('"\\ud83e\\udd9c"', "🦜"),
    ("1e400", math.inf),
    ("-Infinity", -math.inf),
    (str(BIG), BIG),
    ('{"a":1,"a":2}', {"a": 2}),
])  # fmt: skip
def test_what_providers_send_is_read(text: str, value: Any) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value


def test_nan_is_read() -> None:
    assert math.isnan(loads(b"NaN"))


def test_text_with_a_lone_surrogate_of_its_own_is_read() -> None:
    assert loads('"\ud800"') == "\ud800"


BROKEN = [
    b"",
    b" ",
    b"{",
    b"{'a':1}",
    b"{} {}",
    b"\xff",
    b'"\xff"',
    b"nul",
    b'{"a":}',
    b"9" * 5000,
    b"\xef\xbb\xbf",
    b'"\n"',
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the law is the type
        loads(data)


@pytest.mark.parametrize("open", ["[", '{"a":'], ids=["list", "object"])
def test_json_nested_too_deeply_is_a_value_error(open: str) -> None:
    with pytest.raises(ValueError, match="deep"):
        loads(open * 100_000)
    with pytest.raises(ValueError, match="deep"):
        loads((open * 100_000).encode())


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        loads(data)


def test_only_an_object_is_accepted_as_an_object() -> None:
    assert loads_object('{"a":1}') == {"a": 1}
    for text, kind in (
        ("[]", "an array"),
        ("7", "a number"),
        ("null", "null"),
        ('""', "a string"),
        ("true", "a boolean"),
    ):
        with pytest.raises(ValueError, match=kind):
            loads_object(text)


@pytest.mark.parametrize(("value", "data"), [
    ({"a": [1, "é"], "b": None}, '{"a":[1,"é"],"b":null}'.encode()),
    (["\ud800", "é"], b'["\\ud800","\\u00e9"]'),
    ({"\ud800": 1}, b'{"\\ud800":1}'),
    (Text("\ud800"), b'{"type":"text","text":"\\ud800"}'),
    (float("nan"), b"null"),
    (BIG, str(BIG).encode()),
    ((1, 2), b"[1,2]"),
], ids=["compact", "surrogate", "surrogate key", "struct", "nan", "big", "tuple"])  # fmt: skip
def test_values_are_written_compact(value: Any, data: bytes) -> None:
    assert dumps(value) == data
    assert dumps_text(value) == data.decode()


def test_json_is_strict_even_with_a_lone_surrogate_in_it() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(dumps(["\ud800", float("inf"), float("nan")]), parse_constant=refuse) == [
        "\ud800",
        None,
        None,
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@pytest.mark.parametrize(("value", "name"), [
    (None, "null"),
    (True, "a boolean"),
    (0, "a number"),
    (0.5, "a number"),
    ("", "a string"),
    ([], "an array"),
    ((), "an array"),
    ({}, "an object"),
    (object(), "an object"),
])  # fmt: skip
def test_the_name_of_a_type(value: Any, name: str) -> None:
    assert json_type_name(value) == name


class Shout(enum.StrEnum):
    A = "a"


NEARLY_PLAIN: list[tuple[Any, Any]] = [
    ((1, (2,)), [1, [2]]), (Shout.A, "a"), ({Shout.A: Shout.A}, {"a": "a"}), (enum.IntEnum("N", "x").x, 1),
    (defaultdict(list, a=[()]), {"a": [[]]}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "plain"), NEARLY_PLAIN)
def test_what_is_nearly_plain_becomes_plain(value: Any, plain: Any) -> None:
    converted = to_plain(value)
    assert (type(converted), dumps(converted), converted) == (type(plain), dumps(plain), plain)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_plain_values_are_kept(value: Any) -> None:
    assert to_plain(value) is value


def test_nan_is_allowed_where_providers_send_it() -> None:
    value = {"a": [math.nan]}
    assert to_plain(value, allow_nan=True) is value
    with pytest.raises(ValueError, match=r"\$\.a\[0\]: JSON has no nan"):
        to_plain(value)


def test_a_value_that_contains_itself_ends() -> None:
    value: list[Any] = []
    value += [value, value]
    with pytest.raises(ValueError, match="contains itself"):
        to_plain(value)
