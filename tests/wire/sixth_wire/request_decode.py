from toolglot.providers.profile import Profile
from toolglot.values.messages import Message, Origin, Text, ToolResult
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.json_values import Doc, iter_dicts
from toolglot.wire.tracker import make_call


def decode(body: Doc, profile: Profile) -> Request:
    origin = Origin(profile.wire, profile.id, body["model"])
    messages = [
        Message(
            message["role"],
            (
                *([Text(message["text"])] if message["text"] else []),
                *(make_call(call["id"], call["name"], call["text"]) for call in message["calls"]),
                *(ToolResult(result["id"], (Text(result["text"]),)) for result in message["results"]),
            ),
            origin,
        )
        for message in body["messages"]
    ]
    tools = tuple(
        ToolDefinition(tool["name"], parameters=tool["schema"]) for tool in iter_dicts(body["tools"])
    )
    return Request(body["model"], messages, tools, stream=body["stream"])
