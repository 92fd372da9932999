"""Text helpers that every layer shares; diffs are tested with the text files."""

import pytest

from toolglot.common.media_types import detect_media
from toolglot.common.textutil import did_you_mean, pluralize, suggest, truncate
from toolglot.values.failures import InvalidArgument, invalid_argument


def test_similar_names_are_suggested_best_first() -> None:
    assert suggest("shel", ["write", "shelf", "shell_output", "shell"]) == ["shell", "shelf"]
    assert did_you_mean(["read", "reed"]) == "did you mean 'read' or 'reed'?"
    assert did_you_mean(suggest("xyz", ["read"])) == ""


def test_a_text_is_truncated_and_counts_have_their_noun() -> None:
    assert [truncate("abc", limit) for limit in (2, 3)] == ["ab…", "abc"]
    assert [pluralize(count, "line") for count in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
    assert pluralize(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("head", "media"),
    [
        (b"\x89PNG\r\n\x1a\n", ("image", "image/png")),
        (b"RIFF\0\0\0\0WEBPVP8 ", ("image", "image/webp")),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (b"%PDF-1.7", ("file", "application/pdf")),
        (b"text", None),
    ],
)
def test_media_are_recognised_by_their_first_bytes(head: bytes, media: tuple[str, str] | None) -> None:
    assert detect_media(head) == media


def test_an_invalid_argument_is_a_sentence_with_its_parts() -> None:
    error = invalid_argument("end_line", "is 3, before the start line 5", kind="limit")
    assert (str(error), error.kind, error.code) == (
        "end_line is 3, before the start line 5",
        "limit",
        "invalid_argument",
    )
    assert error.details == InvalidArgument("end_line", "is 3, before the start line 5")
