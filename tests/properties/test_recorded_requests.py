"""Requests that a provider really accepted: read and written for it again, they say the same and lose
nothing.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.values.request import Request
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.spec import SPECS, WIRES

Recording = dict[str, Any]
# The vendor that a wire's default profile stands for.
VENDORS = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "google",
    "ollama-chat": "ollama",
}


def accepted_bodies(records: list[Recording], wire: str) -> list[tuple[str, str, Recording]]:
    """(id, model, body) of the requests that the wire's own vendor answered with 200."""
    good = [r for r in records if r["status"] == 200 and r["request"] and r["provider"] == VENDORS[wire]]
    in_url = [r["url_path"].rpartition("models/")[2].partition(":")[0] for r in good]
    return [
        (r["id"], r["request"].get("model") or model, r["request"])
        for r, model in zip(good, in_url, strict=True)
    ]


def calls(request: Request) -> list[Any]:
    return [
        (call.name, call.arguments, call.freeform) for message in request.messages for call in message.calls
    ]


def results(request: Request) -> list[Any]:
    return sorted(
        (result.text, result.is_error) for message in request.messages for result in message.results
    )


@pytest.mark.parametrize("wire", WIRES)
def test_accepted_requests_survive_decoding_and_encoding(
    recordings: Callable[[str], list[Recording]], wire: str
) -> None:
    wrong: dict[str, Any] = {}
    seen = 0
    for id, model, body in accepted_bodies(recordings(wire), wire):
        before = copy.deepcopy(body)
        request = decode_request(wire, body, model=model)
        encoded = encode_request(request, resolve_profile(SPECS[wire].default_profile, model))
        again = decode_request(wire, encoded.body, model=model)
        lost = [str(loss) for loss in encoded.losses if "moved into the description" not in loss.reason]
        texts, after = [m.text for m in request.messages], "".join(m.text for m in again.messages)
        kept = all(text in after for text in texts)
        same = (calls(again), results(again)) == (calls(request), results(request))
        names = sorted((t.namespace, t.name) for t in request.tools) == sorted(
            (t.namespace, t.name) for t in again.tools
        )
        if lost or not (kept and same and names) or body != before:
            wrong[id] = {
                "model": model,
                "lost": lost,
                "texts": kept,
                "calls and results": same,
                "tools": names,
            }
        seen += 1
    assert wrong == {}
    assert seen > 20
