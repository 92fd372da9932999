"""docs/comparison.md shows what the libraries say: the kept results are those of the programs today."""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Mapping
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
from bench.comparison.frontend import FRONTEND
from bench.comparison.orders import ORDERS
from bench.comparison.run import WatchedSimulator, compare, run_program, shorten
from bench.comparison.subagent import SUBAGENT

from toolglot.simulator.core import SimulatedResponse

ROOT = Path(__file__).resolve().parent.parent
COMPARISONS = (ORDERS, SUBAGENT, FRONTEND)
RESTARTS = (SUBAGENT, FRONTEND)
KEPT = {
    comparison: msgspec.json.decode(comparison.results_path.read_bytes(), type=Results)
    for comparison in COMPARISONS
}
PROGRAMS = [(comparison, library) for comparison in COMPARISONS for library in comparison.libraries]
MISTAKES = [(comparison, mistake) for comparison in COMPARISONS for mistake in comparison.mistakes]
pytestmark = pytest.mark.untraced


def require(comparison: Comparison, library: str) -> None:
    """Skip unless the library is installed as it was when the results were kept."""
    if library == "toolglot":
        return
    installed, kept = find_version(library), KEPT[comparison].libraries[library].version
    if installed != kept:
        pytest.skip(f"{library} {kept} is not installed (but {installed})")


def run(
    comparison: Comparison,
    library: str,
    mistake: Mistake | None = None,
    simulator: WatchedSimulator | None = None,
) -> Answer:
    key = mistake.key if mistake else RIGHT_KEY
    source, starts = comparison.read_program(library, mistake), comparison.list_starts(mistake)
    return asyncio.run(run_program(source, key, *starts, simulator=simulator))


def at_run_time(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, change=None, pyright="", mypy="")


def name_case(value: object) -> str:
    match value:
        case Comparison():
            return value.directory.name
        case Mistake():
            return value.id
        case _:
            return str(value)


@pytest.mark.parametrize(("comparison", "library"), PROGRAMS, ids=name_case)
def test_the_programs_run_as_the_page_says(comparison: Comparison, library: str) -> None:
    require(comparison, library)
    answer, kept = run(comparison, library), KEPT[comparison].libraries[library]
    assert answer == at_run_time(kept.right)
    assert kept.lines == count_lines(comparison.read_program(library))
    assert (answer.raised, answer.logged, kept.right.pyright, kept.right.mypy) == ("", "", "", "")


@pytest.mark.parametrize("library", ORDERS.libraries)
def test_the_orders_are_refunded_after_the_question(library: str) -> None:
    answer = KEPT[ORDERS].libraries[library].right
    assert answer.settings[:1] == ("temperature",)
    assert answer.sent == (2, 4, 6, 8)  # the second turn contains the first
    assert answer.printed[2] == "[7]"


@pytest.mark.parametrize(("comparison", "mistake"), MISTAKES, ids=name_case)
def test_toolglot_says_what_the_page_says(comparison: Comparison, mistake: Mistake) -> None:
    kept = KEPT[comparison].libraries["toolglot"].mistakes[mistake.id]
    assert run(comparison, "toolglot", mistake) == at_run_time(kept)


@pytest.mark.slow
@pytest.mark.parametrize(("comparison", "library"), PROGRAMS, ids=name_case)
def test_all_results_are_those_of_today(comparison: Comparison, library: str) -> None:
    """With what the type checkers say."""
    require(comparison, library)
    kept = KEPT[comparison]
    if library != "toolglot" and kept.python != (now := ".".join(map(str, sys.version_info[:2]))):
        pytest.skip(f"the results are those of Python {kept.python}, not {now}")
    results = compare(comparison, [library])
    if (results.pyright, results.mypy) != (kept.pyright, kept.mypy):
        pytest.skip(f"the results are those of pyright {kept.pyright} and mypy {kept.mypy}")
    today, then = results.libraries[library], kept.libraries[library]
    assert (today.right, today.mistakes) == (then.right, then.mistakes)


# ---- programs that are started again


class CountingSimulator(WatchedSimulator):
    """Adds up the tokens of its replies."""

    tokens = 0

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, connection: object = None
    ) -> SimulatedResponse:
        response = super().handle(method, path, headers, body, connection=connection)
        [tokens] = re.findall(rb'"total_tokens": ?(\d+)', response.body)
        self.tokens += int(tokens)
        return response


@pytest.mark.parametrize("library", SUBAGENT.libraries)
def test_the_tokens_that_are_printed_are_those_of_both_agents(library: str) -> None:
    require(SUBAGENT, library)
    simulator = CountingSimulator()
    answer = run(SUBAGENT, library, simulator=simulator)
    assert len(answer.sent) == 4
    assert answer.printed[-1] == f"tokens: {simulator.tokens}"


@pytest.mark.parametrize("comparison", RESTARTS, ids=name_case)
def test_nothing_is_done_before_the_second_start(comparison: Comparison) -> None:
    for library in comparison.libraries:
        require(comparison, library)
        first = asyncio.run(run_program(comparison.read_program(library), RIGHT_KEY, comparison.starts[0]))
        whole = KEPT[comparison].libraries[library].right
        assert first.raised == ""
        assert first.printed == whole.printed[: len(first.printed)] < whole.printed
        assert first.printed[0].startswith("call_000002")
        assert first.sent == whole.sent[: len(first.sent)] < whole.sent


def test_a_program_that_fails_is_not_started_again() -> None:
    source = "import pathlib\nprint('here')\npathlib.Path('x').open('x').close()\n"
    answer = asyncio.run(run_program(source, RIGHT_KEY, "", "", ""))
    assert answer.printed == ("here", "here")
    assert answer.raised == "FileExistsError: [Errno 17] File exists: 'x'"


def test_a_program_without_the_text_of_a_mistake_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "toolglot_program.py").write_text("right()\n", encoding="utf-8")
    mistake = Mistake("typo", "A typo", {"toolglot": ("left", "lfet")})
    comparison = Comparison(tmp_path, ("toolglot",), (mistake,), starts=("",))
    assert comparison.read_program("toolglot") == "right()\n"
    with pytest.raises(ValueError, match="typo: the program of toolglot does not contain 'left'"):
        comparison.read_program("toolglot", mistake)


def test_messages_are_shortened_by_rule() -> None:
    assert shorten("\nfirst at http://127.0.0.1:5\nsecond", {"http://127.0.0.1:5": "URL"}) == "first at URL"
    assert shorten("x" * 200, {}) == "x" * 200
    assert shorten("x" * 201, {}) == "x" * 199 + "…"


def test_lines_are_counted_without_blank_lines_and_comments() -> None:
    assert count_lines("# why\n\nimport os\n    # how\nprint(os.sep)  # where\n") == 2


@pytest.mark.parametrize(
    ("comparison", "library", "mistake", "answer", "claim"),
    [
        (
            ORDERS,
            "agents",
            "tool",
            {"told": "Error: the order database"},
            "Better in the Agents SDK:** The text",
        ),
        (SUBAGENT, "pydantic_ai", "kind", {"raised": ""}, "The same:** The approval"),
        (SUBAGENT, "toolglot", "old", {"printed": ["paying 90"]}, "The same:** Whoever"),
        (FRONTEND, "pydantic_ai", "schema", {"told": "not a date"}, "Better in toolglot:** The browser"),
        (FRONTEND, "toolglot", "prompt", {"raised": "no"}, "Better in toolglot:** A user"),
    ],
    ids=name_case,
)
def test_what_the_results_do_not_support_is_not_claimed(
    comparison: Comparison,
    library: str,
    mistake: str,
    answer: dict[str, Any],
    claim: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "docs")])
    page: Any = importlib.import_module("generate_comparison")
    name = comparison.directory.name
    claims = getattr(page, f"{name.upper()}_CLAIMS")
    results = json.loads(comparison.results_path.read_bytes())
    results["libraries"][library]["mistakes"][mistake] |= answer
    (tmp_path / name).mkdir()
    (tmp_path / name / "results.json").write_text(json.dumps(results), encoding="utf-8")
    assert claim in page.render_claims(name, claims)
    monkeypatch.setattr(page, "COMPARISONS", tmp_path)
    with pytest.raises(ValueError, match=rf"do not support: \*\*{re.escape(claim)}"):
        page.render_claims(name, claims)


def test_the_table_of_restarts_shows_what_is_printed_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "docs")])
    page: Any = importlib.import_module("generate_comparison")
    rows = {line.split(" | ")[0]: line for line in page.render_restarts("subagent").splitlines()}
    assert "`paying 99`" in rows["| somebody edits the amount in the stored state"]
    twice = rows["| the decision comes again, after the run has ended"]
    assert "paying" not in twice
    assert twice.count("exception: ") == 2
