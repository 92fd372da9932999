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

from toolglot.builtin.shell.output import OutputBuffer
from toolglot.builtin.shell.sandbox import Launch
from toolglot.errors import ToolError

__all__ = ["EndReason", "ShellSession"]

EndReason = Literal["", "timeout", "inactivity", "killed", "cancelled", "output", "closed"]
"""Why we ended a command; "" where it ended by itself."""
MAX_OUTPUT_BYTES = 8 * 1024**3
"""Bytes after which a command is ended: it would go on for ever."""
_CHUNK_SIZE = 256 * 1024
_POLL_SECONDS = 0.05  # seconds, where the kernel cannot tell us of an end
_KILL_SECONDS, _GRACE_SECONDS = 5.0, 0.5
_CWD_SIZE = 65_536

_live_sessions: "weakref.WeakSet[ShellSession]" = weakref.WeakSet()


@atexit.register
def _kill_all_sessions() -> None:
    for session in list(_live_sessions):
        session.kill("closed")
    for session in list(_live_sessions):
        session.join(1.0)


class ShellSession:
    """A command on its way. `begin` starts it; `watch` tells of its end."""

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
        self._accepts_input, self._pending_input, self._close_stdin_when_sent = (
            keep_stdin or tty,
            bytearray(stdin or b""),
            not keep_stdin and not tty,
        )
        self._has_stdin = self._accepts_input or stdin is not None
        self._lock = threading.Lock()
        self._watchers: list[Callable[[], None]] = []
        self._wakeup_read = self._wakeup_write = -1  # a pipe, from the beginning to the end of the command
        self._thread: threading.Thread | None = None
        self._start_event = threading.Event()
        self._failure: BaseException | None = None
        self._finished = False
        self._kill_reason: EndReason = ""
        self._stdin_fd = self._cwd_fd = -1
        self.pid = 0
        self.started_at = time.monotonic()
        self.duration = 0.0
        self.exit_code: int | None = None
        self.end_reason: EndReason = ""
        self.cwd = ""
        """Where the command was when it ended, as it says."""
        self.shown_bytes = 0
        """How much of the output the model has been shown."""
        self.last_output_at = self.started_at

    # ---- for everybody

    @property
    def is_running(self) -> bool:
        return not self._finished

    def start(self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], *, report_cwd: bool) -> None:
        """Starts it. `prepare`: makes the launch, given descriptors that the command itself gets. Raises ToolError."""
        with self._lock:
            self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_read, False)
        os.set_blocking(self._wakeup_write, False)
        if self._kill_reason:  # before there was anybody to tell
            self._wake_thread()
        self._thread = threading.Thread(
            target=self._run, args=(prepare, report_cwd), name=f"toolglot-shell-{self.handle}", daemon=True
        )
        _live_sessions.add(self)
        self._thread.start()
        self._start_event.wait()
        if self._failure is not None:
            raise self._failure

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls back once, from any thread, when the command has ended."""
        with self._lock:
            if not self._finished:
                self._watchers.append(callback)
                return
        callback()

    def kill(self, reason: EndReason = "killed") -> None:
        """Ends it and everything that it started; it is gone some milliseconds later."""
        with self._lock:
            self._kill_reason = self._kill_reason or reason
        self._wake_thread()

    def send_input(self, data: bytes) -> None:
        """Types into it. Raises ToolError."""
        if not self.is_running:
            raise ToolError(f"the command {self.handle} has ended: it takes no input", kind="execution")
        if not self._accepts_input:
            raise ToolError(
                f"the command {self.handle} takes no input: start it with background=true or tty=true", kind="execution"
            )
        with self._lock:
            if len(self._pending_input) + len(data) > 1_000_000:
                raise ToolError(f"the command {self.handle} does not read its input: wait for it", kind="limit")
            self._pending_input += data
        self._wake_thread()

    def join(self, seconds: float | None = None) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _wake_thread(self) -> None:
        with self._lock:
            if self._wakeup_write >= 0:
                with suppress(BlockingIOError):
                    os.write(self._wakeup_write, b"!")

    # ---- its thread

    def _run(self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], report_cwd: bool) -> None:
        process: subprocess.Popen[bytes] | None = None
        launch: Launch | None = None
        reads: dict[int, list[OutputBuffer]] = {}
        try:
            try:
                process, launch, reads = self._spawn(prepare, report_cwd)
            except OSError as e:
                raise ToolError(f"the command could not be started: {e.strerror}", kind="execution") from None
            finally:
                self.started_at = self.last_output_at = time.monotonic()
            self._start_event.set()
            self._pump(process, launch, reads)
        except BaseException as e:
            self._failure = e
            if process is not None:
                process.kill()
        finally:
            self._finish(process, launch, reads)

    def _spawn(
        self, prepare: Callable[[tuple[int, ...]], tuple[Launch, Callable[[], None]]], report_cwd: bool
    ) -> tuple["subprocess.Popen[bytes]", Launch, dict[int, list[OutputBuffer]]]:
        ours: list[int] = []
        theirs: list[int] = []
        done: Callable[[], None] | None = None
        launch: Launch | None = None
        try:
            cwd_write: tuple[int, ...] = ()
            if report_cwd:
                self._cwd_fd, write = os.pipe()
                ours.append(self._cwd_fd)
                theirs.append(write)
                os.set_blocking(self._cwd_fd, False)
                cwd_write = (write,)
            streams, reads = self._open_streams(ours, theirs)
            launch, done = prepare(cwd_write)
            process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
            )
            self.pid = process.pid
            return process, launch, reads
        except BaseException:
            self._stdin_fd = self._cwd_fd = -1
            for handle in ours:
                os.close(handle)
            if launch is not None:
                _close_launch(launch)
                if launch.cgroup is not None:
                    launch.cgroup.remove()
            raise
        finally:
            if done is not None:
                done()
            for handle in theirs:
                os.close(handle)

    def _open_streams(self, ours: list[int], theirs: list[int]) -> tuple[tuple[int, int, int], dict[int, list[OutputBuffer]]]:
        """What the command gets as its three streams, and what we read."""
        if self.tty:
            return self._open_terminal(ours, theirs)
        if self._has_stdin:
            given, self._stdin_fd = os.pipe()
            ours.append(self._stdin_fd)
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

    def _open_terminal(self, ours: list[int], theirs: list[int]) -> tuple[tuple[int, int, int], dict[int, list[OutputBuffer]]]:
        import fcntl
        import struct
        import termios

        master, slave = os.openpty()
        ours.append(master)
        theirs.append(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._stdin_fd = os.dup(master)
        ours.append(self._stdin_fd)
        return (slave, slave, slave), {master: [self.output]}

    def _pump(self, process: "subprocess.Popen[bytes]", launch: Launch, readers: dict[int, list[OutputBuffer]]) -> None:
        """Until it has ended: what it writes is read, what it is sent is written, time is kept."""
        with selectors.DefaultSelector() as selector:
            for handle in readers:
                os.set_blocking(handle, False)
                selector.register(handle, selectors.EVENT_READ)
            selector.register(self._wakeup_read, selectors.EVENT_READ)
            ending = _open_pidfd(process.pid)
            if ending >= 0:
                selector.register(ending, selectors.EVENT_READ)
            if self._stdin_fd >= 0:
                os.set_blocking(self._stdin_fd, False)
            writing = False
            try:
                while process.poll() is None:
                    writing = self._update_writing(selector, writing)
                    for key, _ in selector.select(self._select_timeout(ending < 0)):
                        self._handle_ready(key.fd, selector, readers)
                    if why := self._find_end_reason():
                        self.end_reason = why
                        _kill_tree(process, launch)
                for handle in list(readers):
                    self._drain_output(handle, readers[handle])
            finally:
                if ending >= 0:
                    os.close(ending)

    def _select_timeout(self, must_poll: bool) -> float | None:
        now = time.monotonic()
        ends = [self.started_at + self._timeout] if self._timeout is not None else []
        ends += [self.last_output_at + self._inactivity_timeout] if self._inactivity_timeout is not None else []
        ends += [now + _POLL_SECONDS] if must_poll else []
        return max(0.0, min(ends) - now) if ends else None

    def _find_end_reason(self) -> EndReason:
        if self._kill_reason:
            return self._kill_reason
        now = time.monotonic()
        if self._timeout is not None and now >= self.started_at + self._timeout:
            return "timeout"
        if self._inactivity_timeout is not None and now >= self.last_output_at + self._inactivity_timeout:
            return "inactivity"
        return "output" if self.output.total_bytes > MAX_OUTPUT_BYTES else ""

    def _handle_ready(self, fd: int, selector: selectors.BaseSelector, readers: dict[int, list[OutputBuffer]]) -> None:
        if fd == self._wakeup_read:
            with suppress(BlockingIOError):
                os.read(self._wakeup_read, 512)
        elif fd in readers:
            if not self._read_output(fd, readers[fd]):
                selector.unregister(fd)
        elif fd == self._stdin_fd:
            self._write_input(selector)

    def _read_output(self, fd: int, outputs: list[OutputBuffer]) -> bool:
        """One piece; False where nothing more will come."""
        try:
            data = os.read(fd, _CHUNK_SIZE)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno != errno.EIO:  # a terminal that everybody has left
                raise
            data = b""
        for output in outputs if data else ():
            output.add(data)
        self.last_output_at = time.monotonic()
        return bool(data)

    def _drain_output(self, fd: int, outputs: list[OutputBuffer]) -> None:
        """What is left when everybody has gone: no more than a pipe or a terminal holds."""
        for _ in range(64):
            before = outputs[0].total_bytes
            if not self._read_output(fd, outputs) or outputs[0].total_bytes == before:
                return

    def _update_writing(self, selector: selectors.BaseSelector, is_writing: bool) -> bool:
        wants = self._stdin_fd >= 0 and bool(self._pending_input)
        if self._stdin_fd >= 0 and not self._pending_input and self._close_stdin_when_sent:
            self._close_stdin()
        if wants and not is_writing:
            selector.register(self._stdin_fd, selectors.EVENT_WRITE)
        elif is_writing and not wants and self._stdin_fd >= 0:
            selector.unregister(self._stdin_fd)
        return wants

    def _write_input(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            data = bytes(self._pending_input[:_CHUNK_SIZE])
        try:
            size = os.write(self._stdin_fd, data)
        except BlockingIOError:
            return
        except OSError:  # nobody reads it
            size = len(self._pending_input)
        with self._lock:
            del self._pending_input[:size]

    def _close_stdin(self) -> None:
        os.close(self._stdin_fd)
        self._stdin_fd = -1

    def _finish(
        self, process: "subprocess.Popen[bytes] | None", launch: Launch | None, readers: dict[int, list[OutputBuffer]]
    ) -> None:
        if process is not None:
            code = process.wait()
            self.exit_code = code if code >= 0 else 128 - code
        if launch is not None:
            self._failure = self._failure or _read_failure(launch)
            _wait_for_namespace(launch)
            _close_launch(launch)
        if self._cwd_fd >= 0:
            self.cwd = _read_last_line(self._cwd_fd)
        for handle in (*readers, self._stdin_fd, self._cwd_fd):
            if handle >= 0:
                os.close(handle)
        for output in (self.output, self.stdout, self.stderr):
            if output is not None:
                output.close()
        self.duration = time.monotonic() - self.started_at
        with self._lock:
            self._finished = True
            watchers, self._watchers = self._watchers, []
            os.close(self._wakeup_read)
            os.close(self._wakeup_write)
            self._wakeup_read = self._wakeup_write = self._stdin_fd = self._cwd_fd = -1
        self._start_event.set()
        for tell in watchers:
            with suppress(RuntimeError):  # a loop that is closed
                tell()
        if launch is not None and launch.cgroup is not None:
            launch.cgroup.remove()
        _live_sessions.discard(self)

    @property
    def failure(self) -> BaseException | None:
        """Why the command never ran."""
        return self._failure


def _open_pidfd(pid: int) -> int:
    """A descriptor that is ready when a process has ended; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _kill_tree(process: "subprocess.Popen[bytes]", launch: Launch) -> None:
    """Everything that was started ends: with the first process of its own world, or by the helper that stays with it."""
    if launch.control_fd >= 0:
        with suppress(OSError):
            os.write(launch.control_fd, b"!")
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
            return
    for pid in _list_children(process.pid):  # the first of its world: who waits for it sees everybody gone
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def _list_children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _wait_for_namespace(launch: Launch) -> None:
    """bwrap ends when the command has; the others of its world end at that moment too, and are waited for."""
    if launch.info_fd < 0:
        return
    os.set_blocking(launch.info_fd, False)
    with suppress(OSError):
        found = re.search(rb'"child-pid"\s*:\s*(\d+)', os.read(launch.info_fd, 4096))
        ending = _open_pidfd(int(found[1])) if found else -1
        if ending >= 0:
            with selectors.DefaultSelector() as selector:
                selector.register(ending, selectors.EVENT_READ)
                selector.select(_GRACE_SECONDS)
            os.close(ending)


def _read_failure(launch: Launch) -> ToolError | None:
    if launch.failure_fd < 0:
        return None
    os.set_blocking(launch.failure_fd, False)
    try:
        said = os.read(launch.failure_fd, 4096).decode(errors="replace")
    except BlockingIOError:
        return None
    return (
        ToolError(f"the command could not be run in its sandbox: {said.partition(' ')[2]}", kind="execution") if said else None
    )


def _close_launch(launch: Launch) -> None:
    for handle in (launch.control_fd, launch.failure_fd, launch.info_fd):
        if handle >= 0:
            os.close(handle)


def _read_last_line(fd: int) -> str:
    try:
        data = os.read(fd, _CWD_SIZE)
    except (BlockingIOError, OSError):
        return ""
    return os.fsdecode(data).rstrip("\n").rpartition("\n")[2]


def signal_from_exit_code(exit_code: int | None) -> int | None:
    """The signal that ended a command, where its code says so."""
    if exit_code is not None and exit_code > 128:
        with suppress(ValueError):
            return int(signal.Signals(exit_code - 128))
    return None
