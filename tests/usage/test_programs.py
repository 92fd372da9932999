"""Small programs as users write them: a fresh interpreter, real HTTP, warnings as errors, development mode.

Each one says what it prints. It must end with the right exit code, and nothing of ours may be on stderr: no
warning about an open connection, no task that was never awaited, no traceback of a thread.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from textwrap import dedent

import pytest

HEAD = """\
import asyncio, contextlib, gc, logging, os, signal, sys, threading
from dataclasses import dataclass
from toolglot import *

logging.getLogger("asyncio").setLevel("ERROR")  # in development mode it complains of a machine that is busy
URL, MODEL = sys.argv[1], "anthropic:claude-sonnet-4-5"
waiting = threading.Event()

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b

@tool
async def wait() -> str:
    "Wait."
    waiting.set()
    await asyncio.Event().wait()

@tool
def interrupt() -> str:
    "Press Ctrl-C."
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(30)

def create(model=MODEL, **options):
    return Agent(model, tools=[add, wait, interrupt], base_url=URL, key="a-key-of-mine", **options)

agent = create()
CALL = 'call add {"a": 1, "b": 2}'
"""
# name -> program; what follows `# prints` is its output.
PROGRAMS = {
    "run_sync": """
        print(agent.run_sync("say hello").text)  # prints hello
    """,
    "run_sync with a tool, twice": """
        for _ in range(2):
            print(agent.run_sync(CALL).outcomes[0].result.text)
        # prints 3
        # prints 3
    """,
    "with": """
        with agent:
            print(agent.run_sync("say hello").text)  # prints hello
    """,
    "closed twice, and used again": """
        print(agent.run_sync("say hello").text)  # prints hello
        agent.close()
        agent.close()
        print(agent.run_sync("say again").text)  # prints again
    """,
    "closed without being used": """
        agent.close()
    """,
    "deleted": """
        print(agent.run_sync("say hello").text)  # prints hello
        del agent
        gc.collect()
    """,
    "asyncio.run": """
        async def main():
            print((await agent.run(CALL)).outcomes[0].result.text)  # prints 3
        asyncio.run(main())
    """,
    "asyncio.run, twice": """
        async def main(word):
            print((await agent.run(f"say {word}")).text)
        asyncio.run(main("one"))  # prints one
        asyncio.run(main("two"))  # prints two
    """,
    "async with": """
        async def main():
            async with agent:
                print((await agent.run("say hello")).text)  # prints hello
        asyncio.run(main())
    """,
    "a loop of one's own": """
        async def main():
            async with agent:
                print((await agent.run("say hello")).text)  # prints hello
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
    """,
    "streaming": """
        async def main():
            async for event in agent.stream(CALL):
                match event:
                    case ToolFinished(outcome=outcome):
                        print(outcome.result.text)  # prints 3
                    case RunDone(result=result):
                        print(result.stop)  # prints end
        asyncio.run(main())
    """,
    "stream_sync": """
        for event in agent.stream_sync(CALL):
            match event:
                case ToolFinished(outcome=outcome):
                    print(outcome.result.text)  # prints 3
                case RunDone(result=result):
                    print(result.stop)  # prints end
    """,
    "stream_sync, left early": """
        for event in agent.stream_sync("say one two three"):
            break
        print(agent.run_sync("say hello").text)  # prints hello
    """,
    "stream_sync, never ended": """
        events = agent.stream_sync("say one two three")
        print(type(next(events)).__name__)  # prints ReplyStarted
    """,
    "stream_sync, never ended and in a cycle": """
        class Reader: pass
        reader = Reader()
        reader.events, reader.self = agent.stream_sync("say one two three"), reader
        next(reader.events)
        del reader
    """,
    "streaming, left early": """
        async def main():
            async for event in agent.stream("say one two three"):
                if isinstance(event, TextDelta):
                    break
            print((await agent.run("say hello")).text)  # prints hello
        asyncio.run(main())
    """,
    "streaming, left during a tool": """
        async def main():
            async with contextlib.aclosing(agent.stream("call wait {}")) as stream:
                async for event in stream:
                    if waiting.is_set():
                        break
            print(agent.conversation[-1].blocks[-1].is_error)
        asyncio.run(main())  # prints True
    """,
    "many at once": """
        async def main():
            runs = [agent.run(f"say {number}", conversation=Conversation()) for number in range(20)]
            print(sum(int(result.text) for result in await asyncio.gather(*runs)))  # prints 190
        asyncio.run(main())
    """,
    "run_sync in threads": """
        def work(number):
            results.append(agent.run_sync(f"say {number}", conversation=Conversation()).text)
        results = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sorted(results))  # prints ['0', '1', '2', '3', '4']
    """,
    "asyncio.run in threads": """
        def work():
            asyncio.run(agent.run("say hello", conversation=Conversation()))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """,
    "run_sync in a running loop, as in a notebook": """
        async def main():
            print(agent.run_sync("say hello").text)  # prints hello
        asyncio.run(main())
    """,
    "fallback": """
        broken = create_engine("openai-chat:gpt-4o", base_url="http://127.0.0.1:9", key="k", retry=RetryConfig(max_retries=0))
        other = create_engine(MODEL, base_url=URL, key="a-key-of-mine")
        agent = Agent(broken, fallbacks=[other])
        logging.getLogger("toolglot").setLevel("ERROR")
        print(agent.run_sync("say hello").text, agent.model)  # prints hello anthropic:claude-sonnet-4-5
    """,
    "switch": """
        print(agent.run_sync("say hello").text)  # prints hello
        agent.switch("gemini:gemini-3-pro-preview", base_url=URL, key="another-key")
        print(agent.run_sync("say again").text)  # prints again
    """,
    "structured output": """
        @dataclass
        class City:
            name: str
            population: int
        for model in (MODEL, "openai:gpt-5.1"):
            print(type(create(model, output_type=City).run_sync("Which city?").output).__name__)
        # prints City
        # prints City
    """,
    "save and load": """
        agent.run_sync("say hello")
        other = Agent.load(agent.save(), tools=[add], base_url=URL, key="a-key-of-mine")
        print(len(other.conversation), other.run_sync("say again").text)  # prints 2 again
    """,
    "an engine alone": """
        engine = create_engine(MODEL, base_url=URL, key="a-key-of-mine")
        result = asyncio.run(engine.ask(Request(engine.model, [user("say hello")])))
        print(result.reply.text)  # prints hello
    """,
    "a refusal": """
        for run in (agent.run_sync, lambda prompt: asyncio.run(agent.run(prompt))):
            try:
                run("fault quota 9")
            except ToolglotError as error:
                print(type(error).__name__)
        # prints QuotaExceeded
        # prints QuotaExceeded
    """,
    "a connection that breaks": """
        async def main():
            try:
                async for _ in agent.stream("fault reset-mid-stream 9"):
                    pass
            except ToolglotError as error:
                print(type(error).__name__)  # prints ConnectionLost
            print((await agent.run("say hello")).text)  # prints hello
        asyncio.run(main())
    """,
    "nobody listens": """
        retry = RetryConfig(max_retries=1, base=0)
        agent = Agent(MODEL, base_url="http://127.0.0.1:9", key="a-key-of-mine", retry=retry)
        for run in (agent.run_sync, lambda prompt: asyncio.run(agent.run(prompt))):
            try:
                run("hi")
            except ConnectFailed as error:
                print(error.message)
                print(error.hint)
        # prints could not connect to 127.0.0.1:9: Connection refused
        # prints is a server running? Set the base URL if it runs elsewhere
        # prints could not connect to 127.0.0.1:9: Connection refused
        # prints is a server running? Set the base URL if it runs elsewhere
    """,
    "a tool that fails": """
        @tool
        def divide(a: int, b: int) -> float:
            "Divide."
            return a / b
        logging.getLogger("toolglot").setLevel("ERROR")
        with Agent(MODEL, tools=[divide], base_url=URL, key="a-key-of-mine") as agent:
            print(agent.run_sync('call divide {"a": 1, "b": 0}').outcomes[0].result.is_error)  # prints True
    """,
    "Ctrl-C in run_sync": """
        try:
            agent.run_sync("call interrupt {}")
        except KeyboardInterrupt:
            print(agent.conversation[-1].blocks[-1].error_kind)  # prints interrupted
        print(agent.run_sync("say hello").text)  # prints hello
    """,
    "Ctrl-C in asyncio.run": """
        async def main():
            await agent.run("call interrupt {}")
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print(agent.conversation[-1].blocks[-1].error_kind)  # prints interrupted
    """,
    "the program ends during a run": """
        threading.excepthook = lambda args: None
        threading.Thread(target=agent.run_sync, args=("call wait {}",), daemon=True).start()
        waiting.wait()
        print("done")  # prints done
    """,
    "sys.exit in a with block": """
        with agent:
            agent.run_sync("say hello")
            sys.exit(0)
    """,
    "aiohttp is loaded beside the event loop": """
        class Watch:
            def find_spec(name, path=None, target=None):
                if name == "aiohttp":
                    print(threading.current_thread() is threading.main_thread())
        sys.meta_path.insert(0, Watch)
        async def main():
            await asyncio.gather(*(agent.run("say hello", conversation=Conversation()) for _ in range(3)))
        asyncio.run(main())  # prints False
    """,
}
# Programs that end with an exception of their own: it is all that is on stderr.
FAILURES = {
    "an exception after a run": (
        "agent.run_sync('say hello'); 1 / 0",
        1,
        "ZeroDivisionError: division by zero",
    ),
    "an exception in async with": (
        """
        async def main():
            async with agent:
                await agent.run("say hello")
                raise LookupError("mine")
        asyncio.run(main())
        """,
        1,
        "LookupError: mine",
    ),
    "an error of ours": ("agent.run_sync(5)", 1, "toolglot.errors.UsageError: a prompt"),
    "Ctrl-C in run_sync": ("agent.run_sync('call interrupt {}')", -signal.SIGINT, "KeyboardInterrupt"),
    "Ctrl-C in asyncio.run": (
        "asyncio.run(agent.run('call interrupt {}'))",
        -signal.SIGINT,
        "KeyboardInterrupt",
    ),
    "sys.exit": ("agent.run_sync('say hello'); sys.exit('no more')", 1, "no more"),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of `toolglot simulate`."""
    command = [sys.executable, "-u", "-m", "toolglot", "simulate", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        match = re.search(r"http://[\d.:]+", server.stdout.readline())
        assert match is not None
        yield match[0]
        server.terminate()


def run_program(code: str, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", HEAD + dedent(code), url]
    environment = {**os.environ, "NO_PROXY": "*"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, url: str) -> None:
    done = run_program(PROGRAMS[name], url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == re.findall("# prints (.*)", PROGRAMS[name])


@pytest.mark.parametrize("name", FAILURES)
def test_program_that_fails(name: str, url: str) -> None:
    code, exit_code, last_line = FAILURES[name]
    done = run_program(code, url)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert done.stderr.splitlines()[-1].startswith(last_line)
    tracebacks = 1 if "Error" in last_line or "Interrupt" in last_line else 0
    assert sum(line.startswith("Traceback") for line in done.stderr.splitlines()) >= tracebacks
    assert not re.search(
        "(?i)unclosed|never (awaited|retrieved)|ResourceWarning|destroyed|Exception ignored", done.stderr
    )


@pytest.mark.parametrize(
    "model",
    [
        "openai-chat:gpt-4o",
        "openai-responses:gpt-5.1",
        "anthropic:claude-sonnet-4-5",
        "gemini:gemini-3-pro-preview",
        "ollama:qwen3",
    ],
)
def test_every_wire(model: str, url: str) -> None:
    code = f"""
        agent = create({model!r})
        print(agent.run_sync(CALL).outcomes[0].result.text)
        async def main():
            async for event in agent.stream(CALL):
                if isinstance(event, ToolFinished): print(event.outcome.result.text)
        asyncio.run(main())
    """
    done = run_program(code, url)
    assert (done.stdout, done.stderr, done.returncode) == ("3\n3\n", "", 0)
