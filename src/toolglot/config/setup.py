"""From settings to running parts: engines, tool rules, options, agents.

Programs and the command line build them the same way.

What is set for a provider applies to that provider only, even after a switch or a fallback. A key is sent
only to the address it was set for. All engines of a setup share one transport.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.option_signatures import show_options
from toolglot.common.plugins import find_plugin, plugin_error, plugin_names
from toolglot.common.sanitize import escape_line
from toolglot.common.type_parameters import Data, OutputValue
from toolglot.common.user_dirs import ensure_private_directory, state_directory
from toolglot.config.layers import Configuration, describe_withheld, read_configuration
from toolglot.config.loading import load_facade_by_name, load_tools
from toolglot.config.settings import PolicySettings, ProviderSettings, Settings, ToolFilter
from toolglot.confine.sandbox_probe import check_sandbox
from toolglot.engine.auth import KeyVariable
from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.signin.environment import secret_values
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, find_facade, find_named_tools, is_facade_name
from toolglot.facades.view import Facade
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import AgentConfig, AgentOptions
from toolglot.loop.agent.models import Models
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.deferral import Defer, parse_defer
from toolglot.loop.model_view import Language
from toolglot.providers.catalog import (
    ALIASES,
    DEFAULT_MODELS,
    PROFILES,
    SURFACES,
    infer_provider,
    resolve_profile,
    select_row,
    suggest_model,
)
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.line_file import LineFile
from toolglot.tools.policy import find_allowed, would_be_confined
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.request import Options, ToolDefinition

__all__ = ["Setup", "find_unmatched", "find_unmatched_rules", "from_config", "load_configured_tools"]

log = get_logger("toolglot.config")
SIMULATOR = "simulator"
AUDIT_FILE = "audit.jsonl"
Limit = TypeVar("Limit")
_AGENT_OPTIONS = (
    AgentOptions.__annotations__.keys() - EngineOptions.__annotations__.keys()
)  # the others are for `create_engine`
# `[policy]` sets these by name
_POLICY_NAMES = {*ToolConfig.__struct_fields__} & {*PolicySettings.__struct_fields__}


@show_options(AgentOptions)
def from_config(
    model: str | None = None,
    *,
    directory: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    **options: Unpack[AgentOptions[Data, OutputValue]],
) -> Agent[Data, OutputValue]:
    """Create an agent from the configuration.

    `options`: for `Agent`; `tools` are added to those of the configuration.

    Raises UsageError.
    """
    configuration = read_configuration(directory=directory, flags=flags)
    if ignored := describe_withheld(configuration):
        log.warning("ignoring %s: the directory is not trusted (run `toolglot trust`)", escape_line(ignored))
    loaded = load_configured_tools(configuration)
    if loaded:
        options["tools"] = [*loaded, *options.get("tools", ())]
    setup = Setup(configuration.settings, code_directory=configuration.code_directories.get("facade"))
    agent = setup.create_agent(model, **cast(dict[str, Any], options))
    for pattern in find_unmatched_rules(configuration.settings, agent.view().tool_names):
        log.warning("a configured rule names %r, which matches no tool", pattern)
    return agent


def load_configured_tools(configuration: Configuration) -> list[Any]:
    """Load the tools that the configuration names. Raises UsageError."""
    directory = configuration.code_directories.get("tools")
    return [tool for name in configuration.settings.tools for tool in load_tools(name, directory)]


class Setup:
    """Builds what the settings describe.

    Args:
        settings: The settings.
        transport: For all engines; default: HTTP with the configured timeouts.
        code_directory: Where to look for a facade given as `module:object` that is not installed; None:
            nowhere.
    """

    def __init__(
        self, settings: Settings, *, transport: Transport | None = None, code_directory: Path | None = None
    ) -> None:
        self.settings, self._code_directory = settings, code_directory
        self._transport = transport
        self._own_transport: Transport | None = None
        self._engines: dict[str, Engine] = {}
        self.adjust_config: Callable[[ToolConfig], ToolConfig] = lambda config: config
        """Adjusts the rules for every model, such as for the mode of an editor's session."""
        self.adjust_options: Callable[[Options], Options] = lambda options: options

    # ---- models

    def resolve_model(self, name: str | None = None) -> str:
        """Return PROVIDER:MODEL for a name or an alias; None: the configured model, else the simulator.

        Raises UsageError.
        """
        name = self._resolve_alias(name or self.settings.model or SIMULATOR)
        if ":" in name or name == SIMULATOR:
            return name
        provider = infer_provider(name)
        if provider:
            return f"{provider}:{name}"
        provider = ALIASES.get(name, name)
        if provider in DEFAULT_MODELS:
            return f"{provider}:{DEFAULT_MODELS[provider]}"
        if provider in PROFILES or provider in SURFACES or provider in plugin_names("profiles"):
            raise UsageError(f"{name!r} is a provider: add a model, as in {name}:MODEL")
        if self.settings.aliases:
            raise UnknownName(
                "model (neither an alias nor PROVIDER:MODEL)", name, (*self.settings.aliases, SIMULATOR)
            )
        raise UsageError(
            f"{name!r} is neither PROVIDER:MODEL, such as anthropic:claude-sonnet-5, nor an alias in "
            "[aliases]" + suggest_model(name)
        )

    def _resolve_alias(self, name: str) -> str:
        """Return what an alias stands for, also if that is another one. Raises UsageError."""
        visited: list[str] = []
        while ":" not in name and name in self.settings.aliases:  # PROVIDER:MODEL always means itself
            visited.append(name)
            name = self.settings.aliases[name]
            if name in visited:
                raise UsageError(f"the alias {name!r} refers to itself: {' → '.join((*visited, name))}")
        return name

    def engine(self, model: str | None = None, **overrides: Any) -> Engine:
        """Return the engine for a model or an alias, always the same one; `overrides`, for `create_engine`,
        get a new one.
        """
        name = self.resolve_model(model)
        if overrides:
            return create_engine(name, **{**self._engine_options(name), **overrides})
        if name not in self._engines:
            self._engines[name] = create_engine(name, **self._engine_options(name))
        return self._engines[name]

    async def close(self) -> None:
        """Close idle connections of the setup's own transport."""
        close = getattr(self._own_transport, "close", None)
        if close is not None:
            await close()

    def _engine_options(self, model: str) -> dict[str, Any]:
        """Return the arguments for `create_engine`."""
        section = _merge_provider_sections(self.settings, model)
        options: dict[str, Any] = {
            "retry": self.settings.retry,
            "headers": section.headers or None,
            "strict": section.strict,
            "text_calls": section.text_calls,
        }
        provider, _, name = model.partition(":")
        if provider == SIMULATOR:
            if section.base_url or section.key_env or section.url_parameters:
                raise UsageError(
                    "the simulator has no base URL and no key: remove them from [providers.simulator]"
                )
            return {**options, "transport": self._transport}
        profile = resolve_profile(provider, name)
        for parameter in section.url_parameters:
            if parameter not in profile.url_parameter_env:
                raise UnknownName(f"URL parameter of {profile.title}", parameter, profile.url_parameter_env)
        transport = self._transport
        if transport is None:
            if self._own_transport is None:
                self._own_transport = _open_transport(self.settings)
            transport = self._own_transport
        return {
            **options,
            **section.url_parameters,
            "transport": transport,
            "base_url": section.base_url,
            "key": KeyVariable(section.key_env) if section.key_env else None,
        }

    # ---- rules

    def tool_config(self, model: str | None, names: Iterable[str]) -> ToolConfig:
        """Return how to run tools with a model. `names`: of all registered tools."""
        policy = self.settings.policy
        sections = _provider_sections(self.settings, self.resolve_model(model))
        names = tuple(names)
        parallel: bool | None = None
        filters: list[ToolFilter] = [policy]
        for section in sections:
            filters.append(section.tools)
            if section.parallel is not None:
                parallel = section.parallel
        deny: list[str] = []
        allowed: frozenset[str] | None = None
        for tool_filter in filters:
            deny += tool_filter.deny
            passed = _filter_tools(names, tool_filter)
            if passed is not None:
                allowed = passed if allowed is None else allowed & passed
        fields: dict[str, Any] = {name: getattr(policy, name) for name in _POLICY_NAMES}
        fields |= {
            "parallel": parallel,
            "timeout": None if policy.timeout == "none" else policy.timeout,
            "allow": allowed,
            "deny": tuple(deny),
            "max_uses": _by_tool(policy.max_uses, names, float),
            "rates": _by_tool(policy.rates, names, attrgetter("calls_per_second")),
            "retry": self.settings.retry,
        }
        return self.adjust_config(ToolConfig(**fields))

    def generation_options(self, model: str | None = None) -> Options:
        """Return how to generate with a model; the settings of its provider override the general ones."""
        sections = _provider_sections(self.settings, self.resolve_model(model))
        options: dict[str, Any] = {}
        extras: dict[str, dict[str, Any]] = {}
        for generation in (self.settings.generation, *(section.generation for section in sections)):
            options |= {
                name: value for name, value in msgspec.structs.asdict(generation).items() if value is not None
            }
            extras = {**extras, **generation.extras}
        options["extras"] = extras
        return self.adjust_options(Options(**options, cache=True))

    def check_mode(self, mode: str) -> None:
        """Raise UsageError if an approval mode cannot be used here, or would change nothing."""
        if mode != "sandboxed":
            return
        name = "the approval mode 'sandboxed'"
        if self.settings.policy.ask is not None:
            raise UsageError(
                f"{name} has no effect while policy.ask says what needs approval: unset one of them"
            )
        if not self.settings.builtin.sandbox:
            raise UsageError(f"{name} needs the sandbox: remove --no-sandbox, or use --approval-mode ask")
        check_sandbox(name)

    def mode_would_allow(self, tool: Tool | None, config: ToolConfig, arguments: Any) -> bool:
        """Whether the mode `sandboxed` can be used here, and would let a call run that now needs approval."""
        if tool is None or not isinstance(arguments, dict):
            return False
        if not would_be_confined(tool, config, cast(dict[str, Any], arguments)):
            return False
        try:
            self.check_mode("sandboxed")
        except UsageError:
            return False
        return True

    def open_audit_log(self) -> AuditLog | None:
        """Return the configured log of tool calls. Raises UsageError if its file cannot be written."""
        match self.settings.audit:
            case False:
                return None
            case True:
                return AuditLog(_append_audit_line, secrets=secret_values)
            case file:
                return AuditLog(file, secrets=secret_values)

    # ---- agents

    def create_agent(
        self, model: str | None = None, *, tools: "Iterable[Any] | ToolRegistry" = (), **options: Any
    ) -> Agent:
        """Create an agent that stays configured when it switches models.

        `options`: for `Agent` and `create_engine`; they override the settings.
        """
        explicit: dict[str, Any] = {}
        for name in [*options]:
            if name in _AGENT_OPTIONS:
                explicit[name] = options.pop(name)
        if not isinstance(tools, ToolRegistry):
            tools = [tool for tool in tools if self._is_offered(tool)]
        fallbacks: list[Engine] = []
        for fallback in explicit.get("fallbacks", self.settings.fallbacks):
            fallbacks.append(self.engine(fallback) if isinstance(fallback, str) else fallback)
        arguments: dict[str, Any] = {
            "system": self.settings.system,
            "limits": self.settings.limits,
            "context": self.settings.context,
            "facade": self.resolve_facade(),
            "defer": self.defer_rule,
            "code_mode": self.code_mode,
            **explicit,
            "fallbacks": tuple(fallbacks),
            "hosted": [name for name in explicit.get("hosted", ()) if self._allows_hosted(name)],
        }
        if "audit" not in explicit:
            arguments["audit"] = self.open_audit_log()
        return _ConfiguredAgent(self.engine(model, **options), setup=self, tools=tools, **arguments)

    def _is_offered(self, tool: Any) -> bool:
        """Whether a model may see a tool: hosted ones run at the provider, where the policy cannot stop them."""
        return not isinstance(tool, ToolDefinition) or self._allows_hosted(tool.name)

    def _allows_hosted(self, name: str) -> bool:
        allowed = _filter_tools((name,), self.settings.policy)
        return allowed is None or name in allowed

    @property
    def defer_rule(self) -> Defer:
        """Which tools to defer, as `Agent` takes it."""
        return parse_defer(self.settings.defer or False)

    @property
    def code_mode(self) -> bool | Language | None:
        """Whether the model writes code that calls the tools, as `Agent` takes it."""
        modes: dict[str, bool | Language | None] = {"auto": None, "on": True, "off": False}
        mode = self.settings.code_mode
        return modes[mode] if mode in modes else cast(Language, mode)

    def resolve_facade(self) -> "str | Facade":
        """Return the facade that the settings name. Raises UsageError."""
        name = self.settings.facade
        if name == "auto" or is_facade_name(name):
            if name != "auto":
                find_facade(name)  # an unknown version is an error now, not when a model is asked
            return name
        return load_facade_by_name(name, self._code_directory)


class _ConfiguredAgent(Agent):
    """An agent whose models come from a setup; it has the rules and options of its current provider, except
    explicit ones.
    """

    def __init__(self, engine: Engine, *, setup: Setup, **options: Any) -> None:
        self._source, self._explicit_options = setup, frozenset(options)
        super().__init__(engine, **options)

    def _make_setup(self, config: AgentConfig, models: Models) -> AgentSetup:
        return _ConfiguredSetup(config, models, self._source, self._explicit_options)

    def switch(self, model: str | Engine, **engine: Any) -> None:
        super().switch(self._source.engine(model, **engine) if isinstance(model, str) else model)

    async def aclose(self) -> None:
        await super().aclose()
        await self._source.close()


class _ConfiguredSetup(AgentSetup):
    """What such an agent is at present."""

    def __init__(
        self, config: AgentConfig, models: Models, source: Setup, explicit_options: frozenset[str]
    ) -> None:
        self._source, self._explicit_options = source, explicit_options
        super().__init__(config, models)
        self.adapt()

    def _check_names(self, config: AgentConfig) -> None:
        # the others are reported once, in the words of the configuration
        if "config" in self._explicit_options:
            super()._check_names(config)

    def adapt(self) -> None:
        """Take the rules and options of the provider; which tools are allowed is known by their names."""
        model, changes = self.models.engine.name, dict[str, Any]()
        if "config" not in self._explicit_options:
            config = self._source.tool_config(model, self.config.tool_names)
            if "approval_mode" in self._explicit_options:
                config = replace(config, mode=self.config.config.mode)
            changes["config"] = config
        if "options" not in self._explicit_options:
            changes["options"] = self._source.generation_options(model)
        self.change(**changes)


def _open_transport(settings: Settings) -> Transport:
    """Return what carries requests: HTTP, or a plug-in. Raises UsageError."""
    name = settings.transport
    if name is None:
        from toolglot.engine.http import SharedTransport

        return SharedTransport(settings.timeouts)
    create = find_plugin("transports", name)
    if create is None:
        raise UnknownName("transport", name, plugin_names("transports"))
    transport = create(settings.timeouts) if callable(create) else create
    if not isinstance(transport, Transport):
        raise plugin_error(
            "transports", name, "is not a function that returns a Transport for given Timeouts"
        )
    return transport


# ---- sections of a provider


def _provider_sections(settings: Settings, model: str) -> list[ProviderSettings]:
    """Return the sections for a model's provider, from the most general name (`openai`) to the one that was
    used.
    """
    provider, _, name = model.partition(":")
    if provider == SIMULATOR:
        sections = _imitated_sections(settings, name)
        if SIMULATOR in settings.providers:
            sections.append(settings.providers[SIMULATOR])
        return sections
    row = select_row(provider, name)
    names: list[str] = []
    for family, rows in SURFACES.items():
        if row in (surface for _, surface in rows):
            names.append(family)
    aliases = [alias for alias, target in ALIASES.items() if target == row]
    names += [alias for alias in aliases if alias != provider]
    names.append(row)
    if provider in aliases:
        names.append(provider)
    return [settings.providers[name] for name in names if name in settings.providers]


def _imitated_sections(settings: Settings, name: str) -> list[ProviderSettings]:
    """Return the sections for the provider that the simulator stands in for, without those about its address."""
    provider, _, model = name.partition("/")
    sections = _provider_sections(settings, f"{provider or 'anthropic'}:{model}")
    return [
        replace(section, base_url=None, key_env=None, headers={}, url_parameters={}) for section in sections
    ]


def _merge_provider_sections(settings: Settings, model: str) -> ProviderSettings:
    merged = ProviderSettings()
    for section in _provider_sections(settings, model):
        if section.base_url is not None:  # a key or a header for the former address must not go to this one
            merged = replace(merged, base_url=section.base_url, key_env=None, headers={})
        merged = replace(
            merged,
            key_env=section.key_env or merged.key_env,
            headers={**merged.headers, **section.headers},
            url_parameters={**merged.url_parameters, **section.url_parameters},
            strict=merged.strict or section.strict,
            text_calls=merged.text_calls if section.text_calls is None else section.text_calls,
        )
    return merged


# ---- filters


def find_unmatched(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that match none of the names, and no built-in tool under a model's own name."""
    tools = tuple(names)
    resolver = _policy_names(tools)
    return tuple(
        pattern
        for pattern in patterns
        if not any(resolver.covers(pattern.partition("(")[0], name) for name in tools)
    )


def find_unmatched_rules(settings: Settings, names: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns in rules of the configuration that match no tool, whether built-in tools are used
    or not.
    """
    policy = settings.policy
    patterns = dict.fromkeys((*policy.deny, *policy.approve, *policy.max_uses, *policy.rates))
    return find_unmatched(patterns, (*names, *BASE_TOOLS))


def _policy_names(tools: tuple[str, ...]) -> PolicyNames:
    return PolicyNames(lambda name: find_named_tools(name, tools), lambda name: name in tools)


def _by_tool(
    limits: Mapping[str, Limit], tools: tuple[str, ...], amount: Callable[[Limit], float]
) -> dict[str, Limit]:
    """Return limits by tool name instead of by pattern; if several match, the strictest.

    `amount`: how much one allows.
    """
    names = _policy_names(tools)
    found = {tool: names.find_limits(tool, limits) for tool in tools}
    return {tool: min(own_limits, key=amount) for tool, own_limits in found.items() if own_limits}


def _filter_tools(tools: tuple[str, ...], tool_filter: ToolFilter) -> frozenset[str] | None:
    """Return the tools that pass a filter; None: all of them."""
    return find_allowed(
        ToolConfig(allow=tool_filter.allow, deny=tool_filter.deny), tools, _policy_names(tools)
    )


def _append_audit_line(line: bytes) -> None:
    """Append to the audit log in the user's state directory."""
    file = ensure_private_directory(state_directory()) / AUDIT_FILE
    _open_lines(file).append(line)


@cache
def _open_lines(file: Path) -> LineFile:
    """Return the file of lines, which remembers whether its last line is whole."""
    return LineFile(file)
