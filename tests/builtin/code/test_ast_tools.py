"""`ast_search` and `ast_rewrite`: code is found by structure in many languages, and all files change or none."""

import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from search_kit import plant

from toolglot.builtin.code import ast_query, ast_tools, ast_worker
from toolglot.builtin.code.ast_query import LANGUAGES, MAX_FILE_SIZE
from toolglot.builtin.code.ast_tools import ast_rewrite_tools, ast_search_tools
from toolglot.builtin.code.ast_worker import serve
from toolglot.builtin.files.workspace import FileVersion, Root, Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.confine import programs
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.values.messages import ToolCall

pytest.importorskip("ast_grep_py")


CODE = {
    **dict.fromkeys(("a.lua", "a.rb", "a.swift"), "foo(1)\n"),
    **dict.fromkeys(("a.c", "a.cpp"), "int main() { return foo(1); }\n"),
    **dict.fromkeys(("a.jsx", "a.tsx"), "const a = <b>{foo(1)}</b>;\n"),
    **dict.fromkeys(("A.java", "a.cs"), "class A { void m() { foo(1); } }\n"),
    "a.go": "package a\nfunc main() { foo(1) }\n",
    "a.kt": "fun main() { foo(1) }\n",
    "a.php": "<?php FOO(1); foo(1);\n",
    "a.rs": "fn main() { foo(1); }\n",
    "a.scala": "object A { foo(1) }\n",
}
DATA = {"a.json": '{"foo": 1}', "b.py": "1\n"}
RELATED = {"a.ts": "foo(1)", "b.tsx": "foo(1)", "c.js": "foo(1)", "d.h": "int x = foo(1);", "e.txt": "foo(1)"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (tmp_path / "outside.py").write_text("foo(1)\n")
    return directory


@pytest.fixture
def state(root: Path) -> Iterator[ToolState]:
    workspace = Workspace(root)
    yield ToolState(workspace)
    workspace.close()


def call_tool(state: ToolState, name: str, /, **arguments: Any) -> ToolOutput:
    tool = (ast_search_tools if name == "ast_search" else ast_rewrite_tools)(state)[0]
    call = ToolCall("c1", name, arguments)
    return tool.call(tool.bind(call).values, Context(call))


def search(state: ToolState, pattern: Any, **arguments: Any) -> ToolOutput:
    return call_tool(state, "ast_search", pattern=pattern, **arguments)


def rewrite(state: ToolState, pattern: Any, replacement: Any, **arguments: Any) -> ToolOutput:
    return call_tool(
        state, "ast_rewrite", pattern=pattern, replacement=replacement, **{"dry_run": False, **arguments}
    )


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def positions(output: ToolOutput) -> list[str]:
    return [f"{match['path']}:{match['line']}:{match['column']}" for match in output.data["matches"]]


class TestSearch:
    def test_positions_and_captures(self, state: ToolState, root: Path) -> None:
        plant(
            root,
            {"a.py": "x = 'é😀'; foo(1, 'ü', b)\n\n\tfoo(\n\t\t2)\n", "sub/b.ts": "const z = foo(3, 4);\n"},
        )
        output = search(state, "foo($A, $$$REST)")
        assert positions(output) == ["a.py:1:11", "sub/b.ts:1:11"]
        first = output.data["matches"][0]
        assert first["captures"] == {"A": "1", "REST": "'ü', b"}
        assert (first["text"], first["end_line"], first["end_column"]) == ("foo(1, 'ü', b)", 1, 25)
        assert output.content.splitlines()[:3] == [
            "a.py:1:11: foo(1, 'ü', b)",
            "    $A = 1",
            "    $$$REST = 'ü', b",
        ]
        assert positions(search(state, "foo($A)")) == ["a.py:3:2"]

    def test_languages_by_suffix(self, state: ToolState, root: Path) -> None:
        plant(root, {**CODE})
        assert [match["path"] for match in search(state, "foo($A)").data["matches"]] == sorted(CODE)

    def test_every_language_has_a_parser(self) -> None:
        tasks = [
            json.dumps({"language": language, "pattern": "foo", "text": "foo"}) for language in LANGUAGES
        ]
        answers = io.BytesIO()
        serve(io.BytesIO("\n".join(tasks).encode()), answers)
        assert [json.loads(line)["error"] for line in answers.getvalue().splitlines()] == [""] * len(
            LANGUAGES
        )

    CASES: tuple[tuple[dict[str, str], str, dict[str, str], list[str]], ...] = (
        # comments and strings are not code
        ({"a.py": "# foo(1)\n'foo(2)'\nfoo(3)\n"}, "foo($A)", {}, ["a.py:3:1"]),
        # data formats are searched only on request
        (DATA, '"foo"', {}, []),
        (DATA, '"foo"', {"language": "json"}, ["a.json:1:2"]),
        (DATA, '"foo"', {"include_glob": "*.json"}, ["a.json:1:2"]),
        (DATA, '"foo"', {"path": "a.json"}, ["a.json:1:2"]),
        # languages have related suffixes and aliases
        (RELATED, "foo($A)", {"language": "ts"}, ["a.ts:1:1", "b.tsx:1:1"]),
        (RELATED, "foo($A)", {"language": "C++"}, ["d.h:1:9"]),
        (RELATED, "foo($A)", {"language": "js", "include_glob": "*.txt"}, ["e.txt:1:1"]),
        (RELATED, "foo($A)", {"language": "js", "path": "e.txt"}, ["e.txt:1:1"]),
        (RELATED, "foo($A)", {"language": "js", "include_glob": "!x"}, ["c.js:1:1"]),
        (RELATED, "foo($A)", {"language": "js", "include_glob": "*"}, ["c.js:1:1", "e.txt:1:1"]),
        # a file without the longest word of the pattern is not parsed, unless case does not matter
        (
            {"a.py": "if x is not None:\n    pass\n"},
            "if $A is not None: $$$B",
            {"language": "python"},
            ["a.py:1:1"],
        ),
        ({"b.php": "<?php IF ($a) { foo(); }\n"}, "if ($A) { $$$B }", {"language": "php"}, ["b.php:1:7"]),
        # a pattern must be valid in one language only
        ({"a.py": "x = 1\n", "b.go": "package a\nfunc f() { x := 1 }\n"}, "$A := $B", {}, ["b.go:2:12"]),
    )

    @pytest.mark.parametrize(("files", "pattern", "options", "expected"), CASES, ids=range(len(CASES)))
    def test_matches(
        self,
        state: ToolState,
        root: Path,
        files: dict[str, str],
        pattern: str,
        options: dict[str, str],
        expected: list[str],
    ) -> None:
        plant(root, files)
        assert positions(search(state, pattern, **options)) == expected

    def test_ignored_binary_huge_and_linked_files_are_left_out(self, state: ToolState, root: Path) -> None:
        plant(
            root,
            {
                ".gitignore": "build/\n",
                "build/a.py": "foo(1)\n",
                ".git/b.py": "foo(1)\n",
                "c.py": b"foo(1)\n\0\0",
            },
        )
        plant(root, {"d.py": "foo(1)\n" + "#" * MAX_FILE_SIZE, "e.py": "\ufefffoo(1)\n".encode("utf-16-le")})
        (root / "link.py").symlink_to(root.parent / "outside.py")
        assert positions(search(state, "foo($A)")) == ["e.py:1:1"]
        assert positions(search(state, "foo($A)", path="build")) == ["build/a.py:1:1"]
        assert positions(search(state, "foo($A)", path="build/a.py")) == ["build/a.py:1:1"]

    def test_max_results(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n" * 3, "b.py": "foo(1)\n" * 3})
        output = search(state, "foo($A)", max_results=4)
        assert positions(output) == ["a.py:1:1", "a.py:2:1", "a.py:3:1", "b.py:1:1"]
        assert output.data["truncated"]
        assert "[showing the first 4 matches" in output.content
        assert not search(state, "foo($A)", max_results=6).data["truncated"]

    def test_a_long_match_is_truncated(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": f"foo('{'x' * 9000}')\n"})
        (match,) = search(state, "foo($A)").data["matches"]
        assert match["truncated"]
        assert len(match["text"]) == 2000

    def test_other_roots_are_shown_by_absolute_path(self, root: Path, tmp_path: Path) -> None:
        plant(tmp_path / "lib", {"a.py": "foo(1)\n"})
        workspace = Workspace(root, other_roots=[Root(tmp_path / "lib", writable=False)])
        state = ToolState(workspace)
        assert positions(search(state, "foo($A)", path=str(tmp_path / "lib"))) == [
            f"{tmp_path / 'lib' / 'a.py'}:1:1"
        ]
        with pytest.raises(ToolError, match="read-only"):
            rewrite(state, "foo($A)", "bar($A)", path=str(tmp_path / "lib"))
        workspace.close()


class TestPatterns:
    @pytest.mark.parametrize(("pattern", "reason"), [
        ("foo(", "not a whole expression or statement"),
        ("class A", "not a whole expression or statement"),
        ("$A; $B", "more than one piece of code"),
        ("$$$A", "cannot stand alone"),
        ("a\nb", "more than one piece of code"),
        ("$lower", "more than one piece of code"),
    ])  # fmt: skip
    def test_an_invalid_pattern_is_refused_with_the_reason(
        self, state: ToolState, root: Path, pattern: str, reason: str
    ) -> None:
        plant(root, {"a.py": "1\n"})
        with pytest.raises(ToolError, match=reason) as raised:
            search(state, pattern)
        assert raised.value.kind == "validation"

    def test_a_part_that_does_not_parse_is_noted(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.json": '{"b": {"a": 1}}'})
        output = search(state, '{"a": $V, "c": $W}', language="json")
        assert "does not parse as json" in output.content

    def test_no_files_to_search(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.txt": "foo(1)"})
        assert "there are no files of a known language" in search(state, "foo($A)").content
        assert "there are no rust files" in search(state, "foo($A)", language="rust").content


class TestParserProcess:
    def test_a_crash_costs_only_its_file(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.yaml": "- " * 20_000 + "foo", "b.yaml": "foo: bar\n"})
        output = search(state, "bar", language="yaml")
        assert positions(output) == ["b.yaml:1:6"]
        plant(root, {"a.yaml": "- " * 20_000 + "bar"})
        output = search(state, "bar", language="yaml")
        assert positions(output) == ["b.yaml:1:6"]
        assert output.data["skipped"] == ["a.yaml"]
        assert "[the parser failed on a.yaml]" in output.content

    def test_a_parser_that_hangs_is_killed(
        self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ast_worker, "FILE_TIMEOUT", 1.5)
        plant(root, {"a.html": "<a>" * 80_000, "b.html": "<b>x</b>"})
        output = search(state, "<b>$A</b>", language="html")
        assert output.data["skipped"] == ["a.html"]

    def test_repeated_failures_end_the_search(
        self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ast_query, "MAX_PARSER_FAILURES", 1)
        plant(root, {f"{name}.yaml": "- " * 20_000 + "bar" for name in "abc"})
        with pytest.raises(ToolError, match="the parser fails on more than 1 files"):
            search(state, "bar", language="yaml")

    def test_timeout(self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(root, {"a.py": "foo(1)\n"})
        monkeypatch.setattr(ast_query, "TIMEOUT_SECONDS", -1.0)
        assert not search(state, "foo($A)").data["complete"]
        with pytest.raises(ToolError, match="not all files could be searched") as raised:
            rewrite(state, "foo($A)", "bar($A)")
        assert raised.value.kind == "limit"

    def test_the_missing_extra_is_named(
        self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(root, {"a.py": "foo(1)\n"})
        monkeypatch.setattr(programs, "find_spec", dict[str, Any]().get)
        with pytest.raises(ToolError, match=r"pip install 'toolglot\[ast\]'"):
            search(state, "foo($A)")

    def test_it_does_not_see_the_environment(
        self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[dict[str, str]] = []
        real = subprocess.Popen

        def spy(*arguments: Any, **options: Any) -> Any:
            seen.append(options["env"])
            return real(*arguments, **options)

        monkeypatch.setenv("SOME_API_KEY", "secret")
        monkeypatch.setattr(subprocess, "Popen", spy)
        plant(root, {"a.py": "foo(1)\n"})
        search(state, "foo($A)")
        assert [env for env in seen if "SOME_API_KEY" not in env] == seen != []


class TestRewrite:
    def test_dry_run_is_the_default(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1, 2)\n", "b.py": "bar(3)\n"})
        before = files_of(root)
        output = call_tool(state, "ast_rewrite", pattern="foo($A, $B)", replacement="foo($B, $A)")
        assert output.data["dry_run"] is True
        assert "+foo(2, 1)" in output.data["files"][0]["diff"]
        assert output.content.startswith(
            "would replace 1 match in 1 file; set dry_run to false to write the changes"
        )
        assert files_of(root) == before

    def test_changes_all_files_at_once(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1, 2)\n", "c/b.ts": "foo(3, 4); foo(5, 6);\n"})
        (root / "a.py").chmod(0o755)
        output = rewrite(state, "foo($A, $B)", "foo($B, $A)")
        assert files_of(root) == {"a.py": b"foo(2, 1)\n", "c/b.ts": b"foo(4, 3); foo(6, 5);\n"}
        assert output.data["replacements"] == 3
        assert (root / "a.py").stat().st_mode & 0o777 == 0o755

    def test_the_outermost_match_is_replaced(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(foo(1))\n"})
        output = rewrite(state, "foo($A)", "bar($A)")
        assert files_of(root)["a.py"] == b"bar(foo(1))\n"
        assert output.data["nested"] == 1
        rewrite(state, "foo($A)", "bar($A)")
        assert files_of(root)["a.py"] == b"bar(bar(1))\n"

    def test_captured_code_is_reindented(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "class A:\n    def f(self):\n        a()\n\n        b()\n\n    x = 1\n"})
        rewrite(state, "def $F($$$P): $$$B", "def $F($$$P):\n    with lock:\n        $$$B\n")
        expected = (
            "class A:\n    def f(self):\n        with lock:\n            a()\n\n            b()\n\n  "
            " "
            " x = 1\n"
        )
        assert files_of(root)["a.py"].decode() == expected

    def test_encoding_bom_and_newlines_are_kept(self, state: ToolState, root: Path) -> None:
        text = "# é\r\nfoo(1)\r\n"
        plant(
            root,
            {
                "a.py": b"\xef\xbb\xbf" + text.encode(),
                "b.py": text.encode("utf-16"),
                "c.py": text.encode("latin-1"),
            },
        )
        rewrite(state, "foo($A)", "bar(\n    $A\n)")
        after = text.replace("foo(1)", "bar(\r\n    1\r\n)")
        encoded = {
            "a.py": b"\xef\xbb\xbf" + after.encode(),
            "b.py": after.encode("utf-16"),
            "c.py": after.encode("latin-1"),
        }
        assert files_of(root) == encoded

    def test_an_unknown_name_is_refused(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n", "b.sh": "echo hello\n"})
        with pytest.raises(ToolError, match=r"uses \$C, but the pattern captures only \$A"):
            rewrite(state, "foo($A)", "bar($C)")
        rewrite(state, "echo hello", "echo $HOME", language="bash")
        assert files_of(root) == {"a.py": b"foo(1)\n", "b.sh": b"echo $HOME\n"}

    def test_a_protected_file_stops_the_rewrite(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n", ".vscode/b.py": "foo(1)\n"})
        before = files_of(root)
        with pytest.raises(ToolError, match="is protected"):
            rewrite(state, "foo($A)", "bar($A)")
        assert files_of(root) == before

    def test_a_concurrent_change_stops_the_rewrite(
        self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\n"})
        change = state.workspace.apply_changes

        def meddle(changes: Any) -> Any:
            (root / "b.py").write_text("somebody(else_)\n")
            return change(changes)

        monkeypatch.setattr(state.workspace, "apply_changes", meddle)
        with pytest.raises(ToolError, match="has changed since it was read"):
            rewrite(state, "foo($A)", "bar($A)")
        assert files_of(root) == {"a.py": b"foo(1)\n", "b.py": b"somebody(else_)\n"}

    def test_a_seen_file_stays_seen(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\n"})
        state.mark_seen(root / "a.py", FileVersion.from_status(os.stat(root / "a.py")))
        rewrite(state, "foo($A)", "bar($A)")
        assert state.seen_versions == {root / "a.py": FileVersion.from_status(os.stat(root / "a.py"))}

    def test_limits(self, state: ToolState, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(root, {"a.py": "foo(1)\n", "b.py": "foo(1)\nfoo(2)\n"})
        before = files_of(root)
        with pytest.raises(ToolError, match="matches more than 2 times"):
            rewrite(state, "foo($A)", "bar($A)", max_results=2)
        monkeypatch.setattr(ast_tools, "MAX_FILES", 1)
        with pytest.raises(ToolError, match="more than 1 files"):
            rewrite(state, "foo($A)", "bar($A)")
        assert files_of(root) == before

    def test_nothing_to_change_is_not_an_error(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n"})
        assert rewrite(state, "baz($A)", "bar($A)").content.endswith("nothing to change.")
        assert rewrite(state, "foo($A)", "foo($A)").data["files"] == []

    def test_preview(self, state: ToolState, root: Path) -> None:
        plant(root, {"a.py": "foo(1)\n"})
        preview = ast_rewrite_tools(state)[0].preview
        assert preview is not None
        wish = {"pattern": "foo($A)", "replacement": "bar($A)"}
        assert "writes nothing" in preview(wish)
        assert "-foo(1)\n+bar(1)" in preview({**wish, "dry_run": False})
        with pytest.raises(ToolError, match="klingon"):
            preview({**wish, "dry_run": False, "language": "klingon"})
        assert files_of(root) == {"a.py": b"foo(1)\n"}
