"""Where the code of an MCP server comes from, as far as its configuration says. Only paths are compared; nothing is started."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolglot.mcp.client.servers import McpServer

__all__ = ["list_code_paths", "list_relied_paths"]

# Programs that run code that an argument names.
_RUNNER = re.compile(
    r"(?:python|pypy|node|nodejs|ruby|perl|php|lua|java|Rscript|deno|bun|bunx|npm|npx|pnpm|pnpx|yarn|tsx|ts-node|uvx?|pipx|env|"
    r"sh|bash|dash|zsh|ksh|fish|pwsh|powershell|cmd)[\d.]*(?:\.exe|\.cmd)?"
)
_SCRIPT = re.compile(
    r".*\.(?:pyz?w?|[mc]?[jt]sx?|sh|bash|zsh|rb|pl|php|lua|jar|R|ps1|cmd|bat|whl|tgz|tar\.gz|zip)", re.IGNORECASE
)
# Options before a place with code; a directory after another word is data, such as what a file server serves.
_PLACE_OPTIONS = frozenset(
    {"--directory", "--project", "--prefix", "--from", "--cwd", "--dir", "-C", "--with-editable", "--require", "-r", "--import"}
)
# Variables that make programs load code.
_CODE_VARIABLES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "NODE_PATH", "NODE_OPTIONS", "RUBYLIB", "RUBYOPT", "PERL5LIB"),
        *("PERL5OPT", "CLASSPATH", "JAVA_TOOL_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH"),
        *("DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "UV_PROJECT", "UV_CONFIG_FILE", "NPM_CONFIG_USERCONFIG"),
        *("NPM_CONFIG_PREFIX", "npm_config_userconfig", "npm_config_prefix"),
    }
)


def list_code_paths(server: McpServer, env_file: Path | None, base: Path) -> Iterator[tuple[str, Path]]:
    """Yield the places that a server's program and code come from, in words and as an absolute path.

    `base`: the directory that its `cwd` is relative to.
    """
    directory = base / (server.cwd or "")
    if server.cwd is not None:
        yield "its directory", directory
    if os.path.dirname(server.command):
        yield "its program", directory / server.command
    if env_file is not None:  # variables can make any program load other code
        yield "its env file", env_file
    for name in sorted(_CODE_VARIABLES.intersection(server.env)):
        for path in filter(os.path.isabs, re.split(rf"[\s={os.pathsep}]+", server.env[name])):
            yield f"a path in the variable {name}", Path(path)
    if _RUNNER.fullmatch(os.path.basename(server.command)):
        for script in _list_scripts(server.args):
            yield f"its argument {script!r}", Path(script)


def _list_scripts(words: Sequence[str]) -> Iterator[str]:
    """Yield the absolute paths of code among the arguments; relative ones belong to the program's own directory."""
    previous = ""
    for number, word in enumerate(words):
        name, value = previous, word
        if word.startswith("-"):
            name, _, value = word.partition("=")
        is_code = number == 0 or name in _PLACE_OPTIONS or _is_script(value)
        if os.path.isabs(value) and is_code:
            yield value
        previous = word


def _is_script(path: str) -> bool:
    if _SCRIPT.fullmatch(path):
        return True
    return os.path.isfile(path) and os.access(path, os.X_OK)


def list_relied_paths(server: McpServer, workspace: Path) -> Iterator[str]:
    """Yield the arguments that would mean something if a server without `cwd` started in the workspace, which it does not."""
    previous = ""
    for word in server.args:
        if previous == "-m" and _has_module(workspace, word):
            yield f"-m {word}"
        elif _is_relative_path(word) and (workspace / word).exists():
            yield word
        previous = word


def _has_module(directory: Path, name: str) -> bool:
    path = directory.joinpath(*name.split("."))
    return path.is_dir() or path.with_name(f"{path.name}.py").is_file()


def _is_relative_path(word: str) -> bool:
    """Whether an argument looks like a path, and not like the name of a package."""
    if os.path.isabs(word) or word.startswith(("-", "@")):
        return False
    return word in (".", "..") or os.sep in word or bool(_SCRIPT.fullmatch(word))
