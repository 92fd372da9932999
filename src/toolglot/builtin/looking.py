"""What all tools that look through folders share: the root that they look below of, and how long they may look."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from toolglot.builtin.toolbox import Toolbox
from toolglot.builtin.workspace import Opened
from toolglot.errors import ToolError
from toolglot.tools.context import Context

__all__ = ["Searched", "patience", "root_of", "searched"]

SECONDS = 30.0
EVERY = 50_000  # entries between two words on progress


class Searched(msgspec.Struct, frozen=True):
    """A root that is open, and what is looked through in it."""

    root: int
    """A handle."""
    top: str
    """The path of the root, without a slash at its end."""
    base: str
    """What is looked through, below the root."""
    whole: str
    """The same as a whole path."""

    @property
    def cut(self) -> int:
        """How much of a path below the root leads to what is looked through."""
        return len(self.base) + 1 if self.base else 0


@contextmanager
def root_of(box: Toolbox, found: Opened) -> Generator[Searched]:
    """The root of what was found, open. Raises ToolError."""
    path = found.whole[: len(found.whole) - len(found.real)].rstrip("/")
    with box.workspace.listing(path or "/") as root:
        yield Searched(root.handle, root.whole.rstrip("/"), found.real, found.whole)


@contextmanager
def searched(box: Toolbox, path: str) -> Generator[Searched]:
    """A folder that can be listed, below its root. Raises ToolError."""
    with box.workspace.listing(path or ".") as opened, root_of(box, opened) as place:
        yield place


def patience(context: Context | None, what: str, seconds: float = SECONDS) -> Callable[[int], bool]:
    """Asked now and then with the number of things seen: whether it is time to stop. Raises ToolError where nobody waits."""
    until, told = time.monotonic() + seconds, EVERY

    def enough(seen: int) -> bool:
        nonlocal told
        if context is not None:
            if context.cancelled:
                raise ToolError(f"{what} was cancelled", kind="cancelled")
            if seen >= told:
                told = seen + EVERY
                context.report(f"{seen} entries looked at")
        return time.monotonic() > until

    return enough
