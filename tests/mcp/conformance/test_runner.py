"""What the runner reads from the suite: the requirement sets are those that the issue of their revision
froze.
"""

import pytest
from tests.mcp.conformance.runner import REVISIONS, Outcome, Report, read_requirements

pytestmark = pytest.mark.conformance


def test_requirement_sets_are_complete() -> None:
    sizes = {
        (side, revision): len(read_requirements(side, revision)[0])
        for revision in REVISIONS
        for side in ("server", "client")
    }
    assert sizes == {
        ("server", "2025-11-25"): 30,
        ("client", "2025-11-25"): 18,
        ("server", "2026-07-28"): 37,
        ("client", "2026-07-28"): 32,
    }


def test_a_scenario_without_any_check_is_a_failure() -> None:
    report = Report("client", "2025-11-25", {"ping": Outcome(0, 0, ()), "call": Outcome(2, 0, ())}, {}, "")
    assert list(report.failures) == ["ping"]
    assert "1 of 2 required scenarios pass (2 checks)" in str(report)
