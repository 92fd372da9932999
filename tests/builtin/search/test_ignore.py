"""Ignore rules mean what git means by them, and globs match what they should."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolglot.builtin.search import walk as walk_module
from toolglot.builtin.search.globs import GlobFilter, expand_braces, glob_to_regex, to_byte_key
from toolglot.builtin.search.ignore import IgnoreRules, rebase_rules
from toolglot.builtin.search.walk import Walk, is_ignored
from toolglot.errors import ToolError

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git_ignores(root: Path, paths: list[str]) -> set[str]:
    """Return the paths that git ignores."""
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        input="\0".join(paths).encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert done.returncode in (0, 1), done.stderr
    return {path.decode("utf-8", "surrogateescape") for path in done.stdout.split(b"\0") if path}


def repository(root: Path, files: dict[str, str]) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode("latin-1"))
    (root / ".git").mkdir(exist_ok=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git" / "objects").mkdir(exist_ok=True)
    (root / ".git" / "refs").mkdir(exist_ok=True)
    return root


def walk_files(root: Path) -> set[str]:
    """Return the files that a walk yields."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        walk = Walk(fd, "", extra_ignore=False)
        return {
            f"{directory.path}/{entry.name}".lstrip("/") for directory in walk for entry in directory.files
        }
    finally:
        os.close(fd)


def our_ignores(root: Path, paths: list[str]) -> set[str]:
    """Return the paths that are ignored when each is looked at alone."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return {path for path in paths if is_ignored(fd, path)}
    finally:
        os.close(fd)


@pytest.mark.parametrize(("limit", "is_partial"), [(2, True), (3, False)])
def test_a_walk_says_when_a_directory_has_too_many_entries(
    limit: int, is_partial: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_module, "MAX_DIRECTORY_ENTRIES", limit)
    for name in "abc":
        (tmp_path / name).touch()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    walk = Walk(fd, "")
    assert sum(len(directory.files) for directory in walk) == limit
    assert walk.stopped_early is is_partial
    os.close(fd)


TREE = [
    *(
        "a",
        "b.log",
        "keep.log",
        "#x",
        "!x",
        " x",
        "x ",
        "x",
        "é",
        "foo.py",
        ".hidden",
        "d/a",
        "d/b.log",
        "d/e/a",
    ),
    *(
        "d/e/b.log",
        "da",
        "d/e/f/foo.py",
        "build/a",
        "build/keep.log",
        "d/build/x",
        "foo/bar/a",
        "foo/a",
        "a-b",
        "a]b",
    ),
    *("a[b", "a\\b", "A", "x.y.z"),
]
RULES = [
    *(
        "a",
        "/a",
        "a/",
        "*.log",
        "!keep.log",
        "*.log\n!keep.log",
        "!keep.log\n*.log",
        "build/",
        "build",
        "/build/",
    ),
    *(
        "build/*",
        "build/*\n!build/keep.log",
        "build/\n!build/keep.log",
        "d/",
        "d/*",
        "d/**",
        "d/**/a",
        "**/a",
        "**/build",
    ),
    *(
        "**/e/**",
        "foo/**/a",
        "a/**/b",
        "**",
        "*",
        "/*",
        "!*",
        "*\n!*/\n!*.py",
        "?",
        "??",
        "[ab]",
        "[!ab]",
        "[^ab]",
    ),
    *(
        "[a-c]*",
        "[]]*",
        "[!]]*",
        "a[]]b",
        "a[[]b",
        "a\\[b",
        "a\\\\b",
        "[[:alpha:]]",
        "[[:nope:]]",
        "[a",
        "a\\",
        "\\#x",
    ),
    *(
        "#x",
        "\\!x",
        "!x",
        "x\\ ",
        "x ",
        " x",
        "x  ",
        "\\ x",
        "x\r",
        "ï»¿a",
        "Ã©",
        "/",
        "!",
        "//",
        "a//",
        "d//a",
        "d/e",
    ),
    *(
        "e/",
        "/e/",
        "**e",
        "e**",
        "d**/a",
        "d/**e/a",
        "***/a",
        "d/***/a",
        "*/a",
        "*/*/a",
        "f*o.py",
        "*.*.*",
        "x*y*z",
        "A",
    ),
    *(
        ".*",
        "[z-a]",
        "[a-]*",
        "[\\a]",
        "[a\\-c]b",
        "[a\\]b]*",
        "[[:digit:][:alpha:]]",
        "[[:alpha:]",
        "d/[e/]/a",
        "d[/]a",
    ),
    *(
        "\\a",
        "d\\/a",
        "{a,x}",
        "a\n!a\na",
        "*.log\n!/d/b.log",
        "/d/b.log\n!b.log",
        "!b.log\n/d/b.log",
        "x/\ne/",
    ),
]


@needs_git
@pytest.mark.parametrize("rules", RULES)
def test_every_form_of_a_rule_means_what_git_means(tmp_path: Path, rules: str) -> None:
    root = repository(tmp_path / "r", dict.fromkeys(TREE, "") | {".gitignore": rules})
    paths = [*TREE, ".gitignore"]
    assert walk_files(root) == set(paths) - git_ignores(root, paths) == set(paths) - our_ignores(root, paths)


NAMES = ["a", "b", "ab", "a.b", "c", "é", "a b"]
piece = st.sampled_from(
    ["a", "b", "c", "*", "**", "?", "[ab]", "[!a]", ".", "/", "\\a", "\\*", " ", "é", "ab", "[a-c]", "!"]
)
line = st.lists(piece, min_size=1, max_size=7).map("".join)
text = st.lists(line, max_size=5).map("\n".join).map(lambda text: text.encode().decode("latin-1"))
path = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


def tree_of(paths: list[str]) -> list[str]:
    """Return the paths that can be files at the same time: none is a directory of another one."""
    return [path for path in paths if not any(other.startswith(path + "/") for other in paths)]


@needs_git
class TestAgainstGit:
    @settings(max_examples=40)
    @given(paths=st.lists(path, min_size=1, max_size=12, unique=True), top=text, nested=text, exclude=text)
    @example(paths=["a/b", "c"], top="a/*\n!a/b", nested="", exclude="c")
    @example(paths=["a/b/c"], top="a", nested="!b", exclude="")
    def test_generated_trees(
        self, tmp_path_factory: pytest.TempPathFactory, paths: list[str], top: str, nested: str, exclude: str
    ) -> None:
        files = dict.fromkeys(tree_of(paths), "")
        files |= {".gitignore": top, ".git/info/exclude": exclude}
        if any(path.startswith("a/") for path in files):
            files["a/.gitignore"] = nested
        root = repository(tmp_path_factory.getbasetemp() / "generated", files)
        candidates = [path for path in files if not path.startswith(".git/")]
        assert walk_files(root) == set(candidates) - git_ignores(root, candidates)
        assert our_ignores(root, candidates) == git_ignores(root, candidates)

    @settings(max_examples=20)
    @given(paths=st.lists(path, min_size=1, max_size=10, unique=True), rules=text)
    def test_rebased_rules_mean_the_same(
        self, tmp_path_factory: pytest.TempPathFactory, paths: list[str], rules: str
    ) -> None:
        files = [f"a [x]/{path}" for path in tree_of(paths)]
        root = repository(
            tmp_path_factory.getbasetemp() / "rebased", dict.fromkeys(files, "") | {"a [x]/.gitignore": rules}
        )
        before = git_ignores(root, files)
        rebased = "\n".join(rebase_rules(rules, to_byte_key("a [x]")))
        (root / "a [x]" / ".gitignore").unlink()
        (root / ".gitignore").write_bytes(rebased.encode("latin-1"))
        assert git_ignores(root, files) == before

    def test_nested_ignore_files(self, tmp_path: Path) -> None:
        files = {
            ".gitignore": "*.log\n/only-here\ndeep/**/gone\n",
            "x.log": "",
            "only-here": "",
            "a/only-here": "",
            "a/.gitignore": "!x.log\nlocal\n",
            "a/x.log": "",
            "a/local": "",
            "a/b/local": "",
            "a/b/.gitignore": "!local\n",
            "deep/1/2/gone": "",
            "deep/gone": "",
            "a/deep/gone": "",
        }
        root = repository(tmp_path / "r", files)
        assert (
            walk_files(root)
            == set(files) - git_ignores(root, list(files))
            == set(files) - our_ignores(root, list(files))
        )


def test_a_nested_repository_has_its_own_rules(tmp_path: Path) -> None:
    root = repository(
        tmp_path / "r", {".gitignore": "*.log\n", "in/x.log": "", "in/.git/HEAD": "", "y.log": ""}
    )
    assert walk_files(root) == {".gitignore", "in/x.log"}


def test_a_link_is_not_an_ignore_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a\n")
    root = repository(tmp_path / "r", {"a": "", "b": ""})
    (root / ".gitignore").symlink_to(tmp_path / "secret")
    assert walk_files(root) == {"a", "b"}


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 30 + "b",
        "a*" * 40 + "b",
        "**/a/" * 12 + "b",
        "**/*a*a*a*a*a*a/" * 5 + "b",
        "[a]*" * 30 + "b",
        "?*" * 30 + "b",
    ],
)
@pytest.mark.parametrize("name", ["a" * 250, "/".join(["a" * 20] * 60), "a/" * 120 + "a", "a" * 250 + "c"])
def test_no_glob_backtracks_over_its_stars(pattern: str, name: str) -> None:
    # With backtracking, each of these would run for years.
    assert not re.fullmatch(glob_to_regex(pattern), name, re.DOTALL)


def test_a_huge_ignore_file() -> None:
    rules = IgnoreRules("\n".join(f"name{number}*x" for number in range(3000)))
    assert rules.decide("name7zzx", "name7zzx", False)


def test_rules_are_cached_by_text() -> None:
    assert IgnoreRules.parse("a\n") is IgnoreRules.parse("a\n")


GLOBS: list[tuple[str, list[str], list[str]]] = [
    ("*.py", ["a.py"], ["a/b.py"]),
    ("**/*.py", ["a.py", "a/b/c.py"], []),
    ("a/**", ["a/b/c"], ["a"]),
    ("a/**/b", ["a/b", "a/x/y/b"], ["a/x/y/c"]),
    ("a?c", ["abc"], ["a/c"]),
    ("a[/]c", [], ["a/c"]),
    ("[!a]", ["b"], []),
    ("", [""], []),
    ("a\\*", ["a*"], ["ab"]),
    ("[", [], ["["]),
    ("a.c", [], ["abc"]),
    ("**/x/**/y", ["x/y", "p/x/q/r/y"], []),
    ("**", ["any/thing"], []),
    ("new\nline", ["new\nline"], []),
    ("*", [".hidden", "new\nline"], []),
]


@pytest.mark.parametrize(("glob", "matching", "others"), GLOBS)
def test_a_glob_matches_a_whole_path(glob: str, matching: list[str], others: list[str]) -> None:
    assert [
        path for path in [*matching, *others] if re.fullmatch(glob_to_regex(glob), path, re.DOTALL)
    ] == matching


BRACES = [
    ("*.{ts,tsx}", ["*.ts", "*.tsx"]),
    ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
    ("a{b,{c,d}}", ["ab", "ac", "ad"]),
    ("{a}", ["a"]),
    ("{}", [""]),
    ("a{,b}", ["a", "ab"]),
    ("a{b", ["a{b"]),
    ("a}b", ["a}b"]),
    ("\\{a,b\\}", ["\\{a,b\\}"]),
    ("x{a,b", ["x{a,b"]),
    ("{a,b}}", ["a}", "b}"]),
]


@pytest.mark.parametrize(("glob", "expected"), BRACES)
def test_expand_braces(glob: str, expected: list[str]) -> None:
    assert expand_braces(glob) == expected


@pytest.mark.parametrize("glob", ["{a,b}" * 20, "{" * 2000 + "a,b" + "}" * 2000 + "{a,b}" * 12, "x" * 5000])
def test_a_glob_that_expands_to_too_much_is_refused(glob: str) -> None:
    with pytest.raises(ToolError) as raised:
        expand_braces(glob)
    assert raised.value.kind == "validation"


ADMITTED: list[tuple[str, list[str], list[str]]] = [
    ("*.py", ["a/b.py"], ["a/b.txt"]),
    ("*.{py,txt}", ["b.txt"], []),
    ("*.py,*.txt", ["b.txt"], []),
    ("!*.py", ["b.txt"], ["b.py"]),
    ("*.py,!test_*", [], ["test_a.py"]),
    ("!test_*,*.py", ["test_a.py"], []),
    ("!vendor", [], ["vendor/a/b.py"]),
    ("!vendor/", ["vendors/a.py"], []),
    ("src/**", ["src/a/b"], ["other/src/a"]),
    ("./src/*.py", ["src/a.py"], []),
    ("/a.py", ["a.py"], ["b/a.py"]),
    ("é*", ["x/éa"], []),
]


@pytest.mark.parametrize(("globs", "admitted", "excluded"), ADMITTED)
def test_glob_filter(globs: str, admitted: list[str], excluded: list[str]) -> None:
    assert [path for path in [*admitted, *excluded] if GlobFilter.parse(globs).admits(path)] == admitted
