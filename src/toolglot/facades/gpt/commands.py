"""Commands as GPT models call them: the tool of Codex in its generations, and the API's own.

Whatever name and form of the tool a model remembers is understood; only one is shown. Times are milliseconds, lengths are
tokens of four characters (characters in the API's own tool). Each command starts in the workspace.
"""

from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.equivalence import canonical_call, render_patch
from toolglot.facades.gpt import command_rendering as codex
from toolglot.facades.gpt.patches import PATCH_FORMAT, extract_patch, rebase_patch, render_patch_failure, render_patch_result
from toolglot.facades.mapping import call_field, to_milliseconds
from toolglot.facades.parameters import boolean, closed_schema, integer, number, object_schema, string, string_list
from toolglot.facades.view import Arguments, Case, Field, RenderContext, Renderer, View
from toolglot.messages import Opaque
from toolglot.request import Schema
from toolglot.schema.arguments import Issue, explain_issues
from toolglot.wire.spec import OPENAI_RESPONSES

__all__ = ["EXEC_COMMAND", "HOSTED_SHELL", "SHELL_COMMAND", "WRITE_STDIN", "make_shell"]

DEFAULT_TOKENS, MAX_CHARS = 10_000, 200_000
DEFAULT_YIELD, DEFAULT_TIMEOUT, MAX_TIMEOUT = 10.0, 10.0, 7200.0  # seconds


# ---- the command, under every name it ever had

_SHELLS, _FLAGS = ("bash", "sh", "zsh"), ("-c", "-lc")
_LINE_OR_ARGV: Schema = {"type": ["string", "array"], "items": string()}
_COMMAND_PARAMETERS: Schema = {"cmd": _LINE_OR_ARGV, "command": _LINE_OR_ARGV, "sandbox_permissions": string()}
_ACCEPTED_PARAMETERS: Schema = {
    **_COMMAND_PARAMETERS,
    "commands": string_list(),
    **dict.fromkeys(("workdir", "working_directory", "justification"), string()),
    **dict.fromkeys(("timeout_ms", "max_output_tokens", "max_output_length"), number()),
    **dict.fromkeys(("login", "with_escalated_permissions"), boolean()),
    "env": {"type": "object", "additionalProperties": string()},
}
_IGNORED = frozenset({"shell", "prefix_rule", "environment_id", "additional_permissions", "type", "user"})
_NAMES = ("exec_command", "shell_command", "shell", "container.exec", "local_shell")


def get_command(native: Arguments) -> str | list[str] | None:
    """A command line, or a program with its arguments; None if there is neither."""
    if lines := native.get("commands"):
        return str(lines[0])
    command = native.get("cmd") or native.get("command")
    if not isinstance(command, list):
        return str(command) if command else None
    match [str(word) for word in cast(list[Any], command)]:
        case [shell, flag, script] if shell.rpartition("/")[2] in _SHELLS and flag in _FLAGS:
            return script
        case [line] if " " in line.strip():
            return line
        case argv:
            return argv or None


def get_directory(native: Arguments) -> str:
    return str(native.get("workdir") or native.get("working_directory") or ".")


def following_commands(native: Arguments) -> Any:
    return [str(line) for line in native.get("commands") or ()][1:] or UNSET


def _cannot_express(base: Arguments) -> None:
    """Another tool of the facade expresses it."""


def _patch_case(
    result: Renderer,
    from_base: Callable[[Arguments], Arguments | None] = _cannot_express,
    native_data: Callable[[RenderContext], Any] | None = None,
) -> Case:
    """A command that is nothing but a patch is the patch."""

    def to_base(native: Arguments) -> Arguments:
        return {"text": rebase_patch(get_directory(native), extract_patch(get_command(native) or "") or "")}

    return Case(
        base="patch", to_base=to_base, from_base=from_base, result=result, failure=render_patch_failure, native_data=native_data
    )


def _make_command_view(
    name: str,
    description: str,
    parameters: Schema,
    case: Case,
    patch_case: Case,
    *,
    represents: frozenset[str] = frozenset({"shell"}),
    typed: dict[str, Opaque] | None = None,
) -> View:
    """The tool under one of its names; calls may use the others."""
    missing = Issue("$", f'"{parameters["required"][0]}" is a required property')

    def select_case(native: Arguments) -> str:
        command = get_command(native)
        if command is None:
            raise ToolError(explain_issues(view.definition, [missing]), kind="validation")
        return "patch" if following_commands(native) is UNSET and extract_patch(command) is not None else ""

    view = View(
        name=name,
        description=description,
        parameters=parameters,
        cases={"": case, "patch": patch_case},
        select_case=select_case,
        accepts={
            parameter: schema
            for parameter, schema in _ACCEPTED_PARAMETERS.items()
            if parameter in _COMMAND_PARAMETERS or parameter not in parameters["properties"]
        },
        required_schema={},
        ignored=_IGNORED,
        aliases=tuple(alias for alias in _NAMES if alias != name),
        represents=represents,
        typed=typed or {},
    )
    return view


# ---- fields


def _clamp_milliseconds(minimum: float, limit: float) -> Callable[[Any], float]:
    """Milliseconds within bounds, as seconds."""
    return lambda value: min(max(float(value), minimum), limit) / 1000


def _value_or_default(name: str, default: Any, convert: Callable[[Any], Any]) -> Callable[[Arguments], Any]:
    return lambda arguments: default if arguments.get(name) is None else convert(arguments[name])


def _output_limit(native: Arguments) -> int:
    """Characters of output to show."""
    tokens = native.get("max_output_tokens")
    chars = native.get("max_output_length", codex.CHARS_PER_TOKEN * (DEFAULT_TOKENS if tokens is None else tokens))
    return _clamp_chars(chars)


def _clamp_chars(chars: Any) -> int:
    return int(min(max(chars, 1), MAX_CHARS))


def to_tokens(chars: Any) -> Any:
    tokens = int(chars) / codex.CHARS_PER_TOKEN
    return int(tokens) if tokens.is_integer() else tokens


def escalate_to_base(native: Arguments) -> Any:
    if "sandbox_permissions" in native:
        return native["sandbox_permissions"] not in ("", "use_default")
    return native.get("with_escalated_permissions", UNSET)


def to_command_line(base: Arguments) -> str:
    return str(canonical_call("shell", base)["command"])


def to_argv(base: Arguments) -> list[str]:
    return ["bash", "-lc", str(base["command"])] if base.get("command") else list(base.get("argv") or ())


def _omit(base: Arguments) -> Any:
    return UNSET


def _command_fields(parameter: str, from_base: Callable[[Arguments], Any]) -> tuple[Field | str, ...]:
    """What all forms of the tool share. `parameter` has the command; `from_base` writes it."""

    def get(kind: type) -> Callable[[Arguments], Any]:
        return lambda native: command if isinstance(command := get_command(native), kind) else UNSET

    return (
        call_field(parameter, "command", get(str), from_base),
        call_field(parameter, "argv", get(list), _omit),
        call_field("commands", "then", following_commands, _omit),
        call_field("workdir", "cwd", get_directory, lambda base: UNSET if base.get("cwd") in (None, "", ".") else base["cwd"]),
        "env",
        Field("justification", "description"),
        call_field(
            *("sandbox_permissions", "escalate"),
            escalate_to_base,
            lambda base: "require_escalated" if base.get("escalate") else UNSET,
        ),
    )


_EVEN_TRUNCATION: Arguments = {"head_share": 0.5}  # Codex keeps as much from the end of long output as from its start
_MAX_MILLISECONDS = MAX_TIMEOUT * 1000
_YIELD_FIELD = call_field(
    *("yield_time_ms", "yield_after"),
    _value_or_default("yield_time_ms", DEFAULT_YIELD, _clamp_milliseconds(250, 30_000)),
    _value_or_default("yield_after", UNSET, to_milliseconds),
)
_TOKENS_FIELD = call_field("max_output_tokens", "max_output", _output_limit, _value_or_default("max_output", UNSET, to_tokens))
_LENGTH_FIELD = call_field("max_output_length", "max_output", _output_limit, _omit)
_TIMEOUT_FIELD = Field("timeout_ms", "timeout", to_base=_clamp_milliseconds(0, _MAX_MILLISECONDS), from_base=to_milliseconds)


def _shell_case(
    name: str, renderer: Renderer, parameter: str, from_base: Callable[[Arguments], Any], *fields: Field | str, **options: Any
) -> Case:
    return Case(
        base="shell",
        can_express=lambda base: bool(base.get("command") or base.get("argv")),  # a bare restart has no command
        fixed=_EVEN_TRUNCATION,
        fields=(*_command_fields(parameter, from_base), *fields),
        result=renderer,
        failure=codex.render_unless_failed(name, renderer) if name else renderer,
        **options,
    )


# ---- the tools

_JUSTIFICATION = string("With require_escalated: the question to put to the user, in one sentence.")
_LOGIN = boolean("Run a login shell, which reads the user's profile first (default false).")
_WORKDIR = string("Directory to run in (default: the workspace).")
_TOKENS = number("Tokens of output to show (default 10000); the middle of longer output is left out.")
_PERMISSIONS = "require_escalated asks the user to run the command outside the sandbox (default use_default)."
_TIMEOUT = "Milliseconds after which it is stopped"
_LINE = string("The command line.")

EXEC_COMMAND = _make_command_view(
    "exec_command",
    "Run a command in a shell, in a sandbox, and return its output, or a session ID if it is still running after "
    "yield_time_ms. Each command starts in the workspace.",
    closed_schema(
        "cmd",
        cmd=_LINE,
        justification=_JUSTIFICATION,
        login=_LOGIN,
        max_output_tokens=_TOKENS,
        prefix_rule=string_list("Has no effect here."),
        sandbox_permissions=string(_PERMISSIONS, enum=["use_default", "require_escalated"]),
        shell=string("Has no effect here: commands run in bash."),
        tty=boolean("Run it in a terminal, so that write_stdin can type into it (default false)."),
        workdir=_WORKDIR,
        yield_time_ms=number("Milliseconds to wait for it, 250 to 30000 (default 10000)."),
    ),
    _shell_case(
        *("exec_command", codex.render_exec, "cmd", to_command_line),
        *("login", "tty", _YIELD_FIELD, _TIMEOUT_FIELD, _TOKENS_FIELD),
    ),
    _patch_case(codex.render_exec_patch),
)


def wait_seconds(native: Arguments) -> float:
    """An empty call waits; one with text only looks at what comes of it."""
    value = native.get("yield_time_ms")
    if native.get("chars"):
        return _clamp_milliseconds(250, 30_000)(250 if value is None else value)
    return _clamp_milliseconds(5000, 300_000)(5000 if value is None else value)


WRITE_STDIN = View(
    name="write_stdin",
    description=(
        "Type into a command that is still running and return what it has printed since. With empty chars it only waits for "
        "more output. U+0003 is Ctrl-C in a terminal."
    ),
    parameters=closed_schema(
        "session_id",
        chars=string("Text to type, including its newline (default empty: only wait)."),
        max_output_tokens=_TOKENS,
        session_id=number("The session ID that exec_command returned."),
        yield_time_ms=number(
            "Milliseconds to wait: 250 to 30000 after typing (default 250), 5000 to 300000 with empty chars (default 5000)."
        ),
    ),
    cases={
        "": Case(
            base="shell_output",
            can_express=lambda base: str(base.get("handle", "")).isdecimal(),  # a session ID is a number here
            fixed=_EVEN_TRUNCATION,
            fields=(
                Field("session_id", "handle", to_base=lambda value: str(int(value)), from_base=int),
                call_field(
                    *("chars", "input"), lambda native: native.get("chars") or UNSET, _value_or_default("input", UNSET, str)
                ),
                call_field("yield_time_ms", "timeout", wait_seconds, _value_or_default("timeout", UNSET, to_milliseconds)),
                _TOKENS_FIELD,
            ),
            result=codex.render_exec,
            failure=codex.render_session_failure,
        )
    },
)

SHELL_COMMAND = _make_command_view(
    "shell_command",
    "Run a command line in a shell, in a sandbox, and return its output. Each command starts in the workspace.",
    closed_schema(
        "command",
        command=_LINE,
        justification=_JUSTIFICATION,
        login=_LOGIN,
        sandbox_permissions=string(_PERMISSIONS),
        timeout_ms=number(f"{_TIMEOUT} (default 10000)."),
        workdir=_WORKDIR,
    ),
    _shell_case(
        *("shell_command", codex.render_shell_command, "command", to_command_line),
        "login",
        call_field(
            *("timeout_ms", "timeout"),
            _value_or_default("timeout_ms", DEFAULT_TIMEOUT, _clamp_milliseconds(0, _MAX_MILLISECONDS)),
            _value_or_default("timeout", UNSET, to_milliseconds),
        ),
        _LENGTH_FIELD,
    ),
    _patch_case(render_patch_result),
)


def patch_to_argv(base: Arguments) -> Arguments:
    return {"command": ["apply_patch", render_patch(base)]}


def make_shell(*, applies_patches: bool) -> View:
    """The older tool, which takes a program with its arguments. `applies_patches`: files are changed through it alone."""
    patches = f' ["apply_patch", PATCH] changes files. {PATCH_FORMAT}' if applies_patches else ""
    return _make_command_view(
        "shell",
        'Run a program, such as ["bash", "-lc", "ls -la"], in a sandbox and return its output. Each one starts in the '
        f"workspace.{patches}",
        closed_schema(
            "command",
            command=string_list("The program and its arguments."),
            justification=_JUSTIFICATION,
            sandbox_permissions=string(_PERMISSIONS),
            timeout_ms=number(f"{_TIMEOUT} (default 120000)."),
            workdir=_WORKDIR,
        ),
        _shell_case("shell", codex.render_json, "command", to_argv, "login", _TIMEOUT_FIELD, _LENGTH_FIELD),
        _patch_case(codex.render_patch_json, patch_to_argv if applies_patches else _cannot_express),
        represents=frozenset({"shell", "patch"} if applies_patches else {"shell"}),
    )


HOSTED_SHELL = _make_command_view(
    "shell",
    "Run command lines with bash, one after the other, and return the output and exit code of each.",
    object_schema(
        "commands",
        commands=string_list("The command lines."),
        timeout_ms=integer(f"{_TIMEOUT}, for each command (default 120000)."),
        max_output_length=integer("Characters of output to show."),
    ),
    _shell_case(
        *("", codex.render_all, "commands"),
        lambda base: [to_command_line(base), *map(str, base.get("then") or ())],
        Field(
            "timeout_ms",
            "timeout",
            to_base=_clamp_milliseconds(0, _MAX_MILLISECONDS),
            from_base=lambda seconds: round(seconds * 1000) or UNSET,
        ),
        Field("max_output_length", "max_output", to_base=_clamp_chars),
        native_data=codex.command_outputs,
    ),
    _patch_case(render_patch_result, native_data=codex.patch_outputs),
    typed={OPENAI_RESPONSES: {"type": "shell", "environment": {"type": "local"}}},
)
