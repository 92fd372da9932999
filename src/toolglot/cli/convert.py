"""`toolglot convert`: a provider's request body as another provider's."""

from msgspec.structs import replace

from toolglot.cli.jsonl import Record, required_fields
from toolglot.errors import MalformedData
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Request
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS

__all__ = ["convert_line", "convert_request"]


def convert_line(source: str, target: str, model: str | None, record: Record) -> Record:
    """One line of `--jsonl`."""
    (body,) = required_fields(record, request=dict)
    named = record.get("model")
    if named is not None and not isinstance(named, str):
        raise MalformedData(f"field 'model' must be str, got {type(named).__name__}")
    return convert_request(body, source, target, source_model=named or "", model=model)


def convert_request(body: Record, source: str, target: str, *, source_model: str = "", model: str | None = None) -> Record:
    """A body of one wire as a body of another, with what was lost and mended. The model is kept unless one is given."""
    request: Request = decode_request(source, body, model=source_model)
    if model or (source_model and not request.model):
        request = replace(request, model=model or source_model)
    encoded = encode_request(request, resolve_profile(SPECS[target].default_profile, request.model))
    return {"model": request.model, "request": encoded.body, "losses": encoded.losses, "repairs": encoded.repairs}
