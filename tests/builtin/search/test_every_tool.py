"""What all tools that search have in common: how they are declared, which calls they refuse, and that they
can be cancelled.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from search_kit import flatten_table, make_context, make_state, plant

from toolglot.builtin.code.ast_query import MAX_FILE_SIZE, MAX_PATTERN_LENGTH
from toolglot.builtin.code.ast_tools import ast_rewrite_tools, ast_search_tools
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.search.glob import glob_tools
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool
from toolglot.values.messages import ToolCall

CREATE: dict[str, Callable[[ToolState], list[Tool]]] = {
    "grep": grep_tools,
    "glob": glob_tools,
    "list_dir": list_dir_tools,
    "read_many": read_many_tools,
    **(
        {"ast_search": ast_search_tools, "ast_rewrite": ast_rewrite_tools} if find_spec("ast_grep_py") else {}
    ),
}
GOOD: dict[str, dict[str, Any]] = {
    "grep": {"pattern": "dog"},
    "glob": {"pattern": "*"},
    "list_dir": {},
    "read_many": {"include": ["a.py"]},
    "ast_search": {"pattern": "foo($A)"},
    "ast_rewrite": {"pattern": "foo($A)", "replacement": "bar($A)", "dry_run": False},
}
FILES: dict[str, str | bytes] = {
    "a.py": "foo(1)\n",
    "a.txt": "foo(1)\n",
    "sub/b.py": "foo(1)\n",
    "binary.py": b"foo(1)\0",
}

PATHS: list[Any] = [
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
        "/etc",
    ),
    *(
        "file:///etc",
        "%2e%2e",
        "..\\..",
        "\uff0e\uff0e/x",
        "/proc/self/root",
        "/proc/self/fd/0",
        "a" * 256,
        "sub/../../x",
    ),
    *("/proc/self/cwd", "../outside.py", "a\0", "link", "link.py", "loop", "pipe.py", "C:\\x", "*.py"),
]
FLAGS: list[Any] = ["perhaps", 7, {}, []]
NUMBERS: list[Any] = [-1, -(10**30), "many", 0.5, {}, []]
GLOBS: list[Any] = [
    [""],
    ["\0"],
    ["{a,b}" * 20],
    ["x" * 9000],
    {},
    [{}],
    ["*"] * 500,
    ["a", ""],
    ["a\0b"],
    [[]],
    [None],
]
AST: dict[str, list[Any]] = {
    "pattern": [
        *(
            None,
            [],
            {},
            ["a", "b"],
            "",
            " ",
            "\n\t",
            "\0",
            "\ud800",
            "foo('\udfff')",
            "x" * (MAX_PATTERN_LENGTH + 1),
        ),
        *("(" * 5_000_000, "foo(", "$$$", "$A $B"),
    ],
    "language": [[], {}, "klingon", "pyton", " ", "python;", "\0", "é", "../python", "x" * 10**5],
    "path": [*PATHS, [], {}, "a.txt", "binary.py", "huge.py", "/proc/self/environ"],
    "include_glob": [[], {}, "x" * 5000, "{a,b}" * 20, ["a", "b"]],
    "max_results": [0, *NUMBERS, "1e3x"],
}
BAD: dict[str, dict[str, list[Any]]] = {
    "grep": {
        "pattern": ["", "\0", "a\0b", "\ud800", "x" * 20_000, "a\nb", None, {}, [[]]],
        "path": [*PATHS, "binary.py", {}, 3.5],
        "include_glob": ["{a,b}" * 20, "x" * 9000, {}, [["a"]]],
        "file_type": [
            "nosuchtype",
            "py;id",
            "-e",
            "--pre=sh",
            "py:*",
            "\0",
            "é",
            "x" * 100,
            "all*",
            "../x",
            {},
            "p y",
        ],
        "exclude_line_regex": ["(", "\0", "a\nb", "\ud800", "x" * 20_000, {}],
        "mode": ["lines", "", "CONTENT!", 3, {}],
        "max_per_file": [0, *NUMBERS],
        **dict.fromkeys(("before", "after", "max_results", "skip"), NUMBERS),
        **dict.fromkeys(("ignore_case", "literal"), FLAGS),
    },
    "glob": {
        "pattern": [
            *(
                "",
                "\0",
                "a\0",
                "..",
                "../*",
                "a/../b",
                "../../etc/*",
                "{a,b}" * 20,
                "x" * 9000,
                "/etc/**",
                "/",
                "/proc/*",
            ),
            *(None, {}, [1, 2], "./../x", "{../a,b}/../c", "/..", "/../etc/*"),
        ],
        "path": [*PATHS, "a.py", {}, 3.5, [[]]],
        **dict.fromkeys(("case_sensitive", "respect_gitignore", "respect_extra_ignore"), FLAGS),
        "max_results": NUMBERS,
        "order": ["newest", "", 3, {}, []],
    },
    "list_dir": {
        "path": [*PATHS, "a.py", {}, 3.5, [[]]],
        "ignore": GLOBS,
        "depth": [0, *NUMBERS],
        **dict.fromkeys(("skip", "limit"), NUMBERS),
        **dict.fromkeys(("respect_gitignore", "respect_extra_ignore"), FLAGS),
    },
    "read_many": {
        "include": [
            *([path] for path in PATHS if path not in ("*.py", "pipe.py")),
            *(
                [],
                {},
                [{}],
                ["*"] * 500,
                [""],
                ["../*"],
                ["/etc/*"],
                ["{a,b}" * 20],
                ["x*" * 3000],
                [["a.py"]],
                [None],
                "",
            ),
            *(
                ["*", "../../*"],
                ["a.py", "/etc/passwd"],
                ["a.py", "\0"],
                ["a/../../*"],
                ["/proc/self/*"],
                ["**/nowhere"],
            ),
        ],
        "exclude": [*GLOBS, ["**"], ["a.py"]],
        "default_excludes": FLAGS,
    },
    "ast_search": AST,
    "ast_rewrite": {
        **AST,
        "replacement": [None, [], {}, "a\0", "\ud800", "x" * 200_000, "$B", "$$$A_B", "$A $NONE"],
        "dry_run": FLAGS,
    },
}
CALLS = [(tool, {**GOOD[tool], name: value}) for tool in CREATE for name, value in flatten_table(BAD[tool])]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("search").resolve()
    (directory / "outside.py").write_text("foo(1)\n")
    root = plant(directory / "work", FILES)
    with (root / "huge.py").open("wb") as file:
        file.truncate(MAX_FILE_SIZE + 1)
    os.mkfifo(root / "pipe.py")
    (root / "link").symlink_to("..")
    (root / "link.py").symlink_to("../outside.py")
    (root / "loop").symlink_to("loop")
    return root


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=range(len(CALLS)))
def test_a_bad_call_is_refused_and_changes_nothing(root: Path, name: str, arguments: dict[str, Any]) -> None:
    tool, call = CREATE[name](make_state(root))[0], ToolCall("1", name, arguments)
    with pytest.raises(ToolError) as raised:
        tool.call(tool.bind(call).values, Context(call))
    assert raised.value.kind in ("validation", "not_found", "not_allowed", "execution", "limit")
    assert not any(sign in str(raised.value) for sign in ("Traceback", "Errno"))
    assert len(list(root.rglob("*"))) == len(FILES) + 6
    assert {path: (root / path).read_bytes() for path in ("a.py", "../outside.py")} == dict.fromkeys(
        ("a.py", "../outside.py"), b"foo(1)\n"
    )


@pytest.mark.parametrize("name", [name for name in CREATE if name != "read_many"])
def test_cancellation(root: Path, name: str) -> None:
    with pytest.raises(ToolError) as raised:
        CREATE[name](make_state(root))[0](**GOOD[name], context=make_context(name, cancelled=True))
    assert (raised.value.kind, raised.value.code) == ("cancelled", "cancelled")
    assert (root / "a.py").read_bytes() == b"foo(1)\n"


PARAMETERS = {
    "grep": "pattern path include_glob mode ignore_case before after max_results",
    "glob": "pattern path case_sensitive respect_gitignore max_results",
    "list_dir": "path ignore depth skip limit respect_gitignore",
    "read_many": "include exclude default_excludes",
    "ast_search": "pattern path language include_glob max_results",
    "ast_rewrite": "pattern replacement path language include_glob max_results dry_run",
}


@pytest.mark.parametrize("name", CREATE)
def test_declaration(root: Path, name: str) -> None:
    tool = CREATE[name](make_state(root))[0]
    assert (tool.name, bool(tool.definition.examples)) == (name, True)
    assert tool.effects == ({"read", "write"} if name == "ast_rewrite" else {"read"})
    properties: Any = (tool.definition.parameters or {})["properties"]
    assert list(properties) == PARAMETERS[name].split()
    assert all(parameter["description"] for parameter in properties.values())
    assert tool.target is not None
    if name == "read_many":
        assert tool.target({"include": ["a", "b/*"]}) == "a, b/*"
    else:
        paths = {"sub": str(root / "sub"), "/etc": "/etc", "": str(root)}
        assert {path: tool.target({"path": path} if path else {}) for path in paths} == paths
