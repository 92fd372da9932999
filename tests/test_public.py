"""The public names: complete, sorted, and loaded only when they are used."""

import subprocess
import sys

import pytest

import toolglot


def test_all_names_are_there() -> None:
    assert sorted(toolglot.__all__) == sorted({name for name in toolglot.__all__ if getattr(toolglot, name) is not None})
    assert dir(toolglot) == sorted(toolglot.__all__)


def test_all_is_sorted() -> None:
    assert toolglot.__all__ == sorted(toolglot.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Toolz"):
        _ = toolglot.Toolz


def test_import_loads_nothing_else() -> None:
    code = "import sys, toolglot; print([name for name in sys.modules if name.startswith(('toolglot', 'msgspec'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolglot']"
