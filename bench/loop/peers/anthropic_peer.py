"""The anthropic SDK with a loop by hand, as its documentation shows; the stream is the raw one, the cheaper
of its two.
"""

import json
from typing import Any

import anthropic

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, definitions, serve
from bench.loop.scenarios import PROMPT


async def open_peer(job: Job) -> RunConversation:
    import httpx2

    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    http = anthropic.DefaultAsyncHttpxClient(limits=limits, timeout=600)
    client = anthropic.AsyncAnthropic(
        api_key="k", base_url=job.base_url, max_retries=0, timeout=600, http_client=http
    )
    job.close_callbacks.append(client.close)
    create: Any = client.messages.create
    tools = [
        {"name": name, "description": about, "input_schema": parameters}
        for name, about, parameters in definitions(job.scenario)
    ]
    given = {"model": job.model, "max_tokens": 1000, **({"tools": tools} if tools else {})}

    async def ask(messages: list[Any]) -> tuple[str, list[Any], int]:
        if job.scenario.is_streamed:
            return await _streamed(await create(**given, messages=messages, stream=True), messages)
        content = (await create(**given, messages=messages)).content
        messages.append({"role": "assistant", "content": content})
        calls = [(block.id, block.name, block.input) for block in content if block.type == "tool_use"]
        return "".join(block.text for block in content if block.type == "text"), calls, 0

    async def talk() -> RunOutput:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        seen = 0
        while True:
            text, calls, pieces = await ask(messages)
            seen += pieces
            if not calls:
                return RunOutput(text, seen)
            results = await job.call_all([(name, given) for _, name, given in calls])
            content = [
                {"type": "tool_result", "tool_use_id": id, "content": result}
                for (id, _, _), result in zip(calls, results, strict=True)
            ]
            messages.append({"role": "user", "content": content})

    return talk


async def _streamed(stream: Any, messages: list[Any]) -> tuple[str, list[Any], int]:
    texts: list[str] = []
    calls: dict[int, tuple[Any, list[str]]] = {}
    pieces = 0
    async for event in stream:
        if event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                texts.append(event.delta.text)
            elif event.delta.type == "input_json_delta":
                calls[event.index][1].append(event.delta.partial_json)
                pieces += 1
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls[event.index] = (event.content_block, [])
    made = [(block.id, block.name, json.loads("".join(fragments))) for block, fragments in calls.values()]
    if made:
        content = [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in made]
        messages.append({"role": "assistant", "content": content})
    return "".join(texts), made, pieces + len(texts)


if __name__ == "__main__":
    serve(open_peer)
