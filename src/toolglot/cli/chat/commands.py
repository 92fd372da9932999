"""DATA and deeds: what may follow a slash in a chat."""

import difflib
import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.cells import chop_cells
from rich.table import Table
from rich.text import Text as Line

from toolglot.cli.attachments import load_attachment
from toolglot.cli.chat.launch import read_saved
from toolglot.cli.sanitize import escape_controls, shorten
from toolglot.cli.startup import require_key
from toolglot.config.paths import data_directory, write_private
from toolglot.errors import MalformedData, UnknownName, UsageError
from toolglot.loop.orchestrator import Orchestrator
from toolglot.losses import Loss
from toolglot.messages import Message
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.request import ToolDefinition
from toolglot.tools.tool import Tool

if TYPE_CHECKING:
    from toolglot.cli.chat.app import Chat

__all__ = ["COMMANDS", "Command", "find_command"]


class Command(msgspec.Struct, frozen=True):
    """One command: what follows it, what it is for, what it does."""

    usage: str
    description: str
    handler: Callable[["Chat", str], Awaitable[None]]
    completions: Callable[["Chat"], Iterable[str]] | None = None


def find_command(text: str) -> tuple[Command, str] | None:
    """The command that a line is, and what follows; None for a prompt. Raises UnknownName."""
    if not text.startswith("/") or text.startswith("//"):
        return None
    word, _, argument = text[1:].partition(" ")
    if not word:
        raise UnknownName("command", "/", [f"/{name}" for name in COMMANDS])
    if word in COMMANDS:
        return COMMANDS[word], argument.strip()
    if "/" in word or "\n" in word or os.path.exists(f"/{word}"):  # a path, not a command
        return None
    if len(found := [name for name in COMMANDS if word and name.startswith(word)]) == 1:
        return COMMANDS[found[0]], argument.strip()
    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    raise UnknownName("command", f"/{word}", [f"/{name}" for name in (near or COMMANDS)])


# ---- deeds


async def _show_help(chat: "Chat", argument: str) -> None:
    table = Table.grid(padding=(0, 2))
    for name, command in COMMANDS.items():
        table.add_row(Line(f"/{name} {command.usage}".rstrip(), style="bold"), command.description)
    chat.screen.console.print(table)
    keys = (
        "Enter sends · Alt-Enter or \\ Enter begins a new line · Up brings earlier prompts · Tab completes",
        "@path attaches a file · Ctrl-C stops the turn, twice leaves · Ctrl-D leaves · //text is a prompt with one slash",
    )
    for line in keys:
        chat.screen.note(line, "dim")


async def _switch_model(chat: "Chat", name: str) -> None:
    agent, screen = chat.agent, chat.screen
    if not name:
        screen.note(f"{agent.model} ({agent.engine.profile.wire})")
        for alias, model in chat.setup.settings.aliases.items():
            screen.note(f"  {alias}: {model}", "dim")
        screen.note("/model PROVIDER:MODEL goes on with another one", "dim")
        return
    before = agent.engine
    engine = chat.setup.engine(chat.setup.resolve_model(name))
    require_key(engine)
    here, there = await agent.preview_request(), await agent.preview_request(engine)
    agent.switch(engine)
    screen.mark_losses_shown(there.losses)
    await chat.update_context_usage()
    screen.note(f"now {agent.model} ({engine.profile.wire}); before {before.name} ({before.profile.wire})", "green")
    old, new = before.profile.features, engine.profile.features
    for field in old.__struct_fields__:
        if (was := getattr(old, field)) != (now := getattr(new, field)):
            screen.note(f"  {field.replace('_', ' ')}: {_format_feature(was)} → {_format_feature(now)}", "dim")
    _show_losses(chat, [loss for loss in there.losses if loss not in here.losses])
    repairs = [repair for repair in there.repairs if repair.where.startswith("messages")]
    for repair in repairs[:3]:
        screen.note(f"  mended: {repair}", "dim")
    if (more := len(repairs) - 3) > 0:
        screen.note(f"  … and {more} more", "dim")


def _show_losses(chat: "Chat", losses: list[Loss]) -> None:
    if not losses:
        chat.screen.note("  nothing of the conversation is lost", "dim")
    grouped: dict[str, list[Loss]] = {}
    for loss in losses:
        grouped.setdefault(f"{loss.subject}: {loss.reason}", []).append(loss)
    for text, found in grouped.items():
        chat.screen.note(f"  lost {len(found)} times {text}" if len(found) > 1 else f"  lost {text}", "yellow")


def _format_feature(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value))) or "none"  # pyright: ignore[reportUnknownArgumentType]
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


async def _show_tools(chat: "Chat", name: str) -> None:
    from toolglot.jsontext import dumps

    agent, screen = chat.agent, chat.screen
    if name:
        for one in _find_definitions(agent, name):
            screen.console.print(Line(escape_controls(msgspec.json.format(dumps(one), indent=2).decode())), soft_wrap=True)
        return
    if not len(agent.registry):
        screen.note("no tools; --tools module:object gives some", "dim")
    for tool in agent.registry:
        names, state = _tool_visibility(agent, tool)
        line = Line(tool.name, style="bold" if names else "dim strike")
        if names and names != (tool.name,):
            line.append(f" → {', '.join(names)}")
        room = max(20, screen.console.width - len(line) - len(state) - 2)
        line.append(f"  {next(iter(chop_cells(shorten(tool.description, 500), room)), '')}", style="dim")
        line.append(state, style="yellow")
        screen.console.print(line)


def _tool_visibility(agent: Orchestrator, tool: Tool) -> tuple[tuple[str, ...], str]:
    """The names that the model sees of a tool, and what else is to be said of it."""
    allowed, face = agent.config.allowed_tools, agent.bound_facade()
    if not agent.config.enabled or (allowed is not None and tool.name not in allowed):
        return (), " not allowed"
    names = (tool.name,)
    if face is not None and tool.name in face.base_tools and not face.shows_base_tool(tool.name):
        names = tuple(view.qualified_name for view in face.views if tool.name in view.base_tools)
    return names, (" asks first" if agent.needs_approval(tool) else "") if names else " not shown to this model"


def _find_definitions(agent: Orchestrator, name: str) -> list[ToolDefinition]:
    """A tool as it is offered, by the name that a model has for it or by ours. Raises UnknownName."""
    offered = {_full_name(one): one for one in agent.tool_definitions(agent.registry_with(None), None)}
    if name in offered:
        return [offered[name]]
    tool = agent.registry.get(name)
    return [offered[one] for one in _tool_visibility(agent, tool)[0] if one in offered] or [tool.definition]


def _full_name(definition: ToolDefinition) -> str:
    return f"{definition.namespace}.{definition.name}" if definition.namespace else definition.name


async def _show_context(chat: "Chat", argument: str) -> None:
    agent, screen = chat.agent, chat.screen
    measured = await agent.context_usage()
    total, budget = measured.total, measured.budget
    of = f" of {budget:,} ({total / budget:.0%})" if budget else ""
    screen.note(f"about {total:,} tokens{of} in the next request; {agent.model}", "bold")
    width = max(5, min(40, screen.console.width - 40))
    for part, tokens in sorted(measured.parts.items(), key=lambda pair: -pair[1]):
        share = tokens / total if total else 0
        screen.note(f"  {'█' * round(share * width):{width}} {tokens:>9,}  {part}", "dim")
    if measured.omitted_messages:
        screen.note(f"  {measured.omitted_messages} older messages are not shown to the model any more", "yellow")
    if measured.window:
        screen.note(f"  the model takes {measured.window:,} tokens; when they are used up: {agent.context.when_full}", "dim")
    else:
        screen.note("  how much the model takes is not known; context.budget in the configuration sets a limit", "dim")


async def _save_conversation(chat: "Chat", name: str) -> None:
    path = Path(os.path.expanduser(name)) if name else _default_save_path()
    try:
        write_private(Path(os.path.realpath(path)), chat.agent.save())
    except (UsageError, ValueError) as e:
        raise UsageError(f"cannot save to {str(path)!r}: {e}") from None
    chat.screen.note(f"saved {len(chat.agent.conversation)} messages to {path}", "green")


def _default_save_path() -> Path:
    return data_directory() / "chats" / f"{datetime.now():%Y-%m-%d-%H%M%S}.jsonl"


async def _load_conversation(chat: "Chat", name: str) -> None:
    if not name:
        raise UsageError("say which file: /load FILE")
    saved = read_saved(Path(name))
    try:
        chat.restore(saved)
    except MalformedData as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    await chat.update_context_usage()
    await chat.resume_pending()


async def _undo_turn(chat: "Chat", argument: str) -> None:
    taken = chat.agent.undo()
    if not taken:
        chat.screen.note("there is nothing to take back", "dim")
        return
    await chat.update_context_usage()
    chat.screen.note(f"taken back: {shorten(taken[0].text, 60)!r} and {_describe_removed(taken)}", "green")
    if any(one.calls for one in taken):
        chat.screen.note("what its tools did stays done", "yellow")


def _describe_removed(removed: tuple[Message, ...]) -> str:
    return f"{len(removed) - 1} message{'s' if len(removed) > 2 else ''} after it" if len(removed) > 1 else "nothing else"


async def _start_new(chat: "Chat", argument: str) -> None:
    from toolglot.messages import save

    chat.agent.restore(save([]))
    await chat.update_context_usage()
    chat.screen.note("a new conversation", "green")


async def _attach_file(chat: "Chat", name: str) -> None:
    if not name:
        raise UsageError("say which file: /attach PATH")
    chat.attachments.append(load_attachment(Path(os.path.expanduser(name.strip("'\"")))))
    chat.screen.note(f"{name} goes with the next prompt", "green")


async def _show_folded(chat: "Chat", number: str) -> None:
    folded = chat.screen.folded_texts
    if not folded:
        raise UsageError("nothing is folded")
    if number and not (number.isdecimal() and number.isascii()):
        raise UsageError(f"{number!r} is no number: 1 to {len(folded)} are folded")
    place = int(number) if number else len(folded)
    if not 1 <= place <= len(folded):
        raise UsageError(f"there is no {place}: 1 to {len(folded)} are folded")
    found = folded[place - 1]
    chat.screen.note(found.title, "bold")
    chat.screen.console.print(Line(escape_controls(found.text)), soft_wrap=True)


async def _leave(chat: "Chat", argument: str) -> None:
    chat.is_leaving = True


def _complete_tools(chat: "Chat") -> Iterable[str]:
    tools = list(chat.agent.registry)
    seen = (name for one in tools for name in _tool_visibility(chat.agent, one)[0])
    return dict.fromkeys((*seen, *(one.name for one in tools)))


def _complete_models(chat: "Chat") -> Iterable[str]:
    providers = (*PROFILES, *SURFACES, *ALIASES)
    return [*chat.setup.settings.aliases, *(f"{one}:" for one in providers), *(f"simulator:{one}" for one in PROFILES)]


COMMANDS: dict[str, Command] = {
    "help": Command("", "what can be said here", _show_help),
    "model": Command("[NAME]", "go on with another model, and see what changes", _switch_model, _complete_models),
    "tools": Command("[NAME]", "the tools, or one as it is offered", _show_tools, _complete_tools),
    "context": Command("", "how full the model's memory is, and of what", _show_context),
    "attach": Command("PATH", "a file for the next prompt", _attach_file),
    "show": Command("[NUMBER]", "something folded, whole: thinking, a long result", _show_folded),
    "save": Command("[FILE]", "write the conversation down", _save_conversation),
    "load": Command("FILE", "go on with a saved conversation", _load_conversation),
    "undo": Command("", "take back the last prompt and its answer", _undo_turn),
    "new": Command("", "begin a new conversation", _start_new),
    "quit": Command("", "leave", _leave),
}
