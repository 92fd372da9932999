"""What SECURITY.md promises is shown by tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    table = TEXT[TEXT.index("## What is promised") : TEXT.index("## Commands, by level")]
    rows = re.findall(r"^\| (?!promise|---)(.*) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 12
    assert [promise for promise, tests in rows if "::test_" not in tests] == []


def test_tests_exist() -> None:
    names = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)
    assert len(names) >= 20
    for path, function in names:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not function or re.search(rf"def {function}\(", text), f"{path}::{function}"
