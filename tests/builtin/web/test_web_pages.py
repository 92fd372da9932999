"""Refs, parts of long pages, and finding text in them."""

import pytest

from toolglot.builtin.web import pages
from toolglot.builtin.web.pages import Page, PageStore, find_lines, find_relevant_lines, slice_text
from toolglot.errors import ToolError

TEXT = "\n".join(f"line {number}" for number in range(1, 101))


def page(url: str, text: str = "text") -> Page:
    return Page(url=url, requested=url, method="http", text=text)


class TestParts:
    def test_the_parts_of_a_page_are_the_page(self) -> None:
        found, line = list[str](), 1
        while line:
            part = slice_text(TEXT, 60, start_line=line)
            assert len(part.text) <= 60
            found.append(part.text)
            assert part.start_line == line
            line = part.next_line
        assert "\n".join(found) == TEXT

    def test_characters_are_parts_too_also_of_one_long_line(self) -> None:
        text, at, found = "x" * 1000, 0, ""
        while at is not None:
            part = slice_text(text, 300, start_char=at)
            found += part.text
            assert part.next_line is None
            at = part.next_char
        assert found == text

    def test_a_part_says_where_it_is(self) -> None:
        part = slice_text(TEXT, 21, start_line=10)
        assert (part.text, part.start_line, part.end_line, part.total_lines) == ("line 10\nline 11", 10, 11, 100)
        assert TEXT[part.start_char : part.end_char] == "line 10\nline 11\n"
        assert (part.next_line, part.next_char, part.total_chars) == (12, part.end_char, len(TEXT))

    def test_the_last_part_has_no_next_one(self) -> None:
        part = slice_text(TEXT, 10_000)
        assert (part.text, part.end_line, part.next_line, part.next_char) == (TEXT, 100, None, None)

    def test_an_empty_page_has_one_empty_line(self) -> None:
        assert slice_text("", 10).text == slice_text("", 10, start_line=1).text == slice_text("", 10, start_char=0).text == ""

    @pytest.mark.parametrize(
        "where", [{"start_line": 0}, {"start_line": 101}, {"start_line": -1}, {"start_char": -1}, {"start_char": 10**9}]
    )
    def test_a_part_outside_of_the_page_is_an_error_that_says_where_it_ends(self, where: dict[str, int]) -> None:
        with pytest.raises(ToolError, match=r"the page has (lines 1 to 100|characters 0 to \d+)"):
            slice_text(TEXT, 10, **where)


class TestFinding:
    @pytest.mark.parametrize("pattern", ["two words", "TWO   words", "two\nwords", "snake_case", "(x)", "straße", "STRASSE"])
    def test_text_is_found_whatever_stands_between_its_words(self, pattern: str) -> None:
        found, total = find_lines("first\n**two** [words](https://a.test) snake\\_case f(x) Straße\nlast", pattern)
        assert (total, found[0].line, found[0].before, found[0].after) == (1, 2, ("first",), ("last",))

    @pytest.mark.parametrize("pattern", [".*", "nothing", "firstlast"])
    def test_a_pattern_is_text_and_no_expression(self, pattern: str) -> None:
        assert find_lines("first\nlast", pattern) == ([], 0)

    def test_many_findings_are_counted_and_some_are_shown(self) -> None:
        found, total = find_lines(TEXT, "line")
        assert (len(found), total) == (pages.MAX_MATCHES, 100)

    def test_of_a_long_line_the_surroundings_are_shown(self) -> None:
        (found,), _ = find_lines("a" * 5000 + " needle " + "b" * 5000, "needle")
        assert "needle" in found.text
        assert len(found.text) < 400

    def test_a_question_names_the_lines_that_speak_about_it(self) -> None:
        text = "price list\nthe apple price is high\nnothing\napple"
        assert find_relevant_lines(text, "What is the PRICE of an apple?") == [1, 2, 4]
        assert find_relevant_lines(text, "a?") == []


class TestRefs:
    def test_an_address_has_one_ref_which_is_as_good_as_the_address(self) -> None:
        kept = PageStore()
        assert [kept.assign_ref(url) for url in ("https://a.test", "https://b.test", "https://a.test")] == ["w1", "w2", "w1"]
        assert [kept.resolve_target(target) for target in ("w2", "[w2]", " w2 ", "https://c.test")] == [
            "https://b.test"
        ] * 3 + ["https://c.test"]

    def test_a_ref_that_was_never_given_says_which_there_are(self) -> None:
        kept = PageStore()
        with pytest.raises(ToolError, match="no page has been opened"):
            kept.resolve_target("w1")
        kept.assign_ref("https://a.test")
        with pytest.raises(ToolError, match="from w1 to w1") as caught:
            kept.resolve_target("w7")
        assert caught.value.kind == "not_found"

    def test_pages_grow_old(self) -> None:
        now = [0.0]
        kept = PageStore(lambda: now[0])
        kept.add(page("https://a.test"))
        assert kept.get_fresh("https://a.test") is not None
        now[0] = pages.FRESH_SECONDS + 1
        assert kept.get_fresh("https://a.test") is None

    def test_memory_is_bounded_and_refs_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "MAX_STORED_CHARS", 100)
        kept = PageStore()
        for number in range(10):
            kept.add(page(f"https://a.test/{number}", "x" * 40))
        assert [kept.get_fresh(f"https://a.test/{number}") is not None for number in (0, 7, 8, 9)] == [False, False, True, True]
        assert kept.resolve_target("w1") == "https://a.test/0"

    def test_refs_are_bounded_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "MAX_REFS", 1)
        kept = PageStore()
        kept.assign_ref("https://a.test")
        with pytest.raises(ToolError) as caught:
            kept.assign_ref("https://b.test")
        assert caught.value.kind == "limit"
