"""The tool that changes one cell of a Jupyter notebook: `notebook_edit`.

Invariants: the notebook's JSON is not serialised again; only the text of the changed cell is replaced, in the style of the
rest. Key order, indentation, numbers and line endings of everything else stay byte for byte.
"""

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args

import msgspec

from toolglot.base_errors import invalid_argument
from toolglot.builtin.arguments import check_choice, file_target
from toolglot.builtin.files.text import check_text, convert_newlines, encode_text
from toolglot.builtin.files.text_files import MAX_TEXT_BYTES, TextChange, check_size, diff_preview, load_document, save_change
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.textutil import pluralize
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["NotebookEditResult", "notebook_tools"]

CellType = Literal["code", "markdown", "raw"]
EditMode = Literal["replace", "insert", "delete"]

_WHITESPACE = re.compile(r"[ \t\n\r]*")
_CELL_INDEX = re.compile(r"(?:cell-)?(\d{1,9})")
_raw_decode = json.JSONDecoder(strict=False).raw_decode


class NotebookEditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `notebook_edit`. index: counted from 0."""

    path: str
    absolute: str
    mode: EditMode
    cell_id: str
    index: int
    cell_type: str
    cells: int
    """How many there are now."""
    language: str
    before: str
    """The old source of the cell."""
    source: str
    diff: str
    size: int


# ---- positions in JSON text


class _JsonSpan(msgspec.Struct, frozen=True):
    """A value and where its text is."""

    value: Any
    start: int
    end: int


def _skip_whitespace(text: str, offset: int) -> int:
    match = _WHITESPACE.match(text, offset)
    return match.end() if match else offset


def _parse_value(text: str, offset: int) -> _JsonSpan:
    value, end = _raw_decode(text, offset)
    return _JsonSpan(value, offset, end)


def _iter_items(text: str, start: int) -> Iterator[_JsonSpan]:
    """Yield the items of the array that begins here; of an object, its keys and values alternately."""
    offset = _skip_whitespace(text, start + 1)
    while text[offset] not in "]}":
        item = _parse_value(text, offset)
        yield item
        offset = _skip_whitespace(text, item.end)
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
        text = json.dumps(value, ensure_ascii=self.ensure_ascii, indent=self.indent, separators=(",", self.colon))
        return text.replace("\n", "\n" + self.indent * depth)

    def line_break(self, depth: int) -> str:
        return "" if self.indent is None else "\n" + self.indent * depth


# ---- a notebook


class _Notebook:
    """The text of a notebook, and where its cells are. Raises ToolError where it is not a notebook."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.style = text, _JsonStyle(text)
        problem = ""
        try:
            start = _skip_whitespace(text, 0)
            parsed = _parse_value(text, start)
            self._content = _as_object(parsed.value)
            if _skip_whitespace(text, parsed.end) != len(text):
                raise ValueError("there is more after its end")
            cells = _parse_members(text, start).get("cells") if self._content else None
            if cells is None or not isinstance(cells.value, list):
                problem = "it has no list of cells (format 4)"
            else:
                self.cells = list(_iter_items(text, cells.start))
                self.start, self.end = cells.start, cells.end
                if not all(isinstance(cell.value, dict) for cell in self.cells):
                    problem = "a cell is not an object"
        except (ValueError, IndexError, RecursionError) as e:
            reason = str(e).partition("\n")[0] if isinstance(e, ValueError) else "it is truncated or nested too deeply"
            problem = f"it is not JSON: {reason:.120}"
        if problem:
            raise ToolError(f"{path!r} is not a notebook: {problem}", code="invalid_notebook")

    @property
    def language(self) -> str:
        metadata = _as_object(self._content.get("metadata"))
        info, kernel = _as_object(metadata.get("language_info")), _as_object(metadata.get("kernelspec"))
        language = info.get("name") or kernel.get("language")
        return language if isinstance(language, str) else "python"

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
        ids = ", ".join(map(self.cell_name, range(min(len(self.cells), 20)))) + (" …" if len(self.cells) > 20 else "")
        message = f"{path!r} has no cell {cell_id!r:.80}: it has {ids or 'no cells'}; an index from 0 works too"
        raise ToolError(message, kind="not_found", code="cell_not_found")

    def cell_name(self, index: int) -> str:
        cell_id = self.cells[index].value.get("id")
        return cell_id if isinstance(cell_id, str) else f"cell-{index}"

    def get_source(self, index: int) -> str:
        source: Any = self.cells[index].value.get("source", "")
        return "".join(map(str, cast(list[Any], source))) if isinstance(source, list) else str(source)

    # ---- changes: each returns the new text

    def replace_cell(self, index: int, source: str, cell_type: str) -> str:
        cell = self.cells[index]
        members = _parse_members(self.text, cell.start)
        new_source = source if isinstance(cell.value.get("source"), str) else _split_source(source)
        emptied: dict[str, Any] = {"execution_count": None, "outputs": []} if cell_type == "code" else {}
        if cell.value.get("cell_type") != cell_type or "source" not in members:
            kept = {key: value for key, value in cell.value.items() if cell_type == "code" or key not in _CODE_ONLY_KEYS}
            emptied = emptied if cell.value.get("cell_type") != cell_type else {}
            new_cell = {**kept, "cell_type": cell_type, "source": new_source, **emptied}
            return self._splice(cell.start, cell.end, self.style.dump(new_cell, 2))
        edits = [(members["source"], cast(Any, new_source))]
        edits += [(members[key], value) for key, value in emptied.items() if key in members and members[key].value != value]
        text = self.text
        for span, value in sorted(edits, key=lambda edit: -edit[0].start):  # from the end, so that offsets stay valid
            text = text[: span.start] + self.style.dump(value, 3) + text[span.end :]
        return text

    def insert_cell(self, index: int, source: str, cell_type: str, cell_id: str) -> str:
        """Insert a new cell before the one that has the index now."""
        cell: dict[str, Any] = {"cell_type": cell_type, "metadata": {}, "source": _split_source(source)}
        if cell_type == "code":
            cell |= {"execution_count": None, "outputs": []}
        if cell_id:
            cell["id"] = cell_id
        new = self.style.dump(dict(sorted(cell.items())), 2)
        if not self.cells:
            return self._splice(self.start, self.end, f"[{self.style.line_break(2)}{new}{self.style.line_break(1)}]")
        separator = self.text[self.start + 1 : self.cells[0].start] or ("" if self.style.comma == "," else " ")
        if index == 0:
            return self._splice(self.cells[0].start, self.cells[0].start, f"{new},{separator}")
        end = self.cells[index - 1].end
        return self._splice(end, end, f",{separator}{new}")

    def delete_cell(self, index: int) -> str:
        if len(self.cells) == 1:
            return self._splice(self.start, self.end, "[]")
        if index + 1 < len(self.cells):
            return self._splice(self.cells[index].start, self.cells[index + 1].start, "")
        return self._splice(self.cells[index - 1].end, self.cells[index].end, "")

    def _splice(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]


_CODE_ONLY_KEYS = ("execution_count", "outputs")


def _as_object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _split_source(source: str) -> list[str]:
    """Return a source as notebooks store it: lines with their line feeds."""
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


# ---- the tool


class _CellChange(TextChange, frozen=True, kw_only=True):
    cell_id: str
    index: int
    cell_type: str
    cells: int
    language: str
    old_source: str


class _CellEdit(msgspec.Struct, frozen=True):
    path: str
    source: str = ""
    cell_id: str | None = None
    cell_type: CellType | None = None
    mode: EditMode = "replace"

    def check(self) -> None:
        check_text(self.source, "source", MAX_TEXT_BYTES)
        check_choice("mode", self.mode, get_args(EditMode))
        if self.cell_type is not None:
            check_choice("cell_type", self.cell_type, get_args(CellType))
        if self.cell_id is None and self.mode != "insert":
            raise invalid_argument("cell_id", f"is missing; name the cell to {self.mode} by its id or its index")


def _plan_edit(state: ToolState, edit: _CellEdit, require_read: bool) -> _CellChange:
    edit.check()
    document, expected = load_document(state, edit.path, require_read=require_read)
    is_crlf = document.format.newline == "crlf"
    notebook = _Notebook(document.text.replace("\r\n", "\n") if is_crlf else document.text, edit.path)
    index = notebook.find_cell(edit.cell_id, edit.path) if edit.cell_id is not None else -1
    source, cells = edit.source.replace("\r\n", "\n"), len(notebook.cells)
    old_source = "" if edit.mode == "insert" else notebook.get_source(index)
    if edit.mode == "insert":
        index, cells = index + 1, cells + 1
        cell_type, new_id = edit.cell_type or "code", secrets.token_hex(4) if notebook.has_ids else ""
        text, cell_id = notebook.insert_cell(index, source, cell_type, new_id), new_id or f"cell-{index}"
    else:
        cell_id = notebook.cell_name(index)
        old_type = str(notebook.cells[index].value.get("cell_type", "" if edit.mode == "delete" else "code"))
        if edit.mode == "delete":
            cell_type, cells, text = old_type, cells - 1, notebook.delete_cell(index)
        else:
            cell_type = edit.cell_type or old_type
            text = notebook.replace_cell(index, source, cell_type)
    after = convert_newlines(text, "crlf") if is_crlf else text
    check_size(after, edit.path)
    return _CellChange(
        before=document.text,
        after=after,
        format=document.format,
        data=encode_text(after, document.format),
        expected=expected,
        cell_id=cell_id,
        index=index,
        cell_type=cell_type,
        cells=cells,
        language=notebook.language,
        old_source=old_source,
    )


def notebook_tools(state: ToolState, *, require_read: bool = True) -> list[Tool]:
    """Return `notebook_edit`. require_read: a notebook that the model has not read is not changed."""

    def plan_edit(path: str, **arguments: Any) -> TextChange:
        return _plan_edit(state, _CellEdit(path, **arguments), require_read)

    @tool(
        name="notebook_edit",
        effects="write",
        target=file_target(state),
        preview=diff_preview(plan_edit),
        examples=[{"path": "analysis.ipynb", "cell_id": "2", "source": "print(1)"}],
    )
    def notebook_edit(
        path: str, source: str = "", cell_id: str | None = None, cell_type: CellType | None = None, mode: EditMode = "replace"
    ) -> ToolOutput:
        """Replace, insert or delete one cell of a Jupyter notebook that you have already read.

        A changed code cell loses its outputs.

        Args:
            path: Notebook path, relative to the workspace or absolute.
            source: The complete new text of the cell.
            cell_id: Id of the cell, or its index from 0. For insert: the cell after which the new one goes (default: at the
                top).
            cell_type: code, markdown or raw (default: the cell's type; code for a new cell).
            mode: replace (default), insert or delete.
        """
        with state.lock:
            change = _plan_edit(state, _CellEdit(path, source, cell_id, cell_type, mode), require_read)
            saved = save_change(state, path, change)
        result = NotebookEditResult(
            **{name: saved[name] for name in ("path", "absolute", "diff", "size")},
            mode=mode,
            cell_id=change.cell_id,
            index=change.index,
            cell_type=change.cell_type,
            cells=change.cells,
            language=change.language,
            before=change.old_source,
            source="" if mode == "delete" else source,
        )
        verb = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}[mode]
        cell = f"the {result.cell_type} cell {result.cell_id!r} (index {result.index})"
        text = f"{verb} {cell} of {result.path!r}; it has {pluralize(result.cells, 'cell')} now"
        return ToolOutput(text, to_data(result))

    return [notebook_edit]
