"""Media as URLs and back, their kinds, types and texts."""

import base64

import pytest

from toolglot.values.messages import Media, MediaKind, Opaque
from toolglot.wire.media import extract_file_text, guess_media_type, media_from_url, media_kind, to_data_url

HELLO = base64.b64encode(b"hello").decode()


@pytest.mark.parametrize(("media", "url"), [
    (Media("image", "image/png", "AAAA"), "data:image/png;base64,AAAA"),
    (Media("file", data="AAAA"), "data:application/octet-stream;base64,AAAA"),
    (Media("image", "image/png", "", "http://x/y"), "data:image/png;base64,"),
    (Media("image", url="http://x/y.png"), "http://x/y.png"),
    (Media("file", file_id="file-1"), None),
])  # fmt: skip
def test_data_url(media: Media, url: str | None) -> None:
    assert to_data_url(media) == url


@pytest.mark.parametrize(("kind", "url", "extra", "media"), [
    ("image", "data:image/png;base64,AAAA", None, Media("image", "image/png", "AAAA")),
    ("image", "http://x/y,z.png", {"detail": "low"},
        Media("image", url="http://x/y,z.png", opaque={"more": {"detail": "low"}})),
    ("file", "data:image/png;base64,AAAA", None, Media("image", "image/png", "AAAA")),
    ("file", "data:application/pdf;base64,AAAA", None, Media("file", "application/pdf", "AAAA")),
    ("image", "data:image/svg+xml,<svg/>", None, Media("image", url="data:image/svg+xml,<svg/>")),
    ("image", "data:image/png;base64", None, Media("image", url="data:image/png;base64")),
])  # fmt: skip
def test_from_url(kind: MediaKind, url: str, extra: Opaque | None, media: Media) -> None:
    assert media_from_url(kind, url, extra=extra) == media


def test_from_url_keeps_the_name() -> None:
    assert media_from_url("file", "data:application/pdf;base64,AAAA", name="a.pdf").name == "a.pdf"
    assert media_from_url("file", "http://x/a", name="a.pdf").name == "a.pdf"


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/png", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("text/plain", "file"),
        ("", "file"),
    ],
)
def test_kind_of(media_type: str, kind: str) -> None:
    assert media_kind(media_type) == kind


@pytest.mark.parametrize(("media", "text"), [
    (Media("file", "text/plain", HELLO), "hello"),
    (Media("file", "text/csv", HELLO, name="a.csv"), "[file a.csv]\nhello"),
    (Media("file", "application/json", HELLO), "hello"),
    (Media("file", "application/xml", HELLO), "hello"),
    (Media("file", "application/pdf", HELLO), None),
    (Media("file", "text/plain", url="http://x"), None),
    (Media("file", "text/plain", "no base64!"), None),
    (Media("file", "text/plain", base64.b64encode(b"\xff\xfe").decode()), None),
], ids=["plain", "named", "json", "xml", "not textual", "no bytes", "no base64", "no UTF-8"])  # fmt: skip
def test_text_of(media: Media, text: str | None) -> None:
    assert extract_file_text(media) == text


@pytest.mark.parametrize(("media", "media_type"), [
    (Media("image", data="/9j/4AAQ"), "image/jpeg"),
    (Media("image", data="iVBORw0KGgo="), "image/png"),
    (Media("image", data="R0lGODlh"), "image/gif"),
    (Media("image", data="UklGRiQA"), "image/webp"),
    (Media("image", url="http://x/y.webp?size=1"), "image/webp"),
    (Media("file", data="AAAA", name="notes.txt"), "text/plain"),
    (Media("image", data="AAAA"), "image/jpeg"),
    (Media("audio", data="AAAA"), "audio/mpeg"),
    (Media("video", url="gs://bucket/film"), "video/mp4"),
    (Media("file", file_id="file-1"), "application/pdf"),
])  # fmt: skip
def test_guessed_type(media: Media, media_type: str) -> None:
    assert guess_media_type(media) == media_type
