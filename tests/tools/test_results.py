"""Whatever a tool returns becomes a result; long ones are cut, and the rest can be read."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolglot.common.jsontext import loads
from toolglot.errors import ToolError
from toolglot.tools import results
from toolglot.tools.context import Context
from toolglot.tools.results import (
    ResultStore,
    ToolOutput,
    as_result,
    collect_async_generator,
    limit_result,
    read_result_tool,
)
from toolglot.values.messages import (
    Conversation,
    Foreign,
    Media,
    Text,
    ToolCall,
    ToolResult,
    load,
    save,
    tool_results,
)

CALL = ToolCall("c1", "look", {})
PNG = b"\x89PNG\r\n\x1a\n0000"


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Any = None


class Pair(NamedTuple):
    a: int
    b: int


class Model(BaseModel):
    day: date
    path: Path


class Plain(msgspec.Struct):
    a: int


class Markup(str):
    """As markupsafe's, and the strings of numpy and Beautiful Soup."""

    __slots__ = ()


class Picture:
    """As PIL's images are."""

    size, mode = (1, 1), "RGB"

    def save(self, where: Any, format: str) -> None:
        assert format == "PNG"
        where.write(PNG)


class Array:
    def tolist(self) -> list[int]:
        return [1, 2]


def words() -> Iterator[str]:
    yield from ("a ", "b")


DATA: list[tuple[Any, str, Any]] = [
    ("text", "text", None),
    ("", "", None),
    (None, "(no output)", None),
    (5, "5", 5),
    (1.5, "1.5", 1.5),
    (True, "true", True),
    (2**80, str(2**80), 2**80),
    ({"a": [1, None]}, '{"a":[1,null]}', {"a": [1, None]}),
    ({1: "x"}, '{"1":"x"}', {"1": "x"}),
    ([1, "é"], '[1,"é"]', [1, "é"]),
    ([], "[]", []),
    ((1, 2), "[1,2]", [1, 2]),
    ({3}, "[3]", [3]),
    (range(2), "[0,1]", [0, 1]),
    ({"a": 1}.keys(), '["a"]', ["a"]),
    (Point(1), '{"x":1,"y":null}', {"x": 1, "y": None}),
    (Pair(1, 2), "[1,2]", [1, 2]),
    (Plain(1), '{"a":1}', {"a": 1}),
    (
        Model(day=date(2025, 1, 31), path=Path("a")),
        '{"day":"2025-01-31","path":"a"}',
        {"day": "2025-01-31", "path": "a"},
    ),
    (
        [Model(day=date(2025, 1, 31), path=Path("a"))],
        '[{"day":"2025-01-31","path":"a"}]',
        [{"day": "2025-01-31", "path": "a"}],
    ),
    (Color.RED, "red", "red"),
    (date(2025, 1, 31), "2025-01-31", "2025-01-31"),
    (PurePosixPath("a/b"), "a/b", "a/b"),
    (Decimal("1.50"), "1.50", "1.50"),
    (UUID(int=0), "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
    (
        {"p": PurePosixPath("a"), "d": date(2025, 1, 31)},
        '{"p":"a","d":"2025-01-31"}',
        {"p": "a", "d": "2025-01-31"},
    ),
    (Array(), "[1,2]", [1, 2]),
    (words(), "a b", None),
    ((n for n in (1, 2)), "[1,2]", [1, 2]),
    (Markup("a"), "a", None),
    ({"a": [Markup("b")], Markup("c"): 1}, '{"a":["b"],"c":1}', {"a": ["b"], "c": 1}),
    ("half \udcff", "half \\udcff", None),
    ({"a\udcff": ["\ud800"]}, '{"a\\\\udcff":["\\\\ud800"]}', {"a\\udcff": ["\\ud800"]}),
]


@pytest.mark.parametrize(
    ("value", "text", "data"), DATA, ids=[f"{type(row[0]).__name__}-{row[1][:20]}" for row in DATA]
)
def test_data(value: Any, text: str, data: Any) -> None:
    stored = as_result(value, CALL)
    assert stored == ToolResult("c1", (Text(text),), "look", data)
    assert load(save(Conversation([tool_results(stored)])))[0][0].results == (stored,), "it can be saved"


def media(kind: Any, media_type: str, data: bytes) -> Media:
    return Media(kind, media_type, base64.b64encode(data).decode())


WEBP = b"RIFF0000WEBPVP8 "
BLOCKS: list[tuple[Any, tuple[Any, ...]]] = [
    (PNG, (media("image", "image/png", PNG),)),
    (bytearray(PNG), (media("image", "image/png", PNG),)),
    (b"\xff\xd8\xff\xe0", (media("image", "image/jpeg", b"\xff\xd8\xff\xe0"),)),
    (b"GIF89a..", (media("image", "image/gif", b"GIF89a.."),)),
    (WEBP, (media("image", "image/webp", WEBP),)),
    (b"%PDF-1.7", (media("file", "application/pdf", b"%PDF-1.7"),)),
    (b"\x00\x01", (media("file", "application/octet-stream", b"\x00\x01"),)),
    (Picture(), (media("image", "image/png", PNG),)),
    (Text("a"), (Text("a"),)),
    (Foreign("w", {"a": 1}), (Foreign("w", {"a": 1}),)),
    ([Text("a"), "\ud800"], (Text("a"), Text("\\ud800"))),
    (["see", PNG, {"a": 1}], (Text("see"), media("image", "image/png", PNG), Text('{"a":1}'))),
    ((Text("a"), Media("image", url="https://a.b/")), (Text("a"), Media("image", url="https://a.b/"))),
]


@pytest.mark.parametrize(("value", "content"), BLOCKS, ids=[str(row[0])[:30] for row in BLOCKS])
def test_blocks(value: Any, content: tuple[Any, ...]) -> None:
    assert as_result(value, CALL) == ToolResult("c1", content, "look")


@pytest.mark.parametrize(("value", "expected"), [
    (ToolOutput("a", data={"n": 1}), ToolResult("c1", (Text("a"),), "look", {"n": 1})),
    (ToolOutput({"n": 1}), ToolResult("c1", (Text('{"n":1}'),), "look", {"n": 1})),
    (ToolOutput("no", is_error=True), ToolResult("c1", (Text("no"),), "look", None, True, "execution")),
    (ToolOutput("no", error_kind="timeout"), ToolResult("c1", (Text("no"),), "look", None, True, "timeout")),
    (ToolOutput([PNG]), ToolResult("c1", (media("image", "image/png", PNG),), "look")),
    (ToolOutput("\udcff", data=Point(1)), ToolResult("c1", (Text("\\udcff"),), "look", {"x": 1, "y": None})),
    (ToolResult("other", (Text("\udcff"),), data=["\udcff"]), ToolResult("c1", (Text("\\udcff"),), "look", ["\\udcff"])),
    (ToolOutput([Text("\udcff")]), ToolResult("c1", (Text("\\udcff"),), "look")),
    (ToolResult("other", (Text("a"),), "other", {"n": 1}), ToolResult("c1", (Text("a"),), "look", {"n": 1})),
])  # fmt: skip
def test_explicit_results(value: Any, expected: ToolResult) -> None:
    assert as_result(value, CALL) == expected


async def never_awaited() -> None: ...


def breaks() -> Iterator[str]:
    yield "a"
    raise OSError("disk")


class Sly:
    def model_dump(self, mode: str) -> Any:
        raise RuntimeError("no dump\nat all")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Mute:
    def model_dump(self, mode: str) -> Any:
        raise Wordless


SELF: list[Any] = []
SELF.append(SELF)


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(("make", "words"), [
    (lambda: object(), "an object, which is neither text nor data nor media"),
    (lambda: print, "a builtin_function_or_method, which is neither"),
    (lambda: object, "a type, which is neither"),
    (lambda: ValueError("returned"), "a ValueError, which is neither"),
    (lambda: {"a": object()}, "a dict that JSON cannot represent"),
    (lambda: Point(1, object()), "a Point that JSON cannot represent"),
    (lambda: SELF, "refers to itself or is nested too deeply"),
    (deep, "refers to itself or is nested too deeply"),
    (lambda: float("nan"), "NaN or infinity"),
    (lambda: {"a": [float("-inf")]}, "NaN or infinity"),
    (lambda: Point(1, float("nan")), "NaN or infinity"),
    (lambda: {(1, 2): 3}, "a dict that JSON cannot represent"),
    (lambda: never_awaited(), "a coroutine that was never awaited"),
    (lambda: breaks(), "OSError: disk"),
    (lambda: Sly(), "RuntimeError: no dump"),
    (lambda: 10**5000, "an int"),
    (lambda: ToolOutput(object()), "an object, which is neither"),
    (Mute, "Wordless"),
    (lambda: ToolOutput("a", data=SELF), "refers to itself"),
    (lambda: ToolOutput("a", data=object()), "an object, which is neither"),
])  # fmt: skip
def test_garbage_is_an_error_in_one_sentence(make: Any, words: str) -> None:
    stored = as_result(make(), CALL)
    assert (stored.is_error, stored.error_kind) == (True, "execution")
    assert stored.text.startswith("The tool look ran, but returned something that cannot be shown: ")
    assert words in stored.text
    assert "\n" not in stored.text
    assert len(stored.text) < 600


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters())
        | st.binary()
        | st.builds(object),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
        ),
        max_leaves=10,
    )
)
def test_any_value_becomes_a_result_that_can_be_sent(value: Any) -> None:
    stored = as_result(value, CALL)
    assert load(save([tool_results(stored)]))[0][0].results == (stored,)
    stored.text.encode()


def test_generators_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_GENERATED", 10)
    closed: list[bool] = []

    def endless() -> Iterator[str]:
        try:
            while True:
                yield "abc"
        finally:
            closed.append(True)

    async def async_endless() -> AsyncIterator[str]:
        try:
            while True:
                yield "abc"
        finally:
            closed.append(True)

    note = "abcabcabca\n… the tool was stopped after 10 characters"
    assert as_result(endless(), CALL).text == note
    assert asyncio.run(collect_async_generator(async_endless())) == note
    assert closed == [True, True]


# ---- long results


def result(*blocks: Any, data: Any = None) -> ToolResult:
    return ToolResult(
        "c1", tuple(Text(block) if isinstance(block, str) else block for block in blocks), "look", data
    )


def test_short_results_stay() -> None:
    short = result("x" * 100, data={"a": 1})
    assert limit_result(short, 100, ResultStore()) is short


LINE = "characters left out; read them with read_result"


@pytest.mark.parametrize("limit", [1, 2, 10, 300, 1000])
@pytest.mark.parametrize("text", ["x" * 5000, "line\n" * 1000, "\n" * 5000, "é" * 1001 + "\n" + "z" * 1001])
def test_long_results_are_truncated_and_the_rest_can_be_read(text: str, limit: int) -> None:
    store = ResultStore()
    truncation = limit_result(result(text, data={"big": text}), limit, store)
    assert truncation.data is None
    head, _, tail = truncation.text.partition("… ")
    line, _, tail = tail.partition(" …\n")
    assert LINE in line
    assert len(head) - 1 + len(tail) <= limit
    offset = int(line.rpartition("offset=")[2].rstrip(")"))
    left_out = int(line.split()[0])
    assert head.removesuffix("\n") == text[:offset].removesuffix("\n")
    handle = line.partition('handle="')[2].partition('"')[0]
    assert text[:offset] + store.page(handle, offset, left_out) + tail == text, "nothing is lost"


def test_truncations_fall_between_lines_if_one_is_near() -> None:
    text = "".join(f"line {i:04}\n" for i in range(1000))
    head, _, remainder = limit_result(result(text), 1000, ResultStore()).text.partition("… ")
    assert head.endswith("\n")
    assert remainder.partition(" …\n")[2].startswith("line ")


def test_media_stay_beside_a_truncated_text() -> None:
    picture = media("image", "image/png", PNG)
    stored = limit_result(result("a" * 50, picture, "b" * 50), 40, ResultStore())
    assert [type(block) for block in stored.content] == [Text, Media]
    assert stored.text.startswith("a" * 27)
    assert stored.text.endswith("b" * 13)


def test_huge_media_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_MEDIA", 2**20)
    stored = limit_result(result(media("image", "image/png", b"x" * (2**20 + 9))), 1000, ResultStore())
    assert stored.content == (Text("[image of 1 MB left out: models accept at most 1 MB]"),)


def test_huge_data_beside_a_short_text_are_left_out() -> None:
    assert limit_result(result("ok", data=["x" * 1000]), 100, ResultStore()).data is None


def test_the_store_drops_the_oldest() -> None:
    store = ResultStore(max_bytes=5000)
    first, second = store.put("a" * 2000), store.put("b" * 2000)
    third = store.put("c" * 2000)
    assert store.page(second, 1990, 100) == "b" * 10
    with pytest.raises(
        ToolError,
        match=rf"there is no result '{first}' \(any more\): run the tool again; there are .*{third}",
    ) as e:
        store.page(first)
    assert e.value.kind == "not_found"
    huge = store.put("d" * 100_000)
    assert store.size(huge) == 1250, "of a text that is too large, the beginning is kept"


def test_equal_texts_are_stored_once_and_a_handle_means_one_text_everywhere() -> None:
    store, other = ResultStore(max_bytes=5000), ResultStore()
    first, second = store.put("a" * 2000), store.put("b" * 2000)
    assert store.put("a" * 2000) == first != second
    assert (len(store), [text[0] for text in store.texts]) == (2, ["b", "a"]), (
        "what was stored again is the newest"
    )
    assert other.put("c" * 2000) not in (first, second)
    assert other.put("a" * 2000) == first


@pytest.mark.parametrize(("handle", "offset", "words"), [
    ("r9", 0, "there is no result 'r9'"),
    ("", 0, "there is no result ''"),
    (None, 3, "offset 3 is outside of result 'r[0-9a-f]{10}', which has 3 characters"),
    (None, -1, "outside"),
])  # fmt: skip
def test_what_is_not_in_the_store(handle: str | None, offset: int, words: str) -> None:
    store = ResultStore()
    stored = store.put("abc")
    with pytest.raises(ToolError, match=words) as e:
        store.page(stored if handle is None else handle, offset)
    assert e.value.kind == "not_found"


def test_the_store_under_threads() -> None:
    store = ResultStore(max_bytes=100_000)
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(store.put, [str(n) * 100 for n in range(400)]))
    assert len(set(handles)) == 400
    assert 0 < len(store) < 400
    assert [size for handle in handles[-1:] if (size := store.size(handle))] == [300]


def test_the_tool_that_reads_on() -> None:
    store = ResultStore()
    handle = store.put("0123456789")
    reader = read_result_tool(store)
    assert (reader.name, reader.effects, reader.inline) == ("read_result", {"read"}, True)

    def read(**arguments: Any) -> str:
        tool_call = ToolCall("1", "read_result", arguments)
        return reader.call(reader.bind(tool_call).values, Context(tool_call))

    assert read(handle=handle, offset=2, limit=3) == "234\n[characters 2 to 5 of 10; continue with offset=5]"
    assert read(handle=handle, offset="8") == "89\n[characters 8 to 10 of 10; this is the end]"
    with pytest.raises(ToolError, match="there is no result"):
        read(handle="r7")
    with pytest.raises(ToolError, match="outside"):
        read(handle=handle, offset=-1)
    reader = read_result_tool(store, page_size=4)
    assert read(handle=handle) == "0123\n[characters 0 to 4 of 10; continue with offset=4]"
    assert read(handle=handle, limit=5) == read(handle=handle), "a page is the most that is read at once"


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], Point(1)])
def test_text_and_data_say_the_same(value: Any) -> None:
    stored = as_result(value, CALL)
    assert loads(stored.text) == stored.data
