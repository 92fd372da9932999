"""What encoding left out or changed, as values that a caller can show, count or reject."""

import msgspec


# The JSON keys are older than the attribute names: `--json` output and saved runs keep them.
class _Note(msgspec.Struct, frozen=True, gc=False, rename={"subject": "what", "reason": "why"}):
    subject: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject} at {self.where}: {self.reason}"


class Loss(_Note, frozen=True, gc=False):
    """`subject` was left out at `where` because the target cannot express it: see `reason`."""


class Repair(_Note, frozen=True, gc=False):
    """`subject` was changed or added at `where` so that the target accepts the request: see `reason`."""
