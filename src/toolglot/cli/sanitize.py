"""Make untrusted text safe to print on a terminal, so that nothing can hide in a call that a user approves."""

import re
import unicodedata

__all__ = ["escape_controls", "escape_invisible", "shorten"]

# Characters that a terminal interprets or cannot encode: C0 except tab and newline, DEL, C1, bidi controls, surrogates.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Characters that render as nothing although Unicode does not classify them as format characters (Cf).
_INVISIBLE = frozenset("\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0\u00ad")
_CONTROL_PICTURES = 0x2400  # U+2400 is the picture of NUL, U+2401 of SOH, and so on


def escape_controls(text: str) -> str:
    """Replace control characters with visible symbols; use it for output of models and tools."""
    if not _CONTROL_CHARACTERS.search(text):
        return text
    return _CONTROL_CHARACTERS.sub(lambda match: _control_picture(match[0]), text.replace("\r\n", "\n"))


def escape_invisible(text: str) -> str:
    """Replace control, invisible and reordering characters; use it wherever a user makes a decision."""
    text = escape_controls(text)
    if text.isascii():
        return text
    return "".join(_code_point(character) if _is_hidden(character) else character for character in text)


def shorten(text: str, limit: int) -> str:
    """Return the text on one line with at most `limit` characters."""
    window = 8 * limit + 100  # escaping a huge text only to drop most of it would be slow
    line = " ".join(escape_invisible(text[:window]).split())
    return line if len(line) <= limit and len(text) <= window else line[: max(0, limit - 1)] + "…"


def _is_hidden(character: str) -> bool:
    if character < "\x80":
        return False
    code = ord(character)
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
    return is_selector or character in _INVISIBLE or unicodedata.category(character) == "Cf"


def _control_picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == 0x7F else _code_point(character)


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"
