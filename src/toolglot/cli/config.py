"""`toolglot config`: show the settings in effect and where they come from. Keys and headers are never shown."""

import os
import sys
from collections.abc import Sequence
from typing import Any, cast

import click

from toolglot.cli.options import JSON
from toolglot.cli.printer import Printer, print_json
from toolglot.cli.sanitize import escape_invisible, shorten
from toolglot.config.layers import DEFAULT, Configuration, SettingValue, WithheldSetting, find_project_file, read_configuration
from toolglot.config.trust import trust_file
from toolglot.jsontext import dumps_text
from toolglot.redact import REDACTED, redact
from toolglot.user_dirs import config_file, data_directory, state_directory

__all__ = ["config", "hide_secrets", "show_configuration", "show_withheld"]

_UNSET = "unset"
_MAX_VALUE, _VALUE_COLUMN = 200, 40  # characters of a value, and width of its column


@click.group(no_args_is_help=False)
def config() -> None:
    """Show the configuration."""


@config.command("show")
@JSON
def show_settings(json: bool) -> None:
    """Print every setting and where it comes from."""
    show_configuration(read_configuration(), json=json)


def show_configuration(configuration: Configuration, *, json: bool) -> None:
    """Print every setting with its origin, changed ones first, then the withheld ones."""
    if json:
        values, withheld = configuration.values, configuration.withheld
        print_json(
            {
                "values": [{"key": v.key, "value": hide_secrets(v.key, v.value), "origin": v.origin} for v in values],
                "held_back": [{"key": w.key, "value": hide_secrets(w.key, w.value), "why": w.reason} for w in withheld],
                "project": None if configuration.project is None else str(configuration.project),
                "trusted": configuration.trusted,
            }
        )
        return
    printer = Printer(sys.stdout)
    changed = [value for value in configuration.values if value.origin != DEFAULT]
    defaults = [value for value in configuration.values if value.origin == DEFAULT]
    _show_values(printer, changed, "bold")
    printer.print_line("" if changed else "no settings are changed; these are the defaults", "dim")
    _show_values(printer, defaults, "dim")
    show_withheld(configuration, f"ignored because {configuration.project} is not trusted (run `toolglot trust`):")


def show_withheld(configuration: Configuration, title: str) -> None:
    """Print the settings of an untrusted project file that are not in effect."""
    if not configuration.withheld:
        return
    printer = Printer(sys.stdout)
    printer.print_line("")
    printer.print_line(title, "yellow")
    for setting in configuration.withheld:
        printer.print_line(f"  {escape_invisible(setting.key)} = {_format_value(setting)}: {escape_invisible(setting.reason)}")


def _show_values(printer: Printer, values: Sequence[SettingValue], style: str) -> None:
    """Print one line per setting; on a narrow terminal the origin goes below it."""
    keys, texts = [escape_invisible(value.key) for value in values], [_format_value(value) for value in values]
    key_width = max(map(len, keys), default=0)
    text_width = min(_VALUE_COLUMN, max(map(len, texts), default=0))
    for value, key, text in zip(values, keys, texts, strict=True):
        origin = "" if value.origin == DEFAULT else escape_invisible(value.origin)
        line = f"{key:{key_width}}  {text:{text_width}}  {origin}".rstrip()
        if origin and sys.stdout.isatty() and len(line) > printer.width:
            printer.print_line(f"{key}  {text}", style)
            line = f"    {origin}"
        printer.print_line(line, style)


def hide_secrets(key: str, value: Any) -> Any:
    """Redact everything in a setting's value that is, or looks like, a secret."""
    if isinstance(value, str):
        return REDACTED if key.startswith("providers.") and ".headers." in key else redact(value, by_name=True)
    if isinstance(value, list | tuple):
        return [hide_secrets(key, item) for item in cast(tuple[Any, ...], value)]
    return value


def _format_value(setting: SettingValue | WithheldSetting) -> str:
    value = hide_secrets(setting.key, setting.value)
    return _UNSET if value is None else shorten(dumps_text(value), _MAX_VALUE)


@config.command("path")
@JSON
def show_paths(json: bool) -> None:
    """Print the files and directories that are used."""
    paths = {"user file": config_file()}
    if project := find_project_file():
        paths["project file"] = project
    paths |= {"trusted directories": trust_file(), "data": data_directory(), "state": state_directory()}
    if json:
        print_json([{"what": label, "path": str(path), "exists": os.path.exists(path)} for label, path in paths.items()])
        return
    printer = Printer(sys.stdout)
    for label, path in paths.items():
        suffix = "" if os.path.exists(path) else "  (does not exist)"
        printer.print_line(f"{label:20}  {path}{suffix}")
