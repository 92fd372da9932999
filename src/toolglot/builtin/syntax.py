"""The tools `ast_search` and `ast_rewrite`: code found and changed by its shape, not by its letters.

Laws: files are found and read as every other tool does it; what is parsed goes to a process of its own (`worker`), which holds
nothing but the text and may hang, crash or eat memory without harm: that file is skipped, and the result says so. A rewrite
changes all files or none, and none that has changed since this call read it. Of matches in each other the outer one goes.
"""

import os
import re
import select
import stat
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import msgspec

from toolglot.builtin.files import missing
from toolglot.builtin.glob import searched_root, target_of
from toolglot.builtin.ignore import Globs
from toolglot.builtin.search import Walk, shown
from toolglot.builtin.text import Document, changed_lines, checked, decoded, encoded, marked, unified, with_newlines
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Change, Opened
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["LANGUAGES", "Rewritten", "RewrittenFile", "SyntaxFound", "SyntaxMatch", "syntax_tools", "worker"]

LANGUAGES: dict[str, tuple[str, ...]] = {
    "bash": (".sh", ".bash", ".zsh", ".ksh", ".bats"),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".cu", ".ino"),
    "csharp": (".cs", ".csx"),
    "css": (".css",),
    "dart": (".dart",),
    "elixir": (".ex", ".exs"),
    "go": (".go",),
    "haskell": (".hs",),
    "hcl": (".tf", ".tfvars", ".hcl"),
    "html": (".html", ".htm", ".xhtml"),
    "java": (".java",),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "json": (".json",),
    "kotlin": (".kt", ".kts"),
    "lua": (".lua",),
    "markdown": (".md", ".markdown"),
    "nix": (".nix",),
    "php": (".php", ".phtml"),
    "python": (".py", ".pyi", ".pyw", ".bzl"),
    "ruby": (".rb", ".rbw", ".rake", ".gemspec"),
    "rust": (".rs",),
    "scala": (".scala", ".sc", ".sbt"),
    "solidity": (".sol",),
    "swift": (".swift",),
    "tsx": (".tsx",),
    "typescript": (".ts", ".mts", ".cts"),
    "yaml": (".yaml", ".yml"),
    "zig": (".zig",),
}
"""What can be parsed, and the ends of its files' names."""
_ALIASES = {
    "c#": "csharp", "c++": "cpp", "cc": "cpp", "cs": "csharp", "ex": "elixir", "golang": "go", "hs": "haskell",
    "js": "javascript", "jsx": "javascript", "kt": "kotlin", "md": "markdown", "py": "python", "python3": "python",
    "rb": "ruby", "rs": "rust", "sh": "bash", "shell": "bash", "sol": "solidity", "terraform": "hcl",
    "tf": "hcl", "ts": "typescript", "yml": "yaml",
}  # fmt: skip
_OF_END = {end: language for language, ends in LANGUAGES.items() for end in ends}
_ALSO = {"typescript": {".tsx": "tsx"}, "cpp": {".h": "cpp"}}  # files that belong to a language, and as what they are parsed
_NOT_CODE = frozenset({"css", "html", "json", "markdown", "yaml"})  # looked at only where they are asked for
_ANY_CASE = frozenset({"css", "html", "php"})  # words may be written in another way
_DOLLARS = frozenset({"bash", "php"})  # `$NAME` may be the language's own

LARGEST_FILE = 2 * 1024 * 1024
LONGEST_PATTERN = 10_000
MOST_RESULTS = 1000
MOST_REWRITES = 10_000
MOST_FILES = 200  # each is held open while all are changed
MOST_BYTES = 64 * 1024 * 1024
MOST_DIFF = 100_000
LONGEST_MATCH = 2000
SECONDS, FILE_SECONDS = 60.0, 5.0
MOST_LOST = 5  # files that the parser may fail on
_NAMED = 20
_EVERY = 500  # files between two words on progress
_MEMORY = 2 * 1024**3
_VARIABLE = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$\$?([A-Z_][A-Z0-9_]*)")
_WORD = re.compile(r"\w{2,}")


class SyntaxMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of code that has the shape. Lines and columns count from 1; columns are characters; ends are exclusive."""

    path: str
    absolute: str
    language: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    cut: bool
    """The text is longer than that."""
    captures: dict[str, str]
    """Name -> code; what a `$$$NAME` took is one text."""


class SyntaxFound(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_search` found, in the order of paths."""

    pattern: str
    path: str
    languages: list[str]
    """Those that files were parsed in."""
    matches: list[SyntaxMatch]
    files: int
    """With matches."""
    searched: int
    truncated: bool
    """There are more matches."""
    complete: bool
    """False: time was up before all files were looked at."""
    skipped: list[str]
    """Files that the parser failed on; others are left out as they are too large or no text."""
    left_out: int
    note: str


class RewrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a rewrite."""

    path: str
    absolute: str
    language: str
    replacements: int
    nested: int
    """Matches inside of others, which stay for another call."""
    added: int
    removed: int
    diff: str


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_rewrite` did, or would do."""

    pattern: str
    replacement: str
    path: str
    dry_run: bool
    files: list[RewrittenFile]
    replacements: int
    nested: int
    searched: int
    skipped: list[str]
    left_out: int
    truncated: bool
    """Diffs are cut or left out, for they are long."""
    note: str


# ---- the process that parses


class _Task(msgspec.Struct):
    """A text to search. No text: only the pattern is looked at."""

    language: str
    pattern: str
    text: str | None = None
    most: int = 0
    single: list[str] = []
    several: list[str] = []


class _Span(msgspec.Struct, array_like=True):
    start: int
    end: int
    captures: dict[str, tuple[int, int]] = {}


class _Answer(msgspec.Struct):
    spans: list[_Span] = []
    more: bool = False
    error: str = ""
    broken: bool = False
    """Parts of the pattern do not parse."""


def worker(source: IO[bytes] | None = None, sink: IO[bytes] | None = None) -> None:
    """The life of the process that parses: a task a line on stdin, an answer a line on stdout."""
    if source is None:
        _limit()
    answers = sink or sys.stdout.buffer
    for line in source or sys.stdin.buffer:
        task = msgspec.json.decode(line, type=_Task)
        try:
            answer = _checked(task) if task.text is None else _matched(task, task.text)
        except (RuntimeError, ValueError) as e:
            answer = _Answer(error=str(e) or type(e).__name__)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _limit() -> None:
    """What a parser that has lost its way may take from the machine."""
    import resource

    for what, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, int(SECONDS) * 2)):
        try:
            resource.setrlimit(what, (most, most))
        except (OSError, ValueError):  # a system that does not count this
            continue


def _matched(task: _Task, text: str) -> _Answer:
    from ast_grep_py import SgRoot

    root = SgRoot(text, task.language).root()
    found = root.find_all(pattern=task.pattern)
    if not found and task.language == "c" and (kind := _kind_in_c(task.pattern)):
        found = root.find_all(pattern={"context": _IN_C.format(task.pattern), "selector": kind, "strictness": "smart"})
    spans: list[_Span] = []
    for node in found[: task.most]:
        captures: dict[str, tuple[int, int]] = {}
        for name in task.single:
            if (one := node.get_match(name)) is not None:
                captures[name] = (one.range().start.index, one.range().end.index)
        for name in task.several:
            if several := node.get_multiple_matches(name):
                captures[name] = (several[0].range().start.index, several[-1].range().end.index)
        spans.append(_Span(node.range().start.index, node.range().end.index, captures))
    return _Answer(spans, len(found) > task.most)


_IN_C = "void f() {{ {}; }}"


def _kind_in_c(pattern: str) -> str:
    """What an expression of C is inside of a function: outside of one a call reads as a type. "" where it is none."""
    from ast_grep_py import SgRoot

    found = SgRoot(_IN_C.format(_VARIABLE.sub("A", pattern)), "c").root().find_all(kind="expression_statement")
    return found[0].children()[0].kind() if len(found) == 1 else ""


def _checked(task: _Task) -> _Answer:
    """Whether a pattern is one. The parser takes half a piece of code too, which then matches nothing."""
    from ast_grep_py import SgRoot

    SgRoot("", task.language).root().find(pattern=task.pattern)
    readings = [task.pattern, _VARIABLE.sub("A", task.pattern), _VARIABLE.sub("a", task.pattern)]
    whole = inside = False
    for reading in readings:
        node = SgRoot(reading, task.language).root()
        while len(children := node.children()) == 1:
            node = children[0]
        whole = whole or node.kind() != "ERROR"
        inside = inside or (node.kind() != "ERROR" and node.find(kind="ERROR") is None)
    if not whole:
        return _Answer(error="it is not whole")
    return _Answer(broken=not inside)


_REASONS = (
    ("Multiple AST nodes", "it is more than one piece of code; give one expression or statement"),
    ("Standalone multi", "a `$$$NAME` cannot stand alone; put code around it"),
    ("No AST root", "it holds no code"),
    ("it is not whole", "it is not a whole expression or statement"),
)
_START = "import sys; sys.path += sys.argv[1:]; from toolglot.builtin.syntax import worker; worker()"


def _reason(error: str) -> str:
    last = error.strip().splitlines()[-1].strip() if error.strip() else error
    return next((said for sign, said in _REASONS if sign in error), last[:200])


class _Lost(Exception):
    """The process ended, or did not answer in time."""


class _Parser:
    """The process that parses, from outside."""

    def __init__(self, wait: Callable[[], bool]) -> None:
        self._wait = wait
        spec = find_spec("ast_grep_py")
        if spec is None or spec.origin is None:
            raise ToolError("code cannot be parsed here: install toolglot[ast] (pip install 'toolglot[ast]')", kind="execution")
        folders = [str(Path(__file__).parents[2]), str(Path(spec.origin).parents[1])]
        keep = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", _START, *folders],
            cwd="/",
            env=keep,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, task: _Task) -> _Answer:
        """The answer to a task. Raises _Lost; ToolError, where nobody waits any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise _Lost from None
        try:
            return msgspec.json.decode(self._line(), type=_Answer)
        except msgspec.DecodeError:
            raise _Lost from None

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        handle, parts = self._process.stdout.fileno(), list[bytes]()
        poll = select.poll()
        poll.register(handle, select.POLLIN | select.POLLHUP)
        until = time.monotonic() + FILE_SECONDS
        while not (parts and parts[-1].endswith(b"\n")):
            if time.monotonic() > until or self._wait():
                raise _Lost
            if poll.poll(100):
                parts.append(os.read(handle, 1 << 18))
                if not parts[-1]:
                    raise _Lost
        return b"".join(parts)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream:
                    stream.close()
            except OSError:  # what was never read
                pass
        self._process.wait()


# ---- looking through files


class _Hit(msgspec.Struct, frozen=True):
    """A file with matches."""

    path: str
    opened: Opened
    language: str
    document: Document
    spans: list[_Span]
    more: bool


class _Search:
    """One look for a pattern. Use it as a context: the parser ends with it."""

    def __init__(self, box: Toolbox, pattern: str, path: str, language: str, include: str, context: Context | None) -> None:
        self._box, self._path, self._context = box, path or ".", context
        self.pattern = checked(pattern, "`pattern`", LONGEST_PATTERN)
        if not pattern.strip():
            raise ToolError("the pattern is empty: give code, with $NAME for what may vary", kind="validation")
        self._language = _known_language(language) if language else ""
        self._globs = Globs.of(include) if include else None
        names = [found.groups() for found in _VARIABLE.finditer(pattern)]
        self.several = sorted({name for name, _ in names if name and not name.startswith("_")})
        self.single = sorted({name for _, name in names if name and not name.startswith("_")} - set(self.several))
        self._word = max(_WORD.findall(_VARIABLE.sub(" ", pattern)), key=len, default="")
        self._parser: _Parser | None = None
        self._until = time.monotonic() + SECONDS
        self._checks: dict[str, _Answer] = {}
        self._alone = False
        self.searched = self.left_out = 0
        self.skipped: list[str] = []
        self.complete = True

    def __enter__(self) -> "_Search":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    @property
    def names(self) -> set[str]:
        return {*self.single, *self.several}

    @property
    def languages(self) -> list[str]:
        return sorted(language for language, answer in self._checks.items() if not answer.error)

    @property
    def note(self) -> str:
        """What may be wrong where nothing was found."""
        if not self._checks:
            what = f"{self._language} files" if self._language else "files of a known language"
            return f"there are no {what} to look at"
        broken = [language for language, answer in self._checks.items() if answer.broken]
        if len(broken) < len(self._checks):
            return ""
        return f"a part of the pattern does not parse as {' or '.join(broken)}, so that it may never match"

    def hits(self, most: int) -> Iterator[_Hit]:
        """The files with matches; at most so many matches of each are told. Raises ToolError."""
        for path, language in self._sources():
            if self._wait():
                self.complete = False
                break
            if self._fits(language) and (hit := self._looked(path, language, most)):
                yield hit
        wrong = [(language, answer.error) for language, answer in self._checks.items() if answer.error]
        if wrong and len(wrong) == len(self._checks):
            language, error = wrong[0]
            why = f"the pattern {self.pattern[:200]!r} is not {language} code that can be looked for"
            raise ToolError(f"{why}: {_reason(error)}", kind="validation")

    def _wait(self) -> bool:
        """Whether time is up. Raises ToolError, where nobody waits any more."""
        if self._context is not None and self._context.cancelled:
            raise ToolError("the search was cancelled; nothing was changed", kind="cancelled")
        return time.monotonic() > self._until

    def _sources(self) -> Iterator[tuple[str, str]]:
        """The paths of files to look at, and the language of each."""
        workspace = self._box.workspace
        found = workspace.look(self._path)
        if found is None:
            raise missing(self._box, self._path)
        if not stat.S_ISDIR(found.status.st_mode):
            self._alone = True
            language = self._language or _OF_END.get(found.path.suffix.lower(), "")
            if not language:
                raise ToolError(f"the language of {self._path!r} is not known: give one as language", kind="validation")
            yield str(found.path), language
            return
        with (
            workspace.listing(self._path) as opened,
            workspace.listing(searched_root(self._box, str(opened.path), opened.real)) as root,
        ):
            top, cut = str(root.path).rstrip("/"), len(opened.real) + 1 if opened.real else 0
            for folder in Walk(root.handle, opened.real):
                for name in sorted(entry.name for entry in folder.files):
                    path = f"{folder.path}/{name}" if folder.path else name
                    if language := self._language_of(path[cut:], name):
                        yield f"{top}/{path}", language
                if self._wait():
                    self.complete = False
                    return

    def _language_of(self, path: str, name: str) -> str:
        """As what a file of a folder is parsed; "" where it is not to be looked at."""
        if self._globs is not None and not self._globs.admits(path):
            return ""
        end = os.path.splitext(name)[1].lower()
        language = _OF_END.get(end, "")
        if not self._language:
            return language if self._globs is not None or language not in _NOT_CODE else ""
        also = _ALSO.get(self._language, {}).get(end, "")
        named = self._globs is not None and not language and not all(negated for negated, _ in self._globs.lines)
        return also or (self._language if language == self._language or named else "")

    def _fits(self, language: str) -> bool:
        """Whether the pattern is one of this language."""
        if language not in self._checks:
            answer = self._asked(_Task(language, self.pattern))
            self._checks[language] = answer or _Answer(error="the parser fails on it")
        return not self._checks[language].error

    def _looked(self, path: str, language: str, most: int) -> _Hit | None:
        try:
            data, opened = self._box.workspace.read(path, LARGEST_FILE)
        except ToolError:
            if self._alone:
                raise
            self.left_out += 1
            return None
        self.searched += 1
        if self._context is not None and self.searched % _EVERY == 0:
            self._context.report(f"{self.searched} files looked at")
        word = "" if language in _ANY_CASE else self._word
        if word.isascii() and word.encode() not in data and marked(data) is None and len(data) <= LARGEST_FILE:
            return None
        document = self._code(data)
        if document is None or word not in document.text:
            return None
        names = {"single": self.single, "several": self.several}
        answer = self._asked(_Task(language, self.pattern, document.text, most, **names))
        if answer is None or answer.error:
            self.skipped.append(shown(self._box.shown(opened.path)))
            return None
        return _Hit(path, opened, language, document, answer.spans, answer.more) if answer.spans else None

    def _code(self, data: bytes) -> Document | None:
        """The text of a file; None where there is none to look at. Raises ToolError, where it was asked for by name."""
        if len(data) <= LARGEST_FILE:
            document = decoded(data)
            if document is not None and _is_whole(document.text):
                return document
            why = "is not a text file"
        else:
            why = f"is larger than {LARGEST_FILE >> 20} MB"
        if self._alone:
            raise ToolError(f"{self._path!r} {why}, so it is not parsed", kind="execution")
        self.left_out += 1
        return None

    def _asked(self, task: _Task) -> _Answer | None:
        """The parser's answer; None where it failed."""
        try:
            if self._parser is None:
                self._parser = _Parser(self._wait)
            return self._parser.ask(task)
        except _Lost:
            self._end()
        if self._wait():
            self.complete = False
        elif len(self.skipped) >= MOST_LOST:
            raise ToolError(f"the parser fails on more than {MOST_LOST} files: search in another folder", kind="execution")
        return None


def _is_whole(text: str) -> bool:
    """Whether a text has no half characters, which no parser takes."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _known_language(name: str) -> str:
    plain = name.strip().lower().removeprefix(".")
    language = _ALIASES.get(plain, plain)
    if language in LANGUAGES:
        return language
    near = get_close_matches(plain, [*LANGUAGES, *_ALIASES], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(LANGUAGES)}"
    raise ToolError(f"there is no parser for {name[:40]!r}; {hint}", kind="validation")


def _check_count(max_results: int) -> None:
    if max_results < 1:
        raise ToolError(f"`max_results` is {max_results}: give 1 or more", kind="validation")


# ---- searching


class _Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, index: int) -> tuple[int, int]:
        """The line and column of a character, both from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def _matches(box: Toolbox, hit: _Hit, room: int) -> Iterator[SyntaxMatch]:
    text, lines = hit.document.text, _Lines(hit.document.text)
    for span in hit.spans[:room]:
        (line, column), (end_line, end_column) = lines.at(span.start), lines.at(span.end)
        yield SyntaxMatch(
            path=shown(box.shown(hit.opened.path)),
            absolute=shown(str(hit.opened.path)),
            language=hit.language,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            text=text[span.start : min(span.end, span.start + LONGEST_MATCH)],
            cut=span.end - span.start > LONGEST_MATCH,
            captures={name: text[start : min(end, start + LONGEST_MATCH)] for name, (start, end) in span.captures.items()},
        )


def _found(box: Toolbox, search: _Search, path: str, most: int) -> SyntaxFound:
    matches: list[SyntaxMatch] = []
    truncated, files = False, 0
    for hit in search.hits(most + 1):
        room = most - len(matches)
        matches += _matches(box, hit, room)
        files += room > 0
        if len(hit.spans) > room:
            truncated = True
            break
    return SyntaxFound(
        pattern=search.pattern,
        path=path,
        languages=search.languages,
        matches=matches,
        files=files,
        searched=search.searched,
        truncated=truncated,
        complete=search.complete,
        skipped=search.skipped,
        left_out=search.left_out,
        note="" if matches else search.note,
    )


def _found_told(found: SyntaxFound, several: Iterable[str]) -> str:
    lines = [_match_told(match, set(several)) for match in found.matches]
    if not lines:
        lines.append(f"No code matches {found.pattern[:200]!r} in {found.path!r} ({found.searched} files looked at).")
    if found.truncated:
        lines.append(f"[the first {len(found.matches)} matches; narrow the pattern or the path, or raise max_results]")
    if not found.complete:
        lines.append("[stopped before everything was looked at: search in a folder further down]")
    return "\n".join([*lines, *_asides(found.skipped, found.note)])


def _asides(skipped: list[str], note: str) -> list[str]:
    lines = [f"[{note}]"] if note else []
    if skipped:
        lines.append(f"[the parser failed on {', '.join(skipped[:_NAMED])}]")
    return lines


def _match_told(match: SyntaxMatch, several: set[str]) -> str:
    first, *rest = match.text.replace("\r\n", "\n").split("\n")
    lines = [f"{match.path}:{match.line}:{match.column}: {first}", *(f"    {line}" for line in rest)]
    if match.cut:
        lines.append("    …")
    for name, text in match.captures.items():
        sign = "$$$" if name in several else "$"
        lines.append(f"    {sign}{name} = {' '.join(text.split())[:200]}")
    return "\n".join(lines)


# ---- rewriting


class _Draft(msgspec.Struct, frozen=True):
    """A file as it is to be."""

    hit: _Hit
    after: str
    replacements: int
    nested: int


def _rewritten(hit: _Hit, replacement: str, names: set[str]) -> _Draft:
    """The file with its outermost matches replaced. Raises ToolError."""
    text = hit.document.text
    template = replacement.removesuffix("\n").removesuffix("\r")  # the line of the match has its own end
    template = with_newlines(template, "crlf") if hit.document.form.newline == "crlf" else template
    parts: list[str] = []
    at = count = nested = 0
    for span in sorted(hit.spans, key=lambda span: (span.start, -span.end)):
        if span.start < at:
            nested += 1
            continue
        parts += (text[at : span.start], _filled(template, span, text, hit.language, names))
        at, count = span.end, count + 1
    return _Draft(hit, "".join([*parts, text[at:]]), count, nested)


def _filled(template: str, span: _Span, text: str, language: str, names: set[str]) -> str:
    """The replacement of one match. Its lines, and those of what was captured, are indented as where they go."""
    outer = _indent(text, span.start)
    template = re.sub(r"\n(?!\r?\n)", "\n" + outer, template)

    def code(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in names:
            if language in _DOLLARS:
                return found[0]
            known = f"it has {', '.join(f'${one}' for one in sorted(names))}" if names else "it has none"
            raise ToolError(f"the replacement uses {found[0]}, which the pattern does not capture: {known}", kind="validation")
        if name not in span.captures:
            return ""
        start, end = span.captures[name]
        there = _indent(template, found.start())
        return _moved(text[start:end], _indent(text, start), there if "\n" in template[: found.start()] else outer + there)

    return _VARIABLE.sub(code, template)


def _indent(text: str, at: int) -> str:
    """The white space that the line of a character begins with."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while end < at and text[end] in " \t":
        end += 1
    return text[start:end]


def _moved(code: str, before: str, after: str) -> str:
    """Code with other indentation, its first line excepted."""
    if before == after or "\n" not in code:
        return code
    first, *rest = code.split("\n")
    return "\n".join([first, *(after + line[len(before) :] if line.startswith(before) else line for line in rest)])


def _drafts(search: _Search, replacement: str, most: int) -> list[_Draft]:
    """All files as they are to be. Raises ToolError: it is too much for one call."""
    drafts: list[_Draft] = []
    total = size = 0
    for hit in search.hits(most + 1):
        total += len(hit.spans)
        if total > most or hit.more:
            why = f"the pattern matches more than {most} times"
            raise ToolError(f"{why}: narrow the pattern or the path, or raise max_results", kind="limit")
        draft = _rewritten(hit, replacement, search.names)
        if draft.after != hit.document.text:
            drafts.append(draft)
            size += len(draft.after)
        if len(drafts) > MOST_FILES or size > MOST_BYTES:
            raise ToolError(
                f"over {MOST_FILES} files or {MOST_BYTES >> 20} MB would change: take a smaller folder", kind="limit"
            )
    if not search.complete:
        raise ToolError("not all files could be looked at in time, so nothing was changed: take a smaller folder", kind="limit")
    return drafts


def _write(box: Toolbox, drafts: list[_Draft]) -> None:
    """All of the files, or none. What the model had seen before, it knows now."""
    changes = [
        Change(draft.hit.path, encoded(draft.after, draft.hit.document.form), draft.hit.opened.version) for draft in drafts
    ]
    for draft, written in zip(drafts, box.workspace.change(changes), strict=True):
        if box.versions.get(draft.hit.opened.path) == draft.hit.opened.version:
            box.saw(written.path, written.version)


def _files(box: Toolbox, drafts: list[_Draft]) -> tuple[list[RewrittenFile], bool]:
    """What is told of the files, and whether some differences are cut."""
    files: list[RewrittenFile] = []
    room, truncated = MOST_DIFF, False
    for draft in drafts:
        before, path = draft.hit.document.text, shown(box.shown(draft.hit.opened.path))
        added, removed = changed_lines(before, draft.after)
        diff = unified(before, draft.after, path)
        truncated = truncated or len(diff) > room
        diff, room = diff[:room], max(room - len(diff), 0)
        files.append(
            RewrittenFile(
                path=path,
                absolute=shown(str(draft.hit.opened.path)),
                language=draft.hit.language,
                replacements=draft.replacements,
                nested=draft.nested,
                added=added,
                removed=removed,
                diff=diff,
            )
        )
    return files, truncated


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rewritten_told(done: Rewritten) -> str:
    if not done.files:
        why = f"Nothing to change: no code matches {done.pattern[:200]!r} in {done.path!r} ({done.searched} files looked at)."
        return "\n".join([why, *_asides(done.skipped, done.note)])
    places = f"{_counted(done.replacements, 'place')} in {_counted(len(done.files), 'file')}"
    head = f"would change {places}; with dry_run=false it is written" if done.dry_run else f"changed {places}"
    lines = [head, *(f"{file.path}: {file.replacements}" for file in done.files)]
    if done.nested:
        lines.append(f"[matches inside of others stay as they are ({done.nested}): call it again for them]")
    lines += _asides(done.skipped, done.note)
    lines += [file.diff.rstrip("\n") for file in done.files if file.diff]
    return "\n".join([*lines, *(["[the rest of the difference is left out]"] if done.truncated else [])])


# ---- the tools


def syntax_tools(box: Toolbox) -> list[Tool]:
    """`ast_search` and `ast_rewrite`."""

    @tool(
        name="ast_search",
        effects="read",
        idempotent=True,
        target=target_of(box),
        examples=[{"pattern": "requests.get($URL, $$$ARGS)", "language": "python", "path": "src"}],
    )
    def ast_search(
        pattern: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = 100,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Find code by its structure: the pattern is code in which $NAME stands for any one piece and $$$NAME for any number.

        Spaces, line ends and comments do not matter; the same $NAME twice must be the same code. What .gitignore files name is
        left out.

        Args:
            pattern: One whole expression or statement, such as 'print($$$ARGS)' or 'if $A == None: $$$BODY'.
            path: The file or folder to search; the workspace without it.
            language: What the code is written in, such as python or tsx; without it, each file's name tells.
            include_glob: Only files whose path in the folder matches, such as '**/test_*.py'.
            max_results: How many matches to show at most.
            context: The call.
        """
        _check_count(max_results)
        with _Search(box, pattern, path, language, include_glob, context) as search:
            found = _found(box, search, path, min(max_results, MOST_RESULTS))
        return ToolOutput(_found_told(found, search.several), built(found))

    def planned(search: _Search, path: str, replacement: str, most: int, dry_run: bool) -> tuple[list[_Draft], Rewritten]:
        checked(replacement, "`replacement`", LONGEST_PATTERN * 10)
        _check_count(most)
        drafts = _drafts(search, replacement, min(most, MOST_REWRITES))
        files, truncated = _files(box, drafts)
        return drafts, Rewritten(
            pattern=search.pattern,
            replacement=replacement,
            path=path,
            dry_run=dry_run,
            files=files,
            replacements=sum(file.replacements for file in files),
            nested=sum(file.nested for file in files),
            searched=search.searched,
            skipped=search.skipped,
            left_out=search.left_out,
            truncated=truncated,
            note="" if files else search.note,
        )

    def preview(arguments: dict[str, Any]) -> str:
        if arguments.get("dry_run", True):
            return "(nothing is written: it only shows what would change)"
        given = [arguments.get(name) or "" for name in ("pattern", "path", "language", "include_glob")]
        try:
            with _Search(box, given[0], given[1], given[2], given[3], None) as search:
                most = arguments.get("max_results", MOST_RESULTS)
                return _rewritten_told(planned(search, given[1] or ".", arguments.get("replacement") or "", most, False)[1])
        except ToolError as e:
            return f"(this will fail: {e})"

    @tool(
        name="ast_rewrite",
        effects=("read", "write"),
        target=target_of(box),
        preview=preview,
        examples=[{"pattern": "assertEquals($A, $B)", "replacement": "assertEqual($A, $B)", "path": "tests"}],
    )
    def ast_rewrite(
        pattern: str,
        replacement: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = MOST_RESULTS,
        dry_run: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Replace code by its structure, in all files or in none. Look at the difference first, then set dry_run to false.

        Args:
            pattern: The code to replace, as for ast_search: $NAME is any one piece, $$$NAME any number.
            replacement: What to put there; $NAME and $$$NAME are what the pattern captured.
            path: The file or folder to change; the workspace without it.
            language: What the code is written in, such as python or tsx; without it, each file's name tells.
            include_glob: Only files whose path in the folder matches, such as '**/test_*.py'.
            max_results: How many places may change; where there are more, nothing does.
            dry_run: Only show what would change.
            context: The call.
        """
        with box.lock, _Search(box, pattern, path, language, include_glob, context) as search:
            drafts, done = planned(search, path, replacement, max_results, dry_run)
            if drafts and not dry_run:
                _write(box, drafts)
        return ToolOutput(_rewritten_told(done), built(done))

    return [ast_search, ast_rewrite]
