"""`toolglot mcp`: its subcommands, each imported when it is used."""

import sys
from importlib import import_module

import click

from toolglot.cli.printer import write_text
from toolglot.errors import UnknownName

# subcommand -> its click command in a module of toolglot.cli, and the first line of its help
SUBCOMMANDS = {
    "list": ("mcp_servers:list_command", "List the configured servers."),
    "add": ("mcp_servers:add_command", "Add a server to your configuration."),
    "remove": ("mcp_servers:remove_command", "Remove a server from your configuration."),
    "test": (
        "mcp_servers:test_command",
        "Start a server, list its tools, and report what models cannot use.",
    ),
    "serve": ("mcp_serve:serve", "Serve tools to an MCP client."),
}


class _SubcommandTable(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            raise UnknownName("subcommand of mcp", cmd_name, SUBCOMMANDS)
        module, _, command = SUBCOMMANDS[cmd_name][0].partition(":")
        return getattr(import_module(f"toolglot.cli.{module}"), command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in SUBCOMMANDS.items()])


@click.group(cls=_SubcommandTable, invoke_without_command=True)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Manage MCP servers, or run as one."""
    if context.invoked_subcommand is None:
        write_text(sys.stdout, f"{context.get_help()}\n")
