"""Lines that stand for text which was left out: whoever writes a file means all of it."""

import re

__all__ = ["placeholder"]

_COMMENT = r"(?://+|#+|/\*+|\*+|<!--|--|;+|%+|\"\"\"|\(|\{/\*)?"
_DOTS = r"(?:\.{3,}|…)"
_REST = (
    r"(?:the\s+)?(?:rest\s+of|remaining|remainder\s+of|existing|other|previous|unchanged|same\s+as|keep)\b"
    r"[\w\s,'/-]{0,60}|[\w\s,'/-]{0,60}\b(?:unchanged|remains?\s+the\s+same|stays?\s+the\s+same|as\s+before|omitted)"
)
_PLACEHOLDER = re.compile(
    rf"^\s*{_COMMENT}\s*(?:{_DOTS}\s*(?:{_REST})\s*{_DOTS}?|(?:{_REST})\s*{_DOTS})\s*(?:\*/|-->|\)|\*/\}}|\"\"\")?\s*$",
    re.IGNORECASE,
)
_LONGEST = 160


def placeholder(new: str, old: str = "") -> str:
    """A line such as "// ... rest of the code ..." that stands for code left out, where `old` has it not; "" without."""
    known = {line.strip() for line in old.split("\n")}
    lines = (line for line in new.split("\n") if len(line) <= _LONGEST and _PLACEHOLDER.match(line))
    return next((line.strip() for line in lines if line.strip() not in known), "")
