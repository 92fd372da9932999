"""What happens when several things happen at once: threads, questions while a server dies, the end of the
program.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import pytest
from tests.mcp.client_kit import ALLOW_ALL, SCRIPT, call, eventually, lines, run, server

from toolglot import Agent, Allow, ApprovalRequest, Tool, tool
from toolglot.mcp import McpServer, McpServers
from toolglot.mcp.client.listing import MAX_ITEMS, list_all, make_tools


def test_many_threads_and_agents_use_the_same_server(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path)}) as servers:
        results: list[str] = []

        async def call_many(thread: int) -> None:
            texts = await asyncio.gather(
                *(run(servers, "echo", text=f"{thread}-{number}") for number in range(10))
            )
            results.extend(result.text for result in texts)

        threads = [threading.Thread(target=asyncio.run, args=(call_many(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(10))


def test_a_watched_agent_ends_with_the_latest_tools(tmp_path: Path) -> None:
    """Also if a server gets ready while `watch` reads what there is, or if the program removes a tool itself."""
    is_ready = threading.Event()

    class SlowServers(McpServers):
        @property
        def tools(self) -> tuple[Tool, ...]:
            capability = super().tools
            if threading.current_thread() is not threading.main_thread():
                is_ready.set()
            elif not capability:
                is_ready.wait(1)
            return capability

    servers, agent = SlowServers({"s": server(tmp_path, allow=("echo",))}), Agent("simulator")
    servers.start()
    servers.watch(agent)
    with servers:
        assert agent.view().tool_names == ("mcp__s__echo",)
    agent.remove_tools(["mcp__s__echo"])
    other = tool(name="mcp__s__other")(lambda: None)
    setattr(servers, "_connections", {"s": SimpleNamespace(tools={"other": (b"", other)})})  # noqa: B010
    servers.watch(agent)
    assert agent.view().tool_names == ("mcp__s__other",)


def test_an_agent_that_refuses_tools_hurts_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        def add_tools(self, tools: Iterable[Tool], *, replace: bool = False) -> None:
            raise ValueError("no more tools")

        def remove_tools(self, tools: Iterable[str | Tool]) -> None:
            pass

    servers = McpServers({"s": server(tmp_path, allow=("echo",))})
    refusing = Refusing()
    agent = Agent("simulator")
    servers.watch(refusing)
    servers.watch(agent)
    with servers:
        assert (servers.status()[0].state, agent.view().tool_names) == ("ready", ("mcp__s__echo",))
        with pytest.raises(ValueError, match="no more tools"):
            servers.watch(refusing)
    assert "an agent cannot use the MCP servers' tools: ValueError('no more tools')" in caplog.text


def test_a_server_may_die_while_the_user_thinks(tmp_path: Path) -> None:
    """The answer to the first question is not taken for an answer to the second."""
    questions: list[str] = []

    async def approve(request: ApprovalRequest) -> Allow:
        questions.append(request.id)
        if len(questions) == 1:
            os.kill(int(lines(tmp_path, "pid")[0]), signal.SIGKILL)
            await eventually(lambda: len(lines(tmp_path, "starts")) == 2)
        return Allow(arguments={"name": f"answer {len(questions)}"})

    with McpServers({"s": server(tmp_path)}) as servers:
        result = call(servers, "ask", approve)
    assert "answer 2" in result.text
    assert questions == ["c1-question-1", "c1-question-2"]


def test_a_call_ends_if_the_function_that_decides_fails(tmp_path: Path) -> None:
    def approve(request: ApprovalRequest) -> bool:
        raise RuntimeError("broken")

    with McpServers({"s": server(tmp_path)}) as servers:
        assert "broken" in call(servers, "ask", approve).text
        asyncio.run(eventually(lambda: lines(tmp_path, "cancelled")))


def test_a_server_cannot_ask_without_end(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path)}) as servers:
        result = call(servers, "nag", lambda request: True)
    assert result.text == "21 answers\n[s asked for more information too often; the question was declined]"


def test_an_open_question_is_not_asked_in_another_process(tmp_path: Path) -> None:
    """The call has been started: it is not started again."""
    with McpServers({"s": server(tmp_path)}) as servers:
        agent = Agent("simulator", tools=servers, approve=lambda request: "later", config=ALLOW_ALL)
        assert agent.run_sync("call mcp__s__ask {}\nthen say done").stop == "approval"
        saved = agent.save()
        other = Agent.load(saved, "simulator", tools=servers, approve=lambda request: True, config=ALLOW_ALL)
        assert other.resume_sync().text == "done"
        kinds = [result.error_kind for message in other.conversation for result in message.results]
        assert kinds == ["unknown_outcome"]
        assert lines(tmp_path, "calls") == ["ask {}"]


def test_lists_are_fetched_again_when_they_expire(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path, "modern", allow=("echo", "extra"))}) as servers:
        (tmp_path / "changed").touch()

        async def call_until_changed() -> None:
            while len(servers.tools) == 1:
                await run(servers, "echo")

        asyncio.run(asyncio.wait_for(call_until_changed(), 20))


def test_a_callback_cannot_wait_for_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    servers = McpServers({"s": server(tmp_path)}, on_change=lambda sentence: servers.restart("s"))
    with servers:
        call(servers, "change")
        asyncio.run(eventually(lambda: "cannot wait for the MCP servers that call it" in caplog.text))
        assert call(servers, "extra").text == "nothing"


def test_the_end_of_the_program_ends_the_servers(tmp_path: Path) -> None:
    code = f"""
import sys
from toolglot.mcp import McpServer, McpServers
servers = McpServers({{"s": McpServer(command=sys.executable, args=("-I", "-S", {str(SCRIPT)!r}, {str(tmp_path)!r}))}})
servers.start()
servers.wait_ready()
print(servers.status()[0].state)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("ready\n", "")
    assert lines(tmp_path, "ends")


def test_what_providers_cannot_express_names_server_and_tool(tmp_path: Path) -> None:
    with McpServers({"s": server(tmp_path, allow=("any_of",))}) as servers:
        result = Agent("simulator:gemini", tools=servers).run_sync("hello")
    assert [loss.where for loss in result.losses] == ["tool 'mcp__s__any_of' at $"]


def test_tools_whose_names_collide_take_nobody_down() -> None:
    """A server can find two names with the same hash."""
    from mcp_types import Tool as RemoteTool

    names = [f"x.{'y' * 60}{number}" for number in (119155, 220996)]
    items = [
        RemoteTool(name=name, input_schema={"type": "object"}, description="d" * 20_000) for name in names
    ]
    problems: dict[str, str] = {}
    tools = make_tools("s", McpServer(command="x"), items, AsyncMock(), {}, problems)
    assert [*tools] == names[:1]
    assert "the first 10000 are used" in problems[names[0]]
    assert problems[names[1]] == f"left out: its shortened name is the same as that of {names[0]}"
    again: dict[str, str] = {}
    assert make_tools("s", McpServer(command="x"), items, AsyncMock(), tools, again) == tools
    assert again == problems


class Page(NamedTuple):
    items: list[int]
    next_cursor: str | None
    ttl_ms: int = 0


def test_endless_lists_end() -> None:
    problems: list[str] = []

    def fetch_all(pages: dict[str | None, Page] | None) -> list[Any]:
        numbers = iter(range(10**9))

        async def fetch(cursor: str | None) -> Page:
            return pages[cursor] if pages else Page([0] * 100, str(next(numbers)))

        work: Awaitable[tuple[list[Any], int]] = list_all(fetch, lambda page: page.items, problems.append)
        return asyncio.run(_first(work))

    assert fetch_all({None: Page([1], "a", 9), "a": Page([2], None, 5)}) == [1, 2]
    assert problems == []
    assert fetch_all({None: Page([1], "a"), "a": Page([2], "b"), "b": Page([3], "a")}) == [1, 2, 3]
    assert len(fetch_all(None)) == MAX_ITEMS
    assert "repeats a page" in problems[0]
    assert "is too long" in problems[1]


async def _first(work: Awaitable[tuple[list[Any], int]]) -> list[Any]:
    return (await work)[0]


def test_a_list_that_never_comes_costs_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.mcp.client.connection._LIST_SHARE", 0.01)
    with McpServers({"s": server(tmp_path, "stuck")}) as servers:
        (status,) = servers.status()
        assert (status.state, status.prompt_count) == ("ready", 0)
        assert status.problems["prompts"] == "the server did not list them within 0.3 s"
        assert call(servers, "echo", text="hello").text == "hello"
