"""Second part of `toolglot demo`: a model uses the built-in tools in a temporary directory."""

import asyncio
import tempfile
from pathlib import Path

from toolglot.builtin.tools import builtins
from toolglot.cli.printer import Printer
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
+- the greeting is spelled correctly
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


def run_tools_demo(printer: Printer) -> int:
    """Run the demo; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="toolglot-demo-") as directory:
        for name, text in _INITIAL_FILES.items():
            Path(directory, name).write_text(text, encoding="utf-8")
        return asyncio.run(_run_steps(printer, Path(directory)))


async def _run_steps(printer: Printer, directory: Path) -> int:
    state = builtins(directory)
    prompt = "\nthen ".join(f"call {name} {dumps_text(arguments)}" for name, arguments in _STEPS)
    # Approve everything, even without a sandbox: the commands are the demo's own, in a temporary directory.
    agent = Orchestrator(create_engine("simulator:anthropic"), tools=state.tools, approve=lambda _: "yes", facade="neutral")
    printer.print_rule("Built-in tools in a temporary directory")
    failures = 0
    try:
        async for event in agent.stream(prompt):
            if isinstance(event, ToolFinished):
                outcome, result = event.outcome, event.outcome.result
                printer.print_line(f"  →  {outcome.call.name}  {outcome.seconds * 1000:.0f} ms", "cyan")
                for line in result.text.splitlines()[:6]:
                    printer.print_line(f"     {line}", "red" if result.is_error else "dim")
                failures += result.is_error
            elif isinstance(event, RunDone):
                failures += event.result.stop != "end"
    finally:
        state.close()
    greeting = (directory / "greet.py").read_text().splitlines()[1].strip()
    printer.print_text(f"greet.py now: {greeting}\n", "bold")
    return int(failures > 0)
