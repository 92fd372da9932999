"""Arguments of a tool as words of the command line: `path=README.md end_line=5`."""

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from toolglot.common.jsontext import dumps_text, loads
from toolglot.errors import UsageError
from toolglot.schema.json_schema import SchemaDocument, allowed_types, json_type

__all__ = ["format_words", "parse_words"]

_MAX_DEPTH = 5  # of alternatives, which may refer to themselves
_EXPECTED = {
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
}


def parse_words(words: Iterable[str], schema: Any, example: str) -> dict[str, Any]:
    """Return arguments from KEY=VALUE words. What a value is, the tool's schema says: text as it stands, or JSON.

    `example`: what to write, for messages. Raises UsageError.
    """
    document = SchemaDocument(schema)
    properties: Any = document.follow(schema).get("properties", {})
    arguments: dict[str, Any] = {}
    for word in words:
        key, has_value, text = word.partition("=")
        if not (key and has_value):
            raise UsageError(f"{word!r} is no argument: write {example}")
        if key in arguments:
            raise UsageError(f"{key} is given twice: write several values as a JSON array, {key}='[…]'")
        arguments[key] = _parse_value(key, text, _find_types(properties.get(key), document))
    return arguments


def format_words(arguments: Mapping[str, Any]) -> str:
    """Return arguments as the words that `parse_words` reads, as they are typed in a shell."""
    texts = {key: value if isinstance(value, str) else dumps_text(value) for key, value in arguments.items()}
    return " ".join(f"{key}={quote(text)}" for key, text in texts.items())


def _parse_value(key: str, text: str, types: set[str]) -> Any:
    is_text = "string" in types and types <= {"string", "null"}
    value = text if is_text else _parse_json(text)
    if not types or json_type(value) in types:
        return value
    if "string" in types:
        return text
    expected = next(words for kind, words in _EXPECTED.items() if kind in types)
    raise UsageError(f"{key} must be {expected}, not {text!r}")


def _parse_json(text: str) -> Any:
    """Return what a text is as JSON; the text itself if it is none."""
    try:
        return loads(text)
    except ValueError:
        return text


def _find_types(node: Any, document: SchemaDocument, depth: int = 0) -> set[str]:
    """Return the JSON types that a schema accepts; none if it does not say."""
    node = document.follow(node)
    types = {*allowed_types(node)}
    parts = (*node.get("anyOf", ()), *node.get("oneOf", ())) if depth < _MAX_DEPTH else ()
    for part in parts:
        part_types = _find_types(part, document, depth + 1)
        if not part_types:
            return set()
        types |= part_types
    return types | {"integer"} if "number" in types else types
