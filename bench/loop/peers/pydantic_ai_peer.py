"""pydantic-ai: `Agent.run`, with an `event_stream_handler` where a stream is wanted."""

# pyright: reportMissingImports=false

from typing import Any

from pydantic_ai import (
    Agent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPartDelta,
    UsageLimits,
)

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, serve
from bench.loop.scenarios import ANTHROPIC, CHAT, PROMPT


async def open_peer(job: Job) -> RunConversation:
    import httpx2

    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    http = httpx2.AsyncClient(limits=limits, timeout=600)
    job.close_callbacks.append(http.aclose)
    agent: Agent[None, str] = Agent(_model(job, http), tools=job.functions)
    most = UsageLimits(request_limit=None)

    async def talk() -> RunOutput:
        return RunOutput((await agent.run(PROMPT, usage_limits=most)).output)

    async def stream() -> RunOutput:
        pieces = 0

        async def see(_: Any, events: Any) -> None:
            nonlocal pieces
            async for event in events:
                if isinstance(event, PartDeltaEvent):
                    pieces += isinstance(event.delta, TextPartDelta | ToolCallPartDelta)
                elif isinstance(event, PartStartEvent):
                    pieces += isinstance(event.part, TextPart)

        text = (await agent.run(PROMPT, usage_limits=most, event_stream_handler=see)).output
        return RunOutput(text, pieces)

    return stream if job.scenario.is_streamed else talk


def _model(job: Job, http: Any) -> Any:
    if job.wire == ANTHROPIC:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(
            job.model, provider=AnthropicProvider(api_key="k", base_url=job.base_url, http_client=http)
        )
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if job.wire == CHAT else OpenAIResponsesModel
    return kind(job.model, provider=OpenAIProvider(api_key="k", base_url=job.base_url, http_client=http))


if __name__ == "__main__":
    serve(open_peer)
