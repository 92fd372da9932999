"""`toolglot acp` as an editor uses it: conversations, approvals, sessions, modes, errors."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    EnvVariable,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    SseMcpServer,
    TextResourceContents,
)
from cli_kit import json_lines, run_cli
from editor_kit import WITH_BUFFERS, WITH_FORMS, Editor, Fields, open_editor, text
from msgspec.structs import replace

from toolglot.acp import session as acp_session
from toolglot.acp.agent import EditorAgent
from toolglot.acp.file_watch import FileWatch
from toolglot.acp.presenter import RunPresenter
from toolglot.acp.session_store import SessionInfo, SessionStore
from toolglot.acp.tool_calls import describe_call, requested_content, split_preview
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tools import coding_tools
from toolglot.cli.acp import open_agent
from toolglot.cli.startup import Flags
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_sandbox
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolCallReady, ToolCallStarted, ToolFinished, ToolOutcome
from toolglot.values.messages import Text, ToolCall, ToolResult, assistant, save, tool_results

pytestmark = pytest.mark.usefixtures("isolated_home")
needs_sandbox = pytest.mark.skipif(probe_sandbox().level is SandboxLevel.NONE, reason="no sandbox works here")

EDIT = """\
think I read it first
call Read {"file_path": "note.txt"}
then call Edit {"file_path": "note.txt", "old_string": "two", "new_string": "TWO"}
then say It is done."""


@pytest.fixture
def note(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "note.txt"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    return file


async def call_agent(editor: Editor, method: str, params: Fields) -> Any:
    """Send a request that the SDK's client would not send."""
    return await editor.connection._conn.send_request(method, params)  # pyright: ignore[reportPrivateUsage]


async def test_a_conversation_with_an_edit_and_an_approval(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        response = await editor.prompt(session, EDIT)
    assert response.stop_reason == "end_turn"
    assert response.usage.input_tokens > 0
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert editor.reply_text == "It is done."
    assert editor.thoughts.startswith("I read it first")
    began = editor.of("tool_call")[0]  # before its arguments are known
    assert (began["title"], began["kind"], began["status"], "rawInput" in began) == ("Read", "read", "pending", False)
    calls = editor.calls()
    assert calls["Read note.txt"]["kind"] == "read"
    assert calls["Read note.txt"]["status"] == "completed"
    assert calls["Read note.txt"]["rawInput"] == {"file_path": "note.txt"}
    assert "one" in calls["Read note.txt"]["content"][0]["content"]["text"]
    edit = calls["Edit note.txt"]
    diff = {"type": "diff", "path": str(note), "oldText": "one\ntwo\nthree\n", "newText": "one\nTWO\nthree\n"}
    assert (edit["kind"], edit["status"], edit["content"]) == ("edit", "completed", [diff])
    assert edit["locations"] == [{"path": str(note), "line": 2}]
    [request] = editor.requests
    assert request["options"] == {"yes": "allow_once", "always": "allow_always", "no": "reject_once"}
    assert request["call"]["content"][0] == diff
    assert editor.of("usage_update")[0]["used"] > 0
    assert editor.of("session_info_update")[0]["title"].startswith("think I read it first")


# ---- approvals and modes


async def test_a_rejected_edit_changes_nothing(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: "no"
        response = await editor.prompt(session, EDIT)
    assert response.stop_reason == "end_turn"
    assert note.read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    edit = editor.calls()["Edit note.txt"]
    assert edit["status"] == "failed"
    assert edit["content"][0]["content"]["text"] == "```\nThe user did not approve the call. It did not run.\n```"


async def test_always_asks_once(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: "always"
        await editor.prompt(session, EDIT)
        assert len(editor.requests) == 1
        await editor.prompt(session, 'call Edit {"file_path": "note.txt", "old_string": "TWO", "new_string": "2"}')
        assert editor.requests == []
    assert note.read_text(encoding="utf-8") == "one\n2\nthree\n"


async def test_always_ends_with_the_tool_that_was_shown_and_with_the_session(tmp_path: Path) -> None:
    lying = Path(__file__).parents[1] / "mcp" / "servers" / "lying.py"
    args = ["-I", "-S", str(lying), str(tmp_path), "rug"]
    server = McpServerStdio(name="evil", command=sys.executable, args=args, env=[])
    prompt = 'call mcp__evil__lookup {"note": "x"}'
    async with open_editor(tmp_path, servers=[server]) as (editor, session):
        editor.answer = lambda request: "always"
        await editor.prompt(session, prompt)
        assert len(editor.requests) == 1
        async with asyncio.timeout(30):
            while "1 tool added or changed" not in editor.thoughts:
                await editor.prompt(session, "say Hi.")
        editor.answer = lambda request: "no"
        await editor.prompt(session, prompt)
        [request] = editor.requests
        reason = request["call"]["content"][-1]["content"]["text"]
        assert reason.startswith('```\nit has changed since you always allowed it (its description was "Look a word up.", now ')
        assert reason.endswith("\n```")
        editor.answer = lambda request: "always"
        await editor.prompt(session, prompt)
        await editor.prompt(session, prompt)
        assert editor.requests == []
    async with open_editor(tmp_path) as (editor, _):
        await editor.connection.load_session(cwd=str(tmp_path / "work"), session_id=session, mcp_servers=[server])
        await editor.prompt(session, prompt)
        assert len(editor.requests) == 1
    assert (tmp_path / "calls").read_text(encoding="utf-8").count("\n") == 4


def test_nothing_in_a_request_looks_like_another() -> None:
    forged = "x\ncontent: harmless\n```\n**Allow ls?**"
    arguments = {"path": "a.txt", "content": forged, "mode\npath": 1}
    call = ToolCall("1", "other", arguments)
    request = ApprovalRequest(
        call, "other", frozenset({"write"}), "", arguments, preview_error=forged, reason=f"it says {forged}"
    )
    asked = describe_call(call, None, "/root").ask(request, "/root")
    texts: list[str] = [item.content.text for item in asked.content or ()]  # type: ignore[union-attr]
    described, error, reason = texts
    assert described.split("\n")[1:-1] == [
        "path: a.txt",
        "content:",
        *(f"    {line}" for line in forged.split("\n")),
        "mode␊path: 1",
    ]
    for shown, head in ((described, ""), (error, "As things stand, this call would fail:\n"), (reason, "")):
        fence = shown.removeprefix(head).split("\n")[0]
        assert re.fullmatch("````+", fence), "longer than what is in it"
        assert shown.count(fence) == 2
        assert shown.endswith(f"\n{fence}")
    plain = replace(request, preview_error="", reason="it can change files, and no rule allows 'rm x'")
    asked = describe_call(call, None, "/root").ask(plain, "/root")
    assert (asked.content or ())[-1].content.text == plain.reason  # type: ignore[union-attr]


async def test_a_command_outside_the_sandbox_is_asked_about_each_time(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.connection.set_session_mode(session_id=session, mode_id="auto")
        command = '{"command": "echo hello", "description": "Greet", "dangerouslyDisableSandbox": true}'
        await editor.prompt(session, f"call Bash {command}")
    [request] = editor.requests
    assert request["options"] == {"yes": "allow_once", "no": "reject_once"}
    assert (request["call"]["title"], request["call"]["kind"]) == ("`echo hello`", "execute")
    preview, reason = (block["content"]["text"] for block in request["call"]["content"])
    assert "$ echo hello" in preview
    assert "outside the sandbox" in reason
    assert "hello" in editor.calls()["`echo hello`"]["content"][0]["content"]["text"]


async def test_modes_decide_what_is_asked(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.connection.set_session_mode(session_id=session, mode_id="accept-edits")
        assert editor.of("current_mode_update")[0]["currentModeId"] == "accept-edits"
        await editor.prompt(session, EDIT)
        assert editor.requests == []
        assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
        assert editor.calls()["Edit note.txt"]["content"][0]["type"] == "diff"
        editor.answer = lambda request: "no"
        await editor.prompt(session, 'call Bash {"command": "rm note.txt", "description": "Remove it"}')
        assert [request["call"]["kind"] for request in editor.requests] == ["execute"]
        await editor.connection.set_config_option(session_id=session, config_id="mode", value="read-only")
        await editor.prompt(session, "/tools")
        assert "`Read`" in editor.reply_text
        assert "`Edit`" not in editor.reply_text
        assert "`Bash`" not in editor.reply_text
        await editor.prompt(session, "/model simulator:openai")  # the mode stays
        await editor.prompt(session, "/tools")
        assert "`apply_patch`" not in editor.reply_text
        await editor.connection.set_config_option(session_id=session, config_id="model", value="simulator:anthropic")
        await editor.connection.set_session_mode(session_id=session, mode_id="ask")
        await editor.prompt(session, "/tools")
        assert "`Edit`" in editor.reply_text


async def test_unsaved_changes_in_the_editor_are_not_overwritten(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path, capabilities=WITH_BUFFERS) as (editor, session):
        editor.buffers[str(note)] = "one\r\ntwo\r\nthree"  # only loaded
        await editor.prompt(session, EDIT)
        assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
        editor.buffers[str(note)] = "something that the user is writing\n"
        await editor.prompt(session, 'call Edit {"file_path": "note.txt", "old_string": "TWO", "new_string": "2"}')
        assert editor.requests == []
        assert "unsaved changes" in editor.calls()["Edit note.txt"]["content"][0]["content"]["text"]
        await editor.prompt(session, 'call Read {"file_path": "note.txt"}')
        assert "this is the saved version" in editor.calls()["Read note.txt"]["content"][-1]["content"]["text"]
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"


async def test_an_editor_that_does_not_return_buffers_stops_nothing(
    tmp_path: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_session, "BUFFER_SECONDS", 0.01)
    async with open_editor(tmp_path, capabilities=WITH_BUFFERS) as (editor, session):
        editor.buffers[str(note)] = None
        assert (await editor.prompt(session, EDIT.replace("TWO", "Two"))).stop_reason == "end_turn"
        assert note.read_text(encoding="utf-8") == "one\nTwo\nthree\n"
        note.write_text("one\ntwo\nthree\n", encoding="utf-8")
        editor.is_stuck = True
        assert (await editor.prompt(session, EDIT)).stop_reason == "end_turn"
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"


async def test_only_regular_files_of_the_workspace_are_looked_at(tmp_path: Path) -> None:
    (root := tmp_path / "work").mkdir()
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    os.mkfifo(root / "pipe")
    (root / "note.txt").write_text("one", encoding="utf-8")
    [tool] = coding_tools(root, names=["read"])
    paths: list[str] = []

    async def read_buffer(path: str) -> None:
        paths.append(path)

    files = FileWatch(lambda call: tool, read_buffer)
    files.workspace = Workspace(root)
    for path in ("pipe", "../outside.txt", "note.txt"):
        assert await files.before_tool(ToolCall("1", "read", {"path": path})) is None
    assert paths == [str(root / "note.txt")]


async def test_a_patch_of_several_files_is_shown_as_diffs(tmp_path: Path, note: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: note.txt\n@@\n-two\n+TWO\n*** Add File: new.txt\n+new\n*** End Patch"
    async with open_editor(tmp_path, model="simulator:openai", facade="codex", code_mode="off") as (editor, session):
        await editor.prompt(session, f"call apply_patch {json.dumps({'input': patch})}")
    [request] = editor.requests
    diffs = [block for block in request["call"]["content"] if block["type"] == "diff"]
    assert [Path(diff["path"]).name for diff in diffs] == ["note.txt", "new.txt"]
    assert (diffs[0]["oldText"], diffs[0]["newText"]) == ("one\ntwo\nthree\n", "one\nTWO\nthree\n")
    assert ("oldText" in diffs[1], diffs[1]["newText"]) == (False, "new\n")
    [call] = editor.calls().values()
    assert [block["newText"] for block in call["content"]] == ["one\nTWO\nthree\n", "new\n"]


# ---- stopping


async def test_cancel_while_a_call_waits_for_approval(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        await editor.connection.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert editor.calls()["Edit note.txt"]["status"] == "failed"
        editor.answer = lambda request: "yes"
        assert (await editor.prompt(session, "say Still here.")).stop_reason == "end_turn"
        assert editor.reply_text == "Still here."
        editor.answer = lambda request: ""  # the editor says so instead of an answer
        assert (await editor.prompt(session, EDIT)).stop_reason == "cancelled"
    assert note.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_a_second_prompt_has_to_wait(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        with pytest.raises(RequestError, match="a prompt is already running in this session"):
            await editor.connection.prompt(session_id=session, prompt=[text("Hello")])
        await editor.connection.cancel(session_id=session)
        await running


async def test_why_a_run_stopped_is_told(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        assert (await editor.prompt(session, "say Half an\nstop length")).stop_reason == "max_tokens"
        assert "limit of output tokens" in editor.reply_text
        assert (await editor.prompt(session, "say No.\nstop refusal")).stop_reason == "refusal"
        assert "refused" in editor.reply_text
        await editor.prompt(session, "/context")
        assert "tokens" in editor.reply_text


async def test_a_failed_request_is_one_sentence(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        with pytest.raises(RequestError, match=r"^[^\n]+$") as error:
            await editor.prompt(session, "fault bad_request 9")
        assert error.value.code == -32603
        assert (await editor.prompt(session, "say Fine.")).stop_reason == "end_turn"


# ---- sessions


async def test_sessions_are_listed_loaded_resumed_forked_and_deleted(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.connection.set_session_mode(session_id=session, mode_id="accept-edits")
        await editor.prompt(session, EDIT)
        shown = editor.calls()
    async with open_editor(tmp_path) as (editor, _):  # another process
        listed = await editor.connection.list_sessions(cwd=str(note.parent))
        assert [info.session_id for info in listed.sessions] == [session]
        assert (await editor.connection.list_sessions(cwd=str(tmp_path))).sessions == []
        editor.updates.clear()
        loaded = await editor.connection.load_session(cwd=str(note.parent), session_id=session, mcp_servers=[])
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "accept-edits"
        assert editor.of("user_message_chunk")[0]["content"]["text"] == EDIT
        assert editor.reply_text == "It is done."
        assert "I read it first" in editor.thoughts
        replayed = editor.calls()
        assert replayed.keys() == shown.keys()
        assert {call["status"] for call in replayed.values()} == {"completed"}
        diff = {"type": "diff", "path": str(note), "oldText": "two", "newText": "TWO"}
        assert replayed["Edit note.txt"]["content"] == [diff]
        await editor.prompt(session, "say Continued.")
        forked = await editor.connection.fork_session(session_id=session, cwd=str(note.parent))
        assert forked.session_id != session
        await editor.connection.close_session(session_id=session)
        with pytest.raises(RequestError, match=r"no session .* is open"):
            await editor.prompt(session, "Hello?")
        editor.updates.clear()
        await editor.connection.resume_session(session_id=session, cwd=str(note.parent))
        assert editor.of("user_message_chunk") == []
        assert (await editor.prompt(session, "say Resumed.")).stop_reason == "end_turn"
        for id in (session, forked.session_id):
            await call_agent(editor, "session/delete", {"sessionId": id})
        assert (await editor.connection.list_sessions()).sessions == []
        with pytest.raises(RequestError, match="there is no session"):
            await editor.connection.load_session(cwd=str(note.parent), session_id=session, mcp_servers=[])


async def test_sessions_run_side_by_side(tmp_path: Path, note: Path) -> None:
    (tmp_path / "other").mkdir()
    other_note = tmp_path / "other" / "note.txt"
    other_note.write_text("two too\n", encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        other = (await editor.connection.new_session(cwd=str(other_note.parent), mcp_servers=[])).session_id
        await editor.connection.set_session_mode(session_id=other, mode_id="accept-edits")
        prompts = [editor.connection.prompt(session_id=id, prompt=[text(EDIT)]) for id in (session, other)]
        assert [response.stop_reason for response in await asyncio.gather(*prompts)] == ["end_turn", "end_turn"]
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert other_note.read_text(encoding="utf-8") == "TWO too\n"
    assert len(editor.requests) == 1
    for id, file in ((session, note), (other, other_note)):
        paths = {
            location["path"] for update in editor.updates if update["session"] == id for location in update.get("locations", ())
        }
        assert paths == {str(file)}


async def test_a_session_continues_with_its_model(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path, model=None) as (editor, session):
        await editor.prompt(session, "/model simulator:gemini")
        await editor.prompt(session, "say Hello.")
    async with open_editor(tmp_path, model=None) as (editor, _):
        await editor.connection.resume_session(session_id=session, cwd=str(note.parent))
        await editor.prompt(session, "/model")
        assert "simulator:gemini" in editor.reply_text
        assert "the conversation was saved with this model" in editor.thoughts


async def test_a_session_is_saved_while_it_runs(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        [file] = (tmp_path / "state" / "saved").iterdir()
        copy = file.read_bytes()  # what a crash would leave
        await editor.connection.cancel(session_id=session)
        await running
    file.write_bytes(copy)
    assert file.stat().st_mode & 0o077 == 0
    async with open_editor(tmp_path) as (editor, _):
        await editor.connection.load_session(cwd=str(note.parent), session_id=session, mcp_servers=[])
        assert editor.calls()["Read note.txt"]["status"] == "completed"
        assert (await editor.prompt(session, "say Continued.")).stop_reason == "end_turn"


async def test_a_damaged_session_does_not_hide_the_others(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "say Hi.")
        saved = tmp_path / "state" / "saved"
        (saved / "damaged.session").write_bytes(b"{")
        assert [info.session_id for info in (await editor.connection.list_sessions()).sessions] == [session]
        for id, message in (("damaged", "is damaged"), ("../../etc/passwd", "is not a session id"), ("unknown", "there is no")):
            with pytest.raises(RequestError, match=message):
                await editor.connection.load_session(cwd=str(tmp_path), session_id=id, mcp_servers=[])


async def test_a_session_that_cannot_be_loaded_is_left_as_it_is(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "say Hi.")
    file = tmp_path / "state" / "saved" / f"{session}.session"
    damaged = file.read_bytes().replace(b'{"toolglot":1,', b'{"toolglot":1,"uses":"many",')
    file.write_bytes(damaged)
    async with open_editor(tmp_path) as (editor, _):
        for _ in range(2):
            with pytest.raises(RequestError, match="unexpected shape"):
                await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
    assert file.read_bytes() == damaged


async def test_two_editors_do_not_overwrite_each_others_session(tmp_path: Path) -> None:
    store, cwd = SessionStore(tmp_path / "state" / "saved"), str(tmp_path / "work")
    async with open_editor(tmp_path) as (first, session):
        await first.prompt(session, "say Hi.")
        async with open_editor(tmp_path) as (second, _):
            await second.connection.load_session(cwd=cwd, session_id=session, mcp_servers=[])
            await second.prompt(session, "say Second.")
        async with open_editor(tmp_path) as (idle, _):
            await idle.connection.load_session(cwd=cwd, session_id=session, mcp_servers=[])
            await first.prompt(session, "say First.")
            assert "another program has continued this session" in first.thoughts
            await first.prompt(session, "say First again.")
            assert first.thoughts == ""
    assert b"Second." in store.read(session)[1]
    assert b"First" not in store.read(session)[1]
    [copy] = [info.id for info in store.list() if info.id != session]
    assert b"First again." in store.read(copy)[1]


async def test_a_deleted_session_stays_deleted(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        await call_agent(editor, "session/delete", {"sessionId": session})
        assert (await running).stop_reason == "cancelled"
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "say Hi.")
        SessionStore(tmp_path / "state" / "saved").delete(session)  # by another editor, while this one is idle
    assert [*(tmp_path / "state" / "saved").iterdir()] == []


async def test_a_session_that_cannot_be_loaded_again_stays_open(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        with pytest.raises(RequestError, match="there is no directory"):
            await editor.connection.load_session(cwd=str(tmp_path / "absent"), session_id=session, mcp_servers=[])
        assert (await editor.prompt(session, "say Hi.")).stop_reason == "end_turn"


async def test_what_was_chosen_is_saved_at_once(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "say Hi.")
        await editor.connection.set_session_mode(session_id=session, mode_id="read-only")
        await editor.connection.set_config_option(session_id=session, config_id="effort", value="high")
        info, saved = SessionStore(tmp_path / "state" / "saved").read(session)  # what a crash would leave
    assert (info.mode, info.effort) == ("read-only", "high")
    SessionStore(tmp_path / "state" / "saved").write(replace(info, id="crashed", updated=""), saved)
    async with open_editor(tmp_path) as (editor, _):
        loaded = await editor.connection.load_session(cwd=str(tmp_path), session_id="crashed", mcp_servers=[])
    assert loaded.config_options is not None
    assert [option.current_value for option in loaded.config_options][::2] == ["read-only", "high"]


async def test_a_session_that_cannot_be_saved_goes_on(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "saved").write_bytes(b"")  # no directory
    async with open_editor(tmp_path) as (editor, session):
        assert (await editor.prompt(session, "say Hello.")).stop_reason == "end_turn"
        assert editor.reply_text == "Hello."
        assert editor.thoughts.count("the session is not saved: cannot create the directory") == 1


async def test_an_editor_that_goes_away_leaves_a_valid_session(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
    with pytest.raises((ConnectionError, RequestError)):
        await running
    async with open_editor(tmp_path) as (editor, _):
        await editor.connection.load_session(cwd=str(note.parent), session_id=session, mcp_servers=[])
        assert {call["status"] for call in editor.calls().values()} == {"completed", "failed"}
        assert (await editor.prompt(session, "say Continued.")).stop_reason == "end_turn"
    assert note.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_sessions_without_a_prompt_do_not_pile_up(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "saved")
    for name in ("old", "new"):
        store.write(SessionInfo(id=name, cwd="/"), save([]))
    old = tmp_path / "saved" / "old.session"
    old.write_bytes(re.sub(rb'"updated":"[^"]*"', b'"updated":"2020-01-01T00:00:00"', old.read_bytes()))
    assert store.list() == []
    assert [path.name for path in old.parent.iterdir()] == ["new.session"]


async def test_a_long_list_of_sessions_has_pages(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "state" / "saved")
    for number in range(60):
        store.write(SessionInfo(id=f"s{number}", cwd=str(tmp_path), title="t"), save([]))
    async with open_editor(tmp_path) as (editor, _):
        first = await editor.connection.list_sessions()
        second = await editor.connection.list_sessions(cursor=first.next_cursor)
        assert (len(first.sessions), len(second.sessions), second.next_cursor) == (50, 10, None)
        assert len({info.session_id for info in (*first.sessions, *second.sessions)}) == 60
        for cursor in ("x", "9" * 5000):
            with pytest.raises(RequestError, match="not a cursor"):
                await editor.connection.list_sessions(cursor=cursor)


# ---- what can be sent and chosen


async def test_every_kind_of_content_reaches_the_model(tmp_path: Path) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
    content = [
        text("say Seen."),
        ImageContentBlock(type="image", data=data, mime_type="image/png"),
        ResourceContentBlock(type="resource_link", name="main.py", uri="file:///work/my%20files/main.py#L3"),
        EmbeddedResourceContentBlock(
            type="resource", resource=TextResourceContents(uri="file:///work/notes.md", text="remember the milk")
        ),
        EmbeddedResourceContentBlock(
            type="resource", resource=BlobResourceContents(uri="file:///work/a.png", blob=data, mime_type="image/png")
        ),
    ]
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, *content)
        assert editor.reply_text == "Seen."
        await editor.prompt(session, ResourceContentBlock(type="resource_link", name="odd", uri="https://[odd"))
        with pytest.raises(RequestError, match="not valid base64"):
            await editor.prompt(session, ImageContentBlock(type="image", data="!", mime_type="image/png"))
        binary = BlobResourceContents(uri="file:///work/a.bin", blob="AAAA")
        with pytest.raises(RequestError, match=r"the attachment 'a\.bin' cannot be sent"):
            await editor.prompt(session, EmbeddedResourceContentBlock(type="resource", resource=binary))
    saved = (tmp_path / "state" / "saved" / f"{session}.session").read_text(encoding="utf-8")
    for words in ("[main.py](/work/my files/main.py#L3)", "[odd](https://[odd)", "remember the milk", "a.png", data):
        assert words in saved


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


async def test_models_and_effort_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "user" / "config.toml").write_text('[aliases]\nfast = "simulator:openai"\n', encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        response = await editor.connection.set_config_option(session_id=session, config_id="model", value="fast")
        assert response is not None
        chosen = {option.id: option.current_value for option in response.config_options}
        assert str(chosen["model"]).startswith("simulator:openai")
        assert "fast" in [option.value for option in response.config_options[1].options]
        await editor.prompt(session, "/tools")
        assert "`Read`" not in editor.reply_text  # the tools have the names of another coding agent
        await editor.connection.set_config_option(session_id=session, config_id="effort", value="high")
        await editor.prompt(session, "/model simulator:gemini")
        assert "simulator:gemini" in editor.reply_text
        assert editor.of("config_option_update")[0]["configOptions"][2]["currentValue"] == "high"
        with pytest.raises(RequestError, match="unknown effort 'huge'"):
            await editor.connection.set_config_option(session_id=session, config_id="effort", value="huge")
        with pytest.raises(RequestError, match="neither an alias nor PROVIDER:MODEL"):
            await editor.prompt(session, "/model nonsense")
        with pytest.raises(RequestError, match="unknown mode 'nope'"):
            await editor.connection.set_session_mode(session_id=session, mode_id="nope")


QUESTION = json.dumps(
    {
        "questions": [
            {
                "question": "Which database?",
                "header": "Database",
                "multiSelect": False,
                "options": [{"label": "SQLite", "description": "small"}, {"label": "Postgres", "description": "big"}],
            }
        ]
    }
)


async def test_questions_of_the_model_are_choices(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: "1"
        await editor.prompt(session, f"call AskUserQuestion {QUESTION}\nthen say Thanks.")
        assert editor.requests[0]["call"]["title"] == "Which database?"
        assert "Postgres" in json.dumps(editor.calls())
        editor.answer = lambda request: "decline"
        await editor.prompt(session, f"call AskUserQuestion {QUESTION}\nthen say Well.")
        assert [call["status"] for call in editor.calls().values()] == ["failed"]


async def test_questions_of_the_model_are_a_form_where_the_editor_has_forms(tmp_path: Path) -> None:
    async with open_editor(tmp_path, capabilities=WITH_FORMS) as (editor, session):
        editor.form = {"1": "SQLite"}
        await editor.prompt(session, f"call AskUserQuestion {QUESTION}\nthen say Thanks.")
        assert editor.requests == []
        assert "SQLite" in json.dumps(editor.calls())
        editor.form = ["SQLite"]
        await editor.prompt(session, f"call AskUserQuestion {QUESTION}\nthen say Well.")
        assert "its answer has an unexpected structure" in json.dumps(editor.calls())


async def test_what_the_user_should_know_is_told_with_the_first_prompt(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "toolglot.toml").write_text('tools = ["own_tools"]\n', encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        await call_agent(editor, "session/close", {"sessionId": session})
        params = {"cwd": str(tmp_path / "work"), "mcpServers": [], "additionalDirectories": [str(tmp_path)]}
        session = (await call_agent(editor, "session/new", params))["sessionId"]
        await editor.prompt(session, "say Hello.")
        assert "ignoring tools in" in editor.thoughts
        assert "run `toolglot trust" in editor.thoughts
        assert "additional directories are not supported" in editor.thoughts
        await editor.prompt(session, "say Hello.")
        assert editor.thoughts == ""


async def test_output_of_a_command_is_shown_while_it_runs(tmp_path: Path) -> None:
    command = json.dumps({"command": "echo first; echo second", "description": "Print"})
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, f"call Bash {command}")
    contents = [update["content"][0]["content"]["text"] for update in editor.of("tool_call_update") if "content" in update]
    assert contents[-1] == "```\nfirst\nsecond\n```"
    assert [request["call"]["title"] for request in editor.requests] == ["`echo first; echo second`"]


async def test_calls_with_equal_ids_are_different_calls() -> None:
    updates: list[Any] = []

    async def send(update: Any) -> None:
        updates.append(update)

    async def read_buffer(path: str) -> None:
        return None

    presenter = RunPresenter(send, lambda call: None, lambda call: call, FileWatch(lambda call: None, read_buffer), "/")
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
    presenter = RunPresenter(send, lambda call: None, lambda call: call, FileWatch(lambda call: None, read_buffer), "/")
    await presenter.replay([assistant(calls[:2]), tool_results(*results[:2]), assistant(calls[2]), tool_results(results[2])])
    inputs = {update.tool_call_id: update.raw_input["at"] for update in updates if getattr(update, "raw_input", None)}
    outputs = {
        update.tool_call_id: update.content[0].content.text.strip("`\n") for update in updates if update.status == "completed"
    }
    assert {inputs[id]: text for id, text in outputs.items()} == {number: f"seen {number}" for number in range(3)}


def test_a_preview_is_split_into_hunks() -> None:
    preview = "update a.py\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-- old\n+++ new\n same\n\\ No newline at end of file\n"
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
        ("multi_edit", {"path": "a", "edits": [{"old": "x", "new": "y"}, {"old": "z", "new": "w"}]}, [("x", "y"), ("z", "w")]),
        ("multi_edit", {"path": "a", "edits": [1, {"new": 2}]}, []),
        ("patch", {"text": "…"}, []),
    ],
)
def test_a_saved_call_shows_what_it_replaced(name: str, arguments: Fields, texts: list[tuple[str | None, str]]) -> None:
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


async def test_the_context_names_the_instructions(tmp_path: Path) -> None:
    (tmp_path / "user" / "AGENTS.md").write_text("Answer in Latin.", encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "/context")
    assert re.search(rf"^- instructions: \d from {re.escape(str(tmp_path))}/user/AGENTS.md$", editor.reply_text, re.MULTILINE)


# ---- MCP servers


def scripted_server(directory: Path) -> McpServerStdio:
    script = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
    return McpServerStdio(name="demo", command=sys.executable, args=[str(script), str(directory)], env=[])


async def test_the_editors_mcp_servers_can_be_used(tmp_path: Path) -> None:
    broken = McpServerStdio(name="broken", command=str(tmp_path / "absent"), args=[], env=[])
    old = SseMcpServer(name="old", type="sse", url="https://example.com/sse", headers=[])
    servers = [scripted_server(tmp_path), broken, old]
    async with open_editor(tmp_path, capabilities=WITH_FORMS, servers=servers) as (editor, session):
        await editor.prompt(session, 'call mcp__demo__echo {"text": "hello"}\nthen say Echoed.')
        assert editor.reply_text == "Echoed."
        assert editor.thoughts.count("MCP server broken cannot be used: ") == 1
        assert "the MCP server old is not used: its transport (sse) is not supported" in editor.thoughts
        [call] = editor.calls().values()
        assert (call["status"], call["content"][0]["content"]["text"]) == ("completed", "```\nhello\n```")
        editor.form = {"name": "Ada", "color": "red"}
        await editor.prompt(session, "call mcp__demo__ask {}\nthen say Thanks.")
        assert editor.forms[0]["mode"].requested_schema.required == ["name"]
        assert "Ada" in json.dumps(editor.calls())
        editor.form = None
        await editor.prompt(session, "call mcp__demo__ask {}\nthen say Fine.")
        assert "decline" in json.dumps(editor.calls())
        await editor.prompt(session, "/tools")
        assert "`mcp__demo__echo`" in editor.reply_text


async def test_configured_mcp_servers_can_be_used(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
    settings = f"[mcp.servers.own]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(script), str(tmp_path)])}\n"
    (tmp_path / "user" / "config.toml").write_text(settings, encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        await editor.connection.set_session_mode(session_id=session, mode_id="read-only")
        await editor.prompt(session, "/tools")
        assert "`Read`" in editor.reply_text
        assert (
            "mcp__own" not in editor.reply_text
        )  # they came after the mode was chosen; a server's word does not make them readers
        await editor.connection.set_session_mode(session_id=session, mode_id="ask")
        await editor.prompt(session, 'call mcp__own__echo {"text": "hello"}\nthen say Echoed.')
        assert editor.reply_text.endswith("Echoed.")
        [request] = editor.requests
        assert request["options"] == {"yes": "allow_once", "always": "allow_always", "no": "reject_once"}


@needs_sandbox
async def test_an_editors_mcp_server_starts_outside_the_workspace(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
    work, outside = tmp_path / "work", tmp_path / "outside"
    for directory in (work, outside):
        directory.mkdir()
    trace = f"open({str(outside / 'escaped')!r}, 'w')\n"
    (work / "json.py").write_text(trace)
    (work / "own.py").write_text(f"try:\n    {trace}except OSError:\n    pass\n{script.read_text()}")
    python, log = getattr(sys, "_base_executable", sys.executable), str(outside)
    module = EnvVariable(name="PYTHONPATH", value=str(script.parent))
    servers = [
        McpServerStdio(name="module", command=python, args=["-m", "scripted_server", log], env=[module]),
        McpServerStdio(name="inside", command=python, args=["-I", str(work / "own.py"), str(work)], env=[]),
    ]
    async with open_editor(tmp_path, servers=servers) as (editor, session):
        await editor.prompt(session, "say Hello.")
        assert "the MCP server inside runs in the sandbox: its argument " in editor.thoughts
        await editor.prompt(session, "/tools")
        assert "`mcp__module__echo`" in editor.reply_text
        assert "`mcp__inside__echo`" in editor.reply_text
    assert not (outside / "escaped").exists()


async def test_prompts_and_questions_of_mcp_servers(tmp_path: Path) -> None:
    async with open_editor(tmp_path, servers=[scripted_server(tmp_path)]) as (editor, session):
        await editor.prompt(session, "call mcp__demo__ask {}\nthen say Fine.")
        assert "this editor does not support forms" in editor.thoughts
        assert "decline" in json.dumps(editor.calls())
        assert editor.commands == ["context", "tools", "model", "demo:explain"]
        await editor.prompt(session, "call mcp__demo__ask_url {}\nthen say Done.")
        request = editor.requests[-1]
        assert request["options"] == {"yes": "allow_once", "no": "reject_once"}
        assert "https://" in json.dumps(request["call"]["content"])
        assert {call["status"] for call in editor.calls().values()} == {"completed"}
        await editor.prompt(session, "/demo:explain gravity", text("[apple.txt]\nIt falls."))
        with pytest.raises(RequestError, match="the prompt needs 'topic': /demo:explain topic"):
            await editor.prompt(session, "/demo:explain")
        with pytest.raises(RequestError, match="unknown fault"):
            await editor.prompt(session, "/demo:explain failures", text("fault none"))
    saved = (tmp_path / "state" / "saved" / f"{session}.session").read_text(encoding="utf-8")
    assert "Explain gravity." in saved
    assert "It falls." in saved
    assert "failures" not in saved  # nothing was answered


# ---- what goes wrong


async def test_wrong_requests_are_answered_with_a_sentence(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        wrong: list[tuple[str, Fields, str]] = [
            ("session/new", {"cwd": "relative", "mcpServers": []}, "must be an absolute path"),
            ("session/new", {"cwd": str(tmp_path / "absent"), "mcpServers": []}, "there is no directory"),
            ("session/new", {}, "invalid parameters for session/new: cwd: Field required"),
            ("session/prompt", {"sessionId": "x", "prompt": []}, "no session 'x' is open"),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "nonsense"}]}, "invalid parameters"),
            ("session/prompt", {"sessionId": session, "prompt": []}, "the prompt is empty"),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": " "}]}, "the prompt is empty"),
            ("session/set_config_option", {"sessionId": session, "configId": "x", "value": "y"}, "unknown session option"),
            ("authenticate", {"methodId": "x"}, "unknown authentication method"),
            ("no/such/method", {}, "Method not found"),
        ]
        for method, params, message in wrong:
            with pytest.raises(RequestError, match=message) as error:
                await call_agent(editor, method, params)
            assert "\n" not in str(error.value)
        assert (await editor.prompt(session, "say Fine.")).stop_reason == "end_turn"
        assert [update["title"] for update in editor.of("session_info_update")] == ["say Fine."]


async def test_messages_without_sense_do_not_end_the_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = os.pipe(), os.pipe()
    agent = EditorAgent(
        lambda options: open_agent(Flags(model="simulator"), options), SessionStore(tmp_path), reader[0], writer[1]
    )
    serving = asyncio.create_task(agent.serve())
    nonsense: list[Any] = [
        *("nonsense", 1, None, [], {}, {"id": {}}, {"id": 0, "error": "x"}, {"id": 0, "method": 5}, {"method": {}}),
        *({"id": [], "method": "initialize"}, {"id": 0, "result": 1}, {"method": "session/cancel"}, {"method": "unknown"}),
        *({"id": 1, "method": "session/prompt", "params": [1]}, {"id": 2, "method": "_unknown", "params": {}}),
    ]
    request = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": 1}}
    os.write(reader[1], json_lines(*map(json.dumps, nonsense), request).encode())
    answers: list[Fields] = []
    with os.fdopen(writer[0], "rb") as lines:
        while not any("result" in answer for answer in answers):
            answers.append(json.loads(await asyncio.to_thread(lines.readline)))
        os.close(reader[1])
        await serving
    assert answers[-1]["id"] == 9
    assert {answer["error"]["code"] for answer in answers[:-1]} == {-32600, -32601, -32602}
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "ignored the notification unknown: Method not found" in caplog.text
    for descriptor in (reader[0], writer[1]):
        os.close(descriptor)


async def test_an_answer_without_sense_is_no_approval(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: "something else"
        await editor.prompt(session, EDIT)
        assert note.read_text(encoding="utf-8") == "one\ntwo\nthree\n"

        def fail(request: Fields) -> str:
            raise RequestError.method_not_found("session/request_permission")

        editor.answer = fail
        await editor.prompt(session, EDIT)
        assert "the editor could not ask the user" in json.dumps(editor.calls())
    assert note.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_a_missing_key_is_told_when_a_session_starts(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no key for Anthropic Messages: set ANTHROPIC_API_KEY") as error:
        async with open_editor(tmp_path, model="anthropic:claude-sonnet-5"):
            pass
    assert error.value.code == -32000


def test_stdout_has_nothing_but_the_protocol(tmp_path: Path) -> None:
    code = 'import os\ndef shout():\n    """Shout."""\n    print("LOUD")\n    os.write(1, b"LOUDER")\n    return "done"\n'
    (tmp_path / "noisy.py").write_text(code, encoding="utf-8")
    lines = json_lines(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}},
        "this is not JSON",
        [1, 2],
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
    )
    words = ("-m", "simulator", "--tools", "noisy:shout", "--no-builtin")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolglot.cli.main", "acp", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines.encode())
    process.stdin.flush()
    messages: list[Fields] = []
    while not messages or messages[-1].get("id") != 2:
        messages.append(json.loads(process.stdout.readline()))
    assert [message["result"]["protocolVersion"] for message in messages if message.get("id") == 1] == [1]
    assert {message["error"]["code"] for message in messages if "error" in message} == {-32700, -32600}
    prompt = {"sessionId": messages[-1]["result"]["sessionId"], "prompt": [{"type": "text", "text": "call shout {}"}]}
    request = json_lines({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})
    process.stdin.write(request.encode())
    process.stdin.flush()
    while messages[-1].get("id") != 3:
        messages.append(json.loads(process.stdout.readline()))
    _, errors = process.communicate()
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    assert "done" in json.dumps(messages)
    assert "LOUD" in errors.decode()
    assert process.returncode == 0


def test_an_editor_that_stops_reading_keeps_no_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "toolglot.cli.main", "acp", "-m", "simulator", "--no-builtin"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": 1, "method": "m" * 1_000_000}  # its answer names the method: more than a pipe holds
    process.stdin.write(json_lines(request).encode())
    assert process.stdout.read(1) == b"{"
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_the_command_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolglot.acp.agent", raising=False)
    for name in [name for name in sys.modules if name == "acp" or name.startswith("acp.")]:
        monkeypatch.setitem(sys.modules, name, None)
    outcome = run_cli("acp")
    assert (outcome.code, outcome.out) == (2, "")
    assert "pip install 'toolglot[acp]'" in outcome.err
