"""Windows and macOS, as far as they can be tested here: without the names that their Python lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SENTENCE = "the built-in tools need Linux or macOS: this system cannot confine them"
OWN = 'from toolglot import tool\n@tool\ndef add(a: int, b: int) -> int:\n    "Add."\n    return a + b\n'


def run_on(system: str, directory: Path, *words: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
    command = [
        sys.executable,
        "-W",
        "error",
        str(Path(__file__).with_name("other_systems.py")),
        system,
        *words,
    ]
    home = {name: str(directory) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLGLOT_")}
    environment |= {**home, "TERM": "dumb", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", **env}
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=environment, cwd=directory
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_every_module_can_be_imported(system: str, tmp_path: Path) -> None:
    assert run_on(system, tmp_path, "import") == (0, "\n", "")


@pytest.mark.parametrize(
    "words",
    [("call", "read", "{}"), ("tools",), ("run", "hi", "--builtin"), ("chat", "hi", "--builtin")],
    ids=" ".join,
)
def test_builtin_tools_are_refused_in_one_sentence_on_windows(words: tuple[str, ...], tmp_path: Path) -> None:
    assert run_on("windows", tmp_path, *words) == (2, "", f"toolglot: {SENTENCE}\n")


def test_coding_tools_are_refused_on_windows_when_they_are_made(tmp_path: Path) -> None:
    program = (
        "from toolglot import *\ntry:\n    coding_tools()\nexcept UsageError as e:\n    print(e)\n"
        "print(Agent('simulator').run_sync('hi').text)"
    )
    assert run_on("windows", tmp_path, "-c", program) == (0, f"{SENTENCE}\nYou said: hi\n", "")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("chat", "hi", "-m", "simulator"), "You said: hi"),
        (("run", "hi", "-m", "simulator"), "You said: hi"),
        (("demo", "--provider", "gemini"), "gemini → anthropic"),
        (("doctor",), f"not at all: {SENTENCE}"),
        (("models", "gemini"), "Gemini"),
        (("config", "show"), "log.level"),
    ],
    ids=lambda words: words[0],
)
def test_everything_else_works_on_windows(words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    code, out, err = run_on("windows", tmp_path, *words, COLUMNS="200")
    assert (code, err) == (0, "")
    assert shown in out


def test_own_tools_work_on_windows_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "own_tools.py").write_text(OWN)
    outcome = run_on("windows", tmp_path, "call", "add", '{"a": 1, "b": 2}', "--tools", "own_tools:add")
    assert outcome == (0, "3\n", f"toolglot: {SENTENCE}\n")


def test_builtin_tools_work_on_macos(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert run_on("macos", tmp_path, "call", "read", '{"path": "a.txt"}') == (0, "1\tone\n", "")
    code, _, errors = run_on("macos", tmp_path, "call", "shell", '{"command": "true"}')
    assert code == 1  # not confined: it needs approval
    assert "no sandbox works here, so you are asked about each command: it needs Linux" in errors
    assert run_on("macos", tmp_path, "call", "shell", '{"command": "true"}', "--yes")[0] == 1
    assert run_on("macos", tmp_path, "call", "shell", '{"command": "true"}', "--yes", "--no-sandbox")[0] == 0
