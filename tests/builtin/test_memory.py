"""The tool `memory`: notes that persist, in a directory that nothing leads out of."""

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools
from tests.tools.policy_kit import make_caller

from toolglot import BuiltinOptions, ToolConfig, builtins
from toolglot.builtin import memory as module
from toolglot.builtin.memory import MAX_DEPTH, MAX_FILE_BYTES, create_tools
from toolglot.tools.policy import ToolPolicy


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return Tools(tmp_path / "work", create_tools, state_dir=tmp_path / "state")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    return tmp_path / "state" / "memory" / f"work-{sha256(os.fsencode(work.resolve())).hexdigest()[:16]}"


def make(tools: Tools, **files: str) -> None:
    for name, text in files.items():
        tools("memory", command="create", path=f"/memories/{name.replace('__', '/')}.md", file_text=text)


def read_notes(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class TestCommands:
    def test_without_a_place_there_is_no_tool(self, tmp_path: Path) -> None:
        assert Tools(tmp_path, create_tools).tools == {}

    def test_nothing_is_made_before_it_is_used(self, tools: Tools, directory: Path) -> None:
        assert not directory.parents[1].exists()

    def test_an_empty_memory_can_be_viewed(self, tools: Tools) -> None:
        assert tools("memory", command="view", path="/memories").content == "0B\t/memories/\n[empty]"

    def test_create_makes_a_private_file_and_its_directories(self, tools: Tools, directory: Path) -> None:
        output = tools("memory", command="create", path="/memories/a/b.md", file_text="one\n")
        assert output.content == "created '/memories/a/b.md' (4 bytes)"
        assert read_notes(directory) == {"a/b.md": "one\n"}
        assert stat.S_IMODE((directory / "a/b.md").stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700

    def test_create_replaces_nothing(self, tools: Tools, directory: Path) -> None:
        make(tools, a="one")
        error = tools.failure("memory", command="create", path="/memories/a.md", file_text="two")
        assert "already exists: edit it" in str(error)
        assert read_notes(directory) == {"a.md": "one"}

    def test_view_shows_two_levels_without_hidden_ones(self, tools: Tools, directory: Path) -> None:
        make(tools, b="12345", a__x="1", a__c__y="22", a__c__d__z="333")
        (directory / ".hidden").write_text("h")
        (directory / "a" / ".git").mkdir()
        output = tools("memory", command="view", path="/memories")
        assert output.content.splitlines() == [
            "11B\t/memories/",
            "6B\t/memories/a/",
            "5B\t/memories/a/c/",
            "1B\t/memories/a/x.md",
            "5B\t/memories/b.md",
        ]
        assert output.data["entries"][0] == {"path": "/memories/a", "size": 6, "is_directory": True}

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
    def test_view_shows_lines_with_numbers(
        self, tools: Tools, wanted: Any, lines: list[str], first: int
    ) -> None:
        make(tools, n="a\nb\nc\n")
        output = tools("memory", command="view", path="/memories/n.md", view_range=wanted)
        assert (output.data["lines"], output.data["first"], output.data["total"]) == (lines, first, 3)
        assert output.content.splitlines()[1:] == [
            f"{number}\t{line}" for number, line in enumerate(lines, first)
        ]

    def test_an_empty_file_can_be_viewed(self, tools: Tools) -> None:
        make(tools, n="")
        assert tools("memory", command="view", path="/memories/n.md").content == "'/memories/n.md' is empty."

    def test_str_replace_changes_the_only_place(self, tools: Tools, directory: Path) -> None:
        make(tools, n="a\nb\nc\nd\ne\nf\n")
        output = tools(
            "memory", command="str_replace", path="/memories/n.md", old_str="d\n", new_str="D\nDD\n"
        )
        assert read_notes(directory) == {"n.md": "a\nb\nc\nD\nDD\ne\nf\n"}
        assert output.content.splitlines()[1:4] == ["2\tb", "3\tc", "4\tD"]

    @pytest.mark.parametrize(
        ("old", "words"), [("x", "is not in '/memories/n.md'"), ("a", "(lines 1, 2, 3)"), ("", "is empty")]
    )
    def test_str_replace_wants_exactly_one(self, tools: Tools, directory: Path, old: str, words: str) -> None:
        make(tools, n="a\na\na\n")
        before = read_notes(directory)
        assert words in str(
            tools.failure("memory", command="str_replace", path="/memories/n.md", old_str=old, new_str="z")
        )
        assert read_notes(directory) == before

    @pytest.mark.parametrize(
        ("line", "text", "after"), [(0, "x", "x\na\nb"), (1, "x\n", "a\nx\nb"), (2, "x\ny", "a\nb\nx\ny")]
    )
    def test_insert_puts_lines_after_a_line(
        self, tools: Tools, directory: Path, line: int, text: str, after: str
    ) -> None:
        make(tools, n="a\nb")
        tools("memory", command="insert", path="/memories/n.md", insert_line=line, insert_text=text)
        assert read_notes(directory) == {"n.md": after}

    def test_delete_takes_a_file_or_a_whole_directory(self, tools: Tools, directory: Path) -> None:
        make(tools, a="1", b__c="2", b__d__e="3")
        (directory / "b" / "out").symlink_to(directory.parents[2] / "secret.txt")
        tools("memory", command="delete", path="/memories/a.md")
        output = tools("memory", command="delete", path="/memories/b/")
        assert output.content == "deleted '/memories/b' with everything in it"
        assert list(directory.iterdir()) == []
        assert (directory.parents[2] / "secret.txt").read_text() == "secret"

    def test_rename_moves_files_and_directories(self, tools: Tools, directory: Path) -> None:
        make(tools, a="1", b__c="2")
        tools("memory", command="rename", old_path="/memories/a.md", new_path="/memories/x/y/z.md")
        tools("memory", command="rename", old_path="/memories/b", new_path="/memories/x/b")
        assert read_notes(directory) == {"x/b/c.md": "2", "x/y/z.md": "1"}

    def test_what_it_says_of_its_targets_is_the_real_path(self, tools: Tools, directory: Path) -> None:
        assert tools.target("memory", command="view", path="/memories/a.md") == f"{directory}/a.md"

    def test_it_is_there_in_the_next_conversation(self, tools: Tools) -> None:
        make(tools, a="known")
        again = Tools(tools.root, create_tools, state_dir=tools.state.state_dir)
        assert again.data("memory", command="view", path="/memories/a.md")["lines"] == ["known"]


class TestLimits:
    def test_a_file_is_not_larger_than_that(self, tools: Tools, directory: Path) -> None:
        make(tools, a="x" * (MAX_FILE_BYTES - 1))
        assert (
            tools.failure(
                "memory", command="insert", path="/memories/a.md", insert_line=1, insert_text="yy"
            ).kind
            == "limit"
        )
        assert (
            tools.failure(
                "memory", command="create", path="/memories/b.md", file_text="é" * (MAX_FILE_BYTES - 1)
            ).kind
            == "limit"
        )
        assert list(read_notes(directory)) == ["a.md"]

    def test_the_memory_holds_so_many_files(self, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_FILES", 2)
        make(tools, a="1", b__c="2")
        assert "delete some first" in str(
            tools.failure("memory", command="create", path="/memories/d.md", file_text="3")
        )
        tools("memory", command="insert", path="/memories/a.md", insert_line=0, insert_text="still")

    def test_the_memory_holds_so_many_bytes(self, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_TOTAL_BYTES", 10)
        make(tools, a="12345678")
        assert (
            tools.failure("memory", command="create", path="/memories/d.md", file_text="345").kind == "limit"
        )
        tools(
            "memory", command="str_replace", path="/memories/a.md", old_str="12345678", new_str="1234567890"
        )

    def test_directories_do_not_grow_deep_by_moving(self, tools: Tools, directory: Path) -> None:
        deep = "/".join("abcdefgh")
        tools("memory", command="create", path=f"/memories/{deep}/n.md", file_text="1")
        tools("memory", command="rename", old_path="/memories/a", new_path="/memories/z/a")
        error = tools.failure("memory", command="rename", old_path="/memories/z", new_path="/memories/y/z")
        assert error.kind == "limit"
        assert len(next(iter(read_notes(directory))).split("/")) == MAX_DEPTH


class TestWhatOthersPutThere:
    def test_links_are_not_used(self, tools: Tools, directory: Path, tmp_path: Path) -> None:
        make(tools, real="1\n")
        secret = tmp_path / "secret.txt"
        (directory / "out").symlink_to(secret)
        (directory / "up").symlink_to("..")
        (directory / "dangling").symlink_to("nowhere")
        (directory / "inside").symlink_to("real.md")
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
                assert str(secret) not in str(tools.failure("memory", **arguments))
        assert secret.read_text() == "secret"
        assert (directory / "real.md").read_text() == "1\n"
        assert "out" not in tools("memory", command="view", path="/memories").content

    def test_what_is_no_text_or_no_file_is_refused(self, tools: Tools, directory: Path) -> None:
        make(tools, a="1")
        (directory / "binary").write_bytes(b"\0\1\2")
        (directory / "huge").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
        os.mkfifo(directory / "pipe")
        for name, kind in (("binary", "execution"), ("huge", "limit"), ("pipe", "not_allowed")):
            assert tools.failure("memory", command="view", path=f"/memories/{name}").kind == kind

    def test_a_place_that_cannot_be_made_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("a file")
        tools = Tools(tmp_path, create_tools, state_dir=tmp_path / "state")
        assert "the memory is unavailable" in str(tools.failure("memory", command="view", path="/memories"))


class TestProjects:
    def test_each_project_has_its_own_notes(self, tmp_path: Path, tools: Tools) -> None:
        make(tools, evil="INJECTED")
        (tmp_path / "other").mkdir()
        (tmp_path / "link").symlink_to("work")
        other = Tools(tmp_path / "other", create_tools, state_dir=tmp_path / "state")
        assert "no such file" in str(other.failure("memory", command="view", path="/memories/evil.md"))
        same = Tools(tmp_path / "link", create_tools, state_dir=tmp_path / "state")
        assert same.data("memory", command="view", path="/memories/evil.md")["lines"] == ["INJECTED"]

    def test_shared_notes_are_written_only_with_approval(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            opened = builtins(
                tmp_path / name, state_dir=tmp_path / "state", options=BuiltinOptions(shared_memory=True)
            )
            (tool,) = [tool for tool in opened.tools if tool.name == "memory"]
            if name == "one":
                tool(command="create", path="/memories/a.md", file_text="known")
            assert "known" in tool(command="view", path="/memories/a.md").content
            policy, caller = ToolPolicy(), make_caller(ToolConfig(), can_ask=True)
            actions = [
                policy.judge(tool, caller, {"command": command}).action
                for command in ("view", "create", "delete")
            ]
            assert actions == ["run", "ask", "ask"]
            opened.close()
