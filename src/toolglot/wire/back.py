"""The way back: a reply's calls in the words of the request that was asked, not in those of the wire.

Tool names that the target refused, schemas that were lowered and freeform tools that were sent as functions are undone here.
"""

from typing import Protocol

from msgspec.structs import replace

from toolglot.events import Event, ReplyDone, ToolCallReady, ToolCallStarted
from toolglot.messages import Reply, ToolCall
from toolglot.schema.lower import Lowered, restore

__all__ = ["changes_calls", "restored", "restored_call", "restored_events"]


class Sent(Protocol):
    """What an encoded request knows of its tools."""

    @property
    def names(self) -> dict[str, tuple[str, str]]: ...
    @property
    def lowered(self) -> dict[str, Lowered]: ...
    @property
    def freeform(self) -> frozenset[str]: ...


def changes_calls(sent: Sent) -> bool:
    """Whether a call may look different on the wire: most requests need no way back."""
    return (
        bool(sent.freeform)
        or any(lowered.ways_back for lowered in sent.lowered.values())
        or any(wire != name for wire, (_, name) in sent.names.items())
    )


def restored_events(events: list[Event], sent: Sent) -> list[Event]:
    """Events, with calls as the tools were defined. Fragments of arguments stay as the model said them."""
    return [_restored_event(event, sent) for event in events]


def _restored_event(event: Event, sent: Sent) -> Event:
    match event:
        case ToolCallStarted():
            wire = f"{event.namespace}.{event.name}" if event.namespace else event.name
            namespace, name = sent.names.get(wire, (event.namespace, event.name))
            return replace(event, name=name, namespace=namespace, freeform=event.freeform or event.name in sent.freeform)
        case ToolCallReady():
            return ToolCallReady(event.index, restored_call(event.call, sent))
        case ReplyDone():
            return ReplyDone(restored(event.reply, sent))
        case _:
            return event


def restored(reply: Reply, sent: Sent) -> Reply:
    """The reply, with its calls as the tools were defined. What was not changed stays the same object."""
    blocks = tuple(restored_call(block, sent) if isinstance(block, ToolCall) else block for block in reply.blocks)
    return reply if blocks == reply.blocks else replace(reply, blocks=blocks)


def restored_call(call: ToolCall, sent: Sent) -> ToolCall:
    """One call as its tool was defined."""
    wire = f"{call.namespace}.{call.name}" if call.namespace else call.name
    namespace, name = sent.names.get(wire, (call.namespace, call.name))
    if call.name in sent.freeform and call.arguments and isinstance(text := call.arguments.get("input"), str):
        return replace(call, name=name, namespace=namespace, arguments=None, raw=text, freeform=True)
    lowered = sent.lowered.get(call.name)
    arguments = call.arguments
    if lowered is not None and arguments is not None:
        arguments = restore(arguments, lowered)
    if (name, namespace, arguments) == (call.name, call.namespace, call.arguments):
        return call
    return replace(call, name=name, namespace=namespace, arguments=arguments)
