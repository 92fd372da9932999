"""A conversation with its calls under the names that the present model has for them; what it said itself stays as it was."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from toolglot.losses import Loss
from toolglot.messages import Message

__all__ = ["Faced"]


class Faced(Sequence[Message]):
    """Messages as they are shown: each is looked at once, and stays the same object, so that its encoding can be kept."""

    def __init__(self, messages: Sequence[Message], shown: Callable[[Message, dict[Loss, None]], Message]) -> None:
        self.messages = messages
        self.lost: dict[Loss, None] = {}
        """What could not be said of them."""
        self._shown = shown
        self._known: dict[int, tuple[Message, Message]] = {}

    def _one(self, message: Message) -> Message:
        if message.role != "assistant":
            return message
        found = self._known.get(id(message))
        if found is None:
            found = self._known[id(message)] = (message, self._shown(message, self.lost))
        return found[1]

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, int):
            return self._one(self.messages[index])
        return [self._one(message) for message in self.messages[index]]

    def __iter__(self) -> Iterator[Message]:
        return map(self._one, self.messages)
