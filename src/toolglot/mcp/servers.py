"""DATA: what is known of an MCP server before it is started. The settings `[mcp.servers.NAME]` have the same fields."""

from typing import Annotated

import msgspec
from msgspec import Meta

from toolglot.errors import UsageError
from toolglot.value_checks import check_values

__all__ = ["McpOAuth", "McpServer"]

_Seconds = Annotated[float, Meta(gt=0)]


class McpOAuth(msgspec.Struct, frozen=True, kw_only=True):
    """How to sign in to a server that wants OAuth; what is unset is negotiated with the server."""

    scopes: tuple[str, ...] = ()
    """Scopes to ask for; unset: those that the server names."""
    client_id: str = ""
    """A client that is registered already; unset: toolglot registers itself."""
    client_secret: str = ""
    """The secret of that client, if it has one."""
    client_metadata_url: str = ""
    """The address of a document that describes the client, used as its id by servers that support that."""
    redirect_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The local port to which the browser returns; 0: any free one."""

    def __post_init__(self) -> None:
        check_values(self)


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: a program that is started (`command`), or an address (`url`)."""

    command: str = ""
    """The program to start; it speaks MCP on its stdin and stdout."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    env: dict[str, str] = {}
    """Variables for the program, besides a few harmless ones such as PATH; your keys are not among those."""
    cwd: str | None = None
    """The directory that the program starts in; unset: the current one."""
    url: str = ""
    """The address of a server that runs already (Streamable HTTP)."""
    headers: dict[str, str] = {}
    """Headers to send with every request, such as Authorization."""
    allow: tuple[str, ...] = ()
    """Names or patterns (`get_*`) of the server's tools to offer; unset: all."""
    deny: tuple[str, ...] = ()
    """Names or patterns of tools that are never offered."""
    approve: bool | None = None
    """true: ask before every call; false: never ask; unset: ask, except about tools that the server declares read-only."""
    timeout: _Seconds = 60.0
    """Seconds for one call; progress does not extend it."""
    start_timeout: _Seconds = 30.0
    """Seconds to start the server and list its tools."""
    sandbox: bool | None = None
    """Whether the program runs in the sandbox of commands; unset: if a project's file names it."""
    network: bool | None = None
    """Whether a program in the sandbox may use the network; unset: as commands may (`builtin.network`)."""
    enabled: bool = True
    """false: it is not started."""
    defer: bool | None = None
    """Whether models are shown its tools only when they find them; unset: if there are too many tools."""
    oauth: McpOAuth | None = None
    """How to sign in; unset: negotiated with a server that asks for it."""

    def __post_init__(self) -> None:
        check_values(self)
        if bool(self.command) == bool(self.url):
            reason = "both are set" if self.url else "neither is set"
            raise UsageError(f"an MCP server has a command or a url, and {reason}; set one of them")
        if self.url and not self.url.lower().startswith(("http://", "https://")):
            raise UsageError(f"the url of an MCP server begins with http:// or https://, not {self.url[:40]!r}")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that are never shown: those of variables and headers, and the client's secret."""
        return (*self.env.values(), *self.headers.values(), *((self.oauth.client_secret,) if self.oauth else ()))
