"""What a model sees of each facade: names, types and required parameters as the real program shows them, and
descriptions.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from toolglot.common.jsontext import loads_object
from toolglot.facades.catalog import BASE_TOOLS, facade_id_for_model, find_facade
from toolglot.facades.gpt.patches import GRAMMAR
from toolglot.facades.view import View

from .scenarios import FACADES, HERE, IDS, MODELS, VISIBLE, Arguments, bind, view_of, without_prose

# Tools of the programs for which there is no base tool.
UNSUPPORTED = {
    *(
        "Agent",
        "Task",
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterWorktree",
        "ExitWorktree",
        "ReportFindings",
    ),
    *("ScheduleWakeup", "SendMessage", "SlashCommand", "Workflow", "ExitPlanMode"),
    *(
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "update_topic",
        "enter_plan_mode",
        "invoke_agent",
        "activate_skill",
    ),
    *(
        "get_goal",
        "create_goal",
        "update_goal",
        "list_mcp_resources",
        "list_mcp_resource_templates",
        "read_mcp_resource",
    ),
}
# What we show beside what the program was observed to show; activate_skill names the installed skills there.
ADDED = {
    "claude-code-2.1": {"Grep", "Glob", "AskUserQuestion"},
    "claude-code-2.0": {"AskUserQuestion"},
    "gemini-cli": {"ask_user", "activate_skill", "shell_kill", "web_find"},
    "gemini-cli-2": {"ask_user", "activate_skill", "shell_kill", "web_find"},
    "codex": {"run", "shell_kill"},
    "codex-shell-command": {"web_search"},
    "codex-shell": {"web_search"},
}
OLDER = ("neutral", "claude-code-2.0")  # which no model sees by default
OBSERVED = [
    ("claude-code-2.1", "claude-code", "claude-opus-4-8"),
    ("claude-code-2.0", "claude-code", "claude-sonnet-4-5-20250929"),
    *((facade_id, "gemini-cli", MODELS[facade_id]) for facade_id in ("gemini-cli", "gemini-cli-2")),
    *((facade_id, "codex", MODELS[facade_id]) for facade_id in ("codex", "codex-shell")),
    *(("codex-shell-command", "codex", model) for model in ("gpt-5.2", "gpt-5.1-codex-max")),
]


def snapshot(facade_id: str) -> Arguments:
    return {view.name: without_prose(view.parameters) for view in bind(facade_id).views}


def list_tools(path: Path) -> list[Arguments]:
    return loads_object(path.read_bytes())["tools"]


@pytest.mark.parametrize(("facade_id", "program", "model"), OBSERVED)
def test_a_tool_is_as_the_program_shows_it(facade_id: str, program: str, model: str, shared: Path) -> None:
    rows: list[Arguments] = loads_object((shared / "facades" / "observed.json").read_bytes())["observed"]
    tools: list[Arguments] = next(
        row["tools"] for row in rows if row["program"] == program and row["model"] == model
    )
    observed = {
        tool["name"]: without_prose(tool.get("parameters"))
        for tool in tools
        if tool.get("name", "Agent") not in UNSUPPORTED
    }
    ours = snapshot(facade_id)
    assert {name: ours.get(name) for name in observed} == observed
    assert set(ours) - set(observed) == ADDED[facade_id]
    freeform = {view.name for view in find_facade(facade_id).views if view.kind == "freeform"}
    assert {tool["name"] for tool in tools if tool.get("type") == "custom"} == freeform


@pytest.mark.parametrize(("facade_id", "source", "names"), [
    ("claude-code", "claude-code", ADDED["claude-code-2.1"] | {"TaskStop", "Bash"}),
    ("anthropic-api", "anthropic-api", {"str_replace_based_edit_tool", "memory"}),
    ("agent-toolset", "anthropic-api", {"read", "write", "edit", "glob", "grep", "bash"}),
    ("gemini-cli", "gemini-cli", {"ask_user"}),
    ("qwen-code", "qwen-code", None),
    ("kimi", "kimi", None),
])  # fmt: skip
def test_a_tool_that_was_not_observed_is_as_its_schema_says(
    facade_id: str, source: str, names: set[str] | None, shared: Path
) -> None:
    tools = list_tools(shared / "facades" / "schemas" / f"{source}.json")
    known = {tool["name"]: tool["parameters"] for tool in tools if "parameters" in tool}

    def loose(node: Any) -> Any:
        """Generated types do not tell whether an object is closed."""
        if isinstance(node, list):
            return [loose(item) for item in cast(list[Any], node)]
        items = cast(Arguments, node).items() if isinstance(node, dict) else ()
        return (
            {key: loose(value) for key, value in items if key != "additionalProperties"}
            if isinstance(node, dict)
            else node
        )

    for name in known.keys() & snapshot(facade_id).keys() if names is None else names:
        assert loose(snapshot(facade_id)[name]) == loose(without_prose(known[name])), name


def test_every_known_parameter_of_codex_is_accepted(shared: Path) -> None:
    tools = {tool["name"]: tool for tool in list_tools(shared / "facades" / "schemas" / "codex.json")}
    compared = 0
    for facade_id in ("codex", "codex-shell-command", "codex-shell", "codex-oss", "openai", "openai-hosted"):
        for view in find_facade(facade_id).views:
            known = tools.get(view.name, {}).get("parameters", {}).get("properties", {})
            assert set(known) <= set(view.accepted_schema["properties"]), (facade_id, view.name)
            compared += bool(known)
    assert compared > 10


@pytest.mark.parametrize("facade_id", FACADES)
def test_names_and_types_change_only_on_purpose(facade_id: str) -> None:
    """Run this file as a module to accept what is shown now."""
    assert snapshot(facade_id) == loads_object((HERE / "snapshots" / f"{facade_id}.json").read_bytes())


def undescribed(node: Any, path: str = "") -> list[str]:
    """The properties without a description, at any depth."""
    if not isinstance(node, dict):
        return []
    schema = cast(Arguments, node)
    missing: list[str] = []
    for name, value in schema.get("properties", {}).items():
        missing += [
            *([] if value.get("description") else [f"{path}.{name}"]),
            *undescribed(value, f"{path}.{name}"),
        ]
    return missing + undescribed(schema.get("items"), f"{path}[]")


@pytest.mark.parametrize(("facade_id", "view"), VISIBLE, ids=IDS)
def test_every_tool_and_parameter_is_described(facade_id: str, view: View) -> None:
    assert undescribed(view.parameters) == []
    assert len(view.description) > 20
    assert view.description[0].isupper()


@pytest.mark.parametrize("facade_id", FACADES)
def test_notes_and_descriptions_name_only_tools_that_are_shown(facade_id: str) -> None:
    facade, shown = bind(facade_id), {*bind(facade_id).names, *(view.name for view in bind(facade_id).views)}
    others = {view.name for _, view in VISIBLE if "_" in view.name or view.name[0].isupper()} | {
        name for name in BASE_TOOLS if "_" in name
    }
    if facade_id in ("codex-shell", "codex-local-shell"):
        shown.add("apply_patch")  # sent through shell
    verbs = {"Read", "Write", "Edit"}  # also English words
    for text in (facade.facade.note, *(view.description for view in facade.views)):
        words = set(re.findall(r"[A-Za-z_]+", text.replace("ReadFile", "")))
        assert not (others - shown - (verbs if "Read" not in shown else set())) & words, text
    assert {*re.findall(r"[A-Za-z_]+", facade.facade.note)} & shown


@pytest.mark.parametrize("facade_id", FACADES)
def test_there_is_one_tool_to_edit_with(facade_id: str) -> None:
    facade = bind(facade_id)
    editing = {"edit", "patch", "insert"}
    visible = {name for name in editing if name in facade.visible_base_tools}
    assert len([view for view in facade.views if view.base_tools & editing]) + len(visible) == 1


@pytest.mark.parametrize("facade_id", FACADES)
def test_a_base_tool_is_shown_unless_it_is_hidden(facade_id: str) -> None:
    facade = bind(facade_id)
    covered = {base for view in facade.views for base in view.base_tools}
    shown = {base for base in BASE_TOOLS if base in facade.visible_base_tools}
    assert shown == set(BASE_TOOLS) - covered - {*facade.facade.hides}
    assert not covered & {*facade.facade.hides}
    assert {"ast_search", "ast_rewrite"} <= shown


@pytest.mark.parametrize("model", [model for facade_id, model in MODELS.items() if facade_id not in OLDER])
def test_a_model_sees_its_own_table(model: str) -> None:
    assert MODELS[facade_id_for_model(model)] == model


def test_only_older_models_keep_a_list() -> None:
    assert "TodoWrite" in snapshot("claude-code-2.0")
    assert "TodoWrite" in snapshot("claude-code-4.5")
    assert "TodoWrite" not in snapshot("claude-code")
    assert "todo" not in bind("claude-code").visible_base_tools


# ---- the grammar of patches


def to_pattern(rule: str) -> str:
    """The grammar as a regular expression: none of its rules is recursive."""
    rules: dict[str, str] = {
        name: body for name, _, body in (line.partition(": ") for line in GRAMMAR.strip().split("\n"))
    }
    body = rules[rule]
    if body.startswith("/"):
        return f"(?:{body[1:-1]})"
    parts: list[str] = re.findall(r'"[^"]*"|[A-Za-z_]+|[()|?*+]', body)
    pieces = (
        f"(?:{re.escape(part[1:-1])})"
        if part.startswith('"')
        else part
        if part in "()|?*+"
        else to_pattern(part)
        for part in parts
    )
    return f"(?:{''.join(pieces)})"


def test_the_grammar_allows_patches_and_nothing_else() -> None:
    language = re.compile(to_pattern("start"))
    update = (
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n*** End Patch"
    )
    move = (
        "*** Begin Patch\n*** Update File: a b\n*** Move to: c\n@@ def f\n@@\n x\n-y\n+\n*** End of "
        "File\n*** End Patch\n"
    )
    several = (
        "*** Begin Patch\n*** Add File: a\n+x\n+\n*** Delete File: b\n*** Update File: "
        "c\n-x\n@@\n+y\n*** End Patch"
    )
    for patch in (update, move, several):
        assert language.fullmatch(patch)
    for patch in (
        "*** Begin Patch\n*** End Patch",
        update.replace("@@ def f():\n", "def f():\n"),
        update + "\nmore",
    ):
        assert not language.fullmatch(patch)
    definition = view_of("codex", "apply_patch").definition
    assert (definition.kind, definition.parameters) == ("freeform", None)
    assert definition.grammar == {"syntax": "lark", "definition": GRAMMAR}


if __name__ == "__main__":
    for facade_id in FACADES:
        (HERE / "snapshots" / f"{facade_id}.json").write_text(json.dumps(snapshot(facade_id)) + "\n")
