"""Text that a terminal can show without obeying it. Whoever approves a call must see what it is: nothing may hide in it."""

import re
import unicodedata

__all__ = ["escape_controls", "escape_invisible", "shorten"]

# What a terminal obeys or cannot write: C0 without tab and newline, DEL, C1, turns of the writing direction, halves of pairs.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What draws nothing although Unicode does not call it a format character.
_INVISIBLE = frozenset("\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0\u00ad")
_CONTROL_PICTURES = 0x2400  # ␀ is the picture of NUL, and so on


def escape_controls(text: str) -> str:
    """What a model or a tool said: control characters are shown as pictures, everything else stays."""
    return (
        _CONTROL_CHARACTERS.sub(lambda found: _control_picture(found[0]), text.replace("\r\n", "\n"))
        if _CONTROL_CHARACTERS.search(text)
        else text
    )


def escape_invisible(text: str) -> str:
    """The same, and whatever is invisible or changes the order of what is seen is shown by its number."""
    text = escape_controls(text)
    return text if text.isascii() else "".join(_code_point(one) if _is_hidden(one) else one for one in text)


def shorten(text: str, limit: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(escape_invisible(text[: 8 * limit + 100]).split())
    return line if len(line) <= limit and len(text) <= 8 * limit + 100 else line[: max(0, limit - 1)] + "…"


def _is_hidden(character: str) -> bool:
    if character < "\x80":
        return False
    code = ord(character)
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
    return selector or character in _INVISIBLE or unicodedata.category(character) == "Cf"


def _control_picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == 0x7F else _code_point(character)


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"
