"""Checks a custom facade before it is used: a table that cannot work is a UsageError, in one sentence."""

import re
from collections.abc import Collection, Iterable

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_facade, strip_model_prefix
from toolglot.facades.view import Facade, View
from toolglot.schema.arguments import find_issues

__all__ = ["check_facade", "check_names", "is_bundled"]


def is_bundled(facade: Facade) -> bool:
    """Whether it is one of our own tables, which the tests check."""
    return facade.id in FACADE_MODULES and find_facade(facade.id) is facade


def check_facade(facade: Facade, model: str = "", base_tools: Iterable[str] = ()) -> None:
    """Check a custom facade. Raises UsageError.

    `model`: only the tools that it sees must have different names. `base_tools`: tools that are not built in.
    """
    if is_bundled(facade):
        return
    known, seen = {*BASE_TOOLS, *base_tools}, set[tuple[str, bool]]()
    try:
        check_names(facade.hides, known, "hides", "tool")
        for view in facade.views:
            _check_view(view, known)
            if not view.models or re.search(view.models, strip_model_prefix(model)):
                if (view.qualified_name, view.hidden) in seen:
                    raise UsageError(f"there are two tools {view.qualified_name!r}; rename one of them")
                seen.add((view.qualified_name, view.hidden))
    except UsageError as e:
        raise UsageError(f"facade {facade.id!r}: {e}") from None
    except Exception as e:  # a value of the wrong type
        raise UsageError(f"facade {facade.id!r} does not follow toolglot.facades.view: {e}") from None


def _check_view(view: View, known: set[str]) -> None:
    where = f"tool {view.qualified_name!r}"
    if not view.name:
        raise UsageError("a tool has no name; set what the model calls it")
    if not view.cases:
        raise UsageError(f"{where} has no cases; add one that names a base tool")
    check_names((*view.base_tools, *(case.base for case in view.cases.values())), known, where, "tool")
    if view.select_case is None and "" not in view.cases:
        raise UsageError(f'{where} cannot choose between its cases; set select_case, or add a case ""')
    if (view.parameters or {}).get("type", "object") != "object":
        raise UsageError(f'{where} needs parameters of type "object"')
    try:
        re.compile(view.models)
        find_issues({}, view.accepted_schema)
    except re.error as e:
        raise UsageError(f"{where}: models is not a regular expression: {e}") from None
    except UsageError as e:
        raise UsageError(f"{where}: {e}") from None


def check_names(names: Iterable[str], known: Collection[str], key: str, kind: str) -> None:
    """Raise UsageError for the first name that is not known.

    `key`: where it is; `kind`: what it should be.
    """
    for name in names:
        if name not in known:
            raise UsageError(f"{key}: {UnknownName(kind, name, known)}")
