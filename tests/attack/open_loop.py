"""Runs whose calls are answered from elsewhere: `python -m tests.attack.open_loop [--count N] [--start SEED]`.

The histories of `tests/loop/open_storm.py`, each with a seed of its own. Prints one line of JSON: {"name",
"tries", "leaks"}; what happened in them goes to standard error. Nothing here depends on the user.
"""

import argparse
import json
import logging
import sys

from tests.loop.open_storm import play_histories


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--user", type=int, help="without effect")
    options = parser.parse_args()
    logging.disable()
    counts, problems = play_histories(range(options.start, options.start + options.count))
    print(dict(sorted(counts.items())), *problems[:20], sep="\n", file=sys.stderr)
    row = {"name": "run: answered from elsewhere", "tries": options.count, "leaks": len(problems)}
    print(json.dumps(row), flush=True)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
