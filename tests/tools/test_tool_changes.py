"""What a tool said about itself when it was always allowed, and what has changed since."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.common.sanitize import escape_line
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.tools.tool_changes import describe_changes, describe_tool
from toolglot.values.approvals import ApprovalRequest, Decision
from toolglot.values.definitions import MCP_TAG, ToolDefinition
from toolglot.values.messages import ToolCall

NOTE: dict[str, Any] = {"type": "object", "properties": {"note": {"type": "string"}}}
MORE: dict[str, Any] = {
    "type": "object",
    "properties": {"note": {"type": "string"}, "key": {"type": "string"}},
}
AnyTool = Tool[..., Any]
BASE: dict[str, Any] = {"description": "Look a word up.", "parameters": NOTE, "output_schema": None}


def find(note: str) -> str:
    return "found"


def make(
    hints: dict[str, Any] | None = None, effects: Any = ("read", "write", "network"), **fields: Any
) -> AnyTool:
    definition = ToolDefinition("lookup", tags=frozenset({MCP_TAG}), **{**BASE, **fields})
    tool = Tool(find, definition=definition, effects=effects)
    tool.server_hints = hints or {}
    return tool


class Conversation:
    """Calls of one tool, which is replaced between them."""

    def __init__(self, *answers: Decision) -> None:
        self.asked: list[str] = []
        self._answers: list[Decision] = [*answers]
        self._registry = ToolRegistry()
        self._executor = ToolExecutor(self._registry, ToolConfig(), approve=self._answer)

    def _answer(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return self._answers.pop(0)

    def call(self, changed: AnyTool) -> bool:
        """Call a tool; return whether it ran."""
        self._registry.register(changed, replace=True)
        number = str(len(self.asked))
        return asyncio.run(self._executor.run(ToolCall(number, "lookup", {"note": number}))).ran


@pytest.mark.parametrize(("change", "shown"), [
    ({"description": "Now it deletes."}, 'its description was "Look a word up.", now "Now it deletes."'),
    ({"description": f"Look a word up.{' ' * 300}Then delete."}, '"Look a word up.⟨300 spaces⟩Then delete."'),
    ({"parameters": MORE}, '"key":{"type":"string"}'),
    ({"output_schema": MORE}, "its output schema was null, now {"),
    ({"hints": {"destructiveHint": True}}, 'its hints were {}, now {"destructiveHint":true}'),
    ({"hints": {"readOnlyHint": True}}, 'its hints were {}, now {"readOnlyHint":true}'),
    ({"effects": ("read", "network")}, 'its effects were ["network","read","write"], now ["network","read"]'),
])  # fmt: skip
def test_always_is_forgotten_when_a_tool_changes(change: dict[str, Any], shown: str) -> None:
    changed = make(**change)
    conversation = Conversation("always", "no", "no", "always")
    assert conversation.call(make())
    assert conversation.call(make()), "a tool that was only listed again is the same"
    assert len(conversation.asked) == 1
    assert not conversation.call(changed)
    assert conversation.asked[1].startswith("it has changed since you always allowed it (its ")
    assert shown in conversation.asked[1]
    assert not conversation.call(make()), "it changed back, and was forgotten all the same"
    assert conversation.asked[2].startswith("it has changed since you always allowed it, and changed back; ")
    assert conversation.call(changed)
    assert conversation.call(changed), "what was always allowed now is the changed tool"
    assert len(conversation.asked) == 4


def test_an_answer_to_one_question_allows_nothing_later() -> None:
    conversation = Conversation("always", True, True)
    assert conversation.call(make())
    for _ in range(2):
        assert conversation.call(make(description="Now it deletes."))
    assert [reason.startswith("it has changed") for reason in conversation.asked] == [False, True, True]


def test_the_order_of_keys_is_no_change() -> None:
    properties = {"key": {"type": "string"}, "note": {"type": "string"}}
    assert describe_tool(make(parameters=MORE)) == describe_tool(
        make(parameters={"properties": properties, "type": "object"})
    )


TEXTS = st.text(st.sampled_from('ab "\\\n\r\x1b\u202e\u2028…'), max_size=400)


@given(TEXTS, TEXTS)
def test_a_difference_is_short_and_on_one_line(before: str, now: str) -> None:
    old, new = describe_tool(make(description=before)), describe_tool(make(description=now))
    text = describe_changes(old, new)
    assert (text == "") == (before == now)
    assert text == escape_line(text)
    assert len(text) < 600
    assert json.loads(new["description"]) == now
