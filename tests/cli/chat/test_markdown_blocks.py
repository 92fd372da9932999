"""Markdown in pieces: what comes out is what went in, whole blocks at a time."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.cli_kit import Patch

from toolglot.cli.chat import markdown_blocks as module
from toolglot.cli.chat.markdown_blocks import BlockSplitter

LINES = st.sampled_from(
    [
        "words of a paragraph",
        "",
        "   ",
        "- item",
        "* other item",
        "  under an item",
        "1. first",
        "2) second",
        "# title",
        "> quoted",
        "| a | b |",
        "|---|---|",
        "    indented",
        "---",
        "  ```",
        "```",
        "```py",
        "````",
        "~~~",
        "~~~~ text",
        "   ~~~",
        "\tcode",
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)


def split(pieces: Iterable[str]) -> list[str]:
    blocks = BlockSplitter()
    parsed = [block for piece in pieces for block in blocks.feed(piece)]
    return [*parsed, *blocks.close()]


def full(text: str) -> list[str]:
    """The lines that have something on them."""
    return [line for line in text.split("\n") if line.strip()]


def pieces_of(text: str, places: Iterable[int]) -> Iterator[str]:
    edges = [0, *sorted(position % (len(text) + 1) for position in places), len(text)]
    for begin, end in pairwise(edges):
        yield text[begin:end]


class TestWhereBlocksEnd:
    @pytest.mark.parametrize(
        ("text", "blocks"),
        [
            ("", []),
            ("\n \n\t\n", []),
            ("one", ["one"]),
            ("one\ntwo\n\nthree", ["one\ntwo", "three"]),
            ("one\n\n\n\ntwo\n\n", ["one", "two"]),
            ("# a\n\n## b\n", ["# a", "## b"]),
            ("- a\n- b\n\nend", ["- a\n- b", "end"]),
            ("- a\n\n- b\n\n- c\n\nend", ["- a\n\n- b\n\n- c", "end"]),
            ("1. a\n\n2. b", ["1. a\n\n2. b"]),
            ("1. a\n\n   more of it\n\n2. b", ["1. a\n\n   more of it\n\n2. b"]),
            ("| a |\n|---|\n| 1 |\n\nend", ["| a |\n|---|\n| 1 |", "end"]),
            ("one\n\n    indented\n\n    code\n\ntwo", ["one\n\n    indented\n\n    code", "two"]),
            ("```py\na = 1\n\nb = 2\n```\nend", ["```py\na = 1\n\nb = 2\n```", "end"]),
            ("say\n```\ncode\n```\nend", ["say", "```\ncode\n```", "end"]),
            ("~~~\n```\n~~~\nend", ["~~~\n```\n~~~", "end"]),
            ("````md\n```\n\ninside\n```\n````\nend", ["````md\n```\n\ninside\n```\n````", "end"]),
            ("```\na\n``` not the end\n```\nend", ["```\na\n``` not the end\n```", "end"]),
            ("```\na\n`````\nend", ["```\na\n`````", "end"]),
            ("```\nnever closed\n\nso all of this\n", ["```\nnever closed\n\nso all of this"]),
            (
                "- a\n  ```sh\n  ls\n\n  pwd\n  ```\n- b\n\nend",
                ["- a\n  ```sh\n  ls\n\n  pwd\n  ```\n- b", "end"],
            ),
            ("1. a\n\n   ```\n   x\n   ```\n\n2. b", ["1. a\n\n   ```\n   x\n   ```\n\n2. b"]),
            ("    ```\n    no fence\n\nend", ["    ```\n    no fence", "end"]),
            ("```ls -l``` lists files\n\nnext", ["```ls -l``` lists files", "next"]),
        ],
    )
    def test_a_text_has_these_blocks(self, text: str, blocks: list[str]) -> None:
        assert split([text]) == blocks
        assert split(text) == blocks

    def test_a_windows_text_has_the_same_blocks(self) -> None:
        text = "one\n\n```\ncode\n\nmore\n```\n- a\n\n- b\n\nend\n"
        blocks = split([text.replace("\n", "\r\n")])
        assert [block.replace("\r", "") for block in blocks] == split([text])


class TestNothingIsLost:
    @given(TEXTS)
    def test_every_line_comes_out_in_order(self, text: str) -> None:
        assert full("\n".join(split([text]))) == full(text)

    @given(TEXTS, st.lists(st.integers(0, 2_000), max_size=8))
    def test_any_cutting_gives_the_same_blocks(self, text: str, places: list[int]) -> None:
        assert split(pieces_of(text, places)) == split([text])

    @given(TEXTS)
    def test_the_tail_is_what_was_not_given_out(self, text: str) -> None:
        blocks = BlockSplitter()
        given_out = [block for piece in text for block in blocks.feed(piece)]
        assert full("\n".join([*given_out, blocks.tail])) == full(text)
        blocks.close()
        assert blocks.tail == ""

    @given(TEXTS, st.lists(st.integers(0, 200), max_size=6))
    def test_long_blocks_cut_anywhere_give_the_same_blocks(self, text: str, places: list[int]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_MAX_LINES", 5)
            assert split(pieces_of(text, places)) == split(text) == split([text])

    def test_a_closed_one_begins_again(self) -> None:
        blocks = BlockSplitter()
        blocks.feed("```\nnever closed")
        blocks.close()
        assert blocks.feed("a\n\nb\n\n") == ["a"]
        assert blocks.close() == ["b"]


class TestLongThings:
    def test_a_paragraph_of_many_lines_is_given_out_in_pieces(self) -> None:
        blocks = BlockSplitter()
        closed = blocks.feed("a line\n" * 1_000)
        assert len(closed) > 5
        assert full("\n".join([*closed, *blocks.close()])) == ["a line"] * 1_000

    @pytest.mark.parametrize("lines", [120, 1_000])
    @pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
    def test_a_long_fence_is_given_out_in_fences(self, fence: str, lines: int) -> None:
        body = [f"line {number}" for number in range(lines)]
        blocks = split(["\n".join([f"{fence}py", *body, fence, "end"])])
        *code, end = blocks
        assert end == "end"
        assert len(code) == -(-lines // 120)
        assert all(re.fullmatch(rf"{fence}py\n.*\n{fence}", block, re.DOTALL) for block in code)
        assert [line for block in code for line in block.split("\n")[1:-1]] == body

    @pytest.mark.untraced
    @pytest.mark.parametrize(
        "piece", ["some words of a line\n", "word ", "x", "```\ncode\n```\n", "- item\n\n"]
    )
    def test_every_line_is_looked_at_once(self, piece: str, monkeypatch: Patch) -> None:
        """However it comes: in one piece or in many."""
        lengths: list[int] = []
        add_line = BlockSplitter._add_line  # pyright: ignore[reportPrivateUsage]

        def count_line(self: BlockSplitter, text: str) -> list[str]:
            lengths.append(len(text))
            return add_line(self, text)

        monkeypatch.setattr(BlockSplitter, "_add_line", count_line)
        text = piece * (400_000 // len(piece))
        for pieces in ([text], [piece] * (400_000 // len(piece))):
            lengths.clear()
            split(pieces)
            assert sum(lengths) <= len(text)
