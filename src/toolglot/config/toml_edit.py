"""Add an MCP server to a configuration file, or remove one, without changing anything else: comments, order, blank lines.

The file is edited as text, because Python's standard library can only read TOML. The result is parsed before it is written, to
ensure that only that server differs.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from toolglot.common.jsontext import dumps_text
from toolglot.config.setting_schema import format_path, parse_key
from toolglot.errors import UsageError

__all__ = ["add_server", "remove_server"]

_HEADER = re.compile(r"\s*\[(?P<key>[^\[\]]+)\]\s*(#.*)?")
_SECTION = ("mcp", "servers")


def add_server(text: str, name: str, fields: Mapping[str, Any]) -> str:
    """Return the text with a server added. Raises UsageError if it already has one with that name, or is not TOML."""
    servers = _list_servers(_parse(text))
    if name in servers:
        raise UsageError(f"an MCP server {name!r} already exists: remove it first with toolglot mcp remove")
    table = [f"[{format_path((*_SECTION, name))}]"]
    for key, value in fields.items():
        parts = cast(dict[str, Any], value) if isinstance(value, dict) else {"": value}
        table += [f"{format_path((key, part) if part else (key,))} = {_format(each)}" for part, each in parts.items()]
    newline = "\r\n" if "\r\n" in text else "\n"
    before = [text.rstrip(), ""] if text.strip() else []
    return _check(newline.join([*before, *table, ""]), {**servers, name: dict(fields)}, text)


def _format(value: Any) -> str:
    """Write a value as TOML: strings and arrays are those of JSON."""
    return dumps_text(value).replace("\x7f", r"\u007f")  # may be unescaped in JSON, but not in TOML


def remove_server(text: str, name: str) -> str:
    """Return the text without a server. Raises UsageError if it cannot be found, or not be removed on its own."""
    servers = _list_servers(_parse(text))
    if name not in servers:
        raise UsageError(f"it has no MCP server {name!r}")
    kept: list[str] = []
    removed: list[str] | None = None  # the lines of its table so far
    for line in text.splitlines(keepends=True):
        if match := _HEADER.fullmatch(line.rstrip("\r\n")):
            if removed is not None:
                kept += _trailing_comments(removed)
            removed = [] if parse_key(match["key"])[:3] == (*_SECTION, name) else None
        (kept if removed is None else removed).append(line)
    kept += _trailing_comments(removed or [])
    while removed is not None and kept and not kept[-1].strip():
        kept.pop()  # blank lines before the last table
    return _check("".join(kept), {other: value for other, value in servers.items() if other != name}, text)


def _trailing_comments(lines: list[str]) -> list[str]:
    """Return the comments at the end of a table, which belong to what follows it."""
    last = max((number for number, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), default=-1)
    rest = lines[last + 1 :]
    while rest and not rest[0].strip():
        del rest[0]
    return rest


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as e:
        raise UsageError(f"it is not TOML: {e}") from None


def _list_servers(document: Mapping[str, Any]) -> dict[str, Any]:
    section = cast(dict[str, Any], document)
    for key in _SECTION:
        table: Any = section.get(key, {})
        if not isinstance(table, dict):
            raise UsageError(f"its {key} is not a table")
        section = cast(dict[str, Any], table)
    return section


def _check(changed: str, servers: dict[str, Any], text: str) -> str:
    """Return a changed text if only its servers differ in meaning. Raises UsageError."""
    before = _parse(text)
    try:
        after = tomllib.loads(changed)
    except ValueError:  # such as a table that is defined twice
        after = {}
    is_expected = bool(after or not changed.strip()) and _list_servers(after) == servers
    for document in (before, after):
        document.pop("mcp", None) if set(document.get("mcp", ())) <= {"servers"} else document["mcp"].pop("servers", None)
    if not is_expected or before != after:
        raise UsageError("its format cannot be edited automatically: edit the server's table yourself")
    return changed
