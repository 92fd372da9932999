"""Arguments against the schema as it was defined: what a provider was not told, or does not enforce, is enforced here.

The only importer of jsonschema-rs, which is loaded with the first check.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps, loads

__all__ = ["Wrong", "wrongs"]


class Wrong(msgspec.Struct, frozen=True):
    """One thing that is wrong with a call's arguments: where (`$.a[0]`), and what, in words for the model."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def wrongs(arguments: Any, schema: Mapping[str, Any] | None) -> list[Wrong]:
    """What is wrong with arguments by a tool's own schema, nothing where there is none. Raises UsageError for a broken one."""
    if not schema:
        return []
    errors = _validator(dumps(schema)).iter_errors(arguments)
    return [Wrong(_path(error.instance_path), error.message) for error in errors]


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(loads(schema), validate_formats=True, retriever=_nothing)
    except ValueError as e:
        raise UsageError(f"not a JSON Schema: {str(e).partition(chr(10))[0]}") from None


def _nothing(address: str) -> Any:
    """A schema is what it says itself: nothing is fetched."""
    raise ValueError(f"{address} is not in the schema")


def _path(steps: list[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
