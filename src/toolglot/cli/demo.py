"""`toolglot demo`: run the same conversation with tools on every API format, over HTTP to the simulator.

Halfway through, each conversation is handed to another provider. A table sums up what happened.
"""

import asyncio
import time
from typing import Literal

import msgspec

from toolglot.cli.demo_samples import get_weather
from toolglot.cli.printer import Printer
from toolglot.cli.sanitize import escape_controls
from toolglot.cli.styled import Line
from toolglot.engine.engine import Engine
from toolglot.engine.factory import SIMULATED_MODELS, create_engine
from toolglot.engine.http import HttpTransport
from toolglot.errors import ToolError, UnknownName
from toolglot.events import ReplyDone, Retrying, RunDone, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from toolglot.loop.orchestrator import Orchestrator
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.server import SimulatorServer
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.tool import tool

__all__ = ["run_demo"]

_PROMPTS = ("What is the weather in Paris and in Rome?", "Plan a route from Paris to Rome by train.")
_HANDOVER_PROMPT = "Book a hotel in Rome for 2 nights."


@tool(effects={"read"})
def plan_route(start: str, destination: str, by: Literal["train", "car"] = "train") -> str:
    """Plan a route between two cities.

    Args:
        start: City of departure.
        destination: City of arrival.
        by: Means of transport.
    """
    return f"{start} - Milan - {destination}, 11 hours by {by}"


@tool(effects={"write", "network"})
async def book_hotel(city: str, nights: int, context: Context) -> str:
    """Book a hotel room in a city for a number of nights."""
    if context.attempt == 1:
        raise ToolError("the booking service is busy", retryable=True, retry_after=0.05)
    return f"booked: {nights} nights in {city}"


class _Row(msgspec.Struct):
    """Statistics of one conversation."""

    wire: str
    requests: int = 0
    calls: int = 0
    retries: int = 0
    losses: int = 0
    repairs: int = 0
    seconds: float = 0.0
    stop: str = ""


def run_demo(printer: Printer, *, only: str | None = None) -> int:
    """Run the conversations; return the exit code."""
    if only is not None and only not in SIMULATED_MODELS:
        raise UnknownName("provider of the demo", only, SIMULATED_MODELS)
    try:
        rows = asyncio.run(_run_conversations(printer, [only] if only else list(SIMULATED_MODELS)))
    except KeyboardInterrupt:
        printer.print_text("\ninterrupted")
        return 130
    printer.print_text("The same conversation, everywhere", "bold")
    table = [
        {
            "from → to": row.wire if row.stop == "end" else f"{row.wire} ({row.stop})",
            "requests": str(row.requests),
            "calls": str(row.calls),
            "retries": str(row.retries),
            "lost": str(row.losses),
            "repaired": str(row.repairs),
            "seconds": f"{row.seconds:.2f}",
        }
        for row in rows
    ]
    printer.print_table(table, list(table[0]))
    return int(any(row.stop != "end" for row in rows))


async def _run_conversations(printer: Printer, providers: list[str]) -> list[_Row]:
    server, transport = SimulatorServer(), HttpTransport()
    url = await server.start()
    printer.print_text(f"The simulator listens on {url}: real HTTP, no key needed.\n\n", "bold")

    def connect(provider: str) -> Engine:
        profile = resolve_profile(provider, SIMULATED_MODELS[provider])
        base_url = f"{url}/@{profile.id}"
        return create_engine(f"{profile.id}:{profile.model}", base_url=base_url, key="any", transport=transport)

    rows: list[_Row] = []
    try:
        for index, provider in enumerate(providers):
            others = [name for name in SIMULATED_MODELS if name != provider]
            other = others[index % len(others)]
            agent = Orchestrator(
                connect(provider),
                tools=[get_weather, plan_route, book_hotel],
                system="You plan journeys. Use the tools.",
                config=ToolConfig(timeout=5.0, retry=RetryConfig(base=0.05)),
            )
            row, start = _Row(f"{provider} → {other}"), time.monotonic()
            printer.print_rule(f"{agent.engine.profile.title} · {agent.engine.model}")
            for prompt in _PROMPTS:
                await _run_prompt(printer, agent, prompt, row)
            agent.switch(connect(other))
            printer.print_line(f"⇄ handed over to {agent.engine.profile.title} · {agent.engine.model}", "magenta")
            await _run_prompt(printer, agent, _HANDOVER_PROMPT, row)
            printer.print_line("")
            row.seconds = time.monotonic() - start
            rows.append(row)
    finally:
        await transport.close()
        await server.stop()
    return rows


async def _run_prompt(printer: Printer, agent: Orchestrator, prompt: str, row: _Row) -> None:
    printer.write(Line("you  ", "bold green").append(f"{prompt}\n"))
    writer = _Writer(printer)
    async for event in agent.stream(prompt):
        match event:
            case ThinkingDelta():
                writer.write(event.text, "dim italic")
            case TextDelta():
                writer.write(event.text, "")
            case ToolStarted():
                writer.write_line(f"  →  {event.call.name} {event.call.text}", "cyan")
            case ToolFinished():
                tool_result = event.outcome.result
                attempts = f" ({event.outcome.retries + 1} attempts)" if event.outcome.retries else ""
                note = f"  ←  {tool_result.text}  {event.outcome.seconds * 1000:.0f} ms{attempts}"
                writer.write_line(note, "red" if tool_result.is_error else "dim")
            case Retrying():
                writer.write_line(f"  …  retrying in {event.seconds:.1f} s: {event.reason}", "yellow")
            case ReplyDone():
                writer.end_line()
            case RunDone():
                result = event.result
                row.requests += result.iterations
                row.calls += len(result.outcomes)
                row.retries += sum(outcome.retries for outcome in result.outcomes)
                row.losses += len(result.losses)
                row.repairs += len(result.repairs)
                row.stop = result.stop if row.stop in ("", "end") else row.stop
            case _:
                pass


class _Writer:
    """Writes streamed text and whole lines without mixing them."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._style: str | None = None  # of the line that is not finished

    def write(self, text: str, style: str) -> None:
        if self._style != style:
            self.end_line()
            self._printer.write(Line("  ·  " if style else "     "))
            self._style = style
        self._printer.write(Line(escape_controls(text), style))

    def write_line(self, text: str, style: str) -> None:
        self.end_line()
        self._printer.print_line(text, style)

    def end_line(self) -> None:
        if self._style is not None:
            self._printer.print_line("")
            self._style = None
