"""docs/requirements.md: every row names a test that pytest collects, and one that loads the payload of its
example.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from .kit import LOADED_LOG, PAYLOADS

ROOT = Path(__file__).parents[2]
COUNTS = {"F": 13, "A": 10, "P": 10, "G": 9, "E": 20}
# Rows for which the documents have prose only: no payload, table or call.
WITHOUT_EXAMPLE = frozenset(["F5", "F10", "F11", "A5", "A6", "A9", "A10", "E15", "E18", "E20"])


def read_rows() -> dict[str, tuple[str, list[str], list[str]]]:
    """Return the rows: state, tests and payloads by number."""
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    pattern = r"^\| ([A-Z]\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$"
    return {
        name: (state, re.findall(r"`([^`]+)`", tests), re.findall(r"`([^`]+)`", payloads))
        for name, state, tests, payloads in re.findall(pattern, text, re.MULTILINE)
    }


ROWS = read_rows()


def run_pytest(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Plug-ins that measure or distribute this run must not do so with the inner one.
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def run_examples(log: Path) -> dict[str, set[str]]:
    """Run the examples; return the payloads that each test loads."""
    modules = [str(path.relative_to(ROOT)) for path in sorted(Path(__file__).parent.glob("test_0*.py"))]
    done = run_pytest(*modules, **{LOADED_LOG: str(log)})
    assert done.returncode == 0, done.stdout
    loaded = dict[str, set[str]]()
    for line in log.read_text(encoding="utf-8").splitlines():
        test, payload = line.split("\t")
        loaded.setdefault(test, set()).add(payload)
    return loaded


def collect() -> set[str]:
    """Return the tests that pytest collects in the files that the rows name, and the files."""
    files = sorted({test.partition("::")[0] for _, tests, _ in ROWS.values() for test in tests})
    done = run_pytest("--collect-only", *files)
    assert done.returncode == 0, done.stdout
    ids = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    # without the class
    functions = {f"{test.partition('::')[0]}::{test.rpartition('::')[2]}" for test in ids}
    return functions | {test.partition("::")[0] for test in ids}


def test_all_62_rows_are_there_and_done() -> None:
    assert [*ROWS] == [
        f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)
    ]
    assert len(ROWS) == 62
    assert {name: state for name, (state, _, _) in ROWS.items() if state != "yes"} == {}


def test_every_test_that_a_row_names_is_collected() -> None:
    assert [name for name, (_, tests, _) in ROWS.items() if not tests] == []
    assert {test for _, tests, _ in ROWS.values() for test in tests} - collect() == set()


def test_a_row_loads_the_payload_that_it_names(tmp_path: Path) -> None:
    loaded = run_examples(tmp_path / "loaded.tsv")
    assert {name for name, (_, _, payloads) in ROWS.items() if not payloads} == WITHOUT_EXAMPLE
    for name, (_, tests, payloads) in ROWS.items():
        examples = [test for test in tests if test.startswith("tests/seeds/")]
        assert {*payloads} <= {payload for test in examples for payload in loaded.get(test, ())}, name
        assert [test for test in examples if not loaded.get(test, set[str]()) & {*payloads}] == [], name


def test_every_payload_is_named_by_a_row() -> None:
    named = {payload for _, _, payloads in ROWS.values() for payload in payloads}
    assert named == {path.stem for path in PAYLOADS.glob("*.json")}
