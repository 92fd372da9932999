"""What inside a workspace is not the model's: toolglot's own files and programs, and the settings in the home
directory.

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

__all__ = [
    "MAX_CHILDREN",
    "ClosedPaths",
    "find_closed_paths",
    "fold_name",
    "list_names",
    "narrow_root",
    "pin_parents",
]

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
        names = _fold_path(path)
        if _is_in_any(names, self.own):
            return "toolglot keeps its own files there"
        if not reading and _is_in_any(names, self.programs):
            return "it is part of the Python that runs toolglot (builtin.unprotected opens it)"
        if self._is_home_setting(names):
            return (
                "settings in the home directory are not part of the workspace (builtin.unprotected opens "
                "some)"
            )
        return ""

    def _is_home_setting(self, names: list[str]) -> bool:
        """Whether a folded path is a closed entry of the home directory, or in one."""
        if self.home is None or not _starts_with(names, self.home):
            return False
        inner_names = names[len(_fold_directory(self.home)) :]
        return bool(inner_names) and inner_names[0].startswith(".") and inner_names[0] not in self.unprotected

    @property
    def notice(self) -> str:
        """What to tell a user whose home directory is in the workspace."""
        return (
            f"the workspace contains your home directory {str(self.home)!r}: in it, names that begin with a "
            "dot are neither "
            "read nor changed, and commands create nothing directly there; use --root to choose another "
            "directory"
        )

    def list_home_settings(self) -> list[Path]:
        """Return the closed entries of the home directory; one at least, as new ones are closed as well."""
        if self.home is None:
            return []
        dot_names = [name for name in list_names(self.home) if name.startswith(".")]
        closed_names = [name for name in dot_names if fold_name(name) not in self.unprotected]
        return [self.home / name for name in (*closed_names, ".config")]

    def list_read_only(self) -> list[Path]:
        """Return everything that commands cannot write."""
        return [*self.own, *self.programs, *self.list_home_settings()]


def find_closed_paths(
    roots: Iterable[Path], private: Iterable[Path], unprotected: Collection[str]
) -> ClosedPaths:
    """Return what is closed in these roots. `private`: other directories of ours."""
    roots = tuple(roots)

    def is_inside(path: Path) -> bool:
        return any(path.is_relative_to(root) for root in roots)

    own = {*own_paths(), *(Path(os.path.realpath(path)) for path in private)}
    home = Path(os.path.realpath(os.path.expanduser("~")))
    open_names = frozenset(map(fold_name, unprotected))
    programs = [
        path for path in own_program_paths() if path not in roots and fold_name(path.name) not in open_names
    ]
    return ClosedPaths(
        own=tuple(filter(is_inside, own)),
        programs=tuple(filter(is_inside, programs)),
        home=home if is_inside(home) else None,
        unprotected=open_names,
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
        if child in inside or child.is_symlink():
            continue
        if child.is_dir() or child.is_file():
            yield from narrow_root(Root(child), inside)


def pin_parents(roots: Collection[Root], paths: Collection[Path]) -> Iterator[Root]:
    """Return the directories between roots and paths in them: as mounts of their own they cannot be renamed."""
    for path in paths:
        if any(other in path.parents for other in paths):  # that one's are enough
            continue
        root = _find_innermost(roots, path)
        if root is None or not root.writable:
            continue
        parents = [parent for parent in reversed(path.parents) if parent.is_relative_to(root.path)]
        yield from map(Root, parents[1:])  # without the root itself


def _find_innermost(roots: Iterable[Root], path: Path) -> Root | None:
    """Return the innermost root that a path is in."""
    around = [root for root in roots if path.is_relative_to(root.path)]
    return max(around, key=lambda root: len(root.path.parts), default=None)


def list_names(directory: Path) -> list[str]:
    """Return what is in a directory; nothing if it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _fold_path(path: str) -> list[str]:
    return [fold_name(name) for name in path.split("/") if name]


@lru_cache(256)
def _fold_directory(directory: Path) -> list[str]:
    """Return a closed directory folded; there are few, with which every path is compared."""
    return _fold_path(str(directory))


def _starts_with(names: list[str], directory: Path) -> bool:
    """Whether a folded path is a directory, or in it."""
    parts = _fold_directory(directory)
    return names[: len(parts)] == parts


def _is_in_any(names: list[str], directories: Iterable[Path]) -> bool:
    return any(_starts_with(names, directory) for directory in directories)


@lru_cache(4096)
def fold_name(name: str) -> str:
    """Return a name as the most lenient file system compares it: any case, any composition, trailing dots,
    streams.
    """
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    visible = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    return visible.partition(":")[0].rstrip(". ")
