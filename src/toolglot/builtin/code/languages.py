"""The languages that code can be parsed in, and the suffixes of their files."""

from toolglot.errors import ToolError
from toolglot.textutil import did_you_mean, suggest

__all__ = [
    "CASE_INSENSITIVE",
    "DOLLAR_LANGUAGES",
    "EXTRA_SUFFIXES",
    "LANGUAGES",
    "LANGUAGE_BY_SUFFIX",
    "NON_CODE",
    "resolve_language",
]

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
    hint = did_you_mean(suggest(plain, [*LANGUAGES, *_ALIASES], limit=1)) or f"known languages: {', '.join(LANGUAGES)}"
    raise ToolError(f"there is no parser for {name[:40]!r}; {hint}", kind="validation", code="unknown_language")
