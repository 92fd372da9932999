"""`toolglot tools`: show any tool as any model sees it, using the encoder of real requests, and what is lost.

With `--json`, stdout is exactly the value of the tools field that a run would send (null if the field is left
out), and losses go to stderr. Without a model and a wire, the tools are shown as they were defined.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from toolglot.cli.check import load_tools_or_definitions
from toolglot.cli.models import expand_fields, find_profile
from toolglot.cli.options import CODE_MODE, DEFER, MCP, WIRE, complete_model
from toolglot.cli.printer import Printer, format_json, print_note, write_json_line
from toolglot.cli.startup import Flags, prepare
from toolglot.common.sanitize import escape_line
from toolglot.config.layers import describe_withheld, read_configuration
from toolglot.config.loading import load_facade_by_name
from toolglot.config.setup import Setup
from toolglot.errors import UsageError
from toolglot.facades.catalog import GENERATIONS, list_facades
from toolglot.facades.view import Facade
from toolglot.loop.code_mode import choose_language, make_code_tool
from toolglot.loop.deferral import Defer
from toolglot.loop.format_call import describe_losses
from toolglot.loop.model_view import Language, ModelView
from toolglot.providers.catalog import PROFILES, SURFACES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.tools.registry import ToolRegistry
from toolglot.values.messages import user
from toolglot.values.request import BUILTIN_TAG, Options, Request, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS


@click.command()
@click.argument("tools", nargs=-1)
@click.option(
    *("-m", "--model"),
    help="Show the tools as this PROVIDER:MODEL sees them; with --wire, MODEL is enough.",
    shell_complete=complete_model,
)
@click.option("--wire", type=WIRE, help="Show the tools in this API format.")
@click.option(
    "--facade", help="Show the tools under this facade: an id, PROGRAM@VERSION, a plug-in or module:object."
)
@click.option("--facades", is_flag=True, help="List the facades with their programs and models.")
@DEFER
@CODE_MODE
@MCP
@click.option("--json", is_flag=True, help="Print the tools field of a request, exactly as it would be sent.")
def tools(
    tools: tuple[str, ...],
    model: str | None,
    wire: str | None,
    facade: str | None,
    facades: bool,
    defer: tuple[str, ...],
    code_mode: str | None,
    mcp_config: tuple[Path, ...],
    no_mcp: bool,
    json: bool,
) -> int:
    """Show tools as defined, or as a model sees them.

    TOOLS are modules, module:object or JSON files; without them, the configured tools, the built-in tools and those of MCP
    servers are shown.
    """
    if facades:
        if tools or model or wire or facade:
            raise UsageError("--facades lists all facades: remove the tools, model, wire and facade")
        _print_facades(json=json)
        return 0
    loaded: list[Any] = []
    unusable: dict[str, str] = {}
    if tools:
        for name in tools:
            loaded += load_tools_or_definitions(name)
        ignored = describe_withheld(read_configuration())
        if ignored:  # an alias, for example
            print_note(
                f"ignoring {escape_line(ignored)}: the directory is not trusted (run `toolglot trust`)"
            )
    else:
        flags = Flags(mcp_config=mcp_config, no_mcp=no_mcp)
        with prepare(flags, want_builtin=True, use_servers="wait") as cli_setup:
            loaded = cli_setup.tools
            if cli_setup.builtins is not None:
                unusable = cli_setup.builtins.unusable
    configuration = read_configuration(
        flags={"facade": facade, "defer": defer or None, "code_mode": code_mode}
    )
    settings = configuration.settings
    setup = Setup(settings)
    # With a wire, a name without a provider is a model of the wire's vendor.
    if model and (wire is None or model in settings.aliases):
        model = setup.resolve_model(model)
    exit_code = show_tools(
        loaded,
        model=model,
        wire=wire,
        facade=settings.facade,
        directory=configuration.code_directories.get("facade"),
        defer=setup.defer_rule,
        code_mode=setup.code_mode,
        json=json,
    )
    for name, reason in unusable.items():
        Printer(sys.stderr if json else sys.stdout).print_text(
            f"not offered: {name}: {reason}", "dim", "", "  "
        )
    return exit_code


def show_tools(
    tools: list[Any],
    *,
    model: str | None = None,
    wire: str | None = None,
    facade: str = "auto",
    directory: Path | None = None,
    defer: Defer = None,
    code_mode: bool | Language | None = None,
    json: bool = False,
) -> int:
    """Print the tools; return 1 if none of them can be sent. Raises UsageError, InvalidTool, NameConflict.

    `directory`: where to look for a facade given as `module:object` that is not installed.
    """
    profile = _resolve_target(model, wire)
    registry = ToolRegistry(item for item in tools if not isinstance(item, ToolDefinition))
    title = "As defined. Use -m PROVIDER:MODEL or --wire to see the tools as a model does."
    notes: list[tuple[str, str]] = []
    definitions = registry.definitions()
    view: ModelView | None = None
    if facade != "auto" or (profile is not None and profile.model):
        view = _open_view(profile, registry, facade, directory, defer, code_mode)
        definitions = view.tools(
            [make_code_tool(view.code_language)] if view.code_language is not None else ()
        )
        title = f"Under the facade {facade}."
    definitions = (*definitions, *(item for item in tools if isinstance(item, ToolDefinition)))
    if not definitions:
        raise UsageError("there are no tools to show: specify some as module:object")
    fields: Any = list(definitions)
    if profile is not None:
        title = _describe_target(profile, view)
        # Agents enable caching, and the cache marks are part of the tools field.
        encoded = encode_request(
            Request(profile.model, [user("…")], definitions, options=Options(cache=True)), profile
        )
        fields = encoded.body.get("tools")
        definitions = decode_request(profile.wire, {"tools": fields or []}).tools
        notes += [(line, "red") for line in describe_losses(encoded.losses, every_keyword=True)]
        notes += [(f"repaired: {repair}", "yellow") for repair in encoded.repairs if repair.where == "tools"]
    if view is not None and view.deferral is not None:
        notes.append((view.deferral.message, "yellow"))
    if json:
        write_json_line(sys.stdout, fields)
        for text, style in notes:
            Printer(sys.stderr).print_line(text, style)
    else:
        _print_definitions(title, definitions, notes)
    return 0 if fields else 1


def _open_view(
    profile: Profile | None,
    registry: ToolRegistry,
    facade: str,
    directory: Path | None,
    defer: Defer,
    code_mode: bool | Language | None,
) -> ModelView:
    """Return how a model sees the tools, as an agent offers them: some models call the built-in tools from
    code.
    """
    chosen: Facade | str = facade
    if facade != "auto":
        chosen = load_facade_by_name(facade, directory, model=profile.model if profile is not None else "")
    target = profile or resolve_profile("compatible")
    has_builtins = any(BUILTIN_TAG in tool.tags for tool in registry)
    language = choose_language(code_mode, chosen if has_builtins else None, target.model)
    return ModelView(target, registry, facade=chosen, defer=defer, code_language=language)


def _describe_target(profile: Profile, view: ModelView | None) -> str:
    parts = [profile.title, profile.model, profile.wire]
    if view is not None and view.facade is not None:
        parts.append(f"facade {view.facade.facade.id}")
    return " · ".join(filter(None, parts))


def _print_definitions(
    title: str, definitions: Iterable[ToolDefinition], notes: Iterable[tuple[str, str]]
) -> None:
    printer = Printer(sys.stdout)
    printer.print_text(title, "bold")
    for definition in definitions:
        _print_definition(printer, definition)
    printer.print_text("")
    for text, style in notes:
        printer.print_text(text, style, "", "  ")


def _print_facades(*, json: bool) -> None:
    rows: list[dict[str, str]] = []
    for facade in list_facades():
        generations = [row for row in GENERATIONS if row.facade == facade.id]
        for row in generations:
            program = f"{row.program}@{row.version}".removesuffix("@")
            rows.append(
                {"facade": facade.id, "program": program, "models": row.models, "released": row.date or "-"}
            )
        if not generations:
            models = "on request" if facade.provider else "all others"
            rows.append({"facade": facade.id, "program": "-", "models": models, "released": "-"})
    if json:
        write_json_line(sys.stdout, rows)
    else:
        Printer(sys.stdout).print_table(rows)


def _resolve_target(model: str | None, wire: str | None) -> Profile | None:
    if model is None:
        return None if wire is None else resolve_profile(SPECS[wire].default_profile)
    provider, colon, name = model.partition(":")
    if not colon and wire is not None:  # a bare model name belongs to the vendor of the wire
        return resolve_profile(SPECS[wire].default_profile, model)
    profile = find_profile(model)
    if wire in (None, profile.wire):
        return profile
    for _, row in SURFACES.get(provider, ()):
        if PROFILES[row].wire == wire:
            return resolve_profile(row, name)
    raise UsageError(f"{model} uses the wire {profile.wire}, not {wire}: omit the model or the wire")


def _print_definition(printer: Printer, definition: ToolDefinition) -> None:
    """Print the name, description and parameters, and all other fields that differ from their defaults."""
    defaults = expand_fields(ToolDefinition("", wire=definition.wire))
    fields = {name: value for name, value in expand_fields(definition).items() if value != defaults[name]}
    namespace = f"{fields.pop('namespace')}." if definition.namespace else ""
    printer.print_text("")
    printer.print_text(namespace + fields.pop("name", ""), "cyan")
    if description := fields.pop("description", ""):
        printer.print_text(description, "", "  ")
    for value, style in ((fields.pop("parameters", None), ""), (fields or None, "dim")):
        if value is not None:
            for line in format_json(value).splitlines():
                printer.print_line("  " + line, style)
