"""litellm with a loop by hand: `acompletion`, OpenAI's shapes on every wire."""

# pyright: reportMissingImports=false

import os

# nothing leaves this machine
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}

from typing import Any

import litellm

from bench.loop.runner import Job, RunConversation, RunOutput, definitions, serve
from bench.loop.scenarios import ANTHROPIC, PROMPT


async def open_peer(job: Job) -> RunConversation:
    tools = [
        {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
        for name, about, parameters in definitions(job.scenario)
    ]
    given: dict[str, Any] = {
        "model": ("anthropic/" if job.wire == ANTHROPIC else "openai/") + job.model,
        "api_base": job.base_url,
        "api_key": "k",
        "max_retries": 0,
        **({"tools": tools} if tools else {}),
    }

    async def ask(messages: list[Any]) -> tuple[str, list[Any], int]:
        if job.scenario.is_streamed:
            return await _streamed(
                await litellm.acompletion(**given, messages=messages, stream=True), messages
            )
        answer: Any = await litellm.acompletion(**given, messages=messages)
        message = answer.choices[0].message
        messages.append(message)
        return (
            message.content,
            [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()],
            0,
        )

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


async def _streamed(stream: Any, messages: list[Any]) -> tuple[str, list[Any], int]:
    texts: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    pieces = 0
    async for chunk in stream:
        delta = chunk.choices[0].delta
        if delta.content:
            texts.append(delta.content)
        for call in delta.tool_calls or ():
            made = calls.setdefault(call.index, {"id": call.id, "name": call.function.name, "arguments": []})
            if call.function.arguments:
                made["arguments"].append(call.function.arguments)
                pieces += 1
    asked = [(call["id"], call["name"], "".join(call["arguments"])) for call in calls.values()]
    if asked:
        made = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
            for id, name, given in asked
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
    return "".join(texts), asked, pieces + len(texts)


if __name__ == "__main__":
    serve(open_peer)
