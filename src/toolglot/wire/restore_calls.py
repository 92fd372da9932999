"""The way back: a reply's calls in the words of the request that was asked, not in those of the wire.

Tool names that the target refused, schemas that were lowered and freeform tools that were sent as functions are undone here.
"""

from typing import Protocol

from msgspec.structs import replace

from toolglot.events import Event, ReplyDone, ToolCallReady, ToolCallStarted
from toolglot.messages import Reply, ToolCall
from toolglot.schema.lowering_result import LoweredSchema, restore

__all__ = ["needs_restoring", "restore_call", "restore_events", "restore_reply"]


class EncodedTools(Protocol):
    """What an encoded request knows of its tools."""

    @property
    def names(self) -> dict[str, tuple[str, str]]: ...
    @property
    def lowerings(self) -> dict[str, LoweredSchema]: ...
    @property
    def freeform(self) -> frozenset[str]: ...


def needs_restoring(encoded: EncodedTools) -> bool:
    """Whether a call may look different on the wire: most requests need no way back."""
    return (
        bool(encoded.freeform)
        or any(lowered.restorations for lowered in encoded.lowerings.values())
        or any(wire != name for wire, (_, name) in encoded.names.items())
    )


def restore_events(events: list[Event], encoded: EncodedTools) -> list[Event]:
    """Events, with calls as the tools were defined. Fragments of arguments stay as the model said them."""
    return [_restore_event(event, encoded) for event in events]


def _restore_event(event: Event, encoded: EncodedTools) -> Event:
    match event:
        case ToolCallStarted():
            wire = f"{event.namespace}.{event.name}" if event.namespace else event.name
            namespace, name = encoded.names.get(wire, (event.namespace, event.name))
            return replace(event, name=name, namespace=namespace, freeform=event.freeform or event.name in encoded.freeform)
        case ToolCallReady():
            return ToolCallReady(event.index, restore_call(event.call, encoded))
        case ReplyDone():
            return ReplyDone(restore_reply(event.reply, encoded))
        case _:
            return event


def restore_reply(reply: Reply, encoded: EncodedTools) -> Reply:
    """The reply, with its calls as the tools were defined. What was not changed stays the same object."""
    blocks = tuple(restore_call(block, encoded) if isinstance(block, ToolCall) else block for block in reply.blocks)
    return reply if blocks == reply.blocks else replace(reply, blocks=blocks)


def restore_call(call: ToolCall, encoded: EncodedTools) -> ToolCall:
    """One call as its tool was defined."""
    wire = f"{call.namespace}.{call.name}" if call.namespace else call.name
    namespace, name = encoded.names.get(wire, (call.namespace, call.name))
    if call.name in encoded.freeform and call.arguments and isinstance(text := call.arguments.get("input"), str):
        return replace(call, name=name, namespace=namespace, arguments=None, raw=text, freeform=True)
    lowered = encoded.lowerings.get(call.name)
    arguments = call.arguments
    if lowered is not None and arguments is not None:
        arguments = restore(arguments, lowered)
    if (name, namespace, arguments) == (call.name, call.namespace, call.arguments):
        return call
    return replace(call, name=name, namespace=namespace, arguments=arguments)
