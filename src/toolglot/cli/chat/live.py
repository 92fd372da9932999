"""Markdown, and the live lines at the bottom of a terminal. Nothing else needs `rich`."""

from collections.abc import Callable

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment, Segments

from toolglot.cli.styled import Line
from toolglot.common.sanitize import escape_controls

# HTML tags are shown as text, because models write about them.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")


def print_markdown(console: Console, text: str) -> None:
    """Print a Markdown block followed by one blank line."""
    markdown = Markdown(text, code_theme="ansi_dark", hyperlinks=False)
    markdown.parsed = _PARSER.parse(text)
    lines = console.render_lines(markdown, pad=False)
    used = [index for index, line in enumerate(lines) if "".join(segment.text for segment in line).strip()]
    for line in lines[used[0] : used[-1] + 1] if used else ():
        # Markdown has entities (&#x202e;) that become characters only here.
        shown = [Segment(escape_controls(segment.text), segment.style) for segment in line]
        console.print(Segments([*shown, Segment.line()]), end="")
    console.print()


class LiveArea:
    """Lines at the bottom of the terminal that are redrawn ten times per second."""

    def __init__(self, console: Console, render: Callable[[int, int], list[Line]]) -> None:
        self._render = render
        self._live = Live(
            self, console=console, transient=True, refresh_per_second=10, vertical_overflow="crop"
        )
        self._live.start()

    def stop(self) -> None:
        """Erase the lines."""
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Group(*self._render(options.max_width, console.height)), (0, 0))
