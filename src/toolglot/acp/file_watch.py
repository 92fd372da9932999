"""Files that calls change: their previous content, and whether the editor has unsaved changes to them."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from toolglot.acp.tool_calls import FileChange
from toolglot.builtin.files.workspace import Workspace
from toolglot.errors import ToolError
from toolglot.tools.hooks import Hooks, Veto
from toolglot.tools.rules import find_subjects
from toolglot.tools.tool import Tool
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Text, ToolCall
from toolglot.values.request import BUILTIN_TAG

__all__ = ["FileWatch"]

_MAX_BYTES = 1_000_000  # maximum size of a file that is shown as a diff
_READ = "read"
_STALE = "\n\n[The user's editor has unsaved changes to this file; this is the saved version.]"


class FileWatch(Hooks):
    """Records files before calls change them, refuses to change unsaved files, and notes when the model reads
    one.

    Args:
        find_tool: Returns a base call's tool.
        read_buffer: Returns a file's content in the editor; None if unknown.

    Attributes:
        workspace: Only files in it are examined. Set it once the tools exist.
    """

    workspace: Workspace | None = None

    def __init__(
        self,
        find_tool: Callable[[ToolCall], Tool | None],
        read_buffer: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._find_tool, self._read_buffer = find_tool, read_buffer
        self._before: dict[str, dict[str, str | None]] = {}
        self._stale: set[str] = set()

    async def before_tool(self, call: ToolCall) -> Veto | None:
        """Examine a call's files; earlier calls that change files have finished by now."""
        tool = self._find_tool(call)
        if tool is None or tool.scope is None or BUILTIN_TAG not in tool.tags:
            return None
        is_change = "write" in tool.effects
        if not is_change and tool.name != _READ:
            return None
        try:
            arguments = tool.bind(call).arguments
        except ToolError:  # it does not run
            return None
        before: dict[str, str | None] = {}
        paths = [subject.value for subject in find_subjects(tool.scope, arguments) if subject.kind == "path"]
        for path in paths:
            text, is_text = await asyncio.to_thread(self._read_text, path)
            if not is_text:
                continue
            before[path] = text
            if text is None or not await self._is_unsaved(path, text):
                continue
            if is_change:
                return Veto(
                    f"{path} has unsaved changes in the editor; ask the user to save it, then read it again"
                )
            self._stale.add(call.id)
        if before and is_change:
            self._before[call.id] = before
        return None

    async def _is_unsaved(self, path: str, text: str) -> bool:
        """Whether the editor has another text for a file."""
        buffer = await self._read_buffer(path)
        return buffer is not None and _normalize(buffer) != _normalize(text)

    def after_tool(self, outcome: ToolOutcome) -> ToolOutcome | None:
        """Tell the model that it has read a different version from the one the user sees."""
        if outcome.call.id not in self._stale:
            return None
        self._stale.discard(outcome.call.id)
        content = (*outcome.result.content, Text(_STALE))
        return replace(outcome, result=replace(outcome.result, content=content))

    def forget(self) -> None:
        """Forget the files of unfinished calls."""
        self._before.clear()
        self._stale.clear()

    async def take_changes(self, call_id: str) -> list[FileChange]:
        """Return what a call did to its files, and forget it."""
        changes: list[FileChange] = []
        for path, before in self._before.pop(call_id, {}).items():
            after, is_text = await asyncio.to_thread(self._read_text, path)
            if is_text and after != before:
                changes.append(FileChange(path, before, after))
        return changes

    def _read_text(self, path: str) -> tuple[str | None, bool]:
        """Return a file's text, None if there is none; and whether it can be shown, being short and text."""
        if self.workspace is None:
            return None, False
        try:
            data, _ = self.workspace.read(path, _MAX_BYTES)
            return data.decode(), len(data) <= _MAX_BYTES
        except ToolError as e:
            return None, e.code == "path_not_found"
        except ValueError:
            return None, False


def _normalize(text: str) -> str:
    """Normalize what editors change when they load a file: line endings and the final newline."""
    return text.replace("\r\n", "\n").removeprefix("\ufeff").rstrip("\n")
