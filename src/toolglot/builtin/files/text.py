"""The bytes of a text file as text, and back: what is not changed comes back byte for byte.

Laws: `encoded(decoded(data)) == data` for whatever `decoded` takes. A line ends at a line feed, with or without a carriage
return before it; nothing else ends one. What is not text is None, never a guess.
"""

import codecs
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec

from toolglot.errors import ToolError

__all__ = [
    "UTF8",
    "Document",
    "Encoding",
    "Newline",
    "TextFormat",
    "check_text",
    "classify_newlines",
    "convert_newlines",
    "count_changed_lines",
    "decode_bytes",
    "decode_document",
    "detect_bom",
    "detect_newline",
    "encode_text",
    "has_lone_surrogate",
    "is_binary",
    "number_lines",
    "pluralize",
    "split_lines",
    "unified_diff",
]

Newline = Literal["lf", "crlf", "mixed", "none"]
"""How the lines of a file end; none: it has one line at most, without an end."""
Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "windows-1252"]

# UTF-32 first: its mark begins with that of UTF-16.
_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BOM_BY_ENCODING = {encoding: mark for mark, encoding in _BOMS}
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
_SAMPLE_SIZE = 64 * 1024
_MAX_CONTROL_SHARE = 0.05  # of a sample of text
_CONTEXT_LINES = 3  # lines around a change
_MAX_COMPARED_LINES = 2000  # lines that are compared one with another; more are shown as replaced whole
_MAX_DIFF_CHARS = 100_000
# The bytes 128 to 159 as Windows-1252 reads them; the five that it does not know stay what they are in Latin-1.
_FROM_CP1252 = {code: ord(bytes([code]).decode("cp1252", "ignore") or chr(code)) for code in range(0x80, 0xA0)}
_TO_CP1252 = {there: here for here, there in _FROM_CP1252.items()}
_NOT_IN_CP1252 = {code: 0x100 for code in _FROM_CP1252 if code not in _TO_CP1252}  # would come back as another character


class TextFormat(msgspec.Struct, frozen=True):
    """How a text is written down."""

    encoding: Encoding = "utf-8"
    bom: bool = False
    newline: Newline = "none"


UTF8 = TextFormat()


class Document(msgspec.Struct, frozen=True):
    """A text with its own line ends, without its byte order mark."""

    text: str
    format: TextFormat


# ---- bytes


def detect_bom(head: bytes) -> tuple[Encoding, bytes] | None:
    """The encoding that a byte order mark tells, and the mark; None where there is none."""
    return next(((encoding, mark) for mark, encoding in _BOMS if head.startswith(mark)), None)


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file without a mark are no text."""
    sample = head[:_SAMPLE_SIZE]
    return b"\0" in sample or len(sample) - len(sample.translate(None, _CONTROL_BYTES)) > len(sample) * _MAX_CONTROL_SHARE


def decode_bytes(data: bytes, encoding: Encoding, errors: str = "strict") -> str:
    """Bytes of one encoding as text. Raises UnicodeDecodeError."""
    if encoding == "windows-1252":
        return data.decode("latin-1").translate(_FROM_CP1252)
    return data.decode(encoding, errors if encoding == "utf-8" or errors != "strict" else "surrogatepass")


def decode_document(data: bytes) -> Document | None:
    """The text of a whole file; None where it is no text."""
    found = detect_bom(data)
    if found is None and is_binary(data):
        return None
    encoding, mark = found or ("utf-8", b"")
    try:
        text = decode_bytes(data[len(mark) :], encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        encoding, mark = "windows-1252", b""
        text = decode_bytes(data, encoding)
    return None if "\0" in text else Document(text, TextFormat(encoding, bool(mark), detect_newline(text)))


def encode_text(text: str, text_format: TextFormat) -> bytes:
    """The bytes of a text. Raises ToolError: the encoding cannot say a character."""
    encoding = text_format.encoding
    mark = _BOM_BY_ENCODING[encoding] if text_format.bom else b""
    try:
        if encoding == "windows-1252":
            return text.translate(_NOT_IN_CP1252).translate(_TO_CP1252).encode("latin-1")
        return mark + text.encode(encoding, "strict" if encoding == "utf-8" else "surrogatepass")
    except UnicodeEncodeError as e:
        wrong = text[e.start]
        name = unicodedata.name(wrong, "a control character")
        why = f"the file is in {encoding}, which has no U+{ord(wrong):04X} ({name.lower()})"
        raise ToolError(f"{why}: use another character, or write the whole file anew", kind="validation") from None


def check_text(text: str, name: str, limit: int) -> str:
    """A text that a file may hold. Raises ToolError: `what` is too long, or holds what no text file has."""
    if len(text) > limit:
        raise ToolError(f"{name} has {len(text)} characters, and at most {limit} are taken at once", kind="limit")
    if "\0" in text:
        raise ToolError(f"{name} holds a NUL character, which no text file has: leave it out", kind="validation")
    if has_lone_surrogate(text):
        raise ToolError(f"{name} holds half a character (a lone surrogate): send the whole character", kind="validation")
    return text


def has_lone_surrogate(text: str) -> bool:
    """Whether a text holds half a character, which no encoding can say."""
    return not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text)


def pluralize(count: int, noun: str) -> str:
    """So many of something, in words: `1 line`, `2 lines`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


# ---- lines


def detect_newline(text: str) -> Newline:
    """How the lines of a text end."""
    return classify_newlines(text.count("\n"), text.count("\r\n"))


def classify_newlines(line_feeds: int, crlf_count: int) -> Newline:
    """The same by how many line feeds there are, and how many of them come after a carriage return."""
    if not line_feeds:
        return "none"
    return "crlf" if crlf_count == line_feeds else "mixed" if crlf_count else "lf"


def convert_newlines(text: str, newline: Newline) -> str:
    """The text with the line ends of a file; where that has several kinds or none, as it is."""
    if newline not in ("crlf", "lf"):
        return text
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if newline == "crlf" else plain


def split_lines(text: str) -> list[str]:
    """The lines without their ends; an empty text has none."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def number_lines(lines: Iterable[str], first: int = 1) -> str:
    """Lines as `number<TAB>text`."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))


# ---- differences

_Hunk = list[tuple[str, int, int, int, int]]


def count_changed_lines(before: str, after: str) -> tuple[int, int]:
    """How many lines a change adds, and how many it takes away."""
    old, new = split_lines(before), split_lines(after)
    head, tail = _common_ends(old, new)
    added = removed = 0
    for hunk in _find_hunks(old[head : len(old) - tail], new[head : len(new) - tail]):
        for kind, a, b, c, d in hunk:
            if kind != "equal":
                added, removed = added + d - c, removed + b - a
    return added, removed


def unified_diff(before: str, after: str, path: str) -> str:
    """A unified diff, as people and models read it; a very long one is cut."""
    old, new = _diff_lines(before), _diff_lines(after)
    if old == new:
        return ""
    head, tail = _common_ends(old, new)
    start = max(head - _CONTEXT_LINES, 0)
    old, new = old[start : len(old) - max(tail - _CONTEXT_LINES, 0)], new[start : len(new) - max(tail - _CONTEXT_LINES, 0)]
    parts = [f"--- {path if before else '/dev/null'}", f"+++ {path}"]
    size = 0
    for hunk in _find_hunks(old, new):
        for line in _render_hunk(hunk, old, new, start):
            parts.append(line)
            size += len(line) + 1
            if size > _MAX_DIFF_CHARS:
                return "\n".join([*parts, "… the rest of the difference is left out"]) + "\n"
    return "\n".join(parts) + "\n"


def _diff_lines(text: str) -> list[str]:
    lines = split_lines(text)
    if text and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and then at the end."""
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    tail = next((i for i in range(most - head) if old[-1 - i] != new[-1 - i]), most - head)
    return head, tail


def _find_hunks(old: list[str], new: list[str]) -> Iterable[_Hunk]:
    """What stays, goes and comes: changes that are near each other, with the lines around them."""
    if max(len(old), len(new)) > _MAX_COMPARED_LINES:
        return [[("replace", 0, len(old), 0, len(new))]]
    return SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT_LINES)


def _render_hunk(hunk: _Hunk, old: list[str], new: list[str], start: int) -> Iterable[str]:
    first, last = hunk[0], hunk[-1]
    yield f"@@ -{_format_range(start + first[1], last[2] - first[1])} +{_format_range(start + first[3], last[4] - first[3])} @@"
    for kind, a, b, c, d in hunk:
        if kind == "equal":
            yield from (f" {line}" for line in old[a:b])
            continue
        yield from (f"-{line}" for line in old[a:b])
        yield from (f"+{line}" for line in new[c:d])


def _format_range(start: int, count: int) -> str:
    """As diff says it: the first line and how many; of no lines, the one before."""
    return f"{start + 1}" if count == 1 else f"{start + (1 if count else 0)},{count}"
