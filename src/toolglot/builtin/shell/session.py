"""One running command, which a thread of its own starts, reads, writes to and kills.

The thread lives as long as the command, because the kernel kills a sandbox together with the thread that made it
(PR_SET_PDEATHSIG). Nothing that a command started outlives it. Output is always read, so that a command never blocks on us, and
timeouts are kept here to some milliseconds, whatever else the process is doing.
"""

import atexit
import errno
import os
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

from toolglot.builtin.shell.output import OutputBuffer
from toolglot.builtin.shell.sandbox import Launch, open_pidfd
from toolglot.errors import ToolError

__all__ = ["EndReason", "ShellSession", "signal_from_exit_code"]

EndReason = Literal["", "timeout", "inactivity", "killed", "cancelled", "output", "closed"]
"""Why we ended a command; "" if it ended by itself."""
MAX_OUTPUT_BYTES = 8 * 1024**3
"""Bytes of output after which a command is killed: it would never end."""
MAX_PENDING_INPUT = 1_000_000
_CHUNK_SIZE = 256 * 1024
_POLL_SECONDS = 0.05  # where the kernel has no pidfd
_KILL_SECONDS, _GRACE_SECONDS = 5.0, 0.5  # for the supervisor to kill a tree; for bwrap to notice that its child is gone
_MAX_CWD_BYTES = 65_536

Prepare = Callable[[int], tuple[Launch, Callable[[], None]]]
"""Makes the launch, given the descriptor to which the command writes its last directory; and what to call once it runs."""
_Process = subprocess.Popen[bytes]
_Readers = dict[int, list[OutputBuffer]]
_live_sessions: "weakref.WeakSet[ShellSession]" = weakref.WeakSet()


@atexit.register
def _kill_all_sessions() -> None:
    for session in list(_live_sessions):
        session.kill("closed")
    for session in list(_live_sessions):
        session.join(1.0)


class ShellSession:
    """A command. `start` starts it; `on_end` registers a callback for its end."""

    def __init__(
        self,
        handle: str,
        command: str,
        *,
        spill_dir: Path | None,
        spill_after: int,
        separate_streams: bool = False,
        tty: bool = False,
        keep_stdin: bool = False,
        stdin: bytes | None = None,
        timeout: float | None = None,
        inactivity_timeout: float | None = None,
    ) -> None:
        self.handle, self.command, self.tty = handle, command, tty
        self.output = OutputBuffer(spill_dir, spill_after)
        self.stdout, self.stderr = (OutputBuffer(None), OutputBuffer(None)) if separate_streams else (None, None)
        self._timeout, self._inactivity_timeout = timeout, inactivity_timeout
        self._accepts_input = keep_stdin or tty
        self._has_stdin = self._accepts_input or stdin is not None
        self._pending_input = bytearray(stdin or b"")
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._wakeup_read = self._wakeup_write = -1  # a pipe that wakes the thread, while the command runs
        self._thread: threading.Thread | None = None
        self._start_event = threading.Event()  # set once the process runs, or could not be started
        self._is_finished = False
        self._kill_reason: EndReason = ""
        self._stdin_fd = self._cwd_fd = -1
        self.failure: BaseException | None = None
        """Why the command never ran."""
        self.pid = 0
        self.started_at = self.last_output_at = time.monotonic()
        self.duration = 0.0
        self.exit_code: int | None = None
        self.end_reason: EndReason = ""
        self.cwd = ""
        """Where the command was when it ended, as it says itself."""
        self.shown_bytes = 0
        """How much of the output the model has been shown."""

    # ---- for any thread

    @property
    def is_running(self) -> bool:
        return not self._is_finished

    def start(self, prepare: Prepare) -> None:
        """Start the command. Raises ToolError."""
        with self._lock:
            self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_read, False)
        os.set_blocking(self._wakeup_write, False)
        if self._kill_reason:  # it was killed before there was a thread to wake
            self._wake_thread()
        # A daemon, as a program that ends must not wait for its commands: _kill_all_sessions ends them.
        name = f"toolglot-shell-{self.handle}"
        self._thread = threading.Thread(target=self._run, args=(prepare,), name=name, daemon=True)
        _live_sessions.add(self)
        self._thread.start()
        self._start_event.wait()
        if self.failure is not None:
            raise self.failure

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once, from any thread, when the command has ended."""
        with self._lock:
            if not self._is_finished:
                self._callbacks.append(callback)
                return
        callback()

    def kill(self, reason: EndReason = "killed") -> None:
        """Kill the command and everything that it started; it is gone some milliseconds later."""
        with self._lock:
            self._kill_reason = self._kill_reason or reason
        self._wake_thread()

    def send_input(self, data: bytes) -> None:
        """Write to the command's stdin. Raises ToolError."""
        if not self.is_running:
            raise ToolError(f"the command of session {self.handle} has ended: it takes no input", code="stdin_closed")
        if not self._accepts_input:
            message = f"the command of session {self.handle} takes no input: start it in the background or with a terminal"
            raise ToolError(message, code="stdin_closed")
        with self._lock:
            if len(self._pending_input) + len(data) > MAX_PENDING_INPUT:
                message = f"the command of session {self.handle} does not read its input: wait until it does"
                raise ToolError(message, kind="limit", code="session_busy")
            self._pending_input += data
        self._wake_thread()

    def take_output(self, offset: int) -> tuple[bytes, int, bytes]:
        """Return the output from an offset on, as `OutputBuffer.read_from` does, and mark it as shown."""
        head, gap, tail = self.output.read_from(offset)
        # Not the current total: output that arrives meanwhile would never be shown.
        self.shown_bytes = offset + len(head) + gap + len(tail)
        return head, gap, tail

    def join(self, seconds: float | None = None) -> None:
        """Wait for the thread to end."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _wake_thread(self) -> None:
        with self._lock:
            if self._wakeup_write >= 0:
                with suppress(BlockingIOError):  # the pipe is full of wake-up calls already
                    os.write(self._wakeup_write, b"!")

    # ---- the session's thread

    def _run(self, prepare: Prepare) -> None:
        process: _Process | None = None
        launch: Launch | None = None
        readers: _Readers = {}
        try:
            try:
                process, launch, readers = self._spawn(prepare)
            except OSError as e:
                message = f"the command could not be started: {e.strerror}"
                raise ToolError(message, code="sandbox_unavailable") from None
            finally:
                self.started_at = self.last_output_at = time.monotonic()
            self._start_event.set()
            self._pump(process, launch, readers)
        except BaseException as e:
            self.failure = e
            if process is not None:
                process.kill()
        finally:
            self._finish(process, launch, readers)

    def _spawn(self, prepare: Prepare) -> tuple[_Process, Launch, _Readers]:
        """Start the process; close its ends of the pipes, and on failure ours, too."""
        ours: list[int] = []
        theirs: list[int] = []
        on_started: Callable[[], None] | None = None
        launch: Launch | None = None
        try:
            self._cwd_fd, cwd_write = os.pipe()
            ours.append(self._cwd_fd)
            theirs.append(cwd_write)
            os.set_blocking(self._cwd_fd, False)  # a process that keeps it open must not block us at the end
            # The sandbox is prepared in this thread: bubblewrap dies with the thread that started it.
            (stdin, stdout, stderr), readers = self._open_streams(ours, theirs)
            launch, on_started = prepare(cwd_write)
            process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C in our terminal is not for the command
            )
            self.pid = process.pid
            return process, launch, readers
        except BaseException:
            self._stdin_fd = self._cwd_fd = -1
            for fd in ours:
                os.close(fd)
            if launch is not None:
                launch.close_fds()
                if launch.cgroup is not None:
                    launch.cgroup.remove()
            raise
        finally:
            if on_started is not None:
                on_started()
            for fd in theirs:
                os.close(fd)

    def _open_streams(self, ours: list[int], theirs: list[int]) -> tuple[tuple[int, int, int], _Readers]:
        """Return the command's three streams, and the descriptors that we read with the buffers that they fill."""
        if self.tty:
            import fcntl  # only where there are terminals
            import struct
            import termios

            master, slave = os.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))  # rows, columns
            self._stdin_fd = os.dup(master)
            ours += [master, self._stdin_fd]
            theirs.append(slave)
            return (slave, slave, slave), {master: [self.output]}
        if self._has_stdin:
            stdin, self._stdin_fd = os.pipe()
            ours.append(self._stdin_fd)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs.append(stdin)
        stdout, stdout_write = os.pipe()
        ours.append(stdout)
        theirs.append(stdout_write)
        if self.stdout is None or self.stderr is None:
            return (stdin, stdout_write, stdout_write), {stdout: [self.output]}
        stderr, stderr_write = os.pipe()
        ours.append(stderr)
        theirs.append(stderr_write)
        readers = {stdout: [self.output, self.stdout], stderr: [self.output, self.stderr]}
        return (stdin, stdout_write, stderr_write), readers

    def _pump(self, process: _Process, launch: Launch, readers: _Readers) -> None:
        """Read output, write input and keep the timeouts until the process has ended."""
        with selectors.DefaultSelector() as selector:
            for fd in readers:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            selector.register(self._wakeup_read, selectors.EVENT_READ)
            pidfd = open_pidfd(process.pid)
            if pidfd >= 0:
                selector.register(pidfd, selectors.EVENT_READ)
            if self._stdin_fd >= 0:
                os.set_blocking(self._stdin_fd, False)
            is_writing = False
            try:
                while process.poll() is None:
                    is_writing = self._update_writing(selector, is_writing)
                    for key, _ in selector.select(self._select_timeout(must_poll=pidfd < 0)):
                        if key.fd == self._wakeup_read:
                            os.read(self._wakeup_read, 512)
                        elif key.fd == self._stdin_fd:
                            self._write_input()
                        elif key.fd in readers and not self._read_output(key.fd, readers[key.fd]):
                            selector.unregister(key.fd)
                    if reason := self._find_end_reason():
                        self.end_reason = reason
                        _kill_tree(process, launch)
                for fd, buffers in readers.items():
                    self._drain_output(fd, buffers)
            finally:
                if pidfd >= 0:
                    os.close(pidfd)

    def _select_timeout(self, *, must_poll: bool) -> float | None:
        now = time.monotonic()
        deadlines = [self.started_at + self._timeout] if self._timeout is not None else []
        deadlines += [self.last_output_at + self._inactivity_timeout] if self._inactivity_timeout is not None else []
        deadlines += [now + _POLL_SECONDS] if must_poll else []
        return max(0.0, min(deadlines) - now) if deadlines else None

    def _find_end_reason(self) -> EndReason:
        if self._kill_reason:
            return self._kill_reason
        now = time.monotonic()
        if self._timeout is not None and now >= self.started_at + self._timeout:
            return "timeout"
        if self._inactivity_timeout is not None and now >= self.last_output_at + self._inactivity_timeout:
            return "inactivity"
        return "output" if self.output.total_bytes > MAX_OUTPUT_BYTES else ""

    def _read_output(self, fd: int, buffers: list[OutputBuffer]) -> bool:
        """Read one chunk; return False at the end of the stream."""
        try:
            data = os.read(fd, _CHUNK_SIZE)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno != errno.EIO:  # Linux: the end of a terminal that nobody has open any more
                raise
            data = b""
        for buffer in buffers if data else ():
            buffer.add(data)
        self.last_output_at = time.monotonic()
        return bool(data)

    def _drain_output(self, fd: int, buffers: list[OutputBuffer]) -> None:
        # Everybody has gone: what is left is at most what a pipe or a terminal buffers.
        for _ in range(64):
            before = buffers[0].total_bytes
            if not self._read_output(fd, buffers) or buffers[0].total_bytes == before:
                return

    def _update_writing(self, selector: selectors.BaseSelector, is_writing: bool) -> bool:
        """Wait for a writable stdin only while there is input; close it after input that was given at the start."""
        wants_writing = self._stdin_fd >= 0 and bool(self._pending_input)
        if self._stdin_fd >= 0 and not self._pending_input and not self._accepts_input:
            os.close(self._stdin_fd)
            self._stdin_fd = -1
        if wants_writing and not is_writing:
            selector.register(self._stdin_fd, selectors.EVENT_WRITE)
        elif is_writing and not wants_writing and self._stdin_fd >= 0:
            selector.unregister(self._stdin_fd)
        return wants_writing

    def _write_input(self) -> None:
        with self._lock:
            data = bytes(self._pending_input[:_CHUNK_SIZE])
        try:
            size = os.write(self._stdin_fd, data)
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            size = len(self._pending_input)
        with self._lock:
            del self._pending_input[:size]

    def _finish(self, process: _Process | None, launch: Launch | None, readers: _Readers) -> None:
        if process is not None:
            code = process.wait()
            self.exit_code = code if code >= 0 else 128 - code  # as a shell reports a signal
        if launch is not None:
            # The reason is in a pipe of the supervisor: it has to be read before the descriptors are closed.
            self.failure = self.failure or launch.read_failure()
            launch.wait_for_namespace()
            launch.close_fds()
        if self._cwd_fd >= 0:
            with suppress(OSError):  # the last line: a trap of the command itself may have written there, too
                self.cwd = os.fsdecode(os.read(self._cwd_fd, _MAX_CWD_BYTES)).rstrip("\n").rpartition("\n")[2]
        for fd in (*readers, self._stdin_fd, self._cwd_fd):
            if fd >= 0:
                os.close(fd)
        for buffer in (self.output, self.stdout, self.stderr):
            if buffer is not None:
                buffer.close()
        self.duration = time.monotonic() - self.started_at
        with self._lock:  # on_end and _wake_thread see a running session with its pipe, or a finished one
            self._is_finished = True
            callbacks, self._callbacks = self._callbacks, []
            os.close(self._wakeup_read)
            os.close(self._wakeup_write)
            self._wakeup_read = self._wakeup_write = self._stdin_fd = self._cwd_fd = -1
        self._start_event.set()
        for callback in callbacks:  # without the lock: a callback may ask us something
            with suppress(RuntimeError):  # an event loop that is closed
                callback()
        if launch is not None and launch.cgroup is not None:
            launch.cgroup.remove()  # last: it may take some milliseconds, for which nobody has to wait
        _live_sessions.discard(self)


# ---- processes


def _kill_tree(process: _Process, launch: Launch) -> None:
    """Kill everything that was started: by the supervisor, or with the first process of the PID namespace."""
    if launch.control_fd >= 0:
        with suppress(OSError):
            os.write(launch.control_fd, b"!")
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
            return
    # bwrap waits for the first process of the namespace, whose end kills all others: killing bwrap itself first would leave
    # nobody to wait for them.
    children: list[int] = []
    with suppress(OSError, ValueError), open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = [int(word) for word in file.read().split()]
    for pid in children:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def signal_from_exit_code(exit_code: int | None) -> int | None:
    """Return the signal that ended a command, if its exit code says so."""
    if exit_code is not None and exit_code > 128:
        with suppress(ValueError):
            return int(signal.Signals(exit_code - 128))
    return None
