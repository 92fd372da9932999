"""Splits a command line into the programs that bash would start, as far as it consists of plain words. Pure.

Invariant: a line that is fully understood (`unclear` is empty) runs exactly the words that are returned.
Whatever bash would expand, substitute, assign or redirect makes a line unclear; its words are then only good
enough to refuse it.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import compress, pairwise, takewhile

import msgspec

from toolglot.tools.known_programs import (
    BEFORE_SUBCOMMAND,
    LONG_WITH_ONE_DASH,
    RENAMING,
    RISKY_ARGUMENTS,
    SHELLS,
    SYNONYMS,
    TEXT_PROGRAMS,
    find_inner_program,
    is_runner,
    launches_program,
    program_name,
)

__all__ = ["CommandLine", "find_denied_words", "match_words", "split_command"]

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII | re.DOTALL)
# Redirections that touch no file: to and from /dev/null, and between the standard streams.
_HARMLESS_REDIRECTION = re.compile(
    r"(?:[012]?(?:>>?|<)[ \t]*/dev/null|[12]?>&[12]|&>>?[ \t]*/dev/null)(?=[ \t\n;&|]|$)"
)
_REDIRECTION = re.compile(r"<<<|<<-?|<>|>>|>\||[<>]&-(?![^\s;&|<>()])|[<>]&?")
_UNCLEAR = {
    "$": "a variable or a substitution",
    "`": "a substitution",
    "*": "a file name pattern",
    "?": "a file name pattern",
    "[": "a file name pattern",
    "{": "braces",
    "}": "braces",
    "(": "parentheses",
    ")": "parentheses",
    "<": "a redirection",
    ">": "a redirection",
    "#": "a comment",
    "~": "a home directory (~)",
}
_RESERVED = frozenset(
    {
        *(
            "!",
            "[[",
            "]]",
            "{",
            "}",
            "case",
            "coproc",
            "do",
            "done",
            "elif",
            "else",
            "esac",
            "fi",
            "for",
            "function",
        ),
        *("if", "in", "select", "then", "time", "until", "while"),
    }
)
_MAX_LINE = 10_000  # characters; what is longer is not judged, as that would take long
_MAX_DEPTH = 3  # of commands in the words of commands
_MAX_OPTIONS = 8  # short ones in a group, before a value
# also as make writes it: X:=1
_ARGUMENT_ASSIGNMENT = re.compile(r"[A-Za-z_][\w.-]*(?:[+?!]|:{1,3})?=", re.ASCII)
_ATTACHED = re.compile(r"(?:--?[\w.-]+|[A-Za-z_][\w.-]*(?:[+?!]|:{1,3})?)=", re.ASCII)
_SHORT_OPTIONS = re.compile(r"-[A-Za-z0-9]+", re.ASCII)
_TOKEN = re.compile(r"[^\s;|&()'\"`!=:,<>{}]+")
_WHITESPACE = re.compile(r"\s")


class CommandLine(msgspec.Struct, frozen=True):
    """The commands of a line, each as its words."""

    commands: tuple[tuple[str, ...], ...]
    unclear: str = ""
    """What the line contains beside plain words; "" if it is understood."""
    expanding: frozenset[str] = frozenset()
    """Words that bash changes before it uses them."""
    assigned: tuple[str, ...] = ()
    """The values that are assigned to variables before a command."""
    is_hiding: bool = False
    """Whether there are commands within a word: "$(…)"."""


def split_command(line: str) -> CommandLine:
    """Return the commands of a line, joined by `;`, `&&`, `||`, `|`, `&` or newlines."""
    if len(line) > _MAX_LINE:
        return CommandLine((), f"more than {_MAX_LINE:,} characters", is_hiding=True)
    lexer = _Lexer(line)
    lexer.read()
    commands: list[tuple[str, ...]] = []
    assigned: list[str] = []
    for words in lexer.commands:
        start = 0
        while start < len(words):
            word = words[start]
            if word in _RESERVED:
                lexer.note(f"the word {word!r}")
                start += 1 + _count_names(word, words[start + 1 :])
            elif (match := _ASSIGNMENT.match(word)) is not None:
                lexer.note("an assignment")
                assigned.append(word[match.end() :])
                start += 1
            else:
                break
        if words[start:]:
            commands.append(tuple(words[start:]))
    return CommandLine(
        tuple(commands), lexer.unclear, frozenset(lexer.expanding), tuple(assigned), lexer.is_hiding
    )


def _count_names(word: str, following: list[str]) -> int:
    """Return how many words after a reserved one belong to it, and are no program: `function f {`, `time -p`."""
    if word == "function":
        return 1
    if word == "coproc":
        has_name = len(following) > 1 and following[1] in _RESERVED
        return int(has_name)
    if word == "time":
        options = takewhile(lambda option: option in ("-p", "--"), following)
        return len(list(options))
    return 0


class _Lexer:
    """Reads the words of a line as bash does before it expands them."""

    def __init__(self, line: str) -> None:
        self._line, self._position = line, 0
        self._word: str | None = None
        self._expands = False  # whether bash changes the word
        self._redirection = ""  # the operator before the word
        self.commands: list[list[str]] = [[]]
        self._input: list[str] = []  # here-strings of the command: a shell would run them
        self.unclear, self.is_hiding = "", False
        self.expanding: set[str] = set()

    def note(self, unclear: str) -> None:
        """Record the first thing that is not a plain word."""
        self.unclear = self.unclear or unclear

    def read(self) -> None:
        """Read the whole line."""
        line, size = self._line, len(self._line)
        while self._position < size:
            char = line[self._position]
            redirection = _HARMLESS_REDIRECTION.match(line, self._position) if self._word is None else None
            if redirection is not None:
                self._position = redirection.end()
                continue
            self._position += 1
            match char:
                case " " | "\t":
                    self._end_word()
                case "'":
                    end = line.find("'", self._position)
                    if end < 0:
                        self.note("an open quote")
                        end = size
                    self._add(line[self._position : end])
                    self._position = end + 1
                case '"':
                    self.read_double_quoted()
                case "\\":
                    if line[self._position : self._position + 1] in ("", "\n"):
                        self.note("a line that is continued")
                    self._add(line[self._position : self._position + 1].strip("\n"))
                    self._position += 1
                case ";" | "&" | "|" | "\n" | "(" | ")" | "`":
                    self.note(_UNCLEAR.get(char, ""))
                    self._end_command()
                case "<" | ">":
                    self.read_redirection(char)
                case _:
                    self.read_plain(char)
        self._end_command()

    def read_redirection(self, char: str) -> None:
        """End the word, and read the operator."""
        self.note(_UNCLEAR[char])
        if self._word is not None and self._word.isdigit():  # the number of a file: 2>x
            self._word = None
        self._end_word()
        operator = _REDIRECTION.match(self._line, self._position - 1)
        self._redirection = operator[0] if operator else char
        self._position += len(self._redirection) - 1
        if self._redirection.endswith("&-"):  # it closes a file, and names none
            self._redirection = ""

    def read_plain(self, char: str) -> None:
        """Add a character that is not quoted."""
        unclear = _UNCLEAR.get(char, "" if char.isprintable() else "a character that cannot be seen")
        # Special only where a word begins, or a path within it.
        begins_path = char == "~" and self._word is not None and self._word[-1:] in ("=", ":")
        if char in "#~" and self._word is not None and not begins_path:
            unclear = ""
        if unclear:
            self.note(unclear)
            self._expands = True
        self._add(char)

    def read_double_quoted(self) -> None:
        """Add what stands before the closing quote."""
        self._add("")
        while self._position < len(self._line):
            char = self._line[self._position]
            self._position += 1
            if char == '"':
                return
            if char == "\\" and self._line[self._position : self._position + 1] in (
                "$",
                "`",
                '"',
                "\\",
                "\n",
            ):
                char = self._line[self._position].strip("\n")
                self._position += 1
            elif char in "$`":
                self.note(_UNCLEAR[char])
                self._expands = True
                self.is_hiding = (
                    self.is_hiding
                    or char == "`"
                    or self._line[self._position : self._position + 1] in ("(", "{")
                )
            self._add(char)
        self.note("an open quote")

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _end_word(self) -> None:
        if self._word is not None:
            if not self._redirection:
                self.commands[-1].append(self._word)
            elif self._redirection.startswith("<<<"):
                self._input.append(self._word)
            if self._expands:
                self.expanding.add(self._word)
            self._word, self._expands, self._redirection = None, False, ""

    def _end_command(self) -> None:
        self._end_word()
        self._redirection = ""
        if self.commands[-1]:
            self.commands[-1] += self._input
            self.commands.append([])
        self._input = []


# ---- rules that allow


def match_words(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether a rule that allows commands covers one.

    A last `*` in it stands for any further words but risky ones.
    """
    fixed = pattern[:-1] if pattern[-1] == "*" else pattern
    if not _begins_with(fixed, words) or len(words) > len(fixed) == len(pattern):
        return False
    is_free = [index >= len(fixed) or fixed[index] != word for index, word in enumerate(words)]
    if True not in is_free:
        return True
    free = tuple(compress(words, is_free))
    subcommand = find_subcommand(words)
    inner = find_inner_program(words, subcommand)
    if inner is None:
        if _frees_option(words[:subcommand], is_free) or not _are_harmless(words, free):
            return False
        return not find_risky(words, (*fixed[1:], *free))
    # uv run pytest *: a rule for pytest, if it names it
    if inner == len(words) or True in is_free[: inner + 1] or find_risky(words, free):
        return False
    return match_words(pattern[inner:], words[inner:])


def _begins_with(patterns: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return len(words) >= len(patterns) and all(map(fnmatchcase, words, patterns))


def _are_harmless(words: tuple[str, ...], free: tuple[str, ...]) -> bool:
    """Return whether words that a wildcard stands for are neither the command of a runner nor an assignment."""
    if is_runner(words):
        return False
    return program_name(words[0]) in TEXT_PROGRAMS or not any(map(_ARGUMENT_ASSIGNMENT.match, free))


def _frees_option(words: tuple[str, ...], is_free: list[bool]) -> bool:
    """Return whether a wildcard stands for an option before a subcommand, in a program where these change
    what it does.
    """
    if program_name(words[0]) not in BEFORE_SUBCOMMAND:
        return False
    return any(free and word.startswith("-") for word, free in zip(words[1:], is_free[1:], strict=False))


def find_subcommand(words: tuple[str, ...]) -> int:
    """Return the index of the first word after the program that is neither an option nor the value of one."""
    with_value = BEFORE_SUBCOMMAND.get(program_name(words[0]), ())
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 1 + (words[index] in with_value)
    return min(index, len(words))


def find_risky(words: tuple[str, ...], candidates: Iterable[str]) -> set[str]:
    """Return words of a command that are, or may abbreviate or contain, arguments that start programs or
    write files.
    """
    program = program_name(words[0])
    subcommand = "".join(words[find_subcommand(words) :][:1])
    arguments = (*RISKY_ARGUMENTS.get(program, ()), *RISKY_ARGUMENTS.get(f"{program} {subcommand}", ()))
    if not arguments:
        return set()
    return {word for word in candidates if any(_may_be(word, argument, program) for argument in arguments)}


def _may_be(word: str, argument: str, program: str) -> bool:
    """Return whether a word of a program is an option, maybe abbreviated or with its value, or matches a
    pattern of words.
    """
    name = word.partition("=")[0]
    if argument.startswith("--"):
        return len(name) > 2 and argument.startswith(name)
    if not argument.startswith("-"):
        return fnmatchcase(word, argument)
    if program in LONG_WITH_ONE_DASH:
        return name == argument or (len(argument) == 2 and name.startswith(argument))
    # Also in a group of short options, or with its value.
    return argument[1] in word and (program == "tar" or re.match(r"-[^-]", word) is not None)


# ---- rules that deny


def find_denied_words(pattern: tuple[str, ...], line: CommandLine) -> bool | None:
    """Return whether a rule that denies commands covers one of a line, also if other programs run it; None if
    it may.

    Unlike one that allows, such a rule covers further words, and a program wherever it is.
    """
    arguments = pattern[1:-1] if pattern[-1:] == ("*",) else pattern[1:]
    return _Denial(pattern[0], arguments).judge(line)


def _combine(verdicts: Iterable[bool | None]) -> bool | None:
    """Return True if one of the verdicts is certain, None if one is in doubt."""
    result: bool | None = False
    for verdict in verdicts:
        if verdict:
            return True
        if verdict is None:
            result = None
    return result


class _Denial:
    """Looks for the commands that a rule denies: a program, with words that follow it."""

    def __init__(self, program: str, arguments: tuple[str, ...]) -> None:
        self._program, self._arguments = program, arguments
        self._words = (program, *arguments)

    def judge(self, line: CommandLine, depth: int = 0) -> bool | None:
        """Return whether a line runs such a command; None if it may. `depth`: of lines within words."""
        return _combine(self._judge_parts(line, depth))

    def _judge_parts(self, line: CommandLine, depth: int) -> Iterator[bool | None]:
        if line.is_hiding or any(self._runs_more(words) for words in line.commands):
            yield None
        for text in line.assigned:  # a program may run what a variable says: GIT_EDITOR='rm x'
            yield self._suspect(text, depth)
        for words in line.commands:
            if starts_others(words):
                yield from self._judge_runner(words, line.expanding, depth)
            else:
                yield from self._judge_plain(words, line.expanding, depth)

    def _judge_plain(
        self, words: tuple[str, ...], expanding: frozenset[str], depth: int
    ) -> Iterator[bool | None]:
        """Judge a program that runs no others, as far as it is known."""
        is_program = fnmatchcase(program_name(words[0]), self._program)
        yield self._compare(words)
        if words[0] in expanding or (is_program and self._arguments and not expanding.isdisjoint(words)):
            yield None  # `git $X` may be what `git push` denies
        if program_name(words[0]) in TEXT_PROGRAMS:
            return
        for word in words[1:]:
            if (value := _ATTACHED.match(word)) is not None:
                yield self._suspect(word[value.end() :], depth)

    def _judge_runner(
        self, words: tuple[str, ...], expanding: frozenset[str], depth: int
    ) -> Iterator[bool | None]:
        """Judge a program that runs others: any of its words may be one of them, or a script."""
        if not expanding.isdisjoint(words):
            yield None
        for start, word in enumerate(words):
            following = words[start + 1 :]
            yield self._compare(words[start:])
            values = _find_values(word) if start else []
            for value in values:
                yield self._compare((value, *following))
            if depth >= _MAX_DEPTH:
                continue
            for text in (word, *values):  # sh -c 'SCRIPT', env -S'SCRIPT', git rebase --exec='SCRIPT'
                if _WHITESPACE.search(text):
                    yield self.judge(split_command(text), depth + 1)
            if word == "eval" and word not in words[:start]:  # it runs its words as one line: eval 'rm' 'x'
                yield self.judge(split_command(" ".join(following)), depth + 1)
        if self._is_mentioned(" ".join(words[1:])):  # sed '1e SCRIPT', vim -c '!SCRIPT'
            yield None

    def _compare(self, words: tuple[str, ...]) -> bool | None:
        """Compare one command, whatever directory its program is in."""
        name, *following = (program_name(words[0]), *words[1:])
        if _begins_with(self._words, (name, *following)) or _begins_with(self._words, words):
            return True
        if not fnmatchcase(name, self._program):
            return False
        synonyms = SYNONYMS.get(name, {})
        remaining = (synonyms.get(word, word) for word in following)
        has_all = all(any(fnmatchcase(word, argument) for word in remaining) for argument in self._arguments)
        return None if has_all else False  # `git -C x push` may be what `git push` denies

    def _suspect(self, text: str, depth: int) -> bool | None:
        """Judge a text that a program might run; it is certain of nothing."""
        if depth >= _MAX_DEPTH:
            return None
        return None if self.judge(split_command(text), depth + 1) else False

    def _is_mentioned(self, text: str) -> bool:
        """Return whether the words of the rule occur in a text, in this order, whatever stands between them."""
        tokens = iter(_TOKEN.findall(text))
        if not any(fnmatchcase(program_name(token), self._program) for token in tokens):
            return False
        return all(any(fnmatchcase(token, argument) for token in tokens) for argument in self._arguments)

    def _runs_more(self, words: tuple[str, ...]) -> bool:
        """Return whether a command may run more of the program than its words say: from its input, or by
        another name.
        """
        if program_name(words[0]) in RENAMING and self._is_renamed(words):
            return True  # hash -p /usr/bin/git g; g push
        if is_runner(words) and any(self._reads_commands(words[start:]) for start in range(len(words))):
            return True
        return "git" in map(program_name, words) and _sets_option(words)

    def _reads_commands(self, words: tuple[str, ...]) -> bool:
        name, following = program_name(words[0]), words[1:]
        if name in SHELLS:  # echo 'git push' | sh
            return "-s" in following or all(word.startswith(("-", "/dev/", "/proc/")) for word in following)
        if name not in ("parallel", "xargs"):  # echo push | xargs git
            return False
        return any(is_runner((word,)) or fnmatchcase(program_name(word), self._program) for word in following)

    def _is_renamed(self, words: tuple[str, ...]) -> bool:
        targets = (token for word in words[1:] for token in _TOKEN.findall(word))
        return any(fnmatchcase(program_name(target), self._program) for target in targets)


def _sets_option(words: tuple[str, ...]) -> bool:
    """Return whether a command of git may define another name for one: git -c alias.p=push p."""
    if any(word.startswith("--config-env") for word in words):
        return True
    return any(word == "-c" and "." in value for word, value in pairwise(words))


def starts_others(words: tuple[str, ...]) -> bool:
    """Return whether a command starts programs or scripts that its words name."""
    return (
        is_runner(words)
        or launches_program(words, find_subcommand(words))
        or bool(find_risky(words, words[1:]))
    )


def _find_values(word: str) -> list[str]:
    """Return the values that may be attached to an option or an assignment: -SX, --option=X, NAME=X."""
    values = [word[match.end() :]] if (match := _ATTACHED.match(word)) is not None else []
    group = _SHORT_OPTIONS.match(word)
    if group is not None:
        values += [word[index:] for index in range(2, min(group.end(), _MAX_OPTIONS) + 1) if word[index:]]
    return values
