"""`toolglot simulate`: serve the simulator until Ctrl-C."""

import asyncio
import sys
from collections.abc import Sequence

from toolglot.simulator.core import Simulator
from toolglot.simulator.server import serve as serve_simulator

__all__ = ["serve"]

# client -> the path that its base URL needs
_BASE_URL_PATHS = {
    "openai (chat, responses)": "/v1",
    "anthropic": "",
    "gemini": "",
    "ollama": "",
    "any other profile": "/@PROFILE",
}


def serve(host: str, port: int, faults: Sequence[str]) -> int:
    """Serve until interrupted; return the exit code."""

    def announce(url: str) -> None:
        print(f"simulating every provider at {url} (any key works; press Ctrl-C to stop)", flush=True)
        for client, path in _BASE_URL_PATHS.items():
            print(f"  base URL for {client:25} {url}{path}", flush=True)

    try:
        asyncio.run(serve_simulator(host, port, simulator=Simulator(faults=faults), on_ready=announce))
    except KeyboardInterrupt:
        return 0
    except OSError as e:
        print(f"toolglot: cannot listen on {host}:{port}: {e.strerror or e}", file=sys.stderr)
        return 1
    return 0
