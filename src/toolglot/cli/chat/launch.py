"""From flags to a chat: a screen, a reader and an agent that know each other."""

import asyncio
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from toolglot.builtin.toolbox import Answer, Question
from toolglot.cli.chat.keyboard import Keyboard, taken
from toolglot.cli.start import Flags, Started, is_terminal, require_key, start
from toolglot.errors import MalformedData, UsageError
from toolglot.tools.executor import Approval, ApprovalAnswer

if TYPE_CHECKING:
    from toolglot.cli.chat.app import Chat

__all__ = ["launch", "read_saved"]


def launch(flags: Flags, prompt: str | None, load: Path | None) -> int:
    """Chats until the user leaves; the exit code."""
    chats: list[Chat] = []

    async def answer(questions: list[Question]) -> list[Answer]:
        return await chats[0].answer(questions)

    with start(flags, ask=_asked if is_terminal() else None, questions=answer, samples=True) as started:
        return _launch(started, flags, prompt, load, chats)


def _launch(started: Started, flags: Flags, prompt: str | None, load: Path | None, chats: "list[Chat]") -> int:
    saved = read_saved(load) if load is not None else None
    edits = is_terminal()
    try:
        with taken() as keyboard:
            keyboard.edits = edits
            return asyncio.run(_chat(started, flags, prompt, saved, keyboard, chats))
    except KeyboardInterrupt:  # before the first prompt, or after the last
        return 130


async def _chat(
    started: Started, flags: Flags, prompt: str | None, saved: bytes | None, keyboard: Keyboard, chats: "list[Chat]"
) -> int:
    from toolglot.cli.chat.app import Chat
    from toolglot.cli.chat.reading import PipeReader, Reader, TerminalReader
    from toolglot.cli.chat.screen import Screen

    setup = started.setup
    given: dict[str, Any] = {"base_url": flags.base_url} if flags.base_url else {}

    async def approve(approval: Approval) -> ApprovalAnswer:
        return await chat.approve(approval)

    agent = setup.agent(started.model, tools=started.tools, approve=approve, **given)
    require_key(agent.engine)
    screen = Screen(_console(), setup.settings.chat)
    reader: Reader
    if keyboard.edits:
        reader = TerminalReader(keyboard, _history(), status=lambda: chat.status(), words=lambda text: chat.completions(text))
    else:
        reader = PipeReader(keyboard, _writer(screen.console.file))
    chat = Chat(setup, agent, screen, reader, keyboard)
    chats.append(chat)
    _greet(screen, started, agent.model, len(agent.registry))
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


def _writer(out: IO[str]) -> Callable[[str], None]:
    """Writes without ending the line."""

    def say(text: str) -> None:
        out.write(text)
        out.flush()

    return say


def _console() -> Any:
    from rich.console import Console

    out: Any = sys.stdout
    if isinstance(out, TextIOWrapper):
        cast(Any, out).reconfigure(errors="replace")  # what the terminal cannot write is a question mark, not an end
    return Console(file=cast(Any, out), highlight=False, soft_wrap=False)


def _greet(screen: Any, started: Started, model: str, tools: int) -> None:
    if not screen.console.is_terminal:
        if started.why:
            print(f"toolglot: {started.why}", file=sys.stderr)
        return
    screen.note(f"toolglot · {model} · {tools} tools · /help", "bold")
    if started.builtins is not None:
        asks = started.configuration.settings.policy.ask is None
        when = "; you are asked before anything is changed, run or sent" if asks else ""
        screen.note(f"built-in tools work in {started.builtins.box.workspace.root}{when}", "dim")
    if started.why:
        screen.note(started.why, "yellow")
    if started.samples:
        screen.note('try: What is the weather in Paris?   or: call add_reminder {"text": "tea", "date": "2026-12-24"}', "dim")


def _history() -> Path | None:
    """Where prompts are kept; nowhere if that cannot be written."""
    from toolglot.config.places import private_folder, state_folder

    try:
        file = private_folder(state_folder()) / "history"
        file.touch(mode=0o600)
    except (OSError, UsageError):
        return None
    return file


def _asked(question: str) -> bool:
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
