"""The tool that changes one cell of a Jupyter notebook: `notebook_edit`.

Invariants: the notebook's JSON is not serialised again; only the text of the changed cell is replaced, in the
style of the rest. Key order, indentation, numbers and line endings of everything else stay byte for byte.
"""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, Any, Literal, cast

import msgspec

from toolglot.builtin.arguments import path_target
from toolglot.builtin.files.text import check_text, convert_newlines
from toolglot.builtin.files.text_files import (
    MAX_TEXT_BYTES,
    TextChange,
    diff_preview,
    load_document,
    save_change,
)
from toolglot.builtin.scopes import change_scope
from toolglot.builtin.tool_state import ReadRule, ToolState, to_data
from toolglot.common.textutil import pluralize
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["notebook_tools"]

CellType = Literal["code", "markdown", "raw"]
EditMode = Literal["replace", "insert", "delete"]

_CELL_INDEX = re.compile(r"(?:cell-)?(\d{1,9})")
_raw_decode = json.JSONDecoder(strict=False).raw_decode


# ---- positions in JSON text


class _JsonSpan(msgspec.Struct, frozen=True):
    """A value and where its text is."""

    value: Any
    start: int
    end: int


def _skip_whitespace(text: str, offset: int) -> int:
    while text[offset : offset + 1] in ("\n", " ", "\t", "\r"):
        offset += 1
    return offset


def _iter_items(text: str, start: int) -> Iterator[_JsonSpan]:
    """Yield the items of the array that begins here; of an object, its keys and values alternately."""
    offset = _skip_whitespace(text, start + 1)
    while text[offset] not in "]}":
        value, end = _raw_decode(text, offset)
        yield _JsonSpan(value, offset, end)
        offset = _skip_whitespace(text, end)
        if text[offset] in ",:":
            offset = _skip_whitespace(text, offset + 1)


def _parse_members(text: str, start: int) -> dict[str, _JsonSpan]:
    items = list(_iter_items(text, start))
    return {key.value: value for key, value in zip(items[::2], items[1::2], strict=True)}


class _JsonStyle:
    """How the JSON of a notebook is formatted."""

    def __init__(self, text: str) -> None:
        first = re.match(r"\s*\{(\r?\n)([ \t]*)", text)
        self.indent: str | None = first[2] if first else None
        self.colon = ": " if re.search(r'"[ ]*:[ ]', text[:10_000]) else ":"
        self.comma = ", " if re.search(r',[ ]+["\[{\d]', text[:10_000]) else ","
        self.ensure_ascii = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None

    def dump(self, value: Any, depth: int) -> str:
        """Return the text of a value at this depth."""
        if self.indent is None:
            return json.dumps(value, ensure_ascii=self.ensure_ascii, separators=(self.comma, self.colon))
        text = json.dumps(
            value, ensure_ascii=self.ensure_ascii, indent=self.indent, separators=(",", self.colon)
        )
        return text.replace("\n", "\n" + self.indent * depth)

    def line_break(self, depth: int) -> str:
        return "" if self.indent is None else "\n" + self.indent * depth


# ---- a notebook


class _Notebook:
    """The text of a notebook, and where its cells are. Raises ToolError if it is not a notebook."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.style = text, _JsonStyle(text)
        try:
            start = _skip_whitespace(text, 0)
            content, end = _raw_decode(text, start)
            if _skip_whitespace(text, end) != len(text):
                raise ValueError("there is more after its end")
            cells = _parse_members(text, start).get("cells") if isinstance(content, dict) else None
            if cells is None or not isinstance(cells.value, list):
                raise _notebook_error(path, "it has no list of cells (format 4)")
            self._content = cast(dict[str, Any], content)
            self.cells, self.start, self.end = list(_iter_items(text, cells.start)), cells.start, cells.end
        except (ValueError, IndexError, RecursionError) as e:
            reason = (
                str(e).partition("\n")[0]
                if isinstance(e, ValueError)
                else "it is truncated or nested too deeply"
            )
            raise _notebook_error(path, f"it is not JSON: {reason:.120}") from None
        if not all(isinstance(cell.value, dict) for cell in self.cells):
            raise _notebook_error(path, "a cell is not an object")

    @property
    def has_ids(self) -> bool:
        """Whether this version of the format gives cells ids."""
        major, minor = self._content.get("nbformat"), self._content.get("nbformat_minor")
        return isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)

    def find_cell(self, cell_id: str, path: str) -> int:
        """Return the index of a cell, by its id or by its index from 0. Raises ToolError."""
        matches = [i for i, cell in enumerate(self.cells) if cell.value.get("id") == cell_id]
        if len(matches) > 1:
            message = f"{path!r} has {len(matches)} cells with the id {cell_id!r}: use the index of one"
            raise ToolError(message, kind="validation", code="cell_not_found")
        if matches:
            return matches[0]
        index = _CELL_INDEX.fullmatch(cell_id)
        if index and int(index[1]) < len(self.cells):
            return int(index[1])
        ids = ", ".join(map(self.cell_name, range(min(len(self.cells), 20))))
        if len(self.cells) > 20:
            ids += " …"
        message = (
            f"{path!r} has no cell {cell_id!r:.80}: it has {ids or 'no cells'}; an index from 0 works too"
        )
        raise ToolError(message, kind="not_found", code="cell_not_found")

    def cell_name(self, index: int) -> str:
        cell_id = self.cells[index].value.get("id")
        return cell_id if isinstance(cell_id, str) else f"cell-{index}"

    # ---- changes

    def change(
        self, mode: EditMode, index: int, source: str, cell_type: CellType | None
    ) -> tuple[str, int, str, str]:
        """Return the new text, and the index, the name and the type of the cell; a new one goes after the
        index.
        """
        if mode == "insert":
            kind = cell_type or "code"
            cell_id = ""
            if self.has_ids:
                # Not random: what was previewed, and approved, must be what is written.
                cell_id = sha256(f"{index} {source} {self.text}".encode(errors="replace")).hexdigest()[:8]
            text = self._insert_cell(index + 1, source, kind, cell_id)
            return text, index + 1, cell_id or f"cell-{index + 1}", kind
        name, cell = self.cell_name(index), self.cells[index].value
        if mode == "delete":
            return self._delete_cell(index), index, name, str(cell.get("cell_type", ""))
        kind = cell_type or str(cell.get("cell_type", "code"))
        return self._replace_cell(index, source, kind), index, name, kind

    def _replace_cell(self, index: int, source: str, cell_type: str) -> str:
        cell = self.cells[index]
        members = _parse_members(self.text, cell.start)
        new_source = source if isinstance(cell.value.get("source"), str) else _split_source(source)
        emptied: dict[str, Any] = {"execution_count": None, "outputs": []} if cell_type == "code" else {}
        is_converted = cell.value.get("cell_type") != cell_type
        if is_converted or "source" not in members:
            kept = dict(cell.value)
            if cell_type != "code":
                kept.pop("execution_count", None)
                kept.pop("outputs", None)
            new_cell = {**kept, "cell_type": cell_type, "source": new_source}
            if is_converted:
                new_cell |= emptied
            return self._splice(cell.start, cell.end, self.style.dump(new_cell, 2))
        edits = [(members["source"], cast(Any, new_source))]
        edits += [
            (members[key], value)
            for key, value in emptied.items()
            if key in members and members[key].value != value
        ]
        text = self.text
        # from the end, so that offsets stay valid
        for span, value in sorted(edits, key=lambda edit: -edit[0].start):
            text = text[: span.start] + self.style.dump(value, 3) + text[span.end :]
        return text

    def _insert_cell(self, index: int, source: str, cell_type: str, cell_id: str) -> str:
        """Insert a new cell before the one that has the index now."""
        cell: dict[str, Any] = {"cell_type": cell_type, "metadata": {}, "source": _split_source(source)}
        if cell_type == "code":
            cell |= {"execution_count": None, "outputs": []}
        if cell_id:
            cell["id"] = cell_id
        new = self.style.dump(dict(sorted(cell.items())), 2)
        if not self.cells:
            return self._splice(
                self.start, self.end, f"[{self.style.line_break(2)}{new}{self.style.line_break(1)}]"
            )
        separator = self.text[self.start + 1 : self.cells[0].start] or (
            "" if self.style.comma == "," else " "
        )
        if index == 0:
            return self._splice(self.cells[0].start, self.cells[0].start, f"{new},{separator}")
        end = self.cells[index - 1].end
        return self._splice(end, end, f",{separator}{new}")

    def _delete_cell(self, index: int) -> str:
        if len(self.cells) == 1:
            return self._splice(self.start, self.end, "[]")
        if index + 1 < len(self.cells):
            return self._splice(self.cells[index].start, self.cells[index + 1].start, "")
        return self._splice(self.cells[index - 1].end, self.cells[index].end, "")

    def _splice(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]


def _notebook_error(path: str, problem: str) -> ToolError:
    return ToolError(f"{path!r} is not a notebook: {problem}", code="invalid_notebook")


def _split_source(source: str) -> list[str]:
    """Return a source as notebooks store it: lines with their line feeds."""
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


# ---- the tool


class _CellChange(TextChange, frozen=True, kw_only=True):
    cell: dict[str, Any]
    """What the result says of the cell."""


def notebook_tools(state: ToolState) -> list[Tool]:
    """Return `notebook_edit`."""

    def plan_edit(
        path: str,
        source: str = "",
        cell_id: str | None = None,
        cell_type: CellType | None = None,
        mode: EditMode = "replace",
        read_first: ReadRule = "required",
    ) -> _CellChange:
        check_text(source, "source", MAX_TEXT_BYTES)
        if cell_id is None and mode != "insert":
            raise invalid_argument("cell_id", f"is missing; name the cell to {mode} by its id or its index")
        document, expected = load_document(state, path, read_first)
        is_crlf = document.newline == "crlf"
        lf_text = document.text.replace("\r\n", "\n") if is_crlf else document.text
        notebook = _Notebook(lf_text, path)
        index = notebook.find_cell(cell_id, path) if cell_id is not None else -1
        text, index, name, kind = notebook.change(mode, index, source.replace("\r\n", "\n"), cell_type)
        count = len(notebook.cells) + {"insert": 1, "delete": -1, "replace": 0}[mode]  # after the change
        cell = {"cell_id": name, "index": index, "cell_type": kind, "cells": count}
        after = convert_newlines(text, "crlf") if is_crlf else text
        return _CellChange.plan(path, document, after, expected, cell=cell)

    @tool(
        name="notebook_edit",
        effects="write",
        action="edit",
        verb="Edit",
        confined=state.workspace.protects_all,
        scope=change_scope(state),
        target=path_target(state),
        preview=diff_preview(state, plan_edit),
        examples=[{"path": "analysis.ipynb", "cell_id": "2", "source": "print(1)"}],
    )
    def notebook_edit(
        path: str,
        source: str = "",
        cell_id: str | None = None,
        cell_type: CellType | None = None,
        mode: EditMode = "replace",
        read_first: Annotated[ReadRule, Internal] = "required",
    ) -> ToolOutput:
        """Replace, insert or delete one cell of a Jupyter notebook that you have already read.

        A changed code cell loses its outputs.

        Args:
            path: Path of the notebook, absolute or relative to the workspace.
            source: The complete new text of the cell.
            cell_id: Id of the cell, or its index from 0. For insert: the cell after which the new one goes (default: at the
                top).
            cell_type: code, markdown or raw (default: the cell's type; code for a new cell).
            mode: replace (default), insert or delete.
            read_first: What must have been read of the file.
        """
        with state.lock:
            change = plan_edit(path, source, cell_id, cell_type, mode, read_first)
            saved = save_change(state, path, change, read_first)
        cell = "the {cell_type} cell {cell_id!r} (index {index})".format(**change.cell)
        text = (
            f"{mode.removesuffix('e')}ed {cell} of {saved.path!r}; it has "
            f"{pluralize(change.cell['cells'], 'cell')} now"
        )
        new_source = "" if mode == "delete" else source
        return ToolOutput(text, {**to_data(saved), **change.cell, "mode": mode, "source": new_source})

    return [notebook_edit]
