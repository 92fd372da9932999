"""What the wires' `request_decode` modules share."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from toolglot.values.messages import Message, Role, ToolCall
from toolglot.values.request import ToolDefinition
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text
from toolglot.wire.spec import SPECS

# Claude Code's ToolSearch, and the names that others give to such a tool.
_SEARCH_NAME = re.compile(r"(?i)tool_?search|search_?tools?|find_?tools?")


class OpenCalls:
    """The calls of a history that wait for a result, while the history is read.

    Ids may be missing, and come again.
    """

    def __init__(self) -> None:
        self._groups: list[list[ToolCall]] = []  # of assistant messages in a row
        self._is_adjacent = False

    def add(self, message: Message) -> None:
        """Read a message that has no results."""
        if message.role != "assistant":
            self._is_adjacent = False
            return
        if not self._is_adjacent:
            self._groups.append([])
            self._is_adjacent = True
        self._groups[-1] += message.calls

    def take(self, id: str, name: str) -> ToolCall | None:
        """Return the call that a result answers: by its id, else by its name; "" for what a result does not
        say.
        """
        # An earlier call without a result was cut off: its name, or its id, may have come again since.
        self._is_adjacent = False
        for calls in reversed(self._groups):
            for index, call in enumerate(calls):
                if call.id == id if id else name in ("", call.name):
                    return calls.pop(index)
        return None


def wrap_extras(fields: Doc, wire: str) -> dict[str, Doc]:
    """Return the fields of a body without a neutral form as the extras of a request."""
    return {wire: fields} if fields else {}


def is_search_name(name: str) -> bool:
    """Return whether a function is named like one that finds tools: no wire says it of a function."""
    return _SEARCH_NAME.fullmatch(name) is not None


def join_messages(messages: Iterable[Message], *roles: Role) -> Iterator[Message]:
    """Join neighbouring messages of these roles, for wires on which each result is a message of its own."""
    for role, group in groupby(messages, key=lambda message: message.role):
        if role in roles:
            first, *others = group
            blocks = (block for message in (first, *others) for block in message.blocks)
            yield Message(role, tuple(blocks), first.origin, first.opaque)
        else:
            yield from group


def decode_options(doc: Doc, wire: str) -> Doc:
    """Decode the generation options that the wire has under names of its own."""
    options: Doc = {
        name: doc[field] for name, field in SPECS[wire].options.items() if doc.get(field) is not None
    }
    stop = options.get("stop")
    if isinstance(stop, str):
        options["stop"] = (stop,)
    elif stop is not None:
        options["stop"] = tuple(stop)
    return options


def define_tool(
    fields: Doc, wire: str, opaque: Doc | None, *, schema_key: str = "parameters", **more: Any
) -> ToolDefinition:
    """Define a tool by the fields that wires agree on.

    `opaque` are the others, which only this wire understands.
    """
    name = as_text(fields.get("name"))
    description = as_text(fields.get("description"))
    callers: list[str] = []
    for caller in as_list(fields.get("allowed_callers")):
        # OpenAI: direct, programmatic. Anthropic: direct, or the type of its code execution (openai 3.49,
        # anthropic 2.8).
        callers.append("model" if caller == "direct" else "code")
    more["callers"] = tuple(dict.fromkeys(callers))
    more["output_schema"] = as_dict(fields.get("output_schema")) or None
    return ToolDefinition(name, description, fields.get(schema_key), wire=wire, opaque=opaque, **more)
