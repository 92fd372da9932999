"""What both search engines share: the query, the matches, file types."""

import msgspec

from toolglot.common.textutil import did_you_mean, suggest
from toolglot.errors import ToolError
from toolglot.values.failures import InvalidPattern, invalid_argument

__all__ = [
    "FALLBACK_NOTE",
    "FILE_TYPES",
    "UNLIMITED",
    "FileMatches",
    "GrepMatches",
    "GrepQuery",
    "MatchedLine",
    "invalid_pattern_error",
    "unknown_type_error",
]

UNLIMITED = 1 << 30
FALLBACK_NOTE = (
    "the pattern was read by Python's re module, not by ripgrep: look-around and backreferences work; "
    r"\p{…}, [[:alpha:]] and flags in the middle of a pattern do not"
)

FILE_TYPES: dict[str, str] = {
    "c": "*.c *.h *.H *.cats", "cpp": "*.cpp *.hpp *.cc *.hh *.cxx *.hxx *.C *.h *.H *.inl",
    "cmake": "*.cmake CMakeLists.txt", "config": "*.cfg *.conf *.config *.ini", "cs": "*.cs", "csharp": "*.cs",
    "css": "*.css *.scss", "csv": "*.csv", "dart": "*.dart", "docker": "*Dockerfile*", "elixir": "*.ex *.eex *.exs *.heex",
    "go": "*.go", "graphql": "*.graphql *.graphqls", "haskell": "*.hs *.lhs *.hsc", "html": "*.html *.htm *.ejs",
    "java": "*.java *.jsp *.jspx *.properties", "js": "*.js *.jsx *.mjs *.cjs *.vue", "json": "*.json composer.lock",
    "jsonl": "*.jsonl", "kotlin": "*.kt *.kts", "lua": "*.lua", "make": "Makefile makefile GNUmakefile *.mk "
                                                                        "*.mak",
    "markdown": "*.md *.markdown *.mdown *.mkdn *.mdx", "md": "*.md *.markdown *.mdown *.mkdn *.mdx",
    "perl": "*.pl *.PL *.pm *.perl *.t", "php": "*.php *.phtml", "protobuf": "*.proto", "py": "*.py *.pyi",
    "python": "*.py *.pyi", "r": "*.R *.r *.Rmd *.Rnw", "ruby": "*.rb *.gemspec *.rbw .irbrc Gemfile "
                                                                "Rakefile config.ru",
    "rust": "*.rs", "scala": "*.scala *.sbt", "sh": "*.sh *.bash *.zsh *.ksh *.csh .bashrc .profile .zshrc",
    "sql": "*.sql *.psql", "svelte": "*.svelte", "swift": "*.swift", "tex": "*.tex *.sty *.cls *.bib",
    "toml": "*.toml Cargo.lock", "ts": "*.ts *.tsx *.mts *.cts", "txt": "*.txt", "vue": "*.vue",
    "xml": "*.xml *.xsd *.xsl *.xslt *.dtd", "yaml": "*.yaml *.yml", "zig": "*.zig",
}  # fmt: skip

MAX_LINE_MATCHES = 1000
"""Matches in one line that are kept: a line of a megabyte may have a million."""
MatchedLine = tuple[int, str, list[str], int]
"""Line number, text, matched texts (up to the limit), and where the first match starts."""


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
    """What a call searches for, where, and which part of the matches it wants to see."""

    pattern: str
    exclude: str
    """Lines that match this pattern, too, do not count."""
    include: list[str]
    """Globs without braces; a leading `!` excludes."""
    file_type: str
    mode: str
    ignore_case: bool
    literal: bool
    multiline: bool
    respect_ignore: bool
    max_per_file: int
    limit: int
    skip: int
    before: int
    after: int
    auto_context: bool
    only_matching: bool
    line_numbers: bool
    hidden: bool = True
    """Search files and directories whose names begin with a dot."""
    root_fd: int = -1
    start: str = ""
    """The file or directory to search, relative to the root."""
    is_file: bool = False

    @property
    def with_lines(self) -> bool:
        return self.mode == "content"

    @property
    def limit_per_file(self) -> int:
        """As many matches of a file as are needed: one more than the page has shows that there are more."""
        if self.mode == "files":
            return 1
        return min(self.max_per_file, self.limit + self.skip + 1) if self.with_lines else self.max_per_file

    @property
    def type_globs(self) -> list[str]:
        """The globs of the file type; none for a type that only ripgrep may know."""
        return FILE_TYPES.get(self.file_type, "").split()

    @property
    def prefix_length(self) -> int:
        """The length of the prefix that all paths in the searched directory share."""
        return len(self.start) + 1 if self.start else 0


def unknown_type_error(name: str) -> ToolError:
    """Return the error for an unknown file type."""
    names = suggest(name, FILE_TYPES, cutoff=0.5) or ["py", "js", "ts"]
    return invalid_argument("file_type", f"{name[:40]!r} is not a known file type; {did_you_mean(names)}")


def invalid_pattern_error(pattern: str, reason: str, explanation: str = "") -> ToolError:
    """Return the error for a pattern that is not a regular expression.

    `explanation`: in the engine's own words.
    """
    message = f"{pattern[:80]!r} is not a valid regular expression: {reason}"
    explanation = explanation or f"regex parse error:\n    {pattern[:500]}\n    ^\nerror: {reason}"
    details = InvalidPattern(pattern, reason, explanation)
    return ToolError(message, kind="validation", code="invalid_pattern", details=details)
