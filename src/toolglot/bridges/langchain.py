"""LangChain: its tools in our registry, our tools in its agents, its messages, and a chat model on our
engine.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from inspect import cleandoc
from operator import itemgetter
from typing import Any, Literal, Unpack, cast

from msgspec.structs import replace

from toolglot.bridges.event_streams import describe_approval
from toolglot.bridges.exported_tools import ExportedTools, ExportOptions, read_answer
from toolglot.bridges.imported_tools import make_tool
from toolglot.bridges.langchain_messages import (
    export_content,
    export_metadata,
    export_reply,
    export_usage,
    import_content,
    import_messages,
)
from toolglot.bridges.messages import explain_missing, find_truncated_calls
from toolglot.common.value_checks import as_items
from toolglot.engine.engine import Engine, EngineResult
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.transport import sanitize_url
from toolglot.errors import ToolError, UnknownName
from toolglot.loop.agent.config import AnyTools
from toolglot.loop.background_loop import iterate_sync, run_sync
from toolglot.providers.tokens import estimate_text, token_factor
from toolglot.tools.context import Context
from toolglot.tools.options import SchemaToolOptions
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import TextDelta, ThinkingDelta, ToolOutcome
from toolglot.values.losses import Loss
from toolglot.values.messages import Media
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request
from toolglot.wire.converters import decode_tools
from toolglot.wire.spec import OPENAI_CHAT
from toolglot.wire.tool_encoding import FREEFORM_SCHEMA

try:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
    from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
    from langchain_core.tools import BaseTool, ToolException
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from pydantic import BaseModel, ValidationError
except ImportError as e:
    raise explain_missing(e, "langchain_core", "langchain-core") from None

__all__ = ["ChatToolglot", "export_tools", "import_tools"]


# ---- tools


def import_tools(tools: Iterable[BaseTool], **options: Unpack[SchemaToolOptions]) -> list[Tool]:
    """Return LangChain's tools as ours. The options, such as `effects`, apply to all of them.

    The run's `data` is in their `config["configurable"]`.
    """
    return [import_tool(tool, options) for tool in as_items(tools)]


def import_tool(tool: BaseTool, options: SchemaToolOptions) -> Tool:
    """Return a LangChain tool as ours."""
    schema = tool.tool_call_schema
    schema = dict(schema) if isinstance(schema, dict) else cast(type[BaseModel], schema).model_json_schema()
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}

    # These names must not clash with parameters.
    async def run_tool(toolglot_arguments: dict[str, Any], toolglot_context: Context[Any]) -> ToolOutput:
        data = toolglot_context.data
        configurable: dict[str, Any] = (
            dict(cast(Mapping[str, Any], data)) if isinstance(data, Mapping) else {"data": data}
        )
        call = {
            "type": "tool_call",
            "id": toolglot_context.call.id,
            "name": tool.name,
            "args": toolglot_arguments,
        }
        try:
            message = await tool.ainvoke(cast(Any, call), {"configurable": configurable})
        except ToolException as e:
            raise ToolError(str(e) or "the tool failed without a message") from e
        except ValidationError as e:
            raise ToolError(str(e), kind="validation", code="invalid_arguments") from e
        if not isinstance(message, ToolMessage):  # the tool returned an object meant for a graph
            return ToolOutput(message)
        return ToolOutput(import_content(message), is_error=message.status == "error")

    return make_tool(tool.name, cleandoc(tool.description), parameters, run_tool, options)


def export_tools(tools: AnyTools, **options: Unpack[ExportOptions]) -> list[BaseTool]:
    """Return our tools as LangChain's, for one conversation. A result's artifact is its `data`.

    A call that needs approval interrupts the graph: resume it with True, False, or a decision from
    LangChain's middleware. Outside a graph, `approve` decides.
    """
    exported = ExportedTools(tools, **options, framework_asks=True)
    return [
        _ExportedTool(
            name=name,
            description=definition.description,
            args_schema=definition.parameters or {"type": "object", "properties": {}},
            metadata={"toolglot_note": exported.note} if exported.note else None,
            exported=exported,
        )
        for name, definition in exported.definitions().items()
    ]


class _ExportedTool(BaseTool):
    """One of our tools."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    exported: Any

    def _run(self, *args: Any, **arguments: Any) -> tuple[Any, Any]:
        exported: ExportedTools = self.exported
        call = exported.make_call(self.name, arguments)
        outcome = run_sync(exported.run(call))
        while isinstance(outcome, ApprovalRequest) and (interrupt := _find_interrupt()) is not None:
            outcome = run_sync(exported.run(call, read_answer(interrupt(describe_approval(outcome)))))
        if isinstance(outcome, ApprovalRequest):
            outcome = run_sync(exported.run_or_refuse(call))
        return _export_outcome(outcome)

    async def _arun(self, *args: Any, **arguments: Any) -> tuple[Any, Any]:
        exported: ExportedTools = self.exported
        call = exported.make_call(self.name, arguments)
        outcome = await exported.run(call)
        while isinstance(outcome, ApprovalRequest) and (interrupt := _find_interrupt()) is not None:
            outcome = await exported.run(call, read_answer(interrupt(describe_approval(outcome))))
        if isinstance(outcome, ApprovalRequest):
            outcome = await exported.run_or_refuse(call)
        return _export_outcome(outcome)


def _find_interrupt() -> Callable[[Any], Any] | None:
    """Return LangGraph's `interrupt` if an interruptible graph is running."""
    try:
        config: Any = import_module("langgraph.config").get_config()
    except (ImportError, RuntimeError):  # it is not installed, or no graph is running
        return None
    interrupt = import_module("langgraph.types").interrupt
    return interrupt if config["configurable"].get("__pregel_checkpointer") is not None else None


def _export_outcome(outcome: ToolOutcome) -> tuple[Any, Any]:
    """Return content and artifact. LangGraph stores artifacts, so they must be plain data."""
    if outcome.result.is_error:
        raise ToolException(outcome.result.text)
    return export_content(outcome.result.content, "result", []), outcome.result.data


# ---- the model


class ChatToolglot(BaseChatModel):
    """A LangChain chat model on our engine: every provider, one class.

    Args:
        model: PROVIDER:MODEL, or an engine.
        options: Generation options; individual ones can be passed by name (`temperature=0`), also to `bind`
            and `invoke`.
        others: Options for `create_engine`, and for LangChain's chat models.
    """

    engine: Any
    options: Any

    def __init__(self, model: str | Engine, *, options: Options | None = None, **others: Any) -> None:
        engine_options = {
            name: others.pop(name) for name in [*others] if name in EngineOptions.__annotations__
        }
        named = {name: others.pop(name) for name in [*others] if name in _OPTION_NAMES or name == "stop"}
        if unknown := others.keys() - type(self).model_fields.keys():
            raise UnknownName(
                "chat model option", min(unknown), {*_OPTION_NAMES, *EngineOptions.__annotations__}
            )
        engine = model if isinstance(model, Engine) else create_engine(model, **engine_options)
        fields: dict[str, Any] = {
            "engine": engine,
            "options": replace(options or Options(cache=True), **named),
            **others,
        }
        super().__init__(**fields)

    @property
    def _llm_type(self) -> str:
        return "toolglot"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # Part of the key of LangChain's reply cache: two servers can have models with the same name.
        base_url = sanitize_url(self.engine.profile.base_url)
        return {"model": self.engine.name, "base_url": base_url, "options": repr(self.options)}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        model = {"ls_provider": self.engine.profile.id, "ls_model_name": self.engine.model}
        return {**super()._get_ls_params(stop=stop, **kwargs), **model}

    def get_num_tokens(self, text: str) -> int:
        """Estimate the tokens of a text, for `trim_messages` and others."""
        return round(estimate_text(text) * token_factor(self.engine.model))

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Give the model tools: LangChain's, ours, functions, types, or a provider's own definitions."""
        bound = [describe_tool(tool, strict) for tool in tools]
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return cast(Any, self.bind(tools=bound, **choice, **kwargs))

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str = "function_calling", **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Make the model answer with data: by a tool call (`method="function_calling"`), or as JSON.

        `json_schema`: the provider's own structured output; `json_mode`: any JSON object, as the prompt
        describes.
        """
        if method not in ("function_calling", "json_schema", "json_mode"):
            raise UnknownName("method", method, ("function_calling", "json_schema", "json_mode"))
        if method == "function_calling":
            return cast(Any, super().with_structured_output(schema, include_raw=include_raw, **kwargs))
        output: dict[str, Any] = {"type": "json_object"}
        if method == "json_schema":
            function = convert_to_openai_tool(schema)["function"]
            shape = {
                "name": function["name"],
                "description": function.get("description", ""),
                "schema": function["parameters"],
            }
            output = {"type": "json_schema", "json_schema": {**shape, "strict": kwargs.get("strict")}}
        trace = {"kwargs": {"method": method}, "schema": schema}
        model = self.bind(response_format=output, ls_structured_output_format=trace)
        is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        parser = cast(Any, PydanticOutputParser(pydantic_object=schema) if is_model else JsonOutputParser())  # pyright: ignore[reportUnknownArgumentType]
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        fallback = RunnablePassthrough.assign(parsed=lambda _: None)
        return cast(
            Any, RunnableMap(raw=model) | parsed.with_fallbacks([fallback], exception_key="parsing_error")
        )

    # ---- requests

    def _build_request(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Request:
        named = {name: kwargs.pop(name) for name in [*kwargs] if name in _OPTION_NAMES}
        if stop:
            named["stop"] = tuple(stop)
        options: Options = replace(self.options, **named)
        tools, choice = kwargs.pop("tools", ()), kwargs.pop("tool_choice", None)
        output, parallel = kwargs.pop("response_format", None), kwargs.pop("parallel_tool_calls", None)
        extras = kwargs.pop("extras", {})
        if unknown := kwargs.keys() - {"stream"}:
            raise UnknownName(
                "request option", min(unknown), {*_OPTION_NAMES, "tools", "tool_choice", "extras"}
            )
        definitions: list[ToolDefinition] = []
        for tool in tools:
            if "function" in tool:
                definitions += decode_tools(tool)
            else:  # the provider's own tool, in its own format
                definitions += decode_request(self.engine.profile.wire, {"tools": [tool]}).tools
        return Request(
            messages=import_messages(messages),
            tools=tuple(definitions),
            tool_choice=read_choice(choice),
            parallel=parallel,
            options=options,
            output=None
            if output is None
            else decode_request(OPENAI_CHAT, {"response_format": output}).output,
            extras=extras,
        )

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result: EngineResult = await self.engine.ask(self._build_request(messages, stop, kwargs))
        reply, losses = result.reply, list[Loss]()
        fields = export_reply(reply.message, "reply", losses, find_truncated_calls(reply))
        metadata = export_metadata(reply, self.engine.model, (*result.losses, *result.repairs, *losses))
        message = AIMessage(
            **fields, response_metadata=metadata, usage_metadata=cast(Any, export_usage(reply.usage))
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return run_sync(self._agenerate(messages, stop, None, **kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with aclosing(self._iter_chunks(self._build_request(messages, stop, kwargs))) as chunks:
            async for chunk in chunks:
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in iterate_sync(self._iter_chunks(self._build_request(messages, stop, kwargs))):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _iter_chunks(self, request: Request) -> AsyncGenerator[ChatGenerationChunk]:
        """Yield text and reasoning as they arrive; calls, media and the rest when the reply is complete."""
        state = self.engine.new_state()
        async with aclosing(state.stream_batches(replace(request, stream=True))) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, TextDelta):
                        yield ChatGenerationChunk(message=AIMessageChunk(content=event.text))
                    elif isinstance(event, ThinkingDelta):
                        part = {"type": "reasoning", "reasoning": event.text, "index": event.index}
                        yield ChatGenerationChunk(message=AIMessageChunk(content=[part]))
        result: EngineResult = state.result
        reply, losses = result.reply, list[Loss]()
        # Calls only now: their fragments do not follow the caller's schemas, and a truncated call must not
        # run.
        fields = export_reply(reply.message, "reply", losses, find_truncated_calls(reply))
        fields["content"] = export_content(
            [block for block in reply.blocks if isinstance(block, Media)], "reply", losses
        )
        metadata = export_metadata(reply, self.engine.model, (*result.losses, *result.repairs, *losses))
        usage = cast(Any, export_usage(reply.usage))
        message = AIMessageChunk(
            **fields, response_metadata=metadata, usage_metadata=usage, chunk_position="last"
        )
        yield ChatGenerationChunk(message=message)


# LangChain has its own options with these names
_OPTION_NAMES = frozenset(Options.__struct_fields__) - {"cache", "stop"}


def describe_tool(tool: Any, strict: bool | None) -> dict[str, Any]:
    """Return a tool as the dict that LangChain traces: a function in OpenAI's format, or a provider's own
    definition.
    """
    definition = tool.definition if isinstance(tool, Tool) else tool
    if isinstance(definition, ToolDefinition):
        return _describe_definition(definition, strict)
    if isinstance(definition, dict):
        fields = cast(dict[str, Any], definition)
        if fields.get("type", "function") != "function" and "function" not in fields:
            return fields
    return convert_to_openai_tool(cast(Any, definition), strict=strict)


def _describe_definition(definition: ToolDefinition, strict: bool | None) -> dict[str, Any]:
    """Return a definition as OpenAI's, or as the provider's own.

    `strict`: None leaves it to the definition.
    """
    if definition.kind == "hosted":
        return dict(definition.opaque or {})
    parameters = definition.parameters or {}
    if definition.kind == "freeform":
        parameters = FREEFORM_SCHEMA
    function: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "parameters": parameters,
    }
    if strict is None:
        strict = definition.strict
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def read_choice(choice: Any) -> ToolChoice | None:
    """Convert LangChain's `tool_choice`, in any of its usual forms. Raises UnknownName."""
    match choice:
        case None | False:
            return None
        case True | "any" | "required":
            return ToolChoice("required")
        case "auto" | "none":
            return ToolChoice(choice)
        case str(name) | {"function": {"name": str(name)}} | {"name": str(name)}:
            return ToolChoice("required", (name,))
        case {"type": "any"}:
            return ToolChoice("required")
        case _:
            raise UnknownName(
                "tool_choice", json.dumps(choice, default=str), ("auto", "none", "any", "the name of a tool")
            )
