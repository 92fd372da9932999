"""How Claude Code writes results: renderers for it and for harnesses that follow its format."""

import re
from collections.abc import Callable, Sequence
from posixpath import basename
from typing import Any

from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.common.textutil import pluralize
from toolglot.facades.claude_failures import format_kilobytes, render_tagged_failure
from toolglot.facades.rendering import (
    format_matches,
    join_lines,
    number_lines,
    output_notes,
    page_notes,
    page_text,
    read_notes,
)
from toolglot.facades.view import Arguments, RenderContext, Renderer
from toolglot.tools.command_words import split_command
from toolglot.values.failures import LineOutOfRange

TAB_NUMBERS, ARROW_NUMBERS = "{}\t{}", "{:>6}→{}"
STATE_IS_CURRENT = "(file state is current in your context — no need to Read it back)"

# ---- files


def render_read(context: RenderContext, template: str, continuation: str = "offset") -> str:
    """Return numbered lines, then notes. `continuation`: the parameter that continues a truncated view."""
    data = context.data
    if data["kind"] != "text":
        return context.text
    lines = "[the file exists and is empty]"
    if data["lines"]:
        lines = number_lines(data["lines"], data["first"], template)
    return "\n".join([lines, *read_notes(data, "PARTIAL view: ", f"{continuation}={data['next_line']}")])


def render_file(context: RenderContext, template: str, *, has_pages: bool) -> str:
    """Return a file as Claude Code shows it.

    `has_pages`: whether one that is too long is shown in pages, or is an error.
    """
    data, details = context.data, context.details
    if isinstance(details, LineOutOfRange):
        lengths = (
            f"shorter than the provided offset ({details.requested}). The file has {details.total} lines"
        )
        return f"<system-reminder>Warning: the file exists but is {lengths}.</system-reminder>"
    if data["kind"] == "image":
        return ""
    if data["kind"] != "text":
        pages = f"; look at pages {data['pages']}" if data["pages"] else ""
        return f"PDF file read: {context.base['path']} ({data['size']} bytes{pages})"
    if not data["size"]:
        return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    if exceeds_page(context, has_pages=has_pages):
        return (
            "File content exceeds the maximum of 25000 tokens. Use a smaller limit, or search for what "
            "you need in it."
        )
    lines: list[str] = data["lines"]
    if context.base["path"].endswith(".ipynb"):
        cells = _render_cells("\n".join(lines))
        if cells is not None:
            return cells
    # The text after the last newline is a line for this program.
    is_whole = data["next_line"] is None and context.base.get("end_line", data["last"] + 1) > data["last"]
    if is_whole and data["final_newline"]:
        lines = [*lines, ""]
    text = number_lines(lines, data["first"], template)
    if data["truncated"]:
        text += f"\n[PARTIAL view: the file goes on; continue with offset={data['next_line']}]"
    return text


def exceeds_page(context: RenderContext, *, has_pages: bool) -> bool:
    """Whether a file is too long to be shown: a limit was given and is too large, or there are no pages."""
    data: Arguments = context.data or {}
    if data.get("kind") != "text" or not data["truncated"]:
        return False
    return not has_pages or "end_line" in context.base


def _render_cells(text: str) -> str | None:
    """Return the cells of a notebook; None if it is none."""
    try:
        cells = loads_object(text.encode())["cells"]
        return "\n".join(_render_cell(number, cell) for number, cell in enumerate(cells))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _render_cell(number: int, cell: Arguments) -> str:
    name, kind = cell.get("id", f"cell-{number}"), cell["cell_type"]
    tag = f"<cell_type>{kind}</cell_type>" if kind != "code" else ""
    outputs: list[str] = []
    for output in cell.get("outputs", ()):
        # A stream has text, an error a traceback, and everything else data by media type.
        value = (
            output.get("text")
            or output.get("data", {}).get("text/plain")
            or "\n".join(output.get("traceback", ()))
        )
        outputs.append(f"\n\n{''.join(value)}" if value else "\n\n[output that is not text]")
    return f'<cell id="{name}">{tag}{"".join(cell["source"])}</cell id="{name}">{"".join(outputs)}'


def render_write(context: RenderContext, note: str = "") -> str:
    """Return what was written; `note` follows."""
    data = context.data
    sentences = [_change_sentence(context)]
    if note:
        sentences.append(note)
    if data["converted"]:
        sentences.append("[line endings kept as CRLF]")
    if data["reencoded"]:
        sentences.append("[the file is now UTF-8]")
    return " ".join(sentences)


def _change_sentence(context: RenderContext) -> str:
    path = context.base["path"]
    if context.data["created"]:
        return f"File created successfully at: {path}"
    return f"The file {path} has been updated successfully."


def render_edit(context: RenderContext) -> str:
    """Return one sentence."""
    return f"{_change_sentence(context)} {STATE_IS_CURRENT}"


_EDIT_NOTES = {
    "unread": "",
    "changed": " (note: the file had changed since you read it; read it again before you rely on the rest of "
    "it)",
}


def render_edit_today(context: RenderContext) -> str:
    """Return one sentence; whether the model knows the file now depends on what it knew before."""
    sentence = "has been updated successfully."
    if context.base.get("count") == "all":
        sentence = "has been updated. All occurrences were successfully replaced."
    note = _EDIT_NOTES.get(context.data["known"], f" {STATE_IS_CURRENT}")
    return f"The file {context.base['path']} {sentence}{note}"


_SNIPPET = (
    "The file {} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n{}"
)
_MAX_SNIPPET = 16_000  # characters


def render_write_in_2_0(context: RenderContext) -> str:
    """Return a new file in one sentence, an old one with its lines."""
    if context.data["created"]:
        return render_write(context)
    lines = number_lines(context.base["content"][:_MAX_SNIPPET].split("\n"), 1, ARROW_NUMBERS)
    return _SNIPPET.format(context.base["path"], lines)


def render_edit_in_2_0(context: RenderContext) -> str:
    """Return the changed lines, or that everything was replaced."""
    data, base = context.data, context.base
    if base.get("count") == "all":
        old, new = base["old"], base["new"]
        return (
            f"The file {base['path']} has been updated. All occurrences of '{old}' were successfully "
            f"replaced with '{new}'."
        )
    lines = data["snippet"].split("\n")
    if data["final_newline"] and data["first"] + len(lines) > data["lines"]:  # it ends the file
        lines.append("")
    return _SNIPPET.format(base["path"], number_lines(lines, data["first"], ARROW_NUMBERS))


def render_notebook_edit(context: RenderContext) -> str:
    """Return which cell was changed."""
    data = context.data
    if data["mode"] == "delete":
        return f"Deleted cell {data['cell_id']}"
    verb = {"replace": "Updated", "insert": "Inserted"}[data["mode"]]
    return f"{verb} cell {data['cell_id']} with {data['source']}"


# ---- search


def render_grep(context: RenderContext) -> str:
    """Return matches in the mode that was asked for; how many of them are shown is said in the head or in a
    footer.
    """
    data = context.data
    limits: list[str] = []
    if data["truncated"]:
        limits.append(f"limit: {data['shown']}")
    if data["skip"]:
        limits.append(f"offset: {data['skip']}")
    page = ", ".join(limits)
    match data["mode"]:
        case "files":
            lines = [_files_sentence(data, page), *(file["path"] for file in data["files"])]
        case "count":
            footer = _count_sentence(data)
            if page:
                footer += f" with pagination = {page}"
            lines = [*_count_lines(data), "", footer]
        case _:
            lines = _match_lines(context.base, data)
            if page:
                lines += ["", f"[Showing results with pagination = {page}]"]
    return "\n".join([*lines, *_search_notes(data)])


def _files_sentence(data: Arguments, page: str) -> str:
    if not data["files"]:
        return "No files found"
    total = str(data["shown"] if page else data["total"])
    if not data["exact"]:
        total += "+"
    noun = "file" if total == "1" else "files"
    return f"Found {total} {noun} {page}".rstrip()


def _count_lines(data: Arguments) -> list[str]:
    return [f"{file['path']}:{file['count']}" for file in data["files"]] or ["No matches found"]


def _count_sentence(data: Arguments) -> str:
    files = pluralize(data["total"], "file")
    return f"Found {pluralize(data['total_lines'], 'total occurrence')} across {files}."


def _match_lines(base: Arguments, data: Arguments) -> list[str]:
    matches = format_matches(
        data,
        numbers=base.get("line_numbers", True),
        only_matching=base.get("only_matching", False),
        with_paths=not data["is_file"],  # as ripgrep does
    )
    return list(matches) or ["No matches found"]


def _search_notes(data: Arguments) -> list[str]:
    return [] if data["complete"] else ["[the search was stopped early: narrow the path or the glob]"]


_MAX_GREP_IN_2_0 = 20_000  # characters


def render_grep_in_2_0(context: RenderContext) -> str:
    """Return matches with absolute paths, without pages."""
    data: Arguments = context.data
    data = {**data, "files": [{**file, "path": file["absolute"]} for file in data["files"]]}
    match data["mode"]:
        case "files":
            lines = ["No files found"]
            if data["files"]:
                lines = [
                    f"Found {pluralize(len(data['files']), 'file')}",
                    *(file["path"] for file in data["files"]),
                ]
        case "count":
            lines = [*_count_lines(data), "", _count_sentence(data)]
        case _:
            lines = _match_lines(context.base, data)
    text = "\n".join([*lines, *_search_notes(data)])
    if len(text) <= _MAX_GREP_IN_2_0:
        return text
    omitted = text.count("\n", _MAX_GREP_IN_2_0) + 1
    return f"{text[:_MAX_GREP_IN_2_0]}\n\n... [{omitted} lines truncated] ..."


def render_glob(context: RenderContext) -> str:
    """Return absolute paths, the newest first."""
    data = context.data
    lines = [file["absolute"] for file in data["files"]] or ["No files found"]
    if data["truncated"]:
        lines.append(
            f"[the newest {len(data['files'])} of {data['total']} files; use a narrower path or pattern]"
        )
    return "\n".join(lines)


def render_files(context: RenderContext, path_key: str) -> str:
    """Return paths, the oldest first. `path_key`: "path" if they are relative, or "absolute"."""
    data = context.data
    lines = [file[path_key] for file in reversed(data["files"])] or ["No files found"]
    if data["truncated"]:
        lines.append(
            f"(The newest {len(data['files'])} of {data['total']} files. Use a narrower path or pattern.)"
        )
    return "\n".join(lines)


# ---- commands


def render_command(context: RenderContext, output_tool: str) -> str:
    """Return what a command printed; `output_tool` reads the rest of one that runs in the background."""
    data = context.data
    if "output" not in data:
        return context.text
    output = data["output"]
    if data["running"]:
        text = f"Command running in background with ID: {data['handle']}. Read its output with {output_tool}."
        if output.strip():
            text += f"\n{output.rstrip()}"
        return text
    lines = [output.rstrip("\n") or "(no output)", *output_notes(data)]
    if data["exit_code"]:
        lines.insert(0, f"Exit code {data['exit_code']}")
    return "\n".join(lines)


def render_command_failure(context: RenderContext) -> str:
    """Return a command that timed out, with what it printed; anything else as the facade renders failures."""
    data: Arguments = context.data or {}
    if "output" not in data:
        return render_tagged_failure(context)
    lines = [f"Command timed out after {data['seconds']:.1f} s and was stopped."]
    if data["output"].strip():
        lines.append(data["output"].rstrip("\n"))
    return "\n".join([*lines, *output_notes(data)])


_MAX_PREVIEW = 2000  # characters of output that is too long
_PERSISTED = """<persisted-output>
Output too large ({size}). Full output saved to: {path}

Preview (first 2KB):
{preview}
...
</persisted-output>"""
# Exit status 1 of these says that nothing was found or that something differs: that is no error.
_TELLS_BY_STATUS = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "test", "["})


def render_bash(
    context: RenderContext, empty: str, describe_background: Callable[[RenderContext, str], str]
) -> str:
    """Return a command as Claude Code shows it.

    `empty`: for one without output. `describe_background`: for one that goes on; it also gets the output so
    far.
    """
    data = context.data
    if "output" not in data:
        return context.text
    output = re.sub(r"\A(?:[ \t]*\n)+", "", data["output"]).rstrip()
    notes = output_notes({**data, "truncated": False})
    if data["running"]:
        return join_lines(describe_background(context, output), *notes)
    if data["truncated"]:
        preview = data["head"][:_MAX_PREVIEW].rpartition("\n")[0] or data["head"][:_MAX_PREVIEW]
        output = _PERSISTED.format(
            size=format_kilobytes(data["total_bytes"]), path=data["spill"], preview=preview
        )
    head = ""
    if exited_with_error(context):
        head = f"Exit code {data['exit_code']}"
    return join_lines(head, output, *notes) or empty


def exited_with_error(context: RenderContext) -> bool:
    """Whether an exit code means failure."""
    data: Any = context.data or {}
    if not data.get("exit_code"):
        return False
    commands = split_command(context.base.get("command", "")).commands
    program = basename(commands[-1][0]) if commands else ""
    return not (data["exit_code"] == 1 and program in _TELLS_BY_STATUS)


def describe_output_file(context: RenderContext, output: str) -> str:
    """Describe a command in the background, whose output Read shows."""
    data = context.data
    place = (
        f"Output is being written to: {data['spill']} To check on it, use Read on that file path; to "
        "end "
        "it, use TaskStop."
    )
    if context.base.get("background"):
        return f"Command running in background with ID: {data['handle']}. {place}"
    state = f"did not complete within its {data['seconds']:.0f}s timeout and was moved to the background"
    sentence = (
        f"Command {state} (ID: {data['handle']}). {place} It is still running: do not start it a second time."
    )
    return join_lines(output, sentence)


def describe_handle(context: RenderContext, output: str, output_tool: str) -> str:
    """Describe a command in the background, whose output a tool shows."""
    return (
        f"Command running in background with ID: {context.data['handle']}. Read its output with "
        f"{output_tool}."
    )


def render_bash_failure(context: RenderContext, failure: Renderer) -> str:
    """Return a command that was ended at its timeout, with what it printed; anything else as `failure`
    renders it.
    """
    data: Arguments = context.data or {}
    if "output" not in data:
        return failure(context)
    head = f"Exit code 143\nCommand timed out after {data['seconds']:.0f}s"
    return join_lines(head, data["output"].strip("\n"), *output_notes(data))


def render_output(context: RenderContext, tag: str) -> str:
    """Return the status of a background command, and its output in a tag."""
    data = context.data
    status = _describe_status(data)
    parts = [f"<status>{status}</status>"]
    if data["exit_code"] is not None and status in ("failed", "completed"):
        parts.append(f"<exit_code>{data['exit_code']}</exit_code>")
    if data["output"].strip():
        parts.append(f"<{tag}>\n{data['output'].rstrip()}\n</{tag}>")
    return "\n\n".join([*parts, *output_notes({**data, "ended": ""})])


def _describe_status(data: Arguments) -> str:
    if data["running"]:
        return "running"
    if data["ended"]:
        return "killed"
    return "failed" if data["exit_code"] else "completed"


def render_kill(context: RenderContext) -> str:
    """Return whether a background command was stopped now or had ended before."""
    data = context.data
    state = "Stopped" if data["was_running"] else "It had already ended"
    return f"{state}: {data['handle'] or context.base['handle']} ({data['command']})"


def had_ended(context: RenderContext) -> bool:
    """Whether there was nothing to stop."""
    return not context.data["was_running"]


def render_stop(context: RenderContext, noun: str, verb: str, more: Sequence[str] = ()) -> str:
    """Return JSON about a background command that was stopped.

    `noun`: what the program calls it; `more`: further keys.
    """
    handle, command = context.base["handle"], context.data["command"]
    if had_ended(context):
        return f"<tool_use_error>No {noun} found with ID: {handle}</tool_use_error>"
    fields = {f"{noun}_id": handle, "task_type": "local_bash", "command": command}
    fields = {key: fields[key] for key in (f"{noun}_id", *more)}
    return dumps_text({"message": f"Successfully {verb} {noun}: {handle} ({command})", **fields})


# ---- tools


def render_tool_search(context: RenderContext) -> str:
    """Return nothing beside the tools that were loaded, which are part of the result; else what could be
    searched for.
    """
    return "" if context.data["loaded"] else context.text


# ---- web


def render_page(context: RenderContext, tool: str, continuation: str = "offset") -> str:
    """Return a page: title, URL, notes, text, and how to continue. `tool`: what the model calls the tool."""
    data = context.data
    head = join_lines(data["title"], data["url"], *page_notes(data))
    note = ""
    if data["next_char"] is not None:
        part = f"characters {data['start_char']} to {data['end_char']} of {data['total_chars']}"
        note = f"\n\n[{part}; continue with {tool}, the same URL and {continuation}={data['next_char']}]"
    return f"{head}\n\n{page_text(data)}{note}"


def render_page_failure(
    context: RenderContext, tool: str, continuation: str = "offset", failure: Renderer = render_tagged_failure
) -> str:
    """Return a page that came with an error status; anything else is a failure."""
    if context.data and "url" in context.data:
        return render_page(context, tool, continuation)
    return failure(context)


def render_search(context: RenderContext) -> str:
    """Return numbered search results."""
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
    """Return that the list was changed."""
    notes = [f"[{note}]" for note in context.data["notes"]]
    return "\n".join(["Todos have been modified successfully. Continue with the item in progress.", *notes])


def render_answers(context: RenderContext) -> str:
    """Return the answers of the user."""
    answers: list[str] = []
    for item in context.data["answers"]:
        chosen = ", ".join(item["answers"]) or "(no answer)"
        answers.append(f'"{item["question"]}"="{chosen}"')
    return f"The user has answered your questions: {', '.join(answers)}."


def render_skill(context: RenderContext) -> str:
    """Return the instructions of a skill, below its directory."""
    return f"Base directory for this skill: {context.data['directory']}\n\n{context.data['text']}"
