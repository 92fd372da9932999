"""The gate by itself: tickets, one request for a connection, counted bytes, and names that change their mind."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import pytest
from web_site import PUBLIC, Names, Site, answer, served

from toolglot.builtin.web.address import AddressGuard
from toolglot.builtin.web.proxy import EgressProxy, Ticket

Test = Callable[[EgressProxy, Ticket], Awaitable[None]]
LOOPBACK = "127.0.0.1"


def at_gate(site: Site, names: Names, test: Test, most: int = 100_000) -> None:
    async def main() -> None:
        gate = EgressProxy(AddressGuard((f"{LOOPBACK}:{site.port}",), names.resolve), names.connect)
        await gate.start()
        try:
            await asyncio.wait_for(test(gate, gate.issue(most)), 10)
        finally:
            await gate.close()

    asyncio.run(main())


async def said(gate: EgressProxy, request: str, ticket: Ticket | str | None) -> bytes:
    """What the gate answers to raw bytes, until it closes."""
    name = ticket.name if isinstance(ticket, Ticket) else ticket
    shown = "" if name is None else f"Proxy-Authorization: Basic {base64.b64encode(f'{name}:-'.encode()).decode()}\r\n"
    port = int(gate.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(request.replace("\n", "\r\n").replace("{ticket}", shown).encode("latin-1"))
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def status(data: bytes) -> str:
    return data[9:12].decode()


@pytest.mark.parametrize("ticket", [None, "", "guess", "x" * 32])
def test_without_a_ticket_there_is_nothing(site: Site, names: Names, ticket: str | None) -> None:
    async def test(gate: EgressProxy, _: Ticket) -> None:
        assert status(await said(gate, f"GET {site.url('/near')} HTTP/1.1\n{{ticket}}\n", ticket)) == "407"
        assert status(await said(gate, f"CONNECT {LOOPBACK}:{site.port} HTTP/1.1\n{{ticket}}\n", ticket)) == "407"

    at_gate(site, names, test)
    assert site.asked == []


def test_a_ticket_ends_with_its_call(site: Site, names: Names) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        assert status(await said(gate, f"GET {site.url('/near')} HTTP/1.1\n{{ticket}}\n", ticket)) == "200"
        gate.revoke(ticket)
        assert status(await said(gate, f"GET {site.url('/near')} HTTP/1.1\n{{ticket}}\n", ticket)) == "407"

    at_gate(site, names, test)


def test_a_request_arrives_as_the_origin_expects_it_and_without_the_ticket(site: Site, names: Names) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        head = "Host: liar.test\nX-Own: 1\nProxy-Connection: keep-alive\nConnection: keep-alive\n{ticket}\n"
        data = await said(gate, f"GET {site.url('/near?q=1')} HTTP/1.1\n{head}", ticket)
        assert b"\r\nConnection: close\r\n" in data
        assert b"you are here" in data

    at_gate(site, names, test)
    (asked,) = site.asked
    assert (asked.method, asked.path) == ("GET", "/near?q=1")
    assert asked.headers == {"host": f"{LOOPBACK}:{site.port}", "connection": "close", "x-own": "1"}


def test_a_tunnel_carries_bytes_both_ways(site: Site, names: Names) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        data = await said(gate, f"CONNECT {LOOPBACK}:{site.port} HTTP/1.1\n{{ticket}}\nGET /near HTTP/1.1\n\n", ticket)
        assert data.startswith(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert data.endswith(b"you are here</p>")

    at_gate(site, names, test)


REFUSED = ["10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0", "localhost", "2130706433", "inside.test"]


@pytest.mark.parametrize("host", REFUSED)
def test_what_is_not_public_is_refused_in_a_tunnel_and_without_one(site: Site, names: Names, host: str) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        assert status(await said(gate, f"CONNECT {host}:443 HTTP/1.1\n{{ticket}}\n", ticket)) == "403"
        assert status(await said(gate, f"GET http://{host}/ HTTP/1.1\n{{ticket}}\n", ticket)) == "403"
        assert {name for name, _ in ticket.refusals} == {host.strip("[]")}

    names.answers["inside.test"] = [["192.168.0.1"]]
    at_gate(site, names, test)
    assert names.reached == []


def test_a_name_that_changes_its_mind_is_judged_anew_and_never_looked_up_after_that(site: Site, names: Names) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        names.answers["turns.test"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
        request = "GET http://turns.test/near HTTP/1.1\n{ticket}\n"
        assert status(await said(gate, request, ticket)) == "200"  # the second answer would have been loopback
        assert status(await said(gate, request, ticket)) == "403"

    at_gate(site, names, test)
    assert names.reached == [(PUBLIC, 80)]


def test_bytes_are_counted_over_all_connections_and_then_it_is_over(site: Site, names: Names) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        data = await said(gate, f"GET {site.url('/forever')} HTTP/1.1\n{{ticket}}\n", ticket)
        assert len(data) < 300_000
        assert ticket.is_exhausted
        assert len(await said(gate, f"GET {site.url('/long')} HTTP/1.1\n{{ticket}}\n", ticket)) < 300

    at_gate(site, names, test, most=200_000)


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
def test_what_is_no_request_gets_no_connection(site: Site, names: Names, request_text: str) -> None:
    async def test(gate: EgressProxy, ticket: Ticket) -> None:
        assert not (await said(gate, request_text, ticket)).startswith(b"HTTP/1.1 200")

    at_gate(site, names, test)
    assert names.reached == []


def test_an_answer_of_two_heads_ends_with_close(names: Names) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\n\r\nok"
    with served({"/": early + kept, "/broken": b"not http at all\r\n\r\n", "/half": answer("x" * 100)[:-50]}) as site:

        async def test(gate: EgressProxy, ticket: Ticket) -> None:
            data = await said(gate, f"GET {site.url()} HTTP/1.1\n{{ticket}}\n", ticket)
            assert data.count(b"Connection: close") == 2
            assert b"eep-" not in data
            await said(gate, f"GET {site.url('/broken')} HTTP/1.1\n{{ticket}}\n", ticket)
            assert b"Content-Length: 100" in await said(gate, f"GET {site.url('/half')} HTTP/1.1\n{{ticket}}\n", ticket)

        at_gate(site, names, test)


def test_nobody_at_the_other_end_is_said_and_kept(site: Site, names: Names) -> None:
    async def refused(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    async def main() -> None:
        gate = EgressProxy(AddressGuard(), refused)
        await gate.start()
        ticket = gate.issue(1000)
        assert status(await said(gate, "CONNECT 8.8.8.8:443 HTTP/1.1\n{ticket}\n", ticket)) == "502"
        assert "could not be reached" in str(ticket.refusals["8.8.8.8", 443])
        await gate.close()

    asyncio.run(main())
