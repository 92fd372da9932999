"""Laws of the pure loop, on random walks: replies, results, decisions, interrupts and other processes, in any
order.
"""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.loop.run import AskModel, CallTools, Done, NeedApproval, Run, RunState
from toolglot.values.approvals import Allow, Deny, Ruling, SuspensionRecord
from toolglot.values.messages import (
    Conversation,
    Message,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    load,
    save,
    user,
)

from .agents import check, find_unpaired, results_of

pytestmark = pytest.mark.untraced

STOPS = ("end", "tools", "length", "refusal", "filtered", "pause", "error")
MOST = 4


class Walk:
    """A driver that does anything that a driver may do, and keeps count of what was run."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.run = Run(Conversation([user("hi")]), max_iterations=MOST)
        self.calls: list[ToolCall] = []
        self.ran: Counter[int] = Counter()  # by number among all calls
        self.begun: set[int] = set()
        self.first = 0  # number of the first call of the turn
        self.asked = 0

    def choose(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def step(self) -> bool:
        """One step; False at the end."""
        step = self.run.next()
        assert self.run.next() == step, "asking twice changes nothing"
        if self.choose(*"no" * 4, "yes") == "yes":
            self.other_process()
        match self.run.next():
            case Done():
                return False
            case AskModel() as ask:
                self.asked += 1
                assert ask.last == (self.run.iteration >= MOST)
                if self.choose("go", "go", "go", "go", "interrupt") == "interrupt":
                    self.run.interrupt(self.choose(None, "", "half"))
                else:
                    self.reply()
            case CallTools(calls):
                self.call(calls)
            case NeedApproval(calls):
                self.decide(calls)
        return True

    def reply(self) -> None:
        parts = self.draw(st.lists(st.sampled_from(["call", "text", "thought", "broken"]), max_size=4))
        ids = self.draw(st.sampled_from([("a", "b", "c", "d"), ("a", "a", "b", "b"), ("a",) * 4]))
        blocks = [self.block(part, f"{ids[at]}{self.asked}") for at, part in enumerate(parts)]
        answer = Reply(tuple(blocks), self.choose(*STOPS))
        self.first = len(self.calls)
        self.run.add_reply(answer)
        assert self.run.reply is not None
        assert len({call.id for call in self.run.reply.calls}) == len(answer.calls), (
            "each has an id of its own"
        )
        self.calls += self.run.reply.calls
        if answer.stop in ("refusal", "filtered", "error"):
            assert not isinstance(self.run.next(), CallTools)

    def block(self, part: str, id: str) -> Any:
        match part:
            case "call":
                return ToolCall(id, self.choose("get", "put"), {"x": 1})
            case "broken":
                return ToolCall(id, "get", None, '{"x"')
            case "text":
                return Text("words")
            case _:
                return Thinking("hm")

    def call(self, calls: tuple[tuple[int, ToolCall], ...]) -> None:
        assert [number for number, _ in calls] == sorted({number for number, _ in calls})
        for number, call in self.draw(st.permutations(calls)):
            action = self.choose("run", "run", "run", "refuse", "wait", "begin", "stop", "error")
            if action == "wait" and number not in self.run.rulings:
                self.run.suspend(number, SuspensionRecord())
                continue
            if action == "refuse":
                self.run.add_result(number, ToolResult(call.id, (Text("no"),), call.name, is_error=True))
                continue
            if action in ("stop", "error"):
                self.run.interrupt() if action == "stop" else self.run.abandon("cancelled", "an error")
                if action == "error":
                    self.run.finish("error")
                return
            assert self.first + number not in self.begun, "offered again although it was started"
            self.begun.add(self.first + number)
            self.run.mark_started(number)
            self.ran[self.first + number] += 1
            if action == "run":
                self.run.add_result(number, ToolResult(call.id, (Text(str(self.first + number)),), call.name))
            else:
                self.other_process()  # it crashed in the middle of the call
                return

    def decide(self, calls: tuple[tuple[int, ToolCall], ...]) -> None:
        if self.choose("decide", "decide", "leave") == "leave":
            self.run.interrupt()
            return
        indexes = self.draw(st.lists(st.sampled_from([index for index, _ in calls]), unique=True, min_size=1))
        self.run.decide({index: {(): Ruling("", self.choose(Allow(), Deny()))} for index in indexes})

    def other_process(self) -> None:
        state = msgspec.json.decode(msgspec.json.encode(self.run.snapshot("tools")), type=RunState)
        conversation, _ = load(save(self.run.conversation))
        assert conversation == self.run.conversation
        self.run = Run(conversation, max_iterations=MOST, state=state)

    def check(self) -> None:
        """At any point: closed turns are whole, and only the last message may have calls that wait."""
        messages = list(self.run.conversation)
        last = messages[-1]
        assert find_unpaired(messages[:-1] if last.calls else messages) == []


@settings(max_examples=300)
@given(st.data())
def test_every_call_has_one_result_and_nothing_runs_twice(data: st.DataObject) -> None:
    walk = Walk(data.draw)
    steps = 0
    while walk.step():
        walk.check()
        steps += 1
        assert steps < 200, "the loop does not end"
    assert find_unpaired(walk.run.conversation) == []
    calls = [call for message in walk.run.conversation for call in message.calls]
    assert calls == walk.calls
    assert len(results_of(walk.run.conversation)) == len(calls)
    assert all(count == 1 for count in walk.ran.values())
    for number, result in enumerate(results_of(walk.run.conversation)):
        assert result.call_id == calls[number].id
        if not result.is_error:
            assert result.text == str(number), "a result is that of its own call"
    assert walk.asked <= MOST + 2


@settings(max_examples=60)
@given(st.data())
def test_providers_take_what_is_left_of_any_walk(data: st.DataObject) -> None:
    walk = Walk(data.draw)
    for _ in range(data.draw(st.integers(0, 12))):
        if not walk.step():
            break
    walk.run.interrupt(data.draw(st.sampled_from([None, "half a sentence"])))
    check(list[Message](walk.run.conversation))
