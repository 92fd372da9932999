"""Guards protected names for the commands of one conversation: before they start, while they run, and when
they have ended.
"""

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell.protected_paths import (
    ProtectedScanner,
    ProtectedSnapshot,
    ProtectionReport,
    Sites,
    revert_changes,
    take_snapshot,
)
from toolglot.common.loggers import get_logger
from toolglot.confine.sandbox import SandboxLevel

__all__ = ["GuardPlan", "GuardedProcess", "NameGuard"]

log = get_logger("toolglot.builtin")

_WATCH_SECONDS, _MAX_WATCH_SECONDS = 1.0, 5.0
_MAX_MOUNTS = 60  # of a root; for each of them a descriptor is open until the command has started
_MAX_WARNINGS = 3  # about one command


class GuardPlan(msgspec.Struct, frozen=True):
    """What the kernel has to do for a command."""

    snapshots: tuple[ProtectedSnapshot, ...] = ()
    read_only: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    """Directories that can be written, but not renamed or removed."""


class GuardedProcess(Protocol):
    """A command, or another program that runs in its sandbox."""

    handle: str
    snapshots: tuple[ProtectedSnapshot, ...]

    @property
    def is_running(self) -> bool: ...


class NameGuard:
    """Plans the protection of a command and watches it, as new protected files may not stay until its result
    is asked for.
    """

    def __init__(self, workspace: Workspace, quarantine: Path) -> None:
        self._names, self._quarantine = workspace.protected_names, quarantine
        self._scanner = ProtectedScanner(self._names, workspace.closed_paths)
        self._snapshots: dict[Path, ProtectedSnapshot] = {}
        self._watched: dict[str, GuardedProcess] = {}
        self._reports: dict[str, ProtectionReport] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def plan(
        self, roots: Iterable[Root], cwd: Path, level: SandboxLevel, *, is_background: bool
    ) -> GuardPlan:
        """Record the protected files of all roots, and decide which of them the kernel keeps read-only."""
        if level is SandboxLevel.NONE:
            return GuardPlan()
        snapshots: list[ProtectedSnapshot] = []
        read_only: list[Path] = []
        pinned: list[Path] = []
        for root in [root.path for root in roots if root.writable]:
            with self._lock:
                sites = self._scanner.find_sites(root).add_link_targets(root)
            git_directories = set(filter(sites.is_git_directory, sites.parents))
            # A git directory is no candidate itself, as every git command writes to it.
            candidates = sites.parents.keys() - git_directories
            names = _choose_read_only(root, cwd, sites, candidates, level, is_background=is_background)
            held = {name.rpartition("/")[0] for name in names} & git_directories
            known = self._snapshots.get(root)
            snapshot = take_snapshot(root, sites, names, held, known.states if known else None)
            snapshots.append(snapshot)
            self._snapshots[root] = snapshot
            read_only += [root / name for name in names]
            pinned += [root / name for name in held]
        return GuardPlan(tuple(snapshots), tuple(read_only), tuple(pinned))

    def watch(self, session: GuardedProcess) -> None:
        """Look after a command that was started, until it has ended."""
        with self._lock:
            if session.snapshots:
                self._watched[session.handle] = session
                if self._thread is None and not self._closing.is_set():
                    self._thread = threading.Thread(target=self._run, name="toolglot-guard", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        pause = _WATCH_SECONDS
        while not self._closing.wait(pause):
            started_at = time.monotonic()
            for session in list(self._watched.values()):
                with suppress(OSError):
                    self.check(session)
            # In a large workspace a look takes long: no more than a twentieth of the time, but not too late,
            # either.
            pause = min(max(_WATCH_SECONDS, 20 * (time.monotonic() - started_at)), _MAX_WATCH_SECONDS)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return

    def check(self, session: GuardedProcess) -> None:
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
                log.warning(
                    "the same happened to %d more; see %s",
                    count + len(lines) - _MAX_WARNINGS,
                    self._quarantine,
                )
            if not is_running:
                del self._watched[session.handle]

    def take_report(self, session: GuardedProcess) -> ProtectionReport:
        """Return what was done since the last report."""
        self.check(session)
        with self._lock:
            return self._reports.pop(session.handle, ProtectionReport())

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()


def _choose_read_only(
    root: Path,
    cwd: Path,
    sites: Sites,
    candidates: Iterable[str],
    level: SandboxLevel,
    *,
    is_background: bool,
) -> list[str]:
    """Return the sites that the kernel keeps read-only for a command, those near to it first."""
    # Landlock cannot make a file read-only in a directory where files can be created, so it does that only
    # for commands that run while the user works.
    if level is SandboxLevel.LANDLOCK and not is_background:
        return []
    near = _find_near(root, cwd, sites)
    if not is_background:
        # Each mount takes time, and cannot be removed with what it is in. What is further inside is restored.
        candidates = near.intersection(candidates)
    names = [name for name in candidates if not os.path.islink(root / name)]
    names.sort(key=lambda name: (name not in near, name.count("/"), name))
    return names[:_MAX_MOUNTS]


def _find_near(root: Path, cwd: Path, sites: Sites) -> set[str]:
    """Return the sites in the root, in the current directory, or above that; what a link leads to may be
    anywhere.
    """
    around = {str(path) for path in (root, cwd, *cwd.parents)}
    near: set[str] = set()
    for name, parent in sites.parents.items():
        directory = (root / name).parent
        if directory.name == ".git":
            directory = directory.parent
        if str(directory) in around or parent == (0, 0):
            near.add(name)
    return near
