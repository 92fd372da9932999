"""Patterns of ripgrep's as regexes of Python's.

Laws: what Python reads differently is translated, and what it cannot say is refused in one sentence.
"""

import re
import sys
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from toolglot.builtin.search.ignore import POSIX_CLASSES
from toolglot.errors import ToolError

__all__ = ["NEWLINE_HINT", "Regex", "invalid_regex_error", "translate_regex"]

NEWLINE_HINT = "a line holds no line end; set multiline to true"


class Regex(NamedTuple):
    """A pattern of ripgrep's as one of Python's. `literal`: bytes that stand in every match, or none."""

    source: str
    literal: str


_LOST = "\udc80-\udcff"  # bytes that are no UTF-8: nothing of ripgrep's matches them
_SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_WIDE = {"s": f"[{_SPACE}]", "S": f"[^{_SPACE}]", "D": "\\D", "W": "\\W"}  # they may stand for a line end or a lost byte
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_POSIX = {**POSIX_CLASSES, "ascii": "\\x00-\\x7f", "word": "a-zA-Z0-9_"}
_CATEGORIES = {
    "letter": "L", "lowercase_letter": "Ll", "uppercase_letter": "Lu", "titlecase_letter": "Lt", "mark": "M", "number": "N",
    "decimal_number": "Nd", "punctuation": "P", "symbol": "S", "separator": "Z", "space_separator": "Zs", "other": "C",
    "lowercase": "Ll", "uppercase": "Lu", "alphabetic": "L", "alpha": "L", "currency_symbol": "Sc", "math_symbol": "Sm",
}  # fmt: skip
_CATEGORY = re.compile(r"L[lutmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cf]?")
_DEEPEST = 100
_LONGEST = 10_000
_QUANTIFIER = re.compile(r"\{\s*(\d{1,4})(?:\s*(,)\s*(\d{1,4})?)?\s*\}")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xuU]\{([0-9a-fA-F]{1,8})\}")
_NAME = re.compile(r"\?P?<[A-Za-z_][\w.\[\]]*>")
_LOOKING = re.compile(r"\?<?[=!]")
_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


def translate_regex(pattern: str, *, literal: bool = False, ignore_case: bool = False, multiline: bool = False) -> Regex:
    """A pattern of ripgrep's for Python's `re` with MULTILINE. Raises ToolError, where it is wrong or cannot be said."""
    if len(pattern) > _LONGEST:
        raise ToolError(f"the pattern is longer than {_LONGEST} characters", kind="validation")
    if literal:
        return Regex(re.escape(pattern), "" if ignore_case else pattern)
    source = _Translation(pattern, ignore_case, multiline).translate()
    return Regex(source, "" if ignore_case else _required_literal(pattern))


def invalid_regex_error(pattern: str, reason: str) -> ToolError:
    """That a pattern is none."""
    return ToolError(f"the pattern {pattern[:80]!r} is not a regex: {reason}", kind="validation")


def _required_literal(pattern: str) -> str:
    """The longest plain text that every match must hold; "" where that is not plain to see."""
    if re.search(r"[|\\\[(]", pattern):
        plain = re.fullmatch(r"(?:\\b)?((?:[\w \-'\"/=:;,<>@#%&!~`]|\\[.()\[\]{}+*?^$|\\])+)(?:\\b)?", pattern)
        return re.sub(r"\\(.)", r"\1", plain[1]) if plain else ""
    runs = re.split(r".(?:[*+?]|\{[^}]*\})+|[.^$]", pattern)
    return max((run for run in runs if "{" not in run and "}" not in run), key=len, default="")


class _Translation:
    """A reader of ripgrep's regexes that writes Python's as it goes."""

    def __init__(self, pattern: str, ignore_case: bool, multiline: bool) -> None:
        self._text, self._at = pattern, 0
        self._globally, self._multiline = ignore_case, multiline
        self._case, self._dotall, self._depth = ignore_case, multiline, 0
        never = _LOST if multiline else "\\n" + _LOST
        self._never = f"(?![{never}])"
        self._dot = {False: f"[^\\n{_LOST}]", True: f"[^{never}]"}

    def translate(self) -> str:
        source = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ')' closes no group")
        return source

    def _error(self, reason: str) -> ToolError:
        return invalid_regex_error(self._text, reason)

    def _unsupported(self, feature: str) -> ToolError:
        said = f"the pattern {self._text[:80]!r} uses {feature}, which needs ripgrep (rg), and it is not installed"
        return ToolError(f"{said}; write it in another way", kind="validation")

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _next(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _alternatives(self) -> str:
        """Until the end, or a `)` that is left there."""
        case, dotall = self._case, self._dotall
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"its groups are more than {_DEEPEST} deep")
        branches, pieces = list[str](), list[str]()
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._next("|"):
                branches.append("".join(pieces))
                pieces = []
            else:
                self._piece(pieces)
        self._case, self._dotall = case, dotall
        self._depth -= 1
        return "|".join([*branches, "".join(pieces)])

    def _piece(self, pieces: list[str]) -> None:
        one = self._take()
        match one:
            case "*" | "+" | "?":
                self._repeat(pieces, one)
            case "{":
                found = _QUANTIFIER.match(self._text, self._at - 1)
                if found is None:
                    raise self._error("a '{' stands for itself as '\\{'")
                self._at = found.end()
                low, comma, high = found[1], found[2] or "", found[3] or ""
                if high and int(high) < int(low):
                    raise self._error(f"{found[0]} counts down")
                self._repeat(pieces, f"{{{low}{comma}{high}}}")
            case "(":
                self._group(pieces)
            case "[":
                pieces.append(self._with_case(self._class()))
            case ".":
                pieces.append(self._dot[self._dotall])
            case "^" | "$":
                pieces.append(one)
            case "\\":
                pieces.append(self._escape())
            case _:
                pieces.append(self._with_case(re.escape(self._no_newline(one))))

    def _no_newline(self, one: str) -> str:
        if one == "\n" and not self._multiline:
            raise self._error(NEWLINE_HINT)
        return one

    def _repeat(self, pieces: list[str], how: str) -> None:
        if not pieces or pieces[-1] == "":
            raise self._error(f"there is nothing before {how!r} to repeat")
        lazy = "?" if self._next("?") else ""
        pieces[-1] = f"(?:{pieces[-1]}){how}{lazy}"

    def _with_case(self, source: str) -> str:
        if self._case == self._globally:
            return source
        return f"(?i:{source})" if self._case else f"(?-i:{source})"

    def _group(self, pieces: list[str]) -> None:
        before = self._case, self._dotall
        if name := _NAME.match(self._text, self._at):
            self._at = name.end()
        elif flags := _FLAGS.match(self._text, self._at):
            self._at = flags.end()
            self._set(flags[1], flags[2] or "")
            if flags[3] == ")":
                pieces.append("")  # nothing that could be repeated
                return
        elif _LOOKING.match(self._text, self._at):
            raise self._error("there is no looking ahead or behind")
        elif self._text.startswith("?", self._at):
            raise self._error("'(?' begins no group that is known")
        pieces.append(self._close_group())
        self._case, self._dotall = before

    def _close_group(self) -> str:
        inside = self._alternatives()
        if not self._next(")"):
            raise self._error("a group is not closed")
        return f"(?:{inside})"

    def _set(self, on: str, off: str) -> None:
        if not on and not off and self._text[self._at - 1] == ")":
            raise self._error("'(?)' sets nothing")
        for flag, value in [*((one, True) for one in on), *((one, False) for one in off)]:
            if flag == "i":
                self._case = value
            elif flag == "s":
                self._dotall = value
            elif flag not in "umxUR":
                raise self._error(f"there is no flag {flag!r}")
            elif not value or flag not in "um":
                raise self._unsupported(f"the flag {flag!r}")

    def _escape(self) -> str:
        one = self._take()
        match one:
            case "d" | "w":
                return f"\\{one}"
            case "s" | "S" | "D" | "W":
                return f"(?:{self._never}{_WIDE[one]})"
            case "b" | "B":
                if re.compile(r"\{[a-z]").match(self._text, self._at):
                    raise self._unsupported(f"\\{one}{{…}}")
                return f"\\{one}"
            case "A":
                return "\\A" if self._multiline else "^"
            case "z":
                return "\\Z" if self._multiline else "$"
            case "p" | "P":
                return self._with_case(f"(?:{self._never}[{'^' if one == 'P' else ''}{self._property()}])")
            case _:
                return self._with_case(re.escape(self._character(one)))

    def _character(self, one: str) -> str:
        """The one character that an escape is."""
        if one in _SIMPLE:
            return self._no_newline(_SIMPLE[one])
        if found := _HEX.match(self._text, self._at - 1):
            self._at = found.end()
            number = int(next(group for group in found.groups() if group), 16)
            if number > sys.maxunicode or 0xD800 <= number <= 0xDFFF:
                raise self._error(f"\\{found[0]} is no character")
            return self._no_newline(chr(number))
        if one.isascii() and not one.isalnum() and one not in "<>" and not one.isspace():
            return one
        hints = {"h": "; write [ \\t] or [0-9a-fA-F]", "Z": "; write \\z", "1": ": what a group found is not known later"}
        raise self._error(f"\\{one} means nothing{hints.get(one, '')}")

    def _property(self) -> str:
        one = self._take()
        if one == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._error("\\p{ is not closed")
            one, self._at = self._text[self._at : end], end + 1
        name = _CATEGORIES.get(one.lower().replace(" ", "_"), one)
        if not _CATEGORY.fullmatch(name):
            raise self._unsupported(f"\\p{{{one}}}")
        return _category_ranges(name)

    def _class(self) -> str:
        negated = self._next("^")
        members, risky, first = list[str](), negated, True
        while first or not self._next("]"):
            member, dangerous = self._member(first)
            first = False
            members.append(member)
            risky = risky or dangerous
        source = f"[{'^' if negated else ''}{''.join(members)}]"
        return f"(?:{self._never}{source})" if risky else source

    def _member(self, first: bool) -> tuple[str, bool]:
        """One member of a class, and whether it may stand for a line end or a lost byte."""
        if self._text.startswith(("&&", "--", "~~"), self._at):
            raise self._unsupported("classes that are cut with each other")
        if named := re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at):
            if named[1] or named[2] not in _POSIX:
                raise self._unsupported(f"the class {named[0]}")
            self._at = named.end()
            return _POSIX[named[2]], named[2] in ("ascii", "cntrl", "space")
        if self._text.startswith("[", self._at):
            raise self._unsupported("a class in a class")
        low, dangerous = self._point(first)
        if len(low) == 1 and self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", "-"):
            self._at += 1
            high, _ = self._point(False)
            if len(high) != 1 or high < low:
                raise self._error("a range in a class ends before it begins")
            return f"{re.escape(low)}-{re.escape(high)}", low <= "\n" <= high
        return (re.escape(low) if len(low) == 1 else low), dangerous

    def _point(self, first: bool) -> tuple[str, bool]:
        """A single character, or the source of several."""
        one = self._take()
        if one == "]" and not first:
            raise self._error("a class is not closed")
        if one != "\\":
            return self._no_newline(one), False
        one = self._take()
        match one:
            case "d" | "w":
                return f"\\{one}", False
            case "D" | "W" | "S":
                return f"\\{one}", True
            case "s":
                return _SPACE, True
            case "p":
                return self._property(), True
            case "P" | "b" | "B":
                raise self._unsupported(f"\\{one} in a class")
            case _:
                return self._character(one), False


@lru_cache(maxsize=16)
def _category_ranges(category: str) -> str:
    """All characters of a general category, as ranges of a class."""
    found, start = list[str](), -1
    for number in range(sys.maxunicode + 2):
        inside = number <= sys.maxunicode and unicodedata.category(chr(number)).startswith(category)
        if inside and start < 0:
            start = number
        elif not inside and start >= 0:
            found.append(f"\\U{start:08x}-\\U{number - 1:08x}")
            start = -1
    return "".join(found)
