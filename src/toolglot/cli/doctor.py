"""`toolglot doctor`: report on the installation, configuration, keys, sandbox and tool statistics.

Nothing is changed, no key is shown, and without `--online` nothing is sent. A missing optional part is mentioned, but only a
broken part is a problem; problems make the exit code 1.
"""

import asyncio
import os
import platform
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.cli.sanitize import shorten
from toolglot.config.layers import DEFAULT, PROJECT_FILE, Configuration, SettingValue, WithheldSetting
from toolglot.config.paths import config_file, state_directory
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.http import HttpTransport
from toolglot.engine.signin.environment import read_key_variable
from toolglot.engine.transport import HttpRequest, Timeouts, Transport
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import dumps_text, loads_object
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.providers.profile import Profile
from toolglot.redact import REDACTED, redact

__all__ = ["EXTRAS", "run_doctor"]

# extra -> its packages, and what it adds
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google credentials"),
    "keyring": (("keyring",), "store keys in the system keyring"),
    "web": (("playwright", "trafilatura"), "open web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite code by syntax"),
}
_PROGRAMS = {"rg": ("rg",), "git": ("git",), "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome")}
_MAX_LOG_BYTES = 5_000_000  # read from the end of the audit log
_MAX_TOOLS, _MAX_NAME = 20, 32
_MISSING = "missing"
_TIMEOUTS = Timeouts(connect=10.0, first_byte=10.0, idle=10.0)


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


class Reachability(msgspec.Struct, frozen=True):
    """The answer of a provider's server, or the problem."""

    providers: list[str]
    address: str
    status: int | None = None
    seconds: float | None = None
    problem: str | None = None


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


def run_doctor(configuration: Configuration | ToolglotError, *, online: bool, json: bool) -> int:
    """Collect and print a report; return 1 if something is broken. `configuration` may be the error of reading it."""
    report = _collect(configuration, online=online)
    if json:
        write_json_line(sys.stdout, report)
    else:
        _print_report(Printer(sys.stdout), report)
    return 1 if report.problems else 0


def _collect(configuration: Configuration | ToolglotError, *, online: bool) -> Report:
    problems: list[str] = []
    values, withheld = (), ()
    if isinstance(configuration, Configuration):
        settings, values, withheld = configuration.settings, configuration.values, configuration.withheld
    else:
        settings = Settings()
        problems.append(redact(str(configuration)))
    versions = _package_versions()
    missing = [name for name, version in versions.items() if version == _MISSING]
    problems += [f"package {name} is missing: reinstall toolglot" for name in missing]
    extras = {name: {package: _installed_version(package) for package in packages} for name, (packages, _) in EXTRAS.items()}
    keys = {id: _key_origin(profile, settings) for id, profile in PROFILES.items()}
    problems += _check_model(settings, keys)
    audit = _read_audit(settings, problems)
    reachability = asyncio.run(_check_online([id for id, origin in keys.items() if origin], settings)) if online else None
    problems += [result.problem for result in reachability or () if result.problem]
    return Report(
        versions=versions,
        extras={
            name: ", ".join(f"{package} {version}" for package, version in packages.items()) if all(packages.values()) else None
            for name, packages in extras.items()
        },
        files=_config_files(configuration),
        settings=[
            SettingValue(value.key, _hide_secrets(value.key, value.value), value.origin)
            for value in values
            if value.origin != DEFAULT
        ],
        held_back=[
            WithheldSetting(setting.key, _hide_secrets(setting.key, setting.value), setting.reason) for setting in withheld
        ],
        keys=keys,
        sandbox=_describe_sandbox(),
        programs={name: next(filter(None, map(shutil.which, names)), None) for name, names in _PROGRAMS.items()},
        audit=audit,
        online=reachability,
        problems=problems,
    )


# ---- installation


def _package_versions() -> dict[str, str]:
    versions = {"toolglot": _installed_version("toolglot") or "not installed", "python": platform.python_version()}
    versions["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        requirements = metadata.requires("toolglot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements if "extra ==" not in line]
    return versions | {name: _installed_version(name) or _MISSING for name in names}


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# ---- configuration and keys


def _config_files(configuration: Configuration | ToolglotError) -> dict[str, str]:
    user_file = config_file()
    files = {"user file": f"{user_file}{'' if user_file.is_file() else ' (does not exist)'}"}
    if isinstance(configuration, Configuration) and configuration.project is not None:
        trust = "trusted" if configuration.trusted else "not trusted: run toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trust})"
    return files


def _hide_secrets(key: str, value: Any) -> str:
    # A header may contain anything, so its value is never shown.
    return REDACTED if ".headers." in key else redact(value if isinstance(value, str) else dumps_text(value), by_name=True)


def _key_origin(profile: Profile, settings: Settings) -> str | None:
    """Describe where the key of a provider would come from."""
    configured = [
        section.key_env
        for name, section in settings.providers.items()
        if section.key_env and profile.id in {ALIASES.get(name, name), *(row for _, row in SURFACES.get(name, ()))}
    ]
    if configured:
        return f"variable {configured[-1]}" if read_key_variable(configured[-1]) else None
    return describe_key_origin(profile)


def _check_model(settings: Settings, keys: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the reason why the configured model cannot be used."""
    if settings.model is None:
        return
    try:
        engine = Setup(settings).engine()
    except ToolglotError as e:
        yield f"the model {settings.model!r} cannot be used: {e}"
        return
    profile = engine.profile
    if not engine.name.startswith("simulator") and profile.auth != "optional" and not keys[profile.id]:
        variables = " or ".join(profile.key_env)
        yield f"there is no key for the model {settings.model!r}: set {variables}, or run toolglot login {profile.id}"


# ---- sandbox


def _describe_sandbox() -> dict[str, str]:
    """Describe how commands are confined; this runs a canary command."""
    from toolglot.builtin.shell.sandbox import describe_sandbox

    sandbox = describe_sandbox()
    rows = {"commands run": f"in {sandbox['sandbox']}" if sandbox["level"] else "unconfined: each one needs approval"}
    rows |= {f"no {name}": reason for name, reason in sandbox["reasons"].items() if reason}
    if sandbox["gaps"]:
        rows["gaps"] = "; ".join(sandbox["gaps"])
    rows["bubblewrap"] = sandbox["bwrap"] or "not found"
    if sys.platform == "linux":
        rows["user namespaces"] = _describe_namespaces()
        rows["Landlock"] = f"ABI {sandbox['landlock']}" if sandbox["landlock"] else "not supported"
    rows["processes"] = sandbox["processes"]
    return rows


def _describe_namespaces() -> str:
    for file, blocked in (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),  # Debian
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),  # Ubuntu 24.04 and newer
    ):
        try:
            if Path(file).read_text().strip() == blocked:
                return f"not allowed for this user ({file} is {blocked})"
        except OSError:
            continue
    return "allowed" if Path("/proc/self/ns/user").exists() else "not supported by the kernel"


# ---- audit log


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def _read_audit(settings: Settings, problems: list[str]) -> AuditSummary:
    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
    try:
        with file.open("rb") as log:
            start = max(0, log.seek(0, os.SEEK_END) - _MAX_LOG_BYTES)
            log.seek(start)
            lines = log.read(_MAX_LOG_BYTES).split(b"\n")
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
    """Return the smallest value that is not exceeded by `percent` per cent of all values (nearest rank)."""
    return sorted_values[max(0, -(-len(sorted_values) * percent // 100) - 1)] if sorted_values else None


# ---- reachability


async def _check_online(providers: Iterable[str], settings: Settings) -> list[Reachability]:
    """Contact each address once, without a key: any HTTP response means that it can be reached."""
    providers_by_url: dict[str, list[str]] = {}
    failures: list[Reachability] = []
    for id in providers:
        try:
            url = Setup(settings).engine(f"{id}:model").profile.base_url
            providers_by_url.setdefault(url, []).append(id)
        except UsageError as e:
            failures.append(Reachability([id], PROFILES[id].base_url, problem=f"{id}: {e}"))
    transport = HttpTransport(_TIMEOUTS)
    try:
        probes = (_probe(transport, url, ids) for url, ids in providers_by_url.items())
        return [*await asyncio.gather(*probes), *failures]
    finally:
        await transport.close()


async def _probe(transport: Transport, url: str, providers: list[str]) -> Reachability:
    start = time.perf_counter()
    address = redact(url)
    try:
        response = await transport.send(HttpRequest(url, {}, b"", stream=True, method="GET"))
    except ToolglotError as e:
        return Reachability(providers, address, problem=f"{', '.join(providers)}: {redact(str(e))}")
    await response.close()
    return Reachability(providers, address, response.status, round(time.perf_counter() - start, 3))


# ---- printing


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
        f"only the last {_MAX_LOG_BYTES // 1_000_000} MB were read": not audit.whole,
    }
    for note, applies in notes.items():
        if applies:
            printer.print_text(note, "dim", "  ")


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
