"""From settings to running parts: engines, rules for tools, options, agents. A program and the command line build them alike.

Laws: what is said of a provider counts for that provider only, also after a switch or a fallback. A key goes nowhere but to the
address that it was set for. All engines of a setup share one transport.
"""

import inspect
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolglot.config.load import facade_named, tools_in
from toolglot.config.places import config_file, data_folder, private_folder, state_folder
from toolglot.config.read import Configuration, read_configuration
from toolglot.config.settings import ProviderSettings, Settings, ToolFilter
from toolglot.engine.auth import key_in
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.signin.environment import environment_key, hidden_values
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.select import FACADES, bases_named
from toolglot.facades.view import Facade
from toolglot.loop.orchestrator import Orchestrator
from toolglot.providers.catalog import ALIASES, SURFACES, resolve, surface
from toolglot.request import Options, ToolDefinition
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool

if TYPE_CHECKING:
    from toolglot.builtin.toolbox import Ask
    from toolglot.builtin.tools import Builtins

__all__ = ["Setup", "configured_tools", "from_config", "unmatched"]

SIMULATOR = "simulator"
_OWN_THINGS = frozenset({"todo", "memory", "ask_user", "shell_output", "shell_kill", "shell_list", "web_find", "web_search"})
AUDIT_FILE = "audit.jsonl"
Number = TypeVar("Number", int, float)


def from_config(
    model: str | None = None,
    *,
    tools: "Iterable[Any] | ToolRegistry" = (),
    folder: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    **more: Any,
) -> Orchestrator:
    """An agent as the configuration says, with its tools and these. The rest goes to `Orchestrator`. Raises UsageError."""
    configuration = read_configuration(folder=folder, flags=flags)
    loaded = configured_tools(configuration)
    return Setup(configuration.settings).agent(model, tools=[*loaded, *tools] if loaded else tools, **more)


def configured_tools(configuration: Configuration) -> list[Any]:
    """The tools that the configuration names, loaded from the project's folder or else the current one. Raises UsageError."""
    return [one for name in configuration.settings.tools for one in tools_in(name, configuration.project)]


class Setup:
    """Builds what settings describe. `transport`: for all engines; else HTTP with the configured timeouts."""

    def __init__(self, settings: Settings, *, transport: Transport | None = None) -> None:
        self.settings = settings
        self._given, self._own = transport, None
        self._engines: dict[str, Engine] = {}

    # ---- models

    def model(self, name: str | None = None) -> str:
        """PROVIDER:MODEL of a name or an alias; the configured model for None, else the simulator. Raises UsageError."""
        name = name or self.settings.model or SIMULATOR
        passed: list[str] = []
        while name in self.settings.aliases:
            passed.append(name)
            name = self.settings.aliases[name]
            if name in passed:
                raise UsageError(f"the alias {name!r} leads back to itself: {' → '.join((*passed, name))}")
        if ":" not in name and name != SIMULATOR:
            if self.settings.aliases:
                raise UnknownName("model (neither an alias nor PROVIDER:MODEL)", name, (*self.settings.aliases, SIMULATOR))
            raise UsageError(
                f"{name!r} is neither PROVIDER:MODEL, such as anthropic:claude-sonnet-4-5, nor an alias in [aliases]"
            )
        return name

    def engine(self, model: str | None = None, **given: Any) -> Engine:
        """The engine of a model or an alias, always the same one. `given`: for `create_engine`, over what is configured."""
        name = self.model(model)
        if given:
            return create_engine(name, **{**self._options_of(name), **given})
        if name not in self._engines:
            self._engines[name] = create_engine(name, **self._options_of(name))
        return self._engines[name]

    async def close(self) -> None:
        """Gives back what the setup's own transport holds."""
        if self._own is not None:
            await self._own.close()

    def _options_of(self, model: str) -> dict[str, Any]:
        """What `create_engine` is told beside the model."""
        section = _section(self.settings, model)
        options: dict[str, Any] = {
            "retry": self.settings.retry,
            "headers": section.headers or None,
            "strict": section.strict,
            "transport": self._given or (None if _provider(model) == SIMULATOR else self._http()),
        }
        if _provider(model) == SIMULATOR:
            if section.base_url or section.key_env or section.places:
                raise UsageError("the simulator has no address and no key: take them out of [providers.simulator]")
            return options
        profile = resolve(*model.partition(":")[::2])
        for place in section.places:
            if place not in profile.place_env:
                raise UnknownName(f"place in the address of {profile.title}", place, profile.place_env)
        return {
            **options,
            **section.places,
            "base_url": section.base_url,
            "key": key_in(section.key_env) if section.key_env else None,
        }

    def _http(self) -> Transport:
        if self._own is None:
            from toolglot.engine.http import HttpTransport

            self._own = HttpTransport(self.settings.timeouts)
        return self._own

    # ---- rules

    def tool_config(self, model: str | None, names: Iterable[str]) -> ToolConfig:
        """How tools are run with a model; `names`: of the tools that there are."""
        policy, sections = self.settings.policy, _sections(self.settings, self.model(model))
        names = tuple(names)
        filters = tuple(_in_our_words(one, names) for one in (self._filter, *(section.tools for section in sections)))
        limited = any(one.allow is not None or one.deny for one in filters)
        return ToolConfig(
            parallel=next((one.parallel for one in reversed(sections) if one.parallel is not None), None),
            max_iterations=policy.max_turns,
            timeout=_limit(policy.timeout),
            run_timeout=_limit(policy.run_timeout),
            max_parallel=policy.max_parallel,
            allowed=frozenset(name for name in names if all(_passes(name, one) for one in filters)) if limited else None,
            ask=frozenset(policy.ask or ()),
            max_uses={own: most for one, most in policy.max_uses.items() for own in _ours(one, names)},
            on_error=policy.on_error,
            retry=self.settings.retry,
            max_result=policy.max_result,
            max_tokens=_limit(policy.max_tokens),
            max_cost=_limit(policy.max_cost),
            repeats=policy.repeats,
        )

    def options(self, model: str | None = None) -> Options:
        """How to generate with a model: what is said of its provider goes before what is said of all."""
        sections = (self.settings.generation, *(one.generation for one in _sections(self.settings, self.model(model))))
        said = {name: value for one in sections for name, value in msgspec.structs.asdict(one).items() if value is not None}
        return Options(**said, cache=True)

    def audit(self) -> AuditLog | None:
        """Where calls of tools are written down. Raises UsageError for a file that cannot be written."""
        match self.settings.audit:
            case False:
                return None
            case True:
                return AuditLog(_appended, secrets=hidden_values)
            case file:
                return AuditLog(file, secrets=hidden_values)

    @property
    def _filter(self) -> ToolFilter:
        return ToolFilter(allow=self.settings.policy.allow, deny=self.settings.policy.deny)

    def builtins(self, *, ask: "Ask | None" = None, alone: bool = False) -> "Builtins":
        """The built-in tools, as they are configured. `alone`: somebody calls them by hand. Raises UsageError."""
        from toolglot.builtin.shell.tools import ShellOptions
        from toolglot.builtin.tools import BuiltinOptions, builtins
        from toolglot.builtin.web.config import WebConfig
        from toolglot.builtin.workspace import Root

        own = self.settings.builtin
        others = [
            *(Root(Path(one).expanduser(), writable=False) for one in own.read),
            *(Root(Path(one).expanduser()) for one in own.write),
        ]
        web = WebConfig(
            searxng_url=own.searxng_url or "",
            brave_key=lambda: environment_key(own.brave_key_env),
            tavily_key=lambda: environment_key(own.tavily_key_env),
            allow_private=own.allow_private,
            browser=own.browser or "",
        )
        options = BuiltinOptions(
            others=tuple(others),
            unprotected=own.unprotected,
            require_read=own.require_read and not alone,
            shell=ShellOptions(network=own.network, hidden=(config_file().parent, data_folder(), state_folder())),
            web=web,
        )
        found = builtins(Path(own.root or ".").expanduser(), options=options, state=private_folder(state_folder()), ask=ask)
        if self.settings.policy.ask is None and not alone:
            found.tools = [one.replace(approval=True) if _asks_first(one) else one for one in found.tools]
        return found

    # ---- agents

    def agent(self, model: str | None = None, *, tools: "Iterable[Any] | ToolRegistry" = (), **more: Any) -> Orchestrator:
        """An agent, which stays configured when it switches. `more`: for `Orchestrator` and `create_engine`; it goes first."""
        named = {name: more.pop(name) for name in list(more) if name in _named_by_agents()}
        system, facade = self.settings.system, self.facade()
        given: dict[str, Any] = {"system": system, "context": self.settings.context, "facade": facade, **named}
        tools = tools if isinstance(tools, ToolRegistry) else list(tools)
        given["audit"] = named["audit"] if "audit" in named else self.audit()
        others = named.get("fallbacks", self.settings.fallbacks)
        given["fallbacks"] = tuple(self.engine(one) if isinstance(one, str) else one for one in others)
        given["hosted"] = [name for name in named.get("hosted", ()) if _passes(name, self._filter)]
        if not isinstance(tools, ToolRegistry):
            tools = [one for one in tools if not isinstance(one, ToolDefinition) or _passes(one.name, self._filter)]
        agent = _Agent(self.engine(model, **more), setup=self, tools=tools, **given)
        self.fit(agent)
        return agent

    def facade(self) -> "str | Facade":
        """How models see the built-in tools. Raises UsageError."""
        name = self.settings.facade
        return name if name == "auto" or name in FACADES else facade_named(name)

    def switch(self, agent: Orchestrator, model: str) -> None:
        """Goes on with another model, under the rules and options of its provider. Where that fails, nothing is changed."""
        agent.switch(self.engine(model))
        self.fit(agent)

    def fit(self, agent: Orchestrator) -> None:
        """Gives an agent the rules and options of the provider that it has now, but for those that its maker gave it."""
        kept = agent.given if isinstance(agent, _Agent) else frozenset[str]()
        if "config" not in kept:
            agent.config = self.tool_config(agent.model, agent.tool_names)
        if "options" not in kept:
            agent.options = self.options(agent.model)


class _Agent(Orchestrator):
    """An agent whose models come from a setup, whoever switches them. `given`: what its maker named."""

    def __init__(self, model: str | Engine = SIMULATOR, *, setup: Setup, **rest: Any) -> None:
        self._setup, self.given = setup, frozenset(rest)
        super().__init__(setup.engine(model) if isinstance(model, str) else model, **rest)

    def switch(self, model: str | Engine, **engine: Any) -> None:
        super().switch(self._setup.engine(model, **engine) if isinstance(model, str) else model)
        self._setup.fit(self)

    def fall_back(self, used: int) -> int | None:
        place = super().fall_back(used)
        if place is not None:
            self._setup.fit(self)
        return place


def _asks_first(tool: Tool) -> bool:
    """Whether a built-in tool asks where nobody has said which do: it changes something that is not its own."""
    return bool(tool.effects & {"write", "execute", "network"}) and tool.name not in _OWN_THINGS


@cache
def _named_by_agents() -> frozenset[str]:
    """What `Orchestrator` takes by name; all else is for `create_engine`."""
    parameters = inspect.signature(Orchestrator.__init__).parameters.values()
    return frozenset(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)


# ---- what is said of a provider


def _provider(model: str) -> str:
    return model.partition(":")[0]


def _sections(settings: Settings, model: str) -> list[ProviderSettings]:
    """What is said of a model's provider under its different names; the nearest name is last."""
    provider, _, name = model.partition(":")
    row = surface(provider, name)
    families = [family for family, rows in SURFACES.items() if row in (found for _, found in rows)]
    aliases = [alias for alias, of in ALIASES.items() if of == row]
    others = [alias for alias in aliases if alias != provider]
    names = (*families, *others, row, *(alias for alias in aliases if alias == provider))
    return [settings.providers[one] for one in names if one in settings.providers]


def _section(settings: Settings, model: str) -> ProviderSettings:
    """All that is said of a model's provider, as one. Another address gets no key and no header of a former one."""
    whole = ProviderSettings()
    for one in _sections(settings, model):
        if one.base_url is not None:
            whole = replace(whole, base_url=one.base_url, key_env=None, headers={})
        whole = replace(
            whole,
            key_env=one.key_env or whole.key_env,
            headers={**whole.headers, **one.headers},
            places={**whole.places, **one.places},
            strict=whole.strict or one.strict,
        )
    return whole


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Patterns that fit none of the names, also where they are said in the words of a model."""
    names = tuple(names)
    return tuple(one for one in patterns if not _fits(_ours(one, names), names))


def _in_our_words(given: ToolFilter, names: tuple[str, ...]) -> ToolFilter:
    """A filter that may name built-in tools as models do: to deny `Bash` is to deny `shell`, also beside a tool `Bash`."""
    allow = None if given.allow is None else tuple(own for one in given.allow for own in _ours(one, names))
    return replace(given, allow=allow, deny=tuple(own for one in given.deny for own in (one, *bases_named(one))))


def _ours(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """A pattern that fits a tool stays; another stands for the built-in tools that models know under such names."""
    return (pattern,) if _fits((pattern,), names) else bases_named(pattern) or (pattern,)


def _fits(patterns: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _passes(name: str, given: ToolFilter) -> bool:
    allowed = given.allow is None or any(fnmatchcase(name, one) for one in given.allow)
    return allowed and not any(fnmatchcase(name, one) for one in given.deny)


def _limit(limit: Number | str) -> Number | None:
    return None if isinstance(limit, str) else limit


def _appended(line: bytes) -> None:
    """One more line of the audit log in the user's state folder."""
    file = private_folder(state_folder()) / AUDIT_FILE
    with open(file, "ab", opener=lambda name, mode: os.open(name, mode, 0o600)) as log:
        log.write(line)
