"""Pydantic AI: tools both ways, messages, and the model, with the real package."""

import asyncio
from typing import Any

import msgspec
import pytest

pytest.importorskip("pydantic_ai", reason="pip install pydantic-ai-slim")

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ImageUrl,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RunContext,
    ToolApproved,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.exceptions import IncompleteToolCall, ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    CachePoint,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    RetryPromptPart,  # pyright: ignore[reportDeprecated]
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

from toolglot import (
    CacheMark,
    MalformedRequest,
    Media,
    Message,
    Orchestrator,
    Reply,
    Request,
    RetryConfig,
    Script,
    SimulatedTransport,
    Simulator,
    Text,
    Thinking,
    ToolCall,
    UsageError,
    tool,
)
from toolglot.bridges import export_messages, import_messages
from toolglot.bridges.pydantic_ai import ToolglotModel, ToolglotToolset, import_tools, import_toolset
from toolglot.bridges.pydantic_ai_messages import ORIGINAL

from .kit import PNG, TOOLS, WIRES, conversation, transport


class Point(BaseModel):
    x: int
    y: int


def recorder(*turns: Any) -> tuple[list[Request], SimulatedTransport]:
    """A model that plays a script, and the requests that it gets."""
    requests: list[Request] = []

    def play(turn: Any) -> Any:
        def reply(request: Request) -> Any:
            requests.append(request)
            return turn

        return reply

    return requests, transport(*map(play, turns))


def run_agent(agent: Agent[Any, Any], *args: Any, **options: Any) -> Any:
    """Run an agent of theirs; their `run_sync` leaves an event loop open."""
    return asyncio.run(agent.run(*args, **options))


# ---- tools


def test_their_tools_run_in_our_agent() -> None:
    def calculate(ctx: RunContext[int], x: int) -> int:
        """Calculate.

        Args:
            ctx: The context.
            x: A number.
        """
        if x < 0:
            raise ModelRetry("x must not be negative")
        return x + ctx.deps

    def draw() -> ToolReturn[Any]:
        """Draw."""
        return ToolReturn("drawn", content=[BinaryContent(PNG, media_type="image/png")])

    async def find(name: str) -> dict[str, str]:
        """Find."""
        return {"name": name}

    tools = import_tools([calculate, PydanticTool(draw), FunctionToolset([find])], effects="read")
    assert (tools[0].definition.parameters or {})["properties"]["x"]["description"] == "A number."
    script = [
        'call calculate {"x": 1}',
        'call calculate {"x": -1}',
        "call draw {}",
        'call find {"name": "ada"}',
        "say ok",
    ]
    results = [
        outcome.result
        for outcome in Orchestrator(transport=transport(*script), tools=tools, data=7).run_sync("?").outcomes
    ]
    assert results[0].text == "8"
    assert (results[1].is_error, results[1].text) == (True, "x must not be negative")
    assert results[2].content == (Text("drawn"), Media.from_bytes(PNG))
    assert results[3].data == {"name": "ada"}


class RemoteToolset(WrapperToolset[Any]):
    """A toolset whose tools come from a task of the event loop that opened it, as those of MCP servers do."""

    async def __aenter__(self) -> "RemoteToolset":
        self.questions, self.answers = asyncio.Queue[str](), asyncio.Queue[str]()
        self.server = asyncio.create_task(self.serve())
        return self

    async def __aexit__(self, *args: object) -> None:
        self.server.cancel()

    async def serve(self) -> None:
        while True:
            await self.answers.put(await self.questions.get())

    async def get_tools(self, ctx: RunContext[Any]) -> Any:
        await self.questions.put("tools")
        await self.answers.get()
        return await super().get_tools(ctx)


def test_a_toolset_with_connections_is_imported_in_its_loop() -> None:
    def find(name: str) -> str:
        """Find."""
        return f"found {name}"

    async def main() -> None:
        assert [tool.name for tool in import_tools(FunctionToolset([find]))] == ["find"]
        async with RemoteToolset(FunctionToolset([find])) as toolset:
            with pytest.raises(UsageError, match="import it with `await import_toolset"):
                import_tools(toolset)
            tools = await import_toolset(toolset, effects="read")
            agent = Orchestrator(transport=transport('call find {"name": "x"}', "say ok"), tools=tools)
            assert (await agent.run("?")).outcomes[0].result.text == "found x"

    asyncio.run(asyncio.wait_for(main(), 20))


def test_their_approvals_are_ours() -> None:
    def delete(ctx: RunContext[Any], path: str) -> str:
        """Delete."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": f"{path} is precious"})
        return f"deleted {path}"

    def send(text: str) -> str:
        """Send."""
        return f"sent {text}"

    tools = import_tools([delete, PydanticTool(send, requires_approval=True)])
    for answer, result in ((True, "deleted x"), (False, "did not approve")):
        agent = Orchestrator(transport=transport('call delete {"path": "x"}', "say ok"), tools=tools)
        (request,) = agent.run_sync("?").requests
        assert request.reason == "x is precious"
        assert result in agent.resume_sync({request.id: answer}).outcomes[0].result.text
    for call in ('call send {"text": "x"}', 'call delete {"path": "x"}'):
        agent = Orchestrator(transport=transport(call, "say ok"), tools=tools, approve=lambda request: True)
        assert agent.run_sync("?").outcomes[0].result.text in ("sent x", "deleted x")


def test_what_runs_elsewhere_is_refused() -> None:
    def later() -> str:
        """Wait."""
        raise CallDeferred

    agent = Orchestrator(transport=transport("call later {}", "say ok"), tools=import_tools([later]))
    assert "runs outside this program" in agent.run_sync("?").outcomes[0].result.text


def test_validators_and_options_of_their_tools_count() -> None:
    def check(ctx: RunContext[Any], number: int) -> None:
        if number > 3:
            raise ModelRetry("at most 3")

    def take(ctx: RunContext[Any], number: int) -> int:
        """Take."""
        return number

    take_tool = PydanticTool(
        take, args_validator=check, sequential=True, defer_loading=True, timeout=3, strict=True
    )
    (taken,) = import_tools([take_tool])
    assert (taken.ordered, taken.timeout, taken.definition.deferred, taken.definition.strict) == (
        True,
        3,
        True,
        True,
    )
    agent = Orchestrator(transport=transport('call take {"number": 4}', "say ok"), tools=[taken], defer=False)
    assert agent.run_sync("?").outcomes[0].result.text == "at most 3"


def test_our_tools_run_in_their_agent() -> None:
    model = ToolglotModel(
        "simulator",
        transport=transport(
            'call add {"a": "1", "b": 2}',
            "call fail {}",
            "call look {}",
            "call show_data {}",
            "call write_much {}",
            "say ok",
        ),
    )
    agent = Agent(model, toolsets=[ToolglotToolset(TOOLS)], deps_type=str)
    result = run_agent(agent, "go", deps="mine")
    parts: list[Any] = [
        part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"
    ]
    assert [part.content for part in parts[:2]] == ["3", "ValueError: broken"]
    assert [part.outcome for part in parts] == ["success", "failed", "success", "success", "success"]
    assert [type(file).__name__ for file in parts[2].files] == ["BinaryImage"]
    assert parts[3].content == "data mine"
    assert "read_result" in str(parts[4].content)


def test_read_result_is_offered_when_there_is_something_to_read() -> None:
    requests, model = recorder("call write_much {}", "say ok")
    run_agent(Agent(ToolglotModel("simulator", transport=model), toolsets=[ToolglotToolset(TOOLS)]), "go")
    names = [[definition.name for definition in request.tools] for request in requests]
    assert ["read_result" in tools for tools in names] == [False, True]


def test_our_approvals_are_their_deferred_calls() -> None:
    model = ToolglotModel("simulator", transport=transport('call remove {"path": "x"}', "say ok"))
    agent = Agent(model, toolsets=[ToolglotToolset(TOOLS)], output_type=[str, DeferredToolRequests])
    answers: list[tuple[Any, str]] = [
        (True, "removed x"), (ToolDenied("keep it"), "keep it"), (ToolApproved(override_args={"path": "y"}), "removed y")
    ]  # fmt: skip
    for answer, expected in answers:
        paused = run_agent(agent, "go")
        assert isinstance(paused.output, DeferredToolRequests)
        (call,) = paused.output.approvals
        assert (
            paused.output.metadata[call.tool_call_id]["reason"]
            == "the tool always asks, and no rule allows it"
        )
        results = DeferredToolResults(approvals={call.tool_call_id: answer})
        done = run_agent(agent, message_history=paused.all_messages(), deferred_tool_results=results)
        parts: list[Any] = [
            part
            for message in done.new_messages()
            for part in message.parts
            if part.part_kind == "tool-return"
        ]
        assert expected in str(parts[0].content)


def test_built_in_tools_bring_their_note(tmp_path: Any) -> None:
    from toolglot import coding_tools

    requests, model = recorder("say ok")
    toolset = ToolglotToolset(coding_tools(tmp_path), model="claude-sonnet-5", id="files")
    run_agent(Agent(ToolglotModel("simulator", transport=model), toolsets=[toolset]), "go")
    assert "Read files with Read" in requests[0].messages[0].text
    assert toolset.id == "files"


# ---- messages


def test_a_history_keeps_opaque_state_in_provider_details() -> None:
    exported = export_messages(conversation(), "pydantic-ai").messages
    assert [type(message).__name__ for message in exported] == ["ModelRequest", "ModelResponse"] * 2 + [
        "ModelRequest"
    ]
    assert import_messages(exported, "pydantic-ai")[2] == conversation()[2]
    exported[1].parts[1].content = "Changed."
    assert import_messages(exported, "pydantic-ai")[2].text == "Changed."
    exported[1].provider_details.pop(ORIGINAL)
    assert isinstance(import_messages(exported, "pydantic-ai")[2].blocks[0], Thinking)


def test_all_parts_of_a_request_are_read() -> None:
    content: list[Any] = [
        "Hi",
        CachePoint(),
        ImageUrl("https://example.com/a.png"),
        BinaryContent(PNG, media_type="image/png"),
    ]
    request = ModelRequest(
        [
            SystemPromptPart("Be brief."),
            ToolReturnPart("add", {"sum": 3}, "call_1"),
            ToolReturnPart("fail", "broken", "call_2", outcome="failed"),
            UserPromptPart(content),
        ],
        instructions="Answer in Latin.",
    )
    calls = [ToolCallPart("add", '{"a": 1}', "call_1"), ToolCallPart("fail", "{", "call_2")]
    thought = ThinkingPart("Hm.", signature="c2ln", provider_name="anthropic")
    reply = ModelResponse(
        [thought, TextPart("So."), *calls], provider_name="anthropic", model_name="claude-sonnet-4-5"
    )
    system, answer, results, instructions, prompt = import_messages([reply, request], "pydantic-ai")
    assert (system.text, instructions.text) == ("Answer in Latin.", "Be brief.")
    assert [(call.arguments, call.raw) for call in answer.calls] == [({"a": 1}, '{"a": 1}'), (None, "{")]
    assert [(result.text, result.is_error) for result in results.results] == [
        ('{"sum":3}', False),
        ("broken", True),
    ]
    assert prompt.blocks[0] == Text("Hi", cache=CacheMark("5m"))
    assert prompt.blocks[1:] == (
        Media("image", "image/png", url="https://example.com/a.png"),
        Media.from_bytes(PNG),
    )
    assert (
        export_messages([answer], "anthropic:claude-sonnet-4-5").messages[1]["content"][0]["signature"]
        == "c2ln"
    )


@pytest.mark.parametrize("messages", [["Hi"], [None], [{"kind": "request", "parts": []}]])
def test_what_is_no_message_is_refused(messages: list[Any]) -> None:
    with pytest.raises(MalformedRequest, match="a message must be a ModelRequest or a ModelResponse"):
        import_messages(messages, "pydantic-ai")


def test_what_only_pydantic_ai_knows_comes_back() -> None:
    search = NativeToolCallPart("web_search", {"query": "x"}, "srv_1", provider_name="google")
    imported = import_messages([ModelResponse([search, TextPart("So.")])], "pydantic-ai")
    exported = export_messages(imported, "pydantic-ai")
    assert (exported.messages[0].parts[0], exported.losses) == (search, ())
    assert "only pydantic-ai understands it" in str(export_messages(imported, "openai-chat").losses[0])


def test_files_keep_their_media_type() -> None:
    content = [ImageUrl("https://x/y", media_type="image/webp"), ImageUrl("https://x/y")]
    file = UploadedFile(file_id="f", provider_name="google", media_type="image/png")
    (message,) = import_messages([ModelRequest([UserPromptPart([*content, file])])], "pydantic-ai")
    media = [(block.kind, block.media_type) for block in message.blocks if isinstance(block, Media)]
    assert media == [("image", "image/webp"), ("image", ""), ("image", "image/png")]
    assert (
        export_messages([Message("user", message.blocks[:2])], "pydantic-ai").messages[0].parts[0].content
        == content
    )


@pytest.mark.filterwarnings("ignore:`RetryPromptPart` is deprecated")  # older histories have it
def test_older_histories_are_read() -> None:
    retry = RetryPromptPart("try again", tool_name="add", tool_call_id="call_1")  # pyright: ignore[reportDeprecated]
    feedback = RetryPromptPart("say more")  # pyright: ignore[reportDeprecated]
    call = ModelResponse([ToolCallPart("add", {}, "call_1")])
    messages = import_messages([call, ModelRequest([retry, feedback])], "pydantic-ai")
    assert "try again" in messages[1].results[0].text
    assert "say more" in messages[2].text


# ---- the model


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_loop_on_every_wire(wire: str) -> None:
    agent = Agent(ToolglotModel(f"simulator:{wire}"), instructions="Be brief.")

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        return f"{city}: 21 degrees"

    first = run_agent(agent, "Weather in Paris?")
    assert "Paris: 21 degrees" in first.output
    assert first.usage.input_tokens > 0
    second = run_agent(agent, "Thanks!", message_history=first.all_messages())
    assert second.output == "You said: Thanks!"


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_is_the_reply(wire: str) -> None:
    text = "I will add these two numbers for you now."
    turn = Reply((Thinking("Hm, let me think."), Text(text), ToolCall("", "add", {"a": 1, "b": 2})), "tools")

    async def main() -> None:
        model = ToolglotModel(
            f"simulator:{wire}", transport=transport(turn, "say Three."), settings={"thinking": "high"}
        )
        agent = Agent(model, toolsets=[ToolglotToolset(TOOLS)])
        async with agent.run_stream_events("go") as stream:
            events: list[Any] = [event async for event in stream]
        names = {type(event).__name__ for event in events}
        assert {
            "PartStartEvent",
            "PartDeltaEvent",
            "FunctionToolCallEvent",
            "FunctionToolResultEvent",
        } <= names
        messages, whole = events[-1].result.all_messages(), (await agent.run("go")).all_messages()
        reply, same = messages[1], whole[1]
        assert isinstance(same, ModelResponse)
        assert [part.part_kind for part in reply.parts] == [part.part_kind for part in same.parts]
        assert (reply.text, reply.tool_calls[0].args) == (text, {"a": 1, "b": 2})
        assert (reply.finish_reason, reply.usage.output_tokens) == (
            same.finish_reason,
            same.usage.output_tokens,
        )
        async with agent.run_stream(message_history=messages[:3]) as answer:
            assert "".join([piece async for piece in answer.stream_text(delta=True)]) == "Three."

    asyncio.run(main())


def test_a_stream_that_is_left_is_closed() -> None:
    async def main() -> None:
        model = ToolglotModel("simulator", transport=transport("say " + " ".join(map(str, range(200)))))
        async with Agent(model).run_stream("go") as stream:
            async for _ in stream.stream_text(delta=True):
                break

    asyncio.run(main())


def test_structured_output_in_all_modes() -> None:
    called = ToolglotModel("simulator", transport=transport('call final_result {"x": 1, "y": 2}'))
    assert run_agent(Agent(called, output_type=Point), "go").output == Point(x=1, y=2)
    for mode in (NativeOutput(Point), PromptedOutput(Point)):
        requests, replies = recorder('say {"x": 1, "y": 2}')
        assert run_agent(
            Agent(ToolglotModel("simulator", transport=replies), output_type=mode), "go"
        ).output == Point(x=1, y=2)
        assert (requests[0].output is not None) == isinstance(mode, NativeOutput)


def test_a_truncated_call_never_runs() -> None:
    ran: list[str] = []

    @tool
    def explode(text: str) -> None:
        """Explode."""
        ran.append(text)

    turn = Reply((ToolCall("", "explode", {"text": "x"}),), "length")
    agent = Agent(
        ToolglotModel("simulator", transport=transport(turn, "say ok")), toolsets=[ToolglotToolset([explode])]
    )
    result = run_agent(agent, "go")
    reply = result.all_messages()[1]
    assert isinstance(reply, ModelResponse)
    assert (ran, reply.finish_reason, result.output) == ([], "length", "ok")
    turns = [turn] * 5
    agent = Agent(
        ToolglotModel("simulator", transport=transport(*turns)), toolsets=[ToolglotToolset([explode])]
    )
    with pytest.raises(IncompleteToolCall):
        run_agent(agent, "go")
    assert ran == []


def test_settings_reach_the_provider() -> None:
    requests, model = recorder("say ok", "say ok")
    settings: Any = {
        "temperature": 0.5, "max_tokens": 9, "stop_sequences": ["END"], "seed": 3, "parallel_tool_calls": False,
        "extra_body": {"service_tier": "flex"}, "thinking": False,
    }  # fmt: skip
    agent = Agent(
        ToolglotModel("simulator:openai-chat/gpt-4o", transport=model), toolsets=[ToolglotToolset(TOOLS)]
    )
    run_agent(agent, "go", model_settings=settings)
    request = requests[0]
    assert (request.options.temperature, request.options.max_tokens, request.options.seed) == (0.5, 9, 3)
    assert (list(request.options.stop), request.parallel) == (["END"], False)
    assert "flex" in str(request.extras)


@pytest.mark.parametrize(
    ("choice", "output", "expected"),
    [
        (None, str, None), ("auto", str, None), ("none", str, ("none", ())),
        (["add", "final_result"], Point, ("required", ("add", "final_result"))),
        (ToolOrOutput(["add"]), str, ("auto", ("add",))), (None, Point, ("required", ())),
        (ToolOrOutput(["add"]), Point, ("required", ("add", "final_result"))), ("none", Point, ("required", ("final_result",))),
    ],
)  # fmt: skip
def test_tool_choice(choice: Any, output: Any, expected: Any) -> None:
    requests, model = recorder('call final_result {"x": 1, "y": 2}' if output is Point else "say ok")
    agent: Agent[Any, Any] = Agent(
        ToolglotModel("simulator:openai", transport=model),
        toolsets=[ToolglotToolset(TOOLS)],
        output_type=output,
    )
    run_agent(agent, "go", model_settings={"tool_choice": choice})
    sent = requests[0].tool_choice
    assert (None if sent is None else (sent.mode, tuple(sent.names))) == expected


def test_native_tools_are_the_providers() -> None:
    requests, model = recorder("say ok")
    run_agent(
        Agent(
            ToolglotModel("simulator:anthropic", transport=model), capabilities=[NativeTool(WebSearchTool())]
        ),
        "go",
    )
    assert [definition.kind for definition in requests[0].tools] == ["hosted"]


def test_a_reply_that_pauses_is_continued() -> None:
    for is_streaming in (False, True):
        requests, model = recorder(Reply((Text("Half. "),), "pause"), "say Whole.")
        agent = Agent(ToolglotModel("simulator:anthropic", transport=model))

        async def stream(agent: Agent[Any, Any] = agent) -> str:
            async with agent.run_stream("go") as result:
                return await result.get_output()

        output = asyncio.run(stream()) if is_streaming else run_agent(agent, "go").output
        assert (output, len(requests)) == ("Half. Whole.", 2)
        assert requests[1].messages[-1].text == "Half."  # Anthropic refuses a space at the end


def test_options_of_native_tools_are_refused() -> None:
    model = ToolglotModel("simulator:anthropic", transport=transport("say ok"))
    with pytest.raises(UserError, match="ToolglotModel does not support 'allowed_domains' of WebSearchTool"):
        run_agent(
            Agent(model, capabilities=[NativeTool(WebSearchTool(allowed_domains=["example.com"]))]), "go"
        )


def test_errors_are_theirs_so_that_fallbacks_work() -> None:
    def broken(*faults: str) -> ToolglotModel:
        simulated = SimulatedTransport(Simulator(Script(["say ok"]), faults=faults))
        return ToolglotModel("simulator", transport=simulated, retry=RetryConfig(max_retries=0))

    with pytest.raises(ModelHTTPError) as caught:
        run_agent(Agent(broken("rate-limit")), "go")
    assert caught.value.status_code == 429
    with pytest.raises(ModelAPIError):
        run_agent(Agent(broken("reset")), "go")
    fallback = FallbackModel(
        broken("overloaded"), ToolglotModel("simulator", transport=transport("say from the other"))
    )
    assert run_agent(Agent(fallback), "go").output == "from the other"


def test_losses_are_told_in_provider_details() -> None:
    model = ToolglotModel("simulator:openai-chat", transport=transport("say ok"), settings={"top_k": 3})
    reply = run_agent(Agent(model), "go").all_messages()[-1]
    assert isinstance(reply, ModelResponse)
    assert any("top_k" in note for note in (reply.provider_details or {})["notes"])
    assert (model.model_name, model.system) == ("gpt-4o", "openai-chat")


async def test_the_password_of_a_server_is_not_in_messages() -> None:
    model = ToolglotModel("simulator:openai-chat")
    model.engine.profile = msgspec.structs.replace(
        model.engine.profile, base_url="https://me:swordfish@host.example/v1"
    )
    agent = Agent(model)
    result = await agent.run("say Hello.")
    async with agent.run_stream("say Hello.") as stream:
        await stream.get_output()
    for messages in (result.all_messages(), stream.all_messages()):
        assert [message.provider_url for message in messages if isinstance(message, ModelResponse)] == [
            "https://host.example/v1"
        ]
