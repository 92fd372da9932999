"""Laws of the message lists of frameworks, for any conversation."""

import pytest

pytest.importorskip("langchain_core", reason="pip install langchain-core")
pytest.importorskip("pydantic_ai", reason="pip install pydantic-ai-slim")

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.strategies import conversations, legal_conversations

from toolglot import Message, Request, encode_request, resolve_profile
from toolglot.bridges import export_messages, import_messages

from .kit import summarize

FORMATS = st.sampled_from(["langchain", "pydantic-ai"])
LAW = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@LAW
@given(legal_conversations(), FORMATS)
def test_a_legal_conversation_comes_back(messages: list[Message], format: str) -> None:
    exported = export_messages(messages, format)
    assert exported.losses == ()
    assert summarize(import_messages(exported.messages, format)) == summarize(messages)


@LAW
@given(conversations(), FORMATS)
def test_any_conversation_can_be_exported_imported_and_sent(messages: list[Message], format: str) -> None:
    imported = import_messages(export_messages(messages, format).messages, format)
    texts = [message.text for message in messages if message.role == "assistant" and message.text]
    assert [message.text for message in imported if message.role == "assistant" and message.text] == texts
    ids = [call.id for message in messages if message.role == "assistant" for call in message.calls]
    imported_ids = [call.id for message in imported for call in message.calls]
    assert len(imported_ids) == len(ids)
    # A call without an id may get one, and LangChain has calls with invalid arguments in a list of their own.
    assert Counter(imported_ids) >= Counter(id for id in ids if id)
    encode_request(Request("claude-sonnet-4-5", imported), resolve_profile("anthropic", "claude-sonnet-4-5"))
