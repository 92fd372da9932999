"""The documentation runs: every Python block is executed, every generated part is current."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_block_runs_and_prints_what_its_comments_say(block: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "<documentation>", "exec"), {})
    promised = re.findall(r"^print\(.*?\)  # (.*)$", block, re.MULTILINE)
    assert out.getvalue().splitlines() == promised


@pytest.mark.untraced
def test_generated_parts_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
