"""Finds lines that stand for omitted text, such as "// ... rest of the code ...": a file is always written whole."""

import re

__all__ = ["find_elision"]

_COMMENT = r"(?://+|#+|/\*+|\*+|<!--|--|;+|%+|\"\"\"|\(|\{/\*)?"
_ELLIPSIS = r"(?:\.{3,}|…)"
_OMITTED_TEXT = (
    r"(?:the\s+)?(?:rest\s+of|remaining|remainder\s+of|existing|other|previous|unchanged|same\s+as|keep)\b"
    r"[\w\s,'/-]{0,60}|[\w\s,'/-]{0,60}\b(?:unchanged|remains?\s+the\s+same|stays?\s+the\s+same|as\s+before|omitted)"
)
_ELISION = re.compile(
    rf"^\s*{_COMMENT}\s*(?:{_ELLIPSIS}\s*(?:{_OMITTED_TEXT})\s*{_ELLIPSIS}?|(?:{_OMITTED_TEXT})\s*{_ELLIPSIS})\s*(?:\*/|-->|\)|\*/\}}|\"\"\")?\s*$",
    re.IGNORECASE,
)
_MAX_LINE_LENGTH = 160


def find_elision(new: str, old: str = "") -> str:
    """The first line of `new` that stands for omitted text and is not in `old`; "" if there is none."""
    known = {line.strip() for line in old.split("\n")}
    lines = (line.strip() for line in new.split("\n") if len(line) <= _MAX_LINE_LENGTH and _ELISION.match(line))
    return next((line for line in lines if line not in known), "")
