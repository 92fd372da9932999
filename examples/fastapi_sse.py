"""A chat endpoint that streams server-sent events.

Run it: pip install fastapi uvicorn, then uvicorn fastapi_sse:app.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import msgspec
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from toolglot import (
    Agent,
    Conversation,
    Delivered,
    TextDelta,
    ToolFinished,
    ToolglotError,
    ToolStarted,
    tool,
)


@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


app = FastAPI()
agent = Agent("simulator", tools=[get_weather])  # one agent serves every request
# Keep them in a database: toolglot.save and toolglot.load.
conversations: dict[str, Conversation] = {}
locks = defaultdict[str, asyncio.Lock](asyncio.Lock)  # a conversation has one run at a time


def to_sse(name: str, data: object) -> bytes:
    """Format one server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


async def answer(chat_id: str, prompt: str) -> AsyncIterator[bytes]:
    """Run the agent. If the client disconnects, it is cancelled; the conversation stays valid."""
    conversation = conversations.setdefault(chat_id, Conversation())
    async with locks[chat_id]:
        try:
            async for event in agent.stream(prompt, conversation=conversation):
                match event:
                    case TextDelta(text=text):
                        yield to_sse("text", text)
                    case ToolStarted(call=call):
                        yield to_sse("tool", {"name": call.name, "arguments": call.arguments})
                    case ToolFinished(outcome=outcome):
                        yield to_sse("result", outcome.result.text)
                    case Delivered(id=message_id):
                        yield to_sse("delivered", message_id)
                    case _:
                        pass
        except ToolglotError as error:  # the status has been sent, so the error is an event too
            yield to_sse("error", str(error))
    yield to_sse("done", None)


@app.post("/chats/{chat_id}")
async def chat(chat_id: str, prompt: str) -> StreamingResponse:
    """Answer a prompt as a stream of events."""
    if locks[chat_id].locked():
        raise HTTPException(409, "this chat is still answering; wait, or send it a message")
    return StreamingResponse(answer(chat_id, prompt), media_type="text/event-stream")


@app.post("/chats/{chat_id}/messages/{message_id}")
async def say(chat_id: str, message_id: str, text: str) -> dict[str, str]:
    """Pass a message to the answer in progress; the event `delivered` tells when it counts."""
    if chat_id not in conversations:
        raise HTTPException(404, "there is no such chat: send a prompt first")
    delivery = agent.deliver(text, id=message_id, conversation=conversations[chat_id])
    return {"state": delivery.state, "reason": delivery.reason}
