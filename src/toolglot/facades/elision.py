"""Finds lines that stand for omitted text, such as "// ... rest of the code ...": a file is always written
whole.
"""

import re

__all__ = ["find_elision"]

# As Gemini CLI decides: a phrase, then an ellipsis, bare or in brackets or a comment. A line such as "# ...
# rest of code ..." is accepted: real files have comments like that.
_PHRASE = r"(?:rest\s+of(?:\s+(?:code|methods?))?|unchanged\s+(?:code|methods?))"
_ELISION = re.compile(
    rf"^\s*(?://|#|--|;)?\s*(?:/\*|<!--|\(|\[)?\s*{_PHRASE}\s*(?:\.{{3,}}|…)\s*(?:\*/|-->|\)|\])?\s*$",
    re.IGNORECASE,
)
_MAX_LINE_LENGTH = 160


def find_elision(new: str, old: str = "") -> str:
    """Return the first line of `new` that stands for omitted text and is not in `old`; "" if there is none."""
    known_lines = {line.strip() for line in old.split("\n")}
    for line in new.split("\n"):
        stands_for_more = len(line) <= _MAX_LINE_LENGTH and _ELISION.match(line)
        if stands_for_more and line.strip() not in known_lines:
            return line.strip()
    return ""
