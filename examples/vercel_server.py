"""A server for `useChat` of the Vercel AI SDK.

Run it: pip install fastapi uvicorn, then uvicorn vercel_server:app.
"""

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from toolglot import Agent, Conversation, MalformedRequest, tool
from toolglot.bridges.vercel import HEADERS, encode_events, read_request, rewind


@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


@tool(approval=True)
async def send_mail(to: str, text: str) -> str:
    """Send an e-mail."""
    return f"sent to {to}"


app = FastAPI()
agent = Agent("simulator", tools=[get_weather, send_mail])  # one agent serves every request
# Keep them in a database: toolglot.save and toolglot.load.
conversations: dict[str, Conversation] = {}


@app.post("/api/chat")
async def run_agent(http_request: Request) -> StreamingResponse:
    """Run the agent, or continue a run that waited for the front end."""
    try:
        request = read_request(await http_request.body())
    except MalformedRequest as error:
        raise HTTPException(422, str(error)) from None
    # The client sends the history, too, but it could have changed it: the server has its own.
    conversation = rewind(conversations.get(request.chat_id, Conversation()), request)
    conversations[request.chat_id] = conversation
    events = request.stream(agent, conversation=conversation)
    return StreamingResponse(encode_events(events, request), headers=HEADERS)
