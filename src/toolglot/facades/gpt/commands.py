"""Commands as GPT models call them: the tool of Codex in its generations, and the API's own.

Whatever name and form of the tool a model remembers is understood; only one is shown. Times are milliseconds,
lengths are tokens of four characters (characters in the API's own tool). Each command starts in the
workspace.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.equivalence import canonical_call, render_patch
from toolglot.facades.gpt import command_rendering as codex
from toolglot.facades.gpt.patches import PATCH_FORMAT, extract_patch, rebase_patch, render_patch_failure
from toolglot.facades.parameters import boolean, closed_schema, integer, number, string, string_list
from toolglot.facades.rows import numeric_handle, to_milliseconds
from toolglot.facades.table import Row, Rows, aliased, call_field, field, ignored, make_view, unmapped
from toolglot.facades.view import Arguments, Case, Field, RenderContext, Renderer, View, omit
from toolglot.schema.arguments import Issue, explain_issues
from toolglot.values.request import Schema
from toolglot.wire.spec import OPENAI_RESPONSES

__all__ = [
    "EXEC_COMMAND",
    "HOSTED_SHELL",
    "LOCAL_SHELL",
    "SHELL_COMMAND",
    "STOP_SESSION",
    "WRITE_STDIN",
    "make_shell",
]

DEFAULT_CHARS, MAX_CHARS = 40_000, 200_000
_OLD_CHARS = 10_000  # of the tool `shell`: bytes in Codex 0.77, where others have as many tokens
DEFAULT_YIELD, DEFAULT_TIMEOUT, MAX_TIMEOUT = 10_000, 10_000, 7_200_000  # milliseconds
_SHELLS, _FLAGS = ("bash", "sh", "zsh"), ("-c", "-lc")
_NAMES = ("shell_command", "shell", "container.exec", "local_shell")
_IGNORED = frozenset({"prefix_rule", "environment_id", "additional_permissions", "type", "user"})

# ---- the command, under every name it ever had


def get_command(native: Arguments) -> str | list[str] | None:
    """Return a command line, or a program with its arguments; None if there is neither."""
    lines = native.get("commands")
    if lines:
        return str(lines[0])
    command = native.get("cmd")
    if command is None:
        command = native.get("command")
    if command is None:
        return None
    if not isinstance(command, list):
        return str(command) or ":"  # Codex runs an empty line
    match [str(word) for word in cast(list[Any], command)]:
        case []:
            return None
        case [shell, flag, script] if shell.rpartition("/")[2] in _SHELLS and flag in _FLAGS:
            return script
        case [line] if " " in line.strip():
            return line
        case argv:
            return argv


def get_argv(native: Arguments) -> Any:
    """Return a program with its arguments, also if it is another shell than bash; UNSET for a command line."""
    command = get_command(native)
    if command is None:
        return UNSET
    if isinstance(command, list):
        return command
    shell = str(native.get("shell") or "bash")
    if shell.rpartition("/")[2] == "bash":
        return UNSET
    flag = "-lc" if native.get("login") else "-c"
    return [shell, flag, command]


def get_line(native: Arguments) -> Any:
    return get_command(native) if get_argv(native) is UNSET else UNSET


def get_directory(native: Arguments) -> str:
    return str(native.get("workdir") or native.get("working_directory") or ".")


def following_commands(native: Arguments) -> Any:
    lines = [str(line) for line in native.get("commands") or ()]
    return lines[1:] or UNSET


def _cannot_express(base: Arguments) -> None:
    """Return None: another tool of the facade expresses it."""


def _patch_case(
    result: Renderer,
    from_base: Callable[[Arguments], Arguments | None] = _cannot_express,
    native_data: Callable[[RenderContext], Any] | None = None,
) -> Case:
    """Return the case of a command that is nothing but a patch: it is the patch."""

    def to_base(native: Arguments) -> Arguments:
        return {"text": rebase_patch(get_directory(native), extract_patch(get_command(native) or "") or "")}

    return Case(
        base="patch",
        to_base=to_base,
        from_base=from_base,
        result=result,
        failure=render_patch_failure,
        native_data=native_data,
    )


# ---- other parameters


def _clamp_milliseconds(minimum: float, limit: float) -> Callable[[Any], float]:
    """Return a function that gives milliseconds within bounds, as seconds."""
    return lambda value: min(max(float(value), minimum), limit) / 1000


def _output_limit(default: int) -> Callable[[Arguments], int]:
    """Return a function that gives the characters of output to show."""

    def to_base(native: Arguments) -> int:
        chars: Any = default
        tokens = native.get("max_output_tokens")
        if tokens is not None:
            chars = codex.CHARS_PER_TOKEN * tokens
        return _clamp_chars(native.get("max_output_length", chars))

    return to_base


def _clamp_chars(chars: Any) -> int:
    return int(min(max(chars, 1), MAX_CHARS))


def tokens_from_base(base: Arguments) -> Any:
    if base.get("max_output") is None:
        return UNSET
    tokens = int(base["max_output"]) / codex.CHARS_PER_TOKEN
    return int(tokens) if tokens.is_integer() else tokens


def escalate_to_base(native: Arguments) -> Any:
    if "sandbox_permissions" in native:
        return native["sandbox_permissions"] not in ("", "use_default")
    return native.get("with_escalated_permissions", UNSET)


def to_command_line(base: Arguments) -> Any:
    return canonical_call("shell", base).get("command") or UNSET  # a bare restart has no command


def to_argv(base: Arguments) -> Any:
    if base.get("command"):
        return ["bash", "-lc", str(base["command"])]
    return base.get("argv") or UNSET


def to_command_lines(base: Arguments) -> Any:
    first = to_command_line(base)
    if first is UNSET:
        return UNSET
    return [first, *map(str, base.get("then") or ())]


def _timeout(schema: Schema, **options: Any) -> Row:
    return field("timeout", schema, _clamp_milliseconds(0, MAX_TIMEOUT), to_milliseconds, **options)


_LINE_OR_ARGV = unmapped({"type": ["string", "array"], "items": string()})
# Every parameter that the tool ever had.
_ROWS: dict[str, Row] = {
    "cmd": _LINE_OR_ARGV,
    "command": _LINE_OR_ARGV,
    "shell": unmapped(string()),
    "sandbox_permissions": call_field(
        "escalate",
        string(),
        escalate_to_base,
        lambda base: "require_escalated" if base.get("escalate") else UNSET,
    ),
    "with_escalated_permissions": unmapped(boolean()),
    "justification": field("description", string()),
    "commands": call_field("then", string_list(), following_commands),
    "workdir": call_field("cwd", string(), get_directory, lambda base: base.get("cwd", UNSET)),
    "working_directory": unmapped(string()),
    "env": field("env", {"type": "object", "additionalProperties": string()}),
    "login": field("login", boolean()),
    "timeout_ms": _timeout(number()),
    "max_output_tokens": unmapped(number()),
}
_MORE_FORMS = ("cmd", "command", "sandbox_permissions")  # accepted in more forms than they are shown in
# Codex keeps as much from the end of long output as from its start, and escape sequences as they are.
_OUTPUT: Arguments = {"head_share": 0.5, "keep_escapes": True}


def _make_command_view(
    name: str,
    description: str,
    shown: Rows,
    write_command: Callable[[Arguments], Any],
    patch_case: Case,
    *,
    result: Renderer,
    native_data: Callable[[RenderContext], Any] | None = None,
    script_value: Callable[[RenderContext], Any] | None = None,
    represents: frozenset[str] = frozenset({"shell"}),
    max_chars: int = DEFAULT_CHARS,
    has_aliases: bool = True,
    **options: Any,
) -> View:
    """Return the tool under one of its names; calls may use the others.

    `write_command` writes the first parameter in history. `max_chars`: how much output is shown by default.
    """
    command_key = next(iter(shown))
    missing = Issue(f"$.{command_key[:-1]}", "is missing")

    def select_case(native: Arguments) -> str:
        command = get_command(native)
        if command is None:
            text = explain_issues(view.definition, [missing])
            raise ToolError(text, kind="validation", code="invalid_arguments", details=[missing])
        if following_commands(native) is not UNSET:
            return ""
        return "" if extract_patch(command) is None else "patch"

    all_rows: dict[str, Row] = {}
    for key, row in shown.items():
        all_rows[key] = row if isinstance(row, Row) else replace(_ROWS[key.rstrip("!")], schema=row)
    command_row = all_rows[command_key]
    command_fields = (
        Field("", "command", get_line, write_command, True),
        Field("", "argv", get_argv, omit, True),
    )
    all_rows[command_key] = replace(command_row, fields=(*command_fields, *command_row.fields))

    accepts = {**_ROWS, "max_output_length": call_field("max_output", number(), _output_limit(max_chars))}
    for key in shown:
        name_shown = key.rstrip("!")
        if name_shown not in _MORE_FORMS:
            accepts.pop(name_shown, None)
    view = make_view(
        name,
        description,
        "shell",
        all_rows,
        fixed=_OUTPUT,
        result=result,
        failure=result,
        native_data=native_data,
        script_value=script_value,
        more_cases={"patch": patch_case},
        select_case=select_case,
        accepts=accepts,
        required_schema={},
        ignores=_IGNORED,
        aliases=tuple(alias for alias in _NAMES if alias != name) if has_aliases else (),
        represents=represents,
        **options,
    )
    return view


# ---- the tools

_codex_view = partial(_make_command_view, closed=True)
_JUSTIFICATION = string("With require_escalated: the question to put to the user, in one sentence.")
_LOGIN = boolean("Run a login shell, which reads the user's profile first (default false).")
_WORKDIR = string("Directory to run in (default: the workspace).")
_TOKENS = call_field(
    "max_output",
    number("Tokens of output to show (default 10000); the middle of longer output is omitted."),
    _output_limit(DEFAULT_CHARS),
    tokens_from_base,
)
_PERMISSIONS = "require_escalated asks the user to run the command outside the sandbox (default use_default)."
_TIMEOUT = "Milliseconds after which it is stopped"
_LINE = string("The command line.")
_SESSION = numeric_handle(number("The session ID that exec_command returned."))

EXEC_VALUE = closed_schema(
    "chunk_id wall_time_seconds original_token_count output",
    chunk_id=string("Names this piece of output."),
    wall_time_seconds=number("Seconds that the call took."),
    exit_code=number("Of a command that has ended."),
    session_id=number("Of a command that is still running."),
    original_token_count=number("Tokens of the output before it was truncated."),
    output=string("What the command has printed."),
)
"""What code gets of a command."""
EXEC_COMMAND = _codex_view(
    "exec_command",
    "Run a command in a shell, in a sandbox, and return its output, or a session ID if it is still running "
    "after "
    "yield_time_ms. Each command starts in the workspace.",
    {
        "cmd!": _LINE,
        "justification": _JUSTIFICATION,
        "login": _LOGIN,
        "max_output_tokens": _TOKENS,
        "prefix_rule": ignored(string_list("Ignored.")),
        "sandbox_permissions": string(_PERMISSIONS, enum=["use_default", "require_escalated"]),
        "shell": unmapped(string("Shell to run it in (default bash).")),
        "tty": field(
            "tty", boolean("Run it in a terminal, so that write_stdin can type into it (default false).")
        ),
        "workdir": _WORKDIR,
        "yield_time_ms": field(
            "yield_after",
            number("Milliseconds to wait for it, 250 to 30000 (default 10000)."),
            _clamp_milliseconds(250, 30_000),
            to_milliseconds,
            default=DEFAULT_YIELD,
        ),
    },
    to_command_line,
    _patch_case(codex.render_exec_patch),
    result=codex.render_exec,
    has_aliases=False,  # Codex 0.77 still had them
    script_value=codex.exec_value,
    output_schema=EXEC_VALUE,
)


def wait_seconds(native: Arguments) -> float:
    """Return how long a call waits: an empty one for output, one with text only to see what comes of it."""
    minimum, maximum = (250, 30_000) if native.get("chars") else (5000, 300_000)
    value = native.get("yield_time_ms")
    if value is None:
        value = minimum
    return _clamp_milliseconds(minimum, maximum)(value)


WRITE_STDIN = make_view(
    "write_stdin",
    "Type into a command that is still running and return what it has printed since. With empty chars it "
    "only waits for "
    "more output. U+0003 is Ctrl-C in a terminal.",
    "shell_output",
    {
        "chars": field(
            "input",
            string("Text to type, including its newline (default empty: only wait)."),
            lambda chars: chars or UNSET,
            str,
        ),
        "max_output_tokens": _TOKENS,
        "session_id!": _SESSION,
        "yield_time_ms": call_field(
            "timeout",
            number(
                "Milliseconds to wait: 250 to 30000 after typing (default 250), 5000 to 300000 with empty "
                "chars (default 5000)."
            ),
            wait_seconds,
            lambda base: UNSET if base.get("timeout") is None else to_milliseconds(base["timeout"]),
        ),
    },
    closed=True,
    fixed={**_OUTPUT, "forget_ended": True},
    result=codex.render_exec,
    failure=codex.render_session_failure,
    script_value=codex.exec_value,
    output_schema=EXEC_VALUE,
)
# The harness ends a command with Ctrl-C, which needs a terminal.
STOP_SESSION = make_view(
    "shell_kill",
    "Stop a command that is still running and everything it started.",
    "shell_kill",
    {"session_id!": aliased(_SESSION, "handle")},
    closed=True,
)

SHELL_COMMAND = _codex_view(
    "shell_command",
    "Run a command line in a shell, in a sandbox, and return its output. Each command starts in the "
    "workspace.",
    {
        "command!": _LINE,
        "justification": _JUSTIFICATION,
        "login": _LOGIN,
        "sandbox_permissions": string(_PERMISSIONS),
        "timeout_ms": _timeout(number(f"{_TIMEOUT} (default 10000)."), default=DEFAULT_TIMEOUT),
        "workdir": _WORKDIR,
    },
    to_command_line,
    _patch_case(codex.render_patch_result),
    result=codex.render_shell_command,
)


def patch_to_argv(base: Arguments) -> Arguments:
    return {"command": ["apply_patch", render_patch(base)]}


def make_shell(*, applies_patches: bool) -> View:
    """Return the older tool, which takes a program with arguments.

    `applies_patches`: files are changed through it alone.
    """
    patches = f' ["apply_patch", PATCH] changes files. {PATCH_FORMAT}' if applies_patches else ""
    return _codex_view(
        "shell",
        'Run a program, such as ["bash", "-lc", "ls -la"], in a sandbox and return its output. Each one '
        "starts in the "
        f"workspace.{patches}",
        {
            "command!": string_list("The program and its arguments."),
            "justification": _JUSTIFICATION,
            "sandbox_permissions": string(_PERMISSIONS),
            "timeout_ms": number(f"{_TIMEOUT} (default 120000)."),
            "workdir": _WORKDIR,
        },
        to_argv,
        _patch_case(codex.render_patch_json, patch_to_argv if applies_patches else _cannot_express),
        result=codex.render_json,
        represents=frozenset({"shell", "patch"} if applies_patches else {"shell"}),
        max_chars=_OLD_CHARS,
    )


# The API's own tool for codex-mini: its action is the arguments.
LOCAL_SHELL = _make_command_view(
    "local_shell",
    'Run a program, such as ["bash", "-lc", "ls -la"], in a sandbox and return its output.',
    {
        "command!": string_list("The program and its arguments."),
        "env": replace(
            _ROWS["env"], schema={"type": "object", "description": "Environment variables to set."}
        ),
        "timeout_ms": number(f"{_TIMEOUT} (default 120000)."),
        "working_directory": call_field("cwd", _WORKDIR, get_directory, lambda base: base.get("cwd", UNSET)),
    },
    to_argv,
    _patch_case(codex.render_patch_json, patch_to_argv),
    result=codex.render_json,
    represents=frozenset({"shell", "patch"}),
    max_chars=_OLD_CHARS,
    typed={OPENAI_RESPONSES: {"type": "local_shell"}},
)

HOSTED_SHELL = _make_command_view(
    "shell",
    "Run command lines with bash, one after the other, and return the output and exit code of each.",
    {
        "commands!": string_list("The command lines."),
        "timeout_ms": field(
            "timeout",
            integer(f"{_TIMEOUT}, for each command (default 120000)."),
            _clamp_milliseconds(0, MAX_TIMEOUT),
            lambda seconds: round(seconds * 1000) or UNSET,
        ),
        "max_output_length": field("max_output", integer("Characters of output to show."), _clamp_chars),
    },
    to_command_lines,
    _patch_case(codex.render_patch_result, native_data=codex.patch_outputs),
    result=codex.render_all,
    native_data=codex.command_outputs,
    typed={OPENAI_RESPONSES: {"type": "shell", "environment": {"type": "local"}}},
)
