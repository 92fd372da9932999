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
    "Form",
    "Newline",
    "changed_lines",
    "checked",
    "counted",
    "decoded",
    "encoded",
    "has_half",
    "is_binary",
    "lines_of",
    "marked",
    "newline_by",
    "newline_of",
    "numbered",
    "readable",
    "unified",
    "with_newlines",
]

Newline = Literal["lf", "crlf", "mixed", "none"]
"""How the lines of a file end; none: it has one line at most, without an end."""
Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "windows-1252"]

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_OF = {encoding: mark for mark, encoding in _MARKS}
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
_LARGEST_SAMPLE = 64 * 1024
_MOST_CONTROL = 0.05  # of a sample of text
_CONTEXT = 3  # lines around a change
_COMPARED = 2000  # lines that are compared one with another; more are shown as replaced whole
_LONGEST_DIFF = 100_000
# The bytes 128 to 159 as Windows-1252 reads them; the five that it does not know stay what they are in Latin-1.
_TO_WESTERN = {code: ord(bytes([code]).decode("cp1252", "ignore") or chr(code)) for code in range(0x80, 0xA0)}
_FROM_WESTERN = {there: here for here, there in _TO_WESTERN.items()}
_NOT_WESTERN = {code: 0x100 for code in _TO_WESTERN if code not in _FROM_WESTERN}  # would come back as another character


class Form(msgspec.Struct, frozen=True):
    """How a text is written down."""

    encoding: Encoding = "utf-8"
    bom: bool = False
    newline: Newline = "none"


UTF8 = Form()


class Document(msgspec.Struct, frozen=True):
    """A text with its own line ends, without its byte order mark."""

    text: str
    form: Form


# ---- bytes


def marked(head: bytes) -> tuple[Encoding, bytes] | None:
    """The encoding that a byte order mark tells, and the mark; None where there is none."""
    return next(((encoding, mark) for mark, encoding in _MARKS if head.startswith(mark)), None)


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file without a mark are no text."""
    sample = head[:_LARGEST_SAMPLE]
    return b"\0" in sample or len(sample) - len(sample.translate(None, _CONTROL)) > len(sample) * _MOST_CONTROL


def readable(data: bytes, encoding: Encoding, errors: str = "strict") -> str:
    """Bytes of one encoding as text. Raises UnicodeDecodeError."""
    if encoding == "windows-1252":
        return data.decode("latin-1").translate(_TO_WESTERN)
    return data.decode(encoding, errors if encoding == "utf-8" or errors != "strict" else "surrogatepass")


def decoded(data: bytes) -> Document | None:
    """The text of a whole file; None where it is no text."""
    found = marked(data)
    if found is None and is_binary(data):
        return None
    encoding, mark = found or ("utf-8", b"")
    try:
        text = readable(data[len(mark) :], encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        encoding, mark = "windows-1252", b""
        text = readable(data, encoding)
    return None if "\0" in text else Document(text, Form(encoding, bool(mark), newline_of(text)))


def encoded(text: str, form: Form) -> bytes:
    """The bytes of a text. Raises ToolError: the encoding cannot say a character."""
    encoding = form.encoding
    mark = _MARK_OF[encoding] if form.bom else b""
    try:
        if encoding == "windows-1252":
            return text.translate(_NOT_WESTERN).translate(_FROM_WESTERN).encode("latin-1")
        return mark + text.encode(encoding, "strict" if encoding == "utf-8" else "surrogatepass")
    except UnicodeEncodeError as e:
        wrong = text[e.start]
        name = unicodedata.name(wrong, "a control character")
        why = f"the file is in {encoding}, which has no U+{ord(wrong):04X} ({name.lower()})"
        raise ToolError(f"{why}: use another character, or write the whole file anew", kind="validation") from None


def checked(text: str, what: str, most: int) -> str:
    """A text that a file may hold. Raises ToolError: `what` is too long, or holds what no text file has."""
    if len(text) > most:
        raise ToolError(f"{what} has {len(text)} characters, and at most {most} are taken at once", kind="limit")
    if "\0" in text:
        raise ToolError(f"{what} holds a NUL character, which no text file has: leave it out", kind="validation")
    if has_half(text):
        raise ToolError(f"{what} holds half a character (a lone surrogate): send the whole character", kind="validation")
    return text


def has_half(text: str) -> bool:
    """Whether a text holds half a character, which no encoding can say."""
    return not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text)


def counted(number: int, what: str) -> str:
    """So many of something, in words: `1 line`, `2 lines`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


# ---- lines


def newline_of(text: str) -> Newline:
    """How the lines of a text end."""
    return newline_by(text.count("\n"), text.count("\r\n"))


def newline_by(ends: int, returns: int) -> Newline:
    """The same by how many line feeds there are, and how many of them come after a carriage return."""
    if not ends:
        return "none"
    return "crlf" if returns == ends else "mixed" if returns else "lf"


def with_newlines(text: str, newline: Newline) -> str:
    """The text with the line ends of a file; where that has several kinds or none, as it is."""
    if newline not in ("crlf", "lf"):
        return text
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if newline == "crlf" else plain


def lines_of(text: str) -> list[str]:
    """The lines without their ends; an empty text has none."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def numbered(lines: Iterable[str], first: int = 1) -> str:
    """Lines as `number<TAB>text`."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))


# ---- differences

_Hunk = list[tuple[str, int, int, int, int]]


def changed_lines(before: str, after: str) -> tuple[int, int]:
    """How many lines a change adds, and how many it takes away."""
    old, new = lines_of(before), lines_of(after)
    head, tail = _alike(old, new)
    added = removed = 0
    for hunk in _hunks(old[head : len(old) - tail], new[head : len(new) - tail]):
        for kind, a, b, c, d in hunk:
            if kind != "equal":
                added, removed = added + d - c, removed + b - a
    return added, removed


def unified(before: str, after: str, name: str) -> str:
    """A unified diff, as people and models read it; a very long one is cut."""
    old, new = _shown(before), _shown(after)
    if old == new:
        return ""
    head, tail = _alike(old, new)
    start = max(head - _CONTEXT, 0)
    old, new = old[start : len(old) - max(tail - _CONTEXT, 0)], new[start : len(new) - max(tail - _CONTEXT, 0)]
    parts = [f"--- {name if before else '/dev/null'}", f"+++ {name}"]
    size = 0
    for hunk in _hunks(old, new):
        for line in _written(hunk, old, new, start):
            parts.append(line)
            size += len(line) + 1
            if size > _LONGEST_DIFF:
                return "\n".join([*parts, "… the rest of the difference is left out"]) + "\n"
    return "\n".join(parts) + "\n"


def _shown(text: str) -> list[str]:
    lines = lines_of(text)
    if text and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _alike(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and then at the end."""
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    tail = next((i for i in range(most - head) if old[-1 - i] != new[-1 - i]), most - head)
    return head, tail


def _hunks(old: list[str], new: list[str]) -> Iterable[_Hunk]:
    """What stays, goes and comes: changes that are near each other, with the lines around them."""
    if max(len(old), len(new)) > _COMPARED:
        return [[("replace", 0, len(old), 0, len(new))]]
    return SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)


def _written(hunk: _Hunk, old: list[str], new: list[str], start: int) -> Iterable[str]:
    first, last = hunk[0], hunk[-1]
    yield f"@@ -{_range(start + first[1], last[2] - first[1])} +{_range(start + first[3], last[4] - first[3])} @@"
    for kind, a, b, c, d in hunk:
        if kind == "equal":
            yield from (f" {line}" for line in old[a:b])
            continue
        yield from (f"-{line}" for line in old[a:b])
        yield from (f"+{line}" for line in new[c:d])


def _range(start: int, count: int) -> str:
    """As diff says it: the first line and how many; of no lines, the one before."""
    return f"{start + 1}" if count == 1 else f"{start + (1 if count else 0)},{count}"
