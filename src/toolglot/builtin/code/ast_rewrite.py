"""Code replaced by its shape: files as they are to be, and written.

Laws: all files change or none, and none that has changed since it was looked at. Of matches in each other the outer one goes.
"""

import re
from collections.abc import Iterable

import msgspec

from toolglot.builtin.code.ast_worker import METAVARIABLE, Span
from toolglot.builtin.code.languages import DOLLAR_LANGUAGES
from toolglot.builtin.files.text import Document, convert_newlines, count_changed_lines, encode_text
from toolglot.builtin.files.workspace import Change, WorkspaceEntry
from toolglot.builtin.search.walk import replace_surrogates
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.textutil import unified_diff

__all__ = ["AstFileMatches", "FileRewrite", "RewriteDraft", "describe_drafts", "draft_rewrites", "write_drafts"]

MAX_FILES = 200  # each is held open while all are changed
MAX_BYTES = 64 * 1024 * 1024
MAX_DIFF_LENGTH = 100_000


class FileRewrite(msgspec.Struct, frozen=True, kw_only=True):
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


class AstFileMatches(msgspec.Struct, frozen=True):
    """A file with matches."""

    path: str
    opened: WorkspaceEntry
    language: str
    document: Document
    spans: list[Span]
    is_truncated: bool


class RewriteDraft(msgspec.Struct, frozen=True):
    """A file as it is to be."""

    source: AstFileMatches
    new_text: str
    replacements: int
    nested: int


def _rewrite_file(source: AstFileMatches, replacement: str, names: set[str]) -> RewriteDraft:
    """The file with its outermost matches replaced. Raises ToolError."""
    text = source.document.text
    template = replacement.removesuffix("\n").removesuffix("\r")  # the line of the match has its own end
    template = convert_newlines(template, "crlf") if source.document.format.newline == "crlf" else template
    parts: list[str] = []
    at = count = nested = 0
    for span in sorted(source.spans, key=lambda span: (span.start, -span.end)):
        if span.start < at:
            nested += 1
            continue
        parts += (text[at : span.start], _fill_template(template, span, text, source.language, names))
        at, count = span.end, count + 1
    return RewriteDraft(source, "".join([*parts, text[at:]]), count, nested)


def _fill_template(template: str, span: Span, text: str, language: str, names: set[str]) -> str:
    """The replacement of one match. Its lines, and those of what was captured, are indented as where they go."""
    outer = _indentation_at(text, span.start)
    template = re.sub(r"\n(?!\r?\n)", "\n" + outer, template)

    def code(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in names:
            if language in DOLLAR_LANGUAGES:
                return found[0]
            known = f"it has {', '.join(f'${one}' for one in sorted(names))}" if names else "it has none"
            raise ToolError(f"the replacement uses {found[0]}, which the pattern does not capture: {known}", kind="validation")
        if name not in span.captures:
            return ""
        start, end = span.captures[name]
        there = _indentation_at(template, found.start())
        return _reindent(
            text[start:end], _indentation_at(text, start), there if "\n" in template[: found.start()] else outer + there
        )

    return METAVARIABLE.sub(code, template)


def _indentation_at(text: str, index: int) -> str:
    """The white space that the line of a character begins with."""
    start = text.rfind("\n", 0, index) + 1
    end = start
    while end < index and text[end] in " \t":
        end += 1
    return text[start:end]


def _reindent(code: str, before: str, after: str) -> str:
    """Code with other indentation, its first line excepted."""
    if before == after or "\n" not in code:
        return code
    first, *rest = code.split("\n")
    return "\n".join([first, *(after + line[len(before) :] if line.startswith(before) else line for line in rest)])


def draft_rewrites(files: Iterable[AstFileMatches], names: set[str], replacement: str, limit: int) -> list[RewriteDraft]:
    """All files as they are to be; `names`: what the pattern captures. Raises ToolError: it is too much for one call."""
    drafts: list[RewriteDraft] = []
    total = size = 0
    for hit in files:
        total += len(hit.spans)
        if total > limit or hit.is_truncated:
            why = f"the pattern matches more than {limit} times"
            raise ToolError(f"{why}: narrow the pattern or the path, or raise max_results", kind="limit")
        draft = _rewrite_file(hit, replacement, names)
        if draft.new_text != hit.document.text:
            drafts.append(draft)
            size += len(draft.new_text)
        if len(drafts) > MAX_FILES or size > MAX_BYTES:
            raise ToolError(f"over {MAX_FILES} files or {MAX_BYTES >> 20} MB would change: take a smaller folder", kind="limit")
    return drafts


def write_drafts(state: ToolState, drafts: list[RewriteDraft]) -> None:
    """All of the files, or none. What the model had seen before, it knows now."""
    changes = [
        Change(draft.source.path, encode_text(draft.new_text, draft.source.document.format), draft.source.opened.version)
        for draft in drafts
    ]
    for draft, written in zip(drafts, state.workspace.apply_changes(changes), strict=True):
        if state.seen_versions.get(draft.source.opened.path) == draft.source.opened.version:
            state.mark_seen(written.path, written.version)


def describe_drafts(state: ToolState, drafts: list[RewriteDraft]) -> tuple[list[FileRewrite], bool]:
    """What is told of the files, and whether some differences are cut."""
    files: list[FileRewrite] = []
    room, truncated = MAX_DIFF_LENGTH, False
    for draft in drafts:
        before, path = draft.source.document.text, replace_surrogates(state.display_path(draft.source.opened.path))
        added, removed = count_changed_lines(before, draft.new_text)
        diff = unified_diff(before, draft.new_text, path)
        truncated = truncated or len(diff) > room
        diff, room = diff[:room], max(room - len(diff), 0)
        files.append(
            FileRewrite(
                path=path,
                absolute=replace_surrogates(str(draft.source.opened.path)),
                language=draft.source.language,
                replacements=draft.replacements,
                nested=draft.nested,
                added=added,
                removed=removed,
                diff=diff,
            )
        )
    return files, truncated
