"""The tools with which a model runs commands: `shell`, and `shell_output`, `shell_kill`, `shell_list` for what goes on running.

Laws: a command is held by the best sandbox that was found to work here; which one it was is in every result. Outside of it runs
only what somebody has said yes to. Everything ends with the toolbox, and with the process.
"""

import asyncio
import inspect
import os
import shlex
import shutil
import subprocess
import time
import weakref
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec

from toolglot.builtin.shell.environment import validate_environment
from toolglot.builtin.shell.manager import Job, SessionInfo, ShellManager, ShellOptions, ShellResult
from toolglot.builtin.shell.output import Excerpt, OutputLimit, make_excerpt
from toolglot.builtin.shell.protected_paths import ProtectedSnapshot, take_snapshots
from toolglot.builtin.shell.sandbox import SandboxLevel, build_program_argv, build_shell_argv
from toolglot.builtin.shell.session import ShellSession
from toolglot.builtin.tool_state import ToolState, UserQuestion, to_data
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["close_shell", "shell_tools"]

DEFAULT_TIMEOUT, MAX_TIMEOUT = 120.0, 7200.0
DEFAULT_OUTPUT, MAX_OUTPUT = 30_000, 200_000
_MAX_COMMAND_BYTES = 100_000  # bytes; the kernel takes little more in one word
_MAX_ARGUMENTS, _MAX_COMMANDS, _MAX_INPUT_BYTES = 1000, 50, 1_000_000
_FILTER_TIMEOUT = 2
_PROGRESS_INTERVAL = 1.0


_managers: "weakref.WeakKeyDictionary[ToolState, list[ShellManager]]" = weakref.WeakKeyDictionary()


def close_shell(state: ToolState) -> None:
    """Ends all commands of a toolbox."""
    for shell in _managers.pop(state, []):
        shell.close()


def shell_tools(state: ToolState, options: ShellOptions | None = None) -> list[Tool]:
    """The four tools for a toolbox. Where no sandbox works, each command has to be approved."""
    own = ShellManager(state, options)
    _managers.setdefault(state, []).append(own)
    weakref.finalize(state, own.close)
    return [_shell_tool(own), _output_tool(own), _kill_tool(own), _list_tool(own)]


# ---- the tools


def _shell_tool(manager: ShellManager) -> Tool:
    @tool(
        name="shell",
        effects=(
            "read",
            "write",
            "execute",
            *(("network",) if manager.options.network or manager.level is SandboxLevel.NONE else ()),
        ),
        approval=True if manager.level is SandboxLevel.NONE else None,
        timeout=MAX_TIMEOUT + 60,
        max_result=2 * MAX_OUTPUT,
        target=_target,
        preview=_preview,
        examples=[
            {"input": {"command": "git status --short"}},
            {"input": {"command": "npm run dev", "background": True, "description": "starts the development server"}},
        ],
    )
    async def shell(
        context: Context,
        command: str | None = None,
        argv: list[str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        inactivity_timeout: float | None = None,
        background: bool = False,
        yield_after: float | None = None,
        tty: bool = False,
        stdin: str | None = None,
        max_output: int = DEFAULT_OUTPUT,
        description: str = "",
        login: bool = False,
        escalate: bool = False,
        restart: bool = False,
        env: dict[str, str] | None = None,
        then: list[str] | None = None,
        head_share: float | None = None,
    ) -> ToolOutput:
        """Runs a command with bash in a sandbox: the workspace can be written, the rest only read, usually without network.

        A `cd` is kept for the next command; variables are not. Everything that a command started ends with it: use background
        for servers.

        Args:
            context: The call.
            command: The command line.
            argv: A program and its words, instead of a command line.
            cwd: The folder to run in, inside of the workspace; without it, where the last command ended.
            timeout: Seconds after which it is ended; 120 without, no limit for what runs in the background.
            inactivity_timeout: Seconds without any output after which it is ended.
            background: Starts it and returns at once, with a handle for shell_output.
            yield_after: Seconds to wait for it; then it goes on in the background.
            tty: Gives it a terminal.
            stdin: Text for its standard input, which is empty without.
            max_output: Characters of output to show; of longer output, the beginning and the end.
            description: What it does, in a few words, for the user.
            login: Reads the user's login files first.
            escalate: Asks the user to let it run outside of the sandbox.
            restart: Ends everything that runs and goes back to the first folder; then runs the command, if there is one.
            env: More variables for the command.
            then: More command lines, which run after it one by one, whatever comes of those before.
            head_share: How much of output that is cut is from its beginning, 0 to 1; a third without.
        """
        if restart:
            await _restart(manager)
            if command is None and argv is None:
                return ToolOutput(
                    "Everything was ended; commands run in the workspace's first folder again.", {"restarted": True}
                )
        lines = _check_commands(command, argv, then)
        if then and (background or tty or stdin is not None or yield_after is not None):
            raise ToolError("then does not go with background, yield_after, tty or stdin: run one command", kind="validation")
        limits = _check_timeouts(timeout, inactivity_timeout, yield_after, waits=not background and yield_after is None)
        room = _check_output_limit(max_output, head_share)
        order = _RunOptions(
            cwd=cwd,
            timeouts=limits,
            output_limit=room,
            variables=validate_environment(env),
            stdin=_encode_input("stdin", stdin),
            tty=tty,
            background=background,
            yield_after=yield_after,
            login=login,
            escalate=manager.level is not SandboxLevel.NONE and escalate,
            description=description,
        )
        if order.escalate:
            await _ask_to_escalate(manager, "\n".join(lines), description)
        outputs = [await _run_command(manager, context, order, lines[0], argv)]
        for line in lines[1:]:
            try:
                outputs.append(await _run_command(manager, context, order, line))
            except ToolError as e:  # what was run before is told all the same
                outputs.append(ToolOutput(f"[not run: {e}]", None, is_error=True, error_kind=e.kind))
        return _join_outputs(lines, outputs) if then else outputs[0]

    return shell


class _RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the commands of one call are run."""

    cwd: str | None
    timeouts: tuple[float | None, float | None]
    output_limit: OutputLimit
    variables: dict[str, str]
    stdin: bytes | None
    tty: bool
    background: bool
    yield_after: float | None
    login: bool
    escalate: bool
    description: str


async def _run_command(
    manager: ShellManager, context: Context, options: _RunOptions, line: str, argv: list[str] | None = None
) -> ToolOutput:
    """Runs one command: a line, or a program and its words. Raises ToolError."""
    folder = manager.resolve_cwd(options.cwd)
    within = await asyncio.to_thread(manager.build_confinement, folder, escalated=options.escalate)
    stock: tuple[ProtectedSnapshot, ...] = ()
    if within.level is not SandboxLevel.NONE:
        names, recursive = manager.state.workspace.protected_names, within.level is SandboxLevel.LANDLOCK
        stock = await asyncio.to_thread(take_snapshots, within.roots, folder, names, recursive=recursive)
    session = ShellSession(
        manager.new_handle(),
        line,
        spill_dir=within.readable_paths[0],
        spill_after=options.output_limit.max_chars,
        separate_streams=manager.options.separate and not options.tty,
        tty=options.tty,
        keep_stdin=options.background,
        stdin=options.stdin,
        timeout=options.timeouts[0],
        inactivity_timeout=options.timeouts[1],
    )
    job = Job(session, within, stock, folder, options.description, options.background or options.yield_after is not None)
    words = partial(_build_argv, None if argv is not None else line, argv, options.login, within.max_processes)
    await asyncio.to_thread(manager.start, session, words, job, options.variables)
    wait = 0.0 if options.background and options.yield_after is None else options.yield_after
    await _wait_for_end(session, wait, context, kill=True)
    return _build_output(manager, job, options.output_limit)


def _output_tool(manager: ShellManager) -> Tool:
    @tool(
        name="shell_output",
        polls=True,
        effects=("read", "execute"),
        timeout=MAX_TIMEOUT + 60,
        max_result=2 * MAX_OUTPUT,
        target=lambda arguments: f"command {arguments.get('handle', '')}",
        preview=lambda arguments: str(arguments.get("input") or ""),
        examples=[{"input": {"handle": "1", "wait": True, "timeout": 30}}],
    )
    async def shell_output(
        context: Context,
        handle: str,
        wait: bool = False,
        timeout: float | None = None,
        tail_lines: int | None = None,
        filter: str | None = None,
        input: str | None = None,
        max_output: int = DEFAULT_OUTPUT,
        wait_first: float | None = None,
        head_share: float | None = None,
    ) -> ToolOutput:
        """Shows what a command in the background has written since the last look, and sends it input.

        Args:
            context: The call.
            handle: The handle that shell gave.
            wait: Waits until the command ends, or for the timeout.
            timeout: Seconds to wait; 30 without. Saying it means waiting.
            tail_lines: Shows the last lines of all of its output instead of what is new.
            filter: Shows only lines that match this regular expression (grep -E).
            input: Text to type into it first; a line needs its newline, and the character U+0003 is Ctrl-C in a terminal.
            max_output: Characters to show.
            wait_first: Seconds to wait before looking.
            head_share: How much of output that is cut is from its beginning, 0 to 1; a third without.
        """
        room = _check_output_limit(max_output, head_share)
        seconds = _check_seconds("timeout", timeout)
        first = _check_seconds("wait_first", wait_first)
        if tail_lines is not None and not 1 <= tail_lines <= 1_000_000:
            raise ToolError("tail_lines must be at least 1", kind="validation")
        data = _encode_input("input", input)
        job = manager.find_job(handle)
        if data:
            if job.confinement.level < manager.level:  # somebody has said yes to the command, not to what is typed into it
                await _ask_to_escalate(manager, f"{job.session.command}\nwith the input: {input}", "")
            job.session.send_input(data)
        if wait or timeout is not None or first:
            pause = max(seconds if seconds is not None else 30.0 if wait else 0.0, first or 0.0)
            await _wait_for_end(job.session, pause, context, kill=False)
        text = await asyncio.to_thread(_excerpt_output, job, room, tail_lines, filter)
        return _build_output(manager, job, room, text)

    return shell_output


def _kill_tool(manager: ShellManager) -> Tool:
    @tool(
        name="shell_kill",
        effects="execute",
        idempotent=True,
        target=lambda arguments: f"command {arguments.get('handle', '')}",
        examples=[{"input": {"handle": "1"}}],
    )
    async def shell_kill(context: Context, handle: str) -> ToolOutput:
        """Ends a command in the background, with everything that it started.

        Args:
            context: The call.
            handle: The handle that shell gave.
        """
        job = manager.find_job(handle)
        was_running = job.session.is_running
        job.session.kill()
        await _wait_for_end(job.session, 10.0, context, kill=False)
        text = _excerpt_output(job, OutputLimit(DEFAULT_OUTPUT), None, None)
        result = manager.build_result(job, OutputLimit(DEFAULT_OUTPUT), excerpt=text)
        said = "was ended" if was_running else f"had ended before, with exit code {result.exit_code}"
        rest = f" What it wrote last:\n{result.output}" if result.output else ""
        return ToolOutput(f"The command {job.session.handle} {said}.{rest}", to_data(result))

    return shell_kill


def _list_tool(manager: ShellManager) -> Tool:
    @tool(name="shell_list", polls=True, effects="read", inline=True, idempotent=True, examples=[{"input": {}}])
    def shell_list() -> ToolOutput:
        """Lists the commands in the background: those that run, and those that ended not long ago."""
        found = [_describe_session(job.session) for job in manager.list_jobs()]
        lines = [
            f"{one.handle}: {_describe_status(one)}, {one.unread_bytes} bytes not read: {one.command[:200]}" for one in found
        ]
        return ToolOutput("\n".join(lines) or "No commands run in the background.", {"sessions": to_data(found)})

    return shell_list


# ---- what the tools share


async def _wait_for_end(session: ShellSession, seconds: float | None, context: Context, *, kill: bool) -> None:
    """Until the command ends, or for so many seconds; who waits is told how far it is. `kill`: it ends where nobody waits."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell() -> None:
        loop.call_soon_threadsafe(settle)

    session.on_end(tell)
    until = None if seconds is None else loop.time() + seconds
    said = ""
    try:
        while not ended.done():
            left = _PROGRESS_INTERVAL if until is None else min(_PROGRESS_INTERVAL, until - loop.time())
            if left <= 0:
                return
            await asyncio.wait([ended], timeout=left)
            if not ended.done() and (line := session.output.last_line()) and line != said:
                said = line
                context.report(line)
    except BaseException:
        if kill:
            session.kill("cancelled")
        raise


def _build_output(manager: ShellManager, job: Job, limit: OutputLimit, excerpt: Excerpt | None = None) -> ToolOutput:
    if not job.session.is_running and isinstance(job.session.failure, Exception):
        manager.forget(job)
        raise job.session.failure
    result = manager.build_result(job, limit, excerpt=excerpt)
    if not result.running and excerpt is None:
        manager.forget(job)
    parts = [result.output.rstrip("\n") or "(no output)", *(f"[{note}]" for note in (*_describe_end(result), *result.notes))]
    wrong = result.timed_out and not result.running
    return ToolOutput("\n".join(parts), to_data(result), is_error=wrong, error_kind="timeout" if wrong else None)


def _join_outputs(lines: list[str], outputs: list[ToolOutput]) -> ToolOutput:
    """Several commands as one result."""
    text = "\n\n".join(f"$ {line}\n{output.content}" for line, output in zip(lines, outputs, strict=True))
    wrong = next((output for output in outputs if output.is_error), None)
    data = {"results": [output.data for output in outputs]}
    return ToolOutput(text, data) if wrong is None else ToolOutput(text, data, is_error=True, error_kind=wrong.error_kind)


def _describe_end(result: ShellResult) -> list[str]:
    found: list[str] = []
    if result.running:
        found.append(f"still running after {result.seconds:.1f} s: read on with shell_output(handle={result.handle!r})")
    elif result.ended:
        words = {"timeout": "it took too long", "inactivity": "it wrote nothing for too long", "output": "it wrote too much"}
        why = words.get(result.ended, result.ended)
        found.append(f"ended after {result.seconds:.1f} s with everything that it started: {why}")
    elif result.exit_code:
        by = f", by signal {result.signal}" if result.signal else ""
        found.append(f"exit code {result.exit_code}{by}")
    if result.truncated and result.spill:
        found.append(f"{'all' if result.spill_is_whole else 'the first 100 MB'} of the output is in {result.spill}")
    return found


def _build_argv(command: str | None, argv: list[str] | None, login: bool, max_processes: int, cwd_fd: int) -> list[str]:
    if command is not None:
        return build_shell_argv(command, login=login, cwd_fd=cwd_fd, max_processes=max_processes)
    return build_program_argv(argv or [], max_processes)


def _excerpt_output(job: Job, limit: OutputLimit, tail_lines: int | None, pattern: str | None) -> Excerpt:
    """What is new of the output, or its last lines; only lines that match."""
    output = job.session.output
    head, gap, tail = output.read_from(0 if tail_lines is not None else job.session.shown_bytes)
    part = make_excerpt(
        head, gap, tail, OutputLimit(max(limit.max_chars, 2_000_000)) if pattern or tail_lines is not None else limit
    )
    if pattern is None and tail_lines is None:
        return part
    text = part.text if pattern is None else _filter_lines(part.text, pattern)
    lines = text.splitlines(keepends=True)
    if tail_lines is not None:
        lines = lines[-tail_lines:]
    text = "".join(lines)
    return make_excerpt(text.encode("utf-8", "replace"), 0, b"", limit)


def _filter_lines(text: str, pattern: str) -> str:
    """Lines that match, by grep, whose time is bounded by its input. Raises ToolError."""
    program = shutil.which("grep", path="/usr/bin:/bin")
    if "\0" in pattern or len(pattern) > 1000 or program is None:
        raise ToolError("filter cannot be used: it is too long, holds a NUL byte, or there is no grep", kind="validation")
    try:
        data = text.encode("utf-8", "replace")
        found = subprocess.run(
            [program, "-aE", "-e", pattern],
            input=data,
            capture_output=True,
            timeout=_FILTER_TIMEOUT,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise ToolError("filter took too long: use a simpler expression", kind="validation") from None
    if found.returncode > 1:
        said = found.stderr.decode(errors="replace").strip().rpartition(":")[2].strip()
        raise ToolError(f"filter {pattern[:80]!r} is not a regular expression: {said}", kind="validation")
    return found.stdout.decode("utf-8", "replace")


async def _restart(manager: ShellManager) -> None:
    jobs = manager.list_jobs()
    for job in jobs:
        job.session.kill()
    for job in jobs:
        await asyncio.to_thread(job.session.join, 5.0)
    manager.state.cwd = ""


async def _ask_to_escalate(manager: ShellManager, command: str, description: str) -> None:
    """Somebody says yes to a command outside of the sandbox. Raises ToolError."""
    ask = manager.state.ask
    if ask is None:
        raise ToolError("nobody can be asked to let a command run outside of the sandbox: run it inside", kind="not_allowed")
    why = f" ({description[:500]})" if description else ""
    options = (
        {"label": "yes", "description": "run it with all rights of the user"},
        {"label": "no", "description": "do not run it"},
    )
    question = UserQuestion(
        question=f"Run outside of the sandbox{why}? {command}", header="sandbox", kind="yesno", options=options
    )
    found = ask([question])
    answers = await found if inspect.isawaitable(found) else found
    said = answers[0] if answers else ""
    if str(said[0] if isinstance(said, list) and said else said).strip().casefold() not in ("yes", "y", "true"):
        raise ToolError("the user does not want this command to run outside of the sandbox", kind="rejected")


def _describe_session(session: ShellSession) -> SessionInfo:
    ended = not session.is_running
    return SessionInfo(
        handle=session.handle,
        command=session.command,
        pid=session.pid,
        running=not ended,
        seconds=round(session.duration if ended else time.monotonic() - session.started_at, 3),
        exit_code=session.exit_code if ended else None,
        ended=session.end_reason,
        total_bytes=session.output.total_bytes,
        unread_bytes=session.output.total_bytes - session.shown_bytes,
    )


def _describe_status(session: SessionInfo) -> str:
    if session.running:
        return f"running for {session.seconds:.1f} s"
    return f"ended ({session.ended})" if session.ended else f"ended with exit code {session.exit_code}"


def _target(arguments: dict[str, Any]) -> str:
    more = cast(list[Any], arguments.get("then") or [])
    return "\n".join([_command_line(arguments.get("command"), arguments.get("argv")), *map(str, more)])


def _preview(arguments: dict[str, Any]) -> str:
    """The full command, where it runs and with what, for the one who approves it."""
    parts = [_target(arguments)]
    parts += [f"in: {arguments['cwd']}"] if arguments.get("cwd") else []
    parts += [f"with: {name}={value}" for name, value in cast(dict[str, Any], arguments.get("env") or {}).items()]
    parts += ["OUTSIDE OF THE SANDBOX"] if arguments.get("escalate") else []
    parts += [f"input: {arguments['stdin']}"] if arguments.get("stdin") else []
    return "\n".join(parts)


def _command_line(command: Any, argv: Any) -> str:
    if command is not None:
        return str(command)
    return shlex.join(map(str, argv or ()))


# ---- checks


def _check_commands(command: str | None, argv: list[str] | None, then: list[str] | None) -> list[str]:
    """All command lines of a call. Raises ToolError."""
    more = then or []
    if len(more) >= _MAX_COMMANDS:
        raise ToolError(f"then has {len(more)} lines; at most {_MAX_COMMANDS} commands are run in one call", kind="validation")
    return [_check_command(command, argv), *(_check_command(line, None) for line in more)]


def _check_command(command: str | None, argv: list[str] | None) -> str:
    if (command is None) == (argv is None):
        raise ToolError("give either command or argv", kind="validation")
    words = [command] if command is not None else argv or []
    if not words or not words[0].strip():
        raise ToolError(f"{'command' if command is not None else 'argv'} is empty", kind="validation")
    if len(words) > _MAX_ARGUMENTS:
        raise ToolError(f"argv has {len(words)} words; at most {_MAX_ARGUMENTS} are taken", kind="validation")
    for word in words:
        if "\0" in word:
            raise ToolError("a command cannot hold a NUL byte: write it to a file, or use printf '\\0'", kind="validation")
        try:
            size = len(os.fsencode(word))
        except UnicodeEncodeError:
            raise ToolError("the command holds half a character (a lone surrogate)", kind="validation") from None
        if size > _MAX_COMMAND_BYTES:
            raise ToolError(
                f"the command has {size} bytes, at most {_MAX_COMMAND_BYTES} are taken: write it to a file and run that",
                kind="validation",
            )
    return _command_line(command, argv)


def _check_timeouts(
    timeout: float | None, inactivity: float | None, yield_after: float | None, *, waits: bool
) -> tuple[float | None, float | None]:
    _check_seconds("yield_after", yield_after)
    usual = DEFAULT_TIMEOUT if waits and inactivity is None else MAX_TIMEOUT if waits else None
    found = _check_seconds("timeout", timeout)
    return usual if found is None else found, _check_seconds("inactivity_timeout", inactivity)


def _check_seconds(name: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value <= MAX_TIMEOUT:
        raise ToolError(f"{name} must be between 0 and {MAX_TIMEOUT:g} seconds", kind="validation")
    return value


def _check_output_limit(max_chars: int, head_fraction: float | None) -> OutputLimit:
    if not 1 <= max_chars <= MAX_OUTPUT:
        raise ToolError(f"max_output must be between 1 and {MAX_OUTPUT} characters", kind="validation")
    if head_fraction is not None and not 0 <= head_fraction <= 1:
        raise ToolError("head_share must be between 0 and 1", kind="validation")
    return OutputLimit(max_chars) if head_fraction is None else OutputLimit(max_chars, head_fraction)


def _encode_input(name: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    with suppress(UnicodeEncodeError):
        data = text.encode()
        if len(data) <= _MAX_INPUT_BYTES:
            return data
    raise ToolError(f"{name} is too long, or holds half a character", kind="validation")
