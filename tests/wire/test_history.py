"""What a target may see of a history: its own state, and the readable part of everybody else's."""

import msgspec
import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.values.losses import Loss
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    user,
)
from toolglot.wire.history import count_leading_system, extract_text, filter_visible, prepare_history
from toolglot.wire.writer import Writer

CLAUDE = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")
GPT = Origin("openai-responses", "openai-responses", "gpt-5")


def to_claude() -> Writer:
    return Writer(resolve_profile("anthropic", "claude-sonnet-4-5"))


def to_openai_chat() -> Writer:
    return Writer(resolve_profile("openai-chat", "gpt-4o"))


def test_thinking_stays_with_the_model_that_thought_it() -> None:
    writer = to_claude()
    message = Message("assistant", (Thinking("hm", {"signature": "s"}), Text("x")), CLAUDE)
    assert filter_visible([message], writer, 0)[0] is message
    assert writer.losses == []


@pytest.mark.parametrize("origin", [None, GPT, msgspec.structs.replace(CLAUDE, model="claude-opus-4-1")])
def test_thinking_of_others_is_dropped_and_is_a_loss(origin: Origin | None) -> None:
    writer, message = to_claude(), Message("assistant", (Thinking("hm"), Text("x")), origin)
    assert filter_visible([message], writer, 3) == [Message("assistant", (Text("x"),), origin)]
    assert [(loss.subject, loss.where) for loss in writer.losses] == [("thinking", "messages[3]")]


def test_target_that_takes_no_reasoning_gets_not_even_its_own() -> None:
    writer = to_openai_chat()
    message = Message(
        "assistant", (Thinking("hm"), Text("x")), Origin("openai-chat", "openai-chat", "gpt-4o")
    )
    assert filter_visible([message], writer, 0)[0].blocks == (Text("x"),)
    assert len(writer.losses) == 1


def test_foreign_content_goes_to_its_own_wire_whole() -> None:
    item = Foreign("anthropic-messages", {"type": "server_tool_use", "id": "srvtoolu_1"})
    assert filter_visible([assistant(item)], to_claude(), 0) == [assistant(item)]


def test_foreign_content_is_shown_as_text_elsewhere_where_it_has_some() -> None:
    writer = to_openai_chat()
    blocks = [
        Foreign("gemini", {"executableCode": {"code": "1+1"}}),
        Foreign("gemini", {"toolCall": {"id": "1"}}),
        Foreign("gemini", {}),
    ]
    assert filter_visible([assistant(blocks)], writer, 0) == [assistant("[ran code]\n1+1")]
    assert [loss.subject for loss in writer.losses] == ["executableCode", "toolCall", "content"]
    assert all("gemini" in loss.reason for loss in writer.losses)


def test_foreign_content_inside_a_result_is_shown_too() -> None:
    writer = to_openai_chat()
    block = Foreign(
        "anthropic-messages",
        {
            "type": "search_result",
            "title": "T",
            "source": "http://x",
            "content": [{"text": "A"}, {"text": "B"}],
        },
    )
    message = Message("tool", (ToolResult("a", (Text("1"), block)),))
    assert filter_visible([message], writer, 0)[0].results[0].content == (
        Text("1"),
        Text("[T] http://x\nA\nB"),
    )
    assert [loss.subject for loss in writer.losses] == ["search_result"]


def test_empty_text_that_only_carried_state_of_another_wire_is_left_out() -> None:
    """Gemini ends a turn with an empty part that holds a signature: nobody else gets an empty text for it."""
    origin = Origin("gemini", "gemini", "gemini-3-pro-preview")
    message = Message("assistant", (Text("hello"), Text("", {"thoughtSignature": "c2ln"})), origin)
    assert prepare_history([message], to_openai_chat()) == [Message("assistant", (Text("hello"),), origin)]
    writer = Writer(resolve_profile("gemini", "gemini-3-pro-preview"))
    assert prepare_history([user("hi"), message], writer)[1] is message


def test_untouched_messages_are_the_same_objects() -> None:
    history = [
        user("hi"),
        assistant(ToolCall("a", "get", {})),
        Message("tool", (ToolResult("a", (Text("1"), Media("image", url="u"))),)),
    ]
    assert all(
        message is other
        for message, other in zip(prepare_history(history, to_openai_chat()), history, strict=True)
    )


def test_legal_repairs_after_it_took_out() -> None:
    """A turn of nothing but somebody else's thoughts is an empty turn."""
    writer = to_openai_chat()
    assert prepare_history([user("hi"), assistant(Thinking("hm"))], writer, first=2) == [user("hi")]
    assert writer.losses == [
        Loss("thinking", "messages[3]", "it is only sent back to the model that produced it")
    ]
    assert [(done.subject, done.where) for done in writer.repairs] == [
        ("empty assistant message", "messages[3]")
    ]


@pytest.mark.parametrize(("item", "text"), [
    ({"executableCode": {"language": "PYTHON", "code": "1+1"}}, "[ran code]\n1+1"),
    ({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}, "[output]\n2"),
    ({"type": "search_result", "content": []}, "[] "),
    ({"type": "output_audio", "text": "spoken"}, "spoken"),
    ({"type": "refusal", "refusal": "no"}, "no"),
    ({"type": "web_search_call", "id": "ws_1"}, ""),
    ({"executableCode": {}, "text": 3}, ""),
])  # fmt: skip
def test_readable_text_of_foreign_content(item: Opaque, text: str) -> None:
    assert extract_text(Foreign("gemini", item)) == text


def test_foreign_content_need_not_be_an_object() -> None:
    writer = to_openai_chat()
    assert extract_text(Foreign("toolglot", [1])) == ""
    assert filter_visible([assistant(Foreign("toolglot", [1]))], writer, 0) == [assistant([])]
    assert writer.losses[0].subject == "content"


def test_leading_system() -> None:
    assert count_leading_system([]) == 0
    assert count_leading_system([system("a"), system("b"), user("c"), system("d")]) == 2
    assert count_leading_system([system("a")]) == 1
    assert count_leading_system([user("a"), system("b")]) == 0


def test_a_call_that_the_user_made_is_a_loss() -> None:
    writer = Writer(resolve_profile("anthropic", "claude-sonnet-4-5"))
    assert prepare_history([Message("user", (Text("hi"), ToolCall("a", "f", {})))], writer) == [user("hi")]
    assert [loss.subject for loss in writer.losses] == ["call 'f'"]
