"""Let MCP servers misbehave: `python -m tests.attack.storms --rounds N [--user ID]`.

Each kind of `tests/mcp/storm.py`, in another order in each round, with two healthy calls. A leak is a call
that hangs, a raw exception, a wrong result, or a healthy call that is hurt. Prints one line of JSON for each
transport: {"name", "tries", "leaks"}.
"""

import argparse
import asyncio
import json
import os
import random
import sys

from tests.mcp.storm import KINDS, find_faults, open_servers

CALLS = 3
"""In each try of a kind: the call itself, one beside it, and one after it."""


async def play(transport: str, rounds: int) -> tuple[int, list[str]]:
    """Return the number of calls, and what went wrong."""
    calls, faults = 0, list[str]()
    for number in range(rounds):
        with open_servers(transport) as servers:
            # What only a timeout ends takes long: one round in ten is enough.
            kinds = [item for item in KINDS[transport].items() if not item[1].is_silent or number % 10 == 0]
            random.shuffle(kinds)
            for name, kind in kinds:
                faults += await find_faults(servers, name, kind)
                calls += CALLS
    return calls, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--user", type=int, default=os.getuid())
    options = parser.parse_args()
    if options.user != os.getuid():
        os.setgroups([])
        os.setgid(options.user)
        os.setuid(options.user)
    failed = 0
    for transport in KINDS:
        calls, faults = asyncio.run(play(transport, options.rounds))
        failed += len(faults)
        print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
        print(
            json.dumps({"name": f"storm: MCP over {transport}", "tries": calls, "leaks": len(faults)}),
            flush=True,
        )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
