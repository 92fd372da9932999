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

from toolglot.builtin.arguments import looked_into, previewing
from toolglot.builtin.ignore import Globs
from toolglot.builtin.languages import ALSO, ANY_CASE, NOT_CODE, OF_END, known_language
from toolglot.builtin.loading import missing
from toolglot.builtin.looking import searched
from toolglot.builtin.parsing import VARIABLE, Answer, Lost, Parser, Task, reason
from toolglot.builtin.rewriting import Draft, Hit, RewrittenFile, described, drafted, write
from toolglot.builtin.text import Document, checked, counted, decoded, has_half, marked
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.walk import Walk, shown
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["Rewritten", "SyntaxFound", "SyntaxMatch", "syntax_tools"]

LARGEST_FILE = 2 * 1024 * 1024
LONGEST_PATTERN = 10_000
MOST_RESULTS = 1000
MOST_REWRITES = 10_000
LONGEST_MATCH = 2000
SECONDS = 60.0
MOST_LOST = 5  # files that the parser may fail on
_NAMED = 20
_EVERY = 500  # files between two words on progress
_WORD = re.compile(r"\w{2,}")


class SyntaxMatch(msgspec.Struct, frozen=True, kw_only=True):
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


class SyntaxFound(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_search` found, in the order of paths."""

    pattern: str
    path: str
    languages: list[str]
    """Those that files were parsed in."""
    matches: list[SyntaxMatch]
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


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """What `ast_rewrite` did, or would do."""

    pattern: str
    replacement: str
    path: str
    dry_run: bool
    files: list[RewrittenFile]
    replacements: int
    nested: int
    searched: int
    skipped: list[str]
    left_out: int
    truncated: bool
    """Diffs are cut or left out, for they are long."""
    note: str


# ---- looking through files


class _Search:
    """One look for a pattern. Use it as a context: the parser ends with it."""

    def __init__(
        self, box: Toolbox, pattern: str, path: str, language: str = "", include: str = "", context: Context | None = None
    ) -> None:
        self._box, self._path, self._context = box, path or ".", context
        self.pattern = checked(pattern, "`pattern`", LONGEST_PATTERN)
        if not pattern.strip():
            raise ToolError("the pattern is empty: give code, with $NAME for what may vary", kind="validation")
        self._language = known_language(language) if language else ""
        self._globs = Globs.of(include) if include else None
        names = [found.groups() for found in VARIABLE.finditer(pattern)]
        self.several = sorted({name for name, _ in names if name and not name.startswith("_")})
        self.single = sorted({name for _, name in names if name and not name.startswith("_")} - set(self.several))
        self._word = max(_WORD.findall(VARIABLE.sub(" ", pattern)), key=len, default="")
        self._parser: Parser | None = None
        self._until = time.monotonic() + SECONDS
        self._checks: dict[str, Answer] = {}
        self._alone = False
        self.searched = self.left_out = 0
        self.skipped: list[str] = []
        self.complete = True

    def __enter__(self) -> "_Search":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    @property
    def names(self) -> set[str]:
        return {*self.single, *self.several}

    @property
    def languages(self) -> list[str]:
        return sorted(language for language, answer in self._checks.items() if not answer.error)

    @property
    def note(self) -> str:
        """What may be wrong where nothing was found."""
        if not self._checks:
            what = f"{self._language} files" if self._language else "files of a known language"
            return f"there are no {what} to look at"
        broken = [language for language, answer in self._checks.items() if answer.broken]
        if len(broken) < len(self._checks):
            return ""
        return f"a part of the pattern does not parse as {' or '.join(broken)}, so that it may never match"

    def hits(self, most: int) -> Iterator[Hit]:
        """The files with matches; at most so many matches of each are told. Raises ToolError."""
        for path, language in self._sources():
            if self._wait():
                self.complete = False
                break
            if self._fits(language) and (hit := self._looked(path, language, most)):
                yield hit
        wrong = [(language, answer.error) for language, answer in self._checks.items() if answer.error]
        if wrong and len(wrong) == len(self._checks):
            language, error = wrong[0]
            why = f"the pattern {self.pattern[:200]!r} is not {language} code that can be looked for"
            raise ToolError(f"{why}: {reason(error)}", kind="validation")

    def _wait(self) -> bool:
        """Whether time is up. Raises ToolError, where nobody waits any more."""
        if self._context is not None and self._context.cancelled:
            raise ToolError("the search was cancelled; nothing was changed", kind="cancelled")
        return time.monotonic() > self._until

    def _sources(self) -> Iterator[tuple[str, str]]:
        """The paths of files to look at, and the language of each."""
        found = self._box.workspace.look(self._path)
        if found is None:
            raise missing(self._box, self._path)
        if not stat.S_ISDIR(found.status.st_mode):
            self._alone = True
            language = self._language or OF_END.get(found.path.suffix.lower(), "")
            if not language:
                raise ToolError(f"the language of {self._path!r} is not known: give one as language", kind="validation")
            yield str(found.path), language
            return
        with searched(self._box, self._path) as place:
            for folder in Walk(place.root, place.base):
                for name in sorted(entry.name for entry in folder.files):
                    path = f"{folder.path}/{name}" if folder.path else name
                    if language := self._language_of(path[place.cut :], name):
                        yield f"{place.top}/{path}", language
                if self._wait():
                    self.complete = False
                    return

    def _language_of(self, path: str, name: str) -> str:
        """As what a file of a folder is parsed; "" where it is not to be looked at."""
        if self._globs is not None and not self._globs.admits(path):
            return ""
        end = os.path.splitext(name)[1].lower()
        language = OF_END.get(end, "")
        if not self._language:
            return language if self._globs is not None or language not in NOT_CODE else ""
        also = ALSO.get(self._language, {}).get(end, "")
        named = self._globs is not None and not language and not all(negated for negated, _ in self._globs.lines)
        return also or (self._language if language == self._language or named else "")

    def _fits(self, language: str) -> bool:
        """Whether the pattern is one of this language."""
        if language not in self._checks:
            answer = self._asked(Task(language, self.pattern))
            self._checks[language] = answer or Answer(error="the parser fails on it")
        return not self._checks[language].error

    def _looked(self, path: str, language: str, most: int) -> Hit | None:
        try:
            data, opened = self._box.workspace.read(path, LARGEST_FILE)
        except ToolError:
            if self._alone:
                raise
            self.left_out += 1
            return None
        self.searched += 1
        if self._context is not None and self.searched % _EVERY == 0:
            self._context.report(f"{self.searched} files looked at")
        word = "" if language in ANY_CASE else self._word
        if word.isascii() and word.encode() not in data and marked(data) is None and len(data) <= LARGEST_FILE:
            return None
        document = self._code(data)
        if document is None or word not in document.text:
            return None
        names = {"single": self.single, "several": self.several}
        answer = self._asked(Task(language, self.pattern, document.text, most, **names))
        if answer is None or answer.error:
            self.skipped.append(shown(self._box.shown(opened.path)))
            return None
        return Hit(path, opened, language, document, answer.spans, answer.more) if answer.spans else None

    def _code(self, data: bytes) -> Document | None:
        """The text of a file; None where there is none to look at. Raises ToolError, where it was asked for by name."""
        if len(data) <= LARGEST_FILE:
            document = decoded(data)
            if document is not None and not has_half(document.text):
                return document
            why = "is not a text file"
        else:
            why = f"is larger than {LARGEST_FILE >> 20} MB"
        if self._alone:
            raise ToolError(f"{self._path!r} {why}, so it is not parsed", kind="execution")
        self.left_out += 1
        return None

    def _asked(self, task: Task) -> Answer | None:
        """The parser's answer; None where it failed."""
        try:
            if self._parser is None:
                self._parser = Parser(self._wait)
            return self._parser.ask(task)
        except Lost:
            self._end()
        if self._wait():
            self.complete = False
        elif len(self.skipped) >= MOST_LOST:
            raise ToolError(f"the parser fails on more than {MOST_LOST} files: search in another folder", kind="execution")
        return None


def _check_count(max_results: int) -> None:
    if max_results < 1:
        raise ToolError(f"`max_results` is {max_results}: give 1 or more", kind="validation")


# ---- searching


class _Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, index: int) -> tuple[int, int]:
        """The line and column of a character, both from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def _matches(box: Toolbox, hit: Hit, room: int) -> Iterator[SyntaxMatch]:
    text, lines = hit.document.text, _Lines(hit.document.text)
    for span in hit.spans[:room]:
        (line, column), (end_line, end_column) = lines.at(span.start), lines.at(span.end)
        yield SyntaxMatch(
            path=shown(box.shown(hit.opened.path)),
            absolute=shown(str(hit.opened.path)),
            language=hit.language,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            text=text[span.start : min(span.end, span.start + LONGEST_MATCH)],
            cut=span.end - span.start > LONGEST_MATCH,
            captures={name: text[start : min(end, start + LONGEST_MATCH)] for name, (start, end) in span.captures.items()},
        )


def _found(box: Toolbox, search: _Search, path: str, most: int) -> SyntaxFound:
    matches: list[SyntaxMatch] = []
    truncated, files = False, 0
    for hit in search.hits(most + 1):
        room = most - len(matches)
        matches += _matches(box, hit, room)
        files += room > 0
        if len(hit.spans) > room:
            truncated = True
            break
    return SyntaxFound(
        pattern=search.pattern,
        path=path,
        languages=search.languages,
        matches=matches,
        files=files,
        searched=search.searched,
        truncated=truncated,
        complete=search.complete,
        skipped=search.skipped,
        left_out=search.left_out,
        note="" if matches else search.note,
    )


def _found_told(found: SyntaxFound, several: Iterable[str]) -> str:
    lines = [_match_told(match, set(several)) for match in found.matches]
    if not lines:
        lines.append(f"No code matches {found.pattern[:200]!r} in {found.path!r} ({found.searched} files looked at).")
    if found.truncated:
        lines.append(f"[the first {len(found.matches)} matches; narrow the pattern or the path, or raise max_results]")
    if not found.complete:
        lines.append("[stopped before everything was looked at: search in a folder further down]")
    return "\n".join([*lines, *_asides(found.skipped, found.note)])


def _asides(skipped: list[str], note: str) -> list[str]:
    lines = [f"[{note}]"] if note else []
    if skipped:
        lines.append(f"[the parser failed on {', '.join(skipped[:_NAMED])}]")
    return lines


def _match_told(match: SyntaxMatch, several: set[str]) -> str:
    first, *rest = match.text.replace("\r\n", "\n").split("\n")
    lines = [f"{match.path}:{match.line}:{match.column}: {first}", *(f"    {line}" for line in rest)]
    if match.cut:
        lines.append("    …")
    for name, text in match.captures.items():
        sign = "$$$" if name in several else "$"
        lines.append(f"    {sign}{name} = {' '.join(text.split())[:200]}")
    return "\n".join(lines)


def _rewritten_told(done: Rewritten) -> str:
    if not done.files:
        why = f"Nothing to change: no code matches {done.pattern[:200]!r} in {done.path!r} ({done.searched} files looked at)."
        return "\n".join([why, *_asides(done.skipped, done.note)])
    places = f"{counted(done.replacements, 'place')} in {counted(len(done.files), 'file')}"
    head = f"would change {places}; with dry_run=false it is written" if done.dry_run else f"changed {places}"
    lines = [head, *(f"{file.path}: {file.replacements}" for file in done.files)]
    if done.nested:
        lines.append(f"[matches inside of others stay as they are ({done.nested}): call it again for them]")
    lines += _asides(done.skipped, done.note)
    lines += [file.diff.rstrip("\n") for file in done.files if file.diff]
    return "\n".join([*lines, *(["[the rest of the difference is left out]"] if done.truncated else [])])


# ---- the tools


def syntax_tools(box: Toolbox) -> list[Tool]:
    """`ast_search` and `ast_rewrite`."""
    return [_searching(box), _rewriting(box)]


def _searching(box: Toolbox) -> Tool:
    @tool(
        name="ast_search",
        effects="read",
        idempotent=True,
        target=looked_into(box),
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
        _check_count(max_results)
        with _Search(box, pattern, path, language, include_glob, context) as search:
            found = _found(box, search, path, min(max_results, MOST_RESULTS))
        return ToolOutput(_found_told(found, search.several), built(found))

    return ast_search


def _rewriting(box: Toolbox) -> Tool:
    def plan(dry_run: bool = True, max_results: int = MOST_RESULTS, path: str = ".", **wish: str) -> str:
        if dry_run:
            return "(nothing is written: it only shows what would change)"
        with _Search(box, wish["pattern"], path, wish.get("language", ""), wish.get("include_glob", "")) as search:
            return _rewritten_told(_planned(box, search, path or ".", wish["replacement"], max_results, False)[1])

    @tool(
        name="ast_rewrite",
        effects=("read", "write"),
        target=looked_into(box),
        preview=previewing(plan),
        examples=[{"pattern": "assertEquals($A, $B)", "replacement": "assertEqual($A, $B)", "path": "tests"}],
    )
    def ast_rewrite(
        pattern: str,
        replacement: str,
        path: str = ".",
        language: str = "",
        include_glob: str = "",
        max_results: int = MOST_RESULTS,
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
        with box.lock, _Search(box, pattern, path, language, include_glob, context) as search:
            drafts, done = _planned(box, search, path, replacement, max_results, dry_run)
            if drafts and not dry_run:
                write(box, drafts)
        return ToolOutput(_rewritten_told(done), built(done))

    return ast_rewrite


def _planned(
    box: Toolbox, search: _Search, path: str, replacement: str, most: int, dry_run: bool
) -> tuple[list[Draft], Rewritten]:
    checked(replacement, "`replacement`", LONGEST_PATTERN * 10)
    _check_count(most)
    most = min(most, MOST_REWRITES)
    drafts = drafted(search.hits(most + 1), search.names, replacement, most)
    if not search.complete:
        raise ToolError("not all files could be looked at in time, so nothing was changed: take a smaller folder", kind="limit")
    files, truncated = described(box, drafts)
    return drafts, Rewritten(
        pattern=search.pattern,
        replacement=replacement,
        path=path,
        dry_run=dry_run,
        files=files,
        replacements=sum(file.replacements for file in files),
        nested=sum(file.nested for file in files),
        searched=search.searched,
        skipped=search.skipped,
        left_out=search.left_out,
        truncated=truncated,
        note="" if files else search.note,
    )
