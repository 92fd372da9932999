"""docs/comparison.md shows what the libraries say: the kept results are those of the programs today."""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.comparison.definition import (
    RIGHT_KEY,
    Answer,
    Comparison,
    Mistake,
    Results,
    count_lines,
    find_version,
)
from bench.comparison.orders import ORDERS
from bench.comparison.run import compare, run_program, shorten

ROOT = Path(__file__).resolve().parent.parent
KEPT = msgspec.json.decode(ORDERS.results_path.read_bytes(), type=Results)
TOOLGLOT = KEPT.libraries["toolglot"]
pytestmark = pytest.mark.untraced


def require(library: str) -> None:
    """Skip unless the library is installed as it was when the results were kept."""
    installed, kept = find_version(library), KEPT.libraries[library].version
    if installed != kept:
        pytest.skip(f"{library} {kept} is not installed (but {installed})")


def run(library: str, mistake: Mistake | None = None) -> Answer:
    key = mistake.key if mistake else RIGHT_KEY
    return asyncio.run(run_program(ORDERS.read_program(library, mistake), key, ORDERS.answers))


def at_run_time(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, change=None, pyright="", mypy="")


@pytest.mark.parametrize("library", ORDERS.libraries)
def test_the_programs_run_as_the_page_says(library: str) -> None:
    if library != "toolglot":
        require(library)
    answer = run(library)
    assert answer == KEPT.libraries[library].right
    assert KEPT.libraries[library].lines == count_lines(ORDERS.read_program(library))
    assert (answer.raised, answer.logged, answer.settings[:1]) == ("", "", ("temperature",))
    assert answer.sent == (2, 4, 6, 8)  # the second turn contains the first
    assert answer.printed[2] == "[7]"  # refunded, after the question


@pytest.mark.parametrize("mistake", ORDERS.mistakes, ids=lambda mistake: mistake.id)
def test_toolglot_says_what_the_page_says(mistake: Mistake) -> None:
    assert run("toolglot", mistake) == at_run_time(TOOLGLOT.mistakes[mistake.id])


@pytest.mark.slow
@pytest.mark.parametrize("library", ORDERS.libraries)
def test_all_results_are_those_of_today(library: str) -> None:
    """With what the type checkers say."""
    if library != "toolglot":
        require(library)
        if KEPT.python != (now := ".".join(map(str, sys.version_info[:2]))):
            pytest.skip(f"the results are those of Python {KEPT.python}, not {now}")
    results = compare(ORDERS, [library])
    if (results.pyright, results.mypy) != (KEPT.pyright, KEPT.mypy):
        pytest.skip(f"the results are those of pyright {KEPT.pyright} and mypy {KEPT.mypy}")
    now, kept = results.libraries[library], KEPT.libraries[library]
    assert (now.right, now.mistakes) == (kept.right, kept.mistakes)


def test_a_program_without_the_text_of_a_mistake_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "toolglot_program.py").write_text("right()\n", encoding="utf-8")
    mistake = Mistake("typo", "A typo", {"toolglot": ("left", "lfet")})
    comparison = Comparison(tmp_path, ("toolglot",), (mistake,), answers="")
    assert comparison.read_program("toolglot") == "right()\n"
    with pytest.raises(ValueError, match="typo: the program of toolglot does not contain 'left'"):
        comparison.read_program("toolglot", mistake)


def test_messages_are_shortened_by_rule() -> None:
    assert shorten("\nfirst at http://127.0.0.1:5\nsecond", {"http://127.0.0.1:5": "URL"}) == "first at URL"
    assert shorten("x" * 200, {}) == "x" * 200
    assert shorten("x" * 201, {}) == "x" * 199 + "…"


def test_lines_are_counted_without_blank_lines_and_comments() -> None:
    assert count_lines("# why\n\nimport os\n    # how\nprint(os.sep)  # where\n") == 2


def test_what_the_results_do_not_support_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "docs")])
    page: Any = importlib.import_module("generate_comparison")
    results = json.loads(ORDERS.results_path.read_bytes())
    results["libraries"]["agents"]["mistakes"]["tool"]["told"] = "Error: the order database is down"
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "results.json").write_text(json.dumps(results), encoding="utf-8")
    assert "Better in the Agents SDK" in page.render_claims("orders", page.ORDERS_CLAIMS)
    monkeypatch.setattr(page, "COMPARISONS", tmp_path)
    with pytest.raises(ValueError, match=r"do not support: \*\*Better in the Agents SDK"):
        page.render_claims("orders", page.ORDERS_CLAIMS)
