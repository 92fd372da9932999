"""What a wire could not say, and what was mended on the way: values that a caller can show, count or refuse."""

import msgspec

__all__ = ["Loss", "Repair"]


class _Note(msgspec.Struct, frozen=True, gc=False):
    what: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} at {self.where}: {self.why}"


class Loss(_Note, frozen=True, gc=False):
    """Something the target cannot be told: `what` was left out at `where`, because `why`."""


class Repair(_Note, frozen=True, gc=False):
    """Something changed or made up so that the target accepts the request."""
