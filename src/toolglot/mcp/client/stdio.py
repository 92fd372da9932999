"""An MCP server as a child process, with its messages on stdin and stdout.

The SDK's own transport buffers lines of any length, and passes our stderr to the server. Here lines have a
limit, output that is not JSON is skipped, and the last stderr output can be shown when the server fails. The
server leads its own process group, and is killed with its children.
"""

import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from toolglot.common.loggers import get_logger
from toolglot.errors import UsageError
from toolglot.mcp.client.answers import find_answered_id, read_messages, report_overlong
from toolglot.mcp.client.launch import prepare_server
from toolglot.mcp.client.servers import McpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

__all__ = ["MAX_MESSAGE", "OutputTail", "stdio_transport"]

log = get_logger("toolglot.mcp")
MAX_MESSAGE = 32 << 20
"""Maximum bytes in one message from a server."""
_MAX_TAIL_LINES, _MAX_TAIL_LINE = 20, 300
_CHUNK = 1 << 16
_TAIL_SECONDS = 0.5
_EXIT_SECONDS = 1.5  # to exit after stdin is closed, and again after SIGTERM
# In addition to what the SDK passes on (HOME, PATH …): text encoding and temporary directories.
_MORE_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


class OutputTail:
    """A server's output other than messages: its stderr, and anything else it prints.

    The last line is kept.
    """

    def __init__(self, name: str) -> None:
        self.name, self._error, self._output = name, "", ""
        self._thread: threading.Thread | None = None

    def add(self, line: bytes, *, is_error: bool = False) -> None:
        """Keep a line, and write it to the log."""
        text = line[: 4 * _MAX_TAIL_LINE].decode(errors="replace")
        if text := "".join(character if character.isprintable() else " " for character in text).strip()[
            :_MAX_TAIL_LINE
        ]:
            if is_error:
                self._error = text
            else:
                self._output = text
            log.debug("MCP server %s: %s", self.name, text)

    @property
    def last_line(self) -> str:
        """The last line that is not empty; in a traceback, that is the error itself."""
        return self._error or self._output

    def read_from(self, descriptor: int) -> None:
        """Read a pipe to its end, in a separate thread: a server that writes a lot must never block on us."""

        def read() -> None:
            with open(descriptor, "rb", buffering=0) as pipe:
                rest = b""
                while chunk := pipe.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines[-_MAX_TAIL_LINES:]:
                        self.add(line, is_error=True)
                    rest = rest[:_CHUNK]
                self.add(rest, is_error=True)

        self._thread = threading.Thread(target=read, name=f"toolglot-mcp-{self.name}", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait briefly for the server's last output."""
        if self._thread is not None:
            self._thread.join(_TAIL_SECONDS)


@asynccontextmanager
async def stdio_transport(
    server: McpServer, tail: OutputTail, on_end: Callable[[str], None]
) -> "AsyncGenerator[TransportStreams]":
    """Start a server and yield its message streams.

    `on_end` receives the reason when it disconnects. Raises UsageError.
    """
    from mcp.shared.message import SessionMessage

    process = await _start_process(server, tail)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    has_ended = anyio.Event()

    async def read() -> None:
        lines = _LineReader(tail)
        async with incoming:
            reason = "it closed its output"
            try:
                while True:
                    for message in lines.feed(await process.stdout.receive(_CHUNK)):
                        await incoming.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                reason = "the connection was closed"
                with suppress(anyio.EndOfStream, anyio.ClosedResourceError, OSError):
                    while await process.stdout.receive(_CHUNK):  # pending writes must not keep it from ending
                        pass
            except (anyio.EndOfStream, OSError):
                with anyio.move_on_after(_EXIT_SECONDS):
                    await process.wait()
                if process.returncode is not None:
                    reason = f"it exited with code {process.returncode}"
            on_end(reason)
            has_ended.set()

    async def write() -> None:
        try:
            async with outgoing:
                async for item in outgoing:
                    await process.stdin.send(
                        item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            with anyio.move_on_after(_EXIT_SECONDS):
                await has_ended.wait()  # most likely it is about to exit, and `read` reports its exit code
            on_end("it closed its input")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield read_stream, write_stream
        finally:
            read_stream.close()
            with anyio.CancelScope(shield=True):
                await _stop_process(process)
                with suppress(RuntimeError):  # the program is ending and cannot start threads
                    await anyio.to_thread.run_sync(tail.wait)
            for stream in (incoming, write_stream, outgoing):
                stream.close()
            tasks.cancel_scope.cancel()


class _LineReader:
    """Splits output into messages.

    Only both ends of an overlong line are kept, to identify the call that it answers.
    """

    def __init__(self, tail: OutputTail) -> None:
        self._tail, self._parts, self._size = tail, list[bytes](), 0
        self._end = b""

    def feed(self, data: bytes) -> list[Any]:
        messages: list[Any] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            messages += self._finish()
        self._add(rest)
        return messages

    def _add(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._size <= MAX_MESSAGE:
            self._parts.append(data)
        else:
            del self._parts[1:]
            self._end = (self._end + data)[-_CHUNK:]

    def _finish(self) -> list[Any]:
        line, size, end = b"".join(self._parts), self._size, self._end
        self._parts, self._size, self._end = [], 0, b""
        if size > MAX_MESSAGE:
            log.warning("a message of %d MB from an MCP server was left out", size >> 20)
            request_id = find_answered_id(line, end)
            return [] if request_id is None else [report_overlong(request_id, size, MAX_MESSAGE)]
        if not line.strip():
            return []
        messages = read_messages(line)
        if not messages:
            self._tail.add(line)  # a banner, or leftover debug output
        return messages


async def _start_process(server: McpServer, tail: OutputTail) -> Any:
    from mcp.client.stdio import get_default_environment

    if not server.sandbox:  # otherwise the program is ours, which makes the sandbox
        server = await anyio.to_thread.run_sync(prepare_server, tail.name, server)
    more = {name: os.environ[name] for name in _MORE_VARIABLES if name in os.environ}
    env = {**get_default_environment(), **more, **server.env}
    read_end, write_end = os.pipe()
    try:
        with open(write_end, "w", encoding="utf-8") as stderr:
            if sys.platform == "win32":
                from mcp.os.win32.utilities import create_windows_process, get_windows_executable_command

                command = await anyio.to_thread.run_sync(get_windows_executable_command, server.command)
                process = await create_windows_process(command, [*server.args], env, stderr, server.cwd)
            else:
                process = await anyio.open_process(
                    [server.command, *server.args],
                    env=env,
                    stderr=stderr,
                    cwd=server.cwd,
                    start_new_session=True,
                )
    except (OSError, ValueError) as e:
        os.close(read_end)
        is_missing = isinstance(e, FileNotFoundError) and (server.cwd is None or os.path.isdir(server.cwd))
        reason = "there is no such program" if is_missing else (getattr(e, "strerror", "") or str(e))
        raise UsageError(f"{server.command!r} cannot be started: {reason}") from None
    tail.read_from(read_end)
    return process


async def _stop_process(process: Any) -> None:
    """Stop a server as the specification requires: close stdin, wait, terminate, kill.

    Its children are killed too.
    """
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    for number in (None, "SIGTERM", "SIGKILL"):
        if number is not None:
            await _kill_group(process, number)
        deadline = anyio.current_time() + _EXIT_SECONDS
        while process.returncode is None and anyio.current_time() < deadline:
            await anyio.sleep(0.01)  # not `wait`, which also waits for pipes that a child holds open
        if process.returncode is not None:
            break
    await _kill_group(process, "SIGKILL")  # children that it left behind
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdout.aclose()
    # Otherwise asyncio warns about a transport that a child holds open.
    close = getattr(getattr(getattr(process, "_process", None), "_transport", None), "close", None)
    if callable(close):
        with suppress(PermissionError):
            close()


async def _kill_group(process: Any, number: str) -> None:
    if sys.platform == "win32":
        from mcp.os.win32.utilities import close_process_job, terminate_windows_process_tree

        if process.returncode is None:
            await terminate_windows_process_tree(process)
        close_process_job(process)
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, getattr(signal, number))
