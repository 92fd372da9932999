"""Bytes as text and back, line ends, differences."""

import codecs
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.builtin.files.text import (
    Document,
    check_text,
    convert_newlines,
    decode_document,
    detect_newline,
)
from toolglot.common.textutil import excerpt_changes, number_lines, split_lines, unified_diff
from toolglot.errors import ToolError

FORMS = [
    Document("", "utf-8"),
    Document("", "utf-8", bom=True),
    Document("", "utf-16-le", bom=True),
    Document("", "utf-16-be", bom=True),
    Document("", "utf-32-le", bom=True),
    Document("", "utf-32-be", bom=True),
]
plain = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff") | st.sampled_from("\r\n\t")
)
lines = st.lists(st.sampled_from(["", "a", "b", "  c", "d\t"]), max_size=12)


class TestBytes:
    @given(st.binary(max_size=300))
    def test_what_is_text_comes_back_byte_for_byte(self, data: bytes):
        document = decode_document(data)
        if document is not None:
            assert document.encode(document.text) == data

    @given(
        st.binary(max_size=60), st.sampled_from([codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF8])
    )
    def test_also_behind_a_mark(self, data: bytes, mark: bytes):
        document = decode_document(mark + data)
        if document is not None:
            assert document.encode(document.text) == mark + data

    @pytest.mark.parametrize("form", FORMS, ids=str)
    @given(text=plain)
    def test_every_text_survives_every_form(self, form: Document, text: str):
        document = decode_document(form.encode(text))
        if not text.startswith("\0"):
            assert document == Document(text, form.encoding, form.bom)

    @pytest.mark.parametrize(
        ("data", "encoding", "text"),
        [
            (b"plain\n", "utf-8", "plain\n"),
            ("grün\n".encode(), "utf-8", "grün\n"),
            (b"gr\xfcn\n", "windows-1252", "grün\n"),
            (b"\x93quoted\x94 \x80 5\n", "windows-1252", "\u201cquoted\u201d € 5\n"),
            (b"odd \x81\n", "windows-1252", "odd \x81\n"),
            (b"", "utf-8", ""),
            (codecs.BOM_UTF8 + b"x", "utf-8", "x"),
            ("\ufeffhi\n".encode("utf-16-le"), "utf-16-le", "hi\n"),
        ],
    )
    def test_an_encoding_is_found(self, data: bytes, encoding: str, text: str):
        document = decode_document(data)
        assert document is not None
        assert (document.encoding, document.text) == (encoding, text)

    @pytest.mark.parametrize(
        "data",
        [
            b"a\0b",
            b"text " * 20_000 + b"\0",
            bytes(range(32)) * 4,
            b"\x7fELF\x01\x01\x00",
            codecs.BOM_UTF16_LE + b"a",
            codecs.BOM_UTF16_LE + b"a\0\0\0",
            codecs.BOM_UTF32_BE + b"\xff\xff\xff\xff",
        ],
        ids=repr,
    )
    def test_what_is_not_text_is_none(self, data: bytes):
        assert decode_document(data[:200] if len(data) < 200 else data) is None

    @pytest.mark.parametrize("text", ["→", "\x80", "日本"])
    def test_a_character_that_the_encoding_lacks_is_named(self, text: str):
        with pytest.raises(ToolError, match=rf"windows-1252, which has no U\+{ord(text[0]):04X}"):
            Document("", "windows-1252").encode(f"gr\xfcn {text}")

    @pytest.mark.parametrize(
        ("text", "words"), [("a\0", "NUL"), ("\ud800", "unpaired surrogate"), ("x" * 11, "maximum is 10")]
    )
    def test_what_no_text_file_holds_is_refused(self, text: str, words: str):
        with pytest.raises(ToolError, match=words):
            check_text(text, "`content`", 10)


class TestLines:
    @pytest.mark.parametrize(
        ("text", "newline", "lines"),
        [
            ("", "none", []),
            ("a", "none", ["a"]),
            ("a\n", "lf", ["a"]),
            ("a\r\nb\r\n", "crlf", ["a", "b"]),
            ("a\r\nb\n", "mixed", ["a", "b"]),
            ("a\rb", "none", ["a\rb"]),
            ("\n\n", "lf", ["", ""]),
            ("a\u2028b\x0cc\x85d\n", "lf", ["a\u2028b\x0cc\x85d"]),
        ],
    )
    def test_a_line_endings_at_a_line_feed_only(self, text: str, newline: str, lines: list[str]):
        assert (detect_newline(text), split_lines(text)) == (newline, lines)

    def test_line_endings_become_those_of_a_file(self):
        assert convert_newlines("a\nb\r\n", "crlf") == "a\r\nb\r\n"
        assert convert_newlines("a\nb\r\n", "lf") == "a\nb\n"
        assert convert_newlines("a\nb\r\n", "mixed") == "a\nb\r\n"

    def test_lines_have_numbers(self):
        assert number_lines(["a", ""], 9) == "9\ta\n10\t"


def apply_diff(before: str, diff: str) -> str:
    """A small patch program."""
    old = before.split("\n")[:-1] if before.endswith("\n") else before.split("\n") if before else []
    new: list[str] = []
    at = 0
    unended = False
    body = diff.split("\n")[2:-1]
    for i, line in enumerate(body):
        if header := re.match(r"@@ -(\d+)(?:,(\d+))? \+", line):
            start = int(header[1]) - (0 if header[2] == "0" else 1)
            new, at = new + old[at:start], start
        elif line.startswith("\\"):
            unended = unended or body[i - 1][:1] in "+ "
        elif line.startswith("-"):
            assert old[at] == line[1:]
            at += 1
        elif line.startswith(" "):
            assert old[at] == line[1:]
            new.append(old[at])
            at += 1
        else:
            new.append(line[1:])
    tail = old[at:]
    unended = unended or (bool(tail) and not before.endswith("\n"))
    new += tail
    return "\n".join(new) + ("" if unended or not new else "\n")


class TestDifferences:
    @given(lines, lines, st.booleans(), st.booleans())
    def test_a_diff_says_exactly_the_change(
        self, before_lines: list[str], other: list[str], ended: bool, other_ended: bool
    ):
        before = "\n".join(before_lines) + ("\n" if before_lines and ended else "")
        after = "\n".join(other) + ("\n" if other and other_ended else "")
        diff = unified_diff(before, after, "f")
        if before == after:
            assert diff == ""
        else:
            assert apply_diff(before, diff) == after

    def test_it_reads_as_people_know_it(self):
        before = "".join(f"{n}\n" for n in range(1, 21))
        diff = unified_diff(before, before.replace("10\n", "ten\n"), "a.txt")
        assert diff == "--- a.txt\n+++ a.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"

    def test_places_that_are_far_apart_are_hunks_of_their_own(self):
        before = "".join(f"{n}\n" for n in range(1, 41))
        diff = unified_diff(before, before.replace("5\n", "five\n", 1).replace("36\n", "x\n"), "f")
        assert diff.count("@@ -") == 2

    @pytest.mark.parametrize(
        ("changes", "excerpt"),
        [
            ({"10\n": "ten\n"}, "... 5 6 7 8 9 ten 11 12 13 14 15 ..."),
            ({"10\n": ""}, "... 5 6 7 8 9 11 12 13 14 15 ..."),
            ({"2\n": "two\n", "19\n": "x\n"}, "1 two 3 4 5 6 7 ... 14 15 16 17 18 x 20 21 22 23 24 ..."),
            ({"30\n": "30"}, " ".join(map(str, range(1, 31)))),
            ({"27\n": "y\n"}, "... 22 23 24 25 26 y 28 29 30 "),
            ({"26\n": "y\n"}, "... 21 22 23 24 25 y 27 28 29 30 "),
            ({"25\n": "y\n"}, "... 20 21 22 23 24 y 26 27 28 29 30 ..."),
            ({}, " ".join(map(str, range(1, 31))) + " "),
        ],
    )
    def test_an_excerpt_shows_what_is_around_each_change(self, changes: dict[str, str], excerpt: str):
        before = "".join(f"{n}\n" for n in range(1, 31))
        after = before
        for old, new in changes.items():
            after = after.replace(f"\n{old}", f"\n{new}", 1)
        assert excerpt_changes(before, after) == excerpt.replace(" ", "\n")
        assert excerpt_changes("", after) == after

    def test_a_new_file_comes_from_nothing(self):
        assert (
            unified_diff("", "a\nb", "f")
            == "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        )

    def test_a_huge_change_is_cut_and_takes_no_time(self):
        diff = unified_diff("a\n" * 300_000, "b\n" * 300_000, "f")
        assert len(diff) < 110_000
        assert diff.endswith("omitted\n")
