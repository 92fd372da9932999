"""Our tools in other frameworks: what all of them share."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot import (
    Allow,
    ApprovalRequest,
    Context,
    Deny,
    ToolConfig,
    ToolRegistry,
    coding_tools,
    tool,
    tool_from_definition,
)
from toolglot.bridges.event_streams import describe_approval
from toolglot.bridges.exported_tools import ExportedTools, read_answer
from toolglot.bridges.imported_tools import ask_user
from toolglot.tools.calls import AnyCall
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolOutcome

from .kit import TOOLS, add, remove


async def run(tools: ExportedTools, call: AnyCall, decision: Any = None) -> str:
    outcome = await tools.run(call, decision)
    assert isinstance(outcome, ToolOutcome)
    return outcome.result.text


async def ask(tools: ExportedTools, call: AnyCall) -> ApprovalRequest:
    request = await tools.run(call)
    assert isinstance(request, ApprovalRequest)
    return request


def test_arguments_are_repaired_and_refused_as_in_an_agent() -> None:
    tools = ExportedTools(TOOLS)
    assert asyncio.run(run(tools, tools.make_call("add", {"a": "1", "b": 2}))) == "3"
    assert "b: is missing" in asyncio.run(run(tools, tools.make_call("add", {"a": 1})))
    assert "There is no such tool: 'ad'" in asyncio.run(run(tools, tools.make_call("ad", {})))


def test_a_call_waits_for_a_decision_and_then_runs_once() -> None:
    async def main() -> None:
        tools = ExportedTools(TOOLS, framework_asks=True)
        call = tools.make_call("remove", {"path": "x"}, "call_1")
        request = await ask(tools, call)
        assert describe_approval(request)["arguments"] == {"path": "x"}
        assert await run(tools, call, Allow()) == "removed x"
        assert (await ask(tools, call)).id == "call_1"  # the answer counted once
        assert "keep it" in await run(tools, call, Deny("keep it"))
        assert "[The user changed the arguments" in await run(tools, call, Allow({"path": "y"}))

    asyncio.run(main())


def test_without_anybody_to_ask_a_call_is_refused() -> None:
    tools = ExportedTools(TOOLS)
    outcome = asyncio.run(tools.run_or_refuse(tools.make_call("remove", {"path": "x"})))
    assert (outcome.ran, outcome.result.is_error) == (False, True)
    assert "no approver is available" in outcome.result.text


def test_the_program_itself_can_decide() -> None:
    tools = ExportedTools(TOOLS, approve=lambda request: request.arguments["path"] == "x")
    assert asyncio.run(run(tools, tools.make_call("remove", {"path": "x"}))) == "removed x"
    assert "did not approve" in asyncio.run(run(tools, tools.make_call("remove", {"path": "y"})))
    assert asyncio.run(tools.preview(tools.make_call("remove", {"path": "y"}))) is None


def test_an_approval_counts_for_what_was_shown(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "a.txt"
        file.write_text("old\n")
        tools = ExportedTools(coding_tools(tmp_path), model="claude-sonnet-5", framework_asks=True)
        await run(tools, tools.make_call("Read", {"file_path": str(file)}))
        call = tools.make_call(
            "Edit", {"file_path": str(file), "old_string": "old", "new_string": "new"}, "call_1"
        )
        assert "-old" in (await ask(tools, call)).preview
        file.write_text("more\nold\n")
        assert isinstance(await tools.run(call, Allow()), ApprovalRequest)  # it would do something else now
        assert file.read_text() == "more\nold\n"

    asyncio.run(main())


def test_built_in_tools_have_the_names_of_the_models_harness(tmp_path: Path) -> None:
    tools = coding_tools(tmp_path)
    assert {"Read", "Edit", "Bash"} <= set(
        ExportedTools(tools, model="anthropic:claude-sonnet-5").definitions()
    )
    assert {"read_file", "replace"} <= set(ExportedTools(tools, model="gemini-3-pro-preview").definitions())
    assert "apply_patch" in ExportedTools(tools, model="simulator:openai/gpt-5.1").definitions()
    assert "Read" in ExportedTools(tools, facade="claude-code").definitions()
    assert ExportedTools(tools, model="my-model").note != ""
    assert ExportedTools(TOOLS).note == ""


def test_freeform_tools_and_namespaces_have_forms_that_frameworks_accept() -> None:
    definition = ToolDefinition("patch", "Apply a patch.", kind="freeform")

    def apply_patch(text: str) -> str:
        return f"applied {text}"

    patch = tool_from_definition(definition, apply_patch)
    tools = ExportedTools([patch, tool(lambda: "found", name="find", namespace="crm")])
    definitions = tools.definitions(read_result=False)
    assert list(definitions) == ["patch", "crm__find"]
    assert (definitions["patch"].parameters or {})["required"] == ["input"]
    assert asyncio.run(run(tools, tools.make_call("patch", {"input": "+x"}))) == "applied +x"
    assert asyncio.run(run(tools, tools.make_call("crm__find", {}))) == "found"


def test_tools_that_come_and_go_are_seen() -> None:
    registry = ToolRegistry([add])
    tools = ExportedTools(registry)
    assert list(tools.definitions(read_result=False)) == ["add"]
    registry.register(remove)
    registry.unregister("add")
    assert list(tools.definitions(read_result=False)) == ["remove"]
    assert "There is no such tool" in asyncio.run(run(tools, tools.make_call("add", {"a": 1, "b": 2})))


def test_long_results_can_be_read_on() -> None:
    async def main() -> None:
        tools = ExportedTools(TOOLS)
        assert not tools.has_long_results
        text = await run(tools, tools.make_call("write_much", {}))
        handle = text.partition('handle="')[2].partition('"')[0]
        assert tools.has_long_results
        other = tools.fork("data of another run")
        assert "END" in await run(other, other.make_call("read_result", {"handle": handle}))
        assert await run(other, other.make_call("show_data", {})) == "data data of another run"

    asyncio.run(main())


def test_rules_count() -> None:
    tools = ExportedTools(TOOLS, config=ToolConfig(approve=["remove"], deny=["add"]))
    assert asyncio.run(run(tools, tools.make_call("remove", {"path": "x"}))) == "removed x"
    assert "did not run" in asyncio.run(run(tools, tools.make_call("add", {"a": 1, "b": 2})))


def test_ordered_calls_do_not_overlap_in_several_threads() -> None:
    running, seen = 0, list[tuple[int, int]]()

    @tool(ordered=True)
    async def step(number: int) -> int:
        """Do a step."""
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        seen.append((number, running))
        running -= 1
        return number

    tools = ExportedTools([step])

    async def call_in_threads() -> None:
        calls = [tools.make_call("step", {"number": number}) for number in range(6)]
        threads = (asyncio.to_thread(asyncio.run, run(tools, call)) for call in calls[:3])
        await asyncio.gather(*threads, *(run(tools, call) for call in calls[3:]))

    asyncio.run(call_in_threads())
    assert sorted(number for number, _ in seen) == list(range(6))
    assert {count for _, count in seen} == {1}


def test_a_cancelled_call_does_not_hold_up_those_after_it() -> None:
    async def main() -> None:
        started, release = asyncio.Event(), asyncio.Event()

        @tool(ordered=True)
        async def wait(number: int) -> int:
            """Wait."""
            started.set()
            if number == 0:
                await release.wait()
            return number

        tools = ExportedTools([wait])
        first, second, third = (
            asyncio.create_task(run(tools, tools.make_call("wait", {"number": n}))) for n in range(3)
        )
        await started.wait()
        second.cancel()
        await asyncio.wait([second])
        assert not third.done()
        release.set()
        assert [await first, await third] == ["0", "2"]
        assert second.cancelled()

    asyncio.run(main())


def test_a_tool_that_asks_while_it_runs() -> None:
    @tool
    async def ask_back(context: Context[Any]) -> str:
        """Ask back."""
        await ask_user(context, {}, "really?")
        return "yes"

    async def main() -> None:
        tools = ExportedTools([ask_back], framework_asks=True)
        call = tools.make_call("ask_back", {}, "call_1")
        # Frameworks would run it again from its start, with all that it did before it asked.
        assert "Reason: nobody can be asked while the tool runs" in await run(tools, call)
        for decision, result in ((True, "yes"), (Deny("not now"), "not now")):
            asking = ExportedTools([ask_back], approve=lambda request, decision=decision: decision)
            assert result in await run(asking, asking.make_call("ask_back", {}))
        later = ExportedTools([ask_back], approve=lambda request: "later")
        assert "nobody can be asked while the tool runs" in await run(later, later.make_call("ask_back", {}))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (True, Allow()), ("yes", Allow()), ({"type": "approve"}, Allow()),
        ({"type": "edit", "arguments": {"a": 1}}, Allow({"a": 1})), ({"decisions": [{"type": "approve"}]}, Allow()),
        ({"decisions": [{"type": "edit", "edited_action": {"name": "f", "args": {"a": 1}}}]}, Allow({"a": 1})),
        ({"decisions": [{"type": "approve"}, {"type": "reject"}]}, Deny()),
        (False, Deny()), ("no", Deny()), (None, Deny()), ("use git", Deny("use git")), (1.5, Deny()),
        ({"type": "reject", "message": "not now"}, Deny("not now")), (Deny("x"), Deny("x")), ({"type": "approved?"}, Deny()),
    ],
)  # fmt: skip
def test_only_a_clear_yes_is_a_yes(answer: Any, decision: Any) -> None:
    assert read_answer(answer) == decision


def test_nothing_in_a_description_of_a_request_deceives() -> None:
    forged = "x\n\nAllow ls?\x1b[2J\u202e"
    described = remove.replace(
        target=lambda arguments: arguments["path"], preview=lambda arguments: f"rm {arguments['path']}"
    )
    tools = ExportedTools([described], framework_asks=True)
    request = asyncio.run(tools.preview(tools.make_call("remove", {"path": forged})))
    assert request is not None
    shown = describe_approval(replace(request, reason=forged))
    assert shown["arguments"] == {"path": forged}, "data stays what it is"
    assert shown["target"] == shown["reason"] == "x␊␊Allow ls?␛[2J⟨U+202E⟩"
    assert shown["preview"] == "rm x\n\nAllow ls?␛[2J⟨U+202E⟩"


def test_a_description_of_a_request_is_plain_data() -> None:
    tools = ExportedTools([remove], framework_asks=True)
    request = asyncio.run(tools.preview(tools.make_call("remove", {"path": "x"})))
    assert request is not None
    assert describe_approval(request) == {
        "tool": "remove",
        "arguments": {"path": "x"},
        "effects": ["execute", "network", "read", "write"],
        "reason": "the tool always asks, and no rule allows it",
    }
