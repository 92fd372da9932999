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

from toolglot.builtin.web.address import parse_site
from toolglot.builtin.web.proxy import EgressProxy, Ticket
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

    import aiohttp

__all__ = ["FetchedPage", "fetch_page"]

MAX_REDIRECTS = 10
_CHUNK_SIZE = 64 * 1024
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; toolglot)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}


class FetchedPage(msgspec.Struct, frozen=True):
    """What came. cut: there is more of it."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    truncated: bool


async def fetch_page(
    proxy: EgressProxy, ticket: Ticket, url: str, max_bytes: int, ssl: "SSLContext | None" = None
) -> FetchedPage:
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
            site = parse_site(url)
            if url in seen or len(seen) > MAX_REDIRECTS:
                raise ToolError(f"{seen[0][:200]!r} redirects in a circle or over {MAX_REDIRECTS} times")
            seen.append(url)
            try:
                more: dict[str, Any] = {"proxy_headers" if site.scheme == "https" else "headers": shows}
                more |= {} if ssl is None else {"ssl": ssl}
                async with session.get(url, proxy=proxy.url, allow_redirects=False, **more) as answer:
                    refusal = ticket.refusals.get((site.host, site.port))
                    if refusal is not None:
                        raise refusal
                    location = answer.headers.get("Location")
                    if answer.status in _REDIRECT_STATUSES and location:
                        url = urljoin(url, location.strip().replace(" ", "%20"))
                        continue
                    return await _read_body(answer, url, max_bytes, ticket)
            except aiohttp.ClientError as e:
                raise ticket.refusals.get((site.host, site.port)) or ToolError(_describe_error(e, str(site))) from None
            except ValueError:
                raise ToolError(f"{url[:200]!r} cannot be opened: the address or the answer is malformed") from None


async def _read_body(response: "aiohttp.ClientResponse", url: str, max_bytes: int, ticket: Ticket) -> FetchedPage:
    import aiohttp

    body, cut, unpack = bytearray(), False, _make_decompressor(response.headers.get("Content-Encoding", ""))
    try:
        async for piece in response.content.iter_chunked(_CHUNK_SIZE):
            body += unpack(piece, max_bytes + 1 - len(body))
            if cut := len(body) > max_bytes:
                break
            await asyncio.sleep(0)
    except zlib.error:
        raise ToolError(f"{url[:200]!r} sent a body that cannot be unpacked") from None
    except aiohttp.ClientPayloadError:
        if not ticket.is_exhausted:
            raise
        cut = True
    if cut := cut or ticket.is_exhausted:
        response.close()
    return FetchedPage(url, response.status, response.content_type, response.charset or "", bytes(body[:max_bytes]), cut)


def _make_decompressor(encoding: str) -> Callable[[bytes, int], bytes]:
    """Unpacks a piece into at most so many bytes."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return _pass_through
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(f"the page is packed as {kind[:40]!r}, which was not asked for and is not known")
    state: list[Any] = []

    def unpack(piece: bytes, most: int) -> bytes:
        if not state:
            is_raw = kind == "deflate" and piece[:1] and piece[0] & 0x0F != 8
            state.append(zlib.decompressobj(-15 if is_raw else 47))
        return state[0].decompress(piece, max(most, 1))

    return unpack


def _pass_through(chunk: bytes, limit: int) -> bytes:
    return chunk[:limit]


def _describe_error(error: Exception, host: str) -> str:
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
