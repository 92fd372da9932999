"""The tool `todo`: the list is what was written last, and nothing is lost over a detail."""

from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools

from toolglot.builtin.todo import create_tools


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path, create_tools)


def one(text: Any = "a", status: Any = "pending", **options: Any) -> dict[str, Any]:
    return {"text": text, "status": status, **options}


class TestTheList:
    def test_is_empty_at_first(self, tools: Tools) -> None:
        assert tools("todo").content == "The list is empty."

    def test_is_what_was_written_last(self, tools: Tools) -> None:
        tools("todo", items=[one("old")])
        written = tools(
            "todo", items=[one("b", "completed"), one("c", "in_progress")], explanation="b is done"
        )
        assert written.content == "1. [completed] b\n2. [in_progress] c"
        assert written.data["explanation"] == "b is done"
        read = tools("todo")
        assert read.content == written.content
        assert read.data["items"] == written.data["items"]

    def test_is_cleared_by_an_empty_one(self, tools: Tools) -> None:
        tools("todo", items=[one()])
        assert tools("todo", items=[]).content == "The list is empty."

    def test_belongs_to_one_conversation(self, tools: Tools, tmp_path: Path) -> None:
        tools("todo", items=[one()])
        assert Tools(tmp_path, create_tools)("todo").content == "The list is empty."

    def test_gives_every_item_an_id_of_its_own(self, tools: Tools) -> None:
        items = tools("todo", items=[one("x"), one("y", id="1"), one("z", id="last")]).data["items"]
        ids = [item["id"] for item in items]
        assert ids[1:] == ["1", "last"]
        assert len(set(ids)) == 3

    def test_says_what_is_being_done(self, tools: Tools) -> None:
        items = tools("todo", items=[one("test", "in_progress", active_form="Testing")]).data["items"]
        assert [(item["text"], item["active_form"]) for item in items] == [("test", "Testing")]

    def test_holds_nothing_that_a_terminal_obeys(self, tools: Tools) -> None:
        written = tools("todo", items=[one("a\x1b]0;x\x07\r\nb\u2028c\x9b1m\0d")])
        assert written.content == "1. [pending] a ]0;x b c 1m d"


class TestNotes:
    def test_two_things_at_once_are_noted_and_kept(self, tools: Tools) -> None:
        output = tools("todo", items=[one("a", "in_progress"), one("b", "in_progress")])
        assert "[2 items are in progress" in output.content
        assert len(output.data["items"]) == 2

    @pytest.mark.parametrize(
        ("items", "note"),
        [
            ([one(id="a", blocked_by=["gone"])], "item 'a' is blocked by 'gone', which is not in the list"),
            ([one(id="a", blocked_by=["a"])], "item 'a' is blocked by itself"),
        ],
    )
    def test_an_odd_reference_is_noted_and_kept(self, tools: Tools, items: list[Any], note: str) -> None:
        output = tools("todo", items=items)
        assert output.data["notes"] == [note]
        assert output.data["items"][0]["blocked_by"] == items[0]["blocked_by"]

    def test_a_good_reference_is_shown(self, tools: Tools) -> None:
        output = tools("todo", items=[one("x", id="a"), one("y", id="b", blocked_by=["a"])])
        assert output.data["notes"] == []
        assert "2. [pending] y (id b) (blocked by a)" in output.content
