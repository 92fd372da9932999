"""Conversations as values: building, reading, saving and loading."""

import json
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import (
    Agent,
    Conversation,
    Media,
    Reply,
    RunResult,
    assistant,
    load,
    load_attachment,
    save,
    system,
    tool_results,
    user,
)
from toolglot.common.jsontext import dumps, loads
from toolglot.errors import MalformedData, ToolglotError, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.values.definitions import CacheMark, ToolDefinition, ToolExample
from toolglot.values.messages import (
    BaseCall,
    Block,
    Foreign,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    Usage,
)
from toolglot.values.request import Request
from toolglot.wire.codec import encode_request

CALL = ToolCall("c1", "get", {"x": 1}, '{"x": 1}', opaque={"sig": "s"})
RESULT = ToolResult(
    "c1", (Text("1"), Media("image", "image/png", "AA=="), Text("2")), "get", {"n": 1}, True, "timeout"
)
EVERYTHING: list[Message] = [
    system("be kind"),
    user(["hi", Media("file", "application/pdf", url="https://x/y.pdf", name="y.pdf")]),
    Message(
        "assistant", (Thinking("hm", {"sig": "s"}), Text("a"), CALL), Origin("w", "p", "m"), {"state": [1]}
    ),
    tool_results(RESULT, ToolResult("c2")),
    assistant(Foreign("w", {"type": "odd", "data": [1, None]})),
]


def make_cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {}
    cycle["a"] = [cycle, cycle]
    return cycle


class Name(str):
    """A text of another library, such as markup or a numpy string: msgspec cannot write it."""

    __slots__ = ()


NAME: Any = Name("n")


# ---- building and reading


@pytest.mark.parametrize(("make", "role"), [(system, "system"), (user, "user"), (assistant, "assistant")])
def test_a_message_is_created_from_text_a_block_or_several(make: Any, role: str) -> None:
    assert make("a") == Message(role, (Text("a"),))  # pyright: ignore[reportArgumentType]
    assert make(Thinking("a")).blocks == (Thinking("a"),)
    assert make(["a", Thinking("b"), "c"]).blocks == (Text("a"), Thinking("b"), Text("c"))
    assert make(()).blocks == ()


def test_text_calls_and_results_of_a_message() -> None:
    message = Message("assistant", (Text("a"), Thinking("no"), CALL, Text("b"), RESULT))
    assert (message.text, message.calls, message.results) == ("ab", (CALL,), (RESULT,))
    assert RESULT.text == "12"
    assert tool_results(RESULT).results == (RESULT,)
    assert tool_results([RESULT, ToolResult("c2")]) == tool_results(RESULT, ToolResult("c2"))
    assert tool_results(result for result in [RESULT]) == tool_results([RESULT], []) == tool_results(RESULT)


def test_a_reply_is_a_message_of_the_history() -> None:
    reply = Reply((Text("a"), CALL, Text("b")), "tools", Usage(1), Origin("w"), "id", {"o": 1})
    assert reply.message == Message("assistant", (Text("a"), CALL, Text("b")), Origin("w"), {"o": 1})
    assert (reply.text, reply.calls) == ("ab", (CALL,))


@pytest.mark.parametrize(("call", "text"), [
    (ToolCall("c", "f", {"a": 1}), '{"a":1}'),
    (ToolCall("c", "f", {"a": 1}, '{ "a": 1 }'), '{ "a": 1 }'),
    (ToolCall("c", "f", {}), "{}"),
    (ToolCall("c", "f"), "{}"),
    (ToolCall("c", "f", {}, ""), ""),
    (ToolCall("c", "f", None, "select 1", True), "select 1"),
])  # fmt: skip
def test_the_text_of_a_calls_arguments(call: ToolCall, text: str) -> None:
    assert call.text == text


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Message(cast(Any, "banana"), ()), "the role of a message is system, user, assistant or tool, "
                                               "not 'banana'"),
    (lambda: Message("user", cast(Any, ("x", 3))), "a part of a message is text or a block, not int"),
    (lambda: tool_results(cast(Any, "x")), "a tool message holds tool results, not str; use ToolResult"),
    (lambda: tool_results(cast(Any, [RESULT, CALL])), "a tool message holds tool results, not ToolCall; use "
                                                      "ToolResult"),
    (lambda: Conversation(cast(Any, ["x"])), "a conversation holds messages, not str; use user"),
    (lambda: Conversation().append(cast(Any, {"role": "user"})), "a conversation holds messages, not dict"),
    (lambda: Text(cast(Any, None)), "text of Text: expected `str`, got `None`"),
    (lambda: ToolCall("c", "f", cast(Any, '{"a": 1}')), "arguments of ToolCall: expected `dict | None`, got "
                                                        "`str`"),
    (lambda: ToolCall(cast(Any, 1), "f"), "id of ToolCall: expected `str`, got `int`"),
    (lambda: ToolCall("c", "f", raw=cast(Any, {})), "raw of ToolCall: expected `str | None`, got `dict`"),
    (lambda: ToolCall("c", "f", {"a": [float("nan")]}),
        "arguments of ToolCall cannot be written as JSON: $.a[0]: JSON has no nan"),
    (lambda: ToolCall("c", "f", {"a": {1}}), "arguments of ToolCall cannot be written as JSON: $.a: JSON has "
                                             "no set"),
    (lambda: ToolCall("c", "f", {"a": {1: 2}}),
        "arguments of ToolCall cannot be written as JSON: $.a: a key is 1, and JSON has only strings as "
        "keys"),
    (lambda: ToolCall("c", "f", make_cycle()), "arguments of ToolCall cannot be written as JSON: it is "
                                               "nested more than 128"),
    (lambda: BaseCall("t", {"a": float("inf")}), "arguments of BaseCall cannot be written as JSON: $.a: JSON "
                                                 "has no inf"),
    (lambda: Thinking(cast(Any, 3)), "text of Thinking: expected `str`, got `int`"),
    (lambda: Thinking("", cast(Any, "s")), "opaque of Thinking: expected `dict | None`, got `str`"),
    (lambda: ToolResult(cast(Any, 3)), "call_id of ToolResult: expected `str`, got `int`"),
    (lambda: ToolResult("c", cast(Any, (3,))), "a part of a tool result is text, media or foreign, not int"),
    (lambda: ToolResult("c", cast(Any, (CALL,))), "a part of a tool result is text, media or foreign, not "
                                                  "ToolCall"),
    (lambda: ToolResult("c", is_error=cast(Any, "x")), "is_error of ToolResult: expected `bool`, got `str`"),
    (lambda: ToolResult("c", name=cast(Any, 3)), "name of ToolResult: expected `str`, got `int`"),
    (lambda: ToolResult("c", error_kind=cast(Any, "odd")), "error_kind of ToolResult: invalid enum value "
                                                           "'odd'"),
    (lambda: ToolResult("c", data={"a": object()}), "data of ToolResult cannot be written as JSON: $.a: JSON "
                                                    "has no object"),
    (lambda: Foreign("w", {1}), "item of Foreign cannot be written as JSON: $: JSON has no set"),
    (lambda: Message("user", (), cast(Any, "w")), "origin of Message: expected `Origin | None`, got `str`"),
    (lambda: ToolCall(NAME, "f", cast(Any, {1: 2})), "a key of arguments of ToolCall: expected `str`, got "
                                                     "`int`"),
    (lambda: Origin(cast(Any, 3)), "wire of Origin: expected `str`, got `int`"),
    (lambda: ToolCall("c", "f", {"a": 10**4300}),
        "arguments of ToolCall cannot be written as JSON: $.a: a number has more than 4300 digits"),
    (lambda: ToolsChanged((ToolDefinition(cast(Any, 3)),)), "name of ToolDefinition: expected `str`, got "
                                                            "`int`"),
    (lambda: ToolsChanged((ToolDefinition("t", parameters={"a": {1}}),)),
        "parameters of ToolDefinition cannot be written as JSON: $.a: JSON has no set"),
    (lambda: ToolsChanged((ToolDefinition("t", examples=[ToolExample({}, object())]),)),
        "output of ToolExample cannot be written as JSON: $: JSON has no object"),
])  # fmt: skip
def test_values_are_checked_when_they_are_made(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("message", [
    user(NAME),
    Message(cast(Any, Name("user")), ()),
    Message("user", (), Origin(NAME, NAME, NAME, NAME)),
    user([Text(NAME, {NAME: NAME}, CacheMark(NAME)), Media(cast(Any, Name("image")), NAME, NAME, NAME, NAME, NAME)]),
    assistant([Thinking(NAME), ToolCall(NAME, NAME, {}, NAME, namespace=NAME, caller=NAME)]),
    assistant(ToolCall("c", "n", {}, base_call=BaseCall(NAME, {NAME: NAME}, NAME))),
    assistant([Foreign(NAME, NAME), ToolsChanged(loaded=(NAME,), removed=(NAME,))]),
    tool_results(ToolResult(NAME, NAME, NAME, NAME, error_kind=cast(Any, Name("timeout")), error_code=NAME)),
    system(ToolsChanged((ToolDefinition(NAME, NAME, {NAME: NAME}, examples=[ToolExample({NAME: NAME}, NAME, NAME)], tags=[NAME],
                                        typed={NAME: {NAME: NAME}}),))),
], ids=lambda message: message.role)  # fmt: skip
def test_texts_of_other_libraries_are_kept_as_plain_texts(message: Message) -> None:
    assert load(save([message]))[0][0] == message
    assert b'"n"' in save([message]) or message == Message("user", ())


def test_a_definition_is_stored_as_a_copy() -> None:
    definition = ToolDefinition("t", parameters={"enum": ("a", "b")}, examples=[ToolExample({"x": (1,)})])
    [stored] = ToolsChanged((definition,)).added
    assert stored.parameters == {"enum": ["a", "b"]}
    assert definition.parameters == {"enum": ("a", "b")}
    assert definition.examples[0].input == {"x": (1,)}
    [loaded] = load(save([system(ToolsChanged((definition,)))]))[0][0].blocks
    assert loaded == ToolsChanged((definition,))


def test_what_is_nearly_json_is_kept_as_json() -> None:
    arguments: dict[str, Any] = {"a": (1, Name("b")), "c": OrderedDict(d=True)}
    call = ToolCall("c", "f", arguments)
    assert call.arguments == {"a": [1, "b"], "c": {"d": True}}
    assert [type(item) for item in cast(Any, call.arguments)["a"]] == [int, str]
    plain: dict[str, Any] = {"a": [1, {"b": None}]}
    assert ToolCall("c", "f", plain).arguments is plain


def test_a_file_with_a_value_that_cannot_be_made_is_malformed() -> None:
    deep = b"[" * 200 + b"]" * 200
    line = (
        b'{"role":"assistant","blocks":[{"type":"tool_call","id":"1","name":"f","arguments":{"a":'
        + deep
        + b"}}]}"
    )
    with pytest.raises(MalformedData, match="line 2"):
        load(b'{"toolglot":1}\n' + line)


# With lone surrogates, and with texts that msgspec cannot write.
STRINGS = st.text(st.characters(), max_size=5) | st.text(max_size=3).map(Name)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([20, 400, 4299, 4300]).map(lambda digits: -(10**digits)),
    st.floats(), STRINGS, st.binary(max_size=2), st.sets(st.integers(), max_size=2), st.just(object()), st.just(("a", 1)),
    st.just(Text("x")),
)  # fmt: skip
VALUES = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS | st.integers(), inner, max_size=3),
)
MAYBE_OPAQUE = st.none() | st.dictionaries(STRINGS, VALUES, max_size=2)
MAKERS: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
    Text: {"text": STRINGS, "opaque": MAYBE_OPAQUE},
    Thinking: {"text": STRINGS, "opaque": MAYBE_OPAQUE},
    Foreign: {"wire": STRINGS, "item": VALUES},
    ToolCall: {
        "id": STRINGS, "name": STRINGS, "arguments": st.none() | st.dictionaries(STRINGS, VALUES, max_size=3),
        "raw": st.none() | STRINGS, "freeform": st.booleans(), "namespace": STRINGS, "opaque": MAYBE_OPAQUE, "caller": STRINGS,
        "base_call": st.none() | st.just(BaseCall("t", {"a": 1})),
    },
    ToolResult: {
        "call_id": STRINGS, "content": st.lists(STRINGS | st.just(Media("image", "image/png", "AA==")), max_size=2),
        "name": STRINGS, "data": VALUES, "is_error": st.booleans(), "error_kind": st.sampled_from([None, "timeout"]),
        "opaque": MAYBE_OPAQUE, "is_rendered": st.booleans(), "error_code": STRINGS,
    },
    Media: {
        "kind": st.sampled_from(["image", "file", Name("audio")]), "media_type": STRINGS, "data": st.none() | STRINGS,
        "url": st.none() | STRINGS, "file_id": st.none() | STRINGS, "name": STRINGS, "opaque": MAYBE_OPAQUE,
        "cache": st.none() | st.builds(CacheMark, STRINGS),
    },
    ToolsChanged: {
        "added": st.lists(st.builds(ToolDefinition, STRINGS | VALUES, STRINGS | VALUES, MAYBE_OPAQUE), max_size=2).map(tuple),
        "loaded": st.lists(STRINGS, max_size=2).map(tuple), "removed": st.lists(STRINGS, max_size=2).map(tuple),
        "opaque": MAYBE_OPAQUE,
    },
    Origin: dict.fromkeys(["wire", "profile", "model", "requested"], STRINGS),
}  # fmt: skip
PROFILES = ["openai-chat", "openai", "anthropic", "gemini", "ollama"]


@st.composite
def values_of_makers(draw: st.DrawFn) -> Any:
    """Draw a block that could be made; sometimes with a field of a wrong type, which most cannot be made
    with.
    """
    maker = draw(st.sampled_from([*MAKERS]))
    fields = {name: draw(strategy) for name, strategy in MAKERS[maker].items()}
    if draw(st.integers(0, 3)) == 0:
        fields[draw(st.sampled_from([*fields]))] = draw(VALUES)
    try:
        return maker(**fields)
    except UsageError:
        return None


@given(
    blocks=st.lists(values_of_makers(), min_size=1, max_size=4),
    profile=st.sampled_from(PROFILES),
    is_own=st.booleans(),
)
def test_what_can_be_made_can_be_saved_loaded_and_sent(blocks: list[Any], profile: str, is_own: bool) -> None:
    target = resolve_profile(profile)
    origin = Origin(target.wire, target.id, "m") if is_own else None
    origin = next((block for block in blocks if isinstance(block, Origin)), origin)
    blocks = [block for block in blocks if block is not None and not isinstance(block, Origin)]
    changes = [block for block in blocks if isinstance(block, ToolsChanged)]
    calls = [ToolCall(block.call_id, "t", {}) for block in blocks if isinstance(block, ToolResult)]
    spoken = [block for block in blocks if not isinstance(block, ToolResult | ToolsChanged)]
    results = [block for block in blocks if isinstance(block, ToolResult)]
    messages = [user("a"), Message("assistant", (*spoken, *calls), origin)]
    messages += [system(changes)] if changes and not results else []
    conversation = Conversation([*messages, tool_results(*results)] if results else messages)
    saved = save(conversation)
    assert save(load(saved)[0]) == saved
    if b"null" not in saved:  # NaN in what a provider sent is written as null
        assert load(saved)[0] == conversation
    body = encode_request(Request("m", tuple(conversation)), target).body
    assert json.loads(dumps(body), parse_constant=pytest.fail)
    assert json.dumps(body)  # without the help of msgspec, which writes sets and bytes too


def test_a_text_is_loaded_like_bytes() -> None:
    saved = save([user("ü")])
    assert load(saved.decode()) == load(saved)


def test_values_are_immutable_and_compare_by_what_they_hold() -> None:
    assert user("a") == user("a")
    assert user("a") != assistant("a")
    with pytest.raises(AttributeError):
        Text("a").text = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError):
        user("a").role = "system"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_conversation_is_an_append_only_sequence() -> None:
    given_messages = [user("a")]
    talk = Conversation(given_messages)
    given_messages.append(user("not mine"))
    talk.append(assistant("b"), user("c"))
    assert (len(talk), list(talk), talk[0], talk[-1]) == (
        3,
        [user("a"), assistant("b"), user("c")],
        user("a"),
        user("c"),
    )
    assert (talk[1:], assistant("b") in talk) == ([assistant("b"), user("c")], True)
    assert talk == Conversation([user("a"), assistant("b"), user("c")])
    assert talk != Conversation()
    assert talk != [user("a"), assistant("b"), user("c")]
    assert repr(Conversation([user("a")])) == "<Conversation of 1 message, last: user 'a'>"
    for change in ("__setitem__", "__delitem__", "insert", "pop", "clear"):
        assert not hasattr(talk, change)
    with pytest.raises(TypeError, match="unhashable"):
        hash(talk)


# ---- save and load


def test_what_is_saved_is_loaded() -> None:
    data = save(EVERYTHING, title="t", tags=[1])
    assert load(data) == (Conversation(EVERYTHING), {"title": "t", "tags": [1]})
    assert load(save([])) == (Conversation(), {})
    assert save(Conversation(EVERYTHING)) == save(EVERYTHING)


def test_a_line_each_and_defaults_are_left_out() -> None:
    lines = save([user("a"), tool_results(ToolResult("c"))], title="t").split(b"\n")
    assert [loads(line) for line in lines[:-1]] == [
        {"toolglot": 1, "title": "t"},
        {"role": "user", "blocks": [{"type": "text", "text": "a"}]},
        {"role": "tool", "blocks": [{"type": "tool_result", "call_id": "c"}]},
    ]
    assert lines[-1] == b""


def test_line_ends_and_blank_lines_do_not_matter() -> None:
    data = save(EVERYTHING).replace(b"\n", b"\r\n\r\n")
    assert load(data)[0] == Conversation(EVERYTHING)
    assert load(save(EVERYTHING).rstrip())[0] == Conversation(EVERYTHING)


TEXT = st.text() | st.just("\ud800")
OPAQUE = st.none() | st.dictionaries(
    st.text(max_size=3), st.none() | st.integers(-9, 9) | TEXT, min_size=1, max_size=2
)
INNER = st.builds(Text, TEXT, OPAQUE) | st.builds(
    Foreign, st.text(), st.dictionaries(st.text(), TEXT, max_size=2)
)
MEDIA = st.builds(
    Media, st.sampled_from(["image", "audio", "video", "file"]), st.text(), st.none() | st.text()
)
ARGUMENTS = st.none() | st.dictionaries(st.text(), TEXT, max_size=2)
BLOCKS: st.SearchStrategy[Block] = (
    INNER
    | MEDIA
    | st.builds(Thinking, TEXT, OPAQUE)
    | st.builds(ToolCall, TEXT, TEXT, ARGUMENTS, st.none() | TEXT, st.booleans(), TEXT, OPAQUE)
    | st.builds(
        ToolResult,
        TEXT,
        st.lists(INNER | MEDIA, max_size=2).map(tuple),
        TEXT,
        st.none() | TEXT,
        st.booleans(),
    )
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(BLOCKS, max_size=3).map(tuple),
    st.none() | st.builds(Origin, TEXT, TEXT, TEXT),
    OPAQUE,
)


@given(st.lists(MESSAGES, max_size=3))
def test_any_conversation_comes_back(messages: list[Message]) -> None:
    assert load(save(messages))[0] == Conversation(messages)


def test_blocks_of_unknown_types_load_as_foreign_and_survive() -> None:
    odd = {"type": "hologram", "data": [1]}
    nameless = {"text": "no type"}
    line = dumps({"role": "user", "blocks": [odd, {"type": "text", "text": "a"}, nameless]})
    talk, _ = load(save([]) + line + b"\n")
    assert talk[0].blocks == (Foreign("toolglot", odd), Text("a"), Foreign("toolglot", nameless))
    assert load(save(talk))[0] == talk


def test_unknown_blocks_inside_a_result_load_as_foreign_too() -> None:
    odd = {"type": "hologram", "data": [1]}
    result = {"type": "tool_result", "call_id": "c", "content": [{"type": "text", "text": "a"}, odd]}
    talk, _ = load(save([]) + dumps({"role": "tool", "blocks": [result]}))
    assert talk[0].results[0].content == (Text("a"), Foreign("toolglot", odd))


@pytest.mark.parametrize("odd", [7, None, [], {}], ids=repr)
def test_a_block_whose_type_is_no_text_loads_as_foreign(odd: Any) -> None:
    talk, _ = load(save([]) + dumps({"role": "user", "blocks": [{"type": odd}]}))
    assert talk[0].blocks == (Foreign("toolglot", {"type": odd}),)


def test_unknown_fields_do_not_stand_in_the_way() -> None:
    line = b'{"role":"user","blocks":[{"type":"text","text":"a","mood":1}],"weather":2}'
    assert load(save([]) + line)[0] == Conversation([user("a")])


@pytest.mark.parametrize(("data", "where", "words"), [
    (b"", 1, "format"),
    (b"{}", 1, "format"),
    (b'{"toolglot": 2}', 1, "2"),
    (b'{"role":"user","blocks":[]}', 1, "format"),
    (b"hello", 1, "line"),
    (b"[]", 1, "an array"),
    (b'{"toolglot": 1}\nhello', 2, "line"),
    (b'{"toolglot": 1}\n{"role":"user","blocks":[]}\n7', 3, "a number"),
    (b'{"toolglot": 1}\n{}', 2, "role"),
    (b'{"toolglot": 1}\n{"role":"robot","blocks":[]}', 2, "robot"),
    (b'{"toolglot": 1}\n{"role":"user","blocks":7}', 2, "blocks"),
    (b'{"toolglot": 1}\n{"role":"user","blocks":[7]}', 2, "blocks"),
    (b'{"toolglot": 1}\n{"role":"user","blocks":[{"type":"text","text":7}]}', 2, "text"),
    (b'{"toolglot": 1}\n\xff', 2, ""),
])  # fmt: skip
def test_what_is_no_conversation_is_malformed_and_names_the_line(data: bytes, where: int, words: str) -> None:
    with pytest.raises(MalformedData, match=f"line {where}: .*{re.escape(words)}"):
        load(data)


@given(
    st.lists(
        st.sampled_from(
            [
                b'{"toolglot":1}',
                b"\n",
                b"{",
                b"}",
                b"[",
                b"]",
                b'"blocks":',
                b'"type":',
                b'"role":"user"',
                b",",
            ]
        )
    )
)
def test_any_bytes_load_or_are_malformed(pieces: list[bytes]) -> None:
    try:
        load(b'{"toolglot":1}\n' + b"".join(pieces))
    except ToolglotError as error:
        assert type(error) is MalformedData  # noqa: PT017


def test_keys_of_older_files_are_read() -> None:
    """Keys that were renamed within format 1: in messages, and in the calls and results of a saved run."""
    call = b'{"type":"tool_call","id":"c","name":"Read","arguments":{"meant":1},"meant":{"tool":"read","arguments":{}}}'
    result = b'{"type":"tool_result","call_id":"c","worded":true,"data":{"type":"tool_result","worded":1}}'
    lines = b'{"toolglot":1,"run":{"calls":[%s]}}\n{"role":"assistant","blocks":[%s]}\n{"role":"tool","blocks":[%s]}\n'
    conversation, header = load(lines % (call, call, result))
    assert conversation[0].calls[0].base_call == BaseCall("read", {})
    assert conversation[0].calls[0].arguments == {"meant": 1}
    assert conversation[1].results[0].is_rendered
    assert conversation[1].results[0].data == {"type": "tool_result", "worded": 1}
    assert header["run"]["calls"][0]["base_call"] == {"tool": "read", "arguments": {}}
    assert b'"meant":{' not in save(conversation)
    assert b'"base_call":{' in save(conversation)


def markdown(value: Any) -> str:
    return value._repr_markdown_()


def test_results_and_conversations_are_short_in_a_shell_and_readable_in_a_notebook() -> None:
    call = ToolCall("1", "look", {"at": "x"})
    conversation = Conversation(
        [user("a" * 1000), Message("assistant", (call,)), tool_results(ToolResult("1", (Text("y"),), "look"))]
    )
    assert len(repr(conversation)) < 120
    assert markdown(conversation).endswith('**assistant** `look({"at":"x"})`\n\n**tool** `look` → y')
    result = RunResult("b" * 1000, messages=tuple(conversation), iterations=2)
    assert len(repr(result)) < 200
    assert repr(RunResult("", iterations=1)).endswith(", 1 iteration>")
    assert markdown(result) == result.text
    assert markdown(RunResult("", "approval")).startswith("`<RunResult")
    assert markdown(user(["look", Media("image", url="u")])) == "**user** look\n\n*image*"
    assert markdown(Reply((Text("hi"), call))) == '**assistant** hi\n\n`look({"at":"x"})`'


@pytest.mark.parametrize(("data", "media_type", "kind", "detected"), [
    (b"\x89PNG\r\n\x1a\n...", "", "image", "image/png"),
    (b"RIFF....WEBPVP8 ", "", "image", "image/webp"),
    (b"%PDF-1.7", "", "file", "application/pdf"),
    (b"RIFF....WAVEfmt ", "audio/wav", "audio", "audio/wav"),
    (b"....ftypmp42", "video/mp4", "video", "video/mp4"),
    (b"a,b", "text/csv", "file", "text/csv"),
    (b"\x89PNG\r\n\x1a\n...", "image/x-own", "image", "image/x-own"),
])  # fmt: skip
def test_media_are_made_of_bytes(data: bytes, media_type: str, kind: str, detected: str) -> None:
    media = Media.from_bytes(data, media_type, name="a")
    assert (media.kind, media.media_type, media.name) == (kind, detected, "a")
    assert b64decode(media.data or "") == data


def test_bytes_of_an_unknown_type_need_one() -> None:
    with pytest.raises(UsageError, match="pass media_type, such as 'audio/wav'"):
        Media.from_bytes(b"RIFF....WAVEfmt ")


def test_a_file_is_an_attachment(tmp_path: Path) -> None:
    picture, notes = tmp_path / "dot.png", tmp_path / "notes.md"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n...")
    notes.write_text("Buy milk.")
    assert load_attachment(picture) == Media.from_bytes(picture.read_bytes(), name="dot.png")
    assert load_attachment(str(notes)) == Text("[notes.md]\nBuy milk.")
    with pytest.raises(UsageError, match=r"cannot read attachment .*nope.png"):
        load_attachment(tmp_path / "nope.png")
    result = Agent("simulator:gemini").run_sync(
        [load_attachment(picture), load_attachment(notes), "\nsay Seen."]
    )
    assert (result.text, result.losses) == ("Seen.", ())
