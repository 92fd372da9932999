"""What the built-in tools of one conversation share: the workspace, what the model has read of it, and how to
ask the user.

A tool is a function that is created for a `ToolState`. Its parameters are the superset of what any model's
own harness can express; its result is text for a model, and data from which a facade can render the text that
another model expects.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, Literal

import msgspec

from toolglot.builtin.files.workspace import FileVersion, Workspace
from toolglot.common.skills import Skill

__all__ = ["AskUser", "ReadRule", "ToolState", "UserAnswer", "UserOption", "UserQuestion", "to_data"]


@dataclass(frozen=True, kw_only=True)
class UserOption:
    """A suggested answer.

    Attributes:
        label: The answer, in a few words.
        description: What choosing it would mean.
        preview: Code or text that shows what the user would get.
    """

    label: str
    description: str = ""
    preview: str = ""


@dataclass(frozen=True, kw_only=True)
class UserQuestion:
    """A question for the user.

    Attributes:
        question: The complete question, ending with a question mark.
        header: The topic in one or two words, at most 12 characters.
        kind: choice (default) offers options, text is answered freely, yesno with yes or no.
        options: 2 to 4 suggested answers; only for kind=choice.
        multi: Whether the user may choose several options (default false).
        id: A name for the question (default: its number).
    """

    question: str
    header: str = ""
    kind: Literal["choice", "text", "yesno"] = "choice"
    options: list[UserOption] = field(default_factory=list[UserOption])
    multi: bool = False
    id: str = ""


UserAnswer = str | list[str]
"""The answer to a question; a list if several options may be chosen."""
AskUser = Callable[[list[UserQuestion]], "Sequence[UserAnswer] | Awaitable[Sequence[UserAnswer]]"]
"""Asks the user; one answer for each question."""


ReadRule = Literal["none", "current", "once", "required", "shown"]
"""What a harness demands before a file is changed: nothing; that what the model has seen of it is current;
that it has seen the file once; both (required); or both, where a file that the model created itself does not
count as seen (shown)."""


@dataclass(eq=False)
class ToolState:
    """The state of one conversation's tools."""

    workspace: Workspace
    _: KW_ONLY
    state_dir: Path | None = None
    """A private directory for backups, saved output and memory."""
    shared_memory: bool = False
    """Whether all projects have one memory."""
    ask: AskUser | None = None
    skills: tuple[Skill, ...] = ()
    """What the model can load with `load_skill`."""
    require_read: bool | None = True
    """The model must have read a file before it changes it; False: what it has read must be current; None:
    neither."""
    seen_versions: dict[Path, FileVersion] = field(default_factory=dict[Path, FileVersion])
    """Real path -> the version that the model has seen."""
    cwd: str = ""
    """Where commands run, relative to the root."""
    output_files: set[str] = field(default_factory=set[str])
    """Files outside the workspace with the output of commands, which the model may read."""
    lock: RLock = field(default_factory=RLock)
    """Held from looking at a file until it is changed."""

    def must_be_seen(self, rule: ReadRule) -> bool:
        """Whether a file must have been seen before it is changed: a harness's rule, unless our own is
        weaker.
        """
        return bool(self.require_read) and rule not in ("none", "current")

    def must_be_current(self, rule: ReadRule) -> bool:
        """Whether a file that was seen must not have changed since."""
        return self.require_read is not None and rule not in ("none", "once")

    def mark_seen(self, path: Path, version: FileVersion | None) -> None:
        """Record that the model knows this version of a file; None: the file is gone."""
        if version is None:
            self.seen_versions.pop(path, None)
        else:
            self.seen_versions[path] = version

    @property
    def working_directory(self) -> str:
        """Where commands run, as an absolute path."""
        return str(self.workspace.root / self.cwd)

    def display_path(self, path: Path) -> str:
        """Return a real path as the model reads it: relative to the root if it is below it."""
        root = self.workspace.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def to_data(value: Any) -> Any:
    """Return a result struct as plain data."""
    return msgspec.to_builtins(value)
