"""What lies inside the workspace but is not the model's: the home directory's settings and toolglot's own
files.
"""

import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from play import LEVELS, USERS, give_to, play, visible_directory

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.errors import ToolError

SETTINGS = [
    *(
        ".config/toolglot/config.toml",
        ".local/share/toolglot/trust.json",
        ".local/state/toolglot/backups/x.journal",
    ),
    *(
        ".gitconfig",
        ".zlogin",
        ".bash_logout",
        ".bash_aliases",
        ".config/fish/config.fish",
        ".local/bin/ls",
        ".ssh/id",
    ),
    *(
        ".config/autostart/x.desktop",
        ".config/systemd/user/x.service",
        ".docker/config.json",
        ".toolglot.toml",
    ),
]


class World:
    """A home directory with secrets, which is the workspace."""

    def __init__(self, level: str, user: str) -> None:
        self.level, self.user = level, user
        self.base = Path(tempfile.mkdtemp(prefix="toolglot-home-", dir=visible_directory()))
        self.base.chmod(0o755)
        self.home = self.base / "home"
        for name in (".ssh/id", ".docker/config.json", "docs/text", "my config/x"):
            (self.home / name).parent.mkdir(parents=True)
            (self.home / name).write_text("SECRET\n" if name.startswith(".") else "text\n")

    def plan(
        self, calls: list[list[Any]], root: str = "home", *, hidden: str = "", **environ: str
    ) -> dict[str, Any]:
        environ = {"HOME": str(self.home), "TMPDIR": str(self.base), **environ}
        hidden_paths = [str(self.base / hidden)] if hidden else []
        level, path = LEVELS[self.level], str(self.base / root)
        return {"environ": environ, "root": path, "level": level, "calls": calls, "hidden": hidden_paths}

    def files(self) -> dict[str, str]:
        """What is in the home directory, except toolglot's own new files."""
        paths = [path for path in self.home.rglob("*") if path.is_file()]
        names = {str(path.relative_to(self.home)): path.read_text() for path in paths}
        return {
            name: text
            for name, text in names.items()
            if not name.startswith(".local/state/toolglot/") or "x." in name
        }


@pytest.fixture(params=[(level, user) for level in LEVELS for user in USERS], ids="-".join)
def world(request: pytest.FixtureRequest) -> Generator[World]:
    world = World(*request.param)
    yield world
    shutil.rmtree(world.base)


OWN = ["cfg/my.toml", "data/toolglot/trust.json", "state/toolglot/audit.jsonl", "secrets/key"]


def plan_for_home(world: World) -> dict[str, Any]:
    commands = [f"mkdir -p '{Path(name).parent}'; echo evil > '{name}'" for name in SETTINGS]
    commands += ["mv .docker d2", "mv .config c2", "mv .local l2", "ln -s /etc .config", "rm -r .ssh"]
    return world.plan([
        ["shell", {"command": "\n".join(commands)}],
        ["shell", {"command": "cat .d2/* d2/* .ssh/id"}],
        ["shell", {"command": "echo new > docs/new; cat docs/text"}],
        ["grep", {"pattern": "SECR"}],
        *(["write", {"path": name, "content": "evil"}] for name in SETTINGS),
        *(["read", {"path": name}] for name in (".ssh/id", ".docker/config.json", ".SSH/id")),
    ])  # fmt: skip


def plan_for_project(world: World, project: Path) -> dict[str, Any]:
    create = "; ".join(f"mkdir -p {Path(name).parent}; echo evil > {name}" for name in OWN)
    move = "; ".join(f"mv {name} old-{name}" for name in ("cfg", "data", "state", "secrets"))
    places = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "TOOLGLOT_CONFIG": "cfg/my.toml"}
    return world.plan(
        [
            ["shell", {"command": f"{create}; {move}; {create}; cat {' '.join(OWN)}; echo new > src/new"}],
            ["shell", {"command": "find . -type f | xargs cat"}],
            *(["write", {"path": name, "content": "evil"}] for name in OWN[:3]),
            *(["read", {"path": name}] for name in OWN[2:3]),
            ["grep", {"pattern": "SECR.", "path": "state"}],
        ],
        "project",
        hidden="project/secrets/key",
        **{variable: str(project / name) for variable, name in places.items()},
    )


def test_own_files_and_settings_are_neither_read_nor_changed(world: World) -> None:
    """In a home directory, and in a project that has some of toolglot's own files in it."""
    project = world.base / "project"
    for name in ("src", "secrets", "state/toolglot"):
        (project / name).mkdir(parents=True)
    (project / "secrets/key").write_text("SECRET\n")
    (project / "state/toolglot/audit.jsonl").write_text("SECRET\n")
    before = world.files()
    give_to(world.user, world.base)
    at_home, in_project = play(world.user, plan_for_home(world), plan_for_project(world, project))

    assert [call["text"] for call in at_home[4:] if not call["failed"]] == []
    assert not any("SECRET" in call["text"] for call in (*at_home, *in_project))
    assert world.files() == {**before, "docs/new": "new\n"}
    # own files are nothing that a command created
    assert not any("protected" in call["text"] for call in at_home[:3])

    assert all(call["failed"] for call in in_project[2:6])
    assert (project / "src/new").read_text() == "new\n"
    assert {path.read_text() for name in OWN if (path := project / name).exists()} <= {"", "SECRET\n"}
    assert not list(project.glob("old-*"))


def test_a_home_directory_in_the_workspace_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/project").mkdir(parents=True)
    for name, is_announced in (("home", True), (".", True), ("home/project", False)):
        tools = builtins(tmp_path / name, options=BuiltinOptions(backups=False))
        tools.close()
        assert any("your home directory" in notice for notice in tools.notices) is is_announced


def test_unprotected_settings_of_the_home_directory_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = Workspace(tmp_path, unprotected=[".vimrc"])
    workspace.write(".vimrc", b"set number\n")
    assert workspace.read(".vimrc", 100)[0] == b"set number\n"
    with pytest.raises(ToolError, match=r"builtin\.unprotected"):
        workspace.write(".exrc", b"evil")
    workspace.close()
