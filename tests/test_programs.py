"""Programs that we start: never one that a tool could have written, whatever PATH says."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.builtin.user_kit import USERS, become, find_python, user_id

import toolglot
from toolglot.builtin.files.roots import Root
from toolglot.programs import find_package, find_program, find_programs, is_outside, safe_search_path

HERE = Path(__file__).parent
# What our tools, or the programs that they start, would start by name.
NAMES = (
    *("google-chrome", "google-chrome-stable", "chromium", "chrome", "bwrap", "rg", "git", "grep", "bash", "sh", "setsid"),
    *("python3", "python", "node", "dirname", "uname", "which", "readlink", "id", "cat", "mkdir", "rm", "ps", "kill", "env"),
    *("ldd", "ldconfig", "dpkg", "lsb_release", "xdg-settings", "xdg-open", "dbus-launch", "gdb", "sed", "awk", "ls", "ip"),
)


class Project:
    """A workspace of some user, with a directory of programs in PATH: each of them leaves a trace outside."""

    def __init__(self, base: Path, user: int) -> None:
        self.base, self.user, self.root, self.programs = base, user, base / "work", base / "work/.venv/bin"
        self.packages: Path | None = None
        for directory in (self.programs, base / "home", base / "state"):
            directory.mkdir(parents=True)

    def plant(self, name: str) -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho {name} >> {self.base}/escaped\nPATH=/usr/bin:/bin exec {name} "$@"\n')
        path.chmod(0o755)

    def install(self) -> None:
        """Make the directory of programs a virtual environment with toolglot in it, as users of the library have."""
        shutil.rmtree(self.programs.parent)
        subprocess.run([find_python(self.user)[0], "-m", "venv", "--without-pip", str(self.programs.parent)], check=True)
        self.packages = next((self.programs.parent / "lib").glob("python*/site-packages"))
        source = Path(toolglot.__file__).parent
        shutil.copytree(source, self.packages / "toolglot")
        others = [path for path in sys.path if path.endswith("-packages")]
        (self.packages / "others.pth").write_text("\n".join(others))

    def call(self, *calls: tuple[str, dict[str, Any]], **plan: Any) -> list[str]:
        if os.getuid() == 0:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)
        python, variables = find_python(self.user)
        if self.packages is not None:
            python, variables = str(self.programs / "python"), {"PYTHONDONTWRITEBYTECODE": "1"}
        plan |= {"root": str(self.root), "state": str(self.base / "state"), "calls": calls}
        process = subprocess.run(
            [python, str(HERE / "programs_runner.py"), json.dumps(plan)],
            env={**variables, "PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.base / "home")},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **become(self.user),
        )
        assert process.returncode == 0, process.stderr
        report = json.loads(process.stdout)
        if "skip" in report:
            pytest.skip(report["skip"])
        assert self.packages is None or report["package"].startswith(str(self.packages))
        return report["texts"]

    def list_escaped(self) -> list[str]:
        trace = self.base / "escaped"
        return sorted(set(trace.read_text().split())) if trace.exists() else []


@pytest.fixture(params=USERS)
def project(request: pytest.FixtureRequest) -> Iterator[Project]:
    user = user_id(request.param)
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="toolglot-programs-")))
    base.chmod(0o755)
    yield Project(base, user)
    shutil.rmtree(base)


def test_no_program_of_the_workspace_is_started(project: Project) -> None:
    for name in NAMES:
        project.plant(name)
    (project.root / "a.py").write_text("print('dog')\n")
    texts = project.call(
        ("grep", {"pattern": "dog"}),
        ("grep", {"pattern": "dog", "exclude_line_regex": "cat"}),  # by our own Python
        ("ast_search", {"pattern": "print($A)"}),
        ("shell", {"argv": ["/bin/echo", "in the sandbox"]}),
        ("shell", {"argv": ["/bin/echo", "on a terminal"], "tty": True}),
        ("web_open", {"target": "http://127.0.0.1:1234/"}),  # refused, once the browser has started
        hosts=["127.0.0.1:1234"],
    )
    broken = project.call(("web_open", {"target": "http://127.0.0.1:1234/"}), hosts=["127.0.0.1:1234"], browser="/bin/false")
    assert "could not be reached" in broken[0]
    assert [text for text in texts[:2] if "a.py" not in text] == []
    assert "print" in texts[2]
    assert "in the sandbox" in texts[3]
    assert "could not be reached" in texts[5]
    assert project.list_escaped() == []


ATTEMPTS = """
attempt() { "$@" 2>/dev/null && echo "DONE: $*"; }
attempt rm -f .venv/bin/python
attempt ln -sfn "$PWD/evil" .venv/bin/python
attempt sh -c 'echo "home = $PWD" > .venv/pyvenv.cfg'
attempt mv .venv .venv2
attempt mv .venv/lib .venv/lib2
attempt mv -T evil.d .venv/bin
attempt sh -c 'cp evil "$0"/sitecustomize.py' "$1"
attempt sh -c 'cp evil "$0"/toolglot/new.py' "$1"
attempt sh -c 'cat evil >> "$0"/toolglot/builtin/shell/supervisor.py' "$1"
attempt sh -c 'truncate -s 0 "$0"/others.pth' "$1"
attempt chmod -R a+w .venv/bin
attempt touch .venv/new
.venv/bin/python -c 'import toolglot; print("still", toolglot.__name__)'
echo finished > evil.d/written
"""


def read_tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    paths = [path for path in directory.rglob("*") if (path.is_symlink() or path.is_file()) and path.suffix != ".pyc"]
    return {str(path): (path.lstat().st_mode, b"" if path.is_symlink() else path.read_bytes()) for path in paths}


@pytest.mark.parametrize("level", [2, 1], ids=["bubblewrap", "landlock"])
def test_our_own_python_in_a_workspace_is_read_only(project: Project, level: int) -> None:
    """With toolglot in the project's own environment, what replaces it would run outside the sandbox."""
    project.install()
    root, packages = project.root, project.packages
    assert packages is not None
    (root / "evil.d").mkdir()
    (root / "evil").write_text(f"#!/bin/sh\necho evil >> {project.base}/escaped\n")
    (root / "evil").chmod(0o755)
    (root / "a.py").write_text("print('dog')\n")
    (root / "alias").symlink_to(".venv")
    before = read_tree(root / ".venv")
    relative = packages.relative_to(root)
    paths = (
        ".venv/bin/python",
        ".venv/pyvenv.cfg",
        "alias/pyvenv.cfg",
        f"{relative}/toolglot/new.py",
        f"{relative}/usercustomize.py",
    )
    moved = f"*** Begin Patch\n*** Update File: a.py\n*** Move to: {relative}/a.py\n@@\n-print('dog')\n+evil\n*** End Patch"
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("write", {"path": path, "content": "evil"}) for path in paths),
        ("patch", {"text": moved}),
        ("patch", {"text": f"*** Begin Patch\n*** Delete File: {relative}/others.pth\n*** End Patch"}),
    ]
    command = ("shell", {"argv": ["/bin/sh", "-c", ATTEMPTS, "sh", str(packages)]})
    texts = project.call(*calls, command, ("ast_search", {"pattern": "print($A)"}), level=level)
    assert [text for text in texts[: len(calls)] if not text.startswith("error: ")] == []
    shell, search = texts[len(calls) :]
    assert "DONE" not in shell
    assert "still toolglot" in shell
    assert "a.py:1:1" in search
    assert (root / "evil.d/written").read_text() == "finished\n"
    assert read_tree(root / ".venv") == before
    assert project.list_escaped() == []


def test_optional_packages_come_from_outside_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the workspace has its directory first in sys.path: a tool could write a module there that we start."""
    for name in ("ast_grep_py", "playwright"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "__init__.py").write_text("raise SystemExit")
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "link").symlink_to("work")
    (tmp_path / "work/out").symlink_to(tmp_path / "other")
    (tmp_path / "other/beside").mkdir(parents=True)
    (tmp_path / "other/beside/__init__.py").touch()
    packages, roots, other = sys.path, [Root(tmp_path / "work", writable=True)], str(tmp_path / "other")
    names = ("ast_grep_py", "playwright", "beside", "no_such_package")
    for place, expected in (("work", ""), ("link", ""), ("work/out", ""), ("other", other)):
        monkeypatch.setattr(sys, "path", [str(tmp_path / place)])
        assert [find_package(name, roots) for name in names] == ["", "", expected, ""]
    monkeypatch.setattr(sys, "path", packages)
    assert find_package("msgspec", [Root(Path("/"), writable=True)]) == str(Path(msgspec.__file__).parents[1])


def test_links_through_the_workspace_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, good = tmp_path / "work", tmp_path / "good"
    for directory in (root / "bin", good, tmp_path / "links"):
        directory.mkdir(parents=True)
    for path in (root / "bin/tool", good / "tool"):
        path.write_text("")
        path.chmod(0o755)
    (root / "way").symlink_to(good)  # leads to the good program, until a command changes it
    links = {"to-inside": root / "bin", "through": root / "way", "relative": "../work/bin", "loop": "loop"}
    for name, target in links.items():
        (tmp_path / "links" / name).symlink_to(target)
    (tmp_path / "links/tool").symlink_to(root / "bin/tool")
    monkeypatch.chdir(root)
    inside = [root / "bin", root / "way", *(tmp_path / "links" / name for name in links), tmp_path / "links", "bin", ".", ""]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (*inside, good))))
    assert list(find_programs("tool", [Root(root)])) == [str(good / "tool")]
    assert safe_search_path([Root(root)]) == os.pathsep.join(map(str, (tmp_path / "links", good)))
    assert find_program("tool", [Root(root, writable=False)]) == str(root / "bin/tool")  # nobody can write there
    assert find_program("tool", [Root(Path("/"))]) == ""
    assert not is_outside(str(tmp_path / "links/loop"), [Root(root)])
