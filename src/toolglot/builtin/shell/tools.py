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

from toolglot.builtin.shell.environment import checked_environment
from toolglot.builtin.shell.guard import Stock, take_stock
from toolglot.builtin.shell.output import Room, Shown, shown
from toolglot.builtin.shell.running import Job, SessionResult, Shell, ShellOptions, ShellResult
from toolglot.builtin.shell.sandbox import Level, program_words, shell_words
from toolglot.builtin.shell.session import Session
from toolglot.builtin.toolbox import Question, Toolbox, built
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["close_shell", "shell_tools"]

USUAL_TIMEOUT, LONGEST_TIMEOUT = 120.0, 7200.0
USUAL_OUTPUT, MOST_OUTPUT = 30_000, 200_000
_LONGEST_COMMAND = 100_000  # bytes; the kernel takes little more in one word
_MOST_WORDS, _MOST_LINES, _LONGEST_INPUT = 1000, 50, 1_000_000
_FILTER_SECONDS = 2
_PROGRESS = 1.0


_shells: "weakref.WeakKeyDictionary[Toolbox, list[Shell]]" = weakref.WeakKeyDictionary()


def close_shell(box: Toolbox) -> None:
    """Ends all commands of a toolbox."""
    for shell in _shells.pop(box, []):
        shell.close()


def shell_tools(box: Toolbox, options: ShellOptions | None = None) -> list[Tool]:
    """The four tools for a toolbox. Where no sandbox works, each command has to be approved."""
    own = Shell(box, options)
    _shells.setdefault(box, []).append(own)
    weakref.finalize(box, own.close)
    return [_shell_tool(own), _output_tool(own), _kill_tool(own), _list_tool(own)]


# ---- the tools


def _shell_tool(own: Shell) -> Tool:
    @tool(
        name="shell",
        effects=("read", "write", "execute", *(("network",) if own.options.network or own.level is Level.NONE else ())),
        approval=True if own.level is Level.NONE else None,
        timeout=LONGEST_TIMEOUT + 60,
        max_result=2 * MOST_OUTPUT,
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
        max_output: int = USUAL_OUTPUT,
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
            await _restart(own)
            if command is None and argv is None:
                return ToolOutput(
                    "Everything was ended; commands run in the workspace's first folder again.", {"restarted": True}
                )
        lines = _checked_lines(command, argv, then)
        if then and (background or tty or stdin is not None or yield_after is not None):
            raise ToolError("then does not go with background, yield_after, tty or stdin: run one command", kind="validation")
        limits = _checked_limits(timeout, inactivity_timeout, yield_after, waits=not background and yield_after is None)
        room = _checked_room(max_output, head_share)
        order = _Order(
            cwd=cwd,
            limits=limits,
            room=room,
            extra=checked_environment(env),
            stdin=_checked_input("stdin", stdin),
            tty=tty,
            background=background,
            yield_after=yield_after,
            login=login,
            escalated=own.level is not Level.NONE and escalate,
            description=description,
        )
        if order.escalated:
            await _asked(own, "\n".join(lines), description)
        outputs = [await _run(own, context, order, lines[0], argv)]
        for line in lines[1:]:
            try:
                outputs.append(await _run(own, context, order, line))
            except ToolError as e:  # what was run before is told all the same
                outputs.append(ToolOutput(f"[not run: {e}]", None, is_error=True, error_kind=e.kind))
        return _together(lines, outputs) if then else outputs[0]

    return shell


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """How the commands of one call are run."""

    cwd: str | None
    limits: tuple[float | None, float | None]
    room: Room
    extra: dict[str, str]
    stdin: bytes | None
    tty: bool
    background: bool
    yield_after: float | None
    login: bool
    escalated: bool
    description: str


async def _run(own: Shell, context: Context, order: _Order, line: str, argv: list[str] | None = None) -> ToolOutput:
    """Runs one command: a line, or a program and its words. Raises ToolError."""
    folder = own.where(order.cwd)
    within = await asyncio.to_thread(own.confinement, folder, escalated=order.escalated)
    stock: tuple[Stock, ...] = ()
    if within.level is not Level.NONE:
        names, closely = own.box.workspace.protected, within.level is Level.LANDLOCK
        stock = await asyncio.to_thread(take_stock, within.roots, folder, names, closely=closely)
    session = Session(
        own.new_handle(),
        line,
        spills=within.readable[0],
        spill_after=order.room.most,
        separate=own.options.separate and not order.tty,
        tty=order.tty,
        keep_stdin=order.background,
        stdin=order.stdin,
        timeout=order.limits[0],
        inactivity=order.limits[1],
    )
    job = Job(session, within, stock, folder, order.description, order.background or order.yield_after is not None)
    words = partial(_words, None if argv is not None else line, argv, order.login, within.processes)
    await asyncio.to_thread(own.start, session, words, job, order.extra)
    wait = 0.0 if order.background and order.yield_after is None else order.yield_after
    await _until_ended(session, wait, context, kill=True)
    return _answer(own, job, order.room)


def _output_tool(own: Shell) -> Tool:
    @tool(
        name="shell_output",
        polls=True,
        effects=("read", "execute"),
        timeout=LONGEST_TIMEOUT + 60,
        max_result=2 * MOST_OUTPUT,
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
        max_output: int = USUAL_OUTPUT,
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
        room = _checked_room(max_output, head_share)
        seconds = _checked_seconds("timeout", timeout)
        first = _checked_seconds("wait_first", wait_first)
        if tail_lines is not None and not 1 <= tail_lines <= 1_000_000:
            raise ToolError("tail_lines must be at least 1", kind="validation")
        data = _checked_input("input", input)
        job = own.job(handle)
        if data:
            if job.within.level < own.level:  # somebody has said yes to the command, not to what is typed into it
                await _asked(own, f"{job.session.command}\nwith the input: {input}", "")
            job.session.send(data)
        if wait or timeout is not None or first:
            pause = max(seconds if seconds is not None else 30.0 if wait else 0.0, first or 0.0)
            await _until_ended(job.session, pause, context, kill=False)
        text = await asyncio.to_thread(_part, job, room, tail_lines, filter)
        return _answer(own, job, room, text)

    return shell_output


def _kill_tool(own: Shell) -> Tool:
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
        job = own.job(handle)
        was_running = job.session.running
        job.session.kill()
        await _until_ended(job.session, 10.0, context, kill=False)
        text = _part(job, Room(USUAL_OUTPUT), None, None)
        result = own.result(job, Room(USUAL_OUTPUT), text=text)
        said = "was ended" if was_running else f"had ended before, with exit code {result.exit_code}"
        rest = f" What it wrote last:\n{result.output}" if result.output else ""
        return ToolOutput(f"The command {job.session.handle} {said}.{rest}", built(result))

    return shell_kill


def _list_tool(own: Shell) -> Tool:
    @tool(name="shell_list", polls=True, effects="read", inline=True, idempotent=True, examples=[{"input": {}}])
    def shell_list() -> ToolOutput:
        """Lists the commands in the background: those that run, and those that ended not long ago."""
        found = [_listed(job.session) for job in own.jobs()]
        lines = [f"{one.handle}: {_state(one)}, {one.unread_bytes} bytes not read: {one.command[:200]}" for one in found]
        return ToolOutput("\n".join(lines) or "No commands run in the background.", {"sessions": built(found)})

    return shell_list


# ---- what the tools share


async def _until_ended(session: Session, seconds: float | None, context: Context, *, kill: bool) -> None:
    """Until the command ends, or for so many seconds; who waits is told how far it is. `kill`: it ends where nobody waits."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell() -> None:
        loop.call_soon_threadsafe(settle)

    session.watch(tell)
    until = None if seconds is None else loop.time() + seconds
    said = ""
    try:
        while not ended.done():
            left = _PROGRESS if until is None else min(_PROGRESS, until - loop.time())
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


def _answer(own: Shell, job: Job, room: Room, text: Shown | None = None) -> ToolOutput:
    if not job.session.running and isinstance(job.session.failure, Exception):
        own.forget(job)
        raise job.session.failure
    result = own.result(job, room, text=text)
    if not result.running and text is None:
        own.forget(job)
    parts = [result.output.rstrip("\n") or "(no output)", *(f"[{note}]" for note in (*_endings(result), *result.notes))]
    wrong = result.timed_out and not result.running
    return ToolOutput("\n".join(parts), built(result), is_error=wrong, error_kind="timeout" if wrong else None)


def _together(lines: list[str], outputs: list[ToolOutput]) -> ToolOutput:
    """Several commands as one result."""
    text = "\n\n".join(f"$ {line}\n{output.content}" for line, output in zip(lines, outputs, strict=True))
    wrong = next((output for output in outputs if output.is_error), None)
    data = {"results": [output.data for output in outputs]}
    return ToolOutput(text, data) if wrong is None else ToolOutput(text, data, is_error=True, error_kind=wrong.error_kind)


def _endings(result: ShellResult) -> list[str]:
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


def _words(command: str | None, argv: list[str] | None, login: bool, processes: int, handle: int) -> list[str]:
    if command is not None:
        return shell_words(command, login=login, handle=handle, processes=processes)
    return program_words(argv or [], processes)


def _part(job: Job, room: Room, tail_lines: int | None, wanted: str | None) -> Shown:
    """What is new of the output, or its last lines; only lines that match."""
    output = job.session.output
    head, gap, tail = output.since(0 if tail_lines is not None else job.session.read_until)
    part = shown(head, gap, tail, Room(max(room.most, 2_000_000)) if wanted or tail_lines is not None else room)
    if wanted is None and tail_lines is None:
        return part
    text = part.text if wanted is None else _matching(part.text, wanted)
    lines = text.splitlines(keepends=True)
    if tail_lines is not None:
        lines = lines[-tail_lines:]
    text = "".join(lines)
    return shown(text.encode("utf-8", "replace"), 0, b"", room)


def _matching(text: str, wanted: str) -> str:
    """Lines that match, by grep, whose time is bounded by its input. Raises ToolError."""
    program = shutil.which("grep", path="/usr/bin:/bin")
    if "\0" in wanted or len(wanted) > 1000 or program is None:
        raise ToolError("filter cannot be used: it is too long, holds a NUL byte, or there is no grep", kind="validation")
    try:
        data = text.encode("utf-8", "replace")
        found = subprocess.run(
            [program, "-aE", "-e", wanted],
            input=data,
            capture_output=True,
            timeout=_FILTER_SECONDS,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise ToolError("filter took too long: use a simpler expression", kind="validation") from None
    if found.returncode > 1:
        said = found.stderr.decode(errors="replace").strip().rpartition(":")[2].strip()
        raise ToolError(f"filter {wanted[:80]!r} is not a regular expression: {said}", kind="validation")
    return found.stdout.decode("utf-8", "replace")


async def _restart(own: Shell) -> None:
    jobs = own.jobs()
    for job in jobs:
        job.session.kill()
    for job in jobs:
        await asyncio.to_thread(job.session.join, 5.0)
    own.box.cwd = ""


async def _asked(own: Shell, line: str, description: str) -> None:
    """Somebody says yes to a command outside of the sandbox. Raises ToolError."""
    ask = own.box.ask
    if ask is None:
        raise ToolError("nobody can be asked to let a command run outside of the sandbox: run it inside", kind="not_allowed")
    why = f" ({description[:500]})" if description else ""
    options = (
        {"label": "yes", "description": "run it with all rights of the user"},
        {"label": "no", "description": "do not run it"},
    )
    question = Question(question=f"Run outside of the sandbox{why}? {line}", header="sandbox", kind="yesno", options=options)
    found = ask([question])
    answers = await found if inspect.isawaitable(found) else found
    said = answers[0] if answers else ""
    if str(said[0] if isinstance(said, list) and said else said).strip().casefold() not in ("yes", "y", "true"):
        raise ToolError("the user does not want this command to run outside of the sandbox", kind="rejected")


def _listed(session: Session) -> SessionResult:
    ended = not session.running
    return SessionResult(
        handle=session.handle,
        command=session.command,
        pid=session.pid,
        running=not ended,
        seconds=round(session.seconds if ended else time.monotonic() - session.began, 3),
        exit_code=session.exit_code if ended else None,
        ended=session.ended,
        total_bytes=session.output.total,
        unread_bytes=session.output.total - session.read_until,
    )


def _state(one: SessionResult) -> str:
    if one.running:
        return f"running for {one.seconds:.1f} s"
    return f"ended ({one.ended})" if one.ended else f"ended with exit code {one.exit_code}"


def _target(arguments: dict[str, Any]) -> str:
    more = cast(list[Any], arguments.get("then") or [])
    return "\n".join([_line(arguments.get("command"), arguments.get("argv")), *map(str, more)])


def _preview(arguments: dict[str, Any]) -> str:
    """The full command, where it runs and with what, for the one who approves it."""
    parts = [_target(arguments)]
    parts += [f"in: {arguments['cwd']}"] if arguments.get("cwd") else []
    parts += [f"with: {name}={value}" for name, value in cast(dict[str, Any], arguments.get("env") or {}).items()]
    parts += ["OUTSIDE OF THE SANDBOX"] if arguments.get("escalate") else []
    parts += [f"input: {arguments['stdin']}"] if arguments.get("stdin") else []
    return "\n".join(parts)


def _line(command: Any, argv: Any) -> str:
    if command is not None:
        return str(command)
    return shlex.join(map(str, argv or ()))


# ---- checks


def _checked_lines(command: str | None, argv: list[str] | None, then: list[str] | None) -> list[str]:
    """All command lines of a call. Raises ToolError."""
    more = then or []
    if len(more) >= _MOST_LINES:
        raise ToolError(f"then has {len(more)} lines; at most {_MOST_LINES} commands are run in one call", kind="validation")
    return [_checked_command(command, argv), *(_checked_command(line, None) for line in more)]


def _checked_command(command: str | None, argv: list[str] | None) -> str:
    if (command is None) == (argv is None):
        raise ToolError("give either command or argv", kind="validation")
    words = [command] if command is not None else argv or []
    if not words or not words[0].strip():
        raise ToolError(f"{'command' if command is not None else 'argv'} is empty", kind="validation")
    if len(words) > _MOST_WORDS:
        raise ToolError(f"argv has {len(words)} words; at most {_MOST_WORDS} are taken", kind="validation")
    for word in words:
        if "\0" in word:
            raise ToolError("a command cannot hold a NUL byte: write it to a file, or use printf '\\0'", kind="validation")
        try:
            size = len(os.fsencode(word))
        except UnicodeEncodeError:
            raise ToolError("the command holds half a character (a lone surrogate)", kind="validation") from None
        if size > _LONGEST_COMMAND:
            raise ToolError(
                f"the command has {size} bytes, at most {_LONGEST_COMMAND} are taken: write it to a file and run that",
                kind="validation",
            )
    return _line(command, argv)


def _checked_limits(
    timeout: float | None, inactivity: float | None, yields: float | None, *, waits: bool
) -> tuple[float | None, float | None]:
    _checked_seconds("yield_after", yields)
    usual = USUAL_TIMEOUT if waits and inactivity is None else LONGEST_TIMEOUT if waits else None
    found = _checked_seconds("timeout", timeout)
    return usual if found is None else found, _checked_seconds("inactivity_timeout", inactivity)


def _checked_seconds(name: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value <= LONGEST_TIMEOUT:
        raise ToolError(f"{name} must be between 0 and {LONGEST_TIMEOUT:g} seconds", kind="validation")
    return value


def _checked_room(most: int, share: float | None) -> Room:
    if not 1 <= most <= MOST_OUTPUT:
        raise ToolError(f"max_output must be between 1 and {MOST_OUTPUT} characters", kind="validation")
    if share is not None and not 0 <= share <= 1:
        raise ToolError("head_share must be between 0 and 1", kind="validation")
    return Room(most) if share is None else Room(most, share)


def _checked_input(name: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    with suppress(UnicodeEncodeError):
        data = text.encode()
        if len(data) <= _LONGEST_INPUT:
            return data
    raise ToolError(f"{name} is too long, or holds half a character", kind="validation")
