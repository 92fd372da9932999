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

from toolglot.builtin.shell.guard import Settled, Stock, protected_names, settle
from toolglot.builtin.shell.limits import Pids
from toolglot.builtin.shell.output import Room, Shown, shown
from toolglot.builtin.shell.sandbox import Confinement, Launch, Level, launched, probe
from toolglot.builtin.shell.session import Session, signal_of
from toolglot.builtin.toolbox import Toolbox
from toolglot.builtin.workspace import Root
from toolglot.errors import ToolError, UsageError

__all__ = ["Job", "SessionResult", "Shell", "ShellOptions", "ShellResult"]

MOST_RUNNING, MOST_ENDED, MOST_SPILLS = 16, 32, 20


class ShellOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What commands of a toolbox may do. `level`: another than the best that works, for those who know why."""

    network: bool = False
    unix_sockets: bool = False
    """Docker, agents of ssh and gpg, and every other service of this machine listen on such sockets."""
    hidden: tuple[Path, ...] = ()
    processes: int = 512
    level: Level | None = None
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


class SessionResult(msgspec.Struct, frozen=True, kw_only=True):
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

    session: Session
    within: Confinement
    stock: tuple[Stock, ...]
    cwd: Path
    description: str
    behind: bool = False
    """In the background: meanwhile the user may have changed things too."""


class Shell:
    """The commands of one toolbox."""

    def __init__(self, box: Toolbox, options: ShellOptions | None = None) -> None:
        self._box = weakref.ref(box)
        self._workspace = box.workspace
        self.options = options or ShellOptions()
        self.level = probe().level if self.options.level is None else self.options.level
        if any(str(root.path) == "/" for root in box.workspace.roots):
            raise UsageError("commands cannot be held in the workspace '/': choose a folder below it")
        self._own_folder = box.state is None
        self._folder = Path(tempfile.mkdtemp(prefix="toolglot-")) if box.state is None else box.state / "shell"
        self._hidden = (*self.options.hidden, *(() if box.state is None else (box.state,)))
        self._jobs: dict[str, Job] = {}
        self._settled: dict[str, Settled] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._closed = False
        self._scratch: Path | None = None

    @property
    def box(self) -> Toolbox:
        box = self._box()
        if box is None:
            raise ToolError("the conversation is over: nothing can be run any more", kind="execution")
        return box

    # ---- folders

    def _folders(self) -> Path:
        """Where spilt output goes; the command's own /tmp is beside it."""
        if self._scratch is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._scratch = Path(tempfile.mkdtemp(prefix="tmp-", dir=os.path.realpath(self._folder)))
        spills = self._folder / "output"
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
            self._settle(job)
            job.session.output.remove()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._own_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    # ---- running

    def where(self, given: str | None) -> Path:
        """The folder of a command. Raises ToolError."""
        box = self.box
        found = self._folder_at(given) if given is not None else self._folder_at(box.cwd) if box.cwd else self._workspace.root
        if found is None and given is None:
            box.cwd = ""
            return self._workspace.root
        if found is None:
            raise ToolError(
                f"cwd: there is no folder {given!r} in the workspace {str(self._workspace.root)!r}", kind="execution"
            )
        return found

    def _folder_at(self, path: str) -> Path | None:
        if path in ("", ".", "/"):
            return self._workspace.root if path != "/" else None
        found = self._workspace.look(path)
        return found.path if found is not None and (found.status.st_mode & 0o170000) == 0o040000 else None

    def confinement(self, cwd: Path, *, escalated: bool) -> Confinement:
        spills = self._folders()
        level = Level.NONE if escalated else self.level
        roots = self._workspace.roots
        assert self._scratch is not None
        return Confinement(
            level=level,
            roots=roots,
            scratch=self._scratch,
            protected=_read_only(roots, cwd, self._workspace.protected) if level is Level.BUBBLEWRAP else (),
            hidden=self._hidden,
            readable=(spills,),
            network=self.options.network,
            unix_sockets=self.options.unix_sockets,
            processes=self.options.processes,
        )

    def start(self, session: Session, words: Callable[[int], list[str]], job: Job, extra: dict[str, str]) -> None:
        """Starts a command; it can be found by its handle from then on. Raises ToolError."""

        def prepare(keep: tuple[int, ...]) -> tuple[Launch, Callable[[], None]]:
            argv = words(keep[0] if keep else -1)
            launch, stack = launched(job.within, argv, cwd=str(job.cwd), extra=extra, keep=keep, tty=session.tty)
            return launch, stack.close

        with self._lock:
            if self._closed:
                raise ToolError("the conversation is over: nothing can be run any more", kind="execution")
            if sum(other.session.running for other in self._jobs.values()) >= MOST_RUNNING:
                raise ToolError(f"{MOST_RUNNING} commands are running: end one with shell_kill first", kind="limit")
            self._jobs[session.handle] = job
        try:
            session.begin(prepare, tells_cwd=True)
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
            ended = [job for job in self._jobs.values() if not job.session.running]
            for job in ended[: max(0, len(ended) - MOST_ENDED)]:
                del self._jobs[job.session.handle]
            spilt = [job for job in ended if job.session.output.spill is not None]
            for job in spilt[: max(0, len(spilt) - MOST_SPILLS)]:
                job.session.output.remove()

    def job(self, handle: str) -> Job:
        """By its handle, or by its process. Raises ToolError."""
        with self._lock:
            jobs = dict(self._jobs)
        found = jobs.get(handle.strip()) or next((job for job in jobs.values() if str(job.session.pid) == handle.strip()), None)
        if found is None:
            running = [known for known, job in jobs.items() if job.session.running]
            have = f"running are {', '.join(running)}" if running else "nothing is running"
            raise ToolError(f"there is no command with the handle {handle[:80]!r}; {have}", kind="not_found")
        return found

    def jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def forget(self, job: Job) -> None:
        """Of a command that ended in front of the model nothing has to be kept but its spilt output."""
        if job.session.output.spill is None:
            with self._lock:
                self._jobs.pop(job.session.handle, None)

    # ---- afterwards

    def _settle(self, job: Job) -> Settled:
        """What it did to protected names: what it made new goes at each look, the rest is seen to once, when it has ended."""
        handle, away = job.session.handle, self._folder / "removed"
        if not job.stock:
            return Settled()
        closely = job.within.level is not Level.BUBBLEWRAP
        if job.session.running:
            return settle(job.stock, away, closely=False, may_undo=False, new_only=True)
        if handle not in self._settled:
            self._settled[handle] = settle(job.stock, away, closely=closely, may_undo=not job.behind)
            if len(self._settled) > 4 * MOST_ENDED:
                del self._settled[next(iter(self._settled))]
        return self._settled[handle]

    def result(self, job: Job, room: Room, *, text: Shown | None = None) -> ShellResult:
        """What there is to tell of a command now. `text`: another part of the output than all of it."""
        session = job.session
        settled = self._settle(job)
        notes = [*_told(settled, self._workspace.root), *self._follow_cwd(job)]
        part = text or shown(*session.output.since(0), room)
        if not session.running and session.exit_code and job.within.level is Level.BUBBLEWRAP:
            notes += _explained(part.text, job.within)
        streams = [shown(*one.since(0), room).text if one else "" for one in (session.stdout, session.stderr)]
        session.read_until = session.output.total
        ended = not session.running
        return ShellResult(
            command=session.command,
            description=job.description,
            running=not ended,
            handle="" if ended else session.handle,
            pid=session.pid,
            exit_code=session.exit_code if ended else None,
            signal=signal_of(session.exit_code) if ended else None,
            ended=session.ended,
            timed_out=session.ended in ("timeout", "inactivity"),
            seconds=round(session.seconds if ended else time.monotonic() - session.began, 4),
            output=part.text,
            head=part.head,
            tail=part.tail,
            omitted=part.omitted,
            truncated=bool(part.omitted),
            stdout=streams[0] if session.stdout else part.text,
            stderr=streams[1],
            total_bytes=session.output.total,
            total_lines=session.output.lines,
            spill=str(session.output.spill or ""),
            spill_is_whole=session.output.spill_is_whole,
            cwd=self.box.cwd or ".",
            sandbox=job.within.level.label,
            network=job.within.network or job.within.level is Level.NONE,
            processes=_limited(job.within),
            protected=[
                self.box.shown(path) for path in (*(old for old, _ in settled.removed), *settled.restored, *settled.changed)
            ],
            notes=notes,
        )

    def _follow_cwd(self, job: Job) -> list[str]:
        """The next command runs where this one ended, if that is in the workspace."""
        session, box = job.session, self.box
        told, session.cwd = session.cwd, ""
        if session.running or not told or told == str(job.cwd):
            return []
        try:
            found = self._folder_at(told)
        except ToolError:
            found = None
        if found is None:
            return [f"the next command runs in {box.cwd or '.'} again: {told[:200]} is not a folder of the workspace"]
        box.cwd = box.shown(found) if found != self._workspace.root else ""
        return []


def _told(settled: Settled, root: Path) -> list[str]:
    def named(path: Path) -> str:
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    found = [f"{named(old)} is protected: it was taken out of the workspace and is now {new}" for old, new in settled.removed]
    if settled.restored:
        found.append(f"what is protected was put back as it was: {', '.join(map(named, settled.restored[:10]))}")
    if settled.changed:
        found.append(f"the command changed what is protected: {', '.join(map(named, settled.changed[:10]))}; tell the user")
    return found


def _explained(text: str, within: Confinement) -> list[str]:
    """What a model would otherwise search for: the sandbox is why."""
    if "Read-only file system" in text:
        names = ", ".join(path.name for path in within.protected[:5])
        return [f"the sandbox lets only the workspace be written{f', without {names}' if names else ''}"]
    refused = (
        "Network is unreachable",
        "Could not resolve host",
        "Temporary failure in name resolution",
        "Name or service not known",
    )
    return ["there is no network in the sandbox"] if not within.network and any(one in text for one in refused) else []


def _limited(within: Confinement) -> str:
    if within.level is Level.NONE:
        return "not limited"
    return "cgroup" if Pids.possible() else "rlimit" if os.geteuid() != 0 else "not limited"


def _read_only(roots: tuple[Root, ...], cwd: Path, names: frozenset[str]) -> tuple[Path, ...]:
    """Protected names that are there, and what links of these names lead to inside of a root."""
    found: list[Path] = []
    for path in (root.path / name for root in roots if root.writable for name in protected_names(root.path, cwd, names)):
        real = Path(os.path.realpath(path))
        if real.exists() and any(real.is_relative_to(root.path) and real != root.path for root in roots):
            found.append(real)
    return tuple(dict.fromkeys(found))
