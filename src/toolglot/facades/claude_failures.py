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
# Codes of failures while a tool runs. Today's program opens files and searches without a check, version 2.0
# checked them first.
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
    "edit_failed ambiguous": "Found {details.match_count} matches of the string to replace, but replace_all "
    "is false. They are "
    "in lines {lines}. To replace all of them, set replace_all to true. To replace only one, provide more "
    "context so that no "
    "other matches.\nString: {old}",
    "edit_failed identical": "No changes to make: old_string and new_string are exactly the same.",
}
_FAILURES = {
    **_EDIT_FAILURES,
    "unknown_tool": "Error: No such tool available: {tool}{guess}",
    "not_text": "This tool cannot read binary files. The file appears to be a binary {suffix} file. Use a "
    "shell command that "
    "can read the format.",
    "is_directory": "EISDIR: illegal operation on a directory, {verb} '{path}'",
    "file_exists": "Cannot create new file - file already exists.",
    "cell_not_found": 'Cell with ID "{cell}" not found in notebook.',
    "session_not_found": "No {session} found with ID: {details.session}",
}


def format_kilobytes(size: int) -> str:
    """Return a size as the program writes it: 256KB, 343.8KB."""
    return f"{size / 1024:.1f}".removesuffix(".0") + "KB"


def _render(context: RenderContext, *, is_today: bool) -> str:
    if context.kind in _UNTAGGED_KINDS:
        return context.text
    text = _describe(context, is_today=is_today)
    running = _RUNNING if is_today else _RUNNING_IN_2_0
    if context.code in running.get(context.tool, ()):
        return text
    return f"<tool_use_error>{text}</tool_use_error>"


def render_tagged_failure(context: RenderContext) -> str:
    """Return a failure of a harness that follows the format: in the base tool's words, but for edits."""
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
    details = context.details
    match details:
        case MissingPath():
            return _describe_missing_path(context, details, is_today=is_today)
        case FileTooLarge():
            advice = "Use offset and limit to read parts of the file, or search for what you need in it."
            if is_today:
                advice += " If you need all of it, call Read again with allow_large: true."
            sizes = (
                f"({format_kilobytes(details.size)}) exceeds maximum allowed size "
                f"({format_kilobytes(details.limit)})"
            )
            return f"File content {sizes}. {advice}"
        case InvalidPattern() if is_today:
            return (
                f"Search failed: ripgrep rejected the pattern, glob, or file type:\nrg: {details.explanation}"
            )
        case _ if context.code == "invalid_arguments":
            return f"InputValidationError: {_describe_issues(context.tool, details, is_today=is_today)}"
        case _:
            return _describe_by_code(context)


def _describe_missing_path(context: RenderContext, details: MissingPath, *, is_today: bool) -> str:
    note = ""
    if is_today and details.cwd:
        note = f" Note: your current working directory is {details.cwd}."
    noun = {"Grep": "Path", "Glob": "Directory"}.get(context.tool)
    if noun is not None:
        sentence = f"{noun} does not exist: {context.base.get('path', '')}"
        return f"{sentence}.{note}" if note else sentence
    text = f"File does not exist.{note}"
    if details.suggestions:
        text += f" Did you mean {basename(details.suggestions[0])}?"
    return text


def _describe_by_code(context: RenderContext) -> str:
    guess = ""
    if context.code == "unknown_tool":
        for name in suggest(context.tool, context.visible_names, limit=1):
            guess = f". Did you mean {name}?"
    return describe_failure(
        context,
        _FAILURES,
        tool=context.tool,
        guess=guess,
        suffix=splitext(str(context.base.get("path", "")))[1] or "data",
        verb="read" if context.tool == "Read" else "open",
        difference=_describe_difference(context),
        cell=str(context.base.get("cell_id", "")),
        session="shell" if context.tool in ("KillShell", "BashOutput") else "task",
    )


# ---- invalid arguments, in the form of the library that the program validates with (zod: 4 today, 3 in
# version 2.0)

_TYPE_NAMES = {"integer": "number"}
_LIMITS = {
    "minLength": ("too_small", "string", ">=", True),
    "minItems": ("too_small", "array", ">=", True),
    "maxItems": ("too_big", "array", "<=", True),
    "minimum": ("too_small", "number", ">=", True),
    "exclusiveMinimum": ("too_small", "number", ">", False),
    "maximum": ("too_big", "number", "<=", True),
}


def _describe_issues(tool: str, issues: Iterable[Issue], *, is_today: bool) -> str:
    """Return names and types in sentences; everything else as a list of issues in JSON."""
    sentences: list[str] = []
    others: list[Arguments] = []
    for issue in issues:
        name = issue.path.removeprefix("$").removeprefix(".")
        match issue.keyword:
            case "required":
                sentences.append(f"The required parameter `{name}` is missing")
            case "type":
                kinds = cast(list[str], issue.expected)
                expected = " | ".join(_TYPE_NAMES.get(kind, kind) for kind in kinds)
                received = json_type_name(issue.received).rpartition(" ")[2]
                sentences.append(
                    f"The parameter `{name}` type is expected as `{expected}` but provided as `{received}`"
                )
            case "additionalProperties":
                sentences += [
                    f"An unexpected parameter `{key}` was provided" for key in cast(list[str], issue.expected)
                ]
            case _:
                others.append(_to_zod_issue(issue, _split_path(name), is_today=is_today))
    if not sentences:
        return json.dumps(others, indent=2, ensure_ascii=False)
    noun = "issues" if len(sentences) > 1 else "issue"
    return "\n".join([f"{tool} failed due to the following {noun}:", *sentences])


def _split_path(path: str) -> list[int | str]:
    """Return the keys and indexes of a path such as `todos[0].status`."""
    steps: list[int | str] = []
    for index, key in re.findall(r"\[(\d+)\]|\.?([^.\[\]]+)", path):
        steps.append(int(index) if index else key)
    return steps


def _to_zod_issue(issue: Issue, path: list[int | str], *, is_today: bool) -> Arguments:
    if issue.keyword == "enum":
        return _to_zod_choice(issue, path, is_today=is_today)
    if issue.keyword not in _LIMITS:
        return {"code": "custom", "path": path, "message": issue.message}
    expected = issue.expected
    code, origin, sign, is_inclusive = _LIMITS[issue.keyword]
    key, problem = ("minimum", "Too small") if code == "too_small" else ("maximum", "Too big")
    message = f"{problem}: expected {origin} to be {sign}{expected}"
    if is_today:
        return {
            "origin": origin,
            "code": code,
            key: expected,
            "inclusive": is_inclusive,
            "path": path,
            "message": message,
        }
    return {
        "code": code,
        key: expected,
        "type": origin,
        "inclusive": is_inclusive,
        "exact": False,
        "message": message,
        "path": path,
    }


def _to_zod_choice(issue: Issue, path: list[int | str], *, is_today: bool) -> Arguments:
    expected: Any = issue.expected
    if is_today:
        choices = "|".join(json.dumps(choice) for choice in expected)
        message = f"Invalid option: expected one of {choices}"
        return {"code": "invalid_value", "values": expected, "path": path, "message": message}
    choices = " | ".join(f"'{choice}'" for choice in expected)
    message = f"Invalid enum value. Expected {choices}, received '{issue.received}'"
    kind = {"received": issue.received, "code": "invalid_enum_value", "options": expected}
    return {**kind, "path": path, "message": message}
