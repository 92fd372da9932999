"""One running command, which a thread of its own starts, reads, writes to and kills.

The thread lives as long as the command, because the kernel kills a sandbox together with the thread that made
it (PR_SET_PDEATHSIG). Nothing that a command started outlives it. Output is always read, so that a command
never blocks on us, and timeouts are kept here to some milliseconds, whatever else the process is doing.
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
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from toolglot.builtin.shell.arguments import CommandOptions
from toolglot.builtin.shell.output import OutputBuffer
from toolglot.builtin.shell.protected_paths import ProtectedSnapshot
from toolglot.confine.environment import safe_environment
from toolglot.confine.limits import DiskWatch, remove_cgroups, was_out_of_memory
from toolglot.confine.programs import start_program
from toolglot.confine.sandbox import (
    Confinement,
    Launch,
    Program,
    SandboxLevel,
    build_program_argv,
    build_shell_argv,
    kill_tree,
    open_pidfd,
    open_pipe,
    prepare_launch,
)
from toolglot.errors import ToolError

__all__ = ["EndReason", "ShellSession", "signal_from_exit_code"]

EndReason = Literal["", "timeout", "inactivity", "killed", "cancelled", "output", "disk", "closed"]
"""Why we ended a command; "" if it ended by itself."""
MAX_OUTPUT_BYTES = 8 * 1024**3
"""Bytes of output after which a command is killed: it would never end."""
MAX_PENDING_INPUT = 1_000_000
_CHUNK_SIZE = 256 * 1024
_POLL_SECONDS = 0.05  # where the kernel has no pidfd
_DISK_SECONDS = 0.5  # between two looks at the free disk
_MAX_RESTARTS = 40  # of a command whose mounts failed
_MOUNT_ERROR = re.compile("mount|Race condition|type of source|mkdir|create file")  # in messages of bwrap
_PIPE_BYTES = 1 << 20  # that a pipe holds at most
_MAX_CWD_BYTES = 65_536

_Process = subprocess.Popen[bytes]
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
        confinement: Confinement,
        cwd: Path,
        options: CommandOptions,
        argv: list[str] | None = None,
        snapshots: tuple[ProtectedSnapshot, ...] = (),
    ) -> None:
        self.handle, self.command, self._argv = handle, command, argv
        self.confinement, self.start_cwd, self.options = confinement, cwd, options
        self.snapshots: tuple[ProtectedSnapshot, ...] = snapshots
        self.output = OutputBuffer(confinement.spill_dir, options.output_limit.max_chars)
        # A foreground command that waits for input would hang.
        self._accepts_input = options.background or options.tty
        self._pending_input = bytearray(options.stdin or b"")
        self._first_input = bytearray()
        """What was written first: nobody has read it if the sandbox could not be set up."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._wakeup_read = self._wakeup_write = -1  # a pipe that wakes the thread, while the command runs
        self._thread: threading.Thread | None = None
        self._start_event = threading.Event()  # set once the process runs, or could not be started
        self._is_finished = False
        self._kill_reason: EndReason = ""
        self._ours = ExitStack()
        """Closes our ends of the command's pipes."""
        self._launch: Launch | None = None
        self._output_fd = self._stdin_fd = self._cwd_fd = -1
        is_limited = confinement.level is not SandboxLevel.NONE
        self._disk_watch = DiskWatch(confinement.writable_directories) if is_limited else None
        self._next_look = 0.0
        self.failure: BaseException | None = None
        """Why the command never ran."""
        self.pid = 0
        self.started_at = self.last_output_at = time.monotonic()
        self._ended_at = 0.0
        self.exit_code: int | None = None
        self.end_reason: EndReason = ""
        self.is_out_of_memory = False
        self.cwd = ""
        """Where the command was when it ended, as it says itself."""
        self.shown_bytes = 0
        """How much of the output the model has been shown."""
        self.is_forgotten = False
        """Whether its end was reported: nobody can ask about it any more."""

    # ---- for any thread

    @property
    def is_running(self) -> bool:
        return not self._is_finished

    @property
    def seconds(self) -> float:
        """How long it has been running, or ran."""
        return (self._ended_at if self._is_finished else time.monotonic()) - self.started_at

    def start(self) -> None:
        """Start the command. Raises ToolError."""
        with self._lock:
            self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_read, False)
        os.set_blocking(self._wakeup_write, False)
        if self._kill_reason:  # it was killed before there was a thread to wake
            self._wake_thread()
        # A daemon, as a program that ends must not wait for its commands: _kill_all_sessions ends them.
        name = f"toolglot-shell-{self.handle}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
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
            raise ToolError(
                f"the command of session {self.handle} has ended: it takes no input", code="stdin_closed"
            )
        if not self._accepts_input:
            message = (
                f"the command of session {self.handle} takes no input: start it in the background or "
                "with a terminal"
            )
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

    def _run(self) -> None:
        process: _Process | None = None
        try:
            for is_last in (False,) * _MAX_RESTARTS + (True,):
                try:
                    process = self._spawn()
                except OSError as e:
                    message = f"the command could not be started: {e.strerror}"
                    raise ToolError(message, code="sandbox_unavailable") from None
                finally:
                    self.started_at = self.last_output_at = time.monotonic()
                self._start_event.set()
                self._pump(process)
                assert self._launch is not None
                if self._launch.wait_for_namespace() or self.end_reason or process.returncode != 1:
                    break
                # While bwrap made its mounts, another command may have exchanged what is there: it then exits
                # with 1.
                reason = self.output.last_line().removeprefix("bwrap: ")
                is_exchanged = bool(_MOUNT_ERROR.search(reason))
                if is_last or not is_exchanged:
                    advice = "; if another command keeps replacing that, end it first" if is_exchanged else ""
                    message = f"the command could not be run in its sandbox: {reason}{advice}"
                    raise ToolError(message, code="sandbox_unavailable")
                self._ours.close()
                remove_cgroups(self._launch.cgroups)
                self.output.delete_spill()
                self.output = OutputBuffer(self.confinement.spill_dir, self.options.output_limit.max_chars)
                self.shown_bytes = 0
                with self._lock:
                    self._pending_input[:0] = self._first_input
                    self._first_input.clear()
        except BaseException as e:
            self.failure = e
            if process is not None:
                process.kill()
        finally:
            self._finish(process)

    def _spawn(self) -> _Process:
        """Start the process, and close its ends of the pipes."""
        options, confinement = self.options, self.confinement
        with ExitStack() as theirs:
            self._cwd_fd, cwd_write = open_pipe(self._ours, theirs)
            stdin, output = self._open_streams(theirs)
            if self._argv is None:
                argv = build_shell_argv(self.command, confinement, login=options.login, cwd_fd=cwd_write)
            else:
                argv = build_program_argv(self._argv, confinement)
            program = Program(
                argv=argv,
                cwd=self.start_cwd,
                variables=options.variables,
                pass_fds=(cwd_write,),
                tty=options.tty,
            )
            # The sandbox is prepared in this thread: bubblewrap dies with the thread that started it.
            self._launch = prepare_launch(confinement, program, self._ours, theirs)
            self.snapshots = tuple(
                snapshot.without_mounts(self._launch.unmounted) for snapshot in self.snapshots
            )
            process = start_program(
                self._launch.argv,
                roots=confinement.roots,
                # for the program that makes the sandbox; a model's variables are in its arguments
                env=safe_environment(),
                pass_fds=self._launch.pass_fds,
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in our terminal is not for the command
            )
        self.pid = process.pid
        return process

    def _open_streams(self, theirs: ExitStack) -> tuple[int, int]:
        """Return the command's standard input, and its output and error stream."""
        if self.options.tty:
            import fcntl  # only on systems with terminals
            import struct
            import termios

            self._output_fd, terminal = os.openpty()
            self._ours.callback(os.close, self._output_fd)
            theirs.callback(os.close, terminal)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))  # rows, columns
            os.set_blocking(self._output_fd, False)
            self._stdin_fd = os.dup(self._output_fd)
            self._ours.callback(self._close_stdin)
            return terminal, terminal
        if self._accepts_input or self.options.stdin is not None:
            stdin, self._stdin_fd = os.pipe()
            self._ours.callback(self._close_stdin)
            os.set_blocking(self._stdin_fd, False)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs.callback(os.close, stdin)
        self._output_fd, output = open_pipe(self._ours, theirs)
        return stdin, output

    def _close_stdin(self) -> None:
        if self._stdin_fd >= 0:
            os.close(self._stdin_fd)
            self._stdin_fd = -1

    def _pump(self, process: _Process) -> None:
        """Read output, write input and keep the timeouts until the process has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output_fd, selectors.EVENT_READ)
            selector.register(self._wakeup_read, selectors.EVENT_READ)
            pidfd = open_pidfd(process.pid)
            if pidfd >= 0:
                selector.register(pidfd, selectors.EVENT_READ)
            try:
                while process.poll() is None:
                    reason, pause = self._check_limits()
                    if reason:
                        self.end_reason = reason
                        assert self._launch is not None
                        kill_tree(process, self._launch)
                        continue
                    self._watch_stdin(selector)
                    if pidfd < 0:
                        pause = _POLL_SECONDS if pause is None else min(pause, _POLL_SECONDS)
                    for key, _ in selector.select(pause):
                        if key.fd == self._wakeup_read:
                            os.read(self._wakeup_read, 512)
                        elif key.fd == self._stdin_fd:
                            self._write_input()
                        elif key.fd == self._output_fd and not self._read_output():
                            selector.unregister(self._output_fd)
                # Everybody has gone: what is left is at most what a pipe or a terminal buffers.
                for _ in range(64):
                    if not self._read_output():
                        break
            finally:
                if pidfd >= 0:
                    os.close(pidfd)

    def _check_limits(self) -> tuple[EndReason, float | None]:
        """Return why the command has to end now; if it does not, the seconds until the next look."""
        if self._kill_reason:
            return self._kill_reason, None
        if self.output.total_bytes > MAX_OUTPUT_BYTES:
            return "output", None
        now = time.monotonic()
        pauses: list[float] = []
        if self._disk_watch is not None:
            if now >= self._next_look:
                self._next_look = now + _DISK_SECONDS
                if self._disk_watch.is_full():
                    return "disk", None
            pauses.append(self._next_look - now)
        deadlines: list[tuple[float, EndReason]] = []
        if self.options.timeout is not None:
            deadlines.append((self.started_at + self.options.timeout, "timeout"))
        if self.options.inactivity_timeout is not None:
            deadlines.append((self.last_output_at + self.options.inactivity_timeout, "inactivity"))
        if deadlines:
            deadline, reason = min(deadlines)
            if deadline <= now:
                return reason, None
            pauses.append(deadline - now)
        return "", min(pauses, default=None)

    def _read_output(self) -> bool:
        """Read one chunk; return False at the end of the stream."""
        try:
            data = os.read(self._output_fd, _CHUNK_SIZE)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno != errno.EIO:  # Linux: the end of a terminal that nobody has open any more
                raise
            data = b""
        if data:
            self.output.add(data)
        self.last_output_at = time.monotonic()
        return bool(data)

    def _watch_stdin(self, selector: selectors.BaseSelector) -> None:
        """Wait for a writable stdin only while there is input; close it after input that was given at the
        start.
        """
        if self._stdin_fd < 0:
            return
        is_watched = self._stdin_fd in selector.get_map()
        if self._pending_input and not is_watched:
            selector.register(self._stdin_fd, selectors.EVENT_WRITE)
        if not self._pending_input and is_watched:
            selector.unregister(self._stdin_fd)
        if not self._pending_input and not self._accepts_input:
            self._close_stdin()

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
            if len(self._first_input) <= _PIPE_BYTES:
                self._first_input += self._pending_input[:size]
            del self._pending_input[:size]

    def _finish(self, process: _Process | None) -> None:
        if process is not None:
            code = process.wait()
            self.exit_code = code if code >= 0 else 128 - code  # as a shell reports a signal
        if self._launch is not None:
            # The reason is in a pipe of the supervisor: it has to be read before the descriptors are closed.
            self.failure = self.failure or self._launch.read_failure()
            self._launch.wait_for_namespace()
        if self._cwd_fd >= 0:
            with suppress(OSError):  # the last line: a trap of the command itself may have written there, too
                self.cwd = os.fsdecode(os.read(self._cwd_fd, _MAX_CWD_BYTES)).rstrip("\n").rpartition("\n")[2]
        self._ours.close()
        cgroups = self._launch.cgroups if self._launch else ()
        self.is_out_of_memory = bool(self.exit_code) and was_out_of_memory(cgroups)
        if process is None:
            remove_cgroups(cgroups)
        self.output.close()
        self._ended_at = time.monotonic()
        with self._lock:  # on_end and _wake_thread see a running session with its pipe, or a finished one
            self._is_finished = True
            callbacks, self._callbacks = self._callbacks, []
            os.close(self._wakeup_read)
            os.close(self._wakeup_write)
            self._wakeup_read = self._wakeup_write = -1
        self._start_event.set()
        for callback in callbacks:  # without the lock: a callback may ask us something
            with suppress(RuntimeError):  # an event loop that is closed
                callback()
        remove_cgroups(cgroups)  # last: it may take some milliseconds, for which nobody has to wait
        _live_sessions.discard(self)


def signal_from_exit_code(exit_code: int | None) -> int | None:
    """Return the signal that ended a command, if its exit code says so."""
    if exit_code is not None and exit_code > 128:
        with suppress(ValueError):
            return int(signal.Signals(exit_code - 128))
    return None
