"""`toolglot doctor`: report on the installation, configuration, keys, sandbox and tool statistics.

Nothing is changed, no key is shown, and without `--online` nothing is sent. A missing optional part is mentioned, but only a
broken part is a problem; problems make the exit code 1.
"""

import asyncio
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec

from toolglot.cli.config import hide_secrets
from toolglot.cli.diagnostics import (
    MAX_LOG_BYTES,
    MISSING,
    AuditSummary,
    Reachability,
    check_model,
    check_online,
    find_config_files,
    find_key_origin,
    installed_version,
    list_packages,
    read_audit,
    sandbox_rows,
)
from toolglot.cli.options import JSON
from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.cli.sanitize import shorten
from toolglot.config.layers import DEFAULT, Configuration, SettingValue, WithheldSetting, read_configuration
from toolglot.config.settings import Settings
from toolglot.errors import ToolglotError
from toolglot.jsontext import dumps_text
from toolglot.providers.catalog import PROFILES
from toolglot.redact import redact

__all__ = ["EXTRAS", "doctor"]

# extra -> its packages, and what it adds
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google credentials"),
    "keyring": (("keyring",), "store keys in the system keyring"),
    "copilot": (("keyring",), "sign in to Copilot with GitHub"),
    "rich": (("rich",), "render Markdown and live output in the chat"),
    "web": (("playwright", "trafilatura"), "open web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite code by syntax"),
}
_PROGRAMS = {"rg": ("rg",), "git": ("git",), "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome")}
_MAX_TOOLS, _MAX_NAME = 20, 32


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was collected; printed as it is by `--json`."""

    versions: dict[str, str]
    extras: dict[str, str | None]
    """extra -> versions of its packages; None if one is missing."""
    files: dict[str, str]
    settings: list[SettingValue]
    """Settings that differ from their defaults."""
    held_back: list[WithheldSetting]
    keys: dict[str, str | None]
    """provider -> where its key would come from."""
    sandbox: dict[str, str]
    programs: dict[str, str | None]
    audit: AuditSummary
    online: list[Reachability] | None
    problems: list[str]


@click.command()
@click.option("--online", is_flag=True, help="Also check which providers can be reached.")
@JSON
def doctor(online: bool, json: bool) -> int:
    """Check the installation, configuration, keys and sandbox."""
    problems: list[str] = []
    try:
        configuration = read_configuration()
    except ToolglotError as e:
        problems.append(redact(str(e)))
        configuration = Configuration(settings=Settings(), values=())
    report = _collect(configuration, problems, online=online)
    if json:
        write_json_line(sys.stdout, report)
    else:
        _print_report(Printer(sys.stdout), report)
    return 1 if report.problems else 0


def _collect(configuration: Configuration, problems: list[str], *, online: bool) -> Report:
    settings, versions = configuration.settings, list_packages()
    problems += [f"package {name} is missing: reinstall toolglot" for name, version in versions.items() if version == MISSING]
    keys = {id: find_key_origin(profile, settings) for id, profile in PROFILES.items()}
    problems += check_model(settings)
    audit = read_audit(settings, problems)
    reachability = asyncio.run(check_online([id for id, origin in keys.items() if origin], settings)) if online else None
    problems += [result.problem for result in reachability or () if result.problem]
    return Report(
        versions=versions,
        extras={name: _describe_packages(packages) for name, (packages, _) in EXTRAS.items()},
        files=find_config_files(configuration),
        settings=[
            SettingValue(value.key, _format_value(value.key, value.value), value.origin)
            for value in configuration.values
            if value.origin != DEFAULT
        ],
        held_back=[
            WithheldSetting(setting.key, _format_value(setting.key, setting.value), setting.reason)
            for setting in configuration.withheld
        ],
        keys=keys,
        sandbox=sandbox_rows(),
        programs={name: next(filter(None, map(shutil.which, names)), None) for name, names in _PROGRAMS.items()},
        audit=audit,
        online=reachability,
        problems=problems,
    )


def _describe_packages(packages: Iterable[str]) -> str | None:
    """Return the packages with their versions; None if one is not installed."""
    versions = {package: installed_version(package) for package in packages}
    return ", ".join(f"{package} {version}" for package, version in versions.items()) if all(versions.values()) else None


def _format_value(key: str, value: Any) -> str:
    visible = hide_secrets(key, value)
    return visible if isinstance(visible, str) else dumps_text(visible)


def _print_report(printer: Printer, report: Report) -> None:
    printer.print_text("Versions", "bold")
    printer.print_pairs(report.versions.items())
    extras = [
        (name, versions or f"not installed; to {EXTRAS[name][1]}: pip install 'toolglot[{name}]'")
        for name, versions in report.extras.items()
    ]
    printer.print_section("Extras", extras)
    settings = [(setting.key, f"{setting.value} ({setting.origin})") for setting in report.settings]
    printer.print_section("Configuration", [*report.files.items(), *(settings or [("settings", "all defaults")])])
    if report.held_back:
        rows = [(setting.key, f"{setting.value} ({setting.reason})") for setting in report.held_back]
        printer.print_section("Ignored until the directory is trusted", rows)
    printer.print_section("Keys", _key_rows(report.keys))
    printer.print_section("Sandbox", report.sandbox.items())
    printer.print_section("Programs", [(name, path or "not found") for name, path in report.programs.items()])
    _print_audit(printer, report.audit)
    if report.online is not None:
        reached = [
            ("·", f"{', '.join(result.providers)}: HTTP {result.status} in {result.seconds} s, {result.address}")
            for result in report.online
            if not result.problem
        ]
        printer.print_section("Online", reached or [("·", "no provider with a key was reached")])
    printer.print_text("")
    for problem in report.problems:
        printer.print_text(problem, "red", "✗ ", "  ")
    if not report.problems:
        printer.print_text("no problems found", "green", "✓ ")


def _key_rows(keys: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield one row per origin with its providers, then the providers without a key."""
    by_origin: dict[str, list[str]] = {}
    for id, origin in keys.items():
        if origin:
            by_origin.setdefault(origin, []).append(id)
    yield from ((origin, ", ".join(ids)) for origin, ids in by_origin.items())
    missing = [id for id, origin in keys.items() if not origin]
    if needed := [id for id in missing if PROFILES[id].auth != "optional"]:
        yield "no key", ", ".join(needed)
    if optional := [id for id in missing if PROFILES[id].auth == "optional"]:
        yield "no key needed", ", ".join(optional)


def _print_audit(printer: Printer, audit: AuditSummary) -> None:
    printer.print_section("Tool calls", [("audit log", audit.file or "off")])
    if audit.file and not audit.tools:
        printer.print_text("no calls have been recorded yet", "", "  ")
    rows = [
        {
            "tool": shorten(entry.tool, _MAX_NAME),
            "calls": str(entry.calls),
            "errors": str(sum(entry.errors.values())),
            "p50 s": _format_seconds(entry.p50),
            "p95 s": _format_seconds(entry.p95),
            "kinds": ", ".join(f"{kind} {count}" for kind, count in entry.errors.items()),
        }
        for entry in audit.tools[:_MAX_TOOLS]
    ]
    if rows:
        printer.print_text("")
        printer.print_table(rows, ("tool", "calls", "errors", "p95 s", "p50 s", "kinds"))
    notes = {
        f"and {len(audit.tools) - _MAX_TOOLS} more tools (use --json to see them)": len(audit.tools) > _MAX_TOOLS,
        f"{audit.damaged} damaged lines were skipped": audit.damaged > 0,
        f"only the last {MAX_LOG_BYTES // 1_000_000} MB were read": not audit.whole,
    }
    for note, applies in notes.items():
        if applies:
            printer.print_text(note, "dim", "  ")


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
