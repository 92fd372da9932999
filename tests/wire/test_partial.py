"""Live arguments: what is whole is there at once, what is being written is open, nothing is looked at twice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.wire.partial import PartialArguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def fed(text: str) -> PartialArguments:
    partial = PartialArguments()
    for character in text:
        partial.feed(character)
    return partial


@pytest.mark.untraced
@given(
    value=st.dictionaries(st.text(), JSON, max_size=4),
    cuts=st.lists(st.integers(1, 9)),
    indent=st.sampled_from([None, 2]),
)
def test_the_whole_text_gives_the_value_however_it_is_cut(
    value: dict[str, Any], cuts: list[int], indent: int | None
) -> None:
    text, partial, at = json.dumps(value, indent=indent), PartialArguments(), 0
    for size in [*cuts, len(text)]:
        partial.feed(text[at : at + size])
        at += size
    assert partial.value == value
    assert not partial.is_broken
    assert fed(text).value == value


@pytest.mark.parametrize(("text", "value", "path", "open", "preview"), [
    ("", None, (), "", None),
    ("{", {}, (), "", {}),
    ('{"a', {}, (), "", {}),
    ('{"a": "he', {}, ("a",), "he", {"a": "he"}),
    ('{"a": "he\\"l\\n', {}, ("a",), 'he"l\n', {"a": 'he"l\n'}),
    ('{"a": "\\\\u00e9\\u00', {}, ("a",), "\\u00e9", {"a": "\\u00e9"}),
    ('{"a": "\\u00e9\\ud83d', {}, ("a",), "é", {"a": "é"}),
    ('{"a": "\\u00e9\\ud83d\\ude00!', {}, ("a",), "é😀!", {"a": "é😀!"}),
    ('{"a": "x", "b": {"c": [1, "y', {"a": "x", "b": {"c": [1]}}, ("b", "c", 1), "y", {"a": "x", "b": {"c": [1, "y"]}}),
    ('{"a": [{"b": "x", "c": "y', {"a": [{"b": "x"}]}, ("a", 0, "c"), "y", {"a": [{"b": "x", "c": "y"}]}),
    ('{"a": 1', {}, ("a",), "", {}),
    ('{"a": 1,', {"a": 1}, (), "", {"a": 1}),
    ('{"a": [true, nul', {"a": [True]}, ("a", 1), "", {"a": [True]}),
    ('{"a": {}, "b": []}', {"a": {}, "b": []}, (), "", {"a": {}, "b": []}),
])  # fmt: skip
def test_what_is_whole_and_what_is_open(
    text: str, value: Any, path: tuple[Any, ...], open: str, preview: Any
) -> None:
    for partial in (fed(text), PartialArguments()):
        if partial.value is None:
            partial.feed(text)
        assert (partial.value, partial.path, partial.open_text, partial.preview) == (
            value,
            path,
            open,
            preview,
        )
        assert (partial.value, partial.open_text) == (value, open), "looking changes nothing"
        assert not partial.is_broken


@pytest.mark.untraced
@given(text=st.text(), size=st.integers(1, 9), ascii=st.booleans())
def test_the_open_text_grows_into_the_string(text: str, size: int, ascii: bool) -> None:
    sent, partial, seen = json.dumps({"a": text}, ensure_ascii=ascii), PartialArguments(), [""]
    for at in range(0, len(sent) - 2, size):
        partial.feed(sent[at : min(at + size, len(sent) - 2)])
        seen.append(partial.open_text)
    assert seen[-1] == text
    assert all(text.startswith(piece) for piece in seen)
    partial.feed(sent[-2:])
    assert (partial.value, partial.preview, partial.open_text) == ({"a": text}, {"a": text}, "")


@pytest.mark.parametrize(
    "text", ["}", '{"a": 1}{', '{"a": 1} "b"', "{1: 2}", "{{", '{"a": tru}', '"\\x"', '{"a" 1 2}']
)
def test_text_that_is_no_json_stops_the_scan_and_nothing_else(text: str) -> None:
    partial = fed(text)
    partial.feed('more"}')
    assert partial.is_broken


def test_a_scalar_at_the_top_is_whole_at_its_end() -> None:
    partial = fed("12")
    assert partial.value is None
    partial.feed(" ")
    assert partial.value == 12
