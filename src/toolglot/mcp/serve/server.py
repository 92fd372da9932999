"""Serves tools over MCP to any client: the sessions of 2025-11-25 and the stateless requests of 2026-07-28.

The official SDK implements the protocol; this module provides the tools and runs their calls, each validated,
approved, limited and recorded as in an agent. Every connection has its own host, so that clients do not share
what they have read, started or always allowed. Stateless requests share one, because they cannot be told
apart; over HTTP they may come from different clients, so there is no "always".
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from itertools import count
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolglotError, UnknownName, UsageError
from toolglot.facades.view import Facade
from toolglot.hosting.tool_view import ToolView, resolve_policy_names
from toolglot.mcp.serve.session import ToolSession, progress_reporter
from toolglot.mcp.serve.types import FREEFORM_PARAMETER, approval_form, legal_name, to_mcp_result, to_mcp_tool
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.host import HostOptions
from toolglot.tools.policy import allow_only_readers
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore, read_result_tool
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, ApprovalRequest, Approve, Deny, Ruling
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Text, ToolCall
from toolglot.values.request import ToolDefinition

__all__ = ["McpToolServer", "current_request"]

log = get_logger("toolglot.mcp")
current_request: ContextVar[ServerRequestContext[None]] = ContextVar("toolglot_mcp_request")
"""While a tool runs, the client's request: its session, headers and `_meta`."""
PAGE_SIZE = 100
_TTL_MS = 60_000  # how long a client may cache the list of tools
_MAX_CURSOR_DIGITS = 9  # Python refuses to parse numbers with thousands of digits
_APPROVAL_KEY = "approval"  # the key of the question in an input_required result
_DEFAULT_CONFIG = ToolConfig()
_SessionKey = Connection | str
"""What requests with the same state have in common: a connection, or, for stateless ones, "http" or "local".
Only those over HTTP come from different clients."""


class _Question(msgspec.Struct):
    """State that a stateless client returns with the answer to a question; sealed by the SDK."""

    call_id: str
    fingerprint: str


class _Offer(msgspec.Struct):
    """One version of the registry, as clients see it."""

    view: ToolView
    version: int
    tools: list[types.Tool]
    definitions: dict[str, ToolDefinition]
    """By the names that clients use."""


class _SdkServer(Server[None]):
    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **options: Any
    ) -> InitializationOptions:
        """Announce that the list of tools may change, which the SDK does not allow for HTTP."""
        return super().create_initialization_options(
            NotificationOptions(tools_changed=True), *args, **options
        )


class McpToolServer:
    """Tools as an MCP server. Run it with `serve_stdio` or `serve_http`.

    Args:
        tools: The tools to serve. Clients are notified when a registry changes.
        name: The server's name.
        version: The server's version.
        instructions: How to use the tools; a facade adds its own note.
        config: Rules and limits for calls. Repeated calls are not detected; that is up to the client.
        read_only: Serve only tools that do nothing but read.
        facade: Names and describes the built-in tools; None leaves them unchanged.
        model: The model that the facade is for.
        approve: Decides on calls that need approval. "later", the default answer, asks the client's user if
            the client supports that (elicitation); otherwise the call is refused.
        approval_hint: How to allow a call that was refused because nobody could be asked.
        open_tools: Returns the same tools with separate state for one connection; without it, connections
            share the tools.
        hooks: Observe and change calls.
        audit: Records every call.
        data: The value of `Context.data` for tools.
        page_size: Tools per page when clients list them.
    """

    def __init__(
        self,
        tools: ToolRegistry | Iterable[Tool | Callable[..., Any]],
        *,
        name: str = "toolglot",
        version: str = "",
        instructions: str = "",
        config: ToolConfig = _DEFAULT_CONFIG,
        read_only: bool = False,
        facade: Facade | None = None,
        model: str = "",
        approve: Approve | None = None,
        approval_hint: str = "Allow it with ToolConfig(approve=…), or pass approve=.",
        open_tools: Callable[[], AbstractContextManager[Iterable[Tool | Callable[..., Any]]]] | None = None,
        hooks: Iterable[Hooks] = (),
        audit: AuditLog | None = None,
        data: Any = None,
        page_size: int = PAGE_SIZE,
    ) -> None:
        if page_size < 1:
            raise UsageError("page_size must be at least 1")
        self.registry: ToolRegistry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self._config, self._read_only = replace(config, max_repeats=0), read_only
        self._facade, self._model = facade, model
        self._approval_hint, self._open_tools, self._page_size = approval_hint, open_tools, page_size
        self._data = data
        self._host_options = HostOptions(
            approve=approve or (lambda request: "later"), hooks=HookChain(hooks), audit=audit
        )
        self._offer: _Offer | None = None
        self.bus = InMemorySubscriptionBus()
        """Notifies stateless clients of changes: `await server.bus.publish(…)`. Tool changes are published
        automatically."""
        self._sessions: dict[_SessionKey, asyncio.Task[ToolSession]] = {}
        self._call_numbers = count(1)
        self._running = set[asyncio.Task[Any]]()
        self._lifespans = 0  # several transports may serve it
        note = self._current_offer().view.note
        self.sdk: Server[None] = self._create_sdk_server(
            name, version, "\n\n".join(filter(None, (instructions, note)))
        )
        """The SDK's server, for handlers of other methods: prompts, resources …"""

    def _create_sdk_server(self, name: str, version: str, instructions: str) -> Server[None]:
        hint = CacheHint(ttl_ms=_TTL_MS)
        server = _SdkServer(
            name,
            version=version,
            instructions=instructions or None,
            lifespan=lambda _: self._lifespan(),
            cache_hints={"tools/list": hint, "server/discover": hint},
            get_tool_input_schema=self._find_input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        server.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name)
        )
        return server

    @asynccontextmanager
    async def _lifespan(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()

        def announce() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._announce_change)

        unwatch = self.registry.watch(announce)
        self._lifespans += 1
        try:
            yield None
        finally:
            unwatch()
            self._lifespans -= 1
            for key in [*self._sessions] if not self._lifespans else ():
                await self._close_session(key)

    # ---- listing tools

    def _current_offer(self) -> _Offer:
        offer = self._offer
        if offer is not None and offer.view.is_current:
            return offer
        config, registry, version = self._config, self.registry, self.registry.version
        names = resolve_policy_names(registry, self._facade)
        if self._read_only:
            config = allow_only_readers(config, registry, names)
        view = ToolView(registry, config, self._facade, self._model, names=names)
        definitions = [*view.definitions]
        listed = [to_mcp_tool(definition, view.tools_behind(definition)) for definition in definitions]
        if "read_result" not in registry:
            # A truncated result says how to read the rest. Clients cache lists, so the tool is listed from
            # the start.
            reader = read_result_tool(ResultStore())
            definitions.append(reader.definition)
            listed.append(to_mcp_tool(reader.definition, [reader]))
        by_name = {legal_name(definition.qualified_name): definition for definition in definitions}
        self._offer = _Offer(view, version, listed, by_name)
        return self._offer

    def _find_input_schema(self, name: str) -> dict[str, Any] | None:
        definition = self._current_offer().definitions.get(name)
        return definition.parameters if definition is not None else None

    async def _list_tools(
        self, context: ServerRequestContext[None], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        offer = self._current_offer()
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._find_session(context)  # so that it is notified of changes
        start, cursor = 0, params.cursor if params is not None else None
        if cursor is not None:
            version, _, index = cursor.partition(":")
            if version != str(offer.version) or not index.isdecimal() or len(index) > _MAX_CURSOR_DIGITS:
                raise MCPError(
                    types.INVALID_PARAMS,
                    "the cursor is not valid, or the tools have changed: list them again",
                )
            start = int(index)
        end = start + self._page_size
        next_cursor = f"{offer.version}:{end}" if end < len(offer.tools) else None
        tools = offer.tools[start:end]
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            tools = [
                tool.model_copy(update={"output_schema": None})
                if (tool.output_schema or {}).get("type") != "object"
                else tool
                for tool in tools
            ]
        return types.ListToolsResult(tools=tools, next_cursor=next_cursor)

    def _announce_change(self) -> None:
        """Notify all clients that the tools have changed."""
        connections = [key for key in self._sessions if isinstance(key, Connection)]
        for notice in (
            self.bus.publish(ToolsListChanged()),
            *(each.send_tool_list_changed() for each in connections),
        ):
            self._running.add(task := asyncio.ensure_future(notice))
            task.add_done_callback(self._running.discard)

    # ---- connections

    def _find_session(self, context: ServerRequestContext[None]) -> "asyncio.Task[ToolSession]":
        """Return the session of a request; the first request opens it."""
        key: _SessionKey = "local" if context.request is None else "http"
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # The only object that lives as long as the client's session; the SDK exposes it nowhere else.
            key = context.session._connection  # pyright: ignore[reportPrivateUsage]
        opening = self._sessions.get(key)
        if opening is None or _has_failed(opening):
            opening = self._sessions[key] = asyncio.create_task(self._open_session(key))
            # Marks the exception as retrieved: those who wait for the task get it.
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            if isinstance(key, Connection):
                key.exit_stack.push_async_callback(self._close_session, key)
        return opening

    async def _open_session(self, key: _SessionKey) -> ToolSession:
        resources, registry = ExitStack(), self.registry
        if self._open_tools is not None and isinstance(key, Connection):
            try:
                registry = ToolRegistry(await asyncio.to_thread(resources.enter_context, self._open_tools()))
            except ToolglotError as e:
                raise MCPError(types.INTERNAL_ERROR, f"the tools cannot be used: {e}") from None
        return ToolSession(self._host_options.open_host(can_allow_always=key != "http"), registry, resources)

    async def _close_session(self, key: _SessionKey) -> None:
        if (opening := self._sessions.pop(key, None)) is not None:
            try:
                await (await opening).close()
            except Exception as e:
                log.warning("a connection's tools could not be closed: %r", e)

    # ---- calls

    async def _call_tool(
        self, context: ServerRequestContext[None], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        # In a separate task: the SDK repeats a cancellation until its handler has returned, which would also
        # interrupt the clean-up of a cancelled call.
        task = asyncio.create_task(self._run_call(context, params))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _run_call(
        self, context: ServerRequestContext[None], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        current_request.set(context)  # for this task and those it starts
        offer, session = self._current_offer(), await asyncio.shield(self._find_session(context))
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        # A connection may have its own tools of the same names.
        caller = replace(offer.view.caller(data=self._data, can_ask=True), registry=session.registry)
        asked, ruling = _read_answer(params)
        # a new call, or an answer that was used before
        if asked is None or not session.take_answer(asked.call_id):
            asked, ruling = None, None
        definition = offer.definitions.get(params.name)
        call_id = asked.call_id if asked is not None else f"mcp_{next(self._call_numbers)}"
        call = _make_call(call_id, params, definition)
        interpreted = caller.interpret(call)
        async with progress_reporter(context) as report:
            while True:
                outcome = await session.run(interpreted, caller, ruling, report)
                if isinstance(outcome, ToolOutcome):
                    break
                request = outcome.request
                if not _can_ask(context):
                    outcome = self._add_hint(session.host.refuse(interpreted, caller), request)
                    break
                form = approval_form(request, offers_always=session.host.policy.can_allow_always)
                if is_modern:
                    session.expect_answer(call.id)
                    state = dumps_text({"call_id": call.id, "fingerprint": outcome.fingerprint})
                    question = types.ElicitRequest(params=form)
                    return types.InputRequiredResult(
                        input_requests={_APPROVAL_KEY: question}, request_state=state
                    )
                try:
                    ruling = Ruling(outcome.fingerprint, await _ask(context, form))
                except asyncio.CancelledError:
                    session.host.release(call.id)
                    raise
        if outcome.result.error_code == "unknown_tool" and not outcome.ran:
            hint = UnknownName("tool", params.name, offer.definitions).hint
            raise MCPError(types.INVALID_PARAMS, f"There is no such tool: {hint}")
        schema = definition.output_schema if definition is not None else None
        if not is_modern and (schema or {}).get("type") != "object":
            schema = None  # under the name that was listed
        return to_mcp_result(outcome.result, is_modern=is_modern, output_schema=schema)

    def _add_hint(self, refusal: ToolOutcome, request: ApprovalRequest) -> ToolOutcome:
        """Say how such a call can be allowed."""
        hint = Text(
            f"\nIt was refused because {request.reason}, and the client cannot ask its user. "
            f"{self._approval_hint}"
        )
        return replace(refusal, result=replace(refusal.result, content=(*refusal.result.content, hint)))


def _has_failed(task: "asyncio.Task[Any]") -> bool:
    """Return whether a session could not be opened."""
    return task.done() and (task.cancelled() or task.exception() is not None)


def _make_call(id: str, params: types.CallToolRequestParams, definition: ToolDefinition | None) -> ToolCall:
    arguments = params.arguments or {}
    if definition is None:  # perhaps a name that the facade accepts but does not list
        return ToolCall(id, params.name, arguments)
    text = arguments.get(FREEFORM_PARAMETER)
    if definition.kind == "freeform" and isinstance(text, str):
        return ToolCall(id, definition.name, None, text, namespace=definition.namespace, freeform=True)
    return ToolCall(id, definition.name, arguments, namespace=definition.namespace)


# ---- approvals


def _can_ask(context: ServerRequestContext[None]) -> bool:
    """Return whether the client can show its user a form."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def _ask(context: ServerRequestContext[None], form: types.ElicitRequestFormParams) -> Allow | Deny:
    try:
        answer = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
    except (MCPError, ValueError) as e:  # pydantic's errors are ValueErrors
        log.warning("a client could not ask its user: %s", e)
        return Deny("the client could not ask its user")
    return _to_decision(answer)


def _to_decision(answer: types.ElicitResult) -> Allow | Deny:
    if answer.action != "accept":
        return Deny()
    return Allow(always=(answer.content or {}).get("always") is True)


def _read_answer(params: types.CallToolRequestParams) -> tuple[_Question | None, Ruling | None]:
    """Return the question that a request answers, and the answer."""
    if params.request_state is None:
        return None, None
    try:
        asked = msgspec.json.decode(params.request_state, type=_Question)
    except msgspec.MsgspecError:
        raise MCPError(
            types.INVALID_PARAMS, "the request state belongs to another tool: call the tool again without it"
        ) from None
    answer = (params.input_responses or {}).get(_APPROVAL_KEY)
    if not isinstance(answer, types.ElicitResult):
        return asked, None  # the question is asked again
    return asked, Ruling(asked.fingerprint, _to_decision(answer))
