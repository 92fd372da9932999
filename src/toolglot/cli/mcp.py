"""`toolglot mcp`: its subcommands, each imported when it is used."""

from importlib import import_module

import click

from toolglot.errors import UnknownName

# subcommand -> the module of toolglot.cli in which it is a click command of that name, and the first line of its help
SUBCOMMANDS = {
    "serve": ("mcp_serve", "Serve the tools to an MCP client."),
}


class _SubcommandTable(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            raise UnknownName("subcommand of mcp", cmd_name, SUBCOMMANDS)
        return getattr(import_module(f"toolglot.cli.{SUBCOMMANDS[cmd_name][0]}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in SUBCOMMANDS.items()])


@click.group(cls=_SubcommandTable, no_args_is_help=False)
def mcp() -> None:
    """Serve the tools over MCP."""
