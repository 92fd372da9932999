"""The demo of the built-in tools does what it shows."""

import io

from toolglot.cli.demo_tools import run_tools_demo
from toolglot.cli.printer import Printer


def test_it_lists_reads_edits_patches_greps_and_runs() -> None:
    out = io.StringIO()
    assert run_tools_demo(Printer(out)) == 0
    for part in ("greet.py (67 bytes)", "edited 'greet.py'", "A tests/test_greet.py", "Hello world", "fine"):
        assert part in out.getvalue()
    assert 'greet.py now: return "Hello " + name' in out.getvalue()
