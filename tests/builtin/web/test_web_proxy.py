"""The proxy: tickets, one request per connection, a byte limit, and names whose addresses change."""

import asyncio
import base64

import pytest
from web_site import PUBLIC, Names, Site, make_response, serve

from toolglot.builtin.web.proxy import EgressProxy, Ticket
from toolglot.confine.web_address import AddressGuard

LOOPBACK = "127.0.0.1"


def exchange(
    site: Site,
    names: Names,
    *requests: str,
    other_ticket: str | None = "own",
    limit: int = 100_000,
    revoke: bool = False,
) -> tuple[list[bytes], Ticket]:
    """Send requests through a proxy, one connection each; return all responses, and the ticket that was used.

    A request of one line gets the version and the ticket by itself. `other_ticket`: a ticket that was not
    issued, or None."""

    async def main() -> tuple[list[bytes], Ticket]:
        proxy = EgressProxy(AddressGuard((f"{LOOPBACK}:{site.port}",), names.resolve), names.connect)
        await proxy.start()
        ticket = proxy.issue(limit)
        name = ticket.name if other_ticket == "own" else other_ticket
        credentials = base64.b64encode(f"{name}:-".encode()).decode()
        header = "" if name is None else f"Proxy-Authorization: Basic {credentials}\n"
        if revoke:
            proxy.revoke(ticket)
        responses: list[bytes] = []
        try:
            for request in requests:
                text = request if "\n" in request else f"{request} HTTP/1.1\n{{ticket}}\n"
                reader, writer = await asyncio.open_connection(LOOPBACK, int(proxy.url.rpartition(":")[2]))
                writer.write(text.replace("{ticket}", header).replace("\n", "\r\n").encode("latin-1"))
                try:
                    responses.append(await asyncio.wait_for(reader.read(-1), 10))
                except ConnectionError:
                    responses.append(b"")
                finally:
                    writer.close()
        finally:
            await proxy.close()
        return responses, ticket

    return asyncio.run(main())


def statuses(responses: list[bytes]) -> list[str]:
    return [response[9:12].decode() for response in responses]


@pytest.mark.parametrize("ticket", [None, "", "guess", "x" * 32])
def test_a_ticket_is_required(site: Site, names: Names, ticket: str | None) -> None:
    requests = f"GET {site.url('/near')}", f"CONNECT {LOOPBACK}:{site.port}"
    assert statuses(exchange(site, names, *requests, other_ticket=ticket)[0]) == ["407", "407"]
    assert site.requests == []


def test_a_revoked_ticket_is_refused(site: Site, names: Names) -> None:
    assert statuses(exchange(site, names, f"GET {site.url('/near')}")[0]) == ["200"]
    assert statuses(exchange(site, names, f"GET {site.url('/near')}", revoke=True)[0]) == ["407"]


def test_a_request_is_forwarded_without_the_ticket(site: Site, names: Names) -> None:
    head = "Host: liar.test\nX-Own: 1\nProxy-Connection: keep-alive\nConnection: keep-alive\n{ticket}\n"
    (data,), _ = exchange(site, names, f"GET {site.url('/near?q=1')} HTTP/1.1\n{head}")
    assert b"\r\nConnection: close\r\n" in data
    assert b"you are here" in data
    (request,) = site.requests
    assert (request.method, request.path) == ("GET", "/near?q=1")
    assert request.headers == {"host": f"{LOOPBACK}:{site.port}", "connection": "close", "x-own": "1"}


def test_a_tunnel_carries_bytes_both_ways(site: Site, names: Names) -> None:
    (data,), _ = exchange(
        site, names, f"CONNECT {LOOPBACK}:{site.port} HTTP/1.1\n{{ticket}}\nGET /near HTTP/1.1\n\n"
    )
    assert data.startswith(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert data.endswith(b"you are here</p>")


REFUSED = ["10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0", "localhost", "2130706433", "inside.test"]


@pytest.mark.parametrize("host", REFUSED)
def test_an_address_that_is_not_public_is_refused(site: Site, names: Names, host: str) -> None:
    names.answers["inside.test"] = [["192.168.0.1"]]
    responses, ticket = exchange(site, names, f"CONNECT {host}:443", f"GET http://{host}/")
    assert statuses(responses) == ["403", "403"]
    assert {name for name, _ in ticket.refusals} == {host.strip("[]")}
    assert names.reached == []


def test_what_browsers_ask_on_their_own_is_refused(site: Site, names: Names) -> None:
    """Chromium asks a service about the fields of each form that it sees."""
    names.answers["content-autofill.googleapis.com"] = [[PUBLIC]]
    requests = [
        f"CONNECT {host}:443"
        for host in ("content-autofill.googleapis.com", "Content-Autofill.GoogleAPIs.com.")
    ]
    assert statuses(exchange(site, names, *requests)[0]) == ["403", "403"]
    assert names.reached == []


def test_each_connection_is_checked_anew(site: Site, names: Names) -> None:
    names.answers["turns.test"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
    assert statuses(exchange(site, names, *["GET http://turns.test/near"] * 2)[0]) == ["200", "403"]
    assert names.reached == [(PUBLIC, 80)]


def test_the_byte_limit_is_shared_by_all_connections(site: Site, names: Names) -> None:
    requests = f"GET {site.url('/forever')}", f"GET {site.url('/long')}"
    (first, second), ticket = exchange(site, names, *requests, limit=200_000)
    assert len(first) < 300_000
    assert len(second) < 300
    assert ticket.is_exhausted


MALFORMED = [
    *(
        "GET /",
        "GET https://127.0.0.1/",
        "GET ftp://127.0.0.1/",
        "GET http://[::1/",
        "GET http://127.0.0.1:x/",
        "CONNECT :443",
    ),
    *(
        "CONNECT nowhere HTTP/1.1 more\n{ticket}\n",
        "GET\n{ticket}\n",
        "G\x00T http://127.0.0.1/\xff HTTP/1.1\n{ticket}\n",
    ),
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}folded\n\n",
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}A : b\n\n",
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}" + "A: " + "b" * 300_000 + "\n\n",
]


@pytest.mark.parametrize("request_text", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_request_gets_no_connection(site: Site, names: Names, request_text: str) -> None:
    (data,), _ = exchange(site, names, request_text)
    assert not data.startswith(b"HTTP/1.1 200")
    assert names.reached == []


def test_a_response_after_an_interim_one_closes_the_connection(names: Names) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    kept = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\n\r\nok"
    )
    with serve(
        {"/": early + kept, "/broken": b"not http at all\r\n\r\n", "/half": make_response("x" * 100)[:-50]}
    ) as site:
        (data, _, half), _ = exchange(
            site, names, *(f"GET {site.url(path)}" for path in ("/", "/broken", "/half"))
        )
    assert data.count(b"Connection: close") == 2
    assert b"eep-" not in data
    assert b"Content-Length: 100" in half


def test_a_failed_connection_is_reported_and_remembered(
    site: Site, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    monkeypatch.setattr(names, "connect", refuse)
    responses, ticket = exchange(site, names, "CONNECT 8.8.8.8:443")
    assert statuses(responses) == ["502"]
    assert "could not be reached" in str(ticket.refusals["8.8.8.8", 443])
