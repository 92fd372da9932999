"""How Gemini CLI writes results and failures: renderers for it and for Qwen Code, which began as a copy of it.

What a command or a page has written stands within `<untrusted_context>`, which nothing inside of it can close.
"""

import re

from toolglot.facades.rendering import describe_failure, join_lines, page_notes, page_text
from toolglot.facades.view import Arguments, RenderContext
from toolglot.jsontext import dumps_text
from toolglot.textutil import pluralize

_TAG = re.compile(r"<(?=/?untrusted_context)", re.IGNORECASE)


def _wrap_untrusted(content: str) -> str:
    return f"<untrusted_context>\n{_TAG.sub('&lt;', content)}\n</untrusted_context>"


def render_untrusted(context: RenderContext) -> str:
    """The base tool's own text, marked as untrusted."""
    return _wrap_untrusted(context.text)


# ---- files


def render_read(context: RenderContext, continuation: str, first_line: int = 1) -> str:
    """The text without line numbers, under a banner if it is not all of the file.

    `continuation`: the call that reads on, with a blank for the next line; `first_line`: the number of a file's first line.
    """
    data: Arguments = context.data or {}
    if data.get("kind") != "text":
        return context.text
    long_lines = set(data["long_lines"])
    content = "\n".join(
        f"{line}... [truncated]" if number in long_lines else line for number, line in enumerate(data["lines"], data["first"])
    )
    if not data["partial"] and not long_lines:
        return content
    total = f"{data['total']} total lines" if data["total"] is not None else f"a file of {data['size']} bytes"
    action = "This is the end of the file."
    if data["next_line"] is not None:
        action = f"To read more of the file, call {continuation.format(data['next_line'] - 1 + first_line)}."
    return (
        "\nIMPORTANT: The file content has been truncated.\n"
        f"Status: Showing lines {data['first']}-{data['last']} of {total}.\n"
        f"Action: {action}\n\n--- FILE CONTENT (truncated) ---\n{content}"
    )


def render_write(context: RenderContext) -> str:
    """What was written, with the changed lines."""
    data = context.data
    if not data["created"]:
        return f"Successfully overwrote file: {data['absolute']}. Here is the updated code:\n{_changed_lines(data['diff'])}"
    ellipsis = "\n..." if data["lines"] > data["snippet"].count("\n") + 1 else ""
    head = f"Successfully created and wrote to new file: {data['absolute']}. Here is the updated code:"
    return f"{head}\n{data['snippet']}{ellipsis}"


def _changed_lines(diff: str) -> str:
    """The lines that a unified diff shows, as they are now; `...` between its hunks."""
    hunks: list[list[str]] = []
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            hunks.append([])
        elif hunks and line[:1] in (" ", "+"):
            hunks[-1].append(line[1:])
    return "\n...\n".join("\n".join(hunk) for hunk in hunks)


def render_replace(context: RenderContext) -> str:
    """What was replaced, with the changed lines."""
    data = context.data
    if data["created"]:
        return f"Created new file: {data['absolute']} with provided content."
    text = f"Successfully modified file: {data['absolute']} ({data['replacements']} replacements)."
    if "fuzzy" in data["strategies"]:
        ranges = (f"{first}-{last}" if first != last else str(first) for first, last in data["ranges"])
        text += f" Applied fuzzy match at line(s) {', '.join(ranges)}."
    return f"{text} Here is the updated code:\n{data['snippet']}"


_ENTRIES = {"directory": "[DIR] {name}", "link": "{name} -> {target}"}


def render_list(context: RenderContext) -> str:
    """A directory, with sizes."""
    data = context.data
    ignored = f"\n\n({data['ignored']} ignored)" if data["ignored"] else ""
    if not data["total"]:
        return f"Directory {data['path']} is empty.{ignored}"
    lines = [_ENTRIES.get(entry["kind"], "{name} ({size} bytes)").format(**entry) for entry in data["entries"]]
    if data["truncated"]:
        lines.append(f"(The first {len(lines)} of {data['total']} entries are listed.)")
    return f"Directory listing for {data['path']}:\n" + "\n".join(lines) + ignored


# ---- search


def render_grep(context: RenderContext) -> str:
    """Matches by file, in blocks between `---`."""
    data = context.data
    where = f'for pattern "{data["pattern"]}" in path "{context.base.get("path", ".")}"'
    if glob := context.base.get("include_glob"):
        where += f' (filter: "{glob}")'
    if not data["files"]:
        return f"No matches found {where}."
    limited = f" (results limited to {data['shown']} for performance)" if data["truncated"] else ""
    if data["mode"] == "files":
        paths = sorted(file["path"] for file in data["files"])
        return f"Found {pluralize(data['shown'], 'file')} with matches {where}{limited}:\n" + "\n".join(paths)
    blocks = [
        "\n".join(
            [
                f"File: {file['path']}",
                *(f"L{line['line']}{':' if line['is_match'] else '-'} {line['text']}" for line in file["lines"]),
            ]
        )
        for file in data["files"]
    ]
    stopped = "" if data["complete"] else "\n(The search was stopped early: narrow the directory or the pattern.)"
    head = f"Found {pluralize(data['shown'], 'match', 'matches')} {where}{limited}:"
    return f"{head}\n---\n" + "\n---\n".join(blocks) + "\n---" + stopped


def render_glob(context: RenderContext) -> str:
    """Absolute paths under a header."""
    data = context.data
    ignored = f" ({data['ignored']} additional files were ignored)" if data["ignored"] else ""
    if not data["files"]:
        return f'No files found matching pattern "{data["pattern"]}" within {data["path"]}{ignored}'
    head = f'Found {pluralize(data["total"], "file")} matching "{data["pattern"]}" within {data["path"]}{ignored}'
    paths = [file["absolute"] for file in data["files"]]
    if data["truncated"]:
        paths.append(f"(The first {len(paths)} are listed: narrow the pattern.)")
    return f"{head}, sorted by modification time (newest first):\n" + "\n".join(paths)


# ---- commands

_END_REASONS = {
    "timeout": "Command exceeded its time limit and was stopped",
    "inactivity": "Command produced no output for too long and was stopped",
    "output": "Command produced too much output and was stopped",
    "disk": "The disk was nearly full, so the command was stopped",
}


def render_command(context: RenderContext) -> str:
    """Output and, if there are any, error, exit code and signal."""
    data: Arguments = context.data or {}
    if "command" not in data:
        return render_failure(context)
    output, notes = data["output"].rstrip("\n"), _output_notes(data)
    if data["running"]:
        head = f"Command is running in background. PID: {data['pid']}. Initial output:"
        return join_lines(head, _wrap_untrusted(output or "(empty)"), *notes)
    lines = (
        f"Output: {output or '(empty)'}",
        f"Error: {_END_REASONS.get(data['ended'], 'Command was stopped')}." if data["ended"] else "",
        f"Exit Code: {data['exit_code']}" if data["exit_code"] else "",
        f"Signal: {data['signal']}" if data["signal"] else "",
    )
    return join_lines(_wrap_untrusted(join_lines(*lines)), *notes)


def _output_notes(data: Arguments) -> list[str]:
    notes = [f"Note: {note}" for note in data["notes"]]
    if data["truncated"] and data["spill"]:
        part = "The full output" if data["spill_is_whole"] else "The beginning of it"
        notes.append(f"Output too large. {part} is in: {data['spill']}")
    return notes


def render_log(context: RenderContext) -> str:
    """The last lines of a background process."""
    data: Arguments = context.data or {}
    if "command" not in data:
        return render_failure(context)
    output = data["output"].rstrip("\n")
    count = output.count("\n") + 1 if output else 0
    head = "Full Log Output:" if count >= data["total_lines"] else f"Showing last {count} of {data['total_lines']} lines:"
    state = "" if data["running"] else f"The process has exited with code {data['exit_code']}."
    return join_lines(head, _wrap_untrusted(output or "(empty)"), state, *_output_notes(data))


def render_processes(context: RenderContext) -> str:
    """The background processes, one per line."""
    lines: list[str] = []
    for process in context.data["sessions"]:
        state = "RUNNING" if process["running"] else f"EXITED (Exit Code: {process['exit_code']})"
        lines.append(f"- [PID {process['pid']}] {state}: `{_TAG.sub('&lt;', process['command'])}`")
    return "\n".join(lines) or "No background processes found."


# ---- the web


def render_search(context: RenderContext) -> str:
    """Search results with their sources."""
    query, results = context.native.get("query", ""), context.data["results"]
    if not results:
        return f'No search results or information found for query: "{query}"'
    answers = [f"{join_lines(hit['date'], hit['snippet'])}[{number}]" for number, hit in enumerate(results, 1)]
    sources = [f"[{number}] {hit['title']} ({hit['url']})" for number, hit in enumerate(results, 1)]
    answer = "\n\n".join(answers) + "\n\nSources:\n" + "\n".join(sources)
    return f'Web search results for "{query}":\n\n{_wrap_untrusted(answer)}'


def render_pages(context: RenderContext) -> str:
    """One page or several, and what could not be opened."""
    data: Arguments = context.data or {}
    pages: list[Arguments] = data.get("pages", [data] if "url" in data else [])
    if not pages:
        return render_failure(context)
    failed: list[Arguments] = data.get("failed", [])
    blocks = [_wrap_untrusted(_format_page(page)) for page in pages]
    return "\n\n".join([*blocks, *(f"Error: {page['target']} was not opened: {page['reason']}" for page in failed)])


def _format_page(page: Arguments) -> str:
    is_long = page["next_line"] is not None or page["next_char"] is not None
    head = (
        f"Content of {page['url']}",
        f"Title: {page['title']}" if page["title"] else "",
        *page_notes({**page, "question_lines": []}),
        "The page continues; web_find searches all of it." if is_long else "",
    )
    return f"{join_lines(*head)}\n\n{page_text(page)}"


# ---- plans and questions


def render_todos(context: RenderContext) -> str:
    """The whole list, numbered."""
    items = context.data["items"]
    if not items:
        return "Successfully cleared the todo list."
    lines = [f"{number}. [{item['status']}] {item['text']}" for number, item in enumerate(items, 1)]
    return "Successfully updated the todo list. The current list is now:\n" + "\n".join(lines)


def render_answers(context: RenderContext) -> str:
    """The user's answers, as JSON."""
    answers = {str(number): ", ".join(item["answers"]) for number, item in enumerate(context.data["answers"])}
    return dumps_text({"answers": answers})


# ---- failures

_CANNOT_CREATE = "File already exists, cannot create: {path}"
_FAILURES = {
    "path_not_found": "File not found: {path}\n{text}",
    "file_exists": _CANNOT_CREATE,
    "edit_failed empty": _CANNOT_CREATE,
    "edit_failed identical": "No changes to apply. The old_string and new_string are identical in file: {path}",
    "edit_failed not_found": "Could not find an exact match for 'old_string' in '{path}'. If previous edits modified the file "
    "or you are modifying lines outside your recent read window, please use ReadFile to inspect the target lines before "
    "retrying with an exact 'old_string'.\n{text}",
    "edit_failed ambiguous": "Failed to edit, Expected {expected} but found {details.match_count} for old_string in file: "
    "{path}. If you intended to replace multiple occurrences, set 'allow_multiple' to true.",
}


def render_failure(context: RenderContext) -> str:
    """A failure in Gemini CLI's words."""
    native = context.native
    if context.code == "path_not_found" and not {"file_path", "absolute_path"} & native.keys():
        return context.text
    return describe_failure(context, _FAILURES, expected=pluralize(native.get("expected_replacements", 1), "occurrence"))
