"""Files in a prompt: what is meant as one is attached, and every other word stays a word."""

import base64
import os
from pathlib import Path

import pytest
from tests.cli.cli_kit import Patch

from toolglot.cli.attachments import find_mentions
from toolglot.errors import UsageError
from toolglot.loop.attachments import load_attachment
from toolglot.values.messages import Media, Text


@pytest.fixture(autouse=True)
def directory(isolated_home: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("HOME", str(isolated_home))
    for name in ("notes.txt", "my notes.txt", "a.py", "Makefile", "data (1).csv", "what?"):
        (isolated_home / name).write_text(f"content of {name}")
    (isolated_home / "docs").mkdir()
    (isolated_home / "docs" / "guide.md").write_text("# Guide")
    (isolated_home / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    Path("~/notes.txt").expanduser().write_text("notes at home")
    return isolated_home


def names(text: str) -> list[str]:
    """Of the files that a prompt mentions."""
    return [mention.path.name for mention in find_mentions(text) if mention.path is not None]


def _never(path: Path) -> bytes:
    raise AssertionError(f"{path} was read")


class TestKinds:
    @pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif"])
    def test_an_image_that_is_none_is_refused(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"<html>")
        with pytest.raises(UsageError, match="is not a valid image/"):
            load_attachment(tmp_path / name)

    @pytest.mark.parametrize(
        ("name", "data", "kind", "media_type"),
        [
            ("a.png", b"\x89PNG\r\n\x1a\n", "image", "image/png"),
            ("a.JPG", b"\xff\xd8\xff", "image", "image/jpeg"),
            ("a.wav", b"RIFF", "audio", "audio/"),
            ("a.mp4", b"ftyp", "video", "video/mp4"),
            ("a.pdf", b"%PDF", "file", "application/pdf"),
            ("a.bin", b"\x00\xff\xfe", "file", "application/octet-stream"),
            ("no_ending", b"\xff\xfe\x00", "file", "application/octet-stream"),
        ],
    )
    def test_what_is_no_text_is_media(
        self, tmp_path: Path, name: str, data: bytes, kind: str, media_type: str
    ) -> None:
        (tmp_path / name).write_bytes(data)
        block = load_attachment(tmp_path / name)
        assert isinstance(block, Media)
        assert (block.kind, block.name) == (kind, name)
        assert block.media_type.startswith(media_type)
        assert base64.b64decode(block.data or "") == data

    @pytest.mark.parametrize(
        ("name", "data", "text"),
        [
            *(
                (name, "grüße\n".encode(), "grüße\n")
                for name in ("a.txt", "a.py", "a.json", "a.unknown", "LICENSE", "a.csv")
            ),
            ("latin.txt", b"caf\xe9", "café"),
            ("empty", b"", ""),
        ],
    )
    def test_text_is_text_with_its_name(self, tmp_path: Path, name: str, data: bytes, text: str) -> None:
        (tmp_path / name).write_bytes(data)
        assert load_attachment(tmp_path / name) == Text(f"[{name}]\n{text}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "cannot read attachment 'nowhere': No such file"),
        ("docs", "'docs': Is a directory"),
        ("huge.bin", "20,000,001 bytes, the limit is 20,000,000"),
        pytest.param(
            "pipe",
            "not a regular file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes"),
        ),
        ("nul\x00", "cannot read"),
        ("x" * 5_000, "cannot read"),
    ],
)
def test_what_cannot_be_attached_is_not_read(
    name: str, message: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(20_000_001)
    if name == "pipe":
        os.mkfifo(tmp_path / "pipe")
    if name in ("huge.bin", "pipe"):
        monkeypatch.setattr(Path, "read_bytes", _never)
    with pytest.raises(UsageError, match=message):
        load_attachment(Path(name))


class TestInAPrompt:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("look at @notes.txt please", ["notes.txt"]),
            ("@notes.txt", ["notes.txt"]),
            ("compare @notes.txt with @a.py", ["notes.txt", "a.py"]),
            ("@docs/guide.md", ["guide.md"]),
            ("@./notes.txt", ["notes.txt"]),
            ("@~/notes.txt", ["notes.txt"]),
            ('read @"my notes.txt" now', ["my notes.txt"]),
            ("read @'my notes.txt' now", ["my notes.txt"]),
            ("first\n@notes.txt\nlast", ["notes.txt"]),
            ("is @dot.png nice?", ["dot.png"]),
            ("@notes.txt and again @notes.txt", ["notes.txt"]),
            ('@"data (1).csv"', ["data (1).csv"]),
            ("@what?", ["what?"]),
            ('@"what?"', ["what?"]),
            *(
                (f"see {text} first", ["notes.txt"])
                for text in ("(@notes.txt)", '"@notes.txt"', "[@notes.txt]")
            ),
            *((f"look at @notes.txt{mark}", ["notes.txt"]) for mark in (*",;:!?.)\"']", "...", "?!")),
        ],
    )
    def test_a_path_after_an_at_is_attached(self, text: str, expected: list[str]) -> None:
        assert names(text) == expected
        assert not any(mention.is_prompt for mention in find_mentions(text))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "hello",
            "@nobody said so",
            "write to user@notes.txt",
            "user@host",
            "a @ b",
            "@",
            "@docs",
            "@property",
            "@app.route('/')",
            "@~nosuchuser",
            "@~nosuchuser/notes.txt",
            '@""',
            "@nul\x00x",
            "@" + "x" * 5_000,
            "@//",
            "notes.txt",
        ],
    )
    def test_any_other_word_stays_a_word(self, text: str) -> None:
        assert names(text) == []


class TestDropped:
    @pytest.mark.parametrize(
        "form",
        [
            "{0}/notes.txt",
            "'{0}/my notes.txt'",
            '"{0}/my notes.txt"',
            "{0}/my\\ notes.txt",
            " {0}/notes.txt \n",
            "~/notes.txt",
            "./notes.txt",
            "file://{0}/notes.txt",
            "file://{0}/my%20notes.txt",
        ],
    )
    def test_a_path_alone_is_a_file_that_was_dropped(self, tmp_path: Path, form: str) -> None:
        (mention,) = find_mentions(form.format(tmp_path))
        assert mention.is_prompt
        assert mention.path is not None
        assert mention.path.name in ("notes.txt", "my notes.txt")

    @pytest.mark.parametrize(
        "text",
        [
            "/",
            "~",
            "/nowhere",
            "./docs",
            "~nosuchuser",
            "~5",
            "/it's",
            "'/unclosed",
            "{0}/notes.txt is what?",
            "{0}/a.py {0}/notes.txt",
        ],
    )
    def test_anything_else_is_a_prompt(self, tmp_path: Path, text: str) -> None:
        text = text.format(tmp_path)
        assert find_mentions(text) == []
