"""A few of the attacks of `make attack`; its probes of the sandboxes are in
`builtin/shell/test_shell_attacks.py`.
"""

import logging
from collections.abc import Iterator

import pytest
from tests.attack.__main__ import RACES, USERS, WALK_RACES, kill, race
from tests.loop import cancel_storm, saved_run_storm


@pytest.mark.untraced
@pytest.mark.parametrize("user", USERS)
def test_races_and_kills_lead_nowhere(user: str) -> None:
    rows = [*race(user, 60, *RACES), *race(user, 60, "--walk", *WALK_RACES), *kill(user, 2)]
    assert len(rows) == len(RACES) + len(WALK_RACES) + 4
    assert {row.name: row.leaks for row in rows if row.leaks} == {}


@pytest.fixture
def quiet() -> Iterator[None]:
    """Warnings about damaged runs are expected, thousands of them."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.untraced
def test_runs_may_be_stopped_in_any_way_at_any_moment(quiet: None) -> None:
    tries, problems = cancel_storm.storm(stride=20)
    assert problems == []
    assert tries > 100


@pytest.mark.untraced
def test_damaged_saved_runs_fail_with_our_errors_and_run_nothing(quiet: None) -> None:
    assert saved_run_storm.storm(corruptions=60, mutations=40) == (100, [])
