"""Calls whose answers come from elsewhere: from a browser, a job, another program, a person."""

from collections.abc import Sequence
from typing import Any, cast

from toolglot.common.jsontext import to_plain
from toolglot.common.textutil import truncate
from toolglot.errors import ToolError, UsageError
from toolglot.schema.arguments import find_issues
from toolglot.tools.caller import Caller
from toolglot.tools.context import CallSuspended
from toolglot.tools.tool import Tool
from toolglot.values.approvals import (
    Answer,
    ApprovalRequest,
    Expired,
    Suspended,
    SuspensionRecord,
    WaitingRecord,
)
from toolglot.values.messages import Media, Text

__all__ = ["WaitsElsewhere", "check_answer", "check_can_wait", "missing_tool_error", "take_answer"]


class WaitsElsewhere(CallSuspended):
    """A call whose answer comes from elsewhere."""

    def __init__(self, suspended: Suspended) -> None:
        super().__init__(suspended)
        self.blocks_later = suspended.blocks_later

    def save(self) -> Any:
        return {}

    @classmethod
    def reopen(cls, request: ApprovalRequest, record: SuspensionRecord) -> "WaitsElsewhere":
        """Return the call again after `save`. `request`: what is shown of it."""
        saved = record.waiting[0]
        suspended = Suspended(
            request,
            (request.id,),
            "external",
            record.has_started,
            record.blocks_later,
            saved.schema,
            saved.key,
            saved.expires,
        )
        return cls(suspended)


def check_answer(answer: Answer, record: WaitingRecord, name: str) -> None:
    """Raise UsageError for an answer that the call cannot take: it goes on waiting.

    What comes from elsewhere is data: it cannot claim to be anything else than content.
    """
    if answer.error:
        return
    value: Any = answer.value
    items = cast(Sequence[Any], value if isinstance(value, list | tuple) else [value])
    if any(isinstance(item, Text | Media) for item in items):
        others = [item for item in items if not isinstance(item, str | Text | Media)]
        if others:
            raise UsageError(f"the answer to {name} mixes content with {type(others[0]).__name__}")
        if record.schema is None:
            return
        raise UsageError(f"the answer to {name} is content, but its schema asks for data")
    try:
        value = to_plain(value, allow_nan=True)
    except ValueError as e:
        raise UsageError(f"the answer to {name} must be JSON, text, or content such as Media: {e}") from None
    if issues := find_issues(value, record.schema):
        reasons = truncate("; ".join(map(str, issues)), 500)
        raise UsageError(f"the answer to {name} does not fit its schema: {reasons}")


def missing_tool_error(name: str) -> UsageError:
    """Return the error for a call of a saved run whose tool was not passed again."""
    return UsageError(
        f"the run is waiting to call {name}, which is not among the agent's tools: pass tools=[…]"
    )


def check_can_wait(caller: Caller, tool: Tool) -> None:
    """Raise ToolError where nothing waits for answers from elsewhere: only an agent's runs do."""
    if not caller.can_wait:
        message = f"The answer to {tool.name} comes from elsewhere, and nobody waits for it here."
        raise ToolError(message, kind="not_allowed", code="cannot_wait")


def take_answer(answer: Answer | Expired) -> Any:
    """Return the value of an answer. Raises ToolError, written for the model, if there is none."""
    if isinstance(answer, Expired):
        raise ToolError("The call was not answered in time.", kind="timeout", code="no_answer")
    if answer.error:
        raise ToolError(answer.error, code="answered_with_error")
    return answer.value
