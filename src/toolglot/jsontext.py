"""JSON text and values. All parsing and writing of JSON goes through here.

msgspec does the work. It refuses what some providers really send (lone surrogates, NaN, a BOM, 1e400), so whatever it refuses
is tried again with the standard library. What fails after that raises `ValueError` and nothing else.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from typing import Any, cast

import msgspec

_decode = msgspec.json.Decoder().decode
decode_object = msgspec.json.Decoder(dict[str, Any]).decode
"""Decode an object at full speed, for hot paths. They catch `DECODE_ERRORS` and fall back to `loads`."""
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)
_encode = msgspec.json.Encoder().encode
MAX_DEPTH = 128
"""Levels of a value that a conversation stores. A deeper one can be read, but not written again from a deeper stack."""
_CONTAINERS = (dict, list)
_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
}


def loads(data: bytes | str) -> Any:
    """Parse a JSON document. Raises ValueError."""
    try:
        return _decode(data)
    except DECODE_ERRORS:
        pass
    try:
        return json.loads(data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def loads_object(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON document that must be an object. Raises ValueError."""
    value = loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {json_type_name(value)}")
    return cast(dict[str, Any], value)


def dumps(value: Any) -> bytes:
    """Write compact JSON in UTF-8. Lone surrogates are written as escapes, as they came."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # NaN and infinity become null, as msgspec writes them.
        plain = json.loads(json.dumps(msgspec.to_builtins(value)), parse_constant=lambda constant: None)
        return json.dumps(plain, separators=(",", ":")).encode("ascii")


def dumps_text(value: Any) -> str:
    """Write compact JSON as text."""
    return dumps(value).decode()


def digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON, which does not depend on the order of keys and sets."""
    return sha256(json.dumps(msgspec.to_builtins(value, order="deterministic")).encode()).hexdigest()


def dumps_verbatim(value: Any) -> str:
    """Write a value that may not be portable as compact text, for people and models: NaN stays NaN."""
    if is_portable(value):
        return dumps_text(value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "(nested too deeply)"


def is_portable(value: Any) -> bool:
    """Return whether a value can be written as JSON and read anywhere: no NaN, no infinity, at most `MAX_DEPTH` levels."""
    level: list[Any] = [value]
    for depth in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:  # loops instead of generators: this runs for the arguments of every call
            if type(item) is float:
                if not isfinite(item):
                    return False
            elif type(item) in _CONTAINERS:
                if depth == MAX_DEPTH:
                    return False
                children = cast(Iterable[Any], item.values() if type(item) is dict else item)
                below += [child for child in children if type(child) in _CONTAINERS or type(child) is float]
        if not below:
            break
        level = below
    return True


def json_type_name(value: Any) -> str:
    """Return JSON's name of a value's type, with an article."""
    return _TYPE_NAMES.get(type(cast(object, value)), "an object")
