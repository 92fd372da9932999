"""The tool that changes a cell of a Jupyter notebook: `notebook_edit`.

Laws: the notebook's JSON is not written anew; only the text of the changed cell is replaced in it, in the style of the rest.
So key order, indentation, numbers and line ends of everything else stay byte for byte.
"""

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args

import msgspec

from toolglot.builtin.arguments import check_choice, file_target
from toolglot.builtin.files.text import check_text, convert_newlines, encode_text
from toolglot.builtin.files.text_files import MAX_TEXT_BYTES, TextChange, diff_preview, load_document, save_change
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
_CODE_ONLY_KEYS = ("execution_count", "outputs")
_raw_decode = json.JSONDecoder(strict=False).raw_decode


class NotebookEditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `notebook_edit` tells. index: counted from 0."""

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
    """The source that the cell had."""
    source: str
    diff: str
    size: int


# ---- where things are in JSON text


class _JsonSpan(msgspec.Struct, frozen=True):
    """A value and where its text is."""

    value: Any
    start: int
    end: int


def _skip_whitespace(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    return found.end() if found else at


def _parse_value(text: str, at: int) -> _JsonSpan:
    value, end = _raw_decode(text, at)
    return _JsonSpan(value, at, end)


def _iter_items(text: str, start: int) -> Iterator[_JsonSpan]:
    """The items of the array that begins here; of an object, its keys and values by turns."""
    at = _skip_whitespace(text, start + 1)
    while text[at] not in "]}":
        item = _parse_value(text, at)
        yield item
        at = _skip_whitespace(text, item.end)
        if text[at] in ",:":
            at = _skip_whitespace(text, at + 1)


def _parse_members(text: str, start: int) -> dict[str, _JsonSpan]:
    """The members of the object that begins here."""
    items = list(_iter_items(text, start))
    return {key.value: value for key, value in zip(items[::2], items[1::2], strict=True)}


# ---- a notebook


class _JsonStyle:
    """How a notebook's JSON is written."""

    def __init__(self, text: str) -> None:
        first = re.match(r"\s*\{(\r?\n)([ \t]*)", text)
        self.indent: str | None = first[2] if first else None
        self.colon = ": " if re.search(r'"[ ]*:[ ]', text[:10_000]) else ":"
        self.comma = ", " if re.search(r',[ ]+["\[{\d]', text[:10_000]) else ","
        self.ensure_ascii = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None

    def dump(self, value: Any, depth: int) -> str:
        """A value that begins at this depth."""
        if self.indent is None:
            return json.dumps(value, ensure_ascii=self.ensure_ascii, separators=(self.comma, self.colon))
        text = json.dumps(value, ensure_ascii=self.ensure_ascii, indent=self.indent, separators=(",", self.colon))
        return text.replace("\n", "\n" + self.indent * depth)

    def line_break(self, depth: int) -> str:
        """What goes between two items."""
        return "" if self.indent is None else "\n" + self.indent * depth


class _Notebook:
    """A notebook's text, and where its cells are. Raises ToolError: it is none."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.style = text, _JsonStyle(text)
        try:
            start = _skip_whitespace(text, 0)
            parsed = _parse_value(text, start)
            if _skip_whitespace(text, parsed.end) != len(text):
                raise ValueError("there is more after its end")
            whole = parsed.value
            if not isinstance(whole, dict):
                raise ToolError(f"{path!r} is not a notebook: its JSON is no object", kind="execution")
            members = _parse_members(text, start)
            found = members.get("cells")
            if found is None or not isinstance(found.value, list):
                raise ToolError(f"{path!r} is not a notebook of format 4: it has no list of cells", kind="execution")
            self.cells = list(_iter_items(text, found.start))
        except (ValueError, IndexError, RecursionError) as e:
            why = str(e).partition("\n")[0] if isinstance(e, ValueError) else "it is nested too deeply or broken"
            raise ToolError(f"{path!r} is not a notebook, because it is not JSON: {why:.120}", kind="execution") from None
        if not all(isinstance(cell.value, dict) for cell in self.cells):
            raise ToolError(f"{path!r} is not a notebook: a cell is no object", kind="execution")
        self.start, self.end = found.start, found.end
        self._content = cast(dict[str, Any], whole)

    @property
    def language(self) -> str:
        info = _as_object(self._content.get("metadata"))
        said = _as_object(info.get("language_info")).get("name") or _as_object(info.get("kernelspec")).get("language")
        return said if isinstance(said, str) else "python"

    @property
    def has_ids(self) -> bool:
        """Whether this version of the format gives cells ids."""
        major, minor = self._content.get("nbformat"), self._content.get("nbformat_minor")
        return isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)

    def find_cell(self, cell_id: str, path: str) -> int:
        """The place of a cell, by its id, or by its index from 0. Raises ToolError."""
        named = [i for i, cell in enumerate(self.cells) if cell.value.get("id") == cell_id]
        if len(named) > 1:
            raise ToolError(
                f"{path!r} has {len(named)} cells with the id {cell_id!r}: give the index of one", kind="validation"
            )
        if named:
            return named[0]
        index = _CELL_INDEX.fullmatch(cell_id)
        if index and int(index[1]) < len(self.cells):
            return int(index[1])
        known = [str(cell.value.get("id", f"cell-{i}")) for i, cell in enumerate(self.cells[:20])]
        have = f"it has {', '.join(known)}{' …' if len(self.cells) > 20 else ''}" if known else "it has no cells"
        raise ToolError(f"{path!r} has no cell {cell_id!r:.80}: {have}, or give an index from 0", kind="not_found")

    def cell_name(self, index: int) -> str:
        """What a cell is called."""
        said = self.cells[index].value.get("id")
        return said if isinstance(said, str) else f"cell-{index}"

    # ---- changes: each gives the new text

    def replace_cell(self, index: int, source: str, cell_type: str) -> str:
        cell = self.cells[index]
        if cell.value.get("cell_type") != cell_type:
            return self._splice(cell.start, cell.end, self.style.dump(_change_type(cell.value, source, cell_type), 2))
        text = self.text
        edits: list[tuple[_JsonSpan, Any]] = []
        members = _parse_members(text, cell.start)
        if (had := members.get("source")) is None:
            return self._splice(cell.start, cell.end, self.style.dump({**cell.value, "source": _split_source(source)}, 2))
        edits.append((had, source if isinstance(had.value, str) else _split_source(source)))
        if cell_type == "code":
            emptied: dict[str, Any] = {"outputs": [], "execution_count": None}
            edits += [(members[key], value) for key, value in emptied.items() if key in members and members[key].value != value]
        for old, value in sorted(edits, key=lambda one: -one[0].start):
            text = text[: old.start] + self.style.dump(value, 3) + text[old.end :]
        return text

    def insert_cell(self, index: int, source: str, cell_type: str, cell_id: str) -> str:
        """A new cell, before the one that is there now."""
        cell: dict[str, Any] = {"cell_type": cell_type, "metadata": {}, "source": _split_source(source)}
        if cell_type == "code":
            cell |= {"execution_count": None, "outputs": []}
        if cell_id:
            cell["id"] = cell_id
        new = self.style.dump(dict(sorted(cell.items())), 2)
        if not self.cells:
            return self._splice(self.start, self.end, f"[{self.style.line_break(2)}{new}{self.style.line_break(1)}]")
        between = self.text[self.start + 1 : self.cells[0].start] or ("" if self.style.comma == "," else " ")
        if index == 0:
            return self._splice(self.cells[0].start, self.cells[0].start, f"{new},{between}")
        end = self.cells[index - 1].end
        return self._splice(end, end, f",{between}{new}")

    def delete_cell(self, index: int) -> str:
        if len(self.cells) == 1:
            return self._splice(self.start, self.end, "[]")
        if index + 1 < len(self.cells):
            return self._splice(self.cells[index].start, self.cells[index + 1].start, "")
        return self._splice(self.cells[index - 1].end, self.cells[index].end, "")

    def _splice(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]


def _as_object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _split_source(source: str) -> list[str]:
    """As notebooks keep text: lines with their ends."""
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _change_type(cell: dict[str, Any], source: str, cell_type: str) -> dict[str, Any]:
    """A cell of another type; its other members stay where they are."""
    made = {key: value for key, value in cell.items() if cell_type == "code" or key not in _CODE_ONLY_KEYS}
    made |= {"cell_type": cell_type, "source": source if isinstance(cell.get("source"), str) else _split_source(source)}
    if cell_type == "code":
        made |= {"execution_count": None, "outputs": []}
    return made


def _get_source(cell: dict[str, Any]) -> str:
    source: Any = cell.get("source", "")
    return "".join(map(str, cast(list[Any], source))) if isinstance(source, list) else str(source)


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
        check_text(self.source, "`source`", MAX_TEXT_BYTES)
        check_choice("mode", self.mode, get_args(EditMode))
        if self.cell_type is not None:
            check_choice("cell_type", self.cell_type, get_args(CellType))
        if self.cell_id is None and self.mode != "insert":
            raise ToolError(f"`cell_id` is missing: say which cell to {self.mode}, by its id or its index", kind="validation")


def _plan_edit(state: ToolState, edit: _CellEdit, require_read: bool) -> _CellChange:
    edit.check()
    document, seen = load_document(state, edit.path, require_read=require_read)
    plain = document.text.replace("\r\n", "\n") if document.format.newline == "crlf" else document.text
    book = _Notebook(plain, edit.path)
    at = book.find_cell(edit.cell_id, edit.path) if edit.cell_id is not None else -1
    source = edit.source.replace("\r\n", "\n")
    had = "" if edit.mode == "insert" else _get_source(book.cells[at].value)
    count = len(book.cells)
    if edit.mode == "insert":
        kind, name = edit.cell_type or "code", secrets.token_hex(4) if book.has_ids else ""
        at += 1
        text, name, count = book.insert_cell(at, source, kind, name), name or f"cell-{at}", count + 1
    elif edit.mode == "delete":
        kind, name = str(book.cells[at].value.get("cell_type", "")), book.cell_name(at)
        text, source, count = book.delete_cell(at), "", count - 1
    else:
        kind, name = edit.cell_type or str(book.cells[at].value.get("cell_type", "code")), book.cell_name(at)
        text = book.replace_cell(at, source, kind)
    after = convert_newlines(text, document.format.newline) if document.format.newline == "crlf" else text
    if len(after) > MAX_TEXT_BYTES:
        raise ToolError(f"the notebook would have over {MAX_TEXT_BYTES >> 20} MB, which is too large", kind="limit")
    return _CellChange(
        before=document.text,
        after=after,
        format=document.format,
        data=encode_text(after, document.format),
        expected=seen,
        cell_id=name,
        index=at,
        cell_type=kind,
        cells=count,
        language=book.language,
        old_source=had,
    )


def _render_edit(result: NotebookEditResult) -> str:
    verb = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}[result.mode]
    cells = pluralize(result.cells, "cell")
    return (
        f"{verb} the {result.cell_type} cell {result.cell_id!r} (index {result.index}) of {result.path!r}; it has {cells} now"
    )


def notebook_tools(state: ToolState, *, require_read: bool = True) -> list[Tool]:
    """`notebook_edit`. require_read: a notebook that the model has not read is not changed."""

    def plan_edit(path: str, **wish: Any) -> TextChange:
        return _plan_edit(state, _CellEdit(path, **wish), require_read)

    @tool(
        name="notebook_edit",
        effects="write",
        target=file_target(state),
        preview=diff_preview(plan_edit),
        examples=[{"path": "analysis.ipynb", "cell_id": "2", "source": "print(1)"}],
    )
    def notebook_edit(
        path: str,
        source: str = "",
        cell_id: str | None = None,
        cell_type: CellType | None = None,
        mode: EditMode = "replace",
    ) -> ToolOutput:
        """Changes one cell of a Jupyter notebook that was read before. A changed code cell loses its outputs.

        Args:
            path: The notebook, relative to the workspace or absolute.
            source: The whole new text of the cell.
            cell_id: The cell, by its id, or by its index counted from 0. For insert: the cell after which the new one comes;
                without it, the new one is the first.
            cell_type: code, markdown or raw; a cell keeps its type without it, and a new one is code.
            mode: replace, insert or delete.
        """
        with state.lock:
            plan = _plan_edit(state, _CellEdit(path, source, cell_id, cell_type, mode), require_read)
            done = save_change(state, path, plan)
        found = NotebookEditResult(
            **{name: done[name] for name in ("path", "absolute", "diff", "size")},
            mode=mode,
            cell_id=plan.cell_id,
            index=plan.index,
            cell_type=plan.cell_type,
            cells=plan.cells,
            language=plan.language,
            before=plan.old_source,
            source="" if mode == "delete" else source,
        )
        return ToolOutput(_render_edit(found), to_data(found))

    return [notebook_edit]
