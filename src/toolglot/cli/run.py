"""`toolglot run`: run one prompt with tools. The answer goes to stdout, progress and problems to stderr.

With `--json`, every event is a JSON line `{"type": …}` on stdout, from {"type": "RunStarted", "version": 1,
"model": …} to RunDone or RunFailed; a run that cannot start writes only RunFailed.
Exit codes: 0 success, 1 failure, 2 usage error, 3 stopped early, 130 interrupted.
"""

import asyncio
import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Any, TextIO, assert_never, cast

import click

from toolglot.cli.generation import GENERATION
from toolglot.cli.jsonl import read_input
from toolglot.cli.options import AGENT, YES
from toolglot.cli.printer import ToolPrints, print_note, supports_color, write_json_line, write_text
from toolglot.cli.startup import Flags, prepare, ways_to_allow
from toolglot.cli.styled import Line
from toolglot.cli.terminal_approvals import choose_approve, has_terminal_user
from toolglot.common.sanitize import escape_invisible, shorten
from toolglot.config.setup import Setup
from toolglot.errors import RequestFailed, ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.attachments import load_attachment
from toolglot.loop.format_call import (
    describe_error,
    describe_inner_event,
    describe_losses,
    describe_stop,
    format_arguments,
)
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    BlockEvent,
    Delivered,
    InnerEvent,
    Notice,
    ReplyDone,
    ReplyStarted,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ToolFinished,
    ToolOutcome,
    ToolProgress,
    ToolStarted,
)

EVENTS_VERSION = 1


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "-a", "--attach", multiple=True, type=click.Path(path_type=Path), help="Attach a file. Repeatable."
)
@AGENT
@GENERATION
@YES
@click.option("--json", is_flag=True, help="Print every event as a JSON line.")
def run(prompt: str | None, attach: tuple[Path, ...], yes: bool, json: bool, **flags: Any) -> int:
    """Run one prompt with tools and print the answer.

    Use - as PROMPT or omit it to read stdin; otherwise piped input is appended. The simulator answers if
    neither a model nor a key is configured.

    In a terminal, you are shown each call that needs approval and asked to confirm it; elsewhere, and with
    --json, the run stops there, unless --yes, --approve or --approval-mode allows it.
    """
    try:
        return _run_prompt(_read_prompt(prompt), attach, yes, json, Flags(**flags))
    except ToolglotError as error:
        # before anything was sent; the program ends with the same sentence on stderr
        if json:
            _JsonPresenter(sys.stdout).show_failure(error.type, str(error))
        raise


def _run_prompt(prompt: str, attach: tuple[Path, ...], yes: bool, json: bool, flags: Flags) -> int:
    with prepare(flags, use_servers="wait") as cli_setup:
        cli_setup.print_notices()
        agent = cli_setup.create_agent(
            approve=choose_approve(yes=yes, has_user=not json and has_terminal_user())
        )
        content = [prompt, *map(load_attachment, attach)]
        if cli_setup.model_reason:
            print_note(cli_setup.model_reason)
        if (deferral := agent.view().deferral) is not None and deferral.is_automatic:
            print_note(deferral.message)
        shows_output = cli_setup.output_schema is not None
        presenter = (
            _JsonPresenter(sys.stdout)
            if json
            else _TextPresenter(sys.stdout, cli_setup.setup, agent, shows_output=shows_output)
        )

        async def stream() -> int:
            presenter.show_start(agent.model)
            exit_code = 1
            try:
                async for event in agent.stream(content):
                    presenter.show_event(event)
                    if isinstance(event, RunDone):
                        exit_code = 0 if event.result.stop == "end" else 3
            except ToolglotError as error:
                message = await describe_error(error, agent.view().engine, agent.tools)
                presenter.show_failure(
                    error.type, message, error if isinstance(error, RequestFailed) else None
                )
            finally:
                await agent.aclose()
            return exit_code

        stderr = presenter.wrap_stderr(sys.stderr) if isinstance(presenter, _TextPresenter) else sys.stderr
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(ToolPrints()):
            try:
                return asyncio.run(stream())
            except KeyboardInterrupt:
                presenter.show_failure("Interrupted", "interrupted; the conversation is still valid")
                return 130


def _read_prompt(prompt: str | None) -> str:
    """Combine the prompt argument with piped input. Raises UsageError if there is no prompt."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        mode = 0
    piped = ""
    # reading anything else could wait forever
    if prompt in (None, "-") or stat.S_ISFIFO(mode) or stat.S_ISREG(mode):
        try:
            piped = read_input(None).decode()
        except UnicodeDecodeError as e:
            raise UsageError(
                f"the prompt on stdin is not UTF-8 text: byte {e.start} is {e.object[e.start]:#04x}"
            ) from None
    if prompt in (None, "-"):
        prompt = piped
    elif piped.strip():
        prompt = f"{prompt}\n\n{piped}"
    if not prompt.strip():
        raise UsageError("the prompt is empty: pass one as an argument, or pipe it in")
    return prompt


class _JsonPresenter:
    """Writes one JSON object per line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show_start(self, model: str) -> None:
        write_json_line(self._out, {"type": "RunStarted", "version": EVENTS_VERSION, "model": model})

    def show_event(self, event: RunEvent) -> None:
        write_json_line(self._out, event)

    def show_failure(self, kind: str, message: str, request: RequestFailed | None = None) -> None:
        """Tell why there is no answer. `request`: what was asked of whom, if that failed."""
        error: dict[str, Any] = {"type": kind, "message": message}
        if request is not None:
            asked = {"provider": request.provider, "model": request.model, "url": request.url}
            error |= {**asked, "status": request.status, "hint": request.hint}
        write_json_line(self._out, {"type": "RunFailed", "error": error})


class _TextPresenter:
    """Writes the answer to stdout; if stderr is a terminal, shows calls and problems there.

    `shows_output`: the answer is the structured output, which a model may give as text or as a call.
    """

    def __init__(self, out: TextIO, setup: Setup, agent: Agent, *, shows_output: bool = False) -> None:
        self._out, self._setup, self._agent, self._shows_output = out, setup, agent, shows_output
        self._is_live = sys.stderr.isatty()
        self._use_color = supports_color(sys.stderr)
        self._at_line_start = True

    def show_start(self, model: str) -> None:
        self._print_note(model, "dim")

    def _show_inner(self, event: InnerEvent) -> None:
        if text := describe_inner_event(event):
            self._print_note(f"  | {text}", "dim")

    def show_event(self, event: RunEvent) -> None:
        if isinstance(event, TextDelta):
            if not self._shows_output:
                write_text(self._out, event.text)
                self._at_line_start = event.text.endswith("\n")
            return
        # a call is shown when it runs; of anything else, only text is the answer
        if isinstance(event, BlockEvent):
            return
        match event:
            case ToolStarted():
                self._print_note(f"→ {event.call.name} {shorten(format_arguments(event.call), 100)}", "cyan")
            case ToolProgress():
                self._print_note(f"  {event.text}", "dim")
            case ToolFinished():
                self._show_outcome(event.outcome)
            case Notice():
                self._print_note(event.text, "yellow")
            case RunDone():
                self._show_result(event.result)
            case InnerEvent():
                self._show_inner(event)
            case Delivered():
                self._print_note(f"> {shorten(event.message.text, 100)}", "dim")
            case ReplyStarted() | ReplyDone() | ApprovalNeeded() | AnswerNeeded():
                pass  # what waits is in the result
            case _:
                assert_never(event)

    def _show_outcome(self, outcome: ToolOutcome) -> None:
        symbol, style = ("✗", "red") if outcome.result.is_error else ("←", "dim")
        head = f"{symbol} {outcome.call.name} {outcome.seconds:.2f} s"
        self._print_note(f"{head}  {shorten(outcome.result.text, 100)}", style)

    def _show_result(self, result: RunResult[Any]) -> None:
        if self._shows_output and result.output is not None:
            write_json_line(self._out, result.output)
        self._end_line()
        notes = describe_losses(result.losses, own_tools=self._agent.view().own_tools)
        if result.stop == "approval":
            from toolglot.cli.chat.approvals import print_approvals

            requests = [item.request for item in result.pending if item.kind != "external"]
            print_approvals(requests)
            names = [request.tool for request in requests]
            ways = ways_to_allow(names, mode_helps=any(map(self._mode_would_allow, requests)))
            notes.append(f"{', '.join(names)} needs approval ({ways})")
        elif result.stop != "end":
            notes.append(describe_stop(result.stop))
        for note in notes:
            print_note(note)

    def _mode_would_allow(self, request: ApprovalRequest) -> bool:
        tool = self._agent.tools.find(request.call.name, request.call.namespace)
        return self._setup.mode_would_allow(tool, self._agent.config, request.arguments)

    def show_failure(self, kind: str, message: str, request: RequestFailed | None = None) -> None:
        self._end_line()
        print_note(message)

    def wrap_stderr(self, stderr: TextIO) -> TextIO:
        """Return a stream for logs and prints of tools; it first ends an unfinished line of the answer on the
        same terminal.
        """
        if not (self._is_live and self._out.isatty()):
            return stderr
        end_line = self._end_line

        class NoteStream:
            def write(self, text: str) -> int:
                end_line()
                return stderr.write(text)

            def __getattr__(self, name: str) -> Any:
                return getattr(stderr, name)

        return cast(TextIO, NoteStream())

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._out.write("\n")
            self._out.flush()
            self._at_line_start = True

    def _print_note(self, text: str, style: str) -> None:
        if self._is_live:
            self._end_line()
            sys.stderr.write(
                Line(escape_invisible(text), style).append("\n").render(use_color=self._use_color)
            )
            sys.stderr.flush()
