"""The demo of the built-in tools: in a folder of its own, a model lists, reads, edits, patches, greps and runs a command."""

import asyncio
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text as Line

from toolglot.builtin.tools import builtins
from toolglot.cli.sanitize import escape_controls
from toolglot.engine.factory import create_engine
from toolglot.events import RunDone, ToolFinished
from toolglot.jsontext import dumps_text
from toolglot.loop.orchestrator import Orchestrator

__all__ = ["run_tools_demo"]

_INITIAL_FILES = {
    "greet.py": 'def greet(name):\n    return "Helo " + name\n\n\nprint(greet("world"))\n',
    "notes.md": "# Notes\n\n- one\n",
}
_PATCH = """*** Begin Patch
*** Update File: notes.md
@@
 - one
+- the greeting is spelt right
*** Add File: tests/test_greet.py
+from greet import greet
+
+assert greet("you") == "Hello you"
*** End Patch
"""
_STEPS: tuple[tuple[str, dict[str, object]], ...] = (
    ("list_dir", {"path": "."}),
    ("read", {"path": "greet.py"}),
    ("edit", {"path": "greet.py", "old": "Helo ", "new": "Hello "}),
    ("patch", {"text": _PATCH}),
    ("grep", {"pattern": "greet\\(", "include_glob": "*.py"}),
    ("shell", {"command": "python3 greet.py && PYTHONPATH=. python3 tests/test_greet.py && echo fine"}),
)


def run_tools_demo(console: Console) -> int:
    """Plays it; the exit code."""
    with tempfile.TemporaryDirectory(prefix="toolglot-demo-") as folder:
        for name, text in _INITIAL_FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return asyncio.run(_run_steps(console, Path(folder)))


async def _run_steps(console: Console, directory: Path) -> int:
    own = builtins(directory)
    prompt = "\nthen ".join(f"call {name} {dumps_text(given)}" for name, given in _STEPS)
    # Commands run without asking, sandbox or not: they are the demo's own, in a folder of its own.
    agent = Orchestrator(create_engine("simulator:anthropic"), tools=own.tools, approve=lambda _: "yes", facade="neutral")
    console.rule(Line("Built-in tools in a folder of their own", style="bold cyan"), align="left")
    failed = 0
    try:
        async for event in agent.stream(prompt):
            if isinstance(event, ToolFinished):
                failed += _print_outcome(console, event)
            elif isinstance(event, RunDone) and event.result.stop != "end":
                failed += 1
    finally:
        own.close()
    console.print(Line(f"greet.py now: {(directory / 'greet.py').read_text().splitlines()[1].strip()}\n", style="bold"))
    return int(bool(failed))


def _print_outcome(console: Console, event: ToolFinished) -> int:
    outcome = event.outcome
    result = outcome.result
    console.print(Line.assemble(("  →  ", "cyan"), (outcome.call.name, "bold"), (f"  {outcome.seconds * 1000:.0f} ms", "dim")))
    for line in escape_controls(result.text).splitlines()[:6]:
        console.print(Line(f"     {line}", style="red" if result.is_error else "dim"), soft_wrap=True)
    return int(result.is_error)
