"""What `toolglot doctor` looks at: one function per topic, which returns a row for each fact.

Nothing is changed or sent, and no key is returned. Functions that take `problems` append a sentence for each
broken part.
"""

import platform
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from toolglot.builtin.web.browser import NO_SANDBOX_NOTE, BrowserUnavailable, can_sandbox, find_browser
from toolglot.cli.config import hide_secrets
from toolglot.cli.main import COMMANDS
from toolglot.cli.servers import describe_entry
from toolglot.cli.startup import require_key
from toolglot.common.jsontext import dumps_text
from toolglot.common.plugins import describe_problems
from toolglot.common.user_dirs import config_file, data_directory, is_writable, state_directory
from toolglot.config.instructions import load_instructions
from toolglot.config.layers import DEFAULT, PROJECT_FILE, Configuration, SettingValue, WithheldSetting
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

__all__ = [
    "EXTRAS",
    "check_directories",
    "check_model",
    "check_plugins",
    "describe_extras",
    "describe_files",
    "describe_instructions",
    "describe_keys",
    "describe_sandboxing",
    "describe_servers",
    "describe_tools",
    "find_programs",
    "list_changed_settings",
    "list_packages",
    "list_withheld_settings",
]

# extra -> its packages, and what it adds
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "azure": (("azure-identity",), "sign in to Azure with Entra"),
    "vertex": (("google-auth", "requests"), "sign in to Vertex AI with Google credentials"),
    "keyring": (("keyring",), "store keys in the system keyring"),
    "copilot": (("keyring",), "sign in to Copilot with GitHub"),
    "web": (("playwright", "trafilatura"), "open web pages in a real browser"),
    "ast": (("ast-grep-py",), "search and rewrite code by syntax"),
    "mcp": (("mcp",), "use MCP servers, or run as one"),
    "acp": (("agent-client-protocol",), "run in editors"),
    "otel": (("opentelemetry-api",), "trace runs with OpenTelemetry"),
    "code": (("mini-racer", "pydantic-monty"), "let models write code that calls tools"),
}
_PROGRAMS = {
    "rg": ("rg",),
    "git": ("git",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "chrome"),
}
_MISSING = "missing"


# ---- the installation


def list_packages(problems: list[str]) -> dict[str, str]:
    """Return the versions of toolglot, Python, the platform and all required packages."""
    try:
        requirements = metadata.requires("toolglot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    versions = {
        "toolglot": _installed_version("toolglot") or "not installed",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    for requirement in requirements:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        versions[name] = _installed_version(name) or _MISSING
        if versions[name] == _MISSING:
            problems.append(f"package {name} is missing: reinstall toolglot")
    return versions


def describe_extras() -> dict[str, str | None]:
    """Return the versions of the packages of each extra; None if one is missing."""
    return {name: _describe_packages(packages) for name, (packages, _) in EXTRAS.items()}


def _describe_packages(packages: Iterable[str]) -> str | None:
    descriptions: list[str] = []
    for package in packages:
        version = _installed_version(package)
        if version is None:
            return None
        descriptions.append(f"{package} {version}")
    return ", ".join(descriptions)


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_plugins(problems: list[str]) -> None:
    """Append what is wrong with installed plug-ins: a name that is taken, a target that does not exist."""
    problems += describe_problems(
        {
            "facades": {*FACADE_MODULES, *FACADE_ALIASES, "auto"},
            "profiles": {*PROFILES, *ALIASES, *SURFACES, "simulator"},
            "wires": WIRES,
            "sign_ins": SIGN_INS,
            "commands": COMMANDS,
        }
    )


def check_directories(problems: list[str]) -> None:
    """Append the directories that cannot be written, which built-in tools and the audit log need."""
    for directory in {state_directory(), data_directory()}:
        if not is_writable(directory):
            problems.append(
                f"cannot write to the directory {str(directory)!r}: set TOOLGLOT_STATE to use another one"
            )


def find_programs(workspace: Root) -> dict[str, str | None]:
    """Return the paths of the programs that built-in tools start; None for one that is not found."""
    return {program: _find_first_program(names, workspace) for program, names in _PROGRAMS.items()}


def _find_first_program(names: Iterable[str], workspace: Root) -> str | None:
    for name in names:
        path = find_program(name, [workspace])
        if path:
            return path
    return None


# ---- the configuration


def describe_files(configuration: Configuration) -> dict[str, str]:
    """Return the configuration files, and whether they are there and trusted."""
    user_file = config_file()
    files = {"user file": str(user_file)}
    if not user_file.is_file():
        files["user file"] += " (does not exist)"
    if configuration.project is not None:
        trust = "trusted" if configuration.trusted else "not trusted: run toolglot trust"
        files["project file"] = f"{configuration.project / PROJECT_FILE} ({trust})"
    return files


def list_changed_settings(configuration: Configuration) -> list[SettingValue]:
    """Return the settings that differ from their defaults, without secrets."""
    changed = [value for value in configuration.values if value.origin != DEFAULT]
    return [SettingValue(value.key, _format_value(value), value.origin) for value in changed]


def list_withheld_settings(configuration: Configuration) -> list[WithheldSetting]:
    """Return the settings that are ignored until the directory is trusted, without secrets."""
    return [
        WithheldSetting(value.key, _format_value(value), value.reason) for value in configuration.withheld
    ]


def _format_value(setting: SettingValue | WithheldSetting) -> str:
    value: Any = hide_secrets(setting.key, setting.value)
    return value if isinstance(value, str) else dumps_text(value)


def check_model(settings: Settings, problems: list[str]) -> None:
    """Append why the configured model cannot be used, if it cannot."""
    if settings.model is None:
        return
    try:
        require_key(Setup(settings).engine())
    except ToolglotError as e:
        problems.append(f"the model {settings.model!r} cannot be used: {e}")


def describe_keys(settings: Settings) -> dict[str, str | None]:
    """Return where the key of each provider would come from; None if there is none."""
    return {id: _find_key_origin(profile, settings) for id, profile in PROFILES.items()}


def _find_key_origin(profile: Profile, settings: Settings) -> str | None:
    variable: str | None = None
    for name, section in settings.providers.items():
        if section.key_env and profile.id in _list_profile_ids(name):
            variable = section.key_env
    if variable is None:
        return describe_key_origin(profile)
    return f"variable {variable}" if read_key_variable(variable) else None


def _list_profile_ids(name: str) -> set[str]:
    """Return the ids of the profiles that a section of the settings is for."""
    return {ALIASES.get(name, name), *(row for _, row in SURFACES.get(name, ()))}


# ---- what models get


def describe_instructions(settings: Settings, workspace: Root, problems: list[str]) -> dict[str, str]:
    """Return the instruction files and skills that models see, and those that are not used."""
    if not settings.instructions.enabled:
        return {"AGENTS.md and skills": "off: instructions.enabled is false"}
    try:
        instructions = load_instructions(workspace.path, settings.instructions)
    except ToolglotError as e:  # the list of trusted directories is damaged
        problems.append(str(e))
        return {}
    rows = {str(path): f"{len(text):,} characters" for path, text in instructions.files.items()}
    for skill in instructions.skills:
        rows[f"skill {skill.name}"] = "; ".join((f"{skill.origin}: {skill.directory}", *skill.problems))
    for path in instructions.withheld:
        rows[str(path)] = "ignored: the directory is not trusted"
    for number, problem in enumerate(instructions.problems, 1):
        rows[f"problem {number}"] = problem
    return rows


def describe_sandboxing(workspace: Root, *, is_wanted: bool) -> dict[str, str]:
    """Return how commands are confined; this runs a canary command."""
    if NOT_SUPPORTED:
        return {"commands run": f"not at all: {NOT_SUPPORTED}"}
    sandbox = describe_sandbox([workspace])
    rows = {"commands run": "unconfined: each one needs approval"}
    if not is_wanted:
        rows["commands run"] = "unconfined: builtin.sandbox is false"
    elif sandbox["level"]:
        rows["commands run"] = f"in {sandbox['sandbox']}"
    for name, reason in sandbox["reasons"].items():
        if reason:
            rows[f"no {name}"] = reason
    if sandbox["gaps"]:
        rows["gaps"] = "; ".join(sandbox["gaps"])
    rows["bubblewrap"] = sandbox["bwrap"] or "not found"
    if sys.platform == "linux":
        rows["Landlock"] = f"ABI {sandbox['landlock']}" if sandbox["landlock"] else "not supported"
    rows |= sandbox["limits"]
    return rows


def describe_tools(settings: Settings, workspace: Root) -> dict[str, str]:
    """Return the built-in tools that cannot be used, or only in part, and why."""
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


def describe_servers(configuration: Configuration, problems: list[str]) -> dict[str, str]:
    """Return the MCP servers: whether each is used, what it starts and where it comes from.

    None is started.
    """
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
        if entry.is_sandboxed:
            state += ", in the sandbox"
        target = entry.target
        directory = entry.describe_directory()
        if directory:
            target += f" in {directory}"
        rows[entry.name] = f"{state}: {target} ({entry.origin})"
    return rows
