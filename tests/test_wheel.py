"""The built package: what is in it, and what a user meets who installs it into a clean environment.

`make test` uses this Python and the packages that are there. `make test-wheel` lets pip install everything,
into an environment of every Python from 3.11 on that it finds.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.engine.test_pytest_plugin import Project
from tests.engine.test_pytest_plugin import provider as provider  # a fixture

import toolglot

pytestmark = pytest.mark.untraced


def find_pythons() -> dict[str, str]:
    """One Python of every version from 3.11 on: those that TOOLGLOT_PYTHONS names, and those in the usual
    places.
    """
    if "TOOLGLOT_PYTHONS" not in os.environ:
        return {}
    candidates: list[str | Path | None] = [*os.environ["TOOLGLOT_PYTHONS"].split()]
    for directory in (".pyenv/versions", ".local/share/uv/python"):
        candidates += Path.home().glob(f"{directory}/*/bin/python3")
    candidates += [shutil.which(f"python3.{minor}") for minor in range(11, 30)]
    pythons: dict[str, str] = {}
    for python in filter(None, candidates):
        code = "import sys; print('{0}.{1}'.format(*sys.version_info) if sys.version_info >= (3, 11) else '')"
        version = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
        if version:
            pythons.setdefault(version, str(python))
    return pythons


PYTHONS = find_pythons()


@pytest.fixture(scope="module", params=["this", *PYTHONS])
def environment(
    request: pytest.FixtureRequest, distributions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A clean environment with the wheel and pytest."""
    if request.param == "this":
        return request.getfixturevalue("wheel_environment")
    directory = tmp_path_factory.mktemp(f"python{request.param}")
    subprocess.run([PYTHONS[request.param], "-m", "venv", "--without-pip", directory], check=True)
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        directory / "bin/python",
        "install",
        "--quiet",
        "--no-cache-dir",
    ]
    subprocess.run([*install, next(distributions.glob("*.whl")), "pytest"], check=True)
    return directory


@pytest.fixture(scope="module")
def metadata(distributions: Path) -> Message:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())


def run(environment: Path, *command: str | Path) -> str:
    """What a program of the environment prints; a warning, or a word on stderr, is a failure."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(environment),
        "PYTHONWARNINGS": "error",
        "PYTHONUTF8": "1",
    }
    program = environment / "bin" / command[0]
    done = subprocess.run(
        [program, *command[1:]], env=variables, cwd=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_metadata_are_valid_for_pypi(distributions: Path) -> None:
    pytest.importorskip("twine", reason="twine is not installed")
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *distributions.iterdir()]
    checked = subprocess.run(command, capture_output=True, text=True)
    # after a colon, or on a line of its own
    assert checked.stdout.count("PASSED") == 2, checked.stdout + checked.stderr


def test_the_description_has_no_links_that_are_dead_on_pypi(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "from toolglot import Agent, tool" in text
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_only_extras_for_users_are_published(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "acp", "all", "ast", "azure", "code", "copilot", "keyring", "mcp", "otel", "vertex", "web",
    }  # fmt: skip
    assert not [url for url in metadata.get_all("Project-URL", []) if "pypi.org" in url]


def test_the_wheel_has_the_package_and_nothing_else(distributions: Path) -> None:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "toolglot"
    kinds = (".py", ".pyi", ".typed", ".js")
    expected = {
        path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.suffix in kinds
    }
    assert files == expected


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares with git, and this is not a checkout")
def test_the_source_distribution_has_the_repository_and_nothing_else(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = set(
        subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    )
    assert files - {"PKG-INFO"} == {name for name in tracked if not name.startswith(".ci/")}


def test_the_source_distribution_builds_the_same_wheel(distributions: Path, tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
    ]
    subprocess.run([*build, *distributions.glob("*.tar.gz")], check=True)
    [wheel], [again] = distributions.glob("*.whl"), tmp_path.glob("*.whl")
    assert wheel.read_bytes() == again.read_bytes()


def test_the_command_says_its_version(environment: Path) -> None:
    version = f"toolglot {toolglot.__version__}\n"
    assert run(environment, "toolglot", "--version") == version
    assert run(environment, "python", "-m", "toolglot", "--version") == version


def test_the_first_example_of_the_readme_runs_as_pasted(environment: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    promised = re.findall(r"^print\(.*\)  # (.*)$", example, re.MULTILINE)
    assert run(environment, "python", "-c", example).splitlines() == promised


def test_the_demo_runs(environment: Path) -> None:
    assert "gemini → anthropic" in run(environment, "toolglot", "demo")


def test_every_public_name_can_be_imported(environment: Path) -> None:
    assert run(environment, "python", "-c", "from toolglot import *; print(Agent.__name__)") == "Agent\n"


def test_import_loads_nothing_else(environment: Path) -> None:
    code = (
        "import sys, toolglot; print({name.partition('.')[0] for name in sys.modules} - "
        "sys.stdlib_module_names - {'__main__'})"
    )
    assert run(environment, "python", "-I", "-c", code) == "{'toolglot'}\n"


def test_the_plugin_for_pytest_is_found(environment: Path, provider: str, tmp_path: Path) -> None:
    Project(tmp_path, environment / "bin/python").check_record_and_replay(provider)


@pytest.mark.parametrize(
    "version", PYTHONS or [pytest.param("", marks=pytest.mark.skip(reason="run make test-wheel"), id="none")]
)
def test_all_extras_can_be_installed(version: str, distributions: Path, tmp_path: Path) -> None:
    subprocess.run([PYTHONS[version], "-m", "venv", "--without-pip", tmp_path], check=True)
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        tmp_path / "bin/python",
        "install",
        "--dry-run",
        "--quiet",
    ]
    install += ["--only-binary", ":all:"]  # nobody has to compile
    subprocess.run([*install, f"{next(distributions.glob('*.whl'))}[all]"], check=True)
