"""Serves MCP on stdin and stdout, which are reserved for the protocol: anything that tools print goes to
stderr.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, nullcontext, suppress
from io import TextIOWrapper
from threading import Thread
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from toolglot.mcp.serve.server import McpToolServer

__all__ = ["claim_streams", "serve_stdio"]

Streams = tuple[TextIOWrapper, TextIOWrapper]


async def serve_stdio(server: McpToolServer, streams: Streams | None = None) -> None:
    """Serve one client until it closes stdin.

    Cancellation ends it at once. Raises OSError if replies cannot be written.

    `streams`: from `claim_streams`, for a program that claims them before importing modules that may print.
    """
    with claim_streams() if streams is None else nullcontext(streams) as (stdin, stdout):
        # The SDK's own reader blocks in a thread that nothing can interrupt, so Ctrl-C would wait for the
        # client.
        lines = cast(Any, _read_lines(stdin))
        try:
            async with stdio_server(lines, anyio.wrap_file(stdout)) as (reader, writer):
                await server.sdk.run(reader, writer, server.sdk.create_initialization_options())
        except BaseExceptionGroup as group:
            if (errors := group.subgroup(OSError)) is None:
                raise
            while isinstance(error := errors.exceptions[0], BaseExceptionGroup):
                errors = error
            raise error from None


@contextmanager
def claim_streams() -> Generator[Streams]:
    """Yield stdin and stdout as new descriptors.

    Until the end, 0 is empty and 1 is stderr, also for child processes.
    """
    sys.stdout.flush()
    # Never closed: a thread may still be waiting for a line when the program ends.
    stdin = os.fdopen(os.dup(0), encoding="utf-8", errors="replace", newline="\n", closefd=False)
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n", closefd=False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield stdin, stdout
    finally:
        sys.stdout.flush()
        with suppress(OSError):  # the client has left
            stdout.flush()
        os.dup2(stdin.fileno(), 0)
        os.dup2(stdout.fileno(), 1)


async def _read_lines(stdin: TextIOWrapper) -> AsyncIterator[str]:
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        with suppress(RuntimeError, OSError, ValueError):  # the loop is closed, or the stream is
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, None)

    Thread(target=read, name="toolglot-mcp-stdin", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
