"""Pieces of results that several facades share. It names no harness."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolglot.facades.view import Arguments, RenderContext

END_REASONS = {
    "timeout": "it reached its time limit",
    "inactivity": "it produced no output for too long",
    "output": "it produced too much output",
    "disk": "the disk was nearly full",
}
"""Why a command was stopped, by the base tool's code."""


def join_lines(*lines: str) -> str:
    """Join the lines that are not empty."""
    return "\n".join(filter(None, lines))


def describe_failure(context: RenderContext, templates: Mapping[str, str], **values: str) -> str:
    """Return the text for a failure's code, or its code and reason, from a table; the base tool's text if it
    has none.
    """
    details, base = context.details, context.base
    template = templates.get(f"{context.code} {getattr(details, 'reason', '')}".strip(), "{text}")
    return template.format(
        text=context.text,
        path=base.get("path", ""),
        old=base.get("old", base.get("old_str", "")),
        details=details,
        lines=", ".join(map(str, getattr(details, "lines", ()))),
        **values,
    )


def number_lines(lines: Iterable[str], first_line: int, template: str) -> str:
    """Return lines with their numbers, by a template such as '{}: {}'."""
    return "\n".join(template.format(number, line) for number, line in enumerate(lines, first_line))


def read_notes(data: Mapping[str, Any], label: str, continuation: str) -> list[str]:
    """Return notes on a file that was read: what is missing and how to continue, long lines, the encoding."""
    notes: list[str] = []
    if data["truncated"]:
        of = f"of {data['total']}"
        if data["total"] is None:
            of = f"of a file of {data['size']} bytes"
        notes.append(f"{label}lines {data['first']} to {data['last']} {of}; continue with {continuation}")
    if data["long_lines"]:
        notes.append(
            f"truncated because they are too long: lines {', '.join(map(str, data['long_lines'][:10]))}"
        )
    if data["encoding"] != "utf-8":
        notes.append(f"read as {data['encoding']}")
    return [f"[{note}]" for note in notes]


def exited_nonzero(context: RenderContext) -> bool:
    """Whether a command ended with an exit code other than 0: some harnesses call that an error."""
    data: Arguments = context.data or {}
    return bool(data.get("exit_code"))


def output_notes(data: Mapping[str, Any]) -> list[str]:
    """Return notes on a command that ended: why it was stopped, and where its whole output is."""
    notes: list[str] = list(data["notes"])
    if data["ended"] and not data["timed_out"]:
        reason = END_REASONS.get(data["ended"], data["ended"])
        notes.insert(0, f"stopped after {data['seconds']:.1f} s: {reason}")
    if data["truncated"] and data["spill"]:
        notes.append(f"the full output is in {data['spill']}")
    return [f"[{note}]" for note in notes]


def format_matches(
    data: Arguments, *, numbers: bool = True, only_matching: bool = False, with_paths: bool = True
) -> Iterator[str]:
    """Yield lines as ripgrep prints them."""
    has_groups = bool(data["before"] or data["after"]) and not only_matching
    last: tuple[str, int] | None = None
    for file in data["files"]:
        path = file["path"]
        for line in file["lines"]:
            is_gap = last is not None and last != (path, line["line"] - 1)
            if has_groups and is_gap:
                yield "--"
            last = (path, line["line"])
            mark = ":" if line["is_match"] else "-"
            head = ""
            if with_paths:
                head += f"{path}{mark}"
            if numbers:
                head += f"{line['line']}{mark}"
            texts = line["matches"] if only_matching else [line["text"]]
            for text in texts:
                yield head + text


def page_notes(data: Arguments) -> list[str]:
    """Return notes on a web page: the server's status, the tool's notes, lines that match the prompt."""
    notes: list[str] = []
    if data["status"] >= 400:
        notes.append(f"The server answered with status {data['status']}.")
    notes += [f"Note: {note}." for note in data["notes"]]
    if data["question_lines"]:
        notes.append(f"Words of the prompt occur in lines {', '.join(map(str, data['question_lines']))}.")
    return notes


def page_text(data: Arguments) -> str:
    """Return the text of a page."""
    return data["text"] or "(The page has no text.)"
