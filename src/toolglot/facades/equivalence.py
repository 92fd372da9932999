"""Equivalent base calls, for handing a conversation to another model: one canonical form, and other tools that do the same.

A call in history is expressed with the tools that the present model has. Canonical forms are compared to find what that loses;
a call that no tool of the model can express is replaced by an equivalent one. Nothing here is ever run.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = ["HARNESS_PARAMETERS", "SUBSTITUTES", "Arguments", "alternatives", "canonical_call", "render_patch", "simplify_call"]

Arguments = dict[str, Any]
# How a harness limits commands and formats results: other models need not know.
HARNESS_PARAMETERS = frozenset(
    {"head_share", "list_depth", "max_output", "inactivity_timeout", "auto_context", "read_first", "on_timeout"}
    | {"max_size", "max_page", "keep_escapes", "hidden", "respect_ignore"}
)
_UNLIMITED_LINES = 100_000  # this many lines mean all of them
# A base tool -> others that do its work. If a harness has no tool for it and none of these is available, it is shown itself.
SUBSTITUTES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("read", "grep", "glob", "list_dir"), frozenset({"shell"})),
    **dict.fromkeys(("read_many", "view_image"), frozenset({"read", "shell"})),
    **dict.fromkeys(("edit", "multi_edit", "insert", "notebook_edit", "patch"), frozenset({"edit", "multi_edit", "patch"})),
    "write": frozenset({"patch"}),
    "shell": frozenset(),
}
_PATCH_VERBS = {"create_file": "Add", "update_file": "Update", "delete_file": "Delete"}


def simplify_call(tool: str, arguments: Arguments) -> Arguments:
    """The arguments of a base call without those that say nothing; a number of lines to read is a last line."""
    simple = {name: value for name, value in arguments.items() if value is not None}
    if tool == "shell" and simple.get("cwd") in ("", "."):
        del simple["cwd"]
    if tool == "read":
        if simple.get("max_lines", 0) >= _UNLIMITED_LINES:
            del simple["max_lines"]
        if "max_lines" in simple and not {"end_line", "tail_lines"} & simple.keys():
            simple["end_line"] = simple.get("start_line", 1) + simple.pop("max_lines") - 1
    return simple


def canonical_call(tool: str, arguments: Arguments) -> Arguments:
    """The arguments of a base call in canonical form: equal for calls that do the same."""
    canonical = {name: value for name, value in simplify_call(tool, arguments).items() if name not in HARNESS_PARAMETERS}
    if tool == "read" and canonical.get("start_line") == 1:
        del canonical["start_line"]
    elif tool == "glob" and str(canonical.get("pattern", "")).startswith("./"):
        canonical["pattern"] = re.sub(r"^(?:\./)+", "", canonical["pattern"])
    elif tool == "patch" and "ops" in canonical:
        canonical["text"] = render_patch(canonical)
        del canonical["ops"]
    elif tool == "shell" and "argv" in canonical:
        canonical["command"] = shlex.join(map(str, canonical.pop("argv")))
    elif tool == "ask_user" and "questions" in canonical:
        defaults: Arguments = {"kind": "choice", "multi": False, "header": "", "options": []}
        canonical["questions"] = [
            {name: value for name, value in question.items() if name not in defaults or value != defaults[name]}
            for question in cast(list[Arguments], canonical["questions"])
        ]
    return canonical


def render_patch(arguments: Arguments) -> str:
    """The text of a patch, also of one that was given as operations on files."""
    if arguments.get("text"):
        return str(arguments["text"])
    lines = ["*** Begin Patch"]
    for operation in cast(list[Arguments], arguments.get("ops") or ()):
        lines.append(f"*** {_PATCH_VERBS.get(str(operation.get('type')), 'Update')} File: {operation.get('path', '')}")
        lines += str(operation["diff"]).removesuffix("\n").split("\n") if operation.get("diff") else []
    return "\n".join([*lines, "*** End Patch"])


# ---- other tools


def alternatives(tool: str, arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Other base calls that would have done the same, the nearest first."""
    canonical = canonical_call(tool, arguments)
    match tool:
        case "shell" if "then" in canonical or "argv" in arguments:
            lines = [canonical.pop("command", ""), *canonical.pop("then", ())]
            yield "shell", {**canonical, "command": "\n".join(map(str, lines))}
        case "shell" if "cwd" in canonical and "command" in canonical:
            command = f"cd {shlex.quote(str(canonical['cwd']))} && {canonical['command']}"
            yield "shell", {**canonical, "cwd": None, "command": command}
        case "patch":
            yield from _patch_alternatives(canonical)
        case "write" if canonical.get("mode", "overwrite") == "overwrite" and "content" in canonical:
            lines = [f"*** Add File: {canonical.get('path', '')}", *_prefix_lines("+", canonical["content"])]
            yield "patch", {"text": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}
        case "edit" | "multi_edit":
            yield from _edit_alternatives(canonical)
        case _:
            if (line := _to_command(tool, canonical)) is not None:
                yield "shell", {"command": line}


# What a command line can omit: limits, order, and how results are shown.
_OPTIONAL_PARAMETERS = frozenset(
    {"max_results", "skip", "limit", "order", "auto_context", "line_numbers", "allow_large", "max_per_file"}
)
_GREP_FLAGS = {"ignore_case": "-i", "literal": "-F", "multiline": "-U", "only_matching": "-o", "no_ignore": "--no-ignore"}
_GREP_OPTIONS = {"before": "-B", "after": "-A", "file_type": "-t", "include_glob": "-g"}
_GREP_MODES = {"files": "-l", "count": "-c", "content": "-n"}


def _to_command(tool: str, arguments: Arguments) -> str | None:
    """A call that inspects files, as a command line."""
    remaining = {name: value for name, value in arguments.items() if name not in _OPTIONAL_PARAMETERS}
    path = shlex.quote(str(remaining.pop("path", None) or "."))
    words = _COMMAND_BUILDERS[tool](remaining) if tool in _COMMAND_BUILDERS else None
    return f"{' '.join(words)} {path}" if words and not remaining else None


def read_command(arguments: Arguments) -> list[str]:
    if "tail_lines" in arguments:
        return ["tail", "-n", str(arguments.pop("tail_lines"))]
    first, last = arguments.pop("start_line", 1), arguments.pop("end_line", "$")
    return ["cat"] if (first, last) == (1, "$") else ["sed", "-n", f"'{first},{last}p'"]


def glob_command(arguments: Arguments) -> list[str]:
    flag = "-g" if arguments.pop("case_sensitive", True) else "--iglob"
    respected = [arguments.pop(name, True) for name in ("respect_gitignore", "respect_extra_ignore")]
    no_ignore = [] if all(respected) else ["--no-ignore"]
    return ["rg", "--files", *no_ignore, flag, shlex.quote(str(arguments.pop("pattern", "")))]


def grep_command(arguments: Arguments) -> list[str]:
    words = ["rg", _GREP_MODES.get(str(arguments.pop("mode", "content")), "-n")]
    words += [flag for name, flag in _GREP_FLAGS.items() if arguments.pop(name, False)]
    for name, option in _GREP_OPTIONS.items():
        if value := arguments.pop(name, None):
            words += [option, shlex.quote(str(value))]
    return [*words, "-e", shlex.quote(str(arguments.pop("pattern", "")))]


def list_command(arguments: Arguments) -> list[str]:
    for name in ("respect_gitignore", "respect_extra_ignore"):  # ls shows everything
        arguments.pop(name, None)
    return ["ls", "-la"] if arguments.pop("depth", 1) == 1 else ["ls", "-laR"]


_COMMAND_BUILDERS: dict[str, Callable[[Arguments], list[str]]] = {
    "read": read_command,
    "glob": glob_command,
    "grep": grep_command,
    "list_dir": list_command,
}


# ---- edits and patches


def _edit_alternatives(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """A list of one edit is an edit; edits that seem to replace whole lines are a patch."""
    edits = cast(list[Arguments], arguments.get("edits") or [arguments])
    path = str(arguments.get("path", ""))
    if len(edits) == 1 and "edits" in arguments:
        yield "edit", {"path": path, **edits[0]}
    if all("\n" in str(edit.get("old", "")) and edit.get("count", "one") == "one" for edit in edits):
        chunks = [
            line
            for edit in edits
            for line in ("@@", *_prefix_lines("-", edit["old"]), *_prefix_lines("+", edit.get("new", "")))
        ]
        yield "patch", {"text": "\n".join(["*** Begin Patch", f"*** Update File: {path}", *chunks, "*** End Patch"])}


def _prefix_lines(prefix: str, text: Any) -> list[str]:
    return [prefix + line for line in str(text).removesuffix("\n").split("\n")] if text else []


_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")


def _patch_alternatives(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """A patch that adds one file is a write; one with a single chunk is an edit."""
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
