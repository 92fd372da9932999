"""Search with ripgrep.

ripgrep is a program from outside the workspace, confined to the root by Landlock. It reads no configuration,
and the only text of a model that it receives is patterns, a file type and a path that was checked before.
What it finds is filtered again by our own rules, so that its ignore rules only save work.
"""

import base64
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import BinaryIO

import msgspec

from toolglot.builtin.search.globs import GlobFilter, to_byte_key
from toolglot.builtin.search.grep_query import (
    MAX_LINE_MATCHES,
    UNLIMITED,
    FileMatches,
    GrepMatches,
    GrepQuery,
    MatchedLine,
    invalid_pattern_error,
    unknown_type_error,
)
from toolglot.builtin.search.ignore import IgnoreScope, rebase_rules
from toolglot.builtin.search.search_scope import start_deadline
from toolglot.builtin.search.walk import (
    BINARY_PROBE_SIZE,
    MAX_FILE_SIZE,
    VCS_DIRECTORIES,
    load_extra_scope,
    read_extra_ignores,
    read_gitignores,
)
from toolglot.builtin.tool_state import ToolState
from toolglot.confine.child_process import ProcessStopped, read_output, split_records, start_confined
from toolglot.confine.programs import find_programs
from toolglot.confine.sandbox import landlock_version

__all__ = ["find_ripgrep", "search_with_ripgrep"]

_MIN_VERSION = 13
_MAX_SUBMATCH_BYTES = 1 << 18
_SIMPLE_GLOB = re.compile(r"[\w.*?/+@=~, -]+", re.ASCII)
_BASE_OPTIONS = (
    *(
        "--no-config",
        "--color=never",
        "--no-messages",
        "--no-mmap",
        "--encoding=none",
        "--hidden",
        "--no-follow",
        "--no-pre",
    ),
    *(
        "--no-ignore-global",
        "--no-ignore-dot",
        "--no-ignore-parent",
        "--no-ignore-exclude",
        "--no-require-git",
    ),
    *("--no-search-zip", "--engine=default"),
)
_version_cache: dict[tuple[str, int], int] = {}


# ---- the program


def find_ripgrep(state: ToolState, root_fd: int) -> str:
    """Return the path of a usable rg; "" if there is none that is recent and that the kernel can confine."""
    if not landlock_version():
        return ""
    for path in find_programs("rg", state.workspace.roots):
        program = os.path.realpath(path)
        key = program, os.stat(program).st_mtime_ns
        if key not in _version_cache:  # asked once per program file
            _version_cache[key] = 0
            with suppress(OSError, ProcessStopped), tempfile.TemporaryFile() as errors:
                process = start_confined(program, ["--no-config", "--version"], root_fd, errors)
                if match := re.match(
                    rb"ripgrep (\d{1,4})\.", b"".join(read_output(process, start_deadline(None, 5)))
                ):
                    _version_cache[key] = int(match[1])
        if _version_cache[key] >= _MIN_VERSION:
            return program
    return ""


def search_with_ripgrep(program: str, query: GrepQuery, should_stop: Callable[[int], bool]) -> GrepMatches:
    """Search with this ripgrep. Raises ToolError."""
    # Only --json tells the lines of a multi-line match apart.
    use_json = query.with_lines or query.multiline
    matches, include = GrepMatches("ripgrep"), GlobFilter(query.include)
    extra_scope = load_extra_scope(query.root_fd) if query.respect_ignore else None
    with tempfile.TemporaryFile() as errors, _write_ignore_file(query, include) as ignore:
        arguments = [
            *_BASE_OPTIONS,
            *_build_options(query, use_json),
            f"--ignore-file=/proc/self/fd/{ignore.fileno()}",
        ]
        arguments += [f"--regexp={query.pattern}", "--", f"./{query.start}"]
        process = start_confined(program, arguments, query.root_fd, errors, ignore.fileno())
        output = read_output(process, should_stop)
        try:
            files = _parse_json(output, query.limit_per_file) if use_json else _parse_counts(output)
            for file in files:
                if query.is_file or _is_included(file.path, query, include, extra_scope):
                    matches.files.append(file)
        except ProcessStopped:
            matches.complete = False
        if matches.complete and process.returncode not in (0, 1):
            _raise_error(errors, query.pattern)
    if not query.with_lines:
        for file in matches.files:
            file.lines = []
    return matches


def _build_options(query: GrepQuery, use_json: bool) -> list[str]:
    options = ["--json"] if use_json else ["--null", "--with-filename", "--count"]
    options.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if not query.respect_ignore:
        options.append("--no-ignore-vcs")
    if query.literal:
        options.append("--fixed-strings")
    if query.multiline:  # ripgrep reads such a file into memory as a whole
        options += ["--multiline", "--multiline-dotall", f"--max-filesize={MAX_FILE_SIZE}"]
    elif query.limit_per_file < UNLIMITED:
        options.append(f"--max-count={query.limit_per_file}")
    if query.file_type and not query.is_file:
        name = query.file_type
        if query.type_globs:  # our definition of a type, so that both engines agree
            options += [f"--type-clear={name}", *(f"--type-add={name}:{glob}" for glob in query.type_globs)]
        options.append(f"--type={name}")
    return options


def _raise_error(errors: BinaryIO, pattern: str) -> None:
    """Raise ToolError for what ripgrep wrote to stderr; a search that ended badly without a word is kept."""
    errors.seek(0)
    message = errors.read(1 << 14).decode("utf-8", "replace").strip()
    if match := re.search(r"unrecognized file type: (\S+)", message):
        raise unknown_type_error(match[1])
    if message:
        match = re.search(r"^error: (.+)$", message, re.MULTILINE)
        reason = match[1] if match else message.partition("\n")[0].removeprefix("rg: ")
        is_newline = '"\\n"' in reason
        reason = "a single line contains no newline" if is_newline else reason[:200]
        raise invalid_pattern_error(pattern, reason, message.removeprefix("rg: ")[:2000])


# ---- which files


def _write_ignore_file(query: GrepQuery, include: GlobFilter) -> BinaryIO:
    """Write the rules about files for ripgrep, as a file in memory; later lines win."""
    lines: list[str] = []
    globs = include.patterns
    directory = "" if query.is_file else query.start
    if globs and all(_SIMPLE_GLOB.fullmatch(glob) for _, glob in globs):
        if not all(negated for negated, _ in globs):
            lines += ["*", "!*/"]
        rules = "\n".join(f"{'' if negated else '!'}{glob}" for negated, glob in globs)
        lines += rebase_rules(rules, to_byte_key(directory))
    if query.respect_ignore:
        for base, text in (*read_gitignores(query.root_fd, directory), *read_extra_ignores(query.root_fd)):
            lines += rebase_rules(text, base)
    file = os.fdopen(os.memfd_create("ignore", os.MFD_CLOEXEC), "w+b")
    file.write("\n".join([*lines, *sorted(VCS_DIRECTORIES)]).encode("latin-1", "replace"))
    file.flush()
    return file


def _is_included(path: str, query: GrepQuery, include: GlobFilter, extra_scope: IgnoreScope | None) -> bool:
    local = path[query.prefix_length :]
    if not VCS_DIRECTORIES.isdisjoint(local.split("/")):
        return False
    if include and not include.admits(local):
        return False
    if extra_scope is None:
        return True
    key = to_byte_key(path)
    end = key.find("/", query.prefix_length)
    while end >= 0:  # a rule for any directory on the way excludes the file, too
        if extra_scope.ignores(key[:end], key[key.rfind("/", 0, end) + 1 : end], True):
            return False
        end = key.find("/", end + 1)
    return not extra_scope.ignores(key, key.rpartition("/")[2], False)


# ---- ripgrep's output


class _RgBytes(msgspec.Struct):
    text: str = ""
    encoded: str | None = msgspec.field(default=None, name="bytes")

    @property
    def raw(self) -> bytes:
        return base64.b64decode(self.encoded) if self.encoded is not None else self.text.encode()


class _RgSubmatch(msgspec.Struct):
    start: int
    end: int


class _RgData(msgspec.Struct):
    path: _RgBytes | None = None
    lines: _RgBytes | None = None
    line_number: int | None = None
    submatches: list[_RgSubmatch] = []
    binary_offset: int | None = None


class _RgEvent(msgspec.Struct):
    type: str
    data: _RgData


def _parse_json(chunks: Iterator[bytes], limit: int) -> Iterator[FileMatches]:
    decode = msgspec.json.Decoder(_RgEvent).decode
    lines: list[MatchedLine] = []
    for record in split_records(chunks, b"\n"):
        event = decode(_shorten_record(record))
        data = event.data
        if event.type == "begin":
            lines = []
        elif event.type == "match" and data.lines is not None:
            _add_lines(lines, data.lines.raw, data, limit)
        elif event.type == "end" and lines and data.path is not None:
            # ripgrep searches a file up to its first NUL; one near the start makes it binary for us
            if data.binary_offset is None or data.binary_offset >= BINARY_PROBE_SIZE:
                yield _make_file(data.path.raw, len(lines), lines)


def _shorten_record(record: bytes) -> bytes:
    """Drop most submatches of a line that has very many: those in a line of 1 MB may be 60 MB of JSON."""
    key = record.find(b'"submatches":[')  # quotes in texts are escaped, so this can only be the key
    if key < 0 or len(record) - key <= _MAX_SUBMATCH_BYTES:
        return record
    end = record.rfind(b'},{"match":', key, key + _MAX_SUBMATCH_BYTES)
    return record if end < 0 else record[:end] + b"}]}}"


def _add_lines(lines: list[MatchedLine], text: bytes, data: _RgData, limit: int) -> None:
    """Add the lines of a match, which may be several: each gets its part of the submatches."""
    start = index = 0
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), data.line_number or 0):
        if len(lines) >= limit:
            return
        while index < len(data.submatches) and data.submatches[index].end < start:
            index += 1
        spans: list[tuple[int, int]] = []
        for sub in islice(data.submatches, index, None):
            if sub.start > start + len(line):
                break
            spans.append((max(sub.start - start, 0), min(sub.end - start, len(line))))
        first = spans[0][0] if spans else 0
        matches = [_decode(line[a:b]) for a, b in spans[:MAX_LINE_MATCHES] if b > a]
        lines.append((number, _decode(line), matches, len(_decode(line[:first]))))
        start += len(line) + 1


def _parse_counts(chunks: Iterator[bytes]) -> Iterator[FileMatches]:
    """Parse `path NUL count LF`: a path may contain a newline."""
    buffer, end = b"", 0
    for data in chunks:
        buffer, end = buffer[end:] + data, 0
        for match in re.finditer(rb"([^\0]*)\0(\d+)\n", buffer):
            yield _make_file(match[1], int(match[2]), [])
            end = match.end()


def _make_file(path: bytes, count: int, lines: list[MatchedLine]) -> FileMatches:
    return FileMatches(os.fsdecode(path).removeprefix("./"), count, lines)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
