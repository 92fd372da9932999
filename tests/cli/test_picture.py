"""docs/picture.py draws a terminal's page as SVG."""

import runpy
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from pyte import ByteStream
from terminal import Page

PICTURE = Path(__file__).parents[2] / "docs" / "picture.py"
SVG = "{http://www.w3.org/2000/svg}"


def draw(output: str) -> Xml.Element:
    page = Page(30, 4, lambda _: None)
    ByteStream(page).feed(output.encode())
    picture: dict[str, Any] = runpy.run_path(str(PICTURE))
    return Xml.fromstring(picture["svg"](page, "a <title>"))


def styles(output: str) -> dict[str, dict[str, str]]:
    elements = list(draw(output).iter(f"{SVG}text"))
    return {(element.text or "").replace("\u00a0", " "): element.attrib for element in elements[1:]}


def test_text_is_escaped_and_durations_are_constant() -> None:
    assert list(styles('<b> & "quotes"')) == ['<b> & "quotes"']
    assert list(styles("took 3.7 s or 12.9 s, version 3.7")) == ["took 0.1 s or  0.1 s, version", "3.7"]


def test_styles_and_positions() -> None:
    texts = styles(
        "\x1b[1mbold\x1b[0m \x1b[2mdim\x1b[0m \x1b[3mit\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m \x1b[7mback"
    )
    assert texts["bold"]["font-weight"] == "700"
    assert texts["dim"]["opacity"] == "0.6"
    assert texts["it"]["font-style"] == "italic"
    assert texts["true"]["fill"] == "#010203"
    assert texts["back"]["fill"] == "#16181f"
    texts = styles("a日b")
    assert [texts[character]["x"] for character in "a日b"] == ["18", "26.4", "43.2"]


def test_box_lines_are_paths() -> None:
    paths = [element.attrib["d"] for element in draw("╭──").iter(f"{SVG}path")]
    assert [path.count("M") for path in paths] == [1, 2]
