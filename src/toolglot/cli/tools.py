"""`toolglot tools`: any tool as any model sees it, by the encoder that real requests go through, with what is lost on the way.

`--json`: stdout is exactly the value of the wire's tools field as a run would send it (null where the field is left out); what
is lost goes to stderr. Without a model and a wire the tools are shown as they were defined. Built-in tools are shown under the
names of a facade: the one that is named, or the model's own.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, cast

from toolglot.cli.models import expand_fields, find_profile
from toolglot.cli.printer import Printer
from toolglot.config.loading import load_facade_by_name
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import FACADE_MODULES, facade_for_model, find_facade
from toolglot.facades.view import Facade
from toolglot.jsontext import dumps
from toolglot.losses import Loss, Repair
from toolglot.messages import user
from toolglot.providers.catalog import PROFILES, SURFACES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.request import BUILTIN_TAG, Options, Request, ToolDefinition
from toolglot.tools.registry import ToolRegistry
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS

__all__ = ["render_name_tables", "show_tools"]

Entry = dict[str, Any]
# Where a wire has the schema of a tool.
_SCHEMA_KEYS = ("parameters", "parametersJsonSchema", "input_schema", "format")


def show_tools(tools: list[Any], *, model: str | None, wire: str | None, facade: str | None, json: bool) -> int:
    """Prints the tools; 1 where none is left of them. Raises UsageError."""
    profile = _resolve_target(model, wire)
    definitions = _apply_facade(_collect_definitions(tools), facade, profile.model if profile is not None else "")
    if not definitions:
        raise UsageError("there are no tools to show: name some as module:object")
    if profile is None:
        _print_definitions(definitions, json=json)
        return 0
    # As an agent asks: what it may cache is marked, and the marks stand in the tools too.
    request = Request(profile.model, [user("…")], definitions, options=Options(cache=True))
    encoded = encode_request(request, profile)
    offered: Any = encoded.body.get("tools")
    repairs = [repair for repair in encoded.repairs if repair.where == "tools"]
    if json:
        _write_json(offered)
    else:
        sheet = Printer(sys.stdout)
        sheet.print_text(f"{profile.title}{' · ' + profile.model if profile.model else ''} · {profile.wire}", "bold")
        for entry in cast(list[Entry], offered or []):
            _print_entry(sheet, entry)
        sheet.print_text("")
    _print_notes(encoded.losses, repairs, json=json)
    return 0 if offered else 1


def _collect_definitions(tools: Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """What a model is told of functions, Tools and definitions, in the order of an agent. Raises NotATool, NameConflict."""
    tools = list(tools)
    ready = tuple(one for one in tools if isinstance(one, ToolDefinition))
    return (*ToolRegistry(one for one in tools if not isinstance(one, ToolDefinition)).definitions(), *ready)


def _apply_facade(definitions: tuple[ToolDefinition, ...], facade: str | None, model: str) -> tuple[ToolDefinition, ...]:
    """Built-in tools under the names of a facade, or of the model's own one; the others follow as they are."""
    if facade is None and not model:
        return definitions
    bases = [one.name for one in definitions if BUILTIN_TAG in one.tags]
    found = load_facade_by_name(facade) if facade not in (None, "auto") else facade_for_model(model) if bases else None
    if found is None or not bases:
        return definitions
    return BoundFacade(found, model, bases, [one.name for one in definitions if BUILTIN_TAG not in one.tags]).visible_tools(
        definitions
    )


def _resolve_target(model: str | None, wire: str | None) -> Profile | None:
    if wire is not None and wire not in SPECS:
        raise UnknownName("wire", wire, SPECS)
    if model is None:
        return None if wire is None else resolve_profile(SPECS[wire].default_profile)
    provider, colon, name = model.partition(":")
    if not colon and wire is not None:  # a model of whoever has made the wire
        return resolve_profile(SPECS[wire].default_profile, model)
    profile = find_profile(model)
    if wire in (None, profile.wire):
        return profile
    for _, row in SURFACES.get(provider, ()):
        if PROFILES[row].wire == wire:
            return resolve_profile(row, name)
    raise UsageError(f"{model} is asked on the wire {profile.wire}, not on {wire}: leave one of the two out")


def _print_definitions(definitions: Iterable[ToolDefinition], *, json: bool) -> None:
    if json:
        _write_json(list(definitions))
        return
    sheet = Printer(sys.stdout)
    sheet.print_text("As defined; -m PROVIDER:MODEL or --wire shows what a model sees", "bold")
    for definition in definitions:
        fields = expand_fields(definition)
        usual = expand_fields(ToolDefinition(""))
        _print_entry(sheet, {name: value for name, value in fields.items() if value != usual[name]})


def _write_json(value: Any) -> None:
    sys.stdout.buffer.write(dumps(value) + b"\n")
    sys.stdout.buffer.flush()


# ---- for people


def _print_entry(sheet: Printer, entry: Entry) -> None:
    """One entry of the tools field: one tool, or several under one roof."""
    from toolglot.cli.demo_wires import format_json

    for fields in _unwrap_entry(entry):
        rest = dict(fields)
        name, description = str(rest.pop("name", "")), str(rest.pop("description", "") or "")
        schema = next((rest.pop(key) for key in _SCHEMA_KEYS if key in rest), None)
        sheet.print_text("")
        sheet.print_text(name or str(rest.get("type") or " ".join(rest)), "cyan")
        if description:
            sheet.print_text(description, "", "  ")
        for value in (schema, rest or None):
            if value is not None:
                for line in format_json(value, sheet.width - 2).splitlines():
                    sheet.print_line("  " + line, "" if value is schema else "dim")


def _unwrap_entry(entry: Entry) -> Iterator[Entry]:
    """The tools of an entry, whatever its wire puts around them."""
    kind = entry.get("type")
    if isinstance(several := entry.get("functionDeclarations"), list):
        yield from cast(list[Entry], several)
        entry = {key: value for key, value in entry.items() if key != "functionDeclarations"}
        yield from [entry] if entry else []
    elif kind == "namespace":
        for one in cast(list[Entry], entry.get("tools", [])):
            yield from _unwrap_entry({**one, "name": f"{entry.get('name', '')}.{one.get('name', '')}"})
    elif isinstance(inner := entry.get(str(kind)), dict):
        yield {**cast(Entry, inner), **{key: value for key, value in entry.items() if key not in ("type", kind)}}
    else:
        yield {key: value for key, value in entry.items() if (key, value) != ("type", "function")}


def _print_notes(losses: Iterable[Loss], repairs: Iterable[Repair], *, json: bool) -> None:
    """What the model will not see as it was said; beside JSON one line each."""
    sheet = Printer(sys.stderr if json else sys.stdout)
    notes = [(f"lost: {loss}", "red") for loss in losses] + [(f"mended: {repair}", "yellow") for repair in repairs]
    for text, style in notes:
        if json:
            sheet.print_line(text, style)
        else:
            sheet.print_text(text, style, "", "  ")


# ---- the page of all facades

_COLUMNS = 5


def render_name_tables() -> str:
    """Every base tool under the names of every facade, as Markdown tables."""
    faces = [BoundFacade(one, "", _visible_bases(one)) for one in map(find_facade, FACADE_MODULES)]
    rows = sorted({base for face in faces for base in face.base_tools})
    tables = [_name_table(rows, faces[at : at + _COLUMNS]) for at in range(0, len(faces), _COLUMNS)]
    return "\n\n".join(tables)


def _visible_bases(facade: Facade) -> frozenset[str]:
    return facade.shows.union(*(view.base_tools for view in facade.views if not view.hidden))


def _name_table(rows: Iterable[str], facades: list[BoundFacade]) -> str:
    lines = ["| base tool | " + " | ".join(f"`{face.facade.id}`" for face in facades) + " |", "|---" * (len(facades) + 1) + "|"]
    for base in rows:
        cells = [", ".join(f"`{name}`" for name in _native_names(base, face)) for face in facades]
        lines.append(f"| `{base}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _native_names(base: str, facade: BoundFacade) -> list[str]:
    """The names that a base tool has, those for some models only included."""
    names = [view.qualified_name for view in facade.facade.views if base in view.base_tools and not view.hidden]
    return [*names, base] if facade.shows_base_tool(base) else names
