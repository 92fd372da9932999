"""How Claude Code writes failures: in a tag if a check found them before the call ran, else plainly."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from posixpath import basename, splitext
from typing import Any, cast

from toolglot.common.jsontext import json_type_name
from toolglot.common.textutil import suggest
from toolglot.facades.rendering import describe_failure
from toolglot.facades.view import Arguments, RenderContext
from toolglot.schema.arguments import Issue
from toolglot.values.failures import FileTooLarge, InvalidPattern, MissingPath

__all__ = ["format_kilobytes", "render_failure", "render_failure_in_2_0", "render_tagged_failure"]

_UNTAGGED_KINDS = frozenset({"rejected", "cancelled", "interrupted", "timeout"})
# Codes of failures while a tool runs. Today's program opens files and searches without a check, version 2.0 checked them first.
_RUNNING_IN_2_0: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("Read", "Write", "Edit", "Bash"), frozenset({"is_directory", "io_error"})
)
_RUNNING: Mapping[str, frozenset[str]] = {
    **_RUNNING_IN_2_0,
    "Read": frozenset({"is_directory", "io_error", "path_not_found", "file_too_large"}),
    **dict.fromkeys(("Grep", "Glob"), frozenset({"path_not_found", "not_directory", "invalid_pattern"})),
}
_EDIT_FAILURES = {
    "not_read_yet": "File has not been read yet. Read it first before writing to it.",
    "changed_since_read": "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it.",
    "edit_failed not_found": "String to replace not found in file{difference}.\nString: {old}",
    "edit_failed ambiguous": "Found {details.match_count} matches of the string to replace, but replace_all is false. They are "
    "in lines {lines}. To replace all of them, set replace_all to true. To replace only one, provide more context so that no "
    "other matches.\nString: {old}",
    "edit_failed identical": "No changes to make: old_string and new_string are exactly the same.",
}
_FAILURES = {
    **_EDIT_FAILURES,
    "unknown_tool": "Error: No such tool available: {tool}{guess}",
    "not_text": "This tool cannot read binary files. The file appears to be a binary {suffix} file. Use a shell command that "
    "can read the format.",
    "is_directory": "EISDIR: illegal operation on a directory, {verb} '{path}'",
    "file_exists": "Cannot create new file - file already exists.",
    "cell_not_found": 'Cell with ID "{cell}" not found in notebook.',
    "session_not_found": "No {session} found with ID: {details.session}",
}


def format_kilobytes(size: int) -> str:
    """A size as the program writes it: 256KB, 343.8KB."""
    return f"{size / 1024:.1f}".removesuffix(".0") + "KB"


def _render(context: RenderContext, *, is_today: bool) -> str:
    if context.kind in _UNTAGGED_KINDS:
        return context.text
    text = _describe(context, is_today=is_today)
    running = _RUNNING if is_today else _RUNNING_IN_2_0
    return text if context.code in running.get(context.tool, ()) else f"<tool_use_error>{text}</tool_use_error>"


def render_tagged_failure(context: RenderContext) -> str:
    """A failure of a harness that follows the format: in the base tool's words, but for edits."""
    if context.kind in _UNTAGGED_KINDS:
        return context.text
    text = describe_failure(context, _EDIT_FAILURES, difference=_describe_difference(context))
    return f"<tool_use_error>{text}</tool_use_error>"


def _describe_difference(context: RenderContext) -> str:
    difference = getattr(context.details, "difference", "")
    return f": {difference}" if difference else ""


render_failure = partial(_render, is_today=True)
"""A failure as today's program writes it."""
render_failure_in_2_0 = partial(_render, is_today=False)
"""A failure as version 2.0 wrote it."""


def _describe(context: RenderContext, *, is_today: bool) -> str:
    details, path = context.details, str(context.base.get("path", ""))
    match details:
        case MissingPath():
            note = f" Note: your current working directory is {details.cwd}." if is_today and details.cwd else ""
            if context.tool in ("Grep", "Glob"):
                noun = "Path" if context.tool == "Grep" else "Directory"
                return f"{noun} does not exist: {path}{'.' if note else ''}{note}"
            names = [basename(name) for name in details.suggestions[:1]]
            return f"File does not exist.{note}" + "".join(f" Did you mean {name}?" for name in names)
        case FileTooLarge():
            advice = "Use offset and limit to read parts of the file, or search for what you need in it."
            if is_today:
                advice += " If you need all of it, call Read again with allow_large: true."
            sizes = f"({format_kilobytes(details.size)}) exceeds maximum allowed size ({format_kilobytes(details.limit)})"
            return f"File content {sizes}. {advice}"
        case InvalidPattern() if is_today:
            return f"Search failed: ripgrep rejected the pattern, glob, or file type:\nrg: {details.explanation}"
        case _ if context.code == "invalid_arguments":
            return f"InputValidationError: {_describe_issues(context.tool, details, is_today=is_today)}"
        case _:
            guesses = suggest(context.tool, context.visible_names, limit=1) if context.code == "unknown_tool" else []
            return describe_failure(
                context,
                _FAILURES,
                tool=context.tool,
                guess="".join(f". Did you mean {name}?" for name in guesses),
                suffix=splitext(path)[1] or "data",
                verb="read" if context.tool == "Read" else "open",
                difference=_describe_difference(context),
                cell=str(context.base.get("cell_id", "")),
                session="shell" if context.tool in ("KillShell", "BashOutput") else "task",
            )


# ---- invalid arguments, in the form of the library that the program validates with (zod: 4 today, 3 in version 2.0)

_LIMITS = {
    "minLength": ("too_small", "string", ">=", True),
    "minItems": ("too_small", "array", ">=", True),
    "maxItems": ("too_big", "array", "<=", True),
    "minimum": ("too_small", "number", ">=", True),
    "exclusiveMinimum": ("too_small", "number", ">", False),
    "maximum": ("too_big", "number", "<=", True),
}


def _describe_issues(tool: str, issues: Iterable[Issue], *, is_today: bool) -> str:
    """Names and types in sentences; everything else as a list of issues in JSON."""
    sentences: list[str] = []
    others: list[Arguments] = []
    for issue in issues:
        name = issue.path.removeprefix("$").removeprefix(".")
        match issue.keyword:
            case "required":
                sentences.append(f"The required parameter `{name}` is missing")
            case "type":
                expected = " | ".join("number" if kind == "integer" else kind for kind in cast(list[str], issue.expected))
                received = json_type_name(issue.received).rpartition(" ")[2]
                sentences.append(f"The parameter `{name}` type is expected as `{expected}` but provided as `{received}`")
            case "additionalProperties":
                sentences += [f"An unexpected parameter `{key}` was provided" for key in cast(list[str], issue.expected)]
            case _:
                steps = [int(index) if index else key for index, key in re.findall(r"\[(\d+)\]|\.?([^.\[\]]+)", name)]
                others.append(_to_zod_issue(issue, steps, is_today=is_today))
    if not sentences:
        return json.dumps(others, indent=2, ensure_ascii=False)
    return "\n".join([f"{tool} failed due to the following issue{'s' if len(sentences) > 1 else ''}:", *sentences])


def _to_zod_issue(issue: Issue, path: list[int | str], *, is_today: bool) -> Arguments:
    expected: Any = issue.expected
    if issue.keyword == "enum":
        if is_today:
            choices = "|".join(json.dumps(choice) for choice in expected)
            message = f"Invalid option: expected one of {choices}"
            return {"code": "invalid_value", "values": expected, "path": path, "message": message}
        choices = " | ".join(f"'{choice}'" for choice in expected)
        message = f"Invalid enum value. Expected {choices}, received '{issue.received}'"
        kind = {"received": issue.received, "code": "invalid_enum_value", "options": expected}
        return {**kind, "path": path, "message": message}
    if issue.keyword in _LIMITS:
        code, origin, sign, is_inclusive = _LIMITS[issue.keyword]
        limit = {"minimum" if code == "too_small" else "maximum": expected}
        message = f"{'Too small' if code == 'too_small' else 'Too big'}: expected {origin} to be {sign}{expected}"
        if is_today:
            return {"origin": origin, "code": code, **limit, "inclusive": is_inclusive, "path": path, "message": message}
        return {
            "code": code,
            **limit,
            "type": origin,
            "inclusive": is_inclusive,
            "exact": False,
            "message": message,
            "path": path,
        }
    return {"code": "custom", "path": path, "message": issue.message}
