"""The arguments of the shell tools: checked, and described for whoever approves a command."""

import os
import shlex
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from toolglot.builtin.shell.output import OutputLimit
from toolglot.values.failures import invalid_argument

__all__ = [
    "DEFAULT_OUTPUT",
    "MAX_OUTPUT",
    "MAX_TIMEOUT",
    "CommandOptions",
    "check_commands",
    "check_output_limit",
    "check_seconds",
    "check_times",
    "describe_command",
    "encode_input",
    "preview_command",
    "preview_input",
]

DEFAULT_TIMEOUT, MAX_TIMEOUT = 120.0, 7200.0
DEFAULT_OUTPUT, MAX_OUTPUT = 30_000, 200_000
_MAX_COMMAND_BYTES = 100_000  # Linux allows 128 KB in one argument (MAX_ARG_STRLEN)
_BACKGROUND_SECONDS = 600.0  # for a command that goes on in the background after its timeout
OnTimeout = Literal["kill", "background"]
"""What happens to a command at its timeout. If it goes on in the background, all of its output goes to a
file."""
_MAX_ARGUMENTS, _MAX_COMMANDS, _MAX_INPUT_BYTES = 1000, 50, 1_000_000


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the commands of one call are run."""

    cwd: str | None = None
    timeout: float | None = None
    inactivity_timeout: float | None = None
    output_limit: OutputLimit = OutputLimit(DEFAULT_OUTPUT)
    variables: dict[str, str] = {}
    stdin: bytes | None = None
    tty: bool = False
    background: bool = False
    yield_after: float | None = None
    login: bool = False
    escalate: bool = False
    description: str = ""
    on_timeout: OnTimeout = "kill"


def describe_command(arguments: dict[str, Any]) -> str:
    """Return all command lines of a call: what a policy decides about."""
    command = arguments.get("command") or shlex.join(map(str, arguments.get("argv") or ()))
    return "\n".join([str(command), *map(str, cast(list[Any], arguments.get("then") or []))])


def preview_command(arguments: dict[str, Any], directory: str) -> str:
    """Return all that a call would do, for whoever approves it.

    `directory`: where it would run; "" for the root.

    Lines of a command begin with `$` or `>` and lines of its input with `|`, so that neither can look like
    another line.
    """
    lines: list[str] = []
    if arguments.get("restart"):
        lines.append("kill all running commands first")
    commands = [
        describe_command({**arguments, "then": None}),
        *map(str, cast(list[Any], arguments.get("then") or [])),
    ]
    lines += ["$ " + command.replace("\n", "\n> ") for command in commands if command]
    if arguments.get("escalate"):
        lines.append("OUTSIDE THE SANDBOX, with all rights of the user")
    if directory:
        lines.append(f"in: {_to_line(directory)}")
    for name, value in cast(dict[str, Any], arguments.get("env") or {}).items():
        lines.append(f"with: {_to_line(f'{name}={value}')}")
    if arguments.get("login"):
        lines.append("as a login shell, which reads the user's profile first")
    if arguments.get("background"):
        lines.append("in the background")
    elif arguments.get("yield_after") is not None:
        lines.append(f"in the background if it takes longer than {arguments['yield_after']:g} s")
    if arguments.get("tty"):
        lines.append("in a terminal")
    if arguments.get("stdin"):
        lines += ["input:", preview_input(str(arguments["stdin"]))]
    if arguments.get("description"):
        lines.append(f"the model's description: {_to_line(str(arguments['description']))}")
    return "\n".join(lines)


def preview_input(text: str) -> str:
    """Return what is typed into a command, each line marked as such."""
    lines = [f"| {line}" for line in text.removesuffix("\n").split("\n")]
    if not text.endswith("\n"):
        lines.append("(without Enter at the end)")
    return "\n".join(lines)


def _to_line(text: str) -> str:
    return text.replace("\n", "␊")


def check_commands(command: str, argv: list[str] | None, then: list[str] | None) -> list[str]:
    """Return all command lines of a call. Raises ToolError."""
    then = then or []
    if len(then) >= _MAX_COMMANDS:
        raise invalid_argument(
            "then", f"has {len(then)} lines; at most {_MAX_COMMANDS} commands run in one call"
        )
    if argv is None:
        lines = [command, *then]
        for line in lines:
            _check_words("command", [line])
        return lines
    if command:
        raise invalid_argument("argv", "cannot be combined with a command line: give one of them")
    _check_words("argv", argv)
    for line in then:
        _check_words("then", [line])
    return [shlex.join(argv), *then]


def _check_words(parameter: str, words: list[str]) -> None:
    if not words or not words[0].strip():
        raise invalid_argument(parameter, "is empty: give a command to run")
    if len(words) > _MAX_ARGUMENTS:
        raise invalid_argument(parameter, f"has {len(words)} arguments; at most {_MAX_ARGUMENTS} are allowed")
    for word in words:
        if "\0" in word:
            raise invalid_argument(parameter, "contains a NUL byte: write it to a file, or use printf '\\0'")
        try:
            size = len(os.fsencode(word))
        except UnicodeEncodeError:
            raise invalid_argument(parameter, "contains an unpaired surrogate (invalid Unicode)") from None
        if size > _MAX_COMMAND_BYTES:
            problem = (
                f"has {size} bytes; at most {_MAX_COMMAND_BYTES} are allowed: write it to a file and run that"
            )
            raise invalid_argument(parameter, problem)


def check_times(
    timeout: float | None,
    inactivity_timeout: float | None,
    yield_after: float | None,
    *,
    background: bool,
    on_timeout: OnTimeout,
) -> dict[str, Any]:
    """Return the options that say when a command ends, and when it goes on in the background.

    Raises ToolError.
    """
    is_foreground = not background and check_seconds("yield_after", yield_after) is None
    limit = _check_timeout(timeout, inactivity_timeout, is_foreground=is_foreground)
    if on_timeout == "background" and is_foreground and limit is not None:
        limit, yield_after = limit + _BACKGROUND_SECONDS, limit
    return {
        "timeout": limit,
        "inactivity_timeout": inactivity_timeout,
        "yield_after": yield_after,
        "on_timeout": on_timeout,
    }


def _check_timeout(
    timeout: float | None, inactivity_timeout: float | None, *, is_foreground: bool
) -> float | None:
    """Return the timeout of a command, by default one for the foreground only. Raises ToolError."""
    check_seconds("inactivity_timeout", inactivity_timeout)
    if check_seconds("timeout", timeout) is not None or not is_foreground:
        return timeout
    # a command that writes may take longer
    return DEFAULT_TIMEOUT if inactivity_timeout is None else MAX_TIMEOUT


def check_seconds(name: str, value: float | None) -> float | None:
    """Return a number of seconds. Raises ToolError."""
    if value is not None and not 0 <= value <= MAX_TIMEOUT:
        raise invalid_argument(name, f"is {value:g}; it must be between 0 and {MAX_TIMEOUT:g} seconds")
    return value


def check_output_limit(max_output: int, head_share: float | None, *, keep_escapes: bool) -> OutputLimit:
    """Return the limit of shown output. Raises ToolError."""
    if not 1 <= max_output <= MAX_OUTPUT:
        raise invalid_argument(
            "max_output", f"is {max_output}; it must be between 1 and {MAX_OUTPUT} characters"
        )
    if head_share is not None and not 0 <= head_share <= 1:
        raise invalid_argument("head_share", f"is {head_share:g}; it must be between 0 and 1")
    limit = OutputLimit(max_output, keep_escapes=keep_escapes)
    return limit if head_share is None else replace(limit, head_fraction=head_share)


def encode_input(name: str, text: str | None) -> bytes | None:
    """Return input as bytes. Raises ToolError."""
    if text is None:
        return None
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise invalid_argument(name, "contains an unpaired surrogate (invalid Unicode)") from None
    if len(data) > _MAX_INPUT_BYTES:
        raise invalid_argument(name, f"has {len(data)} bytes; at most {_MAX_INPUT_BYTES} are allowed")
    return data
