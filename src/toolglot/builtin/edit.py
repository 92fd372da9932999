"""The tools that change a part of a text file: `edit`, `multi_edit`, `insert`.

Laws: what the model has not read, or what has changed since, is not edited. All edits of a call are made, or none. Every byte
outside of the changed place stays what it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from toolglot.builtin.arguments import one_of, targeting
from toolglot.builtin.loading import LARGEST_TEXT, Plan, diff_preview, load, load_text, save
from toolglot.builtin.replacing import Replaced, Strategy, replaced
from toolglot.builtin.text import (
    UTF8,
    Document,
    Encoding,
    Newline,
    checked,
    counted,
    encoded,
    lines_of,
    newline_of,
    numbered,
    with_newlines,
)
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Version
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["EditedFile", "OneEdit", "edit_tools"]

Match = Literal["exact", "tolerant"]

_MOST_EDITS = 500
_AROUND = 5  # lines around a change in the snippet
_LONGEST_SNIPPET, _WIDEST_SNIPPET = 200, 2000
_SHOWN_SNIPPET = 12
_NOBODY = Context(ToolCall("", "edit"))


@dataclass(frozen=True)
class OneEdit:
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
    match: Match = "exact"
    instruction: str = ""


class EditedFile(msgspec.Struct, frozen=True, kw_only=True):
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


class _Plan(Plan, frozen=True, kw_only=True):
    done: tuple[Replaced, ...]


class _Editor:
    """Plans changes, and carries them out."""

    def __init__(self, box: Toolbox, require_read: bool) -> None:
        self._box, self._require_read = box, require_read

    def replacing(self, context: Context, path: str, edits: Sequence[OneEdit]) -> _Plan:
        """All the edits, one after the other. Raises ToolError."""
        if not edits:
            raise ToolError("`edits` is empty: give at least one", kind="validation")
        if len(edits) > _MOST_EDITS:
            raise ToolError(f"`edits` has {len(edits)} entries, and at most {_MOST_EDITS} are made at once", kind="limit")
        for one in edits:
            _check(one)
        document, seen, done = self._begun(path, edits[0])
        text = done[0].text if done else document.text
        for number, one in enumerate(edits[len(done) :], len(done) + 1):
            try:
                tolerant, stop = one.match == "tolerant", lambda: context.cancelled
                found = replaced(text, one.old, one.new, count=one.count, tolerant=tolerant, name=path, stop=stop)
            except ToolError as e:
                if len(edits) == 1:
                    raise
                why = f"edit {number} of {len(edits)}: {e}\nNone of the edits was made."
                raise ToolError(why, kind=e.kind, details=e.details) from None
            text = found.text
            done.append(found)
        return _planned(document, text, seen, done)

    def _begun(self, path: str, first: OneEdit) -> "tuple[Document, Version | str, list[Replaced]]":
        """The file as it is; where the first edit makes it or fills it, that edit is done."""
        if first.old:
            return *load_text(self._box, path, require_read=self._require_read), []
        loaded = load(self._box, path, require_read=self._require_read)
        if loaded is not None and (loaded.document is None or loaded.document.text):
            raise ToolError(f"{path!r} exists and has text: with an empty `old` only a new file is made", kind="execution")
        if not first.new and loaded is not None:
            raise ToolError(f"{path!r} is empty, and so are `old` and `new`: there is nothing to do", kind="validation")
        form = loaded.document.form if loaded is not None and loaded.document is not None else UTF8
        made = Replaced(first.new, 1, "exact", ((1, max(len(lines_of(first.new)), 1)),))
        return Document("", form), loaded.version if loaded is not None else "absent", [made]

    def inserting(self, path: str, after_line: int, text: str) -> _Plan:
        """Lines put between others. Raises ToolError."""
        if not checked(text, "`text`", LARGEST_TEXT):
            raise ToolError("`text` is empty: give the lines to insert", kind="validation")
        document, seen = load_text(self._box, path, require_read=self._require_read)
        total = len(lines_of(document.text))
        if not 0 <= after_line <= total:
            why = f"`after_line` is {after_line}, and {path!r} has {counted(total, 'line')}"
            raise ToolError(f"{why}: give a number from 0 (the top) to {total}", kind="validation", details={"total": total})
        at = _end_of(document.text, after_line)
        new = _fitted(document, at, text)
        after = document.text[:at] + new + document.text[at:]
        first = after_line + 1
        count = len(lines_of(text))
        return _planned(document, after, seen, [Replaced(after, 1, "exact", ((first, first + max(count, 1) - 1),))])

    def carried_out(self, path: str, plan: _Plan) -> ToolOutput:
        """Writes what was planned."""
        first, last, snippet = _snippet(plan)
        found = EditedFile(
            **save(self._box, path, plan),
            edits=len(plan.done),
            replacements=sum(one.count for one in plan.done),
            strategies=[one.strategy for one in plan.done],
            ranges=list(plan.done[-1].ranges),
            first=first,
            last=last,
            snippet=snippet,
        )
        return ToolOutput(_said(found), built(found))


def _check(edit: OneEdit) -> None:
    checked(edit.old, "`old`", LARGEST_TEXT)
    checked(edit.new, "`new`", LARGEST_TEXT)
    one_of("match", edit.match, get_args(Match))


def _planned(document: Document, after: str, seen: "Version | str", done: Sequence[Replaced]) -> _Plan:
    """The bytes of a changed text; `document` is what was there."""
    if len(after) > LARGEST_TEXT:
        raise ToolError(f"the file would have over {LARGEST_TEXT >> 20} MB, which is too large to be edited", kind="limit")
    form = msgspec.structs.replace(document.form, newline=newline_of(after))
    data = encoded(after, document.form)
    return _Plan(before=document.text, after=after, form=form, data=data, seen=seen, done=tuple(done))


def _end_of(text: str, line: int) -> int:
    """Where a line is over, its end included; 0 is before the first."""
    at = 0
    for _ in range(line):
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        at = end + 1
    return at


def _fitted(document: Document, at: int, new: str) -> str:
    """Lines for a place: with the file's line ends, ended where a line follows, begun anew after one that is not ended."""
    text, newline = document.text, document.form.newline
    if newline == "mixed":
        newline = "crlf" if text[:at].endswith("\r\n") or (not at and text[: text.find("\n")].endswith("\r")) else "lf"
    end = "\r\n" if newline == "crlf" or (newline == "none" and "\r\n" in new) else "\n"
    new = with_newlines(new, newline)
    if at < len(text) or not text or text.endswith("\n"):
        return new if new.endswith("\n") else new + end
    return end + new.removesuffix(end)


def _snippet(plan: _Plan) -> tuple[int, int, str]:
    """The lines around what the last edit changed."""
    lines = lines_of(plan.after)
    ranges = plan.done[-1].ranges
    first = max(ranges[0][0] - _AROUND, 1)
    last = min(ranges[-1][1] + _AROUND, len(lines), first + _LONGEST_SNIPPET - 1)
    return first, last, "\n".join(line[:_WIDEST_SNIPPET] for line in lines[first - 1 : last])


def _said(found: EditedFile) -> str:
    if found.created:
        return f"created {found.path!r} ({found.lines} lines, {found.size} bytes)"
    shown = [f"{first}-{last}" if first != last else str(first) for first, last in found.ranges[:10]]
    lines = ", ".join(shown) + (" …" if len(found.ranges) > len(shown) else "")
    many = f"{found.edits} edits, " if found.edits > 1 else ""
    at = f"line{'s' if len(shown) > 1 or '-' in lines else ''} {lines}"
    text = (
        f"edited {found.path!r}: {many}{counted(found.replacements, 'place')}; {'the last at ' if found.edits > 1 else ''}{at}"
    )
    loose = [one for one in found.strategies if one != "exact"]
    if not loose:
        return text
    near = found.snippet.split("\n")[:_SHOWN_SNIPPET]
    return f"{text}\n[`old` was found only nearly ({', '.join(loose)}); it is now:]\n{numbered(near, found.first)}"


# ---- the tools


def edit_tools(box: Toolbox, *, require_read: bool = True) -> list[Tool]:
    """`edit`, `multi_edit` and `insert`. require_read: a file that the model has not read is not changed."""
    editor, target = _Editor(box, require_read), targeting(box)

    def plan_edit(path: str, **edit: Any) -> Plan:
        return editor.replacing(_NOBODY, path, [OneEdit(**edit)])

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
        match: Match = "exact",
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
        with box.lock:
            return editor.carried_out(path, editor.replacing(context, path, [OneEdit(old, new, count, match, instruction)]))

    def plan_edits(path: str, edits: list[dict[str, object]]) -> Plan:
        return editor.replacing(_NOBODY, path, [msgspec.convert(one, OneEdit) for one in edits])

    @tool(
        name="multi_edit",
        effects="write",
        target=target,
        preview=diff_preview(plan_edits),
        examples=[{"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "y", "new": "z", "count": "all"}]}],
    )
    def multi_edit(path: str, edits: list[OneEdit], context: Context) -> ToolOutput:
        """Makes several replacements in one file, in order, each in what the one before left: all of them, or none.

        Args:
            path: The file, relative to the workspace or absolute.
            edits: The replacements.
            context: The call.
        """
        with box.lock:
            return editor.carried_out(path, editor.replacing(context, path, edits))

    @tool(
        name="insert",
        effects="write",
        target=target,
        preview=diff_preview(editor.inserting),
        examples=[{"path": "src/main.py", "after_line": 0, "text": "import os\n"}],
    )
    def insert(path: str, after_line: int, text: str) -> ToolOutput:
        """Inserts lines into a file that was read before.

        Args:
            path: The file, relative to the workspace or absolute.
            after_line: The line after which they come; 0 is the top of the file.
            text: The lines.
        """
        with box.lock:
            return editor.carried_out(path, editor.inserting(path, after_line, text))

    return [edit, multi_edit, insert]
