"""Commands as GPT models say them: the tool of Codex in its generations, and the API's own.

Laws: whatever name and form of the tool a model remembers is understood; only one is shown. Times are milliseconds, lengths are
tokens of four characters (characters in the API's own tool). Each command begins in the workspace.
"""

import re
from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.equivalence import canonical_call, render_patch
from toolglot.facades.gpt.patches import PATCH_FORMAT, extract_patch, rebase_patch, render_patch_failure, render_patch_result
from toolglot.facades.view import (
    Arguments,
    Case,
    Field,
    RenderContext,
    Renderer,
    View,
    boolean,
    closed_schema,
    integer,
    number,
    object_schema,
    omit,
    string,
    string_list,
)
from toolglot.jsontext import dumps_text
from toolglot.messages import Opaque
from toolglot.request import Schema
from toolglot.schema.arguments import Issue, explain_issues
from toolglot.wire.spec import OPENAI_RESPONSES

__all__ = ["EXEC_COMMAND", "HOSTED_SHELL", "SHELL_COMMAND", "WRITE_STDIN", "make_shell"]

CHARS_PER_TOKEN = 4
DEFAULT_TOKENS, MAX_CHARS = 10_000, 200_000
DEFAULT_YIELD, DEFAULT_TIMEOUT, MAX_TIMEOUT = 10.0, 10.0, 7200.0


# ---- what a call says

_SHELLS, _FLAGS = ("bash", "sh", "zsh"), ("-c", "-lc")
_LINE_OR_ARGV: Schema = {"type": ["string", "array"], "items": string()}
_COMMAND_PARAMETERS: Schema = {"cmd": _LINE_OR_ARGV, "command": _LINE_OR_ARGV, "sandbox_permissions": string()}
_ACCEPTED_PARAMETERS: Schema = {
    **_COMMAND_PARAMETERS,
    "commands": string_list(),
    "workdir": string(),
    "working_directory": string(),
    "justification": string(),
    "timeout_ms": number(),
    "max_output_tokens": number(),
    "max_output_length": number(),
    "login": boolean(),
    "with_escalated_permissions": boolean(),
    "env": {"type": "object", "additionalProperties": string()},
}
_IGNORED = frozenset({"shell", "prefix_rule", "environment_id", "additional_permissions", "type", "user"})
_NAMES = ("exec_command", "shell_command", "shell", "container.exec", "local_shell")


def _get_command(native: Arguments) -> str | list[str] | None:
    """A command line, or a program and its words; None where there is neither."""
    if lines := native.get("commands"):
        return str(lines[0])
    found = native.get("cmd") or native.get("command")
    if not isinstance(found, list):
        return str(found) if found else None
    match [str(word) for word in cast(list[Any], found)]:
        case [shell, flag, script] if shell.rpartition("/")[2] in _SHELLS and flag in _FLAGS:
            return script
        case [line] if " " in line.strip():
            return line
        case words:
            return words or None


def _get_directory(native: Arguments) -> str:
    return str(native.get("workdir") or native.get("working_directory") or ".")


def _patch_to_base(native: Arguments) -> str:
    return rebase_patch(_get_directory(native), extract_patch(_get_command(native) or "") or "")


def _make_command_view(
    name: str,
    description: str,
    parameters: Schema,
    cases: dict[str, Case],
    *,
    represents: frozenset[str] = frozenset({"shell"}),
    typed: dict[str, Opaque] | None = None,
) -> View:
    """The tool under one of its names: the others are understood. It takes the command under all names it ever had."""
    missing = Issue("$", f'"{parameters["required"][0]}" is a required property')

    def pick(native: Arguments) -> str:
        if _get_command(native) is None:
            raise ToolError(explain_issues(view.definition, [missing]), kind="validation")
        return "patch" if _following_commands(native) is UNSET and extract_patch(_get_command(native) or "") is not None else ""

    view = View(
        name=name,
        description=description,
        parameters=parameters,
        cases=cases,
        select_case=pick,
        accepts={
            one: schema
            for one, schema in _ACCEPTED_PARAMETERS.items()
            if one in _COMMAND_PARAMETERS or one not in parameters["properties"]
        },
        required_schema={},
        ignored=_IGNORED,
        aliases=tuple(one for one in _NAMES if one != name),
        represents=represents,
        typed=typed or {},
    )
    return view


def _has_command(base: Arguments) -> bool:
    """A call that only begins anew has no command."""
    return bool(base.get("command") or base.get("argv"))


def _clamp_milliseconds(minimum: float, limit: float) -> Callable[[Any], float]:
    """Milliseconds within bounds as seconds."""
    return lambda given: min(max(float(given), minimum), limit) / 1000


def to_milliseconds(seconds: Any) -> Any:
    found = round(float(seconds) * 1000, 6)
    return int(found) if found.is_integer() else found


def _accepted_field(native: str, base: str, to_base: Callable[[Any], Any] | None = None) -> Field:
    """A parameter that is taken and never said."""
    return Field(native=native, base=base, to_base=to_base, from_base=omit)


def _value_or_default(name: str, default: Any, convert: Callable[[Any], Any]) -> Callable[[Arguments], Any]:
    """A parameter that has a value also where it is not said."""
    return lambda given: default if given.get(name) is None else convert(given[name])


def _value_if_present(name: str, convert: Callable[[Any], Any]) -> Callable[[Arguments], Any]:
    return lambda given: UNSET if given.get(name) is None else convert(given[name])


def _output_limit(native: Arguments) -> int:
    """Characters of output to show."""
    tokens = native.get("max_output_tokens")
    chars = native.get("max_output_length", CHARS_PER_TOKEN * (DEFAULT_TOKENS if tokens is None else tokens))
    return _clamp_chars(chars)


def _clamp_chars(chars: Any) -> int:
    return int(min(max(chars, 1), MAX_CHARS))


def _to_tokens(chars: Any) -> Any:
    found = int(chars) / CHARS_PER_TOKEN
    return int(found) if found.is_integer() else found


def _wants_escalation(native: Arguments) -> Any:
    if "sandbox_permissions" in native:
        return native["sandbox_permissions"] not in ("", "use_default")
    return native.get("with_escalated_permissions", UNSET)


def _following_commands(native: Arguments) -> Any:
    """The command lines after the first."""
    return [str(line) for line in native.get("commands") or ()][1:] or UNSET


def _to_command_line(base: Arguments) -> str:
    return str(canonical_call("shell", base)["command"])


def _to_argv(base: Arguments) -> list[str]:
    return ["bash", "-lc", str(base["command"])] if base.get("command") else list(base.get("argv") or ())


def _command_fields(command_parameter: str, from_base: Callable[[Arguments], Any]) -> tuple[Field | str, ...]:
    """What all forms of the tool share. `main`: the parameter that has the command; `back`: how that is said."""

    def command(native: Arguments) -> Any:
        found = _get_command(native)
        return found if isinstance(found, str) else UNSET

    def words(native: Arguments) -> Any:
        found = _get_command(native)
        return found if isinstance(found, list) else UNSET

    return (
        Field(native=command_parameter, base="command", to_base=command, from_base=from_base, needs_all_arguments=True),
        Field(native=command_parameter, base="argv", to_base=words, from_base=omit, needs_all_arguments=True),
        Field(native="commands", base="then", to_base=_following_commands, from_base=omit, needs_all_arguments=True),
        Field(
            native="workdir",
            base="cwd",
            to_base=_get_directory,
            from_base=lambda base: UNSET if base.get("cwd") in (None, "", ".") else base["cwd"],
            needs_all_arguments=True,
        ),
        _accepted_field("env", "env"),
        Field(native="justification", base="description"),
        Field(
            native="sandbox_permissions",
            base="escalate",
            to_base=_wants_escalation,
            from_base=lambda base: "require_escalated" if base.get("escalate") else UNSET,
            needs_all_arguments=True,
        ),
    )


_EVEN_TRUNCATION: Arguments = {"head_share": 0.5}  # of output that is cut, as much from its end as from its beginning
_YIELD_FIELD = Field(
    native="yield_time_ms",
    base="yield_after",
    to_base=_value_or_default("yield_time_ms", DEFAULT_YIELD, _clamp_milliseconds(250, 30_000)),
    from_base=_value_if_present("yield_after", to_milliseconds),
    needs_all_arguments=True,
)
_TOKENS_FIELD = Field(
    native="max_output_tokens",
    base="max_output",
    to_base=_output_limit,
    from_base=_value_if_present("max_output", _to_tokens),
    needs_all_arguments=True,
)
_LENGTH_FIELD = Field(
    native="max_output_length", base="max_output", to_base=_output_limit, from_base=omit, needs_all_arguments=True
)
_TIMEOUT_FIELD = Field(
    native="timeout_ms", base="timeout", to_base=_clamp_milliseconds(0, MAX_TIMEOUT * 1000), from_base=to_milliseconds
)
_ACCEPTED_TIMEOUT_FIELD = _accepted_field("timeout_ms", "timeout", _clamp_milliseconds(0, MAX_TIMEOUT * 1000))


# ---- how results read


def _format_output(data: Arguments) -> str:
    """The output; of a long one the beginning and the end, and what of its notes matters."""
    output = str(data.get("output", ""))
    if data.get("omitted"):
        output = f"{data['head']}…{_count_tokens(data['omitted'])} tokens truncated…{data['tail']}"
    notes = [str(note) for note in data.get("notes") or ()]
    if data.get("ended") and not data.get("timed_out"):
        notes.insert(0, f"ended: {data['ended']}")
    return "\n".join([output.removesuffix("\n"), *(f"[{note}]" for note in notes)]) if notes else output


def _count_tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _output_size(data: Arguments) -> int:
    if data.get("omitted"):
        return len(data["head"]) + len(data["tail"]) + int(data["omitted"])
    return len(data.get("output", ""))


def _exit_code(data: Arguments) -> int:
    if data.get("timed_out"):
        return 124
    return data["exit_code"] if data.get("exit_code") is not None else -1


def _has_output(data: Any) -> bool:
    return isinstance(data, dict) and "output" in data


def _render_each(renderer: Renderer) -> Renderer:
    """The same words for each of several commands."""

    def all_words(said: RenderContext) -> str:
        runs = said.data_list("results")
        return "\n".join(renderer(replace(said, data=run, text="not run")) for run in runs) if runs else renderer(said)

    return all_words


@_render_each
def _render_exec(context: RenderContext) -> str:
    """As exec_command and write_stdin say it."""
    data = context.data
    if not _has_output(data):
        return context.text
    state = (
        f"Process running with session ID {data['handle']}"
        if data["running"]
        else f"Process exited with code {_exit_code(data)}"
    )
    head = [f"Wall time: {data['seconds']:.4f} seconds", state, f"Original token count: {_count_tokens(_output_size(data))}"]
    return "\n".join([*head, "Output:", _format_output(data)])


def _render_exec_patch(context: RenderContext) -> str:
    return f"Wall time: {context.data['seconds']:.4f} seconds\nProcess exited with code 0\nOutput:\n{context.text}\n"


def _timeout_message(context: RenderContext) -> str:
    return f"command timed out after {to_milliseconds(context.base.get('timeout') or context.data['seconds'])} milliseconds"


@_render_each
def _render_shell_command(context: RenderContext) -> str:
    """As shell_command says it."""
    data = context.data
    if not _has_output(data):
        return context.text
    head = [f"Exit code: {_exit_code(data)}", f"Wall time: {round(data['seconds'], 1):g} seconds"]
    head += [f"Total output lines: {data['total_lines']}"] if data.get("truncated") else []
    late = [_timeout_message(context)] if data.get("timed_out") else []
    return "\n".join([*head, "Output:", *late, _format_output(data)])


@_render_each
def _render_json(context: RenderContext) -> str:
    """As the older shell said it."""
    data = context.data
    if not _has_output(data):
        return context.text
    output = f"{_timeout_message(context)}\n{_format_output(data)}" if data.get("timed_out") else _format_output(data)
    return _format_json(output, _exit_code(data), round(data["seconds"], 1))


def _render_patch_json(context: RenderContext) -> str:
    return _format_json(f"{context.text}\n", 0, round(context.data["seconds"], 1))


def _format_json(output: str, code: int, seconds: float) -> str:
    return dumps_text({"output": output, "metadata": {"exit_code": code, "duration_seconds": seconds}})


def _render_unless_failed(name: str, renderer: Callable[[RenderContext], str]) -> Callable[[RenderContext], str]:
    """A command that ran into its time limit reads like any other; one that could not begin says why."""

    def failure(said: RenderContext) -> str:
        if _has_output(said.data) or said.data_list("results"):
            return renderer(said)
        return f"{name} failed: {re.sub('^cwd:', 'workdir:', said.text)}" if said.kind == "execution" else said.text

    return failure


# ---- the tools

_ESCALATION: dict[str, Any] = {
    "justification": string(description="With require_escalated: the question to the user, in one sentence."),
    "login": boolean(description="Whether the shell reads the user's login files first."),
}
_WORKDIR = string(description="The folder to run in; the workspace without it.")
_TOKENS_PARAMETER = number(description="Tokens of output to show; 10000 without. Of longer output, the middle is left out.")
_PATCH_FIELDS = (Field(native="input", base="text", to_base=_patch_to_base, from_base=omit, needs_all_arguments=True),)

EXEC_COMMAND = _make_command_view(
    "exec_command",
    (
        "Runs a command in a shell and gives its output, or a session ID where it still runs after yield_time_ms. "
        "Each command begins in the workspace, in a sandbox."
    ),
    closed_schema(
        "cmd",
        cmd=string(description="The command line."),
        justification=_ESCALATION["justification"],
        login=_ESCALATION["login"],
        max_output_tokens=_TOKENS_PARAMETER,
        prefix_rule=string_list(description="Not used."),
        sandbox_permissions=string(
            enum=["use_default", "require_escalated"],
            description="require_escalated asks the user to let the command run outside of the sandbox.",
        ),
        shell=string(description="Not used: commands run in bash."),
        tty=boolean(description="Whether it gets a terminal, and so can be typed into with write_stdin."),
        workdir=_WORKDIR,
        yield_time_ms=number(description="Milliseconds to wait for it, 250 to 30000; 10000 without."),
    ),
    {
        "": Case(
            base="shell",
            can_express=_has_command,
            fixed=_EVEN_TRUNCATION,
            fields=(
                *_command_fields("cmd", _to_command_line),
                "login",
                "tty",
                _YIELD_FIELD,
                _ACCEPTED_TIMEOUT_FIELD,
                _TOKENS_FIELD,
            ),
            result=_render_exec,
            failure=_render_unless_failed("exec_command", _render_exec),
        ),
        "patch": Case(
            base="patch",
            fields=_PATCH_FIELDS,
            from_base=lambda _: None,
            result=_render_exec_patch,
            failure=render_patch_failure,
        ),
    },
)


def _wait_seconds(native: Arguments) -> float:
    """Seconds: an empty call waits, one with text only looks what comes of it."""
    given = native.get("yield_time_ms")
    if native.get("chars"):
        return _clamp_milliseconds(250, 30_000)(250 if given is None else given)
    return _clamp_milliseconds(5000, 300_000)(5000 if given is None else given)


def _get_input(native: Arguments) -> Any:
    return native.get("chars") or UNSET


def _session_to_handle(native: Any) -> str:
    return str(int(native))


def _render_session_failure(context: RenderContext) -> str:
    if "takes no input" in context.text and "tty" in context.text:
        return "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
    why = context.text.replace("command with the handle", "session with the ID")
    return f"write_stdin failed: {why}" if context.kind in ("execution", "not_found") else context.text


WRITE_STDIN = View(
    name="write_stdin",
    description=(
        "Types into a command that still runs, and gives what it has written since. With empty chars it only waits for more "
        "output. U+0003 is Ctrl-C in a terminal."
    ),
    parameters=closed_schema(
        "session_id",
        chars=string(description="What to type, with its newline; empty to wait."),
        max_output_tokens=_TOKENS_PARAMETER,
        session_id=number(description="The session ID of the command."),
        yield_time_ms=number(
            description="Milliseconds to wait: 250 to 30000 after typing, 5000 to 300000 where chars is empty."
        ),
    ),
    cases={
        "": Case(
            base="shell_output",
            can_express=lambda base: str(base.get("handle", "")).isdecimal(),  # a session is a number here
            fixed=_EVEN_TRUNCATION,
            fields=(
                Field(native="session_id", base="handle", to_base=_session_to_handle, from_base=int),
                Field(
                    native="chars",
                    base="input",
                    to_base=_get_input,
                    from_base=_value_if_present("input", str),
                    needs_all_arguments=True,
                ),
                Field(
                    native="yield_time_ms",
                    base="timeout",
                    to_base=_wait_seconds,
                    from_base=_value_if_present("timeout", to_milliseconds),
                    needs_all_arguments=True,
                ),
                _TOKENS_FIELD,
            ),
            result=_render_exec,
            failure=_render_session_failure,
        )
    },
)

SHELL_COMMAND = _make_command_view(
    "shell_command",
    "Runs a command line in a shell and gives its output. Each one begins in the workspace, in a sandbox.",
    closed_schema(
        "command",
        command=string(description="The command line."),
        justification=_ESCALATION["justification"],
        login=_ESCALATION["login"],
        sandbox_permissions=string(
            description='"require_escalated" asks the user to let the command run outside of the sandbox; or "use_default".'
        ),
        timeout_ms=number(description="Milliseconds after which it is ended; 10000 without."),
        workdir=_WORKDIR,
    ),
    {
        "": Case(
            base="shell",
            can_express=_has_command,
            fixed=_EVEN_TRUNCATION,
            fields=(
                *_command_fields("command", _to_command_line),
                "login",
                Field(
                    native="timeout_ms",
                    base="timeout",
                    to_base=_value_or_default("timeout_ms", DEFAULT_TIMEOUT, _clamp_milliseconds(0, MAX_TIMEOUT * 1000)),
                    from_base=_value_if_present("timeout", to_milliseconds),
                    needs_all_arguments=True,
                ),
                _LENGTH_FIELD,
            ),
            result=_render_shell_command,
            failure=_render_unless_failed("shell_command", _render_shell_command),
        ),
        "patch": Case(
            base="patch",
            fields=_PATCH_FIELDS,
            from_base=lambda _: None,
            result=render_patch_result,
            failure=render_patch_failure,
        ),
    },
)


def _patch_from_base(base: Arguments) -> Arguments:
    return {"command": ["apply_patch", render_patch(base)]}


def make_shell(*, applies_patches: bool) -> View:
    """The older tool, which takes a program and its words. `patches`: files are changed through it alone."""
    return _make_command_view(
        "shell",
        (
            'Runs a program and gives its output, such as ["bash", "-lc", "ls -la"]. Each one begins in the workspace, in a '
            "sandbox." + (f' ["apply_patch", PATCH] changes files. {PATCH_FORMAT}' if applies_patches else "")
        ),
        closed_schema(
            "command",
            command=string_list(description="The program and its words."),
            justification=_ESCALATION["justification"],
            sandbox_permissions=string(
                description='"require_escalated" asks the user to let it run outside of the sandbox; or "use_default".'
            ),
            timeout_ms=number(description="Milliseconds after which it is ended."),
            workdir=_WORKDIR,
        ),
        {
            "": Case(
                base="shell",
                can_express=_has_command,
                fixed=_EVEN_TRUNCATION,
                fields=(
                    *_command_fields("command", _to_argv),
                    _accepted_field("login", "login"),
                    _TIMEOUT_FIELD,
                    _LENGTH_FIELD,
                ),
                result=_render_json,
                failure=_render_unless_failed("shell", _render_json),
            ),
            "patch": Case(
                base="patch",
                fields=_PATCH_FIELDS,
                from_base=_patch_from_base if applies_patches else lambda _: None,
                result=_render_patch_json,
                failure=render_patch_failure,
            ),
        },
        represents=frozenset({"shell", "patch"} if applies_patches else {"shell"}),
    )


# ---- the API's own tool, which takes several commands and wants each one's outcome


def _command_outputs(context: RenderContext) -> list[Arguments]:
    """What the API wants: output and outcome of each command; what did not run says why."""
    if context.data is None:
        return [_command_output({"output": context.text, "exit_code": 1})]
    runs = cast(list[Arguments | None], context.data_list("results") or [context.data])
    return [_command_output(run or {"output": "not run", "exit_code": 1}) for run in runs]


def _command_output(run: Arguments) -> Arguments:
    apart = run.get("stdout") or run.get("stderr")
    outcome = {"type": "timeout"} if run.get("timed_out") else {"type": "exit", "exit_code": _exit_code(run)}
    return {
        "stdout": run["stdout"] if apart else _format_output(run),
        "stderr": run["stderr"] if apart else "",
        "outcome": outcome,
    }


def _patch_outputs(context: RenderContext) -> list[Arguments]:
    return [_command_output({"output": f"{context.text}\n", "exit_code": int(context.kind is not None)})]


def _render_all(context: RenderContext) -> str:
    """For those who read a text."""
    outputs = _command_outputs(context)
    return "\n\n".join(f"{_format_outcome(one['outcome'])}\nOutput:\n{one['stdout']}{one['stderr']}" for one in outputs)


def _format_outcome(outcome: Arguments) -> str:
    return "Timed out" if outcome["type"] == "timeout" else f"Exit code: {outcome['exit_code']}"


def _to_command_lines(base: Arguments) -> list[str]:
    return [_to_command_line(base), *map(str, base.get("then") or ())]


HOSTED_SHELL = _make_command_view(
    "shell",
    "Runs command lines with bash, one after the other, and gives the output and the exit code of each.",
    object_schema(
        "commands",
        commands=string_list(description="The command lines."),
        timeout_ms=integer(description="Milliseconds after which each one is ended."),
        max_output_length=integer(description="Characters of output to show."),
    ),
    {
        "": Case(
            base="shell",
            can_express=_has_command,
            fixed=_EVEN_TRUNCATION,
            fields=(
                *_command_fields("commands", _to_command_lines),
                Field(
                    native="timeout_ms",
                    base="timeout",
                    to_base=_clamp_milliseconds(0, MAX_TIMEOUT * 1000),
                    from_base=lambda seconds: round(seconds * 1000) or UNSET,
                ),
                Field(native="max_output_length", base="max_output", to_base=_clamp_chars, from_base=lambda chars: chars),
            ),
            result=_render_all,
            failure=_render_all,
            native_data=_command_outputs,
        ),
        "patch": Case(
            base="patch",
            fields=_PATCH_FIELDS,
            from_base=lambda _: None,
            result=render_patch_result,
            failure=render_patch_failure,
            native_data=_patch_outputs,
        ),
    },
    typed={OPENAI_RESPONSES: {"type": "shell", "environment": {"type": "local"}}},
)
