"""The tools that read and write whole files."""

import base64
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from file_kit import Tools, create_trapped_workspace, snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolglot.builtin.files import line_reader
from toolglot.builtin.files.file_tools import ReadResult, file_tools
from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.tool_state import to_data
from toolglot.errors import ToolError
from toolglot.tools.results import as_result
from toolglot.values.messages import Media, ToolCall

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 40
GIF = b"GIF89a" + b"\0" * 40
WEBP = b"RIFF\x20\0\0\0WEBPVP8 " + b"\0" * 40
PDF = b"%PDF-1.7\n" + b"\0" * 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_trapped_workspace(tmp_path)


@pytest.fixture
def tools(root: Path) -> Tools:
    return Tools(root, file_tools)


class TestReading:
    def test_a_link_to_nothing_is_named(self, tools: Tools, root: Path) -> None:
        (root / "sub/lost").symlink_to("../absent")
        (root / "sub/lost.txt").write_text("other")
        with pytest.raises(ToolError) as caught:
            tools("read", path="sub/lost")
        assert (
            str(caught.value)
            == "'sub/lost' is a symbolic link to '../absent', where nothing is; use the path of a file"
        )
        assert (caught.value.kind, caught.value.code) == ("not_found", "path_not_found")
        assert "sub/lost" not in caught.value.details.suggestions

    @pytest.mark.skipif(os.name != "posix", reason="names of any bytes")
    def test_a_name_of_any_bytes_is_read_as_the_tools_show_it(self, tools: Tools, root: Path) -> None:
        for name in (b"bad\xff\xfename", b"sub/\xe9t\xe9"):
            Path(os.fsdecode(os.path.join(os.fsencode(root), name))).write_bytes(b"found\n")
        for path in (
            r"bad\udcff\udcfename",
            "bad\udcff\udcfename",
            f"{root}/bad\\udcff\\udcfename",
            r"sub/\udce9t\udce9",
        ):
            assert tools("read", path=path).content == "1\tfound"
        # A name that really has a backslash goes first, and text in UTF-8 has no second name that rules would
        # not know.
        (root / r"bad\udcff\udcfename").write_bytes(b"literal\n")
        assert tools("read", path=r"bad\udcff\udcfename").content == "1\tliteral"
        (root / "é").write_bytes(b"secret\n")
        for path in (r"\udcc3\udca9", r"\udc2e\udc2e/work_evil/secret", r"sub\udc2fx"):
            with pytest.raises(ToolError):
                tools("read", path=path)

    def test_lines_are_numbered_and_reported_as_data(self, tools: Tools, root: Path):
        output = tools("read", path="text.txt")
        assert output.content == "1\tone\n2\ttwo\n3\tthree"
        assert output.data == to_data(
            ReadResult(
                path="text.txt",
                size=14,
                lines=["one", "two", "three"],
                first=1,
                last=3,
                total=3,
                partial=False,
                truncated=False,
                next_line=None,
                long_lines=[],
                encoding="utf-8",
                final_newline=True,
            )
        )

    @pytest.mark.parametrize(
        ("wish", "first", "last", "next_line"),
        [
            ({"start_line": 3}, 3, 10, None),
            ({"start_line": 3, "end_line": 4}, 3, 4, 5),
            ({"end_line": 4}, 1, 4, 5),
            ({"end_line": 99}, 1, 10, None),
            ({"start_line": 10, "end_line": 10}, 10, 10, None),
            ({"max_lines": 2}, 1, 2, 3),
            ({"start_line": 9, "max_lines": 5}, 9, 10, None),
            ({"tail_lines": 3}, 8, 10, None),
            ({"tail_lines": 3, "max_lines": 2}, 8, 9, 10),
            ({"tail_lines": 99}, 1, 10, None),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("ended", [True, False], ids=["ended", "open"])
    def test_a_part_is_what_was_asked_for(
        self,
        tools: Tools,
        root: Path,
        wish: dict[str, int],
        first: int,
        last: int,
        next_line: int | None,
        ended: bool,
    ):
        (root / "ten").write_text("\n".join(f"line {n}" for n in range(1, 11)) + ("\n" if ended else ""))
        data = tools.data("read", path="ten", **wish)
        assert data["lines"] == [f"line {n}" for n in range(first, last + 1)]
        assert (data["first"], data["last"], data["total"]) == (first, last, 10)
        assert (data["truncated"], data["next_line"], data["final_newline"]) == (False, next_line, ended)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
    @given(
        text=st.text(st.sampled_from("ab\n\r\u00e9"), max_size=60),
        start=st.integers(1, 8),
        count=st.integers(1, 8),
        chunk=st.integers(1, 5),
    )
    def test_chunks_do_not_show(
        self, tools: Tools, root: Path, text: str, start: int, count: int, chunk: int
    ):
        (root / "any").write_bytes(text.encode())
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(line_reader, "_CHUNK_SIZE", chunk)
            if start > len(lines):
                if text or start > 1:
                    assert tools.failure("read", path="any", start_line=start).kind == "validation"
                return
            data = tools.data("read", path="any", start_line=start, max_lines=count)
        assert data["lines"] == lines[start - 1 : start - 1 + count]
        assert data["total"] == len(lines)

    def test_without_a_range_2000_lines_are_shown_and_the_way_on(self, tools: Tools, root: Path):
        (root / "many").write_text("x\n" * 5000)
        output = tools("read", path="many")
        assert (output.data["last"], output.data["total"], output.data["truncated"]) == (2000, 5000, True)
        assert output.content.endswith("[lines 1 to 2000 of 5000; continue with start_line=2001]")

    def test_a_megabyte_is_enough_unless_more_is_asked_for(self, tools: Tools, root: Path):
        (root / "wide").write_text(("x" * 1999 + "\n") * 1500)
        data = tools.data("read", path="wide")
        assert (data["last"], data["truncated"], data["total"]) == (524, True, 1500)
        assert tools.data("read", path="wide", allow_large=True)["last"] == 1500
        assert tools.data("read", path="wide", start_line=2, end_line=1400)["last"] == 1400

    def test_long_lines_are_cut_with_a_note(self, tools: Tools, root: Path):
        (root / "long").write_text("short\n" + "é" * 5000 + "\nend\n")
        output = tools("read", path="long")
        assert output.data["lines"] == ["short", "é" * 2000, "end"]
        assert output.data["long_lines"] == [2]
        assert "truncated after 2000 characters: line 2" in output.content
        assert tools.data("read", path="long", allow_large=True)["lines"][1] == "é" * 5000

    def test_one_endless_line_stays_small(self, tools: Tools, root: Path):
        (root / "endless").write_text("y" * 3_000_000)
        data = tools.data("read", path="endless")
        assert (len(data["lines"][0]), data["total"]) == (2000, 1)

    @pytest.mark.parametrize(
        ("data", "encoding", "lines", "note"),
        [
            ("\ufeffa\nü\n".encode(), "utf-8", ["a", "ü"], ""),
            ("\ufeffa\r\nü\r\n".encode("utf-16-le"), "utf-16-le", ["a", "ü"], "[encoded in utf-16-le]"),
            ("\ufeffa\nü\n".encode("utf-32-be"), "utf-32-be", ["a", "ü"], "[encoded in utf-32-be]"),
            (b"a\n\xfc\n", "windows-1252", ["a", "ü"], "not valid UTF-8"),
            (b"a\n" * 70_000 + b"\xfc", "windows-1252", ["a"] * 2000, "not valid UTF-8"),
        ],
        ids=["utf-8", "utf-16", "utf-32", "western", "western far away"],
    )
    def test_encodings_are_known(
        self, tools: Tools, root: Path, data: bytes, encoding: str, lines: list[str], note: str
    ):
        (root / "coded").write_bytes(data)
        output = tools("read", path="coded")
        assert (output.data["encoding"], output.data["lines"]) == (encoding, lines)
        assert note in output.content

    def test_half_characters_of_utf_16_do_not_break_anything(self, tools: Tools, root: Path):
        (root / "half").write_bytes("\ufeffa\ud800b\n".encode("utf-16-le", "surrogatepass"))
        call = ToolCall("c", "read", {"path": "half"})
        result = as_result(tools("read", path="half"), call)
        assert "\\ud800" in str(result.content)

    def test_an_empty_file_says_so(self, tools: Tools, root: Path):
        (root / "empty").touch()
        output = tools("read", path="empty")
        assert output.content == "['empty' is empty]"
        assert (output.data["lines"], output.data["total"], output.data["last"]) == ([], 0, 0)

    @pytest.mark.parametrize(
        ("data", "kind", "media_type"),
        [
            (PNG, "image", "image/png"),
            (JPEG, "image", "image/jpeg"),
            (GIF, "image", "image/gif"),
            (WEBP, "image", "image/webp"),
            (PDF, "file", "application/pdf"),
        ],
    )
    def test_images_and_documents_are_shown_as_they_are(
        self, tools: Tools, root: Path, data: bytes, kind: str, media_type: str
    ):
        (root / "media.bin").write_bytes(data)
        output = tools("read", path="media.bin")
        words, media = output.content
        assert media == Media(kind, media_type, base64.b64encode(data).decode(), name="media.bin")  # pyright: ignore[reportArgumentType]
        assert media_type in words.text
        assert (output.data["kind"], output.data["media_type"], output.data["size"]) == (
            kind,
            media_type,
            len(data),
        )

    def test_pages_of_a_document_are_pointed_at(self, tools: Tools, root: Path):
        (root / "a.pdf").write_bytes(PDF)
        output = tools("read", path="a.pdf", pages="2-5")
        assert output.data["pages"] == "2-5"
        assert "pages 2-5" in output.content[0].text

    def test_media_that_no_model_takes_is_refused(self, tools: Tools, root: Path):
        with (root / "big.png").open("wb") as file:
            file.write(PNG)
            file.truncate(30 << 20)
        assert "image of 30 MB" in str(tools.failure("read", path="big.png"))

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("text.tx", "did you mean 'text.txt'?"),
            ("none.txt", "list its directory to see what exists"),
            ("sub/../text.text", "did you mean 'sub/../text.txt'"),
            ("sub", "'sub' is a directory: list it"),
            ("sub/nothing", "no such file: 'sub/nothing'; list its directory"),
            ("no/folder/x", "no directory 'no/folder' either"),
            ("binary", "'binary' is not text but binary data (7 bytes)"),
            ("late", "binary data (100002 bytes)"),
        ],
    )
    def test_a_failure_says_what_to_do(self, tools: Tools, path: str, words: str):
        assert words in str(tools.failure("read", path=path))

    def test_nearest_names_come_with_an_absolute_path_too(self, tools: Tools, root: Path):
        assert f"did you mean '{root}/text.txt'" in str(tools.failure("read", path=f"{root}/text.tx"))

    def test_another_root_is_read_too(self, tmp_path: Path):
        root, other = create_trapped_workspace(tmp_path), tmp_path / "other"
        other.mkdir()
        (other / "x").write_text("there\n")
        tools = Tools(root, file_tools)
        tools.state.workspace = Workspace(root, other_roots=[Root(other, False)])
        assert tools.data("read", path=str(other / "x"))["path"] == str(other / "x")
        assert "is read-only" in str(tools.failure("write", path=str(other / "x"), content="changed"))

    def test_a_large_file_is_not_held(self, tools: Tools, root: Path):
        with (root / "huge").open("wb") as file:
            for _ in range(40):
                file.write(b"some text in a line\n" * 52_429)
        tracemalloc.start()
        try:
            data = tools.data("read", path="huge", start_line=2_000_000, max_lines=2)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (data["lines"], data["total"]) == (["some text in a line"] * 2, 40 * 52_429)
        assert peak < 8 << 20
        assert tools.data("read", path="huge", tail_lines=1)["first"] == 40 * 52_429

    def test_lines_are_not_counted_for_ever(self, tools: Tools, root: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(line_reader, "_MAX_COUNTED_BYTES", 1 << 20)
        (root / "long").write_bytes(b"x\n" * 3_000_000)
        output = tools("read", path="long", start_line=1, end_line=2)
        assert (output.data["total"], output.data["final_newline"], output.data["next_line"]) == (
            None,
            None,
            3,
        )
        assert "the file has 6000000 bytes" in output.content

    def test_a_hole_of_a_terabyte_is_left_at_once(self, tools: Tools, root: Path):
        with (root / "sparse").open("wb") as file:
            file.write(b"text\n" * 30_000)
            file.truncate(1 << 40)
        assert "not text" in str(tools.failure("read", path="sparse", start_line=10**9))
        assert "not text" in str(tools.failure("read", path="sparse", tail_lines=1))

    def test_a_line_that_is_too_far_away_is_not_looked_for(
        self, tools: Tools, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(line_reader, "_MAX_SEARCHED_BYTES", 10)
        assert tools.failure("read", path="text.txt", start_line=9).kind == "limit"

    @pytest.mark.parametrize(
        "data", [b"\xff\xfea", b"\xff\xfea\0\0\0", b"\x00\x00\xfe\xff\xff\xff\xff\xff"], ids=repr
    )
    def test_broken_wide_text_is_named(self, tools: Tools, root: Path, data: bytes):
        (root / "wide").write_bytes(data)
        assert "invalid UTF-16 or UTF-32" in str(tools.failure("read", path="wide"))

    def test_an_image_has_no_pages(self, tools: Tools, root: Path):
        (root / "a.png").write_bytes(PNG)
        assert "has no pages" in str(tools.failure("read", path="a.png", pages="1"))

    def test_a_cancelled_call_stops(self, tools: Tools):
        flag = threading.Event()
        flag.set()
        assert tools.failure("read", flag, path="text.txt").kind == "cancelled"

    def test_the_target_is_the_real_path(self, tools: Tools, root: Path):
        (root / "link").symlink_to("text.txt")
        targets = [tools.target("read", path=path) for path in ("link", "sub/new", "new", "out", "../x", "")]
        assert targets == [
            str(root / "text.txt"),
            str(root / "sub/new"),
            str(root / "new"),
            "out",
            "../x",
            str(root),
        ]


class TestImages:
    def test_a_directory_is_listed_where_that_is_asked_for(self, tools: Tools, root: Path):
        (root / "sub" / "deep").mkdir(parents=True)
        (root / "sub" / "a.txt").write_text("a")
        assert "is a directory" in str(tools.failure("read", path="sub"))
        listing = tools.data("read", path="sub", list_depth=1)
        assert (listing["kind"], [entry["path"] for entry in listing["entries"]]) == (
            "directory",
            ["deep", "a.txt"],
        )
        assert tools.data("read", path="sub/a.txt", list_depth=1)["lines"] == ["a"]
        assert "list_depth is 0" in str(tools.failure("read", path="sub", list_depth=0))
        assert "no such file: 'none'" in str(tools.failure("read", path="none", list_depth=1))

    def test_an_image_is_shown(self, tools: Tools, root: Path):
        (root / "a.png").write_bytes(PNG)
        output = tools("view_image", path="a.png", detail="high")
        assert output.content[1].media_type == "image/png"
        assert output.data["detail"] == "high"

    def test_a_document_is_no_image(self, tools: Tools, root: Path):
        (root / "a.pdf").write_bytes(PDF)
        assert "'a.pdf' (.pdf) is not a PNG, JPEG, GIF or WebP image" in str(
            tools.failure("view_image", path="a.pdf")
        )


class TestWriting:
    def test_a_new_file_is_made_with_its_directories(self, tools: Tools, root: Path):
        output = tools("write", path="deep/er/new.txt", content="a\nb\n")
        assert (root / "deep/er/new.txt").read_text() == "a\nb\n"
        assert output.content == "created 'deep/er/new.txt' (2 lines, 4 bytes)"
        assert output.data["created"] is True
        assert output.data["diff"] == "--- /dev/null\n+++ deep/er/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"

    def test_what_was_read_may_be_overwritten_again_and_again(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        for content in ("new\n", "newer\n"):
            data = tools.data("write", path="text.txt", content=content)
            assert (data["created"], (root / "text.txt").read_text()) == (False, content)

    def test_what_was_not_read_is_not_overwritten(self, tools: Tools, root: Path):
        error = tools.failure("write", path="text.txt", content="x")
        assert str(error) == "'text.txt' has not been read yet: read it first, then change it"
        assert (root / "text.txt").read_text() == "one\ntwo\nthree\n"

    def test_what_has_changed_since_is_not_overwritten(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        (root / "text.txt").write_text("by somebody else\n")
        error = tools.failure("write", path="text.txt", content="x")
        assert str(error) == "'text.txt' has changed since it was read: read it again, then change it"
        tools("read", path="text.txt")
        tools("write", path="text.txt", content="x")

    def test_what_became_another_file_is_not_overwritten(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        (root / "other").write_text("one\ntwo\nthree\n")
        os.replace(root / "other", root / "text.txt")
        assert "has changed" in str(tools.failure("write", path="text.txt", content="x"))

    def test_what_is_read_through_a_link_is_known_by_its_real_path(self, tools: Tools, root: Path):
        (root / "link").symlink_to("text.txt")
        tools("read", path="link")
        assert tools.data("write", path="text.txt", content="x")["path"] == "text.txt"
        assert tools.data("write", path="link", content="y")["path"] == "text.txt"
        assert (root / "link").is_symlink()

    def test_reading_first_can_be_left_to_the_model(self, root: Path):
        tools = Tools(root, file_tools, require_read=False)
        tools("write", path="text.txt", content="x")
        (root / "text.txt").write_text("by somebody else")
        assert "has changed since" in str(tools.failure("write", path="text.txt", content="y"))

    def test_a_harness_may_demand_less_than_we_do(self, tools: Tools, root: Path):
        assert (
            tools.failure("write", path="text.txt", content="x", read_first="required").code == "not_read_yet"
        )
        assert tools.data("write", path="text.txt", content="x", read_first="current")["known"] == "unread"
        (root / "text.txt").write_text("by somebody else")
        assert (
            tools.failure("write", path="text.txt", content="y", read_first="current").code
            == "changed_since_read"
        )
        assert tools.data("write", path="text.txt", content="y", read_first="none")["known"] == "changed"
        assert tools.data("write", path="text.txt", content="z", read_first="shown")["known"] == "current"
        (root / "text.txt").write_text("by somebody else")
        assert tools.data("write", path="text.txt", content="y", read_first="once")["known"] == "changed"

    def test_a_harness_may_not_count_what_the_model_created_itself(self, tools: Tools, root: Path):
        assert tools.data("write", path="own.txt", content="x", read_first="shown")["known"] == "new"
        assert tools.failure("write", path="own.txt", content="y", read_first="shown").code == "not_read_yet"
        tools("read", path="own.txt")
        tools("write", path="own.txt", content="y", read_first="shown")

    def test_a_harness_cannot_demand_more_than_we_do(self, root: Path):
        tools = Tools(root, file_tools, require_read=False)
        assert tools.data("write", path="text.txt", content="x", read_first="shown")["known"] == "unread"

    @pytest.mark.parametrize(
        ("before", "content", "after", "converted"),
        [
            (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", True),
            (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\r\n", True),
            (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n", False),
            (b"a\r\nb\n", "x\ny\n", b"x\ny\n", False),
            ("\ufeffa\n".encode(), "ü\n", "\ufeffü\n".encode(), False),
            ("\ufeffa\n".encode(), "\ufeffü\n", "\ufeffü\n".encode(), False),
            ("\ufeffa\r\n".encode("utf-16-be"), "ü\n", "\ufeffü\r\n".encode("utf-16-be"), True),
            (b"gr\xfcn\n", "bl\xe4u\n", b"bl\xe4u\n", False),
        ],
    )
    def test_the_form_of_a_file_is_kept(
        self, tools: Tools, root: Path, before: bytes, content: str, after: bytes, converted: bool
    ):
        (root / "form").write_bytes(before)
        tools("read", path="form")
        assert tools.data("write", path="form", content=content)["converted"] is converted
        assert (root / "form").read_bytes() == after

    def test_an_encoding_that_lacks_a_character_becomes_utf_8(self, tools: Tools, root: Path):
        (root / "form").write_bytes(b"gr\xfcn\n")
        tools("read", path="form")
        output = tools("write", path="form", content="grün →\n")
        assert output.data["reencoded"] is True
        assert "it is UTF-8 now" in output.content
        assert (root / "form").read_text() == "grün →\n"
        (root / "form").write_bytes(b"gr\xfcn\n")
        assert "windows-1252" in str(tools.failure("write", path="form", content="→", mode="append"))

    def test_permissions_are_kept(self, tools: Tools, root: Path):
        (root / "text.txt").chmod(0o741)
        tools("read", path="text.txt")
        tools("write", path="text.txt", content="x")
        assert (root / "text.txt").stat().st_mode & 0o7777 == 0o741

    def test_appending_needs_no_reading(self, tools: Tools, root: Path):
        (root / "log").write_bytes(b"a\r\n")
        tools("write", path="log", content="b\n", mode="append")
        assert (root / "log").read_bytes() == b"a\r\nb\r\n"
        tools("write", path="new-log", content="b\n", mode="append")
        assert (root / "new-log").read_bytes() == b"b\n"

    def test_create_only_makes_nothing_twice(self, tools: Tools, root: Path):
        tools("write", path="once", content="a", mode="create_only")
        assert "already exists" in str(tools.failure("write", path="once", content="b", mode="create_only"))
        assert (root / "once").read_text() == "a"

    def test_the_preview_is_the_diff_and_changes_nothing(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        before = snapshot(root)
        preview = tools.preview("write", path="text.txt", content="one\n2\nthree\n")
        assert preview == "--- text.txt\n+++ text.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        assert snapshot(root) == before
        with pytest.raises(ToolError, match="has not been read"):
            tools.preview("write", path="late", content="x")
        with pytest.raises(ToolError, match=r"'\.git' is protected"):
            tools.preview("write", path=".git/hooks/pre-commit", content="x")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    @given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\r\n\t"), max_size=40))
    def test_what_is_written_is_read(self, tools: Tools, root: Path, content: str):
        (root / "any").unlink(missing_ok=True)
        tools("write", path="any", content=content)
        assert (root / "any").read_bytes() == content.encode()

    @pytest.mark.parametrize(
        "path",
        [
            *(
                ".git/hooks/pre-commit",
                ".git/config",
                "sub/.GIT/x",
                ".git./x",
                "toolglot.toml",
                ".mcp.json",
                ".vscode/x.json",
            ),
            *(".envrc", ".ssh/authorized_keys", "sub/.bashrc", ".g\u200bit/config", "GIT~1/x", ".toolglot/x"),
        ],
    )
    def test_what_programs_obey_is_not_written(self, tools: Tools, path: str):
        before = snapshot(tools.root.parent)
        assert tools.failure("write", path=path, content="evil").kind == "not_allowed"
        assert snapshot(tools.root.parent) == before

    @pytest.mark.parametrize("path", ["binary", "late"])
    def test_nothing_is_appended_to_what_is_not_text(self, tools: Tools, path: str):
        assert "not a text file" in str(tools.failure("write", path=path, content="x", mode="append"))

    def test_a_file_does_not_grow_without_end(self, tools: Tools, root: Path):
        (root / "large").write_bytes(b"x" * (10 << 20))
        assert tools.failure("write", path="large", content="xx", mode="append").kind == "limit"
        (root / "large").write_bytes(b"x" * (11 << 20))
        assert "too large" in str(tools.failure("write", path="large", content="x", mode="append"))

    def test_an_ordinary_user_is_reported_what_may_not_be_opened(self, tools: Tools, root: Path):
        (root / "closed").write_text("x")
        (root / "closed").chmod(0)
        child = os.fork()
        if not child:
            try:
                if os.getuid() == 0:
                    os.chmod(root.parent, 0o755)
                    os.setgid(65534)
                    os.setuid(65534)
                messages = [
                    str(tools.failure("read", path="closed")),
                    str(tools.failure("write", path="fresh", content="x")),
                ]
                os._exit(
                    0
                    if messages
                    == ["permission to open 'closed' was denied", "permission to open 'fresh' was denied"]
                    else 1
                )
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not (root / "fresh").exists()
