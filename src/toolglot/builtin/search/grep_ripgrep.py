"""A search for lines by ripgrep.

Laws: it is a program from outside of the workspace, gets nothing that a model wrote but patterns, a type and a path that was
checked, reads no configuration, and is held by the kernel to the root. What it finds is looked at again by our own rules.
"""

import base64
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from toolglot.builtin.child_process import ProcessStopped, has_landlock, read_output, split_records, start_confined
from toolglot.builtin.search.grep_query import UNLIMITED, FileMatches, GrepMatches, GrepQuery, MatchedLine, unknown_type_error
from toolglot.builtin.search.ignore import IgnoreScope, rebase_rules, to_byte_key
from toolglot.builtin.search.regexes import NEWLINE_HINT, invalid_regex_error
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
from toolglot.errors import ToolError

__all__ = ["find_ripgrep", "search_with_ripgrep"]

_MIN_VERSION = 13  # of its versions
_SIMPLE_GLOB = re.compile(r"[\w.*?/+@=~, -]+", re.ASCII)


def find_ripgrep(state: ToolState, root_fd: int) -> str:
    """The program rg on the PATH, outside of the workspace, new enough and able to run while it is held; "" without."""
    if not has_landlock():
        return ""
    inside = [str(one.path).rstrip("/") + "/" for one in state.workspace.roots]
    places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    found = shutil.which("rg", path=os.pathsep.join(places))
    if found is None:
        return ""
    real = os.path.realpath(found)
    if any(path.startswith(tuple(inside)) for path in (found, real)):
        return ""
    return real if _read_version(real, os.stat(real).st_mtime_ns, root_fd) >= _MIN_VERSION else ""


_version_cache: dict[tuple[str, int], int] = {}


def _read_version(program: str, mtime_ns: int, root_fd: int) -> int:
    """The version of ripgrep, as it says itself once; 0 where it does not run."""
    known = _version_cache.get((program, mtime_ns))
    if known is not None:
        return known
    number = 0
    with suppress(OSError, ProcessStopped), tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors:
        process = start_confined(program, ["--no-config", "--version"], root_fd, nothing, errors)
        said = b"".join(read_output(process, start_deadline(None, "rg", 5)))
        if found := re.match(rb"ripgrep (\d{1,4})\.", said):
            number = int(found[1])
    _version_cache[program, mtime_ns] = number
    return number


_BASE_OPTIONS = (
    *("--no-config", "--color=never", "--no-messages", "--no-mmap", "--encoding=none", "--hidden", "--no-follow", "--no-pre"),
    *("--no-ignore-global", "--no-ignore-dot", "--no-ignore-parent", "--no-ignore-exclude", "--no-require-git"),
    *("--no-search-zip", "--engine=default"),
)
_CASE_OPTIONS = {True: "--ignore-case", False: "--case-sensitive"}


def search_with_ripgrep(program: str, query: GrepQuery) -> GrepMatches:
    """The search by this ripgrep. Raises ToolError."""
    detailed = query.with_lines or bool(query.exclude) or query.multiline
    hits = GrepMatches("ripgrep")
    with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors, _write_ignore_file(query) as ignore:
        arguments = [*_BASE_OPTIONS, *_build_options(query, detailed), f"--ignore-file=/proc/self/fd/{ignore.fileno()}"]
        arguments += [f"--regexp={query.pattern}", "--", f"./{query.file or query.start}"]
        process = start_confined(program, arguments, query.root, nothing, errors, ignore.fileno())
        read = _parse_json if detailed else _parse_paths if query.mode == "files" else _parse_counts
        extra = load_extra_scope(query.root) if query.git else None
        try:
            for file in read(read_output(process, query.should_stop)):
                if query.file or _is_included(file.path, query, extra):
                    hits.files.append(file)
        except ProcessStopped:
            hits.complete = False
        if process.returncode not in (0, 1) and hits.complete and (said := _read_errors(errors)):
            raise _pattern_error(said, query.pattern)
    if query.exclude:
        _drop_excluded(program, query, hits)
    for file in hits.files:
        if file.lines:
            file.count = min(len(file.lines), query.most)
            file.lines = file.lines[: query.most] if query.with_lines else []
    return hits


def _build_options(query: GrepQuery, use_json: bool) -> list[str]:
    kind = "" if query.file else query.kind
    is_capped = query.most < UNLIMITED and not query.exclude and not query.multiline and query.mode != "files"
    told: list[tuple[str, object]] = [
        ("--json", use_json),
        ("--files-with-matches" if query.mode == "files" else "--count", not use_json),
        ("--null", not use_json),
        ("--with-filename", not use_json),
        ("--no-ignore-vcs", not query.git),
        (_CASE_OPTIONS[query.ignore_case], True),
        ("--fixed-strings", query.literal),
        ("--multiline", query.multiline),
        ("--multiline-dotall", query.multiline),
        (f"--max-filesize={MAX_FILE_SIZE}", query.multiline),  # such a file is in memory as a whole
        (f"--max-count={query.most}", is_capped),
        (f"--type-clear={kind}", kind and query.kinds),
        *((f"--type-add={kind}:{glob}", kind) for glob in query.kinds),
        (f"--type={kind}", kind),
    ]
    return [option for option, is_on in told if is_on]


def _read_errors(errors: BinaryIO) -> str:
    errors.seek(0)
    return errors.read(1 << 14).decode("utf-8", "replace").strip()


def _write_ignore_file(query: GrepQuery) -> BinaryIO:
    """What ripgrep must be told about files, as a file in memory; the strongest lines are last.

    It only spares work: what it lets through is looked at again.
    """
    lines: list[str] = []
    globs = query.include.patterns
    if globs and all(_SIMPLE_GLOB.fullmatch(glob) for _, glob in globs):
        if not all(negated for negated, _ in globs):
            lines += ["*", "!*/"]
        told = "\n".join(f"{'' if negated else '!'}{glob}" for negated, glob in globs)
        lines += rebase_rules(told, to_byte_key(query.start))
    if query.git:
        for base, text in (*read_gitignores(query.root, query.start), *read_extra_ignores(query.root)):
            lines += rebase_rules(text, base)
    file = os.fdopen(os.memfd_create("ignore", os.MFD_CLOEXEC), "w+b")
    file.write("\n".join([*lines, *sorted(VCS_DIRECTORIES)]).encode("latin-1", "replace"))
    file.flush()
    return file


def _is_included(path: str, query: GrepQuery, extra_scope: IgnoreScope | None) -> bool:
    """Whether a file that ripgrep found is one that was meant."""
    cut = len(query.start) + 1 if query.start else 0
    if not VCS_DIRECTORIES.isdisjoint(path[cut:].split("/")) or (query.include and not query.include.admits(path[cut:])):
        return False
    return extra_scope is None or not _is_ignored(extra_scope, to_byte_key(path), cut)


def _is_ignored(scope: IgnoreScope, path: str, prefix_length: int) -> bool:
    """Whether rules ignore a file, or a folder that it is in, below where the search began."""
    at = path.find("/", prefix_length)
    while at >= 0:
        if scope.ignores(path[:at], path[path.rfind("/", 0, at) + 1 : at], True):
            return True
        at = path.find("/", at + 1)
    return scope.ignores(path, path.rpartition("/")[2], False)


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


def _parse_json(chunks: Iterator[bytes]) -> Iterator[FileMatches]:
    decode = msgspec.json.Decoder(_RgEvent).decode
    lines: list[MatchedLine] = []
    for piece in split_records(chunks, b"\n"):
        message = decode(piece)
        said = message.data
        if message.type == "begin":
            lines = []
        elif message.type == "match" and said.lines is not None:
            lines += _split_match(said.lines.raw, said.line_number or 0, said.submatches)
        elif message.type == "end" and lines and said.path is not None:
            if said.binary_offset is None or said.binary_offset >= BINARY_PROBE_SIZE:
                yield _make_file(said.path.raw, len(lines), lines)


def _split_match(raw: bytes, number: int, submatches: list[_RgSubmatch]) -> Iterator[MatchedLine]:
    """The lines of a block that matches, each with its part of what was found."""
    start = 0
    for line in raw.removesuffix(b"\n").split(b"\n"):
        spans = [(max(one.start - start, 0), min(one.end - start, len(line))) for one in submatches if one.end >= start]
        spans = [(a, b) for a, b in spans if a <= b and a <= len(line)]
        first = spans[0][0] if spans else 0
        yield number, _decode(line), [_decode(line[a:b]) for a, b in spans if b > a], len(_decode(line[:first]))
        number, start = number + 1, start + len(line) + 1


def _parse_paths(chunks: Iterator[bytes]) -> Iterator[FileMatches]:
    return (_make_file(path, 1, []) for path in split_records(chunks, b"\0"))


def _parse_counts(chunks: Iterator[bytes]) -> Iterator[FileMatches]:
    """`path NUL number LF`: a path may hold a line end."""
    rest, end = b"", 0
    for data in chunks:
        rest, end = rest[end:] + data, 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\n", rest):
            yield _make_file(found[1], int(found[2]), [])
            end = found.end()


def _make_file(path: bytes, count: int, lines: list[MatchedLine]) -> FileMatches:
    return FileMatches(os.fsdecode(path).removeprefix("./"), count, lines)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _pattern_error(message: str, pattern: str) -> ToolError:
    """What ripgrep says of a pattern, in one sentence."""
    if found := re.search(r"unrecognized file type: (\S+)", message):
        return unknown_type_error(found[1])
    why = re.search(r"^error: (.+)$", message, re.MULTILINE)
    text = why[1] if why else message.partition("\n")[0].removeprefix("rg: ")
    return invalid_regex_error(pattern, text[:200] if '"\\n"' not in text else NEWLINE_HINT)


def _drop_excluded(program: str, query: GrepQuery, matches: GrepMatches) -> None:
    """Takes out the lines that match another regex: ripgrep looks through the lines themselves."""
    with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as errors:
        lines.writelines(line[1].encode() + b"\n" for file in matches.files for line in file.lines)
        lines.seek(0)
        arguments = ["--no-config", "--color=never", "--text", "--encoding=none", "--invert-match", "--line-number"]
        arguments += ["--no-filename", _CASE_OPTIONS[query.ignore_case], f"--regexp={query.exclude}", "--", "-"]
        process = start_confined(program, arguments, query.root, lines, errors)
        try:
            kept = {int(piece.partition(b":")[0]) for piece in split_records(read_output(process, query.should_stop), b"\n")}
        except ProcessStopped:
            matches.files, matches.complete = [], False
            return
        if process.returncode not in (0, 1):
            raise _pattern_error(_read_errors(errors), query.exclude)
    number = 0
    for file in matches.files:
        first, number = number + 1, number + len(file.lines)
        file.lines = [line for at, line in enumerate(file.lines, first) if at in kept]
    matches.files = [file for file in matches.files if file.lines]
