"""Which addresses of the web may be opened: http and https on public addresses, and what the user has allowed beside them.

Laws: an address is judged as a number, after whatever name or spelling led to it; a name of which one address is not public is
refused whole. Whoever connects does so to an address that was judged, never to the name again.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from toolglot.errors import ToolError, UsageError

__all__ = ["AddressGuard", "Resolver", "Site", "is_public", "parse_site", "resolve_name"]

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a name, as texts."""
MAX_URL = 8_000
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Not public: this host, private, shared, link-local, special, documentation, benchmarks, multicast, reserved; Azure's own host.
_NON_PUBLIC_IPV4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64_PREFIX = IPv6Network("64:ff9b::/96")
# Ports of other protocols, which a request could be taken for.
_BLOCKED_PORTS = frozenset(
    {1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113}
    | {115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554}
    | {556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566}
    | {6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211}
)
_FORBIDDEN_CHARS = re.compile(r"[\x00-\x20\x7f-\x9f\\\u2028\u2029\ufeff]|[\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ALLOW_ENTRY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\s\[\]]+)(?::(?P<port>\d{1,5}))?")


class Site(msgspec.Struct, frozen=True):
    """Where a request goes."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"


def parse_site(url: str) -> Site:
    """Where an address leads. Raises ToolError: it is no address of a page."""
    shown = f"{url[:120]!r}"
    if len(url) > MAX_URL:
        _refuse(f"the address {shown}… has over {MAX_URL} characters")
    if found := _FORBIDDEN_CHARS.search(url):
        _refuse(f"{shown} is not an address: it has the character {found[0]!a}; write it as %XX or leave it out")
    scheme = _SCHEME.match(url)
    if scheme is None:
        _refuse(f"{shown} is neither a known ref nor an address; an address begins with https://")
    if scheme[1].lower() not in _DEFAULT_PORTS:
        _refuse(f"{shown}: only http and https are opened, not {scheme[1].lower()!r}", "not_allowed")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        _refuse(f"{shown} is not an address: host or port cannot be read")
    if "@" in parts.netloc:
        _refuse(f"{shown}: an address with a user name is not opened; leave out what stands before '@'", "not_allowed")
    if not host or not url[scheme.end() :].startswith("//") or port == 0:
        _refuse(f"{shown} is not an address: it names no host")
    return Site(parts.scheme, host.rstrip(".").lower(), port or _DEFAULT_PORTS[parts.scheme])


def _refuse(message: str, kind: str = "validation") -> NoReturn:
    raise ToolError(message, kind="not_allowed" if kind == "not_allowed" else "validation")


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, also where it stands inside of another one."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NON_PUBLIC_IPV4)
    if (inner := address.ipv4_mapped) is not None:
        return is_public(inner)
    if address in _NAT64_PREFIX:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _PUBLIC_IPV6 and not any(address in network for network in _NON_PUBLIC_IPV6)


async def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


class _AllowEntry(msgspec.Struct, frozen=True):
    """What the user has allowed: a name, or a network; one port, or all (0)."""

    name: str
    network: IPv4Network | IPv6Network | None
    port: int


class AddressGuard:
    """Judges where a request may go. allowed: names, addresses and networks that need not be public, with a port or without."""

    def __init__(self, allowed: Iterable[str] = (), resolve: Resolver = resolve_name) -> None:
        self._entries = tuple(map(_parse_allow_entry, allowed))
        self._resolve = resolve

    async def resolve_allowed(self, host: str, port: int) -> list[str]:
        """The addresses to which a connection may be made. Raises ToolError: not_allowed, or the name is not known."""
        host = host.rstrip(".").lower()
        named = any(entry.name == host and entry.port in (0, port) for entry in self._entries)
        if port in _BLOCKED_PORTS and not named:
            raise ToolError(f"port {port} of {host} is not one of the web", kind="not_allowed")
        found = [_parse_address(text) for text in await self._resolve_host(host, port)]
        for address in found:
            if not (named or is_public(address) or self._is_allowed(address, port)):
                said = host if host == str(address) else f"{host} ({address})"
                raise ToolError(f"{said} is not a public address; the user can allow it (allow_private)", kind="not_allowed")
        return [str(address) for address in found]

    async def _resolve_host(self, host: str, port: int) -> list[str]:
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise ToolError(f"the host {host[:260]!r} is not known; check the address")
        return found

    def _is_allowed(self, address: Address, port: int) -> bool:
        plain = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
        return any(entry.network is not None and plain in entry.network and entry.port in (0, port) for entry in self._entries)


def _parse_address(text: str) -> Address:
    """The address; one that cannot be read is one that is refused."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return IPv4Address(0)


def _parse_allow_entry(text: str) -> _AllowEntry:
    try:
        return _AllowEntry("", ip_network(text, strict=False), 0)
    except ValueError:
        pass
    found = _ALLOW_ENTRY.fullmatch(text)
    if found is None or int(found["port"] or 0) > 65535:
        raise UsageError(
            f"allow_private: {text!r} is neither a host nor a network; write localhost, 10.0.0.5:8080 or 10.0.0.0/8"
        )
    host, port = found["host"].strip("[]").lower(), int(found["port"] or 0)
    try:
        return _AllowEntry("", ip_network(host), port)
    except ValueError:
        return _AllowEntry(host.rstrip("."), None, port)
