"""`toolglot doctor`: report on the installation, configuration, keys, sandbox and the audit log.

Nothing is changed or sent, and no key is shown. A missing optional part is mentioned, but only a
broken part is a problem; if there are problems, the exit code is 1.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from toolglot.cli import probes
from toolglot.cli.audit_summary import MAX_LOG_BYTES, AuditedTool, AuditSummary, read_audit_summary
from toolglot.cli.options import JSON
from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.common.plugins import Plugin, list_plugins
from toolglot.common.redact import redact
from toolglot.common.sanitize import shorten
from toolglot.config.layers import Configuration, SettingValue, WithheldSetting, read_configuration
from toolglot.config.settings import Settings
from toolglot.confine.roots import Root
from toolglot.errors import ToolglotError
from toolglot.providers.catalog import PROFILES

_MAX_TOOLS, _MAX_NAME = 20, 32


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was collected; `--json` prints it unchanged."""

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
    tools: dict[str, str]
    """built-in tool -> why it is not offered, or what it lacks."""
    plugins: list[Plugin]
    """Plug-ins from installed packages."""
    instructions: dict[str, str]
    """A file with instructions, or a skill -> where it is from, or why it is not used."""
    servers: dict[str, str]
    """MCP server -> whether it is used, what it starts, and where it comes from; none is started here."""
    programs: dict[str, str | None]
    audit: AuditSummary
    problems: list[str]


@click.command()
@JSON
def doctor(json: bool) -> int:
    """Check the installation, configuration, keys and sandbox."""
    problems: list[str] = []
    try:
        configuration = read_configuration()
    except ToolglotError as e:
        problems.append(redact(str(e)))
        configuration = Configuration(settings=Settings(), values=())
    report = _collect(configuration, problems)
    if json:
        write_json_line(sys.stdout, report)
    else:
        _print_report(Printer(sys.stdout), report)
    return int(bool(problems))


def _collect(configuration: Configuration, problems: list[str]) -> Report:
    settings = configuration.settings
    workspace = Root(Path(settings.builtin.root or ".").expanduser())
    # In this order, because problems are printed in the order in which they are found.
    versions = probes.list_packages(problems)
    probes.check_model(settings, problems)
    probes.check_directories(problems)
    probes.check_plugins(problems)
    return Report(
        versions=versions,
        extras=probes.describe_extras(),
        files=probes.describe_files(configuration),
        settings=probes.list_changed_settings(configuration),
        held_back=probes.list_withheld_settings(configuration),
        keys=probes.describe_keys(settings),
        sandbox=probes.describe_sandboxing(workspace, is_wanted=settings.builtin.sandbox),
        tools=probes.describe_tools(settings, workspace),
        plugins=list(list_plugins()),
        instructions=probes.describe_instructions(settings, workspace, problems),
        servers=probes.describe_servers(configuration, problems),
        programs=probes.find_programs(workspace),
        audit=read_audit_summary(settings, problems),
        problems=problems,
    )


def _print_report(printer: Printer, report: Report) -> None:
    printer.print_text("Versions", "bold")
    printer.print_pairs(report.versions.items())
    printer.print_section("Extras", _extra_rows(report.extras))
    settings = [(setting.key, f"{setting.value} ({setting.origin})") for setting in report.settings]
    printer.print_section(
        "Configuration", [*report.files.items(), *(settings or [("settings", "all defaults")])]
    )
    if report.held_back:
        withheld = [(setting.key, f"{setting.value} ({setting.reason})") for setting in report.held_back]
        printer.print_section("Ignored until the directory is trusted", withheld)
    printer.print_section("Keys", _key_rows(report.keys))
    printer.print_section("Sandbox", report.sandbox.items())
    printer.print_section("Built-in tools", report.tools.items() or [("all", "usable")])
    plugins = [
        (f"{plugin.kind}: {plugin.name}", f"{plugin.target} ({plugin.origin})") for plugin in report.plugins
    ]
    printer.print_section("Plug-ins", plugins or [("plug-ins", "none installed")])
    printer.print_section(
        "Instructions", report.instructions.items() or [("AGENTS.md and skills", "none found")]
    )
    printer.print_section(
        "MCP servers", report.servers.items() or [("none", "add one with toolglot mcp add")]
    )
    printer.print_section("Programs", [(name, path or "not found") for name, path in report.programs.items()])
    _print_audit(printer, report.audit)
    printer.print_text("")
    for problem in report.problems:
        printer.print_text(problem, "red", "✗ ", "  ")
    if not report.problems:
        printer.print_text("no problems found", "green", "✓ ")


def _extra_rows(extras: Mapping[str, str | None]) -> Iterator[Row]:
    for name, versions in extras.items():
        _, purpose = probes.EXTRAS[name]
        yield name, versions or f"not installed; to {purpose}: pip install 'toolglot[{name}]'"


def _key_rows(keys: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield one row per origin with its providers, then the providers without a key."""
    providers: dict[str, list[str]] = {}
    for id, origin in sorted(keys.items(), key=lambda pair: pair[1] is None):
        label = origin
        if label is None:
            label = "no key needed" if PROFILES[id].auth == "optional" else "no key"
        providers.setdefault(label, []).append(id)
    for label, ids in providers.items():
        yield label, ", ".join(ids)


def _print_audit(printer: Printer, audit: AuditSummary) -> None:
    printer.print_section("Tool calls", [("audit log", audit.file or "off")])
    if audit.file and not audit.tools:
        printer.print_text("no calls have been recorded yet", "", "  ")
    if audit.tools:
        printer.print_text("")
        printer.print_table([_audit_row(entry) for entry in audit.tools[:_MAX_TOOLS]])
    notes: list[str] = []
    if len(audit.tools) > _MAX_TOOLS:
        notes.append(f"and {len(audit.tools) - _MAX_TOOLS} more tools (use --json to see them)")
    if audit.damaged:
        notes.append(f"{audit.damaged} damaged lines were skipped")
    if not audit.whole:
        notes.append(f"only the last {MAX_LOG_BYTES // 1_000_000} MB were read")
    for note in notes:
        printer.print_text(note, "dim", "  ")


def _audit_row(entry: AuditedTool) -> dict[str, str]:
    return {
        "tool": shorten(entry.tool, _MAX_NAME),
        "calls": str(entry.calls),
        "errors": str(sum(entry.errors.values())),
        "p50 s": _format_seconds(entry.p50),
        "p95 s": _format_seconds(entry.p95),
        "kinds": ", ".join(f"{kind} {count}" for kind, count in entry.errors.items()),
    }


def _format_seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"
