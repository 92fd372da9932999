"""`toolglot trust`: trust a project's directory after showing what its files ask for."""

from pathlib import Path

import click

from toolglot.cli.config import show_withheld
from toolglot.cli.printer import print_line, print_note
from toolglot.common.sanitize import escape_line
from toolglot.config.instructions import load_instructions
from toolglot.config.layers import PROJECT_FILE, find_project_file, read_configuration
from toolglot.config.mcp_servers import find_servers
from toolglot.config.settings import InstructionSettings
from toolglot.config.trust import is_trusted, list_trusted_directories, revoke_trust, trust_directory
from toolglot.errors import UsageError


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="Stop trusting it.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted directories.")
def trust(directory: Path | None, remove: bool, list_all: bool) -> None:
    """Trust a project: its settings, instructions and MCP servers.

    A trusted toolglot.toml can change any setting: load tools, set URLs, relax rules. AGENTS.md and skills
    are used, and the MCP servers in .mcp.json, .vscode/mcp.json and .cursor/mcp.json are started. DIRECTORY
    defaults to the current directory and its parents, up to the root of the repository, as far as they have
    any of these.
    """
    if list_all:
        for trusted in list_trusted_directories():
            print_line(str(trusted))
        if not list_trusted_directories():
            print_note("no directory is trusted")
        return
    if directory is not None and not directory.is_dir():
        raise UsageError(f"no such directory: {str(directory)!r}")
    if remove:
        if directory is None:
            project = find_project_file()
            directory = project.parent if project is not None else Path.cwd()
        _revoke(directory.resolve())
    else:
        directories = _find_directories() if directory is None else [directory]
        _grant([each.resolve() for each in directories])


def _find_directories() -> list[Path]:
    """Return the current directory and its parents, if they have anything to trust. Raises UsageError."""
    project, here = find_project_file(), Path.cwd()
    directories = {project.parent} if project else set[Path]()
    directories.update(load_instructions(here, InstructionSettings()).withheld.values())
    servers = find_servers(read_configuration(trusted=False), trusted=False).withheld
    directories.update(entry.directory for entry in servers)
    if not directories and not is_trusted(here):
        raise UsageError("nothing here needs trust: name the directory to trust it anyway")
    return sorted(directories or {here})


def _grant(directories: list[Path]) -> None:
    for directory in (
        each for each in directories if not is_trusted(each)
    ):  # before any of them is trusted, which also trusts its subdirectories
        _show_effects(directory, is_removed=False)
    effect = (
        f"{PROJECT_FILE} files in it and below it can change any setting, and its instructions will be used"
    )
    for directory in directories:
        if is_trusted(directory):
            print_line(f"{directory} is already trusted")
        else:
            trust_directory(directory)
            print_line(f"{directory} is now trusted: {effect}")


def _revoke(directory: Path) -> None:
    if not is_trusted(directory):
        print_line(f"{directory} was not trusted")
        return
    revoke_trust(directory)
    print_line(f"{directory} is no longer trusted")
    _show_effects(directory, is_removed=True)


def _show_effects(directory: Path, *, is_removed: bool) -> None:
    """Print everything in a directory that needs trust."""
    instructions = load_instructions(directory, InstructionSettings())
    effect = "is now ignored" if is_removed else "has instructions for models"
    for path, owner in instructions.withheld.items():
        if owner == directory:
            print_line(f"{path} {effect}")
    configuration = read_configuration(directory=directory, trusted=False)
    catalog = find_servers(configuration, directory=directory, trusted=False)
    verb = "no longer starts" if is_removed else "starts"
    for entry in catalog.withheld:
        if entry.directory != directory or entry.is_setting:  # a setting is listed with the others
            continue
        line = f"{entry.origin} {verb} the MCP server {entry.name}: {entry.claim}"
        if entry.settings.command:
            line += f", in {entry.describe_directory()}"
        print_line(escape_line(line))
    verb = "runs in the sandbox" if is_removed else "leaves the sandbox"
    for entry in catalog.servers:
        use, place = entry.find_workspace_use()
        if use and entry.settings.sandbox is None and place.is_relative_to(directory):
            print_line(
                escape_line(
                    f"your MCP server {entry.name} {verb}: {entry.target}, in {entry.describe_directory()}"
                )
            )
    if configuration.project == directory:
        effect = "are now ignored" if is_removed else "need trust"
        show_withheld(configuration, f"settings in its {PROJECT_FILE} that {effect}:")
