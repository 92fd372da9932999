"""Text files: decoding and encoding them so that whatever is not changed comes back byte for byte.

Invariants: `document.encode(document.text) == data` for whatever `decode_document(data)` accepts. A line ends
at a line feed, with or without a carriage return before it; nothing else ends one. What is not text is None,
never a guess.
"""

import codecs
import unicodedata
from typing import Literal

import msgspec

from toolglot.errors import ToolError
from toolglot.values.failures import invalid_argument

__all__ = [
    "Document",
    "Encoding",
    "Newline",
    "check_text",
    "convert_newlines",
    "decode_bytes",
    "decode_document",
    "detect_bom",
    "detect_newline",
    "has_lone_surrogate",
    "is_binary",
]

Newline = Literal["lf", "crlf", "mixed", "none"]
"""How the lines of a file end; none: it has at most one line, which does not end."""
Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "windows-1252"]

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# A file may begin with the mark of UTF-8 and then not be UTF-8: the mark is kept.
_BOM_BY_ENCODING = {**{encoding: bom for bom, encoding in _BOMS}, "windows-1252": codecs.BOM_UTF8}
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
_SAMPLE_SIZE = 64 * 1024
_MAX_CONTROL_SHARE = 0.05
# Python's cp1252 refuses five bytes; they stay what they are in Latin-1, so that every byte comes back.
_FROM_CP1252 = {
    code: ord(bytes([code]).decode("cp1252", "ignore") or chr(code)) for code in range(0x80, 0xA0)
}
_TO_CP1252 = {character: code for code, character in _FROM_CP1252.items()}
# C1 control characters would silently come back as others: mapped to something that Latin-1 refuses.
_NOT_IN_CP1252 = {code: 0x100 for code in _FROM_CP1252 if code not in _TO_CP1252}


class Document(msgspec.Struct, frozen=True):
    """The text of a file with its own line endings, without its byte order mark, and how it is stored."""

    text: str = ""
    encoding: Encoding = "utf-8"
    bom: bool = False

    @property
    def newline(self) -> Newline:
        """How its lines end."""
        return detect_newline(self.text)

    def encode(self, text: str) -> bytes:
        """Encode another text in the same way. Raises ToolError if the encoding lacks a character."""
        bom = _BOM_BY_ENCODING[self.encoding] if self.bom else b""
        try:
            if self.encoding == "windows-1252":
                return bom + text.translate(_NOT_IN_CP1252).translate(_TO_CP1252).encode("latin-1")
            return bom + text.encode(self.encoding, _choose_error_handler(self.encoding))
        except UnicodeEncodeError as e:
            character = text[e.start]
            name = unicodedata.name(character, "a control character").lower()
            message = f"the file is encoded in {self.encoding}, which has no U+{ord(character):04X} ({name})"
            message += ": use another character, or write the whole file again"
            raise ToolError(message, kind="validation", code="unencodable_text") from None


# ---- bytes


def detect_bom(head: bytes) -> tuple[Encoding, bytes] | None:
    """Return the encoding that a byte order mark announces, and the mark; None without one."""
    return next(((encoding, bom) for bom, encoding in _BOMS if head.startswith(bom)), None)


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file without a byte order mark are not text."""
    sample = head[:_SAMPLE_SIZE]
    return (
        b"\0" in sample
        or len(sample) - len(sample.translate(None, _CONTROL_BYTES)) > len(sample) * _MAX_CONTROL_SHARE
    )


def decode_bytes(data: bytes, encoding: Encoding) -> str:
    """Decode bytes of a known encoding. Raises UnicodeDecodeError."""
    if encoding == "windows-1252":
        return data.decode("latin-1").translate(_FROM_CP1252)
    return data.decode(encoding, _choose_error_handler(encoding))


def _choose_error_handler(encoding: Encoding) -> str:
    """Return how to treat half of a surrogate pair: files in UTF-16 and UTF-32 may have one."""
    return "strict" if encoding == "utf-8" else "surrogatepass"


def decode_document(data: bytes) -> Document | None:
    """Decode the content of a file; None if it is not text."""
    mark = detect_bom(data)
    if mark is None and is_binary(data):
        return None
    encoding, bom = mark or ("utf-8", b"")
    try:
        text = decode_bytes(data[len(bom) :], encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        encoding = "windows-1252"
        text = decode_bytes(data[len(bom) :], encoding)
    return None if "\0" in text else Document(text, encoding, bool(bom))


def check_text(text: str, parameter: str, limit: int) -> str:
    """Return a text that a file may contain.

    Raises ToolError if it is too long or has characters that no file has.
    """
    if len(text) > limit:
        raise invalid_argument(parameter, f"has {len(text)} characters; the maximum is {limit}", kind="limit")
    if "\0" in text:
        raise invalid_argument(parameter, "contains a NUL character, which text files cannot have: remove it")
    if has_lone_surrogate(text):
        raise invalid_argument(
            parameter, "contains an unpaired surrogate (invalid Unicode): send the whole character"
        )
    return text


def has_lone_surrogate(text: str) -> bool:
    """Whether a text contains half of a surrogate pair, which no encoding can represent."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


# ---- lines


def detect_newline(text: str) -> Newline:
    """Return how the lines of a text end."""
    line_feeds, crlf_count = text.count("\n"), text.count("\r\n")
    if not line_feeds:
        return "none"
    if not crlf_count:
        return "lf"
    return "crlf" if crlf_count == line_feeds else "mixed"


def convert_newlines(text: str, newline: Newline) -> str:
    """Return the text with the line endings of a file; unchanged if that has several kinds, or none."""
    if newline not in ("crlf", "lf"):
        return text
    lf_text = text.replace("\r\n", "\n")
    return lf_text.replace("\n", "\r\n") if newline == "crlf" else lf_text
