"""The tools `ast_search` and `ast_rewrite`: shapes are found in many languages, and files change all or not at all."""

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.code import ast_rewrite as rewriting
from toolglot.builtin.code import ast_search as syntax
from toolglot.builtin.code import ast_worker as parsing
from toolglot.builtin.code.ast_search import MAX_FILE_SIZE, MAX_PATTERN_LENGTH, ast_tools
from toolglot.builtin.code.ast_worker import worker
from toolglot.builtin.code.languages import LANGUAGES
from toolglot.builtin.files.workspace import FileVersion, Root, Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput

pytest.importorskip("ast_grep_py")


CODE = {
    "A.java": "class A { void m() { foo(1); } }\n",
    "a.c": "int main() { return foo(1); }\n",
    "a.cpp": "int main() { return foo(1); }\n",
    "a.cs": "class A { void M() { foo(1); } }\n",
    "a.go": "package a\nfunc main() { foo(1) }\n",
    "a.jsx": "const a = <b>{foo(1)}</b>;\n",
    "a.kt": "fun main() { foo(1) }\n",
    "a.lua": "foo(1)\n",
    "a.php": "<?php FOO(1); foo(1);\n",
    "a.rb": "foo(1)\n",
    "a.rs": "fn main() { foo(1); }\n",
    "a.scala": "object A { foo(1) }\n",
    "a.swift": "foo(1)\n",
    "a.tsx": "const a = <b>{foo(1)}</b>;\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("foo(1)\n")
    return folder


@pytest.fixture
def box(root: Path) -> Iterator[ToolState]:
    workspace = Workspace(root)
    yield ToolState(workspace)
    workspace.close()


def called(box: ToolState, name: str, flag: threading.Event | None = None, **arguments: Any) -> ToolOutput:
    tool = next(one for one in ast_tools(box) if one.name == name)
    call = ToolCall("c1", name, arguments)
    return tool.call(tool.bind(call).values, Context(call, cancel_flag=flag))


def searched(box: ToolState, pattern: Any, **arguments: Any) -> ToolOutput:
    return called(box, "ast_search", pattern=pattern, **arguments)


def rewritten(box: ToolState, pattern: Any, replacement: Any, **arguments: Any) -> ToolOutput:
    given: dict[str, Any] = {"dry_run": False, **arguments}
    return called(box, "ast_rewrite", pattern=pattern, replacement=replacement, **given)


def fill(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def places(said: ToolOutput) -> list[str]:
    return [f"{match['path']}:{match['line']}:{match['column']}" for match in said.data["matches"]]


class TestSearch:
    def test_tells_where_what_and_with_which_parts(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "x = 'é😀'; foo(1, 'ü', b)\n\n\tfoo(\n\t\t2)\n", "sub/b.ts": "const z = foo(3, 4);\n"})
        said = searched(box, "foo($A, $$$REST)")
        assert places(said) == ["a.py:1:11", "sub/b.ts:1:11"]
        first = said.data["matches"][0]
        assert first["captures"] == {"A": "1", "REST": "'ü', b"}
        assert (first["text"], first["end_line"], first["end_column"]) == ("foo(1, 'ü', b)", 1, 25)
        assert said.content.splitlines()[:3] == ["a.py:1:11: foo(1, 'ü', b)", "    $A = 1", "    $$$REST = 'ü', b"]
        assert said.data["languages"] == ["python", "typescript"]
        assert places(searched(box, "foo($A)")) == ["a.py:3:2"]

    def test_letters_that_are_no_code_do_not_match(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "# foo(1)\n'foo(2)'\nfoo(3)\n"})
        assert places(searched(box, "foo($A)")) == ["a.py:3:1"]

    def test_knows_many_languages_by_the_name_of_a_file(self, box: ToolState, root: Path) -> None:
        fill(root, {**CODE})
        assert [match["path"] for match in searched(box, "foo($A)").data["matches"]] == sorted(CODE)

    def test_every_language_has_a_parser(self) -> None:
        tasks = [json.dumps({"language": language, "pattern": "foo", "text": "foo"}) for language in LANGUAGES]
        answers = io.BytesIO()
        worker(io.BytesIO("\n".join(tasks).encode()), answers)
        assert [json.loads(line)["error"] for line in answers.getvalue().splitlines()] == [""] * len(LANGUAGES)

    def test_data_and_prose_are_looked_at_only_where_asked_for(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.json": '{"foo": 1}', "b.py": "1\n"})
        assert places(searched(box, '"foo"')) == []
        assert places(searched(box, '"foo"', language="json")) == ["a.json:1:2"]
        assert places(searched(box, '"foo"', include_glob="*.json")) == ["a.json:1:2"]
        assert places(searched(box, '"foo"', path="a.json")) == ["a.json:1:2"]

    def test_a_language_has_relatives_and_short_names(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.ts": "foo(1)", "b.tsx": "foo(1)", "c.js": "foo(1)", "d.h": "int x = foo(1);", "e.txt": "foo(1)"})
        assert places(searched(box, "foo($A)", language="ts")) == ["a.ts:1:1", "b.tsx:1:1"]
        assert places(searched(box, "foo($A)", language="C++")) == ["d.h:1:9"]
        assert places(searched(box, "foo($A)", language="js", include_glob="*.txt")) == ["e.txt:1:1"]
        assert places(searched(box, "foo($A)", language="js", path="e.txt")) == ["e.txt:1:1"]
        assert places(searched(box, "foo($A)", language="js", include_glob="!x")) == ["c.js:1:1"]
        assert places(searched(box, "foo($A)", language="js", include_glob="*")) == ["c.js:1:1", "e.txt:1:1"]

    def test_what_is_ignored_binary_huge_or_a_link_is_left_out(self, box: ToolState, root: Path) -> None:
        fill(
            root,
            {
                ".gitignore": "build/\n",
                "build/a.py": "foo(1)\n",
                ".git/b.py": "foo(1)\n",
                "c.py": b"foo(1)\n\0\0",
                "d.py": "foo(1)\n" + "#" * MAX_FILE_SIZE,
                "e.py": "\ufefffoo(1)\n".encode("utf-16-le"),
            },
        )
        (root / "link.py").symlink_to(root.parent / "outside.py")
        said = searched(box, "foo($A)")
        assert places(said) == ["e.py:1:1"]
        assert said.data["left_out"] == 2
        assert places(searched(box, "foo($A)", path="build")) == ["build/a.py:1:1"]
        assert places(searched(box, "foo($A)", path="build/a.py")) == ["build/a.py:1:1"]

    def test_stops_after_so_many(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n" * 3, "b.py": "foo(1)\n" * 3})
        said = searched(box, "foo($A)", max_results=4)
        assert places(said) == ["a.py:1:1", "a.py:2:1", "a.py:3:1", "b.py:1:1"]
        assert said.data["truncated"]
        assert "[the first 4 matches" in said.content
        assert not searched(box, "foo($A)", max_results=6).data["truncated"]

    def test_a_long_match_is_cut(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": f"foo('{'x' * 9000}')\n"})
        (match,) = searched(box, "foo($A)").data["matches"]
        assert match["cut"]
        assert len(match["text"]) == 2000

    def test_no_word_of_the_pattern_makes_a_file_be_missed(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "if x is not None:\n    pass\n", "b.php": "<?php IF ($a) { foo(); }\n"})
        assert places(searched(box, "if $A is not None: $$$B", language="python")) == ["a.py:1:1"]
        assert places(searched(box, "if ($A) { $$$B }", language="php")) == ["b.php:1:7"]

    def test_other_roots_are_told_by_their_whole_path(self, root: Path, tmp_path: Path) -> None:
        fill(tmp_path / "lib", {"a.py": "foo(1)\n"})
        workspace = Workspace(root, other_roots=[Root(tmp_path / "lib", writable=False)])
        box = ToolState(workspace)
        assert places(searched(box, "foo($A)", path=str(tmp_path / "lib"))) == [f"{tmp_path / 'lib' / 'a.py'}:1:1"]
        with pytest.raises(ToolError, match="may only be read"):
            rewritten(box, "foo($A)", "bar($A)", path=str(tmp_path / "lib"))
        workspace.close()


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "why"),
        [
            ("foo(", "not a whole expression or statement"),
            ("class A", "not a whole expression or statement"),
            ("$A; $B", "more than one piece of code"),
            ("$$$A", "cannot stand alone"),
            ("a\nb", "more than one piece of code"),
            ("$lower", "more than one piece of code"),
        ],
    )
    def test_what_is_no_pattern_is_refused_with_the_reason(self, box: ToolState, root: Path, pattern: str, why: str) -> None:
        fill(root, {"a.py": "1\n"})
        with pytest.raises(ToolError, match=why) as raised:
            searched(box, pattern)
        assert raised.value.kind == "validation"

    def test_what_is_a_pattern_in_one_language_is_enough(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "x = 1\n", "b.go": "package a\nfunc f() { x := 1 }\n"})
        assert places(searched(box, "$A := $B")) == ["b.go:2:12"]

    def test_a_part_that_does_not_parse_is_noted_where_nothing_is_found(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.json": '{"b": {"a": 1}}'})
        said = searched(box, '{"a": $V, "c": $W}', language="json")
        assert "does not parse as json" in said.content

    def test_without_files_to_look_at_that_is_said(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.txt": "foo(1)"})
        assert "there are no files of a known language" in searched(box, "foo($A)").content
        assert "there are no rust files" in searched(box, "foo($A)", language="rust").content


class TestTheParser:
    def test_one_that_crashes_costs_only_its_file(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.yaml": "- " * 20_000 + "foo", "b.yaml": "foo: bar\n"})
        said = searched(box, "bar", language="yaml")
        assert places(said) == ["b.yaml:1:6"]
        fill(root, {"a.yaml": "- " * 20_000 + "bar"})
        said = searched(box, "bar", language="yaml")
        assert places(said) == ["b.yaml:1:6"]
        assert said.data["skipped"] == ["a.yaml"]
        assert "[the parser failed on a.yaml]" in said.content

    def test_one_that_hangs_is_ended(self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parsing, "FILE_TIMEOUT", 0.7)
        fill(root, {"a.html": "<a>" * 80_000, "b.html": "<b>x</b>"})
        said = searched(box, "<b>$A</b>", language="html")
        assert said.data["skipped"] == ["a.html"]

    def test_one_that_fails_often_is_given_up(self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(syntax, "MAX_PARSER_FAILURES", 1)
        fill(root, {f"{name}.yaml": "- " * 20_000 + "bar" for name in "abc"})
        with pytest.raises(ToolError, match="the parser fails on more than 1 files"):
            searched(box, "bar", language="yaml")

    def test_when_time_is_up_it_says_so_and_a_rewrite_changes_nothing(
        self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(root, {"a.py": "foo(1)\n"})
        monkeypatch.setattr(syntax, "TIMEOUT_SECONDS", -1.0)
        assert not searched(box, "foo($A)").data["complete"]
        with pytest.raises(ToolError, match="not all files could be looked at") as raised:
            rewritten(box, "foo($A)", "bar($A)")
        assert raised.value.kind == "limit"

    def test_nobody_waits(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n"})
        flag = threading.Event()
        flag.set()
        ways: list[tuple[str, dict[str, Any]]] = [("ast_search", {}), ("ast_rewrite", {"replacement": "x", "dry_run": False})]
        for name, more in ways:
            with pytest.raises(ToolError) as raised:
                called(box, name, flag, pattern="foo($A)", **more)
            assert raised.value.kind == "cancelled"
        assert files_of(root) == {"a.py": b"foo(1)\n"}

    def test_without_it_the_extra_is_named(self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(root, {"a.py": "foo(1)\n"})

        def nowhere(name: str) -> None:
            return None

        monkeypatch.setattr(parsing, "find_spec", nowhere)
        with pytest.raises(ToolError, match=r"install toolglot\[ast\]"):
            searched(box, "foo($A)")

    def test_it_sees_no_secrets_of_the_environment(self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[dict[str, str]] = []
        real = parsing.subprocess.Popen

        def watched(*arguments: Any, **options: Any) -> Any:
            seen.append(options["env"])
            return real(*arguments, **options)

        monkeypatch.setenv("SOME_API_KEY", "secret")
        monkeypatch.setattr(parsing.subprocess, "Popen", watched)
        fill(root, {"a.py": "foo(1)\n"})
        searched(box, "foo($A)")
        assert [env for env in seen if "SOME_API_KEY" not in env] == seen != []


class TestRewrite:
    def test_only_shows_it_unless_told_otherwise(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1, 2)\n", "b.py": "bar(3)\n"})
        before = files_of(root)
        said = called(box, "ast_rewrite", pattern="foo($A, $B)", replacement="foo($B, $A)")
        assert said.data["dry_run"] is True
        assert "+foo(2, 1)" in said.data["files"][0]["diff"]
        assert said.content.startswith("would change 1 place in 1 file; with dry_run=false it is written")
        assert files_of(root) == before

    def test_changes_all_files_at_once(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1, 2)\n", "c/b.ts": "foo(3, 4); foo(5, 6);\n"})
        (root / "a.py").chmod(0o755)
        said = rewritten(box, "foo($A, $B)", "foo($B, $A)")
        assert files_of(root) == {"a.py": b"foo(2, 1)\n", "c/b.ts": b"foo(4, 3); foo(6, 5);\n"}
        assert said.data["replacements"] == 3
        assert (root / "a.py").stat().st_mode & 0o777 == 0o755

    def test_takes_the_outermost_of_matches_in_each_other(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(foo(1))\n"})
        said = rewritten(box, "foo($A)", "bar($A)")
        assert files_of(root)["a.py"] == b"bar(foo(1))\n"
        assert said.data["nested"] == 1
        rewritten(box, "foo($A)", "bar($A)")
        assert files_of(root)["a.py"] == b"bar(bar(1))\n"

    def test_indents_what_it_moves(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "class A:\n    def f(self):\n        a()\n\n        b()\n\n    x = 1\n"})
        rewritten(box, "def $F($$$P): $$$B", "def $F($$$P):\n    with lock:\n        $$$B\n")
        expected = "class A:\n    def f(self):\n        with lock:\n            a()\n\n            b()\n\n    x = 1\n"
        assert files_of(root)["a.py"].decode() == expected

    def test_keeps_encoding_mark_and_line_ends(self, box: ToolState, root: Path) -> None:
        text = "# é\r\nfoo(1)\r\n"
        fill(root, {"a.py": b"\xef\xbb\xbf" + text.encode(), "b.py": text.encode("utf-16"), "c.py": text.encode("latin-1")})
        rewritten(box, "foo($A)", "bar(\n    $A\n)")
        after = text.replace("foo(1)", "bar(\r\n    1\r\n)")
        assert files_of(root) == {
            "a.py": b"\xef\xbb\xbf" + after.encode(),
            "b.py": after.encode("utf-16"),
            "c.py": after.encode("latin-1"),
        }

    def test_a_name_that_was_not_captured_is_refused(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n", "b.sh": "echo hello\n"})
        with pytest.raises(ToolError, match=r"uses \$C, which the pattern does not capture: it has \$A"):
            rewritten(box, "foo($A)", "bar($C)")
        rewritten(box, "echo hello", "echo $HOME", language="bash")
        assert files_of(root) == {"a.py": b"foo(1)\n", "b.sh": b"echo $HOME\n"}

    def test_a_file_that_cannot_be_written_stops_all_of_it(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n", ".vscode/b.py": "foo(1)\n"})
        before = files_of(root)
        with pytest.raises(ToolError, match="is protected"):
            rewritten(box, "foo($A)", "bar($A)")
        assert files_of(root) == before

    def test_a_file_that_changes_meanwhile_stops_all_of_it(
        self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\n"})
        change = box.workspace.apply_changes

        def meddled(changes: Any) -> Any:
            (root / "b.py").write_text("somebody(else_)\n")
            return change(changes)

        monkeypatch.setattr(box.workspace, "apply_changes", meddled)
        with pytest.raises(ToolError, match="has changed since it was read"):
            rewritten(box, "foo($A)", "bar($A)")
        assert files_of(root) == {"a.py": b"foo(1)\n", "b.py": b"somebody(else_)\n"}

    def test_what_the_model_had_read_it_still_knows(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\n"})
        box.mark_seen(root / "a.py", FileVersion.from_status(os.stat(root / "a.py")))
        rewritten(box, "foo($A)", "bar($A)")
        assert box.seen_versions == {root / "a.py": FileVersion.from_status(os.stat(root / "a.py"))}

    def test_more_than_it_may_change_is_refused(self, box: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\nfoo(2)\n"})
        before = files_of(root)
        with pytest.raises(ToolError, match="matches more than 2 times"):
            rewritten(box, "foo($A)", "bar($A)", max_results=2)
        monkeypatch.setattr(rewriting, "MAX_FILES", 1)
        with pytest.raises(ToolError, match="over 1 files"):
            rewritten(box, "foo($A)", "bar($A)")
        assert files_of(root) == before

    def test_nothing_to_change_is_no_error(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n"})
        assert rewritten(box, "baz($A)", "bar($A)").content.startswith("Nothing to change")
        assert rewritten(box, "foo($A)", "foo($A)").data["files"] == []

    def test_is_shown_whole_to_whoever_approves_it(self, box: ToolState, root: Path) -> None:
        fill(root, {"a.py": "foo(1)\n"})
        preview = next(tool.preview for tool in ast_tools(box) if tool.name == "ast_rewrite")
        assert preview is not None
        wish = {"pattern": "foo($A)", "replacement": "bar($A)"}
        assert "nothing is written" in preview(wish)
        assert "-foo(1)\n+bar(1)" in preview({**wish, "dry_run": False})
        assert "this will fail" in preview({**wish, "dry_run": False, "language": "klingon"})
        assert files_of(root) == {"a.py": b"foo(1)\n"}


def each(*values: Any) -> tuple[Any, ...]:
    return values


SHARED: list[dict[str, Any]] = [
    *({"pattern": value} for value in each(None, [], {}, ["a", "b"], "", " ", "\n\t", "\0", "\ud800", "foo('\udfff')")),
    {"pattern": "x" * (MAX_PATTERN_LENGTH + 1)},
    {"pattern": "(" * 5_000_000},
    *({"language": value} for value in each([], {}, "klingon", "pyton", " ", "python;", "\0", "é", "../python", "x" * 10**5)),
    *({"path": value} for value in each([], {}, "..", "../outside.py", "/etc", "/etc/passwd", "a\0", "\ud800", "none")),
    *({"path": value} for value in each("x" * 5000, "n" * 300, "/", "~", "link", "link.py", "loop", "a.txt", "C:\\x", "*.py")),
    *({"path": value} for value in each("pipe.py", "binary.py", "huge.py", "/proc/self/environ", "sub/../../outside.py")),
    *({"include_glob": value} for value in each([], {}, "x" * 5000, "{a,b}" * 20, ["a", "b"])),
    *({"max_results": value} for value in each(0, -1, -(10**30), "many", [], {}, 1.5, "1e3x")),
    {"pattern": "foo("},
    {"pattern": "$$$"},
    {"pattern": "$A $B"},
]
REWRITES: list[dict[str, Any]] = [
    *SHARED,
    *({"replacement": value} for value in each(None, [], {}, "a\0", "\ud800", "x" * 200_000, "$B", "$$$A_B", "$A $NONE")),
    *({"dry_run": value} for value in each([], {}, "perhaps", 7)),
]
BAD: list[Any] = [
    *(pytest.param("ast_search", arguments, id=f"search-{number}") for number, arguments in enumerate(SHARED)),
    *(pytest.param("ast_rewrite", arguments, id=f"rewrite-{number}") for number, arguments in enumerate(REWRITES)),
]


class TestBadInput:
    def test_there_is_enough_of_it(self) -> None:
        assert len(SHARED) >= 60

    @pytest.mark.parametrize(("name", "arguments"), BAD)
    def test_is_a_sentence_and_nothing_changes(self, box: ToolState, root: Path, name: str, arguments: dict[str, Any]) -> None:
        fill(root, {"a.py": "foo(1)\n", "a.txt": "foo(1)\n", "binary.py": b"foo(1)\0"})
        with (root / "huge.py").open("wb") as file:
            file.truncate(MAX_FILE_SIZE + 1)
        os.mkfifo(root / "pipe.py")
        (root / "link").symlink_to("..")
        (root / "link.py").symlink_to(root.parent / "outside.py")
        (root / "loop").symlink_to("loop")
        more: dict[str, Any] = {"replacement": "bar($A)", "dry_run": False} if name == "ast_rewrite" else {}
        given: dict[str, Any] = {"pattern": "foo($A)", **more, **arguments}
        with pytest.raises(ToolError) as raised:
            called(box, name, **given)
        assert "Traceback" not in str(raised.value)
        assert "Errno" not in str(raised.value)
        assert (root / "a.py").read_bytes() == b"foo(1)\n"
        assert (root.parent / "outside.py").read_bytes() == b"foo(1)\n"
