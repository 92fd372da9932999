"""Shared startup of `run`, `chat` and others: configuration, logging, secrets, tools and the model.

Keys are removed from the environment before any tool's code is loaded. Settings of an untrusted project file
that are ignored are reported once.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from toolglot.cli.config import hide_secrets
from toolglot.cli.generation import change_options, read_output_schema
from toolglot.cli.local_models import ask_context_size, fit_tools
from toolglot.cli.logging_setup import configure_logging, effective_level
from toolglot.cli.printer import Printer, print_note
from toolglot.cli.servers import CliServers, UseServers
from toolglot.cli.styled import CONTINUATION, Line
from toolglot.common.jsontext import dumps_text
from toolglot.common.known_keys import remember_key
from toolglot.common.sanitize import escape_line
from toolglot.common.user_dirs import config_file, data_directory
from toolglot.config.instructions import Instructions, load_instructions
from toolglot.config.layers import PROJECT_FILE, Configuration, describe_withheld, read_configuration
from toolglot.config.loading import load_tools
from toolglot.config.mcp_servers import ServerCatalog, find_servers
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup, find_unmatched, find_unmatched_rules, load_configured_tools
from toolglot.config.trust import has_decision, refuse_trust, trust_directory
from toolglot.confine.confined_open import NOT_SUPPORTED
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.context_size import set_context_size
from toolglot.engine.engine import Engine
from toolglot.engine.signin.environment import hide_environment, secret_values
from toolglot.engine.signin.keyring_store import keyring_account
from toolglot.errors import InvalidTool, ToolglotError, UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS
from toolglot.loop.agent.agent import Agent
from toolglot.mcp.client.servers import McpServer
from toolglot.mcp.names import PREFIX as MCP_PREFIX
from toolglot.providers.catalog import DEFAULT_MODELS, resolve_profile
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest, Approve, Decision, Deny
from toolglot.values.definitions import MCP_TAG
from toolglot.values.request import Options, Schema

if TYPE_CHECKING:
    from toolglot.builtin.tool_state import AskUser
    from toolglot.builtin.tools import Builtins

_SIGN_IN_HINTS = {
    "entra": "sign in with az login (pip install 'toolglot[azure]')",
    "adc": "sign in with gcloud auth application-default login (pip install 'toolglot[vertex]')",
    "copilot": "sign in with toolglot login copilot",
}
_MAX_WARNINGS = 10


class _Sets(msgspec.Struct, frozen=True):
    """The setting that a flag sets, to the flag's value; `inverted`: to the opposite."""

    key: str
    inverted: bool = False


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command line, named like their options; None, False and () mean that a flag was not
    given.
    """

    model: Annotated[str | None, _Sets("model")] = None
    tools: tuple[str, ...] = ()
    system: Annotated[str | None, _Sets("system")] = None
    allow: Annotated[tuple[str, ...], _Sets("policy.allow")] = ()
    deny: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    approval_mode: Annotated[str | None, _Sets("policy.mode")] = None
    max_iterations: Annotated[int | None, _Sets("limits.max_iterations")] = None
    base_url: str | None = None
    verbose: int = 0
    log_file: Annotated[Path | None, _Sets("log.file")] = None
    root: Annotated[Path | None, _Sets("builtin.root")] = None
    builtin: Annotated[bool | None, _Sets("builtin.enabled")] = None
    facade: Annotated[str | None, _Sets("facade")] = None
    defer: Annotated[tuple[str, ...], _Sets("defer")] = ()
    code_mode: Annotated[str | None, _Sets("code_mode")] = None
    no_sandbox: Annotated[bool, _Sets("builtin.sandbox", inverted=True)] = False
    no_instructions: Annotated[bool, _Sets("instructions.enabled", inverted=True)] = False
    mcp_config: tuple[Path, ...] = ()
    no_mcp: Annotated[bool, _Sets("mcp.enabled", inverted=True)] = False
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str | None = None
    option: tuple[str, ...] = ()
    output_schema: Path | None = None

    def to_settings(self) -> dict[str, Any]:
        """Return the flags that were given, as dotted setting keys."""
        settings: dict[str, Any] = {}
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            for item in getattr(field.type, "__metadata__", ()):
                if isinstance(item, _Sets):
                    settings[item.key] = not value if item.inverted else value
        if settings.get("model") == "":  # `--model ""` chooses none
            del settings["model"]
        return settings

    def adjust_options(self, options: Options) -> Options:
        """Return options with the flags for how a model generates, which override the settings of every
        provider.
        """
        return change_options(options, self.max_tokens, self.temperature, self.effort, self.option)


class CliSetup(msgspec.Struct):
    """Everything a command needs to run tools and models; a context manager that stops tools and MCP servers
    on exit.
    """

    configuration: Configuration
    setup: Setup
    tools: list[Any]
    model: str
    model_reason: str = ""
    """Why this model was chosen, if the user did not name one."""
    model_note: str = ""
    """What the user should know of a model on this machine."""
    context_size: int | None = None
    """The tokens of its context, if its server says so."""
    base_url: str | None = None
    builtins: "Builtins | None" = None
    has_demo_tools: bool = False
    instructions: Instructions = Instructions()
    output_schema: Schema | None = None
    servers: CliServers | None = None
    """The MCP servers; their tools are in `tools` only if the command has waited for them."""

    def create_agent(self, *, approve: Approve | None, **options: Any) -> Agent:
        """Create the agent of a conversation. Raises UsageError if there is no key for its model."""
        overrides: dict[str, Any] = {"base_url": self.base_url} if self.base_url else {}
        system = self.instructions.compose(self.setup.settings.system)
        options |= {
            "tools": self.tools,
            "approve": approve,
            "system": system,
            "output_type": self.output_schema,
        }
        agent = self.setup.create_agent(self.model, **overrides, **options)
        require_key(agent.view().engine)
        if self.context_size is not None:
            set_context_size(agent.view().engine, self.context_size)
        if self.servers is not None and self.servers.client is not None:
            self.servers.client.watch(agent)
        return agent

    def print_notices(self) -> None:
        """Print warnings before commands run, such as about a weak sandbox."""
        notices = [self.model_note] if self.model_note else list[str]()
        if self.builtins is not None:
            notices += self.builtins.notices
        notices += self.instructions.problems
        if self.servers is not None:
            notices += self.servers.list_notices()
        for notice in notices:
            print_note(notice)

    def __enter__(self) -> "CliSetup":
        return self

    def __exit__(self, *_: object) -> None:
        if self.servers is not None:
            self.servers.close()
        if self.builtins is not None:
            self.builtins.close()


class _Project(msgspec.Struct, frozen=True):
    """What the files of the user and of the project say."""

    configuration: Configuration
    instructions: Instructions
    catalog: ServerCatalog


def prepare(
    flags: Flags,
    *,
    confirm: Callable[[str], bool] | None = None,
    ask_user: "AskUser | None" = None,
    use_demo_tools: bool = False,
    want_builtin: bool = False,
    require_read: bool = True,
    saved_model: str = "",
    directory: Path | None = None,
    use_servers: UseServers = "no",
    extra_servers: Mapping[str, McpServer] | None = None,
) -> CliSetup:
    """Read the configuration, hide keys, and load tools. Raises UsageError.

    Args:
        flags: Override settings.
        confirm: Asks the user a yes/no question; None if there is nobody to ask.
        ask_user: Answers the questions of the `ask_user` tool.
        use_demo_tools: Offer demo tools on the simulator if there are no others.
        want_builtin: Load the built-in tools unless they are disabled, even for the simulator.
        require_read: Whether a file must be read before it is changed, if the configuration does not say
            otherwise.
        saved_model: The model of a saved conversation, to be used unless a flag names another one.
        directory: Where to look for a project's file and the modules of --tools. Default: the current
            directory.
        use_servers: Whether to use the configured MCP servers, and whether to wait until they are ready. A
            set: only these.
        extra_servers: MCP servers besides the configured ones.
    """
    project = _open_project(flags, directory, confirm)
    configuration, instructions = project.configuration, project.instructions
    settings = configuration.settings
    _prepare_process(flags, settings)
    root = Path(settings.builtin.root or directory or ".")
    servers = CliServers.open(
        use_servers, project.catalog, settings, root, extra_servers or {}, has_user=confirm is not None
    )

    tools = load_configured_tools(configuration)
    for name in flags.tools:
        tools += load_tools(name, directory or Path.cwd())
    setup = Setup(settings, code_directory=configuration.code_directories.get("facade"))
    setup.check_mode(settings.policy.mode)
    setup.adjust_options = flags.adjust_options
    flags.adjust_options(Options())  # a wrong flag is an error at once
    model, model_reason = _choose_model(setup, "" if flags.model else saved_model)
    is_simulated = model.startswith("simulator")
    context_size = ask_context_size(setup, model, flags.base_url)

    builtins = None
    model_note = ""
    if _uses_builtins(settings, is_wanted=want_builtin, is_simulated=is_simulated, has_tools=bool(tools)):
        from toolglot.builtin.configured import configured_builtins

        builtins = configured_builtins(
            settings, ask_user=ask_user, require_read=require_read, skills=instructions.skills
        )
        wants_all = settings.builtin.enabled is not None
        offered, model_note = fit_tools(builtins.tools, model, None if wants_all else context_size)
        tools = [*offered, *tools]
    elif flags.facade is not None:
        _note_useless_facade(flags.facade, setup)

    has_demo_tools = use_demo_tools and is_simulated and not tools and servers is None
    if has_demo_tools:
        from toolglot.cli.demo_samples import CHAT_SAMPLES

        tools = [*CHAT_SAMPLES]
    # no MCP server is still starting, so all tools are known
    is_complete = servers is None or use_servers != "start"
    if servers is not None and is_complete:
        servers.wait()
        tools += servers.tools
    _check_patterns(setup, flags, tools, builtins, is_complete=is_complete)
    if instructions.skills and not _offers_skills(setup, model, tools):
        instructions = instructions.unlist_skills()
    return CliSetup(
        configuration,
        setup,
        tools,
        model,
        model_reason=model_reason,
        model_note=model_note,
        context_size=context_size,
        base_url=flags.base_url,
        builtins=builtins,
        has_demo_tools=has_demo_tools,
        instructions=instructions,
        output_schema=None if flags.output_schema is None else read_output_schema(flags.output_schema),
        servers=servers,
    )


def _uses_builtins(settings: Settings, *, is_wanted: bool, is_simulated: bool, has_tools: bool) -> bool:
    """Whether to load the built-in tools.

    Raises UsageError if the command is pointless without them, and they cannot run.
    """
    if settings.builtin.enabled is not None:
        return settings.builtin.enabled
    if is_simulated and not is_wanted:
        return False
    if not NOT_SUPPORTED:
        return True
    if is_wanted and not has_tools:
        raise UsageError(NOT_SUPPORTED)
    print_note(NOT_SUPPORTED)
    return False


def _offers_skills(setup: Setup, model: str, tools: list[Any]) -> bool:
    """Whether the model can load skills."""
    names = {item.name for item in tools if isinstance(item, Tool)}
    allowed = setup.tool_config(model, names).allow
    return "load_skill" in (names if allowed is None else allowed)


def _note_useless_facade(name: str, setup: Setup) -> None:
    facade = setup.resolve_facade()  # an unknown one is an error all the same
    reason = "the simulator offers built-in tools only with --builtin"
    if setup.settings.builtin.enabled is False:
        reason = "the built-in tools are disabled"
    if isinstance(facade, str) or facade.base_tools <= BASE_TOOLS:
        print_note(f"--facade {name} has no effect: {reason}")


def _prepare_process(flags: Flags, settings: Settings) -> None:
    """Set up logging, and hide keys from the tools."""
    level = effective_level(flags.verbose or int(flags.log_file is not None), settings.log.level)
    configure_logging(level, Path(settings.log.file) if settings.log.file else None, secrets=secret_values)
    key_variables = {settings.builtin.brave_key_env, settings.builtin.tavily_key_env}
    for section in settings.providers.values():
        if section.key_env:
            key_variables.add(section.key_env)
        for value in section.headers.values():
            remember_key(value)  # so that it is redacted in logs
    hide_environment(settings.policy.keep_env, key_variables)


def _read_project(flags: Flags, directory: Path | None) -> _Project:
    configuration = read_configuration(directory=directory, flags=flags.to_settings())
    policy = configuration.settings.policy
    if flags.deny or flags.approve:  # they add to the configured lists instead of replacing them
        lists = {
            "policy.deny": (*policy.deny, *flags.deny),
            "policy.approve": (*policy.approve, *flags.approve),
        }
        configuration = read_configuration(directory=directory, flags={**flags.to_settings(), **lists})
    settings = configuration.settings
    instructions = load_instructions(Path(settings.builtin.root or directory or "."), settings.instructions)
    catalog = find_servers(configuration, files=flags.mcp_config, directory=directory)
    return _Project(configuration, instructions, catalog)


def _open_project(flags: Flags, directory: Path | None, confirm: Callable[[str], bool] | None) -> _Project:
    """Read the project's files; ask once whether to trust the project, or report what is ignored."""
    user_file = config_file()
    if os.environ.get("TOOLGLOT_CONFIG", "").strip() and not user_file.exists():
        print_note(f"TOOLGLOT_CONFIG is set to {str(user_file)!r}, which does not exist")
    project = _read_project(flags, directory)
    claims = _list_claims(project)
    if not claims:
        return project
    owners = dict.fromkeys(claim.owner for claim in claims)
    # trust covers what is below
    outermost = [owner for owner in owners if owners.keys().isdisjoint(owner.parents)]
    is_project_alone = outermost == [project.configuration.project]
    if confirm is None or all(map(has_decision, outermost)):
        names = ", ".join(claim.name for claim in claims)
        command = "toolglot trust"
        if not is_project_alone:
            command += f" {outermost[0]}"
        print_note(f"ignoring {escape_line(names)}: the directory is not trusted (run `{command}`)")
        return project
    _print_claims(claims)
    name = "this directory"
    if not is_project_alone:
        name = " and ".join(escape_line(str(owner)) for owner in outermost)
    if not confirm(f"Do you trust {name}?"):
        for owner in outermost:
            refuse_trust(owner)
        return project
    for owner in outermost:
        trust_directory(owner)
    return _read_project(flags, directory)


class _Claim(msgspec.Struct, frozen=True):
    """Something of a project that has no effect until its directory is trusted."""

    owner: Path
    """The directory."""
    name: str
    lines: list[str]
    """What it wants, for the user."""


def _list_claims(project: _Project) -> list[_Claim]:
    claims: list[_Claim] = []
    configuration = project.configuration
    directory, withheld = configuration.project, configuration.withheld
    if directory is not None and withheld:
        lines = [f"{PROJECT_FILE} in {directory} wants to set"]
        lines += [
            f"  {setting.key} = {dumps_text(hide_secrets(setting.key, setting.value))}"
            for setting in withheld
        ]
        claims.append(_Claim(directory, describe_withheld(configuration), lines))
    for path, owner in project.instructions.withheld.items():
        claims.append(_Claim(owner, str(path), [f"{path} has instructions for the model"]))
    for entry in project.catalog.withheld:
        if not entry.is_setting:  # those are among the settings
            name = f"the MCP server {entry.name} in {entry.origin}"
            line = f"{entry.origin} wants to start the MCP server {entry.name}: {entry.claim}"
            claims.append(_Claim(entry.directory, name, [line]))
    return claims


def _print_claims(claims: Iterable[_Claim]) -> None:
    printer = Printer(sys.stdout)
    for claim in claims:
        for text in claim.lines:
            for row in Line(escape_line(text)).wrap(printer.width - 1, CONTINUATION):
                printer.write(row.append("\n"))


def _choose_model(setup: Setup, saved_model: str) -> tuple[str, str]:
    """Return the model, and the reason for it if the user did not name one."""
    if saved_model:
        try:
            require_key(setup.engine(saved_model))
        except ToolglotError as e:
            model, _ = _choose_model(setup, "")
            return model, f"using {model}: the conversation's model, {saved_model}, cannot be used ({e})"
        return (
            saved_model,
            f"using {saved_model}: the conversation was saved with this model (use -m to choose another)",
        )
    if setup.settings.model:
        return setup.resolve_model(), ""
    # opening the keyring is slow, and pointless if nothing was ever stored there
    keyring = logins_file().exists()
    for provider, name in DEFAULT_MODELS.items():  # the first one whose provider has a key
        model = f"{provider}:{name}"
        origin = describe_key_origin(resolve_profile(provider, name), keyring=keyring)
        if origin is not None:
            return (
                model,
                f"using {model}: no model is configured, but a key for this one was found ({origin})",
            )
    return (
        "simulator",
        "using the simulator: no model is configured (use -m PROVIDER:MODEL or set TOOLGLOT_MODEL)",
    )


def approve_all(request: ApprovalRequest) -> Decision:
    """Approve for `--yes`: everything except calls that always need their own approval, such as leaving the
    sandbox.
    """
    return Deny(f"--yes does not cover this: {request.reason}") if request.each_time else "yes"


def ways_to_allow(tools: Iterable[str], *, mode_helps: bool = False) -> str:
    """Return how to allow calls of tools if nobody can be asked.

    `mode_helps`: one of them would run in the approval mode `sandboxed`.
    """
    mode = ", --approval-mode sandboxed" if mode_helps else ""
    if any(tool.startswith(MCP_PREFIX) for tool in tools):
        return f"use --approve RULE{mode} or --yes, or set trust = true for an MCP server that you trust"
    return f"use --approve RULE{mode}, or --yes"


def logins_file() -> Path:
    """Return the path of a marker file that exists once a key was stored in the keyring."""
    return data_directory() / "logins"


def _check_patterns(
    setup: Setup, flags: Flags, tools: list[Any], builtins: "Builtins | None", *, is_complete: bool
) -> None:
    """Report patterns that match no tool: in --allow, --defer and --deny as an error, elsewhere as a warning.

    `is_complete`: no MCP server is still starting, so all tools are known.
    """
    names = _list_names(tools)

    def drop_expected(patterns: Iterable[str]) -> list[str]:
        """Return the patterns that no tool of a server can match that is still starting."""
        if is_complete:
            return list(patterns)
        may_match = {MCP_TAG, *flags.defer}
        return [
            pattern for pattern in patterns if not pattern.startswith(MCP_PREFIX) and pattern not in may_match
        ]

    allowed = (setup.settings.policy.allow or ()) if flags.allow else ()
    unknown = drop_expected(find_unmatched(allowed, names))
    if unknown and not names:
        raise UsageError(
            f"--allow {unknown[0]!r} matches no tool: none are loaded (use --builtin or --tools)"
        )
    if unknown:
        if builtins is not None:
            builtins.check_usable(unknown[0])
        raise UnknownName("tool in --allow", unknown[0], names)

    tags = {tag for item in tools if isinstance(item, Tool) for tag in item.tags}
    deferred = {*flags.defer} - {"auto", "all", "none"}
    unknown = drop_expected(find_unmatched(deferred, [*names, *tags]))
    if unknown:
        raise UnknownName("tool or tag in --defer", unknown[0], names)

    unmatched = drop_expected(find_unmatched_rules(setup.settings, names))
    for pattern in unmatched[:_MAX_WARNINGS]:
        if pattern in flags.deny:  # it would deny nothing
            raise UnknownName("tool in --deny", pattern.partition("(")[0], (*names, *BASE_TOOLS))
        rule = "--approve" if pattern in flags.approve else "a configured rule"
        print_note(f"{rule} names {pattern!r}, which matches no tool")
    if len(unmatched) > _MAX_WARNINGS:
        print_note(f"{len(unmatched) - _MAX_WARNINGS} more rules match no tool")


def _list_names(tools: Iterable[Any]) -> list[str]:
    """Return the names of tools. Raises InvalidTool for what is none."""
    names: list[str] = []
    for item in tools:
        name = tool(item).name if callable(item) else getattr(item, "name", "")
        if not name:
            raise InvalidTool(
                f"{item!r} is not a tool: --tools accepts functions, tools, registries, and lists of these"
            )
        names.append(name)
    return names


def require_key(engine: Engine) -> None:
    """Raise UsageError if a request would fail because there is no key."""
    profile = engine.profile
    if engine.name.startswith("simulator") or profile.auth == "optional":
        return
    if engine.keys.is_explicit or describe_key_origin(profile):
        return
    variables = " or ".join((*profile.key_env, *profile.token_env))
    alternative = _SIGN_IN_HINTS.get(
        profile.sign_in, f"store a key with toolglot login {keyring_account(profile.id)}"
    )
    raise UsageError(f"no key for {profile.title}: set {variables}, or {alternative}")
