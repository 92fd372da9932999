"""What native calls mean, in every facade: the scenarios, and laws that hold for all tools."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.common.jsontext import loads_object
from toolglot.errors import ToolError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import find_facade
from toolglot.facades.gemini_cli import MAX_URLS
from toolglot.facades.gpt.patches import extract_patch
from toolglot.facades.view import View
from toolglot.schema.arguments import SchemaBinder, make_example

from .scenarios import IDS, VISIBLE, Arguments, base_schemas, interpret, load, scenarios, view_of

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n*** End Patch"
FUNCTIONS = [(facade_id, view) for facade_id, view in VISIBLE if view.kind == "function"]
FUNCTION_IDS = [name for name, (_, view) in zip(IDS, VISIBLE, strict=True) if view.kind == "function"]


@pytest.mark.parametrize(("facade_id", "scenario"), scenarios("interpret"))
def test_a_native_call_is_one_base_call(facade_id: str, scenario: Arguments) -> None:
    tool, arguments, repairs = interpret(facade_id, *scenario["interpret"])
    assert [tool, arguments] == scenario["base"]
    assert [subject for subject in repairs if "colour" in subject] == []
    assert SchemaBinder({**base_schemas()[tool], "additionalProperties": True}).bind(arguments) is not None


@pytest.mark.parametrize(("facade_id", "scenario"), scenarios("invalid"))
def test_an_invalid_call_is_explained_in_native_terms(facade_id: str, scenario: Arguments) -> None:
    with pytest.raises(ToolError) as caught:
        interpret(facade_id, *scenario["invalid"])
    assert caught.value.kind == "validation"
    assert all(text in str(caught.value) for text in scenario["mentions"]), str(caught.value)


def example(view: View) -> Arguments:
    """A call with the required parameters, of a tool that needs more than its schema says."""
    extra = {
        "bash": {"command": "ls"},
        "update_plan": {"plan": [{"step": "look", "status": "pending"}]},
        "TaskStop": {"task_id": "1"},
        "run": {"find": [{"ref_id": "w1", "pattern": "x"}]},
        "web_fetch": {"prompt": "https://a.test/"},
    }
    needed = make_example(view.parameters or {})
    properties = (view.parameters or {})["properties"]
    return {**needed, **{key: value for key, value in extra.get(view.name, {}).items() if key in properties}}


@pytest.mark.parametrize(("facade_id", "view"), FUNCTIONS, ids=FUNCTION_IDS)
def test_an_unknown_parameter_is_dropped_with_a_repair_unless_the_harness_refuses_it(
    facade_id: str, view: View
) -> None:
    plain = interpret(facade_id, view.name, example(view))
    if find_facade(facade_id).refuses_unknown_parameters:
        with pytest.raises(ToolError, match="colour: is not a parameter"):
            interpret(facade_id, view.name, {**example(view), "colour": "red"})
        return
    tool, arguments, repairs = interpret(facade_id, view.name, {**example(view), "colour": "red"})
    assert (tool, arguments) == plain[:2]
    assert repairs == [*plain[2], "parameter 'colour'"]


@pytest.mark.parametrize(("facade_id", "view"), FUNCTIONS, ids=FUNCTION_IDS)
def test_a_missing_or_wrong_parameter_is_named_with_its_tool(facade_id: str, view: View) -> None:
    required = (view.parameters or {}).get("required", ())
    for name in required:
        wrong = {**example(view), name: {"what": [1]}}
        with pytest.raises(ToolError, match=f"(?s){view.name}.*{name}"):
            interpret(facade_id, view.name, wrong)
        optional = view.required_schema is not None and name not in str(view.required_schema)
        if not optional:
            missing = {key: value for key, value in example(view).items() if key != name}
            with pytest.raises(ToolError, match=f"(?s){view.name}.*{name}") as caught:
                interpret(facade_id, view.name, missing)
            assert caught.value.kind == "validation"
            if view.required_schema is None and name not in view.aliases_for:
                assert [issue.path for issue in caught.value.details] == [f"$.{name}"]


@pytest.mark.parametrize("name", ["read_file", "glob", "list_background_processes"])
def test_gemini_may_wait_for_the_previous_call(name: str) -> None:
    call = example(view_of("gemini-cli", name))
    assert interpret("gemini-cli", name, {**call, "wait_for_previous": True}) == interpret(
        "gemini-cli", name, call
    )


def test_nearly_right_names_and_values_are_repaired() -> None:
    edit = {"filePath": "a", "oldString": "b", "new_string": "c", "replace_all": "true"}
    tool, arguments, repairs = interpret("claude-code", "Edit", edit)
    expected = {"path": "a", "old": "b", "new": "c", "count": "all", "match": "exact", "read_first": "none"}
    assert (tool, arguments) == ("edit", expected)
    assert repairs
    _, arguments, repairs = interpret("gemini-cli", "read_file", {"file_path": "a", "start_line": "3"})
    assert arguments["start_line"] == 3
    assert repairs


@pytest.mark.parametrize(("facade_id", "name"), [("claude-code", "Read"), ("qwen-code", "read_file")])
def test_a_read_has_at_least_one_line(facade_id: str, name: str) -> None:
    offset = {"claude-code": 3, "qwen-code": 2}[facade_id]  # Qwen Code counts lines from 0
    call = {"file_path": "/a", "offset": offset}
    _, arguments, _ = interpret(facade_id, name, {**call, "limit": 1})
    assert (arguments["start_line"], arguments["end_line"]) == (3, 3)
    with pytest.raises(ToolError, match=f"(?s){name}.*limit"):
        interpret(facade_id, name, {**call, "limit": 0})


def test_gemini_opens_at_most_twenty_pages() -> None:
    urls = [f"https://a.test/{number}" for number in range(30)]
    assert interpret("gemini-cli", "web_fetch", {"prompt": " ".join(urls)})[1]["target"] == urls[:MAX_URLS]


# ---- the table of what corresponds

HARNESSES = {
    "claude-code": ("claude-code", "claude-code-4.5", "claude-code-2.1", "claude-code-2.0"),
    "anthropic-api": ("anthropic-api", "agent-toolset"),
    "gemini-cli": ("gemini-cli-2",),
    "codex": (
        "codex",
        "codex-code-mode",
        "codex-0.142",
        "codex-oss",
        "codex-shell",
        "codex-shell-command",
        "openai",
    ),
    "openai-api": ("openai", "codex-shell"),
    "qwen-code": ("qwen-code",),
    "kimi": ("kimi",),
}
RETIRED = {"codex": {"read_file", "grep_files", "list_dir"}, "claude-code": {"BashOutput"}}
"""Names that no observed version of the program knows beside its own."""
RENAMED = {"web_click": "web_open", "local_shell": "shell", "web.run": "run"}


def mapped_tools(shared: Path) -> Iterator[tuple[str, tuple[str, ...], str, Arguments]]:
    """Each row of the table: its base tool, the facades that have the harness, the native tool, its
    parameters.
    """
    for capability, harnesses in loads_object((shared / "facades" / "mapping.json").read_bytes())[
        "map"
    ].items():
        for key, row in harnesses.items():
            harness, _, tool = key.partition(".")
            name: str = re.split(r"[\[(]", tool)[0]
            if name in RETIRED.get(harness, ()):
                continue
            if facade_ids := HARNESSES.get(harness, ()):
                yield RENAMED.get(str(capability), str(capability)), facade_ids, RENAMED.get(name, name), row


def test_the_scenarios_cover_every_mapping(shared: Path) -> None:
    compared = 0
    for base, facade_ids, name, _ in mapped_tools(shared):
        records = [(facade_id, record) for facade_id in facade_ids for record in load(facade_id)]
        covered = {
            (tool, record["base"][0])
            for facade_id, record in records
            if "interpret" in record
            for view in [view_of(facade_id, record["interpret"][0])]
            for tool in (view.name, *view.aliases)
        }
        covered |= {
            (record["tool"], record["expressible"]) for _, record in records if "expressible" in record
        }
        assert (name, base) in covered
        compared += 1
    assert compared > 80


def test_every_mapped_parameter_is_accepted(shared: Path) -> None:
    for _, facade_ids, name, row in mapped_tools(shared):
        accepted = {
            word
            for facade_id in facade_ids
            for view in find_facade(facade_id).views
            if name in (view.name, *view.aliases)
            for word in re.findall(r"'([^']+)':", str(view.accepted_schema))
        }
        for target in (value for key, value in row.items() if key != "same_as" and accepted):
            param: Any = cast(Arguments, target).get("param", []) if isinstance(target, dict) else target
            names: list[str] = [param] if isinstance(param, str) else param
            assert {parameter.rpartition(".")[2] for parameter in names} <= accepted, name


def test_every_older_name_is_an_alias(shared: Path) -> None:
    for harness, aliases in loads_object((shared / "facades" / "mapping.json").read_bytes())[
        "input_aliases"
    ].items():
        known = {
            alias
            for facade_id in HARNESSES[harness]
            for view in find_facade(facade_id).views
            for alias in view.aliases
        }
        older = {old for old, new in aliases.items() if new not in ("Agent", "agent")}
        assert older - RETIRED.get(harness, set()) <= known, harness


# ---- patches as commands


@pytest.mark.parametrize("command", [
    f"apply_patch <<'EOF'\n{PATCH}\nEOF", f'applypatch <<"X"\n{PATCH}\nX\n', "  apply_patch << "
                                                                             f"EOF\n{PATCH}\nEOF\n\n",
    f"cd . && apply_patch <<EOF\n{PATCH}\nEOF", f"apply_patch '{PATCH}'", PATCH, "apply_patch "
                                                                                 f"<<-EOF\n\t{PATCH}\n\tEOF",
    ["apply_patch", PATCH], ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"],
])  # fmt: skip
@pytest.mark.parametrize(
    ("facade_id", "name"), [("codex", "exec_command"), ("codex-shell", "shell"), ("codex-oss", "shell")]
)
def test_a_command_that_is_nothing_but_a_patch_is_the_patch(
    facade_id: str, name: str, command: str | list[str]
) -> None:
    tool, arguments, _ = interpret(facade_id, name, {"cmd" if name == "exec_command" else "command": command})
    assert (tool, arguments["text"].strip()) == ("patch", PATCH)


@pytest.mark.parametrize("command", [
    "ls", "apply_patch", "apply_patch < a.patch", f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm -rf src",
    f"apply_patch <<'EOF' && ls\n{PATCH}\nEOF", f"ls && apply_patch <<'EOF'\n{PATCH}\nEOF",
    "apply_patch <<'EOF'\nno patch\nEOF", f"cd $HOME && apply_patch <<'EOF'\n{PATCH}\nEOF", "apply_patch 'a",
    f"cd - && apply_patch <<'EOF'\n{PATCH}\nEOF", f"cat <<'EOF'\n{PATCH}\nEOF",
])  # fmt: skip
def test_any_other_command_is_a_command(command: str) -> None:
    assert extract_patch(command) is None
    assert interpret("codex", "exec_command", {"cmd": command})[0] == "shell"


def test_paths_of_a_patch_are_relative_to_where_the_command_runs() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-*** Add File: x\n+y\n*** Delete "
        "File: "
        "/z\n*** End Patch"
    )
    command = f"cd 'my src' && apply_patch <<EOF\n{patch}\nEOF"
    _, arguments, _ = interpret("codex", "exec_command", {"cmd": command, "workdir": "app"})
    assert arguments["text"] == patch.replace("File: a", "File: app/my src/a").replace(
        "to: b", "to: app/my src/b"
    )


@given(st.text(), st.lists(st.text(), max_size=3))
def test_no_command_breaks_the_search_for_a_patch(line: str, argv: list[str]) -> None:
    assert extract_patch(line) is None or "*** Begin Patch" in line
    assert extract_patch(argv) is None


def test_free_text_is_the_patch() -> None:
    assert interpret("codex", "apply_patch", None, PATCH)[:2] == ("patch", {"text": PATCH})


def test_a_view_is_available_only_with_the_base_tool_of_its_visible_form() -> None:
    facade = BoundFacade(find_facade("claude-code"), "claude-x", ["web_open", "multi_edit", "view_image"])
    assert [view.name for view in facade.views] == ["WebFetch"]
