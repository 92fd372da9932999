"""The data of the shell tools' results, from which facades write their texts."""

import msgspec

__all__ = ["SessionInfo", "ShellResult"]


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
    stdout: str = ""
    stderr: str = ""
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
