"""A server's questions to the user during a call as approval requests, and the user's answers in MCP's types."""

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import digest, dumps_text
from toolglot.common.textutil import truncate
from toolglot.confine.web_address import parse_site
from toolglot.errors import UsageError
from toolglot.schema.arguments import InvalidArguments, SchemaBinder, check_schema, repair_arguments
from toolglot.values.approvals import Allow, ApprovalRequest, Deny
from toolglot.values.messages import ToolCall

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

__all__ = ["MAX_ATTEMPTS", "check_question", "find_problem", "make_request", "read_answer"]

MAX_ATTEMPTS = 3
"""How often the user is asked again after an invalid answer."""
_MAX_MESSAGE = 2_000


class _Choices(msgspec.Struct, frozen=True):
    """The parts of a field that are examined; in JSON Schema they may be true or false."""

    oneOf: list[dict[str, Any]] = []  # noqa: N815
    anyOf: list[dict[str, Any]] = []  # noqa: N815


class _Field(_Choices, frozen=True):
    items: _Choices = _Choices()


def check_question(params: "ElicitRequestParams") -> None:
    """Raise ValueError or a ToolglotError if a question cannot be shown: everything after this relies on its
    structure.
    """
    if len(params.message) > _MAX_MESSAGE:  # the user must not accept what is not shown
        raise UsageError(f"it has {len(params.message)} characters, more than the limit of {_MAX_MESSAGE}")
    if params.mode == "url":
        parse_site(params.url)
        return
    check_schema(params.requested_schema)
    msgspec.convert(params.requested_schema.get("properties", {}), dict[str, _Field])


def make_request(
    server: str, tool: str, call_id: str, params: "ElicitRequestParams", problem: str = ""
) -> ApprovalRequest:
    """Return the question. `problem`: what was wrong with the last answer."""
    message = params.message
    if params.mode == "url":
        form, defaults = None, dict[str, Any]()
        reason = f"{server} asks you to open a page at {parse_site(params.url)} in your browser"
        preview = f"{message}\n{params.url}"
    else:
        form = params.requested_schema
        fields: dict[str, dict[str, Any]] = form.get("properties", {})
        defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
        required = form.get("required", ())
        reason = f"{server} asks: {message}"
        preview = "\n".join(
            _describe_field(name, field, is_required=name in required) for name, field in fields.items()
        )
    if problem:
        reason = f"{problem}; {reason}"
    call = ToolCall(call_id, tool, defaults)
    request = ApprovalRequest(
        call,
        tool,
        frozenset(),
        server,
        defaults,
        preview or message,
        reason=reason,
        each_time=True,
        form=form,
    )
    return replace(request, fingerprint=digest(request))


def _describe_field(name: str, field: dict[str, Any], *, is_required: bool) -> str:
    """Return one line about a form field: its purpose and the values it accepts."""
    kind = str(field.get("format") or field.get("type", "any"))
    choices = _list_choices(field)
    if choices:
        number = "any" if field.get("type") == "array" else "one"
        kind = f"{number} of {', '.join(choices)}"
    details = [kind]
    details += [f"{word} {field[key]}" for key, word in _BOUNDS.items() if key in field]
    if "default" in field:
        details.append(f"default {dumps_text(field['default'])}")
    if is_required:
        details.append("required")
    line = f"{name} ({', '.join(details)})"
    title = ": ".join(filter(None, [field.get("title"), field.get("description")]))
    return f"{line}: {title}" if title else line


def _list_choices(field: dict[str, Any]) -> list[str]:
    """Return the values that a field accepts, with their titles, if it lists them."""
    items = field.get("items", {})
    values = field.get("enum") or items.get("enum")
    if values:
        return [str(value) for value in values]
    choices: list[str] = []
    for option in (*field.get("oneOf", ()), *items.get("anyOf", ()), *items.get("oneOf", ())):
        choice = str(option.get("const"))
        if "title" in option:
            choice += f" ({option['title']})"
        choices.append(choice)
    return choices


_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "minimum length",
    "maxLength": "maximum length",
    "minItems": "minimum items",
    "maxItems": "maximum items",
}


def find_problem(name: str, field: dict[str, Any], value: Any) -> str:
    """Return what is wrong with a field's value; "" if it is valid."""
    fitted = _fit({name: value}, {"type": "object", "properties": {name: field}})
    return fitted if isinstance(fitted, str) else ""


def _fit(values: dict[str, Any], form: dict[str, Any]) -> dict[str, Any] | str:
    """Convert values to the form's types, such as text to numbers; or return what is wrong with them."""
    binder = SchemaBinder(form)
    if binder.bind(values) is not None:
        return values
    try:
        return repair_arguments(values, binder, "the form")[0]
    except InvalidArguments as e:
        return truncate("; ".join(map(str, e.issues)), 300)


def read_answer(params: "ElicitRequestParams", answer: Allow | Deny) -> "ElicitResult | str":
    """Return the answer for the server, or what is wrong with the values."""
    from mcp_types import ElicitResult

    if isinstance(answer, Deny):
        return ElicitResult(action="decline")
    if params.mode == "url":
        return ElicitResult(action="accept")
    form = params.requested_schema
    defaults = {
        name: field["default"] for name, field in form.get("properties", {}).items() if "default" in field
    }
    values = _fit({**defaults, **(answer.arguments or {})}, form)
    return values if isinstance(values, str) else ElicitResult(action="accept", content=values)
