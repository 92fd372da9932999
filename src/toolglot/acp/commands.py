"""A session's slash commands. Text that only looks like one is a prompt."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from toolglot.mcp.client.listing import McpPrompt
from toolglot.values.messages import Message

if TYPE_CHECKING:
    from toolglot.acp.session import EditorSession

__all__ = ["find_command", "list_commands"]

Handler = Callable[["EditorSession", str], Awaitable[str | Sequence[Message]]]
"""Returns the text to show, or the messages to send to the model."""


class Command(msgspec.Struct, frozen=True):
    """A command: its description, a hint for its argument, and its function."""

    description: str
    handler: Handler
    hint: str = ""


async def show_context(session: "EditorSession", argument: str) -> str:
    """Return what fills the context window."""
    usage = await session.agent.context_usage()
    share = f" of {usage.budget:,} ({usage.total / usage.budget:.0%})" if usage.budget else ""
    lines = [f"About {usage.total:,} tokens{share} in the next request to {session.agent.model}:", ""]
    lines += [
        f"- {part}: {tokens:,}" for part, tokens in sorted(usage.parts.items(), key=lambda pair: -pair[1])
    ]
    sources = session.parts.instructions.estimate_tokens(session.agent.view().scale_tokens)
    lines += (
        ["", *(f"- instructions: {tokens:,} from {source}" for source, tokens in sources.items())]
        if sources
        else []
    )
    if (deferral := session.agent.view().deferral) is not None:
        lines += ["", deferral.scale(session.agent.view().calibration).message]
    return "\n".join(lines)


async def show_tools(session: "EditorSession", argument: str) -> str:
    """Return the tools as the model sees them."""
    definitions = session.agent.view().visible_tools
    lines = [
        f"- `{definition.qualified_name}`: {definition.description.partition(chr(10))[0]}"
        for definition in definitions
    ]
    if (deferral := session.agent.view().deferral) is not None:
        lines += ["", deferral.message]
    return "\n".join(lines) or "The model has no tools."


async def switch_model(session: "EditorSession", argument: str) -> str:
    """Switch the model, if one is named. Raises UsageError."""
    if argument:
        await session.choose("model", argument)
    return f"The model is {session.agent.model}."


async def send_prompt(prompt: McpPrompt, session: "EditorSession", argument: str) -> Sequence[Message]:
    """Return the messages of a prompt. Raises UsageError, ToolError."""
    assert session.parts.servers is not None
    return await session.parts.servers.get_prompt(
        prompt.server, prompt.name, prompt.parse_arguments(argument)
    )


COMMANDS = {
    "context": Command("Show how much of the context window is used, and by what", show_context),
    "tools": Command("List the tools as the model sees them", show_tools),
    "model": Command("Show the model, or switch to another", switch_model, "PROVIDER:MODEL"),
}


def find_prompts(session: "EditorSession") -> dict[str, McpPrompt]:
    """Return MCP servers' prompts by command name."""
    servers = session.parts.servers
    return {prompt.command: prompt for prompt in servers.prompts} if servers is not None else {}


def list_commands(session: "EditorSession") -> list[AvailableCommand]:
    """Return all commands of a session for the editor, including MCP servers' prompts."""
    commands = [_make_command(name, command.description, command.hint) for name, command in COMMANDS.items()]
    for name, prompt in find_prompts(session).items():
        hint = " ".join(argument.name for argument in prompt.arguments)
        commands.append(_make_command(name, prompt.description or prompt.title or name, hint))
    return commands


def _make_command(name: str, description: str, hint: str) -> AvailableCommand:
    root = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=description, input=root)


def find_command(session: "EditorSession", text: str) -> tuple[Handler, str] | None:
    """Return the command in a prompt and its argument; None if it is not a command."""
    word, _, argument = text.strip().partition(" ")
    if not word.startswith("/"):
        return None
    if (prompt := find_prompts(session).get(word[1:])) is not None:
        return partial(send_prompt, prompt), argument.strip()
    command = COMMANDS.get(word[1:])
    return (command.handler, argument.strip()) if command is not None else None
