"""What rules about the built-in tools are about: the files and command lines of a call.

Paths are real ones, with links resolved. What a rule cannot describe (variables, input, links of a page) is a
subject of its own, so that a rule for a command or an address does not cover it.
"""

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from toolglot.builtin.tool_state import ToolState
from toolglot.tools.options import Scope
from toolglot.tools.rules import Subject

__all__ = ["change_scope", "command_subjects", "include_scope", "path_scope", "path_subject", "search_scope"]

Arguments = dict[str, Any]
# a glob selects files below what stands before this
_FROM_WILDCARD = re.compile(r"[^/]*[*?\[{\\].*", re.DOTALL)


def path_subject(state: ToolState, path: Any, tool: str = "") -> Subject:
    """Return the subject that a path is. `tool`: the tool whose rules are about it as well."""
    root = str(state.workspace.root)
    if str(path) in state.output_files:
        return Subject("path", str(path), root, tool)
    return Subject("path", str(state.workspace.resolve(str(path or "."))), root, tool)


def _search_subject(state: ToolState, path: Any) -> Subject:
    """Return the subject of a search: all files below a directory, or one file."""
    subject = path_subject(state, path, "read")
    return replace(subject, kind="directory") if os.path.isdir(subject.value) else subject


def path_scope(state: ToolState, tool: str = "") -> Scope:
    """Return the scope of a tool that is about one path."""
    return lambda arguments: [path_subject(state, arguments.get("path"), tool)]


def search_scope(state: ToolState) -> Scope:
    """Return the scope of a tool that looks into files."""
    return lambda arguments: [_search_subject(state, arguments.get("path"))]


def include_scope(state: ToolState) -> Scope:
    """Return the scope of a tool that reads the files which `include` selects."""

    def list_subjects(arguments: Arguments) -> Iterator[Subject]:
        for pattern in arguments.get("include") or ():
            yield _search_subject(state, _FROM_WILDCARD.sub("", str(pattern)))

    return list_subjects


def change_scope(state: ToolState) -> Scope:
    """Return the scope of a tool that changes a file, or the files below a directory."""

    def list_subjects(arguments: Arguments) -> Iterator[Subject]:
        yield (subject := path_subject(state, arguments.get("path"), "write"))
        if os.path.isdir(subject.value):
            yield Subject("other", f"all files below {subject.value}", tool="write")

    return list_subjects


def command_subjects(arguments: Arguments) -> Iterator[Subject]:
    """Yield the command lines of a call, and whatever else decides what they do."""
    argv = cast(list[Any] | None, arguments.get("argv"))
    command = shlex.join(map(str, argv)) if argv else str(arguments.get("command") or "")
    for line in (command, *map(str, arguments.get("then") or ())):
        if line:
            yield Subject("command", line)
    for name, value in cast(dict[str, Any], arguments.get("env") or {}).items():
        yield Subject("other", f"the variable {name}={value}")
    if arguments.get("stdin") is not None:
        yield Subject("other", "the input of the command")
