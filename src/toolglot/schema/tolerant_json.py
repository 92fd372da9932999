"""JSON as models really write it.

Laws: pure, linear in time, bounded in depth; every mend is named; ValueError, with the position, is the only way to fail.
Text that was cut is never completed unless the caller allows it, and a string that was cut never is: half a file is not a file.
NaN and Infinity are refused, and so are bare words as values: nobody knows what they mean.
"""

import re
from typing import Any, NoReturn, cast

from toolglot.jsontext import DECODE_ERRORS, decode_object

__all__ = ["tolerant_loads"]

MAX_DEPTH = 128
MAX_DOCUMENTS = 8  # in one text, and places where one may begin

_BLANK = re.compile(r"(?:[\s\ufeff\u200b]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|#[^\n]*)*")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(?:(?:\d+(?:_\d+)*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])")
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_KEY = re.compile(r"[A-Za-z_$][\w$.\-]*")
_OBJECT_START, _VALUE_START = re.compile("{"), re.compile(r"[{\[]")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?")
# Quotes that open a string, and which ones close it then.
_CURLY_DOUBLE, _CURLY_SINGLE = "\u201c\u201d\u201f", "\u2018\u2019\u201b"  # curly ones
_QUOTES = {
    **{quote: quote for quote in "\"'`"},
    **dict.fromkeys(_CURLY_DOUBLE + "\u201e", _CURLY_DOUBLE),
    **dict.fromkeys(_CURLY_SINGLE + "\u201a", _CURLY_SINGLE),
}
_PLAIN_RUNS = {closing: re.compile(rf"[^{closing}\\\x00-\x1f]*") for closing in set(_QUOTES.values())}
_MAX_DIGITS = 4000

FENCE, AROUND, NESTED_STRING = "code fence around the JSON", "text around the JSON", "JSON inside a JSON string"
REPEATED, EMPTY_OBJECT, EXTRA_BRACKET = "the same JSON twice", "an empty object beside the JSON", "closing bracket too many"
UNCLOSED = "missing closing bracket"
BARE_KEY, NO_COMMA, EXTRA_COMMA, COMMENT = "unquoted key", "missing comma", "comma too many", "comment"
PYTHON, NUMBER, CONTROL, ESCAPE = (
    "Python word for a JSON one",
    "number not as JSON writes it",
    "raw control character in a string",
    "bad escape",
)


def tolerant_loads(text: str, *, allow_truncated: bool = False) -> tuple[Any, tuple[str, ...]]:
    """The value of a JSON text, and what had to be mended. `allow_cut`: brackets that are missing at the end are closed."""
    try:
        return decode_object(text), ()
    except DECODE_ERRORS:
        return _loads(text, allow_truncated, 2)


def _loads(text: str, allow_truncated: bool, unwraps: int) -> tuple[Any, tuple[str, ...]]:
    reader = _Parser(text, allow_truncated)
    value = reader.parse_document()
    if isinstance(value, str) and unwraps and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            inner, mends = _loads(value, allow_truncated, unwraps - 1)
        except ValueError:
            return value, tuple(reader.repairs)
        if not isinstance(inner, str):
            return inner, tuple(dict.fromkeys((*reader.repairs, NESTED_STRING, *mends)))
    return value, tuple(reader.repairs)


class _Parser:
    """A text and the place in it. `mends` keeps the order in which things were found."""

    def __init__(self, text: str, allow_truncated: bool) -> None:
        self.text, self.allow_truncated, self.position, self.depth = text, allow_truncated, 0, 0
        self.repairs: dict[str, None] = {}

    # -- documents

    def parse_document(self) -> Any:
        """The one value of the text."""
        self.skip_blank()
        start, here = self.position, self.text[self.position : self.position + 1]
        if here == "{":
            return self.skip_trailing(self.parse_value())
        if here == "[":
            try:
                return self.skip_trailing(self.parse_value())
            except ValueError as e:
                return self.find_object(start, e)
        if (here not in _QUOTES and "{" in self.text) or self.text.startswith("```", start):
            return self.find_object(start, None)
        return self.expect_end(self.parse_value())

    def expect_end(self, value: Any) -> Any:
        self.skip_blank()
        return value if self.position >= len(self.text) else self.fail("nothing more after the value")

    def find_object(self, start: int, error: ValueError | None) -> Any:
        """The object in the middle of other text."""
        value, begins = self.next_object(start, error)
        if begins < 0:
            raise error or self.error("JSON", start)
        self.record_repair(FENCE if "```" in self.text[start:begins] else AROUND)
        return self.skip_trailing(value)

    def next_object(self, start: int, error: ValueError | None) -> tuple[Any, int]:
        """The next object and where it begins; -1 where there is none.

        An object inside of something that cannot be read is not what was meant, so brackets before it must be closed.
        """
        begin, place = (_VALUE_START if self.text.startswith("```", start) else _OBJECT_START), start - 1
        for _ in range(MAX_DOCUMENTS):
            found = begin.search(self.text, place + 1)
            if not found:
                break
            place, mends = found.start(), dict(self.repairs)
            before = self.text[start:place]
            if any(before.count(left) != before.count(right) for left, right in ("{}", "[]")):
                raise error or self.error("JSON that can be read", start)
            self.position, self.depth = place, 0
            try:
                return self.parse_value(), place
            except ValueError as e:
                error, self.repairs = error or e, mends
        else:
            raise error or self.error("one JSON object", start)
        if error and self.text.count("{", start) != self.text.count("}", start):
            raise error
        return None, -1

    def skip_trailing(self, value: Any) -> Any:
        """A whole value, and what follows it: the same once more, the value after a seed, a bracket too many, other text."""
        for _ in range(MAX_DOCUMENTS):
            self.skip_blank()
            rest = self.text[self.position : self.position + 1]
            if not rest:
                return value
            if rest in "}],;":
                self.record_repair(EXTRA_BRACKET if rest in "}]" else EXTRA_COMMA)
                self.position += 1
                continue
            begins = self.position
            second, place = self.next_object(begins, None)
            if place < 0:
                self.record_repair(FENCE if "```" in self.text[begins:] else AROUND)
                return value
            if second == value and type(second) is type(value):
                self.record_repair(REPEATED)
            elif value == {}:
                self.record_repair(EMPTY_OBJECT)
                value = second
            elif second == {}:
                self.record_repair(EMPTY_OBJECT)
            else:
                self.fail("one JSON value, not two that differ", begins)
        raise self.error(f"fewer than {MAX_DOCUMENTS} values or brackets too many", self.position)

    # -- values

    def parse_value(self) -> Any:
        self.skip_blank()
        here = self.text[self.position : self.position + 1]
        if here == "{":
            return self.parse_nested(self.parse_object, "}")
        if here == "[":
            return self.parse_nested(self.parse_array, "]")
        if here in _QUOTES and here:
            return self.parse_string()
        if number := _NUMBER.match(self.text, self.position):
            return self.parse_number(number)
        return self.parse_word()

    def parse_nested(self, read: Any, closing: str) -> Any:
        if self.depth >= MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} levels")
        self.depth += 1
        self.position += 1
        value = read(closing)
        self.depth -= 1
        return value

    def parse_object(self, closing: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not self.is_closing(closing, "a key"):
            name = self.parse_key()
            self.skip_blank()
            if self.text[self.position : self.position + 1] != ":":
                self.fail("':' after a key")
            self.position += 1
            out[name] = self.parse_value()
            self.skip_comma(closing, name)
        return out

    def parse_array(self, closing: str) -> list[Any]:
        out: list[Any] = []
        while not self.is_closing(closing, "a value"):
            out.append(self.parse_value())
            self.skip_comma(closing, out[-1])
        return out

    def is_closing(self, closing: str, expected: str) -> bool:
        """Whether the bracket closes here."""
        self.skip_blank()
        here = self.text[self.position : self.position + 1]
        if here == closing:
            self.position += 1
            return True
        if here:
            return False
        if not self.allow_truncated:
            self.fail(f"{expected} or {closing!r}")
        self.record_repair(UNCLOSED)
        return True

    def skip_comma(self, closing: str, last: Any) -> None:
        """What stands between two entries."""
        self.skip_blank()
        here, commas = self.text[self.position : self.position + 1], 0
        while here == ",":
            self.position, commas = self.position + 1, commas + 1
            self.skip_blank()
            here = self.text[self.position : self.position + 1]
        if commas > 1 or (commas and here in (closing, "")):
            self.record_repair(EXTRA_COMMA)
        if commas or here in (closing, ""):
            return
        if closing == "}" or (isinstance(last, (dict, list)) and here in "{["):
            self.record_repair(NO_COMMA)  # what follows must be a key, with its colon
            return
        self.fail(f"',' or {closing!r}")

    def parse_key(self) -> str:
        if self.text[self.position : self.position + 1] in _QUOTES:
            return self.parse_string()
        found = _KEY.match(self.text, self.position)
        if not found:
            self.fail("a key")
        self.record_repair(BARE_KEY)
        self.position = found.end()
        return found[0]

    def parse_string(self) -> str:
        opening = self.text[self.position]
        closing, start = _QUOTES[opening], self.position
        if opening != '"':
            self.record_repair(f"{opening} for a quote")
        run, parts = _PLAIN_RUNS[closing], list[str]()
        self.position += 1
        while True:
            found = cast(re.Match[str], run.match(self.text, self.position))
            parts.append(found[0])
            self.position = found.end()
            here = self.text[self.position : self.position + 1]
            if not here:
                self.fail("the end of the string that begins here", start)
            self.position += 1
            if here in closing:
                return "".join(parts)
            if here == "\\":
                parts.append(self.parse_escape())
            else:
                self.record_repair(CONTROL)
                parts.append(here)

    def parse_escape(self) -> str:
        """What a backslash means; where it means nothing, it is itself."""
        here = self.text[self.position : self.position + 1]
        if here in _ESCAPES:
            self.position += 1
            return _ESCAPES[here]
        if found := _HEX.match(self.text, self.position):
            return self.parse_unicode_escape(found)
        self.record_repair(ESCAPE)
        if here and here in "'`" + _CURLY_DOUBLE + _CURLY_SINGLE:
            self.position += 1
            return here
        return "\\"

    def parse_unicode_escape(self, match: re.Match[str]) -> str:
        high = int(match[1], 16)
        if match[2] and 0xD800 <= high < 0xDC00:
            self.position = match.end()
            return chr(0x10000 + ((high - 0xD800) << 10) + (int(match[2], 16) - 0xDC00))
        self.position += 5
        return chr(high)

    def parse_number(self, match: re.Match[str]) -> int | float:
        text = match[0]
        if len(text) > _MAX_DIGITS:
            self.fail(f"a number of at most {_MAX_DIGITS} digits")
        if not _STRICT_NUMBER.fullmatch(text):
            self.record_repair(NUMBER)
        self.position = match.end()
        if match[2]:
            return int(match[2], 16) * (-1 if match[1] == "-" else 1)
        if re.search("[.eE]", text):
            value = float(text)
            return value if abs(value) != float("inf") else self.fail("a number that a computer can hold", match.start())
        return int(text)

    def parse_word(self) -> Any:
        found = _WORD.match(self.text, self.position)
        if not found or found[0] not in _WORDS:
            self.fail("a value")
        if found[0][0].isupper():
            self.record_repair(PYTHON)
        self.position = found.end()
        return _WORDS[found[0]]

    # -- between them

    def skip_blank(self) -> None:
        """Skips white space and comments."""
        start = cast(re.Match[str], _SPACE.match(self.text, self.position)).end()
        self.position = cast(re.Match[str], _BLANK.match(self.text, start)).end()
        if skipped := self.text[start : self.position].strip("\ufeff\u200b \t\r\n\xa0"):
            self.record_repair(COMMENT if skipped[0] in "/#" else "odd white space")
        elif self.position > start:
            self.record_repair("byte order mark" if "\ufeff" in self.text[start : self.position] else "odd white space")

    def record_repair(self, repair: str) -> None:
        self.repairs[repair] = None

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        raise self.error(expected, self.position if position is None else position)

    def error(self, expected: str, position: int) -> ValueError:
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        found = repr(self.text[position : position + 12]) if position < len(self.text) else "the end of the text"
        return ValueError(f"line {line}, column {column} (position {position}): expected {expected}, found {found}")
