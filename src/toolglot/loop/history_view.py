"""A conversation with its calls under the names that the present model has for them; what it said itself stays as it was."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from toolglot.losses import Loss
from toolglot.messages import Message

__all__ = ["RenderedHistory"]


class RenderedHistory(Sequence[Message]):
    """Messages as they are shown: each is looked at once, and stays the same object, so that its encoding can be kept."""

    def __init__(self, messages: Sequence[Message], render: Callable[[Message, dict[Loss, None]], Message]) -> None:
        self.messages = messages
        self.losses: dict[Loss, None] = {}
        """What could not be said of them."""
        self._render = render
        self._rendered: dict[int, tuple[Message, Message]] = {}

    def _render_once(self, message: Message) -> Message:
        if message.role != "assistant":
            return message
        found = self._rendered.get(id(message))
        if found is None:
            found = self._rendered[id(message)] = (message, self._render(message, self.losses))
        return found[1]

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
