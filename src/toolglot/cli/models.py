"""`toolglot models`: what is known of providers and models, each fact with its day and its source. Nobody is asked.

`--json`: one object a line, complete. Text fits the terminal: what has no room as a table is stacked.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from toolglot.cli.printer import Printer, Row
from toolglot.facades.catalog import facade_id_for_model, facade_id_for_provider
from toolglot.jsontext import dumps
from toolglot.providers.catalog import FACTS, PROFILES, Fact, resolve_profile
from toolglot.providers.profile import ANY_CHOICE, Price, Profile, ProviderLimits
from toolglot.providers.windows import find_window

__all__ = ["expand_fields", "find_profile", "show_models"]


def show_models(pattern: str | None, *, json: bool) -> int:
    """Prints all providers, or all about one of them or of one model. Raises UnknownName."""
    profiles = list(PROFILES.values()) if pattern is None else [find_profile(pattern)]
    if json:
        for profile in profiles:
            sys.stdout.buffer.write(dumps(_to_json(profile)) + b"\n")
        sys.stdout.buffer.flush()
    elif pattern is None:
        _print_overview(Printer(sys.stdout), profiles)
    else:
        _print_profile(Printer(sys.stdout), profiles[0])
    return 0


def find_profile(name: str) -> Profile:
    """The profile of PROVIDER or PROVIDER:MODEL; of what the simulator plays for its name. Raises UnknownName."""
    provider, _, model = name.partition(":")
    if provider == "simulator":
        from toolglot.engine.factory import create_engine

        played = create_engine(name).profile
        return resolve_profile(played.id, played.model)
    return resolve_profile(provider, model)


def _to_json(profile: Profile) -> dict[str, Any]:
    window = find_window(profile.id, profile.model)
    return {
        **expand_fields(profile),
        "facade": _facade_id(profile),
        "window": window and expand_fields(window),
        "facts": [expand_fields(fact) for fact in _model_facts(profile)],
    }


def expand_fields(value: Any) -> Any:
    """A value with all its fields, also those that are as usual; sets in order."""
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
    """What is different for this model."""
    return [fact for fact in FACTS if profile.id in fact.profiles and re.search(fact.model, profile.model)]


def _facade_id(profile: Profile) -> str:
    return facade_id_for_model(profile.model) if profile.model else facade_id_for_provider(profile.id)


# ---- all providers

# In the order of the screen, and in the order in which they are given room.
_COLUMNS: tuple[str, ...] = ("provider", "wire", "tools", "strict", "choice", "facade", "key", "as of")
_COLUMN_PRIORITY = ("provider", "wire", "tools", "strict", "choice", "key", "facade", "as of")


def _print_overview(sheet: Printer, profiles: Iterable[Profile]) -> None:
    rows = [dict(zip(_COLUMNS, _overview_row(profile), strict=True)) for profile in profiles]
    sheet.print_table(rows, _COLUMN_PRIORITY)
    sheet.print_text("")
    sheet.print_text("All about one: toolglot models PROVIDER, or PROVIDER:MODEL", "dim")


def _overview_row(profile: Profile) -> tuple[str, ...]:
    keys = (*profile.key_env, *profile.token_env)
    return (
        profile.id,
        profile.wire,
        str(profile.limits.tools or "-"),
        _yes_no(profile.features.strict and bool(profile.strict_dialect)),
        _format_choices(profile),
        facade_id_for_provider(profile.id),
        (keys[0] + (f" +{len(keys) - 1}" if keys[1:] else "")) if keys else "-",
        profile.limits.as_of,
    )


def _format_choices(profile: Profile) -> str:
    """The tool choices in few letters."""
    known = profile.features.choices
    if len(known) > 2:
        return f"not {' '.join(sorted(ANY_CHOICE - known))}" if ANY_CHOICE - known else "all"
    return " ".join(sorted(known))


# ---- one of them


def _print_profile(sheet: Printer, profile: Profile) -> None:
    sheet.print_text(f"{profile.title} · {profile.id}{':' + profile.model if profile.model else ''}", "bold")
    sheet.print_pairs(_general_rows(profile))
    sheet.print_section(f"Limits, as of {profile.limits.as_of} ({profile.limits.source})", _limit_rows(profile.limits))
    sheet.print_section("Tools", _tool_rows(profile))
    sheet.print_section("Requests", _request_rows(profile))
    for title, notes in (("Notes", profile.notes), ("For this model", tuple(map(_format_fact, _model_facts(profile))))):
        if notes:
            sheet.print_section(title, [("·", note) for note in notes])


def _general_rows(profile: Profile) -> Iterator[Row]:
    yield "wire", profile.wire
    yield "address", (profile.base_url or "yours: base_url") + profile.path
    yield "key", " or ".join((*profile.key_env, *profile.token_env)) or "none is needed"
    if profile.sign_in:
        yield "sign-in", profile.sign_in
    yield "facade", _facade_id(profile)
    if profile.model:
        yield "context", _format_context(profile)
        yield "price", _format_price(profile.price)


def _format_context(profile: Profile) -> str:
    """The limits as they count, which a fact may have changed; the source where it is the window's."""
    context, answer, window = profile.limits.context, profile.limits.answer, find_window(profile.id, profile.model)
    if context is None:
        return "not known"
    most = f", an answer at most {answer:,}" if answer else ""
    return f"{context:,} tokens{most}" + (f" ({window.source}, {window.as_of})" if window else "")


def _format_price(price: Price | None) -> str:
    if price is None:
        return "not known"
    parts = f"${price.input:g} in, ${price.cached:g} in from a cache, ${price.output:g} out"
    return f"{parts}, for a million tokens ({price.as_of})"


def _limit_rows(limits: ProviderLimits) -> Iterator[Row]:
    numbers = {
        "tools": limits.tools,
        "description": limits.description,
        "bytes": limits.request_bytes,
        "cache marks": limits.cache_marks,
        "stops": limits.stops,
    }
    yield from ((name, f"{value:,}") for name, value in numbers.items() if value is not None)
    yield "tool name", limits.name
    yield "call id", limits.call_id


def _tool_rows(profile: Profile) -> Iterator[Row]:
    features = profile.features
    yield "choice", ", ".join(sorted(features.choices))
    yield "parallel", "yes" + ("" if features.parallel_off else ", it cannot be turned off") if features.parallel else "no"
    yield "strict", _yes_no(features.strict and bool(profile.strict_dialect))
    for name in ("streamed_arguments", "freeform", "namespaces", "hosted", "error_flag"):
        yield name.replace("_", " "), _yes_no(getattr(features, name))
    yield "result media", ", ".join(sorted(features.result_media)) or "text only"
    yield "dialect", " or ".join(filter(None, (profile.dialect, profile.strict_dialect)))


def _request_rows(profile: Profile) -> Iterator[Row]:
    yield "media", ", ".join(sorted(profile.media)) or "text only"
    yield "efforts", ", ".join(profile.efforts) or "none"
    yield "thinking budget", _yes_no(profile.thinking_budget)
    yield "sampling", profile.sampling
    yield "options", ", ".join(sorted(profile.options))
    yield "JSON output", profile.json_output


def _format_fact(fact: Fact) -> str:
    changes = ", ".join(f"{name} = {_format_value(value)}" for name, value in fact.changes.items())
    return f"{changes} (model {fact.model}; {fact.source})"


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return _yes_no(value)
    value = expand_fields(value)
    return " ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)


def _yes_no(value: object) -> str:
    return "yes" if value else "no"
