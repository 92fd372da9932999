"""Splits a command line into the programs that bash would start, as far as it consists of plain words. Pure.

Invariant: a line that is fully understood (`unclear` is empty) runs exactly the words that are returned. Whatever bash would
expand, substitute, assign or redirect makes a line unclear; its words are then only good enough to refuse it.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

__all__ = ["CommandLine", "find_denied_words", "match_words", "split_command"]

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII | re.DOTALL)
# Redirections that touch no file: to and from /dev/null, and between the standard streams.
_HARMLESS_REDIRECTION = re.compile(r"(?:[012]?(?:>>?|<)[ \t]*/dev/null|[12]?>&[12]|&>>?[ \t]*/dev/null)(?=[ \t\n;&|]|$)")
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
        *("!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "time", "until", "while"),
    }
)
# DATA: programs that run a command or a script given in their own words: a rule for them covers only the words it has.
RUNNERS = frozenset(
    {
        *(".", "ash", "bash", "builtin", "busybox", "command", "csh", "dash", "doas", "env", "eval", "exec", "fish", "ksh"),
        *("sh", "source", "su", "sudo", "tcsh", "trap", "zsh", "chroot", "chrt", "entr", "flock", "gdb", "ionice", "ltrace"),
        *("nice", "nohup", "nsenter", "parallel", "perf", "proot", "script", "setarch", "setpriv", "setsid", "ssh", "stdbuf"),
        *("strace", "systemd-run", "taskset", "time", "timeout", "unshare", "valgrind", "watch", "xargs", "bwrap"),
        # Their scripts can start programs.
        *("awk", "ed", "emacs", "ex", "gawk", "less", "man", "mawk", "more", "nano", "nvim", "sed", "vi", "view", "vim"),
    }
)
# DATA: programs that run what they read as their input, unless they are given a file.
SHELLS = frozenset({".", "ash", "bash", "csh", "dash", "fish", "ksh", "sh", "source", "tcsh", "zsh"})
# DATA: options by which other programs start programs or write files, by program or subcommand; no wildcard covers these.
RISKY_OPTIONS: dict[str, tuple[str, ...]] = {
    "ack": ("--pager",),
    "ag": ("--pager",),
    "bat": ("--pager",),
    "curl": (
        *("-c", "-D", "-K", "-o", "-O", "--alt-svc", "--config", "--cookie-jar", "--dump-header", "--etag-save", "--hsts"),
        *("--libcurl", "--output", "--remote-name", "--remote-name-all", "--stderr", "--trace", "--trace-ascii"),
    ),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "gcc": ("-fplugin", "-wrapper", "-B", "-specs"),
    "git": ("--config-env", "--exec-path", "--exec", "--ext-diff", "--output", "--upload-pack", "--receive-pack", "--textconv"),
    "git archive": ("-o",),
    "git bisect": ("run",),
    "git clone": ("-c", "-u", "--config", "--template"),
    "git difftool": ("-t", "-x", "--extcmd", "--tool"),
    "git filter-branch": ("filter-branch",),
    "git grep": ("-O", "--open-files-in-pager"),
    "git mergetool": ("-t", "--tool"),
    "git rebase": ("-x",),
    "git send-email": ("send-email",),
    "git submodule": ("foreach",),
    "go": ("-exec", "-toolexec", "--exec", "--toolexec", "-vettool", "--vettool"),
    "hg": ("--config",),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-o"),
    "sort": ("-o", "--output", "--compress-program"),
    "split": ("--filter",),
    "svn": ("--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"),
    "tar": (
        *("-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--rsh-command"),
        *("--info-script", "--new-volume-script", "--rmt-command"),
    ),
    "tree": ("-o",),
    "wget": ("-O", "-o", "-e", "--execute", "--output-document", "--use-askpass"),
    "zip": ("-T", "--unzip-command"),
}
# Options before their subcommand can change what it does (git -c core.pager=…), so that a wildcard covers none of them. Of the
# programs that have such: the options whose value is the next word.
_BEFORE_SUBCOMMAND = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--attr-source"),
    "hg": ("-R", "--repository", "--cwd", "--config", "--config-file"),
    "svn": ("--config-dir", "--config-option", "--username", "--password"),
}
_LONG_WITH_ONE_DASH = frozenset({"find", "gcc", "go"})
_MAX_LINE = 10_000  # characters; what is longer is not judged, as that would take long
_MAX_DEPTH = 3  # of commands in the words of commands


class CommandLine(msgspec.Struct, frozen=True):
    """The commands of a line, each as its words."""

    commands: tuple[tuple[str, ...], ...]
    unclear: str = ""
    """What the line contains beside plain words; "" if it is understood."""
    expanding: frozenset[str] = frozenset()
    """Words that bash changes before it uses them."""
    is_hiding: bool = False
    """Whether there are commands within a word: "$(…)"."""


def split_command(line: str) -> CommandLine:
    """Return the commands of a line, joined by `;`, `&&`, `||`, `|`, `&` or newlines."""
    if len(line) > _MAX_LINE:
        return CommandLine((), f"more than {_MAX_LINE:,} characters", is_hiding=True)
    lexer = _Lexer(line)
    lexer.read()
    commands: list[tuple[str, ...]] = []
    for words in lexer.commands:
        start = 0
        while start < len(words) and (words[start] in _RESERVED or _ASSIGNMENT.match(words[start])):
            is_reserved = words[start] in _RESERVED
            lexer.note(f"the word {words[start]!r}" if is_reserved else "an assignment")
            start += 1
        if words[start:]:
            commands.append(tuple(words[start:]))
    return CommandLine(tuple(commands), lexer.unclear, frozenset(lexer.expanding), lexer.is_hiding)


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
        if char in "#~" and self._word is not None and not (char == "~" and self._word[-1:] in ("=", ":")):
            unclear = ""  # special only where a word begins, or a path within it
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
            if char == "\\" and self._line[self._position : self._position + 1] in ("$", "`", '"', "\\", "\n"):
                char = self._line[self._position].strip("\n")
                self._position += 1
            elif char in "$`":
                self.note(_UNCLEAR[char])
                self._expands = True
                self.is_hiding = self.is_hiding or char == "`" or self._line[self._position : self._position + 1] in ("(", "{")
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


# ---- rules


def match_words(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether a rule that allows commands covers one. A last `*` in it stands for any further words but risky ones."""
    is_open = pattern[-1] == "*"
    fixed = pattern[:-1] if is_open else pattern
    if len(words) < len(fixed) or (len(words) > len(fixed) and not is_open):
        return False
    if not all(map(fnmatchcase, words, fixed)):
        return False
    program, start = words[0].rpartition("/")[2], find_subcommand(words)
    is_free = [index >= len(fixed) or fixed[index] != word for index, word in enumerate(words)]
    if program in _BEFORE_SUBCOMMAND and any(
        free and word.startswith("-") for free, word in zip(is_free[1:start], words[1:start], strict=True)
    ):
        return False
    free = [word for word, free in zip(words, is_free, strict=True) if free]
    return not free or not (program in RUNNERS or find_risky(words, (*fixed[1:], *free)))


def find_subcommand(words: tuple[str, ...]) -> int:
    """Return the index of the first word after the program that is neither an option nor the value of one."""
    with_value = _BEFORE_SUBCOMMAND.get(words[0].rpartition("/")[2], ())
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 1 + (words[index] in with_value)
    return min(index, len(words))


def find_risky(words: tuple[str, ...], candidates: Iterable[str]) -> set[str]:
    """Return words of a command that are, or may abbreviate or contain, options that start programs or write files."""
    program = words[0].rpartition("/")[2]
    subcommand = "".join(words[find_subcommand(words) :][:1])
    options = (*RISKY_OPTIONS.get(program, ()), *RISKY_OPTIONS.get(f"{program} {subcommand}", ()))
    risky: set[str] = set()
    for word in candidates if options else ():
        name = word.partition("=")[0]
        for option in options:
            if option.startswith("--"):
                is_risky = len(name) > 2 and option.startswith(name)
            elif program in _LONG_WITH_ONE_DASH:
                is_risky = name == option or (len(option) == 2 and name.startswith(option))
            elif option.startswith("-"):  # also in a group of short options, or with its value
                is_risky = option[1] in word and (program == "tar" or re.match(r"-[^-]", word) is not None)
            else:
                is_risky = word == option
            if is_risky:
                risky.add(word)
    return risky


def runs_more(words: tuple[str, ...], program: str) -> bool:
    """Return whether a command may run more of a program than its words say: from its input, or by another name."""
    names = [word.rpartition("/")[2] for word in words]
    for index, name in enumerate(names) if names[0] in RUNNERS else ():
        more = words[index + 1 :]
        if name in SHELLS and ("-s" in more or all(word.startswith(("-", "/dev/", "/proc/")) for word in more)):
            return True  # echo 'git push' | sh
        if name in ("parallel", "xargs") and any(
            other in RUNNERS or fnmatchcase(other, program) for other in names[index + 1 :]
        ):
            return True  # echo push | xargs git
    # git -c alias.p=push p
    settings = zip(words, (*words[1:], ""), strict=True) if "git" in names else ()
    return any(word.startswith("--config-env") or (word == "-c" and "." in value) for word, value in settings)


def find_denied_words(pattern: tuple[str, ...], line: CommandLine, depth: int = 0) -> bool | None:
    """Return whether a rule that denies commands covers one of a line, also if other programs run it; None if it may.

    Unlike one that allows, such a rule covers further words, and a program wherever it is.
    """
    program, *arguments = pattern
    if arguments[-1:] == ["*"]:
        arguments.pop()
    fixed = (program, *arguments)
    verdict: bool | None = None if line.is_hiding or any(runs_more(words, program) for words in line.commands) else False
    for words in line.commands:
        is_runner = words[0].rpartition("/")[2] in RUNNERS or bool(find_risky(words, words[1:]))
        unknown = line.expanding.intersection(
            words if is_runner or fnmatchcase(words[0].rpartition("/")[2], program) else words[:1]
        )
        if unknown and (arguments or is_runner or words[0] in unknown):
            verdict = None  # `git $X` may be what `git push` denies
        for start in range(len(words) if is_runner else 1):
            candidate = (words[start].rpartition("/")[2], *words[start + 1 :])
            for choice in (candidate, words[start:]):
                if len(choice) >= len(fixed) and all(map(fnmatchcase, choice, fixed)):
                    return True
            remaining = iter(candidate[1:])
            if fnmatchcase(candidate[0], program) and all(
                any(fnmatchcase(word, part) for word in remaining) for part in arguments
            ):
                verdict = None  # `git -C x push` may be what `git push` denies
        for word in words[1:] if is_runner and depth < _MAX_DEPTH else ():
            if re.search(r"\s", word):  # sh -c 'SCRIPT', eval 'SCRIPT'
                inner = find_denied_words(pattern, split_command(word), depth + 1)
                if inner:
                    return True
                verdict = None if inner is None else verdict
    return verdict
