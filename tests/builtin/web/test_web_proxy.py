"""The proxy: tickets, one request per connection, a byte limit, and names whose addresses change."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import pytest
from web_site import PUBLIC, Names, Site, make_response, serve

from toolglot.builtin.web.address import AddressGuard
from toolglot.builtin.web.proxy import EgressProxy, Ticket

LOOPBACK = "127.0.0.1"
Check = Callable[[EgressProxy, Ticket], Awaitable[None]]


def run_with_proxy(site: Site, names: Names, check: Check, limit: int = 100_000) -> None:
    async def main() -> None:
        proxy = EgressProxy(AddressGuard((f"{LOOPBACK}:{site.port}",), names.resolve), names.connect)
        await proxy.start()
        try:
            await asyncio.wait_for(check(proxy, proxy.issue(limit)), 10)
        finally:
            await proxy.close()

    asyncio.run(main())


async def send(proxy: EgressProxy, request: str, ticket: Ticket | str | None) -> bytes:
    """Send raw bytes; return everything until the proxy closes."""
    name = ticket.name if isinstance(ticket, Ticket) else ticket
    shown = "" if name is None else f"Proxy-Authorization: Basic {base64.b64encode(f'{name}:-'.encode()).decode()}\r\n"
    reader, writer = await asyncio.open_connection(LOOPBACK, int(proxy.url.rpartition(":")[2]))
    writer.write(request.replace("\n", "\r\n").replace("{ticket}", shown).encode("latin-1"))
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def send_for_status(proxy: EgressProxy, request: str, ticket: Ticket | str | None) -> str:
    return (await send(proxy, request + " HTTP/1.1\n{ticket}\n", ticket))[9:12].decode()


@pytest.mark.parametrize("ticket", [None, "", "guess", "x" * 32])
def test_a_ticket_is_required(site: Site, names: Names, ticket: str | None) -> None:
    async def check(proxy: EgressProxy, _: Ticket) -> None:
        assert await send_for_status(proxy, f"GET {site.url('/near')}", ticket) == "407"
        assert await send_for_status(proxy, f"CONNECT {LOOPBACK}:{site.port}", ticket) == "407"

    run_with_proxy(site, names, check)
    assert site.requests == []


def test_a_revoked_ticket_is_refused(site: Site, names: Names) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        assert await send_for_status(proxy, f"GET {site.url('/near')}", ticket) == "200"
        proxy.revoke(ticket)
        assert await send_for_status(proxy, f"GET {site.url('/near')}", ticket) == "407"

    run_with_proxy(site, names, check)


def test_a_request_is_forwarded_without_the_ticket(site: Site, names: Names) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        head = "Host: liar.test\nX-Own: 1\nProxy-Connection: keep-alive\nConnection: keep-alive\n{ticket}\n"
        data = await send(proxy, f"GET {site.url('/near?q=1')} HTTP/1.1\n{head}", ticket)
        assert b"\r\nConnection: close\r\n" in data
        assert b"you are here" in data

    run_with_proxy(site, names, check)
    (request,) = site.requests
    assert (request.method, request.path) == ("GET", "/near?q=1")
    assert request.headers == {"host": f"{LOOPBACK}:{site.port}", "connection": "close", "x-own": "1"}


def test_a_tunnel_carries_bytes_both_ways(site: Site, names: Names) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        data = await send(proxy, f"CONNECT {LOOPBACK}:{site.port} HTTP/1.1\n{{ticket}}\nGET /near HTTP/1.1\n\n", ticket)
        assert data.startswith(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert data.endswith(b"you are here</p>")

    run_with_proxy(site, names, check)


REFUSED = ["10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0", "localhost", "2130706433", "inside.test"]


@pytest.mark.parametrize("host", REFUSED)
def test_an_address_that_is_not_public_is_refused(site: Site, names: Names, host: str) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        assert await send_for_status(proxy, f"CONNECT {host}:443", ticket) == "403"
        assert await send_for_status(proxy, f"GET http://{host}/", ticket) == "403"
        assert {name for name, _ in ticket.refusals} == {host.strip("[]")}

    names.answers["inside.test"] = [["192.168.0.1"]]
    run_with_proxy(site, names, check)
    assert names.reached == []


def test_each_connection_is_checked_anew(site: Site, names: Names) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        names.answers["turns.test"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
        statuses = [await send_for_status(proxy, "GET http://turns.test/near", ticket) for _ in range(2)]
        assert statuses == ["200", "403"]

    run_with_proxy(site, names, check)
    assert names.reached == [(PUBLIC, 80)]


def test_the_byte_limit_is_shared_by_all_connections(site: Site, names: Names) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        data = await send(proxy, f"GET {site.url('/forever')} HTTP/1.1\n{{ticket}}\n", ticket)
        assert len(data) < 300_000
        assert ticket.is_exhausted
        assert len(await send(proxy, f"GET {site.url('/long')} HTTP/1.1\n{{ticket}}\n", ticket)) < 300

    run_with_proxy(site, names, check, limit=200_000)


MALFORMED = [
    "GET / HTTP/1.1\n{ticket}\n",
    "GET https://127.0.0.1/ HTTP/1.1\n{ticket}\n",
    "GET ftp://127.0.0.1/ HTTP/1.1\n{ticket}\n",
    "GET http://[::1/ HTTP/1.1\n{ticket}\n",
    "GET http://127.0.0.1:x/ HTTP/1.1\n{ticket}\n",
    "CONNECT nowhere HTTP/1.1 more\n{ticket}\n",
    "CONNECT :443 HTTP/1.1\n{ticket}\n",
    "GET\n{ticket}\n",
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}folded\n\n",
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}A : b\n\n",
    "GET http://127.0.0.1/ HTTP/1.1\n{ticket}" + "A: " + "b" * 300_000 + "\n\n",
    "G\x00T http://127.0.0.1/\xff HTTP/1.1\n{ticket}\n",
]


@pytest.mark.parametrize("request_text", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_request_gets_no_connection(site: Site, names: Names, request_text: str) -> None:
    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        assert not (await send(proxy, request_text, ticket)).startswith(b"HTTP/1.1 200")

    run_with_proxy(site, names, check)
    assert names.reached == []


def test_a_response_after_an_interim_one_closes_the_connection(names: Names) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\n\r\nok"
    with serve({"/": early + kept, "/broken": b"not http at all\r\n\r\n", "/half": make_response("x" * 100)[:-50]}) as site:

        async def check(proxy: EgressProxy, ticket: Ticket) -> None:
            data = await send(proxy, f"GET {site.url()} HTTP/1.1\n{{ticket}}\n", ticket)
            assert data.count(b"Connection: close") == 2
            assert b"eep-" not in data
            await send(proxy, f"GET {site.url('/broken')} HTTP/1.1\n{{ticket}}\n", ticket)
            assert b"Content-Length: 100" in await send(proxy, f"GET {site.url('/half')} HTTP/1.1\n{{ticket}}\n", ticket)

        run_with_proxy(site, names, check)


def test_a_failed_connection_is_reported_and_remembered(site: Site, names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    async def check(proxy: EgressProxy, ticket: Ticket) -> None:
        assert await send_for_status(proxy, "CONNECT 8.8.8.8:443", ticket) == "502"
        assert "could not be reached" in str(ticket.refusals["8.8.8.8", 443])

    monkeypatch.setattr(names, "connect", refuse)
    run_with_proxy(site, names, check)
