"""An editor for tests: the client of the protocol's own SDK, in this process, connected through pipes."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    FileSystemCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallUpdate,
)

import acp
from toolglot.acp.agent import EditorAgent
from toolglot.acp.session_store import SessionStore
from toolglot.cli.acp import open_agent
from toolglot.cli.startup import Flags

__all__ = ["EDIT", "WITH_BUFFERS", "WITH_FORMS", "Editor", "Fields", "call_agent", "open_editor", "text"]

Fields = dict[str, Any]
EDIT = """\
think I read it first
call Read {"file_path": "note.txt"}
then call Edit {"file_path": "note.txt", "old_string": "two", "new_string": "TWO"}
then say It is done."""
PLAIN = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=False, write_text_file=False))
WITH_BUFFERS = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=False))
WITH_FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))


def text(words: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=words)


class Editor:
    """Records what the agent sends, and answers what it asks."""

    def __init__(self) -> None:
        self.connection: ClientSideConnection
        self.updates: list[Fields] = []
        self.commands: list[str] = []
        self.requests: list[Fields] = []
        self.answer: Callable[[Fields], str | None] = lambda request: "yes"
        """The option for a permission; "": cancelled, None: no answer."""
        self.asked = asyncio.Event()
        self.gate: asyncio.Event | None = None
        """Permissions are answered once it is set."""
        self.buffers: dict[str, str | None] = {}
        """None: an answer without the text."""
        self.is_stuck = False
        self.form: Any = None
        self.forms: list[Fields] = []

    # ---- what the agent calls

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        fields = _plain(update)
        if fields["sessionUpdate"] == "available_commands_update":
            self.commands = [command["name"] for command in fields["availableCommands"]]
        self.updates.append(fields | {"session": session_id})

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        request: Fields = {
            "call": _plain(tool_call),
            "options": {option.option_id: option.kind for option in options},
        }
        self.requests.append(request)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if (answer := self.answer(request)) is None:
            await asyncio.Event().wait()
        if not answer:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        if self.is_stuck:
            await asyncio.Event().wait()
        if path not in self.buffers:
            raise acp.RequestError.resource_not_found(path)
        content = self.buffers[path]
        return cast(Any, {}) if content is None else ReadTextFileResponse(content=content)

    async def create_elicitation(self, **fields: Any) -> Fields:
        self.forms.append(fields)
        return {"action": "decline"} if self.form is None else {"action": "accept", "content": self.form}

    def on_connect(self, conn: Any) -> None:
        pass

    # ---- what the tests use

    async def prompt(self, session_id: str, *content: Any) -> Any:
        """Send a prompt; what was recorded before is forgotten."""
        self.updates.clear()
        self.requests.clear()
        blocks = [text(block) if isinstance(block, str) else block for block in content]
        return await self.connection.prompt(session_id=session_id, prompt=blocks)

    def of(self, kind: str) -> list[Fields]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def reply_text(self) -> str:
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        return "".join(update["content"]["text"] for update in self.of("agent_thought_chunk"))

    def calls(self) -> dict[str, Fields]:
        """Return the tool calls as an editor has them after all updates, by title."""
        calls: dict[str, Fields] = {}
        for update in self.updates:
            if update["sessionUpdate"] == "tool_call":
                assert update["toolCallId"] not in calls, "a call is announced once"
                calls[update["toolCallId"]] = update
            elif update["sessionUpdate"] == "tool_call_update":
                calls[update["toolCallId"]] = calls.get(update["toolCallId"], {"title": "?"}) | update
        return {call["title"]: call for call in calls.values()}


def _plain(model: Any) -> Fields:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@asynccontextmanager
async def open_editor(
    directory: Path, *, capabilities: ClientCapabilities = PLAIN, servers: Sequence[Any] = (), **flags: Any
) -> AsyncGenerator[tuple[Editor, str]]:
    """Start an agent with an editor that has one new session in the directory."""
    options: Fields = {"model": "simulator:anthropic", "builtin": True, **flags}
    own_flags = Flags(**options)
    to_agent, to_editor = os.pipe(), os.pipe()
    agent = EditorAgent(
        lambda options: open_agent(own_flags, options),
        SessionStore(directory / "state" / "saved"),
        to_agent[0],
        to_editor[1],
    )
    serving = asyncio.create_task(agent.serve())
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    source, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_editor[0], "rb")
    )
    sink, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(to_agent[1], "wb")
    )
    writer = asyncio.StreamWriter(sink, protocol, None, loop)
    editor = Editor()
    editor.connection = acp.connect_to_agent(cast(Any, editor), writer, reader, use_unstable_protocol=True)
    try:
        await editor.connection.initialize(protocol_version=1, client_capabilities=capabilities)
        workspace = directory / "work"
        workspace.mkdir(exist_ok=True)
        session = await editor.connection.new_session(cwd=str(workspace), mcp_servers=[*servers])
        yield editor, session.session_id
    finally:
        writer.close()  # the agent sees the end of its input and ends
        await serving
        await editor.connection.close()
        source.close()
        for descriptor in (to_agent[0], to_editor[1]):
            os.close(descriptor)


async def call_agent(editor: Editor, method: str, params: Fields) -> Any:
    """Send a request that the SDK's client would not send."""
    return await editor.connection._conn.send_request(method, params)  # pyright: ignore[reportPrivateUsage]
