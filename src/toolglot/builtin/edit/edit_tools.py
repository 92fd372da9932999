"""The tools that change a part of a text file: `edit`, `multi_edit`, `insert`.

Invariants: a file that the model has not read, or that has changed since, is not edited. All edits of a call
are made, or none. Every byte outside the changed lines stays what it was.
"""

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Annotated, Any

import msgspec

from toolglot.builtin.arguments import path_target
from toolglot.builtin.edit.text_replace import ExpectedCount, MatchMode, Replacement, TextEdit, replace_text
from toolglot.builtin.files.text import check_text, convert_newlines
from toolglot.builtin.files.text_files import (
    MAX_TEXT_BYTES,
    LoadedFile,
    SavedFile,
    TextChange,
    diff_preview,
    load_document,
    load_file,
    save_change,
)
from toolglot.builtin.scopes import change_scope
from toolglot.builtin.tool_state import ReadRule, ToolState, to_data
from toolglot.common.textutil import number_lines, pluralize, split_lines
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.failures import EditFailed, LineOutOfRange, invalid_argument

__all__ = ["EditTools", "TextEdit", "build_snippet", "edit_tools"]

_MAX_EDITS = 500
_CONTEXT_LINES = 5  # around a change in the snippet
_MAX_SNIPPET_LINES, _MAX_SNIPPET_WIDTH = 200, 2000
_MAX_RENDERED_LINES = 12


class _EditChange(TextChange, frozen=True, kw_only=True):
    replacements: tuple[Replacement, ...]


def build_snippet(change: _EditChange, context_lines: int = _CONTEXT_LINES) -> tuple[int, list[str]]:
    """Return the lines around what the last edit changed, and the number of the first."""
    lines = split_lines(change.after)
    ranges = change.replacements[-1].ranges
    first = max(ranges[0][0] - context_lines, 1)
    last = min(ranges[-1][1] + context_lines, len(lines), first + _MAX_SNIPPET_LINES - 1)
    return first, [line[:_MAX_SNIPPET_WIDTH] for line in lines[first - 1 : last]]


class EditTools:
    """The tools as methods, and what they plan without changing anything."""

    def __init__(self, state: ToolState) -> None:
        self._state = state

    def edit(
        self,
        path: str,
        old: str,
        new: str,
        context: Context,
        count: ExpectedCount = "one",
        match: MatchMode = "exact",
        instruction: Annotated[str, Internal] = "",
        read_first: Annotated[ReadRule, Internal] = "required",
    ) -> ToolOutput:
        """Replace text in a file that you have already read. An empty `old` creates a new file.

        For several changes in one file, use multi_edit.

        Args:
            path: Path of the file, absolute or relative to the workspace.
            old: The text to replace, exactly as in the file, without line numbers; long enough to be unique.
            new: The text to put in its place.
            context: The call.
            count: How many times `old` must occur: one (default), all (replace every occurrence) or an exact
                number.
            match: exact (default), or tolerant of differences in whitespace, indentation and small typos.
            instruction: Why the edit is made.
            read_first: What must have been read of the file.
        """
        return self.multi_edit(path, [TextEdit(old, new, count, match)], context, read_first)

    def multi_edit(
        self,
        path: str,
        edits: list[TextEdit],
        context: Context,
        read_first: Annotated[ReadRule, Internal] = "required",
    ) -> ToolOutput:
        """Make several replacements in one file that you have already read: all of them, or none.

        Args:
            path: Path of the file, absolute or relative to the workspace.
            edits: 1 to 500 replacements, applied in order; each one sees the result of those before it.
            context: The call.
            read_first: What must have been read of the file.
        """
        with self._state.lock:
            change = self.plan_replacements(path, edits, lambda: context.is_cancelled, read_first)
            return self._save(path, change, read_first)

    def insert(self, path: str, after_line: int, text: str) -> ToolOutput:
        """Insert lines into a file that you have already read.

        Args:
            path: Path of the file, absolute or relative to the workspace.
            after_line: Number of the line after which to insert; 0 inserts at the top of the file.
            text: The lines to insert.
        """
        with self._state.lock:
            return self._save(path, self.plan_insertion(path, after_line, text))

    def _save(self, path: str, change: _EditChange, read_first: ReadRule = "required") -> ToolOutput:
        saved = save_change(self._state, path, change, read_first)
        first, lines = build_snippet(change)
        data = to_data(saved) | {
            "replacements": sum(replacement.count for replacement in change.replacements),
            "strategies": [replacement.strategy for replacement in change.replacements],
            "ranges": list(change.replacements[-1].ranges),
            "first": first,
            "snippet": "\n".join(lines),
        }
        return ToolOutput(
            _render_edit(saved, change.replacements, number_lines(lines[:_MAX_RENDERED_LINES], first)), data
        )

    def plan_replacements(
        self,
        path: str,
        edits: Sequence[TextEdit],
        should_stop: Callable[[], bool] = lambda: False,
        read_first: ReadRule = "required",
    ) -> _EditChange:
        """Plan all the edits, one after the other. Raises ToolError."""
        if not 1 <= len(edits) <= _MAX_EDITS:
            problem = f"has {pluralize(len(edits), 'entry', 'entries')}; use 1 to {_MAX_EDITS}"
            raise invalid_argument("edits", problem, kind="limit" if edits else "validation")
        for edit in edits:
            check_text(edit.old, "old", MAX_TEXT_BYTES)
            check_text(edit.new, "new", MAX_TEXT_BYTES)
        replacements: list[Replacement] = []
        if edits[0].old:
            document, expected = load_document(self._state, path, read_first)
            text = document.text
        else:  # creates a file, or fills an empty one
            text = edits[0].new
            loaded = self._load_empty(path, text, read_first)
            document, expected = loaded.require_document(path), loaded.version
            replacements.append(Replacement(text, 1, "exact", ((1, max(len(split_lines(text)), 1)),)))
        for number, edit in enumerate(edits[len(replacements) :], len(replacements) + 1):
            try:
                replacement = replace_text(text, edit, name=path, should_stop=should_stop)
            except ToolError as e:
                if len(edits) == 1:
                    raise
                details = (
                    msgspec.structs.replace(e.details, edit=number)
                    if isinstance(e.details, EditFailed)
                    else e.details
                )
                message = f"edit {number} of {len(edits)}: {e}\nNone of the edits was made."
                raise ToolError(message, kind=e.kind, code=e.code, details=details) from None
            text = replacement.text
            replacements.append(replacement)
        return _EditChange.plan(path, document, text, expected, replacements=tuple(replacements))

    def _load_empty(self, path: str, new: str, read_first: ReadRule) -> LoadedFile:
        loaded = load_file(self._state, path, read_first)
        if loaded.document is None or loaded.document.text:
            message = (
                f"{path!r} already exists and is not empty: without a text to replace, only a new "
                "file "
                "is created"
            )
            raise ToolError(message, code="file_exists")
        if not new and loaded.version != "absent":
            message = f"{path!r} is empty, and so are the old and the new text: there is nothing to do"
            raise ToolError(message, kind="validation", code="edit_failed", details=EditFailed("identical"))
        return loaded

    def plan_insertion(self, path: str, after_line: int, text: str) -> _EditChange:
        """Plan new lines after an existing one. Raises ToolError."""
        if not check_text(text, "text", MAX_TEXT_BYTES):
            raise invalid_argument("text", "is empty; write the lines to insert")
        document, expected = load_document(self._state, path)
        lines = list(StringIO(document.text, newline="\n"))
        if not 0 <= after_line <= len(lines):
            message = (
                f"{path!r} has {pluralize(len(lines), 'line')}, so nothing can be inserted after line "
                f"{after_line}"
            )
            message += f": use a number from 0 (the top) to {len(lines)}"
            details = LineOutOfRange(after_line, len(lines))
            raise ToolError(message, kind="validation", code="line_out_of_range", details=details)
        newline = document.newline
        if newline == "mixed":  # as the line before it, or the first
            newline = "crlf" if lines[max(after_line - 1, 0)].endswith("\r\n") else "lf"
        ending = "\r\n" if newline == "crlf" or (newline == "none" and "\r\n" in text) else "\n"
        new = convert_newlines(text, newline)
        if after_line < len(lines) or not lines or lines[-1].endswith("\n"):
            new = new if new.endswith("\n") else new + ending
        else:  # after a last line that is not terminated, and then neither is the new one
            new = ending + new.removesuffix(ending)
        after = "".join((*lines[:after_line], new, *lines[after_line:]))
        new_range = (after_line + 1, after_line + max(len(split_lines(text)), 1))
        return _EditChange.plan(
            path, document, after, expected, replacements=(Replacement(after, 1, "exact", (new_range,)),)
        )


def _render_edit(saved: SavedFile, replacements: Sequence[Replacement], snippet: str) -> str:
    if saved.created:
        return f"created {saved.path!r} ({pluralize(saved.lines, 'line')}, {pluralize(saved.size, 'byte')})"
    lines = _describe_ranges(replacements[-1].ranges)
    edits, position = "", " in "
    if len(replacements) > 1:
        edits, position = f"{len(replacements)} edits, ", "; the last in "
    count = pluralize(sum(replacement.count for replacement in replacements), "replacement")
    text = f"edited {saved.path!r}: {edits}{count}{position}{lines}"
    inexact = [replacement.strategy for replacement in replacements if replacement.strategy != "exact"]
    if not inexact:
        return text
    return (
        f"{text}\n[the old text matched only approximately ({', '.join(inexact)}); the file is "
        f"now:]\n{snippet}"
    )


def _describe_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Return the first ten ranges of lines, such as "lines 1-3, 7 …"."""
    shown = [f"{first}-{last}" if first != last else str(first) for first, last in ranges[:10]]
    text = ", ".join(shown)
    noun = "lines" if len(shown) > 1 or "-" in text else "line"
    more = " …" if len(ranges) > len(shown) else ""
    return f"{noun} {text}{more}"


def edit_tools(state: ToolState) -> list[Tool]:
    """Return `edit`, `multi_edit` and `insert`."""
    tools = EditTools(state)

    def plan_edit(
        path: str, instruction: str = "", read_first: ReadRule = "required", **edit: Any
    ) -> TextChange:
        return tools.plan_replacements(path, [TextEdit(**edit)], read_first=read_first)

    def plan_edits(
        path: str, edits: list[dict[str, object]], read_first: ReadRule = "required"
    ) -> TextChange:
        return tools.plan_replacements(path, msgspec.convert(edits, list[TextEdit]), read_first=read_first)

    declarations: list[tuple[Callable[..., ToolOutput], Callable[..., TextChange], dict[str, Any]]] = [
        (tools.edit, plan_edit, {"path": "src/main.py", "old": "retries = 3", "new": "retries = 5"}),
        (tools.multi_edit, plan_edits, {"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}),
        (tools.insert, tools.plan_insertion, {"path": "src/main.py", "after_line": 0, "text": "import os\n"}),
    ]
    return [
        Tool(
            function,
            effects="write",
            action="edit",
            verb="Edit",
            confined=state.workspace.protects_all,
            scope=change_scope(state),
            target=path_target(state),
            preview=diff_preview(state, plan),
            examples=[example],
        )
        for function, plan, example in declarations
    ]
