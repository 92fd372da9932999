"""The connection to an editor: requests in both directions.

Every failed request returns one sentence; details are in the log.
"""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from acp.agent.router import build_agent_router
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.interfaces import Agent
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from acp.schema import (
    ClientCapabilities,
    CreateFormSessionElicitationRequest,
    DeleteSessionRequest,
    ElicitationSchema,
    PermissionOption,
    ReadTextFileRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    ToolCallUpdate,
)
from acp.utils import normalize_result, serialize_params

from toolglot.acp.transport import LineTransport
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolglotError, UsageError

__all__ = ["EditorConnection", "SignInRequired"]

log = get_logger("toolglot.acp")
_INVALID_PARAMS, _INTERNAL_ERROR, _AUTH_REQUIRED = -32602, -32603, -32000
_UNEXPECTED_ANSWER = "its answer has an unexpected structure"
Handler = Callable[[str, Any, bool], Awaitable[Any]]


class SignInRequired(UsageError):
    """There is no key for the model."""


class EditorConnection:
    """Passes an editor's requests to an agent, and sends requests to the editor."""

    def __init__(self, agent: Any, transport: LineTransport) -> None:
        router = build_agent_router(cast(Agent, agent), use_unstable_protocol=True)
        # The SDK has types for this method, but does not route it.
        router.route_request(
            AGENT_METHODS["session_delete"],
            DeleteSessionRequest,
            agent,
            "delete_session",
            adapt_result=normalize_result,
        )
        self._connection = Connection(_log_notifications(_report_errors(router)), transport, listening=False)
        self.capabilities = ClientCapabilities()
        """The editor's capabilities."""

    async def listen(self) -> None:
        """Answer requests until the editor disconnects."""
        await self._connection.main_loop()

    async def close(self) -> None:
        """Cancel all pending requests."""
        await self._connection.close()

    async def update(self, session_id: str, update: Any) -> None:
        """Send a session update to the editor."""
        notification = SessionNotification(session_id=session_id, update=update)
        await self._connection.send_notification(
            CLIENT_METHODS["session_update"], serialize_params(notification)
        )

    async def ask_permission(
        self, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> str:
        """Ask the user about a call; return the id of the chosen option, "" if the turn was cancelled.

        Raises RequestError.
        """
        request = RequestPermissionRequest(session_id=session_id, tool_call=call, options=options)
        answer = await self._request("session_request_permission", request)
        try:
            outcome = RequestPermissionResponse.model_validate(answer).outcome
        except ValueError:
            raise RequestError(_INTERNAL_ERROR, _UNEXPECTED_ANSWER) from None
        return outcome.option_id if outcome.outcome == "selected" else ""

    async def fill_form(
        self, session_id: str, message: str, schema: ElicitationSchema
    ) -> dict[str, Any] | None:
        """Let the user fill in a form; None if they decline. Raises RequestError."""
        request = CreateFormSessionElicitationRequest(
            session_id=session_id, message=message, mode="form", requested_schema=schema
        )
        answer = await self._request("elicitation_create", request)
        if answer.get("action") != "accept":
            return None
        if not isinstance(values := answer.get("content"), dict | None):
            raise RequestError(_INTERNAL_ERROR, _UNEXPECTED_ANSWER)
        return cast(dict[str, Any], values or {})

    async def read_buffer(self, session_id: str, path: str) -> str:
        """Return a file as it is in the editor, with unsaved changes. Raises RequestError."""
        answer = await self._request(
            "fs_read_text_file", ReadTextFileRequest(session_id=session_id, path=path)
        )
        if not isinstance(content := answer.get("content"), str):
            raise RequestError(_INTERNAL_ERROR, _UNEXPECTED_ANSWER)
        return content

    async def _request(self, method: str, params: Any) -> dict[str, Any]:
        answer = await self._connection.send_request(CLIENT_METHODS[method], serialize_params(params))
        return cast(dict[str, Any], answer) if isinstance(answer, dict) else {}


def _log_notifications(handler: Handler) -> Handler:
    """Return a handler that logs failed notifications in one line, because nobody waits for them."""

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        try:
            return await handler(method, params, is_notification)
        except RequestError as e:
            if not is_notification:
                raise
            log.warning("ignored the notification %s: %s", method, e)

    return handle


def _report_errors(handler: Handler) -> Handler:
    """Return a handler that reports failures as one-sentence JSON-RPC errors."""

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        try:
            return await handler(method, params, is_notification)
        except RequestError:
            raise
        except SignInRequired as e:
            raise RequestError(_AUTH_REQUIRED, str(e)) from None
        except ToolglotError as e:
            raise RequestError(
                _INVALID_PARAMS if isinstance(e, UsageError) else _INTERNAL_ERROR, str(e)
            ) from None
        except Exception as e:
            if (errors := getattr(e, "errors", None)) is not None:  # the SDK's: the parameters are invalid
                first = errors()[0]
                place = ".".join(map(str, first["loc"])) or "params"
                raise RequestError(
                    _INVALID_PARAMS, f"invalid parameters for {method}: {place}: {first['msg']}"
                ) from None
            log.exception("unexpected error in %s", method)
            message = (
                f"unexpected {type(e).__name__}: {e} (this is a bug; please report it where you got toolglot from, "
                "with the log)"
            )
            raise RequestError(_INTERNAL_ERROR, message) from None

    return handle
