"""Random histories of runs whose calls are answered from elsewhere. `make attack` plays 2,000."""

import logging
from collections.abc import Iterator

import pytest

from .open_storm import play_histories


@pytest.fixture
def quiet() -> Iterator[None]:
    """Warnings about calls that were refused are expected."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.untraced
def test_every_call_has_one_result_and_nothing_delivered_is_lost(quiet: None) -> None:
    """Eight threads deliver, right and wrong; the program runs, cancels, leaves, saves, loads, switches and
    undoes.
    """
    counts, problems = play_histories(range(60))
    assert problems == []
    for event in (
        *(
            "approval",
            "waiting",
            "end",
            "cancelled",
            "loaded",
            "switched",
            "undone",
            "usage errors",
            "clean",
            "crashed",
        ),
        *("messages delivered", "messages refused", "messages withdrawn"),
        *("answers delivered", "answers refused"),
    ):
        assert counts[event] >= 5, event
