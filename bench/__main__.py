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
from bench.loop.table import crowd_table, goals_table, growth_table, loop_table
from bench.measure import Table, pin
from bench.startup import startup_table
from bench.tools_ast import ast_table
from bench.tools_files import files_table
from bench.tools_search import tools_search_table
from bench.tools_shell import shell_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECTIONS: dict[str, Callable[..., Table]] = {
    "decode": decode_table,
    "flat": flat_table,
    "encode": encode_table,
    "startup": startup_table,
    "commands": commands_table,
}
# Only where they are asked for by name: they install the peers, each in its own environment, and take minutes.
LONG: dict[str, Callable[..., Table]] = {
    "loop": loop_table,
    "loop-growth": growth_table,
    "loop-crowds": crowd_table,
    "loop-goals": goals_table,
    "tools-files": files_table,
    "tools-search": tools_search_table,
    "tools-ast": ast_table,
    "tools-shell": shell_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed, as ratios: CPU time on one core, medians.")
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"any of {' '.join(SECTIONS)}, which run without one, and {' '.join(LONG)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object for scripts")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/performance.md too")
    given = parser.parse_args()
    if unknown := set(given.sections) - set(SECTIONS) - set(LONG):
        parser.error(f"no such section: {' '.join(sorted(unknown))}")
    pin()
    shown: list[str] = []
    results: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    for name in given.sections or SECTIONS:
        table = {**SECTIONS, **LONG}[name](quick=given.quick)
        if given.json:
            results[name] = {"title": table.title, "rows": table.as_json()}
        else:
            print(table, flush=True)
            shown.append(str(table).strip("\n"))
    if given.json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
    if given.docs:
        text = PAGE.read_text(encoding="utf-8")
        tables = "\n\n".join(shown)
        mark = "tools" if all(name.startswith("tools") for name in given.sections or ("",)) else ""
        mark = mark or ("loop" if set(given.sections) & set(LONG) else "bench")
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        text = re.sub(pattern, lambda m: f"{m[1]}```text\n{tables}\n```\n{m[2]}", text, flags=re.DOTALL)
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
