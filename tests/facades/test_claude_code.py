"""The tools as Claude knows them: of Claude Code, newer and older, of Anthropic's API, and of its agent tool set."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import Orchestrator
from toolglot.builtin.tools import builtins
from toolglot.errors import ToolError
from toolglot.facades.anthropic_api import TABLES as API_TABLES
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import facade_id_for_model, find_facade
from toolglot.facades.claude_code import TABLES as CODE_TABLES
from toolglot.facades.view import Facade, RenderContext, View
from toolglot.jsontext import dumps_text, loads, loads_object
from toolglot.messages import ToolCall
from toolglot.schema.arguments import SchemaBinder
from toolglot.tools.tool import Tool

from .meaning import Meaning, meaning_of

Arguments = dict[str, Any]
NEW, OLD, API, SET = "claude-code", "claude-code-2.0", "anthropic-api", "agent-toolset"
TABLES = (*CODE_TABLES, *API_TABLES)
MODELS = {NEW: "claude-opus-4-8", OLD: "claude-sonnet-4-5"}
SNAPSHOTS = Path(__file__).parent / "snapshots"
# what a program shows and what has no base tool here
FOREIGN = {
    *(
        "Agent",
        "Task",
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterWorktree",
        "ExitWorktree",
        "ReportFindings",
        "ScheduleWakeup",
    ),
    *("SendMessage", "Skill", "SlashCommand", "Workflow", "ExitPlanMode", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"),
}
BASES = frozenset(base for facade in TABLES for view in facade.views for base in view.base_tools) | {"multi_edit", "web_find"}


def view_of(facade: str, name: str) -> View:
    return next(view for view in find_facade(facade).views if view.name == name)


def face(facade: str) -> BoundFacade:
    return BoundFacade(find_facade(facade), "claude-x", BASES)


def meant(facade: str, name: str, arguments: Arguments) -> Meaning:
    found = meaning_of(face(facade), ToolCall("c1", name, arguments))
    assert found is not None
    return found


def snapshot(facade: Facade) -> Arguments:
    return {view.name: view.parameters for view in facade.views if not view.hidden}


def write_snapshots() -> None:
    """Run it where a change of what models see is meant."""
    for facade in TABLES:
        (SNAPSHOTS / f"{facade.id}.json").write_text(dumps_text(snapshot(facade)) + "\n")


# ---- what the model sees


class TestWhatTheModelSees:
    @pytest.mark.parametrize(("facade", "version"), [(NEW, "2.1.197"), (OLD, "2.0.30")])
    def test_each_tool_is_as_the_program_shows_it(self, facade: str, version: str, shared: Path):
        rows: list[Arguments] = loads_object((shared / "facades" / "observed.json").read_bytes())["observed"]
        tools = next(row["tools"] for row in rows if row["program"] == "claude-code" and row["version"] == version)
        observed = {one["name"]: one["parameters"] for one in tools if one["name"] not in FOREIGN}
        own = snapshot(find_facade(facade))
        assert {name: own.get(name) for name in observed} == observed
        offered = {"Grep", "Glob", "LS", "AskUserQuestion"}
        assert set(own) - set(observed) == offered - set(observed)

    @pytest.mark.parametrize(
        ("facade", "source", "kind"),
        [(NEW, "claude-code", "function"), (API, "anthropic-api", "server_schema"), (SET, "anthropic-api", "toolset_member")],
    )
    def test_what_was_not_observed_is_as_its_schema_says(self, facade: str, source: str, kind: str, shared: Path):
        tools = loads_object((shared / "facades" / "schemas" / f"{source}.json").read_bytes())["tools"]
        known = {one["name"]: one["parameters"] for one in tools if one["kind"] == kind and "parameters" in one}
        own = {"Grep", "Glob", "LS", "AskUserQuestion"} if facade == NEW else set(known)
        for name in own:
            assert loose(view_of(facade, name).parameters) == loose(known[name]), name

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_nothing_has_changed_unseen(self, facade: Facade):
        assert snapshot(facade) == loads((SNAPSHOTS / f"{facade.id}.json").read_bytes())

    @pytest.mark.parametrize(("facade", "model"), MODELS.items())
    def test_each_generation_has_its_facade(self, facade: str, model: str):
        assert facade_id_for_model(model) == facade

    def test_only_the_older_generation_keeps_a_list(self):
        assert "TodoWrite" in snapshot(find_facade(OLD))
        assert not {"TodoWrite", "todo"} & {*snapshot(find_facade(NEW)), *find_facade(NEW).shows}
        assert "TodoWrite" not in {one.name for one in face(NEW).definitions}

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_the_note_and_the_descriptions_name_no_tool_that_is_not_there(self, facade: Facade):
        own = {*snapshot(facade)} | facade.shows
        others = {view.name for one in TABLES for view in one.views if view.name[0].isupper() or "_" in view.name} - own
        for said in (facade.note, *(view.description for view in facade.views)):
            assert not others & {word.strip(".,;:()") for word in said.split()}, said

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_there_is_one_tool_to_edit_with(self, facade: Facade):
        assert not facade.shows & {"edit", "multi_edit", "patch", "insert", "write"}
        assert sum("edit" in view.base_tools for view in facade.views) == 1

    def test_a_tool_is_shown_only_where_its_own_base_tool_is(self):
        names = {
            one.name for one in BoundFacade(find_facade(NEW), "claude-x", ["web_open", "multi_edit", "view_image"]).definitions
        }
        assert names == {"WebFetch"}


def loose(schema: Any) -> Any:
    """A schema without what the generated types do not tell."""
    if isinstance(schema, list):
        return [loose(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found = cast(Arguments, schema)
    return {
        key: loose(value) for key, value in found.items() if key != "additionalProperties" and (key, value) != ("required", [])
    }


# ---- the way in

EXACT = {"count": "one", "match": "exact"}
LAST = {"max_output": 102_400, "head_share": 0.0}
QUESTION = {
    "question": "Which?",
    "header": "DB",
    "options": [{"label": "a", "description": "b"}, {"label": "c", "description": "d"}],
}
MEANINGS: list[tuple[str, str, Arguments, str, Arguments]] = [
    (NEW, "Read", {"file_path": "a"}, "read", {"path": "a"}),
    (NEW, "Read", {"file_path": "a", "offset": 0}, "read", {"path": "a", "start_line": 1}),
    (NEW, "Read", {"file_path": "a", "limit": 5}, "read", {"path": "a", "end_line": 5}),
    (
        NEW,
        "View",
        {"file_path": "a", "offset": 3, "limit": 5, "pages": "1-2", "allow_large": True},
        "read",
        {"path": "a", "start_line": 3, "end_line": 7, "pages": "1-2", "allow_large": True},
    ),
    (OLD, "Read", {"file_path": "a", "offset": 3.0, "limit": 5.0}, "read", {"path": "a", "start_line": 3, "end_line": 7}),
    (NEW, "Write", {"file_path": "a", "content": "b"}, "write", {"path": "a", "content": "b", "mode": "overwrite"}),
    (
        NEW,
        "Edit",
        {"file_path": "a", "old_string": "b", "new_string": "c"},
        "edit",
        {"path": "a", "old": "b", "new": "c", **EXACT},
    ),
    (
        NEW,
        "Edit",
        {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": True},
        "edit",
        {"path": "a", "old": "b", "new": "c", "count": "all", "match": "exact"},
    ),
    (
        OLD,
        "MultiEdit",
        {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]},
        "multi_edit",
        {"path": "a", "edits": [{"old": "b", "new": "c", **EXACT}]},
    ),
    (
        NEW,
        "NotebookEdit",
        {"notebook_path": "a", "new_source": "b", "cell_id": "c", "cell_type": "code", "edit_mode": "insert"},
        "notebook_edit",
        {"path": "a", "source": "b", "cell_id": "c", "cell_type": "code", "mode": "insert"},
    ),
    (
        NEW,
        "Bash",
        {"command": "ls", "timeout": 1500, "description": "d", "run_in_background": True, "dangerouslyDisableSandbox": True},
        "shell",
        {"command": "ls", "timeout": 1.5, "description": "d", "background": True, "escalate": True},
    ),
    (NEW, "Bash", {"command": "ls", "timeout": 900_000}, "shell", {"command": "ls", "timeout": 600.0}),
    (
        NEW,
        "Bash",
        {"command": "ls", "timeout": 9_000_000, "run_in_background": True},
        "shell",
        {"command": "ls", "timeout": 7200.0, "background": True},
    ),
    (OLD, "TaskOutput", {"task_id": "1", "timeout": 9e6}, "shell_output", {"handle": "1", "wait": True, "timeout": 600.0}),
    (
        NEW,
        "TaskOutput",
        {"task_id": "1", "block": True, "timeout": 500},
        "shell_output",
        {"handle": "1", "wait": True, "timeout": 0.5},
    ),
    (NEW, "BashOutput", {"bash_id": "1", "filter": "x"}, "shell_output", {"handle": "1", "filter": "x"}),
    (OLD, "BashOutput", {"bash_id": "1", "filter": "x"}, "shell_output", {"handle": "1", "filter": "x"}),
    (OLD, "TaskOutput", {"task_id": "1"}, "shell_output", {"handle": "1", "wait": True, "timeout": 30.0}),
    (NEW, "TaskStop", {"task_id": "1"}, "shell_kill", {"handle": "1"}),
    (NEW, "KillShell", {"shell_id": "1"}, "shell_kill", {"handle": "1"}),
    (OLD, "KillShell", {"shell_id": "1"}, "shell_kill", {"handle": "1"}),
    (OLD, "TaskStop", {"task_id": "1"}, "shell_kill", {"handle": "1"}),
    (NEW, "Grep", {"pattern": "a"}, "grep", {"pattern": "a", "mode": "files"}),
    (
        NEW,
        "Grep",
        {
            "pattern": "a",
            "path": "b",
            "glob": "*.py",
            "type": "py",
            "output_mode": "content",
            "multiline": True,
            "-A": 1,
            "-C": 3,
            "-n": False,
            "-i": True,
            "-o": True,
            "head_limit": 0,
            "offset": 4,
        },
        "grep",
        {
            "pattern": "a",
            "path": "b",
            "include_glob": "*.py",
            "file_type": "py",
            "mode": "content",
            "multiline": True,
            "after": 1,
            "before": 3,
            "line_numbers": False,
            "ignore_case": True,
            "only_matching": True,
            "max_results": 0,
            "skip": 4,
        },
    ),
    (OLD, "Grep", {"pattern": "a", "context": 2}, "grep", {"pattern": "a", "mode": "files", "before": 2, "after": 2}),
    (NEW, "Glob", {"pattern": "a", "path": "b"}, "glob", {"pattern": "a", "path": "b", "max_results": 100, "order": "mtime"}),
    (NEW, "LS", {"path": "a"}, "list_dir", {"path": "a"}),
    (NEW, "LSTool", {"path": "a", "ignore": ["b"]}, "list_dir", {"path": "a", "ignore": ["b"]}),
    (
        NEW,
        "WebFetch",
        {"url": "https://a.example/", "prompt": "b", "offset": 7},
        "web_open",
        {"target": "https://a.example/", "question": "b", "start_char": 7},
    ),
    (
        NEW,
        "WebSearch",
        {"query": "ab", "allowed_domains": ["c"], "blocked_domains": ["d"]},
        "web_search",
        {"queries": ["ab"], "allowed_domains": ["c"], "blocked_domains": ["d"]},
    ),
    (NEW, "web_search", {"action": {"type": "search", "query": "ab"}}, "web_search", {"queries": ["ab"]}),
    (NEW, "WebSearch", {"action": {"type": "search", "queries": ["a", "b"]}}, "web_search", {"queries": ["a", "b"]}),
    (OLD, "web_search", {"action": {"query": "ab"}}, "web_search", {"queries": ["ab"]}),
    (OLD, "web_search", {"action": "search", "query": "ab"}, "web_search", {"queries": ["ab"]}),
    (API, "web_search", {"action": {"type": "search", "query": "ab"}}, "web_search", {"queries": ["ab"]}),
    (
        NEW,
        "web_search",
        {"action": {"type": "open_page", "url": "https://a.example/"}},
        "web_open",
        {"target": "https://a.example/"},
    ),
    (
        NEW,
        "web_search",
        {"action": {"type": "find_in_page", "url": "w1", "pattern": "b"}},
        "web_find",
        {"target": "w1", "pattern": "b"},
    ),
    (
        OLD,
        "TodoWrite",
        {"todos": [{"content": "a", "status": "pending", "activeForm": "b", "id": "1"}]},
        "todo",
        {"items": [{"text": "a", "status": "pending", "active_form": "b"}]},
    ),
    (
        NEW,
        "TodoWrite",
        {"todos": [{"content": "a", "status": "pending", "activeForm": "a"}]},
        "todo",
        {"items": [{"text": "a", "status": "pending"}]},
    ),
    (
        NEW,
        "AskUserQuestion",
        {"questions": [{**QUESTION, "multiSelect": True}]},
        "ask_user",
        {"questions": [{**QUESTION, "multi": True}]},
    ),
    (API, "str_replace_based_edit_tool", {"command": "view", "path": "a"}, "read", {"path": "a", "list_depth": 2}),
    (
        API,
        "str_replace_based_edit_tool",
        {"command": "view", "path": "a", "view_range": [2, 4]},
        "read",
        {"path": "a", "start_line": 2, "end_line": 4, "list_depth": 2},
    ),
    (
        API,
        "str_replace_editor",
        {"command": "view", "path": "a", "view_range": [2, -1]},
        "read",
        {"path": "a", "start_line": 2, "list_depth": 2},
    ),
    (API, "str_replace_based_edit_tool", {"command": "view", "path": "a/"}, "list_dir", {"path": "a", "depth": 2}),
    (API, "str_replace_based_edit_tool", {"command": "view", "path": "/"}, "list_dir", {"path": "/", "depth": 2}),
    (API, "str_replace_based_edit_tool", {"command": "view", "path": ""}, "list_dir", {"path": ".", "depth": 2}),
    (
        API,
        "str_replace_based_edit_tool",
        {"command": "create", "path": "a", "file_text": "b"},
        "write",
        {"path": "a", "content": "b", "mode": "overwrite"},
    ),
    (
        API,
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "a", "old_str": "b"},
        "edit",
        {"path": "a", "old": "b", "new": "", **EXACT},
    ),
    (
        API,
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "a", "insert_line": 0, "insert_text": "b"},
        "insert",
        {"path": "a", "after_line": 0, "text": "b"},
    ),
    (
        API,
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "a", "insert_line": 0, "new_str": "b"},
        "insert",
        {"path": "a", "after_line": 0, "text": "b"},
    ),
    (API, "bash", {"command": "ls"}, "shell", {"command": "ls"}),
    (API, "bash", {"restart": True}, "shell", {"restart": True}),
    (API, "memory", {"command": "view", "path": "/memories"}, "memory", {"command": "view", "path": "/memories"}),
    (API, "web_fetch", {"url": "a"}, "web_open", {"target": "a"}),
    (SET, "bash", {"command": "ls", "timeout_ms": 1500}, "shell", {"command": "ls", "timeout": 1.5, **LAST}),
    (SET, "bash", {"command": "ls", "timeout_ms": 10**8}, "shell", {"command": "ls", "timeout": 7200.0, **LAST}),
    (
        SET,
        "read",
        {"file_path": "a", "view_range": [2, 0]},
        "read",
        {"path": "a", "start_line": 2, "max_lines": 100_000, "allow_large": True},
    ),
    (SET, "write", {"file_path": "a", "content": "b"}, "write", {"path": "a", "content": "b", "mode": "overwrite"}),
    (
        SET,
        "edit",
        {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": True},
        "edit",
        {"path": "a", "old": "b", "new": "c", "count": "all", "match": "exact"},
    ),
    (SET, "glob", {"pattern": "a"}, "glob", {"pattern": "a", "max_results": 200, "order": "mtime"}),
    (
        SET,
        "grep",
        {"pattern": "a", "path": "b"},
        "grep",
        {"pattern": "a", "path": "b", "mode": "content", "line_numbers": True},
    ),
]
WRONG: list[tuple[str, str, Arguments, str]] = [
    *((NEW, name, {}, "file_path") for name in ("Read", "Write", "Edit")),
    (NEW, "Edit", {"file_path": "a", "old_string": "b"}, "new_string"),
    (OLD, "Read", {"file_path": "a", "limit": 0}, "limit"),
    (NEW, "Read", {"file_path": "a", "offset": "x"}, "offset"),
    (NEW, "Bash", {"command": ["ls"]}, "command"),
    (NEW, "Bash", {"command": "ls", "timeout": 0}, "Bash: timeout is 0; give milliseconds above 0"),
    (SET, "bash", {"command": "ls", "timeout_ms": -5}, "bash: timeout_ms is -5; give milliseconds above 0"),
    *((NEW, "Grep", {"pattern": "a", name: -1}, f"Grep: {name} is -1; give 0 or more") for name in ("-A", "-B", "-C")),
    (NEW, "Grep", {"pattern": "a", "offset": -1}, "Grep: offset is -1; give 0 or more"),
    (NEW, "TaskOutput", {}, "task_id"),
    (NEW, "TaskStop", {}, "task_id"),
    (OLD, "BashOutput", {}, "bash_id"),
    (OLD, "KillShell", {}, "shell_id"),
    (NEW, "Grep", {"pattern": "a", "output_mode": "lines"}, "output_mode"),
    (NEW, "WebSearch", {}, "query"),
    (NEW, "WebSearch", {"action": {"type": "search"}}, "query"),
    (NEW, "WebSearch", {"action": {"type": "find_in_page", "url": "a"}}, "pattern"),
    (NEW, "WebSearch", {"action": {"type": "jump"}}, "action"),
    (OLD, "TodoWrite", {"todos": [{"content": "a", "status": "later", "activeForm": "b"}]}, "status"),
    (API, "str_replace_based_edit_tool", {"command": "create", "path": "a"}, "file_text"),
    (API, "str_replace_based_edit_tool", {"command": "insert", "path": "a", "insert_line": 1}, "insert_text"),
    (API, "str_replace_based_edit_tool", {"command": "undo_edit", "path": "a"}, "command"),
    (API, "str_replace_based_edit_tool", {"command": "view", "path": "a", "view_range": [3, 2]}, "view_range"),
    (API, "bash", {"restart": False}, "command"),
    (SET, "read", {"file_path": "a", "view_range": [1]}, "view_range"),
]


class TestWhatACallMeans:
    @pytest.mark.parametrize(("facade", "name", "native", "base", "arguments"), MEANINGS)
    def test_it_is_one_call_of_a_base_tool(self, facade: str, name: str, native: Arguments, base: str, arguments: Arguments):
        found = meant(facade, name, native)
        assert (found.tool, found.arguments) == (base, arguments)
        assert base_tools()[base].bind(ToolCall("1", base, found.arguments)) is not None

    @pytest.mark.parametrize(("facade", "name", "native", "parameter"), WRONG)
    def test_what_is_missing_or_wrong_is_told_in_its_own_words(self, facade: str, name: str, native: Arguments, parameter: str):
        with pytest.raises(ToolError) as caught:
            meant(facade, name, native)
        assert caught.value.kind == "validation"
        assert parameter in str(caught.value)

    @pytest.mark.parametrize(("facade", "name"), [(NEW, "Bash"), (OLD, "Bash"), (API, "bash"), (SET, "bash")])
    def test_a_parameter_that_nobody_knows_is_left_out_and_noted(self, facade: str, name: str):
        found = meant(facade, name, {"command": "ls", "colour": "red"})
        assert found.arguments == meant(facade, name, {"command": "ls"}).arguments
        assert [repair.subject for repair in found.repairs] == ["parameter 'colour'"]

    def test_names_and_values_that_are_nearly_right_are_mended(self):
        found = meant(NEW, "Edit", {"filePath": "a", "oldString": "b", "new_string": "c", "replace_all": "true"})
        assert found.arguments == {"path": "a", "old": "b", "new": "c", "count": "all", "match": "exact"}
        assert found.repairs

    def test_every_mapping_is_covered(self, shared: Path):
        mapping = loads_object((shared / "facades" / "mapping.json").read_bytes())
        covered = {(native, base) for _, name, given, base, _ in MEANINGS for native in said_as(name, given)}
        wanted = [
            (harness.partition(".")[2].removesuffix("(hist)"), canonical)
            for canonical, rows in mapping["map"].items()
            for harness in rows
            if harness.startswith(("claude-code.", "anthropic-api."))
        ]
        assert len(wanted) > 25
        assert [one for one in wanted if one not in covered] == []
        for rows in mapping["map"].values():
            for harness, row in rows.items():
                program, _, name = harness.partition(".")
                if program in ("claude-code", "anthropic-api"):
                    assert parameters_of(row) <= taken_by(re.split(r"[\[(]", name)[0]), harness
        aliases = {alias for alias, real in mapping["input_aliases"]["claude-code"].items() if real != "Agent"}
        known = {name for view in find_facade(NEW).views for name in (view.name, *view.aliases)}
        assert aliases <= known


def parameters_of(row: Arguments) -> set[str]:
    """The native parameters that a mapping names."""
    found: set[str] = set()
    for one in row.values():
        if isinstance(one, dict):
            found.update(value for key, value in cast(dict[str, str], one).items() if key == "param")
        else:
            found.update(cast(list[str], one) if isinstance(one, list) else [one])
    return found


def taken_by(name: str) -> set[str]:
    """All names of parameters, of objects inside too, that any of the tools of this name takes."""
    views = [view for facade in TABLES for view in facade.views if name in (view.name, *view.aliases)]
    return {found for view in views for found in re.findall(r'"([^"]+)":', dumps_text(view.accepted_schema))}


def said_as(name: str, native: Arguments) -> set[str]:
    return {name, f"{name}[{native.get('command')}]"}


# ---- the way back


@cache
def base_tools() -> dict[str, Tool]:
    found = builtins(Path(__file__).parent, state_dir=Path(__file__).parent / "never")
    try:
        return {tool.name: tool for tool in found.tools}
    finally:
        found.close()


def defaults(base: str) -> Arguments:
    parameters = inspect.signature(base_tools()[base].function).parameters
    values = {name: parameter.default for name, parameter in parameters.items() if parameter.default is not parameter.empty}
    values.pop("context", None)
    return {**values, **({"start_line": 1} if base == "read" else {})}


Strategy = st.SearchStrategy[Arguments]
words, numbers, flags = st.text(min_size=1, max_size=8), st.integers(1, 50), st.booleans()


def some(needed: dict[str, Any], **optional: Any) -> Strategy:
    return st.fixed_dictionaries(needed, optional=optional)


def forwards(given: Arguments) -> Arguments:
    """Lines whose end is not before their beginning."""
    ends = {"end_line": given["end_line"] + given.get("start_line", 1)} if "end_line" in given else {}
    return {**given, **ends}


READ = some({"path": words}, start_line=numbers, end_line=numbers).map(forwards)
EDIT = some({"path": words, "old": words, "new": words, "count": st.sampled_from(["one", "all"]), "match": st.just("exact")})
SHELL = {"description": words, "background": flags, "escalate": flags, "timeout": numbers}
GREP = {
    "path": words,
    "include_glob": words,
    "file_type": words,
    "before": numbers,
    "after": numbers,
    "line_numbers": flags,
    "ignore_case": flags,
    "multiline": flags,
    "max_results": numbers,
}
MODE = st.sampled_from(["content", "files", "count"])
NOTEBOOK = some(
    {"path": words, "source": words},
    cell_id=words,
    cell_type=st.sampled_from(["code", "markdown"]),
    mode=st.sampled_from(["replace", "insert", "delete"]),
)
DOMAINS = {"allowed_domains": st.lists(words), "blocked_domains": st.lists(words)}
ITEM = some({"text": words, "status": st.sampled_from(["pending", "in_progress", "completed"])})
ASKED = st.fixed_dictionaries(
    {
        "question": words,
        "header": words,
        "options": st.lists(some({"label": words, "description": words}, preview=words), min_size=2, max_size=4),
        "multi": flags,
    }
)
SAYABLE: list[tuple[str, str, str, Strategy]] = [
    (NEW, "Read", "read", READ),
    (OLD, "Read", "read", READ),
    (NEW, "Write", "write", some({"path": words, "content": words})),
    (NEW, "Edit", "edit", EDIT),
    (NEW, "NotebookEdit", "notebook_edit", NOTEBOOK),
    (NEW, "Bash", "shell", some({"command": words}, **SHELL)),
    (NEW, "TaskOutput", "shell_output", some({"handle": words, "wait": flags, "timeout": st.integers(0, 600)})),
    (OLD, "BashOutput", "shell_output", some({"handle": words}, filter=words)),
    (NEW, "TaskStop", "shell_kill", some({"handle": words})),
    (OLD, "KillShell", "shell_kill", some({"handle": words})),
    (NEW, "Grep", "grep", some({"pattern": words, "mode": MODE}, **GREP, only_matching=flags, skip=numbers)),
    (OLD, "Grep", "grep", some({"pattern": words, "mode": MODE}, **GREP)),
    (NEW, "Glob", "glob", some({"pattern": words}, path=words)),
    (NEW, "LS", "list_dir", some({"path": words}, ignore=st.lists(words))),
    (NEW, "WebFetch", "web_open", some({"target": st.just("https://a.example/")}, question=words)),
    (NEW, "WebSearch", "web_search", some({"queries": st.lists(st.text(min_size=2), min_size=1, max_size=1)}, **DOMAINS)),
    (OLD, "TodoWrite", "todo", some({"items": st.lists(ITEM)})),
    (NEW, "AskUserQuestion", "ask_user", some({"questions": st.lists(ASKED, min_size=1, max_size=4)})),
    (API, "str_replace_based_edit_tool", "read", READ.filter(lambda one: not one["path"].endswith("/") and one["path"] != ".")),
    (API, "str_replace_based_edit_tool", "write", some({"path": words, "content": words})),
    (API, "str_replace_based_edit_tool", "edit", EDIT.map(lambda one: {**one, "count": "one"})),
    (API, "str_replace_based_edit_tool", "insert", some({"path": words, "after_line": numbers, "text": words})),
    (
        API,
        "str_replace_based_edit_tool",
        "list_dir",
        some({"path": words.map(lambda one: one.rstrip("/") or "/"), "depth": st.just(2)}),
    ),
    (API, "bash", "shell", some({"command": words}, restart=flags)),
    (API, "memory", "memory", some({"command": st.just("view")}, path=words, view_range=st.just([1, 2]))),
    (API, "web_search", "web_search", some({"queries": st.lists(words, min_size=1, max_size=1)})),
    (API, "web_fetch", "web_open", some({"target": words})),
    (SET, "read", "read", READ),
    (SET, "write", "write", some({"path": words, "content": words})),
    (SET, "edit", "edit", EDIT),
    (SET, "glob", "glob", some({"pattern": words, "max_results": st.just(200)}, path=words)),
    (SET, "grep", "grep", some({"pattern": words}, path=words)),
    (SET, "bash", "shell", some({"command": words}, timeout=numbers)),
]
UNSAYABLE: list[tuple[str, str, str, Arguments, set[str]]] = [
    (NEW, "Read", "read", {"path": "a", "tail_lines": 3}, {"tail_lines"}),
    (OLD, "Read", "read", {"path": "a", "pages": "1-2"}, {"pages"}),
    (NEW, "Write", "write", {"path": "a", "content": "b", "mode": "append"}, {"mode"}),
    (NEW, "Edit", "edit", {"path": "a", "old": "b", "new": "c", "count": 2}, {"count"}),
    (NEW, "Edit", "edit", {"path": "a", "old": "b", "new": "c", "match": "tolerant"}, {"match"}),
    (NEW, "Bash", "shell", {"command": "a", "cwd": "b", "tty": True}, {"cwd", "tty"}),
    (OLD, "BashOutput", "shell_output", {"handle": "1", "wait": True}, {"wait"}),
    (OLD, "Grep", "grep", {"pattern": "a", "skip": 2}, {"skip"}),
    (NEW, "Glob", "glob", {"pattern": "a", "order": "name"}, {"order"}),
    (NEW, "NotebookEdit", "notebook_edit", {"path": "a", "source": "b", "cell_type": "raw"}, {"cell_type"}),
    (NEW, "WebFetch", "web_open", {"target": "https://a.example/", "start_line": 4}, {"start_line"}),
    (OLD, "TodoWrite", "todo", {"items": [{"text": "a", "status": "cancelled"}]}, {"items"}),
    (API, "bash", "shell", {"command": "a", "timeout": 3}, {"timeout"}),
    (API, "str_replace_based_edit_tool", "edit", {"path": "a", "old": "b", "new": "c", "count": "all"}, {"count"}),
    (SET, "grep", "grep", {"pattern": "a", "ignore_case": True}, {"ignore_case"}),
]


class TestTheWayBack:
    @pytest.mark.parametrize(("facade", "name", "base", "strategy"), SAYABLE, ids=lambda one: str(one)[:30])
    def test_what_a_view_can_say_comes_back_the_same(self, facade: str, name: str, base: str, strategy: Strategy):
        view, usual = view_of(facade, name), defaults(base)
        shown, taken = SchemaBinder(cast(Arguments, view.parameters)), SchemaBinder(view.accepted_schema)

        @given(strategy)
        def law(arguments: Arguments) -> None:
            found = view.from_base(base, arguments)
            assert found is not None
            native, losses = found
            assert losses == ()
            assert shown.bind(native) is not None
            assert taken.bind(native) is not None
            tool, again = view.to_base(native)
            assert tool == base
            same = {**usual, **view.find_case(native).fixed}
            assert {**same, **again} == {**same, **arguments}

        law()

    @pytest.mark.parametrize(("facade", "name", "base", "arguments", "lost"), UNSAYABLE)
    def test_what_it_cannot_say_is_told(self, facade: str, name: str, base: str, arguments: Arguments, lost: set[str]):
        found = view_of(facade, name).from_base(base, arguments)
        assert found is not None
        assert {loss.subject for loss in found[1]} == {f"parameter {one!r}" for one in lost}
        assert set(found[0]) <= set(cast(Arguments, view_of(facade, name).parameters)["properties"])

    @pytest.mark.parametrize(
        ("facade", "name", "base", "arguments"),
        [
            (NEW, "Edit", "multi_edit", {"path": "a", "edits": [{"old": "a", "new": "b"}, {"old": "c", "new": "d"}]}),
            (NEW, "Bash", "shell", {"argv": ["ls"]}),
            (NEW, "Bash", "shell", {"restart": True}),
            (NEW, "WebFetch", "web_open", {"target": ["https://a.example/", "https://b.example/"]}),
            (NEW, "WebFetch", "web_open", {"target": "w3"}),
            (API, "web_fetch", "web_open", {"target": ["https://a.example/", "https://b.example/"]}),
            (NEW, "WebSearch", "web_search", {"queries": ["a"]}),
            (NEW, "WebSearch", "web_search", {"queries": ["a", "b"]}),
            (NEW, "WebSearch", "web_open", {"target": "a"}),
            (OLD, "TodoWrite", "todo", {}),
            (NEW, "AskUserQuestion", "ask_user", {"questions": [{"question": "a", "kind": "text"}]}),
            (NEW, "AskUserQuestion", "ask_user", {"questions": [QUESTION] * 5}),
            (NEW, "AskUserQuestion", "ask_user", {"questions": [{**QUESTION, "options": QUESTION["options"][:1]}]}),
        ],
    )
    def test_what_it_cannot_say_at_all_is_not_said(self, facade: str, name: str, base: str, arguments: Arguments):
        assert view_of(facade, name).from_base(base, arguments) is None

    @pytest.mark.parametrize(
        ("facade", "name", "native"),
        [
            (NEW, "Read", {"file_path": "a.png"}),
            (API, "str_replace_based_edit_tool", {"command": "view", "path": "a.png"}),
            (SET, "read", {"file_path": "a.png"}),
        ],
    )
    def test_an_image_that_another_model_looked_at_was_read(self, facade: str, name: str, native: Arguments):
        found = view_of(facade, name).from_base("view_image", {"path": "a.png", "detail": None})
        assert found is not None
        assert found[0] == native


# ---- results, by the real tools, on the simulator


class Desk:
    """A folder with two files, and a model that does what it is told."""

    def __init__(self, folder: Path, facade: str) -> None:
        self.folder = folder / "w"
        (self.folder / "lib").mkdir(parents=True)
        (self.folder / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
        (self.folder / "lib" / "b.txt").write_text("hello\n")
        tools = builtins(self.folder, state_dir=folder / "s").tools
        self.agent = Orchestrator(f"simulator:anthropic/{MODELS.get(facade, MODELS[NEW])}", tools=tools, facade=facade)

    def does(self, *calls: tuple[str, Arguments]) -> list[tuple[str, bool]]:
        said = "\nthen ".join(f"call {name} {dumps_text(arguments)}" for name, arguments in calls)
        outcomes = self.agent.run_sync(said).outcomes
        assert [one.result.name for one in outcomes] == [name for name, _ in calls]
        return [(one.result.text.replace(str(self.folder), "/w"), one.result.is_error) for one in outcomes]


CURRENT = "(file state is current in your context — no need to Read it back)"
EDITOR = "str_replace_based_edit_tool"


def wrong(why: str) -> tuple[str, bool]:
    return f"<tool_use_error>{why}</tool_use_error>", True


WORK: dict[str, list[tuple[str, Arguments, str | tuple[str, bool]]]] = {
    NEW: [
        ("Glob", {"pattern": "**/*.py"}, "/w/a.py"),
        ("Glob", {"pattern": "*.zz"}, "No files found"),
        ("LS", {"path": "."}, "- ./\n  - lib/\n  - a.py"),
        ("Grep", {"pattern": "x"}, "Found 1 file\na.py"),
        (
            "Grep",
            {"pattern": "x|h", "output_mode": "count"},
            "a.py:2\nlib/b.txt:1\n\nFound 3 total occurrences across 2 files.",
        ),
        (
            "Grep",
            {"pattern": "x", "output_mode": "content", "-A": 1, "head_limit": 1},
            "a.py:1:x = 1\na.py-2-y = 2\n\n[Showing results with pagination = limit: 1, offset: 0]",
        ),
        ("Grep", {"pattern": "nowhere", "output_mode": "content"}, "No matches found"),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "y", "new_string": "z"},
            wrong("File has not been read yet. Read it first before writing to it."),
        ),
        (
            "Read",
            {"file_path": "a.py", "limit": 2},
            "1\tx = 1\n2\ty = 2",
        ),
        ("Read", {"file_path": "lib"}, wrong("'lib' is a folder: LS shows what is in it")),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 4"},
            wrong(
                "Found 2 matches of the string to replace, but replace_all is false. They are in lines 1, 3: give more context "
                "so that only one is meant, or set replace_all to true.\nString: x = 1"
            ),
        ),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "q = 1", "new_string": ""},
            wrong(
                "String to replace not found in file.\nString: q = 1\n"
                "`old_string` is not in 'a.py': the nearest is line 1 (80 % alike):\n1\tx = 1"
            ),
        ),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 4", "replace_all": True},
            f"The file a.py has been updated successfully. {CURRENT}",
        ),
        ("Write", {"file_path": "n/new.txt", "content": "n\n"}, f"File created successfully at: n/new.txt {CURRENT}"),
        ("Bash", {"command": "cat a.py"}, "x = 4\ny = 2\nx = 4"),
        ("Bash", {"command": "echo no; exit 3"}, ("Exit code 3\nno", True)),
        (
            "Bash",
            {"command": "cat", "run_in_background": True},
            "Command running in background with ID: 3. Read its output with TaskOutput.",
        ),
        ("TaskOutput", {"task_id": "3", "block": False, "timeout": 0}, "<status>running</status>"),
        ("TaskStop", {"task_id": "3"}, "Stopped: 3 (cat)"),
        (
            "AskUserQuestion",
            {"questions": [{**QUESTION, "multiSelect": False}]},
            ("nobody is there to answer: decide yourself, and say what you assumed", True),
        ),
    ],
    OLD: [
        ("Read", {"file_path": "a.py"}, "     1→x = 1\n     2→y = 2\n     3→x = 1"),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "y = 2", "new_string": "y = 5"},
            "The file a.py has been updated successfully. These lines of it are now:\n     1→x = 1\n     2→y = 5\n     3→x = 1",
        ),
        ("Write", {"file_path": "a.py", "content": "n\n"}, "The file a.py has been updated successfully."),
        (
            "Bash",
            {"command": "cat", "run_in_background": True},
            "Command running in background with ID: 1. Read its output with BashOutput.",
        ),
        ("BashOutput", {"bash_id": "1"}, "<status>running</status>"),
        ("KillShell", {"shell_id": "1"}, "Stopped: 1 (cat)"),
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "in_progress", "activeForm": "b"}]},
            "Todos have been modified successfully. Go on with what is in progress.",
        ),
    ],
    API: [
        ("bash", {"command": "ls"}, "a.py\nlib"),
        (EDITOR, {"command": "view", "path": "."}, "Here is what is in ., two levels deep, without hidden files:"),
        (
            EDITOR,
            {"command": "view", "path": "lib"},
            "Here is what is in lib, two levels deep, without hidden files:\n6B\tlib/b.txt",
        ),
        (
            EDITOR,
            {"command": "view", "path": "lib/"},
            "Here is what is in lib, two levels deep, without hidden files:\n6B\tlib/b.txt",
        ),
        (
            EDITOR,
            {"command": "view", "path": "a.py", "view_range": [2, 3]},
            "Here's the content of a.py with line numbers:\n     2\ty = 2\n     3\tx = 1",
        ),
        (
            EDITOR,
            {"command": "str_replace", "path": "a.py", "old_str": "x = 1", "new_str": ""},
            (
                "No replacement was performed. Multiple occurrences of old_str `x = 1` in lines: 1, 3. "
                "Please ensure it is unique",
                True,
            ),
        ),
        (
            EDITOR,
            {"command": "str_replace", "path": "a.py", "old_str": "wholly other", "new_str": ""},
            ("No replacement was performed, old_str `wholly other` did not appear verbatim in a.py.", True),
        ),
        (
            EDITOR,
            {"command": "str_replace", "path": "a.py", "old_str": "y = 2", "new_str": "y = 3"},
            "The file a.py has been edited. These lines of it are now:\n     1\tx = 1\n     2\ty = 3\n     3\tx = 1",
        ),
        (
            EDITOR,
            {"command": "insert", "path": "a.py", "insert_line": 9, "insert_text": "z"},
            ("Invalid `insert_line` parameter: 9. It should be within the range [0, 3].", True),
        ),
        (
            EDITOR,
            {"command": "insert", "path": "a.py", "insert_line": 3, "insert_text": "z"},
            "The file a.py has been edited. These lines of it are now:\n     1\tx = 1\n     2\ty = 3\n     3\tx = 1\n     4\tz",
        ),
        (EDITOR, {"command": "create", "path": "c", "file_text": "c"}, "File created successfully at: c"),
        ("bash", {"command": "cat a.py; exit 2"}, ("x = 1\ny = 3\nx = 1\nz\n[exit code 2]", True)),
        (
            "memory",
            {"command": "create", "path": "/memories/m", "file_text": "one\ntwo\n"},
            "File created successfully at: /memories/m",
        ),
        (
            "memory",
            {"command": "view", "path": "/memories"},
            "Here is what is in /memories, two levels deep, without hidden files:\n8B\t/memories\n8B\t/memories/m",
        ),
        (
            "memory",
            {"command": "view", "path": "/memories/m"},
            "Here's the content of /memories/m with line numbers:\n     1\tone\n     2\ttwo",
        ),
        (
            "memory",
            {"command": "str_replace", "path": "/memories/m", "old_str": "three", "new_str": ""},
            ("No replacement was performed, old_str `three` did not appear verbatim in /memories/m.", True),
        ),
        (
            "memory",
            {"command": "insert", "path": "/memories/m", "insert_line": 5, "insert_text": "x"},
            ("Invalid `insert_line` parameter: 5. It should be within the range [0, 2].", True),
        ),
        (
            "memory",
            {"command": "rename", "old_path": "/memories/m", "new_path": "/memories/n"},
            "Successfully renamed /memories/m to /memories/n",
        ),
        ("memory", {"command": "delete", "path": "/memories/n"}, "Successfully deleted /memories/n"),
    ],
    SET: [
        ("glob", {"pattern": "**/*.txt"}, "/w/lib/b.txt"),
        ("glob", {"pattern": "*.zz"}, "no matches"),
        ("grep", {"pattern": "y"}, "a.py:2:y = 2"),
        ("grep", {"pattern": "nowhere"}, "no matches"),
        ("read", {"file_path": "a.py"}, "x = 1\ny = 2\nx = 1\n"),
        ("read", {"file_path": "a.py", "view_range": [1, 2]}, "x = 1\ny = 2"),
        (
            "edit",
            {"file_path": "a.py", "old_string": "x = 1", "new_string": ""},
            ("edit: old_string appears 2 times in a.py (must be unique)", True),
        ),
        ("edit", {"file_path": "a.py", "old_string": "q", "new_string": ""}, ("edit: old_string not found in a.py", True)),
        ("edit", {"file_path": "a.py", "old_string": "y = 2", "new_string": "y = 3"}, "edited a.py (1 replacement(s))"),
        ("write", {"file_path": "c", "content": "é"}, "wrote 2 bytes to c"),
        ("bash", {"command": "cat a.py"}, "x = 1\ny = 3\nx = 1"),
        ("bash", {"command": "echo no; exit 3"}, ("no", True)),
        ("bash", {"restart": True}, "Everything was ended; commands run in the workspace's first folder again."),
    ],
}


class TestWorkOnTheSimulator:
    @pytest.mark.parametrize("facade", WORK)
    def test_finding_reading_editing_and_running_read_as_the_model_expects(self, facade: str, tmp_path: Path):
        rows = WORK[facade]
        said = Desk(tmp_path, facade).does(*((name, arguments) for name, arguments, _ in rows))
        for (name, arguments, expected), found in zip(rows, said, strict=True):
            right = expected if isinstance(expected, tuple) else (expected, False)
            if arguments.get("path") == "." and name == EDITOR:
                found = (found[0].partition("\n")[0], found[1])
            assert found == right, name

    @pytest.mark.parametrize(
        ("facade", "name", "arguments", "start"),
        [
            (NEW, "Bash", {"command": "cat /dev/zero | head -c 0; sleep 9", "timeout": 50}, "Command timed out after 0."),
            (SET, "bash", {"command": "sleep 9", "timeout_ms": 50}, "timed out after 0."),
        ],
    )
    def test_a_command_that_takes_too_long(self, facade: str, name: str, arguments: Arguments, start: str, tmp_path: Path):
        ((text, is_error),) = Desk(tmp_path, facade).does((name, arguments))
        assert is_error
        assert text.startswith(start)


class TestLimits:
    def test_what_the_agent_tool_set_reads_whole_is_not_too_large(self, tmp_path: Path):
        desk = Desk(tmp_path, SET)
        (desk.folder / "large.txt").write_text("0123456\n" * 40_000)
        (desk.folder / "many.txt").write_text("1\n" * 9000)
        whole, part, many = desk.does(
            ("read", {"file_path": "large.txt"}),
            ("read", {"file_path": "large.txt", "view_range": [39_999, -1]}),
            ("read", {"file_path": "many.txt"}),
        )
        assert whole == ("read: large.txt has 320000 bytes, over 262144: read a part of it with view_range", True)
        assert part == ("0123456\n0123456\n", False)
        assert many == ("1\n" * 9000, False)

    def test_the_agent_tool_set_shows_the_end_of_long_output(self, tmp_path: Path):
        ((text, is_error),) = Desk(tmp_path, SET).does(("bash", {"command": "seq 30000"}))
        assert not is_error
        assert text.startswith("… ")
        assert "\n30000\n[the whole output is in " in text

    def test_only_what_a_limit_has_cut_is_called_partial(self, tmp_path: Path):
        desk = Desk(tmp_path, NEW)
        (desk.folder / "many.txt").write_text("1\n" * 2500)
        whole, part = desk.does(("Read", {"file_path": "many.txt"}), ("Read", {"file_path": "many.txt", "offset": 2499}))
        assert whole[0].endswith("\n2000\t1\n[PARTIAL view: lines 1 to 2000 of 2500; go on with offset=2001]")
        assert part == ("2499\t1\n2500\t1", False)


# ---- results of what tests do not reach

PAGE: Arguments = {
    "ref": "w1",
    "url": "https://a.example/",
    "requested": "",
    "title": "A",
    "status": 200,
    "notes": [],
    "text": "body",
    "question_lines": [3],
    "start_char": 0,
    "end_char": 4,
    "total_chars": 9,
    "next_line": 2,
    "next_char": 4,
}
FOUND: Arguments = {
    "queries": ["q"],
    "results": [{"title": "T", "url": "https://t.example/", "snippet": "s", "date": "", "ref": "w1"}],
}
ENDED: Arguments = {
    "running": False,
    "ended": "",
    "exit_code": 0,
    "output": "o\n",
    "notes": [],
    "timed_out": False,
    "truncated": False,
    "spill": "",
}
CELL = {"cell_id": "c1", "source": "s"}
NOTHING: Arguments = {
    "kind": "text",
    "lines": [],
    "first": 1,
    "last": 0,
    "total": 0,
    "size": 0,
    "next_line": None,
    "truncated": False,
    "long_lines": [],
    "encoding": "utf-8",
}
RESULTS: list[tuple[str, str, str, Arguments, str]] = [
    (
        NEW,
        "WebFetch",
        "",
        PAGE,
        "A\nhttps://a.example/\nWords of the prompt are in lines 3 of the page.\n\nbody\n\n"
        "[characters 0 to 4 of 9: WebFetch with this url and offset=4]",
    ),
    (NEW, "WebSearch", "", FOUND, 'Web search results for "q":\n\n1. T\n   https://t.example/\n   s'),
    (NEW, "WebSearch", "", {**FOUND, "results": []}, 'Web search results for "q": none.'),
    (
        API,
        "web_fetch",
        "",
        {**PAGE, "question_lines": [], "next_char": None, "status": 404},
        "A\nhttps://a.example/\nThe server answered with status 404.\n\nbody",
    ),
    (NEW, "NotebookEdit", "", {**CELL, "mode": "replace"}, "Updated cell c1 with s"),
    (NEW, "NotebookEdit", "", {**CELL, "mode": "insert"}, "Inserted cell c1 with s"),
    (NEW, "NotebookEdit", "", {**CELL, "mode": "delete"}, "Deleted cell c1"),
    (
        NEW,
        "AskUserQuestion",
        "",
        {"answers": [{"question": "Q?", "answers": ["a", "b"]}]},
        'The user has answered your questions: "Q?"="a, b".',
    ),
    (
        NEW,
        "TaskOutput",
        "",
        ENDED,
        "<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<output>\no\n</output>",
    ),
    (
        OLD,
        "BashOutput",
        "",
        {**ENDED, "exit_code": 1},
        "<status>failed</status>\n\n<exit_code>1</exit_code>\n\n<stdout>\no\n</stdout>",
    ),
    (
        NEW,
        "Bash",
        "",
        {**ENDED, "truncated": True, "spill": "/s/1", "notes": ["a note"]},
        "o\n[a note]\n[the whole output is in /s/1]",
    ),
    (
        NEW,
        "Bash",
        "",
        {**ENDED, "ended": "output", "seconds": 1.5, "exit_code": 137},
        "Exit code 137\no\n[ended after 1.5 s: output]",
    ),
    (NEW, "Read", "", NOTHING, "[the file exists and is empty]"),
    (
        NEW,
        "Read",
        "",
        {**NOTHING, "lines": ["x"], "last": 1, "long_lines": [1], "encoding": "windows-1252"},
        "1\tx\n[cut because they are too long: lines 1]\n[read as windows-1252]",
    ),
    (NEW, "Read", "", {"kind": "image"}, "as it was"),
    (NEW, "Edit", "", {"created": True}, f"File created successfully at: a {CURRENT}"),
    (OLD, "Edit", "", {"created": True}, "File created successfully at: a"),
    (
        NEW,
        "Write",
        "",
        {"created": False, "converted": True, "reencoded": True},
        f"The file a has been updated successfully. {CURRENT} [line ends are CRLF, as they were] [it is UTF-8 now]",
    ),
    (
        NEW,
        "Glob",
        "",
        {"files": [{"absolute": "/w/a"}], "truncated": True, "total": 9},
        "/w/a\n[the newest 1 of 9 files; use a narrower path or pattern]",
    ),
    (
        NEW,
        "LS",
        "",
        {"entries": [{"depth": 1, "name": "b", "kind": "file"}], "truncated": True, "total": 9},
        "- a/\n  - b\n[1 of 9 entries are shown]",
    ),
    (API, EDITOR, "view", NOTHING, "Here's the content of a with line numbers:\n[the file is empty]"),
    (API, EDITOR, "view", {"kind": "image"}, "as it was"),
    (API, EDITOR, "create", {"created": False}, "The file a has been overwritten."),
    (
        API,
        EDITOR,
        "folder",
        {
            "entries": [{"path": "b", "kind": "folder", "size": 2048}, {"path": ".c", "kind": "file", "size": 1}],
            "truncated": True,
            "total": 9,
        },
        "Here is what is in a, two levels deep, without hidden files:\n2.0K\ta/b/\n[2 of 9 entries are shown]",
    ),
    (API, "memory", "", {"command": "insert", "path": "/memories/m"}, "The file /memories/m has been edited."),
    (
        API,
        "memory",
        "",
        {"command": "str_replace", "path": "/memories/m", "lines": ["x"], "first": 4},
        "The memory file has been edited. Its lines there:\n     4\tx",
    ),
    (SET, "read", "", {"kind": "image"}, "as it was"),
    (SET, "glob", "", {"files": [{"absolute": "/w/a"}], "truncated": True, "total": 9}, "/w/a\n[1 of 9 are shown]"),
    (
        SET,
        "grep",
        "",
        {"files": [{}], "truncated": False, "complete": True},
        "as it was",
    ),
]
REASONS: list[tuple[str, str, str, str, str]] = [
    (API, EDITOR, "str_replace", "identical", "No replacement was performed: old_str and new_str are the same."),
    (API, EDITOR, "str_replace", "empty", "`old_str` is empty: use bash"),
    (SET, "edit", "", "identical", "`old_string` is empty: use bash"),
    (NEW, "Edit", "", "identical", wrong("old_string and new_string are the same: there is nothing to change.")[0]),
    (NEW, "Edit", "", "empty", wrong("`old_string` is empty: use Bash")[0]),
]


class TestWords:
    @pytest.mark.parametrize(("facade", "name", "key", "data", "text"), RESULTS)
    def test_a_result_reads_as_its_data_says(self, facade: str, name: str, key: str, data: Arguments, text: str):
        words = view_of(facade, name).cases[key].result
        assert words is not None
        assert words(RenderContext(native={}, base={"path": "a"}, text="as it was", data=data)) == text

    @pytest.mark.parametrize(("facade", "name", "key", "reason", "text"), REASONS)
    def test_why_nothing_was_replaced(self, facade: str, name: str, key: str, reason: str, text: str):
        failure = view_of(facade, name).cases[key].failure
        assert failure is not None
        said = RenderContext(native={}, base={}, text="`old` is empty: use shell", details=SimpleNamespace(reason=reason))
        assert failure(said) == text

    @pytest.mark.parametrize(
        ("kind", "text", "said"),
        [
            (
                "execution",
                "`old` is not in 'list_dir': list_dir shows",
                "<tool_use_error>`old_string` is not in 'list_dir': LS shows</tool_use_error>",
            ),
            ("rejected", "The user did not approve the call.", "The user did not approve the call."),
        ],
    )
    def test_a_failure_is_in_the_words_of_the_model(self, kind: Any, text: str, said: str):
        failure = cast(Callable[[RenderContext], str], find_facade(NEW).failure)
        assert failure(RenderContext(native={}, base={}, text=text, kind=kind)) == said

    def test_a_file_that_changed_has_to_be_read_again(self):
        failure = view_of(NEW, "Edit").cases[""].failure
        assert failure is not None
        said = RenderContext(
            native={}, base={"path": "a"}, text="'a' has changed since it was read: read it again", kind="not_allowed"
        )
        assert failure(said).startswith("<tool_use_error>File has been modified since read")
        same = RenderContext(native={}, base={}, text="", kind="validation", details=SimpleNamespace(reason="identical"))
        assert "are the same" in failure(same)


if __name__ == "__main__":
    write_snapshots()
