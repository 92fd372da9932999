"""`toolglot config`: show the settings in effect and where they come from.

Keys and headers are never shown.
"""

import os
import re
import sys
from typing import Any, cast

import click

from toolglot.cli.options import JSON
from toolglot.cli.printer import Printer, print_json
from toolglot.common.jsontext import dumps_text
from toolglot.common.redact import REDACTED, redact, redact_words
from toolglot.common.sanitize import shorten
from toolglot.common.user_dirs import config_file, data_directory, state_directory
from toolglot.config.layers import (
    DEFAULT,
    Configuration,
    SettingValue,
    WithheldSetting,
    find_project_file,
    read_configuration,
)
from toolglot.config.trust import trust_file

_MAX_VALUE = 200  # characters
_SECRET_KEY = re.compile(r"providers\..*\.headers\.|mcp\.servers\..*\.((env|headers)\.|oauth\.client_secret)")


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
                "values": [
                    {"key": v.key, "value": hide_secrets(v.key, v.value), "origin": v.origin} for v in values
                ],
                "held_back": [
                    {"key": w.key, "value": hide_secrets(w.key, w.value), "why": w.reason} for w in withheld
                ],
                "project": None if configuration.project is None else str(configuration.project),
                "trusted": configuration.trusted,
            }
        )
        return
    printer = Printer(sys.stdout)
    width = max(len(value.key) for value in configuration.values)
    changed = [value for value in configuration.values if value.origin != DEFAULT]
    for value in changed:
        printer.print_line(f"{value.key:{width}}  {_format_value(value)}  ({value.origin})", "bold")
    printer.print_line("" if changed else "all settings have their default values", "dim")
    for value in configuration.values:
        if value.origin == DEFAULT:
            printer.print_line(f"{value.key:{width}}  {_format_value(value)}", "dim")
    show_withheld(
        configuration, f"ignored because {configuration.project} is not trusted (run `toolglot trust`):"
    )


def show_withheld(configuration: Configuration, title: str) -> None:
    """Print the settings of an untrusted project file that are not in effect."""
    if not configuration.withheld:
        return
    printer = Printer(sys.stdout)
    printer.print_line("")
    printer.print_line(title, "yellow")
    for setting in configuration.withheld:
        printer.print_line(f"  {setting.key} = {_format_value(setting)}: {setting.reason}")


def hide_secrets(key: str, value: Any) -> Any:
    """Redact everything in a setting's value that is, or looks like, a secret."""
    if isinstance(value, str):
        return REDACTED if _SECRET_KEY.match(key) else redact(value, by_name=True)
    if isinstance(value, list | tuple):
        return redact_words(cast(tuple[str, ...], value))  # every list setting is a list of strings
    return value


def _format_value(setting: SettingValue | WithheldSetting) -> str:
    value = hide_secrets(setting.key, setting.value)
    if value is None:
        return "unset"
    # no limit: a word, as unset is
    return "none" if value == "none" else shorten(dumps_text(value), _MAX_VALUE)


@config.command("path")
@JSON
def show_paths(json: bool) -> None:
    """Print the files and directories in use."""
    paths = {"user file": config_file()}
    if project := find_project_file():
        paths["project file"] = project
    paths |= {"trusted directories": trust_file(), "data": data_directory(), "state": state_directory()}
    if json:
        print_json(
            [
                {"what": label, "path": str(path), "exists": os.path.exists(path)}
                for label, path in paths.items()
            ]
        )
        return
    printer = Printer(sys.stdout)
    for label, path in paths.items():
        suffix = "" if os.path.exists(path) else "  (does not exist)"
        printer.print_line(f"{label:20}  {path}{suffix}")
