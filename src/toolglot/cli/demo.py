"""`toolglot demo`: one conversation with tools on every wire, over real HTTP to the simulator, handed to another provider in
the middle of it, and a table of what happened.
"""

import asyncio
import time
from typing import Any, Literal

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text as Line

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


@tool(effects={"network"}, idempotent=True)
async def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Current weather of a city.

    Args:
        city: Name of the city.
        units: Unit of the temperature.
    """
    await asyncio.sleep(0.02)
    return {"city": city, "sky": "clear" if city < "Q" else "cloudy", "degrees": 21 if units == "celsius" else 70}


@tool(effects={"read"})
def plan_route(start: str, destination: str, by: Literal["train", "car"] = "train") -> str:
    """Plan a route between two cities.

    Args:
        start: Where the journey begins.
        destination: Where it ends.
        by: Train or car.
    """
    return f"{start} - Milan - {destination}, 11 hours by {by}"


@tool(effects={"write", "network"})
async def book_hotel(city: str, nights: int, context: Context) -> str:
    """Book a hotel room in a city for some nights."""
    if context.attempt == 1:
        raise ToolError("the booking service is busy", retryable=True, retry_after=0.05)
    return f"booked: {nights} nights in {city}"


class _Row(msgspec.Struct):
    """What happened on one wire."""

    wire: str
    requests: int = 0
    calls: int = 0
    retries: int = 0
    losses: int = 0
    repairs: int = 0
    seconds: float = 0.0
    stop: str = ""


def run_demo(console: Console, *, only: str | None = None) -> int:
    """Plays the conversations; the exit code."""
    if only is not None and only not in SIMULATED_MODELS:
        raise UnknownName("provider of the demo", only, SIMULATED_MODELS)
    try:
        rows = asyncio.run(_run_conversations(console, [only] if only else list(SIMULATED_MODELS)))
    except KeyboardInterrupt:
        console.print("\ninterrupted")
        return 130
    _print_table(console, rows)
    return int(any(row.stop != "end" for row in rows))


async def _run_conversations(console: Console, providers: list[str]) -> list[_Row]:
    server, transport = SimulatorServer(), HttpTransport()
    url = await server.start()
    console.print(Line(f"A stand-in for every provider listens on {url}: real HTTP, no key.\n", style="bold"))
    try:
        rows: list[_Row] = []
        for place, provider in enumerate(providers):
            others = [name for name in SIMULATED_MODELS if name != provider]
            rows.append(await _run_conversation(console, provider, others[place % len(others)], url, transport))
        return rows
    finally:
        await transport.close()
        await server.stop()


async def _run_conversation(console: Console, provider: str, other: str, url: str, transport: HttpTransport) -> _Row:
    agent = Orchestrator(
        _create_engine(provider, url, transport),
        tools=[get_weather, plan_route, book_hotel],
        system="You plan journeys. Use the tools.",
        config=ToolConfig(timeout=5.0, retry=RetryConfig(base=0.05)),
    )
    row, started = _Row(f"{provider} → {other}"), time.monotonic()
    console.rule(Line(f"{agent.engine.profile.title} · {agent.engine.model}", style="bold cyan"), align="left")
    for asked in _PROMPTS:
        await _run_prompt(console, agent, asked, row)
    agent.switch(_create_engine(other, url, transport))
    console.print(Line(f"⇄ handed to {agent.engine.profile.title} · {agent.engine.model}", style="magenta"))
    await _run_prompt(console, agent, _HANDOVER_PROMPT, row)
    console.print()
    row.seconds = time.monotonic() - started
    return row


def _create_engine(provider: str, url: str, transport: HttpTransport) -> Any:
    profile = resolve_profile(provider, SIMULATED_MODELS[provider])
    return create_engine(f"{profile.id}:{profile.model}", base_url=f"{url}/@{profile.id}", key="any", transport=transport)


async def _run_prompt(console: Console, agent: Orchestrator, prompt: str, row: _Row) -> None:
    console.print(Line.assemble(("you  ", "bold green"), prompt))
    writer = _Writer(console)
    async for event in agent.stream(prompt):
        match event:
            case ThinkingDelta():
                writer.write(event.text, "dim italic")
            case TextDelta():
                writer.write(event.text, "")
            case ToolStarted():
                writer.write_line(Line.assemble(("  →  ", "cyan"), (event.call.name, "bold"), f" {event.call.text}"))
            case ToolFinished():
                result = event.outcome.result
                again = f" (tried {event.outcome.retries + 1} times)" if event.outcome.retries else ""
                style = "red" if result.is_error else "dim"
                note = f"{result.text}  {event.outcome.seconds * 1000:.0f} ms{again}"
                writer.write_line(Line.assemble(("  ←  ", style), (note, style)))
            case Retrying():
                writer.write_line(Line(f"  …  asked again in {event.seconds:.1f} s: {event.why}", style="yellow"))
            case ReplyDone():
                writer.end()
            case RunDone():
                _add_result(row, event)
            case _:
                pass


def _add_result(row: _Row, done: RunDone) -> None:
    result = done.result
    row.requests += result.iterations
    row.calls += len(result.outcomes)
    row.retries += sum(outcome.retries for outcome in result.outcomes)
    row.losses += len(result.losses)
    row.repairs += len(result.repairs)
    row.stop = result.stop if row.stop in ("", "end") else row.stop


class _Writer:
    """Text as it streams, between whole lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._style: str | None = None

    def write(self, text: str, style: str) -> None:
        if self._style != style:
            self.end()
            self._console.print(Line("  ·  " if style else "     ", style=style), end="")
            self._style = style
        self._console.print(Line(text, style=style), end="", soft_wrap=True)

    def end(self) -> None:
        if self._style is not None:
            self._console.print()
            self._style = None

    def write_line(self, line: Line) -> None:
        self.end()
        self._console.print(line)


def _print_table(console: Console, rows: list[_Row]) -> None:
    table = Table(title="The same conversation, everywhere", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("from → to", no_wrap=True)
    for name in ("requests", "calls", "retries", "lost", "mended", "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = (row.requests, row.calls, row.retries, row.losses, row.repairs)
        table.add_row(Line(row.wire, style="green" if row.stop == "end" else "red"), *map(str, numbers), f"{row.seconds:.2f}")
    console.print(table)
