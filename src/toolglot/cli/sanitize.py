"""Make untrusted text safe to print on a terminal, so that nothing can hide in a call that a user approves."""

import re
import unicodedata

# Characters that a terminal interprets or cannot encode: C0 except tab and newline, DEL, C1, bidi controls, surrogates.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Characters that render as nothing although Unicode does not classify them as format characters (Cf).
_INVISIBLE = frozenset("\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0\u00ad")
# The "control pictures" of Unicode: U+2400 is the symbol for NUL, U+2401 for SOH, and so on.
_SYMBOLS = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "␡"}


def escape_controls(text: str) -> str:
    """Replace control characters with visible symbols; use it for output of models and tools."""
    if not _CONTROL_CHARACTERS.search(text):
        return text
    return _CONTROL_CHARACTERS.sub(lambda match: _SYMBOLS.get(match[0]) or _code_point(match[0]), text.replace("\r\n", "\n"))


def escape_invisible(text: str) -> str:
    """Replace control, invisible and reordering characters; use it wherever a user makes a decision."""
    text = escape_controls(text)
    if text.isascii():
        return text
    escaped: list[str] = []
    for character in text:
        code = ord(character)
        is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
        is_hidden = is_selector or character in _INVISIBLE or (code > 0x7F and unicodedata.category(character) == "Cf")
        escaped.append(_code_point(character) if is_hidden else character)
    return "".join(escaped)


def shorten(text: str, limit: int) -> str:
    """Return the text on one line with at most `limit` characters."""
    window = 8 * limit + 100  # escaping a huge text only to drop most of it would be slow
    line = " ".join(escape_invisible(text[:window]).split())
    return line if len(line) <= limit and len(text) <= window else line[: max(0, limit - 1)] + "…"


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"
