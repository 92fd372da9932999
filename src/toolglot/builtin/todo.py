"""The tool `todo`: the plan of one conversation, as the model last wrote it.

Laws: a call replaces the whole list or leaves it as it is; a call without items reads it. What is merely odd (two things in
progress, a reference to an item that is gone) is kept and noted, so that no plan is lost over a detail.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec

from toolglot.builtin.files.text import check_text
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["TodoItem", "TodoList", "render_todo_lines", "todo_tools"]

Status = Literal["pending", "in_progress", "completed", "cancelled", "blocked"]

MAX_ITEMS = 200
MAX_TEXT_CHARS = 2000
MAX_ID_CHARS = 100
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_STATUS_SYMBOLS: dict[Status, str] = {"pending": "☐", "in_progress": "▸", "completed": "✔", "cancelled": "✗", "blocked": "■"}
_EXAMPLE = {
    "items": [
        {"text": "Find where the limit is checked", "status": "completed"},
        {"text": "Write a test that fails", "status": "in_progress", "active_form": "Writing a test"},
        {"text": "Mend the check", "status": "pending"},
    ]
}


@dataclass(frozen=True, kw_only=True)
class TodoItem:
    """One thing to do.

    Attributes:
        text: What is to be done, in one line.
        status: How far it is.
        id: A name that other items can refer to; its number without one.
        active_form: The same as something that is being done: 'Writing a test'.
        blocked_by: Ids of the items that must be done first.
    """

    text: str
    status: Status
    id: str = ""
    active_form: str = ""
    blocked_by: list[str] = field(default_factory=list[str])


class TodoList(msgspec.Struct, frozen=True, kw_only=True):
    """The list as it is now. `written`: by this call; otherwise it was only read. Every item has an id."""

    items: list[TodoItem] = []
    counts: dict[str, int] = {}
    """Status -> how many; only those that occur."""
    written: bool = False
    explanation: str = ""
    notes: list[str] = []


_lists: WeakKeyDictionary[ToolState, tuple[TodoItem, ...]] = WeakKeyDictionary()


def render_todo_lines(state: ToolState) -> list[str]:
    """The list as the user sees it, a line for each item; [] where there is none."""
    return [
        f"{_STATUS_SYMBOLS[item.status]} {item.active_form if item.status == 'in_progress' and item.active_form else item.text}"
        for item in _lists.get(state, ())
    ]


def todo_tools(state: ToolState) -> list[Tool]:
    """The tool `todo`."""

    @tool(
        name="todo", effects="read", inline=True, examples=[_EXAMPLE, {}], target=lambda arguments: "the list of things to do"
    )
    def todo(items: list[TodoItem] | None = None, explanation: str = "") -> ToolOutput:
        """Keeps the list of what is to be done in this conversation, for work of several steps. The user sees it.

        Write the whole list each time; it replaces the old one. Have one item in progress, and complete it once it is done.

        Args:
            items: All items in order; an empty list clears it. Leave it out to read the list.
            explanation: Why the list changes, in a sentence.
        """
        explanation = _to_single_line(explanation, "`explanation`") if explanation else ""
        if items is not None:
            _lists[state] = _normalize_items(items)
        now = _lists.get(state, ())
        found = TodoList(
            items=list(now),
            counts=dict(Counter(item.status for item in now)),
            written=items is not None,
            explanation=explanation,
            notes=_collect_notes(now),
        )
        return ToolOutput(_render_list(found), to_data(found))

    return [todo]


def _normalize_items(items: list[TodoItem]) -> tuple[TodoItem, ...]:
    """The items made fit to be kept. Raises ToolError."""
    if len(items) > MAX_ITEMS:
        why = f"the list has {len(items)} items, and at most {MAX_ITEMS} are kept"
        raise ToolError(f"{why}: put small ones together", kind="limit")
    made = [_normalize_item(item, number) for number, item in enumerate(items, 1)]
    taken = Counter(item.id for item in made if item.id)
    if twice := [id for id, count in taken.items() if count > 1]:
        raise ToolError(f"the id {twice[0]!r} is on two items: give each its own, or leave ids out", kind="validation")
    return tuple(item if item.id else replace(item, id=_find_unused_id(number, taken)) for number, item in enumerate(made, 1))


def _normalize_item(item: TodoItem, number: int) -> TodoItem:
    where = f"item {number}"
    if len(item.blocked_by) > MAX_ITEMS:
        raise ToolError(f"{where} waits for more than {MAX_ITEMS} others: name fewer", kind="limit")
    text = _to_single_line(item.text, f"the text of {where}")
    if not text:
        raise ToolError(f"the text of {where} is empty: say what is to be done", kind="validation")
    return TodoItem(
        text=text,
        status=item.status,
        id=_to_single_line(item.id, f"the id of {where}", MAX_ID_CHARS),
        active_form=_to_single_line(item.active_form, f"the active_form of {where}"),
        blocked_by=[_to_single_line(id, f"an id in blocked_by of {where}", MAX_ID_CHARS) for id in item.blocked_by],
    )


def _find_unused_id(number: int, used_ids: Counter[str]) -> str:
    id = str(number)
    while id in used_ids:
        id += "'"
    used_ids[id] = 1
    return id


def _to_single_line(text: str, name: str, limit: int = MAX_TEXT_CHARS) -> str:
    """A text on one line, without what a terminal would obey. Raises ToolError."""
    return _CONTROL.sub(" ", check_text(text.replace("\0", " "), name, limit)).strip()


def _collect_notes(items: tuple[TodoItem, ...]) -> list[str]:
    notes: list[str] = []
    active = [item.text for item in items if item.status == "in_progress"]
    if len(active) > 1:
        notes.append(f"{len(active)} items are in progress at once: one at a time is easier to follow")
    ids = {item.id for item in items}
    for item in items:
        if gone := [id for id in item.blocked_by if id not in ids]:
            notes.append(f"item {item.id!r} waits for {', '.join(map(repr, gone[:5]))}, which is not in the list")
        elif item.id in item.blocked_by:
            notes.append(f"item {item.id!r} waits for itself")
    return notes[:10]


def _render_list(todo_list: TodoList) -> str:
    lines = [_render_item(number, item) for number, item in enumerate(todo_list.items, 1)]
    if not lines:
        lines = ["The list is empty."]
    return "\n".join([*lines, *(f"[{note}]" for note in todo_list.notes)])


def _render_item(number: int, item: TodoItem) -> str:
    named = f" (id {item.id})" if item.id != str(number) else ""
    waits = f" (waits for {', '.join(item.blocked_by)})" if item.blocked_by else ""
    return f"{number}. [{item.status}] {item.text}{named}{waits}"
