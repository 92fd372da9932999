"""Pydantic AI: its tools in our registry, our tools as a toolset, its messages, and a model on our engine."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Unpack, cast

from msgspec.structs import replace

from toolglot.bridges.event_streams import describe_approval
from toolglot.bridges.exported_tools import ExportedTools, ExportOptions
from toolglot.bridges.imported_tools import ask_user, make_tool
from toolglot.bridges.messages import explain_missing, find_truncated_calls
from toolglot.bridges.pydantic_ai_messages import (
    export_details,
    export_part,
    export_result,
    export_stop,
    export_usage,
    import_content,
    import_messages,
)
from toolglot.common.value_checks import as_items
from toolglot.engine.engine import Engine, EngineResult, EngineState
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.transport import sanitize_url
from toolglot.errors import MalformedReply, ProviderError, ToolError, TransportError, UsageError
from toolglot.loop.agent.config import AnyTools
from toolglot.loop.background_loop import run_sync
from toolglot.tools.context import Context
from toolglot.tools.hosted import HostedTools
from toolglot.tools.options import SchemaToolOptions
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, ApprovalRequest
from toolglot.values.definitions import CacheMark, ToolDefinition
from toolglot.values.events import TextDelta, ThinkingDelta
from toolglot.values.messages import Foreign, Media, Text, ToolCall
from toolglot.values.request import Options, Output, Request, ToolChoice
from toolglot.wire.spec import SPECS

try:
    from pydantic import ValidationError
    from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, RunContext
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ToolFailed, UserError
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        ModelResponseStreamEvent,
        ToolReturn,
        ToolReturnPart,
    )
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, WebSearchTool
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings, ToolOrOutput
    from pydantic_ai.tools import ToolDefinition as PydanticDefinition
    from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool
    from pydantic_ai.usage import RunUsage
    from pydantic_core import SchemaValidator, core_schema
except ImportError as e:
    raise explain_missing(e, "pydantic_ai", "pydantic-ai-slim") from None

__all__ = ["ToolglotModel", "ToolglotToolset", "import_tools", "import_toolset"]

_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())  # the executor validates and repairs them
_NATIVE_TOOLS: dict[str, type[AbstractNativeTool]] = {
    "web_search": WebSearchTool,
    "code_execution": CodeExecutionTool,
}
_EFFORTS: dict[Any, str] = {True: "medium", False: "none"}
_SETTINGS = {
    "stop_sequences": "stop",
    **{name: name for name in Options.__struct_fields__ if name not in ("stop", "cache")},
}


# ---- tools


def import_tools(
    tools: Iterable[Any] | AbstractToolset[Any], **options: Unpack[SchemaToolOptions]
) -> list[Tool]:
    """Return Pydantic AI's tools as ours: `Tool`s, functions that take a `RunContext`, or toolsets.

    `deps` is the run's `data`. A tool that needs approval asks as ours do. A toolset with connections (MCP)
    needs `import_toolset`. Raises UsageError.
    """
    items: list[Any] = [tools] if isinstance(tools, AbstractToolset) else list(as_items(tools))
    toolsets: list[AbstractToolset[Any]] = [item for item in items if isinstance(item, AbstractToolset)]
    functions = [item for item in items if not isinstance(item, AbstractToolset)]
    if functions:
        toolsets.insert(0, FunctionToolset(functions))
    imported: list[Tool] = []
    for toolset in toolsets:
        imported += [import_tool(toolset, tool, options) for tool in _list_tools(toolset).values()]
    return imported


async def import_toolset(toolset: AbstractToolset[Any], **options: Unpack[SchemaToolOptions]) -> list[Tool]:
    """Return the tools of an open toolset as ours. Run them in the same event loop: `await agent.run(…)`."""
    tools = await toolset.get_tools(_make_context(None))
    return [import_tool(toolset, tool, options) for tool in tools.values()]


def _list_tools(toolset: AbstractToolset[Any]) -> dict[str, ToolsetTool[Any]]:
    """Return a toolset's tools if they are available without waiting. Raises UsageError."""
    listing: Any = toolset.get_tools(_make_context(None))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_sync(listing)
    # Its connections belong to the current event loop: waiting for them in another loop would never end.
    try:
        listing.send(None)
    except StopIteration as e:
        return e.value
    listing.close()
    raise UsageError("the toolset must wait for its server; import it with `await import_toolset(…)`")


def _make_context(data: Any, **fields: Any) -> RunContext[Any]:
    return RunContext(deps=data, model=TestModel(), usage=RunUsage(), **fields)


def import_tool(toolset: AbstractToolset[Any], tool: ToolsetTool[Any], options: SchemaToolOptions) -> Tool:
    """Return a tool of a toolset as ours."""
    definition = tool.tool_def

    # These names must not clash with parameters.
    async def run_tool(toolglot_arguments: dict[str, Any], toolglot_context: Context[Any]) -> ToolOutput:
        fields: dict[str, Any] = {"tool_call_id": toolglot_context.call.id, "tool_name": definition.name}
        context = _make_context(toolglot_context.data, **fields, tool_call_approved=toolglot_context.approved)
        try:
            arguments = tool.args_validator.validate_python(toolglot_arguments)
            if tool.args_validator_func is not None:
                checked = tool.args_validator_func(context, **arguments)
                await checked if hasattr(checked, "__await__") else None
            try:
                value: Any = await toolset.call_tool(definition.name, arguments, context, tool)
            except ApprovalRequired as e:
                reason = str((e.metadata or {}).get("reason") or "the tool requires approval")
                await ask_user(toolglot_context, toolglot_arguments, reason)
                context = _make_context(toolglot_context.data, **fields, tool_call_approved=True)
                value = await toolset.call_tool(definition.name, arguments, context, tool)
        except (ModelRetry, ToolFailed) as e:
            raise ToolError(e.message) from e
        except ValidationError as e:
            raise ToolError(str(e), kind="validation", code="invalid_arguments") from e
        except CallDeferred as e:
            raise ToolError("The tool runs outside this program, which cannot wait for its results.") from e
        return import_value(value, definition.name)

    options_of_tool = {
        "approval": definition.kind == "unapproved",
        "deferred": definition.defer_loading,
        "ordered": definition.sequential,
        "strict": definition.strict,
        "timeout": definition.timeout,
        "output_schema": definition.return_schema,
    }
    description = definition.description or ""
    return make_tool(
        definition.name, description, definition.parameters_json_schema, run_tool, options, options_of_tool
    )


def import_value(value: Any, name: str) -> ToolOutput:
    """Convert the return value of a Pydantic AI tool."""
    content: Any = None
    if isinstance(value, ToolReturn):
        content = value.content
        value = value.return_value
    part = ToolReturnPart(name, value)
    files = import_content(part.files)
    text = part.model_response_str()
    parts: list[Any] = []
    if text or not files:
        parts.append(Text(text))
    additions = import_content([content] if isinstance(content, str) else content or ())
    data = value if not files and isinstance(value, dict | list) else None  # pyright: ignore[reportUnknownVariableType]
    return ToolOutput([*parts, *files, *additions], data=data)


class ToolglotToolset(AbstractToolset[Any]):
    """Our tools for Pydantic AI agents: validated, approved, sandboxed and recorded as in our own agents.

    A call that needs approval becomes a deferred call (`DeferredToolRequests`), unless `approve` decides. A
    run's dependencies are the tools' `data`. The options are those of `ExportOptions`.
    """

    def __init__(self, tools: AnyTools, *, id: str | None = None, **options: Unpack[ExportOptions]) -> None:
        self._id, self._exported = id, ExportedTools(tools, **options, framework_asks=True)

    @property
    def id(self) -> str | None:
        return self._id

    async def for_run(self, ctx: RunContext[Any]) -> "ToolglotToolset":
        other = ToolglotToolset.__new__(ToolglotToolset)
        other._id, other._exported = self._id, self._exported.fork(ctx.deps)
        return other

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        return self._exported.note or None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        definitions = self._exported.definitions(read_result=self._exported.has_long_results)
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=PydanticDefinition(
                    name=name,
                    parameters_json_schema=definition.parameters or {"type": "object", "properties": {}},
                    description=definition.description,
                    strict=definition.strict,
                    return_schema=definition.output_schema,
                ),
                max_retries=ctx.max_retries,
                args_validator=_ANY_ARGUMENTS,
            )
            for name, definition in definitions.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call = self._exported.make_call(name, tool_args, ctx.tool_call_id or "")
        answer = Allow() if ctx.tool_call_approved else None
        outcome = await self._exported.run(call, answer)
        if isinstance(outcome, ApprovalRequest):
            raise ApprovalRequired(describe_approval(outcome))
        if outcome.result.is_error:
            raise ToolFailed(outcome.result.text)
        return export_result(outcome.result.content, "result", [])


# ---- the model


class ToolglotModel(Model):
    """A Pydantic AI model on our engine: every provider, one class.

    Args:
        model: PROVIDER:MODEL, or an engine.
        settings: Default Pydantic AI settings.
        profile: Overrides for our profile of the model.
        engine: Options for `create_engine`.
    """

    unsupported_settings = frozenset(
        {"extra_headers", "logit_bias", "max_retries", "service_tier", "timeout"}
    )

    def __init__(
        self,
        model: str | Engine,
        *,
        settings: ModelSettings | None = None,
        profile: ModelProfile | None = None,
        **engine: Unpack[EngineOptions],
    ) -> None:
        self.engine = model if isinstance(model, Engine) else create_engine(model, **engine)
        limits, hosted = self.engine.profile.limits, SPECS[self.engine.profile.wire].hosted_tools
        facts: ModelProfile = {
            "supports_tools": True,
            "supports_json_schema_output": True,
            "supports_inline_system_prompts": True,
            "supports_thinking": True,
            "supports_cache": True,
            "supported_native_tools": frozenset(
                _NATIVE_TOOLS[name] for name in hosted if name in _NATIVE_TOOLS
            ),
            "context_window": limits.context,
        }
        super().__init__(settings=settings, profile={**facts, **(profile or {})})

    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        return frozenset(_NATIVE_TOOLS.values())

    @property
    def model_name(self) -> str:
        return self.engine.model

    @property
    def system(self) -> str:
        return self.engine.profile.id

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        request = self._build_request(messages, model_settings, model_request_parameters)
        with _translate_errors(self.engine.model):
            result = await self.engine.ask(request)
        reply, broken = result.reply, find_truncated_calls(result.reply)
        return ModelResponse(
            [part for block in reply.blocks if (part := export_part(block, broken)) is not None],
            usage=export_usage(reply.usage),
            model_name=self.engine.model,
            provider_name=self.system,
            provider_url=sanitize_url(self.engine.profile.base_url),
            provider_details=export_details(reply, (*result.losses, *result.repairs)),
            provider_response_id=reply.id or None,
            finish_reason=export_stop(reply),
            state="suspended" if reply.stop == "pause" else "complete",  # the next request continues it
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        request = self._build_request(messages, model_settings, model_request_parameters)
        state = self.engine.new_state()
        async with aclosing(state.stream_batches(replace(request, stream=True))) as batches:
            yield _StreamedReply(model_request_parameters, state, batches, self.engine)

    # ---- requests

    def _build_request(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Request:
        settings, parameters = self.prepare_request(settings, parameters)
        values = cast(dict[str, Any], settings or {})
        options: dict[str, Any] = {}
        for name, option in _SETTINGS.items():
            if values.get(name) is not None:
                options[option] = values[name]
        if parameters.thinking is not None:
            options["effort"] = _EFFORTS.get(parameters.thinking, parameters.thinking)
        cache = parameters.cache
        options["cache"] = CacheMark(cache) if isinstance(cache, str) else cache is not False
        parts = self._get_instruction_parts(messages, parameters) or []
        instructions = "\n\n".join(part.content for part in parts)
        extras = values.get("extra_body")
        return Request(
            messages=import_messages(messages, system=instructions),
            tools=self._build_tools(parameters),
            tool_choice=read_choice(values.get("tool_choice"), parameters),
            parallel=values.get("parallel_tool_calls"),
            options=Options(**options),
            output=_read_output(parameters),
            extras={self.engine.profile.wire: dict(cast(dict[str, Any], extras))}
            if isinstance(extras, dict)
            else {},
        )

    def _build_tools(self, parameters: ModelRequestParameters) -> tuple[ToolDefinition, ...]:
        names: list[str] = []
        for native in parameters.native_tools:
            _check_native_options(native)
            names += [name for name, cls in _NATIVE_TOOLS.items() if isinstance(native, cls)]
        functions = [
            ToolDefinition(tool.name, tool.description or "", tool.parameters_json_schema, strict=tool.strict)
            for tool in (*parameters.declared_function_tools, *parameters.output_tools)
        ]
        return (*functions, *HostedTools(names).definitions_for(self.engine.profile.wire))


def _check_native_options(native: Any) -> None:
    """Refuse options of a provider's own tool: there is no place for them here."""
    for option in fields(native):
        if option.name != "optional" and getattr(native, option.name) != option.default:
            raise UserError(
                f"ToolglotModel does not support {option.name!r} of {type(native).__name__}; leave it out"
            )


def _read_output(parameters: ModelRequestParameters) -> Output | None:
    """Return the schema of the answer, if the provider is to enforce it."""
    output = parameters.output_object
    if output is None or parameters.output_mode != "native":
        return None
    return Output(output.json_schema, output.name or "output", output.description or "", output.strict)


def read_choice(choice: Any, parameters: ModelRequestParameters) -> ToolChoice | None:
    """Return which tools the model may or must call.

    If text is not allowed, the output is a tool call, too.
    """
    outputs = [tool.name for tool in parameters.output_tools]
    may_answer = parameters.allow_text_output or parameters.allow_image_output
    mode = "auto" if may_answer else "required"
    if choice in (None, "auto"):
        is_forced = not may_answer and parameters.tool_defs
        return ToolChoice("required") if is_forced else None
    if choice == "required":
        return ToolChoice("required")
    if choice in ("none", []):
        return ToolChoice(mode, outputs) if outputs else ToolChoice("none")
    if isinstance(choice, ToolOrOutput):
        return ToolChoice(mode, (*choice.function_tools, *outputs))
    if isinstance(choice, list):
        return ToolChoice("required", cast(list[str], choice))
    raise UserError(f"unknown tool_choice: {choice!r}")


@contextmanager
def _translate_errors(model: str) -> Any:
    """Raise a provider's errors as Pydantic AI's, so that `FallbackModel` recognizes them."""
    try:
        yield
    except ProviderError as e:
        if e.status is None:
            raise ModelAPIError(model, str(e)) from e
        raise ModelHTTPError(e.status, model, e.body or str(e), retry_after=e.retry_after) from e
    except (TransportError, MalformedReply) as e:
        raise ModelAPIError(model, str(e)) from e


@dataclass
class _StreamedReply(StreamedResponse):
    """A streamed reply: text and reasoning as they arrive, calls and files when it is complete."""

    engine_state: EngineState
    batches: AsyncGenerator[Any]
    engine: Engine
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        manager = self._parts_manager
        with _translate_errors(self.model_name):
            async for batch in self.batches:
                for event in batch:
                    if isinstance(event, TextDelta):
                        for change in manager.handle_text_delta(
                            vendor_part_id=event.index, content=event.text
                        ):
                            yield change
                    elif isinstance(event, ThinkingDelta):
                        for change in manager.handle_thinking_delta(
                            vendor_part_id=event.index, content=event.text
                        ):
                            yield change
        assert self.engine_state.result is not None
        result: EngineResult = self.engine_state.result
        reply, broken = result.reply, find_truncated_calls(result.reply)
        # Calls only now: their fragments do not follow the caller's schemas, and a truncated call must not
        # run.
        for index, block in enumerate(reply.blocks):
            if (
                isinstance(block, ToolCall | Media | Foreign)
                and (part := export_part(block, broken)) is not None
            ):
                yield manager.handle_part(vendor_part_id=("complete", index), part=part)
        self._usage = export_usage(reply.usage)
        self.provider_details = export_details(reply, (*result.losses, *result.repairs))
        self.provider_response_id, self.finish_reason = reply.id or None, export_stop(reply)
        if reply.stop == "pause":
            self.state = "suspended"

    async def close_stream(self) -> None:
        await self.batches.aclose()

    @property
    def model_name(self) -> str:
        return self.engine.model

    @property
    def provider_name(self) -> str:
        return self.engine.profile.id

    @property
    def provider_url(self) -> str:
        return sanitize_url(self.engine.profile.base_url)

    @property
    def timestamp(self) -> datetime:
        return self.started_at
