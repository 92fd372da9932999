"""DATA: which runners measure which scenarios."""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.loop.scenarios import ALL, ANTHROPIC, CHAT, RESPONSES, Scenario

OURS = "toolglot"


@dataclass(frozen=True)
class Runner:
    name: str
    module: str
    wires: tuple[str, ...]
    default_wires: tuple[str, ...] = ()
    """Wires on which it is measured unless peers are chosen."""
    extra_arguments: tuple[str, ...] = ()
    package: str = ""
    """What to import, of a peer."""
    is_peer: bool = False


def _floor(name: str, *home: str) -> Runner:
    return Runner(f"floor_{name}", "bench.loop.floors", (CHAT, ANTHROPIC, RESPONSES), home, (name,))


def _peer(name: str, wires: tuple[str, ...], package: str = "", home: tuple[str, ...] = (CHAT,)) -> Runner:
    return Runner(name, f"bench.loop.peers.{name}_peer", wires, home, package=package or name, is_peer=True)


_ALL_WIRES = (CHAT, ANTHROPIC, RESPONSES)
RUNNERS = {
    runner.name: runner
    for runner in (
        _floor("rawh1", *_ALL_WIRES),
        _floor("aiohttp", CHAT),
        _floor("transport", *_ALL_WIRES),
        Runner(OURS, "bench.loop.ours", _ALL_WIRES, _ALL_WIRES),
        _peer("openai", (CHAT, RESPONSES), home=(CHAT, RESPONSES)),
        _peer("anthropic", (ANTHROPIC,), home=(ANTHROPIC,)),
        _peer("litellm", (CHAT, ANTHROPIC)),
        _peer("pydantic_ai", _ALL_WIRES),
        _peer("langchain", _ALL_WIRES, "langchain.agents, langchain_openai"),
        _peer("agents", (CHAT, RESPONSES)),
    )
}
FRAMEWORKS = ("pydantic_ai", "langchain", "agents")
"""Peers with a loop of their own."""
PEERS = tuple(name for name, runner in RUNNERS.items() if runner.is_peer)

STREAMS = ("S1", "S2", "S1P")
LOOPS = ("S3", "S4", "S5", "S3-sync", "S4-sync")
GROWTH = ("S2-10", "S2-500", "S2-4000")
LIVE = ("S2-10-live", "S2-500-live", "S2-4000-live")
CROWDS = ("C200", "C1000")
GROUPS = ((*STREAMS, *LOOPS, *GROWTH, *LIVE), CROWDS)
"""The scenarios of one process: a crowd gets a new one, so that its memory is seen."""

_QUICK = {
    CHAT: (*STREAMS, "S3", "S4", "S5", "S3-sync", *LIVE, *CROWDS),
    ANTHROPIC: ("S1", "S2", "S4"),
    RESPONSES: (),
}
_FULL = {
    CHAT: (*STREAMS, *LOOPS, *GROWTH, *LIVE, *CROWDS),
    ANTHROPIC: (*STREAMS, *LOOPS, *CROWDS),
    RESPONSES: ("S1", "S2", "S3", "S4", "S5"),
}
_SMALL_CROWD = 200


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    quick: bool
    rounds: int
    """Of ours and the floors."""
    peer_rounds: int
    slow_rounds: int
    """Of ours and the floors, where a run takes long by its nature: paced streams and crowds."""
    max_peer_seconds: float
    """A peer that has used so many for a scenario takes part in no further round."""
    scenarios: frozenset[str] | None = None
    peers: frozenset[str] | None = None
    """Chosen by the caller; these are then measured on all their wires."""
    wires: tuple[str, ...] = _ALL_WIRES

    def rounds_of(self, scenario: Scenario) -> int:
        return self.slow_rounds if scenario.is_paced or scenario.conversations > 1 else self.rounds

    def runners(self, wire: str) -> list[Runner]:
        return [runner for runner in RUNNERS.values() if self._takes_part(runner, wire)]

    def _takes_part(self, runner: Runner, wire: str) -> bool:
        if not runner.is_peer or self.peers is None:
            return wire in runner.default_wires
        return runner.name in self.peers and wire in runner.wires

    def scenarios_of(self, runner: Runner, wire: str, group: Iterable[str]) -> list[Scenario]:
        return [ALL[name] for name in group if self._is_wanted(runner, wire, name)]

    def _is_wanted(self, runner: Runner, wire: str, name: str) -> bool:
        if ALL[name].reads_partial_arguments and (runner.name != OURS or wire != CHAT):
            return False
        if self.scenarios is not None:
            return name in self.scenarios
        if name not in (_QUICK if self.quick else _FULL)[wire]:
            return False
        slow = runner.is_peer and ALL[name].conversations > _SMALL_CROWD
        return not (self.quick and slow)


def plan(
    *,
    quick: bool,
    scenarios: Iterable[str] = (),
    peers: Iterable[str] | None = None,
    wires: Iterable[str] = (),
) -> Plan:
    chosen = {
        "scenarios": frozenset(scenarios) or None,
        "peers": None if peers is None else frozenset(peers),
        "wires": tuple(wires) or _ALL_WIRES,
    }
    if quick:
        return Plan(True, rounds=5, peer_rounds=3, slow_rounds=3, max_peer_seconds=0.8, **chosen)
    return Plan(False, rounds=15, peer_rounds=5, slow_rounds=5, max_peer_seconds=6.0, **chosen)
