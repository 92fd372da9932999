"""What a tool said about itself when a user always allowed it, and what has changed since.

An MCP server can replace its tools at any time. An "always" that also covered what a tool becomes would allow
anything.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_line
from toolglot.common.textutil import truncate
from toolglot.tools.tool import Tool

__all__ = ["describe_changes", "describe_tool"]

_MAX_EXCERPT = 160  # characters of a changed text: a question must stay readable, whatever a server sends
_WINDOW = 2_000  # characters that are escaped for it, which shortens long runs of blanks
_CONTEXT = 20  # characters before the first difference


def describe_tool(tool: Tool) -> dict[str, str]:
    """Return all that a tool says about itself, as JSON by part; equal texts mean the same tool."""
    definition = tool.definition
    parts: dict[str, Any] = {
        "description": definition.description,
        "parameters": definition.parameters,
        "output schema": definition.output_schema,
        "effects": tool.effects,
        "hints": tool.server_hints,
    }
    return {
        name: dumps_text(msgspec.to_builtins(value, order="deterministic")) for name, value in parts.items()
    }


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return on one line what has changed between two descriptions of a tool, the first difference of each
    part.
    """
    changes: list[str] = []
    for name, text in now.items():
        old = before[name]
        if text == old:
            continue
        pairs = enumerate(zip(old, text, strict=False))
        difference = next(
            (index for index, (left, right) in pairs if left != right), min(len(old), len(text))
        )
        start = max(0, difference - _CONTEXT)
        verb = "were" if name.endswith("s") else "was"
        changes.append(f"its {name} {verb} {_excerpt(old, start)}, now {_excerpt(text, start)}")
    return "; ".join(changes)


def _excerpt(text: str, start: int) -> str:
    """Return part of a text that a server wrote: escaped, and not so long that it hides what follows."""
    shown = truncate(escape_line(text[start : start + _WINDOW]), _MAX_EXCERPT)
    return f"…{shown}" if start else shown
