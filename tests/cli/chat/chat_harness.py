"""A chat without a terminal: a reader that was told what to say, and a screen that is a text."""

import asyncio
import io
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from rich.console import Console

from toolglot.cli.chat.app import Chat
from toolglot.cli.chat.input import EndOfInput
from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.screen import Screen
from toolglot.cli.servers import CliServers
from toolglot.config.settings import ChatSettings, Settings
from toolglot.config.setup import Setup
from toolglot.tools.tool import tool
from toolglot.values.approvals import ApprovalRequest, Decision

__all__ = ["Said", "Talk", "a_screen", "add", "plain", "talk", "wipe"]

Line = str | BaseException | Callable[["Chat"], str]

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\")


def plain(text: str) -> str:
    """What was drawn, without the terminal's own commands."""
    return _ESCAPES.sub("", text).replace("\r", "")


def a_screen(
    width: int = 80, *, moves: bool = False, settings: ChatSettings | None = None
) -> tuple[Screen, io.StringIO]:
    """A screen and what is written to it."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=moves,
        width=width,
        height=24,
        highlight=False,
        no_color=True,
        legacy_windows=False,
        _environ={},
    )
    return Screen(console, settings), out


@tool(effects="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects="write", approval=True)
def wipe(path: str) -> str:
    """Delete a file."""
    return f"wiped {path}"


class Said:
    """A reader with its lines.

    A function is called with the chat; an exception is raised; the end is the end.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = list(lines)
        self.questions: list[str] = []
        self.defaults: list[str] = []
        self._asked = False
        self.inserted: list[str] = []
        self.chat: Chat | None = None

    def watch_turn(self, on_escape: Callable[[], None], deliver: Any = None) -> AbstractContextManager[None]:
        return nullcontext()

    def typed_ahead(self) -> list[str]:
        return []

    def drop_typeahead(self) -> bool:
        return False

    def print_above(self, show: Callable[[], None]) -> None:
        show()

    async def read(self) -> str:
        await asyncio.sleep(0)
        if not self.lines:
            raise EndOfInput
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, str):
            return line
        assert self.chat is not None
        return line(self.chat)

    async def read_answer(self, question: str, default: str = "") -> str:
        self.questions.append(question)
        self.defaults.append(default)
        return await self.read()

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        self.questions.append(question)
        assert not self._asked, "two questions at once"
        self._asked = True
        try:
            answer_text = await self.read()
        finally:
            self._asked = False
        return next((answer for answer in answers if answer_text and answer.startswith(answer_text)), "")


class Talk:
    """A chat that is over. `shown`: what the user saw."""

    def __init__(self, chat: Chat, reader: Said, out: io.StringIO, code: int) -> None:
        self.chat, self.agent, self.reader, self.code = chat, chat.agent, reader, code
        self.drawn = out.getvalue()
        """With the terminal's own commands."""
        self.shown = plain(self.drawn)
        self.lines = self.shown.splitlines()

    def has(self, *parts: str) -> bool:
        """Whether one line has all of these."""
        return any(all(part in line for part in parts) for line in self.lines)


def talk(
    *lines: Line,
    model: str = "simulator",
    tools: Iterable[Any] = (add, wipe),
    first: str | None = None,
    saved: bytes | None = None,
    moves: bool = False,
    setup: Setup | None = None,
    servers: CliServers | None = None,
    **settings: Any,
) -> Talk:
    """Chats from the first line to the last."""
    setup = setup or Setup(Settings(**settings))
    screen, out = a_screen(100, moves=moves, settings=setup.settings.chat)
    reader = Said(lines)

    async def approve(approval: ApprovalRequest) -> Decision:
        assert reader.chat is not None
        return await reader.chat.approve(approval)

    async def run_chat() -> tuple[Chat, int]:
        agent = setup.create_agent(model, tools=tools, approve=approve)
        chat = reader.chat = Chat(
            setup, agent, screen, cast(Any, reader), Keyboard(io.BytesIO()), servers=servers
        )
        if servers is not None and servers.client is not None:
            servers.client.watch(agent)
        if saved is not None:
            chat.restore(saved)
        try:
            return chat, await chat.run(first)
        finally:
            await setup.close()

    chat, code = asyncio.run(run_chat())
    return Talk(chat, reader, out, code)
