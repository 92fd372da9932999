"""What Chat Completions and Responses share."""

from toolglot.request import Output
from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.wire.json_values import Doc, as_dict, as_text
from toolglot.wire.writer import Writer

__all__ = ["SHARED_FIELDS", "decode_output", "encode_output_schema"]

# Request fields that mean the same on both.
SHARED_FIELDS = {
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "prompt_cache_retention",
}


def decode_output(format: Doc, schema_key: str = "") -> Output | None:
    """`response_format` (chat: the shape lies in `json_schema`) or `text.format` (responses)."""
    match format.get("type"):
        case "json_object":
            return Output()
        case "json_schema":
            shape = as_dict(format.get(schema_key)) if schema_key else format
            name = as_text(shape.get("name")) or "output"
            return Output(as_dict(shape.get("schema")), name, as_text(shape.get("description")), shape.get("strict"))
        case _:
            return None


def encode_output_schema(output: Output, writer: Writer) -> tuple[Doc, bool | None]:
    """The output's schema, and whether it binds the model."""
    strict = output.strict
    if strict and not writer.profile.strict_dialect:
        writer.record_loss("strict", "output", f"{writer.profile.title} has no strict mode")
        strict = None
    if not strict:
        return output.schema or {}, strict
    lowered = lower(output.schema, getattr(dialects, writer.profile.strict_dialect), tool_name=output.name)
    writer.losses.extend(lowered.losses)
    return lowered.schema, True
