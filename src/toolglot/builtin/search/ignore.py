"""The rules of ignore files such as `.gitignore`: what they say about a path. Pure.

`IgnoreRules` decides as git does, byte by byte (see gitignore(5)).
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from itertools import compress, islice
from typing import NamedTuple

from toolglot.builtin.search.globs import BatchTest, build_name_tests, build_regex_test, glob_to_regex

__all__ = ["IgnoreRules", "IgnoreScope", "rebase_rules"]

MAX_RULES = 5000
MAX_RULE_LENGTH = 4096
# a backslash keeps the space after it
_TRAILING_SPACES = re.compile(r"((?: *(?:\\.?|[^ \\]))*) *", re.DOTALL)
_LITERAL_START = re.compile(r"([^*?\[\\]*[^*?\[\\/])\*\*+(?:/(.*))?", re.DOTALL)


class _Rule(NamedTuple):
    negated: bool
    directories_only: bool
    anchored: bool
    """It applies to the path relative to the ignore file; otherwise to the name."""
    glob: str

    @property
    def depth(self) -> int | None:
        """The number of slashes in the paths that an anchored rule matches; None if that varies."""
        return None if "**" in self.glob or "[" in self.glob else self.glob.count("/")

    @property
    def regex(self) -> str:
        # Git compares everything before the first special character literally, so that a `**` right after it
        # acts as if it stood at the start of a pattern.
        literal = _LITERAL_START.fullmatch(self.glob)
        if literal is None or not self.anchored:
            return glob_to_regex(self.glob)
        if literal[2] is None:
            return re.escape(literal[1]) + ".*"
        return f"{re.escape(literal[1])}(?:.*/)?{glob_to_regex(literal[2])}"


def _parse_rules(text: str) -> Iterator[_Rule]:
    for raw in islice(text.removeprefix("\xef\xbb\xbf").split("\n"), MAX_RULES):
        line = raw.removesuffix("\r")
        if line.startswith("#") or len(line) > MAX_RULE_LENGTH:
            continue
        line = _TRAILING_SPACES.sub(r"\1", line)
        negated = line.startswith("!")
        line = line[negated:]
        directories_only = line.endswith("/")
        line = line[: len(line) - directories_only]
        if line:
            yield _Rule(negated, directories_only, "/" in line, line.removeprefix("/"))


class IgnoreRules:
    """The rules of one ignore file; its text has one character per byte."""

    def __init__(self, text: str) -> None:
        self._rules = list(_parse_rules(text))
        self.name_tests = build_name_tests(rule.glob for rule in self._rules if not rule.anchored)
        """Quick tests whether any rule mentions a name. Most names are in none."""
        self._anchored_depths = {rule.depth for rule in self._rules if rule.anchored}
        self._path_tests: dict[int | None, BatchTest | None] = {}

    @classmethod
    @lru_cache(maxsize=512)
    def parse(cls, text: str) -> "IgnoreRules":
        """Return the rules of a text; the same object for the same text."""
        return cls(text)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def path_test(self, depth: int) -> BatchTest | None:
        """Return a quick test whether any rule mentions a path with this many slashes; None if no rule can."""
        known_depth = depth if depth in self._anchored_depths else None
        if known_depth not in self._path_tests:
            regexes = [
                rule.regex for rule in self._rules if rule.anchored and rule.depth in (None, known_depth)
            ]
            self._path_tests[known_depth] = build_regex_test(regexes) if regexes else None
        return self._path_tests[known_depth]

    @cached_property
    def _matchers(self) -> list[tuple[_Rule, Callable[[str], object]]]:
        """The rules with their tests. The last rule that matches decides, so it comes first."""
        return [(rule, re.compile(rule.regex, re.DOTALL).fullmatch) for rule in reversed(self._rules)]

    def decide(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Return True if ignored, False if re-included, None if no rule matches.

        `path`: relative to the ignore file.
        """
        for rule, matches in self._matchers:
            if (is_directory or not rule.directories_only) and matches(path if rule.anchored else name):
                return not rule.negated
        return None


class IgnoreScope:
    """The rules that apply in a directory: its own, and those of the directories above."""

    __slots__ = ("parent", "prefix_length", "rules")

    def __init__(self, rules: IgnoreRules, base: str, parent: "IgnoreScope | None") -> None:
        self.rules, self.parent = rules, parent
        self.prefix_length = len(base) + 1 if base else 0

    def find_candidates(self, prefix: str, names: list[str]) -> set[int]:
        """Return the indices of names that some rule mentions.

        `prefix`: the directory's path with a trailing slash.
        """
        candidates: set[int] = set()
        indices = range(len(names))
        scope: IgnoreScope | None = self
        while scope is not None:
            for test in scope.rules.name_tests:
                candidates.update(compress(indices, test(names)))
            local = prefix[scope.prefix_length :]
            if test := scope.rules.path_test(local.count("/")):
                candidates.update(compress(indices, test([local + name for name in names])))
            scope = scope.parent
        return candidates

    def ignores(self, path: str, name: str, is_directory: bool) -> bool:
        """Tell whether a path is ignored, provided that no directory above it is.

        Path and name are byte keys.
        """
        scope: IgnoreScope | None = self
        while scope is not None:
            decision = scope.rules.decide(path[scope.prefix_length :], name, is_directory)
            if decision is not None:
                return decision
            scope = scope.parent
        return False


def rebase_rules(text: str, base: str) -> Iterator[str]:
    """Yield the rules of the ignore file in directory `base` as lines of an ignore file in the root."""
    prefix = re.sub(r"([\\*?\[\]{} ])", r"\\\1", base) + "/" if base else ""
    for rule in _parse_rules(text):
        anywhere = "" if rule.anchored else "**/"
        yield f"{'!' * rule.negated}/{prefix}{anywhere}{rule.glob}{'/' * rule.directories_only}"
