"""DATA: which facade a model sees, by its name and the version of a program; and the facades by id.

A table is imported when it is first needed.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import import_module
from math import inf

import msgspec

from toolglot.common.plugins import find_plugin, plugin_error, plugin_names
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.view import Facade
from toolglot.providers.catalog import ALIASES

__all__ = [
    "BASE_TOOLS",
    "FACADE_MODULES",
    "GENERATIONS",
    "NEUTRAL",
    "NEW_CLAUDE_MODELS",
    "Generation",
    "facade_for_model",
    "facade_id_for_model",
    "facade_id_for_provider",
    "find_base_tools",
    "find_facade",
    "find_named_tools",
    "is_facade_name",
    "list_facades",
    "resolve_facade",
    "strip_model_prefix",
]

NEUTRAL = "neutral"
# The base tools that our tables name. A new tool needs no row here: it is shown under its own name wherever
# it is registered.
BASE_TOOLS = frozenset(
    {
        *(
            "read",
            "write",
            "view_image",
            "read_many",
            "edit",
            "multi_edit",
            "insert",
            "patch",
            "notebook_edit",
        ),
        *("grep", "glob", "list_dir", "ast_search", "ast_rewrite"),
        *("shell", "shell_output", "shell_kill", "shell_list"),
        *("web_search", "web_open", "web_find", "web", "todo", "ask_user", "memory", "load_skill"),
        *("search_tools", "run_code"),
    }
)
# id -> the module with its table
FACADE_MODULES: dict[str, str] = {
    "claude-code": "claude_code",
    "claude-code-4.5": "claude_code",
    "claude-code-2.1": "claude_code",
    "claude-code-2.0": "claude_code",
    "anthropic-api": "anthropic_api",
    "agent-toolset": "anthropic_api",
    "gemini-cli": "gemini_cli",
    "gemini-cli-2": "gemini_cli",
    "codex": "codex",
    "codex-code-mode": "codex",
    "codex-0.142": "codex",
    "codex-shell-command": "codex",
    "codex-shell": "codex",
    "codex-oss": "codex",
    "codex-local-shell": "codex",
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
# Where a model's own name may start: after a region's dot, a provider's colon or a host.
_PREFIX_END = re.compile(r"[:.~]|^databricks-")
# Newer generations of Claude have no tools for a plan, and may change files that they have not read.
NEW_CLAUDE_MODELS = (
    r"^claude-(opus-4[-.]([89]|\d\d)(?!\d)|4[-.]([89]|\d\d)-opus|(opus|sonnet|haiku)-([5-9]|\d\d)(?!\d)"
    r"|([5-9]|\d\d)([-.]\d+)?-(opus|sonnet|haiku)|(opus|sonnet|haiku)-latest|fable|mythos)"
)


class Generation(msgspec.Struct, frozen=True):
    """What a version of a program shows some models, as it was observed."""

    program: str
    version: str
    date: str
    """When the version was released; "" where no version was observed."""
    pattern: str
    """Regular expression of model names."""
    facade: str
    models: str
    """The same in words."""


def _list_rows(program: str, version: str, date: str, *rows: tuple[str, str, str]) -> tuple[Generation, ...]:
    """Return the rows of one version of a program. `rows`: pattern, facade and models."""
    return tuple(Generation(program, version, date, *row) for row in rows)


# The first row that matches a model decides, so that it sees the newest version that knows it. Observed on
# the wire of the real programs (2026-11). For PROGRAM@VERSION, the rows of this version and older ones count;
# within a version, the first row is for models that none of them names.
GENERATIONS = (
    *_list_rows(
        "claude-code",
        "2.1.325",
        "2026-11-13",
        (NEW_CLAUDE_MODELS, "claude-code", "claude-opus-4-8 and newer, sonnet-5"),
        (r"^claude", "claude-code-4.5", "all earlier Claude models"),
    ),
    *_list_rows("claude-code", "2.1.197", "2026-06-30", (r"^claude", "claude-code-2.1", "all Claude models")),
    *_list_rows("claude-code", "2.0.30", "2025-10-30", (r"^claude", "claude-code-2.0", "all Claude models")),
    *_list_rows(
        "gemini-cli",
        "0.61.0",
        "2026-09-25",
        (r"^gemini-3(?!\d)", "gemini-cli", "gemini-3"),
        (r"^gemini", "gemini-cli-2", "all other Gemini models"),
    ),
    *_list_rows(
        "codex",
        "0.166.0",
        "2026-10-29",
        (r"^gpt-5\.5(?!\d)", "codex", "gpt-5.5"),
        (r"^gpt-5\.([6-9]|\d\d)|^gpt-([6-9]|\d\d)", "codex-code-mode", "gpt-5.6 and newer"),
    ),
    *_list_rows(
        "codex",
        "0.142.0",
        "2026-06-23",
        (r"^gpt-5\.[2-4](?!\d)|^gpt-5\.1-codex-max", "codex-0.142", "gpt-5.2 to 5.4, gpt-5.1-codex-max"),
    ),
    *_list_rows(
        "codex",
        "0.77.0",
        "2025-12-21",
        (r"^gpt-5\.[1-4](?!\d)|^gpt-.*codex", "codex-shell-command", "gpt-5.1 to gpt-5.4, gpt-5-codex"),
        (r"^gpt-5(?!\.)|^gpt-4|^o\d+(-|$)", "codex-shell", "gpt-5, gpt-4.1, o3"),
        (r"^gpt-oss", "codex-oss", "gpt-oss"),
        (r"^codex", "codex-local-shell", "codex-mini"),
    ),
    *_list_rows("openai", "", "", (r"^(chat)?gpt-|^computer-use", "openai", "other OpenAI models")),
    *_list_rows("qwen-code", "", "", (r"^(qwen|qwq)", "qwen-code", "all Qwen models")),
    *_list_rows("kimi-code", "", "", (r"^kimi", "kimi", "all Kimi models")),
)
# Providers that serve one family: the facade of its newest models.
_PROVIDER_FACADES = {
    "anthropic": "claude-code",
    "gemini": "gemini-cli",
    "vertex": "gemini-cli",
    "openai-chat": "codex",
    "openai-responses": "codex",
}


@lru_cache
def strip_model_prefix(model: str) -> str:
    """Return a model's own name, without a router's or cloud's prefix (`anthropic/claude-…`,
    `us.anthropic.claude-…`).
    """
    name = model.lower().rpartition("/")[2]
    for start in (0, *(match.end() for match in _PREFIX_END.finditer(name))):
        if any(re.search(row.pattern, name[start:]) for row in GENERATIONS):
            return name[start:]
    return name.lstrip("~")


def facade_id_for_model(model: str) -> str:
    """Return the id of a model's facade, also behind a router."""
    name = strip_model_prefix(model)
    for row in GENERATIONS:
        if re.search(row.pattern, name):
            return row.facade
    return NEUTRAL


def is_facade_name(name: str) -> bool:
    """Whether this is the id or alias of a facade, or PROGRAM@VERSION of a known program."""
    if name in FACADE_MODULES or name in FACADE_ALIASES:
        return True
    program, at, _ = name.partition("@")
    return at == "@" and bool(_list_versions(program))


def _list_versions(program: str) -> list[Generation]:
    program = FACADE_ALIASES.get(program, program)
    return [row for row in GENERATIONS if row.program == program and row.version]


def _find_generation(name: str, model: str) -> str:
    """Return the facade of PROGRAM@VERSION for a model: of this version, or of the nearest one before it.

    Raises UsageError.
    """
    program, _, version = name.partition("@")
    rows = _list_versions(program)
    if not rows or not re.fullmatch(r"\d+(\.\d+)*", version):
        known = (f"{row.program}@{row.version}" for row in GENERATIONS if row.version)
        raise UnknownName("facade", name, dict.fromkeys(known))
    # 0.77 stands for every 0.77.x.
    wanted = (*map(float, version.split(".")), inf)
    oldest = rows[-1]
    rows = [row for row in rows if (*map(float, row.version.split(".")),) <= wanted]
    if not rows:
        raise UsageError(
            f"{name!r} is older than the oldest version that is known, {oldest.program}@{oldest.version}"
        )
    model_name = strip_model_prefix(model)
    for row in rows:
        if re.search(row.pattern, model_name):
            return row.facade
    return rows[0].facade


def facade_id_for_provider(provider: str) -> str:
    """Return the facade of a provider's newest models; "by model" if it serves several families."""
    return _PROVIDER_FACADES.get(provider, "by model")


def find_facade(facade_id: str, model: str = "") -> Facade:
    """Return a facade by its id or alias, by PROGRAM@VERSION as that program shows it to the model, or of a
    plug-in.

    Raises UsageError.
    """
    if "@" in facade_id:
        facade_id = _find_generation(facade_id, model)
    facade_id = FACADE_ALIASES.get(facade_id, facade_id)
    if facade_id not in FACADE_MODULES:
        facade = find_plugin("facades", facade_id)
        if facade is None:
            raise UnknownName("facade", facade_id, (*FACADE_MODULES, *plugin_names("facades")))
        if not isinstance(facade, Facade):
            raise plugin_error("facades", facade_id, "is not a Facade")
        return facade
    return _load_tables(FACADE_MODULES[facade_id])[facade_id]


@cache
def _load_tables(module: str) -> dict[str, Facade]:
    tables: tuple[Facade, ...] = import_module(f"toolglot.facades.{module}").TABLES
    return {table.id: table for table in tables}


def _find_provider(name: str) -> str:
    """Return the provider of a facade, or the provider of this name."""
    facade_id = FACADE_ALIASES.get(name, name)
    provider = find_facade(facade_id).provider if facade_id in FACADE_MODULES else ""
    return provider or ALIASES.get(name, name)


def list_facades(provider: str = "") -> tuple[Facade, ...]:
    """Return all facades, or those of a provider (`anthropic` or `claude`, `gemini`, `openai` …), newest
    first.

    A facade's id or alias, such as `codex`, stands for its provider. Raises UnknownName.
    """
    facades = tuple(map(find_facade, FACADE_MODULES))
    if not provider:
        return facades
    name = _find_provider(provider)
    matching = tuple(facade for facade in facades if facade.provider == name)
    if not matching:
        raise UnknownName("provider of a facade", provider, {facade.provider for facade in facades} - {""})
    return matching


@cache
def find_base_tools(pattern: str) -> tuple[str, ...]:
    """Return the base tools that a name (`shell`, `Bash`) or a glob (`web_*`) stands for; none for other
    names.

    A base tool's name is only its own, although models may use other base tools by it: `shell` also applies
    patches in older versions of Codex.
    """
    if pattern in BASE_TOOLS:
        return (pattern,)
    bases = {base for base in BASE_TOOLS if fnmatchcase(base, pattern)}
    for facade_id in FACADE_MODULES:
        bases |= find_viewed_tools(find_facade(facade_id), pattern)
    return tuple(sorted(bases))


def find_viewed_tools(facade: Facade, pattern: str) -> set[str]:
    """Return the tools that a facade shows under a native name, or under those that match a glob."""
    bases = set[str]()
    for view in facade.views:
        names = {view.name, view.qualified_name, *view.aliases} - BASE_TOOLS
        if not any(fnmatchcase(name, pattern) for name in names):
            continue
        if "" in view.cases:
            bases.add(view.cases[""].base)
        else:
            bases |= view.base_tools
    return bases


def find_named_tools(pattern: str, tools: Iterable[str], facade: Facade | str = "auto") -> tuple[str, ...]:
    """Like `find_base_tools`, for an agent with these tools; also finds its own tools by the names of its own
    facade.
    """
    bases = find_viewed_tools(facade, pattern) if isinstance(facade, Facade) else set[str]()
    if not BASE_TOOLS.isdisjoint(tools):  # the tables are loaded only for programs that use built-in tools
        bases.update(find_base_tools(pattern))
    return tuple(sorted(bases))


def facade_for_model(model: str) -> Facade:
    """Return the facade that a model sees."""
    return find_facade(facade_id_for_model(model))


def resolve_facade(facade: Facade | str, model: str) -> Facade:
    """Return a facade that is given by itself, by its name, or as "auto", which is the model's.

    Raises UsageError.
    """
    if isinstance(facade, Facade):
        return facade
    return facade_for_model(model) if facade == "auto" else find_facade(facade, model)
