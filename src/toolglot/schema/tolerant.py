"""JSON as models really write it.

Laws: pure, linear in time, bounded in depth; every mend is named; ValueError, with the position, is the only way to fail.
Text that was cut is never completed unless the caller allows it, and a string that was cut never is: half a file is not a file.
NaN and Infinity are refused, and so are bare words as values: nobody knows what they mean.
"""

import re
from typing import Any, NoReturn, cast

from toolglot.jsontext import REFUSED, decode_object

__all__ = ["tolerant_loads"]

MAX_LEVELS = 128
MAX_DOCUMENTS = 8  # in one text, and places where one may begin

_BLANK = re.compile(r"(?:[\s\ufeff\u200b]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|#[^\n]*)*")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(?:(?:\d+(?:_\d+)*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])")
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_KEY = re.compile(r"[A-Za-z_$][\w$.\-]*")
_BEGIN, _FENCED = re.compile("{"), re.compile(r"[{\[]")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?")
# Quotes that open a string, and which ones close it then.
_DOUBLE, _SINGLE = "\u201c\u201d\u201f", "\u2018\u2019\u201b"  # curly ones
_QUOTES = {
    **{quote: quote for quote in "\"'`"},
    **dict.fromkeys(_DOUBLE + "\u201e", _DOUBLE),
    **dict.fromkeys(_SINGLE + "\u201a", _SINGLE),
}
_RUNS = {closing: re.compile(rf"[^{closing}\\\x00-\x1f]*") for closing in set(_QUOTES.values())}
_MAX_DIGITS = 4000

FENCE, AROUND, INSIDE = "code fence around the JSON", "text around the JSON", "JSON inside a JSON string"
TWICE, SEEDED, EXTRA = "the same JSON twice", "an empty object beside the JSON", "closing bracket too many"
CUT = "missing closing bracket"
BARE_KEY, NO_COMMA, MORE_COMMA, COMMENT = "unquoted key", "missing comma", "comma too many", "comment"
PYTHON, NUMBER, CONTROL, ESCAPE = (
    "Python word for a JSON one",
    "number not as JSON writes it",
    "raw control character in a string",
    "bad escape",
)


def tolerant_loads(text: str, *, allow_cut: bool = False) -> tuple[Any, tuple[str, ...]]:
    """The value of a JSON text, and what had to be mended. `allow_cut`: brackets that are missing at the end are closed."""
    try:
        return decode_object(text), ()
    except REFUSED:
        return _loads(text, allow_cut, 2)


def _loads(text: str, allow_cut: bool, levels: int) -> tuple[Any, tuple[str, ...]]:
    reader = _Reader(text, allow_cut)
    value = reader.document()
    if isinstance(value, str) and levels and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            inner, mends = _loads(value, allow_cut, levels - 1)
        except ValueError:
            return value, tuple(reader.mends)
        if not isinstance(inner, str):
            return inner, tuple(dict.fromkeys((*reader.mends, INSIDE, *mends)))
    return value, tuple(reader.mends)


class _Reader:
    """A text and the place in it. `mends` keeps the order in which things were found."""

    def __init__(self, text: str, allow_cut: bool) -> None:
        self.text, self.allow_cut, self.at, self.level = text, allow_cut, 0, 0
        self.mends: dict[str, None] = {}

    # -- documents

    def document(self) -> Any:
        """The one value of the text."""
        self.blank()
        start, here = self.at, self.text[self.at : self.at + 1]
        if here == "{":
            return self.more(self.value())
        if here == "[":
            try:
                return self.more(self.value())
            except ValueError as e:
                return self.found(start, e)
        if (here not in _QUOTES and "{" in self.text) or self.text.startswith("```", start):
            return self.found(start, None)
        return self.end(self.value())

    def end(self, value: Any) -> Any:
        self.blank()
        return value if self.at >= len(self.text) else self.fail("nothing more after the value")

    def found(self, start: int, error: ValueError | None) -> Any:
        """The object in the middle of other text."""
        value, begins = self.next(start, error)
        if begins < 0:
            raise error or self.error("JSON", start)
        self.mend(FENCE if "```" in self.text[start:begins] else AROUND)
        return self.more(value)

    def next(self, start: int, error: ValueError | None) -> tuple[Any, int]:
        """The next object and where it begins; -1 where there is none.

        An object inside of something that cannot be read is not what was meant, so brackets before it must be closed.
        """
        begin, place = (_FENCED if self.text.startswith("```", start) else _BEGIN), start - 1
        for _ in range(MAX_DOCUMENTS):
            found = begin.search(self.text, place + 1)
            if not found:
                break
            place, mends = found.start(), dict(self.mends)
            before = self.text[start:place]
            if any(before.count(left) != before.count(right) for left, right in ("{}", "[]")):
                raise error or self.error("JSON that can be read", start)
            self.at, self.level = place, 0
            try:
                return self.value(), place
            except ValueError as e:
                error, self.mends = error or e, mends
        else:
            raise error or self.error("one JSON object", start)
        if error and self.text.count("{", start) != self.text.count("}", start):
            raise error
        return None, -1

    def more(self, value: Any) -> Any:
        """A whole value, and what follows it: the same once more, the value after a seed, a bracket too many, other text."""
        for _ in range(MAX_DOCUMENTS):
            self.blank()
            rest = self.text[self.at : self.at + 1]
            if not rest:
                return value
            if rest in "}],;":
                self.mend(EXTRA if rest in "}]" else MORE_COMMA)
                self.at += 1
                continue
            begins = self.at
            second, place = self.next(begins, None)
            if place < 0:
                self.mend(FENCE if "```" in self.text[begins:] else AROUND)
                return value
            if second == value and type(second) is type(value):
                self.mend(TWICE)
            elif value == {}:
                self.mend(SEEDED)
                value = second
            elif second == {}:
                self.mend(SEEDED)
            else:
                self.fail("one JSON value, not two that differ", begins)
        raise self.error(f"fewer than {MAX_DOCUMENTS} values or brackets too many", self.at)

    # -- values

    def value(self) -> Any:
        self.blank()
        here = self.text[self.at : self.at + 1]
        if here == "{":
            return self.nested(self.object, "}")
        if here == "[":
            return self.nested(self.array, "]")
        if here in _QUOTES and here:
            return self.string()
        if number := _NUMBER.match(self.text, self.at):
            return self.number(number)
        return self.word()

    def nested(self, read: Any, closing: str) -> Any:
        if self.level >= MAX_LEVELS:
            self.fail(f"at most {MAX_LEVELS} levels")
        self.level += 1
        self.at += 1
        value = read(closing)
        self.level -= 1
        return value

    def object(self, closing: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not self.closed(closing, "a key"):
            name = self.key()
            self.blank()
            if self.text[self.at : self.at + 1] != ":":
                self.fail("':' after a key")
            self.at += 1
            out[name] = self.value()
            self.comma(closing, name)
        return out

    def array(self, closing: str) -> list[Any]:
        out: list[Any] = []
        while not self.closed(closing, "a value"):
            out.append(self.value())
            self.comma(closing, out[-1])
        return out

    def closed(self, closing: str, wanted: str) -> bool:
        """Whether the bracket closes here."""
        self.blank()
        here = self.text[self.at : self.at + 1]
        if here == closing:
            self.at += 1
            return True
        if here:
            return False
        if not self.allow_cut:
            self.fail(f"{wanted} or {closing!r}")
        self.mend(CUT)
        return True

    def comma(self, closing: str, last: Any) -> None:
        """What stands between two entries."""
        self.blank()
        here, commas = self.text[self.at : self.at + 1], 0
        while here == ",":
            self.at, commas = self.at + 1, commas + 1
            self.blank()
            here = self.text[self.at : self.at + 1]
        if commas > 1 or (commas and here in (closing, "")):
            self.mend(MORE_COMMA)
        if commas or here in (closing, ""):
            return
        if closing == "}" or (isinstance(last, (dict, list)) and here in "{["):
            self.mend(NO_COMMA)  # what follows must be a key, with its colon
            return
        self.fail(f"',' or {closing!r}")

    def key(self) -> str:
        if self.text[self.at : self.at + 1] in _QUOTES:
            return self.string()
        found = _KEY.match(self.text, self.at)
        if not found:
            self.fail("a key")
        self.mend(BARE_KEY)
        self.at = found.end()
        return found[0]

    def string(self) -> str:
        opening = self.text[self.at]
        closing, start = _QUOTES[opening], self.at
        if opening != '"':
            self.mend(f"{opening} for a quote")
        run, parts = _RUNS[closing], list[str]()
        self.at += 1
        while True:
            found = cast(re.Match[str], run.match(self.text, self.at))
            parts.append(found[0])
            self.at = found.end()
            here = self.text[self.at : self.at + 1]
            if not here:
                self.fail("the end of the string that begins here", start)
            self.at += 1
            if here in closing:
                return "".join(parts)
            if here == "\\":
                parts.append(self.escape())
            else:
                self.mend(CONTROL)
                parts.append(here)

    def escape(self) -> str:
        """What a backslash means; where it means nothing, it is itself."""
        here = self.text[self.at : self.at + 1]
        if here in _ESCAPES:
            self.at += 1
            return _ESCAPES[here]
        if found := _HEX.match(self.text, self.at):
            return self.code(found)
        self.mend(ESCAPE)
        if here and here in "'`" + _DOUBLE + _SINGLE:
            self.at += 1
            return here
        return "\\"

    def code(self, found: re.Match[str]) -> str:
        high = int(found[1], 16)
        if found[2] and 0xD800 <= high < 0xDC00:
            self.at = found.end()
            return chr(0x10000 + ((high - 0xD800) << 10) + (int(found[2], 16) - 0xDC00))
        self.at += 5
        return chr(high)

    def number(self, found: re.Match[str]) -> int | float:
        text = found[0]
        if len(text) > _MAX_DIGITS:
            self.fail(f"a number of at most {_MAX_DIGITS} digits")
        if not _STRICT_NUMBER.fullmatch(text):
            self.mend(NUMBER)
        self.at = found.end()
        if found[2]:
            return int(found[2], 16) * (-1 if found[1] == "-" else 1)
        if re.search("[.eE]", text):
            value = float(text)
            return value if abs(value) != float("inf") else self.fail("a number that a computer can hold", found.start())
        return int(text)

    def word(self) -> Any:
        found = _WORD.match(self.text, self.at)
        if not found or found[0] not in _WORDS:
            self.fail("a value")
        if found[0][0].isupper():
            self.mend(PYTHON)
        self.at = found.end()
        return _WORDS[found[0]]

    # -- between them

    def blank(self) -> None:
        """Skips white space and comments."""
        start = cast(re.Match[str], _SPACE.match(self.text, self.at)).end()
        self.at = cast(re.Match[str], _BLANK.match(self.text, start)).end()
        if skipped := self.text[start : self.at].strip("\ufeff\u200b \t\r\n\xa0"):
            self.mend(COMMENT if skipped[0] in "/#" else "odd white space")
        elif self.at > start:
            self.mend("byte order mark" if "\ufeff" in self.text[start : self.at] else "odd white space")

    def mend(self, what: str) -> None:
        self.mends[what] = None

    def fail(self, wanted: str, at: int | None = None) -> NoReturn:
        raise self.error(wanted, self.at if at is None else at)

    def error(self, wanted: str, at: int) -> ValueError:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        found = repr(self.text[at : at + 12]) if at < len(self.text) else "the end of the text"
        return ValueError(f"line {line}, column {column} (position {at}): expected {wanted}, found {found}")
