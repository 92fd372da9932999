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

from toolglot.builtin.finding import ALL, File, Hits, Line, Query, no_type
from toolglot.builtin.ignore import Scope, anchored_lines, as_key
from toolglot.builtin.looking import patience
from toolglot.builtin.programs import Stopped, held, is_lockable, output, pieces
from toolglot.builtin.regexes import NO_LINE_END, not_regex
from toolglot.builtin.toolbox import Toolbox
from toolglot.builtin.walk import BINARY_HEAD, LARGEST_FILE, VCS, extra_rules, extra_texts, ignore_texts
from toolglot.errors import ToolError

__all__ = ["by_ripgrep", "ripgrep"]

_OLDEST = 13  # of its versions
_PLAIN_GLOB = re.compile(r"[\w.*?/+@=~, -]+", re.ASCII)


def ripgrep(box: Toolbox, root: int) -> str:
    """The program rg on the PATH, outside of the workspace, new enough and able to run while it is held; "" without."""
    if not is_lockable():
        return ""
    inside = [str(one.path).rstrip("/") + "/" for one in box.workspace.roots]
    places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    found = shutil.which("rg", path=os.pathsep.join(places))
    if found is None:
        return ""
    real = os.path.realpath(found)
    if any(path.startswith(tuple(inside)) for path in (found, real)):
        return ""
    return real if _version(real, os.stat(real).st_mtime_ns, root) >= _OLDEST else ""


_versions: dict[tuple[str, int], int] = {}


def _version(program: str, changed: int, root: int) -> int:
    """The version of ripgrep, as it says itself once; 0 where it does not run."""
    known = _versions.get((program, changed))
    if known is not None:
        return known
    number = 0
    with suppress(OSError, Stopped), tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors:
        process = held(program, ["--no-config", "--version"], root, nothing, errors)
        said = b"".join(output(process, patience(None, "rg", 5)))
        if found := re.match(rb"ripgrep (\d{1,4})\.", said):
            number = int(found[1])
    _versions[program, changed] = number
    return number


_ALWAYS = (
    *("--no-config", "--color=never", "--no-messages", "--no-mmap", "--encoding=none", "--hidden", "--no-follow", "--no-pre"),
    *("--no-ignore-global", "--no-ignore-dot", "--no-ignore-parent", "--no-ignore-exclude", "--no-require-git"),
    *("--no-search-zip", "--engine=default"),
)
_CASE = {True: "--ignore-case", False: "--case-sensitive"}


def by_ripgrep(program: str, query: Query) -> Hits:
    """The search by this ripgrep. Raises ToolError."""
    detailed = query.with_lines or bool(query.exclude) or query.multiline
    hits = Hits("ripgrep")
    with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors, _ignore_file(query) as ignore:
        arguments = [*_ALWAYS, *_options(query, detailed), f"--ignore-file=/proc/self/fd/{ignore.fileno()}"]
        arguments += [f"--regexp={query.pattern}", "--", f"./{query.file or query.start}"]
        process = held(program, arguments, query.root, nothing, errors, ignore.fileno())
        read = _json_hits if detailed else _named_files if query.mode == "files" else _counted_files
        extra = extra_rules(query.root) if query.git else None
        try:
            for file in read(output(process, query.enough)):
                if query.file or _is_meant(file.path, query, extra):
                    hits.files.append(file)
        except Stopped:
            hits.complete = False
        if process.returncode not in (0, 1) and hits.complete and (said := _program_error(errors)):
            raise _refusal(said, query.pattern)
    if query.exclude:
        _exclude(program, query, hits)
    for file in hits.files:
        if file.lines:
            file.count = min(len(file.lines), query.most)
            file.lines = file.lines[: query.most] if query.with_lines else []
    return hits


def _options(query: Query, detailed: bool) -> list[str]:
    kind = "" if query.file else query.kind
    is_capped = query.most < ALL and not query.exclude and not query.multiline and query.mode != "files"
    told: list[tuple[str, object]] = [
        ("--json", detailed),
        ("--files-with-matches" if query.mode == "files" else "--count", not detailed),
        ("--null", not detailed),
        ("--with-filename", not detailed),
        ("--no-ignore-vcs", not query.git),
        (_CASE[query.ignore_case], True),
        ("--fixed-strings", query.literal),
        ("--multiline", query.multiline),
        ("--multiline-dotall", query.multiline),
        (f"--max-filesize={LARGEST_FILE}", query.multiline),  # such a file is in memory as a whole
        (f"--max-count={query.most}", is_capped),
        (f"--type-clear={kind}", kind and query.kinds),
        *((f"--type-add={kind}:{glob}", kind) for glob in query.kinds),
        (f"--type={kind}", kind),
    ]
    return [option for option, is_on in told if is_on]


def _program_error(errors: BinaryIO) -> str:
    errors.seek(0)
    return errors.read(1 << 14).decode("utf-8", "replace").strip()


def _ignore_file(query: Query) -> BinaryIO:
    """What ripgrep must be told about files, as a file in memory; the strongest lines are last.

    It only spares work: what it lets through is looked at again.
    """
    lines: list[str] = []
    globs = query.include.lines
    if globs and all(_PLAIN_GLOB.fullmatch(glob) for _, glob in globs):
        if not all(negated for negated, _ in globs):
            lines += ["*", "!*/"]
        told = "\n".join(f"{'' if negated else '!'}{glob}" for negated, glob in globs)
        lines += anchored_lines(told, as_key(query.start))
    if query.git:
        for base, text in (*ignore_texts(query.root, query.start), *extra_texts(query.root)):
            lines += anchored_lines(text, base)
    file = os.fdopen(os.memfd_create("ignore", os.MFD_CLOEXEC), "w+b")
    file.write("\n".join([*lines, *sorted(VCS)]).encode("latin-1", "replace"))
    file.flush()
    return file


def _is_meant(path: str, query: Query, extra: Scope | None) -> bool:
    """Whether a file that ripgrep found is one that was meant."""
    cut = len(query.start) + 1 if query.start else 0
    if not VCS.isdisjoint(path[cut:].split("/")) or (query.include and not query.include.admits(path[cut:])):
        return False
    return extra is None or not _is_ignored(extra, as_key(path), cut)


def _is_ignored(scope: Scope, path: str, cut: int) -> bool:
    """Whether rules ignore a file, or a folder that it is in, below where the search began."""
    at = path.find("/", cut)
    while at >= 0:
        if scope.ignores(path[:at], path[path.rfind("/", 0, at) + 1 : at], True):
            return True
        at = path.find("/", at + 1)
    return scope.ignores(path, path.rpartition("/")[2], False)


class _Bytes(msgspec.Struct):
    text: str = ""
    encoded: str | None = msgspec.field(default=None, name="bytes")

    @property
    def raw(self) -> bytes:
        return base64.b64decode(self.encoded) if self.encoded is not None else self.text.encode()


class _Submatch(msgspec.Struct):
    start: int
    end: int


class _Said(msgspec.Struct):
    path: _Bytes | None = None
    lines: _Bytes | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Said


def _json_hits(written: Iterator[bytes]) -> Iterator[File]:
    decode = msgspec.json.Decoder(_Message).decode
    lines: list[Line] = []
    for piece in pieces(written, b"\n"):
        message = decode(piece)
        said = message.data
        if message.type == "begin":
            lines = []
        elif message.type == "match" and said.lines is not None:
            lines += _lines_of(said.lines.raw, said.line_number or 0, said.submatches)
        elif message.type == "end" and lines and said.path is not None:
            if said.binary_offset is None or said.binary_offset >= BINARY_HEAD:
                yield _file(said.path.raw, len(lines), lines)


def _lines_of(raw: bytes, number: int, found: list[_Submatch]) -> Iterator[Line]:
    """The lines of a block that matches, each with its part of what was found."""
    start = 0
    for line in raw.removesuffix(b"\n").split(b"\n"):
        spans = [(max(one.start - start, 0), min(one.end - start, len(line))) for one in found if one.end >= start]
        spans = [(a, b) for a, b in spans if a <= b and a <= len(line)]
        first = spans[0][0] if spans else 0
        yield number, _text(line), [_text(line[a:b]) for a, b in spans if b > a], len(_text(line[:first]))
        number, start = number + 1, start + len(line) + 1


def _named_files(written: Iterator[bytes]) -> Iterator[File]:
    return (_file(path, 1, []) for path in pieces(written, b"\0"))


def _counted_files(written: Iterator[bytes]) -> Iterator[File]:
    """`path NUL number LF`: a path may hold a line end."""
    rest, end = b"", 0
    for data in written:
        rest, end = rest[end:] + data, 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\n", rest):
            yield _file(found[1], int(found[2]), [])
            end = found.end()


def _file(path: bytes, count: int, lines: list[Line]) -> File:
    return File(os.fsdecode(path).removeprefix("./"), count, lines)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refusal(said: str, pattern: str) -> ToolError:
    """What ripgrep says of a pattern, in one sentence."""
    if found := re.search(r"unrecognized file type: (\S+)", said):
        return no_type(found[1])
    why = re.search(r"^error: (.+)$", said, re.MULTILINE)
    text = why[1] if why else said.partition("\n")[0].removeprefix("rg: ")
    return not_regex(pattern, text[:200] if '"\\n"' not in text else NO_LINE_END)


def _exclude(program: str, query: Query, hits: Hits) -> None:
    """Takes out the lines that match another regex: ripgrep looks through the lines themselves."""
    with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as errors:
        lines.writelines(line[1].encode() + b"\n" for file in hits.files for line in file.lines)
        lines.seek(0)
        arguments = ["--no-config", "--color=never", "--text", "--encoding=none", "--invert-match", "--line-number"]
        arguments += ["--no-filename", _CASE[query.ignore_case], f"--regexp={query.exclude}", "--", "-"]
        process = held(program, arguments, query.root, lines, errors)
        try:
            kept = {int(piece.partition(b":")[0]) for piece in pieces(output(process, query.enough), b"\n")}
        except Stopped:
            hits.files, hits.complete = [], False
            return
        if process.returncode not in (0, 1):
            raise _refusal(_program_error(errors), query.exclude)
    number = 0
    for file in hits.files:
        first, number = number + 1, number + len(file.lines)
        file.lines = [line for at, line in enumerate(file.lines, first) if at in kept]
    hits.files = [file for file in hits.files if file.lines]
