"""Messages for a run in progress: where they go, that none is lost or taken twice, and what is refused."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest

from toolglot.errors import MalformedData, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.context_window import SUMMARY_PROMPT, ContextPolicy
from toolglot.loop.inbox import Inbox
from toolglot.loop.limits import RunLimits
from toolglot.tools.tool import Tool, tool
from toolglot.values.deliveries import Delivery
from toolglot.values.events import ContextTruncated, Delivered, RunDone
from toolglot.values.messages import (
    Conversation,
    Media,
    Message,
    Reply,
    Text,
    ToolCall,
    assistant,
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
    hook,
    make_agent,
    outcome,
)

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
        hooks = hook(
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
    places = {delivery.index for delivery in deliveries if delivery.state == "delivered"}
    assert len(places) == sum(delivery.state == "delivered" for delivery in deliveries)
    for delivery in deliveries:
        copies = sum(message is delivery.message for message in conversation)
        assert copies == (delivery.state == "delivered"), delivery
        if delivery.state == "delivered":
            assert delivery.index is not None
            assert conversation[delivery.index] is delivery.message
        else:
            assert delivery.index is None
        assert bool(delivery.reason) == (delivery.state == "refused")


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

        plan = Plan("anthropic", CALL, "done", during=append)
        await plan.agent.run("go", conversation=conversation)
        assert [message.text for message in conversation if message.role == "user"] == ["go", "here"]


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
        for delivered in ("[1]", "[9]", "[-1]"):
            with pytest.raises(MalformedData, match="the saved deliveries do not fit the conversation"):
                Agent.load(saved.replace(b"}\n", b',"delivered":%s}\n' % delivered.encode(), 1))
