"""The simulated model: directives, plain prompts, choices, scripts, and the same conversation on every
profile.
"""

import re
from typing import Any, NamedTuple

import pytest

from toolglot import Agent, InvalidRequest, SimulatedTransport, UsageError
from toolglot.providers.catalog import PROFILES
from toolglot.simulator.argument_filler import ArgumentFiller
from toolglot.simulator.core import Script, Simulator
from toolglot.simulator.directives import parse_directives
from toolglot.tools.tool import Tool
from toolglot.values.messages import (
    Conversation,
    Media,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition

from .client import ADD, WEATHER, WIRE_PROFILES, ask

TOOLS = (WEATHER, ADD)
SEARCH = ToolDefinition(
    "search_files",
    "Searches files for a text.",
    {
        "type": "object",
        "properties": {"text": {"type": "string"}, "path": {"type": "string"}},
        "required": ["text", "path"],
    },
)


def calls_of(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in reply.calls]


def add_results(reply: Reply, text: str = "sunny in {city}") -> Any:
    results = [
        ToolResult(call.id, (Text(text.format(**(call.arguments or {}))),), call.name) for call in reply.calls
    ]
    return tool_results(*results)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_tool_loop_is_the_same_on_every_wire(profile: str, stream: bool) -> None:
    simulator = Simulator()
    conversation = Conversation([user("What is the weather in Paris and in Rome?")])
    first = ask(simulator, profile, conversation, stream=stream, tools=TOOLS)
    assert (calls_of(first), first.stop) == (
        [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})],
        "tools",
    )
    assert len({call.id for call in first.calls}) == 2
    conversation.append(first.message, add_results(first))
    second = ask(simulator, profile, conversation, stream=stream, tools=TOOLS)
    assert second.text == "Here is what came back. get_weather: sunny in Paris. get_weather: sunny in Rome."
    assert (second.stop, second.calls) == ("end", ())
    conversation.append(
        second.message, user("And in Oslo?"), assistant("One moment."), user("weather in Oslo")
    )
    third = ask(simulator, profile, conversation, stream=stream, tools=TOOLS)
    assert calls_of(third) == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("name", ["search_tools", "ToolSearch"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_tool_that_is_not_declared_is_searched_for(profile: str, name: str) -> None:
    """On most wires a tool that is deferred is not declared, and nothing says of a function that it finds tools."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tools = (*TOOLS, ToolDefinition(name, "Find tools.", schema))
    conversation = Conversation([user("call tool_7 {}")])
    simulator = Simulator()
    reply = ask(simulator, profile, conversation, tools=tools)
    assert calls_of(reply) == [(name, {"query": "select:tool_7" if name == "ToolSearch" else "tool_7"})]
    conversation.append(reply.message, add_results(reply, "Loaded."))
    chosen = ask(simulator, profile, conversation, tools=(*tools, ToolDefinition("tool_7", "", schema)))
    assert calls_of(chosen) == [("tool_7", {})]
    assert not ask(simulator, profile, conversation, tools=tools).calls  # not found: not searched for again


@pytest.mark.parametrize(("profile", "model", "state"), [
    ("anthropic", "claude-opus-5", "signature"),
    ("openai-responses", "gpt-5", "encrypted_content"),
    ("deepseek", "deepseek-v4-pro", ""),
    ("ollama", "deepseek-r1", ""),
])  # fmt: skip
def test_thinking_models_add_state(profile: str, model: str, state: str) -> None:
    extras = {
        "openai-responses": {"reasoning": {"summary": "auto"}},
        "anthropic-messages": {"thinking": {"type": "adaptive"}},
    }
    reply = ask(Simulator(), profile, [user("weather in Paris")], tools=TOOLS, model=model, extras=extras)
    (thought,) = [block for block in reply.blocks if isinstance(block, Thinking)]
    assert thought.text == "I should call get_weather."
    assert not state or (thought.opaque or {}).get(state)
    assert bool(reply.usage.reasoning) == (profile != "ollama")


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_shown_only_if_it_is_asked_for(stream: bool) -> None:
    """OpenAI thinks and hides it, Anthropic does not think."""
    asked = [user("say hi")]
    omitted = {"anthropic-messages": {"thinking": {"type": "adaptive", "display": "omitted"}}}
    for profile, model, extras in (
        ("openai-responses", "gpt-5", {}),
        ("anthropic", "claude-opus-5", omitted),
    ):
        thought, text = ask(Simulator(), profile, asked, model=model, stream=stream, extras=extras).blocks
        assert isinstance(thought, Thinking)
        assert (thought.text, bool(thought.opaque), isinstance(text, Text)) == ("", True, True)
    assert ask(Simulator(), "anthropic", asked, model="claude-opus-5", stream=stream).blocks == (Text("hi"),)


def test_a_call_of_gemini_3_is_signed_once() -> None:
    reply = ask(Simulator(), "gemini", [user("weather in Paris and in Rome")], tools=TOOLS)
    assert ["thoughtSignature" in (call.opaque or {}) for call in reply.calls] == [True, False]


@pytest.mark.parametrize(("prompt", "expected"), [
    ("Add 2 and 3.", [("add", {"a": 2, "b": 3})]),
    ("Please add 2.5 and -3 and tell me the weather in Oslo",
        [("add", {"a": 2.5, "b": -3}), ("get_weather", {"city": "Oslo"})]),
    ("weather for Paris and Rome, in celsius",
        [("get_weather", {"city": city, "unit": "celsius"}) for city in ("Paris", "Rome")]),
    ('the weather of "new york"?', [("get_weather", {"city": "new york"})]),
    ("Weather in São Paulo?", [("get_weather", {"city": "São Paulo"})]),
    ("Search the files in src/app.py for `needle`", [("search_files", {"text": "needle", "path": "src/app.py"})]),
    ("Hello there", []),
    ("", []),
])  # fmt: skip
def test_plain_prompts(prompt: str, expected: Any) -> None:
    reply = ask(Simulator(), "openai-chat", [user(prompt)], tools=(*TOOLS, SEARCH))
    assert calls_of(reply) == expected
    assert bool(reply.text) is not bool(expected)


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_tool_choice(profile: str) -> None:
    asked = [user("weather in Paris and in Rome")]

    def calls(**fields: Any) -> list[tuple[str, Any]]:
        return calls_of(ask(Simulator(), profile, asked, tools=TOOLS, **fields))

    assert calls(tool_choice=ToolChoice("none")) == []
    assert calls(tool_choice=ToolChoice("required", ("add",))) == [("add", {"a": 1, "b": 1})]
    assert calls_of(ask(Simulator(), profile, [user("hi")], tools=TOOLS, tool_choice=ToolChoice("required")))
    if profile != "gemini":  # which has no such switch
        assert calls(parallel=False) == [("get_weather", {"city": "Paris"})]


def test_parallel_off_spreads_calls_over_turns() -> None:
    simulator, conversation = Simulator(), Conversation([user("weather in Paris and in Rome")])
    turns: list[Any] = []
    for _ in range(3):
        reply = ask(simulator, "openai-chat", conversation, tools=TOOLS, parallel=False)
        turns.append(calls_of(reply))
        conversation.append(reply.message, *([add_results(reply)] if reply.calls else []))
    assert turns == [[("get_weather", {"city": "Paris"})], [("get_weather", {"city": "Rome"})], []]


CALLS = 'call get_weather {"city": "Paris"} call add {"a": 1, "b": 2}'


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_directives_obey_the_tool_choice(profile: str) -> None:
    def answer(text: str, *choice: Any) -> Reply:
        return ask(Simulator(), profile, [user(text)], tools=TOOLS, tool_choice=ToolChoice(*choice))

    refused = answer(CALLS, "none")
    assert (refused.calls, refused.stop) == ((), "end")
    assert refused.text
    assert calls_of(answer(CALLS, "required", ("add",))) == [("add", {"a": 1, "b": 2})]
    assert len(answer(CALLS, "auto").calls) == 2
    forced = answer("say hi", "required")
    assert (forced.text, len(forced.calls), forced.stop) == ("hi", 1, "tools")


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic"])
def test_directives_obey_parallel_off(profile: str) -> None:
    """One call per turn, and none is lost."""
    simulator, conversation = Simulator(), Conversation([user(f"{CALLS}\nthen say Done.")])
    seen: list[Any] = []
    for _ in range(3):
        reply = ask(simulator, profile, conversation, tools=TOOLS, parallel=False)
        seen.append((calls_of(reply), reply.text))
        conversation.append(reply.message, *([add_results(reply, "ok")] if reply.calls else []))
    assert seen == [
        ([("get_weather", {"city": "Paris"})], ""),
        ([("add", {"a": 1, "b": 2})], ""),
        ([], "Done."),
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_directives_obey_the_length_limit(profile: str, stream: bool) -> None:
    """Also in the middle of a call and of structured output."""

    def answer(text: str, **fields: Any) -> Reply:
        return ask(
            Simulator(), profile, [user(text)], stream=stream, options=Options(max_tokens=20), **fields
        )

    text_reply = answer("say " + "x" * 300)
    assert (text_reply.text, text_reply.stop) == ("x" * 80, "length")
    call_reply = answer('call get_weather {"city": "%s"}' % ("x" * 300), tools=TOOLS)
    assert call_reply.stop == "length"
    assert all(len(call.text) <= 80 for call in call_reply.calls)
    listing = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    document = answer('"%s"' % ("x" * 300), output=Output(listing, "listing"))
    assert (len(document.text) <= 80, document.stop) == (True, "length")


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic"])
def test_a_script_is_played_as_written(profile: str) -> None:
    """It is how to play a model that disobeys."""
    calls = (ToolCall("", "get_weather", {"city": "Paris"}), ToolCall("", "add", {"a": 1, "b": 2}))
    for turn in (CALLS, Reply(calls, "tools")):
        fields: Any = {
            "tools": TOOLS,
            "tool_choice": ToolChoice("none"),
            "parallel": False,
            "options": Options(max_tokens=2),
        }
        reply = ask(Simulator(Script([turn])), profile, [user("hi")], **fields)
        assert (len(reply.calls), reply.stop) == (2, "tools")


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_directives_by_turn(profile: str) -> None:
    words = (
        'think Two.\ncall add {"a": 1, "b": 2} and call add {"a": 3, "b": 4}\nthen call get_weather '
        '{"city": "}"}\n'
    )
    words += "then say Done."
    simulator, conversation = Simulator(), Conversation([user(words)])
    seen: list[Any] = []
    for _ in range(3):
        reply = ask(simulator, profile, conversation, tools=TOOLS)
        seen.append((calls_of(reply), reply.text))
        conversation.append(reply.message, *([add_results(reply, "ok")] if reply.calls else []))
    assert seen == [
        ([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], ""),
        ([("get_weather", {"city": "}"})], ""),
        ([], "Done."),
    ]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_a_tool_is_called_with_its_namespace_on_every_wire(profile: str) -> None:
    run = ToolDefinition(
        "run", "Runs.", {"type": "object", "properties": {"q": {"type": "string"}}}, namespace="web"
    )
    reply = ask(Simulator(), profile, [user('call web.run {"q": "x"}')], tools=(*TOOLS, run))
    as_written = ("web", "run") if profile == "openai-responses" else ("", "web__run")
    assert [(call.namespace, call.name, call.arguments) for call in reply.calls] == [
        (*as_written, {"q": "x"})
    ]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize(
    "names", [("a.b", "a/b"), ("a/b", "a.b"), ("n" * 105, "n" * 106), ("a.b", "a_b"), ("a b", "a.b")]
)
def test_a_call_runs_the_tool_of_that_name_however_it_is_encoded(
    profile: str, names: tuple[str, str]
) -> None:
    def answer(name: str) -> Tool:
        return Tool(
            lambda: f"this is {names.index(name)}", name=name, parameters={"type": "object", "properties": {}}
        )

    for number, name in enumerate(names):
        if " " in name:  # a directive cannot name it
            continue
        agent = Agent(f"simulator:{profile}", tools=[answer(name) for name in names])
        outcomes = agent.run_sync(f"call {name} {{}}").outcomes
        assert [(outcome.call.name, outcome.result.text) for outcome in outcomes] == [
            (name, f"this is {number}")
        ]


def test_directive_grammar() -> None:
    turns, remainder = parse_directives(
        "Hi.\nfault rate-limit:0.1 3\nfault reset\nsay a\nsay b\nstop length\nthen stop pause\nthen call x "
        '{"y": [1]} bye'
    )
    assert remainder.split() == ["Hi.", "bye"]
    assert turns[0].faults == [("rate-limit:0.1", 3), ("reset", 1)]
    assert (turns[0].blocks, turns[0].stop) == ([Text("a"), Text("b")], "length")
    assert (turns[1].blocks, turns[1].stop) == ([], "pause")
    assert turns[2].blocks == [ToolCall("", "x", {"y": [1]})]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "call me later",
            "I say hello",
            "I call x {not json}",
            'I call x ["y"]',
            "we all stop here",
            "then what",
        ),
        *("stop the music", "call it a day (or two)", "call me (later)", "call add for 1 and 2"),
    ],
)
def test_prose_is_not_a_directive(text: str) -> None:
    assert parse_directives(text) == ([], text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stop nope", "unknown reason to stop in a directive 'nope'; known: end, error, filtered, length"),
        ("stop lenght", "unknown reason to stop in a directive 'lenght'; did you mean 'length'?"),
        (
            "Hi.\nthen call add {bad json}",
            "the directive 'call add {bad json}' needs its arguments as a JSON object, as in",
        ),
        (
            "call add a=1",
            '\'call add a=1\' needs its arguments as a JSON object, as in call add {"name": "value"}',
        ),
        ("call add(1)", "'call add(1)' needs"),
        ('call add {"a": 1} call add {', "'call add {' needs"),
        ("fault reset twice", "unknown fault 'reset twice'; did you mean 'reset'"),
    ],
)
def test_a_directive_with_a_mistake_is_refused(text: str, message: str) -> None:
    for profile in WIRE_PROFILES:
        with pytest.raises(InvalidRequest, match=re.escape(message)):
            Agent(f"simulator:{profile}").run_sync(text)
    if "fault" not in text:  # a script has none
        with pytest.raises(UsageError, match=re.escape(message)):
            Agent("simulator", transport=SimulatedTransport(Simulator(Script([text])))).run_sync("go")


def test_freeform_tools_get_text() -> None:
    patch = ToolDefinition("patch", "Patches a file.", kind="freeform")
    reply = ask(Simulator(), "openai-responses", [user('call patch {"input": "+ a"}')], tools=(patch,))
    assert [(call.name, call.raw, call.freeform) for call in reply.calls] == [("patch", "+ a", True)]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_structured_output(profile: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }
    reply = ask(Simulator(), profile, [user("Mary is 31.")], output=Output(schema, "person"))
    assert reply.text.replace(" ", "") == '{"name":"Mary","age":31,"tags":["Mary"]}'


def test_images_are_counted_and_long_texts_truncated() -> None:
    image = Media("image", "image/png", "iVBORw0KGgo=")
    reply = ask(Simulator(), "anthropic", [user(["Look.", image, image])])
    assert reply.text == "You said: Look. I see 2 images."
    short = ask(Simulator(), "openai-chat", [user("x" * 300)], options=Options(max_tokens=20))
    assert (len(short.text), short.stop) == (80, "length")


def test_scripts_by_turn() -> None:
    def third(request: Request) -> Reply:
        return Reply((Text(f"{len(request.messages)} messages"),))

    script = Script(
        (Reply((Thinking("hm"), ToolCall("", "add", {"a": 1})), "tools"), 'call add {"a": 2}', third)
    )
    for profile in WIRE_PROFILES:
        simulator, conversation = Simulator(script), Conversation([user("hi")])
        first = ask(simulator, profile, conversation, tools=TOOLS)
        conversation.append(first.message, add_results(first, "1"))
        second = ask(simulator, profile, conversation, tools=TOOLS)
        conversation.append(second.message, add_results(second, "2"))
        assert [calls_of(first), calls_of(second)] == [[("add", {"a": 1})], [("add", {"a": 2})]]
        last = ask(simulator, profile, conversation, tools=TOOLS)
        assert last.text == "5 messages"
        conversation.append(last.message, user("go on"))
        assert ask(simulator, profile, conversation).text == "You said: go on"


@pytest.mark.parametrize(("schema", "expected"), [
    ({"type": "integer", "minimum": 5}, 12),
    ({"type": "integer", "maximum": 3}, 3),
    ({"const": 7}, 7),
    ({"enum": ["x", "blue"]}, "blue"),
    ({"type": ["null", "boolean"]}, True),
    ({"type": "null"}, None),
    ({"anyOf": [{"type": "null"}, {"type": "number"}]}, 12),
    ({"$ref": "#/$defs/D"}, {"d": "2026-01-31"}),
    ({"type": "array", "items": {"type": "integer"}}, [12, 7]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, [12, "Ada Lovelace"]),
    ({"type": "array", "items": {"type": "boolean"}, "description": "Flags. At least 3 items."}, [True] * 3),
    ({"type": "string"}, "Ada Lovelace"),
    ({"type": "string", "format": "uri"}, "https://example.org/a"),
    ({"type": "string", "format": "email"}, "ada@example.org"),
    ({"allOf": [{"type": "object"}, {"properties": {"x": {"const": 1}}, "required": ["x"]}]}, {"x": 1}),
])  # fmt: skip
def test_values_from_the_prompt(schema: dict[str, Any], expected: Any) -> None:
    words = (
        "Send 12 or 7 blue ones to Ada Lovelace on 2026-01-31, ada@example.org, see https://example.org/a."
    )
    dated = {"type": "object", "properties": {"d": {"type": "string", "format": "date"}}, "required": ["d"]}
    whole = {"properties": {"value": schema}, "required": ["value"], "$defs": {"D": dated}}
    assert ArgumentFiller(words).fill(whole) == {"value": expected}


class Point(NamedTuple):
    x: int
    label: str


@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize(
    ("output_type", "expected"),
    [
        (tuple[int, str], (7, "Ada")),
        (tuple[int, int, str], (7, 7, "Ada")),
        (tuple[int, int], (7, 7)),
        (Point, Point(7, "Ada")),
        (list[tuple[int, str]], [(7, "Ada")]),
        (tuple[str, ...], ("Ada",)),
    ],
)
def test_tuples_are_made_up_on_every_wire(profile: str, output_type: Any, expected: Any) -> None:
    result = Agent(f"simulator:{profile}").run_sync("7 is for 'Ada'.", output_type=output_type)
    assert (result.output, result.iterations) == (expected, 1)


def test_recursive_schemas_end() -> None:
    root: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert "next" in ArgumentFiller("x").fill(root)
