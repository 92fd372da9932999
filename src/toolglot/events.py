"""What a caller sees while a reply streams.

`index` is the place of the block in the reply. Every block ends with `ToolCallReady` (a call) or `BlockReady` (anything else);
the last event is `ReplyDone`.
"""

import msgspec

from toolglot.messages import Foreign, Media, Opaque, Reply, Text, Thinking, ToolCall

__all__ = [
    "BlockReady",
    "BlockStarted",
    "Event",
    "ReplyDone",
    "ReplyStarted",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
]


class _Event(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    pass


class ReplyStarted(_Event, frozen=True, gc=False):
    """The provider began to answer."""

    id: str
    model: str


class BlockStarted(_Event, frozen=True):
    """State of a text or a thought that is known before its first piece; `block` has no text yet."""

    index: int
    block: Text | Thinking


class TextDelta(_Event, frozen=True, gc=False):
    """More visible text."""

    index: int
    text: str


class ThinkingDelta(_Event, frozen=True, gc=False):
    """More reasoning."""

    index: int
    text: str


class ToolCallStarted(_Event, frozen=True):
    """A call began: its name is known. `freeform`: its input is plain text, not JSON."""

    index: int
    id: str
    name: str
    freeform: bool = False
    namespace: str = ""
    opaque: Opaque | None = None


class ToolCallDelta(_Event, frozen=True, gc=False):
    """More of the arguments' text."""

    index: int
    text: str


class ToolCallReady(_Event, frozen=True):
    """A call is whole."""

    index: int
    call: ToolCall


class BlockReady(_Event, frozen=True):
    """Any other block is whole."""

    index: int
    block: Text | Thinking | Media | Foreign


class ReplyDone(_Event, frozen=True):
    """The reply is whole."""

    reply: Reply


Event = (
    ReplyStarted
    | BlockStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | BlockReady
    | ReplyDone
)
