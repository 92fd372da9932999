"""Programs that we start: never one that a tool could have written, whatever PATH says."""

import ast
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
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.server_sandbox import ServerSandbox
from toolglot.confine.child_process import library_variables
from toolglot.confine.programs import (
    current_workspace,
    find_package,
    find_program,
    find_programs,
    is_outside,
    is_startable,
    run_program,
    safe_programs,
    safe_search_path,
    start_program,
)
from toolglot.confine.roots import Root
from toolglot.mcp.client.servers import McpServer

HERE = Path(__file__).parent
# What our tools, or the programs that they start, would start by name.
NAMES = (
    *(
        "google-chrome",
        "google-chrome-stable",
        "chromium",
        "chrome",
        "bwrap",
        "rg",
        "git",
        "grep",
        "bash",
        "sh",
        "setsid",
    ),
    *(
        "python3",
        "python",
        "node",
        "dirname",
        "uname",
        "which",
        "readlink",
        "id",
        "cat",
        "mkdir",
        "rm",
        "ps",
        "kill",
        "env",
    ),
    *(
        "ldd",
        "ldconfig",
        "dpkg",
        "lsb_release",
        "xdg-settings",
        "xdg-open",
        "dbus-launch",
        "gdb",
        "sed",
        "awk",
        "ls",
        "ip",
    ),
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
        path.write_text(
            f'#!/bin/sh\necho {name} >> {self.base}/escaped\nPATH=/usr/bin:/bin exec {name} "$@"\n'
        )
        path.chmod(0o755)

    def install(self) -> None:
        """Make the directory of programs a virtual environment with toolglot in it, as users of the library
        have.
        """
        shutil.rmtree(self.programs.parent)
        subprocess.run(
            [find_python(self.user)[0], "-m", "venv", "--without-pip", str(self.programs.parent)], check=True
        )
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
    broken = project.call(
        ("web_open", {"target": "http://127.0.0.1:1234/"}), hosts=["127.0.0.1:1234"], browser="/bin/false"
    )
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
attempt sh -c 'cat evil >> "$0"/toolglot/confine/supervisor.py' "$1"
attempt sh -c 'truncate -s 0 "$0"/others.pth' "$1"
attempt chmod -R a+w .venv/bin
attempt touch .venv/new
.venv/bin/python -c 'import toolglot; print("still", toolglot.__name__)'
echo finished > evil.d/written
"""


def read_tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    paths = [
        path
        for path in directory.rglob("*")
        if (path.is_symlink() or path.is_file()) and path.suffix != ".pyc"
    ]
    return {
        str(path): (path.lstat().st_mode, b"" if path.is_symlink() else path.read_bytes()) for path in paths
    }


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
    moved = (
        "*** Begin Patch\n*** Update File: a.py\n*** Move to: "
        f"{relative}/a.py\n@@\n-print('dog')\n+evil\n*** End Patch"
    )
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


def test_optional_packages_come_from_outside_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the workspace has its directory first in sys.path: a tool could write a module there that
    we start.
    """
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
    for directory, expected in (("work", ""), ("link", ""), ("work/out", ""), ("other", other)):
        monkeypatch.setattr(sys, "path", [str(tmp_path / directory)])
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
    inside = [
        root / "bin",
        root / "way",
        *(tmp_path / "links" / name for name in links),
        tmp_path / "links",
        "bin",
        ".",
        "",
    ]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (*inside, good))))
    assert list(find_programs("tool", [Root(root)])) == [str(good / "tool")]
    assert safe_search_path([Root(root)]) == os.pathsep.join(map(str, (tmp_path / "links", good)))
    # nobody can write there
    assert find_program("tool", [Root(root, writable=False)]) == str(root / "bin/tool")
    assert find_program("tool", [Root(Path("/"))]) == ""
    assert [find_program(name, [Root(root)]) for name in ("bin/tool", "./bin/tool", f"{good}/tool", "")] == [
        ""
    ] * 4
    assert not is_outside(str(tmp_path / "links/loop"), [Root(root)])


# ---- one rule for every program

# What starts a program, in Python's library and in the packages that we use.
STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {
        "system",
        "popen",
        "fork",
        "forkpty",
        "posix_spawn",
        "posix_spawnp",
        "startfile",
        "execve",
        "execv",
        "execvp",
        "execvpe",
    }
    | {
        f"{kind}{end}"
        for kind in ("exec", "spawn")
        for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
    },
    "pty": {"spawn", "fork"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "anyio": {"open_process", "run_process"},
    "shutil": {"which"},
    "webbrowser": {"open", "open_new", "open_new_tab", "get"},
    "click": {"edit", "launch", "echo_via_pager"},
    "multiprocessing": {"Process", "Pool", "get_context"},
}
# These may be imported, or be methods of anything.
STARTER_NAMES = {
    *("ProcessPoolExecutor", "subprocess_exec", "subprocess_shell", "create_windows_process", "find_library"),
    *("async_playwright", "sync_playwright", "enable_open_in_editor", "DefaultAzureCredential"),
}
# Who may, and why nobody else needs to.
ALLOWED = {
    "toolglot.confine.programs": {"subprocess.Popen", "subprocess.run", "shutil.which"},  # the rule
    "toolglot.mcp.client.launch": {"shutil.which"},  # only to say why a program is not started
    # what `prepare_server` has found
    "toolglot.mcp.client.stdio": {"anyio.open_process", "create_windows_process"},
    # a program of its own, which becomes the command
    "toolglot.confine.supervisor": {"os.fork", "os.execve"},
    "toolglot.builtin.web.browser": {"async_playwright"},  # the driver of a package outside the workspace
    "toolglot.engine.signin.entra": {"DefaultAzureCredential"},  # in `safe_programs`
    "toolglot.cli.chat.input": {"enable_open_in_editor"},  # with `open_in_editor` instead of the package's
}


def list_starters(source: str) -> set[str]:
    """Return what a module names that starts programs, whether or not it calls it."""
    tree, starters, modules = ast.parse(source), set[str](), dict[str, str]()
    # `subprocess.Popen[bytes]` is a type.
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names):
                starters |= {
                    f"{module}.{alias.name}"
                    for alias in names
                    if alias.name in STARTERS.get(module or "", ())
                }
                starters |= {alias.name for alias in names if alias.name in STARTER_NAMES}
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if id(node) not in types:
                starters |= (
                    {f"{modules[name]}.{attribute}"}
                    if attribute in STARTERS.get(modules.get(name, ""), ())
                    else set()
                )
                starters |= {attribute} & STARTER_NAMES
            case ast.Attribute(attr=attribute) if attribute in STARTER_NAMES:
                starters.add(attribute)
            case ast.keyword(arg=str(argument)) if argument in STARTER_NAMES:
                starters.add(argument)
            case ast.Call(
                func=ast.Name(id="getattr"), args=[ast.Name(id=name), ast.Constant(value=str(attribute)), *_]
            ):
                starters |= (
                    {f"{modules[name]}.{attribute}"}
                    if attribute in STARTERS.get(modules.get(name, ""), ())
                    else set()
                )
            case _:
                pass
    return starters


def test_every_place_that_starts_a_program_is_known() -> None:
    """A new one calls `start_program` or `run_program`; whoever cannot is listed in ALLOWED, with the reason."""
    package = Path(toolglot.__file__).parent
    by_module: dict[str, set[str]] = {}
    for file in sorted(package.rglob("*.py")):
        if starters := list_starters(file.read_text(encoding="utf-8")):
            module = ".".join(file.relative_to(package.parent).with_suffix("").parts)
            by_module[module] = starters
    assert by_module == ALLOWED


@pytest.mark.parametrize(("source", "expected"), [
    ("import subprocess\nsubprocess.Popen(['x'])", {"subprocess.Popen"}),
    ("import subprocess as s\nrun = s.run", {"subprocess.run"}),
    ("from subprocess import check_output as x", {"subprocess.check_output"}),
    ("import os\nos.execvp('x', [])", {"os.execvp"}),
    ("import asyncio\nasyncio.create_subprocess_exec('x')", {"asyncio.create_subprocess_exec"}),
    ("loop.subprocess_exec(None)", {"subprocess_exec"}),
    ("import os\ngetattr(os, 'system')('x')", {"os.system"}),
    ("import subprocess\nPIPE = subprocess.PIPE\nmodule.run()", set[str]()),
])  # fmt: skip
def test_the_test_finds_what_starts_programs(source: str, expected: set[str]) -> None:
    assert list_starters(source) == expected


def test_a_program_of_the_workspace_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, roots = tmp_path / "escaped", [Root(tmp_path / "work")]
    for path in (tmp_path / "work/tool", tmp_path / "good/tool"):
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho {path.parent.name} >> {trace}\n")
        path.chmod(0o755)
    (tmp_path / "link").symlink_to("work/tool")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{tmp_path / 'work'}:{os.environ['PATH']}")
    for start in (start_program, run_program):
        for path in ("tool", "./tool", "", str(tmp_path / "work/tool"), str(tmp_path / "link")):
            with pytest.raises(OSError, match="workspace"):
                start([path], roots=roots, env={})
    assert run_program([str(tmp_path / "good/tool")], roots=roots, env={}).returncode == 0
    assert trace.read_text() == "good\n"


def test_what_no_tool_can_change_may_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home directory as the workspace: what begins with a dot is closed to tools there.

    Our own Python is, everywhere.
    """
    home, packages = tmp_path / "home", tmp_path / "home/a/.venv"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("toolglot.confine.programs.own_program_paths", lambda: (packages, home))
    for name in (".local/bin", "bin", "a/.venv/bin", "a/bin", ".config/project/bin"):
        (home / name).mkdir(parents=True)
        (home / name / "tool").touch(mode=0o755)
    (home / ".local/bin/link").symlink_to("../../bin/tool")
    (home / "bin/link").symlink_to("../.local/bin/tool")
    roots = [Root(home), Root(home / ".config/project")]
    paths = (
        ".local/bin/tool",
        "a/.venv/bin/tool",
        "bin/tool",
        "a/bin/tool",
        ".config/project/bin/tool",
        ".local/bin/link",
    )
    assert [
        is_startable(str(home / path), roots) for path in (*paths, "bin/link", "a/../.local/bin/tool")
    ] == [
        *(True, True, False, False, False, False),
        *(False, True),
    ]
    assert [is_startable(str(home / path), [Root(home), Root(tmp_path)]) for path in paths[:3]] == [
        True,
        True,
        False,
    ]
    assert not any(is_outside(str(home / path), roots) for path in paths)
    assert (
        safe_search_path(roots, f"{home}/bin:{home}/.local/bin::bin:/usr/bin")
        == f"{home}/.local/bin:/usr/bin"
    )


def test_packages_that_start_programs_find_none_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    path = f"{tmp_path}/bin:.::bin:{tmp_path}/sub/.venv/bin:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    libraries = f"{tmp_path}/lib:/opt/lib:"
    monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    monkeypatch.setenv("PYTHONPATH", ".:src")
    with safe_programs():
        with safe_programs():
            assert os.environ["PATH"] == "/usr/bin:/bin"
        assert (os.environ["LD_LIBRARY_PATH"], os.environ.get("PYTHONPATH")) == ("/opt/lib", None)
        assert library_variables() == {"LD_LIBRARY_PATH": "/opt/lib"}
    assert [os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")] == [
        path,
        libraries,
        ".:src",
    ]
    with safe_programs():
        os.environ["PATH"] = "/changed"
    assert os.environ["PATH"] == "/changed"


def test_the_root_directory_is_nobodys_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services run there, and all programs are below it."""
    monkeypatch.chdir("/")
    assert current_workspace() == ()


def test_our_workers_load_no_library_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:relative::/opt/lib")
    sandbox = ServerSandbox(Workspace(tmp_path), ShellOptions(), tmp_path.with_name("state"))
    try:
        if not sandbox.label:
            pytest.skip("no sandbox works here")
        started = sandbox("s", McpServer(command="x", sandbox=True))
    finally:
        sandbox.close()
    assert started.env["LD_LIBRARY_PATH"] == "/opt/lib"
    # the server in the sandbox may use programs of the workspace
    assert started.env["PATH"] == os.environ["PATH"]
