"""A server for AG-UI front ends such as CopilotKit.

Run it: pip install fastapi uvicorn, then uvicorn ag_ui_server:app.
"""

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from toolglot import Agent, Conversation, MalformedRequest, tool
from toolglot.bridges.ag_ui import encode_events, read_request


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


@app.post("/")
async def run_agent(http_request: Request) -> StreamingResponse:
    """Run the agent, or continue a run that waited for the front end."""
    try:
        request = read_request(await http_request.body())
    except MalformedRequest as error:
        raise HTTPException(422, str(error)) from None
    # The client sends the history, too, but it could have changed it: the server has its own.
    conversation = conversations.setdefault(request.chat_id, Conversation())
    events = request.stream(agent, conversation=conversation)
    return StreamingResponse(encode_events(events, request), media_type="text/event-stream")
