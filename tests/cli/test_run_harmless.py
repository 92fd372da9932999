"""`run` on a terminal writes nothing that the terminal obeys, whoever said it; in a pipe the answer stays as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from terminal import Terminal, surroundings

RUN = [sys.executable, "-m", "toolglot.cli.main", "run", "-m"]
TITLE, HIDDEN = "\x1b]0;PWNED\x07", "\x1b[8mhidden"
TOOLS = f'''
from toolglot import Context, tool

@tool(inline=True)
def odd(context: Context) -> str:
    """Says odd things."""
    context.report("half {TITLE}{HIDDEN} done")
    return "all {TITLE}{HIDDEN} done"

@tool(inline=True)
def fails() -> str:
    """Fails oddly."""
    raise ValueError("no {TITLE}{HIDDEN} luck")
'''


def shown(*words: str, cwd: Path, **env: str) -> tuple[bytes, str]:
    """All that was written to the terminal, and what a user sees."""
    with Terminal([*RUN, *words], cwd=cwd, columns=200, env=surroundings(**env)) as terminal:
        terminal.wait_exit()
    return bytes(terminal.raw), terminal.unwrapped


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("simulator", f"say hello {TITLE}{HIDDEN}"), "hello ␛]0;PWNED␇␛[8mhidden"),
        (("simulator", "call odd {}", "--tools", "odd_tools:odd"), "half ␛]0;PWNED␇␛[8mhidden done"),
        (("simulator", "call odd {}", "--tools", "odd_tools:odd"), "all ␛]0;PWNED␇␛[8mhidden done"),
        (("simulator", "call fails {}", "--tools", "odd_tools:fails"), "no ␛]0;PWNED␇␛[8mhidden luck"),
        (("simulator", "say a\u202eb\u2066c"), "a⟨U+202E⟩b⟨U+2066⟩c"),
    ],
    ids=["an answer", "progress", "a result", "an error of a tool", "turns of direction"],
)
def test_what_a_terminal_would_obey_is_shown_instead(tmp_path: Path, words: tuple[str, ...], seen: str) -> None:
    (tmp_path / "odd_tools.py").write_text(TOOLS)
    raw, text = shown(*words, cwd=tmp_path)
    assert seen in text, text
    for obeyed in (b"\x1b]", b"\x07", b"\x1b[8m", "\u202e".encode(), "\u2066".encode()):
        assert obeyed not in raw


def test_an_error_that_ends_the_run_is_harmless_too(tmp_path: Path) -> None:
    (tmp_path / "odd_tools.py").write_text(TOOLS)
    (tmp_path / "own.toml").write_text('[policy]\non_error = "abort"\n')
    words = ("simulator", "call fails {}", "--tools", "odd_tools:fails")
    raw, text = shown(*words, cwd=tmp_path, TOOLGLOT_CONFIG=str(tmp_path / "own.toml"))
    assert "toolglot: ValueError: no ␛]0;PWNED␇␛[8mhidden luck" in text
    assert b"\x1b]" not in raw
    assert b"\x1b[8m" not in raw


@pytest.mark.parametrize("answer", [f"hello {HIDDEN}", "tab\there", "a\u202eb"])
def test_in_a_pipe_the_answer_is_what_was_said(tmp_path: Path, answer: str) -> None:
    done = subprocess.run(
        [*RUN, "simulator", f"say {answer}"], capture_output=True, env=surroundings(), cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stdout.decode()) == (0, f"{answer}\n")
