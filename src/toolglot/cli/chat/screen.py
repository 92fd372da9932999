"""What a chat shows of a turn: text as markdown, thinking and results folded, calls as they happen.

Laws: what is drawn for good scrolls away like any output; only the few lines at the bottom move, and only on a terminal.
Whatever a model or a tool said is shown without being obeyed. What was folded is kept: `/show` has it.
"""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.text import Text as Line

from toolglot.cli.chat.blocks import Blocks
from toolglot.cli.said import said_arguments
from toolglot.cli.visible import harmless, shortened, visible
from toolglot.config.settings import ChatSettings
from toolglot.events import (
    BlockReady,
    ContextCut,
    ModelSwitched,
    Retrying,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from toolglot.jsontext import dumps_text
from toolglot.losses import Loss
from toolglot.messages import Foreign, Media, ToolCall

__all__ = ["Folded", "Noise", "Screen"]

_STALLED = 3.0  # seconds without an event that are worth a word
_MOVING = 12  # lines at the bottom that may change
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {"call": "●", "fail": "✗", "thought": "✻", "result": "└"}
_PLAIN_MARKS = {"call": "*", "fail": "x", "thought": "~", "result": ">"}


class Folded(msgspec.Struct, frozen=True):
    """Something of which only the beginning was shown."""

    title: str
    text: str


class _Card(msgspec.Struct):
    """A call on its way."""

    name: str
    said: list[str] = []
    call: ToolCall | None = None
    since: float | None = None
    progress: str = ""


class Screen:
    """Shows what happens in a chat."""

    def __init__(self, console: Console, settings: ChatSettings | None = None) -> None:
        self.console = console
        self.settings = settings or ChatSettings()
        self.folded: list[Folded] = []
        self.simulated = False
        """Whether nothing really costs anything."""
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._marks = _MARKS if (console.encoding or "").lower().startswith("utf") else _PLAIN_MARKS
        self._frames = _FRAMES if self._marks is _MARKS else "|/-\\"
        self._parser = (
            MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")
        )  # <tags> are words here
        self._live: Live | None = None
        self._known_losses: set[Loss] = set()
        self._held: list[RunEvent] | None = None  # what happens while somebody is asked
        self._clear()

    def _clear(self) -> None:
        self._blocks = Blocks()
        self._half = ""  # a return whose new line may come with the next piece
        self._cuts = set[str]()
        self._wrote_line = True  # in a pipe: whether the cursor is at the start of a line
        self._thought: list[str] = []
        self._thinks_since = 0.0
        self._cards: dict[str, _Card] = {}
        self._writing: dict[int, _Card] = {}
        self._waits = ""
        self._started = self._heard = time.monotonic()

    # ---- a turn

    @contextmanager
    def turn(self) -> Generator[None]:
        """A turn: the moving lines are there while it lasts."""
        self._clear()
        self._waits = "waiting"
        self._show_live()
        try:
            yield
        finally:
            self._settle_thinking()
            self._settle_text()
            self._hide_live()
            for card in self._cards.values():  # nobody has told how they ended
                if card.call is not None and card.since is not None:
                    said = f"{card.name} {shortened(said_arguments(card.call), 60)}"
                    self.note(f"{self._marks['fail']} {said}  stopped after {time.monotonic() - card.since:.1f} s", "red")
            self._cards, self._writing = {}, {}

    @contextmanager
    def paused(self) -> Generator[None]:
        """Nothing moves: somebody is asked something."""
        shown = self._live is not None
        self._settle_text()
        self._hide_live()
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            if shown:
                self._show_live()
            for event in held:
                self.event(event)

    def _show_live(self) -> None:
        if self._moves and self._live is None:
            self._live = Live(
                _Bottom(self), console=self.console, transient=True, refresh_per_second=10, vertical_overflow="crop"
            )
            self._live.start()

    def _hide_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def event(self, event: RunEvent) -> None:
        """One thing that happened."""
        if self._held is not None:
            self._held.append(event)
            return
        self._heard = time.monotonic()
        match event:
            case TextDelta():
                self._text(event.text)
            case ThinkingDelta():
                self._think(event.text)
            case ToolCallStarted():
                self._settle_thinking()
                self._settle_text()
                self._writing[event.index] = _Card(shortened(event.name, 60), [])
            case ToolCallDelta():
                if card := self._writing.get(event.index):
                    card.said.append(event.text)
            case ToolCallReady():
                self._settle_thinking()
                self._settle_text()
                self._ready(event)
            case BlockReady():
                self._block(event.block)
            case _:
                self._run_event(event)

    def _run_event(self, event: RunEvent) -> None:
        match event:
            case ToolStarted():
                card = self._cards.setdefault(event.call.id, _Card(shortened(event.call.name, 60), [], event.call))
                card.since = time.monotonic()
            case ToolProgress():
                if card := self._cards.get(event.call.id):
                    card.progress = event.text
            case ToolFinished():
                self._finished(event)
            case Retrying():
                self.note(f"asked again in {event.seconds:.1f} s: {event.why}", "yellow")
            case ModelSwitched():
                self.note(f"going on with {event.model}: {event.why}", "yellow")
            case ContextCut():
                self._cuts.add(event.said)
                self.note(event.said, "yellow")
                if event.summary:
                    self.fold("summary of the older part", event.summary)
            case RunDone():
                self._done(event.result)
            case _:
                self._waits = "waiting"

    # ---- text and thinking

    def _text(self, text: str) -> None:
        self._waits = ""
        self._settle_thinking()
        text = self._half + text
        self._half = "\r" if text.endswith("\r") else ""
        text = harmless(text.removesuffix("\r"))
        if not self._moves:
            self.console.file.write(text)
            self.console.file.flush()
            self._wrote_line = text.endswith("\n") if text else self._wrote_line
            return
        for block in self._blocks.feed(text):
            self._draw(block)

    def _settle_text(self) -> None:
        if not self._moves:
            if not self._wrote_line:
                self.console.file.write("\n")
                self._wrote_line = True
            return
        for block in self._blocks.close():
            self._draw(block)

    def _draw(self, block: str) -> None:
        drawing = Markdown(block, code_theme="ansi_dark", hyperlinks=False)
        drawing.parsed = self._parser.parse(block)
        lines = self.console.render_lines(drawing, pad=False)
        full = [place for place, line in enumerate(lines) if "".join(part.text for part in line).strip()]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            self.console.print(Segments([*line, Segment.line()]), end="")
        self.console.print()

    def _think(self, text: str) -> None:
        self._waits = ""
        if not self._thought:
            self._settle_text()
            self._thinks_since = time.monotonic()
        self._thought.append(text)

    def _settle_thinking(self) -> None:
        if not self._thought:
            return
        text, self._thought = harmless("".join(self._thought)).strip(), []
        seconds = time.monotonic() - self._thinks_since
        if self.settings.thinking == "hidden" or not text:
            return
        if self.settings.thinking == "shown":
            self.console.print(Line(f"{self._marks['thought']} {text}", style="dim italic"))
            return
        number = self.fold("thinking", text)
        words = len(text.split())
        self.note(
            f"{self._marks['thought']} thought for {seconds:.1f} s, {_counted(words, 'word')} · /show {number}", "dim italic"
        )

    def _block(self, block: Any) -> None:
        if isinstance(block, Media):
            self._settle_text()
            size = f", {len(block.data) * 3 // 4:,} bytes" if block.data else ""
            self.note(f"[{block.kind} {block.media_type}{size}]", "cyan")
        elif isinstance(block, Foreign):
            self._settle_text()
            item: Any = block.item
            kind = item.get("type", "item") if isinstance(item, dict) else "item"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            number = self.fold(f"{block.wire} {kind}", dumps_text(item))
            self.note(f"[{kind} of {block.wire}] · /show {number}", "dim")

    # ---- calls

    def _ready(self, event: ToolCallReady) -> None:
        self._writing.pop(event.index, None)
        self._cards[event.call.id] = _Card(shortened(event.call.name, 60), [], event.call)

    def _finished(self, event: ToolFinished) -> None:
        outcome = event.outcome
        call, result = outcome.call, outcome.result
        self._cards.pop(call.id, None)
        if not self._moves:
            self._settle_text()
        name = shortened(call.name, 60)
        failed = result.is_error
        head = Line()
        head.append(f"{self._marks['fail' if failed else 'call']} ", style="red" if failed else "green")
        head.append(name, style="bold red" if failed else "bold")
        whole = said_arguments(call)
        head.append(f" {shortened(whole, max(20, 2 * self.console.width - len(name) - 12))}", style="dim")
        if outcome.ran:
            head.append(f"  {outcome.seconds:.1f} s", style="dim")
        self.console.print(head, soft_wrap=not self._moves)
        text = harmless(result.text).strip() or (
            "" if any(not hasattr(one, "text") for one in result.content) else "(no output)"
        )
        self._result(text, f"{call.name} {whole}", "red" if failed else "dim")
        for block in result.content:
            if not hasattr(block, "text"):
                self._block(block)
        self._waits = "waiting"

    def _result(self, text: str, title: str, style: str) -> None:
        most, width = self.settings.result_lines, max(10, self.console.width - 5) if self._moves else 10_000
        lines = text.splitlines()
        first = [line.expandtabs(4) for line in lines[:most]]
        shown = [line if cell_len(line) <= width else chop_cells(line, width - 1)[0] + "…" for line in first]
        for number, line in enumerate(shown):
            self.console.print(Line(f"  {self._marks['result'] if not number else ' '} {line}", style=style), soft_wrap=True)
        if len(lines) > most or shown != first:
            number = self.fold(title, text)
            more = _counted(len(lines) - most, "more line") if len(lines) > most else "cut"
            self.note(f"    … {more} · /show {number}", "dim")

    def _done(self, result: RunResult) -> None:
        self._waits = ""
        self._settle_thinking()
        self._settle_text()
        self.notices(result)
        self.note(_summary(result, time.monotonic() - self._started, simulated=self.simulated), "dim")

    def notices(self, result: RunResult) -> None:
        """What was lost, once; and an end that is not the usual one."""
        for loss in result.losses:
            if loss not in self._known_losses and loss.why not in self._cuts:
                self._known_losses.add(loss)
                self.note(f"lost: {loss}", "yellow")
        if result.stop != "end":
            self.note(f"it stopped early: {result.stop}", "yellow")

    # ---- lines of our own

    def note(self, text: str, style: str = "") -> None:
        """One line for the user."""
        if not self._moves:
            self._settle_text()
        self.console.print(Line(visible(text), style=style), soft_wrap=not self._moves)

    def error(self, text: str) -> None:
        """Something went wrong; the chat goes on."""
        self.note(text, "red")

    def fold(self, title: str, text: str) -> int:
        """Keeps a text; its number."""
        self.folded.append(Folded(title, text))
        return len(self.folded)

    def knows(self, losses: Iterable[Loss]) -> None:
        """The user has been told of these; of others there is news again."""
        self._known_losses = set(losses)

    # ---- the moving lines

    def bottom(self, width: int, height: int) -> RenderableType:
        """What is not over yet, in a few lines."""
        now, parts = time.monotonic(), list[RenderableType]()
        room = max(3, min(_MOVING, height // 3))
        frame = self._frames[int(now * 10) % len(self._frames)]
        cards = [*self._writing.values(), *self._cards.values()][-(room - 1) :]
        left = room - len(cards) - bool(self._thought)
        if left > 0 and (tail := self._blocks.tail.strip()):
            parts.append(Line("\n".join(_last_lines(tail, width, left))))
        if self._thought:
            last = "".join(self._thought[-40:]).strip().rpartition("\n")[2]
            seconds = now - self._thinks_since
            parts.append(self._moving(f"{frame} thinking {seconds:.0f} s  ", last[-width:], width, "dim italic"))
        for card in cards[-(room - bool(self._thought)) :]:
            parts.append(self._card(card, frame, now, width))
        if parts and not cards and now - self._heard > _STALLED:
            parts.append(self._moving(f"{frame} nothing new for {now - self._heard:.0f} s", "  Ctrl-C stops", width, "dim"))
        if not parts and self._waits:
            parts.append(self._moving(f"{frame} {self._waits} {now - self._started:.0f} s", "  Ctrl-C stops", width, "dim"))
        return Group(*parts)

    def _card(self, card: _Card, frame: str, now: float, width: int) -> Line:
        said = said_arguments(card.call) if card.call else "".join(card.said[-200:])
        elapsed = f" {now - card.since:.0f} s" if card.since else ""
        return self._moving(f"{frame} {card.name}{elapsed}  ", card.progress or said, width, "cyan")

    def _moving(self, head: str, text: str, width: int, style: str) -> Line:
        line = Line(head, style=style, no_wrap=True)
        line.append(shortened(text, width), style="dim")
        line.truncate(width - 1, overflow="ellipsis")
        return line


class Noise:
    """What a tool prints: shown line by line, as what it is."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._line = screen, ""
        self.encoding = screen.console.encoding

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._screen.note(f"  {line}", "dim")
        return len(text)

    def flush(self) -> None:
        """Lines are shown when they are whole."""

    def isatty(self) -> bool:
        return False


class _Bottom:
    """Draws the moving lines whenever it is asked to."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(self._screen.bottom(options.max_width, console.height), (0, 0))


def _last_lines(text: str, width: int, most: int) -> list[str]:
    """The end of a text as it fills a terminal; the work is bounded whatever its length."""
    text = text[-width * most :]
    lines = [part for line in text.split("\n") for part in chop_cells(line.expandtabs(4), width) or [""]]
    return lines[-most:]


def _summary(result: RunResult, seconds: float, *, simulated: bool) -> str:
    usage = result.usage
    parts = [f"{seconds:.1f} s"]
    if result.iterations > 1:
        parts.append(f"{result.iterations} requests")
    if usage.input or usage.output:
        cached = f" ({_count(usage.cached)} cached)" if usage.cached else ""
        parts.append(f"{_count(usage.input)} tokens in{cached}, {_count(usage.output)} out")
    if result.cost is not None and not simulated:
        parts.append(f"${result.cost:.4f}")
    return " · ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _count(number: int) -> str:
    return f"{number:,}" if number < 10_000 else f"{number / 1000:.0f}k"
