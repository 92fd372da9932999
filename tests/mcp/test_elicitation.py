"""Questions of a server that cannot be shown are declined, with a note for the model."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams

from toolglot.mcp.elicitation import check_question, make_request
from toolglot.mcp.remote_call import RemoteCall
from toolglot.tools.context import Context


def form(field: Any) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message="m", requested_schema={"type": "object", "properties": {"a": field}})


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (form(5), "not a JSON Schema"),
        (form({"enum": 5}), "not a JSON Schema"),
        (form({"oneOf": ["x"]}), "not a JSON Schema"),
        (form({"title": 5}), "not a JSON Schema"),
        (form(True), "Expected `object`, got `bool`"),
        (form({"items": True}), "Expected `object`, got `bool`"),
        (form({"oneOf": [True]}), "Expected `object`, got `bool`"),
        (ElicitRequestURLParams(message="m", url="http://[", elicitation_id="1"), "Invalid IPv6 URL"),
    ],
)
def test_a_question_that_cannot_be_shown_is_declined(params: ElicitRequestParams, reason: str) -> None:
    async def ask() -> tuple[str, list[str]]:
        context = SimpleNamespace(call=SimpleNamespace(name="t", id="c1"), report=print)
        call = RemoteCall("s", cast(Context, context), 1, asyncio.get_running_loop())
        return (await call.elicit(params)).action, call.notes

    action, (note,) = asyncio.run(ask())
    assert action == "decline"
    assert note.startswith("s asked for more information in a way that cannot be shown: ")
    assert reason in note


def test_a_question_that_can_be_shown() -> None:
    params = form({"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "default": ["x"]})
    check_question(params)
    assert make_request("s", "t", "1", params).preview == 'a (any of x (X), default ["x"])'
