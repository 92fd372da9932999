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

from toolglot.config.layers import Configuration, read_configuration
from toolglot.config.loading import load_facade_by_name, load_tools
from toolglot.config.paths import config_file, data_directory, ensure_private_directory, state_directory
from toolglot.config.settings import ProviderSettings, Settings, ToolFilter
from toolglot.engine.auth import key_from_variable
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.signin.environment import read_key_variable, secret_values
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import FACADE_MODULES, find_base_tools
from toolglot.facades.view import Facade
from toolglot.loop.orchestrator import Orchestrator
from toolglot.providers.catalog import ALIASES, SURFACES, resolve_profile, select_row
from toolglot.request import Options, ToolDefinition
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool

if TYPE_CHECKING:
    from toolglot.builtin.tool_state import AskUser
    from toolglot.builtin.tools import Builtins

__all__ = ["Setup", "find_unmatched", "from_config", "load_configured_tools"]

SIMULATOR = "simulator"
_NO_APPROVAL_TOOLS = frozenset(
    {"todo", "memory", "ask_user", "shell_output", "shell_kill", "shell_list", "web_find", "web_search"}
)
AUDIT_FILE = "audit.jsonl"
Number = TypeVar("Number", int, float)


def from_config(
    model: str | None = None,
    *,
    tools: "Iterable[Any] | ToolRegistry" = (),
    directory: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    **options: Any,
) -> Orchestrator:
    """An agent as the configuration says, with its tools and these. The rest goes to `Orchestrator`. Raises UsageError."""
    configuration = read_configuration(directory=directory, flags=flags)
    loaded = load_configured_tools(configuration)
    return Setup(configuration.settings).create_agent(model, tools=[*loaded, *tools] if loaded else tools, **options)


def load_configured_tools(configuration: Configuration) -> list[Any]:
    """The tools that the configuration names, loaded from the project's folder or else the current one. Raises UsageError."""
    return [one for name in configuration.settings.tools for one in load_tools(name, configuration.project)]


class Setup:
    """Builds what settings describe. `transport`: for all engines; else HTTP with the configured timeouts."""

    def __init__(self, settings: Settings, *, transport: Transport | None = None) -> None:
        self.settings = settings
        self._transport, self._http_transport = transport, None
        self._engines: dict[str, Engine] = {}

    # ---- models

    def resolve_model(self, name: str | None = None) -> str:
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

    def engine(self, model: str | None = None, **overrides: Any) -> Engine:
        """The engine of a model or an alias, always the same one. `given`: for `create_engine`, over what is configured."""
        name = self.resolve_model(model)
        if overrides:
            return create_engine(name, **{**self._engine_options(name), **overrides})
        if name not in self._engines:
            self._engines[name] = create_engine(name, **self._engine_options(name))
        return self._engines[name]

    async def close(self) -> None:
        """Gives back what the setup's own transport holds."""
        if self._http_transport is not None:
            await self._http_transport.close()

    def _engine_options(self, model: str) -> dict[str, Any]:
        """What `create_engine` is told beside the model."""
        section = _merge_provider_sections(self.settings, model)
        options: dict[str, Any] = {
            "retry": self.settings.retry,
            "headers": section.headers or None,
            "strict": section.strict,
            "transport": self._transport or (None if _provider_of(model) == SIMULATOR else self._shared_transport()),
        }
        if _provider_of(model) == SIMULATOR:
            if section.base_url or section.key_env or section.places:
                raise UsageError("the simulator has no address and no key: take them out of [providers.simulator]")
            return options
        profile = resolve_profile(*model.partition(":")[::2])
        for place in section.places:
            if place not in profile.url_parameter_env:
                raise UnknownName(f"place in the address of {profile.title}", place, profile.url_parameter_env)
        return {
            **options,
            **section.places,
            "base_url": section.base_url,
            "key": key_from_variable(section.key_env) if section.key_env else None,
        }

    def _shared_transport(self) -> Transport:
        if self._http_transport is None:
            from toolglot.engine.http import HttpTransport

            self._http_transport = HttpTransport(self.settings.timeouts)
        return self._http_transport

    # ---- rules

    def tool_config(self, model: str | None, names: Iterable[str]) -> ToolConfig:
        """How tools are run with a model; `names`: of the tools that there are."""
        policy, sections = self.settings.policy, _provider_sections(self.settings, self.resolve_model(model))
        names = tuple(names)
        filters = tuple(_to_base_names(one, names) for one in (self._policy_filter, *(section.tools for section in sections)))
        limited = any(one.allow is not None or one.deny for one in filters)
        return ToolConfig(
            parallel=next((one.parallel for one in reversed(sections) if one.parallel is not None), None),
            max_iterations=policy.max_turns,
            timeout=_to_optional_limit(policy.timeout),
            run_timeout=_to_optional_limit(policy.run_timeout),
            max_parallel=policy.max_parallel,
            allowed_tools=frozenset(name for name in names if all(_is_allowed(name, one) for one in filters))
            if limited
            else None,
            approval_effects=frozenset(policy.ask or ()),
            max_uses={own: most for one, most in policy.max_uses.items() for own in _base_patterns(one, names)},
            on_error=policy.on_error,
            retry=self.settings.retry,
            max_result=policy.max_result,
            max_tokens=_to_optional_limit(policy.max_tokens),
            max_cost=_to_optional_limit(policy.max_cost),
            max_repeats=policy.repeats,
        )

    def generation_options(self, model: str | None = None) -> Options:
        """How to generate with a model: what is said of its provider goes before what is said of all."""
        sections = (
            self.settings.generation,
            *(one.generation for one in _provider_sections(self.settings, self.resolve_model(model))),
        )
        said = {name: value for one in sections for name, value in msgspec.structs.asdict(one).items() if value is not None}
        return Options(**said, cache=True)

    def open_audit_log(self) -> AuditLog | None:
        """Where calls of tools are written down. Raises UsageError for a file that cannot be written."""
        match self.settings.audit:
            case False:
                return None
            case True:
                return AuditLog(_append_audit_line, secrets=secret_values)
            case file:
                return AuditLog(file, secrets=secret_values)

    @property
    def _policy_filter(self) -> ToolFilter:
        return ToolFilter(allow=self.settings.policy.allow, deny=self.settings.policy.deny)

    def builtins(self, *, ask: "AskUser | None" = None, manual: bool = False) -> "Builtins":
        """The built-in tools, as they are configured. `alone`: somebody calls them by hand. Raises UsageError."""
        from toolglot.builtin.files.workspace import Root
        from toolglot.builtin.shell.tools import ShellOptions
        from toolglot.builtin.tools import BuiltinOptions, builtins
        from toolglot.builtin.web.config import WebConfig

        own = self.settings.builtin
        others = [
            *(Root(Path(one).expanduser(), writable=False) for one in own.read),
            *(Root(Path(one).expanduser()) for one in own.write),
        ]
        web = WebConfig(
            searxng_url=own.searxng_url or "",
            brave_key=lambda: read_key_variable(own.brave_key_env),
            tavily_key=lambda: read_key_variable(own.tavily_key_env),
            allow_private=own.allow_private,
            browser=own.browser or "",
        )
        options = BuiltinOptions(
            other_roots=tuple(others),
            unprotected=own.unprotected,
            require_read=own.require_read and not manual,
            shell=ShellOptions(network=own.network, hidden=(config_file().parent, data_directory(), state_directory())),
            web=web,
        )
        found = builtins(
            Path(own.root or ".").expanduser(), options=options, state_dir=ensure_private_directory(state_directory()), ask=ask
        )
        if self.settings.policy.ask is None and not manual:
            found.tools = [one.replace(approval=True) if _needs_approval(one) else one for one in found.tools]
        return found

    # ---- agents

    def create_agent(
        self, model: str | None = None, *, tools: "Iterable[Any] | ToolRegistry" = (), **options: Any
    ) -> Orchestrator:
        """An agent, which stays configured when it switches. `more`: for `Orchestrator` and `create_engine`; it goes first."""
        named = {name: options.pop(name) for name in list(options) if name in _orchestrator_options()}
        system, facade = self.settings.system, self.resolve_facade()
        given: dict[str, Any] = {"system": system, "context": self.settings.context, "facade": facade, **named}
        tools = tools if isinstance(tools, ToolRegistry) else list(tools)
        given["audit"] = named["audit"] if "audit" in named else self.open_audit_log()
        others = named.get("fallbacks", self.settings.fallbacks)
        given["fallbacks"] = tuple(self.engine(one) if isinstance(one, str) else one for one in others)
        given["hosted"] = [name for name in named.get("hosted", ()) if _is_allowed(name, self._policy_filter)]
        if not isinstance(tools, ToolRegistry):
            tools = [one for one in tools if not isinstance(one, ToolDefinition) or _is_allowed(one.name, self._policy_filter)]
        agent = _ConfiguredAgent(self.engine(model, **options), setup=self, tools=tools, **given)
        self.apply_rules(agent)
        return agent

    def resolve_facade(self) -> "str | Facade":
        """How models see the built-in tools. Raises UsageError."""
        name = self.settings.facade
        return name if name == "auto" or name in FACADE_MODULES else load_facade_by_name(name)

    def switch(self, agent: Orchestrator, model: str) -> None:
        """Goes on with another model, under the rules and options of its provider. Where that fails, nothing is changed."""
        agent.switch(self.engine(model))
        self.apply_rules(agent)

    def apply_rules(self, agent: Orchestrator) -> None:
        """Gives an agent the rules and options of the provider that it has now, but for those that its maker gave it."""
        kept = agent.explicit_options if isinstance(agent, _ConfiguredAgent) else frozenset[str]()
        if "config" not in kept:
            agent.config = self.tool_config(agent.model, agent.tool_names)
        if "options" not in kept:
            agent.options = self.generation_options(agent.model)


class _ConfiguredAgent(Orchestrator):
    """An agent whose models come from a setup, whoever switches them. `given`: what its maker named."""

    def __init__(self, model: str | Engine = SIMULATOR, *, setup: Setup, **options: Any) -> None:
        self._setup, self.explicit_options = setup, frozenset(options)
        super().__init__(setup.engine(model) if isinstance(model, str) else model, **options)

    def switch(self, model: str | Engine, **engine: Any) -> None:
        super().switch(self._setup.engine(model, **engine) if isinstance(model, str) else model)
        self._setup.apply_rules(self)

    def use_fallback(self, used: int) -> int | None:
        place = super().use_fallback(used)
        if place is not None:
            self._setup.apply_rules(self)
        return place


def _needs_approval(tool: Tool) -> bool:
    """Whether a built-in tool asks where nobody has said which do: it changes something that is not its own."""
    return bool(tool.effects & {"write", "execute", "network"}) and tool.name not in _NO_APPROVAL_TOOLS


@cache
def _orchestrator_options() -> frozenset[str]:
    """What `Orchestrator` takes by name; all else is for `create_engine`."""
    parameters = inspect.signature(Orchestrator.__init__).parameters.values()
    return frozenset(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)


# ---- what is said of a provider


def _provider_of(model: str) -> str:
    return model.partition(":")[0]


def _provider_sections(settings: Settings, model: str) -> list[ProviderSettings]:
    """What is said of a model's provider under its different names; the nearest name is last."""
    provider, _, name = model.partition(":")
    row = select_row(provider, name)
    families = [family for family, rows in SURFACES.items() if row in (found for _, found in rows)]
    aliases = [alias for alias, of in ALIASES.items() if of == row]
    others = [alias for alias in aliases if alias != provider]
    names = (*families, *others, row, *(alias for alias in aliases if alias == provider))
    return [settings.providers[one] for one in names if one in settings.providers]


def _merge_provider_sections(settings: Settings, model: str) -> ProviderSettings:
    """All that is said of a model's provider, as one. Another address gets no key and no header of a former one."""
    whole = ProviderSettings()
    for one in _provider_sections(settings, model):
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


def find_unmatched(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Patterns that fit none of the names, also where they are said in the words of a model."""
    names = tuple(names)
    return tuple(one for one in patterns if not _matches_any(_base_patterns(one, names), names))


def _to_base_names(tool_filter: ToolFilter, names: tuple[str, ...]) -> ToolFilter:
    """A filter that may name built-in tools as models do: to deny `Bash` is to deny `shell`, also beside a tool `Bash`."""
    allow = None if tool_filter.allow is None else tuple(own for one in tool_filter.allow for own in _base_patterns(one, names))
    return replace(
        tool_filter, allow=allow, deny=tuple(own for one in tool_filter.deny for own in (one, *find_base_tools(one)))
    )


def _base_patterns(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """A pattern that fits a tool stays; another stands for the built-in tools that models know under such names."""
    return (pattern,) if _matches_any((pattern,), names) else find_base_tools(pattern) or (pattern,)


def _matches_any(patterns: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _is_allowed(name: str, tool_filter: ToolFilter) -> bool:
    allowed = tool_filter.allow is None or any(fnmatchcase(name, one) for one in tool_filter.allow)
    return allowed and not any(fnmatchcase(name, one) for one in tool_filter.deny)


def _to_optional_limit(limit: Number | str) -> Number | None:
    return None if isinstance(limit, str) else limit


def _append_audit_line(line: bytes) -> None:
    """One more line of the audit log in the user's state folder."""
    file = ensure_private_directory(state_directory()) / AUDIT_FILE
    with open(file, "ab", opener=lambda name, mode: os.open(name, mode, 0o600)) as log:
        log.write(line)
