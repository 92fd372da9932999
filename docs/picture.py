"""Run a short chat with the simulator in a real terminal and draw what it shows: docs/chat.svg.

The drawing depends only on the screen. Durations differ from run to run, so they are always drawn as 0.1 s.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

from pyte.screens import Char, wcwidth

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests" / "cli"))

from terminal import Page, Terminal, surroundings  # noqa: E402

WIDTH, HEIGHT, SIZE = 8.4, 19, 14
PAD, BAR = 18, 36
BACK, EDGE, TEXT = "#16181f", "#2b2f3b", "#d5d9e4"
DOTS = "#f2665c", "#f5bd4f", "#5ec454"
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
COLOURS = {
    "default": TEXT,
    "black": "#2b2f3b",
    "red": "#f07178",
    "green": "#8ccf7e",
    "brown": "#e5c76b",
    "blue": "#74a8fc",
    "magenta": "#c792ea",
    "cyan": "#6cd0d8",
    "white": "#c3c9d7",
    "brightblack": "#7b8296",
    "brightred": "#ff8b92",
    "brightgreen": "#a9e59b",
    "brightbrown": "#ffdd86",
    "brightblue": "#98c0ff",
    "brightmagenta": "#dcb0f7",
    "bfightmagenta": "#dcb0f7",  # pyte's spelling of it as a background
    "brightcyan": "#93e6ed",
    "brightwhite": "#ffffff",
}
# Which sides of its cell a line goes to.
SIDES = {
    "lr": "─━",
    "ud": "│┃",
    "rd": "╭┌┏",
    "ld": "╮┐┓",
    "ru": "╰└┗",
    "lu": "╯┘┛",
    "l": "╴",
    "r": "╶",
    "u": "╵",
    "d": "╷",
    "rud": "├┣┡",
    "lud": "┤┫┩",
    "lrd": "┬┳",
    "lru": "┴┻",
    "lrud": "┼╋╇",
}
BOXES = {char: sides for sides, chars in SIDES.items() for char in chars}
ROUND = "╭╮╰╯"
TOOLS = '''
from toolglot import tool

WEATHER = {"Paris": "21 °C, clear", "Rome": "27 °C, sunny", "Oslo": "4 °C, snow"}

@tool
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return f"{city}: {WEATHER[city]}"

def diff(arguments: dict[str, str]) -> str:
    return "--- trip.md\\n+++ trip.md\\n@@ -1 +1 @@\\n-{old_string}\\n+{new_string}".format(**arguments)

@tool(effects={"write"}, approval=True, preview=diff)
def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Replace a text in a file."""
    return f"replaced 1 text in {path}"
'''
# What is said, and the answer to the question that follows.
SCENE = (
    ("What is the weather in Paris and in Rome?", ""),
    ('Edit the file trip.md: replace "umbrella" by "sunglasses"', "y"),
    ("/model simulator:openai-responses", ""),
    ("And the weather in Oslo?", ""),
)
DURATION = re.compile(r"\d+\.\d(?= s\b)")

Cells = list[tuple[int, Char]]


def svg(page: Page, title: str) -> str:
    """The screen as a window, without the empty lines at its end."""
    last = max((y for y in range(page.lines) if page.line(y)), default=0)
    width, height = round(page.columns * WIDTH + 2 * PAD, 1), (last + 1) * HEIGHT + BAR + PAD
    rows = [
        part
        for y in range(last + 1)
        for part in _row(_steady(list(page.cells(y))), BAR + y * HEIGHT)
    ]
    if not page.cursor.hidden and page.cursor.y <= last:
        rows.append(_box(page.cursor.x, 1, BAR + page.cursor.y * HEIGHT, TEXT, 0.75))
    dots = [
        f'<circle cx="{PAD + 6 + 20 * n}" cy="18" r="6" fill="{colour}"/>'
        for n, colour in enumerate(DOTS)
    ]
    middle = f'x="{width / 2:g}" y="23" text-anchor="middle" fill="{COLOURS["brightblack"]}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        'role="img" '
        f'font-family="{FONT}" font-size="{SIZE}">',
        f"<title>{escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{BACK}" '
        f'stroke="{EDGE}"/>',
        *dots,
        f"<text {middle}>{escape(title)}</text>",
        *rows,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _steady(cells: Cells) -> Cells:
    """Durations vary; the picture does not."""
    text = "".join(char.data[:1] for _, char in cells)
    for found in DURATION.finditer(text):
        for at, digit in zip(
            range(found.start(), found.end()), "0.1".rjust(len(found[0])), strict=True
        ):
            cells[at] = cells[at][0], cells[at][1]._replace(data=digit)
    return cells


def _row(cells: Cells, top: float) -> Iterator[str]:
    for behind, run in groupby(cells, lambda cell: _look(cell[1])[1]):
        if behind:
            columns = [column for first, char in run for column in (first, first + _columns(char))]
            yield _box(columns[0], columns[-1] - columns[0], top, behind)
    for style, run in groupby(cells, lambda cell: _style(cell[1])):
        yield from _words(list(run), style, top)


def _words(run: Cells, style: str, top: float) -> Iterator[str]:
    """ASCII as one text of a fixed length; every other character at its own place, whatever font it comes
    from.
    """
    for plain, cells in groupby(run, lambda cell: cell[1].data.isascii() or cell[1].data):
        piece = list(cells)
        if plain is True:
            yield from _text(piece, style, top)
        elif plain in BOXES:
            path = "".join(_line(BOXES[plain], plain in ROUND, column, top) for column, _ in piece)
            yield f'<path d="{path}" fill="none"{style.replace(" fill=", " stroke=")}/>'
        else:
            yield from (part for cell in piece for part in _text([cell], style, top))


def _text(piece: Cells, style: str, top: float) -> Iterator[str]:
    whole = "".join(char.data for _, char in piece)
    text = whole if "text-decoration" in style else whole.strip(" ")
    if text:
        column = piece[whole.index(text)][0]
        length = f' textLength="{_number(len(text) * WIDTH)}"' if len(piece) > 1 else ""
        said = escape(text).replace(" ", "\u00a0")
        yield (
            f'<text x="{_number(PAD + column * WIDTH)}" y="{_number(top + 14)}"{length}{style}>{said}</text>'
        )


def _line(sides: str, bent: bool, column: int, top: float) -> str:
    """Lines of boxes are drawn, so that they meet whatever the font is."""
    x, y = PAD + column * WIDTH, top
    ends = {
        "l": (x, y + HEIGHT / 2),
        "r": (x + WIDTH, y + HEIGHT / 2),
        "u": (x + WIDTH / 2, y),
        "d": (x + WIDTH / 2, y + HEIGHT),
    }
    middle = f"{_number(x + WIDTH / 2)} {_number(y + HEIGHT / 2)}"
    points = [f"{_number(ends[side][0])} {_number(ends[side][1])}" for side in sides]
    if bent:
        return f"M{points[0]}Q{middle} {points[1]}"
    return (
        f"M{points[0]}L{points[1]}"
        if sides in ("lr", "ud")
        else "".join(f"M{one}L{middle}" for one in points)
    )


def _box(column: int, columns: int, top: float, colour: str, opacity: float = 1) -> str:
    clear = f' opacity="{opacity:g}"' if opacity < 1 else ""
    place = (
        f'x="{_number(PAD + column * WIDTH)}" y="{_number(top)}" width="{_number(columns * WIDTH)}" '
        f'height="{HEIGHT}"'
    )
    return f'<rect {place} fill="{colour}"{clear}/>'


def _style(char: Char) -> str:
    parts = [f' fill="{_look(char)[0]}"']
    parts += [' font-weight="700"'] * char.bold + [' font-style="italic"'] * char.italics
    parts += [' opacity="0.6"'] * char.blink  # dim: see Page
    decorations = ["underline"] * char.underscore + ["line-through"] * char.strikethrough
    parts += [f' text-decoration="{" ".join(decorations)}"'] * bool(decorations)
    return "".join(parts)


def _look(char: Char) -> tuple[str, str]:
    """Colours of the text and behind it; behind it is '' where the window shows."""
    front, behind = _hex(char.fg, TEXT), _hex(char.bg, "")
    return (behind or BACK, front) if char.reverse else (front, behind)


def _hex(colour: str, default: str) -> str:
    return default if colour == "default" else COLOURS.get(colour, f"#{colour}")


def _columns(char: Char) -> int:
    return max(1, wcwidth(char.data[0]))


def _number(value: float) -> str:
    return f"{round(value, 1):g}"


def play(columns: int = 92, lines: int = 60) -> Page:
    """What the terminal shows at the end of a short chat."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "my_tools.py").write_text(TOOLS)
        home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), folder)
        env = {
            name: value
            for name, value in surroundings(**home).items()
            if not name.startswith("TOOLGLOT_")
        }
        words = [
            sys.executable,
            "-m",
            "toolglot.cli.main",
            "chat",
            "-m",
            "simulator:anthropic",
            "--tools",
            "my_tools.py",
        ]
        with Terminal(words, env=env, columns=columns, lines=lines, cwd=Path(folder)) as terminal:
            for prompt, answer in SCENE:
                _say(terminal, prompt, answer)
            _wait_prompt(terminal)
            return terminal.page


def _say(terminal: Terminal, prompt: str, answer: str) -> None:
    _wait_prompt(terminal)
    terminal.type(prompt)
    terminal.wait_for(f"> {prompt}")
    terminal.press("enter")
    if answer:
        terminal.wait_for("y yes")
        terminal.type(answer)


def _wait_prompt(terminal: Terminal) -> None:
    """An empty prompt above the line that says what is talked to."""
    terminal.wait_until(
        lambda: [line for line in terminal.screen if line][-2:-1] == [">"], "an empty prompt"
    )


if __name__ == "__main__":
    (DOCS / "chat.svg").write_text(svg(play(), "toolglot chat"))
