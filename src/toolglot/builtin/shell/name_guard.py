"""Guards protected names for the commands of one conversation: before they start, while they run, and when they have ended."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from logging import getLogger
from pathlib import Path

import msgspec

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell.protected_paths import (
    ProtectedScanner,
    ProtectedSnapshot,
    ProtectionReport,
    revert_changes,
    take_snapshot,
)
from toolglot.builtin.shell.sandbox import SandboxLevel
from toolglot.builtin.shell.session import ShellSession

__all__ = ["GuardPlan", "NameGuard"]

log = getLogger("toolglot.builtin")

_WATCH_SECONDS = 1.0
_MAX_MOUNTS = 200
_MAX_WARNINGS = 3  # about one command


class GuardPlan(msgspec.Struct, frozen=True):
    """What the kernel has to do for a command."""

    snapshots: tuple[ProtectedSnapshot, ...] = ()
    read_only: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    """Directories that can be written, but not renamed or removed."""


class NameGuard:
    """Plans the protection of a command and watches it, as new protected files may not stay until its result is asked for."""

    def __init__(self, workspace: Workspace, quarantine: Path) -> None:
        self._names, self._quarantine = workspace.protected_names, quarantine
        self._scanner = ProtectedScanner(self._names, workspace.closed_paths)
        self._snapshots: dict[Path, ProtectedSnapshot] = {}
        self._watched: dict[str, ShellSession] = {}
        self._reports: dict[str, ProtectionReport] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def plan(self, roots: Iterable[Root], cwd: Path, level: SandboxLevel, *, is_background: bool) -> GuardPlan:
        """Record the protected files of all roots, and decide which of them the kernel keeps read-only."""
        snapshots: list[ProtectedSnapshot] = []
        read_only: list[Path] = []
        pinned: list[Path] = []
        for root in (root for root in roots if root.writable and level is not SandboxLevel.NONE):
            with self._lock:
                sites = self._scanner.find_sites(root.path).add_link_targets(root.path)
            git_directories = [name for name in sites.parents if sites.is_git_directory(name)]
            on_the_way = {str(path) for path in (cwd, *cwd.parents)}

            def is_enforced(name: str, root: Path = root.path, on_the_way: set[str] = on_the_way) -> bool:
                # Landlock cannot make a file read-only in a directory where files can be created, so it does that only for
                # commands that run while the user works; what others change is restored. A mount cannot be removed, so that
                # names deep inside, which a command may delete with what they are in, are restored with bubblewrap, too.
                if is_background or level is SandboxLevel.LANDLOCK:
                    return is_background
                return str((root / name).parent) in on_the_way or os.path.basename(name).casefold() not in self._names

            names = sorted(sites.parents.keys() - set(git_directories), key=lambda name: (name.count("/"), name))
            candidates = [name for name in names if is_enforced(name)][:_MAX_MOUNTS]
            known = self._snapshots.get(root.path)
            is_pinned = is_background or level is SandboxLevel.BUBBLEWRAP
            states = known.states if known else None
            snapshot = take_snapshot(root.path, sites, candidates, git_directories if is_pinned else (), states)
            snapshots.append(snapshot)
            self._snapshots[root.path] = snapshot
            read_only += [path for name in candidates if not (path := root.path / name).is_symlink()]
            pinned += [root.path / name for name in git_directories]
        return GuardPlan(tuple(snapshots), tuple(read_only), tuple(pinned))

    def watch(self, session: ShellSession) -> None:
        """Look after a command that was started, until it has ended."""
        with self._lock:
            if session.snapshots:
                self._watched[session.handle] = session
                if self._thread is None and not self._closing.is_set():
                    self._thread = threading.Thread(target=self._run, name="toolglot-guard", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(_WATCH_SECONDS):
            for session in list(self._watched.values()):
                with suppress(OSError):
                    self.check(session)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return

    def check(self, session: ShellSession) -> None:
        """Undo what a command has done to protected files so far. When it has ended, this is done once."""
        with self._lock:
            if session.handle not in self._watched:
                return
            is_running = session.is_running  # before the check: what it does until it ends is not missed
            # New files go at once, as another program may obey them any moment.
            report = revert_changes(self._scanner, session.snapshots, self._quarantine, new_only=is_running)
            earlier = self._reports.get(session.handle, ProtectionReport())
            self._reports[session.handle] = earlier.merge(report)
            # For the user, who may have changed these files while the command was running.
            lines, count = report.describe(), len(earlier.describe())
            for line in lines[: max(0, _MAX_WARNINGS - count)]:
                log.warning("%s", line)
            if not is_running and count + len(lines) > _MAX_WARNINGS:
                log.warning("the same happened to %d more; see %s", count + len(lines) - _MAX_WARNINGS, self._quarantine)
            if not is_running:
                del self._watched[session.handle]

    def take_report(self, session: ShellSession) -> ProtectionReport:
        """Return what was done since the last report."""
        self.check(session)
        with self._lock:
            return self._reports.pop(session.handle, ProtectionReport())

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
