"""`toolglot trust`: what a project's file asks for is shown before its folder is trusted."""

from pathlib import Path

from toolglot.cli.config import show_held_back
from toolglot.cli.visible import visible
from toolglot.config.read import PROJECT_FILE, project_file, read_configuration
from toolglot.config.trust import distrust, is_trusted, trust, trusted_folders
from toolglot.errors import UsageError

__all__ = ["trust_folder"]


def trust_folder(folder: Path | None, *, remove: bool, listed: bool) -> int:
    """Trusts a folder (else that of the project's file), takes that back, or lists all; the exit code."""
    if listed:
        for one in trusted_folders():
            print(visible(str(one)))
        return 0
    chosen = _chosen(folder)
    name = visible(str(chosen))
    if remove:
        was = is_trusted(chosen)
        distrust(chosen)
        print(f"{name} is no longer trusted" if was else f"{name} was not trusted")
        show_held_back(read_configuration(folder=chosen, trusted=False), f"this is held back from its {PROJECT_FILE}:")
        return 0
    if is_trusted(chosen):
        print(f"{name} is trusted already")
        return 0
    if not (chosen / PROJECT_FILE).exists():
        print(f"there is no {PROJECT_FILE} in {name} yet")
    show_held_back(read_configuration(folder=chosen, trusted=False), f"its {PROJECT_FILE} asks for what needs trust:")
    trust(chosen)
    print(f"{name} is trusted: its {PROJECT_FILE} may set anything, and so may those in folders below it")
    return 0


def _chosen(folder: Path | None) -> Path:
    if folder is None:
        project = project_file()
        return project.parent if project else Path.cwd()
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}")
    return folder.resolve()
