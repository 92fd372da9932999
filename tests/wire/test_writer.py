"""The writer: names, ids, options, choices and tools as a target takes them, and a word about everything that changed."""

import re

import pytest
from msgspec.structs import replace

from toolglot.losses import Loss
from toolglot.messages import Media, Origin, Text, ToolCall, ToolResult
from toolglot.providers.catalog import resolve
from toolglot.providers.profile import Profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition, ToolExample
from toolglot.wire.writer import Writer, media_beside, placeholder, result_text, same_model

OPENAI, CLAUDE, GEMINI = resolve("openai-chat", "gpt-4o"), resolve("anthropic", "claude-sonnet-4-5"), resolve("gemini", "gemini-3-pro-preview")
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


def losses(writer: Writer) -> list[tuple[str, str]]:
    return [(loss.what, loss.where) for loss in writer.losses]


# ---- names


@pytest.mark.parametrize(
    ("profile", "name", "wire"),
    [
        (OPENAI, "get_weather-2", "get_weather-2"),
        (OPENAI, "9lives", "9lives"),
        (OPENAI, "a.b", r"a_b_[0-9a-f]{6}"),
        (OPENAI, "x" * 64, "x" * 64),
        (OPENAI, "x" * 65, r"x{57}_[0-9a-f]{6}"),
        (OPENAI, "über", r"_ber_[0-9a-f]{6}"),
        (OPENAI, "", r"__[0-9a-f]{6}"),
        (CLAUDE, "x" * 128, "x" * 128),
        (CLAUDE, "mcp.files/read", r"mcp_files_read_[0-9a-f]{6}"),
        (GEMINI, "a.b:c-d", r"a\.b:c-d"),
        (GEMINI, "9lives", r"_9lives_[0-9a-f]{6}"),
        (resolve("ollama"), "any name at all. " * 9, re.escape("any name at all. " * 9)),
    ],
)
def test_names_stay_where_they_are_legal_and_are_mapped_where_not(profile: Profile, name: str, wire: str) -> None:
    writer = Writer(profile)
    sent = writer.tool_name(name)
    assert re.fullmatch(wire, sent)
    assert re.fullmatch(profile.limits.name, sent)
    assert writer.names == {sent: ("", name)}
    assert [done.what for done in writer.repairs] == ([] if sent == name else [f"tool name {name!r}"])
    assert writer.tool_name(name) == sent
    assert len(writer.names) == 1


def test_mapped_names_do_not_depend_on_the_order_of_tools() -> None:
    names = ["a.b", "a/b", "a_b", "x" * 70 + ".1", "x" * 70 + ".2"]
    forward, backward = Writer(OPENAI), Writer(OPENAI)
    assert {name: forward.tool_name(name) for name in names} == {name: backward.tool_name(name) for name in reversed(names)}
    assert len(forward.names) == 5


def test_namespace_becomes_a_prefix_where_there_are_none() -> None:
    writer = Writer(OPENAI)
    assert writer.tool_name("get", "crm") == "crm__get"
    assert writer.names == {"crm__get": ("crm", "get")}


def test_names_that_would_collide_are_kept_apart() -> None:
    writer = Writer(OPENAI)
    sent = [writer.tool_name("get", "crm"), writer.tool_name("crm__get"), writer.tool_name("b__c", "a"), writer.tool_name("c", "a__b")]
    assert len({*sent}) == 4
    assert sent[:1] == ["crm__get"]
    assert [writer.names[name] for name in sent] == [("crm", "get"), ("", "crm__get"), ("a", "b__c"), ("a__b", "c")]


def test_one_name_may_stand_in_two_native_namespaces() -> None:
    writer = Writer(resolve("openai-responses", "gpt-5"))
    assert [writer.tool_name("get", space) for space in ("", "crm", "erp")] == ["get", "get", "get"]
    assert writer.names == {"get": ("", "get"), "crm.get": ("crm", "get"), "erp.get": ("erp", "get")}


def test_tools_have_the_first_choice_of_names() -> None:
    writer = Writer(OPENAI)
    writer.claim([ToolDefinition("crm__get"), ToolDefinition("web", kind="hosted", wire="openai-chat")])
    assert writer.tool_name("get", "crm") != "crm__get"
    assert writer.names["crm__get"] == ("", "crm__get")
    assert "web" not in writer.names


# ---- ids


@pytest.mark.parametrize(
    ("provider", "id", "kept"),
    [
        ("openai-chat", "call_" + "x" * 59, True),
        ("openai-chat", "call_" + "x" * 60, False),
        ("azure-chat", "c" * 40, True),
        ("azure-chat", "c" * 41, False),
        ("copilot", "c" * 41, False),
        ("openrouter", "c" * 41, False),
        ("anthropic", "toolu_01-A", True),
        ("anthropic", "c" * 200, True),
        ("anthropic", "functions.get:0", False),
        ("anthropic", "a|b", False),
        ("mistral", "aB3dE6gH9", True),
        ("mistral", "call_1", False),
        ("mistral", "aB3dE6gH90", False),
        ("ollama", "any id | at all", True),
    ],
)
def test_ids_stay_where_they_are_legal(provider: str, id: str, kept: bool) -> None:
    profile = resolve(provider)
    writer = Writer(profile)
    sent = writer.call_id(id)
    assert (sent == id) == kept
    assert re.fullmatch(profile.limits.call_id, sent)
    assert writer.call_id(id) == sent
    assert len(writer.repairs) == (not kept)


def test_mistral_ids_are_nine_letters_and_digits() -> None:
    writer = Writer(resolve("mistral"))
    sent = [writer.call_id(f"call_{n}") for n in range(50)]
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in sent)
    assert len({*sent}) == 50


def test_mapped_id_gives_way_to_nobody() -> None:
    """An id that happens to be what another was mapped to gets one of its own."""
    first = Writer(resolve("mistral")).call_id("call_1")
    writer = Writer(resolve("mistral"))
    assert writer.call_id("call_1") == first
    assert writer.call_id(first) != first


# ---- opaque state


@pytest.mark.parametrize(
    ("provider", "model", "origin", "owned"),
    [
        ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5-20250929"), True),
        ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "", "claude-sonnet-4-5"), True),
        ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "anthropic", "claude-opus-4-5"), False),
        ("anthropic", "claude-sonnet-5-5", Origin("anthropic-messages", "anthropic", "claude-sonnet-5"), False),
        ("anthropic", "claude-opus-4-1-20250805", Origin("anthropic-messages", "anthropic", "claude-opus-4-1"), True),
        ("openai-responses", "gpt-5", Origin("openai-responses", "openai-responses", "o3"), True),
        ("azure-responses", "gpt-5", Origin("openai-responses", "openai-responses", "gpt-5"), False),
        ("vertex", "gemini-3-pro", Origin("gemini", "gemini", "gemini-3-pro"), False),
        ("gemini", "gemini-3-pro", Origin("gemini", "gemini", "gemini-2.5-pro"), False),
        ("openrouter", "anthropic/claude-sonnet-4.5", Origin("openai-chat", "openrouter", "claude-sonnet-4.5"), True),
        ("openrouter", "anthropic/claude-sonnet-4.5", Origin("openai-chat", "openrouter", "openai/gpt-5"), False),
        ("openai-chat", "gpt-4o", Origin("ollama-chat"), False),
        ("openai-chat", "gpt-4o", None, False),
    ],
)
def test_who_owns_opaque_state(provider: str, model: str, origin: Origin | None, owned: bool) -> None:
    assert Writer(resolve(provider, model)).owns(origin) is owned


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-5", "gpt-5", True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("anthropic/claude-x", "claude-x", True),
        ("claude-sonnet-5", "claude-sonnet-5-5", False),
        ("gpt-5", "gpt-5-mini", False),
        ("gpt-4", "gpt-4o", False),
        ("gpt-5", "o3", False),
    ],
)
def test_same_model(one: str, other: str, same: bool) -> None:
    """An alias and its dated snapshot are one model; a name that merely starts alike is another."""
    assert same_model(one, other) is same
    assert same_model(other, one) is same


def test_state_of_others_is_dropped_and_said_where_it_told_the_model_something() -> None:
    writer = Writer(OPENAI)
    opaque = {"citations": [1], "signature": "s", "cache_control": {}, "id": "x", "empty": [], "audio": None}
    assert writer.opaque(opaque, Origin("anthropic-messages"), "messages[1]") == {}
    assert writer.losses == [Loss("citations", "messages[1]", "only anthropic-messages understands it")]
    assert writer.opaque({"note": 1}, None, "messages[2]") == {}
    assert "its origin" in writer.losses[-1].why
    assert writer.opaque(None, None, "") == {}
    own = {"name": "Ann"}
    assert writer.opaque(own, Origin("openai-chat", "openai-chat"), "") is own


# ---- options


@pytest.mark.parametrize(
    ("provider", "model", "options", "sent", "lost"),
    [
        ("openai-chat", "gpt-4o", Options(temperature=0.5, top_p=0.9, top_k=4), {"temperature": 0.5, "top_p": 0.9}, ["top_k"]),
        ("openai-chat", "gpt-5", Options(temperature=1, seed=7, stop=("a",)), {"seed": 7, "stop": ["a"]}, ["temperature"]),
        ("openai-chat", "gpt-5-chat-latest", Options(temperature=1), {"temperature": 1}, []),
        ("openai-responses", "gpt-4o", Options(temperature=1, seed=7, stop=("a",)), {"temperature": 1}, ["stop", "seed"]),
        ("anthropic", "claude-sonnet-4-5", Options(temperature=1.5, top_p=0.9), {"temperature": 1.0}, ["temperature", "top_p"]),
        ("anthropic", "claude-sonnet-4-5", Options(top_p=0.9, top_k=4), {"top_p": 0.9, "top_k": 4}, []),
        ("anthropic", "claude-opus-5-5", Options(temperature=1, top_k=4, stop=("a",)), {"stop": ["a"]}, ["temperature", "top_k"]),
        ("anthropic", "claude-3-5-haiku", Options(temperature=0.1, top_p=0.9), {"temperature": 0.1, "top_p": 0.9}, []),
        ("gemini", "gemini-2.5-pro", Options(temperature=2, top_k=4), {"temperature": 2, "top_k": 4}, []),
        ("xai", "grok-4", Options(temperature=0, stop=("a",), presence_penalty=1), {"temperature": 0}, ["stop", "presence_penalty"]),
    ],
)
def test_sampling_is_kept_dropped_or_clamped_by_the_facts(
    provider: str, model: str, options: Options, sent: dict[str, object], lost: list[str]
) -> None:
    writer = Writer(resolve(provider, model))
    assert writer.sampling(options) == sent
    assert losses(writer) == [(name, "options") for name in lost]


@pytest.mark.parametrize(
    ("provider", "model", "asked", "sent"),
    [
        ("openai-chat", "gpt-5", "minimal", "minimal"),
        ("openai-chat", "o3", "minimal", "low"),
        ("openai-chat", "gpt-5", "max", "xhigh"),
        ("openai-chat", "gpt-4o", "high", None),
        ("gemini", "gemini-3-pro-preview", "none", "low"),
        ("anthropic", "claude-opus-4-6", "xhigh", "high"),
        ("anthropic", "claude-opus-5", "xhigh", "xhigh"),
        ("deepseek", "deepseek-v4-pro", "xhigh", "high"),
        ("xai", "grok-4.6", "none", "low"),
        ("xai", "grok-4.3", "none", "none"),
    ],
)
def test_effort_moves_to_the_nearest_level(provider: str, model: str, asked: str, sent: str | None) -> None:
    writer = Writer(resolve(provider, model))
    assert writer.effort(Options(effort=asked)) == sent  # pyright: ignore[reportArgumentType]
    assert losses(writer) == ([] if sent == asked else [("effort", "options")])


def test_no_effort_is_no_effort() -> None:
    writer = Writer(OPENAI)
    assert writer.effort(Options()) is None
    assert writer.losses == []


def test_effort_that_nobody_knows_is_a_loss() -> None:
    """A provider's body may name a level that does not exist yet."""
    writer = Writer(resolve("openai-chat", "gpt-5"))
    assert writer.effort(Options(effort="ultra")) in (None, "xhigh")  # pyright: ignore[reportArgumentType]
    assert losses(writer) == [("effort", "options")]


def test_extras_go_to_their_wire_or_family_and_are_losses_elsewhere() -> None:
    writer = Writer(OPENAI)
    extras = {"openai-chat": {"logit_bias": {}}, "openai": {"user": "u"}, "gemini": {"cachedContent": "c", "labels": None}}
    assert writer.extras(Request("m", [], extras=extras), "openai") == {"logit_bias": {}, "user": "u"}
    assert losses(writer) == [("cachedContent", "request")]


# ---- tools


def test_function_tells_examples_in_its_description() -> None:
    tool = ToolDefinition("get", "Gets.", SCHEMA, examples=(ToolExample({"x": "a"}), ToolExample({"x": "b"}, description="B")))
    function = Writer(OPENAI).function(tool)
    assert function.description == 'Gets.\nExample: {"x":"a"}\nExample (B): {"x":"b"}'
    assert (function.name, function.schema, function.strict, function.own) == ("get", SCHEMA, False, {})


def test_what_a_schema_has_no_place_for_is_told_in_the_description() -> None:
    """Ollama keeps no description of the root: `Lowered.note` goes where the model reads it."""
    schema = {**SCHEMA, "description": "Only for grown-ups."}
    function = Writer(resolve("ollama", "qwen3")).function(ToolDefinition("get", "Gets.", schema))
    assert "description" not in function.schema
    assert function.description == "Gets.\nOnly for grown-ups."


def test_freeform_tool_becomes_a_function_with_one_text() -> None:
    writer = Writer(CLAUDE)
    tool = ToolDefinition("sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: X"})
    function = writer.function(tool)
    assert function.description.startswith("Runs.\nThe input must follow this grammar: {")
    assert (list(function.schema["properties"]), function.schema["required"]) == (["input"], ["input"])
    assert losses(writer) == [("freeform", "tool 'sql'")]


@pytest.mark.parametrize(("provider", "strict", "lost"), [("openai-chat", True, 0), ("anthropic", True, 0), ("groq", False, 1)])
def test_strict_is_said_where_there_is_a_strict_mode(provider: str, strict: bool, lost: int) -> None:
    writer = Writer(resolve(provider))
    function = writer.function(ToolDefinition("get", "", SCHEMA, strict=True))
    assert function.strict is strict
    assert losses(writer) == [("strict", "tool 'get'")] * lost
    assert writer.lowered["get"].schema == function.schema


def test_more_strict_tools_than_a_request_may_have_are_sent_loose() -> None:
    """Recorded 400: the maximum number of strict tools is 20."""
    tools = [ToolDefinition(f"t{n}", "", SCHEMA, strict=True) for n in range(21)]
    writer = Writer(CLAUDE)
    writer.claim(tools)
    strict = [writer.function(tool).strict for tool in tools]
    assert strict.count(True) == 20
    assert [loss.what for loss in writer.losses] == ["strict"]


def test_tool_with_a_broken_schema_does_not_cost_the_request() -> None:
    writer = Writer(OPENAI)
    good, bad = ToolDefinition("good", "", SCHEMA), ToolDefinition("bad", "", [1], strict=True)  # pyright: ignore[reportArgumentType]
    request = Request("m", [], (bad, good))
    writer.claim(request.tools)
    assert writer.offered(request) == ([good], None)
    assert losses(writer) == [("tool 'bad'", "tools")]


def test_hosted_tool_goes_to_its_wire_only() -> None:
    search = ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    assert Writer(GEMINI).hosted(search) == {"googleSearch": {}}
    writer = Writer(CLAUDE)
    assert writer.offered(Request("m", [], (search,))) == ([], None)
    assert losses(writer) == [("hosted tool 'googleSearch'", "tools")]


def test_of_two_tools_of_one_name_the_first_counts() -> None:
    writer, one = Writer(OPENAI), ToolDefinition("get", "One.", SCHEMA)
    tools, _ = writer.offered(Request("m", [], (one, one, replace(one, description="Two."), replace(one, namespace="crm"))))
    assert [(tool.namespace, tool.description) for tool in tools] == [("", "One."), ("crm", "One.")]
    assert losses(writer) == [("tool 'get'", "tools")]


def test_more_tools_than_the_target_takes_are_left_out_and_said() -> None:
    writer = Writer(OPENAI)
    tools, _ = writer.offered(Request("m", [], tuple(ToolDefinition(f"t{n}", "", SCHEMA) for n in range(130))))
    assert [tool.name for tool in tools] == [f"t{n}" for n in range(128)]
    assert losses(writer) == [("tool 't128'", "tools"), ("tool 't129'", "tools")]
    assert "t128, t129" in writer.nudges[0]


def test_choice_without_tools_or_of_unknown_tools_is_a_loss() -> None:
    writer, one = Writer(OPENAI), ToolDefinition("get", "", SCHEMA)
    assert writer.offered(Request("m", [], (), ToolChoice("required"))) == ([], None)
    assert writer.offered(Request("m", [], (), ToolChoice("none"))) == ([], None)
    assert writer.offered(Request("m", [], (one,), ToolChoice("required", ("nobody",)))) == ([one], None)
    assert losses(writer) == [("tool_choice", "tool_choice")] * 2


def test_model_is_asked_where_it_cannot_be_forced() -> None:
    profile = resolve("anthropic", "claude-sonnet-5-5")
    few = tuple(ToolDefinition(name, "", SCHEMA) for name in ("one", "t.wo"))
    writer = Writer(profile)
    assert writer.offered(Request("m", [], few, ToolChoice("required"))) == (list(few), None)
    assert writer.nudges == [f"Answer with a call to one or {writer.tool_name('t.wo')}."]
    writer = Writer(profile)
    many = tuple(ToolDefinition(f"t{n}", "", SCHEMA) for n in range(4))
    writer.offered(Request("m", [], many, ToolChoice("required")))
    assert writer.nudges == ["Answer with a call to a tool."]


# ---- calls, results, media


def test_arguments_as_an_object() -> None:
    writer = Writer(CLAUDE)
    assert writer.arguments_object(ToolCall("a", "get", {"x": 1}, '{"x": 1}'), "") == {"x": 1}
    assert writer.arguments_object(ToolCall("a", "sql", None, "select 1", freeform=True), "") == {"input": "select 1"}
    assert writer.arguments_object(ToolCall("a", "sql", None, None, freeform=True), "") == {"input": ""}
    assert writer.repairs == []
    assert writer.arguments_object(ToolCall("a", "get", None, '{"x": "tru'), "messages[1]") == {"invalid_arguments": '{"x": "tru'}
    assert [(done.what, done.where) for done in writer.repairs] == [("arguments of 'get'", "messages[1]")]


def test_results_are_named_by_their_call() -> None:
    writer = Writer(OPENAI)
    writer.calls["a"] = ToolCall("a", "get", {}, namespace="crm")
    assert writer.result_name(ToolResult("a", name="other")) == "crm__get"
    assert writer.result_name(ToolResult("b", name="other")) == "other"
    assert writer.result_name(ToolResult("b")) == ""


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("a", (Text("1"), Text("2"))), "12"),
        (ToolResult("a", (Text("boom"),), is_error=True), "Error: boom"),
        (ToolResult("a", (Text("ERROR: boom"),), is_error=True), "ERROR: boom"),
        (ToolResult("a", (Text('{"error": 1}'),), is_error=True), '{"error": 1}'),
        (ToolResult("a", (), is_error=True), "Error: "),
    ],
)
def test_result_as_text(result: ToolResult, text: str) -> None:
    assert result_text(result) == text


def test_media_beside_a_result_say_whose_they_are() -> None:
    image = Media("image", url="http://x")
    assert media_beside(ToolResult("a", (Text("1"), image), "get")) == [Text("[media of the result of get]"), image]
    assert media_beside(ToolResult("a", (image,))) == [Text("[media of the result of a]"), image]
    assert media_beside(ToolResult("a", (Text("1"),))) == []


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (Media("image", "image/png", "AAAA", name="cat.png"), "[image not shown: cat.png]"),
        (Media("video", url="http://x/y"), "[video not shown: http://x/y]"),
        (Media("audio", "audio/wav", "AAAA"), "[audio not shown: audio/wav]"),
        (Media("file", file_id="f"), "[file not shown: file]"),
        (Media("image", url="u" * 300), f"[image not shown: {'u' * 200}]"),
    ],
)
def test_placeholder(media: Media, text: str) -> None:
    assert placeholder(media) == Text(text)


def test_copied_writer_goes_on_alone() -> None:
    writer = Writer(resolve("mistral"), "m")
    writer.call_id("call_1")
    other = writer.copy()
    assert (other.model, other.call_id("call_1")) == ("m", writer.call_id("call_1"))
    other.tool_name("a.b")
    other.lose("x", "y", "z")
    assert (writer.names, writer.losses, len(writer.repairs)) == ({}, [], 1)
