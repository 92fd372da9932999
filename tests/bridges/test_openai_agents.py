"""OpenAI Agents SDK: tools both ways and the model provider, with the real package."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents", reason="pip install openai-agents")

from agents import (
    Agent,
    CodeInterpreterTool,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.tool import ToolOutputImage, ToolOutputText
from agents.tool_guardrails import ToolGuardrailFunctionOutput, tool_input_guardrail
from openai.types.shared import Reasoning
from pydantic import BaseModel

from toolglot import (
    Context,
    ContextTooLong,
    Media,
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
from toolglot.bridges.openai_agents import (
    ToolglotModel,
    ToolglotProvider,
    export_tools,
    import_tools,
    unwrap_reply,
)
from toolglot.values.messages import Message

from .kit import PNG, TOOLS, WIRES, transport

QUIET = RunConfig(tracing_disabled=True)


class Point(BaseModel):
    x: int
    y: int


def run(agent: Agent[Any], prompt: Any, context: Any = None, **config: Any) -> Any:
    return asyncio.run(
        Runner.run(agent, prompt, context=context, run_config=RunConfig(tracing_disabled=True, **config))
    )


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


# ---- tools


def test_their_tools_run_in_our_agent() -> None:
    @function_tool
    def calculate(context: RunContextWrapper[int], x: int) -> str:
        """Calculate.

        Args:
            x: A number.
        """
        return str(x + context.context)

    @function_tool
    async def draw() -> list[Any]:
        """Draw."""
        return [
            ToolOutputText(text="drawn"),
            ToolOutputImage(image_url="data:image/png;base64,iVBORw0KGgowMDAw"),
        ]

    @function_tool
    def refuse() -> str:
        """Refuse."""
        raise ValueError("not today")

    tools = import_tools([calculate, draw, refuse])
    script = ['call calculate {"x": 1}', "call draw {}", "call refuse {}", "say ok"]
    results = [
        outcome.result
        for outcome in Orchestrator(transport=transport(*script), tools=tools, data=7).run_sync("?").outcomes
    ]
    assert results[0].text == "8"
    assert results[1].content == (Text("drawn"), Media.from_bytes(PNG))
    assert "An error occurred while running the tool" in results[2].text  # the SDK's own words


def test_their_approvals_are_ours() -> None:
    async def is_precious(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        return arguments["path"] == "x"

    @function_tool(needs_approval=is_precious)
    def delete(path: str) -> str:
        """Delete."""
        return f"deleted {path}"

    @function_tool(needs_approval=True)
    def send(text: str) -> str:
        """Send."""
        return f"sent {text}"

    tools = import_tools([delete, send])
    for call in ('call delete {"path": "x"}', 'call send {"text": "x"}'):
        agent = Orchestrator(transport=transport(call, "say ok"), tools=tools)
        (request,) = agent.run_sync("?").requests
        assert agent.resume_sync({request.id: True}).outcomes[0].result.text in ("deleted x", "sent x")
    agent = Orchestrator(transport=transport('call delete {"path": "y"}', "say ok"), tools=tools)
    assert agent.run_sync("?").outcomes[0].result.text == "deleted y"


def test_what_cannot_be_imported_is_told() -> None:
    @tool_input_guardrail
    def guard(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[guard])
    def guarded() -> str:
        """Do it."""
        return ""

    with pytest.raises(
        UsageError, match=r"the tool 'web_search' is run by OpenAI; use hosted= of toolglot\.Agent instead"
    ):
        import_tools([WebSearchTool()])
    with pytest.raises(UsageError, match="the tool 'guarded' has guardrails, which only the Agents SDK runs"):
        import_tools([guarded])


def test_our_tools_run_in_their_agent() -> None:
    script = [
        'call add {"a": "1", "b": 2}',
        "call fail {}",
        "call look {}",
        "call show_data {}",
        "call write_much {}",
        "say ok",
    ]
    agent = Agent(
        name="a", model=ToolglotModel("simulator", transport=transport(*script)), tools=export_tools(TOOLS)
    )
    added, failed, seen, data, much = outputs(run(agent, "go", "mine"))
    assert (added, failed, data) == ("3", "ValueError: broken", "data mine")
    assert [part.type for part in seen] == ["text", "image"]
    assert "read_result" in much


def test_limits_count_over_all_calls_of_a_run_with_a_context() -> None:
    @tool(max_uses=1)
    def draw_lot(context: Context[Any]) -> str:
        """Draw a lot."""
        return f"{context.data} draws"

    model = ToolglotModel("simulator", transport=transport("call draw_lot {}", "call draw_lot {}", "say ok"))
    first, second = outputs(run(Agent(name="a", model=model, tools=export_tools([draw_lot])), "go", "ada"))
    assert first == "ada draws"
    assert "has reached its limit of 1 use" in second


def test_our_approvals_interrupt_their_run() -> None:
    model = ToolglotModel("simulator", transport=transport('call remove {"path": "x"}', "say ok"))
    agent = Agent(name="a", model=model, tools=export_tools(TOOLS))
    for approves in (True, False):
        paused = run(agent, "go")
        (interruption,) = paused.interruptions
        state = paused.to_state()
        if approves:
            state.approve(interruption)
        else:
            state.reject(interruption)
        done = asyncio.run(Runner.run(agent, state, run_config=QUIET))
        assert ("removed x" in str(outputs(done))) == approves
        assert done.final_output == "ok"


def test_the_program_itself_can_decide() -> None:
    model = ToolglotModel("simulator", transport=transport('call remove {"path": "x"}', "say ok"))
    agent = Agent(name="a", model=model, tools=export_tools(TOOLS, approve=lambda request: False))
    assert "did not approve" in outputs(run(agent, "go"))[0]


# ---- the model


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_loop_on_every_wire(wire: str) -> None:
    @function_tool
    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        return f"{city}: 21 degrees"

    agent = Agent(name="a", instructions="Be brief.", model=f"simulator:{wire}", tools=[get_weather])
    first = run(agent, "Weather in Paris?", model_provider=ToolglotProvider())
    assert "Paris: 21 degrees" in first.final_output
    assert first.context_wrapper.usage.input_tokens > 0
    second = run(
        agent,
        [*first.to_input_list(), {"role": "user", "content": "Thanks!"}],
        model_provider=ToolglotProvider(),
    )
    assert second.final_output == "You said: Thanks!"


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_is_the_reply_and_its_state_comes_back(wire: str) -> None:
    text = "I will add these two numbers for you now."
    turn = Reply((Thinking("Hm, let me think."), Text(text), ToolCall("", "add", {"a": 1, "b": 2})), "tools")
    requests: list[Request] = []

    def answer(request: Request) -> str:
        requests.append(request)
        return "say Three."

    model = ToolglotModel(f"simulator:{wire}", transport=transport(turn, answer))
    agent = Agent(name="a", model=model, tools=export_tools(TOOLS))

    async def main() -> None:
        result = Runner.run_streamed(agent, "go", run_config=QUIET)
        types = [
            getattr(getattr(event, "data", None), "type", event.type)
            async for event in result.stream_events()
        ]
        assert {"response.output_text.delta", "response.completed", "run_item_stream_event"} <= set(types)
        assert result.final_output == "Three."
        assert outputs(result) == ["3"]

    asyncio.run(main())
    run(agent, "go")
    streamed, whole = (next(message for message in request.messages if message.calls) for request in requests)
    # Signatures, too; a whole reply and a stream differ in nothing but ids.
    assert [type(block) for block in streamed.blocks] == [type(block) for block in whole.blocks]
    assert [bool(getattr(block, "opaque", None)) for block in streamed.blocks] == [
        bool(getattr(block, "opaque", None)) for block in whole.blocks
    ]
    if wire in ("anthropic", "gemini", "openai-responses"):
        assert any(getattr(block, "opaque", None) for block in streamed.blocks)


def test_structured_output_handoffs_and_settings() -> None:
    requests: list[Request] = []

    def record(turn: str) -> Any:
        def reply(request: Request) -> str:
            requests.append(request)
            return turn

        return reply

    model = ToolglotModel("simulator:openai-chat/gpt-4o", transport=transport(record('say {"x": 1, "y": 2}')))
    settings = ModelSettings(temperature=0.5, max_tokens=99, presence_penalty=0.25, parallel_tool_calls=False)
    point = Agent(
        name="point", model=model, output_type=Point, model_settings=settings, tools=export_tools(TOOLS)
    )
    assert run(point, "go").final_output == Point(x=1, y=2)
    options = requests[0].options
    assert (options.temperature, options.max_tokens, options.presence_penalty) == (0.5, 99, 0.25)
    assert (requests[0].parallel, requests[0].output is not None) == (False, True)
    thinking = ModelSettings(reasoning=Reasoning(effort="low"), tool_choice="transfer_to_point")
    calls = ToolglotModel("simulator:openai", transport=transport(record("call transfer_to_point {}")))
    triage = Agent(name="triage", model=calls, handoffs=[handoff(point)], model_settings=thinking)
    assert run(triage, "go").last_agent is point
    assert (requests[1].options.effort, requests[1].tool_choice and tuple(requests[1].tool_choice.names)) == (
        "low",
        ("transfer_to_point",),
    )


def test_fields_of_responses_reach_it_and_are_logged_as_lost_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    settings = ModelSettings(verbosity="low", metadata={"a": "b"}, store=False, truncation="auto")
    for wire in ("openai-responses", "anthropic"):
        run(
            Agent(
                name="a",
                model=ToolglotModel(f"simulator:{wire}", transport=transport(reply)),
                model_settings=settings,
            ),
            "go",
        )
    sent = str(requests[0].extras)
    assert all(
        text in sent
        for text in ("'verbosity': 'low'", "'metadata': {'a': 'b'}", "'store': False", "'truncation': 'auto'")
    )
    assert "metadata" not in str(requests[1].extras)
    with caplog.at_level("INFO", "toolglot.bridges"):
        model = ToolglotModel("simulator:anthropic", transport=transport(reply))
        streamed = Agent(name="a", model=model, model_settings=settings)

        async def read() -> None:
            async for _ in Runner.run_streamed(streamed, "go", run_config=QUIET).stream_events():
                pass

        run(streamed, "go")
        asyncio.run(read())
    assert caplog.text.count("metadata at request: Anthropic Messages has no equivalent") == 2
    headers = ModelSettings(extra_headers={"a": "b"})
    with pytest.raises(UsageError, match=r"ModelSettings\.extra_headers is not supported; pass headers="):
        run(Agent(name="a", model=ToolglotModel("simulator"), model_settings=headers), "go")


def test_a_truncated_call_never_runs() -> None:
    turn = Reply((ToolCall("", "add", {"a": 1, "b": 2}),), "length")
    for model in (ToolglotModel(f"simulator:{wire}", transport=transport(turn, "say ok")) for wire in WIRES):
        result = run(Agent(name="a", model=model, tools=export_tools(TOOLS)), "go")
        assert "did not run" in outputs(result)[0]


def test_hosted_tools_are_openais() -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return "say ok"

    code = CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}})
    run(
        Agent(name="a", model=ToolglotModel("simulator:openai", transport=transport(reply)), tools=[code]),
        "go",
    )
    assert [tool.kind for tool in requests[0].tools] == ["hosted"]


def test_errors_are_ours() -> None:
    faults = SimulatedTransport(Simulator(Script(["say ok"]), faults=["context-too-long"]))
    model = ToolglotModel("simulator", transport=faults, retry=RetryConfig(max_retries=0))
    with pytest.raises(ContextTooLong):
        run(Agent(name="a", model=model), "go")
    with pytest.raises(UsageError, match="no model is named"):
        ToolglotProvider().get_model(None)
    with pytest.raises(UsageError, match="previous_response_id refers to data stored by OpenAI"):
        asyncio.run(
            Runner.run(Agent(name="a", model=model), "go", previous_response_id="resp_1", run_config=QUIET)
        )


@pytest.mark.parametrize("state", ["toolglot:", "toolglot:%%%", "toolglot:e30=", "toolglot:bm8=", "other"])
def test_state_that_somebody_has_changed_is_ignored(state: str) -> None:
    message = Message("assistant", (Thinking("", {"encrypted_content": state}), Text("Hi")))
    assert unwrap_reply(message) is message
