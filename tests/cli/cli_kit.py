"""Run the command line as a user or a script does: in this process, because a program takes longer to start
than to run.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from toolglot.builtin.code_mode.process import find_level
from toolglot.cli.entry import main
from toolglot.cli.main import app
from toolglot.confine.sandbox import SandboxLevel

__all__ = ["PLAIN", "WAYS", "Capture", "Outcome", "Patch", "invoke", "json_lines", "run_cli", "run_program"]

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}

WAYS = (
    "use --approve RULE, or --yes"
    if find_level() is SandboxLevel.NONE
    else "use --approve RULE, --approval-mode sandboxed, or --yes"
)
"""How to allow calls of built-in tools that stay in the workspace."""


class Outcome(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def invoke(*words: str) -> int:
    """Run a command with the streams as they are; errors are raised. Return the exit code."""
    return int(app(list(words), standalone_mode=False) or 0)


class TerminalStream(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def run_cli(*words: str, stdin: str | bytes = b"", is_terminal: bool = False, **env: str) -> Outcome:
    """Run a command in this process."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    stream_type = TerminalStream if is_terminal else io.TextIOWrapper
    buffers = [io.BytesIO(text) for text in (data, b"", b"")]
    streams = [stream_type(buffer, encoding="utf-8", write_through=True) for buffer in buffers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["toolglot", *words])
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        for name, value in {**PLAIN, **env}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            main()
    code, (out, err) = end.value.code, (buffer.getvalue().decode() for buffer in buffers[1:])
    return Outcome(1, out, f"{err}{code}\n") if isinstance(code, str) else Outcome(int(code or 0), out, err)


def run_program(*words: str, stdin: str | bytes = b"", cwd: Path | None = None, **env: str) -> Outcome:
    """Run a command as a program of its own."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    command = [sys.executable, "-m", "toolglot.cli.main", *words]
    done = subprocess.run(
        command, input=data, capture_output=True, env={**os.environ, **PLAIN, **env}, cwd=cwd
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def json_lines(*values: Any) -> str:
    """Write values as JSON lines; a string is written as it is."""
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)
