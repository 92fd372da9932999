"""What all tools that look through folders share: the root that they look below of, and how long they may look."""

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
PROGRESS_INTERVAL = 50_000  # entries between two words on progress


class SearchRoot(msgspec.Struct, frozen=True):
    """A root that is open, and what is looked through in it."""

    root_fd: int
    """A handle."""
    root_path: str
    """The path of the root, without a slash at its end."""
    relative: str
    """What is looked through, below the root."""
    path: str
    """The same as a whole path."""

    @property
    def prefix_length(self) -> int:
        """How much of a path below the root leads to what is looked through."""
        return len(self.relative) + 1 if self.relative else 0


@contextmanager
def open_root_of(state: ToolState, opened: WorkspaceEntry) -> Generator[SearchRoot]:
    """The root of what was found, open. Raises ToolError."""
    path = opened.absolute_path[: len(opened.absolute_path) - len(opened.relative_path)].rstrip("/")
    with state.workspace.open_directory(path or "/") as root:
        yield SearchRoot(root.fd, root.absolute_path.rstrip("/"), opened.relative_path, opened.absolute_path)


@contextmanager
def open_search_root(state: ToolState, path: str) -> Generator[SearchRoot]:
    """A folder that can be listed, below its root. Raises ToolError."""
    with state.workspace.open_directory(path or ".") as opened, open_root_of(state, opened) as place:
        yield place


def start_deadline(context: Context | None, tool_name: str, seconds: float = TIMEOUT_SECONDS) -> Callable[[int], bool]:
    """Asked now and then with the number of things seen: whether it is time to stop. Raises ToolError where nobody waits."""
    until, told = time.monotonic() + seconds, PROGRESS_INTERVAL

    def enough(seen: int) -> bool:
        nonlocal told
        if context is not None:
            if context.is_cancelled:
                raise ToolError(f"{tool_name} was cancelled", kind="cancelled")
            if seen >= told:
                told = seen + PROGRESS_INTERVAL
                context.report(f"{seen} entries looked at")
        return time.monotonic() > until

    return enough
