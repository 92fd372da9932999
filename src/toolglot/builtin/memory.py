"""The tool `memory`: notes that outlive a conversation, as text files in a private directory known as
/memories.

Invariants: the directory is a workspace of its own, so that no path leads out of it, and its files are read
and edited as all others are. Links in it are never used. A file changes whole or not at all; a directory is
renamed or deleted in one step.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

from toolglot.builtin.edit.edit_tools import EditTools, TextEdit, build_snippet
from toolglot.builtin.files.descriptors import stat_at, translate_os_errors
from toolglot.builtin.files.text import Document, check_text
from toolglot.builtin.files.text_files import TextChange, load_document
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.common.textutil import format_size, number_lines, pluralize, split_lines
from toolglot.errors import ToolError, UsageError
from toolglot.schema.derive import Internal
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.failures import LineOutOfRange, MissingPath, invalid_argument

__all__ = ["ROOT", "create_tools"]

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

ROOT = "/memories"
MAX_FILE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 16 * 1024 * 1024
MAX_FILES = 1000
MAX_DEPTH = 10
LISTING_DEPTH = 2
_CONTEXT_LINES = 2  # around a change
_PARAMETERS: dict[Command, tuple[str, ...]] = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "file_text"),
    "delete": ("path",),
    "rename": ("path", "new_path"),
}
"""What each command needs; only `view_range` is optional."""


def create_tools(state: ToolState) -> list[Tool]:
    """Return the tool `memory`; nothing if there is no directory to keep notes in."""
    if state.state_dir is None:
        return []
    # A note may be an instruction that a page or a file has planted: it must not be read in other projects.
    root = state.workspace.root.resolve()
    project = (
        f"{re.sub(r'[^A-Za-z0-9._-]', '_', root.name)[:40]}-{sha256(os.fsencode(root)).hexdigest()[:16]}"
    )
    directory, lock = state.state_dir / "memory" / ("shared" if state.shared_memory else project), Lock()
    view, create = {"command": "view", "path": ROOT}, {"command": "create", "path": f"{ROOT}/style.md"}
    examples = [view, {**create, "file_text": "Tests are written first.\n"}]

    def memory(
        command: Command,
        path: str | None = None,
        view_range: list[int] | None = None,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
        new_path: str | None = None,
        insert_text: Annotated[str | None, Internal] = None,
        old_path: Annotated[str | None, Internal] = None,
    ) -> ToolOutput:
        """Read and write notes under /memories that persist across conversations.

        View /memories before you begin. Write down what will be useful later, brief and accurate. Never store secrets.

        Args:
            command: view a file or directory, create a file, str_replace text in a file, insert lines into
                it, delete or rename a file or directory.
            path: File or directory, such as /memories/style.md.
            view_range: First and last line to view, counted from 1; -1 as the last means the end of the file
                (default: all).
            file_text: For create: the text of the new file. For insert: the lines to insert.
            old_str: For str_replace: the text to replace, which must occur exactly once in the file.
            new_str: For str_replace: the text to put in its place.
            insert_line: For insert: number of the line after which to insert; 0 inserts at the top.
            new_path: For rename: the new path.
            insert_text: The lines to insert, instead of file_text.
            old_path: What to rename, instead of path.
        """
        arguments = {
            "path": path,
            "view_range": view_range,
            "file_text": file_text,
            "old_str": old_str,
            "new_str": new_str,
        }
        arguments |= {
            "insert_line": insert_line,
            "new_path": new_path,
            "insert_text": insert_text,
            "old_path": old_path,
        }
        with lock, _open_memory(directory) as notes:
            text, data = _Memory(notes).run(command, arguments)
        return ToolOutput(text, {"command": command, **data})

    def target(arguments: dict[str, Any]) -> str:
        paths = [str(arguments[name]) for name in ("path", "old_path", "new_path") if arguments.get(name)]
        return ", ".join(
            path.replace(ROOT, str(directory), 1) if path.startswith(ROOT) else path for path in paths
        )

    def is_quiet(arguments: dict[str, Any]) -> bool:
        return not state.shared_memory or arguments.get("command") == "view"

    return [
        Tool(
            memory,
            effects=("read", "write"),
            action="think",
            verb="Memory",
            quiet=is_quiet,
            target=target,
            examples=examples,
        )
    ]


@contextmanager
def _open_memory(directory: Path) -> Generator[ToolState]:
    """Open the directory as a workspace; it is created if it is missing."""
    try:
        # `parents=True` would create `memory` for everybody.
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(exist_ok=True, mode=0o700)
        workspace = Workspace(directory, alias=ROOT, protected_names=())
    except (OSError, UsageError) as e:
        reason = (
            (e.strerror or type(e).__name__) if isinstance(e, OSError) else "its directory cannot be opened"
        )
        raise ToolError(
            f"the memory is unavailable ({reason}): continue without it", code="io_error"
        ) from None
    try:
        yield ToolState(workspace, require_read=None)
    finally:
        workspace.close()


def _normalize_path(path: str, *, is_file: bool = False) -> str:
    """Return a path under /memories without '.' and empty parts. Raises ToolError."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        message = f"{path[:200]!r} is not in the memory: begin the path with {ROOT}/"
        raise ToolError(message, kind="not_allowed", code="path_not_allowed")
    names = [name for name in path[len(ROOT) :].split("/") if name not in ("", ".")]
    if ".." in names:
        message = f"{path[:200]!r} contains '..': write the path without it"
        raise ToolError(message, kind="not_allowed", code="path_not_allowed")
    if len(names) > MAX_DEPTH:
        raise _depth_error(path)
    if is_file and (not names or path.endswith("/")):
        raise ToolError(
            f"{path[:200]!r} is not the path of a file: add a name", kind="validation", code="is_directory"
        )
    return "/".join((ROOT, *names))


def _depth_error(path: str) -> ToolError:
    message = f"{path[:200]!r} is more than {MAX_DEPTH} directories deep: use fewer"
    return ToolError(message, kind="limit", code="quota_exceeded")


_Answer = tuple[str, dict[str, Any]]
"""The text for a model, and the data. Paths begin with /memories; lines are without their endings."""


class _Memory:
    """The commands, on an open memory."""

    def __init__(self, state: ToolState) -> None:
        self._state, self._workspace, self._edits = state, state.workspace, EditTools(state)

    def run(self, command: Command, arguments: dict[str, Any]) -> _Answer:
        """Run a command. Raises ToolError."""
        if command not in _PARAMETERS:
            raise invalid_argument("command", f"is {command!r:.40}; use one of {', '.join(_PARAMETERS)}")
        aliases = {"path": arguments.get("old_path"), "file_text": arguments.get("insert_text")}
        values: dict[str, Any] = {}
        for name in _PARAMETERS[command]:
            value = arguments.get(name)
            values[name] = aliases.get(name) if value is None else value
            if values[name] is None and name != "view_range":
                raise invalid_argument(name, f"is missing; {command} needs it")
        return getattr(self, command)(**values)

    # ---- reading

    def _find_status(self, path: str) -> os.stat_result | None:
        """Return what is at a path, without following a link."""
        self._workspace.locate(path)  # refuses what is not a path at all
        parent, _, name = path.rpartition("/") if path != ROOT else (ROOT, "", ".")
        if self._workspace.inspect(parent) is None:
            return None
        with self._workspace.open_directory(parent) as entry, translate_os_errors(path):
            return stat_at(entry.fd, name)

    def _require_status(self, path: str) -> os.stat_result:
        """Return the status of an existing file or directory. Raises ToolError."""
        status = self._find_status(path)
        if status is None:
            message = f"no such file or directory: {path!r}; view {ROOT} to see what exists"
            raise ToolError(message, kind="not_found", code="path_not_found", details=MissingPath(path))
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            message = f"{path!r} is a link or a device, which the memory does not use"
            raise ToolError(message, kind="not_allowed", code="not_regular_file")
        return status

    def _is_directory(self, path: str) -> bool:
        return stat.S_ISDIR(self._require_status(path).st_mode)

    def _check_file(self, path: str) -> None:
        if self._is_directory(path):
            raise ToolError(f"{path!r} is a directory: use the path of a file in it", code="is_directory")
        if self._require_status(path).st_size > MAX_FILE_BYTES:
            message = f"{path!r} is larger than {MAX_FILE_BYTES} bytes, which is too large for the memory"
            raise ToolError(message, kind="limit", code="file_too_large")

    def _scan(self, path: str) -> dict[str, int]:
        """Return what is below a directory, relative to it: files with their sizes; directories, which end
        with a slash.
        """
        sizes: dict[str, int] = {}
        with self._workspace.open_directory(path) as entry, translate_os_errors(path):
            for top, subdirectories, names, fd in os.fwalk(".", dir_fd=entry.fd):
                prefix = f"{top[2:]}/" if top != "." else ""
                # fwalk lists links to directories too, although it does not follow them.
                for name in (*subdirectories, *names):
                    status = stat_at(fd, name)
                    if status is None:
                        continue
                    if stat.S_ISREG(status.st_mode):
                        sizes[prefix + name] = status.st_size
                    elif stat.S_ISDIR(status.st_mode):
                        sizes[f"{prefix}{name}/"] = 0
        return sizes

    def view(self, path: str, view_range: list[int] | None) -> _Answer:
        path = _normalize_path(path)
        if self._is_directory(path):
            if view_range is not None:
                raise invalid_argument("view_range", f"is for files, and {path!r} is a directory")
            return self._view_directory(path)
        self._check_file(path)
        document, _ = load_document(self._state, path)
        lines = split_lines(document.text)
        first, last = _resolve_range(view_range, len(lines), path)
        shown = lines[first - 1 : last]
        part = (
            f", lines {first} to {first + len(shown) - 1} of {len(lines)}" if len(shown) < len(lines) else ""
        )
        text = f"{path}{part}:\n{number_lines(shown, first)}" if shown else f"{path!r} is empty."
        return text, {
            "path": path,
            "is_directory": False,
            "lines": shown,
            "first": first,
            "total": len(lines),
        }

    def _view_directory(self, path: str) -> _Answer:
        sizes = {name: size for name, size in self._scan(path).items() if not _is_hidden(name)}
        entries: list[dict[str, Any]] = []
        for name in sorted(sizes, key=lambda name: name.rstrip("/").split("/")):
            if name.rstrip("/").count("/") < LISTING_DEPTH:
                is_directory = name.endswith("/")
                size = (
                    sum(size for other, size in sizes.items() if is_directory and other.startswith(name))
                    or sizes[name]
                )
                entries.append(
                    {"path": f"{path}/{name.rstrip('/')}", "size": size, "is_directory": is_directory}
                )
        total, shown = sum(sizes.values()), entries[:MAX_FILES]
        lines = [f"{format_size(total)}\t{path}/"]
        lines += [
            f"{format_size(entry['size'])}\t{entry['path']}{'/' * entry['is_directory']}" for entry in shown
        ]
        if truncated := len(entries) > MAX_FILES:
            lines.append(f"[there are more than {MAX_FILES}: view a subdirectory]")
        if not entries:
            lines.append("[empty]")
        data = {"path": path, "is_directory": True, "entries": shown, "truncated": truncated, "size": total}
        return "\n".join(lines), data

    # ---- writing

    def create(self, path: str, file_text: str) -> _Answer:
        path = _normalize_path(path, is_file=True)
        check_text(file_text, "file_text", MAX_FILE_BYTES)
        if self._find_status(path) is not None:
            raise ToolError(f"{path!r} already exists: edit it, or delete it first", code="file_exists")
        data = self._save(path, TextChange.plan(path, Document(), file_text, "absent"))
        return f"created {path!r} ({pluralize(data['size'], 'byte')})", data

    def str_replace(self, path: str, old_str: str, new_str: str) -> _Answer:
        path = _normalize_path(path)
        if not old_str:
            raise invalid_argument("old_str", "is empty; copy the text to replace, or insert lines instead")
        check_text(new_str, "new_str", MAX_FILE_BYTES)
        self._check_file(path)
        change = self._edits.plan_replacements(path, [TextEdit(old_str, new_str)])
        first, lines = build_snippet(change, _CONTEXT_LINES)
        data = self._save(path, change) | {"lines": lines, "first": first}
        return f"changed {path!r}:\n{number_lines(lines, first)}", data

    def insert(self, path: str, insert_line: int, file_text: str) -> _Answer:
        path = _normalize_path(path)
        check_text(file_text, "insert_text", MAX_FILE_BYTES)
        self._check_file(path)
        data = self._save(path, self._edits.plan_insertion(path, insert_line, file_text))
        return f"changed {path!r}, which has {pluralize(data['total'], 'line')} now", data

    def _save(self, path: str, change: TextChange) -> dict[str, Any]:
        sizes = self._scan(ROOT)
        files = sum(not name.endswith("/") for name in sizes)
        size, old_size = len(change.data), sizes.get(path.removeprefix(f"{ROOT}/"))
        problem = ""
        if size > MAX_FILE_BYTES:
            problem = f"{path!r} would have over {MAX_FILE_BYTES} bytes: make it shorter, or use two files"
        elif old_size is None and files >= MAX_FILES:
            problem = f"the memory has {files} files, which is the maximum: delete some first"
        elif sum(sizes.values()) - (old_size or 0) + size > MAX_TOTAL_BYTES:
            problem = f"the memory would have over {MAX_TOTAL_BYTES} bytes: delete something first"
        if problem:
            raise ToolError(problem, kind="limit", code="quota_exceeded")
        self._workspace.write(path, change.data, expected=change.expected, mode=0o600)
        return {"path": path, "total": len(split_lines(change.after)), "size": size}

    def delete(self, path: str) -> _Answer:
        path = _normalize_path(path)
        _refuse_root("deleted: delete", path)
        if is_directory := self._is_directory(path):
            parent, _, name = path.rpartition("/")
            with self._workspace.open_directory(parent) as entry, translate_os_errors(path):
                # Renamed first, so that it is gone at once even if emptying it is interrupted.
                trash = f".deleted-{secrets.token_hex(8)}"
                os.rename(name, trash, src_dir_fd=entry.fd, dst_dir_fd=entry.fd)
                shutil.rmtree(trash, dir_fd=entry.fd)
        else:
            self._workspace.remove(path)
        text = f"deleted {path!r}" + (" with everything in it" if is_directory else "")
        return text, {"path": path, "is_directory": is_directory}

    def rename(self, path: str, new_path: str) -> _Answer:
        old, new = _normalize_path(path), _normalize_path(new_path)
        _refuse_root("renamed: rename", old, new)
        is_directory = self._is_directory(old)
        if is_directory:
            depth = max((name.rstrip("/").count("/") + 1 for name in self._scan(old)), default=0)
            if new.count("/") - 1 + depth > MAX_DEPTH:
                raise _depth_error(new)
        else:
            _normalize_path(new_path, is_file=True)
        if new == old or new.startswith(f"{old}/"):
            message = f"{old!r} cannot be moved to or into itself: use another path"
            raise ToolError(message, kind="validation", code="invalid_path")
        if self._find_status(new) is not None:
            raise ToolError(
                f"{new!r} already exists: use another path, or delete it first", code="file_exists"
            )
        self._move(old, new, is_directory)
        return f"renamed {old!r} to {new!r}", {"path": old, "new_path": new, "is_directory": is_directory}

    def _move(self, old: str, new: str, is_directory: bool) -> None:
        """Rename a file or directory, and create the directories that the new path needs."""
        workspace, names = self._workspace, new.split("/")[2:-1]
        (old_parent, _, old_name), (new_parent, _, new_name) = old.rpartition("/"), new.rpartition("/")
        for depth, name in enumerate(names):
            parent = "/".join((ROOT, *names[:depth]))
            with (
                workspace.open_directory(parent) as entry,
                translate_os_errors(new),
                suppress(FileExistsError),
            ):
                os.mkdir(name, 0o700, dir_fd=entry.fd)
        with workspace.open_directory(old_parent) as source, workspace.open_directory(new_parent) as target:
            fds = {"src_dir_fd": source.fd, "dst_dir_fd": target.fd}
            with translate_os_errors(new):
                if is_directory:
                    os.rename(old_name, new_name, **fds)
                else:  # a link instead of a rename: it never replaces a file that has just appeared
                    os.link(old_name, new_name, **fds, follow_symlinks=False)
                    os.unlink(old_name, dir_fd=source.fd)


def _refuse_root(verbs: str, *paths: str) -> None:
    if ROOT in paths:
        raise ToolError(
            f"{ROOT} itself cannot be {verbs} what is in it", kind="not_allowed", code="path_not_allowed"
        )


def _is_hidden(path: str) -> bool:
    """Whether the path or a directory above it starts with a dot."""
    return any(name.startswith(".") for name in path.split("/"))


def _resolve_range(view_range: list[int] | None, total: int, path: str) -> tuple[int, int]:
    """Return the first and the last line to show. Raises ToolError."""
    if view_range is None:
        return 1, total
    if len(view_range) != 2:
        raise invalid_argument("view_range", "must be two numbers: the first and the last line")
    first, last = view_range
    if not 1 <= first <= max(total, 1):
        message = f"{path!r} has {pluralize(total, 'line')}, so a view cannot begin with line {first}"
        raise ToolError(
            message, kind="validation", code="line_out_of_range", details=LineOutOfRange(first, total)
        )
    if last != -1 and last < first:
        raise invalid_argument("view_range", f"ends with {last}, before it begins; use a later line or -1")
    if last == -1:
        last = total
    return first, min(last, total)
