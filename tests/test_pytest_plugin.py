"""The plugin for pytest: recorded over HTTP, replayed without a provider, in a fresh interpreter with warnings as errors."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from toolglot import Simulator

TEST = '''
import pytest
from toolglot import Orchestrator, tool


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


@pytest.mark.parametrize("city", ["Paris", "São Paulo / BR"])
def test_weather(city, recorded_transport):
    place = {"base_url": "URL", "key": "k-123456789", "transport": recorded_transport}
    with Orchestrator("openai:gpt-4o", tools=[get_weather], **place) as agent:
        assert "21 degrees" in agent.run_sync(f"call get_weather {{\\"city\\": \\"{city}\\"}}").text


class TestMore:
    async def ask(self, agent):
        return "".join([event.text async for event in agent.stream("say Hello.") if type(event).__name__ == "TextDelta"])

    def test_stream(self, recorded_transport):
        import asyncio

        agent = Orchestrator("openai:gpt-4o", base_url="URL", key="k-123456789", transport=recorded_transport)
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


def run_pytest(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plugins = ("-p", "toolglot.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "--rootdir", str(directory), *plugins, *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


@pytest.mark.untraced
def test_recorded_once_and_replayed_without_a_provider(provider: str, tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(TEST.replace("URL", provider), encoding="utf-8")
    missing = run_pytest(tmp_path)
    assert missing.returncode == 1
    assert "run pytest --toolglot-record to make it" in missing.stdout
    recorded = run_pytest(tmp_path, "--toolglot-record")
    assert (recorded.returncode, recorded.stderr) == (0, ""), recorded.stdout
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.jsonl"))
    assert [file.removeprefix("recordings/test_agent/") for file in files] == [
        "TestMore-test_stream.jsonl", "test_weather-Paris.jsonl", "test_weather-S-xe3o-Paulo-BR.jsonl",
    ]  # fmt: skip
    assert not any("k-123456789" in path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.jsonl"))
    # A port where nobody listens: whatever is not replayed fails.
    (tmp_path / "test_agent.py").write_text(TEST.replace("URL", "http://127.0.0.1:1/v1"), encoding="utf-8")
    replayed = run_pytest(tmp_path)
    assert (replayed.returncode, replayed.stderr) == (0, ""), replayed.stdout
    changed = TEST.replace("URL", provider).replace("say Hello.", "say Goodbye.")
    (tmp_path / "test_agent.py").write_text(changed, encoding="utf-8")
    assert "differs at body.messages[0].content" in run_pytest(tmp_path, "-k", "stream").stdout
