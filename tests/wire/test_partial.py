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
    found = PartialArguments()
    for character in text:
        found.feed(character)
    return found


@pytest.mark.untraced
@given(value=st.dictionaries(st.text(), JSON, max_size=4), cuts=st.lists(st.integers(1, 9)), indent=st.sampled_from([None, 2]))
def test_the_whole_text_gives_the_value_however_it_is_cut(value: dict[str, Any], cuts: list[int], indent: int | None) -> None:
    text, found, at = json.dumps(value, indent=indent), PartialArguments(), 0
    for size in [*cuts, len(text)]:
        found.feed(text[at : at + size])
        at += size
    assert found.value == value
    assert not found.is_broken
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
def test_what_is_whole_and_what_is_open(text: str, value: Any, path: tuple[Any, ...], open: str, preview: Any) -> None:
    for found in (fed(text), PartialArguments()):
        if found.value is None:
            found.feed(text)
        assert (found.value, found.path, found.open_text, found.preview) == (value, path, open, preview)
        assert (found.value, found.open_text) == (value, open), "looking changes nothing"
        assert not found.is_broken


@pytest.mark.untraced
@given(text=st.text(), size=st.integers(1, 9), ascii=st.booleans())
def test_the_open_text_grows_into_the_string(text: str, size: int, ascii: bool) -> None:
    sent, found, seen = json.dumps({"a": text}, ensure_ascii=ascii), PartialArguments(), [""]
    for at in range(0, len(sent) - 2, size):
        found.feed(sent[at : min(at + size, len(sent) - 2)])
        seen.append(found.open_text)
    assert seen[-1] == text
    assert all(text.startswith(piece) for piece in seen)
    found.feed(sent[-2:])
    assert (found.value, found.preview, found.open_text) == ({"a": text}, {"a": text}, "")


@pytest.mark.parametrize("text", ["}", '{"a": 1}{', '{"a": 1} "b"', "{1: 2}", "{{", '{"a": tru}', '"\\x"', '{"a" 1 2}'])
def test_text_that_is_no_json_stops_the_scan_and_nothing_else(text: str) -> None:
    found = fed(text)
    found.feed('more"}')
    assert found.is_broken


def test_a_scalar_at_the_top_is_whole_at_its_end() -> None:
    found = fed("12")
    assert found.value is None
    found.feed(" ")
    assert found.value == 12
