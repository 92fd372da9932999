"""How Claude Code writes results and failures: renderers for it and for harnesses that follow its format."""

from toolglot.facades.rendering import format_matches, number_lines, output_notes, page_notes, page_text, plural, read_notes
from toolglot.facades.view import RenderContext, Renderer

__all__ = [
    "ARROW_NUMBERS",
    "STATE_IS_CURRENT",
    "TAB_NUMBERS",
    "render_answers",
    "render_command",
    "render_command_failure",
    "render_edit",
    "render_edit_snippet",
    "render_failure",
    "render_glob",
    "render_grep",
    "render_kill",
    "render_list",
    "render_notebook_edit",
    "render_output",
    "render_page",
    "render_page_failure",
    "render_read",
    "render_search",
    "render_todo",
    "render_write",
]

TAB_NUMBERS, ARROW_NUMBERS = "{}\t{}", "{:>6}→{}"
STATE_IS_CURRENT = "(file state is current in your context — no need to Read it back)"

# ---- files


def render_read(template: str, continuation: str = "offset") -> Renderer:
    """Numbered lines, then notes. `continuation`: the parameter that continues a truncated view."""

    def render(context: RenderContext) -> str:
        data = context.data
        if data["kind"] != "text":
            return context.text
        lines = [number_lines(data["lines"], data["first"], template)] if data["lines"] else ["[the file exists and is empty]"]
        return "\n".join([*lines, *read_notes(data, "PARTIAL view: ", f"{continuation}={data['next_line']}")])

    return render


def render_write(note: str) -> Renderer:
    """What was written; `note` follows."""

    def render(context: RenderContext) -> str:
        path, data = context.base["path"], context.data
        sentence = (
            f"File created successfully at: {path}" if data["created"] else f"The file {path} has been updated successfully."
        )
        notes = [
            *(["[line endings kept as CRLF]"] if data["converted"] else ()),
            *(["[the file is now UTF-8]"] if data["reencoded"] else ()),
        ]
        return " ".join([sentence, *([note] if note else ()), *notes])

    return render


def render_edit(context: RenderContext) -> str:
    """One sentence, as newer versions answer."""
    path = context.base["path"]
    if context.data["created"]:
        return f"File created successfully at: {path} {STATE_IS_CURRENT}"
    return f"The file {path} has been updated successfully. {STATE_IS_CURRENT}"


def render_edit_snippet(context: RenderContext) -> str:
    """The changed lines, as version 2.0 answers."""
    path, data = context.base["path"], context.data
    if data["created"]:
        return f"File created successfully at: {path}"
    snippet = number_lines(data["snippet"].split("\n"), data["first"], ARROW_NUMBERS)
    return f"The file {path} has been updated successfully. The changed lines are now:\n{snippet}"


def render_notebook_edit(context: RenderContext) -> str:
    """Which cell was changed."""
    data = context.data
    verb = {"replace": "Updated", "insert": "Inserted", "delete": "Deleted"}[data["mode"]]
    return f"{verb} cell {data['cell_id']}" + (f" with {data['source']}" if data["mode"] != "delete" else "")


def render_list(context: RenderContext) -> str:
    """A directory as an indented list."""
    data = context.data
    lines = [f"- {context.base['path'].rstrip('/')}/"]
    lines += [
        f"{'  ' * entry['depth']}- {entry['name']}{'/' if entry['kind'] == 'directory' else ''}" for entry in data["entries"]
    ]
    if data["truncated"]:
        lines.append(f"[{len(data['entries'])} of {data['total']} entries are shown]")
    return "\n".join(lines)


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
            lines += ["", f"Found {data['total_lines']} total occurrences across {plural(data['total'], 'file')}."]
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


def render_command(output_tool: str) -> Renderer:
    """What a command printed; `output_tool` reads the rest of one that runs in the background."""

    def render(context: RenderContext) -> str:
        data = context.data
        if "output" not in data:
            return context.text
        if data["running"]:
            so_far = f"\n{data['output'].rstrip()}" if data["output"].strip() else ""
            return f"Command running in background with ID: {data['handle']}. Read its output with {output_tool}.{so_far}"
        code = [f"Exit code {data['exit_code']}"] if data["exit_code"] else []
        return "\n".join([*code, data["output"].rstrip("\n") or "(no output)", *output_notes(data)])

    return render


def render_command_failure(context: RenderContext) -> str:
    """A command that timed out, with what it printed; anything else as the facade renders failures."""
    data = context.data
    if not data or "output" not in data:
        return render_failure(context)
    output = [data["output"].rstrip("\n")] if data["output"].strip() else []
    return "\n".join([f"Command timed out after {data['seconds']:.1f} s and was stopped.", *output, *output_notes(data)])


def render_output(tag: str) -> Renderer:
    """The status of a background command, and its output in a tag."""

    def render(context: RenderContext) -> str:
        data = context.data
        status = "running" if data["running"] else "killed" if data["ended"] else "failed" if data["exit_code"] else "completed"
        parts = [f"<status>{status}</status>"]
        if data["exit_code"] is not None and not data["running"]:
            parts.append(f"<exit_code>{data['exit_code']}</exit_code>")
        if data["output"].strip():
            parts.append(f"<{tag}>\n{data['output'].rstrip()}\n</{tag}>")
        return "\n\n".join([*parts, *output_notes({**data, "ended": ""})])

    return render


def render_kill(context: RenderContext) -> str:
    """Whether a background command was stopped now or had ended before."""
    data = context.data
    state = "Stopped" if data["ended"] else "It had already ended"
    return f"{state}: {data['handle'] or context.base['handle']} ({data['command']})"


# ---- web


def render_page(tool: str, continuation: str = "offset") -> Renderer:
    """A page: title, URL, notes, text, and how to continue. `tool`: what the model calls the tool."""

    def render(context: RenderContext) -> str:
        data = context.data
        head = "\n".join(filter(None, [data["title"], data["url"], *page_notes(data)]))
        continuation_note = ""
        if data["next_char"] is not None:
            part = f"characters {data['start_char']} to {data['end_char']} of {data['total_chars']}"
            continuation_note = f"\n\n[{part}; continue with {tool}, the same URL and {continuation}={data['next_char']}]"
        return f"{head}\n\n{page_text(data)}{continuation_note}"

    return render


def render_page_failure(tool: str, continuation: str = "offset") -> Renderer:
    """A page that came with an error status is shown; anything else is a failure."""
    page = render_page(tool, continuation)
    return lambda context: page(context) if context.data and "url" in context.data else render_failure(context)


def render_search(context: RenderContext) -> str:
    """Numbered search results."""
    data = context.data
    queries = ", ".join(f'"{query}"' for query in data["queries"])
    if not data["results"]:
        return f"Web search results for {queries}: none."
    blocks = [
        "\n".join(filter(None, (f"{number}. {hit['title']}", f"   {hit['url']}", f"   {hit['snippet']}".rstrip())))
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


def render_failure(context: RenderContext) -> str:
    """A failure in Claude Code's words, in its error tag."""
    if context.kind in _UNTAGGED_KINDS:
        return context.text
    return f"<tool_use_error>{_describe_failure(context)}</tool_use_error>"


def _describe_failure(context: RenderContext) -> str:
    match context.code:
        case "not_read_yet":
            return "File has not been read yet. Read it first before writing to it."
        case "changed_since_read":
            return (
                "File has been modified since read, either by the user or by a linter. "
                "Read it again before attempting to write it."
            )
        case "edit_failed":
            return _describe_edit_failure(context)
        case _:
            return context.text


def _describe_edit_failure(context: RenderContext) -> str:
    old, details = context.base.get("old", ""), context.details
    match details.reason:
        case "not_found":
            return f"String to replace not found in file.\nString: {old}\n{context.text}"
        case "ambiguous":
            return (
                f"Found {details.match_count} matches of the string to replace, but replace_all is false. They are in lines "
                f"{', '.join(map(str, details.lines))}. Provide more context so that only one matches, or set replace_all to "
                f"true.\nString: {old}"
            )
        case "identical":
            return "No changes to make: old_string and new_string are exactly the same."
        case _:
            return context.text
