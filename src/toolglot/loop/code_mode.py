"""Code mode: the model writes code that calls the tools, instead of calling them itself.

When it is used, and what is shown.
"""

import re
from collections.abc import Iterable
from functools import cache

from msgspec.structs import replace

from toolglot.builtin.code_mode.declarations import declare_tools
from toolglot.builtin.code_mode.process import LANGUAGES, Language, find_level, find_runtime, missing_runtime
from toolglot.builtin.code_mode.run_code import ScriptHost
from toolglot.common.loggers import get_logger
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import resolve_facade, strip_model_prefix
from toolglot.facades.view import Facade
from toolglot.tools.policy import RUN_CODE
from toolglot.tools.tool import Tool
from toolglot.values.request import ToolDefinition

__all__ = ["choose_language", "list_direct_tools", "list_inner_tools", "make_code_tool"]

log = get_logger("toolglot.loop")


def choose_language(
    code_mode: bool | Language | None, facade: str | Facade | None, model: str
) -> Language | None:
    """Return what a model writes its code in; None if it calls its tools itself.

    `code_mode`: None leaves it to the facade, which has the native names of code mode for models whose
    harness it is.
    """
    if code_mode is False:
        return None
    if isinstance(facade, str):
        facade = resolve_facade(facade, model)
    is_native = facade is not None and _has_native_code_mode(facade, model)
    languages = _find_languages(code_mode, is_native=is_native)
    if not languages:
        return None
    language = next(filter(find_runtime, languages), None)
    if language is None:
        _warn(f"{missing_runtime(languages[0])}; {model} is offered its tools directly")
        return None
    if code_mode is None and not find_level():
        _warn(f"no sandbox works here for code that calls tools; {model} is offered its tools directly")
        return None
    return language


def _has_native_code_mode(facade: Facade, model: str) -> bool:
    """Return whether a facade has a name that this model knows for the tool that runs code."""
    name = strip_model_prefix(model)
    for view in facade.views:
        is_for_model = not view.models or re.search(view.models, name) is not None
        if RUN_CODE in view.base_tools and is_for_model:
            return True
    return False


def _find_languages(code_mode: bool | Language | None, *, is_native: bool) -> tuple[Language, ...]:
    """Return the languages that a model may write, the preferred one first; none if it calls its tools
    itself.
    """
    if is_native:
        return ("javascript",)
    if code_mode is True:
        return LANGUAGES
    return (code_mode,) if code_mode else ()


def make_code_tool(language: Language) -> Tool:
    """Return the tool that runs the code of one conversation."""
    return ScriptHost(language).tool


@cache
def _warn(message: str) -> None:
    """Warn once."""
    log.warning("%s", message)


def list_inner_tools(
    definitions: Iterable[ToolDefinition], facade: BoundFacade | None
) -> tuple[ToolDefinition, ...]:
    """Return the tools that the model's code calls."""
    views = {view.qualified_name: view for view in facade.views} if facade is not None else {}
    inner: list[ToolDefinition] = []
    for definition in definitions:
        if definition.kind == "hosted" or definition.name == RUN_CODE:
            continue
        if definition.callers and "code" not in definition.callers:
            continue
        view = views.get(definition.qualified_name)
        if view is not None:
            if view.direct:
                continue
            if view.output_schema is not None:
                definition = replace(definition, output_schema=view.output_schema)
        inner.append(definition)
    return tuple(inner)


def list_direct_tools(
    definitions: Iterable[ToolDefinition],
    inner_tools: Iterable[ToolDefinition],
    code_tool: ToolDefinition,
    facade: BoundFacade | None,
    language: Language,
) -> tuple[ToolDefinition, ...]:
    """Return the tools that the model calls itself; the one that runs code declares the others.

    `code_tool`: that tool, where the model has no native name for it.
    """
    views = facade.views if facade is not None else ()
    direct_names = {RUN_CODE, *(view.qualified_name for view in views if view.direct)}
    runner = next((view.qualified_name for view in views if RUN_CODE in view.base_tools), RUN_CODE)
    direct: list[ToolDefinition] = []
    for definition in definitions:
        if definition.name == RUN_CODE:
            definition = code_tool
        name = definition.qualified_name
        is_direct = definition.kind == "hosted" or name in direct_names or "model" in definition.callers
        if not is_direct:
            continue
        # Callers are for providers that run code themselves.
        definition = replace(definition, callers=(), deferred=False)
        if name == runner:
            text = f"{definition.description}\n\n{declare_tools(inner_tools, language)}"
            definition = replace(definition, description=text)
        direct.append(definition)
    return tuple(direct)
