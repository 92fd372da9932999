"""Facades and base tools that the tests have made up: two harnesses with other names, shapes, units and words
for one set.
"""

from typing import Any

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.parameters import boolean, integer, number, object_schema, string, string_list
from toolglot.facades.table import call_field, field, make_view, unmapped
from toolglot.facades.view import Case, Facade, Field, RenderContext, View, omit
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.request import BUILTIN_TAG

BASES = ("read", "write", "edit", "shell", "patch", "ast_search")

# ---- the base tools


def base_tools(files: dict[str, str] | None = None, ran: list[str] | None = None) -> list[Tool]:
    """Built-in tools on files in memory; `ran` hears of every command."""
    disk = files if files is not None else {"a.txt": "one\ntwo\nthree\n"}
    heard = ran if ran is not None else []

    @tool(effects="read", tags={BUILTIN_TAG}, quiet=True)
    async def read(path: str, start_line: int = 1, end_line: int | None = None) -> ToolOutput:
        """Reads a file."""
        if path not in disk:
            raise ToolError(f"there is no {path}", kind="not_found", details={"near": sorted(disk)})
        heard.append(f"read {path}")
        lines = disk[path].splitlines()[start_line - 1 : end_line]
        return ToolOutput("\n".join(lines), data={"lines": lines, "first": start_line})

    @tool(effects="write", tags={BUILTIN_TAG}, quiet=True)
    async def write(path: str, content: str, mode: str = "overwrite") -> str:
        """Writes a file."""
        disk[path] = disk.get(path, "") + content if mode == "append" else content
        return f"wrote {path}"

    @tool(effects="write", tags={BUILTIN_TAG}, quiet=True)
    async def edit(path: str, old: str, new: str, count: str = "one") -> str:
        """Replaces text in a file."""
        disk[path] = disk[path].replace(old, new, -1 if count == "all" else 1)
        return f"edited {path}"

    @tool(effects="execute", tags={BUILTIN_TAG}, quiet=True)
    async def shell(command: str, timeout: float = 10) -> str:
        """Runs a command."""
        heard.append(command)
        return f"$ {command}: {timeout:g}"

    @tool(effects="write", tags={BUILTIN_TAG}, quiet=True)
    async def patch(text: str) -> str:
        """Applies a patch."""
        heard.append(text)
        return f"patched {len(text)}"

    @tool(effects="read", tags={BUILTIN_TAG}, quiet=True)
    async def ast_search(pattern: str) -> str:
        """Looks for code."""
        return f"no {pattern}"

    return [read, write, edit, shell, patch, ast_search]


# ---- a harness with capital letters, milliseconds, offset and limit


def _end(native: dict[str, Any]) -> Any:
    return native.get("offset", 1) + native["limit"] - 1 if "limit" in native else UNSET


def _limit(base: dict[str, Any]) -> Any:
    return base["end_line"] - base.get("start_line", 1) + 1 if "end_line" in base else UNSET


def _number_lines(context: RenderContext) -> str:
    first: int = context.data["first"]
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(context.data["lines"], first))


def _render_failure(context: RenderContext) -> str:
    return f"<error kind={context.kind}>{context.text}</error>"


_FILE = field("path", string())
READ = make_view(
    "Read",
    "Read a file.",
    "read",
    {
        "file_path!": _FILE,
        "offset": field("start_line", integer(minimum=1)),
        "limit": call_field("end_line", integer(minimum=1), _end, _limit),
    },
    result=_number_lines,
    aliases=("View", "Cat"),
)
WRITE = make_view(
    "Write",
    "Write a file.",
    "write",
    {"file_path!": _FILE, "content!": string()},
    fixed={"mode": "overwrite"},
)
EDIT = make_view(
    "Edit",
    "Replace text.",
    "edit",
    {
        "file_path!": _FILE,
        "old_string!": field("old", string()),
        "new_string!": field("new", string()),
        "all": field(
            "count",
            boolean(),
            lambda value: "all" if value else "one",
            lambda value: {"all": True, "one": False}.get(value, UNSET),
        ),
    },
)
BASH = make_view(
    "Bash",
    "Run a command.",
    "shell",
    {"command!": string(), "timeout": field("timeout", number(), lambda ms: ms / 1000, lambda s: s * 1000)},
    accepts={"time_limit": unmapped(number())},
    ignores={"description"},
    result=lambda context: f"{context.text}\n[{context.native['command']}]",
    failure=lambda context: f"Exit: {context.text}",
)
ACME = Facade(
    id="acme",
    title="Acme",
    views=(READ, WRITE, EDIT, BASH),
    failure=_render_failure,
    note="Read before you Edit.",
    hides=frozenset({"patch"}),
)

# ---- a harness with commands, a freeform tool and a namespace

_TEXT = Field(native="text", base="content")


def name_case(parameter: str, value: str) -> Field:
    """The parameter that selects a case: history names it, the base tool has none like it."""
    return Field(parameter, parameter, omit, base_default=value)


EDITOR = View(
    name="editor",
    description="See and change files.",
    parameters=object_schema(
        "command path",
        command=string(enum=["view", "create", "add"]),
        path=string(),
        text=string(),
        to=integer(),
    ),
    select_case=lambda native: native["command"],
    cases={
        "view": Case(
            base="read", fields=(name_case("command", "view"), "path", Field(native="to", base="end_line"))
        ),
        "create": Case(
            base="write",
            fields=(name_case("command", "create"), "path", _TEXT),
            fixed={"mode": "create_only"},
        ),
        "add": Case(
            base="write", fields=(name_case("command", "add"), "path", _TEXT), fixed={"mode": "append"}
        ),
    },
)
PATCH = View(
    name="apply_patch",
    description="Apply a patch.",
    parameters=None,
    kind="freeform",
    cases={"": Case(base="patch", fields=(Field(native="input", base="text"),))},
)
RUN = make_view(
    "run",
    "Run a command.",
    "shell",
    {"argv!": string_list()},
    namespace="term",
    to_base=lambda native: {"command": " ".join(native["argv"])},
    from_base=lambda base: {"argv": base["command"].split()} if "|" not in base["command"] else None,
)
BRAVO = Facade(id="bravo", title="Bravo", views=(EDITOR, PATCH, RUN), hides=frozenset({"edit"}))
