"""The expectations in tests/facades/scenarios, and what the tests of all facades share."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, cast

from toolglot.builtin.code_mode.run_code import ScriptHost
from toolglot.builtin.tools import builtins
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_facade
from toolglot.facades.view import View
from toolglot.tools.search import search_tools_tool
from toolglot.values.messages import ToolCall

Arguments = dict[str, Any]
HERE = Path(__file__).parent
FACADES = tuple(FACADE_MODULES)
MODELS = {
    "claude-code": "claude-opus-4-8",
    "claude-code-4.5": "claude-sonnet-4-5",
    "claude-code-2.1": "claude-opus-4-8",
    "claude-code-2.0": "claude-sonnet-4-5",
    "gemini-cli": "gemini-3-pro-preview",
    "gemini-cli-2": "gemini-2.5-pro",
    "codex": "gpt-5.5",
    "codex-code-mode": "gpt-5.6",
    "codex-0.142": "gpt-5.4",
    "codex-shell-command": "gpt-5.1",
    "codex-shell": "gpt-5",
    "codex-oss": "gpt-oss-120b",
    "codex-local-shell": "codex-mini-latest",
    "openai": "chatgpt-4o-latest",
    "qwen-code": "qwen3-coder",
    "kimi": "kimi-k2",
    "neutral": "llama-4",
}
"""Facade -> a model that sees it, by default unless the facade is an older one."""
VIEWS = [(facade_id, view) for facade_id in FACADES for view in find_facade(facade_id).views]
VISIBLE = [(facade_id, view) for facade_id, view in VIEWS if not view.hidden]
IDS = [f"{facade_id}:{view.name}" for facade_id, view in VISIBLE]


def load(facade_id: str) -> list[Arguments]:
    path = HERE / "scenarios" / f"{facade_id}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def save(facade_id: str, records: list[Arguments]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (HERE / "scenarios" / f"{facade_id}.jsonl").write_text("".join(lines))


def scenarios(kind: str) -> list[tuple[str, Arguments]]:
    """All records of a kind, with their facades."""
    return [(facade_id, record) for facade_id in FACADES for record in load(facade_id) if kind in record]


def is_updating() -> bool:
    return bool(os.environ.get("UPDATE_SCENARIOS"))


def view_of(facade_id: str, name: str) -> View:
    return next(view for view in find_facade(facade_id).views if name in (view.name, *view.aliases))


@cache
def bind(facade_id: str) -> BoundFacade:
    return BoundFacade(find_facade(facade_id), MODELS.get(facade_id, "a-model"), BASE_TOOLS)


@cache
def base_schemas() -> dict[str, Arguments]:
    """The parameters of the base tools, internal ones too."""
    tools = builtins(HERE, state_dir=HERE / "never")
    tools.close()
    all_tools = (*tools.all_tools, search_tools_tool(()), ScriptHost().tool)
    return {tool.name: cast(Arguments, tool.definition.parameters) for tool in all_tools}


def without_prose(node: Any) -> Any:
    """A schema without descriptions and without empty `required`."""
    if isinstance(node, list):
        return [without_prose(item) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    schema = cast(Arguments, node)
    kept = {
        key: without_prose(value)
        for key, value in schema.items()
        if key not in ("description", "properties") and (key, value) != ("required", [])
    }
    if "properties" in schema:
        kept["properties"] = {name: without_prose(value) for name, value in schema["properties"].items()}
    return kept


def interpret(
    facade_id: str, name: str, arguments: Arguments | None, raw: str | None = None
) -> tuple[str, Arguments, list[str]]:
    """The base call of a native one, and the subjects of its repairs. Raises ToolError."""
    call = bind(facade_id).interpret(ToolCall("c1", name, arguments, raw, freeform=raw is not None))
    if call.error is not None:
        raise call.error
    return call.base.name, call.base.arguments or {}, [repair.subject for repair in call.repairs]
