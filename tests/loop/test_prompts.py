"""Prompts: what can be one, what OpenAI's programs have at hand, and errors that name what cannot."""

import asyncio
from typing import Any

import pytest

from toolglot.errors import InvalidRequest, UsageError
from toolglot.values.messages import Conversation, Media, Message, Text, ToolCall, assistant, system, user

from .agents import PROVIDERS, Wiretap, agent, cancelled, check, hook, outcome, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
PNG = "data:image/png;base64,iVBORw0KGgo="
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
# prompt, the messages that it stands for
PROMPTS: list[tuple[Any, list[Message]]] = [
    ("say hi", [user("say hi")]),
    (user("say hi"), [user("say hi")]),
    (Text("say hi"), [user("say hi")]),
    (["one", "say hi"], [user(["one", "say hi"])]),
    ((Text("say hi"),), [user("say hi")]),
    ({"role": "user", "content": "say hi"}, [user("say hi")]),
    ([{"role": "user", "content": "say hi"}], [user("say hi")]),
    ([user("a"), assistant("b"), user("say hi")], [user("a"), assistant("b"), user("say hi")]),
    (
        [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "say hi"}]}],
        [system("s"), user("say hi")],
    ),
    ([{"role": "assistant", "content": "b"}, user("a"), "say hi"], [assistant("b"), user("a"), user("say hi")]),
    ([{"type": "text", "text": "say hi"}], [user("say hi")]),
    (["one", {"type": "text", "text": "say hi"}], [user(["one", "say hi"])]),
    ({"role": "user", "content": ["say hi"]}, [user("say hi")]),
]


@pytest.mark.parametrize(("prompt", "messages"), PROMPTS)
@LIVE
def test_prompts_have_many_forms(prompt: Any, messages: list[Message], live: bool) -> None:
    talker = agent("openai-chat")
    assert run(outcome(talker, prompt, streamed=live)).text == "hi"
    assert talker.conversation[: len(messages)] == messages


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_image_of_openai_reaches_every_provider(provider: str) -> None:
    tap = Wiretap()
    content = [{"type": "text", "text": "say hi"}, {"type": "image_url", "image_url": {"url": PNG}}]
    talker = agent(provider, tap)
    result = run(talker.run({"role": "user", "content": content}))
    assert result.text == "hi"
    assert [type(block) for block in talker.conversation[0].blocks] == [Text, Media]
    assert b"iVBORw0KGgo=" in tap.requests[0].body


def test_calls_and_results_of_openai_are_paired() -> None:
    results = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    talker = agent("anthropic")
    run(talker.run([user("add"), {"role": "assistant", "content": None, "tool_calls": [CALL]}, results, user("say hi")]))
    assert talker.conversation[1].blocks == (ToolCall("c1", "add", {"a": 1}, '{"a": 1}'),)
    assert [(result.call_id, result.name) for result in talker.conversation[2].results] == [("c1", "add")]
    check(talker.conversation)


WRONG: list[tuple[Any, str]] = [
    (None, "NoneType"),
    (7, "int"),
    (object(), "object"),
    (b"bytes", "bytes"),
    ([], "the prompt is empty"),
    ("", "the prompt is empty"),
    (" \n\t", "the prompt is empty"),
    (["", Text(" ")], "the prompt is empty"),
    (user(""), "the prompt is empty"),
    (["x", 3], "int"),
    (["x", b"png"], "bytes; use Media.from_bytes"),
    ([None], "NoneType"),
    ({"text": "hi"}, "dict"),
    ({"role": "usr", "content": "hi"}, "'usr'"),
    ({"role": "user"}, "no content"),
    ({"role": "user", "content": ["x", 3]}, "int"),
    ({"role": "user", "content": 3}, "int"),
    ([user("a"), 3], "int"),
    ([{"role": "user", "content": "a"}, None], "NoneType"),
]


@pytest.mark.parametrize(("prompt", "words"), WRONG)
@LIVE
async def test_a_prompt_that_is_none_is_an_error_that_names_it(prompt: Any, words: str, live: bool) -> None:
    talker = agent("anthropic")
    with pytest.raises(UsageError, match=words):
        await outcome(talker, prompt, streamed=live)
    assert len(talker.conversation) == 0
    assert (await talker.run("say hi")).text == "hi"
    check(talker.conversation)


@pytest.mark.parametrize("make", [user, system, assistant])
@pytest.mark.parametrize("content", [{"role": "user"}, b"x", 3, ["x", 3], ["x", b"y"], [{"type": "text"}]])
def test_messages_are_made_of_text_and_blocks(make: Any, content: Any) -> None:
    with pytest.raises(UsageError, match=r"not (dict|bytes|int)"):
        make(content)


@pytest.mark.parametrize("provider", PROVIDERS)
@LIVE
async def test_a_refused_prompt_does_not_stay(provider: str, live: bool) -> None:
    tap = Wiretap(errors=[None, InvalidRequest("no such image")])
    talker = agent(provider, tap)
    await talker.run("say one")
    before = list(talker.conversation)
    with pytest.raises(InvalidRequest, match="no such image"):
        await outcome(talker, "say two", streamed=live)
    assert list(talker.conversation) == before
    assert (await talker.run("say three")).text == "three"
    assert b"two" not in tap.requests[-1].body
    check(talker.conversation)


def fail(_: Any) -> Any:
    raise LookupError("no such user")


async def fail_later(_: Any) -> Any:
    await asyncio.sleep(0)
    fail(_)


FAILURES: dict[str, dict[str, Any]] = {
    "system prompt": {"system": fail},
    "async system prompt": {"system": fail_later},
    "hook": {"hooks": [hook(before_request=fail)]},
    "async hook": {"hooks": [hook(before_request=fail_later)]},
}


@pytest.mark.parametrize("failure", FAILURES)
@LIVE
async def test_a_prompt_that_was_never_sent_does_not_stay(failure: str, live: bool) -> None:
    tap, history = Wiretap(), Conversation()
    await agent("anthropic").run("say one", conversation=history)
    before = list(history)
    with pytest.raises(LookupError, match="no such user"):
        await outcome(agent("anthropic", tap, **FAILURES[failure]), "say two", streamed=live, conversation=history)
    assert (list(history), tap.requests) == (before, [])
    assert (await agent("anthropic", tap).run("say three", conversation=history)).text == "three"
    assert b"two" not in tap.requests[-1].body
    check(history)


@LIVE
async def test_a_prompt_that_was_sent_stays_when_a_hook_fails_later(live: bool) -> None:
    talker = agent("anthropic", hooks=[hook(after_reply=fail)])
    with pytest.raises(LookupError):
        await outcome(talker, "say two", streamed=live)
    assert talker.conversation[0].text == "say two"
    check(talker.conversation)


@LIVE
async def test_a_run_that_is_cancelled_before_anything_was_sent_leaves_nothing(live: bool) -> None:
    waiting = asyncio.Event()

    async def wait(_: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    cases: list[dict[str, Any]] = [{"system": wait}, {"hooks": [hook(before_request=wait)]}]
    for options in cases:
        talker = agent("anthropic", **options)
        task = asyncio.create_task(outcome(talker, "say two", streamed=live))
        await waiting.wait()
        await cancelled(task)
        assert len(talker.conversation) == 0
        waiting.clear()
