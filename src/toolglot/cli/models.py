"""`toolglot models`: show the catalog's facts about providers and models, with dates and sources.

Nothing is sent.

With `--json`, each provider is one complete object per line.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import click
import msgspec

from toolglot.cli.options import JSON, complete_model
from toolglot.cli.printer import Printer, Row, write_json_line
from toolglot.common.jsontext import dumps_text
from toolglot.facades.catalog import facade_id_for_model, facade_id_for_provider
from toolglot.providers.catalog import (
    ALIASES,
    DEFAULT_MODELS,
    PROFILES,
    SURFACES,
    infer_provider,
    resolve_profile,
)
from toolglot.providers.model_data import find_price, find_window, known_models
from toolglot.providers.model_facts import FACTS, Fact
from toolglot.providers.profile import ANY_CHOICE, Profile


@click.command()
@click.argument("name", required=False, shell_complete=complete_model)
@JSON
def models(name: str | None, json: bool) -> None:
    """Show the limits and features of providers and models.

    NAME is PROVIDER (which also lists its models in the catalog) or PROVIDER:MODEL; without it, all providers
    are listed. Nothing is sent.
    """
    profiles = list(PROFILES.values()) if name is None else [find_profile(name)]
    if json:
        for profile in profiles:
            details = {
                "facade": _facade_id(profile),
                "window": expand_fields(find_window(profile.id, profile.model)),
                "facts": [expand_fields(fact) for fact in _model_facts(profile)],
                "models": [] if profile.model else known_models(profile.id),
            }
            write_json_line(sys.stdout, expand_fields(profile) | details)
    elif name is None:
        printer = Printer(sys.stdout)
        printer.print_table(list(map(_overview_row, profiles)))
        printer.print_text("")
        printer.print_text("For details: toolglot models PROVIDER, or PROVIDER:MODEL", "dim")
    else:
        printer = Printer(sys.stdout)
        if name.partition(":")[0] == "simulator":
            printer.print_text(
                "The simulator needs no key and sends nothing; it simulates this model:", "dim"
            )
        _print_profile(printer, profiles[0])


def complete_models(aliases: Iterable[str] = ()) -> list[str]:
    """Return the names that `-m` accepts, and providers (`NAME:`) that need a model."""
    default_names = [f"{provider}:{model}" for provider, model in DEFAULT_MODELS.items()]
    short_names = [*filter(infer_provider, DEFAULT_MODELS.values()), *DEFAULT_MODELS]
    providers = [f"{name}:" for name in (*PROFILES, *SURFACES, *ALIASES)]
    return [
        *aliases,
        *default_names,
        *short_names,
        *providers,
        "simulator",
        *(f"simulator:{id}" for id in PROFILES),
    ]


def find_profile(name: str) -> Profile:
    """Find the profile for PROVIDER or PROVIDER:MODEL; for the simulator, the one it plays.

    Raises UnknownName.
    """
    if ":" not in name and (vendor := infer_provider(name)):
        name = f"{vendor}:{name}"
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


def _overview_row(profile: Profile) -> dict[str, str]:
    keys = (*profile.key_env, *profile.token_env)
    key = keys[0] if keys else "-"
    if len(keys) > 1:
        key += f" +{len(keys) - 1}"
    missing = ANY_CHOICE - profile.features.choices
    choice = _join(profile.features.choices)
    if not missing:
        choice = "all"
    elif len(missing) < 3:  # the missing ones are fewer
        choice = f"except {_join(missing)}"
    return {
        "provider": profile.id,
        "wire": profile.wire,
        "tools": str(profile.limits.tools or "-"),
        "strict": _yes_no(profile.features.strict and profile.strict_dialect),
        "tool choice": choice,
        "key": key,
        "facade": facade_id_for_provider(profile.id),
        "as of": profile.limits.as_of,
    }


def _print_profile(printer: Printer, profile: Profile) -> None:
    limits = profile.limits
    name = f"{profile.id}:{profile.model}" if profile.model else profile.id
    printer.print_text(f"{profile.title} · {name}", "bold")
    printer.print_pairs(_general_rows(profile))
    numbers = {
        "tools per request": limits.tools,
        "characters per description": limits.description,
        "bytes per request": limits.request_bytes,
        "cache marks per request": limits.cache_marks,
        "stop sequences": limits.stops,
    }
    rows = [(name, f"{value:,}") for name, value in numbers.items() if value is not None]
    rows += [("tool name", limits.name), ("call id", limits.call_id)]
    printer.print_section(f"Limits, as of {limits.as_of} ({limits.source})", rows)
    printer.print_section("Tools", _tool_rows(profile))
    printer.print_section("Requests", _request_rows(profile))
    facts: list[str] = []
    for fact in _model_facts(profile):
        changes = ", ".join(
            f"{name} = {dumps_text(expand_fields(value))}" for name, value in fact.changes.items()
        )
        facts.append(f"{changes} (model {fact.model}; {fact.source})")
    for title, notes in (("Notes", profile.notes), ("For this model", facts)):
        if notes:
            printer.print_section(title, [("·", note) for note in notes])
    known = [] if profile.model else [_known_model_row(profile.id, name) for name in known_models(profile.id)]
    if known:
        printer.print_text("")
        printer.print_text(
            "Known models (the provider may have others; * matches any suffix; prices per million tokens)",
            "bold",
        )
        printer.print_table(known)


def _tool_rows(profile: Profile) -> list[Row]:
    features = profile.features
    parallel = "no"
    if features.parallel:
        parallel = "yes" if features.parallel_off else "yes, cannot be turned off"
    return [
        ("tool choice", _join(features.choices)),
        ("parallel calls", parallel),
        ("strict schemas", _yes_no(features.strict and profile.strict_dialect)),
        ("streamed arguments", _yes_no(features.streamed_arguments)),
        ("plain-text tools", _yes_no(features.freeform)),
        ("namespaces", _yes_no(features.namespaces)),
        ("deferred tools", "native" if features.tool_search else "emulated"),
        ("hosted tools", _yes_no(features.hosted)),
        ("results marked as errors", _yes_no(features.error_flag)),
        ("media in results", _join(features.result_media) or "text only"),
        ("schema dialect", " or ".join(filter(None, (profile.dialect, profile.strict_dialect)))),
    ]


def _request_rows(profile: Profile) -> list[Row]:
    cache_marks = "no"
    if profile.cache_field:
        cache_marks = ", ".join(profile.cache_ttls) or "yes"
    return [
        ("media", _join(profile.media) or "text only"),
        ("reasoning efforts", ", ".join(profile.efforts) or "not supported"),
        ("thinking budget", _yes_no(profile.thinking_budget)),
        (
            "temperature and top_p",
            {"one": "one of them", "all": "yes"}.get(profile.sampling, profile.sampling),
        ),
        ("options", _join(profile.accepted_options)),
        ("JSON output", profile.json_output),
        ("cache marks", cache_marks),
    ]


def _known_model_row(profile_id: str, name: str) -> dict[str, str]:
    row = {"model": name, "context": "-", "answer": "-", "input": "-", "output": "-"}
    window = find_window(profile_id, name.rstrip("*"))
    if window is not None:
        row["context"] = f"{window.context:,}"
        if window.answer:
            row["answer"] = f"{window.answer:,}"
    price = find_price(profile_id, name.rstrip("*"))
    if price is not None:
        row["input"] = f"${price.input:g}"
        row["output"] = f"${price.output:g}"
    return row


def _general_rows(profile: Profile) -> Iterator[Row]:
    yield "wire", profile.wire
    yield "address", (profile.base_url or "set by you: base_url") + profile.path
    yield "key", " or ".join((*profile.key_env, *profile.token_env)) or "not needed"
    if profile.sign_in:
        yield "sign-in", profile.sign_in
    yield "facade", _facade_id(profile)
    if not profile.model:
        return
    # The limits are those in effect, which a fact may have changed; the source is that of the catalog's
    # window.
    context = profile.limits.context
    answer = profile.limits.answer
    window = find_window(profile.id, profile.model)
    source = f" ({window.source}, {window.as_of})" if window else ""
    limit = f", at most {answer:,} per answer" if answer else ""
    yield "context", f"{context:,} tokens{limit}{source}" if context else "unknown"
    if (price := profile.price) is None:
        yield "price", "unknown"
    else:
        amounts = f"${price.input:g} input, ${price.cached:g} cached input, ${price.output:g} output"
        yield "price", f"{amounts} per million tokens ({price.as_of})"
    if window is None and price is None:
        yield "note", "this model is not in the catalog: its provider's defaults are shown"


def _model_facts(profile: Profile) -> list[Fact]:
    return [fact for fact in FACTS if profile.id in fact.profiles and re.search(fact.model, profile.model)]


def _facade_id(profile: Profile) -> str:
    return facade_id_for_model(profile.model) if profile.model else facade_id_for_provider(profile.id)


def _join(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _yes_no(value: object) -> str:
    return "yes" if value else "no"
