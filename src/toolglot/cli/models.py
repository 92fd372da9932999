"""`toolglot models`: show the catalog's facts about providers and models, with dates and sources. Nothing is sent.

With `--json`, each provider is one complete object per line.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.facades.catalog import facade_id_for_model, facade_id_for_provider
from toolglot.jsontext import dumps_text
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.model_facts import FACTS, Fact
from toolglot.providers.profile import ANY_CHOICE, Profile
from toolglot.providers.windows import find_window

__all__ = ["expand_fields", "find_profile", "show_models"]


# In display order, and in the order in which columns are kept on a narrow terminal.
_COLUMNS: tuple[str, ...] = ("provider", "wire", "tools", "strict", "choice", "facade", "key", "as of")
_COLUMN_PRIORITY = ("provider", "wire", "tools", "strict", "choice", "key", "facade", "as of")


def show_models(pattern: str | None, *, json: bool) -> int:
    """Print all providers, or the details of one provider or model; return the exit code. Raises UnknownName."""
    profiles = list(PROFILES.values()) if pattern is None else [find_profile(pattern)]
    if json:
        for profile in profiles:
            window = find_window(profile.id, profile.model)
            details = {
                "facade": _facade_id(profile),
                "window": window and expand_fields(window),
                "facts": [expand_fields(fact) for fact in _model_facts(profile)],
            }
            write_json_line(sys.stdout, expand_fields(profile) | details)
    elif pattern is None:
        _print_overview(Printer(sys.stdout), profiles)
    else:
        _print_profile(Printer(sys.stdout), profiles[0])
    return 0


def _print_overview(printer: Printer, profiles: Iterable[Profile]) -> None:
    rows: list[dict[str, str]] = []
    for profile in profiles:
        keys = (*profile.key_env, *profile.token_env)
        choices = profile.features.choices
        choice = " ".join(sorted(choices))
        if len(choices) > 2:  # the missing ones are fewer
            choice = f"not {' '.join(sorted(ANY_CHOICE - choices))}" if ANY_CHOICE - choices else "all"
        cells = (
            profile.id,
            profile.wire,
            str(profile.limits.tools or "-"),
            _yes_no(profile.features.strict and bool(profile.strict_dialect)),
            choice,
            facade_id_for_provider(profile.id),
            (keys[0] + (f" +{len(keys) - 1}" if keys[1:] else "")) if keys else "-",
            profile.limits.as_of,
        )
        rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    printer.print_table(rows, _COLUMN_PRIORITY)
    printer.print_text("")
    printer.print_text("For details: toolglot models PROVIDER, or PROVIDER:MODEL", "dim")


def find_profile(name: str) -> Profile:
    """Find the profile for PROVIDER or PROVIDER:MODEL; for the simulator, the one it plays. Raises UnknownName."""
    provider, _, model = name.partition(":")
    if provider == "simulator":
        from toolglot.engine.factory import create_engine

        simulated = create_engine(name).profile
        return resolve_profile(simulated.id, simulated.model)
    return resolve_profile(provider, model)


def expand_fields(value: Any) -> Any:
    """Convert structs to dicts with all fields, including those that have their defaults; sort sets."""
    match value:
        case msgspec.Struct():
            return {name: expand_fields(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return {key: expand_fields(item) for key, item in cast(dict[str, Any], value).items()}
        case frozenset():
            return sorted(cast(frozenset[str], value))
        case tuple() | list():
            return [expand_fields(item) for item in cast(Sequence[Any], value)]
        case _:
            return value


def _model_facts(profile: Profile) -> list[Fact]:
    return [fact for fact in FACTS if profile.id in fact.profiles and re.search(fact.model, profile.model)]


def _facade_id(profile: Profile) -> str:
    return facade_id_for_model(profile.model) if profile.model else facade_id_for_provider(profile.id)


def _print_profile(printer: Printer, profile: Profile) -> None:
    printer.print_text(f"{profile.title} · {profile.id}{':' + profile.model if profile.model else ''}", "bold")
    printer.print_pairs(_general_rows(profile))
    limits = {
        "tools": profile.limits.tools,
        "description": profile.limits.description,
        "bytes": profile.limits.request_bytes,
        "cache marks": profile.limits.cache_marks,
        "stop sequences": profile.limits.stops,
    }
    rows = [(name, f"{value:,}") for name, value in limits.items() if value is not None]
    rows += [("tool name", profile.limits.name), ("call id", profile.limits.call_id)]
    printer.print_section(f"Limits, as of {profile.limits.as_of} ({profile.limits.source})", rows)
    printer.print_section("Tools", _tool_rows(profile))
    rows = [
        ("media", ", ".join(sorted(profile.media)) or "text only"),
        ("efforts", ", ".join(profile.efforts) or "none"),
        ("thinking budget", _yes_no(profile.thinking_budget)),
        ("sampling", profile.sampling),
        ("options", ", ".join(sorted(profile.options))),
        ("JSON output", profile.json_output),
    ]
    printer.print_section("Requests", rows)
    facts = [
        ", ".join(f"{name} = {dumps_text(expand_fields(value))}" for name, value in fact.changes.items())
        + f" (model {fact.model}; {fact.source})"
        for fact in _model_facts(profile)
    ]
    for title, notes in (("Notes", profile.notes), ("For this model", facts)):
        if notes:
            printer.print_section(title, [("·", note) for note in notes])


def _general_rows(profile: Profile) -> Iterator[Row]:
    yield "wire", profile.wire
    yield "address", (profile.base_url or "set by you: base_url") + profile.path
    yield "key", " or ".join((*profile.key_env, *profile.token_env)) or "not needed"
    if profile.sign_in:
        yield "sign-in", profile.sign_in
    yield "facade", _facade_id(profile)
    if not profile.model:
        return
    # The limits are those in effect, which a fact may have changed; the source is that of the catalog's window.
    context, answer, window = profile.limits.context, profile.limits.answer, find_window(profile.id, profile.model)
    source = f" ({window.source}, {window.as_of})" if window else ""
    yield (
        "context",
        f"{context:,} tokens{f', at most {answer:,} per answer' if answer else ''}{source}" if context else "unknown",
    )
    if (price := profile.price) is None:
        yield "price", "unknown"
    else:
        amounts = f"${price.input:g} input, ${price.cached:g} cached input, ${price.output:g} output"
        yield "price", f"{amounts} per million tokens ({price.as_of})"


def _tool_rows(profile: Profile) -> Iterator[Row]:
    features = profile.features
    yield "choice", ", ".join(sorted(features.choices))
    yield "parallel", "yes" + ("" if features.parallel_off else ", cannot be turned off") if features.parallel else "no"
    yield "strict", _yes_no(features.strict and bool(profile.strict_dialect))
    for name in ("streamed_arguments", "freeform", "namespaces", "hosted", "error_flag"):
        yield name.replace("_", " "), _yes_no(getattr(features, name))
    yield "result media", ", ".join(sorted(features.result_media)) or "text only"
    yield "dialect", " or ".join(filter(None, (profile.dialect, profile.strict_dialect)))


def _yes_no(value: object) -> str:
    return "yes" if value else "no"
