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

from toolglot.builtin.text import Document, checked, decoded, encoded, lines_of, numbered, unified
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Version, Workspace
from toolglot.errors import ToolError, UsageError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["ROOT", "MemoryDone", "MemoryEntry", "memory_tools"]

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

ROOT = "/memories"
LARGEST_FILE = 256 * 1024
MOST_BYTES = 16 * 1024 * 1024
MOST_FILES = 1000
DEEPEST = 10
"""Folders in each other."""
SHOWN_DEPTH = 2
_DEEPEST_WALK = 64  # of what others may have put there
_SNIPPET = 2  # lines around a change
_LINES_NAMED = 10


class MemoryEntry(msgspec.Struct, frozen=True):
    """A file or folder as a listing tells it. Of a folder, size is that of all files in it."""

    path: str
    size: int
    folder: bool


class MemoryDone(msgspec.Struct, frozen=True, kw_only=True):
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


class _Wish(msgspec.Struct, frozen=True):
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


_NEEDS: dict[Command, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


def memory_tools(box: Toolbox) -> list[Tool]:
    """The tool `memory`; none where the toolbox has no folder to keep anything in."""
    if box.state is None:
        return []
    folder, lock = box.state / "memory", Lock()

    def target(arguments: dict[str, Any]) -> str:
        paths = [str(arguments[name]) for name in ("path", "old_path", "new_path") if arguments.get(name)]
        return ", ".join(path.replace(ROOT, str(folder), 1) if path.startswith(ROOT) else path for path in paths)

    def preview(arguments: dict[str, Any]) -> str:
        command: Command = arguments.get("command", "view")
        wish = _Wish(**{name: arguments.get(name) for name in _Wish.__struct_fields__})
        try:
            with lock, _opened(folder) as workspace:
                return _Memory(workspace, dry=True).done(command, wish).diff or _short(command, wish)
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
        wish = _Wish(path, view_range, file_text, old_str, new_str, insert_line, insert_text, old_path, new_path)
        with lock, _opened(folder) as workspace:
            found = _Memory(workspace).done(command, wish)
        return ToolOutput(_TOLD[command](found), built(found))

    return [memory]


@contextmanager
def _opened(folder: Path) -> Generator[Workspace]:
    """The folder as a workspace; it is made where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        workspace = Workspace(folder, protected=())
    except (OSError, UsageError) as e:
        why = (e.strerror or type(e).__name__) if isinstance(e, OSError) else "it cannot be opened"
        raise ToolError(f"the memory cannot be used: {why}; go on without it", kind="execution") from None
    try:
        yield workspace
    finally:
        workspace.close()


# ---- paths


def _relative(path: str) -> str:
    """A path under /memories as one below the folder; "" is the folder itself. Raises ToolError."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"{path[:200]!r} is not in the memory: begin the path with {ROOT}/", kind="not_allowed")
    names = [name for name in path[len(ROOT) :].split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError(f"{path[:200]!r} leads upwards: give the path without '..'", kind="not_allowed")
    if len(names) > DEEPEST:
        raise ToolError(f"{path[:200]!r} is more than {DEEPEST} folders deep: use fewer", kind="limit")
    return "/".join(names)


def _file_path(path: str) -> str:
    """The same for a file that is to be made."""
    relative = _relative(path)
    if not relative or path.endswith("/"):
        raise ToolError(f"{path[:200]!r} is not the path of a file: add a name", kind="validation")
    return relative


def _said(relative: str) -> str:
    return f"{ROOT}/{relative}" if relative else ROOT


@contextmanager
def _explained(path: str) -> Generator[None]:
    """What the system says of a path, in a sentence."""
    try:
        yield
    except ToolError as e:
        relative = path[len(ROOT) + 1 :]
        raise ToolError(str(e).replace(repr(relative), repr(path)), kind=e.kind) from None
    except OSError as e:
        raise ToolError(f"{path!r}: {e.strerror or type(e).__name__}", kind="execution") from None


class _Loaded(msgspec.Struct, frozen=True):
    document: Document
    version: Version


class _Memory:
    """The commands, on a workspace that is open. dry: nothing is changed."""

    def __init__(self, workspace: Workspace, *, dry: bool = False) -> None:
        self._workspace, self._dry = workspace, dry

    def done(self, command: Command, wish: _Wish) -> MemoryDone:
        """Carries out a command. Raises ToolError."""
        if command not in _NEEDS:
            raise ToolError(f"there is no command {command!r:.40}: use one of {', '.join(_NEEDS)}", kind="validation")
        for name in _NEEDS[command]:
            if getattr(wish, name) is None:
                raise ToolError(f"{command} needs {name}: give it too", kind="validation")
        return _COMMANDS[command](self, wish)

    # -- looking

    def view(self, wish: _Wish) -> MemoryDone:
        relative = _relative(wish.path or "")
        mode = self._mode(relative)
        if stat.S_ISDIR(mode):
            if wish.view_range is not None:
                raise ToolError(f"{_said(relative)!r} is a folder: view_range is for files", kind="validation")
            return self._view_folder(relative)
        loaded = self._loaded(relative)
        lines = lines_of(loaded.document.text)
        first, last = _range(wish.view_range, len(lines), _said(relative))
        return MemoryDone(
            command="view",
            path=_said(relative),
            lines=lines[first - 1 : last],
            first=first,
            total=len(lines),
            size=loaded.version.size,
        )

    def _view_folder(self, relative: str) -> MemoryDone:
        found = sorted(self._walked(relative, SHOWN_DEPTH), key=lambda entry: entry.path.split("/"))
        return MemoryDone(
            command="view",
            path=_said(relative),
            folder=True,
            entries=found[:MOST_FILES],
            truncated=len(found) > MOST_FILES,
            size=sum(entry.size for entry in found if entry.path.count("/") == _said(relative).count("/") + 1),
        )

    def _walked(self, relative: str, depth: int, *, hidden: bool = False) -> list[MemoryEntry]:
        """What is in a folder and, where depth allows it, below. A folder's size counts all levels."""
        files, folders = self._listed(relative)
        prefix = f"{relative}/" if relative else ""
        found = [MemoryEntry(_said(prefix + name), size, False) for name, size in files if hidden or not name.startswith(".")]
        for name in folders:
            if (name.startswith(".") and not hidden) or prefix.count("/") >= _DEEPEST_WALK:
                continue
            below = self._walked(prefix + name, depth - 1, hidden=hidden)
            within = prefix.count("/") + 1
            size = sum(entry.size for entry in below if entry.path.count("/") == within + 2)
            found.append(MemoryEntry(_said(prefix + name), size, True))
            found += below if depth > 1 else []
        return found

    def _listed(self, relative: str) -> tuple[list[tuple[str, int]], list[str]]:
        """The files of a folder with their sizes, and its folders. Links and other things are left out."""
        files, folders = list[tuple[str, int]](), list[str]()
        with (
            _explained(_said(relative)),
            self._workspace.listing(relative or ".") as opened,
            os.scandir(opened.handle) as entries,
        ):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append((entry.name, entry.stat(follow_symlinks=False).st_size))
        return files, folders

    def _mode(self, relative: str) -> int:
        """What is at a path; a link is not followed. Raises ToolError."""
        mode = self._mode_or_none(relative)
        if mode is None:
            raise ToolError(f"there is no {_said(relative)!r}: view {ROOT} to see what is there", kind="not_found")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ToolError(f"{_said(relative)!r} is a link or a device, which the memory does not use", kind="not_allowed")
        return mode

    def _mode_or_none(self, relative: str) -> int | None:
        above, _, name = relative.rpartition("/")
        with _explained(_said(relative)):
            if self._workspace.look(relative or ".") is None and self._workspace.look(above or ".") is None:
                return None
            with self._workspace.listing(above or ".") as opened:
                try:
                    return os.stat(name or ".", dir_fd=opened.handle, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    return None

    def _loaded(self, relative: str) -> _Loaded:
        """A text file. Raises ToolError."""
        path = _said(relative)
        if not stat.S_ISREG(self._mode(relative)):
            raise ToolError(f"{path!r} is a folder: give the path of a file in it", kind="execution")
        with _explained(path):
            data, opened = self._workspace.read(relative, LARGEST_FILE)
        if len(data) > LARGEST_FILE:
            raise ToolError(f"{path!r} is larger than {LARGEST_FILE} bytes, which is too large for the memory", kind="limit")
        document = decoded(data)
        if document is None:
            raise ToolError(f"{path!r} is not a text file", kind="execution")
        return _Loaded(document, opened.version)

    # -- changing

    def create(self, wish: _Wish) -> MemoryDone:
        relative = _file_path(wish.path or "")
        text = checked(wish.file_text or "", "`file_text`", LARGEST_FILE)
        if self._mode_or_none(relative) is not None:
            why = f"{_said(relative)!r} exists already"
            raise ToolError(f"{why}: change it with str_replace or insert, or delete it first", kind="execution")
        return self._saved("create", relative, None, text)

    def str_replace(self, wish: _Wish) -> MemoryDone:
        relative, old = _relative(wish.path or ""), wish.old_str or ""
        new = checked(wish.new_str or "", "`new_str`", LARGEST_FILE)
        loaded = self._loaded(relative)
        text = loaded.document.text
        at = _only_place(text, old, _said(relative))
        done = self._saved("str_replace", relative, loaded, text[:at] + new + text[at + len(old) :])
        lines = lines_of(text[:at] + new + text[at + len(old) :])
        number = text.count("\n", 0, at) + 1
        first = max(number - _SNIPPET, 1)
        shown = lines[first - 1 : number + new.count("\n") + _SNIPPET]
        return msgspec.structs.replace(done, lines=shown, first=first)

    def insert(self, wish: _Wish) -> MemoryDone:
        relative, after = _relative(wish.path or ""), wish.insert_line or 0
        inserted = checked(wish.insert_text or "", "`insert_text`", LARGEST_FILE)
        loaded = self._loaded(relative)
        lines = loaded.document.text.split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= after <= len(lines):
            raise ToolError(f"`insert_line` is {after}: give 0 to {len(lines)}, which the file has", kind="validation")
        lines.insert(after, inserted.removesuffix("\n"))
        return self._saved("insert", relative, loaded, "\n".join(lines) + "\n")

    def _saved(self, command: Command, relative: str, before: _Loaded | None, text: str) -> MemoryDone:
        path = _said(relative)
        form = before.document.form if before else None
        data = encoded(text, form) if form else text.encode()
        self._check_room(path, len(data), before)
        if not self._dry:
            with _explained(path):
                self._workspace.write(relative, data, seen=before.version if before else "absent", mode=0o600)
        old = before.document.text if before else ""
        return MemoryDone(command=command, path=path, total=len(lines_of(text)), size=len(data), diff=unified(old, text, path))

    def _check_room(self, path: str, size: int, before: _Loaded | None) -> None:
        if size > LARGEST_FILE:
            raise ToolError(f"{path!r} would have over {LARGEST_FILE} bytes: keep it shorter, or in two files", kind="limit")
        files = [entry for entry in self._walked("", _DEEPEST_WALK, hidden=True) if not entry.folder]
        if before is None and len(files) >= MOST_FILES:
            raise ToolError(f"the memory has {len(files)} files, which is all it takes: delete some first", kind="limit")
        held = sum(entry.size for entry in files) - (before.version.size if before else 0)
        if held + size > MOST_BYTES:
            raise ToolError(f"the memory would have over {MOST_BYTES} bytes: delete something first", kind="limit")

    def delete(self, wish: _Wish) -> MemoryDone:
        relative = _relative(wish.path or "")
        path = _said(relative)
        if not relative:
            raise ToolError(f"{ROOT} itself stays: delete what is in it", kind="not_allowed")
        folder = stat.S_ISDIR(self._mode(relative))
        text = "" if folder else self._text_or_empty(relative)
        if not self._dry:
            with _explained(path):
                self._delete(relative, folder)
        return MemoryDone(command="delete", path=path, folder=folder, diff=unified(text, "", path) if text else "")

    def _text_or_empty(self, relative: str) -> str:
        """What a file says, where that can be shown."""
        try:
            return self._loaded(relative).document.text
        except ToolError:
            return ""

    def _delete(self, relative: str, folder: bool) -> None:
        """A folder first gets another name, so that it is gone at once; then it is emptied."""
        above, _, name = relative.rpartition("/")
        with self._workspace.listing(above or ".") as opened:
            if not folder:
                os.unlink(name, dir_fd=opened.handle)
                return
            gone = f".deleted-{secrets.token_hex(8)}"
            os.rename(name, gone, src_dir_fd=opened.handle, dst_dir_fd=opened.handle)
            _empty(opened.handle, gone)

    def rename(self, wish: _Wish) -> MemoryDone:
        old, new = _relative(wish.old_path or ""), _relative(wish.new_path or "")
        if not old or not new:
            raise ToolError(f"{ROOT} itself keeps its name: rename what is in it", kind="not_allowed")
        folder = stat.S_ISDIR(self._mode(old))
        if folder:
            self._check_depth(old, new)
        else:
            _file_path(wish.new_path or "")
        if new == old or new.startswith(f"{old}/"):
            raise ToolError(f"{_said(old)!r} cannot be moved to itself or into itself: give another path", kind="validation")
        if self._mode_or_none(new) is not None:
            raise ToolError(f"{_said(new)!r} exists already: give another path, or delete it first", kind="execution")
        if not self._dry:
            with _explained(_said(new)):
                self._rename(old, new, folder)
        return MemoryDone(command="rename", path=_said(old), new_path=_said(new), folder=folder)

    def _check_depth(self, old: str, new: str) -> None:
        """Folders that are moved into folders stay within the limit."""
        below = max((entry.path.count("/") for entry in self._walked(old, _DEEPEST_WALK, hidden=True)), default=0)
        if below - _said(old).count("/") + new.count("/") + 1 > DEEPEST:
            raise ToolError(f"{_said(new)!r} would be more than {DEEPEST} folders deep: use fewer", kind="limit")

    def _rename(self, old: str, new: str, folder: bool) -> None:
        (above, _, name), (to, _, new_name) = old.rpartition("/"), new.rpartition("/")
        self._make_folders(to)
        with self._workspace.listing(above or ".") as source, self._workspace.listing(to or ".") as target:
            handles = {"src_dir_fd": source.handle, "dst_dir_fd": target.handle}
            if folder:
                os.rename(name, new_name, **handles)
                return
            os.link(name, new_name, **handles, follow_symlinks=False)  # never over a file that just came
            os.unlink(name, dir_fd=source.handle)

    def _make_folders(self, relative: str) -> None:
        names = relative.split("/") if relative else []
        for at, name in enumerate(names):
            with self._workspace.listing("/".join(names[:at]) or ".") as above, suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=above.handle)


_COMMANDS: dict[Command, Callable[[_Memory, _Wish], MemoryDone]] = {
    "view": _Memory.view,
    "create": _Memory.create,
    "str_replace": _Memory.str_replace,
    "insert": _Memory.insert,
    "delete": _Memory.delete,
    "rename": _Memory.rename,
}


def _empty(above: int, name: str) -> None:
    """Removes a folder and what is in it, by handles; links are removed, not followed. Raises OSError."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        with os.scandir(handle) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(handle, entry.name)
            else:
                os.unlink(entry.name, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=above)


def _range(given: list[int] | None, total: int, path: str) -> tuple[int, int]:
    """The first and the last line to show. Raises ToolError."""
    if given is None:
        return 1, total
    if len(given) != 2:
        raise ToolError("`view_range` is two numbers: the first and the last line", kind="validation")
    first, last = given[0], total if given[1] == -1 else given[1]
    if not 1 <= first <= max(total, 1):
        raise ToolError(f"{path!r} has {total} lines: `view_range` begins with 1 to {max(total, 1)}", kind="validation")
    if given[1] != -1 and last < first:
        raise ToolError(f"`view_range` ends with {last}, before it begins: give a later line or -1", kind="validation")
    return first, min(last, total)


def _only_place(text: str, old: str, path: str) -> int:
    """Where a text is, which must be once. Raises ToolError."""
    if not old:
        raise ToolError("`old_str` is empty: say what to replace, or use insert", kind="validation")
    places: list[int] = []
    at = text.find(old)
    while at >= 0 and len(places) <= _LINES_NAMED:
        places.append(at)
        at = text.find(old, at + 1)
    if not places:
        raise ToolError(f"`old_str` is not in {path!r} as it stands: view the file and copy it exactly", kind="not_found")
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:_LINES_NAMED])
        more = " …" if len(places) > _LINES_NAMED else ""
        raise ToolError(f"`old_str` is in {path!r} more than once, in lines {lines}{more}: add more of it", kind="validation")
    return places[0]


# ---- words


def _short(command: Command, wish: _Wish) -> str:
    return " ".join([command, *(f"{one}" for one in (wish.path, wish.old_path, wish.new_path) if one)])


def _view_told(done: MemoryDone) -> str:
    if not done.folder:
        if not done.lines:
            return f"{done.path!r} is empty."
        part = f", lines {done.first} to {done.first + len(done.lines) - 1} of {done.total}"
        whole = done.first == 1 and len(done.lines) == done.total
        return f"{done.path}{'' if whole else part}:\n{numbered(done.lines, done.first)}"
    lines = [f"{_size(done.size)}\t{done.path}/"]
    lines += [f"{_size(entry.size)}\t{entry.path}{'/' * entry.folder}" for entry in done.entries]
    if done.truncated:
        lines.append(f"[there are more than {MOST_FILES}: view a folder further down]")
    if not done.entries:
        lines.append("[nothing is kept here]")
    return "\n".join(lines)


def _size(size: int) -> str:
    return f"{size}B" if size < 1024 else f"{size / 1024:.1f}K" if size < 1024**2 else f"{size / 1024**2:.1f}M"


_TOLD: dict[Command, Callable[[MemoryDone], str]] = {
    "view": _view_told,
    "create": lambda done: f"created {done.path!r} ({done.size} bytes)",
    "str_replace": lambda done: f"changed {done.path!r}:\n{numbered(done.lines, done.first)}",
    "insert": lambda done: f"changed {done.path!r}, which has {done.total} lines now",
    "delete": lambda done: f"deleted {done.path!r}" + (" and all that was in it" if done.folder else ""),
    "rename": lambda done: f"renamed {done.path!r} to {done.new_path!r}",
}
