"""The terminal that other tests use, proved with small programs."""

import gc
import os
import re
import runpy
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from pyte import ByteStream
from terminal import NotShown, Page, Terminal, surroundings

PICTURE = Path(__file__).parents[2] / "docs" / "picture.py"
SVG = "{http://www.w3.org/2000/svg}"
SMALL = [sys.executable, "-I", "-S", "-u", "-c"]
ECHO = "while True: print('heard', input('> '))"
PROMPT = """
from prompt_toolkit import PromptSession
session = PromptSession(multiline=False)
while (said := session.prompt('ask> ')) != 'bye':
    print('heard', repr(said))
"""
ASK = """
import sys, termios, tty
tty.setraw(0)
sys.stdout.write({question!r})
said = ''
while not said.endswith({end!r}):
    said += sys.stdin.read(1)
termios.tcsetattr(0, termios.TCSANOW, termios.tcgetattr(0))
print('answer', repr(said))
"""
WINDOW = """
import os, signal
def changed(*_):
    print('now', *os.get_terminal_size(), flush=True)
signal.signal(signal.SIGWINCH, changed)
changed()
while True:
    signal.pause()
"""


def page(text: str, columns: int = 10, lines: int = 3) -> Page:
    drawn = Page(columns, lines, lambda _: None)
    drawn.draw(text)
    return drawn


class TestTerminal:
    def test_what_is_typed_comes_back(self) -> None:
        with Terminal([*SMALL, ECHO]) as terminal:
            terminal.wait_for("> ")
            terminal.type("hello\n")
            terminal.wait_for("heard hello")
            terminal.press("ctrl-d")
            assert terminal.wait_exit() == 1
        assert b"> hello\r\nheard hello\r\n> " in terminal.raw

    def test_what_scrolled_away_is_kept_in_order(self) -> None:
        with Terminal([*SMALL, "for n in range(500): print('line', n)"], lines=5) as terminal:
            assert terminal.wait_exit() == 0
        assert terminal.screen == ["line 496", "line 497", "line 498", "line 499", ""]
        assert re.findall(r"\d+", terminal.everything) == [str(n) for n in range(500)]

    def test_its_size_is_what_was_asked_for(self) -> None:
        with Terminal([*SMALL, "import os; print(*os.get_terminal_size())"], columns=41, lines=7) as terminal:
            terminal.wait_for("41 7")
            assert terminal.wait_exit() == 0

    def test_a_new_size_is_told(self) -> None:
        with Terminal([*SMALL, WINDOW], columns=80, lines=24) as terminal:
            terminal.wait_for("now 80 24")
            terminal.resize(40, 10)
            terminal.wait_for("now 40 10")
            assert len(terminal.screen) == 10

    def test_ctrl_c_is_a_signal(self) -> None:
        with Terminal(
            [*SMALL, "import time\ntry:\n print('ready')\n time.sleep(60)\nexcept KeyboardInterrupt:\n print('stopped')"]
        ) as terminal:
            terminal.wait_for("ready")
            terminal.press("ctrl-c")
            terminal.wait_for("stopped")
            assert terminal.wait_exit() == 0

    @pytest.mark.parametrize(
        ("question", "end", "answer"),
        [("\x1b[2;5H\x1b[6n", "R", "'\\x1b[2;5R'"), ("\x1b[c", "c", "'\\x1b[?6c'"), ("\x1b[5n", "n", "'\\x1b[0n'")],
    )
    def test_it_answers_as_terminals_do(self, question: str, end: str, answer: str) -> None:
        with Terminal([*SMALL, ASK.format(question=question, end=end)]) as terminal:
            terminal.wait_for(f"answer {answer}")
            assert terminal.wait_exit() == 0

    def test_a_line_editor_reads_keys_and_pastes(self) -> None:
        with Terminal([sys.executable, "-c", PROMPT], columns=60, lines=10) as terminal:
            terminal.wait_for("ask>")
            terminal.type("wrld")
            terminal.press("left", "left", "left")
            terminal.type("o\n")
            terminal.wait_for("heard 'world'")
            terminal.wait_for("ask>", times=2)
            terminal.paste("two\nlines")
            terminal.press("enter")
            terminal.wait_for("heard 'two\\nlines'")
            terminal.wait_for("ask>", times=3)
            terminal.press("up", "up", "up", "enter")
            terminal.wait_for("heard 'world'", times=2)
            terminal.type("bye\n")
            assert terminal.wait_exit() == 0
            assert b"\x1b[6n" in terminal.raw
            assert "CPR" not in terminal.everything

    def test_a_long_paste_waits_for_its_reader(self) -> None:
        program = "import sys, tty; tty.setraw(0); print('ready'); print('took', len(sys.stdin.read(100_000)))"
        with Terminal([*SMALL, program]) as terminal:
            terminal.wait_for("ready")
            terminal.paste("x" * 100_000)
            terminal.wait_for("took 100000")
            assert terminal.wait_exit() == 0

    def test_what_is_not_shown_is_an_error_with_the_screen(self) -> None:
        with Terminal([*SMALL, "print('only this'); input()"], columns=20, lines=3) as terminal:
            terminal.wait_for("only this")
            with pytest.raises(NotShown, match=r"(?s)did not show 'something else'.*│only this           │\n│ {20}│"):
                terminal.wait_for("something else", timeout=0.01)

    def test_a_child_that_left_is_not_waited_for(self) -> None:
        with Terminal([*SMALL, "raise SystemExit(3)"]) as terminal, pytest.raises(NotShown, match="it left with 3"):
            terminal.wait_for("never")

    def test_what_goes_away_and_silence_can_be_waited_for(self) -> None:
        program = "print('soon gone'); input(); print('\\x1b[2J\\x1b[H', end=''); input()"
        with Terminal([*SMALL, program]) as terminal:
            terminal.wait_for("soon gone")
            terminal.press("enter")
            terminal.wait_gone("soon gone")
            terminal.wait_quiet(0.01)
            assert terminal.exit_code is None

    def test_closing_ends_the_child_once_and_leaves_nothing(self) -> None:
        before = len(os.listdir("/dev/fd"))
        terminal = Terminal(
            [*SMALL, "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); print('up'); signal.pause()"]
        )
        terminal.wait_for("up")
        terminal.close()
        terminal.close()
        assert terminal.exit_code == -9
        with pytest.raises(ProcessLookupError):
            os.killpg(terminal.process.pid, 0)
        del terminal
        gc.collect()
        assert len(os.listdir("/dev/fd")) == before

    def test_its_surroundings_are_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "7")
        program = (
            "from os import *; print(getcwd(), environ['TERM'], environ['MINE'], 'NO_COLOR' in environ, get_terminal_size()[0])"
        )
        with Terminal([*SMALL, program], env=surroundings(MINE="yes"), cwd=tmp_path, columns=200) as terminal:
            terminal.wait_for(f"{tmp_path} xterm-256color yes False 200")


class TestPage:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("abc", "abc"),
            ("日本", "日本"),
            ("123456789日", "123456789\n日"),
            ("a\u200bb\u202ec", "abc"),
            ("⚠\ufe0f ok", "⚠ ok"),
            ("e\u0301!", "é!"),
            ("a\x01b", "ab"),
        ],
    )
    def test_a_line_is_what_a_user_sees(self, text: str, shown: str) -> None:
        drawn = page(text)
        assert "\n".join(drawn.line(y) for y in range(2)).rstrip() == shown

    def test_half_of_a_wide_character_is_not_shown(self) -> None:
        drawn = page("日本")
        drawn.cursor.x = 1
        drawn.draw("x")
        assert drawn.line(0) == " x本"

    @pytest.mark.parametrize(
        ("codes", "style"),
        [
            ([2], {"blink": True}),
            ([2, 22], {}),
            ([5], {}),
            ([38, 2, 2, 5, 22], {"fg": "020516"}),
            ([38, 5, 2], {"fg": "green"}),
            ([48, 5, 9], {"bg": "brightred"}),
            ([38, 5, 208, 1], {"fg": "ff8700", "bold": True}),
            ([7, 3], {"reverse": True, "italics": True}),
        ],
    )
    def test_styles(self, codes: list[int], style: dict[str, object]) -> None:
        drawn = page("")
        drawn.select_graphic_rendition(*codes)
        drawn.draw("x")
        assert drawn.buffer[0][0] == drawn.default_char._replace(data="x", **style)  # type: ignore[arg-type]

    def test_a_smaller_window_keeps_the_line_of_the_cursor(self) -> None:
        drawn = page("")
        for word in ("one", "two", "three"):
            drawn.draw(word)
            drawn.carriage_return()
            drawn.cursor.y = min(drawn.cursor.y + 1, 2)
        drawn.resize(2, 4)
        assert (drawn.past, [drawn.line(y) for y in range(2)], drawn.cursor.y) == (["one"], ["two", "thre"], 1)


class TestPicture:
    """docs/picture.py draws a page as SVG."""

    def drawn(self, output: str) -> Xml.Element:
        shown = Page(30, 4, lambda _: None)
        ByteStream(shown).feed(output.encode())
        picture: dict[str, Any] = runpy.run_path(str(PICTURE))
        text = picture["svg"](shown, "a <title>")
        assert text == picture["svg"](shown, "a <title>")
        return Xml.fromstring(text)

    def texts(self, output: str) -> dict[str, dict[str, str]]:
        found = list(self.drawn(output).iter(f"{SVG}text"))
        return {(one.text or "").replace("\u00a0", " "): one.attrib for one in found[1:]}

    def test_text_is_text_whatever_it_says(self) -> None:
        assert list(self.texts('<b> & "quotes"')) == ['<b> & "quotes"']

    def test_durations_are_always_the_same(self) -> None:
        assert list(self.texts("took 3.7 s or 12.9 s, version 3.7")) == ["took 0.1 s or  0.1 s, version", "3.7"]

    def test_every_style_is_drawn(self) -> None:
        texts = self.texts("\x1b[1mbold\x1b[0m \x1b[2mdim\x1b[0m \x1b[3mit\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m \x1b[7mback")
        assert texts["bold"]["font-weight"] == "700"
        assert texts["dim"]["opacity"] == "0.6"
        assert texts["it"]["font-style"] == "italic"
        assert texts["true"]["fill"] == "#010203"
        assert texts["back"]["fill"] == "#16181f"

    def test_wide_characters_and_others_stand_at_their_place(self) -> None:
        texts = self.texts("a日b")
        assert [texts[one]["x"] for one in "a日b"] == ["18", "26.4", "43.2"]

    def test_lines_of_boxes_are_drawn(self) -> None:
        paths = [one.attrib["d"] for one in self.drawn("╭──").iter(f"{SVG}path")]
        assert [path.count("M") for path in paths] == [1, 2]

    def test_the_window_ends_where_the_text_does(self) -> None:
        heights = [float(self.drawn(text)[1].attrib["height"]) for text in ("one", "one\r\ntwo", "one\r\ntwo\r\n\r\n")]
        assert heights == [heights[0], heights[0] + 19, heights[0] + 19]
