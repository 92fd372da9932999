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
from toolglot.facades.gpt.patches import PATCH_FORMAT, below, not_patched, patch_in, patched
from toolglot.facades.plain import canonical, rendered
from toolglot.facades.view import (
    Arguments,
    Case,
    Field,
    Said,
    View,
    Words,
    boolean,
    closed,
    integer,
    number,
    shape,
    text,
    texts,
    unsaid,
)
from toolglot.jsontext import dumps_text
from toolglot.messages import Opaque
from toolglot.request import Schema
from toolglot.schema.arguments import Wrong, explain

__all__ = ["exec_command", "shell_command", "shell_typed", "shell_view", "write_stdin"]

CHARS_A_TOKEN = 4
USUAL_TOKENS, MOST_CHARS = 10_000, 200_000
USUAL_YIELD, USUAL_TIMEOUT, LONGEST = 10.0, 10.0, 7200.0


# ---- what a call says

_SHELLS, _FLAGS = ("bash", "sh", "zsh"), ("-c", "-lc")
_LINE_OR_WORDS: Schema = {"type": ["string", "array"], "items": text()}
_WIDER: Schema = {"cmd": _LINE_OR_WORDS, "command": _LINE_OR_WORDS, "sandbox_permissions": text()}
_ACCEPTED: Schema = {
    **_WIDER,
    "commands": texts(),
    "workdir": text(),
    "working_directory": text(),
    "justification": text(),
    "timeout_ms": number(),
    "max_output_tokens": number(),
    "max_output_length": number(),
    "login": boolean(),
    "with_escalated_permissions": boolean(),
    "env": {"type": "object", "additionalProperties": text()},
}
_IGNORED = frozenset({"shell", "prefix_rule", "environment_id", "additional_permissions", "type", "user"})
_NAMES = ("exec_command", "shell_command", "shell", "container.exec", "local_shell")


def _given(native: Arguments) -> str | list[str] | None:
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


def _folder(native: Arguments) -> str:
    return str(native.get("workdir") or native.get("working_directory") or ".")


def _patch_below(native: Arguments) -> str:
    return below(_folder(native), patch_in(_given(native) or "") or "")


def _commands(
    name: str,
    description: str,
    parameters: Schema,
    cases: dict[str, Case],
    *,
    stands_for: frozenset[str] = frozenset({"shell"}),
    typed: dict[str, Opaque] | None = None,
) -> View:
    """The tool under one of its names: the others are understood. It takes the command under all names it ever had."""
    missing = Wrong("$", f'"{parameters["required"][0]}" is a required property')

    def pick(native: Arguments) -> str:
        if _given(native) is None:
            raise ToolError(explain(view.definition, [missing]), kind="validation")
        return "patch" if _later(native) is UNSET and patch_in(_given(native) or "") is not None else ""

    view = View(
        name=name,
        description=description,
        parameters=parameters,
        cases=cases,
        pick=pick,
        accepts={one: schema for one, schema in _ACCEPTED.items() if one in _WIDER or one not in parameters["properties"]},
        demands={},
        ignored=_IGNORED,
        aliases=tuple(one for one in _NAMES if one != name),
        stands_for=stands_for,
        typed=typed or {},
    )
    return view


def _runs(base: Arguments) -> bool:
    """A call that only begins anew has no command."""
    return bool(base.get("command") or base.get("argv"))


def _clamped(least: float, most: float) -> Callable[[Any], float]:
    """Milliseconds within bounds as seconds."""
    return lambda given: min(max(float(given), least), most) / 1000


def milliseconds(seconds: Any) -> Any:
    found = round(float(seconds) * 1000, 6)
    return int(found) if found.is_integer() else found


def _also(native: str, base: str, into: Callable[[Any], Any] | None = None) -> Field:
    """A parameter that is taken and never said."""
    return Field(native=native, base=base, into=into, back=unsaid)


def _or(name: str, usual: Any, change: Callable[[Any], Any]) -> Callable[[Arguments], Any]:
    """A parameter that has a value also where it is not said."""
    return lambda given: usual if given.get(name) is None else change(given[name])


def _if_said(name: str, change: Callable[[Any], Any]) -> Callable[[Arguments], Any]:
    return lambda given: UNSET if given.get(name) is None else change(given[name])


def _most(native: Arguments) -> int:
    """Characters of output to show."""
    tokens = native.get("max_output_tokens")
    chars = native.get("max_output_length", CHARS_A_TOKEN * (USUAL_TOKENS if tokens is None else tokens))
    return _within(chars)


def _within(chars: Any) -> int:
    return int(min(max(chars, 1), MOST_CHARS))


def _tokens(chars: Any) -> Any:
    found = int(chars) / CHARS_A_TOKEN
    return int(found) if found.is_integer() else found


def _escalates(native: Arguments) -> Any:
    if "sandbox_permissions" in native:
        return native["sandbox_permissions"] not in ("", "use_default")
    return native.get("with_escalated_permissions", UNSET)


def _later(native: Arguments) -> Any:
    """The command lines after the first."""
    return [str(line) for line in native.get("commands") or ()][1:] or UNSET


def _as_line(base: Arguments) -> str:
    return str(canonical("shell", base)["command"])


def _as_words(base: Arguments) -> list[str]:
    return ["bash", "-lc", str(base["command"])] if base.get("command") else list(base.get("argv") or ())


def _rows(main: str, back: Callable[[Arguments], Any]) -> tuple[Field | str, ...]:
    """What all forms of the tool share. `main`: the parameter that has the command; `back`: how that is said."""

    def command(native: Arguments) -> Any:
        found = _given(native)
        return found if isinstance(found, str) else UNSET

    def words(native: Arguments) -> Any:
        found = _given(native)
        return found if isinstance(found, list) else UNSET

    return (
        Field(native=main, base="command", into=command, back=back, whole=True),
        Field(native=main, base="argv", into=words, back=unsaid, whole=True),
        Field(native="commands", base="then", into=_later, back=unsaid, whole=True),
        Field(
            native="workdir",
            base="cwd",
            into=_folder,
            back=lambda base: UNSET if base.get("cwd") in (None, "", ".") else base["cwd"],
            whole=True,
        ),
        _also("env", "env"),
        Field(native="justification", base="description"),
        Field(
            native="sandbox_permissions",
            base="escalate",
            into=_escalates,
            back=lambda base: "require_escalated" if base.get("escalate") else UNSET,
            whole=True,
        ),
    )


_HALVES: Arguments = {"head_share": 0.5}  # of output that is cut, as much from its end as from its beginning
_YIELD = Field(
    native="yield_time_ms",
    base="yield_after",
    into=_or("yield_time_ms", USUAL_YIELD, _clamped(250, 30_000)),
    back=_if_said("yield_after", milliseconds),
    whole=True,
)
_LIMIT = Field(
    native="max_output_tokens",
    base="max_output",
    into=_most,
    back=_if_said("max_output", _tokens),
    whole=True,
)
_MOST = Field(native="max_output_length", base="max_output", into=_most, back=unsaid, whole=True)
_TIMEOUT = Field(native="timeout_ms", base="timeout", into=_clamped(0, LONGEST * 1000), back=milliseconds)
_LATE = _also("timeout_ms", "timeout", _clamped(0, LONGEST * 1000))


# ---- how results read


def _shown(data: Arguments) -> str:
    """The output; of a long one the beginning and the end, and what of its notes matters."""
    output = str(data.get("output", ""))
    if data.get("omitted"):
        output = f"{data['head']}…{_token_count(data['omitted'])} tokens truncated…{data['tail']}"
    notes = [str(note) for note in data.get("notes") or ()]
    if data.get("ended") and not data.get("timed_out"):
        notes.insert(0, f"ended: {data['ended']}")
    return "\n".join([output.removesuffix("\n"), *(f"[{note}]" for note in notes)]) if notes else output


def _token_count(chars: int) -> int:
    return -(-chars // CHARS_A_TOKEN)


def _size(data: Arguments) -> int:
    if data.get("omitted"):
        return len(data["head"]) + len(data["tail"]) + int(data["omitted"])
    return len(data.get("output", ""))


def _code(data: Arguments) -> int:
    if data.get("timed_out"):
        return 124
    return data["exit_code"] if data.get("exit_code") is not None else -1


def _has_run(data: Any) -> bool:
    return isinstance(data, dict) and "output" in data


def _each(words: Words) -> Words:
    """The same words for each of several commands."""

    def all_words(said: Said) -> str:
        runs = said.part("results")
        return "\n".join(words(replace(said, data=run, text="not run")) for run in runs) if runs else words(said)

    return all_words


@_each
def _executed(said: Said) -> str:
    """As exec_command and write_stdin say it."""
    data = said.data
    if not _has_run(data):
        return said.text
    state = (
        f"Process running with session ID {data['handle']}" if data["running"] else f"Process exited with code {_code(data)}"
    )
    head = [f"Wall time: {data['seconds']:.4f} seconds", state, f"Original token count: {_token_count(_size(data))}"]
    return "\n".join([*head, "Output:", _shown(data)])


def _executed_patch(said: Said) -> str:
    return f"Wall time: {said.data['seconds']:.4f} seconds\nProcess exited with code 0\nOutput:\n{said.text}\n"


def _waited(said: Said) -> str:
    return f"command timed out after {milliseconds(said.base.get('timeout') or said.data['seconds'])} milliseconds"


@_each
def _ran(said: Said) -> str:
    """As shell_command says it."""
    data = said.data
    if not _has_run(data):
        return said.text
    head = [f"Exit code: {_code(data)}", f"Wall time: {round(data['seconds'], 1):g} seconds"]
    head += [f"Total output lines: {data['total_lines']}"] if data.get("truncated") else []
    late = [_waited(said)] if data.get("timed_out") else []
    return "\n".join([*head, "Output:", *late, _shown(data)])


@_each
def _ran_as_json(said: Said) -> str:
    """As the older shell said it."""
    data = said.data
    if not _has_run(data):
        return said.text
    output = f"{_waited(said)}\n{_shown(data)}" if data.get("timed_out") else _shown(data)
    return _as_json(output, _code(data), round(data["seconds"], 1))


def _patched_as_json(said: Said) -> str:
    return _as_json(f"{said.text}\n", 0, round(said.data["seconds"], 1))


def _as_json(output: str, code: int, seconds: float) -> str:
    return dumps_text({"output": output, "metadata": {"exit_code": code, "duration_seconds": seconds}})


def _or_failed(name: str, words: Callable[[Said], str]) -> Callable[[Said], str]:
    """A command that ran into its time limit reads like any other; one that could not begin says why."""

    def failure(said: Said) -> str:
        if _has_run(said.data) or said.part("results"):
            return words(said)
        return f"{name} failed: {re.sub('^cwd:', 'workdir:', said.text)}" if said.kind == "execution" else said.text

    return failure


# ---- the tools

_ESCALATION: dict[str, Any] = {
    "justification": text(description="With require_escalated: the question to the user, in one sentence."),
    "login": boolean(description="Whether the shell reads the user's login files first."),
}
_WORKDIR = text(description="The folder to run in; the workspace without it.")
_TOKENS = number(description="Tokens of output to show; 10000 without. Of longer output, the middle is left out.")
_SENT_PATCH = (Field(native="input", base="text", into=_patch_below, back=unsaid, whole=True),)

exec_command = _commands(
    "exec_command",
    (
        "Runs a command in a shell and gives its output, or a session ID where it still runs after yield_time_ms. "
        "Each command begins in the workspace, in a sandbox."
    ),
    closed(
        "cmd",
        cmd=text(description="The command line."),
        justification=_ESCALATION["justification"],
        login=_ESCALATION["login"],
        max_output_tokens=_TOKENS,
        prefix_rule=texts(description="Not used."),
        sandbox_permissions=text(
            enum=["use_default", "require_escalated"],
            description="require_escalated asks the user to let the command run outside of the sandbox.",
        ),
        shell=text(description="Not used: commands run in bash."),
        tty=boolean(description="Whether it gets a terminal, and so can be typed into with write_stdin."),
        workdir=_WORKDIR,
        yield_time_ms=number(description="Milliseconds to wait for it, 250 to 30000; 10000 without."),
    ),
    {
        "": Case(
            base="shell",
            says=_runs,
            fixed=_HALVES,
            fields=(*_rows("cmd", _as_line), "login", "tty", _YIELD, _LATE, _LIMIT),
            result=_executed,
            failure=_or_failed("exec_command", _executed),
        ),
        "patch": Case(base="patch", fields=_SENT_PATCH, back=lambda _: None, result=_executed_patch, failure=not_patched),
    },
)


def _wait(native: Arguments) -> float:
    """Seconds: an empty call waits, one with text only looks what comes of it."""
    given = native.get("yield_time_ms")
    if native.get("chars"):
        return _clamped(250, 30_000)(250 if given is None else given)
    return _clamped(5000, 300_000)(5000 if given is None else given)


def _typed(native: Arguments) -> Any:
    return native.get("chars") or UNSET


def _session(native: Any) -> str:
    return str(int(native))


def _no_session(said: Said) -> str:
    if "takes no input" in said.text and "tty" in said.text:
        return "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
    why = said.text.replace("command with the handle", "session with the ID")
    return f"write_stdin failed: {why}" if said.kind in ("execution", "not_found") else said.text


write_stdin = View(
    name="write_stdin",
    description=(
        "Types into a command that still runs, and gives what it has written since. With empty chars it only waits for more "
        "output. U+0003 is Ctrl-C in a terminal."
    ),
    parameters=closed(
        "session_id",
        chars=text(description="What to type, with its newline; empty to wait."),
        max_output_tokens=_TOKENS,
        session_id=number(description="The session ID of the command."),
        yield_time_ms=number(
            description="Milliseconds to wait: 250 to 30000 after typing, 5000 to 300000 where chars is empty."
        ),
    ),
    cases={
        "": Case(
            base="shell_output",
            says=lambda base: str(base.get("handle", "")).isdecimal(),  # a session is a number here
            fixed=_HALVES,
            fields=(
                Field(native="session_id", base="handle", into=_session, back=int),
                Field(native="chars", base="input", into=_typed, back=_if_said("input", str), whole=True),
                Field(native="yield_time_ms", base="timeout", into=_wait, back=_if_said("timeout", milliseconds), whole=True),
                _LIMIT,
            ),
            result=_executed,
            failure=_no_session,
        )
    },
)

shell_command = _commands(
    "shell_command",
    "Runs a command line in a shell and gives its output. Each one begins in the workspace, in a sandbox.",
    closed(
        "command",
        command=text(description="The command line."),
        justification=_ESCALATION["justification"],
        login=_ESCALATION["login"],
        sandbox_permissions=text(
            description='"require_escalated" asks the user to let the command run outside of the sandbox; or "use_default".'
        ),
        timeout_ms=number(description="Milliseconds after which it is ended; 10000 without."),
        workdir=_WORKDIR,
    ),
    {
        "": Case(
            base="shell",
            says=_runs,
            fixed=_HALVES,
            fields=(
                *_rows("command", _as_line),
                "login",
                Field(
                    native="timeout_ms",
                    base="timeout",
                    into=_or("timeout_ms", USUAL_TIMEOUT, _clamped(0, LONGEST * 1000)),
                    back=_if_said("timeout", milliseconds),
                    whole=True,
                ),
                _MOST,
            ),
            result=_ran,
            failure=_or_failed("shell_command", _ran),
        ),
        "patch": Case(base="patch", fields=_SENT_PATCH, back=lambda _: None, result=patched, failure=not_patched),
    },
)


def _patch_as_words(base: Arguments) -> Arguments:
    return {"command": ["apply_patch", rendered(base)]}


def shell_view(*, patches: bool) -> View:
    """The older tool, which takes a program and its words. `patches`: files are changed through it alone."""
    return _commands(
        "shell",
        (
            'Runs a program and gives its output, such as ["bash", "-lc", "ls -la"]. Each one begins in the workspace, in a '
            "sandbox." + (f' ["apply_patch", PATCH] changes files. {PATCH_FORMAT}' if patches else "")
        ),
        closed(
            "command",
            command=texts(description="The program and its words."),
            justification=_ESCALATION["justification"],
            sandbox_permissions=text(
                description='"require_escalated" asks the user to let it run outside of the sandbox; or "use_default".'
            ),
            timeout_ms=number(description="Milliseconds after which it is ended."),
            workdir=_WORKDIR,
        ),
        {
            "": Case(
                base="shell",
                says=_runs,
                fixed=_HALVES,
                fields=(*_rows("command", _as_words), _also("login", "login"), _TIMEOUT, _MOST),
                result=_ran_as_json,
                failure=_or_failed("shell", _ran_as_json),
            ),
            "patch": Case(
                base="patch",
                fields=_SENT_PATCH,
                back=_patch_as_words if patches else lambda _: None,
                result=_patched_as_json,
                failure=not_patched,
            ),
        },
        stands_for=frozenset({"shell", "patch"} if patches else {"shell"}),
    )


# ---- the API's own tool, which takes several commands and wants each one's outcome


def _outputs(said: Said) -> list[Arguments]:
    """What the API wants: output and outcome of each command; what did not run says why."""
    if said.data is None:
        return [_output({"output": said.text, "exit_code": 1})]
    runs = cast(list[Arguments | None], said.part("results") or [said.data])
    return [_output(run or {"output": "not run", "exit_code": 1}) for run in runs]


def _output(run: Arguments) -> Arguments:
    apart = run.get("stdout") or run.get("stderr")
    outcome = {"type": "timeout"} if run.get("timed_out") else {"type": "exit", "exit_code": _code(run)}
    return {"stdout": run["stdout"] if apart else _shown(run), "stderr": run["stderr"] if apart else "", "outcome": outcome}


def _patch_output(said: Said) -> list[Arguments]:
    return [_output({"output": f"{said.text}\n", "exit_code": int(said.kind is not None)})]


def _all_ran(said: Said) -> str:
    """For those who read a text."""
    outputs = _outputs(said)
    return "\n\n".join(f"{_ended(one['outcome'])}\nOutput:\n{one['stdout']}{one['stderr']}" for one in outputs)


def _ended(outcome: Arguments) -> str:
    return "Timed out" if outcome["type"] == "timeout" else f"Exit code: {outcome['exit_code']}"


def _as_lines(base: Arguments) -> list[str]:
    return [_as_line(base), *map(str, base.get("then") or ())]


shell_typed = _commands(
    "shell",
    "Runs command lines with bash, one after the other, and gives the output and the exit code of each.",
    shape(
        "commands",
        commands=texts(description="The command lines."),
        timeout_ms=integer(description="Milliseconds after which each one is ended."),
        max_output_length=integer(description="Characters of output to show."),
    ),
    {
        "": Case(
            base="shell",
            says=_runs,
            fixed=_HALVES,
            fields=(
                *_rows("commands", _as_lines),
                Field(
                    native="timeout_ms",
                    base="timeout",
                    into=_clamped(0, LONGEST * 1000),
                    back=lambda seconds: round(seconds * 1000) or UNSET,
                ),
                Field(native="max_output_length", base="max_output", into=_within, back=lambda chars: chars),
            ),
            result=_all_ran,
            failure=_all_ran,
            data=_outputs,
        ),
        "patch": Case(
            base="patch",
            fields=_SENT_PATCH,
            back=lambda _: None,
            result=patched,
            failure=not_patched,
            data=_patch_output,
        ),
    },
    typed={"openai-responses": {"type": "shell", "environment": {"type": "local"}}},
)
