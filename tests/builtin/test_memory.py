"""The tool `memory`: notes that stay, in a folder that nothing leads out of."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin import memory as module
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.memory import MAX_DEPTH, MAX_FILE_BYTES, create_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "state"


@pytest.fixture
def folder(state: Path) -> Path:
    return state / "memory"


@pytest.fixture
def box(state: Path) -> ToolState:
    return ToolState(Workspace(state.parent / "work"), state_dir=state)


def told(box: ToolState, **arguments: Any) -> ToolOutput:
    (tool,) = create_tools(box)
    call = ToolCall("c1", "memory", arguments)
    return tool.call(tool.bind(call).values, Context(call))


def refused(box: ToolState, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as raised:
        told(box, **arguments)
    return raised.value


def previewed(box: ToolState, **arguments: Any) -> str:
    (tool,) = create_tools(box)
    assert tool.preview is not None
    return tool.preview(arguments)


def make(box: ToolState, **files: str) -> None:
    for name, text in files.items():
        told(box, command="create", path=f"/memories/{name.replace('__', '/')}.md", file_text=text)


def kept(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestCommands:
    def test_without_a_place_there_is_no_tool(self, box: ToolState) -> None:
        assert create_tools(ToolState(box.workspace)) == []

    def test_nothing_is_made_before_it_is_used(self, box: ToolState, state: Path) -> None:
        create_tools(box)
        assert not state.exists()

    def test_an_empty_memory_can_be_viewed(self, box: ToolState) -> None:
        assert told(box, command="view", path="/memories").content == "0B\t/memories/\n[empty]"

    def test_create_makes_a_private_file_and_its_folders(self, box: ToolState, folder: Path) -> None:
        said = told(box, command="create", path="/memories/a/b.md", file_text="one\n")
        assert said.content == "created '/memories/a/b.md' (4 bytes)"
        assert said.data["diff"].endswith("+one\n")
        assert kept(folder) == {"a/b.md": "one\n"}
        assert stat.S_IMODE((folder / "a/b.md").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_create_replaces_nothing(self, box: ToolState, folder: Path) -> None:
        make(box, a="one")
        error = refused(box, command="create", path="/memories/a.md", file_text="two")
        assert "already exists: edit it" in str(error)
        assert kept(folder) == {"a.md": "one"}

    def test_view_shows_two_levels_without_hidden_ones(self, box: ToolState, folder: Path) -> None:
        make(box, b="12345", a__x="1", a__c__y="22", a__c__d__z="333")
        (folder / ".hidden").write_text("h")
        (folder / "a" / ".git").mkdir()
        said = told(box, command="view", path="/memories")
        assert said.content.splitlines() == [
            "11B\t/memories/",
            "6B\t/memories/a/",
            "5B\t/memories/a/c/",
            "1B\t/memories/a/x.md",
            "5B\t/memories/b.md",
        ]
        assert said.data["entries"][0] == {"path": "/memories/a", "size": 6, "is_directory": True}

    @pytest.mark.parametrize(
        ("wanted", "lines", "first"),
        [
            (None, ["a", "b", "c"], 1),
            ([2, 3], ["b", "c"], 2),
            ([2, -1], ["b", "c"], 2),
            ([1, 1], ["a"], 1),
            ([3, 99], ["c"], 3),
        ],
    )
    def test_view_shows_lines_with_numbers(self, box: ToolState, wanted: Any, lines: list[str], first: int) -> None:
        make(box, n="a\nb\nc\n")
        said = told(box, command="view", path="/memories/n.md", view_range=wanted)
        assert (said.data["lines"], said.data["first"], said.data["total"]) == (lines, first, 3)
        assert said.content.splitlines()[1:] == [f"{number}\t{line}" for number, line in enumerate(lines, first)]

    def test_an_empty_file_can_be_viewed(self, box: ToolState) -> None:
        make(box, n="")
        assert told(box, command="view", path="/memories/n.md").content == "'/memories/n.md' is empty."

    def test_str_replace_changes_the_only_place(self, box: ToolState, folder: Path) -> None:
        make(box, n="a\nb\nc\nd\ne\nf\n")
        said = told(box, command="str_replace", path="/memories/n.md", old_str="d\n", new_str="D\nDD\n")
        assert kept(folder) == {"n.md": "a\nb\nc\nD\nDD\ne\nf\n"}
        assert said.content.splitlines()[1:4] == ["2\tb", "3\tc", "4\tD"]

    @pytest.mark.parametrize(
        ("old", "words"), [("x", "is not in '/memories/n.md'"), ("a", "(lines 1, 2, 3)"), ("", "is empty")]
    )
    def test_str_replace_wants_exactly_one(self, box: ToolState, folder: Path, old: str, words: str) -> None:
        make(box, n="a\na\na\n")
        before = kept(folder)
        assert words in str(refused(box, command="str_replace", path="/memories/n.md", old_str=old, new_str="z"))
        assert kept(folder) == before

    @pytest.mark.parametrize(("line", "text", "after"), [(0, "x", "x\na\nb"), (1, "x\n", "a\nx\nb"), (2, "x\ny", "a\nb\nx\ny")])
    def test_insert_puts_lines_after_a_line(self, box: ToolState, folder: Path, line: int, text: str, after: str) -> None:
        make(box, n="a\nb")
        told(box, command="insert", path="/memories/n.md", insert_line=line, insert_text=text)
        assert kept(folder) == {"n.md": after}

    def test_delete_takes_a_file_or_a_whole_folder(self, box: ToolState, folder: Path) -> None:
        make(box, a="1", b__c="2", b__d__e="3")
        (folder / "b" / "out").symlink_to(folder.parent.parent / "secret.txt")
        told(box, command="delete", path="/memories/a.md")
        said = told(box, command="delete", path="/memories/b/")
        assert said.content == "deleted '/memories/b' with everything in it"
        assert list(folder.iterdir()) == []
        assert (folder.parent.parent / "secret.txt").read_text() == "secret"

    def test_rename_moves_files_and_folders(self, box: ToolState, folder: Path) -> None:
        make(box, a="1", b__c="2")
        told(box, command="rename", old_path="/memories/a.md", new_path="/memories/x/y/z.md")
        told(box, command="rename", old_path="/memories/b", new_path="/memories/x/b")
        assert kept(folder) == {"x/b/c.md": "2", "x/y/z.md": "1"}

    def test_what_it_says_of_its_targets_is_the_real_path(self, box: ToolState, folder: Path) -> None:
        (tool,) = create_tools(box)
        assert tool.target is not None
        assert tool.target({"command": "view", "path": "/memories/a.md"}) == f"{folder}/a.md"

    def test_it_is_there_in_the_next_conversation(self, box: ToolState, state: Path) -> None:
        make(box, a="known")
        again = ToolState(box.workspace, state_dir=state)
        assert told(again, command="view", path="/memories/a.md").data["lines"] == ["known"]


class TestPreview:
    def test_shows_the_difference_and_changes_nothing(self, box: ToolState, folder: Path) -> None:
        make(box, a="1\n", b__c="2\n")
        before = kept(folder)
        wishes: list[tuple[dict[str, Any], str]] = [
            ({"command": "create", "path": "/memories/n.md", "file_text": "new\n"}, "+new"),
            ({"command": "str_replace", "path": "/memories/a.md", "old_str": "1", "new_str": "9"}, "+9"),
            ({"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "0"}, "+0"),
            ({"command": "delete", "path": "/memories/a.md"}, "-1"),
            ({"command": "delete", "path": "/memories/b"}, "delete /memories/b"),
            ({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/d"}, "rename /memories/b /memories/d"),
            ({"command": "delete", "path": "/memories/z"}, "(this will fail: no such file or directory: '/memories/z'"),
        ]
        for arguments, words in wishes:
            assert words in previewed(box, **arguments)
        assert kept(folder) == before


class TestLimits:
    def test_a_file_is_not_larger_than_that(self, box: ToolState, folder: Path) -> None:
        make(box, a="x" * (MAX_FILE_BYTES - 1))
        assert refused(box, command="insert", path="/memories/a.md", insert_line=1, insert_text="yy").kind == "limit"
        assert refused(box, command="create", path="/memories/b.md", file_text="é" * (MAX_FILE_BYTES - 1)).kind == "limit"
        assert list(kept(folder)) == ["a.md"]

    def test_the_memory_holds_so_many_files(self, box: ToolState, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_FILES", 2)
        make(box, a="1", b__c="2")
        assert "delete some first" in str(refused(box, command="create", path="/memories/d.md", file_text="3"))
        told(box, command="insert", path="/memories/a.md", insert_line=0, insert_text="still")

    def test_the_memory_holds_so_many_bytes(self, box: ToolState, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_TOTAL_BYTES", 10)
        make(box, a="12345678")
        assert refused(box, command="create", path="/memories/d.md", file_text="345").kind == "limit"
        told(box, command="str_replace", path="/memories/a.md", old_str="12345678", new_str="1234567890")

    def test_folders_do_not_grow_deep_by_moving(self, box: ToolState, folder: Path) -> None:
        deep = "/".join("abcdefgh")
        told(box, command="create", path=f"/memories/{deep}/n.md", file_text="1")
        told(box, command="rename", old_path="/memories/a", new_path="/memories/z/a")
        error = refused(box, command="rename", old_path="/memories/z", new_path="/memories/y/z")
        assert error.kind == "limit"
        assert len(next(iter(kept(folder))).split("/")) == MAX_DEPTH


class TestWhatOthersPutThere:
    def test_links_are_not_used(self, box: ToolState, folder: Path, state: Path) -> None:
        make(box, real="1\n")
        secret = state.parent / "secret.txt"
        (folder / "out").symlink_to(secret)
        (folder / "up").symlink_to("..")
        (folder / "dangling").symlink_to("nowhere")
        (folder / "inside").symlink_to("real.md")
        for name in ("out", "up", "up/x", "up/../../secret.txt", "dangling", "inside"):
            path = f"/memories/{name}"
            for arguments in (
                {"command": "view", "path": path},
                {"command": "create", "path": path, "file_text": "x"},
                {"command": "str_replace", "path": path, "old_str": "1", "new_str": "2"},
                {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
                {"command": "delete", "path": path},
                {"command": "rename", "old_path": path, "new_path": "/memories/new"},
                {"command": "rename", "old_path": "/memories/real.md", "new_path": path},
            ):
                assert str(secret) not in str(refused(box, **arguments))
        assert secret.read_text() == "secret"
        assert (folder / "real.md").read_text() == "1\n"
        assert "out" not in told(box, command="view", path="/memories").content

    def test_what_is_no_text_or_no_file_is_refused(self, box: ToolState, folder: Path) -> None:
        make(box, a="1")
        (folder / "binary").write_bytes(b"\0\1\2")
        (folder / "huge").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
        os.mkfifo(folder / "pipe")
        for name, kind in (("binary", "execution"), ("huge", "limit"), ("pipe", "not_allowed")):
            assert refused(box, command="view", path=f"/memories/{name}").kind == kind

    def test_a_place_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("a file")
        box = ToolState(Workspace(tmp_path), state_dir=tmp_path / "state")
        assert "the memory is unavailable" in str(refused(box, command="view", path="/memories"))


def each(*values: Any) -> tuple[Any, ...]:
    return values


PATHS = each(
    *("", " ", "/", ".", "..", "a.md", "memories/a.md", "/memoriesx", "/memories.md", "/Memories/a.md", "//memories/a.md"),
    *("/memories/..", "/memories/../secret.txt", "/memories/a/../../secret.txt", "/memories/./../x", "/etc/passwd", "~/x"),
    *("/memories/a.md\0", "/memories/\0", "/memories/\ud800", f"/memories/{'n' * 256}", f"/memories/{'d/' * 2000}x"),
    *(f"/memories/{'a/' * MAX_DEPTH}x", "/memories/a.md/below", "C:\\memories\\a", "file:///memories/a.md", "/tmp/memories/a"),
)
BAD: list[dict[str, Any]] = [
    *({"command": value} for value in each(None, 1, "", "View!", "ls", "undo_edit", [], {}, "\0", "view")),
    {},
    {"path": "/memories"},
    *({"command": "view", "path": path} for path in PATHS),
    *({"command": "create", "path": path, "file_text": "x"} for path in (*PATHS, "/memories", "/memories/", "/memories/new/")),
    *({"command": "delete", "path": path} for path in (*PATHS, "/memories", "/memories/", "/memories/none")),
    *({"command": "rename", "old_path": path, "new_path": "/memories/new.md"} for path in (*PATHS, "/memories")),
    *(
        {"command": "rename", "old_path": "/memories/a.md", "new_path": path}
        for path in (*PATHS, "/memories", "/memories/a.md")
    ),
    {"command": "rename", "old_path": "/memories/f", "new_path": "/memories/f/g"},
    {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/f"},
    {"command": "rename", "old_path": "/memories/f", "new_path": "/memories/a.md"},
    {"command": "rename", "path": "/memories/a.md"},
    {"command": "rename", "new_path": "/memories/b"},
    {"command": "create", "path": "/memories/new.md"},
    *({"command": "create", "path": "/memories/n", "file_text": value} for value in each([], {}, "a\0", "\ud800", "x" * 10**6)),
    *({"command": "view", "path": "/memories/a.md", "view_range": value} for value in each([], [1], [1, 2, 3], [0, 1])),
    *({"command": "view", "path": "/memories/a.md", "view_range": value} for value in each([3, 1], [99, -1], ["a", "b"], {})),
    {"command": "view", "path": "/memories/f", "view_range": [1, 2]},
    *(
        {"command": "insert", "path": "/memories/a.md", "insert_text": "x", "insert_line": value}
        for value in each(None, -1, 3, 10**30, "a", [], {}, 1.5)
    ),
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0},
    {"command": "insert", "path": "/memories/f", "insert_line": 0, "insert_text": "x"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "\0"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "1"},
    {"command": "str_replace", "path": "/memories/a.md", "new_str": "1"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "1", "new_str": "\ud800"},
    {"command": "str_replace", "path": "/memories/none.md", "old_str": "1", "new_str": "2"},
]


class TestBadInput:
    def test_there_is_enough_of_it(self) -> None:
        assert len(BAD) >= 60

    def test_is_a_sentence_and_nothing_changes(self, box: ToolState, folder: Path, state: Path) -> None:
        make(box, a="1\n2\n", f__x="3")
        before = kept(state.parent)
        for arguments in BAD:
            with pytest.raises(ToolError) as raised:
                pytest.fail(f"{arguments}: {told(box, **arguments)}")
            assert raised.value.kind in ("validation", "limit", "not_allowed", "not_found", "execution"), arguments
            assert "Traceback" not in str(raised.value)
            assert "Errno" not in str(raised.value)
            assert kept(state.parent) == before, arguments
