"""Parses JSON as models really write it.

Pure, linear in time and bounded in depth. Every repair is named, and ValueError (with the position) is the
only way to fail. Truncated text is never completed: half a file is not a file. NaN, Infinity and bare words
are refused as ambiguous.
"""

import re
from typing import Any, cast

from toolglot.common.jsontext import DECODE_ERRORS, MAX_DEPTH, decode_object, is_portable

__all__ = ["tolerant_loads"]

MAX_DOCUMENTS = 8  # in one text, and places where one may begin

# White space that JSON does not allow (no-break and zero-width spaces, a byte order mark), and three kinds of
# comments.
_BLANK = re.compile(r"(?:[\s\ufeff\u200b]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|#[^\n]*)*")
_SPACE = re.compile(r"[ \t\r\n]*")
# Also +1, .5, 1., 0x1F and 1_000: what Python and JavaScript write.
_NUMBER = re.compile(
    r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(?:(?:\d+(?:_\d+)*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
)
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_KEY = re.compile(r"[A-Za-z_$][\w$.\-]*")
_OBJECT_START = re.compile("{")
_VALUE_START = re.compile(r"[{\[]")
# Python's literals, which models mix up with JSON's.
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f]")
# Quotes that open a string, and the ones that then close it. Models copy curly quotes from prose.
_CURLY_DOUBLE = "\u201c\u201d\u201f"
_CURLY_SINGLE = "\u2018\u2019\u201b"
_QUOTES = {
    **{quote: quote for quote in "\"'`"},
    **dict.fromkeys(_CURLY_DOUBLE + "\u201e", _CURLY_DOUBLE),
    **dict.fromkeys(_CURLY_SINGLE + "\u201a", _CURLY_SINGLE),
}
# What is in a string, and the quote that ends it.
_CONTENTS = {
    closing: re.compile(rf"((?:[^{closing}\\]++|\\.)*+)[{closing}]", re.DOTALL)
    for closing in {*_QUOTES.values()}
}
_MAX_DIGITS = 4000  # CPython refuses to convert more than 4300

FENCE, AROUND, EXTRA_COMMA = "code fence around the JSON", "text around the JSON", "extra comma"


def tolerant_loads(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a JSON text, and the repairs that were needed. Raises ValueError."""
    try:
        value = decode_object(text)
    except DECODE_ERRORS:
        return _loads(text, 2)
    return (value, ()) if is_portable(value) else _loads(text, 2)  # which says where it is too deep


def _loads(text: str, unwraps: int) -> tuple[Any, tuple[str, ...]]:
    parser = _Parser(text)
    value = parser.parse_document()
    # Some models (and proxies) encode the arguments twice: a JSON string that holds the JSON.
    if isinstance(value, str) and unwraps and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            inner, repairs = _loads(value, unwraps - 1)
        except ValueError:
            return value, tuple(parser.repairs)
        if not isinstance(inner, str):
            return inner, tuple(dict.fromkeys((*parser.repairs, "JSON inside a JSON string", *repairs)))
    return value, tuple(parser.repairs)


class _Parser:
    """A recursive-descent parser. `repairs` keeps the order in which they were made, without duplicates."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.repairs: dict[str, None] = {}

    @property
    def here(self) -> str:
        return self.text[self.position : self.position + 1]

    # -- documents

    def parse_document(self) -> Any:
        """Return the only value in the text."""
        self.skip_blank()
        start = self.position
        here = self.here
        error = None
        is_prose = (here not in _QUOTES and "{" in self.text) or self.text.startswith("```", start)
        if here in ("{", "["):
            try:
                return self.skip_trailing(self.parse_value())
            except ValueError as e:  # prose may begin with a bracket: "[1] {…}"
                if here == "{":
                    raise
                error = e
        elif not is_prose:
            value = self.parse_value()
            self.skip_blank()
            if self.position < len(self.text):
                raise self.error("the end of the text after the value")
            return value
        value, begin = self.next_object(start, error)
        if begin < 0:
            raise error or self.error("JSON", start)
        self.record_other_text(self.text[start:begin])
        return self.skip_trailing(value)

    def next_object(self, start: int, error: ValueError | None) -> tuple[Any, int]:
        """Return the next object and its position, or -1.

        Brackets before it must be balanced: an object inside something unreadable is only a part of what the
        model meant.
        """
        is_fenced = self.text.startswith("```", start)
        pattern = _VALUE_START if is_fenced else _OBJECT_START
        begin = start - 1
        for _ in range(MAX_DOCUMENTS):
            match = pattern.search(self.text, begin + 1)
            if not match:
                break
            begin = match.start()
            before = self.text[start:begin]
            if any(before.count(left) != before.count(right) for left, right in ("{}", "[]")):
                raise error or self.error("readable JSON", start)
            self.position = begin
            self.depth = 0
            repairs = dict(self.repairs)
            try:
                return self.parse_value(), begin
            except ValueError as e:
                error = error or e
                self.repairs = repairs  # a failed attempt must not leave its own behind
        else:
            raise error or self.error("one JSON object", start)
        if error and self.text.count("{", start) != self.text.count("}", start):
            raise error
        return None, -1

    def skip_trailing(self, value: Any) -> Any:
        """Accept what may follow a value: the same value again, a better one after `{}`, extra brackets,
        other text.

        Some servers seed the arguments with `{}` and append the real ones, or resend the whole call in the
        last chunk.
        """
        for _ in range(MAX_DOCUMENTS):
            self.skip_blank()
            here = self.here
            if not here:
                return value
            if here in "}],;":
                repair = "extra closing bracket" if here in "}]" else EXTRA_COMMA
                self.record_repair(repair)
                self.position += 1
                continue
            start = self.position
            second, begin = self.next_object(start, None)
            if begin < 0:
                self.record_other_text(self.text[start:])
                return value
            if second == value and type(second) is type(value):
                self.record_repair("the same JSON twice")
            elif value == {}:
                self.record_repair("an empty object beside the JSON")
                value = second
            elif second == {}:
                self.record_repair("an empty object beside the JSON")
            else:
                raise self.error("one JSON value, not two different ones", start)
        raise self.error(f"fewer than {MAX_DOCUMENTS} values or extra brackets")

    # -- values

    def parse_value(self) -> Any:
        self.skip_blank()
        here = self.here
        if here in ("{", "["):
            if self.depth >= MAX_DEPTH:
                raise self.error(f"at most {MAX_DEPTH} levels")
            self.depth += 1
            self.position += 1
            value = self.parse_object() if here == "{" else self.parse_array()
            self.depth -= 1
            return value
        if here in _QUOTES and here:
            return self.parse_string()
        if number := _NUMBER.match(self.text, self.position):
            return self.parse_number(number)
        word = _WORD.match(self.text, self.position)
        if not word or word[0] not in _WORDS:
            raise self.error("a value")
        if word[0][0].isupper():
            self.record_repair("Python literal")
        self.position = word.end()
        return _WORDS[word[0]]

    def parse_object(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not self.at_closing("}", "a key"):
            name = self.parse_key()
            self.skip_blank()
            if self.here != ":":
                raise self.error("':' after a key")
            self.position += 1
            out[name] = self.parse_value()
            self.skip_comma("}", name)
        return out

    def parse_array(self) -> list[Any]:
        out: list[Any] = []
        while not self.at_closing("]", "a value"):
            out.append(self.parse_value())
            self.skip_comma("]", out[-1])
        return out

    def at_closing(self, closing: str, expected: str) -> bool:
        """Consume the closing bracket if it is here."""
        self.skip_blank()
        here = self.here
        if not here:
            raise self.error(f"{expected} or {closing!r}")
        self.position += here == closing
        return here == closing

    def skip_comma(self, closing: str, last: Any) -> None:
        """Consume what stands between two entries."""
        self.skip_blank()
        commas = 0
        while self.here == ",":
            self.position += 1
            commas += 1
            self.skip_blank()
        here = self.here
        is_end = here in (closing, "")
        wanted = 0 if is_end else 1
        if commas > wanted:
            self.record_repair(EXTRA_COMMA)
        if commas or is_end:
            return
        # In an object a key and its colon must follow, so a missing comma is unambiguous; `1 2` in an array
        # is not.
        are_containers = isinstance(last, (dict, list)) and here in "{["
        if closing == "}" or are_containers:
            self.record_repair("missing comma")
            return
        raise self.error(f"',' or {closing!r}")

    def parse_key(self) -> str:
        if self.here in _QUOTES:
            return self.parse_string()
        match = _KEY.match(self.text, self.position)
        if not match:
            raise self.error("a key")
        self.record_repair("unquoted key")
        self.position = match.end()
        return match[0]

    def parse_string(self) -> str:
        opening = self.here
        start = self.position
        match = _CONTENTS[_QUOTES[opening]].match(self.text, start + 1)
        if opening != '"':
            self.record_repair(f"{opening} for a quote")
        if not match:
            raise self.error("the end of the string that begins here", start)
        self.position = match.end()
        if _CONTROL.search(match[1]):
            self.record_repair("raw control character in a string")
        if "\\" not in match[1]:
            return match[1]
        text = _ESCAPE.sub(self.unescape, match[1])
        return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)

    def unescape(self, match: re.Match[str]) -> str:
        """Return what an escape means; an invalid one is a literal backslash, as in an unescaped Windows
        path.
        """
        code, character = match.groups()
        if code:
            return chr(int(code, 16))
        if character in _ESCAPES:
            return _ESCAPES[character]
        self.record_repair("invalid escape")
        is_quote = character in "'`" + _CURLY_DOUBLE + _CURLY_SINGLE
        return character if is_quote else match[0]

    def parse_number(self, match: re.Match[str]) -> int | float:
        text = match[0]
        if len(text) > _MAX_DIGITS:
            raise self.error(f"a number of at most {_MAX_DIGITS} digits")
        if not _STRICT_NUMBER.fullmatch(text):
            self.record_repair("non-standard number")
        self.position = match.end()
        if match[2]:
            return int(match[2], 16) * (-1 if match[1] == "-" else 1)
        if not re.search("[.eE]", text):
            return int(text)
        value = float(text)
        if abs(value) == float("inf"):
            raise self.error("a number within the range of a double", match.start())
        return value

    # -- between values

    def skip_blank(self) -> None:
        """Skip white space and comments."""
        start = cast(re.Match[str], _SPACE.match(self.text, self.position)).end()
        self.position = cast(re.Match[str], _BLANK.match(self.text, start)).end()
        if self.position == start:
            return
        skipped = self.text[start : self.position]
        visible = skipped.strip("\ufeff\u200b \t\r\n\xa0")
        if visible.startswith(("/", "#")):
            self.record_repair("comment")
        elif not visible and "\ufeff" in skipped:
            self.record_repair("byte order mark")
        else:
            self.record_repair("odd white space")

    def record_other_text(self, text: str) -> None:
        """Record text around the JSON that was left out."""
        self.record_repair(FENCE if "```" in text else AROUND)

    def record_repair(self, repair: str) -> None:
        self.repairs[repair] = None

    def error(self, expected: str, position: int = -1) -> ValueError:
        at = self.position if position < 0 else position
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        actual = repr(self.text[at : at + 12]) if at < len(self.text) else "the end of the text"
        return ValueError(
            f"line {line}, column {column} (position {at}): expected {expected}, found {actual}"
        )
