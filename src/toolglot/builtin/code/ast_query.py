"""A search for code by structure: which files are parsed, in which language, and what matches in them.

Files are found and read as by every other tool. A file on which the parser fails is skipped, and the result
says so.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolglot.builtin.code.ast_worker import (
    METAVARIABLE,
    ParseAnswer,
    ParserFailed,
    ParserProcess,
    ParseTask,
    Span,
)
from toolglot.builtin.files.text import Document, check_text, decode_document, detect_bom, has_lone_surrogate
from toolglot.builtin.files.text_files import missing_file_error
from toolglot.builtin.files.workspace import WorkspaceEntry
from toolglot.builtin.search.globs import GlobFilter
from toolglot.builtin.search.search_scope import open_search_root, start_deadline
from toolglot.builtin.search.walk import Walk
from toolglot.builtin.tool_state import ToolState
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import escape_surrogates
from toolglot.values.failures import invalid_argument

__all__ = ["DOLLAR_LANGUAGES", "LANGUAGES", "AstFileMatches", "AstQuery", "AstResult", "resolve_language"]

MAX_FILE_SIZE = 2 * 1024 * 1024
MAX_PATTERN_LENGTH = 10_000
TIMEOUT_SECONDS = 60.0
MAX_PARSER_FAILURES = 5
_PROGRESS_INTERVAL = 500  # files between two progress reports
_MAX_NAMED = 20

LANGUAGES: dict[str, tuple[str, ...]] = {
    "bash": (".sh", ".bash", ".zsh", ".ksh", ".bats"), "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".cu", ".ino"), "csharp": (".cs", ".csx"),
    "css": (".css",), "dart": (".dart",), "elixir": (".ex", ".exs"), "go": (".go",), "haskell": (".hs",),
    "hcl": (".tf", ".tfvars", ".hcl"), "html": (".html", ".htm", ".xhtml"), "java": (".java",),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"), "json": (".json",), "kotlin": (".kt", ".kts"), "lua": (".lua",),
    "markdown": (".md", ".markdown"), "nix": (".nix",), "php": (".php", ".phtml"), "python": (".py", ".pyi", ".pyw", ".bzl"),
    "ruby": (".rb", ".rbw", ".rake", ".gemspec"), "rust": (".rs",), "scala": (".scala", ".sc", ".sbt"), "solidity": (".sol",),
    "swift": (".swift",), "tsx": (".tsx",), "typescript": (".ts", ".mts", ".cts"), "yaml": (".yaml", ".yml"),
    "zig": (".zig",),
}  # fmt: skip
_ALIASES = {
    "c#": "csharp", "c++": "cpp", "cc": "cpp", "cs": "csharp", "ex": "elixir", "golang": "go", "hs": "haskell",
    "js": "javascript", "jsx": "javascript", "kt": "kotlin", "md": "markdown", "py": "python", "python3": "python",
    "rb": "ruby", "rs": "rust", "sh": "bash", "shell": "bash", "sol": "solidity", "terraform": "hcl",
    "tf": "hcl", "ts": "typescript", "yml": "yaml",
}  # fmt: skip
LANGUAGE_BY_SUFFIX = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes}
EXTRA_SUFFIXES = {"typescript": {".tsx": "tsx"}, "cpp": {".h": "cpp"}}
"""Language of a call -> suffixes of other languages that it includes -> the language to parse them in."""
NON_CODE = frozenset({"css", "html", "json", "markdown", "yaml"})  # searched only on request
CASE_INSENSITIVE = frozenset({"css", "html", "php"})
DOLLAR_LANGUAGES = frozenset({"bash", "php"})  # `$NAME` may be a variable of the language


def resolve_language(name: str) -> str:
    """Return a language by its name or alias. Raises ToolError."""
    plain = name.strip().lower().removeprefix(".")
    language = _ALIASES.get(plain, plain)
    if language in LANGUAGES:
        return language
    hint = (
        did_you_mean(suggest(plain, [*LANGUAGES, *_ALIASES], limit=1))
        or f"known languages: {', '.join(LANGUAGES)}"
    )
    raise ToolError(
        f"there is no parser for {name[:40]!r}; {hint}", kind="validation", code="unknown_language"
    )


class AstFileMatches(msgspec.Struct, frozen=True):
    """A file with matches. `is_truncated`: it has more of them."""

    opened: WorkspaceEntry
    language: str
    document: Document
    spans: list[Span]
    is_truncated: bool


class AstResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the results of both tools tell about the search."""

    pattern: str
    path: str
    searched: int
    """The number of files that were searched."""
    skipped: list[str]
    """Files on which the parser failed."""
    note: str

    def render_empty(self) -> str:
        return f"No code matches {self.pattern[:200]!r} in {self.path!r} ({self.searched} files searched)"

    def render_notes(self) -> list[str]:
        """Return the lines about files on which the parser failed, and about a pattern that may be wrong."""
        lines = [f"[{self.note}]"] if self.note else []
        if self.skipped:
            lines.append(f"[the parser failed on {', '.join(self.skipped[:_MAX_NAMED])}]")
        return lines


def _is_captured(name: str | None) -> bool:
    """Whether what a variable of a pattern stands for is reported, and can be used in a replacement."""
    return bool(name) and not name.startswith("_")


class AstQuery:
    """One search for a pattern. `close` ends the parser. Raises ToolError."""

    def __init__(
        self,
        state: ToolState,
        pattern: str,
        path: str,
        language: str = "",
        include: str = "",
        context: Context | None = None,
    ) -> None:
        self._state, self._path = state, path or "."
        self.pattern = check_text(pattern, "pattern", MAX_PATTERN_LENGTH)
        if not pattern.strip():
            raise invalid_argument("pattern", "is empty; give code, with $NAME for the parts that vary")
        self._language = resolve_language(language) if language else ""
        self._globs = GlobFilter.parse(include) if include else None
        # Whether the globs ask for files, not only exclude some.
        self._has_requests = self._globs is not None and not all(
            negated for negated, _ in self._globs.patterns
        )
        variables = [match.groups() for match in METAVARIABLE.finditer(pattern)]
        multi_names = {name for name, _ in variables if _is_captured(name)}
        single_names = {name for _, name in variables if _is_captured(name)}
        self.multi_names = sorted(multi_names)
        self.single_names = sorted(single_names - multi_names)
        self._required_word = max(re.findall(r"\w{2,}", METAVARIABLE.sub(" ", pattern)), key=len, default="")
        self._parser: ParserProcess | None = None
        self._should_stop = start_deadline(context, TIMEOUT_SECONDS, _PROGRESS_INTERVAL)
        self._pattern_checks: dict[str, ParseAnswer] = {}
        self._is_single_file = False
        self.file_count = 0
        self.failed_paths: list[str] = []
        self.complete = True

    def close(self) -> None:
        """End the parser."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def summarize(self, *, is_empty: bool) -> dict[str, Any]:
        """Return the fields of an `AstResult`."""
        return {
            "pattern": self.pattern,
            "path": self._path,
            "searched": self.file_count,
            "skipped": self.failed_paths,
            "note": self._note if is_empty else "",
        }

    @property
    def _note(self) -> str:
        """A possible reason why nothing was found."""
        if not self._pattern_checks:
            kind = f"{self._language} files" if self._language else "files of a known language"
            return f"there are no {kind} to search"
        broken = [language for language, answer in self._pattern_checks.items() if answer.has_errors]
        if len(broken) < len(self._pattern_checks):
            return ""
        return f"part of the pattern does not parse as {' or '.join(broken)}, so it may never match"

    def iter_files(self, limit: int) -> Iterator[AstFileMatches]:
        """Yield the files with matches, with at most `limit` matches each. Raises ToolError."""
        for path, language in self._iter_sources():
            if self._should_stop(self.file_count):
                self.complete = False
                break
            if language not in self._pattern_checks:
                answer = self._run_task(ParseTask(language, self.pattern))
                self._pattern_checks[language] = answer or ParseAnswer(error="the parser fails on it")
            if self._pattern_checks[language].error:
                continue
            if file := self._search_file(path, language, limit):
                yield file
        errors = [
            (language, answer.error) for language, answer in self._pattern_checks.items() if answer.error
        ]
        if errors and len(errors) == len(self._pattern_checks):
            language, error = errors[0]
            message = f"the pattern {self.pattern[:200]!r} is not valid {language} code: {error}"
            raise ToolError(message, kind="validation", code="invalid_pattern")

    def _iter_sources(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of files to search, with their languages."""
        entry = self._state.workspace.inspect(self._path)
        if entry is None:
            raise missing_file_error(self._state, self._path)
        if not entry.is_directory:
            self._is_single_file = True
            language = self._language or LANGUAGE_BY_SUFFIX.get(entry.path.suffix.lower(), "")
            if not language:
                message = f"cannot determine the language of {self._path!r} from its name; name the language"
                raise ToolError(message, kind="validation", code="unknown_language")
            yield str(entry.path), language
            return
        with open_search_root(self._state, self._path) as root:
            for directory in Walk(root.root_fd, root.relative):
                for name in sorted(entry.name for entry in directory.files):
                    path = f"{directory.path}/{name}" if directory.path else name
                    if language := self._detect_language(path[root.prefix_length :], name):
                        yield f"{root.root_path}/{path}", language
                if self._should_stop(self.file_count):
                    self.complete = False
                    return

    def _detect_language(self, path: str, name: str) -> str:
        """Return the language to parse a file of a directory in; "" to omit it."""
        if self._globs is not None and not self._globs.admits(path):
            return ""
        suffix = os.path.splitext(name)[1].lower()
        language = LANGUAGE_BY_SUFFIX.get(suffix, "")
        if not self._language:
            is_omitted = language in NON_CODE and self._globs is None
            return "" if is_omitted else language
        if extra := EXTRA_SUFFIXES.get(self._language, {}).get(suffix, ""):
            return extra
        # A file with an unknown suffix that a glob asks for is parsed in the language of the call.
        is_requested = self._has_requests and not language
        if is_requested or language == self._language:
            return self._language
        return ""

    def _search_file(self, path: str, language: str, limit: int) -> AstFileMatches | None:
        self.file_count += 1
        # Parsing is slow: a file without the longest word of the pattern cannot match.
        word = "" if language in CASE_INSENSITIVE else self._required_word
        try:
            data, opened = self._state.workspace.read(path, MAX_FILE_SIZE)
            if len(data) > MAX_FILE_SIZE:
                message = f"{self._path!r} is larger than {MAX_FILE_SIZE >> 20} MB, so it is not parsed"
                raise ToolError(message, code="file_too_large")
            if word.isascii() and word.encode() not in data and detect_bom(data) is None:
                return None
            document = decode_document(data)
            if document is None or has_lone_surrogate(document.text):
                raise ToolError(f"{self._path!r} is not a text file, so it is not parsed", code="not_text")
        except ToolError:
            if self._is_single_file:
                raise
            return None
        if word not in document.text:
            return None
        task = ParseTask(language, self.pattern, document.text, limit, self.single_names, self.multi_names)
        answer = self._run_task(task)
        if answer is None or answer.error:
            self.failed_paths.append(escape_surrogates(self._state.display_path(opened.path)))
            return None
        return (
            AstFileMatches(opened, language, document, answer.spans, answer.is_truncated)
            if answer.spans
            else None
        )

    def _run_task(self, task: ParseTask) -> ParseAnswer | None:
        """Return the parser's answer; None if it failed."""
        try:
            if self._parser is None:
                self._parser = ParserProcess(
                    lambda: self._should_stop(self.file_count), self._state.workspace.roots
                )
            return self._parser.run(task)
        except ParserFailed:
            self.close()
        if self._should_stop(self.file_count):
            self.complete = False
        elif len(self.failed_paths) >= MAX_PARSER_FAILURES:
            message = f"the parser fails on more than {MAX_PARSER_FAILURES} files; search another directory"
            raise ToolError(message, code="search_failed")
        return None
