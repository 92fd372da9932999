"""`toolglot trust`: what a project's file asks for is shown before its folder is trusted."""

from pathlib import Path

from toolglot.cli.config import show_withheld
from toolglot.cli.sanitize import escape_invisible
from toolglot.config.layers import PROJECT_FILE, find_project_file, read_configuration
from toolglot.config.trust import is_trusted, list_trusted_directories, revoke_trust, trust_directory
from toolglot.errors import UsageError

__all__ = ["update_trust"]


def update_trust(directory: Path | None, *, remove: bool, list_all: bool) -> int:
    """Trusts a folder (else that of the project's file), takes that back, or lists all; the exit code."""
    if list_all:
        for one in list_trusted_directories():
            print(escape_invisible(str(one)))
        return 0
    chosen = _resolve_directory(directory)
    name = escape_invisible(str(chosen))
    if remove:
        was = is_trusted(chosen)
        revoke_trust(chosen)
        print(f"{name} is no longer trusted" if was else f"{name} was not trusted")
        show_withheld(read_configuration(directory=chosen, trusted=False), f"this is held back from its {PROJECT_FILE}:")
        return 0
    if is_trusted(chosen):
        print(f"{name} is trusted already")
        return 0
    if not (chosen / PROJECT_FILE).exists():
        print(f"there is no {PROJECT_FILE} in {name} yet")
    show_withheld(read_configuration(directory=chosen, trusted=False), f"its {PROJECT_FILE} asks for what needs trust:")
    trust_directory(chosen)
    print(f"{name} is trusted: its {PROJECT_FILE} may set anything, and so may those in folders below it")
    return 0


def _resolve_directory(directory: Path | None) -> Path:
    if directory is None:
        project = find_project_file()
        return project.parent if project else Path.cwd()
    if not directory.is_dir():
        raise UsageError(f"there is no folder {str(directory)!r}")
    return directory.resolve()
