"""The screen of a chat: every event, on terminals of all widths and in pipes."""

import asyncio
import io
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from chat_harness import a_screen, add, plain
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.cli.cli_kit import Patch

import toolglot.values.events as ev
from toolglot.cli.chat.launch import create_console
from toolglot.cli.chat.screen import Screen
from toolglot.config.setting_schema import setting_fields
from toolglot.config.settings import ChatSettings
from toolglot.loop.agent.agent import Agent
from toolglot.loop.format_call import describe_losses, describe_stop, format_arguments
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.losses import Loss
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
)

CALL = ToolCall("c1", "look", {"place": "here", "deep": True})
DONE = ev.RunDone(ev.RunResult(""))
LOSS = Loss("thinking", "messages[1]", "another model made it")
WIDTHS = (20, 40, 100)
HOSTILE = "\x1b[31mred\x1b]8;;http://x\x07\x9b2J\u202egnp\x00\r\x08"


def outcome(
    text: str = "done", *, call: ToolCall = CALL, failed: bool = False, ran: bool = True
) -> ev.ToolFinished:
    return ev.ToolFinished(
        ev.ToolOutcome(call, ToolResult(call.id, (Text(text),), is_error=failed), 1.25, ran=ran)
    )


def reply() -> Reply:
    return Reply(assistant("x").blocks, "end")


EVENTS: list[ev.RunEvent] = [
    ev.ReplyStarted("r1", "m"),
    ev.BlockStarted(0, Thinking("")),
    ev.ThinkingDelta(0, "I should look."),
    ev.TextDelta(1, "Some **bold** text.\n\nAnd more"),
    ev.ToolCallStarted(2, "c1", "look"),
    ev.ToolCallDelta(2, '{"place":'),
    ev.ToolCallReady(2, CALL),
    ev.BlockReady(3, Media("image", "image/png", "aGk=")),
    ev.BlockReady(4, Foreign("openai-responses", {"type": "web_search_call", "id": "ws"})),
    ev.BlockReady(5, Foreign("gemini", "odd")),
    ev.BlockReady(6, Text("Some")),
    ev.ReplyDone(reply()),
    ev.ApprovalNeeded((ApprovalRequest(CALL, "look", frozenset(), ""),)),
    ev.ToolStarted(CALL),
    ev.ToolProgress(CALL, "half way"),
    outcome(),
    ev.Retrying("busy", 2.0, 1),
    ev.ModelSwitched("other:model", "it failed"),
    ev.ContextTruncated("2 older messages are left out", 2, 100, 50, "they spoke"),
    ev.RunDone(ev.RunResult("Some", usage=Usage(12, 3), losses=(LOSS,), iterations=2)),
]


def feed(screen: Screen, *events: ev.RunEvent) -> Screen:
    for event in events:
        screen.show_event(event)
    return screen


def moving(width: int, *events: ev.RunEvent) -> Screen:
    """A screen on a terminal after some events."""
    return feed(a_screen(width, moves=True)[0], *events)


def render_events(
    events: Iterable[ev.RunEvent],
    width: int = 80,
    *,
    moves: bool = False,
    settings: ChatSettings | None = None,
) -> str:
    screen, out = a_screen(width, moves=moves, settings=settings)
    feed(screen, *events)
    return plain(out.getvalue())


def bottom(screen: Screen, width: int, height: int = 24) -> list[str]:
    """The moving lines, as wide as they are drawn."""
    out = io.StringIO()
    console = Console(file=out, width=500, height=height, force_terminal=False, highlight=False, _environ={})
    for line in screen.render_live_area(width, height):
        console.print(line)
    return out.getvalue().removesuffix("\n").split("\n") if out.getvalue().strip() else []


def harmful(text: str) -> list[str]:
    return [
        character
        for character in text
        if (unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n")
        or character in "\u202e\u2066"
    ]


def test_settings_that_explain_a_stop_exist() -> None:
    keys = {field.key_text for field in setting_fields()}
    named = [key for stop in get_args(ev.RunStop) for key in re.findall(r"\w+\.\w+", describe_stop(stop))]
    assert len(named) == 5
    assert {*named} <= keys


class TestEvents:
    @pytest.mark.parametrize("moves", [True, False])
    @pytest.mark.parametrize("width", WIDTHS)
    def test_every_event_is_taken(self, width: int, moves: bool) -> None:
        screen, out = a_screen(width, moves=moves)
        with screen.turn():
            for event in EVENTS:
                screen.show_event(event)
                screen.render_live_area(width, 24)
        text = plain(out.getvalue())
        assert "look" in text
        assert "bold" in text

    @pytest.mark.parametrize("moves", [True, False])
    @pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
    def test_any_event_may_be_the_first(self, event: ev.RunEvent, moves: bool) -> None:
        screen, _ = a_screen(moves=moves)
        with screen.turn():
            screen.show_event(event)

    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            (ev.Retrying("busy", 2.0, 1), "retrying in 2.0 s: busy"),
            (ev.RequestDelayed("gemini is limited", 2.0), "waiting for 2.0 s: gemini is limited"),
            (ev.ModelSwitched("other:model", "it failed"), "continuing with other:model: it failed"),
            (
                ev.ContextTruncated("2 older messages are left out", 2, 100, 50),
                "2 older messages are left out",
            ),
            (ev.BlockReady(0, Media("image", "image/png", "aGk=")), "[image image/png, 3 bytes]"),
            (ev.BlockReady(0, Media("file", url="https://x")), "[file"),
            (ev.BlockReady(0, Foreign("gemini", {"type": "code"})), "[gemini code] · /show 1"),
            (
                ev.RunDone(ev.RunResult("", stop="length")),
                "stopped early (length): the reply was truncated by the length limit",
            ),
            (
                ev.RunDone(ev.RunResult("", usage=Usage(12_345, 6, 1_000))),
                "12k tokens in (1,000 cached), 6 out",
            ),
            (ev.RunDone(ev.RunResult("", cost=0.01234)), "$0.0123"),
            (ev.RunDone(ev.RunResult("", iterations=3)), "3 requests"),
            (outcome("no such place", failed=True), "✗ look"),
            (outcome("a\nb\nc\nd"), "1 more line ·"),
            (ev.ToolFinished(ev.ToolOutcome(CALL, ToolResult("c1", ()), 0.1)), "(no output)"),
            (ev.ToolFinished(ev.ToolOutcome(CALL, ToolResult("c1", (Text("  \n"),)), 0.1)), "(no output)"),
            (
                ev.ToolFinished(
                    ev.ToolOutcome(CALL, ToolResult("c1", (Media("image", "image/png", "aGk="),)), 0.1)
                ),
                "[image",
            ),
        ],
    )
    def test_an_event_is_said_in_a_line(self, event: ev.RunEvent, expected: str) -> None:
        for moves in (True, False):
            assert expected in render_events([event], moves=moves)

    @pytest.mark.parametrize(
        ("events", "unwanted"),
        [
            ([outcome("refused", failed=True, ran=False)], " s\n"),
            ([outcome("and so on…")], "/show"),
            ([ev.ThinkingDelta(0, " \n"), ev.TextDelta(1, "x"), DONE], "thought"),
            ([ev.TextDelta(0, "one\r"), ev.TextDelta(0, "\ntwo"), DONE], "␍"),
        ],
    )
    def test_what_is_not_shown(self, events: list[ev.RunEvent], unwanted: str) -> None:
        for moves in (True, False):
            assert unwanted not in render_events(events, moves=moves)

    @pytest.mark.parametrize("moves", [True, False])
    def test_things_are_shown_in_the_order_in_which_they_came(self, moves: bool) -> None:
        foreign = ev.BlockReady(1, Foreign("gemini", {"type": "code"}))
        text = render_events(
            [ev.TextDelta(0, "before"), foreign, ev.TextDelta(2, "after"), DONE], moves=moves
        )
        assert text.index("before") < text.index("[gemini code") < text.index("after")

    @pytest.mark.parametrize("moves", [True, False])
    def test_a_result_that_comes_in_the_middle_of_a_text_begins_its_own_line(self, moves: bool) -> None:
        text = render_events(
            [ev.ToolCallReady(0, CALL), ev.TextDelta(1, "I go on"), outcome(), DONE], moves=moves
        )
        assert not [line for line in text.splitlines() if "go on" in line and "look" in line]

    def test_a_summary_is_folded(self) -> None:
        screen = moving(80, ev.ContextTruncated("cut", 1, 2, 1, "they spoke"))
        assert [folded.text for folded in screen.folded_texts] == ["they spoke"]


class TestText:
    def test_in_a_pipe_text_is_what_the_model_said(self) -> None:
        text = render_events(
            [ev.TextDelta(0, "**a** <b>\n\n- c"), ev.TextDelta(0, "\n"), ev.TextDelta(0, "end"), DONE]
        )
        assert text.startswith("**a** <b>\n\n- c\nend\n")

    def test_on_a_terminal_text_is_drawn_block_by_block(self) -> None:
        screen, out = a_screen(40, moves=True)
        screen.show_event(ev.TextDelta(0, "# Title\n\nfirst **bold**\n\nsecond\nthi"))
        assert "first bold" in plain(out.getvalue())
        assert "second" not in plain(out.getvalue())
        assert bottom(screen, 40) == ["second", "thi"]

    @pytest.mark.parametrize(
        ("text", "drawn"),
        [
            *((tag, tag) for tag in ("a <b>bold</b> c", "<script>x</script>", "x < y > z", "<!-- note -->")),
            ("[bank](https://evil.example)", "https://evil.example"),
            ("![cat](https://evil.example/cat.png)", "https://evil.example/cat.png"),
        ],
    )
    def test_tags_and_addresses_are_visible(self, text: str, drawn: str) -> None:
        assert drawn in render_events([ev.TextDelta(0, text), DONE], moves=True)

    @pytest.mark.parametrize(
        "block", ["- one\n- two", "1. one\n2. two", "> quoted", "# title", "| a |\n|---|\n| 1 |"]
    )
    def test_blocks_are_not_far_apart(self, block: str) -> None:
        drawn = render_events([ev.TextDelta(0, f"before\n\n{block}\n\nafter"), DONE], moves=True)
        assert not re.search(r"\n *\n *\n *\n", drawn)
        assert block.startswith("|") or not re.search(r"\n *\n *\n", drawn)

    def test_waiting_and_silence_name_the_key_that_stops(self) -> None:
        screen, _ = a_screen(80, moves=True)
        with screen.turn():
            assert bottom(screen, 80)[0][1:] == " waiting 0 s  Ctrl-C to stop"
            screen.show_event(ev.TextDelta(0, "hello"))
            screen._last_event_at -= 60  # pyright: ignore[reportPrivateUsage]
            assert bottom(screen, 80)[-1][1:] == " no output for 60 s  Ctrl-C to stop"

    @pytest.mark.parametrize("width", WIDTHS)
    def test_no_line_is_wider_than_the_terminal(self, width: int) -> None:
        words = "words and 漢字漢字漢字漢字漢字漢字漢字 and " + "x" * 150
        table = "| a | b |\n|---|---|\n| " + "long cell " * 8 + " | 2 |"
        markdown = (
            f"# {words}\n\n{words}\n\n- {words}\n  - {words}\n\n> {words}\n\n```\n{words}\n```\n\n{table}\n"
        )
        drawn = render_events([ev.TextDelta(0, markdown), DONE], width, moves=True)
        assert max(map(cell_len, drawn.splitlines())) <= width

    @pytest.mark.untraced
    def test_a_long_answer_is_drawn_in_pieces_and_the_rest_stays_small(self) -> None:
        screen, out = a_screen(100, moves=True)
        text = "".join(f"paragraph {number} with some words\n\n" for number in range(2_000))
        waiting = 0
        for start in range(0, len(text), 1_000):
            screen.show_event(ev.TextDelta(0, text[start : start + 1_000]))
            waiting = max(waiting, sum(map(len, bottom(screen, 100))))
        screen.show_event(DONE)
        assert waiting < 2_000
        drawn = plain(out.getvalue())
        assert re.findall(r"paragraph (\d+)", drawn) == [str(number) for number in range(2_000)]


class TestNothingIsObeyed:
    @pytest.mark.parametrize(("moves", "thinking"), [(True, "folded"), (True, "shown"), (False, "shown")])
    def test_nothing_that_a_model_or_a_tool_says_is_a_command_to_the_terminal(
        self, moves: bool, thinking: Any
    ) -> None:
        call = ToolCall("c2", f"na{HOSTILE}me", {f"k{HOSTILE}": HOSTILE})
        events: list[ev.RunEvent] = [
            ev.ThinkingDelta(0, HOSTILE),
            ev.TextDelta(0, f"text {HOSTILE}\n\n```\n{HOSTILE}\n```\n"),
            ev.ToolCallReady(2, call),
            ev.ToolStarted(call),
            outcome(HOSTILE, call=call, failed=True),
            ev.BlockReady(3, Media("image", HOSTILE, "aGk=")),
            ev.BlockReady(4, Foreign(HOSTILE, {"type": HOSTILE})),
            ev.Retrying(HOSTILE, 1, 1),
            ev.ModelSwitched(HOSTILE, HOSTILE),
            ev.ContextTruncated(HOSTILE, 1, 1, 1),
            ev.RunDone(ev.RunResult("", losses=(Loss(HOSTILE, HOSTILE, HOSTILE),))),
        ]
        screen, out = a_screen(100, moves=moves, settings=ChatSettings(thinking=thinking))
        feed(screen, *events).note(HOSTILE, "red")
        assert harmful(plain(out.getvalue())) == []

    def test_nor_is_it_in_the_moving_lines(self) -> None:
        call = ToolCall("c2", f"na{HOSTILE}me\nnext", {"a": HOSTILE})
        screen = moving(100, ev.ThinkingDelta(0, HOSTILE))
        assert harmful("".join(bottom(screen, 100))) == []
        feed(screen, ev.ToolCallStarted(1, "c", call.name), ev.ToolCallDelta(1, HOSTILE))
        feed(screen, ev.ToolCallReady(2, call), ev.ToolStarted(call), ev.ToolProgress(call, HOSTILE))
        assert len(bottom(screen, 100)) == 2
        assert harmful("".join(bottom(screen, 100))) == []
        assert harmful("".join(bottom(feed(screen, ev.TextDelta(3, HOSTILE)), 100))) == []

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
    def test_it_can_be_written_whatever_the_terminal_can_write(
        self, encoding: str, monkeypatch: Patch
    ) -> None:
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        screen = Screen(create_console())
        with screen.turn():
            feed(
                screen,
                *EVENTS,
                ev.TextDelta(0, "lone \ud83d surrogate, 漢字, \x1b"),
                outcome("lone \ud83d 漢字\n" * 9),
            )
            screen.note("漢字 …")


class TestThinking:
    @pytest.mark.parametrize(
        ("how", "seen", "unseen"),
        [
            ("folded", "· /show 1", "secret"),
            ("shown", "secret plan", "/show"),
            ("hidden", "answer", "thought for"),
        ],
    )
    def test_it_is_shown_as_configured(self, how: Any, seen: str, unseen: str) -> None:
        events = [
            ev.ThinkingDelta(0, "a secret "),
            ev.ThinkingDelta(0, "plan"),
            ev.TextDelta(1, "answer"),
            DONE,
        ]
        for moves in (True, False):
            text = render_events(events, moves=moves, settings=ChatSettings(thinking=how))
            assert seen in text
            assert unseen not in text

    def test_it_moves_while_it_lasts_and_is_folded_whole(self) -> None:
        thoughts = [f"thought {number}\n" for number in range(1_000)]
        screen = moving(60, *(ev.ThinkingDelta(0, thought) for thought in thoughts))
        assert "thought 999" in bottom(screen, 60)[0]
        assert "thinking" not in "".join(bottom(feed(screen, ev.TextDelta(1, "answer")), 60))
        assert screen.folded_texts[0].text == "".join(thoughts).strip()

    def test_a_stopped_turn_keeps_it(self) -> None:
        screen, _ = a_screen(60, moves=True)
        with screen.turn():
            screen.show_event(ev.ThinkingDelta(0, "half a thought"))
        assert [folded.text for folded in screen.folded_texts] == ["half a thought"]


class TestCalls:
    def test_a_call_and_its_result_are_two_lines(self) -> None:
        lines = render_events([ev.ToolCallReady(0, CALL), ev.ToolStarted(CALL), outcome("fine")]).splitlines()
        assert lines == ['● look place: "here", deep: true  1.2 s', "  └ fine"]

    @pytest.mark.parametrize(
        ("native", "shown"), [("look", "look"), ("Look", "Look"), ("", "look"), ("View", "View (look)")]
    )
    def test_a_call_has_the_name_that_the_model_gave_it(self, native: str, shown: str) -> None:
        result = ToolResult(CALL.id, (Text("fine"),), native)
        out = render_events([ev.ToolFinished(ev.ToolOutcome(CALL, result, 1.25))])
        assert out.startswith(f"● {shown} place: ")

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_a_long_result_is_folded(self, limit: int) -> None:
        screen, out = a_screen(settings=ChatSettings(result_lines=limit))
        text = "\n".join(f"line {number}" for number in range(10))
        screen.show_event(outcome(text))
        drawn = plain(out.getvalue())
        assert len(re.findall(r"line \d", drawn)) == limit
        assert f"… {10 - limit} more lines · /show 1" in drawn
        assert screen.folded_texts[0].text == text

    @pytest.mark.parametrize(
        ("head", "lines"),
        [
            ("Script failed", ["one", "two"]),
            ("Script running with cell ID 1", ["Script running with cell ID 1", "one", "two"]),
            ("Else", ["Else", "Wall time 0.3 seconds", "Output:", "… 2 more lines · /show 1"]),
        ],
    )
    def test_the_header_of_a_script_leaves_room_for_what_it_showed(self, head: str, lines: list[str]) -> None:
        text = f"{head}\nWall time 0.3 seconds\nOutput:\none\ntwo"
        assert [line[4:] for line in render_events([outcome(text)]).splitlines()[1:]] == lines

    @pytest.mark.parametrize("width", [20, 100])
    @pytest.mark.parametrize(
        "text", ["x" * 300, "漢字" * 100, "a\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn", "é" * 200]
    )
    def test_a_wide_result_stays_in_its_lines(self, text: str, width: int) -> None:
        drawn = render_events([outcome(text)], width, moves=True).splitlines()
        assert max(map(cell_len, drawn)) <= width

    def test_parallel_calls_move_until_each_is_over(self) -> None:
        screen = moving(80)
        calls = [ToolCall(f"c{number}", f"tool_{number}", {"n": number}) for number in range(3)]
        for number, call in enumerate(calls):
            feed(
                screen,
                ev.ToolCallStarted(number, call.id, call.name),
                ev.ToolCallReady(number, call),
                ev.ToolStarted(call),
            )
        feed(screen, ev.ToolProgress(calls[1], "half way"))
        assert [line.split()[1] for line in bottom(screen, 80)] == ["tool_0", "tool_1", "tool_2"]
        assert "half way" in bottom(screen, 80)[1]
        feed(screen, outcome(call=calls[1]))
        assert [line.split()[1] for line in bottom(screen, 80)] == ["tool_0", "tool_2"]

    def test_events_of_calls_that_nobody_announced_are_no_problem(self) -> None:
        stranger = ToolCall("zz", "stranger")
        events = [ev.ToolCallDelta(9, "x"), ev.ToolProgress(stranger, "x"), outcome(call=stranger)]
        assert "stranger" in render_events(events, moves=True)

    def test_a_call_that_was_stopped_is_told(self) -> None:
        screen, out = a_screen()
        with screen.turn():
            feed(screen, ev.ToolCallReady(0, CALL), ev.ToolStarted(CALL))
        assert re.search(r"✗ look .* stopped after 0\.\d s", plain(out.getvalue()))
        with screen.turn():
            pass
        assert out.getvalue().count("stopped after") == 1

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            (ToolCall("c", "t"), ""),
            (ToolCall("c", "t", {}), ""),
            (ToolCall("c", "t", {"a": [1, {"b": None}]}), 'a: [1,{"b":null}]'),
            (ToolCall("c", "t", None, "*** Begin", freeform=True), "*** Begin"),
            (ToolCall("c", "t", None, "{broken"), "{broken"),
            (
                ToolCall(
                    "c",
                    "shell",
                    {
                        "head_share": 0.5,
                        "yield_after": 10.0,
                        "command": "ls",
                        "cwd": ".",
                        "max_output": 40000,
                    },
                ),
                'command: "ls", yield_after: 10.0',
            ),
            (
                ToolCall("c", "shell", {"cwd": "src", "inactivity_timeout": 5, "command": "ls"}),
                'command: "ls", cwd: "src"',
            ),
            (
                ToolCall("c", "grep", {"auto_context": True, "path": "a", "pattern": "x"}),
                'pattern: "x", path: "a"',
            ),
            (
                ToolCall("c", "read", {"list_depth": 2, "start_line": 3, "path": "a"}),
                'path: "a", start_line: 3',
            ),
            (
                ToolCall("c", "mine", {"max_output": 1, "cwd": ".", "path": "a"}),
                'max_output: 1, cwd: ".", path: "a"',
            ),
        ],
    )
    def test_arguments_are_said_in_a_line(self, call: ToolCall, expected: str) -> None:
        assert format_arguments(call) == expected


class TestLosses:
    @pytest.mark.parametrize(("known", "times"), [([], 1), ([LOSS], 0)])
    def test_they_are_shown_once_unless_the_user_knows(self, known: list[Loss], times: int) -> None:
        screen, out = a_screen()
        screen.mark_losses_shown(known)
        feed(screen, *[ev.RunDone(ev.RunResult("", losses=(LOSS,)))] * 3)
        assert out.getvalue().count("another model made it") == times

    def test_many_tools_that_are_lost_are_one_line(self) -> None:
        lost = [Loss(f"tool 't{number}'", "tools", "at most 128") for number in range(172)]
        done = ev.RunDone(ev.RunResult("", losses=(LOSS, *lost)))
        screen, out = a_screen(200)
        feed(screen, done, done)
        assert out.getvalue().count("lost: ") == 2
        assert "lost: 172 tools ('t0', 't1', 't2', …) at tools: at most 128" in out.getvalue()
        assert describe_losses(lost[:2]) == [
            "lost: tool 't0' at tools: at most 128",
            "lost: tool 't1' at tools: at most 128",
        ]

    def test_many_keywords_that_were_moved_are_one_line(self) -> None:
        reason = "gemini does not support it; moved into the description"
        lost = [Loss("default", f"tool 't' at $.p{number}", reason) for number in range(20)]
        assert describe_losses(lost) == [
            "lost: 20 keywords of schemas (default at tool 't' at $.p0, default at tool 't' at $.p1, "
            f"default at tool 't' at $.p2, …): {reason}"
        ]
        assert len(describe_losses(lost, every_keyword=True)) == 20

    def test_what_was_lost_several_times_is_one_line(self) -> None:
        lost = [Loss("thinking", f"messages[{number}]", "another model made it") for number in range(5)]
        assert describe_losses(lost) == ["lost: thinking (5 times): another model made it"]
        assert describe_losses(lost[:1]) == ["lost: thinking: another model made it"]
        assert describe_losses(lost[:1], every_keyword=True) == [
            "lost: thinking at messages[0]: another model made it"
        ]
        assert len(describe_losses(lost, every_keyword=True)) == 5

    def test_how_our_own_tools_are_adapted_is_no_news(self) -> None:
        moved = "gemini does not support it; moved into the description"
        adapted = [
            Loss("default", "tool 'Read' at $.path", moved),
            Loss("parameter 'match'", "replace", "this model's tool cannot express it"),
            Loss("tool 'glob'", "Codex", "this model has no tool for it; our own name is used"),
        ]
        others = [
            Loss("default", "tool 'mine' at $.path", moved),
            Loss("tool 'Read'", "tools", "at most 128"),
            Loss("service_tier", "request", "it has none"),
        ]
        names = {"read", "Read", "replace", "glob"}
        assert describe_losses([*adapted, *others], own_tools=names) == describe_losses(others)
        assert len(describe_losses(adapted)) == 3

    def test_a_truncation_is_not_reported_again(self) -> None:
        message = "2 older messages are summarized: about 357 tokens, 267 fit"
        done = ev.RunDone(ev.RunResult("", losses=(Loss("2 older messages", "context", message),)))
        assert render_events([ev.ContextTruncated(message, 2, 357, 200), done]).count(message) == 1


class TestMovingLines:
    @staticmethod
    def crowd_screen(width: int, text: str, calls: int) -> Screen:
        screen = moving(width)
        for number in range(calls):
            call = ToolCall(f"c{number}", f"a_tool_with_a_long_name_{number}", {"text": text})
            feed(screen, ev.ToolCallReady(number, call), ev.ToolStarted(call), ev.ToolProgress(call, text))
            feed(
                screen,
                ev.ToolCallStarted(100 + number, f"w{number}", "writing"),
                ev.ToolCallDelta(100 + number, text),
            )
        return screen

    @pytest.mark.parametrize(
        "text", ["x" * 3_000, "漢字" * 900, "word " * 500, "line\n" * 500, "a\tb" * 300, "👩‍👩‍👧" * 100]
    )
    def test_none_is_too_wide(self, text: str) -> None:
        for width in WIDTHS:
            screen = self.crowd_screen(width, text, 2)
            for event in (ev.TextDelta(500, text), ev.ThinkingDelta(501, text)):
                assert max(map(cell_len, bottom(feed(screen, event), width))) <= width

    @pytest.mark.parametrize("text", ["x" * 3_000, "漢字" * 900, "line\n" * 500, "👩‍👩‍👧" * 100])
    @pytest.mark.parametrize(("height", "room"), [(5, 3), (24, 8), (100, 12)])
    def test_they_are_few(self, height: int, room: int, text: str) -> None:
        for calls in (0, 1, 30):
            screen = self.crowd_screen(40, text, calls)
            assert len(bottom(screen, 40, height)) <= room
            assert len(bottom(feed(screen, ev.TextDelta(500, text)), 40, height)) <= room

    @given(st.text(max_size=200), st.sampled_from(WIDTHS))
    def test_any_text_fits(self, text: str, width: int) -> None:
        lines = bottom(moving(width, ev.TextDelta(0, text)), width)
        assert max(map(cell_len, lines), default=0) <= width
        assert len(lines) <= 8

    def test_the_last_words_are_the_ones_that_are_seen(self) -> None:
        screen = moving(40, ev.TextDelta(0, "word " * 500 + "the end"))
        assert bottom(screen, 40)[-1].endswith("the end")

    def test_while_nothing_comes_it_says_so(self) -> None:
        screen, out = a_screen(60, moves=True)
        with screen.turn():
            assert "waiting" in bottom(screen, 60)[0]
            assert "Ctrl-C to stop" in bottom(screen, 60)[0]
        assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h")

    def test_nothing_moves_in_a_pipe(self) -> None:
        screen, out = a_screen(60)
        with screen.turn():
            screen.show_event(ev.TextDelta(0, "x"))
        assert out.getvalue() == "x\n"

    @pytest.mark.parametrize("moves", [True, False])
    def test_nothing_is_shown_while_the_user_is_asked(self, moves: bool) -> None:
        """Nothing is written into the line that the user types in."""
        screen, out = a_screen(60, moves=moves)
        with screen.turn():
            feed(screen, ev.ToolStarted(CALL), ev.TextDelta(0, "before the question"))
            with screen.pause():
                before = out.getvalue()
                assert "before the question" in plain(before)
                feed(screen, ev.ToolCallStarted(0, "c", "other"), outcome("other result"))
                feed(screen, ev.TextDelta(3, "other words\n\nand more\n\n"))
                assert out.getvalue() == before
        assert "other result" in plain(out.getvalue())
        assert "other words" in plain(out.getvalue())


class TestRuns:
    @pytest.mark.parametrize("moves", [True, False])
    @pytest.mark.parametrize("width", WIDTHS)
    @pytest.mark.parametrize("model", ["anthropic", "openai", "openai-chat", "gemini", "ollama"])
    def test_a_run_is_shown_as_it_happens(self, model: str, width: int, moves: bool) -> None:
        screen, out = a_screen(width, moves=moves)

        async def run() -> tuple[Message, ...]:
            agent = Agent(f"simulator:{model}", tools=[add])
            with screen.turn():
                async for event in agent.stream('call add {"a": 1, "b": 2}\ncall add {"a": 3, "b": 4}'):
                    screen.show_event(event)
            return tuple(agent.conversation)

        answer = asyncio.run(run())[-1].text
        drawn = plain(out.getvalue())
        assert drawn.count("add a: ") >= 2
        assert "└ 3" in drawn
        assert "└ 7" in drawn
        assert "".join(answer.split()) in "".join(drawn.split())
        assert "2 requests" in drawn
