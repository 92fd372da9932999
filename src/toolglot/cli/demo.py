"""`toolglot demo`: run the same conversation with tools on every API format.

The simulator answers over HTTP. Halfway through, each conversation is handed to another provider.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack

import click

from toolglot.cli.chat.launch import create_console
from toolglot.cli.chat.screen import Screen
from toolglot.cli.demo_samples import TRAVEL_SAMPLES
from toolglot.cli.printer import Printer
from toolglot.config.settings import ChatSettings
from toolglot.engine.engine import Engine
from toolglot.engine.factory import SIMULATED_MODELS, create_engine
from toolglot.engine.http import HttpTransport
from toolglot.errors import UnknownName
from toolglot.events import RunDone, RunResult
from toolglot.loop.orchestrator import Orchestrator
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.server import serve
from toolglot.tools.config import RetryConfig, ToolConfig

__all__ = ["demo"]

_PROMPTS = ("What is the weather in Paris and in Rome?", "Plan a route from Paris to Rome by train.")
_HANDOVER_PROMPT = "Book a hotel in Rome for 2 nights."


@click.command()
@click.option("--provider", help="Run only this provider's conversation.")
def demo(provider: str | None) -> int:
    """Run a conversation with tools on every API format.

    Each conversation is handed over to another provider halfway. It runs on the simulator, without a key.
    """
    if provider is not None and provider not in SIMULATED_MODELS:
        raise UnknownName("provider of the demo", provider, SIMULATED_MODELS)
    screen = Screen(create_console(), ChatSettings(thinking="shown", result_lines=6))
    screen.is_simulated = True
    rows = asyncio.run(_run_conversations(screen, [provider] if provider else list(SIMULATED_MODELS)))
    screen.note("The same conversation, everywhere", "bold")
    Printer(sys.stdout).print_table(rows)
    return int(any(row["stop"] != "end" for row in rows))


async def _run_conversations(screen: Screen, providers: list[str]) -> list[dict[str, str]]:
    """Run a conversation on each provider; return the rows of the table."""
    rows: list[dict[str, str]] = []
    async with AsyncExitStack() as stack:
        url, transport = await stack.enter_async_context(serve()), HttpTransport()
        stack.push_async_callback(transport.close)
        screen.note(f"The simulator listens on {url}: real HTTP, no key needed.", "bold")

        def connect(provider: str) -> Engine:
            profile = resolve_profile(provider, SIMULATED_MODELS[provider])
            model, base_url = f"{profile.id}:{profile.model}", f"{url}/@{profile.id}"
            return create_engine(model, base_url=base_url, key="any", transport=transport)

        for index, provider in enumerate(providers):
            others = [name for name in SIMULATED_MODELS if name != provider]
            other = others[index % len(others)]
            config = ToolConfig(timeout=5.0, retry=RetryConfig(base=0.05))
            system = "You plan journeys. Use the tools."
            agent = Orchestrator(connect(provider), tools=TRAVEL_SAMPLES, system=system, config=config)
            start = time.monotonic()
            screen.note(f"\n── {agent.engine.profile.title} · {agent.engine.model}", "bold cyan")
            results = [await _run_prompt(screen, agent, prompt) for prompt in _PROMPTS]
            agent.switch(connect(other))
            screen.note(f"⇄ handed over to {agent.engine.profile.title} · {agent.engine.model}", "magenta")
            results.append(await _run_prompt(screen, agent, _HANDOVER_PROMPT))
            rows.append(_summarize(f"{provider} → {other}", results, time.monotonic() - start))
    return rows


async def _run_prompt(screen: Screen, agent: Orchestrator, prompt: str) -> RunResult:
    screen.note(f"> {prompt}", "bold green")
    with screen.turn():
        async for event in agent.stream(prompt):
            screen.show_event(event)
            if isinstance(event, RunDone):
                return event.result
    raise AssertionError("a run ends with RunDone")


def _summarize(title: str, results: list[RunResult], seconds: float) -> dict[str, str]:
    outcomes = [outcome for result in results for outcome in result.outcomes]
    return {
        "from → to": title,
        "requests": str(sum(result.iterations for result in results)),
        "calls": str(len(outcomes)),
        "retries": str(sum(outcome.retries for outcome in outcomes)),
        "lost": str(sum(len(result.losses) for result in results)),
        "repaired": str(sum(len(result.repairs) for result in results)),
        "seconds": f"{seconds:.2f}",
        "stop": next((result.stop for result in results if result.stop != "end"), "end"),
    }
