"""Runs that are stopped, and saved runs that are damaged: `python -m tests.attack.runs [--stride N]
[--corruptions N] …`.

Runs are stopped in every way at every `stride`-th moment (`tests/loop/cancel_storm.py`); saved runs are
damaged this often (`tests/loop/saved_run_storm.py`). Prints one line of JSON for each kind: {"name", "tries",
"leaks"}. Nothing here depends on the user.
"""

import argparse
import json
import logging
import sys

from tests.loop import cancel_storm, saved_run_storm


def report(name: str, tries: int, problems: list[str]) -> int:
    """Print what is wrong, and the row."""
    print(*problems[:20], sep="\n", file=sys.stderr, end="")
    print(json.dumps({"name": f"run: {name}", "tries": tries, "leaks": len(problems)}), flush=True)
    return len(problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stride", type=int, default=0)
    parser.add_argument("--corruptions", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=0)
    parser.add_argument("--user", type=int, help="without effect")
    options = parser.parse_args()
    logging.disable()
    leaks = report("stopped", *cancel_storm.storm(options.stride)) if options.stride else 0
    if options.corruptions:
        leaks += report("saved, bytes changed", *saved_run_storm.storm(options.corruptions, 0))
    if options.mutations:
        leaks += report("saved, values changed", *saved_run_storm.storm(0, options.mutations))
    sys.exit(leaks > 0)


if __name__ == "__main__":
    main()
