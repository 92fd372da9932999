"""Decides which web addresses may be opened: http and https on public addresses, and what the user has
allowed beside them.

Invariants: an address is checked as a number, after whatever name or spelling led to it; a name is refused if
any of its addresses is not public. The machine's own addresses, and those of its neighbours, do not count as
public. A connection goes to an address that was checked, never to the name again.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from toolglot.errors import ToolError, UsageError
from toolglot.values.failures import ErrorCode

__all__ = ["AddressGuard", "Resolver", "Site", "is_neighbour", "is_public", "parse_site", "resolve_name"]

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a name, as texts."""
MAX_URL = 8_000
_DEFAULT_PORTS = {"http": 80, "https": 443}
# IANA's special-purpose registry: this host, private, shared, link-local, documentation, benchmarking,
# multicast, reserved; and 168.63.129.16, Azure's host service.
_NON_PUBLIC_IPV4 = tuple(
    map(
        IPv4Network,
        (
            *(
                "0.0.0.0/8",
                "10.0.0.0/8",
                "100.64.0.0/10",
                "127.0.0.0/8",
                "168.63.129.16/32",
                "169.254.0.0/16",
                "172.16.0.0/12",
            ),
            *(
                "192.0.0.0/24",
                "192.0.2.0/24",
                "192.88.99.0/24",
                "192.168.0.0/16",
                "198.18.0.0/15",
                "198.51.100.0/24",
            ),
            *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64_PREFIX = IPv6Network("64:ff9b::/96")
# Ports of other protocols, whose servers could mistake a request for a command (the Fetch standard's list,
# and databases).
_BLOCKED_PORTS = frozenset(
    {
        1,
        7,
        9,
        11,
        13,
        15,
        17,
        19,
        20,
        21,
        22,
        23,
        25,
        37,
        42,
        43,
        53,
        69,
        79,
        87,
        95,
        101,
        102,
        103,
        104,
        109,
        110,
        111,
        113,
    }
    | {
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
        531,
        532,
        540,
        548,
        554,
    }
    | {
        556,
        563,
        587,
        601,
        636,
        989,
        990,
        993,
        995,
        1719,
        1720,
        1723,
        2049,
        3659,
        4045,
        4190,
        5060,
        5061,
        6000,
        6379,
        6566,
    }
    | {6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211}
)
_FORBIDDEN_CHARS = re.compile(r"[\x00-\x20\x7f-\x9f\\\u2028\u2029\ufeff]|[\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ALLOW_HINT = "the user can allow it (allow_private)"
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
    """Return where a URL leads. Raises ToolError if it is not the URL of a web page."""
    shown, scheme = f"{url[:120]!r}", _SCHEME.match(url)
    if len(url) > MAX_URL:
        raise _site_error(f"the URL {shown}… has over {MAX_URL} characters")
    if match := _FORBIDDEN_CHARS.search(url):
        raise _site_error(
            f"{shown} is not a URL: it contains the character {match[0]!a}; percent-encode or remove it"
        )
    if scheme is None:
        raise _site_error(f"{shown} is neither a known ref nor a URL; a URL begins with https://")
    name = scheme[1].lower()
    if name not in _DEFAULT_PORTS:
        raise _site_error(f"{shown}: only http and https can be opened, not {name!r}", "address_not_allowed")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _site_error(f"{shown} is not a URL: its host or port is malformed") from None
    if "@" in parts.netloc:
        raise _site_error(
            f"{shown} contains a user name: remove what stands before '@'", "address_not_allowed"
        )
    if not host or not url[scheme.end() :].startswith("//") or port == 0:
        raise _site_error(f"{shown} is not a URL: it names no host")
    return Site(name, host.rstrip(".").lower(), port or _DEFAULT_PORTS[name])


def _site_error(message: str, code: ErrorCode = "invalid_url") -> ToolError:
    kind = "not_allowed" if code == "address_not_allowed" else "validation"
    return ToolError(message, kind=kind, code=code)


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, even if it is embedded in another one."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NON_PUBLIC_IPV4)
    if (embedded := address.ipv4_mapped) is not None:
        return is_public(embedded)
    if address in _NAT64_PREFIX:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _PUBLIC_IPV6 and not any(address in network for network in _NON_PUBLIC_IPV6)


def is_neighbour(address: Address) -> bool:
    """Whether an address is one of this machine, or in the same network: /24, or /64 of IPv6."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError, ValueError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Sends nothing. The kernel picks the address from which it would send: for a neighbour, one in the
        # same network; for an address of this machine, that one.
        probe.connect((str(address), 9))
        source = ip_address(str(probe.getsockname()[0]).partition("%")[0])
        prefix_length = 24 if address.version == 4 else 64
        return source in ip_network((int(address), prefix_length), strict=False)
    return False


async def resolve_name(host: str, port: int) -> list[str]:
    """Return the addresses of a name by the system's resolver."""
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(result[4][0]) for result in results))


class _AllowEntry(msgspec.Struct, frozen=True):
    """What the user has allowed: a name, or a network; one port, or all (0)."""

    name: str
    network: IPv4Network | IPv6Network | None
    port: int


class AddressGuard:
    """Decides where a request may go.

    Args:
        allowed: Names, addresses and networks that need not be public, perhaps with a port.
        resolve: Returns the addresses of a name.
        hint: What a refusal says at its end: what to do.
    """

    def __init__(
        self, allowed: Iterable[str] = (), resolve: Resolver = resolve_name, hint: str = _ALLOW_HINT
    ) -> None:
        self._entries = tuple(map(_parse_allow_entry, allowed))
        self._resolve, self._hint = resolve, hint

    async def resolve_allowed(self, host: str, port: int) -> list[str]:
        """Return the addresses to which a connection may be made. Raises ToolError."""
        host = host.rstrip(".").lower()
        entries = [entry for entry in self._entries if entry.port in (0, port)]
        is_allowed_name = any(entry.name == host for entry in entries)
        if port in _BLOCKED_PORTS and not is_allowed_name:
            raise _site_error(f"port {port} of {host} is not a web port", "address_not_allowed")
        addresses = list(map(_parse_address, await self._look_up(host, port)))
        if not is_allowed_name:
            for address in addresses:
                self._check_address(address, host, entries)
        return list(map(str, addresses))

    async def _look_up(self, host: str, port: int) -> list[str]:
        with suppress(ValueError):
            return [str(ip_address(host))]
        texts: list[str] = []
        with suppress(OSError, UnicodeError):
            texts = await self._resolve(host, port)
        if not texts:
            raise ToolError(f"the host {host[:260]!r} does not exist; check the URL", code="url_failed")
        return texts

    def _check_address(self, address: Address, host: str, entries: Iterable[_AllowEntry]) -> None:
        """Raise ToolError unless an address is public and not a neighbour, or in an allowed network."""
        plain = address
        if isinstance(address, IPv6Address):
            plain = address.ipv4_mapped or address
        if any(entry.network is not None and plain in entry.network for entry in entries):
            return
        if not is_public(address):
            problem = "is not a public address"
        elif is_neighbour(plain):
            problem = "is in this machine's own network"
        else:
            return
        name = host if host == str(address) else f"{host} ({address})"
        raise _site_error(f"{name} {problem}; {self._hint}", "address_not_allowed")


def _parse_address(text: str) -> Address:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return IPv4Address(0)  # not public: what cannot be read is refused


def _parse_allow_entry(text: str) -> _AllowEntry:
    with suppress(ValueError):
        return _AllowEntry("", ip_network(text, strict=False), 0)
    match = _ALLOW_ENTRY.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        raise UsageError(
            f"allow_private: {text!r} is neither a host nor a network; write localhost, 10.0.0.5:8080 or "
            "10.0.0.0/8"
        )
    host, port = match["host"].strip("[]").lower(), int(match["port"] or 0)
    with suppress(ValueError):
        return _AllowEntry("", ip_network(host), port)
    return _AllowEntry(host.rstrip("."), None, port)
