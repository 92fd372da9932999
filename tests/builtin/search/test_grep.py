"""`grep`: the same results with and without ripgrep, nothing from outside the workspace, and an end to every
search.
"""

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from search_kit import count_fds, make_context, make_state, plant, plant_byte_names, swap_directories

from toolglot.builtin.search import grep as grep_module
from toolglot.builtin.search import grep_worker
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.grep_query import FALLBACK_NOTE, FILE_TYPES, GrepQuery
from toolglot.builtin.search.grep_ripgrep import find_ripgrep
from toolglot.builtin.search.grep_worker import find_matches
from toolglot.confine import child_process, programs
from toolglot.confine.child_process import start_confined
from toolglot.confine.sandbox import landlock_version
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool

ENGINES = ["python"]
if shutil.which("rg") and landlock_version():
    ENGINES.append("ripgrep")
needs_both = pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep and Landlock")

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


def grep_of(root: Path, engine: str, *other_roots: Path) -> Tool:
    return grep_tools(make_state(root, *other_roots), use_ripgrep=engine == "ripgrep")[0]


def text_of(output: ToolOutput) -> str:
    """Return what both engines say: without the note of the one without ripgrep."""
    assert isinstance(output.content, str)
    return output.content.removesuffix(f"\n[{FALLBACK_NOTE}]").removesuffix(f"[{FALLBACK_NOTE}]")


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield plant(Path(directory).resolve(), FILES)


def lines_of(data: Any) -> list[tuple[str, int, str]]:
    return [
        (file["path"], line["line"], line["text"])
        for file in data["files"]
        for line in file["lines"]
        if line["is_match"]
    ]


def paths_of(data: Any) -> set[str]:
    return {file["path"] for file in data["files"]}


@pytest.mark.parametrize("engine", ENGINES)
class TestResults:
    @pytest.mark.parametrize(("options", "expected"), [
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
        ({"pattern": "dog", "ignore_case": True, "hidden": False}, {name for name in WITH_DOGS | SMALL_DOGS if name[0] != "."}),
        ({"pattern": "(self)", "literal": True}, {"a.py"}),
        ({"pattern": "größe"}, {"latin.txt"}),
        ({"pattern": "without end: dog$"}, {"no-end"}),
        ({"pattern": "--help"}, set[str]()),
        ({"pattern": "--pre=/bin/sh"}, set[str]()),
        ({"pattern": "-e"}, set[str]()),
        ({"pattern": r"^\s*def\s+\w+\("}, {"a.py"}),
    ])  # fmt: skip
    def test_matching_files(
        self, tree: Path, engine: str, options: dict[str, Any], expected: set[str]
    ) -> None:
        assert paths_of(grep_of(tree, engine)(**options).data) == expected

    @pytest.mark.parametrize(("options", "expected"), [
        ({"pattern": r"class (Dog|Cat)\b"}, "a.py:2:class Dog:\nsub/b.py:1:class Cat:"),
        ({"pattern": r"Dog:.*?bark", "multiline": True}, "a.py:2:class Dog:\na.py:3:    def bark(self):"),
        ({"pattern": "[Dd]og", "only_matching": True, "path": "sub/b.py"}, "sub/b.py:5:Dog\nsub/b.py:5:Dog"),
        ({"pattern": r"Cat:\n    pass", "multiline": True, "mode": "count"}, "sub/b.py:2"),
        ({"pattern": r"Dog:.*?bark", "multiline": True, "only_matching": True}, "a.py:2:Dog:\na.py:3:    def "
                                                                                "bark"),
        ({"pattern": "class", "exclude_line_regex": r"Dog\d|Cat"}, "a.py:2:class Dog:"),
        ({"pattern": "class", "exclude_line_regex": "Dog", "mode": "files"}, "sub/b.py"),
        ({"pattern": "class|pass", "max_per_file": 1}, "a.py:2:class Dog:\nsub/b.py:1:class Cat:"),
        ({"pattern": "bark", "line_numbers": False}, "a.py:    def bark(self):"),
        ({"pattern": "# Dog"}, "sub/deep/e.md:1:# Dog"),
        ({"pattern": "dog", "path": "latin.txt"}, "latin.txt:1:gr\ufffd\ufffde dog"),
        ({"pattern": "class|pass", "mode": "count", "include_glob": "*.py"}, "a.py:1\nsub/b.py:4"),
        ({"pattern": "class", "skip": 50}, "[there are only 3 matching lines]"),
    ])  # fmt: skip
    def test_text(self, tree: Path, engine: str, options: dict[str, Any], expected: str) -> None:
        output = grep_of(tree, engine)(**options)
        assert (text_of(output), output.data["engine"]) == (
            expected,
            "python" if "exclude_line_regex" in options else engine,
        )

    def test_files_are_newest_first(self, tree: Path, engine: str) -> None:
        os.utime(tree / "a.py", (2e9, 2e9))
        os.utime(tree / "sub" / "b.py", (1e9, 1e9))
        assert text_of(grep_of(tree, engine)(pattern="class", mode="files")) == "a.py\nsub/b.py"

    def test_context_lines(self, tree: Path, engine: str) -> None:
        output = grep_of(tree, engine)(pattern="bark|Dog2|Cat", before=1, after=1)
        assert text_of(output).splitlines() == [
            *("a.py-2-class Dog:", "a.py:3:    def bark(self):", "a.py-4-        return 'wow'", "--"),
            *("sub/b.py:1:class Cat:", "sub/b.py-2-    pass", "--"),
            *("sub/b.py-4-", "sub/b.py:5:class Dog2(Dog):", "sub/b.py-6-    pass"),
        ]

    def test_few_matches_get_context_by_themselves(self, tree: Path, engine: str) -> None:
        for options, numbers in (({}, [1, 2, 3, 4]), ({"before": 0}, [3])):
            output = grep_of(tree, engine)(pattern="bark", auto_context=True, **options)
            assert [line["line"] for line in output.data["files"][0]["lines"]] == numbers

    def test_pages(self, tree: Path, engine: str) -> None:
        grep = grep_of(tree, engine)
        first = text_of(grep(pattern="class|pass", max_results=2)).splitlines()
        assert (
            first[-1] == "[showing matching lines 1-2 of at least 4; narrow the search or raise max_results]"
        )
        lines, skip = list[Any](), 0
        while (page := grep(pattern="class|pass", max_results=2, skip=skip)).data["shown"]:
            lines += lines_of(page.data)
            skip += 2
        assert lines == lines_of(grep(pattern="class|pass").data)
        assert len(lines) == 5

    def test_long_lines_are_truncated_around_the_match(self, tree: Path, engine: str) -> None:
        first, second = text_of(grep_of(tree, engine)(pattern="needle")).splitlines()
        assert len(first) < 2200
        assert re.search(r"\[… 4500 characters\] x+needley+ \[3506 more characters …\]", first)
        assert second == "long.txt:2:short needle"

    def test_no_match(self, tree: Path, engine: str) -> None:
        assert text_of(grep_of(tree, engine)(pattern="nowhere")).startswith("No matches for 'nowhere' in ")

    def test_names_of_any_bytes(self, tmp_path: Path, engine: str) -> None:
        names = [b"new\nline", b"byte\xff", b"a:1:b", "é {x}".encode(), b"-e", b"a b", b"[x]"]
        plant_byte_names(tmp_path, names, b"dog\n")
        for mode in ("content", "files", "count"):
            output = grep_of(tmp_path, engine)(pattern="dog", mode=mode)
            assert paths_of(output.data) == {"new\nline", r"byte\udcff", "a:1:b", "é {x}", "-e", "a b", "[x]"}
            json.dumps(output.data, ensure_ascii=False).encode()

    def test_rules_above_the_searched_directory_apply(self, tmp_path: Path, engine: str) -> None:
        plant(
            tmp_path,
            {".gitignore": "*.log\n/a/b/no\n", "a/.gitignore": "tmp/\n!k.log\n", ".git/info/exclude": "ex\n"},
        )
        plant(
            tmp_path,
            dict.fromkeys(["a/b/k.log", "a/b/l.log", "a/b/no", "a/b/tmp/x", "a/b/yes", "a/b/ex"], "dog"),
        )
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog", path="a/b").data) == {"a/b/k.log", "a/b/yes"}

    def test_extra_ignore_files(self, tmp_path: Path, engine: str) -> None:
        plant(tmp_path, {".aiignore": "secret/\n*.key\n", ".gitignore": "!x.key\n"})
        plant(tmp_path, {"secret/a": "dog", "x.key": "dog", "b": "dog"})
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog").data) == {"b"}
        assert paths_of(grep_of(tmp_path, engine)(pattern="dog", no_ignore=True).data) == {
            "b",
            "secret/a",
            "x.key",
        }

    def test_other_roots_are_searched_by_path(self, tmp_path: Path, engine: str) -> None:
        plant(tmp_path, {"main/a": "dog", "other/deep/b": "dog"})
        grep = grep_of(tmp_path / "main", engine, tmp_path / "other")
        assert (
            text_of(grep(pattern="dog", path=str(tmp_path / "other"), before=1))
            == f"{tmp_path}/other/deep/b:1:dog"
        )

    @pytest.mark.parametrize(
        "pattern", ["(", ")", "[", "*", "a{3,2}", r"\q", "(?P<a", "a\\", "[b-a]", r"\xzz", "(?", "[a"]
    )
    def test_an_invalid_pattern_is_refused_in_one_sentence(
        self, tree: Path, pattern: str, engine: str
    ) -> None:
        with pytest.raises(ToolError) as raised:
            grep_of(tree, engine)(pattern=pattern)
        assert (raised.value.kind, raised.value.code) == ("validation", "invalid_pattern")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("engine", ENGINES)
class TestConfinement:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = plant(tmp_path / "w", {"a": "dog\n"})
        plant(tmp_path, {"outside/secret": "dog secret\n"})
        (root / "file").symlink_to(tmp_path / "outside" / "secret")
        (root / "directory").symlink_to(tmp_path / "outside")
        (root / "inner").symlink_to("a")
        (root / "self").symlink_to(".")
        return root

    def test_links_are_not_followed(self, root: Path, engine: str) -> None:
        assert text_of(grep_of(root, engine)(pattern="dog")) == "a:1:dog"

    @pytest.mark.parametrize(
        "path", ["..", "../outside", "directory", "file", "/etc", "directory/secret", "/", "a/../../outside"]
    )
    def test_a_path_does_not_lead_out(self, root: Path, engine: str, path: str) -> None:
        with pytest.raises(ToolError):
            grep_of(root, engine)(pattern="dog", path=path)

    @pytest.mark.untraced
    def test_directories_that_are_swapped_meanwhile_lead_nowhere(self, tmp_path: Path, engine: str) -> None:
        root = plant(tmp_path / "w", {f"real/d{number}/f": "inside dog\n" for number in range(20)})
        plant(tmp_path, {f"outside/d{number}/f": "SECRET dog\n" for number in range(20)})
        (root / "link").symlink_to(tmp_path / "outside")
        grep = grep_of(root, engine)
        with swap_directories(root):
            for _ in range(4 if engine == "python" else 25):
                assert {line for _, _, line in lines_of(grep(pattern="dog|SECRET").data)} <= {"inside dog"}
                assert grep(pattern="SECRET", mode="count").data["total"] == 0

    def test_pipes_and_devices_do_not_block(self, tmp_path: Path, engine: str) -> None:
        plant(tmp_path, {"a": "dog\n"})
        os.mkfifo(tmp_path / "pipe")
        if os.geteuid() == 0:
            os.mknod(tmp_path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        assert text_of(grep_of(tmp_path, engine)(pattern="dog")) == "a:1:dog"
        with pytest.raises(ToolError):
            grep_of(tmp_path, engine)(pattern="dog", path="pipe")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_long_line_with_very_many_matches(tmp_path: Path, engine: str) -> None:
    """ripgrep describes each match in 50 bytes, and a match of several lines by all of them."""
    plant(tmp_path, {"long": '},{"match":' * 30_000, "lines": "a\n" * 50_000})
    grep = grep_of(tmp_path, engine)
    (line,) = grep(pattern=".", path="long").data["files"][0]["lines"]
    assert line["matches"][:2] == ("}", ",")
    assert (len(line["matches"]), line["matches"][-1]) == (1001, "[only the first 1000 matches of this line]")
    assert grep(pattern="a\n?", path="lines", multiline=True, mode="content").data["files"][0]["lines"][1][
        "matches"
    ] == ("a",)
    assert (
        grep(pattern="a\n?", path="lines", multiline=True, mode="count").data["files"][0]["count"] == 50_000
    )


class TestRipgrep:
    def test_a_program_in_the_workspace_is_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = plant(tmp_path / "w", {"a": "dog\n", "bin/rg": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
        (root / "bin" / "rg").chmod(0o755)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "rg").symlink_to(root / "bin" / "rg")
        monkeypatch.chdir(root)
        monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
        for path in (str(root / "bin"), str(tmp_path / "bin"), "bin", ".", ""):
            monkeypatch.setenv("PATH", path)
            assert grep_of(root, "ripgrep")(pattern="dog").data["engine"] == "python"
        assert not (tmp_path / "ran").exists()

    def test_an_old_version_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = plant(tmp_path / "w", {"a": "dog\n"})
        plant(tmp_path, {"bin/rg": "#!/bin/sh\necho ripgrep 11.0.2\n"})
        (tmp_path / "bin" / "rg").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
        assert grep_of(root, "ripgrep")(pattern="dog").data["engine"] == "python"

    @needs_both
    def test_it_cannot_read_outside_of_the_root(self, tmp_path: Path) -> None:
        root = plant(tmp_path / "w", {"a": "dog\n"})
        plant(tmp_path, {"secret": "dog\n"})
        fd = os.open(root, os.O_RDONLY)
        program = find_ripgrep(make_state(root), fd)
        with tempfile.TemporaryFile() as errors:
            for path, expected in (
                ("a", b"dog\n"),
                (str(tmp_path / "secret"), b""),
                ("../secret", b""),
                ("/etc/passwd", b""),
            ):
                process = start_confined(program, ["-I", "", path], fd, errors)
                assert process.communicate()[0] == expected
        os.close(fd)
        assert (tmp_path / "secret").read_text() == "dog\n"  # this thread is as free as before

    @needs_both
    def test_no_configuration_is_read(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "rc").write_text("--files\n--invert-match\n")
        monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
        assert grep_of(tree, "ripgrep")(pattern="bark").data["total"] == 1

    @needs_both
    def test_file_types(self, tree: Path) -> None:
        for name in (*FILE_TYPES, "asciidoc"):  # ripgrep knows ours, and more
            assert grep_of(tree, "ripgrep")(pattern="nowhere", file_type=name).data["total"] == 0
        with pytest.raises(ToolError, match="'asciidoc' is not a known file type"):
            grep_of(tree, "python")(pattern="Dog", file_type="asciidoc")

    @needs_both
    @pytest.mark.parametrize("pattern", [r"\1", "(?=a)", "(?<!a)", "{", "a{", r"a\nb"])
    def test_syntax_that_only_python_knows_is_refused(self, tree: Path, pattern: str) -> None:
        with pytest.raises(ToolError) as raised:
            grep_of(tree, "ripgrep")(pattern=pattern)
        assert raised.value.code == "invalid_pattern"


class TestFallback:
    def test_the_result_explains_the_other_syntax(self, tree: Path) -> None:
        grep = grep_of(tree, "python")
        output = grep(pattern=r"(?<=class )Dog(?!\d)")
        assert (text_of(output), output.data["note"]) == ("a.py:2:class Dog:", FALLBACK_NOTE)
        assert output.content.endswith(f"\n[{FALLBACK_NOTE}]")
        with pytest.raises(ToolError, match="not by ripgrep"):
            grep(pattern=r"\p{Greek}")
        assert grep(pattern="(self)", literal=True).data["note"] == ""


# ---- both engines

WORDS = [
    "dog",
    "Dog",
    "cat",
    "x",
    "",
    "a b",
    "foo(bar)",
    "é",
    "größe",
    "\t",
    "1",
    "_",
    "-",
    "x.y",
    "\r",
    "don't",
    "ǅ",
    "K",
]
content = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=6).map("\n".join)
raw = st.one_of(
    content.map(str.encode),
    content.map(lambda text: text.encode() + b"\n"),
    st.sampled_from([b"", b"\n", b"dog\0"]),
)
NAMES = ["a", "b.py", "c.txt", "x.log", "d/e.py", "d/x.log", "d/f/g", "h/i/j.md", ".k", "out/l.py"]
atom = st.sampled_from(
    [
        *(
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
            "(?i:D)",
            "(a|b)",
            " ",
            r"\(",
        ),
        *("é", r"[\w-]", r"\x64"),
    ]
)
quantifier = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "+?", "*?"])
part = st.tuples(atom, quantifier).map("".join) | st.sampled_from(["^", "$", "|", r"\bdog\b"])
regex = st.lists(part, min_size=1, max_size=5).map("".join)
"""Patterns that both engines read alike."""


def run_in_process(query: GrepQuery, should_stop: object) -> Iterator[dict[str, Any]]:
    """Run the worker's query without a process."""
    for event in find_matches(msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(query))), GrepQuery)):
        yield json.loads(json.dumps(event))


@pytest.fixture(scope="class")
def in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grep_worker, "_run_worker", run_in_process)
        yield


@needs_both
@pytest.mark.usefixtures("in_this_process")
class TestBothEngines:
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
                "include_glob": st.sampled_from(
                    ["", "", "*.py", "!*.py", "d/**", "*.{py,txt},!b*", "[a-c]*"]
                ),
                "file_type": st.sampled_from(["", "", "", "py"]),
                "exclude_line_regex": st.sampled_from(["", "", "cat", "^$"]),
                "max_results": st.sampled_from([0, 0, 1, 3]),
                "max_per_file": st.sampled_from([None, None, 1, 2]),
                "skip": st.sampled_from([0, 0, 1]),
                "before": st.sampled_from([None, None, 1]),
                "path": st.sampled_from([".", ".", "d"]),
            }
        ),
    )
    @example(files={"a": b"dog\n\ndog"}, rules="", nested="", pattern="x*", options={"mode": "content"})
    @example(files={"a": b"dog\ncat\n"}, rules="", nested="", pattern=r"\s", options={"multiline": True})
    @example(
        files={"a": b"dog\n\n\ncat\n"}, rules="", nested="", pattern=r"g\n*", options={"multiline": True}
    )
    @example(files={"a": b"dog\r\n"}, rules="", nested="", pattern="g$", options={})
    @example(
        files={"a": "ǅ K\n".encode()}, rules="", nested="", pattern="[ǆk]", options={"ignore_case": True}
    )
    def test_they_find_the_same(
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
        plant(root, {**files, ".gitignore": rules, "d/.gitignore": nested})
        results: list[Any] = []
        for engine in ("ripgrep", "python"):
            try:
                output = grep_of(root, engine)(pattern=pattern, **options)
                results.append((text_of(output), {**output.data, "engine": "", "note": ""}))
            except ToolError as e:
                results.append(e.code)
        assert results[0] == results[1]
        assert not isinstance(results[0], str) or results[0] == "invalid_pattern"


class TestEnds:
    def test_a_regex_that_backtracks_forever_is_killed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(tmp_path, {"a": "a" * 60 + "\n"})
        monkeypatch.setattr(grep_module, "TIMEOUT_SECONDS", 0.7)
        with pytest.raises(ToolError) as raised:
            grep_of(tmp_path, "python")(pattern="(a|a|aa)+$b")
        assert (raised.value.kind, raised.value.code) == ("timeout", "search_timeout")

    @pytest.mark.parametrize("engine", ENGINES)
    def test_cancellation(self, tree: Path, engine: str) -> None:
        with pytest.raises(ToolError, match="was cancelled"):
            grep_of(tree, engine)(pattern="dog", context=make_context("grep", cancelled=True))

    @pytest.mark.parametrize("engine", ENGINES)
    def test_output_is_limited(self, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(tmp_path, {f"f{number}": "dog\n" * 5000 for number in range(40)})
        monkeypatch.setattr(child_process, "MAX_OUTPUT", 1 << 20)
        output = grep_of(tmp_path, engine)(pattern="dog", max_results=0)
        assert output.data["complete"] is False
        assert "stopped before everything was searched" in output.content

    @pytest.mark.parametrize("engine", ENGINES)
    def test_no_descriptor_is_left_open(self, tree: Path, engine: str) -> None:
        grep = grep_of(tree, engine)
        grep(pattern="dog")
        before = count_fds()
        for pattern in ("dog", "(", "nowhere"):
            with suppress(ToolError):
                grep(pattern=pattern)
        assert count_fds() <= before


def test_huge_numbers_are_clamped(tree: Path) -> None:
    output = grep_of(tree, ENGINES[-1])(
        pattern="bark", before=10**9, after=10**9, max_results=10**12, max_per_file=10**6
    )
    assert output.data["before"] == grep_module.MAX_CONTEXT_LINES
    assert output.data["total"] == 1
