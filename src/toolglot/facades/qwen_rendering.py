"""How Qwen Code writes results, where that is not as Gemini CLI does, which it began as a copy of."""

from toolglot.common.jsontext import dumps_text
from toolglot.common.textutil import pluralize
from toolglot.facades import gemini_rendering as gemini
from toolglot.facades.rendering import END_REASONS, describe_failure, format_matches, join_lines
from toolglot.facades.view import Arguments, RenderContext

_BANNER = "Showing lines {first}-{last} of {size}.\n\n---\n\n"


def render_read(context: RenderContext) -> str:
    """Return the text without line numbers, under a header if it is not all of the file."""
    return gemini.render_read(context, _BANNER, only_utf8=False)


def render_edit(context: RenderContext) -> str:
    """Return what was changed, with the lines around it."""
    data = context.data
    if data["created"]:
        return f"Created new file: {data['absolute']} with provided content."
    last, total = data["first"] + data["snippet"].count("\n"), data["lines"]
    header = f"Showing lines {data['first']}-{last} of {total} from the edited file:"
    return f"The file: {data['absolute']} has been updated. {header}\n\n---\n\n{data['snippet']}"


def render_write(context: RenderContext) -> str:
    """Return one sentence."""
    head = (
        "Successfully created and wrote to new file"
        if context.data["created"]
        else "Successfully overwrote file"
    )
    return f"{head}: {context.data['absolute']}."


def render_grep(context: RenderContext) -> str:
    """Return `path:line:text` under a header."""
    data = context.data
    where = f'for pattern "{data["pattern"]}" in the workspace directory'
    if context.base.get("path"):
        where = f'for pattern "{data["pattern"]}" in path "{context.base["path"]}"'
    glob = context.base.get("include_glob")
    if glob:
        where += f' (filter: "{glob}")'
    if not data["files"]:
        return f"No matches found {where}."
    omitted = data["total"] - data["shown"]
    lines = [f"Found {pluralize(data['total'], 'match', 'matches')} {where}:", "---", *format_matches(data)]
    if omitted > 0:
        lines += ["---", f"[{pluralize(omitted, 'line')} truncated] ..."]
    if not data["complete"]:
        lines += ["---", "[Search did not complete: the results above may not include all matches.]"]
    return "\n".join(lines)


def render_command(context: RenderContext) -> str:
    """Return the command with its directory, its output and how it ended, each on a line of its own."""
    data: Arguments = context.data or {}
    if "command" not in data:
        return render_failure(context)
    output = data["output"].rstrip("\n")
    notes = [f"Note: {note}" for note in data["notes"]]
    if data["truncated"] and data["spill"]:
        notes.append(f"Output too long and was saved to: {data['spill']}")
    if data["running"]:
        lines = ["Background shell started.", f"id: {data['handle']}", f"pid: {data['pid']}"]
        if output:
            lines.append(f"Output so far: {output}")
    elif data["timed_out"]:
        before = "There was no output before it timed out."
        if output:
            before = f"Below is the output before it timed out:\n{output}"
        lines = [f"Command timed out after {data['seconds'] * 1000:.0f}ms before it could complete. {before}"]
    else:
        exit_code = data["exit_code"]
        lines = [
            f"Command: {data['command']}",
            f"Directory: {context.native.get('directory') or '(root)'}",
            f"Output: {output or '(empty)'}",
            f"Error: {END_REASONS.get(data['ended'], data['ended']) or '(none)'}",
            f"Exit Code: {'(none)' if exit_code is None else exit_code}",
            f"Signal: {data['signal'] or '(none)'}",
            f"Process Group PGID: {data['pid']}",
        ]
    return join_lines(*lines, *notes)


def render_todos(context: RenderContext) -> str:
    """Return the list as JSON, in a reminder."""
    items: list[Arguments] = context.native["todos"]
    if not items:
        return (
            "Todo list has been cleared.\n\n<system-reminder>\nYour todo list is now "
            "empty.\n</system-reminder>"
        )
    text = "Todos have been modified successfully. Continue to track your progress with the todo list."
    return (
        f"{text}\n\n<system-reminder>\nThe latest contents of your todo "
        f"list:\n\n{dumps_text(items)}\n</system-reminder>"
    )


_FAILURES = {
    "edit_failed not_found": "Failed to edit, 0 occurrences found for old_string in {path}. No edits made. "
    "Check whitespace, "
    "indentation and context, and use read_file to verify.",
    "edit_failed ambiguous": "Failed to edit. Found {details.match_count} occurrences for old_string in "
    "{path} but replace_all "
    "was not enabled.",
    "session_not_found": "No background task found with ID {details.session}.",
}


def render_failure(context: RenderContext) -> str:
    """Return a failure in Qwen Code's words."""
    key = f"{context.code} {getattr(context.details, 'reason', '')}".strip()
    return describe_failure(context, _FAILURES) if key in _FAILURES else gemini.render_failure(context)
