"""Bug reports from the field, each by the name of its thread: they must not happen with us.

Every history is sent to every target of its case; the body must be valid there and contain what the user
needed."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.properties.legality import find_refusals, illegal
from tests.simulator.client import pick_model

from toolglot.common.jsontext import dumps_text
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.repair import make_interrupted_result
from toolglot.wire.writer import EncodedRequest

pytestmark = pytest.mark.untraced

EVERYONE = tuple(PROFILES)
CLAUDE = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")
OPUS = Origin("anthropic-messages", "anthropic", "claude-opus-4-1")
GEMINI = Origin("gemini", "gemini", "gemini-3-pro-preview")
GPT = Origin("openai-responses", "openai-responses", "gpt-5.1")
DEEPSEEK = Origin("openai-chat", "deepseek", "deepseek-v4-flash")
SIGNED = Thinking("SECRET-thought", {"signature": "SECRET-signature"})
CALL = ToolCall("call_1", "get", {"x": "1"})
OK = ToolResult("call_1", (Text("one"),), "get")
HI, ON = user("hi"), user("go on")
PNG = Media("image", "image/png", "iVBORw0KGgo=")


def encode(
    provider: str, messages: list[Message], tools: tuple[ToolDefinition, ...] = ()
) -> tuple[Profile, EncodedRequest]:
    profile = resolve_profile(provider, pick_model(provider))
    return profile, encode_request(Request(profile.model, messages, tools), profile)


def legal(provider: str, messages: list[Message], tools: tuple[ToolDefinition, ...] = ()) -> str:
    """The body as text, when the provider would take it."""
    profile, encoded = encode(provider, messages, tools)
    assert illegal(profile, encoded.body) == []
    assert find_refusals(profile, encoded.body) == []
    return dumps_text(encoded.body)


def reply_of(origin: Origin | None, *blocks: Any) -> Message:
    return Message("assistant", blocks, origin)


def all_of(*words: str) -> Callable[[str], bool]:
    return lambda body: all(word in body for word in words)


def none_of(*words: str) -> Callable[[str], bool]:
    return lambda body: not any(word in body for word in words)


Case = tuple[str, list[Message], tuple[str, ...], Callable[[str], bool]]

# ---- B. a conversation can never become unusable
# fmt: off
BROKEN: list[Case] = [
    ("anthropics/claude-code#1237", [HI, assistant(CALL), ON], EVERYONE, all_of("go on", "may or may not have run")),
    ("anthropics/claude-code#6521", [HI, assistant([CALL, ToolCall("call_2", "get", {})]), tool(OK)], EVERYONE, all_of("one")),
    ("strands-agents/harness-sdk#1610", [HI, assistant(CALL), ON, assistant("x"), ON], EVERYONE, all_of("go on")),
    ("strands-agents/harness-sdk#1123", [HI, assistant(CALL), tool(OK, OK)], EVERYONE, all_of("one")),
    ("langgenius/dify#41846", [HI, assistant(CALL), user("new prompt")], EVERYONE, all_of("new prompt")),
    ("tidyverse/ellmer#459", [HI, assistant(CALL), tool(make_interrupted_result(CALL)), ON], EVERYONE,
        all_of("interrupted while it ran")),
    ("NousResearch/hermes-agent#76460",
        [HI, assistant([CALL, ToolCall("call_2", "get", {}), ToolCall("call_3", "get", {})]), tool(OK), ON], EVERYONE,
        all_of("one", "go on")),
    ("langchain-ai/deepagents#6321", [HI, assistant(CALL), assistant(CALL), tool(OK)], EVERYONE, all_of("one")),
    ("docker/docker-agent#1676", [tool(OK), HI], EVERYONE, all_of("one", "hi")),
    ("QwenLM/qwen-code#9573", [HI, assistant(CALL), ON, tool(OK)], EVERYONE, all_of("one", "go on")),
    ("vercel/ai#4584", [HI, assistant(["thinking aloud", CALL])], EVERYONE, all_of("thinking aloud")),
    ("langchain-ai/langgraph-swarm-py#53", [HI, assistant([ToolCall("t", "transfer_to_bob", {}), CALL]), tool(OK), ON],
        EVERYONE, all_of("transfer_to_bob")),
    ("LibreChat-AI/agents#366", [HI, assistant(ToolCall("call_1", "get", None, '{"x": "cut')), tool(OK)], EVERYONE,
        all_of("cut", "one")),
    ("openai/openai-agents-python#2426", [HI, assistant(CALL), tool(OK), assistant("done"), ON], EVERYONE,
        all_of("get", "one", "done")),
    ("Kilo-Org/kilocode#5163", [HI, assistant([CALL, "said after"]), ON, tool(OK)], EVERYONE, all_of("said after", "one")),
]
# fmt: on

# ---- C. carry opaque provider state for me
# fmt: off
STATE: list[Case] = [
    ("langgenius/dify-official-plugins#2088", [HI, assistant(CALL), tool(OK)], ("gemini", "vertex"),
        all_of('"thoughtSignature"')),
    ("lbjlaq/Antigravity-Manager#733",
        [HI, reply_of(GEMINI, ToolCall("call_1", "get", {}, opaque={"thoughtSignature": "cmVhbA=="})), tool(OK)], ("gemini",),
        all_of("cmVhbA==")),
    (
        "openai/openai-python#3008",
        [
            HI,
            reply_of(
                GPT,
                Thinking("", {"id": "rs_1", "summary": [], "encrypted_content": "cipher"}),
                ToolCall("call_1", "get", {}, opaque={"id": "fc_1"}),
            ),
            tool(OK),
        ],
        ("openai-responses",),
        all_of('"rs_1"', '"fc_1"', "cipher", '"summary":[]'),
    ),
    ("openai/openai-agents-python#1611", [HI, reply_of(GPT, Thinking("", {"id": "rs_1", "summary": []})), ON],
        ("openai-responses",), none_of("rs_1")),
    ("openai/openai-agents-python#678", [HI, reply_of(CLAUDE, SIGNED, CALL), tool(OK)], ("anthropic",),
        all_of("SECRET-thought", "SECRET-signature")),
    ("earendil-works/pi#3636", [HI, reply_of(DEEPSEEK, Thinking("why", {"field": "reasoning_content"}), CALL), tool(OK)],
        ("deepseek",), all_of('"reasoning_content":"why"')),
    ("langchain-ai/langchain#34166", [HI, assistant(CALL), tool(OK)], ("deepseek",), all_of('"reasoning_content":""')),
    ("andrewyng/aisuite#369", [HI, reply_of(DEEPSEEK, Thinking("why", {"field": "reasoning_content"}), CALL), tool(OK)],
        ("groq", "ollama", "openai-chat"), none_of("why", "reasoning_content")),
]
# fmt: on

# ---- D. switch, and just keep talking
MIXED = [
    HI,
    reply_of(CLAUDE, SIGNED, Text("a"), CALL),
    tool(OK),
    reply_of(GEMINI, Text("b", {"thoughtSignature": "SECRETsg"})),
    reply_of(GPT, Thinking("SECRET", {"id": "rs_SECRET"}), Text("c", {"id": "msg_SECRET"})),
    ON,
]
# fmt: off
SWITCH: list[Case] = [
    ("decolua/9router#4136", [HI, reply_of(CLAUDE, SIGNED, CALL), tool(OK), ON], ("gemini", "vertex"), none_of("SECRET")),
    ("CommonstackAI/UncommonRoute#19", [HI, reply_of(OPUS, SIGNED, CALL), tool(OK), ON], ("anthropic",), none_of("SECRET")),
    ("RooCodeInc/Roo-Code#10461",
        [HI, reply_of(GEMINI, ToolCall("call_1", "get", {}, opaque={"thoughtSignature": "U0VDUkVU"})), tool(OK)],
        ("anthropic", "openai-chat"), none_of("U0VDUkVU", "thoughtSignature")),
    ("anomalyco/opencode#11571", [HI, reply_of(DEEPSEEK, Thinking("SECRET", {"field": "reasoning_content"}), Text("x")), ON],
        ("openai-chat", "mistral", "groq"), none_of("SECRET", "reasoning")),
    ("suitenumerique/conversations#402", [HI, reply_of(CLAUDE, SIGNED), ON], ("mistral",), none_of("SECRET")),
    ("farion1231/cc-switch#1181",
        [HI, assistant(ToolCall("functions.get:0|x", "get", {})), tool(ToolResult("functions.get:0|x", (Text("one"),)))],
        ("anthropic",), none_of("functions.get:0")),
    ("earendil-works/pi#9048", MIXED,
        tuple(provider for provider in EVERYONE if provider not in ("anthropic", "gemini", "openai-responses")),
        none_of("SECRET", 'thoughtSignature":"SECRETsg')),
    ("openai/openai-agents-python#684", MIXED, EVERYONE, all_of("hi", "one", "go on")),
]
# fmt: on

# ---- F. malformed, empty, truncated arguments
# fmt: off
ARGUMENTS: list[Case] = [
    ("vllm-project/vllm#19419", [HI, assistant(ToolCall("call_1", "get", {}, "")), tool(OK)], EVERYONE,
        none_of('"arguments":""', "invalid_arguments")),
    ("langchain-ai/langchain#34123", [HI, assistant(ToolCall("call_1", "get", {})), tool(OK)], EVERYONE,
        none_of("null}", "invalid_arguments")),
    (
        "ahwurm/localharness#77",
        [
            HI,
            assistant(ToolCall("call_1", "write", None, '{"text": "# README\\nhalf')),
            tool(ToolResult("call_1", (Text("cut off"),), is_error=True, error_kind="truncated")),
        ],
        EVERYONE,
        all_of("half", "cut off"),
    ),
    ("BerriAI/litellm#24095", [HI, assistant(CALL), tool(OK)], ("ollama",), all_of('"arguments":{"x":"1"}')),
]
# fmt: on

# ---- I. content: null, "" or absent
CONTENT: list[Case] = [
    (
        "vercel/ai#12389",
        [HI, assistant(CALL), tool(OK)],
        ("compatible", "mistral", "deepseek"),
        none_of('"content":null'),
    ),
    (
        "vercel/ai#14950",
        [HI, assistant(CALL), tool(OK)],
        ("openai-chat", "azure-chat"),
        all_of('"content":null'),
    ),
    ("vercel/ai#13466", [HI, assistant(""), ON], EVERYONE, none_of('"content":null')),
    ("sigoden/aichat#1326", [HI, assistant(CALL), tool(OK)], ("ollama",), all_of('"content":""')),
]

# ---- J. images and files in tool results
# fmt: off
IMAGES: list[Case] = [
    ("anthropics/claude-ai-mcp#643", [HI, assistant(CALL), tool(ToolResult("call_1", (Text("shot"), PNG)))],
        tuple(p for p in EVERYONE if p != "deepseek"), all_of("iVBORw0KGgo=", "shot")),
    ("openai/codex#4819", [HI, assistant(CALL), tool(ToolResult("call_1", (PNG,))), ON], ("openai-responses",),
        all_of('"input_image"')),
    (
        "danny-avila/LibreChat#6951",
        [
            HI,
            assistant([CALL, ToolCall("call_2", "get", {})]),
            tool(ToolResult("call_1", (PNG,)), ToolResult("call_2", (PNG,))),
            ON,
        ],
        tuple(p for p in EVERYONE if p != "deepseek"),
        all_of("iVBORw0KGgo="),
    ),
    ("langgenius/dify-docs#439",
        [HI, assistant(CALL), tool(ToolResult("call_1", (Media("file", "application/pdf", "JVBERi0xLjQ=", name="a.pdf"),)))],
        ("anthropic", "openai-responses", "openai-chat", "gemini"), all_of("JVBERi0xLjQ=")),
    ("QwenLM/Qwen-Agent#628", [HI, assistant(CALL), tool(ToolResult("call_1", (PNG,)))], ("deepseek",), all_of("not shown")),
]
# fmt: on

CASES = [
    pytest.param(provider, messages, wanted, id=f"{thread}-{provider}")
    for thread, messages, providers, wanted in [*BROKEN, *STATE, *SWITCH, *ARGUMENTS, *CONTENT, *IMAGES]
    for provider in providers
]


@pytest.mark.parametrize(("provider", "messages", "wanted"), CASES)
def test_history_is_sent_as_its_user_needed(
    provider: str, messages: list[Message], wanted: Callable[[str], bool]
) -> None:
    body = legal(provider, messages)
    assert wanted(body), body


@pytest.mark.parametrize("provider", EVERYONE)
def test_an_interruption_is_not_reported_as_a_rejection(provider: str) -> None:
    """anthropics/claude-code#86001."""
    stopped = legal(provider, [HI, assistant(CALL), tool(make_interrupted_result(CALL)), ON])
    refused_ = legal(
        provider, [HI, assistant(CALL), tool(make_interrupted_result(CALL, kind="rejected")), ON]
    )
    assert "interrupted while it ran" in stopped
    assert "did not run" not in stopped
    assert "did not run" in refused_


def test_strip_and_send_really_strips() -> None:
    """NousResearch/hermes-agent#24401: the log said so, the payload still held it.

    What is reported and what is sent agree.
    """
    _, encoded = encode("openai-chat", [HI, reply_of(CLAUDE, SIGNED, Text("x")), ON])
    assert [loss.subject for loss in encoded.losses] == ["thinking"]
    assert "SECRET" not in dumps_text(encoded.body)


def test_claude_to_gemini_and_back_keeps_the_signatures_for_their_own() -> None:
    """lbjlaq/Antigravity-Manager#3202, NoeFabris/opencode-antigravity-auth#70: state waits until its owner is
    asked again.
    """
    assert "SECRET-signature" not in legal("gemini", MIXED)
    assert "SECRET-signature" in legal("anthropic", MIXED)
    assert "SECRETsg" in legal("gemini", MIXED)
    assert "rs_SECRET" in legal("openai-responses", MIXED)


# ---- G. tool names: too long, bad characters, collisions

NAMES = {
    "microsoft/vscode#243602": ("mcp_" + "server_" * 9 + "read", "mcp_" + "server_" * 9 + "write"),
    "github/copilot-cli#1879": ("files.read", "files/read"),
    "ChromeDevTools/chrome-devtools-mcp#1169": ("x" * 128,),
    "google-gemini/gemini-cli#602": ("3d_view", "ünïcode tool"),
    "openai/openai-agents-python#1167": ("search", "a__search", "a.search"),
}


@pytest.mark.parametrize("provider", EVERYONE)
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_tool_names_are_mapped_and_mapped_back(names: tuple[str, ...], provider: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    tools = tuple(ToolDefinition(name, "Does.", schema) for name in names)
    spaced = (*tools, ToolDefinition("search", "Does.", schema, namespace="a"))
    calls = [ToolCall(f"c{n}", name, {}) for n, name in enumerate(names)]
    messages = [HI, assistant(calls), tool(*(ToolResult(call.id, (Text("1"),), call.name) for call in calls))]
    legal(provider, messages, spaced)
    _, encoded = encode(provider, messages, spaced)
    assert {*encoded.names.values()} == {("", name) for name in names} | {("a", "search")}
    _, other = encode(provider, messages, tuple(reversed(tools)))
    _, same = encode(provider, messages, tools)
    assert other.names == same.names


def test_reasoning_of_an_unknown_wire_is_not_sent() -> None:
    """MayDay-wpf/snow-cli#104: content of a wire that does not exist here is a Loss, not a crash."""
    message = msgspec.structs.replace(
        assistant(["x", Foreign("bedrock", {"reasoningContent": {}})]), origin=Origin("bedrock")
    )
    for provider in EVERYONE:
        _, encoded = encode(provider, [HI, message, ON])
        assert [loss.subject for loss in encoded.losses] == ["reasoningContent"]
