"""JSON as models write it: what is repaired and reported, what is refused, and that only ValueError is
raised.
"""

import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolglot.common.jsontext import MAX_DEPTH
from toolglot.schema.tolerant_json import tolerant_loads

A1 = {"a": 1}
REPAIRED: list[tuple[str, Any, tuple[str, ...]]] = [
    ('{"a":1}', A1, ()),
    (" \n[1, 2] ", [1, 2], ()),
    ("5", 5, ()),
    ('"x"', "x", ()),
    ("null", None, ()),
    ('"{not json"', "{not json", ()),
    ('{"u":"\\ud83d\\ude00 \\u00e9"}', {"u": "😀 é"}, ()),
    ('```json\n{"a":1}\n```', A1, ("code fence around the JSON",)),
    ("```\n[1,2]\n```", [1, 2], ("code fence around the JSON",)),
    ('Sure! {"a": 1} Done.', A1, ("text around the JSON",)),
    ('<tool_call>{"a":1}</tool_call>', A1, ("text around the JSON",)),
    ('Here {b}: {"a":1}', A1, ("text around the JSON",)),
    ('[note] {"a":1}', A1, ("text around the JSON",)),
    ('{"a":1} see {b}', A1, ("text around the JSON",)),
    ("{'a': 1}", A1, ("' for a quote",)),
    ("{'a': 'it\\'s'}", {"a": "it's"}, ("' for a quote", "invalid escape")),
    ("{a: 1}", A1, ("unquoted key",)),
    ("{user-name: 1}", {"user-name": 1}, ("unquoted key",)),
    ('{"a":1,}', A1, ("extra comma",)),
    ('{"a":[1,2,],}', {"a": [1, 2]}, ("extra comma",)),
    ('{"a":1,,"b":2}', {"a": 1, "b": 2}, ("extra comma",)),
    ('{"a":1 "b":2}', {"a": 1, "b": 2}, ("missing comma",)),
    ('{"a":"x"\n"b":2}', {"a": "x", "b": 2}, ("missing comma",)),
    ("[{} {}]", [{}, {}], ("missing comma",)),
    ('{"a":True,"b":False,"c":None}', {"a": True, "b": False, "c": None}, ("Python literal",)),
    ('{"a":"x\ny\t"}', {"a": "x\ny\t"}, ("raw control character in a string",)),
    (r'{"a":"\d+\."}', {"a": r"\d+\."}, ("invalid escape",)),
    (r'{"a":"\u12 \x41"}', {"a": r"\u12 \x41"}, ("invalid escape",)),
    ("{\u201ca\u201d: \u201cb\u201d}", {"a": "b"}, ("\u201c for a quote",)),
    ("{\u2018a\u2019: 1}", A1, ("\u2018 for a quote",)),
    ('{"a":1 // one\n}', A1, ("comment",)),
    ('{/* x */ "a":1 # y\n}', A1, ("comment",)),
    ('"{\\"a\\":1}"', A1, ("JSON inside a JSON string",)),
    ('"\\"{\\\\\\"a\\\\\\":1}\\""', A1, ("JSON inside a JSON string",)),
    ('{"a":1}{"a":1}', A1, ("the same JSON twice",)),
    ('{"a":1}\n\n{"a":1}\n{"a":1}', A1, ("the same JSON twice",)),
    ('{}{"a":1}', A1, ("an empty object beside the JSON",)),
    ('{"a":1}{}', A1, ("an empty object beside the JSON",)),
    ('\ufeff{"a":1}', A1, ("byte order mark",)),
    ('{"a":\u00a01}', A1, ("odd white space",)),
    ('{"a":0x1F}', {"a": 31}, ("non-standard number",)),
    (
        '{"a":+5,"b":-0x10,"c":.5,"d":007,"e":1_000,"f":1.}',
        dict(zip("abcdef", (5, -16, 0.5, 7, 1000, 1.0), strict=True)),
        ("non-standard number",),
    ),
    ('{"a":1}}', A1, ("extra closing bracket",)),
    ('{"a":1};', A1, ("extra comma",)),
    ('{"a":1, "a":2}', {"a": 2}, ()),
]


@pytest.mark.parametrize(("text", "value", "repairs"), REPAIRED, ids=[row[0] for row in REPAIRED])
def test_repaired(text: str, value: Any, repairs: tuple[str, ...]) -> None:
    assert tolerant_loads(text) == (value, repairs)


REFUSED = [
    ("", "position 0): expected a value, found the end"),
    ("hello", "line 1, column 1 (position 0): expected a value, found 'hello'"),
    ('{"a":Paris}', "(position 5): expected a value, found 'Paris}'"),
    ('{"a":NaN}', "(position 5): expected a value, found 'NaN}'"),
    ('{"a":-Infinity}', "expected a value"),
    ('{"a":1e999}', "expected a number within the range of a double"),
    ('{"a":' + "1" * 5000 + "}", "expected a number of at most"),
    ('{"a" 1}', "expected ':' after a key, found '1}'"),
    ('{\n"a": 1,\n"b" 2}', "line 3, column 5 (position 14): expected ':' after a key"),
    ("{,}", "expected a key, found ',}'"),
    ('{"a":"he said "hi" ok"}', "expected ':' after a key"),
    ('["a" "b"]', "expected ',' or ']'"),
    ('{"a":1}{"a":2}', "expected one JSON value, not two different ones"),
    ('{"a":1}' * 9 + '{"a":2}', "fewer than 8 values"),
    ('{"a":1]', "expected a key, found ']'"),
    ("[" * 1000, f"at most {MAX_DEPTH} levels"),
    ('{"a":' * 1000, f"at most {MAX_DEPTH} levels"),
    ('"a" "b"', "expected the end of the text after the value"),
    # truncated: never completed, and never a part of it taken for the whole
    ('{"a":[1,2', "found the end of the text"),
    ('{"a":1', "found the end of the text"),
    ('{"a":', "found the end of the text"),
    ('{"a"', "found the end of the text"),
    ('{"a":tr', "expected a value"),
    ('{"a":"x', "expected the end of the string that begins here"),
    ('Here: {"a": {"b": 1}', "found the end of the text"),
    ('{} {"x": {"a":1}', "found the end of the text"),
    ('{"a":1} {"b":', "found the end of the text"),
    ('[1, {"a":1}', "found the end of the text"),
    ('{"a" 1, "x": {"b":1}}', "expected ':'"),
    ('so {"a" 1, "x": {"b":1}}', "expected ':'"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[row[0][:30] for row in REFUSED])
def test_refused_with_the_position(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="position") as e:
        tolerant_loads(text)
    assert words in str(e.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES) | st.lists(VALUES), st.booleans(), st.sampled_from([None, 2]))
def test_valid_json_is_not_repaired(value: Any, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert tolerant_loads(text) == (value, ())


@pytest.mark.untraced
@given(st.dictionaries(st.text(min_size=1), VALUES, min_size=1))
def test_surrounding_text_is_ignored(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    for around in (
        f"```json\n{text}\n```",
        f"Here you are: {text} ok?",
        f"{{}}{text}",
        f"{text}{text}",
        f"\ufeff{text}",
        json.dumps(text),
    ):
        parsed, repairs = tolerant_loads(around)
        assert parsed == value
        assert repairs


@pytest.mark.untraced
@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_truncated_text_is_never_a_value(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    length = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(ValueError, match="position"):
        tolerant_loads(text[:length])


PIECES = [
    *"{}[]:,\"'\\a1-.e \n#",
    "//",
    "/*",
    "*/",
    "```",
    "true",
    "\\u",
    "d83d",
    '"a":',
    "{}",
    "\u201c",
    "\ud800",
    "NaN",
]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
@example("\\")
@example('"\\')
@example('{"a":"\\u')
def test_only_value_error_is_raised(text: str) -> None:
    try:
        value, repairs = tolerant_loads(text)
    except ValueError:
        return
    json.dumps(value, allow_nan=False)
    assert isinstance(repairs, tuple)


def count_calls(text: str) -> int:
    """Parse a text; return how many functions that called, also those written in C."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with suppress(ValueError):
            tolerant_loads(text)
    finally:
        sys.setprofile(before)
    return calls


PATTERNS = r"""{"a": | [ | \d | { | /* | { /* | x{"a":1 | " | # | {"a":1} | {} | ``` | 1 | {"a":1, | {'a':' | \ | "\ | {}{"""


@pytest.mark.parametrize("piece", [*PATTERNS.split(" | "), " ", "}", "/* *", "*/ /*"])
def test_the_work_grows_linearly(piece: str) -> None:
    for begin in ("", '{"a":"', '{"a":'):
        assert count_calls(begin + piece * 20_000) <= 2.2 * count_calls(begin + piece * 10_000) + 100
