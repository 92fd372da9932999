"""The options of the command line for how a model generates, such as `--effort`, and in which form it
answers.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast, get_args

import click
from msgspec.structs import replace

from toolglot.cli.options import Number, combine
from toolglot.common.jsontext import loads
from toolglot.errors import UsageError
from toolglot.schema.arguments import deep_copy
from toolglot.values.request import Effort, Options, Schema
from toolglot.wire.spec import check_extras

__all__ = ["GENERATION", "change_options", "read_output_schema"]

GENERATION = combine(
    click.option("--max-tokens", type=Number(int, at_least=1), help="Maximum number of tokens per reply."),
    click.option("--temperature", type=Number(float, at_least=0), help="Sampling temperature."),
    click.option("--effort", type=click.Choice(get_args(Effort)), help="How much to think."),
    click.option(
        "--option",
        multiple=True,
        metavar="WIRE.KEY=JSON",
        help="Send a provider's own parameter: openai.service_tier='\"flex\"'. Repeatable.",
    ),
    click.option(
        "--output-schema",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Answer with JSON that this JSON Schema describes.",
    ),
)


def change_options(
    options: Options,
    max_tokens: int | None,
    temperature: float | None,
    effort: str | None,
    extras: Iterable[str],
) -> Options:
    """Return options with those that were given as flags. Raises UsageError."""
    given = {"max_tokens": max_tokens, "temperature": temperature, "effort": effort}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    own = deep_copy(options.extras)  # the settings are not to change with it
    for text in extras:
        _add_extra(own, text)
    check_extras(own)
    return replace(options, **changes, extras=own)


def _add_extra(extras: dict[str, dict[str, Any]], text: str) -> None:
    """Add WIRE.KEY=JSON, where KEY may name a field of an object: ollama-chat.options.num_ctx=8192.

    Raises UsageError.
    """
    path, has_value, value = text.partition("=")
    parts = path.split(".")
    if not has_value or len(parts) < 2 or not all(parts):
        raise UsageError(f"--option {text}: give WIRE.KEY=JSON, such as openai.service_tier='\"flex\"'")
    wire, *parents, key = parts
    try:
        decoded = loads(value)
    except ValueError:
        raise UsageError(
            f"--option {text}: {value} is not JSON; a text needs quotes: {path}='\"{value}\"'"
        ) from None
    table: dict[str, Any] = extras.setdefault(wire, {})
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--option {text}: {parent} is not an object")
        table = cast(dict[str, Any], inner)
    table[key] = decoded


def read_output_schema(file: Path) -> Schema:
    """Return the JSON Schema in a file. Raises UsageError."""
    try:
        schema = loads(file.read_bytes())
    except (OSError, ValueError) as e:
        raise UsageError(f"{file} is no JSON Schema: {e}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{file} is no JSON Schema: it is not a JSON object")
    return cast(Schema, schema)
