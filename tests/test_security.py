"""What SECURITY.md promises is shown by tests that exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    table = TEXT[TEXT.index("## What is promised") : TEXT.index("## Commands, by level")]
    rows = re.findall(r"^\| (?!promise|---)(.*) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 12
    assert [promise for promise, tests in rows if "::test_" not in tests] == []


def find_named_tests() -> list[tuple[str, str]]:
    """Each file with each of its tests, as `Class::test` or `test`; without a test, the whole file counts."""
    return list(dict.fromkeys(re.findall(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`", TEXT)))


def list_tests(path: str) -> set[str]:
    """The tests in a file, as pytest names them."""
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    scopes = [
        ("", module),
        *((f"{node.name}::", node) for node in module.body if isinstance(node, ast.ClassDef)),
    ]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        f"{prefix}{node.name}"
        for prefix, scope in scopes
        for node in scope.body
        if isinstance(node, functions)
    }


def test_tests_exist_under_the_names_that_pytest_takes() -> None:
    names = find_named_tests()
    assert len(names) >= 100
    missing = [f"{path}::{test}" for path, test in names if test and test not in list_tests(path)]
    assert missing == [], "a test in a class is written tests/FILE.py::TestClass::test_name"


@pytest.mark.slow
def test_each_named_test_is_collected() -> None:
    """As somebody runs them who copies the names from the page."""
    ids = [f"{path}::{test}" if test else path for path, test in find_named_tests()]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *ids]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout[-2000:] + outcome.stderr
    collected = outcome.stdout.split()
    assert [id for id in ids if not any(line.startswith(id) for line in collected)] == []
