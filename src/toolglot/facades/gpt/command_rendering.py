"""How Codex writes the output of commands, in its generations, and what the API's own shell wants.

Lengths are tokens of four characters, in its oldest generation characters. Codex marks no result as failed: the text says so.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import cast

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.facades.rows import to_milliseconds
from toolglot.facades.view import Arguments, RenderContext, Renderer
from toolglot.schema.arguments import Issue

CHARS_PER_TOKEN = 4
_EXECUTION_KINDS = ("execution", "not_found", "timeout")


def render_failure(context: RenderContext) -> str:
    """Why a call did not run, in one line."""
    if context.code == "unknown_tool":
        return f"unsupported call: {context.tool}"
    if context.code != "invalid_arguments":
        return context.text
    issues = [(issue.path.removeprefix("$").removeprefix("."), issue.message) for issue in cast(list[Issue], context.details)]
    problems = (f"missing field `{name}`" if text == "is missing" else f"{name} {text}".lstrip() for name, text in issues)
    return "failed to parse function arguments: " + "; ".join(problems).replace("\n", " ")


def _format_output(data: Arguments, *, in_chars: bool = False) -> str:
    """The output; of a long one the start and the end; then notes."""
    output = str(data.get("output", ""))
    if omitted := data.get("omitted"):
        size = f"{omitted} chars" if in_chars else f"{_count_tokens(omitted)} tokens"
        output = f"{data['head']}…{size} truncated…{data['tail']}"
    notes = [str(note) for note in data.get("notes") or ()]
    if data.get("ended") and not data.get("timed_out"):
        notes.insert(0, f"stopped: {data['ended']}")
    return "\n".join([output.removesuffix("\n"), *(f"[{note}]" for note in notes)]) if notes else output


def _count_tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _exit_code(data: Arguments) -> int:
    if data.get("timed_out"):
        return 124  # as timeout(1) and Codex report it
    return data["exit_code"] if data.get("exit_code") is not None else -1


def _render_each(prefix: str) -> Callable[[Renderer], Renderer]:
    """Apply a renderer to each of several commands; one that did not start says why, after the prefix."""

    def decorate(renderer: Renderer) -> Renderer:
        def render(context: RenderContext) -> str:
            if results := context.data_list("results"):
                return "\n".join(render(replace(context, data=result, text="not run", kind=None)) for result in results)
            if context.data is not None and "output" in context.data:
                return renderer(context)
            return f"{prefix}: {context.text}" if context.kind in _EXECUTION_KINDS else render_failure(context)

        return render

    return decorate


@_render_each("exec_command failed")
def render_exec(context: RenderContext) -> str:
    """As exec_command and write_stdin answer."""
    data, value = context.data, exec_value(context)
    tokens = value["original_token_count"]
    warning = [f"Warning: truncated output (original token count: {tokens})", f"Total output lines: {data['total_lines']}", ""]
    return "\n".join(
        [
            f"Chunk ID: {value['chunk_id']}",
            f"Wall time: {value['wall_time_seconds']:.4f} seconds",
            f"Process running with session ID {data['handle']}"
            if data["running"]
            else f"Process exited with code {_exit_code(data)}",
            f"Original token count: {tokens}",
            "Output:",
            *(warning if data.get("omitted") else ()),
            value["output"],
        ]
    )


def exec_value(context: RenderContext) -> Arguments:
    """The same as data, for code."""
    data = context.data
    kept, omitted = str(data["head"] + data["tail"] if data.get("omitted") else data["output"]), int(data.get("omitted") or 0)
    return {
        "chunk_id": blake2b(dumps_text(data).encode(errors="replace"), digest_size=3).hexdigest(),
        "wall_time_seconds": data["call_seconds"],
        **({"session_id": int(data["handle"])} if data["running"] else {"exit_code": _exit_code(data)}),
        "original_token_count": _count_tokens(len(kept.encode(errors="replace")) + omitted),
        "output": _format_output(data),
    }


def render_exec_patch(context: RenderContext) -> str:
    """A patch sent through exec_command: what apply_patch answers, as its output."""
    return f"Wall time: {context.data['seconds']:.4f} seconds\nOutput:\n{render_patch_result(context)}"


def render_patch_result(context: RenderContext) -> str:
    """A patch that was applied, in the form of a command's output."""
    return f"Exit code: 0\nWall time: {round(context.data['seconds'], 1):g} seconds\nOutput:\n{context.text}\n"


def _timeout_message(context: RenderContext) -> str:
    milliseconds = to_milliseconds(context.base.get("timeout") or context.data["seconds"])
    return f"command timed out after {milliseconds} milliseconds\n" if context.data.get("timed_out") else ""


@_render_each("execution error")
def render_shell_command(context: RenderContext) -> str:
    """As shell_command answered."""
    data = context.data
    lines = [f"Exit code: {_exit_code(data)}", f"Wall time: {round(data['seconds'], 1):g} seconds"]
    output = _format_output(data)
    if data.get("omitted") and data["total_lines"] != len(output.splitlines()):
        lines.append(f"Total output lines: {data['total_lines']}")
    return "\n".join([*lines, "Output:", _timeout_message(context) + output])


@_render_each("execution error")
def render_json(context: RenderContext) -> str:
    """As the older shell tool answered."""
    data = context.data
    total = f"Total output lines: {data['total_lines']}\n\n" if data.get("omitted") else ""
    return _format_json(
        total + _timeout_message(context) + _format_output(data, in_chars=True), _exit_code(data), data["seconds"]
    )


def render_patch_json(context: RenderContext) -> str:
    """A patch sent through the older shell tool."""
    return _format_json(f"{context.text}\n", 0, context.data["seconds"])


def _format_json(output: str, exit_code: int, seconds: float) -> str:
    return dumps_text({"output": output, "metadata": {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}})


def render_session_failure(context: RenderContext) -> str:
    """Why write_stdin did not reach its session."""
    if context.code == "stdin_closed":
        return "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
    if context.code == "session_not_found":
        running = ", ".join(context.details.running)
        return f"write_stdin failed: Unknown process id {context.details.session}{running and f'; running: {running}'}"
    return f"write_stdin failed: {context.text}" if context.kind in _EXECUTION_KINDS else render_failure(context)


# ---- the API's own tool, which takes several commands and wants the outcome of each


def command_outputs(context: RenderContext) -> list[Arguments]:
    """What the API wants: output and outcome of each command; one that did not run says why."""
    if context.data is None:
        return [_command_output({"output": context.text, "exit_code": 1})]
    results = cast(list[Arguments | None], context.data_list("results") or [context.data])
    return [_command_output(result or {"output": "not run", "exit_code": 1}) for result in results]


def _command_output(result: Arguments) -> Arguments:
    return {
        "stdout": result.get("output") or _format_output(result),
        "stderr": "",
        "outcome": {"type": "timeout"} if result.get("timed_out") else {"type": "exit", "exit_code": _exit_code(result)},
    }


def patch_outputs(context: RenderContext) -> list[Arguments]:
    """The same for a patch sent through the tool."""
    return [_command_output({"output": f"{context.text}\n", "exit_code": int(context.kind is not None)})]


def render_all(context: RenderContext) -> str:
    """All outputs as text, for a model that reads no data."""
    blocks: list[str] = []
    for output in command_outputs(context):
        code = output["outcome"].get("exit_code")
        blocks.append(f"{'Timed out' if code is None else f'Exit code: {code}'}\nOutput:\n{output['stdout']}")
    return "\n\n".join(blocks)
