"""What all searching tools share: the root they search below, and their deadline."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from toolglot.builtin.files.workspace import WorkspaceEntry
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.tools.context import Context

__all__ = ["SearchRoot", "open_root_of", "open_search_root", "start_deadline"]

TIMEOUT_SECONDS = 30.0
PROGRESS_INTERVAL = 50_000  # entries between two progress reports


class SearchRoot(msgspec.Struct, frozen=True):
    """An open root, and what is searched below it."""

    root_fd: int
    root_path: str
    """Without a trailing slash."""
    relative: str
    """The file or directory to search, relative to the root."""
    path: str
    """The same as an absolute path."""

    @property
    def prefix_length(self) -> int:
        """The length of the prefix that all paths below the searched directory share."""
        return len(self.relative) + 1 if self.relative else 0


@contextmanager
def open_root_of(state: ToolState, entry: WorkspaceEntry) -> Generator[SearchRoot]:
    """Open the root that an entry is in. Raises ToolError."""
    path = entry.absolute_path.removesuffix(entry.relative_path).rstrip("/")
    with state.workspace.open_directory(path or "/") as root:
        yield SearchRoot(root.fd, root.absolute_path.rstrip("/"), entry.relative_path, entry.absolute_path)


@contextmanager
def open_search_root(state: ToolState, path: str) -> Generator[SearchRoot]:
    """Open the root of a directory. Raises ToolError."""
    with state.workspace.open_directory(path or ".") as directory, open_root_of(state, directory) as root:
        yield root


def start_deadline(
    context: Context | None, seconds: float | None = None, interval: int | None = None
) -> Callable[[int], bool]:
    """Start the clock; return a function that is called with the number of entries seen and tells whether
    time is up.

    It reports progress after each `interval` of entries, and raises ToolError when the call was cancelled.
    """
    deadline = time.monotonic() + (TIMEOUT_SECONDS if seconds is None else seconds)
    interval = next_report = interval or PROGRESS_INTERVAL

    def should_stop(seen: int) -> bool:
        nonlocal next_report
        if context is not None:
            if context.is_cancelled:
                raise ToolError("the search was cancelled", kind="cancelled", code="cancelled")
            if seen >= next_report:
                next_report = seen + interval
                context.report(f"{seen} entries searched")
        return time.monotonic() > deadline

    return should_stop
