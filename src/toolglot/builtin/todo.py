"""The tool `todo`: the task list of one conversation, as the model last wrote it.

Invariants: a call replaces the whole list or leaves it as it is; a call without items reads it. What is
merely odd (two items in progress, a reference to a missing item) is kept with a note, so that no plan is lost
over a detail.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal
from weakref import WeakKeyDictionary

from toolglot.builtin.files.text import check_text
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["TodoItem", "clear_todos", "create_tools"]

Status = Literal["pending", "in_progress", "completed", "cancelled", "blocked"]

MAX_ITEMS = 200
MAX_TEXT_CHARS = 2000
MAX_ID_CHARS = 100
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_EXAMPLE = {
    "items": [
        {"text": "Find where the limit is checked", "status": "completed"},
        {"text": "Write a failing test", "status": "in_progress", "active_form": "Writing a failing test"},
        {"text": "Fix the check", "status": "pending"},
    ]
}


@dataclass(frozen=True, kw_only=True)
class TodoItem:
    """One task.

    Attributes:
        text: What to do, in one line.
        status: pending, in_progress, completed, cancelled or blocked.
        id: A name by which other items can refer to it (default: its number).
        active_form: The task while it is in progress, such as 'Writing a test'.
        blocked_by: Ids of items that must be completed first.
    """

    text: str
    status: Status
    id: str = ""
    active_form: str = ""
    blocked_by: list[str] = field(default_factory=list[str])


_lists: WeakKeyDictionary[ToolState, tuple[TodoItem, ...]] = WeakKeyDictionary()


def clear_todos(state: ToolState) -> None:
    """Forget the list."""
    _lists.pop(state, None)


def create_tools(state: ToolState) -> list[Tool]:
    """Return the tool `todo`."""

    @tool(
        name="todo",
        effects="read",
        action="think",
        verb="Plan",
        inline=True,
        examples=[_EXAMPLE, {}],
        target=lambda arguments: "the task list",
    )
    def todo(items: list[TodoItem] | None = None, explanation: str = "") -> ToolOutput:
        """Write or read the task list of this conversation, which the user sees. Use it for work of several steps.

        Send the complete list each time: it replaces the old one. Keep one item in progress, and complete it when it is done.

        Args:
            items: All items in order (at most 200); an empty list clears the list. Omit it to read the list.
            explanation: Why the list changes, in one sentence.
        """
        explanation = _to_single_line(explanation, "explanation")
        if items is not None:
            _lists[state] = _normalize_items(items)
        current = _lists.get(state, ())
        notes = _collect_notes(current)
        lines: list[str] = []
        for number, item in enumerate(current, 1):
            id = f" (id {item.id})" if item.id != str(number) else ""
            blocked_by = f" (blocked by {', '.join(item.blocked_by)})" if item.blocked_by else ""
            lines.append(f"{number}. [{item.status}] {item.text}{id}{blocked_by}")
        lines = lines or ["The list is empty."]
        data = {"items": to_data(list(current)), "explanation": explanation, "notes": notes}
        return ToolOutput("\n".join([*lines, *(f"[{note}]" for note in notes)]), data)

    return [todo]


def _normalize_items(items: list[TodoItem]) -> tuple[TodoItem, ...]:
    """Return the items on single lines, each with an id. Raises ToolError."""
    if len(items) > MAX_ITEMS:
        problem = f"has {len(items)} entries; the maximum is {MAX_ITEMS}: combine small ones"
        raise invalid_argument("items", problem, kind="limit")
    normalized: list[TodoItem] = []
    for number, item in enumerate(items, 1):
        label = f"items[{number}]"
        if len(item.blocked_by) > MAX_ITEMS:
            raise invalid_argument(
                "items", f"{label} is blocked by more than {MAX_ITEMS} others: name fewer", kind="limit"
            )
        text = _to_single_line(item.text, f"{label}.text")
        if not text:
            raise invalid_argument(
                "items", f"must each have a text, and item {number} has none: say what to do"
            )
        id = _to_single_line(item.id, f"{label}.id", MAX_ID_CHARS)
        active_form = _to_single_line(item.active_form, f"{label}.active_form")
        blocked_by = [_to_single_line(id, f"{label}.blocked_by", MAX_ID_CHARS) for id in item.blocked_by]
        normalized.append(replace(item, text=text, id=id, active_form=active_form, blocked_by=blocked_by))
    ids = [item.id for item in normalized if item.id]
    if repeated := next((id for id in ids if ids.count(id) > 1), ""):
        raise invalid_argument(
            "items", f"must have different ids, and {repeated!r} is used twice: change one, or omit ids"
        )
    for index, item in enumerate(normalized):
        if not item.id:
            id = str(index + 1)
            while id in ids:
                id += "'"
            ids.append(id)
            normalized[index] = replace(item, id=id)
    return tuple(normalized)


def _to_single_line(text: str, name: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return a text on one line, without control characters that a terminal would interpret.

    Raises ToolError.
    """
    return _CONTROL.sub(" ", check_text(text.replace("\0", " "), name, limit)).strip()


def _collect_notes(items: tuple[TodoItem, ...]) -> list[str]:
    notes: list[str] = []
    active = sum(item.status == "in_progress" for item in items)
    if active > 1:
        notes.append(f"{active} items are in progress: one at a time is easier to follow")
    ids = {item.id for item in items}
    for item in items:
        if missing := [id for id in item.blocked_by if id not in ids]:
            notes.append(
                f"item {item.id!r} is blocked by {', '.join(map(repr, missing[:5]))}, which is not in the "
                "list"
            )
        elif item.id in item.blocked_by:
            notes.append(f"item {item.id!r} is blocked by itself")
    return notes[:10]
