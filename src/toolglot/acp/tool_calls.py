"""Tool calls as an editor shows them: title, kind, locations, diffs, content.

Pure, except for what a tool adds.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import Any, Literal, cast

import msgspec
from acp.schema import (
    AgentPlanUpdate,
    ContentToolCallContent,
    FileEditToolCallContent,
    PlanEntry,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

from toolglot.acp.content import to_content
from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_deceptive, escape_line, shorten
from toolglot.errors import ToolError
from toolglot.loop.format_call import format_arguments
from toolglot.tools.config import ANY_EFFECT
from toolglot.tools.policy import RUN_CODE
from toolglot.tools.rules import find_subjects
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest, Effect
from toolglot.values.messages import ToolCall, ToolResult

__all__ = ["CallView", "FileChange", "describe_call", "describe_question", "plan_update", "split_preview"]

Kind = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
Status = Literal["pending", "in_progress", "completed", "failed"]
Content = ContentToolCallContent | FileEditToolCallContent
_MAX_TITLE = 200
# of the tool that runs code, which is the loop's own and in no registry
_CODE: tuple[Kind, str] = ("execute", "Run")
# Where a tool does not say what it does; one that declares no effects may do anything.
_KINDS: tuple[tuple[frozenset[Effect], Kind], ...] = (
    (ANY_EFFECT, "other"),
    (frozenset({"execute"}), "execute"),
    (frozenset({"write"}), "edit"),
    (frozenset({"network"}), "fetch"),
    (frozenset({"read"}), "read"),
)
_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "completed",
}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_FILE = "/dev/null"
_BACKTICKS = re.compile(r"`+")
_PLAIN = re.compile(r"[\w ,.;:'()/-]*")  # a sentence without Markdown


class FileChange(msgspec.Struct, frozen=True):
    """A file before and after a call; None: it did not exist, or no longer does."""

    path: str
    before: str | None
    after: str | None

    @property
    def first_line(self) -> int:
        """The number of the first line that differs, from 1."""
        lines = zip((self.before or "").split("\n"), (self.after or "").split("\n"), strict=False)
        return 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], lines))


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the editor shows it."""

    id: str
    title: str
    kind: Kind
    locations: list[ToolCallLocation]
    raw_input: Any

    def start(self, status: Status) -> ToolCallStart:
        """Return the update that shows the call for the first time."""
        return ToolCallStart(session_update="tool_call", status=status, **self._fields())

    def complete(self) -> ToolCallProgress:
        """Return the update that adds the arguments to a call that was shown when it began."""
        return ToolCallProgress(session_update="tool_call_update", **self._fields())

    def progress(
        self,
        status: Status,
        content: Iterable[Content] | None = None,
        changes: Iterable[FileChange] = (),
        raw_output: Any = None,
    ) -> ToolCallProgress:
        """Return an update of the call: its current state, and what is new."""
        places = [ToolCallLocation(path=change.path, line=change.first_line) for change in changes]
        return ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=self.id,
            status=status,
            content=None if content is None else [*content],
            locations=places or None,
            raw_output=raw_output,
        )

    def ask(self, request: ApprovalRequest, root: str) -> ToolCallUpdate:
        """Return what the user decides on: everything that the call would do, with nothing hidden."""
        content: list[Content] = []
        text = request.preview
        if self.kind == "edit":
            content, text = split_preview(request.preview, root)
        if not content and not text:
            text = "\n".join(_describe_argument(name, value) for name, value in request.arguments.items())
        if text:
            content.append(_text(_fence(escape_deceptive(text))))
        if request.preview_error:
            content.append(
                _text(
                    "As things stand, this call would "
                    f"fail:\n{_fence(escape_deceptive(request.preview_error))}"
                )
            )
        if request.reason:
            content.append(_text(_format_reason(request)))
        return ToolCallUpdate(status="pending", content=[*content], **self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "tool_call_id": self.id,
            "title": self.title,
            "kind": self.kind,
            "locations": self.locations or None,
            "raw_input": self.raw_input,
        }


def _format_reason(request: ApprovalRequest) -> str:
    """Return why a call needs approval. In a server's text, nothing may look like ours."""
    reason = escape_deceptive(request.reason)
    if not request.effects:
        return _fence(reason)
    if not _PLAIN.fullmatch(reason):
        reason = _fence(reason)
    return f"⚠️ {reason}" if request.each_time else reason


def describe_call(call: ToolCall, tool: Tool | None, root: str, native: ToolCall | None = None) -> CallView:
    """Describe a base call. `native`: as the model made it. Paths below the root are shown relative to it."""
    native = native or call
    arguments: dict[str, Any] = call.arguments or {}
    locations: list[ToolCallLocation] = []
    target = ""
    if tool is not None:
        with suppress(ToolError):
            arguments = tool.bind(call).arguments
        target = _describe_target(tool, arguments, root)
        locations = _list_locations(tool, arguments)
    kind, verb = _find_kind(call, tool, native.name)
    title = shorten(escape_deceptive(f"{verb} {target or format_arguments(native)}".strip()), _MAX_TITLE)
    if not verb:
        title = _fence(title, block=False)
    raw_input = native.arguments if native.arguments is not None else native.raw
    return CallView(id=call.id, title=title, kind=kind, locations=locations, raw_input=raw_input)


def _describe_target(tool: Tool, arguments: dict[str, Any], root: str) -> str:
    """Return what a call is about; "" if that is not known."""
    if tool.target is None:
        return ""
    with suppress(Exception):  # the arguments are unvalidated
        target = str(tool.target(arguments))
        return "." if target == root else target.removeprefix(f"{root}{os.sep}")
    return ""


def _list_locations(tool: Tool, arguments: dict[str, Any]) -> list[ToolCallLocation]:
    """Return the files and directories that a call is about, and its first line."""
    if tool.scope is None:
        return []
    line = arguments.get("start_line")
    if not isinstance(line, int) or line <= 0:
        line = None
    subjects = find_subjects(tool.scope, arguments)
    return [
        ToolCallLocation(path=each.value, line=line)
        for each in subjects
        if each.kind in ("path", "directory")
    ]


def _describe_argument(name: str, value: Any) -> str:
    """Return an argument as text.

    Lines of a long value are indented: none of them can look like another argument.
    """
    text = value if isinstance(value, str) else dumps_text(value)
    name = escape_line(name)
    if "\n" not in text:
        return f"{name}: {text}"
    return "\n".join([f"{name}:", *(f"    {line}" for line in text.split("\n"))])


def _find_kind(call: ToolCall, tool: Tool | None, name: str) -> tuple[Kind, str]:
    """Return the kind of a call, and the verb before its target."""
    if tool is None:
        return _CODE if call.name == RUN_CODE else ("other", name)
    verb = name if tool.verb is None else tool.verb
    if tool.action:
        return tool.action, verb
    kind: Kind = next(kind for effects, kind in _KINDS if tool.effects >= effects)
    return kind, verb


def describe_question(request: ApprovalRequest) -> CallView:
    """Describe a running tool's question as a call, because editors ask only about calls."""
    title = shorten(escape_deceptive(request.reason), _MAX_TITLE)
    return CallView(
        id=request.id, title=title, kind="other", locations=[], raw_input=request.arguments or None
    )


# ---- content


def change_content(changes: Iterable[FileChange]) -> list[Content]:
    """Return what calls did to files."""
    return [
        FileEditToolCallContent(
            type="diff", path=change.path, old_text=change.before, new_text=change.after or ""
        )
        for change in changes
    ]


def requested_content(call: ToolCall, path: str) -> list[Content]:
    """Return what a call in a saved conversation replaced: its diff is not saved, but its arguments are."""
    content: list[Content] = []
    for old, new in _list_replacements(call):
        if isinstance(old, str | None) and isinstance(new, str):
            content.append(FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=new))
    return content


def _list_replacements(call: ToolCall) -> list[tuple[Any, Any]]:
    """Return the old and new texts in the arguments of a call, which nobody has validated."""
    match call.name, call.arguments:
        case "write", {"content": text}:
            return [(None, text)]
        case "edit", {"old": old, "new": new}:
            return [(old, new)]
        case "multi_edit", {"edits": [*edits]}:
            items = [cast(dict[str, Any], edit) for edit in edits if isinstance(edit, dict)]
            return [(item.get("old"), item.get("new")) for item in items]
        case _:
            return []


def result_content(result: ToolResult) -> list[Content]:
    """Convert a result. Text is shown verbatim: tool output is not Markdown."""
    content: list[Content] = []
    for block in result.content:
        match to_content(block):
            case None:
                pass
            case TextContentBlock(text=text):
                content.append(_text(_fence(text)))
            case other:
                content.append(ContentToolCallContent(type="content", content=other))
    return content


def text_content(text: str) -> list[Content]:
    """Convert the output of a running tool."""
    return [_text(_fence(text))]


def _text(text: str) -> ContentToolCallContent:
    return ContentToolCallContent(type="content", content=TextContentBlock(type="text", text=text))


def _fence(text: str, *, block: bool = True) -> str:
    """Return text as a Markdown code span or block that nothing in it can close."""
    fence = "`" * max([3 if block else 1, *(len(match) + 1 for match in _BACKTICKS.findall(text))])
    if block:
        return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def split_preview(preview: str, root: str) -> tuple[list[Content], str]:
    """Return the hunks of the unified diffs in a preview, each as a separate diff, and the text around them."""
    diffs: list[Content] = []
    text: list[str] = []
    hunk: list[str] = []
    old_path = new_path = ""
    # lines left in the current hunk, both sides together: within it, "--- x" is a removed line "-- x"
    remaining = 0
    for line in preview.split("\n"):
        if remaining:
            hunk.append(line)
            remaining -= _LINES_BY_MARK.get(line[:1], 0)
            if not remaining:
                diffs.append(_diff_of_hunk(hunk, old_path, new_path, root))
                hunk = []
            continue
        head = _HUNK.match(line)
        if head is not None:
            remaining = sum(int(count or 1) for count in head.groups())
        elif line.startswith("--- "):
            old_path = line[4:]
        elif line.startswith("+++ "):
            new_path = line[4:]
        elif line and not line.startswith("\\ "):
            text.append(line)
    if not diffs or hunk:  # an incomplete hunk is shown, too
        return [], preview
    return diffs, "\n".join(text)


_LINES_BY_MARK = {" ": 2, "-": 1, "+": 1}


def _diff_of_hunk(hunk: list[str], old_path: str, new_path: str, root: str) -> FileEditToolCallContent:
    path = old_path if new_path == _NO_FILE else new_path
    old = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in (" ", "-"))
    new = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in (" ", "+"))
    return FileEditToolCallContent(
        type="diff",
        path=os.path.join(root, path),
        old_text=None if old_path == _NO_FILE else escape_deceptive(old),
        new_text=escape_deceptive(new),
    )


# ---- plans


def plan_update(arguments: Mapping[str, Any]) -> AgentPlanUpdate | None:
    """Return the plan that a call of `todo` writes; None if it only reads it."""
    if not isinstance(arguments.get("items"), list):
        return None
    items = [
        cast(dict[str, Any], item) for item in cast(list[Any], arguments["items"]) if isinstance(item, dict)
    ]
    entries = [
        PlanEntry(
            content=str(item.get("text", "")),
            priority="medium",
            status=_STATUS.get(str(item.get("status")), "pending"),
        )
        for item in items
    ]
    return AgentPlanUpdate(session_update="plan", entries=entries)
