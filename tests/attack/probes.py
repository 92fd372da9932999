"""Try every way out of a sandbox: `python -m tests.attack.probes --user ID {bwrap,landlock}`.

The attempts are those of `tests/builtin/shell/shell_attacks.py`. Prints one line of JSON: {"name", "tries",
"leaks"}."""

import argparse
import json
import sys

from tests.builtin.shell.test_shell_attacks import ALLOWED, LEVELS, attack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("--user", type=int, required=True)
    options = parser.parse_args()
    level: str = options.level
    report, seen = attack(LEVELS[level], options.user)
    if "skip" in report or "broken" in report:
        sys.exit(f"{level} does not work here: {report}")
    successes: dict[str, bool] = json.loads(report["attack"]["output"].splitlines()[-1])
    leaks = [name for name, done in successes.items() if done and name not in ALLOWED]
    leaks += [name for name in ALLOWED if not successes[name]]
    leaks += seen["arrived"] + (
        [] if seen["outside"] and report["victim lives"] else ["something outside has changed"]
    )
    print("\n".join(leaks), file=sys.stderr, end="")
    print(json.dumps({"name": f"probe: {level}", "tries": len(successes), "leaks": len(leaks)}))
    sys.exit(bool(leaks))


if __name__ == "__main__":
    main()
