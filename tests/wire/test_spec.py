"""A wire is one row and one package: the rows are complete, nothing else knows a wire's name, and a sixth
wire just works.
"""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import toolglot
from toolglot.common.jsontext import dumps
from toolglot.providers import catalog
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.simulator import routes
from toolglot.simulator.core import Simulator
from toolglot.values.messages import Text, ToolCall, assistant, tool_results, user
from toolglot.values.messages import ToolResult as Result
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire import spec
from toolglot.wire.codec import (
    create_reader,
    decode_request,
    encode_request,
    load_reply_encoder,
    load_request_encoder,
)
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.spec import SPECS, WIRES, WireSpec

ADD = ToolDefinition(
    "add", "Adds.", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
)
SIXTH = WireSpec(
    name="sixth",
    package="sixth_wire",
    class_prefix="Sixth",
    default_profile="sixth",
    options={},
    stream_type="application/x-ndjson",
    frame_end=b"\n",
    paths=((r"/sixth", ""),),
)


@pytest.mark.parametrize("wire", WIRES)
def test_every_row_has_its_package(wire: str) -> None:
    assert SPECS[wire].name == wire
    assert load_request_encoder(wire)
    assert load_reply_encoder(wire).provider == SPECS[wire].default_profile
    assert create_reader(wire)
    assert PROFILES[SPECS[wire].default_profile].wire == wire


def test_names_of_wires_are_in_the_rows_only() -> None:
    """Profiles name their wire; some share its name. Elsewhere the constants of `spec` are used."""
    source = Path(toolglot.__file__).parent
    allowed = {source / "wire" / "spec.py", *(source / "providers").glob("*.py")}
    literal = re.compile("|".join(f'"{name}"' for name in WIRES if name not in PROFILES))
    literals = [
        file
        for file in source.rglob("*.py")
        if file not in allowed and literal.search(file.read_text("utf-8"))
    ]
    assert not literals, f"use the constants of {spec.__name__}"


@pytest.fixture
def _sixth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPECS, "sixth", SIXTH)
    monkeypatch.setitem(
        PROFILES, "sixth", replace(PROFILES["compatible"], id="sixth", title="Sixth", wire="sixth")
    )
    monkeypatch.setattr(routes, "_ROUTES", [(re.compile("/sixth"), "sixth", "")])
    catalog.resolve_profile.cache_clear()


@pytest.mark.usefixtures("_sixth")
def test_a_sixth_wire_encodes_and_decodes() -> None:
    messages = [
        user("hi"),
        assistant([ToolCall("c", "add", {"x": 1})]),
        tool_results(Result("c", (Text("2"),))),
    ]
    request = Request("m", messages, (ADD,), stream=True)
    profile = resolve_profile("sixth", "m")
    body = encode_request(request, profile).body
    assert PrefixEncoder(profile).encode(request).body == dumps(body)
    decoded = decode_request("sixth", body)
    assert [(message.role, message.text) for message in decoded.messages] == [
        ("user", "hi"),
        ("assistant", ""),
        ("tool", ""),
    ]
    assert decoded.messages[1].calls[0].arguments == {"x": 1}
    assert decoded.tools[0].parameters == ADD.parameters


@pytest.mark.usefixtures("_sixth")
@pytest.mark.parametrize("streaming", [False, True])
def test_the_simulator_serves_a_sixth_wire(streaming: bool) -> None:
    body = encode_request(
        Request("m", [user('call add {"x": 1}')], (ADD,), stream=streaming), resolve_profile("sixth", "m")
    ).body
    response = Simulator().handle("POST", "/sixth", {}, dumps(body))
    assert response.status == 200, response.body
    reader = create_reader("sixth", streaming=streaming, content_type=response.headers["content-type"])
    reader.feed(response.body)
    reader.close()
    assert [(call.name, call.arguments) for call in reader.reply.calls] == [("add", {"x": 1})]
