"""`toolglot doctor`: what there is on this machine, where keys and settings come from, and how the tools did.

Laws: nothing is changed, and no key is shown. Without `--online` nobody is asked. What is absent is said and is no fault; what
is broken is a problem, and then the exit code is 1.
"""

import asyncio
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolglot.cli.printer import Printer, Row
from toolglot.cli.sanitize import shorten
from toolglot.config.layers import DEFAULT, Configuration, SettingValue, WithheldSetting
from toolglot.config.settings import Settings
from toolglot.engine.transport import HttpRequest, Timeouts, Transport
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import dumps, dumps_text, loads_object
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.providers.profile import Profile
from toolglot.redact import REDACTED, redact

__all__ = ["EXTRAS", "run_doctor"]

# extra -> its packages, and what it is for
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google's credentials"),
    "keyring": (("keyring",), "keys in the system's keyring"),
    "web": (("playwright", "trafilatura"), "web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite by syntax"),
}
_PROGRAMS = {"rg": ("rg",), "git": ("git",), "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome")}
_MAX_LOG_BYTES = 5_000_000  # bytes of the audit log that are read, from its end
_MAX_TOOLS, _MAX_NAME = 20, 32
_MISSING = "missing"
_TIMEOUTS = Timeouts(connect=10.0, first_byte=10.0, idle=10.0)


class ToolStatistics(msgspec.Struct, frozen=True):
    """What the audit log says of one tool. Seconds are those of calls that ran."""

    tool: str
    calls: int
    errors: dict[str, int]
    p50: float | None
    p95: float | None


class AuditSummary(msgspec.Struct, frozen=True):
    """The audit log. `whole`: all of it was read."""

    file: str | None
    tools: list[ToolStatistics] = []
    damaged: int = 0
    whole: bool = True


class Reachability(msgspec.Struct, frozen=True):
    """Whether a provider answers."""

    providers: list[str]
    address: str
    status: int | None = None
    seconds: float | None = None
    problem: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found."""

    versions: dict[str, str]
    extras: dict[str, str | None]
    """extra -> the versions of its packages; None: something is missing."""
    files: dict[str, str]
    settings: list[SettingValue]
    """Those that are not as usual."""
    held_back: list[WithheldSetting]
    keys: dict[str, str | None]
    """provider -> where its key would come from."""
    sandbox: dict[str, str]
    programs: dict[str, str | None]
    audit: AuditSummary
    online: list[Reachability] | None
    problems: list[str]


def run_doctor(configuration: Configuration | ToolglotError, *, online: bool, json: bool) -> int:
    """Looks, and prints what it found; 1 where something is broken. `configuration`: or why it could not be read."""
    findings = _collect(configuration, online=online)
    if json:
        sys.stdout.buffer.write(dumps(findings) + b"\n")
        sys.stdout.buffer.flush()
    else:
        _print_report(Printer(sys.stdout), findings)
    return 1 if findings.problems else 0


def _collect(configuration: Configuration | ToolglotError, *, online: bool) -> Report:
    problems: list[str] = []
    values, held_back = (), ()
    if isinstance(configuration, Configuration):
        settings, values, held_back = configuration.settings, configuration.values, configuration.withheld
    else:
        settings = Settings()
        problems.append(redact(str(configuration)))
    versions = _package_versions()
    lacking = [name for name, version in versions.items() if version == _MISSING]
    problems += [f"the package {name} is missing: install toolglot again" for name in lacking]
    keys = {id: _key_origin(profile, settings) for id, profile in PROFILES.items()}
    problems += _check_model(settings, keys)
    audit = _read_audit(settings, problems)
    reached = _check_online([id for id, origin in keys.items() if origin], settings) if online else None
    problems += [one.problem for one in reached or () if one.problem]
    return Report(
        versions=versions,
        extras={name: _format_versions(packages) for name, (packages, _) in EXTRAS.items()},
        files=_config_files(configuration),
        settings=[
            SettingValue(one.key, _hide_secrets(one.key, one.value), one.origin) for one in values if one.origin != DEFAULT
        ],
        held_back=[WithheldSetting(one.key, _hide_secrets(one.key, one.value), one.reason) for one in held_back],
        keys=keys,
        sandbox=_describe_sandbox(),
        programs={name: _find_program(names) for name, names in _PROGRAMS.items()},
        audit=audit,
        online=reached,
        problems=problems,
    )


# ---- what is installed


def _package_versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, requires

    found = {"toolglot": _installed_version("toolglot") or "not installed", "python": platform.python_version()}
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        needed = requires("toolglot") or []
    except PackageNotFoundError:
        needed = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed if "extra ==" not in line]
    return found | {name: _installed_version(name) or _MISSING for name in names}


def _installed_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _format_versions(names: Iterable[str]) -> str | None:
    versions = {name: _installed_version(name) for name in names}
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if all(versions.values()) else None


def _find_program(names: Iterable[str]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


# ---- configuration and keys


def _config_files(configuration: Configuration | ToolglotError) -> dict[str, str]:
    from toolglot.config.layers import PROJECT_FILE
    from toolglot.config.paths import config_file

    user = config_file()
    files = {"user file": f"{user}{'' if user.is_file() else ' (absent)'}"}
    if isinstance(configuration, Configuration) and configuration.project is not None:
        trusted = "trusted" if configuration.trusted else "not trusted: toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trusted})"
    return files


def _hide_secrets(key: str, value: Any) -> str:
    """A value as it may be seen: a header may hold anything."""
    return REDACTED if ".headers." in key else redact(value if isinstance(value, str) else dumps_text(value), by_name=True)


def _key_origin(profile: Profile, settings: Settings) -> str | None:
    """Where the key of a provider would come from."""
    from toolglot.engine.auth import describe_key_origin, read_key_variable

    named = [given.key_env for name, given in settings.providers.items() if profile.id in _profile_ids(name) and given.key_env]
    if named:
        return f"variable {named[-1]}" if read_key_variable(named[-1]) else None
    return describe_key_origin(profile)


def _check_model(settings: Settings, keys: Mapping[str, str | None]) -> Iterator[str]:
    """Why the configured model cannot be asked."""
    from toolglot.config.setup import Setup

    if settings.model is None:
        return
    try:
        engine = Setup(settings).engine()
    except ToolglotError as e:
        yield f"the model {settings.model!r} cannot be asked: {e}"
        return
    profile = engine.profile
    if not engine.name.startswith("simulator") and profile.auth != "optional" and not keys[profile.id]:
        yield f"the model {settings.model!r} has no key: set {' or '.join(profile.key_env)}, or run toolglot login {profile.id}"


def _profile_ids(provider: str) -> set[str]:
    """The rows of the catalog that a name in the configuration speaks of."""
    return {row for _, row in SURFACES.get(provider, ())} | {ALIASES.get(provider, provider)}


# ---- the machine


def _describe_sandbox() -> dict[str, str]:
    """What holds the commands of tools; a canary is run to find out."""
    from toolglot.builtin.shell.sandbox import describe_sandbox

    said = describe_sandbox()
    found = {"commands run": f"in {said['sandbox']}" if said["level"] else "unconfined: each one has to be approved"}
    found |= {f"no {name}": why for name, why in said["reasons"].items() if why}
    if said["gaps"]:
        found["gaps"] = "; ".join(said["gaps"])
    found["bubblewrap"] = said["bwrap"] or "not found"
    if sys.platform == "linux":
        found |= {
            "user namespaces": _describe_namespaces(),
            "Landlock": f"ABI {said['landlock']}" if said["landlock"] else "none",
        }
    found["processes"] = said["processes"]
    return found


def _describe_namespaces() -> str:
    for file, blocked in (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        try:
            if Path(file).read_text().strip() == blocked:
                return f"not for this user ({file} is {blocked})"
        except OSError:
            continue
    return "allowed" if Path("/proc/self/ns/user").exists() else "the kernel has none"


# ---- how the tools did


def _read_audit(settings: Settings, problems: list[str]) -> AuditSummary:
    from toolglot.config.paths import state_directory

    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
    try:
        lines, whole = _read_tail(file)
    except FileNotFoundError:
        return AuditSummary(str(file))
    except OSError as e:
        problems.append(f"the audit log {str(file)!r} cannot be read: {e.strerror}")
        return AuditSummary(str(file))
    calls = [_parse_line(line) for line in lines if line.strip()]
    by_tool: dict[str, list[_AuditLine]] = {}
    for call in calls:
        if call is not None:
            by_tool.setdefault(call.tool, []).append(call)
    tools = sorted((_summarize_tool(tool, calls) for tool, calls in by_tool.items()), key=lambda one: (-one.calls, one.tool))
    return AuditSummary(str(file), tools, calls.count(None), whole)


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def _read_tail(file: Path) -> tuple[list[bytes], bool]:
    """The lines at the end of a file, and whether they are all of it."""
    with file.open("rb") as log:
        cut = max(0, log.seek(0, os.SEEK_END) - _MAX_LOG_BYTES)
        log.seek(cut)
        lines = log.read(_MAX_LOG_BYTES).split(b"\n")
    return lines[1:] if cut else lines, not cut


def _parse_line(line: bytes) -> _AuditLine | None:
    try:
        return msgspec.convert(loads_object(line), _AuditLine)
    except (ValueError, msgspec.ValidationError):
        return None


def _summarize_tool(tool: str, calls: list[_AuditLine]) -> ToolStatistics:
    errors = Counter(call.outcome for call in calls if call.outcome != "ok")
    seconds = sorted(call.seconds for call in calls if call.ran)
    return ToolStatistics(tool, len(calls), dict(errors.most_common()), _percentile(seconds, 50), _percentile(seconds, 95))


def _percentile(sorted_values: list[float], percent: int) -> float | None:
    """The smallest value that so many per cent of all do not exceed."""
    return sorted_values[max(0, -(-len(sorted_values) * percent // 100) - 1)] if sorted_values else None


# ---- who answers


def _check_online(providers: Iterable[str], settings: Settings) -> list[Reachability]:
    """Asks each address once, without a key: any answer means that it can be reached."""
    places: dict[str, list[str]] = {}
    found: list[Reachability] = []
    for id in providers:
        try:
            places.setdefault(_base_url(id, settings), []).append(id)
        except UsageError as e:
            found.append(Reachability([id], PROFILES[id].base_url, problem=f"{id}: {e}"))
    return [*asyncio.run(_probe_all(places)), *found]


def _base_url(provider: str, settings: Settings) -> str:
    from toolglot.config.setup import Setup

    return Setup(settings).engine(f"{provider}:model").profile.base_url


async def _probe_all(providers_by_url: Mapping[str, list[str]]) -> list[Reachability]:
    from toolglot.engine.http import HttpTransport

    transport = HttpTransport(_TIMEOUTS)
    try:
        return await asyncio.gather(*(_probe(transport, address, ids) for address, ids in providers_by_url.items()))
    finally:
        await transport.close()


async def _probe(transport: Transport, address: str, providers: list[str]) -> Reachability:
    began = time.perf_counter()
    shown = redact(address)
    try:
        answer = await transport.send(HttpRequest(address, {}, b"", stream=True, method="GET"))
    except ToolglotError as e:
        return Reachability(providers, shown, problem=f"{', '.join(providers)}: {redact(str(e))}")
    await answer.close()
    return Reachability(providers, shown, answer.status, round(time.perf_counter() - began, 3))


# ---- for people


def _print_report(sheet: Printer, findings: Report) -> None:
    sheet.print_text("Versions", "bold")
    sheet.print_pairs(findings.versions.items())
    sheet.print_section("Extras", _extra_rows(findings.extras))
    sheet.print_section("Configuration", [*findings.files.items(), *_setting_rows(findings)])
    if findings.held_back:
        rows = [(one.key, f"{one.value} ({one.reason})") for one in findings.held_back]
        sheet.print_section("Held back until the folder is trusted", rows)
    sheet.print_section("Keys", _key_rows(findings.keys))
    sheet.print_section("Sandbox", findings.sandbox.items())
    sheet.print_section("Programs", [(name, place or "not found") for name, place in findings.programs.items()])
    _print_audit(sheet, findings.audit)
    if findings.online is not None:
        answered = [("·", _format_reachability(one)) for one in findings.online if not one.problem]
        sheet.print_section("Online", answered or [("·", "no provider with a key was reached")])
    sheet.print_text("")
    for problem in findings.problems:
        sheet.print_text(problem, "red", "✗ ", "  ")
    if not findings.problems:
        sheet.print_text("nothing is broken", "green", "✓ ")


def _extra_rows(extras: Mapping[str, str | None]) -> Iterator[Row]:
    for name, found in extras.items():
        yield name, found or f"absent; to {EXTRAS[name][1]}: pip install 'toolglot[{name}]'"


def _setting_rows(findings: Report) -> Iterator[Row]:
    yield from ((one.key, f"{one.value} ({one.origin})") for one in findings.settings)
    if not findings.settings:
        yield "settings", "all as usual"


def _key_rows(keys: Mapping[str, str | None]) -> Iterator[Row]:
    """Providers with one origin in one line; those without a key at the end."""
    by_origin: dict[str, list[str]] = {}
    for id, origin in keys.items():
        if origin:
            by_origin.setdefault(origin, []).append(id)
    yield from ((origin, ", ".join(ids)) for origin, ids in by_origin.items())
    missing = [id for id, origin in keys.items() if not origin]
    needed = [id for id in missing if PROFILES[id].auth != "optional"]
    if needed:
        yield "no key", ", ".join(needed)
    if others := [id for id in missing if id not in needed]:
        yield "none needed", ", ".join(others)


def _print_audit(sheet: Printer, audit: AuditSummary) -> None:
    sheet.print_section("Calls of tools", [("audit log", audit.file or "off")])
    if audit.file and not audit.tools:
        sheet.print_text("no calls are written down yet", "", "  ")
    rows = [
        {
            "tool": shorten(one.tool, _MAX_NAME),
            "calls": str(one.calls),
            "errors": str(sum(one.errors.values())),
            "p50 s": _format_seconds(one.p50),
            "p95 s": _format_seconds(one.p95),
            "kinds": ", ".join(f"{kind} {count}" for kind, count in one.errors.items()),
        }
        for one in audit.tools[:_MAX_TOOLS]
    ]
    if rows:
        sheet.print_text("")
        sheet.print_table(rows, ("tool", "calls", "errors", "p95 s", "p50 s", "kinds"))
    notes = {
        f"and {len(audit.tools) - _MAX_TOOLS} more tools: --json has them": len(audit.tools) > _MAX_TOOLS,
        f"{audit.damaged} damaged lines were passed over": audit.damaged > 0,
        f"only the last {_MAX_LOG_BYTES // 1_000_000} MB were read": not audit.whole,
    }
    for note, counts in notes.items():
        if counts:
            sheet.print_text(note, "dim", "  ")


def _format_reachability(result: Reachability) -> str:
    return f"{', '.join(result.providers)}: HTTP {result.status} in {result.seconds} s, {result.address}"


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
