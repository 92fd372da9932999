"""How Codex writes the output of commands, in its generations, and what the API's own shell wants.

Lengths are tokens of four characters.
"""

from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from toolglot.facades.rows import to_milliseconds
from toolglot.facades.view import Arguments, RenderContext, Renderer
from toolglot.jsontext import dumps_text

CHARS_PER_TOKEN = 4


def _format_output(data: Arguments) -> str:
    """The output; of a long one the start and the end; then notes."""
    output = str(data.get("output", ""))
    if data.get("omitted"):
        output = f"{data['head']}…{_count_tokens(data['omitted'])} tokens truncated…{data['tail']}"
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


def _render_each(tool: str) -> Callable[[Renderer], Renderer]:
    """Apply a renderer to each of several commands; one that did not start says why."""

    def decorate(renderer: Renderer) -> Renderer:
        def render(context: RenderContext) -> str:
            if results := context.data_list("results"):
                return "\n".join(render(replace(context, data=result, text="not run", kind=None)) for result in results)
            if context.data is not None and "output" in context.data:
                return renderer(context)
            return f"{tool} failed: {context.text}" if context.kind == "execution" else context.text

        return render

    return decorate


@_render_each("exec_command")
def render_exec(context: RenderContext) -> str:
    """As exec_command and write_stdin answer."""
    data = context.data
    size = len(data["head"]) + len(data["tail"]) + int(data["omitted"]) if data.get("omitted") else len(data["output"])
    running = f"Process running with session ID {data['handle']}"
    return "\n".join(
        [
            f"Wall time: {data['seconds']:.4f} seconds",
            running if data["running"] else f"Process exited with code {_exit_code(data)}",
            f"Original token count: {_count_tokens(size)}",
            "Output:",
            _format_output(data),
        ]
    )


def render_exec_patch(context: RenderContext) -> str:
    """A patch sent through exec_command."""
    return f"Wall time: {context.data['seconds']:.4f} seconds\nProcess exited with code 0\nOutput:\n{context.text}\n"


def _timeout_message(context: RenderContext) -> str:
    milliseconds = to_milliseconds(context.base.get("timeout") or context.data["seconds"])
    return f"command timed out after {milliseconds} milliseconds"


@_render_each("shell_command")
def render_shell_command(context: RenderContext) -> str:
    """As shell_command answered."""
    data = context.data
    lines = [f"Exit code: {_exit_code(data)}", f"Wall time: {round(data['seconds'], 1):g} seconds"]
    lines += [f"Total output lines: {data['total_lines']}"] if data.get("truncated") else []
    late = [_timeout_message(context)] if data.get("timed_out") else []
    return "\n".join([*lines, "Output:", *late, _format_output(data)])


@_render_each("shell")
def render_json(context: RenderContext) -> str:
    """As the older shell tool answered."""
    data = context.data
    output = _format_output(data)
    if data.get("timed_out"):
        output = f"{_timeout_message(context)}\n{output}"
    return _format_json(output, _exit_code(data), data["seconds"])


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
        return f"write_stdin failed: Unknown process id {context.details.session}"
    return f"write_stdin failed: {context.text}" if context.kind in ("execution", "not_found") else context.text


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
