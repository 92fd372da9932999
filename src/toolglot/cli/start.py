"""What `run`, `chat` and others do first: configuration, logging, keys out of the environment, tools, a model.

Laws: keys are taken out of the environment before any tool's code is loaded. What a project's file may not do is said, once.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.cli.config import hidden
from toolglot.cli.visible import visible
from toolglot.config.load import tools_in
from toolglot.config.places import data_folder
from toolglot.config.read import Configuration, read_configuration
from toolglot.config.setup import Setup, configured_tools, unmatched
from toolglot.config.trust import refuse, trust, was_asked
from toolglot.engine.auth import key_origin
from toolglot.engine.engine import Engine
from toolglot.engine.signin.environment import hidden_values, hide_environment, remember
from toolglot.engine.signin.stored import account_of
from toolglot.errors import NotATool, UnknownName, UsageError
from toolglot.facades.select import BASES
from toolglot.jsontext import dumps_text
from toolglot.providers.catalog import resolve
from toolglot.tools.tool import tool

if TYPE_CHECKING:
    from toolglot.builtin.toolbox import Ask
    from toolglot.builtin.tools import Builtins

__all__ = ["Flags", "Started", "require_key", "start"]

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
    def of(cls, given: Mapping[str, Any]) -> "Flags":
        """The arguments of a command, as far as they are flags."""
        said: dict[str, Any] = {name: given[name] for name in cls.__struct_fields__ if given.get(name) is not None}
        for name in ("tools", "allow", "deny"):
            said[name] = tuple(said.get(name, ()))
        return cls(**said)

    def settings(self) -> dict[str, Any]:
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


class Started(msgspec.Struct):
    """Everything that a conversation needs, until it is left. `why`: how the model was chosen, where nobody named one."""

    configuration: Configuration
    setup: Setup
    tools: list[Any]
    model: str
    why: str = ""
    builtins: "Builtins | None" = None
    samples: bool = False
    """Whether the tools are there to play with only."""

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        if self.builtins is not None:
            self.builtins.close()


def start(
    flags: Flags,
    *,
    ask: Callable[[str], bool] | None = None,
    questions: "Ask | None" = None,
    samples: bool = False,
    builtin: bool = False,
) -> Started:
    """Reads, hides, loads. Raises UsageError.

    `ask`: a question to the user, `questions`: those of a tool; `samples`: tools for the simulator to play with; `builtin`: the
    built-in tools are wanted, unless it is said that they are not.
    """
    configuration = _trusted(_read(flags), flags, ask)
    settings = configuration.settings
    _begin_logging(flags.verbose or int(flags.log_file is not None), settings.log.level, settings.log.file)
    named = {section.key_env for section in settings.providers.values() if section.key_env}
    named |= {settings.builtin.brave_key_env, settings.builtin.tavily_key_env}
    hide_environment(settings.policy.keep_env, named)
    for section in settings.providers.values():
        for value in section.headers.values():
            remember(value)
    tools = [*configured_tools(configuration), *(one for name in flags.tools for one in tools_in(name))]
    setup = Setup(settings)
    model, why = _chosen(setup)
    enabled = settings.builtin.enabled
    if enabled is None:
        enabled = builtin or not model.startswith("simulator")
    own = setup.builtins(ask=questions, alone=builtin) if enabled else None
    if own is None and flags.facade is not None:
        _say_useless(flags.facade, off=settings.builtin.enabled is False)
    tools = [*(own.tools if own is not None else ()), *tools]
    played = samples and not tools and model.startswith("simulator")
    if played:
        from toolglot.cli.samples import SAMPLES

        tools = [*SAMPLES]
    _check_patterns(setup, flags, map(_name, tools))
    return Started(configuration, setup, tools, model, why, own, played)


def _say_useless(facade: str, *, off: bool) -> None:
    """A facade was asked for, and there is nothing that it could show."""
    why = "the built-in tools are off" if off else "the simulator has no built-in tools unless --builtin is given"
    print(f"toolglot: --facade {visible(facade)} changes nothing: {why}", file=sys.stderr)


def _read(flags: Flags) -> Configuration:
    found = read_configuration(flags=flags.settings())
    if flags.deny:  # it adds to what is denied anyway
        denied = (*found.settings.policy.deny, *flags.deny)
        found = read_configuration(flags={**flags.settings(), "policy.deny": denied})
    return found


def _name(one: Any) -> str:
    name = tool(one).name if callable(one) else getattr(one, "name", None)
    if name is None:
        raise NotATool(f"{one!r} is not a tool: --tools takes functions, tools, registries and lists of them")
    return name


def _trusted(configuration: Configuration, flags: Flags, ask: Callable[[str], bool] | None) -> Configuration:
    """The configuration, after the user was asked about its folder, once."""
    folder, held = configuration.project, configuration.held_back
    if folder is None or not held:
        return configuration
    wanted = visible(", ".join(one.key for one in held))
    if ask is not None and not was_asked(folder):
        values = visible("; ".join(f"{one.key} = {dumps_text(hidden(one.key, one.value))}" for one in held))
        if ask(f"toolglot.toml in {folder} wants to set {values}. Do you trust this folder?"):
            trust(folder)
            return _read(flags)
        refuse(folder)
    else:
        verb = "does" if len(held) == 1 else "do"
        said = f"{folder} is not trusted, so {wanted} of its toolglot.toml {verb} not count (toolglot trust)"
        print(f"toolglot: {said}", file=sys.stderr)
    return configuration


def _begin_logging(verbose: int, level: str, file: str | None) -> None:
    from toolglot.cli.logs import configure, shown_level

    configure(shown_level(verbose, level), Path(file) if file else None, secrets=hidden_values)


def _chosen(setup: Setup) -> tuple[str, str]:
    """The model that is asked, and why, where nobody named one."""
    if setup.settings.model:
        return setup.model(), ""
    keyring = logins_file().exists()  # whoever has never kept a key there does not wait for it
    for model in DEFAULT_MODELS:
        if (origin := key_origin(resolve(*model.partition(":")[::2]), keyring=keyring)) is not None:
            return model, f"{model} answers: no model is chosen, and there is a key ({origin})"
    return "simulator", "no model is chosen (-m PROVIDER:MODEL or TOOLGLOT_MODEL): the simulator answers"


def logins_file() -> Path:
    """A file that is there once a key was kept in the keyring."""
    return data_folder() / "logins"


def _check_patterns(setup: Setup, flags: Flags, names: Iterable[str]) -> None:
    names = tuple(names)
    for pattern in unmatched(setup.settings.policy.allow or (), names) if flags.allow else ():
        raise UnknownName("tool in --allow", pattern, names)
    for pattern in unmatched(flags.deny, (*names, *BASES)):  # what is denied need not be there
        raise UnknownName("tool in --deny", pattern, names)
    policy = setup.settings.policy
    for pattern in unmatched((*policy.deny, *policy.max_uses), (*names, *BASES)):
        print(f"toolglot: a rule of the configuration is about {pattern!r}, and there is no such tool", file=sys.stderr)


def require_key(engine: Engine) -> None:
    """Raises UsageError where a request could only fail for want of a key."""
    profile = engine.profile
    if engine.name.startswith("simulator") or profile.auth == "optional" or engine.keys.given or key_origin(profile):
        return
    wanted = " or ".join((*profile.key_env, *profile.token_env))
    instead = _SIGN_INS.get(profile.sign_in, f"store one with toolglot login {account_of(profile.id)}")
    raise UsageError(f"no key for {profile.title}: set {wanted}, or {instead}")


_SIGN_INS = {
    "entra": "sign in with az login (pip install 'toolglot[azure]')",
    "adc": "sign in with gcloud auth application-default login (pip install 'toolglot[vertex]')",
    "copilot": "sign in with toolglot login copilot",
}


def is_terminal() -> bool:
    """Whether somebody sits there."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
