"""langchain: `create_agent` for the loops; for the streams the chat model's own `astream`, chunks added up as
documented.
"""

# pyright: reportMissingImports=false

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, serve
from bench.loop.scenarios import ANTHROPIC, CHAT, PROMPT


async def open_peer(job: Job) -> RunConversation:
    model = _model(job)
    return _streaming(job, model) if job.scenario.is_streamed else _agent(job, model)


def _agent(job: Job, model: Any) -> RunConversation:
    agent: Any = create_agent(model, job.functions)

    async def talk() -> RunOutput:
        state = await agent.ainvoke(
            {"messages": [{"role": "user", "content": PROMPT}]}, {"recursion_limit": 1000}
        )
        return RunOutput(state["messages"][-1].text)

    return talk


def _streaming(job: Job, model: Any) -> RunConversation:
    asked = model.bind_tools(job.functions) if job.functions else model

    async def talk() -> RunOutput:
        messages: list[Any] = [HumanMessage(PROMPT)]
        pieces = 0
        while True:
            message: Any = None
            async for chunk in asked.astream(messages):
                message = chunk if message is None else message + chunk
                pieces += bool(chunk.text or chunk.tool_call_chunks)
            if not message.tool_calls:
                return RunOutput(message.text, pieces)
            messages.append(message)
            results = await job.call_all([(call["name"], call["args"]) for call in message.tool_calls])
            for call, result in zip(message.tool_calls, results, strict=True):
                messages.append(ToolMessage(result, tool_call_id=call["id"]))

    return talk


def _model(job: Job) -> Any:
    if job.wire == ANTHROPIC:
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model_name=job.model, base_url=job.base_url, api_key="k", max_retries=0)  # type: ignore[call-arg]
    import httpx2
    from langchain_openai import ChatOpenAI

    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    http = httpx2.AsyncClient(limits=limits, timeout=600)
    job.close_callbacks.append(http.aclose)
    given: dict[str, Any] = {"use_responses_api": job.wire != CHAT, "http_async_client": http}
    return ChatOpenAI(model=job.model, base_url=job.base_url, api_key="k", max_retries=0, **given)  # type: ignore[arg-type]


if __name__ == "__main__":
    serve(open_peer)
