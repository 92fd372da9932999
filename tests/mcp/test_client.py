"""MCP servers as tools: both generations of the protocol, everything that results can be, and everything that
can go wrong.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.mcp.client_kit import ALLOW_ALL, SCRIPT, call, eventually, lines, run, server

from toolglot import Agent, Allow, ApprovalRequest, Deny, Media, Text, ToolConfig
from toolglot.errors import UnknownName, UsageError
from toolglot.mcp import McpServer, McpServers
from toolglot.mcp.client import stdio as stdio_module
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import Approve
from toolglot.values.events import ToolOutcome, ToolProgress
from toolglot.values.messages import ToolCall


@pytest.fixture(scope="module", params=["session", "modern"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    """One server of each generation for all tests that do not kill it."""
    directory = tmp_path_factory.mktemp("server")
    with McpServers({"s": server(directory, request.param)}) as connected:
        yield connected


# ---- what there is


def test_a_server_is_described_with_its_problems(servers: McpServers) -> None:
    (status,) = servers.status()
    assert status.state == "ready"
    assert status.protocol in ("2025-11-25", "2026-07-28")
    assert status.instructions == "Be kind."
    assert status.tool_count == len(servers.tools) == 24
    assert status.problems.keys() == {"broken_schema", "no_schema"}
    assert "not a JSON Schema" in status.problems["broken_schema"]


def test_tools_keep_their_names_and_hints(servers: McpServers) -> None:
    tools = {servers.origin(tool.name): tool for tool in servers}
    dotted = tools["s", "admin.tools.list"]
    assert dotted.name.startswith("mcp__s__admin_tools_list_")
    assert len(dotted.name) <= 64
    assert {"mcp", "mcp:s"} <= dotted.tags
    assert tools["s", "echo"].effects == tools["s", "write"].effects == {"read", "write", "network"}
    assert tools["s", "die_once"].idempotent
    assert servers.origin("mcp__s__nothing") is None


def test_prompts_and_resources(servers: McpServers) -> None:
    assert [(prompt.name, prompt.arguments[0].required) for prompt in servers.prompts] == [("explain", True)]
    assert [(item.uri, item.is_template) for item in servers.resources] == [
        ("note://1", False),
        ("note://{id}", True),
    ]
    (message,) = asyncio.run(servers.get_prompt("s", "explain", {"topic": "tides"}))
    assert (message.role, message.text) == ("user", "Explain tides.")
    assert asyncio.run(servers.read_resource("s", "note://1")) == (Text("[note://1]\nthe note"),)
    with pytest.raises(UnknownName, match="MCP server"):
        asyncio.run(servers.read_resource("t", "note://1"))


def test_allow_and_deny_choose_tools(tmp_path: Path) -> None:
    chosen = server(tmp_path, allow=("e*", "write"), deny=("env*",), defer=True, trust=True)
    with McpServers({"s": chosen, "off": replace(chosen, enabled=False)}) as servers:
        assert [tool.name for tool in servers] == ["mcp__s__echo", "mcp__s__write"]
        assert all(tool.definition.deferred and tool.approval is False for tool in servers)
        assert [status.state for status in servers.status()] == ["ready", "disabled"]
    assert servers.status()[0].state == "stopped"


# ---- calls and their results


def test_a_call_passes_every_argument(servers: McpServers) -> None:
    assert call(servers, "echo", text="hé\n").text == "hé\n"
    assert (
        call(servers, "context", context="c", self=1, arguments=[2]).text
        == '{"arguments": [2], "context": "c", "self": 1}'
    )
    assert call(servers, "any_of", c=1).error_kind == "validation", (
        "the whole schema is enforced, also what providers ignore"
    )


def test_half_of_a_character_does_not_lose_a_result(servers: McpServers) -> None:
    assert call(servers, "echo", text="\U0001f600").text == "\U0001f600"
    assert call(servers, "half").text == "half \ufffd \U0001f600"


def test_a_result_can_be_anything(servers: McpServers) -> None:
    content = call(servers, "media").content
    assert content[0] == Text("one")
    image, audio, inside, pdf, link, broken = content[1:]
    assert isinstance(image, Media)
    assert (image.kind, image.media_type) == ("image", "image/png"), "the bytes count, not the label"
    assert isinstance(audio, Media)
    assert audio.media_type == "audio/wav"
    assert inside == Text("\n[file:///a.txt]\ninside")
    assert isinstance(pdf, Media)
    assert (pdf.kind, pdf.media_type, pdf.name) == ("file", "application/pdf", "b.pdf")
    assert link == Text("\n[resource c: file:///c.txt (5 bytes)] another")
    assert isinstance(broken, Text)
    assert "not base64" in broken.text
    data = call(servers, "data")
    assert (data.data, data.text) == ({"sum": 3}, '{"sum":3}')


def test_wrong_results_lose_only_what_is_wrong(servers: McpServers) -> None:
    # A pattern for which Python's regular expressions would take days, with every thread stopped.
    wrong = call(servers, "wrong_data")
    assert (wrong.data, wrong.text) == ({"sum": f"{'a' * 40}!"}, "the text")
    assert call(servers, "hologram").text == '{"type":"hologram","depth":3}\nand text'


def test_errors_of_a_server_reach_the_model(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path, env={"KEY": "SECRET-VALUE-1"})}) as servers:
        failed = call(servers, "fail")
        assert (failed.is_error, failed.error_code, failed.text) == (True, "mcp_error", "it went wrong")
        refused = call(servers, "refuse")
        assert refused.error_kind == "validation"
        assert refused.text == "s: no such value; the key is [hidden]"


def test_progress_is_reported(servers: McpServers) -> None:
    events: list[Any] = []
    asyncio.run(run(servers, "progress", emit=events.append))
    reports = [event.text for event in events if isinstance(event, ToolProgress)]
    assert reports[0] == "1/3 step 1"
    assert reports[-1] == "3/3 step 3"


def test_every_tool_asks_whatever_its_server_says(servers: McpServers) -> None:
    async def outcome(tool: str, approve: Approve | None, config: ToolConfig) -> ToolOutcome:
        return await ToolExecutor(ToolRegistry(servers), config, approve=approve).run(ToolCall("1", tool, {}))

    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.reason)
        return True

    default = ToolConfig()
    for name in ("mcp__s__echo", "mcp__s__write"):  # the first one's hint says that it only reads
        refused = asyncio.run(outcome(name, None, default)).result
        assert refused.error_code == "approval_required"
        assert (
            "a rule in ToolConfig(approve=[…]), or McpServer(trust=True) for a server that you trust"
            in refused.text
        )
        assert asyncio.run(outcome(name, approve, default)).result.text == "nothing"
    assert asked == ["it can change files and use the network, and no rule allows it"] * 2
    by_rule = ToolConfig(approve=["mcp__s__*"], deny=["mcp__s__echo"])
    assert asyncio.run(outcome("mcp__s__write", None, by_rule)).result.text == "nothing"
    assert asyncio.run(outcome("mcp__s__echo", None, by_rule)).result.error_code == "denied"


# ---- questions of a server


def test_a_form_goes_through_the_approval_path(servers: McpServers) -> None:
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Allow:
        requests.append(request)
        return Allow(arguments={"name": "Ada", "age": "36"} if len(requests) > 1 else {})

    result = call(servers, "ask", approve)
    assert '"action": "accept"' in result.text
    assert '{"age": 36, "name": "Ada"}' in result.text
    first, second = requests
    assert first.reason == "s asks: Who are you?"
    assert first.each_time
    assert first.arguments == {"age": 30}
    assert first.form is not None
    assert first.preview.splitlines() == [
        "name (string, required): Your name",
        "age (integer, at least 18, default 30)",
        "color (one of red, green): what you like",
    ]
    assert "is not valid ($.name: is missing)" in second.reason


def deny(request: ApprovalRequest) -> Deny:
    return Deny("busy")


@pytest.mark.parametrize("approve", [None, deny])
def test_nobody_to_ask_and_no_both_decline(servers: McpServers, approve: Approve | None) -> None:
    result = call(servers, "ask", approve)
    assert '"action": "decline"' in result.text
    assert "asked for more information, which was declined" in result.text


def test_an_address_is_shown_and_never_opened(servers: McpServers) -> None:
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    assert '"action": "accept"' in call(servers, "ask_url", approve).text
    assert requests[0].reason == "s asks you to open a page at pay.example in your browser"
    assert requests[0].preview == "Pay first.\nhttps://pay.example/1"
    assert requests[0].form is None


def agent(servers: McpServers, approve: Approve | None = None) -> Agent:
    return Agent("simulator:anthropic", tools=servers, approve=approve, config=ALLOW_ALL)


ASK = "call mcp__s__ask {}\nthen say done"


def test_later_pauses_the_run_and_the_call_goes_on(servers: McpServers) -> None:
    """The session's call stays open in the meantime, and another event loop can answer."""
    paused = agent(servers, lambda request: "later")
    result = asyncio.run(paused.run(ASK))
    assert result.stop == "approval"
    (request,) = result.requests
    resumed = asyncio.run(paused.resume({request.id: Allow(arguments={"name": "Ada"})}))
    assert resumed.text == "done"
    (outcome,) = resumed.outcomes
    assert '{"age": 30, "name": "Ada"}' in outcome.result.text


def test_a_question_that_nobody_answers_is_cancelled(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path)}) as servers:
        paused = agent(servers, lambda request: "later")
        assert asyncio.run(paused.run(ASK)).stop == "approval"
        asyncio.run(paused.run("never mind"))
        asyncio.run(eventually(lambda: lines(tmp_path, "cancelled")))


# ---- what can go wrong


def test_cancelling_a_call_leaves_the_others_alone(servers: McpServers, tmp_path: Path) -> None:
    async def main(connected: McpServers) -> None:
        hanging = asyncio.create_task(run(connected, "hang"))
        echo = asyncio.create_task(run(connected, "echo", text="still here"))
        assert (await echo).text == "still here"
        hanging.cancel()
        with suppress(asyncio.CancelledError):
            await hanging
        assert (await run(connected, "echo", text="and now")).text == "and now"
        await eventually(lambda: lines(tmp_path, "cancelled"))

    with McpServers({"s": server(tmp_path)}) as connected:
        asyncio.run(main(connected))


def test_a_call_that_hangs_ends_in_time(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path, timeout=0.2)}) as servers:
        result = call(servers, "hang")
        assert result.error_kind == "timeout"
        assert (
            "s did not answer within 0.2 s, and the call was cancelled. It may have had effects."
            in result.text
        )
        assert call(servers, "echo", text="next").text == "next"
        asyncio.run(eventually(lambda: lines(tmp_path, "cancelled")))


def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    """A call that may have run is not repeated, unless the server says that it does no harm."""
    with McpServers({"s": server(tmp_path)}) as servers:
        result = call(servers, "die")
        assert result.error_kind == "unknown_outcome"
        assert "may or may not have run" in result.text
        assert call(servers, "echo", text="again").text == "again"
        assert call(servers, "die_once").text == "alive"
    calls = [line.split()[0] for line in lines(tmp_path, "calls")]
    assert calls == ["die", "echo", "die_once", "die_once"]
    assert len(lines(tmp_path, "starts")) == 3


def test_one_bad_server_does_not_hurt_the_others(tmp_path: Path) -> None:
    def python(code: str) -> McpServer:
        return McpServer(command=sys.executable, args=("-I", "-S", "-c", code), env={"KEY": "hush-hush"})

    def launch(name: str, server: McpServer) -> McpServer:
        if name == "refused":
            raise UsageError("there is no sandbox")
        return server

    all_servers = {
        "good": server(tmp_path),
        "missing": McpServer(command="no-such-program"),
        "refused": python("pass"),
        "dies": python("import sys; print('hello'); sys.exit('the key hush-hush is wrong')"),
        "silent": replace(python("import time; time.sleep(60)"), start_timeout=0.25),
        "nobody": McpServer(url="http://127.0.0.1:9/mcp"),
    }
    with McpServers(all_servers, launch=launch) as servers:
        errors = {status.name: status.error for status in servers.status()}
        assert call(servers, "mcp__good__echo", text="fine").text == "fine"
    assert errors.pop("good") == ""
    assert errors.pop("nobody").startswith("http://127.0.0.1:9/mcp cannot be reached")
    assert errors == {
        "missing": "'no-such-program' cannot be started: there is no such program",
        "refused": "there is no sandbox",
        "dies": "it exited with code 1; last output: the key [hidden] is wrong",
        "silent": "it did not answer within 0.25 s",
    }


def test_floods_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_module, "MAX_MESSAGE", 100_000)
    with McpServers({"s": server(tmp_path)}) as servers:
        assert call(servers, "flood").text == "survived"
        huge = call(servers, "huge")
        assert huge.is_error
        assert "its answer has 0 MB" in huge.text
        assert call(servers, "echo", text="fine").text == "fine"


def test_changes_of_tools_reach_the_conversation(tmp_path: Path) -> None:
    notes: list[str] = []
    with McpServers({"s": server(tmp_path, allow=("change", "extra"))}, on_change=notes.append) as servers:
        watched = agent(servers)
        servers.watch(watched)
        assert watched.run_sync("call mcp__s__change {}\nthen say one").text == "one"
        asyncio.run(eventually(lambda: "mcp__s__extra" in watched.tools))
        result = watched.run_sync("call mcp__s__extra {}")
        assert result.outcomes[0].result.text == "nothing"
        assert notes == ["s: 1 tool added or changed"]


def test_a_server_ends_with_its_children_and_sees_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    with McpServers({"s": server(tmp_path, env={"MINE": "1"})}) as servers:
        variables = call(servers, "environment").text.split()
        child = int(call(servers, "child").text)
        os.kill(child, 0)
    assert "MINE" in variables
    assert "OPENAI_API_KEY" not in variables
    assert lines(tmp_path, "ends"), "it could end by itself"

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    asyncio.run(eventually(is_gone))


def test_a_server_can_be_restarted_and_closed_ones_say_so(tmp_path: Path) -> None:
    servers = McpServers({"s": server(tmp_path)})
    with pytest.raises(UsageError, match="not been started"):
        servers.wait_ready()
    with servers:
        tool = servers.tools[0]
        servers.restart("s")
        assert servers.status()[0].state == "ready"
        assert servers.tools[0] is tool, "what has not changed is not told again"
        with pytest.raises(UnknownName):
            servers.restart("t")
    assert len(lines(tmp_path, "starts")) == 2
    assert "s is closed; the call did not run." in call(servers, "echo").text
    with pytest.raises(UsageError, match="closed"):
        servers.start()


def test_changes_after_a_restart_are_told(tmp_path: Path) -> None:
    changes: list[str] = []
    with McpServers({"s": server(tmp_path, allow=("echo", "extra"))}, on_change=changes.append) as servers:
        assert changes == []
        (tmp_path / "changed").touch()
        servers.restart("s")
        assert changes == ["s: 1 tool added or changed"]


def test_a_server_that_recovers_is_told_as_such(tmp_path: Path) -> None:
    changes: list[str] = []
    program = tmp_path / "server.py"
    broken = McpServer(
        command=sys.executable, args=("-I", "-S", str(program), str(tmp_path)), allow=("echo",)
    )
    with McpServers({"s": broken}, on_change=changes.append) as servers:
        assert (len(changes), servers.status()[0].state) == (1, "failed")
        program.write_bytes(SCRIPT.read_bytes())
        servers.restart("s")
        assert (changes[1:], servers.status()[0].state, servers.status()[0].error) == (
            ["s: 1 tool added or changed"],
            "ready",
            "",
        )


def test_the_last_words_are_those_of_the_last_process(tmp_path: Path) -> None:
    code = (
        f"import os, sys\nif not os.path.exists({str(tmp_path / 'x')!r}): sys.exit('the first "
        "time')\nsys.exit(4)"
    )
    with McpServers({"s": McpServer(command=sys.executable, args=("-c", code))}) as servers:
        assert servers.status()[0].error == "it exited with code 1; last output: the first time"
        (tmp_path / "x").touch()
        servers.restart("s")
        assert servers.status()[0].error == "it exited with code 4"


def test_a_restart_does_not_repeat_a_start(tmp_path: Path) -> None:
    servers = McpServers({"s": server(tmp_path)})
    servers.start()
    try:
        servers.restart("s")
        assert call(servers, "echo", text="x").text == "x"
        assert len(lines(tmp_path, "starts")) == 1
    finally:
        servers.close()


def test_the_sdk_is_only_imported_when_a_server_starts() -> None:
    code = """
import sys
sys.modules["mcp"] = sys.modules["anyio"] = None  # as if they were not installed
from toolglot.mcp import McpServer, McpServers
McpServers({})
try:
    McpServers({"s": McpServer(command="x")})
except Exception as e:
    print(f"{type(e).__name__}: {e}")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        result.stdout
        == "UsageError: MCP servers need the mcp package; install it with: pip install 'toolglot[mcp]'\n"
    )


@pytest.mark.parametrize("servers", [{"x": {"command": "y"}}, [McpServer(command="y")], ".mcp.json"])
def test_wrong_arguments_are_one_sentence(servers: Any) -> None:
    with pytest.raises(
        UsageError, match=r"^McpServers takes a dict of names to McpServer\(…\); .*load_servers\(FILE\)"
    ):
        McpServers(servers)
