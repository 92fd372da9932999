"""`toolglot simulate`: serve the simulator until Ctrl-C."""

import asyncio
import time
from pathlib import Path

import click

from toolglot.cli.logging_setup import configure_logging, effective_level
from toolglot.cli.options import LOGGING, PORT
from toolglot.cli.printer import print_line
from toolglot.engine.signin.environment import secret_values
from toolglot.errors import ToolglotError
from toolglot.simulator.core import Simulator
from toolglot.simulator.faults import FAULTS
from toolglot.simulator.server import serve

# client -> the path that its base URL needs
_BASE_URL_PATHS = {
    "openai (chat, responses)": "/v1",
    "anthropic, gemini, ollama": "",
    "any other provider": "/@PROVIDER",
}


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=PORT,
    default=8484,
    show_default=True,
    help="Port to listen on; 0 picks a free port.",
)
@click.option(
    "--fault",
    multiple=True,
    metavar="FAULT",
    help="Inject a fault into the next request. Repeatable: one per request, in order. One of "
    f"{', '.join(FAULTS)}.",
)
@LOGGING
def simulate(host: str, port: int, fault: tuple[str, ...], verbose: int, log_file: Path | None) -> int:
    """Serve a simulator of every provider.

    The simulator supports all API formats, validates requests strictly, and needs no key and no network. With
    -v, every request is logged.
    """
    configure_logging(
        effective_level(verbose or int(log_file is not None), "warning"), log_file, secrets=secret_values
    )

    async def run() -> None:
        async with serve(Simulator(faults=fault, clock=time.monotonic), host, port) as url:
            print_line(f"simulating every provider at {url} (any key works; press Ctrl-C to stop)")
            for client, path in _BASE_URL_PATHS.items():
                print_line(f"  base URL for {client:25} {url}{path}")
            await asyncio.Event().wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass
    except OSError as e:
        raise ToolglotError(f"cannot listen on {host}:{port}: {e.strerror or e}") from None
    return 0
