"""Accessors for JSON values whose shape nobody guarantees."""

import re
from collections.abc import Collection, Iterator
from typing import Any, cast

from toolglot.common.jsontext import dumps_text, json_type_name

Doc = dict[str, Any]
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def as_dict(value: Any) -> Doc:
    """Return the value if it is an object, else {}."""
    return cast(Doc, value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is an array, else []."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def to_text(value: Any) -> str:
    """Return a string as it is, null as "" and any other value as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else dumps_text(value)


def require_text(value: Any) -> str:
    """Return a string, and null as "".

    Raises TypeError on anything else: it must not become text of a conversation.
    """
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"{json_type_name(value)} instead of text")


def require_list(value: Any) -> list[Any]:
    """Return an array, and what is empty as [].

    Raises TypeError on anything else: no call or image must get lost silently.
    """
    if not value or isinstance(value, list):
        return cast(list[Any], value or [])
    raise TypeError(f"{json_type_name(value)} instead of an array")


def join_surrogates(text: str) -> str:
    """Join the halves of characters: JavaScript servers cut strings between the two halves of a surrogate
    pair.
    """
    return _SURROGATE_PAIR.sub(
        lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )


def as_int(value: Any) -> int:
    """Return the value as an integer if it is a number, else 0."""
    # A server may send anything as a token count, also NaN and 1e400: int() raises on both.
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e18 else 0


def iter_dicts(value: Any) -> Iterator[Doc]:
    """Iterate over the objects of an array, skipping anything else."""
    return (cast(Doc, item) for item in as_list(value) if isinstance(item, dict))


def skip_empty(values: Any) -> Iterator[Any]:
    """Iterate over values that are neither null nor empty: what a server left out is nothing."""
    return filter(None, values)


def snake_to_camel(key: str) -> str:
    """Convert `function_call` to `functionCall`: Google's JSON accepts both."""
    head, *tail = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def unknown_fields(doc: Doc, known: Collection[str]) -> Doc | None:
    """Return the fields that are not in `known`, or None if there are none."""
    for key in doc:
        if key not in known:
            return {key: value for key, value in doc.items() if key not in known}
    return None
