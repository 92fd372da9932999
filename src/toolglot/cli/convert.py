"""`toolglot convert`: convert a request body from one API format to another."""

from pathlib import Path

import click
from msgspec.structs import replace

from toolglot.cli.jsonl import Record, process_lines, read_input, required_fields
from toolglot.cli.options import INPUT_FILE, JSONL, WIRE
from toolglot.cli.printer import print_json
from toolglot.errors import MalformedData, MalformedRequest, UsageError
from toolglot.jsontext import loads_object
from toolglot.providers.catalog import resolve_profile
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS

__all__ = ["convert"]


@click.command()
@click.option("--from", "source", type=WIRE, required=True, help="API format of the input.")
@click.option("--to", "target", type=WIRE, required=True, help="API format of the output.")
@click.option("--model", help="Model name in the output. Default: keep the name.")
@JSONL
@INPUT_FILE
def convert(source: str, target: str, model: str | None, jsonl: bool, file: Path | None) -> int:
    """Convert a request to another API format.

    What was lost or repaired is reported on stderr. Use - as FILE or omit it to read stdin.
    """

    def convert_record(record: Record) -> Record:
        (body,) = required_fields(record, request=dict)
        source_model = record.get("model") or ""
        if not isinstance(source_model, str):
            raise MalformedData(f"field 'model' must be str, got {type(source_model).__name__}")
        wire = SPECS[source]
        if wire.history_field not in body and not wire.stateful_extras & body.keys():
            raise MalformedRequest(f"this is not a request of {source}: it has no {wire.history_field!r}")
        request = decode_request(source, body, model=source_model)
        request = replace(request, model=model or request.model or source_model)
        encoded = encode_request(request, resolve_profile(SPECS[target].default_profile, request.model))
        return {"model": request.model, "request": encoded.body, "losses": encoded.losses, "repairs": encoded.repairs}

    if jsonl:
        return process_lines(file, convert_record)
    try:
        body = loads_object(read_input(file))
    except ValueError as e:
        raise UsageError(f"the request is not a JSON object: {e}") from None
    result = convert_record({"request": body})
    print_json(result["request"])
    for loss in result["losses"]:
        click.secho(f"lost: {loss}", err=True, fg="red")
    for repair in result["repairs"]:
        click.secho(f"repaired: {repair}", err=True, fg="yellow")
    return 0
