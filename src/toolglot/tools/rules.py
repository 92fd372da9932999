"""Rules about calls: `shell(git status *)`, `write(src/**)`, `web_open(docs.python.org)`, or a tool's name
alone. Pure.

Rules that allow a call must cover all of its subjects, and never allow what they cannot judge. A rule that
denies needs to cover only one subject, and takes precedence.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec.structs import replace

from toolglot.errors import UsageError
from toolglot.tools.command_words import find_denied_words, match_words, split_command
from toolglot.tools.policy_names import PolicyNames

__all__ = ["Rule", "RuleSet", "Subject", "find_subjects", "parse_rule"]

_RULE = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<pattern>.*)\))?")
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\*|(?:\*\.)?[^\s/:@*?#]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]*)?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_WILDCARDS = {"*": "[^/]*", "?": "[^/]"}  # within a name, as regular expressions
_OWN_NAMES_ONLY = PolicyNames()
# A tool that can do what the others do: a rule that denies one of them denies it, too.
ACTS_AS: dict[str, tuple[str, ...]] = {
    "web": ("web_search", "web_open", "web_find"),
    "web_find": ("web_open",),
}


class Subject(msgspec.Struct, frozen=True):
    """One thing that a call acts on.

    command: a line for bash. path: a real, absolute path, with the `root` that rules are relative to.
    directory: everything below such a path. address: a URL. text: anything else. other: something that no
    pattern can describe, so that only a rule for the whole tool allows the call.
    `tool`: another tool whose rules also apply; for example, rules for `write` also apply to what `edit`
    changes.
    """

    kind: Literal["command", "path", "directory", "address", "text", "other"]
    """What `value` is."""
    value: str
    """The command, path, address or text."""
    root: str = ""
    """The directory that patterns for a path are relative to."""
    tool: str = ""
    """Another tool whose rules also apply."""

    def __str__(self) -> str:
        return self.value if len(self.value) <= 120 else self.value[:119] + "…"


class Rule(msgspec.Struct, frozen=True):
    """A rule as written, and its parts. A rule without a pattern applies to every call of the tool."""

    text: str
    tool: str
    pattern: str = ""

    def __str__(self) -> str:
        return f"the rule {self.text!r}"


@cache
def parse_rule(text: str) -> Rule:
    """Parse a rule: TOOL or TOOL(PATTERN). Raises UsageError."""
    match = _RULE.fullmatch(text.strip())
    problem = ""
    if match is None:
        problem = "write TOOL or TOOL(PATTERN), such as shell(git status *)"
    elif match["pattern"] is not None:
        pattern = match["pattern"].strip()
        if not pattern or not pattern.isprintable():
            problem = "the pattern in parentheses must be visible text on one line"
        elif pattern.startswith("~"):
            problem = "a path is relative to the root of the tools, or absolute; ~ is not expanded"
        elif ".." in pattern.split("/"):
            problem = "a path in a rule must not contain '..'"
    if problem or match is None:
        raise UsageError(f"{text!r} is not a rule: {problem}")
    return Rule(text, match["tool"], (match["pattern"] or "").strip())


def find_subjects(
    scope: Callable[[dict[str, Any]], Iterable[Subject]], arguments: dict[str, Any]
) -> list[Subject]:
    """Return the subjects of a call."""
    try:
        return list(scope(arguments))
    except Exception as e:  # an invalid path or address: no rule can allow it
        return [Subject("other", str(e))]


class RuleSet:
    """The rules of a policy. `names`: resolves the names of tools in them."""

    def __init__(
        self, approve: Sequence[str], deny: Sequence[str], names: PolicyNames = _OWN_NAMES_ONLY
    ) -> None:
        self.approve, self.deny = tuple(map(parse_rule, approve)), tuple(map(parse_rule, deny))
        self._names = names

    def find_complete_denial(self, tool: str) -> Rule | None:
        """Return a rule that denies every call of a tool; None if there is none.

        The tool is not offered then.
        """
        names = (tool, *ACTS_AS.get(tool, ()))
        denials = (rule for rule in self.deny if not rule.pattern)
        return next((rule for rule in denials if self._names.covers(rule.tool, *names, denies=True)), None)

    def find_denial(self, tool: str, subjects: Sequence[Subject] | None) -> tuple[Rule, bool] | None:
        """Return a rule that denies a call, and whether that is certain; None if there is none."""
        if (complete := self.find_complete_denial(tool)) is not None:
            return complete, True
        rules = [rule for rule in self.deny if rule.pattern]
        doubtful: Rule | None = None
        for rule in rules:
            if not subjects:  # the tool does not say what the call is about
                if self._names.covers(rule.tool, tool, denies=True):
                    doubtful = rule
                continue
            about = [subject for subject in subjects if self._denies(rule, tool, subject)]
            verdicts = [_matches(rule.pattern, subject, is_denial=True) for subject in about]
            if True in verdicts:
                return rule, True
            if None in verdicts:
                doubtful = rule
        return None if doubtful is None else (doubtful, False)

    def _denies(self, rule: Rule, tool: str, subject: Subject) -> bool:
        """Return whether a rule is about what a call of a tool does to a subject."""
        # A file that must not be read must not be changed either: a change reveals its contents.
        implied_tool = "read" if subject.tool == "write" else ""
        return self._names.covers(rule.tool, tool, subject.tool, implied_tool, denies=True)

    def find_approval(self, tool: str, subjects: Sequence[Subject] | None) -> tuple[tuple[Rule, ...], str]:
        """Return the rules that together allow a call; if none do, what is not allowed ("" if no rule is for
        the tool).
        """
        for rule in self.approve:
            if not rule.pattern and self._names.covers(rule.tool, tool):
                return (rule,), ""
        used: dict[Rule, None] = {}
        for subject in subjects or ():
            rules = [rule for rule in self.approve if self._names.covers(rule.tool, tool, subject.tool)]
            if not rules:
                return (), ""
            parts, problem = _split_subject(subject)
            if problem:
                return (), problem
            for part in parts:
                covering = (
                    rule
                    for rule in rules
                    if not rule.pattern or _matches(rule.pattern, part, is_denial=False)
                )
                match = next(covering, None)
                if match is None:
                    return (), f"no rule allows {str(part)!r}"
                used[match] = None
        return tuple(used), ""


# ---- subjects and patterns


def _split_subject(subject: Subject) -> tuple[list[Subject], str]:
    """Return the parts of a subject that must all be allowed, and why no rule can allow it ("" if one can)."""
    if subject.kind == "other":
        return [], f"no pattern covers {subject}"
    if subject.kind != "command":
        return [subject], ""
    line = split_command(subject.value)
    if line.unclear:
        return [], f"the command contains {line.unclear}"
    if not line.commands:
        return [], "there is no command"
    return [Subject("command", shlex.join(words)) for words in line.commands], ""


def _matches(pattern: str, subject: Subject, *, is_denial: bool) -> bool | None:
    """Return whether a pattern covers a subject; None if that is unclear."""
    match subject.kind:
        case "command":
            words, line = _pattern_words(pattern), split_command(subject.value)
            return find_denied_words(words, line) if is_denial else match_words(words, line.commands[0])
        case "path":
            return match_path(pattern, subject)
        case "directory":
            return match_directory(pattern, subject, is_denial=is_denial)
        case "address":
            return match_address(pattern, subject.value, is_denial=is_denial)
        case "text":
            return fnmatchcase(subject.value, pattern)
        case "other":
            return None


@cache
def _pattern_words(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(pattern)) or ("",)
    except ValueError:  # an unclosed quote: matches no word
        return ("",)


def match_path(pattern: str, subject: Subject) -> bool:
    """Return whether a path is covered by a pattern, which is absolute or relative to the root."""
    path, root = subject.value, subject.root.rstrip("/") + "/"
    if not pattern.startswith("/"):
        if path + "/" == root:
            path = "."
        elif path.startswith(root):
            path = path.removeprefix(root)
        else:
            return False
    return _translate_path(pattern.removeprefix("./")).fullmatch(path) is not None


def match_directory(pattern: str, subject: Subject, *, is_denial: bool) -> bool | None:
    """Return whether a pattern covers everything below a directory; None if a denial may cover a part of it."""
    directory = subject.value.rstrip("/")
    if f"/{pattern}".endswith(("/", "/**")) and match_path(pattern, replace(subject, value=f"{directory}/x")):
        return True
    if not is_denial:
        return False
    if not pattern.startswith("/"):
        pattern = f"{subject.root.rstrip('/')}/{pattern.removeprefix('./')}"
    segments, names = pattern.split("/"), directory.split("/")
    for segment, name in zip(segments, names, strict=False):
        if segment == "**":
            return None
        if segment != name and not re.fullmatch(_translate_name(segment), name, re.DOTALL):
            return False
    return None if len(segments) > len(names) else len(segments) == len(names)


@cache
def _translate_path(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `*` and `?` match within a name, and `**` matches any number of directories."""
    if pattern.endswith("/"):
        pattern += "**"
    regex = ""
    for segment in (segments := pattern.split("/"))[:-1]:
        regex += "(?:[^/]+/)*" if segment == "**" else _translate_name(segment) + "/"
    return re.compile(regex + (".+" if segments[-1] == "**" else _translate_name(segments[-1])), re.DOTALL)


def _translate_name(segment: str) -> str:
    return "".join(_WILDCARDS.get(char) or re.escape(char) for char in segment)


def match_address(pattern: str, url: str, *, is_denial: bool) -> bool:
    """Return whether a URL is at the host of a pattern, and below its path.

    A denial covers subdomains and any port.
    """
    wanted = _ADDRESS.fullmatch(pattern if "/" in pattern else pattern.lower())
    location = _locate(url)
    if wanted is None or location is None:
        return False
    parts, host, port = location
    name = wanted["host"].lower()
    if not _is_same_host(name, host, is_denial=is_denial):
        return False
    if wanted["scheme"] not in (None, parts.scheme):
        return False
    covers_any_port = name == "*" or (is_denial and wanted["port"] is None)
    if not covers_any_port and port != int(wanted["port"] or _DEFAULT_PORTS[parts.scheme]):
        return False
    if wanted["path"] is None:
        return True
    if _may_mean_more(parts, url):
        return is_denial
    return _translate_path(wanted["path"]).fullmatch(parts.path or "/") is not None


def _locate(url: str) -> tuple[SplitResult, str, int] | None:
    """Return the parts of a URL, its host and its port; None if clients may disagree about them."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        return None
    if "@" in parts.netloc or "\\" in url:
        return None
    return parts, host, port or _DEFAULT_PORTS[parts.scheme]


def _is_same_host(name: str, host: str, *, is_denial: bool) -> bool:
    """Return whether a host has the name in a pattern. A denial covers its subdomains, too."""
    if name in ("*", host):
        return True
    if name.startswith("*.") and host.endswith(name[1:]):
        return True
    return is_denial and host.endswith("." + name.removeprefix("*."))


def _may_mean_more(parts: SplitResult, url: str) -> bool:
    """Return whether a URL may have another effect than its path says."""
    # A query could carry secrets, and a server may decode an encoded path to another one.
    if parts.query or parts.fragment or "?" in url:
        return True
    return "%" in parts.path or ".." in parts.path
