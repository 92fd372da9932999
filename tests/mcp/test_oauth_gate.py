"""Where signing in may lead, and that nothing is sent before that is known."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.mcp.client_kit import call
from tests.mcp.test_client_http import follow, serve

from toolglot.errors import UsageError
from toolglot.mcp import McpServer, McpServers
from toolglot.mcp.client import oauth_gate
from toolglot.mcp.client.oauth_gate import OAuthGate, Place

SERVER = "https://mcp.example/mcp"
NAMES = {
    "auth.example": "93.184.216.34",
    "rebound.example": "169.254.169.254",
    "lan.example": "10.1.2.3",
    "localhost": "127.0.0.1",
}
PUBLIC_ONLY = [
    "https://auth.example/token",
    "https://93.184.216.34/token",
]
REFUSED_BY_ALL = {
    "http://auth.example/token": "leads to auth.example without https",
    "http://93.184.216.34/token": "leads to 93.184.216.34 without https",
    "https://169.254.169.254/latest/meta-data": "169.254.169.254 is not a public address",
    "http://rebound.example/": "rebound.example (169.254.169.254) is not a public address",
    "https://[fe80::1]/": "fe80::1 is not a public address",
    "https://[::ffff:169.254.169.254]/": "is not a public address",
    "https://0.0.0.0/": "0.0.0.0 is not a public address",
    "https://168.63.129.16/": "is not a public address",
    "https://auth.example:22/": "port 22 of auth.example is not a web port",
    "https://missing.example/": "the host 'missing.example' does not exist",
    "https://user@auth.example/": "contains a user name",
    "file:///etc/passwd": "only http and https can be opened, not 'file'",
    "javascript:alert(1)": "only http and https can be opened, not 'javascript'",
}
LOOPBACK = ["http://127.0.0.1:9000/register", "http://localhost:8080/", "https://[::1]/", "http://127.9.9.9/"]
PRIVATE = [
    "http://10.1.2.3/",
    "https://lan.example/",
    "http://192.168.1.1:8080/",
    "https://100.64.0.9/",
    "https://[fd00::9]/",
]


async def resolve(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return [NAMES[host]]


def gate_at(place: Place, *, has_person: bool = True) -> OAuthGate:
    gate = OAuthGate("s", SERVER, has_person=has_person, resolve=resolve)
    gate.place = place
    return gate


def find_refusal(place: Place, url: str) -> str:
    try:
        asyncio.run(gate_at(place).check_address(url))
    except UsageError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("place", ["public", "private", "loopback"])
def test_a_server_names_only_addresses_that_are_as_public_as_it_is(place: Place) -> None:
    for url in PUBLIC_ONLY:
        assert find_refusal(place, url) == ""
    for url, reason in REFUSED_BY_ALL.items():
        assert reason in find_refusal(place, url)
    for url in LOOPBACK:
        assert ("is not a public address" in find_refusal(place, url)) is (place != "loopback")
    for url in PRIVATE:
        assert ("is not a public address" in find_refusal(place, url)) is (place == "public")
    assert find_refusal(place, "https://mcp.example/token") == "", "its own address is the user's choice"


def test_a_refusal_is_one_sentence() -> None:
    assert find_refusal("public", "https://127.0.0.1/") == (
        "signing in to s is refused, because it leads elsewhere: 127.0.0.1 is not a public address; "
        "only a server in that network may name it"
    )


def test_a_request_goes_to_the_address_that_was_checked() -> None:
    gate = gate_at("public")
    request = httpx2.Request("GET", "https://auth.example/.well-known/x")
    asyncio.run(gate.check_request(request))
    assert str(request.url) == "https://93.184.216.34/.well-known/x"
    assert request.headers["host"] == "auth.example"
    assert request.extensions["sni_hostname"] == "auth.example", "and its certificate is that of the name"
    gate.note_response(httpx2.Response(307, request=request))
    assert str(request.url) == "https://auth.example/.well-known/x"


def test_a_proxy_resolves_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    request = httpx2.Request("GET", "https://auth.example/x")
    asyncio.run(gate_at("public").check_request(request))
    assert str(request.url) == "https://auth.example/x"
    with pytest.raises(UsageError, match="not a public address"):
        asyncio.run(gate_at("public").check_request(httpx2.Request("GET", "https://rebound.example/")))


@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_where_a_proxy_is_says_nothing_about_the_server(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:3128")
    gate = OAuthGate("s", SERVER, has_person=True, resolve=resolve)
    response = httpx2.Response(401, request=httpx2.Request("POST", SERVER))
    response.extensions["network_stream"] = FakeConnection("127.0.0.1")
    gate.note_response(response)
    assert gate.place == "public"


class FakeConnection:
    def __init__(self, address: str) -> None:
        self.address = address

    def get_extra_info(self, name: str) -> Any:
        return (self.address, 443) if name == "server_addr" else None


def test_a_name_that_moves_into_a_private_network_gains_nothing() -> None:
    gate = OAuthGate("s", SERVER, has_person=True, resolve=resolve)
    for address, place in (
        ("127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("127.0.0.1", "private"),
        ("169.254.1.1", "public"),
        ("10.0.0.1", "public"),
    ):
        other = httpx2.Response(200, request=httpx2.Request("GET", "https://auth.example/"))
        other.extensions["network_stream"] = FakeConnection("8.8.8.8")
        response = httpx2.Response(401, request=httpx2.Request("POST", SERVER))
        response.extensions["network_stream"] = FakeConnection(address)
        gate.note_response(other)
        gate.note_response(response)
        assert gate.place == place


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_person_only_tokens_are_refreshed(method: str) -> None:
    gate = gate_at("public", has_person=False)
    for body in ({}, {"grant_type": "authorization_code"}, {"redirect_uris": "grant_type=refresh_token"}):
        with pytest.raises(
            UsageError, match="s requires you to sign in; run this in a terminal: toolglot mcp test s;"
        ):
            asyncio.run(gate.check_request(httpx2.Request(method, "https://mcp.example/register", data=body)))
    asyncio.run(
        gate.check_request(
            httpx2.Request("POST", "https://mcp.example/token", data={"grant_type": "refresh_token"})
        )
    )
    request = httpx2.Request("POST", "https://rebound.example/token", data={"grant_type": "refresh_token"})
    with pytest.raises(UsageError, match="not a public address"):
        asyncio.run(gate.check_request(request))


# ---- against servers


@pytest.mark.parametrize("step", ["resource", "server", "registration", "authorization", "token", "redirect"])
@pytest.mark.parametrize("place", ["public", "loopback"])
def test_no_step_of_signing_in_reaches_another_network(
    place: Place, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a server that is said to be public; one on this machine may name others there."""
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))

    def find_place(address: str) -> Place:
        return place

    monkeypatch.setattr(oauth_gate, "_find_place", find_place)
    inside: list[str] = []
    shown: list[str] = []

    def sign_in(server: str, address: str) -> None:
        shown.append(address)
        follow(address)

    with serve(oauth=True, requests=inside) as (url, _):
        internal = url.removesuffix("/mcp")
        with (
            serve(oauth=True, elsewhere={step: internal}) as (public, log),
            McpServers({"s": McpServer(url=public)}, sign_in=sign_in) as servers,
        ):
            error = servers.status()[0].error
            assert (log.count("initialize") == 1) is (error == "")
    if place == "loopback" and step != "redirect":
        assert inside
        return
    assert inside == []
    assert not any(address.startswith(internal) for address in shown)
    if step != "redirect":
        assert error.startswith(
            "signing in to s is refused, because it leads elsewhere: 127.0.0.1 is not a public address"
        )


def test_without_a_person_nobody_is_registered_and_nothing_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    requests: list[str] = []
    with serve(oauth=True, requests=requests) as (url, _), McpServers({"s": McpServer(url=url)}) as servers:
        assert "requires you to sign in" in servers.status()[0].error
        assert call(servers, "mcp__s__who").is_error
    assert set(requests) == {"POST /mcp"}
