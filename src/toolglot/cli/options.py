"""Options shared by several commands."""

import re
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from toolglot.common.plugins import plugin_names
from toolglot.errors import ToolglotError, UsageError
from toolglot.values.approvals import ApprovalMode
from toolglot.wire.spec import WIRES

Command = TypeVar("Command", bound=Callable[..., Any])


def combine(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator for several, in the order of the help text."""

    def decorate(function: Command) -> Command:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def complete_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a model in a shell."""
    from toolglot.cli.models import complete_models
    from toolglot.config.layers import read_configuration

    try:
        aliases = read_configuration().settings.aliases
    except ToolglotError:
        aliases = ()
    # Anybody may have chosen an alias, so pass only plain names to the shell.
    aliases = [alias for alias in aliases if re.fullmatch(r"[\w.@+-]+", alias)]
    return [name for name in complete_models(aliases) if name.startswith(incomplete)]


def check_code_mode(context: click.Context, parameter: click.Parameter, mode: str | None) -> str | None:
    """Return the flag's value. Raises UsageError if no language it allows can run here."""
    if mode not in (None, "auto", "off"):
        from toolglot.builtin.code_mode.process import LANGUAGES, Language, find_runtime, missing_runtime

        languages: list[Language] = [language for language in LANGUAGES if mode in ("on", language)]
        if not any(map(find_runtime, languages)):
            raise UsageError(missing_runtime(languages[0]))
    return mode


class _WireName(click.Choice[str]):
    """The name of a built-in wire or of a plug-in's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        is_plugin = value not in WIRES and value in plugin_names("wires")
        return value if is_plugin else super().convert(value, param, ctx)


class Number(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - click 8.1 has none
    """A number within bounds; click would say that a word "is not a valid float range"."""

    def __init__(self, kind: type[int] | type[float], at_least: int, at_most: int | None = None) -> None:
        self.name = "integer" if kind is int else "number"
        self._kind, self._at_least, self._at_most = kind, at_least, at_most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        try:
            number = self._kind(value)
        except ValueError:
            number = nan
        is_low = not number >= self._at_least  # as it is for nan
        if is_low or number == inf or (self._at_most is not None and number > self._at_most):
            flag = "it" if param is None else param.opts[-1]
            article = "an" if self._kind is int else "a"
            bounds = f"of at least {self._at_least}"
            if self._at_most is not None:
                bounds = f"from {self._at_least} to {self._at_most}"
            raise UsageError(f"{flag} must be {article} {self.name} {bounds}, not {value!r}")
        return number


WIRE = _WireName(list(WIRES))
PORT = Number(int, 0, 65535)
INPUT_FILE = click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
JSON = click.option("--json", is_flag=True, help="Print JSON.")
JSONL = click.option(
    "--jsonl", is_flag=True, help="Read one JSON object per line and write one result per line."
)
YES = click.option(
    "-y", "--yes", is_flag=True, help="Approve all calls that need approval, except those outside a sandbox."
)
NO_SANDBOX = click.option(
    "--no-sandbox", is_flag=True, help="Run commands without a sandbox, with your full permissions."
)
APPROVAL_MODE = click.option(
    "--approval-mode",
    type=click.Choice(get_args(ApprovalMode)),
    help="ask: before commands and changes. sandboxed: run them unasked where the sandbox confines them, "
    "without network.",
)
DENY = click.option(
    "--deny",
    multiple=True,
    metavar="PATTERN",
    help="Never offer matching tools or run matching calls. Repeatable.",
)
APPROVE = click.option(
    "--approve",
    multiple=True,
    metavar="RULE",
    help="Run matching calls without asking: 'shell(pytest *)'. Repeatable.",
)
TOOLS = click.option(
    "--tools",
    multiple=True,
    metavar="NAME",
    help="Load tools from FILE.py, MODULE, MODULE:OBJECT or a plug-in. Repeatable.",
)
ROOT = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory that the built-in tools work in. Default: the current directory.",
)
FACADE = click.option(
    "--facade",
    help="Facade for the built-in tools: an id, PROGRAM@VERSION, a plug-in or module:object.",
)
CODE_MODE = click.option(
    "--code-mode",
    type=click.Choice(["auto", "on", "off", "javascript", "python"]),
    callback=check_code_mode,
    help="Let the model write code that calls the tools. Default: auto, like the model's own coding agent.",
)
DEFER = click.option(
    "--defer",
    multiple=True,
    metavar="PATTERN",
    help="Hide tools until the model searches for them: auto, all, none, or names, patterns and tags. "
    "Repeatable.",
)
MCP = combine(
    click.option(
        "--mcp-config",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Also use the MCP servers in this JSON file (Claude's, VS Code's or Cursor's format). "
        "Repeatable.",
    ),
    click.option("--no-mcp", is_flag=True, help="Start no MCP servers except those from --mcp-config."),
)
LOGGING = combine(
    click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv for debug output."),
    click.option(
        "--log-file", type=click.Path(path_type=Path), help="Append the log to this file as JSON lines."
    ),
)
AGENT = combine(
    click.option(
        *("-m", "--model"),
        help="PROVIDER:MODEL, PROVIDER, a well-known MODEL, an alias, or simulator[:PROVIDER].",
        shell_complete=complete_model,
    ),
    TOOLS,
    click.option("--system", help="System prompt."),
    click.option("--allow", multiple=True, metavar="PATTERN", help="Offer only matching tools. Repeatable."),
    DENY,
    APPROVE,
    APPROVAL_MODE,
    click.option(
        "--max-iterations",
        type=Number(int, at_least=1),
        help="Maximum number of requests with tools per prompt.",
    ),
    click.option("--base-url", help="Override the provider's base URL."),
    ROOT,
    click.option(
        "--builtin/--no-builtin",
        default=None,
        help="Offer the built-in tools. Default: yes, except on the simulator.",
    ),
    FACADE,
    DEFER,
    CODE_MODE,
    NO_SANDBOX,
    click.option("--no-instructions", is_flag=True, help="Ignore AGENTS.md and skills."),
    MCP,
    LOGGING,
)
