"""What built-in tools tell facades about a failure: stable codes and typed details.

A built-in tool raises `ToolError(message, kind=…, code=…, details=…)`. A facade maps the code and the details
to the text that its model expects and never looks into the message. Messages name no tool and no parameter,
so that they read right under every facade; a bad argument is described by `InvalidArgument`, whose parameter
a facade can translate.
"""

from typing import Literal

import msgspec

from toolglot.errors import ToolError, ToolErrorKind

__all__ = [
    "EditFailed",
    "ErrorCode",
    "FileTooLarge",
    "InvalidArgument",
    "InvalidPatch",
    "InvalidPattern",
    "LineOutOfRange",
    "MissingPath",
    "PatchFailed",
    "PatchedFileFailed",
    "SessionNotFound",
    "invalid_argument",
]

ErrorCode = Literal[
    # arguments
    "invalid_argument",  # details: InvalidArgument
    "cancelled",
    # paths and files
    "invalid_path",
    "path_not_found",  # details: MissingPath
    "path_not_allowed",  # outside the workspace, protected, read-only, or refused by the system
    "is_directory",
    "not_directory",
    "not_regular_file",
    "not_text",
    "file_exists",
    "path_ignored",  # by .gitignore or a file like it
    "file_too_large",  # details of a read: FileTooLarge
    "not_read_yet",
    "changed_since_read",
    "concurrent_change",  # somebody else changes the file right now
    "io_error",
    "pages_not_pdf",
    "not_image",
    "line_out_of_range",  # details: LineOutOfRange
    # edits
    "edit_failed",  # details: EditFailed
    "unencodable_text",
    "invalid_patch",  # details: InvalidPatch
    "patch_failed",  # details: PatchFailed
    "invalid_notebook",
    "cell_not_found",
    "quota_exceeded",
    # search and code
    "search_timeout",
    "invalid_pattern",  # details: InvalidPattern
    "too_many_matches",
    "unknown_language",
    "missing_program",
    # commands
    "session_not_found",  # details: SessionNotFound
    "stdin_closed",
    "session_busy",
    "session_closed",
    "too_many_sessions",
    "sandbox_unavailable",
    "command_not_found",
    "command_timeout",
    # the web
    "invalid_url",
    "address_not_allowed",
    "url_failed",
    "url_timeout",
    "ref_not_found",
    "search_unavailable",
    "search_failed",
    # the user
    "user_unavailable",
    "user_declined",
]
"""Every code; a value that is published here never changes its meaning."""


class InvalidArgument(msgspec.Struct, frozen=True):
    """One argument is wrong: `f"{parameter} {problem}"` is a sentence.

    The problem names no other parameter by identifier.
    """

    parameter: str
    problem: str


class MissingPath(msgspec.Struct, frozen=True):
    """There is nothing at a path."""

    path: str
    suggestions: tuple[str, ...] = ()
    """Existing paths with similar names, best first."""
    cwd: str = ""
    """Where commands run."""


class FileTooLarge(msgspec.Struct, frozen=True):
    """A file that is larger than what is read at once, in bytes."""

    size: int
    limit: int


class InvalidPattern(msgspec.Struct, frozen=True):
    """A pattern that is not a regular expression."""

    pattern: str
    reason: str
    explanation: str
    """What the engine says about it, in several lines."""


class LineOutOfRange(msgspec.Struct, frozen=True):
    """A line number that the file does not have."""

    requested: int
    total: int
    final_newline: bool = False
    """Whether the last line is terminated."""


class EditFailed(msgspec.Struct, frozen=True):
    """A replacement that was not made."""

    reason: Literal["not_found", "ambiguous", "identical", "empty", "elision"]
    match_count: int = 0
    """ambiguous: how often the old text occurs."""
    lines: tuple[int, ...] = ()
    """ambiguous: where (at most 20 line numbers). not_found: the first and last line of the most similar
    text."""
    difference: str = ""
    """not_found: how the most similar text differs, as a sentence fragment."""
    nearest: str = ""
    """not_found: the most similar lines, numbered."""
    edit: int = 0
    """Which edit of the call it was, from 1; 0 if there is only one."""


class InvalidPatch(msgspec.Struct, frozen=True):
    """A patch that cannot be parsed. line: where, from 1; 0 if no line is to blame."""

    line: int = 0
    problem: str = ""
    """What is wrong; "" if it has no sections."""


class PatchFailed(msgspec.Struct, frozen=True):
    """A section of a patch that does not fit its file."""

    path: str
    """Absolute."""
    context: str = ""
    """The anchor after `@@` that was not found."""
    expected: tuple[str, ...] = ()
    """The lines that were not found (at most 100)."""
    after_line: int = 0


class PatchedFileFailed(MissingPath, frozen=True):
    """A file of a patch that is missing, or that cannot be read or written. The path is absolute."""

    action: Literal["write", "update", "delete"] = "update"
    problem: str = ""


class SessionNotFound(msgspec.Struct, frozen=True):
    """There is no command session of this name."""

    session: str
    running: tuple[str, ...] = ()
    """The handles of commands that are running."""


def invalid_argument(parameter: str, problem: str, *, kind: ToolErrorKind = "validation") -> ToolError:
    """The error for one bad argument. `kind`: "limit" if a value is merely too large."""
    details = InvalidArgument(parameter, problem)
    return ToolError(f"{parameter} {problem}", kind=kind, code="invalid_argument", details=details)
