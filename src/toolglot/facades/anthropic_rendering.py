"""How Anthropic's reference implementations write results: the text editor, bash, memory, and the agent tool set."""

from toolglot.facades.rendering import format_matches, number_lines, output_notes, read_notes
from toolglot.facades.view import Arguments, RenderContext, Renderer
from toolglot.textutil import format_size

__all__ = [
    "MAX_READ",
    "is_too_large",
    "render_change",
    "render_command",
    "render_command_failure",
    "render_create",
    "render_directory",
    "render_failure",
    "render_matches",
    "render_memory",
    "render_paths",
    "render_raw",
    "render_toolset_failure",
    "render_view",
]

MAX_READ = 256 * 1024
"""Bytes of a file that the agent tool set reads whole."""
_NUMBERS = "{:>6}\t{}"


def _content_header(path: str) -> str:
    return f"Here's the content of {path} with line numbers:"


def _directory_header(path: str) -> str:
    return f"Here are the files and directories up to 2 levels deep in {path}, excluding hidden items:"


def _continuation_notes(data: Arguments) -> list[str]:
    return read_notes(data, "", f"view_range [{data['next_line']}, -1]")


def render_view(context: RenderContext) -> str:
    """A file with line numbers, or a directory."""
    data = context.data
    if data["kind"] != "text":
        return render_directory(context) if data["kind"] == "directory" else context.text
    lines = [number_lines(data["lines"], data["first"], _NUMBERS)] if data["lines"] else ["[the file is empty]"]
    return "\n".join([_content_header(context.base["path"]), *lines, *_continuation_notes(data)])


def render_directory(context: RenderContext) -> str:
    """A directory, two levels deep, with sizes."""
    data = context.data
    path = context.base["path"].rstrip("/") or "."
    lines = [_directory_header(path)]
    for entry in data["entries"]:
        if not any(name.startswith(".") for name in entry["path"].split("/")):
            slash = "/" if entry["kind"] == "directory" else ""
            lines.append(f"{format_size(entry['size'])}\t{path}/{entry['path']}{slash}")
    if data["truncated"]:
        lines.append(f"[{len(data['entries'])} of {data['total']} entries are shown]")
    return "\n".join(lines)


def render_create(context: RenderContext) -> str:
    """A file that was created or overwritten."""
    path = context.base["path"]
    return f"File created successfully at: {path}" if context.data["created"] else f"The file {path} has been overwritten."


def render_change(context: RenderContext) -> str:
    """An edit, with the changed lines."""
    data = context.data
    snippet = number_lines(data["snippet"].split("\n"), data["first"], _NUMBERS)
    return f"The file {context.base['path']} has been edited. The changed lines are now:\n{snippet}"


def render_memory(context: RenderContext) -> str:
    """What a memory command did or shows."""
    data = context.data
    path = data["path"]
    match data["command"]:
        case "view" if data["is_directory"]:
            lines = [_directory_header(path), f"{format_size(data['size'])}\t{path}"]
            lines += [f"{format_size(entry['size'])}\t{entry['path']}" for entry in data["entries"]]
            return "\n".join([*lines, *(["[more entries are not shown]"] if data["truncated"] else ())])
        case "view":
            return f"{_content_header(path)}\n{number_lines(data['lines'], data['first'], _NUMBERS)}"
        case "create":
            return f"File created successfully at: {path}"
        case "str_replace":
            lines = number_lines(data["lines"], data["first"], _NUMBERS)
            return f"The memory file has been edited. The changed lines are now:\n{lines}"
        case "insert":
            return f"The file {path} has been edited."
        case "delete":
            return f"Successfully deleted {path}"
        case _:
            return f"Successfully renamed {path} to {data['new_path']}"


def render_command(*, show_exit_code: bool) -> Renderer:
    """What a command printed."""

    def render(context: RenderContext) -> str:
        data = context.data
        if "output" not in data:
            return context.text
        code = [f"[exit code {data['exit_code']}]"] if show_exit_code and data["exit_code"] else []
        return "\n".join([data["output"].rstrip("\n") or "(no output)", *code, *output_notes(data)])

    return render


def render_command_failure(context: RenderContext) -> str:
    """A command that timed out, or did not run."""
    data = context.data
    if not data or "output" not in data:
        return context.text
    parts = [f"timed out after {data['seconds']:.1f} s", data["output"].rstrip("\n"), *output_notes(data)]
    return "\n".join(filter(None, parts))


def render_failure(context: RenderContext) -> str:
    """A failure as the SDK's reference implementation words it; the memory tool raises the same codes."""
    base, details = context.base, context.details
    old, path = base.get("old", base.get("old_str", "")), base.get("path", "")
    match context.code, getattr(details, "reason", ""):
        case "edit_failed", "not_found":
            nearest = f" The most similar text is:\n{details.nearest}" if details.nearest else ""
            return f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.{nearest}"
        case "edit_failed", "ambiguous":
            lines = ", ".join(map(str, details.lines))
            return (
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        case "edit_failed", "identical":
            return "No replacement was performed: old_str and new_str are identical."
        case "line_out_of_range", _ if "after_line" in base or "insert_line" in base:
            line = base.get("after_line", base.get("insert_line"))
            return f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {details.total}]."
        case _:
            return context.text


def is_too_large(context: RenderContext) -> bool:
    """Whether the agent tool set refuses to read a file whole."""
    return context.data["kind"] == "text" and context.data["size"] > MAX_READ and "view_range" not in context.native


def render_raw(context: RenderContext) -> str:
    """A file as it is, without line numbers."""
    data = context.data
    if is_too_large(context):
        return f"read: {context.base['path']} is {data['size']} bytes, over {MAX_READ}; read a part of it with view_range"
    if data["kind"] != "text":
        return context.text
    end = "\n" if data["final_newline"] and not data["next_line"] and data["lines"] else ""
    return "\n".join(["\n".join(data["lines"]) + end, *_continuation_notes(data)])


def render_paths(context: RenderContext) -> str:
    """Absolute paths."""
    data, paths = context.data, [file["absolute"] for file in context.data["files"]]
    note = [f"[{len(paths)} of {data['total']} are shown]"] if data["truncated"] else []
    return "\n".join([*paths, *note]) or "no matches"


def render_matches(context: RenderContext) -> str:
    """Matching lines, as ripgrep prints them."""
    data = context.data
    if not data["files"]:
        return "no matches"
    note = ["[there are more matches: narrow the pattern or the path]"] if data["truncated"] or not data["complete"] else []
    return "\n".join([*format_matches(data), *note])


def render_toolset_failure(context: RenderContext) -> str:
    """A failure as the agent tool set words it."""
    path, details = context.base.get("path", ""), context.details
    match context.code, getattr(details, "reason", ""):
        case "edit_failed", "not_found":
            return f"edit: old_string not found in {path}"
        case "edit_failed", "ambiguous":
            return f"edit: old_string appears {details.match_count} times in {path} (must be unique)"
        case _:
            return context.text
