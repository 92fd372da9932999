"""Undo, in a reply's calls, what encoding the request did to its tools.

Renamed tools, lowered schemas, and freeform tools that were sent as functions come back as the caller defined
them.
"""

from msgspec.structs import replace

from toolglot.schema.lowering_result import restore
from toolglot.values.events import BlockReady, Event, ReplyDone, ToolCallReady, ToolCallStarted
from toolglot.values.messages import Reply, ToolCall, ToolsChanged
from toolglot.wire.writer import Encoding


def restore_events(events: list[Event], encoded: Encoding) -> list[Event]:
    """Restore calls in events. Fragments of arguments stay as the model sent them."""
    restored: list[Event] = []
    for event in events:
        match event:
            case ToolCallStarted():
                namespace, name = _original_name(event, encoded)
                freeform = event.freeform or event.name in encoded.freeform
                restored.append(replace(event, name=name, namespace=namespace, freeform=freeform))
            case ToolCallReady():
                restored.append(ToolCallReady(event.index, restore_call(event.call, encoded)))
            case BlockReady(block=ToolsChanged() as change):
                restored.append(BlockReady(event.index, _restore_change(change, encoded)))
            case ReplyDone():
                restored.append(ReplyDone(restore_reply(event.reply, encoded)))
            case _:
                restored.append(event)
    return restored


def restore_reply(reply: Reply, encoded: Encoding) -> Reply:
    """Restore the calls of a reply. Return the same object if nothing changes."""
    blocks = list(reply.blocks)
    for index, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            blocks[index] = restore_call(block, encoded)
        elif isinstance(block, ToolsChanged):
            blocks[index] = _restore_change(block, encoded)
    restored = tuple(blocks)
    return reply if restored == reply.blocks else replace(reply, blocks=restored)


def restore_call(call: ToolCall, encoded: Encoding) -> ToolCall:
    """Restore one call."""
    namespace, name = _original_name(call, encoded)
    arguments = call.arguments
    if call.name in encoded.freeform and arguments:  # the wire's name: the map is from the wire
        text = arguments.get("input")
        if isinstance(text, str):
            return replace(call, name=name, namespace=namespace, arguments=None, raw=text, freeform=True)
    lowered = encoded.lowerings.get(call.name)
    if arguments is not None and lowered is not None:
        arguments = restore(arguments, lowered)
    if (name, namespace, arguments) == (call.name, call.namespace, call.arguments):
        return call
    return replace(call, name=name, namespace=namespace, arguments=arguments)


def _restore_change(change: ToolsChanged, encoded: Encoding) -> ToolsChanged:
    """Restore the names of tools that a search of the provider found."""
    originals = (encoded.names.get(name, ("", name)) for name in change.loaded)
    return replace(change, loaded=tuple(".".join(filter(None, original)) for original in originals))


def _original_name(call: ToolCall | ToolCallStarted, encoded: Encoding) -> tuple[str, str]:
    # A tool that was loaded by a search has its own name as its namespace, which may also be its real one.
    namespace = call.namespace or (call.opaque or {}).get("namespace")
    if namespace and (original := encoded.names.get(f"{namespace}.{call.name}")):
        return original
    wire_name = f"{call.namespace}.{call.name}" if call.namespace else call.name
    return encoded.names.get(wire_name, (call.namespace, call.name))
