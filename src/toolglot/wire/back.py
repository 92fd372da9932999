"""The way back: a reply's calls in the words of the request that was asked, not in those of the wire.

Tool names that the target refused, schemas that were lowered and freeform tools that were sent as functions are undone here.
"""

from typing import Protocol

from msgspec.structs import replace

from toolglot.messages import Reply, ToolCall
from toolglot.schema.lower import Lowered, restore

__all__ = ["restored", "restored_call"]


class Sent(Protocol):
    """What an encoded request knows of its tools."""

    @property
    def names(self) -> dict[str, tuple[str, str]]: ...
    @property
    def lowered(self) -> dict[str, Lowered]: ...
    @property
    def freeform(self) -> frozenset[str]: ...


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
