"""Shows a run in an editor: converts events and messages to session updates."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, assert_never

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock, UserMessageChunk
from msgspec.structs import replace

from toolglot.acp.content import to_content
from toolglot.acp.file_watch import FileWatch
from toolglot.acp.tool_calls import (
    CallView,
    change_content,
    describe_call,
    plan_update,
    requested_content,
    result_content,
    text_content,
)
from toolglot.loop.format_call import describe_inner_event
from toolglot.tools.calls import base_call
from toolglot.tools.tool import Tool
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    BlockReady,
    BlockStarted,
    Delivered,
    InnerEvent,
    Notice,
    ReplyDone,
    ReplyStarted,
    RunDone,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.messages import Media, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.wire.repair import make_ids_unique

__all__ = ["RunPresenter"]

_PLAN_TOOL = "todo"
_MAX_LIVE_CHARS = 20_000  # of a running tool's output


class RunPresenter:
    """Sends session updates, and tracks which calls the editor shows as unfinished.

    Args:
        send: Sends an update.
        find_tool: Returns a base call's tool.
        interpret: Returns the base call for a call that a model has just made.
        files: Records what calls do to files.
        root: The session's working directory.
    """

    def __init__(
        self,
        send: Callable[[Any], Awaitable[None]],
        find_tool: Callable[[ToolCall], Tool | None],
        interpret: Callable[[ToolCall], ToolCall],
        files: FileWatch,
        root: str,
    ) -> None:
        self.send = send
        self._find_tool = find_tool
        self._interpret = interpret
        self._files = files
        self._root = root
        self._open: dict[str, CallView] = {}
        self._used_ids: set[str] = set()
        self._output: dict[str, str] = {}

    async def show_event(self, event: RunEvent) -> None:
        """Show an event."""
        match event:
            case TextDelta():
                await self.say(event.text)
            case ThinkingDelta():
                await self.think(event.text)
            case BlockReady(block=Media() as media):
                await self.show_media(media)
            case ToolCallStarted() | ToolCallReady():
                await self.announce_call(event)
            case ToolStarted() | ToolProgress() | InnerEvent() | ToolFinished():
                await self._show_work(event)
            case Notice():
                await self.note(event.text)
            case (
                ReplyStarted()
                | BlockStarted()
                | BlockReady()
                | ToolCallDelta()
                | ReplyDone()
                | ApprovalNeeded()
                | Delivered()
                | AnswerNeeded()
                | RunDone()
            ):
                pass  # what they say is shown by others, or when the prompt ends
            case _:
                assert_never(event)

    async def _show_work(self, event: ToolStarted | ToolProgress | InnerEvent | ToolFinished) -> None:
        """Show what a tool does, from its start to its result."""
        if isinstance(event, ToolFinished):
            await self.show_result(event.outcome.call, event.outcome.result)
        elif not isinstance(event, ToolStarted):
            await self._show_progress(event)
        elif event.call.name != _PLAN_TOOL:
            view = await self.show_call(event.call)
            await self.send(view.progress("in_progress"))

    async def _show_progress(self, event: ToolProgress | InnerEvent) -> None:
        """Show what a tool reports, or a sub-agent does, as the output of the call so far."""
        if isinstance(event, ToolProgress):
            view, id, text = await self.show_call(event.call), event.call.id, event.text
        else:
            id, text = event.path[0], describe_inner_event(event)
            view = self._open.get(id)
        if view is None or not text:
            return
        output = self._output[id] = f"{self._output.get(id, '')}{text}\n"[-_MAX_LIVE_CHARS:]
        await self.send(view.progress("in_progress", text_content(output)))

    async def show_media(self, media: Media) -> None:
        """Show an image or a sound of an answer, if the protocol can express it."""
        content = to_content(media)
        if content is not None:
            await self.send(AgentMessageChunk(session_update="agent_message_chunk", content=content))

    async def announce_call(self, event: ToolCallStarted | ToolCallReady) -> None:
        """Show a call that the model makes: first its name, because its arguments may take a while, then all
        of it.
        """
        if isinstance(event, ToolCallReady):
            base = self._interpret(event.call)
            if base.name != _PLAN_TOOL:
                await self.show_call(base, event.call, shown=self._open.pop(base.id, None))
            return
        base = self._interpret(ToolCall(event.id, event.name, {}, namespace=event.namespace))
        if event.id and base.name != _PLAN_TOOL:
            kind = describe_call(base, self._find_tool(base), self._root).kind
            id = self._make_id(event.id)
            view = self._open[event.id] = CallView(
                id=id, title=event.name, kind=kind, locations=[], raw_input=None
            )
            await self.send(view.start("pending"))

    async def say(self, text: str) -> None:
        """Show a chunk of an answer."""
        if text:
            content = TextContentBlock(type="text", text=text)
            await self.send(AgentMessageChunk(session_update="agent_message_chunk", content=content))

    async def think(self, text: str) -> None:
        """Show a chunk of reasoning."""
        if text:
            content = TextContentBlock(type="text", text=text)
            await self.send(AgentThoughtChunk(session_update="agent_thought_chunk", content=content))

    async def note(self, text: str) -> None:
        """Show a note that is not part of the answer; the protocol has no other place for it."""
        await self.think(f"\n[{text}]\n")

    async def show_call(
        self, call: ToolCall, native: ToolCall | None = None, *, shown: CallView | None = None
    ) -> CallView:
        """Show a base call, unless it is already shown.

        `native`: as the model made it. `shown`: its current view.
        """
        view = self._open.get(call.id)
        if view is not None:
            return view
        view = describe_call(call, self._find_tool(call), self._root, native)
        if shown is None:
            view = replace(view, id=self._make_id(call.id))
            update = view.start("pending")
        else:
            view = replace(view, id=shown.id)
            update = view.complete()
        self._open[call.id] = view
        await self.send(update)
        return view

    def _make_id(self, call_id: str) -> str:
        """Return an id that is unique in the session: some servers restart their numbering in every reply."""
        id, number = call_id or "call", 1
        while id in self._used_ids:
            number += 1
            id = f"{call_id or 'call'}-{number}"
        self._used_ids.add(id)
        return id

    async def show_result(self, call: ToolCall, result: ToolResult, *, is_saved: bool = False) -> None:
        """Show how a call ended; for the plan tool, show the plan.

        `is_saved`: the call is from a saved conversation.
        """
        if call.name == _PLAN_TOOL and not result.is_error:
            plan = plan_update(call.arguments or {})
            if plan is not None:
                await self.send(plan)
            return
        view = await self.show_call(call)
        changes = await self._files.take_changes(call.id)
        status = "failed" if result.is_error else "completed"
        content, raw_output = result_content(result), result.data
        if changes and not result.is_error:
            content, raw_output = change_content(changes), result.text
        elif is_saved and view.kind == "edit" and not result.is_error:
            raw_output = result.text
            if view.locations:
                content = requested_content(call, view.locations[0].path) or content
        await self.send(view.progress(status, content, changes, raw_output))
        self._open.pop(call.id, None)
        self._output.pop(call.id, None)

    async def close_calls(self, reason: str) -> None:
        """Mark unfinished calls as failed: their run was cancelled or has failed."""
        for view in self._open.values():
            await self.send(view.progress("failed", text_content(reason)))
        self._open.clear()
        self._output.clear()
        self._files.forget()

    async def replay(self, messages: Iterable[Message]) -> None:
        """Show a conversation from its beginning."""
        calls: dict[str, ToolCall] = {}
        for message in make_ids_unique(list(messages)).messages:
            for block in message.blocks:
                match block:
                    case ToolCall():
                        calls[block.id] = base = base_call(block)
                        if base.name != _PLAN_TOOL:
                            await self.show_call(base, block)
                    case ToolResult():
                        if block.call_id in calls:
                            await self.show_result(calls[block.call_id], block, is_saved=True)
                    case Thinking():
                        await self.think(block.text)
                    case Text() | Media() if (content := to_content(block)) is not None:
                        if message.role == "user":
                            await self.send(
                                UserMessageChunk(session_update="user_message_chunk", content=content)
                            )
                        elif message.role == "assistant":
                            await self.send(
                                AgentMessageChunk(session_update="agent_message_chunk", content=content)
                            )
                    case _:
                        pass
        await self.close_calls("it did not run")
