"""DATA: everything that can be configured. Configuration files, environment variables and flags all fill these structs.

A setting is one field: its type with its bounds (`msgspec.Meta`), its default, its docstring, and what `Setting` declares. The
key is the dotted path (`policy.timeout`), the environment variable is derived from it (`TOOLGLOT_POLICY_TIMEOUT`).
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolglot.approvals import Effect
from toolglot.engine.transport import Timeouts
from toolglot.loop.context_window import ContextPolicy
from toolglot.mcp.servers import McpOAuth, McpServer
from toolglot.request import Effort
from toolglot.tools.config import RetryConfig, ToolConfig, ToolErrorHandling

__all__ = [
    "BuiltinSettings",
    "ChatSettings",
    "GenerationSettings",
    "InstructionSettings",
    "LogSettings",
    "McpSettings",
    "PolicySettings",
    "ProviderSettings",
    "ServerSettings",
    "Setting",
    "Settings",
    "ToolFilter",
    "TrustRule",
]

NoLimit = Literal["none"]
LogLevel = Literal["debug", "info", "warning", "error"]
TrustRule = Literal["free", "add", "lower", "subset", "superset", "enable", "trusted"]
"""What a project's file may do to a setting before its directory is trusted.

free: anything · add: set what is not set yet · lower: decrease a limit · subset: remove names from a list · superset: add names
to a list · enable: switch it on · trusted: nothing.
"""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Declared on a field with `Annotated`. A field inherits `trust` from its section; the default is `trusted`."""

    trust: TrustRule | None = None
    flag: str = ""
    """The command-line flag, if it is not the last part of the key."""
    is_path: bool = False
    """A file: in a configuration file it is relative to that file."""
    is_secret: bool = False
    """Its values are never shown."""
    allows_empty: bool = False
    """The empty string is a value."""
    zero_is_unlimited: bool = False
    """For `lower`: 0 allows more than any other number."""


_FREE = Setting(trust="free")
_LOWER = Setting(trust="lower")
_SUPERSET = Setting(trust="superset")
_DEFAULT_CONFIG = ToolConfig()
_Positive = Annotated[float, Meta(gt=0)]
_Count = Annotated[int, Meta(ge=1)]


class ToolFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools a model is offered."""

    allow: Annotated[tuple[str, ...] | None, Setting(trust="subset")] = None
    """Names or patterns (`git_*`) of the tools to offer; unset: all."""
    deny: Annotated[tuple[str, ...], _SUPERSET] = ()
    """Names or patterns of tools that are never offered, and rules for calls that are refused: `shell(git push *)`."""


class PolicySettings(ToolFilter, frozen=True, kw_only=True):
    """What a run may do with its tools."""

    ask: Annotated[tuple[Effect, ...] | None, _SUPERSET] = None
    """Effects that need approval: read, write, execute, network; a tool's own declaration takes precedence. Unset: in a
    conversation, built-in tools and those of MCP servers ask before they do more than read; other tools if they say so."""
    approve: tuple[str, ...] = ()
    """Rules for calls that run without approval: `shell(pytest *)`, `write(src/**)`, `web_open(docs.python.org)`, or the name
    of a tool."""
    max_iterations: Annotated[_Count, _LOWER] = _DEFAULT_CONFIG.max_iterations
    """Maximum requests with tools for one prompt."""
    timeout: Annotated[_Positive | NoLimit, _LOWER] = _DEFAULT_CONFIG.timeout or "none"
    """Seconds for one tool call."""
    run_timeout: Annotated[_Positive | NoLimit, _LOWER] = "none"
    """Seconds for the whole answer to one prompt."""
    max_parallel: Annotated[_Count, _LOWER] = _DEFAULT_CONFIG.max_parallel
    """Maximum tool calls that run at the same time."""
    max_uses: Annotated[dict[str, Annotated[int, Meta(ge=0)]], _LOWER] = {}
    """Maximum calls of one tool in a conversation."""
    max_per_minute: Annotated[dict[str, Annotated[int, Meta(ge=0)]], _LOWER] = {}
    """Maximum calls of one tool within a minute of a conversation."""
    max_requests_per_minute: Annotated[dict[str, _Count], _LOWER] = {}
    """Maximum requests to a provider, or to a model (`PROVIDER:MODEL`, a pattern), within a minute; others wait."""
    max_tokens_per_minute: Annotated[dict[str, _Count], _LOWER] = {}
    """Maximum tokens that a provider or a model receives and sends within a minute; further requests wait."""
    max_result: Annotated[int, Meta(ge=100), _LOWER] = _DEFAULT_CONFIG.max_result
    """Maximum characters of one result that the model sees; it can fetch the rest with a handle."""
    max_tokens: Annotated[_Count | NoLimit, _LOWER] = "none"
    """Maximum tokens for one prompt, input and output."""
    max_cost: Annotated[_Positive | NoLimit, _LOWER] = "none"
    """Maximum US dollars for one prompt, if the model's price is known."""
    max_repeats: Annotated[int, Meta(ge=0), Setting(trust="lower", zero_is_unlimited=True)] = _DEFAULT_CONFIG.max_repeats
    """When the same call returned the same result this many times, remind the model; after twice as many, refuse it, and
    then end the run; 0: never."""
    on_error: ToolErrorHandling = _DEFAULT_CONFIG.on_error
    """When a call fails: continue (tell the model), retry, or abort."""
    keep_env: tuple[str, ...] = ()
    """Variables with keys that tools may see; all others are removed from the environment."""


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to generate; unset: the provider's default."""

    max_tokens: _Count | None = None
    """Maximum tokens of one reply."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Nucleus sampling: the probability mass to sample from."""
    effort: Effort | None = None
    """How much to think: none, minimal, low, medium, high, xhigh, max."""
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    """Maximum tokens for thinking; -1: the model decides (Gemini)."""


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to one provider only."""

    base_url: str | None = None
    """Another address: a proxy, or a server of your own."""
    key_env: str | None = None
    """The variable that holds the key, if it is not the provider's usual one."""
    headers: Annotated[dict[str, str], Setting(is_secret=True, allows_empty=True)] = {}
    """Headers to send with every request."""
    url_parameters: dict[str, str] = {}
    """Values for the placeholders in the provider's URL: resource, version, project, location."""
    parallel: Annotated[bool | None, _FREE] = None
    """false: one tool call at a time."""
    strict: Annotated[bool, Setting(trust="enable")] = False
    """Raise an error if a request would lose something."""
    text_calls: bool | None = None
    """Whether to read tool calls that the server leaves in the text of a reply; unset: with local and compatible servers."""
    tools: ToolFilter = ToolFilter()
    generation: Annotated[GenerationSettings, _FREE] = GenerationSettings()


class BuiltinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The built-in tools: files, search, commands, the web."""

    enabled: bool | None = None
    """true or false; unset: with every model except the simulator."""
    root: str | None = None
    """The directory they work in; unset: the current one."""
    read: tuple[str, ...] = ()
    """Other directories that may be read."""
    write: tuple[str, ...] = ()
    """Other directories that may be read and written."""
    unprotected: tuple[str, ...] = ()
    """Protected names that may be changed anyway, such as .vscode or .git: other programs run what these contain."""
    visible: tuple[str, ...] = ()
    """Paths in the home directory that commands may read, besides toolchains, such as ~/.m2/settings.xml."""
    require_read: bool = True
    """A file must be read before it is changed, unless the model's own agent does not ask for that."""
    shared_memory: bool = False
    """Whether all projects share the notes of the tool `memory`; by default, each directory has its own."""
    network: bool = False
    """Whether commands may use the network."""
    sandbox: Annotated[bool, Setting(flag="--no-sandbox")] = True
    """false: commands run without a sandbox, with all your rights."""
    browser: str | None = None
    """The Chrome or Chromium program; unset: detected, "none": pages are fetched without a browser."""
    allow_private: tuple[str, ...] = ()
    """Hosts and networks that may be opened although they are not public, such as localhost:8000."""
    searxng_url: str | None = None
    """A SearXNG server to search the web with."""
    brave_key_env: str = "BRAVE_API_KEY"
    """The variable with a Brave Search key."""
    tavily_key_env: str = "TAVILY_API_KEY"
    """The variable with a Tavily key."""


class InstructionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for models in files: AGENTS.md and Agent Skills. A project's are used once it is trusted."""

    enabled: Annotated[bool, Setting(flag="--no-instructions")] = True
    """false: neither your own nor the project's instructions and skills are used."""
    files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    """Names of instruction files, from the workspace up to the root of its repository; the first in each directory is used."""
    max_chars: Annotated[int, Meta(ge=100)] = 40_000
    """Maximum characters per file."""
    skills: bool = True
    """false: no skills are listed or loaded."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is logged."""

    level: Annotated[LogLevel, Setting(flag="--verbose")] = "warning"
    """debug, info, warning or error."""
    file: Annotated[str | None, Setting(flag="--log-file", is_path=True)] = None
    """A file for JSON lines; unset: stderr."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `toolglot chat` shows."""

    thinking: Literal["folded", "shown", "hidden"] = "folded"
    """The model's thinking: folded, shown or hidden."""
    result_lines: Annotated[int, Meta(ge=0)] = 3
    """Lines of a tool's result to show."""


_SECRETS = Setting(is_secret=True, allows_empty=True)


class ServerSettings(McpServer, frozen=True, kw_only=True):
    """An MCP server, or some settings of one that another file names."""

    env: Annotated[dict[str, str], _SECRETS] = {}  # noqa: RUF012 - msgspec copies it
    """Variables for the program, besides a few harmless ones such as PATH; `${NAME}` stands for a variable of yours."""
    headers: Annotated[dict[str, str], _SECRETS] = {}  # noqa: RUF012 - msgspec copies it
    """Headers to send with every request, such as Authorization; `${NAME}` stands for a variable of yours."""
    oauth: McpOAuth = McpOAuth()

    def __post_init__(self) -> None:
        """Accept what is incomplete: other files may add to it, and one bad server must not take the others down."""


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """MCP servers whose tools models can use."""

    enabled: Annotated[bool, Setting(flag="--no-mcp")] = True
    """false: no servers are started, except those of `--mcp-config`."""
    project_files: bool = True
    """Whether servers in `.mcp.json`, `.vscode/mcp.json` and `.cursor/mcp.json` of a trusted project are started."""
    servers: dict[str, ServerSettings] = {}
    """The servers by their names."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    model: Annotated[str | None, _FREE] = None
    """PROVIDER:MODEL, or an alias. Unset: the simulator; on the command line, the first provider with a key."""
    aliases: Annotated[dict[str, str], Setting(trust="add")] = {}
    """Short names for models. A project that is not trusted cannot change yours."""
    fallbacks: Annotated[tuple[str, ...], _FREE] = ()
    """Models to switch to if the chosen one is overloaded or fails."""
    system: Annotated[str | None, Setting(trust="free", allows_empty=True)] = None
    """Instructions for the model."""
    tools: tuple[str, ...] = ()
    """Tools to load: a file, a module, module:object, or the name of a plug-in. Files are relative to the configuration file;
    modules are found beside it if they are not installed."""
    facade: Annotated[str, Setting(is_path=True)] = "auto"
    """How models see the built-in tools: auto (as their own coding agent shows them), the id of a facade,
    PROGRAM@VERSION (codex@0.77), a plug-in, a TOML file, or module:object."""
    defer: Annotated[tuple[str, ...], _FREE] = ("auto",)
    """Tools that a model is shown only when it finds them: auto (all but the built-in ones, if there are too many), all, none,
    or names, patterns (`crm_*`) and tags."""
    code_mode: Annotated[Literal["auto", "on", "off", "javascript", "python"], _FREE] = "auto"
    """Whether models write code that calls the tools: auto (as their own coding agent does), on, off, javascript or python."""
    transport: str | None = None
    """The name of a plug-in that carries requests to providers; unset: HTTP."""
    audit: Annotated[bool | str, Setting(is_path=True)] = True
    """Log every tool call: true (in the user's state directory), false, or a file."""
    policy: PolicySettings = PolicySettings()
    generation: Annotated[GenerationSettings, _FREE] = GenerationSettings()
    timeouts: Timeouts = Timeouts()
    retry: RetryConfig = RetryConfig()
    context: Annotated[ContextPolicy, _FREE] = ContextPolicy()
    providers: dict[str, ProviderSettings] = {}
    builtin: BuiltinSettings = BuiltinSettings()
    instructions: InstructionSettings = InstructionSettings()
    mcp: McpSettings = McpSettings()
    chat: Annotated[ChatSettings, _FREE] = ChatSettings()
    log: LogSettings = LogSettings()
