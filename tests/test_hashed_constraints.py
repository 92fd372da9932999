"""constraints-hashed.txt has what toolglot requires, as constraints.txt pins it, and pip installs it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.hashed_constraints import FILE, ROOT, find_required, read_pins

TEXT = FILE.read_text(encoding="utf-8")


def test_it_pins_what_constraints_pin() -> None:
    pins, all_pins = read_pins(TEXT), read_pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert {name: all_pins.get(name) for name in pins} == pins, "run 'make hashes'"


def test_it_has_what_an_install_without_extras_needs_and_nothing_else() -> None:
    assert read_pins(TEXT).keys() == find_required(), "run 'make hashes'"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert direct <= read_pins(TEXT).keys()


def test_each_entry_has_hashes_and_names_no_index() -> None:
    entries = re.split(r"\n(?=\S)", TEXT[TEXT.index("\n", TEXT.rindex("\n# ") + 1) + 1 :].rstrip())
    assert len(entries) == len(read_pins(TEXT))
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry[:80]
    assert "://" not in TEXT


def run_pip(requirements: Path, target: Path) -> subprocess.CompletedProcess[str]:
    options = ["--dry-run", "--target", str(target), "--only-binary", ":all:", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "install", *options, "-r", str(requirements)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_pip_installs_it_and_refuses_another_wheel(tmp_path: Path) -> None:
    """This needs a package index."""
    done = run_pip(FILE, tmp_path / "target")
    assert done.returncode == 0, done.stderr
    changed = tmp_path / "changed.txt"
    hashes = re.compile(r"(?<=sha256:)[0-9a-f]{64}")
    changed.write_text(hashes.sub("0" * 64, TEXT), encoding="utf-8")
    done = run_pip(changed, tmp_path / "target")
    assert done.returncode != 0
    assert "HASHES" in done.stderr
