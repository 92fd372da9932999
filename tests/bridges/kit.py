"""What the tests of all bridges use: tools of ours, a conversation, models with a script."""

from typing import Any

from toolglot import (
    Conversation,
    Media,
    Message,
    Origin,
    Script,
    SimulatedTransport,
    Simulator,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    system,
    tool,
    tool_results,
    user,
)
from toolglot.tools.context import Context

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
PNG = b"\x89PNG\r\n\x1a\n0000"
ANTHROPIC = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval=True)
def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


@tool
def look() -> list[Any]:
    """Look at a picture."""
    return [Text("a picture"), Media.from_bytes(PNG)]


@tool
def show_data(context: Context[Any]) -> str:
    """Show the data of the run."""
    return f"data {context.data}"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@tool(max_result=200)
def write_much() -> str:
    """Write much."""
    return "x" * 1000 + "END"


TOOLS: list[Tool] = [add, remove, look, show_data, fail, write_much]


def transport(*turns: Any) -> SimulatedTransport:
    return SimulatedTransport(Simulator(Script(turns)))


def conversation() -> Conversation:
    """A conversation with a picture, reasoning with a signature, two calls and an error."""
    calls = (ToolCall("toolu_1", "add", {"a": 1, "b": 2}), ToolCall("toolu_2", "fail", {}))
    return Conversation(
        [
            system("Be brief."),
            user(["What is this?", Media.from_bytes(PNG)]),
            Message(
                "assistant",
                (Thinking("Let me add.", {"signature": "c2ln"}), Text("Adding."), *calls),
                ANTHROPIC,
            ),
            tool_results(
                ToolResult("toolu_1", (Text("3"), Media.from_bytes(PNG)), "add"),
                ToolResult("toolu_2", (Text("broken"),), "fail", is_error=True),
            ),
            Message("assistant", (Text("It is 3."),), ANTHROPIC),
            user("Thanks!"),
        ]
    )


def summarize(messages: Any) -> list[Any]:
    """What every format must keep of a conversation: texts, pictures, calls, results, by role."""
    return [
        (
            message.role,
            message.text,
            [block.data for block in message.blocks if isinstance(block, Media)],
            [(call.id, call.name, call.arguments) for call in message.calls],
            [
                # Some formats have no flag for errors.
                (
                    result.call_id,
                    result.text.removeprefix("Error: "),
                    [block.data for block in result.content if isinstance(block, Media)],
                )
                for result in message.results
            ],
        )
        for message in messages
    ]
