"""What is the same for all wires and every profile of the catalog."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.errors import LossyEncoding, MalformedRequest, UnknownName
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import create_reader, decode_request, encode_request
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.spec import SPECS, WIRES

Doc = dict[str, Any]
SCHEMA: Doc = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GET, PUT, CUT = (ToolDefinition(name, f"{name}s.", SCHEMA) for name in ("get", "put", "cut"))
HI = [user("hi")]
WIRE_PROFILES = [spec.default_profile for spec in SPECS.values()]


def tool_names_of(profile: Profile, body: Doc) -> list[str]:
    """The names of the tools in a body."""
    tools: list[Doc] = body.get("tools", [])
    match profile.wire:
        case "gemini":
            return [declared["name"] for tool in tools for declared in tool["functionDeclarations"]]
        case "openai-responses" | "anthropic-messages":
            return [tool["name"] for tool in tools]
        case _:
            return [tool["function"]["name"] for tool in tools]


def choice_of(profile: Profile, body: Doc) -> Any:
    """The choice of a body in neutral words: (mode, names)."""
    match profile.wire:
        case "gemini":
            config = body.get("toolConfig", {}).get("functionCallingConfig")
            modes = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
            return config and (modes[config["mode"]], tuple(config.get("allowedFunctionNames", ())))
        case "anthropic-messages":
            choice = body.get("tool_choice")
            modes = {"auto": ("auto", ()), "any": ("required", ()), "none": ("none", ())}
            return choice and modes.get(choice["type"], ("required", (choice.get("name"),)))
        case wire:
            choice = body.get("tool_choice")
            if choice is None or isinstance(choice, str):
                return choice and (choice, ())
            several: Doc = choice if wire == "openai-responses" else choice.get("allowed_tools", {})
            named: list[Doc] = several["tools"] if choice["type"] == "allowed_tools" else [choice]
            names = tuple(
                tool["name"] if wire == "openai-responses" else tool["function"]["name"] for tool in named
            )
            return several.get("mode", "required"), names


# What each profile can say of (required, none, one of three, two of three); the rest is emulated.
CANNOT: dict[str, set[str]] = {
    "anthropic": {"subset"},
    "ollama": {"none", "required", "named", "subset"},
    "deepseek": {"required", "named", "subset"},
    "mistral": {"none", "subset"},
    "gemini": set(),
    "vertex": set(),
    "openai-chat": set(),
    "openai-responses": set(),
}
CHOICES = {
    "auto": ToolChoice("auto"),
    "none": ToolChoice("none"),
    "required": ToolChoice("required"),
    "named": ToolChoice("required", ("put",)),
    "subset": ToolChoice("auto", ("get", "put")),
}


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("provider", PROFILES)
def test_every_choice_on_every_profile(provider: str, kind: str) -> None:
    """A choice is said in the target's words, or emulated: tools left out, the model told, and a Loss."""
    profile, choice = resolve_profile(provider, "some-model"), CHOICES[kind]
    encoded = encode_request(Request("some-model", HI, (GET, PUT, CUT), choice), profile)
    names, choice_sent = tool_names_of(profile, encoded.body), choice_of(profile, encoded.body)
    if kind not in CANNOT.get(provider, {"subset"}):
        assert names == ["get", "put", "cut"]
        assert choice_sent in ((choice.mode, choice.names), *([None] if kind == "auto" else []))
        assert encoded.losses == ()
        return
    assert (
        names
        == {"none": [], "required": ["get", "put", "cut"], "named": ["put"], "subset": ["get", "put"]}[kind]
    )
    assert choice_sent in (None, ("auto", ()))
    left_out = {"none": ["get", "put", "cut"], "required": [], "named": ["get", "cut"], "subset": ["cut"]}[
        kind
    ]
    assert [loss.subject for loss in encoded.losses if loss.where == "tools"] == [
        f"tool {name!r}" for name in left_out
    ]
    assert ("tool_choice" in [loss.subject for loss in encoded.losses]) is (choice.mode == "required")
    words = str({key: value for key, value in encoded.body.items() if key != "tools"})
    assert all(name in words for name in left_out)
    if choice.mode == "required":
        assert "Answer with a call to" in words


@pytest.mark.parametrize("provider", PROFILES)
def test_one_call_at_a_time_on_every_profile(provider: str) -> None:
    profile = resolve_profile(provider, "some-model")
    encoded = encode_request(Request("some-model", HI, (GET,), parallel=False), profile)
    lost = [loss.subject for loss in encoded.losses]
    if provider in ("gemini", "vertex", "ollama", "deepseek"):
        assert lost == ["parallel"]
    elif provider == "anthropic":
        assert encoded.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    else:
        assert (encoded.body["parallel_tool_calls"], lost) == (False, [])


@pytest.mark.parametrize("provider", PROFILES)
def test_parallel_calls_are_the_default_everywhere(provider: str) -> None:
    encoded = encode_request(
        Request("some-model", HI, (GET,), parallel=True), resolve_profile(provider, "some-model")
    )
    assert encoded.losses == ()
    assert encoded.body.get("parallel_tool_calls", True) is True
    assert "disable" not in str(encoded.body)


@pytest.mark.parametrize("provider", PROFILES)
def test_structured_output_on_every_profile(provider: str) -> None:
    encoded = encode_request(
        Request("some-model", HI, output=Output(SCHEMA)), resolve_profile(provider, "some-model")
    )
    closed = {**SCHEMA, "additionalProperties": False}
    match PROFILES[provider].wire:
        case "gemini":
            assert encoded.body["generationConfig"]["responseJsonSchema"] == SCHEMA
        case "anthropic-messages":
            assert encoded.body["output_config"]["format"]["schema"] == closed
        case "ollama-chat":
            assert encoded.body["format"] == SCHEMA
        case "openai-responses":
            assert encoded.body["text"]["format"]["schema"] == SCHEMA
        case _ if provider == "deepseek":
            assert encoded.body["response_format"] == {"type": "json_object"}
        case _:
            assert encoded.body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert [loss.subject for loss in encoded.losses] == (["output schema"] if provider == "deepseek" else [])


@pytest.mark.parametrize(("provider", "field"), [
    ("openai-chat", "max_completion_tokens"),
    ("azure-chat", "max_completion_tokens"),
    ("copilot", "max_completion_tokens"),
    ("groq", "max_completion_tokens"),
    ("xai", "max_tokens"),
    ("deepseek", "max_tokens"),
    ("mistral", "max_tokens"),
    ("openrouter", "max_tokens"),
    ("compatible", "max_tokens"),
    ("anthropic", "max_tokens"),
    ("openai-responses", "max_output_tokens"),
    ("azure-responses", "max_output_tokens"),
])  # fmt: skip
def test_field_of_the_most_tokens(provider: str, field: str) -> None:
    encoded = encode_request(Request("m", HI, options=Options(max_tokens=99)), resolve_profile(provider, "m"))
    assert {key: value for key, value in encoded.body.items() if "max" in key} == {field: 99}
    assert encoded.losses == ()


@pytest.mark.parametrize("provider", PROFILES)
def test_extras_go_to_their_own_wire_verbatim_and_are_losses_elsewhere(provider: str) -> None:
    profile = resolve_profile(provider, "some-model")
    extras = {wire: {f"x_{number}": {"deep": [number]}} for number, wire in enumerate(WIRES)}
    encoded = encode_request(Request("some-model", HI, extras=extras), profile)
    position = WIRES.index(profile.wire)
    assert encoded.body[f"x_{position}"] == {"deep": [position]}
    assert sorted(loss.subject for loss in encoded.losses) == [
        f"x_{n}" for n in range(len(WIRES)) if n != position
    ]
    assert not any(f"x_{n}" in encoded.body for n in range(len(WIRES)) if n != position)


@pytest.mark.parametrize("provider", PROFILES)
def test_strict_turns_a_loss_into_an_error(provider: str) -> None:
    profile = resolve_profile(provider, "some-model")
    lossy = Request("some-model", [*HI, assistant([Thinking("hm"), "x"]), *HI])
    with pytest.raises(LossyEncoding) as caught:
        encode_request(lossy, profile, strict=True)
    assert [loss.subject for loss in caught.value.losses] == ["thinking"]
    assert "thinking" in str(caught.value)
    assert encode_request(Request("some-model", HI), profile, strict=True).losses == ()


@pytest.mark.parametrize("provider", PROFILES)
def test_nothing_that_was_given_is_changed(provider: str) -> None:
    mark: Doc = {"more": {"deep": [1]}}
    request = Request(
        "some-model",
        [
            system(Text("s", {**mark})),
            user(["hi", Media("image", "image/png", "AA", opaque={**mark})]),
            assistant(ToolCall("a", "get", {"x": "1"}, opaque={**mark})),
            tool(ToolResult("a", (Text("1"),), data={"d": [1]}, opaque={**mark})),
        ],
        (
            GET,
            ToolDefinition("sql", kind="freeform", grammar={"syntax": "lark", "definition": "x"}),
            ToolDefinition(
                "h",
                kind="hosted",
                wire=PROFILES[provider].wire,
                opaque={"type": "h", "functionDeclarations": []},
            ),
        ),
        ToolChoice("required", ("get",)),
        False,
        Options(9000, 0.5, stop=("a",), effort="high", thinking_budget=2000),
        Output(copy.deepcopy(SCHEMA), strict=True),
        extras={
            "openai": {"user": "u"},
            "openai-responses": {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}},
            "anthropic-messages": {"output_config": {"a": 1}},
            "gemini": {"generationConfig": {"thinkingConfig": {"a": 1}}, "toolConfig": {"a": 1}},
            "ollama-chat": {"options": {"num_ctx": 1}},
        },
    )
    before = copy.deepcopy(request)
    encode_request(request, resolve_profile(provider, "some-model"))
    assert request == before


@pytest.mark.parametrize(
    "messages",
    [[system("s")], [user("")], [assistant([])]],
    ids=["instructions", "empty user", "empty answer"],
)
@pytest.mark.parametrize("provider", [provider for provider in PROFILES if provider != "ollama"])
def test_conversation_without_a_turn_can_still_be_sent(provider: str, messages: list[Message]) -> None:
    """All but Ollama (which loads the model then) refuse a request without a message."""
    body = encode_request(Request("some-model", messages), resolve_profile(provider, "some-model")).body
    assert body[list(body)[-1]] != []


@pytest.mark.parametrize("provider", PROFILES)
def test_pictures_of_a_result_reach_the_model_or_are_a_loss(provider: str) -> None:
    messages = [
        user("hi"),
        assistant(ToolCall("a", "shot", {})),
        tool(ToolResult("a", (Text("ok"), Media("image", "image/png", "QUJDRA==")))),
    ]
    encoded = encode_request(Request("some-model", messages), resolve_profile(provider, "some-model"))
    assert ("QUJDRA==" in str(encoded.body)) is (provider != "deepseek")
    assert [loss.subject for loss in encoded.losses] == (["image"] if provider == "deepseek" else [])


@pytest.mark.parametrize("provider", PROFILES)
def test_errors_of_tools_are_sent(provider: str) -> None:
    messages = [
        user("hi"),
        assistant(ToolCall("a", "get", {})),
        tool(ToolResult("a", (Text("boom"),), is_error=True)),
    ]
    body = encode_request(Request("some-model", messages), resolve_profile(provider, "some-model")).body
    expected = {"gemini": "{'error': 'boom'}", "anthropic-messages": "'is_error': True"}.get(
        PROFILES[provider].wire, "Error: boom"
    )
    assert expected in str(body)


@pytest.mark.parametrize("wire", WIRES)
def test_unknown_blocks_of_a_saved_conversation_are_a_loss(wire: str) -> None:
    """A newer version's block loads as Foreign of `toolglot`: no wire understands it."""
    encoded = encode_request(
        Request("m", [user(["hi", Foreign("toolglot", {"type": "hologram"})])]),
        resolve_profile(SPECS[wire].default_profile, "m"),
    )
    assert [loss.subject for loss in encoded.losses] == ["hologram"]
    assert "hologram" not in str(encoded.body)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("body", [[], "x", None, 3, True])
def test_body_that_is_no_object_is_malformed(wire: str, body: Any) -> None:
    with pytest.raises(MalformedRequest, match="object"):
        decode_request(wire, body)


@pytest.mark.parametrize("wire", WIRES)
def test_reader_of_a_wire_waits_for_its_first_byte(wire: str) -> None:
    read = create_reader(wire, streaming=False, profile="p", model="m")
    assert read.feed(b"") == []
    assert read.is_complete is False


@pytest.mark.parametrize("wire", WIRES)
def test_empty_body_is_an_empty_request(wire: str) -> None:
    request = decode_request(wire, {})
    assert (request.model, list(request.messages), request.tools, request.options) == ("", [], (), Options())


def test_unknown_wire_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'openai-chat'"):
        decode_request("openai-chats", {})
    with pytest.raises(UnknownName, match="'gemini'"):
        create_reader("gemni")


def test_unknown_profile_of_a_body() -> None:
    with pytest.raises(UnknownName, match="provider"):
        decode_request("openai-chat", {}, profile="nobody")


@pytest.mark.parametrize("provider", WIRE_PROFILES)
def test_origin_of_what_is_read(provider: str) -> None:
    wire = PROFILES[provider].wire
    body = encode_request(Request("m", [user("hi")]), resolve_profile(provider, "m")).body
    (message,) = decode_request(wire, body, profile=provider, model="m").messages
    assert message.origin is not None
    assert (message.origin.wire, message.origin.profile, message.origin.model) == (wire, provider, "m")


@pytest.mark.parametrize("provider", WIRE_PROFILES)
def test_a_request_without_a_model_is_for_that_of_its_profile(provider: str) -> None:
    profile, request = resolve_profile(provider, "the-model"), Request(messages=HI, tools=(GET,))
    named = replace(request, model="the-model")
    assert encode_request(request, profile).body == encode_request(named, profile).body
    assert PrefixEncoder(profile).encode(request).body == PrefixEncoder(profile).encode(named).body
