"""Tools over time: bodies as Codex (code mode) and Claude Code (ToolSearch) send them, on every wire and
back.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from toolglot.common.jsontext import dumps, dumps_text
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.values.messages import (
    Conversation,
    Message,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Request, ToolChoice, ToolDefinition, effective_tools
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.spec import SPECS
from toolglot.wire.writer import EncodedRequest

Doc = dict[str, Any]


def schema(*names: str) -> Doc:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def function(name: str, *parameters: str, **options: Any) -> Doc:
    fields = {"description": f"Does {name}.", "parameters": schema(*parameters), "strict": False}
    return {"type": "function", "name": name, **fields, **options}


# Codex with a gpt-5.6 model: no `tools`, but an item with namespaces and a custom tool.
CODEX: Doc = {
    "model": "gpt-5.6-sol",
    "instructions": "You write code.",
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "store": False,
    "input": [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "namespace",
                    "name": "functions",
                    "description": "Tools of the workspace.",
                    "tools": [
                        {
                            "type": "custom",
                            "name": "exec",
                            "description": "Run a script.",
                            "format": {
                                "type": "grammar",
                                "syntax": "lark",
                                "definition": "start: /(.|\\n)+/",
                            },
                        },
                        function("wait", "session"),
                    ],
                },
                {
                    "type": "namespace",
                    "name": "clock",
                    "description": "Time.",
                    "tools": [function("sleep", "until")],
                },
            ],
        },
        {"type": "message", "role": "developer", "content": "Stay in the workspace."},
        {"type": "message", "role": "user", "content": "List the files."},
        {
            "type": "custom_tool_call",
            "call_id": "call_1",
            "namespace": "functions",
            "name": "exec",
            "input": "text(1)",
        },
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "a.txt"},
    ],
}
CODEX_NAMES = {"functions.exec", "functions.wait", "clock.sleep"}

# Claude Code: a few tools, the rest deferred behind ToolSearch, whose results are references.
CLAUDE: Doc = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "system": "You write code.",
    "tools": [
        {"name": "Bash", "description": "Run a command.", "input_schema": schema("command")},
        {"name": "ToolSearch", "description": "Load tools.", "input_schema": schema("query")},
        {
            "name": "WebFetch",
            "description": "Fetch a page.",
            "input_schema": schema("url"),
            "defer_loading": True,
        },
        {
            "name": "TaskStop",
            "description": "Stop a task.",
            "input_schema": schema("id"),
            "defer_loading": True,
        },
        {
            "name": "NotebookEdit",
            "description": "Edit cells.",
            "input_schema": schema("cell"),
            "defer_loading": True,
        },
    ],
    "messages": [
        {"role": "user", "content": "Read the page."},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "ToolSearch",
                    "input": {"query": "select:WebFetch"},
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "tool_reference", "tool_name": "WebFetch"}],
                }
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "toolu_2",
                    "name": "WebFetch",
                    "input": {"url": "http://a.example"},
                }
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "A page."}],
        },
        {
            "role": "system",
            "content": [
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "TaskStop"}},
                {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Bash"}},
            ],
        },
    ],
}
# OpenAI's search: run by the caller, and by the provider.
CLIENT_SEARCH: Doc = {
    "model": "gpt-5.4",
    "tools": [
        {
            "type": "tool_search",
            "execution": "client",
            "description": "Find tools.",
            "parameters": schema("goal"),
        },
    ],
    "input": [
        {"role": "user", "content": "What is the weather?"},
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": "call_1",
            "execution": "client",
            "status": "completed",
            "arguments": {"goal": "weather"},
        },
        {
            "type": "tool_search_output",
            "call_id": "call_1",
            "execution": "client",
            "status": "completed",
            "tools": [function("get_weather", "city", defer_loading=True)],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_2",
            "name": "get_weather",
            "namespace": "get_weather",
            "arguments": '{"city":"Rome"}',
        },
        {"type": "function_call_output", "call_id": "call_2", "output": "Sunny."},
    ],
}
SERVER_SEARCH: Doc = {
    "model": "gpt-5.4",
    "tools": [
        {"type": "tool_search"},
        function("get_weather", "city", defer_loading=True),
        function("get_time", defer_loading=True),
    ],
    "input": [
        {"role": "user", "content": "What is the weather?"},
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": None,
            "execution": "server",
            "status": "completed",
            "arguments": {"paths": ["get_weather"]},
        },
        {
            "type": "tool_search_output",
            "id": "tso_1",
            "call_id": None,
            "execution": "server",
            "status": "completed",
            "tools": [function("get_weather", "city", defer_loading=True)],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_2",
            "name": "get_weather",
            "namespace": "get_weather",
            "arguments": '{"city":"Rome"}',
        },
        {"type": "function_call_output", "call_id": "call_2", "output": "Sunny."},
    ],
}
BODIES = {
    "codex": ("openai-responses", CODEX),
    "claude": ("anthropic-messages", CLAUDE),
    "client search": ("openai-responses", CLIENT_SEARCH),
    "server search": ("openai-responses", SERVER_SEARCH),
}


def names_of(tools: Sequence[ToolDefinition]) -> set[str]:
    return {tool.qualified_name for tool in tools if tool.kind != "hosted"}


def convert(source: str, body: Doc, target: str, model: str = "") -> EncodedRequest:
    request = decode_request(source, body)
    return encode_request(
        replace(request, model=model or request.model), resolve_profile(SPECS[target].default_profile, model)
    )


@pytest.mark.parametrize("case", BODIES)
def test_a_body_comes_back_as_it_was(case: str) -> None:
    wire, body = BODIES[case]
    encoded = convert(wire, body, wire, body["model"])
    assert encoded.body == body
    assert (encoded.losses, encoded.repairs) == ((), ())


@pytest.mark.parametrize("target", SPECS)
@pytest.mark.parametrize("case", BODIES)
def test_no_tool_is_lost_on_any_wire_nor_on_the_way_back(case: str, target: str) -> None:
    wire, body = BODIES[case]
    request = decode_request(wire, body)
    known = names_of(request.tools) | {
        tool.qualified_name
        for message in request.messages
        for change in [*message.blocks, *(part for result in message.results for part in result.content)]
        if isinstance(change, ToolsChanged)
        for tool in change.added
    }
    there = convert(wire, body, target)
    back = convert(target, there.body, wire)
    for converted in (there.body, back.body):
        text = dumps_text(converted)
        assert [name for name in known if name.rpartition(".")[2] not in text] == []
    # What the model may call stays callable, under a name that leads back.
    offered = names_of(effective_tools(decode_request(target, there.body)).declared)
    wanted = names_of(effective_tools(request).declared)
    if "." not in "".join(offered):
        offered = {".".join(filter(None, there.names[name])) for name in offered}
    assert wanted <= offered
    calls = [call.id for message in request.messages for call in message.calls]
    assert len(
        [call for message in decode_request(wire, back.body).messages for call in message.calls]
    ) == len(calls)


def test_codex_tools_are_declared_where_a_wire_has_no_additions() -> None:
    encoded = convert("openai-responses", CODEX, "openai-chat")
    declared = [tool.name for tool in decode_request("openai-chat", encoded.body).tools]
    assert declared == ["functions__exec", "functions__wait", "clock__sleep"]
    assert encoded.names["functions__exec"] == ("functions", "exec")
    assert names_of(effective_tools(decode_request("openai-responses", CODEX)).declared) == CODEX_NAMES


def test_references_of_claude_code_become_declarations() -> None:
    encoded = convert("anthropic-messages", CLAUDE, "gemini", "gemini-2.5-pro")
    declared = [tool["name"] for tool in encoded.body["tools"][0]["functionDeclarations"]]
    # Bash was removed, NotebookEdit was not found yet
    assert declared == ["ToolSearch", "WebFetch", "TaskStop"]
    text = dumps_text(encoded.body)
    assert "Use ToolSearch to load one of these tools before you call it: NotebookEdit." in text
    assert "Loaded: WebFetch." in text
    assert [loss for loss in encoded.losses if "tool" in loss.subject] == []


def test_additions_follow_the_result_on_responses() -> None:
    encoded = convert("anthropic-messages", CLAUDE, "openai-responses", "gpt-5")
    kinds = [item.get("type", "message") for item in encoded.body["input"]]
    assert kinds == [
        "message",
        "function_call",
        "function_call_output",
        "additional_tools",
        "function_call",
        "function_call_output",
        "additional_tools",
    ]
    assert [tool["name"] for tool in encoded.body["tools"]] == ["ToolSearch"]
    # 400 "does not exist in the default namespace" without it.
    assert encoded.body["input"][4]["namespace"] == "WebFetch"


def test_a_search_of_the_provider_is_that_of_the_other_provider() -> None:
    there = convert("openai-responses", SERVER_SEARCH, "anthropic-messages", "claude-opus-4-8")
    assert {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"} in there.body["tools"]
    assert [tool["name"] for tool in there.body["tools"] if tool.get("defer_loading")] == ["get_time"]
    back = convert("anthropic-messages", there.body, "openai-responses", "gpt-5.4")
    assert {"type": "tool_search"} in back.body["tools"]
    assert [tool["name"] for tool in back.body["tools"] if tool.get("defer_loading")] == ["get_time"]


@pytest.mark.parametrize("target", ["openai-chat", "gemini", "ollama-chat"])
def test_without_a_search_deferred_tools_are_declared_at_once(target: str) -> None:
    encoded = convert("openai-responses", SERVER_SEARCH, target)
    assert names_of(decode_request(target, encoded.body).tools) == {"get_weather", "get_time"}
    assert "hosted tool 'tool_search'" in [loss.subject for loss in encoded.losses]
    assert any("declared at once" in repair.reason for repair in encoded.repairs)


SEARCH = ToolDefinition("search_tools", "Find tools.", schema("query"), finds_tools=True)
READ = ToolDefinition("read", "Read.", schema("path"))
MANY = tuple(ToolDefinition(f"tool_{n}", f"Does {n}.", schema("x"), deferred=True) for n in range(4))
FOUND = ToolResult("c1", (Text("Loaded: tool_2."), ToolsChanged(loaded=("tool_2",))), "search_tools")
LATE = ToolDefinition("late", "Comes later.", schema("x"))
STORY: list[Message] = [
    user("Do 2."),
    assistant(ToolCall("c1", "search_tools", {"query": "2"})),
    tool_results(FOUND),
    assistant(ToolCall("c2", "tool_2", {"x": "1"})),
    tool_results(ToolResult("c2", (Text("done"),), "tool_2")),
    assistant("Done."),
    Message("system", (ToolsChanged((LATE,)),)),
    user("Now late."),
    assistant(ToolCall("c3", "late", {"x": "1"})),
    tool_results(ToolResult("c3", (Text("done"),), "late")),
    assistant("Done."),
    Message("system", (ToolsChanged(removed=("late",)),)),
    user("Thanks."),
]
# How many times the head changes: when a tool is found, when one is added, and when one is removed.
HEADS = {
    ("openai-responses", "gpt-5"): 1,  # only the removal: its history cannot take a tool back
    ("openai-responses", "gpt-5.6"): 1,
    # the definition of `late`, which is deferred and so not a part of the cached prompt
    ("anthropic", "claude-opus-4-8"): 1,
    ("anthropic", "claude-sonnet-4-5"): 2,
    ("openai-chat", "gpt-4.1"): 3,
    ("gemini", "gemini-2.5-pro"): 3,
    ("ollama", "qwen3"): 3,
}


@pytest.mark.parametrize("target", HEADS)
def test_the_head_changes_only_where_the_wire_has_no_form(target: tuple[str, str]) -> None:
    profile = resolve_profile(*target)
    request = Request(target[1], Conversation(STORY[:1]), (READ, SEARCH, *MANY))
    encoder, changes, previous = PrefixEncoder(profile), 0, b""
    for message in [None, *STORY[1:]]:
        if message is not None:
            cast(Conversation, request.messages).append(message)
        step = encoder.encode(request)
        full = encode_request(replace(request, messages=list(request.messages)), profile)
        assert step.body == dumps(full.body)
        assert full.losses == ()
        changes += not step.body.startswith(previous)
        previous = step.body[: step.prefix_length]
    assert changes == HEADS[target]
    assert names_of(effective_tools(request).declared) == {"read", "search_tools", "tool_2"}
    text = dumps_text(encode_request(request, profile).body)
    # there, a removal stands in the history
    assert ("Comes later." in text) == (target[1] == "claude-opus-4-8")


def test_a_change_stands_right_before_the_assistant_on_anthropic() -> None:
    profile = resolve_profile("anthropic", "claude-opus-4-8")
    body = encode_request(Request("claude-opus-4-8", STORY, (READ, SEARCH, *MANY)), profile).body
    roles = [message["role"] for message in body["messages"]]
    assert roles[5:9] == ["assistant", "user", "system", "assistant"]
    assert body["messages"][7]["content"] == [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "late"}}
    ]
    assert body["messages"][-1]["content"] == [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "late"}}
    ]
    betas = profile.headers["anthropic-beta"].split(",")
    assert betas == ["mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15"]


def test_a_definition_in_the_history_of_anthropic_goes_back_as_it_came() -> None:
    definition = {"name": "late", "description": "Comes later.", "input_schema": schema()}
    addition = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "late"}}
    body: dict[str, Any] = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "tools": [{"name": "read", "input_schema": schema()}],
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "system", "content": [addition]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
            {"role": "system", "content": [removal]},
        ],
    }
    profile = resolve_profile("anthropic", "claude-opus-4-8")
    request = decode_request("anthropic-messages", body)
    encoded = encode_request(request, profile)
    assert (encoded.body, encoded.losses) == (body, ())
    assert (
        Simulator().handle("POST", "/v1/messages", {"x-api-key": "k", **profile.headers}, dumps(body)).status
        == 200
    )
    request = replace(request, messages=request.messages[:4])
    for provider, model in (
        ("openai-responses", "gpt-5.6"),
        ("anthropic", "claude-opus-5"),
        ("gemini", "gemini-3-pro"),
    ):
        elsewhere = encode_request(request, resolve_profile(provider, model))
        assert (dumps_text(elsewhere.body).count("Comes later."), elsewhere.losses) == (1, ())


def test_deferred_names_are_short_enough_for_references() -> None:
    tools = (
        SEARCH,
        ToolDefinition("n" * 100, "", schema(), deferred=True),
        ToolDefinition("m" * 100, "", schema()),
    )
    result = ToolResult("c1", (ToolsChanged(loaded=("n" * 100, "gone")),), "search_tools")
    messages = [user("hi"), assistant(ToolCall("c1", "search_tools", {})), tool_results(result)]
    profile = resolve_profile("anthropic", "claude-sonnet-4-5")
    encoded = encode_request(Request("claude-sonnet-4-5", messages, tools), profile)
    reference = encoded.body["messages"][2]["content"][0]["content"]
    # what is gone is left out
    assert reference == [{"type": "tool_reference", "tool_name": encoded.body["tools"][1]["name"]}]
    assert len(reference[0]["tool_name"]) == 64
    assert len(encoded.body["tools"][2]["name"]) == 100


@pytest.mark.parametrize("length", [63, 64, 65, 90, 128])
@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-4-5", "claude-opus-5"])
def test_a_long_name_is_the_same_in_the_head_in_calls_and_in_references(model: str, length: int) -> None:
    """Whether the tool was found, added or removed: a `tool_reference` has at most 64 characters."""
    name, profile = "n" * length, resolve_profile("anthropic", model)
    tool, call = ToolDefinition(name, "", schema()), ToolCall("c2", name, {})
    results = tool_results(ToolResult("c1", (Text("found"), ToolsChanged(loaded=(name,))), "search_tools"))
    stories: list[tuple[tuple[ToolDefinition, ...], list[Message]]] = [
        # it was deferred when it was found
        ((SEARCH, tool), [assistant(ToolCall("c1", "search_tools", {})), results]),
        ((SEARCH,), [assistant("ok"), Message("system", (ToolsChanged(added=(tool,)),)), user("more")]),
        (
            (SEARCH, tool),
            [assistant("ok"), Message("system", (ToolsChanged(removed=(name,)),)), user("more")],
        ),
    ]
    for tools, story in stories:
        messages = [
            user("hi"),
            *story,
            assistant(call),
            tool_results(ToolResult("c2", (Text("ok"),), name)),
            user("bye"),
        ]
        encoded = encode_request(Request(model, messages, tools), profile)
        text = dumps_text(encoded.body)
        references = re.findall(r'"type":"tool_reference","(?:tool_)?name":"(\w+)"', text)
        [used] = re.findall(r'"type":"tool_use","id":"c2","name":"(\w+)"', text)
        assert {*references} <= {used}
        assert {used} <= {tool["name"] for tool in encoded.body["tools"]} | (
            {used} if "removed" in repr(story) else set()
        )
        assert (len(used) <= 64, encoded.names[used]) == (True, ("", name))
        grown = PrefixEncoder(profile).encode(Request(model, messages, tools))
        assert dumps(encoded.body) == grown.body


def test_three_hundred_deferred_tools_are_within_the_limit() -> None:
    tools = (SEARCH, *(ToolDefinition(f"t{n}", "", schema(), deferred=True) for n in range(300)))
    for provider, model in HEADS:
        encoded = encode_request(Request(model, [user("hi")], tools), resolve_profile(provider, model))
        assert encoded.losses == ()
        assert len(encoded.body["tools"]) in (1, 301)


def test_a_choice_may_name_a_tool_of_the_history() -> None:
    choice = ToolChoice("required", ("late",))
    request = Request(
        "gpt-5.6", [user("hi"), Message("system", (ToolsChanged((LATE,)),))], (), choice, parallel=False
    )
    body = encode_request(request, resolve_profile("openai-responses", "gpt-5.6")).body
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ({"type": "function", "name": "late"}, False)
    assert "tools" not in body


def test_effective_tools_follow_the_conversation() -> None:
    request = Request("m", STORY[:8], (READ, SEARCH, *MANY))
    declared, deferred = effective_tools(request)
    assert [tool.name for tool in declared] == ["read", "search_tools", "tool_2", "late"]
    assert [tool.name for tool in deferred] == ["tool_0", "tool_1", "tool_3"]
    again = [*STORY, Message("system", (ToolsChanged(loaded=("late", "nobody"), removed=("read",)),))]
    assert [tool.name for tool in effective_tools(replace(request, messages=again)).declared] == [
        "search_tools",
        "tool_2",
        "late",
    ]


@pytest.mark.parametrize("target", HEADS)
def test_a_tool_is_sent_as_it_was_defined_last(target: tuple[str, str]) -> None:
    change = ToolsChanged((replace(READ, description="Read anew."),))
    request = Request(
        target[1], [user("hi"), assistant("ok"), Message("system", (change,)), user("go")], (READ, LATE)
    )
    encoded = encode_request(request, resolve_profile(*target))
    text = dumps_text(encoded.body)
    assert "Read anew." in text
    if target[0] != "openai-responses":  # there, an item stands beside the head
        assert '"Read."' not in text
        assert ("tool_addition" in text) != any(repair.subject == "tools read" for repair in encoded.repairs)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-4-5"])
def test_only_tools_of_the_head_are_referred_to(model: str) -> None:
    removal = Message("system", (ToolsChanged(loaded=("nobody",), removed=("ghost", "tool_2")),))
    request = Request(model, [*STORY[:6], removal, user("go")], (READ, SEARCH, *MANY))
    body = encode_request(request, resolve_profile("anthropic", model)).body
    has_removal = model == "claude-opus-4-8"
    assert ("tool_2" in str(body["tools"])) == has_removal
    # where it was found, and where it is removed
    assert str(body["messages"]).count("tool_reference") == 2 * has_removal
    assert "nobody" not in str(body)
    assert "ghost" not in str(body)


def test_a_tool_that_stands_alone_is_not_deferred() -> None:
    """A request whose tools are all deferred is believed to be refused."""
    request = Request(
        "claude-opus-4-8",
        [user("hi"), assistant("ok"), Message("system", (ToolsChanged((LATE,)),)), user("go")],
    )
    body = encode_request(request, resolve_profile("anthropic", "claude-opus-4-8")).body
    assert [tool.get("defer_loading") for tool in body["tools"]] == [None]
    assert body["messages"][-1]["content"] == [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "late"}}
    ]


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("names", [("read",), ("late",), ("read", "late"), ("nobody",)])
def test_tools_that_a_choice_leaves_out_are_not_referred_to(names: tuple[str, ...], mode: Any) -> None:
    """Claude cannot be told to choose between some of its tools: it gets no others."""
    request = Request("claude-opus-4-8", STORY, (READ, SEARCH, *MANY), ToolChoice(mode, names))
    body = encode_request(request, resolve_profile("anthropic", "claude-opus-4-8")).body
    declared = {tool["name"] for tool in body["tools"]}
    is_whole = names == ("nobody",) or (mode == "required" and len(names) == 1)
    assert len(declared) == (7 if is_whole else len(names))
    referred = re.findall(r'"tool_reference","(?:tool_)?name":"(\w+)"', dumps_text(body))
    assert {*referred} == {"tool_2", "late"} & declared
