"""Globs: as regular expressions, as fast tests of many names, and as filters of files. Pure.

No glob is slow to match: the regular expressions never backtrack over a star, so that the cost of a hostile
pattern is at most its length times the length of a name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from toolglot.errors import ToolError

__all__ = [
    "BatchTest",
    "GlobFilter",
    "build_name_tests",
    "build_regex_test",
    "expand_braces",
    "glob_to_regex",
    "invalid_glob_error",
    "to_byte_key",
]

MAX_ALTERNATIVES = 256
MAX_GLOB_LENGTH = 1024
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t-\\r", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_MEMBER = re.compile(r"\[:([^\]]*?):\]|(\\.|.)(?:-(\\.|.))?", re.DOTALL)  # of a character class
_CHAR = r"(?:\\.|[^\]\\])"
_CLASS_ITEM = rf"(?>\[:[^\]]*?:\]|{_CHAR}(?:-{_CHAR})?)"
# a first `]` is a member
_CLASS = rf"\[(?P<negation>[!^]?+)(?P<members>(?>\](?:-{_CHAR})?|{_CLASS_ITEM}){_CLASS_ITEM}*+)\]"
_TOKEN = re.compile(rf"{_CLASS}|\\(?P<escaped>.)|(?P<char>[^\\\[])", re.DOTALL)
_MATCH_NOTHING = "(?!)"
_SIMPLE_GLOB = re.compile(r"(\*?)([^*?\[\\/]+)", re.DOTALL)
BatchTest = Callable[[list[str]], Iterable[object]]
"""Tests many texts at once: returns a truthy value for each text that passes, in order, or nothing at all if
none does."""


def to_byte_key(path: str) -> str:
    """Return a name or path with one character per byte: git compares bytes, whatever their encoding."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")


def invalid_glob_error(glob: str, reason: str) -> ToolError:
    """Return the error for a glob that cannot be used."""
    return ToolError(f"the glob {glob[:80]!r} {reason}", kind="validation", code="invalid_pattern")


# ---- one glob as a regular expression


class _InvalidGlob(ValueError):
    """A glob that matches nothing: an unclosed character class, or a trailing backslash."""


def glob_to_regex(pattern: str) -> str:
    """Return a regular expression for whole paths.

    `**` is any number of directories; braces are not special.
    """
    try:
        parts: list[list[str]] = [[]]
        for token in _tokenize(pattern):
            if token == "/":
                parts.append([])
            else:
                parts[-1].append(token)
    except _InvalidGlob:
        return _MATCH_NOTHING
    runs: list[list[str]] = [[]]  # the components between two `**`
    for part in parts:
        if len(part) > 1 and set(part) == {"*"}:
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            runs[-1].append(_component_to_regex(part))
    if len(runs) == 1:
        return "/".join(runs[0])
    head = "".join(f"{part}/" for part in runs[0])
    middle = "".join(f"(?>(?:[^/]+/)*?{'/'.join(run)}/)" for run in runs[1:-1])
    tail = f"(?:[^/]+/)*{'/'.join(runs[-1])}" if runs[-1] else ".+"
    return head + middle + tail


def _component_to_regex(part: list[str]) -> str:
    # What stands between two stars is matched at its first occurrence, which is always the best one: the
    # atomic groups `(?>…)` keep the engine from trying any other.
    chunks = [""]
    for token in part:
        if token == "?":
            chunks[-1] += "[^/]"
        elif token != "*":
            chunks[-1] += token
        elif chunks[-1] or len(chunks) == 1:
            chunks.append("")
    if len(chunks) == 1:
        return chunks[0]
    return chunks[0] + "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1]) + "[^/]*" + chunks[-1]


def _tokenize(pattern: str) -> Iterator[str]:
    """Yield `/`, `*` and `?` as they are, anything else as a regular expression for one character."""
    index = 0
    while index < len(pattern):
        token = _TOKEN.match(pattern, index)
        if token is None:
            raise _InvalidGlob
        index = token.end()
        if token["members"]:
            yield _class_to_regex(token["members"], negated=bool(token["negation"]))
        elif token["escaped"] == "/" or token["char"] in ("/", "*", "?"):
            yield token["char"] or "/"
        else:
            yield re.escape(token["char"] or token["escaped"])


def _class_to_regex(text: str, *, negated: bool) -> str:
    members = ""
    for name, low, high in _MEMBER.findall(text):
        if not low:
            if name not in _POSIX_CLASSES:
                raise _InvalidGlob
            members += _POSIX_CLASSES[name]
            continue
        first, last = low[-1:], (high or low)[-1:]  # without the backslash
        if first <= last:
            members += f"{re.escape(first)}-{re.escape(last)}"
    if negated:
        return f"[^/{members}]"
    return f"(?!/)[{members}]" if members else _MATCH_NOTHING


# ---- many names at once


def build_name_tests(globs: Iterable[str]) -> list[BatchTest]:
    """Return tests of which one passes if any glob matches.

    Most globs are a name or a suffix and need no regex.
    """
    names, suffixes, regexes = set[str](), list[str](), list[str]()
    for glob in globs:
        simple = _SIMPLE_GLOB.fullmatch(glob)
        if simple is None:
            regexes.append(glob_to_regex(glob))
        elif simple[1]:
            suffixes.append(simple[2])
        else:
            names.add(simple[2])
    tests: list[BatchTest] = []
    if names:
        tests.append(lambda texts: () if names.isdisjoint(texts) else map(names.__contains__, texts))
    if suffixes:
        endings = tuple(suffixes)
        tests.append(lambda texts: [text.endswith(endings) for text in texts])
    if regexes:
        tests.append(build_regex_test(regexes))
    return tests


def build_regex_test(regexes: Iterable[str], flags: int = re.DOTALL) -> BatchTest:
    """Return the test whether a whole text matches any of the regular expressions."""
    fullmatch = re.compile("|".join(f"(?:{regex})" for regex in regexes), flags).fullmatch
    return lambda texts: map(fullmatch, texts)


# ---- lists of globs


def expand_braces(pattern: str) -> list[str]:
    """Spell out the braces of a glob: `*.{ts,tsx}` is two globs.

    Unpaired braces are characters. Raises ToolError.
    """
    if len(pattern) > MAX_GLOB_LENGTH:
        raise invalid_glob_error(pattern, f"is longer than {MAX_GLOB_LENGTH} characters")
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        glob = pending.pop()
        braces = _find_braces(glob)
        if braces is None:
            expanded.append(glob)
        else:
            start, end, choices = braces
            pending += [glob[:start] + choice + glob[end:] for choice in reversed(choices)]
        if len(expanded) + len(pending) > MAX_ALTERNATIVES:
            raise invalid_glob_error(
                pattern, f"expands to more than {MAX_ALTERNATIVES} globs; use a simpler one"
            )
    return expanded


def _find_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Return the start, end and choices of the first pair of braces."""
    open_pairs: list[list[int]] = []
    closed: dict[int, list[int]] = {}
    for mark in re.finditer(r"\\.?|[{},]", pattern, re.DOTALL):
        if mark[0] == "{":
            open_pairs.append([mark.start()])
        elif mark[0] in ",}" and open_pairs:
            open_pairs[-1].append(mark.start())
            if mark[0] == "}":
                marks = open_pairs.pop()
                closed[marks[0]] = marks
    if not closed:
        return None
    marks = closed[min(closed)]
    return marks[0], marks[-1] + 1, [pattern[a + 1 : b] for a, b in pairwise(marks)]


class GlobFilter:
    """Which files a list of globs admits. The last glob that matches decides; a leading `!` excludes.

    A glob without a slash applies to names in any directory. An excluding glob applies to directories, too,
    with everything below them. If all globs exclude, everything else is admitted.
    """

    def __init__(self, globs: Iterable[str]) -> None:
        self.patterns: list[tuple[bool, str]] = []
        """(whether it excludes, glob without braces)"""
        for text in globs:
            negated = text.startswith("!")
            self.patterns += [
                (negated, glob.removeprefix("./")) for glob in expand_braces(text.removeprefix("!")) if glob
            ]
        self._rules: list[tuple[bool, Callable[[str], object]]] = []
        for negated, glob in self.patterns:
            regex = glob_to_regex(to_byte_key(glob).removeprefix("/"))
            source = regex if "/" in glob else f"(?:[^/]+/)*{regex}"
            self._rules.append((not negated, re.compile(source, re.DOTALL).fullmatch))
        self._default = not any(admits for admits, _ in self._rules)
        self._directory_cache: dict[str, bool] = {"": True}

    @classmethod
    def parse(cls, text: str) -> "GlobFilter":
        """Read globs that are separated by commas outside of braces."""
        depth, start, globs = 0, 0, list[str]()
        for index, char in enumerate(text):
            if char == "{":
                depth += 1
            elif char == "}":
                depth = max(depth - 1, 0)
            elif char == "," and depth == 0:
                globs.append(text[start:index])
                start = index + 1
        globs.append(text[start:])
        return cls(filter(None, map(str.strip, globs)))

    @property
    def globs(self) -> list[str]:
        """The globs without braces, as texts from which an equal filter can be made."""
        return [f"{'!' * negated}{glob}" for negated, glob in self.patterns]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def admits(self, path: str) -> bool:
        """Tell whether a file passes, by its path relative to the directory that the globs are for."""
        path = to_byte_key(path)
        return self._admits_directory(path.rpartition("/")[0]) and self._decide(path, self._default)

    def _admits_directory(self, directory: str) -> bool:
        admitted = self._directory_cache.get(directory)
        if admitted is None:
            admitted = self._admits_directory(directory.rpartition("/")[0]) and self._decide(directory, True)
            self._directory_cache[directory] = admitted
        return admitted

    def _decide(self, path: str, default: bool) -> bool:
        return next((admits for admits, matches in reversed(self._rules) if matches(path)), default)
