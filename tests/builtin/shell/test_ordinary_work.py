"""Builds, tests and commits of small projects work in the sandbox, with the toolchains of the user."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from play import LEVELS, USERS, give_to, play, visible_directory

FILES = {
    "py/pyproject.toml": """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "example"
version = "1"
[tool.hatch.build]
include = ["example.py"]
dev-mode-dirs = ["."]
""",
    "py/example.py": "WORD = 'it works'\n",
    "py/test_example.py": "from example import WORD\n\ndef test_word():\n    assert WORD == 'it works'\n",
    "js/package.json": '{"name": "example", "version": "1.0.0", "scripts": {"test": "node test.js"}}',
    "js/test.js": "console.log('it works')\n",
    "rs/Cargo.toml": '[package]\nname = "example"\nversion = "1.0.0"\nedition = "2021"\n',
    "rs/src/main.rs": 'fn main() {\n    println!("it works");\n}\n',
    ".gitignore": ".venv\ntarget\n__pycache__\n",
}
PYTHON = "cd py && .venv/bin/python -m"
# Program -> a command that needs it. The last one changes what is below .git, where hooks and settings are
# protected.
COMMANDS = {
    "pip": f"{PYTHON} pip install -q --no-index --no-build-isolation -e . && cd / && "
    "$OLDPWD/.venv/bin/python -m example_check",
    "pytest": f"{PYTHON} pytest -q -p no:cacheprovider && echo it works",
    "npm": "cd js && npm test && npm pack && npm install --offline --no-save ./example-1.0.0.tgz",
    "cargo": "cd rs && cargo build -q && target/debug/example",
    "git": "git add -A && git commit -qm 'it works' && git log --format='%an %ae: %s'",
}


class Workplace:
    """The projects of a user, and the results of all commands."""

    def __init__(self, level: str, user: str) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="toolglot-work-", dir=visible_directory()))
        self.base.chmod(0o755)
        for name, text in FILES.items():
            (self.base / "work" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.base / "work" / name).write_text(text)
        (self.base / "home").mkdir()
        (self.base / "identity").write_text(
            "[user]\n name = Example\n email = me@example.org\n[github]\n token = abc\n"
        )
        subprocess.run(["git", "init", "-q", str(self.base / "work")], check=True)
        # otherwise the user cannot use our programs, only those of the system
        is_own = user == "root" or os.getuid() != 0
        self.path = os.environ["PATH"] if is_own else "/usr/local/bin:/usr/bin:/bin"
        self.python = getattr(sys, "_base_executable", sys.executable) if is_own else "/usr/bin/python3"
        self.uid = USERS[user] if os.getuid() == 0 else os.getuid()
        self.home = os.path.expanduser("~") if is_own else str(self.base / "home")
        packages = str(Path(pytest.__file__).parents[1])
        self.missing = {name: not self.can_run(f"{name} --version") for name in ("npm", "cargo", "git")}
        check = f"import sys; sys.path.insert(0, {packages!r}); import hatchling, pip, pytest"
        # a checkout that commands do not see
        is_private = packages.startswith(("/tmp/", "/var/tmp/", "/run/", "/dev/shm/"))
        self.missing |= dict.fromkeys(
            ("pip", "pytest"), is_private or not self.can_run(f'{self.python} -c "{check}"')
        )
        if not self.missing["pip"]:
            venv = self.base / "work/py/.venv"
            subprocess.run([self.python, "-m", "venv", "--without-pip", str(venv)], check=True)
            [site] = venv.glob("lib/python*/site-packages")
            (site / "packages.pth").write_text(f"{packages}\n")
            (site / "example_check.py").write_text("from example import WORD\nprint(WORD)\n")
        give_to(user, self.base)
        environ = {
            "PATH": self.path,
            "HOME": self.home,
            "TMPDIR": str(self.base),
            "TOOLGLOT_STATE": str(self.base / "state"),
            "GIT_CONFIG_GLOBAL": str(self.base / "identity"),
        }
        root, variables = str(self.base / "work"), {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        calls = [["shell", {"command": line, "cwd": root, "env": variables}] for line in COMMANDS.values()]
        [report] = play(user, {"environ": environ, "root": root, "level": LEVELS[level], "calls": calls})
        self.texts = {name: call["text"] for name, call in zip(COMMANDS, report, strict=True)}

    def can_run(self, command: str) -> bool:
        user = self.uid if os.getuid() == 0 else None
        environ = {"PATH": self.path, "HOME": self.home}
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=environ, cwd="/", user=user, capture_output=True, check=False
        )
        return done.returncode == 0


# Both levels and both users; the other two pairs take as long again.
@pytest.fixture(
    scope="module",
    params=[
        "bwrap-root",
        "landlock-user",
        pytest.param("bwrap-user", marks=pytest.mark.slow),
        pytest.param("landlock-root", marks=pytest.mark.slow),
    ],
)
def workplace(request: pytest.FixtureRequest) -> Generator[Workplace]:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    workplace = Workplace(*request.param.split("-"))
    yield workplace
    shutil.rmtree(workplace.base)


@pytest.mark.parametrize("name", COMMANDS)
def test_ordinary_work_is_possible(workplace: Workplace, name: str) -> None:
    if workplace.missing[name]:
        pytest.skip(f"{name}, or what the example needs, is not installed for this user")
    assert "it works" in workplace.texts[name]
    assert "exit code" not in workplace.texts[name]
    if name == "git":
        assert "Example me@example.org: it works" in workplace.texts[name]
