"""Bad paths and bad arguments for every tool that touches files or asks the user: a typed error, and nothing
changes.
"""

import json
from typing import Any

import pytest
from file_kit import Tools, create_trapped_workspace, snapshot

from toolglot.builtin import ask_user, memory, todo
from toolglot.builtin.edit.edit_tools import edit_tools
from toolglot.builtin.edit.notebook import notebook_tools
from toolglot.builtin.edit.patch_tool import MAX_FILES, MAX_PATCH_CHARS, patch_tools
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.memory import MAX_DEPTH
from toolglot.builtin.todo import MAX_ID_CHARS, MAX_ITEMS, MAX_TEXT_CHARS
from toolglot.builtin.tool_state import UserQuestion

Arguments = dict[str, Any]

NOTEBOOK: dict[str, Any] = {
    "cells": [{"cell_type": "code", "id": name, "source": []} for name in ("top", "calc", "end")]
}


def never_ask(questions: list[UserQuestion]) -> list[Any]:
    raise AssertionError(questions)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Tools of a directory in which nothing ever changes; the model has read its text files."""
    root = create_trapped_workspace(tmp_path_factory.mktemp("still"))
    (root / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (root / "a.ipynb").write_text(json.dumps(NOTEBOOK))
    (root / "f.txt").write_text("a\nb\nc\nd\ne\n")
    factories = (file_tools, edit_tools, notebook_tools, patch_tools)
    others = (memory.create_tools, todo.create_tools, ask_user.create_tools)
    tools = Tools(root, *factories, *others, state_dir=root.parent / "state", ask=never_ask)
    for path in ("text.txt", "a.ipynb"):
        tools("read", path=path)
    for path, text in (("a.md", "1\n2\n"), ("f/x.md", "3")):
        tools("memory", command="create", path=f"/memories/{path}", file_text=text)
    tools("todo", items=[task("kept")])
    return tools


def check_failure(tools: Tools, name: str, arguments: Arguments, kinds: str) -> None:
    """Check that a call fails with one of these kinds and leaves everything as it was."""
    before, seen = snapshot(tools.root.parent), dict(tools.state.seen_versions)
    error = tools.failure(name, **arguments)
    assert error.kind in kinds.split()
    assert str(error)
    assert not [word for word in ("Traceback", "Errno", "the secret") if word in str(error)]
    assert len(str(error)) < 3000
    assert (snapshot(tools.root.parent), tools.state.seen_versions) == (before, seen)
    assert tools("todo").content == "1. [pending] kept"


def each(*values: Any) -> tuple[Any, ...]:
    return values


def vary(name: str, *values: Any, **fixed: Any) -> list[Arguments]:
    return [{**fixed, name: value} for value in values]


# ---- paths

# Nothing that may be read or changed is there.
PATHS: list[Any] = [
    *(
        "",
        "\0",
        "a\0b",
        "text.txt\0.png",
        "..",
        "../",
        ".",
        "/",
        "//",
        "./",
        "sub",
        "sub/",
        "text.txt/",
        "text.txt/x",
    ),
    *(
        "../work_evil/secret",
        "sub/../../work_evil/secret",
        "/etc/passwd",
        "//etc/passwd",
        "/etc/../etc/passwd",
    ),
    *("out", "outdir", "outdir/secret", "dangling", "relative", "loop", "loop/x", "proc", "proc/etc/passwd"),
    *("/proc/self/root/etc/passwd", "/proc/self/cwd", "/dev/zero", "/dev/null", "fifo", "socket", "fifo/x"),
    *("x" * 256, "d/" * 3000 + "x", "é" * 200, "\ud800", "a/\ud800/b"),
    *(None, [], {}, ["text.txt"], {"path": "text.txt"}),
]
# No text file is there, but one could be created.
ABSENT_PATHS = [
    *(
        "nothing",
        "sub/nothing",
        "nothing/x",
        "text.tx",
        "TEXT.TXT",
        "file:///etc/passwd",
        "%2e%2e/x",
        "..\\x",
        "~/.bashrc",
    ),
    *(True, 1.5, "binary", "late"),
]
EDIT, MULTI_EDIT = {"old": "one", "new": "1"}, {"edits": [{"old": "one", "new": "1"}]}
INSERT, NOTEBOOK_EDIT = {"after_line": 0, "text": "x"}, {"cell_id": "top", "source": "x"}
PATH_CALLS: list[tuple[str, Arguments, list[Any]]] = [
    ("read", {}, [*PATHS, *ABSENT_PATHS]),
    ("view_image", {}, [*PATHS, *ABSENT_PATHS, "text.txt"]),
    *(("write", {"content": "evil", "mode": mode}, PATHS) for mode in ("overwrite", "append", "create_only")),
    ("edit", EDIT, [*PATHS, *ABSENT_PATHS]),
    ("multi_edit", MULTI_EDIT, [*PATHS, *ABSENT_PATHS]),
    ("insert", INSERT, [*PATHS, *ABSENT_PATHS]),
    ("notebook_edit", NOTEBOOK_EDIT, [*PATHS, *ABSENT_PATHS]),
]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("name", "arguments"),
    [(name, {**arguments, "path": path}) for name, arguments, paths in PATH_CALLS for path in paths],
    ids=lambda value: repr(value)[-40:],
)
def test_a_bad_path_is_refused(tools: Tools, name: str, arguments: Arguments) -> None:
    check_failure(tools, name, arguments, "validation not_found not_allowed execution")


# ---- arguments of file tools

TEXTS: list[Any] = [None, [], {}, "a\0b", "\ud800", "x\udcff", "x" * (10 << 20) + "x"]
READS: list[Arguments] = [
    *(
        case
        for name in ("start_line", "end_line", "max_lines", "tail_lines")
        for case in vary(name, 0, -1, -(10**30), "x", [])
    ),
    *(case for name in ("start_line", "end_line", "max_lines", "tail_lines") for case in vary(name, {}, 1.5)),
    *(
        {"start_line": 3, "end_line": 2},
        {"start_line": 4},
        {"start_line": 10**30},
        {"start_line": 99, "end_line": 100},
    ),
    *({"tail_lines": 2, "start_line": 1}, {"tail_lines": 2, "end_line": 1}, {"allow_large": "maybe"}),
    *vary("pages", "1", "0", "x", "3-2", "1-", "1-99", "-1", "1,2", "9" * 50, "1\0", "\u0661"),
]
WRITES: list[Arguments] = [
    *vary("content", *TEXTS),
    *vary("mode", "", "w", "replace", 3, [], "overwrite\0", content="x"),
    *({}, {"text": "x"}),
]
REPLACEMENTS: list[Arguments] = [
    *vary(
        "old",
        *TEXTS,
        "",
        "four",
        "e",
        "ONE",
        "one two",
        "one\n\ntwo",
        r"one\ntwo",
        " ",
        "\n",
        "\t",
        "x" * 5000,
    ),
    *vary("new", *TEXTS, "one"),
    *vary("count", 0, -1, "", "two", [], {}, 1.5, 2, 10**30, "all of them"),
    *vary("match", "", "fuzzy", 3, [], {}, "exact\0"),
]
EDIT_LISTS: list[Any] = [None, [], {}, "x", 3, [None], [[]], ["x"], [{}], [{"old": "one"}], [EDIT] * 501]
INSERTIONS: list[Arguments] = [
    *vary("after_line", None, [], {}, "x", 1.5, -1, 4, 10**30, -(10**30), "-1", "top"),
    *vary("text", *TEXTS, ""),
]
CELLS: list[Arguments] = [
    *vary(
        "cell_id",
        "",
        "nope",
        "3",
        "-1",
        "cell-3",
        "cell-",
        "1.0",
        "9" * 40,
        "\0",
        "\ud800",
        "x" * 5000,
        [1],
        {"id": "top"},
    ),
    *(
        {"cell_id": None},
        {"cell_id": None, "mode": "delete"},
        *vary("mode", "delete", "insert", cell_id="nope"),
    ),
    *vary("source", *TEXTS[3:], ["x"], {"x": 1}),
    *vary("mode", "", "change", 3, "replace\0", ["insert"]),
    *vary("cell_type", "", "heading", 3, "code\0", ["code"]),
]


# ---- patches


def sections(*lines: str) -> Arguments:
    return {"text": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def update(*lines: str, path: str = "f.txt") -> Arguments:
    return sections(f"*** Update File: {path}", *lines)


def hosted_patch(**operation: Any) -> Arguments:
    return {"ops": [operation]}


PATCH_PATHS = [
    *(
        "..",
        ".",
        "/",
        "//",
        "sub",
        "sub/",
        "f.txt/",
        "f.txt/x",
        "sub/..",
        "../f.txt",
        "/etc/passwd",
        "~/x/../../../x",
    ),
    *(
        "missing/../f2",
        "a\0b",
        "x" * 300,
        "d/" * 3000 + "x",
        ".git/config",
        "sub/.GIT/config",
        ".vscode/x",
        "fifo",
        "dangling",
    ),
]
PATCHES: list[Arguments] = [
    *(
        {},
        {"input": "x"},
        {"text": "x", "nonsense": 1},
        *vary("ops", [], None, "x", 7, [None], [[]], ["delete_file"]),
    ),
    {**sections("*** Delete File: f.txt"), "ops": [{"type": "delete_file", "path": "f.txt"}]},
    *vary(
        "text",
        "",
        None,
        [],
        {},
        "x",
        " ",
        "\n",
        "\0",
        "***",
        "*** Begin Patch",
        "*** End Patch",
        "<<EOF\nEOF",
        "<<'EOF'",
    ),
    *vary(
        "text",
        "*** Begin Patch\n*** End Patch",
        "*** begin patch\n*** end patch",
        "*** End Patch\n*** Begin Patch",
    ),
    *map(
        sections,
        (
            "@@",
            "+x",
            "-x",
            " x",
            "x",
            "*** End of File",
            "*** Move to: g",
            "*** Add File:",
            "*** Delete File: ",
        ),
    ),
    *map(sections, ("*** Update File:", "*** Update File: f.txt", "--- a/f.txt")),
    *map(
        update,
        ("@@", "x", "*** End of File", "@@\n*** End of File", "@@\n@@", "@@x", "@@ nope\n-a", "@@\n-zzz"),
    ),
    *map(update, ("@@\n-e\n@@\n-a", "@@\n-a\nx", "-a\n-c", "@@ e\n-a", "@@\n a\ud800")),
    sections("*** Delete File: f.txt", "*** Update File: f.txt", "@@", "-a"),
    sections("*** Delete File: f.txt", "*** Delete File: f.txt"),
    sections("*** Delete File: f.txt", "x"),
    sections("*** Add File: new", "no plus"),
    sections("*** Add File: new", "+\udce9"),
    sections(*(f"*** Add File: {number}" for number in range(MAX_FILES + 1))),
    sections("*** Add File: new", "+" + "x" * MAX_PATCH_CHARS),
    *(
        hosted_patch(),
        hosted_patch(type="delete_file"),
        hosted_patch(path="f.txt"),
        hosted_patch(type="rename_file", path="f.txt"),
    ),
    *(
        hosted_patch(type="delete_file", path=path)
        for path in each("", "f.txt\n*** Delete File: g", [], "nope")
    ),
    *(hosted_patch(type="create_file", path="n", diff=diff) for diff in ("no plus", "+x\n y", "+\ud800")),
    hosted_patch(type="update_file", path="f.txt"),
    *(
        hosted_patch(type="update_file", path="f.txt", diff=diff)
        for diff in ("", "@@", "@@\n-zzz", "@@\n-a\n*** Delete File: f.txt")
    ),
    hosted_patch(type="update_file", path="f.txt", diff=sections("*** Delete File: f.txt")["text"]),
    hosted_patch(type="update_file", path="nope", diff="@@\n-a"),
    *(sections(f"*** Add File: {path}", "+x") for path in PATCH_PATHS),
    *(sections(f"*** Delete File: {path}") for path in PATCH_PATHS),
    *(update("@@", "-a", "+A", path=path) for path in PATCH_PATHS),
    *(update(f"*** Move to: {path}", "@@", "-a", "+A") for path in PATCH_PATHS),
]

# ---- notes

NOTE = "/memories/a.md"
NOTE_PATHS = [
    *(
        "",
        " ",
        "/",
        ".",
        "..",
        "a.md",
        "memories/a.md",
        "/memoriesx",
        "/memories.md",
        "/Memories/a.md",
        "//memories/a.md",
    ),
    *(
        "/memories/..",
        "/memories/../secret.txt",
        "/memories/a/../../secret.txt",
        "/memories/./../x",
        "/etc/passwd",
        "~/x",
    ),
    *(f"{NOTE}\0", "/memories/\0", "/memories/\ud800", f"/memories/{'n' * 256}", f"/memories/{'d/' * 2000}x"),
    *(
        f"/memories/{'a/' * MAX_DEPTH}x",
        f"{NOTE}/below",
        "C:\\memories\\a",
        "file:///memories/a.md",
        "/tmp/memories/a",
    ),
]
NOTES: list[Arguments] = [
    *(
        {},
        {"path": "/memories"},
        *vary("command", None, 1, "", "View!", "ls", "undo_edit", [], {}, "\0", "view"),
    ),
    *vary("path", *NOTE_PATHS, command="view"),
    *vary("path", *NOTE_PATHS, "/memories", "/memories/", "/memories/new/", command="create", file_text="x"),
    *vary("path", *NOTE_PATHS, "/memories", "/memories/", "/memories/none", command="delete"),
    *vary("old_path", *NOTE_PATHS, "/memories", command="rename", new_path="/memories/new.md"),
    *vary("new_path", *NOTE_PATHS, "/memories", NOTE, "/memories/f", command="rename", old_path=NOTE),
    *vary("new_path", "/memories/f/g", NOTE, command="rename", old_path="/memories/f"),
    *({"command": "rename", "path": NOTE}, {"command": "rename", "new_path": "/memories/b"}),
    *vary("file_text", None, [], {}, "a\0", "\ud800", "x" * 10**6, command="create", path="/memories/n"),
    *vary(
        "view_range", [], [1], [1, 2, 3], [0, 1], [3, 1], [99, -1], ["a", "b"], {}, command="view", path=NOTE
    ),
    {"command": "view", "path": "/memories/f", "view_range": [1, 2]},
    *vary("insert_line", None, -1, 3, 10**30, "a", [], {}, 1.5, command="insert", path=NOTE, insert_text="x"),
    *vary("insert_text", None, "\0", command="insert", path=NOTE, insert_line=0),
    {"command": "insert", "path": "/memories/f", "insert_line": 0, "insert_text": "x"},
    *vary("new_str", None, "\ud800", command="str_replace", path=NOTE, old_str="1"),
    {"command": "str_replace", "path": NOTE, "new_str": "1"},
    {"command": "str_replace", "path": "/memories/none.md", "old_str": "1", "new_str": "2"},
]

# ---- task lists


def task(text: Any = "a", status: Any = "pending", **fields: Any) -> Arguments:
    return {"text": text, "status": status, **fields}


TASK_LISTS: list[Any] = [
    *(1, 0.5, True, "x", "[1", {"a": 1}, [1], [None], ["x"], [[]], [{}], [True], [[task()]]),
    *([task(status=value)] for value in each(None, 1, "", "done", "Pending!", [], {}, "\0", "x")),
    *(
        [task(value)]
        for value in each(
            None, [], {}, ["a", "b"], "", "\n\t", "\0", "\x1b", "\ud83d", "x" * (MAX_TEXT_CHARS + 1)
        )
    ),
    *([task(id=value)] for value in each([], {}, ["a", "b"], "i" * (MAX_ID_CHARS + 1), "\ud800")),
    *(
        [task(blocked_by=value)]
        for value in each({"a": 1}, [[]], [{}], [None], ["\udfff"], ["i" * (MAX_ID_CHARS + 1)])
    ),
    *([task(active_form=value)] for value in each([], {}, "\ud800", "x" * (MAX_TEXT_CHARS + 1))),
    *(
        [task(blocked_by=["a"] * (MAX_ITEMS + 1))],
        [task("x" * 5_000_000)],
        [task()] * (MAX_ITEMS + 1),
        [task()] * 50_000,
    ),
    *([task(id="a"), task(id="a")], [task(id="a"), task(id=" a ")], [task(), task(), task("")]),
    *([task(), {"text": "no status"}], [task(), {"status": "pending"}]),
]
TASKS: list[Arguments] = [
    *vary("items", *TASK_LISTS),
    *vary("explanation", [], {}, ["a", "b"], "\ud800", "x" * (MAX_TEXT_CHARS + 1)),
    *vary("explanation", "\ud800", "x" * 100_000, items=[task("new")]),
]

# ---- questions

YES_NO = [{"label": "Yes", "description": "do it"}, {"label": "No", "description": "leave it"}]


def ask(question: Any = "Shall I?", **fields: Any) -> Arguments:
    return {"question": question, "header": "Go", "options": YES_NO, **fields}


def offer(*labels: Any) -> list[Arguments]:
    return [ask(options=[{"label": label, "description": "d"} for label in labels])]


QUESTIONS: list[Any] = [
    *(None, 1, True, "x", {"a": 1}, [], [None], [1], ["x"], [[]], [{}], [ask()] * 5, [ask()] * 1000),
    *(
        [ask(value)]
        for value in each(
            None, [], {}, ["a", "b"], "", "  ", "\n", "\0", "\ud800", "x" * 4001, "x" * 3_000_000
        )
    ),
    *([ask(header=value)] for value in each([], {}, ["a", "b"], "x" * 101, "\ud800", "a\0")),
    *([ask(kind=value)] for value in each(1, "", "Multiple", "radio", [], {}, "\0", "text", "yesno")),
    *([{"question": "q?", "kind": kind, "multi": True}] for kind in ("text", "yesno")),
    *([ask(multi=value)] for value in each([], {}, "perhaps", 7)),
    *([ask(id=value)] for value in each([], {}, "x" * 101, "\ud800", "\0")),
    *(
        [ask(options=value)]
        for value in each(5, "x", {}, [], [None], ["a", "b"], [{}, {}], [[], []], YES_NO[:1], YES_NO * 3)
    ),
    *(offer("a", label) for label in ("a", " A ", "", "  ", None, ["b"], "\ud800", "b\0", "x" * 301)),
    offer("a", "b", "c", "d", "e"),
    *(
        [ask(options=[{"label": "a", "preview": value}, {"label": "b"}])]
        for value in ("x" * 20_001, ["x", "y"])
    ),
    [ask(options=[{"label": "a", "description": "x" * 2001}, {"label": "b"}])],
    [ask(options=[{"description": "no label"}, {"label": "b"}])],
    *(
        [{"question": "no options?"}],
        [{"header": "no question", "options": YES_NO}],
        [ask(), ask()],
        [ask(), ask("")],
    ),
    *([ask(id="a"), ask("Other?", id="a")], [ask(id="2"), ask("Other?")]),
]
CALLS: list[tuple[str, Arguments, list[Arguments], str]] = [
    ("read", {"path": "text.txt"}, READS, "validation limit"),
    ("view_image", {"path": "a.png"}, vary("detail", "", "HIGHEST", 3, [], {}, "x" * 1000), "validation"),
    ("write", {"path": "fresh"}, WRITES, "validation limit"),
    ("edit", {"path": "text.txt", **EDIT}, REPLACEMENTS, "validation limit execution"),
    *(
        ("edit", {"path": "text.txt", **EDIT, "old": old}, [{"match": "tolerant"}], "execution")
        for old in ("four", "e", "\n")
    ),
    ("edit", {"path": "text.txt", **EDIT, "old": ""}, [{"match": "tolerant"}], "execution"),
    ("multi_edit", {"path": "text.txt"}, vary("edits", *EDIT_LISTS), "validation limit"),
    (
        "multi_edit",
        {"path": "text.txt"},
        vary("edits", *([{**EDIT, **c}] for c in REPLACEMENTS)),
        "validation limit execution",
    ),
    ("insert", {"path": "text.txt", **INSERT}, INSERTIONS, "validation limit execution"),
    (
        "notebook_edit",
        {"path": "a.ipynb", "cell_id": "calc", "source": "x"},
        CELLS,
        "validation limit not_found",
    ),
    ("patch", {}, PATCHES, "validation execution not_allowed limit"),
    ("memory", {}, NOTES, "validation limit not_allowed not_found execution"),
    ("todo", {}, TASKS, "validation limit"),
    ("ask_user", {}, vary("questions", *QUESTIONS), "validation limit"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "kinds"),
    [(name, {**fine, **wrong}, kinds) for name, fine, bad, kinds in CALLS for wrong in bad],
    ids=lambda value: repr(value)[:40],
)
def test_bad_arguments_are_refused(tools: Tools, name: str, arguments: Arguments, kinds: str) -> None:
    check_failure(tools, name, arguments, kinds)
