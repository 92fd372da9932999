"""The commands of one toolbox: where they run, what holds them, which of them still run, and what there is to tell of each.

Laws: a command starts only while the toolbox is open, and there are never more than a few. The next command runs where the last
one ended, if that is in the workspace. What a command did to protected names is seen to before its result is told.
"""

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from toolglot.builtin.files.workspace import Root
from toolglot.builtin.shell.limits import PidsCgroup
from toolglot.builtin.shell.output import Excerpt, OutputLimit, make_excerpt
from toolglot.builtin.shell.protected_paths import ProtectedSnapshot, ProtectionReport, find_protected, revert_changes
from toolglot.builtin.shell.sandbox import Confinement, Launch, SandboxLevel, prepare_launch, probe_sandbox
from toolglot.builtin.shell.session import ShellSession, signal_from_exit_code
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError, UsageError

__all__ = ["Job", "SessionInfo", "ShellManager", "ShellOptions", "ShellResult"]

MAX_RUNNING, MAX_ENDED, MAX_SPILLS = 16, 32, 20


class ShellOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What commands of a toolbox may do. `level`: another than the best that works, for those who know why."""

    network: bool = False
    unix_sockets: bool = False
    """Docker, agents of ssh and gpg, and every other service of this machine listen on such sockets."""
    hidden: tuple[Path, ...] = ()
    processes: int = 512
    level: SandboxLevel | None = None
    separate: bool = False
    """stdout and stderr apart: their order is lost."""


class ShellResult(msgspec.Struct, frozen=True, kw_only=True):
    """One command: everything that a facade needs to tell of it in its own words."""

    command: str
    description: str = ""
    running: bool = False
    handle: str = ""
    """Of a command that goes on running, for shell_output and shell_kill."""
    pid: int = 0
    exit_code: int | None = None
    """As shells say it: 128 and the signal, for a command that a signal ended."""
    signal: int | None = None
    ended: str = ""
    """Why we ended it: timeout, inactivity, killed, cancelled, output, closed; "" where it ended by itself."""
    timed_out: bool = False
    seconds: float = 0.0
    output: str = ""
    """Cut in the middle where it is long."""
    head: str = ""
    tail: str = ""
    omitted: int = 0
    truncated: bool = False
    stdout: str = ""
    stderr: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    spill: str = ""
    """A file with all of the output, up to 100 MB, where it was long."""
    spill_is_whole: bool = True
    cwd: str = ""
    """Where the next command runs, as the model says it."""
    sandbox: str = "none"
    network: bool = False
    processes: str = "not limited"
    protected: list[str] = []
    """Protected names that the command made (they are gone again) or changed (they are as before, where that was possible)."""
    notes: list[str] = []


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One line of shell_list."""

    handle: str
    command: str
    pid: int
    running: bool
    seconds: float
    exit_code: int | None = None
    ended: str = ""
    total_bytes: int = 0
    unread_bytes: int = 0


class Job(msgspec.Struct, frozen=True):
    """A session, and what belongs to it."""

    session: ShellSession
    confinement: Confinement
    snapshots: tuple[ProtectedSnapshot, ...]
    cwd: Path
    description: str
    is_background: bool = False
    """In the background: meanwhile the user may have changed things too."""


class ShellManager:
    """The commands of one toolbox."""

    def __init__(self, state: ToolState, options: ShellOptions | None = None) -> None:
        self._state_ref = weakref.ref(state)
        self._workspace = state.workspace
        self.options = options or ShellOptions()
        self.level = probe_sandbox().level if self.options.level is None else self.options.level
        if any(str(root.path) == "/" for root in state.workspace.roots):
            raise UsageError("commands cannot be held in the workspace '/': choose a folder below it")
        self._owns_directory = state.state_dir is None
        self._directory = Path(tempfile.mkdtemp(prefix="toolglot-")) if state.state_dir is None else state.state_dir / "shell"
        self._hidden = (*self.options.hidden, *(() if state.state_dir is None else (state.state_dir,)))
        self._jobs: dict[str, Job] = {}
        self._reports: dict[str, ProtectionReport] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._closed = False
        self._scratch: Path | None = None

    @property
    def state(self) -> ToolState:
        box = self._state_ref()
        if box is None:
            raise ToolError("the conversation is over: nothing can be run any more", kind="execution")
        return box

    # ---- folders

    def _prepare_directories(self) -> Path:
        """Where spilt output goes; the command's own /tmp is beside it."""
        if self._scratch is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._scratch = Path(tempfile.mkdtemp(prefix="tmp-", dir=os.path.realpath(self._directory)))
        spills = self._directory / "output"
        spills.mkdir(mode=0o700, exist_ok=True)
        return Path(os.path.realpath(spills))

    def close(self) -> None:
        """Ends everything that runs, and removes what was kept of it."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.session.kill("closed")
        for job in jobs:
            job.session.join(5.0)
            self._revert_changes(job)
            job.session.output.delete_spill()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._owns_directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    # ---- running

    def resolve_cwd(self, raw_path: str | None) -> Path:
        """The folder of a command. Raises ToolError."""
        box = self.state
        found = (
            self._find_directory(raw_path)
            if raw_path is not None
            else self._find_directory(box.cwd)
            if box.cwd
            else self._workspace.root
        )
        if found is None and raw_path is None:
            box.cwd = ""
            return self._workspace.root
        if found is None:
            raise ToolError(
                f"cwd: there is no folder {raw_path!r} in the workspace {str(self._workspace.root)!r}", kind="execution"
            )
        return found

    def _find_directory(self, path: str) -> Path | None:
        if path in ("", ".", "/"):
            return self._workspace.root if path != "/" else None
        found = self._workspace.inspect(path)
        return found.path if found is not None and (found.status.st_mode & 0o170000) == 0o040000 else None

    def build_confinement(self, cwd: Path, *, escalated: bool) -> Confinement:
        spills = self._prepare_directories()
        level = SandboxLevel.NONE if escalated else self.level
        roots = self._workspace.roots
        assert self._scratch is not None
        return Confinement(
            level=level,
            roots=roots,
            scratch=self._scratch,
            protected_paths=_find_read_only(roots, cwd, self._workspace.protected_names)
            if level is SandboxLevel.BUBBLEWRAP
            else (),
            hidden_paths=self._hidden,
            readable_paths=(spills,),
            network=self.options.network,
            unix_sockets=self.options.unix_sockets,
            max_processes=self.options.processes,
        )

    def start(self, session: ShellSession, build_argv: Callable[[int], list[str]], job: Job, variables: dict[str, str]) -> None:
        """Starts a command; it can be found by its handle from then on. Raises ToolError."""

        def prepare(keep: tuple[int, ...]) -> tuple[Launch, Callable[[], None]]:
            argv = build_argv(keep[0] if keep else -1)
            launch, stack = prepare_launch(
                job.confinement, argv, cwd=str(job.cwd), variables=variables, pass_fds=keep, tty=session.tty
            )
            return launch, stack.close

        with self._lock:
            if self._closed:
                raise ToolError("the conversation is over: nothing can be run any more", kind="execution")
            if sum(other.session.is_running for other in self._jobs.values()) >= MAX_RUNNING:
                raise ToolError(f"{MAX_RUNNING} commands are running: end one with shell_kill first", kind="limit")
            self._jobs[session.handle] = job
        try:
            session.start(prepare, report_cwd=True)
        except BaseException:
            self._jobs.pop(session.handle, None)
            raise
        self._forget_old()

    def new_handle(self) -> str:
        with self._lock:
            self._count += 1
            return str(self._count)

    def _forget_old(self) -> None:
        with self._lock:
            ended = [job for job in self._jobs.values() if not job.session.is_running]
            for job in ended[: max(0, len(ended) - MAX_ENDED)]:
                del self._jobs[job.session.handle]
            spilt = [job for job in ended if job.session.output.spill_path is not None]
            for job in spilt[: max(0, len(spilt) - MAX_SPILLS)]:
                job.session.output.delete_spill()

    def find_job(self, handle: str) -> Job:
        """By its handle, or by its process. Raises ToolError."""
        with self._lock:
            jobs = dict(self._jobs)
        found = jobs.get(handle.strip()) or next((job for job in jobs.values() if str(job.session.pid) == handle.strip()), None)
        if found is None:
            running = [known for known, job in jobs.items() if job.session.is_running]
            have = f"running are {', '.join(running)}" if running else "nothing is running"
            raise ToolError(f"there is no command with the handle {handle[:80]!r}; {have}", kind="not_found")
        return found

    def list_jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def forget(self, job: Job) -> None:
        """Of a command that ended in front of the model nothing has to be kept but its spilt output."""
        if job.session.output.spill_path is None:
            with self._lock:
                self._jobs.pop(job.session.handle, None)

    # ---- afterwards

    def _revert_changes(self, job: Job) -> ProtectionReport:
        """What it did to protected names: what it made new goes at each look, the rest is seen to once, when it has ended."""
        handle, away = job.session.handle, self._directory / "removed"
        if not job.snapshots:
            return ProtectionReport()
        closely = job.confinement.level is not SandboxLevel.BUBBLEWRAP
        if job.session.is_running:
            return revert_changes(job.snapshots, away, recursive=False, may_restore=False, new_only=True)
        if handle not in self._reports:
            self._reports[handle] = revert_changes(job.snapshots, away, recursive=closely, may_restore=not job.is_background)
            if len(self._reports) > 4 * MAX_ENDED:
                del self._reports[next(iter(self._reports))]
        return self._reports[handle]

    def build_result(self, job: Job, limit: OutputLimit, *, excerpt: Excerpt | None = None) -> ShellResult:
        """What there is to tell of a command now. `text`: another part of the output than all of it."""
        session = job.session
        settled = self._revert_changes(job)
        notes = [*_describe_report(settled, self._workspace.root), *self._update_cwd(job)]
        part = excerpt or make_excerpt(*session.output.read_from(0), limit)
        if not session.is_running and session.exit_code and job.confinement.level is SandboxLevel.BUBBLEWRAP:
            notes += _explain_failure(part.text, job.confinement)
        streams = [make_excerpt(*one.read_from(0), limit).text if one else "" for one in (session.stdout, session.stderr)]
        session.shown_bytes = session.output.total_bytes
        ended = not session.is_running
        return ShellResult(
            command=session.command,
            description=job.description,
            running=not ended,
            handle="" if ended else session.handle,
            pid=session.pid,
            exit_code=session.exit_code if ended else None,
            signal=signal_from_exit_code(session.exit_code) if ended else None,
            ended=session.end_reason,
            timed_out=session.end_reason in ("timeout", "inactivity"),
            seconds=round(session.duration if ended else time.monotonic() - session.started_at, 4),
            output=part.text,
            head=part.head,
            tail=part.tail,
            omitted=part.omitted,
            truncated=bool(part.omitted),
            stdout=streams[0] if session.stdout else part.text,
            stderr=streams[1],
            total_bytes=session.output.total_bytes,
            total_lines=session.output.line_count,
            spill=str(session.output.spill_path or ""),
            spill_is_whole=session.output.is_spill_complete,
            cwd=self.state.cwd or ".",
            sandbox=job.confinement.level.label,
            network=job.confinement.network or job.confinement.level is SandboxLevel.NONE,
            processes=_describe_process_limit(job.confinement),
            protected=[
                self.state.display_path(path)
                for path in (*(old for old, _ in settled.removed), *settled.restored, *settled.changed)
            ],
            notes=notes,
        )

    def _update_cwd(self, job: Job) -> list[str]:
        """The next command runs where this one ended, if that is in the workspace."""
        session, box = job.session, self.state
        told, session.cwd = session.cwd, ""
        if session.is_running or not told or told == str(job.cwd):
            return []
        try:
            found = self._find_directory(told)
        except ToolError:
            found = None
        if found is None:
            return [f"the next command runs in {box.cwd or '.'} again: {told[:200]} is not a folder of the workspace"]
        box.cwd = box.display_path(found) if found != self._workspace.root else ""
        return []


def _describe_report(report: ProtectionReport, root: Path) -> list[str]:
    def named(path: Path) -> str:
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    found = [f"{named(old)} is protected: it was taken out of the workspace and is now {new}" for old, new in report.removed]
    if report.restored:
        found.append(f"what is protected was put back as it was: {', '.join(map(named, report.restored[:10]))}")
    if report.changed:
        found.append(f"the command changed what is protected: {', '.join(map(named, report.changed[:10]))}; tell the user")
    return found


def _explain_failure(text: str, confinement: Confinement) -> list[str]:
    """What a model would otherwise search for: the sandbox is why."""
    if "Read-only file system" in text:
        names = ", ".join(path.name for path in confinement.protected_paths[:5])
        return [f"the sandbox lets only the workspace be written{f', without {names}' if names else ''}"]
    refused = (
        "Network is unreachable",
        "Could not resolve host",
        "Temporary failure in name resolution",
        "Name or service not known",
    )
    return ["there is no network in the sandbox"] if not confinement.network and any(one in text for one in refused) else []


def _describe_process_limit(confinement: Confinement) -> str:
    if confinement.level is SandboxLevel.NONE:
        return "not limited"
    return "cgroup" if PidsCgroup.is_available() else "rlimit" if os.geteuid() != 0 else "not limited"


def _find_read_only(roots: tuple[Root, ...], cwd: Path, names: frozenset[str]) -> tuple[Path, ...]:
    """Protected names that are there, and what links of these names lead to inside of a root."""
    found: list[Path] = []
    for path in (root.path / name for root in roots if root.writable for name in find_protected(root.path, cwd, names)):
        real = Path(os.path.realpath(path))
        if real.exists() and any(real.is_relative_to(root.path) and real != root.path for root in roots):
            found.append(real)
    return tuple(dict.fromkeys(found))
