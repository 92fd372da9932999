"""Whoever approves a call sees all of it."""

import unicodedata
from collections.abc import Mapping
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from chat_harness import a_screen, plain, talk
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.cli.chat.approvals import describe_approval, show_approval
from toolglot.common.sanitize import escape_deceptive
from toolglot.config.settings import PolicySettings
from toolglot.tools.tool import tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.messages import ToolCall

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def make_request(
    arguments: Mapping[str, Any] | None = None,
    *,
    preview: str = "",
    target: str = "",
    raw: str | None = None,
    effects: str = "write",
    agent: str = "",
) -> ApprovalRequest:
    call = ToolCall(
        "c1", "edit", dict(arguments) if arguments is not None else None, raw, freeform=raw is not None
    )
    chosen: Any = frozenset(effects.split())
    return ApprovalRequest(call, "edit", chosen, target, dict(arguments or {}), preview, agent=agent)


def render_approval(approval: ApprovalRequest, *, whole: bool = False, width: int = 80) -> tuple[str, bool]:
    screen, out = a_screen(width)
    all_of_it = show_approval(approval, screen, show_all=whole)
    return plain(out.getvalue()), all_of_it


def letters(text: str) -> str:
    """A text without its blanks and the marks of rows that continue a line."""
    return "".join(text.replace("↪", "").split())


@pytest.mark.parametrize(
    ("approval", "head"),
    [
        (make_request({}), "? edit wants to run (write)"),
        (make_request({}, effects="write execute"), "? edit wants to run (execute, write)"),
        (make_request({}, effects="read write execute network"), "? edit wants to run"),
        (make_request({}, agent="research/x"), "? edit wants to run for research/x (write)"),
        (make_request({}, target="/etc/passwd"), "? edit wants to run (write): /etc/passwd"),
        # Neither a target nor a name of two lines can look like another question or argument.
        (
            make_request({}, target="a\n? ls wants to run (read)"),
            "? edit wants to run (write): a␊? ls wants to run (read)",
        ),
        (make_request({"a: 1\n  b": "2"}), "? edit wants to run (write)\n  a: 1␊  b: 2"),
    ],
)
def test_question_names_tool_effects_and_target(approval: ApprovalRequest, head: str) -> None:
    assert render_approval(approval) == (f"{head}\n", True)


@pytest.mark.parametrize(
    ("preview", "is_left_out"), [("$ {}\nin: .", True), ("+++ notes.md\n+see {}", False), ("see {}", False)]
)
def test_a_long_target_is_left_out_only_if_it_is_the_command(preview: str, is_left_out: bool) -> None:
    target = "/project/" + "deeply/nested/" * 5 + "main.py"
    text, _ = render_approval(make_request({}, preview=preview.format(target), target=target), width=200)
    assert (text.splitlines()[0] == "? edit wants to run (write)") is is_left_out


class TestArguments:
    @pytest.mark.parametrize(
        ("value", "lines"),
        [
            ("text", ["  a: text"]),
            ("", ["  a: "]),
            (0, ["  a: 0"]),
            (None, ["  a: null"]),
            ([1, {"b": [True, "x"]}], ['  a: [1,{"b":[true,"x"]}]']),
            ("two\nlines", ["  a:", "    two", "    lines"]),
            ("x\r\ny", ["  a:", "    x␍", "    y"]),
            ("\x1b[2Jls", ["  a: ␛[2Jls"]),
            ("a\u202eb\u200bc", ["  a: a⟨U+202E⟩b⟨U+200B⟩c"]),
            ("\ud800", ["  a: ⟨U+D800⟩"]),
            ("a\u2028b", ["  a: a⟨U+2028⟩b"]),
            (["\u202e\x1b"], ['  a: ["⟨U+202E⟩\\u001b"]']),
        ],
    )
    def test_each_is_shown(self, value: Any, lines: list[str]) -> None:
        assert [str(line) for line in describe_approval(make_request({"a": value}))] == lines

    def test_a_full_command_is_shown_whatever_its_length(self) -> None:
        command = "echo " + " ".join(f"word{number}" for number in range(1_500))
        text, whole = render_approval(make_request({"command": command}))
        assert whole
        assert letters(command) in letters(text)

    def test_freeform_text_is_shown(self) -> None:
        text, _ = render_approval(make_request(None, raw="*** Begin Patch\n+added\n"))
        assert "    *** Begin Patch" in text
        assert "    +added" in text

    def test_a_preview_stands_for_the_arguments(self) -> None:
        text, whole = render_approval(make_request({"long": "hidden"}, preview="$ rm -r build\x1b[8m"))
        assert whole
        assert "$ rm -r build␛[8m" in text
        assert "hidden" not in text

    @given(st.dictionaries(WORDS, st.one_of(WORDS, st.integers(), st.lists(WORDS, max_size=3)), max_size=4))
    def test_nothing_in_them_is_obeyed_or_hidden(self, arguments: dict[str, Any]) -> None:
        for line in describe_approval(make_request(arguments)):
            assert not [
                character
                for character in str(line)
                if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n"
            ]

    @given(WORDS)
    def test_every_character_of_a_text_is_there(self, text: str) -> None:
        shown_lines = "\n".join(str(line) for line in describe_approval(make_request({"text": text})))
        lines = (escape_deceptive(line.expandtabs(4)) for line in text.split("\n"))
        assert letters("".join(lines)) in letters(shown_lines.removeprefix("  text:"))


FORGED = "? shell wants to run (execute): ls"


class TestForgery:
    """Only the first line of a question, and its warning, begin at the left edge."""

    @pytest.mark.parametrize("where", ["argument", "preview", "target", "name", "reason"])
    def test_no_padding_draws_another_question(self, where: str) -> None:
        for width, blank in product(
            [40, 80, 160], [" ", "\t", "\u00a0", "\u3000", "\u2800", "é", "─", "👍", "❤", "🇫"]
        ):
            for text in (
                f"x #{blank * width}{FORGED}",
                *(f"a{blank * count}{FORGED}" for count in range(width - 12, width)),
            ):
                approval = {
                    "argument": make_request({"command": text}),
                    "preview": make_request(preview=text),
                    "target": make_request(target=text),
                    "name": make_request({text: 1}),
                    "reason": replace(make_request(), reason=text),
                }[where]
                rows = render_approval(approval, width=width)[0].splitlines()
                assert not [row for row in rows[1:] if not row.startswith("  ")], rows
                # Some terminals take two columns for any of these characters.
                assert (
                    max(len(row) + sum(not character.isascii() for character in row) for row in rows) <= width
                ), rows

    def test_many_blanks_are_counted_and_a_long_question_says_that_it_is_long(self) -> None:
        assert "⟨5000 spaces⟩; rm x" in render_approval(make_request({"a": "ls" + " " * 5000 + "; rm x"}))[0]
        assert (
            "  ↑ the question has 102 lines: scroll up to read all of it"
            in render_approval(make_request({"a": "\n" * 100}))[0]
        )
        assert "↑" not in render_approval(make_request({"a": "b"}))[0]

    @pytest.mark.parametrize(
        ("text", "visible"),
        [
            ("http://host/d\u043e\u0441s", "http://host/d⟨U+043E⟩⟨U+0441⟩s"),
            ("\u0441\u043e\u0440\u0443 a b", "⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩ a b"),
            ("\uff4c\uff53 \U0001d425\U0001d42c \ufb01le", "⟨U+FF4C⟩⟨U+FF53⟩ ⟨U+1D425⟩⟨U+1D42C⟩ ⟨U+FB01⟩le"),
            ("a.org\u2044b a.org\uff0fb a\u2010b", "a.org⟨U+2044⟩b a.org⟨U+FF0F⟩b a⟨U+2010⟩b"),
            ("a\u00a0b\u2003c\u3000d", "a⟨U+00A0⟩b⟨U+2003⟩c⟨U+3000⟩d"),
            # what nobody takes for English stays
            (
                "привет а с мир, Ελλάδα, сбербанк.com, API-интерфейс",  # noqa: RUF001
                "привет а с мир, Ελλάδα, сбербанк.com, API-интерфейс",  # noqa: RUF001
            ),
            ("café Straße 日本語text “it’s” 10 µs – ½ m²", "café Straße 日本語text “it’s” 10 µs – ½ m²"),  # noqa: RUF001
        ],
    )
    def test_look_alikes_are_shown_by_their_number(self, text: str, visible: str) -> None:
        assert f"  a: {visible}\n" in render_approval(make_request({"a": text}), width=200)[0]


class TestAnswers:
    WIPE = 'call wipe {"path": "a.txt"}'

    def test_a_reason_for_no_is_told_to_the_model(self) -> None:
        over = talk(self.WIPE, "r", "use a copy")
        assert over.has("It did not run. Reason: use a copy")
        assert "reason for the model" in over.reader.questions[1]

    def test_arguments_can_be_edited(self) -> None:
        over = talk(self.WIPE, "e", "[1]", "e", '{"file": "b"}', "e", '{"path": "b.txt"}', "y")
        assert over.reader.defaults == ['{"path":"a.txt"}', "[1]", '{"file": "b"}'], "what was typed is kept"
        assert over.shown.count("wants to run") == 4, "it is shown again after each edit"
        assert over.has("path: b.txt")
        assert over.has("the arguments must be a JSON object")
        assert over.has("The call to wipe was not run because its arguments are invalid")
        assert over.has("file: is not a parameter")
        assert over.has("wiped b.txt")

    def test_an_edit_is_asked_about_like_a_call_of_the_model(self) -> None:
        ran: list[bool] = []

        @tool(
            effects="write",
            approval=True,
            always_ask=lambda arguments: "it leaves" if arguments["outside"] else "",
        )
        def act(outside: bool) -> str:
            """Act."""
            ran.append(outside)
            return "done"

        prompt = 'call act {"outside": false}'
        over = talk(prompt, "e", '{"outside": true}', "n", tools=[act])
        assert over.has("! it leaves")
        assert "always" not in over.reader.questions[-1]
        talk(prompt, "e", '{"outside": true}', "y", tools=[act])
        assert ran == [True]

    def test_long_arguments_cannot_be_edited(self) -> None:
        over = talk(f'call wipe {{"path": "{"a" * 400}"}}', "e", "n")
        assert "e edit" not in over.reader.questions[0]
        assert over.has("please answer y, n, r, a")

    def test_what_needs_an_answer_each_time_offers_no_always(self) -> None:
        @tool(effects="write", always_ask=lambda arguments: "it leaves\nthe sandbox")
        def leave() -> str:
            """Leave."""
            return "left"

        over = talk("call leave {}", "a", "y", "call leave {}", "y", tools=[leave])
        assert over.has("! it leaves␊the sandbox")
        assert ["always" in question for question in over.reader.questions] == [False, False, False]
        assert over.shown.count("left") >= 2

    def test_the_reason_of_the_policy_is_shown(self) -> None:
        assert talk(self.WIPE, "n").has("  (")


class TestLongOnes:
    MANY = "\n".join(f"line {number}" for number in range(1_000))

    def test_the_beginning_is_shown_and_it_is_said_that_there_is_more(self) -> None:
        text, whole = render_approval(make_request({"text": self.MANY}))
        assert not whole
        assert "line 198" in text
        assert "line 199" not in text
        assert "801 more lines are not shown: press s to show them" in text

    def test_all_of_it_can_be_shown(self) -> None:
        text, whole = render_approval(make_request({"text": self.MANY}), whole=True)
        assert whole
        assert text.count("    line ") == 1_000

    def test_s_shows_it_and_then_asks_again(self) -> None:
        @tool(effects="write", approval=True)
        def write(text: str) -> str:
            """Write a text."""
            return "written"

        lines = "\\n".join(f"line {number}" for number in range(300))
        over = talk(f'call write {{"text": "{lines}"}}', "s", "y", tools=[write])
        assert over.has("101 more lines are not shown")
        assert over.has("    line 299")
        assert ["show all" in question for question in over.reader.questions] == [True, False]
        assert over.has("written")

    def test_the_end_of_a_diff_beyond_100_000_characters_can_be_shown(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("".join(f"some line {number}\n" for number in range(8_000)))
        prompt = 'call edit {"path": "a.txt", "old": "some line", "new": "another line", "count": "all"}'
        options, policy = BuiltinOptions(require_read=False), PolicySettings(ask=("write",))
        with closing(builtins(tmp_path, options=options, state_dir=tmp_path / "state")) as loaded:
            over = talk(prompt, "s", "n", tools=loaded.tools, policy=policy, facade="neutral")
        assert over.has("    +another line 7999")
        assert not over.has("omitted")


@pytest.mark.parametrize("start", ["--- a\n+++ b\n@@ -1,2 +1,2 @@\n", "diff --git a b\n@@ -1,2 +1,2 @@\n"])
def test_diff_is_colored(start: str) -> None:
    """Within a hunk, a removed line may look like a header."""
    lines = describe_approval(make_request(preview=f"{start} same\n--- drop table\n+++ keep\n"))
    styles = {str(line).strip(): line.parts[0][1] for line in lines}
    expected = {"same": "", "--- drop table": "red", "+++ keep": "green", "@@ -1,2 +1,2 @@": "cyan"}
    assert {line: styles[line] for line in expected} == expected
    assert styles[start.splitlines()[0]] == "bold"
