"""`toolglot check`: report which parts of a set of tools each provider would reject or lose."""

import re
import sys
from pathlib import Path

import click

from toolglot.cli.jsonl import read_input
from toolglot.cli.models import find_profile
from toolglot.cli.printer import Printer, write_json_line
from toolglot.cli.startup import Flags, prepare
from toolglot.cli.styled import Line
from toolglot.common.jsontext import loads
from toolglot.config.loading import load_tools
from toolglot.errors import UsageError
from toolglot.loop.format_call import describe_losses
from toolglot.providers.catalog import PROFILES
from toolglot.providers.model_data import find_window
from toolglot.providers.preflight import preflight
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.messages import user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.converters import decode_tools


@click.command()
@click.argument("tools", required=False)
@click.option(
    "--mcp-config",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Check the tools of the MCP servers in this JSON file. Repeatable.",
)
@click.option(
    "--for", "targets", multiple=True, metavar="PROVIDER[:MODEL]", help="Check only this target. Repeatable."
)
@click.option("--json", is_flag=True, help="Print one JSON object per provider.")
def check(tools: str | None, mcp_config: tuple[Path, ...], targets: tuple[str, ...], json: bool) -> int:
    """Report which parts of your tools providers would reject or lose.

    Nothing is sent. TOOLS is a JSON file, - for stdin, a Python file, a module, or module:object; it is optional with
    --mcp-config.

    ok: sent unchanged; changed: accepted, but something is lost or moved into a description; rejected: refused by the
    provider (the exit code is 1).
    """
    items: list[Tool | ToolDefinition] = []
    if tools is not None:
        items += load_tools_or_definitions(tools)
    if mcp_config:
        with prepare(
            Flags(mcp_config=mcp_config, no_mcp=True, builtin=False), use_servers="wait"
        ) as cli_setup:
            if cli_setup.servers is not None:
                items += cli_setup.servers.tools
    if not items:
        raise UsageError("there are no tools to check: specify a file, a module, or --mcp-config FILE")
    definitions = [item if isinstance(item, ToolDefinition) else item.definition for item in items]
    printer = Printer(sys.stdout)
    exit_code = 0
    for target in targets or sorted(PROFILES):
        profile = find_profile(target)
        provider = target.partition(":")[0] if ":" in target else profile.id
        problems = preflight(definitions, profile)
        encoded = encode_request(Request(profile.model, [user("check")], tuple(definitions)), profile)
        repairs = [repair for repair in encoded.repairs if repair.where == "tools"]
        is_refused = any(problem.is_refused for problem in problems)
        exit_code |= is_refused
        if json:
            names = {"provider": provider, "model": profile.model}
            write_json_line(
                sys.stdout, names | {"problems": problems, "losses": encoded.losses, "repairs": repairs}
            )
            continue
        state = Line("ok       ", "green")
        if is_refused:
            state = Line("rejected ", "red")
        elif encoded.losses:
            state = Line("changed  ", "yellow")
        printer.write(state.append(f" {target}\n"))
        notes: list[str] = []
        if profile.model and find_window(profile.id, profile.model) is None:
            notes.append("note: this model is not in the catalog; its provider's limits are used")
        notes += [f"limit: {problem}" for problem in problems]
        notes += describe_losses(encoded.losses, every_keyword=True)
        notes += [f"repaired: {repair}" for repair in repairs]
        for note in notes:
            printer.print_line(f"          {note}")
    return exit_code


def load_tools_or_definitions(name: str) -> "list[Tool | ToolDefinition]":
    """Load tools from `module:object`, or definitions from a JSON file or from stdin (`-`).

    Raises UsageError.
    """
    tools: list[Tool | ToolDefinition] = []
    if _names_code(name):
        loaded = load_tools(name, Path.cwd())
        tools += ToolRegistry(item for item in loaded if not isinstance(item, ToolDefinition))
        tools += [item for item in loaded if isinstance(item, ToolDefinition)]
    else:
        try:
            tools += decode_tools(loads(read_input(Path(name))))
        except OSError as e:
            raise UsageError(f"cannot read {name!r}: {e.strerror}") from None
        except ValueError as e:
            raise UsageError(f"{name} is not JSON: {e}") from None
        except UsageError as e:
            raise UsageError(f"{name}: {e}") from None
    if not tools:
        raise UsageError(f"{name} contains no tools")
    return tools


def _names_code(name: str) -> bool:
    """Whether a name is one of a Python file, a module, or an object of them, and not of a JSON file."""
    if name.endswith(".py"):
        return True
    if Path(name).exists():
        return False
    if ":" in name:
        return True
    return not name.endswith(".json") and re.fullmatch(r"[\w.]+", name) is not None
