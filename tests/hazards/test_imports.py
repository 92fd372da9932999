"""Imports that cost seconds, and commands that load what they do not use: each command has the parts that it
needs.
"""

import subprocess
import sys

import pytest

HEAVY = {
    *(
        "aiohttp",
        "prompt_toolkit",
        "rich",
        "pydantic",
        "keyring",
        "azure",
        "google.auth",
        "playwright",
        "trafilatura",
    ),
    *("opentelemetry", "mcp", "acp", "ag_ui"),
}
TEMPLATE = """
import sys
from unittest.mock import patch
from toolglot.cli.main import main
with patch.object(sys, "argv", ["toolglot", *{words!r}]):
    try:
        main()
    except SystemExit:
        pass
print(*sorted(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(("words", "loads"), [
    (["--version"], set[str]()),
    (["--help"], set[str]()),
    (["run", "--help"], set[str]()),
    (["models"], {"pydantic"}),
    (["config", "show"], {"pydantic"}),
    (["run", "-m", "simulator", "say hi"], {"pydantic"}),
], ids=["version", "help", "help of a command", "models", "config", "run"])  # fmt: skip
def test_a_command_loads_what_it_needs(words: list[str], loads: set[str]) -> None:
    code = TEMPLATE.format(words=words, heavy=sorted(HEAVY))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert set(done.stderr.split()) <= loads


def test_the_library_loads_nothing_until_it_is_used() -> None:
    modules = "toolglot, toolglot.schema.output, toolglot.loop.agent.agent"
    code = f"import sys, {modules}; print(*[name for name in {sorted(HEAVY)!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == []
