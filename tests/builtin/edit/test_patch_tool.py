"""The tool `patch`: files as they are after a patch, and what is said about it."""

import json
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools, read_tree

from toolglot.builtin.edit.patch_tool import MAX_FILE_BYTES, patch_tools
from toolglot.builtin.files.workspace import Change, ChangeResult, FileVersion, Workspace
from toolglot.errors import ToolError

MEASURED = Path(__file__).parents[4] / "shared" / "facades" / "apply_patch_cases.json"
LETTERS = "a\nb\nc\nd\ne\n"
# What the program that this language comes from does otherwise, and why this one does not.
DEPARTURES = {
    "stacked_at_lines": "its own description tells models that they may stack anchors",
    "eof_marker_not_at_end": "its hosted twin looks elsewhere too where the end does not fit",
    "dotdot_path": "nothing outside the workspace is written",
    "multi_file_partial_failure": "a patch is applied whole or not at all",
    "move_same_path": "it deletes the file",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> Tools:
    return Tools(root, patch_tools)


def sections(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def fill(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


def files_of(root: Path) -> dict[str, str]:
    return {name: data.decode() for name, data in read_tree(root).items()}


def load_measured_cases() -> list[Any]:
    if not MEASURED.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="the measured cases are absent"))]
    return [pytest.param(case, id=case["name"]) for case in json.loads(MEASURED.read_text())["cases"]]


class TestMeasuredCases:
    @pytest.mark.parametrize("case", load_measured_cases())
    def test_does_what_the_real_program_did(self, tools: Tools, root: Path, case: dict[str, Any]) -> None:
        fill(root, case["files"])
        text = case["patch"].replace("{CWD}", str(root)).replace("{ID}", "1")
        try:
            output, failed = tools("patch", text=text).content + "\n", ""
        except ToolError as e:
            output, failed = "", str(e)
        if case["name"] in DEPARTURES:
            assert (files_of(root), not failed) != (case["after"], case["ok"]), (
                "no departure any more: take it off the list"
            )
            return
        assert (not failed, files_of(root)) == (case["ok"], case["after"])
        assert output == case["stdout"].replace("{CWD}", str(root))
        real = case["stderr"].replace("{CWD}/", "").partition(": No such file")[0].partition(": path `")[0]
        assert failed.startswith(real.rstrip("\n"))


class TestDepartures:
    def test_a_move_onto_the_same_path_is_refused_because_it_would_delete_the_file(
        self, tools: Tools, root: Path
    ) -> None:
        fill(root, {"f.txt": LETTERS})
        for same in ("f.txt", "./f.txt", str(root / "f.txt")):
            text = sections("*** Update File: f.txt", f"*** Move to: {same}", "@@", "-c", "+C")
            assert "cannot be moved to itself" in str(tools.failure("patch", text=text))
            assert files_of(root) == {"f.txt": LETTERS}

    def test_a_move_onto_a_link_to_the_file_is_the_same_and_refused(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        text = sections("*** Update File: f.txt", "*** Move to: link", "@@", "-c", "+C")
        assert "cannot be moved to itself" in str(tools.failure("patch", text=text))
        assert (root / "f.txt").read_text() == LETTERS

    @pytest.mark.parametrize(
        "lines",
        [
            ("*** Add File: ../out.txt", "+x"),
            ("*** Add File: /tmp/out.txt", "+x"),
            ("*** Add File: sub/../../out.txt", "+x"),
            ("*** Update File: ../secret", "@@", "-s", "+x"),
            ("*** Delete File: ../secret",),
            ("*** Update File: f.txt", "*** Move to: ../out.txt", "@@", "-c", "+C"),
            ("*** Update File: leads/secret", "@@", "-s", "+x"),
            ("*** Add File: leads/new", "+x"),
            ("*** Delete File: leads/secret",),
        ],
    )
    def test_paths_outside_of_the_workspace_are_refused_because_the_tool_itself_confines(
        self, tools: Tools, root: Path, lines: tuple[str, ...]
    ) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "sub").mkdir()
        outside = root.parent
        (outside / "secret").write_text("s\n")
        (root / "leads").symlink_to(outside)
        error = tools.failure("patch", text=sections("*** Add File: first.txt", "+x", *lines))
        assert error.kind == "not_allowed"
        assert {path.name for path in outside.iterdir()} == {"work", "secret"}
        assert {path.name for path in root.iterdir()} == {"f.txt", "leads", "sub"}
        assert (outside / "secret").read_text() == "s\n"

    @pytest.mark.parametrize(
        "last",
        [
            ("*** Update File: g.txt", "@@", "-nope", "+X"),
            ("*** Update File: missing.txt", "@@", "-a", "+X"),
            ("*** Delete File: missing.txt",),
            ("*** Add File: folder", "+x"),
            ("*** Add File: g.txt/below", "+x"),
            ("*** Add File: .git/hooks/pre-commit", "+x"),
            ("*** Update File: g.txt", "*** Move to: folder", "@@", "-1", "+X"),
        ],
    )
    def test_any_failure_changes_nothing_because_half_a_patch_is_no_state_that_anybody_asked_for(
        self, tools: Tools, root: Path, last: tuple[str, ...]
    ) -> None:
        before = {"f.txt": LETTERS, "g.txt": "1\n2\n", "old.txt": "o\n", "folder/x": "x\n"}
        fill(root, before)
        added = ("*** Add File: new/n.txt", "+n", "*** Add File: new/m.txt", "+m")
        first = ("*** Update File: f.txt", "@@", "-c", "+C", *added, "*** Delete File: old.txt")
        tools.failure("patch", text=sections(*first, *last))
        assert files_of(root) == before
        assert not (root / "new").exists()
        assert not (root / ".git").exists()

    def test_stacked_anchors_are_followed_one_after_the_other_because_models_are_reported_to_stack_them(
        self, tools: Tools, root: Path
    ) -> None:
        source = (
            "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        "
            "return 1\n"
        )
        fill(root, {"f.py": source})
        lines = ("@@ class B:", "@@     def run(self):", "-        return 1", "+        return 2")
        tools("patch", text=sections("*** Update File: f.py", *lines))
        assert files_of(root)["f.py"] == source[:-2] + "2\n"

    def test_lines_marked_as_the_end_are_found_elsewhere_because_the_hosted_tool_does_so(
        self, tools: Tools, root: Path
    ) -> None:
        fill(root, {"f.txt": LETTERS, "g.txt": "x\ny\nx\ny\n"})
        tools("patch", text=sections("*** Update File: f.txt", "@@", "-b", "+B", "*** End of File"))
        tools("patch", text=sections("*** Update File: g.txt", "@@", " x", "-y", "+Y", "*** End of File"))
        assert files_of(root) == {"f.txt": "a\nB\nc\nd\ne\n", "g.txt": "x\ny\nx\nY\n"}


class TestWhatIsDone:
    def test_one_patch_adds_moves_updates_and_deletes(self, tools: Tools, root: Path) -> None:
        fill(root, {"app/cart.py": "class Cart:\n    pass\n", "old.py": "x\ny\n"})
        text = sections(
            *("*** Add File: notes/todo.md", "+# Todo", "+", "+- ship"),
            *(
                "*** Update File: app/cart.py",
                "*** Move to: app/basket.py",
                "@@ class Cart:",
                "-    pass",
                "+    size = 0",
            ),
            "*** Delete File: old.py",
        )
        out = tools("patch", text=text)
        assert (
            out.content == "Success. Updated the following files:\nA notes/todo.md\nM app/basket.py\nD old.py"
        )
        assert files_of(root) == {
            "app/basket.py": "class Cart:\n    size = 0\n",
            "notes/todo.md": "# Todo\n\n- ship\n",
        }
        added, moved, deleted = out.data["files"]
        assert (added["op"], added["path"], added["moved_to"]) == ("add", "notes/todo.md", None)
        assert added["diff"] == "--- /dev/null\n+++ notes/todo.md\n@@ -0,0 +1,3 @@\n+# Todo\n+\n+- ship\n"
        assert (moved["op"], moved["path"], moved["moved_to"]) == ("update", "app/cart.py", "app/basket.py")
        assert (
            moved["diff"]
            == "--- app/cart.py\n+++ app/basket.py\n@@ -1,2 +1,2 @@\n class Cart:\n-    pass\n+    size = 0\n"
        )
        assert (deleted["op"], deleted["truncated"]) == ("delete", False)
        assert deleted["diff"] == "--- old.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"

    def test_later_sections_see_what_earlier_ones_did(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS, "gone.txt": "g\n"})
        text = sections(
            *("*** Update File: f.txt", "@@", "-a", "+A"),
            *("*** Update File: ./f.txt", "@@", "-A", "+AA"),
            *("*** Add File: n.txt", "+n", "*** Update File: n.txt", "*** Move to: m.txt", "@@", "-n", "+m"),
            *("*** Delete File: gone.txt", "*** Add File: gone.txt", "+back"),
            *("*** Add File: never.txt", "+x", "*** Delete File: never.txt"),
        )
        tools("patch", text=text)
        assert files_of(root) == {"f.txt": "AA\nb\nc\nd\ne\n", "m.txt": "m\n", "gone.txt": "back\n"}

    def test_what_was_deleted_cannot_be_updated_afterwards(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        lines = ("*** Delete File: f.txt", "*** Update File: f.txt", "@@", "-a", "+A")
        assert "Failed to read file to update f.txt" in str(tools.failure("patch", text=sections(*lines)))
        assert files_of(root) == {"f.txt": LETTERS}

    def test_two_files_change_places_step_by_step(self, tools: Tools, root: Path) -> None:
        fill(root, {"a": "1\n", "b": "2\n"})
        moves = [("a", "t", "-1", "+1"), ("b", "a", "-2", "+2"), ("t", "b", "-1", "+1")]
        lines = [
            line
            for old, new, *chunk in moves
            for line in (f"*** Update File: {old}", f"*** Move to: {new}", "@@", *chunk)
        ]
        tools("patch", text=sections(*lines))
        assert files_of(root) == {"a": "2\n", "b": "1\n"}

    def test_the_hosted_form_does_the_same(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS, "old.txt": "o\n"})
        ops = [
            {"type": "create_file", "path": "new.txt", "diff": "+one\n+two\n"},
            {"type": "update_file", "path": "f.txt", "diff": "@@\n b\n-c\n+C\n"},
            {"type": "delete_file", "path": "old.txt"},
        ]
        out = tools("patch", ops=ops)
        assert out.content == "Success. Updated the following files:\nA new.txt\nM f.txt\nD old.txt"
        assert files_of(root) == {"new.txt": "one\ntwo\n", "f.txt": "a\nb\nC\nd\ne\n"}

    def test_bytes_that_are_no_text_and_endings_and_marks_stay(self, tools: Tools, root: Path) -> None:
        (root / "f").write_bytes(b"\xef\xbb\xbfhead\r\n\xff\xfe caf\xe9\r\nc\r\nlast")
        tools("patch", text=sections("*** Update File: f", "@@", "-head", "+Head", "@@", "-c", "+C"))
        assert (root / "f").read_bytes() == b"\xef\xbb\xbfHead\r\n\xff\xfe caf\xe9\r\nC\r\nlast\r\n"

    def test_a_file_with_returns_alone_keeps_them(self, tools: Tools, root: Path) -> None:
        (root / "f").write_bytes(b"a\rb\rc\r")
        tools("patch", text=sections("*** Update File: f", "@@", " a", "-b", "+B", "+B2"))
        assert (root / "f").read_bytes() == b"a\rB\rB2\rc\r"

    def test_rights_stay_with_a_file_also_where_it_moves(self, tools: Tools, root: Path) -> None:
        fill(root, {"run.sh": "a\n", "go.sh": "a\n"})
        for name in ("run.sh", "go.sh"):
            (root / name).chmod(0o750)
        lines = (
            "*** Update File: run.sh",
            "@@",
            "-a",
            "+b",
            "*** Update File: go.sh",
            "*** Move to: to.sh",
            "@@",
            "-a",
            "+b",
        )
        tools("patch", text=sections(*lines))
        assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("run.sh", "to.sh")] == [0o750, 0o750]

    def test_a_link_is_updated_where_it_leads_but_neither_deleted_nor_moved(
        self, tools: Tools, root: Path
    ) -> None:
        fill(root, {"sub/f.txt": "a\n"})
        (root / "link").symlink_to("sub/f.txt")
        tools("patch", text=sections("*** Update File: link", "@@", "-a", "+b"))
        for lines in (
            ("*** Delete File: link",),
            ("*** Update File: link", "*** Move to: x", "@@", "-b", "+c"),
        ):
            error = tools.failure("patch", text=sections(*lines))
            assert error.kind == "not_allowed"
            assert "use the path of the file that it leads to" in str(error)
        assert (root / "link").is_symlink()
        assert (root / "sub/f.txt").read_text() == "b\n"
        tools("patch", text=sections("*** Delete File: sub/../sub/f.txt"))
        assert not (root / "sub/f.txt").exists()

    def test_two_names_of_one_file_are_one_file(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        tools(
            "patch",
            text=sections(
                "*** Update File: link", "@@", "-a", "+A", "*** Update File: f.txt", "@@", "-A", "+AA"
            ),
        )
        assert (root / "f.txt").read_text() == "AA\nb\nc\nd\ne\n"

    def test_a_large_file_can_be_deleted_but_not_updated(self, tools: Tools, root: Path) -> None:
        with (root / "big").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        assert tools.failure("patch", text=sections("*** Update File: big", "@@", "-a", "+A")).kind == "limit"
        (row,) = tools("patch", text=sections("*** Delete File: big")).data["files"]
        assert (row["diff"], row["truncated"]) == ("", True)

    def test_a_long_diff_is_cut_and_says_so(self, tools: Tools) -> None:
        lines = [f"+{'x' * 90}"] * 3000
        first, second = tools(
            "patch", text=sections("*** Add File: a", *lines, "*** Add File: b", *lines)
        ).data["files"]
        assert (first["truncated"], second["truncated"], second["diff"]) == (True, True, "")
        assert len(first["diff"]) == 100_000

    def test_a_file_that_is_not_utf8_is_shown_as_windows_1252(self, tools: Tools, root: Path) -> None:
        (root / "f").write_bytes(b"caf\xe9\na\n")
        data = tools.data("patch", text=sections("*** Update File: f", "@@", "-a", "+A"))
        assert " café\n" in data["files"][0]["diff"]


class Meddling(Workspace):
    """Somebody changes a file between the reading and the writing."""

    def __init__(self, root: Path, name: str, text: str) -> None:
        super().__init__(root)
        self._meddled = root / name, text

    def apply_changes(self, changes: Iterable[Change]) -> list[ChangeResult]:
        path, text = self._meddled
        path.write_text(text)
        return super().apply_changes(changes)


CHANGED = "'f.txt' has changed since it was read: read it again"


class TestWhoElseWrites:
    @pytest.mark.parametrize(
        ("name", "lines", "message"),
        [
            ("f.txt", ("*** Update File: f.txt", "@@", "-a", "+A"), CHANGED),
            ("f.txt", ("*** Delete File: f.txt",), CHANGED),
            ("f.txt", ("*** Add File: f.txt", "+x"), CHANGED),
            ("f.txt", ("*** Update File: f.txt", "*** Move to: g.txt", "@@", "-a", "+A"), CHANGED),
            (
                "g.txt",
                ("*** Update File: f.txt", "*** Move to: g.txt", "@@", "-a", "+A"),
                "'g.txt' already exists",
            ),
            ("g.txt", ("*** Add File: g.txt", "+x"), "'g.txt' already exists"),
        ],
    )
    def test_what_changed_meanwhile_is_not_overwritten(
        self, root: Path, name: str, lines: tuple[str, ...], message: str
    ) -> None:
        fill(root, {"f.txt": LETTERS})
        workspace = Meddling(root, name, "of somebody else\n")
        tools = Tools(root, patch_tools)
        tools.state.workspace = workspace
        error = tools.failure("patch", text=sections("*** Add File: other", "+x", *lines))
        assert str(error) == message
        assert files_of(root) == {"f.txt": LETTERS} | {name: "of somebody else\n"}
        workspace.close()

    def test_what_the_model_has_seen_is_kept_in_mind(self, tools: Tools, root: Path) -> None:
        fill(root, {"seen": "a\n", "unseen": "a\n", "stale": "a\n", "gone": "a\n"})
        for name in ("seen", "gone"):
            tools.state.mark_seen(root / name, FileVersion.from_status((root / name).stat()))
        old = FileVersion(0, 0, 0, 0)
        tools.state.mark_seen(root / "stale", old)
        changes = [
            line
            for name in ("seen", "unseen", "stale")
            for line in (f"*** Update File: {name}", "@@", "-a", "+b")
        ]
        tools("patch", text=sections(*changes, "*** Add File: new", "+n", "*** Delete File: gone"))
        now = {name: FileVersion.from_status((root / name).stat()) for name in ("seen", "new")}
        assert tools.state.seen_versions == {
            root / "seen": now["seen"],
            root / "new": now["new"],
            root / "stale": old,
        }

    def test_a_cancelled_patch_changes_nothing(self, tools: Tools, root: Path) -> None:
        flag = threading.Event()
        flag.set()
        assert tools.failure("patch", flag, text=sections("*** Add File: a", "+x")).kind == "cancelled"
        assert files_of(root) == {}


class TestWhatIsToldBefore:
    def test_the_preview_shows_what_is_replaced_and_deleted_and_changes_nothing(
        self, tools: Tools, root: Path
    ) -> None:
        fill(root, {"old": "precious\n", "gone": "lost\n", "from": "a\n", "to": "overwritten\n", "empty": ""})
        (root / "binary").write_bytes(b"\0\xff")
        before = {path.name: path.read_bytes() for path in root.iterdir()}
        move = ("*** Update File: from", "*** Move to: to", "@@", "-a", "+A")
        gone = ("*** Delete File: gone", "*** Delete File: empty", "*** Add File: binary", "+x")
        shown = tools.preview(
            "patch", text=sections("*** Add File: old", "+new", "*** Add File: fresh", "+f", *move, *gone)
        )
        unknown = "(what it contains now is not text, or too long to show)"
        assert shown.split("\n\n") == [
            "replace old\n--- old\n+++ old\n@@ -1 +1 @@\n-precious\n+new",
            "add fresh\n--- /dev/null\n+++ fresh\n@@ -0,0 +1 @@\n+f",
            "replace to\n--- to\n+++ /dev/null\n@@ -1 +0,0 @@\n-overwritten",
            "move from to to\n--- from\n+++ to\n@@ -1 +1 @@\n-a\n+A",
            "delete gone\n--- gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-lost",
            "delete empty",
            f"replace binary {unknown}\n--- binary\n+++ binary\n@@ -0,0 +1 @@\n+x\n",
        ]
        assert {path.name: path.read_bytes() for path in root.iterdir()} == before

    def test_a_preview_is_never_truncated(self, tools: Tools, root: Path) -> None:
        fill(root, {"long": "a line of the file\n" * 10_000 + "the end\n"})
        assert tools.preview("patch", text=sections("*** Delete File: long")).endswith("-the end\n")

    @pytest.mark.parametrize("path", [".git/hooks/pre-commit", "new/.git/config"])
    def test_the_preview_of_what_will_fail_says_why(self, tools: Tools, path: str) -> None:
        with pytest.raises(ToolError, match=r"'\.git' is protected"):
            tools.preview("patch", text=sections(f"*** Add File: {path}", "+x"))
        with pytest.raises(ToolError, match="No such file"):
            tools.preview("patch", text=sections("*** Delete File: nothing"))

    def test_the_target_names_the_real_files(self, tools: Tools, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        text = sections(
            "*** Update File: link", "*** Move to: g.txt", "@@", "-a", "+A", "*** Delete File: ./f.txt"
        )
        assert tools.target("patch", text=text) == "f.txt, g.txt"
        assert tools.target("patch", text="no patch") == ""
        assert tools.target("patch", text=sections("*** Delete File: ../x")) == "../x"
        ops = [{"type": "update_file", "path": "f.txt", "diff": "@@\n-a\n+A", "more": 1}]
        assert tools.preview("patch", ops=ops).startswith(
            "update f.txt\n--- f.txt\n+++ f.txt\n@@ -1,4 +1,4 @@\n-a\n+A\n"
        )
        assert tools.target("patch", ops=ops) == "f.txt"

    def test_the_example_is_a_patch_that_works(self, tools: Tools, root: Path) -> None:
        tool = tools.tools["patch"]
        assert tool.effects == {"read", "write"}
        fill(root, {"app/cart.py": "class Cart:\n    def total(self):\n        return sum(self.items)\n"})
        (example,) = tool.definition.examples
        tools("patch", **example.input)
        assert files_of(root)["notes/todo.md"] == "# Todo\n"

    def test_a_missing_file_is_answered_with_names_that_are_like_it(self, tools: Tools, root: Path) -> None:
        fill(root, {"src/settings.py": "a\n"})
        error = tools.failure("patch", text=sections("*** Update File: src/setings.py", "@@", "-a", "+b"))
        hint = "No such file or directory; did you mean 'src/settings.py'?"
        assert str(error) == f"Failed to read file to update src/setings.py: {hint}"
