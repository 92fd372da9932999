"""The tool `ast_search`: find code by structure."""

import re
from bisect import bisect_right
from contextlib import closing

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.code.ast_query import AstQuery, AstResult
from toolglot.builtin.search.walk import replace_surrogates
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["AstMatch", "AstSearchResult", "ast_search_tools"]

MAX_RESULTS = 1000
MAX_MATCH_LENGTH = 2000


class AstMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of code that matches. Lines and columns count characters from 1; the end is exclusive."""

    path: str
    absolute: str
    language: str
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

    languages: list[str]
    """The languages in which files were parsed."""
    matches: list[AstMatch]
    files: int
    """The number of files with matches."""
    truncated: bool
    """There are more matches."""
    complete: bool
    """False: time was up before all files were searched."""

    def render(self, multi_names: list[str]) -> str:
        """Return the text for a model."""
        lines: list[str] = []
        for match in self.matches:
            first, *others = match.text.replace("\r\n", "\n").split("\n")
            lines += [f"{match.path}:{match.line}:{match.column}: {first}", *(f"    {line}" for line in others)]
            if match.truncated:
                lines.append("    …")
            for name, text in match.captures.items():
                lines.append(f"    {'$$$' if name in multi_names else '$'}{name} = {' '.join(text.split())[:200]}")
        if not lines:
            lines.append(f"{self.render_empty()}.")
        if self.truncated:
            lines.append(f"[showing the first {len(self.matches)} matches; narrow the search or raise max_results]")
        if not self.complete:
            lines.append("[stopped before everything was searched; search a smaller directory]")
        return "\n".join([*lines, *self.render_notes()])


def ast_search_tools(state: ToolState) -> list[Tool]:
    """Return the tool `ast_search`."""

    @tool(
        name="ast_search",
        effects="read",
        idempotent=True,
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
    truncated, files = False, 0
    for file in query.iter_files(limit + 1):
        remaining, text = limit - len(matches), file.document.text
        line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        for span in file.spans[:remaining]:
            line, end_line = bisect_right(line_starts, span.start), bisect_right(line_starts, span.end)
            captures = {name: text[start : min(end, start + MAX_MATCH_LENGTH)] for name, (start, end) in span.captures.items()}
            matches.append(
                AstMatch(
                    path=replace_surrogates(state.display_path(file.opened.path)),
                    absolute=replace_surrogates(str(file.opened.path)),
                    language=file.language,
                    line=line,
                    column=span.start - line_starts[line - 1] + 1,
                    end_line=end_line,
                    end_column=span.end - line_starts[end_line - 1] + 1,
                    text=text[span.start : min(span.end, span.start + MAX_MATCH_LENGTH)],
                    truncated=span.end - span.start > MAX_MATCH_LENGTH,
                    captures=captures,
                )
            )
        files += remaining > 0
        if len(file.spans) > remaining:
            truncated = True
            break
    return AstSearchResult(
        **query.summarize(is_empty=not matches),
        languages=query.languages,
        matches=matches,
        files=files,
        truncated=truncated,
        complete=query.complete,
    )
