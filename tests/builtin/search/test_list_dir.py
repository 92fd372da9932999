"""`list_dir` and `read_many`: the entries of a directory, and many files at once."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from search_kit import make_state, plant, plant_byte_names

from toolglot.builtin.files import read_many as read_many_module
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.files.workspace import FileVersion
from toolglot.builtin.search import list_dir as list_dir_module
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.errors import ToolError
from toolglot.tools.tool import Tool

FILES: dict[str, str | bytes] = {
    "b.txt": "bee\n",
    "a.py": "print(1)\n",
    "src/x.py": "x = 1\n",
    "src/deep/y.py": "y = 2\n",
    "src/deep/er/z.py": "z = 3\n",
    "x.log": "log\n",
    ".hidden": "h\n",
    ".git/config": "[core]\n",
    "node_modules/m/index.js": "module\n",
    "blob.bin": b"\0\1\2",
    "latin.txt": "größe\n".encode("latin-1"),
    ".gitignore": "*.log\n",
}


def list_dir_of(root: Path) -> Tool:
    return list_dir_tools(make_state(root))[0]


def read_many_of(root: Path) -> Tool:
    return read_many_tools(make_state(root))[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = plant(tmp_path_factory.mktemp("listing").resolve(), FILES)
    (root / "link").symlink_to("a.py")
    os.mkfifo(root / "pipe")
    return root


class TestListDir:
    def test_directories_first_then_names_with_sizes(self, tree: Path) -> None:
        assert list_dir_of(tree)().content.splitlines() == [
            *(
                ".git/",
                "node_modules/",
                "src/",
                ".gitignore (6 bytes)",
                ".hidden (2 bytes)",
                "a.py (9 bytes)",
            ),
            *(
                "b.txt (4 bytes)",
                "blob.bin (3 bytes)",
                "latin.txt (6 bytes)",
                "link -> a.py",
                "pipe (not a regular file)",
            ),
            "(1 ignored)",
        ]

    def test_data_of_entries(self, tree: Path) -> None:
        entries = {entry["name"]: entry for entry in list_dir_of(tree)().data["entries"]}
        kinds = {"src": "directory", "a.py": "file", "link": "link", "pipe": "other"}
        assert {name: entries[name]["kind"] for name in kinds} == kinds
        assert entries["a.py"]["size"] == 9
        assert entries["link"]["target"] == "a.py"

    def test_several_levels(self, tree: Path) -> None:
        output = list_dir_of(tree)(path="src", depth=2)
        assert output.content == "deep/\n  er/\n  y.py (6 bytes)\nx.py (6 bytes)"
        assert [entry["path"] for entry in output.data["entries"]] == ["deep", "deep/er", "deep/y.py", "x.py"]

    @pytest.mark.parametrize(("options", "absent", "present"), [
        ({}, "x.log", "a.py"),
        ({"respect_gitignore": False}, "nothing", "x.log"),
        ({"ignore": ["*.py"]}, "a.py", "b.txt"),
        ({"ignore": ["src", "*.bin"]}, "src", "b.txt"),
        ({"ignore": ["src/"], "depth": 3}, "src/x.py", "b.txt"),
        ({"ignore": ["src/deep/**"], "depth": 4}, "src/deep/y.py", "src/x.py"),
        ({"ignore": ["*.{py,txt}"]}, "b.txt", "blob.bin"),
        ({"depth": 9}, ".git/config", ".git"),
        ({"path": ".git"}, "a.py", "config"),
    ])  # fmt: skip
    def test_excluded_entries(self, tree: Path, options: dict[str, Any], absent: str, present: str) -> None:
        paths = [entry["path"] for entry in list_dir_of(tree)(**options).data["entries"]]
        assert absent not in paths
        assert present in paths

    def test_pages(self, tree: Path) -> None:
        list_dir = list_dir_of(tree)
        pages: list[Any] = []
        while page := list_dir(depth=5, skip=len(pages), limit=3).data["entries"]:
            pages += page
        assert pages == list(list_dir(depth=5).data["entries"])
        assert "[showing entries 1-3 of" in list_dir(depth=5, limit=3).content
        assert "there are only" in list_dir(skip=1000).content

    def test_an_empty_directory_says_so(self, tmp_path: Path) -> None:
        assert list_dir_of(tmp_path)().content == f"The directory {str(tmp_path)!r} is empty."

    def test_extra_ignore_files(self, tmp_path: Path) -> None:
        plant(tmp_path, {"a": "", "secret/b": "", ".aiignore": "secret\n"})
        list_dir = list_dir_of(tmp_path)
        assert [entry["name"] for entry in list_dir().data["entries"]] == [".aiignore", "a"]
        assert len(list_dir(respect_extra_ignore=False).data["entries"]) == 3

    def test_the_scan_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(tmp_path, [f"d{number}/f" for number in range(30)])
        monkeypatch.setattr(list_dir_module, "MAX_SCANNED", 20)
        output = list_dir_of(tmp_path)(depth=3)
        assert output.data["complete"] is False
        assert "stopped before everything was listed" in output.content

    def test_links_do_not_lead_out(self, tmp_path: Path) -> None:
        root = plant(tmp_path / "w", ["a"])
        plant(tmp_path, ["outside/secret"])
        (root / "out").symlink_to(tmp_path / "outside")
        assert [entry["path"] for entry in list_dir_of(root)(depth=5).data["entries"]] == ["a", "out"]
        with pytest.raises(ToolError):
            list_dir_of(root)(path="out")

    def test_names_of_any_bytes(self, tmp_path: Path) -> None:
        plant_byte_names(tmp_path, [b"byte\xff"])
        output = list_dir_of(tmp_path)()
        assert output.data["entries"][0]["name"] == r"byte\udcff"
        json.dumps(output.data, ensure_ascii=False).encode()

    def test_a_shown_name_is_a_path_of_the_other_tools(self, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"d\xe9p")).mkdir()
        plant_byte_names(tmp_path / os.fsdecode(b"d\xe9p"), [b"byte\xff"], b"found\n")
        (directory, file) = (entry["path"] for entry in list_dir_of(tmp_path)(depth=2).data["entries"])
        assert [entry["name"] for entry in list_dir_of(tmp_path)(path=directory).data["entries"]] == [
            r"byte\udcff"
        ]
        assert "found" in read_many_of(tmp_path)(include=[file]).content


class TestReadMany:
    def test_files_follow_their_paths(self, tree: Path) -> None:
        assert read_many_of(tree)(include=["b.txt", "src/**/*.py"], exclude=["er"]).content == (
            "--- b.txt ---\n\nbee\n\n--- src/deep/y.py ---\n\ny = 2\n\n--- src/x.py ---\n\nx = 1\n\n--- End "
            "of content ---"
        )

    @pytest.mark.parametrize(("options", "expected"), [
        ({"include": ["**/*.py"]}, ["a.py", "src/deep/er/z.py", "src/deep/y.py", "src/x.py"]),
        ({"include": ["src/x.py", "**/x.py", "src/x.py"]}, ["src/x.py"]),
        ({"include": ["src"]}, ["src/deep/er/z.py", "src/deep/y.py", "src/x.py"]),
        ({"include": ["src/"], "exclude": ["deep"]}, ["src/x.py"]),
        ({"include": ["**/*.{js,log}"], "default_excludes": False}, ["node_modules/m/index.js", "x.log"]),
        ({"include": ["**/*.js", "b.txt"]}, ["b.txt"]),
        ({"include": ["node_modules/m/index.js", "x.log"]}, ["node_modules/m/index.js", "x.log"]),
        ({"include": ["link"]}, ["a.py"]),
        ({"include": ["b.txt", "nowhere"]}, ["b.txt"]),
    ])  # fmt: skip
    def test_selected_files(self, tree: Path, options: dict[str, Any], expected: list[str]) -> None:
        assert [file["path"] for file in read_many_of(tree)(**options).data["files"]] == expected

    def test_binary_files_are_named_and_undecodable_bytes_replaced(self, tree: Path) -> None:
        output = read_many_of(tree)(include=["blob.bin", "latin.txt", "pipe", "nowhere"])
        assert "[blob.bin was not read: a binary file of 3 bytes]" in output.content
        assert "gr\ufffd\ufffde" in output.content
        assert {file["path"] for file in output.data["skipped"]} == {"blob.bin", "pipe", "nowhere"}

    def test_a_file_that_was_read_whole_counts_as_seen(self, tree: Path) -> None:
        state = make_state(tree)
        read_many_tools(state)[0](include=["b.txt"])
        assert state.seen_versions == {tree / "b.txt": FileVersion.from_status((tree / "b.txt").stat())}

    def test_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(tmp_path, {f"f{number}": "x" * 3000 for number in range(9)})
        monkeypatch.setattr(read_many_module, "MAX_FILE_BYTES", 2000)
        monkeypatch.setattr(read_many_module, "MAX_TOTAL_BYTES", 5000)
        state = make_state(tmp_path)
        output = read_many_tools(state)[0](include=["*"])
        sizes = [(len(file["text"]), file["truncated"]) for file in output.data["files"]]
        assert sizes == [(2000, True), (2000, True), (1000, True)]
        assert output.data["left_out"] == 6
        assert "6 more files match" in output.content
        assert state.seen_versions == {}

    def test_other_roots_and_absolute_paths(self, tmp_path: Path) -> None:
        plant(tmp_path, {"main/a": "1\n", "other/b": "2\n", "third/c": "3\n"})
        read_many = read_many_tools(make_state(tmp_path / "main", tmp_path / "other"))[0]
        output = read_many(include=[f"{tmp_path}/main/*", f"{tmp_path}/other/*", f"{tmp_path}/other/b"])
        assert [file["path"] for file in output.data["files"]] == ["a", f"{tmp_path}/other/b"]
        with pytest.raises(ToolError) as raised:
            read_many(include=[f"{tmp_path}/third/*"])
        assert raised.value.kind == "not_allowed"

    def test_links_do_not_lead_out(self, tmp_path: Path) -> None:
        root = plant(tmp_path / "w", {"a": "in\n"})
        plant(tmp_path, {"secret": "SECRET\n"})
        (root / "link").symlink_to(tmp_path / "secret")
        assert "SECRET" not in read_many_of(root)(include=["**"]).content
        with pytest.raises(ToolError):
            read_many_of(root)(include=["link"])
