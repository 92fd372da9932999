"""What SECURITY.md promises is shown by tests that exist, under the names that docs/security-tests.md gives."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.promises import read_tests

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "security-tests.md").read_text(encoding="utf-8")
GROUPS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))[
    "groups"
]
PROMISES: list[dict[str, Any]] = [promise for group in GROUPS for promise in group["promises"]]
IDS = re.findall(r"`(tests/\S+?\.py(?:::\S+?)?)`", PAGE)


def test_every_promise_is_one_line_of_its_own() -> None:
    lines = TEXT.splitlines()
    assert len(PROMISES) >= 40
    assert len(read_tests()) == len(PROMISES), "two promises have the same id"
    for promise in PROMISES:
        assert f"- {promise['promise']}" in lines, "run 'make docs'"
        assert len(promise["promise"]) <= 170, f"{promise['id']}: the rest belongs in its details"


def test_every_promise_names_its_tests_on_the_page() -> None:
    for promise in PROMISES:
        section = PAGE.split(f"\n### {promise['id']}\n")[1].split("\n#")[0]
        assert promise["tests"], promise["id"]
        assert [test for test in promise["tests"] if f"- `{test}`\n" not in section + "\n"] == []
    assert sorted(IDS) == sorted(test for promise in PROMISES for test in promise["tests"])
    assert all("::test_" in test for test in IDS), "name a test, not a file"


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
    missing = [id for id in IDS if id.partition("::")[2] not in list_tests(id.partition("::")[0])]
    assert missing == [], "a test in a class is written tests/FILE.py::TestClass::test_name"


@pytest.mark.slow
def test_each_named_test_is_collected() -> None:
    """As somebody runs them who copies the names from the page."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *IDS]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout[-2000:] + outcome.stderr
    collected = outcome.stdout.split()
    assert [
        id for id in IDS if not any(re.match(rf"{re.escape(id)}(\[|$)", line) for line in collected)
    ] == []


def run_promises(*names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.promises", *names]
    env = {**os.environ, "PYTEST_ADDOPTS": "--collect-only -q -p no:cacheprovider"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def test_the_tests_of_one_promise_can_be_run_by_its_name() -> None:
    done = run_promises("audit")
    assert done.returncode == 0, done.stdout + done.stderr
    for test in read_tests()["audit"]:
        assert test in done.stdout
    assert "there is no promise no-such" in run_promises("no-such").stderr
