"""`toolglot mcp serve`: the tools as an MCP server, on stdin and stdout or over HTTP, until the client leaves
or Ctrl-C.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

import click

from toolglot import __version__
from toolglot.cli.models import find_profile
from toolglot.cli.options import APPROVE, FACADE, LOGGING, NO_SANDBOX, PORT, ROOT, TOOLS, YES, complete_model
from toolglot.cli.printer import ToolPrints, print_line, print_note
from toolglot.cli.startup import CliSetup, Flags, prepare
from toolglot.common.known_keys import remember_key
from toolglot.config.setup import Setup
from toolglot.engine.signin.environment import hide_environment, read_key_variable
from toolglot.errors import ToolglotError, UsageError
from toolglot.facades.catalog import facade_for_model, find_facade
from toolglot.facades.view import Facade
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest, Approve, Decision, Deny

if TYPE_CHECKING:
    from toolglot.mcp.serve.server import McpToolServer

TOKEN_VARIABLE = "TOOLGLOT_MCP_TOKEN"
_APPROVAL_HINT = (
    "To allow it, start the server with --approve RULE, or with --yes if the client itself asks its user."
)


@click.command()
@click.option(
    "--http",
    "port",
    type=PORT,
    metavar="PORT",
    help="Serve over HTTP; 0 picks a free port.",
)
@click.option(
    "--host", help="Address to listen on with --http. Default: 127.0.0.1. Other addresses require a token."
)
@click.option("--token", help=f"Bearer token that HTTP clients must send. Safer: set {TOKEN_VARIABLE}.")
@click.option(
    "-m",
    "--model",
    help="Use the tool names that this PROVIDER:MODEL knows best.",
    shell_complete=complete_model,
)
@FACADE
@ROOT
@TOOLS
@click.option("--builtin/--no-builtin", default=None, help="Serve the built-in tools. Default: yes.")
@click.option("--read-only", is_flag=True, help="Serve only tools that do nothing but read.")
@click.option("--allow", multiple=True, metavar="PATTERN", help="Serve only matching tools. Repeatable.")
@click.option(
    "--deny",
    multiple=True,
    metavar="PATTERN",
    help="Never serve matching tools or run matching calls. Repeatable.",
)
@APPROVE
@YES
@NO_SANDBOX
@LOGGING
def serve(
    port: int | None,
    host: str | None,
    token: str | None,
    model: str | None,
    read_only: bool,
    yes: bool,
    **flags: Any,
) -> int:
    """Serve tools to an MCP client.

    By default, serves the built-in tools for --root on stdin and stdout, with the configured sandbox, rules, limits and audit
    log. With --http, serves them at the URL that it prints.

    A call that needs approval is shown to the client's user if the client supports that (elicitation). Otherwise it is
    refused, unless an --approve rule allows it. Use --yes with a client that asks about every call itself.
    """
    if port is None and (host or token):
        raise UsageError("--host and --token are for HTTP: add --http PORT")
    try:
        from toolglot.mcp import serve_http, serve_stdio
        from toolglot.mcp.serve.http import is_loopback
        from toolglot.mcp.serve.stdio import claim_streams
    except ImportError as e:
        raise ToolglotError(str(e)) from None
    hide_environment((), {TOKEN_VARIABLE})
    token, host = token or read_key_variable(TOKEN_VARIABLE) or "", host or "127.0.0.1"
    if token:
        remember_key(token)  # so that it is redacted in logs
    elif port is not None and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE} to a token that clients must "
            "send"
        )
    if port is None and sys.stdin.isatty():
        print_note(
            "waiting for an MCP client on stdin: add this command to your client's configuration, or use "
            "--http 0"
        )
    # Claim the streams first: modules with tools may print when they are imported, which must not reach the
    # client.
    with (
        claim_streams() if port is None else nullcontext() as streams,
        prepare(Flags(**flags), want_builtin=True) as cli_setup,
    ):
        cli_setup.print_notices()
        is_known = port is None or bool(token)
        server = _create_server(
            cli_setup,
            model,
            read_only=read_only,
            approve=make_approve(yes, is_known),
            is_shared=port is not None,
        )

        async def serve_until_interrupted() -> None:
            task = asyncio.current_task()
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(
                    signal.SIGTERM, lambda: task is not None and task.cancel()
                )
            if port is None:
                await serve_stdio(server, streams)
                return
            async with serve_http(server, host, port, token=token) as url:
                print_line(f"listening on {url}")
                with redirect_stdout(ToolPrints()):
                    await asyncio.Event().wait()

        with suppress(KeyboardInterrupt, asyncio.CancelledError):
            asyncio.run(serve_until_interrupted())
    return 0


def make_approve(yes: bool, is_known: bool) -> Approve:
    """Return the function that decides before the client's user is asked.

    `is_known`: only authorized clients can connect.
    """

    def approve(request: ApprovalRequest) -> Decision:
        if request.each_time and not is_known:  # any program on this machine could answer
            return Deny(f"this is possible only on stdin and stdout, or with a token: {request.reason}")
        return "yes" if yes and not request.each_time else "later"

    return approve


def _create_server(
    cli_setup: CliSetup, model: str | None, *, read_only: bool, approve: Approve, is_shared: bool
) -> "McpToolServer":
    from toolglot.mcp.serve.server import McpToolServer

    setup, builtins = cli_setup.setup, cli_setup.builtins
    registry = ToolRegistry(tool for tool in cli_setup.tools if not _needs_user(tool))
    if not len(registry):
        raise UsageError("there are no tools to serve: load some with --tools, or use --builtin")
    model_name = find_profile(setup.resolve_model(model)).model if model else ""
    instructions = ""
    open_tools = None
    if builtins is not None:
        instructions = f"These tools work in {builtins.state.workspace.root}."
        if is_shared:
            other_tools = [tool for tool in cli_setup.tools if tool not in builtins.tools]
            open_tools = _tools_per_connection(cli_setup, other_tools)
    return McpToolServer(
        registry,
        version=__version__,
        instructions=instructions,
        config=setup.tool_config(cli_setup.model, [tool.name for tool in registry]),
        read_only=read_only,
        facade=_choose_facade(setup, model_name),
        model=model_name,
        approve=approve,
        approval_hint=_APPROVAL_HINT,
        open_tools=open_tools,
        audit=setup.open_audit_log(),
    )


def _choose_facade(setup: Setup, model_name: str) -> Facade:
    facade = setup.resolve_facade()
    if isinstance(facade, Facade):
        return facade
    if facade != "auto":
        return find_facade(facade, model_name)
    # The client's model is unknown without -m, so the tools have the names that most models get right.
    return facade_for_model(model_name) if model_name else find_facade("neutral")


def _tools_per_connection(
    cli_setup: CliSetup, other_tools: list[Any]
) -> Callable[[], AbstractContextManager[list[Any]]]:
    """Return a function that creates separate built-in tools per connection: commands and files read are not
    shared.
    """
    from toolglot.builtin.configured import configured_builtins

    @contextmanager
    def open_tools() -> Generator[list[Any]]:
        builtins = configured_builtins(cli_setup.configuration.settings)
        try:
            yield [tool for tool in (*builtins.tools, *other_tools) if not _needs_user(tool)]
        finally:
            builtins.close()

    return open_tools


def _needs_user(tool: Any) -> bool:
    """Whether a tool asks the user questions, which is up to the client."""
    return isinstance(tool, Tool) and tool.name == "ask_user"
