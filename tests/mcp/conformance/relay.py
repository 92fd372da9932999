"""What the conformance suite starts as the client: `python relay.py SOCKET URL`.

It hands the scenario to the test that listens at SOCKET, and ends as that says: no scenario waits for the
start of a client."""

import json
import os
import socket
import sys


def main(path: str, url: str) -> int:
    """Hand over the scenario; return the exit code."""
    scenario, context = (os.environ.get(f"MCP_CONFORMANCE_{name}", "") for name in ("SCENARIO", "CONTEXT"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        task = {"scenario": scenario, "context": json.loads(context or "{}"), "url": url}
        connection.sendall(json.dumps(task).encode() + b"\n")
        with connection.makefile("r") as answer:
            problem = answer.read()
    print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
