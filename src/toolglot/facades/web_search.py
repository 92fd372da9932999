"""A web search that is also called in the form of OpenAI's hosted tool: `{action: {type: open_page, url}}`."""

from typing import Any, cast

from toolglot.errors import ToolError
from toolglot.facades.mapping import has_single_query, pick
from toolglot.facades.parameters import string, string_list
from toolglot.facades.view import Arguments, Case, Renderer, View
from toolglot.request import Schema

__all__ = ["make_search_view"]

_ACTIONS = {"search": "", "open_page": "open_page", "open": "open_page", "find_in_page": "find_in_page", "find": "find_in_page"}
_ACCEPTED: Schema = {
    "action": {"type": ["object", "string"]},
    **dict.fromkeys(("type", "url", "pattern"), string()),
    **dict.fromkeys(("queries", "allowed_domains", "blocked_domains"), string_list()),
}


def make_search_view(
    name: str,
    description: str,
    parameters: Schema,
    *,
    result: Renderer | None = None,
    page: Renderer | None = None,
    page_failure: Renderer | None = None,
    aliases: tuple[str, ...] = (),
) -> View:
    """The search tool of a facade; `parameters` is the plain form that the model is shown."""

    def flatten(native: Arguments, *required: str) -> Arguments:
        """The arguments, with those inside `action`. Raises ToolError."""
        action: Any = native.get("action")
        inner = cast(Arguments, action) if isinstance(action, dict) else {"type": action} if action else {}
        flat = {key: value for key, value in {**native, **inner}.items() if key != "action" and value is not None}
        for key in required:
            if not flat.get(key):
                raise ToolError(f"{name}: {key} is missing", kind="validation")
        return flat

    def select_case(native: Arguments) -> str:
        flat = flatten(native)
        kind = str(flat.get("type") or ("find" if "pattern" in flat else "open" if "url" in flat else "search"))
        if kind not in _ACTIONS:
            raise ToolError(f"{name}: there is no action {kind!r:.60}; use {', '.join(_ACTIONS)}", kind="validation")
        return _ACTIONS[kind]

    def search_to_base(native: Arguments) -> Arguments:
        flat = flatten(native)
        queries = list(flat.get("queries") or ()) or [str(flatten(native, "query")["query"])]
        return {"queries": queries, **pick(flat, "allowed_domains", "blocked_domains")}

    def search_from_base(base: Arguments) -> Arguments:
        return {"query": base["queries"][0], **pick(base, "allowed_domains", "blocked_domains")}

    def cannot_express(base: Arguments) -> None:
        """Another tool of the facade expresses it better."""

    properties = parameters["properties"]
    return View(
        name=name,
        description=description,
        parameters=parameters,
        cases={
            "": Case(
                base="web_search",
                to_base=search_to_base,
                from_base=search_from_base,
                can_express=has_single_query(properties["query"].get("minLength", 0)),
                result=result,
            ),
            "open_page": Case(
                base="web_open",
                to_base=lambda native: {"target": flatten(native, "url")["url"]},
                from_base=cannot_express,
                result=page,
                failure=page_failure,
            ),
            "find_in_page": Case(
                base="web_find",
                to_base=lambda native: pick(flatten(native, "url", "pattern"), "pattern", target="url"),
                from_base=cannot_express,
            ),
        },
        accepts={key: schema for key, schema in _ACCEPTED.items() if key not in properties},
        aliases=aliases,
        select_case=select_case,
        required_schema={
            "if": {"anyOf": [{"required": ["action"]}, {"required": ["queries"]}]},
            "else": {"required": ["query"]},
        },
    )
