"""Add an MCP server to a configuration file, or remove one, and leave everything else as it is: comments, order, blank lines.

A file is changed as text, because Python's standard library only reads TOML. What the text means is checked before it is
written: nothing but the one server differs.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from toolglot.config.setting_schema import format_path, parse_key
from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text

__all__ = ["add_server", "remove_server"]

_HEADER = re.compile(r"\s*\[(?P<key>[^\[\]]+)\]\s*(#.*)?")
_SECTION = ("mcp", "servers")


def add_server(text: str, name: str, fields: Mapping[str, Any]) -> str:
    """Return the text with one more server. Raises UsageError if it has one of that name, or is not TOML."""
    if name in _list_servers(_parse(text)):
        raise UsageError(f"there is an MCP server {name!r} already: remove it first, with toolglot mcp remove")
    table = [f"[{format_path((*_SECTION, name))}]"]
    for key, value in fields.items():
        parts = cast(dict[str, Any], value) if isinstance(value, dict) else {"": value}
        table += [f"{format_path((key, part) if part else (key,))} = {dumps_text(each)}" for part, each in parts.items()]
    changed = f"{text.rstrip()}\n\n".lstrip("\n") + "\n".join(table) + "\n"
    return _check(changed, {**_list_servers(_parse(text)), name: dict(fields)}, text)


def remove_server(text: str, name: str) -> str:
    """Return the text without a server. Raises UsageError if it cannot be found, or not be removed alone."""
    servers = _list_servers(_parse(text))
    if name not in servers:
        raise UsageError(f"there is no MCP server {name!r} in it")
    kept: list[str] = []
    is_removed = False
    for line in text.splitlines(keepends=True):
        if match := _HEADER.fullmatch(line.rstrip("\r\n")):
            is_removed = parse_key(match["key"])[:3] == (*_SECTION, name)
        if not is_removed:
            kept.append(line)
    changed = re.sub(r"\n{3,}", "\n\n", "".join(kept)).lstrip("\n") if kept else ""
    return _check(changed, {other: value for other, value in servers.items() if other != name}, text)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as e:
        raise UsageError(f"it is not TOML: {e}") from None


def _list_servers(document: Mapping[str, Any]) -> dict[str, Any]:
    return document.get("mcp", {}).get("servers", {})


def _check(changed: str, servers: dict[str, Any], text: str) -> str:
    """Return a changed text if it means the same as before, but for its servers. Raises UsageError."""
    documents = [_parse(text), _parse(changed)]
    has_servers = _list_servers(documents[1]) == servers
    for document in documents:
        document.pop("mcp", None) if set(document.get("mcp", ())) <= {"servers"} else document["mcp"].pop("servers", None)
    if not has_servers or documents[0] != documents[1]:
        raise UsageError("it is written in a way that cannot be changed automatically: edit the table of the server yourself")
    return changed
