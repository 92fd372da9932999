"""Messages of an AWS event stream, as Bedrock sends them."""

import base64
from zlib import crc32

from toolglot.common.jsontext import dumps


def encode_aws_event(data: bytes, event: str = "chunk") -> bytes:
    """Encode one AWS message that wraps the data as Bedrock does."""
    payload = dumps({"bytes": base64.b64encode(data).decode()})
    fields = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in fields.items()
    )
    prelude = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + headers + payload
    return message + crc32(message).to_bytes(4, "big")
