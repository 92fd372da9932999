"""`toolglot trust`: trust a project's directory after showing what its file asks for."""

from pathlib import Path

from toolglot.cli.config import show_withheld
from toolglot.cli.sanitize import escape_invisible
from toolglot.config.layers import PROJECT_FILE, find_project_file, read_configuration
from toolglot.config.trust import is_trusted, list_trusted_directories, revoke_trust, trust_directory
from toolglot.errors import UsageError

__all__ = ["update_trust"]


def update_trust(directory: Path | None, *, remove: bool, list_all: bool) -> int:
    """Trust a directory (default: the project's), revoke that, or list all trusted ones; return the exit code."""
    if list_all:
        for trusted in list_trusted_directories():
            print(escape_invisible(str(trusted)))
        return 0
    if directory is None:
        project = find_project_file()
        directory = project.parent if project else Path.cwd()
    elif not directory.is_dir():
        raise UsageError(f"no such directory: {str(directory)!r}")
    directory = directory.resolve()
    name = escape_invisible(str(directory))
    if remove:
        was_trusted = is_trusted(directory)
        revoke_trust(directory)
        print(f"{name} is no longer trusted" if was_trusted else f"{name} was not trusted")
        configuration = read_configuration(directory=directory, trusted=False)
        show_withheld(configuration, f"settings in its {PROJECT_FILE} that are now ignored:")
        return 0
    if is_trusted(directory):
        print(f"{name} is already trusted")
        return 0
    if not (directory / PROJECT_FILE).exists():
        print(f"{name} has no {PROJECT_FILE} yet")
    configuration = read_configuration(directory=directory, trusted=False)
    show_withheld(configuration, f"settings in its {PROJECT_FILE} that need trust:")
    trust_directory(directory)
    print(f"{name} is now trusted: {PROJECT_FILE} files in it and below it can change any setting")
    return 0
