"""How Claude Code writes results and failures: renderers for it and for harnesses that follow its format."""

from toolglot.facades.rendering import (
    describe_failure,
    format_matches,
    join_lines,
    number_lines,
    output_notes,
    page_notes,
    page_text,
    read_notes,
)
from toolglot.facades.view import RenderContext
from toolglot.textutil import pluralize

TAB_NUMBERS, ARROW_NUMBERS = "{}\t{}", "{:>6}→{}"
STATE_IS_CURRENT = "(file state is current in your context — no need to Read it back)"

# ---- files


def render_read(context: RenderContext, template: str, continuation: str = "offset") -> str:
    """Numbered lines, then notes. `continuation`: the parameter that continues a truncated view."""
    data = context.data
    if data["kind"] != "text":
        return context.text
    lines = number_lines(data["lines"], data["first"], template) if data["lines"] else "[the file exists and is empty]"
    return "\n".join([lines, *read_notes(data, "PARTIAL view: ", f"{continuation}={data['next_line']}")])


def render_write(context: RenderContext, note: str = "") -> str:
    """What was written; `note` follows."""
    data = context.data
    notes = (
        note,
        "[line endings kept as CRLF]" if data["converted"] else "",
        "[the file is now UTF-8]" if data["reencoded"] else "",
    )
    return " ".join(filter(None, (_change_sentence(context), *notes)))


def _change_sentence(context: RenderContext) -> str:
    path = context.base["path"]
    is_new = context.data["created"]
    return f"File created successfully at: {path}" if is_new else f"The file {path} has been updated successfully."


def render_edit(context: RenderContext) -> str:
    """One sentence, as newer versions answer."""
    return f"{_change_sentence(context)} {STATE_IS_CURRENT}"


def render_edit_snippet(context: RenderContext) -> str:
    """The changed lines, as version 2.0 answers."""
    data, sentence = context.data, _change_sentence(context)
    if data["created"]:
        return sentence
    snippet = number_lines(data["snippet"].split("\n"), data["first"], ARROW_NUMBERS)
    return f"{sentence} The changed lines are now:\n{snippet}"


def render_notebook_edit(context: RenderContext) -> str:
    """Which cell was changed."""
    data = context.data
    verb = {"replace": "Updated", "insert": "Inserted", "delete": "Deleted"}[data["mode"]]
    return f"{verb} cell {data['cell_id']}" + (f" with {data['source']}" if data["mode"] != "delete" else "")


def render_list(context: RenderContext) -> str:
    """A directory as an indented list."""
    data = context.data
    lines = [
        f"{'  ' * entry['depth']}- {entry['name']}{'/' if entry['kind'] == 'directory' else ''}" for entry in data["entries"]
    ]
    note = f"[{len(data['entries'])} of {data['total']} entries are shown]" if data["truncated"] else ""
    return join_lines(f"- {context.base['path'].rstrip('/')}/", *lines, note)


# ---- search


def render_grep(context: RenderContext) -> str:
    """Matches in the mode that was asked for, with a pagination footer."""
    data = context.data
    match data["mode"]:
        case "files":
            total = f"{data['total']}{'' if data['exact'] else '+'}"
            head = f"Found {total} file{'' if data['total'] == 1 else 's'}" if data["files"] else "No files found"
            lines = [head, *(file["path"] for file in data["files"])]
        case "count" if data["files"]:
            lines = [f"{file['path']}:{file['count']}" for file in data["files"]]
            lines += ["", f"Found {data['total_lines']} total occurrences across {pluralize(data['total'], 'file')}."]
        case _:
            base = context.base
            numbers, only_matching = base.get("line_numbers", True), base.get("only_matching", False)
            lines = list(format_matches(data, numbers=numbers, only_matching=only_matching)) or ["No matches found"]
    if data["truncated"] or data["skip"]:
        lines += ["", f"[Showing results with pagination = limit: {data['shown']}, offset: {data['skip']}]"]
    if not data["complete"]:
        lines.append("[the search was stopped early: narrow the path or the glob]")
    return "\n".join(lines)


def render_glob(context: RenderContext) -> str:
    """Absolute paths."""
    data = context.data
    lines = [file["absolute"] for file in data["files"]] or ["No files found"]
    if data["truncated"]:
        lines.append(f"[the newest {len(data['files'])} of {data['total']} files; use a narrower path or pattern]")
    return "\n".join(lines)


# ---- commands


def render_command(context: RenderContext, output_tool: str) -> str:
    """What a command printed; `output_tool` reads the rest of one that runs in the background."""
    data = context.data
    if "output" not in data:
        return context.text
    if data["running"]:
        so_far = f"\n{data['output'].rstrip()}" if data["output"].strip() else ""
        return f"Command running in background with ID: {data['handle']}. Read its output with {output_tool}.{so_far}"
    code = [f"Exit code {data['exit_code']}"] if data["exit_code"] else []
    return "\n".join([*code, data["output"].rstrip("\n") or "(no output)", *output_notes(data)])


def render_command_failure(context: RenderContext) -> str:
    """A command that timed out, with what it printed; anything else as the facade renders failures."""
    data = context.data
    if not data or "output" not in data:
        return render_failure(context)
    output = data["output"].rstrip("\n") if data["output"].strip() else ""
    return join_lines(f"Command timed out after {data['seconds']:.1f} s and was stopped.", output, *output_notes(data))


def render_output(context: RenderContext, tag: str) -> str:
    """The status of a background command, and its output in a tag."""
    data = context.data
    status = "running" if data["running"] else "killed" if data["ended"] else "failed" if data["exit_code"] else "completed"
    parts = [f"<status>{status}</status>"]
    if data["exit_code"] is not None and not data["running"]:
        parts.append(f"<exit_code>{data['exit_code']}</exit_code>")
    if data["output"].strip():
        parts.append(f"<{tag}>\n{data['output'].rstrip()}\n</{tag}>")
    return "\n\n".join([*parts, *output_notes({**data, "ended": ""})])


def render_kill(context: RenderContext) -> str:
    """Whether a background command was stopped now or had ended before."""
    data = context.data
    state = "Stopped" if data["ended"] else "It had already ended"
    return f"{state}: {data['handle'] or context.base['handle']} ({data['command']})"


# ---- web


def render_page(context: RenderContext, tool: str, continuation: str = "offset") -> str:
    """A page: title, URL, notes, text, and how to continue. `tool`: what the model calls the tool."""
    data = context.data
    head = join_lines(data["title"], data["url"], *page_notes(data))
    note = ""
    if data["next_char"] is not None:
        part = f"characters {data['start_char']} to {data['end_char']} of {data['total_chars']}"
        note = f"\n\n[{part}; continue with {tool}, the same URL and {continuation}={data['next_char']}]"
    return f"{head}\n\n{page_text(data)}{note}"


def render_page_failure(context: RenderContext, tool: str, continuation: str = "offset") -> str:
    """A page that came with an error status is shown; anything else is a failure."""
    has_page = context.data and "url" in context.data
    return render_page(context, tool, continuation) if has_page else render_failure(context)


def render_search(context: RenderContext) -> str:
    """Numbered search results."""
    data = context.data
    queries = ", ".join(f'"{query}"' for query in data["queries"])
    if not data["results"]:
        return f"Web search results for {queries}: none."
    blocks = [
        join_lines(f"{number}. {hit['title']}", f"   {hit['url']}", f"   {hit['snippet']}".rstrip())
        for number, hit in enumerate(data["results"], 1)
    ]
    return f"Web search results for {queries}:\n\n" + "\n\n".join(blocks)


# ---- plans and questions


def render_todo(context: RenderContext) -> str:
    """That the list was changed."""
    notes = [f"[{note}]" for note in context.data["notes"]]
    return "\n".join(["Todos have been modified successfully. Continue with the item in progress.", *notes])


def render_answers(context: RenderContext) -> str:
    """The answers of the user."""
    answers = [f'"{item["question"]}"="{", ".join(item["answers"]) or "(no answer)"}"' for item in context.data["answers"]]
    return f"The user has answered your questions: {', '.join(answers)}."


# ---- failures

_UNTAGGED_KINDS = frozenset({"rejected", "cancelled", "interrupted", "timeout"})
_FAILURES = {
    "not_read_yet": "File has not been read yet. Read it first before writing to it.",
    "changed_since_read": "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it.",
    "edit_failed not_found": "String to replace not found in file.\nString: {old}\n{text}",
    "edit_failed ambiguous": "Found {details.match_count} matches of the string to replace, but replace_all is false. They are "
    "in lines {lines}. Provide more context so that only one matches, or set replace_all to true.\nString: {old}",
    "edit_failed identical": "No changes to make: old_string and new_string are exactly the same.",
}


def render_failure(context: RenderContext) -> str:
    """A failure in Claude Code's words, in its error tag."""
    if context.kind in _UNTAGGED_KINDS:
        return context.text
    return f"<tool_use_error>{describe_failure(context, _FAILURES)}</tool_use_error>"
