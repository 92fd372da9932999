"""Small readers of JSON values whose shape nobody promises."""

from collections.abc import Collection, Iterator
from typing import Any, cast

__all__ = ["Doc", "as_dict", "as_int", "as_list", "as_text", "iter_dicts", "unknown_fields"]

Doc = dict[str, Any]


def as_dict(value: Any) -> Doc:
    """The value where it is an object, else {}."""
    return cast(Doc, value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value where it is an array, else []."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value where it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_int(value: Any) -> int:
    """The value where it is a number, else 0."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e18 else 0


def iter_dicts(value: Any) -> Iterator[Doc]:
    """The objects of an array."""
    return (cast(Doc, item) for item in as_list(value) if isinstance(item, dict))


def unknown_fields(doc: Doc, known: Collection[str]) -> Doc | None:
    """The fields that are not known, or None where there are none."""
    left = {key: value for key, value in doc.items() if key not in known}
    return left or None
