"""A search for lines as both ways of doing it need it, what comes of it, and the way without another program.

Law: the patterns are ripgrep's, whoever looks for them; matching in Python is done in a process of its own (`search.worker`).
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from toolglot.builtin.child_process import ProcessStopped, read_output, split_records, start_python_worker
from toolglot.builtin.search.ignore import GlobFilter
from toolglot.builtin.search.regexes import invalid_regex_error, translate_regex
from toolglot.errors import ToolError

__all__ = [
    "FILE_TYPES",
    "UNLIMITED",
    "FileMatches",
    "GrepMatches",
    "GrepQuery",
    "MatchedLine",
    "globs_for_type",
    "search_with_python",
    "unknown_type_error",
]

UNLIMITED = 1 << 30

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
"""Number, text, what was found in it, and where the first of that begins."""


class FileMatches(msgspec.Struct):
    """A file with matches; its lines where they are of interest."""

    path: str
    count: int
    lines: list[MatchedLine]


class GrepMatches(msgspec.Struct):
    """All that was found; not `complete`: it was stopped before the end."""

    engine: str
    files: list[FileMatches] = msgspec.field(default_factory=list[FileMatches])
    complete: bool = True


class GrepQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where. `start`: the folder below the root; `file`: a single file instead of it."""

    pattern: str
    root: int
    start: str
    file: str
    include: GlobFilter
    kind: str
    kinds: tuple[str, ...]
    exclude: str
    mode: str
    ignore_case: bool
    literal: bool
    multiline: bool
    git: bool
    most: int
    """Lines of one file that are of interest."""
    should_stop: Callable[[int], bool]

    @property
    def with_lines(self) -> bool:
        return self.mode == "content"


def globs_for_type(file_type: str) -> tuple[str, ...]:
    """The globs of a type of files; none where only ripgrep may know it. Raises ToolError."""
    if file_type and not re.fullmatch(r"[A-Za-z0-9_+-]{1,40}", file_type):
        raise unknown_type_error(file_type[:40])
    return tuple(FILE_TYPES.get(file_type, "").split())


def unknown_type_error(name: str) -> ToolError:
    """That there is no such type of files, and which ones are called nearly so."""
    near = get_close_matches(name, FILE_TYPES, n=3, cutoff=0.5) or ["py", "js", "ts"]
    return ToolError(f"there is no file type {name!r}; did you mean {' or '.join(map(repr, near))}?", kind="validation")


# ---- Python


def search_with_python(query: GrepQuery) -> GrepMatches:
    """The search without ripgrep. Raises ToolError."""
    if query.kind and not query.kinds:
        raise unknown_type_error(query.kind)
    hits, ended = GrepMatches("python"), False
    try:
        for said in _run_worker(_build_task(query), query.should_stop):
            if "error" in said:
                raise invalid_regex_error(query.pattern, said["error"])
            if "path" in said:
                hits.files.append(msgspec.convert(said, FileMatches))
            else:
                ended, hits.complete = True, not said["ended"]
    except ProcessStopped:
        ended, hits.complete = True, False
    if not ended:
        raise ToolError("the search stopped for a reason of its own; search in a smaller folder", kind="execution")
    return hits


def _build_task(query: GrepQuery) -> dict[str, Any]:
    """The search in the words of `search.matched`."""
    regex = translate_regex(query.pattern, literal=query.literal, ignore_case=query.ignore_case, multiline=query.multiline)
    same = ("ignore_case", "multiline", "root", "start", "file", "git", "kinds", "most", "with_lines")
    return {
        "source": regex.source,
        "literal": regex.literal,
        "exclude": translate_regex(query.exclude, ignore_case=query.ignore_case).source if query.exclude else "",
        "include": [f"{'!' * negated}{glob}" for negated, glob in query.include.patterns],
        **{name: getattr(query, name) for name in same},
    }


def _run_worker(task: dict[str, Any], should_stop: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """What a process that matches says to a task. Raises Stopped."""
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(task).encode())
        given.seek(0)
        process = start_python_worker("toolglot.builtin.search.grep_worker", given, pass_fds=[task["root"]])
        for piece in split_records(read_output(process, should_stop), b"\n"):
            yield json.loads(piece)
