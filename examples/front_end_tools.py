"""A tool that runs in the browser, beside one that runs on the server, over AG-UI.

The browser is played by a class here; on a web page, AG-UI's own client does the same. Each
request reaches another process of the server, which has only what was saved.
"""

import asyncio
import json
from typing import Any

from toolglot import Agent, Conversation, load, tool
from toolglot.bridges.ag_ui import encode_events, read_request

PICK_COLOR = {
    "name": "pick_color",
    "description": "Let the person pick a color.",
    "parameters": {"type": "object", "properties": {"title": {"type": "string"}}},
}


@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


class Server:
    """What the endpoint of a server does, in a new process for each request."""

    def __init__(self) -> None:
        self._saved = Agent("simulator").save()  # an empty conversation; a database on a server

    async def handle(self, body: bytes) -> bytes:
        """Answer a request with the events of a run."""
        agent = Agent.load(self._saved, tools=[get_weather])
        request = read_request(body)
        frames = encode_events(request.stream(agent), request)
        sent = b"".join([frame async for frame in frames])
        self._saved = agent.save()
        return sent

    @property
    def conversation(self) -> Conversation:
        """What is stored now."""
        return load(self._saved)[0]


class Browser:
    """A front end with a tool of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._messages: list[dict[str, Any]] = []

    async def say(self, text: str) -> str:
        """Send a message; run tools until there is an answer."""
        self._messages.append({"id": text, "role": "user", "content": text})
        while True:
            body = {"threadId": "1", "messages": self._messages, "tools": [PICK_COLOR]}
            sent = await self._server.handle(json.dumps(body).encode())
            lines = filter(None, sent.split(b"\n\n"))
            events = [json.loads(line.removeprefix(b"data: ")) for line in lines]
            calls = self._find_calls(events)
            if not calls:
                return "".join(event["delta"] for event in events if "delta" in event)
            for call in calls:
                self._run(call)

    def _find_calls(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the calls that the server waits for."""
        for event in events:
            if event.get("name") == "toolglot.answer_needed":
                calls: list[dict[str, Any]] = event["value"]["calls"]
                return calls
        return []

    def _run(self, call: dict[str, Any]) -> None:
        print(f"The browser shows: {call['arguments']['title']}")
        message = {"id": call["toolCallId"], "role": "tool", "toolCallId": call["toolCallId"]}
        self._messages.append({**message, "content": "red"})


async def main() -> None:
    """Ask something that needs both."""
    server = Server()
    browser = Browser(server)
    prompt = 'call pick_color {"title": "The roof"}\ncall get_weather {"city": "Paris"}'
    print(await browser.say(prompt))
    print([message.role for message in server.conversation])


asyncio.run(main())

# Output:
# The browser shows: The roof
# Here is what came back. pick_color: red. get_weather: Paris: 21 degrees.
# ['user', 'assistant', 'tool', 'assistant']
