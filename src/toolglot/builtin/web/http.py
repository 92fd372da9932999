"""Opening a page without a browser: plain requests through the gate, redirects followed by us, everything counted.

Laws: certificates are checked. No cookie, no `.netrc`, no proxy but the gate. A body is unpacked piece by piece and never
beyond its limit, however small it came.
"""

import asyncio
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec

from toolglot.builtin.web.address import site_of
from toolglot.builtin.web.gate import Gate, Ticket
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

    import aiohttp

__all__ = ["Fetched", "fetch"]

MAX_REDIRECTS = 10
_PIECE = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; toolglot)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}


class Fetched(msgspec.Struct, frozen=True):
    """What came. cut: there is more of it."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool


async def fetch(gate: Gate, ticket: Ticket, url: str, most: int, ssl: "SSLContext | None" = None) -> Fetched:
    """The page at an address, of its body at most so many bytes. Raises ToolError."""
    import aiohttp

    seen: list[str] = []
    shows = {"Proxy-Authorization": "Basic " + b64encode(f"{ticket.name}:-".encode()).decode()}
    session = aiohttp.ClientSession(
        auto_decompress=False,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=16_384,
        max_field_size=16_384,
    )
    async with session:
        while True:
            site = site_of(url)
            if url in seen or len(seen) > MAX_REDIRECTS:
                raise ToolError(f"{seen[0][:200]!r} redirects in a circle or over {MAX_REDIRECTS} times")
            seen.append(url)
            try:
                more: dict[str, Any] = {"proxy_headers" if site.scheme == "https" else "headers": shows}
                more |= {} if ssl is None else {"ssl": ssl}
                async with session.get(url, proxy=gate.url, allow_redirects=False, **more) as answer:
                    refusal = ticket.refused.get((site.host, site.port))
                    if refusal is not None:
                        raise refusal
                    location = answer.headers.get("Location")
                    if answer.status in _REDIRECTS and location:
                        url = urljoin(url, location.strip().replace(" ", "%20"))
                        continue
                    return await _read(answer, url, most, ticket)
            except aiohttp.ClientError as e:
                raise ticket.refused.get((site.host, site.port)) or ToolError(_words(e, str(site))) from None
            except ValueError:
                raise ToolError(f"{url[:200]!r} cannot be opened: the address or the answer is malformed") from None


async def _read(answer: "aiohttp.ClientResponse", url: str, most: int, ticket: Ticket) -> Fetched:
    import aiohttp

    body, cut, unpack = bytearray(), False, _unpacker(answer.headers.get("Content-Encoding", ""))
    try:
        async for piece in answer.content.iter_chunked(_PIECE):
            body += unpack(piece, most + 1 - len(body))
            if cut := len(body) > most:
                break
            await asyncio.sleep(0)
    except zlib.error:
        raise ToolError(f"{url[:200]!r} sent a body that cannot be unpacked") from None
    except aiohttp.ClientPayloadError:
        if not ticket.spent:
            raise
        cut = True
    if cut := cut or ticket.spent:
        answer.close()
    return Fetched(url, answer.status, answer.content_type, answer.charset or "", bytes(body[:most]), cut)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    """Unpacks a piece into at most so many bytes."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return _as_it_is
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(f"the page is packed as {kind[:40]!r}, which was not asked for and is not known")
    state: list[Any] = []

    def unpack(piece: bytes, most: int) -> bytes:
        if not state:
            is_raw = kind == "deflate" and piece[:1] and piece[0] & 0x0F != 8
            state.append(zlib.decompressobj(-15 if is_raw else 47))
        return state[0].decompress(piece, max(most, 1))

    return unpack


def _as_it_is(piece: bytes, most: int) -> bytes:
    return piece[:most]


def _words(error: Exception, host: str) -> str:
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {host} is not trusted"
        case aiohttp.ClientSSLError():
            return f"TLS with {host} failed"
        case aiohttp.ClientHttpProxyError():
            return f"{host} could not be reached"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return f"{host} broke off its answer"
        case aiohttp.InvalidURL():
            return "the address is malformed"
        case _:
            return f"{host} gave no answer that can be read"
