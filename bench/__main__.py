"""`python -m bench [--quick] [--json] [SECTION …]`."""

import argparse
import json
import platform
import re
from collections.abc import Callable
from pathlib import Path

from bench.commands import commands_table
from bench.decode import decode_table, flat_table
from bench.encode import encode_table
from bench.instructions import instructions_table
from bench.loop.table import crowd_table, goals_table, growth_table, loop_table
from bench.measure import Table, pin
from bench.startup import startup_table
from bench.telemetry import telemetry_table
from bench.tools_ast import ast_table
from bench.tools_files import files_table
from bench.tools_search import tools_search_table
from bench.tools_shell import shell_table
from bench.walk import walk_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECTIONS: dict[str, Callable[..., Table]] = {
    "decode": decode_table,
    "flat": flat_table,
    "encode": encode_table,
    "startup": startup_table,
    "commands": commands_table,
    "telemetry": telemetry_table,
    "walk": walk_table,
}
# Only by name: they take minutes, and those of the loop install each peer in its own environment.
LONG: dict[str, Callable[..., Table]] = {
    "loop": loop_table,
    "loop-growth": growth_table,
    "loop-crowds": crowd_table,
    "loop-goals": goals_table,
    "instructions": instructions_table,
    "tools-files": files_table,
    "tools-search": tools_search_table,
    "tools-ast": ast_table,
    "tools-shell": shell_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure speed as ratios: CPU time on one core, medians."
    )
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"any of {' '.join(SECTIONS)} (the default), or of {' '.join(LONG)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the totals of `instructions`, to compare later ones with them",
    )
    parser.add_argument("--docs", action="store_true", help="also write the tables to docs/performance.md")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS) - set(LONG):
        parser.error(f"no such section: {' '.join(sorted(unknown))}")
    pin()
    shown: list[str] = []
    results: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    for name in options.sections or SECTIONS:
        more = {"keep": options.keep} if name == "instructions" else {}
        table = {**SECTIONS, **LONG}[name](quick=options.quick, **more)
        if options.json:
            results[name] = {"title": table.title, "rows": table.as_json()}
        else:
            print(table, flush=True)
            shown.append(str(table).strip("\n"))
    if options.json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
    if options.docs:
        text = PAGE.read_text(encoding="utf-8")
        tables = "\n\n".join(shown)
        mark = "tools" if all(name.startswith("tools") for name in options.sections or ("",)) else ""
        mark = mark or ("loop" if set(options.sections) & set(LONG) else "bench")
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        text = re.sub(pattern, lambda m: f"{m[1]}```text\n{tables}\n```\n{m[2]}", text, flags=re.DOTALL)
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
