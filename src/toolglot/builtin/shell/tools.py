"""The shell tools: `shell` runs commands; `shell_output`, `shell_kill` and `shell_list` manage those that are
still running.

Commands run in the best sandbox that works here, and every result names it. Only what the user has approved
runs outside it. Everything ends with the conversation, and with the process.
"""

import asyncio
import threading
import weakref
from contextlib import suppress
from time import monotonic
from typing import Annotated, Any

from msgspec.structs import replace

from toolglot.builtin.scopes import command_subjects
from toolglot.builtin.shell.arguments import (
    DEFAULT_OUTPUT,
    MAX_OUTPUT,
    MAX_TIMEOUT,
    CommandOptions,
    OnTimeout,
    check_commands,
    check_output_limit,
    check_seconds,
    check_times,
    describe_command,
    encode_input,
    preview_command,
    preview_input,
)
from toolglot.builtin.shell.manager import ShellManager, ShellOptions, describe_session
from toolglot.builtin.shell.output import Excerpt, OutputLimit, filter_lines, make_excerpt
from toolglot.builtin.shell.session import ShellSession
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.confine.environment import validate_environment
from toolglot.confine.sandbox import SandboxLevel
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["close_shell", "reset_shell", "shell_tools"]

NO_SANDBOX = (
    "no sandbox works here (`toolglot doctor` says why); --no-sandbox, or "
    "ShellOptions(level=SandboxLevel.NONE) in Python,"
    " allows commands without one"
)
_MAX_FILTERED_CHARS = 2_000_000
_PROGRESS_INTERVAL = 1.0

_managers: "weakref.WeakKeyDictionary[ToolState, list[ShellManager]]" = weakref.WeakKeyDictionary()


def close_shell(state: ToolState) -> None:
    """End all commands of a conversation."""
    for manager in _managers.pop(state, []):
        manager.close()


def reset_shell(state: ToolState) -> None:
    """End all commands, as a new conversation begins."""
    for manager in _managers.get(state, []):
        manager.reset()


def shell_tools(state: ToolState, options: ShellOptions | None = None) -> list[Tool]:
    """Return the four tools.

    Where no sandbox works, each command needs an answer of its own, unless the level is NONE.
    """
    manager = ShellManager(state, options)
    _managers.setdefault(state, []).append(manager)
    weakref.finalize(state, manager.close)
    methods, has_sandbox = _ShellTools(manager), manager.level is not SandboxLevel.NONE
    network = () if has_sandbox and not manager.options.network else ("network",)
    examples = [
        {"input": {"command": "git status --short"}},
        {
            "input": {
                "command": "npm run dev",
                "background": True,
                "description": "start the development server",
            }
        },
    ]
    timeout, max_result = MAX_TIMEOUT + 60, 2 * MAX_OUTPUT  # the executor's limits must not come before ours
    return [
        tool(
            effects=("read", "write", "execute", *network),
            action="execute",
            verb="",  # a command needs none
            scope=command_subjects,
            timeout=timeout,
            max_result=max_result,
            always_ask=methods.why_shell_asks,
            confined=methods.is_confined,
            target=describe_command,
            preview=methods.preview_shell,
            examples=examples,
        )(methods.shell),
        tool(
            polls=True,  # the same call again and again is not a loop: it waits for output
            effects=("read", "execute"),
            action="execute",
            verb="Output of",
            # what is typed into a command is like a command
            quiet=lambda arguments: not arguments.get("input"),
            timeout=timeout,
            max_result=max_result,
            always_ask=methods.why_input_asks,
            confined=methods.is_input_confined,
            target=lambda arguments: f"command {arguments.get('handle', '')}",
            preview=methods.preview_input,
            examples=[{"input": {"handle": "1", "wait": True, "timeout": 30}}],
        )(methods.shell_output),
        tool(
            effects="execute",
            action="execute",
            verb="Stop",
            quiet=True,
            idempotent=True,
            target=lambda arguments: f"command {arguments.get('handle', '')}",
            examples=[{"input": {"handle": "1"}}],
        )(methods.shell_kill),
        tool(
            polls=True,
            effects="read",
            action="execute",
            verb="List commands",
            inline=True,
            idempotent=True,
            examples=[{"input": {}}],
        )(methods.shell_list),
    ]


class _ShellTools:
    def __init__(self, manager: ShellManager) -> None:
        self._manager = manager

    # ---- for whoever approves a call

    def why_shell_asks(self, arguments: dict[str, Any]) -> str:
        """Return why a command needs an answer of its own; "" if it does not."""
        if self._manager.level is not SandboxLevel.NONE:
            return "it runs outside the sandbox" if arguments.get("escalate") else ""
        return "" if self._manager.options.level is not None else NO_SANDBOX

    def is_confined(self, arguments: dict[str, Any]) -> bool:
        """Whether a command would run in a sandbox that holds here, without network."""
        return self._manager.is_confined and not arguments.get("escalate")

    def is_input_confined(self, arguments: dict[str, Any]) -> bool:
        """Whether what is typed goes to a command in the sandbox, or nothing is typed."""
        if not arguments.get("input"):
            return self._manager.is_confined
        session = self._find_typing(arguments)
        return session is not None and not self._is_outside(session) and self._manager.is_confined

    def preview_shell(self, arguments: dict[str, Any]) -> str:
        """Return what a command would do."""
        directory = "." if arguments.get("restart") and not arguments.get("cwd") else arguments.get("cwd")
        return preview_command(arguments, self._manager.describe_directory(directory))

    def why_input_asks(self, arguments: dict[str, Any]) -> str:
        """Return why input for a command needs an answer of its own; "" if it does not."""
        if (session := self._find_typing(arguments)) is None:
            return ""
        return (
            "it is typed into a command outside the sandbox"
            if self._is_outside(session)
            else self.why_shell_asks({})
        )

    def preview_input(self, arguments: dict[str, Any]) -> str:
        """Return what would be typed, and into which command."""
        if (session := self._find_typing(arguments)) is None:
            return ""
        command = session.command.replace("\n", "\n> ")
        place = ["OUTSIDE THE SANDBOX, with all rights of the user"] if self._is_outside(session) else []
        return "\n".join(
            ["types into", f"$ {command}", *place, "input:", preview_input(str(arguments["input"]))]
        )

    def _find_typing(self, arguments: dict[str, Any]) -> ShellSession | None:
        if not arguments.get("input"):
            return None
        with suppress(ToolError):
            return self._manager.find_session(str(arguments.get("handle", "")), "type")
        return None

    def _is_outside(self, session: ShellSession) -> bool:
        return session.confinement.level < self._manager.level

    # ---- the tools

    async def shell(  # noqa: D417
        self,
        context: Context,
        command: str = "",
        cwd: str | None = None,
        timeout: float | None = None,
        background: bool = False,
        tty: bool = False,
        stdin: str | None = None,
        description: str = "",
        escalate: bool = False,
        argv: Annotated[list[str] | None, Internal] = None,
        inactivity_timeout: Annotated[float | None, Internal] = None,
        yield_after: Annotated[float | None, Internal] = None,
        max_output: Annotated[int, Internal] = DEFAULT_OUTPUT,
        login: Annotated[bool, Internal] = False,
        restart: Annotated[bool, Internal] = False,
        env: Annotated[dict[str, str] | None, Internal] = None,
        then: Annotated[list[str] | None, Internal] = None,
        head_share: Annotated[float | None, Internal] = None,
        keep_escapes: Annotated[bool, Internal] = False,
        on_timeout: Annotated[OnTimeout, Internal] = "kill",
    ) -> ToolOutput:
        """Run a command with bash in a sandbox: only the workspace is writable, and there is usually no network.

        The working directory persists between commands; variables do not. When a command ends, everything it started is
        killed: use background for servers. To read, edit or search files, prefer the tools made for that.

        Args:
            command: Command line to run (required).
            cwd: Directory to run in, inside the workspace (default: where the last command ended).
            timeout: Seconds after which the command is killed (0-7200, default 120; no limit in the background).
            background: Return at once with a handle, and keep the command running (default false).
            tty: Run the command in a terminal, for programs that need one (default false).
            stdin: Text for the standard input (default: empty).
            description: What the command does, in a few words, for the user.
            escalate: Ask the user to run the command outside the sandbox (default false).
        """
        if restart:
            await asyncio.to_thread(self._manager.restart)
            if not command and argv is None:
                return ToolOutput(
                    "All commands were killed; the next one runs in the workspace's root.",
                    {"restarted": True},
                )
        lines = check_commands(command, argv, then)
        needs_session = background or yield_after is not None or tty or stdin is not None
        if then and needs_session:
            raise invalid_argument(
                "then", "works only for commands that run in the foreground without a terminal or input"
            )
        has_sandbox = self._manager.level is not SandboxLevel.NONE
        times = check_times(
            timeout, inactivity_timeout, yield_after, background=background, on_timeout=on_timeout
        )
        options = CommandOptions(
            cwd=cwd,
            **times,
            output_limit=check_output_limit(max_output, head_share, keep_escapes=keep_escapes),
            variables=validate_environment(env),
            stdin=encode_input("stdin", stdin),
            tty=tty,
            background=background,
            login=login,
            escalate=escalate and has_sandbox,
            description=description,
        )
        return await self._run_commands(context, options, lines, argv)

    async def shell_output(  # noqa: D417
        self,
        context: Context,
        handle: str,
        wait: bool = False,
        timeout: float | None = None,
        tail_lines: int | None = None,
        filter: str | None = None,
        input: str | None = None,
        max_output: Annotated[int, Internal] = DEFAULT_OUTPUT,
        wait_first: Annotated[float | None, Internal] = None,
        head_share: Annotated[float | None, Internal] = None,
        keep_escapes: Annotated[bool, Internal] = False,
        forget_ended: Annotated[bool, Internal] = False,
    ) -> ToolOutput:
        """Show what a background command has written since the last call, and optionally send it input.

        Args:
            handle: Handle of the session, as returned when the command was started.
            wait: Wait until the command ends or the timeout has passed (default false).
            timeout: Seconds to wait (0-7200, default 30). Setting it implies wait=true.
            tail_lines: Show the last lines of the whole output instead of what is new.
            filter: Show only lines that match this regular expression (grep -E).
            input: Text to send first. End a line with a newline; in a terminal, U+0003 is Ctrl-C.
        """
        started_at = monotonic()
        limit = check_output_limit(max_output, head_share, keep_escapes=keep_escapes)
        seconds = check_seconds("timeout", timeout)
        first = check_seconds("wait_first", wait_first)
        if tail_lines is not None and not 1 <= tail_lines <= 1_000_000:
            raise invalid_argument("tail_lines", f"is {tail_lines}; it must be 1 or more")
        data = encode_input("input", input)
        session = self._manager.find_session(handle, "type" if data else "read")
        if data:
            if self._is_outside(session):  # the user approved the command, not what is typed into it
                _require_approval(context)
            session.send_input(data)
        if wait or seconds is not None or first:
            pause = 30.0 if wait else 0.0
            if seconds is not None:
                pause = seconds
            await _wait_for_end(session, max(pause, first or 0.0), context)
        output = await asyncio.to_thread(
            self._build_output, session, limit, tail_lines, filter, handle, started_at
        )
        if forget_ended and not output.data["running"]:
            self._manager.forget(session)
        return output

    async def shell_kill(self, context: Context, handle: str) -> ToolOutput:  # noqa: D417
        """Kill a background command and everything it started.

        Args:
            handle: Handle of the session, as returned when the command was started.
        """
        session = self._manager.find_session(handle)
        was_running = session.is_running
        session.kill()
        await _wait_for_end(session, 10.0, context)
        excerpt = _excerpt_output(session, OutputLimit(DEFAULT_OUTPUT))
        result = await asyncio.to_thread(self._manager.build_result, session, excerpt)
        status = "was killed" if was_running else f"had already ended with exit code {result.exit_code}"
        output = f" Its last output:\n{result.output}" if result.output else ""
        notes = "".join(f"\n[{note}]" for note in result.notes)
        text = f"The command {session.handle} {status}.{output.rstrip()}{notes}"
        return ToolOutput(text, {**to_data(result), "was_running": was_running})

    def shell_list(self) -> ToolOutput:
        """List background commands: running ones, and those that ended recently."""
        sessions = [describe_session(session) for session in self._manager.list_sessions()]
        lines: list[str] = []
        for session in sessions:
            status = f"running for {session.seconds:.1f} s"
            if not session.running:
                status = (
                    f"ended ({session.ended})"
                    if session.ended
                    else f"ended with exit code {session.exit_code}"
                )
            lines.append(
                f"{session.handle}: {status}, {session.unread_bytes} unread bytes: {session.command[:200]}"
            )
        return ToolOutput(
            "\n".join(lines) or "There are no background commands.", {"sessions": to_data(sessions)}
        )

    # ---- running commands

    async def _run_commands(
        self, context: Context, options: CommandOptions, lines: list[str], argv: list[str] | None
    ) -> ToolOutput:
        if self.why_shell_asks({"escalate": options.escalate}):
            _require_approval(context)
        outputs = [await self._run_command(context, options, lines[0], argv)]
        if len(lines) == 1:
            return outputs[0]
        for line in lines[1:]:
            try:
                outputs.append(await self._run_command(context, options, line, None))
            except ToolError as e:  # the results of the commands before must not be lost
                outputs.append(ToolOutput(f"[not run: {e}]", None, is_error=True, error_kind=e.kind))
        text = "\n\n".join(f"$ {line}\n{output.content}" for line, output in zip(lines, outputs, strict=True))
        data = {"results": [output.data for output in outputs]}
        failure = next((output for output in outputs if output.is_error), None)
        if failure is None:
            return ToolOutput(text, data)
        return ToolOutput(text, data, is_error=True, error_kind=failure.error_kind)

    async def _run_command(
        self, context: Context, options: CommandOptions, line: str, argv: list[str] | None
    ) -> ToolOutput:
        session = await self._start(line, argv, options)
        seconds = 0.0 if options.background and options.yield_after is None else options.yield_after
        try:
            await _wait_for_end(session, seconds, context)
            if options.on_timeout == "background" and session.is_running:
                session.output.open_spill()
            # In a thread, as it looks for protected files in the whole workspace.
            output = await asyncio.to_thread(self._build_output, session, options.output_limit)
        except BaseException:  # nobody gets its handle
            session.kill("cancelled")
            raise
        if not output.data["running"]:
            self._manager.forget(session)
        return output

    async def _start(self, line: str, argv: list[str] | None, options: CommandOptions) -> ShellSession:
        """Start a command in a thread, as that reads directories and files."""
        started: list[ShellSession] = []
        is_cancelled = threading.Event()

        def start() -> ShellSession:
            started.append(self._manager.start(line, argv, options))
            if is_cancelled.is_set():
                started[0].kill("cancelled")
            return started[0]

        try:
            return await asyncio.to_thread(start)
        except asyncio.CancelledError:  # the thread goes on, but what it starts must not outlive the call
            is_cancelled.set()
            for session in started:
                session.kill("cancelled")
            raise

    def _build_output(
        self,
        session: ShellSession,
        limit: OutputLimit,
        tail_lines: int | None = None,
        pattern: str | None = None,
        handle: str | None = None,
        started_at: float | None = None,
    ) -> ToolOutput:
        """Return the result of a call; `started_at`: when it began, if the command was running before."""
        # The sandbox may fail after the process has started, so start() did not raise it.
        if not session.is_running and isinstance(session.failure, Exception):
            self._manager.forget(session)
            raise session.failure
        result = self._manager.build_result(
            session, _excerpt_output(session, limit, tail_lines, pattern), handle
        )
        notes = [f"[{note}]" for note in (*result.describe_end(), *result.notes)]
        text = "\n".join([result.output.rstrip("\n") or "(no output)", *notes])
        is_error = result.timed_out and not result.running
        seconds = result.seconds if started_at is None else round(monotonic() - started_at, 4)
        result = replace(result, call_seconds=seconds)
        kind, code = ("timeout", "command_timeout") if is_error else (None, "")
        return ToolOutput(text, to_data(result), is_error, kind, code)


def _require_approval(context: Context) -> None:
    """Raises ToolError unless somebody has approved this very call.

    The policy asks; this holds if it was not consulted.
    """
    if not context.approved:
        message = "nobody has approved this outside the sandbox: run it inside"
        raise ToolError(message, kind="not_allowed", code="user_unavailable")


async def _wait_for_end(session: ShellSession, seconds: float | None, context: Context) -> None:
    """Wait until the command ends or the seconds have passed, reporting progress."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def set_ended() -> None:  # called by the session's thread, perhaps after this wait was given up
        loop.call_soon_threadsafe(lambda: ended.done() or ended.set_result(None))

    session.on_end(set_ended)
    deadline = None if seconds is None else loop.time() + seconds
    last_report = ""
    while not ended.done():
        pause = _PROGRESS_INTERVAL if deadline is None else min(_PROGRESS_INTERVAL, deadline - loop.time())
        if pause <= 0:
            return
        await asyncio.wait([ended], timeout=pause)
        if ended.done():
            return
        line = session.output.last_line()
        if line and line != last_report:
            last_report = line
            context.report(line)


def _excerpt_output(
    session: ShellSession, limit: OutputLimit, tail_lines: int | None = None, pattern: str | None = None
) -> Excerpt:
    """Return the new output, or its last lines; only lines that match the pattern. Raises ToolError."""
    offset = 0 if tail_lines is not None else session.shown_bytes
    head, gap, tail = session.take_output(offset)
    if pattern is None and tail_lines is None:
        return make_excerpt(head, gap, tail, limit)
    text = make_excerpt(head, gap, tail, OutputLimit(max(limit.max_chars, _MAX_FILTERED_CHARS))).text
    if pattern is not None:
        text = filter_lines(text, pattern)
    if tail_lines is not None:
        text = "".join(text.splitlines(keepends=True)[-tail_lines:])
    return replace(make_excerpt(text.encode("utf-8", "replace"), 0, b"", limit), line_count=None)
