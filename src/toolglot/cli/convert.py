"""`toolglot convert`: convert a request body from one API format to another."""

from msgspec.structs import replace

from toolglot.cli.jsonl import Record, required_fields
from toolglot.errors import MalformedData
from toolglot.providers.catalog import resolve_profile
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS

__all__ = ["convert_line", "convert_request"]


def convert_line(source: str, target: str, model: str | None, record: Record) -> Record:
    """Convert one line of `--jsonl`."""
    (body,) = required_fields(record, request=dict)
    source_model = record.get("model")
    if source_model is not None and not isinstance(source_model, str):
        raise MalformedData(f"field 'model' must be str, got {type(source_model).__name__}")
    return convert_request(body, source, target, source_model=source_model or "", model=model)


def convert_request(body: Record, source: str, target: str, *, source_model: str = "", model: str | None = None) -> Record:
    """Convert a body, with the losses and repairs. The model name is kept unless `model` replaces it."""
    request = decode_request(source, body, model=source_model)
    if model or (source_model and not request.model):
        request = replace(request, model=model or source_model)
    encoded = encode_request(request, resolve_profile(SPECS[target].default_profile, request.model))
    return {"model": request.model, "request": encoded.body, "losses": encoded.losses, "repairs": encoded.repairs}
