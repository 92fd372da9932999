"""Shared code for other frameworks' tools that run as ours."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from toolglot.common.jsontext import digest
from toolglot.errors import ToolError
from toolglot.tools.context import CallSuspended, Context
from toolglot.tools.tool import Tool, tool_from_schema
from toolglot.values.approvals import Allow, ApprovalRequest, Deny

__all__ = ["ask_user", "make_tool"]


def make_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any],
    options: Mapping[str, Any],
    own_options: Mapping[str, Any] | None = None,
) -> Tool:
    """Create a tool. `options` are the caller's, `own_options` the framework's; None and False mean unset."""
    known = {key: value for key, value in (own_options or {}).items() if value}
    return cast(Any, tool_from_schema)(name, description, dict(parameters), function, **{**known, **options})


async def ask_user(context: Context[Any], arguments: dict[str, Any], reason: str) -> None:
    """Ask for a decision that the tool itself requires; if it is deferred, the tool is called again.

    Raises ToolError on no.
    """
    if context.approved:
        return
    inner = context.inner_tools
    request = ApprovalRequest(
        context.call, context.call.name, frozenset(), "", arguments, reason=reason, each_time=True
    )
    request = replace(request, fingerprint=digest(request))
    answer: Allow | Deny | None = None
    if inner is not None:
        if (ruling := inner.rulings.get(())) is not None and isinstance(ruling.answer, Allow | Deny):
            answer = ruling.answer
        elif inner.can_ask:
            answer = await inner.ask(request)
    if answer is None:
        raise CallSuspended(request)
    if isinstance(answer, Deny):
        reason = f" Reason: {answer.reason}" if answer.reason else ""
        raise ToolError(f"The user did not approve the call.{reason}", kind="rejected", code="not_approved")
