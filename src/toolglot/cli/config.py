"""`toolglot config`: what counts and where it came from. Keys and headers are never shown."""

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolglot.cli.sanitize import escape_invisible, shorten
from toolglot.config.environment import variable_name
from toolglot.config.layers import DEFAULT, Configuration, SettingValue, WithheldSetting, find_project_file
from toolglot.config.paths import config_file, data_directory, state_directory
from toolglot.config.setting_schema import WILDCARD, SettingField, setting_fields
from toolglot.config.settings import Settings
from toolglot.config.trust import trust_file
from toolglot.config.trust_rules import trust_rule_of
from toolglot.jsontext import dumps, dumps_text
from toolglot.redact import REDACTED, redact

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["hide_secrets", "settings_table", "show_configuration", "show_paths", "show_withheld"]

_UNSET = "unset"
_MAX_VALUE, _VALUE_COLUMN = 200, 40  # characters of a value, and of the column for them
_RULE_LABELS = {"free": "yes", "tighter": "only tighter", "trusted": "no"}


# ---- show


def show_configuration(configuration: Configuration, *, json: bool) -> None:
    """Every value with its origin, those that somebody set first; then what was held back."""
    if json:
        _print_json(_to_json(configuration))
        return
    console = _create_console()
    own = [value for value in configuration.values if value.origin != DEFAULT]
    others = [value for value in configuration.values if value.origin == DEFAULT]
    _show_values(console, own, "bold")
    _print_line(console, "" if own else "nothing is set: these are the defaults", "dim")
    _show_values(console, others, "dim")
    show_withheld(configuration, f"held back, because {configuration.project} is not trusted (toolglot trust):")


def show_withheld(configuration: Configuration, title: str) -> None:
    """What an untrusted project file asked for in vain, under a title."""
    if not configuration.withheld:
        return
    console = _create_console()
    _print_line(console, "")
    _print_line(console, escape_invisible(title), "yellow")
    for one in configuration.withheld:
        _print_line(console, f"  {escape_invisible(one.key)} = {_format_value(one)}: {escape_invisible(one.reason)}")


def _show_values(console: "Console", values: Sequence[SettingValue], style: str) -> None:
    """One line a value; on a narrow terminal its origin stands below it."""
    keys, texts = [escape_invisible(value.key) for value in values], [_format_value(value) for value in values]
    width, wide = max(map(len, keys), default=0), min(_VALUE_COLUMN, max(map(len, texts), default=0))
    for value, key, text in zip(values, keys, texts, strict=True):
        origin = "" if value.origin == DEFAULT else escape_invisible(value.origin)
        line = f"{key:{width}}  {text:{wide}}  {origin}".rstrip()
        if origin and console.is_terminal and len(line) > console.width:
            line = f"{key}  {text}\n    {origin}"
        _print_line(console, line, style)


def _to_json(configuration: Configuration) -> dict[str, Any]:
    return {
        "values": [
            {"key": one.key, "value": hide_secrets(one.key, one.value), "origin": one.origin} for one in configuration.values
        ],
        "held_back": [
            {"key": one.key, "value": hide_secrets(one.key, one.value), "why": one.reason} for one in configuration.withheld
        ],
        "project": None if configuration.project is None else str(configuration.project),
        "trusted": configuration.trusted,
    }


def hide_secrets(key: str, value: Any) -> Any:
    """A value without anything that is secret, or looks like it."""
    if isinstance(value, str):
        return REDACTED if key.startswith("providers.") and ".headers." in key else redact(value, by_name=True)
    if isinstance(value, list | tuple):
        return [hide_secrets(key, one) for one in cast(tuple[Any, ...], value)]
    return value


def _format_value(one: SettingValue | WithheldSetting) -> str:
    value = hide_secrets(one.key, one.value)
    return _UNSET if value is None else shorten(dumps_text(value), _MAX_VALUE)


# ---- where


def show_paths(*, json: bool) -> None:
    """The files that are looked at, and whether they exist."""
    found = [{"what": what, "path": str(path), "exists": os.path.exists(path)} for what, path in _list_paths()]
    if json:
        _print_json(found)
        return
    console = _create_console()
    for one in found:
        _print_line(console, f"{one['what']:16}  {escape_invisible(str(one['path']))}{'' if one['exists'] else '  (absent)'}")


def _list_paths() -> Iterator[tuple[str, Path]]:
    yield "user file", config_file()
    if project := find_project_file():
        yield "project file", project
    yield "trusted folders", trust_file()
    yield "data", data_directory()
    yield "state", state_directory()


# ---- the page of the documentation


def settings_table() -> str:
    """docs/configuration.md: one line a setting."""
    rows = ["| setting | default | variable | project | meaning |", "|---|---|---|---|---|"]
    owner = Settings
    for leaf in setting_fields():
        if leaf.owner is not owner and leaf.owner is not Settings and leaf.key[0] != "providers":
            rows.append(f"| **{leaf.key[0]}** | | | | {_first_doc_line(leaf.owner)} |")
        owner = leaf.owner
        variable = f"`{variable_name(leaf)}`" if variable_name(leaf) else ""
        meaning = _field_docs(leaf.owner).get(leaf.name, "")
        rows.append(
            f"| `{leaf.key_text}` | {_format_default(leaf)} | {variable} | {_RULE_LABELS[trust_rule_of(leaf)]} | {meaning} |".replace(  # noqa: E501
                "  ", " "
            )
        )
    return "\n".join(rows)


def _format_default(leaf: SettingField) -> str:
    return "" if leaf.key[-1] == WILDCARD else _UNSET if leaf.default is None else f"`{dumps_text(leaf.default)}`"


def _first_doc_line(owner: Any) -> str:
    return (inspect.getdoc(owner) or "").partition("\n")[0]


@cache
def _field_docs(owner: Any) -> dict[str, str]:
    """The docstrings of a struct's attributes, as they stand in its source."""
    body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]).body
    return {
        field.target.id: inspect.cleandoc(text.value.value).replace("\n", " ").replace("|", "\\|")
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


# ---- printing


def _create_console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_line(console: "Console", text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)


def _print_json(value: Any) -> None:
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(dumps(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()
