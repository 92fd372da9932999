"""Refs, parts of long pages, and finding text in them."""

import pytest

from toolglot.builtin.web import pages
from toolglot.builtin.web.pages import Page, PageStore, find_lines, find_relevant_lines, slice_text
from toolglot.errors import ToolError

TEXT = "\n".join(f"line {number}" for number in range(1, 101))


def make_page(url: str, text: str = "text") -> Page:
    return Page(url=url, requested=url, method="http", text=text)


class TestSlices:
    def test_all_slices_together_are_the_page(self) -> None:
        texts, line = list[str](), 1
        while line:
            part = slice_text(TEXT, 60, start_line=line)
            assert len(part.text) <= 60
            texts.append(part.text)
            assert part.start_line == line
            line = part.next_line
        assert "\n".join(texts) == TEXT

    def test_a_long_line_is_split_by_characters(self) -> None:
        line, position, text = "x" * 1000, 0, ""
        while position is not None:
            part = slice_text(line, 300, start_char=position)
            text += part.text
            assert part.next_line is None
            position = part.next_char
        assert text == line

    def test_positions(self) -> None:
        part = slice_text(TEXT, 21, start_line=10)
        assert (part.text, part.start_line, part.end_line, part.total_lines) == (
            "line 10\nline 11",
            10,
            11,
            100,
        )
        assert TEXT[part.start_char : part.end_char] == "line 10\nline 11\n"
        assert (part.next_line, part.next_char, part.total_chars) == (12, part.end_char, len(TEXT))
        part = slice_text(TEXT, 10_000)
        assert (part.text, part.end_line, part.next_line, part.next_char) == (TEXT, 100, None, None)

    def test_an_empty_page_has_one_empty_line(self) -> None:
        assert (
            slice_text("", 10).text
            == slice_text("", 10, start_line=1).text
            == slice_text("", 10, start_char=0).text
            == ""
        )

    @pytest.mark.parametrize(
        "start",
        [
            {"start_line": 0},
            {"start_line": 101},
            {"start_line": -1},
            {"start_char": -1},
            {"start_char": 10**9},
        ],
    )
    def test_a_start_outside_the_page_is_refused(self, start: dict[str, int]) -> None:
        with pytest.raises(ToolError, match=r"the page has (lines 1 to 100|characters 0 to \d+)"):
            slice_text(TEXT, 10, **start)


class TestFinding:
    @pytest.mark.parametrize(
        "pattern", ["two words", "TWO   words", "two\nwords", "snake_case", "(x)", "straße", "STRASSE"]
    )
    def test_case_whitespace_and_markup_are_ignored(self, pattern: str) -> None:
        matches, total = find_lines(
            "first\n**two** [words](https://a.test) snake\\_case f(x) Straße\nlast", pattern
        )
        assert (total, matches[0].line, matches[0].before, matches[0].after) == (1, 2, ("first",), ("last",))

    @pytest.mark.parametrize("pattern", [".*", "nothing", "firstlast"])
    def test_a_pattern_is_not_a_regular_expression(self, pattern: str) -> None:
        assert find_lines("first\nlast", pattern) == ([], 0)

    def test_limits(self) -> None:
        matches, total = find_lines(TEXT, "line")
        assert (len(matches), total) == (pages.MAX_MATCHES, 100)
        (match,), _ = find_lines("a" * 5000 + " needle " + "b" * 5000, "needle")
        assert "needle" in match.text
        assert len(match.text) < 400

    def test_relevant_lines_contain_words_of_the_question(self) -> None:
        text = "price list\nthe apple price is high\nnothing\napple"
        assert find_relevant_lines(text, "What is the PRICE of an apple?") == [1, 2, 4]
        assert find_relevant_lines(text, "a?") == []


class TestStore:
    def test_a_url_has_one_ref_that_stands_for_it(self) -> None:
        store = PageStore()
        assert [store.assign_ref(url) for url in ("https://a.test", "https://b.test", "https://a.test")] == [
            "w1",
            "w2",
            "w1",
        ]
        assert {store.resolve_target(target) for target in ("w2", "[w2]", " w2 ", "https://b.test")} == {
            "https://b.test"
        }

    def test_an_unknown_ref_is_refused(self) -> None:
        store = PageStore()
        with pytest.raises(ToolError, match="no page has been opened"):
            store.resolve_target("w1")
        store.assign_ref("https://a.test")
        with pytest.raises(ToolError, match="from w1 to w1") as raised:
            store.resolve_target("w7")
        assert raised.value.kind == "not_found"

    def test_pages_expire(self) -> None:
        now = [0.0]
        store = PageStore(lambda: now[0])
        store.add(make_page("https://a.test"))
        assert store.get_fresh("https://a.test") is not None
        now[0] = pages.FRESH_SECONDS + 1
        assert store.get_fresh("https://a.test") is None

    def test_memory_is_bounded_and_refs_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "MAX_STORED_CHARS", 100)
        store = PageStore()
        for number in range(10):
            store.add(make_page(f"https://a.test/{number}", "x" * 40))
        assert [number for number in range(10) if store.get_fresh(f"https://a.test/{number}")] == [8, 9]
        assert store.resolve_target("w1") == "https://a.test/0"

    def test_refs_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "MAX_REFS", 1)
        store = PageStore()
        store.assign_ref("https://a.test")
        with pytest.raises(ToolError) as raised:
            store.assign_ref("https://b.test")
        assert raised.value.kind == "limit"
