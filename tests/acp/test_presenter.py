"""What an editor shows: calls, diffs, plans, titles."""

import json
from pathlib import Path
from typing import Any

import pytest
from editor_kit import Fields, open_editor

from toolglot.acp.file_watch import FileWatch
from toolglot.acp.presenter import RunPresenter
from toolglot.acp.tool_calls import describe_call, requested_content, split_preview
from toolglot.builtin.tools import coding_tools
from toolglot.values.events import ToolCallReady, ToolCallStarted, ToolFinished, ToolOutcome
from toolglot.values.messages import Text, ToolCall, ToolResult, assistant, tool_results

pytestmark = pytest.mark.usefixtures("isolated_home")


async def test_a_patch_of_several_files_is_shown_as_diffs(tmp_path: Path, note: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: note.txt\n@@\n-two\n+TWO\n*** Add File: new.txt\n+new\n*** "
        "End Patch"
    )
    async with open_editor(tmp_path, model="simulator:openai", facade="codex", code_mode="off") as (
        editor,
        session,
    ):
        await editor.prompt(session, f"call apply_patch {json.dumps({'input': patch})}")
    [request] = editor.requests
    diffs = [block for block in request["call"]["content"] if block["type"] == "diff"]
    assert [Path(diff["path"]).name for diff in diffs] == ["note.txt", "new.txt"]
    assert (diffs[0]["oldText"], diffs[0]["newText"]) == ("one\ntwo\nthree\n", "one\nTWO\nthree\n")
    assert ("oldText" in diffs[1], diffs[1]["newText"]) == (False, "new\n")
    [call] = editor.calls().values()
    assert [block["newText"] for block in call["content"]] == ["one\nTWO\nthree\n", "new\n"]


async def test_plans_are_shown_as_plans(tmp_path: Path) -> None:
    todos = [
        {"content": "Read", "status": "completed", "activeForm": "Reading"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
    ]
    async with open_editor(tmp_path, facade="claude-code-4.5") as (editor, session):
        await editor.prompt(session, f"call TodoWrite {json.dumps({'todos': todos})}\nthen say Planned.")
    [plan] = editor.of("plan")
    assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
        ("Read", "completed"),
        ("Write", "in_progress"),
    ]
    assert editor.calls() == {}


async def test_output_of_a_command_is_shown_while_it_runs(tmp_path: Path) -> None:
    command = json.dumps({"command": "echo first; echo second", "description": "Print"})
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, f"call Bash {command}")
    contents = [
        update["content"][0]["content"]["text"]
        for update in editor.of("tool_call_update")
        if "content" in update
    ]
    assert contents[-1] == "```\nfirst\nsecond\n```"
    assert [request["call"]["title"] for request in editor.requests] == ["`echo first; echo second`"]


async def test_calls_with_equal_ids_are_different_calls() -> None:
    updates: list[Any] = []

    async def send(update: Any) -> None:
        updates.append(update)

    async def read_buffer(path: str) -> None:
        return None

    presenter = RunPresenter(
        send, lambda call: None, lambda call: call, FileWatch(lambda call: None, read_buffer), "/"
    )
    for _ in range(2):
        call = ToolCall("call_0", "look", {"at": "it"})
        await presenter.show_event(ToolCallStarted(0, call.id, call.name))
        await presenter.show_event(ToolCallReady(0, call))
        await presenter.show_event(ToolFinished(ToolOutcome(call, ToolResult(call.id))))
    assert [update.tool_call_id for update in updates] == ["call_0"] * 3 + ["call_0-2"] * 3


async def test_a_saved_conversation_shows_each_result_with_its_call() -> None:
    """A conversation of a server that repeats ids, in one turn and in another."""
    updates: list[Any] = []

    async def send(update: Any) -> None:
        updates.append(update)

    async def read_buffer(path: str) -> None:
        return None

    calls = [ToolCall("call_0", "look", {"at": number}) for number in range(3)]
    results = [ToolResult("call_0", (Text(f"seen {number}"),)) for number in range(3)]
    presenter = RunPresenter(
        send, lambda call: None, lambda call: call, FileWatch(lambda call: None, read_buffer), "/"
    )
    await presenter.replay(
        [assistant(calls[:2]), tool_results(*results[:2]), assistant(calls[2]), tool_results(results[2])]
    )
    inputs = {
        update.tool_call_id: update.raw_input["at"]
        for update in updates
        if getattr(update, "raw_input", None)
    }
    outputs = {
        update.tool_call_id: update.content[0].content.text.strip("`\n")
        for update in updates
        if update.status == "completed"
    }
    assert {inputs[id]: text for id, text in outputs.items()} == {
        number: f"seen {number}" for number in range(3)
    }


def test_a_preview_is_split_into_hunks() -> None:
    preview = (
        "update a.py\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-- old\n+++ new\n same\n\\ No newline at "
        "end of file\n"
    )
    preview += "@@ -9 +9,2 @@\n x\n+y\ndelete b.py\n--- b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    diffs, remainder = split_preview(preview, "/root")
    assert [(diff.path, diff.old_text, diff.new_text) for diff in diffs if diff.type == "diff"] == [
        ("/root/a.py", "- old\nsame\n", "++ new\nsame\n"),
        ("/root/a.py", "x\n", "x\ny\n"),
        ("/root/b.py", "gone\n", ""),
    ]
    assert remainder == "update a.py\ndelete b.py"
    assert split_preview("$ make test", "/root") == ([], "$ make test")
    truncated = preview + "--- c.py\n+++ c.py\n@@ -1,9 +1,9 @@\n-removed\n… the rest is omitted\n"
    assert split_preview(truncated, "/root") == ([], truncated)


@pytest.mark.parametrize(
    ("name", "arguments", "texts"),
    [
        ("write", {"path": "a", "content": "new"}, [(None, "new")]),
        ("edit", {"path": "a", "old": "x", "new": ""}, [("x", "")]),
        (
            "multi_edit",
            {"path": "a", "edits": [{"old": "x", "new": "y"}, {"old": "z", "new": "w"}]},
            [("x", "y"), ("z", "w")],
        ),
        ("multi_edit", {"path": "a", "edits": [1, {"new": 2}]}, []),
        ("patch", {"text": "…"}, []),
    ],
)
def test_a_saved_call_shows_what_it_replaced(
    name: str, arguments: Fields, texts: list[tuple[str | None, str]]
) -> None:
    diffs = requested_content(ToolCall("1", name, arguments), "/work/a")
    assert [(diff.old_text, diff.new_text) for diff in diffs if diff.type == "diff"] == texts


def test_code_that_calls_tools_has_a_title() -> None:
    call = ToolCall("1", "run_code", {"code": "print(1)"})
    assert describe_call(call, None, "/").title == 'Run code: "print(1)"'


@pytest.mark.parametrize("command", ["echo `date` ``", "echo \u202egnp.exe"])
def test_nothing_in_a_title_deceives(command: str, tmp_path: Path) -> None:
    [shell] = coding_tools(tmp_path, names=["shell"])
    title = describe_call(ToolCall("1", "shell", {"command": command}), shell, str(tmp_path)).title
    assert title in ("``` echo `date` `` ```", "`echo ⟨U+202E⟩gnp.exe`")
