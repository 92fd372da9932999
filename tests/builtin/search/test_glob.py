"""Files by their paths: what a pattern means, in which order, and nothing from outside."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.search import search_scope as module
from toolglot.builtin.search.glob import glob_tools, split_literal_prefix
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool

FILES = [
    *(
        "a.py",
        "b.txt",
        ".env",
        "src/a.ts",
        "src/b.tsx",
        "src/lib/c.ts",
        "src/lib/deep/d.TS",
        "docs/readme.md",
        "x.log",
        "src/y.log",
    ),
    *("out/gen.ts", ".github/ci.yml", ".git/config", "odd [1].txt", "src/{x}.ts"),
]


def planted(root: Path, files: list[str]) -> Path:
    for path in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def glob_of(root: Path) -> Tool:
    return glob_tools(ToolState(Workspace(root)))[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = planted(tmp_path_factory.mktemp("glob").resolve(), FILES)
    (root / ".gitignore").write_text("*.log\n/out/\n")
    return root


def paths_of(found: Any) -> list[str]:
    return [file["path"] for file in found.data["files"]]


MEANT: list[tuple[dict[str, Any], set[str]]] = [
    ({"pattern": "*.py"}, {"a.py"}),
    ({"pattern": "./*.py"}, {"a.py"}),
    ({"pattern": "**/*.ts"}, {"src/a.ts", "src/lib/c.ts", "src/{x}.ts"}),
    ({"pattern": "**/*.ts", "case_sensitive": False}, {"src/a.ts", "src/lib/c.ts", "src/{x}.ts", "src/lib/deep/d.TS"}),
    ({"pattern": "src/*.{ts,tsx}"}, {"src/a.ts", "src/b.tsx", "src/{x}.ts"}),
    ({"pattern": "{src,docs}/*.{md,tsx}"}, {"src/b.tsx", "docs/readme.md"}),
    ({"pattern": "src/**/d.*"}, {"src/lib/deep/d.TS"}),
    ({"pattern": "*.ts", "path": "src/lib"}, {"src/lib/c.ts"}),
    ({"pattern": "SRC/lib/*.ts", "case_sensitive": False}, {"src/lib/c.ts"}),
    ({"pattern": ".*"}, {".env", ".gitignore"}),
    ({"pattern": "**/*.yml"}, {".github/ci.yml"}),
    ({"pattern": "**/*.log"}, set()),
    ({"pattern": "**/*.log", "respect_gitignore": False}, {"x.log", "src/y.log"}),
    ({"pattern": "out/*"}, {"out/gen.ts"}),
    ({"pattern": "**/config"}, set()),
    ({"pattern": "odd \\[1\\].txt"}, {"odd [1].txt"}),
    ({"pattern": "src/\\{x\\}.ts"}, {"src/{x}.ts"}),
    ({"pattern": "src"}, set()),
    ({"pattern": "nowhere/**"}, set()),
    ({"pattern": "?.py"}, {"a.py"}),
    ({"pattern": "[!b]*.txt"}, {"odd [1].txt"}),
    ({"pattern": "a.py/"}, set()),
    ({"pattern": "**/a.py"}, {"a.py"}),
    ({"pattern": "**/{c.ts,b.tsx}"}, {"src/lib/c.ts", "src/b.tsx"}),
    ({"pattern": "**/{*.md,a.*}"}, {"docs/readme.md", "a.py", "src/a.ts"}),
    ({"pattern": "**/*[1].txt"}, set()),
    ({"pattern": "{**/*.md,*.py}"}, {"docs/readme.md", "a.py"}),
    ({"pattern": "src/{**,nothing}"}, {"src/a.ts", "src/b.tsx", "src/lib/c.ts", "src/lib/deep/d.TS", "src/{x}.ts"}),
]


@pytest.mark.parametrize(("options", "expected"), MEANT)
def test_the_files_that_are_meant(tree: Path, options: dict[str, Any], expected: set[str]) -> None:
    assert set(paths_of(glob_of(tree)(**options))) == expected


def test_an_absolute_pattern_in_the_workspace_is_taken(tree: Path) -> None:
    assert set(paths_of(glob_of(tree)(pattern=f"{tree}/src/*.tsx"))) == {"src/b.tsx"}
    with pytest.raises(ToolError) as raised:
        glob_of(tree)(pattern="/etc/*")
    assert raised.value.kind == "not_allowed"


def test_what_is_ignored_is_counted(tree: Path) -> None:
    found = glob_of(tree)(pattern="**/*.log")
    assert (found.data["ignored"], found.data["ignored_folders"]) == (2, 2)
    assert "2 that match are ignored" in found.content


def test_what_models_should_not_see_is_left_out(tmp_path: Path) -> None:
    planted(tmp_path, ["a", "secret/b"])
    (tmp_path / ".geminiignore").write_text("secret\n")
    assert set(paths_of(glob_of(tmp_path)(pattern="**/?"))) == {"a"}
    assert set(paths_of(glob_of(tmp_path)(pattern="**/?", respect_extra_ignore=False))) == {"a", "secret/b"}


LEFT_OUT: list[tuple[str, set[str]]] = [
    ("x", {"x", "d/x", "d/e/x"}),
    ("/x", {"x"}),
    ("d/x", {"d/x"}),
    ("d/*", {"d/x", "d/y.log", "d/e/x"}),
    ("d/[e]/x", {"d/e/x"}),
    ("d/**/x", {"d/x", "d/e/x"}),
    ("/*/x", {"d/x"}),
    ("**/e/x", {"d/e/x"}),
    ("*.log\n!y.log", {"z.log"}),
    ("!y.log\n*.log", {"d/y.log", "z.log"}),
    ("*.log\n!/d/y.log", {"z.log"}),
    ("/d/y.log\n!y.log", set()),
    ("!y.log\n/d/y.log", {"d/y.log"}),
    ("x/\ne/", {"d/e/x"}),
    ("*\n!*/\n!x", {"d/y.log", "z.log", ".gitignore"}),
]


@pytest.mark.parametrize(("rules", "expected"), LEFT_OUT)
def test_the_last_rule_about_a_name_or_a_path_decides(tmp_path: Path, rules: str, expected: set[str]) -> None:
    files = ["x", "z.log", "d/x", "d/y.log", "d/e/x"]
    planted(tmp_path, files)
    (tmp_path / ".gitignore").write_text(rules)
    assert {*files, ".gitignore"} - set(paths_of(glob_of(tmp_path)(pattern="**"))) == expected


def test_three_orders(tmp_path: Path) -> None:
    planted(tmp_path, ["b", "a", "d", "c", "e"])
    now = time.time()
    for name, age in {"a": 3 * 86400, "b": 2 * 86400, "c": 3600, "d": 60, "e": 60}.items():
        os.utime(tmp_path / name, (int(now - age), int(now - age)))
    orders = {order: paths_of(glob_of(tmp_path)(pattern="*", order=order)) for order in ("mtime", "recent_first", "name")}
    assert orders == {
        "mtime": ["d", "e", "c", "b", "a"],
        "recent_first": ["d", "e", "c", "a", "b"],
        "name": ["a", "b", "c", "d", "e"],
    }


def test_at_most_so_many(tmp_path: Path) -> None:
    planted(tmp_path, [f"f{number:03}" for number in range(150)])
    found = glob_of(tmp_path)(pattern="*", order="name")
    assert len(paths_of(found)) == 100
    assert found.content.splitlines()[-1] == "[100 of 150 files; narrow the pattern, or raise max_results]"
    assert len(paths_of(glob_of(tmp_path)(pattern="*", max_results=0))) == 150
    assert paths_of(glob_of(tmp_path)(pattern="*", order="name", max_results=1)) == ["f000"]


def test_links_are_not_followed_and_do_not_lead_out(tmp_path: Path) -> None:
    root = planted(tmp_path / "w", ["a/b"])
    planted(tmp_path, ["outside/secret"])
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret")
    (root / "loop").symlink_to(".")
    assert paths_of(glob_of(root)(pattern="**")) == ["a/b"]
    for options in ({"pattern": "*", "path": "out"}, {"pattern": "*", "path": ".."}):
        with pytest.raises(ToolError):
            glob_of(root)(**options)
    assert paths_of(glob_of(root)(pattern="out/*")) == []


def test_folders_that_are_swapped_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    root = planted(tmp_path / "w", [f"real/d{number}/inside" for number in range(20)])
    planted(tmp_path, [f"outside/d{number}/secret" for number in range(20)])
    (root / "link").symlink_to(tmp_path / "outside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "real", root / "spare")
            os.rename(root / "link", root / "real")
            os.rename(root / "real", root / "link")
            os.rename(root / "spare", root / "real")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        glob = glob_of(root)
        for _ in range(100):
            assert not any("secret" in path for path in paths_of(glob(pattern="**", max_results=0)))
    finally:
        over.set()
        thread.join()


def test_names_of_any_bytes(tmp_path: Path) -> None:
    for name in (b"new\nline", b"byte\xff", "é".encode(), b"-rf", b"a b"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).touch()
    found = glob_of(tmp_path)(pattern="*")
    assert set(paths_of(found)) == {"new\nline", "byte\ufffd", "é", "-rf", "a b"}
    json.dumps(found.data, ensure_ascii=False).encode()
    assert paths_of(glob_of(tmp_path)(pattern="?")) == ["é"]


def test_other_roots_are_searched_by_their_paths(tmp_path: Path) -> None:
    planted(tmp_path, ["main/a", "other/deep/b"])
    box = ToolState(Workspace(tmp_path / "main", other_roots=[Root(tmp_path / "other", writable=False)]))
    found = glob_tools(box)[0](pattern="**/*", path=str(tmp_path / "other"))
    assert found.content == f"{tmp_path}/other/deep/b"


def test_it_stops_in_time_and_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", -1.0)
    monkeypatch.setattr(module.start_deadline, "__defaults__", (-1.0,))
    found = glob_of(tree)(pattern="**")
    assert found.data["complete"] is False
    assert "stopped before everything" in found.content


def test_it_stops_when_nobody_waits_and_tells_how_far_it_is(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = threading.Event()
    said: list[str] = []
    monkeypatch.setattr(module, "PROGRESS_INTERVAL", 1)
    glob_of(tree)(pattern="**", context=Context(ToolCall("1", "glob", {}), report=said.append, cancel_flag=flag))
    assert said
    flag.set()
    with pytest.raises(ToolError) as raised:
        glob_of(tree)(pattern="**", context=Context(ToolCall("1", "glob", {}), cancel_flag=flag))
    assert raised.value.kind == "cancelled"


def test_deep_folders_and_no_handle_left(tmp_path: Path) -> None:
    where = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("deepfolder", dir_fd=where)
        lower = os.open("deepfolder", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = lower
    os.close(where)
    glob = glob_of(tmp_path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    found = glob(pattern="**")
    assert (found.data["total"], found.data["missed"]) == (0, 1)
    assert (len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0) <= before
    shutil.rmtree(tmp_path / "deepfolder")


@pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
@settings(max_examples=40)
@given(
    files=st.lists(
        st.lists(st.sampled_from(["a", "b.py", "c", ".d", "x.log", "build"]), min_size=1, max_size=4).map("/".join), unique=True
    ),
    rules=st.lists(st.sampled_from(["*.log", "build/", "/a/", "!x.log", "c/**", "**/b.py", "/c/*", "!c/a", ".d"]), max_size=3),
)
def test_ripgrep_lists_the_same_files(tmp_path_factory: pytest.TempPathFactory, files: list[str], rules: list[str]) -> None:
    root = tmp_path_factory.getbasetemp() / "listed"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    planted(root, [one for one in files if not any(other.startswith(one + "/") for other in files)])
    (root / ".gitignore").write_text("\n".join(rules))
    arguments = [
        "rg",
        "--no-config",
        "--files",
        "--hidden",
        "--null",
        "--no-require-git",
        "--no-ignore-parent",
        "--no-ignore-global",
    ]
    listed = subprocess.run(arguments, cwd=root, capture_output=True, check=False).stdout.decode().split("\0")[:-1]
    assert sorted(paths_of(glob_of(root)(pattern="**", max_results=0))) == sorted(listed)


@pytest.mark.parametrize(
    ("pattern", "start", "rest"),
    [
        ("a/b/*.py", "a/b", "*.py"),
        ("*.py", "", "*.py"),
        ("a/*/b", "a", "*/b"),
        ("a", "", "a"),
        ("**/a", "", "**/a"),
        ("a\\b/c", "", "a\\b/c"),
    ],
)
def test_a_search_begins_in_the_folder_that_is_named(pattern: str, start: str, rest: str) -> None:
    assert split_literal_prefix(pattern) == (start, rest)


BAD: dict[str, list[Any]] = {
    "pattern": [
        *(
            "",
            "\0",
            "a\0",
            "..",
            "../*",
            "a/../b",
            "../../etc/*",
            "{a,b}" * 20,
            "x" * 9000,
            "/etc/**",
            "/",
            "/proc/*",
            None,
            {},
            [1, 2],
        ),
        *("./../x", "{../a,b}/../c", "/..", "/../etc/*"),
    ],
    "path": [
        *(
            "\0",
            "..",
            "../..",
            "/",
            "/etc",
            "nowhere",
            "a.py",
            "a.py/x",
            "\ud800",
            "x" * 5000,
            "x/" * 3000,
            "~",
            "$HOME",
            "file:///",
        ),
        *("%2e%2e", "..\\..", "\uff0e\uff0e/x", "/proc/self/root", "/proc/self/cwd", {}, 3.5, [[]], "src/../../x", "a" * 256),
    ],
    "case_sensitive": ["perhaps", 7, {}, []],
    "respect_gitignore": ["perhaps", 7, {}],
    "respect_extra_ignore": ["perhaps", {}, 2.5],
    "max_results": [-1, -(10**30), "many", 0.5, {}, []],
    "order": ["newest", "", 3, {}, []],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_input_is_a_typed_error(tree: Path, name: str, value: Any) -> None:
    glob = glob_of(tree)
    before = sorted(map(str, tree.rglob("*")))
    call = ToolCall("1", "glob", {"pattern": "*", name: value})
    with pytest.raises(ToolError) as raised:
        glob.call(glob.bind(call).values, Context(call))
    assert raised.value.kind in ("validation", "not_found", "not_allowed", "execution")
    assert "\n" not in str(raised.value) or raised.value.kind == "validation"
    assert sorted(map(str, tree.rglob("*"))) == before


def test_the_tool_says_what_it_is(tree: Path) -> None:
    glob = glob_of(tree)
    assert (glob.name, glob.effects, bool(glob.definition.examples)) == ("glob", {"read"}, True)
    assert glob.target is not None
    assert glob.target({"pattern": "*", "path": "src"}) == str(tree / "src")
