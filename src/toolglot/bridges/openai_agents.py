"""OpenAI Agents SDK: its tools in our registry, our tools in its agents, and a model provider on our engine.

The SDK's conversations are items of the Responses API, whatever the model, so our codec for that wire
converts them.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Unpack, cast
from uuid import uuid4

from msgspec.structs import replace

from toolglot.bridges.exported_tools import ExportedTools, ExportOptions
from toolglot.bridges.imported_tools import ask_user, make_tool
from toolglot.bridges.messages import (
    explain_missing,
    find_truncated_calls,
    restore_original,
    store_original,
    to_plain,
)
from toolglot.common.jsontext import dumps, dumps_text, loads, loads_object
from toolglot.common.loggers import get_logger
from toolglot.common.value_checks import as_items
from toolglot.engine.engine import Engine, EngineResult
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.errors import UsageError
from toolglot.loop.agent.config import AnyTools
from toolglot.tools.context import Context
from toolglot.tools.options import SchemaToolOptions
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, ApprovalRequest
from toolglot.values.events import (
    EngineEvent,
    ReplyDone,
    ReplyStarted,
    RequestDelayed,
    Retrying,
    ToolCallReady,
)
from toolglot.values.messages import (
    Media,
    Message,
    Origin,
    Reply,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolglot.values.request import Options, Request
from toolglot.wire.codec import decode_request
from toolglot.wire.framing import SseDecoder
from toolglot.wire.openai_responses.reply_encode import ResponsesReplyEncoder
from toolglot.wire.spec import OPENAI_RESPONSES

try:
    from agents import FunctionTool, Handoff, Model, ModelProvider, ModelResponse, ModelSettings, ModelTracing
    from agents import Tool as AgentsTool
    from agents import Usage as AgentsUsage
    from agents.agent_output import AgentOutputSchemaBase
    from agents.models.openai_responses import Converter
    from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
    from openai.types.responses import Response, ResponseStreamEvent
    from pydantic import TypeAdapter
except ImportError as e:
    raise explain_missing(e, "agents", "openai-agents") from None

__all__ = ["ToolglotModel", "ToolglotProvider", "export_tools", "import_tools"]

log = get_logger("toolglot.bridges")
_PREFIX = "toolglot:"
"""Prefix of `encrypted_content` in a reasoning item that holds another provider's original reply."""
_RESPONSES_FIELDS = (
    "metadata", "store", "truncation", "top_logprobs", "prompt_cache_retention", "prompt_cache_options", "context_management"
)  # fmt: skip
_stream_events: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


# ---- tools


def import_tools(tools: Iterable[AgentsTool], **options: Unpack[SchemaToolOptions]) -> list[Tool]:
    """Return function tools of the SDK as ours. Their `context` is the run's `data`. Raises UsageError."""
    return [import_tool(tool, options) for tool in as_items(tools)]


def import_tool(tool: AgentsTool, options: SchemaToolOptions) -> Tool:
    """Return a function tool of the SDK as ours. Raises UsageError."""
    if not isinstance(tool, FunctionTool):
        raise UsageError(f"the tool {tool.name!r} is run by OpenAI; use hosted= of toolglot.Agent instead")
    if tool.tool_input_guardrails or tool.tool_output_guardrails:
        raise UsageError(
            f"the tool {tool.name!r} has guardrails, which only the Agents SDK runs; use Hooks instead"
        )
    function, needs_approval = tool, tool.needs_approval

    # These names must not clash with parameters.
    async def run_tool(toolglot_arguments: dict[str, Any], toolglot_context: Context[Any]) -> ToolOutput:
        call, text = toolglot_context.call, dumps_text(toolglot_arguments)
        context = ToolContext(
            toolglot_context.data, tool_name=tool.name, tool_call_id=call.id, tool_arguments=text
        )
        if callable(needs_approval) and await needs_approval(context, toolglot_arguments, call.id):
            await ask_user(toolglot_context, toolglot_arguments, "the tool requires approval")
        return ToolOutput(import_output(await function.on_invoke_tool(context, text)))

    options_of_tool = {
        "approval": needs_approval is True,
        "deferred": tool.defer_loading,
        "timeout": tool.timeout_seconds,
        "output_schema": tool.output_json_schema,
    }
    return make_tool(tool.name, tool.description, tool.params_json_schema, run_tool, options, options_of_tool)


def import_output(output: Any) -> Any:
    """Convert a tool's output to our blocks, through the item that the SDK would send."""
    items = cast(list[Any], output) if isinstance(output, list) else [output]
    kinds = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
    if not items or not all(isinstance(item, kinds) for item in items):
        return cast(Any, output)
    parts = [{**to_plain(item), "type": f"input_{item.type}"} for item in items]
    item = {"type": "function_call_output", "call_id": "call", "output": parts}
    (message,) = decode_request(OPENAI_RESPONSES, {"input": [item]}).messages
    return cast(ToolResult, message.blocks[0]).content


def export_tools(tools: AnyTools, **options: Unpack[ExportOptions]) -> list[AgentsTool]:
    """Return our tools as the SDK's, for one conversation.

    A call that needs approval interrupts the run, unless `approve` decides. `data` defaults to the run's
    context.
    """
    exported = ExportedTools(tools, **options, framework_asks=True)
    return [export_tool(exported, name) for name in exported.definitions()]


def export_tool(exported: ExportedTools, name: str) -> FunctionTool:
    """Return one of our tools as the SDK's."""
    definition = exported.definitions()[name]

    async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        return await exported.preview(exported.make_call(name, arguments, call_id)) is not None

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        try:
            arguments = loads_object(text or "{}")
        except ValueError:  # not repaired: they may have been truncated by the length limit
            return (
                "The call did not run: its arguments are not a JSON object, or were truncated. Make a "
                "shorter call."
            )
        tools = exported.with_data(context.context)
        call = tools.make_call(name, arguments, context.tool_call_id)
        is_approved = context.is_tool_approved(name, context.tool_call_id)
        outcome = await tools.run(call, Allow() if is_approved else None)
        if isinstance(outcome, ApprovalRequest):  # its effects have changed since it was approved
            outcome = await tools.run_or_refuse(call)
        return export_content(outcome.result.content)

    return FunctionTool(
        name,
        definition.description,
        definition.parameters or {"type": "object", "properties": {}},
        invoke,
        strict_json_schema=False,
        is_enabled=(lambda context, agent: exported.has_long_results) if name == "read_result" else True,
        # Only where it may be needed: the SDK also asks about any call whose arguments are not JSON.
        needs_approval=needs_approval if exported.may_ask(name) else False,
    )


def export_content(content: Iterable[ResultBlock]) -> Any:
    """Return a result as the SDK's outputs; a single text as a string."""
    outputs: list[Any] = []
    for block in content:
        if isinstance(block, Text):
            outputs.append(ToolOutputText(text=block.text))
        elif isinstance(block, Media):
            outputs.append(_export_media(block))
    if len(outputs) == 1 and isinstance(outputs[0], ToolOutputText):
        return outputs[0].text
    return outputs


def _export_media(block: Media) -> ToolOutputImage | ToolOutputFileContent:
    """Return media as the SDK's output; its data as a URL that contains it."""
    url = block.url
    if not url and block.data:
        url = f"data:{block.media_type};base64,{block.data}"
    if block.kind == "image":
        return ToolOutputImage(image_url=url, file_id=block.file_id)
    data = url if block.data else None
    return ToolOutputFileContent(
        file_data=data, file_url=block.url, file_id=block.file_id, filename=block.name or None
    )


# ---- the model


class ToolglotProvider(ModelProvider):
    """Every provider's models for the SDK, as PROVIDER:MODEL. Takes the options of `create_engine`."""

    def __init__(self, **engine: Unpack[EngineOptions]) -> None:
        self._options = engine

    def get_model(self, model_name: str | None) -> Model:
        if not model_name:
            raise UsageError("no model is named: use Agent(model='PROVIDER:MODEL')")
        return ToolglotModel(model_name, **self._options)


class ToolglotModel(Model):
    """An SDK model on our engine. `model`: PROVIDER:MODEL, or an engine."""

    def __init__(self, model: str | Engine, **engine: Unpack[EngineOptions]) -> None:
        self.engine = model if isinstance(model, Engine) else create_engine(model, **engine)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        tools: list[AgentsTool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        **others: Any,
    ) -> ModelResponse:
        request = self._build_request(
            system_instructions, input, model_settings, tools, output_schema, handoffs, others
        )
        result = await self.engine.ask(request)
        self._log_notes(result)
        reply = _hide_truncated_calls(result.reply)
        body = ResponsesReplyEncoder(self.engine.model).encode_reply(reply)
        response = Response.model_validate({**body, "output": _wrap_items(body["output"], reply)})
        usage = response.usage
        assert usage is not None
        counts = AgentsUsage(
            requests=1,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            input_tokens_details=usage.input_tokens_details,
            output_tokens_details=usage.output_tokens_details,
        )
        return ModelResponse(output=response.output, usage=counts, response_id=reply.id or None)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        tools: list[AgentsTool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        **others: Any,
    ) -> AsyncIterator[Any]:
        request = self._build_request(
            system_instructions, input, model_settings, tools, output_schema, handoffs, others
        )
        profile = self.engine.profile
        encoder = ResponsesReplyEncoder(profile.model, origin=Origin(profile.wire, profile.id, profile.model))
        state = self.engine.new_state()
        async with aclosing(state.stream_batches(replace(request, stream=True))) as batches:
            async for batch in batches:
                for event in batch:
                    for item in self._encode_event(encoder, event):
                        yield item
        assert state.result is not None
        self._log_notes(state.result)

    def _encode_event(self, encoder: ResponsesReplyEncoder, event: EngineEvent) -> Iterator[Any]:
        """Yield the SDK's events for one of ours."""
        reply: Reply | None = None
        match event:
            case Retrying() | RequestDelayed():
                return
            case ReplyStarted(id=""):
                event = ReplyStarted(f"resp_{uuid4().hex}", event.model)
            case ToolCallReady(call=call):
                event = ToolCallReady(event.index, _drop_raw(call))
            case ReplyDone():
                reply = _hide_truncated_calls(event.reply)
                event = ReplyDone(reply)
            case _:
                pass
        for _, data in SseDecoder().feed(encoder.feed(event)):
            document: dict[str, Any] = loads(cast(bytes, data))
            if reply is not None and isinstance(response := document.get("response"), dict):
                response["output"] = _wrap_items(cast(dict[str, Any], response)["output"], reply)
            yield _stream_events.validate_python(document)

    def _log_notes(self, result: EngineResult) -> None:
        """Log losses and repairs, because the SDK has no place for them."""
        for note in (*result.losses, *result.repairs):
            log.info("%s: %s", self.engine.name, note)

    def _build_request(
        self,
        instructions: str | None,
        input: str | list[Any],
        settings: ModelSettings,
        tools: list[AgentsTool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        others: Mapping[str, Any],
    ) -> Request:
        for name in ("extra_headers", "extra_query"):
            if getattr(settings, name):
                raise UsageError(
                    f"ModelSettings.{name} is not supported; pass headers= or base_url= to the model"
                )
        for name, value in others.items():
            if value:
                raise UsageError(
                    f"{name} refers to data stored by OpenAI; with other models, pass the whole conversation"
                )
        fields = {
            "model": self.engine.model,
            "instructions": instructions,
            "input": to_plain(input),
            "tools": Converter.convert_tools(tools, handoffs, tool_choice=settings.tool_choice).tools,
            "tool_choice": Converter.convert_tool_choice(
                settings.tool_choice, tools=tools, handoffs=handoffs
            ),
            "parallel_tool_calls": settings.parallel_tool_calls,
            "text": _describe_text(output_schema, settings),
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_output_tokens": settings.max_tokens,
            "reasoning": to_plain(settings.reasoning),
            "include": settings.response_include,
        }
        for name in _RESPONSES_FIELDS:
            fields[name] = getattr(settings, name, None)
        fields |= cast(dict[str, Any], settings.extra_body or {})
        fields |= settings.extra_args or {}
        # `Omit` is the SDK's way to say that a field is not sent.
        body = {
            name: value
            for name, value in fields.items()
            if value is not None and type(value).__name__ != "Omit"
        }
        request = decode_request(OPENAI_RESPONSES, body)
        penalties = {
            "presence_penalty": settings.presence_penalty,
            "frequency_penalty": settings.frequency_penalty,
        }
        options: Options = replace(request.options, cache=True, **penalties)
        return replace(
            request,
            model="",
            messages=[unwrap_reply(message) for message in request.messages],
            options=options,
        )


def _describe_text(
    output_schema: AgentOutputSchemaBase | None, settings: ModelSettings
) -> dict[str, Any] | None:
    """Return a request's `text`: the format of the answer and its verbosity."""
    form: Any = Converter.get_response_format(output_schema)
    verbosity = {} if settings.verbosity is None else {"verbosity": settings.verbosity}
    return {**(cast(dict[str, Any], form) if isinstance(form, dict) else {}), **verbosity} or None


def _drop_raw(call: ToolCall) -> ToolCall:
    """Return a call whose text is its arguments, following the tool's own schema."""
    return call if call.arguments is None else replace(call, raw=None)


def _hide_truncated_calls(reply: Reply) -> Reply:
    """Return a reply in which truncated calls have invalid arguments, so that they are not run."""
    broken = find_truncated_calls(reply)
    blocks = list(reply.blocks)
    for index, block in enumerate(blocks):
        if block in broken:
            blocks[index] = replace(block, arguments=None, raw=f"(invalid) {block.text}")
        elif isinstance(block, ToolCall):
            blocks[index] = _drop_raw(block)
    return replace(reply, blocks=tuple(blocks), id=reply.id or f"resp_{uuid4().hex}")


# ---- other providers' opaque state


def _wrap_items(items: list[dict[str, Any]], reply: Reply) -> list[dict[str, Any]]:
    """Return a reply's items, with the reply itself in the first reasoning item if it has another wire's
    state.
    """
    original = store_original(reply.message)
    origin = reply.origin
    is_openais = origin is not None and (origin.wire, origin.profile) == (OPENAI_RESPONSES, OPENAI_RESPONSES)
    if original is None or is_openais:
        return items  # OpenAI's own items contain it
    state = {"encrypted_content": _PREFIX + b64encode(dumps(original)).decode()}
    wrapped = list(items)
    for index, item in enumerate(items):
        if item["type"] == "reasoning":
            wrapped[index] = {**item, **state}
            return wrapped
    return [{"type": "reasoning", "id": f"rs_{reply.id}", "summary": list[Any](), **state}, *items]


def unwrap_reply(message: Message) -> Message:
    """Undo `_wrap_items`: return the reply that a message's reasoning item holds."""
    for block in message.blocks:
        if not isinstance(block, Thinking) or block.opaque is None:
            continue
        text = block.opaque.get("encrypted_content")
        if isinstance(text, str) and text.startswith(_PREFIX):
            try:
                return restore_original(loads(b64decode(text.removeprefix(_PREFIX))), message)
            except (ValueError, Base64Error):  # it was shortened
                return message
    return message
