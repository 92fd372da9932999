"""Plug-ins: what installed packages add through entry points (`[project.entry-points."toolglot.tools"]`).

Entry points are read when a name is used that is not built in, and only the plug-in with that name is
imported. Built-in names take precedence.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from toolglot.errors import UnknownName, UsageError

__all__ = ["PLUGIN_KINDS", "Plugin", "PluginKind", "list_plugins", "load_plugin"]

PluginKind = Literal["tools", "facades", "profiles", "wires", "sign_ins", "transports", "commands"]
"""What a plug-in adds."""
PLUGIN_KINDS: dict[PluginKind, str] = {
    "tools": "tools",
    "facades": "facade",
    "profiles": "provider",
    "wires": "wire",
    "sign_ins": "sign-in",
    "transports": "transport",
    "commands": "command",
}
"""Kind -> the singular noun for messages. Its entry point group is `toolglot.KIND`."""


class Plugin(msgspec.Struct, frozen=True, order=True):
    """One entry point."""

    kind: PluginKind
    """What it adds."""
    name: str
    """Its name."""
    package: str
    """The package that installs it."""
    version: str
    """The version of that package."""
    target: str
    """The object to import: `module:object`."""

    @property
    def origin(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}"


def list_plugins() -> tuple[Plugin, ...]:
    """Return all installed plug-ins without importing them."""
    return tuple(sorted(_read_entry_points()[0]))


def plugin_names(kind: PluginKind) -> tuple[str, ...]:
    """Return the names of all plug-ins of a kind."""
    return tuple(plugin.name for plugin in list_plugins() if plugin.kind == kind)


def load_plugin(kind: PluginKind, name: str) -> Any:
    """Import the plug-in with this name.

    Raises UnknownName; UsageError if it cannot be imported, or two packages have it.
    """
    if kind not in PLUGIN_KINDS:
        raise UnknownName("kind of plug-in", kind, PLUGIN_KINDS)
    plugin = find_plugin(kind, name)
    if plugin is None:
        raise UnknownName(f"plug-in with {PLUGIN_KINDS[kind]}", name, plugin_names(kind))
    return plugin


@cache
def find_plugin(kind: PluginKind, name: str) -> Any:
    """Import the plug-in with this name; None if there is none.

    Raises UsageError if it cannot be imported, or two have it.
    """
    plugins = [plugin for plugin in list_plugins() if (plugin.kind, plugin.name) == (kind, name)]
    if not plugins:
        return None
    if len(plugins) > 1:
        raise UsageError(_describe_conflict(kind, name, [plugin.origin for plugin in plugins]))
    try:
        return _read_entry_points()[0][plugins[0]].load()
    except (Exception, SystemExit) as e:  # third-party code may raise anything
        raise plugin_error(kind, name, f"cannot be loaded: {type(e).__name__}: {e}") from e


def plugin_error(kind: PluginKind, name: str, problem: str) -> UsageError:
    """Return the error for a plug-in that does not work. `problem`: "is not a Facade"."""
    origins = [plugin.origin for plugin in list_plugins() if (plugin.kind, plugin.name) == (kind, name)]
    package = " and ".join(origins) or "that was installed"
    return UsageError(
        f"the {PLUGIN_KINDS[kind]} {name!r} of the package {package} {problem}; update or uninstall the "
        "package"
    )


def describe_problems(own_names: Mapping[PluginKind, Collection[str]]) -> list[str]:
    """Return a sentence for every package that cannot be read, every name that several packages have, and
    every plug-in that cannot be imported. Imports all plug-ins to find out.

    `own_names`: the built-in names, by kind.
    """
    packages: dict[tuple[PluginKind, str], list[str]] = {}
    for plugin in list_plugins():
        origins = ["toolglot"] if plugin.name in own_names.get(plugin.kind, ()) else list[str]()
        packages.setdefault((plugin.kind, plugin.name), origins).append(plugin.origin)
    conflicts = [
        _describe_conflict(kind, name, origins)
        for (kind, name), origins in packages.items()
        if len(origins) > 1
    ]
    broken: list[str] = []
    for (kind, name), origins in packages.items():
        if len(origins) > 1:
            continue
        try:
            find_plugin(kind, name)
        except UsageError as e:
            broken.append(str(e))
    return [*_read_entry_points()[1], *conflicts, *broken]


def _describe_conflict(kind: PluginKind, name: str, origins: list[str]) -> str:
    outcome = "the built-in one is used" if "toolglot" in origins else "uninstall all but one"
    return f"several packages have the {PLUGIN_KINDS[kind]} {name!r}: {', '.join(origins)}; {outcome}"


@cache
def _read_entry_points() -> tuple[dict[Plugin, Any], list[str]]:
    """Return every plug-in with its entry point, and a sentence for each package whose entry points cannot be
    read.
    """
    # not at the top: it takes longer to import than this whole package
    from importlib.metadata import distributions

    kinds: dict[str, PluginKind] = {f"toolglot.{kind}": kind for kind in PLUGIN_KINDS}
    plugins: dict[Plugin, Any] = {}
    packages: set[str] = set()
    problems: list[str] = []
    # Not `entry_points()`: a single package with a damaged file, even an unrelated one, would hide all
    # others.
    for distribution in distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in kinds]
        except Exception as e:
            name = distribution.metadata["Name"] or "without a name"
            problems.append(
                f"the entry points of the package {name} cannot be read: {type(e).__name__}: {e}; reinstall "
                "it"
            )
            continue
        if not entries:
            continue
        package = distribution.metadata["Name"] or "unknown"
        version = distribution.metadata["Version"] or ""
        if package in packages:  # one earlier in sys.path hides it
            continue
        packages.add(package)
        for entry in entries:
            plugins[Plugin(kinds[entry.group], entry.name, package, version, entry.value)] = entry
    return plugins, problems
