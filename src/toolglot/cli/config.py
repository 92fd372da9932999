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

from toolglot.cli.visible import shortened, visible
from toolglot.config.env import variable_of
from toolglot.config.laws import law_of
from toolglot.config.places import config_file, data_folder, state_folder
from toolglot.config.read import DEFAULT, Configuration, HeldBack, Value, project_file
from toolglot.config.settings import Settings
from toolglot.config.shape import FREE, Leaf, leaves
from toolglot.config.trust import trust_file
from toolglot.jsontext import dumps, dumps_text
from toolglot.redact import HIDDEN, redact

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["hidden", "settings_table", "show", "show_held_back", "where"]

_UNSET = "unset"
_LONGEST, _COLUMN = 200, 40  # characters of a value, and of the column for them
_LAWS = {"free": "yes", "tighter": "only tighter", "trusted": "no"}


# ---- show


def show(configuration: Configuration, *, json: bool) -> None:
    """Every value with its origin, those that somebody set first; then what was held back."""
    if json:
        _print_json(_document(configuration))
        return
    console = _console()
    own = [value for value in configuration.values if value.origin != DEFAULT]
    others = [value for value in configuration.values if value.origin == DEFAULT]
    _show_values(console, own, "bold")
    _line(console, "" if own else "nothing is set: these are the defaults", "dim")
    _show_values(console, others, "dim")
    show_held_back(configuration, f"held back, because {configuration.project} is not trusted (toolglot trust):")


def show_held_back(configuration: Configuration, title: str) -> None:
    """What an untrusted project file asked for in vain, under a title."""
    if not configuration.held_back:
        return
    console = _console()
    _line(console, "")
    _line(console, visible(title), "yellow")
    for one in configuration.held_back:
        _line(console, f"  {visible(one.key)} = {_text(one)}: {visible(one.why)}")


def _show_values(console: "Console", values: Sequence[Value], style: str) -> None:
    """One line a value; on a narrow terminal its origin stands below it."""
    keys, texts = [visible(value.key) for value in values], [_text(value) for value in values]
    width, wide = max(map(len, keys), default=0), min(_COLUMN, max(map(len, texts), default=0))
    for value, key, text in zip(values, keys, texts, strict=True):
        origin = "" if value.origin == DEFAULT else visible(value.origin)
        line = f"{key:{width}}  {text:{wide}}  {origin}".rstrip()
        if origin and console.is_terminal and len(line) > console.width:
            line = f"{key}  {text}\n    {origin}"
        _line(console, line, style)


def _document(configuration: Configuration) -> dict[str, Any]:
    return {
        "values": [{"key": one.key, "value": hidden(one.key, one.value), "origin": one.origin} for one in configuration.values],
        "held_back": [{"key": one.key, "value": hidden(one.key, one.value), "why": one.why} for one in configuration.held_back],
        "project": None if configuration.project is None else str(configuration.project),
        "trusted": configuration.trusted,
    }


def hidden(key: str, value: Any) -> Any:
    """A value without anything that is secret, or looks like it."""
    if isinstance(value, str):
        return HIDDEN if key.startswith("providers.") and ".headers." in key else redact(value, named=True)
    if isinstance(value, list | tuple):
        return [hidden(key, one) for one in cast(tuple[Any, ...], value)]
    return value


def _text(one: Value | HeldBack) -> str:
    value = hidden(one.key, one.value)
    return _UNSET if value is None else shortened(dumps_text(value), _LONGEST)


# ---- where


def where(*, json: bool) -> None:
    """The files that are looked at, and whether they exist."""
    found = [{"what": what, "path": str(path), "exists": os.path.exists(path)} for what, path in _looked_at()]
    if json:
        _print_json(found)
        return
    console = _console()
    for one in found:
        _line(console, f"{one['what']:16}  {visible(str(one['path']))}{'' if one['exists'] else '  (absent)'}")


def _looked_at() -> Iterator[tuple[str, Path]]:
    yield "user file", config_file()
    if project := project_file():
        yield "project file", project
    yield "trusted folders", trust_file()
    yield "data", data_folder()
    yield "state", state_folder()


# ---- the page of the documentation


def settings_table() -> str:
    """docs/configuration.md: one line a setting."""
    rows = ["| setting | default | variable | project | meaning |", "|---|---|---|---|---|"]
    owner = Settings
    for leaf in leaves():
        if leaf.owner is not owner and leaf.owner is not Settings and leaf.key[0] != "providers":
            rows.append(f"| **{leaf.key[0]}** | | | | {_about(leaf.owner)} |")
        owner = leaf.owner
        variable = f"`{variable_of(leaf)}`" if variable_of(leaf) else ""
        meaning = _meanings(leaf.owner).get(leaf.name, "")
        rows.append(
            f"| `{leaf.dotted}` | {_default(leaf)} | {variable} | {_LAWS[law_of(leaf)]} | {meaning} |".replace("  ", " ")
        )
    return "\n".join(rows)


def _default(leaf: Leaf) -> str:
    return "" if leaf.key[-1] == FREE else _UNSET if leaf.default is None else f"`{dumps_text(leaf.default)}`"


def _about(owner: Any) -> str:
    return (inspect.getdoc(owner) or "").partition("\n")[0]


@cache
def _meanings(owner: Any) -> dict[str, str]:
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


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _line(console: "Console", text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)


def _print_json(value: Any) -> None:
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(dumps(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()
