"""Where the code of an MCP server comes from, as far as its configuration says.

Only paths are compared; nothing is started.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolglot.mcp.client.servers import McpServer
from toolglot.tools.command_words import split_command
from toolglot.tools.known_programs import program_name, runs_code

__all__ = ["list_code_paths", "list_relied_paths"]

# Programs that run code that an argument names, besides those that are known for rules.
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|nodejs|ruby|perl|php|lua|java|Rscript|deno|bun|tsx|ts-node)[\d.]*(?:\.exe|\.cmd)?"
)
_RUNNER = re.compile(
    r"(?:npm|npx|pnpm|pnpx|yarn|bunx|uvx?|pipx|env|sh|bash|pwsh|powershell|cmd)[\d.]*(?:\.exe|\.cmd)?"
)
_SCRIPT = re.compile(
    r".*\.(?:pyz?w?|[mc]?[jt]sx?|sh|bash|zsh|rb|pl|php|lua|jar|R|ps1|cmd|bat|whl|tgz|tar\.gz|zip)",
    re.IGNORECASE,
)
# Options before a place with code; a directory after another word is data, such as what a file server serves.
_PLACE_OPTIONS = frozenset(
    {
        *(
            "--directory",
            "--project",
            "--prefix",
            "--from",
            "--cwd",
            "--dir",
            "-C",
            "--with-editable",
            "--require",
            "-r",
        ),
        *(
            "--import",
            "--chdir",
            "--file",
            "-f",
            "--gemfile",
            "--justfile",
            "--makefile",
            "--manifest-path",
            "--project-dir",
        ),
        *("--project-directory", "--working-directory", "-p"),
    }
)
_DIRECTORY_COMMANDS = frozenset({"cd", "pushd"})
_MAX_DEPTH = 3  # of commands within the words of commands
_ABSOLUTE_PATH = re.compile(r"(?<![\w.])/[^\s'\";:,()\[\]<>|&]+")
# Variables that make programs load code.
_CODE_VARIABLES = frozenset(
    {
        *(
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "NODE_PATH",
            "NODE_OPTIONS",
            "RUBYLIB",
            "RUBYOPT",
            "PERL5LIB",
        ),
        *("PERL5OPT", "CLASSPATH", "JAVA_TOOL_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH"),
        *(
            "DYLD_INSERT_LIBRARIES",
            "DYLD_LIBRARY_PATH",
            "UV_PROJECT",
            "UV_CONFIG_FILE",
            "NPM_CONFIG_USERCONFIG",
        ),
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
        for path in _list_absolute(server.env[name]):
            yield f"a path in the variable {name}", Path(path)
    for path in _list_arguments((server.command, *server.args)):
        yield f"its argument {path!r}", Path(path)


def _list_arguments(words: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Yield the absolute paths of code among a program's arguments; relative ones belong to the program's own
    directory.
    """
    program = program_name(words[0])
    is_interpreter = _INTERPRETER.fullmatch(program) is not None
    is_launcher = (
        _RUNNER.fullmatch(program) is not None or program in _DIRECTORY_COMMANDS or runs_code(program)
    )
    if not is_interpreter and not is_launcher:
        return
    previous = ""
    for number, word in enumerate(words[1:]):
        name, value = previous, word
        if word.startswith("-"):
            name, _, value = word.partition("=")
        is_code = number == 0 or name in _PLACE_OPTIONS or _is_script(value)
        if os.path.isabs(value) and is_code:
            yield value
        elif is_interpreter and name in ("-c", "-e", "--eval"):
            yield from _ABSOLUTE_PATH.findall(value)
        elif re.search(r"\s", word) and depth < _MAX_DEPTH:  # bash -c "cd …"
            yield from _list_in_line(word, depth + 1)
        elif (assigned := word.partition("="))[0] in _CODE_VARIABLES:  # env PYTHONPATH=…
            yield from _list_absolute(assigned[2])
        previous = word


def _list_in_line(line: str, depth: int) -> Iterator[str]:
    """Yield the absolute paths of code in a command line."""
    for name in _CODE_VARIABLES:
        for match in re.finditer(rf"\b{name}=([^\s;&|]+)", line):
            yield from _list_absolute(match[1].strip("'\""))
    for words in split_command(line).commands:
        if os.path.isabs(words[0]):
            yield words[0]
        yield from _list_arguments(words, depth)


def _list_absolute(value: str) -> Iterator[str]:
    """Yield the absolute paths in the value of a variable: one, a list, or options."""
    return filter(os.path.isabs, re.split(rf"[\s={os.pathsep}]+", value))


def _is_script(path: str) -> bool:
    if _SCRIPT.fullmatch(path):
        return True
    return os.path.isfile(path) and os.access(path, os.X_OK)


def list_relied_paths(server: McpServer, workspace: Path) -> Iterator[str]:
    """Yield the arguments that would mean something if a server without `cwd` started in the workspace, which
    it does not.
    """
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
