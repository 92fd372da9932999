"""Add an MCP server to a configuration file, or remove one, without changing anything else: comments, order,
blank lines.

The file is edited as text, because Python's standard library can only read TOML. The result is parsed before
it is written, to ensure that only that server differs.
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
    """Return the text with a server added.

    Raises UsageError if it already has one with that name, or is not TOML.
    """
    servers = _list_servers(_parse(text))
    if name in servers:
        raise UsageError(f"an MCP server {name!r} already exists: remove it first with toolglot mcp remove")
    lines: list[str] = []
    if text.strip():
        lines += [text.rstrip(), ""]
    lines.append(f"[{format_path((*_SECTION, name))}]")
    for key, value in fields.items():
        if isinstance(value, dict):
            for part, item in cast(dict[str, Any], value).items():
                lines.append(f"{format_path((key, part))} = {_format(item)}")
        else:
            lines.append(f"{format_path((key,))} = {_format(value)}")
    newline = "\r\n" if "\r\n" in text else "\n"
    return _check(newline.join([*lines, ""]), {**servers, name: dict(fields)}, text)


def _format(value: Any) -> str:
    """Write a value as TOML: strings and arrays are those of JSON."""
    return dumps_text(value).replace("\x7f", r"\u007f")  # may be unescaped in JSON, but not in TOML


def remove_server(text: str, name: str) -> str:
    """Return the text without a server.

    Raises UsageError if it cannot be found, or not be removed on its own.
    """
    servers = _list_servers(_parse(text))
    if name not in servers:
        raise UsageError(f"it has no MCP server {name!r}")
    kept: list[str] = []
    removed: list[str] | None = None  # the lines of its table so far, while one of its tables is read
    for line in text.splitlines(keepends=True):
        header = _HEADER.fullmatch(line.rstrip("\r\n"))
        if header is not None:
            kept += _trailing_comments(removed or [])
            removed = [] if parse_key(header["key"])[:3] == (*_SECTION, name) else None
        if removed is None:
            kept.append(line)
        else:
            removed.append(line)
    kept += _trailing_comments(removed or [])
    if removed is not None:
        while kept and not kept[-1].strip():
            kept.pop()  # blank lines before the last table
    del servers[name]
    return _check("".join(kept), servers, text)


def _trailing_comments(lines: list[str]) -> list[str]:
    """Return the comments at the end of a table, which belong to what follows it."""
    start = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            start = number
    while start < len(lines) and not lines[start].strip():
        start += 1
    return lines[start:]


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
    is_readable = bool(after) or not changed.strip()
    is_expected = is_readable and _list_servers(after) == servers
    _drop_servers(before)
    _drop_servers(after)
    if not is_expected or before != after:
        raise UsageError("its format cannot be edited automatically: edit the server's table yourself")
    return changed


def _drop_servers(document: dict[str, Any]) -> None:
    """Remove the servers from a document, and their section if there is nothing else in it."""
    section = document.get("mcp", {})
    section.pop("servers", None)
    if not section:
        document.pop("mcp", None)
