"""A few of the attacks of `make attack`; its probes of the sandboxes are in `builtin/shell/test_shell_attacks.py`."""

import pytest
from tests.attack.__main__ import RACES, USERS, WALK_RACES, kill, race


@pytest.mark.untraced
@pytest.mark.parametrize("user", USERS)
def test_races_and_kills_lead_nowhere(user: str) -> None:
    rows = [*race(user, 60, *RACES), *race(user, 60, "--walk", *WALK_RACES), *kill(user, 2)]
    assert len(rows) == len(RACES) + len(WALK_RACES) + 4
    assert {row.name: row.leaks for row in rows if row.leaks} == {}
