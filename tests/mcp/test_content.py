"""Media of servers: what providers would refuse is left out, since it would end the conversation."""

from base64 import b64encode

import pytest

from toolglot.mcp.client.content import make_media
from toolglot.values.messages import Media, Text

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 80).decode()
JUNK = b64encode(b"garbage, not an image").decode()


@pytest.mark.parametrize(
    ("data", "media_type", "kind", "reason"),
    [
        ("", "image/png", "image", "it is empty"),
        ("", "audio/wav", "audio", "it is empty"),
        ("***", "image/png", "image", "not base64"),
        (JUNK, "image/png", "image", "models cannot view its data"),
        (JUNK, "image/png", "", "models cannot view its data"),
        (JUNK, "application/pdf", "", "models cannot view its data"),
        ("PHN2Zy8+", "image/svg+xml", "image", "models cannot view its data"),
        ("JVBERi0=", "image/png", "image", "its data is application/pdf"),
    ],
)
def test_bad_media_is_left_out(data: str, media_type: str, kind: str, reason: str) -> None:
    part = make_media(data, media_type, kind=kind)
    assert isinstance(part, Text)
    assert part.text.startswith(f"[{kind or 'a file'} ({media_type}) was left out: ")
    assert reason in part.text


def test_good_media_is_kept() -> None:
    broken_lines = "\r\n".join([PNG[:76], PNG[76:], ""])
    assert make_media(broken_lines, "image/jpeg", kind="image") == Media("image", "image/png", PNG)
    assert make_media(JUNK, "Audio/WAV; rate=8000", kind="audio") == Media("audio", "audio/wav", JUNK)
    assert make_media(JUNK, "evil\r\nx: y", name="a") == Media(
        "file", "application/octet-stream", JUNK, name="a"
    )
