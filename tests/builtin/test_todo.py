"""The tool `todo`: the list is what was written last, and nothing is lost over a detail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.todo import MAX_ID_CHARS, MAX_ITEMS, MAX_TEXT_CHARS, create_tools, render_todo_lines
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ToolState]:
    workspace = Workspace(tmp_path)
    yield ToolState(workspace)
    workspace.close()


def called(box: ToolState, arguments: Any) -> ToolOutput:
    (tool,) = create_tools(box)
    call = ToolCall("c1", "todo", arguments)
    return tool.call(tool.bind(call).values, Context(call))


def one(text: Any = "a", status: Any = "pending", **more: Any) -> dict[str, Any]:
    return {"text": text, "status": status, **more}


class TestTheList:
    def test_is_empty_at_first(self, box: ToolState) -> None:
        assert called(box, {}).content == "The list is empty."
        assert render_todo_lines(box) == []

    def test_is_what_was_written_last(self, box: ToolState) -> None:
        called(box, {"items": [one("old")]})
        written = called(box, {"items": [one("b", "completed"), one("c", "in_progress")], "explanation": "b is done"})
        assert written.content == "1. [completed] b\n2. [in_progress] c"
        assert written.data["explanation"] == "b is done"
        read = called(box, {})
        assert read.content == written.content
        assert read.data["items"] == written.data["items"]

    def test_is_cleared_by_an_empty_one(self, box: ToolState) -> None:
        called(box, {"items": [one()]})
        assert called(box, {"items": []}).content == "The list is empty."
        assert render_todo_lines(box) == []

    def test_belongs_to_one_conversation(self, box: ToolState) -> None:
        called(box, {"items": [one()]})
        assert render_todo_lines(ToolState(box.workspace)) == []

    def test_gives_every_item_an_id_of_its_own(self, box: ToolState) -> None:
        items = called(box, {"items": [one("x"), one("y", id="1"), one("z", id="last")]}).data["items"]
        ids = [item["id"] for item in items]
        assert ids[1:] == ["1", "last"]
        assert len(set(ids)) == 3

    def test_is_shown_to_the_user_with_what_is_being_done(self, box: ToolState) -> None:
        statuses = ("completed", "in_progress", "pending", "cancelled", "blocked")
        called(box, {"items": [one(status, status, active_form="Doing") for status in statuses]})
        assert render_todo_lines(box) == ["✔ completed", "▸ Doing", "☐ pending", "✗ cancelled", "■ blocked"]

    def test_holds_nothing_that_a_terminal_obeys(self, box: ToolState) -> None:
        called(box, {"items": [one("a\x1b]0;x\x07\r\nb\u2028c\x9b1m\0d")]})
        assert render_todo_lines(box) == ["☐ a ]0;x b c 1m d"]


class TestNotes:
    def test_two_things_at_once_are_noted_and_kept(self, box: ToolState) -> None:
        said = called(box, {"items": [one("a", "in_progress"), one("b", "in_progress")]})
        assert "[2 items are in progress" in said.content
        assert len(said.data["items"]) == 2

    @pytest.mark.parametrize(
        ("items", "note"),
        [
            ([one(id="a", blocked_by=["gone"])], "item 'a' is blocked by 'gone', which is not in the list"),
            ([one(id="a", blocked_by=["a"])], "item 'a' is blocked by itself"),
        ],
    )
    def test_an_odd_reference_is_noted_and_kept(self, box: ToolState, items: list[Any], note: str) -> None:
        said = called(box, {"items": items})
        assert said.data["notes"] == [note]
        assert said.data["items"][0]["blocked_by"] == items[0]["blocked_by"]

    def test_a_good_reference_is_shown(self, box: ToolState) -> None:
        said = called(box, {"items": [one("x", id="a"), one("y", id="b", blocked_by=["a"])]})
        assert said.data["notes"] == []
        assert "2. [pending] y (id b) (blocked by a)" in said.content


def each(*values: Any) -> tuple[Any, ...]:
    return values


BAD: list[Any] = [
    *({"items": value} for value in each(1, 0.5, True, "x", "[1", {"a": 1}, [1], [None], ["x"], [[]], [{}], [True], [[one()]])),
    *({"items": [{"text": "a", "status": value}]} for value in each(None, 1, "", "done", "Pending!", [], {}, "\0")),
    *({"items": [{"text": value, "status": "pending"}]} for value in each(None, [], {}, ["a", "b"], "", "\n\t", "\0", "\x1b")),
    *({"items": [one(id=value)]} for value in each([], {}, ["a", "b"], "i" * (MAX_ID_CHARS + 1), "\ud800")),
    *(
        {"items": [one(blocked_by=value)]}
        for value in each({"a": 1}, [[]], [{}], [None], ["\udfff"], ["i" * (MAX_ID_CHARS + 1)])
    ),
    *({"items": [one(active_form=value)]} for value in each([], {}, "\ud800", "x" * (MAX_TEXT_CHARS + 1))),
    {"items": [one(blocked_by=["a"] * (MAX_ITEMS + 1))]},
    {"items": [one("x" * (MAX_TEXT_CHARS + 1))]},
    {"items": [one("x" * 5_000_000)]},
    {"items": [one("\ud83d")]},
    {"items": [one()] * (MAX_ITEMS + 1)},
    {"items": [one()] * 50_000},
    {"items": [one(id="a"), one(id="a")]},
    {"items": [one(id="a"), one(id=" a ")]},
    {"items": [one(), {"text": "no status"}]},
    {"items": [one(), {"status": "pending"}]},
    {"items": [one(), one(), one("")]},
    {"items": [one(nonsense={"deep": [1]}, status="x")]},
    *({"explanation": value} for value in each([], {}, ["a", "b"], "\ud800", "x" * (MAX_TEXT_CHARS + 1))),
    {"items": [one("new")], "explanation": "\ud800"},
    {"items": [one("new")], "explanation": "x" * 100_000},
]


class TestBadInput:
    def test_there_is_enough_of_it(self) -> None:
        assert len(BAD) >= 60

    @pytest.mark.parametrize("arguments", BAD)
    def test_is_a_sentence_and_the_list_stays(self, box: ToolState, arguments: Any) -> None:
        called(box, {"items": [one("kept")]})
        with pytest.raises(ToolError) as raised:
            called(box, arguments)
        assert raised.value.kind in ("validation", "limit")
        assert "Traceback" not in str(raised.value)
        assert render_todo_lines(box) == ["☐ kept"]
