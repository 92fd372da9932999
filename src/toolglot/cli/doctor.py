"""`toolglot doctor`: report on the installation, configuration, keys, sandbox and tool statistics.

Nothing is changed or sent, and no key is shown. A missing optional part is mentioned, but only a
broken part is a problem; if there are problems, the exit code is 1.
"""

import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import msgspec

from toolglot.builtin.web.browser import NO_SANDBOX_NOTE, BrowserUnavailable, can_sandbox, find_browser
from toolglot.cli.config import hide_secrets
from toolglot.cli.main import COMMANDS
from toolglot.cli.options import JSON
from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.cli.servers import describe_entry
from toolglot.cli.startup import require_key
from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.common.plugins import Plugin, describe_problems, list_plugins
from toolglot.common.redact import redact
from toolglot.common.sanitize import shorten
from toolglot.common.user_dirs import config_file, data_directory, is_writable, state_directory
from toolglot.config.instructions import load_instructions
from toolglot.config.layers import DEFAULT, PROJECT_FILE, Configuration, SettingValue, WithheldSetting, read_configuration
from toolglot.config.mcp_servers import find_servers
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.confine.confined_open import NOT_SUPPORTED
from toolglot.confine.programs import find_program
from toolglot.confine.roots import Root
from toolglot.confine.sandbox_probe import describe_sandbox
from toolglot.engine.auth import SIGN_INS, describe_key_origin
from toolglot.engine.signin.environment import read_key_variable
from toolglot.errors import ToolglotError, UsageError
from toolglot.facades.catalog import FACADE_ALIASES, FACADE_MODULES
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.providers.profile import Profile
from toolglot.wire.spec import WIRES

# extra -> its packages, and what it adds
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google credentials"),
    "keyring": (("keyring",), "store keys in the system keyring"),
    "copilot": (("keyring",), "sign in to Copilot with GitHub"),
    "rich": (("rich",), "render Markdown and live output in the chat"),
    "web": (("playwright", "trafilatura"), "open web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite code by syntax"),
    "mcp": (("mcp",), "use MCP servers, or run as one"),
    "acp": (("agent-client-protocol",), "run in editors"),
    "otel": (("opentelemetry-api",), "trace runs with OpenTelemetry"),
    "code": (("mini-racer", "pydantic-monty"), "let models write code that calls tools"),
}
_PROGRAMS = {"rg": ("rg",), "git": ("git",), "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome")}
_MAX_TOOLS, _MAX_NAME = 20, 32
_MISSING = "missing"
MAX_LOG_BYTES = 5_000_000  # read from the end of the audit log


class ToolStatistics(msgspec.Struct, frozen=True):
    """Statistics of one tool in the audit log. The percentiles count only calls that ran, in seconds."""

    tool: str
    calls: int
    errors: dict[str, int]
    p50: float | None
    p95: float | None


class AuditSummary(msgspec.Struct, frozen=True):
    """The audit log. `whole` is False if only its end was read."""

    file: str | None
    tools: list[ToolStatistics] = []
    damaged: int = 0
    whole: bool = True


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


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
    settings, versions = configuration.settings, _list_packages()
    problems += [f"package {name} is missing: reinstall toolglot" for name, version in versions.items() if version == _MISSING]
    if settings.model is not None:
        try:
            require_key(Setup(settings).engine())
        except ToolglotError as e:
            problems.append(f"the model {settings.model!r} cannot be used: {e}")
    for directory in {state_directory(), data_directory()}:
        if not is_writable(directory):  # built-in tools and the audit log need it
            problems.append(f"cannot write to the directory {str(directory)!r}: set TOOLGLOT_STATE to use another one")
    problems += describe_problems(
        {
            "facades": {*FACADE_MODULES, *FACADE_ALIASES, "auto"},
            "profiles": {*PROFILES, *ALIASES, *SURFACES, "simulator"},
            "wires": WIRES,
            "sign_ins": SIGN_INS,
            "commands": COMMANDS,
        }
    )
    keys = {id: _find_key_origin(profile, settings) for id, profile in PROFILES.items()}
    changed = [value for value in configuration.values if value.origin != DEFAULT]
    user_file, workspace = config_file(), Root(Path(settings.builtin.root or ".").expanduser())
    files = {"user file": f"{user_file}{'' if user_file.is_file() else ' (does not exist)'}"}
    if configuration.project is not None:
        trust = "trusted" if configuration.trusted else "not trusted: run toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trust})"
    return Report(
        versions=versions,
        extras={name: _describe_packages(packages) for name, (packages, _) in EXTRAS.items()},
        files=files,
        settings=[SettingValue(value.key, _format_value(value), value.origin) for value in changed],
        held_back=[WithheldSetting(value.key, _format_value(value), value.reason) for value in configuration.withheld],
        keys=keys,
        sandbox=_describe_sandbox(workspace, is_wanted=settings.builtin.sandbox),
        tools=_describe_tools(settings, workspace),
        plugins=list(list_plugins()),
        instructions=_describe_instructions(settings, workspace, problems),
        servers=_describe_servers(configuration, problems),
        programs={
            name: next(filter(None, (find_program(each, [workspace]) for each in names)), None)
            for name, names in _PROGRAMS.items()
        },
        audit=_read_audit(settings, problems),
        problems=problems,
    )


def _list_packages() -> dict[str, str]:
    """Return the versions of toolglot, Python, the platform and all required packages."""
    try:
        requirements = metadata.requires("toolglot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements if "extra ==" not in line]
    return {
        "toolglot": _installed_version("toolglot") or "not installed",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        **{name: _installed_version(name) or _MISSING for name in names},
    }


def _describe_packages(packages: Iterable[str]) -> str | None:
    """Return the packages with their versions; None if one is not installed."""
    versions = {package: _installed_version(package) for package in packages}
    return ", ".join(f"{package} {version}" for package, version in versions.items()) if all(versions.values()) else None


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _format_value(setting: SettingValue | WithheldSetting) -> str:
    value: Any = hide_secrets(setting.key, setting.value)
    return value if isinstance(value, str) else dumps_text(value)


def _find_key_origin(profile: Profile, settings: Settings) -> str | None:
    """Describe where the key of a provider would come from."""
    configured = [
        section.key_env
        for name, section in settings.providers.items()
        if section.key_env and profile.id in {ALIASES.get(name, name), *(row for _, row in SURFACES.get(name, ()))}
    ]
    if configured:
        return f"variable {configured[-1]}" if read_key_variable(configured[-1]) else None
    return describe_key_origin(profile)


def _describe_instructions(settings: Settings, workspace: Root, problems: list[str]) -> dict[str, str]:
    """Describe the instruction files and skills that models see."""
    if not settings.instructions.enabled:
        return {"AGENTS.md and skills": "off: instructions.enabled is false"}
    try:
        instructions = load_instructions(workspace.path, settings.instructions)
    except ToolglotError as e:  # the list of trusted directories is damaged
        problems.append(str(e))
        return {}
    rows = {str(path): f"{len(text):,} characters" for path, text in instructions.files.items()}
    rows |= {
        f"skill {skill.name}": "; ".join((f"{skill.origin}: {skill.directory}", *skill.problems))
        for skill in instructions.skills
    }
    rows |= {str(path): "ignored: the directory is not trusted" for path in instructions.withheld}
    return rows | {f"problem {number}": problem for number, problem in enumerate(instructions.problems, 1)}


def _describe_sandbox(workspace: Root, *, is_wanted: bool) -> dict[str, str]:
    """Describe how commands are confined; this runs a canary command."""
    if NOT_SUPPORTED:
        return {"commands run": f"not at all: {NOT_SUPPORTED}"}
    sandbox = describe_sandbox([workspace])
    rows = {"commands run": f"in {sandbox['sandbox']}" if sandbox["level"] else "unconfined: each one needs approval"}
    if not is_wanted:
        rows["commands run"] = "unconfined: builtin.sandbox is false"
    rows |= {f"no {name}": reason for name, reason in sandbox["reasons"].items() if reason}
    if sandbox["gaps"]:
        rows["gaps"] = "; ".join(sandbox["gaps"])
    rows["bubblewrap"] = sandbox["bwrap"] or "not found"
    if sys.platform == "linux":
        rows["Landlock"] = f"ABI {sandbox['landlock']}" if sandbox["landlock"] else "not supported"
    rows |= sandbox["limits"]
    return rows


def _describe_tools(settings: Settings, workspace: Root) -> dict[str, str]:
    """Describe the built-in tools that cannot be used, or only in part."""
    if NOT_SUPPORTED:
        return {"all": f"not offered: {NOT_SUPPORTED}"}
    from toolglot.builtin.configured import configured_web
    from toolglot.builtin.tools import find_unusable

    web = configured_web(settings)
    rows = {name: f"not offered: {reason}" for name, reason in find_unusable(web, [workspace]).items()}
    try:
        find_browser(web.browser, [workspace])
        if not can_sandbox():
            rows["web_open"] = NO_SANDBOX_NOTE
    except BrowserUnavailable as e:
        rows["web_open"] = f"opens pages without running their scripts: {e}"
    return rows


def _describe_servers(configuration: Configuration, problems: list[str]) -> dict[str, str]:
    """Describe the MCP servers; append to `problems` those that cannot be started."""
    catalog = find_servers(configuration)
    problems += catalog.notes
    rows: dict[str, str] = {}
    for entry in (*catalog.servers, *catalog.withheld):
        state = describe_entry(entry, is_trusted=entry in catalog.servers)
        if state == "enabled":
            try:
                entry.resolve(lambda wanted: wanted.default)
            except UsageError as e:
                problems.append(str(e))
        sandbox = ", in the sandbox" if entry.is_sandboxed else ""
        directory = entry.describe_directory()
        rows[entry.name] = f"{state}{sandbox}: {entry.target}{directory and f' in {directory}'} ({entry.origin})"
    return rows


def _read_audit(settings: Settings, problems: list[str]) -> AuditSummary:
    """Summarize the audit log by tool; append to `problems` if it cannot be read."""
    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
    if file.exists() and not file.is_file():  # a pipe would wait for ever
        problems.append(f"cannot read the audit log {str(file)!r}: it is not a regular file")
        return AuditSummary(str(file))
    try:
        with file.open("rb") as log:
            start = max(0, log.seek(0, os.SEEK_END) - MAX_LOG_BYTES)
            log.seek(start)
            lines = log.read(MAX_LOG_BYTES).split(b"\n")
    except FileNotFoundError:
        return AuditSummary(str(file))
    except OSError as e:
        problems.append(f"cannot read the audit log {str(file)!r}: {e.strerror}")
        return AuditSummary(str(file))
    by_tool: dict[str, list[_AuditLine]] = {}
    damaged = 0
    for line in filter(bytes.strip, lines[1:] if start else lines):  # the first line is probably incomplete
        try:
            call = msgspec.convert(loads_object(line), _AuditLine)
        except (ValueError, msgspec.ValidationError):
            damaged += 1
        else:
            by_tool.setdefault(call.tool, []).append(call)
    statistics: list[ToolStatistics] = []
    for tool, calls in by_tool.items():
        errors = Counter(call.outcome for call in calls if call.outcome != "ok")
        seconds = sorted(call.seconds for call in calls if call.ran)
        p50, p95 = _percentile(seconds, 50), _percentile(seconds, 95)
        statistics.append(ToolStatistics(tool, len(calls), dict(errors.most_common()), p50, p95))
    return AuditSummary(str(file), sorted(statistics, key=lambda entry: (-entry.calls, entry.tool)), damaged, not start)


def _percentile(sorted_values: list[float], percent: int) -> float | None:
    """Return the smallest value such that at least `percent` percent of the values are less than or equal to it."""
    return sorted_values[max(0, -(-len(sorted_values) * percent // 100) - 1)] if sorted_values else None


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
    printer.print_section("Built-in tools", report.tools.items() or [("all", "usable")])
    plugins = [(f"{plugin.kind}: {plugin.name}", f"{plugin.target} ({plugin.origin})") for plugin in report.plugins]
    printer.print_section("Plug-ins", plugins or [("plug-ins", "none installed")])
    printer.print_section("Instructions", report.instructions.items() or [("AGENTS.md and skills", "none found")])
    printer.print_section("MCP servers", report.servers.items() or [("none", "add one with toolglot mcp add")])
    printer.print_section("Programs", [(name, path or "not found") for name, path in report.programs.items()])
    _print_audit(printer, report.audit)
    printer.print_text("")
    for problem in report.problems:
        printer.print_text(problem, "red", "✗ ", "  ")
    if not report.problems:
        printer.print_text("no problems found", "green", "✓ ")


def _key_rows(keys: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield one row per origin with its providers, then the providers without a key."""
    providers: dict[str, list[str]] = {}
    for id, origin in sorted(keys.items(), key=lambda pair: pair[1] is None):
        label = origin or ("no key needed" if PROFILES[id].auth == "optional" else "no key")
        providers.setdefault(label, []).append(id)
    for label, ids in providers.items():
        yield label, ", ".join(ids)


def _print_audit(printer: Printer, audit: AuditSummary) -> None:
    printer.print_section("Tool calls", [("audit log", audit.file or "off")])
    if audit.file and not audit.tools:
        printer.print_text("no calls have been recorded yet", "", "  ")
    rows = [
        {
            "tool": shorten(entry.tool, _MAX_NAME),
            "calls": str(entry.calls),
            "errors": str(sum(entry.errors.values())),
            "p50 s": "-" if entry.p50 is None else f"{entry.p50:.3f}",
            "p95 s": "-" if entry.p95 is None else f"{entry.p95:.3f}",
            "kinds": ", ".join(f"{kind} {count}" for kind, count in entry.errors.items()),
        }
        for entry in audit.tools[:_MAX_TOOLS]
    ]
    if rows:
        printer.print_text("")
        printer.print_table(rows)
    notes = {
        f"and {len(audit.tools) - _MAX_TOOLS} more tools (use --json to see them)": len(audit.tools) > _MAX_TOOLS,
        f"{audit.damaged} damaged lines were skipped": audit.damaged > 0,
        f"only the last {MAX_LOG_BYTES // 1_000_000} MB were read": not audit.whole,
    }
    for note, applies in notes.items():
        if applies:
            printer.print_text(note, "dim", "  ")
