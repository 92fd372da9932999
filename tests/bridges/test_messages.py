"""Conversations as lists of messages of providers and frameworks, and back."""

import subprocess
import sys
from importlib import import_module
from typing import Any, cast

import pytest
from anthropic.types import Message as AnthropicMessage
from langchain_core.messages import HumanMessage
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import Response

from toolglot import Conversation, MalformedRequest, Message, Text, Thinking, UnknownName, user
from toolglot.bridges import export_messages, import_messages
from toolglot.bridges.messages import explain_missing, find_truncated_calls, restore_original, store_original
from toolglot.values.messages import Foreign, Reply, ToolCall, assistant

from .kit import ANTHROPIC, WIRES, conversation, summarize

FRAMEWORKS = {
    "langchain": ("langchain_core", "langchain-core"),
    "langchain_messages": ("langchain_core", "langchain-core"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai-slim"),
    "pydantic_ai_messages": ("pydantic_ai", "pydantic-ai-slim"),
    "openai_agents": ("agents", "openai-agents"),
    "smolagents": ("smolagents", "smolagents"),
}


@pytest.mark.parametrize("format", ["anthropic", "openai-responses", "langchain", "pydantic-ai"])
def test_round_trip_keeps_everything_that_is_said(format: str) -> None:
    pytest.importorskip({"langchain": "langchain_core", "pydantic-ai": "pydantic_ai"}.get(format, "toolglot"))
    exported = export_messages(conversation(), format)
    imported = import_messages(exported.messages, format, system=exported.system)
    assert summarize(imported) == summarize(conversation())


@pytest.mark.parametrize("format", ["openai-chat", "ollama", "gemini"])
def test_round_trip_keeps_calls_and_texts_where_results_are_text_only(format: str) -> None:
    exported = export_messages(conversation(), format)
    imported = import_messages(exported.messages, format, system=exported.system)
    assert imported[0].text == "Be brief."
    assert [call.name for message in imported for call in message.calls] == ["add", "fail"]
    assert [result.text.removeprefix("Error: ") for message in imported for result in message.results] == [
        "3",
        "broken",
    ]


@pytest.mark.parametrize("format", WIRES)
def test_what_a_format_cannot_express_is_told(format: str) -> None:
    losses = {loss.subject for loss in export_messages(conversation(), format).losses}
    assert ("thinking" in losses) == (format != "anthropic")


def test_a_model_gets_its_signatures_back() -> None:
    (reply,) = (
        m
        for m in export_messages(conversation(), "anthropic:claude-sonnet-4-5").messages
        if "signature" in str(m)
    )
    assert reply["content"][0] == {"type": "thinking", "thinking": "Let me add.", "signature": "c2ln"}
    assert "signature" not in str(
        export_messages(conversation(), "openrouter:anthropic/claude-sonnet-4-5").messages
    )


def test_system_prompt_is_beside_the_list_where_the_provider_has_it_there() -> None:
    systems = {format: export_messages(conversation(), format).system for format in WIRES}
    gemini = {"parts": [{"text": "Be brief."}]}
    assert systems == {
        "openai-chat": None, "openai-responses": "Be brief.", "anthropic": "Be brief.", "gemini": gemini, "ollama": None
    }  # fmt: skip


@pytest.mark.parametrize("format", WIRES)
def test_system_prompt_can_be_passed_beside_the_list(format: str) -> None:
    system: Any = {"parts": [{"text": "Be brief."}]} if format == "gemini" else "Be brief."
    message: dict[str, Any] = {"parts": [{"text": "Hi"}]} if format == "gemini" else {"content": "Hi"}
    imported = import_messages([{"role": "user", **message}], format, system=system)
    assert [(message.role, message.text) for message in imported] == [("system", "Be brief."), ("user", "Hi")]


def test_objects_of_the_sdks_are_read() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    chat = ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})
    item = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
    body = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [item]}
    response = Response.model_validate(
        {**body, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    )
    block = {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1}}
    usage = {"input_tokens": 1, "output_tokens": 1}
    reply = AnthropicMessage.model_validate(
        {"id": "m", "type": "message", "role": "assistant", "content": [block], "model": "m", "usage": usage}
    )
    lists: dict[str, list[Any]] = {
        "openai-chat": [{"role": "user", "content": "Hi"}, chat],
        "openai-responses": [{"role": "user", "content": "Hi"}, *response.output],
        "anthropic": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": reply.content}],
    }
    for format, messages in lists.items():
        imported = import_messages(messages, format)
        assert [call.arguments for message in imported for call in message.calls] == [{"a": 1}], format


def test_wrong_input_is_one_sentence() -> None:
    with pytest.raises(UnknownName, match="unknown provider 'opanai'"):
        export_messages([], "opanai")
    with pytest.raises(
        MalformedRequest, match="a message must be a dict or an object from the provider's SDK"
    ):
        import_messages(["Hi"], "openai-chat")
    for messages in (None, 3, "Hi", {"role": "user", "content": "Hi"}):
        for format in ("openai-chat", "langchain", "pydantic-ai"):
            with pytest.raises(MalformedRequest, match="messages must be a list"):
                import_messages(cast(Any, messages), format)
    assert export_messages([], "anthropic").messages == []
    assert import_messages([], "anthropic") == Conversation()


OTHER_FORMATS: list[tuple[str, Any, str]] = [
    ("openai-chat", {"role": "usr", "content": "x"}, "its role is 'usr'"),
    ("openai-chat", {"content": "x"}, "it has no role"),
    ("openai-chat", {"role": ["user"], "content": "x"}, "its role is ['user']"),
    ("openai-chat", {"role": "user", "parts": [{"text": "x"}]}, "it has the key 'parts'"),
    ("openai-chat", {"role": "user", "content": None}, "it has no content"),
    ("openai-chat", HumanMessage("x"), "it has no role"),
    ("gemini", HumanMessage("x"), "it has the key 'content'"),
    ("gemini", {"role": "user", "content": "x"}, "it has the key 'content'"),
    ("gemini", {"role": "assistant", "parts": []}, "its role is 'assistant'"),
    ("anthropic", {"role": "assistant", "content": None, "tool_calls": [{}]}, "it has the key 'tool_calls'"),
    ("anthropic", {"role": "tool", "content": "x"}, "its role is 'tool'"),
    ("anthropic", {"role": "user", "content": None}, "it has no content"),
    ("openai-responses", {"role": "tool", "content": "x"}, "its role is 'tool'"),
    ("ollama", {}, "it has no role"),
]


@pytest.mark.parametrize(("format", "message", "problem"), OTHER_FORMATS)
def test_a_list_of_another_format_is_refused(format: str, message: Any, problem: str) -> None:
    with pytest.raises(MalformedRequest, match=r"^messages\[0\] is not in [\w-]+ format: ") as error:
        import_messages([message], format)
    assert problem in str(error.value)


def test_a_wire_stands_for_its_provider() -> None:
    assert export_messages(conversation(), "anthropic-messages") == export_messages(
        conversation(), "anthropic"
    )


# ---- for frameworks


def test_a_reply_is_stored_only_if_there_is_more_to_it() -> None:
    assert store_original(Message("assistant", (Text("Hi"), ToolCall("1", "f", {})), ANTHROPIC)) is None
    signed = Message("assistant", (Thinking("", {"signature": "x"}), Text("Hi")), ANTHROPIC)
    assert restore_original(store_original(signed), Message("assistant", (Text("Hi"),))) == signed


@pytest.mark.parametrize("stored", [None, {}, "x", {"role": "assistant", "blocks": 3}])
def test_what_somebody_else_stored_is_ignored(stored: Any) -> None:
    visible = Message("assistant", (Text("Hi"),))
    assert restore_original(stored, visible) is visible


@pytest.mark.parametrize("format", ["langchain", "pydantic-ai"])
@pytest.mark.parametrize(
    "call",
    [
        ToolCall("1", "f", {"a": 1}, namespace="files"),
        ToolCall("1", "f", None, "plain text", freeform=True),
        ToolCall("1", "f", None, '{"a": '),
        ToolCall("1", "f", {}, caller="code_1"),
    ],
    ids=["namespace", "freeform", "invalid", "caller"],
)
@pytest.mark.parametrize("thoughts", [(), (Thinking("Hm.", {"signature": "c2ln"}),)], ids=["", "signed"])
def test_calls_of_every_kind_come_back(format: str, call: ToolCall, thoughts: tuple[Thinking, ...]) -> None:
    pytest.importorskip({"langchain": "langchain_core", "pydantic-ai": "pydantic_ai"}[format])
    messages = [user("Go."), Message("assistant", (*thoughts, call), ANTHROPIC)]
    assert import_messages(export_messages(messages, format).messages, format)[1] == messages[1]


def test_calls_with_one_id_are_compared_one_by_one() -> None:
    first, second, edited = (ToolCall("1", "f", {"n": number}) for number in range(3))
    signed = Message("assistant", (Thinking("", {"signature": "x"}), first, second), ANTHROPIC)
    stored = store_original(signed)
    assert restore_original(stored, assistant([first, second])) == signed
    changed = assistant([edited, second])
    assert restore_original(stored, changed) is changed


def test_a_reply_does_not_become_another_role() -> None:
    visible = Message("assistant", (Text("Hi"),))
    assert (
        restore_original({"role": "system", "blocks": [{"type": "text", "text": "Hi"}]}, visible) is visible
    )


def test_an_edited_reply_counts_as_it_is_now() -> None:
    signed = Message("assistant", (Thinking("Hm.", {"signature": "x"}), Text("Hi")), ANTHROPIC)
    edited = Message("assistant", (Thinking("Hm."), Text("Ho")))
    assert restore_original(store_original(signed), edited) is edited


def test_calls_that_the_length_limit_cut_off_are_found() -> None:
    whole, broken, last = ToolCall("1", "f", {}), ToolCall("2", "f", None, '{"a": '), ToolCall("3", "f", {})
    assert find_truncated_calls(Reply((whole, broken, last), "length")) == (broken, last)
    assert find_truncated_calls(Reply((whole, broken, last), "tools")) == (broken,)
    assert find_truncated_calls(Reply((last, Text("Hi")), "length")) == ()


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_missing_framework_is_one_sentence(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, package = FRAMEWORKS[module]
    monkeypatch.setitem(sys.modules, name, None)
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(f"{name}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("toolglot.bridges.")]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(ImportError, match=f"^this bridge needs {package}: run `pip install {package}`$"):
        import_module(f"toolglot.bridges.{module}")


def test_a_framework_that_is_too_old_is_one_sentence() -> None:
    error = ImportError("cannot import name 'x'", name="json.decoder")
    assert str(explain_missing(error, "json", "json-package")) == (
        "this bridge needs a newer json-package: run `pip install --upgrade json-package` (cannot import "
        "name 'x')"
    )
    other = ModuleNotFoundError("No module named 'y'", name="y")
    assert explain_missing(other, "json", "json-package") is other


def test_no_framework_is_loaded_before_its_module() -> None:
    names = sorted({name for name, _ in FRAMEWORKS.values()})
    code = f"import sys, toolglot.bridges; print([name for name in {names} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_foreign_content_is_a_loss() -> None:
    foreign = [user([Text("Hi"), Foreign("gemini", {"x": 1})])]
    for format in ("openai-chat", "langchain", "pydantic-ai"):
        pytest.importorskip(
            {"langchain": "langchain_core", "pydantic-ai": "pydantic_ai"}.get(format, "toolglot")
        )
        assert "only gemini understands it" in str(export_messages(foreign, format).losses[0])
