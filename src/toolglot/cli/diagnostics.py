"""What `toolglot doctor` looks at: installed packages, keys, the sandbox, the audit log, and the network."""

import asyncio
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from toolglot.builtin.shell.sandbox_probe import describe_sandbox
from toolglot.cli.startup import require_key
from toolglot.config.layers import PROJECT_FILE, Configuration
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.http import HttpTransport
from toolglot.engine.signin.environment import read_key_variable
from toolglot.engine.transport import HttpRequest, Timeouts
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import loads_object
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.providers.profile import Profile
from toolglot.redact import redact
from toolglot.user_dirs import config_file, state_directory

__all__ = [
    "AuditSummary",
    "Reachability",
    "check_model",
    "check_online",
    "find_config_files",
    "find_key_origin",
    "installed_version",
    "list_packages",
    "read_audit",
    "sandbox_rows",
]

MISSING = "missing"
MAX_LOG_BYTES = 5_000_000  # read from the end of the audit log
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


def list_packages() -> dict[str, str]:
    """Return the versions of toolglot, Python, the platform and all required packages."""
    versions = {"toolglot": installed_version("toolglot") or "not installed", "python": platform.python_version()}
    versions["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        requirements = metadata.requires("toolglot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements if "extra ==" not in line]
    return versions | {name: installed_version(name) or MISSING for name in names}


def installed_version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def find_config_files(configuration: Configuration) -> dict[str, str]:
    """Describe the user file and the project file."""
    user_file = config_file()
    files = {"user file": f"{user_file}{'' if user_file.is_file() else ' (does not exist)'}"}
    if configuration.project is not None:
        trust = "trusted" if configuration.trusted else "not trusted: run toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trust})"
    return files


def find_key_origin(profile: Profile, settings: Settings) -> str | None:
    """Describe where the key of a provider would come from."""
    configured = [
        section.key_env
        for name, section in settings.providers.items()
        if section.key_env and profile.id in {ALIASES.get(name, name), *(row for _, row in SURFACES.get(name, ()))}
    ]
    if configured:
        return f"variable {configured[-1]}" if read_key_variable(configured[-1]) else None
    return describe_key_origin(profile)


def check_model(settings: Settings) -> Iterator[str]:
    """Yield the reason why the configured model cannot be used."""
    if settings.model is not None:
        try:
            require_key(Setup(settings).engine())
        except ToolglotError as e:
            yield f"the model {settings.model!r} cannot be used: {e}"


def sandbox_rows() -> dict[str, str]:
    """Describe how commands are confined; this runs a canary command."""
    sandbox = describe_sandbox()
    rows = {"commands run": f"in {sandbox['sandbox']}" if sandbox["level"] else "unconfined: each one needs approval"}
    rows |= {f"no {name}": reason for name, reason in sandbox["reasons"].items() if reason}
    if sandbox["gaps"]:
        rows["gaps"] = "; ".join(sandbox["gaps"])
    rows["bubblewrap"] = sandbox["bwrap"] or "not found"
    if sys.platform == "linux":
        rows["Landlock"] = f"ABI {sandbox['landlock']}" if sandbox["landlock"] else "not supported"
    rows["processes"] = sandbox["processes"]
    return rows


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def read_audit(settings: Settings, problems: list[str]) -> AuditSummary:
    """Summarize the audit log by tool; append to `problems` if it cannot be read."""
    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
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


async def check_online(providers: Iterable[str], settings: Settings) -> list[Reachability]:
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

    async def probe(url: str, providers: list[str]) -> Reachability:
        start = time.perf_counter()
        try:
            response = await transport.send(HttpRequest(url, {}, b"", stream=True, method="GET"))
        except ToolglotError as e:
            return Reachability(providers, redact(url), problem=f"{', '.join(providers)}: {redact(str(e))}")
        await response.close()
        return Reachability(providers, redact(url), response.status, round(time.perf_counter() - start, 3))

    try:
        return [*await asyncio.gather(*(probe(url, ids) for url, ids in providers_by_url.items())), *failures]
    finally:
        await transport.close()
