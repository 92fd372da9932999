"""Base calls that come to the same: one form for each, and other base tools that would have done it.

A call is said to another model in the form that its tools have. What is compared, to tell what was lost, is the one form; what
no tool of that model can say is said by another of its tools that does the same. Nothing here runs: history only.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = ["HARNESS_PARAMETERS", "SUBSTITUTES", "Arguments", "alternatives", "canonical_call", "render_patch"]

Arguments = dict[str, Any]
# How a harness wants results and limits what is run: its own affair, which no other model need be told.
HARNESS_PARAMETERS = frozenset({"head_share", "list_depth", "max_output", "inactivity_timeout", "auto_context"})
_UNLIMITED_LINES = 100_000  # so many lines are all of them
# A base tool -> others that do its work. Where a harness has no tool for it, and none of these is there, its own is shown.
SUBSTITUTES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("read", "grep", "glob", "list_dir"), frozenset({"shell"})),
    **dict.fromkeys(("read_many", "view_image"), frozenset({"read", "shell"})),
    **dict.fromkeys(("edit", "multi_edit", "insert", "notebook_edit", "patch"), frozenset({"edit", "multi_edit", "patch"})),
    "write": frozenset({"patch"}),
    "shell": frozenset(),
}
_PATCH_VERBS = {"create_file": "Add", "update_file": "Update", "delete_file": "Delete"}


def canonical_call(tool: str, arguments: Arguments) -> Arguments:
    """A base call in the one form that all of its forms come to."""
    found = {name: value for name, value in arguments.items() if value is not None and name not in HARNESS_PARAMETERS}
    if tool == "read":
        _normalize_line_range(found)
    elif tool == "patch" and "ops" in found:
        found["text"] = render_patch(found)
        del found["ops"]
    elif tool == "shell" and "argv" in found:
        found["command"] = shlex.join(map(str, found.pop("argv")))
    if tool == "shell" and found.get("cwd") == ".":
        del found["cwd"]
    return found


def _normalize_line_range(arguments: Arguments) -> None:
    """From a line to a line, whichever way it was said."""
    if arguments.get("max_lines", 0) >= _UNLIMITED_LINES:
        del arguments["max_lines"]
    if "max_lines" in arguments and not {"end_line", "tail_lines"} & arguments.keys():
        arguments["end_line"] = arguments.get("start_line", 1) + arguments.pop("max_lines") - 1
    if arguments.get("start_line") == 1:
        del arguments["start_line"]


def render_patch(arguments: Arguments) -> str:
    """The text of a patch, also of one that was said as operations on files."""
    if arguments.get("text"):
        return str(arguments["text"])
    lines = ["*** Begin Patch"]
    for one in cast(list[Arguments], arguments.get("ops") or ()):
        lines.append(f"*** {_PATCH_VERBS.get(str(one.get('type')), 'Update')} File: {one.get('path', '')}")
        lines += str(one["diff"]).removesuffix("\n").split("\n") if one.get("diff") else []
    return "\n".join([*lines, "*** End Patch"])


# ---- other tools


def alternatives(tool: str, arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Other base calls that would have done the same, the nearest first."""
    given = canonical_call(tool, arguments)
    match tool:
        case "shell" if "then" in given or "argv" in arguments:
            lines = [given.pop("command", ""), *given.pop("then", ())]
            yield "shell", {**given, "command": "\n".join(map(str, lines))}
        case "shell" if "cwd" in given and "command" in given:
            yield "shell", {**given, "cwd": None, "command": f"cd {shlex.quote(str(given['cwd']))} && {given['command']}"}
        case "patch":
            yield from _patch_alternatives(given)
        case "write" if given.get("mode", "overwrite") == "overwrite" and "content" in given:
            yield "patch", {"text": _add_file_patch(str(given.get("path", "")), str(given["content"]))}
        case "edit" | "multi_edit":
            yield from _edit_alternatives(given)
        case _:
            if (line := _to_command(tool, given)) is not None:
                yield "shell", {"command": line}


# What a command cannot say but need not: limits, order, and how results are shown.
_OPTIONAL_PARAMETERS = frozenset(
    {"max_results", "skip", "limit", "order", "auto_context", "line_numbers", "allow_large", "max_per_file"}
)
_GREP_FLAGS = {"ignore_case": "-i", "literal": "-F", "multiline": "-U", "only_matching": "-o", "no_ignore": "--no-ignore"}
_GREP_OPTIONS = {"before": "-B", "after": "-A", "file_type": "-t", "include_glob": "-g"}
_GREP_MODES = {"files": "-l", "count": "-c", "content": "-n"}


def _to_command(tool: str, arguments: Arguments) -> str | None:
    """What looks at files, as a command."""
    asked = {name: value for name, value in arguments.items() if name not in _OPTIONAL_PARAMETERS}
    path = shlex.quote(str(asked.pop("path", None) or "."))
    words = _COMMAND_BUILDERS[tool](asked) if tool in _COMMAND_BUILDERS else None
    return f"{' '.join(words)} {path}" if words and not asked else None


def _read_command(arguments: Arguments) -> list[str]:
    if "tail_lines" in arguments:
        return ["tail", "-n", str(arguments.pop("tail_lines"))]
    first, last = arguments.pop("start_line", 1), arguments.pop("end_line", "$")
    return ["cat"] if (first, last) == (1, "$") else ["sed", "-n", f"'{first},{last}p'"]


def _glob_command(arguments: Arguments) -> list[str]:
    flag = "-g" if arguments.pop("case_sensitive", True) else "--iglob"
    heeds = [arguments.pop(name, True) for name in ("respect_gitignore", "respect_extra_ignore")]
    ignored = [] if all(heeds) else ["--no-ignore"]
    return ["rg", "--files", *ignored, flag, shlex.quote(str(arguments.pop("pattern", "")))]


def _grep_command(arguments: Arguments) -> list[str]:
    words = ["rg", _GREP_MODES.get(str(arguments.pop("mode", "content")), "-n")]
    words += [flag for name, flag in _GREP_FLAGS.items() if arguments.pop(name, False)]
    for name, option in _GREP_OPTIONS.items():
        if value := arguments.pop(name, None):
            words += [option, shlex.quote(str(value))]
    return [*words, "-e", shlex.quote(str(arguments.pop("pattern", "")))]


def _list_command(arguments: Arguments) -> list[str]:
    for name in ("respect_gitignore", "respect_extra_ignore"):  # it shows all there is
        arguments.pop(name, None)
    return ["ls", "-la"] if arguments.pop("depth", 1) == 1 else ["ls", "-laR"]


_COMMAND_BUILDERS: dict[str, Callable[[Arguments], list[str]]] = {
    "read": _read_command,
    "glob": _glob_command,
    "grep": _grep_command,
    "list_dir": _list_command,
}


# ---- edits and patches


def _edit_alternatives(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """One edit of several is an edit; edits that seem to be of whole lines are a patch."""
    edits = cast(list[Arguments], arguments.get("edits") or [arguments])
    path = str(arguments.get("path", ""))
    if len(edits) == 1 and "edits" in arguments:
        yield "edit", {"path": path, **edits[0]}
    if all("\n" in str(one.get("old", "")) and one.get("count", "one") == "one" for one in edits):
        chunks = [
            line for one in edits for line in ("@@", *_prefix_lines("-", one["old"]), *_prefix_lines("+", one.get("new", "")))
        ]
        yield "patch", {"text": "\n".join(["*** Begin Patch", f"*** Update File: {path}", *chunks, "*** End Patch"])}


def _prefix_lines(prefix: str, text: Any) -> list[str]:
    return [prefix + line for line in str(text).removesuffix("\n").split("\n")] if text else []


_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")


def _add_file_patch(path: str, content: str) -> str:
    return "\n".join(["*** Begin Patch", f"*** Add File: {path}", *_prefix_lines("+", content), "*** End Patch"])


def _patch_alternatives(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """A patch of one new file is a write; one of one chunk is an edit."""
    lines = render_patch(arguments).strip().split("\n")[1:-1]
    head = _SECTION.fullmatch(lines[0].strip()) if lines else None
    body = lines[1:]
    if head is None or any(line.startswith("*** ") for line in body):
        return
    path = head[2].strip()
    if head[1] == "Add" and all(line.startswith("+") for line in body):
        yield "write", {"path": path, "content": "".join(f"{line[1:]}\n" for line in body)}
    elif head[1] == "Update":
        chunk = body[1:] if body and body[0].startswith("@@") else body
        old = [line[1:] for line in chunk if line[:1] in ("", " ", "-")]
        if old and all(line[:1] in ("", " ", "-", "+") for line in chunk):
            yield "edit", {"path": path, "old": "\n".join(old), "new": "\n".join(line[1:] for line in chunk if line[:1] != "-")}
