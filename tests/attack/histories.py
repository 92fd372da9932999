"""Random histories, each judged in every request: `python -m tests.attack.histories --ids N --tools N`.

`ids`: calls whose ids repeat or are illegal; a result must stay with its own call
(`tests/wire/id_histories.py`). `tools`: tools that come, go and change, with another model in every turn
(`tests/loop/tool_storm.py`). Prints one line of JSON for each
kind: {"name", "tries", "leaks"}. Nothing here depends on the user.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterable
from functools import partial

from tests.loop.tool_storm import play_history
from tests.wire.id_histories import check_history

PLAIN_SHARE = 600 / 2600  # of the histories of tools: without odd ids and names


def play(name: str, seeds: Iterable[int], check: Callable[[int], list[str]]) -> int:
    """Check histories; print what is wrong, and the row."""
    failures = [problems for seed in seeds if (problems := check(seed))]
    print(
        *(problem for problems in failures[:10] for problem in problems[:3]),
        sep="\n",
        file=sys.stderr,
        end="",
    )
    print(
        json.dumps({"name": f"history: {name}", "tries": len([*seeds]), "leaks": len(failures)}), flush=True
    )
    return len(failures)


def check_tools(seed: int, *, is_odd: bool) -> list[str]:
    return play_history(seed, is_odd=is_odd)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=0)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--user", type=int, help="without effect")
    options = parser.parse_args()
    logging.disable()
    plain_count = round(options.tools * PLAIN_SHARE)
    leaks = play("ids that repeat", range(options.ids), check_history) if options.ids else 0
    if options.tools:
        leaks += play("tools over time", range(plain_count), partial(check_tools, is_odd=False))
        leaks += play(
            "odd tools over time", range(options.tools - plain_count), partial(check_tools, is_odd=True)
        )
    sys.exit(leaks > 0)


if __name__ == "__main__":
    main()
