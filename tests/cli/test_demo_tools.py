"""The demo of the built-in tools does what it shows."""

import io

from rich.console import Console

from toolglot.cli.demo_tools import run_tools_demo


def test_it_lists_reads_edits_patches_greps_and_runs() -> None:
    out = io.StringIO()
    assert run_tools_demo(Console(file=out, width=120, no_color=True)) == 0
    said = out.getvalue()
    for part in ("greet.py (67 bytes)", "edited 'greet.py'", "A tests/test_greet.py", "Hello world", "fine"):
        assert part in said
    assert 'greet.py now: return "Hello " + name' in said
