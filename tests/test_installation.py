"""What `pip install toolglot` brings, what its extras are called, and what a program without built-in tools
loads.
"""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
MAX_PACKAGES = 25

WITHOUT_BUILTINS = """
import sys
from toolglot import Agent, from_config, tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

for model in ("simulator:anthropic", "simulator:openai/gpt-5.1", "simulator:gemini"):
    result = Agent(model, tools=[add]).run_sync('call add {"a": 1, "b": 2}')
    assert result.outcomes[0].result.text == "3"
from_config("simulator", tools=[add], flags={"audit": False, "policy.deny": ["shell"]}).run_sync("hi")
print(*sorted(name for name in sys.modules if name.startswith("toolglot.") or name.partition(".")[0] in ("click", "rich")))
"""


def closure(requirements: list[str]) -> set[str]:
    """All packages that an install of these requirements brings on this platform."""
    packages: set[str] = set()
    pending = list(requirements)
    while pending:
        requirement = Requirement(pending.pop())
        name = requirement.name.lower().replace("_", "-")
        if name not in packages and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            packages.add(name)
            pending += requires(name) or []
    return packages


def test_the_core_install_is_small() -> None:
    packages = {"toolglot", *closure(PROJECT["dependencies"])}
    assert len(packages) <= MAX_PACKAGES, sorted(packages)


def test_the_demo_needs_only_the_run_time_install(tmp_path: Path) -> None:
    plan = ["make", "--no-print-directory", "--dry-run", "demo", f"VENV={tmp_path}"]
    commands = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"--editable (.*)", commands) == ["."]
    assert commands.endswith("/toolglot demo\n")


def test_the_readme_says_what_pip_installs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\npip install . " in readme
    assert f"Python 3.11 or newer, {MAX_PACKAGES} packages at most" in readme
    rows = {
        name
        for row in re.findall(r"^\| (`.*`) \| ", readme.partition("## A first agent")[0], re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert rows == set(EXTRAS)


def test_the_metadata_name_platforms_and_no_false_address() -> None:
    platforms = {
        classifier.split(" :: ")[-1]
        for classifier in PROJECT["classifiers"]
        if classifier.startswith("Operating")
    }
    assert platforms == {"Linux", "MacOS", "Windows"}
    urls = PROJECT.get("urls", {})  # none until there is a public repository
    assert not [url for url in urls.values() if "pypi.org" in url], "the page that shows these addresses"


def test_type_information_is_shipped() -> None:
    assert (ROOT / "src" / "toolglot" / "py.typed").is_file()


def test_every_extra_that_a_message_names_exists() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = {extra for text in sources for extra in re.findall(r"toolglot\[([a-z]+)\]", text)}
    assert named <= set(EXTRAS)
    assert set(EXTRAS) - named - {"all"} == set(), "an extra that no message names"


def test_a_program_without_builtin_tools_loads_no_tables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BUILTINS], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    tables = {
        path.stem
        for path in (ROOT / "src/toolglot/facades").glob("*.py")
        if "TABLES" in path.read_text("utf-8")
    }
    unwanted = ("toolglot.builtin", "toolglot.cli", "toolglot.engine.signin.copilot", "click", "rich")
    assert "toolglot.facades.catalog" in loaded
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert [
        name for name in loaded if name in {f"toolglot.facades.{table}" for table in tables - {"catalog"}}
    ] == []


def test_every_pin_is_of_a_package_that_is_installed() -> None:
    lists = (PROJECT["dependencies"], *EXTRAS.values(), *PYPROJECT["dependency-groups"].values())
    requirements = [
        text
        for texts in lists
        for text in texts
        if isinstance(text, str) and not text.startswith("toolglot[")
    ]
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    pinned = {name.lower().replace("_", "-").replace(".", "-") for name in pins}
    direct = {Requirement(text).name.lower().replace("_", "-") for text in requirements}
    assert direct <= pinned
    assert not {"typer", "pyreqwest"} & pinned
