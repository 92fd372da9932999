"""Equivalent base calls, for handing a conversation to another model: one canonical form, and other tools
that do the same.

A call in history is expressed with the tools that the present model has. Canonical forms are compared to find
what that loses; a call that no tool of the model can express is replaced by an equivalent one. Nothing here
is ever run.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = [
    "HARNESS_PARAMETERS",
    "SUBSTITUTES",
    "Arguments",
    "alternatives",
    "canonical_call",
    "render_patch",
    "simplify_call",
]

Arguments = dict[str, Any]
# How a harness limits commands and formats results: other models need not know.
HARNESS_PARAMETERS = frozenset(
    {
        "head_share",
        "list_depth",
        "max_output",
        "inactivity_timeout",
        "auto_context",
        "read_first",
        "on_timeout",
    }
    | {"max_size", "max_page", "keep_escapes", "hidden", "respect_ignore"}
)
_UNLIMITED_LINES = 100_000  # this many lines mean all of them
# A base tool -> others that do its work. If a harness has no tool for it and none of these is available, it
# is shown itself.
SUBSTITUTES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("read", "grep", "glob", "list_dir"), frozenset({"shell"})),
    **dict.fromkeys(("read_many", "view_image"), frozenset({"read", "shell"})),
    **dict.fromkeys(
        ("edit", "multi_edit", "insert", "notebook_edit", "patch"), frozenset({"edit", "multi_edit", "patch"})
    ),
    "write": frozenset({"patch"}),
    "shell": frozenset(),
}
_PATCH_VERBS = {"create_file": "Add", "update_file": "Update", "delete_file": "Delete"}


def simplify_call(tool: str, arguments: Arguments) -> Arguments:
    """Return the arguments of a base call without those that say nothing; a number of lines to read is a last
    line.
    """
    simple = {name: value for name, value in arguments.items() if value is not None}
    if tool == "shell" and simple.get("cwd") in ("", "."):
        del simple["cwd"]
    if tool == "read" and "max_lines" in simple:
        _simplify_line_count(simple)
    return simple


def _simplify_line_count(arguments: Arguments) -> None:
    if arguments["max_lines"] >= _UNLIMITED_LINES:
        del arguments["max_lines"]
    elif arguments.keys().isdisjoint(("end_line", "tail_lines")):
        arguments["end_line"] = arguments.get("start_line", 1) + arguments.pop("max_lines") - 1


def canonical_call(tool: str, arguments: Arguments) -> Arguments:
    """Return the arguments of a base call in canonical form: equal for calls that do the same."""
    canonical = {
        name: value
        for name, value in simplify_call(tool, arguments).items()
        if name not in HARNESS_PARAMETERS
    }
    make_canonical = _CANONICAL_FORMS.get(tool)
    if make_canonical is not None:
        make_canonical(canonical)
    return canonical


def canonical_read(arguments: Arguments) -> None:
    if arguments.get("start_line") == 1:
        del arguments["start_line"]


def canonical_glob(arguments: Arguments) -> None:
    pattern = str(arguments.get("pattern", ""))
    if pattern.startswith("./"):
        arguments["pattern"] = re.sub(r"^(?:\./)+", "", pattern)


def canonical_patch(arguments: Arguments) -> None:
    if "ops" in arguments:
        arguments["text"] = render_patch(arguments)
        del arguments["ops"]


def canonical_shell(arguments: Arguments) -> None:
    if "argv" in arguments:
        arguments["command"] = shlex.join(map(str, arguments.pop("argv")))


def canonical_questions(arguments: Arguments) -> None:
    if "questions" in arguments:
        questions = cast(list[Arguments], arguments["questions"])
        arguments["questions"] = [_without_defaults(question) for question in questions]


_CANONICAL_FORMS: dict[str, Callable[[Arguments], None]] = {
    "read": canonical_read,
    "glob": canonical_glob,
    "patch": canonical_patch,
    "shell": canonical_shell,
    "ask_user": canonical_questions,
}


_QUESTION_DEFAULTS: Arguments = {"kind": "choice", "multi": False, "header": "", "options": []}


def _without_defaults(question: Arguments) -> Arguments:
    """Return a question without the values that it has anyway."""
    changed = dict(question)
    for name, default in _QUESTION_DEFAULTS.items():
        if name in changed and changed[name] == default:
            del changed[name]
    return changed


def render_patch(arguments: Arguments) -> str:
    """Return the text of a patch, also of one that was given as operations on files."""
    if arguments.get("text"):
        return str(arguments["text"])
    lines = ["*** Begin Patch"]
    for operation in cast(list[Arguments], arguments.get("ops") or ()):
        verb = _PATCH_VERBS.get(str(operation.get("type")), "Update")
        lines.append(f"*** {verb} File: {operation.get('path', '')}")
        if operation.get("diff"):
            lines += str(operation["diff"]).removesuffix("\n").split("\n")
    return "\n".join([*lines, "*** End Patch"])


# ---- other tools


def alternatives(tool: str, arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Yield other base calls that would have done the same, the nearest first."""
    canonical = canonical_call(tool, arguments)
    match tool:
        case "shell":
            yield from _shell_alternatives(canonical, has_argv="argv" in arguments)
        case "patch":
            yield from _patch_alternatives(canonical)
        case "write" if canonical.get("mode", "overwrite") == "overwrite" and "content" in canonical:
            lines = [f"*** Add File: {canonical.get('path', '')}", *_prefix_lines("+", canonical["content"])]
            yield "patch", {"text": _join_patch(lines)}
        case "edit" | "multi_edit":
            yield from _edit_alternatives(canonical)
        case _:
            line = _to_command(tool, canonical)
            if line is not None:
                yield "shell", {"command": line}


def _shell_alternatives(arguments: Arguments, *, has_argv: bool) -> Iterator[tuple[str, Arguments]]:
    """Yield several commands as one, and a directory as part of the command line."""
    if "then" in arguments or has_argv:
        lines = [arguments.pop("command", ""), *arguments.pop("then", ())]
        yield "shell", {**arguments, "command": "\n".join(map(str, lines))}
    elif "cwd" in arguments and "command" in arguments:
        command = f"cd {shlex.quote(str(arguments['cwd']))} && {arguments['command']}"
        yield "shell", {**arguments, "cwd": None, "command": command}


# What a command line can omit: limits, order, and how results are shown.
_OPTIONAL_PARAMETERS = frozenset(
    {"max_results", "skip", "limit", "order", "auto_context", "line_numbers", "allow_large", "max_per_file"}
)
_GREP_FLAGS = {
    "ignore_case": "-i",
    "literal": "-F",
    "multiline": "-U",
    "only_matching": "-o",
    "no_ignore": "--no-ignore",
}
_GREP_OPTIONS = {"before": "-B", "after": "-A", "file_type": "-t", "include_glob": "-g"}
_GREP_MODES = {"files": "-l", "count": "-c", "content": "-n"}


def _to_command(tool: str, arguments: Arguments) -> str | None:
    """Return a call that inspects files as a command line; None if there is no such command."""
    build = _COMMAND_BUILDERS.get(tool)
    if build is None:
        return None
    remaining = {name: value for name, value in arguments.items() if name not in _OPTIONAL_PARAMETERS}
    path = shlex.quote(str(remaining.pop("path", None) or "."))
    words = build(remaining)
    if remaining:  # a parameter that the command line cannot express
        return None
    return f"{' '.join(words)} {path}"


def read_command(arguments: Arguments) -> list[str]:
    if "tail_lines" in arguments:
        return ["tail", "-n", str(arguments.pop("tail_lines"))]
    first, last = arguments.pop("start_line", 1), arguments.pop("end_line", "$")
    if (first, last) == (1, "$"):
        return ["cat"]
    return ["sed", "-n", f"'{first},{last}p'"]


def glob_command(arguments: Arguments) -> list[str]:
    words = ["rg", "--files"]
    respected = [arguments.pop(name, True) for name in ("respect_gitignore", "respect_extra_ignore")]
    if not all(respected):
        words.append("--no-ignore")
    words.append("-g" if arguments.pop("case_sensitive", True) else "--iglob")
    return [*words, shlex.quote(str(arguments.pop("pattern", "")))]


def grep_command(arguments: Arguments) -> list[str]:
    words = ["rg", _GREP_MODES.get(str(arguments.pop("mode", "content")), "-n")]
    words += [flag for name, flag in _GREP_FLAGS.items() if arguments.pop(name, False)]
    for name, option in _GREP_OPTIONS.items():
        value = arguments.pop(name, None)
        if value:
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
    """Yield a list of one edit as an edit, and edits that seem to replace whole lines as a patch."""
    edits = cast(list[Arguments], arguments.get("edits") or [arguments])
    path = str(arguments.get("path", ""))
    if len(edits) == 1 and "edits" in arguments:
        yield "edit", {"path": path, **edits[0]}
    if not all(_seems_to_replace_lines(edit) for edit in edits):
        return
    lines = [f"*** Update File: {path}"]
    for edit in edits:
        lines += ["@@", *_prefix_lines("-", edit["old"]), *_prefix_lines("+", edit.get("new", ""))]
    yield "patch", {"text": _join_patch(lines)}


def _seems_to_replace_lines(edit: Arguments) -> bool:
    """Whether the old text of an edit is probably whole lines: there are several."""
    return "\n" in str(edit.get("old", "")) and edit.get("count", "one") == "one"


def _join_patch(lines: list[str]) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def _prefix_lines(prefix: str, text: Any) -> list[str]:
    if not text:
        return []
    return [prefix + line for line in str(text).removesuffix("\n").split("\n")]


_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")


def _patch_alternatives(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Yield a patch that adds one file as a write, and one with a single chunk as an edit."""
    lines = render_patch(arguments).strip().split("\n")[1:-1]
    head = _SECTION.fullmatch(lines[0].strip()) if lines else None
    if head is None:
        return
    path = head[2].strip()
    body = lines[1:]
    has_other_sections = any(line.startswith("*** ") for line in body)
    if has_other_sections:
        return
    if head[1] == "Add" and all(line.startswith("+") for line in body):
        yield "write", {"path": path, "content": "".join(f"{line[1:]}\n" for line in body)}
    elif head[1] == "Update":
        edit = _read_chunk(body)
        if edit is not None:
            yield "edit", {"path": path, **edit}


def _read_chunk(lines: list[str]) -> Arguments | None:
    """Return the old and the new text of a file section that is one chunk with some context; None if it is
    not.
    """
    if lines and lines[0].startswith("@@"):
        lines = lines[1:]
    old: list[str] = []
    new: list[str] = []
    for line in lines:
        mark, text = line[:1], line[1:]
        if mark not in ("", " ", "-", "+"):
            return None
        if mark != "+":
            old.append(text)
        if mark != "-":
            new.append(text)
    return {"old": "\n".join(old), "new": "\n".join(new)} if old else None
