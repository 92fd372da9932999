"""The languages that code can be parsed in, and how a file's name tells which one it is."""

from difflib import get_close_matches

from toolglot.errors import ToolError

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
"""What can be parsed, and the ends of its files' names."""
_ALIASES = {
    "c#": "csharp", "c++": "cpp", "cc": "cpp", "cs": "csharp", "ex": "elixir", "golang": "go", "hs": "haskell",
    "js": "javascript", "jsx": "javascript", "kt": "kotlin", "md": "markdown", "py": "python", "python3": "python",
    "rb": "ruby", "rs": "rust", "sh": "bash", "shell": "bash", "sol": "solidity", "terraform": "hcl",
    "tf": "hcl", "ts": "typescript", "yml": "yaml",
}  # fmt: skip
LANGUAGE_BY_SUFFIX = {end: language for language, ends in LANGUAGES.items() for end in ends}
EXTRA_SUFFIXES = {
    "typescript": {".tsx": "tsx"},
    "cpp": {".h": "cpp"},
}  # files that belong to a language, and as what they are parsed
NON_CODE = frozenset({"css", "html", "json", "markdown", "yaml"})  # looked at only where they are asked for
CASE_INSENSITIVE = frozenset({"css", "html", "php"})  # words may be written in another way
DOLLAR_LANGUAGES = frozenset({"bash", "php"})  # `$NAME` may be the language's own


def resolve_language(name: str) -> str:
    """A language by its name or another one for it. Raises ToolError."""
    plain = name.strip().lower().removeprefix(".")
    language = _ALIASES.get(plain, plain)
    if language in LANGUAGES:
        return language
    near = get_close_matches(plain, [*LANGUAGES, *_ALIASES], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(LANGUAGES)}"
    raise ToolError(f"there is no parser for {name[:40]!r}; {hint}", kind="validation")
