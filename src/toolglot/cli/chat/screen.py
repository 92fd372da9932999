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

from toolglot.cli.chat.markdown_blocks import BlockSplitter
from toolglot.cli.format_call import format_arguments
from toolglot.cli.sanitize import escape_controls, escape_invisible, shorten
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

__all__ = ["FoldedText", "PrintCapture", "Screen"]

_STALL_SECONDS = 3.0  # seconds without an event that are worth a word
_MAX_LIVE_LINES = 12  # lines at the bottom that may change
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {"call": "●", "fail": "✗", "thought": "✻", "result": "└"}
_ASCII_MARKS = {"call": "*", "fail": "x", "thought": "~", "result": ">"}


class FoldedText(msgspec.Struct, frozen=True):
    """Something of which only the beginning was shown."""

    title: str
    text: str


class _CallCard(msgspec.Struct):
    """A call on its way."""

    name: str
    argument_parts: list[str] = []
    call: ToolCall | None = None
    started_at: float | None = None
    progress: str = ""


class Screen:
    """Shows what happens in a chat."""

    def __init__(self, console: Console, settings: ChatSettings | None = None) -> None:
        self.console = console
        self.settings = settings or ChatSettings()
        self.folded_texts: list[FoldedText] = []
        self.is_simulated = False
        """Whether nothing really costs anything."""
        self._is_interactive = console.is_terminal and not console.is_dumb_terminal
        self._marks = _MARKS if (console.encoding or "").lower().startswith("utf") else _ASCII_MARKS
        self._spinner = _SPINNER if self._marks is _MARKS else "|/-\\"
        self._parser = (
            MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")
        )  # <tags> are words here
        self._live: Live | None = None
        self._shown_losses: set[Loss] = set()
        self._queued_events: list[RunEvent] | None = None  # what happens while somebody is asked
        self._reset()

    def _reset(self) -> None:
        self._blocks = BlockSplitter()
        self._pending_return = ""  # a return whose new line may come with the next piece
        self._truncation_notes = set[str]()
        self._at_line_start = True  # in a pipe: whether the cursor is at the start of a line
        self._thinking_parts: list[str] = []
        self._thinking_started_at = 0.0
        self._cards: dict[str, _CallCard] = {}
        self._streaming_cards: dict[int, _CallCard] = {}
        self._wait_label = ""
        self._turn_started_at = self._last_event_at = time.monotonic()

    # ---- a turn

    @contextmanager
    def turn(self) -> Generator[None]:
        """A turn: the moving lines are there while it lasts."""
        self._reset()
        self._wait_label = "waiting"
        self._show_live()
        try:
            yield
        finally:
            self._flush_thinking()
            self._flush_text()
            self._hide_live()
            for card in self._cards.values():  # nobody has told how they ended
                if card.call is not None and card.started_at is not None:
                    said = f"{card.name} {shorten(format_arguments(card.call), 60)}"
                    self.note(f"{self._marks['fail']} {said}  stopped after {time.monotonic() - card.started_at:.1f} s", "red")
            self._cards, self._streaming_cards = {}, {}

    @contextmanager
    def pause(self) -> Generator[None]:
        """Nothing moves: somebody is asked something."""
        shown = self._live is not None
        self._flush_text()
        self._hide_live()
        self._queued_events = []
        try:
            yield
        finally:
            held, self._queued_events = self._queued_events, None
            if shown:
                self._show_live()
            for event in held:
                self.show_event(event)

    def _show_live(self) -> None:
        if self._is_interactive and self._live is None:
            self._live = Live(
                _LiveArea(self), console=self.console, transient=True, refresh_per_second=10, vertical_overflow="crop"
            )
            self._live.start()

    def _hide_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show_event(self, event: RunEvent) -> None:
        """One thing that happened."""
        if self._queued_events is not None:
            self._queued_events.append(event)
            return
        self._last_event_at = time.monotonic()
        match event:
            case TextDelta():
                self._show_text(event.text)
            case ThinkingDelta():
                self._add_thinking(event.text)
            case ToolCallStarted():
                self._flush_thinking()
                self._flush_text()
                self._streaming_cards[event.index] = _CallCard(shorten(event.name, 60), [])
            case ToolCallDelta():
                if card := self._streaming_cards.get(event.index):
                    card.argument_parts.append(event.text)
            case ToolCallReady():
                self._flush_thinking()
                self._flush_text()
                self._add_card(event)
            case BlockReady():
                self._show_block(event.block)
            case _:
                self._show_run_event(event)

    def _show_run_event(self, event: RunEvent) -> None:
        match event:
            case ToolStarted():
                card = self._cards.setdefault(event.call.id, _CallCard(shorten(event.call.name, 60), [], event.call))
                card.started_at = time.monotonic()
            case ToolProgress():
                if card := self._cards.get(event.call.id):
                    card.progress = event.text
            case ToolFinished():
                self._show_outcome(event)
            case Retrying():
                self.note(f"asked again in {event.seconds:.1f} s: {event.why}", "yellow")
            case ModelSwitched():
                self.note(f"going on with {event.model}: {event.why}", "yellow")
            case ContextCut():
                self._truncation_notes.add(event.said)
                self.note(event.said, "yellow")
                if event.summary:
                    self.fold("summary of the older part", event.summary)
            case RunDone():
                self._show_result(event.result)
            case _:
                self._wait_label = "waiting"

    # ---- text and thinking

    def _show_text(self, text: str) -> None:
        self._wait_label = ""
        self._flush_thinking()
        text = self._pending_return + text
        self._pending_return = "\r" if text.endswith("\r") else ""
        text = escape_controls(text.removesuffix("\r"))
        if not self._is_interactive:
            self.console.file.write(text)
            self.console.file.flush()
            self._at_line_start = text.endswith("\n") if text else self._at_line_start
            return
        for block in self._blocks.feed(text):
            self._draw_block(block)

    def _flush_text(self) -> None:
        if not self._is_interactive:
            if not self._at_line_start:
                self.console.file.write("\n")
                self._at_line_start = True
            return
        for block in self._blocks.close():
            self._draw_block(block)

    def _draw_block(self, block: str) -> None:
        drawing = Markdown(block, code_theme="ansi_dark", hyperlinks=False)
        drawing.parsed = self._parser.parse(block)
        lines = self.console.render_lines(drawing, pad=False)
        full = [place for place, line in enumerate(lines) if "".join(part.text for part in line).strip()]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            self.console.print(Segments([*line, Segment.line()]), end="")
        self.console.print()

    def _add_thinking(self, text: str) -> None:
        self._wait_label = ""
        if not self._thinking_parts:
            self._flush_text()
            self._thinking_started_at = time.monotonic()
        self._thinking_parts.append(text)

    def _flush_thinking(self) -> None:
        if not self._thinking_parts:
            return
        text, self._thinking_parts = escape_controls("".join(self._thinking_parts)).strip(), []
        seconds = time.monotonic() - self._thinking_started_at
        if self.settings.thinking == "hidden" or not text:
            return
        if self.settings.thinking == "shown":
            self.console.print(Line(f"{self._marks['thought']} {text}", style="dim italic"))
            return
        number = self.fold("thinking", text)
        words = len(text.split())
        self.note(
            f"{self._marks['thought']} thought for {seconds:.1f} s, {_pluralize(words, 'word')} · /show {number}", "dim italic"
        )

    def _show_block(self, block: Any) -> None:
        if isinstance(block, Media):
            self._flush_text()
            size = f", {len(block.data) * 3 // 4:,} bytes" if block.data else ""
            self.note(f"[{block.kind} {block.media_type}{size}]", "cyan")
        elif isinstance(block, Foreign):
            self._flush_text()
            item: Any = block.item
            kind = item.get("type", "item") if isinstance(item, dict) else "item"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            number = self.fold(f"{block.wire} {kind}", dumps_text(item))
            self.note(f"[{kind} of {block.wire}] · /show {number}", "dim")

    # ---- calls

    def _add_card(self, event: ToolCallReady) -> None:
        self._streaming_cards.pop(event.index, None)
        self._cards[event.call.id] = _CallCard(shorten(event.call.name, 60), [], event.call)

    def _show_outcome(self, event: ToolFinished) -> None:
        outcome = event.outcome
        call, result = outcome.call, outcome.result
        self._cards.pop(call.id, None)
        if not self._is_interactive:
            self._flush_text()
        name = shorten(call.name, 60)
        failed = result.is_error
        head = Line()
        head.append(f"{self._marks['fail' if failed else 'call']} ", style="red" if failed else "green")
        head.append(name, style="bold red" if failed else "bold")
        whole = format_arguments(call)
        head.append(f" {shorten(whole, max(20, 2 * self.console.width - len(name) - 12))}", style="dim")
        if outcome.ran:
            head.append(f"  {outcome.seconds:.1f} s", style="dim")
        self.console.print(head, soft_wrap=not self._is_interactive)
        text = escape_controls(result.text).strip() or (
            "" if any(not hasattr(one, "text") for one in result.content) else "(no output)"
        )
        self._show_result_text(text, f"{call.name} {whole}", "red" if failed else "dim")
        for block in result.content:
            if not hasattr(block, "text"):
                self._show_block(block)
        self._wait_label = "waiting"

    def _show_result_text(self, text: str, title: str, style: str) -> None:
        most, width = self.settings.result_lines, max(10, self.console.width - 5) if self._is_interactive else 10_000
        lines = text.splitlines()
        first = [line.expandtabs(4) for line in lines[:most]]
        shown = [line if cell_len(line) <= width else chop_cells(line, width - 1)[0] + "…" for line in first]
        for number, line in enumerate(shown):
            self.console.print(Line(f"  {self._marks['result'] if not number else ' '} {line}", style=style), soft_wrap=True)
        if len(lines) > most or shown != first:
            number = self.fold(title, text)
            more = _pluralize(len(lines) - most, "more line") if len(lines) > most else "cut"
            self.note(f"    … {more} · /show {number}", "dim")

    def _show_result(self, result: RunResult) -> None:
        self._wait_label = ""
        self._flush_thinking()
        self._flush_text()
        self.show_warnings(result)
        self.note(_format_summary(result, time.monotonic() - self._turn_started_at, simulated=self.is_simulated), "dim")

    def show_warnings(self, result: RunResult) -> None:
        """What was lost, once; and an end that is not the usual one."""
        for loss in result.losses:
            if loss not in self._shown_losses and loss.reason not in self._truncation_notes:
                self._shown_losses.add(loss)
                self.note(f"lost: {loss}", "yellow")
        if result.stop != "end":
            self.note(f"it stopped early: {result.stop}", "yellow")

    # ---- lines of our own

    def note(self, text: str, style: str = "") -> None:
        """One line for the user."""
        if not self._is_interactive:
            self._flush_text()
        self.console.print(Line(escape_invisible(text), style=style), soft_wrap=not self._is_interactive)

    def error(self, text: str) -> None:
        """Something went wrong; the chat goes on."""
        self.note(text, "red")

    def fold(self, title: str, text: str) -> int:
        """Keeps a text; its number."""
        self.folded_texts.append(FoldedText(title, text))
        return len(self.folded_texts)

    def mark_losses_shown(self, losses: Iterable[Loss]) -> None:
        """The user has been told of these; of others there is news again."""
        self._shown_losses = set(losses)

    # ---- the moving lines

    def render_live_area(self, width: int, height: int) -> RenderableType:
        """What is not over yet, in a few lines."""
        now, parts = time.monotonic(), list[RenderableType]()
        room = max(3, min(_MAX_LIVE_LINES, height // 3))
        frame = self._spinner[int(now * 10) % len(self._spinner)]
        cards = [*self._streaming_cards.values(), *self._cards.values()][-(room - 1) :]
        left = room - len(cards) - bool(self._thinking_parts)
        if left > 0 and (tail := self._blocks.tail.strip()):
            parts.append(Line("\n".join(_tail_lines(tail, width, left))))
        if self._thinking_parts:
            last = "".join(self._thinking_parts[-40:]).strip().rpartition("\n")[2]
            seconds = now - self._thinking_started_at
            parts.append(self._render_live_line(f"{frame} thinking {seconds:.0f} s  ", last[-width:], width, "dim italic"))
        for card in cards[-(room - bool(self._thinking_parts)) :]:
            parts.append(self._render_card(card, frame, now, width))
        if parts and not cards and now - self._last_event_at > _STALL_SECONDS:
            parts.append(
                self._render_live_line(
                    f"{frame} nothing new for {now - self._last_event_at:.0f} s", "  Ctrl-C stops", width, "dim"
                )
            )
        if not parts and self._wait_label:
            parts.append(
                self._render_live_line(
                    f"{frame} {self._wait_label} {now - self._turn_started_at:.0f} s", "  Ctrl-C stops", width, "dim"
                )
            )
        return Group(*parts)

    def _render_card(self, card: _CallCard, frame: str, now: float, width: int) -> Line:
        said = format_arguments(card.call) if card.call else "".join(card.argument_parts[-200:])
        elapsed = f" {now - card.started_at:.0f} s" if card.started_at else ""
        return self._render_live_line(f"{frame} {card.name}{elapsed}  ", card.progress or said, width, "cyan")

    def _render_live_line(self, head: str, text: str, width: int, style: str) -> Line:
        line = Line(head, style=style, no_wrap=True)
        line.append(shorten(text, width), style="dim")
        line.truncate(width - 1, overflow="ellipsis")
        return line


class PrintCapture:
    """What a tool prints: shown line by line, as what it is."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._partial_line = screen, ""
        self.encoding = screen.console.encoding

    def write(self, text: str) -> int:
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        for line in lines:
            self._screen.note(f"  {line}", "dim")
        return len(text)

    def flush(self) -> None:
        """Lines are shown when they are whole."""

    def isatty(self) -> bool:
        return False


class _LiveArea:
    """Draws the moving lines whenever it is asked to."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(self._screen.render_live_area(options.max_width, console.height), (0, 0))


def _tail_lines(text: str, width: int, limit: int) -> list[str]:
    """The end of a text as it fills a terminal; the work is bounded whatever its length."""
    text = text[-width * limit :]
    lines = [part for line in text.split("\n") for part in chop_cells(line.expandtabs(4), width) or [""]]
    return lines[-limit:]


def _format_summary(result: RunResult, seconds: float, *, simulated: bool) -> str:
    usage = result.usage
    parts = [f"{seconds:.1f} s"]
    if result.iterations > 1:
        parts.append(f"{result.iterations} requests")
    if usage.input or usage.output:
        cached = f" ({_format_count(usage.cached)} cached)" if usage.cached else ""
        parts.append(f"{_format_count(usage.input)} tokens in{cached}, {_format_count(usage.output)} out")
    if result.cost is not None and not simulated:
        parts.append(f"${result.cost:.4f}")
    return " · ".join(parts)


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _format_count(number: int) -> str:
    return f"{number:,}" if number < 10_000 else f"{number / 1000:.0f}k"
