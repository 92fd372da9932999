"""What `run`, `chat` and others do first: configuration, logging, keys out of the environment, tools, a model.

Laws: keys are taken out of the environment before any tool's code is loaded. What a project's file may not do is said, once.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.cli.config import hide_secrets
from toolglot.cli.sanitize import escape_invisible
from toolglot.config.layers import Configuration, read_configuration
from toolglot.config.loading import load_tools
from toolglot.config.paths import data_directory
from toolglot.config.setup import Setup, find_unmatched, load_configured_tools
from toolglot.config.trust import has_decision, refuse_trust, trust_directory
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.engine import Engine
from toolglot.engine.signin.environment import hide_environment, remember_key, secret_values
from toolglot.engine.signin.keyring_store import keyring_account
from toolglot.errors import InvalidTool, UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS
from toolglot.jsontext import dumps_text
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.tool import tool

if TYPE_CHECKING:
    from toolglot.builtin.tool_state import AskUser
    from toolglot.builtin.tools import Builtins

__all__ = ["CliSetup", "Flags", "prepare", "require_key"]

# What is asked where only a key says which provider is meant; the first that has one counts.
DEFAULT_MODELS = (
    "anthropic:claude-sonnet-4-5",
    "openai:gpt-5.1",
    "gemini:gemini-2.5-pro",
    "openrouter:anthropic/claude-sonnet-4.5",
    "xai:grok-4",
    "deepseek:deepseek-chat",
    "mistral:mistral-large-latest",
    "groq:llama-3.3-70b-versatile",
)


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says. None and (): nothing."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    system: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    base_url: str | None = None
    verbose: int = 0
    log_file: Path | None = None
    root: Path | None = None
    builtin: bool | None = None
    facade: str | None = None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "Flags":
        """The arguments of a command, as far as they are flags."""
        said: dict[str, Any] = {name: arguments[name] for name in cls.__struct_fields__ if arguments.get(name) is not None}
        for name in ("tools", "allow", "deny"):
            said[name] = tuple(said.get(name, ()))
        return cls(**said)

    def to_settings(self) -> dict[str, Any]:
        """As dotted keys."""
        return {
            "model": self.model or None,
            "system": self.system,
            "policy.allow": self.allow or None,
            "policy.max_turns": self.max_turns,
            "log.file": str(self.log_file) if self.log_file else None,
            "builtin.root": str(self.root) if self.root else None,
            "builtin.enabled": self.builtin,
            "facade": self.facade,
        }


class CliSetup(msgspec.Struct):
    """Everything that a conversation needs, until it is left. `why`: how the model was chosen, where nobody named one."""

    configuration: Configuration
    setup: Setup
    tools: list[Any]
    model: str
    model_reason: str = ""
    builtins: "Builtins | None" = None
    has_demo_tools: bool = False
    """Whether the tools are there to play with only."""

    def __enter__(self) -> "CliSetup":
        return self

    def __exit__(self, *_: object) -> None:
        if self.builtins is not None:
            self.builtins.close()


def prepare(
    flags: Flags,
    *,
    confirm: Callable[[str], bool] | None = None,
    ask_user: "AskUser | None" = None,
    use_demo_tools: bool = False,
    want_builtin: bool = False,
) -> CliSetup:
    """Reads, hides, loads. Raises UsageError.

    `ask`: a question to the user, `questions`: those of a tool; `samples`: tools for the simulator to play with; `builtin`: the
    built-in tools are wanted, unless it is said that they are not.
    """
    configuration = _resolve_trust(_load_configuration(flags), flags, confirm)
    settings = configuration.settings
    _start_logging(flags.verbose or int(flags.log_file is not None), settings.log.level, settings.log.file)
    named = {section.key_env for section in settings.providers.values() if section.key_env}
    named |= {settings.builtin.brave_key_env, settings.builtin.tavily_key_env}
    hide_environment(settings.policy.keep_env, named)
    for section in settings.providers.values():
        for value in section.headers.values():
            remember_key(value)
    tools = [*load_configured_tools(configuration), *(one for name in flags.tools for one in load_tools(name))]
    setup = Setup(settings)
    model, why = _choose_model(setup)
    enabled = settings.builtin.enabled
    if enabled is None:
        enabled = want_builtin or not model.startswith("simulator")
    own = setup.builtins(ask=ask_user, manual=want_builtin) if enabled else None
    if own is None and flags.facade is not None:
        _warn_unused_facade(flags.facade, is_disabled=settings.builtin.enabled is False)
    tools = [*(own.tools if own is not None else ()), *tools]
    played = use_demo_tools and not tools and model.startswith("simulator")
    if played:
        from toolglot.cli.demo_samples import DEMO_SAMPLES

        tools = [*DEMO_SAMPLES]
    _check_patterns(setup, flags, map(_tool_name, tools))
    return CliSetup(configuration, setup, tools, model, why, own, played)


def _warn_unused_facade(facade: str, *, is_disabled: bool) -> None:
    """A facade was asked for, and there is nothing that it could show."""
    why = "the built-in tools are off" if is_disabled else "the simulator has no built-in tools unless --builtin is given"
    print(f"toolglot: --facade {escape_invisible(facade)} changes nothing: {why}", file=sys.stderr)


def _load_configuration(flags: Flags) -> Configuration:
    found = read_configuration(flags=flags.to_settings())
    if flags.deny:  # it adds to what is denied anyway
        denied = (*found.settings.policy.deny, *flags.deny)
        found = read_configuration(flags={**flags.to_settings(), "policy.deny": denied})
    return found


def _tool_name(candidate: Any) -> str:
    name = tool(candidate).name if callable(candidate) else getattr(candidate, "name", None)
    if name is None:
        raise InvalidTool(f"{candidate!r} is not a tool: --tools takes functions, tools, registries and lists of them")
    return name


def _resolve_trust(configuration: Configuration, flags: Flags, confirm: Callable[[str], bool] | None) -> Configuration:
    """The configuration, after the user was asked about its folder, once."""
    folder, held = configuration.project, configuration.withheld
    if folder is None or not held:
        return configuration
    wanted = escape_invisible(", ".join(one.key for one in held))
    if confirm is not None and not has_decision(folder):
        values = escape_invisible("; ".join(f"{one.key} = {dumps_text(hide_secrets(one.key, one.value))}" for one in held))
        if confirm(f"toolglot.toml in {folder} wants to set {values}. Do you trust this folder?"):
            trust_directory(folder)
            return _load_configuration(flags)
        refuse_trust(folder)
    else:
        verb = "does" if len(held) == 1 else "do"
        said = f"{folder} is not trusted, so {wanted} of its toolglot.toml {verb} not count (toolglot trust)"
        print(f"toolglot: {said}", file=sys.stderr)
    return configuration


def _start_logging(verbose: int, level: str, file: str | None) -> None:
    from toolglot.cli.logging_setup import configure_logging, effective_level

    configure_logging(effective_level(verbose, level), Path(file) if file else None, secrets=secret_values)


def _choose_model(setup: Setup) -> tuple[str, str]:
    """The model that is asked, and why, where nobody named one."""
    if setup.settings.model:
        return setup.resolve_model(), ""
    keyring = logins_file().exists()  # whoever has never kept a key there does not wait for it
    for model in DEFAULT_MODELS:
        if (origin := describe_key_origin(resolve_profile(*model.partition(":")[::2]), keyring=keyring)) is not None:
            return model, f"{model} answers: no model is chosen, and there is a key ({origin})"
    return "simulator", "no model is chosen (-m PROVIDER:MODEL or TOOLGLOT_MODEL): the simulator answers"


def logins_file() -> Path:
    """A file that is there once a key was kept in the keyring."""
    return data_directory() / "logins"


def _check_patterns(setup: Setup, flags: Flags, names: Iterable[str]) -> None:
    names = tuple(names)
    for pattern in find_unmatched(setup.settings.policy.allow or (), names) if flags.allow else ():
        raise UnknownName("tool in --allow", pattern, names)
    for pattern in find_unmatched(flags.deny, (*names, *BASE_TOOLS)):  # what is denied need not be there
        raise UnknownName("tool in --deny", pattern, names)
    policy = setup.settings.policy
    for pattern in find_unmatched((*policy.deny, *policy.max_uses), (*names, *BASE_TOOLS)):
        print(f"toolglot: a rule of the configuration is about {pattern!r}, and there is no such tool", file=sys.stderr)


def require_key(engine: Engine) -> None:
    """Raises UsageError where a request could only fail for want of a key."""
    profile = engine.profile
    if (
        engine.name.startswith("simulator")
        or profile.auth == "optional"
        or engine.keys.is_explicit
        or describe_key_origin(profile)
    ):
        return
    wanted = " or ".join((*profile.key_env, *profile.token_env))
    instead = _SIGN_IN_HINTS.get(profile.sign_in, f"store one with toolglot login {keyring_account(profile.id)}")
    raise UsageError(f"no key for {profile.title}: set {wanted}, or {instead}")


_SIGN_IN_HINTS = {
    "entra": "sign in with az login (pip install 'toolglot[azure]')",
    "adc": "sign in with gcloud auth application-default login (pip install 'toolglot[vertex]')",
    "copilot": "sign in with toolglot login copilot",
}


def is_interactive() -> bool:
    """Whether somebody sits there."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
