"""Show the events of a turn: text as Markdown, folded thinking and results, tool calls while they run.

Finished output scrolls away like that of any program; only a few lines at the bottom change, and only on a
terminal. Output of models and tools is escaped, so that the terminal never interprets it. Folded text is kept
for `/show`.
"""

import io
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from toolglot.cli.chat.child_runs import ChildRuns
from toolglot.cli.chat.markdown_blocks import BlockSplitter
from toolglot.cli.styled import CONTINUATION, Line, WordWrapper, cell_width, chop
from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_controls, escape_invisible, shorten
from toolglot.common.textutil import pluralize
from toolglot.config.settings import ChatSettings
from toolglot.loop.format_call import describe_losses, describe_stop, format_arguments
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    BlockEvent,
    BlockReady,
    BlockStarted,
    ContextTruncated,
    Delivered,
    InnerEvent,
    Notice,
    ReplyDone,
    ReplyStarted,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolOutcome,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.losses import Loss
from toolglot.values.messages import Foreign, Media, ToolCall

if TYPE_CHECKING:
    from toolglot.cli.chat.live import LiveArea

_STALL_SECONDS = 3.0  # without an event for this long, say so
_MAX_LIVE_LINES = 12
_MAX_QUEUED_LINES = 3  # of what was typed during the turn
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class FoldedText(msgspec.Struct, frozen=True):
    """A text of which only the beginning was shown."""

    title: str
    text: str


class _CallCard(msgspec.Struct):
    """A tool call that is not finished."""

    name: str
    argument_parts: list[str] = []
    call: ToolCall | None = None
    started_at: float | None = None
    progress: str = ""
    children: ChildRuns | None = None
    """What the sub-agent does that the call runs, and those that it has called."""


class Screen:
    """Shows a chat on a rich console, or on a PlainConsole: in a pipe, or in a terminal that only prints
    lines.
    """

    def __init__(self, console: Any, settings: ChatSettings | None = None) -> None:
        self.console = console
        self.settings = settings or ChatSettings()
        self.folded_texts: list[FoldedText] = []
        self.typed_ahead: Callable[[], list[str]] = list
        """Returns the lines that were typed during the turn, the last one unfinished."""
        self.list_own_tools: Callable[[], Collection[str]] = tuple
        """Returns the names of the tools that the user has not written."""
        self.is_simulated = False
        """Whether the model is simulated, so requests are free."""
        self._is_interactive = console.is_terminal and not console.is_dumb_terminal
        self._wrapper = WordWrapper(console) if console.is_terminal and not self._is_interactive else None
        self._live: LiveArea | None = None
        self._shown_losses: set[Loss] = set()
        self._queued_events: list[RunEvent] | None = None  # a list while the user is being asked something
        self._reset()

    def _reset(self) -> None:
        self._blocks = BlockSplitter()
        self._pending_return = ""  # a "\r" whose "\n" may arrive with the next delta
        self._truncation_notes = set[str]()
        self._at_line_start = True
        self._thinking_parts: list[str] = []
        self._thinking_started_at = 0.0
        self._cards: dict[str, _CallCard] = {}
        self._streaming_cards: dict[int, _CallCard] = {}
        self._is_waiting = False
        self._turn_started_at = self._last_event_at = time.monotonic()

    # ---- a turn

    @contextmanager
    def turn(self) -> Generator[None]:
        """Show live lines for the duration of a turn."""
        self._reset()
        self._is_waiting = True
        self._show_live()
        try:
            yield
        finally:
            self._flush_thinking()
            self._flush_text()
            self._hide_live()
            for card in self._cards.values():  # calls without an outcome: the turn was stopped
                if card.call is not None and card.started_at is not None:
                    call = f"{card.name} {shorten(format_arguments(card.call), 60)}"
                    seconds = time.monotonic() - card.started_at
                    self.note(f"✗ {call}  stopped after {seconds:.1f} s", "red")
            self._cards, self._streaming_cards = {}, {}

    @contextmanager
    def pause(self) -> Generator[None]:
        """Hold back all output while the user is asked something."""
        was_live = self._live is not None
        self._flush_text()
        self._hide_live()
        self._queued_events = []
        asked_at = time.monotonic()
        try:
            yield
        finally:
            self._turn_started_at += time.monotonic() - asked_at  # the user's time is not the turn's
            events, self._queued_events = self._queued_events, None
            if was_live:
                self._show_live()
            for event in events:
                self.show_event(event)

    def _show_live(self) -> None:
        if self._is_interactive and self._live is None:
            from toolglot.cli.chat.live import LiveArea

            self._live = LiveArea(self.console, self.render_live_area)

    def _hide_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_inner(self, event: InnerEvent) -> None:
        """Show what a sub-agent does in place of the call that runs it."""
        card = self._cards.get(event.path[0])
        if card is None:
            return
        if card.children is None:
            card.children = ChildRuns(event.path[0], card.name)
        card.children.take(event)

    def show_event(self, event: RunEvent) -> None:
        """Show one event, or queue it while the screen is paused."""
        if self._queued_events is not None:
            self._queued_events.append(event)
            return
        self._last_event_at = time.monotonic()
        if isinstance(event, BlockEvent):
            self._show_block_event(event)
            return
        match event:
            case ReplyStarted() | ReplyDone() | ApprovalNeeded() | AnswerNeeded():
                self._is_waiting = True
            case ToolStarted():
                name = shorten(event.call.name, 60)
                card = self._cards.setdefault(event.call.id, _CallCard(name, [], event.call))
                card.started_at = time.monotonic()
            case ToolProgress():
                if card := self._cards.get(event.call.id):
                    card.progress = event.text
            case InnerEvent():
                self._show_inner(event)
            case ToolFinished():
                self._show_outcome(event)
            case Delivered():
                self._flush_text()
                self.note(f"> {shorten(event.message.text, 1000)}")
            case Notice():
                self._show_notice(event)
            case RunDone():
                self._show_result(event.result)
            case _:
                assert_never(event)

    def _show_notice(self, event: Notice) -> None:
        self.note(event.text, "yellow")
        if isinstance(event, ContextTruncated):
            self._truncation_notes.add(event.message)
            if event.summary:
                self.fold("summary of the older messages", event.summary)

    def _show_block_event(self, event: BlockEvent) -> None:
        match event:
            case BlockStarted():
                self._is_waiting = True
            case TextDelta():
                self._show_text(event.text)
            case ThinkingDelta():
                self._is_waiting = False
                if not self._thinking_parts:
                    self._flush_text()
                    self._thinking_started_at = time.monotonic()
                self._thinking_parts.append(event.text)
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
                self._streaming_cards.pop(event.index, None)
                self._cards[event.call.id] = _CallCard(shorten(event.call.name, 60), [], event.call)
            case BlockReady():
                self._show_block(event.block)
            case _:
                assert_never(event)

    # ---- text and thinking

    def _show_text(self, text: str) -> None:
        self._is_waiting = False
        self._flush_thinking()
        text = self._pending_return + text
        self._pending_return = "\r" if text.endswith("\r") else ""
        text = escape_controls(text.removesuffix("\r"))
        if self._is_interactive:
            self._draw_blocks(self._blocks.feed(text))
            return
        if self._wrapper is not None:
            text = self._wrapper.feed(text)
        self.console.file.write(text)
        self.console.file.flush()
        self._at_line_start = text.endswith("\n") if text else self._at_line_start

    def _flush_text(self) -> None:
        if self._is_interactive:
            self._draw_blocks(self._blocks.close())
            return
        last_word = self._wrapper.close() if self._wrapper is not None else ""
        if last_word or not self._at_line_start:
            self.console.file.write(f"{last_word}\n")
            self._at_line_start = True

    def _draw_blocks(self, blocks: Iterable[str]) -> None:
        from toolglot.cli.chat.live import print_markdown

        for block in blocks:
            print_markdown(self.console, block)

    def _flush_thinking(self) -> None:
        if not self._thinking_parts:
            return
        text, self._thinking_parts = escape_controls("".join(self._thinking_parts)).strip(), []
        seconds = time.monotonic() - self._thinking_started_at
        if self.settings.thinking == "hidden" or not text:
            return
        if self.settings.thinking == "shown":
            self.console.print(Line(f"✻ {text}", "dim italic"))
            return
        number = self.fold("thinking", text)
        words = pluralize(len(text.split()), "word")
        self.note(f"✻ thought for {seconds:.1f} s, {words} · /show {number}", "dim italic")

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
            self.note(f"[{block.wire} {kind}] · /show {number}", "dim")

    # ---- results

    def _show_outcome(self, event: ToolFinished) -> None:
        outcome = event.outcome
        call, result = outcome.call, outcome.result
        card = self._cards.pop(call.id, None)
        if not self._is_interactive:
            self._flush_text()
        if card is not None and card.children is not None:
            self._show_child(outcome, card.children)
            return
        name, arguments = shorten(_name_tool(outcome), 60), format_arguments(call)
        mark, color = ("✗ ", "red") if result.is_error else ("● ", "green")
        head = Line(mark, color).append(name, "bold red" if result.is_error else "bold")
        head.append(f" {shorten(arguments, max(20, 2 * self.console.width - len(name) - 12))}", "dim")
        if outcome.ran:
            attempts = f" ({outcome.retries + 1} attempts)" if outcome.retries else ""
            head.append(f"  {outcome.seconds:.1f} s{attempts}", "dim")
        self.console.print(head, soft_wrap=not self.console.is_terminal)
        others = [block for block in result.content if not hasattr(block, "text")]
        text = escape_controls(result.text).strip() or ("" if others else "(no output)")
        self._show_result_text(text, f"{call.name} {arguments}", "red" if result.is_error else "dim")
        for block in others:
            self._show_block(block)
        self._is_waiting = True

    def _show_child(self, outcome: ToolOutcome, children: ChildRuns) -> None:
        """Show a sub-agent that is done in one line: what it did, and its answer, are folded. Only why it has
        failed is shown.
        """
        name, result = shorten(_name_tool(outcome), 60), outcome.result
        answer, arguments = escape_controls(result.text).strip(), format_arguments(outcome.call)
        number = self.fold(f"{name} {arguments}", f"{children.steps}\n\n{answer}".strip("\n"))
        tail = f"  {outcome.seconds:.1f} s · {children.summary} · /show {number}"
        width = self.console.width - 1 if self.console.is_terminal else 10_000
        room = max(0, width - cell_width(f"● {name} {tail}"))
        mark, color = ("✗ ", "red") if result.is_error else ("● ", "green")
        head = Line(mark, color).append(name, "bold red" if result.is_error else "bold")
        task = str(Line(shorten(arguments, 200)).truncate(room)) if room > 10 else ""
        head.append(f" {task}" if task else "", "dim").append(tail, "dim")
        self.console.print(head, soft_wrap=not self.console.is_terminal)
        if result.is_error:
            self._show_result_text(answer, f"{name} {arguments}", "red")
        self._is_waiting = True

    def _show_result_text(self, text: str, title: str, style: str) -> None:
        """Show the first lines of a result, shortened to the width; fold the whole if something is missing."""
        limit = self.settings.result_lines
        width = max(10, self.console.width - 5) if self._is_interactive else 10_000
        lines = _drop_script_head(text.splitlines())
        is_shortened = len(lines) > limit
        for index, line in enumerate(lines[:limit]):
            shown = line.expandtabs(4)
            if cell_width(shown) > width:
                shown = next(chop(shown, width - 1)) + "…"
                is_shortened = True
            mark = " " if index else "└"
            self.console.print(Line(f"  {mark} {shown}", style), soft_wrap=True)
        if is_shortened:
            number = self.fold(title, text)
            hidden = pluralize(len(lines) - limit, "more line") if len(lines) > limit else "truncated"
            self.note(f"    … {hidden} · /show {number}", "dim")

    def _show_result(self, result: RunResult) -> None:
        self._is_waiting = False
        self._flush_thinking()
        self._flush_text()
        losses = [loss for loss in result.losses if loss.reason not in self._truncation_notes]
        new = [loss for loss in losses if loss not in self._shown_losses]
        for line in describe_losses(new, own_tools=self.list_own_tools()):
            self.note(line, "yellow")
        self._shown_losses.update(losses)
        if result.stop != "end":
            self.note(describe_stop(result.stop), "yellow")
        summary = [f"{time.monotonic() - self._turn_started_at:.1f} s"]
        if result.iterations > 1:
            summary.append(f"{result.iterations} requests")
        usage = result.usage
        if usage.input or usage.output:
            cached = f" ({_format_count(usage.cached)} cached)" if usage.cached else ""
            summary.append(
                f"{_format_count(usage.input)} tokens in{cached}, {_format_count(usage.output)} out"
            )
        if result.cost is not None and not self.is_simulated:
            summary.append(f"${result.cost:.4f}")
        self.note(" · ".join(summary), "dim")

    # ---- notes

    def note(self, text: str, style: str = "") -> None:
        """Print a line for the user."""
        if not self._is_interactive:
            self._flush_text()
        self.console.print(Line(escape_invisible(text), style), soft_wrap=not self.console.is_terminal)

    def clear(self) -> None:
        """Clear a terminal's screen, and forget the folded texts that it showed."""
        self.folded_texts.clear()
        if self._is_interactive:
            self.console.clear()

    def print_rows(self, lines: Iterable[Line]) -> int:
        """Print the lines of a question, and return their number of rows.

        Rows that continue a line are indented.
        """
        width = max(12, self.console.width - 1)
        continuation = CONTINUATION if width > 24 else CONTINUATION[-4:]
        rows = [row for line in lines for row in line.wrap(width, continuation)]
        for row in rows:
            self.console.print(row, soft_wrap=True)
        return len(rows)

    def fold(self, title: str, text: str) -> int:
        """Keep a text for `/show`; return its number."""
        self.folded_texts.append(FoldedText(title, text))
        return len(self.folded_texts)

    def mark_losses_shown(self, losses: Iterable[Loss]) -> None:
        """Do not report these losses again."""
        self._shown_losses = set(losses)

    # ---- live lines

    def render_live_area(self, width: int, height: int) -> list[Line]:
        """Render what is in progress: the end of the text, thinking, and running calls."""
        now, lines = time.monotonic(), list[Line]()
        limit = max(3, min(_MAX_LIVE_LINES, height // 3))
        frame = _SPINNER[int(now * 10) % len(_SPINNER)]
        is_thinking = bool(self._thinking_parts)
        calls = [
            row
            for card in (*self._streaming_cards.values(), *self._cards.values())
            for row in _describe_work(card, now, width)
        ][-(limit - 1) :]
        available = limit - len(calls) - is_thinking
        if available > 0 and (tail := self._blocks.tail.strip()):
            # Only the end of a long text is looked at, so that the work is bounded.
            pieces = (chop(line.expandtabs(4), width) for line in tail[-width * available :].split("\n"))
            lines += [Line(part) for piece in pieces for part in list(piece) or [""]][-available:]
        if is_thinking:
            thought = "".join(self._thinking_parts[-40:]).strip().rpartition("\n")[2]
            head = f"{frame} thinking {now - self._thinking_started_at:.0f} s  "
            lines.append(_live_line(head, thought[-width:], width, "dim italic"))
        for head, text in calls[-(limit - is_thinking) :]:
            lines.append(_live_line(f"{frame} {head}  ", text, width, "cyan"))
        silence = now - self._last_event_at
        if lines and not calls and silence > _STALL_SECONDS:
            lines.append(
                _live_line(f"{frame} no output for {silence:.0f} s  ", "Ctrl-C to stop", width, "dim")
            )
        if not lines and self._is_waiting:
            lines.append(
                _live_line(
                    f"{frame} waiting {now - self._turn_started_at:.0f} s  ", "Ctrl-C to stop", width, "dim"
                )
            )
        queued = [line for line in self.typed_ahead() if line.strip()]
        lines += [Line(f"> {line}", "dim").truncate(width - 1) for line in queued[-_MAX_QUEUED_LINES:]]
        return lines


class PrintCapture(io.TextIOBase):
    """A stdout for tools: shows each complete line in the chat."""

    encoding = "utf-8"

    def __init__(self, screen: Screen) -> None:
        self._screen, self._partial_line = screen, ""

    def write(self, text: str, /) -> int:
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        for line in lines:
            self._screen.note(f"  {line}", "dim")
        return len(text)


def _name_tool(outcome: ToolOutcome) -> str:
    """Return the tool's name as the model calls it, with our own name if it is another word: `Bash (shell)`."""
    native, name = outcome.result.name, outcome.call.name
    if not native or native == outcome.call.qualified_name:
        return name
    return native if native.lower() == name.lower() else f"{native} ({name})"


def _drop_script_head(lines: list[str]) -> list[str]:
    """Return the lines of a result without what Codex writes above the output of a script, unless that says
    more.
    """
    if len(lines) < 4 or lines[2] != "Output:":
        return lines
    state, wall_time = lines[:2]
    if not state.startswith("Script ") or not wall_time.startswith("Wall time "):
        return lines
    if state in ("Script completed", "Script failed"):
        return lines[3:]
    return [state, *lines[3:]]


def _describe_work(card: _CallCard, now: float, width: int) -> list[tuple[str, str]]:
    """Return the name of a call and what it does; of a call that runs sub-agents, those of each that works."""
    if card.children is not None:
        runs = [(run.head, run.describe(width - 6)) for run in card.children.live]
        return runs or [(card.name, card.children.summary)]
    arguments = format_arguments(card.call) if card.call else "".join(card.argument_parts[-200:])
    elapsed = f" {now - card.started_at:.0f} s" if card.started_at else ""
    return [(f"{card.name}{elapsed}", card.progress or arguments)]


def _live_line(head: str, text: str, width: int, style: str) -> Line:
    return Line(head, style).append(shorten(text, width), "dim").truncate(width - 1)


def _format_count(number: int) -> str:
    return f"{number:,}" if number < 10_000 else f"{number / 1000:.0f}k"
