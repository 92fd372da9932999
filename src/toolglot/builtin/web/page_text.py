"""The text of a page as a model reads it: headings, lists, tables, code and links as Markdown.

Invariants: our own conversion takes time linear in the length of the page, whatever the page is.
trafilatura's article is preferred; if it is only a small part of the page, the whole page is converted by us.
No control character survives.
"""

import codecs
import html as entities
import re
from collections.abc import Callable, Iterator
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
"""An article that is shorter is not used."""
MIN_ARTICLE_SHARE = 0.15
"""An article that is a smaller share of the page's text is not used."""
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
    {
        "script",
        "style",
        "template",
        "svg",
        "math",
        "iframe",
        "object",
        "canvas",
        "noscript",
        "select",
        "textarea",
    }
)
_BLOCK_TAGS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
    }
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
    }
    | {"summary", "table", "tbody", "tfoot", "thead", "ul", "option", "label", "legend"}
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = _BLOCK_TAGS | _HEADINGS.keys()
# Tags that begin a new line: how many line ends come before it, and what it begins with.
_BREAKS = {
    **dict.fromkeys(_BLOCK_TAGS, (2, "")),
    **{tag: (2, mark) for tag, mark in _HEADINGS.items()},
    "br": (1, ""),
    "li": (1, "- "),
}
_UNSAFE_CODECS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "undefined", "mbcs", "oem"}
)


# ---- bytes


def decode_page(data: bytes, charset: str = "") -> str:
    """Decode a page by the encoding that it names, or as UTF-8."""
    meta = _CHARSET.search(data[:2048])
    declared = meta[1].decode("ascii") if meta else ""
    for name in (charset, declared, "utf-8"):
        try:
            codec = codecs.lookup(name).name
            if name and codec not in _UNSAFE_CODECS:
                return data.decode(codec, "replace")
        except (LookupError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def clean_text(text: str) -> str:
    """Return a text without control characters, with LF line endings and no long gaps."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")


# ---- the article, and the whole page


def extract_article(html: str, url: str) -> str:
    """Return the main content as Markdown: by trafilatura if it is installed and finds it, otherwise the
    whole page.
    """
    whole = html_to_markdown(html, url)
    article = clean_text(_run_trafilatura(html, url)) if len(html) <= MAX_ARTICLE_HTML else ""
    # A page that consists mostly of links is about those links, which an article would leave out.
    link_chars = sum(len(match[1]) for match in _LINK.finditer(whole))
    is_link_page = link_chars > len(_LINK.sub(lambda match: match[1], whole)) / 2
    is_enough = (
        len(article) >= MIN_ARTICLE_CHARS
        and len(article) >= MIN_ARTICLE_SHARE * len(whole)
        and not is_link_page
    )
    return article if is_enough or not whole else whole


def _run_trafilatura(html: str, url: str) -> str:
    try:
        import trafilatura
    except ImportError:
        return ""
    getLogger("trafilatura").setLevel(CRITICAL)  # a page that it cannot read is nobody's error
    try:
        extract = cast(Any, trafilatura).extract
        article = extract(
            html, url=url, output_format="markdown", include_links=True, include_tables=True, include_formatting=True,
            include_comments=True, favor_recall=True,
        )  # fmt: skip
    except Exception:  # whatever a page does to it, there is the page itself
        return ""
    # It escapes underscores in names, which nobody needs.
    return _map_outside_code(article or "", lambda line: line.replace("\\_", "_"))


def _map_outside_code(text: str, change: Callable[[str], str]) -> str:
    lines, is_code = text.split("\n"), False
    for number, line in enumerate(lines):
        is_code ^= line.startswith("```")
        lines[number] = line if is_code else change(line)
    return "\n".join(lines)


def extract_title(html: str) -> str:
    """Return the title of a page, on one line."""
    lower = html[:200_000].lower()
    begin = lower.find("<title")
    begin = lower.find(">", begin) if begin >= 0 else -1
    end = lower.find("</title", begin) if begin >= 0 else -1
    text = entities.unescape(html[begin + 1 : end]) if end >= 0 else ""
    return _CONTROL.sub("", _SPACES.sub(" ", text)).strip()[:300]


def extract_links(text: str) -> list[str]:
    """Return the targets of the links in a page's text, in order; images are not links."""
    return [
        match[2]
        for match in _LINK.finditer(text)
        if match[2].startswith("http") and not match[0].startswith("!")
    ]


def strip_markdown(line: str) -> str:
    """Return a line of Markdown without its marks: links become their text, escapes the characters they stand
    for.
    """
    line = _LINK.sub(lambda match: match[1], line)
    return _MARKDOWN_MARKS.sub(lambda match: match[1] or "", line)


# ---- our own conversion


def _tokenize(html: str) -> Iterator[tuple[str, str, str]]:
    """Yield ("text", text, ""), ("open", tag, attributes) and ("close", tag, "") in order; opaque elements
    are skipped.
    """
    lower, position, end = html.lower(), 0, len(html)
    if len(lower) != end:  # a few characters have a longer lower case, which would shift all offsets
        lower = html
    while position < end:
        begin = html.find("<", position)
        begin = end if begin < 0 else begin
        if begin > position:
            yield "text", html[position:begin], ""
        name = _TAG_NAME.match(html, begin + 1)
        if html.startswith("<!--", begin):
            position = _index_after(html, "-->", begin + 4)
        elif name is None and html[begin + 1 : begin + 2] in ("!", "?", "/"):
            position = _index_after(html, ">", begin)
        elif name is None:
            position = begin + 1
            yield "text", html[begin:position], ""
        else:
            # Bounded: a quote that is never closed must not make this search the whole page for every tag.
            remainder = _TAG_REST.match(html, name.end(), min(end, name.end() + MAX_TAG_CHARS))
            position = remainder.end() if remainder else _index_after(html, ">", name.end())
            tag = name[1].lower()
            if html[begin + 1] == "/":
                yield "close", tag, ""
            elif tag in _OPAQUE_TAGS:
                closing = lower.find(f"</{tag}", position)
                position = _index_after(html, ">", closing) if closing >= 0 else end
            else:
                yield "open", tag, html[name.end() : position - 1]


def _index_after(html: str, mark: str, start: int) -> int:
    index = html.find(mark, start)
    return len(html) if index < 0 else index + len(mark)


def html_to_markdown(html: str, url: str = "") -> str:
    """Return all text of a page."""
    writer = _MarkdownWriter(url)
    for kind, value, attributes in _tokenize(html):
        if kind == "text":
            writer.add_text(value)
        elif kind == "open":
            writer.open_tag(value, attributes)
        else:
            writer.close_tag(value)
    return clean_text(writer.render())


class _MarkdownWriter:
    """Writes Markdown tag by tag. Within a table row, blocks become spaces; within `pre`, nothing changes."""

    def __init__(self, url: str) -> None:
        self._url, self._out = url, list[str]()
        self._pre = 0
        self._in_head = self._in_row = False
        self._cells = 0
        self._link: tuple[str, int] | None = None

    def render(self) -> str:
        return _map_outside_code("".join(self._out), lambda line: line.strip(" \t"))

    def add_text(self, value: str) -> None:
        if self._in_head:
            return
        value = entities.unescape(value)
        if not self._pre:
            value = _SPACES.sub(" ", value)
            if value == " " and (not self._out or self._out[-1].endswith((" ", "\n"))):
                return
        if self._in_row:
            value = value.replace("|", "\\|")
        self._out.append(value)

    def _break(self, lines: int, mark: str = "") -> None:
        self._out.append((" " if self._in_row else "\n" * lines) + mark)

    def open_tag(self, tag: str, attributes: str) -> None:
        match tag:
            case "head" | "title" | "body":
                self._in_head = tag != "body"
            case "base":
                target = _resolve_url(self._url, _get_attribute(attributes, "href"))
                self._url = target or self._url
            case "img":
                text = _get_attribute(attributes, "alt")
                self._out.append(_SPACES.sub(" ", text))
            case "pre":
                self._break(2)
                self._write_fence("```\n")
                self._pre += 1
            case "code" if not self._pre:
                self._out.append("`")
            case "tr":
                self._in_row = False
                self._break(1)
                self._in_row, self._cells = True, 0
            case "td" | "th" if self._in_row:
                self._cells += 1
                self._out.append("| " if self._cells == 1 else " | ")
            case "a":
                self._link = _get_attribute(attributes, "href"), len(self._out)  # links cannot be nested
            case _ if tag in _BREAKS:
                self._break(*_BREAKS[tag])
            case _:
                pass

    def close_tag(self, tag: str) -> None:
        if tag == "table":  # rows need not be closed
            self._in_row = False
        match tag:
            case "head" | "title":
                self._in_head = False
            case "pre" if self._pre:
                self._pre -= 1
                self._write_fence("\n```\n")
            case "code" if not self._pre:
                self._out.append("`")
            case "tr" if self._in_row:
                self._in_row = False
                self._out.append(" |\n" if self._cells else "\n")
            case "a" if self._link is not None:
                self._close_link(*self._link)
                self._link = None
            case _ if tag in _BLOCKS:
                self._break(2)
            case _:
                pass

    def _close_link(self, href: str, start: int) -> None:
        """Make a link of what was written since its start, if that is one short line."""
        text = _SPACES.sub(" ", "".join(self._out[start:])).strip()
        target = _resolve_url(self._url, href)
        is_label = bool(text) and len(text) <= 300 and "\n" not in text
        if is_label and target and not self._pre:
            self._out[start:] = [f"[{text}]({target})"]

    def _write_fence(self, fence: str) -> None:
        if not self._in_row:  # a row is one line
            self._out.append(fence)


def _get_attribute(attributes: str, name: str) -> str:
    for match in _ATTRIBUTE.finditer(attributes):
        if match[1].lower() == name:
            return entities.unescape(match[2] or match[3] or match[4] or "")
    return ""


def _resolve_url(base: str, href: str) -> str:
    """Return the absolute URL of a link; "" if it does not lead to a page."""
    try:
        target = urljoin(base, href.strip()) if href else ""
    except ValueError:
        return ""
    if not target.startswith(("http://", "https://")) or href.startswith("#"):
        return ""
    return re.sub(r"[\s()<>]", lambda match: f"%{ord(match[0]) & 0xFF:02X}", target)
