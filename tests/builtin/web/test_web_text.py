"""The text of pages, and pages that are made to be slow."""

import sys
from time import process_time

import pytest
from web_site import ARTICLE

from toolglot.builtin.web.page_text import (
    clean_text,
    decode_page,
    extract_article,
    extract_title,
    html_to_markdown,
    strip_markdown,
)

URL = "https://a.test/dir/page"
WHOLE = [
    ("<p>one</p><p>two</p>", "one\n\ntwo"),
    ("one<br>two", "one\ntwo"),
    ("<h2>Head</h2>text", "## Head\n\ntext"),
    ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
    ("<a href='x?y=1&amp;z=2'>go</a>", "[go](https://a.test/dir/x?y=1&z=2)"),
    ("<a href=/root>go</a> <a>bare</a>", "[go](https://a.test/root) bare"),
    (
        "<a href='javascript:alert(1)'>run</a> <a href='#part'>part</a> <a href='file:///etc/passwd'>f</a>",
        "run part f",
    ),
    ("<a href='/a b(c)'>go</a>", "[go](https://a.test/a%20b%28c%29)"),
    ("<base href='https://b.test/'><a href='c'>go</a>", "[go](https://b.test/c)"),
    (
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>x|y</td></tr></table>",
        "| A | B |\n\n| 1 | x\\|y |",
    ),
    ("<pre>  two\n    four</pre>", "```\n  two\n    four\n```"),
    ("use <code>f(x)</code>", "use `f(x)`"),
    ("a &lt;b&gt; &amp; &eacute;&#x41;", "a <b> & éA"),
    ("<head><title>T</title><style>p{}</style></head><body>text</body>", "text"),
    ("<script>if (a < b) document.write('<p>no</p>')</script>yes", "yes"),
    ("<SCRIPT>no</SCRIPT>yes<!-- no --><style>no", "yes"),
    ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ("<p title='a > b'>text</p>", "text"),
    ("<img alt='a cat' src=x>", "a cat"),
    ("", ""),
    ("<", "<"),
    ("<p", ""),
    ("</", ""),
    ("a\x00b\x1b[31mc", "ab[31mc"),
]


@pytest.mark.parametrize(("html", "expected"), WHOLE, ids=range(len(WHOLE)))
def test_html_to_markdown(html: str, expected: str) -> None:
    assert html_to_markdown(html, URL) == expected


@pytest.mark.parametrize("how", ["trafilatura", "alone"])
def test_an_article_keeps_tables_code_and_links(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "alone":
        monkeypatch.setitem(sys.modules, "trafilatura", None)
    else:
        pytest.importorskip("trafilatura")
    article = extract_article(ARTICLE, URL)
    for part in (
        "# Things",
        "| Apple | 1.20 |",
        "def fly(high):\n    return high + 1",
        "[link 7](https://a.test/more/7)",
    ):
        assert part in article
    assert "snake_case_7." in article
    assert ("menu" in article) == (how == "alone")


def test_a_page_of_links_keeps_its_links() -> None:
    links = "".join(f"<li><a href='/{n}'>an entry of the index with number {n}</a></li>" for n in range(200))
    article = extract_article(f"<html><body><nav><ul>{links}</ul></nav><p>short</p></body></html>", URL)
    assert "[an entry of the index with number 199](https://a.test/199)" in article


def test_a_failing_extractor_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    trafilatura = pytest.importorskip("trafilatura")

    def fails(*args: object, **options: object) -> str:
        raise RecursionError

    monkeypatch.setattr(trafilatura, "extract", fails)
    assert "Paragraph 3" in extract_article(ARTICLE, URL)


HOSTILE = {
    "open tags": "<a " * 300_000,
    "quotes": '<a "' * 250_000,
    "both quotes": "<a '\"" * 200_000,
    "links": "<a href=x>" * 100_000 + "y" + "</a>" * 100_000,
    "comments": "<!--" * 250_000,
    "declarations": "<!" * 500_000,
    "scripts": "<script>" * 125_000,
    "rows": "<tr><td>" * 125_000,
    "deep": "<div>" * 200_000,
    "entities": "&" * 1_000_000,
    "brackets": "<" * 300_000,
}


@pytest.mark.untraced
@pytest.mark.parametrize("name", HOSTILE)
def test_conversion_takes_linear_time(name: str) -> None:
    start = process_time()
    html_to_markdown(HOSTILE[name], URL)
    assert process_time() - start < 5


@pytest.mark.parametrize("line", ["[" * 20_000, "![" * 10_000, "[a](" * 10_000, "*" * 20_000, "\\" * 20_000])
def test_stripping_marks_takes_linear_time(line: str) -> None:
    start = process_time()
    strip_markdown(line)
    assert process_time() - start < 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("**bold** and `code`", "bold and code"),
        ("[text](https://a.test/x) ![alt](y)", "text alt"),
        (r"snake\_case \* star", "snake_case * star"),
        ("~~gone~~ 2 < 3", "gone 2 < 3"),
    ],
)
def test_strip_markdown(line: str, expected: str) -> None:
    assert strip_markdown(line) == expected


@pytest.mark.parametrize(
    ("data", "charset", "expected"),
    [
        ("é".encode(), "", "é"),
        (b"\xe9", "iso-8859-1", "é"),
        (b"<meta charset='windows-1252'>\x80", "", "<meta charset='windows-1252'>€"),
        (
            b"<meta http-equiv=x content='a; charset=koi8-r'>\xc1",
            "",
            "<meta http-equiv=x content='a; charset=koi8-r'>\u0430",
        ),
        (b"\xff", "utf-8", "\ufffd"),
        (b"abc", "no-such-charset", "abc"),
        (b"abc", "idna", "abc"),
        (b"abc", "hex", "abc"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"abc", "a\0b", "abc"),
    ],
)
def test_decode_page(data: bytes, charset: str, expected: str) -> None:
    assert decode_page(data, charset) == expected


def test_extract_title() -> None:
    assert extract_title(ARTICLE) == "On Things & more"
    assert extract_title("<title>a\n\x1b b") == ""
    assert extract_title("<p>none</p>") == ""


def test_clean_text() -> None:
    assert clean_text("a\x1b]0;x\x07b\r\nc\rd\x00\u2028e\n\n\n\nf  ") == "a]0;xb\nc\nde\n\nf"
