"""Base calls that come to the same, and how a call is said to a model that has no tool for it."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.builtin.edit.patch_language import AddFile, parse_patch
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, find_facade
from toolglot.facades.equivalence import alternatives, canonical_call, render_patch
from toolglot.values.losses import Loss
from toolglot.values.messages import BaseCall, Message, ToolCall

Doc = dict[str, Any]
DELETED = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
CHUNK = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n x\n-y\n+z\n\n*** End Patch"


@pytest.mark.parametrize(("tool", "left", "other"), [
    ("read", {"path": "a", "start_line": 3, "max_lines": 4}, {"path": "a", "start_line": 3, "end_line": 6}),
    ("read", {"path": "a", "max_lines": 4}, {"path": "a", "start_line": 1, "end_line": 4}),
    ("read", {"path": "a", "start_line": 1, "end_line": None}, {"path": "a"}),
    ("shell", {"argv": ["ls", "a b"]}, {"command": "ls 'a b'"}),
    ("patch", {"ops": [{"type": "delete_file", "path": "a"}]}, {"text": "*** Begin Patch\n*** Delete File: "
                                                                        "a\n*** End Patch"}),
])  # fmt: skip
def test_forms_of_one_call_are_equal(tool: str, left: Doc, other: Doc) -> None:
    assert canonical_call(tool, left) == canonical_call(tool, other)


@pytest.mark.parametrize(("tool", "left", "other"), [
    ("read", {"path": "a", "max_lines": 4}, {"path": "a", "max_lines": 5}),
    ("read", {"path": "a", "start_line": 2}, {"path": "a"}),
    ("shell", {"command": "ls"}, {"command": "ls", "then": ["pwd"]}),
    ("grep", {"pattern": "a", "max_lines": 4}, {"pattern": "a", "end_line": 4}),
])  # fmt: skip
def test_calls_that_differ_stay_different(tool: str, left: Doc, other: Doc) -> None:
    assert canonical_call(tool, left) != canonical_call(tool, other)


@pytest.mark.parametrize(("tool", "arguments", "others"), [
    ("shell", {"command": "a", "then": ["b", "c"], "cwd": "x"}, [("shell", {"command": "a\nb\nc", "cwd": "x"})]),
    ("shell", {"command": "a"}, []),
    ("read", {"path": "a b"}, [("shell", {"command": "cat 'a b'"})]),
    ("read", {"path": "a", "start_line": 3, "max_lines": 2}, [("shell", {"command": "sed -n '3,4p' a"})]),
    ("read", {"path": "a", "start_line": 3}, [("shell", {"command": "sed -n '3,$p' a"})]),
    ("read", {"path": "a", "tail_lines": 7, "allow_large": True}, [("shell", {"command": "tail -n 7 a"})]),
    ("read", {"path": "a", "pages": "1-2"}, []),
    ("list_dir", {"path": "a", "depth": 2, "respect_gitignore": False}, [("shell", {"command": "ls -laR a"})]),
    ("list_dir", {"path": "a", "ignore": ["*.o"]}, []),
    ("glob", {"pattern": "*.py", "case_sensitive": False, "respect_gitignore": False, "max_results": 100},
        [("shell", {"command": "rg --files --no-ignore --iglob '*.py' ."})]),
    ("list_dir", {"path": "src"}, [("shell", {"command": "ls -la src"})]),
    ("glob", {"pattern": "*.py"}, [("shell", {"command": "rg --files -g '*.py' ."})]),
    ("grep", {"pattern": "a|b", "path": "src", "ignore_case": True, "include_glob": "*.c"},
        [("shell", {"command": "rg -n -i -g '*.c' -e 'a|b' src"})]),
    ("grep", {"pattern": "a", "mode": "files"}, [("shell", {"command": "rg -l -e a ."})]),
    ("grep", {"pattern": "a", "multiline": True, "literal": False, "after": 2, "file_type": "py", "max_results": 9},
        [("shell", {"command": "rg -n -U -A 2 -t py -e a ."})]),
    ("grep", {"pattern": "a", "exclude_line_regex": "b"}, []),
    ("write", {"path": "a", "content": "x\n", "mode": "append"}, []),
    ("write", {"path": "a", "content": ""}, [("patch", {"text": "*** Begin Patch\n*** Add File: a\n*** End "
                                                                "Patch"})]),
    ("multi_edit", {"path": "a", "edits": [{"old": "x", "new": "y"}]}, [("edit", {"path": "a", "old": "x", "new": "y"})]),
    ("multi_edit", {"path": "a", "edits": [{"old": "x", "new": "y"}] * 2}, []),
    ("multi_edit", {"path": "a", "edits": [{"old": "x\ny", "new": "z"}, {"old": "v\n", "new": ""}]},
        [("patch", {"text": "*** Begin Patch\n*** Update File: a\n@@\n-x\n-y\n+z\n@@\n-v\n*** End Patch"})]),
    ("edit", {"path": "a", "old": "x\ny\n", "new": "x\nz\n", "match": "exact"},
        [("patch", {"text": "*** Begin Patch\n*** Update File: a\n@@\n-x\n-y\n+x\n+z\n*** End Patch"})]),
    ("edit", {"path": "a", "old": "x", "new": "y"}, []),
    ("edit", {"path": "a", "old": "x\ny", "new": "y", "count": "all"}, []),
    ("patch", {"text": CHUNK}, [("edit", {"path": "a.py", "old": "x\ny\n", "new": "x\nz\n"})]),
    ("patch", {"text": DELETED}, []),
    ("shell", {"argv": ["a", "b c"]}, [("shell", {"command": "a 'b c'"})]),
    ("patch", {"text": CHUNK.replace("\n\n", "\n@@\n-b\n")}, []),
    ("patch", {"text": CHUNK.replace("@@ def f():", "*** Move to: b.py\n@@")}, []),
    ("patch", {"text": ""}, []),
    ("todo", {"items": []}, []),
])  # fmt: skip
def test_alternatives_do_the_same(tool: str, arguments: Doc, others: list[tuple[str, Doc]]) -> None:
    assert list(alternatives(tool, arguments)) == others


LINES = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], codec="utf-8"), max_size=8), min_size=1
)


@given(LINES)
def test_a_written_file_and_the_patch_that_adds_it_are_each_other(lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines)
    ((tool, patch),) = alternatives("write", {"path": "a.txt", "content": content})
    assert tool == "patch"
    assert parse_patch(patch["text"]) == [AddFile("a.txt", content)]
    assert list(alternatives("patch", patch)) == [("write", {"path": "a.txt", "content": content})]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_a_program_and_its_arguments_are_a_command_line(words: list[str]) -> None:
    assert shlex.split(canonical_call("shell", {"argv": words})["command"]) == words


def test_operations_are_rendered_as_a_patch() -> None:
    ops = [
        {"type": "create_file", "path": "a", "diff": "+x\n"},
        {"type": "update_file", "path": "b", "diff": "@@\n-y\n+z"},
    ]
    assert render_patch({"ops": ops}) == (
        "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n@@\n-y\n+z\n*** End Patch"
    )


# ---- in use


def render_call(facade: str, model: str, tool: str, arguments: Doc) -> tuple[ToolCall, list[Loss]]:
    """A call of Claude Code as another model sees it."""
    bound, lost = BoundFacade(find_facade(facade), model, BASE_TOOLS), dict[Loss, None]()
    call = ToolCall("c", "Whatever", {"x": 1}, base_call=BaseCall(tool, arguments, "claude-code"))
    rendered = bound.render_message(Message("assistant", (call,)), is_own=False, losses=lost).calls[0]
    assert rendered.base_call == call.base_call
    return rendered, list(lost)


@pytest.mark.parametrize(("facade", "tool", "arguments", "name", "expected"), [
    ("codex", "read", {"path": "a", "end_line": 9}, "exec_command", {"cmd": "sed -n '1,9p' a"}),
    ("codex-shell", "grep", {"pattern": "x"}, "shell", {"command": ["bash", "-lc", "rg -n -e x ."]}),
    ("codex-shell-command", "list_dir", {"path": "."}, "shell_command", {"command": "ls -la ."}),
    ("openai", "glob", {"pattern": "*.c"}, "shell", {"command": ["bash", "-lc", "rg --files -g '*.c' ."]}),
    ("gemini-cli", "shell", {"command": "a", "then": ["b"]}, "run_shell_command", {"command": "a\nb"}),
    ("kimi", "shell", {"argv": ["a", "b c"]}, "Bash", {"command": "a 'b c'"}),
    ("qwen-code", "patch", {"text": CHUNK}, "edit", {"file_path": "a.py", "old_string": "x\ny\n", "new_string": "x\nz\n"}),
    ("neutral", "patch", {"text": CHUNK}, "edit", {"path": "a.py", "old": "x\ny\n", "new": "x\nz\n"}),
    ("claude-code", "read", {"path": "a", "start_line": 2, "max_lines": 3}, "Read",
        {"file_path": "a", "offset": 2, "limit": 3}),
])  # fmt: skip
def test_a_model_sees_a_call_through_tools_that_it_has(
    facade: str, tool: str, arguments: Doc, name: str, expected: Doc
) -> None:
    call, lost = render_call(facade, "some-model", tool, arguments)
    assert (call.name, call.arguments, lost) == (name, expected, [])


@pytest.mark.parametrize(("facade", "tool", "arguments"), [
    ("codex", "edit", {"path": "a", "old": "b", "new": "c"}),
    ("neutral", "patch", {"text": DELETED}),
    ("gemini-cli", "todo", {}),
    ("qwen-code", "ask_user", {"questions": [{"question": "q", "kind": "text"}]}),
    ("qwen-code", "shell", {"restart": True}),
    ("kimi", "web_search", {"queries": ["a", "b"]}),
    ("claude-code", "shell", {"restart": True}),
])  # fmt: skip
def test_an_inexpressible_call_has_our_name_and_a_loss(facade: str, tool: str, arguments: Doc) -> None:
    call, lost = render_call(facade, "some-model", tool, arguments)
    assert (call.name, call.arguments) == (tool, arguments)
    assert [loss.subject for loss in lost] == [f"tool {tool!r}"]


@pytest.mark.parametrize(("tool", "arguments", "patch"), [
    ("write", {"path": "a", "content": "x\ny\n"}, "*** Begin Patch\n*** Add File: a\n+x\n+y\n*** End Patch"),
    ("patch", {"text": DELETED}, DELETED),
])  # fmt: skip
def test_a_change_is_free_text_where_patches_are(tool: str, arguments: Doc, patch: str) -> None:
    call, _ = render_call("codex", "gpt-5.5", tool, arguments)
    assert (call.name, call.freeform, call.raw, call.arguments) == ("apply_patch", True, patch, None)


@pytest.mark.parametrize(
    "arguments", [{"edits": 7}, {"edits": [None]}, {"text": 5}, {"then": 3, "command": []}]
)
@pytest.mark.parametrize("tool", ["multi_edit", "patch", "shell", "read"])
def test_nonsense_in_a_saved_conversation_is_shown_anyway(tool: str, arguments: Doc) -> None:
    assert render_call("codex", "gpt-5.5", tool, arguments)[0].id == "c"
