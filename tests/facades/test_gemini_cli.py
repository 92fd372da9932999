"""The tools as Gemini CLI shows them: what the model sees, and what its calls mean, both ways."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import ToolError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import facade_id_for_model, find_facade
from toolglot.facades.gemini_cli import DEFAULT_INSTRUCTION, MAX_URLS, TABLES
from toolglot.facades.view import Facade, View
from toolglot.jsontext import dumps_text, loads, loads_object
from toolglot.messages import ToolCall
from toolglot.schema.arguments import SchemaBinder

from .meaning import Meaning, meaning_of

Arguments = dict[str, Any]

SNAPSHOTS = Path(__file__).parent / "snapshots"
MODELS = {"gemini-cli": "gemini-3-pro-preview", "gemini-cli-2": "gemini-2.5-pro"}
WITHOUT_BASE = {"update_topic", "enter_plan_mode", "invoke_agent", "activate_skill"}
NOT_OBSERVED = {"ask_user", "shell_kill", "web_find"}
VIEWS = {view.name: view for view in find_facade("gemini-cli-2").views}
BASES = frozenset(base for view in VIEWS.values() for base in view.base_tools)


def bare(schema: Any) -> Any:
    """A schema without prose."""
    if isinstance(schema, list):
        return [bare(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in cast(Arguments, schema).items() if name != "description"}
    named = cast(Arguments, schema).get("properties")
    kept = {name: bare(value) for name, value in found.items() if name != "properties"}
    return kept if named is None else {**kept, "properties": {name: bare(one) for name, one in named.items()}}


def snapshot(facade: Facade) -> Arguments:
    return {view.name: bare(view.parameters) for view in facade.views if not view.hidden}


def meant(name: str, arguments: Arguments, facade: str = "gemini-cli-2") -> Meaning:
    found = meaning_of(BoundFacade(find_facade(facade), MODELS[facade], BASES), ToolCall("c1", name, arguments))
    assert found is not None
    return found


def refused(name: str, arguments: Arguments) -> str:
    with pytest.raises(ToolError) as caught:
        meant(name, arguments)
    assert caught.value.kind == "validation"
    return str(caught.value)


class TestWhatTheModelSees:
    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_each_tool_is_as_the_program_shows_it(self, facade: Facade, shared: Path):
        rows: list[Arguments] = loads_object((shared / "facades" / "observed.json").read_bytes())["observed"]
        tools = next(row["tools"] for row in rows if row["model"] == MODELS[facade.id])
        observed = {one["name"]: one["parameters"] for one in tools if one["name"] not in WITHOUT_BASE}
        own = snapshot(facade)
        assert {name: own[name] for name in own if name not in NOT_OBSERVED} == observed

    def test_the_tool_that_only_people_at_a_terminal_have_is_as_its_schema_says(self, shared: Path):
        tools = loads_object((shared / "facades" / "schemas" / "gemini-cli.json").read_bytes())["tools"]
        assert bare(VIEWS["ask_user"].parameters) == next(one["parameters"] for one in tools if one["name"] == "ask_user")

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_nothing_has_changed_unseen(self, facade: Facade):
        assert snapshot(facade) == loads((SNAPSHOTS / f"{facade.id}.json").read_bytes())

    def test_only_older_models_keep_a_list(self):
        newer, older = ({*snapshot(find_facade(name))} for name in MODELS)
        assert older - newer == {"write_todos"}
        assert newer < older

    def test_a_list_of_a_newer_model_is_understood_all_the_same(self):
        assert meant("write_todos", ALL["write_todos"], "gemini-cli").tool == "todo"
        assert "write_todos" not in {
            one.name for one in BoundFacade(find_facade("gemini-cli"), "gemini-3-pro", BASES).definitions
        }

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_each_model_has_its_facade(self, facade: Facade):
        assert facade_id_for_model(MODELS[facade.id]) == facade.id

    @pytest.mark.parametrize("facade", TABLES, ids=lambda one: one.id)
    def test_the_note_names_only_tools_that_there_are(self, facade: Facade):
        words = {word.strip(".,;<>") for word in facade.note.split()}
        own = {*snapshot(facade)} | {"old_string", "is_background", "untrusted_context"}
        assert {word for word in words if "_" in word} <= own
        assert ("write_todos" in words) is ("write_todos" in own)

    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    def test_every_tool_says_what_it_does(self, view: View):
        assert view.description.endswith(".")


# ---- the way in

ALL: dict[str, Arguments] = {
    "read_file": {"file_path": "a", "start_line": 2, "end_line": 3},
    "write_file": {"file_path": "a", "content": "b"},
    "replace": {"file_path": "a", "instruction": "why", "old_string": "b", "new_string": "c", "allow_multiple": True},
    "run_shell_command": {
        "command": "ls",
        "description": "lists",
        "dir_path": "a",
        "is_background": True,
        "delay_ms": 1500,
    },
    "list_background_processes": {},
    "read_background_output": {"pid": 7, "lines": 5, "delay_ms": 250},
    "grep_search": {
        "pattern": "a",
        "dir_path": "b",
        "include_pattern": "*.py",
        "exclude_pattern": "c",
        "names_only": True,
        "case_sensitive": True,
        "fixed_strings": True,
        "before": 1,
        "after": 2,
        "no_ignore": True,
        "max_matches_per_file": 3,
        "total_max_matches": 4,
    },
    "glob": {
        "pattern": "*",
        "dir_path": "a",
        "case_sensitive": True,
        "respect_git_ignore": False,
        "respect_gemini_ignore": False,
    },
    "list_directory": {
        "dir_path": "a",
        "ignore": ["b"],
        "file_filtering_options": {"respect_git_ignore": False, "respect_gemini_ignore": True},
    },
    "google_web_search": {"query": "a b"},
    "web_fetch": {"prompt": "compare https://a.test/x and https://b.test/y"},
    "write_todos": {"todos": [{"description": "a", "status": "blocked"}]},
    "ask_user": {
        "questions": [
            {
                "question": "a?",
                "header": "b",
                "type": "choice",
                "options": [{"label": "c", "description": "d"}, {"label": "e", "description": "f"}],
                "multiSelect": True,
                "placeholder": "g",
            }
        ]
    },
}
MEANT: dict[str, tuple[str, Arguments]] = {
    "read_file": ("read", {"path": "a", "start_line": 2, "end_line": 3}),
    "write_file": ("write", {"path": "a", "content": "b", "mode": "overwrite"}),
    "replace": ("edit", {"path": "a", "old": "b", "new": "c", "count": "all", "instruction": "why", "match": "tolerant"}),
    "run_shell_command": (
        "shell",
        {
            "command": "ls",
            "description": "lists",
            "cwd": "a",
            "background": True,
            "yield_after": 1.5,
            "inactivity_timeout": 300,
            "max_output": 40_000,
            "head_share": 0.2,
        },
    ),
    "list_background_processes": ("shell_list", {}),
    "read_background_output": ("shell_output", {"handle": "7", "tail_lines": 5, "wait_first": 0.25, "head_share": 0.0}),
    "grep_search": (
        "grep",
        {
            "pattern": "a",
            "path": "b",
            "include_glob": "*.py",
            "exclude_line_regex": "c",
            "mode": "files",
            "ignore_case": False,
            "literal": True,
            "before": 1,
            "after": 2,
            "no_ignore": True,
            "max_per_file": 3,
            "max_results": 4,
            "auto_context": True,
            "line_numbers": True,
        },
    ),
    "glob": (
        "glob",
        {
            "pattern": "*",
            "path": "a",
            "case_sensitive": True,
            "respect_gitignore": False,
            "respect_extra_ignore": False,
            "order": "recent_first",
            "max_results": 1000,
        },
    ),
    "list_directory": (
        "list_dir",
        {"path": "a", "ignore": ["b"], "respect_gitignore": False, "respect_extra_ignore": True},
    ),
    "google_web_search": ("web_search", {"queries": ["a b"]}),
    "web_fetch": (
        "web_open",
        {"target": ["https://a.test/x", "https://b.test/y"], "question": "compare https://a.test/x and https://b.test/y"},
    ),
    "write_todos": ("todo", {"items": [{"text": "a", "status": "blocked"}]}),
    "ask_user": (
        "ask_user",
        {
            "questions": [
                {
                    "question": "a?",
                    "header": "b",
                    "kind": "choice",
                    "options": [{"label": "c", "description": "d"}, {"label": "e", "description": "f"}],
                    "multi": True,
                }
            ]
        },
    ),
}
OLDER = [
    ("search_file_content", {"pattern": "a", "include": "*.py"}, {"include_glob": "*.py"}),
    ("grep_search", {"pattern": "a", "path": "b"}, {"path": "b"}),
    ("glob", {"pattern": "a", "path": "b"}, {"path": "b"}),
    ("run_shell_command", {"command": "ls", "directory": "b"}, {"cwd": "b"}),
    ("read_file", {"file_path": "a", "offset": 10, "limit": 5}, {"start_line": 11, "end_line": 15}),
    ("read_file", {"file_path": "a", "limit": 5}, {"end_line": 5}),
    (
        "replace",
        {"file_path": "a", "instruction": "", "old_string": "b", "new_string": "c", "expected_replacements": 3},
        {"count": 3},
    ),
]
INSTEAD = [
    ("read_file", {"absolute_path": "/a"}, {"path": "/a"}),
    ("read_file", {"path": "a"}, {"path": "a"}),
    ("write_file", {"path": "a", "content": "b"}, {"path": "a"}),
    ("list_directory", {"path": "a"}, {"path": "a"}),
    ("web_fetch", {"url": "https://a.test/x"}, {"target": "https://a.test/x"}),
]


def names_in(value: Any) -> set[str]:
    """All names in a document."""
    if isinstance(value, list):
        return {name for one in cast(list[Any], value) for name in names_in(one)}
    if not isinstance(value, dict):
        return set()
    named = cast(Arguments, value)
    return {*named, *(name for one in named.values() for name in names_in(one))}


class TestWhatCallsMean:
    @pytest.mark.parametrize("name", ALL)
    def test_every_parameter_has_its_meaning(self, name: str):
        found = meant(name, ALL[name])
        assert (found.tool, found.arguments) == MEANT[name]
        assert not found.repairs

    def test_no_mapping_is_left_out(self, shared: Path):
        rows = loads_object((shared / "facades" / "mapping.json").read_bytes())["map"]
        seen = 0
        for capability, harnesses in rows.items():
            for row, parameters in harnesses.items():
                harness, _, name = row.partition(".")
                if harness == "gemini-cli":
                    tool, arguments = MEANT[name.removesuffix("(direct)")]
                    assert (tool, set(parameters) - names_in(arguments)) == (capability, set())
                    seen += 1
        assert seen == len(ALL) + 1

    @pytest.mark.parametrize(("name", "arguments", "expected"), OLDER)
    def test_older_names_are_understood(self, name: str, arguments: Arguments, expected: Arguments):
        found = meant(name, arguments)
        assert found.arguments.items() >= expected.items()
        assert not found.repairs

    @pytest.mark.parametrize(("name", "arguments", "expected"), INSTEAD)
    def test_an_older_name_does_for_a_parameter_that_must_be_there(self, name: str, arguments: Arguments, expected: Arguments):
        assert meant(name, arguments).arguments.items() >= expected.items()

    @pytest.mark.parametrize(
        ("name", "arguments", "expected"),
        [
            ("grep_search", {"pattern": "a"}, {"ignore_case": True, "max_results": 100, "mode": "content"}),
            ("grep_search", {"pattern": "a", "context": 4, "before": 1}, {"before": 1, "after": 4}),
            ("glob", {"pattern": "a"}, {"case_sensitive": False}),
            ("run_shell_command", {"command": "ls"}, {"cwd": "."}),
            ("run_shell_command", {"command": "ls", "is_background": True, "delay_ms": -5}, {"yield_after": 0}),
            ("read_file", {"file_path": "a", "start_line": 3, "offset": 7}, {"start_line": 3}),
            ("read_background_output", {"pid": 3}, {"handle": "3", "tail_lines": 100}),
            ("replace", {"file_path": "a", "instruction": "i", "old_string": "", "new_string": "c"}, {"count": "one"}),
        ],
    )
    def test_what_is_not_said_is_as_the_harness_has_it(self, name: str, arguments: Arguments, expected: Arguments):
        assert meant(name, arguments).arguments.items() >= expected.items()

    def test_a_delay_is_for_background_processes_only(self):
        assert "yield_after" not in meant("run_shell_command", {"command": "ls", "delay_ms": 5}).arguments

    def test_a_question_without_options_has_none(self):
        one: Arguments = {"question": "a?", "header": "b", "type": "text", "options": [], "multiSelect": False}
        assert meant("ask_user", {"questions": [one]}).arguments == {
            "questions": [{"question": "a?", "header": "b", "kind": "text"}]
        }

    @pytest.mark.parametrize("name", ALL)
    def test_a_parameter_that_there_is_not_is_left_out_and_told(self, name: str):
        found = meant(name, {**ALL[name], "thoroughness": "high"})
        assert found.arguments == MEANT[name][1]
        assert [repair.subject for repair in found.repairs] == ["parameter 'thoroughness'"]

    @pytest.mark.parametrize("name", ALL)
    def test_a_parameter_without_meaning_is_left_out_quietly(self, name: str):
        found = meant(name, {**ALL[name], "wait_for_previous": True})
        assert (found.arguments, found.repairs) == (MEANT[name][1], ())

    @pytest.mark.parametrize(
        ("name", "missing"), [(name, one) for name in ALL for one in (VIEWS[name].parameters or {}).get("required", ())]
    )
    def test_what_is_missing_is_named_as_the_model_knows_it(self, name: str, missing: str):
        told = refused(name, {one: value for one, value in ALL[name].items() if one != missing})
        assert name in told
        assert missing in told

    def test_what_is_wrong_is_named_as_the_model_knows_it(self):
        told = refused("read_file", {"file_path": "a", "start_line": "the first"})
        assert "read_file" in told
        assert "start_line" in told

    @pytest.mark.parametrize(
        "line", ["// ... rest of the code ...", "# ... existing code ...", "    /* ... other methods unchanged ... */"]
    )
    def test_a_file_is_not_written_with_text_left_out(self, line: str):
        told = refused("write_file", {"file_path": "a", "content": f"one\n{line}\ntwo"})
        why = f"write_file: 'content' has the line {line.strip()!r}, which stands for text that is not there"
        assert told == f"{why}: write all of the file"

    @pytest.mark.parametrize("line", ["...", "print('...')", "# the rest of the world", "…"])
    def test_dots_alone_leave_nothing_out(self, line: str):
        assert meant("write_file", {"file_path": "a", "content": f"one\n{line}\n"}).arguments["content"] == f"one\n{line}\n"

    def test_a_number_in_quotes_is_mended(self):
        found = meant("read_file", {"file_path": "a", "start_line": "3"})
        assert found.arguments["start_line"] == 3
        assert found.repairs


class TestAddresses:
    @pytest.mark.parametrize(
        ("prompt", "target"),
        [
            ("https://a.test/x", "https://a.test/x"),
            ("Read https://a.test/x, please.", "https://a.test/x"),
            ("(see http://a.test/x)", "http://a.test/x"),
            ("https://a.test/x_(y) is it", "https://a.test/x_(y)"),
            ("[page](https://a.test/x?a=1&b=2#c)", "https://a.test/x?a=1&b=2#c"),
            ("both <https://a.test> and `https://b.test`", ["https://a.test", "https://b.test"]),
            ("https://a.test twice: https://a.test", "https://a.test"),
            ("https://github.com/o/r/blob/main/a/b.py", "https://raw.githubusercontent.com/o/r/main/a/b.py"),
        ],
    )
    def test_they_are_found_in_words(self, prompt: str, target: Any):
        assert meant("web_fetch", {"prompt": prompt}).arguments["target"] == target

    def test_no_more_than_the_harness_takes(self):
        prompt = " ".join(f"https://a.test/{number}" for number in range(30))
        found = meant("web_fetch", {"prompt": prompt}).arguments["target"]
        assert found == [f"https://a.test/{number}" for number in range(MAX_URLS)]

    @pytest.mark.parametrize("prompt", ["", "what is new?", "ftp://a.test/x", "www.a.test"])
    def test_a_prompt_without_one_is_refused(self, prompt: str):
        told = refused("web_fetch", {"prompt": prompt})
        assert "web_fetch" in told
        assert "prompt" in told


# ---- there and back

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
counts = st.integers(1, 5000)
pages = st.sampled_from(["https://a.test/x", "http://b.test", "https://c.test/p_(q)?r=s"])
statuses = st.sampled_from(["pending", "in_progress", "completed", "cancelled", "blocked"])
yes = st.booleans()


def some(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Arguments]:
    return st.fixed_dictionaries(cast(Any, required), optional=cast(Any, optional))


def fetches() -> st.SearchStrategy[Arguments]:
    one = pages.map(lambda page: {"target": page})
    many = st.lists(pages, min_size=2, max_size=3, unique=True).map(lambda found: {"target": found})
    asked = pages.map(lambda page: {"target": page, "question": f"What does {page} say?"})
    return one | many | asked


def questions() -> st.SearchStrategy[Arguments]:
    option = some({"label": words, "description": words})
    choice = some({"question": words, "header": words, "options": st.lists(option, min_size=2, max_size=4), "multi": yes})
    free = some({"question": words, "header": words, "kind": st.sampled_from(["text", "yesno"])})
    chosen = choice.map(lambda one: {**one, "kind": "choice"})
    return st.lists(chosen | free, min_size=1, max_size=4).map(lambda found: {"questions": found})


SAYABLE: dict[str, st.SearchStrategy[Arguments]] = {
    "read": some({"path": words}, start_line=counts, end_line=counts),
    "write": some({"path": words, "content": words}),
    "edit": some(
        {"path": words, "old": words, "new": words},
        count=st.sampled_from(["one", "all"]),
        instruction=words,
        match=st.just("tolerant"),
    ),
    "grep": some(
        {"pattern": words},
        path=words,
        include_glob=words,
        exclude_line_regex=words,
        mode=st.sampled_from(["content", "files"]),
        ignore_case=yes,
        literal=yes,
        before=counts,
        after=counts,
        no_ignore=yes,
        max_per_file=counts,
        max_results=counts,
    ),
    "glob": some({"pattern": words}, path=words, case_sensitive=yes, respect_gitignore=yes, respect_extra_ignore=yes),
    "list_dir": some({}, path=words, ignore=st.lists(words), respect_gitignore=yes, respect_extra_ignore=yes),
    "shell": some({"command": words}, description=words, cwd=words, background=yes)
    | some({"command": words, "background": st.just(True), "yield_after": counts.map(lambda value: value / 1000)}),
    "shell_output": some({"handle": counts.map(str)}, tail_lines=counts, wait_first=counts.map(lambda value: value / 1000)),
    "shell_kill": some({"handle": counts.map(str)}),
    "shell_list": st.just({}),
    "web_search": words.map(lambda query: {"queries": [query]}),
    "web_open": fetches(),
    "web_find": some({"target": words, "pattern": words}),
    "todo": st.lists(some({"text": words, "status": statuses})).map(lambda items: {"items": items}),
    "ask_user": questions(),
}
LOST: list[tuple[str, Arguments, str]] = [
    ("read", {"path": "a", "tail_lines": 3}, "tail_lines"),
    ("write", {"path": "a", "content": "b", "mode": "append"}, "mode"),
    ("edit", {"path": "a", "old": "b", "new": "c", "count": 3}, "count"),
    ("edit", {"path": "a", "old": "b", "new": "c", "match": "exact"}, "match"),
    ("grep", {"pattern": "a", "mode": "count"}, "mode"),
    ("grep", {"pattern": "a", "max_results": 0}, "max_results"),
    ("glob", {"pattern": "a", "max_results": 5}, "max_results"),
    ("list_dir", {"depth": 3}, "depth"),
    ("shell", {"command": "ls", "stdin": "x"}, "stdin"),
    ("shell", {"command": "ls", "timeout": 5}, "timeout"),
    ("shell", {"command": "ls", "yield_after": 5}, "yield_after"),
    ("shell_output", {"handle": "1", "input": "y\n"}, "input"),
    ("web_search", {"queries": ["a", "b"]}, "queries"),
    ("web_open", {"target": "https://a.test", "start_line": 3}, "start_line"),
    ("web_open", {"target": "https://a.test", "question": "why?"}, "question"),
    ("todo", {"items": [{"text": "a", "status": "pending", "id": "x"}]}, "items"),
    ("ask_user", {"questions": [{"question": "a?", "kind": "text", "id": "x"}]}, "questions"),
]
BY_BASE = {base: view for view in VIEWS.values() for base in view.base_tools}


class TestThereAndBack:
    def test_every_view_is_tried(self):
        assert set(SAYABLE) == set(BY_BASE)

    @pytest.mark.parametrize("base", SAYABLE)
    def test_what_can_be_said_comes_back_the_same(self, base: str):
        view = BY_BASE[base]
        shown = SchemaBinder(view.parameters or {})

        @given(SAYABLE[base])
        def there_and_back(arguments: Arguments):
            found = view.from_base(base, arguments)
            assert found is not None
            native, losses = found
            assert not losses
            assert shown.bind(native) is not None, shown.find_issues(native)
            tool, again = view.to_base(native)
            assert tool == base
            assert again.items() >= arguments.items() if base not in ("todo", "ask_user") else again == arguments

        there_and_back()

    @pytest.mark.parametrize(("base", "arguments", "lost"), LOST)
    def test_what_cannot_be_said_is_told(self, base: str, arguments: Arguments, lost: str):
        view = BY_BASE[base]
        found = view.from_base(base, arguments)
        assert found is not None
        assert [loss.subject for loss in found[1]] == [f"parameter {lost!r}"]
        assert SchemaBinder(view.parameters or {}).bind(found[0]) is not None

    @pytest.mark.parametrize(
        ("base", "arguments"),
        [
            *(("shell", {"restart": True}), ("shell", {"argv": ["ls"]}), ("shell_kill", {"handle": "x1"})),
            *(("web_open", {"target": "w3"}), ("todo", {}), ("ask_user", {"questions": [{"question": "q"}] * 5})),
        ],
    )
    def test_what_has_no_words_at_all_is_not_said(self, base: str, arguments: Arguments):
        assert BY_BASE[base].from_base(base, arguments) is None

    @pytest.mark.parametrize(("lines", "last"), [({"max_lines": 4}, 4), ({"start_line": 3, "max_lines": 4}, 6)])
    def test_a_number_of_lines_is_said_as_the_last_one(self, lines: Arguments, last: int):
        native, losses = VIEWS["read_file"].from_base("read", {"path": "a", **lines}) or ({}, ())
        assert (native["end_line"], losses) == (last, ())

    def test_an_edit_without_a_reason_gets_one_that_means_nothing(self):
        native, _ = VIEWS["replace"].from_base("edit", {"path": "a", "old": "b", "new": "c"}) or ({}, ())
        assert native["instruction"] == DEFAULT_INSTRUCTION
        assert "instruction" not in VIEWS["replace"].to_base(native)[1]

    @pytest.mark.parametrize("name", MEANT)
    def test_an_older_name_is_never_said(self, name: str):
        found = VIEWS[name].from_base(*MEANT[name])
        assert found is not None
        assert not set(found[0]) & set(VIEWS[name].accepts)
        assert found[0].keys() <= cast(Arguments, VIEWS[name].parameters)["properties"].keys()


def write_snapshots() -> None:
    """Run this file to accept what is shown now."""
    for facade in TABLES:
        (SNAPSHOTS / f"{facade.id}.json").write_text(dumps_text(snapshot(facade)) + "\n")


if __name__ == "__main__":
    write_snapshots()
