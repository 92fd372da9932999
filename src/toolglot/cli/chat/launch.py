"""Start a chat: create its screen, input reader and agent, and connect them."""

import asyncio
import os
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.chat.keyboard import open_keyboard
from toolglot.cli.generation import GENERATION
from toolglot.cli.options import AGENT
from toolglot.cli.printer import print_note, write_text
from toolglot.cli.startup import CliSetup, Flags, prepare
from toolglot.cli.styled import PlainConsole
from toolglot.common.textutil import pluralize
from toolglot.common.user_dirs import ensure_private_directory, state_directory
from toolglot.config.settings import PolicySettings
from toolglot.errors import MalformedData, UsageError
from toolglot.values.approvals import ApprovalRequest, Decision
from toolglot.values.messages import load as load_messages

if TYPE_CHECKING:
    from toolglot.builtin.tools import Builtins
    from toolglot.cli.chat.app import Chat
    from toolglot.cli.chat.screen import Screen
    from toolglot.loop.agent.agent import Agent

_LINE_TERMINALS = ("dumb", "unknown")


@click.command()
@click.argument("prompt", required=False)
@AGENT
@GENERATION
@click.option("--load", type=click.Path(path_type=Path), help="Resume a conversation saved with /save.")
def chat(prompt: str | None, load: Path | None, **flags: Any) -> int:
    """Chat with a model that can call tools.

    PROMPT, if given, is sent first. The simulator answers if neither a model nor a key is configured. A
    loaded conversation continues with its own model, unless -m names another one.
    """
    from toolglot.cli.chat.app import Chat
    from toolglot.cli.chat.input import PipeReader, TerminalReader
    from toolglot.cli.chat.screen import Screen

    saved, saved_model = read_saved(load) if load is not None else (None, "")
    has_user = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    link = _ChatLink()
    preparation = prepare(
        Flags(**flags),
        confirm=_confirm if has_user else None,
        ask_user=link.answer_questions,
        use_demo_tools=True,
        saved_model=saved_model,
        use_servers="start",  # while the user types the first prompt
    )
    with preparation as cli_setup:
        cli_setup.print_notices()
        agent = cli_setup.create_agent(approve=link.approve)
        screen = Screen(create_console(), cli_setup.setup.settings.chat)
        with open_keyboard() as keyboard:
            keyboard.has_line_editor = has_user
            if has_user:
                reader = TerminalReader(
                    keyboard, _history_file(), status=link.status, completions=link.completions
                )
            else:
                reader = PipeReader(keyboard, lambda text: write_text(screen.console.file, text))
            session = Chat(
                cli_setup.setup,
                agent,
                screen,
                reader,
                keyboard,
                instructions=cli_setup.instructions,
                builtins=cli_setup.builtins,
                servers=cli_setup.servers,
            )
            link.chat = session
            _print_greeting(screen, cli_setup, agent)
            try:
                if saved is not None:
                    session.restore(saved)
            except MalformedData as e:
                raise UsageError(f"cannot load the conversation: {e}") from None
            return asyncio.run(_run_chat(session, prompt))


class _ChatLink:
    """What tools, the agent and the line editor call of the chat, which is made after them and set here."""

    chat: "Chat"

    async def answer_questions(self, questions: list[UserQuestion]) -> list[UserAnswer]:
        return await self.chat.answer_questions(questions)

    async def approve(self, approval: ApprovalRequest) -> Decision:
        return await self.chat.approve(approval)

    def status(self) -> str:
        return self.chat.status()

    def completions(self, text: str) -> Iterable[str]:
        return self.chat.completions(text)


async def _run_chat(chat: "Chat", prompt: str | None) -> int:
    try:
        return await chat.run(prompt)
    finally:
        await chat.agent.aclose()


def create_console() -> Any:
    """Create a rich console, or a plain one for a pipe and for a terminal that only prints lines."""
    out = cast(Any, sys.stdout)
    if isinstance(sys.stdout, TextIOWrapper):
        out.reconfigure(errors="replace")  # a character that the terminal cannot encode must not end the chat
    if not out.isatty() or os.environ.get("TERM", "").lower() in _LINE_TERMINALS:
        return PlainConsole(out)
    from rich.console import Console

    class ChatConsole(Console):
        def on_broken_pipe(self) -> None:
            raise

    return ChatConsole(file=out, highlight=False, soft_wrap=False)


def _print_greeting(screen: "Screen", cli_setup: CliSetup, agent: "Agent") -> None:
    reason = cli_setup.model_reason
    if not screen.console.is_terminal:
        if reason:
            print_note(reason)
        return
    tools = pluralize(len(agent.tools), "tool")
    if cli_setup.servers is not None:  # they may still be starting
        tools += " so far"
    language = agent.view().model_view.code_language
    if language is not None:
        tools += f", called from {language}"
    screen.note(f"toolglot · {agent.model} · {tools} · /help", "bold")
    if cli_setup.builtins is not None:
        _describe_builtins(screen, cli_setup.builtins, cli_setup.configuration.settings.policy)
    sources = [str(path) for path in cli_setup.instructions.files]
    skills = [skill for skill in cli_setup.instructions.skills if skill.is_listed]
    if skills:
        sources.append(pluralize(len(skills), "skill"))
    if sources:
        screen.note(f"using {', '.join(sources)}", "dim")
    if cli_setup.servers is not None:
        count = pluralize(len(cli_setup.servers.status()), "MCP server")
        screen.note(f"{count} · /mcp shows the state", "dim")
    if reason:
        screen.note(reason, "yellow")
    if cli_setup.has_demo_tools:
        screen.note(
            'try: What is the weather in Paris?   or: call add_reminder {"text": "tea", "date": '
            '"2026-12-24"}',
            "dim",
        )


def _describe_builtins(screen: "Screen", builtins: "Builtins", policy: PolicySettings) -> None:
    note = f"built-in tools work in {builtins.state.workspace.root}"
    if policy.mode == "sandboxed":
        note += "; they ask before using the network or leaving the sandbox"
    elif policy.ask is None:
        note += "; they ask before changing, running or sending anything"
    screen.note(note, "dim")
    if builtins.unusable:
        screen.note(f"{', '.join(builtins.unusable)} not offered: run toolglot doctor to see why", "dim")


def _history_file() -> Path | None:
    """Return the file for earlier prompts, or None if it cannot be written."""
    try:
        file = ensure_private_directory(state_directory()) / "history"
        file.touch(mode=0o600)
    except (OSError, UsageError):
        return None
    return file


def _confirm(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:
        return False


def read_saved(path: Path) -> tuple[bytes, str]:
    """Read a saved conversation; return it and its model (empty if unknown). Raises UsageError."""
    try:
        saved = Path(os.path.expanduser(path)).read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the conversation {str(path)!r}: {getattr(e, 'strerror', e)}") from None
    try:
        model = load_messages(saved)[1].get("model")
    except MalformedData:  # whoever restores it reports that
        model = None
    return saved, model if isinstance(model, str) else ""
