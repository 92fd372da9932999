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

from toolglot.builtin.arguments import one_of, targeting
from toolglot.builtin.loading import LARGEST_TEXT, Plan, diff_preview, load_text, save
from toolglot.builtin.text import checked, counted, encoded, with_newlines
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["EditedNotebook", "notebook_tools"]

CellType = Literal["code", "markdown", "raw"]
Mode = Literal["replace", "insert", "delete"]

_SPACE = re.compile(r"[ \t\n\r]*")
_INDEX = re.compile(r"(?:cell-)?(\d{1,9})")
_OF_CODE = ("execution_count", "outputs")
_raw = json.JSONDecoder(strict=False).raw_decode


class EditedNotebook(msgspec.Struct, frozen=True, kw_only=True):
    """What `notebook_edit` tells. index: counted from 0."""

    path: str
    absolute: str
    mode: Mode
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


class _Value(msgspec.Struct, frozen=True):
    """A value and where its text is."""

    value: Any
    start: int
    end: int


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _parsed(text: str, at: int) -> _Value:
    value, end = _raw(text, at)
    return _Value(value, at, end)


def _items(text: str, start: int) -> Iterator[_Value]:
    """The items of the array that begins here; of an object, its keys and values by turns."""
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        item = _parsed(text, at)
        yield item
        at = _skip(text, item.end)
        if text[at] in ",:":
            at = _skip(text, at + 1)


def _members(text: str, start: int) -> dict[str, _Value]:
    """The members of the object that begins here."""
    items = list(_items(text, start))
    return {key.value: value for key, value in zip(items[::2], items[1::2], strict=True)}


# ---- a notebook


class _Style:
    """How a notebook's JSON is written."""

    def __init__(self, text: str) -> None:
        first = re.match(r"\s*\{(\r?\n)([ \t]*)", text)
        self.unit: str | None = first[2] if first else None
        self.colon = ": " if re.search(r'"[ ]*:[ ]', text[:10_000]) else ":"
        self.comma = ", " if re.search(r',[ ]+["\[{\d]', text[:10_000]) else ","
        self.ascii = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None

    def written(self, value: Any, depth: int) -> str:
        """A value that begins at this depth."""
        if self.unit is None:
            return json.dumps(value, ensure_ascii=self.ascii, separators=(self.comma, self.colon))
        text = json.dumps(value, ensure_ascii=self.ascii, indent=self.unit, separators=(",", self.colon))
        return text.replace("\n", "\n" + self.unit * depth)

    def line(self, depth: int) -> str:
        """What goes between two items."""
        return "" if self.unit is None else "\n" + self.unit * depth


class _Notebook:
    """A notebook's text, and where its cells are. Raises ToolError: it is none."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.style = text, _Style(text)
        try:
            start = _skip(text, 0)
            parsed = _parsed(text, start)
            if _skip(text, parsed.end) != len(text):
                raise ValueError("there is more after its end")
            whole = parsed.value
            if not isinstance(whole, dict):
                raise ToolError(f"{path!r} is not a notebook: its JSON is no object", kind="execution")
            members = _members(text, start)
            found = members.get("cells")
            if found is None or not isinstance(found.value, list):
                raise ToolError(f"{path!r} is not a notebook of format 4: it has no list of cells", kind="execution")
            self.cells = list(_items(text, found.start))
        except (ValueError, IndexError, RecursionError) as e:
            why = str(e).partition("\n")[0] if isinstance(e, ValueError) else "it is nested too deeply or broken"
            raise ToolError(f"{path!r} is not a notebook, because it is not JSON: {why:.120}", kind="execution") from None
        if not all(isinstance(cell.value, dict) for cell in self.cells):
            raise ToolError(f"{path!r} is not a notebook: a cell is no object", kind="execution")
        self.start, self.end = found.start, found.end
        self._whole = cast(dict[str, Any], whole)

    @property
    def language(self) -> str:
        info = _object(self._whole.get("metadata"))
        said = _object(info.get("language_info")).get("name") or _object(info.get("kernelspec")).get("language")
        return said if isinstance(said, str) else "python"

    @property
    def has_ids(self) -> bool:
        """Whether this version of the format gives cells ids."""
        major, minor = self._whole.get("nbformat"), self._whole.get("nbformat_minor")
        return isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)

    def found(self, cell_id: str, path: str) -> int:
        """The place of a cell, by its id, or by its index from 0. Raises ToolError."""
        named = [i for i, cell in enumerate(self.cells) if cell.value.get("id") == cell_id]
        if len(named) > 1:
            raise ToolError(
                f"{path!r} has {len(named)} cells with the id {cell_id!r}: give the index of one", kind="validation"
            )
        if named:
            return named[0]
        index = _INDEX.fullmatch(cell_id)
        if index and int(index[1]) < len(self.cells):
            return int(index[1])
        known = [str(cell.value.get("id", f"cell-{i}")) for i, cell in enumerate(self.cells[:20])]
        have = f"it has {', '.join(known)}{' …' if len(self.cells) > 20 else ''}" if known else "it has no cells"
        raise ToolError(f"{path!r} has no cell {cell_id!r:.80}: {have}, or give an index from 0", kind="not_found")

    def named(self, at: int) -> str:
        """What a cell is called."""
        said = self.cells[at].value.get("id")
        return said if isinstance(said, str) else f"cell-{at}"

    # ---- changes: each gives the new text

    def replaced(self, at: int, source: str, cell_type: str) -> str:
        cell = self.cells[at]
        if cell.value.get("cell_type") != cell_type:
            return self._spliced(cell.start, cell.end, self.style.written(_retyped(cell.value, source, cell_type), 2))
        text = self.text
        edits: list[tuple[_Value, Any]] = []
        members = _members(text, cell.start)
        if (had := members.get("source")) is None:
            return self._spliced(cell.start, cell.end, self.style.written({**cell.value, "source": _lines(source)}, 2))
        edits.append((had, source if isinstance(had.value, str) else _lines(source)))
        if cell_type == "code":
            emptied: dict[str, Any] = {"outputs": [], "execution_count": None}
            edits += [(members[key], value) for key, value in emptied.items() if key in members and members[key].value != value]
        for old, value in sorted(edits, key=lambda one: -one[0].start):
            text = text[: old.start] + self.style.written(value, 3) + text[old.end :]
        return text

    def inserted(self, at: int, source: str, cell_type: str, cell_id: str) -> str:
        """A new cell, before the one that is there now."""
        cell: dict[str, Any] = {"cell_type": cell_type, "metadata": {}, "source": _lines(source)}
        if cell_type == "code":
            cell |= {"execution_count": None, "outputs": []}
        if cell_id:
            cell["id"] = cell_id
        new = self.style.written(dict(sorted(cell.items())), 2)
        if not self.cells:
            return self._spliced(self.start, self.end, f"[{self.style.line(2)}{new}{self.style.line(1)}]")
        between = self.text[self.start + 1 : self.cells[0].start] or ("" if self.style.comma == "," else " ")
        if at == 0:
            return self._spliced(self.cells[0].start, self.cells[0].start, f"{new},{between}")
        end = self.cells[at - 1].end
        return self._spliced(end, end, f",{between}{new}")

    def deleted(self, at: int) -> str:
        if len(self.cells) == 1:
            return self._spliced(self.start, self.end, "[]")
        if at + 1 < len(self.cells):
            return self._spliced(self.cells[at].start, self.cells[at + 1].start, "")
        return self._spliced(self.cells[at - 1].end, self.cells[at].end, "")

    def _spliced(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]


def _object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _lines(source: str) -> list[str]:
    """As notebooks keep text: lines with their ends."""
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _retyped(cell: dict[str, Any], source: str, cell_type: str) -> dict[str, Any]:
    """A cell of another type; its other members stay where they are."""
    made = {key: value for key, value in cell.items() if cell_type == "code" or key not in _OF_CODE}
    made |= {"cell_type": cell_type, "source": source if isinstance(cell.get("source"), str) else _lines(source)}
    if cell_type == "code":
        made |= {"execution_count": None, "outputs": []}
    return made


def _source_of(cell: dict[str, Any]) -> str:
    source: Any = cell.get("source", "")
    return "".join(map(str, cast(list[Any], source))) if isinstance(source, list) else str(source)


# ---- the tool


class _Plan(Plan, frozen=True, kw_only=True):
    cell_id: str
    index: int
    cell_type: str
    cells: int
    language: str
    had: str


class _Wish(msgspec.Struct, frozen=True):
    path: str
    source: str = ""
    cell_id: str | None = None
    cell_type: CellType | None = None
    mode: Mode = "replace"

    def check(self) -> None:
        checked(self.source, "`source`", LARGEST_TEXT)
        one_of("mode", self.mode, get_args(Mode))
        if self.cell_type is not None:
            one_of("cell_type", self.cell_type, get_args(CellType))
        if self.cell_id is None and self.mode != "insert":
            raise ToolError(f"`cell_id` is missing: say which cell to {self.mode}, by its id or its index", kind="validation")


def _plan(box: Toolbox, wish: _Wish, require_read: bool) -> _Plan:
    wish.check()
    document, seen = load_text(box, wish.path, require_read=require_read)
    plain = document.text.replace("\r\n", "\n") if document.form.newline == "crlf" else document.text
    book = _Notebook(plain, wish.path)
    at = book.found(wish.cell_id, wish.path) if wish.cell_id is not None else -1
    source = wish.source.replace("\r\n", "\n")
    had = "" if wish.mode == "insert" else _source_of(book.cells[at].value)
    count = len(book.cells)
    if wish.mode == "insert":
        kind, name = wish.cell_type or "code", secrets.token_hex(4) if book.has_ids else ""
        at += 1
        text, name, count = book.inserted(at, source, kind, name), name or f"cell-{at}", count + 1
    elif wish.mode == "delete":
        kind, name = str(book.cells[at].value.get("cell_type", "")), book.named(at)
        text, source, count = book.deleted(at), "", count - 1
    else:
        kind, name = wish.cell_type or str(book.cells[at].value.get("cell_type", "code")), book.named(at)
        text = book.replaced(at, source, kind)
    after = with_newlines(text, document.form.newline) if document.form.newline == "crlf" else text
    if len(after) > LARGEST_TEXT:
        raise ToolError(f"the notebook would have over {LARGEST_TEXT >> 20} MB, which is too large", kind="limit")
    return _Plan(
        before=document.text,
        after=after,
        form=document.form,
        data=encoded(after, document.form),
        seen=seen,
        cell_id=name,
        index=at,
        cell_type=kind,
        cells=count,
        language=book.language,
        had=had,
    )


def _said(found: EditedNotebook) -> str:
    verb = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}[found.mode]
    cells = counted(found.cells, "cell")
    return f"{verb} the {found.cell_type} cell {found.cell_id!r} (index {found.index}) of {found.path!r}; it has {cells} now"


def notebook_tools(box: Toolbox, *, require_read: bool = True) -> list[Tool]:
    """`notebook_edit`. require_read: a notebook that the model has not read is not changed."""

    def plan_edit(path: str, **wish: Any) -> Plan:
        return _plan(box, _Wish(path, **wish), require_read)

    @tool(
        name="notebook_edit",
        effects="write",
        target=targeting(box),
        preview=diff_preview(plan_edit),
        examples=[{"path": "analysis.ipynb", "cell_id": "2", "source": "print(1)"}],
    )
    def notebook_edit(
        path: str,
        source: str = "",
        cell_id: str | None = None,
        cell_type: CellType | None = None,
        mode: Mode = "replace",
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
        with box.lock:
            plan = _plan(box, _Wish(path, source, cell_id, cell_type, mode), require_read)
            done = save(box, path, plan)
        found = EditedNotebook(
            **{name: done[name] for name in ("path", "absolute", "diff", "size")},
            mode=mode,
            cell_id=plan.cell_id,
            index=plan.index,
            cell_type=plan.cell_type,
            cells=plan.cells,
            language=plan.language,
            before=plan.had,
            source="" if mode == "delete" else source,
        )
        return ToolOutput(_said(found), built(found))

    return [notebook_edit]
