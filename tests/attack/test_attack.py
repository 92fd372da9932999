"""A few of the attacks of `make attack`; its probes of the sandboxes are in
`builtin/shell/test_shell_attacks.py`.
"""

import logging
from collections.abc import Iterator

import pytest
from tests.attack import __main__ as attack
from tests.attack.__main__ import RACES, USERS, WALK_RACES, kill, play_games, race
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


def test_all_of_the_game_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan is played as each user, in each sandbox, in each approval mode."""
    played: list[str] = []

    def run_python(*words: str, path: tuple[str, ...] = ()) -> str:
        played.append(" ".join(words))
        return "held   a plan\nFAILED another\n"

    monkeypatch.setattr(attack, "run_python", run_python)
    rows = [*play_games()]
    assert len(played) == len({*played}) == 4 * len(USERS)
    assert sum("--approval-mode sandboxed" in words for words in played) == 2 * len(USERS)
    assert {(row.tries, row.leaks) for row in rows} == {(2, 1)}
