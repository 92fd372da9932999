"""What a `.gitignore` says of a path, and what a glob matches. Pure: texts in, answers out.

Laws: `Rules` answers as git does, byte by byte. No pattern is slow: what a star takes is never given back, so that a hostile
file costs its length times the length of a name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import compress, islice, pairwise
from typing import NamedTuple

from toolglot.errors import ToolError

__all__ = [
    "POSIX_CLASSES",
    "BatchTest",
    "GlobFilter",
    "IgnoreRules",
    "IgnoreScope",
    "build_name_tests",
    "build_regex_test",
    "expand_braces",
    "glob_to_regex",
    "rebase_rules",
    "to_byte_key",
]

MAX_ALTERNATIVES = 256
MAX_RULES = 5000
MAX_GLOB_LENGTH, MAX_RULE_LENGTH = 1024, 4096
POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t-\\r", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_MATCH_NOTHING = "(?!)"
_SIMPLE_GLOB = re.compile(r"(\*?)([^*?\[\\/]+)", re.DOTALL)
Matcher = Callable[[str], object]
BatchTest = Callable[[list[str]], Iterable[object]]
"""Which of the texts pass: something true for each that does, in their order; nothing at all where none does."""


def to_byte_key(path: str) -> str:
    """A name or path as rules compare it: one character for each byte."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")


# ---- globs


class _InvalidGlob(ValueError):
    """A glob that matches nothing: a class without an end, a backslash before nothing."""


def _tokenize(pattern: str) -> Iterator[str]:
    """`/`, `*` and `?` as they are; anything else as the regex of one character."""
    at = 0
    while at < len(pattern):
        one = pattern[at]
        at += 1
        if one in "/*?":
            yield one
        elif one == "[":
            piece, at = _parse_class(pattern, at)
            yield piece
        elif one == "\\":
            if at == len(pattern):
                raise _InvalidGlob
            yield "/" if pattern[at] == "/" else re.escape(pattern[at])
            at += 1
        else:
            yield re.escape(one)


def _parse_class(pattern: str, at: int) -> tuple[str, int]:
    """The regex of a class whose bracket is behind us, and where it ends."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    members, first = "", True
    while first or pattern[at : at + 1] != "]":
        first = False
        if named := re.compile(r"\[:([^\]]*?):\]").match(pattern, at):
            if named[1] not in POSIX_CLASSES:
                raise _InvalidGlob
            members, at = members + POSIX_CLASSES[named[1]], named.end()
            continue
        low, at = _parse_member(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _parse_member(pattern, at + 1)
        if low <= high:
            members += f"{re.escape(low)}-{re.escape(high)}"
    if negated:
        return f"[^/{members}]", at + 1
    return f"(?!/)[{members}]" if members else _MATCH_NOTHING, at + 1


def _parse_member(pattern: str, at: int) -> tuple[str, int]:
    at += pattern[at : at + 1] == "\\"
    if at >= len(pattern):
        raise _InvalidGlob
    return pattern[at], at + 1


def glob_to_regex(pattern: str) -> str:
    """The regex of a glob without braces, for a whole path. `**` is any number of folders. It never goes back over a star."""
    try:
        parts: list[list[str]] = [[]]
        for token in _tokenize(pattern):
            parts.append([]) if token == "/" else parts[-1].append(token)
    except _InvalidGlob:
        return _MATCH_NOTHING
    runs: list[list[str]] = [[]]
    for part in parts:
        if len(part) > 1 and set(part) == {"*"}:
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            runs[-1].append(_component_regex(part))
    if len(runs) == 1:
        return "/".join(runs[0])
    head = "".join(f"{part}/" for part in runs[0])
    middle = "".join(f"(?>(?:[^/]+/)*?{'/'.join(run)}/)" for run in runs[1:-1])
    return head + middle + (f"(?:[^/]+/)*{'/'.join(runs[-1])}" if runs[-1] else ".+")


def _component_regex(part: list[str]) -> str:
    """One name of a path: what stands between two stars is found at its first place, which is always the best one."""
    chunks = [""]
    for token in part:
        if token != "*":
            chunks[-1] += "[^/]" if token == "?" else token
        elif chunks[-1] or len(chunks) == 1:
            chunks.append("")
    if len(chunks) == 1:
        return chunks[0]
    return chunks[0] + "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1]) + "[^/]*" + chunks[-1]


def build_name_tests(globs: Iterable[str]) -> list[BatchTest]:
    """Tests of names, one of which is true where any of the globs matches. Most globs are a name or an ending: no regex."""
    names, endings, others = set[str](), list[str](), list[str]()
    for glob in globs:
        simple = _SIMPLE_GLOB.fullmatch(glob)
        if simple is None:
            others.append(glob_to_regex(glob))
        elif simple[1]:
            endings.append(simple[2])
        else:
            names.add(simple[2])
    tests: list[BatchTest] = [lambda texts: () if names.isdisjoint(texts) else map(names.__contains__, texts)] if names else []
    if endings:
        ends = tuple(endings)
        tests.append(lambda texts: [text.endswith(ends) for text in texts])
    return tests + ([build_regex_test(others)] if others else [])


def build_regex_test(regexes: Iterable[str], flags: int = re.DOTALL) -> BatchTest:
    """The test whether a whole text matches any of the regexes."""
    matches = re.compile("|".join(f"(?:{regex})" for regex in regexes), flags).fullmatch
    return lambda texts: map(matches, texts)


def expand_braces(pattern: str) -> list[str]:
    """A glob with its braces spelled out: `*.{ts,tsx}` is two. Braces that do not pair are characters. Raises ToolError."""
    if len(pattern) > MAX_GLOB_LENGTH:
        raise ToolError(f"the glob {pattern[:60]!r}… is longer than {MAX_GLOB_LENGTH} characters", kind="validation")
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        found = _find_braces(one)
        if found is None:
            done.append(one)
        else:
            start, end, inside = found
            waiting += [one[:start] + choice + one[end:] for choice in reversed(inside)]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            why = f"its braces mean more than {MAX_ALTERNATIVES} globs"
            raise ToolError(f"the glob {pattern[:60]!r} is too wide: {why}; use a simpler one", kind="validation")
    return done


def _find_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first pair of braces: where it starts and ends, and what it offers."""
    opened: list[list[int]] = []
    closed: dict[int, list[int]] = {}
    at = 0
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                at += 1
            case "{":
                opened.append([at])
            case "," if opened:
                opened[-1].append(at)
            case "}" if opened:
                marks = opened.pop()
                closed[marks[0]] = [*marks, at]
            case _:
                pass
        at += 1
    if not closed:
        return None
    marks = closed[min(closed)]
    return marks[0], marks[-1] + 1, [pattern[a + 1 : b] for a, b in pairwise(marks)]


class GlobFilter:
    """Which files a list of globs lets through. The last one that matches decides; `!` before one lets nothing through.

    A glob without a slash is for a name in any folder. One with `!` is for folders too, with all that is below them. Where no
    glob lets anything through, all others pass.
    """

    def __init__(self, globs: Iterable[str]) -> None:
        self.patterns: list[tuple[bool, str]] = []
        for given in globs:
            negated = given.startswith("!")
            self.patterns += [(negated, one.removeprefix("./")) for one in expand_braces(given[negated:]) if one]
        self._rules = [(not negated, _compile_glob(to_byte_key(one))) for negated, one in self.patterns]
        self._default = not any(passes for passes, _ in self._rules)
        self._directory_cache: dict[str, bool] = {"": True}

    @classmethod
    def parse(cls, text: str) -> "GlobFilter":
        """Of one text: several globs are separated by commas outside of braces."""
        depth, start, found = 0, 0, list[str]()
        for at, one in enumerate(text):
            depth += (one == "{") - (one == "}" and depth > 0)
            if one == "," and not depth:
                found.append(text[start:at])
                start = at + 1
        return cls(one.strip() for one in (*found, text[start:]) if one.strip())

    def __bool__(self) -> bool:
        return bool(self._rules)

    def admits(self, path: str) -> bool:
        """Whether a file passes, by its path below the folder that the globs are for."""
        path = to_byte_key(path)
        return self._admits_directory(path.rpartition("/")[0]) and self._decide(path, self._default)

    def _admits_directory(self, directory: str) -> bool:
        known = self._directory_cache.get(directory)
        if known is None:
            known = self._admits_directory(directory.rpartition("/")[0]) and self._decide(directory, True)
            self._directory_cache[directory] = known
        return known

    def _decide(self, path: str, default: bool) -> bool:
        for passes, matches in reversed(self._rules):
            if matches(path):
                return passes
        return default


def _compile_glob(glob: str) -> Matcher:
    anchored = "/" in glob
    regex = glob_to_regex(glob.removeprefix("/"))
    return re.compile(regex if anchored else f"(?:[^/]+/)*{regex}", re.DOTALL).fullmatch


# ---- ignore files


class _Rule(NamedTuple):
    negated: bool
    directories_only: bool
    """Only for folders."""
    anchored: bool
    """For the path from where the file is; otherwise for the name."""
    glob: str


def _parse_rules(text: str) -> Iterator[_Rule]:
    for raw in islice(text.removeprefix("\xef\xbb\xbf").split("\n"), MAX_RULES):
        line = raw.removesuffix("\r")
        if line.startswith("#") or len(line) > MAX_RULE_LENGTH:
            continue
        line = _trim_trailing_spaces(line)
        negated = line.startswith("!")
        line = line[negated:]
        folders = line.endswith("/")
        line = line[: len(line) - folders]
        if line:
            yield _Rule(negated, folders, "/" in line, line.removeprefix("/"))


def _rule_to_regex(rule: _Rule) -> str:
    """Git compares what stands before the first sign by itself: a `**` right behind it is one that stands at the start."""
    found = re.fullmatch(r"([^*?\[\\]*[^*?\[\\/])\*\*+(?:/(.*))?", rule.glob, re.DOTALL) if rule.anchored else None
    if found is None:
        return glob_to_regex(rule.glob)
    return re.escape(found[1]) + (".*" if found[2] is None else f"(?:.*/)?{glob_to_regex(found[2])}")


def _trim_trailing_spaces(line: str) -> str:
    """Without spaces at its end; one behind a backslash stays."""
    end, at = None, 0
    while at < len(line):
        if line[at] == " ":
            end = at if end is None else end
        else:
            end = None
            at += line[at] == "\\"
        at += 1
    return line if end is None else line[:end]


_RuleMatcher = tuple[bool, Callable[[str], re.Match[str] | None], list[int]]
"""Whether it is for paths, all rules of a kind as one regex, and the number of the rule that each of its groups is."""


class IgnoreRules:
    """The rules of one ignore file; its text has one character for each byte."""

    def __init__(self, text: str) -> None:
        self._rules = list(_parse_rules(text))
        self.name_tests = build_name_tests(rule.glob for rule in self._rules if not rule.anchored)
        """A first look at all rules for names at once, in whatever folder. Most names are in none."""
        self._anchored_depths = {_rule_depth(rule) for rule in self._rules if rule.anchored}
        self._path_tests: dict[int | None, BatchTest | None] = {}
        self._matchers: tuple[list[_RuleMatcher], list[_RuleMatcher]] = [], []

    @classmethod
    @lru_cache(maxsize=512)
    def parse(cls, text: str) -> "IgnoreRules":
        """The same rules for the same text."""
        return cls(text)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def path_test(self, depth: int) -> BatchTest | None:
        """Whether any rule is about a path that is so many folders below the file; None: no rule is."""
        known = depth if depth in self._anchored_depths else None
        if known not in self._path_tests:
            regexes = [_rule_to_regex(rule) for rule in self._rules if rule.anchored and _rule_depth(rule) in (None, known)]
            self._path_tests[known] = build_regex_test(regexes) if regexes else None
        return self._path_tests[known]

    def decide(self, path: str, name: str, is_directory: bool) -> bool | None:
        """True: ignored; False: kept in spite of rules above; None: nothing is said. The path is from where the file is."""
        last = -1
        for anchored, decides, numbers in self._matchers[is_directory] or self._build_matchers(is_directory):
            found = decides(path if anchored else name)
            if found and (number := numbers[found.lastindex or 0]) > last:
                last = number
        return None if last < 0 else not self._rules[last].negated

    def _build_matchers(self, is_directory: bool) -> list[_RuleMatcher]:
        """The rules for names and those for paths, each as one regex: the last rule first, since it decides."""
        for anchored in (False, True):
            kind = [
                at
                for at, one in enumerate(self._rules)
                if one.anchored == anchored and (is_directory or not one.directories_only)
            ]
            if kind:
                source = "|".join(f"({_rule_to_regex(self._rules[at])})" for at in reversed(kind))
                self._matchers[is_directory].append((anchored, re.compile(source, re.DOTALL).fullmatch, [-1, *reversed(kind)]))
        return self._matchers[is_directory]


def _rule_depth(rule: _Rule) -> int | None:
    """How many folders down a path that it matches is; None: it can be any number."""
    return None if "**" in rule.glob or "[" in rule.glob else rule.glob.count("/")


class IgnoreScope:
    """The rules that hold in a folder: its own, and those of the folders above."""

    __slots__ = ("parent", "prefix_length", "rules")

    def __init__(self, rules: IgnoreRules, base: str, parent: "IgnoreScope | None") -> None:
        self.rules, self.parent = rules, parent
        self.prefix_length = len(base) + 1 if base else 0

    def find_candidates(self, prefix: str, names: list[str]) -> set[int]:
        """Which of the names in a folder (a path with a slash at its end) any rule may be about: mostly few are."""
        found: set[int] = set()
        numbers = range(len(names))
        scope: IgnoreScope | None = self
        while scope is not None:
            for test in scope.rules.name_tests:
                found.update(compress(numbers, test(names)))
            local = prefix[scope.prefix_length :]
            if test := scope.rules.path_test(local.count("/")):
                found.update(compress(numbers, test([local + name for name in names])))
            scope = scope.parent
        return found

    def ignores(self, path: str, name: str, is_directory: bool) -> bool:
        """Whether a path from the root is ignored, given that the folders above it are not. All as keys."""
        scope: IgnoreScope | None = self
        while scope is not None:
            said = scope.rules.decide(path[scope.prefix_length :], name, is_directory)
            if said is not None:
                return said
            scope = scope.parent
        return False


def rebase_rules(text: str, base: str) -> Iterator[str]:
    """The rules of the ignore file in `base`, as lines of one at the root."""
    prefix = "".join(f"{_escape_glob(name)}/" for name in base.split("/")) if base else ""
    for rule in _parse_rules(text):
        anywhere = "" if rule.anchored else "**/"
        yield f"{'!' * rule.negated}/{prefix}{anywhere}{rule.glob}{'/' * rule.directories_only}"


def _escape_glob(name: str) -> str:
    return re.sub(r"([\\*?\[\]{} ])", r"\\\1", name)
