"""DATA: the goals of the loop: ratios within one run, slopes, memory.

A value is None if it was not measured.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from bench.loop.plan import FRAMEWORKS, OURS
from bench.loop.run import Results, Samples
from bench.loop.scenarios import ANTHROPIC, CHAT
from bench.measure import Figure

Value = Callable[[Results], float | None]
TIMES = "\N{MULTIPLICATION SIGN}"
RAW, TRANSPORT, AIOHTTP = "floor_rawh1", "floor_transport", "floor_aiohttp"
ON_OPENAI = ("openai", "litellm", *FRAMEWORKS)


@dataclass(frozen=True)
class Goal:
    level: Literal["must", "stretch"]
    title: str
    value: Value
    unit: str = TIMES
    maximum: float | None = None
    minimum: float | None = None

    def figure(self, results: Results) -> Figure | None:
        value = self.value(results)
        return None if value is None else Figure(value, self.unit, self.maximum, self.minimum)

    @property
    def target_text(self) -> str:
        return Figure(0, self.unit, self.maximum, self.minimum).goal_text + self.unit


def goals() -> Iterator[Goal]:
    yield from _streams()
    yield from _arguments()
    yield from _turns()
    yield from _slopes()
    yield from _crowd()
    yield from _imports()


def _unit_cost(wire: str, runner: str, scenario: str) -> Value:
    return lambda results: _read_samples(
        results.find_samples(wire, runner, scenario), lambda samples: samples.unit_cost
    )


def _read_samples(samples: Samples | None, read: Callable[[Samples], float | None]) -> float | None:
    return None if samples is None else read(samples)


def _ratio(above: Value, below: Value) -> Value:
    def value(results: Results) -> float | None:
        top, bottom = above(results), below(results)
        return None if top is None or bottom is None else top / max(bottom, 1e-9)

    return value


def _at_most(
    level: Literal["must", "stretch"], scenario: str, floor: str, maximum: float, wire: str = CHAT
) -> Goal:
    value = _ratio(_unit_cost(wire, OURS, scenario), _unit_cost(wire, floor, scenario))
    return Goal(level, f"{_label(scenario, wire)}: ours ÷ {floor}", value, maximum=maximum)


def _at_least(
    level: Literal["must", "stretch"], scenario: str, peer: str, minimum: float, wire: str = CHAT
) -> Goal:
    value = _ratio(_unit_cost(wire, peer, scenario), _unit_cost(wire, OURS, scenario))
    return Goal(level, f"{_label(scenario, wire)}: {peer} ÷ ours", value, minimum=minimum)


def _label(scenario: str, wire: str) -> str:
    return scenario if wire == CHAT else f"{scenario} {wire}"


def _streams() -> Iterator[Goal]:
    for scenario in ("S1", "S2"):
        yield _at_most("must", scenario, TRANSPORT, 1.5)
        yield _at_least("must", scenario, "openai", 15)
        yield _at_least("must", scenario, "litellm", 40)
        if scenario == "S2":
            yield _at_least("must", scenario, "langchain", 100)
        yield _at_most("stretch", scenario, RAW, 2)
    for scenario in ("S1", "S2"):
        yield _at_least("must", scenario, "anthropic", 4, ANTHROPIC)
        yield _at_least("stretch", scenario, "anthropic", 8, ANTHROPIC)
    yield _at_most("stretch", "S1", AIOHTTP, 1.4)
    yield _at_most("must", "S1P", AIOHTTP, 1.3)
    yield _at_least("must", "S1P", "openai", 3)
    yield _at_least("must", "S1P", "litellm", 7)


def _arguments() -> Iterator[Goal]:
    """What the requests themselves cost is taken off: it would make small arguments look dear."""

    def event(fragments: int, suffix: str) -> Value:
        def value(results: Results) -> float | None:
            few, many = (results.find_samples(CHAT, OURS, f"S2-{count}{suffix}") for count in (10, fragments))
            if few is None or many is None or few.unit_cost is None or many.unit_cost is None:
                return None
            return (many.unit_cost * fragments - few.unit_cost * 10) / (fragments - 10)

        return value

    def added(results: Results) -> float | None:
        live, plain = event(4000, "-live")(results), event(4000, "")(results)
        return None if live is None or plain is None else 1e6 * (live - plain)

    yield Goal(
        "must",
        "S2, live arguments: 39 KB ÷ 5 KB",
        _ratio(event(4000, "-live"), event(500, "-live")),
        maximum=1.1,
    )
    yield Goal("stretch", "S2: added by live arguments", added, " µs/event", maximum=0.5)


def _turns() -> Iterator[Goal]:
    yield _at_most("must", "S3", AIOHTTP, 3.1)
    yield _at_least("must", "S3", "openai", 5)
    for peer in FRAMEWORKS:
        yield _at_least("must", "S3", peer, 12)
    yield _at_most("stretch", "S3", AIOHTTP, 2.6)
    yield _at_most("must", "S4", AIOHTTP, 2.3)
    yield _at_least("must", "S4", "openai", 20)
    for peer in FRAMEWORKS:
        yield _at_least("must", "S4", peer, 30)
    yield _at_most("stretch", "S4", AIOHTTP, 1.9)


def _slopes() -> Iterator[Goal]:
    def slope(wire: str, runner: str, scenario: str) -> Value:
        return lambda results: _read_samples(
            results.find_samples(wire, runner, scenario), lambda samples: samples.slope
        )

    def micro(scenario: str) -> Value:
        def value(results: Results) -> float | None:
            cost = slope(CHAT, OURS, scenario)(results)
            return None if cost is None else 1e6 * cost

        return value

    yield Goal("must", "S4 slope", micro("S4"), " µs/turn", maximum=3)
    for peer in ON_OPENAI:
        value = _ratio(slope(CHAT, OURS, "S4"), slope(CHAT, peer, "S4"))
        yield Goal("must", f"S4 slope: ours ÷ {peer}", value, maximum=round(1 / 75, 4))
    value = _ratio(slope(ANTHROPIC, OURS, "S4"), slope(ANTHROPIC, "anthropic", "S4"))
    yield Goal("must", f"S4 slope {ANTHROPIC}: ours ÷ anthropic", value, maximum=round(1 / 3, 3))
    yield Goal("stretch", "S4 slope", micro("S4"), " µs/turn", maximum=1)
    yield Goal("must", "S5 slope", micro("S5"), " µs/turn", maximum=5)
    yield Goal("stretch", "S5 slope", micro("S5"), " µs/turn", maximum=2)


def _crowd() -> Iterator[Goal]:
    def ours(read: Callable[[Samples], float | None]) -> Value:
        return lambda results: _read_samples(results.find_samples(CHAT, OURS, "C1000"), read)

    yield Goal("must", "C1000: errors", ours(lambda samples: samples.errors), "", maximum=0)
    yield _at_most("must", "C1000", AIOHTTP, 3)
    for peer, least in (("openai", 12), ("litellm", 12), *((peer, 25) for peer in FRAMEWORKS)):
        yield _at_least("must", "C1000", peer, least)
    yield Goal("must", "C1000: memory grows by", ours(lambda samples: samples.growth), " MB", maximum=60)
    value = _ratio(_unit_cost(CHAT, OURS, "C1000"), _unit_cost(CHAT, OURS, "C200"))
    yield Goal("must", "a conversation of C1000 ÷ one of C200", value, maximum=1.3)
    yield _at_most("stretch", "C1000", AIOHTTP, 2.6)


def _imports() -> Iterator[Goal]:
    def cpu(name: str) -> Value:
        return lambda results: 1e3 * cost.cpu if (cost := results.imports.get(name)) else None

    def memory(name: str) -> Value:
        return lambda results: cost.memory if (cost := results.imports.get(name)) else None

    yield Goal("must", "import", cpu(OURS), " ms", maximum=100)
    yield Goal("must", "import: memory", memory(OURS), " MB", maximum=15)
    for peer, least in (("openai", 5), ("anthropic", 12), ("litellm", 30)):
        yield Goal("must", f"import: {peer} ÷ ours", _ratio(cpu(peer), cpu(OURS)), minimum=least)
    yield Goal("stretch", "import with a ready client", cpu(f"{OURS}, ready"), " ms", maximum=60)
    yield Goal("stretch", "import with a ready client: memory", memory(f"{OURS}, ready"), " MB", maximum=8)
