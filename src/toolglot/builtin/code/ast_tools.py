"""The tools `ast_search` and `ast_rewrite`: find and replace code by structure.

A rewrite changes all files or none, and no file that has changed since it was searched. Of nested matches,
only the outermost is replaced.
"""

import re
from bisect import bisect_right
from contextlib import closing
from sys import maxsize

import msgspec

from toolglot.builtin.arguments import check_minimum, make_preview, path_target
from toolglot.builtin.code.ast_query import (
    DOLLAR_LANGUAGES,
    MAX_PATTERN_LENGTH,
    AstFileMatches,
    AstQuery,
    AstResult,
)
from toolglot.builtin.code.ast_worker import METAVARIABLE, Span
from toolglot.builtin.files.text import check_text, convert_newlines
from toolglot.builtin.files.workspace import Change
from toolglot.builtin.scopes import change_scope, search_scope
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.common.textutil import pluralize, unified_diff
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool, tool

__all__ = [
    "AstMatch",
    "AstRewriteResult",
    "AstSearchResult",
    "FileRewrite",
    "ast_rewrite_tools",
    "ast_search_tools",
]

MAX_RESULTS = 1000
MAX_MATCH_LENGTH = 2000
MAX_REPLACEMENTS = 10_000
MAX_FILES = 200  # each is held open while all are changed
MAX_BYTES = 64 * 1024 * 1024
MAX_DIFF_LENGTH = 100_000


# ---- ast_search


class AstMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of code that matches. Lines and columns count characters from 1; the end is exclusive."""

    path: str
    absolute: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    truncated: bool
    """The code is longer than `text`."""
    captures: dict[str, str]
    """Name -> code; what a `$$$NAME` matches is one text."""


class AstSearchResult(AstResult, frozen=True, kw_only=True):
    """The result of `ast_search`, in the order of paths."""

    matches: list[AstMatch]
    truncated: bool
    """There are more matches."""
    complete: bool
    """False: time was up before all files were searched."""

    def render(self, multi_names: list[str]) -> str:
        """Return the text for a model."""
        lines: list[str] = []
        for match in self.matches:
            first, *others = match.text.replace("\r\n", "\n").split("\n")
            lines += [
                f"{match.path}:{match.line}:{match.column}: {first}",
                *(f"    {line}" for line in others),
            ]
            if match.truncated:
                lines.append("    …")
            for name, text in match.captures.items():
                mark = "$$$" if name in multi_names else "$"
                lines.append(f"    {mark}{name} = {' '.join(text.split())[:200]}")
        if not lines:
            lines.append(f"{self.render_empty()}.")
        if self.truncated:
            lines.append(
                f"[showing the first {len(self.matches)} matches; narrow the search or raise max_results]"
            )
        if not self.complete:
            lines.append("[stopped before everything was searched; search a smaller directory]")
        return "\n".join([*lines, *self.render_notes()])


def ast_search_tools(state: ToolState) -> list[Tool]:
    """Return the tool `ast_search`."""

    @tool(
        name="ast_search",
        effects="read",
        idempotent=True,
        action="search",
        verb="Search",
        scope=search_scope(state),
        target=path_target(state),
        examples=[{"pattern": "requests.get($URL, $$$ARGS)", "language": "python", "path": "src"}],
    )
    def ast_search(  # noqa: D417
        pattern: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = 100,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Find code by structure: in the pattern, $NAME matches any single node and $$$NAME any number of nodes.

        Use it instead of a text search when formatting varies. Whitespace and comments do not matter; the same $NAME twice
        must match the same code. Files ignored by .gitignore are left out.

        Args:
            pattern: One whole expression or statement, such as 'print($$$ARGS)' or 'if $A == None: $$$BODY'.
            path: File or directory to search (default: the workspace).
            language: Language of the code, such as python or tsx (default: by each file's name).
            include_glob: Search only files whose path in the directory matches, such as '**/test_*.py'.
            max_results: Maximum number of matches to show (1-1000, default 100).
        """
        limit = min(check_minimum("max_results", max_results, 1), MAX_RESULTS)
        with closing(AstQuery(state, pattern, path, language, include_glob, context)) as query:
            result = _collect_matches(state, query, limit)
        return ToolOutput(result.render(query.multi_names), to_data(result))

    return [ast_search]


def _collect_matches(state: ToolState, query: AstQuery, limit: int) -> AstSearchResult:
    matches: list[AstMatch] = []
    truncated = False
    for file in query.iter_files(limit + 1):
        remaining, text = limit - len(matches), file.document.text
        line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        for span in file.spans[:remaining]:
            line, end_line = bisect_right(line_starts, span.start), bisect_right(line_starts, span.end)
            captures = {
                name: text[start : min(end, start + MAX_MATCH_LENGTH)]
                for name, (start, end) in span.captures.items()
            }
            matches.append(
                AstMatch(
                    path=escape_surrogates(state.display_path(file.opened.path)),
                    absolute=escape_surrogates(str(file.opened.path)),
                    line=line,
                    column=span.start - line_starts[line - 1] + 1,
                    end_line=end_line,
                    end_column=span.end - line_starts[end_line - 1] + 1,
                    text=text[span.start : min(span.end, span.start + MAX_MATCH_LENGTH)],
                    truncated=span.end - span.start > MAX_MATCH_LENGTH,
                    captures=captures,
                )
            )
        if len(file.spans) > remaining:
            truncated = True
            break
    return AstSearchResult(
        **query.summarize(is_empty=not matches),
        matches=matches,
        truncated=truncated,
        complete=query.complete,
    )


# ---- ast_rewrite


class FileRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a rewrite."""

    path: str
    absolute: str
    replacements: int
    nested: int
    """Matches inside other matches, which are left for another call."""
    diff: str


class AstRewriteResult(AstResult, frozen=True, kw_only=True):
    """The result of `ast_rewrite`: what was or would be changed."""

    dry_run: bool
    files: list[FileRewrite]
    replacements: int
    nested: int
    truncated: bool
    """Diffs are truncated or omitted."""

    def render(self) -> str:
        """Return the text for a model."""
        notes = self.render_notes()
        if not self.files:
            return "\n".join([f"{self.render_empty()}: nothing to change.", *notes])
        count = f"{pluralize(self.replacements, 'match', 'matches')} in {pluralize(len(self.files), 'file')}"
        head = (
            f"would replace {count}; set dry_run to false to write the changes"
            if self.dry_run
            else f"replaced {count}"
        )
        lines = [head, *(f"{file.path}: {file.replacements}" for file in self.files)]
        if self.nested:
            lines.append(
                f"[{self.nested} matches inside of other matches were left: repeat the call for them]"
            )
        lines += [*notes, *(file.diff.rstrip("\n") for file in self.files if file.diff)]
        if self.truncated:
            lines.append("[the rest of the diff is omitted]")
        return "\n".join(lines)


class _Draft(msgspec.Struct, frozen=True):
    """A file with its new text."""

    source: AstFileMatches
    new_text: str
    replacements: int
    nested: int


def ast_rewrite_tools(state: ToolState) -> list[Tool]:
    """Return the tool `ast_rewrite`."""

    def describe(dry_run: bool = True, max_results: int = 1000, path: str = ".", **arguments: str) -> str:
        if dry_run:
            return "(writes nothing: it only shows what would change)"
        language, include = arguments.get("language", ""), arguments.get("include_glob", "")
        with closing(AstQuery(state, arguments["pattern"], path, language, include)) as query:
            return _plan_rewrite(
                state, query, arguments["replacement"], max_results, False, max_diff=maxsize
            )[1].render()

    @tool(
        name="ast_rewrite",
        effects=("read", "write"),
        action="edit",
        verb="Edit",
        confined=state.workspace.protects_all,
        scope=change_scope(state),
        target=path_target(state),
        preview=make_preview(describe),
        examples=[{"pattern": "assertEquals($A, $B)", "replacement": "assertEqual($A, $B)", "path": "tests"}],
    )
    def ast_rewrite(  # noqa: D417
        pattern: str,
        replacement: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = 1000,
        dry_run: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Replace code by structure, in all matching files or in none. Check the diff first, then set dry_run to false.

        Use it for the same change in many places; for a single place, edit the file.

        Args:
            pattern: Code to replace, as in ast_search: $NAME matches any single node, $$$NAME any number of nodes.
            replacement: Code to insert; $NAME and $$$NAME stand for what the pattern captured.
            path: File or directory to change (default: the workspace).
            language: Language of the code, such as python or tsx (default: by each file's name).
            include_glob: Change only files whose path in the directory matches, such as '**/test_*.py'.
            max_results: Maximum number of replacements (1-10000, default 1000); if there are more, nothing changes.
            dry_run: Only show what would change (default true).
        """
        with state.lock, closing(AstQuery(state, pattern, path, language, include_glob, context)) as query:
            drafts, result = _plan_rewrite(state, query, replacement, max_results, dry_run)
            if drafts and not dry_run:
                _write_drafts(state, drafts)
        return ToolOutput(result.render(), to_data(result))

    return [ast_rewrite]


def _plan_rewrite(
    state: ToolState,
    query: AstQuery,
    replacement: str,
    limit: int,
    dry_run: bool,
    *,
    max_diff: int = MAX_DIFF_LENGTH,
) -> tuple[list[_Draft], AstRewriteResult]:
    check_text(replacement, "replacement", MAX_PATTERN_LENGTH * 10)
    drafts = _draft_files(query, replacement, min(check_minimum("max_results", limit, 1), MAX_REPLACEMENTS))
    if not query.complete:
        message = (
            "not all files could be searched in time, so nothing was changed; search a smaller directory"
        )
        raise ToolError(message, kind="limit", code="search_timeout")
    files, truncated = _describe_drafts(state, drafts, max_diff)
    return drafts, AstRewriteResult(
        **query.summarize(is_empty=not files),
        dry_run=dry_run,
        files=files,
        replacements=sum(file.replacements for file in files),
        nested=sum(file.nested for file in files),
        truncated=truncated,
    )


def _write_drafts(state: ToolState, drafts: list[_Draft]) -> None:
    changes = [
        Change(
            draft.source.opened.absolute_path,
            draft.source.document.encode(draft.new_text),
            draft.source.opened.version,
        )
        for draft in drafts
    ]
    for draft, written in zip(drafts, state.workspace.apply_changes(changes), strict=True):
        # A file that the model had seen stays seen: it knows the change that it made.
        if state.seen_versions.get(draft.source.opened.path) == draft.source.opened.version:
            state.mark_seen(written.path, written.version)


def _draft_files(query: AstQuery, replacement: str, limit: int) -> list[_Draft]:
    """Return all files that change, with their new texts.

    Raises ToolError if that is too much for one call.
    """
    drafts: list[_Draft] = []
    total = size = 0
    template = replacement.removesuffix("\n").removesuffix("\r")  # the line has its own end
    names = {*query.single_names, *query.multi_names}
    for file in query.iter_files(limit + 1):
        total += len(file.spans)
        if total > limit or file.is_truncated:
            message = (
                f"the pattern matches more than {limit} times; narrow the pattern or search a smaller "
                "directory"
            )
            raise ToolError(message, kind="limit", code="too_many_matches")
        text = file.document.text
        file_template = convert_newlines(template, "crlf") if file.document.newline == "crlf" else template
        parts: list[str] = []
        position = count = nested = 0
        for span in sorted(file.spans, key=lambda span: (span.start, -span.end)):
            if span.start < position:
                nested += 1
                continue
            code = _fill_template(file_template, span, file, names)
            parts += (text[position : span.start], code)
            position, count = span.end, count + 1
        new_text = "".join([*parts, text[position:]])
        if new_text != text:
            drafts.append(_Draft(file, new_text, count, nested))
            size += len(new_text)
        if len(drafts) > MAX_FILES or size > MAX_BYTES:
            message = (
                f"more than {MAX_FILES} files or {MAX_BYTES >> 20} MB would change; search a smaller "
                "directory"
            )
            raise ToolError(message, kind="limit", code="too_many_matches")
    return drafts


def _fill_template(template: str, span: Span, file: AstFileMatches, names: set[str]) -> str:
    """Return the replacement of one match.

    Its lines, and those of captured code, get the indentation of their new place.
    """
    text = file.document.text
    outer = _indentation_at(text, span.start)
    template = re.sub(r"\n(?!\r?\n)", "\n" + outer, template)

    def insert(variable: re.Match[str]) -> str:
        name = variable[1] or variable[2]
        if name not in names:
            if file.language in DOLLAR_LANGUAGES:
                return variable[0]
            known = ", ".join(f"${name}" for name in sorted(names)) or "nothing"
            message = f"the replacement uses {variable[0]}, but the pattern captures only {known}"
            raise ToolError(message, kind="validation", code="invalid_pattern")
        if name not in span.captures:
            return ""
        start, end = span.captures[name]
        code, before = text[start:end], _indentation_at(text, start)
        after = _indentation_at(template, variable.start())
        if "\n" not in template[: variable.start()]:
            after = outer + after
        if before == after or "\n" not in code:
            return code
        first, *others = code.split("\n")
        return "\n".join(
            [first, *(after + line[len(before) :] if line.startswith(before) else line for line in others)]
        )

    return METAVARIABLE.sub(insert, template)


def _indentation_at(text: str, index: int) -> str:
    """Return the white space at the start of the line that contains a character."""
    line = text[text.rfind("\n", 0, index) + 1 : index]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _describe_drafts(state: ToolState, drafts: list[_Draft], max_diff: int) -> tuple[list[FileRewrite], bool]:
    """Return the changes of each file, and whether some diffs are truncated."""
    files: list[FileRewrite] = []
    remaining, truncated = max_diff, False
    for draft in drafts:
        before = draft.source.document.text
        path = escape_surrogates(state.display_path(draft.source.opened.path))
        diff = unified_diff(before, draft.new_text, path, limit=max(max_diff, MAX_DIFF_LENGTH))
        truncated = truncated or len(diff) > remaining
        diff, remaining = diff[:remaining], max(remaining - len(diff), 0)
        files.append(
            FileRewrite(
                path=path,
                absolute=escape_surrogates(str(draft.source.opened.path)),
                replacements=draft.replacements,
                nested=draft.nested,
                diff=diff,
            )
        )
    return files, truncated
