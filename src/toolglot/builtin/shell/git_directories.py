"""Tells git directories apart that are as `git init` and `git clone` make them: git runs nothing because of
them.
"""

import os
import re
import stat
from pathlib import Path

from toolglot.builtin.shell.quarantine import read_beneath

__all__ = ["GIT_NESTED", "GIT_SENSITIVE", "is_harmless"]

# What git runs or obeys. The rest of a git directory is large, and every git command changes it.
GIT_SENSITIVE = frozenset({"hooks", "config", "config.worktree", "info", "commondir", "remotes", "branches"})
GIT_NESTED = frozenset({"modules", "worktrees"})

_MAX_CONFIG_SIZE = 64 * 1024
_SECTION = re.compile(r'\[(core|remote|branch)( "(?!-)[\w./+@-]+")?\]')
# Addresses: no helpers ("ext::program", "helper://"), no options, and nothing that is quoted, continued or a
# comment.
_SETTING = re.compile(
    r"core\.(repositoryformatversion = 0|bare = false"
    r"|(filemode|logallrefupdates|ignorecase|precomposeunicode|symlinks) = (true|false))"
    r'|remote\.url = (?!-|.*::)(((https?|ssh)://|git@)(?!-)[^\x00-\x1f\x7f"\\;#]+|[^\x00-\x1f\x7f"\\;#:]+)'
    r"|remote\.fetch = \+?refs/[\w./+@*-]+:refs/[\w./+@*-]+"
    r"|branch\.(remote = (?!-)[\w.-]+|merge = refs/[\w./+@-]+)"
)


def is_harmless(root: Path, name: str) -> bool:
    """Return whether a git directory has no hooks, none but ordinary settings, and leads nowhere else."""
    path = root / name
    try:
        if os.path.basename(name) != ".git" or path.is_symlink():
            return False
        with os.scandir(path) as iterator:
            entries = list(iterator)
        if any(entry.is_symlink() for entry in entries):
            return False
        # By any spelling, as some file systems do not tell them apart.
        sensitive = {entry.name for entry in entries if entry.name.casefold() in GIT_SENSITIVE | GIT_NESTED}
        if not sensitive <= {"config", "hooks", "info", "branches"}:
            return False
        names = {part: os.listdir(path / part) for part in sensitive - {"config"}}
        if "config" in sensitive and not _has_ordinary_settings(root, f"{name}/config"):
            return False
    except (OSError, UnicodeDecodeError):
        return False
    has_hooks = not all(hook.endswith(".sample") for hook in names.get("hooks", ()))
    has_information = names.get("info", []) not in ([], ["exclude"])
    has_branches = bool(names.get("branches"))
    return not (has_hooks or has_information or has_branches)


def _has_ordinary_settings(root: Path, name: str) -> bool:
    """Whether a file of git's settings has none that name a program, or another file.

    Raises OSError, UnicodeDecodeError.
    """
    status = os.lstat(root / name)
    # With a second link, it could be changed by its other name.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return False
    data = read_beneath(root, name, _MAX_CONFIG_SIZE)
    if data is None or len(data) > _MAX_CONFIG_SIZE:
        return False
    section = ""
    for line in data.decode().split("\n"):
        text = line.strip(" \t")
        if match := _SECTION.fullmatch(text):
            section = match[1]
        elif text and not _SETTING.fullmatch(f"{section}.{text}"):
            return False
    return True
