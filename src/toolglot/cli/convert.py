"""`toolglot convert`: convert a request body from one API format to another."""

import sys
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from toolglot.cli.jsonl import Record, convert_record, process_lines, read_input
from toolglot.cli.options import INPUT_FILE, JSONL, WIRE
from toolglot.cli.printer import Printer, print_json
from toolglot.common.jsontext import loads_object
from toolglot.errors import MalformedRequest, UsageError
from toolglot.loop.format_call import describe_losses
from toolglot.providers.catalog import PROFILES, SURFACES, infer_provider, resolve_profile
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS


class _Line(msgspec.Struct):
    """A line of `--jsonl`. `model` is for formats that do not have it in the body."""

    request: Record
    model: str | None = None


@click.command()
@click.option("--from", "source", type=WIRE, required=True, help="API format of the input.")
@click.option("--to", "target", type=WIRE, required=True, help="API format of the output.")
@click.option("--model", help="Model name in the output. Default: the name in the input.")
@JSONL
@INPUT_FILE
def convert(source: str, target: str, model: str | None, jsonl: bool, file: Path | None) -> int:
    """Convert a request to another API format.

    Losses and repairs are reported on stderr. Use - as FILE or omit it to read stdin.

    With --jsonl, each line {"id", "request"} is answered by {"id", "model", "request", "losses", "repairs"}
    or {"id", "error"}; add "model" if the format does not have it in the body.
    """

    def convert_line(record: Record) -> Record:
        line, wire = convert_record(record, _Line), SPECS[source]
        if wire.history_field not in line.request and not wire.stateful_extras & line.request.keys():
            raise MalformedRequest(
                f"the request is not in the API format {source}: it has no {wire.history_field!r}"
            )
        request = decode_request(source, line.request, model=line.model or "")
        request = replace(request, model=model or request.model or line.model or "")
        encoded = encode_request(request, resolve_profile(SPECS[target].default_profile, request.model))
        return {
            "model": request.model,
            "request": encoded.body,
            "losses": encoded.losses,
            "repairs": encoded.repairs,
        }

    if jsonl:
        return process_lines(file, convert_line)
    if not (data := read_input(file)).strip():
        raise UsageError("the request is empty: specify a file, or pipe the request in")
    try:
        body = loads_object(data)
    except ValueError as e:
        raise UsageError(f"the request is not a JSON object: {e}") from None
    try:
        result = convert_line({"request": body})
    except MalformedRequest as e:
        raise UsageError(str(e)) from None
    print_json(result["request"])
    notes = Printer(sys.stderr)
    for line in describe_losses(result["losses"], every_keyword=True):
        notes.print_line(line, "red")
    for repair in result["repairs"]:
        notes.print_line(f"repaired: {repair}", "yellow")
    vendor = infer_provider(result["model"])
    if (
        vendor
        and "model" in result["request"]
        and target not in {PROFILES[row].wire for _, row in SURFACES.get(vendor, (("", vendor),))}
    ):
        notes.print_line(
            f"kept the model {result['model']!r}; use --model to choose one for {target}", "yellow"
        )
    return 0
