"""`python -m bench.loop [--quick] [--peers a,b] [--scenario S3,S4] [--wire W] [--directory DIR] [--json]`."""

import argparse
import json
import platform
import sys
from pathlib import Path
from time import monotonic

from bench.loop.peer_environments import DIRECTORY
from bench.loop.plan import PEERS, plan
from bench.loop.run import Results, run
from bench.loop.scenarios import ALL, WIRES
from bench.loop.table import build_goal_table, build_tables


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loop", description="The tool loop against peers and floors, as ratios."
    )
    parser.add_argument("--quick", action="store_true", help="fewer scenarios and rounds")
    parser.add_argument(
        "--peers",
        type=_name_list(PEERS),
        help=f"of {','.join(PEERS)}, on all their wires; none for floors only",
    )
    parser.add_argument("--scenario", type=_name_list(ALL), default=[], help=f"of {','.join(ALL)}")
    parser.add_argument("--wire", type=_name_list(WIRES), default=[], help=f"of {','.join(WIRES)}")
    parser.add_argument(
        "--directory",
        type=Path,
        default=DIRECTORY,
        help="where the peers' environments are kept (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    start = monotonic()
    results = run(
        plan(quick=options.quick, scenarios=options.scenario, peers=options.peers, wires=options.wire),
        options.directory,
    )
    if options.json:
        print(json.dumps(_to_json(results), ensure_ascii=False, indent=2))
    else:
        print(*build_tables(results, whole=not options.scenario), sep="\n")
    print(f"\n{monotonic() - start:.0f} s", file=sys.stderr)


def _name_list(known: object):
    def read(text: str) -> list[str]:
        names = [] if text == "none" else text.split(",")
        if unknown := [name for name in names if name not in known]:  # type: ignore[operator]
            raise argparse.ArgumentTypeError(f"not known: {' '.join(unknown)}")
        return names

    return read


def _to_json(results: Results) -> dict[str, object]:
    samples = [
        {
            "wire": wire,
            "runner": runner,
            "scenario": name,
            "unit": samples.scenario.unit,
            "cpu_seconds_per_unit": samples.unit_cost,
            "wall_seconds": samples.wall,
            "peak_mb": samples.peak,
            "growth_mb": samples.growth,
            "slope_seconds_per_turn": samples.slope,
            "samples": len(samples.samples),
            "failed": samples.failure or None,
        }
        for (wire, runner, name), samples in results.samples.items()
    ]
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "samples": samples,
        "imports": {
            name: {"cpu_seconds": cost.cpu, "mb": cost.memory} for name, cost in results.imports.items()
        },
        "goals": build_goal_table(results).as_json(),
        "not_installed": results.missing,
    }


if __name__ == "__main__":
    main()
