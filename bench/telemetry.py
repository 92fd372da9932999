"""What OpenTelemetry costs a turn: a request with its streamed reply, and the call in it."""

import asyncio
from collections.abc import Iterator

from bench.measure import Figure, Run, Table, cpu_seconds
from toolglot import (
    Agent,
    Reply,
    RunLimits,
    Script,
    SimulatedTransport,
    Telemetry,
    Text,
    ToolCall,
    create_engine,
    tool,
)
from toolglot.engine.transport import HttpRequest, HttpResponse

MODEL = "simulator:openai-chat"
MAX_OFF, MAX_SPANS = 1.02, 2.0


@tool(inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class _Response:
    status, headers = 200, {"content-type": "text/event-stream"}

    def __init__(self, parts: list[bytes]) -> None:
        self._parts: Iterator[bytes] = iter(parts)

    async def read(self) -> bytes:
        return next(self._parts, b"")

    async def close(self) -> None:
        pass


class Canned:
    """The replies that the simulator gave once, in order: its own work is not measured."""

    def __init__(self, turns: int) -> None:
        calls = [
            Reply((ToolCall(f"call_{turn}", "add", {"a": turn, "b": 1}),), "tools")
            for turn in range(turns - 1)
        ]
        self._simulated = SimulatedTransport(Script([*calls, Reply((Text("Done."),))]))
        self._replies: list[list[bytes]] = []
        self._next = -1

    async def send(self, request: HttpRequest) -> HttpResponse:
        if self._next >= 0:
            self._next += 1
            return _Response(self._replies[self._next - 1])
        response, parts = await self._simulated.send(request), list[bytes]()
        while part := await response.read():
            parts.append(part)
        self._replies.append(parts)
        return _Response(parts)

    def rewind(self) -> None:
        self._next = 0


def telemetry_table(*, quick: bool) -> Table:
    """Without a provider, an agent looks for one once in a run; spans and metrics cost what the SDK does with
    them.
    """
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    tracers = TracerProvider(shutdown_on_exit=False)
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    tracers.add_span_processor(SpanProcessor())  # the spans are finished, and nobody exports them
    turns, loop = 20, asyncio.new_event_loop()
    canned = Canned(turns)
    engine, limits = create_engine(MODEL, transport=canned), RunLimits(max_iterations=turns + 1)

    async def converse(telemetry: Telemetry | bool | None) -> str:
        agent, text = Agent(engine, tools=[add], limits=limits, telemetry=telemetry), ""
        async for event in agent.stream("Add."):
            text = getattr(event, "text", text)
        return text

    def make_run(telemetry: Telemetry | bool | None) -> Run:
        def run() -> str:
            canned.rewind()
            return loop.run_until_complete(converse(telemetry))

        return run

    loop.run_until_complete(converse(False))  # fills the replies
    runs = {
        "off, or not imported": make_run(False),
        "OpenTelemetry imported, not set up": make_run(None),
        "spans": make_run(Telemetry("bench", tracer_provider=tracers)),
        "spans and metrics": make_run(Telemetry("bench", tracer_provider=tracers, meter_provider=meters)),
        "spans with content": make_run(Telemetry("bench", "SPAN_ONLY", tracer_provider=tracers)),
    }
    took = cpu_seconds(runs, dict.fromkeys(runs, "Done."), 5 if quick else 30)
    loop.close()
    table = Table(
        f"OpenTelemetry: CPU per turn of a streamed conversation of {turns} turns",
        "ratio: against an agent without it",
    )
    for name, seconds in took.items():
        goal = {"OpenTelemetry imported, not set up": MAX_OFF, "spans": MAX_SPANS}.get(name)
        table.rows.append(
            {
                "": name,
                "÷ off": Figure(seconds / took["off, or not imported"], maximum=goal),
                "µs": 1e6 * seconds / turns,
            }
        )
    return table
