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

from toolglot.cli.sheet import Row, Sheet
from toolglot.cli.visible import shortened
from toolglot.config.read import DEFAULT, Configuration, HeldBack, Value
from toolglot.config.settings import Settings
from toolglot.engine.transport import HttpRequest, Timeouts, Transport
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import dumps, dumps_text, loads_object
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.providers.profile import Profile
from toolglot.redact import HIDDEN, redact

__all__ = ["EXTRAS", "doctor"]

# extra -> its packages, and what it is for
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google's credentials"),
    "keyring": (("keyring",), "keys in the system's keyring"),
    "web": (("playwright", "trafilatura"), "web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite by syntax"),
}
_PROGRAMS = {"rg": ("rg",), "git": ("git",), "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome")}
_LONGEST_LOG = 5_000_000  # bytes of the audit log that are read, from its end
_SHOWN_TOOLS, _LONGEST_NAME = 20, 32
_MISSING = "missing"
_PATIENCE = Timeouts(connect=10.0, first_byte=10.0, idle=10.0)


class ToolNumbers(msgspec.Struct, frozen=True):
    """What the audit log says of one tool. Seconds are those of calls that ran."""

    tool: str
    calls: int
    errors: dict[str, int]
    p50: float | None
    p95: float | None


class Audit(msgspec.Struct, frozen=True):
    """The audit log. `whole`: all of it was read."""

    file: str | None
    tools: list[ToolNumbers] = []
    damaged: int = 0
    whole: bool = True


class Reached(msgspec.Struct, frozen=True):
    """Whether a provider answers."""

    providers: list[str]
    address: str
    status: int | None = None
    seconds: float | None = None
    problem: str | None = None


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found."""

    versions: dict[str, str]
    extras: dict[str, str | None]
    """extra -> the versions of its packages; None: something is missing."""
    files: dict[str, str]
    settings: list[Value]
    """Those that are not as usual."""
    held_back: list[HeldBack]
    keys: dict[str, str | None]
    """provider -> where its key would come from."""
    sandbox: dict[str, str]
    programs: dict[str, str | None]
    audit: Audit
    online: list[Reached] | None
    problems: list[str]


def doctor(configuration: Configuration | ToolglotError, *, online: bool, json: bool) -> int:
    """Looks, and prints what it found; 1 where something is broken. `configuration`: or why it could not be read."""
    findings = _look(configuration, online=online)
    if json:
        sys.stdout.buffer.write(dumps(findings) + b"\n")
        sys.stdout.buffer.flush()
    else:
        _show(Sheet(sys.stdout), findings)
    return 1 if findings.problems else 0


def _look(configuration: Configuration | ToolglotError, *, online: bool) -> Findings:
    problems: list[str] = []
    values, held_back = (), ()
    if isinstance(configuration, Configuration):
        settings, values, held_back = configuration.settings, configuration.values, configuration.held_back
    else:
        settings = Settings()
        problems.append(redact(str(configuration)))
    versions = _versions()
    lacking = [name for name, version in versions.items() if version == _MISSING]
    problems += [f"the package {name} is missing: install toolglot again" for name in lacking]
    keys = {id: _origin(profile, settings) for id, profile in PROFILES.items()}
    problems += _unusable(settings, keys)
    audit = _audit(settings, problems)
    reached = _online([id for id, origin in keys.items() if origin], settings) if online else None
    problems += [one.problem for one in reached or () if one.problem]
    return Findings(
        versions=versions,
        extras={name: _packages(packages) for name, (packages, _) in EXTRAS.items()},
        files=_files(configuration),
        settings=[Value(one.key, _shown(one.key, one.value), one.origin) for one in values if one.origin != DEFAULT],
        held_back=[HeldBack(one.key, _shown(one.key, one.value), one.why) for one in held_back],
        keys=keys,
        sandbox=_sandbox(),
        programs={name: _program(names) for name, names in _PROGRAMS.items()},
        audit=audit,
        online=reached,
        problems=problems,
    )


# ---- what is installed


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, requires

    found = {"toolglot": _version("toolglot") or "not installed", "python": platform.python_version()}
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        needed = requires("toolglot") or []
    except PackageNotFoundError:
        needed = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed if "extra ==" not in line]
    return found | {name: _version(name) or _MISSING for name in names}


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _packages(names: Iterable[str]) -> str | None:
    versions = {name: _version(name) for name in names}
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if all(versions.values()) else None


def _program(names: Iterable[str]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


# ---- configuration and keys


def _files(configuration: Configuration | ToolglotError) -> dict[str, str]:
    from toolglot.config.places import config_file
    from toolglot.config.read import PROJECT_FILE

    user = config_file()
    files = {"user file": f"{user}{'' if user.is_file() else ' (absent)'}"}
    if isinstance(configuration, Configuration) and configuration.project is not None:
        trusted = "trusted" if configuration.trusted else "not trusted: toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trusted})"
    return files


def _shown(key: str, value: Any) -> str:
    """A value as it may be seen: a header may hold anything."""
    return HIDDEN if ".headers." in key else redact(value if isinstance(value, str) else dumps_text(value), named=True)


def _origin(profile: Profile, settings: Settings) -> str | None:
    """Where the key of a provider would come from."""
    from toolglot.engine.auth import environment_key, key_origin

    named = [given.key_env for name, given in settings.providers.items() if profile.id in _rows(name) and given.key_env]
    if named:
        return f"variable {named[-1]}" if environment_key(named[-1]) else None
    return key_origin(profile)


def _unusable(settings: Settings, keys: Mapping[str, str | None]) -> Iterator[str]:
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


def _rows(provider: str) -> set[str]:
    """The rows of the catalog that a name in the configuration speaks of."""
    return {row for _, row in SURFACES.get(provider, ())} | {ALIASES.get(provider, provider)}


# ---- the machine


def _sandbox() -> dict[str, str]:
    """What holds the commands of tools; a canary is run to find out."""
    from toolglot.builtin.shell.sandbox import describe_sandbox

    said = describe_sandbox()
    found = {"commands run": f"in {said['sandbox']}" if said["level"] else "unconfined: each one has to be approved"}
    found |= {f"no {name}": why for name, why in said["reasons"].items() if why}
    if said["gaps"]:
        found["gaps"] = "; ".join(said["gaps"])
    found["bubblewrap"] = said["bwrap"] or "not found"
    if sys.platform == "linux":
        found |= {"user namespaces": _namespaces(), "Landlock": f"ABI {said['landlock']}" if said["landlock"] else "none"}
    found["processes"] = said["processes"]
    return found


def _namespaces() -> str:
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


def _audit(settings: Settings, problems: list[str]) -> Audit:
    from toolglot.config.places import state_folder

    if settings.audit is False:
        return Audit(None)
    file = state_folder() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
    try:
        lines, whole = _last_lines(file)
    except FileNotFoundError:
        return Audit(str(file))
    except OSError as e:
        problems.append(f"the audit log {str(file)!r} cannot be read: {e.strerror}")
        return Audit(str(file))
    calls = [_call(line) for line in lines if line.strip()]
    by_tool: dict[str, list[_Call]] = {}
    for call in calls:
        if call is not None:
            by_tool.setdefault(call.tool, []).append(call)
    tools = sorted((_numbers(tool, calls) for tool, calls in by_tool.items()), key=lambda one: (-one.calls, one.tool))
    return Audit(str(file), tools, calls.count(None), whole)


class _Call(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def _last_lines(file: Path) -> tuple[list[bytes], bool]:
    """The lines at the end of a file, and whether they are all of it."""
    with file.open("rb") as log:
        cut = max(0, log.seek(0, os.SEEK_END) - _LONGEST_LOG)
        log.seek(cut)
        lines = log.read(_LONGEST_LOG).split(b"\n")
    return lines[1:] if cut else lines, not cut


def _call(line: bytes) -> _Call | None:
    try:
        return msgspec.convert(loads_object(line), _Call)
    except (ValueError, msgspec.ValidationError):
        return None


def _numbers(tool: str, calls: list[_Call]) -> ToolNumbers:
    errors = Counter(call.outcome for call in calls if call.outcome != "ok")
    seconds = sorted(call.seconds for call in calls if call.ran)
    return ToolNumbers(tool, len(calls), dict(errors.most_common()), _share(seconds, 50), _share(seconds, 95))


def _share(ordered: list[float], percent: int) -> float | None:
    """The smallest value that so many per cent of all do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


# ---- who answers


def _online(providers: Iterable[str], settings: Settings) -> list[Reached]:
    """Asks each address once, without a key: any answer means that it can be reached."""
    places: dict[str, list[str]] = {}
    found: list[Reached] = []
    for id in providers:
        try:
            places.setdefault(_address(id, settings), []).append(id)
        except UsageError as e:
            found.append(Reached([id], PROFILES[id].base_url, problem=f"{id}: {e}"))
    return [*asyncio.run(_ask_all(places)), *found]


def _address(provider: str, settings: Settings) -> str:
    from toolglot.config.setup import Setup

    return Setup(settings).engine(f"{provider}:model").profile.base_url


async def _ask_all(places: Mapping[str, list[str]]) -> list[Reached]:
    from toolglot.engine.http import HttpTransport

    transport = HttpTransport(_PATIENCE)
    try:
        return await asyncio.gather(*(_ask(transport, address, ids) for address, ids in places.items()))
    finally:
        await transport.close()


async def _ask(transport: Transport, address: str, providers: list[str]) -> Reached:
    began = time.perf_counter()
    shown = redact(address)
    try:
        answer = await transport.send(HttpRequest(address, {}, b"", stream=True, method="GET"))
    except ToolglotError as e:
        return Reached(providers, shown, problem=f"{', '.join(providers)}: {redact(str(e))}")
    await answer.close()
    return Reached(providers, shown, answer.status, round(time.perf_counter() - began, 3))


# ---- for people


def _show(sheet: Sheet, findings: Findings) -> None:
    sheet.say("Versions", "bold")
    sheet.pairs(findings.versions.items())
    sheet.section("Extras", _extras(findings.extras))
    sheet.section("Configuration", [*findings.files.items(), *_settings(findings)])
    if findings.held_back:
        rows = [(one.key, f"{one.value} ({one.why})") for one in findings.held_back]
        sheet.section("Held back until the folder is trusted", rows)
    sheet.section("Keys", _keys(findings.keys))
    sheet.section("Sandbox", findings.sandbox.items())
    sheet.section("Programs", [(name, place or "not found") for name, place in findings.programs.items()])
    _show_audit(sheet, findings.audit)
    if findings.online is not None:
        answered = [("·", _answered(one)) for one in findings.online if not one.problem]
        sheet.section("Online", answered or [("·", "no provider with a key was reached")])
    sheet.say("")
    for problem in findings.problems:
        sheet.say(problem, "red", "✗ ", "  ")
    if not findings.problems:
        sheet.say("nothing is broken", "green", "✓ ")


def _extras(extras: Mapping[str, str | None]) -> Iterator[Row]:
    for name, found in extras.items():
        yield name, found or f"absent; to {EXTRAS[name][1]}: pip install 'toolglot[{name}]'"


def _settings(findings: Findings) -> Iterator[Row]:
    yield from ((one.key, f"{one.value} ({one.origin})") for one in findings.settings)
    if not findings.settings:
        yield "settings", "all as usual"


def _keys(keys: Mapping[str, str | None]) -> Iterator[Row]:
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


def _show_audit(sheet: Sheet, audit: Audit) -> None:
    sheet.section("Calls of tools", [("audit log", audit.file or "off")])
    if audit.file and not audit.tools:
        sheet.say("no calls are written down yet", "", "  ")
    rows = [
        {
            "tool": shortened(one.tool, _LONGEST_NAME),
            "calls": str(one.calls),
            "errors": str(sum(one.errors.values())),
            "p50 s": _seconds(one.p50),
            "p95 s": _seconds(one.p95),
            "kinds": ", ".join(f"{kind} {count}" for kind, count in one.errors.items()),
        }
        for one in audit.tools[:_SHOWN_TOOLS]
    ]
    if rows:
        sheet.say("")
        sheet.table(rows, ("tool", "calls", "errors", "p95 s", "p50 s", "kinds"))
    notes = {
        f"and {len(audit.tools) - _SHOWN_TOOLS} more tools: --json has them": len(audit.tools) > _SHOWN_TOOLS,
        f"{audit.damaged} damaged lines were passed over": audit.damaged > 0,
        f"only the last {_LONGEST_LOG // 1_000_000} MB were read": not audit.whole,
    }
    for note, counts in notes.items():
        if counts:
            sheet.say(note, "dim", "  ")


def _answered(one: Reached) -> str:
    return f"{', '.join(one.providers)}: HTTP {one.status} in {one.seconds} s, {one.address}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
