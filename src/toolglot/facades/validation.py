"""A facade of somebody's own, looked at before it is put to use: a table that cannot work is a UsageError, in one sentence."""

import re
from collections.abc import Iterable

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_facade, strip_model_prefix
from toolglot.facades.view import Facade, View
from toolglot.schema.arguments import SchemaBinder

__all__ = ["check_facade", "is_bundled"]


def is_bundled(facade: Facade) -> bool:
    """Whether it is one of our own tables, which the tests look at."""
    return facade.id in FACADE_MODULES and find_facade(facade.id) is facade


def check_facade(facade: Facade, model: str = "", base_tools: Iterable[str] = ()) -> None:
    """Finds a table that cannot work before it is put to use; our own are left to the tests. Raises UsageError.

    `model`: whose tools must have different names. `bases`: base tools that are not built in.
    """
    if is_bundled(facade):
        return
    known, seen = {*BASE_TOOLS, *base_tools}, set[tuple[str, bool]]()
    try:
        _check_base_tools(facade.shows, known, "shows")
        for view in facade.views:
            _check_view(view, known)
            if not view.models or re.search(view.models, strip_model_prefix(model)):
                if (view.qualified_name, view.hidden) in seen:
                    raise UsageError(f"there are two tools {view.qualified_name!r}; give one of them another name")
                seen.add((view.qualified_name, view.hidden))
    except UsageError as e:
        raise UsageError(f"the facade {facade.id!r}: {e}") from None
    except Exception as e:  # a value of another type than the table asks for
        raise UsageError(f"the facade {facade.id!r} is not built as toolglot.facades.view says: {e}") from None


def _check_view(view: View, known: set[str]) -> None:
    where = f"the tool {view.qualified_name!r}"
    if not view.name:
        raise UsageError("a tool has no name; say how the model calls it")
    if not view.cases:
        raise UsageError(f"{where} has no cases; say there what a call means")
    _check_base_tools((*view.base_tools, *(case.base for case in view.cases.values())), known, where)
    if not view.case_parameter and view.select_case is None and "" not in view.cases:
        raise UsageError(f'{where} chooses between its cases by nothing; give it by or pick, or a case ""')
    if (view.parameters or {}).get("type", "object") != "object":
        raise UsageError(f'{where} needs parameters of type "object"')
    try:
        re.compile(view.models)
        taken = view.accepted_schema
        SchemaBinder(taken).find_issues({})
    except (re.error, UsageError) as e:
        raise UsageError(f"{where}: {'models is not a pattern: ' if isinstance(e, re.error) else ''}{e}") from None
    if view.case_parameter and view.case_parameter not in taken["properties"]:
        raise UsageError(f"{where} chooses by {view.case_parameter!r}, which is not among its parameters")


def _check_base_tools(names: Iterable[str], known: set[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: {UnknownName('built-in tool', name, known)}")
