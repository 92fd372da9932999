"""`toolglot trust`: trust a project's directory after showing what its file asks for."""

from pathlib import Path

import click

from toolglot.cli.config import show_withheld
from toolglot.cli.printer import print_line, print_note
from toolglot.config.instructions import load_instructions
from toolglot.config.layers import PROJECT_FILE, find_project_file, read_configuration
from toolglot.config.mcp_servers import find_servers
from toolglot.config.settings import InstructionSettings
from toolglot.config.trust import is_trusted, list_trusted_directories, revoke_trust, trust_directory
from toolglot.errors import UsageError
from toolglot.sanitize import escape_line


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="Stop trusting it.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted directories.")
def trust(directory: Path | None, remove: bool, list_all: bool) -> None:
    """Trust the toolglot.toml of a directory.

    A trusted file can change any setting: load tools, set URLs, relax rules. Its AGENTS.md and skills are used, too, and the
    MCP servers in its .mcp.json, .vscode/mcp.json and .cursor/mcp.json are started. DIRECTORY defaults to that of the
    project file.
    """
    if list_all:
        for trusted in list_trusted_directories():
            print_line(str(trusted))
        if not list_trusted_directories():
            print_note("no directory is trusted")
        return
    if directory is None:
        directory, project = Path.cwd(), find_project_file()
        if project is None and not remove:
            raise UsageError(f"there is no {PROJECT_FILE} here: name the directory to trust it anyway")
        directory = project.parent if project else directory
    elif not directory.is_dir():
        raise UsageError(f"no such directory: {str(directory)!r}")
    directory = directory.resolve()
    name, was_trusted = str(directory), is_trusted(directory)
    if remove:
        revoke_trust(directory)
        print_line(f"{name} is no longer trusted" if was_trusted else f"{name} was not trusted")
    elif was_trusted:
        print_line(f"{name} is already trusted")
        return
    elif not (directory / PROJECT_FILE).exists():
        print_line(f"{name} has no {PROJECT_FILE} yet")
    _show_effects(directory, is_removed=remove)
    if not remove:
        trust_directory(directory)
        print_line(
            f"{name} is now trusted: {PROJECT_FILE} files in it and below it can change any setting, and its instructions count"
        )


def _show_effects(directory: Path, *, is_removed: bool) -> None:
    """Print everything in a directory that needs trust."""
    for path in load_instructions(directory, InstructionSettings()).withheld:
        print_line(f"{path} {'is now ignored' if is_removed else 'has instructions for models'}")
    effect = "are now ignored" if is_removed else "need trust"
    configuration = read_configuration(directory=directory, trusted=False)
    for entry in find_servers(configuration, directory=directory, trusted=False).withheld:
        verb = "no longer starts" if is_removed else "starts"
        print_line(escape_line(f"{entry.origin} {verb} the MCP server {entry.name}: {entry.claim}"))
    show_withheld(configuration, f"settings in its {PROJECT_FILE} that {effect}:")
