"""MCP servers in a chat: their prompts as commands, their resources as attachments, and notes about them."""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from toolglot.cli.servers import CliServers, describe_status
from toolglot.cli.styled import Line
from toolglot.common.sanitize import shorten
from toolglot.common.textutil import pluralize
from toolglot.config.mcp_servers import ServerEntry
from toolglot.errors import UnknownName, UsageError
from toolglot.mcp.names import typed_name
from toolglot.providers.tokens import estimate_tool
from toolglot.values.definitions import MCP_TAG
from toolglot.values.messages import Media, Text

if TYPE_CHECKING:
    from toolglot.cli.chat.app import Chat
    from toolglot.mcp.client.client import McpServers

__all__ = ["ChatServers"]

_RESOURCE = re.compile(r"(?<![\w@.])@([^\s:@]+):(\S+)")


class ChatServers:
    """A chat's servers; without any, it shows nothing."""

    def __init__(self, chat: "Chat", servers: CliServers | None) -> None:
        self._chat, self.servers = chat, servers
        self._notices: deque[str] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deferral = ""
        if servers is not None:
            servers.notify = self.notify

    @property
    def client(self) -> "McpServers | None":
        return self.servers.client if self.servers is not None else None

    # ---- notes

    def notify(self, text: str) -> None:
        """Show a note above the line that the user is editing; can be called from any thread."""
        self._notices.append(text)
        if self._loop is not None:
            with suppress(RuntimeError):  # the chat has ended
                self._loop.call_soon_threadsafe(self.show_notices)

    def show_notices(self) -> None:
        """Show pending notes, unless the user is being asked something."""
        self._loop = asyncio.get_running_loop()
        while self._notices and not self._chat.question_lock.locked():
            text = self._notices.popleft()
            self._chat.reader.print_above(lambda text=text: self._chat.screen.note(text, "yellow"))

    async def wait(self) -> None:
        """Wait for servers that are still starting; if cancelled, the chat continues without them."""
        self.show_notices()
        if self.servers is None:
            return
        starting = [status.name for status in self.servers.status() if status.state == "connecting"]
        if starting and self.client is not None:
            self._chat.screen.note(
                f"waiting for MCP servers: {', '.join(starting)} (Ctrl-C: continue without them)", "dim"
            )
            try:
                await self.client.wait_ready_async()
            except asyncio.CancelledError:
                self._chat.screen.note("continuing; their tools are added when they are ready", "yellow")
        for notice in self.servers.list_notices():
            self._chat.screen.note(notice, "yellow")
        deferral = self._chat.agent.view().deferral
        if deferral is not None and deferral.is_automatic and deferral.message != self._deferral:
            self._deferral = deferral.message
            self._chat.screen.note(deferral.message, "yellow")

    # ---- prompts and resources

    def completions(self, text: str) -> Iterable[str]:
        """Return the prompts or resources that complete a text."""
        if self.client is None:
            return ()
        if text.startswith("/"):
            return (f"/{prompt.command}" for prompt in self.client.prompts)
        if text.rpartition(" ")[2].startswith("@"):
            return (
                f"@{typed_name(each.server)}:{each.uri}"
                for each in self.client.resources
                if not each.is_template
            )
        return ()

    async def find_prompt(self, text: str) -> list[Text | Media] | None:
        """Return what a line such as `/github:review 12` sends; None if it is not a server's prompt.

        Raises UsageError.
        """
        if not text.startswith("/"):
            return None
        word, _, rest = text.removeprefix("/").partition(" ")
        server, colon, name = word.partition(":")
        client = self.client
        if client is None or not colon or server not in self._typed_names():
            return None
        prompts = {prompt.command: prompt for prompt in client.prompts}
        prompt = prompts.get(word)
        if prompt is None:
            names = [command.partition(":")[2] for command in prompts if command.startswith(f"{server}:")]
            raise UnknownName(f"prompt of {server}", name, names)
        blocks: list[Text | Media] = []
        for message in await client.get_prompt(prompt.server, prompt.name, prompt.parse_arguments(rest)):
            for part in message.blocks:
                if isinstance(part, Text) and message.role == "assistant":
                    blocks.append(Text(f"[example answer]\n{part.text}"))
                elif isinstance(part, Text | Media):
                    blocks.append(part)
        shown = " ".join(block.text for block in blocks if isinstance(block, Text))
        self._chat.screen.note(f"{server}:{name}: {shorten(shown, 300)}", "dim")
        return blocks

    async def read_mentions(self, text: str) -> tuple[str, list[Text | Media]]:
        """Return the text without the resources it mentions, and their contents. Raises ToolError."""
        blocks: list[Text | Media] = []
        client = self.client
        for match in _RESOURCE.finditer(text) if client is not None else ():
            server, uri = match[1], match[2].rstrip(".,;!?)]\"'")
            if client is None or server not in self._typed_names():
                continue
            text = text.replace(f"@{server}:{uri}", f"[{uri}]")
            is_inserted = any(match[0] in inserted for inserted in self._chat.reader.inserted)
            if is_inserted and not await self._chat.confirm(
                f"send the resource {uri} from the MCP server {server}"
            ):
                continue
            blocks += await client.read_resource(self._typed_names()[server], uri)
        return text, blocks

    def list_names(self) -> set[str]:
        """Return the names of all servers."""
        return {status.name for status in self.servers.status()} if self.servers is not None else set()

    def _typed_names(self) -> dict[str, str]:
        """Return typed name -> name of each server."""
        return {typed_name(name): name for name in self.list_names()}

    # ---- commands

    async def show(self, argument: str) -> None:
        """Run `/mcp`. Raises UsageError, UnknownName."""
        action, _, name = argument.partition(" ")
        screen, servers = self._chat.screen, self.servers
        if servers is None:
            raise UsageError("no MCP servers are configured: add one with toolglot mcp add")
        if action == "restart":
            status = await asyncio.to_thread(servers.restart, name.strip())
            screen.note(
                f"{status.name}: {describe(servers, status.name)}",
                "green" if status.state == "ready" else "red",
            )
            return
        if argument:
            self._show_one(argument)
            return
        for status in servers.status():
            style = {"ready": "", "failed": "red"}.get(status.state, "dim")
            screen.print_rows(
                [Line(status.name, "bold").append(f"  {describe(servers, status.name)}", style)]
            )
        for entry in servers.catalog.withheld:
            screen.note(f"{entry.name}  not trusted: run toolglot trust", "dim")
        screen.note("/mcp NAME shows what a server offers; /mcp restart NAME reconnects", "dim")

    def _show_one(self, name: str) -> None:
        client, screen = self.client, self._chat.screen
        if client is None or name not in self.list_names():
            raise UnknownName("MCP server", name, self.list_names())
        for tool in self._chat.agent.tools:
            if f"{MCP_TAG}:{name}" in tool.tags:
                screen.note(f"{tool.name}  {shorten(tool.description, 200)}", "dim")
        for prompt in client.prompts:
            if prompt.server == name:
                screen.note(f"/{prompt.command} {prompt.usage}  {shorten(prompt.description, 200)}", "dim")
        for resource in client.resources:
            if resource.server == name:
                screen.note(
                    f"@{typed_name(name)}:{resource.uri}  {shorten(resource.title or resource.name, 200)}",
                    "dim",
                )

    def describe_tokens(self) -> list[str]:
        """Return how much of a request each server's tools use if they are not deferred."""
        view = self._chat.agent.view()
        rows: list[str] = []
        for name in sorted(self.list_names()):
            tools = [tool.definition for tool in self._chat.agent.tools if f"{MCP_TAG}:{name}" in tool.tags]
            if tools:
                tokens = view.scale_tokens(sum(map(estimate_tool, tools)))
                rows.append(f"MCP server {name}: {pluralize(len(tools), 'tool')}, about {tokens:,} tokens")
        return rows


def describe(servers: CliServers, name: str) -> str:
    """Return a server's state, name, version, sandbox and trust."""
    status = next(status for status in servers.status() if status.name == name)
    entry = servers.catalog.find(name)
    details = [describe_status(status), f"{status.server_name} {status.server_version}".strip()]
    if status.protocol:
        details.append(f"MCP {status.protocol}")
    if entry is not None:
        details += _describe_rights(servers, entry)
    return " · ".join(filter(None, details))


def _describe_rights(servers: CliServers, entry: ServerEntry) -> Iterator[str]:
    """Yield how a server is confined, and whether the user trusts it."""
    label = servers.sandbox.label if servers.sandbox is not None else ""
    if label and entry.is_sandboxed:
        yield f"in {label}"
    if entry.settings.trust:
        yield "trusted"
