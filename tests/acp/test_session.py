"""A conversation in an editor: prompts, content, models, stops."""

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextResourceContents,
)
from editor_kit import EDIT, Editor, call_agent, open_editor, text

from acp import RequestError

pytestmark = pytest.mark.usefixtures("isolated_home")


async def test_a_conversation_with_an_edit_and_an_approval(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        response = await editor.prompt(session, EDIT)
    assert response.stop_reason == "end_turn"
    assert response.usage.input_tokens > 0
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert editor.reply_text == "It is done."
    assert editor.thoughts.startswith("I read it first")
    began = editor.of("tool_call")[0]  # before its arguments are known
    assert (began["title"], began["kind"], began["status"], "rawInput" in began) == (
        "Read",
        "read",
        "pending",
        False,
    )
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


async def test_a_second_prompt_joins_the_run_and_ends_with_it(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        gate = editor.gate = asyncio.Event()
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        second = send(editor, session, "say Hurried.")
        await asyncio.sleep(0.1)
        assert not second.done()
        gate.set()
        assert [(await task).stop_reason for task in (running, second)] == ["end_turn", "end_turn"]
        assert editor.reply_text == "Hurried."
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"


async def test_what_the_run_does_not_take_runs_next_in_order(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        gate = editor.gate = asyncio.Event()
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        others = [send(editor, session, words) for words in ("/context", "say One.", "say Two.")]
        await asyncio.sleep(0.1)
        gate.set()
        assert [(await task).stop_reason for task in (running, *others)] == ["end_turn"] * 4
        said = editor.reply_text
        assert said.index("It is done.") < said.index("tokens") < said.index("One.") < said.index("Two.")


async def test_cancel_also_ends_prompts_that_wait(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        editor.answer = lambda request: None
        running = asyncio.create_task(editor.prompt(session, EDIT))
        await editor.asked.wait()
        others = [send(editor, session, words) for words in ("say One.", "/context", "say Two.")]
        await asyncio.sleep(0.1)
        await editor.connection.cancel(session_id=session)
        assert [(await task).stop_reason for task in (running, *others)] == ["cancelled"] * 4
        assert (await editor.prompt(session, "say Still here.")).stop_reason == "end_turn"
        assert editor.reply_text == "Still here."


def send(editor: Editor, session: str, words: str) -> "asyncio.Task[Any]":
    """Send a prompt, whatever runs."""
    return asyncio.create_task(editor.connection.prompt(session_id=session, prompt=[text(words)]))


async def test_why_a_run_stopped_is_told(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        assert (await editor.prompt(session, "say Half an\nstop length")).stop_reason == "max_tokens"
        assert "truncated by the length limit (generation.max_tokens)" in editor.reply_text
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


async def test_sessions_run_side_by_side(tmp_path: Path, note: Path) -> None:
    (tmp_path / "other").mkdir()
    other_note = tmp_path / "other" / "note.txt"
    other_note.write_text("two too\n", encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        other = (await editor.connection.new_session(cwd=str(other_note.parent), mcp_servers=[])).session_id
        await editor.connection.set_session_mode(session_id=other, mode_id="accept-edits")
        prompts = [editor.connection.prompt(session_id=id, prompt=[text(EDIT)]) for id in (session, other)]
        assert [response.stop_reason for response in await asyncio.gather(*prompts)] == [
            "end_turn",
            "end_turn",
        ]
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert other_note.read_text(encoding="utf-8") == "TWO too\n"
    assert len(editor.requests) == 1
    for id, file in ((session, note), (other, other_note)):
        paths = {
            location["path"]
            for update in editor.updates
            if update["session"] == id
            for location in update.get("locations", ())
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


async def test_every_kind_of_content_reaches_the_model(tmp_path: Path) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
    content = [
        text("say Seen."),
        ImageContentBlock(type="image", data=data, mime_type="image/png"),
        ResourceContentBlock(type="resource_link", name="main.py", uri="file:///work/my%20files/main.py#L3"),
        EmbeddedResourceContentBlock(
            type="resource",
            resource=TextResourceContents(uri="file:///work/notes.md", text="remember the milk"),
        ),
        EmbeddedResourceContentBlock(
            type="resource",
            resource=BlobResourceContents(uri="file:///work/a.png", blob=data, mime_type="image/png"),
        ),
    ]
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, *content)
        assert editor.reply_text == "Seen."
        await editor.prompt(
            session, ResourceContentBlock(type="resource_link", name="odd", uri="https://[odd")
        )
        with pytest.raises(RequestError, match="not valid base64"):
            await editor.prompt(session, ImageContentBlock(type="image", data="!", mime_type="image/png"))
        binary = BlobResourceContents(uri="file:///work/a.bin", blob="AAAA")
        with pytest.raises(RequestError, match=r"the attachment 'a\.bin' cannot be sent"):
            await editor.prompt(session, EmbeddedResourceContentBlock(type="resource", resource=binary))
    saved = (tmp_path / "state" / "saved" / f"{session}.session").read_text(encoding="utf-8")
    for words in (
        "[main.py](/work/my files/main.py#L3)",
        "[odd](https://[odd)",
        "remember the milk",
        "a.png",
        data,
    ):
        assert words in saved


async def test_models_and_effort_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "user" / "config.toml").write_text('[aliases]\nfast = "simulator:openai"\n', encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        response = await editor.connection.set_config_option(
            session_id=session, config_id="model", value="fast"
        )
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


async def test_the_context_names_the_instructions(tmp_path: Path) -> None:
    (tmp_path / "user" / "AGENTS.md").write_text("Answer in Latin.", encoding="utf-8")
    async with open_editor(tmp_path) as (editor, session):
        await editor.prompt(session, "/context")
    assert re.search(
        rf"^- instructions: \d from {re.escape(str(tmp_path))}/user/AGENTS.md$",
        editor.reply_text,
        re.MULTILINE,
    )
