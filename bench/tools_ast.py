"""Search by structure over the standard library, with the look for a word of the pattern before parsing and
without.
"""

import sysconfig
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Table
from toolglot.builtin.code import ast_query, ast_tools
from toolglot.builtin.code.ast_query import AstQuery
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.tools.context import Context
from toolglot.values.messages import ToolCall

PATTERNS = ("isinstance($A, $B)", "raise $E from None", "$A = $B if $C else $D")

_ONLY_STDLIB = {"include_glob": "!site-packages/**"}  # what others have installed there


def ast_table(*, quick: bool) -> Table:
    """Wall time of whole calls, as the parser is a process of its own; its start is included."""
    source = Path(sysconfig.get_paths()["stdlib"]) / ("json" if quick else "")
    table = Table(f"ast_search over {'a part of ' if quick else ''}the standard library")
    workspace = Workspace(source, writable=False)
    size = (
        sum(path.stat().st_size for path in source.rglob("*.py") if "site-packages" not in path.parts) / 1e6
    )
    for pattern in PATTERNS:
        plain, matches = _time_search(workspace, pattern, 3 if quick else 1, prefilter=False)
        fast, same = _time_search(workspace, pattern, 3 if quick else 1, prefilter=True)
        assert matches == same, (pattern, matches, same)
        table.rows.append(
            {
                "": pattern,
                "matches": matches,
                "MB": size,
                "MB/s": size / fast,
                "MB/s, all parsed": size / plain,
            }
        )
    workspace.close()
    return table


class _ParseEverything(AstQuery):
    """A query that parses every file, whatever words it contains."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._required_word = ""


def _time_search(workspace: Workspace, pattern: str, rounds: int, *, prefilter: bool) -> tuple[float, int]:
    search = ast_tools.ast_search_tools(ToolState(workspace))[0]
    call = ToolCall(
        "c1", "ast_search", {"pattern": pattern, "language": "python", "max_results": 10**6, **_ONLY_STDLIB}
    )
    timeout, max_results = ast_query.TIMEOUT_SECONDS, ast_tools.MAX_RESULTS
    seconds, count = list[float](), 0
    ast_query.TIMEOUT_SECONDS, ast_tools.MAX_RESULTS = 600.0, 10**6
    setattr(ast_tools, "AstQuery", AstQuery if prefilter else _ParseEverything)  # noqa: B010
    try:
        for _ in range(rounds):
            start = time.perf_counter()
            count = len(search.call(search.bind(call).values, Context(call)).data["matches"])
            seconds.append(time.perf_counter() - start)
    finally:
        ast_query.TIMEOUT_SECONDS, ast_tools.MAX_RESULTS = timeout, max_results
        setattr(ast_tools, "AstQuery", AstQuery)  # noqa: B010
    return median(seconds), count


if __name__ == "__main__":
    print(ast_table(quick=False))
