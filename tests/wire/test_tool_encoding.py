"""The writer: tools and choices as a target takes them; calls, results and media in words."""

import pytest
from msgspec.structs import replace

from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import Media, Message, Text, ToolCall, ToolResult
from toolglot.values.request import Request, ToolChoice, ToolDefinition, ToolExample
from toolglot.wire.tool_encoding import encode_function, native_definition, reserve_names, select_tools
from toolglot.wire.writer import ToolPlan, Writer, format_result_text

OPENAI, CLAUDE, GEMINI = (
    resolve_profile("openai-chat", "gpt-4o"),
    resolve_profile("anthropic", "claude-sonnet-4-5"),
    resolve_profile("gemini", "gemini-3-pro"),
)
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


def losses(writer: Writer) -> list[tuple[str, str]]:
    return [(loss.subject, loss.where) for loss in writer.losses]


# ---- tools


def test_examples_are_appended_to_the_description() -> None:
    tool = ToolDefinition(
        "get", "Gets.", SCHEMA, examples=(ToolExample({"x": "a"}), ToolExample({"x": "b"}, description="B"))
    )
    function = encode_function(tool, Writer(OPENAI))
    assert function.description == 'Gets.\nExample: {"x":"a"}\nExample (B): {"x":"b"}'
    assert (function.name, function.schema, function.strict, function.extra) == ("get", SCHEMA, False, {})


def test_what_a_schema_has_no_place_for_is_appended_to_the_description() -> None:
    """Ollama keeps no description of the root: `Lowered.note` goes where the model reads it."""
    schema = {**SCHEMA, "description": "Only for grown-ups."}
    function = encode_function(
        ToolDefinition("get", "Gets.", schema), Writer(resolve_profile("ollama", "qwen3"))
    )
    assert "description" not in function.schema
    assert function.description == "Gets.\nOnly for grown-ups."


def test_freeform_tool_becomes_a_function_with_one_text() -> None:
    writer = Writer(CLAUDE)
    tool = ToolDefinition(
        "sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: X"}
    )
    function = encode_function(tool, writer)
    assert function.description.startswith("Runs.\nThe input must follow this grammar: {")
    assert (list(function.schema["properties"]), function.schema["required"]) == (["input"], ["input"])
    assert losses(writer) == [("freeform", "tool 'sql'")]


@pytest.mark.parametrize(
    ("provider", "strict", "lost"), [("openai-chat", True, 0), ("anthropic", True, 0), ("groq", False, 1)]
)
def test_strict_is_sent_if_there_is_a_strict_mode(provider: str, strict: bool, lost: int) -> None:
    writer = Writer(resolve_profile(provider))
    function = encode_function(ToolDefinition("get", "", SCHEMA, strict=True), writer)
    assert function.strict is strict
    assert losses(writer) == [("strict", "tool 'get'")] * lost
    assert writer.lowerings["get"].schema == function.schema


def test_more_strict_tools_than_a_request_may_have_are_sent_loose() -> None:
    """Recorded 400: the maximum number of strict tools is 20."""
    tools = [ToolDefinition(f"t{n}", "", SCHEMA, strict=True) for n in range(21)]
    writer = Writer(CLAUDE)
    reserve_names(tools, writer)
    strict = [encode_function(tool, writer).strict for tool in tools]
    assert strict.count(True) == 20
    assert [loss.subject for loss in writer.losses] == ["strict"]


def test_two_definitions_of_one_tool_have_their_own_schemas() -> None:
    """The history may bring a tool again with another schema, and calls are read by the latest."""
    free = {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    old, new = ToolDefinition("get", "", free, strict=True), ToolDefinition("get", "", SCHEMA, strict=True)
    writer = Writer(OPENAI)
    assert [encode_function(tool, writer).schema["properties"].keys() for tool in (old, new, old)] == [
        {"m"},
        {"x"},
        {"m"},
    ]
    writer = Writer(OPENAI)
    writer.plan = ToolPlan(inline={"get": new})
    encode_function(new, writer)
    encode_function(old, writer)
    assert writer.lowerings["get"].schema["properties"].keys() == {"x"}


def test_tool_with_a_broken_schema_does_not_cost_the_request() -> None:
    writer = Writer(OPENAI)
    good, bad = ToolDefinition("good", "", SCHEMA), ToolDefinition("bad", "", [1], strict=True)  # pyright: ignore[reportArgumentType]
    request = Request("m", [], (bad, good))
    reserve_names(request.tools, writer)
    assert select_tools(request, writer) == ([good], None)
    assert losses(writer) == [("tool 'bad'", "tools")]


def test_hosted_tool_goes_to_its_wire_only() -> None:
    search = ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    assert native_definition(search, Writer(GEMINI)) == {"googleSearch": {}}
    writer = Writer(CLAUDE)
    assert select_tools(Request("m", [], (search,)), writer) == ([], None)
    assert losses(writer) == [("hosted tool 'googleSearch'", "tools")]


def test_hosted_tool_without_a_definition_is_a_loss() -> None:
    writer = Writer(GEMINI)
    assert select_tools(
        Request("m", [], (ToolDefinition("googleSearch", kind="hosted", wire="gemini"),)), writer
    ) == ([], None)
    assert losses(writer) == [("hosted tool 'googleSearch'", "tools")]


def test_of_two_tools_of_one_name_the_first_counts() -> None:
    writer, definition = Writer(OPENAI), ToolDefinition("get", "One.", SCHEMA)
    tools, _ = select_tools(
        Request(
            "m",
            [],
            (
                definition,
                definition,
                replace(definition, description="Two."),
                replace(definition, namespace="crm"),
            ),
        ),
        writer,
    )
    assert [(tool.namespace, tool.description) for tool in tools] == [("", "One."), ("crm", "One.")]
    assert losses(writer) == [("tool 'get'", "tools")]


def test_tools_beyond_the_limit_are_omitted_and_are_losses() -> None:
    writer = Writer(OPENAI)
    tools, _ = select_tools(
        Request("m", [], tuple(ToolDefinition(f"t{n}", "", SCHEMA) for n in range(130))), writer
    )
    assert [tool.name for tool in tools] == [f"t{n}" for n in range(128)]
    assert losses(writer) == [("tool 't128'", "tools"), ("tool 't129'", "tools")]
    assert "t128, t129" in writer.prompt_hints[0]


def test_choice_without_tools_or_of_unknown_tools_is_a_loss() -> None:
    writer, definition = Writer(OPENAI), ToolDefinition("get", "", SCHEMA)
    assert select_tools(Request("m", [], (), ToolChoice("required")), writer) == ([], None)
    assert select_tools(Request("m", [], (), ToolChoice("none")), writer) == ([], None)
    assert select_tools(Request("m", [], (definition,), ToolChoice("required", ("nobody",))), writer) == (
        [definition],
        None,
    )
    assert losses(writer) == [("tool_choice", "tool_choice")] * 2


def test_a_model_that_cannot_be_forced_gets_a_hint() -> None:
    profile = resolve_profile("anthropic", "claude-sonnet-5-5")
    few = tuple(ToolDefinition(name, "", SCHEMA) for name in ("one", "t.wo"))
    writer = Writer(profile)
    assert select_tools(Request("m", [], few, ToolChoice("required")), writer) == (list(few), None)
    assert writer.prompt_hints == [f"Answer with a call to one or {writer.map_tool_name('t.wo')}."]
    writer = Writer(profile)
    many = tuple(ToolDefinition(f"t{n}", "", SCHEMA) for n in range(4))
    select_tools(Request("m", [], many, ToolChoice("required")), writer)
    assert writer.prompt_hints == ["Answer with a call to a tool."]


# ---- calls, results, media


def test_arguments_as_an_object() -> None:
    writer = Writer(CLAUDE)
    assert writer.to_arguments_object(ToolCall("a", "get", {"x": 1}, '{"x": 1}')) == {"x": 1}
    assert writer.to_arguments_object(ToolCall("a", "sql", None, "select 1", freeform=True)) == {
        "input": "select 1"
    }
    assert writer.to_arguments_object(ToolCall("a", "sql", None, None, freeform=True)) == {"input": ""}
    assert writer.repairs == []
    writer.enter("messages[1]")
    assert writer.to_arguments_object(ToolCall("a", "get", None, '{"x": "tru')) == {
        "invalid_arguments": '{"x": "tru'
    }
    assert [(done.subject, done.where) for done in writer.repairs] == [("arguments of 'get'", "messages[1]")]


def test_results_are_named_by_their_call() -> None:
    writer = Writer(OPENAI)
    writer.calls["a"] = ToolCall("a", "get", {}, namespace="crm")
    assert writer.result_tool_name(ToolResult("a", name="other")) == "crm__get"
    assert writer.result_tool_name(ToolResult("b", name="other")) == "other"
    assert writer.result_tool_name(ToolResult("b")) == ""


@pytest.mark.parametrize(("result", "text"), [
    (ToolResult("a", (Text("1"), Text("2"))), "12"),
    (ToolResult("a", (Text("boom"),), is_error=True), "Error: boom"),
    (ToolResult("a", (Text("ERROR: boom"),), is_error=True), "ERROR: boom"),
    (ToolResult("a", (Text('{"error": 1}'),), is_error=True), '{"error": 1}'),
    (ToolResult("a", (), is_error=True), "Error: "),
])  # fmt: skip
def test_result_as_text(result: ToolResult, text: str) -> None:
    assert format_result_text(result) == text


def test_media_beside_results_say_whose_they_are() -> None:
    writer, image = Writer(OPENAI), Media("image", url="http://x")
    assert writer.detach_media(Message("tool", (ToolResult("a", (Text("1"),)),))) == []
    results = (
        ToolResult("a", (Text("1"), image), "get"),
        ToolResult("b", (image,)),
        ToolResult("c", (Text("1"),)),
    )
    captions = [Text("[media of the result of get]"), image, Text("[media of the result of b]"), image]
    assert writer.detach_media(Message("tool", results)) == captions
    assert [repair.subject for repair in writer.repairs] == ["media of a tool result"]


@pytest.mark.parametrize(("media", "text"), [
    (Media("image", "image/png", "AAAA", name="cat.png"), "[image not shown: cat.png]"),
    (Media("video", url="http://x/y"), "[video not shown: http://x/y]"),
    (Media("audio", "audio/wav", "AAAA"), "[audio not shown: audio/wav]"),
    (Media("file", file_id="f"), "[file not shown: file]"),
    (Media("image", url="u" * 300), f"[image not shown: {'u' * 200}]"),
])  # fmt: skip
def test_media_that_is_not_accepted_is_named_and_is_a_loss(media: Media, text: str) -> None:
    writer = Writer(OPENAI)
    writer.enter("messages[1]")
    assert writer.replace_media(media) == text
    assert losses(writer) == [(media.kind, "messages[1]")]


def test_a_copied_writer_continues_alone() -> None:
    writer = Writer(resolve_profile("mistral"), "m")
    writer.map_call_id("call_1")
    other = writer.copy()
    assert (other.model, other.map_call_id("call_1")) == ("m", writer.map_call_id("call_1"))
    other.map_tool_name("a.b")
    other.record_loss("x", "z")
    assert (writer.names, writer.losses, len(writer.repairs)) == ({}, [], 1)
