"""`toolglot run`: one prompt, tools, an answer. The answer goes to stdout; what happens meanwhile goes to stderr.

`--json`: every event is a JSON line `{"type": …}` on stdout; the first is {"type": "RunStarted", "version": 1, "model": …}, the
last one RunDone or RunFailed. Exit: 0 answered, 1 failed, 2 wrong usage, 3 stopped before the end, 130 interrupted.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from toolglot.cli.attach import attached
from toolglot.cli.said import said_arguments
from toolglot.cli.start import Flags, Started, require_key, start
from toolglot.cli.visible import harmless, shortened, visible
from toolglot.engine.listing import said_of
from toolglot.errors import ToolglotError
from toolglot.events import (
    ContextCut,
    ModelSwitched,
    Retrying,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from toolglot.jsontext import dumps
from toolglot.loop.orchestrator import Orchestrator

__all__ = ["EVENTS_VERSION", "run_once"]

EVENTS_VERSION = 1


def run_once(flags: Flags, prompt: str, files: Sequence[Path], *, yes: bool, json: bool) -> int:
    """Runs the prompt and shows it; the exit code. Raises UsageError before anything is sent."""
    with start(flags) as started:
        return _run_started(started, flags, prompt, files, yes=yes, json=json)


def _run_started(started: Started, flags: Flags, prompt: str, files: Sequence[Path], *, yes: bool, json: bool) -> int:
    given: dict[str, Any] = {"base_url": flags.base_url} if flags.base_url else {}
    approve = (lambda _: "yes") if yes else None  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    agent = started.setup.agent(started.model, tools=started.tools, approve=approve, **given)
    asked = [prompt, *map(attached, files)]
    require_key(agent.engine)
    if started.why:
        print(f"toolglot: {started.why}", file=sys.stderr)
    out = sys.stdout
    show: _Lines | _Words = _Lines(out) if json else _Words(out)
    with contextlib.redirect_stdout(sys.stderr):  # what a tool prints is not the answer
        try:
            return asyncio.run(_run(agent, asked, show))
        except KeyboardInterrupt:
            show.failed("Interrupted", "interrupted; the conversation is valid")
            return 130


async def _run(agent: Orchestrator, prompt: Any, show: "_Lines | _Words") -> int:
    show.started(agent.model)
    try:
        async for event in agent.stream(prompt):
            show.event(event)
            if isinstance(event, RunDone):
                return 0 if event.result.stop == "end" else 3
    except ToolglotError as error:
        show.failed(error.type, await said_of(error, agent.engine))
        return 1
    finally:
        await agent.engine.close()
    raise AssertionError("a run ends with RunDone")


class _Lines:
    """One JSON object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out.buffer

    def _write(self, value: Any) -> None:
        self._out.write(dumps(value) + b"\n")
        self._out.flush()

    def started(self, model: str) -> None:
        self._write({"type": "RunStarted", "version": EVENTS_VERSION, "model": model})

    def event(self, event: RunEvent) -> None:
        self._write(event)

    def failed(self, kind: str, message: str) -> None:
        self._write({"type": "RunFailed", "error": {"type": kind, "message": message}})


class _Words:
    """The answer as text; calls and what went wrong in grey on a terminal's stderr."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = harmless if out.isatty() else str
        self._live = sys.stderr.isatty()
        self._colours = self._live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._ends_line = True

    def started(self, model: str) -> None:
        self._note(f"{model}", "2")

    def event(self, event: RunEvent) -> None:
        match event:
            case TextDelta():
                self._out.write(self._shown(event.text))
                self._out.flush()
                self._ends_line = event.text.endswith("\n")
            case ToolStarted():
                self._note(f"→ {event.call.name} {shortened(said_arguments(event.call), 100)}", "36")
            case ToolProgress():
                self._note(f"  {event.text}", "2")
            case ToolFinished():
                result = event.outcome.result
                sign, colour = ("✗", "31") if result.is_error else ("←", "2")
                self._note(
                    f"{sign} {event.outcome.call.name} {event.outcome.seconds:.2f} s  {shortened(result.text, 100)}", colour
                )
            case Retrying():
                self._note(f"asked again in {event.seconds:.1f} s: {event.why}", "33")
            case ModelSwitched():
                self._note(f"going on with {event.model}: {event.why}", "33")
            case ContextCut():
                self._note(event.said, "33")
            case RunDone():
                self._finish(event.result)
            case _:
                pass

    def _finish(self, result: RunResult) -> None:
        self._end_line()
        for loss in result.losses:
            print(f"toolglot: lost: {visible(str(loss))}", file=sys.stderr)
        if result.stop != "end":
            waiting = ", ".join(call.name for call in result.pending)
            why = (
                f"approval of {waiting} is needed (--yes gives it)"
                if result.stop == "approval"
                else f"it stopped early: {result.stop}"
            )
            print(f"toolglot: {why}", file=sys.stderr)

    def failed(self, kind: str, message: str) -> None:
        self._end_line()
        print(f"toolglot: {visible(message)}", file=sys.stderr)

    def _end_line(self) -> None:
        if not self._ends_line:
            self._out.write("\n")
            self._out.flush()
            self._ends_line = True

    def _note(self, text: str, colour: str) -> None:
        if self._live:
            self._end_line()
            text = visible(text)
            print(f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text, file=sys.stderr, flush=True)
