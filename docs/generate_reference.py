"""The generated pages about the public names: the API reference and the tree of errors."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module

from generate_tools import docs_below, escape, render_table

import toolglot
from toolglot.errors import ToolglotError

CODE_COLUMNS = 100  # what the column of the site has room for

# Page -> its title, the modules or packages whose public names it describes, and the names to begin with. A
# package with public names of its own is named in full.
REFERENCE_PAGES = {
    "agents": ("Agents and runs", "loop config telemetry", "Agent from_config"),
    "tools": ("Tools", "tools values.approvals", "tool Context ToolConfig ToolError"),
    "messages": (
        "Messages and requests",
        "values.messages values.definitions values.request values.losses",
        "Conversation Message user assistant system",
    ),
    "events": (
        "Events and results",
        "values.events values.deliveries",
        "RunResult ToolOutcome Delivery",
    ),
    "engines": (
        "Engines, transports and the simulator",
        "engine simulator",
        "create_engine Engine",
    ),
    "formats": (
        "API formats and providers",
        "wire providers schema",
        "encode_request decode_request create_reader",
    ),
    "builtin": (
        "Built-in tools and facades",
        "builtin facades confine common.skills",
        "coding_tools builtins",
    ),
    "errors": ("Errors", "errors", "ToolglotError"),
    "mcp": ("MCP", "toolglot.mcp", "McpServers McpServer McpToolServer"),
    "bridges": ("Bridges", "toolglot.bridges", "export_messages import_messages"),
    "plugins": ("Plug-ins", "common.plugins", "list_plugins load_plugin"),
}


def public_names(page: str) -> list[str]:
    """List the public names that a page of the reference describes."""
    _, modules, first = REFERENCE_PAGES[page]
    package = modules.removeprefix("toolglot.") if modules.startswith("toolglot.") else ""
    if package:
        names = import_module(modules).__all__
        return [
            f"{package}.{name}"
            for name in (*first.split(), *(name for name in names if name not in first.split()))
        ]
    homes = tuple(f"{module}." for module in modules.split())
    names = [name for name in toolglot.__all__ if f"{toolglot._HOME[name]}.".startswith(homes)]
    return [name for name in first.split() if name in names] + [
        name for name in names if name not in first.split()
    ]


def render_reference_index() -> str:
    """docs/reference/index.md: every public name in one line."""
    parts = [
        "# API reference",
        "Everything that `from toolglot import …` offers, and the same for `toolglot.mcp` and "
        "`toolglot.bridges`. "
        "Generated from the docstrings by `make docs`.",
    ]
    for page, (title, *_) in REFERENCE_PAGES.items():
        rows = [
            (f"[`{name}`]({page}.md#toolglot.{name})", escape(summarize(name)))
            for name in public_names(page)
        ]
        parts += [f"## [{title}]({page}.md)", render_table(("name", "purpose"), rows)]
    return "\n\n".join(parts) + "\n"


def render_reference_page(page: str) -> str:
    """docs/reference/PAGE.md: what the site generator replaces by the docstrings."""
    return (
        "\n\n".join(
            [
                f"# {REFERENCE_PAGES[page][0]}",
                *(f"::: toolglot.{name}" for name in public_names(page)),
            ]
        )
        + "\n"
    )


def summarize(name: str) -> str:
    """Return the first sentence about a public name; that of a union or an alias stands below it in its
    module.
    """
    package, _, name = name.rpartition(".")
    home = import_module(f"toolglot.{package}") if package else toolglot
    value = getattr(home, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        doc = inspect.getdoc(value) or ""
    else:
        homes = getattr(
            home, "_HOME", {}
        )  # where a package imports its names from; a module has its own
        source = inspect.getsource(
            import_module(f"{home.__name__}.{homes[name]}") if homes else home
        )
        doc = docs_below(ast.parse(source).body).get(name, "")
    return first_paragraph(doc)


def first_paragraph(doc: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((doc or "").split("\n\n")[0].split())


def render_errors() -> str:
    """docs/errors.md: the tree of exceptions."""
    rows = list(walk_errors(ToolglotError, 0))
    indent = max(len(name) for name, _ in rows) + 2
    lines = [
        line
        for name, doc in rows
        for line in textwrap.wrap(
            doc, CODE_COLUMNS, initial_indent=name.ljust(indent), subsequent_indent=" " * indent
        )
    ]
    return "```text\n" + "\n".join(lines) + "\n```"


def walk_errors(error: type[ToolglotError], depth: int) -> Iterator[tuple[str, str]]:
    """Yield the indented name of an exception and its first sentence, and those of each one below it."""
    doc = re.split(r"(?<=\.) |; ", re.sub(r"\s+", " ", error.__doc__ or ""))[0].rstrip(".") + "."
    yield "  " * depth + error.__name__, doc
    for child in error.__subclasses__():
        if child.__name__ in toolglot.__all__ and child.__bases__[0] is error:
            yield from walk_errors(child, depth + 1)
