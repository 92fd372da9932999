"""What the one who approves a call is told: arguments as they will be used, the target, a preview in the
tool's own words.
"""

import asyncio
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.messages import ToolCall


def command(arguments: dict[str, Any]) -> str:
    return f"$ rm -r {arguments['path']} x{arguments['times']}"


def path_of(arguments: dict[str, Any]) -> str:
    return arguments["path"]


def render(arguments: dict[str, Any]) -> str:
    return repr(arguments)


class Seen:
    """A preview that keeps what it was asked about."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []

    def __call__(self, arguments: dict[str, Any]) -> str:
        self.arguments.append(arguments)
        return ""


def remover(ran: list[Any] | None = None, **options: Any) -> Tool:
    """A tool that asks, with a target of its own."""

    def remove(path: str, times: int = 1) -> str:
        """Removes."""
        (ran if ran is not None else []).append((path, times))
        return "removed"

    return tool(remove, approval=True, inline=True, target=path_of).replace(**options)


def ask(
    tool_: Tool, arguments: dict[str, Any] | None, raw: str | None = None, answer: Any = "yes"
) -> list[ApprovalRequest]:
    questions: list[ApprovalRequest] = []

    def approve(question: ApprovalRequest) -> Any:
        questions.append(question)
        return answer

    executor = ToolExecutor(ToolRegistry([tool_]), ToolConfig(), approve=approve)
    asyncio.run(executor.run_all([ToolCall("c", "remove", arguments, raw)]))
    return questions


def test_the_question_says_what_the_call_would_do() -> None:
    [question] = ask(remover(preview=command), {"path": "a", "times": 2})
    assert (question.tool, question.target, question.preview) == ("remove", "a", "$ rm -r a x2")
    assert question.arguments == {"path": "a", "times": 2}


def test_the_arguments_are_those_that_will_be_used() -> None:
    """A list that came as text is mended before anybody is asked about it; the call keeps what the model
    wrote.
    """
    ran: list[Any] = []

    @tool(approval=True, inline=True, preview=render)
    def remove(paths: list[int]) -> str:
        """Removes."""
        ran.append(paths)
        return "removed"

    [question] = ask(remove, {"paths": "[1, 2]"})
    assert (question.arguments, question.preview) == ({"paths": [1, 2]}, "{'paths': [1, 2]}")
    assert question.call.arguments == {"paths": "[1, 2]"}
    assert ran == [[1, 2]]


def test_a_text_that_is_no_json_is_repaired_first() -> None:
    [question] = ask(remover(preview=command), None, "{'path': 'a', 'times': 1,}")
    assert (question.arguments, question.preview) == ({"path": "a", "times": 1}, "$ rm -r a x1")


def test_what_is_not_text_becomes_text() -> None:
    number: Any = len
    [question] = ask(remover(preview=number), {"path": "a", "times": 2})
    assert question.preview == "2"


@pytest.mark.parametrize("field", ["preview", "target"])
def test_a_preview_that_fails_does_not_stop_the_question(
    field: str, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(arguments: dict[str, Any]) -> str:
        raise ValueError("cannot tell")

    ran: list[Any] = []
    with caplog.at_level(logging.WARNING, "toolglot.tools"):
        [question] = ask(remover(ran, **{field: wrong}), {"path": "a"})
    assert getattr(question, field) == ""
    assert len(ran) == 1
    assert "remove" in caplog.text
    assert "failed to describe" in caplog.text


@pytest.mark.parametrize("options", [{"approval": False}, {"approval": None, "effects": "read"}])
def test_nobody_is_asked_and_nothing_is_previewed_if_a_call_may_run(options: dict[str, Any]) -> None:
    seen = Seen()
    executor = ToolExecutor(
        ToolRegistry([remover(preview=seen, **options)]), ToolConfig(), approve=lambda question: "no"
    )
    [outcome] = asyncio.run(executor.run_all([ToolCall("c", "remove", {"path": "a"})]))
    assert (outcome.result.text, seen.arguments) == ("removed", [])


def test_a_call_that_cannot_run_is_not_asked_about() -> None:
    assert ask(remover(preview=command), {"path": 5, "times": "many"}) == []


def test_a_preview_is_not_made_if_nobody_is_there_to_see_it() -> None:
    seen = Seen()
    executor = ToolExecutor(ToolRegistry([remover(preview=seen)]), ToolConfig())
    prepared = asyncio.run(
        executor.host.prepare(ToolCall("c", "remove", {"path": "a"}), replace(executor.caller, can_ask=True))
    )
    assert (getattr(prepared, "needs_approval", None), seen.arguments) == (True, [])


@pytest.mark.parametrize("field", ["preview", "target"])
def test_what_a_preview_does_to_the_arguments_reaches_nobody(field: str) -> None:
    """What was asked about is what runs and what the conversation says, whatever the tool's own functions do
    on the way.
    """
    ran: list[Any] = []

    def meddles(arguments: dict[str, Any]) -> str:
        arguments["path"] = "somewhere else"
        return "x"

    [question] = ask(remover(ran, **{field: meddles}), {"path": "a"})
    assert ran == [("a", 1)]
    assert question.call.arguments == {"path": "a"}
    assert question.arguments == {"path": "a"}
