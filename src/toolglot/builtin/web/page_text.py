"""A page as text that a model reads: headings, lists, tables, code and links as Markdown.

Laws: the time that our own reading takes grows with the length of the page, whatever the page is. What trafilatura finds goes
first; where that is little of what is there, the whole page is read by us. No control character survives.
"""

import html as entities
import re
from collections.abc import Iterator
from logging import CRITICAL, getLogger
from typing import Any, cast
from urllib.parse import urljoin

__all__ = [
    "clean_text",
    "decode_page",
    "extract_article",
    "extract_links",
    "extract_title",
    "html_to_markdown",
    "strip_markdown",
]

MIN_ARTICLE_CHARS = 200
"""Characters under which an article is not worth its name."""
MIN_ARTICLE_SHARE = 0.15
"""Of the page's text: an article that has less is not the page."""
MAX_ARTICLE_HTML = 2_000_000
MAX_TAG_CHARS = 4_000
_TAG_NAME = re.compile(r"/?([A-Za-z][A-Za-z0-9:-]*)")
_TAG_REST = re.compile(r"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_ATTRIBUTE = re.compile(r"""([A-Za-z][\w:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{2,40})""", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_SPACES = re.compile(r"[ \t\r\n\f\v\xa0]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,2000})\]\(([^()\s]{0,4000})\)")
_MARKDOWN_MARKS = re.compile(r"\\([\\`*_{}\[\]()#+.!|~>-])|(\*{1,3}|`+|~~)")
_OPAQUE_TAGS = frozenset(
    {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "noscript", "select", "textarea"}
)
_BLOCK_TAGS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt"}
    | {
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "main",
        "nav",
        "ol",
        "p",
        "section",
        "summary",
    }
    | {"table", "tbody", "tfoot", "thead", "ul", "option", "label", "legend"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_UNSAFE_CODECS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "undefined", "mbcs", "oem"})


# ---- bytes


def decode_page(data: bytes, charset: str = "") -> str:
    """The text of a page: in the encoding that it names, or UTF-8."""
    import codecs

    named = _CHARSET.search(data[:2048])
    for name in (charset, named[1].decode("ascii") if named else "", "utf-8"):
        try:
            known = codecs.lookup(name).name
            if name and known not in _UNSAFE_CODECS:
                return data.decode(known, "replace")
        except (LookupError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def clean_text(text: str) -> str:
    """Text without control characters, with plain ends of lines and no long gaps."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")


# ---- the article, and the whole


def extract_article(html: str, url: str) -> str:
    """What the page is about, as Markdown: by trafilatura where it is installed and finds it, else all that is there."""
    whole = html_to_markdown(html, url)
    found = clean_text(_run_trafilatura(html, url)) if len(html) <= MAX_ARTICLE_HTML else ""
    enough = len(found) >= MIN_ARTICLE_CHARS and len(found) >= MIN_ARTICLE_SHARE * len(whole) and not _is_link_page(whole)
    return found if enough or not whole else whole


def _is_link_page(text: str) -> bool:
    """Whether most of a page is links: then they are what it is about."""
    linked = sum(len(found[1]) for found in _LINK.finditer(text))
    return linked > len(_LINK.sub(lambda found: found[1], text)) / 2


def _run_trafilatura(html: str, url: str) -> str:
    try:
        import trafilatura
    except ImportError:
        return ""
    getLogger("trafilatura").setLevel(CRITICAL)  # what it cannot read is nobody's error
    try:
        extract = cast(Any, trafilatura).extract
        found = extract(
            html, url=url, output_format="markdown", include_links=True, include_tables=True, include_formatting=True,
            include_comments=True, favor_recall=True,
        )  # fmt: skip
    except Exception:  # whatever a page does to it, there is the page itself
        return ""
    return _unescape_underscores(found or "")


def _unescape_underscores(text: str) -> str:
    """Names with underscores as they are; code is left alone."""
    lines, is_code = text.split("\n"), False
    for number, line in enumerate(lines):
        is_code ^= line.startswith("```")
        lines[number] = line if is_code else line.replace("\\_", "_")
    return "\n".join(lines)


def extract_title(html: str) -> str:
    """The title of a page, on one line."""
    low = html[:200_000].lower()
    begin = low.find("<title")
    begin = low.find(">", begin) if begin >= 0 else -1
    end = low.find("</title", begin) if begin >= 0 else -1
    text = entities.unescape(html[begin + 1 : end]) if end >= 0 else ""
    return _CONTROL.sub("", _SPACES.sub(" ", text)).strip()[:300]


def extract_links(text: str) -> list[str]:
    """Where the links of a page lead, in the order of its text; pictures are none."""
    return [found[2] for found in _LINK.finditer(text) if found[2].startswith("http") and not found[0].startswith("!")]


def strip_markdown(line: str) -> str:
    """A line of Markdown without its marks: links are their text, escapes what they stand for."""
    line = _LINK.sub(lambda found: found[1], line)
    return _MARKDOWN_MARKS.sub(lambda found: found[1] or "", line)


# ---- our own reading


def _tokenize(html: str) -> Iterator[tuple[str, str]]:
    """("text", …), ("open name", attributes) and ("close name", "") in order; what is opaque is left out."""
    low, at, end = html.lower(), 0, len(html)
    if len(low) != end:  # a letter whose small form is longer
        low = html
    while at < end:
        begin = html.find("<", at)
        begin = end if begin < 0 else begin
        if begin > at:
            yield "text", html[at:begin]
        if begin == end:
            return
        if html.startswith("<!--", begin):
            at = _index_after(html, "-->", begin + 4)
            continue
        name = _TAG_NAME.match(html, begin + 1)
        if name is None:
            is_declared = html[begin + 1 : begin + 2] in ("!", "?", "/")
            at = _index_after(html, ">", begin) if is_declared else begin + 1
            if not is_declared:
                yield "text", "<"
            continue
        rest = _TAG_REST.match(html, name.end(), min(end, name.end() + MAX_TAG_CHARS))
        at = rest.end() if rest else _index_after(html, ">", name.end())
        kind, closes = name[1].lower(), html[begin + 1] == "/"
        if closes:
            yield f"close {kind}", ""
        elif kind in _OPAQUE_TAGS:
            at = _index_after(html, ">", low.find(f"</{kind}", at)) if low.find(f"</{kind}", at) >= 0 else end
        else:
            yield f"open {kind}", html[name.end() : at - 1]


def _index_after(html: str, mark: str, at: int) -> int:
    found = html.find(mark, at)
    return len(html) if found < 0 else found + len(mark)


def html_to_markdown(html: str, url: str = "") -> str:
    """All text of a page."""
    writer = _MarkdownWriter(url)
    for kind, value in _tokenize(html):
        if kind == "text":
            writer.add_text(value)
        elif kind.startswith("open "):
            writer.open_tag(kind[5:], value)
        else:
            writer.close_tag(kind[6:])
    return clean_text(writer.render())


class _MarkdownWriter:
    """Writes Markdown as the tags come. Inside of a row, blocks are spaces; inside of `pre`, everything is as it is."""

    def __init__(self, url: str) -> None:
        self._url, self._out = url, list[str]()
        self._pre = 0
        self._in_head = self._in_row = False
        self._cells = 0
        self._links: list[tuple[str, int]] = []

    def render(self) -> str:
        lines, is_code = "".join(self._out).split("\n"), False
        for number, line in enumerate(lines):
            is_code ^= line.startswith("```")
            lines[number] = line if is_code else line.strip(" \t")
        return "\n".join(lines)

    def add_text(self, value: str) -> None:
        if self._in_head:
            return
        value = entities.unescape(value)
        if not self._pre:
            value = _SPACES.sub(" ", value)
            if value == " " and (not self._out or self._out[-1].endswith((" ", "\n"))):
                return
        self._out.append(value.replace("|", "\\|") if self._in_row else value)

    def _break(self, lines: int = 1) -> None:
        self._out.append(" " if self._in_row else "\n" * lines)

    def open_tag(self, tag: str, attributes: str) -> None:
        if tag in ("head", "title"):
            self._in_head = True
        elif tag == "body":
            self._in_head = False
        elif tag in _HEADINGS:
            self._break(2)
            self._out.append(_HEADINGS[tag] + " ")
        elif tag == "a":
            self._links = [(_get_attribute(attributes, "href"), len(self._out))]  # a link holds no other one
        elif tag == "img":
            self._out.append(_SPACES.sub(" ", _get_attribute(attributes, "alt")))
        elif tag == "base":
            self._url = _resolve_url(self._url, entities.unescape(_get_attribute(attributes, "href"))) or self._url
        elif tag in _OPEN_HANDLERS:
            _OPEN_HANDLERS[tag](self)
        elif tag in _BLOCK_TAGS:
            self._break(2)

    def close_tag(self, tag: str) -> None:
        if tag in ("head", "title"):
            self._in_head = False
        elif tag in _HEADINGS:
            self._break(2)
        elif tag == "a":
            self._close_link()
        elif tag in _CLOSE_HANDLERS:
            _CLOSE_HANDLERS[tag](self)
        elif tag in _BLOCK_TAGS:
            self._break(2)

    def _open_item(self) -> None:
        self._break()
        self._out.append("- ")

    def _open_pre(self) -> None:
        self._break(2)
        self._pre += 1
        if not self._in_row:
            self._out.append("```\n")

    def _close_pre(self) -> None:
        if not self._pre:
            return
        self._pre -= 1
        if not self._in_row:
            self._out.append("\n```\n")

    def _toggle_code(self) -> None:
        if not self._pre:
            self._out.append("`")

    def _open_row(self) -> None:
        self._in_row = False
        self._break()
        self._in_row, self._cells = True, 0

    def _open_cell(self) -> None:
        if self._in_row:
            self._cells += 1
            self._out.append("| " if self._cells == 1 else " | ")

    def _close_row(self) -> None:
        if self._in_row:
            self._out.append(" |" if self._cells else "")
            self._in_row = False
            self._break()

    def _close_table(self) -> None:
        self._in_row = False
        self._break(2)

    def _close_link(self) -> None:
        if not self._links:
            return
        href, at = self._links.pop()
        text = _SPACES.sub(" ", "".join(self._out[at:])).strip()
        target = _resolve_url(self._url, entities.unescape(href))
        if text and target and not self._pre and len(text) <= 300 and "\n" not in text:
            self._out[at:] = [f"[{text}]({target})"]


_OPEN_HANDLERS = {
    "br": _MarkdownWriter._break,  # pyright: ignore[reportPrivateUsage]
    "li": _MarkdownWriter._open_item,  # pyright: ignore[reportPrivateUsage]
    "pre": _MarkdownWriter._open_pre,  # pyright: ignore[reportPrivateUsage]
    "code": _MarkdownWriter._toggle_code,  # pyright: ignore[reportPrivateUsage]
    "tr": _MarkdownWriter._open_row,  # pyright: ignore[reportPrivateUsage]
    "td": _MarkdownWriter._open_cell,  # pyright: ignore[reportPrivateUsage]
    "th": _MarkdownWriter._open_cell,  # pyright: ignore[reportPrivateUsage]
}
_CLOSE_HANDLERS = {
    "pre": _MarkdownWriter._close_pre,  # pyright: ignore[reportPrivateUsage]
    "code": _MarkdownWriter._toggle_code,  # pyright: ignore[reportPrivateUsage]
    "tr": _MarkdownWriter._close_row,  # pyright: ignore[reportPrivateUsage]
    "table": _MarkdownWriter._close_table,  # pyright: ignore[reportPrivateUsage]
}


def _get_attribute(attributes: str, name: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes):
        if found[1].lower() == name:
            return found[2] or found[3] or found[4] or ""
    return ""


def _resolve_url(base: str, href: str) -> str:
    """Where a link leads; "" for one that leads to no page."""
    if not href:
        return ""
    try:
        target = urljoin(base, href.strip())
    except ValueError:
        return ""
    if not target.startswith(("http://", "https://")) or href.startswith("#"):
        return ""
    return re.sub(r"[\s()<>]", lambda found: f"%{ord(found[0]) & 0xFF:02X}", target)
