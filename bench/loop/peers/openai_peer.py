"""The openai SDK with a loop by hand, as its documentation shows: Chat Completions or Responses."""

from typing import Any

import openai

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, definitions, serve
from bench.loop.scenarios import CHAT, PROMPT


async def open_peer(job: Job) -> RunConversation:
    import httpx2

    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    http = openai.DefaultAsyncHttpx2Client(limits=limits, timeout=600)
    client = openai.AsyncOpenAI(
        api_key="k", base_url=job.base_url, max_retries=0, timeout=600, http_client=http
    )
    job.close_callbacks.append(client.close)
    return _chat(job, client) if job.wire == CHAT else _responses(job, client)


def _chat(job: Job, client: openai.AsyncOpenAI) -> RunConversation:
    create: Any = client.chat.completions.create
    tools = [
        {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
        for name, about, parameters in definitions(job.scenario)
    ]
    given = {"model": job.model, "tools": tools or openai.omit}

    async def streamed(messages: list[Any]) -> tuple[str, list[Any], int]:
        text, made, pieces = await _join_chunks(await create(**given, messages=messages, stream=True))
        if made:
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
        return (
            text,
            [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in made],
            pieces,
        )

    async def whole(messages: list[Any]) -> tuple[str, list[Any], int]:
        message = (await create(**given, messages=messages)).choices[0].message
        messages.append(message)
        return (
            message.content,
            [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()],
            0,
        )

    ask = streamed if job.scenario.is_streamed else whole

    async def talk() -> RunOutput:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        seen = 0
        while True:
            text, calls, pieces = await ask(messages)
            seen += pieces
            if not calls:
                return RunOutput(text, seen)
            results = await job.call_all([(name, given) for _, name, given in calls])
            for (id, _, _), result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": id, "content": result})

    return talk


async def _join_chunks(chunks: Any) -> tuple[str, list[Any], int]:
    texts: list[str] = []
    calls: dict[int, tuple[Any, list[str]]] = {}
    async for chunk in chunks:
        for choice in chunk.choices:
            delta = choice.delta
            if delta.content:
                texts.append(delta.content)
            for call in delta.tool_calls or ():
                _, fragments = calls.setdefault(call.index, (call, []))
                if call.function.arguments:
                    fragments.append(call.function.arguments)
    made = [
        {
            "id": head.id,
            "type": "function",
            "function": {"name": head.function.name, "arguments": "".join(fragments)},
        }
        for head, fragments in calls.values()
    ]
    return "".join(texts), made, len(texts) + sum(len(fragments) for _, fragments in calls.values())


def _responses(job: Job, client: openai.AsyncOpenAI) -> RunConversation:
    create: Any = client.responses.create
    tools = [
        {"type": "function", "name": name, "description": about, "parameters": parameters, "strict": False}
        for name, about, parameters in definitions(job.scenario)
    ]
    given = {"model": job.model, "tools": tools or openai.omit}

    async def ask(items: list[Any]) -> tuple[Any, int]:
        if not job.scenario.is_streamed:
            return await create(**given, input=items), 0
        pieces, response = 0, None
        async for event in await create(**given, input=items, stream=True):
            if event.type in ("response.output_text.delta", "response.function_call_arguments.delta"):
                pieces += 1
            elif event.type == "response.completed":
                response = event.response
        return response, pieces

    async def talk() -> RunOutput:
        items: list[Any] = [{"role": "user", "content": PROMPT}]
        seen = 0
        while True:
            response, pieces = await ask(items)
            seen += pieces
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return RunOutput(response.output_text, seen)
            items += response.output
            results = await job.call_all([(call.name, call.arguments) for call in calls])
            for call, result in zip(calls, results, strict=True):
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})

    return talk


if __name__ == "__main__":
    serve(open_peer)
