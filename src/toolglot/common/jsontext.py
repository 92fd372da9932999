"""JSON text and values. All parsing and writing of JSON goes through here.

msgspec does the work. It refuses what some providers really send (lone surrogates, NaN, a BOM, 1e400), so
whatever it refuses is tried again with the standard library. What fails after that raises `ValueError` and
nothing else.
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
"""Levels of a value that a conversation stores. A deeper one can be read, but not written again from a deeper
stack."""
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
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
    try:
        return json.loads(text)
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
    """Return whether a value can be written as JSON and read anywhere: no NaN, no infinity, at most
    `MAX_DEPTH` levels.
    """
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


_SCALARS = frozenset({str, bool, type(None)})
_STRING = frozenset({str})
_MAX_INTEGER = 10**4300 - 1  # CPython refuses to write longer ones
_MIN_INTEGER = -_MAX_INTEGER


def to_plain(value: Any, *, allow_nan: bool = False) -> Any:
    """Return a value as plain JSON: itself if it is that, else a copy with tuples as lists and subclasses as
    their base.

    Raises ValueError, with the path, for what JSON cannot express and for more than `MAX_DEPTH` levels.
    """
    return value if _is_plain(value, allow_nan, 0) else _copy_plain(value, "$", allow_nan, 0)


def _is_plain(value: Any, allow_nan: bool, depth: int) -> bool:
    if type(value) is float:
        return allow_nan or isfinite(value)
    if type(value) is int:
        return _MIN_INTEGER <= value <= _MAX_INTEGER
    if type(value) not in _CONTAINERS:
        return type(value) in _SCALARS
    items: Iterable[Any] = value
    if type(value) is dict:
        if not _STRING.issuperset(map(type, items)):
            return False
        items = cast(dict[str, Any], value).values()
    for item in items:  # no generator, and numbers without a call: this runs for the arguments of every call
        if type(item) is int:
            if not _MIN_INTEGER <= item <= _MAX_INTEGER:
                return False
        elif type(item) not in _SCALARS and (depth == MAX_DEPTH or not _is_plain(item, allow_nan, depth + 1)):
            return False
    return True


def _copy_plain(value: Any, path: str, allow_nan: bool, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        fields = cast(dict[Any, Any], value)
        for key in fields:
            if not isinstance(key, str):
                raise ValueError(f"{path}: a key is {key!r:.60}, and JSON has only strings as keys")
        return {
            str.__str__(key): _copy_plain(item, f"{path}.{key}", allow_nan, depth + 1)
            for key, item in fields.items()
        }
    if isinstance(value, list | tuple):
        items = cast(Iterable[Any], value)
        return [
            _copy_plain(item, f"{path}[{index}]", allow_nan, depth + 1) for index, item in enumerate(items)
        ]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # str() would call the method of an enum
    if isinstance(value, int):
        if not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise ValueError(f"{path}: a number has more than 4300 digits")
        return int(value)
    if isinstance(value, float):
        if not allow_nan and not isfinite(value):
            raise ValueError(f"{path}: JSON has no {value}")
        return float(value)
    raise ValueError(f"{path}: JSON has no {type(value).__name__}")


def json_type_name(value: Any) -> str:
    """Return JSON's name of a value's type, with an article."""
    return _TYPE_NAMES.get(type(cast(object, value)), "an object")
