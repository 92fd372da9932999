"""`python -m bench.comparison [--libraries a,b] [--write]`."""

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

from bench.comparison.definition import PACKAGES, Comparison, Results, find_version
from bench.comparison.frontend import FRONTEND
from bench.comparison.orders import ORDERS
from bench.comparison.run import compare
from bench.comparison.subagent import SUBAGENT

COMPARISONS = (ORDERS, SUBAGENT, FRONTEND)
GENERATE = Path(__file__).resolve().parent.parent.parent / "docs" / "generate.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.comparison", description="Run the same program in several libraries."
    )
    parser.add_argument("--libraries", help=f"of {','.join(PACKAGES)}; by default, all that are installed")
    parser.add_argument("--write", action="store_true", help="keep the results, and generate the page")
    options = parser.parse_args()
    for comparison in COMPARISONS:
        libraries = choose_libraries(comparison, options.libraries)
        results = compare(comparison, libraries)
        show(comparison, results)
        if options.write:
            write(comparison, results)
    if options.write:
        subprocess.run([sys.executable, GENERATE], check=True)


def choose_libraries(comparison: Comparison, names: str | None) -> list[str]:
    """Those that were asked for, or all that are installed."""
    chosen = names.split(",") if names else list(comparison.libraries)
    for library in chosen:
        if library in PACKAGES and not find_version(library):
            print(f"{library} is skipped: {PACKAGES[library]} is not installed", file=sys.stderr)
    return [library for library in chosen if library in comparison.libraries and find_version(library)]


def show(comparison: Comparison, results: Results) -> None:
    for library, result in results.libraries.items():
        print(f"{PACKAGES[library]} {result.version}: {result.lines} lines")
        print(f"  prints {' / '.join(result.right.printed)}")
        for mistake in comparison.mistakes:
            print(f"  {mistake.title}")
            answer = result.mistakes[mistake.id]
            for name in ("pyright", "mypy", "raised", "told", "logged"):
                print(f"    {name:8}{getattr(answer, name) or '-'}")
            print(f"    printed {' / '.join(answer.printed)}")


def write(comparison: Comparison, results: Results) -> None:
    """Keep these results, and those of libraries that were not run."""
    path = comparison.results_path
    if path.exists():
        kept = msgspec.json.decode(path.read_bytes(), type=Results)
        results.libraries = kept.libraries | results.libraries
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


if __name__ == "__main__":
    main()
