"""The tool `patch`: files as they are after a patch, and what is said about it."""

import json
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.edit.patch_tool import MAX_FILE_BYTES, MAX_FILES, MAX_PATCH_CHARS, patch_tools
from toolglot.builtin.files.workspace import Change, ChangeResult, FileVersion, Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, as_result

MEASURED = Path(__file__).parents[4] / "shared" / "facades" / "apply_patch_cases.json"
LETTERS = "a\nb\nc\nd\ne\n"
# What the program that this language comes from does otherwise, and why this one does not.
DEPARTURES = {
    "stacked_at_lines": "its own description tells models that they may stack anchors",
    "eof_marker_not_at_end": "its hosted twin looks elsewhere too where the end does not fit",
    "dotdot_path": "nothing outside of the workspace is written",
    "multi_file_partial_failure": "a patch is applied whole or not at all",
    "move_same_path": "it deletes the file",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def box(root: Path) -> Iterator[ToolState]:
    workspace = Workspace(root)
    yield ToolState(workspace)
    workspace.close()


def patched(box: ToolState, *, flag: threading.Event | None = None, **arguments: Any) -> ToolOutput:
    (tool,) = patch_tools(box)
    call = ToolCall("c1", "patch", arguments)
    return tool.call(tool.bind(call).values, Context(call, cancel_flag=flag))


def sections(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def fill(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


def files_of(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_bytes().decode() for path in sorted(root.rglob("*")) if path.is_file()}


def refused(box: ToolState, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as raised:
        patched(box, **arguments)
    return raised.value


def measured() -> list[Any]:
    if not MEASURED.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="the measured cases are absent"))]
    return [pytest.param(case, id=case["name"]) for case in json.loads(MEASURED.read_text())["cases"]]


class TestMeasuredCases:
    @pytest.mark.parametrize("case", measured())
    def test_does_what_the_real_program_did(self, box: ToolState, root: Path, case: dict[str, Any]) -> None:
        fill(root, case["files"])
        text = case["patch"].replace("{CWD}", str(root)).replace("{ID}", "1")
        try:
            said, failed = patched(box, text=text).content + "\n", ""
        except ToolError as e:
            said, failed = "", str(e)
        if case["name"] in DEPARTURES:
            assert (files_of(root), not failed) != (case["after"], case["ok"]), "no departure any more: take it off the list"
            return
        assert (not failed, files_of(root)) == (case["ok"], case["after"])
        assert said == case["stdout"].replace("{CWD}", str(root))
        real = case["stderr"].replace("{CWD}/", "").partition(": No such file")[0].partition(": path `")[0]
        assert failed.startswith(real.rstrip("\n"))


class TestDepartures:
    def test_a_move_onto_the_same_path_is_refused_because_it_would_delete_the_file(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        for same in ("f.txt", "./f.txt", str(root / "f.txt")):
            text = sections("*** Update File: f.txt", f"*** Move to: {same}", "@@", "-c", "+C")
            assert "cannot be moved to itself" in str(refused(box, text=text))
            assert files_of(root) == {"f.txt": LETTERS}

    def test_a_move_onto_a_link_to_the_file_is_the_same_and_refused(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        text = sections("*** Update File: f.txt", "*** Move to: link", "@@", "-c", "+C")
        assert "cannot be moved to itself" in str(refused(box, text=text))
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
        self, box: ToolState, root: Path, lines: tuple[str, ...]
    ) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "sub").mkdir()
        outside = root.parent
        (outside / "secret").write_text("s\n")
        (root / "leads").symlink_to(outside)
        error = refused(box, text=sections("*** Add File: first.txt", "+x", *lines))
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
        self, box: ToolState, root: Path, last: tuple[str, ...]
    ) -> None:
        before = {"f.txt": LETTERS, "g.txt": "1\n2\n", "old.txt": "o\n", "folder/x": "x\n"}
        fill(root, before)
        added = ("*** Add File: new/n.txt", "+n", "*** Add File: new/m.txt", "+m")
        first = ("*** Update File: f.txt", "@@", "-c", "+C", *added, "*** Delete File: old.txt")
        refused(box, text=sections(*first, *last))
        assert files_of(root) == before
        assert not (root / "new").exists()
        assert not (root / ".git").exists()

    def test_stacked_anchors_are_followed_one_after_the_other_because_models_are_told_to_stack_them(
        self, box: ToolState, root: Path
    ) -> None:
        source = "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        return 1\n"
        fill(root, {"f.py": source})
        lines = ("@@ class B:", "@@     def run(self):", "-        return 1", "+        return 2")
        patched(box, text=sections("*** Update File: f.py", *lines))
        assert files_of(root)["f.py"] == source[:-2] + "2\n"

    def test_lines_marked_as_the_end_are_found_elsewhere_because_the_hosted_tool_does_so(
        self, box: ToolState, root: Path
    ) -> None:
        fill(root, {"f.txt": LETTERS, "g.txt": "x\ny\nx\ny\n"})
        patched(box, text=sections("*** Update File: f.txt", "@@", "-b", "+B", "*** End of File"))
        patched(box, text=sections("*** Update File: g.txt", "@@", " x", "-y", "+Y", "*** End of File"))
        assert files_of(root) == {"f.txt": "a\nB\nc\nd\ne\n", "g.txt": "x\ny\nx\nY\n"}


class TestWhatIsDone:
    def test_one_patch_adds_moves_updates_and_deletes(self, box: ToolState, root: Path) -> None:
        fill(root, {"app/cart.py": "class Cart:\n    pass\n", "old.py": "x\ny\n"})
        text = sections(
            *("*** Add File: notes/todo.md", "+# Todo", "+", "+- ship"),
            *("*** Update File: app/cart.py", "*** Move to: app/basket.py", "@@ class Cart:", "-    pass", "+    size = 0"),
            "*** Delete File: old.py",
        )
        out = patched(box, text=text)
        assert out.content == "Success. Updated the following files:\nA notes/todo.md\nM app/basket.py\nD old.py"
        assert files_of(root) == {"app/basket.py": "class Cart:\n    size = 0\n", "notes/todo.md": "# Todo\n\n- ship\n"}
        added, moved, deleted = out.data["files"]
        assert (added["op"], added["path"], added["moved_to"]) == ("add", "notes/todo.md", None)
        assert added["diff"] == "--- /dev/null\n+++ notes/todo.md\n@@ -0,0 +1,3 @@\n+# Todo\n+\n+- ship\n"
        assert (moved["op"], moved["path"], moved["moved_to"]) == ("update", "app/cart.py", "app/basket.py")
        assert moved["diff"] == "--- app/cart.py\n+++ app/basket.py\n@@ -1,2 +1,2 @@\n class Cart:\n-    pass\n+    size = 0\n"
        assert (deleted["op"], deleted["truncated"]) == ("delete", False)
        assert deleted["diff"] == "--- old.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"

    def test_later_sections_see_what_earlier_ones_did(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS, "gone.txt": "g\n"})
        text = sections(
            *("*** Update File: f.txt", "@@", "-a", "+A"),
            *("*** Update File: ./f.txt", "@@", "-A", "+AA"),
            *("*** Add File: n.txt", "+n", "*** Update File: n.txt", "*** Move to: m.txt", "@@", "-n", "+m"),
            *("*** Delete File: gone.txt", "*** Add File: gone.txt", "+back"),
            *("*** Add File: never.txt", "+x", "*** Delete File: never.txt"),
        )
        patched(box, text=text)
        assert files_of(root) == {"f.txt": "AA\nb\nc\nd\ne\n", "m.txt": "m\n", "gone.txt": "back\n"}

    def test_what_was_deleted_cannot_be_updated_afterwards(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        lines = ("*** Delete File: f.txt", "*** Update File: f.txt", "@@", "-a", "+A")
        assert "Failed to read file to update f.txt" in str(refused(box, text=sections(*lines)))
        assert files_of(root) == {"f.txt": LETTERS}

    def test_two_files_change_places_step_by_step(self, box: ToolState, root: Path) -> None:
        fill(root, {"a": "1\n", "b": "2\n"})
        moves = [("a", "t", "-1", "+1"), ("b", "a", "-2", "+2"), ("t", "b", "-1", "+1")]
        lines = [
            line for old, new, *chunk in moves for line in (f"*** Update File: {old}", f"*** Move to: {new}", "@@", *chunk)
        ]
        patched(box, text=sections(*lines))
        assert files_of(root) == {"a": "2\n", "b": "1\n"}

    def test_the_hosted_form_does_the_same(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS, "old.txt": "o\n"})
        ops = [
            {"type": "create_file", "path": "new.txt", "diff": "+one\n+two\n"},
            {"type": "update_file", "path": "f.txt", "diff": "@@\n b\n-c\n+C\n"},
            {"type": "delete_file", "path": "old.txt"},
        ]
        out = patched(box, ops=ops)
        assert out.content == "Success. Updated the following files:\nA new.txt\nM f.txt\nD old.txt"
        assert files_of(root) == {"new.txt": "one\ntwo\n", "f.txt": "a\nb\nC\nd\ne\n"}

    def test_bytes_that_are_no_text_and_endings_and_marks_stay(self, box: ToolState, root: Path) -> None:
        (root / "f").write_bytes(b"\xef\xbb\xbfhead\r\n\xff\xfe caf\xe9\r\nc\r\nlast")
        patched(box, text=sections("*** Update File: f", "@@", "-head", "+Head", "@@", "-c", "+C"))
        assert (root / "f").read_bytes() == b"\xef\xbb\xbfHead\r\n\xff\xfe caf\xe9\r\nC\r\nlast\r\n"

    def test_rights_stay_with_a_file_also_where_it_moves(self, box: ToolState, root: Path) -> None:
        fill(root, {"run.sh": "a\n", "go.sh": "a\n"})
        for name in ("run.sh", "go.sh"):
            (root / name).chmod(0o750)
        lines = ("*** Update File: run.sh", "@@", "-a", "+b", "*** Update File: go.sh", "*** Move to: to.sh", "@@", "-a", "+b")
        patched(box, text=sections(*lines))
        assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("run.sh", "to.sh")] == [0o750, 0o750]

    def test_a_link_is_updated_where_it_leads_but_neither_deleted_nor_moved(self, box: ToolState, root: Path) -> None:
        fill(root, {"sub/f.txt": "a\n"})
        (root / "link").symlink_to("sub/f.txt")
        patched(box, text=sections("*** Update File: link", "@@", "-a", "+b"))
        for lines in (("*** Delete File: link",), ("*** Update File: link", "*** Move to: x", "@@", "-b", "+c")):
            error = refused(box, text=sections(*lines))
            assert error.kind == "not_allowed"
            assert "use the path of the file that it leads to" in str(error)
        assert (root / "link").is_symlink()
        assert (root / "sub/f.txt").read_text() == "b\n"
        patched(box, text=sections("*** Delete File: sub/../sub/f.txt"))
        assert not (root / "sub/f.txt").exists()

    def test_two_names_of_one_file_are_one_file(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        patched(box, text=sections("*** Update File: link", "@@", "-a", "+A", "*** Update File: f.txt", "@@", "-A", "+AA"))
        assert (root / "f.txt").read_text() == "AA\nb\nc\nd\ne\n"

    def test_a_large_file_can_be_deleted_but_not_updated(self, box: ToolState, root: Path) -> None:
        with (root / "big").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        assert refused(box, text=sections("*** Update File: big", "@@", "-a", "+A")).kind == "limit"
        (row,) = patched(box, text=sections("*** Delete File: big")).data["files"]
        assert (row["diff"], row["truncated"]) == ("", True)

    def test_a_long_diff_is_cut_and_says_so(self, box: ToolState) -> None:
        lines = [f"+{'x' * 90}"] * 3000
        first, second = patched(box, text=sections("*** Add File: a", *lines, "*** Add File: b", *lines)).data["files"]
        assert (first["truncated"], second["truncated"], second["diff"]) == (True, True, "")
        assert len(first["diff"]) == 100_000

    def test_a_file_that_is_not_utf8_is_shown_as_windows_1252(self, box: ToolState, root: Path) -> None:
        (root / "f").write_bytes(b"caf\xe9\na\n")
        out = patched(box, text=sections("*** Update File: f", "@@", "-a", "+A"))
        result = as_result(out, ToolCall("c1", "patch", {}))
        assert not result.is_error
        assert " café\n" in result.data["files"][0]["diff"]


class Meddling(Workspace):
    """Somebody changes a file between the reading and the writing."""

    def __init__(self, root: Path, name: str, text: str) -> None:
        super().__init__(root)
        self._meddled = root / name, text

    def apply_changes(self, changes: Iterable[Change]) -> list[ChangeResult]:
        path, text = self._meddled
        path.write_text(text)
        return super().apply_changes(changes)


class TestWhoElseWrites:
    @pytest.mark.parametrize(
        ("name", "lines"),
        [
            ("f.txt", ("*** Update File: f.txt", "@@", "-a", "+A")),
            ("f.txt", ("*** Delete File: f.txt",)),
            ("f.txt", ("*** Add File: f.txt", "+x")),
            ("f.txt", ("*** Update File: f.txt", "*** Move to: g.txt", "@@", "-a", "+A")),
            ("g.txt", ("*** Update File: f.txt", "*** Move to: g.txt", "@@", "-a", "+A")),
            ("g.txt", ("*** Add File: g.txt", "+x")),
        ],
    )
    def test_what_changed_meanwhile_is_not_overwritten(self, root: Path, name: str, lines: tuple[str, ...]) -> None:
        fill(root, {"f.txt": LETTERS})
        workspace = Meddling(root, name, "of somebody else\n")
        error = refused(ToolState(workspace), text=sections("*** Add File: other", "+x", *lines))
        assert "has changed since it was read" in str(error) or "already exists" in str(error)
        assert files_of(root) == {"f.txt": LETTERS} | {name: "of somebody else\n"}
        workspace.close()

    def test_what_the_model_has_seen_is_kept_in_mind(self, box: ToolState, root: Path) -> None:
        fill(root, {"seen": "a\n", "unseen": "a\n", "stale": "a\n", "gone": "a\n"})
        for name in ("seen", "gone"):
            box.mark_seen(root / name, FileVersion.from_status((root / name).stat()))
        old = FileVersion(0, 0, 0, 0)
        box.mark_seen(root / "stale", old)
        changes = [line for name in ("seen", "unseen", "stale") for line in (f"*** Update File: {name}", "@@", "-a", "+b")]
        patched(box, text=sections(*changes, "*** Add File: new", "+n", "*** Delete File: gone"))
        now = {name: FileVersion.from_status((root / name).stat()) for name in ("seen", "new")}
        assert box.seen_versions == {root / "seen": now["seen"], root / "new": now["new"], root / "stale": old}

    def test_a_cancelled_patch_changes_nothing(self, box: ToolState, root: Path) -> None:
        flag = threading.Event()
        flag.set()
        with pytest.raises(ToolError) as raised:
            patched(box, flag=flag, text=sections("*** Add File: a", "+x"))
        assert raised.value.kind == "cancelled"
        assert files_of(root) == {}


class TestWhatIsToldBefore:
    def test_the_preview_is_the_patch_and_the_target_the_real_files(self, box: ToolState, root: Path) -> None:
        fill(root, {"f.txt": LETTERS})
        (root / "link").symlink_to("f.txt")
        (tool,) = patch_tools(box)
        text = sections("*** Update File: link", "*** Move to: g.txt", "@@", "-a", "+A", "*** Delete File: ./f.txt")
        assert tool.target is not None
        assert tool.preview is not None
        assert tool.target({"text": text}) == "f.txt, g.txt"
        assert tool.preview({"text": text}) == text
        assert tool.target({"text": "no patch"}) == ""
        assert tool.target({"text": sections("*** Delete File: ../x")}) == "../x"
        ops = [{"type": "update_file", "path": "f.txt", "diff": "@@\n-a\n+A", "more": 1}]
        assert tool.preview({"ops": ops}) == sections("*** Update File: f.txt", "@@", "-a", "+A")
        assert tool.target({"ops": ops}) == "f.txt"

    def test_the_example_is_a_patch_that_works(self, box: ToolState, root: Path) -> None:
        (tool,) = patch_tools(box)
        assert tool.effects == {"read", "write"}
        fill(root, {"app/cart.py": "class Cart:\n    def total(self):\n        return sum(self.items)\n"})
        (example,) = tool.definition.examples
        patched(box, **example.input)
        assert files_of(root)["notes/todo.md"] == "# Todo\n"


def update(*lines: str, path: str = "f.txt") -> dict[str, Any]:
    return {"text": sections(f"*** Update File: {path}", *lines)}


def hosted(**operation: Any) -> dict[str, Any]:
    return {"ops": [operation]}


PATHS = [
    *("..", ".", "/", "//", "folder", "folder/", "f.txt/", "f.txt/x", "folder/..", "../f.txt", "/etc/passwd", "~/x/../../../x"),
    *("missing/../f2", "a\0b", "x" * 300, "d/" * 3000 + "x", ".git/config", "sub/.GIT/config", ".vscode/x", "pipe", "dangling"),
]
BAD: list[dict[str, Any]] = [
    *({}, {"text": ""}, {"text": None}, {"text": []}, {"text": {}}, {"ops": []}, {"ops": None}, {"ops": "x"}, {"ops": 7}),
    *({"ops": [None]}, {"ops": [[]]}, {"ops": ["delete_file"]}, {"input": "x"}, {"text": "x", "nonsense": 1}),
    {"text": sections("*** Delete File: f.txt"), "ops": [{"type": "delete_file", "path": "f.txt"}]},
    *(
        {"text": text}
        for text in ("x", " ", "\n", "\0", "***", "*** Begin Patch", "*** End Patch", "*** Begin Patch\n*** End Patch")
    ),
    *({"text": text} for text in ("*** begin patch\n*** end patch", "*** End Patch\n*** Begin Patch", "<<EOF\nEOF", "<<'EOF'")),
    *({"text": sections(line)} for line in ("@@", "+x", "-x", " x", "x", "*** End of File", "*** Move to: g", "*** Add File:")),
    *({"text": sections(line)} for line in ("*** Delete File: ", "*** Update File:", "*** Update File: f.txt", "--- a/f.txt")),
    *(
        update(line)
        for line in ("@@", "x", "*** End of File", "@@\n*** End of File", "@@\n@@", "@@x", "@@ nope\n-a", "@@\n-zzz")
    ),
    *(
        update(*lines)
        for lines in (("@@", "-e", "@@", "-a"), ("@@", "-a", "x"), ("-a", "-c"), ("@@ e", "-a"), ("@@", " a\ud800"))
    ),
    {"text": sections("*** Delete File: f.txt", "*** Update File: f.txt", "@@", "-a")},
    {"text": sections("*** Delete File: f.txt", "*** Delete File: f.txt")},
    {"text": sections("*** Delete File: f.txt", "x")},
    {"text": sections("*** Add File: new", "no plus")},
    {"text": sections("*** Add File: new", "+\udce9")},
    {"text": sections(*(f"*** Add File: {number}" for number in range(MAX_FILES + 1)))},
    {"text": sections("*** Add File: new", "+" + "x" * MAX_PATCH_CHARS)},
    hosted(),
    hosted(type="delete_file"),
    hosted(path="f.txt"),
    hosted(type="rename_file", path="f.txt"),
    hosted(type="delete_file", path=""),
    hosted(type="delete_file", path="f.txt\n*** Delete File: g"),
    hosted(type="delete_file", path=[]),
    hosted(type="delete_file", path="nope"),
    hosted(type="create_file", path="n", diff="no plus"),
    hosted(type="create_file", path="n", diff="+x\n y"),
    hosted(type="create_file", path="n", diff="+\ud800"),
    hosted(type="update_file", path="f.txt"),
    hosted(type="update_file", path="f.txt", diff=""),
    hosted(type="update_file", path="f.txt", diff="@@"),
    hosted(type="update_file", path="f.txt", diff="@@\n-zzz"),
    hosted(type="update_file", path="f.txt", diff=sections("*** Delete File: f.txt")),
    hosted(type="update_file", path="f.txt", diff="@@\n-a\n*** Delete File: f.txt"),
    hosted(type="update_file", path="nope", diff="@@\n-a"),
    *({"text": sections(f"*** Add File: {path}", "+x")} for path in PATHS),
    *({"text": sections(f"*** Delete File: {path}")} for path in PATHS),
    *(update("@@", "-a", "+A", path=path) for path in PATHS),
    *(update(f"*** Move to: {path}", "@@", "-a", "+A") for path in PATHS),
]


class TestBadInput:
    @pytest.mark.parametrize("arguments", [pytest.param(one, id=str(number)) for number, one in enumerate(BAD)])
    def test_is_a_sentence_and_has_no_effect(self, box: ToolState, root: Path, arguments: dict[str, Any]) -> None:
        fill(root, {"f.txt": LETTERS, "folder/x": "x\n"})
        os.mkfifo(root / "pipe")
        (root / "dangling").symlink_to("nowhere")
        before = sorted(str(path) for path in root.parent.rglob("*"))
        error = refused(box, **arguments)
        assert error.kind in ("validation", "execution", "not_allowed", "limit")
        assert str(error)
        assert "Traceback" not in str(error)
        assert "Errno" not in str(error)
        assert len(str(error)) < 3000
        assert sorted(str(path) for path in root.parent.rglob("*")) == before
        assert files_of(root) == {"f.txt": LETTERS, "folder/x": "x\n"}

    def test_a_missing_file_is_answered_with_names_that_are_like_it(self, box: ToolState, root: Path) -> None:
        fill(root, {"src/settings.py": "a\n"})
        said = str(refused(box, **update("@@", "-a", "+b", path="src/setings.py")))
        assert (
            said == "Failed to read file to update src/setings.py: No such file or directory; did you mean 'src/settings.py'?"
        )
