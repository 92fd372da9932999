"""openai-agents: `Runner.run`, and `Runner.run_streamed` where a stream is wanted.

Tracing, which would go out, is off.
"""

# pyright: reportMissingImports=false

from typing import Any

import agents
import openai

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, serve
from bench.loop.scenarios import CHAT, PROMPT

DELTAS = ("response.output_text.delta", "response.function_call_arguments.delta")
TURNS = 1000


async def open_peer(job: Job) -> RunConversation:
    import httpx2

    agents.set_tracing_disabled(True)
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    http = openai.DefaultAsyncHttpx2Client(limits=limits, timeout=600)
    client = openai.AsyncOpenAI(
        api_key="k", base_url=job.base_url, max_retries=0, timeout=600, http_client=http
    )
    job.close_callbacks.append(client.close)
    kind: Any = agents.OpenAIChatCompletionsModel if job.wire == CHAT else agents.OpenAIResponsesModel
    tools: list[Any] = [agents.function_tool(function) for function in job.functions]
    agent = agents.Agent(name="bench", model=kind(model=job.model, openai_client=client), tools=tools)

    async def talk() -> RunOutput:
        return RunOutput((await agents.Runner.run(agent, PROMPT, max_turns=TURNS)).final_output)

    async def stream() -> RunOutput:
        result, pieces = agents.Runner.run_streamed(agent, PROMPT, max_turns=TURNS), 0
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type in DELTAS:
                pieces += 1
        return RunOutput(result.final_output, pieces)

    return stream if job.scenario.is_streamed else talk


if __name__ == "__main__":
    serve(open_peer)
