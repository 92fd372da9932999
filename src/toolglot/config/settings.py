"""DATA: everything that can be configured, with its default and its law. Files, environment and flags all fill this shape.

A key is dotted: `policy.max_turns`. Its law says what a project's file may do to it before its folder is trusted:
free: anything · tighter: only what allows less than before · trusted: nothing. What is not named in LAWS is `trusted`.
"""

from typing import Literal

import msgspec

from toolglot.engine.transport import Timeouts
from toolglot.loop.context_window import ContextPolicy
from toolglot.request import Effort
from toolglot.tools.config import Effect, RetryConfig, ToolConfig, ToolErrorHandling

__all__ = [
    "TRUST_RULES",
    "BuiltinSettings",
    "ChatSettings",
    "GenerationSettings",
    "LogSettings",
    "PolicySettings",
    "ProviderSettings",
    "Settings",
    "ToolFilter",
    "TrustRule",
]

NoLimit = Literal["none"]
LogLevel = Literal["debug", "info", "warning", "error"]
TrustRule = Literal["free", "tighter", "trusted"]
_DEFAULT_CONFIG = ToolConfig()


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ToolFilter(_Section, frozen=True, kw_only=True):
    """Names or patterns (`git_*`) of tools."""

    allow: tuple[str, ...] | None = None
    """Only these are offered; unset: all."""
    deny: tuple[str, ...] = ()
    """These never are."""


class PolicySettings(_Section, frozen=True, kw_only=True):
    """What a run may do with its tools."""

    allow: tuple[str, ...] | None = None
    """Names or patterns of the tools that are offered; unset: all."""
    deny: tuple[str, ...] = ()
    """Names or patterns of tools that never are."""
    ask: tuple[Effect, ...] | None = None
    """Effects that need an approval: read, write, execute, network; a tool's own word goes first. Unset: in a conversation the
    built-in tools ask before they write, run commands or use the network, other tools where they say so."""
    max_turns: int = _DEFAULT_CONFIG.max_iterations
    """Requests with tools for one prompt."""
    timeout: float | NoLimit = _DEFAULT_CONFIG.timeout or "none"
    """Seconds for one call of a tool."""
    run_timeout: float | NoLimit = "none"
    """Seconds for the whole answer to one prompt."""
    max_parallel: int = _DEFAULT_CONFIG.max_parallel
    """Calls that run at the same time."""
    max_uses: dict[str, int] = {}
    """Calls of one tool in a conversation."""
    max_result: int = _DEFAULT_CONFIG.max_result
    """Characters of one result that the model sees; the rest is behind a handle."""
    max_tokens: int | NoLimit = "none"
    """Tokens for one prompt, in and out."""
    max_cost: float | NoLimit = "none"
    """US dollars for one prompt, where the model's price is known."""
    repeats: int = _DEFAULT_CONFIG.max_repeats
    """The same call with the same result, so often, ends a loop; 0: never."""
    on_error: ToolErrorHandling = _DEFAULT_CONFIG.on_error
    """A failed call: continue (tell the model), retry, or abort."""
    keep_env: tuple[str, ...] = ()
    """Variables with keys that tools may see; all others are taken out of the environment."""


class GenerationSettings(_Section, frozen=True, kw_only=True):
    """How to generate; unset: the provider's default."""

    max_tokens: int | None = None
    """Tokens of one answer."""
    temperature: float | None = None
    top_p: float | None = None
    effort: Effort | None = None
    """How much to think: none, minimal, low, medium, high, xhigh, max."""
    thinking_budget: int | None = None
    """Tokens for thinking; -1: the model decides (Gemini)."""


class ProviderSettings(_Section, frozen=True, kw_only=True):
    """What counts for one provider only."""

    base_url: str | None = None
    """Another address: a proxy, a server of your own."""
    key_env: str | None = None
    """The variable that holds the key, where it is not the provider's own."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    places: dict[str, str] = {}
    """What stands in braces in the provider's address: resource, version, project, location."""
    parallel: bool | None = None
    """false: one call at a time."""
    strict: bool = False
    """A request that would lose something is an error."""
    tools: ToolFilter = ToolFilter()
    generation: GenerationSettings = GenerationSettings()


class BuiltinSettings(_Section, frozen=True, kw_only=True):
    """The built-in tools: files, search, commands, the web."""

    enabled: bool | None = None
    """true or false; unset: with every model but the simulator."""
    root: str | None = None
    """The folder that they work in; unset: the current one."""
    read: tuple[str, ...] = ()
    """Other folders that may be read."""
    write: tuple[str, ...] = ()
    """Other folders that may be read and written to."""
    unprotected: tuple[str, ...] = ()
    """Names that may be changed although programs obey them, such as .vscode or .git."""
    require_read: bool = True
    """A file has to be read before it is overwritten."""
    network: bool = False
    """Whether commands may use the network."""
    browser: str | None = None
    """Chrome or Chromium; unset: found by itself, "none": pages are opened without one."""
    allow_private: tuple[str, ...] = ()
    """Hosts and networks that may be opened although they are not public, such as localhost:8000."""
    searxng_url: str | None = None
    """A SearXNG that searches the web."""
    brave_key_env: str = "BRAVE_API_KEY"
    """The variable with a key of Brave's search."""
    tavily_key_env: str = "TAVILY_API_KEY"
    """The variable with a key of Tavily's search."""


class LogSettings(_Section, frozen=True, kw_only=True):
    """What is written down beside the answer."""

    level: LogLevel = "warning"
    """debug, info, warning or error."""
    file: str | None = None
    """JSON lines; unset: stderr."""


class ChatSettings(_Section, frozen=True, kw_only=True):
    """How `toolglot chat` looks."""

    thinking: Literal["folded", "shown", "hidden"] = "folded"
    """What is seen of a model's thinking: folded, shown or hidden."""
    result_lines: int = 3
    """Lines of a tool's result that are shown."""


class Settings(_Section, frozen=True, kw_only=True):
    """The whole configuration."""

    model: str | None = None
    """PROVIDER:MODEL, or an alias; unset: the simulator answers."""
    aliases: dict[str, str] = {}
    """Short names of models."""
    fallbacks: tuple[str, ...] = ()
    """Models to go on with where the chosen one is busy or fails."""
    system: str | None = None
    """Instructions to the model."""
    tools: tuple[str, ...] = ()
    """Tools to load, as module:object."""
    facade: str = "auto"
    """How models see the built-in tools: auto (as their own harness shows them), the id of a facade, a TOML file,
    or module:object."""
    audit: bool | str = True
    """A line for every call of a tool: true (in the user's state folder), false, or a file."""
    policy: PolicySettings = PolicySettings()
    generation: GenerationSettings = GenerationSettings()
    timeouts: Timeouts = Timeouts()
    retry: RetryConfig = RetryConfig()
    context: ContextPolicy = ContextPolicy()
    providers: dict[str, ProviderSettings] = {}
    builtin: BuiltinSettings = BuiltinSettings()
    chat: ChatSettings = ChatSettings()
    log: LogSettings = LogSettings()


TRUST_RULES: dict[str, TrustRule] = {
    "model": "free",
    "aliases": "free",
    "fallbacks": "free",
    "system": "free",
    "chat.thinking": "free",
    "chat.result_lines": "free",
    "generation": "free",
    "context": "free",
    "policy.allow": "tighter",
    "policy.deny": "tighter",
    "policy.ask": "tighter",
    "policy.max_turns": "tighter",
    "policy.timeout": "tighter",
    "policy.run_timeout": "tighter",
    "policy.max_parallel": "tighter",
    "policy.max_uses": "tighter",
    "policy.max_result": "tighter",
    "policy.max_tokens": "tighter",
    "policy.max_cost": "tighter",
    "policy.repeats": "tighter",
    "providers.*.parallel": "free",
    "providers.*.strict": "tighter",
    "providers.*.tools.allow": "tighter",
    "providers.*.tools.deny": "tighter",
    "providers.*.generation": "free",
}
