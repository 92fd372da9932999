"""Write the generated parts of the documentation, and stubs for packages with public names.

With `--check`, only report whether they are current.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args

import click
import msgspec
from generate_comparison import (
    FRONTEND_CLAIMS,
    ORDERS_CLAIMS,
    SUBAGENT_CLAIMS,
    render_claims,
    render_programs,
    render_restarts,
    render_results,
)
from generate_reference import (
    REFERENCE_PAGES,
    first_paragraph,
    render_errors,
    render_reference_index,
    render_reference_page,
)
from generate_security import render_promises, render_security_tests
from generate_tools import (
    docs_below,
    render_builtin_tools,
    render_generations,
    render_table,
    render_tool_names,
    render_tool_reference,
)

import toolglot
import toolglot.mcp
from toolglot.cli.chat.commands import COMMANDS
from toolglot.cli.main import app
from toolglot.common.jsontext import dumps_text
from toolglot.config.setting_schema import WILDCARD, setting_fields
from toolglot.config.settings import Settings
from toolglot.engine.signin.keyring_store import keyring_account
from toolglot.providers.catalog import PROFILES
from toolglot.providers.model_facts import FACTS
from toolglot.simulator.faults import FAULTS
from toolglot.values.events import RunEvent

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_RULE_LABELS = {"free": "yes", "trusted": "no"}
_SIGN_IN_NAMES = {
    "entra": "Microsoft Entra (`az login`, a managed identity, a service principal)",
    "adc": "Google (`gcloud auth application-default login`, `GOOGLE_APPLICATION_CREDENTIALS`)",
    "copilot": "GitHub (`toolglot login copilot`)",
}


# ---- providers


def render_supported() -> str:
    """README: one row per provider."""
    rows = [
        (
            profile.title,
            f"`{profile.id}`",
            profile.wire,
            profile.limits.tools or "no known limit",
            "yes" if profile.features.strict and profile.strict_dialect else "no",
            ", ".join(sorted(profile.features.choices)),
        )
        for profile in PROFILES.values()
    ]
    return render_table(("provider", "id", "wire", "tools", "strict", "tool choice"), rows)


def render_providers() -> str:
    """docs/providers.md: every row of the catalog, with its limits, quirks and the facts about its models."""
    parts = [
        "# Providers",
        "Generated from the catalog by `make docs`. Tool names and call ids that a provider rejects are "
        "mapped, and back.",
    ]
    for profile in PROFILES.values():
        limits, features = profile.limits, profile.features
        parts.append(f"## {profile.title}")
        rows = [
            ("id", f"`{profile.id}`"),
            ("wire", profile.wire),
            (
                "address",
                f"`{profile.base_url}{profile.path}`" if profile.base_url else "set by you",
            ),
            ("key", ", ".join(f"`{name}`" for name in profile.key_env) or "none"),
            ("tools per request", limits.tools or "no known limit"),
            ("tool names", f"`{limits.name}`".replace("|", "\\|")),
            ("call ids", f"`{limits.call_id}`".replace("|", "\\|")),
            ("tool choice", ", ".join(sorted(features.choices))),
            ("parallel calls can be turned off", "yes" if features.parallel_off else "no"),
            *(
                [("calls in the text", "[read as calls](guides/local-models.md#calls-in-the-text)")]
                if profile.text_calls
                else []
            ),
            (
                "media in tool results",
                ", ".join(sorted(features.result_media)) or "none: sent in a user message",
            ),
            ("as of", f"{limits.as_of}, {limits.source}"),
        ]
        parts.append(render_table(("", ""), rows).replace("|  |  |", "| | |"))
        facts = [
            f"Models `{fact.model}`: {format_changes(fact.changes)} ({fact.source})."
            for fact in FACTS
            if profile.id in fact.profiles
        ]
        parts.append("\n".join(f"- {note}" for note in (*profile.notes, *facts)))
    return "\n\n".join(parts) + "\n"


def format_changes(changes: dict[str, object]) -> str:
    """Format what a fact changes in a profile."""
    return ", ".join(f"{name} = {format_value(value)}" for name, value in changes.items())


def format_value(value: object) -> str:
    """Format a value of a profile."""
    if isinstance(value, frozenset | tuple):
        return (
            ", ".join(sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value))
            or "none"
        )
    if hasattr(value, "__struct_fields__"):
        return ", ".join(name for name in value.__struct_fields__ if getattr(value, name) is True)
    return str(value)


def render_keys() -> str:
    """Render the table of docs/keys.md: one row for each key."""
    rows = ["| key for | used by | variables | or sign in with |", "|---|---|---|---|"]
    for account in dict.fromkeys(map(keyring_account, PROFILES)):
        profiles = [
            profile for profile in PROFILES.values() if keyring_account(profile.id) == account
        ]
        first = profiles[0]
        variables = ", ".join(f"`{name}`" for name in (*first.key_env, *first.token_env)) or "none"
        optional = " (optional)" if first.auth == "optional" and first.key_env else ""
        ids = ", ".join(f"`{profile.id}`" for profile in profiles)
        rows.append(
            f"| `{account}` | {ids} | {variables}{optional} | {_SIGN_IN_NAMES.get(first.sign_in, '')} |"
        )
    return "\n".join(rows)


# ---- configuration


def render_settings() -> str:
    """Render the table of docs/configuration.md: one row per setting, described by its docstring."""
    rows = ["| setting and variable | default | project | meaning |", "|---|---|---|---|"]
    owner = Settings
    for field in setting_fields():
        is_nested = WILDCARD in field.key[:-1]  # the settings of a provider or a server
        if field.owner is not owner and field.owner is not Settings and not is_nested:
            section = first_paragraph(inspect.getdoc(field.owner))
            rows.append(f"| **{field.key[0]}** | | | {section} |")
        owner = field.owner
        default = (
            ""
            if field.key[-1] == WILDCARD
            else "unset"
            if field.default is None
            else f"`{dumps_text(field.default)}`"
        )
        variable = f"<br>`{field.variable}`" if field.variable else ""
        meaning = _field_docs(field.owner).get(field.name, "")
        rule = _RULE_LABELS.get(field.trust, "only stricter")
        row = f"| `{field.key_text}`{variable} | {default} | {rule} | {meaning} |"
        rows.append(row.replace("  ", " "))
    return "\n".join(rows)


@cache
def _field_docs(owner: Any) -> dict[str, str]:
    """Read the docstrings below a struct's fields from its source; Python does not keep them at run time."""
    body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]).body
    inherited = _field_docs(owner.__base__) if owner.__base__ is not msgspec.Struct else {}
    return inherited | docs_below(body)


# ---- events, faults and commands


def render_faults() -> str:
    """docs/simulator.md: one row per fault."""
    return render_table(
        ("fault", "effect"), ((f"`{name}`", effect) for name, effect in FAULTS.items())
    )


def render_events() -> str:
    """docs/run.md: one row per event, described by its docstring."""
    rows = [
        (
            f"`{event.__struct_config__.tag}`",
            ", ".join(f"`{name}`" for name in event.__struct_encode_fields__),
            first_paragraph(event.__doc__),
        )
        for event in get_args(RunEvent)
    ]
    return render_table(("event", "fields", "when"), rows)


def render_chat_commands() -> str:
    """docs/chat.md: one row per slash command."""
    rows = [
        (f"`{f'/{name} {command.usage}'.strip()}`", command.description)
        for name, command in COMMANDS.items()
    ]
    return render_table(("command", "effect"), rows)


def render_cli() -> str:
    """docs/cli.md: the help of every command."""
    parts = [
        "# Command line reference",
        "Generated from the help of the commands by `make docs`.",
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted with Ctrl-C; [`run`](run.md) adds "
        "3, stopped early.",
    ]
    for context in walk_commands(app, "toolglot"):
        parts.append(f"## {context.command_path}")
        parts.append(f"```text\n{context.get_help()}\n```")
    return "\n\n".join(parts) + "\n"


def walk_commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command and of all commands below it."""
    settings: dict[str, Any] = {
        **command.context_settings,
        "max_content_width": 100,
        "terminal_width": 100,
    }
    context = click.Context(command, parent=parent, info_name=name, **settings)
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None
            yield from walk_commands(child, child_name, context)


# ---- speed


def render_speed() -> str:
    """docs/performance.md: a chart and five sentences.

    Every figure is read from the tables that the benchmarks wrote.
    """
    page = (DOCS / "performance.md").read_text(encoding="utf-8").partition("<!-- bench -->")[2]
    loop, growth = read_table(page, "The tool loop: CPU"), read_table(page, "Growth: CPU")
    streams, requests = read_table(page, "Reading a stream"), read_table(page, "The next request")
    imports = read_table(page, "Import: CPU")
    chat = {
        name.split()[1]: cells for name, cells in loop.items() if name.startswith("openai-chat")
    }
    turns = {
        library: float(cells[4].split()[0])
        for library, cells in chat.items()
        if not library.startswith("floor")
    }
    width = 50 / max(turns.values())
    ratios = [
        ratio
        for name, cells in loop.items()
        if " floor" not in name
        for ratio in re.findall(r"\((.*?).\)", str(cells))
    ]
    s4, s5 = (growth["openai-chat toolglot"][column].split(" → ") for column in (1, 3))
    return "\n".join(
        (
            "CPU time of the client for one turn of a conversation of 50 turns with a tool call in each "
            "(scenario S4 below, "
            "Chat Completions; `agents` is the OpenAI Agents SDK):",
            "\n```text",
            *(
                f"{name:<12}{value:5.2f} ms {'█' * max(1, round(value * width))}"
                for name, value in turns.items()
            ),
            "```\n",
            f"1. Reading an event of a stream takes {spread(row[2] for row in streams.values())} µs, which "
            "is "
            f"{spread(row[0] for row in streams.values())} times what splitting and parsing alone take.",
            f"2. The other libraries need {spread(ratios)} times as much CPU as toolglot, depending on the "
            "scenario.",
            f"3. Long conversations stay cheap: a turn takes {s4[0]} ms at the beginning and {s4[1]} ms "
            "after 50 turns; with "
            f"results of 4 KB, {s5[0]} and {s5[1]} ms.",
            f"4. Encoding only what is new is {spread(row[0] for row in requests.values())} times faster "
            "than encoding a "
            "conversation of 2 MB as a whole.",
            f"5. `import toolglot` takes {imports['import toolglot'][1].split()[0]} ms, and "
            f"{imports['import toolglot with its five wires'][1].split()[0]} ms with all API formats.",
        )
    )


def read_table(page: str, title: str) -> dict[str, list[str]]:
    """Read a table of the benchmarks: the name of a row -> its cells."""
    text = page[page.index(title) :].partition("\n```")[0]
    table: dict[str, list[str]] = {}
    for part in text.split("\n\n")[
        1:
    ]:  # a wide table has several parts, each with some of the columns
        lines = part.strip("\n").splitlines()
        if len(lines) < 3 or {*lines[1]} != {"─"}:
            break
        for line in lines[2:]:
            name, *cells = re.split(r"\s{2,}", line.strip())
            table.setdefault(name, []).extend(cells)
    return table


def spread(cells: Iterable[str]) -> str:
    """Format the smallest and the largest of the numbers that cells begin with."""
    numbers = [float(re.match(r"[\d.]+", cell.replace(",", ""))[0]) for cell in cells]
    return f"{min(numbers):.2g} to {max(numbers):.3g}"


def render_example(name: str) -> str:
    """Show a file of examples/. The tests of the examples run it, so it is not marked as a block to run."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    return f"```{name.rpartition('.')[2]}\n{text}```"


def render_examples() -> str:
    """docs/examples.md: every program of examples/ with its purpose; those that say what they print are
    shown.
    """
    programs = sorted((ROOT / "examples").glob("*.py"))
    docs = {
        path.name: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split(
            "\n"
        )[0]
        for path in programs
    }
    shown = [path.name for path in programs if "# Output:" in path.read_text(encoding="utf-8")]
    parts = [
        "# Examples",
        "The programs in `examples/` of the repository. The tests run them, on the simulator and over HTTP.",
        render_table(
            ("file", "purpose"),
            (
                (f"[`{name}`](#{name.replace('.', '')})" if name in shown else f"`{name}`", doc)
                for name, doc in docs.items()
            ),
        ),
        *(f"## {name}\n\n{render_example(name)}" for name in shown),
    ]
    return "\n\n".join(parts) + "\n"


# ---- source


def render_stub(package: ModuleType) -> str:
    """src/toolglot/__init__.pyi and the like: for type checkers, where the names of a package come from."""
    path = package.__name__
    imports = [
        f"from {path}.{home} import {name} as {name}" for name, home in package._HOME.items()
    ]
    lines = [
        "# Generated from `_HOMES` by `make docs`. `X as X` marks a name that is exported.",
        *sorted(imports),
        "",
    ]
    if hasattr(package, "__version__"):
        lines.append("__version__: str")
    return "\n".join([*lines, "__all__: list[str]", ""])


# ---- files

# Page, mark and text of the parts between `<!-- MARK -->` and `<!-- /MARK -->`.
GENERATED_PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("README.md", "providers", render_supported),
    ("SECURITY.md", "promises", render_promises),
    ("docs/simulator.md", "faults", render_faults),
    ("docs/tools.md", "tools", render_builtin_tools),
    ("docs/facades.md", "generations", render_generations),
    ("docs/facades.md", "facades", render_tool_names),
    ("docs/chat.md", "chat", render_chat_commands),
    ("docs/run.md", "events", render_events),
    ("docs/run.md", "my_tools", partial(render_example, "my_tools.py")),
    ("docs/configuration.md", "starter", partial(render_example, "toolglot.toml")),
    ("docs/configuration.md", "settings", render_settings),
    ("docs/keys.md", "keys", render_keys),
    ("docs/errors.md", "errors", render_errors),
    ("docs/performance.md", "speed", render_speed),
    ("docs/comparison.md", "claims", partial(render_claims, "orders", ORDERS_CLAIMS)),
    ("docs/comparison.md", "results", partial(render_results, "orders")),
    ("docs/comparison.md", "programs", partial(render_programs, "orders")),
    ("docs/comparison.md", "subagent-claims", partial(render_claims, "subagent", SUBAGENT_CLAIMS)),
    ("docs/comparison.md", "subagent-results", partial(render_restarts, "subagent")),
    (
        "docs/comparison.md",
        "subagent-programs",
        partial(render_programs, "subagent", "A sub-agent with"),
    ),
    ("docs/comparison.md", "frontend-claims", partial(render_claims, "frontend", FRONTEND_CLAIMS)),
    ("docs/comparison.md", "frontend-results", partial(render_restarts, "frontend")),
    (
        "docs/comparison.md",
        "frontend-programs",
        partial(render_programs, "frontend", "A tool of the front end with"),
    ),
    ("docs/guides/fastapi.md", "fastapi", partial(render_example, "fastapi_sse.py")),
    ("docs/guides/web-frontends.md", "vercel", partial(render_example, "vercel_server.py")),
)
GENERATED_PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "src" / "toolglot" / "__init__.pyi": partial(render_stub, toolglot),
    ROOT / "src" / "toolglot" / "mcp" / "__init__.pyi": partial(render_stub, toolglot.mcp),
    DOCS / "providers.md": render_providers,
    DOCS / "cli.md": render_cli,
    DOCS / "examples.md": render_examples,
    DOCS / "tool-reference.md": render_tool_reference,
    DOCS / "security-tests.md": render_security_tests,
    DOCS / "reference" / "index.md": render_reference_index,
    **{
        DOCS / "reference" / f"{page}.md": partial(render_reference_page, page)
        for page in REFERENCE_PAGES
    },
}


def render_files() -> dict[Path, str]:
    """Render the whole text of every file that is generated, at least in part."""
    files = {path: render() for path, render in GENERATED_PAGES.items()}
    for name, mark, render in GENERATED_PARTS:
        path, part = ROOT / name, render()
        page = files.get(path) or path.read_text(encoding="utf-8")
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        assert re.search(pattern, page, re.DOTALL), f"{name} has no mark {mark}"
        files[path] = re.sub(
            pattern, lambda match, part=part: f"{match[1]}{part}\n{match[2]}", page, flags=re.DOTALL
        )
    return files


def main() -> int:
    """Write or check the files; return the exit code."""
    files = render_files()
    stale = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is stale: run 'make docs'")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
