"""What the built-in tools of one conversation share: the workspace, what was read of it, where commands run, what was planned.

A tool is a function made for a toolbox. Its parameters are the superset of what any model's own harness can say; its result is
text for a model, and `data` from which a facade can write the text that another model expects.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from toolglot.builtin.files.workspace import FileVersion, Workspace

__all__ = ["AskUser", "ToolState", "UserAnswer", "UserQuestion", "to_data"]


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the user is asked. kind: choice, text or yesno."""

    question: str
    header: str = ""
    kind: str = "choice"
    options: tuple[dict[str, str], ...] = ()
    """label, description, preview."""
    multi: bool = False
    id: str = ""


UserAnswer = str | list[str]
AskUser = Callable[[list[UserQuestion]], "list[UserAnswer] | Awaitable[list[UserAnswer]]"]
"""Puts questions to the user; one answer each."""


class ToolState:
    """The state of one conversation's tools. `state`: a private folder for backups, spilt output and memory."""

    def __init__(self, workspace: Workspace, *, state_dir: Path | None = None, ask: AskUser | None = None) -> None:
        self.workspace, self.state_dir, self.ask = workspace, state_dir, ask
        self.seen_versions: dict[Path, FileVersion] = {}
        """Real path -> what the model has seen of it."""
        self.cwd = ""
        """Where commands run, below the root."""
        self.lock = RLock()
        """Held by whoever looks at a file and then changes it."""

    def mark_seen(self, path: Path, version: FileVersion | None) -> None:
        """The model knows this version of a file; None: it is gone."""
        if version is None:
            self.seen_versions.pop(path, None)
        else:
            self.seen_versions[path] = version

    def display_path(self, path: Path) -> str:
        """A real path as the model reads it: relative to the root where it is below it."""
        root = self.workspace.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def to_data(value: Any) -> Any:
    """A result's struct as plain data."""
    return msgspec.to_builtins(value)
