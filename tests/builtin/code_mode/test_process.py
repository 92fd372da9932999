"""The process of a script: what it may do, and what its languages offer."""

import threading
from pathlib import Path

import pytest
from script_kit import Scripts, needs_javascript, needs_python, needs_sandbox

from toolglot.builtin.code_mode import process
from toolglot.builtin.code_mode.process import Language, ScriptMessage, ScriptProcess, ScriptTool
from toolglot.builtin.shell.sandbox import SandboxLevel
from toolglot.builtin.shell.sandbox_probe import probe_level
from toolglot.tools.tool import tool

pytestmark = [needs_javascript, needs_sandbox]


@tool(effects="read")
def repeat(value: str) -> str:
    """Return the value."""
    return value


def read_confinement(pid: int) -> list[tuple[str, ...]]:
    """For each thread of each process below this one: its name, "no new privileges", and the number of its seccomp filters."""
    threads: list[tuple[str, ...]] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        threads.append((status["Name"], status["NoNewPrivs"], status["Seccomp_filters"]))
        for child in (task / "children").read_text().split():
            threads += read_confinement(int(child))
    return threads


@pytest.mark.parametrize("level", [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK])
@pytest.mark.parametrize("language", ["javascript", pytest.param("python", marks=needs_python)])
def test_every_thread_has_given_up_its_rights(level: SandboxLevel, language: Language) -> None:
    """SECURITY.md: the interpreters have threads of their own, and a filter binds only threads that start after it."""
    if probe_level(level, process._find_bubblewrap() if level is SandboxLevel.BUBBLEWRAP else ""):  # pyright: ignore[reportPrivateUsage]
        pytest.skip(f"{level.label} does not work here")
    is_called = threading.Event()

    def take(message: ScriptMessage) -> None:
        is_called.set()

    look = ScriptTool("look", ["look"], "", [])
    code = "await tools.look()" if language == "javascript" else "look()"
    runner = ScriptProcess(language, code, tools=[look], stored={}, level=level, on_message=take, on_end=lambda reason: None)
    try:
        assert is_called.wait(20)
        assert runner._process is not None  # pyright: ignore[reportPrivateUsage]
        threads = read_confinement(runner._process.pid)  # pyright: ignore[reportPrivateUsage]
    finally:
        runner.kill()
    inherited = Path("/proc/thread-self/status").read_text().partition("Seccomp_filters:")[2].split()[0]
    expected = int(inherited) + (2 if level is SandboxLevel.BUBBLEWRAP else 1)  # bubblewrap's, and the process's own
    confined = [thread for thread in threads if thread[0] != "bwrap"]
    assert len(confined) > 2
    assert {thread[1:] for thread in confined} == {("1", str(expected))}


async def test_half_a_character_and_far_timers_are_no_reason_to_fail() -> None:
    code = r"""const half = "\u{1f600}".slice(0, 1); setTimeout(() => {}, Infinity); setTimeout(() => {}, 1e13);
    text("a" + half); text("\\ud83d \u{1f600}"); text(await tools.repeat({value: half + "\\ud83d"}));
    store(half, {[half]: half}); text(load(half)); notify(half); throw Error(half)"""
    header, *texts, error, _ = await Scripts([repeat]).run(code)
    assert (header, error) == ("Script failed", "Script error:\nError: \ufffd (line 3)")
    assert texts == ["a\ufffd", "\\ud83d \U0001f600", "\ufffd\\ud83d", '{"\ufffd":"\ufffd"}', "\ufffd"]
