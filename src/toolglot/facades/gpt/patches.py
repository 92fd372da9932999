"""Patches as GPT models write them: as free text, as a function, as a command, or as one operation on a file.

A command that is nothing but a patch is the patch. Whatever form a model remembers is understood; only one is
shown.
"""

import re
import shlex
from typing import Any, cast

from toolglot.errors import ToolError
from toolglot.facades.equivalence import render_patch
from toolglot.facades.gpt.command_rendering import render_failure, render_patch_result
from toolglot.facades.parameters import closed_schema, object_schema, string
from toolglot.facades.view import Arguments, Case, RenderContext, View
from toolglot.values.failures import InvalidPatch, PatchedFileFailed, PatchFailed
from toolglot.values.request import Schema
from toolglot.wire.spec import OPENAI_RESPONSES

__all__ = [
    "APPLY_PATCH",
    "APPLY_PATCH_OPERATION",
    "GRAMMAR",
    "OPERATION_PARAMETERS",
    "PATCH_FORMAT",
    "extract_patch",
    "make_apply_patch_function",
    "rebase_patch",
    "render_patch_failure",
]

PATCH_FORMAT = (
    "A patch starts with '*** Begin Patch' and ends with '*** End Patch'. Between them are sections: '*** "
    "Add File: PATH' with "
    "its lines, each prefixed with '+'; '*** Delete File: PATH'; '*** Update File: PATH', optionally '*** "
    "Move to: PATH', then "
    "chunks. A chunk starts with '@@', or '@@ ' and a line of the file to search after, then lines prefixed "
    "with ' ' "
    "(context), '-' (removed) or '+' (added), with about three context lines around each change. Paths are "
    "relative."
)
GRAMMAR = r"""start: "*** Begin Patch" LF section+ "*** End Patch" LF?
section: add | delete | update
add: "*** Add File: " REST LF (ADDED LF)+
delete: "*** Delete File: " REST LF
update: "*** Update File: " REST LF moved? chunk+
moved: "*** Move to: " REST LF
chunk: anchor* (CHANGED LF)+ at_end?
anchor: "@@" LF | "@@ " REST LF
at_end: "*** End of File" LF
REST: /[^\r\n]+/
ADDED: /\+[^\r\n]*/
CHANGED: /[ +-][^\r\n]*/
LF: /\r?\n/
"""
_WORD = r"""(?:'[^'\n]+'|"[^"\n$`\\]+"|[\w./@%+,:=-]+)"""
_CHANGE_DIRECTORY = re.compile(rf"\s*cd\s+(?!-)({_WORD})\s*&&\s*")
_HEREDOC = re.compile(
    r"\s*(?:apply_patch|applypatch)\s*<<(?P<dash>-?)\s*(?P<quote>['\"]?)(?P<tag>\w+)(?P=quote)[ \t]*\r?\n"
    r"(?P<body>.*?)\r?\n[ \t]*(?P=tag)\s*",
    re.DOTALL,
)
_PATHS = re.compile(r"^(\*\*\* (?:(?:Add|Delete|Update) File|Move to): )[ \t]*(.*)$", re.MULTILINE)
_PROGRAMS = ("apply_patch", "applypatch")
_FILE_ACTIONS = {"write": "write file", "update": "read file to update", "delete": "read"}
_ARGUMENT_CODES = ("invalid_argument", "invalid_arguments")
_OPERATIONS = ("create_file", "update_file", "delete_file")


def extract_patch(command: str | list[str]) -> str | None:
    """Return the patch that a command is, as seen from where it starts; None for any other command."""
    if isinstance(command, list):
        match command:
            case [program, patch] if program in _PROGRAMS and _is_patch(patch):
                return patch
            case _:
                return None
    directory = ""
    change = _CHANGE_DIRECTORY.match(command)
    if change is not None:
        directory = shlex.split(change[1])[0]
        command = command[change.end() :]
    body = command if _is_patch(command) else _extract_argument(command)
    if body is None or not _is_patch(body):
        return None
    return rebase_patch(directory, body)


def _extract_argument(command: str) -> str | None:
    """Return what follows `apply_patch`: a here-document, or one word."""
    heredoc = _HEREDOC.fullmatch(command)
    if heredoc is not None:
        body = heredoc["body"]
        return re.sub(r"(?m)^\t+", "", body) if heredoc["dash"] else body
    if not command.lstrip().startswith(_PROGRAMS):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if len(words) != 2 or words[0] not in _PROGRAMS:
        return None
    return words[1]


def _is_patch(body: str) -> bool:
    body = body.strip()
    return body.startswith("*** Begin Patch") and body.endswith("*** End Patch")


def rebase_patch(directory: str, patch: str) -> str:
    """Return a patch written below a directory, with its paths as seen from above it."""
    if directory in ("", "."):
        return patch

    def rebase(match: "re.Match[str]") -> str:
        keyword, path = match.groups()
        return match[0] if path.startswith("/") else f"{keyword}{directory}/{path}"

    return _PATHS.sub(rebase, patch)


def patch_to_base(native: Arguments) -> Arguments:
    """Return a patch in whichever form it came. Raises ToolError."""
    if native.get("input"):
        return {"text": native["input"]}
    operation = cast(Arguments, native.get("operation") or native)
    if operation.get("type") not in _OPERATIONS:
        problem = "input is missing; give the whole patch, from *** Begin Patch to *** End Patch"
        raise ToolError(f"apply_patch: {problem}", kind="validation", code="invalid_argument")
    if not operation.get("path"):
        raise ToolError(
            f"apply_patch: {operation['type']} needs a path", kind="validation", code="invalid_argument"
        )
    return {
        "ops": [
            {name: operation[name] for name in ("type", "path", "diff") if operation.get(name) is not None}
        ]
    }


def render_patch_failure(context: RenderContext) -> str:
    """Return why a patch was not applied."""
    if context.code == "path_not_allowed":
        return f"patch rejected: {context.text}"
    is_about_patch = (
        context.kind in ("validation", "execution", "not_found") and context.code not in _ARGUMENT_CODES
    )
    if not is_about_patch:
        return render_failure(context)
    text = context.text
    # our own tool also says what is similar, for models that were not trained on patches
    match context.details:
        case InvalidPatch(problem=""):
            return "patch rejected: empty patch"
        case InvalidPatch(problem=problem, line=0):
            text = f"invalid patch: {problem}"
        case InvalidPatch(problem=problem, line=line):
            text = f"invalid hunk at line {line}, {problem}"
        case PatchFailed(context="", path=path, expected=expected):
            text = "\n".join([f"Failed to find expected lines in {path}:", *expected])
        case PatchFailed(context=anchor, path=path):
            text = f"Failed to find context '{anchor}' in {path}"
        case PatchedFileFailed(action=action, path=path, problem=problem):
            text = f"Failed to {_FILE_ACTIONS[action]} {path}: {problem}"
        case _:
            pass
    return f"apply_patch verification failed: {text}"


_PATCH_CASE = Case(
    base="patch",
    to_base=patch_to_base,
    from_base=lambda base: {"input": render_patch(base)},
    result=render_patch_result,
    failure=render_patch_failure,
)
# One operation on a file, the form of the API's own tool.
OPERATION_PARAMETERS: Schema = {
    "operation": {"type": "object"},
    "type": string(enum=list(_OPERATIONS)),
    "path": string(),
    "diff": string(),
}


def _make_patch_view(description: str, **options: Any) -> View:
    return View(
        name="apply_patch",
        description=description,
        cases={"": _PATCH_CASE},
        required_schema={},
        aliases=("applypatch",),
        **options,
    )


APPLY_PATCH = _make_patch_view(
    "Change files with a patch. The input is the patch itself, as plain text, not wrapped in JSON.",
    parameters=None,
    kind="freeform",
    grammar={"syntax": "lark", "definition": GRAMMAR},
    accepts=OPERATION_PARAMETERS,
)


def make_apply_patch_function(*, accepts: Schema | None = None) -> View:
    """Return the same for models without freeform tools. `accepts`: other forms of a patch."""
    parameters = closed_schema("input", input=string("The complete patch."))
    return _make_patch_view(
        f"Change files with a patch. {PATCH_FORMAT}", parameters=parameters, accepts=accepts or {}
    )


# ---- one operation on a file, which the API's own tool takes

_OPERATION_TYPES = {"Add": "create_file", "Update": "update_file", "Delete": "delete_file"}
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")


def operation_from_base(base: Arguments) -> Arguments | None:
    """Return a patch of one section that moves nothing; None for any other."""
    lines = render_patch(base).strip().split("\n")[1:-1]
    section = _SECTION.fullmatch(lines[0].strip()) if lines else None
    if section is None:
        return None
    changes = lines[1:]
    if any(line.startswith("*** ") and line != "*** End of File" for line in changes):
        return None
    operation = {"type": _OPERATION_TYPES[section[1]], "path": section[2].strip()}
    if changes:
        operation["diff"] = "\n".join(changes)
    return operation


APPLY_PATCH_OPERATION = View(
    name="apply_patch",
    description=(
        "Create, update or delete one file. A diff consists of chunks, each starting with '@@' or '@@ ' and "
        "a line of the file "
        "to search after, then lines prefixed with ' ' (context), '-' (removed) or '+' (added)."
    ),
    parameters=object_schema(
        "type path",
        type=string("What to do.", enum=list(_OPERATIONS)),
        path=string("Path of the file, relative to the workspace."),
        diff=string("The chunks; for create_file, all lines prefixed with '+'. Omit it for delete_file."),
    ),
    typed={OPENAI_RESPONSES: {"type": "apply_patch"}},
    cases={"": Case(base="patch", to_base=patch_to_base, from_base=operation_from_base)},
    accepts={"operation": OPERATION_PARAMETERS["operation"], "input": string()},
    aliases_for={"type": ("operation", "input"), "path": ("operation", "input")},
    aliases=("applypatch",),
)
