"""The tools `ast_search` and `ast_rewrite`: code found and changed by its shape, not by its letters.

Laws: files are found and read as every other tool does it; a file that the parser fails on is skipped, and the result says so.
"""

import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from toolglot.builtin.arguments import make_preview, path_target
from toolglot.builtin.code.ast_rewrite import (
    AstFileMatches,
    FileRewrite,
    RewriteDraft,
    describe_drafts,
    draft_rewrites,
    write_drafts,
)
from toolglot.builtin.code.ast_worker import METAVARIABLE, ParseAnswer, ParserFailed, ParserProcess, ParseTask, explain_error
from toolglot.builtin.code.languages import CASE_INSENSITIVE, EXTRA_SUFFIXES, LANGUAGE_BY_SUFFIX, NON_CODE, resolve_language
from toolglot.builtin.files.text import Document, check_text, decode_document, detect_bom, has_lone_surrogate
from toolglot.builtin.files.text_files import missing_file_error
from toolglot.builtin.search.globs import GlobFilter
from toolglot.builtin.search.search_scope import open_search_root
from toolglot.builtin.search.walk import Walk, replace_surrogates
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.textutil import pluralize
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["AstMatch", "AstRewriteResult", "AstSearchResult", "ast_tools"]

MAX_FILE_SIZE = 2 * 1024 * 1024
MAX_PATTERN_LENGTH = 10_000
MAX_RESULTS = 1000
MAX_REPLACEMENTS = 10_000
MAX_MATCH_LENGTH = 2000
TIMEOUT_SECONDS = 60.0
MAX_PARSER_FAILURES = 5  # files that the parser may fail on
_MAX_NAMED = 20
_PROGRESS_INTERVAL = 500  # files between two words on progress
_WORD = re.compile(r"\w{2,}")


class AstMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of code that has the shape. Lines and columns count from 1; columns are characters; ends are exclusive."""

    path: str
    absolute: str
    language: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    cut: bool
    """The text is longer than that."""
    captures: dict[str, str]
    """Name -> code; what a `$$$NAME` took is one text."""


class AstSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_search` found, in the order of paths."""

    pattern: str
    path: str
    languages: list[str]
    """Those that files were parsed in."""
    matches: list[AstMatch]
    files: int
    """With matches."""
    searched: int
    truncated: bool
    """There are more matches."""
    complete: bool
    """False: time was up before all files were looked at."""
    skipped: list[str]
    """Files that the parser failed on; others are left out as they are too large or no text."""
    left_out: int
    note: str


class AstRewriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_rewrite` did, or would do."""

    pattern: str
    replacement: str
    path: str
    dry_run: bool
    files: list[FileRewrite]
    replacements: int
    nested: int
    searched: int
    skipped: list[str]
    left_out: int
    truncated: bool
    """Diffs are cut or left out, for they are long."""
    note: str


# ---- looking through files


class _AstSearch:
    """One look for a pattern. Use it as a context: the parser ends with it."""

    def __init__(
        self, state: ToolState, pattern: str, path: str, language: str = "", include: str = "", context: Context | None = None
    ) -> None:
        self._state, self._path, self._context = state, path or ".", context
        self.pattern = check_text(pattern, "`pattern`", MAX_PATTERN_LENGTH)
        if not pattern.strip():
            raise ToolError("the pattern is empty: give code, with $NAME for what may vary", kind="validation")
        self._language = resolve_language(language) if language else ""
        self._globs = GlobFilter.parse(include) if include else None
        names = [found.groups() for found in METAVARIABLE.finditer(pattern)]
        self.multi_names = sorted({name for name, _ in names if name and not name.startswith("_")})
        self.single_names = sorted({name for _, name in names if name and not name.startswith("_")} - set(self.multi_names))
        self._required_word = max(_WORD.findall(METAVARIABLE.sub(" ", pattern)), key=len, default="")
        self._parser: ParserProcess | None = None
        self._deadline = time.monotonic() + TIMEOUT_SECONDS
        self._pattern_checks: dict[str, ParseAnswer] = {}
        self._is_single_file = False
        self.file_count = self.omitted_count = 0
        self.failed_paths: list[str] = []
        self.complete = True

    def __enter__(self) -> "_AstSearch":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_parser()

    def _close_parser(self) -> None:
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    @property
    def capture_names(self) -> set[str]:
        return {*self.single_names, *self.multi_names}

    @property
    def languages(self) -> list[str]:
        return sorted(language for language, answer in self._pattern_checks.items() if not answer.error)

    @property
    def note(self) -> str:
        """What may be wrong where nothing was found."""
        if not self._pattern_checks:
            what = f"{self._language} files" if self._language else "files of a known language"
            return f"there are no {what} to look at"
        broken = [language for language, answer in self._pattern_checks.items() if answer.has_errors]
        if len(broken) < len(self._pattern_checks):
            return ""
        return f"a part of the pattern does not parse as {' or '.join(broken)}, so that it may never match"

    def iter_files(self, limit: int) -> Iterator[AstFileMatches]:
        """The files with matches; at most so many matches of each are told. Raises ToolError."""
        for path, language in self._iter_sources():
            if self._is_expired():
                self.complete = False
                break
            if self._accepts_pattern(language) and (hit := self._search_file(path, language, limit)):
                yield hit
        wrong = [(language, answer.error) for language, answer in self._pattern_checks.items() if answer.error]
        if wrong and len(wrong) == len(self._pattern_checks):
            language, error = wrong[0]
            why = f"the pattern {self.pattern[:200]!r} is not {language} code that can be looked for"
            raise ToolError(f"{why}: {explain_error(error)}", kind="validation")

    def _is_expired(self) -> bool:
        """Whether time is up. Raises ToolError, where nobody waits any more."""
        if self._context is not None and self._context.is_cancelled:
            raise ToolError("the search was cancelled; nothing was changed", kind="cancelled")
        return time.monotonic() > self._deadline

    def _iter_sources(self) -> Iterator[tuple[str, str]]:
        """The paths of files to look at, and the language of each."""
        found = self._state.workspace.inspect(self._path)
        if found is None:
            raise missing_file_error(self._state, self._path)
        if not stat.S_ISDIR(found.status.st_mode):
            self._is_single_file = True
            language = self._language or LANGUAGE_BY_SUFFIX.get(found.path.suffix.lower(), "")
            if not language:
                raise ToolError(f"the language of {self._path!r} is not known: give one as language", kind="validation")
            yield str(found.path), language
            return
        with open_search_root(self._state, self._path) as place:
            for folder in Walk(place.root_fd, place.relative):
                for name in sorted(entry.name for entry in folder.files):
                    path = f"{folder.path}/{name}" if folder.path else name
                    if language := self._detect_language(path[place.prefix_length :], name):
                        yield f"{place.root_path}/{path}", language
                if self._is_expired():
                    self.complete = False
                    return

    def _detect_language(self, path: str, name: str) -> str:
        """As what a file of a folder is parsed; "" where it is not to be looked at."""
        if self._globs is not None and not self._globs.admits(path):
            return ""
        end = os.path.splitext(name)[1].lower()
        language = LANGUAGE_BY_SUFFIX.get(end, "")
        if not self._language:
            return language if self._globs is not None or language not in NON_CODE else ""
        also = EXTRA_SUFFIXES.get(self._language, {}).get(end, "")
        named = self._globs is not None and not language and not all(negated for negated, _ in self._globs.patterns)
        return also or (self._language if language == self._language or named else "")

    def _accepts_pattern(self, language: str) -> bool:
        """Whether the pattern is one of this language."""
        if language not in self._pattern_checks:
            answer = self._run_task(ParseTask(language, self.pattern))
            self._pattern_checks[language] = answer or ParseAnswer(error="the parser fails on it")
        return not self._pattern_checks[language].error

    def _search_file(self, path: str, language: str, limit: int) -> AstFileMatches | None:
        try:
            data, opened = self._state.workspace.read(path, MAX_FILE_SIZE)
        except ToolError:
            if self._is_single_file:
                raise
            self.omitted_count += 1
            return None
        self.file_count += 1
        if self._context is not None and self.file_count % _PROGRESS_INTERVAL == 0:
            self._context.report(f"{self.file_count} files looked at")
        word = "" if language in CASE_INSENSITIVE else self._required_word
        if word.isascii() and word.encode() not in data and detect_bom(data) is None and len(data) <= MAX_FILE_SIZE:
            return None
        document = self._decode_source(data)
        if document is None or word not in document.text:
            return None
        names = {"single": self.single_names, "several": self.multi_names}
        answer = self._run_task(ParseTask(language, self.pattern, document.text, limit, **names))
        if answer is None or answer.error:
            self.failed_paths.append(replace_surrogates(self._state.display_path(opened.path)))
            return None
        return AstFileMatches(path, opened, language, document, answer.spans, answer.is_truncated) if answer.spans else None

    def _decode_source(self, data: bytes) -> Document | None:
        """The text of a file; None where there is none to look at. Raises ToolError, where it was asked for by name."""
        if len(data) <= MAX_FILE_SIZE:
            document = decode_document(data)
            if document is not None and not has_lone_surrogate(document.text):
                return document
            why = "is not a text file"
        else:
            why = f"is larger than {MAX_FILE_SIZE >> 20} MB"
        if self._is_single_file:
            raise ToolError(f"{self._path!r} {why}, so it is not parsed", kind="execution")
        self.omitted_count += 1
        return None

    def _run_task(self, task: ParseTask) -> ParseAnswer | None:
        """The parser's answer; None where it failed."""
        try:
            if self._parser is None:
                self._parser = ParserProcess(self._is_expired)
            return self._parser.run(task)
        except ParserFailed:
            self._close_parser()
        if self._is_expired():
            self.complete = False
        elif len(self.failed_paths) >= MAX_PARSER_FAILURES:
            raise ToolError(
                f"the parser fails on more than {MAX_PARSER_FAILURES} files: search in another folder", kind="execution"
            )
        return None


def _check_max_results(max_results: int) -> None:
    if max_results < 1:
        raise ToolError(f"`max_results` is {max_results}: give 1 or more", kind="validation")


# ---- searching


class _LineIndex:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def position(self, index: int) -> tuple[int, int]:
        """The line and column of a character, both from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def _build_matches(state: ToolState, file: AstFileMatches, limit: int) -> Iterator[AstMatch]:
    text, lines = file.document.text, _LineIndex(file.document.text)
    for span in file.spans[:limit]:
        (line, column), (end_line, end_column) = lines.position(span.start), lines.position(span.end)
        yield AstMatch(
            path=replace_surrogates(state.display_path(file.opened.path)),
            absolute=replace_surrogates(str(file.opened.path)),
            language=file.language,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            text=text[span.start : min(span.end, span.start + MAX_MATCH_LENGTH)],
            cut=span.end - span.start > MAX_MATCH_LENGTH,
            captures={name: text[start : min(end, start + MAX_MATCH_LENGTH)] for name, (start, end) in span.captures.items()},
        )


def _collect_matches(state: ToolState, search: _AstSearch, path: str, limit: int) -> AstSearchResult:
    matches: list[AstMatch] = []
    truncated, files = False, 0
    for hit in search.iter_files(limit + 1):
        room = limit - len(matches)
        matches += _build_matches(state, hit, room)
        files += room > 0
        if len(hit.spans) > room:
            truncated = True
            break
    return AstSearchResult(
        pattern=search.pattern,
        path=path,
        languages=search.languages,
        matches=matches,
        files=files,
        searched=search.file_count,
        truncated=truncated,
        complete=search.complete,
        skipped=search.failed_paths,
        left_out=search.omitted_count,
        note="" if matches else search.note,
    )


def _render_search(result: AstSearchResult, multi_names: Iterable[str]) -> str:
    lines = [_render_match(match, set(multi_names)) for match in result.matches]
    if not lines:
        lines.append(f"No code matches {result.pattern[:200]!r} in {result.path!r} ({result.searched} files looked at).")
    if result.truncated:
        lines.append(f"[the first {len(result.matches)} matches; narrow the pattern or the path, or raise max_results]")
    if not result.complete:
        lines.append("[stopped before everything was looked at: search in a folder further down]")
    return "\n".join([*lines, *_render_notes(result.skipped, result.note)])


def _render_notes(skipped: list[str], note: str) -> list[str]:
    lines = [f"[{note}]"] if note else []
    if skipped:
        lines.append(f"[the parser failed on {', '.join(skipped[:_MAX_NAMED])}]")
    return lines


def _render_match(match: AstMatch, multi_names: set[str]) -> str:
    first, *rest = match.text.replace("\r\n", "\n").split("\n")
    lines = [f"{match.path}:{match.line}:{match.column}: {first}", *(f"    {line}" for line in rest)]
    if match.cut:
        lines.append("    …")
    for name, text in match.captures.items():
        sign = "$$$" if name in multi_names else "$"
        lines.append(f"    {sign}{name} = {' '.join(text.split())[:200]}")
    return "\n".join(lines)


def _render_rewrite(result: AstRewriteResult) -> str:
    if not result.files:
        why = f"Nothing to change: no code matches {result.pattern[:200]!r} in {result.path!r} ({result.searched} files looked at)."  # noqa: E501
        return "\n".join([why, *_render_notes(result.skipped, result.note)])
    places = f"{pluralize(result.replacements, 'place')} in {pluralize(len(result.files), 'file')}"
    head = f"would change {places}; with dry_run=false it is written" if result.dry_run else f"changed {places}"
    lines = [head, *(f"{file.path}: {file.replacements}" for file in result.files)]
    if result.nested:
        lines.append(f"[matches inside of others stay as they are ({result.nested}): call it again for them]")
    lines += _render_notes(result.skipped, result.note)
    lines += [file.diff.rstrip("\n") for file in result.files if file.diff]
    return "\n".join([*lines, *(["[the rest of the difference is left out]"] if result.truncated else [])])


# ---- the tools


def ast_tools(state: ToolState) -> list[Tool]:
    """`ast_search` and `ast_rewrite`."""
    return [_search_tool(state), _rewrite_tool(state)]


def _search_tool(state: ToolState) -> Tool:
    @tool(
        name="ast_search",
        effects="read",
        idempotent=True,
        target=path_target(state),
        examples=[{"pattern": "requests.get($URL, $$$ARGS)", "language": "python", "path": "src"}],
    )
    def ast_search(
        pattern: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = 100,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Find code by its structure: the pattern is code in which $NAME stands for any one piece and $$$NAME for any number.

        Spaces, line ends and comments do not matter; the same $NAME twice must be the same code. What .gitignore files name is
        left out.

        Args:
            pattern: One whole expression or statement, such as 'print($$$ARGS)' or 'if $A == None: $$$BODY'.
            path: The file or folder to search; the workspace without it.
            language: What the code is written in, such as python or tsx; without it, each file's name tells.
            include_glob: Only files whose path in the folder matches, such as '**/test_*.py'.
            max_results: How many matches to show at most.
            context: The call.
        """
        _check_max_results(max_results)
        with _AstSearch(state, pattern, path, language, include_glob, context) as search:
            found = _collect_matches(state, search, path, min(max_results, MAX_RESULTS))
        return ToolOutput(_render_search(found, search.multi_names), to_data(found))

    return ast_search


def _rewrite_tool(state: ToolState) -> Tool:
    def plan(dry_run: bool = True, max_results: int = MAX_RESULTS, path: str = ".", **wish: str) -> str:
        if dry_run:
            return "(nothing is written: it only shows what would change)"
        with _AstSearch(state, wish["pattern"], path, wish.get("language", ""), wish.get("include_glob", "")) as search:
            return _render_rewrite(_plan_rewrite(state, search, path or ".", wish["replacement"], max_results, False)[1])

    @tool(
        name="ast_rewrite",
        effects=("read", "write"),
        target=path_target(state),
        preview=make_preview(plan),
        examples=[{"pattern": "assertEquals($A, $B)", "replacement": "assertEqual($A, $B)", "path": "tests"}],
    )
    def ast_rewrite(
        pattern: str,
        replacement: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = MAX_RESULTS,
        dry_run: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Replace code by its structure, in all files or in none. Look at the difference first, then set dry_run to false.

        Args:
            pattern: The code to replace, as for ast_search: $NAME is any one piece, $$$NAME any number.
            replacement: What to put there; $NAME and $$$NAME are what the pattern captured.
            path: The file or folder to change; the workspace without it.
            language: What the code is written in, such as python or tsx; without it, each file's name tells.
            include_glob: Only files whose path in the folder matches, such as '**/test_*.py'.
            max_results: How many places may change; where there are more, nothing does.
            dry_run: Only show what would change.
            context: The call.
        """
        with state.lock, _AstSearch(state, pattern, path, language, include_glob, context) as search:
            drafts, done = _plan_rewrite(state, search, path, replacement, max_results, dry_run)
            if drafts and not dry_run:
                write_drafts(state, drafts)
        return ToolOutput(_render_rewrite(done), to_data(done))

    return ast_rewrite


def _plan_rewrite(
    state: ToolState, search: _AstSearch, path: str, replacement: str, limit: int, dry_run: bool
) -> tuple[list[RewriteDraft], AstRewriteResult]:
    check_text(replacement, "`replacement`", MAX_PATTERN_LENGTH * 10)
    _check_max_results(limit)
    limit = min(limit, MAX_REPLACEMENTS)
    drafts = draft_rewrites(search.iter_files(limit + 1), search.capture_names, replacement, limit)
    if not search.complete:
        raise ToolError("not all files could be looked at in time, so nothing was changed: take a smaller folder", kind="limit")
    files, truncated = describe_drafts(state, drafts)
    return drafts, AstRewriteResult(
        pattern=search.pattern,
        replacement=replacement,
        path=path,
        dry_run=dry_run,
        files=files,
        replacements=sum(file.replacements for file in files),
        nested=sum(file.nested for file in files),
        searched=search.file_count,
        skipped=search.failed_paths,
        left_out=search.omitted_count,
        truncated=truncated,
        note="" if files else search.note,
    )
