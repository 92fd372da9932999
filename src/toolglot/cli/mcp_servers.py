"""`toolglot mcp list|add|remove|test`: the configured MCP servers."""

import json as json_module
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import asdict

from toolglot.cli.models import find_profile
from toolglot.cli.options import JSON, LOGGING, MCP, complete_model
from toolglot.cli.printer import Printer, Row, print_line, print_note, write_json_line
from toolglot.cli.servers import describe_entry, describe_status
from toolglot.cli.startup import Flags, prepare
from toolglot.common.regular_files import read_regular_file
from toolglot.common.textutil import pluralize
from toolglot.common.user_dirs import config_file, write_private
from toolglot.config.layers import PROJECT_FILE, read_configuration
from toolglot.config.mcp_files import parse_server_file
from toolglot.config.mcp_servers import ServerEntry, find_servers
from toolglot.config.setup import Setup
from toolglot.config.toml_edit import add_server, remove_server
from toolglot.config.trust import is_trusted
from toolglot.errors import UnknownName, UsageError
from toolglot.loop.format_call import describe_losses
from toolglot.mcp.client.servers import McpServer
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import user
from toolglot.values.request import Request
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS

if TYPE_CHECKING:
    from toolglot.cli.startup import CliSetup

__all__ = ["add_command", "list_command", "remove_command", "test_command"]

_HOST = re.compile(r"localhost/|[\w.-]+(?::\d+(?:/|\Z)|\.\w+/)")
_PROJECT = click.option(
    "--project", is_flag=True, help=f"Write to the {PROJECT_FILE} in the current directory."
)


@click.command("list")
@MCP
@click.option("--start", is_flag=True, help="Start the servers and show their status.")
@JSON
def list_command(mcp_config: tuple[Path, ...], no_mcp: bool, start: bool, json: bool) -> int:
    """List the configured servers.

    They come from --mcp-config files, from [mcp.servers.NAME] in the settings, and from the project's
    .mcp.json, .vscode/mcp.json and .cursor/mcp.json. With --start, the exit code is 1 if one of them fails.
    """
    configuration = read_configuration(flags={"mcp.enabled": False if no_mcp else None})
    catalog = find_servers(configuration, files=mcp_config)
    rows = {entry.name: _describe(entry) for entry in catalog.servers}
    rows |= {
        entry.name: {**_describe(entry), "state": describe_entry(entry, is_trusted=False)}
        for entry in catalog.withheld
    }
    exit_code = 0
    if start and catalog.servers:
        flags = Flags(mcp_config=mcp_config, no_mcp=no_mcp, builtin=False)
        with prepare(flags, use_servers={entry.name for entry in catalog.servers}) as cli_setup:
            for status in cli_setup.servers.status() if cli_setup.servers is not None else ():
                rows[status.name]["state"] = describe_status(status)
                exit_code |= status.state == "failed"
    for note in catalog.notes:
        print_note(note)
    if json:
        write_json_line(sys.stdout, list(rows.values()))
    elif rows:
        words = {True: "yes", False: "no"}
        Printer(sys.stdout).print_table(
            [{**row, "sandbox": words[row["sandbox"]], "trust": words[row["trust"]]} for row in rows.values()]
        )
    else:
        print_note(
            "no MCP servers are configured: add one with toolglot mcp add NAME -- COMMAND, or toolglot mcp "
            "add NAME URL"
        )
    return exit_code


def _describe(entry: ServerEntry) -> dict[str, Any]:
    """Return a row of the list."""
    return {
        "name": entry.name,
        "state": describe_entry(entry),
        "target": entry.target,
        "sandbox": entry.is_sandboxed,
        "trust": entry.settings.trust,
        "directory": entry.describe_directory(),
        "origin": entry.origin,
    }


@click.command("add")
@click.option(
    "-e",
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable for the program. Repeatable.",
)
@click.option(
    "-H", "--header", multiple=True, metavar="NAME: VALUE", help="Header for every request. Repeatable."
)
@click.option("--cwd", help="Directory in which the program starts.")
@click.option("--allow", multiple=True, metavar="PATTERN", help="Offer only matching tools. Repeatable.")
@click.option("--deny", multiple=True, metavar="PATTERN", help="Never offer matching tools. Repeatable.")
@click.option(
    "--sandbox/--no-sandbox", default=None, help="Run the program in the same sandbox as commands, or not."
)
@click.option("--network/--no-network", default=None, help="Allow network access in the sandbox, or not.")
@click.option("--trust", is_flag=True, default=None, help="Never ask before calls to its tools.")
@_PROJECT
@JSON
@click.argument("name")
@click.argument("words", nargs=-1, required=True, metavar="URL | COMMAND [ARGS]... | JSON")
def add_command(
    env: tuple[str, ...],
    header: tuple[str, ...],
    name: str,
    words: tuple[str, ...],
    project: bool,
    json: bool,
    **options: Any,
) -> None:
    """Add a server to your configuration.

    \b
    toolglot mcp add docs https://example.com/mcp
    toolglot mcp add github -e TOKEN='${GITHUB_TOKEN}' -- npx -y some-server
    toolglot mcp add files '{"command": "npx", "args": ["-y", "some-server"]}'

    Put -- before a command that has options. Write secrets as '${VARIABLE}', which is read from the environment when the server
    starts.
    """  # noqa: D301 - \b is click's mark of a paragraph that is not wrapped
    if not name.strip() or not name.isprintable():
        raise UsageError(f"{name!r} is not a valid server name: use letters and digits")
    if project and options["trust"]:
        raise UsageError("a project's file cannot trust its own servers: remove --trust or --project")
    fields = _read_words(name, words)
    if env:
        fields["env"] = {**fields.get("env", {}), **dict(_split(pair, "=") for pair in env)}
    if header:
        fields["headers"] = {**fields.get("headers", {}), **dict(_split(pair, ":") for pair in header)}
    for key, value in options.items():
        if value is not None and value != ():
            fields[key] = value
    msgspec.convert(fields, McpServer)  # rejects invalid values
    fields = json_module.loads(json_module.dumps(fields))  # with lists, as in TOML
    path = _edit(project, lambda text: add_server(text, name, fields))
    if json:
        write_json_line(sys.stdout, {"name": name, "file": str(path)})
    else:
        steps = f"toolglot mcp test {shlex.quote(name)}"
        if project and not is_trusted(path.parent):
            steps = f"toolglot trust && {steps}"
        print_line(f"added {name} to {path}; try it with: {steps}")
    if project:
        print_note("a project's servers run in the sandbox, and only if the directory is trusted")


def _read_words(name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of a server that is given as a JSON object, a URL or a command.

    Raises UsageError.
    """
    first, *others = words
    if first.startswith("{") and not others:
        return _read_json(name, first)
    if first.startswith(("http://", "https://")):
        if others:
            raise UsageError(f"a URL takes no arguments: remove {others[0]!r}")
        return {"url": first}
    _check_command(name, words)
    return {"command": first, "args": others} if others else {"command": first}


def _read_json(name: str, text: str) -> dict[str, Any]:
    try:
        entry = json_module.loads(text)
    except ValueError as e:
        raise UsageError(f"the server is not JSON: {e}") from None
    tables = entry.keys() & {"mcpServers", "servers"}
    if tables:
        raise UsageError(
            f"this is the content of a whole file: pass only one server's object from {min(tables)!r}, or "
            "use --mcp-config"
        )
    file = parse_server_file(json_module.dumps({"mcpServers": {name: entry}}), Path("the server"))
    server = file.servers[name]
    if server.problem:
        raise UsageError(server.problem)
    if server.env_file:
        raise UsageError("envFile works only in a file: pass the file with --mcp-config, or use --env")
    for note in file.notes:
        print_note(note)
    return _list_changes(server.settings)


def _check_command(name: str, words: tuple[str, ...]) -> None:
    """Refuse arguments that are probably a mistake. Raises UsageError."""
    first, quoted_name = words[0], shlex.quote(name)
    if len(words) > 1 or os.path.exists(os.path.expanduser(first)):
        return
    if _HOST.match(first):
        raise UsageError(
            f"a URL begins with http:// or https://: toolglot mcp add {quoted_name} http://{first}"
        )
    if " " in first:
        raise UsageError(
            f"pass the program and its arguments as separate words: toolglot mcp add {quoted_name} -- {first}"
        )


def _list_changes(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct that differ from their defaults, as plain data."""
    defaults = type(struct)()
    changes: dict[str, Any] = {}
    for name, value in asdict(struct).items():
        if value == getattr(defaults, name):
            continue
        changes[name] = (
            _list_changes(value) if isinstance(value, msgspec.Struct) else msgspec.to_builtins(value)
        )
    return changes


def _split(pair: str, separator: str) -> tuple[str, str]:
    name, found, value = pair.partition(separator)
    if not found or not name.strip():
        raise UsageError(f"{pair.partition(separator)[0]!r} has no value: write NAME{separator}VALUE")
    return name.strip(), value.strip() if separator == ":" else value


def _edit(project: bool, change: Callable[[str], str]) -> Path:
    """Change a configuration file; return it. Raises UsageError."""
    path = Path.cwd() / PROJECT_FILE if project else config_file()
    try:
        text = read_regular_file(path).decode("utf-8-sig") if path.exists() else ""  # with its line endings
    except (OSError, ValueError) as e:
        raise UsageError(
            f"cannot read {str(path)!r}: {getattr(e, 'strerror', None) or 'it is not UTF-8'}"
        ) from None
    try:
        changed = change(text).encode()
    except UsageError as e:
        raise UsageError(f"cannot change {path}: {e}") from None
    if project:
        path.write_bytes(changed)
    else:
        write_private(Path(os.path.realpath(path)), changed)
    return path


@click.command("remove")
@click.argument("name")
@_PROJECT
@JSON
def remove_command(name: str, project: bool, json: bool) -> None:
    """Remove a server from your configuration."""
    path = _edit(project, lambda text: remove_server(text, name))
    if json:
        write_json_line(sys.stdout, {"name": name, "file": str(path)})
    else:
        print_line(f"removed {name} from {path}")


@click.command("test")
@click.argument("name")
@click.option(
    "-m",
    "--model",
    help="Report what this PROVIDER:MODEL cannot use; default: every API format.",
    shell_complete=complete_model,
)
@MCP
@JSON
@LOGGING
def test_command(
    name: str, model: str | None, mcp_config: tuple[Path, ...], no_mcp: bool, json: bool, **logging: Any
) -> int:
    """Start a server, list its tools, and report what models cannot use.

    The exit code is 1 if it cannot be used.
    """
    started = time.perf_counter()
    flags = Flags(mcp_config=mcp_config, no_mcp=no_mcp, builtin=False, **logging)
    with prepare(flags, use_servers={name}) as cli_setup:
        seconds = time.perf_counter() - started
        servers = cli_setup.servers
        entry = servers.catalog.find(name) if servers is not None else None
        if servers is None or entry is None:
            known = [] if servers is None else [each.name for each in servers.catalog.servers]
            raise UnknownName("MCP server", name, known)
        if not entry.settings.enabled:
            raise UsageError(
                f"the MCP server {name} is disabled in {entry.origin}: set enabled = true to test it"
            )
        status = next((each for each in servers.status() if each.name == name), None)
        if status is None:
            raise UsageError(f"the MCP server {name} is not trusted: run toolglot trust {entry.directory}")
        losses = _find_losses(cli_setup, model, every_keyword=json)
        sandbox = servers.sandbox.label if servers.sandbox is not None and entry.is_sandboxed else ""
        sandbox = sandbox if entry.settings.command else None  # a remote server cannot be confined
        tools = [
            {"name": tool.name, "description": tool.description, "effects": sorted(tool.effects)}
            for tool in servers.tools
        ]
        counts = {"prompts": status.prompt_count, "resources": status.resource_count}
        record = {
            "name": name,
            "state": status.state,
            "error": status.error,
            "seconds": round(seconds, 3),
            "server": f"{status.server_name} {status.server_version}".strip(),
            "protocol": status.protocol,
            "sandbox": sandbox,
            "trust": entry.settings.trust,
            "directory": entry.describe_directory(),
            "tools": tools,
            **counts,
            "problems": status.problems,
            "losses": losses,
        }
    if json:
        write_json_line(sys.stdout, record)
    else:
        _print_record(Printer(sys.stdout), record)
    return int(status.state != "ready")


def _find_losses(cli_setup: "CliSetup", model: str | None, *, every_keyword: bool) -> dict[str, list[str]]:
    """Return what each API format, or one model, cannot express of the tools."""
    if model is not None:
        targets: dict[str, Profile] = {
            model: find_profile(Setup(cli_setup.configuration.settings).resolve_model(model))
        }
    else:
        targets = {wire: resolve_profile(spec.default_profile) for wire, spec in SPECS.items()}
    definitions = tuple(tool.definition for tool in cli_setup.tools)
    losses: dict[str, list[str]] = {}
    for target, profile in targets.items():
        encoded = encode_request(Request(profile.model, [user("…")], definitions), profile)
        losses[target] = describe_losses(encoded.losses, every_keyword=every_keyword)
    return losses


def _print_record(printer: Printer, record: dict[str, Any]) -> None:
    printer.print_text(f"{record['name']}: {record['state']} after {record['seconds']:.1f} s", "bold")
    if record["error"]:
        printer.print_text(record["error"], "red", "  ")
        return
    rows = [("server", record["server"] or "unknown"), ("protocol", record["protocol"])]
    if record["sandbox"] is not None:
        rows.append(("sandbox", record["sandbox"] or "none: it runs with your full permissions"))
    rows.append(
        (
            "approval",
            "none: you trust it" if record["trust"] else "each call needs it, unless a rule allows it",
        )
    )
    rows += [(word, str(record[word])) for word in ("directory", "prompts", "resources") if record[word]]
    printer.print_pairs(rows)
    tools: list[Row] = []
    for tool in record["tools"]:
        summary = tool["description"].partition("\n")[0]
        tools.append((tool["name"], f"({', '.join(tool['effects'])}) {summary}"))
    printer.print_section(pluralize(len(tools), "tool"), tools)
    if record["problems"]:
        printer.print_section("Left out or changed", record["problems"].items())
    lost: list[Row] = []
    for target, losses in record["losses"].items():
        first, *others = losses or ["nothing"]
        lost.append((target, first.removeprefix("lost: ")))
        lost += [("", line.removeprefix("lost: ")) for line in others]
    printer.print_section("Lost", lost)
