"""The Agent Client Protocol agent: its methods, and one editor's sessions."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    DeleteSessionResponse,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)
from acp.schema import (
    SessionInfo as ListedSession,
)
from msgspec.structs import replace

from toolglot import __version__
from toolglot.acp.connection import EditorConnection
from toolglot.acp.content import ContentBlock
from toolglot.acp.modes import mode_state
from toolglot.acp.questions import ask_questions
from toolglot.acp.servers import read_servers
from toolglot.acp.session import AgentParts, EditorSession, check_directory
from toolglot.acp.session_store import SessionInfo, SessionStore, new_session_id
from toolglot.acp.transport import LineTransport
from toolglot.builtin.tool_state import AskUser
from toolglot.errors import UnknownName, UsageError
from toolglot.mcp.client.servers import McpServer
from toolglot.tools.hooks import Hooks
from toolglot.values.approvals import Approve
from toolglot.values.messages import load

__all__ = ["EditorAgent", "OpenAgent", "SessionOptions"]

_PAGE = 50
KEY_METHOD = AuthMethodAgent(
    id="key",
    name="Provider key",
    description="Set the provider's environment variable, or run `toolglot login PROVIDER` in a terminal, "
    "then try again",
)


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to create a session's agent."""

    directory: Path
    approve: Approve
    ask_user: AskUser
    hooks: Hooks
    notify: Callable[[str], None]
    """Shows the user a note; can be called from any thread."""
    servers: dict[str, McpServer] = {}
    """The editor's MCP servers."""
    saved_model: str = ""
    """The model of a saved session."""


OpenAgent = Callable[[SessionOptions], AgentParts]
"""Creates a session's agent. Raises UsageError, SignInRequired."""


class EditorAgent:
    """Serves one editor."""

    def __init__(self, open_agent: OpenAgent, store: SessionStore, read_fd: int, write_fd: int) -> None:
        self._open_agent, self._store = open_agent, store
        self._editor = EditorConnection(self, LineTransport(read_fd, write_fd))
        self._sessions: dict[str, EditorSession] = {}
        self._opening, self._reopening = asyncio.Lock(), asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve the editor until it disconnects."""
        try:
            await self._editor.listen()
        finally:
            await self._editor.close()
            await asyncio.gather(
                *(session.close() for session in self._sessions.values()), return_exceptions=True
            )

    # ---- the connection

    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **_: Any
    ) -> InitializeResponse:
        """Negotiate a version, and return our capabilities."""
        self._editor.capabilities = client_capabilities or ClientCapabilities()
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    delete=SessionDeleteCapabilities(),
                    fork=SessionForkCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[KEY_METHOD],
            agent_info=Implementation(name="toolglot", title="toolglot", version=__version__),
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Do nothing: keys are read from the environment and the keyring when a session starts."""
        if method_id != KEY_METHOD.id:
            raise UnknownName("authentication method", method_id, (KEY_METHOD.id,))
        return AuthenticateResponse()

    # ---- sessions

    async def new_session(self, cwd: str, **options: Any) -> NewSessionResponse:
        """Start a session in a directory."""
        session = await self._open(SessionInfo(id=new_session_id(), cwd=check_directory(cwd)), options)
        await session.save()
        self._announce(session)
        return NewSessionResponse(
            session_id=session.info.id,
            modes=mode_state(session.mode),
            config_options=[*session.config_options],
        )

    async def load_session(self, cwd: str, session_id: str, **options: Any) -> LoadSessionResponse:
        """Continue a saved session, and replay it in the editor."""
        session = await self._reopen(session_id, cwd, options)
        await session.presenter.replay(session.agent.conversation)
        self._announce(session)
        return LoadSessionResponse(modes=mode_state(session.mode), config_options=[*session.config_options])

    async def resume_session(self, session_id: str, cwd: str, **options: Any) -> ResumeSessionResponse:
        """Continue a saved session that the editor still shows."""
        session = await self._reopen(session_id, cwd, options)
        self._announce(session)
        return ResumeSessionResponse(modes=mode_state(session.mode), config_options=[*session.config_options])

    async def fork_session(self, session_id: str, cwd: str, **options: Any) -> ForkSessionResponse:
        """Start a session with a copy of another session's conversation."""
        info, saved = await self._read(session_id)
        info = replace(info, id=new_session_id(), cwd=check_directory(cwd), updated="")
        session = await self._open(info, options, saved)
        await session.save()
        self._announce(session)
        return ForkSessionResponse(
            session_id=session.info.id,
            modes=mode_state(session.mode),
            config_options=[*session.config_options],
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """List saved sessions, latest first."""
        if cursor and not (cursor.isdecimal() and cursor.isascii() and len(cursor) < 10):
            raise UsageError(f"{cursor!r:.100} is not a cursor of this list")
        start = int(cursor or 0)
        sessions = await asyncio.to_thread(self._store.list, cwd)
        end = start + _PAGE
        page = [
            ListedSession(session_id=info.id, cwd=info.cwd, title=info.title, updated_at=info.updated)
            for info in sessions[start:end]
        ]
        return ListSessionsResponse(sessions=page, next_cursor=str(end) if end < len(sessions) else None)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """End a session; it can be loaded again."""
        session = self._find(session_id)
        del self._sessions[session_id]
        await session.close()
        if not session.info.title:  # no prompt was sent
            await asyncio.to_thread(self._store.delete, session_id)
        return CloseSessionResponse()

    async def delete_session(self, session_id: str, **_: Any) -> DeleteSessionResponse:
        """End a session and delete it."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.close()
        await asyncio.to_thread(self._store.delete, session_id)
        return DeleteSessionResponse()

    # ---- in a session

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        """Run a prompt."""
        return await self._find(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the running prompt."""
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        """Set the mode."""
        await self._find(session_id).choose("mode", mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Set the mode, the model or the effort."""
        session = self._find(session_id)
        await session.choose(config_id, str(value))
        return SetSessionConfigOptionResponse(config_options=[*session.config_options])

    # ---- inside

    def _find(self, session_id: str) -> EditorSession:
        if (session := self._sessions.get(session_id)) is None:
            raise UsageError(
                f"no session {session_id!r:.120} is open: start one with session/new, or load it"
            )
        return session

    async def _read(self, session_id: str) -> tuple[SessionInfo, bytes]:
        return await asyncio.to_thread(self._store.read, session_id)

    async def _reopen(self, session_id: str, cwd: str, options: dict[str, Any]) -> EditorSession:
        check_directory(cwd)
        async with self._reopening:  # two requests for one session would open it twice
            info, saved = await self._read(session_id)
            if (session := self._sessions.pop(session_id, None)) is not None:
                await session.close()
                info, saved = await self._read(session_id)
            return await self._open(replace(info, cwd=cwd), options, saved)

    async def _open(
        self, info: SessionInfo, options: dict[str, Any], saved: bytes | None = None
    ) -> EditorSession:
        """Open a session, new or with a saved conversation.

        Raises UsageError, MalformedData, SignInRequired.
        """
        session = EditorSession(info, self._editor, self._store)
        servers, problems = read_servers(options.get("mcp_servers") or ())
        if options.get("additional_directories"):
            problems.append(
                "additional directories are not supported: set builtin.read or builtin.write in the "
                "configuration"
            )
        for problem in problems:
            session.notify(problem)
        saved_model = load(saved)[1].get("model") if saved is not None else ""
        session_options = SessionOptions(
            directory=Path(info.cwd),
            approve=session.approve,
            ask_user=lambda questions: ask_questions(self._editor, info.id, questions),
            hooks=session.files,
            notify=session.notify,
            servers=servers,
            saved_model=saved_model if isinstance(saved_model, str) else "",
        )
        async with self._opening:  # reading the configuration is not thread-safe
            parts = await asyncio.to_thread(self._open_agent, session_options)
        try:
            session.start(parts, saved)
        except BaseException:
            await session.close(save=False)  # the file may be the only copy of the conversation
            raise
        self._sessions[info.id] = session
        return session

    def _announce(self, session: EditorSession) -> None:
        """Send a session's slash commands; call this just before returning the response that names the
        session.
        """
        # The task starts after the response is queued, and messages keep their order.
        task = asyncio.get_running_loop().create_task(session.announce())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
