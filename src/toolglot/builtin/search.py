"""Looking through folders by handles, and lines that match without any other program.

Laws: a folder is opened beneath its root, a file by its name in an open folder, and no link is followed. The patterns are
ripgrep's; what Python reads differently is translated, and what it cannot say is refused in one sentence. Matching is done in a
process of its own (`worker`): a regex that never ends is killed with it, and nothing of the caller waits.
"""

import json
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from toolglot.builtin.beneath import PATH_ONLY, open_beneath
from toolglot.builtin.ignore import Globs, Rules, Scope, as_key
from toolglot.errors import ToolError

__all__ = ["VCS", "Folder", "Regex", "Walk", "read_small", "rules_above", "translated", "worker"]

VCS = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""What version control keeps for itself: never looked through, unless it is the folder that was asked for."""
EXTRA = (".aiignore", ".geminiignore", ".qwenignore", ".cursorignore", ".ignore")
"""Files at the root that say what models should not be shown, in the language of `.gitignore`."""
_GIT = frozenset({".git", ".gitignore"})
MOST_ENTRIES = 2_000_000
MOST_IN_FOLDER = 500_000
LARGEST_IGNORE = 1 << 20
LARGEST_FILE = 100 << 20
BINARY_HEAD = 1 << 16  # a zero byte in here makes a file binary
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# ---- folders


_Entries = list[os.DirEntry[str]]


class Folder(NamedTuple):
    """One folder that is open: what is in it. Entries are good until the walk goes on; folders taken out are not entered."""

    path: str
    handle: int
    files: list[os.DirEntry[str]]
    folders: list[os.DirEntry[str]]
    others: list[os.DirEntry[str]]
    """Links, pipes, sockets, devices."""
    ignored: list[os.DirEntry[str]]


class Walk:
    """The folders below a folder, in the order of their paths. `git`, `extra`: whether ignore files are obeyed.

    `missed`: folders that could not be opened. `ended`: it stopped before the end, for so many entries.
    """

    def __init__(self, root: int, start: str, *, git: bool = True, extra: bool = True, skip: frozenset[str] = VCS) -> None:
        self._root, self._start, self._git, self._skip = root, start.strip("/"), git, skip
        self._above = rules_above(root, self._start) if git else None
        self._extra = extra_rules(root) if extra else None
        self._special = skip | _GIT
        self.seen = self.missed = 0
        self.ended = False

    def __iter__(self) -> Iterator[Folder]:
        waiting: list[tuple[str, Scope | None]] = [(self._start, self._above)]
        while waiting:
            path, scope = waiting.pop()
            try:
                handle = open_beneath(self._root, path, _DIRECTORY)
            except OSError:
                self.missed += 1
                continue
            try:
                folder, scope = self._looked(path, handle, scope)
                yield folder
            finally:
                os.close(handle)
            prefix = f"{path}/" if path else ""
            waiting += [(prefix + entry.name, scope) for entry in sorted(folder.folders, key=_by_name, reverse=True)]
            if self.seen > MOST_ENTRIES:
                self.ended = True
                return

    def _looked(self, path: str, handle: int, scope: Scope | None) -> tuple[Folder, Scope | None]:
        try:
            with os.scandir(handle) as found:
                entries = list(islice(found, MOST_IN_FOLDER))
        except OSError:
            entries = []
            self.missed += 1
        self.seen += len(entries)
        key = as_key(path)
        names = [entry.name for entry in entries]
        skipped: set[int] = set()
        if not self._special.isdisjoint(names):
            skipped = {number for number, name in enumerate(names) if name in self._skip}
            scope = self._own(handle, key, scope, names) if self._git else scope
        out = skipped | self._ignored(entries, names, f"{key}/" if key else "", [one for one in (scope, self._extra) if one])
        kept, ignored = entries, list[os.DirEntry[str]]()
        if out:
            kept = [entry for number, entry in enumerate(entries) if number not in out]
            ignored = [entries[number] for number in sorted(out)]
        files = [entry for entry in kept if entry.is_file(follow_symlinks=False)]
        folders: _Entries = []
        others: _Entries = []
        if len(files) < len(kept):
            for entry in kept:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry)
                elif not entry.is_file(follow_symlinks=False):
                    others.append(entry)
        return Folder(path, handle, files, folders, others, ignored), scope

    def _ignored(self, entries: _Entries, names: list[str], prefix: str, scopes: list[Scope]) -> set[int]:
        """Which of a folder's entries rules ignore. Few are in any rule: they are found at once."""
        out: set[int] = set()
        if scopes and not "".join(names).isascii():
            names = [as_key(name) for name in names]
        for scope in scopes:
            for number in scope.mentioned(prefix, names) - out:
                name, is_folder = names[number], entries[number].is_dir(follow_symlinks=False)
                if scope.ignores(prefix + name, name, is_folder):
                    out.add(number)
        return out

    def _own(self, handle: int, key: str, scope: Scope | None, names: list[str]) -> Scope | None:
        """The scope in a folder: a repository of its own does not know the rules above it."""
        if ".git" in names and key != as_key(self._start):
            scope = self._above
        if ".gitignore" in names and (rules := _rules_in(handle, ".gitignore")):
            scope = Scope(rules, key, scope)
        return scope


def _by_name(entry: os.DirEntry[str]) -> str:
    return entry.name + "/"


def ignore_texts(root: int, start: str) -> list[tuple[str, str]]:
    """The git ignore files above a folder: where each is and its text, the weakest first."""
    found: list[tuple[str, str]] = []
    names = start.split("/") if start else []
    if text := _text_at(root, ".git/info/exclude"):
        found.append(("", text))
    for at in range(len(names) + 1):
        path = "/".join(names[:at])
        prefix = f"{path}/" if path else ""
        if path and status_of(root, f"{prefix}.git"):
            found.clear()
        if at < len(names) and (text := _text_at(root, f"{prefix}.gitignore")):
            found.append((as_key(path), text))
    return found


def rules_above(root: int, start: str) -> Scope | None:
    """The rules that hold for a folder before its own."""
    scope: Scope | None = None
    for base, text in ignore_texts(root, start):
        if rules := Rules.of(text):
            scope = Scope(rules, base, scope)
    return scope


def extra_texts(root: int) -> list[str]:
    """The texts of the extra ignore files of a root."""
    return [text for name in EXTRA if (text := _text_at(root, name))]


def extra_rules(root: int) -> Scope | None:
    """What the extra ignore files of a root say."""
    scope: Scope | None = None
    for text in extra_texts(root):
        scope = Scope(Rules.of(text), "", scope)
    return scope


def _rules_in(folder: int, name: str) -> Rules | None:
    try:
        data = read_small(folder, name, LARGEST_IGNORE)
    except OSError:
        return None
    return Rules.of(data.decode("latin-1")) if data else None


def _text_at(root: int, path: str) -> str:
    """A file below a root; "" where there is none."""
    try:
        handle = open_beneath(root, path, _FILE)
    except OSError:
        return ""
    try:
        return _read(handle, LARGEST_IGNORE).decode("latin-1")
    except OSError:
        return ""
    finally:
        os.close(handle)


def status_of(root: int, path: str) -> os.stat_result | None:
    """What is known of a file below a root, if it is there and no link leads to it."""
    try:
        handle = open_beneath(root, path, PATH_ONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def read_small(folder: int, name: str, most: int) -> bytes:
    """The bytes of a regular file in an open folder; none of one that is larger. Raises OSError."""
    handle = os.open(name, _FILE, dir_fd=folder)
    try:
        return _read(handle, most)
    finally:
        os.close(handle)


def _read(handle: int, most: int) -> bytes:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return b""
    data = os.read(handle, BINARY_HEAD)
    if len(data) < BINARY_HEAD:
        return data
    parts, size = [data], len(data)
    while size <= most and (data := os.read(handle, 1 << 20)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


# ---- patterns


class Regex(NamedTuple):
    """A pattern of ripgrep's as one of Python's. `literal`: bytes that stand in every match, or none."""

    source: str
    literal: str


_LOST = "\udc80-\udcff"  # bytes that are no UTF-8: nothing of ripgrep's matches them
_SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_SIMPLE = {"n": "\\n", "r": "\\r", "t": "\\t", "f": "\\f", "v": "\\v", "a": "\\a"}
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t-\\r ",
    "upper": "A-Z",
    "word": "a-zA-Z0-9_",
    "xdigit": "0-9a-fA-F",
}
_CATEGORIES = {
    "letter": "L", "lowercase_letter": "Ll", "uppercase_letter": "Lu", "titlecase_letter": "Lt", "mark": "M", "number": "N",
    "decimal_number": "Nd", "punctuation": "P", "symbol": "S", "separator": "Z", "space_separator": "Zs", "other": "C",
    "lowercase": "Ll", "uppercase": "Lu", "alphabetic": "L", "alpha": "L", "currency_symbol": "Sc", "math_symbol": "Sm",
}  # fmt: skip
_KNOWN_CATEGORIES = frozenset(
    (
        *("L", "Ll", "Lu", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi"),
        *("Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf"),
    )
)
_DEEPEST = 100
_LONGEST = 10_000
_QUANTIFIER = re.compile(r"\{\s*(\d{1,4})(?:\s*(,)\s*(\d{1,4})?)?\s*\}")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xuU]\{([0-9a-fA-F]{1,8})\}")
_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


def translated(pattern: str, *, literal: bool = False, ignore_case: bool = False, multiline: bool = False) -> Regex:
    """A pattern of ripgrep's for Python's `re` with MULTILINE. Raises ToolError, where it is wrong or cannot be said."""
    if len(pattern) > _LONGEST:
        raise ToolError(f"the pattern is longer than {_LONGEST} characters", kind="validation")
    if literal:
        return Regex(re.escape(pattern), "" if ignore_case else pattern)
    source = _Translation(pattern, ignore_case, multiline).whole()
    return Regex(source, "" if ignore_case else _required(pattern))


def _required(pattern: str) -> str:
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

    def whole(self) -> str:
        source = self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("a ')' closes no group")
        return source

    def _wrong(self, why: str) -> ToolError:
        return ToolError(f"the pattern {self._text[:80]!r} is not a regex: {why}", kind="validation")

    def _beyond(self, what: str) -> ToolError:
        said = f"the pattern {self._text[:80]!r} uses {what}, which needs ripgrep (rg), and it is not installed"
        return ToolError(f"{said}; write it in another way", kind="validation")

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise self._wrong("it ends too early")
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
            raise self._wrong(f"its groups are more than {_DEEPEST} deep")
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
                    raise self._wrong("a '{' stands for itself as '\\{'")
                self._at = found.end()
                low, comma, high = found[1], found[2] or "", found[3] or ""
                if high and int(high) < int(low):
                    raise self._wrong(f"{found[0]} counts down")
                self._repeat(pieces, f"{{{low}{comma}{high}}}")
            case "(":
                self._group(pieces)
            case "[":
                pieces.append(self._cased(self._class()))
            case ".":
                pieces.append(self._dot[self._dotall])
            case "^" | "$":
                pieces.append(one)
            case "\\":
                pieces.append(self._escape())
            case _:
                self._no_newline(one)
                pieces.append(self._cased(re.escape(one)))

    def _no_newline(self, one: str) -> None:
        if one == "\n" and not self._multiline:
            raise self._wrong("a line holds no line end; set multiline to true")

    def _repeat(self, pieces: list[str], how: str) -> None:
        if not pieces or pieces[-1] == "":
            raise self._wrong(f"there is nothing before {how!r} to repeat")
        lazy = "?" if self._next("?") else ""
        pieces[-1] = f"(?:{pieces[-1]}){how}{lazy}"

    def _cased(self, source: str) -> str:
        if self._case == self._globally:
            return source
        return f"(?i:{source})" if self._case else f"(?-i:{source})"

    def _group(self, pieces: list[str]) -> None:
        if self._next("?"):
            if re.compile(r"<?[=!]").match(self._text, self._at):
                raise self._wrong("there is no looking ahead or behind")
            self._at -= 1
            if name := re.compile(r"\?P?<[A-Za-z_][\w.\[\]]*>").match(self._text, self._at):
                self._at = name.end()
            elif flags := _FLAGS.match(self._text, self._at):
                self._at = flags.end()
                before = self._case, self._dotall
                self._set(flags[1], flags[2] or "")
                if flags[3] == ")":
                    pieces.append("")  # nothing that could be repeated
                    return
                pieces.append(self._closed())
                self._case, self._dotall = before
                return
            else:
                raise self._wrong("'(?' begins no group that is known")
        pieces.append(self._closed())

    def _closed(self) -> str:
        inside = self._alternatives()
        if not self._next(")"):
            raise self._wrong("a group is not closed")
        return f"(?:{inside})"

    def _set(self, on: str, off: str) -> None:
        if not on and not off and self._text[self._at - 1] == ")":
            raise self._wrong("'(?)' sets nothing")
        for flag, value in [*((one, True) for one in on), *((one, False) for one in off)]:
            match flag:
                case "i":
                    self._case = value
                case "s":
                    self._dotall = value
                case "u" | "m" if value:
                    pass
                case "u" | "m" | "x" | "U" | "R":
                    raise self._beyond(f"the flag {flag!r}")
                case _:
                    raise self._wrong(f"there is no flag {flag!r}")

    def _escape(self) -> str:
        one = self._take()
        match one:
            case "d":
                return "\\d"
            case "w":
                return "\\w"
            case "s":
                return f"(?:{self._never}[{_SPACE}])"
            case "D" | "W":
                return f"(?:{self._never}\\{one})"
            case "S":
                return f"(?:{self._never}[^{_SPACE}])"
            case "b" | "B":
                if re.compile(r"\{[a-z]").match(self._text, self._at):
                    raise self._beyond(f"\\{one}{{…}}")
                return f"\\{one}"
            case "A":
                return "\\A" if self._multiline else "^"
            case "z":
                return "\\Z" if self._multiline else "$"
            case "p" | "P":
                return self._cased(f"(?:{self._never}[{'^' if one == 'P' else ''}{self._property()}])")
            case _:
                return self._cased(self._character(one))

    def _character(self, one: str) -> str:
        """The one character that an escape is."""
        if one in _SIMPLE:
            self._no_newline("\n" if one == "n" else "")
            return _SIMPLE[one]
        if found := _HEX.match(self._text, self._at - 1):
            self._at = found.end()
            number = int(next(group for group in found.groups() if group), 16)
            if number > sys.maxunicode or 0xD800 <= number <= 0xDFFF:
                raise self._wrong(f"\\{found[0]} is no character")
            self._no_newline(chr(number))
            return re.escape(chr(number))
        if one.isascii() and not one.isalnum() and one not in "<>" and not one.isspace():
            return re.escape(one)
        hints = {"h": "; write [ \\t] or [0-9a-fA-F]", "Z": "; write \\z", "1": ": what a group found is not known later"}
        raise self._wrong(f"\\{one} means nothing{hints.get(one, '')}")

    def _property(self) -> str:
        one = self._take()
        if one == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._wrong("\\p{ is not closed")
            one, self._at = self._text[self._at : end], end + 1
        name = _CATEGORIES.get(one.lower().replace(" ", "_"), one)
        if name not in _KNOWN_CATEGORIES:
            raise self._beyond(f"\\p{{{one}}}")
        return _ranges(name)

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
            raise self._beyond("classes that are cut with each other")
        if named := re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at):
            if named[1] or named[2] not in _POSIX:
                raise self._beyond(f"the class {named[0]}")
            self._at = named.end()
            return _POSIX[named[2]], named[2] in ("ascii", "cntrl", "space")
        if self._text.startswith("[", self._at):
            raise self._beyond("a class in a class")
        low, dangerous = self._point(first)
        if len(low) == 1 and self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", "-"):
            self._at += 1
            high, _ = self._point(False)
            if len(high) != 1 or high < low:
                raise self._wrong("a range in a class ends before it begins")
            return f"{re.escape(low)}-{re.escape(high)}", low <= "\n" <= high
        return (re.escape(low) if len(low) == 1 else low), dangerous

    def _point(self, first: bool) -> tuple[str, bool]:
        """A single character, or the source of several."""
        one = self._take()
        if one == "]" and not first:
            raise self._wrong("a class is not closed")
        if one != "\\":
            self._no_newline(one)
            return one, False
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
                raise self._beyond(f"\\{one} in a class")
            case _:
                source = self._character(one)
                return _plain_character(source), False


def _plain_character(source: str) -> str:
    """The character that an escaped one is."""
    if len(source) == 2 and source[1] in _SIMPLE:
        return {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}[source[1]]
    return source[-1]


@lru_cache(maxsize=16)
def _ranges(category: str) -> str:
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


# ---- matching


class _Lines:
    """The lines of one file that match: at most so many."""

    def __init__(self, regex: re.Pattern[str], but: re.Pattern[str] | None, most: int, multiline: bool) -> None:
        self._regex, self._but, self._most, self._multiline = regex, but, most, multiline

    def of(self, text: str) -> list[tuple[int, str, list[tuple[int, int]]]]:
        """Line number, text without its end, and where in it the pattern was found."""
        found: list[tuple[int, str, list[tuple[int, int]]]] = []
        number, counted = 1, 0
        for start, end, spans in self._blocks(text) if self._multiline else self._single(text):
            if self._but is not None and self._but.search(text, start, end):
                continue
            number += text.count("\n", counted, start)
            counted = start
            found.append((number, text[start:end], spans))
            if len(found) >= self._most:
                break
        return found

    def _single(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        at, size = 0, len(text)
        search = self._regex.search
        while at < size and (hit := search(text, at)):
            start = text.rfind("\n", 0, hit.start()) + 1
            if start >= size:
                return
            end = text.find("\n", hit.start())
            end = size if end < 0 else end
            yield start, end, [(one.start() - start, one.end() - start) for one in self._each(text, start, end)]
            at = end + 1

    def _each(self, text: str, at: int, end: int) -> Iterator[re.Match[str]]:
        """The matches one after the other; behind an empty one the next begins a character later."""
        while at <= end and (hit := self._regex.search(text, at, end)):
            yield hit
            at = hit.end() + (hit.end() == hit.start())

    def _blocks(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Each line that a match touches, once, with the part of the match that is in it."""
        size, waiting = len(text), list[tuple[int, int]]()
        last: tuple[int, int] | None = None
        for hit in self._each(text, 0, size):
            start = text.rfind("\n", 0, hit.start()) + 1
            if start >= size:
                break
            stop = hit.end() if hit.end() > hit.start() else hit.start() + 1
            while start < stop:
                end = text.find("\n", start)
                end = size if end < 0 else end
                if last is not None and start > last[0]:
                    yield *last, waiting
                    waiting = []
                if last is None or start > last[0]:
                    last = (start, end)
                waiting.append((max(hit.start() - start, 0), min(hit.end(), end) - start))
                start = end + 1
        if last is not None:
            yield *last, waiting


def shown(text: str) -> str:
    """A text with lost bytes as the sign for them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def worker() -> None:
    """The life of a process that matches: a task on stdin, one line of JSON for each file with matches on stdout."""
    write = sys.stdout.buffer.write
    matched(json.loads(sys.stdin.buffer.read()), lambda said: write(json.dumps(said).encode() + b"\n"))
    sys.stdout.flush()


Say = Callable[[dict[str, Any]], object]


def matched(task: dict[str, Any], say: Say) -> None:
    """Does a task: says each file with matches, and at last how it went."""
    try:
        flags = re.MULTILINE | (re.IGNORECASE if task["ignore_case"] else 0)
        regex = re.compile(task["source"], flags)
        but = re.compile(task["exclude"], flags) if task["exclude"] else None
    except (re.error, OverflowError, RecursionError) as e:
        say({"error": str(e)})
        return
    walk = Walk(task["root"], task["start"], git=task["git"], extra=task["git"])
    _match_all(walk, _Lines(regex, but, task["most"], task["multiline"]), task, say)
    say({"missed": walk.missed, "ended": walk.ended})


def _match_all(walk: Walk, lines: _Lines, task: dict[str, Any], say: Say) -> None:
    literal = task["literal"].encode("utf-8", "surrogateescape")
    if task["file"]:
        handle = open_beneath(task["root"], task["file"], _FILE)
        try:
            _match(task["file"], _read(handle, LARGEST_FILE), literal, lines, say, task["with_lines"])
        finally:
            os.close(handle)
        return
    include, kinds = Globs(task["include"]), Globs(task["kinds"])
    cut = len(task["start"]) + 1 if task["start"] else 0
    for folder in walk:
        prefix = f"{folder.path}/" if folder.path else ""
        for entry in folder.files:
            path = prefix + entry.name
            if (include and not include.admits(path[cut:])) or (kinds and not kinds.admits(entry.name)):
                continue
            try:
                data = read_small(folder.handle, entry.name, LARGEST_FILE)
            except OSError:
                continue
            _match(path, data, literal, lines, say, task["with_lines"])


def _match(path: str, data: bytes, literal: bytes, lines: _Lines, say: Say, with_lines: bool) -> None:
    if literal and literal not in data:
        return
    zero = data.find(b"\0")
    if 0 <= zero < BINARY_HEAD:
        return
    text = (data if zero < 0 else data[:zero]).decode("utf-8", "surrogateescape")
    if found := lines.of(text):
        say({"path": path, "count": len(found), "lines": _told(found) if with_lines else []})


def _told(found: list[tuple[int, str, list[tuple[int, int]]]]) -> list[Any]:
    """Number, text, what was found in it, and where the first of that begins."""
    return [
        [number, shown(text), [shown(text[a:b]) for a, b in spans if b > a], len(shown(text[: spans[0][0]])) if spans else 0]
        for number, text, spans in found
    ]
