"""Lines that match: the same with ripgrep and without, nothing from outside, and an end to every search."""

import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolglot.builtin import child_process as programs
from toolglot.builtin.child_process import has_landlock, start_confined
from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.search import grep as module
from toolglot.builtin.search import grep_query as finding
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.grep_query import FILE_TYPES
from toolglot.builtin.search.grep_ripgrep import find_ripgrep
from toolglot.builtin.search.grep_worker import run_task
from toolglot.builtin.search.regexes import translate_regex
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool

ENGINES = ["python"]
if shutil.which("rg") and has_landlock():
    ENGINES.append("ripgrep")
needs_both = pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep and Landlock")


def planted(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


FILES: dict[str, str | bytes] = {
    "a.py": "import os\nclass Dog:\n    def bark(self):\n        return 'wow'\n",
    "sub/b.py": "class Cat:\n    pass\n\n\nclass Dog2(Dog):\n    pass\n",
    "sub/c.txt": "dog days\nno match\nDOG\n",
    ".hidden/d.py": "dog = 1\n",
    "ignored.log": "class Dog\n",
    "sub/deep/ignored.log": "class Dog\n",
    "sub/deep/e.md": "# Dog\r\ntext\r\n",
    ".gitignore": "*.log\n/out/\n",
    "out/gen.py": "class Dog\n",
    "blob.bin": b"class Dog\0\1\2\n",
    "latin.txt": "größe dog\n".encode("latin-1") + "größe\n".encode(),
    ".git/config": "class Dog\n",
    "long.txt": "x" * 5000 + "needle" + "y" * 5000 + "\nshort needle\n",
    "empty": "",
    "no-end": "last line without end: dog",
}


WITH_DOGS = {"a.py", "sub/b.py", "sub/deep/e.md"}
SMALL_DOGS = {"sub/c.txt", ".hidden/d.py", "latin.txt", "no-end"}
IGNORED_DOGS = {"ignored.log", "sub/deep/ignored.log", "out/gen.py"}


def box_of(root: Path) -> ToolState:
    return ToolState(Workspace(root))


def grep_of(root: Path, engine: str) -> Tool:
    return grep_tools(box_of(root), engine=engine)[0]  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield planted(Path(folder).resolve(), FILES)


def lines_of(data: Any) -> list[tuple[str, int, str]]:
    return [(file["path"], line["line"], line["text"]) for file in data["files"] for line in file["lines"] if line["is_match"]]


def paths_of(data: Any) -> set[str]:
    return {file["path"] for file in data["files"]}


@pytest.mark.parametrize("engine", ENGINES)
class TestWhatIsFound:
    def test_lines_with_paths_and_numbers_in_the_order_of_paths(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern=r"class (Dog|Cat)\b")
        assert found.content == "a.py:2:class Dog:\nsub/b.py:1:class Cat:"
        assert found.data["total"] == 2
        assert found.data["engine"] == engine

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"pattern": "dog", "ignore_case": True, "mode": "files"}, WITH_DOGS | SMALL_DOGS),
            ({"pattern": "(?i)DOG DAYS"}, {"sub/c.txt"}),
            ({"pattern": "Dog", "include_glob": "*.py"}, {"a.py", "sub/b.py"}),
            ({"pattern": "Dog", "include_glob": "*.{py,md}"}, {"a.py", "sub/b.py", "sub/deep/e.md"}),
            ({"pattern": "Dog", "include_glob": "!*.py"}, {"sub/deep/e.md"}),
            ({"pattern": "Dog", "include_glob": "*.py,!b*"}, {"a.py"}),
            ({"pattern": "Dog", "include_glob": "sub/**"}, {"sub/b.py", "sub/deep/e.md"}),
            ({"pattern": "Dog", "include_glob": "[ab].py"}, {"a.py", "sub/b.py"}),
            ({"pattern": "Dog", "include_glob": "!sub"}, {"a.py"}),
            ({"pattern": "Dog", "file_type": "py"}, {"a.py", "sub/b.py"}),
            ({"pattern": "Dog", "file_type": "md"}, {"sub/deep/e.md"}),
            ({"pattern": "Dog", "path": "sub"}, {"sub/b.py", "sub/deep/e.md"}),
            ({"pattern": "Dog", "path": "sub", "include_glob": "deep/*"}, {"sub/deep/e.md"}),
            ({"pattern": "Dog", "path": "out"}, {"out/gen.py"}),
            ({"pattern": "Dog", "path": "ignored.log"}, {"ignored.log"}),
            ({"pattern": "Dog", "no_ignore": True, "mode": "count"}, WITH_DOGS | IGNORED_DOGS),
            ({"pattern": "Dog", "no_ignore": True, "path": "sub", "include_glob": "*.log"}, {"sub/deep/ignored.log"}),
            ({"pattern": "(self)", "literal": True}, {"a.py"}),
            ({"pattern": "größe"}, {"latin.txt"}),
            ({"pattern": "gr..e dog"}, set[str]()),
            ({"pattern": "without end: dog$"}, {"no-end"}),
            ({"pattern": "--help"}, set[str]()),
            ({"pattern": "--pre=/bin/sh"}, set[str]()),
            ({"pattern": "-e"}, set[str]()),
            ({"pattern": r"\pL{5} dog"}, set[str]()),
            ({"pattern": r"^\s*def\s+\w+\("}, {"a.py"}),
        ],
    )  # fmt: skip
    def test_the_files_that_are_meant(self, tree: Path, engine: str, options: dict[str, Any], expected: set[str]) -> None:
        assert paths_of(grep_of(tree, engine)(**options).data) == expected

    def test_counts_lines_of_each_file(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="class|pass", mode="count", include_glob="*.py")
        assert found.content == "a.py:1\nsub/b.py:4"
        assert found.data["total_lines"] == 5

    def test_files_are_newest_first(self, tree: Path, engine: str) -> None:
        os.utime(tree / "a.py", (2e9, 2e9))
        os.utime(tree / "sub" / "b.py", (1e9, 1e9))
        assert grep_of(tree, engine)(pattern="class", mode="files").content == "a.py\nsub/b.py"

    def test_lines_around_a_match(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="bark|Dog2|Cat", before=1, after=1)
        assert found.content.splitlines() == [
            *("a.py-2-class Dog:", "a.py:3:    def bark(self):", "a.py-4-        return 'wow'", "--"),
            *("sub/b.py:1:class Cat:", "sub/b.py-2-    pass", "--"),
            *("sub/b.py-4-", "sub/b.py:5:class Dog2(Dog):", "sub/b.py-6-    pass"),
        ]

    def test_few_matches_are_shown_with_what_is_around(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="bark", auto_context=True)
        assert found.data["auto_context"] is True
        assert [line["line"] for line in found.data["files"][0]["lines"]] == [1, 2, 3, 4]
        assert grep_of(tree, engine)(pattern="bark", auto_context=True, before=0).data["auto_context"] is False

    def test_only_what_matches(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="[Dd]og", only_matching=True, path="sub")
        assert found.content.splitlines() == ["sub/b.py:5:Dog", "sub/b.py:5:Dog", "sub/c.txt:1:dog", "sub/deep/e.md:1:Dog"]

    def test_over_several_lines(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern=r"Dog:.*?bark", multiline=True)
        assert lines_of(found.data) == [("a.py", 2, "class Dog:"), ("a.py", 3, "    def bark(self):")]
        assert grep_of(tree, engine)(pattern=r"Cat:\n    pass", multiline=True, mode="count").content == "sub/b.py:2"
        only = grep_of(tree, engine)(pattern=r"Dog:.*?bark", multiline=True, only_matching=True)
        assert only.content == "a.py:2:Dog:\na.py:3:    def bark"

    def test_lines_that_match_another_regex_are_left_out(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="class", exclude_line_regex=r"Dog\d|Cat")
        assert found.content == "a.py:2:class Dog:"
        assert grep_of(tree, engine)(pattern="class", exclude_line_regex="Dog", mode="files").content == "sub/b.py"

    def test_results_in_parts(self, tree: Path, engine: str) -> None:
        grep = grep_of(tree, engine)
        first = grep(pattern="class|pass", max_results=2)
        assert first.content.splitlines()[-1] == "[matching lines 1 to 2 of at least 4; go on with skip=2]"
        everything, skip = list[Any](), 0
        while (part := grep(pattern="class|pass", max_results=2, skip=skip)).data["shown"]:
            everything += lines_of(part.data)
            skip += 2
        assert everything == lines_of(grep(pattern="class|pass").data)
        assert len(everything) == 5
        assert grep(pattern="class", skip=50).content == "[there are only 3 matching lines]"

    def test_so_many_lines_of_one_file(self, tree: Path, engine: str) -> None:
        found = grep_of(tree, engine)(pattern="class|pass", max_per_file=1)
        assert [(path, line) for path, line, _ in lines_of(found.data)] == [("a.py", 2), ("sub/b.py", 1)]

    def test_long_lines_are_cut_around_what_matches(self, tree: Path, engine: str) -> None:
        first, second = grep_of(tree, engine)(pattern="needle").content.splitlines()
        assert "needle" in first
        assert len(first) < 2200
        assert re.search(r"\[… 4500 characters\] x+needley+ \[3506 more characters …\]", first)
        assert second == "long.txt:2:short needle"

    def test_bytes_that_are_no_text_are_shown_as_such(self, tree: Path, engine: str) -> None:
        assert grep_of(tree, engine)(pattern="dog", path="latin.txt").content == "latin.txt:1:gr\ufffd\ufffde dog"

    def test_without_numbers(self, tree: Path, engine: str) -> None:
        assert grep_of(tree, engine)(pattern="bark", line_numbers=False).content == "a.py:    def bark(self):"

    def test_nothing_is_said_in_words(self, tree: Path, engine: str) -> None:
        assert grep_of(tree, engine)(pattern="nowhere").content.startswith("No matches for 'nowhere' in ")

    def test_a_line_that_ends_in_crlf_is_shown_without_it(self, tree: Path, engine: str) -> None:
        assert grep_of(tree, engine)(pattern="# Dog").content == "sub/deep/e.md:1:# Dog"

    def test_names_of_any_bytes(self, tmp_path: Path, engine: str) -> None:
        for name in (b"new\nline", b"byte\xff", b"a:1:b", "é {x}".encode(), b"-e", b"a b", b"[x]"):
            Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"dog\n")
        for mode in ("content", "files", "count"):
            found = grep_of(tmp_path, engine)(pattern="dog", mode=mode)
            assert paths_of(found.data) == {"new\nline", "byte\ufffd", "a:1:b", "é {x}", "-e", "a b", "[x]"}
            json.dumps(found.data, ensure_ascii=False).encode()

    def test_rules_above_the_folder_that_is_searched_hold_too(self, tmp_path: Path, engine: str) -> None:
        planted(
            tmp_path,
            {".gitignore": "*.log\n/a/b/no\n", "a/.gitignore": "tmp/\n!k.log\n", "a/b/k.log": "dog", "a/b/l.log": "dog"},
        )
        planted(tmp_path, {"a/b/no": "dog", "a/b/tmp/x": "dog", "a/b/yes": "dog", ".git/info/exclude": "ex\n", "a/b/ex": "dog"})
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog", path="a/b").data) == {"a/b/k.log", "a/b/yes"}

    def test_what_models_should_not_see_is_not_shown(self, tmp_path: Path, engine: str) -> None:
        planted(
            tmp_path, {".aiignore": "secret/\n*.key\n", ".gitignore": "!x.key\n", "secret/a": "dog", "x.key": "dog", "b": "dog"}
        )
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog").data) == {"b"}
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog", no_ignore=True).data) == {"b", "secret/a", "x.key"}

    def test_other_roots_are_searched_by_their_paths(self, tmp_path: Path, engine: str) -> None:
        planted(tmp_path, {"main/a": "dog", "other/deep/b": "dog"})
        box = ToolState(Workspace(tmp_path / "main", other_roots=[Root(tmp_path / "other", writable=False)]))
        found = grep_tools(box, engine=engine)[0](pattern="dog", path=str(tmp_path / "other"), before=1)  # pyright: ignore[reportArgumentType]
        assert found.content == f"{tmp_path}/other/deep/b:1:dog"


@pytest.mark.parametrize("engine", ENGINES)
class TestNothingFromOutside:
    def test_links_are_not_followed(self, tmp_path: Path, engine: str) -> None:
        root = planted(tmp_path / "w", {"a": "dog\n"})
        planted(tmp_path, {"outside/secret": "dog secret\n"})
        (root / "file").symlink_to(tmp_path / "outside" / "secret")
        (root / "folder").symlink_to(tmp_path / "outside")
        (root / "inner").symlink_to("a")
        (root / "self").symlink_to(".")
        assert grep_of(root, engine)(pattern="dog").content == "a:1:dog"

    @pytest.mark.parametrize("path", ["..", "../outside", "folder", "file", "/etc", "folder/secret", "/", "a/../../outside"])
    def test_a_path_does_not_lead_out(self, tmp_path: Path, engine: str, path: str) -> None:
        root = planted(tmp_path / "w", {"a": "dog\n"})
        planted(tmp_path, {"outside/secret": "dog secret\n"})
        (root / "file").symlink_to(tmp_path / "outside" / "secret")
        (root / "folder").symlink_to(tmp_path / "outside")
        with pytest.raises(ToolError):
            grep_of(root, engine)(pattern="dog", path=path)

    @pytest.mark.untraced
    def test_folders_that_are_swapped_meanwhile_lead_nowhere(self, tmp_path: Path, engine: str) -> None:
        root = planted(tmp_path / "w", {f"real/d{number}/f": "inside dog\n" for number in range(20)})
        planted(tmp_path, {f"outside/d{number}/f": "SECRET dog\n" for number in range(20)})
        (root / "link").symlink_to(tmp_path / "outside")
        over = threading.Event()

        def swap() -> None:
            while not over.is_set():
                os.rename(root / "real", root / "spare")
                os.rename(root / "link", root / "real")
                os.rename(root / "real", root / "link")
                os.rename(root / "spare", root / "real")

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            grep = grep_of(root, engine)
            for _ in range(4 if engine == "python" else 25):
                assert {line for _, _, line in lines_of(grep(pattern="dog|SECRET").data)} <= {"inside dog"}
                assert grep(pattern="SECRET", mode="count").data["total"] == 0
        finally:
            over.set()
            thread.join()

    def test_pipes_and_devices_do_not_hold_it_up(self, tmp_path: Path, engine: str) -> None:
        planted(tmp_path, {"a": "dog\n"})
        os.mkfifo(tmp_path / "pipe")
        if os.geteuid() == 0:
            os.mknod(tmp_path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        assert grep_of(tmp_path, engine)(pattern="dog").content == "a:1:dog"
        with pytest.raises(ToolError):
            grep_of(tmp_path, engine)(pattern="dog", path="pipe")


class TestRipgrepItself:
    def test_one_in_the_workspace_is_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = planted(tmp_path / "w", {"a": "dog\n", "bin/rg": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
        (root / "bin" / "rg").chmod(0o755)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "rg").symlink_to(root / "bin" / "rg")
        for place in (str(root / "bin"), str(tmp_path / "bin"), "bin", ".", ""):
            monkeypatch.setenv("PATH", place)
            monkeypatch.chdir(root)
            assert grep_of(root, "auto")(pattern="dog").data["engine"] == "python"
        assert not (tmp_path / "ran").exists()

    def test_one_that_is_something_else_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = planted(tmp_path / "w", {"a": "dog\n"})
        planted(tmp_path, {"bin/rg": "#!/bin/sh\necho ripgrep 11.0.2\n"})
        (tmp_path / "bin" / "rg").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        assert grep_of(root, "auto")(pattern="dog").data["engine"] == "python"
        with pytest.raises(ToolError, match="ripgrep"):
            grep_of(root, "ripgrep")(pattern="dog")

    @needs_both
    def test_it_cannot_read_outside_of_the_root(self, tmp_path: Path) -> None:
        root = planted(tmp_path / "w", {"a": "dog\n"})
        planted(tmp_path, {"secret": "dog\n"})
        box = box_of(root)
        handle = os.open(root, os.O_RDONLY)
        with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as errors:
            for path, output in (("a", b"dog\n"), (str(tmp_path / "secret"), b""), ("../secret", b""), ("/etc/passwd", b"")):
                process = start_confined(find_ripgrep(box, handle), ["-I", "", path], handle, nothing, errors)
                assert process.stdout is not None
                assert process.stdout.read() == output
                process.stdout.close()
                process.wait()
        os.close(handle)
        assert (tmp_path / "secret").read_text() == "dog\n"  # this thread is as free as before

    @needs_both
    def test_no_configuration_is_read(self, tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "rc").write_text("--files\n--invert-match\n")
        monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
        assert grep_of(tree, "ripgrep")(pattern="bark").data["total"] == 1

    @needs_both
    def test_a_type_that_only_ripgrep_knows_is_taken(self, tree: Path) -> None:
        assert paths_of(grep_of(tree, "ripgrep")(pattern="Dog", file_type="asciidoc").data) == set()
        with pytest.raises(ToolError, match="no file type 'asciidoc'"):
            grep_of(tree, "python")(pattern="Dog", file_type="asciidoc")


# ---- both ways

WORDS = ["dog", "Dog", "cat", "x", "", "a b", "foo(bar)", "é", "größe", "\t", "1", "_", "-", "x.y", "\r", "don't", "ǅ", "K"]
content = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=6).map("\n".join)
raw = st.one_of(
    content.map(str.encode),
    content.map(lambda text: text.encode() + b"\n"),
    st.sampled_from([b"", b"\n", b"\xff dog\n", b"dog\0", b"a\xe9b dog"]),
)
NAMES = ["a", "b.py", "c.txt", "x.log", "d/e.py", "d/x.log", "d/f/g", "h/i/j.md", ".k", "out/l.py"]
atom = st.sampled_from(
    [
        "dog",
        "[Dd]",
        "o",
        "g",
        ".",
        r"\w",
        r"\s",
        r"\d",
        r"\W",
        r"\S",
        "[^a-z]",
        "[a-zé]",
        r"\bdog\b",
        "(?i)",
        "(?i:D)",
        "^",
        "$",
        "(a|b)",
        "|",
        " ",
        r"\(",
        "é",
        r"[\w-]",
        "[[:alpha:]]",
        r"\x64",
        r"\u{e9}",
    ]
)
quantifier = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "+?", "*?"])
regex = st.lists(st.tuples(atom, quantifier).map("".join), min_size=1, max_size=5).map("".join)


def at_once(task: dict[str, Any], enough: object) -> Iterator[dict[str, Any]]:
    """What the other process would say, without one."""
    said: list[dict[str, Any]] = []
    run_task(json.loads(json.dumps(task)), lambda one: said.append(json.loads(json.dumps(one))))
    yield from said


@pytest.fixture(scope="class")
def in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finding, "_run_worker", at_once)
        yield


@needs_both
@pytest.mark.usefixtures("in_this_process")
class TestBothWays:
    @settings(max_examples=80)
    @given(
        files=st.dictionaries(st.sampled_from(NAMES), raw, min_size=1, max_size=5),
        rules=st.sampled_from(["", "*.log\n", "d/\n", "*\n!*/\n!*.py\n", "/out\n!x.log\n", "**/f/**\n"]),
        nested=st.sampled_from(["", "!x.log\n", "e.py\n", "*\n"]),
        pattern=regex,
        options=st.fixed_dictionaries(
            {
                "mode": st.sampled_from(["content", "content", "files", "count"]),
                "ignore_case": st.booleans(),
                "multiline": st.booleans(),
                "no_ignore": st.booleans(),
                "only_matching": st.booleans(),
                "literal": st.sampled_from([False, False, True]),
                "include_glob": st.sampled_from(["", "", "*.py", "!*.py", "d/**", "*.{py,txt},!b*", "[a-c]*"]),
                "file_type": st.sampled_from(["", "", "", "py"]),
                "exclude_line_regex": st.sampled_from(["", "", "cat", "^$"]),
                "max_results": st.sampled_from([0, 0, 1, 3]),
                "max_per_file": st.sampled_from([None, None, 1, 2]),
                "skip": st.sampled_from([0, 0, 1]),
                "before": st.sampled_from([None, None, 1]),
                "path": st.sampled_from([".", ".", "d"]),
            }
        ),
    )  # fmt: skip
    @example(files={"a": b"dog\n\ndog"}, rules="", nested="", pattern="x*", options={"mode": "content"})
    @example(files={"a": b"dog\ncat\n"}, rules="", nested="", pattern=r"\s", options={"multiline": True})
    @example(files={"a": b"dog\n\n\ncat\n"}, rules="", nested="", pattern=r"g\n*", options={"multiline": True})
    @example(files={"a": b"dog\r\n"}, rules="", nested="", pattern="g$", options={})
    @example(files={"a": "ǅ K\n".encode()}, rules="", nested="", pattern="[ǆk]", options={"ignore_case": True})
    def test_find_the_same(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        files: dict[str, bytes],
        rules: str,
        nested: str,
        pattern: str,
        options: dict[str, Any],
    ) -> None:
        root = tmp_path_factory.getbasetemp() / "both"
        shutil.rmtree(root, ignore_errors=True)
        planted(root, {**files, ".gitignore": rules, "d/.gitignore": nested})
        answers: list[Any] = []
        for engine in ("ripgrep", "python"):
            try:
                found = grep_of(root, engine)(pattern=pattern, **options)
                answers.append((found.content, {**found.data, "engine": ""}))
            except ToolError as e:
                answers.append(e.kind)
        assert answers[0] == answers[1]
        assert not isinstance(answers[0], str) or answers[0] == "validation"


# ---- patterns

ALIKE = [
    *(
        r"a\.b",
        r"a+b*c?",
        "a{2,3}",
        "a{2,}",
        r"\bfoo\b",
        "(?P<n>a)b",
        "(?i)a(?-i)b",
        "(?i:a)b",
        "a|b|",
        "[a-c]",
        r"[\d_]",
        "[]a]",
    ),
    *("[^]a]", "[a-]", r"\x41", r"\x{41}", r"\u0041", r"\U00000041", r"\pL", r"\p{Lu}", r"\p{Letter}", r"\PL", "a++", "(?s)."),
    *(r"\t", "a**", r"\A", r"\z", r"\S+\s\S", "[[:upper:]]{2}", r"[^\w]", r"[\W\d]", "(?i)[b]$", "^$", "()"),
]
REFUSED = [
    *(
        "(",
        ")",
        "[",
        "a{",
        "{",
        "*",
        "a{3,2}",
        r"\h",
        r"\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        r"\Z",
        r"\q",
        "(?z)",
        "(?P<a",
    ),
    *(
        "a\\",
        "[b-a]",
        r"\x{110000}",
        r"\xzz",
        r"\p{",
        "(?",
        "interface{}",
        "\n",
        r"a\nb",
        "(?)",
        "+",
        "?",
        r"[\d-z]{",
        "[a",
        "|*",
    ),
    *("(*)", "(?i)*"),
]
BEYOND = ["[a-z&&[aeiou]]", "[a[b]]", r"\p{Greek}", "(?x)a b", "(?U)a+", "(?-u)a", r"[[:^alpha:]]", r"\b{start}a"]
LITERALS = [
    *(("needle", "needle"), ("a.needle.*b", "needle"), ("nee+dle", "dle"), ("x?needle", "needle"), ("a|b", ""), ("(?i)a", "")),
    *((r"foo\(", "foo("), ("ab*+c", "a"), ("a+*", ""), ("a{0}b", "b"), ("[a]b", ""), ("}", "")),
]


class TestPatterns:
    @pytest.mark.parametrize("pattern", ALIKE)
    def test_what_ripgrep_knows_is_translated(self, tmp_path: Path, pattern: str) -> None:
        source = translate_regex(pattern).source
        ours = re.compile(source, re.MULTILINE)
        lines = ["a.b", "aabbc", "AB ab Ab aB", "foo foobar", "_1", "]", "-", "é Ω", "", "\t", "Aaa"]
        if len(ENGINES) == 2:
            planted(tmp_path, {"f": "\n".join(lines)})
            found = lines_of(grep_of(tmp_path, "ripgrep")(pattern=pattern).data)
            assert [line for _, _, line in found] == [line for line in lines if ours.search(line)]

    @pytest.mark.parametrize("pattern", REFUSED)
    @pytest.mark.parametrize("engine", ENGINES)
    def test_what_is_no_regex_is_refused_in_one_sentence(self, tree: Path, pattern: str, engine: str) -> None:
        with pytest.raises(ToolError) as raised:
            grep_of(tree, engine)(pattern=pattern)
        assert raised.value.kind == "validation"
        assert "\n" not in str(raised.value)
        assert "Traceback" not in str(raised.value)

    @pytest.mark.parametrize("pattern", BEYOND)
    def test_what_needs_ripgrep_says_so(self, pattern: str) -> None:
        with pytest.raises(ToolError, match="needs ripgrep"):
            translate_regex(pattern)

    @pytest.mark.parametrize("pattern", ["(" * 300 + ")" * 300, "a" * 20_000, "(?:" * 150 + "a" + ")" * 150])
    def test_depth_and_length_are_bounded(self, pattern: str) -> None:
        with pytest.raises(ToolError):
            translate_regex(pattern)

    @pytest.mark.parametrize(("pattern", "literal"), LITERALS)
    def test_a_text_that_every_match_holds_is_looked_for_first(self, pattern: str, literal: str) -> None:
        assert translate_regex(pattern).literal == literal

    @settings(max_examples=300)
    @given(pattern=st.text(alphabet=r"ab\dwsbBpPxu{}[]()|?*+^$.-:<>=!&i0129,", max_size=14))
    def test_any_text_is_translated_or_refused(self, pattern: str) -> None:
        try:
            found = translate_regex(pattern).source
        except ToolError as e:
            found = re.escape(str(e))
        re.compile(found, re.MULTILINE)
        assert "\n" not in found


class TestEnds:
    def test_a_regex_that_never_ends_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        planted(tmp_path, {"a": "a" * 60 + "\n"})
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.7)
        start = time.monotonic()
        with pytest.raises(ToolError) as raised:
            grep_of(tmp_path, "python")(pattern="(a|a|aa)+$b")
        assert raised.value.kind == "timeout"
        assert time.monotonic() - start < 6

    @pytest.mark.parametrize("engine", ENGINES)
    def test_it_stops_when_nobody_waits(self, tree: Path, engine: str) -> None:
        flag = threading.Event()
        flag.set()
        context = Context(ToolCall("1", "grep", {}), cancel_flag=flag)
        with pytest.raises(ToolError) as raised:
            grep_of(tree, engine)(pattern="dog", context=context)
        assert raised.value.kind == "cancelled"

    @pytest.mark.parametrize("engine", ENGINES)
    def test_much_output_is_cut_and_said(self, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
        planted(tmp_path, {f"f{number}": "dog\n" * 5000 for number in range(40)})
        monkeypatch.setattr(programs, "MAX_OUTPUT", 1 << 20)
        found = grep_of(tmp_path, engine)(pattern="dog", max_results=0)
        assert found.data["complete"] is False
        assert "stopped before everything was searched" in found.content

    @pytest.mark.parametrize("engine", ENGINES)
    def test_no_handle_and_no_process_is_left(self, tree: Path, engine: str) -> None:
        grep = grep_of(tree, engine)
        grep(pattern="dog")
        before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        for pattern in ("dog", "(", "nowhere"):
            with suppress(ToolError):
                grep(pattern=pattern)
        assert (len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0) <= before


# ---- bad input

BAD: dict[str, list[Any]] = {
    "pattern": ["", "\0", "a\0b", "\ud800", "x" * 20_000, "a\nb", None, {}, [[]]],
    "path": [
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
        *("%2e%2e", "..\\..", "\uff0e\uff0e/x", "/proc/self/root", "blob.bin", {}, 3.5),
    ],
    "include_glob": ["{a,b}" * 20, "x" * 9000, {}, [["a"]]],
    "file_type": ["nosuchtype", "py;id", "-e", "--pre=sh", "py:*", "\0", "é", "x" * 100, "all*", "../x", {}, "p y"],
    "exclude_line_regex": ["(", "\0", "a\nb", "\ud800", "x" * 20_000, {}],
    "mode": ["lines", "", "CONTENT!", 3, {}],
    "before": [-1, "x", 1.5, {}],
    "after": [-1, -(10**30), "x", {}],
    "max_results": [-1, "many", 0.5, {}],
    "max_per_file": [0, -1, "x", {}],
    "skip": [-1, "x", 2.5, {}],
    "ignore_case": ["perhaps", 7, {}],
    "literal": ["perhaps", {}],
}


def called(tool: Tool, arguments: dict[str, Any]) -> Any:
    call = ToolCall("1", tool.name, arguments)
    return tool.call(tool.bind(call).values, Context(call))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_input_is_a_typed_error(tree: Path, name: str, value: Any) -> None:
    grep = grep_of(tree, ENGINES[-1])
    before = sorted(str(path) for path in tree.rglob("*"))
    with pytest.raises(ToolError) as raised:
        called(grep, {"pattern": "dog", name: value})
    assert raised.value.kind in ("validation", "not_found", "not_allowed", "execution")
    assert "Traceback" not in str(raised.value)
    assert sorted(str(path) for path in tree.rglob("*")) == before


def test_huge_numbers_are_taken_as_the_most_there_is(tree: Path) -> None:
    found = grep_of(tree, ENGINES[-1])(pattern="bark", before=10**9, after=10**9, max_results=10**12, max_per_file=10**6)
    assert found.data["before"] == module.MAX_CONTEXT_LINES
    assert found.data["total"] == 1


def test_the_tool_says_what_it_is(tree: Path) -> None:
    grep = grep_of(tree, "auto")
    assert grep.name == "grep"
    assert grep.effects == {"read"}
    assert grep.target is not None
    assert grep.target({"path": "sub"}) == str(tree / "sub")
    assert grep.target({}) == str(tree)
    assert grep.target({"path": "/etc"}) == "/etc"
    assert grep.definition.parameters is not None
    assert "context" not in grep.definition.parameters["properties"]


@needs_both
def test_own_types_are_within_those_of_ripgrep(tree: Path) -> None:
    for name in FILE_TYPES:
        assert grep_of(tree, "ripgrep")(pattern="nowhere", file_type=name).data["total"] == 0
