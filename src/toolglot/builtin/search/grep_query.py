"""What both search engines share: the query, its result, file types; and the engine without ripgrep."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolglot.base_errors import invalid_argument
from toolglot.builtin.child_process import ProcessStopped, read_output, split_records, start_python_worker
from toolglot.builtin.search.globs import GlobFilter
from toolglot.errors import ToolError
from toolglot.textutil import did_you_mean, suggest

__all__ = [
    "FALLBACK_NOTE",
    "FILE_TYPES",
    "UNLIMITED",
    "FileMatches",
    "GrepMatches",
    "GrepQuery",
    "MatchedLine",
    "globs_for_type",
    "invalid_pattern_error",
    "search_with_python",
    "unknown_type_error",
]

UNLIMITED = 1 << 30
FALLBACK_NOTE = (
    "ripgrep is not available, so the pattern was read by Python's re module: look-around and backreferences work; "
    r"\p{…}, [[:alpha:]] and flags in the middle of a pattern do not"
)

FILE_TYPES: dict[str, str] = {
    "c": "*.c *.h *.H *.cats", "cpp": "*.cpp *.hpp *.cc *.hh *.cxx *.hxx *.C *.h *.H *.inl",
    "cmake": "*.cmake CMakeLists.txt", "config": "*.cfg *.conf *.config *.ini", "cs": "*.cs", "csharp": "*.cs",
    "css": "*.css *.scss", "csv": "*.csv", "dart": "*.dart", "docker": "*Dockerfile*", "elixir": "*.ex *.eex *.exs *.heex",
    "go": "*.go", "graphql": "*.graphql *.graphqls", "haskell": "*.hs *.lhs *.hsc", "html": "*.html *.htm *.ejs",
    "java": "*.java *.jsp *.jspx *.properties", "js": "*.js *.jsx *.mjs *.cjs *.vue", "json": "*.json composer.lock",
    "jsonl": "*.jsonl", "kotlin": "*.kt *.kts", "lua": "*.lua", "make": "Makefile makefile GNUmakefile *.mk *.mak",
    "markdown": "*.md *.markdown *.mdown *.mkdn *.mdx", "md": "*.md *.markdown *.mdown *.mkdn *.mdx",
    "perl": "*.pl *.PL *.pm *.perl *.t", "php": "*.php *.phtml", "protobuf": "*.proto", "py": "*.py *.pyi",
    "python": "*.py *.pyi", "r": "*.R *.r *.Rmd *.Rnw", "ruby": "*.rb *.gemspec *.rbw .irbrc Gemfile Rakefile config.ru",
    "rust": "*.rs", "scala": "*.scala *.sbt", "sh": "*.sh *.bash *.zsh *.ksh *.csh .bashrc .profile .zshrc",
    "sql": "*.sql *.psql", "svelte": "*.svelte", "swift": "*.swift", "tex": "*.tex *.sty *.cls *.bib",
    "toml": "*.toml Cargo.lock", "ts": "*.ts *.tsx *.mts *.cts", "txt": "*.txt", "vue": "*.vue",
    "xml": "*.xml *.xsd *.xsl *.xslt *.dtd", "yaml": "*.yaml *.yml", "zig": "*.zig",
}  # fmt: skip

MatchedLine = tuple[int, str, list[str], int]
"""Line number, text, matched texts, and where the first match starts."""


class FileMatches(msgspec.Struct):
    """A file with matches. `lines` is empty unless the query asks for content."""

    path: str
    count: int
    lines: list[MatchedLine]


class GrepMatches(msgspec.Struct):
    """Everything that was found. Not `complete`: the search was stopped early."""

    engine: str
    files: list[FileMatches] = msgspec.field(default_factory=list[FileMatches])
    complete: bool = True


class GrepQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for, and where. Paths are relative to the root; `file` replaces `directory` for a single file."""

    pattern: str
    root_fd: int = -1
    directory: str = ""
    file: str = ""
    include: GlobFilter
    file_type: str
    exclude: str
    mode: str
    ignore_case: bool
    literal: bool
    multiline: bool
    respect_ignore: bool
    limit_per_file: int
    should_stop: Callable[[int], bool]

    @property
    def with_lines(self) -> bool:
        return self.mode == "content"


def globs_for_type(file_type: str) -> tuple[str, ...]:
    """Return the globs of a file type; none for a type that only ripgrep may know."""
    return tuple(FILE_TYPES.get(file_type, "").split())


def unknown_type_error(name: str) -> ToolError:
    """Return the error for an unknown file type."""
    names = suggest(name, FILE_TYPES, cutoff=0.5) or ["py", "js", "ts"]
    return invalid_argument("file_type", f"{name[:40]!r} is not a known file type; {did_you_mean(names)}")


def invalid_pattern_error(pattern: str, reason: str) -> ToolError:
    """Return the error for a pattern that is not a regular expression."""
    message = f"{pattern[:80]!r} is not a valid regular expression: {reason}"
    return ToolError(message, kind="validation", code="invalid_pattern")


def search_with_python(query: GrepQuery) -> GrepMatches:
    """Search without ripgrep. Raises ToolError."""
    type_globs = globs_for_type(query.file_type)
    if query.file_type and not type_globs:
        raise unknown_type_error(query.file_type)
    task = {
        "pattern": re.escape(query.pattern) if query.literal else query.pattern,
        "exclude": query.exclude,
        "ignore_case": query.ignore_case,
        "multiline": query.multiline,
        "root_fd": query.root_fd,
        "directory": query.directory,
        "file": query.file,
        "include": [f"{'!' * negated}{glob}" for negated, glob in query.include.patterns],
        "type_globs": type_globs,
        "ignore": query.respect_ignore,
        "with_lines": query.with_lines,
        "limit_per_file": query.limit_per_file,
    }
    matches, finished = GrepMatches("python", complete=False), False
    try:
        for event in _run_worker(task, query.should_stop):
            if "error" in event:
                raise invalid_pattern_error(query.pattern, f"{event['error']} ({FALLBACK_NOTE})")
            if "path" in event:
                matches.files.append(msgspec.convert(event, FileMatches))
            else:
                matches.complete, finished = event["complete"], True
    except ProcessStopped:
        finished = True
    if not finished:
        message = "the search process ended unexpectedly; search a smaller directory"
        raise ToolError(message, kind="execution", code="search_failed")
    return matches


def _run_worker(task: dict[str, Any], should_stop: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """Yield the worker's events. Raises ProcessStopped."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(task).encode())
        stdin.seek(0)
        process = start_python_worker("toolglot.builtin.search.grep_worker", stdin, pass_fds=[task["root_fd"]])
        for record in split_records(read_output(process, should_stop), b"\n"):
            yield json.loads(record)
