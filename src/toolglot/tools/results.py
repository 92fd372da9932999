"""Converts whatever a tool returns into a result that every wire can send, and truncates long results.

Invariants: `as_result` never raises and never waits; a value that cannot be represented becomes an error
result with one clear sentence. `limit_result` never returns more than its limit plus one line.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, KeysView, ValuesView
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from hashlib import blake2b
from io import BytesIO
from os import PathLike, fspath
from threading import Lock
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolglot.common.jsontext import loads
from toolglot.common.media_types import detect_media
from toolglot.errors import ToolError, ToolErrorKind
from toolglot.values.messages import Foreign, Media, ResultBlock, Text, ToolCall, ToolResult, ToolsChanged
from toolglot.values.request import ToolDefinition

if TYPE_CHECKING:
    from toolglot.tools.tool import Tool

__all__ = ["ResultStore", "ToolOutput", "as_result", "limit_result", "read_result_tool"]

NO_OUTPUT = "(no output)"
MAX_MEDIA = 20 * 1024 * 1024
MAX_GENERATED = 4_000_000  # characters, or pieces, taken from a generator
_STORE_LOCK = Lock()  # one for all stores: it is held for microseconds
MAX_STORED = 64 * 1024 * 1024
MAX_PAGE = 20_000
LINE_END_WINDOW = 200  # characters in which a line end is preferred over the exact limit
_SCALARS = frozenset({str, int, bool, type(None)})
_SURROGATE = re.compile("[\ud800-\udfff]")


class ToolOutput(msgspec.Struct, frozen=True):
    """An explicit result: the content that the model reads, structured data, and whether it is an error."""

    content: Any
    """What the model reads: text, media, or any value that JSON can represent."""
    data: Any = None
    """The same as structured data, for programs."""
    is_error: bool = False
    """Whether the call failed."""
    error_kind: ToolErrorKind | None = None
    """The category of the failure."""
    error_code: str = ""
    """A stable name for the failure, for facades and for programs that read results."""


# ---- values


def as_result(value: Any, call: ToolCall) -> ToolResult:
    """Convert a tool's return value into the result of a call."""
    if type(value) is str:
        return ToolResult(call.id, (Text(escape_surrogates(value)),), call.name)
    try:
        if isinstance(value, ToolResult):
            content = tuple(part for block in value.content for part in _to_content(block)[0])
            data = None if value.data is None else _to_json(value.data)[1]
            return msgspec.structs.replace(value, call_id=call.id, name=call.name, content=content, data=data)
        if isinstance(value, ToolOutput):
            content, data = _to_content(value.content)
            data = data if value.data is None else _to_json(value.data)[1]
            kind = value.error_kind or ("execution" if value.is_error else None)
            is_error = value.is_error or kind is not None
            return ToolResult(call.id, content, call.name, data, is_error, kind, error_code=value.error_code)
        content, data = _to_content(value)
        return ToolResult(call.id, content, call.name, data)
    except _Unrepresentable as e:
        reason = str(e)
    except Exception as e:
        reason = describe_error(e)
    text = escape_surrogates(
        f"The tool {call.name} ran, but returned something that cannot be shown: {reason}."[:500]
    )
    return ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind="execution")


def describe_error(error: Exception) -> str:
    """Return the name and the first line of an exception, even if its __str__ fails."""
    first_line = ""
    with suppress(Exception):
        first_line = str(error).strip().partition("\n")[0][:500]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


class _Unrepresentable(ValueError):
    """A value that cannot be represented as a result; the message describes it."""


def _to_content(value: Any) -> tuple[tuple[ResultBlock, ...], Any]:
    """Return the content for the model, and the value itself if it is data."""
    if isinstance(value, GeneratorType):
        value = collect_generator(cast(Iterator[Any], value))
    if isinstance(value, str):
        return (Text(escape_surrogates(value)),), None
    if value is None:
        return (Text(NO_OUTPUT),), None
    if isinstance(value, Text):
        text = escape_surrogates(value.text)
        return (value if text is value.text else msgspec.structs.replace(value, text=text),), None
    if isinstance(value, (Media, Foreign, ToolsChanged)):
        return (value,), None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (_to_media(bytes(cast(bytes, value))),), None
    if _is_pil_image(value):
        buffer = BytesIO()
        value.save(buffer, format="PNG")
        return (_to_media(buffer.getvalue()),), None
    if isinstance(value, (list, tuple)) and any(map(_is_block, cast(list[Any], value))):
        return tuple(part for item in cast(list[Any], value) for part in _to_content(item)[0]), None
    text, data = _to_json(value)
    return (Text(data if isinstance(data, str) else text),), data


def _is_block(value: Any) -> bool:
    """Return whether a value is content by itself, and not data."""
    if type(value) in _SCALARS or type(value) in (dict, list):
        return False
    return isinstance(
        value, (Text, Media, Foreign, ToolsChanged, bytes, bytearray, memoryview)
    ) or _is_pil_image(value)


def _is_pil_image(value: Any) -> bool:
    return callable(getattr(value, "save", None)) and hasattr(value, "size") and hasattr(value, "mode")


def _to_media(data: bytes) -> Media:
    return Media.from_bytes(data, "" if detect_media(data) else "application/octet-stream")


def _to_json(value: Any) -> tuple[str, Any]:
    """Return JSON text and the plain value. Raises _Unrepresentable."""
    if isinstance(value, CoroutineType):
        cast(Any, value).close()
        raise _Unrepresentable("a coroutine that was never awaited; an async tool must await what it calls")
    try:
        text = _encode(value)
        data = loads(text)
        if b"null" in text and not _is_finite(value):
            raise _Unrepresentable("NaN or infinity, which JSON cannot represent")
    except RecursionError:
        raise _Unrepresentable("data that refers to itself or is nested too deeply") from None
    except UnicodeEncodeError:
        return _to_json(
            escape_nested_surrogates(msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True))
        )
    except _Unrepresentable:
        raise
    except (TypeError, OverflowError, ValueError) as e:
        described = _with_article(type(value).__name__)
        if isinstance(value, (dict, list, tuple, set, frozenset)) or is_dataclass(value):
            raise _Unrepresentable(f"{described} that JSON cannot represent ({e})") from None
        raise _Unrepresentable(f"{described}, which is neither text nor data nor media") from None
    return text.decode(), data


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _encode_hook(value: Any) -> Any:
    """Convert types that msgspec does not know."""
    if isinstance(value, str):  # of another library, such as markup: msgspec writes no subclass of str
        return str.__str__(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PathLike):
        return fspath(cast("PathLike[str]", value))
    if isinstance(value, (range, KeysView, ValuesView)):
        return list(cast(Iterable[Any], value))
    if callable(to_list := getattr(value, "tolist", None)):  # numpy arrays and numbers
        return to_list()
    raise TypeError(f"{_with_article(type(value).__name__)} has no JSON form")


_encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode


def _is_finite(value: Any) -> bool:
    """Return whether no number inside is NaN or infinite: msgspec encodes those as null."""
    try:
        json.dumps(msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True), allow_nan=False)
    except ValueError:
        return False
    return True


def escape_surrogates(text: str) -> str:
    """Escape unpaired surrogates, which no provider accepts."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_nested_surrogates(value: Any) -> Any:
    """Escape unpaired surrogates in JSON data, as `escape_surrogates` does in a text."""
    match value:
        case str():
            return escape_surrogates(value)
        case dict():
            return {
                escape_surrogates(str(key)): escape_nested_surrogates(item)
                for key, item in cast(dict[Any, Any], value).items()
            }
        case list() | tuple():
            return [escape_nested_surrogates(item) for item in cast(list[Any], value)]
        case _:
            return value


# ---- generators


class _GeneratorOutput:
    """What a generator has yielded so far: pieces of text are joined, anything else becomes a list."""

    def __init__(self) -> None:
        self.pieces, self.size, self.is_truncated = list[Any](), 0, False

    def add(self, piece: Any) -> bool:
        """Add one piece; return False once the limit is reached."""
        self.pieces.append(piece)
        self.size += len(piece) if isinstance(piece, str) else 1
        self.is_truncated = self.size >= MAX_GENERATED
        return not self.is_truncated

    def value(self) -> Any:
        if not all(isinstance(piece, str) for piece in self.pieces):
            return self.pieces
        note = f"\n… the tool was stopped after {MAX_GENERATED} characters" if self.is_truncated else ""
        return "".join(self.pieces)[:MAX_GENERATED] + note


def collect_generator(pieces: Iterator[Any]) -> Any:
    """Return everything that a generator yields, up to a limit."""
    output = _GeneratorOutput()
    for piece in pieces:
        if not output.add(piece):
            with suppress(Exception):
                cast(Any, pieces).close()
            break
    return output.value()


async def collect_async_generator(pieces: AsyncIterator[Any]) -> Any:
    """Return everything that an async generator yields, up to a limit."""
    output = _GeneratorOutput()
    try:
        async for piece in pieces:
            if not output.add(piece):
                break
    finally:
        await cast(Any, pieces).aclose()
    return output.value()


# ---- results that are too long


class ResultStore:
    """The long texts of one conversation, by handle; beyond `max_bytes`, the oldest are dropped. Thread-safe.

    A handle depends on the text alone, so in a loaded or copied conversation it refers to the same text, or
    to none.
    """

    def __init__(self, max_bytes: int = MAX_STORED) -> None:
        self.max_bytes = max_bytes
        self._texts: dict[str, str] = {}  # oldest first
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def texts(self) -> list[str]:
        """All stored texts, oldest first."""
        with _STORE_LOCK:
            return [*self._texts.values()]

    def put(self, text: str) -> str:
        """Store a text and return its handle.

        Of a text larger than the whole store, only the beginning is kept.
        """
        if sys.getsizeof(text) > self.max_bytes:
            text = text[: self.max_bytes // 4]
        handle = "r" + blake2b(text.encode(errors="surrogatepass"), digest_size=5).hexdigest()
        with _STORE_LOCK:
            self._bytes += 0 if handle in self._texts else sys.getsizeof(text)
            self._texts[handle] = self._texts.pop(handle, text)  # the newest is the last
            while self._bytes > self.max_bytes and len(self._texts) > 1:
                self._bytes -= sys.getsizeof(self._texts.pop(next(iter(self._texts))))
        return handle

    def page(self, handle: str, offset: int = 0, limit: int = MAX_PAGE) -> str:
        """Read a part of a text. Raises ToolError (not_found)."""
        text = self._text(handle)
        if offset < 0 or (offset >= len(text) and offset):
            message = f"offset {offset} is outside of result {handle!r}, which has {len(text)} characters"
            raise ToolError(f"{message}; use an offset from 0 to {max(len(text) - 1, 0)}", kind="not_found")
        return text[offset : offset + max(limit, 1)]

    def size(self, handle: str) -> int:
        """Return the length of a text in characters. Raises ToolError (not_found)."""
        return len(self._text(handle))

    def _text(self, handle: str) -> str:
        with _STORE_LOCK:
            text, known = self._texts.get(handle), list(self._texts)
        if text is not None:
            return text
        available = f"; there are {', '.join(known[-5:])}" if known else ""
        raise ToolError(
            f"there is no result {handle!r} (any more): run the tool again{available}", kind="not_found"
        )


def limit_result(result: ToolResult, limit: int, store: ResultStore | None) -> ToolResult:
    """Truncate a result to `limit` characters of text: the start, a line on how to read the rest, and the
    end.

    `store`: keeps the whole text; None if nobody will read the rest.
    """
    if len(result.content) == 1 and result.data is None:  # the usual case: one text that fits
        block = result.content[0]
        if isinstance(block, Text) and len(block.text) <= limit:
            return result
    content = [_limit_media(block) for block in result.content]
    text = "".join(block.text for block in content if isinstance(block, Text))
    if len(text) > limit:
        shortened = _truncate(text, limit, store)
        return msgspec.structs.replace(result, content=_replace_texts(content, shortened), data=None)
    data = result.data
    # Some wires send the data instead of the text, so it is limited as well.
    if data is not None and len(_encode(data)) > limit * 4:
        data = None
    if data is result.data and tuple(content) == result.content:
        return result
    return msgspec.structs.replace(result, content=tuple(content), data=data)


def _replace_texts(content: list[ResultBlock], text: str) -> tuple[ResultBlock, ...]:
    """Return content with one text in the place of its first, and without the others."""
    first = next(index for index, block in enumerate(content) if isinstance(block, Text))
    others = [block for block in content[first:] if not isinstance(block, Text)]
    return (*content[:first], Text(text), *others)


def _limit_media(block: ResultBlock) -> ResultBlock:
    """Return a block of a result, or a text in place of media that are too large for any model."""
    if not isinstance(block, Media) or not block.data:
        return block
    size = len(block.data) * 3 // 4  # of Base64
    if size <= MAX_MEDIA:
        return block
    return Text(
        f"[{block.kind} of {size // 2**20} MB left out: models accept at most {MAX_MEDIA // 2**20} MB]"
    )


def _truncate(text: str, limit: int, store: ResultStore | None) -> str:
    """Return the start and the end of a text, cut at line ends where possible, with a note on how to read the
    middle.

    `store`: keeps the text; None if the middle cannot be read.
    """
    head, tail = limit - limit // 3, limit // 3
    if (end := text.rfind("\n", max(head - LINE_END_WINDOW, 0), head)) > head // 2:
        head = end + 1
    start = len(text) - tail
    if (end := text.find("\n", start, start + min(LINE_END_WINDOW, tail // 2))) >= 0:
        start = end + 1
    how = "" if store is None else f'; read them with read_result(handle="{store.put(text)}", offset={head})'
    note = f"… {start - head} characters left out{how} …"
    separator = "" if text[:head].endswith("\n") or not head else "\n"
    return f"{text[:head]}{separator}{note}\n{text[start:]}"


@cache
def _read_result_definition(page_size: int) -> ToolDefinition:
    properties = {
        "handle": {
            "type": "string",
            "description": "The handle of the result, as the truncated result names it.",
        },
        "offset": {"type": "integer", "description": "The first character to read (default 0)."},
        "limit": {
            "type": "integer",
            "description": f"Characters to read, at most {page_size} (default {page_size}).",
        },
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["handle"],
        "additionalProperties": False,
    }
    return ToolDefinition(
        "read_result", "Read a part of a tool result that was too long to be shown in full.", schema
    )


def read_result_tool(store: ResultStore, page_size: int = MAX_PAGE) -> "Tool":
    """Create the tool with which a model reads the rest of a truncated result, `page_size` characters at a
    time.
    """
    from toolglot.tools.tool import tool_from_definition

    def read_result(handle: str, offset: int = 0, limit: int = page_size) -> str:
        text, size = store.page(handle, offset, min(limit, page_size)), store.size(handle)
        end = offset + len(text)
        hint = f"; continue with offset={end}" if end < size else "; this is the end"
        return f"{text}\n[characters {offset} to {end} of {size}{hint}]"

    definition, max_result = _read_result_definition(page_size), page_size + LINE_END_WINDOW
    return tool_from_definition(
        definition, read_result, effects="read", inline=True, idempotent=True, max_result=max_result
    )
