"""`toolglot demo`: run the same conversation with tools on every API format.

The simulator answers. Halfway through, each conversation is handed to another provider.
"""

import asyncio
import sys
import time

import click

from toolglot.cli.chat.launch import create_console
from toolglot.cli.chat.screen import Screen
from toolglot.cli.demo_samples import TRAVEL_SAMPLES
from toolglot.cli.printer import Printer
from toolglot.config.settings import ChatSettings
from toolglot.engine.factory import SIMULATED_MODELS
from toolglot.errors import UnknownName
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.values.events import RunDone, RunResult

_PROMPT, _HANDOVER_PROMPT = "What is the weather in Paris and in Rome?", "Book a hotel in Rome for 2 nights."


@click.command()
@click.option("--provider", help="Run only this provider's conversation.")
def demo(provider: str | None) -> int:
    """Run a conversation with tools on every API format.

    Each conversation is handed over to another provider halfway through. It runs on the simulator, without a
    key.
    """
    if provider is not None and provider not in SIMULATED_MODELS:
        raise UnknownName("demo provider", provider, SIMULATED_MODELS)
    providers = list(SIMULATED_MODELS)
    pairs = [(name, providers[index - 1]) for index, name in enumerate(providers) if provider in (None, name)]
    # One screen per conversation: a screen shows each loss once, but the table counts them per conversation.
    rows = [asyncio.run(_run_conversation(_create_screen(), *pair)) for pair in pairs]
    _create_screen().note("\nThe same conversation, everywhere", "bold")
    Printer(sys.stdout).print_table(rows, has_json=False)
    return int(any(row["stop"] != "end" for row in rows))


def _create_screen() -> Screen:
    screen = Screen(create_console(), ChatSettings(thinking="shown", result_lines=6))
    screen.is_simulated = True
    return screen


async def _run_conversation(screen: Screen, provider: str, other: str) -> dict[str, str]:
    """Run a conversation that is handed over to another provider; return its table row."""
    config, start = ToolConfig(timeout=5.0, retry=RetryConfig(base=0.05)), time.monotonic()
    system = "You plan journeys. Use the tools."
    agent = Agent(f"simulator:{provider}", tools=TRAVEL_SAMPLES, system=system, config=config)
    screen.note(f"\n── {agent.view().profile.title} · {agent.view().engine.model}", "bold cyan")
    results = [await _run_prompt(screen, agent, _PROMPT)]
    agent.switch(f"simulator:{other}")
    screen.note(f"⇄ handed over to {agent.view().profile.title} · {agent.view().engine.model}", "magenta")
    results.append(await _run_prompt(screen, agent, _HANDOVER_PROMPT))
    outcomes = [outcome for result in results for outcome in result.outcomes]
    return {
        "from → to": f"{provider} → {other}",
        "requests": str(sum(result.iterations for result in results)),
        "calls": str(len(outcomes)),
        "retries": str(sum(outcome.retries for outcome in outcomes)),
        "lost": str(sum(len(result.losses) for result in results)),
        "repaired": str(sum(len(result.repairs) for result in results)),
        "seconds": f"{time.monotonic() - start:.2f}",
        "stop": next((result.stop for result in results if result.stop != "end"), "end"),
    }


async def _run_prompt(screen: Screen, agent: Agent, prompt: str) -> RunResult:
    screen.note(f"> {prompt}", "bold green")
    with screen.turn():
        async for event in agent.stream(prompt):
            screen.show_event(event)
            if isinstance(event, RunDone):
                for repair in event.result.repairs:
                    screen.note(f"repaired: {repair}", "dim")
                return event.result
    raise AssertionError("a run ends with RunDone")
