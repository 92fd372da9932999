"""Every program in examples/ runs as a user runs it: in a fresh interpreter, with warnings as errors and an
empty stderr.
"""

import asyncio
import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from toolglot.simulator.server import serve

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = [
    path for path in sorted(EXAMPLES.glob("*.py")) if "# Output:\n" in path.read_text(encoding="utf-8")
]
TESTED_ELSEWHERE = {"ag_ui_server.py", "fastapi_sse.py", "vercel_server.py", "local_model.py", "my_tools.py"}


def test_every_example_says_what_it_prints() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {
        path.name for path in PROGRAMS
    } <= TESTED_ELSEWHERE


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_example_prints_what_it_says(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    promised = program.read_text(encoding="utf-8").partition("# Output:\n")[2]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == re.findall(r"^# ?(.*)$", promised, re.MULTILINE)


@pytest.mark.untraced
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_examples_pass_mypy_strict(tmp_path: Path) -> None:
    """As test_docs checks them with pyright."""
    names = sorted({path.name for path in EXAMPLES.glob("*.py")})
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", *names]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A simulator on loopback."""
    started, stopped, urls = threading.Event(), threading.Event(), list[str]()

    async def main() -> None:
        async with serve() as url:
            urls.append(url)
            started.set()
            await asyncio.to_thread(stopped.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(20)
    yield urls[0]
    stopped.set()
    thread.join()


MODELS = {
    "": "anthropic:claude-sonnet-4-5",
    ":anthropic": "anthropic:claude-sonnet-4-5",
    ":gemini": "gemini:gemini-3-pro-preview",
    ":openai": "openai:gpt-5.1",
    ":openai-responses": "openai:gpt-5.1",
}
"""What the simulator plays by default, by what follows its name in an example."""


@pytest.mark.parametrize(
    "name",
    [
        *(path.name for path in PROGRAMS if path.stem != "testing"),
        "README.md",
        "docs/index.md",
        "docs/quickstart.md",
    ],
)
def test_example_does_the_same_over_http(name: str, tmp_path: Path, address: str) -> None:
    """With a provider's real name, address and key; the programs in Markdown print what their comments say."""
    if name.endswith(".py"):
        source = (EXAMPLES / name).read_text(encoding="utf-8")
        promised = re.findall(r"^# ?(.*)$", source.partition("# Output:\n")[2], re.MULTILINE)
    else:
        source = re.findall(
            r"```python\n(.*?)```", (EXAMPLES.parent / name).read_text(encoding="utf-8"), re.DOTALL
        )[0]
        promised = re.findall(r"^ *print\(.*?\)  # (.*)$", source, re.MULTILINE)
    source, count = re.subn(r'"simulator([:\w-]*)"', lambda match: f'"{MODELS[match[1]]}"', source)
    assert count
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    variables = {f"{vendor}_API_KEY": "any" for vendor in ("ANTHROPIC", "GEMINI", "OPENAI")}
    variables |= {f"{name}_BASE_URL": address for name in ("ANTHROPIC", "GOOGLE_GEMINI", "OPENAI")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == promised


def test_a_project_with_the_starter_file_and_tools_of_its_own(tmp_path: Path) -> None:
    """What docs/run.md and docs/configuration.md show works as it is typed."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("my_tools.py", "toolglot.toml"):
        (project / name).write_bytes((EXAMPLES / name).read_bytes())
    home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), str(tmp_path))

    def toolglot(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-m", "toolglot", *words]
        return subprocess.run(
            command, cwd=project, env=os.environ | home, capture_output=True, text=True, encoding="utf-8"
        )

    assert "only a trusted directory" in toolglot("config", "show").stdout
    assert toolglot("trust").returncode == 0
    shown = toolglot("config", "show")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r'^tools +\["my_tools.py"\]  \(project file', shown.stdout, re.MULTILINE)
    ran = toolglot("run", "-m", "simulator", "What is the weather in Paris?")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '{"city":"Paris","degrees":21}' in ran.stdout


def test_fastapi_example_streams_events_and_remembers_the_chat() -> None:
    pytest.importorskip("fastapi", reason="pip install fastapi")
    import httpx

    module = runpy.run_path(str(EXAMPLES / "fastapi_sse.py"))

    async def post(prompt: str) -> str:
        transport = httpx.ASGITransport(app=module["app"])
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.post("/chats/a", params={"prompt": prompt})).text

    async def talk() -> tuple[str, str]:
        return await post('call get_weather {"city": "Paris"}'), await post("fault unauthorized")

    first, second = asyncio.run(talk())
    assert 'event: tool\ndata: {"name":"get_weather","arguments":{"city":"Paris"}}\n' in first
    assert 'event: result\ndata: "Paris: 21 degrees"\n' in first
    assert first.endswith("event: done\ndata: null\n\n")
    assert "event: error\n" in second
    conversations: dict[str, Any] = module["conversations"]
    assert len(conversations["a"]) >= 4


def test_fastapi_example_refuses_a_second_prompt_while_it_answers() -> None:
    pytest.importorskip("fastapi", reason="pip install fastapi")
    import httpx

    module = runpy.run_path(str(EXAMPLES / "fastapi_sse.py"))

    async def ask_twice() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=module["app"])
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            events = module["answer"]("a", "say one two three")
            await anext(events)
            busy = await client.post("/chats/a", params={"prompt": "say four"})
            other = await client.post("/chats/b", params={"prompt": "say four"})
            await events.aclose()
            return [busy, other, await client.post("/chats/a", params={"prompt": "say four"})]

    busy, other, later = asyncio.run(ask_twice())
    assert (busy.status_code, other.status_code, later.status_code) == (409, 200, 200)
    assert "still answering" in busy.json()["detail"]
    assert '"four"' in later.text


def test_fastapi_example_passes_a_message_to_the_answer_in_progress() -> None:
    pytest.importorskip("fastapi", reason="pip install fastapi")
    import httpx

    module = runpy.run_path(str(EXAMPLES / "fastapi_sse.py"))

    async def steer() -> tuple[list[dict[str, str]], str, int]:
        transport = httpx.ASGITransport(app=module["app"])
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:

            async def say() -> dict[str, str]:
                answered = await client.post("/chats/a/messages/m1", params={"text": "say Hurried."})
                return dict(answered.json())

            unknown = await client.post("/chats/a/messages/m1", params={"text": "say Hurried."})
            events = module["answer"]("a", 'call get_weather {"city": "Paris"}')
            pieces = [await anext(events)]
            states = [await say(), await say()]
            pieces += [piece async for piece in events]
            states.append(await say())
            return states, b"".join(pieces).decode(), unknown.status_code

    states, events, unknown = asyncio.run(steer())
    assert unknown == 404
    assert [answer["state"] for answer in states] == ["queued", "queued", "delivered"]
    assert 'event: delivered\ndata: "m1"\n' in events
    assert events.count("Hurried") == 1


def test_fastapi_example_survives_a_client_that_leaves() -> None:
    pytest.importorskip("fastapi", reason="pip install fastapi")
    answer = runpy.run_path(str(EXAMPLES / "fastapi_sse.py"))["answer"]

    async def leave_and_return() -> bytes:
        events = answer("a", "say one two three")
        assert b"event: text" in await anext(events)
        reading = asyncio.ensure_future(anext(events))  # a server cancels what waits for the next piece
        reading.cancel()
        await asyncio.wait([reading])
        return b"".join([event async for event in answer("a", "say Welcome back.")])

    events = asyncio.run(leave_and_return())
    assert b"Welcome" in events
    assert b"event: error" not in events
