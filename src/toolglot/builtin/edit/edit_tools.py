"""The tools that change a part of a text file: `edit`, `multi_edit`, `insert`.

Laws: what the model has not read, or what has changed since, is not edited. All edits of a call are made, or none. Every byte
outside of the changed place stays what it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from toolglot.builtin.arguments import check_choice, file_target
from toolglot.builtin.edit.text_replace import Replacement, Strategy, replace_text
from toolglot.builtin.files.text import (
    UTF8,
    Document,
    Encoding,
    Newline,
    check_text,
    convert_newlines,
    detect_newline,
    encode_text,
)
from toolglot.builtin.files.text_files import MAX_TEXT_BYTES, TextChange, diff_preview, load_document, load_file, save_change
from toolglot.builtin.files.workspace import FileVersion
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.textutil import number_lines, pluralize, split_lines
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["EditResult", "TextEdit", "edit_tools"]

MatchMode = Literal["exact", "tolerant"]

_MAX_EDITS = 500
_CONTEXT_LINES = 5  # lines around a change in the snippet
_MAX_SNIPPET_LINES, _MAX_SNIPPET_WIDTH = 200, 2000
_MAX_RENDERED_LINES = 12
_PREVIEW_CONTEXT = Context(ToolCall("", "edit"))


@dataclass(frozen=True)
class TextEdit:
    """One replacement.

    Attributes:
        old: The text to replace, exactly as it is in the file, without line numbers.
        new: The text to put in its place.
        count: How often `old` must be there: one, all (each is replaced), or a number.
        match: exact, or tolerant of spaces, indentation and small mistakes.
        instruction: Why the edit is made.
    """

    old: str
    new: str
    count: Literal["one", "all"] | int = "one"
    match: MatchMode = "exact"
    instruction: str = ""


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `edit`, `multi_edit` and `insert` tell."""

    path: str
    absolute: str
    created: bool
    edits: int
    replacements: int
    strategies: list[Strategy]
    """How each edit found its place."""
    ranges: list[tuple[int, int]]
    """The first and last line of each place that the last edit changed."""
    first: int
    last: int
    """The lines of the snippet."""
    snippet: str
    """The changed lines and some around them, as they are now."""
    lines: int
    size: int
    added: int
    removed: int
    diff: str
    encoding: Encoding
    bom: bool
    newline: Newline


class _EditChange(TextChange, frozen=True, kw_only=True):
    replacements: tuple[Replacement, ...]


class _Editor:
    """Plans changes, and carries them out."""

    def __init__(self, state: ToolState, require_read: bool) -> None:
        self._state, self._require_read = state, require_read

    def plan_replacements(self, context: Context, path: str, edits: Sequence[TextEdit]) -> _EditChange:
        """All the edits, one after the other. Raises ToolError."""
        if not edits:
            raise ToolError("`edits` is empty: give at least one", kind="validation")
        if len(edits) > _MAX_EDITS:
            raise ToolError(f"`edits` has {len(edits)} entries, and at most {_MAX_EDITS} are made at once", kind="limit")
        for one in edits:
            _check_edit(one)
        document, seen, done = self._load_for_edit(path, edits[0])
        text = done[0].text if done else document.text
        for number, one in enumerate(edits[len(done) :], len(done) + 1):
            try:
                tolerant, stop = one.match == "tolerant", lambda: context.is_cancelled
                found = replace_text(text, one.old, one.new, count=one.count, tolerant=tolerant, name=path, should_stop=stop)
            except ToolError as e:
                if len(edits) == 1:
                    raise
                why = f"edit {number} of {len(edits)}: {e}\nNone of the edits was made."
                raise ToolError(why, kind=e.kind, details=e.details) from None
            text = found.text
            done.append(found)
        return _build_change(document, text, seen, done)

    def _load_for_edit(self, path: str, first: TextEdit) -> "tuple[Document, FileVersion | str, list[Replacement]]":
        """The file as it is; where the first edit makes it or fills it, that edit is done."""
        if first.old:
            return *load_document(self._state, path, require_read=self._require_read), []
        loaded = load_file(self._state, path, require_read=self._require_read)
        if loaded is not None and (loaded.document is None or loaded.document.text):
            raise ToolError(f"{path!r} exists and has text: with an empty `old` only a new file is made", kind="execution")
        if not first.new and loaded is not None:
            raise ToolError(f"{path!r} is empty, and so are `old` and `new`: there is nothing to do", kind="validation")
        form = loaded.document.format if loaded is not None and loaded.document is not None else UTF8
        made = Replacement(first.new, 1, "exact", ((1, max(len(split_lines(first.new)), 1)),))
        return Document("", form), loaded.version if loaded is not None else "absent", [made]

    def plan_insertion(self, path: str, after_line: int, text: str) -> _EditChange:
        """Lines put between others. Raises ToolError."""
        if not check_text(text, "`text`", MAX_TEXT_BYTES):
            raise ToolError("`text` is empty: give the lines to insert", kind="validation")
        document, seen = load_document(self._state, path, require_read=self._require_read)
        total = len(split_lines(document.text))
        if not 0 <= after_line <= total:
            why = f"`after_line` is {after_line}, and {path!r} has {pluralize(total, 'line')}"
            raise ToolError(f"{why}: give a number from 0 (the top) to {total}", kind="validation", details={"total": total})
        at = _find_line_end(document.text, after_line)
        new = _fit_insertion(document, at, text)
        after = document.text[:at] + new + document.text[at:]
        first = after_line + 1
        count = len(split_lines(text))
        return _build_change(document, after, seen, [Replacement(after, 1, "exact", ((first, first + max(count, 1) - 1),))])

    def apply(self, path: str, change: _EditChange) -> ToolOutput:
        """Writes what was planned."""
        first, last, snippet = _build_snippet(change)
        found = EditResult(
            **save_change(self._state, path, change),
            edits=len(change.replacements),
            replacements=sum(one.count for one in change.replacements),
            strategies=[one.strategy for one in change.replacements],
            ranges=list(change.replacements[-1].ranges),
            first=first,
            last=last,
            snippet=snippet,
        )
        return ToolOutput(_render_edit(found), to_data(found))


def _check_edit(edit: TextEdit) -> None:
    check_text(edit.old, "`old`", MAX_TEXT_BYTES)
    check_text(edit.new, "`new`", MAX_TEXT_BYTES)
    check_choice("match", edit.match, get_args(MatchMode))


def _build_change(
    document: Document, after: str, expected: "FileVersion | str", replacements: Sequence[Replacement]
) -> _EditChange:
    """The bytes of a changed text; `document` is what was there."""
    if len(after) > MAX_TEXT_BYTES:
        raise ToolError(f"the file would have over {MAX_TEXT_BYTES >> 20} MB, which is too large to be edited", kind="limit")
    form = msgspec.structs.replace(document.format, newline=detect_newline(after))
    data = encode_text(after, document.format)
    return _EditChange(
        before=document.text, after=after, format=form, data=data, expected=expected, replacements=tuple(replacements)
    )


def _find_line_end(text: str, line: int) -> int:
    """Where a line is over, its end included; 0 is before the first."""
    at = 0
    for _ in range(line):
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        at = end + 1
    return at


def _fit_insertion(document: Document, at: int, new: str) -> str:
    """Lines for a place: with the file's line ends, ended where a line follows, begun anew after one that is not ended."""
    text, newline = document.text, document.format.newline
    if newline == "mixed":
        newline = "crlf" if text[:at].endswith("\r\n") or (not at and text[: text.find("\n")].endswith("\r")) else "lf"
    end = "\r\n" if newline == "crlf" or (newline == "none" and "\r\n" in new) else "\n"
    new = convert_newlines(new, newline)
    if at < len(text) or not text or text.endswith("\n"):
        return new if new.endswith("\n") else new + end
    return end + new.removesuffix(end)


def _build_snippet(change: _EditChange) -> tuple[int, int, str]:
    """The lines around what the last edit changed."""
    lines = split_lines(change.after)
    ranges = change.replacements[-1].ranges
    first = max(ranges[0][0] - _CONTEXT_LINES, 1)
    last = min(ranges[-1][1] + _CONTEXT_LINES, len(lines), first + _MAX_SNIPPET_LINES - 1)
    return first, last, "\n".join(line[:_MAX_SNIPPET_WIDTH] for line in lines[first - 1 : last])


def _render_edit(result: EditResult) -> str:
    if result.created:
        return f"created {result.path!r} ({result.lines} lines, {result.size} bytes)"
    shown = [f"{first}-{last}" if first != last else str(first) for first, last in result.ranges[:10]]
    lines = ", ".join(shown) + (" …" if len(result.ranges) > len(shown) else "")
    many = f"{result.edits} edits, " if result.edits > 1 else ""
    at = f"line{'s' if len(shown) > 1 or '-' in lines else ''} {lines}"
    text = f"edited {result.path!r}: {many}{pluralize(result.replacements, 'place')}; {'the last at ' if result.edits > 1 else ''}{at}"  # noqa: E501
    loose = [one for one in result.strategies if one != "exact"]
    if not loose:
        return text
    near = result.snippet.split("\n")[:_MAX_RENDERED_LINES]
    return f"{text}\n[`old` was found only nearly ({', '.join(loose)}); it is now:]\n{number_lines(near, result.first)}"


# ---- the tools


def edit_tools(state: ToolState, *, require_read: bool = True) -> list[Tool]:
    """`edit`, `multi_edit` and `insert`. require_read: a file that the model has not read is not changed."""
    editor, target = _Editor(state, require_read), file_target(state)

    def plan_edit(path: str, **edit: Any) -> TextChange:
        return editor.plan_replacements(_PREVIEW_CONTEXT, path, [TextEdit(**edit)])

    @tool(
        name="edit",
        effects="write",
        target=target,
        preview=diff_preview(plan_edit),
        examples=[{"path": "src/main.py", "old": "retries = 3", "new": "retries = 5"}],
    )
    def edit(
        path: str,
        old: str,
        new: str,
        context: Context,
        count: Literal["one", "all"] | int = "one",
        match: MatchMode = "exact",
        instruction: str = "",
    ) -> ToolOutput:
        """Replaces text in a file that was read before. An empty `old` makes a new file.

        Args:
            path: The file, relative to the workspace or absolute.
            old: The text to replace, exactly as it is in the file, without line numbers; enough of it to be there only once.
            new: The text to put in its place.
            context: The call.
            count: How often `old` must be there: one, all (each is replaced), or a number.
            match: exact, or tolerant of spaces, indentation and small mistakes.
            instruction: Why the edit is made.
        """
        with state.lock:
            return editor.apply(path, editor.plan_replacements(context, path, [TextEdit(old, new, count, match, instruction)]))

    def plan_edits(path: str, edits: list[dict[str, object]]) -> TextChange:
        return editor.plan_replacements(_PREVIEW_CONTEXT, path, [msgspec.convert(one, TextEdit) for one in edits])

    @tool(
        name="multi_edit",
        effects="write",
        target=target,
        preview=diff_preview(plan_edits),
        examples=[{"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "y", "new": "z", "count": "all"}]}],
    )
    def multi_edit(path: str, edits: list[TextEdit], context: Context) -> ToolOutput:
        """Makes several replacements in one file, in order, each in what the one before left: all of them, or none.

        Args:
            path: The file, relative to the workspace or absolute.
            edits: The replacements.
            context: The call.
        """
        with state.lock:
            return editor.apply(path, editor.plan_replacements(context, path, edits))

    @tool(
        name="insert",
        effects="write",
        target=target,
        preview=diff_preview(editor.plan_insertion),
        examples=[{"path": "src/main.py", "after_line": 0, "text": "import os\n"}],
    )
    def insert(path: str, after_line: int, text: str) -> ToolOutput:
        """Inserts lines into a file that was read before.

        Args:
            path: The file, relative to the workspace or absolute.
            after_line: The line after which they come; 0 is the top of the file.
            text: The lines.
        """
        with state.lock:
            return editor.apply(path, editor.plan_insertion(path, after_line, text))

    return [edit, multi_edit, insert]
