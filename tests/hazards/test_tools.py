"""What goes wrong in practice when tools run: bad arguments, loops and fan-out, results that are too long.

Each is a whole run against a simulated provider, which is strict about every request; afterwards the
conversation must be valid for every other provider.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.engine.scripted_transport import ScriptedReply, ScriptedTransport
from tests.loop.agents import Wiretap, check

from toolglot.common.jsontext import dumps, loads_object
from toolglot.errors import ToolError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool, tool_from_schema
from toolglot.values.events import RunResult
from toolglot.values.messages import Block, Reply, Text, Thinking, ToolCall
from toolglot.values.request import Request

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "groq")
TEXTUAL = ("openai-chat", "openai-responses", "groq")  # arguments are sent as text
Turn = Reply | str | Callable[[Request], Reply]
everywhere = pytest.mark.parametrize("provider", PROVIDERS)


class ScriptedRun:
    """A run of a model that follows a script."""

    def __init__(
        self,
        provider: str,
        tools: Sequence[Tool],
        *turns: Turn,
        limits: RunLimits | None = None,
        **config: Any,
    ) -> None:
        self.transport = Wiretap(*turns)
        self.agent = Agent(
            f"simulator:{provider}",
            tools=tools,
            transport=self.transport,
            config=ToolConfig(**config),
            limits=limits or RunLimits(),
        )

    def run(self, prompt: str = "go") -> RunResult:
        result = asyncio.run(self.agent.run(prompt))
        check(self.agent.conversation)
        return result


def reply_with(*blocks: Block | str, stop: Any = None) -> Reply:
    content = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    return Reply(
        content, stop or ("tools" if any(isinstance(block, ToolCall) for block in content) else "end")
    )


def call_of(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def unless_forbidden(make: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """A turn of a model that never stops calling tools by itself."""

    def turn(request: Request) -> Reply:
        forbidden = request.tool_choice is not None and request.tool_choice.mode == "none"
        return reply_with("enough") if forbidden or not request.tools else make(request)

    return turn


class Ledger:
    """Tools that write down that they ran."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []

    @property
    def write(self) -> Tool:
        def write(path: str, content: str = "") -> str:
            """Writes a file."""
            self.ran.append({"path": path, "content": content})
            return "written"

        return tool(effects="write", inline=True)(write)

    @property
    def ping(self) -> Tool:
        def ping(times: int = 1) -> str:
            """Pings."""
            self.ran.append({"times": times})
            return "pong"

        return tool(effects="read", inline=True)(ping)


# ---- F. arguments that are malformed, empty or cut


@pytest.mark.parametrize("raw", ["", "null", "{}", " "])
@pytest.mark.parametrize("provider", TEXTUAL)
def test_empty_arguments_mean_none(provider: str, raw: str) -> None:
    ledger = Ledger()
    scripted = ScriptedRun(
        provider, [ledger.ping], reply_with(ToolCall("", "ping", None, raw)), reply_with("done")
    )
    assert scripted.run().text == "done"
    assert ledger.ran == [{"times": 1}]


@everywhere
def test_a_call_without_arguments_runs(provider: str) -> None:
    ledger = Ledger()
    assert (
        ScriptedRun(provider, [ledger.ping], reply_with(call_of("ping")), reply_with("done")).run().text
        == "done"
    )
    assert ledger.ran == [{"times": 1}]


@everywhere
def test_a_call_truncated_by_the_length_limit_never_runs(provider: str) -> None:
    """A README was written cut in half."""
    ledger = Ledger()
    scripted = ScriptedRun(provider, [ledger.write])
    scripted.run('call write {"path": "README.md", "content": "all of it"}\nfault length\nthen say I see')
    assert ledger.ran == []
    assert [result.error_kind for message in scripted.agent.conversation for result in message.results] == [
        "truncated"
    ]


@pytest.mark.parametrize(
    "raw", ['{"path": "README.md", "content": "half of', '{"path": "README.md", "content": "all"']
)
@pytest.mark.parametrize("provider", TEXTUAL)
def test_a_truncated_call_never_runs_whatever_the_stop_reason(provider: str, raw: str) -> None:
    ledger = Ledger()
    scripted = ScriptedRun(
        provider,
        [ledger.write],
        reply_with(ToolCall("", "write", None, raw), stop="tools"),
        reply_with("I see"),
    )
    result = scripted.run()
    assert ledger.ran == []
    assert result.text == "I see"
    assert [outcome.result.error_kind for outcome in result.outcomes] in (["validation"], ["truncated"], [])


@pytest.mark.parametrize("provider", TEXTUAL)
def test_broken_json_is_repaired_or_explained_and_the_run_continues(provider: str) -> None:
    ledger = Ledger()
    broken = reply_with(ToolCall("", "write", None, "{'path': 'a',}"), ToolCall("", "write", None, "path=b"))
    result = ScriptedRun(provider, [ledger.write], broken, reply_with("done")).run()
    assert ledger.ran == [{"path": "a", "content": ""}]
    assert [outcome.result.error_kind for outcome in result.outcomes] == [None, "validation"]
    assert result.text == "done"


def test_ollama_sends_objects_and_no_ids() -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    def turn(**message: Any) -> dict[str, Any]:
        return {
            "model": "m",
            "message": {"role": "assistant", "content": "", **message},
            "done": True,
            "done_reason": "stop",
        }

    calls = [{"function": {"name": "add", "arguments": {"a": 1, "b": n}}} for n in (1, 2, 1)]
    provider = ScriptedTransport(
        *(ScriptedReply((dumps(body),)) for body in (turn(tool_calls=calls), turn(content="done")))
    )
    agent = Agent("ollama:m", tools=[add], transport=provider)
    result = asyncio.run(agent.run("go"))
    assert result.text == "done"
    assert [outcome.result.text for outcome in result.outcomes] == ["2", "3", "2"]
    assert len({outcome.call.id for outcome in result.outcomes}) == 3
    messages = loads_object(provider.requests[1].body)["messages"]
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["2", "3", "2"]
    check(agent.conversation)


# ---- H. fan-out, limits, loops


@pytest.mark.untraced
@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_one_turn_of_792_calls_runs_a_few_at_a_time(provider: str) -> None:
    inside = peak = 0

    async def look(n: int) -> int:
        """Looks."""
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        for _ in range(3):
            await asyncio.sleep(0)
        inside -= 1
        return n

    result = ScriptedRun(
        provider,
        [tool(look)],
        reply_with(*(call_of("look", n=n) for n in range(792))),
        reply_with("done"),
        max_parallel=8,
    ).run()
    assert peak == 8
    assert [outcome.result.text for outcome in result.outcomes] == [str(n) for n in range(792)]
    assert result.text == "done"


def test_the_cap_holds_for_tools_in_threads() -> None:
    lock, full = threading.Lock(), threading.Event()
    inside = peak = 0

    def look(n: int) -> int:
        """Looks."""
        nonlocal inside, peak
        with lock:
            inside += 1
            peak = max(peak, inside)
            if inside == 3:
                full.set()
        assert full.wait(5)
        with lock:
            inside -= 1
        return n

    ScriptedRun(
        "openai-chat",
        [tool(look)],
        reply_with(*(call_of("look", n=n) for n in range(20))),
        reply_with("done"),
        max_parallel=3,
    ).run()
    assert peak == 3


@everywhere
def test_a_tool_can_be_limited_to_a_number_of_uses(provider: str) -> None:
    ledger = Ledger()
    turns = (reply_with(*(call_of("write", path=f"{turn}{n}") for n in range(2))) for turn in "ab")
    result = ScriptedRun(provider, [ledger.write.replace(max_uses=3)], *turns, reply_with("done")).run()
    assert len(ledger.ran) == 3
    assert [outcome.result.error_kind for outcome in result.outcomes] == [None, None, None, "limit"]
    assert result.text == "done"


@everywhere
def test_a_tool_that_is_too_slow_costs_only_itself(provider: str) -> None:
    async def slow() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    ledger = Ledger()
    result = ScriptedRun(
        provider,
        [tool(timeout=0.02)(slow), ledger.ping],
        reply_with(call_of("slow"), call_of("ping")),
        reply_with("done"),
    ).run()
    assert [outcome.result.error_kind for outcome in result.outcomes] == ["timeout", None]
    assert result.text == "done"


def _same(request: Request) -> Reply:
    return reply_with(call_of("write", path="a", content="b"))


def _nearly_the_same(request: Request) -> Reply:
    n = len(request.messages)
    return reply_with(call_of("write", content="b" + " " * (n % 3), path="a" if n % 4 else "A"))


def _two_in_turn(request: Request) -> Reply:
    return reply_with(call_of("write", path="ab"[len(request.messages) // 2 % 2]))


def _not_valid(request: Request) -> Reply:
    return reply_with(call_of("write", content="b"))


def _unknown(request: Request) -> Reply:
    return reply_with(call_of("wriet", path="a"))


@pytest.mark.untraced
@everywhere
@pytest.mark.parametrize("habit", [_same, _nearly_the_same, _two_in_turn, _not_valid, _unknown])
def test_a_model_that_repeats_itself_is_stopped(provider: str, habit: Callable[[Request], Reply]) -> None:
    """Writes that succeed, too. It is told, and if it does not listen it is asked for its last words."""
    ledger = Ledger()
    scripted = ScriptedRun(
        provider, [ledger.write], *[unless_forbidden(habit)] * 60, limits=RunLimits(max_iterations=50)
    )
    result = scripted.run()
    assert len(ledger.ran) <= 12
    assert len(scripted.transport.bodies) <= 16
    assert result.text == "enough"


@everywhere
def test_the_number_of_turns_holds_with_reasoning(provider: str) -> None:
    """And the last turn, in which no tool may be called, is one that the provider takes."""
    ledger = Ledger()

    def work(request: Request) -> Reply:
        return reply_with(Thinking("hm"), "so:", call_of("write", path=str(len(request.messages))))

    scripted = ScriptedRun(
        provider, [ledger.write], *[unless_forbidden(work)] * 20, limits=RunLimits(max_iterations=3)
    )
    result = scripted.run()
    assert result.text == "enough"
    assert len(ledger.ran) == 3
    assert len(scripted.transport.bodies) == 4


# ---- K. results and lists of tools that are too long


LONG = "".join(f"line {n:06}\n" for n in range(100_000))


@everywhere
def test_every_result_is_capped_whatever_made_it(provider: str) -> None:
    def text() -> str:
        """Gives text."""
        return LONG

    def rows() -> list[str]:
        """Gives data."""
        return LONG.splitlines()

    def fail() -> None:
        """Fails."""
        raise ToolError(LONG)

    def foreign(**arguments: Any) -> str:
        return LONG

    tools = [
        tool(text),
        tool(rows),
        tool(fail),
        tool_from_schema("foreign", "Gives.", {"type": "object"}, foreign),
    ]
    calls = reply_with(*(call_of(tool.name) for tool in tools))
    scripted = ScriptedRun(provider, tools, calls, reply_with("done"), max_result=2000)
    assert scripted.run().text == "done"
    assert len(scripted.transport.requests[1].body) < 20_000


@everywhere
def test_the_rest_of_a_truncated_result_can_be_read_by_its_handle(provider: str) -> None:
    """A cap must not stand in the way of work that needs the whole."""
    whole = LONG[:50_000]
    read: list[str] = []

    def big() -> str:
        """Gives a long text."""
        return whole

    def go_on(request: Request) -> Reply:
        last = (
            request.messages[-1].results[-1].text
            if request.messages[-1].results
            else request.messages[-1].text
        )
        if match := re.search(r'read_result\(handle="(\w+)", offset=\d+\)', last):
            return reply_with(call_of("read_result", handle=match[1], offset=0))
        match = re.search(r"\n\[characters (\d+) to (\d+) of (\d+)[^\]]*\]$", last)
        if match is None:
            return reply_with(f"lost: {last[:200]}")
        read.append(last[: match.start()])
        handle = re.search(r'read_result\(handle="(\w+)"', str(request.messages))
        assert handle
        return (
            reply_with("done")
            if match[2] == match[3]
            else reply_with(call_of("read_result", handle=handle[1], offset=int(match[2])))
        )

    scripted = ScriptedRun(provider, [tool(big)], reply_with(call_of("big")), *[go_on] * 10, max_result=1000)
    assert scripted.run().text == "done"
    assert "".join(read) == whole


@pytest.mark.untraced
@everywhere
def test_an_unknown_tool_does_not_cost_the_whole_list(provider: str) -> None:
    def work() -> None:
        """Works."""

    tools = [tool(name=f"tool_{n:04}")(work) for n in range(100)]
    scripted = ScriptedRun(provider, tools, reply_with(call_of("something_else")), reply_with("done"))
    result = scripted.run()
    assert result.text == "done"
    assert len(result.outcomes[0].result.text) < 500


@everywhere
@pytest.mark.parametrize("name", ["get (the) weather", "crm/find[all]", "x" * 300, "préfix: ürün"])
def test_a_tool_may_have_any_visible_name(provider: str, name: str) -> None:
    named = tool_from_schema(name, "Finds.", {"type": "object", "properties": {}}, lambda: "it rains")

    def turn(request: Request) -> Reply:  # the model knows the tool under its name on the wire
        return reply_with(call_of(request.tools[0].name))

    result = ScriptedRun(provider, [named], turn, "done").run()
    assert [(outcome.call.name, outcome.result.text) for outcome in result.outcomes] == [(name, "it rains")]
