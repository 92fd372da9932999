"""Arguments as words of the command line get the types of the tool's schema."""

from typing import Any

import pytest

from toolglot.cli.call_arguments import parse_words
from toolglot.errors import UsageError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "options": {"$ref": "#/$defs/Options"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "name": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "mode": {"enum": ["on", "off"]},
        "anything": {},
        "again": {"$ref": "#/$defs/Again"},
    },
    "$defs": {"Options": {"type": "object"}, "Again": {"anyOf": [{"$ref": "#/$defs/Again"}]}},
}


@pytest.mark.parametrize(("word", "value"), [
    ("text=5", "5"), ("text=a=b", "a=b"), ("text=", ""), ("text={}", "{}"), ("text=true", "true"),
    ("count=5", 5), ("share=5", 5), ("share=0.5", 0.5), ("deep=true", True), ("deep=false", False),
    ('paths=["a", "b"]', ["a", "b"]), ('options={"a": 1}', {"a": 1}), ("limit=3", 3), ("limit=null", None),
    ("name=null", "null"), ("either=5", 5), ("either=five", "five"), ("mode=on", "on"),
    ("anything=5", 5), ("anything=five", "five"), ("again=5", 5), ("unknown=5", 5), ("unknown=x", "x"),
])  # fmt: skip
def test_a_value_has_the_type_of_its_parameter(word: str, value: object) -> None:
    parsed = parse_words([word], SCHEMA, "x=1")[word.partition("=")[0]]
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(("words", "message"), [
    (["count=five"], "count must be an integer, not 'five'"),
    (["count=5.5"], "count must be an integer, not '5.5'"),
    (["limit=x"], "limit must be an integer, not 'x'"),
    (["share=x"], "share must be a number, not 'x'"),
    (["deep=yes"], "deep must be true or false, not 'yes'"),
    (["paths=a"], "paths must be a JSON array, not 'a'"),
    (["options=[]"], "options must be a JSON object, not '[]'"),
    (["text=a", "text=b"], "text is given twice: write several values as a JSON array, text='[…]'"),
    (["text=a", "b"], "'b' is no argument: write x=1"),
    (["=a"], "'=a' is no argument: write x=1"),
])  # fmt: skip
def test_a_wrong_word_is_named(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_words(words, SCHEMA, "x=1")
    assert str(caught.value) == message
