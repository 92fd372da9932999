"""toolglot itself: `Agent.run`, and `Agent.stream` where a stream is wanted.

Every conversation has an orchestrator of its own, made while the clock runs; all share one engine, and so its
connections."""

from bench.loop.runner import Job, RunConversation, RunOutput, serve
from bench.loop.scenarios import ANTHROPIC, CHAT, PROMPT, RESPONSES
from toolglot import Agent, Conversation, RunLimits, Tool, tool
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.values.events import TextDelta, ToolCallDelta
from toolglot.wire.partial import PartialArguments

PROVIDERS = {CHAT: "openai-chat", RESPONSES: "openai-responses", ANTHROPIC: "anthropic"}


async def open_ours(job: Job) -> RunConversation:
    engine, tools, limits = _prepare(job)

    async def talk() -> RunOutput:
        return RunOutput((await Agent(engine, tools=tools, limits=limits).run(PROMPT)).text)

    async def stream() -> RunOutput:
        texts: list[str] = []
        pieces = 0
        async for event in Agent(engine, tools=tools, limits=limits).stream(PROMPT):
            if type(event) is TextDelta:
                texts.append(event.text)
            elif type(event) is ToolCallDelta:
                pieces += 1
        return RunOutput("".join(texts), pieces + len(texts))

    async def live() -> RunOutput:
        texts: list[str] = []
        pieces, partial = 0, PartialArguments()
        async for event in Agent(engine, tools=tools, limits=limits).stream(PROMPT):
            if type(event) is TextDelta:
                texts.append(event.text)
            elif type(event) is ToolCallDelta:
                partial.feed(event.text)
                pieces += 1
        assert not partial.is_broken
        return RunOutput("".join(texts), pieces)

    return live if job.scenario.reads_partial_arguments else stream if job.scenario.is_streamed else talk


async def open_ours_shared(job: Job) -> RunConversation:
    """One agent for all conversations."""
    engine, tools, limits = _prepare(job)
    agent = Agent(engine, tools=tools, limits=limits)

    async def talk() -> RunOutput:
        return RunOutput((await agent.run(PROMPT, conversation=Conversation())).text)

    return talk


def _prepare(job: Job) -> tuple[Engine, list[Tool], RunLimits]:
    transport = HttpTransport()
    engine = create_engine(
        f"{PROVIDERS[job.wire]}:{job.model}", base_url=job.base_url, key="k", transport=transport
    )
    job.close_callbacks.append(transport.close)
    return (
        engine,
        [tool(function) for function in job.functions],
        RunLimits(max_iterations=job.scenario.turns + 1),
    )


if __name__ == "__main__":
    serve(open_ours)
