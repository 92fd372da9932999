"""A web search that is also called in the form of OpenAI's hosted tool: `{action: {type: open_page, url}}`."""

from typing import Any, cast

from toolglot.base_errors import invalid_argument
from toolglot.facades.parameters import string, string_list
from toolglot.facades.table import Rows, make_view, pick
from toolglot.facades.view import Arguments, Case, Renderer, View
from toolglot.request import Schema

__all__ = ["DOMAIN_ROWS", "make_search_view"]

DOMAIN_ROWS: Rows = {
    "allowed_domains": string_list("Only results from these domains."),
    "blocked_domains": string_list("No results from these domains."),
}

_ACTIONS = {"search": "", "open_page": "open_page", "open": "open_page", "find_in_page": "find_in_page", "find": "find_in_page"}
_DOMAINS = tuple(DOMAIN_ROWS)
_ACCEPTED: Schema = {
    "action": {"type": ["object", "string"]},
    **dict.fromkeys(("type", "url", "pattern"), string()),
    **dict.fromkeys(("queries", *_DOMAINS), string_list()),
}


def _flatten(native: Arguments, *required: str) -> Arguments:
    """The arguments, with those inside `action`. Raises ToolError."""
    action: Any = native.get("action")
    inner = cast(Arguments, action) if isinstance(action, dict) else {"type": action} if action else {}
    flat = {key: value for key, value in {**native, **inner}.items() if key != "action" and value is not None}
    for key in required:
        if not flat.get(key):
            raise invalid_argument(key, "is missing")
    return flat


def select_action(native: Arguments) -> str:
    """The case of a call. Raises ToolError."""
    flat = _flatten(native)
    kind = str(flat.get("type") or ("find" if "pattern" in flat else "open" if "url" in flat else "search"))
    if kind not in _ACTIONS:
        raise invalid_argument("action", f"cannot be {kind!r:.60}; use {', '.join(_ACTIONS)}")
    return _ACTIONS[kind]


def search_to_base(native: Arguments) -> Arguments:
    """One query, or several."""
    flat = _flatten(native)
    queries = list(flat.get("queries") or ()) or [str(_flatten(native, "query")["query"])]
    return {"queries": queries, **pick(flat, *_DOMAINS)}


def search_from_base(base: Arguments) -> Arguments | None:
    queries: list[str] = base.get("queries") or []
    return {"query": queries[0], **pick(base, *_DOMAINS)} if len(queries) == 1 else None


def make_search_view(
    name: str,
    description: str,
    rows: Rows,
    *,
    page: Renderer | None = None,
    page_failure: Renderer | None = None,
    **options: Any,
) -> View:
    """The search tool of a facade; `rows` are the plain form that the model is shown."""

    def other_case(base: str, *required: str, **case_options: Any) -> Case:
        """A form that is only understood: another tool of the facade expresses it better."""
        return Case(
            base=base,
            to_base=lambda native: pick(_flatten(native, *required), *required[1:], target="url"),
            from_base=lambda base: None,
            **case_options,
        )

    return make_view(
        name,
        description,
        "web_search",
        rows,
        to_base=search_to_base,
        from_base=search_from_base,
        more_cases={
            "open_page": other_case("web_open", "url", result=page, failure=page_failure),
            "find_in_page": other_case("web_find", "url", "pattern"),
        },
        accepts={key: schema for key, schema in _ACCEPTED.items() if key not in rows},
        select_case=select_action,
        required_schema={
            "if": {"anyOf": [{"required": ["action"]}, {"required": ["queries"]}]},
            "else": {"required": ["query"]},
        },
        **options,
    )
