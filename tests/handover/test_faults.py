"""Every fault of the simulator, on every wire, streamed and whole, in this process and over real connections.

Laws: it ends as the tables say; no tool runs twice; afterwards the conversation is valid on every wire, and the next run on
the same orchestrator works.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from toolglot import errors
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import Timeouts
from toolglot.errors import ToolglotError
from toolglot.events import RunResult
from toolglot.loop.orchestrator import Orchestrator
from toolglot.simulator.core import Simulator
from toolglot.simulator.faults import FAULTS
from toolglot.simulator.server import SimulatorServer
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool

from .harness import (
    MODELS,
    QUICK,
    WIRE_PROFILES,
    RecordingTransport,
    check_every_profile,
    list_unpaired,
    make_engine,
    run_agent,
)

pytestmark = pytest.mark.untraced

PROMPT = 'call weather {"city": "Paris"} call weather {"city": "Rome"}\nthen say Done.'
STALLS = ("stall", "stall-first")
RACES = ("reset-mid-stream", "error-in-200")  # where all comes in one piece, nothing is shown, and it is asked again
PATIENCE = 0.15  # seconds, where waiting is what is tested

# ---- how each fault ends. "retried": asked once more, then as if nothing had been; else the stop of the run, or the error.
# Keys, the first that fits counts: "wire whole|live first|second", with * for any.
Ends = str | type[ToolglotError]
TABLE: dict[str, dict[str, Ends]] = {
    "rate-limit": {"* * *": "retried"},
    "rate-limit-date": {"* * *": "retried"},
    "server-error": {"* * *": "retried"},
    "overloaded": {"* * *": "retried"},
    "html": {"* * *": "retried"},
    "quota": {"gemini * *": "retried", "ollama * *": "retried", "* * *": errors.QuotaExceeded},  # two do not tell it apart
    "unauthorized": {"* * *": errors.AuthenticationFailed},
    "context-too-long": {"* * *": errors.ContextTooLong},
    "reset": {"* * *": "retried"},
    "reset-mid-stream": {"* whole *": "retried", "* live *": errors.ConnectionLost},
    "stall": {"* whole *": "retried", "* live *": errors.TimedOut},
    "stall-first": {"* * *": "retried"},
    "half-json": {"* whole *": "retried", "* live *": errors.MalformedReply},
    "truncated": {"* whole *": "retried", "* live *": errors.TruncatedStream},
    "error-in-200": {"* whole *": "retried", "anthropic live *": errors.Overloaded, "* live *": errors.ServerFailed},
    "error-in-200-first": {"* * *": "retried"},
    "wrong-index": {"* * *": "end"},
    "duplicate-ids": {"* * *": "end"},
    "unknown-tool": {"* * *": "end"},
    "length": {"* * first": "end", "* * second": "length"},
    "not-json-args": {"gemini * first": "error", "* * *": "end"},
}
# What the tools did and how: fault -> the cities that were looked up, where the first reply has the fault, and the kinds of
# all results of the run. Faults that are not here: both cities, no error.
BOTH = ["Paris", "Rome"]
TOOLS: dict[str, dict[str, tuple[list[str], list[str | None]]]] = {
    "unknown-tool": {"* * first": ([], ["not_found", "not_found"]), "* * second": (BOTH, [None, None, "not_found"])},
    "duplicate-ids": {"* * second": (BOTH, [None, None, "not_found", "not_found"])},
    "length": {"* * first": (["Paris"], [None, "truncated"])},
    "not-json-args": {
        "gemini * first": ([], []),
        "ollama * first": (BOTH, [None, None]),
        "anthropic whole first": (BOTH, [None, None]),
        "* * first": ([], ["validation", "validation"]),
    },
}
# The error that is left where a fault does not go away.
FOR_EVER: dict[str, dict[str, type[ToolglotError]]] = {
    "rate-limit": {"* * *": errors.RateLimited},
    "rate-limit-date": {"* * *": errors.RateLimited},
    "server-error": {"* * *": errors.ServerFailed},
    "overloaded": {"* * *": errors.Overloaded},
    "html": {"* * *": errors.ServerFailed},
    "reset": {"* * *": errors.ConnectionLost},
    "error-in-200-first": {"anthropic * *": errors.Overloaded, "* * *": errors.ServerFailed},
    "reset-mid-stream": {"* * *": errors.ConnectionLost},
    "half-json": {"* * *": errors.MalformedReply},
    "truncated": {"* * *": errors.MalformedReply},
}


def chosen(table: dict[str, Any], key: str, default: Any = None) -> Any:
    for pattern, value in table.items():
        if all(wanted in ("*", word) for wanted, word in zip(pattern.split(), key.split(), strict=True)):
            return value
    return default


class Case(msgspec.Struct, frozen=True):
    fault: str
    profile: str
    live: bool
    second: bool
    """Whether the fault is in the answer after the tools have run."""

    @property
    def key(self) -> str:
        return f"{self.profile} {'live' if self.live else 'whole'} {'second' if self.second else 'first'}"

    def __str__(self) -> str:
        return f"{self.fault}-{self.key}".replace(" ", "-")

    @property
    def ends(self) -> Ends:
        return chosen(TABLE[self.fault], self.key)

    def faults(self, times: int = 1) -> list[str]:
        return [*([""] if self.second else []), *[self.fault] * times]


CASES = [
    Case(fault, profile, live, second)
    for fault in FAULTS
    for profile in WIRE_PROFILES
    for live in (False, True)
    for second in (False, True)
]


class Play:
    """A run with a fault in it, and what came of it."""

    def __init__(self, case: Case, engine: Engine, **config: Any) -> None:
        self.case, self.ran = case, list[str]()
        self.error: ToolglotError | None = None
        self.result: RunResult | None = None
        self.agent = Orchestrator(engine, tools=[self.weather()], config=ToolConfig(retry=QUICK, **config))

    def weather(self) -> Tool:
        @tool
        async def weather(city: str) -> str:
            """The weather of a city."""
            self.ran.append(city)
            return f"sunny in {city}"

        return weather

    async def run(self) -> None:
        try:
            self.result = await run_agent(self.agent, PROMPT, live=self.case.live)
        except ToolglotError as e:
            self.error = e

    def ended(self) -> Ends:
        if self.error is not None:
            return type(self.error)
        assert self.result is not None
        return self.result.stop

    async def goes_on(self) -> None:
        """The next run works, and what was said before stands."""
        before = list(self.agent.conversation)
        assert [note for note in list_unpaired(before) if self.case.fault != "duplicate-ids"] == []
        result = await run_agent(self.agent, "say It works again.", live=self.case.live)
        assert (result.text, result.stop) == ("It works again.", "end")
        assert list(self.agent.conversation)[: len(before)] == before
        assert len({*self.ran}) == len(self.ran), "a tool ran twice"


def check(play: Play, transport: RecordingTransport, *, real: bool = False) -> None:
    """What a run with a fault must have come to. `real`: the network decides how much was seen before it broke."""
    case, ends, requests = play.case, play.case.ends, len(transport.sent)
    if real and case.live and case.fault in RACES and play.error is None:
        ends = "retried"
    if not isinstance(ends, str):
        assert issubclass(type(play.error), ends), play.error
        assert requests == 1 + case.second
        assert sorted(play.ran) == (BOTH if case.second else [])
        return
    assert play.ended() == ("end" if ends == "retried" else ends), play.error
    assert play.result is not None
    ran, kinds = chosen(TOOLS.get(case.fault, {}), case.key, (BOTH, [None, None]))
    assert sorted(play.ran) == ran
    results = [result for message in play.result.messages for result in message.results]
    assert [result.error_kind for result in results] == kinds
    assert requests == play.result.iterations + (ends == "retried")


def test_the_table_holds_every_fault() -> None:
    assert sorted(TABLE) == sorted(FAULTS)


@pytest.mark.parametrize("case", [case for case in CASES if case.fault not in STALLS], ids=str)
def test_in_this_process(case: Case) -> None:
    async def play() -> None:
        transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults())))
        scene = Play(case, make_engine(case.profile, transport, retry=QUICK, heal=True))
        await scene.run()
        check(scene, transport)
        await scene.goes_on()
        assert await check_every_profile(scene.agent.conversation) == []

    asyncio.run(play())


@pytest.mark.parametrize("case", [case for case in CASES if case.fault in STALLS], ids=str)
def test_a_stall_ends_with_the_time_of_the_run(case: Case) -> None:
    async def play() -> None:
        transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults())))
        scene = Play(case, make_engine(case.profile, transport), run_timeout=PATIENCE)
        await scene.run()
        assert scene.ended() == "budget"
        assert sorted(scene.ran) == (BOTH if case.second else [])
        await scene.goes_on()
        assert await check_every_profile(scene.agent.conversation) == []

    asyncio.run(play())


@pytest.mark.parametrize("case", [case for case in CASES if case.second], ids=str)
def test_over_real_connections(case: Case) -> None:
    wait = PATIENCE if case.fault in STALLS else 30.0

    async def play() -> None:
        server = SimulatorServer(Simulator(faults=case.faults()))
        transport = RecordingTransport(HttpTransport(Timeouts(connect=5.0, first_byte=wait, idle=wait)))
        async with server as url:
            engine = create_engine(
                f"{case.profile}:{MODELS[case.profile]}",
                base_url=f"{url}/@{case.profile}",
                key="k",
                transport=transport,
                retry=QUICK,
            )
            scene = Play(case, engine)
            await scene.run()
            check(scene, transport, real=True)
            await scene.goes_on()
            await transport.close()

    asyncio.run(play())


@pytest.mark.parametrize("fault", FOR_EVER)
@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_fault_that_does_not_go_away(fault: str, profile: str, live: bool, second: bool) -> None:
    case = Case(fault, profile, live, second)
    tries = 1 if case.ends != "retried" else 1 + QUICK.max_retries

    async def play() -> None:
        transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults(tries))))
        scene = Play(case, make_engine(profile, transport, retry=QUICK, heal=True))
        await scene.run()
        assert issubclass(type(scene.error), chosen(FOR_EVER[fault], case.key)), scene.ended()
        assert len(transport.sent) == tries + second
        assert sorted(scene.ran) == (BOTH if second else [])
        await scene.goes_on()
        assert await check_every_profile(scene.agent.conversation) == []

    asyncio.run(play())


# ---- calls that share an id, calls that never ran


def twice(fault: str, profile: str, **options: Any) -> tuple[Orchestrator, list[str]]:
    ran: list[str] = []

    @tool(**options)
    async def weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return f"sunny in {city}"

    engine = make_engine(profile, SimulatedTransport(Simulator(faults=[fault])))
    return Orchestrator(engine, tools=[weather]), ran


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_ids_that_came_twice_are_told_apart_in_the_conversation(profile: str) -> None:
    agent, ran = twice("duplicate-ids", profile)
    asyncio.run(agent.run(PROMPT))
    assert sorted(ran) == BOTH
    assert list_unpaired(agent.conversation) == []


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_an_approval_is_for_one_call_even_where_ids_came_twice(profile: str) -> None:
    async def play() -> list[str]:
        agent, ran = twice("duplicate-ids", profile, approval=True)
        paused = await agent.run(PROMPT)
        assert [call.arguments for call in paused.pending] == [{"city": "Paris"}, {"city": "Rome"}]
        await agent.resume({paused.pending[0].id: "yes"})
        return ran

    assert asyncio.run(play()) == ["Paris"]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_a_call_that_was_cut_is_among_the_outcomes(profile: str) -> None:
    agent, _ = twice("length", profile)
    result = asyncio.run(agent.run(PROMPT))
    assert [(outcome.result.error_kind, outcome.ran) for outcome in result.outcomes] == [(None, True), ("truncated", False)]


def test_a_call_that_was_refused_later_is_among_the_outcomes() -> None:
    async def play() -> RunResult:
        agent, _ = twice("", "anthropic", approval=True)
        paused = await agent.run(PROMPT)
        first, second = paused.pending
        return await agent.resume({first.id: "yes", second.id: "no"})

    result = asyncio.run(play())
    assert [(outcome.result.error_kind, outcome.ran) for outcome in result.outcomes] == [(None, True), ("rejected", False)]


@pytest.mark.parametrize("live", [False, True], ids=["whole", "live"])
@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_a_call_that_was_cut_is_never_run_not_even_early(profile: str, live: bool) -> None:
    """Without its city the second call still looks whole: only the end of the reply tells that it was cut."""

    async def play() -> list[str]:
        ran: list[str] = []

        @tool(effects="read")
        async def weather(city: str = "anywhere") -> str:
            """The weather of a city."""
            ran.append(city)
            return f"sunny in {city}"

        engine = make_engine(profile, SimulatedTransport(Simulator(faults=["length"])))
        await run_agent(Orchestrator(engine, tools=[weather], config=ToolConfig(eager_start=True)), PROMPT, live=live)
        return ran

    assert asyncio.run(play()) == ["Paris"]
