"""Code replaced by its shape: files as they are to be, and written.

Laws: all files change or none, and none that has changed since it was looked at. Of matches in each other the outer one goes.
"""

import re
from collections.abc import Iterable

import msgspec

from toolglot.builtin.languages import DOLLARS
from toolglot.builtin.parsing import VARIABLE, Span
from toolglot.builtin.text import Document, changed_lines, encoded, unified, with_newlines
from toolglot.builtin.toolbox import Toolbox
from toolglot.builtin.walk import shown
from toolglot.builtin.workspace import Change, Opened
from toolglot.errors import ToolError

__all__ = ["Draft", "Hit", "RewrittenFile", "described", "drafted", "write"]

MOST_FILES = 200  # each is held open while all are changed
MOST_BYTES = 64 * 1024 * 1024
MOST_DIFF = 100_000


class RewrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a rewrite."""

    path: str
    absolute: str
    language: str
    replacements: int
    nested: int
    """Matches inside of others, which stay for another call."""
    added: int
    removed: int
    diff: str


class Hit(msgspec.Struct, frozen=True):
    """A file with matches."""

    path: str
    opened: Opened
    language: str
    document: Document
    spans: list[Span]
    more: bool


class Draft(msgspec.Struct, frozen=True):
    """A file as it is to be."""

    hit: Hit
    after: str
    replacements: int
    nested: int


def _rewritten(hit: Hit, replacement: str, names: set[str]) -> Draft:
    """The file with its outermost matches replaced. Raises ToolError."""
    text = hit.document.text
    template = replacement.removesuffix("\n").removesuffix("\r")  # the line of the match has its own end
    template = with_newlines(template, "crlf") if hit.document.form.newline == "crlf" else template
    parts: list[str] = []
    at = count = nested = 0
    for span in sorted(hit.spans, key=lambda span: (span.start, -span.end)):
        if span.start < at:
            nested += 1
            continue
        parts += (text[at : span.start], _filled(template, span, text, hit.language, names))
        at, count = span.end, count + 1
    return Draft(hit, "".join([*parts, text[at:]]), count, nested)


def _filled(template: str, span: Span, text: str, language: str, names: set[str]) -> str:
    """The replacement of one match. Its lines, and those of what was captured, are indented as where they go."""
    outer = _indent(text, span.start)
    template = re.sub(r"\n(?!\r?\n)", "\n" + outer, template)

    def code(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in names:
            if language in DOLLARS:
                return found[0]
            known = f"it has {', '.join(f'${one}' for one in sorted(names))}" if names else "it has none"
            raise ToolError(f"the replacement uses {found[0]}, which the pattern does not capture: {known}", kind="validation")
        if name not in span.captures:
            return ""
        start, end = span.captures[name]
        there = _indent(template, found.start())
        return _moved(text[start:end], _indent(text, start), there if "\n" in template[: found.start()] else outer + there)

    return VARIABLE.sub(code, template)


def _indent(text: str, at: int) -> str:
    """The white space that the line of a character begins with."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while end < at and text[end] in " \t":
        end += 1
    return text[start:end]


def _moved(code: str, before: str, after: str) -> str:
    """Code with other indentation, its first line excepted."""
    if before == after or "\n" not in code:
        return code
    first, *rest = code.split("\n")
    return "\n".join([first, *(after + line[len(before) :] if line.startswith(before) else line for line in rest)])


def drafted(hits: Iterable[Hit], names: set[str], replacement: str, most: int) -> list[Draft]:
    """All files as they are to be; `names`: what the pattern captures. Raises ToolError: it is too much for one call."""
    drafts: list[Draft] = []
    total = size = 0
    for hit in hits:
        total += len(hit.spans)
        if total > most or hit.more:
            why = f"the pattern matches more than {most} times"
            raise ToolError(f"{why}: narrow the pattern or the path, or raise max_results", kind="limit")
        draft = _rewritten(hit, replacement, names)
        if draft.after != hit.document.text:
            drafts.append(draft)
            size += len(draft.after)
        if len(drafts) > MOST_FILES or size > MOST_BYTES:
            raise ToolError(
                f"over {MOST_FILES} files or {MOST_BYTES >> 20} MB would change: take a smaller folder", kind="limit"
            )
    return drafts


def write(box: Toolbox, drafts: list[Draft]) -> None:
    """All of the files, or none. What the model had seen before, it knows now."""
    changes = [
        Change(draft.hit.path, encoded(draft.after, draft.hit.document.form), draft.hit.opened.version) for draft in drafts
    ]
    for draft, written in zip(drafts, box.workspace.change(changes), strict=True):
        if box.versions.get(draft.hit.opened.path) == draft.hit.opened.version:
            box.saw(written.path, written.version)


def described(box: Toolbox, drafts: list[Draft]) -> tuple[list[RewrittenFile], bool]:
    """What is told of the files, and whether some differences are cut."""
    files: list[RewrittenFile] = []
    room, truncated = MOST_DIFF, False
    for draft in drafts:
        before, path = draft.hit.document.text, shown(box.shown(draft.hit.opened.path))
        added, removed = changed_lines(before, draft.after)
        diff = unified(before, draft.after, path)
        truncated = truncated or len(diff) > room
        diff, room = diff[:room], max(room - len(diff), 0)
        files.append(
            RewrittenFile(
                path=path,
                absolute=shown(str(draft.hit.opened.path)),
                language=draft.hit.language,
                replacements=draft.replacements,
                nested=draft.nested,
                added=added,
                removed=removed,
                diff=diff,
            )
        )
    return files, truncated
