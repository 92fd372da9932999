"""What a comparison consists of."""

from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

RIGHT_KEY = "the-right-key"

PACKAGES = {"toolglot": "toolglot", "pydantic_ai": "pydantic-ai-slim", "agents": "openai-agents"}
"""Library, as in the names of programs -> its package."""


@dataclass(frozen=True, eq=False)
class Mistake:
    """What is changed in the programs, and what the page calls it."""

    id: str
    title: str
    edits: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Library -> the text of its program that is replaced wherever it occurs, and what replaces it."""
    key: str = RIGHT_KEY
    starts: tuple[str, ...] | None = None
    """What is typed instead of what is right, for each time that the program is started."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Programs LIBRARY_program.py in one directory, which also keeps the results."""

    directory: Path
    libraries: tuple[str, ...]
    mistakes: tuple[Mistake, ...]
    starts: tuple[str, ...]
    """What the person at the keyboard types, for each time that the program is started: once, or again in the
    same directory, as if the machine had been restarted in between."""

    @property
    def results_path(self) -> Path:
        return self.directory / "results.json"

    def read_program(self, library: str, mistake: Mistake | None = None) -> str:
        """The source of a library's program, with the mistake in it."""
        source = (self.directory / f"{library}_program.py").read_text(encoding="utf-8")
        if mistake is None or library not in mistake.edits:
            return source
        right, wrong = mistake.edits[library]
        if right not in source:
            raise ValueError(f"{mistake.id}: the program of {library} does not contain {right!r}")
        return source.replace(right, wrong)

    def list_starts(self, mistake: Mistake | None) -> tuple[str, ...]:
        """What is typed, for each start."""
        return self.starts if mistake is None or mistake.starts is None else mistake.starts


class Answer(msgspec.Struct, omit_defaults=True):
    """What became of one program."""

    change: tuple[str, str] | None = None
    """The text that the mistake replaces, and what replaces it."""
    pyright: str = ""
    """Its first error, in strict mode."""
    mypy: str = ""
    """Its first error, in strict mode."""
    raised: str = ""
    """The exception that ended the program; it is not started again then."""
    told: str = ""
    """What the model was told as the result of its first call."""
    logged: str = ""
    """The first line on stderr."""
    printed: tuple[str, ...] = ()
    sent: tuple[int, ...] = ()
    """Messages in each request."""
    settings: tuple[str, ...] = ()
    """The model's settings in the first request."""


class LibraryResults(msgspec.Struct):
    """What became of a library's program, without mistakes and with each."""

    version: str
    lines: int
    """Of the program, without blank lines and comments."""
    right: Answer
    mistakes: dict[str, Answer]


class Results(msgspec.Struct):
    """All that a comparison found."""

    python: str
    pyright: str
    mypy: str
    titles: dict[str, str]
    """Mistake -> its title."""
    libraries: dict[str, LibraryResults]


def find_version(library: str) -> str | None:
    """The installed version of a library, or None."""
    try:
        return version(PACKAGES[library])
    except PackageNotFoundError:
        return None


def count_lines(source: str) -> int:
    """Lines with code: neither blank nor a comment."""
    lines = (line.strip() for line in source.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)
