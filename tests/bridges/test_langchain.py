"""LangChain: tools both ways, messages, and the chat model, with the real package."""

import asyncio
from contextlib import aclosing
from importlib import import_module
from typing import Annotated, Any, cast

import pytest

pytest.importorskip("langchain_core", reason="pip install langchain-core")

from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field

from toolglot import (
    Agent,
    CacheMark,
    ContextTooLong,
    MalformedRequest,
    Media,
    Options,
    RateLimited,
    Reply,
    Request,
    RetryConfig,
    Script,
    SimulatedTransport,
    Simulator,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    UnknownName,
    user,
)
from toolglot.bridges import export_messages, import_messages
from toolglot.bridges.langchain import ChatToolglot, export_tools, import_tools
from toolglot.bridges.langchain_messages import ORIGINAL
from toolglot.tools.hosted import HostedTools

from .kit import PNG, TOOLS, WIRES, add, conversation, transport


@langchain_tool
def get_weather(city: str, days: Annotated[int, "How many days."] = 1) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees for {days} days"


class Point(BaseModel):
    """A point."""

    x: int = Field(description="Horizontal.")
    y: int


# ---- tools


def test_their_tool_runs_in_our_agent_on_every_wire() -> None:
    for wire in WIRES:
        agent = Agent(f"simulator:{wire}", tools=import_tools([get_weather]))
        assert (
            agent.run_sync("Weather in Paris?").outcomes[0].result.text == "Paris: 21 degrees for 1 days"
        ), wire


def test_their_schema_is_what_a_model_sees() -> None:
    (tool,) = import_tools([get_weather], effects="read", tags=["weather"])
    assert tool.definition.description == "Get the weather in a city."
    assert (tool.definition.parameters or {})["properties"]["days"]["description"] == "How many days."
    assert (tool.effects, tool.tags) == (frozenset({"read"}), frozenset({"weather"}))


def test_injected_arguments_are_not_the_models() -> None:
    def whoami(
        question: str,
        config: RunnableConfig,
        call_id: Annotated[str, InjectedToolCallId],
        secret: Annotated[str, InjectedToolArg] = "none",
    ) -> str:
        """Say who asks."""
        return f"{question} {config.get('configurable', {}).get('user')} {call_id} {secret}"

    (tool,) = import_tools([StructuredTool.from_function(whoami)])
    assert list((tool.definition.parameters or {})["properties"]) == ["question"]
    agent = Agent(
        transport=transport('call whoami {"question": "who"}', "say ok"), tools=[tool], data={"user": "ada"}
    )
    outcome = agent.run_sync("?").outcomes[0]
    assert outcome.result.text == f"who ada {outcome.call.id} none"


def test_their_errors_and_media_reach_the_model() -> None:
    @langchain_tool
    def refuse() -> str:
        """Refuse."""
        raise ToolException("not today")

    @langchain_tool(response_format="content_and_artifact")
    def draw() -> tuple[list[dict[str, Any]], bytes]:
        """Draw."""
        image = {"type": "image", "base64": "iVBORw0KGgowMDAw", "mime_type": "image/png"}
        return [{"type": "text", "text": "drawn"}, image], PNG

    @langchain_tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0)
        return "waited"

    agent = Agent(
        transport=transport("call refuse {}", "call draw {}", "call wait {}", "say ok"),
        tools=import_tools([refuse, draw, wait]),
    )
    refused, drawn, waited = (outcome.result for outcome in agent.run_sync("?").outcomes)
    assert (refused.is_error, refused.text) == (True, "not today")
    assert drawn.content == (Text("drawn"), Media.from_bytes(PNG))
    assert waited.text == "waited"


def test_our_tools_run_in_their_way() -> None:
    tools = {
        tool.name: tool
        for tool in export_tools(TOOLS, approve=lambda request: request.arguments["path"] == "x")
    }
    call = {"type": "tool_call", "id": "call_1", "name": "add"}
    assert tools["add"].invoke({"a": "1", "b": 2}) == "3"
    message = tools["add"].invoke({**call, "args": {"a": 1, "b": 2}})
    assert (message.content, message.artifact, message.tool_call_id) == ("3", 3, "call_1")
    message = asyncio.run(tools["add"].ainvoke({**call, "args": {"a": 1}}))
    assert (message.status, "b: is missing" in message.content) == ("error", True)
    assert tools["fail"].invoke({**call, "args": {}}).content == "ValueError: broken"
    assert tools["look"].invoke({**call, "args": {}}).content[1]["type"] == "image"
    assert tools["remove"].invoke({"path": "x"}) == "removed x"
    assert "did not approve" in tools["remove"].invoke({"path": "y"})
    assert tools["add"].args == {"a": {"type": "integer"}, "b": {"type": "integer"}}


def test_what_needs_approval_is_refused_outside_of_a_graph() -> None:
    remove = next(tool for tool in export_tools(TOOLS) if tool.name == "remove")
    assert "no approver is available" in remove.invoke({"path": "x"})
    assert "no approver is available" in asyncio.run(remove.ainvoke({"path": "x"}))


# to a package that is not needed here
@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_a_graph_is_interrupted_for_an_approval() -> None:
    pytest.importorskip("langgraph", reason="pip install langgraph")
    checkpoint, prebuilt, types = map(
        import_module, ("langgraph.checkpoint.memory", "langgraph.prebuilt", "langgraph.types")
    )
    model = ChatToolglot("simulator", transport=transport('call remove {"path": "x"}', "say done"))
    agent = prebuilt.create_react_agent(model, export_tools(TOOLS), checkpointer=checkpoint.InMemorySaver())
    for answer, result in ((True, "removed x"), ({"type": "reject", "message": "keep it"}, "keep it")):
        config = {"configurable": {"thread_id": str(answer)}}
        state = agent.invoke({"messages": [("user", "go")]}, config)
        assert state["__interrupt__"][0].value["arguments"] == {"path": "x"}
        assert result in agent.invoke(types.Command(resume=answer), config)["messages"][-2].content


# ---- messages


def test_a_history_keeps_opaque_state_in_additional_kwargs() -> None:
    exported = export_messages(conversation(), "langchain").messages
    reply = exported[2]
    assert reply.content_blocks[0] == {
        "type": "reasoning",
        "reasoning": "Let me add.",
        "extras": {"signature": "c2ln"},
    }
    assert reply.tool_calls[0]["args"] == {"a": 1, "b": 2}
    assert import_messages(exported, "langchain")[2] == conversation()[2]
    reply.content[1]["text"] = "Changed."
    assert import_messages(exported, "langchain")[2].text == "Changed."
    del reply.additional_kwargs[ORIGINAL]
    assert isinstance(import_messages(exported, "langchain")[2].blocks[0], Thinking)


def test_what_langchain_accepts_as_messages_is_read() -> None:
    messages = import_messages(
        [
            ("system", "Be brief."),
            {"role": "user", "content": "Hi"},
            "Ho",
            ChatMessage(content="x", role="developer"),
            HumanMessage(
                [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgowMDAw"}}]
            ),
            AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}]),
        ],
        "langchain",
    )
    assert [message.role for message in messages] == ["system", "user", "user", "system", "user", "assistant"]
    assert messages[4].blocks == (Media.from_bytes(PNG),)
    assert messages[5].calls[0].id == "call_5_0"
    with pytest.raises(MalformedRequest, match="a message of type 'remove' cannot be sent to a model"):
        import_messages([RemoveMessage(id="1")], "langchain")


@pytest.mark.parametrize(
    "messages",
    [[3], [None], [("foo", "x")], [{"role": "user"}], [{"role": "tool", "content": "x"}],
     [ChatMessage(content="x", role="robot")],
     [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}]],
)  # fmt: skip
def test_what_is_no_message_is_refused(messages: list[Any]) -> None:
    with pytest.raises(MalformedRequest):
        import_messages(messages, "langchain")


def test_only_replies_have_calls_and_reasoning() -> None:
    parts: list[Any] = [
        {"type": "text", "text": "Hi"},
        {"type": "reasoning", "reasoning": "Hm."},
        {"type": "tool_call", "id": "1", "name": "f", "args": {}},
    ]
    (message,) = import_messages([HumanMessage(parts)], "langchain")
    assert message.calls == ()
    assert [loss.subject for loss in export_messages([message], "anthropic").losses] == [
        "reasoning",
        "tool_call",
    ]


def test_cache_marks_are_a_loss() -> None:
    (loss,) = export_messages([user([Text("Hi", cache=CacheMark("1h"))])], "langchain").losses
    assert loss.subject == "cache mark"


def test_a_reply_of_their_anthropic_model_keeps_its_signature() -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]
    metadata = {"model_provider": "anthropic", "model_name": "claude-sonnet-4-5"}
    reply = AIMessage(
        content, tool_calls=[{"id": "toolu_1", "name": "f", "args": {}}], response_metadata=metadata
    )
    exported = export_messages(import_messages(["go", reply], "langchain"), "anthropic:claude-sonnet-4-5")
    assert exported.messages[1]["content"][0]["signature"] == "c2ln"


def test_what_only_langchain_knows_comes_back() -> None:
    block: Any = {"type": "non_standard", "value": {"x": 1}}
    imported = import_messages([HumanMessage(content_blocks=[block])], "langchain")
    assert export_messages(imported, "langchain").messages[0].content == [block]
    assert "only langchain understands it" in str(export_messages(imported, "openai-chat").losses[0])


# ---- the model


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_loop_on_every_wire(wire: str) -> None:
    model = ChatToolglot(f"simulator:{wire}").bind_tools([get_weather])
    question = HumanMessage("Weather in Paris?")
    reply = model.invoke([question])
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("get_weather", {"city": "Paris"})]
    results = [get_weather.invoke(call) for call in reply.tool_calls]
    answer = model.invoke([question, reply, *results])
    assert "21 degrees" in answer.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] > 0


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_adds_up_to_the_reply(wire: str) -> None:
    turn = Reply(
        (Thinking("Hm, let me think."), Text("I will add now."), ToolCall("", "add", {"a": 1, "b": 2})),
        "tools",
    )
    model = ChatToolglot(f"simulator:{wire}", transport=transport(turn, turn), effort="high").bind_tools(
        [add]
    )
    whole = model.invoke("go")
    chunks = list(model.stream("go"))
    total: Any = sum(chunks[1:], chunks[0])
    assert isinstance(total, AIMessageChunk)
    assert len(chunks) > 1
    assert (total.text, len(total.tool_calls)) == (whole.text, 1)
    assert total.tool_calls[0]["args"] == whole.tool_calls[0]["args"] == {"a": 1, "b": 2}
    assert total.usage_metadata is not None
    assert whole.usage_metadata is not None
    assert total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
    assert total.response_metadata["finish_reason"] == "tools"
    thoughts = [block for block in total.content_blocks if block["type"] == "reasoning"]
    assert [block.get("reasoning") for block in thoughts] in (["Hm, let me think."], [])
    # The sum is a valid history: the same request follows from it.
    history = [HumanMessage("go"), total, ToolMessage("3", tool_call_id=total.tool_calls[0]["id"])]
    assert model.invoke(history).text


def test_async_calls_and_streams() -> None:
    async def main() -> None:
        model = ChatToolglot("simulator")
        assert (await model.ainvoke("hi")).text == "You said: hi"
        assert "".join([chunk.text async for chunk in model.astream("hi")]) == "You said: hi"
        replies = await asyncio.gather(*(model.ainvoke(str(number)) for number in range(20)))
        assert [reply.text for reply in replies] == [f"You said: {number}" for number in range(20)]

    asyncio.run(main())


def test_a_truncated_call_is_never_valid() -> None:
    turn = Reply((ToolCall("", "add", {"a": 1, "b": 2}),), "length")
    model = ChatToolglot("simulator", transport=transport(turn)).bind_tools([add])
    chunks = list(model.stream("go"))
    total: Any = sum(chunks[1:], chunks[0])
    for reply in (model.invoke("go"), total):
        assert (reply.tool_calls, len(reply.invalid_tool_calls)) == ([], 1)
        assert reply.response_metadata["finish_reason"] == "length"


def test_a_truncated_reply_keeps_its_signature() -> None:
    turn = Reply((Thinking("Hm."), ToolCall("", "add", {"a": 1, "b": 2})), "length")
    model = ChatToolglot("simulator:anthropic", transport=transport(turn), effort="high").bind_tools([add])
    (message,) = import_messages([model.invoke("go")], "langchain")
    assert "signature" in (
        (message.blocks[0].opaque or {}) if isinstance(message.blocks[0], Thinking) else {}
    )
    assert message.calls[0].arguments is None


def test_structured_output() -> None:
    model = ChatToolglot("simulator", transport=transport('call Point {"x": 1, "y": 2}'))
    assert model.with_structured_output(Point).invoke("go") == Point(x=1, y=2)
    answer = ChatToolglot("simulator", transport=transport('say {"x": 1, "y": 2}'))
    assert answer.with_structured_output(Point, method="json_schema").invoke("go") == Point(x=1, y=2)
    schema = {
        "title": "Point",
        "description": "A point.",
        "type": "object",
        "properties": {"x": {"type": "integer"}},
    }
    raw = answer.with_structured_output(schema, method="json_schema", include_raw=True).invoke("go")
    assert (raw["parsed"], raw["parsing_error"]) == ({"x": 1, "y": 2}, None)
    broken = ChatToolglot("simulator", transport=transport("say nothing"))
    raw = broken.with_structured_output(Point, method="json_schema", include_raw=True).invoke("go")
    assert raw["parsed"] is None
    assert raw["parsing_error"] is not None


def test_json_mode_and_forms_of_openai() -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return 'say {"x": 1, "y": 2}'

    model = ChatToolglot("simulator:openai-chat/gpt-4o", transport=transport(reply))
    assert model.with_structured_output(Point, method="json_mode").invoke("JSON, please") == Point(x=1, y=2)
    shape = {"name": "point", "schema": Point.model_json_schema()}
    model.invoke("go", response_format={"type": "json_schema", "json_schema": shape})
    outputs = [request.output for request in requests]
    assert [output is not None and output.schema is not None for output in outputs] == [False, True]
    with pytest.raises(UnknownName, match="unknown method 'json'"):
        model.with_structured_output(Point, method="json")


def test_chains_callbacks_caches_and_batches_work() -> None:
    seen: list[str] = []

    class Watch(BaseCallbackHandler):
        def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
            seen.append(kwargs["invocation_params"]["model"])

        def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
            seen.append(token)

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            seen.append("end")

    model = ChatToolglot("simulator", cache=InMemoryCache())
    chain: Any = ChatPromptTemplate.from_messages([("user", "say {word}")]) | model | StrOutputParser()
    assert chain.invoke({"word": "hi"}) == "hi"
    assert chain.batch([{"word": "a"}, {"word": "b"}]) == ["a", "b"]
    assert model.invoke("say hi").response_metadata == model.invoke("say hi").response_metadata  # with its id
    config: RunnableConfig = {"callbacks": [Watch()]}
    assert [chunk.text for chunk in ChatToolglot("simulator").stream("say hi", config=config)] == ["hi", ""]
    assert seen == ["simulator:anthropic/claude-sonnet-4-5", "hi", "", "end"]

    async def list_events() -> list[str]:
        return [
            event["event"] async for event in ChatToolglot("simulator").astream_events("hi", version="v2")
        ]

    assert asyncio.run(list_events())[-1] == "on_chat_model_end"
    assert (
        ChatToolglot("simulator", base_url="http://x", key="secret-key-123").__repr__().count("secret") == 0
    )


def test_a_stream_that_is_left_is_closed() -> None:
    words = " ".join(map(str, range(200)))
    stream = ChatToolglot("simulator").stream(f"say {words}")
    assert next(stream).text
    stream.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    async def leave() -> None:
        async with aclosing(cast(Any, ChatToolglot("simulator").astream(f"say {words}"))) as chunks:
            async for _ in chunks:
                break

    asyncio.run(leave())


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("any", "required"), (True, "required"), ("auto", "auto"), ("none", "none"), ("add", ("add",)), (None, None),
     ({"type": "function", "function": {"name": "add"}}, ("add",)), ({"type": "tool", "name": "add"}, ("add",))],
)  # fmt: skip
def test_tool_choice(choice: Any, expected: Any) -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    model = ChatToolglot("simulator", transport=transport(reply)).bind_tools(
        [add, get_weather], tool_choice=choice
    )
    model.invoke("go")
    sent = requests[0].tool_choice
    assert (None if sent is None else tuple(sent.names) or sent.mode) == expected
    assert {tool.name for tool in requests[0].tools} == {"add", "get_weather"}


def test_options_are_those_of_the_model_of_bind_and_of_the_call() -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    model = ChatToolglot(
        "simulator:openai-chat/gpt-4o", options=Options(seed=1), transport=transport(reply), temperature=0.5
    )
    model.bind(max_tokens=7).invoke("go", stop=["END"], extras={"openai": {"service_tier": "flex"}})
    options = requests[0].options
    assert (options.seed, options.temperature, options.max_tokens, list(options.stop)) == (1, 0.5, 7, ["END"])
    assert "flex" in str(requests[0].extras)
    with pytest.raises(
        UnknownName, match="unknown chat model option 'temprature'; did you mean 'temperature'"
    ):
        ChatToolglot("simulator", temprature=1)
    with pytest.raises(UnknownName, match="unknown request option 'temprature'"):
        model.invoke("go", temprature=1)
    with pytest.raises(UnknownName, match="unknown tool_choice"):
        model.bind_tools([add], tool_choice={"type": "?"}).invoke("go")


def test_our_definitions_are_sent_as_what_they_are() -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    (search,) = HostedTools(["web_search"]).definitions_for("openai-responses")
    strict = ToolDefinition(
        "s", "Strict.", {"type": "object", "properties": {}, "additionalProperties": False}, strict=True
    )
    tools = [search, strict, ToolDefinition("run", "Run.", kind="freeform")]
    ChatToolglot(model="simulator:openai-responses", transport=transport(reply)).bind_tools(tools).invoke(
        "go"
    )
    sent = {tool.name: tool for tool in requests[0].tools}
    assert (sent["web_search"].kind, sent["s"].strict) == ("hosted", True)
    assert list((sent["run"].parameters or {})["properties"]) == ["input"]


def test_a_cache_knows_servers_apart() -> None:
    cache = InMemoryCache()
    models = [
        ChatToolglot(
            "openai-chat:m",
            base_url=f"http://{host}/v1",
            key="k",
            transport=transport(f"say {host}"),
            cache=cache,
        )
        for host in ("one", "two")
    ]
    assert [model.invoke("go").text for model in models] == ["one", "two"]


def test_tokens_are_estimated() -> None:
    model = ChatToolglot("simulator", stop=["END"])
    messages = [HumanMessage("word " * 100), HumanMessage("Hi")]
    kept = import_module("langchain_core.messages").trim_messages(
        messages, max_tokens=20, token_counter=model
    )
    assert (kept, list(model.options.stop)) == (messages[1:], ["END"])


def test_a_providers_own_tool_reaches_it() -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    search = {"type": "web_search_20250305", "name": "web_search"}
    ChatToolglot("simulator:anthropic", transport=transport(reply)).bind_tools([search, Point]).invoke("go")
    assert [tool.kind for tool in requests[0].tools] == ["hosted", "function"]


def test_errors_of_providers_are_ours_and_losses_are_told() -> None:
    faults = SimulatedTransport(Simulator(Script(["say ok"]), faults=["rate-limit", "context-too-long"]))
    model = ChatToolglot("simulator", transport=faults, retry=RetryConfig(max_retries=0))
    with pytest.raises(RateLimited):
        model.invoke("go")
    with pytest.raises(ContextTooLong):
        list(model.stream("go"))
    notes = (
        ChatToolglot("simulator:openai-chat", transport=transport("say ok"), top_k=3)
        .invoke("go")
        .response_metadata["notes"]
    )
    assert any("top_k" in note for note in notes)


def test_the_password_of_a_server_is_not_traced() -> None:
    model = ChatToolglot(
        "compatible:m", base_url="https://me:swordfish@host.example/v1?token=swordfish", key="k"
    )
    traced = model._identifying_params  # pyright: ignore[reportPrivateUsage]
    assert traced["base_url"] == "https://host.example/v1"
    assert "swordfish" not in str(traced)
