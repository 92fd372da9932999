"""The plugin for pytest: recorded over HTTP, replayed without a provider, in a fresh interpreter with
warnings as errors.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from toolglot import Simulator

pytestmark = pytest.mark.untraced
NOBODY = "http://127.0.0.1:1/v1"  # nobody listens there: whatever is not replayed fails
FLAGS = ("-q", "--rootdir", ".", "-p", "no:cacheprovider", "-o", "markers=xdist_group")
SECRET = "k-123456789"
TEST = r'''
import os

import pytest
from toolglot import Agent, tool

KEY = os.environ.get("KEY")  # a replay needs none


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


@pytest.mark.parametrize("city", ["Paris", "São Paulo / BR", "São Paulo: BR"])
def test_weather(city, recorded_transport):
    place = {"base_url": "URL", "key": KEY, "transport": recorded_transport}
    with Agent("openai:gpt-4o", tools=[get_weather], **place) as agent:
        assert "21 degrees" in agent.run_sync(f"call get_weather {{\"city\": \"{city}\"}}").text


class TestMore:
    async def ask(self, agent):
        return "".join([event.text async for event in agent.stream("say Hello.") if type(event).__name__ == "TextDelta"])

    @pytest.mark.xdist_group("streams")
    def test_stream(self, recorded_transport):
        import asyncio

        agent = Agent("openai:gpt-4o", base_url="URL", key=KEY, transport=recorded_transport)
        assert asyncio.run(self.ask(agent)) == "Hello."
'''


@pytest.fixture
def provider() -> Iterator[str]:
    simulator = Simulator()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            response = simulator.handle("POST", self.path, dict(self.headers), body)
            self.send_response(response.status)
            for name, value in {**response.headers, "content-length": str(len(response.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


class Project:
    """Tests of a user, run with this Python in a fresh interpreter."""

    def __init__(
        self, directory: Path, python: str | Path = sys.executable, *, plugins: tuple[str, ...] = ()
    ) -> None:
        """Without names of plugins, pytest finds those that are installed."""
        self.directory, self.command = directory, [python, "-W", "error", "-m", "pytest", *FLAGS]
        self.command += [word for plugin in plugins for word in ("-p", plugin)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
        self.variables = kept | ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if plugins else {})

    def run(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        (self.directory / "test_agent.py").write_text(text, encoding="utf-8")
        key = {"KEY": SECRET} if "--toolglot-record" in words else {}
        command = [*self.command, *words]
        return subprocess.run(
            command, env=self.variables | key, cwd=self.directory, capture_output=True, text=True
        )

    @property
    def recordings(self) -> dict[str, str]:
        return {
            path.name: path.read_text("utf-8")
            for path in (self.directory / "recordings/test_agent").iterdir()
        }

    def check_record_and_replay(self, url: str, *options: str) -> None:
        """Record over HTTP, then replay without a provider and without a key."""
        recorded = self.run(TEST.replace("URL", url), "--toolglot-record", *options)
        assert (recorded.returncode, recorded.stderr) == (0, ""), recorded.stdout
        assert sorted(self.recordings) == [
            "TestMore-test_stream.jsonl", "test_weather-Paris.jsonl",
            "test_weather-S-xe3o-Paulo-BR-1eb91451.jsonl", "test_weather-S-xe3o-Paulo-BR-f1262ca9.jsonl",
        ]  # fmt: skip
        assert not any(SECRET in text for text in self.recordings.values())
        replayed = self.run(TEST.replace("URL", NOBODY), *options)
        assert (replayed.returncode, replayed.stderr) == (0, ""), replayed.stdout


def test_recorded_once_and_replayed_without_a_provider(provider: str, tmp_path: Path) -> None:
    project = Project(tmp_path, plugins=("toolglot.engine.pytest_plugin",))
    missing = project.run(TEST)
    assert missing.returncode == 1
    assert "run pytest --toolglot-record to make it" in missing.stdout
    project.check_record_and_replay(provider)


def test_recorded_by_several_workers(provider: str, tmp_path: Path) -> None:
    project = Project(tmp_path, plugins=("toolglot.engine.pytest_plugin", "xdist"))
    project.check_record_and_replay(provider, "-n", "2", "--dist", "loadgroup")


def test_a_test_that_fails_leaves_no_directory(provider: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    wrong = TEST.replace("URL", provider).replace("say Hello.", "say Goodbye.")
    assert project.run(wrong, "-k", "stream", "--toolglot-record").returncode == 1
    assert not (tmp_path / "recordings").exists()


def test_a_test_that_fails_keeps_its_recording(provider: str, tmp_path: Path) -> None:
    project = Project(tmp_path, plugins=("toolglot.engine.pytest_plugin",))
    project.run(TEST.replace("URL", provider), "-k", "stream", "--toolglot-record")
    before, changed = project.recordings, TEST.replace("URL", provider).replace("say Hello.", "say Goodbye.")
    assert "differs at body.messages[0].content" in project.run(changed, "-k", "stream").stdout
    # the answer is not what the test expects
    assert project.run(changed, "-k", "stream", "--toolglot-record").returncode == 1
    assert project.recordings == before


def test_a_recording_that_cannot_be_written_fails_the_test_and_keeps_the_one_before(
    provider: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, plugins=("toolglot.engine.pytest_plugin",))
    project.run(TEST.replace("URL", provider), "-k", "stream", "--toolglot-record")
    before = project.recordings
    (tmp_path / "conftest.py").write_text(
        "from toolglot.engine import recording\n"
        "def fail(*arguments): raise OSError(28, 'No space left on device')\n"
        "recording._RecordingFile._write = fail\n"
    )
    failed = project.run(TEST.replace("URL", provider), "-k", "stream", "--toolglot-record")
    assert failed.returncode == 1
    assert "cannot be written: No space left on device; " in failed.stdout
    assert project.recordings == before
