"""Names that other programs obey, anywhere in the workspace: in it, in what a command creates, and while it
runs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from play import LEVELS, USERS, give_to, play, visible_directory

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell.git_directories import is_harmless
from toolglot.builtin.shell.name_guard import NameGuard
from toolglot.builtin.shell.protected_paths import ProtectedScanner, revert_changes, take_snapshot
from toolglot.builtin.shell.session import ShellSession
from toolglot.confine.private_dirs import prune_directory
from toolglot.confine.sandbox import SandboxLevel

EVIL = "[core]\n\tfsmonitor = touch CANARY\n"
# What a command may do to names that other programs obey: none of it may last.
ATTACKS = [
    "evil >> vendor/lib/.git/config",
    "evil > vendor/lib/.git/hooks/post-checkout",
    "evil > vendor/lib/.git/commondir",
    "evil >> .git/modules/part/config",
    "evil > .git/hooks/pre-commit",
    "evil >> .git/config",
    "mkdir -p sub/.git/hooks; evil > sub/.git/config",
    "mkdir sub/deep/.vscode; evil > sub/deep/.vscode/tasks.json",
    "evil > sub/.envrc",
    "evil >> mirror/config",
    "evil > mirror/hooks/update",
    "mkdir -p sub/bare/objects sub/bare/refs; echo ref: refs/heads/x > sub/bare/HEAD; evil > sub/bare/config",
    "mkdir -p open/a; evil > open/a/.envrc; chmod 111 open/a; chmod 555 open",
    "mkdir -p closed/.idea; evil > closed/.idea/x; chmod 555 closed/.idea closed",
    "evil >> pkg/.idea/workspace.xml",
    "mv .git .git2; mkdir .git; evil > .git/config",
    "ln -s /etc sub/.claude",
    "mkdir $'a\\xff\\n[approved] \\e[31m'; evil > $'a\\xff\\n[approved] \\e[31m/.envrc'",
    "mv deps moved; mkdir -p deps/one/.git deps/two; evil > deps/one/.git/config; evil > deps/two/.envrc",
    "git init -q sub/a; evil >> sub/a/.git/config",
    "git init -q sub/b; evil > sub/b/.git/hooks/post-checkout",
    "mkdir -p many/{1..9}/{1..9}; mkdir -p many/9/9/x/.hg; evil > many/9/9/x/.hg/hgrc",
]


class World:
    """A repository with others in it, and ordinary directories."""

    def __init__(self, level: str, user: str) -> None:
        self.level, self.user = level, user
        self.base = Path(tempfile.mkdtemp(prefix="toolglot-names-", dir=visible_directory()))
        self.base.chmod(0o755)
        self.work = self.base / "work"
        for name in (".git", ".git/modules/part", "vendor/lib/.git", "mirror", "deps/one/.git"):
            for part in ("hooks", "objects", "refs"):
                (self.work / name / part).mkdir(parents=True)
            (self.work / name / "HEAD").write_text("ref: refs/heads/main\n")
            (self.work / name / "config").write_text("[core]\n")
        for name in ("sub/deep", "pkg/.idea", "old/dist/.vscode", "deps/two/.envrc"):
            (self.work / name).mkdir(parents=True)
            (self.work / name / "workspace.xml").write_text("as it was\n")

    def evil(self) -> list[str]:
        """Files with evil content, wherever they are in the workspace, also where nobody may look."""
        if os.getuid() != 0:
            subprocess.run(["chmod", "-R", "u+rwx", str(self.work)], check=True)
        output = subprocess.run(
            ["grep", "-rl", "CANARY", str(self.work)], capture_output=True, text=True, check=False
        ).stdout
        return [str(Path(name).relative_to(self.work)) for name in output.splitlines()]


@pytest.fixture(params=[(level, user) for level in LEVELS for user in USERS], ids="-".join)
def world(request: pytest.FixtureRequest) -> Generator[World]:
    world = World(*request.param)
    yield world
    subprocess.run(["chmod", "-R", "u+rwx", str(world.base)], check=True)
    shutil.rmtree(world.base)


def test_nothing_that_other_programs_obey_is_left(world: World) -> None:
    """By a command, and by one in the background while it runs."""
    evil = f"evil() {{ printf '%s' '{EVIL}'; }}"
    script = "\n".join([evil, *(f"({attack})" for attack in ATTACKS)])
    ordinary = (
        "mv vendor ext; mkdir new; echo x > new/file; rm -r old; ls -A ext/lib; cat pkg/.idea/*; "
        "touch .git/index"
    )
    acts = [
        "evil >> .git/config",
        "evil > .envrc",
        "mkdir sub/.vscode",
        "evil > sub/.vscode/tasks.json",
        "echo > sub/made",
    ]
    wait = "until [ -e sub/made ]; do sleep .05; done"
    look = "for i in $(seq 200); do [ -e .envrc -o -e sub/.vscode ] || break; sleep .05; done; ls -A . sub"
    give_to(world.user, world.base)
    plan = {
        "environ": {"HOME": str(world.base), "TMPDIR": str(world.base)},
        "root": str(world.work),
        "level": LEVELS[world.level],
        "calls": [
            ["shell", {"command": script}],
            ["shell", {"command": ordinary}],
            ["shell", {"command": "; ".join([evil, *acts, "sleep 60"]), "background": True}],
            ["shell", {"command": f"{wait}; {look}"}],  # nobody asks for the result of the other one
            ["shell_kill", {"handle": "3"}],
        ],
    }
    first, second, _, look, kill = (call["text"] for call in play(world.user, plan)[0])
    assert "sub/.envrc is protected: it was moved to" in first
    assert "\n[a\ufffd [approved] /.envrc is protected" in first
    assert second.startswith(".git\nas it was")  # it did all of its work
    assert "protected" not in second
    assert not (world.work / "old").exists()
    listing = look.partition("\n[")[0]
    assert ".envrc" not in listing
    assert ".vscode" not in listing
    assert "sub/.vscode is protected: it was moved to" in look + kill  # with whichever result came next
    assert world.evil() == []
    assert {str(path.relative_to(world.work)) for path in world.work.rglob("config")} == {
        *(
            ".git/config",
            ".git/modules/part/config",
            "ext/lib/.git/config",
            "mirror/config",
            "moved/one/.git/config",
        )
    }
    assert (world.work / "pkg/.idea/workspace.xml").read_text() == "as it was\n"


HUGE = (
    "truncate -s 2T .envrc; mkfifo .mcp.json; mkdir .idea; echo > .idea/x; echo > .profile; mkdir "
    ".vscode; cd .vscode"
)
DEEP = (
    "python3 -c \"import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(1200)]; open('x', "
    "'w').write('x')\""
)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
@pytest.mark.parametrize("is_same_system", [True, False])
def test_everything_is_moved_away_and_kept(tmp_path: Path, is_same_system: bool) -> None:
    """A hole of 2 TB, too, and a tree that is deeper than recursion goes; in the workspace if need be."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        work, quarantine = (tmp_path / "work" if is_same_system else Path(directory)), tmp_path / "removed"
        work.mkdir(exist_ok=True)
        scanner = ProtectedScanner()
        snapshot = take_snapshot(work, scanner.find_sites(work))
        subprocess.run(["bash", "-c", f"{HUGE}; {DEEP}"], cwd=work, check=True)
        report = revert_changes(scanner, [snapshot], quarantine)
        assert {old.name for old, _ in report.removed} == {
            ".envrc",
            ".mcp.json",
            ".idea",
            ".profile",
            ".vscode",
        }
        assert {new.parent for _, new in report.removed} == {quarantine if is_same_system else work}
        assert {*work.iterdir()} == (set[Path]() if is_same_system else {new for _, new in report.removed})
        assert all(os.path.lexists(new) for _, new in report.removed)
        for emptied in (quarantine, work):
            prune_directory(emptied, max_seconds=-1)
            assert list(emptied.iterdir()) == []


def test_what_was_removed_is_kept_for_a_while(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "large", "small", "new")):
        (tmp_path / name).write_bytes(bytes(2_000_000 if name == "large" else 10))
        modified = 1e9 if name == "old" else time.time() - 10 * 24 * 3600 + number
        os.utime(tmp_path / name, (modified, modified))
    (tmp_path / "large and new").write_bytes(bytes(2_000_000))
    prune_directory(tmp_path, max_bytes=3_000_000)
    assert {path.name for path in tmp_path.iterdir()} == {"small", "new", "large and new"}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
def test_what_stays_in_the_workspace_does_no_harm(tmp_path: Path) -> None:
    """Git obeys a git directory of any name, and there may be others in it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        work, scanner = Path(directory), ProtectedScanner()
        snapshot = take_snapshot(work, scanner.find_sites(work))
        for name in (
            ".git/hooks",
            ".git/objects",
            ".git/refs",
            ".vscode/a/.git/hooks",
            ".vscode/a/.git/b/.vscode",
        ):
            (work / name).mkdir(parents=True)
        for name in (
            ".git/HEAD",
            ".git/config",
            ".vscode/a/.git/config",
            ".vscode/a/.git/b/.vscode/tasks.json",
        ):
            (work / name).write_text(EVIL)
        assert revert_changes(scanner, [snapshot], tmp_path / "removed").is_complete
        assert scanner.find_sites(work).parents == {}
        assert [path.read_text() for path in work.rglob("*") if path.is_file()] == [EVIL] * 4


def test_the_user_is_told_what_was_undone(tmp_path: Path) -> None:
    (tmp_path / "work/.vscode").mkdir(parents=True)
    settings, scanner = tmp_path / "work/.vscode/settings.json", ProtectedScanner()
    settings.write_text("as it was")
    snapshot = take_snapshot(tmp_path / "work", scanner.find_sites(tmp_path / "work"))
    settings.write_text("the user's")
    report = revert_changes(scanner, [snapshot], tmp_path / "removed")
    [(path, kept)] = report.restored
    assert (path, path.read_text()) == (settings, "as it was")
    assert kept is not None
    assert kept.read_text() == "the user's"
    assert report.describe() == [
        f"{path} is protected: it was changed while a command was running, and is as before; the changed "
        f"file is {kept}"
    ]


def test_many_files_are_a_few_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work")
    guard = NameGuard(workspace, tmp_path / "removed")
    plan = guard.plan(workspace.roots, workspace.root, SandboxLevel.BUBBLEWRAP, is_background=False)
    command = SimpleNamespace(handle="1", snapshots=plan.snapshots, is_running=True)
    session = cast(ShellSession, command)
    guard.watch(session)
    for number in range(8):
        (tmp_path / f"work/{number}/.idea").mkdir(parents=True)
        command.is_running = number < 7
        guard.check(session)
    guard.close()
    assert len(guard.take_report(session).removed) == 8
    assert [message for message in caplog.messages if ".idea is protected" not in message] == [
        f"the same happened to 5 more; see {tmp_path / 'removed'}"
    ]
    assert len(caplog.messages) == 4


def test_new_repositories_can_be_used_and_are_protected(world: World) -> None:
    """By the command that makes them, and by the next one, which can commit but not change what git runs."""
    make = (
        "git init -q one && cd one && touch file && git add . && git commit -qm works && cd .. && git "
        "clone -q one two"
    )
    use = "cd two && git pull -q && touch more && git add . && git commit -qm again && git log --format=%s"
    evil = f"printf '%s' '{EVIL}' >> two/.git/config; printf '%s' '{EVIL}' > one/.git/hooks/pre-commit"
    (world.base / "identity").write_text("[user]\n name = Example\n email = me@example.org\n")
    shutil.rmtree(world.work)
    world.work.mkdir()
    give_to(world.user, world.base)
    environ = {
        "HOME": str(world.base),
        "TMPDIR": str(world.base),
        "GIT_CONFIG_GLOBAL": str(world.base / "identity"),
    }
    calls = [["shell", {"command": command, "cwd": str(world.work)}] for command in (make, use, evil)]
    plan = {"environ": environ, "root": str(world.work), "level": LEVELS[world.level], "calls": calls}
    first, second, _ = (call["text"] for call in play(world.user, plan)[0])
    assert "protected" not in first + second
    assert second.startswith("again\nworks")
    assert world.evil() == []
    assert (world.work / "two/.git/config").exists()


@pytest.mark.parametrize(
    "act",
    [
        "git clone -q . copy; mv copy/.git new; rm -rf .git copy; mv new .git",
        "git remote add origin https://example.org/a.git; git config branch.main.remote origin",
        "git remote add origin git@example.org:a/b.git",
        "rm -r .git/hooks .git/info .git/config",
        "touch .git/config.lock .git/index.lock",
    ],
)
def test_harmless_git_directories(tmp_path: Path, act: str) -> None:
    subprocess.run(["bash", "-c", f"git init -q && {act}"], cwd=tmp_path, check=True)
    assert is_harmless(tmp_path, ".git")


@pytest.mark.parametrize(
    "act",
    [
        "cp .git/config a; ln -f a .git/config",
        "cp .git/config a; ln -sf ../a .git/config",
        "rm .git/config; mkfifo .git/config",
        "rm .git/config; mkdir .git/config",
        "cp .git/config .git/CONFIG",
        "mv .git a; ln -s a .git",
        "rm -r .git; echo gitdir: a > .git",
        "mv .git/hooks a; ln -s ../a .git/hooks",
        "mkdir -p .git/hooks/post-commit",
        "mkdir .git/modules",
        "mkdir .git/worktrees",
        "echo > .git/config.worktree",
        "echo > .git/commondir",
        "mkdir -p .git/info; echo > .git/info/attributes",
        "mkdir -p .git/branches; echo > .git/branches/a",
        "mkdir .git/remotes",
        "head -c 70000 /dev/zero | tr '\\0' '\\n' >> .git/config",
    ],
)
def test_other_git_directories(tmp_path: Path, act: str) -> None:
    subprocess.run(["bash", "-c", f"git init -q && {act}"], cwd=tmp_path, check=True)
    assert not is_harmless(tmp_path, ".git")


def has_harmless_config(base: Path, text: str) -> bool:
    (base / ".git").mkdir()
    (base / ".git/config").write_bytes(b"[core]\n\tbare = false\n" + text.encode("latin-1"))
    return is_harmless(base, ".git")


@pytest.mark.parametrize(
    "url", ["https://example.org/a.git", "ssh://git@a:22/b", "git@a:b/c.git", "/srv/a b/c", "../a", "a"]
)
def test_ordinary_settings(tmp_path: Path, url: str) -> None:
    text = f"""[remote "up/a"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/up/a/*
[branch "a/b-1"]\n\tremote = origin\n\tmerge = refs/heads/a/b-1\n[core]\n\tsymlinks = false\n"""
    assert has_harmless_config(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "\thooksPath = a",
            "\tbare = true",
            "\tworktree = ..",
            "\tsshCommand = a",
            "\tbare",
            "\tbare = false \\\n",
            "# a",
            "\xff",
        ),
        *(
            '[remote "-a"]',
            "[include]\n\tpath = a",
            '[filter "a"]',
            "[core] fsmonitor = a",
            "[core.a]",
            '[remote "a\\"b"]',
            "\tbare = false\r",
        ),
        *(
            f'[remote "a"]\n\turl = {url}'
            for url in ("ext::a", "ext://a", "-a", "ssh://-a", "git@-a:b", "a:b", "b; a", '"a"')
        ),
        *(
            f'[remote "a"]\n\t{line}'
            for line in ("uploadpack = a", "vcs = a", "pushurl = a", "fetch = -a:b", "bare = false")
        ),
        *(
            f'[branch "a"]\n\t{line}'
            for line in ("remote = ext::a", "remote = -a", "pushRemote = a", "merge = a")
        ),
    ],
)
def test_other_settings(tmp_path: Path, text: str) -> None:
    assert not has_harmless_config(tmp_path, text)
