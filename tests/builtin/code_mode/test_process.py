"""The process of a script: what it may do, and what its languages offer."""

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from script_kit import Scripts, needs_javascript, needs_python, needs_sandbox

from toolglot.builtin.code_mode import process
from toolglot.builtin.code_mode.declarations import declare_tools, list_script_tools
from toolglot.builtin.code_mode.process import Language, ScriptMessage, ScriptProcess, ScriptTool
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.tools.tool import Tool, tool
from toolglot.values.definitions import ToolDefinition

pytestmark = [needs_javascript, needs_sandbox]


@tool(effects="read")
def repeat(value: str) -> str:
    """Return the value."""
    return value


def apply(input: str) -> str:
    return f"patched {input}"


patch = Tool(apply, definition=ToolDefinition("patch", "Take free text.", kind="freeform"), effects="read")


@tool(effects="read")
def load(origin: str = "", *, path: str) -> str:
    """Load a file."""
    return f"{path} from {origin}"


def read_confinement(pid: int) -> list[tuple[str, ...]]:
    """For each thread of each process below this one: its name, "no new privileges", its seccomp filters and
    capabilities.
    """
    threads: list[tuple[str, ...]] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(
            line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line
        )
        capabilities = {status[f"Cap{kind}"].strip("0") for kind in ("Eff", "Prm", "Inh", "Amb")}
        threads.append((status["Name"], status["NoNewPrivs"], status["Seccomp_filters"], *capabilities))
        for child in (task / "children").read_text().split():
            threads += read_confinement(int(child))
    return threads


@pytest.mark.parametrize("level", [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK])
@pytest.mark.parametrize("language", ["javascript", pytest.param("python", marks=needs_python)])
def test_every_thread_has_given_up_its_rights(level: SandboxLevel, language: Language) -> None:
    """SECURITY.md: the interpreters have threads of their own, and a filter binds only threads that start
    after it.
    """
    if probe_level(level, process._find_bubblewrap() if level is SandboxLevel.BUBBLEWRAP else ""):  # pyright: ignore[reportPrivateUsage]
        pytest.skip(f"{level.label} does not work here")
    is_called = threading.Event()

    def take(message: ScriptMessage) -> None:
        is_called.set()

    look = ScriptTool("look", ["look"], "", [])
    code = "await tools.look()" if language == "javascript" else "look()"
    runner = ScriptProcess(
        language, code, tools=[look], stored={}, level=level, on_message=take, on_end=lambda reason: None
    )
    try:
        assert is_called.wait(20)
        assert runner._process is not None  # pyright: ignore[reportPrivateUsage]
        threads = read_confinement(runner._process.pid)  # pyright: ignore[reportPrivateUsage]
    finally:
        runner.kill()
    inherited = Path("/proc/thread-self/status").read_text().partition("Seccomp_filters:")[2].split()[0]
    # bubblewrap's, and the process's own
    expected = int(inherited) + (2 if level is SandboxLevel.BUBBLEWRAP else 1)
    confined = [thread for thread in threads if thread[0] != "bwrap"]
    assert len(confined) > 2
    assert {thread[1:] for thread in confined} == {("1", str(expected), "")}


async def test_half_a_character_and_far_timers_are_no_reason_to_fail() -> None:
    code = r"""const half = "\u{1f600}".slice(0, 1); setTimeout(() => {}, Infinity); setTimeout(() => {}, 1e13);
    text("a" + half); text("\\ud83d \u{1f600}"); text(await tools.repeat({value: half + "\\ud83d"}));
    store(half, {[half]: half}); text(load(half)); notify(half); throw Error(half)"""
    header, *texts, error, _ = await Scripts([repeat]).run(code)
    assert (header, error) == ("Script failed", "Script error:\nError: \ufffd (line 3)")
    assert texts == ["a\ufffd", "\\ud83d \U0001f600", "\ufffd\\ud83d", '{"\ufffd":"\ufffd"}', "\ufffd"]


@needs_python
async def test_python_may_have_been_started_by_a_relative_path(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, name = os.path.split(sys.executable)
    program = os.path.join(directory, "..", os.path.basename(directory), name)
    monkeypatch.setattr(sys, "executable", program)
    assert await Scripts(language="python").run("print(1 + 1)") == ["Script completed", "2"]


@needs_python
async def test_python_calls_tools_as_they_are_declared() -> None:
    code = """
def attempt(call):
    try:
        return call()
    except Exception as error:
        return str(error)
print(patch("a"), patch(input="b"), load_2("c", "d"), load("none"))
print(attempt(lambda: repeat("x", "LOST")))
print(attempt(lambda: repeat("x", value="y")))
print(attempt(lambda: patch()))
import datetime, decimal, math, pathlib
values = [patch, len, int, None, True, 1, 10**30, 0.5, math.nan, "s", b"b", (1,), [1], {"a": 1}, {1}, range(2), ...]
values += [ValueError("v"), datetime.datetime(2020, 1, 1), datetime.timedelta(1), decimal.Decimal("1"), pathlib.Path("p")]
for value in values:
    attempt(lambda: repeat(value))
print(patch)
{(1, 2): values}
"""
    header, first, surplus, doubled, missing, function, value = await Scripts(
        [repeat, patch, load], "python"
    ).run(code)
    assert (header, first) == ("Script completed", "patched a patched b c from d None")
    assert surplus == "repeat() takes 1 positional arguments but 2 were given"
    assert doubled == "repeat() got multiple values for argument 'value'"
    assert missing == "patch() takes one argument: input"
    assert "patch" in function
    assert value.startswith("{(1, 2): [")


@dataclass
class Address:
    street: str
    zip: int | None = None


@dataclass
class Person:
    name: str
    address: Address
    friends: "list[Person]"


def test_declarations_have_the_fields_of_nested_types() -> None:
    @tool
    def save(person: Person, others: list[Address]) -> str:
        """Save."""
        return ""

    text = declare_tools([save.definition], "javascript")
    assert text.count("street: string;") == 2
    assert "friends: Array<unknown>" in text
    address = "TypedDict[{'street': str, 'zip': NotRequired[int | None]}]"
    assert f"'address': {address}" in (text := declare_tools([save.definition], "python"))
    assert f"others: list[{address}]" in text
    odd = {"type": "object", "properties": {"x": True, "y": {"$ref": "#/$defs/None"}}}
    assert "def odd(x: Any = …, y: Any = …) -> str" in declare_tools(
        [ToolDefinition("odd", "", odd)], "python"
    )
    levels = {
        f"L{n}": {"properties": {key: {"$ref": f"#/$defs/L{n + 1}"} for key in "abcdefgh"}} for n in range(12)
    }
    wide = ToolDefinition("wide", "", {"$ref": "#/$defs/L0", "$defs": levels})
    assert len(declare_tools([wide], "javascript")) < 100_000


def test_names_and_deferred_tools() -> None:
    tools = [ToolDefinition(name, "", {}) for name in ("load", "a$b", "class", "list")]
    tools.append(ToolDefinition("late", "Later.", {"properties": {"x": {"type": "string"}}}, deferred=True))
    assert [tool.name for tool, _ in list_script_tools(tools, "javascript")] == [
        "load",
        "a$b",
        "class",
        "list",
        "late",
    ]
    *others, (late, _) = list_script_tools(tools, "python")
    assert [tool.name for tool, _ in others] == ["load_2", "a_b", "class_2", "list_2"]
    assert "Later.\n```python\ndef late(x: str = …) -> str:" in late.description, (
        "ALL_TOOLS is all that a script knows of it"
    )


async def test_what_a_script_showed_before_it_was_stopped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = Scripts([repeat])
    start = process._START  # pyright: ignore[reportPrivateUsage]
    bomb = "text(1); const all = []; for (;;) all.push(new Array(1e6).fill(1))"
    for code, seconds, reason in (
        ("text(1); for (;;) {}", 0.3, "without waiting"),
        (bomb, 30, "too much memory"),
        (f"await tools.repeat({{value: ''}}); {bomb}", 30, "too much memory"),
        ("text(1); for (;;) notify('x'.repeat(1e6))", 30, "too much output at once"),
    ):
        limited = start.replace("worker()", f"worker.__globals__.update(SLICE_SECONDS={seconds}); worker()")
        monkeypatch.setattr(process, "_START", limited)
        header, text, *others = await scripts.run(code, seconds=60)
        assert (header, text) == ("Script failed", "1")
        assert any(reason in other for other in others), others[-1]
