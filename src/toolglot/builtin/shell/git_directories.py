"""Tells git directories apart that are as `git init` and `git clone` make them: git runs nothing because of them."""

import os
import re
from pathlib import Path

from toolglot.builtin.shell.quarantine import read_beneath

__all__ = ["GIT_NESTED", "GIT_SENSITIVE", "is_harmless"]

# What git runs or obeys. The rest of a git directory is large, and every git command changes it.
GIT_SENSITIVE = frozenset({"hooks", "config", "config.worktree", "info", "commondir", "remotes", "branches"})
GIT_NESTED = frozenset({"modules", "worktrees"})

_MAX_CONFIG_SIZE = 64 * 1024
_SECTION = re.compile(r'\[(core|remote|branch)( "(?!-)[\w./+@-]+")?\]')
# Addresses: no helpers ("ext::program", "helper://"), no options, and nothing that is quoted, continued or a comment.
_SETTING = re.compile(
    r"core\.(repositoryformatversion = 0|bare = false"
    r"|(filemode|logallrefupdates|ignorecase|precomposeunicode|symlinks) = (true|false))"
    r'|remote\.url = (?!-|.*::)(((https?|ssh)://|git@)(?!-)[^\x00-\x1f\x7f"\\;#]+|[^\x00-\x1f\x7f"\\;#:]+)'
    r"|remote\.fetch = \+?refs/[\w./+@*-]+:refs/[\w./+@*-]+"
    r"|branch\.(remote = (?!-)[\w.-]+|merge = refs/[\w./+@-]+)"
)


def is_harmless(root: Path, name: str) -> bool:
    """Return whether a git directory has no hooks, none but ordinary settings, and leads nowhere else."""
    path, config = root / name, ""
    try:
        if os.path.basename(name) != ".git" or path.is_symlink():
            return False
        with os.scandir(path) as iterator:
            entries = {entry.name: entry for entry in iterator}
        # By any spelling, as some file systems do not tell them apart.
        sensitive = {entry for entry in entries if entry.casefold() in GIT_SENSITIVE | GIT_NESTED}
        names = {entry: os.listdir(path / entry) for entry in sensitive - {"config"}}
        if "config" in entries:
            # With a second link, it could be changed by its other name.
            if not entries["config"].is_file() or os.lstat(path / "config").st_nlink != 1:
                return False
            data = read_beneath(root, f"{name}/config", _MAX_CONFIG_SIZE)
            if data is None or len(data) > _MAX_CONFIG_SIZE:
                return False
            config = data.decode()
    except (OSError, UnicodeDecodeError):
        return False
    section = ""
    for line in config.split("\n"):
        text = line.strip(" \t")
        if match := _SECTION.fullmatch(text):
            section = match[1]
        elif text and not _SETTING.fullmatch(f"{section}.{text}"):
            return False
    return (
        sensitive <= {"config", "hooks", "info", "branches"}
        and not any(entry.is_symlink() for entry in entries.values())
        and all(hook.endswith(".sample") for hook in names.get("hooks", ()))
        and names.get("info", []) in ([], ["exclude"])
        and not names.get("branches")
    )
