"""What commands see of the home directory."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.builtin.shell.shell_kit import Kit, unavailable_reason

from toolglot.confine.home import (
    CHECKED_IN_HOME,
    VISIBLE_IN_HOME,
    _find_root_only,  # pyright: ignore[reportPrivateUsage]
    find_hidden_paths,
    find_visible_paths,
    private_settings,
    write_git_config,
)
from toolglot.confine.roots import Root
from toolglot.confine.sandbox import SandboxLevel

LEVELS = (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK)


def put(path: Path, text: str = "x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "home"
    (directory / "project").mkdir(parents=True)
    for name in ("CARGO_HOME", "GOPATH", "VIRTUAL_ENV", "XDG_CONFIG_HOME", "KUBECONFIG", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return directory


def view(*roots: Path, extra: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    hidden = find_hidden_paths([Root(root) for root in roots])
    return hidden, find_visible_paths([Root(root) for root in roots], hidden, extra)


@pytest.mark.skipif(os.name != "posix", reason="there is no user database")
def test_home_of_the_user_database_is_hidden_too(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import pwd

    (tmp_path / "real/.cargo/bin").mkdir(parents=True)
    entry = pwd.struct_passwd(("x", "x", os.geteuid(), os.getegid(), "", str(tmp_path / "real"), "/bin/sh"))

    def entry_of(uid: int) -> pwd.struct_passwd:
        return entry

    monkeypatch.setattr(pwd, "getpwuid", entry_of)
    hidden, visible = view(home / "project")
    assert {str(home), str(tmp_path / "real")} <= set(hidden)
    assert str(tmp_path / "real/.cargo/bin") in visible


def test_credentials_that_a_variable_names_are_hidden(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", put(tmp_path / "kube.yml"))
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.dirname(put(tmp_path / "config/x")))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    secret = put(tmp_path / "cargo/credentials.toml")
    assert {str(tmp_path / "kube.yml"), str(tmp_path / "config"), secret} <= set(view(home / "project")[0])


def test_programs_of_the_user_are_visible(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (".special/bin", ".rust/bin", ".rust/registry", ".rust/secret", "env/bin"):
        (home / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (home / ".nvm").symlink_to(tmp_path / "elsewhere")
    (home / ".pyenv").symlink_to(home)  # would show everything
    monkeypatch.setenv("PATH", f"{home}/.special/bin:{home}:{tmp_path}:relative:/usr/bin")
    monkeypatch.setenv("CARGO_HOME", str(home / ".rust"))
    monkeypatch.setenv("VIRTUAL_ENV", str(home / "env"))
    visible = view(home / "project", extra=("~/shown", put(home / "said")))[1]
    names = {os.path.relpath(path, home) for path in visible}
    assert names >= {".special/bin", ".rust/bin", ".rust/registry", "env", ".nvm", "said"}
    assert not names & {".", ".pyenv", ".rust/secret", ".rust", "shown"}


def test_a_link_of_the_workspace_shows_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / ".ssh/id")
    (home / "project/.venv").mkdir()
    (home / "project/.venv/bin").symlink_to(home / ".ssh")
    (home / "other").symlink_to(home / "project")
    monkeypatch.setenv("PATH", f"{home}/project/.venv/bin:{home}/other/.venv/bin")
    monkeypatch.setenv("VIRTUAL_ENV", f"{home}/other/.venv/bin")
    for root in (home / "project", home):
        assert not any(str(home) in path for path in view(root)[1])


def test_of_a_workspace_at_the_home_directory_dot_files_are_hidden(home: Path) -> None:
    put(home / ".ssh/id")
    put(home / ".cargo/bin/x")
    put(home / "go/pkg/x")
    hidden, visible = view(home)
    assert {str(home / ".ssh"), str(home / ".cargo")} <= set(hidden)
    assert not {str(home), str(home / "go")} & set(hidden)
    assert [path for path in visible if path.startswith(str(home))] == [str(home / ".cargo/bin")]


@pytest.mark.parametrize("name", CHECKED_IN_HOME)
def test_settings_are_visible_without_credentials(home: Path, name: str) -> None:
    put(home / name, "[build]\njobs = 2\n[net]\noffline = true\n")
    assert str(home / name) in view(home / "project")[1]
    for secret in (
        '[registry]\ntoken = "abcdef123"\n',
        'proxy = "https://me:secret123@host"\n',
        "x" * 100_000,
    ):
        put(home / name, secret)
        assert str(home / name) not in view(home / "project")[1]


def test_every_visible_path_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs/tools.md").read_text(encoding="utf-8")
    assert [
        name
        for names in (*VISIBLE_IN_HOME.values(), CHECKED_IN_HOME)
        for name in names
        if f"`{name}`" not in text
    ] == []


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_git_settings_come_without_credentials(home: Path, tmp_path: Path) -> None:
    put(home / "work.inc", "[user]\n email = work@example.org\n")
    config = '[user]\n name = "A \\"B\\" \\\\ C"\n email = me@example.org\n signingkey = ABC\n'
    config += "[github]\n token = ghp_abcdefghijkl12345\n"
    config += (
        '[http]\n extraheader = "Authorization: Basic abc"\n[credential]\n helper = store\n[commit]\n '
        "gpgsign = true\n"
    )
    config += (
        '[url "https://me:pass@host/"]\n insteadOf = https://host/\n[filter "lfs"]\n clean = git-lfs '
        "clean -- %f\n"
    )
    put(home / ".gitconfig", f'{config}[includeIf "gitdir:{home}/project/"]\n path = ~/work.inc\n')
    subprocess.run(["git", "init", "-q", str(home / "project")], check=True)
    keys = (
        "core.fsmonitor",
        "core.pager",
        "pager.config",
        "core.editor",
        "core.hooksPath",
        "credential.helper",
        "alias.config",
    )
    for key in keys:  # the settings of the repository are not obeyed
        subprocess.run(
            ["git", "-C", str(home / "project"), "config", key, f"!touch {tmp_path}/evil #"], check=True
        )
    write_git_config(tmp_path, [Root(home / "project")])
    listing = subprocess.check_output(
        ["git", "config", "--file", str(tmp_path / ".gitconfig"), "--list"], text=True
    )
    assert listing.splitlines() == [
        'user.name=A "B" \\ C',
        "user.email=me@example.org",
        "filter.lfs.clean=git-lfs clean -- %f",
        "user.email=work@example.org",
    ]
    assert not (tmp_path / "evil").exists()
    assert "GIT_CONFIG_GLOBAL" in private_settings("/tmp", ())
    assert "GIT_CONFIG_GLOBAL" not in private_settings("/tmp", ("~/.gitconfig",))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hides what is root's")
def test_a_file_that_vanishes_does_not_show_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.stat_result((stat.S_IFREG | 0o600, *[0] * 9))

    class Entry(SimpleNamespace):
        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            assert not follow_symlinks
            if self.path == "/etc/gone":
                raise FileNotFoundError
            return status

    def scan(path: str) -> nullcontext[list[Entry]]:
        return nullcontext([Entry(path=f"{path}/gone"), Entry(path=f"{path}/secret")])

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "scandir", scan)
    assert "/etc/secret" in _find_root_only.__wrapped__()


@pytest.fixture(params=LEVELS, ids=lambda level: level.name)
def kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    """A workspace in the home directory, in a place that the sandbox does not hide anyway."""
    if reason := unavailable_reason(request.param):
        pytest.skip(reason)
    top = next(path for path in ("/srv", "/opt", os.path.expanduser("~")) if os.access(path, os.W_OK))
    base = Path(tempfile.mkdtemp(prefix="toolglot-home-", dir=top))
    monkeypatch.setenv("HOME", str(base))
    kit = Kit(base, request.param)
    yield kit
    kit.close()
    shutil.rmtree(base)


async def test_the_workspace_in_the_home_directory_is_all_that_is_there(kit: Kit) -> None:
    home = kit.work.parent
    put(home / "letter")
    put(home / ".rustup/settings.toml", "visible")
    put(home / ".gitconfig", "[user]\n name = Me\n email = me@example.org\n")
    result = await kit.shell(
        command="cat ~/letter; cat ~/.rustup/settings.toml; echo new > file; git config user.name"
    )
    assert "visibleMe" in result["output"]
    assert "x" not in result["output"].split()
    assert (kit.work / "file").read_text() == "new\n"
    for name, is_noted in (("~/letter", True), ("~/work/nothing", False), ("~/.rustup/settings.toml", False)):
        text = await kit.text(command=f"cat {name}; exit 1")
        assert ("the sandbox hides most of the home directory" in text) is is_noted
    result = await kit.shell(
        command="echo x > ~/lost; echo x > ~/.rustup/lost; mkdir ~/.lost; rm ~/.rustup/settings.toml"
    )
    assert result["exit_code"] != 0
    assert sorted(path.name for path in home.iterdir()) == [
        ".gitconfig",
        ".rustup",
        "letter",
        "other",
        "state",
        "work",
    ]
    assert [path.name for path in (home / ".rustup").iterdir()] == ["settings.toml"]
