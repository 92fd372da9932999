"""Questions of a server that cannot be shown are declined, with a note for the model."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams

from toolglot.mcp.client.elicitation import check_question, make_request
from toolglot.mcp.client.remote_call import RemoteCall
from toolglot.tools.context import Context


def form(field: Any) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(
        message="m", requested_schema={"type": "object", "properties": {"a": field}}
    )


def link(url: str, message: str = "m") -> ElicitRequestURLParams:
    return ElicitRequestURLParams(message=message, url=url, elicitation_id="1")


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
        (link("http://["), "its host or port is malformed"),
        (link("file:///etc/passwd"), "only http and https can be opened, not 'file'"),
        (link("javascript:alert(1)"), "only http and https can be opened, not 'javascript'"),
        (link("vscode://x/y"), "only http and https can be opened, not 'vscode'"),
        (link("https://bank.example@evil.example/"), "contains a user name"),
        (link("https://"), "it names no host"),
        (link("https://pay.example/\n"), "it contains the character"),
        (link("https://pay.example/", "m" * 2_001), "it has 2001 characters, more than the limit of 2000"),
        (ElicitRequestFormParams(message="m" * 2_001, requested_schema={}), "it has 2001 characters"),
    ],
)
def test_a_question_that_cannot_be_shown_is_declined(params: ElicitRequestParams, reason: str) -> None:
    async def ask() -> tuple[str, list[str]]:
        context = SimpleNamespace(call=SimpleNamespace(name="t", id="c1"), report=print)
        call = RemoteCall("s", cast(Context, context), 1, asyncio.get_running_loop())
        return (await asyncio.wait_for(call.elicit(params), 10)).action, call.notes

    action, (note,) = asyncio.run(ask())
    assert action == "decline"
    assert note.startswith("s asked for more information in a way that cannot be shown: ")
    assert reason in note


def test_a_question_that_can_be_shown() -> None:
    params = form({"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "default": ["x"]})
    check_question(params)
    assert make_request("s", "t", "1", params).preview == 'a (any of x (X), default ["x"])'


def test_a_question_is_shown_whole() -> None:
    message = "Do you agree?\n" * 140 + "We also take your house."
    request = make_request("s", "t", "1", link("https://pay.example:8443/1", message))
    check_question(link("https://pay.example:8443/1", message))
    assert request.preview == f"{message}\nhttps://pay.example:8443/1"
    assert "a page at pay.example:8443 in" in request.reason
    assert (
        message
        in make_request("s", "t", "1", ElicitRequestFormParams(message=message, requested_schema={})).reason
    )
