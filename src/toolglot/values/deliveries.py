"""Messages passed to a run in progress, each with what has become of it."""

from typing import Any, Literal, cast
from weakref import ref

import msgspec

from toolglot.values.messages import Message

__all__ = ["Delivery", "DeliveryState", "DeliveryTime"]

DeliveryTime = Literal["soon", "idle"]
"""When a message reaches the model: with the next request, or when the run would end."""
DeliveryState = Literal["queued", "delivered", "refused", "withdrawn"]


class Delivery(msgspec.Struct, dict=True, eq=False, omit_defaults=True):
    """A message for a run in progress, as `Agent.deliver` returns it.

    It is live: `state` changes when the run takes the message, or ends without it.
    """

    id: str
    """The id that was passed, or a new one."""
    message: Message
    """The message; empty for decisions and answers."""
    when: DeliveryTime = "soon"
    """When it is to reach the model."""
    state: DeliveryState = "queued"
    """queued: the run will take it · delivered: it is in the conversation · refused: it never will be, see
    `reason` · withdrawn: the caller has taken it back."""
    reason: str = ""
    """Why it was refused; of several decisions and answers that were delivered together, why one of them was."""
    index: int | None = None
    """Its position in the conversation, once it is delivered."""

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        content = f" of {self.message.text!r:.60}" if self.message.blocks else ""
        return f"<Delivery {self.id}{content}, {self.state}{reason}>"

    def withdraw(self) -> bool:
        """Take the message back, for example to edit it; return whether it was still queued.

        Can be called from any thread.
        """
        # Not a field, as it is never saved or shown; weak, so that no cycle keeps a conversation alive.
        inbox: Any = self.__dict__.get("inbox", _gone)()
        return inbox is not None and inbox.withdraw(self)

    def attach(self, inbox: object) -> None:
        """Remember where the message is queued."""
        cast(dict[str, Any], self.__dict__)["inbox"] = ref(inbox)


def _gone() -> None:
    return None
