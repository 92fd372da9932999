"""Saved, restored and taken back: a cut goes along, damage is refused whole, and what tools did stays done."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from toolglot.common.jsontext import dumps, loads_object
from toolglot.errors import MalformedData, ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.context_window import ContextPolicy
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.messages import Conversation, Message, Reply, Text, ToolCall, assistant, user
from toolglot.values.request import Request

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    check,
    check_bodies,
    find_unpaired,
    make_agent,
    run,
    texts_of,
)

TRIM = ContextPolicy(when_full="trim", budget=1_200)
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
LOOKS = 10


@tool(effects="read", inline=True)
def look(n: int) -> str:
    """Looks at something."""
    return f"seen {n} " + "s" * 400


@tool(effects="write", inline=True)
def write(path: str) -> str:
    """Writes."""
    return f"written {path}"


def old(turns: int = 8) -> list[Message]:
    return [
        message
        for n in range(turns)
        for message in (user(f"prompt {n}"), assistant(f"answer {n} " + "a" * 1_000))
    ]


def at_dawn(messages: Sequence[Message]) -> str:
    return "they met at dawn"


def always(question: ApprovalRequest) -> Any:
    return "always"


def steps(request: Request) -> Reply:
    """A model that looks ten times in a turn that says so, and answers."""
    looked = [message for message in request.messages if message.role == "tool"]
    last = next((looked_at for looked_at in looked[::-1]), None)
    number = (
        int(last.results[-1].text.split()[1]) + 1 if last is not None and request.messages[-1] is last else 1
    )
    wants = any("look around" in message.text for message in request.messages if message.role == "user")
    done = request.messages[-1].role == "user" and "look around" not in request.messages[-1].text
    if done or not wants or number > LOOKS:
        return Reply((Text("done"),))
    return Reply((ToolCall("", "look", {"n": number}),), "tools")


def looker(provider: str = "openai-chat", wiretap: Wiretap | None = None, **options: Any) -> Agent:
    return make_agent(
        provider, wiretap or Wiretap(*[steps] * 300), tools=[look, write], context=TRIM, **options
    )


def with_header(data: bytes, **changes: Any) -> bytes:
    """A saved conversation with another header."""
    first, remainder = data.split(b"\n", 1)
    return dumps({**loads_object(first), **changes}) + b"\n" + remainder


def header(data: bytes) -> dict[str, Any]:
    return loads_object(data.split(b"\n", 1)[0])


async def error_of(work: Any) -> ToolglotError:
    with pytest.raises(ToolglotError) as info:
        await work
    return info.value


class TestSaved:
    @EVERYWHERE
    @pytest.mark.parametrize("prompt", ["go", "look around"], ids=["between turns", "inside a turn"])
    def test_a_truncation_goes_along(self, provider: str, prompt: str) -> None:
        """What was left out is left out of the next request too, and its bytes are those that would have been
        sent.
        """
        first = looker(provider, conversation=Conversation(old()))
        run(first.run(prompt))
        data = first.save()
        wiretap = Wiretap(*[steps] * 300)
        again = Agent.load(data, transport=wiretap, tools=[look, write], context=TRIM)
        assert list(again.conversation) == list(first.conversation)
        assert run(again.context_usage()).omitted_messages == run(first.context_usage()).omitted_messages > 0
        assert run(again.preview_request()).body == run(first.preview_request()).body
        run(again.run("and on"))
        assert "answer 0" not in wiretap.requests[0].body.decode()
        check_bodies(again.view().engine, wiretap)
        check(again.conversation, everywhere=False)

    def test_a_summary_goes_along(self) -> None:
        wiretap = Wiretap()
        context = ContextPolicy(budget=1_200)
        first = make_agent(
            "openai-chat", wiretap, context=context, conversation=Conversation(old()), summarize=at_dawn
        )
        run(first.run("say hi"))
        other = Wiretap()
        again = Agent.load(first.save(), transport=other, context=context)
        run(again.run("say ho"))
        assert "they met at dawn" in other.requests[0].body.decode()

    def test_without_a_truncation_nothing_is_said_of_it(self) -> None:
        agent = looker()
        run(agent.run("go"))
        assert "context" not in header(agent.save())

    def test_saved_and_loaded_is_saved_the_same(self) -> None:
        agent = looker(conversation=Conversation(old()))
        run(agent.run("look around"))
        data = agent.save()
        assert Agent.load(data, tools=[look, write]).save() == data

    def test_the_present_model_continues(self) -> None:
        first = looker("anthropic", conversation=Conversation(old()))
        run(first.run("go"))
        other = looker("gemini")
        other.restore(first.save())
        assert other.view().engine.profile.id == "gemini"
        assert run(other.run("on")).text == "done"


DAMAGE: dict[str, Any] = {
    "no object": [],
    "null": None,
    "text": "cut here",
    "a start that is text": {"start": "3"},
    "a start before the first": {"start": -1},
    "a start after the last": {"start": 10_000},
    "a prompt before the first": {"start": 3, "prompt": -1},
    "a prompt after the cut": {"start": 3, "prompt": 4},
    "a summary that is none": {"start": 2, "summary": 5},
    "a prompt that is shown anyhow": {"start": 2, "prompt": 2},
    "a prompt that is an answer": {"start": 4, "prompt": 1},
    "a start between calls and their results": {"start": 18, "prompt": 16},
}


class TestDamaged:
    def saved_turns(self) -> bytes:
        """8 turns, then a prompt (16), a call (17), its result (18), an answer (19)."""
        calls = Wiretap('call look {"n": 1}\nthen say done')
        agent = make_agent("openai-chat", calls, tools=[look, write], conversation=Conversation(old()))
        run(agent.run('call look {"n": 1}\nthen say done'))
        assert [message.role for message in agent.conversation[16:]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        return agent.save()

    @pytest.mark.parametrize("context", DAMAGE.values(), ids=DAMAGE)
    def test_a_context_that_cannot_be_is_refused(self, context: Any) -> None:
        with pytest.raises(MalformedData, match="line 1"):
            Agent.load(with_header(self.saved_turns(), context=context), tools=[look, write])

    @pytest.mark.parametrize(
        "context", [{"start": 2}, {"start": 16}, {"start": 17, "prompt": 16}, {}, {"start": 2, "new": 1}]
    )
    def test_a_context_that_can_be_is_taken(self, context: Any) -> None:
        again = Agent.load(with_header(self.saved_turns(), context=context), tools=[look, write])
        assert len(run(again.preview_request()).body) > 100

    @pytest.mark.parametrize("model", [5, None, True, ["simulator"], {"name": "simulator"}, 0, ""], ids=repr)
    def test_a_model_that_is_none_is_refused(self, model: Any) -> None:
        data = with_header(self.saved_turns(), model=model)
        with pytest.raises(ToolglotError) as caught:
            Agent.load(data, tools=[look, write])
        if model != "":  # which is a text, and the name of nothing
            assert isinstance(caught.value, MalformedData)
            assert str(caught.value) == "line 1: the saved model is not a string"
        assert len(Agent.load(data, "simulator", tools=[look, write]).conversation) == 20

    @pytest.mark.parametrize("changes", [
        {"context": {"start": -1}}, {"uses": 5}, {"uses": [["", "look"]]}, {"run": {"iteration": "many"}},
        {"run": {"iteration": 1, "length": 3}}, {"toolglot": 99},
    ], ids=["context", "uses", "uses of a tool", "run", "a run of another conversation", "version"])  # fmt: skip
    def test_nothing_has_changed_if_it_is_refused(self, changes: dict[str, Any]) -> None:
        agent = looker(conversation=Conversation(old()))
        run(agent.run("go"))
        before, conversation = agent.save(), agent.conversation
        with pytest.raises(ToolglotError):
            agent.restore(with_header(self.saved_turns(), **changes))
        assert agent.conversation is conversation
        assert agent.save() == before
        assert run(agent.run("on")).text == "done"


class TestRestored:
    def test_another_conversation_is_the_agents_own(self) -> None:
        first = looker()
        run(first.run("the first one"))
        data = first.save()
        agent = looker()
        run(agent.run("something else"))
        agent.restore(data)
        assert "the first one" in texts_of(agent.conversation)
        assert "something else" not in texts_of(agent.conversation)
        assert run(agent.run("on")).text == "done"
        check(agent.conversation)

    def test_a_run_that_waits_continues(self) -> None:
        asks = ToolConfig(ask=frozenset({"write"}))
        first = make_agent("anthropic", tools=[write], config=asks)
        paused = run(first.run('call write {"path": "a"}'))
        agent = make_agent("anthropic", tools=[write], config=asks)
        agent.restore(first.save())
        assert agent.has_pending_run
        result = run(agent.resume({paused.requests[0].id: "yes"}))
        assert [outcome.result.text for outcome in result.outcomes] == ["written a"]

    def test_what_was_pending_before_is_gone(self) -> None:
        asks = ToolConfig(ask=frozenset({"write"}))
        other = make_agent("anthropic", tools=[write])
        run(other.run("say hi"))
        agent = make_agent("anthropic", tools=[write], config=asks)
        run(agent.run('call write {"path": "a"}'))
        agent.restore(other.save())
        assert not agent.has_pending_run
        assert isinstance(run(error_of(agent.resume({}))), UsageError)

    def test_uses_are_counted_on(self) -> None:
        twice = write.replace(max_uses=2)
        first = make_agent("openai-chat", tools=[twice])
        run(first.run('call write {"path": "a"}'))
        agent = make_agent("openai-chat", tools=[twice])
        agent.restore(first.save())
        result = run(agent.run('call write {"path": "b"} call write {"path": "c"}'))
        assert [outcome.result.is_error for outcome in result.outcomes] == [False, True]

    @pytest.mark.parametrize("action", ["restore", "undo"])
    async def test_not_while_a_run_is_in_progress(self, action: str) -> None:
        wait = StuckTool("wait")
        agent = make_agent("openai-chat", tools=[wait.tool])
        data = make_agent("openai-chat").save()
        work = asyncio.create_task(agent.run("call wait {}\nthen say done"))
        await wait.inside.wait()
        with pytest.raises(UsageError, match="in progress"):
            agent.undo() if action == "undo" else agent.restore(data)
        wait.gate.set()
        assert (await work).text == "done"
        check(agent.conversation)


# ---- taken back


class TestUndo:
    def test_the_last_prompt_and_all_that_came_of_it(self) -> None:
        agent = make_agent("openai-chat", tools=[look])
        run(agent.run("say one"))
        before = list(agent.conversation)
        run(agent.run('call look {"n": 1} call look {"n": 2}\nthen say two'))
        taken = agent.undo()
        assert [message.role for message in taken] == ["user", "assistant", "tool", "assistant"]
        assert list(agent.conversation) == before
        assert run(agent.run("say three")).text == "three"
        check(agent.conversation)

    def test_until_nothing_is_left(self) -> None:
        agent = make_agent("openai-chat")
        run(agent.run("say one"))
        run(agent.run("say two"))
        assert [len(agent.undo()) for _ in range(3)] == [2, 2, 0]
        assert list(agent.conversation) == []
        assert run(agent.run("say three")).text == "three"

    def test_the_conversation_that_was_is_not_touched(self) -> None:
        """Whoever holds it still holds all of it."""
        agent = make_agent("openai-chat")
        run(agent.run("say one"))
        held = agent.conversation
        agent.undo()
        assert len(held) == 2
        assert agent.conversation is not held

    def test_a_prompt_that_waits_for_an_approval(self) -> None:
        agent = make_agent("anthropic", tools=[write], config=ToolConfig(ask=frozenset({"write"})))
        run(agent.run("say one"))
        run(agent.run('call write {"path": "a"}'))
        assert agent.has_pending_run
        assert agent.undo()[0].text.startswith("call write")
        assert not agent.has_pending_run
        assert find_unpaired(agent.conversation) == []
        assert run(agent.run("say two")).text == "two"

    @pytest.mark.parametrize("shown", [False, True], ids=["before any word", "in the middle of the answer"])
    async def test_a_prompt_whose_answer_was_interrupted(self, shown: bool) -> None:
        """The note about the interruption is not a prompt: what the user said goes, with all that came of it."""
        agent = make_agent("openai-chat", Wiretap(*["say " + "word " * 50] * 9))
        await agent.run("the first prompt")
        events = agent.stream("the second prompt")
        async for event in events:
            if not shown or type(event).__name__ == "TextDelta":
                break
        await events.aclose()
        taken = agent.undo()
        assert taken[0].text == "the second prompt"
        assert [message.role for message in agent.conversation] == ["user", "assistant"]

    def test_a_prompt_that_was_answered_in_the_wrong_shape_at_first(self) -> None:
        shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        wiretap = Wiretap(Reply((Text("five"),)), Reply((Text('{"n": 5}'),)))
        agent = make_agent("openai-chat", wiretap, output_type=shape)
        assert run(agent.run("how many?")).output == {"n": 5}
        assert len(agent.conversation) == 4
        assert agent.undo()[0].text == "how many?"
        assert list(agent.conversation) == []

    def test_what_was_used_stays_used_and_what_was_allowed_stays_allowed(self) -> None:
        asked: list[ApprovalRequest] = []

        def approve(question: ApprovalRequest) -> Any:
            asked.append(question)
            return "always"

        agent = make_agent(
            "openai-chat",
            tools=[write.replace(max_uses=2)],
            config=ToolConfig(ask=frozenset({"write"})),
            approve=approve,
        )
        results: list[bool] = []
        for path in "abc":
            result = run(agent.run(f'call write {{"path": "{path}"}}'))
            results += [outcome.result.is_error for outcome in result.outcomes]
            agent.undo()
        assert results == [False, False, True]
        assert len(asked) == 1

    @EVERYWHERE
    def test_a_truncation_before_the_prompt_stays(self, provider: str) -> None:
        wiretap = Wiretap(*[steps] * 300)
        agent = looker(provider, wiretap, conversation=Conversation(old()))
        run(agent.run("go"))
        left = run(agent.context_usage()).omitted_messages
        assert left > 0
        assert agent.undo()[0].text == "go"
        assert run(agent.context_usage()).omitted_messages == left
        run(agent.run("something else"))
        assert "answer 0" not in wiretap.requests[-1].body.decode()
        check_bodies(agent.view().engine, wiretap)
        check(agent.conversation, everywhere=False)

    @EVERYWHERE
    def test_a_truncation_inside_the_turn_that_is_undone_goes_with_it(self, provider: str) -> None:
        wiretap = Wiretap(*[steps] * 300)
        agent = looker(provider, wiretap, conversation=Conversation(old(2)))
        run(agent.run("look around"))
        assert run(agent.context_usage()).omitted_messages > 4
        agent.undo()
        assert len(agent.conversation) == 4
        assert run(agent.context_usage()).omitted_messages <= 4
        assert run(agent.run("go")).text == "done"
        check_bodies(agent.view().engine, wiretap)
        check(agent.conversation, everywhere=False)

    @EVERYWHERE
    def test_all_of_a_truncated_conversation_can_be_undone(self, provider: str) -> None:
        wiretap = Wiretap(*[steps] * 300)
        agent = looker(provider, wiretap, conversation=Conversation(old()))
        run(agent.run("go"))
        while agent.undo():
            run(agent.context_usage())
            run(agent.preview_request())
        assert run(agent.run("new")).text == "done"
        assert "no longer shown" not in wiretap.requests[-1].body.decode()

    def test_a_truncated_conversation_that_was_undone_can_be_saved(self) -> None:
        """The cut may lie at the very end then."""
        agent = looker(conversation=Conversation(old()))
        run(agent.run("go " + "g" * 2_200))
        agent.undo()
        again = Agent.load(agent.save(), tools=[look, write], context=TRIM)
        assert list(again.conversation) == list(agent.conversation)
        assert run(again.preview_request()).body == run(agent.preview_request()).body

    def test_what_the_provider_refused_is_not_forgotten(self) -> None:
        """What was learnt of the model is true whatever is taken back."""
        wiretap = Wiretap(*[steps] * 300, faults=["context-too-long"])
        agent = make_agent(
            "openai-chat", wiretap, context=ContextPolicy(when_full="trim"), conversation=Conversation(old())
        )
        run(agent.run("go"))
        budget = run(agent.context_usage()).budget
        agent.undo()
        assert run(agent.context_usage()).budget == budget


@pytest.mark.parametrize(("make", "config", "asks"), [
    (lambda: write, ToolConfig(), False),
    (lambda: write, ToolConfig(ask=frozenset({"write"})), True),
    (lambda: look, ToolConfig(ask=frozenset({"write"})), False),
    (lambda: look.replace(approval=True), ToolConfig(), True),
    (lambda: write.replace(approval=False), ToolConfig(ask=frozenset({"write"})), False),
])  # fmt: skip
def test_whether_a_tool_has_to_be_approved(make: Callable[[], Tool], config: ToolConfig, asks: bool) -> None:
    tool = make()
    assert make_agent("openai-chat", tools=[tool], config=config).view().needs_approval(tool) is asks


def test_what_is_always_allowed_needs_no_approval_any_more() -> None:
    agent = make_agent(
        "openai-chat", tools=[write], config=ToolConfig(ask=frozenset({"write"})), approve=always
    )
    assert agent.view().needs_approval(write)
    run(agent.run('call write {"path": "a"}'))
    assert not agent.view().needs_approval(write)
