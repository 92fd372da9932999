"""MCP servers of the editor, and those that are configured."""

import json
import sys
from pathlib import Path

import pytest
from acp.schema import (
    EnvVariable,
    McpServerStdio,
    SseMcpServer,
)
from editor_kit import WITH_FORMS, open_editor, text

from acp import RequestError
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_sandbox

pytestmark = pytest.mark.usefixtures("isolated_home")
needs_sandbox = pytest.mark.skipif(probe_sandbox().level is SandboxLevel.NONE, reason="no sandbox works here")


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
    settings = (
        f"[mcp.servers.own]\ncommand = {json.dumps(sys.executable)}\nargs = "
        f"{json.dumps([str(script), str(tmp_path)])}\n"
    )
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
