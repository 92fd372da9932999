"""One command that runs: started, read, written to and ended by one thread of its own.

Laws: the thread that starts a command lives as long as the command, as the kernel ends a sandbox with the thread that made it.
Nothing that a command started outlives it. Output is always read, so that nobody waits for us. A limit of time is kept here, to
some milliseconds, whoever else is busy.
"""

import atexit
import errno
import os
import re
import selectors
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from toolglot.builtin.shell.output import Output
from toolglot.builtin.shell.sandbox import Launch
from toolglot.errors import ToolError

__all__ = ["Ended", "Session"]

Ended = Literal["", "timeout", "inactivity", "killed", "cancelled", "output", "closed"]
"""Why we ended a command; "" where it ended by itself."""
MOST_OUTPUT = 8 * 1024**3
"""Bytes after which a command is ended: it would go on for ever."""
_CHUNK = 256 * 1024
_TICK = 0.05  # seconds, where the kernel cannot tell us of an end
_PATIENCE, _GRACE = 5.0, 0.5
_CWD_SIZE = 65_536

_running: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for session in list(_running):
        session.kill("closed")
    for session in list(_running):
        session.join(1.0)


class Session:
    """A command on its way. `begin` starts it; `watch` tells of its end."""

    def __init__(
        self,
        handle: str,
        command: str,
        *,
        spills: Path | None,
        spill_after: int,
        separate: bool = False,
        tty: bool = False,
        keep_stdin: bool = False,
        stdin: bytes | None = None,
        timeout: float | None = None,
        inactivity: float | None = None,
    ) -> None:
        self.handle, self.command, self.tty = handle, command, tty
        self.output = Output(spills, spill_after)
        self.stdout, self.stderr = (Output(None), Output(None)) if separate else (None, None)
        self._timeout, self._inactivity = timeout, inactivity
        self._open_stdin, self._pending, self._close_after = (
            keep_stdin or tty,
            bytearray(stdin or b""),
            not keep_stdin and not tty,
        )
        self._has_stdin = self._open_stdin or stdin is not None
        self._lock = threading.Lock()
        self._watchers: list[Callable[[], None]] = []
        self._woken = self._wake = -1  # a pipe, from the beginning to the end of the command
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._finished = False
        self._asked: Ended = ""
        self._in = self._cwd_read = -1
        self.pid = 0
        self.began = time.monotonic()
        self.seconds = 0.0
        self.exit_code: int | None = None
        self.ended: Ended = ""
        self.cwd = ""
        """Where the command was when it ended, as it says."""
        self.read_until = 0
        """How much of the output the model has been shown."""
        self.last_written = self.began

    # ---- for everybody

    @property
    def running(self) -> bool:
        return not self._finished

    def begin(self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], *, tells_cwd: bool) -> None:
        """Starts it. `prepare`: makes the launch, given descriptors that the command itself gets. Raises ToolError."""
        with self._lock:
            self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        if self._asked:  # before there was anybody to tell
            self._nudge()
        self._thread = threading.Thread(
            target=self._live, args=(prepare, tells_cwd), name=f"toolglot-shell-{self.handle}", daemon=True
        )
        _running.add(self)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def watch(self, tell: Callable[[], None]) -> None:
        """Calls back once, from any thread, when the command has ended."""
        with self._lock:
            if not self._finished:
                self._watchers.append(tell)
                return
        tell()

    def kill(self, why: Ended = "killed") -> None:
        """Ends it and everything that it started; it is gone some milliseconds later."""
        with self._lock:
            self._asked = self._asked or why
        self._nudge()

    def send(self, data: bytes) -> None:
        """Types into it. Raises ToolError."""
        if not self.running:
            raise ToolError(f"the command {self.handle} has ended: it takes no input", kind="execution")
        if not self._open_stdin:
            raise ToolError(
                f"the command {self.handle} takes no input: start it with background=true or tty=true", kind="execution"
            )
        with self._lock:
            if len(self._pending) + len(data) > 1_000_000:
                raise ToolError(f"the command {self.handle} does not read its input: wait for it", kind="limit")
            self._pending += data
        self._nudge()

    def join(self, seconds: float | None = None) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _nudge(self) -> None:
        with self._lock:
            if self._wake >= 0:
                with suppress(BlockingIOError):
                    os.write(self._wake, b"!")

    # ---- its thread

    def _live(self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], tells_cwd: bool) -> None:
        process: subprocess.Popen[bytes] | None = None
        launch: Launch | None = None
        reads: dict[int, list[Output]] = {}
        try:
            try:
                process, launch, reads = self._start(prepare, tells_cwd)
            except OSError as e:
                raise ToolError(f"the command could not be started: {e.strerror}", kind="execution") from None
            finally:
                self.began = self.last_written = time.monotonic()
            self._started.set()
            self._follow(process, launch, reads)
        except BaseException as e:
            self._failure = e
            if process is not None:
                process.kill()
        finally:
            self._finish(process, launch, reads)

    def _start(
        self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], tells_cwd: bool
    ) -> tuple["subprocess.Popen[bytes]", Launch, dict[int, list[Output]]]:
        ours: list[int] = []
        theirs: list[int] = []
        done: Callable[[], None] | None = None
        launch: Launch | None = None
        try:
            cwd_write: tuple[int, ...] = ()
            if tells_cwd:
                self._cwd_read, write = os.pipe()
                ours.append(self._cwd_read)
                theirs.append(write)
                os.set_blocking(self._cwd_read, False)
                cwd_write = (write,)
            streams, reads = self._streams(ours, theirs)
            launch, done = prepare(cwd_write)
            process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.inherit,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
            )
            self.pid = process.pid
            return process, launch, reads
        except BaseException:
            self._in = self._cwd_read = -1
            for handle in ours:
                os.close(handle)
            if launch is not None:
                _let_go(launch)
                if launch.pids is not None:
                    launch.pids.remove()
            raise
        finally:
            if done is not None:
                done()
            for handle in theirs:
                os.close(handle)

    def _streams(self, ours: list[int], theirs: list[int]) -> tuple[tuple[int, int, int], dict[int, list[Output]]]:
        """What the command gets as its three streams, and what we read."""
        if self.tty:
            return self._terminal(ours, theirs)
        if self._has_stdin:
            given, self._in = os.pipe()
            ours.append(self._in)
        else:
            given = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs.append(given)
        out, out_write = os.pipe()
        ours.append(out)
        theirs.append(out_write)
        if self.stdout is None or self.stderr is None:
            return (given, out_write, out_write), {out: [self.output]}
        err, err_write = os.pipe()
        ours.append(err)
        theirs.append(err_write)
        return (given, out_write, err_write), {out: [self.output, self.stdout], err: [self.output, self.stderr]}

    def _terminal(self, ours: list[int], theirs: list[int]) -> tuple[tuple[int, int, int], dict[int, list[Output]]]:
        import fcntl
        import struct
        import termios

        master, slave = os.openpty()
        ours.append(master)
        theirs.append(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._in = os.dup(master)
        ours.append(self._in)
        return (slave, slave, slave), {master: [self.output]}

    def _follow(self, process: "subprocess.Popen[bytes]", launch: Launch, reads: dict[int, list[Output]]) -> None:
        """Until it has ended: what it writes is read, what it is sent is written, time is kept."""
        with selectors.DefaultSelector() as selector:
            for handle in reads:
                os.set_blocking(handle, False)
                selector.register(handle, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            ending = _watched(process.pid)
            if ending >= 0:
                selector.register(ending, selectors.EVENT_READ)
            if self._in >= 0:
                os.set_blocking(self._in, False)
            writing = False
            try:
                while process.poll() is None:
                    writing = self._wants_writing(selector, writing)
                    for key, _ in selector.select(self._patience(ending < 0)):
                        self._ready(key.fd, selector, reads)
                    if why := self._reason():
                        self.ended = why
                        _end(process, launch)
                for handle in list(reads):
                    self._drain(handle, reads[handle])
            finally:
                if ending >= 0:
                    os.close(ending)

    def _patience(self, blind: bool) -> float | None:
        now = time.monotonic()
        ends = [self.began + self._timeout] if self._timeout is not None else []
        ends += [self.last_written + self._inactivity] if self._inactivity is not None else []
        ends += [now + _TICK] if blind else []
        return max(0.0, min(ends) - now) if ends else None

    def _reason(self) -> Ended:
        if self._asked:
            return self._asked
        now = time.monotonic()
        if self._timeout is not None and now >= self.began + self._timeout:
            return "timeout"
        if self._inactivity is not None and now >= self.last_written + self._inactivity:
            return "inactivity"
        return "output" if self.output.total > MOST_OUTPUT else ""

    def _ready(self, handle: int, selector: selectors.BaseSelector, reads: dict[int, list[Output]]) -> None:
        if handle == self._woken:
            with suppress(BlockingIOError):
                os.read(self._woken, 512)
        elif handle in reads:
            if not self._read(handle, reads[handle]):
                selector.unregister(handle)
        elif handle == self._in:
            self._write(selector)

    def _read(self, handle: int, outputs: list[Output]) -> bool:
        """One piece; False where nothing more will come."""
        try:
            data = os.read(handle, _CHUNK)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno != errno.EIO:  # a terminal that everybody has left
                raise
            data = b""
        for output in outputs if data else ():
            output.add(data)
        self.last_written = time.monotonic()
        return bool(data)

    def _drain(self, handle: int, outputs: list[Output]) -> None:
        """What is left when everybody has gone: no more than a pipe or a terminal holds."""
        for _ in range(64):
            before = outputs[0].total
            if not self._read(handle, outputs) or outputs[0].total == before:
                return

    def _wants_writing(self, selector: selectors.BaseSelector, writing: bool) -> bool:
        wants = self._in >= 0 and bool(self._pending)
        if self._in >= 0 and not self._pending and self._close_after:
            self._close_in()
        if wants and not writing:
            selector.register(self._in, selectors.EVENT_WRITE)
        elif writing and not wants and self._in >= 0:
            selector.unregister(self._in)
        return wants

    def _write(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            data = bytes(self._pending[:_CHUNK])
        try:
            size = os.write(self._in, data)
        except BlockingIOError:
            return
        except OSError:  # nobody reads it
            size = len(self._pending)
        with self._lock:
            del self._pending[:size]

    def _close_in(self) -> None:
        os.close(self._in)
        self._in = -1

    def _finish(self, process: "subprocess.Popen[bytes] | None", launch: Launch | None, reads: dict[int, list[Output]]) -> None:
        if process is not None:
            code = process.wait()
            self.exit_code = code if code >= 0 else 128 - code
        if launch is not None:
            self._failure = self._failure or _why_not(launch)
            _wait_for_all(launch)
            _let_go(launch)
        if self._cwd_read >= 0:
            self.cwd = _last_line(self._cwd_read)
        for handle in (*reads, self._in, self._cwd_read):
            if handle >= 0:
                os.close(handle)
        for output in (self.output, self.stdout, self.stderr):
            if output is not None:
                output.finish()
        self.seconds = time.monotonic() - self.began
        with self._lock:
            self._finished = True
            watchers, self._watchers = self._watchers, []
            os.close(self._woken)
            os.close(self._wake)
            self._woken = self._wake = self._in = self._cwd_read = -1
        self._started.set()
        for tell in watchers:
            with suppress(RuntimeError):  # a loop that is closed
                tell()
        if launch is not None and launch.pids is not None:
            launch.pids.remove()
        _running.discard(self)

    @property
    def failure(self) -> BaseException | None:
        """Why the command never ran."""
        return self._failure


def _watched(pid: int) -> int:
    """A descriptor that is ready when a process has ended; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _end(process: "subprocess.Popen[bytes]", launch: Launch) -> None:
    """Everything that was started ends: with the first process of its own world, or by the helper that stays with it."""
    if launch.control >= 0:
        with suppress(OSError):
            os.write(launch.control, b"!")
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            return
    for pid in _children(process.pid):  # the first of its world: who waits for it sees everybody gone
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _wait_for_all(launch: Launch) -> None:
    """bwrap ends when the command has; the others of its world end at that moment too, and are waited for."""
    if launch.first < 0:
        return
    os.set_blocking(launch.first, False)
    with suppress(OSError):
        found = re.search(rb'"child-pid"\s*:\s*(\d+)', os.read(launch.first, 4096))
        ending = _watched(int(found[1])) if found else -1
        if ending >= 0:
            with selectors.DefaultSelector() as selector:
                selector.register(ending, selectors.EVENT_READ)
                selector.select(_GRACE)
            os.close(ending)


def _why_not(launch: Launch) -> ToolError | None:
    if launch.failed < 0:
        return None
    os.set_blocking(launch.failed, False)
    try:
        said = os.read(launch.failed, 4096).decode(errors="replace")
    except BlockingIOError:
        return None
    return (
        ToolError(f"the command could not be run in its sandbox: {said.partition(' ')[2]}", kind="execution") if said else None
    )


def _let_go(launch: Launch) -> None:
    for handle in (launch.control, launch.failed, launch.first):
        if handle >= 0:
            os.close(handle)


def _last_line(handle: int) -> str:
    try:
        data = os.read(handle, _CWD_SIZE)
    except (BlockingIOError, OSError):
        return ""
    return os.fsdecode(data).rstrip("\n").rpartition("\n")[2]


def signal_of(exit_code: int | None) -> int | None:
    """The signal that ended a command, where its code says so."""
    if exit_code is not None and exit_code > 128:
        with suppress(ValueError):
            return int(signal.Signals(exit_code - 128))
    return None
