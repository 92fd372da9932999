"""The tool `memory`: notes that outlive a conversation, as files of a private folder that the model knows as /memories.

Laws: the folder is a workspace of its own, so that no path leads out of it; links in it are not followed to anything that is
changed. A file changes whole or not at all, a folder is renamed or deleted in one step. Sizes and numbers have limits.
"""

import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec

from toolglot.builtin.files.text import Document, check_text, decode_document, encode_text
from toolglot.builtin.files.workspace import FileVersion, Workspace
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError, UsageError
from toolglot.textutil import number_lines, split_lines, unified_diff
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["ROOT", "MemoryEntry", "MemoryResult", "memory_tools"]

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

ROOT = "/memories"
MAX_FILE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 16 * 1024 * 1024
MAX_FILES = 1000
MAX_DEPTH = 10
"""Folders in each other."""
LISTING_DEPTH = 2
_MAX_WALK_DEPTH = 64  # of what others may have put there
_CONTEXT_LINES = 2  # lines around a change
_MAX_NAMED_LINES = 10


class MemoryEntry(msgspec.Struct, frozen=True):
    """A file or folder as a listing tells it. Of a folder, size is that of all files in it."""

    path: str
    size: int
    folder: bool


class MemoryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command did, or shows. Paths begin with /memories; lines are without their ends."""

    command: Command
    path: str
    folder: bool = False
    new_path: str = ""
    """Of rename."""
    lines: list[str] = []
    """Of view: those of a file. Of str_replace: those around the change."""
    first: int = 1
    """The number of the first of them."""
    total: int = 0
    """Lines of the file."""
    entries: list[MemoryEntry] = []
    """Of view: those of a folder, two levels of it, without hidden ones."""
    truncated: bool = False
    """There are more entries."""
    size: int = 0
    diff: str = ""


class _MemoryArguments(msgspec.Struct, frozen=True):
    """The arguments of a call, but for its command."""

    path: str | None = None
    view_range: list[int] | None = None
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    insert_text: str | None = None
    old_path: str | None = None
    new_path: str | None = None


_REQUIRED: dict[Command, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


def memory_tools(state: ToolState) -> list[Tool]:
    """The tool `memory`; none where the toolbox has no folder to keep anything in."""
    if state.state_dir is None:
        return []
    folder, lock = state.state_dir / "memory", Lock()

    def target(arguments: dict[str, Any]) -> str:
        paths = [str(arguments[name]) for name in ("path", "old_path", "new_path") if arguments.get(name)]
        return ", ".join(path.replace(ROOT, str(folder), 1) if path.startswith(ROOT) else path for path in paths)

    def preview(arguments: dict[str, Any]) -> str:
        command: Command = arguments.get("command", "view")
        wish = _MemoryArguments(**{name: arguments.get(name) for name in _MemoryArguments.__struct_fields__})
        try:
            with lock, _open_workspace(folder) as workspace:
                return _MemoryStore(workspace, dry=True).run(command, wish).diff or _summarize(command, wish)
        except ToolError as e:
            return f"(this will fail: {e})"

    @tool(
        name="memory",
        effects=("read", "write"),
        examples=[
            {"command": "view", "path": ROOT},
            {"command": "create", "path": f"{ROOT}/style.md", "file_text": "Tests are written first.\n"},
        ],
        target=target,
        preview=preview,
    )
    def memory(
        command: Command,
        path: str | None = None,
        view_range: list[int] | None = None,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
        insert_text: str | None = None,
        old_path: str | None = None,
        new_path: str | None = None,
    ) -> ToolOutput:
        """Reads and keeps notes in files under /memories, which are there in later conversations too.

        Look there before you begin; write down what will be worth knowing, short and true. Never keep secrets there.

        Args:
            command: view a file or folder; create a file; str_replace text in a file; insert lines into it; delete or rename a
                file or folder.
            path: The file or folder, such as /memories/style.md; for all but rename.
            view_range: The first and the last line to view, counted from 1; -1 is the last line of the file.
            file_text: The text of the new file.
            old_str: The text to replace, which must be in the file exactly once.
            new_str: The text to put in its place.
            insert_line: The line after which to insert; 0 is before the first one.
            insert_text: The lines to insert.
            old_path: What to rename.
            new_path: Its new path.
        """
        wish = _MemoryArguments(path, view_range, file_text, old_str, new_str, insert_line, insert_text, old_path, new_path)
        with lock, _open_workspace(folder) as workspace:
            found = _MemoryStore(workspace).run(command, wish)
        return ToolOutput(_RENDERERS[command](found), to_data(found))

    return [memory]


@contextmanager
def _open_workspace(directory: Path) -> Generator[Workspace]:
    """The folder as a workspace; it is made where it is missing."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        workspace = Workspace(directory, protected_names=())
    except (OSError, UsageError) as e:
        why = (e.strerror or type(e).__name__) if isinstance(e, OSError) else "it cannot be opened"
        raise ToolError(f"the memory cannot be used: {why}; go on without it", kind="execution") from None
    try:
        yield workspace
    finally:
        workspace.close()


# ---- paths


def _relative_path(path: str) -> str:
    """A path under /memories as one below the folder; "" is the folder itself. Raises ToolError."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"{path[:200]!r} is not in the memory: begin the path with {ROOT}/", kind="not_allowed")
    names = [name for name in path[len(ROOT) :].split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError(f"{path[:200]!r} leads upwards: give the path without '..'", kind="not_allowed")
    if len(names) > MAX_DEPTH:
        raise ToolError(f"{path[:200]!r} is more than {MAX_DEPTH} folders deep: use fewer", kind="limit")
    return "/".join(names)


def _file_path(path: str) -> str:
    """The same for a file that is to be made."""
    relative = _relative_path(path)
    if not relative or path.endswith("/"):
        raise ToolError(f"{path[:200]!r} is not the path of a file: add a name", kind="validation")
    return relative


def _memory_path(relative: str) -> str:
    return f"{ROOT}/{relative}" if relative else ROOT


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """What the system says of a path, in a sentence."""
    try:
        yield
    except ToolError as e:
        relative = path[len(ROOT) + 1 :]
        raise ToolError(str(e).replace(repr(relative), repr(path)), kind=e.kind) from None
    except OSError as e:
        raise ToolError(f"{path!r}: {e.strerror or type(e).__name__}", kind="execution") from None


class _LoadedNote(msgspec.Struct, frozen=True):
    document: Document
    version: FileVersion


class _MemoryStore:
    """The commands, on a workspace that is open. dry: nothing is changed."""

    def __init__(self, workspace: Workspace, *, dry: bool = False) -> None:
        self._workspace, self._dry = workspace, dry

    def run(self, command: Command, arguments: _MemoryArguments) -> MemoryResult:
        """Carries out a command. Raises ToolError."""
        if command not in _REQUIRED:
            raise ToolError(f"there is no command {command!r:.40}: use one of {', '.join(_REQUIRED)}", kind="validation")
        for name in _REQUIRED[command]:
            if getattr(arguments, name) is None:
                raise ToolError(f"{command} needs {name}: give it too", kind="validation")
        return _COMMANDS[command](self, arguments)

    # -- looking

    def view(self, arguments: _MemoryArguments) -> MemoryResult:
        relative = _relative_path(arguments.path or "")
        mode = self._require_mode(relative)
        if stat.S_ISDIR(mode):
            if arguments.view_range is not None:
                raise ToolError(f"{_memory_path(relative)!r} is a folder: view_range is for files", kind="validation")
            return self._view_directory(relative)
        loaded = self._load(relative)
        lines = split_lines(loaded.document.text)
        first, last = _resolve_range(arguments.view_range, len(lines), _memory_path(relative))
        return MemoryResult(
            command="view",
            path=_memory_path(relative),
            lines=lines[first - 1 : last],
            first=first,
            total=len(lines),
            size=loaded.version.size,
        )

    def _view_directory(self, relative: str) -> MemoryResult:
        found = sorted(self._walk(relative, LISTING_DEPTH), key=lambda entry: entry.path.split("/"))
        return MemoryResult(
            command="view",
            path=_memory_path(relative),
            folder=True,
            entries=found[:MAX_FILES],
            truncated=len(found) > MAX_FILES,
            size=sum(entry.size for entry in found if entry.path.count("/") == _memory_path(relative).count("/") + 1),
        )

    def _walk(self, relative: str, depth: int, *, include_hidden: bool = False) -> list[MemoryEntry]:
        """What is in a folder and, where depth allows it, below. A folder's size counts all levels."""
        files, folders = self._list_directory(relative)
        prefix = f"{relative}/" if relative else ""
        found = [
            MemoryEntry(_memory_path(prefix + name), size, False)
            for name, size in files
            if include_hidden or not name.startswith(".")
        ]
        for name in folders:
            if (name.startswith(".") and not include_hidden) or prefix.count("/") >= _MAX_WALK_DEPTH:
                continue
            below = self._walk(prefix + name, depth - 1, include_hidden=include_hidden)
            within = prefix.count("/") + 1
            size = sum(entry.size for entry in below if entry.path.count("/") == within + 2)
            found.append(MemoryEntry(_memory_path(prefix + name), size, True))
            found += below if depth > 1 else []
        return found

    def _list_directory(self, relative: str) -> tuple[list[tuple[str, int]], list[str]]:
        """The files of a folder with their sizes, and its folders. Links and other things are left out."""
        files, folders = list[tuple[str, int]](), list[str]()
        with (
            _translate_errors(_memory_path(relative)),
            self._workspace.open_directory(relative or ".") as opened,
            os.scandir(opened.fd) as entries,
        ):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append((entry.name, entry.stat(follow_symlinks=False).st_size))
        return files, folders

    def _require_mode(self, relative: str) -> int:
        """What is at a path; a link is not followed. Raises ToolError."""
        mode = self._find_mode(relative)
        if mode is None:
            raise ToolError(f"there is no {_memory_path(relative)!r}: view {ROOT} to see what is there", kind="not_found")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ToolError(
                f"{_memory_path(relative)!r} is a link or a device, which the memory does not use", kind="not_allowed"
            )
        return mode

    def _find_mode(self, relative: str) -> int | None:
        above, _, name = relative.rpartition("/")
        with _translate_errors(_memory_path(relative)):
            if self._workspace.inspect(relative or ".") is None and self._workspace.inspect(above or ".") is None:
                return None
            with self._workspace.open_directory(above or ".") as opened:
                try:
                    return os.stat(name or ".", dir_fd=opened.fd, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    return None

    def _load(self, relative: str) -> _LoadedNote:
        """A text file. Raises ToolError."""
        path = _memory_path(relative)
        if not stat.S_ISREG(self._require_mode(relative)):
            raise ToolError(f"{path!r} is a folder: give the path of a file in it", kind="execution")
        with _translate_errors(path):
            data, opened = self._workspace.read(relative, MAX_FILE_BYTES)
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(f"{path!r} is larger than {MAX_FILE_BYTES} bytes, which is too large for the memory", kind="limit")
        document = decode_document(data)
        if document is None:
            raise ToolError(f"{path!r} is not a text file", kind="execution")
        return _LoadedNote(document, opened.version)

    # -- changing

    def create(self, arguments: _MemoryArguments) -> MemoryResult:
        relative = _file_path(arguments.path or "")
        text = check_text(arguments.file_text or "", "`file_text`", MAX_FILE_BYTES)
        if self._find_mode(relative) is not None:
            why = f"{_memory_path(relative)!r} exists already"
            raise ToolError(f"{why}: change it with str_replace or insert, or delete it first", kind="execution")
        return self._save("create", relative, None, text)

    def str_replace(self, arguments: _MemoryArguments) -> MemoryResult:
        relative, old = _relative_path(arguments.path or ""), arguments.old_str or ""
        new = check_text(arguments.new_str or "", "`new_str`", MAX_FILE_BYTES)
        loaded = self._load(relative)
        text = loaded.document.text
        at = _find_only_match(text, old, _memory_path(relative))
        done = self._save("str_replace", relative, loaded, text[:at] + new + text[at + len(old) :])
        lines = split_lines(text[:at] + new + text[at + len(old) :])
        number = text.count("\n", 0, at) + 1
        first = max(number - _CONTEXT_LINES, 1)
        shown = lines[first - 1 : number + new.count("\n") + _CONTEXT_LINES]
        return msgspec.structs.replace(done, lines=shown, first=first)

    def insert(self, arguments: _MemoryArguments) -> MemoryResult:
        relative, after = _relative_path(arguments.path or ""), arguments.insert_line or 0
        inserted = check_text(arguments.insert_text or "", "`insert_text`", MAX_FILE_BYTES)
        loaded = self._load(relative)
        lines = loaded.document.text.split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= after <= len(lines):
            raise ToolError(f"`insert_line` is {after}: give 0 to {len(lines)}, which the file has", kind="validation")
        lines.insert(after, inserted.removesuffix("\n"))
        return self._save("insert", relative, loaded, "\n".join(lines) + "\n")

    def _save(self, command: Command, relative: str, before: _LoadedNote | None, text: str) -> MemoryResult:
        path = _memory_path(relative)
        form = before.document.format if before else None
        data = encode_text(text, form) if form else text.encode()
        self._check_quota(path, len(data), before)
        if not self._dry:
            with _translate_errors(path):
                self._workspace.write(relative, data, expected=before.version if before else "absent", mode=0o600)
        old = before.document.text if before else ""
        return MemoryResult(
            command=command, path=path, total=len(split_lines(text)), size=len(data), diff=unified_diff(old, text, path)
        )

    def _check_quota(self, path: str, size: int, before: _LoadedNote | None) -> None:
        if size > MAX_FILE_BYTES:
            raise ToolError(f"{path!r} would have over {MAX_FILE_BYTES} bytes: keep it shorter, or in two files", kind="limit")
        files = [entry for entry in self._walk("", _MAX_WALK_DEPTH, include_hidden=True) if not entry.folder]
        if before is None and len(files) >= MAX_FILES:
            raise ToolError(f"the memory has {len(files)} files, which is all it takes: delete some first", kind="limit")
        held = sum(entry.size for entry in files) - (before.version.size if before else 0)
        if held + size > MAX_TOTAL_BYTES:
            raise ToolError(f"the memory would have over {MAX_TOTAL_BYTES} bytes: delete something first", kind="limit")

    def delete(self, arguments: _MemoryArguments) -> MemoryResult:
        relative = _relative_path(arguments.path or "")
        path = _memory_path(relative)
        if not relative:
            raise ToolError(f"{ROOT} itself stays: delete what is in it", kind="not_allowed")
        folder = stat.S_ISDIR(self._require_mode(relative))
        text = "" if folder else self._text_or_empty(relative)
        if not self._dry:
            with _translate_errors(path):
                self._delete_entry(relative, folder)
        return MemoryResult(command="delete", path=path, folder=folder, diff=unified_diff(text, "", path) if text else "")

    def _text_or_empty(self, relative: str) -> str:
        """What a file says, where that can be shown."""
        try:
            return self._load(relative).document.text
        except ToolError:
            return ""

    def _delete_entry(self, relative: str, is_directory: bool) -> None:
        """A folder first gets another name, so that it is gone at once; then it is emptied."""
        above, _, name = relative.rpartition("/")
        with self._workspace.open_directory(above or ".") as opened:
            if not is_directory:
                os.unlink(name, dir_fd=opened.fd)
                return
            gone = f".deleted-{secrets.token_hex(8)}"
            os.rename(name, gone, src_dir_fd=opened.fd, dst_dir_fd=opened.fd)
            _remove_tree(opened.fd, gone)

    def rename(self, arguments: _MemoryArguments) -> MemoryResult:
        old, new = _relative_path(arguments.old_path or ""), _relative_path(arguments.new_path or "")
        if not old or not new:
            raise ToolError(f"{ROOT} itself keeps its name: rename what is in it", kind="not_allowed")
        folder = stat.S_ISDIR(self._require_mode(old))
        if folder:
            self._check_depth(old, new)
        else:
            _file_path(arguments.new_path or "")
        if new == old or new.startswith(f"{old}/"):
            raise ToolError(
                f"{_memory_path(old)!r} cannot be moved to itself or into itself: give another path", kind="validation"
            )
        if self._find_mode(new) is not None:
            raise ToolError(f"{_memory_path(new)!r} exists already: give another path, or delete it first", kind="execution")
        if not self._dry:
            with _translate_errors(_memory_path(new)):
                self._rename_entry(old, new, folder)
        return MemoryResult(command="rename", path=_memory_path(old), new_path=_memory_path(new), folder=folder)

    def _check_depth(self, old: str, new: str) -> None:
        """Folders that are moved into folders stay within the limit."""
        below = max((entry.path.count("/") for entry in self._walk(old, _MAX_WALK_DEPTH, include_hidden=True)), default=0)
        if below - _memory_path(old).count("/") + new.count("/") + 1 > MAX_DEPTH:
            raise ToolError(f"{_memory_path(new)!r} would be more than {MAX_DEPTH} folders deep: use fewer", kind="limit")

    def _rename_entry(self, old: str, new: str, is_directory: bool) -> None:
        (above, _, name), (to, _, new_name) = old.rpartition("/"), new.rpartition("/")
        self._make_directories(to)
        with self._workspace.open_directory(above or ".") as source, self._workspace.open_directory(to or ".") as target:
            handles = {"src_dir_fd": source.fd, "dst_dir_fd": target.fd}
            if is_directory:
                os.rename(name, new_name, **handles)
                return
            os.link(name, new_name, **handles, follow_symlinks=False)  # never over a file that just came
            os.unlink(name, dir_fd=source.fd)

    def _make_directories(self, relative: str) -> None:
        names = relative.split("/") if relative else []
        for at, name in enumerate(names):
            with self._workspace.open_directory("/".join(names[:at]) or ".") as above, suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=above.fd)


_COMMANDS: dict[Command, Callable[[_MemoryStore, _MemoryArguments], MemoryResult]] = {
    "view": _MemoryStore.view,
    "create": _MemoryStore.create,
    "str_replace": _MemoryStore.str_replace,
    "insert": _MemoryStore.insert,
    "delete": _MemoryStore.delete,
    "rename": _MemoryStore.rename,
}


def _remove_tree(parent_fd: int, name: str) -> None:
    """Removes a folder and what is in it, by handles; links are removed, not followed. Raises OSError."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        with os.scandir(handle) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(handle, entry.name)
            else:
                os.unlink(entry.name, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=parent_fd)


def _resolve_range(view_range: list[int] | None, total: int, path: str) -> tuple[int, int]:
    """The first and the last line to show. Raises ToolError."""
    if view_range is None:
        return 1, total
    if len(view_range) != 2:
        raise ToolError("`view_range` is two numbers: the first and the last line", kind="validation")
    first, last = view_range[0], total if view_range[1] == -1 else view_range[1]
    if not 1 <= first <= max(total, 1):
        raise ToolError(f"{path!r} has {total} lines: `view_range` begins with 1 to {max(total, 1)}", kind="validation")
    if view_range[1] != -1 and last < first:
        raise ToolError(f"`view_range` ends with {last}, before it begins: give a later line or -1", kind="validation")
    return first, min(last, total)


def _find_only_match(text: str, old: str, path: str) -> int:
    """Where a text is, which must be once. Raises ToolError."""
    if not old:
        raise ToolError("`old_str` is empty: say what to replace, or use insert", kind="validation")
    places: list[int] = []
    at = text.find(old)
    while at >= 0 and len(places) <= _MAX_NAMED_LINES:
        places.append(at)
        at = text.find(old, at + 1)
    if not places:
        raise ToolError(f"`old_str` is not in {path!r} as it stands: view the file and copy it exactly", kind="not_found")
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:_MAX_NAMED_LINES])
        more = " …" if len(places) > _MAX_NAMED_LINES else ""
        raise ToolError(f"`old_str` is in {path!r} more than once, in lines {lines}{more}: add more of it", kind="validation")
    return places[0]


# ---- words


def _summarize(command: Command, arguments: _MemoryArguments) -> str:
    return " ".join([command, *(f"{one}" for one in (arguments.path, arguments.old_path, arguments.new_path) if one)])


def _render_view(result: MemoryResult) -> str:
    if not result.folder:
        if not result.lines:
            return f"{result.path!r} is empty."
        part = f", lines {result.first} to {result.first + len(result.lines) - 1} of {result.total}"
        whole = result.first == 1 and len(result.lines) == result.total
        return f"{result.path}{'' if whole else part}:\n{number_lines(result.lines, result.first)}"
    lines = [f"{_format_size(result.size)}\t{result.path}/"]
    lines += [f"{_format_size(entry.size)}\t{entry.path}{'/' * entry.folder}" for entry in result.entries]
    if result.truncated:
        lines.append(f"[there are more than {MAX_FILES}: view a folder further down]")
    if not result.entries:
        lines.append("[nothing is kept here]")
    return "\n".join(lines)


def _format_size(size: int) -> str:
    return f"{size}B" if size < 1024 else f"{size / 1024:.1f}K" if size < 1024**2 else f"{size / 1024**2:.1f}M"


_RENDERERS: dict[Command, Callable[[MemoryResult], str]] = {
    "view": _render_view,
    "create": lambda done: f"created {done.path!r} ({done.size} bytes)",
    "str_replace": lambda done: f"changed {done.path!r}:\n{number_lines(done.lines, done.first)}",
    "insert": lambda done: f"changed {done.path!r}, which has {done.total} lines now",
    "delete": lambda done: f"deleted {done.path!r}" + (" and all that was in it" if done.folder else ""),
    "rename": lambda done: f"renamed {done.path!r} to {done.new_path!r}",
}
