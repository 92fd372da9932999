"""DATA: which facade a model sees, by its name; and the facades by id. A table is imported when it is first needed."""

import re
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module

from toolglot.errors import UnknownName
from toolglot.facades.view import Facade
from toolglot.providers.catalog import ALIASES

__all__ = [
    "BASE_TOOLS",
    "FACADE_MODULES",
    "NEUTRAL",
    "facade_for_model",
    "facade_id_for_model",
    "facade_id_for_provider",
    "find_base_tools",
    "find_facade",
    "list_facades",
    "strip_model_prefix",
]

NEUTRAL = "neutral"
# The base tools that our tables name. A new tool needs no row here: it is shown under its own name wherever it is registered.
BASE_TOOLS = frozenset(
    {
        *("read", "write", "view_image", "read_many", "edit", "multi_edit", "insert", "patch", "notebook_edit"),
        *("grep", "glob", "list_dir", "ast_search", "ast_rewrite"),
        *("shell", "shell_output", "shell_kill", "shell_list"),
        *("web_search", "web_open", "web_find", "web", "todo", "ask_user", "memory"),
    }
)
# id -> the module with its table
FACADE_MODULES: dict[str, str] = {
    "claude-code": "claude_code",
    "claude-code-2.0": "claude_code",
    "anthropic-api": "anthropic_api",
    "agent-toolset": "anthropic_api",
    "gemini-cli": "gemini_cli",
    "gemini-cli-2": "gemini_cli",
    "codex": "codex",
    "codex-shell-command": "codex",
    "codex-shell": "codex",
    "codex-oss": "codex",
    "openai": "codex",
    "openai-hosted": "codex",
    "qwen-code": "qwen_code",
    "kimi": "kimi",
    NEUTRAL: "neutral",
}
FACADE_ALIASES = {
    "anthropic": "claude-code",
    "claude": "claude-code",
    "gemini": "gemini-cli",
    "google": "gemini-cli",
    "gpt": "codex",
    "qwen": "qwen-code",
}
# Where the name of a known family starts: after a router's slash, a region's dot, a provider's colon or a host.
_MODEL_FAMILY = re.compile(r"(?:^|[:.~]|^databricks-)((?:claude|gemini|gpt|chatgpt|codex|o\d|qwen|qwq|kimi).*)")
# The first pattern that matches decides. Newer generations of Claude have no tools for a plan.
_NEW_CLAUDE_MODELS = (
    r"^claude-(opus-4[-.]([89]|\d\d)(?!\d)|4[-.]([89]|\d\d)-opus|(opus|sonnet|haiku)-([5-9]|\d\d)(?!\d)"
    r"|([5-9]|\d\d)([-.]\d+)?-(opus|sonnet|haiku)|(opus|sonnet|haiku)-latest|fable|mythos)"
)
_MODEL_RULES: tuple[tuple[str, str], ...] = (
    (_NEW_CLAUDE_MODELS, "claude-code"),
    (r"^claude", "claude-code-2.0"),
    (r"^gemini-3(?!\d)", "gemini-cli"),
    (r"^gemini", "gemini-cli-2"),
    (r"^gpt-oss", "codex-oss"),
    (r"^gpt-.*codex|^gpt-5\.[1-4](?!\d)|^codex", "codex-shell-command"),
    (r"^gpt-5\.|^gpt-([6-9]|\d\d)", "codex"),
    (r"^gpt-5", "codex-shell"),
    (r"^((chat)?gpt|o\d+)(-|$)", "openai"),
    (r"^computer-use", "openai"),
    (r"^(qwen|qwq)", "qwen-code"),
    (r"^kimi", "kimi"),
)
# Providers that serve one family: the facade of its newest models.
_PROVIDER_FACADES = {
    "anthropic": "claude-code",
    "gemini": "gemini-cli",
    "vertex": "gemini-cli",
    "openai-chat": "codex",
    "openai-responses": "codex",
}


def strip_model_prefix(model: str) -> str:
    """A model's own name, without a router's or cloud's prefix (`anthropic/claude-…`, `us.anthropic.claude-…`)."""
    name = model.lower().rpartition("/")[2]
    match = _MODEL_FAMILY.search(name)
    return name.lstrip("~") if match is None else match[1]


def facade_id_for_model(model: str) -> str:
    """The id of a model's facade, also behind a router."""
    name = strip_model_prefix(model)
    return next((facade_id for pattern, facade_id in _MODEL_RULES if re.search(pattern, name)), NEUTRAL)


def facade_id_for_provider(provider: str) -> str:
    """The facade of a provider's newest models; "by model" if it serves several families."""
    return _PROVIDER_FACADES.get(provider, "by model")


@cache
def find_facade(facade_id: str) -> Facade:
    """A facade by its id or alias. Raises UnknownName."""
    facade_id = FACADE_ALIASES.get(facade_id, facade_id)
    if facade_id not in FACADE_MODULES:
        raise UnknownName("facade", facade_id, FACADE_MODULES)
    tables: tuple[Facade, ...] = import_module(f"toolglot.facades.{FACADE_MODULES[facade_id]}").TABLES
    return next(table for table in tables if table.id == facade_id)


def list_facades(provider: str = "") -> tuple[Facade, ...]:
    """All facades, or those of a provider (`anthropic` or `claude`, `gemini`, `openai` …), newest first. Raises UnknownName."""
    facades = tuple(map(find_facade, FACADE_MODULES))
    name = ALIASES.get(provider, provider)
    if provider and not any(facade.provider == name for facade in facades):
        raise UnknownName("provider of a facade", provider, {facade.provider for facade in facades if facade.provider})
    return tuple(facade for facade in facades if not provider or facade.provider == name)


def find_base_tools(pattern: str) -> tuple[str, ...]:
    """The base tools that any facade shows under a name that matches a glob (`Bash`, `read_*`)."""
    return tuple(
        sorted(
            {
                base
                for facade_id in FACADE_MODULES
                for view in find_facade(facade_id).views
                if any(fnmatchcase(name, pattern) for name in (view.name, view.qualified_name, *view.aliases))
                for base in view.base_tools
            }
        )
    )


def facade_for_model(model: str) -> Facade:
    """The facade that a model sees."""
    return find_facade(facade_id_for_model(model))
