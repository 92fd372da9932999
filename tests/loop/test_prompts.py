"""Prompts: what can be one, what OpenAI's programs have at hand, and errors that name what cannot."""

import asyncio
from typing import Any

import pytest

from toolglot.errors import InvalidRequest, UsageError
from toolglot.values.messages import Conversation, Media, Message, Text, ToolCall, assistant, system, user

from .agents import PROVIDERS, Wiretap, cancel_and_wait, check, hook, make_agent, outcome, run

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
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "say hi"}]},
        ],
        [system("s"), user("say hi")],
    ),
    (
        [{"role": "assistant", "content": "b"}, user("a"), "say hi"],
        [assistant("b"), user("a"), user("say hi")],
    ),
    ([{"type": "text", "text": "say hi"}], [user("say hi")]),
    (["one", {"type": "text", "text": "say hi"}], [user(["one", "say hi"])]),
    ({"role": "user", "content": ["say hi"]}, [user("say hi")]),
]


@pytest.mark.parametrize(("prompt", "messages"), PROMPTS)
@LIVE
def test_prompts_have_many_forms(prompt: Any, messages: list[Message], live: bool) -> None:
    agent = make_agent("openai-chat")
    assert run(outcome(agent, prompt, streamed=live)).text == "hi"
    assert agent.conversation[: len(messages)] == messages


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_image_of_openai_reaches_every_provider(provider: str) -> None:
    wiretap = Wiretap()
    content = [{"type": "text", "text": "say hi"}, {"type": "image_url", "image_url": {"url": PNG}}]
    agent = make_agent(provider, wiretap)
    result = run(agent.run({"role": "user", "content": content}))
    assert result.text == "hi"
    assert [type(block) for block in agent.conversation[0].blocks] == [Text, Media]
    assert b"iVBORw0KGgo=" in wiretap.requests[0].body


def test_calls_and_results_of_openai_are_paired() -> None:
    results = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    agent = make_agent("anthropic")
    run(
        agent.run(
            [
                user("add"),
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                results,
                user("say hi"),
            ]
        )
    )
    assert agent.conversation[1].blocks == (ToolCall("c1", "add", {"a": 1}, '{"a": 1}'),)
    assert [(result.call_id, result.name) for result in agent.conversation[2].results] == [("c1", "add")]
    check(agent.conversation)


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
    agent = make_agent("anthropic")
    with pytest.raises(UsageError, match=words):
        await outcome(agent, prompt, streamed=live)
    assert len(agent.conversation) == 0
    assert (await agent.run("say hi")).text == "hi"
    check(agent.conversation)


@pytest.mark.parametrize("make", [user, system, assistant])
@pytest.mark.parametrize("content", [{"role": "user"}, b"x", 3, ["x", 3], ["x", b"y"], [{"type": "text"}]])
def test_messages_are_made_of_text_and_blocks(make: Any, content: Any) -> None:
    with pytest.raises(UsageError, match=r"not (dict|bytes|int)"):
        make(content)


@pytest.mark.parametrize("provider", PROVIDERS)
@LIVE
async def test_a_refused_prompt_does_not_stay(provider: str, live: bool) -> None:
    wiretap = Wiretap(errors=[None, InvalidRequest("no such image")])
    agent = make_agent(provider, wiretap)
    await agent.run("say one")
    before = list(agent.conversation)
    with pytest.raises(InvalidRequest, match="no such image"):
        await outcome(agent, "say two", streamed=live)
    assert list(agent.conversation) == before
    assert (await agent.run("say three")).text == "three"
    assert b"two" not in wiretap.requests[-1].body
    check(agent.conversation)


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
    wiretap, history = Wiretap(), Conversation()
    await make_agent("anthropic").run("say one", conversation=history)
    before = list(history)
    with pytest.raises(LookupError, match="no such user"):
        await outcome(
            make_agent("anthropic", wiretap, **FAILURES[failure]),
            "say two",
            streamed=live,
            conversation=history,
        )
    assert (list(history), wiretap.requests) == (before, [])
    assert (await make_agent("anthropic", wiretap).run("say three", conversation=history)).text == "three"
    assert b"two" not in wiretap.requests[-1].body
    check(history)


@LIVE
async def test_a_prompt_that_was_sent_stays_when_a_hook_fails_later(live: bool) -> None:
    agent = make_agent("anthropic", hooks=[hook(after_reply=fail)])
    with pytest.raises(LookupError):
        await outcome(agent, "say two", streamed=live)
    assert agent.conversation[0].text == "say two"
    check(agent.conversation)


@LIVE
async def test_a_run_that_is_cancelled_before_anything_was_sent_leaves_nothing(live: bool) -> None:
    waiting = asyncio.Event()

    async def wait(_: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    cases: list[dict[str, Any]] = [{"system": wait}, {"hooks": [hook(before_request=wait)]}]
    for options in cases:
        agent = make_agent("anthropic", **options)
        task = asyncio.create_task(outcome(agent, "say two", streamed=live))
        await waiting.wait()
        await cancel_and_wait(task)
        assert len(agent.conversation) == 0
        waiting.clear()
