"""What rules about the built-in tools are about: the command lines, files and addresses of a call.

Paths are real ones, with links resolved. What a rule cannot describe (variables, input, links of a page) is a subject of its
own, so that a rule for a command or an address does not cover it.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast

from msgspec.structs import replace

from toolglot.builtin.edit.patch_tool import list_patched_paths
from toolglot.builtin.tool_state import ToolState
from toolglot.builtin.web.pages import PageStore
from toolglot.tools.options import Scope
from toolglot.tools.rules import Subject
from toolglot.web_address import parse_site

__all__ = ["builtin_scopes", "command_subjects"]

Arguments = dict[str, Any]
_LISTING = ("glob", "list_dir")  # they show names, not what is in files
_READING = ("read", "view_image")
_SEARCHING = ("ast_search", "grep")
_FROM_WILDCARD = re.compile(r"[^/]*[*?\[{\\].*", re.DOTALL)  # a glob selects files below what stands before this
_CHANGING = ("write", "edit", "multi_edit", "insert", "notebook_edit", "ast_rewrite")


def builtin_scopes(state: ToolState, pages: PageStore) -> dict[str, Scope]:
    """Return the scope of each built-in tool that has one, by name."""
    root = str(state.workspace.root)

    def path_subject(path: Any, tool: str = "") -> Subject:
        if str(path) in state.output_files:
            return Subject("path", str(path), root, tool)
        return Subject("path", str(state.workspace.resolve(str(path or "."))), root, tool)

    def address_subject(target: Any) -> Subject:
        url = pages.resolve_target(str(target))
        parse_site(url)  # raises ToolError for what is not the address of a page
        return Subject("address", url, tool="web_open")

    def search_subject(path: Any) -> Subject:
        subject = path_subject(path, "read")
        return replace(subject, kind="directory") if os.path.isdir(subject.value) else subject

    def of_change(arguments: Arguments) -> Iterator[Subject]:
        yield (subject := path_subject(arguments.get("path"), "write"))
        if os.path.isdir(subject.value):
            yield Subject("other", f"all files below {subject.value}", tool="write")

    def of_patch(arguments: Arguments) -> Iterator[Subject]:
        return (path_subject(path, "write") for path in list_patched_paths(arguments))

    def of_page(arguments: Arguments) -> Iterator[Subject]:
        target = arguments.get("target")
        yield from map(address_subject, cast(list[Any], target) if isinstance(target, list) else [target])
        if arguments.get("link") is not None:
            yield Subject("other", f"link {arguments['link']} of the page", tool="web_open")

    def of_steps(arguments: Arguments) -> Iterator[Subject]:
        yield from (Subject("text", str(step.get("q")), tool="web_search") for step in _steps(arguments, "search_query"))
        for step in (*_steps(arguments, "open"), *_steps(arguments, "find")):
            yield from of_page({"target": step.get("ref_id"), "link": step.get("link")})

    scopes: dict[str, Callable[[Arguments], Iterator[Subject]]] = {
        **dict.fromkeys(_LISTING, lambda arguments: iter([path_subject(arguments.get("path"))])),
        **dict.fromkeys(_READING, lambda arguments: iter([path_subject(arguments.get("path"), "read")])),
        **dict.fromkeys(_SEARCHING, lambda arguments: iter([search_subject(arguments.get("path"))])),
        "read_many": lambda arguments: (
            search_subject(_FROM_WILDCARD.sub("", str(item))) for item in arguments.get("include") or ()
        ),
        **dict.fromkeys(_CHANGING, of_change),
        "patch": of_patch,
        "shell": command_subjects,
        "web_open": of_page,
        "web_find": of_page,
        "web_search": lambda arguments: (Subject("text", str(query)) for query in arguments.get("queries") or ()),
        "web": of_steps,
    }
    return {name: cast(Scope, scope) for name, scope in scopes.items()}


def command_subjects(arguments: Arguments) -> Iterator[Subject]:
    """Yield the command lines of a call, and whatever else decides what they do."""
    argv = cast(list[Any] | None, arguments.get("argv"))
    lines = [shlex.join(map(str, argv)) if argv else str(arguments.get("command") or "")]
    yield from (Subject("command", line) for line in (*lines, *map(str, arguments.get("then") or ())) if line)
    for name, value in cast(dict[str, Any], arguments.get("env") or {}).items():
        yield Subject("other", f"the variable {name}={value}")
    if arguments.get("stdin") is not None:
        yield Subject("other", "the input of the command")


def _steps(arguments: Arguments, kind: str) -> list[Arguments]:
    return cast(list[Arguments], arguments.get(kind) or [])
