"""Whatever a tool returned, as a result that every wire can send; and results that are too long, cut with a way to the rest.

Laws: `as_result` never raises and never waits; what cannot be said is an error result with one clear sentence. No result that
leaves `bounded` is longer than its limit and one line.
"""

import base64
import re
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, KeysView, ValuesView
from contextlib import suppress
from dataclasses import is_dataclass
from io import BytesIO
from math import isfinite
from os import PathLike, fspath
from threading import Lock
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolglot.errors import ToolError
from toolglot.jsontext import loads
from toolglot.media_types import detect_media
from toolglot.messages import Foreign, Media, Text, ToolCall, ToolErrorKind, ToolResult
from toolglot.request import ToolDefinition

if TYPE_CHECKING:
    from toolglot.tools.tool import Tool

__all__ = [
    "ResultStore",
    "ToolOutput",
    "as_result",
    "collect_async_generator",
    "collect_generator",
    "escape_surrogates",
    "limit_result",
    "read_result_tool",
]

ResultBlock = Text | Media | Foreign

NO_OUTPUT = "(no output)"
MAX_MEDIA = 20 * 1024 * 1024
MAX_GENERATED = 4_000_000  # characters, or pieces, that are taken from a generator
MAX_STORED = 64 * 1024 * 1024
MAX_PAGE = 20_000
LINE_END_WINDOW = 200  # characters in which a line may end to be a good place for a cut
_SCALARS = frozenset({str, int, bool, type(None)})
_SURROGATE = re.compile("[\ud800-\udfff]")


class ToolOutput(msgspec.Struct, frozen=True):
    """An explicit result: what the model reads, structured data beside it, and whether it is an error."""

    content: Any
    data: Any = None
    is_error: bool = False
    error_kind: ToolErrorKind | None = None


# ---- values


def as_result(value: Any, call: ToolCall) -> ToolResult:
    """What a tool returned, as the answer to a call."""
    try:
        return _convert(value, call)
    except Exception as e:
        reason = str(e) if isinstance(e, _Unrepresentable) else _summarize_error(e)
        text = f"The tool {call.name} ran, but returned something that cannot be shown: {reason}."
        return _error_result(call, escape_surrogates(text[:500]))


def _summarize_error(error: Exception) -> str:
    """An error in words, also where it has none."""
    try:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    except Exception:
        return type(error).__name__


class _Unrepresentable(ValueError):
    """A value that has no form as a result; the message says what it is."""


def _error_result(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind="execution")


def _convert(value: Any, call: ToolCall) -> ToolResult:
    match value:
        case str():
            return ToolResult(call.id, (Text(escape_surrogates(value)),), call.name)
        case None:
            return ToolResult(call.id, (Text(NO_OUTPUT),), call.name)
        case ToolResult():
            content = tuple(part for block in value.content for part in _to_content(block)[0])
            data = None if value.data is None else _to_json(value.data)[1]
            return msgspec.structs.replace(value, call_id=call.id, name=call.name, content=content, data=data)
        case ToolOutput():
            content, data = _to_content(value.content)
            data = data if value.data is None else _to_json(value.data)[1]
            kind = value.error_kind or ("execution" if value.is_error else None)
            return ToolResult(call.id, content, call.name, data, value.is_error or kind is not None, kind)
        case _:
            content, data = _to_content(value)
            return ToolResult(call.id, content, call.name, data)


def _to_content(value: Any) -> tuple[tuple[ResultBlock, ...], Any]:
    """What the model reads, and the value as data where it is one."""
    if isinstance(value, GeneratorType):
        value = collect_generator(cast(Iterator[Any], value))
    if isinstance(value, str):
        return (Text(escape_surrogates(value)),), None
    if value is None:
        return (Text(NO_OUTPUT),), None
    if (block := _to_block(value)) is not None:
        return (block,), None
    if isinstance(value, (list, tuple)) and any(map(_is_block, cast(list[Any], value))):
        return tuple(part for item in cast(list[Any], value) for part in _to_content(item)[0]), None
    text, data = _to_json(value)
    return (Text(data if isinstance(data, str) else text),), data


def _is_block(value: Any) -> bool:
    if type(value) in _SCALARS or type(value) in (dict, list):
        return False
    return isinstance(value, (Text, Media, Foreign, bytes, bytearray, memoryview)) or _is_pil_image(value)


def _is_pil_image(value: Any) -> bool:
    """As PIL's images are."""
    return callable(getattr(value, "save", None)) and hasattr(value, "size") and hasattr(value, "mode")


def _to_block(value: Any) -> ResultBlock | None:
    """A value that is a block by itself: media, text, content of a wire."""
    if isinstance(value, Text):
        text = escape_surrogates(value.text)
        return value if text is value.text else msgspec.structs.replace(value, text=text)
    if isinstance(value, (Media, Foreign)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _to_media(bytes(cast(bytes, value)))
    if _is_pil_image(value):
        buffer = BytesIO()
        value.save(buffer, format="PNG")
        return _to_media(buffer.getvalue())
    return None


def _to_media(data: bytes) -> Media:
    kind, media_type = detect_media(data) or ("file", "application/octet-stream")
    return Media(kind, media_type, base64.b64encode(data).decode())


def _to_json(value: Any) -> tuple[str, Any]:
    """JSON text and the plain value. Raises _CannotSay."""
    if isinstance(value, CoroutineType):
        cast(Any, value).close()
        raise _Unrepresentable("a coroutine that was never awaited; an async tool must await its own calls")
    try:
        text = _encode(value)
        data = loads(text)
        if b"null" in text and not _is_finite(value):
            raise _Unrepresentable("NaN or infinity, which JSON cannot say")
    except RecursionError:
        raise _Unrepresentable("data that refers to itself or is nested too deeply") from None
    except UnicodeEncodeError:
        return _to_json(_escape_nested(msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True)))
    except (TypeError, OverflowError, ValueError) as e:
        raise e if isinstance(e, _Unrepresentable) else _Unrepresentable(_describe_value(value, e)) from None
    return text.decode(), data


def _describe_value(value: Any, error: Exception) -> str:
    kind = type(value).__name__
    if isinstance(value, (dict, list, tuple, set, frozenset)) or is_dataclass(value):
        return f"{_with_article(kind)} that JSON cannot say ({error})"
    return f"{_with_article(kind)}, which is neither text nor data nor media"


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _encode_hook(value: Any) -> Any:
    """What msgspec does not know as what it knows."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PathLike):
        return fspath(cast("PathLike[str]", value))
    if isinstance(value, (range, KeysView, ValuesView)):
        return list(cast(Iterable[Any], value))
    if callable(plain := getattr(value, "tolist", None)):  # as numpy's arrays and numbers
        return plain()
    raise TypeError(f"{_with_article(type(value).__name__)} has no JSON form")


_encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode


def _is_finite(value: Any) -> bool:
    """Whether all numbers inside are ones that JSON can say."""
    todo = [value]
    while todo:
        item: Any = todo.pop()
        kind = cast(Any, type(item))
        if kind is float:
            if not isfinite(item):
                return False
        elif kind is dict:
            todo.extend(item.values())
        elif kind is list or kind is tuple:
            todo.extend(item)
        elif kind not in _SCALARS:
            plain = msgspec.to_builtins(item, enc_hook=_encode_hook, str_keys=True)
            if type(plain) is float or type(plain) in (dict, list, tuple):
                todo.append(plain)
    return True


def escape_surrogates(text: str) -> str:
    """Text without half characters, which no provider takes: they are shown as escapes."""
    return text if text.isascii() or not _SURROGATE.search(text) else _SURROGATE.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escape_nested(value: Any) -> Any:
    match value:
        case str():
            return escape_surrogates(value)
        case dict():
            return {escape_surrogates(str(key)): _escape_nested(item) for key, item in cast(dict[Any, Any], value).items()}
        case list() | tuple():
            return [_escape_nested(item) for item in cast(list[Any], value)]
        case _:
            return value


# ---- generators


class _GeneratorOutput:
    """What a generator gave so far: pieces of text are one text, anything else is a list."""

    def __init__(self) -> None:
        self.pieces, self.size, self.is_truncated = list[Any](), 0, False

    def add(self, piece: Any) -> bool:
        """Takes one; False when that is enough."""
        self.pieces.append(piece)
        self.size += len(piece) if isinstance(piece, str) else 1
        self.is_truncated = self.size >= MAX_GENERATED
        return not self.is_truncated

    def value(self) -> Any:
        if not all(isinstance(piece, str) for piece in self.pieces):
            return self.pieces
        note = f"\n… the tool gave more; it was stopped after {MAX_GENERATED} characters" if self.is_truncated else ""
        return "".join(self.pieces)[:MAX_GENERATED] + note


def collect_generator(pieces: Iterator[Any]) -> Any:
    """All that a generator gives, up to a limit."""
    found = _GeneratorOutput()
    for piece in pieces:
        if not found.add(piece):
            break
    if found.is_truncated:
        with suppress(Exception):
            cast(Any, pieces).close()
    return found.value()


async def collect_async_generator(pieces: AsyncIterator[Any]) -> Any:
    """All that an async generator gives, up to a limit."""
    found = _GeneratorOutput()
    try:
        async for piece in pieces:
            if not found.add(piece):
                break
    finally:
        await cast(Any, pieces).aclose()
    return found.value()


# ---- results that are too long


class ResultStore:
    """Long texts behind handles: the newest `max_bytes` of them. Safe under threads."""

    def __init__(self, max_bytes: int = MAX_STORED) -> None:
        self.max_bytes = max_bytes
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._bytes = self._count = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def __bool__(self) -> bool:
        return True  # an empty store is a store

    def put(self, text: str) -> str:
        """Keeps a text; the handle that finds it. Of one that is larger than the whole store, the beginning is kept."""
        if sys.getsizeof(text) > self.max_bytes:
            text = text[: self.max_bytes // 4]
        with self._lock:
            self._count += 1
            handle = f"r{self._count}"
            self._texts[handle] = text
            self._bytes += sys.getsizeof(text)
            while self._bytes > self.max_bytes and len(self._texts) > 1:
                self._bytes -= sys.getsizeof(self._texts.popitem(last=False)[1])
        return handle

    def page(self, handle: str, offset: int = 0, limit: int = MAX_PAGE) -> str:
        """A part of a text. Raises ToolError (not_found)."""
        text = self._text(handle)
        if offset < 0 or (offset >= len(text) and offset):
            why = f"offset {offset} is outside of result {handle!r}, which has {len(text)} characters"
            raise ToolError(f"{why}; read from 0 to {max(len(text) - 1, 0)}", kind="not_found")
        return text[offset : offset + max(limit, 1)]

    def size(self, handle: str) -> int:
        """The characters of a text. Raises ToolError (not_found)."""
        return len(self._text(handle))

    def _text(self, handle: str) -> str:
        with self._lock:
            text, known = self._texts.get(handle), list(self._texts)
        if text is not None:
            return text
        number = handle[1:]
        if handle[:1] == "r" and number.isdecimal() and 0 < int(number[:9]) <= self._count:
            raise ToolError(f"result {handle!r} was dropped to make room for newer ones; run the tool again", kind="not_found")
        have = f"there are {', '.join(known[-5:])}" if known else "no result is kept"
        raise ToolError(f"there is no result {handle!r}; {have}", kind="not_found")


def limit_result(result: ToolResult, limit: int, store: ResultStore) -> ToolResult:
    """The result with at most `limit` characters of text: the beginning, a line that tells how to read the rest, the end."""
    content = tuple(_limit_media(block) for block in result.content)
    text = "".join(block.text for block in content if isinstance(block, Text))
    if len(text) <= limit:
        if content == result.content and (result.data is None or _json_size(result.data) <= limit * 4):
            return result
        data = result.data if _json_size(result.data) <= limit * 4 else None
        return msgspec.structs.replace(result, content=content, data=data)
    cut = Text(_truncate(text, limit, store.put(text)))
    first = next(i for i, block in enumerate(content) if isinstance(block, Text))
    rest = [cut if i == first else block for i, block in enumerate(content) if i == first or not isinstance(block, Text)]
    return msgspec.structs.replace(result, content=tuple(rest), data=None)


def _json_size(data: Any) -> int:
    """Bytes of structured output, which some wires send in place of the text."""
    return 0 if data is None else len(_encode(data))


def _limit_media(block: ResultBlock) -> ResultBlock:
    if isinstance(block, Media) and block.data and len(block.data) * 3 // 4 > MAX_MEDIA:
        size = len(block.data) * 3 // 4
        return Text(f"[{block.kind} of {size // 2**20} MB left out: models take at most {MAX_MEDIA // 2**20} MB]")
    return block


def _truncate(text: str, limit: int, handle: str) -> str:
    head, tail = limit - limit // 3, limit // 3
    if (end := text.rfind("\n", max(head - LINE_END_WINDOW, 0), head)) > head // 2:
        head = end + 1
    start = len(text) - tail
    if (end := text.find("\n", start, start + min(LINE_END_WINDOW, tail // 2))) >= 0:
        start = end + 1
    line = f'… {start - head} characters left out; read them with read_result(handle="{handle}", offset={head}) …'
    before = "" if text[:head].endswith("\n") or not head else "\n"
    return f"{text[:head]}{before}{line}\n{text[start:]}"


def read_result_tool(store: ResultStore, page_size: int = MAX_PAGE) -> "Tool":
    """The tool with which a model reads on in a result that was cut, `page` characters at a time."""
    from toolglot.tools.tool import tool_from_definition

    def read_result(handle: str, offset: int = 0, limit: int = page_size) -> str:
        text, size = store.page(handle, offset, min(limit, page_size)), store.size(handle)
        end = offset + len(text)
        more = f"; go on with offset={end}" if end < size else "; this is the end"
        return f"{text}\n[characters {offset} to {end} of {size}{more}]"

    definition = _read_result_definition(page_size)
    return tool_from_definition(
        definition, read_result, effects="read", inline=True, idempotent=True, max_result=page_size + LINE_END_WINDOW
    )


def _read_result_definition(page_size: int) -> ToolDefinition:
    text = {"type": "string", "description": 'The handle of the result, such as "r1".'}
    offset = {"type": "integer", "description": "The first character to read; 0 without."}
    limit = {"type": "integer", "description": f"How many characters to read; at most {page_size}, which it is without."}
    schema = {
        "type": "object",
        "properties": {"handle": text, "offset": offset, "limit": limit},
        "required": ["handle"],
        "additionalProperties": False,
    }
    words = "Reads a part of a tool result that was too long to be shown whole. The result itself names its handle."
    return ToolDefinition("read_result", words, schema)
