"""DATA: the configuration of an MCP server. The settings `[mcp.servers.NAME]` have the same fields."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from toolglot.common.known_keys import remember_key
from toolglot.common.redact import find_secrets, redact
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.errors import UsageError

__all__ = ["SECRET_NAME", "McpOAuth", "McpServer", "remember_secrets"]

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH|DSN", re.IGNORECASE)
"""Names of variables whose values are probably secret."""
_Seconds = Annotated[float, Meta(gt=0)]


class McpOAuth(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """How to sign in to a server that requires OAuth; unset fields are negotiated with the server."""

    scopes: tuple[str, ...] = ()
    """Scopes to request; unset: those that the server names."""
    client_id: str = ""
    """The id of a client that is already registered; unset: toolglot registers itself."""
    client_secret: str = ""
    """The secret of that client, if it has one."""
    client_metadata_url: str = ""
    """The URL of a document that describes the client, used as its id by servers that support that."""
    redirect_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The local port to which the browser is redirected; 0: any free port."""

    def __post_init__(self) -> None:
        check_values(self)


class McpServer(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """An MCP server: either a program to start (`command`) or a running server (`url`)."""

    command: str = ""
    """The program to start, which speaks MCP on stdin and stdout."""
    args: tuple[str, ...] = ()
    """Arguments for the program."""
    env: dict[str, str] = {}
    """Environment variables for the program, in addition to a few harmless ones such as PATH; your keys are
    not passed on."""
    cwd: str | None = None
    """The directory in which the program starts; unset: a private one that is never in the workspace."""
    url: str = ""
    """The URL of a running server (Streamable HTTP)."""
    headers: dict[str, str] = {}
    """Headers to send with every request, such as Authorization."""
    allow: tuple[str, ...] = ()
    """Names or patterns (`get_*`) of the server's tools to offer; unset: all."""
    deny: tuple[str, ...] = ()
    """Names or patterns of tools that are never offered."""
    trust: bool = False
    """true: its tools run without approval; false: they need it, whatever the server declares about them.
    Only you can set it: in a project's file, it is ignored."""
    timeout: _Seconds = 60.0
    """Maximum seconds per call; progress does not extend it."""
    start_timeout: _Seconds = 30.0
    """Maximum seconds to start the server and list its tools."""
    sandbox: bool | None = None
    """Whether the program runs in the same sandbox as commands; unset: only if it comes from a project's
    file."""
    network: bool | None = None
    """Whether a sandboxed program may use the network; unset: as for commands (`builtin.network`)."""
    enabled: bool = True
    """false: the server is not started."""
    defer: bool | None = None
    """Whether models must search for its tools before they see them; unset: only if there are too many
    tools."""
    oauth: McpOAuth | None = None
    """How to sign in; unset: negotiated if the server requires it."""

    def __post_init__(self) -> None:
        check_values(self)
        if bool(self.command) == bool(self.url):
            reason = "both are set" if self.url else "neither is set"
            raise UsageError(f"an MCP server needs either a command or a url, and {reason}; set one of them")
        if self.url and not self.url.lower().startswith(("http://", "https://")):
            raise UsageError(
                "the url of an MCP server must begin with http:// or https://, not "
                f"{redact(self.url, by_name=True)[:40]!r}"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that are never shown: the variables, the headers, the client secret, and keys in the
        arguments or the URL.
        """
        client_secret = (self.oauth.client_secret,) if self.oauth else ()
        return (
            *self.env.values(),
            *self.headers.values(),
            *client_secret,
            *find_secrets((self.command, *self.args, self.url)),
        )


def remember_secrets(server: McpServer) -> None:
    """Hide possible secrets wherever text is shown: headers, arguments, variables whose names or values look
    like secrets.
    """
    for secret in (*_list_secret_values(server), *find_secrets((server.command, *server.args, server.url))):
        remember_key(secret)


def _list_secret_values(server: McpServer) -> Iterator[str]:
    """Yield the values of headers without their scheme, of secret variables, and the client secret."""
    for value in server.headers.values():
        scheme, space, token = value.partition(" ")
        yield token if space and scheme.isalpha() else value
    for name, value in server.env.items():
        if SECRET_NAME.search(name) or redact(value) != value:
            yield value
    if server.oauth is not None:
        yield server.oauth.client_secret
