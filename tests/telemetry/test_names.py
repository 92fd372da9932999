"""The names are those of the conventions, and what their own library writes is what we write."""
# pyright: reportMissingTypeStubs=false, reportDeprecated=false
# The constants are marked as deprecated because they have moved to a repository that has no package yet.

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, mcp_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.util.genai import _agent_invocation, _inference_invocation, _instruments, types
from opentelemetry.util.genai.handler import TelemetryHandler
from tests.loop.agents import PROVIDERS, Wiretap, collect_events, hook, make_agent
from tests.telemetry.recorder import Recorder, parse

from toolglot import (
    Media,
    Options,
    Output,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolError,
    Usage,
    create_engine,
    system,
    tool,
    user,
)
from toolglot.engine.engine import EngineResult
from toolglot.providers.catalog import PROFILES
from toolglot.telemetry.content import FINISH_REASONS, ContentCache
from toolglot.telemetry.runs import RunTelemetry
from toolglot.telemetry.spans import PROVIDER_NAMES
from toolglot.values.events import EngineEvent
from toolglot.values.messages import Foreign, Message, ToolResult, ToolsChanged, assistant, tool_results

MODULES = (
    gen_ai_attributes,
    mcp_attributes,
    error_attributes,
    server_attributes,
    _inference_invocation,
    _agent_invocation,
)
NAMES = {value for module in MODULES for value in vars(module).values() if isinstance(value, str)}


@tool(tags=["mcp", "mcp:files"], effects="read")
def look(path: str) -> str:
    """Look at a file."""
    if path == "b":
        raise ToolError("There is no such file.", code="file_not_found")
    return f"{path}: empty"


def test_every_attribute_is_one_of_the_conventions() -> None:
    recorder = Recorder()
    options = Options(
        temperature=1,
        top_p=0.5,
        top_k=3,
        stop=["x"],
        seed=1,
        presence_penalty=0,
        frequency_penalty=0,
        max_tokens=2000,
    )
    for provider in PROVIDERS:
        agent = make_agent(
            provider, tools=[look], options=options, telemetry=recorder.telemetry("helper", "SPAN_AND_EVENT")
        )
        asyncio.run(collect_events(agent.stream('call look {"path": "a"}')))
        asyncio.run(agent.run('call look {"path": "b"}'))
    used = {name for span in recorder.spans for name in span.attributes or {}}
    used |= {name for details in recorder.details for name in details}
    used |= {
        name for points in recorder.points().values() for _, point in points for name in point.attributes
    }
    assert {name for name in used if not name.startswith("toolglot.")} <= NAMES
    assert {
        "gen_ai.request.top_k",
        "gen_ai.response.time_to_first_chunk",
        "mcp.method.name",
        "error.type",
    } <= used
    look_span = next(span for span in recorder.spans if span.name == "execute_tool look")
    assert (look_span.attributes or {})["toolglot.mcp.server"] == "files"


def test_provider_names_are_known() -> None:
    known = {item.value for item in gen_ai_attributes.GenAiProviderNameValues}
    assert set(PROVIDER_NAMES.values()) <= known
    assert set(PROVIDER_NAMES) <= set(PROFILES)
    others = set(PROFILES) - set(PROVIDER_NAMES)
    assert {"anthropic", "deepseek", "groq"} <= others & known
    assert others - known == {
        "ollama",
        "openrouter",
        "copilot",
        "compatible",
        "llama.cpp",
        "lmstudio",
        "vllm",
    }
    assert set(FINISH_REASONS.values()) <= set(types.FinishReason.__args__)  # type: ignore[attr-defined]


def test_spans_and_metrics_are_those_of_their_library() -> None:
    """The same run told by both: names, kinds, attributes, metrics and buckets agree."""
    ours, theirs = Recorder(), Recorder()
    usages: list[Usage] = []
    see_usage = hook(after_reply=lambda reply: usages.append(reply.usage))
    wiretap = Wiretap(Reply((ToolCall("c1", "look", {"path": "a"}),), "tools"), Reply((Text("Nothing."),)))
    agent = make_agent(
        "anthropic",
        wiretap,
        tools=[look],
        options=Options(temperature=0.5, max_tokens=3000),
        telemetry=ours.telemetry("helper"),
        hooks=[see_usage],
    )
    asyncio.run(collect_events(agent.stream("Look.")))

    handler = TelemetryHandler(theirs.tracer_provider, theirs.meter_provider, theirs.logger_provider)
    id = str((ours.span("invoke_agent helper").attributes or {})["gen_ai.conversation.id"])
    with handler.invoke_local_agent(
        request_model="claude-sonnet-4-5", agent_name="helper", conversation_id=id
    ) as run:
        for number, reason, usage in ((1, "tool_call", usages[0]), (2, "stop", usages[1])):
            model = "claude-sonnet-4-5"
            with handler.inference(
                "anthropic", request_model=model, server_address="simulator", server_port=80
            ) as chat:
                chat.temperature, chat.max_tokens, chat.finish_reasons = 0.5, 3000, [reason]
                chat.response_model_name, chat.response_id = "claude-sonnet-4-5", f"{number}"
                chat.input_tokens, chat.output_tokens = usage.input, usage.output
                for _ in range(3):
                    chat.record_stream_chunk()
            if number == 1:
                with handler.tool("look", tool_type="function", agent_name="helper") as called:
                    called.tool_call_id, called.tool_description = "c1", look.definition.description
        run.input_tokens, run.output_tokens, run.finish_reasons = (
            sum(usage.input for usage in usages),
            sum(usage.output for usage in usages),
            ["stop"],
        )

    def facts(recorder: Recorder, name: str) -> list[Any]:
        spans = [span for span in recorder.spans if span.name == name]
        varying = {"gen_ai.response.id", "gen_ai.response.time_to_first_chunk"}
        return [
            (span.kind, {key: value for key, value in (span.attributes or {}).items() if key not in varying})
            for span in spans
        ]

    assert ours.tree() == theirs.tree()
    assert facts(ours, "chat claude-sonnet-4-5") == facts(theirs, "chat claude-sonnet-4-5")
    for name in ("invoke_agent helper", "execute_tool look"):  # ours says more there
        for (kind, attributes), (their_kind, their_attributes) in zip(
            facts(ours, name), facts(theirs, name), strict=True
        ):
            assert kind == their_kind
            assert attributes.items() >= their_attributes.items()
    our_points, their_points = ours.points(), theirs.points()
    assert our_points.keys() == their_points.keys()
    for name, points in our_points.items():
        described = [
            {
                (unit, tuple(point.explicit_bounds), frozenset(point.attributes.items()))
                for unit, point in side
            }
            for side in (points, their_points[name])
        ]
        assert described[0] == described[1], name
    assert their_points.keys() == {
        *(
            value
            for key, value in vars(_instruments).items()
            if key.endswith("_DURATION") and "WORKFLOW" not in key
        ),
        *(f"gen_ai.client.{name}" for name in ("operation.duration", "token.usage")),
        *(f"gen_ai.client.operation.{name}" for name in ("time_to_first_chunk", "time_per_output_chunk")),
    }


def test_content_has_the_shapes_of_their_types() -> None:
    parts = {
        "text": types.TextPart,
        "reasoning": types.ReasoningPart,
        "tool_call": types.ToolCallRequestPart,
        "tool_call_response": types.ToolCallResponsePart,
        "blob": types.BlobPart,
        "uri": types.UriPart,
        "file": types.FilePart,
    }
    media = [
        Media("image", "image/png", "aGk="),
        Media("image", url="https://x/y.png"),
        Media("file", file_id="f1"),
    ]
    messages = [
        system("Be brief."),
        user(["Look:", *media]),
        assistant(
            [
                Thinking("Hm."),
                ToolCall("c1", "look", {"path": "a"}),
                ToolCall("c2", "patch", raw="+a", freeform=True),
            ]
        ),
        tool_results(ToolResult("c1", (Text("a"), Text("b"))), ToolResult("c2", (Text("done"), media[0]))),
        Message("system", (ToolsChanged(loaded=("x",)), Foreign("gemini", {"a": 1}))),
    ]
    content = ContentCache().capture_request(messages, (look.definition,))
    assert content["gen_ai.system_instructions"].values == [{"type": "text", "content": "Be brief."}]
    (definition,) = content["gen_ai.tool.definitions"].values
    types.FunctionToolDefinition(**definition)
    sent = content["gen_ai.input.messages"].values
    for message in sent[:-1]:
        types.InputMessage(**message)
        for part in message["parts"]:
            parts[part["type"]](**part)
    assert sent[1]["parts"][2]["arguments"] == "+a"
    assert sent[2]["parts"][0]["response"] == "ab"
    assert [part["type"] for part in sent[3]["parts"][0]["response"]] == ["text", "blob"]
    assert sent[4]["parts"] == [
        {"type": "tools_changed", "added": [], "loaded": ["x"], "removed": []},
        {"type": "foreign", "wire": "gemini", "item": {"a": 1}},
    ]
    (reply,) = ContentCache().capture_reply(Reply((Text("Yes."),))).values
    types.OutputMessage(**reply)


def test_usage_is_told_by_kind() -> None:
    ours, theirs = Recorder(), Recorder()
    engine, usage = create_engine("simulator:anthropic"), Usage(100, 20, 30, 10, 5)
    run = RunTelemetry(ours.telemetry(), engine, "c")

    async def no_batches() -> AsyncGenerator[list[EngineEvent]]:
        for batch in list[list[EngineEvent]]():
            yield batch

    async def ask() -> None:
        result = EngineResult(Reply((Text("Yes."),), usage=usage))
        async for _ in run.watch_chat(no_batches(), engine, Request(messages=[user("hi")]), lambda: result):
            pass

    asyncio.run(ask())
    with TelemetryHandler(theirs.tracer_provider, theirs.meter_provider).inference("anthropic") as chat:
        chat.input_tokens, chat.output_tokens = usage.input, usage.output
        chat.cache_read_input_tokens, chat.cache_write_input_tokens = usage.cached, usage.cache_write
        chat.thinking_tokens = usage.reasoning
    usages = [
        {key: value for key, value in (recorder.spans[0].attributes or {}).items() if ".usage." in key}
        for recorder in (ours, theirs)
    ]
    assert usages[0] == usages[1]
    assert len(usages[0]) == 5


def test_structured_output_is_told() -> None:
    recorder = Recorder()
    state = create_engine("simulator:openai-chat").new_state()
    state.telemetry = RunTelemetry(recorder.telemetry(content="SPAN_ONLY"), state.engine, "c")
    asyncio.run(
        state.ask(
            Request(messages=[user("hi")], output=Output({"type": "object"}), options=Options(effort="low"))
        )
    )
    attributes = recorder.span(f"chat {state.engine.model}").attributes or {}
    assert attributes["gen_ai.output.type"] == "json"
    assert attributes["gen_ai.request.reasoning.level"] == "low"
    assert parse(recorder.spans[0], "gen_ai.input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
