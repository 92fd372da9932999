"""Sessions: listed, saved, resumed, shared by two editors."""

import asyncio
import re
from pathlib import Path

import pytest
from editor_kit import EDIT, call_agent, open_editor
from msgspec.structs import replace

from acp import RequestError
from toolglot.acp.session_store import SessionInfo, SessionStore
from toolglot.values.messages import save

pytestmark = pytest.mark.usefixtures("isolated_home")


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
        loaded = await editor.connection.load_session(
            cwd=str(note.parent), session_id=session, mcp_servers=[]
        )
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
        for id, message in (
            ("damaged", "is damaged"),
            ("../../etc/passwd", "is not a session id"),
            ("unknown", "there is no"),
        ):
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
        # by another editor, while this one is idle
        SessionStore(tmp_path / "state" / "saved").delete(session)
    assert [*(tmp_path / "state" / "saved").iterdir()] == []


async def test_a_session_that_cannot_be_loaded_again_stays_open(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        with pytest.raises(RequestError, match="there is no directory"):
            await editor.connection.load_session(
                cwd=str(tmp_path / "absent"), session_id=session, mcp_servers=[]
            )
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
