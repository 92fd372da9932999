"""Make untrusted text safe to print on a terminal, so that nothing can hide in a call that a user approves."""

import re
import unicodedata
from functools import cache

# Characters that a terminal interprets or cannot encode: C0 except tab and newline, DEL, C1, bidi controls,
# surrogates.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Characters that render as nothing although Unicode does not classify them as format characters (Cf).
_INVISIBLE = frozenset(
    "\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\u00ad\U00016fe4\U0001d159"
)
# The "control pictures" of Unicode: U+2400 is the symbol for NUL, U+2401 for SOH, and so on.
_SYMBOLS = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "␡"}
# Letters of other alphabets that look like ASCII letters, and whole alphabets that have such letters.
_LOOK_ALIKES = frozenset("асеорхуіјѕԁһԛԝкАВЕЗКМНОРСТУХІЈЅԌοανρικυχγτηΑΒΕΖΗΙΚΜΝΟΡΤΥΧոսհօցզԼՕՏɑɡıȷɩſǃǀ")
_ALPHABETS = (
    "CYRILLIC",
    "GREEK",
    "ARMENIAN",
    "CHEROKEE",
    "COPTIC",
    "LISU",
    "DESERET",
    "LATIN LETTER SMALL CAPITAL",
)
_PUNCTUATION = frozenset(
    "\u2010\u2011\u2024\u2044\u2212\u2215\u2236\u29f8\ua789\u02d0\uff61\uff0e\uff0f\uff20\uff3c"
)
_WORD = re.compile(r"\w+")
_MAX_BLANKS = 80


def escape_controls(text: str) -> str:
    """Replace control characters with visible symbols; use it for output of models and tools."""
    if not _CONTROL_CHARACTERS.search(text):
        return text
    return _CONTROL_CHARACTERS.sub(
        lambda match: _SYMBOLS.get(match[0]) or _code_point(match[0]), text.replace("\r\n", "\n")
    )


def escape_json(text: str) -> str:
    """Escape control characters in JSON as JSON does, so that it stays the same value."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_invisible(text: str) -> str:
    """Replace control, invisible and reordering characters; use it wherever a user makes a decision."""
    text = escape_controls(text)
    if text.isascii():
        return text
    invisible = {
        ord(character): _code_point(character) for character in set(text) if _is_invisible(character)
    }
    return text.translate(invisible)


def _is_invisible(character: str) -> bool:
    """Return whether a character is not seen, or changes how others are."""
    if character in _INVISIBLE:
        return True
    code = ord(character)
    # variation selectors and tags
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F:
        return True
    return code > 0x7F and unicodedata.category(character) == "Cf"


def escape_deceptive(text: str) -> str:
    """Replace also what looks like something else, and long runs of blanks; use it where a user approves
    something.

    A word of another alphabet stays as it is, unless it could be taken for an English one.
    """
    text = escape_invisible(text)
    text = re.sub(rf" {{{_MAX_BLANKS + 1},}}", lambda match: f"⟨{len(match[0])} spaces⟩", text)
    if text.isascii():
        return text
    is_foreign_text = any(map(_looks_foreign, text))
    text = _WORD.sub(lambda match: _escape_word(match[0], is_foreign_text), text)
    deceptive = {
        ord(character): _code_point(character) for character in set(text) if _is_deceptive_mark(character)
    }
    return text.translate(deceptive)


def _escape_word(word: str, is_foreign_text: bool) -> str:
    """Replace the letters of a word that are not what they look like."""
    foreign = set(filter(_looks_foreign, word))
    suspects = foreign | set(filter(_looks_english, word))
    has_ascii_letters = re.search(r"[A-Za-z]", word) is not None
    if foreign and not has_ascii_letters:
        return word  # of another alphabet
    # Other alphabets have short words that look English.
    if is_foreign_text and len(word) < 3 and suspects == {*word}:
        return word
    return word.translate({ord(character): _code_point(character) for character in suspects})


def _is_deceptive_mark(character: str) -> bool:
    """Whether a character looks like a sign of ASCII, or like a space, and is another."""
    if character in _PUNCTUATION:
        return True
    return character != " " and unicodedata.category(character) == "Zs"


def escape_line(text: str) -> str:
    """Like `escape_deceptive`, on one line: nothing can look like a line of its own."""
    return escape_deceptive(text).replace("\n", "␊")


def quote_lines(text: str) -> str:
    """Like `escape_deceptive`, with a mark at the beginning of each line: none of them can look like one of
    ours.
    """
    return "\n".join(f"> {line}" for line in escape_deceptive(text).split("\n"))


@cache
def _looks_english(character: str) -> bool:
    """Return whether a character that is not ASCII can be taken for a letter or digit that is."""
    if character.isascii():
        return False
    if character in _LOOK_ALIKES:
        return True
    # Full-width and mathematical letters have a compatible form in ASCII; letters with accents have a
    # canonical one.
    compatible = unicodedata.normalize("NFKD", character)
    canonical = unicodedata.normalize("NFD", character)
    has_form = compatible.isascii() and compatible.isalnum() and not canonical.isascii()
    return has_form and unicodedata.category(character) != "No"


@cache
def _looks_foreign(character: str) -> bool:
    """Return whether a character belongs to an alphabet with look-alikes, but is not one of them."""
    return not _looks_english(character) and unicodedata.name(character, "").startswith(_ALPHABETS)


def shorten(text: str, limit: int) -> str:
    """Return the text on one line with at most `limit` characters."""
    window = 8 * limit + 100  # escaping a huge text only to drop most of it would be slow
    line = " ".join(escape_invisible(text[:window]).split())
    return line if len(line) <= limit and len(text) <= window else line[: max(0, limit - 1)] + "…"


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"
