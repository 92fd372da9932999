"""The way back: a body of the provider's API as a request."""

from typing import Any

from toolglot import Message, Origin, Profile, Request, Text, ToolDefinition, ToolResult
from toolglot.wire.tracker import make_call

__all__ = ["decode"]


def decode(body: dict[str, Any], profile: Profile) -> Request:
    """Return the request that a body says."""
    origin = Origin(profile.wire, profile.id, body["model"])
    messages = [
        Message(
            message["role"],
            (
                *([Text(message["text"])] if message["text"] else []),
                *(make_call(call["id"], call["name"], call["text"]) for call in message["calls"]),
                *(
                    ToolResult(result["id"], (Text(result["text"]),))
                    for result in message["results"]
                ),
            ),
            origin,
        )
        for message in body["messages"]
    ]
    tools = tuple(
        ToolDefinition(tool["name"], tool["about"], tool["schema"]) for tool in body["tools"]
    )
    return Request(body["model"], messages, tools, stream=body["stream"])
