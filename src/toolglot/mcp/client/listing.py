"""Converts what a server offers to our types: tools for a registry, prompts, resources."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from toolglot.common.textutil import truncate
from toolglot.errors import ToolglotError, UsageError
from toolglot.mcp.client.servers import McpServer
from toolglot.mcp.names import tool_name, typed_name
from toolglot.schema.arguments import check_schema
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Effect
from toolglot.values.definitions import ALWAYS_SHOWN_TAG, MCP_TAG, ToolDefinition

if TYPE_CHECKING:
    import mcp_types

    from mcp import Client

__all__ = [
    "McpPrompt",
    "McpPromptArgument",
    "McpResource",
    "McpServerStatus",
    "list_all",
    "list_prompts",
    "list_resources",
    "make_tools",
]

ServerState = Literal["connecting", "ready", "failed", "stopped", "disabled"]
MAX_PAGES, MAX_ITEMS = 100, 5_000
"""In one of a server's lists, and parts of a result."""
MAX_DESCRIPTION = 10_000
"""Characters in a tool's description."""
_Page = TypeVar("_Page")
# Of every tool. MCP's specification calls hints untrusted: a server that says "read-only" could send
# elsewhere what a model has read, so its word changes nothing here.
_EFFECTS: frozenset[Effect] = frozenset({"read", "write", "network"})


class McpPromptArgument(msgspec.Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


def _fill_names(names: list[str], words: list[str]) -> dict[str, str]:
    """Give each name a word, in order, and the last one all that are left."""
    if names and len(words) > len(names):
        last = len(names) - 1
        words = [*words[:last], " ".join(words[last:])]
    return dict(zip(names, words, strict=False))


class McpPrompt(msgspec.Struct, frozen=True):
    """A prompt that a server offers; `McpServers.get_prompt` returns its messages."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[McpPromptArgument, ...] = ()

    @property
    def command(self) -> str:
        """Its name as a slash command, without the slash."""
        return f"{typed_name(self.server)}:{'-'.join(self.name.split())}"

    @property
    def usage(self) -> str:
        """What to type after the command: its arguments, with optional ones in brackets."""
        return " ".join(each.name if each.required else f"[{each.name}]" for each in self.arguments)

    def parse_arguments(self, text: str) -> dict[str, str]:
        """Parse the arguments typed after the command: in order or as NAME=VALUE, quoted if they contain
        spaces.

        The last one takes the rest of the line. Raises UsageError if one is missing.
        """
        try:
            words = shlex.split(text)
        except ValueError:  # an apostrophe
            words = text.split()
        names = [argument.name for argument in self.arguments]
        values: dict[str, str] = {}
        unnamed: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name in names:
                values[name] = value
            else:
                unnamed.append(word)
        unset = [name for name in names if name not in values]
        if unnamed and not unset:
            raise UsageError(
                f"the prompt {self.command} takes {len(names) or 'no'} arguments: {unnamed[0]!r} is one too "
                "many"
            )
        values |= _fill_names(unset, unnamed)
        for argument in self.arguments:
            if argument.required and argument.name not in values:
                raise UsageError(f"the prompt needs {argument.name!r}: /{self.command} {self.usage}")
        return values


class McpResource(msgspec.Struct, frozen=True):
    """A resource that a server exposes; `McpServers.read_resource` returns its contents."""

    server: str
    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    is_template: bool = False
    """The URI has placeholders, such as `file:///{path}`."""


class McpServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a server."""

    name: str
    state: ServerState
    error: str = ""
    """Why it failed, in one sentence."""
    protocol: str = ""
    """The MCP version in use."""
    server_name: str = ""
    server_version: str = ""
    instructions: str = ""
    """The server's own instructions for its use."""
    tool_count: int = 0
    prompt_count: int = 0
    resource_count: int = 0
    problems: dict[str, str] = {}
    """Tools that were left out or changed: the server's name for the tool -> why."""


async def list_all(
    fetch: Callable[[str | None], Awaitable[_Page]],
    items_of: Callable[[_Page], list[Any]],
    on_problem: Callable[[str], None],
) -> tuple[list[Any], int]:
    """Return the items of all pages, and for how many milliseconds they are valid (0: unspecified)."""
    items: list[Any] = []
    cursor, seen, lifetime = None, set[str](), 0
    for _ in range(MAX_PAGES):
        page: Any = await fetch(cursor)
        items += items_of(page)
        lifetime = min(lifetime or page.ttl_ms, page.ttl_ms)
        cursor = page.next_cursor
        if cursor is None or len(items) > MAX_ITEMS:
            break
        if cursor in seen:
            on_problem("the server's list repeats a page; the items before it are used")
            break
        seen.add(cursor)
    if (cursor is not None and len(seen) >= MAX_PAGES) or len(items) > MAX_ITEMS:
        on_problem(f"the server's list is too long; its first {min(len(items), MAX_ITEMS)} items are used")
    return items[:MAX_ITEMS], lifetime


async def _list_items(what: str, list_page: Any, problems: dict[str, str], seconds: float) -> list[Any]:
    """Return prompts or resources. If the server cannot list them, or not in time, its tools still work."""
    from mcp_types import METHOD_NOT_FOUND

    from mcp import MCPError

    try:
        field = what.replace(" ", "_")
        async with asyncio.timeout(seconds):
            items, _ = await list_all(
                lambda cursor: list_page(cursor=cursor, cache_mode="refresh"),
                lambda page: getattr(page, field),
                lambda problem: problems.update({what: problem}),
            )
    except TimeoutError:
        problems[what] = f"the server did not list them within {seconds:g} s"
        return []
    except (MCPError, ValueError) as e:
        if getattr(e, "code", 0) != METHOD_NOT_FOUND:  # many servers have no templates
            problems[what] = f"the server cannot list them: {truncate(str(e), 200)}"
        return []
    return items


async def list_prompts(
    name: str, client: "Client", problems: dict[str, str], seconds: float
) -> tuple[McpPrompt, ...]:
    """Return the prompts of a server."""
    prompts: list[McpPrompt] = []
    for prompt in await _list_items("prompts", client.list_prompts, problems, seconds):
        arguments = tuple(
            McpPromptArgument(argument.name, argument.description or "", bool(argument.required))
            for argument in prompt.arguments or ()
        )
        prompts.append(McpPrompt(name, prompt.name, prompt.title or "", prompt.description or "", arguments))
    return tuple(prompts)


async def list_resources(
    name: str, client: "Client", problems: dict[str, str], seconds: float
) -> tuple[McpResource, ...]:
    """Return a server's resources and resource templates."""
    resources = await _list_items("resources", client.list_resources, problems, seconds)
    templates = await _list_items("resource templates", client.list_resource_templates, problems, seconds)
    return tuple(
        McpResource(
            name,
            str(item.uri if hasattr(item, "uri") else item.uri_template),
            item.name,
            item.title or "",
            item.description or "",
            item.mime_type or "",
            getattr(item, "size", None),
            is_template=not hasattr(item, "uri"),
        )
        for item in (*resources, *templates)
    )


CallTool = Callable[[str, Context, dict[str, Any], bool], Awaitable[ToolOutput]]
"""Calls a server's tool: the server's name for it, the context, the arguments, and whether the call may be
retried."""


def make_tools(
    name: str,
    server: McpServer,
    items: "list[mcp_types.Tool]",
    call: CallTool,
    known: Mapping[str, tuple[bytes, Tool]],
    problems: dict[str, str],
) -> dict[str, tuple[bytes, Tool]]:
    """Return a server's tools by its own names for them, each with its definition as bytes.

    An unchanged tool stays the same object (`known`), so that conversations do not record it again. Unusable
    tools are left out, with the reason in `problems`.
    """
    tools: dict[str, tuple[bytes, Tool]] = {}
    owners: dict[
        str, str
    ] = {}  # our name -> the server's: an agent given two tools with the same name would refuse all of them
    for item in items:
        if server.allow and not any(fnmatchcase(item.name, pattern) for pattern in server.allow):
            continue
        if any(fnmatchcase(item.name, pattern) for pattern in server.deny):
            continue
        if item.name in tools:
            problems[item.name] = "the server lists it twice; the first one is used"
            continue
        if (other := owners.setdefault(tool_name(name, item.name), item.name)) != item.name:
            problems[item.name] = f"left out: its shortened name is the same as that of {other}"
            continue
        if item.description and len(item.description) > MAX_DESCRIPTION:
            problems[item.name] = (
                f"its description has {len(item.description)} characters; the first {MAX_DESCRIPTION} are "
                "used"
            )
        encoded = item.model_dump_json().encode()
        if item.name in known and known[item.name][0] == encoded:
            tools[item.name] = known[item.name]
            continue
        try:
            tools[item.name] = encoded, make_tool(name, server, item, call)
        except (ToolglotError, ValueError, RecursionError) as e:
            problems[item.name] = f"left out: {truncate(str(e), 300)}"
    return tools


def make_tool(name: str, server: McpServer, item: "mcp_types.Tool", call: CallTool) -> Tool:
    """Return a server's tool. Raises UsageError if its schema cannot be used."""
    check_schema(item.input_schema)
    hints = item.annotations
    is_repeatable = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
    title = item.title or (hints.title if hints else "") or ""
    description = escape_surrogates(item.description or title)
    tags = {MCP_TAG, f"{MCP_TAG}:{name}"}
    if server.defer is False:
        tags.add(ALWAYS_SHOWN_TAG)
    definition = ToolDefinition(
        tool_name(name, item.name),
        truncate(description, MAX_DESCRIPTION),
        item.input_schema,
        tags=frozenset(tags),
        output_schema=item.output_schema,
        deferred=server.defer is True,
    )

    own_name = item.name

    # A function's only parameter receives all arguments as a dict, if no property has its name.
    async def call_server(context: Context, _all_arguments: dict[str, Any]) -> ToolOutput:
        return await call(own_name, context, _all_arguments, is_repeatable)

    call_server.__module__, call_server.__qualname__ = "mcp", f"{name}.{own_name}"
    made = Tool(
        call_server,
        definition=definition,
        effects=_EFFECTS,
        idempotent=is_repeatable,
        approval=False if server.trust else None,
        timeout=float("inf"),  # it has its own timeout, which excludes the time the user takes to answer
        target=lambda arguments: f"{own_name} of {name}",
    )
    made.server_hints = {"title": item.title, **(hints.model_dump(by_alias=True) if hints else {})}
    made.server_hints = {key: value for key, value in made.server_hints.items() if value is not None}
    return made
