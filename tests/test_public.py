"""The public names: complete, sorted, and loaded only when they are used."""

import subprocess
import sys
from typing import get_args

import pytest

import toolglot
from toolglot import errors, events


def test_all_names_are_there() -> None:
    assert sorted(toolglot.__all__) == sorted({name for name in toolglot.__all__ if getattr(toolglot, name) is not None})
    assert dir(toolglot) == sorted(toolglot.__all__)


def test_all_is_sorted() -> None:
    assert toolglot.__all__ == sorted(toolglot.__all__)


def test_all_errors_and_all_events_of_a_run_are_there() -> None:
    tree = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.ToolglotError)}
    told = {one.__name__ for one in get_args(events.RunEvent)}
    assert tree | told <= {*toolglot.__all__}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Toolz"):
        _ = toolglot.Toolz


def test_import_loads_nothing_else() -> None:
    code = "import sys, toolglot; print([name for name in sys.modules if name.startswith(('toolglot', 'msgspec'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolglot']"
