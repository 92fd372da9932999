"""`glob`: what a pattern matches, in which order, and nothing from outside the workspace."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_kit import count_fds, make_context, make_state, plant, plant_byte_names, swap_directories

from toolglot.builtin.search import search_scope
from toolglot.builtin.search.glob import glob_tools, split_literal_prefix
from toolglot.errors import ToolError
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
    ),
    *("src/y.log", "out/gen.ts", ".github/ci.yml", ".git/config", "odd [1].txt", "src/{x}.ts"),
]


def glob_of(root: Path) -> Tool:
    return glob_tools(make_state(root))[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = plant(tmp_path_factory.mktemp("glob").resolve(), FILES)
    (root / ".gitignore").write_text("*.log\n/out/\n")
    return root


def paths_of(output: Any) -> list[str]:
    return [file["path"] for file in output.data["files"]]


MATCHES: list[tuple[dict[str, Any], set[str]]] = [
    ({"pattern": "*.py"}, {"a.py"}),
    ({"pattern": "./*.py"}, {"a.py"}),
    ({"pattern": "**/*.ts"}, {"src/a.ts", "src/lib/c.ts", "src/{x}.ts"}),
    (
        {"pattern": "**/*.ts", "case_sensitive": False},
        {"src/a.ts", "src/lib/c.ts", "src/{x}.ts", "src/lib/deep/d.TS"},
    ),
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
    (
        {"pattern": "src/{**,nothing}"},
        {"src/a.ts", "src/b.tsx", "src/lib/c.ts", "src/lib/deep/d.TS", "src/{x}.ts"},
    ),
]


@pytest.mark.parametrize(("options", "expected"), MATCHES)
def test_matching_files(tree: Path, options: dict[str, Any], expected: set[str]) -> None:
    assert set(paths_of(glob_of(tree)(**options))) == expected


def test_an_absolute_pattern_must_be_in_the_workspace(tree: Path) -> None:
    assert set(paths_of(glob_of(tree)(pattern=f"{tree}/src/*.tsx"))) == {"src/b.tsx"}
    with pytest.raises(ToolError) as raised:
        glob_of(tree)(pattern="/etc/*")
    assert raised.value.kind == "not_allowed"


def test_ignored_files_are_counted(tree: Path) -> None:
    output = glob_of(tree)(pattern="**/*.log")
    assert output.data["ignored"] == 2
    assert "2 matching files are ignored" in output.content


def test_extra_ignore_files(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "", "secret/b": "", ".geminiignore": "secret\n"})
    assert set(paths_of(glob_of(tmp_path)(pattern="**/?"))) == {"a"}
    assert set(paths_of(glob_of(tmp_path)(pattern="**/?", respect_extra_ignore=False))) == {"a", "secret/b"}


@pytest.mark.parametrize(
    ("order", "expected"), [("mtime", "decba"), ("recent_first", "decab"), ("name", "abcde")]
)
def test_orders(tmp_path: Path, order: str, expected: str) -> None:
    plant(tmp_path, "badce")
    now = time.time()
    for name, age in {"a": 3 * 86400, "b": 2 * 86400, "c": 3600, "d": 60, "e": 60}.items():
        os.utime(tmp_path / name, (int(now - age), int(now - age)))
    assert paths_of(glob_of(tmp_path)(pattern="*", order=order)) == list(expected)


def test_max_results(tmp_path: Path) -> None:
    plant(tmp_path, [f"f{number:03}" for number in range(150)])
    output = glob_of(tmp_path)(pattern="*", order="name")
    assert len(paths_of(output)) == 100
    assert (
        output.content.splitlines()[-1]
        == "[showing 100 of 150 files; narrow the pattern or raise max_results]"
    )
    assert len(paths_of(glob_of(tmp_path)(pattern="*", max_results=0))) == 150
    assert paths_of(glob_of(tmp_path)(pattern="*", order="name", max_results=1)) == ["f000"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    root = plant(tmp_path / "w", ["a/b"])
    plant(tmp_path, ["outside/secret"])
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret")
    (root / "loop").symlink_to(".")
    assert paths_of(glob_of(root)(pattern="**")) == ["a/b"]
    for path in ("out", ".."):
        with pytest.raises(ToolError):
            glob_of(root)(pattern="*", path=path)
    assert paths_of(glob_of(root)(pattern="out/*")) == []


def test_directories_that_are_swapped_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    root = plant(tmp_path / "w", [f"real/d{number}/inside" for number in range(20)])
    plant(tmp_path, [f"outside/d{number}/secret" for number in range(20)])
    (root / "link").symlink_to(tmp_path / "outside")
    glob = glob_of(root)
    with swap_directories(root):
        for _ in range(100):
            assert not any("secret" in path for path in paths_of(glob(pattern="**", max_results=0)))


def test_names_of_any_bytes(tmp_path: Path) -> None:
    plant_byte_names(tmp_path, [b"new\nline", b"byte\xff", "é".encode(), b"-rf", b"a b"])
    output = glob_of(tmp_path)(pattern="*")
    assert set(paths_of(output)) == {"new\nline", r"byte\udcff", "é", "-rf", "a b"}
    json.dumps(output.data, ensure_ascii=False).encode()
    assert paths_of(glob_of(tmp_path)(pattern="?")) == ["é"]


def test_other_roots_are_searched_by_path(tmp_path: Path) -> None:
    plant(tmp_path, ["main/a", "other/deep/b"])
    glob = glob_tools(make_state(tmp_path / "main", tmp_path / "other"))[0]
    assert glob(pattern="**/*", path=str(tmp_path / "other")).content == f"{tmp_path}/other/deep/b"


def test_the_deadline(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_scope, "TIMEOUT_SECONDS", -1.0)
    output = glob_of(tree)(pattern="**")
    assert output.data["complete"] is False
    assert "stopped before everything" in output.content


def test_progress(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    monkeypatch.setattr(search_scope, "PROGRESS_INTERVAL", 1)
    glob_of(tree)(pattern="**", context=make_context("glob", reports=reports))
    assert reports


def test_deep_directories_leave_no_descriptor_open(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("deep_directory", dir_fd=fd)
        lower = os.open("deep_directory", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = lower
    os.close(fd)
    glob = glob_of(tmp_path)
    before = count_fds()
    output = glob(pattern="**")
    assert output.data["total"] == 0
    assert count_fds() <= before
    shutil.rmtree(tmp_path / "deep_directory")


@pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
@settings(max_examples=40)
@given(
    files=st.lists(
        st.lists(st.sampled_from(["a", "b.py", "c", ".d", "x.log", "build"]), min_size=1, max_size=4).map(
            "/".join
        ),
        unique=True,
    ),
    rules=st.lists(
        st.sampled_from(["*.log", "build/", "/a/", "!x.log", "c/**", "**/b.py", "/c/*", "!c/a", ".d"]),
        max_size=3,
    ),
)
def test_ripgrep_lists_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, files: list[str], rules: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp() / "listed"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    plant(root, [path for path in files if not any(other.startswith(path + "/") for other in files)])
    (root / ".gitignore").write_text("\n".join(rules))
    command = ["rg", "--no-config", "--files", "--hidden", "--null"]
    command += ["--no-require-git", "--no-ignore-parent", "--no-ignore-global"]
    listed = (
        subprocess.run(command, cwd=root, capture_output=True, check=False).stdout.decode().split("\0")[:-1]
    )
    assert sorted(paths_of(glob_of(root)(pattern="**", max_results=0))) == sorted(listed)


@pytest.mark.parametrize(("pattern", "directory", "glob"), [
    ("a/b/*.py", "a/b", "*.py"),
    ("*.py", "", "*.py"),
    ("a/*/b", "a", "*/b"),
    ("a", "", "a"),
    ("**/a", "", "**/a"),
    ("a\\b/c", "", "a\\b/c"),
])  # fmt: skip
def test_split_literal_prefix(pattern: str, directory: str, glob: str) -> None:
    assert split_literal_prefix(pattern) == (directory, glob)
