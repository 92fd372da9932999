"""Every fault of the simulator, on every wire, streamed and whole, in process and over HTTP.

Laws: it ends as the tables say; no tool runs twice; afterwards the conversation is valid on every wire, and
the next run on the same orchestrator works.
"""

from typing import Any

import msgspec
import pytest
from tests.loop.agents import check as check_valid

from toolglot import errors
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import Timeouts
from toolglot.errors import ToolglotError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.simulator.core import Simulator
from toolglot.simulator.faults import FAULTS
from toolglot.simulator.server import serve
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.events import RunResult

from .harness import MODELS, QUICK, WIRE_PROFILES, RecordingTransport, list_unpaired, make_engine, run_agent

pytestmark = pytest.mark.untraced

PROMPT = 'call weather {"city": "Paris"} call weather {"city": "Rome"}\nthen say Done.'
STALLS = ("stall", "stall-first")
# if everything arrives at once, nothing was shown yet, and it is retried
RACES = ("reset-mid-stream", "error-in-200")
WAIT = 0.15  # seconds

# ---- how each fault ends. "retried": once, and then it succeeds; else the stop reason of the run, or the
# error. Keys are "wire whole|live first|second", with * for any; the first match counts.
Ends = str | type[ToolglotError]
TABLE: dict[str, dict[str, Ends]] = {
    "rate-limit": {"* * *": "retried"},
    "rate-limit-date": {"* * *": "retried"},
    "server-error": {"* * *": "retried"},
    "overloaded": {"* * *": "retried"},
    "html": {"* * *": "retried"},
    # two do not tell it apart
    "quota": {"gemini * *": "retried", "ollama * *": "retried", "* * *": errors.QuotaExceeded},
    "unauthorized": {"* * *": errors.AuthenticationFailed},
    "context-too-long": {"* * *": errors.ContextTooLong},
    "reset": {"* * *": "retried"},
    "reset-mid-stream": {"* whole *": "retried", "* live *": errors.ConnectionLost},
    "stall": {"* whole *": "retried", "* live *": errors.TimedOut},
    "stall-first": {"* * *": "retried"},
    "half-json": {"* whole *": "retried", "* live *": errors.MalformedReply},
    "truncated": {"* whole *": "retried", "* live *": errors.TruncatedStream},
    "error-in-200": {
        "* whole *": "retried",
        "anthropic live *": errors.Overloaded,
        "* live *": errors.ServerFailed,
    },
    "error-in-200-first": {"* * *": "retried"},
    "wrong-index": {"* * *": "end"},
    "duplicate-ids": {"* * *": "end"},
    "unknown-tool": {"* * *": "end"},
    "length": {"* * first": "end", "* * second": "length"},
    "not-json-args": {"gemini * first": "error", "* * *": "end"},
}
# Fault -> the cities that were looked up, and the error kinds of all results of the run. Other faults: both
# cities, no error.
CITIES = ["Paris", "Rome"]
TOOLS: dict[str, dict[str, tuple[list[str], list[str | None]]]] = {
    "unknown-tool": {
        "* * first": ([], ["not_found", "not_found"]),
        "* * second": (CITIES, [None, None, "not_found"]),
    },
    "duplicate-ids": {"* * second": (CITIES, [None, None, "not_found", "not_found"])},
    "length": {"* * first": (["Paris"], [None, "truncated"])},
    "not-json-args": {
        "gemini * first": ([], []),
        "ollama * first": (CITIES, [None, None]),
        "anthropic whole first": (CITIES, [None, None]),
        "* * first": ([], ["validation", "validation"]),
    },
}
# The error if a fault persists.
PERMANENT_ERRORS: dict[str, dict[str, type[ToolglotError]]] = {
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


def look_up(table: dict[str, Any], key: str, default: Any = None) -> Any:
    for pattern, value in table.items():
        if all(wanted in ("*", word) for wanted, word in zip(pattern.split(), key.split(), strict=True)):
            return value
    return default


class Case(msgspec.Struct, frozen=True):
    fault: str
    profile: str
    live: bool
    second: bool
    """Whether the fault is in the reply after the tools have run."""

    @property
    def key(self) -> str:
        return f"{self.profile} {'live' if self.live else 'whole'} {'second' if self.second else 'first'}"

    def __str__(self) -> str:
        return f"{self.fault}-{self.key}".replace(" ", "-")

    @property
    def expected_end(self) -> Ends:
        return look_up(TABLE[self.fault], self.key)

    def faults(self, times: int = 1) -> list[str]:
        return [*([""] if self.second else []), *[self.fault] * times]


CASES = [
    Case(fault, profile, live, second)
    for fault in FAULTS
    for profile in WIRE_PROFILES
    for live in (False, True)
    for second in (False, True)
]


def make_weather(ran: list[str], **options: Any) -> Tool:
    # Without its city a truncated call still looks complete: only the end of the reply shows that it was
    # truncated.
    @tool(**options)
    async def weather(city: str = "anywhere") -> str:
        """The weather of a city."""
        ran.append(city)
        return f"sunny in {city}"

    return weather


class FaultRun:
    """A run with a fault, and its result."""

    def __init__(self, case: Case, engine: Engine, limits: RunLimits | None = None) -> None:
        self.case, self.ran = case, list[str]()
        self.error: ToolglotError | None = None
        self.result: RunResult | None = None
        self.agent = Agent(
            engine,
            tools=[make_weather(self.ran)],
            config=ToolConfig(retry=QUICK),
            limits=limits or RunLimits(),
        )

    async def run(self) -> None:
        try:
            self.result = await run_agent(self.agent, PROMPT, live=self.case.live)
        except ToolglotError as e:
            self.error = e

    def actual_end(self) -> Ends:
        if self.error is not None:
            return type(self.error)
        assert self.result is not None
        return self.result.stop

    async def check_next_run(self) -> None:
        """The next run works, and the history is unchanged."""
        before = list(self.agent.conversation)  # empty if the prompt was refused: then it was taken back
        assert (
            not before or [note for note in list_unpaired(before) if self.case.fault != "duplicate-ids"] == []
        )
        result = await run_agent(self.agent, "say It works again.", live=self.case.live)
        assert (result.text, result.stop) == ("It works again.", "end")
        assert list(self.agent.conversation)[: len(before)] == before
        assert len({*self.ran}) == len(self.ran), "a tool ran twice"


def check(play: FaultRun, transport: RecordingTransport, *, real: bool = False) -> None:
    """Check the end of a run with a fault.

    `real`: how much arrives before the fault depends on the network.
    """
    case, expected_end, requests = play.case, play.case.expected_end, len(transport.sent)
    if real and case.live and case.fault in RACES and play.error is None:
        expected_end = "retried"
    if not isinstance(expected_end, str):
        assert issubclass(type(play.error), expected_end), play.error
        assert requests == 1 + case.second
        assert sorted(play.ran) == (CITIES if case.second else [])
        return
    assert play.actual_end() == ("end" if expected_end == "retried" else expected_end), play.error
    assert play.result is not None
    ran, kinds = look_up(TOOLS.get(case.fault, {}), case.key, (CITIES, [None, None]))
    assert sorted(play.ran) == ran
    results = [result for message in play.result.messages for result in message.results]
    assert [result.error_kind for result in results] == kinds
    assert requests == play.result.iterations + (expected_end == "retried")


def test_the_table_has_every_fault() -> None:
    assert sorted(TABLE) == sorted(FAULTS)


@pytest.mark.parametrize("case", [case for case in CASES if case.fault not in STALLS], ids=str)
async def test_faults_in_process(case: Case) -> None:
    transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults())))
    scene = FaultRun(case, make_engine(case.profile, transport, retry=QUICK, heal=True))
    await scene.run()
    check(scene, transport)
    await scene.check_next_run()
    check_valid(scene.agent.conversation)


@pytest.mark.parametrize("case", [case for case in CASES if case.fault in STALLS], ids=str)
async def test_a_stall_ends_with_the_run_timeout(case: Case) -> None:
    transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults())))
    scene = FaultRun(case, make_engine(case.profile, transport), RunLimits(run_timeout=WAIT))
    await scene.run()
    assert scene.actual_end() == "timeout"
    assert sorted(scene.ran) == (CITIES if case.second else [])
    await scene.check_next_run()
    check_valid(scene.agent.conversation)


@pytest.mark.parametrize("case", [case for case in CASES if case.second], ids=str)
async def test_faults_over_http(case: Case) -> None:
    wait = WAIT if case.fault in STALLS else 30.0
    server = serve(Simulator(faults=case.faults()))
    transport = RecordingTransport(HttpTransport(Timeouts(connect=5.0, first_byte=wait, idle=wait)))
    async with server as url:
        engine = create_engine(
            f"{case.profile}:{MODELS[case.profile]}",
            base_url=f"{url}/@{case.profile}",
            key="k",
            transport=transport,
            retry=QUICK,
        )
        scene = FaultRun(case, engine)
        await scene.run()
        check(scene, transport, real=True)
        await scene.check_next_run()
        await transport.close()


@pytest.mark.parametrize("fault", PERMANENT_ERRORS)
@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("second", [False, True])
async def test_permanent_faults(fault: str, profile: str, live: bool, second: bool) -> None:
    case = Case(fault, profile, live, second)
    tries = 1 if case.expected_end != "retried" else 1 + QUICK.max_retries
    transport = RecordingTransport(SimulatedTransport(Simulator(faults=case.faults(tries))))
    scene = FaultRun(case, make_engine(profile, transport, retry=QUICK, heal=True))
    await scene.run()
    assert issubclass(type(scene.error), look_up(PERMANENT_ERRORS[fault], case.key)), scene.actual_end()
    assert len(transport.sent) == tries + second
    assert sorted(scene.ran) == (CITIES if second else [])
    await scene.check_next_run()
    check_valid(scene.agent.conversation)


# ---- calls that share an id, calls that never ran


def make_agent(fault: str, profile: str, **options: Any) -> tuple[Agent, list[str]]:
    ran: list[str] = []
    engine = make_engine(profile, SimulatedTransport(Simulator(faults=[fault])))
    return Agent(engine, tools=[make_weather(ran, **options)]), ran


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_duplicate_ids_become_unique(profile: str) -> None:
    agent, ran = make_agent("duplicate-ids", profile)
    await agent.run(PROMPT)
    assert sorted(ran) == CITIES
    assert list_unpaired(agent.conversation) == []


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_an_approval_is_for_one_of_two_calls_with_the_same_id(profile: str) -> None:
    agent, ran = make_agent("duplicate-ids", profile, approval=True)
    paused = await agent.run(PROMPT)
    assert [call.arguments for call in paused.requests] == [{"city": "Paris"}, {"city": "Rome"}]
    await agent.resume({paused.requests[0].id: "yes"})
    assert ran == ["Paris"]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_a_truncated_call_has_an_outcome(profile: str) -> None:
    agent, _ = make_agent("length", profile)
    result = await agent.run(PROMPT)
    assert [(outcome.result.error_kind, outcome.ran) for outcome in result.outcomes] == [
        (None, True),
        ("truncated", False),
    ]


async def test_a_rejected_call_has_an_outcome() -> None:
    agent, _ = make_agent("", "anthropic", approval=True)
    paused = await agent.run(PROMPT)
    first, second = paused.requests
    result = await agent.resume({first.id: "yes", second.id: "no"})
    assert [(outcome.result.error_kind, outcome.ran) for outcome in result.outcomes] == [
        (None, True),
        ("rejected", False),
    ]


@pytest.mark.parametrize("live", [False, True], ids=["whole", "live"])
@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_a_truncated_call_never_runs(profile: str, live: bool) -> None:
    ran: list[str] = []
    engine = make_engine(profile, SimulatedTransport(Simulator(faults=["length"])))
    config = ToolConfig(eager_start=True)
    await run_agent(
        Agent(engine, tools=[make_weather(ran, effects="read")], config=config), PROMPT, live=live
    )
    assert ran == ["Paris"]
