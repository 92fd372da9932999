"""Messages for a run in progress: where they go, that none is lost or taken twice, and what is refused."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import pytest

from toolglot.errors import MalformedData, MissingOutput, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.context_window import SUMMARY_PROMPT, ContextPolicy
from toolglot.loop.inbox import Inbox
from toolglot.loop.limits import RunLimits
from toolglot.tools.tool import Tool, tool
from toolglot.values.deliveries import Delivery
from toolglot.values.events import ContextTruncated, Delivered, RunDone, RunEvent, RunResult
from toolglot.values.messages import (
    Conversation,
    Media,
    Message,
    Reply,
    Text,
    ToolCall,
    assistant,
    load,
    save,
    system,
    user,
)
from toolglot.values.request import Request

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    cancel_and_wait,
    check,
    check_bodies,
    collect_events,
    find_unpaired,
    hook,
    make_agent,
    outcome,
    run,
)
from .senders import Senders

EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
STREAMED = pytest.mark.parametrize("as_stream", [False, True], ids=["run", "stream"])
CALL = Reply((ToolCall("", "work", {}),), "tools")
PAY = Reply((ToolCall("", "pay", {}),), "tools")


def working(work: Callable[[], Any]) -> Tool:
    """A tool that runs without approval. It returns what `work` does, if that is text."""

    def act(n: int = 0) -> str:
        returned = work()
        return returned if isinstance(returned, str) else "worked"

    return Tool(act, name="work", description="Works.", effects="read", inline=True)


def call(n: int) -> Reply:
    """A call that is not the same as another one, which would be noticed."""
    return Reply((ToolCall("", "work", {"n": n}),), "tools")


@tool(approval=True, inline=True)
def pay() -> str:
    """Pays."""
    return "paid"


def roles(agent: Agent, start: int = 0) -> str:
    """The roles of a conversation, each by its first letter."""
    return " ".join(message.role[0] for message in agent.conversation[start:])


def texts(agent: Agent) -> list[str]:
    return [message.text for message in agent.conversation if message.role == "user"]


Act = Callable[["Plan"], Any]


def do_nothing(plan: "Plan") -> None:
    """Deliver nothing."""


def once(text: str, **options: Any) -> Act:
    """Deliver a message the first time."""
    return lambda plan: plan.deliveries or plan.deliver(text, **options)


class Plan:
    """An agent whose model says `turns`; `during` its tool `work`, and at requests and replies, something is
    delivered.
    """

    def __init__(
        self,
        provider: str,
        *turns: Any,
        during: Act = do_nothing,
        at_request: Act = do_nothing,
        at_reply: Act = do_nothing,
        **options: Any,
    ) -> None:
        self.wiretap = Wiretap(*turns)
        tools = [working(lambda: during(self)), pay]
        self.limits: RunLimits = options.get("limits", RunLimits())
        hooks = self.hooks = hook(
            before_request=lambda request: (at_request(self), request)[1],
            after_reply=lambda reply: (at_reply(self), reply)[1],
        )
        self.agent = make_agent(provider, self.wiretap, tools=tools, hooks=[hooks], **options)
        self.deliveries: list[Delivery] = []

    def deliver(self, text: str, **options: Any) -> Delivery:
        delivery = self.agent.deliver(text, **options)
        self.deliveries.append(delivery)
        return delivery

    def check(self) -> None:
        """Everything that was sent was legal; the conversation is whole; each delivery says what is so."""
        check_bodies(self.agent.view().engine, self.wiretap)
        check(self.agent.conversation, everywhere=False)
        check_deliveries(self.agent.conversation, self.deliveries)


def check_deliveries(conversation: Sequence[Message], deliveries: Sequence[Delivery]) -> None:
    """What was delivered is in its place, and nothing else is."""
    by_place = {delivery.index: delivery for delivery in deliveries if delivery.state == "delivered"}
    assert len(by_place) == sum(delivery.state == "delivered" for delivery in deliveries)
    for index, delivery in by_place.items():
        assert index is not None
        assert conversation[index] == delivery.message
    others = [d for d in deliveries if d.state != "delivered"]
    assert all(delivery.index is None for delivery in others)
    assert all(bool(delivery.reason) == (delivery.state == "refused") for delivery in deliveries)
    left = [message for index, message in enumerate(conversation) if index not in by_place]
    assert not any(message is delivery.message for message in left for delivery in deliveries)


class TestWhere:
    @EVERYWHERE
    @STREAMED
    async def test_a_message_during_a_tool_follows_the_results_as_a_message_of_its_own(
        self, provider: str, as_stream: bool
    ) -> None:
        plan = Plan(provider, CALL, CALL, "done", during=lambda plan: plan.deliver("and hurry"))
        result = await outcome(plan.agent, "go", streamed=as_stream)
        assert roles(plan.agent) == "u a t u a t u a"
        assert [delivery.index for delivery in plan.deliveries] == [3, 6]
        assert (result.text, result.stop, result.undelivered) == ("done", "end", ())
        assert plan.agent.conversation[3] == user("and hurry"), "the user's own words, without a mark"
        plan.check()

    @EVERYWHERE
    async def test_soon_and_idle(self, provider: str) -> None:
        def deliver(plan: Plan) -> None:
            for text, when in (("i1", "idle"), ("s1", "soon"), ("i2", "idle"), ("s2", "soon")):
                plan.deliver(text, when=when)

        plan = Plan(provider, CALL, "first", "second", "third", during=deliver)
        events = await collect_events(plan.agent.stream("go"))
        assert roles(plan.agent) == "u a t u u a u a u a"
        assert texts(plan.agent) == ["go", "s1", "s2", "i1", "i2"]
        result = events[-1]
        assert isinstance(result, RunDone)
        assert (result.result.text, result.result.iterations) == ("third", 4)
        told = [event for event in events if isinstance(event, Delivered)]
        assert [(event.id, event.index, event.message) for event in told] == [
            (delivery.id, delivery.index, delivery.message)
            for delivery in sorted(plan.deliveries, key=lambda delivery: delivery.index or 0)
        ]
        plan.check()

    @EVERYWHERE
    @pytest.mark.parametrize("when", ["soon", "idle"])
    async def test_a_message_during_the_last_reply_continues_the_run(self, provider: str, when: Any) -> None:
        plan = Plan(provider, "first", "second", at_reply=once("more", when=when))
        result = await plan.agent.run("go")
        assert (roles(plan.agent), result.text, result.iterations) == ("u a u a", "second", 2)
        plan.check()

    async def test_the_first_request_has_the_prompt_only(self) -> None:
        plan = Plan("anthropic", "first", "second", at_request=once("more"))
        await plan.agent.run("go")
        assert roles(plan.agent) == "u a u a"
        assert [len(body["messages"]) for body in plan.wiretap.bodies] == [1, 3]

    async def test_a_paused_reply_goes_on_before_a_message(self) -> None:
        paused = Reply((Text("I am searching"),), "pause")
        plan = Plan("anthropic", paused, "found", "hurried", at_reply=once("hurry"))
        await plan.agent.run("go")
        assert [message.role[0] for message in plan.agent.conversation][-4:] == ["a", "a", "u", "a"]
        assert plan.deliveries[0].index == 3

    @EVERYWHERE
    async def test_what_was_sent_stays_a_prefix(self, provider: str) -> None:
        def deliver(plan: Plan) -> None:
            plan.deliver("one")
            plan.deliver("two")
            plan.deliver("later", when="idle")

        plan = Plan(provider, CALL, CALL, "a", "b", "c", during=deliver)
        await plan.agent.run("go")
        await plan.agent.run("again")
        assert roles(plan.agent) == "u a t u u a t u u a u a u a u a"
        bodies = [request.body for request in plan.wiretap.requests]
        assert len(bodies) == 6
        assert [other.startswith(before[: -len("]}")]) for before, other in pairwise(bodies)] == [True] * 5
        plan.check()


class TestUntilItIsDelivered:
    async def test_a_message_can_be_taken_back(self) -> None:
        def deliver(plan: Plan) -> None:
            first, second = plan.deliver("no"), plan.deliver("yes")
            assert (first.state, first.withdraw(), first.state, first.withdraw()) == (
                "queued",
                True,
                "withdrawn",
                False,
            )
            assert second.state == "queued"

        plan = Plan("openai-chat", CALL, "done", during=deliver)
        await plan.agent.run("go")
        first, second = plan.deliveries
        assert texts(plan.agent) == ["go", "yes"]
        assert [first.withdraw(), second.withdraw()] == [False, False]
        assert (first.state, second.state) == ("withdrawn", "delivered")

    async def test_an_id_counts_once(self) -> None:
        def deliver(plan: Plan) -> None:
            first = plan.deliver("once", id="m1")
            assert plan.agent.deliver("once", id="m1") is first
            assert plan.agent.deliver("once", id="m1", when="idle") is first

        plan = Plan("gemini", CALL, CALL, "done", during=deliver)
        await plan.agent.run("go")
        assert texts(plan.agent) == ["go", "once"]
        assert plan.agent.deliver("once", id="m1") is plan.deliveries[0]
        with pytest.raises(UsageError, match="the id 'm1' belongs to another message"):
            plan.agent.deliver("something else", id="m1")

    def test_a_thousand_ids_are_remembered(self) -> None:
        inbox = Inbox()
        seen = [inbox.add(user("x"), "soon", f"m{n}") for n in range(1_001)]
        assert inbox.add(user("x"), "soon", "m1") is seen[1]
        assert inbox.add(user("x"), "soon", "m0") is not seen[0]

    def test_an_inbox_that_is_found_empty_is_closed(self) -> None:
        """At once, and not a moment later: what came in between would be taken by nobody."""
        inbox = Inbox()
        inbox.open("")
        inbox.add(user("x"), "idle", "")
        assert not inbox.close_if_empty()
        assert len(inbox.take_or_close(0)) == 1
        assert inbox.add(user("x"), "soon", "").state == "queued"
        assert len(inbox.take_or_close(1)) == 1
        assert inbox.take_or_close(2) == []
        assert inbox.add(user("x"), "soon", "").state == "refused"
        inbox.open("")
        assert inbox.close_if_empty()
        assert inbox.add(user("x"), "soon", "").state == "refused"

    def test_the_queue_has_an_end(self) -> None:
        inbox = Inbox()
        inbox.open("")
        queued = [inbox.add(user("x"), "idle", "") for _ in range(1_000)]
        assert {delivery.state for delivery in queued} == {"queued"}
        assert inbox.add(user("x"), "soon", "").reason.startswith("1,000 messages are queued")
        assert queued[500].withdraw()
        assert inbox.add(user("x"), "soon", "").state == "queued"

    async def test_the_work_does_not_grow_with_the_conversation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Counted: the messages that are looked at in a run with 50 deliveries."""
        reads: list[int] = []
        read = cast(Callable[[Conversation, Any], Any], Conversation.__getitem__)

        def count(self: Conversation, index: Any) -> Any:
            messages = read(self, index)
            reads.append(1 if isinstance(messages, Message) else len(messages))
            return messages

        async def measure(length: int) -> int:
            conversation = Conversation([user("hi"), assistant("ho")] * (length // 2))

            def deliver(plan: Plan) -> None:
                for n in range(50):
                    plan.deliver(f"m{n}", conversation=conversation)

            turns = ["ho"] * (length // 2)
            plan = Plan("openai-chat", *turns, "done", CALL, "done", "done", during=deliver)
            await plan.agent.run("go", conversation=conversation)  # everything is encoded once
            with monkeypatch.context() as patch:
                patch.setattr(Conversation, "__getitem__", count)
                reads.clear()
                await plan.agent.run("go", conversation=conversation)
            assert len(conversation) == length + 2 + 4 + 50
            return sum(reads)

        short = await measure(10)
        assert short > 50
        assert await measure(10_000) == short


class TestRefused:
    @STREAMED
    async def test_without_a_run_nothing_is_queued(self, as_stream: bool) -> None:
        plan = Plan("ollama", "done")
        early = plan.deliver("early")
        await outcome(plan.agent, "go", streamed=as_stream)
        late = plan.deliver("late")
        assert texts(plan.agent) == ["go"]
        for delivery in (early, late):
            assert (delivery.state, delivery.withdraw()) == ("refused", False)
            assert delivery.reason == (
                "no run is in progress on this conversation: send the message as a prompt, with run"
            )

    @EVERYWHERE
    @STREAMED
    async def test_no_request_beyond_the_limit(self, provider: str, as_stream: bool) -> None:
        plan = Plan(
            provider,
            CALL,
            "done",
            "beyond",
            limits=RunLimits(max_iterations=1),
            at_reply=lambda plan: plan.deliver(f"m{len(plan.deliveries)}"),
        )
        result = await outcome(plan.agent, "go", streamed=as_stream)
        assert (result.text, result.stop, len(plan.wiretap.requests)) == ("done", "end", 2)
        first, second = plan.deliveries
        assert (first.state, second.state) == ("delivered", "refused")
        assert second.reason == "the run used up its turns"
        assert result.undelivered == (second,)
        plan.check()

    @pytest.mark.parametrize("provider", ["anthropic", "gemini"])
    async def test_no_request_beyond_the_budget(self, provider: str) -> None:
        limits = RunLimits(max_total_tokens=1)
        plan = Plan(provider, "done", "beyond", limits=limits, at_reply=once("more"))
        result = await plan.agent.run("go")
        assert (result.stop, len(plan.wiretap.requests)) == ("end", 1), "the answer was complete"
        assert plan.deliveries[0].reason == "the run has used up its 1 tokens (max_total_tokens)"

    async def test_a_budget_that_ends_in_the_middle(self) -> None:
        plan = Plan(
            "anthropic",
            CALL,
            "beyond",
            at_reply=once("more"),
            limits=RunLimits(max_total_tokens=1),
        )
        result = await plan.agent.run("go")
        assert (result.stop, result.undelivered) == ("budget", tuple(plan.deliveries))
        assert plan.deliveries[0].reason == "the run used up its tokens or its cost"
        plan.check()

    @pytest.mark.parametrize(("provider", "stop", "reason"), [
        ("anthropic", "refusal", "the model refused to answer"),
        ("openai-chat", "filtered", "a safety filter stopped the reply"),
    ])  # fmt: skip
    async def test_a_reply_that_was_refused_ends_the_run(self, provider: str, stop: Any, reason: str) -> None:
        plan = Plan(provider, Reply((Text("no"),), stop), "beyond", at_reply=once("more"))
        result = await plan.agent.run("go")
        assert (result.stop, plan.deliveries[0].reason) == (stop, reason)
        assert result.undelivered == tuple(plan.deliveries)

    async def test_a_truncated_answer_goes_on_with_a_message(self) -> None:
        plan = Plan("openai-chat", Reply((Text("so f"),), "length"), "ok", at_reply=once("shorter"))
        result = await plan.agent.run("go")
        assert (result.text, result.stop) == ("ok", "end")

    @STREAMED
    async def test_a_run_that_is_cancelled(self, as_stream: bool) -> None:
        stuck = StuckTool("work", effects="read")
        agent = make_agent("gemini", Wiretap(CALL, "done"), tools=[stuck.tool])
        task = asyncio.create_task(outcome(agent, "go", streamed=as_stream))
        await stuck.inside.wait()
        delivery = agent.deliver("more")
        await cancel_and_wait(task)
        assert (delivery.state, delivery.reason) == ("refused", "the run was interrupted")
        check(agent.conversation)

    async def test_a_run_that_raises(self) -> None:
        def fail(plan: Plan) -> None:
            if len(plan.agent.conversation) == 3:
                plan.deliver("more")
                raise RuntimeError("the hook fails")

        plan = Plan("gemini", CALL, "done", "done", at_request=fail)
        with pytest.raises(RuntimeError, match="the hook fails"):
            await plan.agent.run("go")
        assert (plan.deliveries[0].state, plan.deliveries[0].reason) == (
            "refused",
            "the run ended with an error",
        )
        result = await plan.agent.run("go")
        assert result.undelivered == (), "that was another run"

    async def test_time_that_runs_out(self) -> None:
        stuck = StuckTool("work", effects="read")
        limits = RunLimits(run_timeout=0.2)
        agent = make_agent("gemini", Wiretap(CALL, "done"), tools=[stuck.tool], limits=limits)
        task = asyncio.create_task(agent.run("go"))
        await stuck.inside.wait()
        delivery = agent.deliver("more")
        result = await task
        assert (result.stop, result.undelivered) == ("timeout", (delivery,))
        assert delivery.reason == "the run used up its time"

    async def test_a_stream_that_is_left(self) -> None:
        plan = Plan("anthropic", CALL, "done", during=lambda plan: plan.deliver("more"))
        events = plan.agent.stream("go")
        async for event in events:
            if isinstance(event, Delivered):
                break
        waiting = plan.deliver("and more")
        await events.aclose()
        assert (waiting.state, waiting.reason) == ("refused", "the run was interrupted")
        assert plan.deliveries[0].state == "delivered"
        check(plan.agent.conversation)
        plan.check()

    @pytest.mark.parametrize(("item", "problem"), [
        ("", "the prompt is empty"),
        (system("be nice"), "deliver takes one message of the user"),
        (assistant("I am"), "deliver takes one message of the user"),
        ([user("a"), user("b")], "deliver takes one message of the user"),
        (7, "a prompt is text"),
        (b"bytes", "a prompt is text"),
    ])  # fmt: skip
    async def test_what_is_no_message(self, item: Any, problem: str) -> None:
        with pytest.raises(UsageError, match=problem):
            Agent().deliver(item)

    async def test_wrong_arguments(self) -> None:
        with pytest.raises(UsageError, match="time of a delivery 'now'"):
            Agent().deliver("x", when="now")  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="id: pass a string"):
            Agent().deliver("x", id=7)  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="conversation: pass a Conversation"):
            Agent().deliver("x", conversation="c")  # pyright: ignore[reportArgumentType]

    async def test_blocks_and_chat_messages(self) -> None:
        picture = Media("image", "image/png", "iVBORw0KGgo=")

        def deliver(plan: Plan) -> None:
            plan.agent.deliver(["see", picture])
            plan.agent.deliver({"role": "user", "content": "as OpenAI's"})

        plan = Plan("anthropic", CALL, "done", during=deliver)
        await plan.agent.run("go")
        assert list(plan.agent.conversation[3:5]) == [user(["see", picture]), user("as OpenAI's")]
        plan.check()


class TestAppending:
    async def test_only_the_run_appends_while_it_is_in_progress(self) -> None:
        errors: list[UsageError] = []

        def append(plan: Plan) -> None:
            with pytest.raises(UsageError, match=r"pass the message to it with agent\.deliver") as error:
                plan.agent.conversation.append(user("x"))
            errors.append(error.value)

        plan = Plan("anthropic", CALL, "done", during=append)
        await plan.agent.run("go")
        assert len(errors) == 1
        assert roles(plan.agent) == "u a t a"
        plan.agent.conversation.append(user("now"))

    async def test_another_conversation_is_free(self) -> None:
        other = Conversation()
        plan = Plan("anthropic", CALL, "done", during=lambda plan: other.append(user("x")))
        await plan.agent.run("go")
        assert len(other) == 1

    async def test_a_given_conversation_is_guarded_too(self) -> None:
        conversation = Conversation()

        def append(plan: Plan) -> None:
            with pytest.raises(UsageError, match="a run is in progress"):
                conversation.append(user("x"))
            assert plan.agent.deliver("own").state == "refused", "the agent's own conversation has no run"
            plan.agent.deliver("here", conversation=conversation)
            Agent().deliver("by another agent", conversation=conversation)

        plan = Plan("anthropic", CALL, "done", during=append)
        await plan.agent.run("go", conversation=conversation)
        said = [message.text for message in conversation if message.role == "user"]
        assert said == ["go", "here", "by another agent"]


TRIM = ContextPolicy(when_full="trim", budget=1_200)
COMPACT = ContextPolicy(when_full="compact", budget=1_200)


class TestContext:
    """A truncation keeps what the user has sent meanwhile, and what the model has not seen yet."""

    @EVERYWHERE
    @pytest.mark.parametrize("policy", [TRIM, COMPACT], ids=["trim", "compact"])
    async def test_a_message_is_neither_dropped_nor_moved(self, provider: str, policy: ContextPolicy) -> None:
        def deliver(plan: Plan) -> None:
            plan.deliver(f"steer {len(plan.deliveries)}")

        seen: list[Request] = []

        def turn(request: Request) -> Reply | str:
            if SUMMARY_PROMPT in request.messages[-1].text:
                return "They worked."
            seen.append(request)
            return call(len(seen)) if len(seen) < 12 else "done"

        plan = Plan(
            provider,
            *[turn] * 60,
            during=lambda plan: (deliver(plan), "x" * 1_500)[1],
            context=policy,
        )
        events = await collect_events(plan.agent.stream("the prompt"))
        assert sum(isinstance(event, ContextTruncated) for event in events) >= 2
        assert [delivery.state for delivery in plan.deliveries] == ["delivered"] * 11
        for number, request in enumerate(seen):
            words = [message.text for message in request.messages if message.role == "user"]
            prompts = [text for text in words if text.startswith(("the prompt", "steer"))]
            assert prompts == ["the prompt", *(f"steer {n}" for n in range(number))]
            if number:
                assert [message.role for message in request.messages[-3:]] == ["assistant", "tool", "user"]
        plan.check()

    async def test_of_very_many_messages_the_latest_are_kept(self) -> None:
        seen: list[list[str]] = []

        def turn(request: Request) -> Reply | str:
            words = [message.text for message in request.messages if message.role == "user"]
            seen.append([text.split("x")[0] for text in words if text.startswith(("the prompt", "steer"))])
            return call(len(plan.deliveries)) if len(plan.deliveries) < 30 else "done"

        def work(plan: Plan) -> str:
            plan.deliver(f"steer {len(plan.deliveries)} " + "x" * 400)
            return "y" * 1_600

        plan = Plan(
            "openai-chat",
            *[turn] * 60,
            during=work,
            context=ContextPolicy(when_full="trim", budget=3_000),
            limits=RunLimits(max_iterations=50),
        )
        events = await collect_events(plan.agent.stream("the prompt"))
        truncations = [event for event in events if isinstance(event, ContextTruncated)]
        assert max(event.after for event in truncations) < 3_000
        for number, words in enumerate(seen):
            assert (
                words == ["the prompt", *[f"steer {n} " for n in range(number)][1 - len(words) :]]
                or not number
            )
        assert 5 < len(seen[-1]) < 30, "more than what belongs to the calls that are shown"
        truncation = plan.agent._state.meter.truncation  # pyright: ignore[reportPrivateUsage]
        assert truncation.delivered
        copy = Agent.load(plan.agent.save(), tools=list(plan.agent.tools))
        assert copy._state.meter.truncation == truncation  # pyright: ignore[reportPrivateUsage]
        plan.check()

    async def test_a_damaged_context_is_refused(self) -> None:
        plan = Plan("openai-chat", "one", "two")
        await plan.agent.run("go")
        saved = plan.agent.save()
        for delivered in ("[1]", "[9]", "[-1]", "7", '["0"]', "[true]"):
            with pytest.raises(MalformedData, match=r"deliveries do not fit|not a list of numbers"):
                Agent.load(saved.replace(b"}\n", b',"delivered":%s}\n' % delivered.encode(), 1))


class TestPaused:
    """While calls wait, messages stay queued, also in the saved form of the run."""

    @EVERYWHERE
    @pytest.mark.parametrize("loads", [False, True], ids=["same process", "loaded"])
    async def test_the_rest_of_the_run_takes_them_after_the_results(self, provider: str, loads: bool) -> None:
        plan = Plan(provider, PAY, CALL, "done", "later", at_reply=once("early", id="m1"))
        paused = await plan.agent.run("go")
        assert (paused.stop, paused.undelivered, roles(plan.agent)) == ("approval", (), "u a")
        plan.deliver("meanwhile", id="m2")
        plan.deliver("last", id="m3", when="idle")
        taken_back = plan.deliver("taken back", id="m4")
        assert taken_back.withdraw()
        request = paused.requests[0]
        agent = plan.agent
        for _ in range(2 if loads else 0):
            agent = Agent.load(agent.save(), transport=plan.wiretap, tools=list(plan.agent.tools))
        assert [(s.request.tool, s.fingerprint) for s in await agent.list_pending()] == [
            ("pay", request.fingerprint)
        ]
        states = {id: agent.deliver(text, id=id).state for id, text in MESSAGES.items()}
        assert states == {"m1": "queued", "m2": "queued", "m3": "queued", "m4": "withdrawn"}
        assert roles(agent) == "u a", "the pause and the conversation are untouched"
        result = await agent.resume({request.call.id: True})
        assert roles(agent) == "u a t u u a t a u a"
        assert [message.text for message in agent.conversation if message.role == "user"] == [
            "go",
            "early",
            "meanwhile",
            "last",
        ]
        assert (result.text, result.undelivered) == ("later", ())
        copy = Agent.load(agent.save(), tools=list(plan.agent.tools))
        for each in (agent, copy):
            deliveries = [each.deliver(text, id=id) for id, text in MESSAGES.items()]
            assert [(delivery.state, delivery.index) for delivery in deliveries] == [
                ("delivered", 3),
                ("delivered", 4),
                ("delivered", 8),
                ("withdrawn", None),
            ]
        check_bodies(agent.view().engine, plan.wiretap)
        check(agent.conversation, everywhere=False)

    async def test_a_new_prompt_replaces_the_run_and_tells_of_the_messages(self) -> None:
        plan = Plan("gemini", PAY, "done", at_reply=once("more"))
        await plan.agent.run("go")
        result = await plan.agent.run("something else")
        assert result.undelivered == tuple(plan.deliveries)
        assert plan.deliveries[0].reason == "a new prompt has replaced the run that the message was for"
        assert texts(plan.agent) == ["go", "something else"]
        assert (await plan.agent.run("again")).undelivered == ()
        check(plan.agent.conversation)

    async def test_a_decision_that_is_refused_leaves_them_queued(self) -> None:
        plan = Plan("gemini", PAY, "done", at_reply=once("more"))
        await plan.agent.run("go")
        with pytest.raises(UsageError, match="no call nobody"):
            await plan.agent.resume({"nobody": True})
        assert plan.deliveries[0].state == "queued"

    async def test_undo_ends_the_run_and_tells_of_the_messages(self) -> None:
        plan = Plan("gemini", PAY, "done", at_reply=once("more"))
        await plan.agent.run("go")
        assert len(plan.agent.undo()) == 2
        assert (plan.deliveries[0].state, plan.deliveries[0].reason) == ("refused", "the run was undone")
        assert plan.deliver("late").state == "refused"

    async def test_a_saved_form_that_was_changed_is_not_trusted(self) -> None:
        plan = Plan("gemini", PAY, "done", at_reply=once("be careful", id="m1"))
        paused = await plan.agent.run("go")
        saved = plan.agent.save().replace(b"be careful", b"pay double")
        agent = Agent.load(saved, tools=[pay])
        with pytest.raises(UsageError, match="the saved run was changed"):
            await agent.resume({paused.requests[0].call.id: True})

    @pytest.mark.parametrize(("old", "new", "problem"), [
        (b'"id":"m1"', b'"id":""', "two messages for the run have the id"),
        (b'[{"id":"m1"', b'[{"id":"m1","state":"withdrawn"},{"id":"m1"', "two messages for the run have"),
        (b'"role":"user","blocks":[{"type":"text","text":"more"}]', b'"role":"system","blocks":[]',
         "is not one of the user"),
        (b'"inbox":[', b'"inbox":[7,', "unexpected shape"),
    ])  # fmt: skip
    async def test_a_damaged_inbox_is_refused(self, old: bytes, new: bytes, problem: str) -> None:
        plan = Plan("gemini", PAY, "done", at_reply=once("more", id="m1"))
        await plan.agent.run("go")
        saved = plan.agent.save()
        assert old in saved
        with pytest.raises(MalformedData, match=problem):
            Agent.load(saved.replace(old, new), tools=[pay])

    async def test_what_was_queued_in_a_run_that_was_saved_in_the_middle(self) -> None:
        saved: list[bytes] = []

        def save(plan: Plan) -> None:
            plan.deliver("more", id="m1")
            saved.append(plan.agent.save())

        plan = Plan("gemini", CALL, "done", during=save)
        await plan.agent.run("go")
        agent = Agent.load(saved[0], transport=Wiretap("done"))
        lost = agent.deliver("more", id="m1")
        assert (lost.state, lost.reason) == (
            "refused",
            "the process ended before the run could take the message: send it as a prompt, with run",
        )


MESSAGES = {"m1": "early", "m2": "meanwhile", "m3": "last", "m4": "taken back"}


class TestUndo:
    @EVERYWHERE
    async def test_the_whole_run_is_removed(self, provider: str) -> None:
        def deliver(plan: Plan) -> None:
            plan.deliver("soon")
            plan.deliver("idle", when="idle")

        plan = Plan(provider, "hello", call(1), "first", "second", call(2), "first", "second", during=deliver)
        await plan.agent.run("hi")
        for _ in range(2):
            result = await plan.agent.run("go")
            assert result.text == "second"
        assert roles(plan.agent, 2) == "u a t u a u a u a t u a u a"
        loaded, _ = load(save(plan.agent.conversation))
        assert [*loaded.delivered] == [*plan.agent.conversation.delivered]
        copies = [plan.agent, Agent.load(plan.agent.save()), Agent(conversation=loaded)]
        for agent in copies:
            assert len(agent.undo()) == 7
            assert agent.conversation[-1].text == "second"
            agent = Agent.load(agent.save())
            assert len(agent.undo()) == 7
            assert roles(agent) == "u a"
            assert len(agent.undo()) == 2
            assert agent.undo() == ()


@dataclass
class Answer:
    number: int


class TestStructuredOutput:
    @EVERYWHERE
    async def test_the_answer_to_the_message_counts(self, provider: str) -> None:
        plan = Plan(provider, '{"number": 1}', '{"number": 2}', at_reply=once("one more"))
        if provider in ("gemini", "ollama"):  # the answer is a call beside tools
            plan.agent.remove_tools(["work", "pay"])
        result = await plan.agent.run("go", output_type=Answer)
        assert result.output == Answer(2)
        assert roles(plan.agent) == "u a u a"
        plan.check()

    async def test_an_answer_to_the_message_that_is_none_is_asked_for_again(self) -> None:
        plan = Plan("openai-chat", '{"number": 1}', "ok", '{"number": 3}', at_reply=once("one more"))
        assert (await plan.agent.run("go", output_type=Answer)).output == Answer(3)
        assert roles(plan.agent) == "u a u a u a"

    async def test_a_model_that_never_answers_ends_the_run(self) -> None:
        plan = Plan("openai-chat", *["no"] * 9, during=do_nothing)
        plan = Plan(
            "openai-chat",
            *["no"] * 9,
            at_reply=lambda plan: len(plan.wiretap.requests) == 3 and plan.deliver("more"),
        )
        with pytest.raises(MissingOutput) as error:
            await plan.agent.run("go", output_type=Answer)
        assert "did not give it in 3 attempts" in plan.deliveries[0].reason
        assert error.value.result.undelivered == tuple(plan.deliveries)


@pytest.fixture(scope="module")
def senders() -> Iterator[Senders]:
    senders = Senders()
    yield senders
    senders.close()


class Storm:
    """One run into which eight threads deliver at every moment, some while the run goes on."""

    def __init__(self, provider: str, seed: int, senders: Senders) -> None:
        self.random, self.senders = random.Random(seed), senders
        self.deliveries: list[Delivery] = []
        self.told: list[Delivered] = []
        calls = self.random.randint(0, 2)
        replies = [self.random.choice([call(n), PAY]) for n in range(calls)]
        plan = self.plan = Plan(
            provider,
            *replies,
            *["done"] * 40,
            during=self.shake,
            at_request=self.shake,
            at_reply=self.shake,
            limits=RunLimits(max_iterations=self.random.randint(2, 12)),
        )
        self.agent = plan.agent

    def shake(self, plan: Plan | None = None) -> None:
        """Let some threads deliver something, and perhaps wait for them."""
        agent = self.agent
        for number in self.random.sample(range(8), self.random.choice([0, 0, 1, 2, 3])):
            when = self.random.choice(["soon", "idle"])
            id = self.random.choice(["", f"m{self.random.randint(0, 20)}"])
            text, takes_back = f"message {id or self.random.random()}", self.random.random() < 0.1

            def deliver(
                when: Any = when, id: str = id, text: str = text, takes_back: bool = takes_back
            ) -> None:
                delivery = agent.deliver(text, when=when, id=id)
                self.deliveries.append(delivery)
                if takes_back:
                    delivery.withdraw()

            self.senders.tell(number, deliver)
        if self.random.random() < 0.5:
            self.senders.wait()

    async def play(self) -> None:
        """Run to the end, through saved forms where the run waits."""
        self.shake()
        result = await self._read(self.agent.stream("go"))
        while result.stop == "approval":
            self.shake()
            self.senders.wait()
            if self.random.random() < 0.5:
                self._load()
            result = await self._read(self.agent.resume_stream({result.requests[0].fingerprint: True}))
        self.shake()
        self.senders.wait()
        self.check(result)

    async def _read(self, events: AsyncGenerator[RunEvent]) -> RunResult:
        async for event in events:
            if isinstance(event, Delivered):
                self.told.append(event)
            elif isinstance(event, RunDone):
                return event.result
        raise AssertionError("a run ends with its result")

    def _load(self) -> None:
        """Continue with the saved form; what was queued is the same there."""
        before = {id(delivery): delivery for delivery in self.deliveries}.values()
        agent = Agent.load(
            self.agent.save(),
            transport=self.plan.wiretap,
            tools=list(self.agent.tools),
            hooks=[self.plan.hooks],
            limits=self.plan.limits,
        )
        self.deliveries = [agent.deliver(old.message, id=old.id) for old in before]
        states = [(new.state, new.index, new.reason) for new in self.deliveries]
        assert states == [(old.state, old.index, old.reason) for old in before]
        self.agent = agent

    def check(self, result: RunResult) -> None:
        deliveries = list({id(delivery): delivery for delivery in self.deliveries}.values())
        conversation = self.agent.conversation
        assert {delivery.state for delivery in deliveries} <= {"delivered", "refused", "withdrawn"}
        check_deliveries(conversation, deliveries)
        delivered = sorted(
            (delivery for delivery in deliveries if delivery.state == "delivered"),
            key=lambda delivery: delivery.index or 0,
        )
        assert [(event.id, event.index) for event in self.told] == [(d.id, d.index) for d in delivered]
        assert [*conversation.delivered] == [delivery.index for delivery in delivered]
        assert {*map(id, result.undelivered)} <= {id(d) for d in deliveries if d.state == "refused"}
        assert find_unpaired(conversation) == []
        said = [message.text for message in conversation if message.role == "user"]
        assert sorted(said) == sorted(["go", *(delivery.message.text for delivery in delivered)])
        ids = [delivery.id for delivery in deliveries]
        assert len(ids) == len({*ids})
        assert len(self.plan.wiretap.requests) == result.iterations


@EVERYWHERE
def test_nothing_is_lost_or_taken_twice_whoever_delivers_when(provider: str, senders: Senders) -> None:
    """1,000 runs: 200 for each wire. The seed decides who delivers at which step, not how the threads are
    interleaved: what is checked holds for every order.
    """
    refused = delivered = 0
    for seed in range(200):
        storm = Storm(provider, seed, senders)
        run(storm.play())
        delivered += sum(delivery.state == "delivered" for delivery in storm.deliveries)
        refused += sum(delivery.state == "refused" for delivery in storm.deliveries)
        if seed % 20 == 0:
            check_bodies(storm.agent.view().engine, storm.plan.wiretap)
            check(storm.agent.conversation, everywhere=False)
    assert delivered > 200
    assert refused > 200
