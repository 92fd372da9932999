"""The server that MCP's conformance suite asks for, on `McpToolServer`.

What the suite calls tools are tools of toolglot wherever those can do it, run by the executor; some speak to
the client through the SDK's session (`current_request`). toolglot serves tools only: prompts, resources,
completion and log levels are handlers of the SDK's server, and so are the calls that answer with
`input_required` for other reasons than an approval."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import PromptsListChanged

from mcp import MCPError
from toolglot import Context, Foreign, Media, Tool, ToolError, ToolRegistry, tool, tool_from_schema
from toolglot.mcp import McpToolServer, current_request

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
Handler = Callable[[ServerRequestContext[None], types.CallToolRequestParams], Awaitable[Any]]
Inputs = dict[str, types.InputRequest]


def _resource(uri: str, mime_type: str, text: str) -> Foreign:
    return Foreign("mcp", {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})


# ---- tools of toolglot


def test_simple_text() -> str:
    return "This is a simple text response for testing."


def test_image_content() -> Media:
    return Media("image", "image/png", PNG)


def test_audio_content() -> Media:
    return Media("audio", "audio/wav", WAV)


def test_embedded_resource() -> Foreign:
    return _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")


def test_multiple_content_types() -> list[Any]:
    data = _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ["Multiple content types test:", test_image_content(), data]


def test_error_handling() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


def test_tool_with_progress(context: Context) -> str:
    for step in ("0/100", "50/100", "100/100"):
        context.report(step)
    return "done"


async def test_tool_with_logging() -> str:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        request = current_request.get()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await request.session.send_log_message(  # pyright: ignore[reportDeprecated]
                "info", message, related_request_id=request.request_id
            )
    return "logged"


async def test_sampling(prompt: str) -> str:
    request = current_request.get()
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        reply = await request.session.create_message(  # pyright: ignore[reportDeprecated]
            [message], max_tokens=100, related_request_id=request.request_id
        )
    assert isinstance(reply.content, types.TextContent)
    return f"LLM response: {reply.content.text}"


async def _elicit(message: str, properties: dict[str, Any], required: list[str]) -> types.ElicitResult:
    request = current_request.get()
    schema = {"type": "object", "properties": properties, "required": required}
    return await request.session.elicit_form(message, schema, request.request_id)


async def test_elicitation(message: str) -> str:
    text = {"type": "string", "description": "User's response"}
    answer = await _elicit(message, {"username": text, "email": text}, ["username", "email"])
    return f"User response: action={answer.action}, content={answer.content}"


async def test_elicitation_sep1034_defaults() -> str:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await _elicit("Please fill in the form", properties, [])
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


async def test_elicitation_sep1330_enums() -> str:
    plain, words = ["option1", "option2", "option3"], ("First", "Second", "Third")
    titled = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in enumerate(words, 1)]
    names = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    properties: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await _elicit("Please choose", properties, [])
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


async def test_reconnection() -> str:
    """The stream is closed before the result: the client gets it when it comes back."""
    if (close := current_request.get().close_sse_stream) is not None:
        await close()
    return "Reconnection test completed"


@tool(approval=True)
def test_streaming_elicitation() -> str:
    """A call that needs approval: the client is asked by the result, not by a request of the server."""
    return "approved"


def take_anything(arguments: dict[str, Any]) -> str:
    return "ok"


TOOLS: list[Callable[..., Any] | Tool] = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_tool_with_logging,
    tool(test_tool_with_logging, name="test_logging_tool"),
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_reconnection,
    test_streaming_elicitation,
]
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# ---- calls that the SDK's server answers


def _form(message: str, name: str, type: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": type}}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str, max_tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


_NAME = {"user_name": _form("What is your name?", "name")}
_ROOTS = {"client_roots": types.ListRootsRequest(params=types.RequestParams())}
_ALL = {**_NAME, "greeting": _sample("Generate a greeting", 50), **_ROOTS}
_CAPITAL = {"capital_question": _sample("What is the capital of France?", 100)}
# tool -> what it asks for, round by round; the state names the round
ROUNDS: dict[str, list[tuple[Inputs, str | None]]] = {
    "test_input_required_result_elicitation": [({**_NAME}, None)],
    "test_input_required_result_sampling": [({**_CAPITAL}, None)],
    "test_input_required_result_list_roots": [({**_ROOTS}, None)],
    "test_input_required_result_request_state": [
        ({"confirm": _form("Please confirm", "ok", "boolean")}, "0")
    ],
    "test_input_required_result_multiple_inputs": [(_ALL, "0")],
    "test_input_required_result_multi_round": [
        ({"step1": _form("Step 1: What is your name?", "name")}, "0"),
        ({"step2": _form("Step 2: What is your favorite color?", "color")}, "1"),
    ],
    "test_input_required_result_tampered_state": [
        ({"confirm": _form("Please confirm", "ok", "boolean")}, "0")
    ],
    "test_input_required_result_capabilities": [(_ALL, None)],
}
_CAPABILITIES = {
    types.ElicitRequest: "elicitation",
    types.CreateMessageRequest: "sampling",
    types.ListRootsRequest: "roots",
}


def _select_supported(inputs: Inputs, context: ServerRequestContext[None]) -> Inputs:
    capabilities = context.session.client_capabilities
    return {
        key: value
        for key, value in inputs.items()
        if getattr(capabilities, _CAPABILITIES[type(value)], None) is not None
    }


async def answer_in_rounds(
    context: ServerRequestContext[None], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask for what the present round needs; when all is there, say what it was."""
    rounds, responses = ROUNDS[params.name], params.input_responses or {}
    number = int(params.request_state or 0)
    inputs, state = rounds[number]
    wanted = _select_supported(inputs, context)
    if wanted.keys() <= responses.keys() and responses:
        if number + 1 == len(rounds):
            answers = [
                value.model_dump(mode="json", by_alias=True, exclude_none=True)
                for value in responses.values()
            ]
            return types.CallToolResult(content=[types.TextContent(text=f"Hello, state-ok: {answers}")])
        wanted, state = rounds[number + 1]
    return types.InputRequiredResult(input_requests=wanted, request_state=state)


async def require_sampling(
    context: ServerRequestContext[None], params: types.CallToolRequestParams
) -> types.CallToolResult:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        data: Any = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", data)
    return types.CallToolResult(content=[types.TextContent(text="sampling is there")])


# ---- prompts and resources


def _user(content: types.ContentBlock) -> types.PromptMessage:
    return types.PromptMessage(role="user", content=content)


def _text(text: str) -> types.PromptMessage:
    return _user(types.TextContent(text=text))


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_prompts(context: ServerRequestContext[None], params: Any) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name,
            description=f"The prompt {name}",
            arguments=[
                types.PromptArgument(name=each, description=each, required=True) for each in arguments
            ],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def get_prompt(
    context: ServerRequestContext[None], params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            messages = [_text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [
                _text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")
            ]
        case "test_prompt_with_embedded_resource":
            contents = types.TextResourceContents(
                uri=arguments["resourceUri"],
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            messages = [
                _user(types.EmbeddedResource(resource=contents)),
                _text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            image = types.ImageContent(data=PNG, mime_type="image/png")
            messages = [_user(image), _text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            if "user_context" not in (params.input_responses or {}):
                question = _form("What context should the prompt use?", "context")
                return types.InputRequiredResult(input_requests={"user_context": question})
            messages = [_text("The context is known.")]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
    return types.GetPromptResult(messages=messages)


async def list_resources(context: ServerRequestContext[None], params: Any) -> types.ListResourcesResult:
    rows = [
        ("test://static-text", "text/plain"),
        ("test://static-binary", "image/png"),
        ("test://watched-resource", "text/plain"),
    ]
    resources = [
        types.Resource(uri=uri, name=uri[7:], description=f"The resource {uri}", mime_type=mime)
        for uri, mime in rows
    ]
    return types.ListResourcesResult(resources=resources)


async def list_templates(
    context: ServerRequestContext[None], params: Any
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    context: ServerRequestContext[None], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    match str(params.uri).removeprefix("test://").split("/"):
        case ["static-text"]:
            text, mime = "This is the content of the static text resource.", "text/plain"
        case ["watched-resource"]:
            text, mime = "watched", "text/plain"
        case ["template", id, "data"]:
            text, mime = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}', "application/json"
        case ["static-binary"]:
            blob = types.BlobResourceContents(uri=params.uri, mime_type="image/png", blob=PNG)
            return types.ReadResourceResult(contents=[blob])
        case _:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": str(params.uri)})
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)]
    )


async def complete(
    context: ServerRequestContext[None], params: types.CompleteRequestParams
) -> types.CompleteResult:
    return types.CompleteResult(
        completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False)
    )


async def accept(context: ServerRequestContext[None], params: Any) -> types.EmptyResult:
    return types.EmptyResult()


class Events(EventStore):
    """Keeps what was sent, so that a client whose stream was closed gets the rest."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        number = int(last_event_id)
        stream_id = self._events[number - 1][0]
        for index, (stream, message) in enumerate(self._events[number:], number + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(index)))
        return stream_id


def create_server() -> McpToolServer:
    """Return the server with everything that the suite looks for."""
    registry = ToolRegistry(tool(each, description="A tool of the suite.") for each in TOOLS)
    server = McpToolServer(registry)
    sdk = server.sdk

    async def change_tools() -> str:
        name = "test_changing_tool"
        if name in registry:
            registry.unregister(name)
        else:
            registry.register(tool(test_simple_text, name=name, description="It comes and goes."))
        await asyncio.sleep(0)  # the change is announced by the event loop
        return "changed"

    async def change_prompts() -> str:
        await server.bus.publish(PromptsListChanged())
        return "changed"

    for name, function in (
        ("test_trigger_tool_change", change_tools),
        ("test_trigger_prompt_change", change_prompts),
    ):
        registry.register(tool(function, name=name, description="Changes a list."))
    registry.register(
        tool_from_schema("json_schema_2020_12_tool", "JSON Schema 2020-12.", SCHEMA_2020_12, take_anything)
    )
    handlers: dict[str, Handler] = {
        **dict.fromkeys(ROUNDS, answer_in_rounds),
        "test_missing_capability": require_sampling,
    }
    for name in handlers:
        registry.register(tool(test_simple_text, name=name, description="Answered by the SDK's server."))
    call_tool = sdk.get_request_handler("tools/call")
    assert call_tool is not None

    async def dispatch(context: ServerRequestContext[None], params: types.CallToolRequestParams) -> Any:
        return await handlers.get(params.name, call_tool.handler)(context, params)

    rows: list[tuple[str, type[Any], Callable[..., Awaitable[Any]]]] = [
        ("tools/call", types.CallToolRequestParams, dispatch),
        ("prompts/list", types.PaginatedRequestParams, list_prompts),
        ("prompts/get", types.GetPromptRequestParams, get_prompt),
        ("resources/list", types.PaginatedRequestParams, list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, list_templates),
        ("resources/read", types.ReadResourceRequestParams, read_resource),
        ("resources/subscribe", types.SubscribeRequestParams, accept),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, accept),
        ("completion/complete", types.CompleteRequestParams, complete),
        ("logging/setLevel", types.SetLevelRequestParams, accept),
    ]
    for method, params_type, handler in rows:
        sdk.add_request_handler(method, params_type, handler)
    return server
