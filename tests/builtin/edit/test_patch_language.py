"""The patch language without files: reading it, finding its places, making new content."""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.builtin.edit import patch_language
from toolglot.builtin.edit.patch_language import (
    AddFile,
    Chunk,
    DeleteFile,
    PatchOp,
    PatchOperation,
    UpdateFile,
    apply_placements,
    locate_chunks,
    operation_to_ops,
    parse_patch,
    split_file,
)
from toolglot.common.textutil import render_diff
from toolglot.errors import ToolError
from toolglot.values.failures import PatchFailed

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** End Patch"


def sections(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def chunks_of(*lines: str) -> tuple[Chunk, ...]:
    (op,) = parse_patch(sections("*** Update File: f", *lines))
    assert isinstance(op, UpdateFile)
    return op.chunks


def apply_lines(data: bytes, *lines: str) -> bytes:
    text = data.decode()
    return apply_placements(text, locate_chunks("f", split_file(text)[0], chunks_of(*lines)))[0].encode()


BAD_HUNKS: list[tuple[Any, ...]] = [
    (2, "'*** Rename File: x' is not a valid hunk header. Valid", "*** Rename File: x"),
    (4, "'b' is not a valid hunk header.", "*** Add File: x", "+a", "b"),
    (5, "'+b' is not a valid hunk header.", "*** Add File: x", "+a", "", "+b"),
    (2, "Update file hunk for path 'x' is empty", "*** Update File: x"),
    (2, "Update file hunk for path 'x' is", "*** Update File: x", "*** Move to: y"),
    (4, "Update hunk does not contain any lines", "*** Update File: x", "@@"),
    (4, "Update hunk does not", "*** Update File: x", "@@ a", "*** End of File"),
    (4, "Unexpected line found in update hunk: 'b'.", "*** Update File: x", "@@", "b"),
    (5, "Expected update hunk to start with a @@", "*** Update File: x", "@@", "-b", "c"),
]
"""The line and the message of an error, and the lines of a patch."""


class TestReading:
    def test_every_kind_of_section_is_read(self) -> None:
        text = sections(
            *("*** Add File: new dir/n.txt", "+one", "+", "++plus"),
            "*** Delete File: gone",
            *("*** Update File: u", "*** Move to: v", " first", "-x", "@@ class A:", "@@   def f", "", "+y"),
            *("*** End of File", "@@", "-last"),
        )
        first = Chunk(((" ", "first"), ("-", "x")))
        second = Chunk(((" ", ""), ("+", "y")), ("class A:", "  def f"), at_end=True)
        assert parse_patch(text) == [
            AddFile("new dir/n.txt", "one\n\n+plus\n"),
            DeleteFile("gone"),
            UpdateFile("u", (first, second, Chunk((("-", "last"),))), "v"),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            PATCH,
            f"\n\n {PATCH}  \n\n",
            PATCH.replace("\n", "\r\n"),
            f"<<EOF\n{PATCH}\nEOF",
            f"<<'EOF'\n{PATCH}\nEOF\n",
            f'<<"EOF"\n{PATCH}\nEOF',
            PATCH.replace("*** Begin", "  *** Begin")
            .replace("*** Update", "  *** Update")
            .replace("*** End", "\t*** End"),
            PATCH.replace("@@", "\n\n@@  "),
            PATCH.replace("*** Update", "\n*** Update"),
            PATCH.replace("a.txt", "a.txt  "),
        ],
    )
    def test_what_is_around_a_patch_does_not_matter(self, text: str) -> None:
        assert parse_patch(text) == [UpdateFile("a.txt", (Chunk((("-", "a"), ("+", "b"))),))]

    def test_blank_lines_between_sections_do_not_matter(self) -> None:
        assert parse_patch(
            sections("*** Delete File: a", "", "*** Add File: b", "+x", "", "*** Delete File: c", "")
        ) == [
            DeleteFile("a"),
            AddFile("b", "x\n"),
            DeleteFile("c"),
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "Invalid patch: The first line of the patch must be '*** Begin Patch'"),
            (
                "```\n" + PATCH + "\n```",
                "Invalid patch: The first line of the patch must be '*** Begin Patch'",
            ),
            (
                "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n",
                "Invalid patch: The first line of the patch must be '*** Begin Patch'",
            ),
            ("*** Begin Patch", "Invalid patch: The last line of the patch must be '*** End Patch'"),
            (PATCH + "\nthanks", "Invalid patch: The last line of the patch must be '*** End Patch'"),
            (sections(), "No files were modified."),
            *(
                (sections(*lines), f"Invalid patch hunk on line {number}: {message}")
                for number, message, *lines in BAD_HUNKS
            ),
        ],
    )
    def test_what_is_wrong_is_said_with_its_line(self, text: str, expected: str) -> None:
        with pytest.raises(ToolError) as raised:
            parse_patch(text)
        assert raised.value.kind == "validation"
        assert str(raised.value).startswith(expected)

    @pytest.mark.parametrize(
        ("operation", "op"),
        [
            (PatchOperation("create_file", "n", "+a\n+b\n"), AddFile("n", "a\nb\n")),
            (PatchOperation("create_file", "n", "+a\r\n+b"), AddFile("n", "a\nb\n")),
            (PatchOperation("create_file", "n"), AddFile("n", "")),
            (PatchOperation("delete_file", "n"), DeleteFile("n")),
            (
                PatchOperation("update_file", "n", " a\n-b\n"),
                UpdateFile("n", (Chunk(((" ", "a"), ("-", "b"))),)),
            ),
            (
                PatchOperation("update_file", "n", "@@ x\n@@ y\n-b"),
                UpdateFile("n", (Chunk((("-", "b"),), ("x", "y")),)),
            ),
            (
                PatchOperation("update_file", "n", "-b\n*** End of File"),
                UpdateFile("n", (Chunk((("-", "b"),), at_end=True),)),
            ),
        ],
    )
    def test_an_operation_of_the_hosted_tool_is_the_same_without_an_envelope(
        self, operation: PatchOperation, op: PatchOp
    ) -> None:
        assert operation_to_ops(operation) == [op]


class TestFinding:
    @pytest.mark.parametrize(
        ("file", "lines", "after"),
        [
            ("a\nb\nc\n", ("@@", " a", "-b", "+B"), "a\nB\nc\n"),
            ("a\nb\nc\n", ("-b", "+B"), "a\nB\nc\n"),
            ("b\nx\nb\n", ("@@", "-b", "+B"), "B\nx\nb\n"),  # the first one wins
            ("  b\nx\nb\n", ("@@", "-b", "+B"), "  b\nx\nB\n"),  # unless a later one is exact
            ("b  \nx\n b\n", ("@@", "-b", "+B"), "B\nx\n b\n"),  # blanks at the end matter less
            ("a  \n\tb\n", ("@@", " a", "-b", "+B"), "a  \nB\n"),  # what is kept keeps its blanks
            ("t — “q”\nb\n", ("@@", ' t - "q"', "-b", "+B"), "t — “q”\nB\n"),
            ("it\u2019s\u00a0x\n", ("@@", "-it's x", "+y"), "y\n"),
            ("a\n1\nb\n1\n", ("@@ b", "-1", "+2"), "a\n1\nb\n2\n"),
            ("A\n f\n 1\nB\n f\n 1\n", ("@@ B", "@@ f", "- 1", "+ 2"), "A\n f\n 1\nB\n f\n 2\n"),
            ("A\n f\n 1\nB\n f\n 1\n", ("@@ B", "@@", "@@ f", "- 1", "+ 2"), "A\n f\n 1\nB\n f\n 2\n"),
            ("1\n1\n1\n", ("@@", "-1", "+2", "@@", "-1", "+3"), "2\n3\n1\n"),  # no place is found twice
            ("a\nb\n", ("@@ a", "+end"), "a\nb\nend\n"),  # only added: the end, whatever the anchor says
            ("a\nb\n", ("@@", "+1", "@@", "-a", "+A", "@@", "+2"), "A\nb\n1\n2\n"),
            ("", ("@@", "+one"), "one\n"),
            ("x\ny\nx\ny\n", ("@@", " x", "-y", "+Y", "*** End of File"), "x\ny\nx\nY\n"),
            ("a\nb\nc\n", ("@@", "-b", "+B", "*** End of File"), "a\nB\nc\n"),
            # the end goes before the empty line
            ("b\n\nb\n", ("@@", "-b", "+B", "", "*** End of File"), "b\n\nB\n"),
            ("a\nb\n", ("@@", "-b", "+B", ""), "a\nB\n"),
            ("a\nb\n", ("@@", "-b", "-", "+B", "+"), "a\nB\n"),
            ("a\nb\n", ("@@", " b", "", "+c"), "a\nb\n\nc\n"),
            ("a\n\nb\n", ("@@", " a", "", "-b", "+B"), "a\n\nB\n"),
            ("a\nb", ("@@", "-b", "+B"), "a\nB\n"),
            ("a\nb", ("@@", "+c"), "a\nb\nc\n"),
            ("a\n", ("@@", "-a"), ""),
            ("a\r\nb\r\nc\n", ("@@", "-b", "+B", "+B2"), "a\r\nB\r\nB2\r\nc\n"),
            ("a\nb\nc\r\n", ("@@", " c", "+d"), "a\nb\nc\r\nd\n"),
            ("a\rb\rc", ("@@", " a", "-b", "+B"), "a\rB\rc\r"),  # a return alone is a line ending too
            ("a\nb\rc\r\nd\n", ("@@", "-b", "+B", " c", "+x"), "a\nB\nc\r\nx\nd\n"),
            ("a\rb\nc\n", ("@@", "-a\rb", "+x"), "x\rc\n"),  # as `read` shows it
            ("a\r\r\nb\n", ("@@", " a\r\r", "-b", "+c\rd"), "a\r\r\nc\rd\r"),
            ("a\r\nb\nc\n", ("@@", "-b", "+B"), "a\r\nB\r\nc\n"),  # the first ending counts
            ("a\u2028b\x0cc\nd\n", ("@@", "-a\u2028b\x0cc", "+x"), "x\nd\n"),  # other separators end no line
        ],
    )
    def test_chunks_are_put_where_they_belong(self, file: str, lines: tuple[str, ...], after: str) -> None:
        assert apply_lines(file.encode(), *lines).decode() == after

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            (
                ("@@", "-zzz"),
                "expected lines in f:\nzzz\n(No line of the file from line 1 on equals the first",
            ),
            (("@@", "-wait..."), "expected lines in f:\nwait..."),
            (
                ("@@", "-e", "@@", "-a"),
                "expected lines in f:\na\n(They are at line 1, before the previous match",
            ),
            (
                ("@@", " a", " b", "-x"),
                "expected lines in f:\na\nb\nx\n(The file has the first 2 of them at line 1, ",
            ),
            (
                ("@@", " e", "-f"),
                "expected lines in f:\ne\nf\n(The file has the first 1 of them at line 5, but then",
            ),
            (("@@ zzz", "-a"), "context 'zzz' in f: write a whole line of the file after @@"),
            (("@@ -1,2 +1,2 @@", "-a"), "context '-1,2 +1,2 @@' in f"),
            (("@@ e", "@@ a", "-b"), "context 'a' in f: it is at line 1, before the previous match"),
            (("@@ a", "-a"), "expected lines in f:\na\n(They are at line 1"),
        ],
    )
    def test_what_is_not_there_is_said_with_what_is(self, lines: tuple[str, ...], expected: str) -> None:
        with pytest.raises(ToolError) as raised:
            apply_lines("a\nb\nc\nd\ne\nwait…\n".encode(), *lines)
        assert str(raised.value).startswith(f"Failed to find {expected}")
        assert isinstance(raised.value.details, PatchFailed)
        assert (raised.value.code, raised.value.details.path) == ("patch_failed", "f")

    @pytest.mark.parametrize("block", [20_000, 3])
    def test_equal_lines_are_compared_once(self, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        compared = count_comparisons(monkeypatch)
        chunks = [Chunk((*((" ", "same ") for _ in range(block)), ("-", "other")))]
        with pytest.raises(ToolError):
            locate_chunks("f", ["same"] * 40_000, chunks)
        # The file once for each comparison; the block for the search, for the hint, and for its bisection.
        assert sum(compared) <= 4 * (40_000 + 20 * (block + 1))

    def test_many_chunks_do_not_compare_the_file_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compared = count_comparisons(monkeypatch)
        lines = [f"line {number}" for number in range(20_000)]
        chunks = [Chunk((("-", f"  line {number} "), ("+", "x"))) for number in range(0, 20_000, 50)]
        assert [start for start, _ in locate_chunks("f", lines, chunks)] == list(range(0, 20_000, 50))
        assert sum(compared) <= 4 * (len(lines) + len(chunks))


def count_comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often each comparison looks at a line."""
    comparisons = patch_language._COMPARISONS  # pyright: ignore[reportPrivateUsage]
    counts = [0] * len(comparisons)

    def counting(level: int, normalize: Callable[[str], str]) -> Callable[[str], str]:
        def count(line: str) -> str:
            counts[level] += 1
            return normalize(line)

        return count

    monkeypatch.setattr(
        patch_language, "_COMPARISONS", tuple(counting(*pair) for pair in enumerate(comparisons))
    )
    return counts


TEXT = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=6)
FEW = st.sampled_from(
    ["", "a", "b", " a", "a ", "\ta", "-", "+x", "@@", "***", "*** End Patch", "—", "\u00a0"]
)
LINES = st.lists(TEXT | FEW, max_size=12)


def diff_lines(old: Sequence[str], new: Sequence[str], context: int | None) -> list[str]:
    """Chunks that turn one file into another, with so many lines around each; None: one chunk with the whole
    file.
    """
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    groups = [matcher.get_opcodes()] if context is None else matcher.get_grouped_opcodes(context)
    diff: list[str] = []
    for group in groups:
        diff.append("@@")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                diff += [f" {line}" for line in old[start:end]]
            else:
                diff += [f"-{line}" for line in old[start:end]] + [
                    f"+{line}" for line in new[new_start:new_end]
                ]
    return diff


def text_of(lines: Sequence[str], newline: str = "\n") -> str:
    return "".join(line + newline for line in lines)


def read_or_refused(text: str) -> list[PatchOp]:
    """The operations of a text; none where it is refused. Any other error is the caller's failure."""
    try:
        return parse_patch(text)
    except ToolError:
        return []


class TestProperties:
    @given(LINES, LINES, st.sampled_from(["\n", "\r\n", "\r"]))
    def test_a_whole_diff_makes_the_new_file(self, old: list[str], new: list[str], newline: str) -> None:
        if old == new or not old:
            newline = "\n"
        if old == new == []:
            return
        data = text_of(old, newline).encode()
        assert apply_lines(data, *diff_lines(old, new, None)) == text_of(new, newline).encode()

    @given(
        st.lists(st.integers(0, 30), unique=True, min_size=1),
        st.lists(st.integers(0, 60), max_size=30),
        st.integers(1, 3),
    )
    def test_a_diff_with_few_lines_around_makes_the_new_file(
        self, old: list[int], new: list[int], context: int
    ) -> None:
        before, after = [f"<{number}>" for number in old], [f"<{number}>" for number in new]
        if lines := diff_lines(before, after, context):
            assert apply_lines(text_of(before).encode(), *lines) == text_of(after).encode()

    @given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["added", ""]))
    def test_text_that_is_kept_stays_as_it_is(self, before: str, text: str) -> None:
        got = apply_lines(before.encode(), "@@", f"+{text}").decode()
        assert got.startswith(before)
        assert got.endswith((f"{text}\n", f"{text}\r\n", f"{text}\r"))

    @given(st.data())
    def test_any_text_is_a_patch_or_refused_with_our_error(self, data: st.DataObject) -> None:
        lines = sections(
            "*** Add File: n",
            "+x",
            "*** Update File: u",
            "*** Move to: v",
            "@@ c",
            " a",
            "-b",
            "*** End of File",
        )
        parts = lines.split("\n")
        pieces = st.sampled_from(
            [*parts, "", " ", "@@", "***", "\0", "<<EOF", "EOF", "+", "x", "\r"]
        ) | st.text(max_size=5)
        mixed = data.draw(st.lists(pieces, max_size=12))
        text = "\n".join(mixed if data.draw(st.booleans()) else ["*** Begin Patch", *mixed, "*** End Patch"])
        read_or_refused(text)

    @given(st.integers(0, 200), st.integers(0, 200), st.text(max_size=3))
    def test_a_patch_that_was_damaged_is_read_or_refused(self, start: int, size: int, put: str) -> None:
        text = sections(
            "*** Add File: n",
            "+x",
            "*** Update File: u",
            "*** Move to: v",
            "@@ c",
            " a",
            "-b",
            "*** End of File",
        )
        read_or_refused(text[:start] + put + text[start + size :])

    @given(LINES, LINES)
    def test_the_diff_for_people_has_the_lines_of_the_change(self, old: list[str], new: list[str]) -> None:
        if not old or old == new:
            return
        _, edits = apply_placements(
            text_of(old), locate_chunks("f", old, chunks_of(*diff_lines(old, new, None)))
        )
        diff = render_diff("f", "f", old, edits).split("\n")[2:-1]
        assert [line[1:] for line in diff if line[0] == "-"] == [
            line for edit in edits for line in edit.removed
        ]
        assert [line[1:] for line in diff if line[0] == "+"] == [
            line for edit in edits for line in edit.added
        ]
        assert [line for line in diff if line[0] not in "+- @"] == []


def test_the_diff_for_people_is_what_difflib_says_where_changes_are_far_apart() -> None:
    old = [f"line {number}" for number in range(60)]
    new = ["new", *old[:20], "changed", *old[21:24], *old[25:50], "more", "and more", *old[50:]]
    _, edits = apply_placements(text_of(old), locate_chunks("f", old, chunks_of(*diff_lines(old, new, 2))))
    assert (
        render_diff("f", "g", old, edits)
        == "\n".join(difflib.unified_diff(old, new, "f", "g", lineterm="")) + "\n"
    )
