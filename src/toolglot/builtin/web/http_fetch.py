"""Opens a page without a browser: plain requests through the proxy, with redirects followed here and every
byte counted.

Invariants: certificates are checked. No cookies, no `.netrc`, no proxy but ours. A body is decompressed chunk
by chunk and never beyond its limit, however small it arrived.
"""

import asyncio
import zlib
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from toolglot.builtin.web.page_text import decode_page, extract_title
from toolglot.builtin.web.pages import LoadedPage
from toolglot.builtin.web.proxy import EgressProxy, Ticket
from toolglot.confine.web_address import parse_site
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

    import aiohttp

__all__ = ["fetch_page"]

MAX_REDIRECTS = 10
_CHUNK_SIZE = 64 * 1024
_TEXT_TYPES = (
    *(
        "text/",
        "application/xhtml",
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-ndjson",
    ),
    "application/yaml",
)
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; toolglot)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip",
}


async def fetch_page(
    proxy: EgressProxy, ticket: Ticket, url: str, max_bytes: int, ssl: "SSLContext | None" = None
) -> LoadedPage:
    """Fetch a page, at most `max_bytes` of its body. Raises ToolError."""
    import aiohttp

    visited: list[str] = []
    authorization = {"Proxy-Authorization": "Basic " + b64encode(f"{ticket.name}:-".encode()).decode()}
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
            if url in visited or len(visited) > MAX_REDIRECTS:
                message = f"{visited[0][:200]!r} redirects in a loop or more than {MAX_REDIRECTS} times"
                raise ToolError(message, code="url_failed")
            visited.append(url)
            try:
                # A tunnel is requested from the proxy itself; a plain request carries the proxy's header
                # along.
                carrier = "proxy_headers" if site.scheme == "https" else "headers"
                options: dict[str, Any] = {carrier: authorization}
                if ssl is not None:
                    options["ssl"] = ssl
                async with session.get(url, proxy=proxy.url, allow_redirects=False, **options) as response:
                    if (refusal := ticket.refusals.get((site.host, site.port))) is not None:
                        raise refusal
                    location = response.headers.get("Location")
                    if response.status in _REDIRECT_STATUSES and location:
                        url = urljoin(url, location.strip().replace(" ", "%20"))
                        continue
                    return _decode_body(response, url, *await _read_body(response, url, max_bytes, ticket))
            except aiohttp.ClientError as e:
                refusal = ticket.refusals.get((site.host, site.port))
                raise refusal or ToolError(_describe_error(e, str(site)), code="url_failed") from None
            except ValueError:
                message = f"{url[:200]!r} cannot be opened: the URL or the response is malformed"
                raise ToolError(message, code="url_failed") from None


async def _read_body(
    response: "aiohttp.ClientResponse", url: str, max_bytes: int, ticket: Ticket
) -> tuple[bytes, tuple[str, ...]]:
    """Return the body, with a note if it is truncated."""
    import aiohttp

    body, truncated = bytearray(), False
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        message = (
            f"the page is compressed with {encoding[:40]!r}, which was not requested and is not supported"
        )
        raise ToolError(message, code="url_failed")
    decompressor = zlib.decompressobj(47) if encoding not in ("", "identity") else None  # 47: gzip or zlib
    try:
        async for chunk in response.content.iter_chunked(_CHUNK_SIZE):
            limit = max_bytes + 1 - len(body)
            body += chunk[:limit] if decompressor is None else decompressor.decompress(chunk, limit)
            if truncated := len(body) > max_bytes:
                break
            await asyncio.sleep(0)
    except zlib.error:
        raise ToolError(f"{url[:200]!r} sent a body that cannot be decompressed", code="url_failed") from None
    except aiohttp.ClientPayloadError:
        if not ticket.is_exhausted:
            raise
        truncated = True
    if truncated := truncated or ticket.is_exhausted:
        response.close()
    notes = (f"the page is larger than {max_bytes} bytes and was truncated",) if truncated else ()
    return bytes(body[:max_bytes]), notes


def _decode_body(
    response: "aiohttp.ClientResponse", url: str, body: bytes, notes: tuple[str, ...]
) -> LoadedPage:
    media_type = response.content_type
    is_text = media_type.startswith(_TEXT_TYPES)
    # valid UTF-8 without NUL is text too; the sample may end within a character
    with suppress(UnicodeDecodeError):
        is_text = is_text or "\0" not in body[:4096][:-4].decode("utf-8")
    if not is_text:
        size = f"over {len(body)} bytes" if notes else f"{len(body)} bytes"
        raise ToolError(f"{url[:200]!r} is a file ({media_type}, {size}), not a page", code="not_text")
    markup = decode_page(body, response.charset or "")
    title = extract_title(markup) if "html" in media_type else ""
    return LoadedPage(
        url=url,
        method="http",
        title=title,
        status=response.status,
        media_type=media_type,
        markup=markup,
        notes=notes,
    )


def _describe_error(error: Exception, host: str) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {host} is not trusted"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"TLS with {host} failed"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return f"{host} closed the connection before its response was complete"
    return f"{host} sent no valid response"
