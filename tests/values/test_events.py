"""Every event of a run reaches everybody who shows runs, and a new one cannot be forgotten.

The consumers end in `assert_never`: pyright finds one that lacks an event, and so does this.
"""

import asyncio
import io
from collections.abc import Callable
from typing import Any, cast, get_args

import pytest
from rich.console import Console

from toolglot.acp.file_watch import FileWatch
from toolglot.acp.presenter import RunPresenter
from toolglot.bridges.ag_ui import AgUiEncoder
from toolglot.bridges.event_streams import FrontEndRequest
from toolglot.bridges.vercel import VercelEncoder
from toolglot.cli.chat.screen import Screen
from toolglot.cli.run import _JsonPresenter, _TextPresenter  # pyright: ignore[reportPrivateUsage]
from toolglot.loop.agent.agent import Agent
from toolglot.values import events as ev
from toolglot.values.approvals import ApprovalRequest, Suspended
from toolglot.values.messages import Reply, Text, ToolCall, ToolResult, user

CALL = ToolCall("c1", "look", {"place": "there"})
EVENTS: list[ev.RunEvent] = [
    ev.ReplyStarted("r1", "m"),
    ev.BlockStarted(0, Text("")),
    ev.TextDelta(0, "an answer"),
    ev.BlockReady(0, Text("an answer")),
    ev.ThinkingDelta(1, "a thought"),
    ev.ToolCallStarted(2, "c1", "look"),
    ev.ToolCallDelta(2, "{}"),
    ev.ToolCallReady(2, CALL),
    ev.ReplyDone(Reply((Text("an answer"), CALL), "tools")),
    ev.ApprovalNeeded((ApprovalRequest(CALL, "look", frozenset(), "", reason="it asks"),)),
    ev.AnswerNeeded((Suspended(ApprovalRequest(CALL, "look", frozenset(), ""), ("c1",), "external"),)),
    ev.ToolStarted(CALL),
    ev.InnerEvent(("c2",), ev.ToolProgress(CALL, "almost")),
    ev.ToolProgress(CALL, "half"),
    ev.ToolFinished(ev.ToolOutcome(CALL, ToolResult("c1", (Text("seen"),)))),
    ev.Delivered("m1", 5, user("and hurry")),
    ev.Retrying("busy", 2.0, 1),
    ev.RequestDelayed("a limit", 2.0),
    ev.ModelSwitched("other:model", "it failed"),
    ev.ContextTruncated("2 older messages are left out", 2, 100, 50, "they spoke"),
    ev.RunDone(ev.RunResult("an answer")),
]
NOTICES = {
    ev.Retrying: "retrying in 2.0 s: busy",
    ev.RequestDelayed: "waiting for 2.0 s: a limit",
    ev.ModelSwitched: "continuing with other:model: it failed",
    ev.ContextTruncated: "2 older messages are left out",
}
TEXTS = [event.text for event in EVENTS if isinstance(event, ev.Notice)]


def test_there_is_an_example_of_each_event() -> None:
    assert {type(event) for event in EVENTS} == {*get_args(ev.RunEvent)}


def test_the_results_of_a_run_are_those_of_its_outcomes() -> None:
    first, second = ToolResult("c1", (Text("3"),), data=3), ToolResult("c2", (Text("no"),), is_error=True)
    result = ev.RunResult(
        "done", outcomes=(ev.ToolOutcome(CALL, first), ev.ToolOutcome(CALL, second, ran=False))
    )
    assert result.results == (first, second)
    assert [(item.text, item.data, item.is_error) for item in result.results] == [
        ("3", 3, False),
        ("no", None, True),
    ]
    assert ev.RunResult("none").results == ()


def test_a_notice_has_one_text() -> None:
    texts = {type(event): event.text for event in EVENTS if isinstance(event, ev.Notice)}
    assert {notice: texts[notice] for notice in NOTICES} == NOTICES
    assert all(TEXTS)


def show_in_chat() -> str:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200))
    for event in EVENTS:
        screen.show_event(event)
    return out.getvalue()


def show_in_editor() -> str:
    updates: list[Any] = []

    async def send(update: Any) -> None:
        updates.append(update.model_dump_json())

    async def read_buffer(path: str) -> None:
        return None

    async def show() -> None:
        presenter = RunPresenter(
            send, lambda call: None, lambda call: call, FileWatch(lambda call: None, read_buffer), "/"
        )
        for event in EVENTS:
            await presenter.show_event(event)

    asyncio.run(show())
    return "\n".join(updates)


def encode_with(encoder: Any) -> str:
    return "\n".join(str(chunk) for event in EVENTS for chunk in encoder.encode(event))


def print_with(presenter: Callable[[Any], Any]) -> str:
    data = io.BytesIO()
    out = io.TextIOWrapper(data, encoding="utf-8", write_through=True)
    for event in EVENTS:
        presenter(out).show_event(event)
    return data.getvalue().decode()


@pytest.mark.parametrize(
    ("show", "needles"),
    [
        (show_in_chat, [*TEXTS, "an answer", "look", "seen"]),
        (show_in_editor, [*TEXTS, "an answer", "look", "seen"]),
        (
            lambda: encode_with(AgUiEncoder(FrontEndRequest(chat_id="c"))),
            ["retrying", "model_switched", "an answer", "seen"],
        ),
        (
            lambda: encode_with(VercelEncoder(FrontEndRequest(chat_id="c"))),
            ["retrying", "model-switched", "an answer", "seen"],
        ),
        (lambda: print_with(lambda out: _TextPresenter(out, cast(Any, None), Agent())), ["an answer"]),
        (
            lambda: print_with(_JsonPresenter),
            [f'"type":"{event.__name__}"' for event in get_args(ev.RunEvent)],
        ),
    ],
    ids=["chat", "editor", "AG-UI", "Vercel", "run", "run --json"],
)
def test_every_event_is_handled(show: Callable[[], str], needles: list[str]) -> None:
    text = show()
    assert [needle for needle in needles if needle not in text] == []
