"""The commands of one conversation: where they run, how they are sandboxed, which are still running, and their results.

The next command runs where the last one ended, if that is in the workspace. What a command did to protected files is dealt with
before its result is reported.
"""

import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from toolglot.base_errors import SessionNotFound
from toolglot.builtin.shell.limits import describe_process_limit
from toolglot.builtin.shell.output import Excerpt, OutputLimit, make_excerpt
from toolglot.builtin.shell.protected_paths import ProtectedSnapshot, ProtectionReport, find_protected, revert_changes
from toolglot.builtin.shell.results import SessionInfo, ShellResult
from toolglot.builtin.shell.sandbox import Confinement, Launch, SandboxLevel, prepare_launch
from toolglot.builtin.shell.sandbox_probe import probe_sandbox
from toolglot.builtin.shell.session import ShellSession, signal_from_exit_code
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError, UsageError

__all__ = ["Job", "ShellManager", "ShellOptions", "describe_session"]

MAX_RUNNING, MAX_ENDED, MAX_SPILLS = 16, 32, 20  # ended commands stay for a while, so that they can be asked about
# What programs print when the sandbox has no network.
_NETWORK_ERRORS = (
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
)


class ShellOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What commands may do."""

    network: bool = False
    unix_sockets: bool = False
    """Docker, the agents of ssh and gpg, and every other service of this machine listen on such sockets."""
    hidden: tuple[Path, ...] = ()
    """Paths that commands cannot read."""
    processes: int = 512
    """The maximum number of processes of one command."""
    level: SandboxLevel | None = None
    """Another sandbox than the best that works here."""
    separate: bool = False
    """Keep stdout and stderr apart; their order is lost."""


class Job(msgspec.Struct, frozen=True):
    """A session, and what belongs to it."""

    session: ShellSession
    confinement: Confinement
    snapshots: tuple[ProtectedSnapshot, ...]
    cwd: Path
    description: str
    is_background: bool = False
    """While it runs, the user may change files, too."""


class ShellManager:
    """Runs and tracks the commands of one conversation."""

    def __init__(self, state: ToolState, options: ShellOptions | None = None) -> None:
        self._state_ref = weakref.ref(state)  # the tools live as long as the conversation, and must not keep it alive
        self._workspace = state.workspace
        self.options = options or ShellOptions()
        self.level = probe_sandbox().level if self.options.level is None else self.options.level
        if any(str(root.path) == "/" for root in state.workspace.roots):
            raise UsageError("commands cannot be confined to the workspace '/': choose a directory below it")
        self._owns_directory = state.state_dir is None
        self._directory = Path(tempfile.mkdtemp(prefix="toolglot-")) if state.state_dir is None else state.state_dir / "shell"
        self._hidden = (*self.options.hidden, *(() if state.state_dir is None else (state.state_dir,)))
        self._jobs: dict[str, Job] = {}
        self._reports: dict[str, ProtectionReport] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._scratch: Path | None = None

    @property
    def state(self) -> ToolState:
        state = self._state_ref()
        if state is None:
            raise _over_error()
        return state

    def close(self) -> None:
        """Kill everything that runs, and delete its files."""
        with self._lock:
            self._is_closed = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.session.kill("closed")
        for job in jobs:
            job.session.join(5.0)
            self._revert_changes(job)  # nobody will ask for the result of this command any more
            job.session.output.delete_spill()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._owns_directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    def restart(self) -> None:
        """Kill everything that runs, and go back to the workspace's root."""
        jobs = self.list_jobs()
        for job in jobs:
            job.session.kill()
        for job in jobs:
            job.session.join(5.0)
        self.state.cwd = ""

    # ---- starting commands

    def resolve_cwd(self, raw_path: str | None) -> Path:
        """Return the directory of a command: the given one, or where the last command ended. Raises ToolError."""
        if raw_path is None:
            directory = self._find_directory(self.state.cwd)
            if directory is None:  # it was deleted meanwhile
                self.state.cwd = ""
            return directory or self._workspace.root
        directory = self._find_directory(raw_path)
        if directory is None:
            message = f"there is no directory {raw_path!r} in the workspace {str(self._workspace.root)!r}"
            raise ToolError(message, code="not_directory")
        return directory

    def _find_directory(self, path: str) -> Path | None:
        if path in ("", ".", "/"):
            return self._workspace.root if path != "/" else None
        entry = self._workspace.inspect(path)
        return entry.path if entry is not None and stat.S_ISDIR(entry.status.st_mode) else None

    def build_confinement(self, cwd: Path, *, escalated: bool) -> Confinement:
        if self._scratch is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One /tmp for all commands of a conversation; a real path, as it is mounted.
            self._scratch = Path(tempfile.mkdtemp(prefix="tmp-", dir=os.path.realpath(self._directory)))
        spills = self._directory / "output"
        spills.mkdir(mode=0o700, exist_ok=True)
        level = SandboxLevel.NONE if escalated else self.level
        roots, names = self._workspace.roots, self._workspace.protected_names
        protected: dict[Path, None] = {}
        if level is SandboxLevel.BUBBLEWRAP:
            for root in roots:
                for name in find_protected(root.path, cwd, names) if root.writable else ():
                    path = Path(os.path.realpath(root.path / name))  # a link of such a name protects what it leads to
                    if path.exists() and any(path.is_relative_to(root.path) and path != root.path for root in roots):
                        protected[path] = None
        return Confinement(
            level=level,
            roots=roots,
            scratch=self._scratch,
            protected_paths=tuple(protected),
            hidden_paths=self._hidden,
            readable_paths=(Path(os.path.realpath(spills)),),
            network=self.options.network,
            unix_sockets=self.options.unix_sockets,
            max_processes=self.options.processes,
        )

    def start(self, build_argv: Callable[[int], list[str]], job: Job, variables: dict[str, str]) -> None:
        """Start a command; from then on it can be found by its handle. Raises ToolError."""
        session = job.session

        def prepare(cwd_fd: int) -> tuple[Launch, Callable[[], None]]:
            argv, cwd = build_argv(cwd_fd), str(job.cwd)
            launch, stack = prepare_launch(
                job.confinement, argv, cwd=cwd, variables=variables, pass_fds=(cwd_fd,), tty=session.tty
            )
            return launch, stack.close

        with self._lock:  # count and register in one step, or two calls could both take the last slot
            if self._is_closed:
                raise _over_error()
            if sum(other.session.is_running for other in self._jobs.values()) >= MAX_RUNNING:
                message = f"{MAX_RUNNING} commands are running: end one of them first"
                raise ToolError(message, kind="limit", code="too_many_sessions")
            self._jobs[session.handle] = job
        try:
            session.start(prepare)
        except BaseException:
            self._jobs.pop(session.handle, None)
            raise
        with self._lock:  # forget old commands
            ended = [job for job in self._jobs.values() if not job.session.is_running]
            for job in ended[: max(0, len(ended) - MAX_ENDED)]:
                del self._jobs[job.session.handle]
            spilled = [job for job in ended if job.session.output.spill_path is not None]
            for job in spilled[: max(0, len(spilled) - MAX_SPILLS)]:
                job.session.output.delete_spill()

    def new_handle(self) -> str:
        with self._lock:
            self._count += 1
            return str(self._count)

    # ---- running and ended commands

    def find_job(self, handle: str) -> Job:
        """Return a job by its handle or its process id. Raises ToolError."""
        jobs, key = {job.session.handle: job for job in self.list_jobs()}, handle.strip()
        job = jobs.get(key) or next((job for job in jobs.values() if str(job.session.pid) == key), None)
        if job is None:
            running = ", ".join(name for name, job in jobs.items() if job.session.is_running)
            message = f"there is no session {handle[:80]!r}; {f'running: {running}' if running else 'nothing is running'}"
            raise ToolError(message, kind="not_found", code="session_not_found", details=SessionNotFound(handle[:80]))
        return job

    def list_jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def forget(self, job: Job) -> None:
        """Drop an ended job whose result was reported; one with a spill file stays, so that the file is deleted later."""
        if job.session.output.spill_path is None:
            with self._lock:
                self._jobs.pop(job.session.handle, None)

    def _revert_changes(self, job: Job) -> ProtectionReport:
        handle, quarantine = job.session.handle, self._directory / "removed"
        if not job.snapshots:
            return ProtectionReport()
        if job.session.is_running:  # new files go at once, as another program may obey them any moment
            return revert_changes(job.snapshots, quarantine, recursive=False, may_restore=False, new_only=True)
        if handle not in self._reports:  # everything else is dealt with once
            recursive = job.confinement.level is not SandboxLevel.BUBBLEWRAP
            may_restore = not job.is_background  # otherwise the change may be the user's
            self._reports[handle] = revert_changes(job.snapshots, quarantine, recursive=recursive, may_restore=may_restore)
            if len(self._reports) > 4 * MAX_ENDED:
                del self._reports[next(iter(self._reports))]
        return self._reports[handle]

    def build_result(self, job: Job, limit: OutputLimit, *, excerpt: Excerpt | None = None) -> ShellResult:
        """Return the result of a command so far. `excerpt`: another part of the output than all of it."""
        session, confinement = job.session, job.confinement
        report = self._revert_changes(job)
        excerpt = excerpt or make_excerpt(*session.take_output(0), limit)
        is_running = session.is_running
        notes = self._collect_notes(job, report, excerpt.text)
        stdout, stderr = (
            make_excerpt(*buffer.read_from(0), limit).text if buffer else "" for buffer in (session.stdout, session.stderr)
        )
        touched = (*(path for path, _ in report.removed), *report.restored, *report.changed)
        return ShellResult(
            command=session.command,
            description=job.description,
            running=is_running,
            handle=session.handle if is_running else "",
            pid=session.pid,
            exit_code=None if is_running else session.exit_code,
            signal=None if is_running else signal_from_exit_code(session.exit_code),
            ended=session.end_reason,
            timed_out=session.end_reason in ("timeout", "inactivity"),
            seconds=round(_measure_seconds(session), 4),
            output=excerpt.text,
            head=excerpt.head,
            tail=excerpt.tail,
            omitted=excerpt.omitted,
            truncated=bool(excerpt.omitted),
            stdout=stdout if session.stdout else excerpt.text,
            stderr=stderr,
            total_bytes=session.output.total_bytes,
            total_lines=session.output.line_count,
            spill=str(session.output.spill_path or ""),
            spill_is_whole=session.output.is_spill_complete,
            cwd=self.state.cwd or ".",
            sandbox=confinement.level.label,
            network=confinement.network or confinement.level is SandboxLevel.NONE,
            processes="not limited" if confinement.level is SandboxLevel.NONE else describe_process_limit(),
            protected=[self.state.display_path(path) for path in touched],
            notes=notes,
        )

    def _collect_notes(self, job: Job, report: ProtectionReport, output: str) -> list[str]:
        """Return what the model should know besides the output; make the next command run where this one ended."""
        session, state, confinement = job.session, self.state, job.confinement
        notes = [f"{state.display_path(old)} is protected: it was moved to {new}" for old, new in report.removed]
        if report.restored:
            notes.append(f"protected files were restored: {', '.join(map(state.display_path, report.restored[:10]))}")
        if report.changed:
            names = ", ".join(map(state.display_path, report.changed[:10]))
            notes.append(f"the command changed protected files: {names}; tell the user")
        if session.is_running:
            return notes
        path, session.cwd = session.cwd, ""
        if path and path != str(job.cwd):
            directory = None
            with suppress(ToolError):
                directory = self._find_directory(path)
            if directory is not None:
                state.cwd = state.display_path(directory) if directory != self._workspace.root else ""
            else:
                notes.append(f"the next command runs in {state.cwd or '.'}: {path[:200]} is not a directory of the workspace")
        # The reason of these failures is the sandbox; a model would search for it elsewhere.
        if session.exit_code and confinement.level is SandboxLevel.BUBBLEWRAP:
            if "Read-only file system" in output:
                names = ", ".join(path.name for path in confinement.protected_paths[:5])
                notes.append(f"only the workspace is writable in the sandbox{f', except {names}' if names else ''}")
            elif not confinement.network and any(error in output for error in _NETWORK_ERRORS):
                notes.append("the sandbox has no network")
        return notes


def describe_session(session: ShellSession) -> SessionInfo:
    """Return a session's line of the list."""
    return SessionInfo(
        handle=session.handle,
        command=session.command,
        pid=session.pid,
        running=session.is_running,
        seconds=round(_measure_seconds(session), 3),
        exit_code=None if session.is_running else session.exit_code,
        ended=session.end_reason,
        total_bytes=session.output.total_bytes,
        unread_bytes=session.output.total_bytes - session.shown_bytes,
    )


def _measure_seconds(session: ShellSession) -> float:
    return time.monotonic() - session.started_at if session.is_running else session.duration


def _over_error() -> ToolError:
    return ToolError("the conversation is over: no command can be run any more", code="session_closed")
