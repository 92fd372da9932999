"""What runs tell OpenTelemetry: spans nest as the program does, and say what went wrong; content is told only
on request.
"""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from tests.loop.agents import StuckTool, Wiretap, cancel_and_wait, hook, make_agent
from tests.telemetry.recorder import Recorder, parse

from toolglot import (
    Agent,
    ContextPolicy,
    Conversation,
    Options,
    Overloaded,
    Reply,
    Telemetry,
    Text,
    ToolCall,
    ToolConfig,
    ToolError,
    UsageError,
    create_engine,
    tool,
    user,
)
from toolglot.telemetry import content, options
from toolglot.telemetry.options import ContentMode, start_run
from toolglot.tools.config import RetryConfig
from toolglot.values.events import RunResult

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
KEY = "sk-proj-abcdefghijklmnop1234567890"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def names(recorder: Recorder) -> set[str]:
    return {span.name for span in recorder.spans}


# ---- nesting


def test_spans_of_tools_and_hooks_nest_below_ours_and_those_of_readers_do_not() -> None:
    recorder = Recorder()

    @tool
    def in_thread() -> str:
        """Run in a thread."""
        with recorder.tracer.start_as_current_span("thread"):
            return "ok"

    @tool
    async def in_task() -> str:
        """Run in a task."""
        with recorder.tracer.start_as_current_span("task"):
            await asyncio.sleep(0)
        return "ok"

    def see(_: Any) -> None:
        recorder.tracer.start_span("hook").end()

    async def read() -> None:
        calls = (ToolCall("1", "in_thread", {}), ToolCall("2", "in_task", {}))
        agent = make_agent(
            "anthropic",
            Wiretap(Reply(calls, "tools"), Reply((Text("Done."),))),
            tools=[in_thread, in_task],
            hooks=[hook(before_request=see)],
            telemetry=recorder.telemetry("a"),
            config=ToolConfig(max_parallel=1),  # the second call is started by the task of the first
        )
        async for _ in agent.stream("Go."):
            with recorder.tracer.start_as_current_span("reader"):
                pass

    with recorder.tracer.start_as_current_span("program"):
        asyncio.run(read())
    run = "program > invoke_agent a"
    assert set(recorder.tree()) == {
        "program",
        "program > reader",
        run,
        f"{run} > hook",
        f"{run} > chat claude-sonnet-4-5",
        f"{run} > execute_tool in_thread",
        f"{run} > execute_tool in_thread > thread",
        f"{run} > execute_tool in_task",
        f"{run} > execute_tool in_task > task",
    }


def test_what_the_transport_does_is_part_of_the_request() -> None:
    recorder = Recorder()

    class Instrumented(Wiretap):
        async def send(self, request: Any) -> Any:
            with recorder.tracer.start_as_current_span("POST"):
                return await super().send(request)

    asyncio.run(make_agent("gemini", Instrumented(), telemetry=recorder.telemetry()).run("hi"))
    assert recorder.tree()[-1] == "invoke_agent > chat gemini-3-pro-preview > POST"


@pytest.mark.parametrize("sync", [False, True])
def test_runs_in_parallel_do_not_mix(sync: bool) -> None:
    recorder, count = Recorder(), 8

    @tool
    def ask_other(name: str) -> str:
        """Ask another agent."""
        other = make_agent("openai-chat", tools=[add], telemetry=recorder.telemetry(f"inner {name}"))
        return other.run_sync(f'call add {{"a": {name}, "b": 1}}').text

    def run_agent(number: int) -> Agent:
        return make_agent("anthropic", tools=[ask_other], telemetry=recorder.telemetry(f"outer {number}"))

    if sync:
        threads = [
            threading.Thread(target=run_agent(n).run_sync, args=[f'call ask_other {{"name": "{n}"}}'])
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:

        async def run_all() -> None:
            await asyncio.gather(
                *(run_agent(n).run(f'call ask_other {{"name": "{n}"}}') for n in range(count))
            )

        asyncio.run(run_all())
    tree = recorder.tree()
    for number in range(count):
        inner = f"invoke_agent outer {number} > execute_tool ask_other > invoke_agent inner {number}"
        assert tree.count(f"{inner} > execute_tool add") == 1
        assert tree.count(f"{inner} > chat gpt-4o") == 2
    assert len({span.context.trace_id for span in recorder.spans if span.context is not None}) == count


def test_calls_that_code_makes_are_below_the_call_that_runs_it() -> None:
    pytest.importorskip("pydantic_monty", reason="pip install 'toolglot[code]'")
    recorder = Recorder()
    call = ToolCall("1", "run_code", {"code": "print(add(a=1, b=2))"})
    wiretap = Wiretap(Reply((call,), "tools"), Reply((Text("Done."),)))
    asyncio.run(
        make_agent("anthropic", wiretap, tools=[add], code_mode="python", telemetry=recorder.telemetry()).run(
            "Go."
        )
    )
    assert recorder.tree()[-1] == "invoke_agent > execute_tool run_code > execute_tool add"


def test_a_conversation_has_one_id_and_others_have_theirs() -> None:
    recorder = Recorder()
    agent = make_agent("anthropic", telemetry=recorder.telemetry())
    asyncio.run(agent.run("hi"))
    asyncio.run(agent.run("hi again"))
    asyncio.run(agent.run("hi", conversation=Conversation()))
    loaded = Agent.load(agent.save(), telemetry=recorder.telemetry())  # perhaps in another process
    asyncio.run(loaded.run("hi"))
    ids = [(span.attributes or {})["gen_ai.conversation.id"] for span in recorder.spans]
    assert ids[0] == ids[1] == ids[2] == ids[3] == ids[6] == ids[7] != ids[4] == ids[5]


# ---- what goes wrong


def test_retries_losses_repairs_and_a_switch_are_events() -> None:
    recorder = Recorder()
    wiretap = Wiretap(faults=["overloaded"])
    agent = make_agent("anthropic", wiretap, telemetry=recorder.telemetry(), system="Be brief.")
    asyncio.run(agent.run("hi"))
    events = recorder.events("chat claude-sonnet-4-5")
    assert events["toolglot.retry"].keys() == {"reason", "seconds", "attempt"}
    assert events["toolglot.repair"]["subject"] == "max_tokens"

    recorder = Recorder()
    failing = create_engine(
        "simulator:anthropic",
        transport=Wiretap(errors=[Overloaded("busy")] * 9),
        retry=RetryConfig(max_retries=0),
    )
    agent = Agent(failing, fallbacks=["simulator:openai-chat"], telemetry=recorder.telemetry())
    asyncio.run(agent.run("hi"))
    assert recorder.events("invoke_agent")["toolglot.model_switched"]["model"].endswith("gpt-4o")
    failed = recorder.span("chat claude-sonnet-4-5")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "Overloaded"
    assert recorder.span("chat gpt-4o").status.is_unset
    durations = {
        dict(point.attributes).get("error.type")
        for _, point in recorder.points()["gen_ai.client.operation.duration"]
    }
    assert durations == {"Overloaded", None}


def test_losses_are_told_once_in_a_run() -> None:
    recorder = Recorder()
    agent = make_agent(
        "openai-chat",
        tools=[add],
        hosted=["code_execution"],
        options=Options(top_k=3),
        telemetry=recorder.telemetry(),
    )
    result = asyncio.run(agent.run('call add {"a": 1, "b": 2}'))
    span_events = [
        (span.name, (event.attributes or {})["subject"]) for span in recorder.spans for event in span.events
    ]
    assert span_events == [("chat gpt-4o", "top_k"), ("invoke_agent", "hosted tool 'code_execution'")]
    assert len(span_events) == len(result.losses)


def test_truncation_and_its_summary_are_told() -> None:
    recorder = Recorder()
    policy = ContextPolicy(budget=200)
    messages = [user("word " * 100), *[user(f"{n} " * 50) for n in range(5)]]
    agent = make_agent(
        "openai-chat", context=policy, conversation=Conversation(messages), telemetry=recorder.telemetry()
    )
    asyncio.run(agent.run("hi"))
    assert recorder.events("invoke_agent")["toolglot.context_truncated"]["omitted_messages"] > 0
    assert recorder.tree() == ["invoke_agent", "invoke_agent > chat gpt-4o", "invoke_agent > chat gpt-4o"]


def test_approvals_are_told_when_they_are_asked_and_decided() -> None:
    recorder = Recorder()

    @tool(effects=["write"], approval=True)
    def change() -> str:
        """Change something."""
        return "done"

    answers = iter([True, False])
    agent = make_agent(
        "anthropic", tools=[change], approve=lambda _: next(answers), telemetry=recorder.telemetry()
    )
    asyncio.run(agent.run("call change {}"))
    asyncio.run(agent.run("call change {}"))
    runs = [span for span in recorder.spans if span.name == "invoke_agent"]
    decisions = [
        [(event.name, (event.attributes or {}).get("decision")) for event in span.events] for span in runs
    ]
    assert decisions == [
        [("toolglot.approval_asked", None), ("toolglot.approval_decided", decision)]
        for decision in ("allow", "deny")
    ]
    assert [span.name for span in recorder.spans].count("execute_tool change") == 1

    paused = make_agent("anthropic", tools=[change], telemetry=(later := Recorder()).telemetry())
    result = asyncio.run(paused.run("call change {}"))
    assert [event.name for event in later.spans[-1].events] == ["toolglot.approval_asked"]
    assert (later.spans[-1].attributes or {})["toolglot.stop"] == "approval"
    asyncio.run(paused.resume({result.requests[0].id: True}))
    assert [event.name for event in later.spans[-1].events] == ["toolglot.approval_decided"]


def test_the_spans_of_a_run_that_pauses_add_up_to_what_it_used() -> None:
    @tool(effects=["write"], approval=True)
    def change() -> str:
        """Change something."""
        return "done"

    async def play() -> RunResult:
        result = await agent.run("call change {} then call change {}")
        assert result.stop == "approval"
        while result.stop == "approval":
            result = await agent.resume({result.requests[0].id: True})
        return result

    agent = make_agent("anthropic", tools=[change], telemetry=(recorder := Recorder()).telemetry())
    result = asyncio.run(play())
    legs = [span.attributes or {} for span in recorder.spans if span.name == "invoke_agent"]

    def total(name: str) -> float:
        return sum(float(str(leg[name])) for leg in legs)

    assert len(legs) == 3
    assert total("gen_ai.usage.input_tokens") == result.usage.input
    assert total("gen_ai.usage.output_tokens") == result.usage.output
    assert total("toolglot.iterations") == result.iterations
    assert total("toolglot.cost") == pytest.approx(result.cost)  # pyright: ignore[reportUnknownMemberType]


def test_calls_that_fail_or_never_run_are_told() -> None:
    recorder = Recorder()

    @tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError(f"the secret is {KEY}")

    agent = make_agent("anthropic", tools=[fail, add], telemetry=recorder.telemetry())
    asyncio.run(agent.run("call fail {}"))
    failed = recorder.span("execute_tool fail")
    assert (failed.attributes or {})["error.type"] == "execution"
    assert failed.status.description is None  # it is what the tool says, that is, content
    asyncio.run(agent.run('call add {"a": "x"}'))
    last = recorder.spans[-1].events[-1]
    assert (last.name, (last.attributes or {})["error.type"]) == (
        "toolglot.tool_refused",
        "invalid_arguments",
    )
    tools = {
        (dict(point.attributes)["gen_ai.tool.name"], point.count)
        for _, point in recorder.points()["gen_ai.execute_tool.duration"]
    }
    assert tools == {("fail", 1)}


def test_cancelled_and_abandoned_runs_end_their_spans(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what other tests left behind may log something when it goes
    caplog.clear()
    recorder = Recorder()

    async def cancel_one() -> None:
        stuck = StuckTool()
        agent = make_agent("anthropic", tools=[stuck.tool], telemetry=recorder.telemetry())
        task = asyncio.create_task(agent.run("call slow {}"))
        await stuck.inside.wait()
        await cancel_and_wait(task)

    asyncio.run(cancel_one())
    assert names(recorder) == {"invoke_agent", "chat claude-sonnet-4-5", "execute_tool slow"}
    assert (recorder.span("execute_tool slow").attributes or {})["error.type"] == "interrupted"
    assert (recorder.span("invoke_agent").attributes or {})[
        "error.type"
    ] == "asyncio.exceptions.CancelledError"

    recorder = Recorder()

    async def leave_one() -> None:
        stream = make_agent("anthropic", telemetry=recorder.telemetry()).stream("hi")
        await anext(stream)
        await stream.aclose()
        forgotten = make_agent("gemini", telemetry=recorder.telemetry("forgotten")).stream("hi")
        await anext(forgotten)
        del forgotten
        gc.collect()

    asyncio.run(leave_one())
    assert [event.name for event in recorder.span("invoke_agent").events] == ["toolglot.abandoned"]
    assert recorder.span("invoke_agent forgotten").status.is_unset
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# ---- content


def test_a_span_that_cannot_be_started_fails_the_run() -> None:
    """It must not leave the run waiting for a call that never began."""

    class Refusing(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if span.name == "execute_tool add":
                raise ValueError("no more spans")

    recorder = Recorder()
    recorder.tracer_provider.add_span_processor(Refusing())
    agent = make_agent("anthropic", tools=[add], telemetry=recorder.telemetry())
    with pytest.raises(ValueError, match="no more spans"):
        asyncio.run(asyncio.wait_for(agent.run('call add {"a": 1, "b": 2}'), 30))


def test_content_is_recorded_only_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, tuple[bool, bool, bool]] = {}
    for mode in ("", "NO_CONTENT", "span_only", "EVENT_ONLY", "SPAN_AND_EVENT", "true"):
        recorder = Recorder()
        monkeypatch.setenv(CONTENT_VARIABLE, mode)
        asyncio.run(
            make_agent("ollama", tools=[add], telemetry=recorder.telemetry()).run('call add {"a": 1, "b": 2}')
        )
        tool_span = recorder.span("execute_tool add").attributes or {}
        on_chats = any("gen_ai.input.messages" in (span.attributes or {}) for span in recorder.spans)
        seen[mode] = (on_chats, "gen_ai.tool.call.result" in tool_span, len(recorder.details) == 2)
        for details in recorder.details:
            assert isinstance(details["gen_ai.input.messages"], list | tuple)
            assert details["gen_ai.response.finish_reasons"]
    assert seen == {
        "": (False, False, False),
        "NO_CONTENT": (False, False, False),
        "span_only": (True, True, False),
        "EVENT_ONLY": (False, False, True),
        "SPAN_AND_EVENT": (True, True, True),
        "true": (False, False, False),  # an older convention, which the library of the new one refuses, too
    }
    monkeypatch.setenv(CONTENT_VARIABLE, "")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT", "true")
    recorder = Recorder()
    asyncio.run(make_agent("ollama", telemetry=recorder.telemetry()).run("hi"))
    assert "gen_ai.input.messages" not in recorder.details[0]


@pytest.mark.parametrize("mode", ["NO_CONTENT", "SPAN_ONLY"])
def test_without_content_no_event_quotes_a_call(mode: ContentMode) -> None:
    recorder = Recorder()

    @tool(always_ask=lambda arguments: f"it sends {arguments['texts']}")
    def send(texts: list[str]) -> str:
        """Send texts."""
        raise ToolError(f"{texts} was refused")

    options: dict[str, Any] = {"tools": [send], "telemetry": recorder.telemetry(content=mode)}
    asyncio.run(
        make_agent("anthropic", approve=lambda _: True, **options).run('call send {"texts": "private words"}')
    )
    asyncio.run(
        make_agent("anthropic", approve=lambda _: False, **options).run(
            'call send {"texts": "private words"}'
        )
    )
    names = [event.name for span in recorder.spans for event in span.events]
    assert {"toolglot.approval_asked", "toolglot.approval_decided", "toolglot.repair"} <= {*names}
    everything = str([[span.name, span.attributes, span.status.description] for span in recorder.spans])
    everything += str([(event.name, event.attributes) for span in recorder.spans for event in span.events])
    assert ("private words" in everything) == (mode == "SPAN_ONLY")


def test_keys_are_hidden_and_odd_text_is_exported() -> None:
    recorder = Recorder()
    agent = Agent(
        "openai-chat:gpt-4o",
        key="correct-horse-battery",
        transport=Wiretap(),
        tools=[tool(lambda text: f"{text} correct-horse-battery", name="echo")],
        telemetry=recorder.telemetry(content="SPAN_AND_EVENT"),
    )
    asyncio.run(agent.run(f'call echo {{"text": "{KEY} \\ud800 correct-horse-battery"}}'))
    everything = str([[span.attributes, span.events] for span in recorder.spans]) + str(recorder.details)
    assert KEY not in everything
    assert "correct-horse" not in everything
    assert everything.count("[hidden]") > 4
    for span in recorder.spans:
        for value in (span.attributes or {}).values():
            str(value).encode()


def test_keys_are_hidden_in_errors_and_after_a_switch() -> None:
    recorder, busy = Recorder(), Wiretap(errors=[Overloaded("busy")])
    # of a transport of the user
    leaking = Wiretap(errors=[ValueError("not a header: Bearer correct-horse-battery")])
    first, second = (
        create_engine(
            "openai-chat:gpt-4o",
            key="correct-horse-battery",
            transport=transport,
            retry=RetryConfig(max_retries=0),
        )
        for transport in (busy, leaking)
    )
    echo = tool(lambda: "correct-horse-battery", name="echo", effects="read")
    telemetry = recorder.telemetry(content="SPAN_ONLY")
    asyncio.run(
        Agent(first, fallbacks=["simulator:anthropic"], tools=[echo], telemetry=telemetry).run("call echo {}")
    )
    with pytest.raises(ValueError, match="not a header"):
        asyncio.run(Agent(second, telemetry=recorder.telemetry()).run("hi"))
    everything = str([[span.attributes, span.status.description] for span in recorder.spans])
    assert "not a header: Bearer [hidden]" in everything
    assert {"execute_tool echo", "chat claude-sonnet-4-5"} <= names(recorder)
    assert "correct-horse" not in everything


def test_each_message_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, converted = Recorder(), list[Any]()
    convert = content._convert_message  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        content, "_convert_message", lambda message: (converted.append(message), convert(message))[1]
    )
    agent = make_agent("anthropic", tools=[add], telemetry=recorder.telemetry(content="SPAN_ONLY"))
    for _ in range(10):
        asyncio.run(agent.run('call add {"a": 1, "b": 2}'))
    # Besides each of the 40 messages: a run tells its prompt and its answer, and a request its reply.
    assert len(converted) == 40 - 1 + 10 * 2 + 20
    chats = [span for span in recorder.spans if span.name.startswith("chat")]
    assert len(parse(chats[-1], "gen_ai.input.messages")) == 39


def test_each_result_is_a_message_of_its_own() -> None:
    """Phoenix shows one result of a message."""
    recorder = Recorder()
    agent = make_agent("anthropic", tools=[add], telemetry=recorder.telemetry(content="SPAN_ONLY"))
    asyncio.run(agent.run('call add {"a": 1, "b": 2}\ncall add {"a": 3, "b": 4}'))
    chats = [span for span in recorder.spans if span.name.startswith("chat")]
    *_, first, second = parse(chats[-1], "gen_ai.input.messages")
    assert [(item["role"], [part["response"] for part in item["parts"]]) for item in (first, second)] == [
        ("tool", ["3"]),
        ("tool", ["7"]),
    ]


# ---- on and off


def test_the_option_is_checked() -> None:
    with pytest.raises(UsageError, match="telemetry: pass True, False, None or a Telemetry, not str"):
        Agent("simulator", telemetry="yes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="content of Telemetry: invalid enum value 'all'"):
        Telemetry(content="all")  # type: ignore[arg-type]


def test_without_a_provider_it_is_off() -> None:
    engine = create_engine("simulator")
    assert start_run(None, engine, lambda: "id", None) is None
    assert start_run(True, engine, lambda: "id", None) is not None


def test_an_old_opentelemetry_is_an_error_only_if_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("opentelemetry.version.__version__", "1.25.0")
    monkeypatch.setattr(options, "_has_providers", lambda: True)
    cached = (options._find_problem, options._warn_of_problem)  # pyright: ignore[reportPrivateUsage]
    for function in cached:
        function.cache_clear()
    try:
        message = (
            r"telemetry needs OpenTelemetry 1\.35 or newer, not 1\.25\.0: pip install --upgrade "
            r"'toolglot\[otel\]'"
        )
        with pytest.raises(UsageError, match=message):
            Agent("simulator", telemetry=True)
        agent = Agent("simulator")
        assert [asyncio.run(agent.run("say hi")).text for _ in range(2)] == ["hi", "hi"]
        assert (
            caplog.text.count("runs are not reported to OpenTelemetry: telemetry needs OpenTelemetry 1.35")
            == 1
        )
    finally:
        for function in cached:
            function.cache_clear()
    oldest = ".".join(map(str, options._OLDEST))  # pyright: ignore[reportPrivateUsage]
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert project["optional-dependencies"]["otel"] == [f"opentelemetry-api>={oldest}"]


PROGRAM = """
import sys
from unittest.mock import patch
if "absent" in sys.argv:
    for name in ("opentelemetry", "opentelemetry.trace"):
        sys.modules[name] = None
if "set up" in sys.argv:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(
        SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.name + "\\n"))
    )
from toolglot import Agent, UsageError
if "off" in sys.argv:
    Agent("simulator", telemetry=False).run_sync("hi")
if "asked" in sys.argv:
    try:
        Agent("simulator", telemetry=True).run_sync("hi")
    except UsageError as error:
        print(error, file=sys.stderr)
from toolglot.cli.main import main
with patch.object(sys, "argv", ["toolglot", "run", "-m", "simulator", "say hi"]):
    try:
        main()
    except SystemExit as end:
        assert not end.code, end
print("loaded" if "toolglot.telemetry.runs" in sys.modules else "not loaded", file=sys.stderr)
"""


@pytest.mark.parametrize(("words", "messages"), [
    (["absent", "asked"], ["telemetry needs OpenTelemetry: pip install 'toolglot[otel]'", "not loaded"]),
    (["set up", "off"], ["chat claude-sonnet-4-5", "invoke_agent", "loaded"]),
])  # fmt: skip
def test_it_is_on_when_the_program_has_set_it_up(words: list[str], messages: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == messages
