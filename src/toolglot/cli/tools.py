"""`toolglot tools`: show any tool as any model sees it, using the encoder of real requests, and what is lost.

With `--json`, stdout is exactly the value of the tools field that a run would send (null if the field is left out), and losses
go to stderr. Without a model and a wire, the tools are shown as they were defined. Built-in tools are shown under a facade:
the given one, or the model's own.
"""

import sys
from collections.abc import Iterator
from typing import Any, cast

from toolglot.cli.models import expand_fields, find_profile
from toolglot.cli.printer import Printer, format_json, write_json_line
from toolglot.config.loading import load_facade_by_name
from toolglot.errors import UnknownName, UsageError
from toolglot.loop.model_view import ModelView
from toolglot.messages import user
from toolglot.providers.catalog import PROFILES, SURFACES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.request import Options, Request, ToolDefinition
from toolglot.tools.registry import ToolRegistry
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS

__all__ = ["show_tools"]

Entry = dict[str, Any]
# The keys under which the API formats have the schema of a tool.
_SCHEMA_KEYS = ("parameters", "parametersJsonSchema", "input_schema", "format")


def show_tools(tools: list[Any], *, model: str | None, wire: str | None, facade: str | None, json: bool) -> int:
    """Print the tools; return 1 if none of them can be sent. Raises UsageError, InvalidTool, NameConflict."""
    profile = _resolve_target(model, wire)
    registry = ToolRegistry(item for item in tools if not isinstance(item, ToolDefinition))
    chosen = load_facade_by_name(facade) if facade not in (None, "auto") else None
    if chosen is None and (profile is None or not profile.model):
        definitions = registry.definitions()
    else:
        definitions = ModelView(profile or resolve_profile("compatible"), registry, facade=chosen or "auto").tools()
    definitions = (*definitions, *(item for item in tools if isinstance(item, ToolDefinition)))
    if not definitions:
        raise UsageError("there are no tools to show: name some as module:object")
    if profile is None:
        if json:
            write_json_line(sys.stdout, list(definitions))
            return 0
        printer = Printer(sys.stdout)
        printer.print_text("As defined. Use -m PROVIDER:MODEL or --wire to see them as a model does.", "bold")
        defaults = expand_fields(ToolDefinition(""))
        for definition in definitions:
            fields = expand_fields(definition)
            _print_entry(printer, {name: value for name, value in fields.items() if value != defaults[name]})
        return 0
    # Agents enable caching, and the cache marks are part of the tools field.
    request = Request(profile.model, [user("…")], definitions, options=Options(cache=True))
    encoded = encode_request(request, profile)
    entries: Any = encoded.body.get("tools")
    repairs = [repair for repair in encoded.repairs if repair.where == "tools"]
    notes = [(f"lost: {loss}", "red") for loss in encoded.losses] + [(f"repaired: {repair}", "yellow") for repair in repairs]
    if json:
        write_json_line(sys.stdout, entries)
        printer = Printer(sys.stderr)
        for text, style in notes:
            printer.print_line(text, style)
    else:
        printer = Printer(sys.stdout)
        printer.print_text(f"{profile.title}{' · ' + profile.model if profile.model else ''} · {profile.wire}", "bold")
        for entry in cast(list[Entry], entries or []):
            _print_entry(printer, entry)
        printer.print_text("")
        for text, style in notes:
            printer.print_text(text, style, "", "  ")
    return 0 if entries else 1


def _resolve_target(model: str | None, wire: str | None) -> Profile | None:
    if wire is not None and wire not in SPECS:
        raise UnknownName("wire", wire, SPECS)
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
    raise UsageError(f"{model} uses the wire {profile.wire}, not {wire}: omit one of the two")


def _print_entry(printer: Printer, entry: Entry) -> None:
    """Print one entry of the tools field, which may contain several tools."""
    for tool in _unwrap_entry(entry):
        fields = dict(tool)
        name, description = str(fields.pop("name", "")), str(fields.pop("description", "") or "")
        schema = next((fields.pop(key) for key in _SCHEMA_KEYS if key in fields), None)
        printer.print_text("")
        printer.print_text(name or str(fields.get("type") or " ".join(fields)), "cyan")
        if description:
            printer.print_text(description, "", "  ")
        for value, style in ((schema, ""), (fields or None, "dim")):
            if value is not None:
                for line in format_json(value, printer.width - 2).splitlines():
                    printer.print_line("  " + line, style)


def _unwrap_entry(entry: Entry) -> Iterator[Entry]:
    """Yield the tools of an entry without the wrapper of its API format."""
    kind = entry.get("type")
    if isinstance(declarations := entry.get("functionDeclarations"), list):
        yield from cast(list[Entry], declarations)
        entry = {key: value for key, value in entry.items() if key != "functionDeclarations"}
        yield from [entry] if entry else []
    elif kind == "namespace":
        for tool in cast(list[Entry], entry.get("tools", [])):
            yield from _unwrap_entry({**tool, "name": f"{entry.get('name', '')}.{tool.get('name', '')}"})
    elif isinstance(inner := entry.get(str(kind)), dict):
        yield {**cast(Entry, inner), **{key: value for key, value in entry.items() if key not in ("type", kind)}}
    else:
        yield {key: value for key, value in entry.items() if (key, value) != ("type", "function")}
