"""What is in a folder, and many files at once."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.files.workspace import FileVersion, Root, Workspace
from toolglot.builtin.search import list_dir as module
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool

FILES: dict[str, bytes] = {
    "b.txt": b"bee\n",
    "a.py": b"print(1)\n",
    "src/x.py": b"x = 1\n",
    "src/deep/y.py": b"y = 2\n",
    "src/deep/er/z.py": b"z = 3\n",
    "x.log": b"log\n",
    ".hidden": b"h\n",
    ".git/config": b"[core]\n",
    "node_modules/m/index.js": b"module\n",
    "blob.bin": b"\0\1\2",
    "latin.txt": "größe\n".encode("latin-1"),
    ".gitignore": b"*.log\n",
}


def planted(root: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def tools_of(root: Path) -> tuple[Tool, Tool]:
    lister, reader = list_dir_tools(ToolState(Workspace(root)))
    return lister, reader


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = planted(tmp_path_factory.mktemp("listing").resolve(), FILES)
    (root / "link").symlink_to("a.py")
    os.mkfifo(root / "pipe")
    return root


class TestListDir:
    def test_folders_first_then_names_with_sizes(self, tree: Path) -> None:
        found = tools_of(tree)[0]()
        assert found.content.splitlines() == [
            *(
                ".git/",
                "node_modules/",
                "src/",
                ".gitignore (6 bytes)",
                ".hidden (2 bytes)",
                "a.py (9 bytes)",
                "b.txt (4 bytes)",
            ),
            *("blob.bin (3 bytes)", "latin.txt (6 bytes)", "link -> a.py", "pipe (not a regular file)", "(1 ignored)"),
        ]

    def test_data_has_all_that_is_known(self, tree: Path) -> None:
        found = {one["name"]: one for one in tools_of(tree)[0]().data["entries"]}
        assert {name: one["kind"] for name, one in found.items() if name in ("src", "a.py", "link", "pipe")} == {
            "src": "folder",
            "a.py": "file",
            "link": "link",
            "pipe": "other",
        }
        assert found["a.py"]["size"] == 9
        assert found["a.py"]["mtime"] == pytest.approx((tree / "a.py").stat().st_mtime)
        assert found["link"]["target"] == "a.py"

    def test_several_levels(self, tree: Path) -> None:
        found = tools_of(tree)[0](path="src", depth=2)
        assert found.content == "deep/\n  er/\n  y.py (6 bytes)\nx.py (6 bytes)"
        assert [one["path"] for one in found.data["entries"]] == ["deep", "deep/er", "deep/y.py", "x.py"]

    def test_version_control_is_named_but_not_entered(self, tree: Path) -> None:
        paths = [one["path"] for one in tools_of(tree)[0](depth=9).data["entries"]]
        assert ".git" in paths
        assert ".git/config" not in paths
        assert "config" in [one["path"] for one in tools_of(tree)[0](path=".git").data["entries"]]

    @pytest.mark.parametrize(
        ("options", "absent", "present"),
        [
            ({}, "x.log", "a.py"),
            ({"respect_gitignore": False}, "nothing", "x.log"),
            ({"ignore": ["*.py"]}, "a.py", "b.txt"),
            ({"ignore": ["src", "*.bin"]}, "src", "b.txt"),
            ({"ignore": ["src/"], "depth": 3}, "src/x.py", "b.txt"),
            ({"ignore": ["src/deep/**"], "depth": 4}, "src/deep/y.py", "src/x.py"),
            ({"ignore": ["*.{py,txt}"]}, "b.txt", "blob.bin"),
        ],
    )
    def test_what_is_left_out(self, tree: Path, options: dict[str, Any], absent: str, present: str) -> None:
        paths = [one["path"] for one in tools_of(tree)[0](**options).data["entries"]]
        assert absent not in paths
        assert present in paths

    def test_in_parts(self, tree: Path) -> None:
        lister = tools_of(tree)[0]
        everything = lister(depth=5).data["entries"]
        parts: list[Any] = []
        while part := lister(depth=5, skip=len(parts), limit=3).data["entries"]:
            parts += part
        assert parts == list(everything)
        assert "[entries 1 to 3 of" in lister(depth=5, limit=3).content
        assert "there are only" in lister(skip=1000).content

    def test_an_empty_folder_says_so(self, tmp_path: Path) -> None:
        assert tools_of(tmp_path)[0]().content == f"The folder {str(tmp_path)!r} is empty."

    def test_what_models_should_not_see_is_left_out(self, tmp_path: Path) -> None:
        planted(tmp_path, {"a": b"", "secret/b": b"", ".aiignore": b"secret\n"})
        lister = tools_of(tmp_path)[0]
        assert [one["name"] for one in lister().data["entries"]] == [".aiignore", "a"]
        assert len(lister(respect_extra_ignore=False).data["entries"]) == 3

    def test_a_crowd_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        planted(tmp_path, {f"d{number}/f": b"" for number in range(30)})
        monkeypatch.setattr(module, "MAX_SCANNED", 20)
        found = tools_of(tmp_path)[0](depth=3)
        assert found.data["complete"] is False
        assert "stopped before everything was listed" in found.content

    def test_links_do_not_lead_out(self, tmp_path: Path) -> None:
        root = planted(tmp_path / "w", {"a": b""})
        planted(tmp_path, {"outside/secret": b""})
        (root / "out").symlink_to(tmp_path / "outside")
        lister = tools_of(root)[0]
        assert [one["path"] for one in lister(depth=5).data["entries"]] == ["a", "out"]
        with pytest.raises(ToolError):
            lister(path="out")

    def test_names_of_any_bytes(self, tmp_path: Path) -> None:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/byte\xff")).touch()
        found = tools_of(tmp_path)[0]()
        assert found.data["entries"][0]["name"] == "byte\ufffd"
        json.dumps(found.data, ensure_ascii=False).encode()

    def test_it_stops_when_nobody_waits(self, tree: Path) -> None:
        flag = threading.Event()
        flag.set()
        with pytest.raises(ToolError) as raised:
            tools_of(tree)[0](context=Context(ToolCall("1", "list_dir", {}), cancel_flag=flag))
        assert raised.value.kind == "cancelled"


class TestReadMany:
    def test_files_one_after_the_other_behind_their_paths(self, tree: Path) -> None:
        found = tools_of(tree)[1](include=["b.txt", "src/**/*.py"], exclude=["er"])
        assert found.content == (
            "--- b.txt ---\n\nbee\n\n--- src/deep/y.py ---\n\ny = 2\n\n--- src/x.py ---\n\nx = 1\n\n--- End of content ---"
        )
        assert [file["path"] for file in found.data["files"]] == ["b.txt", "src/deep/y.py", "src/x.py"]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"include": ["**/*.py"]}, ["a.py", "src/deep/er/z.py", "src/deep/y.py", "src/x.py"]),
            ({"include": ["src/x.py", "**/x.py", "src/x.py"]}, ["src/x.py"]),
            ({"include": ["src"]}, ["src/deep/er/z.py", "src/deep/y.py", "src/x.py"]),
            ({"include": ["src/"], "exclude": ["deep"]}, ["src/x.py"]),
            ({"include": ["**/*.{js,log}"], "default_excludes": False}, ["node_modules/m/index.js", "x.log"]),
            ({"include": ["**/*.js", "b.txt"]}, ["b.txt"]),
            ({"include": ["node_modules/m/index.js", "x.log"]}, ["node_modules/m/index.js", "x.log"]),
            ({"include": ["link"]}, ["a.py"]),
            ({"include": ["b.txt", "nowhere"]}, ["b.txt"]),
        ],
    )
    def test_the_files_that_are_meant(self, tree: Path, options: dict[str, Any], expected: list[str]) -> None:
        assert [file["path"] for file in tools_of(tree)[1](**options).data["files"]] == expected

    def test_binary_files_are_named_and_odd_bytes_are_shown(self, tree: Path) -> None:
        found = tools_of(tree)[1](include=["blob.bin", "latin.txt", "pipe", "nowhere"])
        assert "[blob.bin was not read: a binary file of 3 bytes]" in found.content
        assert "gr\ufffd\ufffde" in found.content
        assert {one["path"] for one in found.data["skipped"]} == {"blob.bin", "pipe", "nowhere"}

    def test_what_was_read_whole_is_known(self, tree: Path) -> None:
        box = ToolState(Workspace(tree))
        list_dir_tools(box)[1](include=["b.txt"])
        assert box.seen_versions == {tree / "b.txt": FileVersion.from_status((tree / "b.txt").stat())}

    def test_there_is_only_so_much_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        planted(tmp_path, {f"f{number}": b"x" * 3000 for number in range(9)})
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 2000)
        monkeypatch.setattr(module, "MAX_TOTAL_BYTES", 5000)
        box = ToolState(Workspace(tmp_path))
        found = list_dir_tools(box)[1](include=["*"])
        assert [(len(file["text"]), file["truncated"]) for file in found.data["files"]] == [
            (2000, True),
            (2000, True),
            (1000, True),
        ]
        assert found.data["left_out"] == 6
        assert "6 more files match" in found.content
        assert box.seen_versions == {}

    def test_other_roots_and_absolute_paths(self, tmp_path: Path) -> None:
        planted(tmp_path, {"main/a": b"1\n", "other/b": b"2\n", "third/c": b"3\n"})
        box = ToolState(Workspace(tmp_path / "main", other_roots=[Root(tmp_path / "other", writable=False)]))
        reader = list_dir_tools(box)[1]
        found = reader(include=[f"{tmp_path}/main/*", f"{tmp_path}/other/*", f"{tmp_path}/other/b"])
        assert [file["path"] for file in found.data["files"]] == ["a", f"{tmp_path}/other/b"]
        with pytest.raises(ToolError) as raised:
            reader(include=[f"{tmp_path}/third/*"])
        assert raised.value.kind == "not_allowed"

    def test_links_do_not_lead_out(self, tmp_path: Path) -> None:
        root = planted(tmp_path / "w", {"a": b"in\n"})
        planted(tmp_path, {"secret": b"SECRET\n"})
        (root / "link").symlink_to(tmp_path / "secret")
        reader = tools_of(root)[1]
        assert "SECRET" not in reader(include=["**"]).content
        with pytest.raises(ToolError):
            reader(include=["link"])


PATHS = [
    *(
        "\0",
        "..",
        "../..",
        "/",
        "/etc/passwd",
        "nowhere",
        "a.py/x",
        "\ud800",
        "x" * 5000,
        "x/" * 3000,
        "~",
        "$HOME",
        "file:///etc",
    ),
    *(
        "%2e%2e",
        "..\\..",
        "\uff0e\uff0e/x",
        "/proc/self/root",
        "/proc/self/fd/0",
        "a" * 256,
        "src/../../x",
        "a.py",
        "b.txt",
        "pipe",
    ),
]
BAD_LISTS: dict[str, list[Any]] = {
    "path": [*PATHS, {}, 3.5, [[]]],
    "ignore": [[""], ["\0"], ["{a,b}" * 20], ["x" * 9000], {}, [{}], ["*"] * 500, ["a", ""], ["a\0b"], [[]], [["*"]], [None]],
    "depth": [0, -1, "deep", 1.5, {}, -(10**30), [], "1.5"],
    "skip": [-1, "x", 0.5, {}],
    "limit": [-1, "x", 0.5, {}],
    "respect_gitignore": ["perhaps", 7, {}, []],
    "respect_extra_ignore": ["perhaps", 7, {}, []],
}
NO_FILES = [path for path in PATHS if path not in ("a.py", "b.txt", "pipe")]
BAD_READS: dict[str, list[Any]] = {
    "include": [
        *([path] for path in NO_FILES),
        *(
            [],
            {},
            [{}],
            ["*"] * 500,
            [""],
            ["../*"],
            ["/etc/*"],
            ["{a,b}" * 20],
            ["x*" * 3000],
            [["a.py"]],
            [None],
            "",
            "nowhere",
        ),
        *(
            ["*", "../../*"],
            ["a.py", "/etc/passwd"],
            ["a.py", "\0"],
            ["a/../../*"],
            ["/proc/self/*"],
            ["**/nowhere"],
            ["/root/**"],
        ),
    ],
    "exclude": [[""], ["\0"], ["{a,b}" * 20], ["x" * 9000], {}, [{}], ["*"] * 500, ["**"], ["a.py"], [None], [[]], ["x", ""]],
    "default_excludes": ["perhaps", 7, {}, [], 2.5, "None", "0.5", [True]],
}


@pytest.mark.parametrize(
    ("which", "name", "value"),
    [
        *((0, name, value) for name, values in BAD_LISTS.items() for value in values),
        *((1, name, value) for name, values in BAD_READS.items() for value in values),
    ],
)
def test_bad_input_is_a_typed_error(tree: Path, which: int, name: str, value: Any) -> None:
    tool = tools_of(tree)[which]
    before = sorted(map(str, tree.rglob("*")))
    call = ToolCall("1", tool.name, {**({"include": ["a.py"]} if which else {}), name: value})
    with pytest.raises(ToolError) as raised:
        tool.call(tool.bind(call).values, Context(call))
    assert raised.value.kind in ("validation", "not_found", "not_allowed", "execution")
    assert sorted(map(str, tree.rglob("*"))) == before


def test_the_tools_say_what_they_are(tree: Path) -> None:
    lister, reader = tools_of(tree)
    assert (lister.name, reader.name) == ("list_dir", "read_many")
    assert lister.effects == reader.effects == {"read"}
    assert lister.target is not None
    assert lister.target({"path": "src"}) == str(tree / "src")
    assert reader.target is not None
    assert reader.target({"include": ["a", "b/*"]}) == "a, b/*"
    assert reader.definition.parameters is not None
    assert reader.definition.parameters["properties"].keys() == {"include", "exclude", "default_excludes"}
