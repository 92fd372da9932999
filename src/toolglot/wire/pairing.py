"""Which call each result of a history answers.

Both are named by position, because ids may be missing, repeated or mangled.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from toolglot.values.messages import Message, ToolCall, ToolResult

Position = tuple[int, int]
"""A message of the history, and a block of the message."""


def iter_calls(messages: Iterable[Message]) -> Iterator[tuple[Position, ToolCall]]:
    """Iterate over the calls. Only the assistant makes any."""
    for index, message in enumerate(messages):
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolCall) and message.role == "assistant":
                yield (index, number), block


def iter_results(messages: Iterable[Message]) -> Iterator[tuple[Position, ToolResult]]:
    """Iterate over the results."""
    for index, message in enumerate(messages):
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolResult):
                yield (index, number), block


def match_results(messages: Sequence[Message]) -> dict[Position, Position]:
    """Return the call that each result answers. A result that is left out belongs to no call."""
    mentions: dict[str, list[tuple[Position, bool]]] = {}  # id -> its calls (True) and results
    for position, call in iter_calls(messages):
        mentions.setdefault(call.id, []).append((position, True))
    for position, result in iter_results(messages):
        if result.call_id in mentions:
            mentions[result.call_id].append((position, False))
    owners: dict[Position, Position] = {}
    for positions in mentions.values():
        owners.update(_match_one_id(sorted(positions)))
    return owners


def _match_one_id(mentions: Iterable[tuple[Position, bool]]) -> Iterator[tuple[Position, Position]]:
    """Match the results of one id, which may have several calls, in the order of the history."""
    early: list[Position] = []  # results before any call
    waiting: list[Position] = []  # calls without a result
    latest: Position | None = None  # the last call that was answered
    for is_call, group in groupby(mentions, key=lambda mention: mention[1]):
        positions = [position for position, _ in group]
        if is_call:
            waiting += positions
        elif not waiting and latest is None:
            early = positions
        else:
            start = _find_first_answered(waiting, len(positions))
            answered = waiting[start : start + len(positions)]
            del waiting[start : start + len(positions)]
            latest = answered[-1] if answered else latest
            assert latest is not None
            extra = len(positions) - len(answered)  # further results of the last call
            yield from zip(positions, [*answered, *[latest] * extra], strict=True)
    yield from zip(early, waiting, strict=False)


def _find_first_answered(waiting: Sequence[Position], count: int) -> int:
    """Return the index of the first call that `count` results answer, of calls with one id."""
    # Fewer results than calls: an earlier message was cut off, and the id was used again. Within a message
    # they come in order.
    first = len(waiting)
    while first > 0 and len(waiting) - first < count:
        first -= 1
        while first > 0 and waiting[first - 1][0] == waiting[first][0]:
            first -= 1
    return first


def match_mangled(messages: Sequence[Message], owners: dict[Position, Position]) -> dict[Position, Position]:
    """Return the calls of results whose ids a client mangled, by result.

    After a message, there are as many results that belong to no call as the message has calls without a
    result.
    """
    answered = {*owners.values()}
    found: dict[Position, Position] = {}
    for index, (message, following) in enumerate(pairwise(messages)):
        missing = [
            (index, number) for (_, number), _ in iter_calls((message,)) if (index, number) not in answered
        ]
        unknown = [
            (index + 1, number)
            for (_, number), _ in iter_results((following,))
            if (index + 1, number) not in owners
        ]
        if len(missing) == len(unknown):
            found.update(zip(unknown, missing, strict=True))
    return found
