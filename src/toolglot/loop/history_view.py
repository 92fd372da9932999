"""A conversation as another model reads it.

Each message is rendered once and stays the same object, so that its encoding can be kept.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from toolglot.losses import Loss
from toolglot.messages import Message

__all__ = ["RenderedHistory"]


class RenderedHistory(Sequence[Message]):
    """Messages with their calls rendered by a facade; `losses` collects what the facade could not express."""

    def __init__(self, messages: Sequence[Message], render: Callable[[Message, dict[Loss, None]], Message]) -> None:
        self.messages = messages
        self.losses: dict[Loss, None] = {}
        self._render = render
        self._rendered: dict[int, tuple[Message, Message]] = {}  # by id; the original is kept so that its id stays its own

    def _render_once(self, message: Message) -> Message:
        if message.role != "assistant":
            return message
        pair = self._rendered.get(id(message))
        if pair is None:
            pair = self._rendered[id(message)] = (message, self._render(message, self.losses))
        return pair[1]

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, int):
            return self._render_once(self.messages[index])
        return [self._render_once(message) for message in self.messages[index]]

    def __iter__(self) -> Iterator[Message]:
        return map(self._render_once, self.messages)
