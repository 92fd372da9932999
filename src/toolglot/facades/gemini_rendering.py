"""How Gemini CLI writes results and failures; Qwen Code, which began as a copy of it, shares some of it.

What a command in the foreground or a page has written stands within `<untrusted_context>`, which nothing
inside of it can close. As in the program, the output of a process in the background does not; our notes stand
outside, with the paths they name.
"""

import posixpath
import re
from math import inf

from toolglot.common.jsontext import dumps_text
from toolglot.common.textutil import did_you_mean, pluralize, suggest
from toolglot.facades.rendering import describe_failure, join_lines, page_notes, page_text
from toolglot.facades.view import Arguments, RenderContext
from toolglot.schema.arguments import MAX_ISSUES, Issue

MAX_LINES = 2000
"""Lines of a file that are read if no range is given."""

_TAG = re.compile(r"<(?=/?untrusted_context)", re.IGNORECASE)


def _wrap_untrusted(content: str) -> str:
    return f"<untrusted_context>\n{_TAG.sub('&lt;', content)}\n</untrusted_context>"


def render_untrusted(context: RenderContext) -> str:
    """Return the base tool's own text, marked as untrusted."""
    return _wrap_untrusted(context.text)


# ---- files


_BANNER = (
    "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines {first}-{last} of "
    "{size}.\nAction: {action}\n\n"
    "--- FILE CONTENT (truncated) ---\n"
)


_END_OF_FILE = "This is the end of the file."


def render_read(context: RenderContext, banner: str = _BANNER, *, only_utf8: bool = True) -> str:
    """Return the text without line numbers, under a banner if it is not all of the file.

    As this harness splits text at line feeds, a final newline is followed by one more line, which is empty.
    `only_utf8`: text in another encoding counts as binary.
    """
    data: Arguments = context.data or {}
    is_foreign = only_utf8 and data.get("encoding") == "windows-1252"
    if is_foreign:
        hint = " (its encoding is not UTF-8: convert it with iconv to read it)"
        return f"Cannot display content of binary file: {context.base['path']}{hint}"
    if context.code == "not_text":
        return f"Cannot display content of binary file: {context.base['path']}"
    if context.code == "line_out_of_range":
        total = context.details.total + context.details.final_newline
        first = min(context.details.requested, total + 1)
        return banner.format(first=first, last=total, size=f"{total} total lines", action=_END_OF_FILE)
    if data.get("kind") != "text":
        return "Binary content provided (1 item(s))."

    lines: list[str] = []
    for number, line in enumerate(data["lines"], data["first"]):
        mark = "... [truncated]" if number in data["long_lines"] else ""
        lines.append(f"{line}{mark}")
    last, total, next_line = data["last"], data["total"], data["next_line"]
    if total and data["final_newline"]:
        if last == total and _shows_line_after_end(context, len(lines)):
            lines.append("")
            last += 1
        elif last == total:
            next_line = last + 1
        total += 1
    content = "\n".join(lines)
    is_whole = data["first"] == 1 and next_line is None and not data["long_lines"]
    if is_whole:
        return content
    action = _END_OF_FILE
    if next_line is not None:
        action = f"To read more of the file, call read_file with start_line: {next_line}."
    size = f"{total} total lines"
    if total is None:
        size = f"a file of {data['size']} bytes"
    return banner.format(first=data["first"], last=last, size=size, action=action) + content


def _shows_line_after_end(context: RenderContext, shown_lines: int) -> bool:
    """Whether the empty line after the final newline was asked for, too."""
    base = context.base
    if "start_line" in base or "end_line" in base:
        return base.get("end_line", inf) > context.data["total"]
    return shown_lines < MAX_LINES


def render_write(context: RenderContext) -> str:
    """Return what was written, with the changed lines."""
    data = context.data
    head = "Successfully created and wrote to new file" if data["created"] else "Successfully overwrote file"
    return f"{head}: {data['absolute']}. Here is the updated code:\n{data['context']}"


def render_replace(context: RenderContext) -> str:
    """Return what was replaced, with the changed lines."""
    data = context.data
    text = f"Successfully modified file: {data['absolute']} ({data['replacements']} replacements)."
    if data["created"]:
        text = f"Created new file: {data['absolute']} with provided content."
    elif "fuzzy" in data["strategies"]:
        ranges: list[str] = []
        for first, last in data["ranges"]:
            span = str(first) if first == last else f"{first}-{last}"
            ranges.append(span)
        text += f" Applied fuzzy match at line(s) {', '.join(ranges)}."
    return f"{text} Here is the updated code:\n{data['context']}"


_ENTRIES = {"directory": "[DIR] {name}", "link": "{name} -> {target}"}


def render_list(context: RenderContext) -> str:
    """Return a directory, with sizes: directories first, then names, regardless of case; never git's own
    directory.
    """
    data = context.data
    shown: list[Arguments] = [entry for entry in data["entries"] if entry["name"] != ".git"]
    ignored = data["ignored"]
    if context.base.get("respect_gitignore", True):
        ignored += len(data["entries"]) - len(shown)
    is_empty = not data["total"] and not ignored
    if is_empty and not context.base.get("ignore"):
        return f"Directory {data['path']} is empty."
    shown.sort(key=lambda entry: (entry["kind"] != "directory", entry["name"].casefold(), entry["name"]))
    lines = [_ENTRIES.get(entry["kind"], "{name} ({size} bytes)").format(**entry) for entry in shown]
    if data["truncated"]:
        lines.append(f"(The first {len(lines)} of {data['total']} entries are listed.)")
    text = f"Directory listing for {data['path']}:\n" + "\n".join(lines)
    if ignored:
        text += f"\n\n({ignored} ignored)"
    return text


# ---- search


def render_grep(context: RenderContext) -> str:
    """Return matches by file, in blocks between `---`; paths are relative to what was searched."""
    data = context.data
    where = f'for pattern "{data["pattern"]}" in path "{context.base.get("path", ".")}"'
    glob = context.base.get("include_glob")
    if glob:
        where += f' (filter: "{glob}")'
    if not data["files"]:
        return f"No matches found {where}."
    limited = ""
    if data["truncated"] or data["shown"] >= context.base.get("max_results", inf):
        limited = f" (results limited to {data['shown']} matches for performance)"
    paths = [_relative_path(file["absolute"], data["path"]) for file in data["files"]]
    if data["mode"] == "files":
        found = f"Found {pluralize(data['shown'], 'file')} with matches {where}{limited}:"
        return "\n".join([found, *sorted(paths)])
    blocks = [_match_block(path, file) for path, file in zip(paths, data["files"], strict=True)]
    head = f"Found {pluralize(data['shown'], 'match', 'matches')} {where}{limited}:"
    text = f"{head}\n---\n" + "\n---\n".join(blocks) + "\n---"
    if not data["complete"]:
        text += "\n(The search was stopped early: narrow the directory or the pattern.)"
    return text


def _relative_path(path: str, searched: str) -> str:
    """Return a path relative to what was searched; a file that was searched itself is named without its
    directory.
    """
    relative = posixpath.relpath(path, searched)
    return posixpath.basename(searched) if relative == "." else relative


def _match_block(path: str, file: Arguments) -> str:
    lines = [f"File: {path}"]
    for line in file["lines"]:
        mark = ":" if line["is_match"] else "-"
        lines.append(f"L{line['line']}{mark} {line['text']}")
    return "\n".join(lines)


def render_glob(context: RenderContext) -> str:
    """Return absolute paths under a header."""
    data = context.data
    ignored = ""
    if data["ignored"]:
        additional = "additional " if data["files"] else ""
        ignored = f" ({data['ignored']} {additional}files were ignored)"
    if not data["files"]:
        return f'No files found matching pattern "{data["pattern"]}" within {data["path"]}{ignored}'
    head = f'Found {data["total"]} file(s) matching "{data["pattern"]}" within {data["path"]}{ignored}'
    paths = [file["absolute"] for file in data["files"]]
    if data["truncated"]:
        paths.append(f"(The first {len(paths)} are listed: narrow the pattern.)")
    return f"{head}, sorted by modification time (newest first):\n" + "\n".join(paths)


# ---- commands

_END_REASONS = {
    "timeout": "it exceeded its time limit",
    "inactivity": "it produced no output for too long",
    "output": "it produced too much output",
    "disk": "the disk was nearly full",
}


def render_command(context: RenderContext) -> str:
    """Return output and, if there are any, exit code and signal; the process group."""
    data: Arguments = context.data or {}
    if "command" not in data:
        return render_failure(context)
    output = data["output"].strip()
    notes = [f"Note: {note}" for note in data["notes"]]
    if data["running"]:
        text = (
            f"Command moved to background (PID: {data['pid']}). Output hidden; read it with "
            "read_background_output."
        )
        return join_lines(_wrap_untrusted(text), *notes)
    if data["ended"]:
        reason = (
            "Command was automatically cancelled because "
            f"{_END_REASONS.get(data['ended'], 'it was stopped')}."
        )
        before = "There was no output before that."
        if output:
            before = f"Below is the output before it was cancelled:\n{output}"
        return join_lines(_wrap_untrusted(f"{reason} {before}"), *notes)
    lines = [f"Output: {output or '(empty)'}"]
    if data["exit_code"]:
        lines.append(f"Exit Code: {data['exit_code']}")
    if data["signal"]:
        lines.append(f"Signal: {data['signal']}")
    lines.append(f"Process Group PGID: {data['pid']}")
    return join_lines(_describe_truncation(data), _wrap_untrusted("\n".join(lines)), *notes)


def _describe_truncation(data: Arguments) -> str:
    if not data["truncated"]:
        return ""
    text = f"Output too large. Showing first {len(data['head']):,} and last {len(data['tail']):,} characters."
    if data["spill"]:
        part = "full output" if data["spill_is_whole"] else "the beginning of it"
        text += f" For {part} see: {data['spill']}"
    return text


def render_log(context: RenderContext) -> str:
    """Return the last lines of a background process; as in a file, a final newline is followed by one more
    line.
    """
    data: Arguments = context.data or {}
    if "command" not in data:
        return render_failure(context)
    text = "Log is empty."
    if data["output"]:
        limit = context.base["tail_lines"]
        total = data["total_lines"] + data["output"].endswith("\n")
        head = f"Showing last {limit} of {total} lines:"
        if limit >= total:
            head = "Full Log Output:"
        text = join_lines(
            _describe_truncation(data), head + "\n" + "\n".join(data["output"].split("\n")[-limit:])
        )
    return "\n".join([text, *(f"Note: {note}" for note in data["notes"])])


def render_processes(context: RenderContext) -> str:
    """Return the background processes, one per line."""
    lines: list[str] = []
    for process in context.data["sessions"]:
        head = f"- [PID {process['pid']}]"
        command = _TAG.sub("&lt;", process["command"])
        if process["running"]:
            lines.append(f"{head} RUNNING: `{command}`")
        else:
            lines.append(f"{head} EXITED: `{command}` (Exit Code: {process['exit_code']})")
    return "\n".join(lines) or "No background processes found."


# ---- the web


def render_search(context: RenderContext) -> str:
    """Return search results with their sources."""
    query, results = context.native.get("query", ""), context.data["results"]
    if not results:
        return f'No search results or information found for query: "{query}"'
    answers = [
        f"{join_lines(hit['date'], hit['snippet'])}[{number}]" for number, hit in enumerate(results, 1)
    ]
    sources = [f"[{number}] {hit['title']} ({hit['url']})" for number, hit in enumerate(results, 1)]
    answer = "\n\n".join(answers) + "\n\nSources:\n" + "\n".join(sources)
    return f'Web search results for "{query}":\n\n{_wrap_untrusted(answer)}'


def render_pages(context: RenderContext) -> str:
    """Return one page or several, and what could not be opened."""
    data: Arguments = context.data or {}
    pages: list[Arguments] = data.get("pages", [])
    if "pages" not in data and "url" in data:
        pages = [data]
    if not pages:
        return render_failure(context)
    blocks = [_wrap_untrusted(_format_page(page)) for page in pages]
    for page in data.get("failed", ()):
        blocks.append(f"Error: {page['target']} was not opened: {page['reason']}")
    return "\n\n".join(blocks)


def _format_page(page: Arguments) -> str:
    head = [f"Content of {page['url']}"]
    if page["title"]:
        head.append(f"Title: {page['title']}")
    head += page_notes({**page, "question_lines": []})
    if page["next_line"] is not None or page["next_char"] is not None:
        head.append("The page continues; web_find searches all of it.")
    return f"{join_lines(*head)}\n\n{page_text(page)}"


# ---- plans and questions


def render_todos(context: RenderContext) -> str:
    """Return the whole list, numbered."""
    items = context.data["items"]
    if not items:
        return "Successfully cleared the todo list."
    lines = [f"{number}. [{item['status']}] {item['text']}" for number, item in enumerate(items, 1)]
    return "Successfully updated the todo list. The current list is now:\n" + "\n".join(lines)


def render_answers(context: RenderContext) -> str:
    """Return the user's answers, as JSON."""
    answers = {str(number): ", ".join(item["answers"]) for number, item in enumerate(context.data["answers"])}
    return dumps_text({"answers": answers})


# ---- failures

_CANNOT_CREATE = "File already exists, cannot create: {path}"
_FAILURES = {
    "path_not_found": "{missing}: {path}{hint}",
    "path_ignored": "File path '{path}' is ignored by configured ignore patterns.",
    "is_directory": "Path is a directory, not a file: {path}",
    "not_directory": "Error: Path is not a directory: {path}",
    "file_exists": _CANNOT_CREATE,
    "session_not_found": "Background process ID {details.session} not found: list_background_processes shows "
    "all of them.",
    "edit_failed empty": _CANNOT_CREATE,
    "edit_failed identical": "No changes to apply. The old_string and new_string are identical in file: "
    "{path}",
    "edit_failed not_found": "Could not find an exact match for 'old_string' in '{path}'. If previous edits "
    "modified the file "
    "or you are modifying lines outside your recent read window, please use ReadFile to inspect the target "
    "lines before "
    "retrying with an exact 'old_string'.{nearest}",
    "edit_failed ambiguous": "Failed to edit, Expected {expected} but found {details.match_count} for "
    "old_string in file: "
    "{path}. If you intended to replace multiple occurrences, set 'allow_multiple' to true.",
}


def render_failure(context: RenderContext, missing: str = "File not found") -> str:
    """Return a failure in Gemini CLI's words: one line.

    `missing`: what is said of a path where nothing is.
    """
    if context.code == "unknown_tool":
        names = ", ".join(f'"{name}"' for name in suggest(context.tool, context.visible_names, cutoff=0))
        return f'Tool "{context.tool}" not found. Did you mean one of: {names}?'
    if context.code == "invalid_arguments":
        return ", ".join(map(_describe_issue, context.details[:MAX_ISSUES]))
    if context.code == "not_directory" and "path" not in context.base:  # where a command should run
        return context.text
    hint = did_you_mean(getattr(context.details, "suggestions", ()))
    nearest = ""
    lines = getattr(context.details, "lines", ())
    if lines:
        nearest = f" The most similar text is in line {'-'.join(map(str, sorted({lines[0], lines[-1]})))}."
    return describe_failure(
        context,
        _FAILURES,
        expected=pluralize(context.native.get("expected_replacements", 1), "occurrence"),
        missing=missing,
        hint=f" ({hint})" if hint else "",
        nearest=nearest,
    )


def _describe_issue(issue: Issue) -> str:
    """Return what is wrong with an argument, by the path of it: `params/todos/0/status`."""
    path = "params" + issue.path.removeprefix("$").replace("[", "/").replace("]", "").replace(".", "/")
    if issue.keyword == "required":
        parent, _, name = path.rpartition("/")
        return f"{parent} must have required property '{name}'"
    if issue.keyword == "enum":
        return f"{path} must be one of the allowed values: {', '.join(map(str, issue.expected))}"
    return f"{path}: {issue.message}"


def render_skill(context: RenderContext) -> str:
    """Return the instructions of a skill and its files."""
    data = context.data
    files = "\n".join(data["files"]) or "(none)"
    parts = f"<instructions>\n{data['text']}\n</instructions>\n\n<available_resources>\n{files}\n</available_resources>"
    return (
        "<activated_skill "
        f'name="{data["name"]}">\n<skill_dir>{data["directory"]}</skill_dir>\n\n{parts}\n</activated_skill>'
    )
