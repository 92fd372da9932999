"""How Anthropic's reference implementations write results: the text editor, bash, memory, and the agent tool
set.
"""

from toolglot.common.textutil import format_size
from toolglot.facades.rendering import (
    describe_failure,
    format_matches,
    join_lines,
    number_lines,
    output_notes,
    read_notes,
)
from toolglot.facades.view import Arguments, RenderContext

MAX_READ = 256 * 1024
"""Bytes of a file that the agent tool set reads whole."""
_CONTENT = "Here's the content of {} with line numbers:"
_DIRECTORY = "Here are the files and directories up to 2 levels deep in {}, excluding hidden items:"


def _number_lines(lines: list[str], first: int) -> str:
    return number_lines(lines, first, "{:>6}\t{}")


def _continuation_notes(data: Arguments) -> list[str]:
    return read_notes(data, "", f"view_range [{data['next_line']}, -1]")


def render_view(context: RenderContext) -> str:
    """Return a file with line numbers, or a directory."""
    data = context.data
    if data["kind"] == "directory":
        return render_directory(context)
    if data["kind"] != "text":
        return context.text
    lines = "[the file is empty]"
    if data["lines"]:
        lines = _number_lines(data["lines"], data["first"])
    return "\n".join([_CONTENT.format(context.base["path"]), lines, *_continuation_notes(data)])


def render_directory(context: RenderContext) -> str:
    """Return a directory, two levels deep, with sizes."""
    data = context.data
    path = context.base["path"].rstrip("/") or "."
    lines = [_DIRECTORY.format(path)]
    for entry in data["entries"]:
        is_hidden = any(name.startswith(".") for name in entry["path"].split("/"))
        if not is_hidden:
            slash = "/" if entry["kind"] == "directory" else ""
            lines.append(f"{format_size(entry['size'])}\t{path}/{entry['path']}{slash}")
    if data["truncated"]:
        lines.append(f"[{len(data['entries'])} of {data['total']} entries are shown]")
    return "\n".join(lines)


def render_create(context: RenderContext) -> str:
    """Return that a file was created or overwritten."""
    path = context.base["path"]
    if context.data["created"]:
        return f"File created successfully at: {path}"
    return f"The file {path} has been overwritten."


def render_change(context: RenderContext) -> str:
    """Return an edit, with the changed lines."""
    snippet = _number_lines(context.data["snippet"].split("\n"), context.data["first"])
    return f"The file {context.base['path']} has been edited. The changed lines are now:\n{snippet}"


_MEMORY_SENTENCES = {
    "create": "File created successfully at: {path}",
    "str_replace": "The memory file has been edited. The changed lines are now:",
    "insert": "The file {path} has been edited.",
    "delete": "Successfully deleted {path}",
    "rename": "Successfully renamed {path} to {new_path}",
}


def render_memory(context: RenderContext) -> str:
    """Return what a memory command did or shows."""
    data = context.data
    if data["command"] == "view" and data["is_directory"]:
        lines = [f"{format_size(entry['size'])}\t{entry['path']}" for entry in (data, *data["entries"])]
        if data["truncated"]:
            lines.append("[more entries are not shown]")
        return join_lines(_DIRECTORY.format(data["path"]), *lines)
    if data["command"] == "view":
        return "\n".join([_CONTENT.format(data["path"]), _number_lines(data["lines"], data["first"])])
    sentence = _MEMORY_SENTENCES[data["command"]].format(**data)
    if data["command"] == "str_replace":
        return "\n".join([sentence, _number_lines(data["lines"], data["first"])])
    return sentence


def render_command(context: RenderContext, *, show_exit_code: bool) -> str:
    """Return what a command printed."""
    data = context.data
    if "output" not in data:
        return context.text
    lines = [data["output"].rstrip("\n") or "(no output)"]
    if show_exit_code and data["exit_code"]:
        lines.append(f"[exit code {data['exit_code']}]")
    return "\n".join([*lines, *output_notes(data)])


def render_command_failure(context: RenderContext) -> str:
    """Return a command that timed out, or did not run."""
    data: Arguments = context.data or {}
    if "output" not in data:
        return context.text
    return join_lines(
        f"timed out after {data['seconds']:.1f} s", data["output"].rstrip("\n"), *output_notes(data)
    )


_EDITOR_FAILURES = {
    "edit_failed not_found": "No replacement was performed, old_str `{old}` did not appear verbatim in "
    "{path}.{nearest}",
    "edit_failed ambiguous": "No replacement was performed. Multiple occurrences of old_str `{old}` in "
    "lines: {lines}. "
    "Please ensure it is unique",
    "edit_failed identical": "No replacement was performed: old_str and new_str are identical.",
    "line_out_of_range": "Invalid `insert_line` parameter: {line}. It should be within the range [0, "
    "{details.total}].",
}
_TOOLSET_FAILURES = {
    "edit_failed not_found": "edit: old_string not found in {path}",
    "edit_failed ambiguous": "edit: old_string appears {details.match_count} times in {path} (must be "
    "unique)",
}


def render_failure(context: RenderContext) -> str:
    """Return a failure as the SDK's reference implementation words it; the memory tool raises the same codes."""
    line = context.base.get("after_line", context.base.get("insert_line"))
    if context.code == "line_out_of_range" and line is None:  # of a view
        return context.text
    similar = ""
    nearest = getattr(context.details, "nearest", "")
    if nearest:
        similar = f" The most similar text is:\n{nearest}"
    return describe_failure(context, _EDITOR_FAILURES, line=str(line), nearest=similar)


def render_toolset_failure(context: RenderContext) -> str:
    """Return a failure as the agent tool set words it."""
    return describe_failure(context, _TOOLSET_FAILURES)


def is_too_large(context: RenderContext) -> bool:
    """Whether the agent tool set refuses to read a file whole."""
    if context.data["kind"] != "text" or "view_range" in context.native:
        return False
    return context.data["size"] > MAX_READ


def render_raw(context: RenderContext) -> str:
    """Return a file as it is, without line numbers."""
    data = context.data
    if is_too_large(context):
        return (
            f"read: {context.base['path']} is {data['size']} bytes, over {MAX_READ}; read a part of it "
            "with view_range"
        )
    if data["kind"] != "text":
        return context.text
    text = "\n".join(data["lines"])
    shows_end = data["lines"] and not data["next_line"]
    if shows_end and data["final_newline"]:
        text += "\n"
    return "\n".join([text, *_continuation_notes(data)])


def render_paths(context: RenderContext) -> str:
    """Return absolute paths."""
    data = context.data
    lines = [file["absolute"] for file in data["files"]]
    if data["truncated"]:
        lines.append(f"[{len(lines)} of {data['total']} are shown]")
    return "\n".join(lines) or "no matches"


def render_matches(context: RenderContext) -> str:
    """Return matching lines, as ripgrep prints them."""
    data = context.data
    if not data["files"]:
        return "no matches"
    lines = [*format_matches(data)]
    if data["truncated"] or not data["complete"]:
        lines.append("[there are more matches: narrow the pattern or the path]")
    return "\n".join(lines)
