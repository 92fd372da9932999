"""Every program in examples/ runs as a user runs it: in a fresh interpreter, with warnings as errors and an empty stderr."""

import asyncio
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = [path for path in sorted(EXAMPLES.glob("*.py")) if "# Output:\n" in path.read_text(encoding="utf-8")]
TESTED_ELSEWHERE = {"fastapi_sse.py", "local_model.py"}


def test_every_example_says_what_it_prints() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {path.name for path in PROGRAMS} <= TESTED_ELSEWHERE


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_example_prints_what_it_says(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", program], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8"
    )
    promised = program.read_text(encoding="utf-8").partition("# Output:\n")[2]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == re.findall(r"^# ?(.*)$", promised, re.MULTILINE)


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
