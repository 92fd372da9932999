"""What inside a workspace is not the model's: toolglot's own files and programs, and the settings in the home directory.

These are paths, not names: they are closed whether they exist or not.
"""

import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from toolglot.common.user_dirs import own_paths
from toolglot.confine.programs import own_program_paths
from toolglot.confine.roots import Root

__all__ = ["MAX_CHILDREN", "ClosedPaths", "find_closed_paths", "fold_name", "list_names", "narrow_root", "pin_parents"]

MAX_CHILDREN = 500
"""Of a directory whose entries are allowed one by one: the others are read-only."""


class ClosedPaths(msgspec.Struct, frozen=True):
    """Real paths inside the roots that are not the model's."""

    own: tuple[Path, ...]
    """toolglot's own files: no tool reads or changes them."""
    programs: tuple[Path, ...]
    """The Python that runs toolglot, and its package: no tool changes them."""
    home: Path | None
    """The home directory, if it is in a root: names that begin with a dot are closed in it."""
    unprotected: frozenset[str]
    """Names in the home directory that are open nevertheless."""

    def find_reason(self, path: str, *, reading: bool = False) -> str:
        """Return why a real path may not be changed, or read; "" if it may."""
        if not self.own and not self.programs and self.home is None:
            return ""
        folded = _fold_path(path)
        if any(folded[: len(parts)] == parts for parts in map(_fold_path, self.own)):
            return "toolglot keeps its own files there"
        if not reading and any(folded[: len(parts)] == parts for parts in map(_fold_path, self.programs)):
            return "it is part of the Python that runs toolglot (builtin.unprotected opens it)"
        if self.home is not None and folded[: len(home := _fold_path(self.home))] == home:
            name = "".join(folded[len(home) : len(home) + 1])
            if name.startswith(".") and name not in self.unprotected:
                return "settings in the home directory are not part of the workspace (builtin.unprotected opens some)"
        return ""

    @property
    def notice(self) -> str:
        """What to tell a user whose home directory is in the workspace."""
        return (
            f"the workspace contains your home directory {str(self.home)!r}: in it, names that begin with a dot are neither "
            "read nor changed, and commands create nothing directly there; use --root to choose another directory"
        )

    def list_home_settings(self) -> list[Path]:
        """Return the closed entries of the home directory; one at least, as new ones are closed as well."""
        if self.home is None:
            return []
        names = [name for name in list_names(self.home) if name.startswith(".") and fold_name(name) not in self.unprotected]
        return [self.home / name for name in (*names, ".config")]

    def list_read_only(self) -> list[Path]:
        """Return everything that commands cannot write."""
        return [*self.own, *self.programs, *self.list_home_settings()]


def find_closed_paths(roots: Iterable[Path], private: Iterable[Path], unprotected: Collection[str]) -> ClosedPaths:
    """Return what is closed in these roots. `private`: other directories of ours."""
    roots = tuple(roots)

    def is_inside(path: Path) -> bool:
        return any(path.is_relative_to(root) for root in roots)

    own = {*own_paths(), *(Path(os.path.realpath(path)) for path in private)}
    home, names = Path(os.path.realpath(os.path.expanduser("~"))), frozenset(map(fold_name, unprotected))
    programs = (path for path in own_program_paths() if is_inside(path) and path not in roots)
    return ClosedPaths(
        own=tuple(path for path in own if is_inside(path)),
        programs=tuple(path for path in programs if fold_name(path.name) not in names),
        home=home if is_inside(home) else None,
        unprotected=names,
    )


def narrow_root(root: Root, closed: Collection[Path]) -> Iterator[Root]:
    """Split a root so that nothing can be created or renamed in a directory that has a closed path in it.

    Such a directory becomes read-only, and its other entries stay as they are.
    """
    inside = [path for path in closed if path.is_relative_to(root.path)]
    if not inside or not root.writable:
        yield root
        return
    yield Root(root.path, writable=False)
    if root.path in inside:
        return
    for name in list_names(root.path)[:MAX_CHILDREN]:
        child = root.path / name
        if not child.is_symlink() and child not in inside and (child.is_dir() or child.is_file()):
            yield from narrow_root(Root(child), inside)


def pin_parents(roots: Collection[Root], paths: Collection[Path]) -> Iterator[Root]:
    """Return the directories between roots and paths in them: as mounts of their own they cannot be renamed."""
    for path in paths:
        around = [root for root in roots if path.is_relative_to(root.path)]
        root = max(around, key=lambda root: len(root.path.parts), default=None)
        if root is not None and root.writable and not any(other in path.parents for other in paths):
            parents = [parent for parent in reversed(path.parents) if parent.is_relative_to(root.path)]
            yield from (Root(parent) for parent in parents[1:])


def list_names(directory: Path) -> list[str]:
    """Return what is in a directory; nothing if it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _fold_path(path: str | Path) -> list[str]:
    return [fold_name(name) for name in str(path).split("/") if name]


@lru_cache(4096)
def fold_name(name: str) -> str:
    """Return a name as the most lenient file system compares it: any case, any composition, trailing dots, streams."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    visible = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    return visible.partition(":")[0].rstrip(". ")
