"""Callers without an event loop, with one, and with many threads; and Ctrl-C."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from toolglot.errors import ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.background_loop import run_sync
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import Conversation, load

from .agents import PROVIDERS, Wiretap, check, kinds_of, make_agent

CALL = 'call add {"a": 1, "b": 2}'


@tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@pytest.mark.parametrize("provider", PROVIDERS)
def test_outside_of_a_loop(provider: str) -> None:
    agent = make_agent(provider, tools=[add])
    assert agent.run_sync(CALL).outcomes[0].result.text == "3"
    assert agent.run_sync("say again").text == "again"
    check(agent.conversation)


async def test_inside_of_a_running_loop() -> None:
    """As in a notebook: the caller's loop waits, the work is done elsewhere."""
    agent = make_agent("anthropic", tools=[add])
    assert "3" in agent.run_sync(CALL).text


def test_sync_and_async_on_one_conversation() -> None:
    agent = make_agent("anthropic", tools=[add])
    agent.run_sync(CALL)
    assert asyncio.run(agent.run("say in my own loop")).text == "in my own loop"
    assert agent.run_sync("say back").text == "back"
    check(agent.conversation)


def test_from_many_threads() -> None:
    talkers = [make_agent(provider, tools=[add]) for provider in PROVIDERS * 4]

    def one(agent: Agent) -> str:
        return agent.run_sync(CALL).text

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, talkers))
    assert all("3" in text for text in results)
    for agent in talkers:
        check(agent.conversation, everywhere=False)


def test_one_agent_from_many_threads() -> None:
    agent = make_agent("anthropic", tools=[add])
    others = [Conversation() for _ in range(20)]

    def one(other: Conversation) -> str:
        return agent.run_sync(CALL, conversation=other).text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, others))
    for other in others:
        check(other, everywhere=False)
        assert len(other) == 4


def test_one_conversation_from_two_threads_is_refused_or_one_after_the_other() -> None:
    agent = make_agent("anthropic", tools=[add])

    def one(number: int) -> str:
        try:
            return agent.run_sync(f"say {number}").text
        except UsageError:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(40)))
    assert all(text in ("refused", str(number)) for number, text in enumerate(results))
    check(agent.conversation)
    assert len(agent.conversation) == 2 * sum(text != "refused" for text in results)


def test_all_share_one_thread() -> None:
    def loops() -> int:
        return sum(thread.name == "toolglot-loop" for thread in threading.enumerate())

    def nothing(_: int) -> None:
        run_sync(asyncio.sleep(0))

    agent = make_agent("anthropic", tools=[add])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(nothing, range(50)))
    agent.run_sync(CALL)
    assert loops() == 1


def test_an_error_comes_through() -> None:
    agent = make_agent("anthropic", Wiretap(faults=["unauthorized"]))
    with pytest.raises(ToolglotError):
        agent.run_sync("go")
    assert agent.run_sync("say on").text == "on"


def test_a_cancelled_coroutine_comes_through() -> None:
    async def gone() -> None:
        raise asyncio.CancelledError

    from concurrent.futures import CancelledError

    with pytest.raises((CancelledError, asyncio.CancelledError)):
        run_sync(gone())


def test_context_variables_of_the_caller_are_seen_by_tools() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    @tool
    async def who() -> str:
        """Who is it?"""
        return user.get()

    @tool
    def who_else() -> str:
        """Who is it, in a thread?"""
        return user.get()

    user.set("ada")
    result = make_agent("anthropic", tools=[who, who_else]).run_sync("call who {} call who_else {}")
    assert [outcome.result.text for outcome in result.outcomes] == ["ada", "ada"]


def test_from_inside_of_a_run_it_is_refused() -> None:
    inner = make_agent("openai-chat")

    @tool
    async def nested() -> str:
        """Asks another model."""
        return inner.run_sync("say inner").text

    agent = make_agent("anthropic", tools=[nested])
    result = agent.run_sync("call nested {}")
    assert result.outcomes[0].result.is_error
    assert "run_sync" in result.outcomes[0].result.text


def test_a_sync_tool_may_ask_another_model() -> None:
    inner = make_agent("openai-chat")

    @tool
    def nested() -> str:
        """Asks another model."""
        return inner.run_sync("say inner").text

    result = make_agent("anthropic", tools=[nested]).run_sync("call nested {}")
    assert result.outcomes[0].result.text == "inner"


def test_resume_sync() -> None:
    agent = make_agent("anthropic", tools=[add], config=ToolConfig(ask=frozenset({"execute"})))
    first = agent.run_sync(CALL)
    assert first.stop == "approval"
    assert agent.resume_sync({first.requests[0].id: "yes"}).stop == "end"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    program = """
        import os, warnings
        warnings.simplefilter("ignore")
        from toolglot import Agent
        Agent("simulator").run_sync("say parent")
        child = os.fork()
        if child == 0:
            print(Agent("simulator").run_sync("say child").text, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "child\n", "")


# ---- programs of their own

HEAD = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from toolglot import Hooks, Agent, SimulatedTransport, Simulator, ToolConfig, tool

sent = []

def stop_me():
    if not sent:  # two tools may want it at the same time
        sent.append(True)
        os.kill(os.getpid(), signal.SIGINT)

@tool
async def waits() -> str:
    "Waits for ever."
    threading.Timer(0.05, stop_me).start()
    await asyncio.Event().wait()
    return "never"

@tool
def blocks() -> str:
    "Blocks its thread."
    threading.Timer(0.05, stop_me).start()
    threading.Event().wait(30)
    return "never"

@tool(effects="read")
async def quick() -> str:
    "Is quick."
    return "done"

async def read(events):
    async for event in events:
        pass
"""


def program(body: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    text = HEAD + dedent(body)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", text, str(tmp_path / "saved")],
        capture_output=True,
        text=True,
        timeout=60,
    )


def saved(tmp_path: Path) -> Conversation:
    return load((tmp_path / "saved").read_bytes())[0]


@pytest.mark.untraced
@pytest.mark.parametrize(("model", "start", "kinds"), [
    pytest.param("anthropic", "agent.run_sync('call quick {} call waits {}')", [None, "interrupted"], id="async tool"),
    pytest.param("openai-chat", "agent.run_sync('call quick {} call blocks {}')", [None, "interrupted"], id="sync tool"),
    pytest.param("gemini", "agent.run_sync('call blocks {} call waits {}')", ["interrupted"] * 2, id="both"),
    pytest.param("anthropic", "[*agent.stream_sync('call quick {} call waits {}')]", [None, "interrupted"], id="stream_sync"),
    pytest.param("anthropic", "asyncio.run(agent.run('call waits {}'))", ["interrupted"], id="asyncio.run"),
    pytest.param("anthropic", "asyncio.run(read(agent.stream('call waits {}')))", ["interrupted"], id="streamed"),
])  # fmt: skip
def test_ctrl_c_while_a_tool_runs(model: str, start: str, kinds: list[Any], tmp_path: Path) -> None:
    done = program(
        f"""
        agent = Agent("simulator:{model}", tools=[waits, blocks, quick])
        try:
            {start}
        except KeyboardInterrupt:
            print("interrupted")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Path(sys.argv[1]).write_bytes(agent.save())
        print(agent.run_sync("say on we go").text)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\non we go\n", "")
    assert kinds_of(saved(tmp_path)) == kinds
    check(saved(tmp_path))


@pytest.mark.parametrize("fault", ["stall", "stall-first"])
def test_ctrl_c_while_the_model_stalls(fault: str, tmp_path: Path) -> None:
    done = program(
        f"""
        class Stalled(SimulatedTransport):
            async def send(self, request):
                if not stopped:
                    stopped.append(True)
                    threading.Timer(0.05, stop_me).start()
                return await super().send(request)
        stopped = []
        agent = Agent("simulator", transport=Stalled(Simulator(faults=[{fault!r}])))
        try:
            agent.run_sync("say hello")
        except KeyboardInterrupt:
            print("interrupted")
        Path(sys.argv[1]).write_bytes(agent.save())
        print(agent.run_sync("say on we go").text)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\non we go\n", "")
    check(saved(tmp_path))
    assert "interrupted" in saved(tmp_path)[-1].text


@pytest.mark.untraced
@pytest.mark.parametrize("prompt", ["call waits {}", "call blocks {}"])
def test_ctrl_c_ends_the_program_without_noise(prompt: str, tmp_path: Path) -> None:
    """The usual traceback of KeyboardInterrupt, and nothing of asyncio after it."""
    done = program(f'Agent("simulator", tools=[waits, blocks]).run_sync({prompt!r})', tmp_path)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    for noise in ("never retrieved", "was destroyed", "Exception ignored", "never awaited", "CancelledError"):
        assert noise not in done.stderr


def test_ctrl_c_twice_gets_out_of_a_tool_that_does_not_stop(tmp_path: Path) -> None:
    done = program(
        """
        @tool
        async def stubborn() -> str:
            "Does not stop."
            threading.Timer(0.05, stop_me).start()
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    threading.Timer(0.05, stop_me).start()
        try:
            Agent("simulator", tools=[stubborn]).run_sync("call stubborn {}")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        os._exit(0)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n")


@pytest.mark.untraced
@pytest.mark.parametrize(
    "work",
    [
        "agent.run('call quick {} call interrupts {}')",
        "read(agent.stream('call quick {} call interrupts {}'))",
    ],
)
def test_a_loop_that_was_closed_in_the_middle_of_a_run_leaves_a_usable_conversation(
    work: str, tmp_path: Path
) -> None:
    """Ctrl-C ends a loop that asyncio.run did not start at once, and Python complains of it on stderr."""
    done = program(
        f"""
        import gc
        @tool(inline=True)
        def interrupts() -> str:
            "Is interrupted."
            os.kill(os.getpid(), signal.SIGINT)
            return "never"
        agent = Agent("simulator", tools=[quick, interrupts])
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete({work})
        except KeyboardInterrupt:
            print("interrupted")
        loop.close()
        if "stream" in {work!r}:
            gc.collect()  # as long as somebody has a stream, it is in use
        print(agent.run_sync("say on").text)
        gc.collect()  # what is left of the dead run changes nothing
        Path(sys.argv[1]).write_bytes(agent.save())
        print(agent.run_sync("say and on").text)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\non\nand on\n"), done.stderr
    assert kinds_of(saved(tmp_path)) == [None, "interrupted"]
    check(saved(tmp_path))


EXITS = {"async": "async def", "sync": "def", "inline": "@tool(inline=True)\ndef"}


@pytest.mark.untraced
@pytest.mark.parametrize("exit", ["sys.exit(3)", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("kind", EXITS)
def test_a_tool_that_wants_to_end_the_program_does_not(kind: str, exit: str, tmp_path: Path) -> None:
    """It ends its call with an error, as any other exception would; the loop of the process lives on."""
    source = f"{EXITS[kind]} leave() -> str:\n    'Leaves.'\n    {exit}\n"
    source += dedent(
        """
        agent = Agent("simulator", tools=[leave])
        result = agent.run_sync("call leave {}")
        print(result.outcomes[0].result.error_kind)
        print(agent.run_sync("say on").text)
        """
    )
    done = program(source, tmp_path)
    assert (done.returncode, done.stdout) == (0, "execution\non\n"), indent(done.stderr, "  ")


ENDINGS = [
    ("sys.exit(3)", "SystemExit"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
]


@pytest.mark.untraced
@pytest.mark.parametrize(("hook", "raised"), ENDINGS)
def test_a_hook_that_ends_a_program_reaches_its_caller_and_the_next_run_works(
    hook: str, raised: str, tmp_path: Path
) -> None:
    """Twice, and from another thread too: the loop of the process lives on, and is the same."""
    source = f"class Ends(Hooks):\n    def before_request(self, request):\n        if ends: {hook}\n"
    source += dedent(
        """
        ends = [True]
        agent = Agent("simulator", hooks=[Ends()])
        def once():
            try:
                agent.run_sync("hi")
            except BaseException as error:
                print(type(error).__name__)
        once()
        other = threading.Thread(target=once)
        other.start()
        other.join()
        ends.clear()
        print(agent.run_sync("say on").text, [one.name for one in threading.enumerate()].count("toolglot-loop"))
        Path(sys.argv[1]).write_bytes(agent.save())
        """
    )
    done = program(source, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{raised}\n{raised}\non 1\n", ""), indent(
        done.stderr, "  "
    )
    check(saved(tmp_path))


def test_the_end_of_a_program_is_quiet(tmp_path: Path) -> None:
    """Threads and loops that are still there at the end are nobody's business."""
    done = program(
        """
        @tool
        def slow() -> str:
            "Never ends."
            threading.Event().wait(30)
            return "never"
        agent = Agent("simulator", tools=[slow, quick], config=ToolConfig(timeout=0.05))
        print(agent.run_sync("call slow {} call quick {}").outcomes[0].result.error_kind)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")
