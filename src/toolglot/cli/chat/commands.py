"""The slash commands of a chat: what they do, and the table of all of them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolglot.cli.attachments import complete_path
from toolglot.cli.chat.launch import read_saved
from toolglot.cli.models import complete_models, find_profile
from toolglot.cli.printer import format_json
from toolglot.cli.startup import require_key
from toolglot.cli.styled import Line, cell_width
from toolglot.common.sanitize import escape_controls, shorten
from toolglot.common.skills import read_skill_text
from toolglot.common.textutil import pluralize
from toolglot.common.user_dirs import data_directory, write_private
from toolglot.engine.auth import describe_key_origin
from toolglot.errors import MalformedData, UnknownName, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.attachments import load_attachment
from toolglot.loop.format_call import describe_losses
from toolglot.providers.catalog import DEFAULT_MODELS
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalMode
from toolglot.values.messages import Text, save
from toolglot.values.request import ToolDefinition

if TYPE_CHECKING:
    from toolglot.cli.chat.app import Chat

__all__ = ["COMMANDS", "MODES", "Command", "find_command"]

_KEYS = (
    "Enter sends · Alt-Enter or \\ Enter inserts a new line · Up recalls earlier prompts · Tab completes",
    "Esc or Ctrl-C stops the turn · Ctrl-D, exit, or Ctrl-C twice leaves",
    "@path attaches a file · //text sends text with one leading slash",
)
_MAX_NAME_COLUMN = 40


Handler = Callable[["Chat", str], Awaitable[None]]
Completions = Callable[["Chat", str], Iterable[str]]
"""Returns what can complete the argument that was typed so far."""


class Command(msgspec.Struct, frozen=True):
    """A slash command: its arguments, its description, and the function that runs it."""

    usage: str
    description: str
    handler: Handler
    completions: Completions | None = None


COMMANDS: dict[str, Command] = {}
MODES: dict[ApprovalMode, str] = {
    "ask": "everything but reading asks first",
    "sandboxed": "edits of the workspace, and commands in the sandbox without network, run without asking",
}


def command(
    usage: str, description: str, completions: Completions | None = None
) -> Callable[[Handler], Handler]:
    """Register a function as a slash command; `usage` is its name and its arguments."""

    def register(handler: Handler) -> Handler:
        name, _, arguments = usage.partition(" ")
        COMMANDS[name] = Command(arguments, description, handler, completions)
        return handler

    return register


def find_command(text: str) -> tuple[Command, str] | None:
    """Return the command on a line and its argument; None if the line is a prompt. Raises UnknownName."""
    if text.strip() in ("exit", "quit"):
        return COMMANDS["quit"], ""
    if not text.startswith("/") or text.startswith("//"):
        return None
    word, _, argument = text[1:].partition(" ")
    word = {"exit": "quit"}.get(word, word)  # as in other chats
    if word in COMMANDS:
        return COMMANDS[word], argument.strip()
    if _is_path(word):
        return None
    matches = [name for name in COMMANDS if word and name.startswith(word)]
    if len(matches) == 1:
        return COMMANDS[matches[0]], argument.strip()
    raise UnknownName("command", f"/{word}", [f"/{name}" for name in COMMANDS])


def _is_path(word: str) -> bool:
    """Whether what follows a slash is a path, and not a command."""
    if "/" in word or "\n" in word:
        return True
    return word != "" and os.path.exists(f"/{word}")


def complete_file(chat: "Chat", typed: str) -> Iterable[str]:
    return complete_path(typed)


def complete_model_name(chat: "Chat", typed: str) -> Iterable[str]:
    """Return the models that can be used now, or if something was typed, all that it may begin."""
    if typed:
        return complete_models(chat.setup.settings.aliases)
    return [*chat.setup.settings.aliases, *_list_usable_models()]


def _list_usable_models(*, keyring: bool = False) -> list[str]:
    """Return the default models of the providers for which there is a key.

    Looking into the system keyring is slow.
    """
    names = (f"{provider}:{model}" for provider, model in DEFAULT_MODELS.items())
    usable = [name for name in names if describe_key_origin(find_profile(name), keyring=keyring)]
    return [*usable, "simulator"]


def complete_tools(chat: "Chat", typed: str) -> Iterable[str]:
    tools = list(chat.agent.tools)
    native_names = (name for tool in tools for name in _tool_visibility(chat.agent, tool)[0])
    sent = (definition.qualified_name for definition in chat.agent.view().visible_tools)
    return dict.fromkeys((*native_names, *sent, *(tool.name for tool in tools)))


@command("help", "show this help")
async def show_help(chat: "Chat", argument: str) -> None:
    rows = {f"/{name} {command.usage}".rstrip(): command.description for name, command in COMMANDS.items()}
    width = max(map(len, rows))
    console = chat.screen.console
    for usage, description in rows.items():
        row = Line(f"{usage:{width}}", "bold").append(f"  {description}")
        for part in row.wrap(console.width - 1, " " * (width + 2)) if console.is_terminal else [row]:
            console.print(part, soft_wrap=True)
    for line in _KEYS:
        chat.screen.note(line, "dim")


@command(
    "model [NAME]",
    "switch to another model and show what is lost, or list those with keys",
    complete_model_name,
)
async def switch_model(chat: "Chat", name: str) -> None:
    agent, screen = chat.agent, chat.screen
    if not name:
        screen.note(f"{agent.model} ({agent.view().profile.wire})")
        for alias, model in chat.setup.settings.aliases.items():
            screen.note(f"  {alias}: {model}", "dim")
        usable = await asyncio.to_thread(_list_usable_models, keyring=True)
        screen.note(f"models with keys: {', '.join(usable)}", "dim")
        screen.note("use /model PROVIDER:MODEL to switch models; toolglot models lists all providers", "dim")
        return
    previous = agent.view().engine
    engine = chat.setup.engine(chat.setup.resolve_model(name))
    require_key(engine)
    before, after = await agent.preview_request(), await agent.preview_request(engine)
    agent.switch(engine)
    screen.mark_losses_shown(after.losses)
    await chat.update_context_usage()
    screen.note(
        f"switched to {agent.model} ({engine.profile.wire}) from {previous.name} ({previous.profile.wire})",
        "green",
    )
    losses = [loss for loss in after.losses if loss not in before.losses]
    lines = describe_losses(losses, own_tools=agent.view().own_tools)
    if not lines:
        screen.note("  nothing in the conversation is lost", "dim")
    for line in lines:
        screen.note(f"  {line}", "yellow")


@command("mode [NAME]", "show the approval mode, or switch to ask or sandboxed", lambda chat, typed: MODES)
async def switch_mode(chat: "Chat", name: str) -> None:
    if not name:
        current = chat.agent.config.mode
        for mode, description in MODES.items():
            chat.screen.note(f"{'*' if mode == current else ' '} {mode}: {description}")
        return
    if name not in MODES:
        raise UnknownName("approval mode", name, MODES)
    chat.set_mode(name)
    chat.screen.note(f"{name}: {MODES[name]}", "green")


@command("tools [NAME]", "list the tools (crm_*: matching ones), or show one as it is sent", complete_tools)
async def show_tools(chat: "Chat", name: str) -> None:
    agent, screen = chat.agent, chat.screen
    if name and "*" not in name:
        for definition in _find_definitions(agent, name):
            screen.console.print(Line(escape_controls(format_json(definition))), soft_wrap=True)
        return
    rows = _list_tools(agent)
    if not rows:
        screen.note("no tools: load some with --tools module:object", "dim")
        return
    if name:
        rows = [
            row for row in rows if any(fnmatchcase(each, name) for each in (row.name, *row.visible_names))
        ]
    heads = [row.format_head() for row in rows]
    column = min(_MAX_NAME_COLUMN, max((cell_width(str(head)) for head in heads), default=0))
    for row, line in zip(rows, heads, strict=True):
        line.append(" " * (column - cell_width(str(line))))
        available = max(20, screen.console.width - cell_width(str(line)) - len(row.remark) - 2)
        line.append(f"  {Line(shorten(row.description, 500)).truncate(available)}", "dim").append(
            row.remark, "yellow"
        )
        screen.console.print(line)
    counts = [pluralize(len(rows), "tool")]
    for word in ("deferred", "loaded"):
        count = sum(word in row.remark for row in rows)
        if count:
            counts.append(f"{count} {word}")
    language = agent.view().model_view.code_language
    if language is not None:
        counts.append(f"the model calls tools marked 'in code' from {language}")
    screen.note(" · ".join(counts), "dim")


class _ToolRow(msgspec.Struct, frozen=True):
    """A tool as `/tools` lists it."""

    name: str
    visible_names: tuple[str, ...]
    """What the model calls it."""
    remark: str
    description: str

    def format_head(self) -> Line:
        if not self.visible_names:
            return Line(self.name, "dim strike")
        head = Line(self.name, "bold")
        if self.visible_names != (self.name,):
            head.append(f" → {', '.join(self.visible_names)}")
        return head


def _list_tools(agent: Agent) -> list[_ToolRow]:
    """Return the agent's tools, then those of the loop and of the provider."""
    rows = [_ToolRow(tool.name, *_tool_visibility(agent, tool), tool.description) for tool in agent.tools]
    known = {name for row in rows for name in row.visible_names}
    for definition in agent.view().visible_tools:
        name = definition.qualified_name
        if known.isdisjoint((definition.name, name)):
            rows.append(_ToolRow(name, (name,), "", definition.description))
    return rows


def _tool_visibility(agent: Agent, tool: Tool) -> tuple[tuple[str, ...], str]:
    """Return the names under which the model sees a tool, and a remark."""
    view = agent.view()
    model_view = view.model_view
    names = model_view.names_for(tool)
    if not names:
        return (), " hidden from this model" if model_view.is_allowed(tool.name) else " not allowed"
    remarks: list[str] = []
    deferral = view.deferral
    if deferral is not None and tool.definition.qualified_name in deferral.names:
        loaded = {own_name for name in view.loaded_tools for own_name in model_view.translate_name(name)}
        is_loaded = not loaded.isdisjoint((tool.definition.qualified_name, *names))
        remarks.append("loaded" if is_loaded else "deferred")
    if model_view.code_language is not None:
        is_sent = not _list_names(view.visible_tools).isdisjoint(names)
        is_inner = not _list_names(model_view.inner_tools).isdisjoint(names)
        if is_inner and not is_sent:
            remarks.append("in code")
    if view.needs_approval(tool):
        remarks.append("asks first")
    return names, "".join(f" {remark}" for remark in remarks)


def _list_names(definitions: Iterable[ToolDefinition]) -> set[str]:
    """Return the names of definitions, with and without their namespaces."""
    return {name for definition in definitions for name in (definition.name, definition.qualified_name)}


def _find_definitions(agent: Agent, name: str) -> list[ToolDefinition]:
    """Find definitions as they are sent, by the model's name for a tool or by its own. Raises UnknownName."""
    view = agent.view()
    shown = (*view.visible_tools, *view.model_view.tools(), *view.model_view.inner_tools)
    definitions = {tool.qualified_name: tool for tool in shown}
    if name in definitions:
        return [definitions[name]]
    tool = agent.tools.get(name)
    native_names, _ = _tool_visibility(agent, tool)
    return [definitions[native] for native in native_names if native in definitions] or [tool.definition]


@command("context", "show how much of the context window is used, and by what")
async def show_context(chat: "Chat", argument: str) -> None:
    agent, screen = chat.agent, chat.screen
    usage = await agent.context_usage()
    total = usage.total
    share = f" of {usage.budget:,} ({total / usage.budget:.0%})" if usage.budget else ""
    screen.note(f"about {total:,} tokens{share} in the next request to {agent.model}", "bold")
    width = max(5, min(40, screen.console.width - 40))
    for part, tokens in sorted(usage.parts.items(), key=lambda pair: -pair[1]):
        share_of_total = tokens / total if total else 0
        bar = "█" * round(share_of_total * width)
        screen.note(f"  {bar:{width}} {tokens:>9,}  {part}", "dim")
    for source, tokens in chat.instructions.estimate_tokens(agent.view().scale_tokens).items():
        screen.note(f"  instructions: {tokens:,} tokens from {source}", "dim")
    if (deferral := agent.view().deferral) is not None:
        loaded = (
            f"; {pluralize(len(agent.view().loaded_tools), 'tool')} loaded"
            if agent.view().loaded_tools
            else ""
        )
        screen.note(f"  {deferral.scale(agent.view().calibration).message}{loaded}", "dim")
    for line in chat.mcp.describe_tokens():
        screen.note(f"  {line}", "dim")
    if usage.omitted_messages:
        screen.note(f"  {usage.omitted_messages} older messages are no longer sent", "yellow")
    if usage.window:
        room = f", {usage.budget:,} available for a request" if usage.budget else ""
        screen.note(
            f"  context window: {usage.window:,} tokens{room}; when it is full: {agent.view().when_full}",
            "dim",
        )
    else:
        screen.note("  the context window is unknown; set a limit with context.budget", "dim")


@command("compact", "let the model summarize all but the last turn now")
async def compact(chat: "Chat", argument: str) -> None:
    if (event := await chat.compact()) is None:
        chat.screen.note("there is nothing to summarize before the last turn", "dim")
        return
    chat.spending.see(event, chat.agent.model, chat.agent.view().profile.price)
    chat.screen.show_event(event)
    await chat.update_context_usage()


@command("cost", "show what the chat has used so far: requests, tokens and US dollars")
async def show_cost(chat: "Chat", argument: str) -> None:
    lines = list(chat.spending.describe())
    for line in lines or ["nothing has been sent yet"]:
        chat.screen.note(line)


@command(
    *("skills [NAME]", "list the skills, or send one with the next prompt"),
    lambda chat, typed: [skill.name for skill in chat.instructions.skills],
)
async def show_skills(chat: "Chat", name: str) -> None:
    skills, screen = {skill.name: skill for skill in chat.instructions.skills}, chat.screen
    if name:
        if name not in skills:
            raise UnknownName("skill", name, skills)
        chat.attachments.append(
            Text(f"[skill {name} in {skills[name].directory}]\n{read_skill_text(skills[name])}")
        )
        screen.note(f"the skill {name} will be sent with the next prompt", "green")
        return
    for skill in skills.values():
        line = Line(skill.name, "bold").append(f"  {escape_controls(skill.description)}", "dim")
        screen.console.print(line.append(f"  {skill.directory}", "dim"))
        for problem in skill.problems:
            screen.note(f"  {problem}", "yellow")
    for problem in chat.instructions.problems:
        screen.note(problem, "yellow")
    if not skills:
        screen.note(
            "no skills: add directories with a SKILL.md to .agents/skills in the project or your home "
            "directory",
            "dim",
        )
    elif not any(skill.is_listed for skill in skills.values()):
        screen.note(
            "models cannot see the skills without the built-in tool load_skill (try --builtin)", "yellow"
        )


@command(
    "mcp [NAME]",
    "show the MCP servers, or what one offers; /mcp restart NAME reconnects",
    lambda chat, typed: chat.mcp.list_names(),
)
async def show_servers(chat: "Chat", argument: str) -> None:
    await chat.mcp.show(argument)


@command("save [FILE]", "save the conversation", complete_file)
async def save_conversation(chat: "Chat", name: str) -> None:
    default = data_directory() / "chats" / f"{datetime.now():%Y-%m-%d-%H%M%S}.jsonl"
    path = Path(os.path.expanduser(name)) if name else default
    try:
        write_private(Path(os.path.realpath(path)), chat.agent.save())
    except (UsageError, ValueError) as e:
        raise UsageError(f"cannot save to {str(path)!r}: {e}") from None
    chat.screen.note(f"saved {len(chat.agent.conversation)} messages to {path}", "green")


@command("load FILE", "resume a saved conversation", complete_file)
async def load_conversation(chat: "Chat", name: str) -> None:
    if not name:
        raise UsageError("specify a file: /load FILE")
    saved, model = read_saved(Path(name))
    try:
        chat.restore(saved)
        await asyncio.to_thread(chat.begin_conversation)
    except MalformedData as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    if model not in ("", chat.agent.model):
        chat.screen.note(f"saved with {model}: use /model {model} to continue with it", "dim")
    await chat.update_context_usage()
    await chat.resume_pending()


@command("undo", "remove the last prompt and its answer")
async def undo_turn(chat: "Chat", argument: str) -> None:
    removed = chat.agent.undo()
    if not removed:
        chat.screen.note("there is nothing to undo", "dim")
        return
    await chat.update_context_usage()
    suffix = f" and {pluralize(len(removed) - 1, 'message')} after it" if removed[1:] else ""
    chat.screen.note(f"removed {shorten(removed[0].text, 60)!r}{suffix}", "green")
    if any(message.calls for message in removed):
        chat.screen.note("the effects of its tools are not undone", "yellow")


@command("new", "start a new conversation")
async def start_new(chat: "Chat", argument: str) -> None:
    chat.agent.restore(save([]))
    await asyncio.to_thread(chat.begin_conversation)
    await chat.update_context_usage()
    chat.screen.note("started a new conversation", "green")


@command("clear", "clear the screen and start a new conversation")
async def clear(chat: "Chat", argument: str) -> None:
    chat.screen.clear()
    await start_new(chat, argument)


@command("attach PATH", "attach a file to the next prompt", complete_file)
async def attach_file(chat: "Chat", name: str) -> None:
    if not name:
        raise UsageError("specify a file: /attach PATH")
    chat.attachments.append(load_attachment(Path(os.path.expanduser(name.strip("'\"")))))
    chat.screen.note(f"{name} will be sent with the next prompt", "green")


@command("show [NUMBER]", "show folded text in full: thinking or a long result")
async def show_folded(chat: "Chat", number: str) -> None:
    folded = chat.screen.folded_texts
    if not folded:
        raise UsageError("nothing has been folded yet")
    index = 0
    if not number:
        index = len(folded)
    elif number.isdecimal() and number.isascii():
        index = int(number)
    if not 1 <= index <= len(folded):
        raise UsageError(f"there is no folded text {number!r}: choose a number from 1 to {len(folded)}")
    chat.screen.note(folded[index - 1].title, "bold")
    chat.screen.console.print(Line(escape_controls(folded[index - 1].text)), soft_wrap=True)


@command("quit", "exit")
async def leave(chat: "Chat", argument: str) -> None:
    chat.is_leaving = True
