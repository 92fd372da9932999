"""The tool `grep`: lines that match a regex, found by ripgrep where it is there and the kernel can hold it; else by `search`.

Laws: both find the same. ripgrep is a program from outside of the workspace, gets nothing that a model wrote but patterns, a
type and a path that was checked, reads no configuration, and is held by Landlock: whoever swaps folders meanwhile, it opens
nothing outside of the root. Every search ends: after seconds, after so much output, or when nobody waits.
"""

import base64
import ctypes
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from toolglot.builtin.glob import at_least, patience, searched_root, target_of
from toolglot.builtin.ignore import Globs, Scope, anchored_lines, as_key
from toolglot.builtin.search import (
    BINARY_HEAD,
    LARGEST_FILE,
    VCS,
    extra_rules,
    extra_texts,
    ignore_texts,
    shown,
    status_of,
    translated,
)
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["TYPES", "GrepFile", "GrepFound", "GrepLine", "grep_tools", "is_lockable", "ripgrep"]

SECONDS = 30.0
MOST_OUTPUT = 64 << 20
MOST_RESULTS = 10_000
MOST_CONTEXT = 100
LONGEST_PATTERN = 10_000
LONGEST_LINE = 2000
_ALL = 1 << 30
_OLDEST = 13  # of ripgrep's versions
_PLAIN_GLOB = re.compile(r"[\w.*?/+@=~, -]+", re.ASCII)
Engine = Literal["auto", "ripgrep", "python"]

TYPES: dict[str, str] = {
    "c": "*.c *.h *.H *.cats",
    "cpp": "*.cpp *.hpp *.cc *.hh *.cxx *.hxx *.C *.h *.H *.inl",
    "cmake": "*.cmake CMakeLists.txt",
    "config": "*.cfg *.conf *.config *.ini",
    "cs": "*.cs",
    "csharp": "*.cs",
    "css": "*.css *.scss",
    "csv": "*.csv",
    "dart": "*.dart",
    "docker": "*Dockerfile*",
    "elixir": "*.ex *.eex *.exs *.heex",
    "go": "*.go",
    "graphql": "*.graphql *.graphqls",
    "haskell": "*.hs *.lhs *.hsc",
    "html": "*.html *.htm *.ejs",
    "java": "*.java *.jsp *.jspx *.properties",
    "js": "*.js *.jsx *.mjs *.cjs *.vue",
    "json": "*.json composer.lock",
    "jsonl": "*.jsonl",
    "kotlin": "*.kt *.kts",
    "lua": "*.lua",
    "make": "Makefile makefile GNUmakefile *.mk *.mak",
    "markdown": "*.md *.markdown *.mdown *.mkdn *.mdx",
    "md": "*.md *.markdown *.mdown *.mkdn *.mdx",
    "perl": "*.pl *.PL *.pm *.perl *.t",
    "php": "*.php *.phtml",
    "protobuf": "*.proto",
    "py": "*.py *.pyi",
    "python": "*.py *.pyi",
    "r": "*.R *.r *.Rmd *.Rnw",
    "ruby": "*.rb *.gemspec *.rbw .irbrc Gemfile Rakefile config.ru",
    "rust": "*.rs",
    "scala": "*.scala *.sbt",
    "sh": "*.sh *.bash *.zsh *.ksh *.csh .bashrc .profile .zshrc",
    "sql": "*.sql *.psql",
    "svelte": "*.svelte",
    "swift": "*.swift",
    "tex": "*.tex *.sty *.cls *.bib",
    "toml": "*.toml Cargo.lock",
    "ts": "*.ts *.tsx *.mts *.cts",
    "txt": "*.txt",
    "vue": "*.vue",
    "xml": "*.xml *.xsd *.xsl *.xslt *.dtd",
    "yaml": "*.yaml *.yml",
    "zig": "*.zig",
}


# ---- what is found


class GrepLine(msgspec.Struct, frozen=True):
    """A line. `is_match`: it matches; otherwise it is near one. `matches`: what was found in it."""

    line: int
    text: str
    is_match: bool = True
    matches: tuple[str, ...] = ()


class GrepFile(msgspec.Struct, frozen=True):
    """A file with matches. `count`: its matching lines; 1 in mode files. `mtime`: seconds; 0 where it is gone."""

    path: str
    absolute: str
    count: int
    mtime: float = 0.0
    lines: tuple[GrepLine, ...] = ()


class GrepFound(msgspec.Struct, frozen=True, kw_only=True):
    """What `grep` found. `total`: matching lines in mode content, files otherwise; at least so many where not `exact`.

    `total_lines`: all matching lines in modes content and count. `complete` is False where it was stopped before the end.
    `engine`: ripgrep or python.
    """

    pattern: str
    path: str
    mode: str
    files: tuple[GrepFile, ...]
    total: int
    total_lines: int
    shown: int
    skip: int
    truncated: bool
    exact: bool = True
    complete: bool = True
    before: int = 0
    after: int = 0
    auto_context: bool = False
    engine: str = ""


Line = tuple[int, str, list[str], int]
"""Number, text, what was found in it, and where the first of that begins."""


class _File(msgspec.Struct):
    path: str
    count: int
    lines: list[Line]


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search as both ways of doing it need it. `start`: the folder below the root; `file`: a single file instead of it."""

    pattern: str
    root: int
    start: str
    file: str
    include: Globs
    kind: str
    kinds: tuple[str, ...]
    exclude: str
    mode: str
    ignore_case: bool
    literal: bool
    multiline: bool
    git: bool
    most: int
    """Lines of one file that are of interest."""
    enough: Callable[[int], bool]

    @property
    def with_lines(self) -> bool:
        return self.mode == "content"

    @property
    def cut(self) -> int:
        return len(self.start) + 1 if self.start else 0


class _Hits(msgspec.Struct):
    files: list[_File] = msgspec.field(default_factory=list[_File])
    complete: bool = True
    engine: str = ""


# ---- another program


_Process = subprocess.Popen[bytes]


class _Stopped(Exception):
    """It took too long, or said too much."""


def _output(process: _Process, enough: Callable[[int], bool]) -> Iterator[bytes]:
    """What a program writes, as it comes. Raises _Stopped; the program is gone in any case."""
    assert process.stdout is not None
    handle, size = process.stdout.fileno(), 0
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    try:
        while True:
            if enough(0) or size > MOST_OUTPUT:
                raise _Stopped
            if not poll.poll(100):
                continue
            data = os.read(handle, 1 << 18)
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                return
            size += len(data)
            yield data
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.kill()
        process.wait()


def _pieces(output: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    """What stands before each `end`."""
    rest = b""
    for data in output:
        *whole, last = data.split(end)
        if whole:
            yield rest + whole[0]
            yield from whole[1:]
            rest = last
        else:
            rest += last


def _program_error(errors: BinaryIO) -> str:
    errors.seek(0)
    return errors.read(1 << 14).decode("utf-8", "replace").strip()


# ---- ripgrep

_READ_FILE, _READ_FOLDER, _EXECUTE, _EVERYTHING = 4, 8, 1, (1 << 13) - 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT, _BENEATH = 444, 445, 446, 1
_NO_NEW_PRIVILEGES = 38
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/gnu/store", "/etc/ld.so.cache")


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@lru_cache(maxsize=1)
def is_lockable() -> bool:
    """Whether this kernel can hold another program to a folder."""
    if sys.platform != "linux":
        return False
    return _libc().syscall(_CREATE_RULESET, None, 0, 1) >= 1


def _lock(root: int, program: str) -> None:
    """From now on this thread, and what it starts, reads below the root and the system's programs, and writes nowhere."""
    libc = _libc()
    handled = ctypes.c_uint64(_EVERYTHING)
    rules = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no Landlock")
    opened: list[int] = []
    try:
        allowed = {root: _READ_FILE | _READ_FOLDER}
        for path in (*_SYSTEM, program):
            with suppress(OSError):
                opened.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
                allowed[opened[-1]] = _READ_FILE | _EXECUTE | (_READ_FOLDER if os.path.isdir(path) else 0)
        for parent, rights in allowed.items():
            rule = _PathBeneath(rights, parent)
            if libc.syscall(_ADD_RULE, rules, _BENEATH, ctypes.byref(rule), 0):
                raise OSError(ctypes.get_errno(), "no rule of Landlock")
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT, rules, 0):
            raise OSError(ctypes.get_errno(), "no hold of Landlock")
    finally:
        for handle in (*opened, rules):
            os.close(handle)


def _held(program: str, arguments: list[str], root: int, given: BinaryIO, errors: BinaryIO, *keep: int) -> _Process:
    """Starts a program that is held to the root, in the root. A lock is for a thread and its children: so it has its own."""
    made: list[Any] = []

    def start() -> None:
        try:
            _lock(root, program)
            made.append(
                subprocess.Popen(
                    [program, *arguments],
                    cwd=f"/proc/self/fd/{root}",
                    env={"LC_ALL": "C.UTF-8"},
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    pass_fds=keep,
                )
            )
        except Exception as e:
            made.append(e)

    thread = threading.Thread(target=start, name="toolglot-grep")
    thread.start()
    thread.join()
    if isinstance(made[0], Exception):
        raise made[0]
    return made[0]


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
    with suppress(OSError, _Stopped), tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors:
        process = _held(program, ["--no-config", "--version"], root, nothing, errors)
        said = b"".join(_output(process, patience(None, "rg", 5)))
        if found := re.match(rb"ripgrep (\d{1,4})\.", said):
            number = int(found[1])
    _versions[program, changed] = number
    return number


_ALWAYS = (
    *("--no-config", "--color=never", "--no-messages", "--no-mmap", "--encoding=none", "--hidden", "--no-follow", "--no-pre"),
    *("--no-ignore-global", "--no-ignore-dot", "--no-ignore-parent", "--no-ignore-exclude", "--no-require-git"),
    *("--no-search-zip", "--engine=default"),
)


def _by_ripgrep(program: str, query: _Query) -> _Hits:
    detailed = query.with_lines or bool(query.exclude) or query.multiline
    arguments = [*_ALWAYS, "--json" if detailed else "--files-with-matches" if query.mode == "files" else "--count"]
    arguments += [] if detailed else ["--null", "--with-filename"]
    arguments += [flag for flag, on in _flags(query) if on]
    if query.multiline:  # such a file is in memory as a whole
        arguments.append(f"--max-filesize={LARGEST_FILE}")
    if query.most < _ALL and not (query.exclude or query.multiline) and query.mode != "files":
        arguments.append(f"--max-count={query.most}")
    if query.kind and not query.file:
        arguments += [f"--type-clear={query.kind}"] if query.kinds else []
        arguments += [f"--type-add={query.kind}:{glob}" for glob in query.kinds] + [f"--type={query.kind}"]
    hits = _Hits(engine="ripgrep")
    with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors, _ignore_file(query) as ignore:
        arguments += [f"--ignore-file=/proc/self/fd/{ignore.fileno()}", f"--regexp={query.pattern}"]
        arguments += ["--", f"./{query.file or query.start}"]
        process = _held(program, arguments, query.root, nothing, errors, ignore.fileno())
        read = _json_hits if detailed else _named_hits
        extra = extra_rules(query.root) if query.git else None
        try:
            for file in read(_output(process, query.enough), query):
                if _passes(file.path, query, extra):
                    hits.files.append(file)
        except _Stopped:
            hits.complete = False
        if process.returncode not in (0, 1) and hits.complete and (said := _program_error(errors)):
            raise _refusal(said, query)
    return _excluded(program, query, hits) if query.exclude else _capped(hits, query)


def _flags(query: _Query) -> list[tuple[str, bool]]:
    return [
        ("--no-ignore-vcs", not query.git),
        ("--ignore-case", query.ignore_case),
        ("--case-sensitive", not query.ignore_case),
        ("--fixed-strings", query.literal),
        ("--multiline", query.multiline),
        ("--multiline-dotall", query.multiline),
    ]


def _ignore_file(query: _Query) -> BinaryIO:
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
        for base, text in ignore_texts(query.root, query.start):
            lines += anchored_lines(text, base)
        for text in extra_texts(query.root):
            lines += anchored_lines(text, "")
    file = os.fdopen(os.memfd_create("ignore", os.MFD_CLOEXEC), "w+b")
    file.write("\n".join([*lines, *sorted(VCS)]).encode("latin-1", "replace"))
    file.flush()
    return file


def _passes(path: str, query: _Query, extra: Scope | None) -> bool:
    """Whether a file that ripgrep found is one that was meant."""
    if query.file:
        return True
    names = path[query.cut :].split("/")
    if any(name in VCS for name in names):
        return False
    if query.include and not query.include.admits(path[query.cut :]):
        return False
    return extra is None or not _is_ignored(extra, as_key(path), query.cut)


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


def _json_hits(output: Iterator[bytes], query: _Query) -> Iterator[_File]:
    decode = msgspec.json.Decoder(_Message).decode
    lines: list[Line] = []
    for piece in _pieces(output, b"\n"):
        message = decode(piece)
        said = message.data
        if message.type == "begin":
            lines = []
        elif message.type == "match" and said.lines is not None:
            lines += _lines_of(said.lines.raw, said.line_number or 0, said.submatches)
        elif message.type == "end" and lines and said.path is not None:
            if said.binary_offset is None or said.binary_offset >= BINARY_HEAD:
                yield _File(os.fsdecode(said.path.raw).removeprefix("./"), len(lines), lines)


def _lines_of(raw: bytes, number: int, found: list[_Submatch]) -> Iterator[Line]:
    """The lines of a block that matches, each with its part of what was found."""
    start = 0
    for line in raw.removesuffix(b"\n").split(b"\n"):
        spans = [(max(one.start - start, 0), min(one.end - start, len(line))) for one in found if one.end >= start]
        spans = [(a, b) for a, b in spans if a <= b and a <= len(line)]
        texts = [line[a:b].decode("utf-8", "replace") for a, b in spans if b > a]
        yield (
            number,
            line.decode("utf-8", "replace"),
            texts,
            len(line[: spans[0][0]].decode("utf-8", "replace")) if spans else 0,
        )
        number, start = number + 1, start + len(line) + 1


def _named_hits(output: Iterator[bytes], query: _Query) -> Iterator[_File]:
    if query.mode == "files":
        for piece in _pieces(output, b"\0"):
            yield _File(os.fsdecode(piece).removeprefix("./"), 1, [])
        return
    rest, end = b"", 0
    for data in output:  # `path NUL number LF`: a path may hold a line end
        rest, end = rest[end:] + data, 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\n", rest):
            yield _File(os.fsdecode(found[1]).removeprefix("./"), int(found[2]), [])
            end = found.end()


def _refusal(said: str, query: _Query) -> ToolError:
    """What ripgrep says of a pattern, in one sentence."""
    if found := re.search(r"unrecognized file type: (\S+)", said):
        return _no_type(found[1])
    why = re.search(r"^error: (.+)$", said, re.MULTILINE)
    text = why[1] if why else said.partition("\n")[0].removeprefix("rg: ")
    if '"\\n"' in text:
        text = "a line holds no line end; set multiline to true"
    return ToolError(f"the pattern {query.pattern[:80]!r} is not a regex: {text[:200]}", kind="validation")


def _no_type(name: str) -> ToolError:
    near = get_close_matches(name, TYPES, n=3, cutoff=0.5) or ["py", "js", "ts"]
    return ToolError(f"there is no file type {name!r}; did you mean {' or '.join(map(repr, near))}?", kind="validation")


def _excluded(program: str, query: _Query, hits: _Hits) -> _Hits:
    """Without the lines that match another regex: ripgrep looks through the lines themselves."""
    with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as errors:
        lines.writelines(line[1].encode() + b"\n" for file in hits.files for line in file.lines)
        lines.seek(0)
        arguments = ["--no-config", "--color=never", "--text", "--encoding=none", "--invert-match", "--line-number"]
        arguments += ["--no-filename", "--ignore-case" if query.ignore_case else "--case-sensitive"]
        process = _held(program, [*arguments, f"--regexp={query.exclude}", "--", "-"], query.root, lines, errors)
        try:
            kept = {int(piece.partition(b":")[0]) for piece in _pieces(_output(process, query.enough), b"\n")}
        except _Stopped:
            raise _too_long() from None
        if process.returncode not in (0, 1):
            raise _refusal(_program_error(errors), msgspec.structs.replace(query, pattern=query.exclude))
    number, files = 0, list[_File]()
    for file in hits.files:
        first, number = number + 1, number + len(file.lines)
        file.lines = [line for at, line in enumerate(file.lines, first) if at in kept]
        if file.lines:
            files.append(file)
    hits.files = files
    return _capped(hits, query)


def _capped(hits: _Hits, query: _Query) -> _Hits:
    for file in hits.files:
        if file.lines:
            file.count = min(len(file.lines), query.most)
            file.lines = file.lines[: query.most] if query.with_lines else []
    return hits


# ---- Python

_START = "import sys; sys.path.append(sys.argv[1]); from toolglot.builtin.search import worker; worker()"


def _by_python(query: _Query) -> _Hits:
    options = {"ignore_case": query.ignore_case, "multiline": query.multiline}
    regex = translated(query.pattern, literal=query.literal, **options)
    exclude = translated(query.exclude, ignore_case=query.ignore_case).source if query.exclude else ""
    task = {
        "source": regex.source,
        "literal": regex.literal,
        "exclude": exclude,
        **options,
        "root": query.root,
        "start": query.start,
        "file": query.file,
        "git": query.git,
        "include": [f"{'!' * negated}{glob}" for negated, glob in query.include.lines],
        "kinds": query.kinds,
        "most": query.most,
        "with_lines": query.with_lines,
    }
    hits, ended = _Hits(engine="python"), False
    try:
        for said in _answers(task, query.enough):
            if "error" in said:
                raise ToolError(f"the pattern {query.pattern[:80]!r} is not a regex: {said['error']}", kind="validation")
            if "path" in said:
                lines = [(number, text, found, first) for number, text, found, first in said["lines"]]
                hits.files.append(_File(said["path"], said["count"], lines))
            else:
                ended, hits.complete = True, not said["ended"]
    except _Stopped:
        ended, hits.complete = True, False
    if not ended:
        raise ToolError("the search stopped for a reason of its own; search in a smaller folder", kind="execution")
    return hits


def _answers(task: dict[str, Any], enough: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """What a process that matches says to a task. Raises _Stopped."""
    source = str(Path(__file__).parents[2])
    keep = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(task).encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", _START, source],
            cwd="/",
            env=keep,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(task["root"],),
        )
        for piece in _pieces(_output(process, enough), b"\n"):
            yield json.loads(piece)


# ---- the tool


def _too_long() -> ToolError:
    return ToolError(
        f"the search took longer than {SECONDS:.0f} seconds; give a path, an include_glob or a simpler pattern", kind="timeout"
    )


def _checked(pattern: str, name: str, *, multiline: bool) -> None:
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{name} holds half a character", kind="validation") from None
    if not pattern:
        raise ToolError(f"{name} is empty; give the regex to look for", kind="validation")
    if "\0" in pattern:
        raise ToolError(f"{name} holds a zero byte, which no text file has", kind="validation")
    if len(pattern) > LONGEST_PATTERN:
        raise ToolError(f"{name} is longer than {LONGEST_PATTERN} characters", kind="validation")
    if "\n" in pattern and not multiline:
        raise ToolError(f"{name} holds a line end, and a line does not; set multiline to true", kind="validation")


def grep_tools(box: Toolbox, *, engine: Engine = "auto") -> list[Tool]:
    """The tool `grep`, for a toolbox. `engine`: auto takes ripgrep where it can."""

    @tool(
        name="grep",
        effects="read",
        idempotent=True,
        target=target_of(box),
        examples=[
            {"pattern": "def \\w+_tools", "include_glob": "*.py"},
            {"pattern": "TODO", "path": "src", "mode": "files", "ignore_case": True},
        ],
    )
    def grep(  # noqa: D417
        pattern: str,
        path: str = ".",
        include_glob: str = "",
        file_type: str = "",
        exclude_line_regex: str = "",
        mode: Literal["content", "files", "count"] = "content",
        before: int | None = None,
        after: int | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        multiline: bool = False,
        only_matching: bool = False,
        line_numbers: bool = True,
        max_results: int = 250,
        max_per_file: int | None = None,
        skip: int = 0,
        no_ignore: bool = False,
        auto_context: bool = False,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Search the contents of files with a regex in ripgrep's syntax: a brace that is meant needs a backslash.

        Hidden files are searched; binary ones, links, what .gitignore names and what version control keeps for itself are not.

        Args:
            pattern: The regex to look for.
            path: The folder or the file to search; the workspace without it.
            include_glob: Only files that match, such as '*.{ts,tsx}' or 'src/**'; '!' before one leaves files out; several
                are separated by commas.
            file_type: Only files of a type, such as py, js, rust.
            exclude_line_regex: Leave out lines that match this regex too.
            mode: content is the lines; files is the paths, newest first; count is how many lines of each file.
            before: Lines to show before each match.
            after: Lines to show after each match.
            ignore_case: Whether case does not count.
            literal: The pattern is plain text, not a regex.
            multiline: A match may go over several lines, and '.' matches line ends.
            only_matching: Show what was found instead of the lines.
            line_numbers: Show the numbers of lines.
            max_results: How many lines, or files, to show at most; 0 is as many as possible.
            max_per_file: How many lines of one file to find at most.
            skip: How many of the first results to leave out.
            no_ignore: Search what ignore files name, too.
            auto_context: Where there are at most three matches, show lines around them.
        """
        _checked(pattern, "pattern", multiline=multiline)
        if exclude_line_regex:
            _checked(exclude_line_regex, "exclude_line_regex", multiline=False)
        at_least("max_results", max_results)
        at_least("skip", skip)
        around = at_least("before", before or 0), at_least("after", after or 0)
        around = min(around[0], MOST_CONTEXT), min(around[1], MOST_CONTEXT)
        limit = min(max_results or MOST_RESULTS, MOST_RESULTS)
        need = limit + skip + 1
        most = at_least("max_per_file", max_per_file, 1) if max_per_file is not None else _ALL
        with _Searched(box, path or ".") as place:
            query = _Query(
                pattern=pattern,
                root=place.root,
                start=place.start,
                file=place.file,
                include=Globs.of(include_glob),
                kind=file_type,
                kinds=_kinds(file_type),
                exclude=exclude_line_regex,
                mode=mode,
                ignore_case=ignore_case,
                literal=literal,
                multiline=multiline,
                git=not no_ignore,
                most=1 if mode == "files" else min(most, need) if mode == "content" else most,
                enough=patience(context, "grep", SECONDS),
            )
            hits = _found(box, query, engine)
            if not hits.complete and not hits.files:
                raise _too_long()
            window = _Window(hits, mode, skip, limit)
            auto = auto_context and before is None and after is None and mode == "content" and 1 <= window.total <= 3
            if auto:
                around = (50, 50) if window.total == 1 else (15, 15)
            files = [_presented(box, place, file, around, only_matching) for file in window.files]
        found = GrepFound(
            pattern=pattern,
            path=shown(place.whole),
            mode=mode,
            files=tuple(files),
            total=window.total,
            total_lines=sum(file.count for file in hits.files) if mode != "files" else 0,
            shown=window.count,
            skip=skip,
            truncated=window.total > skip + window.count,
            exact=hits.complete and not (mode == "content" and need <= most and any(one.count >= need for one in hits.files)),
            complete=hits.complete,
            before=around[0],
            after=around[1],
            auto_context=auto,
            engine=hits.engine,
        )
        return ToolOutput(_text(box, found, line_numbers, only_matching), built(found))

    return [grep]


def _kinds(file_type: str) -> tuple[str, ...]:
    if file_type and not re.fullmatch(r"[A-Za-z0-9_+-]{1,40}", file_type):
        raise _no_type(file_type[:40])
    return tuple(TYPES.get(file_type, "").split())


def _found(box: Toolbox, query: _Query, engine: Engine) -> _Hits:
    program = ripgrep(box, query.root) if engine != "python" else ""
    if engine == "ripgrep" and not program:
        raise ToolError("ripgrep (rg) is not installed, is too old, or cannot be held by this kernel", kind="execution")
    if program:
        hits = _by_ripgrep(program, query)
    else:
        if query.kind and not query.kinds:
            raise _no_type(query.kind)
        hits = _by_python(query)
    hits.files.sort(key=lambda file: file.path)
    if query.mode == "files":
        times = {file.path: _changed(query.root, file.path) for file in hits.files[:MOST_RESULTS]}
        hits.files.sort(key=lambda file: (-times.get(file.path, 0), file.path))
    return hits


def _changed(root: int, path: str) -> int:
    status = status_of(root, path)
    return status.st_mtime_ns if status else 0


class _Searched:
    """What is searched, open while it is: a root, and a folder or a file below it."""

    def __init__(self, box: Toolbox, path: str) -> None:
        self._box, self._path = box, path
        self.root, self.is_main = -1, True
        self.start = self.file = self.whole = self.top = ""

    def __enter__(self) -> "_Searched":
        workspace = self._box.workspace
        found = workspace.look(self._path)
        if found is None:
            raise ToolError(
                f"there is no {self._path!r} in the workspace; list its folder to see what is there", kind="not_found"
            )
        is_folder = (found.status.st_mode & 0o170000) == 0o040000
        if not is_folder:
            self._check_file()
        self.start, self.file = (found.real, "") if is_folder else ("", found.real)
        self.whole = str(found.path)
        self._listing = workspace.listing(searched_root(self._box, self.whole, found.real))
        opened = self._listing.__enter__()
        self.root, self.top = opened.handle, str(opened.path).rstrip("/")
        self.is_main = self.top == str(workspace.root).rstrip("/")
        return self

    def __exit__(self, *error: object) -> None:
        self._listing.__exit__(None, None, None)

    def _check_file(self) -> None:
        with self._box.workspace.reading(self._path) as opened:
            if opened.status.st_size > LARGEST_FILE:
                raise ToolError(f"{self._path!r} is larger than {LARGEST_FILE >> 20} MB; read parts of it", kind="limit")
            if b"\0" in os.read(opened.handle, BINARY_HEAD):
                raise ToolError(f"{self._path!r} is a binary file; grep searches text", kind="execution")


class _Window:
    """The part of the results that is shown."""

    def __init__(self, hits: _Hits, mode: str, skip: int, limit: int) -> None:
        if mode != "content":
            self.files = hits.files[skip : skip + limit]
            self.total, self.count = len(hits.files), len(self.files)
            return
        self.files, self.total, self.count = list[_File](), 0, 0
        for file in hits.files:
            first, self.total = self.total, self.total + file.count
            lines = file.lines[max(skip - first, 0) : max(skip + limit - first, 0)]
            if lines:
                self.files.append(_File(file.path, file.count, lines))
                self.count += len(lines)


def _presented(box: Toolbox, place: _Searched, file: _File, around: tuple[int, int], only: bool) -> GrepFile:
    absolute = f"{place.top}/{file.path}"
    lines = [GrepLine(number, _short(text, at), True, tuple(found)) for number, text, found, at in file.lines]
    if any(around) and lines and not only:
        lines = _with_context(box, absolute, lines, around)
    changed = _changed(place.root, file.path) / 1e9
    return GrepFile(shown(file.path if place.is_main else absolute), shown(absolute), file.count, changed, tuple(lines))


def _short(text: str, at: int = 0) -> str:
    """A line of bearable length: its beginning, or what is around the first match."""
    text = text.removesuffix("\r")
    if len(text) <= LONGEST_LINE:
        return text
    start = max(at - LONGEST_LINE // 4, 0) if at > LONGEST_LINE * 3 // 4 else 0
    end = start + LONGEST_LINE
    before = f"[… {start} characters] " if start else ""
    after = f" [{len(text) - end} more characters …]" if len(text) > end else ""
    return f"{before}{text[start:end]}{after}"


def _with_context(box: Toolbox, path: str, lines: list[GrepLine], around: tuple[int, int]) -> list[GrepLine]:
    """The lines with those around them, read from the file itself."""
    wanted = {number for line in lines for number in range(line.line - around[0], line.line + around[1] + 1)}
    found = {line.line: line for line in lines}
    last = max(wanted)
    with suppress(ToolError, OSError), box.workspace.reading(path) as opened, os.fdopen(os.dup(opened.handle), "rb") as file:
        for number, raw in enumerate(file, 1):
            if number > last:
                break
            if number in wanted and number not in found:
                text = raw.removesuffix(b"\n").decode("utf-8", "replace")
                found[number] = GrepLine(number, _short(text), False)
    return [found[number] for number in sorted(found)]


def _text(box: Toolbox, found: GrepFound, numbers: bool, only: bool) -> str:
    match found.mode:
        case "files":
            lines = [file.path for file in found.files]
        case "count":
            lines = [f"{file.path}:{file.count}" for file in found.files]
        case _:
            lines = list(_content(found, numbers, only))
    what = "matching lines" if found.mode == "content" else "files"
    if found.truncated:
        total = f"{found.total}" if found.exact else f"at least {found.total}"
        going = f"go on with skip={found.skip + found.shown}"
        lines.append(f"[{what} {found.skip + 1} to {found.skip + found.shown} of {total}; {going}]")
    elif not found.files and found.skip and found.total:
        lines.append(f"[there are only {found.total} {what}]")
    elif not found.files:
        lines.append(f"No matches for {found.pattern[:200]!r} in {found.path!r}.")
    if not found.complete:
        lines.append("[stopped before everything was searched: give a path or an include_glob]")
    return "\n".join(lines)


def _content(found: GrepFound, numbers: bool, only: bool) -> Iterable[str]:
    groups = bool(found.before or found.after) and not only
    started = False
    for file in found.files:
        last = -1
        for line in file.lines:
            if groups and started and (last < 0 or line.line > last + 1):
                yield "--"
            last, started = line.line, True
            mark = ":" if line.is_match else "-"
            head = f"{file.path}{mark}{line.line}{mark}" if numbers else f"{file.path}{mark}"
            for text in (_short(one) for one in line.matches) if only else (line.text,):
                yield head + text
