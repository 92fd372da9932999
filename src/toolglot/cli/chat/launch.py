"""From flags to a chat: a screen, a reader and an agent that know each other."""

import asyncio
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.chat.keyboard import Keyboard, open_keyboard
from toolglot.cli.startup import CliSetup, Flags, is_interactive, prepare, require_key
from toolglot.errors import MalformedData, UsageError
from toolglot.tools.executor import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from toolglot.cli.chat.app import Chat

__all__ = ["launch", "read_saved"]


def launch(flags: Flags, prompt: str | None, load: Path | None) -> int:
    """Chats until the user leaves; the exit code."""
    chats: list[Chat] = []

    async def answer(questions: list[UserQuestion]) -> list[UserAnswer]:
        return await chats[0].answer_questions(questions)

    with prepare(flags, confirm=_confirm if is_interactive() else None, ask_user=answer, use_demo_tools=True) as started:
        return _run_with_setup(started, flags, prompt, load, chats)


def _run_with_setup(cli_setup: CliSetup, flags: Flags, prompt: str | None, load: Path | None, chats: "list[Chat]") -> int:
    saved = read_saved(load) if load is not None else None
    edits = is_interactive()
    try:
        with open_keyboard() as keyboard:
            keyboard.has_line_editor = edits
            return asyncio.run(_run_chat(cli_setup, flags, prompt, saved, keyboard, chats))
    except KeyboardInterrupt:  # before the first prompt, or after the last
        return 130


async def _run_chat(
    cli_setup: CliSetup, flags: Flags, prompt: str | None, saved: bytes | None, keyboard: Keyboard, chats: "list[Chat]"
) -> int:
    from toolglot.cli.chat.app import Chat
    from toolglot.cli.chat.input import InputReader, PipeReader, TerminalReader
    from toolglot.cli.chat.screen import Screen

    setup = cli_setup.setup
    given: dict[str, Any] = {"base_url": flags.base_url} if flags.base_url else {}

    async def approve(approval: ApprovalRequest) -> ApprovalAnswer:
        return await chat.approve(approval)

    agent = setup.create_agent(cli_setup.model, tools=cli_setup.tools, approve=approve, **given)
    require_key(agent.engine)
    screen = Screen(_create_console(), setup.settings.chat)
    reader: InputReader
    if keyboard.has_line_editor:
        reader = TerminalReader(
            keyboard, _history_file(), status=lambda: chat.status(), completions=lambda text: chat.completions(text)
        )
    else:
        reader = PipeReader(keyboard, _create_writer(screen.console.file))
    chat = Chat(setup, agent, screen, reader, keyboard)
    chats.append(chat)
    _print_greeting(screen, cli_setup, agent.model, len(agent.registry))
    if saved is not None:
        try:
            chat.restore(saved)
        except MalformedData as e:
            raise UsageError(f"the conversation cannot be loaded: {e}") from None
    try:
        return await chat.run(prompt)
    finally:
        await setup.close()
        await agent.engine.close()


def _create_writer(out: IO[str]) -> Callable[[str], None]:
    """Writes without ending the line."""

    def say(text: str) -> None:
        out.write(text)
        out.flush()

    return say


def _create_console() -> Any:
    from rich.console import Console

    out: Any = sys.stdout
    if isinstance(out, TextIOWrapper):
        cast(Any, out).reconfigure(errors="replace")  # what the terminal cannot write is a question mark, not an end
    return Console(file=cast(Any, out), highlight=False, soft_wrap=False)


def _print_greeting(screen: Any, cli_setup: CliSetup, model: str, tool_count: int) -> None:
    if not screen.console.is_terminal:
        if cli_setup.model_reason:
            print(f"toolglot: {cli_setup.model_reason}", file=sys.stderr)
        return
    screen.note(f"toolglot · {model} · {tool_count} tools · /help", "bold")
    if cli_setup.builtins is not None:
        asks = cli_setup.configuration.settings.policy.ask is None
        when = "; you are asked before anything is changed, run or sent" if asks else ""
        screen.note(f"built-in tools work in {cli_setup.builtins.state.workspace.root}{when}", "dim")
    if cli_setup.model_reason:
        screen.note(cli_setup.model_reason, "yellow")
    if cli_setup.has_demo_tools:
        screen.note('try: What is the weather in Paris?   or: call add_reminder {"text": "tea", "date": "2026-12-24"}', "dim")


def _history_file() -> Path | None:
    """Where prompts are kept; nowhere if that cannot be written."""
    from toolglot.config.paths import ensure_private_directory, state_directory

    try:
        file = ensure_private_directory(state_directory()) / "history"
        file.touch(mode=0o600)
    except (OSError, UsageError):
        return None
    return file


def _confirm(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def read_saved(path: Path) -> bytes:
    """The bytes of a saved conversation. Raises UsageError."""
    try:
        return Path(os.path.expanduser(path)).read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the conversation {str(path)!r}: {getattr(e, 'strerror', e)}") from None
