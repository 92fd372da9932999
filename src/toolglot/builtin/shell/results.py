"""The data of the shell tools' results, from which facades write their texts."""

import msgspec

__all__ = ["SessionInfo", "ShellResult"]

_END_TEXTS = {"timeout": "it took too long", "inactivity": "it wrote nothing for too long", "output": "it wrote too much"}


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
    """Why we ended it: timeout, inactivity, killed, cancelled, output, closed; "" if it ended by itself."""
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
    spill: str = ""
    """A file with all of the output, up to 100 MB, if it is long."""
    spill_is_whole: bool = True
    cwd: str = ""
    """Where the next command runs, as the model names it."""
    sandbox: str = "none"
    network: bool = False
    processes: str = "not limited"
    protected: list[str] = []
    """Protected files that the command created (they were moved away) or changed (they were restored if possible)."""
    notes: list[str] = []

    def describe_end(self) -> list[str]:
        """Return how the command ended, and where all of its output is."""
        notes: list[str] = []
        if self.running:
            notes.append(f"still running after {self.seconds:.1f} s: continue with shell_output(handle={self.handle!r})")
        elif self.ended:
            reason = _END_TEXTS.get(self.ended, self.ended)
            notes.append(f"killed after {self.seconds:.1f} s with everything it started: {reason}")
        elif self.exit_code:
            notes.append(f"exit code {self.exit_code}{f' (signal {self.signal})' if self.signal else ''}")
        if self.truncated and self.spill:
            notes.append(f"{'all' if self.spill_is_whole else 'the first 100 MB'} of the output is in {self.spill}")
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
