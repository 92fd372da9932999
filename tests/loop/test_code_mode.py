"""Code mode in a conversation: as GPT-5.6 has it, as an option for others, and what happens when it is
interrupted.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.loop.agents import QUICK, Wiretap, run

from toolglot import Agent, Tool, ToolChoice, ToolConfig, coding_tools, tool
from toolglot.builtin.code_mode import process
from toolglot.builtin.code_mode.process import find_level, find_runtime
from toolglot.confine.sandbox import SandboxLevel
from toolglot.tools.audit import AuditLog
from toolglot.values.events import ToolStarted
from toolglot.values.messages import Reply, Text, ToolCall

pytestmark = [
    pytest.mark.skipif(not find_runtime("javascript"), reason="mini-racer is not installed"),
    pytest.mark.skipif(find_level() is SandboxLevel.NONE, reason="no sandbox works here"),
]
ANYTHING = ToolConfig(ask=())
PATCH = """*** Begin Patch
*** Add File: notes/todo.md
+# Tasks
+- write code
*** End Patch"""


def calls(*items: ToolCall) -> Reply:
    return Reply(tuple(items), stop="tools")


def execute(source: str, id: str = "c1") -> Reply:
    return calls(ToolCall(id, "exec", None, source, freeform=True))


def agent(model: str, *turns: Any, **options: Any) -> tuple[Agent, Wiretap]:
    wiretap = Wiretap(*turns)
    return Agent(model, key="k", transport=wiretap, retry=QUICK, **options), wiretap


def read_tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()
    }


async def test_code_mode_and_direct_tools_end_with_the_same_files(tmp_path: Path) -> None:
    """A task as GPT-5.6 does it, in one script, and as GPT-5.5 does it, call by call."""
    script = f"""const patched = await tools.apply_patch({PATCH!r}.replaceAll("\\\\n", "\\n"));
    const {{exit_code, output}} = await tools.exec_command({{cmd: "wc -l < notes/todo.md && cp notes/todo.md copy.md"}});
    text(exit_code + " " + output.trim()); if (output.trim() !== "2") throw new Error("wrong");
    await tools.exec_command({{cmd: "sed -i s/code/tests/ copy.md"}});"""
    trees: list[dict[str, str]] = []
    for model, turns in (
        ("openai:gpt-5.6-sol", [execute(script), "done"]),
        (
            "openai:gpt-5.5",
            [
                calls(ToolCall("a", "apply_patch", None, PATCH, freeform=True)),
                calls(
                    ToolCall(
                        "b", "exec_command", {"cmd": "wc -l < notes/todo.md && cp notes/todo.md copy.md"}
                    )
                ),
                calls(ToolCall("c", "exec_command", {"cmd": "sed -i s/code/tests/ copy.md"})),
                "done",
            ],
        ),
    ):
        root = tmp_path / model.replace(":", "-")
        root.mkdir()
        orchestrator, wiretap = agent(model, *turns, tools=coding_tools(root), config=ANYTHING)
        result = await orchestrator.run("do it")
        assert result.text == "done", result
        trees.append(read_tree(root))
        names = [declared["name"] for declared in wiretap.bodies[0]["tools"]]
        assert names[:2] == (["exec", "wait"] if model.endswith("sol") else ["exec_command", "write_stdin"])
        if model.endswith("sol"):
            first = result.outcomes[0].result
            assert [block.text for block in first.content if isinstance(block, Text)][1:] == ["0 2"]
            assert first.text.startswith("Script completed\nWall time ")
    assert (
        trees[0]
        == trees[1]
        == {"copy.md": "# Tasks\n- write tests\n", "notes/todo.md": "# Tasks\n- write code\n"}
    )


@tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@tool(approval=True)
def deploy(place: str) -> str:
    """Deploy to a place."""
    return f"deployed to {place}"


def run_code(code: str, id: str = "c1", **arguments: Any) -> Reply:
    return calls(ToolCall(id, "run_code", {"code": code, **arguments}))


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_other_models_have_it_as_an_option(language: Any) -> None:
    if not find_runtime(language):
        pytest.skip(f"{language} cannot be run here")
    code = {"javascript": "text(await tools.double({n: 21}))", "python": "double(n=21)"}[language]
    orchestrator, wiretap = agent(
        "anthropic:claude-opus-4-8", run_code(code), "fine", tools=[double], code_mode=language
    )
    events = [event async for event in orchestrator.stream("go")]
    declared = wiretap.bodies[0]["tools"]
    assert [item["name"] for item in declared] == ["run_code"]
    assert ("tools.double(args" if language == "javascript" else "def double(n: int)") in declared[0][
        "description"
    ]
    started = [(event.call.name, event.call.caller) for event in events if isinstance(event, ToolStarted)]
    assert started == [("run_code", ""), ("double", "c1")]
    assert wiretap.bodies[1]["messages"][-1]["content"][0]["content"][-1]["text"] == "42"


async def test_a_script_waits_for_a_decision_and_goes_on() -> None:
    lines: list[bytes] = []
    code = """text(await tools.double({n: 1}));
    try { text(await tools.deploy({place: "here"})) } catch (e) { text(e.message) } text("end")"""
    for answer, shown in (
        (True, "deployed to here"),
        (False, "The user did not approve the call. It did not run."),
    ):
        options: Any = {"tools": [double, deploy], "code_mode": "javascript", "audit": AuditLog(lines.append)}
        orchestrator, _ = agent("anthropic:claude-opus-4-8", run_code(code), "fine", **options)
        paused = await orchestrator.run("go")
        assert (paused.stop, [request.tool for request in paused.requests]) == ("approval", ["deploy"])
        assert [request.call.name for request in await orchestrator.list_pending()] == ["deploy"]
        result = await orchestrator.resume({paused.requests[0].call.id: answer})
        assert result.text == "fine"
        assert result.outcomes[0].result.text.partition("Output:\n")[2] == f"2\n{shown}\nend"
    assert [b'"tool":"double"' in line for line in lines].count(True) == 2  # not run again


async def test_a_script_that_waits_ends_when_the_user_moves_on() -> None:
    """Its place is free again, and a call that has the same id by chance is a call of its own."""
    started = run_code('await tools.deploy({place: "old"}); text("old")')
    options: Any = {"tools": [double.replace(callers=["model"]), deploy], "code_mode": "javascript"}
    again = calls(ToolCall("c1", "double", {"n": 4}))
    orchestrator, _ = agent("anthropic:claude-opus-4-8", started, started, again, "fine", **options)
    assert (await orchestrator.run("go")).stop == "approval"
    assert (await orchestrator.run("something else")).stop == "approval"
    host: Any = orchestrator._state.caller.added_tools["run_code"].function  # pyright: ignore[reportPrivateUsage]
    assert list(host.__self__._scripts) == ["2"]
    result = await orchestrator.run("leave it")
    assert (result.text, [outcome.result.text for outcome in result.outcomes]) == ("fine", ["8"])
    assert (host.__self__._scripts, host.__self__._suspended) == ({}, {})


async def test_an_interrupted_script_tells_what_it_has_done() -> None:
    started = asyncio.Event()

    @tool
    async def linger() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.sleep(1000)
        return ""

    code = 'text("begin"); await tools.double({n: 1}); await tools.linger()'
    orchestrator, _ = agent(
        "anthropic:claude-opus-4-8", run_code(code), tools=[double, linger], code_mode="javascript"
    )
    task = asyncio.create_task(orchestrator.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    first, state, _, _, *shown = orchestrator.conversation[-1].results[0].text.splitlines()
    assert (first, state) == (
        "The call was interrupted while it ran. It may have had effects.",
        "Script terminated",
    )
    assert shown == ["begin", "Calls that it made: double (ok), linger (interrupted)"]


async def test_a_script_does_not_survive_its_process() -> None:
    """What was saved while a script waited says that its outcome is unknown; the script does not run twice."""
    options: Any = {"tools": [double, deploy], "code_mode": "javascript"}
    code = 'await tools.double({n: 1}); await tools.deploy({place: "here"})'
    orchestrator, _ = agent("anthropic:claude-opus-4-8", run_code(code), **options)
    assert (await orchestrator.run("go")).stop == "approval"
    saved = orchestrator.save()
    wiretap = Wiretap(run_code(code), "I see")
    other = Agent.load(saved, "anthropic:claude-opus-4-8", key="k", transport=wiretap, retry=QUICK, **options)
    assert await other.list_pending() == ()
    result = await other.resume()
    assert result.text == "I see"
    assert "may or may not have run" in str(wiretap.bodies[0]["messages"][-1]["content"])


async def test_without_the_packages_the_tools_are_offered_directly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from toolglot.loop import code_mode

    code_mode._warn.cache_clear()  # pyright: ignore[reportPrivateUsage]

    def find_nothing(language: str) -> str:
        return ""

    monkeypatch.setattr(code_mode, "find_runtime", find_nothing)
    with caplog.at_level(logging.WARNING, "toolglot"):
        orchestrator, wiretap = agent("anthropic:claude-opus-4-8", "hi", tools=[double], code_mode=True)
        await orchestrator.run("go")
    assert [item["name"] for item in wiretap.bodies[0]["tools"]] == ["double"]
    assert "run `pip install 'toolglot[code]'`; claude-opus-4-8 is offered its tools directly" in caplog.text


def test_who_may_call_a_tool_is_respected() -> None:
    direct = Tool(double.function, name="direct", callers=["model"])
    both = Tool(double.function, name="both", callers=("model", "code"))
    orchestrator, wiretap = agent(
        "anthropic:claude-opus-4-8", "hi", tools=[direct, both, double], code_mode=True
    )
    run(orchestrator.run("go"))
    assert [item["name"] for item in wiretap.bodies[0]["tools"]] == ["direct", "both", "run_code"]
    assert all("allowed_callers" not in item for item in wiretap.bodies[0]["tools"])
    description = wiretap.bodies[0]["tools"][-1]["description"]
    assert [f"tools.{name}(" in description for name in ("direct", "both", "double")] == [False, True, True]


@pytest.mark.parametrize(
    ("model", "names"), [("anthropic:claude-opus-4-8", ["run_code"]), ("openai:gpt-5.6-sol", ["exec"])]
)
def test_a_choice_of_a_tool_is_a_choice_of_the_code_that_calls_it(
    tmp_path: Path, model: str, names: list[str]
) -> None:
    tools = [double, *coding_tools(tmp_path)]
    orchestrator, _ = agent(model, tools=tools, code_mode="javascript")
    choice = orchestrator.view().model_view.map_tool_choice(ToolChoice("required", ("double", "shell")))
    assert choice is not None
    assert [*choice.names] == names


async def test_without_a_sandbox_each_script_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolglot.builtin.code_mode import run_code as module

    for target in (process, module):
        monkeypatch.setattr(target, "find_level", lambda: SandboxLevel.NONE)
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(f"{request.tool}: {request.reason}")
        return len(asked) < 2

    turns = run_code("text(1)"), run_code("text(2)", "c2"), "fine"
    orchestrator, _ = agent(
        "anthropic:claude-opus-4-8", *turns, tools=[double], code_mode=True, approve=approve
    )
    result = await orchestrator.run("go")
    assert [outcome.ran for outcome in result.outcomes] == [True, False]
    assert asked[0] == "run_code: no sandbox works here, so the script runs with all your rights"
