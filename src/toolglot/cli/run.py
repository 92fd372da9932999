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

from toolglot.cli.attachments import load_attachment
from toolglot.cli.format_call import format_arguments
from toolglot.cli.sanitize import escape_controls, escape_invisible, shorten
from toolglot.cli.startup import CliSetup, Flags, prepare, require_key
from toolglot.engine.model_list import describe_error
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
    with prepare(flags) as started:
        return _run_with_setup(started, flags, prompt, files, yes=yes, json=json)


def _run_with_setup(cli_setup: CliSetup, flags: Flags, prompt: str, files: Sequence[Path], *, yes: bool, json: bool) -> int:
    given: dict[str, Any] = {"base_url": flags.base_url} if flags.base_url else {}
    approve = (lambda _: "yes") if yes else None  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    agent = cli_setup.setup.create_agent(cli_setup.model, tools=cli_setup.tools, approve=approve, **given)
    asked = [prompt, *map(load_attachment, files)]
    require_key(agent.engine)
    if cli_setup.model_reason:
        print(f"toolglot: {cli_setup.model_reason}", file=sys.stderr)
    out = sys.stdout
    show: _JsonPresenter | _TextPresenter = _JsonPresenter(out) if json else _TextPresenter(out)
    with contextlib.redirect_stdout(sys.stderr):  # what a tool prints is not the answer
        try:
            return asyncio.run(_stream_run(agent, asked, show))
        except KeyboardInterrupt:
            show.show_failure("Interrupted", "interrupted; the conversation is valid")
            return 130


async def _stream_run(agent: Orchestrator, prompt: Any, presenter: "_JsonPresenter | _TextPresenter") -> int:
    presenter.show_start(agent.model)
    try:
        async for event in agent.stream(prompt):
            presenter.show_event(event)
            if isinstance(event, RunDone):
                return 0 if event.result.stop == "end" else 3
    except ToolglotError as error:
        presenter.show_failure(error.type, await describe_error(error, agent.engine))
        return 1
    finally:
        await agent.engine.close()
    raise AssertionError("a run ends with RunDone")


class _JsonPresenter:
    """One JSON object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out.buffer

    def _write(self, value: Any) -> None:
        self._out.write(dumps(value) + b"\n")
        self._out.flush()

    def show_start(self, model: str) -> None:
        self._write({"type": "RunStarted", "version": EVENTS_VERSION, "model": model})

    def show_event(self, event: RunEvent) -> None:
        self._write(event)

    def show_failure(self, kind: str, message: str) -> None:
        self._write({"type": "RunFailed", "error": {"type": kind, "message": message}})


class _TextPresenter:
    """The answer as text; calls and what went wrong in grey on a terminal's stderr."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._sanitize = escape_controls if out.isatty() else str
        self._is_live = sys.stderr.isatty()
        self._use_color = self._is_live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._at_line_start = True

    def show_start(self, model: str) -> None:
        self._print_note(f"{model}", "2")

    def show_event(self, event: RunEvent) -> None:
        match event:
            case TextDelta():
                self._out.write(self._sanitize(event.text))
                self._out.flush()
                self._at_line_start = event.text.endswith("\n")
            case ToolStarted():
                self._print_note(f"→ {event.call.name} {shorten(format_arguments(event.call), 100)}", "36")
            case ToolProgress():
                self._print_note(f"  {event.text}", "2")
            case ToolFinished():
                result = event.outcome.result
                sign, colour = ("✗", "31") if result.is_error else ("←", "2")
                self._print_note(
                    f"{sign} {event.outcome.call.name} {event.outcome.seconds:.2f} s  {shorten(result.text, 100)}", colour
                )
            case Retrying():
                self._print_note(f"asked again in {event.seconds:.1f} s: {event.why}", "33")
            case ModelSwitched():
                self._print_note(f"going on with {event.model}: {event.why}", "33")
            case ContextCut():
                self._print_note(event.said, "33")
            case RunDone():
                self._show_end(event.result)
            case _:
                pass

    def _show_end(self, result: RunResult) -> None:
        self._end_line()
        for loss in result.losses:
            print(f"toolglot: lost: {escape_invisible(str(loss))}", file=sys.stderr)
        if result.stop != "end":
            waiting = ", ".join(call.name for call in result.pending)
            why = (
                f"approval of {waiting} is needed (--yes gives it)"
                if result.stop == "approval"
                else f"it stopped early: {result.stop}"
            )
            print(f"toolglot: {why}", file=sys.stderr)

    def show_failure(self, kind: str, message: str) -> None:
        self._end_line()
        print(f"toolglot: {escape_invisible(message)}", file=sys.stderr)

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._out.write("\n")
            self._out.flush()
            self._at_line_start = True

    def _print_note(self, text: str, colour: str) -> None:
        if self._is_live:
            self._end_line()
            text = escape_invisible(text)
            print(f"\x1b[{colour}m{text}\x1b[0m" if self._use_color else text, file=sys.stderr, flush=True)
