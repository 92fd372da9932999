"""Play the whole game and print one table: `python -m tests.game [PLAN…]`.

Exit code 1: something happened unapproved.
"""

import argparse
import os
import sys

from tests.game.game import PLANS, play_game

LEVELS = {2: "bubblewrap", 1: "Landlock"}
NOBODY = 65534

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these plans")
    parser.add_argument("--level", type=int, choices=LEVELS, action="append")
    parser.add_argument("--user", choices=("root", "user"), action="append")
    parser.add_argument("--approval-mode", choices=("ask", "sandboxed"), default="ask")
    options = parser.parse_args()
    chosen = [plan for plan in PLANS if not options.names or plan.name in options.names]
    failed = 0
    for user in options.user or (("root", "user") if os.getuid() == 0 else ("user",)):
        for level in options.level or LEVELS:
            count = lost = 0
            for outcome in play_game(
                chosen,
                level=level,
                owner=NOBODY if user == "user" and os.getuid() == 0 else None,
                mode=options.approval_mode,
            ):
                count, lost = count + 1, lost + bool(outcome.effects)
                print(
                    f"{'FAILED' if outcome.effects else 'held':7}{outcome.plan}  ({outcome.questions} "
                    "questions)",
                    flush=True,
                )
                for effect in outcome.effects:
                    print(f"       {effect}")
            failed += lost
            print(f"{LEVELS[level]}, as {user}: {count} plans, {lost} with unapproved effects", flush=True)
    sys.exit(failed > 0)
