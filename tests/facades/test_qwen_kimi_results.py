"""What Qwen Code and Kimi Code say of results and failures; and whole runs on the simulator in their words."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolglot import Orchestrator
from toolglot.builtin.tool_state import UserQuestion
from toolglot.builtin.tools import builtins
from toolglot.errors import ToolErrorKind
from toolglot.facades.catalog import find_facade
from toolglot.facades.view import RenderContext
from toolglot.messages import Media

Arguments = dict[str, Any]
Call = tuple[str, Arguments, str]
"""A native tool, its arguments, and what the model reads of it."""

MODELS = {
    "qwen-code": "simulator:openrouter/qwen/qwen3-coder",
    "kimi": "simulator:openrouter/moonshotai/kimi-k2",
}
CODE = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"
PIXEL = bytes.fromhex("89504e470d0a1a0a") + b"\0" * 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(CODE)
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "dot.png").write_bytes(PIXEL)
    return tmp_path


def answered(questions: list[UserQuestion]) -> list[str | list[str]]:
    return [one.options[0]["label"] if one.options else "as you like" for one in questions]


def ran(root: Path, facade: str, calls: list[tuple[str, Arguments]], model: str = "") -> list[str]:
    """What the model reads after each of its calls, one after the other."""
    tools = builtins(root, ask=answered)
    try:
        agent = Orchestrator(model or MODELS[facade], tools=tools.tools, facade=facade, approve=lambda _: True)
        lines = [f"call {name} {json.dumps(arguments)}" for name, arguments in calls]
        result = agent.run_sync("\nthen ".join(lines))
    finally:
        tools.close()
    assert [outcome.result.name for outcome in result.outcomes] == [name for name, _ in calls]
    texts = (outcome.result.text.replace(str(root), "ROOT") for outcome in result.outcomes)
    return [re.sub(r"(PGID: |PID |pid: )\d+", r"\1N", text) for text in texts]


def check(root: Path, facade: str, calls: list[Call], model: str = "") -> None:
    found = ran(root, facade, [(name, arguments) for name, arguments, _ in calls], model)
    assert list(zip([name for name, _, _ in calls], found, strict=True)) == [(name, text) for name, _, text in calls]


class TestQwenCode:
    def test_finding_and_reading(self, root: Path):
        there = "in the workspace directory"
        calls: list[Call] = [
            (
                "glob",
                {"pattern": "**/*.PY"},
                f'Found 1 file(s) matching "**/*.PY" {there}, sorted by modification time (newest first):\n'
                "---\nROOT/src/app.py",
            ),
            ("glob", {"pattern": "*.rs", "path": "src"}, 'No files found matching pattern "*.rs" within ROOT/src'),
            (
                "grep_search",
                {"pattern": "RETURN", "glob": "*.py"},
                f'Found 2 matches for pattern "RETURN" {there} (filter: "*.py"):\n'
                "---\nROOT/src/app.py:2:    return 1\nROOT/src/app.py:6:    return 1",
            ),
            (
                "search_file_content",
                {"pattern": "return", "path": "src", "limit": 1},
                'Found at least 2 matches for pattern "return" in path "src":\n'
                "---\nROOT/src/app.py:2:    return 1\n---\n[1 line truncated] ...",
            ),
            ("grep_search", {"pattern": "zebra"}, f'No matches found for pattern "zebra" {there}.'),
            ("list_directory", {"path": "."}, "Listed 4 item(s) in .:\n---\n[DIR] src\na.txt\ndot.png\nempty"),
            ("list_directory", {"path": "nowhere"}, "Directory not found or inaccessible: nowhere"),
            ("read_file", {"file_path": "a.txt"}, "one\ntwo\nthree"),
            (
                "read_file",
                {"file_path": "a.txt", "offset": 1, "limit": 1},
                "Showing lines 2-2 of 3 total lines.\n\n---\n\ntwo",
            ),
            ("read_file", {"file_path": "empty"}, "['empty' is empty]"),
            ("read_file", {"file_path": "src/ap.py"}, "File not found: src/ap.py. Did you mean src/app.py?"),
            ("read_file", {"file_path": "src"}, "'src' is a folder: list_directory shows what is in it"),
            (
                "read_file",
                {"file_path": "a.txt", "offset": 7, "limit": 2},
                "'a.txt' has 3 lines, so there is nothing at offset 7: use a smaller one",
            ),
            ("read_file", {"file_path": "dot.png"}, f"[dot.png: image/png, {len(PIXEL)} bytes]"),
        ]
        check(root, "qwen-code", calls)

    def test_changing(self, root: Path):
        app = "src/app.py"
        calls: list[Call] = [
            (
                "edit",
                {"file_path": app, "old_string": "1", "new_string": "2"},
                "'src/app.py' has not been read yet: read it first, then change it",
            ),
            ("read_file", {"file_path": app}, CODE.rstrip("\n")),
            (
                "edit",
                {"file_path": app, "old_string": "return 1", "new_string": "return 2"},
                f"Failed to edit. Found 2 occurrences for old_string in {app} but replace_all was not enabled (lines 2, 6).",
            ),
            (
                "edit",
                {"file_path": app, "old_string": "return  1", "new_string": "return 2"},
                f"Failed to edit, 0 occurrences found for old_string in {app}. No edits made.\n"
                "`old_string` is not in 'src/app.py': it differs from line 2 only in spaces or line breaks:\n2\t    return 1",
            ),
            (
                "edit",
                {"file_path": app, "old_string": "x", "new_string": "x"},
                f"No changes to apply. The old_string and new_string are identical in file: {app}",
            ),
            (
                "edit",
                {"file_path": app, "old_string": "", "new_string": "x"},
                f"File already exists, cannot create: {app}",
            ),
            ("edit", {"file_path": "zzz", "old_string": "a", "new_string": "b"}, "File not found: zzz."),
            (
                "replace",
                {"file_path": app, "old_string": "return 1", "new_string": "return 2", "replace_all": True},
                f"The file: {app} has been updated. Showing lines 1-6 of 6 from the edited file:\n\n---\n\n"
                + CODE.replace("1", "2").rstrip("\n"),
            ),
            (
                "edit",
                {"file_path": "new.txt", "old_string": "", "new_string": "hello\n"},
                "Created new file: new.txt with provided content. Showing lines 1-1 of 1 from the edited file:\n\n---\n\nhello",
            ),
            ("write_file", {"file_path": "b.txt", "content": "b"}, "Successfully created and wrote to new file: b.txt."),
            ("write_file", {"file_path": "b.txt", "content": "c"}, "Successfully overwrote file: b.txt."),
        ]
        check(root, "qwen-code", calls)
        assert (root / app).read_text() == CODE.replace("1", "2")

    def test_commands(self, root: Path):
        def block(command: str, output: str, code: int, folder: str = "(root)") -> str:
            head = f"Command: {command}\nDirectory: {folder}\nOutput: {output}\nError: (none)\nExit Code: {code}"
            return f"{head}\nSignal: (none)\nProcess Group PGID: N"

        calls: list[Call] = [
            ("run_shell_command", {"command": "ls", "directory": "src"}, block("ls", "app.py", 0, "src")),
            ("run_shell_command", {"command": "exit 3", "description": "fails"}, block("exit 3", "(empty)", 3)),
            ("run_shell_command", {"command": "cd src"}, block("cd src", "(empty)", 0)),
            ("run_shell_command", {"command": "pwd"}, block("pwd", "ROOT", 0)),
            (
                "run_shell_command",
                {"command": "pwd", "directory": "nowhere"},
                "directory: there is no folder 'nowhere' in the workspace 'ROOT'",
            ),
            (
                "run_shell_command",
                {"command": "echo so far; tail -f /dev/null", "timeout": 200},
                "Command timed out after 200ms before it could complete. Below is the output before it timed out:\nso far",
            ),
            (
                "run_shell_command",
                {"command": "cat", "is_background": True},
                "Background command started with task_id 6 (PID N): read its output with shell_output "
                '(handle "6"), end it with task_stop (task_id "6").',
            ),
            ("task_stop", {"task_id": "6"}, "Task 6 was stopped."),
            ("task_stop", {"task_id": "99"}, 'Task "99" not found.'),
        ]
        check(root, "qwen-code", calls)

    def test_plans_and_questions(self, root: Path):
        options = [{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}]
        calls: list[Call] = [
            (
                "todo_write",
                {"todos": [{"content": "a", "status": "pending", "id": "1", "blockedBy": ["7"]}]},
                "Todos have been modified successfully.\n\n<system-reminder>\nThe todo list is now:\n"
                '[{"id": "1", "content": "a", "status": "pending"}]\n'
                "item '1' waits for '7', which is not in the list.\n</system-reminder>",
            ),
            (
                "ask_user_question",
                {"questions": [{"question": "Which?", "header": "Way", "options": options}]},
                "User has provided the following answers:\n\n**Way**: A",
            ),
        ]
        check(root, "qwen-code", calls)

    def test_a_notebook(self, root: Path):
        cell: Arguments = {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "source": ["1"],
            "outputs": [],
            "execution_count": None,
        }
        book: Arguments = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (root / "n.ipynb").write_text(json.dumps(book))
        texts = ran(
            root,
            "qwen-code",
            [
                ("read_file", {"file_path": "n.ipynb"}),
                ("notebook_edit", {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "2"}),
            ],
        )
        assert texts[1] == "replaced the code cell 'c1' (index 0) of 'n.ipynb'; it has 1 cell now"


def system(text: str) -> str:
    return f"<system>{text}</system>"


class TestKimi:
    def test_finding_and_reading(self, root: Path):
        calls: list[Call] = [
            ("Glob", {"pattern": "**/*.py", "directory": "src"}, "app.py"),
            ("Glob", {"pattern": "*.rs"}, "No matches found"),
            ("Glob", {"pattern": "*.rs", "path": "nowhere"}, "nowhere does not exist"),
            ("Grep", {"pattern": "return"}, "src/app.py"),
            (
                "Grep",
                {"pattern": "return", "output_mode": "content", "-C": 1},
                "src/app.py-1-def f():\nsrc/app.py:2:    return 1\nsrc/app.py-3-\n--\n"
                "src/app.py-5-def g():\nsrc/app.py:6:    return 1",
            ),
            (
                "Grep",
                {"pattern": "return", "output_mode": "content", "-n": False, "head_limit": 1},
                "src/app.py:    return 1\nResults truncated to 1 lines (total: at least 2). Use offset=1 to see more.",
            ),
            (
                "Grep",
                {"pattern": "return", "output_mode": "count_matches"},
                "Found 2 total occurrences across 1 file.\nsrc/app.py:2",
            ),
            ("Grep", {"pattern": "zebra"}, "No matches found"),
            (
                "Read",
                {"path": "a.txt"},
                "1\tone\n2\ttwo\n3\tthree\n"
                + system("3 lines read from file starting from line 1. Total lines in file: 3. End of file reached."),
            ),
            (
                "Read",
                {"path": "a.txt", "line_offset": -2, "n_lines": 1},
                "2\ttwo\n" + system("1 line read from file starting from line 2. Total lines in file: 3."),
            ),
            ("Read", {"path": "empty"}, system("No lines read from file. Total lines in file: 0. End of file reached.")),
            ("ReadFile", {"path": "src/ap.py"}, '"src/ap.py" does not exist. Did you mean src/app.py?'),
            ("Read", {"path": "src"}, '"src" is not a file.'),
            ("ReadMediaFile", {"path": "dot.png"}, system(f"Read image file dot.png: image/png, {len(PIXEL)} bytes.")),
        ]
        check(root, "kimi", calls)

    def test_changing(self, root: Path):
        app = "src/app.py"
        calls: list[Call] = [
            (
                "Read",
                {"path": app, "n_lines": 1},
                "1\tdef f():\n" + system("1 line read from file starting from line 1. Total lines in file: 6."),
            ),
            (
                "Edit",
                {"path": app, "old_string": "return 1", "new_string": "return 2"},
                f"old_string is not unique in {app} (found 2 occurrences, lines 2, 6). "
                "To replace every occurrence, set replace_all=true; for one, give more of the text around it.",
            ),
            (
                "Edit",
                {"path": app, "old_string": "return  1", "new_string": "return 2"},
                f"old_string not found in {app}; read the file again before the next try.\n"
                "`old_string` is not in 'src/app.py': it differs from line 2 only in spaces or line breaks:\n2\t    return 1",
            ),
            (
                "Edit",
                {"path": app, "old_string": "x", "new_string": "x"},
                "No changes to make: old_string and new_string are exactly the same.",
            ),
            ("Edit", {"path": "zzz", "old_string": "a", "new_string": "b"}, '"zzz" does not exist.'),
            (
                "StrReplaceFile",
                {"path": app, "old_string": "return 1", "new_string": "return 2", "replace_all": True},
                f"Replaced 2 occurrences in {app}",
            ),
            (
                "StrReplaceFile",
                {"path": app, "edit": [{"old": "def f", "new": "def h"}, {"old": "def g", "new": "def i"}]},
                f"Replaced 2 occurrences in {app}",
            ),
            (
                "StrReplaceFile",
                {"path": app, "edit": {"old": "return 2", "new": "return 1"}},
                f"old_string is not unique in {app} (found 2 occurrences, lines 2, 6). "
                "To replace every occurrence, set replace_all=true; for one, give more of the text around it.",
            ),
            ("Write", {"path": "b.txt", "content": "é\n"}, "Wrote 3 bytes to b.txt"),
            ("WriteFile", {"path": "b.txt", "content": "x", "mode": "append"}, "Appended 1 bytes to b.txt"),
        ]
        check(root, "kimi", calls)
        assert (root / app).read_text() == CODE.replace("1", "2").replace("f()", "h()").replace("g()", "i()")
        assert (root / "b.txt").read_text() == "é\nx"

    def test_how_much_of_a_file_is_read_at_once(self, root: Path):
        (root / "many").write_text("x\n" * 1500)
        (root / "wide").write_text(f"{'x' * 999}\n" * 200)
        few = "lines read from file starting from line"
        ends = [
            f"1000 {few} 1. Total lines in file: 1500. Max 1000 lines reached.",
            f"1000 {few} 501. Total lines in file: 1500. End of file reached.",
            f"2 {few} 1. Total lines in file: 1500.",
            f"102 {few} 1. Total lines in file: 200. Max 102400 bytes reached.",
        ]
        reads: list[Arguments] = [
            {"path": "many"},
            {"path": "many", "line_offset": -1400},
            {"path": "many", "n_lines": 2},
            {"path": "wide"},
        ]
        found = ran(root, "kimi", [("Read", one) for one in reads])
        assert [text.rpartition("\n")[2] for text in found] == [system(end) for end in ends]

    def test_commands(self, root: Path):
        calls: list[Call] = [
            ("Bash", {"command": "cd ..; cd src; ls", "cwd": "src"}, "app.py"),
            ("Shell", {"command": "test -d src"}, "Command executed successfully."),
            ("Bash", {"command": "echo no; exit 3"}, "no\nCommand failed with exit code: 3."),
            (
                "Bash",
                {"command": "cat", "run_in_background": True, "description": "waits"},
                "task_id: 4\npid: N\ndescription: waits\nstatus: running\n"
                "next_step: Use TaskOutput with this task_id to read its output; with block=true it waits for the end.\n"
                "next_step: Use TaskStop only if the task must be cancelled.",
            ),
            ("TaskList", {}, "active_background_tasks: 1\ntask_id: 4\nstatus: running\ncommand: cat\npid: N"),
            (
                "TaskOutput",
                {"task_id": "4"},
                "retrieval_status: not_ready\ntask_id: 4\nstatus: running\ncommand: cat\n\n[output]\n[no output available]",
            ),
            ("TaskStop", {"task_id": "4", "reason": "enough"}, "task_id: 4\nstatus: killed\nreason: enough"),
            ("TaskStop", {"task_id": "4"}, "task_id: 4\nstatus: killed\nreason: Stopped by TaskStop"),
            ("TaskOutput", {"task_id": "99"}, "Task not found: 99"),
            ("TaskList", {"active_only": True}, "active_background_tasks: 0\nNo background tasks found."),
        ]
        check(root, "kimi", calls)

    def test_plans_and_questions(self, root: Path):
        calls: list[Call] = [
            ("TodoList", {}, "Todo list is empty."),
            (
                "TodoList",
                {"todos": [{"title": "a", "status": "done"}, {"title": "b", "status": "in_progress"}]},
                "Todo list updated.\nCurrent todo list:\n  [done] a\n  [in_progress] b",
            ),
            ("SetTodoList", {}, "Current todo list:\n  [done] a\n  [in_progress] b"),
            ("TodoList", {"todos": []}, "Todo list cleared."),
            (
                "AskUserQuestion",
                {"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multi_select": True}]},
                '{"answers": {"Which?": "A"}}',
            ),
        ]
        check(root, "kimi", calls)


def content(path: str, *lines: str) -> str:
    return "\n".join([f"<path>ROOT/{path}</path>", "<type>file</type>", "<content>", *lines, "</content>"])


# ---- words for what does not happen here

PAGE: Arguments = {
    "status": 200,
    "notes": [],
    "question_lines": [],
    "text": "# Title\nbody",
    "start_line": 1,
    "end_line": 2,
    "total_lines": 9,
    "next_line": 3,
    "next_char": None,
}
FOUND: Arguments = {
    "queries": ["q"],
    "results": [
        {"ref": "w1", "url": "https://a.example", "title": "A", "snippet": "about a", "date": "2026-01-02"},
        {"ref": "w2", "url": "https://b.example", "title": "B", "snippet": "", "date": ""},
    ],
}
SHELL: Arguments = {
    "command": "make",
    "description": "",
    "running": False,
    "handle": "",
    "pid": 7,
    "exit_code": 0,
    "signal": None,
    "ended": "",
    "output": "head … tail\n",
    "truncated": True,
    "spill": "/tmp/out",
    "notes": ["'.git' is as it was"],
}


def words(
    facade: str,
    name: str,
    data: Any,
    *,
    native: Arguments | None = None,
    base: Arguments | None = None,
    text: str = "as it was",
    kind: ToolErrorKind | None = None,
) -> str:
    found = find_facade(facade)
    view = next(view for view in found.views if view.name == name)
    case = view.find_case(native or {})
    made: Callable[[RenderContext], str] | None = case.result if kind is None else case.failure or found.failure
    assert made is not None
    return made(RenderContext(native=native or {}, base=base or {}, text=text, data=data, kind=kind))


class TestWordsAlone:
    @pytest.mark.parametrize(
        ("facade", "name"),
        [
            ("qwen-code", "web_fetch"),
            ("kimi", "FetchURL"),
        ],
    )
    def test_a_page(self, facade: str, name: str):
        more = f"(These are lines 1-2 of 9. Call {name} with start_line=3 to read on.)"
        assert words(facade, name, PAGE) == f"# Title\nbody\n\n{more}"
        whole = {**PAGE, "next_line": None, "status": 404, "question_lines": [1, 2], "notes": ["no script ran"]}
        told = "The server answered with status 404.\nNote: no script ran.\nWords of the prompt are in lines 1, 2.\n\n"
        assert words(facade, name, whole, kind="execution") == f"{told}# Title\nbody"
        assert words(facade, name, None, kind="timeout", text="it took too long") == "it took too long"

    @pytest.mark.parametrize(
        ("facade", "name", "text", "nothing"),
        [
            (
                "qwen-code",
                "web_search",
                'Web search results for "q":\n\n1. A\nhttps://a.example\n2026-01-02\nabout a\n\n2. B\nhttps://b.example',
                'No search results found for "q".',
            ),
            (
                "kimi",
                "WebSearch",
                "Title: A\nDate: 2026-01-02\nURL: https://a.example\nSnippet: about a\n\n---\n\n"
                "Title: B\nURL: https://b.example",
                "No search results found.",
            ),
        ],
    )
    def test_results_of_a_search(self, facade: str, name: str, text: str, nothing: str):
        assert words(facade, name, FOUND) == text
        assert words(facade, name, {**FOUND, "results": []}) == nothing

    @pytest.mark.parametrize(
        ("facade", "name", "end"),
        [
            ("qwen-code", "run_shell_command", "The output was too long and was saved to: /tmp/out\n'.git' is as it was"),
            ("kimi", "Bash", "next_step: Use Read with output_path to page through the full log.\n'.git' is as it was"),
        ],
    )
    def test_output_that_is_too_long_is_somewhere_else(self, facade: str, name: str, end: str):
        text = words(facade, name, SHELL)
        assert text.endswith(end)
        assert "/tmp/out" in text

    @pytest.mark.parametrize(
        ("facade", "name", "part"),
        [
            ("qwen-code", "run_shell_command", "Error: ended: output"),
            ("kimi", "Bash", "Command was ended: output."),
        ],
    )
    def test_a_command_that_was_ended_says_why(self, facade: str, name: str, part: str):
        assert part in words(facade, name, {**SHELL, "ended": "output", "exit_code": 137})

    def test_a_command_of_kimi_that_took_too_long(self):
        late: Arguments = {**SHELL, "truncated": False, "ended": "timeout", "notes": []}
        said = words("kimi", "Bash", late, kind="timeout", base={"timeout": 5})
        assert said == "head … tail\nCommand killed by timeout (5s)"

    def test_a_task_of_kimi_that_took_too_long(self):
        late: Arguments = {**SHELL, "truncated": False, "ended": "timeout", "notes": [], "exit_code": 137}
        said = words("kimi", "TaskOutput", late, kind="timeout", native={"task_id": "4"})
        assert said.startswith("retrieval_status: success\ntask_id: 4\nstatus: timed_out\ncommand: make\nexit_code: 137\n")

    @pytest.mark.parametrize(
        ("facade", "name", "text", "said"),
        [
            (
                "qwen-code",
                "write_file",
                "use start_line and end_line of src/list_dir.py; list_dir shows it\n`old` stays",
                "use offset and limit of src/list_dir.py; list_directory shows it\n`old` stays",
            ),
            ("kimi", "Write", "16 commands are running: end one with shell_kill first", None),
            (
                "qwen-code",
                "grep_search",
                "pattern holds a line end, and a line does not; set multiline to true",
                "pattern holds a line end, and a line does not; look for a part of one line",
            ),
            ("kimi", "Grep", "a line does not; set multiline to true", "a line does not; set multiline to true"),
            ("kimi", "Bash", "cwd: there is no folder 'cwd'", "cwd: there is no folder 'cwd'"),
            ("qwen-code", "run_shell_command", "cwd: there is no folder 'cwd'", "directory: there is no folder 'cwd'"),
        ],
    )
    def test_failures_speak_of_tools_that_the_model_knows(self, facade: str, name: str, text: str, said: str | None):
        expected = said or text.replace("shell_kill", "TaskStop")
        assert words(facade, name, None, text=text, kind="limit") == expected

    @pytest.mark.parametrize("facade", MODELS)
    def test_a_result_without_data_is_told_as_it_is(self, facade: str):
        for view in find_facade(facade).views:
            case = next(iter(view.cases.values()))
            if case.result is not None and view.name not in ("edit", "write"):
                assert case.result(RenderContext(native={}, base={}, text="as it was")) == "as it was"


@pytest.mark.parametrize("facade", MODELS)
def test_an_image_stays_beside_its_words(root: Path, facade: str):
    name, path = {"qwen-code": ("read_file", "file_path"), "kimi": ("ReadMediaFile", "path")}.get(facade, ("read", "filePath"))
    tools = builtins(root)
    try:
        agent = Orchestrator(MODELS[facade], tools=tools.tools, facade=facade)
        result = agent.run_sync(f'call {name} {{"{path}": "dot.png"}}')
    finally:
        tools.close()
    assert [type(block) for block in result.outcomes[0].result.content][1:] == [Media]
