"""Format a tool call, what was lost, why a run stopped or failed, on one line for a user who is watching.

Approvals show every argument instead.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any

from toolglot.common.jsontext import dumps_text
from toolglot.common.textutil import pluralize
from toolglot.engine.engine import Engine
from toolglot.engine.model_list import complete_hint
from toolglot.errors import STOP_REASONS, ContextTooLong, NotFound, ServerFailed, ToolglotError
from toolglot.facades.catalog import BASE_TOOLS
from toolglot.facades.equivalence import HARNESS_PARAMETERS
from toolglot.tools.tool import Tool
from toolglot.values.definitions import BUILTIN_TAG
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    InnerEvent,
    Notice,
    RunDone,
    RunStop,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.losses import Loss
from toolglot.values.messages import ToolCall

_LEADING = ("command", "argv", "pattern", "path", "text")
_MAX_LISTED = 3
_TOOL_NAME = re.compile(r"tool '([^']*)' at ")
_MOVED = "moved into the description"  # nothing is lost for the model, only for the provider's own checks
_STOP_SETTINGS = {
    "length": "generation.max_tokens",
    "max_iterations": "limits.max_iterations",
    "budget": "limits.max_total_tokens, limits.max_cost",
    "timeout": "limits.run_timeout",
}


async def describe_error(error: ToolglotError, engine: Engine, tools: Iterable[Tool]) -> str:
    """Return the message of an error of the command line or an editor, with what to do there."""
    if isinstance(error, NotFound):
        await complete_hint(error, engine)
    if any(BUILTIN_TAG in tool.tags for tool in tools):
        if isinstance(error, ContextTooLong):
            error.hint = "shorten the conversation, or leave out the built-in tools with --no-builtin"
        if isinstance(error, ServerFailed):
            error.hint = error.hint.replace("try it without them", "try --no-builtin")
    return str(error)


_WAITING = (
    "stopped: a call waits for an answer from elsewhere, which a program can pass with resume; a new prompt "
    "gives the call up"
)


def describe_stop(stop: RunStop) -> str:
    """Say why a run stopped early, and which setting decides that."""
    if stop == "waiting":
        return _WAITING
    reason, setting = STOP_REASONS.get(stop), _STOP_SETTINGS.get(stop)
    text = f"stopped early ({stop})"
    if reason is not None:
        text += f": {reason}"
    return f"{text} ({setting})" if setting is not None else text


def describe_inner_event(event: InnerEvent) -> str:
    """Return in one line what a sub-agent does; "" for an event that is no news for a person."""
    inner = event.event
    match inner:
        case ToolStarted(call):
            text = f"{call.name} {format_arguments(call)}".strip()
        case ToolProgress(call, progress):
            text = f"{call.name}: {progress}"
        case ApprovalNeeded():
            text = "waits for approval"
        case AnswerNeeded():
            text = "waits for an answer"
        case Notice():
            text = inner.text
        case RunDone(result):
            tokens = result.usage.input + result.usage.output
            text = f"{pluralize(result.iterations, 'request')}, {tokens:,} tokens"
        case _:
            return ""
    return "| " * (len(event.path) - 1) + text


def describe_losses(
    losses: Iterable[Loss], *, every_keyword: bool = False, own_tools: Collection[str] = ()
) -> list[str]:
    """Return a line for each loss; many with the same reason have one line together.

    `every_keyword`: those of schemas, too, that were moved into descriptions, each with its place. `own_tools`:
    names of tools that the user has not written, so how they were adapted to the model is no news.
    """
    groups: dict[tuple[str, ...], list[Loss]] = {}
    for loss in losses:
        if _is_adapted(loss, own_tools):
            continue
        if loss.reason.endswith(_MOVED) and not every_keyword:
            key = ("keywords", loss.reason)
        elif loss.subject.startswith("tool '"):
            key = ("tools", loss.where, loss.reason)
        else:
            key = (
                (loss.where, loss.subject, loss.reason) if every_keyword else ("", loss.subject, loss.reason)
            )
        groups.setdefault(key, []).append(loss)
    return [f"lost: {line}" for (kind, *_), group in groups.items() for line in _describe_group(kind, group)]


def _is_adapted(loss: Loss, own_tools: Collection[str]) -> bool:
    """Whether a loss is one of our tools' schemas or past calls, in the form that a model has for them."""
    if loss.where == "tools":  # the model does not get it at all
        return False
    names = (loss.where, *_TOOL_NAME.findall(f"{loss.subject} at {loss.where}"))
    return any(name in own_tools for name in names)


def _describe_group(kind: str, group: list[Loss]) -> Iterable[str]:
    first = group[0]
    if kind == "" and len(group) > 1:
        return [f"{first.subject} ({len(group)} times): {first.reason}"]
    if kind == "" and first.where.startswith("messages["):  # its number says nothing to people
        return [f"{first.subject}: {first.reason}"]
    if len(group) <= _MAX_LISTED or kind not in ("keywords", "tools"):
        return map(str, group)
    if kind == "keywords":
        names = ", ".join(f"{loss.subject} at {loss.where}" for loss in group[:_MAX_LISTED])
        return [f"{len(group)} keywords of schemas ({names}, …): {first.reason}"]
    names = ", ".join(loss.subject.removeprefix("tool ") for loss in group[:_MAX_LISTED])
    return [f"{len(group)} tools ({names}, …) at {first.where}: {first.reason}"]


def format_arguments(call: ToolCall) -> str:
    """Format arguments as `city: "Paris", units: "celsius"`.

    For built-in tools the important ones come first, and those that a facade merely fills in are omitted.
    """
    arguments = call.arguments
    if not arguments:
        has_text = call.freeform or arguments is None
        return (call.raw or "") if has_text else ""
    if call.name in BASE_TOOLS:
        arguments = _arrange(arguments)
    return ", ".join(f"{name}: {dumps_text(value)}" for name, value in arguments.items())


def _arrange(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a built-in tool in the order of their importance, without those that say
    nothing.
    """
    leading = {name: arguments[name] for name in _LEADING if name in arguments}
    relevant = {name: value for name, value in arguments.items() if name not in HARNESS_PARAMETERS}
    if relevant.get("cwd") == ".":
        del relevant["cwd"]
    return leading | relevant
