"""DATA: everything that can be configured.

Configuration files, environment variables and flags all fill these structs.

A setting is one field: its type with its bounds (`msgspec.Meta`), its default, its docstring, and what
`Setting` declares. The key is the dotted path (`policy.timeout`), the environment variable is derived from it
(`TOOLGLOT_POLICY_TIMEOUT`).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolglot.engine.transport import Timeouts
from toolglot.loop.context_window import ContextPolicy
from toolglot.loop.limits import RunLimits
from toolglot.mcp.client.servers import McpOAuth, McpServer
from toolglot.tools.config import Rate, RetryConfig, ToolConfig, ToolErrorHandling
from toolglot.values.approvals import ApprovalMode, Effect
from toolglot.values.request import Effort

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
TrustRule = Literal["free", "lower", "subset", "superset", "enable", "reset", "trusted"]
"""How a project's file may change a setting before its directory is trusted.

free: anything · lower: decrease a limit · subset: remove names from a list · superset: add names to a list ·
enable: switch it on · reset: return to the default, which is the strictest value · trusted: nothing. What is
said to the model, and who receives the user's data, needs trust.
"""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Declared on a field with `Annotated`.

    A field inherits `trust` from its section; the default is `trusted`.
    """

    trust: TrustRule | None = None
    flag_name: str = ""
    """How messages about wrong values name the command-line flag, if not by the last part of the key. This
    creates no flag."""
    is_path: bool = False
    """A file: in a configuration file it is relative to that file."""
    is_secret: bool = False
    """Its values are never shown."""
    allows_empty: bool = False
    """The empty string is a valid value."""
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
    """Names or patterns of tools that are never offered, and rules for calls that are refused: `shell(git
    push *)`."""


class PolicySettings(ToolFilter, frozen=True, kw_only=True):
    """How the calls of a model run: which may, when you are asked, and limits for each."""

    ask: Annotated[tuple[Effect, ...] | None, _SUPERSET] = None
    """Effects that need approval: read, write, execute, network; a tool's own declaration takes precedence.
    Unset: in a conversation, built-in and MCP tools need approval for everything but reading; other tools, if
    they declare it."""
    mode: Annotated[ApprovalMode, Setting(trust="reset", flag_name="--approval-mode")] = "ask"
    """ask: built-in and MCP tools ask before everything but reading. sandboxed: commands that the sandbox
    confines, without network, and edits of unprotected files in the workspace run without asking; the rest
    asks. `ask` takes precedence if it is set."""
    approve: tuple[str, ...] = ()
    """Rules for calls that run without approval: `shell(pytest *)`, `write(src/**)`,
    `web_open(docs.python.org)`, or a tool's name."""
    timeout: Annotated[_Positive | NoLimit, _LOWER] = _DEFAULT_CONFIG.timeout or "none"
    """Maximum seconds per tool call."""
    max_parallel: Annotated[_Count, _LOWER] = _DEFAULT_CONFIG.max_parallel
    """Maximum tool calls running at the same time."""
    max_uses: Annotated[dict[str, Annotated[int, Meta(ge=0)]], _LOWER] = {}
    """Maximum calls per tool in a conversation."""
    rates: Annotated[dict[str, Rate], _LOWER] = {}
    """Maximum calls per tool per minute, or per other `seconds`, in a conversation: `{ calls = 10, seconds =
    60 }`."""
    max_result: Annotated[int, Meta(ge=100), _LOWER] = _DEFAULT_CONFIG.max_result
    """Maximum characters per result that the model sees; it can fetch the rest with a handle."""
    max_repeats: Annotated[int, Meta(ge=0), Setting(trust="lower", zero_is_unlimited=True)] = (
        _DEFAULT_CONFIG.max_repeats
    )
    """Remind the model when the same call has returned the same result this many times; after twice as many,
    refuse the call, and then end the run. 0: never."""
    on_error: ToolErrorHandling = _DEFAULT_CONFIG.on_error
    """When a call fails: continue (tell the model), retry, or abort."""
    keep_env: tuple[str, ...] = ()
    """Environment variables with keys that tools may see; all other keys are removed from the environment."""


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Generation options; unset: the provider's default."""

    max_tokens: _Count | None = None
    """Maximum tokens per reply."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Nucleus sampling: the probability mass to sample from."""
    effort: Effort | None = None
    """How much to think: none, minimal, low, medium, high, xhigh, max."""
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    """Maximum tokens for thinking; -1: the model decides (Gemini)."""
    extras: Annotated[dict[str, dict[str, Any]], Setting(trust="trusted")] = {}
    """A provider's own parameters, by wire or family of wires: `extras.openai = { service_tier = "flex"
    }`."""


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for one provider only."""

    base_url: str | None = None
    """A different base URL, for a proxy or your own server."""
    key_env: str | None = None
    """The environment variable that contains the key, if not the provider's usual one."""
    headers: Annotated[dict[str, str], Setting(is_secret=True, allows_empty=True)] = {}
    """Headers to send with every request."""
    url_parameters: dict[str, str] = {}
    """Values for the placeholders in the provider's URL: resource, version, project, location."""
    parallel: Annotated[bool | None, _FREE] = None
    """false: the model makes one tool call at a time."""
    strict: Annotated[bool, Setting(trust="enable")] = False
    """Raise an error if a request would lose something."""
    text_calls: bool | None = None
    """Whether to parse tool calls that the server leaves in the reply's text; unset: only for local and
    compatible servers."""
    tools: ToolFilter = ToolFilter()
    generation: Annotated[GenerationSettings, _FREE] = GenerationSettings()


class BuiltinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The built-in tools: files, search, commands, the web."""

    enabled: bool | None = None
    """Whether to offer the built-in tools; unset: with every model except the simulator."""
    root: str | None = None
    """The directory that the tools work in; unset: the current directory."""
    read: tuple[str, ...] = ()
    """Additional directories that may be read."""
    write: tuple[str, ...] = ()
    """Additional directories that may be read and written."""
    unprotected: tuple[str, ...] = ()
    """Protected names that may be changed anyway, such as .vscode or .git. Other programs run code from these
    files."""
    visible: tuple[str, ...] = ()
    """Paths in the home directory that commands may read in addition to toolchains, such as
    ~/.m2/settings.xml."""
    require_read: bool = True
    """A file must be read before it is changed, unless the model's own agent does not require this."""
    shared_memory: bool = False
    """Whether all projects share the notes of the `memory` tool; by default, each directory has its own
    notes."""
    network: bool = False
    """Whether commands may use the network."""
    sandbox: Annotated[bool, Setting(flag_name="--no-sandbox")] = True
    """false: commands run without a sandbox, with your full permissions."""
    browser: str | None = None
    """The Chrome or Chromium executable; unset: detected automatically; "none": pages are fetched without a
    browser."""
    allow_private: tuple[str, ...] = ()
    """Non-public hosts and networks that may be opened, such as localhost:8000."""
    searxng_url: str | None = None
    """The URL of a SearXNG server for web searches."""
    brave_key_env: str = "BRAVE_API_KEY"
    """The environment variable that contains a Brave Search key."""
    tavily_key_env: str = "TAVILY_API_KEY"
    """The environment variable that contains a Tavily key."""


class InstructionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Files with instructions for models: AGENTS.md and Agent Skills.

    A project's files are used once it is trusted.
    """

    enabled: Annotated[bool, Setting(flag_name="--no-instructions")] = True
    """false: neither your own nor the project's instructions and skills are used."""
    files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    """Names of instruction files, from the workspace up to the root of its repository; the first in each
    directory is used."""
    max_chars: Annotated[int, Meta(ge=100)] = 40_000
    """Maximum characters per file."""
    skills: bool = True
    """false: no skills are listed or loaded."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Logging."""

    level: Annotated[LogLevel, Setting(flag_name="--verbose")] = "warning"
    """debug, info, warning or error."""
    file: Annotated[str | None, Setting(flag_name="--log-file", is_path=True)] = None
    """A file to which JSON lines are appended; unset: stderr."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The display of `toolglot chat`."""

    thinking: Literal["folded", "shown", "hidden"] = "folded"
    """The model's thinking: folded, shown or hidden."""
    result_lines: Annotated[int, Meta(ge=0)] = 3
    """Number of lines of a tool's result to show."""


_SECRETS = Setting(is_secret=True, allows_empty=True)


class ServerSettings(McpServer, frozen=True, kw_only=True):
    """An MCP server, or settings for a server that another file defines."""

    env: Annotated[dict[str, str], _SECRETS] = {}  # noqa: RUF012 - msgspec copies it
    """Variables for the program, in addition to a few harmless ones such as PATH; `${NAME}` inserts one of
    your variables."""
    headers: Annotated[dict[str, str], _SECRETS] = {}  # noqa: RUF012 - msgspec copies it
    """Headers to send with every request, such as Authorization; `${NAME}` inserts one of your variables."""
    oauth: McpOAuth = McpOAuth()

    def __post_init__(self) -> None:
        """Accept incomplete servers: other files may complete them, and one bad server must not prevent the
        others.
        """


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """MCP servers whose tools models can use."""

    enabled: Annotated[bool, Setting(flag_name="--no-mcp")] = True
    """false: start no servers except those from `--mcp-config`."""
    project_files: bool = True
    """Whether to start the servers in a trusted project's `.mcp.json`, `.vscode/mcp.json` and
    `.cursor/mcp.json`."""
    servers: dict[str, ServerSettings] = {}
    """The servers by name."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    model: str | None = None
    """PROVIDER:MODEL, or an alias. Unset: the simulator; on the command line, the first provider with a
    key."""
    aliases: dict[str, str] = {}
    """Short names for models."""
    fallbacks: tuple[str, ...] = ()
    """Models to switch to if the chosen one is overloaded or fails."""
    system: Annotated[str | None, Setting(allows_empty=True)] = None
    """Instructions for the model."""
    tools: tuple[str, ...] = ()
    """Tools to load: a file, a module, module:object, or the name of a plug-in. Files are relative to the
    configuration file; modules that are not installed are looked up next to it."""
    facade: str = "auto"
    """How models see the built-in tools: auto (as in the model's own coding agent), the id of a facade,
    PROGRAM@VERSION (codex@0.77), a plug-in, or module:object."""
    defer: Annotated[tuple[str, ...], _FREE] = ("auto",)
    """Tools that are hidden until the model searches for them: auto (all except the built-in ones, if there
    are too many), all, none, or names, patterns (`crm_*`) and tags."""
    code_mode: Annotated[Literal["auto", "on", "off", "javascript", "python"], _FREE] = "auto"
    """Whether models write code that calls the tools: auto (like their own coding agent), on, off, javascript
    or python."""
    transport: str | None = None
    """The name of a plug-in that sends requests to providers; unset: HTTP."""
    audit: Annotated[bool | str, Setting(is_path=True)] = True
    """Log every tool call: true (in the user's state directory), false, or a file."""
    policy: PolicySettings = PolicySettings()
    limits: Annotated[RunLimits, _LOWER] = RunLimits()
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
