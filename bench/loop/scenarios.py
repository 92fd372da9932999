"""DATA: the conversations that every runner has to hold.

Only the standard library: this file is read in the environments of the peers too. A turn is one request. The
server counts the tool results in a request to know the turn, so that no conversation needs an id.
"""

from dataclasses import dataclass, replace

CHAT, RESPONSES, ANTHROPIC = "openai-chat", "openai-responses", "anthropic-messages"
WIRES = (CHAT, ANTHROPIC, RESPONSES)
MODELS = {CHAT: "gpt-4o", RESPONSES: "gpt-5.1", ANTHROPIC: "claude-sonnet-4-6"}
PROMPT = "How is the weather?"
FINAL = "All done: the ferry leaves at nine, so pack the blue bag tonight."
KILOBYTES_4 = 4096
PACE_SECONDS = 0.001
"""Seconds between two events of a paced stream, at least."""


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    unit: str
    """What a cost is divided by: event, turn, conversation."""
    route: str = ""
    """The server's name of it, where several scenarios have the same answers."""
    pieces: int = 0
    """Events of text, of a streamed answer."""
    fragments: int = 0
    """Pieces of about 10 characters of the arguments of one streamed call."""
    is_paced: bool = False
    turns: int = 1
    calls: int = 0
    """In each turn but the last."""
    tools: int = 0
    result: int = 0
    """Characters of each result; 0: a short one."""
    conversations: int = 1
    """At the same time, in one process."""
    has_sync_tools: bool = False
    """Whether tools are plain functions, which may block, instead of coroutines."""
    reads_partial_arguments: bool = False
    """Whether partial arguments are read while they stream: ours only."""

    @property
    def path(self) -> str:
        return (self.route or self.name).lower()

    @property
    def is_streamed(self) -> bool:
        return bool(self.pieces or self.fragments)

    @property
    def units(self) -> int:
        return {
            "event": self.pieces or self.fragments,
            "turn": self.turns,
            "conversation": self.conversations,
        }[self.unit]

    @property
    def total_calls(self) -> int:
        return self.conversations * (self.turns - 1) * self.calls


def _text_scenario(name: str, pieces: int, title: str, paced: bool = False) -> Scenario:
    return Scenario(name, title, "event", pieces=pieces, is_paced=paced)


def _arguments_scenario(fragments: int, name: str = "", live: bool = False) -> Scenario:
    title = f"one call, {fragments:,} argument fragments" + (", partial arguments live" if live else "")
    route = name or f"S2-{fragments}"
    name = f"{route}-live" if live else route
    return Scenario(
        name,
        title,
        "event",
        route,
        fragments=fragments,
        turns=2,
        calls=1,
        tools=1,
        reads_partial_arguments=live,
    )


_S3 = Scenario("S3", "8 parallel calls, then text", "turn", turns=2, calls=8, tools=1)
_S4 = Scenario("S4", "50 turns, a call each", "turn", turns=50, calls=1, tools=1)
_S5 = Scenario(
    "S5", "50 turns, 20 tools, 4 KB results", "turn", turns=50, calls=1, tools=20, result=KILOBYTES_4
)


def _crowd_scenario(count: int) -> Scenario:
    title = f"{count:,} conversations of S3 at once"
    return replace(_S3, name=f"C{count}", title=title, unit="conversation", route="S3", conversations=count)


ALL = {
    scenario.name: scenario
    for scenario in (
        _text_scenario("S1", 2000, "text, 2,000 deltas"),
        _arguments_scenario(2000, "S2"),
        *(_arguments_scenario(count, live=live) for count in (10, 500, 4000) for live in (False, True)),
        _text_scenario("S1P", 500, "text, one event a write, 1 ms apart", paced=True),
        _S3,
        _S4,
        _S5,
        replace(_S3, name="S3-sync", title="S3 with sync tools", route="S3", has_sync_tools=True),
        replace(_S4, name="S4-sync", title="S4 with sync tools", route="S4", has_sync_tools=True),
        _crowd_scenario(200),
        _crowd_scenario(1000),
    )
}


def tool_names(scenario: Scenario) -> list[str]:
    if scenario.fragments:
        return ["write_file"]
    return (
        ["weather"] if scenario.tools == 1 else [f"weather_{number:02}" for number in range(scenario.tools)]
    )


def plan_calls(scenario: Scenario, turn: int) -> list[tuple[str, dict[str, object]]]:
    """The calls of one turn of a loop: tool and arguments, no two alike."""
    if turn == scenario.turns - 1:
        return []
    names = tool_names(scenario)
    return [
        (
            names[(turn + number) % len(names)],
            {"city": f"place {turn:02} {number}", "days": 1 + number, "units": "celsius"},
        )
        for number in range(scenario.calls)
    ]
