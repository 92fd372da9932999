"""Writes the generated parts of the documentation. `--check`: only says whether they are current."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

from toolglot.builtin.tools import builtins
from toolglot.cli.chat.commands import COMMANDS as CHAT
from toolglot.cli.config import settings_table
from toolglot.cli.login import keys_table
from toolglot.cli.tools import facades_page
from toolglot.events import RunEvent
from toolglot.providers.catalog import FACTS, PROFILES
from toolglot.simulator.faults import FAULTS

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    *("chat", "run", "call", "models", "tools", "doctor", "config", "config show", "config path", "trust", "login", "logout"),
    *("simulate", "convert", "decode", "check", "demo"),
)


def speaks() -> str:
    """README: one line a provider."""
    rows = ["| provider | id | wire | tools | strict | tool choice |", "|---|---|---|---|---|---|"]
    for profile in PROFILES.values():
        features, limits = profile.features, profile.limits
        choices = ", ".join(sorted(features.choices))
        rows.append(
            f"| {profile.title} | `{profile.id}` | {profile.wire} | {limits.tools or 'no known limit'} "
            f"| {'yes' if features.strict and profile.strict_dialect else 'no'} | {choices} |"
        )
    return "\n".join(rows)


def providers() -> str:
    """docs/providers.md: every row of the catalog, with its limits, quirks and the facts of its models."""
    parts = [
        "# Providers and their quirks",
        "Generated from the catalog by `make docs`. A name or id that a provider refuses is mapped, and mapped back.",
    ]
    for profile in PROFILES.values():
        limits, features = profile.limits, profile.features
        parts.append(f"## {profile.title}")
        rows = [
            ("id", f"`{profile.id}`"),
            ("wire", profile.wire),
            ("address", f"`{profile.base_url}{profile.path}`" if profile.base_url else "yours"),
            ("key", ", ".join(f"`{name}`" for name in profile.key_env) or "none"),
            ("tools in a request", str(limits.tools or "no known limit")),
            ("tool names", f"`{limits.name}`".replace("|", "\\|")),
            ("call ids", f"`{limits.call_id}`".replace("|", "\\|")),
            ("tool choice", ", ".join(sorted(features.choices))),
            ("one call at a time", "yes" if features.parallel_off else "no"),
            ("media in tool results", ", ".join(sorted(features.result_media)) or "none: sent in a user message"),
            ("as of", f"{limits.as_of}, {limits.source}"),
        ]
        parts.append("\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]))
        notes = [
            *profile.notes,
            *(_fact(fact.model, fact.changes, fact.source) for fact in FACTS if profile.id in fact.profiles),
        ]
        parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _fact(model: str, changes: dict[str, object], source: str) -> str:
    said = ", ".join(f"{name} = {_plain(value)}" for name, value in changes.items())
    return f"Models `{model}`: {said} ({source})."


def _plain(value: object) -> str:
    if isinstance(value, frozenset | tuple):
        return ", ".join(sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value)) or "none"
    if hasattr(value, "__struct_fields__"):
        return ", ".join(name for name in value.__struct_fields__ if getattr(value, name) is True)
    return str(value)


def faults() -> str:
    """docs/simulator.md: one line a fault."""
    return "\n".join(["| fault | what goes wrong |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in FAULTS.items())])


def events() -> str:
    """docs/run.md: one line an event."""
    rows = ["| event | fields | when |", "|---|---|---|"]
    for kind in get_args(RunEvent):
        fields = ", ".join(f"`{name}`" for name in kind.__struct_fields__)
        about = (kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        rows.append(f"| `{kind.__name__}` | {fields} | {re.sub(r'  +', ' ', about)} |")
    return "\n".join(rows)


def chat() -> str:
    """docs/chat.md: one line a command."""
    rows = ["| command | what it does |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{f'/{name} {one.usage}'.strip()}` | {one.about} |" for name, one in CHAT.items())])


def tools() -> str:
    """docs/tools.md: one line a tool."""
    rows = ["| tool | may | what it does | parameters |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        own = builtins(folder, state=Path(folder) / "state")
        for one in own.tools:
            about = one.description.split("\n")[0]
            parameters = ", ".join((one.definition.parameters or {}).get("properties", {}))
            rows.append(
                f"| `{one.name}` | {', '.join(sorted(one.effects - {'network'} or one.effects))} | {about} | {parameters} |"
            )
        own.close()
    return "\n".join(rows)


def cli() -> str:
    """docs/cli.md: the help of every command."""
    parts = ["# The command line", "Generated from the commands' own help by `make docs`."]
    for command in ("", *COMMANDS):
        parts.append(f"## toolglot {command}".rstrip())
        parts.append(f"```text\n{_help(command)}\n```")
    return "\n\n".join(parts) + "\n"


def _help(command: str) -> str:
    env = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    words = [sys.executable, "-m", "toolglot.cli.main", *command.split(), "--help"]
    said = subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout
    said = said.replace("python -m toolglot.cli.main", "toolglot")
    return "\n".join(line.rstrip() for line in said.strip().splitlines())


def parts() -> dict[Path, str]:
    """Every generated file, whole."""
    docs = ROOT / "docs"
    return {
        ROOT / "README.md": _between("providers", speaks(), ROOT / "README.md"),
        docs / "providers.md": providers(),
        docs / "cli.md": cli(),
        docs / "simulator.md": _between("faults", faults(), docs / "simulator.md"),
        docs / "tools.md": _between("tools", tools(), docs / "tools.md"),
        docs / "facades.md": _between("facades", facades_page(), docs / "facades.md"),
        docs / "chat.md": _between("chat", chat(), docs / "chat.md"),
        docs / "run.md": _between("events", events(), docs / "run.md"),
        docs / "configuration.md": _between("settings", settings_table(), docs / "configuration.md"),
        docs / "keys.md": _between("keys", keys_table(), docs / "keys.md"),
    }


def _between(mark: str, text: str, page: Path) -> str:
    """A page with what stands between two marks written anew."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{text}\n{m[2]}", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def main() -> int:
    """Writes, or checks."""
    stale = [path for path, text in parts().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run 'make docs'")
        return bool(stale)
    for path in stale:
        path.write_text(parts()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
