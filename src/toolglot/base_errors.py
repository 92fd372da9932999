"""What built-in tools tell facades about a failure: stable codes and typed details.

A built-in tool raises `ToolError(message, kind=…, code=…, details=…)`. A facade maps the code and the details to the text that
its model expects and never looks into the message. Messages name no tool and no parameter, so that they read right under every
facade; a bad argument is described by `InvalidArgument`, whose parameter a facade can translate.
"""

from typing import Literal

import msgspec

from toolglot.errors import ToolError, ToolErrorKind

__all__ = ["EditFailed", "InvalidArgument", "LineOutOfRange", "SessionNotFound", "invalid_argument"]


class InvalidArgument(msgspec.Struct, frozen=True):
    """One argument is wrong: `f"{parameter} {problem}"` is a sentence. The problem names no other parameter by identifier."""

    parameter: str
    problem: str


class LineOutOfRange(msgspec.Struct, frozen=True):
    """A line number that the file does not have; `total` is how many lines it has."""

    total: int


class EditFailed(msgspec.Struct, frozen=True):
    """A replacement that was not made."""

    reason: Literal["not_found", "ambiguous", "identical", "empty", "elision"]
    match_count: int = 0
    """ambiguous: how often the old text occurs."""
    lines: tuple[int, ...] = ()
    """ambiguous: where (at most 20 line numbers). not_found: the first and last line of the most similar text."""
    nearest: str = ""
    """not_found: the most similar lines, numbered."""


class SessionNotFound(msgspec.Struct, frozen=True):
    """There is no command session of this name."""

    session: str


def invalid_argument(parameter: str, problem: str, *, kind: ToolErrorKind = "validation") -> ToolError:
    """The error for one bad argument. `kind`: "limit" if a value is merely too large."""
    details = InvalidArgument(parameter, problem)
    return ToolError(f"{parameter} {problem}", kind=kind, code="invalid_argument", details=details)
