"""What Chat Completions and Responses share."""

from collections.abc import Iterable
from typing import Any

from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.values.messages import Block, Message, Origin, Usage
from toolglot.values.request import Output, ToolChoice
from toolglot.wire.json_values import Doc, as_dict, as_int, as_text, unknown_fields
from toolglot.wire.writer import Writer

# Request fields with the same meaning on both wires: they survive a conversion between the two.
_SHARED_FIELDS = {
    *(
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    )
}


def decode_output(format: Doc, schema_key: str = "") -> Output | None:
    """Decode `response_format` (Chat nests the schema under `schema_key`) or `text.format` (Responses)."""
    match format.get("type"):
        case "json_object":
            return Output()
        case "json_schema":
            shape = as_dict(format.get(schema_key)) if schema_key else format
            name = as_text(shape.get("name")) or "output"
            return Output(
                as_dict(shape.get("schema")), name, as_text(shape.get("description")), shape.get("strict")
            )
        case _:
            return None


def decode_usage(usage: Doc, sent: str, received: str) -> Usage:
    """Decode usage: prompt and completion tokens (Chat), or input and output tokens (Responses)."""
    details = as_dict(usage.get(f"{sent}_tokens_details"))
    return Usage(
        input=as_int(usage.get(f"{sent}_tokens")),  # includes the cached ones
        output=as_int(usage.get(f"{received}_tokens")),
        # DeepSeek
        cached=as_int(details.get("cached_tokens")) or as_int(usage.get("prompt_cache_hit_tokens")),
        cache_write=as_int(details.get("cache_write_tokens")),
        reasoning=as_int(as_dict(usage.get(f"{received}_tokens_details")).get("reasoning_tokens")),
    )


def choose_among(mode: Any, names: tuple[str, ...]) -> ToolChoice:
    """Return the choice of `allowed_tools`."""
    if mode == "required":
        return ToolChoice("required", names)
    return ToolChoice("auto", names)


def decode_extras(fields: Doc, wire: str) -> dict[str, Doc]:
    """Sort fields without a neutral form by the wire, or the family of wires, that understands them."""
    extras: dict[str, Doc] = {}
    for key, value in fields.items():
        family = "openai" if key in _SHARED_FIELDS else wire
        extras.setdefault(family, {})[key] = value
    return extras


def decode_message(message: Doc, blocks: Iterable[Block], origin: Origin) -> Message:
    """Decode a message of a user, or of a system or developer.

    Text of an unknown role must not become an instruction.
    """
    written_role = as_text(message.get("role"))
    role = "system" if written_role in ("system", "developer") else "user"
    opaque = unknown_fields(message, ("role", "content")) or {}
    if role != written_role:
        opaque["role"] = written_role
    return Message(role, tuple(blocks), origin, opaque or None)


def encode_output_schema(output: Output, writer: Writer) -> Doc:
    """Encode name, schema, description and strictness, which both wires send alike."""
    strict = output.strict
    if strict and not writer.profile.strict_dialect:
        writer.record_loss("strict", f"{writer.profile.title} has no strict mode", at="output")
        strict = None  # omitted: the server would refuse it
    schema = output.schema or {}
    if strict:
        lowered = lower(
            output.schema, getattr(dialects, writer.profile.strict_dialect), tool_name=output.name
        )
        writer.losses.extend(lowered.losses)
        schema = lowered.schema
    shape: Doc = {"name": output.name, "schema": schema}
    if output.description:
        shape["description"] = output.description
    return shape if strict is None else {**shape, "strict": strict}
