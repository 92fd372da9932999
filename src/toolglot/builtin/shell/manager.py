"""The commands of one conversation: where they run, how they are sandboxed, which are still running, and
their results.

The next command runs where the last one ended, if that is in the workspace. What a command did to protected
files is dealt with before its result is reported.
"""

import os
import re
import stat
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from toolglot.builtin.files.closed_paths import MAX_CHILDREN, list_names, narrow_root, pin_parents
from toolglot.builtin.shell.arguments import CommandOptions
from toolglot.builtin.shell.name_guard import GuardPlan, NameGuard
from toolglot.builtin.shell.output import Excerpt, to_plain_text
from toolglot.builtin.shell.protected_paths import ProtectionReport
from toolglot.builtin.shell.session import EndReason, ShellSession, signal_from_exit_code
from toolglot.builtin.tool_state import ToolState
from toolglot.common.user_dirs import create_own_path, own_paths, state_directory
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.confine.home import explain_hidden_paths, write_git_config
from toolglot.confine.limits import CommandLimits, describe_limits
from toolglot.confine.private_dirs import ConversationDirectory
from toolglot.confine.roots import Root
from toolglot.confine.sandbox import Confinement, SandboxLevel
from toolglot.confine.sandbox_probe import SandboxProbe, probe_level, probe_sandbox
from toolglot.errors import ToolError, UsageError
from toolglot.values.failures import SessionNotFound

__all__ = ["SessionInfo", "ShellManager", "ShellOptions", "ShellResult", "describe_session"]

# ended commands stay for a while, so that they can be asked about
MAX_RUNNING, MAX_ENDED, MAX_SPILLS = 16, 32, 20
# What programs print when the sandbox has no network.
_NETWORK_ERRORS = (
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
)
# Said in each result, as a user cannot see it otherwise.
_LEVEL_NOTES = {
    SandboxLevel.LANDLOCK: "sandbox: Landlock, weaker than bubblewrap",
    SandboxLevel.NONE: "sandbox: none",
}
_PLACEHOLDER = re.compile(r"\$\{.*\}|\{\{.*\}\}|<.*>|")  # a template instead of a handle, or nothing
_END_TEXTS = {
    "timeout": "it took too long",
    "inactivity": "it wrote nothing for too long",
    "output": "it wrote too much",
    "disk": "the disk was nearly full",
}


class ShellResult(msgspec.Struct, frozen=True, kw_only=True):
    """One command."""

    command: str
    description: str = ""
    running: bool = False
    handle: str = ""
    """The session of a command that is still running."""
    pid: int = 0
    exit_code: int | None = None
    """As shells report it: 128 plus the signal, for a command that a signal ended."""
    signal: int | None = None
    ended: str = ""
    """Why we ended it: timeout, inactivity, killed, cancelled, output, disk, closed; "" if it ended by
    itself."""
    timed_out: bool = False
    seconds: float = 0.0
    output: str = ""
    """Truncated in the middle if it is long."""
    head: str = ""
    tail: str = ""
    omitted: int = 0
    truncated: bool = False
    total_bytes: int = 0
    total_lines: int = 0
    """Lines of the output that this result is about: all of it, or what is new."""
    call_seconds: float = 0.0
    """How long the call took that this is the result of."""
    spill: str = ""
    """A file with all of the output, up to 100 MB, if it is long."""
    spill_is_whole: bool = True
    cwd: str = ""
    """Where the next command runs, as the model names it."""
    sandbox: str = "none"
    network: bool = False
    processes: str = "not limited"
    protected: list[str] = []
    """Protected files that the command created (they were moved away) or changed (they were restored if
    possible)."""
    notes: list[str] = []

    def describe_end(self) -> list[str]:
        """Return how the command ended, and where all of its output is."""
        notes: list[str] = []
        if self.running:
            notes.append(
                f"still running after {self.seconds:.1f} s: continue with "
                f"shell_output(handle={self.handle!r})"
            )
        elif self.ended:
            reason = _END_TEXTS.get(self.ended, self.ended)
            notes.append(f"killed after {self.seconds:.1f} s with everything it started: {reason}")
        elif self.exit_code:
            reason = f" (signal {self.signal})" if self.signal else ""
            notes.append(f"exit code {self.exit_code}{reason}")
        if self.truncated and self.spill:
            part = "all" if self.spill_is_whole else "the first 100 MB"
            notes.append(f"{part} of the output is in {self.spill}")
        return notes


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One session of the list."""

    handle: str
    command: str
    pid: int
    running: bool
    seconds: float
    exit_code: int | None = None
    ended: str = ""
    total_bytes: int = 0
    unread_bytes: int = 0


class ShellOptions(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """What commands may do."""

    network: bool = False
    """Whether commands may use the network."""
    hidden: Sequence[Path] = ()
    """Paths that commands cannot read."""
    visible: Sequence[str] = ()
    """Paths in the home directory that commands can read, besides toolchains and package stores."""
    processes: Annotated[int, msgspec.Meta(ge=1)] = 512
    """The maximum number of processes of one command."""
    memory: Annotated[int, msgspec.Meta(ge=1_000_000)] | None = None
    """Bytes of memory that one command may use with everything it starts (default: three quarters of all)."""
    level: SandboxLevel | None = None
    """Another sandbox than the best that works here. Only `SandboxLevel.NONE` lets commands run without one
    and without a question each time."""

    def __post_init__(self) -> None:
        check_values(self)


class ShellManager:
    """Runs and tracks the commands of one conversation."""

    def __init__(self, state: ToolState, options: ShellOptions | None = None) -> None:
        # the tools live as long as the conversation, and must not keep it alive
        self._state_ref = weakref.ref(state)
        self._workspace = state.workspace
        self.options = options or ShellOptions()
        probe = (
            probe_sandbox(state.workspace.roots)
            if self.options.level is None
            else SandboxProbe(self.options.level)
        )
        self.level, self._bubblewrap = probe.level, probe.bubblewrap
        if any(str(root.path) == "/" for root in state.workspace.roots):
            raise UsageError("commands cannot be confined to the workspace '/': choose a directory below it")
        self._state_dir = state.state_dir
        # The user's configuration may hold headers with keys.
        self._hidden = (*self.options.hidden, *own_paths())
        if state.state_dir is not None:
            self._hidden += (state.state_dir,)
        self._sessions: dict[str, ShellSession] = {}
        quarantine = (state.state_dir or state_directory()) / "shell" / "removed"
        self.guard = NameGuard(state.workspace, quarantine)
        self._count = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._directory: ConversationDirectory | None = None

    @property
    def state(self) -> ToolState:
        state = self._state_ref()
        if state is None:
            raise _over_error()
        return state

    @cached_property
    def is_confined(self) -> bool:
        """Whether commands, unless they leave the sandbox, are confined to the workspace without network.

        The sandbox was tried here, and no name that is protected by default was opened.
        """
        if self.level is SandboxLevel.NONE or self.options.network or not self._workspace.protects_all:
            return False
        return self.options.level is None or not probe_level(self.level)

    def close(self) -> None:
        """Kill everything that runs, and delete its files: the conversation is over."""
        self._is_closed = True
        self.guard.close()
        self._end()

    def reset(self) -> None:
        """Kill everything that runs and forget it, with its files: a new conversation begins."""
        self._end()
        self.state.cwd = ""
        self.state.output_files.clear()

    def _end(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
            directory, self._directory = self._directory, None
        _kill(sessions, "closed")
        for session in sessions:
            self.guard.check(session)  # for the last time: nobody will ask for its result any more
            session.output.delete_spill()
        if directory is not None:
            directory.delete()

    def restart(self) -> None:
        """Kill everything that runs, and go back to the workspace's root."""
        _kill(self.list_sessions(), "killed")
        self.state.cwd = ""

    # ---- starting commands

    def start(self, command: str, argv: list[str] | None, options: CommandOptions) -> ShellSession:
        """Start a command; from then on it can be found by its handle. Blocks. Raises ToolError."""
        if self._is_closed:
            raise _over_error()
        path = self.state.cwd if options.cwd is None else options.cwd
        directory = self._find_directory(path)
        if directory is None and options.cwd is not None:
            message = f"there is no directory {options.cwd!r} in the workspace {str(self._workspace.root)!r}"
            raise ToolError(message, code="not_directory")
        if directory is None:  # it was deleted meanwhile
            self.state.cwd = ""
        cwd = directory or self._workspace.root
        level = SandboxLevel.NONE if options.escalate else self.level
        plan = self.guard.plan(self._workspace.roots, cwd, level, is_background=options.background)
        confinement = self._build_confinement(level, plan)
        with self._lock:  # count and register in one step, or two calls could both take the last slot
            if self._is_closed:
                raise _over_error()
            if sum(session.is_running for session in self._sessions.values()) >= MAX_RUNNING:
                message = f"{MAX_RUNNING} commands are running: end one of them first"
                raise ToolError(message, kind="limit", code="too_many_sessions")
            self._count += 1
            session = self._sessions[str(self._count)] = ShellSession(
                str(self._count),
                command,
                argv=argv,
                confinement=confinement,
                cwd=cwd,
                options=options,
                snapshots=plan.snapshots,
            )
        self.guard.watch(session)
        try:
            session.start()
        except BaseException:
            self._sessions.pop(session.handle, None)
            raise
        with self._lock:  # forget old commands
            ended = [session for session in self._sessions.values() if not session.is_running]
            for old in ended[: max(0, len(ended) - MAX_ENDED)]:
                del self._sessions[old.handle]
            spilled = [old for old in ended if old.output.spill_path is not None]
            for old in spilled[: max(0, len(spilled) - MAX_SPILLS)]:
                old.output.delete_spill()
        return session

    def confine_program(self, cwd: Path) -> tuple[Confinement, GuardPlan]:
        """Return how to confine a program that is no command, and runs beside the conversation: let `guard`
        watch it.
        """
        plan = self.guard.plan(self._workspace.roots, cwd, self.level, is_background=True)
        return self._build_confinement(self.level, plan), plan

    def describe_directory(self, raw_path: str | None) -> str:
        """Return where a command would run, "" for the root. Paths are relative to the root."""
        path = self.state.cwd if raw_path is None else raw_path
        directory = self._find_directory(path)
        if directory is None:
            return raw_path or ""
        return "" if directory == self._workspace.root else self.state.display_path(directory)

    def _find_directory(self, path: str) -> Path | None:
        if path in ("", ".", "/"):
            return self._workspace.root if path != "/" else None
        entry = self._workspace.inspect(path)
        return entry.path if entry is not None and stat.S_ISDIR(entry.status.st_mode) else None

    def _build_confinement(self, level: SandboxLevel, plan: GuardPlan) -> Confinement:
        with self._lock:
            if self._directory is None:
                base = (
                    self._state_dir / "shell" if self._state_dir is not None else Path(tempfile.gettempdir())
                )
                self._directory = ConversationDirectory(base, "toolglot-shell-")
            # One /tmp for all commands of a conversation, and long output, which no other conversation can
            # read.
            scratch, spills = self._directory.path / "tmp", self._directory.path / "output"
            if not scratch.exists():
                scratch.mkdir(mode=0o700)
                spills.mkdir(mode=0o700, exist_ok=True)
                if self.level is not SandboxLevel.NONE:
                    write_git_config(scratch, self._workspace.roots)
        protected: tuple[Path, ...] = ()
        if level is SandboxLevel.BUBBLEWRAP:
            protected = (
                *plan.read_only,
                *(path for path in self._workspace.closed_paths.programs if path.exists()),
            )
        return Confinement(
            level=level,
            roots=self._narrow_roots(level, plan),
            scratch=scratch,
            protected_paths=protected,
            hidden_paths=self._hidden,
            visible_paths=tuple(self.options.visible),
            spill_dir=spills,
            network=self.options.network,
            limits=CommandLimits(self.options.processes, self.options.memory),
            bubblewrap=self._bubblewrap,
        )

    def _narrow_roots(self, level: SandboxLevel, plan: GuardPlan) -> tuple[Root, ...]:
        """Return what a command may write, so that the kernel keeps it from what is closed in the workspace."""
        closed, roots = self._workspace.closed_paths, self._workspace.roots
        hidden = [*closed.own, *(Path(os.path.realpath(path)) for path in self.options.hidden)]
        # it can allow, but not deny: nothing above a hidden path can be writable
        if level is SandboxLevel.LANDLOCK:
            return tuple(_narrow_all(roots, [*closed.list_read_only(), *hidden, *plan.read_only]))
        parts = _narrow_all(roots, closed.list_home_settings())
        if level is SandboxLevel.NONE:
            return tuple(parts)
        for path in closed.own:  # what is absent cannot be hidden, and the command could create it
            if not path.exists() and _can_create(path, parts):
                with suppress(UsageError):
                    create_own_path(path)
        existing = [path for path in (*hidden, *closed.programs) if path.exists()]
        return (*parts, *pin_parents(parts, existing), *map(Root, plan.pinned))

    # ---- running and ended commands

    def find_session(self, handle: str, purpose: Literal["read", "type", "kill"] = "kill") -> ShellSession:
        """Return a session by its handle or its process id. Raises ToolError.

        A template stands for the only command that is running: a model that starts one and goes on with it in
        the same turn does not know the handle yet. Ending a command needs its handle; what has ended can only
        be read.
        """
        key = handle.strip()
        sessions = self.list_sessions()
        running = [session for session in sessions if session.is_running]
        is_template = _PLACEHOLDER.fullmatch(key) is not None
        candidates: list[ShellSession] = []
        if is_template and purpose == "read":
            candidates = running or sessions
        elif is_template and key and purpose == "type":
            candidates = running
        if len(candidates) == 1:
            return candidates[0]
        for session in sessions:
            if key in (session.handle, str(session.pid)):
                return session
        handles = tuple(session.handle for session in running)
        state = f"running: {', '.join(handles)}" if handles else "nothing is running"
        details = SessionNotFound(handle[:80], handles)
        message = f"there is no session {handle[:80]!r}; {state}"
        raise ToolError(message, kind="not_found", code="session_not_found", details=details)

    def list_sessions(self) -> list[ShellSession]:
        """Return the sessions that can be asked about, the oldest first."""
        with self._lock:
            return [session for session in self._sessions.values() if not session.is_forgotten]

    def forget(self, session: ShellSession) -> None:
        """Drop an ended session whose result was reported; its spill file, if there is one, is deleted later."""
        session.is_forgotten = True
        if session.output.spill_path is None:
            with self._lock:
                self._sessions.pop(session.handle, None)

    def build_result(self, session: ShellSession, excerpt: Excerpt, handle: str | None = None) -> ShellResult:
        """Return the result of a command so far, with a part of its output.

        `handle`: as the model named it.
        """
        confinement, output = session.confinement, session.output
        is_running = session.is_running
        report = self.guard.take_report(session)
        notes = self._collect_notes(session, report, excerpt.text)
        if handle is not None and _PLACEHOLDER.fullmatch(handle.strip()):
            notes.append(
                f"repaired: {handle.strip()[:80]!r} is no handle; taken for {session.command[:80]!r}"
            )
        if output.spill_path is not None:
            self.state.output_files.add(str(output.spill_path))
        exit_code = signal = None
        if not is_running:
            exit_code, signal = session.exit_code, signal_from_exit_code(session.exit_code)
        if confinement.level is SandboxLevel.NONE:
            has_network, process_limit = True, "not limited"
        else:
            has_network, process_limit = confinement.network, describe_limits()["processes"]
        total_lines = output.line_count if excerpt.line_count is None else excerpt.line_count
        touched = [old for old, _ in (*report.removed, *report.restored)] + report.changed
        return ShellResult(
            command=session.command,
            description=session.options.description,
            running=is_running,
            handle=session.handle if is_running else "",
            pid=session.pid,
            exit_code=exit_code,
            signal=signal,
            ended=session.end_reason,
            timed_out=session.end_reason in ("timeout", "inactivity"),
            seconds=round(session.seconds, 4),
            output=excerpt.text,
            head=excerpt.head,
            tail=excerpt.tail,
            omitted=excerpt.omitted,
            truncated=bool(excerpt.omitted),
            total_bytes=output.total_bytes,
            total_lines=total_lines,
            spill=str(output.spill_path or ""),
            spill_is_whole=output.is_spill_complete,
            cwd=self.state.cwd or ".",
            sandbox=confinement.level.label,
            network=has_network,
            processes=process_limit,
            protected=list(map(self._show_path, touched)),
            notes=notes,
        )

    def _show_path(self, path: Path) -> str:
        """Return the path of a file that a command has named."""
        return to_plain_text(os.fsencode(self.state.display_path(path))).replace("\n", " ")

    def _collect_notes(self, session: ShellSession, report: ProtectionReport, output: str) -> list[str]:
        """Return what the model should know besides the output; make the next command run where this one
        ended.
        """
        confinement = session.confinement
        notes = self._describe_protection(report)
        if confinement.level in _LEVEL_NOTES:
            notes.append(_LEVEL_NOTES[confinement.level])
        if session.is_running:
            return notes
        path, session.cwd = session.cwd, ""
        if path and path != str(session.start_cwd):
            notes += self._follow_directory(path)
        if session.is_out_of_memory:
            notes.append(
                f"it needed more memory than its limit of {confinement.limits.memory_bytes / 1e9:.1f} GB"
            )
        if session.exit_code:
            notes += self._explain_failure(session, output)
        return notes

    def _describe_protection(self, report: ProtectionReport) -> list[str]:
        """Return what became of protected files that a command created or changed."""
        notes: list[str] = []
        for old, new in report.removed[:10]:
            notes.append(f"{self._show_path(old)} is protected: it was moved to {self._show_path(new)}")
        if any(old.name == ".git" for old, _ in report.removed):
            notes.append("where .git was moved away, git acts on the repository around it, if there is one")
        if len(report.removed) > 10:
            notes.append(f"{len(report.removed) - 10} more protected files were moved to the same directory")
        if not report.is_complete:
            notes.append(
                "the command created more directories than can be checked for protected files: tell the user"
            )
        if report.restored:
            names = ", ".join(self._show_path(path) for path, _ in report.restored[:10])
            notes.append(f"protected files were restored: {names}")
        if report.changed:
            names = ", ".join(map(self._show_path, report.changed[:10]))
            notes.append(f"the command changed protected files: {names}; tell the user")
        return notes

    def _follow_directory(self, path: str) -> list[str]:
        """Make the next command run in a directory, or in the root if it is outside the workspace; return a
        note about that.
        """
        directory = None
        with suppress(ToolError):
            directory = self._find_directory(path)
        self.state.cwd = ""
        if directory is None:
            return [
                f"the next command runs in the workspace's root: {path[:200]} is not a directory of the "
                "workspace"
            ]
        if directory != self._workspace.root:
            self.state.cwd = self.state.display_path(directory)
        return []

    def _explain_failure(self, session: ShellSession, output: str) -> list[str]:
        """Return notes for failures whose reason is the sandbox; a model would search for it elsewhere."""
        confinement = session.confinement
        if confinement.level is SandboxLevel.NONE:
            return []
        is_read_only = "Read-only file system" in output
        notes: list[str] = []
        if is_read_only or "Permission denied" in output:
            notes += self._explain_narrow_roots(session)
        if confinement.level is SandboxLevel.BUBBLEWRAP:
            has_network_error = any(error in output for error in _NETWORK_ERRORS)
            if is_read_only or "Device or resource busy" in output:
                names = ", ".join(map(self.state.display_path, confinement.protected_paths[:5]))
                exception = f", except {names}" if names else ""
                notes.append(f"only the workspace is writable in the sandbox{exception}")
            elif has_network_error and not confinement.network:
                notes.append("the sandbox has no network")
        return notes + explain_hidden_paths(output, confinement.roots)

    def _explain_narrow_roots(self, session: ShellSession) -> list[str]:
        """Return notes about directories of the workspace that the command could not write as a whole."""
        confinement = session.confinement
        narrow = sorted(_list_read_only(confinement.roots) - _list_read_only(self._workspace.roots))
        notes: list[str] = []
        if narrow and confinement.level is SandboxLevel.LANDLOCK and session.options.background:
            names = ", ".join(map(self._show_path, narrow[:5]))
            notes.append(
                f"in the background nothing can be created directly in {names}; in the foreground it may be"
            )
        crowded = [path for path in narrow if len(list_names(path)) > MAX_CHILDREN]
        for path in crowded[:5]:
            notes.append(f"only {MAX_CHILDREN} entries of {self._show_path(path)} can be writable here")
        return notes


def _narrow_all(roots: Iterable[Root], closed: Collection[Path]) -> list[Root]:
    return [part for root in roots for part in narrow_root(root, closed)]


def _list_read_only(roots: Iterable[Root]) -> set[Path]:
    return {root.path for root in roots if not root.writable}


def _can_create(path: Path, roots: Collection[Root]) -> bool:
    """Whether a path is where a command may write."""
    return any(pin.path == path for pin in pin_parents(roots, [path / "entry"]))


def describe_session(session: ShellSession) -> SessionInfo:
    """Return a session's line of the list."""
    return SessionInfo(
        handle=session.handle,
        command=session.command,
        pid=session.pid,
        running=session.is_running,
        seconds=round(session.seconds, 3),
        exit_code=None if session.is_running else session.exit_code,
        ended=session.end_reason,
        total_bytes=session.output.total_bytes,
        unread_bytes=session.output.total_bytes - session.shown_bytes,
    )


def _kill(sessions: list[ShellSession], reason: EndReason) -> None:
    for session in sessions:
        session.kill(reason)
    for session in sessions:
        session.join(5.0)


def _over_error() -> ToolError:
    return ToolError("the conversation is over: no command can be run any more", code="session_closed")
