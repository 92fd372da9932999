"""The same task as four models see it, each through its own facade over its own wire: find, read, edit, run, look at a page.

Then one conversation goes from Claude to Gemini to GPT and back, in the middle of the task: the files end up the same.
"""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.facades.test_history import list_refusals, make_engine, make_transport, referee_errors

from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.builtin.web.config import WebConfig
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Reply, Text, ToolCall
from toolglot.simulator.core import Script

BEFORE = 'def greet(name):\n    return "Helo " + name\n\n\nprint(greet("world"))\n'
AFTER = BEFORE.replace("Helo", "Hello")
PATCH = '*** Begin Patch\n*** Update File: greet.py\n@@\n-    return "Helo " + name\n+    return "Hello " + name\n*** End Patch'
MODELS = {
    "claude": ("anthropic", "claude-opus-5"),
    "older claude": ("anthropic", "claude-sonnet-4-5"),
    "gemini": ("gemini", "gemini-3-pro-preview"),
    "codex": ("openai-responses", "gpt-5.5"),
    "unknown": ("xai", "grok-4"),
    "openai-hosted": ("openai-responses", "gpt-5.2"),
    "anthropic-api": ("anthropic", "claude-opus-5"),
}


def steps(model: str, root: Path, page: str) -> list[ToolCall]:
    """The task in the model's own words."""
    file = str(root / "greet.py")
    words: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "claude": [
            ("Glob", {"pattern": "**/*.py"}),
            ("Read", {"file_path": file}),
            ("Edit", {"file_path": file, "old_string": "Helo", "new_string": "Hello"}),
            ("Bash", {"command": "python3 greet.py", "description": "runs it"}),
            ("WebFetch", {"url": page, "prompt": "What is the word?"}),
        ],
        "gemini": [
            ("glob", {"pattern": "**/*.py"}),
            ("read_file", {"file_path": "greet.py"}),
            ("replace", {"file_path": "greet.py", "instruction": "Mend it.", "old_string": "Helo", "new_string": "Hello"}),
            ("run_shell_command", {"command": "python3 greet.py"}),
            ("web_fetch", {"prompt": f"What is the word on {page}?"}),
        ],
        "codex": [
            ("exec_command", {"cmd": "ls"}),
            ("exec_command", {"cmd": "cat greet.py"}),
            ("apply_patch", {"input": PATCH}),
            ("exec_command", {"cmd": "python3 greet.py"}),
            ("run", {"open": [{"ref_id": page}]}),
        ],
        "unknown": [
            ("glob", {"pattern": "**/*.py"}),
            ("read", {"path": "greet.py"}),
            ("edit", {"path": "greet.py", "old": "Helo", "new": "Hello"}),
            ("shell", {"command": "python3 greet.py"}),
            ("web_open", {"target": page}),
        ],
        "openai-hosted": [
            ("shell", {"commands": ["ls", "pwd"]}),
            ("shell", {"commands": ["cat greet.py"]}),
            ("apply_patch", {"type": "update_file", "path": "greet.py", "diff": PATCH.partition("greet.py\n")[2][:-14]}),
            ("shell", {"commands": ["python3 greet.py"]}),
            ("web_open", {"target": page}),
        ],
        "anthropic-api": [
            ("str_replace_based_edit_tool", {"command": "view", "path": str(root)}),
            ("str_replace_based_edit_tool", {"command": "view", "path": file}),
            ("str_replace_based_edit_tool", {"command": "str_replace", "path": file, "old_str": "Helo", "new_str": "Hello"}),
            ("bash", {"command": "python3 greet.py"}),
            ("web_fetch", {"url": page}),
        ],
    }
    found = words["claude" if model == "older claude" else model]
    return [_call(name, given) for name, given in found]


def _call(name: str, given: dict[str, Any]) -> ToolCall:
    if name == "apply_patch" and "input" in given:
        return ToolCall("", name, None, given["input"], freeform=True)
    return ToolCall("", name, given, namespace="web" if name == "run" else "")


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><head><title>A word</title></head><body><p>The word of the day is plum.</p></body></html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def _yes(_: object) -> bool:
    return True


class Desk:
    """A folder, the tools for it, and a model that says what it is told."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder, self.page = folder, page
        (folder / "greet.py").write_text(BEFORE)
        host = page.removeprefix("http://").rstrip("/")
        options = BuiltinOptions(web=WebConfig(allow_private=(host,), browser="none"))
        self.own = builtins(folder, options=options)
        self.replies: list[Reply] = []
        self.transport = make_transport(Script(self.replies))

    def agent(self, model: str) -> Orchestrator:
        profile, name = MODELS[model]
        facade = model if "-" in model else "auto"
        return Orchestrator(make_engine(profile, self.transport, model=name), tools=self.own.tools, approve=_yes, facade=facade)

    async def work(self, agent: Orchestrator, calls: list[ToolCall]) -> list[tuple[str, str, bool]]:
        self.replies += [Reply((call,), "tools") for call in calls] + [Reply((Text("done"),), "end")]
        result = await agent.run("Go on.")
        return [(one.call.name, one.result.text, one.result.is_error) for one in result.outcomes]

    def check(self) -> None:
        assert (self.folder / "greet.py").read_text() == AFTER
        assert list_refusals(self.transport.sent) == []
        assert [said for one in self.transport.sent for said in referee_errors(one)] == []
        self.own.close()


@pytest.mark.parametrize("model", MODELS)
def test_each_model_does_it_in_its_own_words(model: str, page: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, page)
    done = asyncio.run(desk.work(desk.agent(model), steps(model, tmp_path, page)))
    assert [text for _, text, failed in done if failed] == []
    assert "greet.py" in done[0][1]
    assert "Helo" in done[1][1]
    assert "Hello world" in done[3][1]
    assert "plum" in done[4][1]
    edits = "patch" if model in ("codex", "openai-hosted") else "edit"
    assert [name for name, _, _ in done][2] == edits
    desk.check()


def test_it_goes_from_model_to_model_in_the_middle(page: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, page)

    async def play() -> list[tuple[str, str, bool]]:
        agent, done = desk.agent("claude"), list[tuple[str, str, bool]]()
        for model, part in (("claude", slice(0, 2)), ("gemini", slice(1, 3)), ("codex", slice(3, 4)), ("claude", slice(3, 5))):
            profile, name = MODELS[model]
            agent.switch(make_engine(profile, desk.transport, model=name))
            done += await desk.work(agent, steps(model, tmp_path, page)[part])
        return done

    done = asyncio.run(play())
    assert [text for _, text, failed in done if failed] == []
    assert [name for name, _, _ in done] == ["glob", "read", "read", "edit", "shell", "shell", "web_open"]
    desk.check()
