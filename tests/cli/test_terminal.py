"""The terminal that other tests use, and the picture that is drawn from it, proved with small programs."""

import gc
import os
import re
import runpy
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Patch

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from pyte import ByteStream
from terminal import NotShown, Page, Terminal, surroundings

PICTURE = Path(__file__).parents[2] / "docs" / "picture.py"
SVG = "{http://www.w3.org/2000/svg}"
SMALL = [sys.executable, "-I", "-S", "-u", "-c"]


class TestTerminal:
    def test_input_output_and_signals(self) -> None:
        program = "try:\n while True: print('heard', input('> '))\nexcept KeyboardInterrupt:\n print('stopped')"
        with Terminal([*SMALL, program]) as terminal:
            terminal.wait_for("> ")
            terminal.type("hello\n")
            terminal.wait_for("heard hello")
            terminal.press("ctrl-c")
            terminal.wait_for("stopped")
            assert terminal.wait_exit() == 0
        assert b"> hello\r\nheard hello\r\n> " in terminal.raw

    def test_scrolled_lines_are_kept_in_order(self) -> None:
        with Terminal([*SMALL, "for n in range(500): print('line', n)"], lines=5) as terminal:
            assert terminal.wait_exit() == 0
        assert terminal.screen == ["line 496", "line 497", "line 498", "line 499", ""]
        assert re.findall(r"\d+", terminal.everything) == [str(n) for n in range(500)]

    def test_resize_sends_a_signal(self) -> None:
        program = (
            "import os, signal\ndef show(*_): print('now', *os.get_terminal_size(), flush=True)\n"
            "signal.signal(signal.SIGWINCH, show)\nshow()\nwhile True: signal.pause()"
        )
        with Terminal([*SMALL, program], columns=80, lines=24) as terminal:
            terminal.wait_for("now 80 24")
            terminal.resize(40, 10)
            terminal.wait_for("now 40 10")
            assert len(terminal.screen) == 10

    def test_missing_text_is_an_error_that_shows_the_screen(self) -> None:
        with Terminal([*SMALL, "print('only this'); input()"], columns=20, lines=3) as terminal:
            terminal.wait_for("only this")
            with pytest.raises(NotShown, match=r"(?s)did not show 'something else'.*│only this           │\n│ {20}│"):
                terminal.wait_for("something else", timeout=0.01)
        with Terminal([*SMALL, "raise SystemExit(3)"]) as terminal, pytest.raises(NotShown, match="it left with 3"):
            terminal.wait_for("never")

    def test_close_kills_the_child_and_leaks_nothing(self) -> None:
        gc.collect()
        before = len(os.listdir("/dev/fd"))
        program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); print('up'); signal.pause()"
        terminal = Terminal([*SMALL, program])
        terminal.wait_for("up")
        terminal.close()
        terminal.close()
        assert terminal.exit_code == -9
        with pytest.raises(ProcessLookupError):
            os.killpg(terminal.process.pid, 0)
        del terminal
        gc.collect()
        assert len(os.listdir("/dev/fd")) == before

    def test_environment_is_independent_of_the_test_run(self, tmp_path: Path, monkeypatch: Patch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "7")
        values = "getcwd(), environ['TERM'], environ['MINE'], 'NO_COLOR' in environ, get_terminal_size()[0]"
        program = f"from os import *; print({values})"
        with Terminal([*SMALL, program], env=surroundings(MINE="yes"), cwd=tmp_path, columns=200) as terminal:
            terminal.wait_for(f"{tmp_path} xterm-256color yes False 200")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("123456789日", "123456789\n日"),
        ("a\u200bb\u202ec", "abc"),
        ("⚠\ufe0f ok", "⚠ ok"),
        ("e\u0301!", "é!"),
        ("a\x01b", "ab"),
    ],
)
def test_page_shows_what_a_user_sees(text: str, shown: str) -> None:
    page = Page(10, 3, lambda _: None)
    page.draw(text)
    assert "\n".join(page.line(y) for y in range(2)).rstrip() == shown


class TestPicture:
    """docs/picture.py draws a page as SVG."""

    def draw(self, output: str) -> Xml.Element:
        page = Page(30, 4, lambda _: None)
        ByteStream(page).feed(output.encode())
        picture: dict[str, Any] = runpy.run_path(str(PICTURE))
        return Xml.fromstring(picture["svg"](page, "a <title>"))

    def texts(self, output: str) -> dict[str, dict[str, str]]:
        elements = list(self.draw(output).iter(f"{SVG}text"))
        return {(element.text or "").replace("\u00a0", " "): element.attrib for element in elements[1:]}

    def test_text_is_escaped_and_durations_are_constant(self) -> None:
        assert list(self.texts('<b> & "quotes"')) == ['<b> & "quotes"']
        assert list(self.texts("took 3.7 s or 12.9 s, version 3.7")) == ["took 0.1 s or  0.1 s, version", "3.7"]

    def test_styles_and_positions(self) -> None:
        texts = self.texts("\x1b[1mbold\x1b[0m \x1b[2mdim\x1b[0m \x1b[3mit\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m \x1b[7mback")
        assert texts["bold"]["font-weight"] == "700"
        assert texts["dim"]["opacity"] == "0.6"
        assert texts["it"]["font-style"] == "italic"
        assert texts["true"]["fill"] == "#010203"
        assert texts["back"]["fill"] == "#16181f"
        texts = self.texts("a日b")
        assert [texts[character]["x"] for character in "a日b"] == ["18", "26.4", "43.2"]

    def test_box_lines_are_paths(self) -> None:
        paths = [element.attrib["d"] for element in self.draw("╭──").iter(f"{SVG}path")]
        assert [path.count("M") for path in paths] == [1, 2]
