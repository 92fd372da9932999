"""Marks for prompt caches: neutral, on every wire that has them; elsewhere each one is a Loss."""

from typing import Any

import pytest
from anthropic.types import MessageCreateParams
from msgspec.structs import replace
from openai.types.chat import ChatCompletionContentPartTextParam
from openai.types.responses import ResponseInputTextParam
from pydantic import TypeAdapter

from toolglot.common.jsontext import dumps, dumps_text
from toolglot.providers.catalog import resolve_profile
from toolglot.values.definitions import CacheMark, ToolDefinition
from toolglot.values.messages import (
    Conversation,
    Foreign,
    Media,
    Message,
    Origin,
    ResultBlock,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request
from toolglot.wire.cache_marks import count_marks
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.converters import encode_results
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.writer import EncodedRequest

Doc = dict[str, Any]
MARK: Doc = {"type": "ephemeral"}
HOUR: Doc = {"type": "ephemeral", "ttl": "1h"}
SCHEMA: Doc = {"type": "object", "properties": {"x": {"type": "string"}}}
PNG = "iVBORw0KGgo="
# As Claude Code sends it: two marks in the instructions, one on the last message.
CLAUDE: Doc = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 100,
    "system": [
        {"type": "text", "text": "Who you are.", "cache_control": {**MARK, "scope": "global"}},
        {"type": "text", "text": "Where you are.", "cache_control": HOUR},
    ],
    "tools": [{"name": "f", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Read.", "cache_control": MARK}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a", "cache_control": MARK}],
        },
    ],
}
EVERYWHERE = Request(
    "m",
    [
        system(Text("Be kind.", cache=CacheMark())),
        user([Text("Look."), Media("image", "image/png", PNG, cache=CacheMark("1h"))]),
        assistant([ToolCall("c1", "f", {"x": "1"}, cache=CacheMark())]),
        tool_results(ToolResult("c1", (Text("one"),), "f", cache=CacheMark("5m"))),
    ],
    (ToolDefinition("f", "Gets.", SCHEMA, cache=CacheMark()),),
)


def encode(request: Request, provider: str, model: str) -> Any:
    return encode_request(replace(request, model=model), resolve_profile(provider, model))


def count(body: Doc) -> int:
    text = dumps_text(body)
    return text.count('"cache_control"') + text.count('"prompt_cache_breakpoint"')


def test_marks_of_claude_code_go_back_as_they_came() -> None:
    encoded = encode(decode_request("anthropic-messages", CLAUDE), "anthropic", CLAUDE["model"])
    assert encoded.body == CLAUDE
    assert (encoded.losses, encoded.repairs) == ((), ())


@pytest.mark.parametrize(("provider", "model", "sent", "lost"), [
    ("anthropic", "claude-opus-4-8", 4, 0),  # another model: the marks are no state of the one before
    ("openrouter", "anthropic/claude-sonnet-4.5", 4, 0),
    ("openai-responses", "gpt-5.6", 2, 2),  # instructions have no parts
    ("openai-chat", "gpt-5.6", 4, 0),
    ("openai-responses", "gpt-5", 0, 4),
    ("openai-chat", "gpt-4.1", 0, 4),
    ("gemini", "gemini-2.5-pro", 0, 4),
    ("ollama", "qwen3", 0, 4),
])  # fmt: skip
def test_every_mark_of_claude_code_is_sent_or_lost(provider: str, model: str, sent: int, lost: int) -> None:
    encoded = encode(decode_request("anthropic-messages", CLAUDE), provider, model)
    assert count(encoded.body) == sent
    assert [loss.subject for loss in encoded.losses].count("cache mark") == lost


@pytest.mark.parametrize(("provider", "model", "sent"), [
    ("anthropic", "claude-sonnet-4-5", 4),  # the limit is four: the fifth is a Loss
    ("openrouter", "anthropic/claude-sonnet-4.5", 4),
    ("openai-responses", "gpt-5.6", 2),
    ("openai-chat", "gpt-5.6", 3),
    ("gemini", "gemini-2.5-pro", 0),
])  # fmt: skip
def test_any_block_can_have_a_mark(provider: str, model: str, sent: int) -> None:
    encoded = encode(EVERYWHERE, provider, model)
    assert count(encoded.body) == sent
    assert [loss.subject for loss in encoded.losses].count("cache mark") == 5 - sent
    # A prefix encoder writes the same, and reads it back.
    profile = resolve_profile(provider, model)
    step = PrefixEncoder(profile).encode(
        replace(EVERYWHERE, model=model, messages=Conversation(EVERYWHERE.messages))
    )
    assert step.body == dumps(encoded.body)
    assert len(step.losses) == len(encoded.losses)
    back = decode_request(profile.wire, encoded.body, profile=profile.id, model=model)
    blocks = [
        *back.tools,
        *(part for message in back.messages for part in (*message.blocks, *results_of(message))),
    ]
    assert len([block for block in blocks if getattr(block, "cache", None)]) == sent


def results_of(message: Message) -> list[Any]:
    return [part for result in message.results for part in result.content]


def test_times_to_live_are_those_of_the_target() -> None:
    encoded = encode(decode_request("anthropic-messages", CLAUDE), "openai-chat", "gpt-5.6")
    first, second = encoded.body["messages"][0]["content"]
    assert first["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert second["prompt_cache_breakpoint"] == {"mode": "explicit", "ttl": "30m"}
    assert [repair.subject for repair in encoded.repairs] == ["cache ttl '1h'"]
    there = encode(EVERYWHERE, "openai-responses", "gpt-5.6")
    image, result = there.body["input"][0]["content"][1], there.body["input"][2]["output"][0]
    assert (image["prompt_cache_breakpoint"]["ttl"], result["prompt_cache_breakpoint"]["ttl"]) == (
        "12h",
        "30m",
    )
    back = encode(decode_request("openai-responses", there.body), "anthropic", "claude-opus-4-8")
    assert back.body["messages"][0]["content"][1]["cache_control"] == HOUR


@pytest.mark.parametrize(("provider", "model", "cache", "fields"), [
    ("anthropic", "claude-sonnet-4-5", CacheMark("1h"), {"cache_control": HOUR}),
    ("openrouter", "anthropic/claude-sonnet-4.5", CacheMark("1h"), {"cache_control": HOUR}),
    ("openai-responses", "gpt-5.6", CacheMark("1h"), {"prompt_cache_options": {"ttl": "12h"}}),
    ("openai-chat", "gpt-5.6", CacheMark("30m"), {"prompt_cache_options": {"ttl": "30m"}}),
    ("openai-responses", "gpt-5.6", True, {}),
    ("gemini", "gemini-2.5-pro", True, {}),
])  # fmt: skip
def test_an_option_asks_for_a_whole_request(
    provider: str, model: str, cache: bool | CacheMark, fields: Doc
) -> None:
    request = Request(model, [user("hi")], (ToolDefinition("f", "", SCHEMA),), options=Options(cache=cache))
    encoded = encode_request(request, resolve_profile(provider, model))
    assert {key: encoded.body[key] for key in fields} == fields
    assert encoded.losses == ()
    if provider == "anthropic":
        assert encoded.body["tools"][-1]["cache_control"] == HOUR


def test_a_body_that_asks_for_caching_asks_for_it_elsewhere() -> None:
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "cache_control": HOUR,
        "messages": [{"role": "user", "content": "hi"}],
    }
    request = decode_request("anthropic-messages", body)
    assert encode(request, "anthropic", "claude-opus-4-8").body == body
    there = encode(request, "openai-responses", "gpt-5.6")
    assert there.body["prompt_cache_options"] == {"ttl": "12h"}
    back = encode(decode_request("openai-responses", there.body), "anthropic", "claude-opus-4-8")
    assert back.body["cache_control"] == HOUR
    assert [loss.subject for loss in encode(request, "gemini", "gemini-2.5-pro").losses] == ["cache ttl"]


def test_a_deferred_tool_has_no_mark() -> None:
    tools = (
        ToolDefinition("search", "", SCHEMA, finds_tools=True),
        ToolDefinition("f", "", SCHEMA, deferred=True, cache=CacheMark()),
    )
    request = Request("claude-sonnet-4-5", [user("hi")], tools, options=Options(cache=True))
    encoded = encode_request(request, resolve_profile("anthropic", "claude-sonnet-4-5"))
    assert [tool.get("cache_control") for tool in encoded.body["tools"]] == [MARK, None]
    assert [loss.reason for loss in encoded.losses] == ["a deferred tool cannot have one"]


def test_official_clients_know_the_marks() -> None:
    anthropic = encode(EVERYWHERE, "anthropic", "claude-sonnet-4-5").body
    TypeAdapter[Any](MessageCreateParams).validate_python(anthropic)
    responses = encode(EVERYWHERE, "openai-responses", "gpt-5.6").body
    TypeAdapter[Any](ResponseInputTextParam).validate_python(responses["input"][2]["output"][0])
    chat = encode(EVERYWHERE, "openai-chat", "gpt-5.6").body
    TypeAdapter[Any](ChatCompletionContentPartTextParam).validate_python(chat["messages"][0]["content"][0])


CALL: Doc = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def part(text: str) -> Doc:
    return {"type": "text", "text": text, "cache_control": MARK}


ROUTED: Doc = {
    "model": "anthropic/claude-sonnet-4.5",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, part("b"), {"type": "text", "text": "c"}],
        },
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "content": [part("one"), part("two")]},
    ],
}


def test_marks_of_answers_and_results_go_back_through_a_router() -> None:
    request = decode_request("openai-chat", ROUTED, profile="openrouter", model=ROUTED["model"])
    encoded = encode(request, "openrouter", ROUTED["model"])
    assert encoded.body["messages"] == ROUTED["messages"]
    assert encoded.losses == ()


@pytest.mark.parametrize(("provider", "model", "sent"), [
    ("anthropic", "claude-opus-4-8", 3),
    ("openai-responses", "gpt-5.6", 2),
    ("openai-chat", "gpt-5.6", 3),
    ("gemini", "gemini-2.5-pro", 0),
])  # fmt: skip
def test_marks_of_a_router_are_sent_or_lost(provider: str, model: str, sent: int) -> None:
    encoded = encode(
        decode_request("openai-chat", ROUTED, profile="openrouter", model=ROUTED["model"]), provider, model
    )
    assert count(encoded.body) == sent
    assert [loss.subject for loss in encoded.losses].count("cache mark") == 3 - sent


CONTENTS: dict[str, tuple[ResultBlock, ...]] = {
    "empty": (),
    "text": (Text("a"),),
    "blank": (Text(" ", cache=CacheMark()), Text("a")),
    "texts": (Text("a", cache=CacheMark()), Text("b", cache=CacheMark())),
    "change": (ToolsChanged(loaded=("f",)),),
    "text and change": (Text("a"), ToolsChanged(loaded=("f",), opaque={"cache_control": MARK})),
    "image": (Text("a", cache=CacheMark()), Media("image", "image/png", PNG)),
    "foreign": (Text("a"), Foreign("anthropic-messages", {"type": "search_result", "content": [part("x")]})),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("origin", ["", "claude-opus-4-8"])
def test_every_mark_of_a_result_is_sent_or_lost(content: str, origin: str) -> None:
    blocks = CONTENTS[content]
    result = ToolResult("t1", blocks, "find", cache=CacheMark())
    tools = (
        ToolDefinition("find", "", SCHEMA, finds_tools=True),
        ToolDefinition("f", "", SCHEMA, deferred=True),
    )
    message = replace(
        tool_results(result), origin=Origin("anthropic-messages", "anthropic", origin) if origin else None
    )
    request = Request("", [user("go"), assistant([ToolCall("t1", "find", {})]), message], tools)
    wanted = count_marks(message.blocks)
    for provider, model in TARGETS:
        for encoded in (
            encode(request, provider, model),
            encode_results([result], resolve_profile(provider, model)),
        ):
            marks = count(
                encoded.body if isinstance(encoded, EncodedRequest) else {"messages": encoded.messages}
            )
            assert marks + [loss.subject for loss in encoded.losses].count("cache mark") == wanted, (
                provider,
                model,
            )


TARGETS = [
    ("anthropic", "claude-opus-4-8"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("openai-responses", "gpt-5.6"),
    ("openai-chat", "gpt-5.6"),
    ("gemini", "gemini-2.5-pro"),
    ("ollama", "qwen3"),
]


def test_tools_of_the_vendor_have_marks_too() -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    bash = {"type": "bash_20250124", "name": "bash"}
    tools = (
        ToolDefinition(
            "web_search", kind="hosted", wire="anthropic-messages", opaque=hosted, cache=CacheMark()
        ),
        ToolDefinition("bash", "", SCHEMA, typed={"anthropic-messages": bash}, cache=CacheMark("1h")),
    )
    encoded = encode(Request("", [user("hi")], tools), "anthropic", "claude-opus-4-8")
    assert encoded.body["tools"] == [{**hosted, "cache_control": MARK}, {**bash, "cache_control": HOUR}]
    again = encode(decode_request("anthropic-messages", encoded.body), "anthropic", "claude-opus-4-8")
    assert again.body["tools"] == encoded.body["tools"]


def test_the_mark_of_an_added_tool_is_lost_elsewhere() -> None:
    addition = {
        "type": "tool_addition",
        "tool": {"type": "tool_reference", "name": "f"},
        "cache_control": MARK,
    }
    tools = [
        {"name": "g", "input_schema": SCHEMA},
        {"name": "f", "input_schema": SCHEMA, "defer_loading": True},
    ]
    body = {**CLAUDE, "model": "claude-opus-4-8", "system": "s", "tools": tools}
    body["messages"] = [{"role": "user", "content": "hi"}, {"role": "system", "content": [addition]}]
    request = decode_request("anthropic-messages", body)
    for provider, model in TARGETS:
        encoded = encode(request, provider, model)
        assert [loss.subject for loss in encoded.losses].count("cache mark") == (provider != "anthropic")
        assert count(encoded.body) == (provider == "anthropic")


def test_the_mark_of_a_tool_that_is_not_sent_takes_no_place() -> None:
    hosted = ToolDefinition(
        "web", kind="hosted", wire="anthropic-messages", opaque={"type": "web"}, cache=CacheMark()
    )
    texts = [Text(str(number), cache=CacheMark()) for number in range(4)]
    encoded = encode(Request("", [user(texts)], (hosted,)), "openrouter", "anthropic/claude-sonnet-4.5")
    assert count(encoded.body) == 4
    assert [loss.where for loss in encoded.losses if loss.subject == "cache mark"] == ["tool 'web'"]


@pytest.mark.parametrize(("provider", "model"), TARGETS)
def test_the_mark_of_a_blank_message_is_lost(provider: str, model: str) -> None:
    request = Request(
        "", [user("hi"), assistant("a"), user(Text(" ", cache=CacheMark())), assistant("b"), user("c")]
    )
    encoded = encode(request, provider, model)
    assert (count(encoded.body), [loss.subject for loss in encoded.losses]) == (0, ["cache mark"])


@pytest.mark.parametrize(("provider", "model", "ttl", "sent"), [
    ("anthropic", "claude-sonnet-4-5", "12h", "'1h', the longest there is"),
    ("openai-chat", "gpt-5.6", "1h", "'30m', the longest there is"),
    ("anthropic", "claude-sonnet-4-5", "30m", "'1h'"),
])  # fmt: skip
def test_a_repair_says_where_a_time_to_live_was_asked_for_and_that_it_is_shorter(
    provider: str, model: str, ttl: str, sent: str
) -> None:
    request = Request("", [user("hi")], options=Options(cache=CacheMark(ttl)))
    (repair,) = (note for note in encode(request, provider, model).repairs if "ttl" in note.subject)
    assert repair.where == "options"
    assert repair.reason.endswith(f"sent as {sent}")


@pytest.mark.parametrize(
    ("mark", "sent"), [({"ttl": "12h"}, 1), ({}, 1), ({"mode": "implicit"}, 0), (True, 0)]
)
def test_no_form_of_a_breakpoint_is_dropped_silently(mark: Any, sent: int) -> None:
    content = [{"type": "input_text", "text": "hi", "prompt_cache_breakpoint": mark}]
    body: Doc = {"model": "gpt-5.6", "input": [{"role": "user", "content": content}]}
    request = decode_request("openai-responses", body)
    native = encode(request, "openai-responses", "gpt-5.6")
    assert (native.body["input"], native.losses) == (body["input"], ())
    for provider, model in (("anthropic", "claude-opus-4-8"), ("openai-chat", "gpt-5.6")):
        encoded = encode(request, provider, model)
        assert (count(encoded.body), len(encoded.losses)) == (sent, 1 - sent)
    assert [loss.subject for loss in encode(request, "gemini", "gemini-2.5-pro").losses] == ["cache mark"]
