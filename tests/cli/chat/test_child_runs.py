"""What the chat shows of sub-agents: one line for each that works, one when it is done, and the rest folded."""

import re
from typing import Any

import pytest
from chat_harness import a_screen, plain
from rich.cells import cell_len
from tests.cli.chat.test_screen import HOSTILE, bottom, harmful
from tests.loop.agents import make_agent
from tests.loop.test_subagents import PAY, Bank, ask, say_yes

import toolglot.values.events as ev
from toolglot.cli.chat.screen import Screen
from toolglot.loop.limits import RunLimits
from toolglot.values.messages import Text, ToolCall, ToolResult, Usage

OUTER = ToolCall("c1", "research", {"prompt": "Find out what invoice 7 is about, and settle it."})
LOOK = ToolCall("c2", "look", {"place": "the archive"})
PAYMENTS = ToolCall("c3", "payments", {"prompt": "Pay 90."})
SPEND = ToolCall("c2", "pay", {"amount": 90})  # ids of other runs may be the same
DONE = ev.RunResult("Done.", usage=Usage(1_000, 234), iterations=2)
WIDTHS = (80, 120)


def inner(event: ev.RunEvent, *path: str) -> ev.InnerEvent:
    return ev.InnerEvent(path or ("c1",), event)


def finish(call: ToolCall, text: str = "Done.", *, failed: bool = False) -> ev.ToolFinished:
    result = ToolResult(call.id, (Text(text),), is_error=failed)
    return ev.ToolFinished(ev.ToolOutcome(call, result, 1.25))


def start(width: int = 80, *, moves: bool = True) -> tuple[Screen, Any]:
    screen, out = a_screen(width, moves=moves)
    feed(screen, ev.ToolCallReady(0, OUTER), ev.ToolStarted(OUTER))
    return screen, out


def feed(screen: Screen, *events: ev.RunEvent) -> Screen:
    for event in events:
        screen.show_event(event)
    return screen


def live(screen: Screen, width: int = 80) -> list[str]:
    """The moving lines, without the spinner and the seconds."""
    lines = bottom(screen, width)
    assert all(cell_len(line) <= width for line in lines)
    return [re.sub(r"^. |(?<= )\d+ s", "", line).rstrip() for line in lines]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_line_says_what_a_sub_agent_does_now(width: int) -> None:
    screen, _ = start(width)
    assert live(screen, width)[0].startswith("research   prompt: ")
    steps: list[tuple[ev.RunEvent, str]] = [
        (ev.ReplyStarted("r", "m"), "research   asks the model"),
        (ev.ThinkingDelta(0, "hm"), "research   thinks"),
        (ev.ToolCallStarted(1, "c2", "look"), "research   calls look"),
        (ev.ToolStarted(LOOK), 'research   look place: "the archive"'),
        (ev.ToolProgress(LOOK, "half way"), "research   look: half way"),
        (finish(LOOK), "research   asks the model"),
        (ev.ReplyStarted("r2", "m"), "research , request 2  asks the model"),
        (ev.TextDelta(0, "It is\n\nabout"), "research , request 2  It is about"),
        (ev.Retrying("busy", 2.0, 1), "research , request 2  retrying in 2.0 s: busy"),
        (ev.ApprovalNeeded(()), "research , request 2  waits for approval"),
        (ev.AnswerNeeded(()), "research , request 2  waits for an answer"),
    ]
    for event, line in steps:
        assert live(feed(screen, inner(event)), width) == [line]


@pytest.mark.parametrize("width", WIDTHS)
def test_of_a_long_text_the_end_is_seen(width: int) -> None:
    screen, _ = start(width)
    feed(screen, inner(ev.TextDelta(0, "word " * 100)), inner(ev.TextDelta(0, "the end")))
    [line] = live(screen, width)
    assert line.endswith("word the end")
    assert "  …" in line
    assert len(line) > width - 15


def test_each_sub_agent_has_a_line_below_the_one_that_called_it() -> None:
    screen, _ = start()
    second = ToolCall("c9", "research", {"prompt": "Something else."})
    feed(screen, ev.ToolCallReady(1, second), ev.ToolStarted(second), inner(ev.ReplyStarted("r", "m"), "c9"))
    feed(screen, inner(ev.ToolStarted(LOOK)), inner(ev.ToolStarted(PAYMENTS)))
    feed(screen, inner(ev.ReplyStarted("r", "m"), "c1", "c3"), inner(ev.ToolStarted(SPEND), "c1", "c3"))
    assert live(screen) == [
        'research   payments prompt: "Pay 90."',
        "  payments   pay amount: 90",
        "research   asks the model",
    ]
    feed(screen, inner(finish(SPEND), "c1", "c3"), inner(ev.RunDone(DONE), "c1", "c3"))
    feed(screen, inner(finish(PAYMENTS)))
    assert live(screen)[0] == 'research   look place: "the archive"'  # which still runs
    feed(screen, inner(finish(LOOK)), inner(ev.RunDone(DONE)))
    assert live(screen) == ["research  2 requests, 1,234 tokens", "research   asks the model"]
    feed(screen, finish(OUTER))
    assert live(screen) == ["research   asks the model"]


@pytest.mark.parametrize("width", [40, *WIDTHS])
def test_one_that_is_done_is_one_line(width: int) -> None:
    screen, out = start(width)
    feed(screen, inner(ev.ToolStarted(PAYMENTS)), inner(ev.ToolStarted(SPEND), "c1", "c3"))
    feed(screen, inner(finish(SPEND), "c1", "c3"), inner(ev.RunDone(DONE), "c1", "c3"))
    feed(screen, inner(finish(PAYMENTS)), inner(finish(LOOK, failed=True)))
    feed(screen, inner(ev.RunDone(DONE)), finish(OUTER, "The answer.\nOf two lines."))
    drawn = plain(out.getvalue()).splitlines()
    tail = "  1.2 s · 2 requests, 1,234 tokens · /show 1"
    if width == 40:  # too narrow for the task, and for one line
        assert " ".join(" ".join(drawn).split()) == f"● research {tail.strip()}"
    else:
        task = (
            'prompt: "Find out what …'
            if width == 80
            else 'prompt: "Find out what invoice 7 is about, and settle it."'
        )
        assert drawn == [f"● research {task}{tail}"]
        assert cell_len(drawn[0]) < width
    assert screen.folded_texts[0].text.splitlines() == [
        "  ● pay amount: 90 1.2 s",
        "  payments: 2 requests, 1,234 tokens",
        '● payments prompt: "Pay 90." 1.2 s',
        '✗ look place: "the archive" 1.2 s',
        "",
        "The answer.",
        "Of two lines.",
    ]


def test_in_a_pipe_the_task_is_told_and_nothing_moves() -> None:
    screen, out = start(moves=False)
    feed(screen, inner(ev.ReplyStarted("r", "m")), inner(ev.RunDone(DONE)), finish(OUTER))
    task = 'prompt: "Find out what invoice 7 is about, and settle it."'
    assert plain(out.getvalue()) == f"● research {task}  1.2 s · 2 requests, 1,234 tokens · /show 1\n"


def test_why_one_has_failed_is_not_folded() -> None:
    child = make_agent("anthropic", tools=Bank().tools)
    tool = child.as_tool("research", "Researches.", limits=RunLimits(max_total_tokens=1))
    screen, out = a_screen(moves=True)
    for event in make_agent("anthropic", tools=[tool]).stream_sync(
        ask("research", 'call look {"place": "a"}')
    ):
        feed(screen, event)
    lines = plain(out.getvalue()).splitlines()
    assert re.fullmatch(r"✗ research .*  \d\.\d s · 1 request, \d+ tokens · /show 1", lines[0])
    assert lines[1].startswith("  └ The agent research did not finish: it stopped early (budget)")


def test_one_that_never_ended_says_so() -> None:
    screen, out = start()
    feed(screen, inner(ev.ReplyStarted("r", "m")), finish(OUTER, "It broke.", failed=True))
    assert "1.2 s · stopped · /show 1" in plain(out.getvalue())


def test_many_steps_are_counted() -> None:
    screen, _ = start()
    for _ in range(1_005):
        feed(screen, inner(ev.ToolStarted(LOOK)), inner(finish(LOOK)))
    feed(screen, inner(ev.RunDone(DONE)), finish(OUTER))
    lines = screen.folded_texts[0].text.splitlines()
    assert (len(lines), lines[1_000:]) == (1_003, ["… 5 more steps", "", "Done."])


def test_nothing_of_it_is_a_command_to_the_terminal() -> None:
    bad = ToolCall("c2", HOSTILE, {"place": HOSTILE})
    screen, out = start()
    for event in (ev.ToolCallStarted(0, "c2", HOSTILE), ev.ToolStarted(bad), ev.TextDelta(0, HOSTILE)):
        feed(screen, inner(event))
        assert not harmful("\n".join(bottom(screen, 80)))
    deep = ev.InnerEvent(("c1", "c2"), ev.ReplyStarted("r", "m"))
    feed(screen, deep)
    assert not harmful("\n".join(bottom(screen, 80)))
    feed(screen, inner(finish(bad, HOSTILE)), inner(ev.RunDone(DONE)), finish(OUTER, HOSTILE))
    assert not harmful(plain(out.getvalue()) + screen.folded_texts[0].text)


def test_they_leave_room_for_the_rest() -> None:
    screen, _ = start()
    for number in range(30):
        call = ToolCall(f"n{number}", "payments", {"prompt": "x"})
        feed(screen, inner(ev.ToolStarted(call)), inner(ev.ReplyStarted("r", "m"), "c1", call.id))
    assert len(bottom(screen, 80, 24)) <= 8


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_over_two_levels(width: int) -> None:
    bank = Bank()
    inner_agent = make_agent("anthropic", tools=bank.tools, approve=say_yes)
    middle = make_agent("anthropic", tools=[inner_agent.as_tool("payments", "Pays.")])
    agent = make_agent("anthropic", tools=[middle.as_tool("research", "Researches.")])
    screen, out = a_screen(width, moves=True)
    seen = set[str]()
    for event in agent.stream_sync(ask("research", ask("payments", PAY))):
        seen.update(live(feed(screen, event), width))
    assert {"  payments   pay amount: 90", "  payments , request 2  asks the model"} <= seen
    assert bank.paid == [90]
    assert re.match(r"● research .* · 2 requests, \d+ tokens · /show 1\n", plain(out.getvalue()))
