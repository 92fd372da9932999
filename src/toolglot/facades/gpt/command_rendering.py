"""How Codex writes the output of commands, in its generations, and what the API's own shell wants.

Lengths are tokens of four characters, in its oldest generation characters. Codex marks no result as failed:
the text says so.
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
    """Return why a call did not run, in one line."""
    if context.code == "unknown_tool":
        return f"unsupported call: {context.tool}"
    if context.code != "invalid_arguments":
        return context.text
    problems: list[str] = []
    for issue in cast(list[Issue], context.details):
        name = issue.path.removeprefix("$").removeprefix(".")
        if issue.message == "is missing":
            problems.append(f"missing field `{name}`")
        else:
            problems.append(f"{name} {issue.message}".lstrip())
    return "failed to parse function arguments: " + "; ".join(problems).replace("\n", " ")


def _format_output(data: Arguments, *, in_chars: bool = False) -> str:
    """Return the output; of a long one the start and the end; then notes."""
    output = str(data.get("output", ""))
    omitted = data.get("omitted")
    if omitted:
        size = f"{omitted} chars" if in_chars else f"{_count_tokens(omitted)} tokens"
        output = f"{data['head']}…{size} truncated…{data['tail']}"
    notes: list[str] = []
    if data.get("ended") and not data.get("timed_out"):
        notes.append(f"[stopped: {data['ended']}]")
    for note in data.get("notes") or ():
        notes.append(f"[{note}]")
    if not notes:
        return output
    return "\n".join([output.removesuffix("\n"), *notes])


def _count_tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _exit_code(data: Arguments) -> int:
    if data.get("timed_out"):
        return 124  # as timeout(1) and Codex report it
    code = data.get("exit_code")
    return -1 if code is None else code


def _render_each(prefix: str) -> Callable[[Renderer], Renderer]:
    """Apply a renderer to each of several commands; one that did not start says why, after the prefix."""

    def decorate(renderer: Renderer) -> Renderer:
        def render(context: RenderContext) -> str:
            results = context.data_list("results")
            if results:
                return "\n".join(
                    render(replace(context, data=result, text="not run", kind=None)) for result in results
                )
            if context.data is not None and "output" in context.data:
                return renderer(context)
            if context.kind in _EXECUTION_KINDS:
                return f"{prefix}: {context.text}"
            return render_failure(context)

        return render

    return decorate


@_render_each("exec_command failed")
def render_exec(context: RenderContext) -> str:
    """Return what exec_command and write_stdin answer."""
    data = context.data
    value = exec_value(context)
    tokens = value["original_token_count"]
    state = f"Process exited with code {_exit_code(data)}"
    if data["running"]:
        state = f"Process running with session ID {data['handle']}"
    lines = [
        f"Chunk ID: {value['chunk_id']}",
        f"Wall time: {value['wall_time_seconds']:.4f} seconds",
        state,
        f"Original token count: {tokens}",
        "Output:",
    ]
    if data.get("omitted"):
        lines += [
            f"Warning: truncated output (original token count: {tokens})",
            f"Total output lines: {data['total_lines']}",
            "",
        ]
    return "\n".join([*lines, value["output"]])


def exec_value(context: RenderContext) -> Arguments:
    """Return the same as data, for code."""
    data = context.data
    omitted = int(data.get("omitted") or 0)
    kept = str(data["head"] + data["tail"] if omitted else data["output"])
    state: Arguments = {"exit_code": _exit_code(data)}
    if data["running"]:
        state = {"session_id": int(data["handle"])}
    return {
        "chunk_id": blake2b(dumps_text(data).encode(errors="replace"), digest_size=3).hexdigest(),
        "wall_time_seconds": data["call_seconds"],
        **state,
        "original_token_count": _count_tokens(len(kept.encode(errors="replace")) + omitted),
        "output": _format_output(data),
    }


def render_exec_patch(context: RenderContext) -> str:
    """Return a patch sent through exec_command: what apply_patch answers, as its output."""
    return f"Wall time: {context.data['seconds']:.4f} seconds\nOutput:\n{render_patch_result(context)}"


def render_patch_result(context: RenderContext) -> str:
    """Return a patch that was applied, in the form of a command's output."""
    return (
        f"Exit code: 0\nWall time: {round(context.data['seconds'], 1):g} seconds\nOutput:\n{context.text}\n"
    )


def _timeout_message(context: RenderContext) -> str:
    if not context.data.get("timed_out"):
        return ""
    milliseconds = to_milliseconds(context.base.get("timeout") or context.data["seconds"])
    return f"command timed out after {milliseconds} milliseconds\n"


@_render_each("execution error")
def render_shell_command(context: RenderContext) -> str:
    """Return what shell_command answered."""
    data = context.data
    lines = [f"Exit code: {_exit_code(data)}", f"Wall time: {round(data['seconds'], 1):g} seconds"]
    output = _format_output(data)
    if data.get("omitted") and data["total_lines"] != len(output.splitlines()):
        lines.append(f"Total output lines: {data['total_lines']}")
    return "\n".join([*lines, "Output:", _timeout_message(context) + output])


@_render_each("execution error")
def render_json(context: RenderContext) -> str:
    """Return what the older shell tool answered."""
    data = context.data
    output = _timeout_message(context) + _format_output(data, in_chars=True)
    if data.get("omitted"):
        output = f"Total output lines: {data['total_lines']}\n\n{output}"
    return _format_json(output, _exit_code(data), data["seconds"])


def render_patch_json(context: RenderContext) -> str:
    """Return a patch sent through the older shell tool."""
    return _format_json(f"{context.text}\n", 0, context.data["seconds"])


def _format_json(output: str, exit_code: int, seconds: float) -> str:
    return dumps_text(
        {"output": output, "metadata": {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}}
    )


def render_session_failure(context: RenderContext) -> str:
    """Return why write_stdin did not reach its session."""
    if context.code == "stdin_closed":
        return (
            "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to "
            "keep stdin open"
        )
    if context.code == "session_not_found":
        sentence = f"write_stdin failed: Unknown process id {context.details.session}"
        running = ", ".join(context.details.running)
        return f"{sentence}; running: {running}" if running else sentence
    if context.kind in _EXECUTION_KINDS:
        return f"write_stdin failed: {context.text}"
    return render_failure(context)


# ---- the API's own tool, which takes several commands and wants the outcome of each


def command_outputs(context: RenderContext) -> list[Arguments]:
    """Return what the API wants: output and outcome of each command; one that did not run says why."""
    if context.data is None:
        return [_command_output({"output": context.text, "exit_code": 1})]
    results = cast(list[Arguments | None], context.data_list("results") or [context.data])
    return [_command_output(result or {"output": "not run", "exit_code": 1}) for result in results]


def _command_output(result: Arguments) -> Arguments:
    outcome: Arguments = {"type": "exit", "exit_code": _exit_code(result)}
    if result.get("timed_out"):
        outcome = {"type": "timeout"}
    return {"stdout": result.get("output") or _format_output(result), "stderr": "", "outcome": outcome}


def patch_outputs(context: RenderContext) -> list[Arguments]:
    """Return the same for a patch sent through the tool."""
    return [_command_output({"output": f"{context.text}\n", "exit_code": int(context.kind is not None)})]


def render_all(context: RenderContext) -> str:
    """Return all outputs as text, for a model that reads no data."""
    blocks: list[str] = []
    for output in command_outputs(context):
        code = output["outcome"].get("exit_code")
        head = "Timed out" if code is None else f"Exit code: {code}"
        blocks.append(f"{head}\nOutput:\n{output['stdout']}")
    return "\n\n".join(blocks)
