"""The tools as Qwen Code and Kimi Code show them: what a model sees, and what its calls mean, both ways."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.builtin.tools import builtins
from toolglot.errors import ToolError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import FACADE_MODULES, facade_id_for_model, find_facade
from toolglot.facades.view import Facade, View
from toolglot.jsontext import loads_object
from toolglot.messages import BaseCall, Message, ToolCall
from toolglot.schema.arguments import SchemaBinder, make_example

from .meaning import Meaning, meaning_of

Arguments = dict[str, Any]

SNAPSHOTS = Path(__file__).parent / "snapshots"
KIN = ("qwen-code", "kimi")
WITHOUT_BASE = {"lsp"}
NOT_LISTED = {"kimi": {"TaskList"}}
"""Tools of the program that the schemas do not have."""
SHALLOW = {"todowrite", "question"}
"""Tools whose items the schemas only call objects."""
MODELS = {
    "qwen-code": "qwen3-coder",
    "kimi": "kimi-k2",
}


def views(facade: str) -> dict[str, View]:
    return {view.name: view for view in find_facade(facade).views}


def bases(facade: Facade) -> frozenset[str]:
    return frozenset(base for view in facade.views for base in view.base_tools)


def face(facade: str, model: str = "") -> BoundFacade:
    found = find_facade(facade)
    return BoundFacade(found, model or MODELS[facade], bases(found))


def meant(facade: str, name: str, arguments: Arguments) -> Meaning:
    found = meaning_of(face(facade), ToolCall("c1", name, arguments))
    assert found is not None
    return found


def plain(schema: Any) -> Any:
    """A schema without lists that require nothing."""
    if isinstance(schema, list):
        return [plain(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    items = cast(Arguments, schema).items()
    return {name: plain(value) for name, value in items if (name, value) != ("required", [])}


def snapshot(facade: Facade) -> Arguments:
    return {view.name: view.parameters for view in facade.views}


def least(view: View) -> Arguments:
    """A call with what is needed only."""
    if view.name == "todowrite":  # its schema says less than it takes
        return {"todos": [{"content": "a", "status": "pending", "priority": "low"}]}
    return make_example(view.parameters or {})


def shallow(schema: Arguments) -> Arguments:
    """A schema whose arrays say nothing of their items."""
    named: dict[str, Arguments] = schema["properties"]
    properties = {name: {**one, "items": {"type": "object"}} if "items" in one else one for name, one in named.items()}
    return {**schema, "properties": properties}


class TestWhatTheModelSees:
    @pytest.mark.parametrize("name", KIN)
    def test_each_tool_is_as_the_program_shows_it(self, name: str, shared: Path):
        listed: list[Arguments] = loads_object((shared / "facades" / "schemas" / f"{name}.json").read_bytes())["tools"]
        rows: list[Arguments] = loads_object((shared / "facades" / "observed.json").read_bytes())["observed"]
        tools = next((row["tools"] for row in rows if row["program"] == name), listed)
        expected = {one["name"]: plain(one["parameters"]) for one in tools if one["name"] not in WITHOUT_BASE}
        own = snapshot(find_facade(name))
        found = {tool: shallow(schema) if tool in SHALLOW else schema for tool, schema in own.items()}
        assert {tool: schema for tool, schema in found.items() if tool not in NOT_LISTED.get(name, set[str]())} == expected

    @pytest.mark.parametrize("name", KIN)
    def test_nothing_has_changed_unseen(self, name: str):
        assert snapshot(find_facade(name)) == loads_object((SNAPSHOTS / f"{name}.json").read_bytes())

    @pytest.mark.parametrize("name", KIN)
    def test_the_note_names_tools_that_are_there(self, name: str):
        facade = find_facade(name)
        known = {view.name for view in facade.views} | facade.shows
        words = [word.strip(".,;:") for word in facade.note.split()]
        assert sum(word in known for word in words) >= 5
        assert not [word for word in words if "_" in word and word not in known]

    @pytest.mark.parametrize("name", KIN)
    def test_every_view_says_what_it_does(self, name: str):
        assert all(20 < len(view.description) < 420 for view in find_facade(name).views)

    @pytest.mark.parametrize(
        ("model", "facade"), [("qwen3-coder", "qwen-code"), ("moonshotai/kimi-k2", "kimi"), ("opencode-1", "neutral")]
    )
    def test_models_get_their_own(self, model: str, facade: str):
        assert facade_id_for_model(model) == facade


# ---- the way in

MEANINGS: list[tuple[str, str, Arguments, str, Arguments]] = [
    ("qwen-code", "read_file", {"file_path": "a", "offset": 0, "limit": 10}, "read", {"start_line": 1, "end_line": 10}),
    ("qwen-code", "read_file", {"file_path": "a", "offset": 9}, "read", {"start_line": 10}),
    ("qwen-code", "read_file", {"file_path": "a", "limit": 5}, "read", {"end_line": 5}),
    ("qwen-code", "replace", {"file_path": "a", "old_string": "b", "new_string": "c"}, "edit", {"old": "b", "new": "c"}),
    (
        "qwen-code",
        "replace",
        {"file_path": "a", "old_string": "b", "new_string": "c", "expected_replacements": 3, "instruction": "why"},
        "edit",
        {"path": "a", "old": "b", "new": "c", "count": 3},
    ),
    ("qwen-code", "search_file_content", {"pattern": "x", "include": "*.py"}, "grep", {"include_glob": "*.py"}),
    ("qwen-code", "run_shell_command", {"command": "ls", "timeout": 1500}, "shell", {"timeout": 1.5}),
    (
        "qwen-code",
        "list_directory",
        {"path": "a", "file_filtering_options": {"respect_git_ignore": False}},
        "list_dir",
        {"path": "a", "limit": 100, "respect_gitignore": False},
    ),
    ("qwen-code", "web_fetch", {"url": "u", "prompt": "", "format": "auto"}, "web_open", {"target": "u"}),
    ("qwen-code", "web_fetch", {"url": "u", "prompt": "p", "start_line": 9}, "web_open", {"question": "p", "start_line": 9}),
    ("qwen-code", "run_shell_command", {"command": "ls"}, "shell", {"cwd": "."}),
    ("kimi", "ReadFile", {"path": "a", "line_offset": 3, "n_lines": 2}, "read", {"start_line": 3, "end_line": 4}),
    ("kimi", "Read", {"path": "a"}, "read", {"path": "a", "max_lines": 1000}),
    ("kimi", "Read", {"path": "a", "line_offset": 0}, "read", {"path": "a", "start_line": 1, "max_lines": 1000}),
    ("kimi", "Read", {"path": "a", "line_offset": 5, "n_lines": 4000}, "read", {"start_line": 5, "end_line": 1004}),
    ("kimi", "Read", {"path": "a", "line_offset": -4000}, "read", {"path": "a", "tail_lines": 1000}),
    ("kimi", "Read", {"path": "a", "line_offset": -9, "n_lines": 2}, "read", {"path": "a", "tail_lines": 9, "max_lines": 2}),
    ("kimi", "Bash", {"command": "ls"}, "shell", {"command": "ls", "timeout": 60, "cwd": "."}),
    (
        "kimi",
        "StrReplaceFile",
        {"path": "a", "edit": {"old": "b", "new": "c", "replace_all": True}},
        "edit",
        {"path": "a", "old": "b", "new": "c", "count": "all", "match": "exact"},
    ),
    (
        "kimi",
        "StrReplaceFile",
        {"path": "a", "edit": [{"old": "b", "new": "c"}, {"old": "d", "new": ""}]},
        "multi_edit",
        {
            "edits": [
                {"old": "b", "new": "c", "count": "one", "match": "exact"},
                {"old": "d", "new": "", "count": "one", "match": "exact"},
            ]
        },
    ),
    ("kimi", "Shell", {"command": "ls", "timeout": 900}, "shell", {"command": "ls", "timeout": 300}),
    ("kimi", "Bash", {"command": "ls", "run_in_background": True}, "shell", {"command": "ls", "background": True}),
    (
        "kimi",
        "Bash",
        {"command": "ls", "run_in_background": True, "timeout": 9999, "disable_timeout": True},
        "shell",
        {"command": "ls", "background": True},
    ),
    ("kimi", "Glob", {"pattern": "*", "directory": "d", "include_dirs": True}, "glob", {"path": "d", "max_results": 100}),
    ("kimi", "Grep", {"pattern": "x"}, "grep", {"pattern": "x", "mode": "files"}),
    ("kimi", "Grep", {"pattern": "x", "-C": 2, "-A": 5}, "grep", {"pattern": "x", "mode": "files", "after": 5, "before": 2}),
    ("kimi", "TaskOutput", {"task_id": "1", "timeout": 9}, "shell_output", {"handle": "1"}),
    ("kimi", "TaskOutput", {"task_id": "1", "timeout": 9, "block": True}, "shell_output", {"wait": True, "timeout": 9}),
    ("kimi", "SearchWeb", {"query": "q", "limit": 50, "include_content": True}, "web_search", {"max_results": 20}),
    ("kimi", "SetTodoList", {"todos": [{"title": "a", "status": "done"}]}, "todo", {}),
]
BESIDES = {
    *("path", "old", "new", "command", "pattern", "target", "handle", "queries", "items"),
    *("ignore_case", "max_results", "mode", "match", "line_numbers", "cwd", "max_output", "head_share", "list_depth"),
}


class TestWhatCallsMean:
    @pytest.mark.parametrize(("facade", "name", "native", "tool", "base"), MEANINGS)
    def test_a_call_means_one_call_of_a_base_tool(self, facade: str, name: str, native: Arguments, tool: str, base: Arguments):
        found = meant(facade, name, native)
        assert found.tool == tool
        assert found.arguments.items() >= base.items()
        assert set(found.arguments) - set(base) <= BESIDES
        assert not found.repairs

    @pytest.mark.parametrize("facade", KIN)
    def test_an_unknown_parameter_is_left_out_and_told(self, facade: str):
        for view in face(facade).views:
            native = {**least(view), "no_such_thing": 1}
            found = meant(facade, view.name, native)
            assert found.tool in view.base_tools
            assert "no_such_thing" not in found.arguments
            assert [repair.subject for repair in found.repairs] == ["parameter 'no_such_thing'"], view.name

    @pytest.mark.parametrize("facade", KIN)
    def test_a_missing_parameter_is_named_with_its_tool(self, facade: str):
        for view in face(facade).views:
            for needed in (view.parameters or {}).get("required", ()):
                native = {name: value for name, value in least(view).items() if name != needed}
                with pytest.raises(ToolError, match=f"(?s){view.name}.*{needed}") as caught:
                    meant(facade, view.name, native)
                assert caught.value.kind == "validation"

    @pytest.mark.parametrize("facade", KIN)
    def test_a_wrong_parameter_is_named_with_its_tool(self, facade: str):
        for view in face(facade).views:
            for needed in (view.parameters or {}).get("required", ()):
                native = {**least(view), needed: {"what": [1]}}
                with pytest.raises(ToolError, match=f"(?s){view.name}.*{needed}"):
                    meant(facade, view.name, native)

    @pytest.mark.parametrize(
        ("facade", "name", "native", "why"),
        [
            ("qwen-code", "read_file", {"file_path": "a", "limit": 0}, "read_file: limit is 0; give 1 or more lines"),
            (
                "qwen-code",
                "run_shell_command",
                {"command": "ls", "timeout": -1},
                "run_shell_command: timeout is -1; give milliseconds above 0",
            ),
        ],
    )
    def test_what_no_schema_rules_out_is_told_in_the_models_own_words(
        self, facade: str, name: str, native: Arguments, why: str
    ):
        with pytest.raises(ToolError) as caught:
            meant(facade, name, native)
        assert (str(caught.value), caught.value.kind) == (why, "validation")

    @pytest.mark.parametrize("edit", [[], {"old": "", "new": "b"}, {"new": "b"}, "b", None])
    def test_an_edit_of_kimi_in_its_older_form_is_checked_too(self, edit: Any):
        with pytest.raises(ToolError, match="Edit"):
            meant("kimi", "StrReplaceFile", {"path": "a", **({} if edit is None else {"edit": edit})})


# ---- the table of what corresponds

NESTED = {"todo": "items", "ask_user": "questions"}
BESIDE: dict[str, Arguments] = {"TaskOutput": {"block": True}}
VALUES: dict[tuple[str, str], Any] = {("Read", "tail_lines"): -3}


def value_of(schema: Arguments) -> Any:
    """A value that is not the usual one."""
    if "enum" in schema:
        return schema["enum"][-1]
    match schema.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            return 3
        case "array":
            items: Arguments = schema["items"]
            full = {name: value_of(one) for name, one in items.get("properties", {}).items()}
            return [full or "x"] * schema.get("minItems", 1)
        case _:
            return "text"


@pytest.mark.parametrize("facade", KIN)
def test_all_that_corresponds_is_carried(facade: str, shared: Path):
    rows: dict[str, dict[str, Arguments]] = loads_object((shared / "facades" / "mapping.json").read_bytes())["map"]
    checked = 0
    for base, harnesses in rows.items():
        for key, row in harnesses.items():
            harness, _, name = key.partition(".")
            if harness != facade:
                continue
            view = views(facade)[name]
            assert base in view.base_tools
            same = harnesses.get(row.get("same_as", ""), {})
            for canonical, native in {**same, **row}.items():
                checked += canonical != "same_as" and _is_carried(view, base, canonical, native)
    assert checked > 20


def _is_carried(view: View, base: str, canonical: str, row: Any) -> bool:
    given = cast(Arguments, row) if isinstance(row, dict) else {"param": row}
    properties: dict[str, Arguments] = (view.parameters or {})["properties"]
    params: list[str] = given["param"] if isinstance(given.get("param"), list) else [given.get("param", "")]
    params = [param for param in params if param in properties or not param]
    if base in NESTED and canonical != NESTED[base]:
        full = {name: value_of(one) for name, one in properties.items()}
        assert canonical in view.to_base(full)[1][NESTED[base]][0]
        return True
    for param in params:
        native = {**least(view), **BESIDE.get(view.name, {})}
        if param:
            native[param] = VALUES.get((view.name, canonical), value_of(properties[param]))
        found = view.to_base(native)[1]
        assert canonical in found, (view.name, canonical, native, found)
        assert found[canonical] == given.get("const", found[canonical])
    for alias in given.get("aliases", ()):
        assert view.to_base({**least(view), alias: "text"})[1][canonical] == "text"
    return bool(params)


def test_older_names_of_tools_are_taken(shared: Path):
    rows: dict[str, dict[str, str]] = loads_object((shared / "facades" / "mapping.json").read_bytes())["input_aliases"]
    for facade in KIN:
        for old, new in rows.get(facade, {}).items():
            if new in views(facade):
                assert old in views(facade)[new].aliases


# ---- the way back

WORDS = st.text(min_size=1, max_size=12)
LINES = st.integers(1, 5000)


def some(needed: Arguments, **optional: Any) -> st.SearchStrategy[Arguments]:
    return st.fixed_dictionaries(needed, optional=optional)


def _ranged(arguments: Arguments) -> Arguments:
    first, last = arguments.get("start_line"), arguments.get("end_line")
    return {**arguments, "end_line": first + last} if first and last else arguments


READS = some({"path": WORDS}, start_line=LINES, end_line=st.integers(1, 999)).map(_ranged)
EDITS: Arguments = {"path": WORDS, "old": WORDS, "new": WORDS}
COUNT = st.sampled_from(["one", "all"])
SECONDS = st.integers(1, 300)
OPTION: Arguments = {"label": WORDS}
QUESTIONS = st.lists(
    some(
        {"question": WORDS, "options": st.lists(some(OPTION, description=WORDS), min_size=2, max_size=4)},
        header=WORDS,
        multi=st.just(True),
    ),
    min_size=1,
    max_size=4,
)


FREE = some({"question": WORDS, "kind": st.just("text")})


def items(*statuses: str) -> st.SearchStrategy[list[Arguments]]:
    return st.lists(some({"text": WORDS, "status": st.sampled_from(statuses)}), max_size=4)


CAN_SAY: dict[str, dict[str, st.SearchStrategy[Arguments]]] = {
    "qwen-code": {
        "read": READS,
        "write": some({"path": WORDS, "content": WORDS}),
        "edit": some(EDITS, count=COUNT, match=st.just("exact")),
        "grep": some(
            {"pattern": WORDS, "ignore_case": st.just(True)},
            path=WORDS,
            include_glob=WORDS,
            max_results=LINES,
            mode=st.just("content"),
            line_numbers=st.just(True),
        ),
        "glob": some({"pattern": WORDS}, path=WORDS, order=st.just("recent_first")),
        "list_dir": some(
            {"path": WORDS}, ignore=st.lists(WORDS), respect_gitignore=st.booleans(), respect_extra_ignore=st.booleans()
        ),
        "shell": some(
            {"command": WORDS}, cwd=WORDS, timeout=st.integers(1, 600_000).map(lambda ms: ms / 1000), background=st.booleans()
        ),
        "shell_kill": some({"handle": WORDS}),
        "web_open": some({"target": WORDS}, question=WORDS, format=st.sampled_from(["markdown", "html", "text"])),
        "web_search": some({"queries": st.lists(st.text(min_size=2), min_size=1, max_size=1)}),
        "todo": some({"items": items("pending", "in_progress", "completed")}),
        "ask_user": some({"questions": QUESTIONS}),
        "notebook_edit": some(
            {"path": WORDS},
            source=WORDS,
            cell_id=WORDS,
            cell_type=st.sampled_from(["code", "markdown"]),
            mode=st.sampled_from(["replace", "insert", "delete"]),
        ),
    },
    "kimi": {
        "read": READS | some({"path": WORDS, "tail_lines": st.integers(1, 1000)}, max_lines=st.integers(1, 1000)),
        "write": some({"path": WORDS, "content": WORDS}, mode=st.sampled_from(["overwrite", "append"])),
        "edit": some(EDITS, count=COUNT, match=st.just("exact")),
        "shell": some({"command": WORDS}, cwd=WORDS, timeout=SECONDS, description=WORDS, background=st.booleans()),
        "glob": some({"pattern": WORDS}, path=WORDS, respect_gitignore=st.booleans(), max_results=st.just(100)),
        "grep": some(
            {"pattern": WORDS},
            path=WORDS,
            include_glob=WORDS,
            file_type=WORDS,
            mode=st.sampled_from(["content", "files", "count"]),
            before=LINES,
            after=LINES,
            ignore_case=st.booleans(),
            multiline=st.booleans(),
            line_numbers=st.booleans(),
            max_results=LINES,
            skip=LINES,
            no_ignore=st.booleans(),
        ),
        "web_search": some({"queries": st.lists(WORDS, min_size=1, max_size=1)}),
        "web_open": some({"target": WORDS}),
        "todo": some({}, items=items("pending", "in_progress", "completed")),
        "view_image": some({"path": WORDS}),
        "ask_user": some({"questions": QUESTIONS}),
        "shell_output": some({"handle": WORDS}, wait=st.booleans()) | some({"handle": WORDS, "timeout": SECONDS}),
        "shell_kill": some({"handle": WORDS}),
        "shell_list": some({}),
    },
}


class TestTheWayBack:
    @pytest.mark.parametrize("facade", KIN)
    def test_all_base_tools_of_a_facade_are_tried(self, facade: str):
        assert set(CAN_SAY[facade]) == bases(find_facade(facade))

    @pytest.mark.parametrize(("facade", "base"), [(name, base) for name, row in CAN_SAY.items() for base in row])
    @settings(max_examples=25)
    @given(data=st.data())
    def test_what_a_view_can_say_comes_back_as_it_was(self, facade: str, base: str, data: st.DataObject):
        arguments = data.draw(CAN_SAY[facade][base])
        view = next(view for view in find_facade(facade).views if base in view.base_tools)
        said = view.from_base(base, arguments)
        assert said is not None
        native, losses = said
        assert losses == ()
        assert view.find_case(native).base == base
        again = view.to_base(native)[1]
        assert {name: again.get(name) for name in arguments} == arguments

    @pytest.mark.parametrize(
        ("facade", "base", "arguments", "lost"),
        [
            ("qwen-code", "read", {"path": "a", "tail_lines": 5}, ["tail_lines"]),
            ("qwen-code", "edit", {"path": "a", "old": "b", "new": "c", "count": 3}, ["count"]),
            ("qwen-code", "shell", {"command": "ls", "timeout": 900}, ["timeout"]),
            ("qwen-code", "grep", {"pattern": "x", "ignore_case": False}, ["ignore_case"]),
            ("qwen-code", "todo", {"items": [{"text": "a", "status": "blocked"}]}, ["items"]),
            ("qwen-code", "notebook_edit", {"path": "a", "cell_type": "raw"}, ["cell_type"]),
            ("kimi", "write", {"path": "a", "content": "b", "mode": "create_only"}, ["mode"]),
            ("kimi", "read", {"path": "a", "end_line": 4000}, ["end_line"]),
            ("kimi", "web_open", {"target": "https://a.example/", "start_line": 9}, ["start_line"]),
            ("kimi", "shell", {"command": "ls", "timeout": 900}, ["timeout"]),
            ("kimi", "shell", {"command": "ls", "timeout": 1.5}, ["timeout"]),
            ("kimi", "todo", {"items": [], "explanation": "why"}, ["explanation"]),
            ("kimi", "ask_user", {"questions": [{"question": "q", "kind": "yesno"}]}, ["questions"]),
        ],
    )
    def test_what_cannot_be_said_is_a_loss(self, facade: str, base: str, arguments: Arguments, lost: list[str]):
        view = next(view for view in find_facade(facade).views if base in view.base_tools)
        said = view.from_base(base, arguments)
        assert said is not None
        assert [loss.subject for loss in said[1]] == [f"parameter {name!r}" for name in lost]
        assert meaning_of(face(facade), ToolCall("c1", view.name, said[0])) is not None

    @pytest.mark.parametrize(
        ("facade", "base", "arguments"),
        [
            ("qwen-code", "web_search", {"queries": ["a", "b"]}),
            ("qwen-code", "todo", {}),
            ("qwen-code", "ask_user", {"questions": [{"question": "q", "kind": "text"}]}),
            ("qwen-code", "web_search", {"queries": ["x"]}),
            ("qwen-code", "web_open", {"target": ["https://a.example/", "https://b.example/"]}),
            ("qwen-code", "shell", {"restart": True}),
            ("kimi", "edit", {"path": "a", "old": "", "new": "b"}),
            ("kimi", "web_search", {"queries": ["a", "b"]}),
        ],
    )
    def test_what_cannot_be_said_at_all_is_told_under_our_own_name(self, facade: str, base: str, arguments: Arguments):
        call = ToolCall("c1", "Other", {}, base_call=BaseCall(base, arguments, "another"))
        shown = face(facade).render_message(Message("assistant", (call,)), is_own=False)
        assert [(one.name, one.arguments) for one in shown.calls] == [(base, arguments)]


# ---- what is said fits what is shown, in all facades

EMPTY = frozenset({"old", "new", "content", "source", "question", "header", "description", "explanation"})
FROM_ZERO = frozenset({"before", "after", "skip", "max_results", "after_line", "start_char", "limit"})
TEXTS = ("a", "b.txt", "src/", ".", "https://a.example/x", "w3", "7")
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "number": st.sampled_from([0.0001, 0.5, 1, 30, 600, 7200]),
    "boolean": st.booleans(),
    "null": st.none(),
}
OURS = ("claude-code", "claude-code-2.0", "anthropic-api", "agent-toolset", "gemini-cli", "gemini-cli-2", *KIN)


def base_schemas() -> dict[str, Arguments]:
    found = builtins(SNAPSHOTS, state_dir=SNAPSHOTS / "never")
    found.close()
    return {one.name: cast(Arguments, one.definition.parameters) for one in found.tools}


BASE_SCHEMAS = base_schemas()


def values(name: str, node: Arguments, defs: Arguments) -> st.SearchStrategy[Any]:
    """Values that a base tool takes, from one end of what it takes to the other."""
    if "$ref" in node:
        return values(name, defs[node["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in node:
        return st.one_of([values(name, one, defs) for one in node["anyOf"]])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    match node.get("type"):
        case "string":
            return st.sampled_from([*TEXTS, *([""] if name in EMPTY else [])])
        case "integer":
            return st.sampled_from([1, 2, 7, 500, 100_000, *([0] if name in FROM_ZERO else [])])
        case "array":
            return st.lists(values(name, node["items"], defs), min_size=1, max_size=5)
        case "object" if "properties" in node:
            parts = {one: values(one, schema, defs) for one, schema in node["properties"].items()}
            needed = {one: parts.pop(one) for one in node.get("required", ())}
            return st.fixed_dictionaries(needed, optional=parts)
        case "object":
            return st.dictionaries(st.sampled_from("ab"), st.just("x"))
        case kind:
            return SCALARS[str(kind)]


SAID = [
    (facade, view.name, base)
    for facade in FACADE_MODULES
    for view in find_facade(facade).views
    for base in sorted(view.base_tools)
    if not view.hidden
]


@pytest.mark.parametrize(("facade", "name", "base"), SAID)
def test_whatever_is_said_of_history_fits_what_the_model_is_shown(facade: str, name: str, base: str):
    view = next(view for view in find_facade(facade).views if view.name == name)
    schema, parameters = BASE_SCHEMAS[base], view.parameters or {}
    shown = SchemaBinder(parameters)

    @settings(max_examples=40)
    @given(values("", schema, schema.get("$defs", {})))
    def law(arguments: Arguments) -> None:
        said = view.from_base(base, arguments)
        if said is not None and parameters:
            assert shown.bind(said[0]) is not None, shown.find_issues(said[0])
            assert set(said[0]) <= set(parameters["properties"]) or facade not in OURS

    law()
